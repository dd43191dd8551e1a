"""Selection of groups: its inequalities in exact arithmetic, its coins by frequency, its thresholds by law."""

import math
from fractions import Fraction as F

import mpmath as mp
import numpy as np
import pytest

from sfumato.budget import Loss
from sfumato.errors import BudgetError, ParameterError, RefusalError
from sfumato.framework import ContributionDomain, PrivacyUnitDistance
from sfumato.measurements import (
    GaussianThreshold,
    LaplaceThreshold,
    PrivacyLoss,
    TruncatedGeometric,
    select_groups,
)
from sfumato.measurements.group_selection import NEVER
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


@pytest.mark.parametrize(
    "epsilon, delta",
    [
        ("0.03", "0.01"),
        ("1", "1e-10"),
        ("20", "1e-30"),
        ("2000", "0.7"),
        pytest.param("1e-3", "1e-7", marks=pytest.mark.long),
    ],
)
def test_all_four_inequalities_hold_exactly_for_all_n(epsilon, delta):
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


def test_a_long_table_is_refused_before_it_is_built():
    with pytest.raises(RefusalError, match="Use LaplaceThreshold or GaussianThreshold instead"):
        TruncatedGeometric("1e-7", "1e-20")
    with pytest.raises(RefusalError, match="2\\^20"):
        TruncatedGeometric(F(1, 10**300), "1e-9")
    assert TruncatedGeometric("1e-12", "0.1").expected_threshold == 5


ALARM = 1e-10

TOSSES = 400_000


def deviates(rule, toss, counts):
    """Whether a frequency is off by what has probability below ALARM / len(counts), by Hoeffding."""
    allowed = math.sqrt(math.log(2 * len(counts) / ALARM) / (2 * TOSSES))
    return any(
        abs(toss(np.full(TOSSES, n, np.int64), SeededWords(n)).mean() - float(rule.probability(n))) > allowed
        for n in counts
    )


@pytest.mark.long
@pytest.mark.parametrize("epsilon, delta", [("0.5", "0.01"), ("1", "1e-4")])
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


def test_threshold_frequencies_match_the_law():
    for rule in RULES[1:]:
        counts = range(rule.tau - 2, rule.tau + 3)
        allowed = math.sqrt(math.log(2 * 10 / ALARM) / (2 * TOSSES))
        for n in counts:
            kept = rule.select(np.full(TOSSES, n, np.int64), SeededWords(n)).keep.mean()
            assert abs(kept - rule.law.rounded_sf(rule.tau - n - 1)) < allowed
            assert abs(kept - rule.law.rounded_sf(rule.tau - n)) > allowed  # a threshold of one more


def rounded_tail(law, m):
    """P(R >= m) by mpmath: R is the rounded noise."""
    with mp.workdps(50):
        x = mp.mpf(2 * m - 1) / 2
        if isinstance(law, Laplace):
            z = x * law.scale.denominator / law.scale.numerator
            return mp.exp(-z) / 2 if x >= 0 else 1 - mp.exp(z) / 2
        return mp.erfc(x * law.sigma.denominator / law.sigma.numerator / mp.sqrt(2)) / 2


LAWS = [Laplace(scale=s) for s in ("0.01", 1, 2**40)] + [Gaussian(sigma=s) for s in ("0.5", "7.3")]


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("delta", ["1e-300", "1e-6", "0.4", "0.9"])
def test_tau_is_the_smallest_safe_threshold(law, delta):
    rule = (LaplaceThreshold if isinstance(law, Laplace) else GaussianThreshold)(law, delta)
    d = mp.mpf(F(delta).numerator) / F(delta).denominator
    assert rounded_tail(law, rule.tau - 1) <= d * (1 + mp.mpf(10) ** -40)
    assert rounded_tail(law, rule.tau - 2) > d


def test_tau_of_the_real_law_is_not_private():
    """The real noise reaches tau' - 1 with probability delta; the rounded one with up to e^(1/(2b)) more."""
    b, worst = F(1, 2), 0.0
    for k in range(60):
        delta = F(round(10 ** (19 - k / 60)), 10**25)
        real = 1 + math.ceil(-float(b) * math.log(2 * float(delta)))
        ratio = float(rounded_tail(Laplace(b), real - 1) / (mp.mpf(delta.numerator) / delta.denominator))
        worst, ours = max(worst, ratio), LaplaceThreshold(Laplace(b), delta).tau
        assert ours >= real and (ratio > 1) == (ours > real)
    assert 1 + 0.8 * (math.e - 1) < worst <= math.e * (1 + 1e-9)


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


