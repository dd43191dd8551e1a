"""Noises with a part in common, and of groups and their totals: how they are drawn, and what they say of themselves."""

import math
from fractions import Fraction as F
from math import log10, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import ParameterError
from sfumato.exact.rollup import Rollup
from sfumato.noise import Gaussian, SeededWords
from sfumato.noise.centred_noise import FINE, MAX_SCALE, CentredGaussian
from sfumato.noise.level_noise import _SOLVED, LevelsGaussian, least_squares
from sfumato.noise.level_tolerances import LevelNoises, variances
from sfumato.noise.noise_sums import Form

pytestmark = pytest.mark.noise_cannot_matter("the words are seeded")
NOISE = CentredGaussian((F(3), F(8), F(1000)), F(9), (1, 3, 0), 4)


def test_a_draw_is_made_of_draws_on_the_fine_grid():
    words = SeededWords(1)
    shared = int(Gaussian(F(9) * 2**FINE).rounded(1, words=words)[0])
    expected = []
    for scale, weight in ((F(3), 1), (F(8), 3)):
        own = Gaussian(scale * 2**FINE).rounded(4, words=words).tolist()
        expected.append([math.floor(F(z + weight * shared, 2**FINE) + F(1, 2)) for z in own])
    expected.append(Gaussian(F(1000)).rounded(4, words=words).tolist())
    assert NOISE.rounded(SeededWords(1)).tolist() == expected


def test_laws_are_no_narrower_than_the_noise():
    """At each half step, wherever a real number within the rounding of the fine grid may be."""
    for noise in (NOISE, CentredGaussian((F(1, 50), F(20)), F(1, 40), (1, 1000), 2)):
        for law, scale, weight in zip(noise.laws, noise.scales, noise.weights, strict=True):
            true = math.sqrt(scale**2 + (weight * noise.shared) ** 2)
            assert 1 <= float(law.sigma) / true < 1.003
            off = (weight + 1) * 2.0**-FINE / 2 * bool(weight)
            for m in range(4):
                assert (m + 0.5) / float(law.sigma) <= (m + 0.5 - off) / true * (1 + 1e-15)


@pytest.mark.parametrize(
    "given",
    [((F(1),), F(1), (1, 0)), ((F(0),), F(1), (1,)), ((F(1),), F(0), (1,)), ((MAX_SCALE,), F(1), (1,)),
     ((F(1),), F(1), (2**11,)), ((F(1),), F(1), (-1,))],
)  # fmt: skip
def test_parts_in_common_that_are_refused(given):
    with pytest.raises(ParameterError):
        CentredGaussian(*given, 3)


# Groups and their totals.

SETS = ((0, 1), (0,), (1,), ())


def rollup_of(keys, sets=SETS):
    """Levels of cells with these keys, by the definition."""
    values, levels = [len(set(column)) for column in zip(*keys, strict=True)], []
    for own in sets:
        named = [tuple(key[i] for i in own) for key in keys]
        numbers = {name: i for i, name in enumerate(sorted(set(named)))}
        levels.append(tuple(numbers[name] for name in named))
    return Rollup(sets, tuple(values), tuple(levels))


@st.composite
def rollups(draw):
    keys = draw(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=14, unique=True)
    )
    sets = draw(st.sampled_from([SETS, ((0, 1), (0,), ()), ((0, 1), (1,)), ((0, 1),), ((0, 1), (1,), (0,))]))
    return rollup_of(keys, sets)


def matrix(rollup):
    """One row for each total: which cells it adds up."""
    return [
        np.equal.outer(np.arange(len(s)), c) * 1.0 for s, c in zip(rollup.sizes, rollup.codes, strict=True)
    ]


weights = st.lists(st.sampled_from([0.0, 0.25, 1.0, 3.0]), min_size=4, max_size=4)


def normal(rollup, of_levels):
    return sum(w * a.T @ a for w, a in zip(of_levels, matrix(rollup), strict=False))


@given(rollups(), weights)
@settings(max_examples=40, deadline=None)
def test_variances_are_those_of_least_squares_or_more(rollup, own):
    own = [1.0, *own[1 : len(rollup.sets)]]
    inverse = np.linalg.inv(normal(rollup, own))
    chain = len(rollup.chain(0, [i for i, w in enumerate(own) if w])) == len([w for w in own if w])
    for level, (a, found) in enumerate(zip(matrix(rollup), variances(rollup, own), strict=True)):
        exact = np.einsum("ij,jk,ik->i", a, inverse, a)
        assert np.all(found >= exact * (1 - 1e-9))
        if rollup.complete or (chain and (own[level] or level == 0)):
            assert found == pytest.approx(exact, rel=1e-9)


