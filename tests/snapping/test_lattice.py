"""Rounding to the lattice against exact rationals, and lattice points as floats."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import ParameterError
from sfumato.snapping import power_of_two_at_least, to_lattice
from sfumato.snapping.rounding_lattice import Lattice

largest = float.fromhex("0x1.fffffffffffffp+1023")
steady = settings(derandomize=True, database=None, deadline=None, max_examples=500)
golden = [-30.01, -2.51, -1.01, -0.76, -0.51, -0.26, 0.0]


def exact(x: float, m: int) -> float:
    """floor(x / 2^m + 1/2) 2^m in integers, as a float."""
    top, bottom = x.as_integer_ratio()
    top, bottom = (top, bottom << m) if m >= 0 else (top << -m, bottom)
    index = (2 * top + bottom) // (2 * bottom)
    try:
        return float(index << m) if m >= 0 else index / (1 << -m)
    except OverflowError:
        return math.copysign(math.inf, x)


def as_printed(x: float, m: int) -> float:
    """The notes' cases 2 and 3: the magnitude is rounded, halves up."""
    return math.copysign(exact(abs(x), m), x)


@pytest.mark.parametrize("m", range(-2, 3))
@pytest.mark.parametrize("x", [*golden, *(-x for x in golden[:-1])])
def test_golden(m, x):
    assert to_lattice(x, 2.0**m) == exact(x, m)


@pytest.mark.long
def test_a_million_random_floats():
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**64, 1_000_000, np.uint64)
    values = bits.view(np.float64)
    values = np.where(np.isfinite(values), values, 0.5)
    # Random bits seldom have an exponent near the step's; half of the values get one.
    near = np.ldexp(rng.uniform(-1, 1, 500_000), rng.integers(-3, 60, 500_000))
    values[:500_000] = near
    for block, m in zip(
        np.array_split(rng.permutation(values), 10), (-1074, -1030, -3, -1, 0, 1, 2, 5, 40, 1000), strict=True
    ):
        got = to_lattice(block, 2.0**m)
        assert got.tolist() == [exact(x, m) for x in block.tolist()]


def test_exact_ties_go_up():
    for m in (-1073, -5, 0, 3, 900):
        ties = [(k + 0.5) * 2.0**m for k in range(-9, 9)]
        assert to_lattice(ties, 2.0**m).tolist() == [(k + 1) * 2.0**m for k in range(-9, 9)]
        for toward in (-math.inf, math.inf):
            beside = np.nextafter(ties, toward)
            assert to_lattice(beside, 2.0**m).tolist() == [exact(x, m) for x in beside.tolist()]


def test_the_printed_ties_are_another_function():
    """Errata 10: -0.5 steps become 0, not -1; positive ties and everything else agree."""
    assert (as_printed(-0.5, 0), to_lattice(-0.5, 1.0)) == (-1.0, 0.0)
    assert math.copysign(1, to_lattice(-0.5, 1.0)) == 1
    for x in np.arange(-40, 41) / 8:
        differs = as_printed(float(x), 0) != to_lattice(float(x), 1.0)
        assert differs == (x < 0 and (x - 0.5) == int(x - 0.5))


def test_subnormals_and_the_largest():
    for x in (5e-324, -5e-324, 2.0**-1022, 3 * 2.0**-1074, largest, -largest, 2.0**1023, -(2.0**1023)):
        for m in (-1074, -1073, -1022, 0, 960, 970, 971, 1000, 1023):
            assert to_lattice(x, 2.0**m) == exact(x, m), (x, m)


@pytest.mark.long
@steady
@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(-1074, 1023))
def test_every_float_and_step(x, m):
    assert to_lattice(x, 2.0**m) == exact(x, m)


def test_shapes_and_refusals():
    assert isinstance(to_lattice(1.3, 1.0), float)
    assert to_lattice([[1.3, 2.5]], 1.0).tolist() == [[1.0, 3.0]]
    for x in (math.nan, math.inf, [0.0, -math.inf]):
        with pytest.raises(ParameterError, match="x is .* finite"):
            to_lattice(x, 1.0)
    for step in (0.0, -1.0, 3.0, 0.1, math.inf, math.nan):
        with pytest.raises(ParameterError, match="step"):
            to_lattice(1.0, step)


@steady
@given(st.floats(min_value=5e-324, max_value=2.0**1023))
def test_power_of_two_at_least(scale):
    power = power_of_two_at_least(scale)
    assert math.frexp(power)[0] == 0.5
    assert power / 2 < scale <= power or power == scale == 5e-324


def test_power_of_two_at_powers_and_beside():
    for e in range(-1074, 1024):
        assert power_of_two_at_least(2.0**e) == 2.0**e
        if e < 1023:
            assert power_of_two_at_least(np.nextafter(2.0**e, np.inf)) == 2.0 ** (e + 1)
    for scale in (0.0, -1.0, math.nan, math.inf, largest):
        with pytest.raises(ParameterError, match="scale"):
            power_of_two_at_least(scale)


lattices = {
    "floats": (Fraction(5), Fraction(2), Fraction(23, 2)),
    "odd centre": (Fraction(0.1), Fraction(2), Fraction(50)),
    "odd step": (Fraction(5), Fraction(0.1), Fraction(10**6)),
    "both odd": (Fraction(0.3), Fraction(0.7) / 1024, Fraction(3)),
    "no float": (Fraction(1, 3), Fraction(1, 7), Fraction(10**5)),
    "far centre": (Fraction(10**15), Fraction(0.1), Fraction(5000)),
    "centre of two floats": (Fraction(2**60) + Fraction(1, 8), Fraction(0.1), Fraction(5000)),
    "long": (Fraction(0), Fraction(1, 3), Fraction(2**40)),
    "tiny": (Fraction(0), Fraction(1, 3 * 2**1000), Fraction(1, 2**990)),
}


@pytest.mark.parametrize("name", lattices)
def test_points_are_the_nearest_floats(name):
    center, step, bound = lattices[name]
    lattice = Lattice(center, step, bound)
    rng = np.random.default_rng(2)
    k = rng.integers(-lattice.last - 2, lattice.last + 3, 4000).astype(float)
    k[:4] = [-lattice.last, lattice.last, -lattice.last - 1, 1e15]
    placed = k.copy()
    lattice.place(placed)
    expected = [float(center + min(max(int(i) * step, -bound), bound)) for i in k.tolist()]
    assert placed.tolist() == expected
    assert (placed[0], placed[1]) == (float(center - bound), float(center + bound))
