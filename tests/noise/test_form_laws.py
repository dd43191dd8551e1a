"""Laws of linear forms of noise against mpmath, and against draws; tolerances are no smaller, and hardly larger."""

from __future__ import annotations

import math
from fractions import Fraction as F

import mpmath
import numpy as np
import pytest

from sfumato.measurements.independent_noise import NOISES, IndependentNoise
from sfumato.noise.centred_noise import CentredGaussian
from sfumato.noise.form_laws import FormLaws
from sfumato.noise.k_norm import Cone, JointNoise, SeparateNoise

FINE = F(10**6)  # steps: rounding does not matter
FAILURES = (0.5, 0.2, 0.05, 1e-3, 1e-4)
NEAR = 0.012  # of t, by which quadrature may make it larger


def form(*parts):
    return [(n, np.array(weights, float)) for n, weights in parts]


def held(laws, parts, tail):
    """Check that the tolerance of a form fails as often as it says, or a little less: `tail` is P(|form| > t)."""
    for failure in FAILURES:
        t = laws.tolerance(parts, failure) / float(FINE)
        near = NEAR if failure >= 1e-3 else 0.03
        assert tail(t) <= failure * (1 + 1e-6) and tail(t / (1 + near)) >= failure * (1 - 1e-6), failure


@pytest.mark.parametrize("weights", [(1, 1, -2), (5, 3, 1), (1, 0.1, 0.1)])
def test_forms_of_laplace_noise_against_partial_fractions(weights):
    laws = FormLaws(IndependentNoise(NOISES["laplace"], (FINE,) * 3))
    scales = [mpmath.mpf(abs(w)) * (1 + mpmath.mpf(i) * 1e-9) for i, w in enumerate(weights)]
    parts = [mpmath.fprod(b**2 / (b**2 - c**2) for c in scales if c != b) for b in scales]

    def tail(t):
        return float(mpmath.fsum(p * mpmath.exp(-t / b) for p, b in zip(parts, scales, strict=True)))

    with mpmath.workdps(60):
        held(laws, form((1, weights)), tail)


@pytest.mark.parametrize("noise", [JointNoise(Cone(1), (FINE,) * 2, 1), SeparateNoise(Cone(1), (FINE,) * 2)])
@pytest.mark.parametrize("slope", [0.05, 1, 3])
def test_forms_of_a_count_and_a_sum_against_mpmath(noise, slope):
    """Of density exp(-max(|n|, |s|)) / 8: a uniform point of a square of Gamma radius."""

    def outside(x):
        """P(|U + slope V| > x), both uniform in [-1, 1]."""
        low, high = abs(1 - slope), 1 + slope
        if x >= high:
            return mpmath.mpf(0)
        if x >= low:
            return (high - x) ** 2 / (4 * slope)
        return 1 - x / max(1, slope)

    def tail(t):
        chance = lambda r: r**2 * mpmath.exp(-r) / 2 * outside(t / r)  # noqa: E731
        ends = sorted(
            {mpmath.mpf(t) / (1 + slope), mpmath.mpf(t) / max(abs(1 - slope), 1e-3), mpmath.mpf(200) + t}
        )
        return float(mpmath.quad(chance, ends))

    held(FormLaws(noise), form((1, (1, slope))), tail)


BODIES = [
    (Cone(0), 20, [(20, (1,))]),
    (Cone(1), 5, [(1, (-3, 1))]),
    (Cone(1), 12, [(1, (1, 0)), (1, (-1, 0))]),
    (Cone(2), 3, [(1, (0.3, 1, -1)), (1, (-0.3, -1, 1))]),
    (Cone(1, units=True), 4, [(1, (0.5, 1, 0.5))]),
    (Cone(0, units=True), 3, [(1, (1, -1)), (2, (0.3, 0.1))]),
    (Cone(1), 0, [(1, (1, 0.2)), (1, (-1, 0.5))]),
    (Cone(1, units=True), 0, [(1, (1, -0.5, 0.5))]),
]


