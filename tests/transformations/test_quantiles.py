"""Places of a lattice and leaves of a tree: what they stand for, how fine they are, and that all ways agree."""

import math
from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import ParameterError
from sfumato.transformations import Lattice, QuantileTree

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


def exact_value(lattice, place):
    """The definition in exact fractions: finest steps, then octaves of 2^13 places, then coarsest steps."""
    size, half, far = abs(place), 1 << 13, int(lattice.places(np.array([lattice.far]))[0])
    if size <= 1 << 14:
        found = F(2) ** lattice.finest * size
    elif size >= far:
        found = F(lattice.far) + F(2) ** lattice.coarsest * (size - far)
    else:
        octave, rest = divmod(size - (1 << 14), half)
        found = F(2) ** (lattice.finest + octave + 1) * (half + rest)
    number = float(found) if place >= 0 else -float(found)
    return min(max(number, lattice.lower), lattice.upper)


@pytest.mark.parametrize("lattice", LATTICES, ids=str)
@steady
@given(st.floats(0.0, 1.0))
def test_a_place_holds_its_own_value(lattice, share):
    for place in (lattice.first, lattice.last, lattice.first + int(share * (lattice.count - 1))):
        value, decimal = lattice.value(place), float(lattice.decimals(np.array([place]))[0])
        assert value == exact_value(lattice, place)
        assert lattice.place(value) == lattice.place(decimal) == place
        assert len(repr(decimal)) <= len(repr(value))
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


BOUNDS = [(-5.0, 3.0), (-1e300, 1e300), (0.1, 0.1000001)]


def leaf(tree, value):
    """The definition, in Python's own floats, one operation after the other."""
    clamped = min(max(value, tree.lower), tree.upper)
    return min(int((clamped - tree.lower) * tree.factor), 65_535)


@pytest.mark.parametrize("bounds", BOUNDS)
@settings(derandomize=True, database=None, deadline=None, max_examples=40)
@given(st.lists(st.floats(allow_nan=False), max_size=8), st.lists(st.floats(0, 1), max_size=8))
def test_leaves_of_many_values_are_those_of_each(bounds, values, shares):
    lower, upper = bounds
    tree = QuantileTree("x", "x", rows=1, lower=lower, upper=upper, exponent=-1)
    inside = [lower + share * (upper - lower) for share in shares]
    values += [*inside, *bounds, -0.0, math.inf, -math.inf, math.nextafter(upper, -math.inf)]
    expected = [leaf(tree, value) for value in values]
    assert tree.all_leaves(np.array(values)).tolist() == expected
    assert [tree.leaf(value) for value in values] == expected
    assert {0, 65_535} <= set(expected)
