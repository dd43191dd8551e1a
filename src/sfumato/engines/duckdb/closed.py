"""A database of its own for SQL on given tables: no file, no setting, nothing but these."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import duckdb
import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.combined import NOT_ARROW, sent
from sfumato.engines.duckdb.connection import UTC, closed, lent
from sfumato.engines.duckdb.engine import DuckDBEngine
from sfumato.engines.duckdb.resources import Resources
from sfumato.engines.duckdb.source import Source
from sfumato.engines.duckdb.text import identifier
from sfumato.errors import EngineError, QueryError
from sfumato.query.schema import Schema
from sfumato.query.tables.part import Part
from sfumato.query.tables.public_table import PublicTable

_TEXTS = (*NOT_ARROW, "UUID", "JSON")


@dataclass(frozen=True)
class Given:
    """A table for a closed database.

    Args:
        rows: as Arrow has them.
        texts: types of columns that come as texts, as they are not Arrow's.
    """

    rows: pa.Table
    texts: Mapping[str, str]


def computed(sql: str, tables: Mapping[str, Given], resources: Resources) -> pa.Table:
    """Return what a SELECT gives that may name these tables, and can reach nothing else.

    Args:
        sql: it.
        tables: by name.
        resources: of which the memory is bounded here too.
    Raises:
        duckdb.Error: it failed; the message is JSON.
    """
    fields = [field for table in tables.values() for field in table.rows.schema]
    zones = [f.type.tz for f in fields if pa.types.is_timestamp(f.type) and f.type.tz]
    with closed(zones[0] if zones else UTC, resources, locked=True) as connection:
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


def rows_of(table: PublicTable) -> Given:
    """Read a public table.

    Raises:
        EngineError: its rows cannot be read.
    """
    engine = _engine(table)
    found = engine.rows_after(Part(engine, table._steps, None))
    names = [name for name, _ in found.source.columns]
    listed = ", ".join(sent(name, kind) for name, kind in _kinds(table.schema).items())
    source: Source | None = found.source
    while source is not None:
        with suppress(duckdb.Error, pa.ArrowException, OSError, UnicodeError), source.session() as session:
            source.load(session, names)
            rows = session.sql(f"SELECT {listed} FROM ({found.after(source.relation)})").to_arrow_table()
            return Given(rows, _texts(table.schema))
        source = source.again(names) if source.again else None
    raise EngineError(f"the rows of {found.source.name}, a public table, cannot be read")


def no_rows_of(table: PublicTable) -> Given:
    """Return a public table without its rows, which are not read."""
    kinds = _kinds(table.schema)
    return Given(empty(kinds), _texts(table.schema))


def empty(kinds: Mapping[str, str]) -> pa.Table:
    """Return a table of columns of DuckDB's types, as Arrow has them, and no row."""
    if not kinds:
        return pa.table({})
    listed = ", ".join(
        f"CAST(NULL AS {'VARCHAR' if kind in NOT_ARROW else kind}) AS {identifier(name)}"
        for name, kind in kinds.items()
    )
    with lent() as connection:
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
            f"a public table whose groups are shown, or that is computed with, is read in this process: open "
            f"it with sf.public of a file or an Arrow table, not of {table._engine.name}"
        )
    return engine
