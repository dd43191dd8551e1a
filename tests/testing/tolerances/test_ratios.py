"""Means and variances: the interval rules by hand, the exact laws against draws, mpmath and sums of exact rationals."""

import itertools
import math
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import special

from sfumato.errors import ParameterError
from sfumato.noise import DiscreteLaplace, Gaussian, Laplace, SeededWords
from sfumato.testing import (
    complementary_mean_tolerance,
    complementary_variance_tolerance,
    mean_failure_probability,
    mean_tolerance,
    per_partition_k,
    variance_failure_probability,
    variance_tolerance,
)
from sfumato.testing.tolerances import mean_tolerances as means
from sfumato.testing.tolerances import variance_tolerances as variances
from sfumato.testing.tolerances.log_integrals import integer_rule

DRAWS = 500_000
GRID = 2**30  # steps of the fine grid in one unit of noise
L, G = Laplace, Gaussian
LONG = pytest.mark.long


@cache
def standard(kind, name):
    return kind(GRID).rounded(DRAWS, SeededWords(name)) * (1.0 / GRID)


def draws(law, name):
    return standard(type(law), name) * float(law.unit)


def noisy_count(g):
    noise = draws(g["count_noise"], "count")
    return np.maximum(1, g["count"] + (noise if g["rounded"] == "none" else np.rint(noise)))


def slack(p):
    """What a share of so many draws is off by with a probability below 1e-11: 7 deviations, by Bernstein."""
    return 7 * math.sqrt(max(p, 1e-12) / DRAWS) + 20 / DRAWS


# Against draws.


def mean_distances(g):
    mean = (g["normalized_sum"] + draws(g["sum_noise"], "sum")) / noisy_count(g)
    raw = g["normalized_sum"] / max(1, g["count"])
    if "upper" in g:
        reach = (g["upper"] - g["lower"]) / 2
        mean, raw = np.clip(mean, -reach, reach), min(max(raw, -reach), reach)
    return np.abs(mean - raw)


MEANS = {
    "both": dict(normalized_sum=50, count=100, sum_noise=L(10), count_noise=L(3)),
    "narrow count": dict(normalized_sum=300, count=100, sum_noise=L("0.1"), count_noise=L("0.05")),
    "zero sum": dict(normalized_sum=0, count=40, sum_noise=G(5), count_noise=L(8)),
    "count near 1": dict(normalized_sum=-2, count=2, sum_noise=L(3), count_noise=G(2)),
    "no rows": dict(normalized_sum=0, count=0, sum_noise=G(3), count_noise=G(2)),
    "clamped": dict(normalized_sum=30, count=20, sum_noise=L(4), count_noise=L(4), lower=-2, upper=4),
}
QUICK = [("count near 1", "none"), ("count near 1", "count"), ("clamped", "count"), ("no rows", "none")]


@pytest.mark.parametrize(
    ("case", "rounded"),
    [
        pytest.param(*one, marks=[LONG] * (one not in QUICK))
        for one in itertools.product(MEANS, ("none", "count"))
    ],
)
def test_mean_measured(case, rounded):
    """The stated chances are those of draws, with noisy counts that are whole or real."""
    g = MEANS[case] | dict(rounded=rounded)
    distance = mean_distances(g)
    for k in (1, 3):
        exact, joint = mean_tolerance(k, **g, rule="exact"), mean_tolerance(k, **g)
        assert exact <= joint and exact.failure - exact.failure.error <= 10.0**-k
        for t in (exact, joint, exact / 2):
            p = mean_failure_probability(t, **g)
            assert p.error <= 1e-10 * p + 1e-300
            assert abs((distance > t).mean() - p) < slack(p)
        near = complementary_mean_tolerance(k, **g)
        assert (distance < near).mean() < 10.0**-k + slack(10.0**-k)
        if near and "upper" not in g:
            assert abs((distance < near).mean() - 10.0**-k) < slack(10.0**-k)


def variance_case(squares, total, count, a, b, c, rounded="count"):
    named = dict(normalized_squares=squares, normalized_sum=total, count=count)
    return named | dict(squares_noise=a, sum_noise=b, count_noise=c, lower=-4, upper=4, rounded=rounded)


VARIANCES = {
    "all": (400, 100, 100, L(4), L(2), L(1)),
    "sum": (400, -150, 100, G(1), G(20), G(1)),
    "count": (400, 100, 100, L(1), L(1), G(15)),
    "count near 1": (9, 3, 2, L(4), L(2), L(1)),
    "no rows": (0, 0, 0, L(1), G(1), L(1)),
}