@given(rollups(), weights, st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_cells_are_those_of_least_squares(rollup, own, seed):
    own = [1.0, *own[1 : len(rollup.sets)]]
    rng = np.random.default_rng(seed)
    apart = {
        i: rng.integers(-(2**20), 2**20, (2, len(rollup.sizes[i]))) for i, w in enumerate(own) if i and w
    }
    found = least_squares(rollup, own, apart, 2)
    a = matrix(rollup)
    wanted = sum((own[i] * n @ a[i] for i, n in apart.items()), np.zeros((2, rollup.cells)))
    assert found == pytest.approx(np.linalg.solve(normal(rollup, own), wanted.T).T, abs=1e-6)


@pytest.mark.long
def test_what_least_squares_leave():
    """Of uneven trees, a total is within 2^-20 of its deviation of where it should be.

    With r what is left of the equations M x = y, and v the cells of a total, |v M^-1 r| is at most
    sqrt(v M^-1 v) sqrt(r M^-1 r): the deviation, times the length of r over the root of the least eigenvalue.
    """
    rng, keys = np.random.default_rng(1), []
    for i in range(64):
        keys += [(i, j) for j in range(1 + (i**3 * 2000) // 64**3)]
    for sets in (SETS, SETS[:2] + SETS[3:]):
        rollup = rollup_of(keys, sets)
        for every in ([1 / 64, 1.0, 1.0, 1.0], [1.0, 1e-3, 64.0, 1e-4]):
            own = every[: len(sets)]
            scale = 2.0**30 / sqrt(own[0])
            apart = {
                i: np.rint(rng.normal(0, scale * sqrt(rollup.largest(i)), (1, len(rollup.sizes[i])))).astype(
                    np.int64
                )
                for i in range(1, len(sets))
            }
            found = least_squares(rollup, own, apart, 1)[0]
            left = own[0] * found
            for i, totals in apart.items():
                left += own[i] * (np.bincount(rollup.codes[i], found) - totals[0])[rollup.codes[i]]
            assert sqrt(left @ left) / sqrt(own[0]) < 2.0**30 * _SOLVED


def test_noise_of_cells_and_totals_has_the_deviations_that_are_promised():
    """4,000 draws: each deviation within 8 percent, which is 7 of its own deviations."""
    rollup = rollup_of([(i, j) for i in range(3) for j in range(1 + 2 * i)], SETS[:2] + SETS[3:])
    noise, words = LevelsGaussian((F(20), F(7)), (F(1), F(3, 2), F(2)), rollup), SeededWords(4)
    drawn = np.array([noise.rounded(words) for _ in range(4000)]) / 2.0**16
    for level, deviations in enumerate(noise.deviations):
        for c, scale in enumerate((20, 7)):
            found = rollup.totals(drawn[:, c], level).std(axis=0)
            assert found == pytest.approx(scale * deviations, rel=0.08)
            assert not np.allclose(found, scale * np.sqrt(rollup.sizes[level]), rtol=0.2)


def test_tolerances_are_of_all_that_a_sum_is_made_of():
    noises = LevelNoises(
        None,
        {"a": 1.0, "b": 0.5},
        {"a": 3.0, "b": 8.0},
        np.array([1.0, 2.0]),
        {"a": np.zeros(2), "b": np.ones(2)},
    )
    one = noises.tolerance({"a": np.ones(2)}, 0.05)
    assert one == pytest.approx([3 * 1.96, 6 * 1.96], rel=0.2)
    both = noises.tolerance({"a": np.ones(2), "b": -np.ones(2)}, 0.05)
    assert both == pytest.approx(one * 5 / 3 + 0.5)
    along = noises.along([(1, Form({"a": 1.0}))], [(1, Form({"b": 1.0}))], 0.05)
    assert along(np.ones(2)) == pytest.approx(both)
    assert log10(0.05) < 0


@pytest.mark.parametrize(
    "scales, sizes", [((F(0),), (F(1),)), ((F(2**49),), (F(1),)), ((F(1),), (F(0),)), ((F(1),), (F(1), F(1)))]
)
def test_totals_that_are_refused(scales, sizes):
    with pytest.raises(ParameterError):
        LevelsGaussian(scales, sizes, rollup_of([(0, 0)], SETS[:1]))
