"""What is released: the definition, recomputed by means that share nothing with the package but words; its privacy.

The contract: a first word, read as signed w, gives the sign and 63 bits of U (w, or ~w if negative); every
further word gives 64 more. U* is U cut to p + 2 bits. A call takes its first words first, then further ones in
order, each as long as the bits so far leave two answers.
"""

import inspect
import math
import random
from dataclasses import replace
from fractions import Fraction
from functools import cache

import gmpy2
import mpmath
import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.exact.outward_rounding import log_bounds, round_bits
from sfumato.noise import FixedWords, SeededWords
from sfumato.snapping import SnappingMechanism, snapping_parameters, to_lattice
from sfumato.snapping.rounding_lattice import Lattice
from sfumato.snapping.snapping_parameters import Parameters, guard_bits
from sfumato.snapping.snapping_paths import Reference, _Buffers

epsilons = [1e-6, 0.3, 10.0]


def mechanism(epsilon: float, ratio: float, sensitivity: float = 1.0) -> SnappingMechanism:
    """One whose B / lambda is about `ratio`: gamma = 1 asks for one to two lambda beyond the bounds."""
    half = max(ratio - 1, 1) / epsilon * sensitivity
    return SnappingMechanism(epsilon, sensitivity=sensitivity, lower=-half, upper=half, gamma=1)


def values_of(m: SnappingMechanism, n: int) -> np.ndarray:
    """The centre, the bounds, far outside, infinities, and anything between."""
    rng = np.random.default_rng(n)
    low, high = float(m.lower), float(m.upper)
    special = [float(m.center), low, high, low * 1e9 - 1e9, high * 1e9 + 1e9, math.inf, -math.inf]
    return rng.choice([*special * 20, *rng.uniform(low, high, 140).tolist()], n)


def about_center(m: SnappingMechanism, value: float) -> Fraction:
    inside = m.lower if value < m.lower else m.upper if value > m.upper else Fraction(value)
    return (inside - m.center) / m.sensitivity


def by_reference(m: SnappingMechanism, values: np.ndarray, words) -> np.ndarray:
    """Every draw by the reference path, from the same words."""
    first = words.take(len(values)).view(np.int64).tolist()
    reference = Reference(m._found)
    point = cache(lambda k: float(m.center + min(max(k * m.lattice, -m.bound), m.bound)))

    def more() -> int:
        return int(words.take(1)[0])

    indices = (reference.draw(v, w, more) for v, w in zip(values.tolist(), first, strict=True))
    return np.array([point(k) for k in indices])


def words_at_boundaries(
    m: SnappingMechanism, values: list[float]
) -> tuple[list[float], list[int], list[int]]:
    """Values with first words next to a boundary of the lattice, and further words next to it as well."""
    all_values, first, further = [], [], []
    step, scale = m._found.step, 1 / m.epsilon_prime
    for value in values:
        g = about_center(m, value)
        nearest = math.floor(g / step + Fraction(1, 2))
        for k in range(nearest - 9, nearest + 9):
            with mpmath.workprec(400):
                noise = (k + Fraction(1, 2)) * step - g
                t = mpmath.mpf(abs(noise).numerator) / abs(noise).denominator
                u = mpmath.exp(-t * mpmath.mpf(m.epsilon_prime.numerator) / m.epsilon_prime.denominator)
                bits = int(mpmath.floor(u * mpmath.mpf(2) ** 127))
            assert scale > 0
            for offset in (-2, -1, 0, 1, 2):
                prefix = min(max((bits >> 64) + offset, 0), 2**63 - 1)
                for low in (bits % 2**64 - 1, bits % 2**64 + 1, 0, 2**64 - 1) if offset == 0 else (0,):
                    all_values.append(value)
                    first.append(prefix if noise >= 0 else 2**64 - 1 - prefix)
                    further.append(min(max(low, 0), 2**64 - 1))
    return all_values, first, further


@pytest.mark.parametrize(("epsilon", "ratio"), [(1e-6, 2**20), (1.0, 2), (10.0, 40)])
def test_words_that_force_the_undecided_case(monkeypatch, epsilon, ratio):
    m = mechanism(epsilon, ratio)
    half = float(m.upper)
    values, first, further = words_at_boundaries(m, [0.0, half, -half, half / 3, 1e300])
    calls = 0
    draw = Reference.draw

    def counted(self, *args):
        nonlocal calls
        calls += 1
        return draw(self, *args)

    monkeypatch.setattr(Reference, "draw", counted)
    words = FixedWords(first + further, then=SeededWords(1))
    got = m.release(values, words)
    assert calls > 0.9 * len(values) > 400
    monkeypatch.undo()
    again = FixedWords(first + further, then=SeededWords(1))
    assert np.array_equal(got, by_reference(m, np.array(values), again))
    # Some of them took further words.
    assert words.taken == again.taken > len(values) + 50