@LONG
@pytest.mark.parametrize("rounded", ["none", "count"])
@pytest.mark.parametrize("case", VARIANCES)
def test_variance_measured(case, rounded):
    g = variance_case(*VARIANCES[case], rounded)
    count, total = noisy_count(g), g["normalized_sum"] + draws(g["sum_noise"], "sum")
    squares, n = g["normalized_squares"] + draws(g["squares_noise"], "squares"), max(1, g["count"])
    raw = g["normalized_squares"] / n - (g["normalized_sum"] / n) ** 2
    distance = np.abs(np.clip(squares / count - (total / count) ** 2, 0, 16) - raw)
    joint, exact = variance_tolerance(2, **g), variance_tolerance(2, **g, rule="exact")
    assert exact <= joint and exact.failure - exact.failure.error <= 0.01
    for t, p in ((exact, exact.failure), (joint, variance_failure_probability(joint, **g))):
        assert p.error <= 1e-9 * p + 1e-300
        assert abs((distance > t).mean() - p) < slack(p)
    near = complementary_variance_tolerance(2, **g)
    assert (distance < near).mean() < 0.01 + slack(0.01)


@pytest.mark.parametrize("rounded", ["none", "count", "sums", "all"])
def test_each_way_to_round_is_sound_for_what_rounds_so(rounded):
    """Wide steps against draws: the tolerance holds, and the stated chance is that of the draws."""
    whole_count, whole_sum = rounded in ("count", "all"), rounded in ("sums", "all")
    g = dict(normalized_sum=24, count=12, sum_noise=L("0.4"), count_noise=L("0.3"), rounded=rounded)
    g |= dict(sum_step=1) if whole_sum else {}
    y, z = draws(g["count_noise"], "count"), draws(g["sum_noise"], "sum")
    count = np.maximum(1, 12 + (np.rint(y) if whole_count else y))
    distance = np.abs((24 + (np.rint(z) if whole_sum else z)) / count - 2)
    for k in (1, 3):
        t = mean_tolerance(k, **g)
        assert (distance > t).mean() < 10.0**-k + slack(10.0**-k)
        p = mean_failure_probability(t / 2, **g)
        assert abs((distance > t / 2).mean() - p) < p.error + slack(p)


# Against mpmath, closed forms and sums.


def exact(number):
    number = number if isinstance(number, mpmath.mpf) else Fraction(number)
    return number if isinstance(number, mpmath.mpf) else mpmath.mpf(number.numerator) / number.denominator


def tail(law, x):
    y = exact(x) / exact(law.unit)
    if isinstance(law, Gaussian):
        return mpmath.erfc(y / mpmath.sqrt(2)) / 2
    return mpmath.exp(-y) / 2 if y > 0 else 1 - mpmath.exp(y) / 2


def density(law, x):
    y = x / exact(law.unit)
    power = -y * y / 2 if isinstance(law, Gaussian) else -abs(y)
    return (
        mpmath.exp(power) / exact(law.unit) / (mpmath.sqrt(2 * mpmath.pi) if isinstance(law, Gaussian) else 2)
    )


def rounded_mass(law, m):
    half = mpmath.mpf(1) / 2
    return tail(law, abs(m) - half) - tail(law, abs(m) + half)


def true_mean_failure(t, g, reach):
    """P(|s/c - m| > t), with the sum's tail in closed form: summed, or integrated, over the count's noise."""
    n, total, t = g["count"], g["normalized_sum"], exact(float(t))
    m, law = exact(Fraction(total, max(1, n))), g["count_noise"]

    def outside(r):
        c = max(1, n + r)
        return tail(g["sum_noise"], (m + t) * c - total) + tail(g["sum_noise"], total - (m - t) * c)

    if g["rounded"] == "count":
        return mpmath.fsum(rounded_mass(law, r) * outside(r) for r in range(-reach, reach + 1))
    kinks = [total / s - n for s in (m + t, m - t) if s]
    points = sorted({exact(1 - n), mpmath.mpf(0), exact(reach), *(x for x in kinks if 1 - n < x < reach)})
    return mpmath.quad(lambda r: density(law, r) * outside(r), points) + tail(law, n - 1) * outside(1 - n)


