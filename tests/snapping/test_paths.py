"""Two paths, one answer; and that answer, recomputed by means that share nothing with the package but words.

The contract: a first word, read as signed w, gives the sign and 63 bits of U (w, or ~w if negative); every
further word gives 64 more. U* is U cut to p + 2 bits. A call takes its first words first, then further ones in
order, each as long as the bits so far leave two answers.
"""

import math
import random
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest

from sfumato.noise import FixedWords, SeededWords, rounded_sampler
from sfumato.noise.standard_laws import laplace
from sfumato.snapping import SnappingMechanism
from sfumato.snapping.snapping_parameters import guard_bits
from sfumato.snapping.snapping_paths import FastPath, Reference, _Buffers

epsilons = [1e-6, 0.01, 0.3, 1.0, 10.0]
ratios = [2, 2**10, 2**20, 2**30, 2**40]


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


@pytest.mark.parametrize("n", [4000, pytest.param(40_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("ratio", ratios, ids=lambda r: f"2^{math.log2(r):.0f}")
@pytest.mark.parametrize("epsilon", epsilons)
def test_fast_equals_reference(epsilon, ratio, n):
    """25 cases of 40,000 draws: a million."""
    m = mechanism(epsilon, ratio)
    assert ratio / 4 < m.bound * m.epsilon_prime / m.sensitivity < 4 * ratio
    values = values_of(m, n)
    words, again = SeededWords(f"{epsilon} {ratio}"), SeededWords(f"{epsilon} {ratio}")
    assert np.array_equal(m.release(values, words), by_reference(m, values, again))
    # Both have taken as many words.
    assert words.take(1) == again.take(1)


@pytest.mark.parametrize(
    "case",
    [
        {"epsilon": 0.7, "sensitivity": 0.1, "lower": -1, "upper": 30},
        {"epsilon": "1/3", "sensitivity": "1/7", "lower": "1/3", "upper": "100/7"},
        {"epsilon": 1, "sensitivity": 1, "lower": 1e9 + 0.1, "upper": 1e9 + 20},
        {"epsilon": 50, "sensitivity": 3, "lower": 0, "upper": 1e5, "gamma": 1e-9},
        {"epsilon": 1, "sensitivity": 1e-290, "lower": 0, "upper": 1e-288},
        {"epsilon": 1e-8, "sensitivity": 1e280, "lower": 0, "upper": 1e285},
        {"epsilon": 1, "sensitivity": 1e-3, "lower": 0, "upper": 1e17},
        {
            "epsilon": 1,
            "sensitivity": 1,
            "lower": Fraction(2**60) + Fraction(1, 3),
            "upper": Fraction(2**60) + 1,
        },
    ],
    ids=str,
)
def test_odd_units(case):
    case = dict(case)
    m = SnappingMechanism(case.pop("epsilon"), **case)
    n = 2000
    values = values_of(m, n)
    words, again = SeededWords("odd"), SeededWords("odd")
    assert np.array_equal(m.release(values, words), by_reference(m, values, again))
    assert words.take(1) == again.take(1)


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


@pytest.mark.parametrize(
    ("epsilon", "ratio"), [(1e-6, 2**20), (0.3, 2**10), (1.0, 2), (1.0, 2**40), (10.0, 40)]
)
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


@pytest.mark.parametrize("epsilon", epsilons)
def test_all_zeros_and_all_ones(epsilon):
    m = mechanism(epsilon, 2**10)
    for word, sign in ((0, 1), (2**64 - 1, -1)):
        words = FixedWords([word, 0, 0, 0, 0, 0, 0], then=SeededWords(2))
        # U below 2^-447: the noise is at least 309 lambda.
        got = m.release([0.0], words)[0]
        assert sign * got > 300 / epsilon
        assert (
            got == by_reference(m, np.zeros(1), FixedWords([word, 0, 0, 0, 0, 0, 0], then=SeededWords(2)))[0]
        )
        # At the bound on this side, clamping decides without a further word.
        tight = mechanism(epsilon, 2)
        words = FixedWords([word])
        assert tight.release([sign * math.inf], words)[0] == float(sign * tight.bound)
    for word in (2**63 - 1, 2**63):  # U next to 1: no noise
        assert m.release([0.0], FixedWords([word]))[0] == 0.0


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
@pytest.mark.parametrize("ratio", [2, 2**20, 2**70])
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


def test_the_reference_decides_at_boundaries_as_the_definition_does():
    m = mechanism(1.0, 50)
    values, first, further = words_at_boundaries(m, [0.0, 7.3])
    for value, word, more in zip(values, first, further, strict=True):
        stream = [word, more, *range(1, 2**62, 2**59)]
        assert m.release(value, FixedWords(stream)) == definition(m, value, stream)


def test_a_wrong_table_is_found(monkeypatch):
    """Planted: one segment of 2^15 is off by 2^-20 of lambda."""
    table = rounded_sampler.quantile_table(laplace)
    wrong = table.value.copy()
    row = (rounded_sampler.top_octave << rounded_sampler.segment_bits) + 777
    wrong[row] += 2.0**-20
    planted = rounded_sampler.QuantileTable(wrong, table.slope, table.row_errors, table.largest)
    m = mechanism(1.0, 2**10)
    prefix = round(2**63 * (0.5 + 777.5 / 2**12))
    words = [prefix + (i << 40) for i in range(-4000, 4000)]
    # Values that bring exactly these draws next to a boundary.
    truth = np.array([-math.log(w / 2**63) for w in words])
    values = 1.0 - truth - 2.0**-22
    expected = by_reference(m, values, FixedWords(words, then=SeededWords(1)))
    assert np.array_equal(m.release(values, FixedWords(words, then=SeededWords(1))), expected)
    monkeypatch.setattr(rounded_sampler, "quantile_table", lambda standard: planted)
    assert not np.array_equal(
        mechanism(1.0, 2**10).release(values, FixedWords(words, then=SeededWords(1))), expected
    )


def test_a_missing_margin_is_found():
    """Planted: every draw is taken for decided."""
    m = mechanism(1.0, 2**10)
    values, first, further = words_at_boundaries(m, [0.3])
    expected = by_reference(m, np.array(values), FixedWords(first + further, then=SeededWords(1)))
    assert np.array_equal(m.release(values, FixedWords(first + further, then=SeededWords(1))), expected)
    m._fast._reach = 0.5
    assert not np.array_equal(m.release(values, FixedWords(first + further, then=SeededWords(1))), expected)


@pytest.mark.parametrize(
    "m",
    [mechanism(1e-6, 2**20), mechanism(1.0, 2**40), mechanism(0.3, 50, 0.1)]
    + [SnappingMechanism("1/3", sensitivity="1/7", lower="1/3", upper=b) for b in ("100/7", 1e9, 1e15 + 0.1)],
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


@pytest.mark.parametrize("n", [0, 1, 16383, 16384, 16385, 40000])
def test_sizes_do_not_matter(n):
    m = mechanism(1.0, 100)
    values = np.linspace(-90, 90, 50000)
    whole = m.release(values, SeededWords(4))
    part = m.release(values[:n], SeededWords(4))
    assert part.shape == (n,)
    # Where no draw needs more than its first word, a prefix of the words gives a prefix of the draws.
    assert np.array_equal(part, whole[:n])


def test_slow_draws_are_rare():
    for epsilon in epsilons:
        for ratio in (2, 2**10, 2**20, 2**30):
            fast = mechanism(epsilon, ratio)._fast
            assert isinstance(fast, FastPath)
            assert 2.0**-rounded_sampler.octaves + 2 * (0.5 - fast._reach) < 1e-4
