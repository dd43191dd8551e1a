"""The private SELECTs in a text, and the words around them, which see released and public tables alone."""

from __future__ import annotations

from sfumato.dataclass import dataclass
from sfumato.dialect.cursor import Cursor

SET_OPERATORS = ("UNION", "EXCEPT", "INTERSECT")
_SET_WORDS = (*SET_OPERATORS, "ALL", "DISTINCT", "BY", "NAME")
_CUTS = ("LIMIT", "OFFSET", "FETCH")
_MOST = 50
_ALONE = (
    "a private SELECT stands alone, in brackets of its own, or beside UNION: ... FROM (SELECT WITH ...), "
    "or WITH t AS (SELECT WITH ...) SELECT ... FROM t"
)


@dataclass(frozen=True)
class Part:
    """Where a private SELECT stands among the words of a text.

    Args:
        start, stop: its first word, and the word behind it.
        bare: whether it stands beside UNION, EXCEPT or INTERSECT without brackets of its own.
        shown: whether a SELECT around it sees its columns, and no set operator comes between.
    """

    start: int
    stop: int
    bare: bool = False
    shown: bool = False


def private_parts(words: Cursor) -> list[Part]:
    """Return where the private SELECTs of a text stand, in order; each is a release of its own.

    A text without one is all of it: its reader says what is missing.

    Raises:
        SqlError: one stands where no table can, or inside another; or there are too many.
    """
    tokens, found = words.tokens, private_starts(words)
    if not found:
        if tokens[0].word == "WITH":
            raise words.refuse(
                "there is no private SELECT: write WITH t AS (SELECT WITH DIFFERENTIAL_PRIVACY "
                "OPTIONS (...) ...) SELECT ... FROM t",
                tokens[0],
            )
        return [Part(0, len(tokens) - 1)]
    if len(found) > _MOST:
        raise words.refuse(f"at most {_MOST} private SELECTs in a text", tokens[found[_MOST]])
    parts: list[Part] = []
    for start in found:
        if parts and start < parts[-1].stop:
            raise words.refuse(
                "a private SELECT inside another one, which reads rows of privacy units, and no released "
                "table; compute with it around: SELECT ... FROM (SELECT WITH ...)",
                tokens[start],
            )
        parts.append(_part(words, start))
    return parts


def private_starts(words: Cursor) -> list[int]:
    """Return where SELECT WITH begins."""
    tokens = words.tokens
    return [
        i
        for i in range(len(tokens) - 1)
        if tokens[i].word == "SELECT"
        and tokens[i + 1].word == "WITH"
        and not (i and tokens[i - 1].word == ".")
    ]


def stop_of(words: Cursor, start: int) -> tuple[int, bool]:
    """Return where a private SELECT ends, and whether it stands beside UNION without brackets of its own."""
    tokens, stop = words.tokens, start
    while stop < len(tokens) - 1 and tokens[stop].word not in (")", "]", "}", *SET_OPERATORS):
        stop = words.closing.get(stop, stop) + 1
        while tokens[stop].word in SET_OPERATORS and tokens[stop - 1].word in (".", "AS"):
            stop += 1  # a name
    bare = (start > 0 and tokens[start - 1].word in _SET_WORDS) or tokens[stop].word in SET_OPERATORS
    # What comes behind the last of several is about all of them.
    return (_before_order(words, start, stop) if bare else stop), bare


def _part(words: Cursor, start: int) -> Part:
    tokens, before = words.tokens, words.tokens[start - 1].word if start else ""
    behind = before in _SET_WORDS
    if start and before != "(" and not behind and not _follows_released(words, start):
        raise words.refuse(_ALONE, tokens[start])
    stop, bare = stop_of(words, start)
    if bare:
        return Part(start, stop, bare=True)
    united = start >= 2 and tokens[start - 2].word in _SET_WORDS
    united |= tokens[min(stop + 1, len(tokens) - 1)].word in SET_OPERATORS
    return Part(start, stop, shown=before == "(" and not united)


def _before_order(words: Cursor, start: int, stop: int) -> int:
    tokens, i = words.tokens, start
    while i < stop:
        if tokens[i].word == "ORDER" and tokens[i + 1].word == "BY":
            return i
        if tokens[i].word in _CUTS and tokens[i - 1].word not in (".", "AS"):
            return i
        i = words.closing.get(i, i) + 1
    return stop


def _follows_released(words: Cursor, start: int) -> bool:
    """Whether a private SELECT follows WITH ..., each of whose tables is made of a private SELECT."""
    tokens, opening = words.tokens, {stop: at for at, stop in words.closing.items()}
    i = start - 1
    if tokens[0].word != "WITH" or i not in opening:
        return False
    i = 1
    while i < start:
        if tokens[i].word == "(" and tokens[i - 1].word in ("AS", "MATERIALIZED"):
            inside = range(i + 1, words.closing[i])
            if not any(tokens[j].word == "SELECT" and tokens[j + 1].word == "WITH" for j in inside):
                return False
        i = words.closing.get(i, i) + 1
    return i == start
