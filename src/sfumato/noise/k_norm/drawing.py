"""Vectors of many groups, exactly rounded: most in floats with a proven error, the others in enclosures.

A group's vector is a function of a few uniform numbers of its own, and of what all groups share. In floats it
comes with a bound of its error. Where that leaves open how a number is rounded, or whether the vector is
accepted, this group alone is computed again, in enclosures, with as many more bits of its numbers as it
takes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact.enclosures import Enclosure
from sfumato.noise.k_norm.streams import Stream, Streams
from sfumato.noise.values import Floats
from sfumato.noise.words import Words

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

# Arrays of 64 KiB: memory for larger ones is fetched from the operating system each time.
block = 1 << 13
_bulk = 2  # the part of the addresses of these numbers


@dataclass(frozen=True)
class Approximation:
    """Vectors in floats.

    Attributes:
        numbers: for each coordinate an array, in grid steps.
        margins: for each coordinate a bound of its error, in grid steps.
        room: an array that is above 0 for vectors that are accepted, and below 0 for others; None: all are.
        room_margin: a bound of its error.
        known: where these bounds hold; None: everywhere.
    """

    numbers: Sequence[Floats]
    margins: Sequence[float]
    room: Floats | None = None
    room_margin: float = 0.0
    known: Flags | None = None

    def at(self, places: NDArray[np.intp]) -> Approximation:
        """Return some of the vectors."""
        numbers = [x.take(places) for x in self.numbers]
        known = None if self.known is None else self.known.take(places)
        return replace(self, numbers=numbers, room=None, known=known)


@dataclass(frozen=True)
class Enclosed:
    """One vector in enclosures: its numbers in grid steps, and its room, as in `Approximation`."""

    numbers: Sequence[Enclosure]
    room: Enclosure | None = None


class Vectors(ABC):
    """How a group's vector follows from uniform numbers.

    Attributes:
        width: uniform numbers of each vector.
        dimensions: coordinates of a vector.
    """

    width: int
    dimensions: int

    @abstractmethod
    def approximate(self, words: Integers) -> Approximation:
        """Return vectors in floats, from the first words of their numbers, of shape (width, vectors)."""

    @abstractmethod
    def closely(self, numbers: Sequence[Floats]) -> Sequence[Floats]:
        """Return closer bounds of the errors of these vectors' own numbers.

        Args:
            numbers: as `approximate` gave them.
        """

    @abstractmethod
    def enclose(self, uniform: Sequence[Enclosure]) -> Enclosed | None:
        """Return one vector, from numbers in (0, 1); None where they are known too coarsely."""

    def draw(self, count: int, streams: Streams, words: Words) -> Integers:
        """Draw vectors.

        Args:
            count: how many.
            streams: where further bits come from.
            words: where first words come from: for 2^13 vectors at a time, or as many as are missing, all
                those of the first number, then all of the second, and so on. What is accepted is kept in
                order.
        Returns:
            int64 of shape (dimensions, count).
        """
        out = np.empty((self.dimensions, count), np.int64)
        filled = proposed = 0
        while filled < count:
            size = min(block, count - filled)
            first = words.take(self.width * size).view(np.int64).reshape(self.width, size)
            with np.errstate(invalid="ignore", divide="ignore"):
                filled += self._propose(first, out[:, filled:], proposed, streams)
            proposed += size
        return out

    def _propose(self, first: Integers, out: Integers, number: int, streams: Streams) -> int:
        """Make vectors of words, the first of them of this number; return how many are accepted."""
        found = self.approximate(first)
        places = np.arange(first.shape[1])
        open_ = np.zeros(first.shape[1], np.bool_)
        if found.room is not None:
            # NaN is sure of nothing. What is surely not accepted needs no rounding.
            open_ = ~(np.abs(found.room) > found.room_margin)
            if found.known is not None:
                open_ |= ~found.known
            places = np.flatnonzero((found.room > 0) | open_)
            found, open_ = found.at(places), open_[places]
        drawn = out[:, : places.size]
        unsure, refused = open_ | self._round_into(drawn, found), []
        for i in np.flatnonzero(unsure).tolist():
            place = int(places[i])
            own = [
                streams.at(_bulk, number + place, j, first=int(word) % 2**64 ^ 2**63)
                for j, word in enumerate(first[:, place])
            ]
            settled = self.settle(own)
            if settled is None:
                refused.append(i)
            else:
                drawn[:, i] = settled
        accepted = places.size - len(refused)
        if refused:
            drawn[:, :accepted] = np.delete(drawn, refused, axis=1)
        return accepted

    def _round_into(self, out: Integers, found: Approximation) -> Flags:
        """Round into `out`; return where that is not sure."""
        unsure = np.zeros(out.shape[1], np.bool_)
        for row, x, margin in zip(out, found.numbers, found.margins, strict=True):
            whole = np.rint(x)
            np.copyto(row, whole, casting="unsafe")
            np.subtract(x, whole, out=whole)
            np.absolute(whole, out=whole)
            unsure |= ~_sure(whole, margin)
        if (places := np.flatnonzero(unsure)).size:
            unsure[places] = self._unsure([x[places] for x in found.numbers])
        if found.known is not None:
            unsure |= ~found.known
        return unsure

    def _unsure(self, numbers: Sequence[Floats]) -> Flags:
        """Return where numbers are not surely rounded by their own bounds either."""
        unsure = np.zeros(len(numbers[0]), np.bool_)
        for x, margin in zip(numbers, self.closely(numbers), strict=True):
            unsure |= ~_sure(np.abs(x - np.rint(x)), margin)
        return unsure

    def settle(self, uniform: Sequence[Stream]) -> list[int] | None:
        """Return one vector's whole numbers, or None if it is not accepted."""
        bits = 64  # of which no number needs further words
        while True:
            found = self.enclose([u.enclose(bits) for u in uniform])
            bits *= 2
            if found is None:
                continue
            if found.room is not None:
                inside = Enclosure.of(0, bits).below(found.room)
                if inside is None:
                    continue
                if not inside:
                    return None
            rounded = [number.rounded() for number in found.numbers]
            whole = [n for n in rounded if n is not None]
            if len(whole) == len(rounded):
                return whole


def as_uniform(words: Integers) -> list[Floats]:
    """Return numbers in [-1, 1): the middles of words are within 2^-53 of theirs and 2^-63 of the truth."""
    found = [row.astype(np.float64) for row in words]  # each in memory of its own, as `block` says
    for row in found:
        np.multiply(row, 2.0**-63, out=row)
    return found


def _sure(distance: Floats, margin: Floats | float) -> Flags:
    """Return where numbers so far from whole ones are within 1/2 of them, whatever the error up to a margin.

    False for NaN too: what cannot be compared is not decided.
    """
    # The difference is off by at most half a last bit, which the next float below it makes up for.
    return np.asarray(distance <= np.nextafter(0.5 - margin, -np.inf))


def check_scales(scales: Sequence[Fraction], dimensions: int, shape: int) -> None:
    """Refuse scales of which a draw could be beyond 64-bit integers.

    No number is larger than a scale times a Gamma number of this shape, which is above 2 shape + 128 with
    probability below e^-64.
    """
    if len(scales) != dimensions or min(scales) <= 0:
        raise ParameterError("scales", scales, f"{dimensions} numbers greater than 0")
    most = 2**62 // (2 * shape + 128)
    if max(scales) > most:
        raise ParameterError("scales", max(scales), f"at most {most} grid steps")
