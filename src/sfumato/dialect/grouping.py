"""ROLLUP, CUBE and GROUPING SETS: which keys stand in them, before DuckDB says which sets these are."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from sfumato.dataclass import dataclass
from sfumato.dialect.cursor import Cursor
from sfumato.dialect.tree import Node
from sfumato.query.totals import MOST_SETS

_DEEPEST = 8


@dataclass(frozen=True)
class _Part:
    """Some of GROUP BY: its keys, and how many sets of them it has."""

    keys: list[range]
    sets: int


def spans_of_keys(words: Cursor, parts: list[range], split: Callable[[range], list[range]]) -> list[range]:
    """Return the keys in the parts of GROUP BY, each where it stands first.

    Args:
        words: of the text.
        parts: between the commas of GROUP BY.
        split: splits a list at its commas.
    Raises:
        SqlError: something is written that has no place there, or has too many sets.
    """
    read = [_part(words, part, split, 0) for part in parts]
    if prod(part.sets for part in read) > MOST_SETS:
        raise words.refuse(f"more than {MOST_SETS} sets of keys", words.tokens[parts[0].start])
    first: dict[tuple[str, ...], range] = {}
    for span in (key for part in read for key in part.keys):
        written = tuple(t.word or t.text.casefold() for t in words.tokens[span.start : span.stop])
        first.setdefault(written, span)
    return list(first.values())


def is_grouping(words: Cursor, part: range) -> bool:
    """Whether a part of GROUP BY is ROLLUP, CUBE or GROUPING SETS, and no key."""
    first, second = words.tokens[part.start], words.tokens[part.start + 1]
    return (first.word in ("ROLLUP", "CUBE") and second.word == "(") or (
        first.word == "GROUPING" and second.word == "SETS"
    )


def sets_of(tree: Node) -> tuple[tuple[int, ...], ...]:
    """Return sets of keys, by their place among the group expressions, the largest first."""
    return tuple(sorted((tuple(one) for one in tree["group_sets"]), key=lambda one: (-len(one), one)))


def _part(words: Cursor, part: range, split: Callable[[range], list[range]], depth: int) -> _Part:
    if depth > _DEEPEST:
        raise words.refuse("this is nested too deeply", words.tokens[part.start])
    if not is_grouping(words, part):
        return _Part([part], 1)
    name = words.tokens[part.start].word
    opening = part.start + (2 if name == "GROUPING" else 1)
    if words.tokens[opening].word != "(" or words.closing[opening] != part.stop - 1:
        what = "GROUPING SETS" if name == "GROUPING" else name
        raise words.refuse(
            f"{what}: write {what} (region, town), and nothing behind it", words.tokens[opening]
        )
    inner = [_member(words, one, split, depth, name) for one in split(range(opening + 1, part.stop - 1))]
    keys = [key for one in inner for key in one.keys]
    if name == "GROUPING":
        return _Part(keys, sum(one.sets for one in inner))
    return _Part(keys, len(inner) + 1 if name == "ROLLUP" else 1 << min(len(inner), 64))


def _member(words: Cursor, one: range, split: Callable[[range], list[range]], depth: int, name: str) -> _Part:
    """Read a key, several in brackets, none in GROUPING SETS, or what is nested there."""
    bracketed = words.tokens[one.start].word == "(" and words.closing[one.start] == one.stop - 1
    if bracketed and len(one) == 2 and name == "GROUPING":
        return _Part([], 1)
    if bracketed:
        return _Part(split(range(one.start + 1, one.stop - 1)), 1)
    if name != "GROUPING" and is_grouping(words, one):
        raise words.refuse(f"inside {name} there are keys alone", words.tokens[one.start])
    return _part(words, one, split, depth + 1)
