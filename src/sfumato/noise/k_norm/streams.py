"""Uniform random numbers, bit by bit: as many bits of each as what is made of it needs.

A draw takes four words as a key, then the first word of each number that is drawn in bulk. All further bits
follow from the key and the number's address. So how many bits of one number are looked at changes no other,
and a draw is a function of the words alone, whoever computes it, and with whatever precision.
"""

from __future__ import annotations

from sfumato.exact.enclosures import Enclosure
from sfumato.noise.words import KeyedWords, Words

_key_words = 4  # 256 bits, the size of an AES key


class Stream:
    """A uniform number in (0, 1): its first bits, and where further ones come from."""

    def __init__(self, key: bytes, address: tuple[int, ...], first: int | None = None) -> None:
        self._key, self._address = key, address
        self._more: Words | None = None
        self._prefix, self._known = (0, 0) if first is None else (first, 64)

    def enclose(self, bits: int) -> Enclosure:
        """Return where the number lies, to an absolute 2^-bits, with 32 bits of precision more."""
        while self._known < bits:
            if self._more is None:
                self._more = KeyedWords(self._key, repr(self._address).encode())
            self._prefix = self._prefix << 64 | int(self._more.take(1)[0])
            self._known += 64
        return Enclosure.between(self._prefix, self._prefix + 1, -self._known, bits + 32)


class Streams:
    """The uniform numbers of one draw, by address."""

    def __init__(self, words: Words) -> None:
        self._key = words.take(_key_words).astype("<u8").tobytes()

    def at(self, *address: int, first: int | None = None) -> Stream:
        """Return the number of an address.

        Args:
            address: whole numbers; another one, another number.
            first: its first 64 bits, if they are known.
        """
        return Stream(self._key, address, first)
