"""Quantiles by the exponential mechanism: the law, exactly; its privacy; and what has neither.

Draws are compared with the law by Chernoff's bound at 1e-15; all words are seeded.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction as F
from itertools import pairwise, product

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import ParameterError
from sfumato.framework import GroupedIntegers, L1Distance, PureDP
from sfumato.measurements import Target, joint_quantiles
from sfumato.measurements.quantile_choice import Levels, QuantileChoice, placed
from sfumato.noise import FixedWords, SeededWords
from sfumato.transformations import Lattice

steady = settings(derandomize=True, database=None, deadline=None, max_examples=60)
SMALL = Lattice(0.0, 5.0, whole=True)
ROUND = Lattice(0.0, 30.0, whole=True)  # 0 to 10, 20 and 30 weigh three times as much as others
TWO = Lattice(0.0, 1.0, whole=True)
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
@given(
    st.dictionaries(st.integers(0, 30), st.integers(1, 7), max_size=6),
    st.fractions(F(1, 3), 5, max_denominator=7),
    st.sampled_from([(HALF,), AROUND[:1]]),
)
def test_round_numbers_are_chosen_by_their_weight(counts, scale, targets):
    choice = QuantileChoice(scale, ROUND, targets)
    assert [int(choice.base.between(p, p)) for p in (9, 10, 11, 20)] == [3, 3, 1, 3]
    expected, found = law(counts, choice), law_of_levels(counts, choice)
    assert max(abs(expected[c] - found.get(c, 0)) for c in expected) < 1e-30


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


@pytest.mark.long
@pytest.mark.parametrize(
    "targets, lattice", [((HALF,), SMALL), (AROUND, SMALL), (QUARTILES, SMALL), ((HALF,), ROUND)]
)
def test_draws_have_the_law(targets, lattice, unlikely):
    counts, choice = {1: 2, 3: 5, 4: 1}, QuantileChoice(F(3, 2), lattice, targets)
    group = given_as(counts)
    words = SeededWords(3)
    drawn = Counter(choice.draw(*group, words) for _ in range(6000))
    expected = {c: float(p) for c, p in law(counts, choice).items()}
    assert not unlikely(drawn, expected)
    twice = QuantileChoice(F(3), lattice, targets)
    assert unlikely(Counter(twice.draw(*group, words) for _ in range(6000)), expected)


def test_more_bits_decide_where_floats_do_not():
    """U next to the boundary of two levels, from either side by its second word."""
    choice, counts = QuantileChoice(F(1), SMALL, (HALF,)), {2: 4, 3: 4}
    exact = levels_of(counts, choice).enclosures(256)
    boundary = int(exact[0][0] * 2**128)
    drawn = []
    for word in (boundary - 2, boundary + 2):
        words = FixedWords([word >> 64, word & (2**64 - 1)], SeededWords(0))
        levels = []
        honest = Levels.level
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Levels, "level", lambda self, i: levels.append(i) or honest(self, i))  # noqa: B023
            choice.draw(*given_as(counts), words)
        drawn += levels
    assert drawn == [0, 1]


def test_floats_leave_a_draw_that_may_be_farther_to_more_bits(monkeypatch):
    """With a U that is nearly 1, and a bound that is too near."""
    choice, counts = QuantileChoice(F(9), SMALL, (HALF,)), {0: 3, 1: 2, 3: 5, 4: 1}
    choice.__dict__.update(near=1, far=1)
    assert len(levels_of(counts, choice, 1).distances) < len(levels_of(counts, choice).distances)
    low, high = levels_of(counts, choice, 1).floats()
    assert low[-1] < 1 == high[-1]
    levels, honest = [], Levels.level
    monkeypatch.setattr(Levels, "level", lambda self, i: levels.append(i) or honest(self, i))
    choice.draw(*given_as(counts), FixedWords([2**64 - 2, 5], SeededWords(1)))
    assert levels == [len(levels_of(counts, choice).distances) - 1]


def test_counts_beyond_64_bits_and_tails_beyond_floats():
    wide = Lattice(-1e300, 1e300)
    places = [wide.place(x) for x in (-1e9, 0.25, 3.0, 7e200)]
    for targets, n in product([(HALF,), AROUND], (2**40, 2**61, 2**100)):
        choice = QuantileChoice(F(1), wide, targets)
        chosen = choice.draw(*given_as(dict.fromkeys(places, n)), SeededWords(n))
        assert all(places[1] <= place <= places[2] for place in chosen)
    # Far from every count, all places are equally far.
    far = QuantileChoice(F(1, 10**9), SMALL, (Target(F(1, 2), F(10**6)),))
    assert far.draw(*given_as({2: 3}), SeededWords(1))[0] in (2, 3, 4, 5)


# Privacy of the law: the claim, that it is nearly reached, and defects that break it.


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
        (HALF,),
        (Target(F(4, 5)),),
        AROUND[:2],
        QUARTILES,
        (Target(F(1, 2), F(-7, 3)),),
        (Target(F(1, 2), F(1), F(2)),),
        WIDE,
        HELD,
        ENDS,
    ],
)
def test_no_ratio_is_above_the_claim_and_some_come_near(targets):
    choice = QuantileChoice(F(2), SMALL, targets)
    claim = float(choice.loss)
    assert 0.5 * claim < largest_loss(choice, most=2 if len(targets) == 2 else 3) <= claim * (1 + 1e-12)


TINY = F(1, 10**18)
AT_ENDS = [
    Target(rank, shift, spread, within=within)
    for rank in (F(0), TINY, F(1, 2), 1 - TINY, F(1))
    for shift, spread in ((F(-1), F(1, 2)), (F(0), F(0)), (F(2), F(3)), (F(-(10**6)), F(10**6)))
    for within in (False, True)
]


@pytest.mark.long
@pytest.mark.parametrize("others", [(), (HALF,), (Target(F(1), F(1), within=True),)])
def test_no_ratio_is_above_the_claim_at_the_ends(others):
    """From a table of nothing on, on two places."""
    found = []
    for target, scale in product(AT_ENDS, (F(1, 20), F(1, 3), F(4))):
        choice = QuantileChoice(scale, TWO, (target, *others))
        found.append(largest_loss_of_two(choice) / float(choice.loss))
    assert 0.5 < max(found) <= 1 + 1e-12


@pytest.mark.parametrize("target", AT_ENDS)
def test_draws_at_the_ends_have_the_law(target):
    choice = QuantileChoice(F(4, 3), TWO, (target, HALF))
    for counts in ({}, {0: 1}, {1: 3}, {0: 2, 1: 1}):
        expected, found = law(counts, choice), law_of_levels(counts, choice)
        assert max(abs(expected[c] - found[c]) for c in expected) < 1e-30


def largest_loss_of_two(choice, most=4):
    """The largest log ratio over all counts of two places, and neighbours by one step."""
    tables = {given: law(dict(enumerate(given)), choice) for given in product(range(most + 2), repeat=2)}
    pairs = [
        ((a, b), other) for a, b in product(range(most + 1), repeat=2) for other in ((a + 1, b), (a, b + 1))
    ]
    return max(abs(float(mp.log(tables[x][c] / tables[y][c]))) for x, y in pairs for c in tables[x])


def test_the_claim_is_tight():
    """Most weight is in a gap from which the goal moves away, while it comes nearer to place 0."""
    choice = QuantileChoice(F(1, 4), Lattice(0.0, 1000.0, whole=True), (HALF,))
    one, other = law({1: 40, 999: 40}, choice), law({0: 1, 1: 40, 999: 40}, choice)
    assert max(abs(float(mp.log(one[c] / other[c]))) for c in one) > 0.97 * float(choice.loss)


def target_that_stays(counts, place, target):
    """The goal is taken from a fixed size: then it does not move with the counts."""
    before = sum(n for p, n in counts.items() if p < place)
    goal = target.rank * 4
    return max(F(0), before - goal, goal - before - counts.get(place, 0))


def only_places_with_values(counts, place, target):
    """Gaps are left out: as good as an infinite distance."""
    return distance(counts, place, target) if counts.get(place) else F(50)


def midpoint_is_taken_for_the_place(counts, place, target):
    """A place counts as far as it is from half of its own count."""
    before = sum(n for p, n in counts.items() if p < place)
    return 3 * abs(before + F(counts.get(place, 0), 2) - target.rank * sum(counts.values()))


def squared(counts, place, target):
    return distance(counts, place, target) ** 2


def held_to_nothing_else(counts, place, target):
    """Beyond all counts a goal is held to them, at the price of one that is not."""
    return distance(counts, place, replace(target, within=True))


def spread_of_all(counts, place, target):
    """The spread is a share of the counts, and so moves with them."""
    return distance(counts, place, replace(target, spread=F(sum(counts.values()))))


BROKEN = {
    "held to the counts for nothing": (held_to_nothing_else, max, (HALF, Target(F(1, 2), F(-9)))),
    "the spread moves with all": (spread_of_all, max, (Target(F(1, 2), F(9)),)),
    "the goal does not move with all": (target_that_stays, max, (HALF,)),
    "gaps left out": (only_places_with_values, max, (HALF,)),
    "three times the distance": (midpoint_is_taken_for_the_place, max, (HALF,)),
    "the square of the distance": (squared, max, (HALF,)),
    "distances added up": (distance, sum, (HALF, HALF)),
    "a goal that is a share of another power": (lambda c, p, t: 2 * distance(c, p, t), max, (HALF,)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_planted_defect_breaks_the_claim(name):
    far, largest, targets = BROKEN[name]
    choice = QuantileChoice(F(2), SMALL, targets)
    assert largest_loss(choice, far, largest, most=3) > 1.2 * float(choice.loss)


# What is changed: the levels, or how many places are taken to be within each distance.
OF_LEVELS = {
    "half the scale": lambda levels: replace(levels, rate=2 * levels.rate),
    "distances from the next": lambda levels: replace(
        levels, distances=levels.distances + levels.distances[-1] * (levels.distances > levels.distances[0])
    ),
    "gaps after values": lambda levels: replace(
        levels, ends=tuple((low[::-1], high[::-1]) for low, high in levels.ends)
    ),
}
OF_COUNTS = {
    "widths forgotten": np.ones_like,
    "one place too many": lambda count: count + 1,
    "largest first": lambda count: count[::-1],
}


@pytest.mark.parametrize("name", [*OF_LEVELS, *OF_COUNTS])
def test_a_planted_defect_of_the_draw_is_seen_in_its_law(name, monkeypatch):
    counts, choice = {1: 2, 3: 5, 4: 1}, QuantileChoice(F(3, 2), SMALL, (HALF,))
    expected, of_groups, within = law(counts, choice), QuantileChoice.levels_of_groups, Levels.within
    assert max(abs(expected[c] - law_of_levels(counts, choice)[c]) for c in expected) < 1e-30
    if name in OF_LEVELS:
        changed = OF_LEVELS[name]
        monkeypatch.setattr(QuantileChoice, "levels_of_groups", lambda *own: [*map(changed, of_groups(*own))])
    else:
        monkeypatch.setattr(Levels, "within", property(lambda own: map(OF_COUNTS[name], within.fget(own))))
    assert max(abs(expected[c] - law_of_levels(counts, choice).get(c, 0)) for c in expected) > 1e-3


groups_of_counts = st.lists(
    st.dictionaries(st.integers(0, 5), st.sampled_from([1, 2, 7, 2**40, 2**61]), max_size=6),
    min_size=1,
    max_size=5,
)


@steady
@given(groups_of_counts, choices, st.sampled_from([None, 0, 3, "near", "far"]))
def test_groups_are_measured_together_as_each_by_itself(groups, choice, far):
    far = getattr(choice, far) if isinstance(far, str) else far
    alone = [given_as(counts) for counts in groups]
    places = np.concatenate([own for own, _ in alone])
    offsets = np.cumsum([0, *(len(own) for own, _ in alone)])
    together = given_as(dict(enumerate(n for counts in groups for _, n in sorted(counts.items()))))[1]
    found = choice.levels_of_groups(places, together, offsets, far)
    for levels, own in zip(found, alone, strict=True):
        expected = choice.levels(*own, far)
        assert levels.distances.tolist() == expected.distances.tolist()
        assert levels.log_left == expected.log_left
        assert [[e.tolist() for e in ends] for ends in levels.ends] == [
            [e.tolist() for e in ends] for ends in expected.ends
        ]
    drawn = choice.draws(places, together, offsets, SeededWords(1))
    words = SeededWords(1)
    assert list(drawn) == [choice.draw(*own, words) for own in alone]


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


@pytest.mark.noise_cannot_matter("at scale 1 a place 10^6 steps away has a probability below e^-10^5")
def test_a_release_shows_the_groups_that_it_is_told():
    release = joint_quantiles(1, SMALL, [HALF], name="x.leaves", keys=["a", "b"])
    given_counts = {("x.leaves", 3): 10**6, ("x.leaves", 99): 10**9, ("x.leaves", 1): -(10**9)}
    out = release({"a": given_counts, "private": given_counts})
    assert list(out) == ["a", "b"] and out["a"] == (3,) and 0 <= out["b"][0] <= 5
