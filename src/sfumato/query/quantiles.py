"""Quantiles read from trees of noisy counts, for many groups at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.measurements.noise import Law
from sfumato.measurements.wide import int64_values
from sfumato.noise import Words
from sfumato.transformations.statistics.quantile_tree import BRANCHING, HEIGHT, LEAVES

# Children with less than this share of their siblings' total, and less than so many deviations of the
# noise, are taken as empty: many small positive noises would pull ranks towards empty ranges.
EMPTY_SHARE = 0.0075
EMPTY_DEVIATIONS = 2.0
# The quantile function is kept at these ranks, from which error bars are read later.
PROFILE = np.linspace(0.0, 1.0, 101)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LeafCounts:
    """Sparse exact leaf counts of a batch of groups, sorted by group and leaf.

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
        """Read a list of structs (leaf, weight), without nulls, for each group."""
        lengths = np.diff(int64_values(column.offsets))
        entries = column.flatten()
        leaf, weight = int64_values(entries.field("leaf")), int64_values(entries.field("weight"))
        group = np.repeat(np.arange(len(column), dtype=np.int64), lengths)
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(weight, dtype=np.int64)])
        return cls(group * LEAVES + leaf, before, len(column))

    def between(self, edges: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the counts between consecutive positions along the last axis."""
        return np.diff(self.before[np.searchsorted(self.position, edges)], axis=-1)


@dataclass(frozen=True)
class NoisyTree:
    """What is kept of a tree after noise: quantiles at the asked ranks, and the quantile function.

    Args:
        ranks: the asked ranks.
        values: shape (groups, ranks): quantiles as shares of the range.
        profile: shape (groups, 101): the quantile function at every hundredth.
        total: shape (groups,): noisy number of rows, in grid steps, at least one step.
    """

    ranks: tuple[float, ...]
    values: Floats
    profile: Floats
    total: Floats


def noisy_tree(
    counts: LeafCounts, law: Law, ranks: tuple[float, ...], words: Words | None = None
) -> NoisyTree:
    """Draw the noise of all nodes that are looked at, each once, and walk down to the ranks.

    Args:
        counts: exact leaf counts.
        law: of the noise of one node, in grid steps.
        ranks: the asked ranks in [0, 1].
        words: a source of random words, for tests alone.
    """
    wanted = np.concatenate([np.array(ranks), PROFILE])
    group = np.repeat(np.arange(counts.groups, dtype=np.int64), len(wanted))
    share = np.tile(wanted, counts.groups)
    node = np.zeros(len(group), np.int64)
    stopped = np.zeros(len(group), bool)
    value = np.zeros(len(group))
    total = np.ones(counts.groups)
    width = LEAVES
    for level in range(HEIGHT):
        width //= BRANCHING
        places, index = np.unique(group * BRANCHING**level + node, return_inverse=True)
        edges = places[:, None] * (width * BRANCHING) + np.arange(BRANCHING + 1, dtype=np.int64) * width
        exact = counts.between(edges)
        noisy = exact + law.rounded(exact.size, words=words).reshape(exact.shape)
        if level == 0:
            total = np.maximum(noisy.sum(axis=1).astype(float), 1.0)
        cumulative = _cumulative(noisy, law.standard_deviation)
        here = cumulative[index]
        below = here[:, -1] == 0
        target = share * here[:, -1]
        child = np.minimum((here[:, 1:] <= target[:, None]).sum(axis=1), BRANCHING - 1)
        # The last rank lands behind the last child that holds anything.
        filled = (here[:, 1:] < here[:, -1:]).sum(axis=1)
        child = np.minimum(child, np.minimum(filled, BRANCHING - 1))
        rows = np.arange(len(child))
        low, high = here[rows, child], here[rows, child + 1]
        inside = np.where(high > low, (target - low) / np.where(high > low, high - low, 1.0), 0.5)
        ending = below & ~stopped
        value = np.where(ending, (node + share) * (width * BRANCHING), value)
        stopped |= below
        node = node * BRANCHING + child
        share = np.where(stopped, share, np.clip(inside, 0.0, 1.0))
    value = np.where(stopped, value, node + share) / LEAVES
    shaped = value.reshape(counts.groups, len(wanted))
    profile = np.maximum.accumulate(shaped[:, len(ranks) :], axis=1)
    return NoisyTree(ranks, shaped[:, : len(ranks)], profile, total)


def _cumulative(noisy: NDArray[np.int64], deviation: float) -> Floats:
    """Return cumulative counts of children, those that look empty taken as empty."""
    positive = np.maximum(noisy, 0).astype(float)
    total = positive.sum(axis=1, keepdims=True)
    empty = np.minimum(EMPTY_SHARE * total, EMPTY_DEVIATIONS * deviation)
    kept = np.where(positive >= empty, positive, 0.0)
    return np.concatenate([np.zeros((len(kept), 1)), np.cumsum(kept, axis=1)], axis=1)