@pytest.mark.parametrize(
    ("k", "rounded"), [(23, "none"), *[pytest.param(k, "count", marks=LONG) for k in (0.5, 23, 290)]]
)
def test_mean_against_mpmath(k, rounded):
    with mpmath.workdps(30):
        for a, b, reach in [(L(10), L("0.7"), 500), (L(1), G(4), 160)]:
            g = dict(normalized_sum=-60, count=71, sum_noise=a, count_noise=b, rounded=rounded)
            t = mean_tolerance(k, **g, rule="exact")
            p, truth = mean_failure_probability(t, **g), true_mean_failure(t, g, reach)
            assert abs(p - truth) <= p.error + 2e-16 * truth
            assert p.error < 1e-10 * p
            assert truth <= mpmath.mpf(10) ** -k < true_mean_failure(t * (1 - 1e-8), g, reach)


@pytest.mark.parametrize("count", [5, 17, 1000])
def test_sums_over_whole_numbers_are_exact(count):
    nodes, log_weights = integer_rule(count)
    for power in (0, 7, 31):
        truth = sum(Fraction(i) ** power for i in range(count))
        assert np.exp(log_weights) @ nodes**power == pytest.approx(float(truth), rel=1e-12)


@pytest.mark.parametrize("rounded", ["none", "count"])
@pytest.mark.parametrize("k", [2, 23])
def test_variance_against_mpmath(k, rounded):
    """Gaussian noise, whose sums on a grid of half a deviation are integrals but for e^-70 of them."""
    g = variance_case(400, 100, 100, G(4), G(2), G(Fraction(1, 2)), rounded)
    t = variance_tolerance(k, **g) / 3
    nodes = np.arange(-28, 29) / 2
    masses = np.exp(-nodes * nodes / 2) / math.sqrt(2 * math.pi) / 2
    if rounded == "count":
        r = np.arange(-6, 7)
        weights = special.ndtr(-(np.abs(r) - 0.5) * 2) - special.ndtr(-(np.abs(r) + 0.5) * 2)
    else:
        r, weights = nodes / 2, masses
    c = 100 + r[:, None]
    bend = (100 + 2 * nodes[None, :]) ** 2 / c
    outside = special.ndtr(-((3 + t) * c - 400 + bend) / 4) + special.ndtr(-(400 - (3 - t) * c - bend) / 4)
    truth = float(weights @ outside @ masses)
    p = variance_failure_probability(t, **g)
    assert p == pytest.approx(truth, rel=1e-11) and p.error < 1e-10 * p


@pytest.mark.parametrize("distance", ["1/4", "1/20000"])
def test_a_mean_without_noise_of_the_sum_has_a_closed_form(distance):
    """S/(n + Y) is farther than t from S/n where Y < S/(m + t) - n or Y > S/(m - t) - n."""
    unit, t = Fraction(1, 50), Fraction(distance)
    g = dict(normalized_sum=30, count=10, sum_noise=L("1e-60"), count_noise=L(unit), rounded="none")
    truth = L(unit).sf(10 - 30 / (3 + t)) + L(unit).sf(30 / (3 - t) - 10)
    p = mean_failure_probability(t, **g)
    assert abs(p - truth) <= p.error + 1e-12 * truth
    # A variance of values around 0 is their mean square.
    g = variance_case(30, 0, 10, L("1e-40"), L("1e-40"), L(unit), "none")
    p = variance_failure_probability(t, **g)
    assert abs(p - truth) <= p.error + 1e-10 * truth


# By hand.


def test_mean_intervals_by_hand():
    """Sum 10 +- 4 or so, count 5 +- 2: each sign of the sum has its own corners."""
    g = dict(sum_noise=L(1), count_noise=L("0.5"), count=8, rounded="count")
    part = per_partition_k(1, 2)
    of_sum, of_count = L(1).tolerance(part), round(L("0.5").tolerance(part))
    for total in (10, -10, 1):
        t = mean_tolerance(1, **g, normalized_sum=total)
        low, high = total - of_sum, total + of_sum
        corners = [s / c for s in (low, high) for c in (8 - of_count, 8 + of_count)]
        assert t.intervals["mean"].low == pytest.approx(min(corners))
        assert t.intervals["mean"].high == pytest.approx(max(corners))
        assert t == pytest.approx(max(max(corners) - total / 8, total / 8 - min(corners)))
        assert t.part_k == part
    assert mean_tolerance(50, **g, normalized_sum=10, lower=0, upper=4) == 3.25


