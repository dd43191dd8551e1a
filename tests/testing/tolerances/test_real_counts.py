"""Noisy counts that are real numbers: every rule against draws, mpmath and sums of exact rationals."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.noise import Gaussian, Laplace, SeededWords
from sfumato.testing import (
    complementary_mean_tolerance,
    complementary_variance_tolerance,
    mean_failure_probability,
    mean_tolerance,
    variance_failure_probability,
    variance_tolerance,
)

DRAWS = 2_000_000
GRID = 2**30  # steps of the fine grid in one unit of noise
L, G = Laplace, Gaussian


@cache
def standard(kind, name):
    return kind(GRID).rounded(DRAWS, SeededWords(name)) * (1.0 / GRID)


def draws(law, name):
    return standard(type(law), name) * float(law.unit)


def slack(p):
    """What a share of so many draws is off by with a probability below 1e-11: 7 deviations, by Bernstein."""
    return 7 * math.sqrt(max(p, 1e-12) / DRAWS) + 20 / DRAWS


def mean_distances(g):
    count = np.maximum(1, g["count"] + draws(g["count_noise"], "count"))
    mean = (g["normalized_sum"] + draws(g["sum_noise"], "sum")) / count
    raw = g["normalized_sum"] / max(1, g["count"])
    if "upper" in g:
        reach = (g["upper"] - g["lower"]) / 2
        mean, raw = np.clip(mean, -reach, reach), min(max(raw, -reach), reach)
    return np.abs(mean - raw)


def variance_distances(g):
    count = np.maximum(1, g["count"] + draws(g["count_noise"], "count"))
    total = g["normalized_sum"] + draws(g["sum_noise"], "sum")
    squares = g["normalized_squares"] + draws(g["squares_noise"], "squares")
    top, n = (g["upper"] - g["lower"]) ** 2 / 4, max(1, g["count"])
    raw = g["normalized_squares"] / n - (g["normalized_sum"] / n) ** 2
    return np.abs(np.clip(squares / count - (total / count) ** 2, 0, top) - raw)


def variance_case(squares, total, count, a, b, c):
    noises = dict(squares_noise=a, sum_noise=b, count_noise=c, lower=-4, upper=4)
    return dict(normalized_squares=squares, normalized_sum=total, count=count) | noises


def test_a_whole_count_s_tolerance_is_false_for_a_real_count():
    """Noise of scale 1/50 on the count rounds to 0: a tolerance of 10^-3 failed in 6 of 100 draws."""
    g = variance_case(14, 0, 10, L("0.01"), L("0.001"), L("0.02"))
    distance = variance_distances(g)
    for rule in ("joint", "exact"):
        whole, real = (variance_tolerance(3, **g, rule=rule, rounded=r) for r in ("count", "none"))
        assert (distance > whole).mean() > 0.06
        assert (distance > real).mean() < 0.001 + slack(0.001)
        stated = variance_failure_probability(whole, **g, rounded="none")
        assert abs((distance > whole).mean() - stated) < slack(stated)
        assert variance_failure_probability(real, **g, rounded="none") <= 0.001
    # The same for a mean far from 0, whose sum has little noise.
    g = dict(normalized_sum=30, count=10, sum_noise=L("0.01"), count_noise=L("0.02"))
    distance = mean_distances(g)
    for rule in ("joint", "exact"):
        whole, real = (mean_tolerance(3, **g, rule=rule, rounded=r) for r in ("count", "none"))
        assert (distance > whole).mean() > 0.25
        assert (distance > real).mean() < 0.001 + slack(0.001)


MEANS = {
    "both": dict(normalized_sum=50, count=100, sum_noise=L(10), count_noise=L(3)),
    "narrow count": dict(normalized_sum=300, count=100, sum_noise=L("0.1"), count_noise=L("0.05")),
    "count": dict(normalized_sum=500, count=100, sum_noise=G(1), count_noise=G(20)),
    "zero sum": dict(normalized_sum=0, count=40, sum_noise=G(5), count_noise=L(8)),
    "count near 1": dict(normalized_sum=-2, count=2, sum_noise=L(3), count_noise=L("0.7")),
    "one row": dict(normalized_sum=3, count=1, sum_noise=L("0.1"), count_noise=L("0.3")),
    "no rows": dict(normalized_sum=0, count=0, sum_noise=G(3), count_noise=G(2)),
    "clamped": dict(normalized_sum=30, count=20, sum_noise=L(4), count_noise=L(4), lower=-2, upper=4),
}


@pytest.mark.parametrize("case", MEANS)
def test_every_rule_of_a_mean_against_draws(case):
    g = MEANS[case]
    distance, g = mean_distances(g), g | dict(rounded="none")
    for k in (1, 2, 3):
        exact, joint = mean_tolerance(k, **g, rule="exact"), mean_tolerance(k, **g)
        assert exact <= joint and exact.failure - exact.failure.error <= 10.0**-k
        for t in (exact, joint, exact / 2):
            p = mean_failure_probability(t, **g)
            assert p.error <= 1e-10 * p + 1e-300
            assert abs((distance > t).mean() - p) < slack(p)
        old = mean_tolerance(k, **g, rule="2020")
        assert (distance > old).mean() < 2 * 10 ** (-k / 2) + slack(2 * 10 ** (-k / 2))
        near = complementary_mean_tolerance(k, **g)
        assert (distance < near).mean() < 10.0**-k + slack(10.0**-k)
        if near and "upper" not in g:
            assert abs((distance < near).mean() - 10.0**-k) < slack(10.0**-k)


def tail(law, x):
    y = mpmath.mpf(x) / (mpmath.mpf(law.unit.numerator) / law.unit.denominator)
    if isinstance(law, Gaussian):
        return mpmath.erfc(y / mpmath.sqrt(2)) / 2
    return mpmath.exp(-y) / 2 if y > 0 else 1 - mpmath.exp(y) / 2


def exponential_over(law, slope, start, low, high):
    """The integral of the density times e^(start + slope y) from low to high, in closed form."""
    unit = mpmath.mpf(law.unit.numerator) / law.unit.denominator
    if isinstance(law, Gaussian):
        ends = [(y - slope * unit**2) / unit / mpmath.sqrt(2) for y in (low, high)]
        if min(ends) > 0:
            between = mpmath.erfc(ends[0]) - mpmath.erfc(ends[1])
        else:
            between = mpmath.erfc(-ends[1]) - mpmath.erfc(-ends[0])
        return mpmath.exp(start + (slope * unit) ** 2 / 2) * between / 2
    total = mpmath.mpf(0)
    for near, far, sign in ((min(low, 0), min(high, 0), 1), (max(low, 0), max(high, 0), -1)):
        rate = slope + sign / unit
        total += (mpmath.exp(start + rate * far) - mpmath.exp(start + rate * near)) / rate / (2 * unit)
    return total


def tail_over(count, unit, start, slope, low, high):
    """The integral of the count's density times P(Z > start + slope y), for Laplace noise Z."""
    kink = -start / slope if slope else low
    cuts = [low, *([kink] if low < kink < high else []), high]
    total = mpmath.mpf(0)
    for a, b in itertools.pairwise(cuts):
        if start + slope * (a + b) / 2 > 0:
            total += exponential_over(count, -slope / unit, -start / unit, a, b) / 2
        else:
            total += exponential_over(count, mpmath.mpf(0), mpmath.mpf(0), a, b)
            total -= exponential_over(count, slope / unit, start / unit, a, b) / 2
    return total


