"""Exact coins: true with a probability that is a rational number, or known by ever closer enclosures."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fraction, whole_number
from sfumato.names.helpful import helpful
from sfumato.noise.words import Words, source_of

Enclosures = Callable[[int], tuple[Fraction, Fraction]]
Probability = Number | Enclosures


@overload
def bernoulli(p: Probability, n: None = None, words: Words | None = None) -> bool: ...
@overload
def bernoulli(p: Probability, n: int, words: Words | None = None) -> NDArray[np.bool_]: ...
@helpful
def bernoulli(p: Probability, n: int | None = None, words: Words | None = None) -> bool | NDArray[np.bool_]:
    """Toss coins that are true with probability exactly p.

    Args:
        p: probability from 0 to 1, taken exactly as `as_fraction` does; or a callable that takes a number
            of bits and returns Fractions (low, high) around p, about 2^-bits apart.
        n: number of coins; None for one bool.
        words: source of random words; None for this thread's secure words.
    Returns:
        A bool, or bool of shape (n,).
    Raises:
        ParameterError: p is not a probability, or n is not a whole number of at least 0.

    >>> bernoulli(1), bernoulli("1/3", n=5).shape
    (True, (5,))

    Source:
        U < p for a uniform U, compared bit by bit: the first word decides all but one coin in 2^64.
    """
    index = np.zeros(1 if n is None else whole_number(n, "n", 0), np.intp)
    coins = _toss([_enclosures(p, "p")], index, words)
    return bool(coins[0]) if n is None else coins


@helpful
def bernoulli_each(
    probabilities: Sequence[Probability], index: ArrayLike, words: Words | None = None
) -> NDArray[np.bool_]:
    """Toss a coin for each element, true with probability exactly probabilities[index[i]].

    Args:
        probabilities: the distinct probabilities, each as `bernoulli` takes it.
        index: whole numbers of any shape, each from 0 to len(probabilities) - 1.
        words: source of random words; None for this thread's secure words.
    Returns:
        bool, in the shape of `index`.
    Raises:
        ParameterError: a probability is not one, or an index is out of range.

    >>> bernoulli_each([0, 1], [0, 1, 1, 0])
    array([False,  True,  True, False])

    Source:
        as `bernoulli`.
    """
    rows = np.asarray(index)
    if rows.size == 0:
        rows = rows.astype(np.intp)
    if not np.issubdtype(rows.dtype, np.integer):
        raise ParameterError("index", rows.dtype.name, "an array of whole numbers")
    if rows.size and not (rows.min() >= 0 and rows.max() < len(probabilities)):
        expected = f"from 0 to {len(probabilities) - 1}, as there are {len(probabilities)} probabilities"
        raise ParameterError("index", "out of range", expected)
    enclosures = [_enclosures(p, f"probabilities[{i}]") for i, p in enumerate(probabilities)]
    return _toss(enclosures, rows.ravel(), words).reshape(rows.shape)


def _enclosures(p: Probability, name: str) -> Enclosures:
    if callable(p):
        low, high = p(64)
        if not 0 <= low <= high <= 1:
            raise ParameterError(name, (low, high), "bounds with 0 <= low <= high <= 1")
        return p
    exact = as_fraction(p, name)
    if not 0 <= exact <= 1:
        raise ParameterError(name, p, "a probability, from 0 to 1")
    return lambda bits: (exact, exact)


def _toss(
    probabilities: list[Enclosures], index: NDArray[np.integer], words: Words | None
) -> NDArray[np.bool_]:
    words = source_of(words)
    # A first word w says that U is in [w, w + 1] 2^-64: below `sure` the coin is true, above `last` it is
    # false. In between, for an exact p one word at most, the bits so far do not tell.
    sure, last = np.empty((2, len(probabilities)), np.uint64)
    for i, enclose in enumerate(probabilities):
        low, high = enclose(64)
        sure[i] = min(math.floor(low * 2**64), 2**64 - 1)
        last[i] = max(math.ceil(high * 2**64) - 1, 0)
    first = words.take(len(index))
    sure_here, last_here = (sure[0], last[0]) if len(probabilities) == 1 else (sure[index], last[index])
    coins: NDArray[np.bool_] = np.less(first, sure_here)
    for i in np.flatnonzero((first >= sure_here) & (first <= last_here)).tolist():
        coins[i] = _finish(int(first[i]), probabilities[index[i]], words)
    return coins


def _finish(prefix: int, enclose: Enclosures, words: Words) -> bool:
    """Take more bits of U, as many as it needs to tell U from p."""
    bits = 64
    while True:
        low, high = enclose(bits + 64)
        if prefix + 1 <= low * 2**bits:
            return True
        if prefix >= high * 2**bits:
            return False
        prefix, bits = prefix << 64 | int(words.take(1)[0]), bits + 64


Cumulative = Callable[[int], tuple[Sequence[float | Fraction], Sequence[float | Fraction]]]


def pick(cumulative: Cumulative, words: Words | None = None) -> int:
    """Pick a whole number j from 0 with exactly the probability p_j.

    Args:
        cumulative: takes a number of bits, at least 64, and returns bounds (low, high) around each of
            p_0, p_0 + p_1, ..., the last of which is 1: both rising, of equal length, the closer the more
            bits. For 64 bits they may be arrays of floats.
        words: source of random words; None for this thread's secure words.

    >>> pick(lambda bits: ([0, 1], [0, 1]))
    1

    Source:
        as `bernoulli`, with one uniform U: the first j whose cumulative probability is above it.
    """
    words = source_of(words)
    prefix, bits = int(words.take(1)[0]), 64
    while True:
        low, high = cumulative(bits)
        if isinstance(low, np.ndarray):
            # U is in [prefix, prefix + 1] 2^-64, and a float is nearer to each end than its neighbours.
            ends = np.nextafter(np.array([prefix, prefix + 1], float) * 2.0**-64, [0.0, 2.0])
            below, above = np.searchsorted(high, ends[0], "right"), np.searchsorted(low, ends[1], "left")
        else:
            below = bisect_right(high, Fraction(prefix, 1 << bits))
            above = bisect_left(low, Fraction(prefix + 1, 1 << bits))
        if below == above:
            return int(below)
        prefix, bits = prefix << 64 | int(words.take(1)[0]), bits + 64
