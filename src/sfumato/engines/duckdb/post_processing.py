"""SQL on released and public tables, run on a database of its own: no file, no setting, nothing but these."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import duckdb
import pyarrow as pa

from sfumato.api.largest_groups import Top
from sfumato.catalogs.declarations import MAX_GROUPS
from sfumato.dataclass import dataclass
from sfumato.dialect.linear_columns import linear_sql
from sfumato.dialect.post_processing_sql import PostProcessing, ReleasedTable
from sfumato.dialect.public_groups import PublicGroups
from sfumato.dialect.syntax_tree import Node, in_scope, statements
from sfumato.engines.duckdb.combined_rows import NOT_ARROW, cast_for_arrow
from sfumato.engines.duckdb.connection import UTC, check_out, check_out_closed
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.duckdb.resources import Resources
from sfumato.engines.duckdb.source import Source
from sfumato.errors import EngineError, QueryError, SqlError, in_own_words
from sfumato.noise.noise_sums import ONE
from sfumato.plan.plan import Plan
from sfumato.plan.top_measurement import RANK, TopMeasurement
from sfumato.query.error_bars import Bars
from sfumato.query.group_totals import GROUPING
from sfumato.query.linear_forms import LinearSql
from sfumato.query.schema import Schema
from sfumato.query.tables.public_table import PublicTable
from sfumato.query.tables.table_part import Part
from sfumato.release.canonical_form import plain
from sfumato.release.processed_release import with_intervals
from sfumato.release.release import Release
from sfumato.release.top_release import TopRelease
from sfumato.sql_text import identifier

_TEXTS = (*NOT_ARROW, "UUID", "JSON")


@dataclass(frozen=True)
class InlineTable:
    """An inline table for the closed database of post-processing.

    Args:
        rows: as Arrow has them.
        texts: types of columns that come as texts, as they are not Arrow's.
    """

    rows: pa.Table
    texts: Mapping[str, str]


def run_sql(sql: str, tables: Mapping[str, InlineTable], resources: Resources) -> pa.Table:
    """Return the result of post-processing SQL, which reaches its inline tables alone.

    Args:
        sql: it.
        tables: by name.
        resources: of which the memory is bounded here too.
    Raises:
        duckdb.Error: it failed; the message is JSON.
    """
    fields = [field for table in tables.values() for field in table.rows.schema]
    zones = [f.type.tz for f in fields if pa.types.is_timestamp(f.type) and f.type.tz]
    with check_out_closed(zones[0] if zones else UTC, resources, locked=True) as connection:
        before = "as texts "
        while any(name.casefold().startswith(before) for name in tables):
            before = f"_{before}"
        for i, (name, table) in enumerate(tables.items()):
            connection.register(name if not table.texts else f"{before}{i}", table.rows)
            if table.texts:
                typed = ", ".join(
                    f"TRY_CAST({identifier(n)} AS {table.texts[n]}) AS {identifier(n)}"
                    if n in table.texts
                    else identifier(n)
                    for n in table.rows.schema.names
                )
                connection.execute(
                    f"CREATE TEMP VIEW {identifier(name)} AS SELECT {typed} FROM {identifier(f'{before}{i}')}"
                )
        if not any(table.rows.num_rows for table in tables.values()):
            connection.execute(sql).fetchall()  # which says where an error is; a relation does not
        return connection.sql(sql).to_arrow_table()


def read_public_table(table: PublicTable) -> InlineTable:
    """Read a public table for post-processing.

    Raises:
        EngineError: its rows cannot be read.
    """
    engine = _engine(table)
    found = engine.rows_after(Part(engine, table._steps, None))
    names = [name for name, _ in found.source.columns]
    listed = ", ".join(cast_for_arrow(name, kind) for name, kind in _kinds(table.schema).items())
    source: Source | None = found.source
    while source is not None:
        with suppress(duckdb.Error, pa.ArrowException, OSError, UnicodeError), source.session() as session:
            source.load(session, names)
            rows = session.sql(f"SELECT {listed} FROM ({found.after(source.relation)})").to_arrow_table()
            return InlineTable(rows, _texts(table.schema))
        source = source.again(names) if source.again else None
    raise EngineError(f"the rows of the public table {found.source.name} cannot be read")


def empty_public_table(table: PublicTable) -> InlineTable:
    """Return a public table without rows, to check post-processing SQL on."""
    kinds = _kinds(table.schema)
    return InlineTable(empty(kinds), _texts(table.schema))


def empty(kinds: Mapping[str, str]) -> pa.Table:
    """Return an empty Arrow table with columns of DuckDB's types."""
    if not kinds:
        return pa.table({})
    listed = ", ".join(
        f"CAST(NULL AS {'VARCHAR' if kind in NOT_ARROW else kind}) AS {identifier(name)}"
        for name, kind in kinds.items()
    )
    with check_out() as connection:
        return connection.sql(f"SELECT {listed} WHERE false").to_arrow_table()


def _kinds(schema: Schema) -> dict[str, str]:
    return {name: column.type_name for name, column in schema.items()}


def _texts(schema: Schema) -> dict[str, str]:
    found = _kinds(schema).items()
    return {name: kind for name, kind in found if kind in _TEXTS}


