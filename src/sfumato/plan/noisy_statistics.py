"""Noisy statistics of a batch of groups: all that outputs and error bars are computed from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.measurements.independent_noise import Law
from sfumato.measurements.int128_array import arrow_column, int64_values
from sfumato.noise import Words
from sfumato.noise.laws import Floats, Gaussian
from sfumato.noise.level_noise import LevelNoises
from sfumato.noise.noise_sums import Noises, laplaces_tolerance
from sfumato.plan.quantile_candidates import Places
from sfumato.query import sizes
from sfumato.query.group_totals import Totals
from sfumato.transformations.statistics.quantile_counts import BRANCHING, HEIGHT, LEAVES

# Children with less than this share of their siblings' total, and less than so many deviations of the
# noise, are taken as empty: many small positive noises would pull ranks towards empty ranges.
EMPTY_SHARE = 0.0075
EMPTY_DEVIATIONS = 2.0
# Walks to these ranks are kept, from which error bars are read later.
PROFILE = np.linspace(0.0, 1.0, 101)


def kept_rows(column: pa.Array, kept: NDArray[np.bool_]) -> pa.Array:
    """Return the kept rows of an Arrow column, in memory of their own: no other row is in it.

    Args:
        column: of any type.
        kept: for each row, whether it is kept.
    """
    edges = np.flatnonzero(np.diff(kept, prepend=False, append=False)).reshape(-1, 2)
    if len(edges) > sizes.KEPT_PARTS:
        return column.take(arrow_column(np.flatnonzero(kept).astype(np.int64)))
    parts = [column.slice(start, end - start) for start, end in edges.tolist()]
    return pa.concat_arrays([*parts, column.slice(0, 0), column.slice(0, 0)])  # one array would not be copied


def kept_batch(batch: pa.RecordBatch, kept: NDArray[np.bool_]) -> pa.RecordBatch:
    """Return the kept rows of an Arrow batch, as `kept_rows` does for each column."""
    return pa.RecordBatch.from_arrays([kept_rows(c, kept) for c in batch.columns], schema=batch.schema)


@dataclass(frozen=True)
class LeafCounts:
    """Sparse exact leaf counts of the quantile trees of a batch of groups, sorted by group and leaf.

    Args:
        position: int64, group * LEAVES + leaf.
        before: int64 of one more element: counts of all leaves before each position.
        groups: the number of groups.
    """

    position: NDArray[np.int64]
    before: NDArray[np.int64]
    groups: int

    @classmethod
    def from_arrow(cls, column: pa.ListArray) -> LeafCounts:
        """Read leaf counts of quantile trees from a list of structs (leaf, weight) for each group."""
        lengths = np.diff(int64_values(column.offsets))
        entries = column.flatten()
        leaf, weight = int64_values(entries.field("leaf")), int64_values(entries.field("weight"))
        group = np.repeat(np.arange(len(column), dtype=np.int64), lengths)
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(weight, dtype=np.int64)])
        return cls(group * LEAVES + leaf, before, len(column))

    def between(self, edges: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return leaf counts between consecutive positions along the last axis."""
        return np.diff(self.before[np.searchsorted(self.position, edges)], axis=-1)


@dataclass(frozen=True)
class NoisyTree:
    """The noisy statistics of a quantile tree: quantiles at the requested ranks, and their bounds.

    For every hundredth, the walk to it ends in a node: in a leaf, or in a larger node below which nothing
    was found. Where in it the rows are, no count tells.

    Args:
        ranks: the asked ranks.
        values: shape (groups, ranks): quantiles as shares of the range.
        low, high: shape (groups, 101): the ends of these nodes, as shares of the range, rising.
        below, upto: shape (groups, 101): noisy numbers of rows left of each end, in grid steps: sums of
            counts as they came, also negative ones, so that their errors are sums of noises.
        total: shape (groups,): noisy number of all rows, likewise.
    """

    ranks: tuple[float, ...]
    values: Floats
    low: Floats
    high: Floats
    below: Floats
    upto: Floats
    total: Floats


def noisy_tree(
    counts: LeafCounts,
    law: Law,
    ranks: tuple[float, ...],
    words: Words | None = None,
    profile: Floats = PROFILE,
) -> NoisyTree:
    """Draw the noise of all tree nodes on the way to the ranks, each once; return the noisy quantiles.

    Args:
        counts: exact leaf counts.
        law: of the noise of one node, in grid steps.
        ranks: the asked ranks in [0, 1].
        words: a source of random words, for tests alone.
        profile: ranks to which walks are kept for error bars.
    """
    wanted = np.concatenate([np.array(ranks), profile])
    group = np.repeat(np.arange(counts.groups, dtype=np.int64), len(wanted))
    share = np.tile(wanted, counts.groups)
    node = np.zeros(len(group), np.int64)
    stopped = np.zeros(len(group), bool)
    # Where a walk is, in leaves, and the noisy numbers of rows left of it and in it.
    value, left, right, before, here = np.zeros((5, len(group)))
    total = np.zeros(counts.groups)
    width = LEAVES
    for level in range(HEIGHT):
        width //= BRANCHING
        places, index = np.unique(group * BRANCHING**level + node, return_inverse=True)
        edges = places[:, None] * (width * BRANCHING) + np.arange(BRANCHING + 1, dtype=np.int64) * width
        exact = counts.between(edges)
        noisy = exact + law.rounded(exact.size, words=words).reshape(exact.shape)
        if level == 0:
            total = noisy.sum(axis=1, dtype=float)
            here = total[group]
        kept = _cumulative(noisy, law.standard_deviation)[index]
        below = kept[:, -1] == 0
        target = share * kept[:, -1]
        child = np.minimum((kept[:, 1:] <= target[:, None]).sum(axis=1), BRANCHING - 1)
        # The last rank lands behind the last child that holds anything.
        filled = (kept[:, 1:] < kept[:, -1:]).sum(axis=1)
        child = np.minimum(child, np.minimum(filled, BRANCHING - 1))
        rows = np.arange(len(child))
        low, high = kept[rows, child], kept[rows, child + 1]
        inside = np.where(high > low, (target - low) / np.where(high > low, high - low, 1.0), 0.5)
        ending = below & ~stopped
        value = np.where(ending, (node + share) * (width * BRANCHING), value)
        left = np.where(ending, node * (width * BRANCHING), left)
        right = np.where(ending, (node + 1) * (width * BRANCHING), right)
        stopped |= below
        counted = noisy[index].astype(float)
        ahead = (counted * (np.arange(BRANCHING) < child[:, None])).sum(axis=1)
        before = np.where(stopped, before, before + ahead)
        here = np.where(stopped, here, counted[rows, child])
        node = node * BRANCHING + child
        share = np.where(stopped, share, np.clip(inside, 0.0, 1.0))
    value = np.where(stopped, value, node + share) / LEAVES
    left = np.where(stopped, left, node) / LEAVES
    right = np.where(stopped, right, node + 1) / LEAVES
    value, left, right, before, upto = (
        x.reshape(counts.groups, len(wanted)) for x in (value, left, right, before, before + here)
    )
    asked, kept_for = slice(len(ranks)), slice(len(ranks), None)
    return NoisyTree(
        ranks,
        value[:, asked],
        left[:, kept_for],
        right[:, kept_for],
        before[:, kept_for],
        upto[:, kept_for],
        total,
    )


