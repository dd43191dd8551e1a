"""Random words, the source of every random bit of a release, and exact coins and choices made of them."""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import threading
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import ClassVar, overload

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fraction, whole_number
from sfumato.names.suggestions import suggest_arguments
from sfumato.ownership import Owned

Words64 = NDArray[np.uint64]

# A key is replaced after 2^28 words (2 GiB), far below the 2^64 blocks that AES-CTR allows.
words_per_key = 1 << 28
_chunk = 1 << 14
_zeros = bytes(8 * _chunk)


class Words(ABC):
    """A source of random words: independent, uniformly random 64-bit numbers.

    Implementations are `SecureWords`, and `SeededWords` for tests.

    Source:
        docs/noise.md.
    """

    @abstractmethod
    def take(self, count: int) -> Words64:
        """Return the next `count` random words.

        Args:
            count: the number of words, at least 0.
        Returns:
            uint64 of shape (count,).

        >>> words = SeededWords("test_visits")
        >>> words.take(2)
        array([14165359568198459285, 11496448651826474814], dtype=uint64)
        >>> words.take(1)  # no word is given out twice
        array([17090493476538518474], dtype=uint64)
        """


class _CounterWords(Words):
    """Random words from the keystream of AES-256 in counter mode."""

    def __init__(self, key: bytes, nonce: bytes) -> None:
        self._stream = _keystream(key, nonce)

    def take(self, count: int) -> Words64:
        """Return the next `count` random words of the AES keystream."""
        # The cipher may ask for almost one block of room beyond its output.
        words = np.empty(count + 2, np.uint64)
        room = words.view(np.uint8).data
        for start in range(0, count, _chunk):
            size = 8 * min(_chunk, count - start)
            self._stream.update_into(memoryview(_zeros)[:size], room[8 * start :])
        return words[:count]


class SecureWords(Owned, _CounterWords):
    """Random words from AES-256-CTR, with a key and nonce from the operating system.

    A child process after a fork gets a fresh key before its first word, and every source does after 2^28
    words. It cannot be copied, because a copy would give the same words. One instance serves one thread;
    `default_words` keeps one for each.

    >>> SecureWords().take(3).shape
    (3,)

    Source:
        NIST SP 800-38A (counter mode).
    """

    _elsewhere = "a copy would repeat the same random words. Make a SecureWords() in the other process"
    # How often words were taken in this process: tells which tests met fresh noise, and nothing else.
    takes: ClassVar[int] = 0

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        super().__init__(os.urandom(32), os.urandom(16))
        self._left = words_per_key
        self._settle()

    def take(self, count: int) -> Words64:
        """Return the next `count` random words, under a fresh key when one is due."""
        if not self._at_home or count > self._left:
            self._renew()
        self._left -= count
        SecureWords.takes += 1
        return super().take(count)


class KeyedWords(_CounterWords):
    """Random words that a secret key and a message determine: the same message gives the same words.

    A worker that repeats its work for the same message draws the same noise, which reveals nothing new.
    Without the key, the words of each message look fresh.

    Args:
        key: at least 32 secret random bytes.
        message: the purpose of the words.
    Raises:
        ParameterError: the key has fewer than 32 bytes.

    >>> one, other = (KeyedWords(bytes(32), b"a").take(2) for _ in range(2))
    >>> bool((one == other).all()), bool((one == KeyedWords(bytes(32), b"b").take(2)).any())
    (True, False)

    Source:
        HMAC-SHA-256 as a pseudorandom function (RFC 2104), then NIST SP 800-38A (counter mode).
    """

    def __init__(self, key: bytes, message: bytes) -> None:
        if len(key) < 32:
            raise ParameterError("key", f"{len(key)} bytes", "at least 32 secret random bytes")
        super().__init__(hmac.digest(key, message, "sha256"), bytes(16))


class SeededWords(_CounterWords):
    """Random words that a seed determines. For tests only: anyone who knows the seed knows the noise.

    Args:
        seed: a whole number or text.
    Raises:
        ParameterError: seed is neither a whole number nor text.

    >>> bool((SeededWords(7).take(5) == SeededWords(7).take(5)).all())
    True
    """

    def __init__(self, seed: int | str) -> None:
        if not isinstance(seed, (int, str)):
            raise ParameterError("seed", seed, "a whole number or a text")
        key = hashlib.sha256(f"sfumato.noise.SeededWords {seed!r}".encode()).digest()
        super().__init__(key, bytes(16))
        self.seed = seed

    def __repr__(self) -> str:
        return f"SeededWords({self.seed!r})"


