"""Noise of all units and a cube: draws against 500 bits, laws against closed forms, densities against the claim.

Seeds are fixed. sup |F_n - F| passes sqrt(ln(2 / a) / (2 n)) with probability at most a (Massart); a = 1e-12.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction as F
from itertools import product

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad

from sfumato.errors import ParameterError
from sfumato.noise import SeededWords
from sfumato.noise.k_norm import CentredNoise, JointNoise, centred, drawing
from sfumato.noise.k_norm.centred_laws import CentredMarginal, best_total
from sfumato.noise.k_norm.cone import Cone
from sfumato.noise.k_norm.drawing import Vectors
from sfumato.noise.k_norm.marginals import marginals

from . import reference

FINE = F(2) ** 16


def same_as_slowly(noise, seed):
    words, again = SeededWords(seed), SeededWords(seed)
    got = noise.rounded(words)
    assert got.dtype == np.int64 and got.shape == (1, noise.groups)
    same = np.array_equal(got, reference.centred(noise.scales[0], noise.groups, noise.total, again))
    return same and words.take(1) == again.take(1)


@pytest.mark.parametrize("scale", [F(1), F(2, 3), F(7), F(2) ** 40 / 3])
@pytest.mark.parametrize("groups", [1, 2, 5, 150])
def test_every_draw_is_the_rounded_real(scale, groups):
    for total in (F(1, 2), F(1, 7), F(1, 1000)):
        assert same_as_slowly(CentredNoise((scale,), groups, total), f"{scale} {groups} {total}")


def test_the_path_does_not_matter(monkeypatch):
    noise = CentredNoise((F(3),), 9000, F(1, 9))
    fast = noise.rounded(SeededWords(5))
    rounding = Vectors._round_into
    monkeypatch.setattr(Vectors, "_round_into", lambda *args: rounding(*args) | True)
    assert np.array_equal(noise.rounded(SeededWords(5)), fast)


def test_floats_are_within_their_margin():
    worst = 0.0
    for seed, groups in product(range(10), (1, 40)):
        words = SeededWords(seed)
        streams = centred.Streams(words)
        numbers = centred._shared(groups, streams)
        vectors = centred.CentredVectors(*(centred.scaled(x, F(1, 3)) for x in numbers))
        first = words.take(20).view(np.int64).reshape(1, 20)
        found = vectors.approximate(first)
        for i, word in enumerate(first[0].tolist()):
            own = streams.at(2, i, 0, first=word % 2**64 ^ 2**63)
            (truth,) = vectors.enclose([own.enclose(256)]).numbers
            error = abs(F(found.numbers[0][i]) - F(*truth.low.as_integer_ratio()))
            worst = max(worst, float(error / found.margins[0]))
    assert 0.01 < worst < 1


# Laws.


def outside(x, groups, total):
    """P(|X + Y U| > x) in incomplete Gamma functions."""
    with mpmath.workdps(40):
        t, x, g = mpmath.mpf(total.numerator) / total.denominator, mpmath.mpf(x), groups
        b, c = 1 / (2 * t), 1 / (2 * (1 - t))

        def above(shape, y):
            return mpmath.gammainc(shape, y, regularized=True)

        found = mpmath.exp(x / b) * (1 + c / b) ** -g * above(g, x / c * (1 + c / b))
        found -= mpmath.exp(-x / b) * (1 + c / b) ** -g
        rest = 1 - c / b
        if rest > 0:
            found += mpmath.exp(-x / b) * rest**-g * (1 - above(g, x / c * rest))
        else:
            found += mpmath.exp(-x / b) * (x / c) ** g / mpmath.factorial(g)
        return float((c * g * above(g + 1, x / c) - x * above(g, x / c) + b / 2 * found) / (c * g))


@pytest.mark.parametrize("groups", [1, 2, 5, 52, 300])
@pytest.mark.parametrize("total", [F(1, 2), F(1, 9), F(1, 64)])
def test_the_law_has_a_closed_form(groups, total):
    law = CentredMarginal(F(7), groups, total)
    for x in (0.01, 1, groups / 4, groups / 2 + 2, 2 * groups + 20):
        assert law.outside(7 * x) == pytest.approx(outside(x, groups, total), abs=1e-11)
    second = quad(lambda x: 2 * x * law.outside(x), 0, 3000 * 7, limit=2000, points=[50, 500])[0]
    assert law.variance == pytest.approx(second, rel=1e-4)
    for k in (0.1, 1.3, 6, 15, 40):
        assert law.outside(law.tolerance(k)) <= 10**-k


def test_deviations_are_those_of_the_table_and_no_other_part_is_better():
    for groups, most in ((20, 8.52), (50, 17.9), (52, 18.51), (100, 33.1)):
        total = best_total(groups)
        law = CentredMarginal(F(1), groups, total)
        assert law.standard_deviation < most
        assert law.standard_deviation < marginals(JointNoise(Cone(0), (F(1),), groups))[0].standard_deviation
        for factor in (F(9, 10), F(11, 10)):
            other = CentredMarginal(F(1), groups, total * factor)
            assert other.standard_deviation > law.standard_deviation * (1 - 1e-6)
    assert best_total(1) == F(1, 2) and best_total(10**9) > 0


def far_from_the_laws(noise, n=400):
    """Whether a number of the first or last group, or what two groups differ by, is not as it should be."""
    words = SeededWords(str(noise))
    drawn = np.array([noise.rounded(words)[0] for _ in range(n)])
    found = []
    (law,) = marginals(noise)
    for numbers in (drawn[:, 0], drawn[:, -1]):
        x = np.sort(numbers)[:: n // 40]
        found.append(np.abs((numbers[:, None] > x).mean(axis=0) - law.rounded_sf(x)).max())
    # max - min is Y times what uniform numbers span, of mean 2 (G - 1) / (G + 1); its own law by many draws.
    rng, many, groups = np.random.default_rng(1), 400_000, noise.groups
    spans = rng.gamma(groups + 1, size=many) * 2 * rng.beta(groups - 1, 2, size=many)
    spans = np.sort(spans * float(noise.stretches[1] * noise.scales[0]))
    own = np.sort(drawn.max(axis=1) - drawn.min(axis=1))
    ranks = np.searchsorted(spans, own) / many
    found.append(np.abs(ranks - (np.arange(n) + 0.5) / n).max() - 0.005)
    return max(found) > math.sqrt(math.log(2 / 1e-12) / (2 * n))


def half_forgotten(monkeypatch):
    """The whole of N in each group."""
    honest = CentredNoise.stretches.fget
    monkeypatch.setattr(CentredNoise, "stretches", property(lambda n: (2 * honest(n)[0], honest(n)[1])))


def wrong_shape(monkeypatch):
    """The Gamma number of a norm, not of a radius."""
    honest = centred.gamma
    monkeypatch.setattr(centred, "gamma", lambda shape, *rest: honest(shape - 1, *rest))


def middle_not_shared(monkeypatch):
    """Each group has a middle of its own: the right law for each number."""

    def rounded(self, words):
        return np.stack([honest(self, words)[:, g] for g in range(self.groups)], axis=1)

    honest = CentredNoise.rounded
    monkeypatch.setattr(CentredNoise, "rounded", rounded)


def no_middle(monkeypatch):
    """The cube alone, as if N were known."""
    honest = centred._shared
    monkeypatch.setattr(centred, "_shared", lambda *given: (centred.constant(F(0)), honest(*given)[1]))


def one_sided(monkeypatch):
    """N is never less than it is."""
    monkeypatch.setattr(centred, "is_less", lambda *given: True)


@pytest.mark.parametrize(
    "plant",
    [
        one_sided,
        *(
            pytest.param(p, marks=pytest.mark.long)
            for p in (half_forgotten, wrong_shape, middle_not_shared, no_middle)
        ),
    ],
)
def test_a_wrong_law_is_found(plant, monkeypatch):
    noise = CentredNoise((FINE,), 3, F(1, 4))
    plant(monkeypatch)
    assert far_from_the_laws(noise) or not same_as_slowly(noise, 1)


def test_honest_noise_is_not_suspected():
    for noise in (CentredNoise((FINE,), 3, F(1, 4)), CentredNoise((FINE,), 30, best_total(30))):
        assert not far_from_the_laws(noise)


def no_margin(monkeypatch):
    """Floats decide wherever they lie."""
    monkeypatch.setattr(
        centred.CentredVectors,
        "approximate",
        lambda self, words, honest=centred.CentredVectors.approximate: replace(
            honest(self, words), margins=[F(0)]
        ),
    )


def towards_zero(monkeypatch):
    """Cut in place of rounded."""

    def cut(self, out, found):
        out[0] = np.trunc(found.numbers[0])
        return np.zeros(out.shape[1], np.bool_)

    monkeypatch.setattr(drawing.Vectors, "_round_into", cut)


@pytest.mark.parametrize("scale, plant", [(F(2) ** 44, no_margin), (F(7), towards_zero)])
def test_a_wrong_draw_is_found(scale, plant, monkeypatch):
    noise = CentredNoise((scale,), 60, F(1, 5))
    assert all(same_as_slowly(noise, s) for s in range(3))
    plant(monkeypatch)
    assert not all(same_as_slowly(noise, s) for s in range(8))


@pytest.mark.parametrize(
    "given",
    [((F(1),), 3, F(0)), ((F(1),), 3, F(2, 3)), ((F(2) ** 60,), 3, F(1, 2)), ((F(1),) * 2, 3, F(1, 2))],
)
def test_what_is_refused(given):
    with pytest.raises(ParameterError):
        CentredNoise(*given)


# The claim: no contribution, to any of the groups, is told from none by more than epsilon.


def log_density(w, total):
    """Of X + Y U in all groups, up to a constant: the middle's density, and the cube's about it."""
    t, top, bottom = float(total), max(w), min(w)

    def at(x):
        return math.exp(-2 * t * abs(x) - 2 * (1 - t) * max(top - x, x - bottom))

    points = sorted({0.0, (top + bottom) / 2})
    return math.log(quad(at, -80, 80, points=points, limit=500, epsabs=0, epsrel=1e-10)[0])


@pytest.mark.parametrize("total", [F(1, 2), F(1, 5)])
def test_no_contribution_moves_the_density_by_more_than_epsilon_and_one_moves_it_as_far(total):
    """All contributions of a grid to three groups, at random places and far out; what is lost is at most 1."""
    rng, most = np.random.default_rng(3), 0.0
    places = [*rng.normal(size=(12, 3)) * 4, *(20.0 * np.array(s) for s in product((-1, 0, 1), repeat=3))]
    for w in places:
        here = log_density(w, total)
        for v in product((0, 0.5, 1), repeat=3):
            most = max(most, abs(log_density(np.array(w) - v, total) - here))
    assert 0.97 < most <= 1 + 1e-7  # with equal parts the loss comes near to 1 far out alone


@pytest.mark.parametrize("outside_the_body", [(1, 0, -0.1), (1.1, 0, 0), (0, 0, -1.01)], ids=str)
def test_what_nobody_may_add_is_seen(outside_the_body):
    places = [20.0 * np.array(s) for s in product((-1, 0, 1), repeat=3)]
    lost = [abs(log_density(w - outside_the_body, F(1, 5)) - log_density(w, F(1, 5))) for w in places]
    assert max(lost) > 1.005