def true_mean_failure(t, g, reach):
    """P(|s/c - m| > t): over the real noise of the count, in closed form, and the counts up to 1."""
    n, total, law = g["count"], mpmath.mpf(g["normalized_sum"]), g["sum_noise"]
    unit = mpmath.mpf(law.unit.numerator) / law.unit.denominator
    t, m = mpmath.mpf(float(t)), total / max(1, n)
    failure = mpmath.mpf(0)
    for side in (1, -1):
        slope = side * m + t
        start = slope * n - side * total
        failure += tail_over(g["count_noise"], unit, start, slope, mpmath.mpf(1 - n), mpmath.mpf(reach))
        failure += tail(g["count_noise"], n - 1) * tail(law, slope - side * total)
    return failure


@pytest.mark.parametrize("k", [0.5, 5, 23, 100, 290])
def test_a_mean_against_mpmath(k):
    with mpmath.workdps(400):
        for a, b, n, reach in [
            (L(10), L("0.7"), 71, 800),
            (L(3), L("2.3"), 5, 4000),
            (L(1), G(4), 71, 200),
            (L("0.01"), G("0.02"), 71, 2),
        ]:
            g = dict(normalized_sum=-60, count=n, sum_noise=a, count_noise=b)
            t = mean_tolerance(k, **g, rule="exact", rounded="none")
            p, truth = mean_failure_probability(t, **g, rounded="none"), true_mean_failure(t, g, reach)
            assert abs(p - truth) <= p.error + 2e-16 * truth
            assert p.error < 1e-10 * p
            assert truth <= mpmath.mpf(10) ** -k
            assert true_mean_failure(t * (1 - 1e-8), g, reach) > mpmath.mpf(10) ** -k