def drawn(cone, groups, shown, draws):
    """Draw K-norm noise from its gauge: points of a box that are in λC - μC, times a Gamma radius."""
    rng = np.random.default_rng(5)
    if groups:
        grid = (np.arange(4096) + 0.5) / 4096
        chance = np.polyval([float(c) for c in cone.volume[::-1]], (grid - 0.5) ** 2) ** groups
        theta = rng.choice(grid, draws, p=chance / chance.sum())[:, None]
        inside = lambda a, b: (a <= theta) & (b <= 1 - theta)  # noqa: E731
        radius = rng.gamma(groups * cone.dimensions + 2, size=(draws, 1))
    else:
        inside = lambda a, b: a + b <= 1  # noqa: E731
        radius = rng.gamma(cone.dimensions + 1, size=(draws, shown))
    found, missing = np.zeros((cone.dimensions, draws, shown)), np.ones((draws, shown), bool)
    while missing.any():
        points = rng.uniform(-1, 1, found.shape)
        n = points[int(cone.units)]
        t = np.abs(points[cone.units + 1 :]).max(axis=0, initial=0)
        a = np.maximum(np.maximum(n, 0), (t + n) / 2)
        b = a - n
        if cone.units:
            a = np.maximum(a, points[0] + b)
            b = a - points[0]
        new = missing & inside(a, b)
        found[:, new], missing[new] = points[:, new], False
    return found * radius * float(FINE)


@pytest.mark.parametrize("cone, groups, parts", BODIES)
def test_draws_of_k_norm_noise_are_beyond_as_often_as_is_said(cone, groups, parts):
    """Draws have fixed seeds; a binomial share is beyond 7.7 deviations with probability 1e-14."""
    scales, draws, shown = (FINE,) * cone.dimensions, 40_000, sum(n for n, _ in parts)
    laws = FormLaws(JointNoise(cone, scales, groups) if groups else SeparateNoise(cone, scales))
    weights = np.repeat([w for _, w in parts], [n for n, _ in parts], axis=0).T[:, None]
    found = np.abs((drawn(cone, groups, shown, draws) * weights).sum(axis=(0, 2)))
    assert laws.deviation(form(*parts)) == pytest.approx(math.sqrt((found**2).mean()), rel=0.05)
    for failure in (0.5, 0.2, 0.05):
        t, off = laws.tolerance(form(*parts), failure), 7.7 * math.sqrt(failure * (1 - failure) / draws)
        assert (found > t).mean() <= failure + off and (found > t / (1 + NEAR)).mean() >= failure - off


@pytest.mark.parametrize(
    "noise", [JointNoise(Cone(1), (FINE, 30 * FINE), 5), SeparateNoise(Cone(1), (FINE, FINE))]
)
def test_along_a_ratio_tolerances_are_those_of_each_form(noise):
    laws, top, bottom = FormLaws(noise), form((1, (-12, 1))), form((1, (1, 0)))
    for failure in (0.5, 0.05):
        reach = laws.along(top, bottom, failure)
        for m in (-40.0, -12.0, 0.0, 1.7, 30.0, 1e9):
            one = laws.tolerance(form((1, (-12 - m, 1))), failure)
            assert float(reach(np.array([m]))[0]) == pytest.approx(one, rel=0.02)


@pytest.mark.parametrize("failure", [0.05, 1e-3, 1e-4, 1e-5])
@pytest.mark.parametrize("cone, groups", [(Cone(0), 1), (Cone(1), 3), (Cone(3), 3), (Cone(1, units=True), 3)])
def test_quantiles_of_one_number_are_those_of_its_exact_law(cone, groups, failure):
    """Failures so small are those of 99.99% bars, and of bars for many numbers at once."""
    laws = FormLaws(JointNoise(cone, (FINE,) * cone.dimensions, groups))
    for weights, law in zip(np.eye(cone.dimensions), laws.laws, strict=True):
        exact = law.rounded_tolerance(-math.log10(failure)) / laws.deviation([(1, weights)])
        assert 0.999 <= laws.quantile([(1, weights)], failure) / exact <= 1 + 2 * NEAR