def rounded(x: Fraction, bits: int) -> Fraction:
    """To nearest, ties to even, at `bits` significant bits."""
    if x == 0:
        return x
    unit = Fraction(2) ** (abs(x.numerator).bit_length() - x.denominator.bit_length() - bits)
    while abs(x) / unit >= 2**bits:
        unit *= 2
    while abs(x) / unit < 2 ** (bits - 1):
        unit /= 2
    return round(x / unit) * unit


def definition(m: SnappingMechanism, value: float, stream: list[int]) -> float:
    """The mechanism as it is written down, on a stream that is long enough for all of U*."""
    bits = m.precision + guard_bits
    signed = stream[0] - 2**64 if stream[0] >= 2**63 else stream[0]
    number, length = (signed if signed >= 0 else ~signed), 63
    for word in stream[1:]:
        number, length = number << 64 | word, length + 64
    assert number.bit_length() >= bits
    extra = number.bit_length() - bits
    u = Fraction(number >> extra << extra, 2**length)
    with mpmath.workprec(6 * bits):
        log = mpmath.log(mpmath.mpf(u.numerator) / u.denominator)
    ln = rounded(Fraction(*(int(i) for i in log.as_integer_ratio())), bits)
    noise = rounded(ln / m.epsilon_prime, bits)
    x = rounded(about_center(m, value) + (-noise if signed >= 0 else noise), bits)
    index = math.floor(x / m._found.step + Fraction(1, 2))
    return float(m.center + min(max(index * m.lattice, -m.bound), m.bound))


@pytest.mark.parametrize("epsilon", epsilons)
@pytest.mark.parametrize("ratio", [2, 2**70])
def test_the_answer_is_the_definition_whatever_words_follow(epsilon, ratio):
    m = mechanism(epsilon, ratio, sensitivity=0.5)
    rng = random.Random(3)
    for value in [*values_of(m, 40).tolist(), 0.25, float(m.upper)]:
        stream = [rng.getrandbits(64) for _ in range(12)]
        if rng.random() < 0.3:
            stream[0] >>= rng.randrange(60)
        for single in (m.release(value, FixedWords(stream)), m.release([value], FixedWords(stream))[0]):
            assert single == definition(m, value, stream)
        words = FixedWords(stream)
        m.release(value, words)
        other = stream[: words.taken] + [rng.getrandbits(64) for _ in range(12)]
        assert definition(m, value, other) == definition(m, value, stream)


@pytest.mark.long
@pytest.mark.parametrize(
    "m",
    [
        mechanism(0.3, 50, 0.1),
        SnappingMechanism("1/3", sensitivity="1/7", lower="1/3", upper="100/7"),
        pytest.param(mechanism(1.0, 2**40), marks=pytest.mark.long),
        pytest.param(
            SnappingMechanism("1/3", sensitivity="1/7", lower="1/3", upper=1e15 + 0.1),
            marks=pytest.mark.long,
        ),
    ],
    ids=repr,
)
def test_the_margin_holds(monkeypatch, m):
    """The place that is computed, against 200 bits, for both ends of what the first word leaves open."""
    places = []
    indices = _Buffers.indices

    def watched(self, out, *args):
        found = indices(self, out, *args)
        places.append(self._room[4, : len(out)].copy())
        return found

    monkeypatch.setattr(_Buffers, "indices", watched)
    n = 1500
    values = values_of(m, n)
    m.release(values, SeededWords("margin"))
    margin, scale, used = (
        Fraction(1, 2) - Fraction(m._fast._reach),
        1 / (m.epsilon_prime * m._found.step),
        0.0,
    )
    words = SeededWords("margin").take(n).view(np.int64).tolist()
    for value, word, x in zip(values.tolist(), words, places[0].tolist(), strict=True):
        if math.isnan(x):
            continue
        prefix = word if word >= 0 else ~word
        for end in (prefix, prefix + 1):
            with mpmath.workprec(200):
                log = mpmath.log(mpmath.ldexp(end, -63))
                noise = Fraction(*(int(i) for i in log.as_integer_ratio())) * scale
            true = about_center(m, value) / m._found.step + (-noise if word >= 0 else noise)
            used = max(used, float(abs(Fraction(x) - true) / margin))
    assert 1e-4 < used <= 1


# Rounding to the lattice against exact rationals, and lattice points as floats.

