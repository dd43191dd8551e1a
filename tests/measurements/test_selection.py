"""Selection of groups: its inequalities in exact arithmetic, its coins by frequency, its thresholds by law."""

import math
from fractions import Fraction as F

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.budget import Loss, calibrate, split_delta
from sfumato.errors import BudgetError, ParameterError, RefusalError
from sfumato.measurements.group_selection import (
    NEVER,
    GaussianThreshold,
    GroupSelection,
    LaplaceThreshold,
    TruncatedGeometric,
)
from sfumato.noise import Gaussian, Laplace, SeededWords

RULES = [
    TruncatedGeometric(1, "1e-3"),
    LaplaceThreshold(Laplace(scale=1), "1e-3"),
    GaussianThreshold(Gaussian(sigma=2), "1e-3"),
]
with_pre_threshold = {
    "geometric": lambda t: TruncatedGeometric(1, "1e-3", t),
    "laplace": lambda t: LaplaceThreshold(Laplace(scale=1), "1e-3", t),
    "gaussian": lambda t: GaussianThreshold(Gaussian(sigma=2), "1e-3", t),
}


def exp_below(epsilon):
    """A rational below e^epsilon by 2^-900 of it, by mpmath: independent of the rule's own."""
    with mp.workprec(1000):
        number = mp.exp(mp.mpf(epsilon.numerator) / epsilon.denominator) * (1 - mp.mpf(2) ** -900)
        man, exponent = number.man_exp
        return F(int(man)) * F(2) ** int(exponent)


# The truncated geometric rule.


@pytest.mark.parametrize("epsilon", ["1e-3", "0.03", "0.3", "1", "3", "20", "2000"])
@pytest.mark.parametrize("delta", ["1e-30", "1e-10", "1e-5", "0.01", "0.1", "0.7"])
def test_all_four_inequalities_hold_exactly_for_all_n(epsilon, delta):
    if epsilon == "1e-3" and delta in ("1e-30", "1e-10"):
        delta = "1e-7"  # keeps the table, and the test, short
    rule = TruncatedGeometric(epsilon, delta)
    e, d = min(exp_below(F(epsilon)), F(2) ** 600), F(delta)  # below e^epsilon: stricter
    bits = rule._bits
    one, leak = 1 << bits, d * (1 << bits)
    assert rule._table[0] == 0 and rule._table[-1] == one
    for before, p in zip(rule._table, rule._table[1:], strict=False):
        assert 0 <= before <= p <= one
        assert p <= e * before + leak
        assert before <= e * p + leak
        assert one - p <= e * (one - before) + leak
        assert one - before <= e * (one - p) + leak


@pytest.mark.parametrize("epsilon, delta", [("0.1", "1e-6"), ("1", "1e-5"), ("5", "0.01")])
def test_the_rule_is_as_good_as_the_theorem_allows(epsilon, delta):
    rule = TruncatedGeometric(epsilon, delta)
    with mp.workdps(60):
        e, d, p = mp.exp(mp.mpf(epsilon)), mp.mpf(delta), mp.mpf(0)
        for n in range(1, len(rule._table)):
            p = min(e * p + d, 1 - (1 - p - d) / e, mp.mpf(1))
            ours = rule.probability(n)
            assert p * (1 - mp.mpf(10) ** -15) <= mp.mpf(ours.numerator) / ours.denominator <= p


def test_expected_threshold_and_probability():
    rule = TruncatedGeometric(1, "1e-6", 3)
    n = rule.expected_threshold
    assert rule.probability(n - 1) < F(1, 2) <= rule.probability(n)
    assert [rule.probability(k) for k in (-5, 0, 2)] == [0, 0, 0]
    assert 0 < rule.probability(3) <= F("1e-6") and rule.probability(10**18) == 1


def test_a_long_table_is_refused_before_it_is_built():
    with pytest.raises(RefusalError, match="use LaplaceThreshold or GaussianThreshold"):
        TruncatedGeometric("1e-7", "1e-20")
    with pytest.raises(RefusalError, match="2\\^20"):
        TruncatedGeometric(F(1, 10**300), "1e-9")
    assert TruncatedGeometric("1e-12", "0.1").expected_threshold == 5


# Coins: frequencies against the exact probabilities.

ALARM = 1e-10
TOSSES = 400_000