@pytest.mark.parametrize(
    "noise", [IndependentNoise(NOISES["laplace"], (FINE,) * 4), SeparateNoise(Cone(3), (FINE,) * 4)]
)
@pytest.mark.parametrize("failure", [0.5, 0.05, 1e-4])
def test_of_many_forms_none_has_less_than_its_own_tolerance(noise, failure):
    """Covariances of groups: every fifth has means of nearly 0, so that its products have most of the noise."""
    x = np.where(np.arange(50) % 5 == 4, 0.001, 1) * np.linspace(0.9, 1, 50)
    y = x * np.where(np.arange(50) % 10 < 6, -1, 1)
    weights, rows = np.stack([x * y, -y, -x, np.ones(50)], axis=1), np.tile([1.0, 0, 0, 0], (50, 1))
    laws, m = FormLaws(noise), 0.3
    found = (
        laws.tolerances(weights, failure),
        laws.along([(1, weights)], [(1, rows)], failure)(np.full(50, m)),
    )
    for reached, forms in zip(found, (weights, weights - m * rows), strict=True):
        own = np.array([laws.tolerance([(1, form)], failure) for form in forms[:10]])
        assert np.all(reached[:10] >= own * 0.995) and np.all(reached[:10] <= own * 1.4)


def test_what_two_forms_have_in_common_is_no_noise():
    laws, count = FormLaws(JointNoise(Cone(1), (FINE,) * 2, 5)), form((1, (1, 0)))
    assert laws.along(count, count, 0.05)(np.array([1.0]))[0] == 0
    assert laws.tolerance(form((1, (0, 0))), 0.05) == 0
    common = FormLaws(CentredGaussian((FINE,), 3 * FINE, (1,), 4))
    assert common.deviation(form((1, (1,)), (1, (-1,)))) == pytest.approx(math.sqrt(2) * float(FINE))
    assert common.deviation(form((1, (1,)), (1, (1,)))) == pytest.approx(math.sqrt(2 + 4 * 9) * float(FINE))


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [F(1, 3), F(2), F(9)])
def test_whole_numbers_of_steps_are_within_their_tolerance(kind, scale):
    """The exact law of a difference of two rounded noises, by convolution."""
    noise = IndependentNoise(NOISES[kind], (scale,))
    (law,), size = noise.laws, 400
    beyond = np.asarray(law.rounded_sf(np.arange(-size - 1, size + 1)), float)
    chance = -np.diff(beyond)
    both, laws = np.convolve(chance, chance[::-1]), FormLaws(noise)
    away = np.abs(np.arange(len(both)) - len(both) // 2)
    for failure in (0.5, 0.2, 0.05, 1e-3):
        t = laws.tolerance(form((1, (1,)), (1, (-1,))), failure)
        assert t == int(t) and both[away > t].sum() <= failure * 1.02
        if scale > 1:
            assert both[away > t - 1].sum() >= failure * 0.9


@pytest.mark.parametrize("scale", [F(1, 8), F(1, 3), F(1)])
@pytest.mark.parametrize("weights", [(10, 1), (5, 2), (1, 1, 2)])
def test_forms_of_coarse_discrete_noise_are_within_their_tolerance(scale, weights):
    """The exact law of the form, by convolution. Noise of the variance of discrete noise falls too fast."""
    noise = IndependentNoise(NOISES["laplace"], (scale,) * len(weights))
    chance = np.ones(1)
    for w in weights:
        own = np.zeros(80 * w + 1)
        own[::w] = noise.laws[0].rounded_pmf(np.arange(-40, 41))
        chance = np.convolve(chance, own)
    away = np.abs(np.arange(len(chance)) - len(chance) // 2)
    for failure in (0.2, 0.05, 0.01, 1e-4, 1e-6):
        t = FormLaws(noise).tolerance(form((1, weights)), failure)
        assert chance[away > t + 1e-9].sum() <= failure * 1.02