def _cumulative(noisy: NDArray[np.int64], deviation: float) -> Floats:
    """Return cumulative noisy counts of tree nodes; those that look empty are taken as empty."""
    positive = np.maximum(noisy, 0).astype(float)
    total = positive.sum(axis=1, keepdims=True)
    empty = np.minimum(EMPTY_SHARE * total, EMPTY_DEVIATIONS * deviation)
    kept = np.where(positive >= empty, positive, 0.0)
    return np.concatenate([np.zeros((len(kept), 1)), np.cumsum(kept, axis=1)], axis=1)


@dataclass(frozen=True)
class Cumulated:
    """Noisy cumulative totals of time steps.

    Args:
        values: by coordinate, float64 of shape (groups,), in the units of the statistics.
        scales: by coordinate, the scale of the noise in grid steps.
        deviations: of each group's total, over the scale.
        off: how far each is off a sum of unrounded noises at most, before it is rounded to a whole step.
        largest: where totals are sums of Laplace noises, the largest scale among them, over the scale; None
            where they are Gaussian.
    """

    values: Mapping[str, Floats]
    scales: Mapping[str, float]
    deviations: Floats
    off: Floats
    largest: Floats | None = None

    def reach(self, sizes: Mapping[str, float], k: float) -> Floats:
        """Return the tolerance t of noisy cumulative totals: P(|weighted sum| > t) <= 10^-k.

        Args:
            sizes: by coordinate, the weight of its total.
            k: greater than 0.
        """
        deviations = self.deviation(sizes)
        if self.largest is None:
            return Gaussian(1).tolerance(k) * deviations
        widest = max(size * self.scales[n] for n, size in sizes.items())
        return laplaces_tolerance(k, deviations, widest * self.largest)

    def deviation(self, sizes: Mapping[str, float]) -> Floats:
        """Return the standard deviation of each weighted sum of noisy cumulative totals, before rounding."""
        return math.hypot(*(size * self.scales[n] for n, size in sizes.items())) * self.deviations


@dataclass(frozen=True)
class Levelled:
    """Noisy statistics of groups and of their totals, level by level.

    Args:
        totals: which there are.
        noises: of all that is shown.
        cells: the numbers of groups, without totals.
        keys: of the groups.
        values: by coordinate, those of each level, shown or not.
    """

    totals: Totals
    noises: LevelNoises
    cells: NoisyNumbers
    keys: pa.RecordBatch
    values: Mapping[str, list[Floats]]


@dataclass(frozen=True, repr=False)
class NoisyNumbers(Spelled):
    """The noisy statistics of a batch of groups, in the units of the statistics.

    Args:
        values: by coordinate, float64 of shape (groups,), or (groups, entries) where it is a vector.
        trees: by coordinate of a tree.
        laws: by coordinate, the law of the noise in grid steps.
        steps: by coordinate, the grid step.
        chosen: by coordinate of counts, the places that were chosen from them.
        totals: of time steps, all up to each; None where none are asked.
        levels: of groups and their totals; None where none are asked.
        noise: that was drawn, of all coordinates; None where nothing was.
    """

    values: Mapping[str, Floats]
    trees: Mapping[str, NoisyTree]
    laws: Mapping[str, Law]
    steps: Mapping[str, Fraction]
    chosen: Mapping[str, Places] = field(default_factory=dict)
    totals: Cumulated | None = None
    levels: Levelled | None = None
    noise: Any = None

    @property
    def cumulated(self) -> Cumulated:
        """The noisy cumulative totals, for a query that has them."""
        assert self.totals is not None
        return self.totals

    def row(self, index: int) -> NoisyNumbers | None:
        """Return the noisy statistics of one group; None with trees, chosen places or totals."""
        if self.trees or self.chosen or self.totals is not None or self.levels is not None:
            return None
        return replace(self, values={n: v[index : index + 1] for n, v in self.values.items()})

    @property
    def noises(self) -> Noises:
        """The noise in the noisy statistics, for intervals."""
        if self.levels is not None:
            return self.levels.noises
        return Noises(self.noise, {n: float(s) for n, s in self.steps.items()})