def deviates(rule, toss, counts):
    """Whether a frequency is off by what has probability below ALARM / len(counts), by Hoeffding."""
    allowed = math.sqrt(math.log(2 * len(counts) / ALARM) / (2 * TOSSES))
    return any(
        abs(toss(np.full(TOSSES, n, np.int64), SeededWords(n)).mean() - float(rule.probability(n))) > allowed
        for n in counts
    )


@pytest.mark.parametrize("epsilon, delta", [("0.5", "0.01"), ("1", "1e-4"), ("0.2", "0.05")])
def test_frequencies_match_and_a_planted_defect_does_not(epsilon, delta):
    """Deviations allowed are 0.0057; a unit more, or epsilon 5% larger, moves some probability by 0.015."""
    rule = TruncatedGeometric(epsilon, delta)
    middle = rule.expected_threshold
    counts = [n for n in range(middle - 4, middle + 4) if n > 0]
    assert not deviates(rule, rule.keep, counts)
    assert deviates(rule, lambda units, words: rule.keep(units + 1, words), counts)
    looser = TruncatedGeometric(F(epsilon) * F(21, 20), delta)
    gap = max(abs(float(looser.probability(n) - rule.probability(n))) for n in counts)
    assert gap > 0.015
    assert deviates(rule, looser.keep, counts)


@pytest.mark.flakiness(k=100, because="noise of scale 2 or less against a million units")
@pytest.mark.parametrize("rule", RULES, ids=lambda r: type(r).__name__)
def test_certain_groups(rule):
    units = np.array([0, 10**6, 0, 2**62, -5], np.int64)
    assert rule.select(units).keep.tolist() == [False, True, False, True, False]


def test_threshold_frequencies_match_the_law():
    for rule in RULES[1:]:
        counts = range(rule.tau - 2, rule.tau + 3)
        allowed = math.sqrt(math.log(2 * 10 / ALARM) / (2 * TOSSES))
        for n in counts:
            kept = rule.select(np.full(TOSSES, n, np.int64), SeededWords(n)).keep.mean()
            assert abs(kept - rule.law.rounded_sf(rule.tau - n - 1)) < allowed
            assert abs(kept - rule.law.rounded_sf(rule.tau - n)) > allowed  # a threshold of one more


# Thresholds.


def rounded_tail(law, m):
    """P(R >= m) by mpmath: R is the rounded noise."""
    with mp.workdps(50):
        x = mp.mpf(2 * m - 1) / 2
        if isinstance(law, Laplace):
            z = x * law.scale.denominator / law.scale.numerator
            return mp.exp(-z) / 2 if x >= 0 else 1 - mp.exp(z) / 2
        return mp.erfc(x * law.sigma.denominator / law.sigma.numerator / mp.sqrt(2)) / 2


LAWS = [Laplace(scale=s) for s in ("0.01", "0.5", "1", "7.3", "1e6", 2**40)] + [
    Gaussian(sigma=s) for s in ("0.01", "0.5", "1", "7.3", "1e6")
]


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("delta", ["1e-300", "1e-12", "1e-6", "0.01", "0.4", "0.9"])
def test_tau_is_the_smallest_safe_threshold(law, delta):
    rule = (LaplaceThreshold if isinstance(law, Laplace) else GaussianThreshold)(law, delta)
    d = mp.mpf(F(delta).numerator) / F(delta).denominator
    assert rounded_tail(law, rule.tau - 1) <= d * (1 + mp.mpf(10) ** -40)
    assert rounded_tail(law, rule.tau - 2) > d


@pytest.mark.parametrize("scale", ["0.5", "1", "2", "20"])
def test_tau_of_the_real_law_is_not_private(scale):
    """The real noise reaches tau' - 1 with probability delta; the rounded one with up to e^(1/(2b)) more."""
    b = F(scale)
    worst = 0.0
    for k in range(200):
        with mp.workdps(30):
            wanted = mp.mpf(10) ** (-6 - mp.mpf(k) / 200)
            delta = F(int(wanted * mp.mpf(10) ** 25), 10**25)
            real_tau = 1 + int(
                mp.ceil(
                    -mp.mpf(b.numerator)
                    / b.denominator
                    * mp.log(2 * mp.mpf(delta.numerator) / delta.denominator)
                )
            )
            true_delta = rounded_tail(Laplace(b), real_tau - 1)
            ratio = float(true_delta * delta.denominator / delta.numerator)
        worst = max(worst, ratio)
        ours = LaplaceThreshold(Laplace(b), delta).tau
        assert ours >= real_tau
        assert (ratio > 1) == (ours > real_tau)
    bound = math.exp(1 / (2 * b))
    assert 1 + 0.8 * (bound - 1) < worst <= bound * (1 + 1e-9)


