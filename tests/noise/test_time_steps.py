"""Noise on time steps: exact arithmetic, the same for all whole numbers; least squares; sensitivities and errors of totals."""

from dataclasses import dataclass, replace
from fractions import Fraction as F
from itertools import combinations, product
from math import comb, floor, hypot, log10, sqrt

import mpmath
import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.exact.time_trees import Toeplitz, Tree
from sfumato.framework import TreeDistance
from sfumato.measurements import tree_laplace
from sfumato.noise import Gaussian, Laplace, SeededWords
from sfumato.noise.noise_sums import laplaces_tolerance
from sfumato.noise.series_noise import FINE, SeriesGaussian, TreeLaplace
from sfumato.transformations import Count, Moments, ValueGrid, per_group

pytestmark = pytest.mark.noise_cannot_matter("the words are seeded, or what is looked at has no noise")
HALF = Toeplitz.from_power(F(1, 2), 40)

POWERS = [(F(0), F(3, 4)), (F(7, 16), F(31, 32)), (F(1), F(7, 8))]


def test_coefficients_are_those_of_the_square_root_cut():
    assert HALF.coefficients == tuple(floor(F(comb(2 * k, k), 4**k) * 2**16) for k in range(40))
    assert Toeplitz.from_power(F(0), 3).coefficients == (2**16, 0, 0)
    assert Toeplitz.from_power(F(1), 3).coefficients == (2**16,) * 3


@pytest.mark.parametrize("power, kept", POWERS)
def test_coefficients_with_a_part_kept_are_those_of_the_quotient_and_fall(power, kept):
    with mpmath.workdps(40):
        a, b = (mpmath.mpf(x.numerator) / x.denominator for x in (power, kept))
        above = [mpmath.binomial(a, j) * (-b) ** j for j in range(40)]
        below = [mpmath.binomial(a + j - 1, j) for j in range(40)]
        exact = [mpmath.fsum(above[i] * below[k - i] for i in range(k + 1)) for k in range(40)]
    found = Toeplitz.from_power(power, 2000, kept)
    assert all(0 <= e * 2**16 - c < 1.001 for e, c in zip(exact, found.coefficients, strict=False))
    assert found.coefficients[-1] < found.coefficients[1] or power in (0, 1)
    for wrong in (F(1), F(-1, 2)):
        with pytest.raises(ParameterError):
            Toeplitz.from_power(power, 3, wrong)


def squared(factor, columns):
    """The squared length of a sum of columns, by rational arithmetic."""
    return sum(s * s for s in factor.times([F(int(t in columns)) for t in range(factor.steps)]))


@pytest.mark.parametrize(
    "power, kept", [*POWERS, *((power, F(0)) for power in (F(0), F(1, 16), F(1, 4), F(1, 2), F(1)))]
)
def test_the_first_columns_are_the_longest_sum_of_so_many(power, kept):
    """All sets of steps, of a short series."""
    factor = Toeplitz.from_power(power, 9, kept)
    for k in range(1, 10):
        lengths = {s: squared(factor, s) for s in combinations(range(9), k)}
        assert factor.squared_sum(k) == lengths[tuple(range(k))] == max(lengths.values())


def slowly(factor, z):
    """The recursion in Python's integers."""
    w = []
    for t, own in enumerate(z):
        before = sum(factor.coefficients[j] * w[t - j] for j in range(1, t + 1))
        w.append(own - ((before + 2**15) >> 16))
    return w


@dataclass(frozen=True)
class Given(SeriesGaussian):
    """The same recursion of given draws."""

    drawn: tuple = ()

    def of(self, monkeypatch):
        monkeypatch.setattr(Gaussian, "rounded", lambda law, n, words=None: np.array(self.drawn, np.int64))
        return self.rounded()[0].tolist()


def given(monkeypatch, factor, z, series=1, scale=1):
    return Given((F(scale),), factor, series, tuple(z)).of(monkeypatch)


@pytest.mark.parametrize("power, size", [(F(1, 16), 10), (F(1, 2), 2**31), (F(1), 2**54)])
def test_the_recursion_is_exact(monkeypatch, power, size):
    factor, rng = Toeplitz.from_power(power, 40), np.random.default_rng(size)
    z = rng.integers(-size, size, 80).tolist()
    found = [slowly(factor, z[:40]), slowly(factor, z[40:])]
    assert given(monkeypatch, factor, z, 2) == given(monkeypatch, factor, z, 2, 2**35) == found


@pytest.mark.parametrize("power", [F(0), F(1, 2)])
def test_whole_numbers_pass_through(monkeypatch, power):
    """g(R x + z) = x + g(z): what is released is a function of R x + z, which alone has noise."""
    factor, rng = Toeplitz.from_power(power, 40), np.random.default_rng(1)
    x, z = rng.integers(-1000, 1000, 40).tolist(), rng.integers(-(2**22), 2**22, 40).tolist()
    moved = [int(s * 2**FINE) for s in factor.times([F(n) for n in x])]
    (noise,) = given(monkeypatch, factor, z)
    (both,) = given(monkeypatch, factor, [m + n for m, n in zip(moved, z, strict=True)])
    assert both == [(n << FINE) + w for n, w in zip(x, noise, strict=True)]
    # A factor whose coefficients are not those of the running sums shows more than these.
    other = Toeplitz((2**16, *[c - 1 for c in factor.coefficients[1:] if c], *[0] * 39)[:40])
    if power:
        (wrong,) = given(monkeypatch, other, [m + n for m, n in zip(moved, z, strict=True)])
        assert wrong != [(n << FINE) + w for n, w in zip(x, given(monkeypatch, other, z)[0], strict=True)]


def test_steps_and_totals_have_the_deviations_that_are_promised():
    noise = SeriesGaussian((F(5), F(50)), HALF, 4000)
    drawn = noise.rounded(SeededWords(1)) / 2.0**FINE
    deviations, off = noise.cumulated
    assert np.all(off < 2.0**-11) and deviations[0] == pytest.approx(1)
    assert deviations[-1] == pytest.approx(sqrt(HALF.squared_sum(1)), rel=1e-3)
    for own, scale, law in zip(drawn, (5, 50), noise.laws, strict=True):
        assert np.cumsum(own, axis=1).std(axis=0) == pytest.approx(scale * deviations, rel=0.08)
        assert own.std(axis=0)[-1] == pytest.approx(law.standard_deviation, rel=0.08)
        assert law.standard_deviation == pytest.approx(scale * hypot(*noise.inverse), rel=1e-3)
        # No draw serves two steps, two series or two numbers.
        sums = np.array([HALF.times([F(v) for v in row.tolist()]) for row in own[:30]], np.float64)
        assert sums.std() == pytest.approx(scale, rel=0.1)
        assert abs(np.corrcoef(sums[:, :-1].ravel(), sums[:, 1:].ravel())[0, 1]) < 0.15
    assert abs(np.corrcoef(drawn[0].ravel(), drawn[1].ravel())[0, 1]) < 0.02


@pytest.mark.parametrize(
    "given", [{"scales": ()}, {"scales": (F(0),)}, {"scales": (F(2**41),)}, {"series": 0}]
)
def test_series_that_are_refused(given):
    with pytest.raises(ParameterError):
        SeriesGaussian(**{"scales": (F(1),), "factor": HALF, "series": 1} | given)


# Blocks of steps.

TREES = [
    Tree(1, (1,)), Tree(13, (1, 3, 6)), Tree(50, (1, 7, 49)), Tree(5, (1, 8)), Tree.best(100),
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
