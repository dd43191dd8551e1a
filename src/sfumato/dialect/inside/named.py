"""WITH before a private SELECT: its tables that the private SELECT reads are taken out of the text around."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sfumato.dialect.cursor import Cursor
from sfumato.dialect.inside.queries import Names, Query, Written
from sfumato.dialect.plain import NotUnderstood, PlainSelect
from sfumato.dialect.words import Token, brackets, refusal

_BEFORE = ("FROM", "JOIN", ",")


class _Table(NamedTuple):
    """A table of WITH: its name, its columns' names, its words without brackets, and all of them."""

    name: Token
    columns: tuple[str, ...]
    body: range
    span: range


def inner_tables(words: Cursor) -> tuple[Cursor, list[Names]]:
    """Return the words without the tables of WITH that are read inside of private SELECTs alone.

    Returns:
        What is left; and the tables that each private SELECT knows, in the order in which they stand.
    Raises:
        SqlError: a table that one reads is no SELECT.
    """
    tokens = words.tokens
    places = Written(words.text, lambda _: tokens[0].place)
    starts = [
        i for i in range(len(tokens) - 1) if tokens[i].word == "SELECT" and tokens[i + 1].word == "WITH"
    ]
    clauses: dict[int, list[_Table]] = {}
    inner: dict[int, _Table] = {}
    private: set[int] = set()
    known: list[Names] = []
    for start in starts:
        private |= {
            *range(start, words.closing.get(start - 1, len(tokens) - 1) if start else len(tokens) - 1)
        }
        around = list(_clauses(words, start))
        clauses |= {clause[0].span.start: clause for clause in around}
        read = _read(words, start, [one for clause in around for one in clause if not _holds(one, starts)])
        known.append(_names(words, read, places))
        inner |= {one.span.start: one for one in read}
        if around and tokens[start - 1].word == ")" and not any(start in one.body for one in around[-1]):
            inner |= {one.span.start: one for one in around[-1] if not _holds(one, starts)}
    # What stands around may read some of them too: those stay there.
    spans = sorted((one.span.start, one.span.stop) for one in inner.values())
    used = _used(words, _without([i for i in range(len(tokens)) if i not in private], spans))
    gone: list[_Table] = []
    for one in sorted(inner.values(), key=lambda one: one.span.start, reverse=True):
        if one.name.text.casefold() in used:
            used |= _used(words, one.body)
        else:
            gone.append(one)
    return _cut(words, list(clauses.values()), gone), known or [Names(places)]


def _private(words: Cursor, start: int) -> range:
    end = len(words.tokens) - 1
    return range(start, words.closing.get(start - 1, end) if start else end)


def _holds(one: _Table, starts: list[int]) -> bool:
    """Whether a table of WITH holds a private SELECT, so that it is released and nothing that one reads."""
    return any(start in one.body for start in starts)


def _read(words: Cursor, start: int, tables: list[_Table]) -> list[_Table]:
    """Return the tables of WITH that a private SELECT reads, by itself or by others, in order."""
    needed, read = _used(words, _private(words, start)), list[_Table]()
    for one in reversed([one for one in tables if one.span.start < start]):
        if one.name.text.casefold() in needed:
            read.append(one)
            needed |= _used(words, one.body)
    return read[::-1]


def _names(words: Cursor, read: list[_Table], places: Written) -> Names:
    known: dict[str, tuple[int, Query]] = {}
    around = Names(places)
    for i, one in enumerate(read):
        known[one.name.text.casefold()] = i, _query(words, one, Names(places, around, known, i))
    return Names(places, None, known, len(read))


def _clauses(words: Cursor, start: int) -> Iterable[list[_Table]]:
    """Yield the tables of each WITH that stands before, or around, a private SELECT; the outermost first."""
    tokens, i = words.tokens, 0
    while i < start:
        close = words.closing.get(i)
        if close is not None and close < start:
            i = close + 1
            continue
        if tokens[i].word == "WITH" and (not i or tokens[i - 1].word == "("):
            found, i = _tables(words, i + 1, start)
            if found:
                yield found
            continue
        i += 1


def _tables(words: Cursor, i: int, start: int) -> tuple[list[_Table], int]:
    """Return the tables behind WITH, and where to look on: in the body that the private SELECT stands in."""
    tokens, found = words.tokens, list[_Table]()
    last = i
    while i < len(tokens) - 1 and tokens[i].kind in ("word", "name") and tokens[i].word != "RECURSIVE":
        first, name = i, tokens[i]
        columns: tuple[str, ...] = ()
        i += 1
        if tokens[i].word == "(":
            columns = tuple(one.text for one in tokens[i + 1 : words.closing[i]] if one.word != ",")
            i = words.closing[i] + 1
        if tokens[i].word != "AS":
            break
        i += 1
        while tokens[i].word in ("NOT", "MATERIALIZED"):
            i += 1
        if i not in words.closing or tokens[i].word != "(":
            break
        close = words.closing[i]
        found.append(_Table(name, columns, range(i + 1, close), range(first, close + 1)))
        if i < start < close:
            return found, i + 1
        i = last = close + 1
        if tokens[i].word != ",":
            break
        i += 1
    return found, max(last, i)


def _used(words: Cursor, span: Iterable[int]) -> set[str]:
    """Return the names that stand where tables are named, in lower case."""
    tokens = words.tokens
    return {
        tokens[i].text.casefold()
        for i in span
        if i and tokens[i].kind in ("word", "name") and tokens[i - 1].word in _BEFORE
    }


def _without(indices: list[int], spans: list[tuple[int, int]]) -> list[int]:
    kept: list[int] = []
    at = 0
    for i in indices:
        while at < len(spans) and spans[at][1] <= i:
            at += 1
        if at == len(spans) or i < spans[at][0]:
            kept.append(i)
    return kept


def _query(words: Cursor, one: _Table, names: Names) -> Query:
    plain = PlainSelect(words.part(one.body.start, one.body.stop), [], [])
    written = Written(words.text, plain.place)
    try:
        tree = plain.tree()
    except NotUnderstood as error:
        place = one.name.place if error.at is None else words.tokens[one.body.start + error.at].place
        raise refusal(words.text, place, f"not understood: {error.why}") from None
    here = Names(written, names.around, names.known, names.most)
    return Query(one.name.text, tree, here, one.columns)


def _cut(words: Cursor, clauses: list[list[_Table]], gone: list[_Table]) -> Cursor:
    """Return the words without some tables of WITH, and without a WITH of which none is left."""
    out: set[int] = set()
    for clause in clauses:
        left = [one for one in clause if not any(one is other for other in gone)]
        for one in clause:
            if one not in left:
                out |= {
                    *one.span,
                    one.span.stop if words.tokens[one.span.stop].word == "," else one.span.start,
                }
        if not left:
            out.add(clause[0].span.start - 1)
        elif left[-1] is not clause[-1] and words.tokens[left[-1].span.stop].word == ",":
            out.add(left[-1].span.stop)
    if not out:
        return words
    new = object.__new__(Cursor)
    new.text, new.at = words.text, 0
    new.tokens = [token for i, token in enumerate(words.tokens) if i not in out]
    new.closing = brackets(new.text, new.tokens)
    return new
