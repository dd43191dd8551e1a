"""Noise whose body is stretched where precision is unimportant: draws, laws, norm, and what a wrong body shows.

sup |F_n - F| passes sqrt(ln(2 / a) / (2 n)) with probability at most a (Massart), a = 1e-14; all words are seeded.
"""

from __future__ import annotations

import math
from fractions import Fraction as F
from functools import partial

import mpmath
import numpy as np
import pytest
from scipy import stats

from sfumato.errors import ParameterError
from sfumato.framework import ConeBody, KNormDistance
from sfumato.noise import FixedWords, SeededWords
from sfumato.noise.k_norm import Cone, SeparateNoise, StretchedNoise, stretched, stretched_laws
from sfumato.noise.k_norm.marginals import marginals
from sfumato.noise.k_norm.streams import Streams

from . import reference

SCALES = [(F(1), F(2, 3), F(7), F(1, 10)), (F(2) ** 30, F(10**9), F(2) ** 20, F(3))]
FORMS = [
    (Cone(1), (0,), F(3, 4)),
    (Cone(1), (1,), F(1, 8)),
    (Cone(2), (1, 2), F(15, 16)),
    (Cone(3), (2,), F(1, 3)),
    (Cone(2, True), (0, 2), F(1, 2)),
    (Cone(1, True), (1,), F(7, 8)),
]
FIRST = [pytest.param(*f, marks=[pytest.mark.long] * (i not in (0, 4))) for i, f in enumerate(FORMS)]
FINE = F(2) ** 16


def of(cone, favoured, part, scale=F(1)):
    return StretchedNoise(cone, (scale,) * cone.dimensions, favoured, part)


def massart(n):
    return math.sqrt(math.log(2 / 1e-14) / (2 * n))


