"""Random words: where every random bit of a release comes from."""

from __future__ import annotations

import hashlib
import hmac
import os
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import ClassVar

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import ParameterError
from sfumato.names.helpful import helpful
from sfumato.ownership import Owned

Words64 = NDArray[np.uint64]

# A key is replaced after 2^28 words (2 GiB), far below the 2^64 blocks that AES-CTR allows.
words_per_key = 1 << 28
_chunk = 1 << 14
_zeros = bytes(8 * _chunk)


class Words(ABC):
    """A stream of independent, uniformly random 64-bit words.

    Such as `SecureWords`, and `SeededWords` for tests.

    Source:
        docs/noise.md.
    """

    @abstractmethod
    def take(self, count: int) -> Words64:
        """Return the next `count` words, as uint64 of shape (count,).

        Args:
            count: how many, at least 0.

        >>> words = SeededWords("test_visits")
        >>> words.take(2)
        array([14165359568198459285, 11496448651826474814], dtype=uint64)
        >>> words.take(1)  # no word is given out twice
        array([17090493476538518474], dtype=uint64)
        """


class _CounterWords(Words):
    """The keystream of AES-256 in counter mode."""

    def __init__(self, key: bytes, nonce: bytes) -> None:
        self._stream = _keystream(key, nonce)

    def take(self, count: int) -> Words64:
        """Return the next `count` words of the keystream."""
        # The cipher may ask for almost one block of room beyond its output.
        words = np.empty(count + 2, np.uint64)
        room = words.view(np.uint8).data
        for start in range(0, count, _chunk):
            size = 8 * min(_chunk, count - start)
            self._stream.update_into(memoryview(_zeros)[:size], room[8 * start :])
        return words[:count]


class SecureWords(Owned, _CounterWords):
    """Words from AES-256-CTR under a key and nonce of the operating system.

    A child process after a fork gets a fresh key before its first word, and so does anybody who has used
    2^28 words. There are no copies, which would give the same words. One instance serves one thread;
    `default_words` keeps one for each.

    >>> SecureWords().take(3).shape
    (3,)

    Source:
        NIST SP 800-38A (counter mode).
    """

    _elsewhere = "a copy would give out the same words; take SecureWords() there"
    # How often words were taken in this process: tells which tests met fresh noise, and nothing else.
    takes: ClassVar[int] = 0

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        super().__init__(os.urandom(32), os.urandom(16))
        self._left = words_per_key
        self._settle()

    def take(self, count: int) -> Words64:
        """Return the next `count` words, under a fresh key where one is due."""
        if not self._at_home or count > self._left:
            self._renew()
        self._left -= count
        SecureWords.takes += 1
        return super().take(count)


class KeyedWords(_CounterWords):
    """Words that a secret key and a message determine: the same message, the same words.

    What is drawn again for the same message, by a worker that repeats its work, is the same draw, and tells
    nothing new; without the key the words of each message look fresh.

    Args:
        key: at least 32 secret random bytes.
        message: what the words are for.
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
    """Words that the seed determines: for tests alone, as whoever knows the seed knows the noise.

    Args:
        seed: whole number or text.
    Raises:
        ParameterError: seed is neither a whole number nor a text.

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
    """Given words, then those of another source: for tests of what each bit does.

    Args:
        words: whole numbers from 0 to 2^64 - 1, given out first.
        then: where further words come from; None refuses them.
    Raises:
        ParameterError: a word is no whole number from 0 to 2^64 - 1.

    >>> FixedWords([1, 2, 3]).take(2)
    array([1, 2], dtype=uint64)
    """

    def __init__(self, words: ArrayLike, then: Words | None = None) -> None:
        self._words = _given(words)
        self._then = then
        self.taken: int = 0

    def take(self, count: int) -> Words64:
        """Return the next `count` words, the given ones first.

        Raises:
            ParameterError: there are not as many, and no source of others.
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


def _given(words: ArrayLike) -> Words64:
    with suppress(Exception):  # of NumPy, which would quote one
        return np.asarray(words, np.uint64).ravel()
    raise ParameterError("words", words, "whole numbers from 0 to 2^64 - 1")


def source_of(words: object) -> Words:
    """Take a source of words; this thread's own secure words in place of None.

    Raises:
        ParameterError: it is none, such as a table, from which words could be taken too.
    """
    if words is None:
        return _words_of_thread()
    if not isinstance(words, Words):
        raise ParameterError("words", words, "a Words of sfumato.noise")
    return words


@helpful
def default_words() -> SecureWords:
    """Return this thread's own secure words.

    >>> isinstance(default_words(), SecureWords)
    True
    """
    return _words_of_thread()


def _words_of_thread() -> SecureWords:
    words: SecureWords | None = getattr(_of_thread, "words", None)
    if words is None:
        words = _of_thread.words = SecureWords()
    return words


_of_thread = threading.local()


def _keystream(key: bytes, nonce: bytes) -> CipherContext:
    return Cipher(algorithms.AES(key), modes.CTR(nonce)).encryptor()
