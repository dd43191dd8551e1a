"""What is computed with released numbers: SQL on noisy and public tables alone, which costs nothing.

Each private SELECT of a text is released as keys and aggregates, and becomes a SELECT from its released table
(`writer`); here what stands around them is put together with that into one plain text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from sfumato.dataclass import dataclass
from sfumato.dialect.allowed import check_outside
from sfumato.dialect.calls import is_call
from sfumato.dialect.private_selects import Part
from sfumato.dialect.source_map import FreeNames, Pieces, place_of
from sfumato.dialect.tokens import Cursor, Place, Token, refusal
from sfumato.dialect.tree import NotSql, statements
from sfumato.dialect.vocabulary import INTERVALS
from sfumato.dialect.writer import NO_INTERVAL, Writer, no_output
from sfumato.errors import SqlError
from sfumato.query.schema import quoted

_AROUND = "in the private SELECT, where its name is given"
_NO_SELECT = "a text is one SELECT, with private SELECTs in it: other statements have no place here"


@dataclass(frozen=True)
class ReleasedTable:
    """A table that SQL computes with, in the place of a private SELECT.

    Args:
        name: what the SQL calls it.
        row: what it calls the number of a row, from 0.
        intervals: ends of error bars that it names: their columns, of which output, whether the upper end,
            and what they are called.
    """

    name: str
    row: str
    intervals: tuple[tuple[str, str, bool, str], ...]


@dataclass(frozen=True)
class Outside:
    """SQL on released tables, and on public ones.

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
        """Make an error that marks what a byte of the SQL comes from; the first word where it is below 0."""
        return refusal(self.text, place_of(self.places, max(byte, 0)), message)

    def checked(
        self,
        released: Iterable[str],
        reads: Sequence[Collection[str]],
        public: Collection[str],
        private: Collection[str],
    ) -> Outside:
        """Return it with the public tables that it reads, if nothing else is within its reach.

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
            why = _NO_SELECT if "Only SELECT" in error.why else f"this is not understood: {error.why}"
            raise self.refuse(error.at, why) from None
        except RecursionError:
            raise self.refuse(-1, "it is nested too deeply") from None
        if len(found) != 1:
            raise self.refuse(-1, "several statements: ask one at a time")
        tables = {table.name: names for table, names in zip(self.released, reads, strict=True)}
        read = check_outside(found[0], tables, columns, public, private, self.refuse)
        return replace(self, public=tuple(read))


def names_in(words: Cursor) -> FreeNames:
    """Return names that a text does not use."""
    return FreeNames(
        token.text.casefold()
        for i, token in enumerate(words.tokens)
        if token.kind not in ("sign", "number") and not is_call(words, i)
    )


def put_together(words: Cursor, parts: Sequence[Part], writers: Sequence[Writer]) -> Outside | None:
    """Return the SQL on the released tables; None where a text is a private SELECT that computes nothing.

    Args:
        words: the whole text.
        parts: where its private SELECTs stand.
        writers: what writes each.
    Raises:
        SqlError: an output's name is not clear, or there is no such interval.
    """
    alone = [(part.start, part.stop) for part in parts] == [(0, len(words.tokens) - 1)]
    if alone and not writers[0].computing:
        return None
    around = _Around(words, parts, writers)
    whole = Pieces()
    stops = [0, *(part.stop for part in parts)]
    columns = None
    for i, (part, writer) in enumerate(zip(parts, writers, strict=True)):
        around.write(range(stops[i], part.start), whole)
        hidden = [writer.row] if alone else around.hidden(writer)
        given = writer.write(hidden, whole, part.bare)
        columns = given if alone else None
    around.write(range(stops[-1], len(words.tokens) - 1), whole)
    released = [
        ReleasedTable(w.table, w.row, tuple((name, *known) for name, known in w.intervals.items()))
        for w in writers
    ]
    return Outside(whole.text, words.text, whole.places(), tuple(released), columns)


class _Around:
    """The words around private SELECTs. Error bars that they name are columns of what these give."""

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

    def hidden(self, writer: Writer) -> list[str]:
        """Return what a private SELECT gives beside its own columns."""
        return [name for name in self.columns.values() if writer in self.shown and name in writer.intervals]

    def write(self, span: range, whole: Pieces) -> None:
        """Write words; a star there does not show what was added for error bars."""
        tokens, i = self.words.tokens, span.start
        names = [name.replace("'", "''") for name in self.columns.values()]
        hidden, pattern = ", ".join(f"'{name}'" for name in names), "|".join(map(re.escape, names))
        while i < span.stop:
            if i in self.found:
                stop, qualifier, name = self.found[i]
                whole.add(qualifier + quoted(name), Place(tokens[i].start, tokens[stop - 1].stop))
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
        """Read DP_INTERVAL_LOW(name) or DP_INTERVAL_HIGH(table.name): of all private SELECTs that have it."""
        token, dotted = tokens[i], tokens[i + 3].word == "."
        at = i + 4 if dotted else i + 2
        asked = tokens[at]
        name = asked.text.casefold()
        if asked.kind not in ("word", "name") or name not in self.outputs:
            united = "" if self.shown else "; beside UNION, name error bars in each private SELECT"
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
        return at + 2, f"{quoted(tokens[i + 2].text)}." if dotted else "", self.columns[key]

    def _refuse(self, token: Token, message: str) -> SqlError:
        return refusal(self.words.text, token.place, message)
