"""Noisy numbers to outputs and their error bars. Post-processing: nothing private is seen here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.measurements.noise import Law
from sfumato.noise.intervals import Interval, Noises
from sfumato.noise.sums import NoiseSum
from sfumato.noise.values import Floats
from sfumato.query.quantiles import NoisyTree
from sfumato.query.statistics import Estimate
from sfumato.transformations.statistics.quantile_tree import BRANCHING, HEIGHT

# So many noisy counts at most, each with a weight from -1 to 1, are the rows left of the end of a leaf
# less a share of all rows.
_TREE_TERMS = HEIGHT * (BRANCHING - 1) + 2
_LEAF_SLACK = 2.0**-49


@dataclass(frozen=True)
class NoisyNumbers:
    """The noisy numbers of a batch of groups, in the units of the statistics.

    Args:
        values: by coordinate, float64 of shape (groups,).
        trees: by coordinate of a tree.
        laws: by coordinate, the law of the noise in grid steps.
        steps: by coordinate, the grid step.
    """

    values: Mapping[str, Floats]
    trees: Mapping[str, NoisyTree]
    laws: Mapping[str, Law]
    steps: Mapping[str, Fraction]

    def output(self, estimate: Estimate) -> pa.Array:
        """Return one output column: int64 for whole numbers that it surely holds, else float64."""
        value = self._value(estimate)
        if estimate.integer:
            # Nobody has the rows to get here; 2^63 is the first float64 beyond int64.
            return arrow_column(np.clip(value, -(2.0**63), np.nextafter(2.0**63, 0)).astype(np.int64))
        return arrow_column(value)

    def half_width(self, estimate: Estimate, confidence: float) -> Floats:
        """Return half-widths t: with this confidence the exact statistic is within t of the output.

        The exact statistic is that of the bounded contributions; what bounding itself changed is
        not part of it.
        """
        value, interval = self._value(estimate), self._interval(estimate, 1 - confidence)
        return np.maximum(np.maximum(interval.high - value, value - interval.low), 0.0)

    def _count(self, e: Estimate) -> Floats:
        if e.count is None:
            return np.zeros(1)
        # No statistic counts fewer than zero missing values; clipping halves their noise.
        absent = 0.0 if e.absent is None else np.maximum(self.values[e.absent], 0.0)
        return self.values[e.count] - absent

    def _value(self, e: Estimate) -> Floats:
        value = self._exact_value(e)
        return np.rint(value) if e.whole else value

    def _exact_value(self, e: Estimate) -> Floats:
        if e.kind == "quantile":
            assert e.total is not None
            tree = self.trees[e.total]
            share = tree.values[:, tree.ranks.index(e.rank)]
            return e.lower + share * (e.upper - e.lower)
        count = self._count(e)
        if e.kind == "count":
            return count
        assert e.total is not None
        total = self.values[e.total]
        if e.kind == "sum":
            return total + e.centre * count
        count = np.maximum(count, 1.0)
        mean = total / count
        if e.kind == "mean":
            return np.clip(mean + e.centre, e.lower, e.upper)
        assert e.squares is not None
        return _spread(e, self.values[e.squares] / count + e.square_centre - mean**2)

    def _interval(self, e: Estimate, failure: float) -> Interval:
        """Return an interval that holds the exact statistic but with probability `failure`."""
        if e.kind == "quantile":
            return self._quantile_interval(e, failure)
        noises = Noises(self.laws, {n: float(s) for n, s in self.steps.items()})
        counted = {n: sign for n, sign in ((e.count, 1.0), (e.absent, -1.0)) if n is not None}
        if e.kind in ("count", "sum"):
            weights = {n: sign * (e.centre if e.kind == "sum" else 1.0) for n, sign in counted.items()}
            if e.total is not None:
                weights = {e.total: 1.0} | weights
            weights = {n: w for n, w in weights.items() if w}
            size = len(self.values[next(iter(weights))])
            exact = sum((w * self.values[n] for n, w in weights.items()), np.zeros(size))
            half = noises.tolerance({n: np.full(size, w) for n, w in weights.items()}, failure)
            return Interval(exact - half, exact + half)
        assert e.total is not None
        if e.kind == "mean":
            mean = noises.ratio(
                self.values, e.total, counted, (e.lower - e.centre, e.upper - e.centre), failure
            )
            return mean.map(lambda x: x + e.centre)
        assert e.squares is not None
        # Mean and mean square lie in their intervals together but with half the failure of each.
        mean = noises.ratio(self.values, e.total, counted, (-e.reach, e.reach), failure / 2)
        reach = -e.square_centre, e.reach**2 - e.square_centre
        square = noises.ratio(self.values, e.squares, counted, reach, failure / 2)
        return (square.map(lambda x: x + e.square_centre) - mean.squared()).map(lambda x: _spread(e, x))

    def _quantile_interval(self, e: Estimate, failure: float) -> Interval:
        assert e.total is not None
        tree = self.trees[e.total]
        # Of the rows left of a place, less the rank's share of all, a sum of noises is all that is wrong.
        noise = NoiseSum([(1.0, self.laws[e.total])] * _TREE_TERMS)
        error = noise.tolerance(-math.log10(failure))
        target = (e.rank * tree.total)[:, None]
        low = _last_of_run(tree.below - target < -error, tree.low, 0.0)
        high = _last_of_run((tree.upto - target > error)[:, ::-1], tree.high[:, ::-1], 1.0)
        # A row's leaf is found in floats, so that it may lie a little outside.
        width, slack = e.upper - e.lower, _LEAF_SLACK * (abs(e.lower) + abs(e.upper))
        return Interval(
            np.maximum(e.lower + low * width - slack, e.lower),
            np.minimum(e.lower + high * width + slack, e.upper),
        )


def arrow_column(values: NDArray[np.float64] | NDArray[np.int64]) -> pa.Array:
    """Return a float64 or int64 array as Arrow, without a copy.

    `pa.array` would do, but imports pandas where it is installed: a third of a second.
    """
    kind = pa.int64() if values.dtype == np.int64 else pa.float64()
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [None, data])


def _spread(e: Estimate, variance: Floats) -> Floats:
    if e.kind == "variance":
        return np.clip(variance, 0.0, e.upper)
    return np.sqrt(np.clip(variance, 0.0, e.upper**2))


def _last_of_run(sure: NDArray[np.bool_], ends: Floats, otherwise: float) -> Floats:
    """Return the last end of the run of sure ones that the row begins with."""
    run = np.logical_and.accumulate(sure, axis=1).sum(axis=1)
    return np.where(run > 0, ends[np.arange(len(ends)), np.maximum(run - 1, 0)], otherwise)