class FixedWords(Words):
    """Fixed words, then words from another source: for tests of the effect of each bit.

    Args:
        words: whole numbers from 0 to 2^64 - 1, which come first.
        then: the source of further words; None refuses them.
    Raises:
        ParameterError: a word is not a whole number from 0 to 2^64 - 1.

    >>> FixedWords([1, 2, 3]).take(2)
    array([1, 2], dtype=uint64)
    """

    def __init__(self, words: ArrayLike, then: Words | None = None) -> None:
        self._words = _read_words(words)
        self._then = then
        self.taken: int = 0

    def take(self, count: int) -> Words64:
        """Return the next `count` words, the fixed ones first.

        Raises:
            ParameterError: there are not enough words, and no source of further ones.
        """
        start = min(self.taken, len(self._words))
        head = self._words[start : start + count]
        missing = count - len(head)
        if missing and self._then is None:
            expected = "as long as the draws need, or followed by then=..."
            raise ParameterError("words", f"FixedWords of {len(self._words)}", expected)
        self.taken += count
        if not missing or self._then is None:
            return head.copy()
        return np.concatenate([head, self._then.take(missing)])


def _read_words(words: ArrayLike) -> Words64:
    with suppress(Exception):  # of NumPy, which would quote one
        return np.asarray(words, np.uint64).ravel()
    raise ParameterError("words", words, "whole numbers from 0 to 2^64 - 1")


def get_source(words: object) -> Words:
    """Take a source of random words; None stands for this thread's own secure words.

    Raises:
        ParameterError: it is none, such as a table, from which words could be taken too.
    """
    if words is None:
        return _thread_words()
    if not isinstance(words, Words):
        raise ParameterError("words", words, "a Words of sfumato.noise")
    return words


@suggest_arguments
def default_words() -> SecureWords:
    """Return this thread's own source of secure random words.

    >>> isinstance(default_words(), SecureWords)
    True
    """
    return _thread_words()


def _thread_words() -> SecureWords:
    words: SecureWords | None = getattr(_thread_local, "words", None)
    if words is None:
        words = _thread_local.words = SecureWords()
    return words


_thread_local = threading.local()


def _keystream(key: bytes, nonce: bytes) -> CipherContext:
    return Cipher(algorithms.AES(key), modes.CTR(nonce)).encryptor()


Enclosures = Callable[[int], tuple[Fraction, Fraction]]
Probability = Number | Enclosures


@overload
def bernoulli(p: Probability, n: None = None, words: Words | None = None) -> bool: ...
@overload
def bernoulli(p: Probability, n: int, words: Words | None = None) -> NDArray[np.bool_]: ...
@suggest_arguments
def bernoulli(p: Probability, n: int | None = None, words: Words | None = None) -> bool | NDArray[np.bool_]:
    """Toss coins that come up true with probability exactly p.

    Args:
        p: a probability from 0 to 1, taken exactly as `as_fraction` does; or a function from a number of bits
            to Fractions (low, high) around p, about 2^-bits apart.
        n: the number of coins; None for a single bool.
        words: a source of random words; None for this thread's secure source.
    Returns:
        A bool, or an array of bool of shape (n,).
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


@suggest_arguments
def bernoulli_each(
    probabilities: Sequence[Probability], index: ArrayLike, words: Words | None = None
) -> NDArray[np.bool_]:
    """Toss a coin for each element, which is true with probability exactly probabilities[index[i]].

    Args:
        probabilities: the distinct probabilities, each as `bernoulli` takes it.
        index: whole numbers of any shape, each from 0 to len(probabilities) - 1.
        words: a source of random words; None for this thread's secure source.
    Returns:
        An array of bool in the shape of `index`.
    Raises:
        ParameterError: a probability is not one, or an index is out of range.

    >>> bernoulli_each([0, 1], [0, 1, 1, 0])
    array([False,  True,  True, False])

    Source:
        As for `bernoulli`.
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
    words = get_source(words)
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
    """Take more random words for a coin's uniform number, until it is known on which side of p it is."""
    bits = 64
    while True:
        low, high = enclose(bits + 64)
        if prefix + 1 <= low * 2**bits:
            return True
        if prefix >= high * 2**bits:
            return False
        prefix, bits = prefix << 64 | int(words.take(1)[0]), bits + 64


Cumulative = Callable[[int], tuple[Sequence[float | Fraction], Sequence[float | Fraction]]]


def pick(cumulative: Cumulative, words: Words | None = None, first: int | None = None) -> int:
    """Pick a whole number j from 0 with exactly the probability p_j, by random words.

    Args:
        cumulative: takes a number of bits, at least 64, and returns bounds (low, high) around each of
            p_0, p_0 + p_1, ..., the last of which is 1: both rising, of equal length, the closer the more
            bits. For 64 bits they may be arrays of floats.
        words: source of random words; None for this thread's secure words.
        first: the first word, where it is drawn already.

    >>> pick(lambda bits: ([0, 1], [0, 1]))
    1

    Source:
        as `bernoulli`, with one uniform U: the first j whose cumulative probability is above it.
    """
    words = get_source(words)
    prefix, bits = int(words.take(1)[0]) if first is None else first, 64
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