def _engine(table: PublicTable) -> DuckDBEngine:
    # Of a Spark frame, which is collected; Beam's rows come later.
    brought = getattr(table._engine, "here", None)
    engine = table._engine if brought is None else brought()
    if not isinstance(engine, DuckDBEngine):
        raise QueryError(
            "a public table for groups or post-processing is read in this process, but "
            f"{table._engine.name} reads this one. Open it with sf.public of a file or an Arrow "
            "table"
        )
    return engine


@dataclass(frozen=True)
class ReleasedColumns:
    """The keys and numbers of a released table, as post-processing SQL sees them.

    Args:
        keys: what tells its rows apart, with SQL types.
        numbers: outputs, with their types and those of their error bars.
        ratios: outputs that are linear forms of noisy statistics or ratios of such: whether ratios.
    """

    keys: dict[str, str]
    numbers: dict[str, tuple[pa.DataType, pa.DataType]]
    ratios: dict[str, bool]


def selects(sql: str, keys: Iterable[str]) -> bool:
    """Whether a condition or a LIMIT of post-processing SQL keeps some rows by anything else than their keys.

    >>> [selects(f"SELECT k, n FROM r {rest}", ["k"]) for rest in ("ORDER BY n DESC LIMIT 3", "WHERE k > 2")]
    [True, False]
    """
    known, deciding = {key.casefold() for key in keys}, list[Node]()
    for node, _ in (found for statement in statements(sql) for found in in_scope(statement)):
        deciding += [node[name] for name in ("where_clause", "having", "qualify") if node.get(name)]
        modifiers = {one["type"]: one for one in node.get("modifiers", ())}
        if modifiers.keys() & {"LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER"}:
            deciding += [one["expression"] for one in modifiers.get("ORDER_MODIFIER", {}).get("orders", ())]
    within = [node for clause in deciding for node, _ in in_scope(clause)]
    names = {node["column_names"][-1].casefold() for node in within if node.get("class") == "COLUMN_REF"}
    return not names <= known or any(clause["class"] == "CONSTANT" for clause in deciding)  # ORDER BY 2


