"""Laplace noise on blocks of time steps: exact arithmetic, least squares, errors of totals, and their bounds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction as F
from itertools import combinations, product
from math import log10, sqrt

import numpy as np
import pytest

from sfumato.audit import falsify
from sfumato.errors import ParameterError
from sfumato.exact.time_trees import Tree
from sfumato.framework import TreeDistance
from sfumato.measurements import tree_laplace
from sfumato.noise import Laplace, SeededWords
from sfumato.noise.noise_sums import laplaces_tolerance
from sfumato.noise.series_noise import FINE, TreeLaplace
from sfumato.transformations import Count, CountUnits, Moments, ValueGrid, bound_groups, per_group

TREES = [
    Tree(1, (1,)), Tree(7, (1,)), Tree(13, (1, 3, 6)), Tree(30, (1, 2, 4, 8)), Tree(50, (1, 7, 49)),
    Tree(36, (1, 6)), Tree(5, (1, 8)), Tree.best(100),
]  # fmt: skip


def dense(tree):
    """Which steps each block has, and least squares: by matrices."""
    rows = [
        [int(first <= t < first + size) for t in range(tree.steps)]
        for size in tree.sizes
        for first in range(0, tree.steps, size)
    ]
    blocks = np.array(rows, float)
    return blocks, np.linalg.solve(blocks.T @ blocks, blocks.T)


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_errors_of_totals_and_corrections_are_those_of_least_squares(tree):
    blocks, squares = dense(tree)
    weights = np.cumsum(squares, axis=0)
    variance, largest = tree.totals
    assert np.allclose(variance, (weights**2).sum(axis=1))
    assert np.allclose(largest, np.abs(weights).max(axis=1))
    noisy = np.random.default_rng(1).normal(size=(2, len(blocks)))
    own, rest = noisy[:, : tree.steps], noisy[:, tree.steps :]
    residues = []
    for level in range(1, tree.levels):
        part, rest = rest[:, : tree.nodes(level)], rest[:, tree.nodes(level) :]
        residues.append(part - tree.added_up(own, level))
    assert np.allclose(own + tree.corrections(residues), noisy @ squares.T)


def test_the_best_tree_has_a_third_of_the_error_of_1000_weeks_by_themselves():
    best, alone = Tree.best(1000), Tree(1000, (1,))
    assert best.levels * best.error < 0.35 * alone.error == pytest.approx(0.35 * sqrt(500.5))
    assert [Tree.best(n).sizes for n in (1, 52)] == [(1,), (1, 9)]
    for given in ((5, (2,)), (5, (1, 3, 4)), (5, (1, 1)), (0, (1,)), ((1 << 14) + 1, (1,))):
        with pytest.raises(ParameterError):
            Tree(*given)


@pytest.mark.noise_cannot_matter("the words are seeded")
@pytest.mark.parametrize("scale", [F(3), F(2) ** 36])
def test_what_is_drawn_is_the_same_for_all_exact_numbers(scale, monkeypatch):
    """Exact numbers in blocks move what is released by themselves, to the last bit: floats see none of them."""
    tree = Tree(13, (1, 3, 6))
    noise = TreeLaplace((scale, 2 * scale), tree, series=2)
    rng, honest = np.random.default_rng(3), Laplace.rounded
    steps = rng.integers(-(10**6), 10**6, (2, 2, 13))
    bits = FINE if scale < 2**34 else 0
    exact = [tree.added_up(steps << bits, level).reshape(2, -1) for level in range(tree.levels)]

    def moved(added):
        given = iter([block for level in exact for block in level])

        def rounded(self, count, words):
            return honest(self, count, words=words) + added * next(given)

        monkeypatch.setattr(Laplace, "rounded", rounded)
        return noise.rounded(SeededWords(5))

    assert (moved(1) - moved(0) == steps.astype(object) << FINE).all()


@pytest.mark.noise_cannot_matter("the words are seeded")
@pytest.mark.parametrize("scale", [F(5), F(2) ** 36])
def test_totals_are_as_far_off_as_is_said(scale):
    noise = TreeLaplace((scale,), Tree.best(60), series=500)
    totals = np.cumsum(noise.rounded(SeededWords(2))[0].astype(float), axis=1) / 2**FINE / float(scale)
    deviations, off = noise.cumulated
    assert totals.std(axis=0) == pytest.approx(deviations, rel=0.15) and off.max() / float(scale) < 1e-3
    assert sqrt((totals**2).mean()) == pytest.approx(noise.deviation, rel=0.05)
    bar = laplaces_tolerance(-log10(0.05), deviations, noise.largest)
    inside = (np.abs(totals) <= bar).mean()
    assert 0.95 < inside < 0.985


SUMS = [[1.0], [1.0, 1.0], [1.0] * 10, [1.0] * 3 + [0.2] * 50, [0.3] * 300, [1.0] + [0.1] * 20]


def tail(scales, t):
    """P(|S| > t), by the characteristic function, of at least two noises."""
    frequencies = np.linspace(0, 200 / sqrt(sum(s * s for s in scales)), 40_001)[1:]
    counts = Counter(scales).items()
    parts = -sum(n * np.log1p((s * frequencies) ** 2) for s, n in counts)
    density = np.exp(parts) * np.sin(frequencies * t) / frequencies
    width = frequencies[1] - frequencies[0]
    return 1 - 2 / np.pi * (width * (density.sum() - density[-1] / 2) + width * t / 2)


@pytest.mark.parametrize("scales", SUMS, ids=len)
def test_no_sum_of_laplace_noises_is_farther_than_is_said(scales):
    for k in (0.3, 1.3, 2.0, 4.0):
        t = float(laplaces_tolerance(k, sqrt(2 * sum(s * s for s in scales)), max(scales)))
        chance = np.exp(-t) if len(scales) == 1 else tail(scales, t)
        assert chance <= 10**-k * (1 + 1e-3) + 1e-7
        assert k > 2 or chance >= 0.3 * 10**-k
    one, many = (float(laplaces_tolerance(300, sqrt(2) * s, s)) for s in (1.0, 5.0))
    assert 300 * np.log(10) <= one < 1.1 * 300 * np.log(10) and many == pytest.approx(5 * one)


def test_a_bound_without_the_largest_scale_would_be_broken():
    """Planted: all noises are taken for equally large."""
    scales = [1.0] + [0.01] * 300
    deviation = sqrt(2 * sum(s * s for s in scales))
    wrong = float(laplaces_tolerance(5, deviation, deviation / sqrt(2 * len(scales))))
    assert (
        tail(scales, wrong) > 10**-5 < 10 * tail(scales, float(laplaces_tolerance(5, deviation, 1.0))) + 1e-4
    )


STATISTICS = [Count(2), Moments("x", "x", 2, ValueGrid(0, -3, 3))]
TREE = Tree(5, (1, 2))


def shape(series=1, groups=2, kind=TreeDistance):
    names = tuple(n for s in STATISTICS for n in s.names)
    metric = kind(names, (F(2), F(6)), TREE, tuple(tuple(range(5 * i, 5 * i + 5)) for i in range(series)))
    body = per_group(STATISTICS, groups=groups).output_metric.body
    return replace(metric, scales=tuple(metric.moved(body, groups) * s for s in metric.scales))


@pytest.mark.parametrize("series", [1, 2])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_no_unit_moves_blocks_by_more_than_1_and_one_moves_them_as_far(series, groups):
    metric = shape(series, groups)
    largest = [{"rows": 2, "x.sum": s} for s in (-6, 6)]
    moved = max(
        metric.distance(dict(zip(chosen, vectors, strict=True)), {})
        for chosen in combinations(range(5 * series), groups)
        for vectors in product(largest, repeat=groups)
    )
    assert moved == 1


class OfOneLevel(TreeDistance):
    """A unit is taken to be in blocks of one level."""

    def moved(self, body, groups):
        return super().moved(body, groups) / self.factor.levels


class OfOneStep(TreeDistance):
    """A unit is taken to be in one step."""

    def moved(self, body, groups):
        return super().moved(body, 1)


class OfLength(TreeDistance):
    """Changes of groups are taken to add up as squares do."""

    def moved(self, body, groups):
        return super().moved(body, 1) * F(sqrt(groups))


@pytest.mark.parametrize("wrong", [OfOneLevel, OfOneStep, OfLength])
def test_a_wrong_sensitivity_is_found_by_the_falsifier(wrong):
    statistics, one = [CountUnits()], wrong(("units",), (F(1),), TREE, (range(5),))
    body = per_group(statistics, groups=3).output_metric.body
    metric = replace(one, scales=(one.moved(body, 3),))
    chain = bound_groups(3) >> per_group(statistics, groups=3, together=metric)
    assert falsify(chain, 1, evaluations=150).violated
    honest = TreeDistance(metric.names, (F(6),), TREE, metric.series)
    chain = bound_groups(3) >> per_group(statistics, groups=3, together=honest)
    assert not falsify(chain, 1, evaluations=150).violated


@pytest.mark.noise_cannot_matter("keys and errors do not depend on noise")
def test_what_the_measurement_takes():
    release = tree_laplace(2, shape())
    assert release.map(3) == F(3, 2) and set(release({})) == set(range(5))
    with pytest.raises(ParameterError):
        tree_laplace(2**40, shape())
    with pytest.raises(ParameterError):
        per_group(STATISTICS, groups=3, together=shape(groups=2))
    with pytest.raises(ParameterError):
        TreeDistance(("n",), (F(1),), TREE, (range(4),))
    assert shape().distance({0: {"other": 1}}, {}) == float("inf")