@pytest.mark.flakiness(k=300, because="a thousand of a million groups are expected, and none has e^-900")
@pytest.mark.parametrize("kind", with_pre_threshold)
def test_groups_below_the_pre_threshold_are_never_kept(kind):
    rule = with_pre_threshold[kind](8)
    assert not rule.select(np.full(1_000_000, 7, np.int64)).keep.any()
    assert rule.select(np.full(1_000_000, 8, np.int64)).keep.any()  # 1000 expected: none has e^-900
    assert rule.expected_threshold == with_pre_threshold[kind](1).expected_threshold + 7


def test_losses():
    assert TruncatedGeometric("0.5", "1e-7").loss(3) == Loss(approximate=((F(1, 2), F("1e-7"), 3),))
    laplace = LaplaceThreshold(Laplace(scale=4), "1e-7").loss(1)
    assert laplace == Loss(laplace=((F(1, 4), 1),), additive_delta=F("1e-7"))
    gaussian = GaussianThreshold(Gaussian(sigma=4), "1e-7").loss(8)
    assert gaussian.gaussian == F(1, 2) and 7.99e-7 < gaussian.additive_delta < 8e-7


@pytest.mark.long
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


def test_what_is_refused():
    for bad in (0, -1, float("nan"), "x"):
        for make in (
            lambda b: TruncatedGeometric(b, "1e-6"),
            lambda b: TruncatedGeometric(1, b),
            lambda b: LaplaceThreshold(Laplace(1), b),
        ):
            with pytest.raises(BudgetError, match="epsilon|delta"):
                make(bad)
        with pytest.raises(ParameterError, match="groups"):
            select_groups(RULES[0], bad)
        with pytest.raises(ParameterError, match="rule"):
            select_groups(bad, 1)
    for bad in (0, 1.5, True, 2**63):
        with pytest.raises(ParameterError, match="pre_threshold"):
            GaussianThreshold(Gaussian(1), "1e-3", bad)
    for bad in ([1.5], [[1]], 3, ["x"]):
        with pytest.raises(ParameterError, match="units"):
            RULES[0].select(bad)
    for make, law in ((LaplaceThreshold, Gaussian(1)), (GaussianThreshold, Laplace(1))):
        with pytest.raises(ParameterError, match="law"):
            make(law, "1e-6")


LONE = [
    TruncatedGeometric(1, "1e-20"),
    LaplaceThreshold(Laplace(1), "1e-20"),
    GaussianThreshold(Gaussian(1), "1e-20"),
]  # show one unit with a probability of 1e-20


# As a measurement: chained, one unit, and an order that tells nothing.


@pytest.mark.flakiness(k=100, because="noise of scale 1 against 10^4 units")
@pytest.mark.parametrize("rule", LONE, ids=lambda rule: type(rule).__name__)
def test_the_order_of_rows_does_not_show(rule):
    keys = ["b", 3, "a", None, (1, "x"), 2, "c", b"c"]
    here = {key: [[{}]] * 10**4 for key in keys}
    there = {key: [[{}]] * 10**4 for key in reversed(keys)}
    assert list(select_groups(rule, 1)(here)) == list(select_groups(rule, 1)(there))
    assert set(select_groups(rule, 1)(here)) == set(keys)


@pytest.mark.parametrize("rule", LONE, ids=lambda rule: type(rule).__name__)
def test_the_claim(rule):
    chosen = select_groups(rule, 3)
    assert chosen.map(1) == rule.loss(3) and chosen.map(0) == Loss() and chosen.map(F(1, 2)) == Loss()
    assert chosen.input_domain == ContributionDomain(3) and chosen.input_metric == PrivacyUnitDistance(3)
    assert chosen.output_measure == PrivacyLoss()
    for d_in in (2, F(3, 2), 10):
        with pytest.raises(
            ParameterError, match="d_in .* at most 1: the loss of a selection is stated for one"
        ):
            chosen.map(d_in)
