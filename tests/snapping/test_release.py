"""What is released: lattice points and ends, the right law, and nothing after a refusal."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.noise import FixedWords, SeededWords
from sfumato.snapping import SnappingMechanism

# P(max |empirical - true| > this) <= 2 exp(-2 n t^2) = 1e-10 (Dvoretzky, Kiefer, Wolfowitz; Massart).
draws = 200_000
tolerance = math.sqrt(math.log(2e10) / (2 * draws))


def tail(m: SnappingMechanism, value: float, x: float) -> float:
    """P(value + Laplace noise >= x), value in the bounds."""
    t = (x - value) * float(m.epsilon_prime / m.sensitivity)
    return math.exp(-t) / 2 if t >= 0 else 1 - math.exp(t) / 2


def largest_deviation(m: SnappingMechanism, value: float, released: np.ndarray) -> float:
    """Compare the shares of releases at or above each point with the law's."""
    center, step, bound = (float(x) for x in (m.center, m.lattice, m.bound))
    last = math.ceil(m.bound / m.lattice)
    worst = 0.0
    for k in range(-last + 1, last + 1):
        point = center + min(k * step, bound)
        true = tail(m, value, center + (k - 0.5) * step)
        worst = max(worst, abs(np.mean(released >= point - step / 1e6) - true))
    return worst


cases = [
    (1.0, {"lower": 0, "upper": 10}, 3.2),
    (1.0, {"lower": 0, "upper": 10}, 10.0),
    (0.3, {"lower": -50, "upper": 20, "sensitivity": 2.0}, -49.0),
    (5.0, {"lower": 0, "upper": 1, "sensitivity": 0.1, "gamma": 1}, 0.25),
]


@pytest.mark.parametrize(("epsilon", "bounds", "value"), cases)
def test_the_law(epsilon, bounds, value):
    m = SnappingMechanism(epsilon, **bounds)
    released = m.release(np.full(draws, value), SeededWords("law"))
    assert largest_deviation(m, value, released) < tolerance
    # Planted: noise 30% too small or too large; no noise; a value that is off by a quarter of a step.
    noise = np.random.default_rng(1).laplace(0, float(m.sensitivity / m.epsilon_prime), draws)
    for wrong in (value + 0.7 * noise, value + 1.3 * noise, np.full(draws, value)):
        assert largest_deviation(m, value, snap(m, wrong)) > tolerance
    assert largest_deviation(m, value, snap(m, value + noise)) < tolerance
    assert largest_deviation(m, value, snap(m, value + float(m.lattice) / 4 + noise)) > tolerance


def snap(m: SnappingMechanism, x: np.ndarray) -> np.ndarray:
    """Round to the lattice and clamp, for planted defects."""
    center, step, bound = (float(v) for v in (m.center, m.lattice, m.bound))
    return center + np.clip(np.floor((x - center) / step + 0.5) * step, -bound, bound)


@pytest.mark.long
def test_scalars_follow_the_same_law():
    m = SnappingMechanism(1, lower=0, upper=10)
    words = SeededWords("scalars")
    n = 20_000
    released = np.array([m.release(3.2, words) for _ in range(n)])
    assert largest_deviation(m, 3.2, released) < math.sqrt(math.log(2e10) / (2 * n))


@pytest.mark.parametrize(("epsilon", "bounds", "value"), cases)
def test_on_the_lattice_or_at_an_end(epsilon, bounds, value):
    m = SnappingMechanism(epsilon, **bounds)
    released = m.release(np.full(20_000, value), SeededWords("lattice"))
    ends = {float(m.center - m.bound), float(m.center + m.bound)}
    points = {}
    for x in np.unique(released).tolist():
        k = round((Fraction(x) - m.center) / m.lattice)
        points[x] = k
        assert x in ends or (x == float(m.center + k * m.lattice) and abs(k * m.lattice) < m.bound)
    assert len(points) > 4
    assert min(released) >= m.center - m.bound and max(released) <= float(m.center + m.bound)


@pytest.mark.parametrize("gamma", [1, 0.5, 0.05, 1e-3])
@pytest.mark.parametrize("epsilon", [1.0, 0.7])
def test_the_clamp_binds_at_most_with_gamma(epsilon, gamma):
    m = SnappingMechanism(epsilon, lower=0, upper=10, gamma=gamma)
    n = 100_000
    limit = gamma + 6.5 * math.sqrt(gamma * (1 - gamma) / n) + 20 / n  # Bernstein: below 1e-9
    ends = (float(m.center - m.bound), float(m.center + m.bound))
    for value in (0.0, 10.0, 5.0):
        released = m.release(np.full(n, value), SeededWords(f"clamp {value}"))
        assert np.isin(released, ends).mean() <= limit
    # Planted: B = B', without what gamma asks for beyond the bounds.
    noise = np.random.default_rng(2).laplace(0, float(1 / m.epsilon_prime), n)
    narrow = np.abs(np.floor((5 + noise) / float(m.lattice) + 0.5) * float(m.lattice)) >= 5
    assert narrow.mean() > min(limit, 0.3)