class PostProcessingSql:
    """Post-processing SQL around released tables, checked and run.

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
        outside: PostProcessing,
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
        tables = {name: InlineTable(table, {}) for name, table in self._empty.items()}
        tables |= {name: empty_public_table(table) for name, table in public.items()}
        with in_own_words(self._refused, duckdb.Error):
            self.schema: Any = self._named(run_sql(outside.sql, tables, resources)).schema
        if outside.columns is not None:
            of = (released for _, released in outside.columns)
            self.columns = tuple(zip(self.schema.names, of, strict=True))
        self.linear: LinearSql | None = self._linear(planned, tables)
        rows, seen = {table.row for table in outside.released}, set[str]()
        keys = {*rows, *(key for columns, _ in planned for key in columns.keys)}
        self.selects: bool = self.linear is None and selects(outside.sql, keys)
        for name in self.schema.names:
            if name.casefold() in seen and name not in rows:
                raise outside.refuse(
                    -1, f"the output name {name} is used twice. Give each column its own: ... AS name"
                )
            seen.add(name.casefold())

    def _linear(
        self, planned: Sequence[tuple[ReleasedColumns, Bars]], tables: Mapping[str, InlineTable]
    ) -> LinearSql | None:
        """Return the SQL with weights of released rows, where it computes columns from several of them."""
        if self.columns is not None or len(planned) > 1 or planned[0][1].sampling:
            return None
        ((columns, _),), (table,) = planned, self.outside.released
        outputs = dict.fromkeys((*columns.numbers, *(name for name, *_ in table.intervals)))
        found = linear_sql(self.outside.sql, table.name, table.row, outputs | columns.ratios)
        with suppress(duckdb.Error):
            return None if found is None or run_sql(found.sql, tables, self.resources) is None else found
        return None

    def content(self) -> dict[str, Any]:
        """Return post-processing SQL, its error bars and public tables, as plain data."""
        named = zip(self.outside.released, self.bars, strict=True)
        ends = [
            [one.name, bars.confidence, plain(one.intervals), *(["sampling"] if bars.sampling else [])]
            for one, bars in named
            if one.intervals
        ]
        public = {name: table._engine.content(table._steps) for name, table in self.public.items()}
        return {"sql": self.outside.sql, "error_bars": ends, "public": public}

    def run(self, released: Sequence[Release | TopRelease]) -> tuple[pa.Table, pa.Array | None]:
        """Return the result of post-processing SQL, and the released row of each result row.

        Public tables are read first, so that no budget is spent where they cannot be.
        """
        tables = {name: read_public_table(table) for name, table in self.public.items()}
        named = zip(self.outside.released, released, self.bars, strict=True)
        for table, release, bars in named:
            rows = with_intervals(release, table.intervals, bars, table.row)
            tables[table.name] = InlineTable(rows, {})
        if self.linear is not None:
            with suppress(duckdb.Error):
                found = run_sql(self.linear.sql, tables, self.resources)
                weights = found.select(self.linear.added).to_struct_array().combine_chunks()
                return self._named(found.drop_columns(self.linear.added)), weights
        with in_own_words(self._failed, duckdb.Error):
            found = run_sql(self.outside.sql, tables, self.resources)
        followed = self.columns is not None
        rows = found[self.outside.released[0].row].combine_chunks() if followed else None
        return self._named(found), rows

    def _named(self, table: pa.Table) -> pa.Table:
        """Drop helper columns of a post-processed table, and name its error bars."""
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
        told, at = _parse_message(error)
        missing = re.match(r'Referenced column "?(.+?)"? (?:was )?not found', _first(told))
        if missing:
            hidden = {name for table in self.outside.released for name in table.unnamed}
            names = [name for table in self._empty.values() for name in table.schema.names]
            listed = ", ".join(dict.fromkeys(name for name in names if name not in hidden)) or "none"
            instead = "A column of the private table belongs in GROUP BY, or in a private aggregate"
            if missing[1].casefold() == GROUPING and GROUPING in names:
                instead = "Write GROUPING(key, ...) AS name in the private SELECT"
            return self.outside.refuse(
                at, f"{missing[1]} is not a released column (the columns are {listed}). {instead}"
            )
        return self.outside.refuse(at, f"computing with the released table: {_first(told)}")

    def _failed(self, error: Exception) -> SqlError:
        told, at = _parse_message(error)
        return self.outside.refuse(
            at,
            f"computing with the noisy numbers failed: {_first(told)}. `.released` of this release "
            "has them at no charge; TRY_CAST and TRY(...) give NULL instead",
        )


def read_public_groups(
    groups: PublicGroups, tables: Mapping[str, PublicTable], resources: Resources
) -> pa.Table:
    """Read the groups of a public table that a query names.

    Args:
        groups: what they are.
        tables: public tables by name.
        resources: what DuckDB may take of the machine.
    Raises:
        SqlError: their SQL does not fit the public tables, or they are more than 1,000,000.
        EngineError: a public table cannot be read.
    """

    before = f"SELECT {', '.join(map(identifier, groups.columns))} FROM ("

    def refused(error: Exception) -> SqlError:
        told, at = _parse_message(error)
        return groups.refuse(f"the groups of the public table: {_first(told)}", at - len(before.encode()))

    text = f"{before}{groups.sql}) AS groups LIMIT {MAX_GROUPS + 1}"
    with in_own_words(refused, duckdb.Error):
        run_sql(text, {name: empty_public_table(tables[name]) for name in groups.public}, resources)
    rows = {name: read_public_table(tables[name]) for name in groups.public}
    with in_own_words(refused, duckdb.Error):
        found = run_sql(text, rows, resources)
    if found.num_rows > MAX_GROUPS:
        raise groups.refuse(
            f"the public table has more than {MAX_GROUPS:,} groups, but all of them are shown"
        )
    return found


def released_columns(plan: Plan, columns: Schema) -> ReleasedColumns:
    """Return the columns that a plan releases to post-processing SQL.

    Args:
        plan: of the release.
        columns: those of the private table, after the steps of the plan.
    """
    keys = {name: columns[name].type_name for name in plan.query.keys}
    keys |= {name: "BIGINT" for name in plan.query.shown_keys[len(keys) :]}
    estimates = plan.requirements.estimates
    apart = plan.query.series is None and plan.query.totals is None  # rows of totals depend on each other
    ratios = {e.name: e.forms[1] != ONE for e in estimates if apart and e.forms and not e.entries}
    return ReleasedColumns(keys, {e.name: (e.type, e.error_type) for e in estimates}, ratios)


def columns_of_largest(plan: Plan[Top, TopMeasurement]) -> ReleasedColumns:
    """Return the columns that a release of the largest groups gives to post-processing SQL."""
    question = plan.query
    keys = {RANK: "BIGINT"} | {name: question.schema[name].type_name for name in question.keys}
    numbers = (pa.int64() if question.whole else pa.float64(), pa.float64())
    return ReleasedColumns(keys, dict.fromkeys(plan.laws, numbers), {})


def _empty(columns: ReleasedColumns, table: ReleasedTable) -> pa.Table:
    """Return an empty table with a released table's columns, to check post-processing SQL on."""
    types = dict(zip(columns.keys, empty(columns.keys).schema.types, strict=True))
    types |= {name: kind for name, (kind, _) in columns.numbers.items()}
    types |= {name: columns.numbers[of][1] for name, of, *_ in table.intervals} | {table.row: pa.int64()}
    return pa.schema(types.items()).empty_table()


def _parse_message(error: Exception) -> tuple[dict[str, str], int]:
    """Return DuckDB's message about post-processing SQL, and the byte of the error or -1."""
    text = str(error)
    try:
        told: dict[str, str] = json.loads(text[text.index("{") :])
    except ValueError:
        return {"exception_message": text}, -1
    position = str(told.get("position", ""))
    return told, int(position) if position.isdigit() and len(position) < 10 else -1


def _first(messages: Mapping[str, str]) -> str:
    return str(messages.get("exception_message", "")).partition("\n")[0].rstrip(".")