@given(st.integers(-200, 200), st.integers(0, 60), *[st.floats(0.1, 30)] * 3)
@example(10, 30, 1.0, 9.0, 0.1)  # a sum that may be 0
@settings(max_examples=40, deadline=None)
def test_variance_intervals_hold_all_corners(total, count, a, b, c):
    squares = total * total // max(1, count) + 10
    t = variance_tolerance(2, **variance_case(squares, total, count, L(a), L(b), L(c)))
    parts = t.intervals
    for q, s, n in itertools.product(parts["squares"], [*parts["sum"], 0], parts["count"]):
        if parts["sum"].low <= s <= parts["sum"].high:
            v = min(16, max(0, q / n - (s / n) ** 2))
            assert parts["variance"].low - 1e-9 <= v <= parts["variance"].high + 1e-9
    assert t.part_k == per_partition_k(2, 3)


def test_erratum_4_the_rule_of_2020_is_unsound():
    """A sum of 0: the noise of the sum alone carries the mean out, at its own k/2."""
    g = dict(normalized_sum=0, count=10**6, sum_noise=L(1000), count_noise=L(100), rounded="count")
    for k in (2, 6, 20):
        old = mean_failure_probability(mean_tolerance(k, **g, rule="2020"), **g)
        assert 0.9 * 10 ** (-k / 2) < old < 2 * 10 ** (-k / 2)
        assert old > 8 * 10.0**-k
        assert mean_failure_probability(mean_tolerance(k, **g), **g) <= 10.0**-k


def test_the_rule_of_2020_covers_whole_steps():
    """A tolerance of 137 for noise in steps of 137.2 was left whenever the noise was not 0."""
    g = dict(normalized_sum=0, count=0, sum_noise=G(49), count_noise=G("1e-9"), sum_step="137.2")
    t = mean_tolerance(3, **g, rounded="all", rule="2020")
    assert t >= 137.2 and mean_failure_probability(t * (1 + 1e-8), **g, rounded="all") <= 2 * 10**-1.5


# Noise in whole steps.


@pytest.mark.parametrize("law", [L, DiscreteLaplace])
def test_rounded_mean_term_by_term(law):
    """Whole-number noise, against a plain double sum."""
    g = dict(normalized_sum=30, count=12, sum_noise=law(4), count_noise=law("0.7"), rounded="all", sum_step=1)
    r = np.arange(-120, 121)
    a, b = (np.asarray(law.rounded_pmf(r)) for law in (g["sum_noise"], g["count_noise"]))
    apart = np.abs((30 + r[:, None]) / np.maximum(1, 12 + r[None, :]) - 2.5)
    for t in (0.25, 1, 2.2, 7):
        brute = float((np.outer(a, b) * (apart > t)).sum())
        # Ties count as failures: none among these but where the grid meets t exactly.
        ties = float((np.outer(a, b) * (np.abs(apart - t) < 1e-8)).sum())
        assert brute - 1e-12 <= mean_failure_probability(t, **g) <= brute + ties + 1e-12
    for k in (1, 2, 3):
        t = mean_tolerance(k, **g, rule="exact")
        assert t <= mean_tolerance(k, **g) and t.failure <= 10.0**-k
        assert float((np.outer(a, b) * (apart > t)).sum()) <= 10.0**-k
        near = complementary_mean_tolerance(k, **g)
        assert float((np.outer(a, b) * (apart < near - 1e-9)).sum()) <= 10.0**-k


@LONG
def test_rounded_long_sums_are_enclosed(monkeypatch):
    g = dict(normalized_sum=30, count=12, sum_noise=L(4), count_noise=L(2), rounded="all", sum_step="1/8")
    v = variance_case(40, 6, 12, G(4), G(3), G(1)) | dict(rounded="all", squares_step="1/4", sum_step="1/8")
    plain = mean_failure_probability(4, **g), variance_failure_probability(2.5, **v)
    near = complementary_mean_tolerance(1, **g), complementary_variance_tolerance(1, **v)
    monkeypatch.setattr(means, "max_terms", 0)
    monkeypatch.setattr(variances, "max_terms", 0)
    enclosed = mean_failure_probability(4, **g), variance_failure_probability(2.5, **v)
    for p, truth in zip(enclosed, plain, strict=True):
        assert abs(p - truth) <= p.error + truth.error and 0 < p.error < 0.2 * p
    assert complementary_mean_tolerance(1, **g) <= near[0] * (1 + 1e-9)
    assert complementary_variance_tolerance(1, **v) <= near[1] * (1 + 1e-5)


