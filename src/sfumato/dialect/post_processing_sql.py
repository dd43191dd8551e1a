"""Post-processing in SQL: the query around private SELECTs, on released and public tables alone.

Each private SELECT is released as keys and aggregates, and becomes a SELECT from its released table
(`released_sql`). This module joins these SELECTs and the enclosing query into one plain text, and checks that
text with an allow-list over DuckDB's syntax tree: it refuses nodes, tables and functions that are not known.
Nothing private is within reach there. The list keeps files, settings, the clock and other tables out too, so
that the answer follows from the noisy numbers, public tables and the text alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from sfumato.dataclass import dataclass
from sfumato.dialect.aggregate_calls import is_call
from sfumato.dialect.keywords import INTERVALS, refusals
from sfumato.dialect.overloads import functions
from sfumato.dialect.private_selects import Part
from sfumato.dialect.released_sql import NO_INTERVAL, FreeNames, Pieces, Writer, locate_byte, no_output
from sfumato.dialect.sql_tokens import Cursor, Place, Token, refusal
from sfumato.dialect.syntax_tree import Node, NotSql, get_byte_offset, in_scope, statements
from sfumato.errors import SqlError, nearest
from sfumato.query.schema import quote_name

_AROUND = "in the private SELECT, where its name is given"
_NO_SELECT = "only a SELECT with private SELECTs in it can be run"


_EXPRESSIONS = (
    "BETWEEN CASE CAST COLLATE COLUMN_REF COMPARISON CONJUNCTION CONSTANT FUNCTION LAMBDA OPERATOR "
    "POSITIONAL_REFERENCE STAR SUBQUERY TYPE WINDOW"
)
_NODES = (
    "SELECT_NODE SET_OPERATION_NODE BASE_TABLE SUBQUERY JOIN EMPTY EXPRESSION_LIST DISTINCT_MODIFIER "
    "LIMIT_MODIFIER LIMIT_PERCENT_MODIFIER ORDER_MODIFIER ORDER_DEFAULT ASCENDING DESCENDING"
)
_WITHIN = "outside the private SELECT only public tables and names of WITH can be read"
_HIDDEN = (
    "{0} is a name of WITH, which hides the table {0} that this private SELECT reads. Give that name "
    "of WITH another name"
)
_DECLARED = (
    "Declare a public table with public = true in a catalog, tables={...: sf.public(...)} or "
    "--public NAME=PATH"
)
_VALUES = (
    "current_catalog current_date current_role current_schema current_time current_timestamp current_user "
    "localtime localtimestamp session_user user"
)
_KNOWN_EXPRESSIONS, _KNOWN_NODES, _KNOWN_VALUES = (
    frozenset(words.split(" ")) for words in (_EXPRESSIONS, _NODES, _VALUES)
)


@dataclass(frozen=True)
class _Known:
    """The names that post-processing SQL may use: released tables, their columns and public tables."""

    released: Mapping[str, Collection[str]]
    columns: Collection[str]
    public: Mapping[str, Sequence[str]]
    private: Collection[str]


def check_allowed(
    tree: Node,
    released: Mapping[str, Collection[str]],
    columns: Collection[str],
    public: Iterable[str],
    private: Iterable[str],
    refuse: Callable[[int, str], SqlError],
) -> list[str]:
    """Refuse post-processing SQL with tables, functions or nodes that are not on the allow-list.

    Args:
        tree: DuckDB's, of the whole text.
        released: of each released table the names of what its private SELECT reads.
        columns: their columns, in lower case.
        public, private: names of other tables.
        refuse: makes an error from a byte of the text, or -1, and a message.
    Returns:
        The public tables that it reads.
    """
    by_name: dict[str, list[str]] = {}
    for name in public:
        by_name.setdefault(name.casefold(), []).append(name)
    known = _Known(released, columns, by_name, {name.casefold() for name in private})
    read: dict[str, None] = {}
    for node, scope in in_scope(tree):
        message = _message(node, known, scope, read)
        if message:
            raise refuse(get_byte_offset(node), message)
    return list(read)


def _message(node: Node, known: _Known, scope: Counter[str], read: dict[str, None]) -> str:
    """Return why post-processing may not have this node; "" if it may."""
    kind, named = node.get("class"), node.get("type")
    if node.get("sample"):
        return "TABLESAMPLE and USING SAMPLE are not supported, as a sample is random. Write WHERE or LIMIT"
    if kind is None and (not isinstance(named, str) or named.endswith("_TYPE_INFO")):
        return ""
    if (kind is None and named not in _KNOWN_NODES) or (kind is not None and kind not in _KNOWN_EXPRESSIONS):
        return refusals("around").get(
            str(kind or named), f"{kind or named} cannot be used outside the private SELECT"
        )
    if kind in ("FUNCTION", "WINDOW"):
        name = node["function_name"].lower()
        if node.get("schema") or node.get("catalog") or name not in functions().enclosing:
            return (
                f"{node['function_name']} cannot be used outside the private SELECT. Only functions "
                "whose results depend on the noisy numbers alone can"
            )
    if kind == "COLUMN_REF" and len(node["column_names"]) == 1:
        (name,) = node["column_names"]
        if name.casefold() in _KNOWN_VALUES and name.casefold() not in known.columns:
            return f"{name}: write the value itself"
    if kind is None and named == "BASE_TABLE":
        return _refuse_table(node, known, scope, read)
    return ""


def _refuse_table(node: Node, known: _Known, scope: Counter[str], read: dict[str, None]) -> str:
    """Return why post-processing may not read this table; note a public table that it reads."""
    path = node["qualified_name"]["path"]
    name = ".".join(path)
    folded = name.casefold()
    if node.get("at_clause"):
        return f"{name}: AT is not supported"
    if len(path) == 1 and name in known.released:
        hidden = [one for one in known.released[name] if scope[one.casefold()] > 0]
        return _HIDDEN.format(hidden[0]) if hidden else ""
    if len(path) == 1 and scope[folded] > 0:
        return ""
    if folded in known.private or (len(path) > 1 and path[-1].casefold() in known.private):
        return f"{name} is a private table: {_WITHIN}"
    # DuckDB takes names for equal that differ by the case of ASCII.
    public = known.public.get(folded, ())
    if len(path) == 1 and (name in public or (len(public) == 1 and (name + public[0]).isascii())):
        if len(public) > 1:
            return f"{name}: two public tables have names that differ only in case. Rename one"
        read[public[0]] = None
        return ""
    if name in known.public.get(folded, ()):
        return f'{name}: write the name of a public table in quotes, "{name}"'
    near = nearest(name, [one for names in known.public.values() for one in names])
    return f"{name} is another table: {_WITHIN}. {f'Did you mean {near}?' if near else _DECLARED}"


@dataclass(frozen=True)
class ReleasedTable:
    """A released table that stands in post-processing SQL for a private SELECT.

    Args:
        name: what the SQL calls it.
        row: what it calls the number of a row, from 0.
        intervals: ends of error bars that it names: their columns, of which output, whether the upper end,
            and what they are called.
        unnamed: columns that the text cannot name.
    """

    name: str
    row: str
    intervals: tuple[tuple[str, str, bool, str], ...]
    unnamed: tuple[str, ...]


@dataclass(frozen=True)
class PostProcessing:
    """Post-processing SQL: one SELECT from released tables and public ones.

    Args:
        sql: one SELECT, as DuckDB has it.
        text: what it was made of.
        places: where in `text` its bytes come from.
        released: the tables of the private SELECTs, in the order of the text.
        columns: what it gives, and which released column each is as it is; None where that is not followed.
        public: names of public tables that it reads.
    """

    sql: str
    text: str
    places: tuple[tuple[int, ...], tuple[Place, ...]]
    released: tuple[ReleasedTable, ...]
    columns: tuple[tuple[str, str | None], ...] | None
    public: tuple[str, ...] = ()

    def refuse(self, byte: int, message: str) -> SqlError:
        """Make a SqlError that marks where in the text a byte of the post-processing SQL comes from."""
        return refusal(self.text, locate_byte(self.places, max(byte, 0)), message)

    def check(
        self,
        released: Iterable[str],
        reads: Sequence[Collection[str]],
        public: Collection[str],
        private: Collection[str],
    ) -> PostProcessing:
        """Return the post-processing with the public tables that it reads, if it reads nothing private.

        Args:
            released: the columns of the released tables.
            reads: of each private SELECT the names of the tables that it reads.
            public, private: names of tables.
        Raises:
            SqlError: it is no SQL, or reads something else.
        """
        columns = {name.casefold() for name in released}
        columns |= {name for table in self.released for name, *_ in table.intervals}
        try:
            found = statements(self.sql)
        except NotSql as error:
            why = _NO_SELECT if "Only SELECT" in error.why else f"this cannot be parsed: {error.why}"
            raise self.refuse(error.at, why) from None
        except RecursionError:
            raise self.refuse(-1, "it is nested too deeply") from None
        if len(found) != 1:
            raise self.refuse(-1, "there are several statements. Run one at a time")
        tables = {table.name: names for table, names in zip(self.released, reads, strict=True)}
        read = check_allowed(found[0], tables, columns, public, private, self.refuse)
        return replace(self, public=tuple(read))


def unused_names(words: Cursor) -> FreeNames:
    """Return the names that post-processing may use for itself: those that the text does not use."""
    return FreeNames(
        token.text.casefold()
        for i, token in enumerate(words.tokens)
        if token.kind not in ("sign", "number") and not is_call(words, i)
    )


def enclosing_sql(words: Cursor, parts: Sequence[Part], writers: Sequence[Writer]) -> PostProcessing | None:
    """Return the post-processing SQL around private SELECTs; None where there is none.

    Args:
        words: the tokens of the whole text.
        parts: where its private SELECTs stand.
        writers: what writes each.
    Raises:
        SqlError: an output's name is not clear, or there is no such interval.
    """
    alone = [(part.start, part.stop) for part in parts] == [(0, len(words.tokens) - 1)]
    if alone and not writers[0].computing:
        return None
    around = _EnclosingQuery(words, parts, writers)
    whole = Pieces()
    stops = [0, *(part.stop for part in parts)]
    given: tuple[tuple[str, str | None], ...] = ()
    for i, (part, writer) in enumerate(zip(parts, writers, strict=True)):
        around.write(range(stops[i], part.start), whole)
        hidden = [writer.row] if alone else around.hidden(writer)
        given = writer.write(hidden, whole, part.bare)
    around.write(range(stops[-1], len(words.tokens) - 1), whole)
    columns = given if alone else around.followed(given)
    released = [
        ReleasedTable(w.table, w.row, tuple((name, *known) for name, known in w.intervals.items()), w.unnamed)
        for w in writers
    ]
    return PostProcessing(whole.text, words.text, whole.places(), tuple(released), columns)


_BEHIND = ("WHERE", "QUALIFY", "ORDER", "LIMIT", "OFFSET", "FETCH", "")
_OTHER_ROWS = ("GROUP", "HAVING", "WINDOW", "UNION", "EXCEPT", "INTERSECT")
_OTHER_TABLES = ("SELECT", "FROM", "COLUMNS")


@dataclass(frozen=True)
class _RowByRow:
    """An enclosing query each of whose rows is computed from one row of the only private SELECT.

    Args:
        entries: where the tokens of each entry of its SELECT list stand.
        stop: the FROM behind them.
        names: what it calls the private SELECT, in lower case.
    """

    entries: tuple[range, ...]
    stop: int
    names: tuple[str, ...]


def _row_by_row(words: Cursor, parts: Sequence[Part]) -> _RowByRow | None:
    """Return the enclosing query if each of its rows is computed from one released row; else None."""
    tokens, part, end = words.tokens, parts[0], len(words.tokens) - 1
    if len(parts) > 1 or not part.shown:
        return None
    named = [token.word for token in tokens[: part.start]][::2] == ["WITH", "AS"] and part.start == 4
    start = part.stop + 2 if named else 1
    at, top = start, list[int]()
    while at < end:
        top.append(at)
        at = words.closing.get(at, at) + 1
    stop = next((i for i in top if tokens[i].word == "FROM"), end)
    source = tokens[1].text.casefold() == tokens[min(stop + 1, end)].text.casefold() if named else None
    if tokens[start - 1].word != "SELECT" or not (source if named else stop + 2 == part.start):
        return None
    behind = stop + 2 if named else part.stop + 1
    names = [tokens[1].text.casefold()] if named else []
    if tokens[behind].word not in _BEHIND or tokens[behind].kind == "name":
        behind += tokens[behind].word == "AS"
        names = [tokens[behind].text.casefold()]
        behind += 1
    commas = [i for i in top if i < stop and tokens[i].word == ","]
    entries = [range(a, b) for a, b in zip([start, *(i + 1 for i in commas)], [*commas, stop], strict=True)]
    own = {entry.stop - 1 for entry in entries}
    rest = [*range(start, stop), *range(min(behind, end), end)]
    if (
        tokens[start].word in ("DISTINCT", "ALL")
        or tokens[min(behind, end)].word not in _BEHIND
        or any(tokens[i].word in _OTHER_ROWS for i in top)
        or any(_mixes_rows(words, i, names, own) for i in rest)
    ):
        return None
    return _RowByRow(tuple(entries), stop, tuple(names))


def _mixes_rows(words: Cursor, i: int, names: Collection[str], own: Collection[int]) -> bool:
    """Whether a token of an enclosing query may compute with several rows, or with all columns of one."""
    token, before, after = words.tokens[i], words.tokens[i - 1].word, words.tokens[i + 1].word
    name, known = token.text.casefold(), functions()
    called = after == "(" and name in known.enclosing
    star = token.word == "*" and before in ("SELECT", "(", ",", ".") and i not in own
    whole = name in names and after != "." and token.kind in ("word", "name")
    return token.word in _OTHER_TABLES or star or whole or (called and not known.known.get(name))


class _EnclosingQuery:
    """The enclosing query of private SELECTs, with columns for the error bars that it names."""

    def __init__(self, words: Cursor, parts: Sequence[Part], writers: Sequence[Writer]) -> None:
        self.words = words
        self.shown = [writer for part, writer in zip(parts, writers, strict=True) if part.shown]
        self.outputs = {name: output for writer in self.shown for name, output in writer.entries.items()}
        self.columns: dict[tuple[str, bool], str] = {}
        self.found: dict[int, tuple[int, str, str]] = {}  # by the word: the word behind, qualifier, column
        starts = [0, *(part.stop for part in parts)]
        for start, stop in zip(starts, [*(p.start for p in parts), len(words.tokens) - 1], strict=True):
            for i in range(start, stop):
                if words.tokens[i].word in INTERVALS and is_call(words, i):
                    self.found[i] = self._interval(words.tokens, i)
        self.rows = _row_by_row(words, parts)

    def hidden(self, writer: Writer) -> list[str]:
        """Return the columns of error bars and row numbers that a private SELECT passes on."""
        row = [] if self.rows is None else [writer.row]
        return row + [n for n in self.columns.values() if writer in self.shown and n in writer.intervals]

    def followed(self, given: Sequence[tuple[str, str | None]]) -> tuple[tuple[str, str | None], ...] | None:
        """Return the enclosing query's columns, and the released ones with their error bars.

        Args:
            given: those of the private SELECT.
        Returns:
            None where rows are not each computed from one released row.
        """
        if self.rows is None:
            return None
        known = {name.casefold(): released for name, released in given}
        found: list[tuple[str, str | None]] = []
        for entry in self.rows.entries:
            tokens = self.words.tokens[entry.start : entry.stop]
            if tokens[-1].word == "*":
                found += given
                continue
            value = _value(tokens, self.rows.names)
            name = value[0].text.casefold() if len(value) == 1 and value[0].kind in ("word", "name") else ""
            called = "column" if tokens[-1] in value else tokens[-1].text
            released = known[name] if name in known else self.shown[0].formula(value, called)
            found.append((tokens[-1].text, released))
        return tuple(found)

    def write(self, span: range, whole: Pieces) -> None:
        """Write tokens of the enclosing query; its stars do not show the columns of error bars."""
        tokens, i = self.words.tokens, span.start
        row = [] if self.rows is None else [self.shown[0].row]
        names = [name.replace("'", "''") for name in (*row, *self.columns.values())]
        hidden, pattern = ", ".join(f"'{name}'" for name in names), "|".join(map(re.escape, names))
        while i < span.stop:
            if self.rows is not None and i == self.rows.stop:
                whole.add(f", {quote_name(*row)}", tokens[i].place, gap=False)
            if i in self.found:
                stop, qualifier, name = self.found[i]
                whole.add(qualifier + quote_name(name), Place(tokens[i].start, tokens[stop - 1].stop))
                i = stop
                continue
            before = tokens[i - 1].word if i else ""
            if hidden and tokens[i].word == "*" and before in ("SELECT", "DISTINCT", "ALL", ","):
                whole.add(f"COLUMNS(lambda c: c NOT IN ({hidden}))", tokens[i].place)
            elif hidden and tokens[i].word == "*" and before == ".":
                whole.add(f"* NOT SIMILAR TO '{pattern}'", tokens[i].place, gap=False)
            else:
                whole.word(self.words.text, tokens, i)
            i += 1

    def _interval(self, tokens: Sequence[Token], i: int) -> tuple[int, str, str]:
        """Parse DP_INTERVAL_LOW(name) or DP_INTERVAL_HIGH(table.name) in the enclosing query."""
        token, dotted = tokens[i], tokens[i + 3].word == "."
        at = i + 4 if dotted else i + 2
        asked = tokens[at]
        name = asked.text.casefold()
        if asked.kind not in ("word", "name") or name not in self.outputs:
            united = "" if self.shown else ". With UNION, name error bars in each private SELECT"
            raise self._refuse(asked, no_output(token, asked, self.outputs) + united)
        if tokens[at + 1].word != ")":
            raise self._refuse(token, NO_INTERVAL.format(token.word, _AROUND))
        key = name, token.word == INTERVALS[1]
        having = [writer for writer in self.shown if name in writer.entries]
        if key not in self.columns:
            self.columns[key] = having[0].free.fresh(f"{token.text.lower()}_{self.outputs[name]}")
        for writer in having:
            writer.intervals[self.columns[key]] = (
                writer.combined(token, [asked], 0)[1],
                key[1],
                self.outputs[name],
            )
        return at + 2, f"{quote_name(tokens[i + 2].text)}." if dotted else "", self.columns[key]

    def _refuse(self, token: Token, message: str) -> SqlError:
        return refusal(self.words.text, token.place, message)


def _value(tokens: Sequence[Token], names: Collection[str]) -> list[Token]:
    """Return the tokens of an entry of the enclosing query without its alias and the names of its table."""
    if len(tokens) > 1 and tokens[-1].kind in ("word", "name"):
        before = tokens[-2]
        if before.word == "AS":
            tokens = tokens[:-2]
        elif before.word == ")" or before.kind in ("word", "name", "number"):
            tokens = tokens[:-1]
    dots = {i for i, t in enumerate(tokens) if t.word == "." and tokens[i - 1].text.casefold() in names}
    return [token for i, token in enumerate(tokens) if not {i, i + 1} & dots]
