"""SQL that is put together of a text's own words, and which of them each of its bytes comes from."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

import duckdb

from sfumato.dialect.tokens import Cursor, Place, Token, with_slip
from sfumato.dialect.tree import Node, NotSql, statements


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


_NOT_ASCII = re.compile(r"[^\x00-\x7f]")

_NEAR = 40  # characters before, and words behind, in which what is wrong may stand


class NotUnderstood(Exception):
    """DuckDB's parser stops: why, and the index of the word at which, or None where it does not say."""

    def __init__(self, why: str, at: int | None) -> None:
        super().__init__(why)
        self.why = why
        self.at = at


class PlainSelect:
    """The words that are left, as one text.

    Args:
        words: all of them.
        dropped: indices of those that are not.
        wrapped: those to write in parentheses, so that nothing but an expression may stand there.
    """

    def __init__(self, words: Cursor, dropped: Iterable[range], wrapped: Iterable[range]) -> None:
        out = {i for span in dropped for i in span}
        opening = {span.start for span in wrapped}
        closing = {span.stop - 1 for span in wrapped}
        self._pieces: list[str] = []
        self._starts: list[int] = []  # the byte at which each word that is left begins
        self._indices: list[int] = []
        at, last = 0, -1
        for i, token in enumerate(words.tokens[:-1]):
            if i in out:
                continue
            # DuckDB moves what is behind a space that is not ASCII.
            gap = " " if i != last + 1 or not i else words.written[words.tokens[last].stop : token.start]
            gap = _NOT_ASCII.sub(" ", gap) + "(" * (i in opening)
            written = words.text[token.start : token.stop]
            self._starts.append(at + len(gap))
            self._indices.append(i)
            self._pieces.append(gap + written + ")" * (i in closing))
            at += len(gap) + len(written.encode()) + (i in closing)
            last = i
        self._words, self._end = words, len(words.tokens) - 1

    def tree(self) -> Node:
        """Return DuckDB's tree.

        Raises:
            NotUnderstood: it is not one query, or nested too deep.
        """
        try:
            found = statements("".join(self._pieces) + " ;")
        except NotSql as error:
            if error.why.startswith("Only SELECT"):  # which it says of PIVOT too
                raise NotUnderstood(
                    "only a SELECT is known here; in the place of PIVOT write CASE", None
                ) from None
            if error.at < 0:
                raise NotUnderstood(error.why, None) from None
            at, near = bisect_left(self._starts, error.at), bisect_left(self._starts, error.at - _NEAR)
            why = with_slip(error.why, "".join(self._pieces[near : at + _NEAR]))
            raise NotUnderstood(why, [*self._indices, self._end][at]) from None
        except RecursionError:
            raise NotUnderstood("it is nested too deeply", None) from None
        except duckdb.Error:
            raise NotUnderstood("it is too large", None) from None
        if not found:
            raise NotUnderstood("there is no statement: write a SELECT", None)
        if len(found) > 1:
            raise NotUnderstood("several statements: ask one at a time", None)
        return found[0]

    def place(self, byte: int) -> Place:
        """Return where in the source the word stands that a byte of the text is of."""
        at = max(0, bisect_right(self._starts, byte) - 1)
        return self._words.tokens[self._indices[at]].place

    def before(self, index: int) -> str:
        """Return what stands before a word."""
        return "".join(self._pieces[: bisect_left(self._indices, index)])


def is_query(text: str) -> bool:
    """Whether DuckDB takes a text for one query."""
    try:
        return len(statements(text)) == 1
    except (NotSql, RecursionError, duckdb.Error):
        return False


def select_list(text: str) -> Node:
    """Return DuckDB's tree of an expression that stands in a query that it took."""
    ((node,),) = (tree["select_list"] for tree in statements(f"SELECT (\n{text}\n)"))
    return node  # type: ignore[no-any-return]
