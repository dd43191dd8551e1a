"""SQL that is put together of a text's own words, and which of them each of its bytes comes from."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from sfumato.dialect.words import Place, Token


class Pieces:
    """Words, one after another."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._starts: list[int] = []
        self._places: list[Place] = []
        self._bytes = 0

    def add(self, written: str, place: Place, gap: bool = True) -> None:
        """Add words that stand for those at a place, behind a space where there is a gap."""
        piece = f" {written}" if gap else written
        self._starts.append(self._bytes)
        self._places.append(place)
        self._pieces.append(piece)
        self._bytes += len(piece.encode())

    def word(self, text: str, tokens: Sequence[Token], i: int) -> None:
        """Add a word as it is written; what is between words becomes a space."""
        token = tokens[i]
        gap = not i or tokens[i - 1].stop != token.start
        self.add(text[token.start : token.stop], token.place, gap)

    def extend(self, other: Pieces) -> None:
        """Add the words of others."""
        for piece, place in zip(other._pieces, other._places, strict=True):
            self.add(piece, place, gap=False)

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self._pieces)

    def places(self) -> tuple[tuple[int, ...], tuple[Place, ...]]:
        """Return the byte at which each piece begins, and what it stands for."""
        return tuple(self._starts), tuple(self._places)


def place_of(places: tuple[tuple[int, ...], tuple[Place, ...]], byte: int) -> Place:
    """Return where in the source stands what makes a byte."""
    starts, found = places
    return found[max(0, bisect_right(starts, byte) - 1)]


class FreeNames:
    """Names that a text does not use.

    Args:
        taken: those that it does, in lower case.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken: set[str] = set(taken)
        self._counts: dict[str, int] = {}

    def fresh(self, stem: str) -> str:
        """Return a name that nothing has, and take it."""
        name = stem
        while name.casefold() in self.taken:
            self._counts[stem] = self._counts.get(stem, 1) + 1
            name = f"{stem}_{self._counts[stem]}"
        self.taken.add(name.casefold())
        return name