def test_grids_too_fine_for_floats_are_enclosed():
    g = dict(normalized_sum=3 * 2**35, count=1000, sum_noise=L(2**30), count_noise=L(20), rounded="count")
    fine = g | dict(rounded="all", sum_step=2.0**-40)
    assert complementary_mean_tolerance(20, **fine) <= complementary_mean_tolerance(20, **g)
    exact = mean_tolerance(20, **g, rule="exact")
    assert mean_tolerance(20, **fine, rule="exact") == pytest.approx(exact, rel=1e-8)


@pytest.mark.parametrize(("t", "step"), [("1/2", 1), pytest.param("1/3", "1/3", marks=LONG)])
def test_the_error_of_a_rounded_mean_covers_near_ties(t, step):
    """Means that lie exactly t away: counted as failures, and nothing in the error told of it."""
    a, b, n, total = L(2), L(1), 12, 30
    t, step = Fraction(t), Fraction(step)
    given = dict(normalized_sum=total, count=n, sum_noise=a, count_noise=b, rounded="all", sum_step=step)
    reach, outside, tied = int(60 / step), mpmath.mpf(0), mpmath.mpf(0)
    of_sum = {m: rounded_mass(L(2 / step), m) for m in range(-reach, reach + 1)}
    for r in range(-30, 31):
        own = rounded_mass(b, r)
        for m, mass in of_sum.items():
            distance = abs(Fraction(total + m * step) / max(1, n + r) - Fraction(5, 2))
            outside += own * mass * (distance > t)
            tied += own * mass * (distance == t)
    assert tied > 1e-5
    for given_t in (t, float(t), math.nextafter(float(t), 0), float(t) * (1 + 1e-12)):
        beyond = outside + tied if Fraction(given_t) < t else outside
        p = mean_failure_probability(given_t, **given)
        for reading in (beyond, outside, outside + tied):
            assert abs(p - reading) <= p.error + 1e-11
        assert p.error <= 1e-10 + 0.51 * tied, "and no wider than they are"


def test_the_error_of_a_rounded_variance_covers_near_ties():
    a, b, c, n = L(1), L("1/2"), L("1/4"), 8
    given = variance_case(32, 4, n, a, b, c) | dict(rounded="all", squares_step=1, sum_step=1)
    raw = Fraction(32, 8) - Fraction(4, 8) ** 2
    parts = [
        [(r, float(rounded_mass(law, r))) for r in range(-reach, reach + 1)]
        for law, reach in ((c, 6), (b, 11), (a, 24))
    ]
    cells = []
    for (r, p), (s, p_), (q, p__) in itertools.product(*parts):
        if p * p_ * p__ > 1e-13:
            m = max(1, n + r)
            v = max(Fraction(0), min(Fraction(16), Fraction(m * (32 + q) - (4 + s) ** 2, m * m)))
            cells.append((abs(v - raw), p * p_ * p__))
    for t in (Fraction(1, 4), Fraction(15, 8)):
        outside = math.fsum(p for distance, p in cells if distance > t)
        tied = math.fsum(p for distance, p in cells if distance == t)
        assert tied > 1e-7
        stated = variance_failure_probability(t, **given)
        assert abs(stated - outside) <= stated.error + 1e-9
        assert abs(stated - outside - tied) <= stated.error + 1e-9
        assert stated.error <= 1e-9 + 0.51 * tied


def test_ends_that_cross_within_half_a_step_are_no_narrower():
    """Steps far wider than the noise: half a step further in, the ends of an interval have crossed."""
    # Beyond one end alone, 0.9 + t n below one step: P(noise = 1 step) was taken for P(Z > 0.9) = 3e-6.
    g = dict(normalized_sum="-1000.9", count=1000, sum_noise=G("0.2"), count_noise=G("1e-9"), sum_step=1)
    g |= dict(lower=-1, upper=1, rounded="sums")
    one_step = float(tail(G("0.2"), 0.5))
    for t in (0, "5e-5"):
        p = mean_failure_probability(t, **g)
        assert p - p.error <= one_step <= p + p.error
    # It was 0, and 6 of 1,000 draws are farther away.
    with pytest.raises(ParameterError, match="joint"):
        mean_tolerance(5, **g, rule="exact")
    # Half of all noisy counts stand for 1, and nearly every noise of the sum is 0: then the mean is the raw one.
    g = dict(normalized_sum="31.7", count=1, sum_noise=G("0.03"), count_noise=L(6), sum_step=1)
    for k in (1, 9):
        assert complementary_mean_tolerance(k, **g, rounded="sums") == 0