largest = float.fromhex("0x1.fffffffffffffp+1023")


def exact(x: float, m: int) -> float:
    """floor(x / 2^m + 1/2) 2^m in integers, as a float."""
    top, bottom = x.as_integer_ratio()
    top, bottom = (top, bottom << m) if m >= 0 else (top << -m, bottom)
    index = (2 * top + bottom) // (2 * bottom)
    try:
        return float(index << m) if m >= 0 else index / (1 << -m)
    except OverflowError:
        return math.copysign(math.inf, x)


def test_exact_ties_go_up():
    for m in (-1073, -5, 0, 3, 900):
        ties = [(k + 0.5) * 2.0**m for k in range(-9, 9)]
        assert to_lattice(ties, 2.0**m).tolist() == [(k + 1) * 2.0**m for k in range(-9, 9)]
        for toward in (-math.inf, math.inf):
            beside = np.nextafter(ties, toward)
            assert to_lattice(beside, 2.0**m).tolist() == [exact(x, m) for x in beside.tolist()]


def test_subnormals_and_the_largest():
    for x in (5e-324, -5e-324, 2.0**-1022, 3 * 2.0**-1074, largest, -largest, 2.0**1023, -(2.0**1023)):
        for m in (-1074, -1073, -1022, 0, 960, 970, 971, 1000, 1023):
            assert to_lattice(x, 2.0**m) == exact(x, m), (x, m)


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


# What users see.


def test_values_outside_are_clamped():
    m = SnappingMechanism(0.5, lower=-3, upper=7)
    inside = m.release(np.tile([-3.0, 7.0], 500), SeededWords(3))
    for low, high in ((-1e300, 1e300), (-math.inf, math.inf), (-3.0000001, 7.5)):
        assert np.array_equal(m.release(np.tile([low, high], 500), SeededWords(3)), inside)
        assert m.release(low, SeededWords(4)) == m.release(-3, SeededWords(4))


@pytest.mark.flakiness(k=100, because="a hundred draws on a fine lattice are those of before")
def test_fresh_secure_noise_by_default():
    m = SnappingMechanism(1, lower=0, upper=1e6)
    assert not np.array_equal(m.release(np.zeros(100)), m.release(np.zeros(100)))


def test_the_secret_accuracy_is_refused_by_all_that_releases():
    """Errata 16."""
    m = SnappingMechanism(1, lower=0, upper=10)
    secret = m.accuracy_from_secret(9.5, 1e-4)
    assert "not shown" in repr(secret) and str(secret.leak()) not in f"{secret!r}{secret}"
    words = FixedWords([1, 2, 3])
    for value in (secret, [secret]):
        with pytest.raises(ParameterError, match="^value is"):
            m.release(value, words)
    assert words.taken == 0
    for call in (
        lambda: SnappingMechanism(secret, lower=0, upper=1),
        lambda: SnappingMechanism(1, lower=0, upper=secret),
        lambda: SnappingMechanism.for_accuracy(secret, 0.05, lower=0, upper=1),
        lambda: m.accuracy(secret),
        lambda: m.bias_bound(secret),
    ):
        with pytest.raises(ParameterError, match="SecretAccuracy"):
            call()
    with pytest.raises(TypeError):
        float(secret)
    assert "Never release it" in inspect.getdoc(m.accuracy_from_secret)
    # It does leak: two values of one release give two numbers.
    assert m.accuracy_from_secret(9.3, 1e-3).leak() != m.accuracy_from_secret(9.6, 1e-3).leak()


# The theorem, on exact output probabilities of the reference path, at precisions where every rounding shows.


def law_of(found: Parameters, g: Fraction, bits: int | None = None) -> dict[int, Fraction]:
    """Return the exact probability of each index: U* has `bits` bits, as many as the reference by default.

    The values of U* are numbered from 1 downwards; each has a probability of its distance from the next above.
    The index moves outwards along them, so that its steps are found by doubling and bisection.
    """
    reference = Reference(found)
    context, value = reference._context, gmpy2.mpq(g.numerator, g.denominator)
    bits = bits or reference.bits
    half = 1 << (bits - 1)

    def index(j: int, negative: bool) -> int:
        octave, place = divmod(j, half)
        u = context.mul_2exp(gmpy2.mpfr(2 * half - 1 - place, bits), -bits - octave)
        with gmpy2.context(context):
            return reference._index(reference._halves_at(value, negative, u))

    def above(j: int) -> Fraction:
        """P(U* is one of the first j values)."""
        if j == 0:
            return Fraction(0)
        octave, place = divmod(j - 1, half)
        return 1 - Fraction(2 * half - 1 - place, 1 << (bits + octave))

    found_law: dict[int, Fraction] = {}
    for negative, last in ((False, reference.last), (True, -reference.last)):
        start = 0
        while (k := index(start, negative)) != last:
            inside, step = start, 1
            while index(inside + step, negative) == k:
                inside, step = inside + step, 2 * step
            outside = inside + step
            while outside - inside > 1:
                middle = (inside + outside) // 2
                inside, outside = (middle, outside) if index(middle, negative) == k else (inside, middle)
            found_law[k] = found_law.get(k, Fraction(0)) + (above(outside) - above(start)) / 2
            start = outside
        found_law[last] = found_law.get(last, Fraction(0)) + (1 - above(start)) / 2
    assert sum(found_law.values()) == 1
    return found_law