def test_a_mean_without_noise_of_the_sum_has_a_closed_form():
    """S/(n + Y) is farther than t from S/n where Y < S/(m + t) - n or Y > S/(m - t) - n."""
    n, total, t, unit = 10, 30, Fraction(1, 4), Fraction(1, 50)
    g = dict(normalized_sum=total, count=n, sum_noise=L("1e-60"), count_noise=L(unit), rounded="none")
    for distance in (t, t / 50, t / 5000):
        low, high = Fraction(total) / (3 + distance) - n, Fraction(total) / (3 - distance) - n
        truth = L(unit).sf(-low) + L(unit).sf(high)
        p = mean_failure_probability(distance, **g)
        assert abs(p - truth) <= p.error + 1e-12 * truth


VARIANCES = {
    "narrow count": variance_case(30, 2, 10, L("0.01"), L("0.001"), L("0.02")),
    "all": variance_case(400, 100, 100, L(4), L(2), L(1)),
    "sum": variance_case(400, -150, 100, G(1), G(20), G(1)),
    "count": variance_case(400, 100, 100, L(1), L(1), G(15)),
    "count near 1": variance_case(9, 3, 2, L(4), L(2), L(1)),
    "no rows": variance_case(0, 0, 0, L(1), G(1), L(1)),
}


@pytest.mark.long
@pytest.mark.parametrize("case", VARIANCES)
def test_every_rule_of_a_variance_against_draws(case):
    g = VARIANCES[case]
    distance, g = variance_distances(g), g | dict(rounded="none")
    for k in (1, 3):
        joint, exact = variance_tolerance(k, **g), variance_tolerance(k, **g, rule="exact")
        assert exact <= joint and exact.failure - exact.failure.error <= 10.0**-k
        for t, p in ((exact, exact.failure), (joint, variance_failure_probability(joint, **g))):
            assert p.error <= 1e-9 * p + 1e-300
            assert abs((distance > t).mean() - p) < slack(p)
        near = complementary_variance_tolerance(k, **g)
        assert (distance < near).mean() < 10.0**-k + slack(10.0**-k)


@pytest.mark.parametrize("t", ["0.02", "0.1"])
def test_a_variance_without_noise_of_its_sums_has_a_closed_form(t):
    """q/c - (s/c)^2 with c = n + Y alone random: for s = 0 it is q/c."""
    t, unit = Fraction(t), Fraction(1, 50)
    g = variance_case(30, 0, 10, L("1e-40"), L("1e-40"), L(unit)) | dict(rounded="none")
    low, high = Fraction(30) / (3 + t) - 10, Fraction(30) / (3 - t) - 10
    truth = L(unit).sf(-low) + L(unit).sf(high)
    p = variance_failure_probability(t, **g)
    assert abs(p - truth) <= p.error + 1e-10 * truth


@pytest.mark.parametrize("k", [2, pytest.param(23, marks=pytest.mark.long)])
def test_a_variance_against_mpmath(k):
    """Sums on a grid of half a deviation, which are Gaussian integrals but for e^-70 of them."""
    g = variance_case(400, 100, 100, G(4), G(2), G(Fraction(1, 2)))
    t = Fraction(variance_tolerance(k, **g, rounded="none") / 3)
    with mpmath.workdps(20):
        v, distance = mpmath.mpf(3), mpmath.mpf(t.numerator) / t.denominator
        nodes = [mpmath.mpf(i) / 2 for i in range(-28, 29)]
        masses = [mpmath.exp(-z * z / 2) / mpmath.sqrt(2 * mpmath.pi) / 2 for z in nodes]
        truth = mpmath.mpf(0)
        for y, mass in zip(nodes, masses, strict=True):
            c = 100 + y / 2
            for x, its_mass in zip(nodes, masses, strict=True):
                bend = (100 + 2 * x) ** 2 / c
                above, below = (v + distance) * c - 400 + bend, 400 - (v - distance) * c - bend
                truth += mass * its_mass * (tail(G(4), above) + tail(G(4), below))
    p = variance_failure_probability(t, **g, rounded="none")
    assert abs(p - truth) <= p.error + 1e-13 * truth and p.error < 1e-10 * p