def test_noisy_counts_are_the_ones_that_are_judged():
    for rule in RULES[1:]:
        units = np.arange(100_000, dtype=np.int64) % 60
        keep, noisy = rule.select(units, SeededWords(3))
        assert (keep == (noisy >= rule.tau))[units > 0].all() and not keep[units == 0].any()
        assert (rule.noisy(units, SeededWords(3)) == noisy).all()
        noise = (noisy - units)[units > 0]
        assert abs(noise.mean()) < 0.2 and 1 < noise.std() < 3


@pytest.mark.flakiness(k=24, because="noise of scale 2^57 below -2^63 has e^-64 / 2, a thousand times")
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_noisy_counts_do_not_wrap(kind):
    rule = with_pre_threshold[kind](2**62)
    units = np.array([2**63 - 1, 2**62, 2**62 - 1], np.int64)
    noisy = rule.noisy(units)
    assert noisy[0] > 2**62 and abs(int(noisy[1]) - 2**62) < 10**4 and noisy[2] == NEVER
    assert rule.keep(noisy).tolist()[0::2] == [True, False]
    assert not rule.keep(np.array([NEVER])).any()
    wide = LaplaceThreshold(Laplace(scale=2**57), "1e-300")
    assert wide.tau > 2**63 and not wide.select(np.full(1000, 2**63 - 1, np.int64)).keep.any()
    assert (wide.noisy(np.full(1000, 2**63 - 1, np.int64)) > 0).all()


# The pre-threshold.


@pytest.mark.flakiness(k=300, because="a thousand of a million groups are expected, and none has e^-900")
@pytest.mark.parametrize("kind", with_pre_threshold)
def test_groups_below_the_pre_threshold_are_never_kept(kind):
    rule = with_pre_threshold[kind](8)
    assert not rule.select(np.full(1_000_000, 7, np.int64)).keep.any()
    assert rule.select(np.full(1_000_000, 8, np.int64)).keep.any()  # 1000 expected: none has e^-900
    assert rule.expected_threshold == with_pre_threshold[kind](1).expected_threshold + 7


@pytest.mark.parametrize("kind", with_pre_threshold)
def test_the_pre_threshold_shifts_everything_else(kind):
    plain, shifted = with_pre_threshold[kind](1), with_pre_threshold[kind](5)
    units = np.arange(50_000, dtype=np.int64) % 40
    a, b = plain.select(units, SeededWords(7)), shifted.select(units + 4, SeededWords(7))
    assert (a.keep == b.keep).all()
    if a.noisy is not None:
        assert (a.noisy + 4 == b.noisy)[units > 0].all() and (b.noisy == NEVER)[units == 0].all()


# Losses, and selection inside a budget.


def test_losses():
    assert TruncatedGeometric("0.5", "1e-7").loss(3) == Loss(approximate=((F(1, 2), F("1e-7"), 3),))
    laplace = LaplaceThreshold(Laplace(scale=4), "1e-7").loss(1)
    assert laplace == Loss(laplace=((F(1, 4), 1),), additive_delta=F("1e-7"))
    gaussian = GaussianThreshold(Gaussian(sigma=4), "1e-7").loss(8)
    assert gaussian.gaussian == F(1, 2) and 7.99e-7 < gaussian.additive_delta < 8e-7


@pytest.mark.parametrize("groups", [1, 2, 7, 100])
def test_delta_is_split_so_that_all_of_it_can_be_spent(groups):
    share = split_delta("1e-6", groups)
    assert LaplaceThreshold(Laplace(scale=groups), share).loss(groups).delta(1) <= F("1e-6")
    assert TruncatedGeometric(F(1, groups), share).loss(groups).delta(1) <= F("1e-6")
    half = split_delta("5e-7", groups)
    sigma = calibrate(lambda x: GaussianThreshold(Gaussian(x), half).loss(groups), 1, "1e-6")
    assert GaussianThreshold(Gaussian(sigma), half).loss(groups).delta(1) <= F("1e-6")