def distance(numbers, law):
    """sup |F_n - F| over 40 whole numbers."""
    x = np.unique(np.sort(numbers)[:: max(1, len(numbers) // 40)])
    empirical = np.searchsorted(np.sort(numbers), x, side="right") / len(numbers)
    return np.abs(1 - empirical - law.rounded_sf(x)).max()


@pytest.mark.parametrize("scales", SCALES, ids=["small", "large"])
@pytest.mark.parametrize("cone, favoured, part", FIRST)
def test_every_draw_is_the_rounded_real(cone, favoured, part, scales):
    own = scales[: cone.dimensions]
    for count in (1, 60):
        words, again = SeededWords(f"{cone} {count}"), SeededWords(f"{cone} {count}")
        drawn = StretchedNoise(cone, own, favoured, part).rounded(count, words)
        slowly = reference.stretched(cone.signed, cone.units, own, favoured, part, count, again)
        assert np.array_equal(drawn, slowly) and words.take(1) == again.take(1)


@pytest.mark.parametrize("cone, favoured, part", FIRST)
def test_floats_are_within_their_margin(cone, favoured, part):
    vectors, worst = of(cone, favoured, part), 0.0
    streams = Streams(SeededWords("margins"))
    words = SeededWords("margins too").take(100 * vectors.width).view(np.int64).reshape(-1, 100)
    found = vectors.approximate(words)
    for i in np.flatnonzero(found.known).tolist():
        own = [streams.at(2, i, j, first=int(w) % 2**64 ^ 2**63) for j, w in enumerate(words[:, i])]
        exact = vectors.enclose([u.enclose(256) for u in own])
        for x, margin, truth in zip(found.numbers, found.margins, exact.numbers, strict=True):
            worst = max(worst, float(abs(F(x[i]) - F(*truth.low.as_integer_ratio())) / margin))
    assert 0.001 < worst < 1


def test_words_next_to_boundaries_are_decided_by_enclosures(monkeypatch):
    """Where the word that chooses j is next to a boundary, floats know nothing; the exact draw is the slow one."""
    noise, settled = of(Cone(2), (0,), F(1, 2), FINE), []
    honest = stretched.SeparateNoise.settle
    monkeypatch.setattr(StretchedNoise, "settle", lambda self, u: settled.append(1) or honest(self, u))
    bound = noise.chances[0]
    words = SeededWords(3).take(4 + noise.width).tolist()
    for step in (-2, -1, 0, 1, 2):
        words[4 + 4] = (math.floor(bound * 2**64) + step + 2**63) % 2**64
        drawn = noise.rounded(1, FixedWords(words))
        given = (2, False, noise.scales, (0,), F(1, 2), 1)
        assert np.array_equal(drawn, reference.stretched(*given, FixedWords(words)))
    assert len(settled) == 5


# Laws.


@pytest.mark.parametrize("stretch", [F(3, 2), F(4), F(32)])
def test_the_hexagon_has_the_variances_of_its_formula(stretch):
    """|s| <= 1 and |n| <= H - (H - 1)|s|: 2 (H + 3) / (H + 1) and 2 (H^2 + 1)."""
    near, far = 2 * (stretch + 3) / (stretch + 1), 2 * (stretch**2 + 1)
    for favoured in (0, 1):
        found = [law.variance for law in marginals(of(Cone(1), (favoured,), 1 - 1 / stretch))]
        expected = [near, far] if favoured == 0 else [far, near]
        assert found == [pytest.approx(float(e), rel=1e-14) for e in expected]
        # That of a body which is not stretched as far is another one.
        assert found != [pytest.approx(float(e), rel=1e-3) for e in reversed(expected)]


@pytest.mark.parametrize("part", [F(1, 8), F(3, 4)])
def test_laws_are_integrals_of_the_density(part):
    w = float(part)

    def density(y, x):
        return mpmath.exp(-w * abs(y) - (1 - w) * max(abs(y), abs(x)))

    near, far = marginals(of(Cone(1), (0,), part))
    reach, places = 40 / (1 - w), (0.5, 2.0, 6.0)
    masses, others = (
        [mpmath.quad(partial(f, a), [-reach, -a, 0, a, reach]) for a in places]
        for f in (density, lambda x, y: density(y, x))
    )
    for law, found in ((near, masses), (far, others)):
        densities = [-(law.sf(x + 1e-4) - law.sf(x - 1e-4)) / 2e-4 for x in places]
        ratios = [float(a) / b for a, b in zip(found, densities, strict=True)]
        assert ratios == [pytest.approx(ratios[0], rel=1e-6)] * 3
        # So that all together are 1, which a law that is too narrow is not.
        assert law.sf(0) == 0.5 and law.sf(float(reach)) < 1e-9


@pytest.mark.parametrize("cone, favoured, part", [f for f in FORMS if f[0].units])
def test_units_are_a_convolution_with_laplace(cone, favoured, part):
    units, count, *_ = marginals(of(cone, favoured, part))
    assert sum(w for _, w in units.weights) == 1
    assert units.variance == pytest.approx(count.variance + 2, rel=1e-14)
    for x in (0.5, 3.0):
        truth = mpmath.quad(
            lambda y, x=x: mpmath.exp(-abs(y)) / 2 * count.sf(float(x - y)), [-40, 0, x, 60], maxdegree=5
        )
        assert units.sf(x) == pytest.approx(float(truth), abs=1e-7)


def test_tails_are_right_however_far():
    law = marginals(of(Cone(2), (1,), F(7, 8)))[0]
    for x in (F(1, 10), 5, 300, 4000):
        with mpmath.workdps(60):
            truth = mpmath.mpf(0)
            for (shape, rate), weight in law.weights:
                y = mpmath.mpf(rate.numerator * F(x).numerator) / (rate.denominator * F(x).denominator)
                tail = mpmath.gammainc(shape, y, regularized=True)
                truth += mpmath.mpf(weight.numerator) / weight.denominator * tail
            low, high = law.tail_bounds(F(x))
            assert law.outside(x) == pytest.approx(float(truth), rel=1e-12)
            assert low <= high and float(high) == pytest.approx(float(truth) / 2, rel=1e-12)
    assert law.tolerance(3) == pytest.approx(law.tail_quantile(F(1, 2000)), rel=1e-6)
    assert law.outside(law.tolerance(3)) <= 1e-3


def test_a_body_that_is_hardly_stretched_has_the_law_of_one_that_is_not():
    """Rates are next to each other there, and weights of 10^60 and more cancel."""
    cone = Cone(5, True)
    plain = marginals(SeparateNoise(cone, (F(1),) * 7))
    near = marginals(of(cone, (1, 2, 3, 4), F(1, 10**12)))
    for law, other in zip(near, plain, strict=True):
        assert law.variance == pytest.approx(other.variance, rel=1e-9)
        for x in (F(1, 2), 8, 60):
            assert law.outside(x) == pytest.approx(other.outside(x), rel=1e-9)


def far_from_the_laws(noise, laws, n=20_000):
    """Whether norms or numbers are not distributed as they should be."""
    drawn = noise.rounded(n, SeededWords(str(noise)))
    names = tuple(map(str, range(noise.cone.dimensions)))
    body = ConeBody(names, noise.scales, noise.cone.units)
    favoured = tuple(names[noise.cone.units + i] for i in noise.favoured)
    metric = KNormDistance(body, 1, apart=True, favoured=favoured, part=noise.part)
    norms = [float(metric.of([v])) for v in drawn.T[:4000].tolist()]
    found = [stats.kstest(norms, stats.gamma(noise.cone.dimensions).cdf).statistic / massart(4000)]
    found += [distance(row, law) / massart(n) for row, law in zip(drawn, laws, strict=True)]
    return max(found) > 1


@pytest.mark.long
@pytest.mark.parametrize("cone, favoured, part", FORMS)
def test_draws_follow_their_laws_and_the_norm_a_gamma_law(cone, favoured, part):
    noise = of(cone, favoured, part, FINE)
    assert not far_from_the_laws(noise, marginals(noise))


def equal_chances(monkeypatch):
    monkeypatch.setattr(
        StretchedNoise,
        "chances",
        property(lambda self: (F(1, len(self.scales) - len(self.favoured) + 1),) * 9),
    )


def not_stretched(monkeypatch):
    honest = StretchedNoise.reals

    def reals(self, words):
        numbers, size, known = honest(self, words)
        return (
            [x * (1 if i in self.favoured else float(1 - self.part)) for i, x in enumerate(numbers)],
            size,
            known,
        )

    monkeypatch.setattr(StretchedNoise, "reals", reals)


def all_on_one_cube(monkeypatch):
    """As if the favoured numbers had no norm of their own."""
    monkeypatch.setattr(
        StretchedNoise,
        "reals",
        lambda self, words: SeparateNoise(self.cone, self.scales).reals(words[: 2 * len(self.scales) - 1]),
    )


@pytest.mark.long
@pytest.mark.parametrize("plant", [equal_chances, not_stretched, all_on_one_cube], ids=lambda p: p.__name__)
def test_a_wrong_draw_is_found(plant, monkeypatch):
    noise = of(Cone(2), (1,), F(3, 4), FINE)
    laws = marginals(noise)
    plant(monkeypatch)
    assert far_from_the_laws(noise, laws)


@pytest.mark.long
def test_a_wrong_law_is_found():
    noise = of(Cone(1), (0,), F(3, 4), FINE)
    for wrong in (of(Cone(1), (0,), F(5, 8), FINE), of(Cone(1), (1,), F(3, 4), FINE)):
        assert far_from_the_laws(noise, [stretched_laws.stretched(wrong, i) for i in range(2)])


@pytest.mark.parametrize(
    "given",
    [
        {"favoured": ()},
        {"favoured": (0, 1)},
        {"favoured": (2,)},
        {"part": F(0)},
        {"part": F(1)},
        {"scales": (F(2) ** 60, F(1))},
    ],
)
def test_what_is_refused(given):
    with pytest.raises(ParameterError):
        StretchedNoise(**{"cone": Cone(1), "scales": (F(1), F(1)), "favoured": (0,), "part": F(1, 2)} | given)
