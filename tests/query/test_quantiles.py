"""Quantiles read from trees, where the noise is small beside the counts."""

import numpy as np
import pytest

from sfumato.noise import Gaussian, Laplace, SeededWords
from sfumato.query.quantiles import PROFILE, LeafCounts, noisy_tree
from sfumato.transformations.statistics.quantile_tree import LEAVES

RANKS = (0.04, 0.25, 0.5, 0.9)
STEPS = 1 << 14


def leaf_counts(groups: list[dict[int, int]]) -> LeafCounts:
    """Counts of rows by leaf, for each group, in steps of 2^-14 rows."""
    places = [
        (g * LEAVES + leaf, n * STEPS) for g, rows in enumerate(groups) for leaf, n in sorted(rows.items())
    ]
    position = np.array([p for p, _ in places], np.int64)
    before = np.concatenate([[0], np.cumsum([n for _, n in places])]).astype(np.int64)
    return LeafCounts(position, before, len(groups))


def quantile(rows: dict[int, int], rank: float) -> tuple[float, float]:
    """The ends of the leaf that holds the rank, as shares of the range."""
    leaves = sorted(rows)
    held = np.cumsum([rows[leaf] for leaf in leaves])
    leaf = leaves[min(int(np.searchsorted(held, rank * held[-1], side="right")), len(leaves) - 1)]
    return leaf / LEAVES, (leaf + 1) / LEAVES


@pytest.mark.parametrize("law", [Gaussian(STEPS), Laplace(STEPS)], ids=str)
def test_near_the_exact_quantiles(law):
    rng = np.random.default_rng(7)
    spread = np.bincount(rng.integers(0, 500, 200_000), minlength=500)
    # Fifteen small branches of 0.5% each, which are no noise where there are a million rows.
    small = {4096 * i + 9: 5_000 for i in range(15)} | {4096 * 15 + 9: 925_000}
    groups = [small, {i * 131: int(n) for i, n in enumerate(spread) if n}, {65_535: 10_000}]
    tree = noisy_tree(leaf_counts(groups), law, RANKS, SeededWords(1))
    for found, rows in zip(tree.values, groups, strict=True):
        total = sum(rows.values())
        for value, rank in zip(found, RANKS, strict=True):
            # The noise of a path is at most about 60 * 4 rows here: a share of the total.
            low, _ = quantile(rows, max(0.0, rank - 300 / total))
            _, high = quantile(rows, min(1.0, rank + 300 / total))
            assert low <= value <= high + 1e-12, (rank, value, low, high)


def test_quantiles_grow_with_rank_also_in_noise_alone():
    groups = [{}, {5: 1}, {70: 3, 60_000: 2}]
    tree = noisy_tree(leaf_counts(groups), Gaussian(100 * STEPS), RANKS, SeededWords(3))
    assert (np.diff(tree.values, axis=1) >= 0).all() and (np.diff(tree.profile, axis=1) >= 0).all()
    assert ((tree.values >= 0) & (tree.values <= 1)).all()
    assert tree.profile.shape == (3, len(PROFILE)) and (tree.total >= 1).all()
