"""Quantiles, read from a noisy tree."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.exact import round_down, round_up
from sfumato.noise.intervals import Interval
from sfumato.noise.sums import NoiseSum
from sfumato.noise.values import Floats
from sfumato.query.aggregates import Quantiles
from sfumato.query.design import Design, block_of
from sfumato.query.estimates.chosen import chosen_quantiles
from sfumato.query.estimates.estimate import Estimate
from sfumato.query.noisy.numbers import NoisyNumbers
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
        noise = NoiseSum([(1.0, numbers.laws[self.total])] * _TREE_TERMS)
        error = noise.tolerance(-math.log10(failure))
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
    """Ask for quantiles, all of one tree; chosen places, where noise is drawn for all numbers together."""
    if design.together:
        return chosen_quantiles(design, name, aggregate)
    lower, upper = round_down(aggregate.lower), round_up(aggregate.upper)
    exponent = max(design.weight_exponent(), TREE_EXPONENT)
    label = design.label(block_of(aggregate))
    tree = QuantileTree(label, aggregate.column, design.rows, lower, upper, exponent)
    design.add(tree)
    return tuple(
        QuantileEstimate(output, total=tree.names[0], lower=lower, upper=upper, rank=rank)
        for output, rank in zip(aggregate.outputs(name), aggregate.ranks, strict=True)
    )


def _last_of_run(sure: NDArray[np.bool_], ends: Floats, otherwise: float) -> Floats:
    """Return the last end of the run of sure ones that the row begins with."""
    run = np.logical_and.accumulate(sure, axis=1).sum(axis=1)
    return np.where(run > 0, ends[np.arange(len(ends)), np.maximum(run - 1, 0)], otherwise)
