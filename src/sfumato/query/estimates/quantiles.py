"""Quantiles, read from a noisy tree."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.exact import round_down, round_up
from sfumato.measurements.noise import Law
from sfumato.noise import Gaussian
from sfumato.query.aggregates import Quantiles, names_of
from sfumato.query.design import Design, block_of
from sfumato.query.estimates.estimate import Estimate
from sfumato.query.intervals import Floats, Interval, two_sided
from sfumato.query.numbers import NoisyNumbers
from sfumato.transformations import QuantileTree
from sfumato.transformations.statistics.quantile_tree import BRANCHING, HEIGHT

# Leaves are counted in steps of 2^-14 rows, so that 64 bits hold a tree of 2^49 rows.
TREE_EXPONENT = -14
# So many noisy counts at most, each with a weight from -1 to 1, are the rows left of the end of a leaf
# less a share of all rows.
_TREE_TERMS = HEIGHT * (BRANCHING - 1) + 2
_LEAF_SLACK = 2.0**-49


@dataclass(frozen=True)
class QuantileEstimate(Estimate):
    """The value below which a share of the rows lies."""

    kind = "quantile"

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return where the walk down the tree ended."""
        assert self.total is not None
        tree = numbers.trees[self.total]
        share = tree.values[:, tree.ranks.index(self.rank)]
        return self.lower + share * (self.upper - self.lower)

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return the ends of leaves that are surely below the rank, and surely above."""
        assert self.total is not None
        tree = numbers.trees[self.total]
        # Of the rows left of a place, less the rank's share of all, a sum of noises is all that is wrong.
        error = _path_tolerance(numbers.laws[self.total], failure)
        target = (self.rank * tree.total)[:, None]
        low = _last_of_run(tree.below - target < -error, tree.low, 0.0)
        high = _last_of_run((tree.upto - target > error)[:, ::-1], tree.high[:, ::-1], 1.0)
        # A row's leaf is found in floats, so that it may lie a little outside.
        width, slack = self.upper - self.lower, _LEAF_SLACK * (abs(self.lower) + abs(self.upper))
        return Interval(
            np.maximum(self.lower + low * width - slack, self.lower),
            np.minimum(self.lower + high * width + slack, self.upper),
        )


def quantiles(design: Design, name: str, aggregate: Quantiles) -> tuple[Estimate, ...]:
    """Ask for quantiles, all of one tree."""
    lower, upper = round_down(aggregate.lower), round_up(aggregate.upper)
    exponent = max(design.weight_exponent(), TREE_EXPONENT)
    label = design.label(block_of(aggregate))
    tree = QuantileTree(label, aggregate.column, design.rows, lower, upper, exponent)
    design.add(tree)
    return tuple(
        QuantileEstimate(output, total=tree.names[0], lower=lower, upper=upper, rank=rank)
        for output, rank in zip(names_of(name, aggregate), aggregate.ranks, strict=True)
    )


def _last_of_run(sure: NDArray[np.bool_], ends: Floats, otherwise: float) -> Floats:
    """Return the last end of the run of sure ones that the row begins with."""
    run = np.logical_and.accumulate(sure, axis=1).sum(axis=1)
    return np.where(run > 0, ends[np.arange(len(ends)), np.maximum(run - 1, 0)], otherwise)


def _path_tolerance(law: Law, failure: float) -> float:
    """Return t with P(|weighted sum of the noises on a path| > t) <= failure, in grid steps."""
    n, scale = _TREE_TERMS, float(law.unit)
    rounding = n / 2
    if isinstance(law, Gaussian):
        return math.sqrt(n) * scale * two_sided(failure) + rounding
    # Chernoff: P(|sum| > t) <= 2 exp(-u t) (1 - u^2)^-n for every u in (0, 1), t in scales.
    tries = [i / 200 for i in range(1, 200)]
    bounds = [(math.log(2 / failure) - n * math.log1p(-u * u)) / u for u in tries]
    return min(bounds) * scale + rounding