def largest_loss(one: dict[int, Fraction], other: dict[int, Fraction]) -> Fraction:
    """Return a lower bound of the largest |ln ratio|, about 2^-256 from it."""
    assert one.keys() == other.keys()
    ratios = [one[k] / other[k] for k in one]
    return max(max(log_bounds(r)[0], log_bounds(1 / r)[0]) for r in ratios)


def small(precision: int, scale: Fraction, bound: Fraction) -> Parameters:
    """Parameters of a precision that no user gets, within the theorem's conditions."""
    found = SnappingMechanism(1 / scale, lower=-1, upper=1)._found
    epsilon_prime = round_bits(1 / scale, precision, up=False)
    exponent = snapping_parameters._exponent_not_below(1 / epsilon_prime)
    step = Fraction(2) ** exponent
    assert 1 / epsilon_prime < bound < 2 ** (precision - 7) / epsilon_prime
    return replace(
        found, precision=precision, bound=bound, epsilon_prime=epsilon_prime, step=step,
        step_exponent=exponent, half_width=bound - step / 2, lower=step / 2 - bound, upper=bound - step / 2,
    )  # fmt: skip


def pairs(count: int):
    """Mechanisms of few bits, and two values at most a sensitivity apart."""
    rng = random.Random(1)
    for _ in range(count):
        precision = rng.choice([9, 10, 11, 13])
        scale = Fraction(rng.randint(300, 3000), 1000)
        times = rng.choice([2, 3, 3.9]) * rng.choice([1, 2 ** (precision - 9)])
        found = small(precision, scale, Fraction(math.ceil(scale * Fraction(times) * 64), 64))
        g = (2 * Fraction(rng.randint(0, 10**6), 10**6) - 1) * found.half_width
        moved = Fraction(rng.choice([1, -1, 1, -1, rng.randint(-64, 64)]), rng.choice([1, 1, 64]))
        yield found, g, min(max(g + moved, -found.half_width), found.half_width)


def excess(found: Parameters, g: Fraction, h: Fraction) -> Fraction:
    """How much of what the theorem grants for rounding is used: above 1 it is false."""
    used = largest_loss(law_of(found, g), law_of(found, h)) - found.epsilon_prime * abs(g - h)
    return used / (12 * found.bound * found.epsilon_prime * found.eta + 2 * found.eta)


@pytest.mark.long
def test_the_theorem_holds_where_roundings_show():
    used = [excess(found, g, h) for found, g, h in pairs(100) if g != h]
    assert max(used) <= 1
    # They do show: without its terms in eta the theorem is false.
    assert max(used) > Fraction(1, 100)


@pytest.mark.long
def test_at_full_precision_the_stated_loss_is_tight():
    m = SnappingMechanism(1, lower=0, upper=6)
    for g, h in ((Fraction(-1, 2), Fraction(1, 2)), (Fraction(2), Fraction(3)), (Fraction(-3), Fraction(-2))):
        loss = largest_loss(law_of(m._found, g), law_of(m._found, h))
        assert m.privacy_loss() * (1 - Fraction(1, 2**100)) < loss <= m.privacy_loss() <= 1


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [1, 0.1])
def test_a_mantissa_of_52_bits_breaks_the_claim(epsilon):
    """Errata 13: eta = 2^-118 is claimed; with 53 significant bits in U*, the loss is above epsilon by 2^-56."""
    m = SnappingMechanism(epsilon, lower=0, upper=20)
    over, within = [], []
    for g in range(-10, 10, 3):
        for bits, losses in ((53, over), (None, within)):
            one, other = (law_of(m._found, Fraction(v), bits) for v in (g, g + 1))
            losses.append(largest_loss(one, other) - m.epsilon)
    assert max(within) <= 0
    assert max(over) > Fraction(1, 2**56)