@pytest.mark.parametrize("rounded", ["none", "count", "sums", "all"])
def test_each_way_to_round_is_sound_for_what_rounds_so(rounded):
    """Wide steps against draws: the tolerance holds, and that of the wrong kind does not."""
    whole_count, whole_sum = rounded in ("count", "all"), rounded in ("sums", "all")
    g = dict(normalized_sum=24, count=12, sum_noise=L("0.4"), count_noise=L("0.3"))
    more = dict(sum_step=1) if whole_sum else {}
    y, z = draws(g["count_noise"], "count"), draws(g["sum_noise"], "sum")
    count = np.maximum(1, 12 + (np.rint(y) if whole_count else y))
    distance = np.abs((24 + (np.rint(z) if whole_sum else z)) / count - 2)
    for k in (1, 2, 3):
        t = mean_tolerance(k, **g, **more, rounded=rounded)
        assert (distance > t).mean() < 10.0**-k + slack(10.0**-k)
        p = mean_failure_probability(t / 2, **g, **more, rounded=rounded)
        assert abs((distance > t / 2).mean() - p) < p.error + slack(p)


def test_what_is_rounded_is_said_and_nothing_else():
    g = MEANS["both"]
    for call in (lambda **o: mean_tolerance(3, **g, **o), lambda **o: mean_failure_probability(1, **g, **o)):
        with pytest.raises(TypeError, match="rounded"):
            call()
        for wrong in (True, False, None, "whole", 1):
            with pytest.raises(ParameterError, match=r"^rounded is .*'none' \(real noise\), 'count'"):
                call(rounded=wrong)
        with pytest.raises(ParameterError, match="^sum_step is None"):
            call(rounded="all")
        with pytest.raises(ParameterError, match="^sum_step is 1, but must be left out"):
            call(rounded="none", sum_step=1)
    with pytest.raises(TypeError, match="rounded"):
        variance_tolerance(3, **VARIANCES["all"])
    with pytest.raises(ParameterError, match="^squares_step is None"):
        variance_tolerance(3, **VARIANCES["all"], rounded="sums", sum_step=1)


def test_noise_of_any_size_is_taken():
    """Units from 1e-9 to 1e9 of each noise: sound by its own law, and never above "joint"."""
    for unit in ("1e-9", "1e-3", 1, 1000, 10**9):
        for kind in (L, G):
            g = dict(normalized_sum=70, count=50, sum_noise=L(1), count_noise=kind(unit), rounded="none")
            joint, exact = mean_tolerance(9, **g), mean_tolerance(9, **g, rule="exact")
            assert 0 < exact <= joint and exact.failure <= 1e-9 * (1 + 1e-9)
            assert mean_failure_probability(joint, **g) <= 1e-9 * (1 + 1e-9)


def test_ends_that_cross_within_half_a_step_are_no_narrower():
    """Steps far wider than the noise: half a step further in, the ends of an interval have crossed."""
    # Beyond one end alone, 0.9 + t n below one step: P(noise = 1 step) was taken for P(Z > 0.9) = 3e-6.
    g = dict(normalized_sum="-1000.9", count=1000, sum_noise=G("0.2"), count_noise=G("1e-9"), sum_step=1)
    g |= dict(lower=-1, upper=1, rounded="sums")
    one_step = float(tail(G("0.2"), 0.5))
    for t in (0, "1e-6", "5e-5"):
        p = mean_failure_probability(t, **g)
        assert p - p.error <= one_step <= p + p.error
    # It was 0, and 6 of 1,000 draws are farther away.
    with pytest.raises(ParameterError, match="joint"):
        mean_tolerance(5, **g, rule="exact")
    # Half of all noisy counts stand for 1, and nearly every noise of the sum is 0: then the mean is the raw one.
    g = dict(
        normalized_sum="31.7", count=1, sum_noise=G("0.03"), count_noise=L(6), sum_step=1, rounded="sums"
    )
    for k in (1, 3, 9):
        assert complementary_mean_tolerance(k, **g) == 0


def test_the_rule_of_2020_covers_whole_steps():
    """A tolerance of 137 for noise in steps of 137.2 was left whenever the noise was not 0."""
    g = dict(
        normalized_sum=0, count=0, sum_noise=G(49), count_noise=G("1e-9"), sum_step="137.2", rounded="all"
    )
    t = mean_tolerance(3, **g, rule="2020")
    assert t >= 137.2 and mean_failure_probability(t * (1 + 1e-8), **g) <= 2 * 10**-1.5