@pytest.mark.parametrize("lone", [0, 1, 2])
@pytest.mark.parametrize("shared", [0, 1])
def test_a_threshold_meets_its_claim_by_direct_integration(lone, shared):
    """A unit in `lone` groups of its own and `shared` groups of 1 + others: the hockey stick itself, both ways."""
    rule = LaplaceThreshold(Laplace(scale=2), "1e-3")
    claimed = rule.loss(max(1, lone + shared)).delta("0.25")
    grid = range(-60, 80)
    pmf = lambda m: float(rounded_tail(rule.law, m) - rounded_tail(rule.law, m + 1))  # noqa: E731
    count = {n: {m: pmf(m - n) for m in grid} for n in (1, 4, 5)}
    seen = {n: {m: p for m, p in c.items() if m >= rule.tau} for n, c in count.items()}
    for shown in seen.values():
        shown["none"] = 1.0 - sum(shown.values())
    with_unit, without = {(): 1.0}, {(): 1.0}
    for here, there in [(seen[1], {"none": 1.0})] * lone + [(seen[5], seen[4])] * shared:
        with_unit = {(*k, m): p * q for k, p in with_unit.items() for m, q in here.items()}
        without = {(*k, m): p * q for k, p in without.items() for m, q in there.items()}
    for upper, lower in ((with_unit, without), (without, with_unit)):
        stick = sum(max(0.0, p - math.exp(0.25) * lower.get(k, 0.0)) for k, p in upper.items())
        assert stick <= float(claimed) + 1e-12


# Faces and errors.


@pytest.mark.flakiness(
    k=30, because="noise of scale 2 or less between a threshold below 20 and 100 units, nine times"
)
def test_one_face():
    assert all(isinstance(rule, GroupSelection) for rule in RULES)
    for rule in RULES:
        assert rule.select([]).keep.shape == (0,)
        assert rule.select([1, 2, 3]).keep.dtype == np.bool_
        for dtype in (np.int8, np.int32, np.uint64):
            assert rule.select(np.array([0, 100], dtype)).keep.tolist() == [False, True]
    assert RULES[0].select([5]).noisy is None


@settings(max_examples=30, deadline=None)
@given(st.fractions(F(1, 20), 30), st.fractions(F(1, 10**12), F(9, 10)), st.integers(1, 50))
def test_any_geometric_rule(epsilon, delta, pre_threshold):
    rule = TruncatedGeometric(epsilon, delta, pre_threshold)
    n = rule.expected_threshold
    assert rule.probability(pre_threshold) <= delta
    assert (
        n >= pre_threshold
        and rule.probability(n) >= F(1, 2)
        and (n == pre_threshold or rule.probability(n - 1) < F(1, 2))
    )


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "x"])
def test_bad_epsilon(bad):
    with pytest.raises(BudgetError, match="epsilon"):
        TruncatedGeometric(bad, "1e-6")


@pytest.mark.parametrize("bad", [0, -1, 1, float("nan"), float("inf"), "x"])
def test_bad_delta(bad):
    with pytest.raises(BudgetError, match="delta"):
        TruncatedGeometric(1, bad)
    with pytest.raises(BudgetError, match="delta_per_group"):
        LaplaceThreshold(Laplace(scale=1), bad)
    with pytest.raises(BudgetError, match="delta_per_group"):
        GaussianThreshold(Gaussian(sigma=1), bad)


@pytest.mark.parametrize("kind", with_pre_threshold)
@pytest.mark.parametrize("bad", [0, -1, 1.5, True, 2**63])
def test_bad_pre_threshold(kind, bad):
    with pytest.raises(ParameterError, match="pre_threshold"):
        with_pre_threshold[kind](bad)


@pytest.mark.parametrize("rule", RULES, ids=lambda r: type(r).__name__)
def test_bad_arguments(rule):
    for bad in ([1.5], [[1]], 3, ["x"]):
        with pytest.raises(ParameterError, match="units"):
            rule.select(bad)
    for bad in (0, -1, 1.5, True):
        with pytest.raises(BudgetError, match="groups"):
            rule.loss(bad)


def test_laws_are_not_confused():
    with pytest.raises(ParameterError, match="law"):
        LaplaceThreshold(Gaussian(sigma=1), "1e-6")
    with pytest.raises(ParameterError, match="law"):
        GaussianThreshold(Laplace(scale=1), "1e-6")
