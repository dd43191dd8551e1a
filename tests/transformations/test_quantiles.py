"""Places of a lattice and leaves of a tree: what they stand for, how fine they are, and that all ways agree."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import ParameterError
from sfumato.transformations import Lattice

steady = settings(derandomize=True, database=None, deadline=None, max_examples=60)

LATTICES = [
    Lattice(-5.0, 3.0),
    Lattice(-1e300, 1e300),
    Lattice(0.1, 0.1000001),
    Lattice(-3.0, 1e18, whole=True),
]

sizes = st.floats(-1.0, 1.0), st.floats(0.0, 1000.0)


def value_of(lattice, share, octaves):
    """A value of the lattice's column, of any size."""
    number = share * max(abs(lattice.lower), abs(lattice.upper)) * 2.0**-octaves
    number = min(max(number, lattice.lower), lattice.upper)
    return float(round(number)) if lattice.whole else number


@pytest.mark.parametrize("lattice", LATTICES, ids=str)
@steady
@given(*sizes, *sizes)
def test_a_place_is_near_its_values_and_rises_with_them(lattice, share, octaves, other, more):
    one, two = sorted([value_of(lattice, share, octaves), value_of(lattice, other, more)])
    assert lattice.first <= lattice.place(one) <= lattice.place(two) <= lattice.last
    place = lattice.value(lattice.place(one))
    assert lattice.lower <= place <= lattice.upper
    assert abs(place - one) <= max(abs(one) * 2.0**-14, 2.0**lattice.finest / 2)
    assert abs(place - one) <= max((lattice.upper - lattice.lower) * 2.0**-14, 0.5 * lattice.whole)
    if lattice.whole:
        assert place.is_integer()


@pytest.mark.parametrize("lattice", LATTICES, ids=str)
@steady
@given(st.floats(0.0, 1.0))
def test_a_place_holds_its_own_value(lattice, share):
    for place in (lattice.first, lattice.last, lattice.first + int(share * (lattice.count - 1))):
        value = lattice.value(place)
        assert lattice.place(value) == lattice.place(lattice.decimal(place)) == place
        assert len(repr(lattice.decimal(place))) <= len(repr(value))
        if place < lattice.last:
            assert value < lattice.value(place + 1)


@pytest.mark.parametrize("lattice", LATTICES, ids=str)
def test_odd_values_clamp_or_have_no_place(lattice):
    assert lattice.place(None) is lattice.place(math.nan) is None
    assert lattice.place(math.inf) == lattice.last and lattice.place(-math.inf) == lattice.first
    assert str(lattice.nearest(-0.0)) != "-0.0"


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (2.0, 1.0), (0.0, math.inf), (math.nan, 1.0)])
def test_bounds_that_are_none_are_refused(bounds):
    with pytest.raises(ParameterError):
        Lattice(*bounds)
    with pytest.raises(ParameterError):
        Lattice(0.5, 2.0, whole=True)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "lower, upper",
    [
        (30.0, 30.000000000000007),
        (-1.487016908477783e284, -1.4870169084777827e284),
        (-3.9572864235696725e174, -3.9572864235696655e174),
        (-5e-324, 5e-324),
        (0.0, 1e-310),
    ],
)
def test_bounds_that_are_next_to_each_other_have_places(lower, upper):
    lattice = Lattice(lower, upper)
    assert 1 <= lattice.count < 2**60
    for value in (-math.inf, lower, (lower + upper) / 2, upper, math.inf):
        place = lattice.place(value)
        assert lattice.first <= place <= lattice.last
        assert lower <= lattice.value(place) <= upper and lattice.place(lattice.value(place)) == place
