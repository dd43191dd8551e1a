"""Quantiles by the exponential mechanism: what places weigh, the law, exactly, and its privacy.

Draws are compared with the law by Chernoff's bound at 1e-15; all words are seeded.
"""

import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction as F
from functools import cache
from itertools import accumulate, pairwise, product

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import ParameterError
from sfumato.framework import GroupedIntegers, L1Distance, PureDP
from sfumato.measurements import Target, joint_quantiles
from sfumato.measurements.quantile_choice import (
    DIGITS,
    FEW,
    MAX_ROUND,
    BaseMeasure,
    Levels,
    QuantileChoice,
    placed,
)
from sfumato.noise import FixedWords, SeededWords
from sfumato.transformations import Lattice

# What places weigh before counts: held to decimals as they are written, place by place.

steady = settings(derandomize=True, database=None, deadline=None, max_examples=20)

WHOLE = Lattice(0.0, 50.0, whole=True)

LATTICES = [
    WHOLE,
    Lattice(-7.0, 300.0, whole=True),
    Lattice(0.0, 10.0),
    pytest.param(Lattice(-2e5, 1e9, whole=True), marks=pytest.mark.long),
]

ODD = [
    Lattice(-1e300, 1e300),
    Lattice(0.0, 5e-300),
    Lattice(-5e-324, 5e-324),
    Lattice(30.0, 30.000000000000007),
    Lattice(1e15, 1e15 + 0.25),
    Lattice(-3.0, 1e18, whole=True),
    Lattice(1.0, 2.0, whole=True),
]

measure = cache(BaseMeasure)


def has_digits(value, digits, top, lowest):
    """Whether a number has so few decimal digits, from its first one or from that of the bounds' distance."""
    number = Decimal(value)
    decade = max(min(number.adjusted() if number else lowest, top), lowest)
    return number == number.quantize(Decimal(1).scaleb(decade - digits + 1))


