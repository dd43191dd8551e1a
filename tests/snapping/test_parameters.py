"""What follows from epsilon, sensitivity, bounds and gamma."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import ParameterError
from sfumato.snapping import SnappingMechanism, power_of_two_at_least

epsilons = st.floats(1e-12, 100)
bounds = st.tuples(st.floats(-1e12, 1e12), st.floats(1e-3, 1e12))


def made(epsilon, sensitivity, low_width, gamma):
    low, width = low_width
    return SnappingMechanism(
        epsilon, sensitivity=sensitivity, lower=low, upper=Fraction(low) + Fraction(width), gamma=gamma
    )


@settings(derandomize=True, database=None, deadline=None, max_examples=300)
@given(epsilons, st.floats(1e-3, 1e3), bounds, st.floats(1e-6, 1))
def test_every_number(epsilon, sensitivity, low_width, gamma):
    m = made(epsilon, sensitivity, low_width, gamma)
    eta = Fraction(1, 2**m.precision)
    b = m.bound / m.sensitivity
    # The privacy loss at the sensitivity, as the theorem states it: within epsilon, and just so.
    loss = m.epsilon_prime * (1 + 12 * b * eta) + 2 * eta
    assert m.privacy_loss() == m.privacy_loss(m.sensitivity) == loss <= m.epsilon
    assert loss > m.epsilon * (1 - Fraction(1, 2**100))
    # Lambda' is the smallest power of two that is not below the exact lambda'.
    step, scale = m.lattice / m.sensitivity, 1 / m.epsilon_prime
    assert step / 2 < scale <= step
    assert math.log2(step) == int(math.log2(step))
    # What the precision must be.
    assert m.precision >= 118
    assert b * eta <= Fraction(1, 2**52)
    assert 2 * eta < m.epsilon
    assert b < Fraction(2) ** (m.precision - 7) * scale
    # 6.5.1: not below what gamma asks, and hardly above.
    reach = (m.upper - m.lower) / (2 * m.sensitivity)
    grow = 1 + 2 * math.log(1 / gamma)
    k = (2 + 24 * Fraction(1, 2**52)) / (m.epsilon - Fraction(2, 2**118))
    assert float(b) >= float(reach + step / 2 * Fraction(grow)) * (1 - 1e-12)
    ulp = math.ulp(float(abs(m.center) + m.bound))
    assert float(m.bound) <= float((reach + k / 2 * Fraction(grow)) * m.sensitivity) * (1 + 1e-12) + ulp


@pytest.mark.parametrize("e", range(-20, 11))
def test_lambda_from_the_exact_scale(e):
    """At a power of two, lambda' is just above one and so is Lambda' a power up; in float64 it is not."""
    epsilon = 2.0**e
    m = SnappingMechanism(epsilon, lower=0, upper=1)
    assert 1 / m.epsilon_prime > 1 / Fraction(epsilon)
    assert m.lattice == 2 / Fraction(epsilon)
    rounded_first = power_of_two_at_least(float(1 / m.epsilon_prime))
    assert rounded_first == 1 / epsilon != m.lattice
    # Beside a power of two, nothing is to be seen.
    for beside in (math.nextafter(epsilon, 0), math.nextafter(epsilon, math.inf)):
        other = SnappingMechanism(beside, lower=0, upper=1)
        assert other.lattice == power_of_two_at_least(float(1 / other.epsilon_prime))


def test_the_centre_is_the_midpoint():
    """Errata 11: the printed half-width s, with B = upper - s, is 500 and 1500 for [1000, 2000]."""
    m = SnappingMechanism(1, lower=1000, upper=2000)
    printed_center = (m.upper - m.lower) / 2
    assert m.center == 1500 != printed_center
    assert 500 < m.bound < 500 + 10
    assert m.upper - printed_center == 1500


def test_precision_grows_with_the_bound():
    """Errata 14: at 118 bits and B = 2^80, B eta is 2^-38, and at 2^112 the theorem's own condition fails."""
    for power in (60, 80, 112, 200, 900):
        m = SnappingMechanism(1, lower=0, upper=Fraction(2) ** (power + 1))
        assert m.bound / 2**118 > Fraction(1, 2**60)
        assert m.bound / 2**m.precision <= Fraction(1, 2**60)
        assert m.bound < 2 ** (m.precision - 7) / m.epsilon_prime
    assert not Fraction(2) ** 112 < 2 ** (118 - 7)
    assert SnappingMechanism(1, lower=0, upper=10).precision == 118


