"""Find the private SELECTs in a text and the WITH tables that they read; cut out their private syntax."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

import duckdb

from sfumato.dataclass import dataclass
from sfumato.dialect.from_clause import CommonTables, Query, Written
from sfumato.dialect.sql_tokens import Cursor, Place, Token, refusal, with_slip
from sfumato.dialect.syntax_tree import Node, NotSql, statements

SET_OPERATORS = ("UNION", "EXCEPT", "INTERSECT")
_SET_WORDS = (*SET_OPERATORS, "ALL", "DISTINCT", "BY", "NAME")
_CUTS = ("LIMIT", "OFFSET", "FETCH")
_MAX_SELECTS = 50
_ALONE = (
    "a private SELECT must be in FROM, in WITH or beside UNION. Write ... FROM (SELECT WITH ...), or "
    "WITH t AS (SELECT WITH ...) SELECT ... FROM t"
)


_NEAR = 40  # characters before, and words behind, in which what is wrong may stand
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


class NotUnderstood(Exception):
    """DuckDB's parser refuses a SELECT: why, and the index of the token at which, or None."""

    def __init__(self, why: str, at: int | None) -> None:
        super().__init__(why)
        self.why = why
        self.at = at


class PlainSelect:
    """A private SELECT without its private syntax: the tokens that are left, as plain SQL.

    Args:
        words: all tokens.
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
        """Return DuckDB's syntax tree of the plain SELECT that is left.

        Raises:
            NotUnderstood: it is not one query, or nested too deep.
        """
        try:
            found = statements("".join(self._pieces) + " ;")
        except NotSql as error:
            if error.why.startswith("Only SELECT"):  # which it says of PIVOT too
                raise NotUnderstood("only SELECT is supported. In place of PIVOT write CASE", None) from None
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
            raise NotUnderstood("there is no statement. Write a SELECT", None)
        if len(found) > 1:
            raise NotUnderstood("there are several statements. Run one at a time", None)
        return found[0]

    def place(self, byte: int) -> Place:
        """Return the place in the text of the token that a byte of the plain SELECT belongs to."""
        at = max(0, bisect_right(self._starts, byte) - 1)
        return self._words.tokens[self._indices[at]].place

    def before(self, index: int) -> str:
        """Return the plain SELECT up to a token."""
        return "".join(self._pieces[: bisect_left(self._indices, index)])


def is_query(text: str) -> bool:
    """Whether DuckDB parses a text as one query."""
    try:
        return len(statements(text)) == 1
    except (NotSql, RecursionError, duckdb.Error):
        return False


def select_list(text: str) -> Node:
    """Return DuckDB's syntax tree of one expression out of a private SELECT."""
    ((node,),) = (tree["select_list"] for tree in statements(f"SELECT (\n{text}\n)"))
    return node  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Part:
    """The first and last token of a private SELECT in a text, and whether UNION is beside it.

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
                "there is no private SELECT. Write WITH t AS (SELECT WITH DIFFERENTIAL_PRIVACY "
                "OPTIONS (...) ...) SELECT ... FROM t",
                tokens[0],
            )
        return [Part(0, len(tokens) - 1)]
    if len(found) > _MAX_SELECTS:
        raise words.refuse(f"at most {_MAX_SELECTS} private SELECTs in a text", tokens[found[_MAX_SELECTS]])
    parts: list[Part] = []
    for start in found:
        if parts and start < parts[-1].stop:
            raise words.refuse(
                "a private SELECT cannot stand inside another one. Compute with its result outside: "
                "SELECT ... FROM (SELECT WITH ...)",
                tokens[start],
            )
        parts.append(_part(words, start))
    return parts


def private_starts(words: Cursor) -> list[int]:
    """Return the tokens at which private SELECTs begin: SELECT WITH."""
    tokens = words.tokens
    return [
        i
        for i in range(len(tokens) - 1)
        if tokens[i].word == "SELECT"
        and tokens[i + 1].word == "WITH"
        and not (i and tokens[i - 1].word == ".")
    ]


def find_end(words: Cursor, start: int) -> tuple[int, bool]:
    """Return where a private SELECT ends, and whether it stands beside UNION without brackets."""
    tokens, stop = words.tokens, start
    while stop < len(tokens) - 1 and tokens[stop].word not in (")", "]", "}", *SET_OPERATORS):
        stop = words.closing.get(stop, stop) + 1
        while tokens[stop].word in SET_OPERATORS and tokens[stop - 1].word in (".", "AS"):
            stop += 1  # a name
    bare = (start > 0 and tokens[start - 1].word in _SET_WORDS) or tokens[stop].word in SET_OPERATORS
    # What comes behind the last of several is about all of them.
    return (_before_order(words, start, stop) if bare else stop), bare


def _part(words: Cursor, start: int) -> Part:
    """Return where one private SELECT stands; refuse a place where no table can be."""
    tokens, before = words.tokens, words.tokens[start - 1].word if start else ""
    behind = before in _SET_WORDS
    if start and before != "(" and not behind and not _follows_released(words, start):
        raise words.refuse(_ALONE, tokens[start])
    stop, bare = find_end(words, start)
    if bare:
        return Part(start, stop, bare=True)
    united = start >= 2 and tokens[start - 2].word in _SET_WORDS
    united |= tokens[min(stop + 1, len(tokens) - 1)].word in SET_OPERATORS
    return Part(start, stop, shown=before == "(" and not united)


def _before_order(words: Cursor, start: int, stop: int) -> int:
    """Return where the ORDER BY or LIMIT behind several united private SELECTs begins."""
    tokens, i = words.tokens, start
    while i < stop:
        if tokens[i].word == "ORDER" and tokens[i + 1].word == "BY":
            return i
        if tokens[i].word in _CUTS and tokens[i - 1].word not in (".", "AS"):
            return i
        i = words.closing.get(i, i) + 1
    return stop


def _follows_released(words: Cursor, start: int) -> bool:
    """Whether all WITH tables before a private SELECT are private SELECTs themselves."""
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


_BEFORE = ("FROM", "JOIN", "TABLE", ":")  # FROM t : table
_LISTS = ("FROM", "SELECT", "BY", "VALUES")


class _Table(NamedTuple):
    """A WITH table in the text around private SELECTs, and where its tokens stand."""

    name: Token
    columns: tuple[str, ...]
    body: range
    span: range


def inner_tables(words: Cursor) -> tuple[Cursor, list[CommonTables]]:
    """Return the text without the WITH tables that only private SELECTs read.

    Returns:
        What is left; and the tables that each private SELECT knows, in order.
    Raises:
        SqlError: a table that one reads is no SELECT.
    """
    tokens = words.tokens
    places = Written(words.text, lambda _: tokens[0].place)
    starts = private_starts(words)
    if not starts:
        return words, [CommonTables(places)]
    spans = [range(start, find_end(words, start)[0]) for start in starts]
    named = _named(words)
    clauses: dict[int, list[_Table]] = {}
    inner: dict[int, _Table] = {}
    names = []
    for start, private in zip(starts, spans, strict=True):
        around = list(_clauses(words, start))
        clauses |= {clause[0].span.start: clause for clause in around}
        for clause in around:
            _check_names(words, clause)
        # Those that hold a private SELECT are released tables, and stand around.
        seen = [one for clause in around for one in clause if one.span.start < start]
        seen = [one for one in seen if not any(other in one.body for other in starts)]
        read = _read(named, private, seen)
        names.append(_names(words, places, read))
        # What stands around may read some of them too: those stay there.
        alone = around and not any(start in one.body for one in around[-1]) and tokens[start - 1].word == ")"
        inner |= {one.span.start: one for one in (around[-1] if alone else read) if one in seen}
    covered = {i for span in spans for i in span}
    outer = [i for i in range(len(tokens)) if i not in covered]
    used = _used(named, _without(outer, sorted((one.span.start, one.span.stop) for one in inner.values())))
    gone: set[int] = set()
    for at, one in sorted(inner.items(), reverse=True):
        if one.name.text.casefold() in used:
            used |= _used(named, one.body)
        else:
            gone.add(at)
    return _cut(words, list(clauses.values()), gone), names


def _check_names(words: Cursor, clause: list[_Table]) -> None:
    """Refuse a WITH clause that names two tables alike."""
    seen: set[str] = set()
    for one in clause:
        if one.name.text.casefold() in seen:
            message = f"two tables of WITH have the name {one.name.text} (case does not matter)"
            raise refusal(words.text, one.name.place, f"{message}; rename one")
        seen.add(one.name.text.casefold())


def _read(named: dict[int, str], private: range, seen: list[_Table]) -> list[_Table]:
    """Return the WITH tables that a private SELECT reads, directly or through others."""
    needed, read = _used(named, private), list[_Table]()
    for one in reversed(seen):
        if one.name.text.casefold() in needed:
            read.insert(0, one)
            needed |= _used(named, one.body)
    return read


def _names(words: Cursor, places: Written, read: list[_Table]) -> CommonTables:
    """Return the WITH tables that a private SELECT reads, parsed, for its FROM clause."""
    known: dict[str, tuple[int, Query]] = {}
    around = CommonTables(places)
    for i, one in enumerate(read):
        known[one.name.text.casefold()] = i, _query(words, one, CommonTables(places, around, known, i))
    return CommonTables(places, None, known, len(read))


def _clauses(words: Cursor, start: int) -> Iterable[list[_Table]]:
    """Yield the tables of each WITH clause before or around a private SELECT, outermost first."""
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
    """Return the tables of a WITH clause, and the token at which the search for private SELECTs goes on."""
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


def _named(words: Cursor) -> dict[int, str]:
    """Return the tokens that name tables in FROM, JOIN or TABLE, and these names in lower case."""
    found: dict[int, str] = {}
    lists, here = [""], False  # what each open bracket lists; and whether a table may come next
    for i, token in enumerate(words.tokens):
        if here and token.kind in ("word", "name", "text"):
            found[i] = token.text.casefold()
        if token.word == "(":
            lists.append("")
            continue  # FROM ((table))
        if token.word == ")":
            lists.pop()
        elif token.word in _LISTS:
            lists[-1] = token.word
        here = token.word in _BEFORE or (token.word == "," and lists[-1] == "FROM")
    return found


def _used(named: dict[int, str], span: Iterable[int]) -> set[str]:
    return {named[i] for i in span if i in named}


def _without(indices: list[int], spans: list[tuple[int, int]]) -> list[int]:
    kept: list[int] = []
    at = 0
    for i in indices:
        while at < len(spans) and spans[at][1] <= i:
            at += 1
        if at == len(spans) or i < spans[at][0]:
            kept.append(i)
    return kept


def _query(words: Cursor, one: _Table, names: CommonTables) -> Query:
    """Return a WITH table of a private SELECT as a parsed query."""
    plain = PlainSelect(words.part(one.body.start, one.body.stop), [], [])
    written = Written(words.text, plain.place)
    try:
        tree = plain.tree()
    except NotUnderstood as error:
        place = one.name.place if error.at is None else words.tokens[one.body.start + error.at].place
        raise refusal(words.text, place, f"not understood: {error.why}") from None
    here = CommonTables(written, names.enclosing, names.known, names.most)
    return Query(one.name.text, tree, here, one.columns)


def _cut(words: Cursor, clauses: list[list[_Table]], gone: set[int]) -> Cursor:
    """Return the text's tokens without some WITH tables, and without a WITH that has none left."""
    out: list[range] = []
    for clause in clauses:
        left = [one for one in clause if one.span.start not in gone]
        for one in clause:
            if one.span.start in gone:
                comma = words.tokens[one.span.stop].word == ","
                out.append(range(one.span.start, one.span.stop + comma))
        if not left:
            out.append(range(clause[0].span.start - 1, clause[0].span.start))
        elif left[-1] is not clause[-1] and words.tokens[left[-1].span.stop].word == ",":
            out.append(range(left[-1].span.stop, left[-1].span.stop + 1))
    return words.without(out) if out else words
