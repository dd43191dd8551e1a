"""Draws of one noise: each is recomputed from its own words, by means that share nothing with the package but MPFR.

The contract that is recomputed here: a first word, read as signed w, gives the sign and 63 bits of U (w, or ~w
if negative); every further word gives 64 more. The draw is the integer k with T((k + 1/2) / scale) < U <
T((k - 1/2) / scale), T the two-sided tail; of discrete Laplace noise with P(|X| > k) < U < P(|X| >= k). A call takes its first words first, then further ones, in order,
and only as long as the bits so far leave two integers.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import gmpy2
import numpy as np
import pytest

from sfumato.noise import DiscreteLaplace, FixedWords, Gaussian, Laplace, SeededWords, rounded_sampler
from sfumato.noise.rounded_sampler import Buffers, ExactDraws, Sampler, largest_integer
from sfumato.noise.standard_laws import gaussian, laplace

laws = [Laplace, DiscreteLaplace, Gaussian]

scales = [Fraction(1, 3), Fraction(33, 10), 1000, 2**30, 2**50]


def _tail(law, scale: Fraction, m: int, bits: int, extra: int):
    """Enclose the chance of more than m, times 2^bits, to within a few times 2^-extra."""
    ends, y = [], (m + (1 if law is DiscreteLaplace else Fraction(1, 2))) / Fraction(scale)
    for rounding, other in ((gmpy2.RoundDown, gmpy2.RoundUp), (gmpy2.RoundUp, gmpy2.RoundDown)):
        outer, inner = (gmpy2.context(precision=bits + extra, round=r) for r in (rounding, other))
        z = inner.div(y.numerator, y.denominator)
        end = outer.erfc(inner.div(z, outer.sqrt(2))) if law is Gaussian else outer.exp(inner.minus(z))
        if law is DiscreteLaplace:  # and the part of all masses that are not on one side of 0
            one = Fraction(1 / Fraction(scale))
            less = inner.exp(outer.minus(outer.div(one.numerator, one.denominator)))
            end = outer.mul_2exp(outer.div(end, inner.add(1, less)), 1)
        ends.append(outer.mul_2exp(end, bits))
    return ends


@cache
def _floor(law, scale: Fraction, m: int, bits: int = 63) -> int:
    """The integer below T((m + 1/2) / scale) 2^bits."""
    if m < 0:
        return 1 << bits
    if m >= largest_integer:
        return -1
    extra = 24
    while True:
        low, high = _tail(law, scale, m, bits, extra)
        exact = gmpy2.context(precision=bits + extra)  # int() alone would round to nearest
        below, above = int(exact.floor(low)), int(exact.floor(high))
        if below == above:
            return below
        extra *= 2  # near 1, at large scales, the tail comes close to whole numbers


def _reference(law, scale: Fraction, word: int, more) -> int:
    """One draw, by bisection over the integers."""
    signed = word - 2**64 if word >= 2**63 else word
    prefix, bits = (signed if signed >= 0 else ~signed), 63
    while True:
        # The least k whose lower tail is at or below the start of U's interval, and the same for its end.
        ends = []
        for end in (prefix, prefix + 1):
            high = 1
            while high < largest_integer and _floor(law, scale, high, bits) >= end:
                high = min(2 * high, largest_integer)
            low = 0
            while low < high:
                middle = (low + high) // 2
                low, high = (middle + 1, high) if _floor(law, scale, middle, bits) >= end else (low, middle)
            ends.append(low)
        if ends[0] == ends[1]:
            return ends[0] if signed >= 0 else -ends[0]
        prefix, bits = prefix << 64 | more(), bits + 64


def _verify(law, scale, words: np.ndarray, draws: np.ndarray, more) -> int:
    """Check each draw against its word; return how many had to be recomputed with further words."""
    signed = words.view(np.int64)
    prefix = np.where(signed < 0, ~signed, signed)
    size = np.abs(draws)
    assert np.array_equal(draws, np.where(signed < 0, -size, size))
    distinct, which = np.unique(size, return_inverse=True)
    least = np.array([_floor(law, scale, k) + 1 for k in distinct.tolist()], np.int64)
    most = np.array([_floor(law, scale, k - 1) - 1 for k in distinct.tolist()], np.int64)
    inside = (prefix >= least[which]) & (prefix <= most[which])
    open_ = np.flatnonzero(~inside)
    for i in open_.tolist():
        assert draws[i] == _reference(law, Fraction(scale), int(words[i]), more), i
    return len(open_)


def _counts(law, scale) -> int:
    # Each distinct magnitude costs the reference a few tails; erfc far out is slow.
    if scale <= 1:
        return 1_000_000
    return 500_000 if scale <= 1000 else 25_000 if law is Gaussian else 60_000


@pytest.mark.parametrize("share", [10, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("law", laws)
@pytest.mark.parametrize("scale", scales, ids=lambda s: f"{float(s):.3g}")
def test_every_draw_is_the_rounded_real(law, scale, share):
    n = _counts(law, scale) // share
    seed = f"{law.__name__} {scale}"
    words = SeededWords(seed)
    draws = law(scale).rounded(n, words)
    again = SeededWords(seed)
    first = again.take(n)
    extended = _verify(law, scale, first, draws, lambda: int(again.take(1)[0]))
    # Both have taken as many words: the next ones agree.
    assert words.take(1) == again.take(1)
    if scale == 2**50 and share == 1:
        assert extended > 0


def _boundary_words(law, scale) -> tuple[list[int], list[int]]:
    """First words next to a half-integer, and further words next to it as well, just below or just above."""
    first, further = [], []
    for m in [*range(60), *range(100, 4000, 150)]:
        prefix = _floor(law, scale, m)
        if prefix < 8:
            break
        low = _floor(law, scale, m, 127) % 2**64
        for offset in (-2, -1, 0, 1, 2):
            for sign in (0, 1):
                for next_word in (low - 1, low + 1, 0, 2**64 - 1) if offset == 0 else (None,):
                    a = min(prefix + offset, 2**63 - 1)
                    first.append(a if sign == 0 else 2**64 - 1 - a)
                    if next_word is not None:
                        further.append(min(max(next_word, 0), 2**64 - 1))
    return first, further


@pytest.mark.parametrize("law", laws)
def test_words_next_to_every_boundary(law, monkeypatch):
    slow = 0
    settle = ExactDraws.settle

    def counted(self, *args):
        nonlocal slow
        slow += 1
        return settle(self, *args)

    monkeypatch.setattr(ExactDraws, "settle", counted)
    total = 0
    for scale in (Fraction(1, 7), Fraction(1), Fraction(33, 10), Fraction(1000), Fraction(2**30)):
        first, further = _boundary_words(law, scale)
        words = FixedWords(first + further, then=SeededWords(1))
        draws = law(scale).rounded(len(first), words)
        again = FixedWords(further, then=SeededWords(1))
        expected = [_reference(law, scale, w, lambda: int(again.take(1)[0])) for w in first]  # noqa: B023
        assert draws.tolist() == expected
        assert words.taken == len(first) + again.taken
        assert again.taken >= len(further)
        total += len(first)
    # In the lowest octaves, two units of U can be more than the bound of the error.
    assert total - 20 < slow <= total
    assert total > 2000


@pytest.mark.parametrize("law", laws)
@pytest.mark.parametrize("scale", [Fraction(1, 2**20), Fraction(1), Fraction(2**30), Fraction(2**57)])
def test_all_zeros_and_all_ones(law, scale):
    for word, sign in ((0, 1), (2**64 - 1, -1)):
        # U within 2^-63 of 0: the far tail, decided by the words that follow.
        words = FixedWords([word, 0, 0], then=SeededWords(2))
        again = FixedWords([0, 0], then=SeededWords(2))
        got = law(scale).rounded(1, words)[0]
        assert got == _reference(law, scale, word, lambda: int(again.take(1)[0]))  # noqa: B023
        assert got * sign >= 0
        assert words.taken == 1 + again.taken
    # U within 2^-63 of 1: the middle.
    for word in (2**63 - 1, 2**63):
        assert abs(law(min(scale, Fraction(1000))).rounded(1, FixedWords([word]))[0]) == 0


@pytest.mark.long
@pytest.mark.parametrize("law", laws)
def test_values_beyond_int64_saturate(law):
    # At scale 2^57, the real value passes 2^63 where U < exp(-64), or erfc(64 / sqrt 2) = 2^-2961.
    word, bound = (2**64 - 1, -largest_integer) if law is Gaussian else (0, largest_integer)
    zeros = [0] * (47 if law is Gaussian else 2)
    assert law(2**57).rounded(1, FixedWords([word, *zeros], then=SeededWords(3)))[0] == bound


@pytest.mark.parametrize("law", laws)
def test_sizes_do_not_matter(law):
    """Where no draw needs more than its first word, a prefix of the words gives a prefix of the draws."""
    whole = law(5).rounded(50000, SeededWords(4))
    for n in (0, 1, 16384, 16385, 40000):
        draws = law(5).rounded(n, SeededWords(4))
        assert draws.shape == (n,) and draws.dtype == np.int64
        assert np.array_equal(draws, whole[:n])


def _without_table(law, scale, draws=300):
    """The same draws settled one by one, and by the table."""
    few, many = (Sampler(law.standard, Fraction(scale), law.discrete) for _ in range(2))
    few._before_table, many._before_table = draws, 0
    return few.draw(draws, SeededWords(5)), many.draw(draws, SeededWords(5))


@pytest.mark.parametrize("law", laws)
@pytest.mark.parametrize("scale", [Fraction(1, 3), 1000, 2**57])
def test_few_draws_are_those_of_the_table(law, scale):
    few, many = _without_table(law, scale)
    assert np.array_equal(few, many)


# The table's stated error.

bits = 96

context = gmpy2.context(precision=bits)

standards = [laplace, gaussian]


def _approximations(standard, words):
    buffers = Buffers(len(words))
    buffers.magnitudes(standard, rounded_sampler.quantile_table(standard), words)
    return buffers._room[4].copy(), buffers._room[0].copy()


def _truth(standard, prefix, above):
    outside = context.mul_2exp(gmpy2.mpfr(int(prefix) + above, bits), -63)
    return standard.quantile(outside, context.sub(1, outside), bits)


def _rows(words):
    given = np.abs(words.astype(np.float64))
    row = (given.view(np.int64) >> rounded_sampler.row_shift) & rounded_sampler.row_mask
    return row - ((rounded_sampler.top_octave - rounded_sampler.octaves + 1) << rounded_sampler.segment_bits)


def _errors(standard, words):
    approximations, _ = _approximations(standard, words)
    prefix = np.where(words < 0, ~words, words)
    errors = []
    for i, (x, a) in enumerate(zip(approximations.tolist(), prefix.tolist(), strict=True)):
        # Either end of the interval of U, in turns.
        errors.append(abs(float(context.sub(x, _truth(standard, a, i % 2)))))
    return np.array(errors)


@pytest.mark.long
@pytest.mark.parametrize("standard", standards)
def test_bound_holds_at_the_ends_of_every_segment(standard):
    starts = np.concatenate(
        [
            2.0**e * (1 + np.arange(1 << rounded_sampler.segment_bits) * 2.0**-rounded_sampler.segment_bits)
            for e in range(63 - rounded_sampler.octaves, 63)
        ]
    )
    ends = np.nextafter(np.append(starts[1:], 2.0**63), 0)
    # erfc^-1 takes 60 us: of the Gaussian, every third segment.
    step = 1 if standard is laplace else 3
    words = np.concatenate([starts[::step], ends[::step]]).astype(np.int64)
    words[1::2] *= -1
    table = rounded_sampler.quantile_table(standard)
    errors, rows = _errors(standard, words), _rows(words)
    assert rows.min() == 0
    assert rows.max() >= len(table.row_errors) - step
    assert (errors <= table.row_errors[rows]).all()
    # The bound is not idle: somewhere more than a quarter of it is reached.
    assert (errors / table.row_errors[rows]).max() > 0.25


@pytest.mark.parametrize("standard", standards)
def test_bound_holds_at_random_words(standard):
    words = SeededWords(1).take(6000).view(np.int64)
    # Spread them over all octaves.
    words = words >> (np.arange(6000) % rounded_sampler.octaves)
    known = _rows(words) >= 0
    words = words[known]
    assert (
        _errors(standard, words) <= rounded_sampler.quantile_table(standard).row_errors[_rows(words)]
    ).all()


# Draws from secure words.

DRAWS = 300_000

ALLOWED = math.sqrt(math.log(2 / 1e-15) / (2 * DRAWS))


def _distance(law, draws) -> float:
    values, counts = np.unique(draws, return_counts=True)
    after = np.cumsum(counts) / len(draws)
    before = after - counts / len(draws)
    # Between the values that occur, F_n is flat: its distance from F is largest at the ends of each flat part.
    return max(
        np.abs(after - law.rounded_cdf(values)).max(), np.abs(before - law.rounded_cdf(values - 1)).max()
    )


@pytest.mark.flakiness(k=15, because="by Massart's bound, as it says")
@pytest.mark.parametrize("law", laws)
@pytest.mark.parametrize("scale", ["0.4", "3.3"])
def test_draws_follow_the_law(law, scale):
    """sup |F_n - F| passes sqrt(ln(2 / a) / (2 DRAWS)) with probability at most a (Massart), here a = 1e-15."""
    ours = law(scale)
    assert _distance(ours, ours.rounded(DRAWS)) < ALLOWED
