"""SQL on released and public tables, run on a database of its own: no file, no setting, nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from sfumato.catalogs.declarations import MOST_GROUPS
from sfumato.dataclass import dataclass
from sfumato.dialect.post_processing import Outside, ReleasedTable
from sfumato.dialect.public_groups import PublicGroups
from sfumato.engines.duckdb.closed import Given, computed, empty, no_rows_of, rows_of
from sfumato.engines.duckdb.resources import Resources
from sfumato.engines.duckdb.text import identifier
from sfumato.errors import SqlError, in_own_words
from sfumato.query.bars import Bars
from sfumato.query.canonical_form import plain
from sfumato.query.largest_groups import Top
from sfumato.query.noisy.top_measurement import RANK, TopMeasurement
from sfumato.query.plans.plan import Plan
from sfumato.query.released.processed_release import with_intervals
from sfumato.query.released.release import Release
from sfumato.query.released.top_release import TopRelease
from sfumato.query.schema import Schema
from sfumato.query.tables.public_table import PublicTable


@dataclass(frozen=True)
class ReleasedColumns:
    """The columns of a released table.

    Args:
        keys: what tells its rows apart, with SQL types.
        numbers: outputs, with their types and those of their error bars.
    """

    keys: dict[str, str]
    numbers: dict[str, tuple[pa.DataType, pa.DataType]]


class OutsideSql:
    """What a text computes with released tables.

    Args:
        outside: the SQL.
        planned: of each released table its columns, and the error bars that the SQL names.
        public: the public tables that it reads, by name.
        resources: what DuckDB may take of the machine.
    Raises:
        SqlError: it does not fit the types of what is released.
    """

    def __init__(
        self,
        outside: Outside,
        planned: Sequence[tuple[ReleasedColumns, Bars]],
        public: Mapping[str, PublicTable],
        resources: Resources,
    ) -> None:
        self.outside = outside
        self.public = public
        self.resources = resources
        self.bars: list[Bars] = [bars for _, bars in planned]
        self.columns: tuple[tuple[str, str | None], ...] | None = outside.columns
        self.files: tuple[str, ...] = tuple(file for table in public.values() for file in table._engine.files)
        self._empty = {
            table.name: _empty(columns, table)
            for table, (columns, _) in zip(outside.released, planned, strict=True)
        }
        self.text: str = " ".join(outside.sql.split())
        tables = {name: Given(table, {}) for name, table in self._empty.items()}
        tables |= {name: no_rows_of(table) for name, table in public.items()}
        with in_own_words(self._refused, duckdb.Error):
            self.schema: Any = self._named(computed(outside.sql, tables, resources)).schema
        rows, seen = {table.row for table in outside.released}, set[str]()
        for name in self.schema.names:
            if name.casefold() in seen and name not in rows:
                raise outside.refuse(
                    -1, f"the output name {name} is used twice; give each column its own: ... AS name"
                )
            seen.add(name.casefold())

    def content(self) -> dict[str, Any]:
        """Return what is computed, as plain data: SQL, error bars that it names, its public tables."""
        named = zip(self.outside.released, self.bars, strict=True)
        ends = [
            [one.name, bars.confidence, plain(one.intervals), *(["sampling"] if bars.sampling else [])]
            for one, bars in named
            if one.intervals
        ]
        public = {name: table._engine.content(table._steps) for name, table in self.public.items()}
        return {"sql": self.outside.sql, "error_bars": ends, "public": public}

    def run(self, released: Sequence[Release | TopRelease]) -> tuple[pa.Table, pa.Array | None]:
        """Return what it gives, and which row of the released table each row is, where that is followed.

        Public tables are read first, so that no budget is spent where they cannot be.
        """
        tables = {name: rows_of(table) for name, table in self.public.items()}
        named = zip(self.outside.released, released, self.bars, strict=True)
        for table, release, bars in named:
            rows = with_intervals(release, table.intervals, bars, table.row)
            tables[table.name] = Given(rows, {})
        with in_own_words(self._failed, duckdb.Error):
            found = computed(self.outside.sql, tables, self.resources)
        followed = self.columns is not None
        rows = found[self.outside.released[0].row].combine_chunks() if followed else None
        return self._named(found), rows

    def _named(self, table: pa.Table) -> pa.Table:
        """Leave out what was added, and name error bars that have no name as their output."""
        if self.columns is not None:
            table = table.drop_columns([self.outside.released[0].row])
        names = {
            name: f"{called}_{'high' if high else 'low'}"
            for name, _, high, called in self._intervals()
            if f"{called}_{'high' if high else 'low'}" not in table.schema.names
        }
        return table.rename_columns([names.get(name, name) for name in table.schema.names])

    def _intervals(self) -> Iterable[tuple[str, str, bool, str]]:
        return (interval for table in self.outside.released for interval in table.intervals)

    def _refused(self, error: Exception) -> SqlError:
        told, at = _told(error)
        missing = re.match(r'Referenced column "?(.+?)"? (?:was )?not found', _first(told))
        if missing:
            hidden = {*(t.row for t in self.outside.released), *(name for name, *_ in self._intervals())}
            names = (name for table in self._empty.values() for name in table.schema.names)
            listed = ", ".join(dict.fromkeys(name for name in names if name not in hidden))
            return self.outside.refuse(
                at,
                f"{missing[1]} is no column here. The released columns are: {listed}; a column of the "
                "private table stands in GROUP BY, or in a private aggregate",
            )
        return self.outside.refuse(at, f"computing with the released table: {_first(told)}")

    def _failed(self, error: Exception) -> SqlError:
        told, at = _told(error)
        return self.outside.refuse(
            at,
            f"computing with the noisy numbers failed: {_first(told)}. They are not lost, and need not be "
            "paid for again: `.released` of this release has what was drawn; TRY_CAST and TRY(...) "
            "give NULL instead",
        )


def groups_of(asked: PublicGroups, tables: Mapping[str, PublicTable], resources: Resources) -> pa.Table:
    """Read the groups that a public table has.

    Args:
        asked: what they are.
        tables: public tables by name.
        resources: what DuckDB may take of the machine.
    Raises:
        SqlError: their SQL does not fit the public tables, or they are more than 1,000,000.
        EngineError: a public table cannot be read.
    """

    before = f"SELECT {', '.join(map(identifier, asked.columns))} FROM ("

    def refused(error: Exception) -> SqlError:
        told, at = _told(error)
        return asked.refuse(f"the groups of the public table: {_first(told)}", at - len(before.encode()))

    text = f"{before}{asked.sql}) AS groups LIMIT {MOST_GROUPS + 1}"
    with in_own_words(refused, duckdb.Error):
        computed(text, {name: no_rows_of(tables[name]) for name in asked.public}, resources)
    rows = {name: rows_of(tables[name]) for name in asked.public}
    with in_own_words(refused, duckdb.Error):
        found = computed(text, rows, resources)
    if found.num_rows > MOST_GROUPS:
        raise asked.refuse(f"the public table has more than {MOST_GROUPS:,} groups, which are all shown")
    return found


def columns_of(plan: Plan, columns: Schema) -> ReleasedColumns:
    """Return what a plan releases.

    Args:
        plan: of the release.
        columns: those of the private table, after the steps of the plan.
    """
    keys = {name: columns[name].type_name for name in plan.query.keys}
    keys |= {name: "BIGINT" for name in plan.query.shown_keys[len(keys) :]}
    return ReleasedColumns(keys, {e.name: (e.type, e.error_type) for e in plan.requirements.estimates})


def columns_of_largest(plan: Plan[Top, TopMeasurement]) -> ReleasedColumns:
    """Return what a plan releases of the largest groups."""
    question = plan.query
    keys = {RANK: "BIGINT"} | {name: question.schema[name].type_name for name in question.keys}
    numbers = (pa.int64() if question.whole else pa.float64(), pa.float64())
    return ReleasedColumns(keys, dict.fromkeys(plan.laws, numbers))


def _empty(columns: ReleasedColumns, table: ReleasedTable) -> pa.Table:
    """Return a table with the types of the released one, and no row."""
    types = dict(zip(columns.keys, empty(columns.keys).schema.types, strict=True))
    types |= {name: kind for name, (kind, _) in columns.numbers.items()}
    types |= {name: columns.numbers[of][1] for name, of, *_ in table.intervals} | {table.row: pa.int64()}
    return pa.schema(types.items()).empty_table()


def _told(error: Exception) -> tuple[dict[str, str], int]:
    """Return what DuckDB says of an error, and the byte at which, or -1. Noisy numbers may be in it."""
    text = str(error)
    try:
        told: dict[str, str] = json.loads(text[text.index("{") :])
    except ValueError:
        return {"exception_message": text}, -1
    position = str(told.get("position", ""))
    return told, int(position) if position.isdigit() and len(position) < 10 else -1


def _first(told: Mapping[str, str]) -> str:
    return str(told.get("exception_message", "")).partition("\n")[0].rstrip(".")
