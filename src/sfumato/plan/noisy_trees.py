"""Quantile trees and value trees: noise on the nodes along the walks to ranks, or on all, each node once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.measurements.independent_noise import Law
from sfumato.measurements.int128_array import float64_values, int64_values
from sfumato.noise import Words
from sfumato.noise.law_tails import Floats
from sfumato.plan.noisy_statistics import NoisyCdf, NoisyTree
from sfumato.transformations.statistics.quantile_counts import BRANCHING, HEIGHT, LEAVES, ValueTree

# Children with less than this share of their siblings' total, and less than so many deviations of the
# noise, are taken as empty: many small positive noises would pull ranks towards empty ranges.
EMPTY_SHARE = 0.0075
EMPTY_DEVIATIONS = 2.0
# Walks to these ranks are kept, from which error bars are read later.
PROFILE = np.linspace(0.0, 1.0, 101)


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


def noisy_cdf(counts: pa.ListArray, statistic: ValueTree, law: Law, words: Words | None = None) -> NoisyCdf:
    """Draw the noise of all nodes of a value tree, and return noisy cumulative counts.

    Args:
        counts: exact counts: a list of structs (leaf, weight) for each group.
        statistic: the value tree.
        law: of the noise of one node, in grid steps.
        words: a source of random words, for tests alone.
    """
    tree, groups = statistic.tree, len(counts)
    entries, group = counts.flatten(), np.repeat(np.arange(groups), np.diff(int64_values(counts.offsets)))
    noisy = np.zeros((groups, tree.steps), np.int64)
    places = float64_values(entries.field("leaf")) - statistic.lattice.lower
    noisy[group, places.astype(np.int64)] = int64_values(entries.field("weight"))
    own, *blocks = (
        law.rounded(groups * size, words=words).reshape(groups, size)
        for size in map(tree.nodes, range(tree.levels))
    )
    # What noisy blocks are off the sums of noisy values depends on their noise alone (`corrections`).
    residues = [(one - tree.added_up(own, level)).astype(float) for level, one in enumerate(blocks, 1)]
    return NoisyCdf(np.cumsum((noisy + own) + tree.corrections(residues), axis=1))