def expected(lattice):
    """What each place weighs, from texts of decimals: those that round to it and have few digits."""
    top = (Decimal(lattice.upper) - Decimal(lattice.lower)).adjusted()
    lowest = 0 if lattice.whole else Decimal(lattice.near).adjusted()
    weights = Counter(dict.fromkeys(range(lattice.first, lattice.last + 1), 1))
    for digits in DIGITS:
        numbers = {Decimal(0)}
        for decade in range(min(lowest, top), top + 1):
            step = Decimal(1).scaleb(decade - digits + 1)
            most = 10**digits if decade < top else int(Decimal(max(-lattice.lower, lattice.upper)) / step) + 1
            numbers |= {sign * m * step for m in range(1, most + 1) for sign in (1, -1)}
        found = {
            lattice.place(float(x))
            for x in numbers
            if lattice.lower <= float(x) <= lattice.upper and has_digits(x, digits, top, lowest)
            if not lattice.whole or x == int(x)
        }
        if 0 < len(found) <= min(lattice.count // FEW, MAX_ROUND):
            weights.update(dict.fromkeys(found, lattice.count // len(found)))
    return weights


@pytest.mark.long
@pytest.mark.parametrize("lattice", LATTICES, ids=str)
def test_round_numbers_weigh_more_by_the_shares_that_they_have(lattice):
    base, weights = BaseMeasure(lattice), expected(lattice)
    places = np.arange(lattice.first, lattice.last + 1)
    assert base.between(places, places).tolist() == [weights[place] for place in places.tolist()]
    assert base.total == sum(weights.values()) <= (1 + len(DIGITS)) * lattice.count


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("lattice", [*LATTICES, *ODD], ids=str)
@steady
@given(st.tuples(*[st.fractions(0, 1)] * 3))
def test_weights_add_up_and_are_at_least_one(lattice, shares):
    base = measure(lattice)
    low, middle, high = sorted(lattice.first + round(share * (lattice.count - 1)) for share in shares)
    upto = int(base.between(low, middle))
    assert upto >= middle - low + 1
    if middle < high:
        assert upto + int(base.between(middle + 1, high)) == int(base.between(low, high)) <= base.total


@pytest.mark.parametrize("low, high", [(0, 50), (11, 19), (20, 20)])
def test_places_are_drawn_exactly_as_often_as_they_weigh(low, high):
    base = BaseMeasure(WHOLE)
    weight = int(base.between(low, high))
    ends = np.full(weight, low), np.full(weight, high)
    drawn = Counter(base.pick(*ends, FixedWords(range(weight))).tolist())
    assert drawn == {place: int(base.between(place, place)) for place in range(low, high + 1)}


# The law.

SMALL = Lattice(0.0, 5.0, whole=True)

HALF = Target(F(1, 2))

AROUND = (Target(F(1, 2), F(-1)), HALF, Target(F(1, 2), F(1)))

WIDE = (HALF, Target(F(1, 2), F(5, 2), F(4, 3)))

# Beyond all counts, of which there are too few, targets are held to the first or the last of them.
HELD = (Target(F(4, 5)), Target(F(4, 5), F(3), F(1, 2), within=True))

ENDS = (Target(F(1, 7)), Target(F(1, 7), F(-1), F(1, 2), within=True))

QUARTILES = (Target(F(1, 4)), Target(F(3, 4)))


def distance(counts, place, target):
    """How far a place is from a target, as the page defines it; counts by place."""
    before, total = sum(n for p, n in counts.items() if p < place), sum(counts.values())
    low, high = (target.rank * total + target.shift + end for end in (-target.spread, target.spread))
    if target.within:
        low, high = (min(max(end, F(0)), F(total)) for end in (low, high))
    return max(F(0), before - high, low - before - counts.get(place, 0))


def law(counts, choice, far=distance, largest=max):
    """The law by its definition, over all choices of a place for each target, to 40 digits."""
    places = range(choice.lattice.first, choice.lattice.last + 1)
    with mp.workdps(40):
        base, weights = choice.base, {}
        for chosen in product(places, repeat=len(choice.targets)):
            d = largest([far(counts, p, t) for p, t in zip(chosen, choice.targets, strict=True)])
            power = -mp.mpf(d.numerator) / d.denominator * choice.scale.denominator / choice.scale.numerator
            weights[chosen] = mp.exp(power) * math.prod(int(base.between(p, p)) for p in chosen)
        total = mp.fsum(weights.values())
        return {chosen: w / total for chosen, w in weights.items()}


def given_as(counts):
    return placed({place: n for place, n in counts.items() if n})


def levels_of(counts, choice, far=None):
    return choice.levels(*given_as(counts), far)


def law_of_levels(counts, choice, bits=128):
    """The law of what is drawn, from the bounds that decide it."""
    levels = levels_of(counts, choice)
    low, high = levels.floats() if bits == 64 else levels.enclosures(bits)
    found = Counter()
    with mp.workdps(40):
        ends = [
            (mp.mpf(F(a).numerator) / F(a).denominator + mp.mpf(F(b).numerator) / F(b).denominator) / 2
            for a, b in zip(low, high, strict=True)
        ]
        for i, end in enumerate(ends):
            share = end - (ends[i - 1] if i else 0)
            boxes = [range(a, b + 1) for a, b in levels.level(i)]
            whole = math.prod(int(choice.base.between(a, b)) for a, b in levels.level(i))
            for chosen in product(*boxes):
                found[chosen] += share * math.prod(int(choice.base.between(p, p)) for p in chosen) / whole
    return found


counted = st.dictionaries(st.integers(0, 5), st.integers(1, 7), max_size=6)

choices = st.builds(
    QuantileChoice,
    st.fractions(F(1, 3), 5, max_denominator=7),
    st.just(SMALL),
    st.sampled_from(
        [
            (HALF,),
            AROUND[:2],
            QUARTILES,
            (Target(F(1)),),
            (Target(F(0)), Target(F(1, 3), F(5, 2))),
            WIDE,
            HELD,
            ENDS,
        ]
    ),
)


@steady
@given(counted, choices)
def test_the_law_is_that_of_the_definition(counts, choice):
    expected = law(counts, choice)
    for bits, error in ((64, 1e-11), (128, 1e-30)):
        found = law_of_levels(counts, choice, bits)
        assert max(abs(expected[c] - found.get(c, 0)) for c in expected) < error
        assert set(found) <= set(expected)


@steady
@given(counted, choices, st.sampled_from(["near", "far"]))
def test_bounds_hold_what_they_bound_and_rise(counts, choice, far):
    near, levels = levels_of(counts, choice, getattr(choice, far)), levels_of(counts, choice)
    floats, exact = near.floats(), levels.enclosures(256)
    assert near.distances.tolist() == levels.distances[: len(near.distances)].tolist()
    for i, (a, b) in enumerate(zip(*floats, strict=True)):
        c, d = exact[0][i], exact[1][i]
        assert near.level(i) == levels.level(i)
        assert F(float(a)) <= c <= d <= F(float(b)) and d - c < F(1, 2**200)
    for ends in (*floats, *exact):
        assert all(x <= y for x, y in pairwise(ends))


def test_more_bits_decide_where_floats_do_not():
    """U next to the boundary of two levels, from either side by its second word."""
    choice, counts = QuantileChoice(F(1), SMALL, (HALF,)), {2: 4, 3: 4}
    exact = levels_of(counts, choice).enclosures(256)
    boundary = int(exact[0][0] * 2**128)
    drawn = []
    for word in (boundary - 2, boundary + 2):
        words = FixedWords([word >> 64, word & (2**64 - 1)], SeededWords(0))
        levels = []
        honest = Levels.pick
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Levels, "pick", lambda self, i, w: levels.extend(i) or honest(self, i, w))  # noqa: B023
            choice.draw(*given_as(counts), words)
        drawn += levels
    assert drawn == [0, 1]


def largest_loss(choice, far=distance, largest=max, most=3):
    """The largest log ratio over all counts of at most 3 places, and neighbours by one step at one place."""
    worst = 0.0
    for given_counts in product(range(most + 1), repeat=3):
        counts = dict(zip((1, 2, 4), given_counts, strict=True))
        one = law(counts, choice, far, largest)
        for place in (0, 1, 3, 4, 5):
            other = law({**counts, place: counts.get(place, 0) + 1}, choice, far, largest)
            worst = max(worst, *(abs(float(mp.log(one[c] / other[c]))) for c in one))
    return worst


@pytest.mark.parametrize(
    "targets",
    [
        (Target(F(4, 5)),),
        *(pytest.param(t, marks=pytest.mark.long) for t in (QUARTILES, WIDE, HELD, ENDS)),
    ],
)
def test_no_ratio_is_above_the_claim_and_some_come_near(targets):
    choice = QuantileChoice(F(2), SMALL, targets)
    claim = float(choice.loss)
    assert 0.5 * claim < largest_loss(choice, most=2 if len(targets) == 2 else 3) <= claim * (1 + 1e-12)


def groups_of_counts(sizes, least=0):
    counts = st.dictionaries(st.integers(0, 5), st.sampled_from(sizes), min_size=least, max_size=6)
    return st.lists(counts, min_size=1, max_size=5)


@steady
@given(groups_of_counts([1, 2, 7, 2**40, 2**61]), choices, st.sampled_from([None, 0, 3, "near", "far"]))
def test_groups_are_measured_together_as_each_by_itself(groups, choice, far):
    far = getattr(choice, far) if isinstance(far, str) else far
    alone = [given_as(counts) for counts in groups]
    places = np.concatenate([own for own, _ in alone])
    offsets = np.cumsum([0, *(len(own) for own, _ in alone)])
    together = given_as(dict(enumerate(n for counts in groups for _, n in sorted(counts.items()))))[1]
    found = choice.levels(places, together, far, offsets)
    for group, own in enumerate(alone):
        expected, cut = choice.levels(*own, far), slice(*found.offsets[group : group + 2])
        assert found.distances[cut].tolist() == expected.distances.tolist()
        assert found.log_left[group] == expected.log_left[0] and found.left[group] == expected.left[0]
        for ends, others in zip(
            (*found.ends, found.floats()), (*expected.ends, expected.floats()), strict=True
        ):
            assert [e[cut].tolist() for e in ends] == [e.tolist() for e in others]


@steady
@given(groups_of_counts([1, 2, 7, 2**40]), choices, st.integers(0, 2**32))
def test_groups_are_drawn_together_as_each_by_itself(groups, choice, seed):
    alone = [given_as(counts) for counts in groups]
    places = np.concatenate([own for own, _ in alone])
    offsets = np.cumsum([0, *(len(own) for own, _ in alone)])
    before = np.concatenate([[0], *(np.diff(own) for _, own in alone)]).cumsum()
    words = SeededWords(seed).take(len(groups) * (1 + len(choice.targets))).reshape(-1, len(groups))
    if (choice.levels(places, before, choice.near, offsets).decide(words[0]) < 0).any():
        return  # floats do not decide, and more words are taken
    drawn = choice.draws(places, before, offsets, FixedWords(words.ravel().tolist()))
    each = [choice.draw(*own, FixedWords(mine)) for own, mine in zip(alone, words.T.tolist(), strict=True)]
    assert [tuple(own) for own in drawn.tolist()] == each


@steady
@given(groups_of_counts([2**60, 2**61], least=1), choices)
def test_counts_beyond_64_bits_are_drawn_by_fewer_groups(groups, choice):
    alone = [given_as(counts) for counts in groups]
    places = np.concatenate([own for own, _ in alone])
    offsets = np.cumsum([0, *(len(own) for own, _ in alone)])
    before = np.array([0, *accumulate(n for counts in groups for _, n in sorted(counts.items()))], object)
    words = SeededWords(1)
    each = [choice.draw(*own, words) for own in alone]
    assert [tuple(own) for own in choice.draws(places, before, offsets, SeededWords(1)).tolist()] == each


def test_what_is_released_and_refused():
    release = joint_quantiles("1/2", SMALL, AROUND, name="x.leaves", keys=["a", "b"])
    assert release.output_measure == PureDP() and release.map(2) == 4
    assert release.input_domain == GroupedIntegers(("x.leaves",))
    assert release.input_metric == L1Distance((("x.leaves", F(1)),))
    for bad in ({"scale": 0}, {"scale": math.nan}, {"targets": ()}, {"targets": (HALF,) * 65}):
        with pytest.raises(ParameterError):
            joint_quantiles(
                **{"scale": 1, "lattice": SMALL, "targets": (HALF,), "name": "x", "keys": []} | bad
            )
    for rank in (-1, 2, math.nan, "x"):
        with pytest.raises(ParameterError):
            Target(rank)
    for more in ({"spread": -1}, {"spread": math.inf}, {"shift": math.nan}):
        with pytest.raises(ParameterError, match=next(iter(more))):
            Target(F(1, 2), **more)