def test_nan_is_refused_before_any_word_is_drawn():
    m = SnappingMechanism(1, lower=0, upper=10)
    words = FixedWords([1, 2, 3])
    for value in (math.nan, np.float64("nan"), [1.0, math.nan], np.array([[math.nan]])):
        with pytest.raises(ParameterError, match=r"^value is .*NaN.*number"):
            m.release(value, words)
    assert words.taken == 0


@pytest.mark.parametrize(
    "value", ["3", None, True, b"1", [1 + 2j], ["a"], [True], [None], np.array([1], object)]
)
def test_what_is_no_number_is_refused(value):
    words = FixedWords([1, 2, 3])
    with pytest.raises(ParameterError, match="^value is"):
        SnappingMechanism(1, lower=0, upper=10).release(value, words)
    assert words.taken == 0


def test_integers_beyond_the_floats_are_refused_where_they_count():
    with pytest.raises(ParameterError, match="^value is 'int64', but must be floats"):
        SnappingMechanism(1, lower=0, upper=2**60).release(np.array([2**59 + 1]))
    far = np.array([2**62 + 1, -(2**62)])
    m = SnappingMechanism(1, lower=0, upper=10)
    assert np.array_equal(m.release(far, SeededWords(1)), m.release([10.0, 0.0], SeededWords(1)))


def test_values_outside_are_clamped():
    m = SnappingMechanism(0.5, lower=-3, upper=7)
    inside = m.release(np.tile([-3.0, 7.0], 500), SeededWords(3))
    for low, high in ((-1e300, 1e300), (-math.inf, math.inf), (-3.0000001, 7.5)):
        assert np.array_equal(m.release(np.tile([low, high], 500), SeededWords(3)), inside)
        assert m.release(low, SeededWords(4)) == m.release(-3, SeededWords(4))


def test_shapes_and_types():
    m = SnappingMechanism(1, lower=0, upper=10)
    for value in (3, 3.0, Fraction(3), Decimal(3), np.float64(3), np.int64(3), np.array(3.0), np.float32(3)):
        released = m.release(value, SeededWords(1))
        assert type(released) is float
        assert released == m.release([3.0], SeededWords(1))[0]
    for shape in ((0,), (1,), (2, 3), (2, 0), (4, 1, 2)):
        for dtype in (np.float64, np.float32, np.int32, np.uint8, np.int64):
            released = m.release(np.full(shape, 3, dtype), SeededWords(1))
            assert released.shape == shape and released.dtype == np.float64
    # Order is C order, whatever the memory's.
    values = np.arange(12.0).reshape(3, 4)
    assert np.array_equal(
        m.release(values, SeededWords(1)), m.release(np.asfortranarray(values), SeededWords(1))
    )
    assert values[0, 1] == 1.0


def test_exact_scalars_keep_what_a_float_would_lose():
    m = SnappingMechanism(1, lower=0, upper=2**61, gamma=1)
    # Next to U = 1 there is no noise to speak of: 2^60 + 1 is a tie between 2^60 and 2^60 + 2, and ties go up.
    words = FixedWords([2**63])
    assert m.lattice == 2
    assert m.release(2**60 + Fraction(3, 2), words) in (2.0**60, 2.0**60 + 2)


@pytest.mark.flakiness(k=100, because="a hundred draws on a fine lattice are those of before")
def test_fresh_secure_noise_by_default():
    m = SnappingMechanism(1, lower=0, upper=1e6)
    assert not np.array_equal(m.release(np.zeros(100)), m.release(np.zeros(100)))


def test_noise_outside_would_leave_the_lattice():
    """Errata 17: a noise that is added outside keeps the value's place between lattice points."""
    m = SnappingMechanism(1, lower=0, upper=10, gamma=1e-6)
    step = m.lattice
    supports, released = [], []
    for value in (Fraction(13, 4), Fraction(7, 2)):
        draws_ = m.release(np.full(1000, float(value)), SeededWords(1))
        released.append(set(draws_.tolist()))
        noise = m.release(np.full(1000, float(m.center)), SeededWords(2)) - float(m.center)
        supports.append({value + Fraction(x) for x in noise.tolist()})
    # One release is enough to tell the two values, a quarter of the sensitivity apart, from each other.
    assert not supports[0] & supports[1]
    assert len({x % step for x in supports[0]}) == 1
    assert len(released[0] & released[1]) > 4