def test_precision_grows_as_epsilon_shrinks():
    precisions = [SnappingMechanism(10.0**-k, lower=0, upper=1).precision for k in (1, 10, 30, 100, 290)]
    assert precisions[:2] == [118, 118]
    assert precisions == sorted(precisions)
    assert Fraction(2, 2 ** precisions[-1]) < Fraction(10.0**-290)


def test_ends_are_floats_where_the_centre_allows():
    for lower, upper in ((0, 10), (-3, 7.5), (1e6, 1e6 + 3), (0.1, 0.3), (-1, 1e9)):
        m = SnappingMechanism(0.7, lower=lower, upper=upper)
        assert float(abs(m.center) + m.bound) == abs(m.center) + m.bound
        if float(m.center) == m.center and (2 * m.center).denominator <= 4:
            assert float(m.center - m.bound) == m.center - m.bound


def test_numbers_are_taken_exactly():
    assert SnappingMechanism("0.1", lower=0, upper=1).epsilon == Fraction(1, 10)
    assert SnappingMechanism(0.1, lower=0, upper=1).epsilon == Fraction(0.1) != Fraction(1, 10)


def test_loss_at_other_distances():
    m = SnappingMechanism(2, sensitivity="0.5", lower=0, upper=10)
    at_one = m.privacy_loss()
    assert m.privacy_loss(0) == 0
    assert m.privacy_loss("0.25") - at_one == -m.epsilon_prime / 2
    assert m.privacy_loss(1) - at_one == m.epsilon_prime
    with pytest.raises(ParameterError, match="distance is -1"):
        m.privacy_loss(-1)


@pytest.mark.parametrize(
    ("name", "given", "admissible"),
    [
        ("epsilon", {"epsilon": 0}, "above 2 eta"),
        ("epsilon", {"epsilon": -1}, "above 2 eta"),
        ("epsilon", {"epsilon": Fraction(1, 2**2048)}, "above 2 eta"),
        ("epsilon", {"epsilon": 1e-308, "lower": -1e300, "upper": 1e300}, "larger"),
        ("epsilon", {"epsilon": math.nan}, "finite"),
        ("epsilon", {"epsilon": math.inf}, "finite"),
        ("epsilon", {"epsilon": 1e40}, "at most 2"),
        ("sensitivity", {"sensitivity": 0}, "greater than 0"),
        ("sensitivity", {"sensitivity": math.inf}, "finite"),
        ("sensitivity", {"sensitivity": math.nan}, "finite"),
        ("lower", {"lower": 1, "upper": 1}, "below upper"),
        ("lower", {"lower": 2, "upper": 1}, "below upper"),
        ("lower", {"lower": -math.inf}, "finite"),
        ("upper", {"upper": math.inf}, "finite"),
        ("upper", {"upper": math.nan}, "finite"),
        ("gamma", {"gamma": 0}, "above 0 and at most 1"),
        ("gamma", {"gamma": 1.1}, "above 0 and at most 1"),
        ("gamma", {"gamma": -0.5}, "above 0 and at most 1"),
        ("gamma", {"gamma": math.nan}, "finite"),
    ],
)
def test_bad_parameters_are_named_with_the_admissible_range(name, given, admissible):
    given = {"epsilon": 1, "lower": 0, "upper": 1, **given}
    with pytest.raises(ParameterError, match=f"^{name} is .*{admissible}"):
        SnappingMechanism(given.pop("epsilon"), **given)


def test_nothing_can_be_set():
    m = SnappingMechanism(1, lower=0, upper=1)
    for name in ("epsilon_prime", "bound", "lattice", "precision", "center", "epsilon"):
        with pytest.raises(AttributeError):
            setattr(m, name, 1)