def test_nothing_to_tell():
    """At a bound that values are clamped to, the raw value itself is likely: no narrow noise can be told."""
    clamped = dict(normalized_sum=40, count=20, sum_noise=L(1), count_noise=L(1), lower=-2, upper=2)
    clamped |= dict(rounded="count")
    assert complementary_mean_tolerance(1, **clamped) == 0
    assert complementary_variance_tolerance(1, **variance_case(0, 0, 0, L(1), L(1), L(1))) == 0
    g = dict(normalized_sum=0, count=5, sum_noise=L(1), count_noise=L(1), rounded="all", sum_step=1)
    assert complementary_mean_tolerance(3, **g) == 0
    assert mean_failure_probability(5, **clamped) == 0
    assert mean_failure_probability(5, **clamped).k == math.inf


# Ends of what can be computed.


def test_a_tolerance_that_reaches_the_bound_exactly_is_not_read_as_a_float():
    """1/3 from the upper bound: nothing lies beyond, though the float 1/3 is a little less than that."""
    given = dict(normalized_sum=0, count=9, sum_noise=L(2), count_noise=L(1), lower="-1/3", upper="1/3")
    assert mean_failure_probability(Fraction(1, 3), **given, rounded="count") == 0
    assert mean_failure_probability(1 / 3, **given, rounded="count") > 0.01


@pytest.mark.parametrize("law", [Laplace, Gaussian])
@pytest.mark.parametrize("k", [400, 3000])
def test_the_exact_rule_is_exact_at_large_k(law, k):
    """It fell back to "joint" where the tails were cut above 10^-k; the failure is now 10^-k."""
    g = dict(normalized_sum=500, count=10_000, sum_noise=law(10), count_noise=law(1), rounded="count")
    exact = mean_tolerance(k, **g, rule="exact")
    assert exact < 0.995 * mean_tolerance(k, **g)
    assert exact.failure.k == pytest.approx(k, abs=1e-4) and exact.failure.k >= k - 1e-9


def test_an_exact_rule_that_cannot_be_computed_is_refused():
    """A sum over too many rounded noises is enclosed; where that tells nothing, "joint" is not the exact one."""
    given = dict(normalized_sum=0, count=10**12, sum_noise=L("1/4"), count_noise=L(10**7), sum_step=1)
    with pytest.raises(ParameterError, match="^rule is 'exact', but must be \"joint\" here: .*enclosed"):
        mean_tolerance(23, **given, rounded="all", rule="exact")
    # Noise that rounds to 0 but for 10^-21.7: no tolerance is smaller than 0.
    still = dict(normalized_sum=0, count=10, sum_noise=L("1/100"), count_noise=L("1/100"), sum_step=1)
    assert mean_tolerance(5, **still, rounded="all", rule="exact") == 0
    for call in (
        lambda: mean_tolerance(3501, **BOTH, rule="exact"),
        lambda: complementary_mean_tolerance(3501, **BOTH),
    ):
        with pytest.raises(ParameterError, match="^k is 3501.0, but must be at most 3500"):
            call()


BOTH, ALL = MEANS["both"] | dict(rounded="count"), variance_case(*VARIANCES["all"])
BAD_MEANS = [{"k": 0}, {"normalized_sum": math.nan}, {"count": 1.5}, {"sum_noise": 3}, {"lower": 1}, {"lower": 2, "upper": 2},
             {"rule": "best"}, {"rounded": "all"}, {"sum_step": 1}, {"rounded": True}, {"rounded": "whole"}, {"sum_noise": DiscreteLaplace(1)}]  # fmt: skip
BAD_VARIANCES = [{"k": 0}, {"count": -1}, {"rule": "2020"}, {"normalized_squares": -1}, {"lower": 5}, {"rounded": "sums", "sum_step": 1}]  # fmt: skip


def test_bad_input():
    for tolerance, g, changes in (
        (mean_tolerance, BOTH, BAD_MEANS),
        (variance_tolerance, ALL, BAD_VARIANCES),
    ):
        for change in changes:
            with pytest.raises(ParameterError):
                tolerance(**{"k": 1} | g | change)
        with pytest.raises(TypeError, match="rounded"):
            tolerance(1, **{name: value for name, value in g.items() if name != "rounded"})
    for t in (-1, math.nan, math.inf):
        for failure, g in ((mean_failure_probability, BOTH), (variance_failure_probability, ALL)):
            with pytest.raises(ParameterError):
                failure(t, **g)
