"""What places weigh before counts: held to decimals as they are written, place by place."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from fractions import Fraction as F
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.measurements.quantile_choice import DIGITS, FEW, MAX_ROUND, BaseMeasure
from sfumato.noise import FixedWords
from sfumato.transformations import Lattice

steady = settings(derandomize=True, database=None, deadline=None, max_examples=60)
WHOLE = Lattice(0.0, 50.0, whole=True)
LATTICES = [
    WHOLE,
    Lattice(-7.0, 300.0, whole=True),
    Lattice(0.0, 10.0),
    Lattice(-3.5, 1000.0),
    Lattice(1900.0, 2100.0),
    Lattice(1e-3, 1e6),
    Lattice(-2e5, 1e9, whole=True),
]
ODD = [
    Lattice(-1e300, 1e300),
    Lattice(1e300, 1.0001e300),
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


@pytest.mark.parametrize("low, high", [(0, 50), (3, 3), (11, 19), (10, 20), (41, 50), (20, 20)])
def test_places_are_drawn_exactly_as_often_as_they_weigh(low, high):
    base = BaseMeasure(WHOLE)
    weight = int(base.between(low, high))
    drawn = Counter(base.pick(low, high, FixedWords([word])) for word in range(weight))
    assert drawn == {place: int(base.between(place, place)) for place in range(low, high + 1)}


def test_a_wide_lattice_draws_from_all_of_its_parts():
    base = BaseMeasure(Lattice(0.0, 10.0))
    low, high = base.lattice.place(2.7), base.lattice.place(2.9)
    weight = int(base.between(low, high))
    drawn = Counter(base.pick(low, high, FixedWords([word])) for word in range(weight))
    assert len(drawn) == high - low + 1 and sum(drawn.values()) == weight
    round_ones = [base.lattice.place(x) for x in (2.7, 2.8, 2.9)]
    assert F(min(drawn[place] for place in round_ones), weight) > F(1, 25) > F(1, len(drawn))
