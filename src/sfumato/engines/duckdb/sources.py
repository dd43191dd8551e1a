"""Where rows come from: a FROM clause on a connection, and which columns are declared complete."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from sfumato.engines.duckdb import behind, declared, postgres, remote, sqlite
from sfumato.engines.duckdb.arrow import Fields, of_fields
from sfumato.engines.duckdb.connection import connect, lender
from sfumato.engines.duckdb.copied import is_dataset, open_dataset, open_relation, open_stream
from sfumato.engines.duckdb.databases import Stored, open_table
from sfumato.engines.duckdb.dummy import open_dummy
from sfumato.engines.duckdb.frames import of_pandas
from sfumato.engines.duckdb.harmless import (
    harmless_table,
    may_become_null,
    within,
)
from sfumato.engines.duckdb.lines import checked_encoding
from sfumato.engines.duckdb.parquet import ParquetFiles
from sfumato.engines.duckdb.paths import CSV, JSON, PARQUET, as_paths, database, ending, files_of
from sfumato.engines.duckdb.resources import DEFAULTS, Resources
from sfumato.engines.duckdb.source import ROWS, Source, check_names, no_rows, owned
from sfumato.engines.duckdb.text import identifier, literal
from sfumato.engines.duckdb.text_files import open_csv, open_json
from sfumato.errors import EngineError, QueryError, in_own_words, nearest, shown, with_article
from sfumato.files import whole_source
from sfumato.query.schema import FLOATS
from sfumato.query.tables.dummy import DummyRows

# What Arrow raises on Python values that it makes no column of; the text may quote them.
NO_ARROW = (pa.ArrowException, TypeError, ValueError, OverflowError)


def _unreadable(error: Exception) -> EngineError:
    kind = type(error).__name__
    return EngineError(
        f"scan: the source cannot be read: {kind}, whose text is left out, as it may quote rows"
    )


@in_own_words(_unreadable, Exception)
def open_source(
    source: Any,
    types: object = None,
    multiline: bool = True,
    encoding: str | None = None,
    resources: Resources = DEFAULTS,
) -> Source:
    """Open what `sfumato.scan` takes.

    Args:
        source: what to read; of an Arrow schema no rows, but what they would be.
        types: of the columns of a CSV or JSON file, or of a pandas frame's object columns, by name.
        multiline, encoding: how CSV is written.
        resources: what reading it may take.
    Raises:
        EngineError: it is not there, is of a kind that is not known, or has a column that cannot be read.
        QueryError: types are declared that are none, or for a source that has its own.
    """
    if (not multiline or encoding is not None) and ending(source) not in CSV:
        said = "encoding=" if multiline else "multiline=False"
        raise QueryError(f"{said} says how CSV is written; leave it out for other sources")
    if (paths := as_paths(source)) is not None:
        return _open_paths(paths, types, multiline, checked_encoding(encoding), resources)
    if type(source).__module__.partition(".")[0] == "pandas" and type(source).__name__ == "DataFrame":
        return _open_pandas(source, types, resources)
    declared.refuse_types(types, with_article(type(source).__name__))
    if isinstance(source, duckdb.DuckDBPyRelation):
        return open_relation(source, resources)
    if isinstance(source, DummyRows):
        return open_dummy(source, resources)
    if isinstance(source, pa.Schema):
        return _open_arrow("Arrow schema", source, resources=resources)
    if isinstance(source, pa.Table):
        return _open_arrow("Arrow table", source, resources=resources)
    if isinstance(source, pa.RecordBatch):
        return _open_arrow("Arrow batch", pa.Table.from_batches([source]), resources=resources)
    match type(source).__module__.partition(".")[0], type(source).__name__:
        case "polars", "LazyFrame":
            opened = open_source(_collected(source), resources=resources)
            return replace(opened, files=behind.lazy(source))
        case "polars", "DataFrame":
            return _open_frame("Polars frame", source, lambda frame: frame.to_arrow(), resources)
    if is_dataset(source):
        return open_dataset(source, resources)
    if (stream := open_stream(source, resources)) is not None:
        return stream
    raise _no_source(source)


def _no_source(source: object) -> EngineError:
    """Say what may be opened, or how what was given becomes that."""
    if isinstance(source, dict | list):
        how = "Table.from_pydict" if isinstance(source, dict) else "Table.from_pylist"
        return EngineError(
            f"scan: cannot read {with_article(type(source).__name__)}; make a table of it first, as "
            f"pyarrow.{how} does"
        )
    return EngineError(
        f"scan: cannot read {with_article(type(source).__name__)}; pass a path or a list of paths, a "
        f"DuckDB relation, an "
        "Arrow table, dataset or stream, a Polars, pandas or Spark data frame, or the Arrow schema of rows "
        "that a Beam pipeline brings"
    )


def guesses(source: object) -> bool:
    """Whether types of a source are guessed from its first rows, where none are declared: of CSV and JSON."""
    return ending(source) in (*CSV, *JSON)


def takes_types(source: object) -> bool:
    """Whether columns of a source have the types that somebody declares, and not types of its own."""
    if (paths := as_paths(source)) is not None:
        return guesses(source) or sqlite.address(paths[0]) is not None
    return type(source).__module__.partition(".")[0] == "pandas"


def without_rows(source: Any) -> Any:
    """Return a source with the same columns, of which rows in memory, and those of a plan, are left out."""
    if isinstance(source, pa.Table | pa.RecordBatch):
        return no_rows(source.schema)
    match type(source).__module__.partition(".")[0], type(source).__name__:
        case "pandas", "DataFrame":
            return source.iloc[:0]
        case "polars", "DataFrame" | "LazyFrame":
            return source.clear()
    return source


def _collected(frame: Any) -> Any:
    """Compute a lazy frame; what it stops at may be a row's value, so nothing of it is told."""
    with suppress(Exception):
        return frame.collect()
    raise EngineError("scan: the lazy Polars frame cannot be computed; collect() it to see why")


def _open_frame(name: str, frame: Any, read: Callable[[Any], pa.Table], resources: Resources) -> Source:
    check_names([str(column) for column in frame.columns])
    with suppress(Exception):
        return _open_arrow(name, read(frame), resources=resources)
    for column in frame.columns:
        if _converted(frame, column, read) is None:
            raise EngineError(
                f"scan: the column {column!r} of the {name} ({frame[column].dtype}) is of a type that Arrow "
                "lacks; make it numbers, text or dates, or drop it"
            )
    return _open_arrow(name, read(frame), resources=resources)


def _converted(frame: Any, column: str, read: Callable[[Any], pa.Table]) -> pa.Table | None:
    with suppress(Exception):
        return read(frame[[column]])
    return None


def _open_pandas(frame: Any, types: object, resources: Resources) -> Source:
    names = [str(column) for column in frame.columns]
    check_names(names)
    wanted = declared.checked_types(types)
    table, texts = of_pandas(frame, names)
    if unfit := [name for name in wanted or () if name in names and name not in texts]:
        raise EngineError(
            f"scan: types gives {unfit[0]!r} a type, but the pandas column has one; types= is for columns of "
            "objects"
        )
    kinds = declared.columns_of(names, wanted or {}, "the pandas frame")
    casts = {name: kinds[name] for name in texts}
    untyped = [name for name in texts if wanted is None or name not in declared.declared_names(wanted, names)]
    notes = (_object_note({name: kinds[name] for name in texts}, untyped),) if untyped else ()
    return replace(_open_arrow("pandas frame", table, casts=casts, resources=resources), notes=notes)


def _object_note(types: declared.Types, columns: Sequence[str]) -> str:
    listed = ", ".join(map(repr, columns))
    return (
        f"pandas columns of dtype object declare no type, so these are read as text: {listed}. Declare these "
        f"types, or others: {declared.as_python(types)}"
    )


def _open_arrow(
    name: str,
    rows: pa.Table | pa.Schema,
    casts: declared.Types | None = None,
    resources: Resources = DEFAULTS,
) -> Source:
    schema = rows if isinstance(rows, pa.Schema) else rows.schema
    check_names(schema.names)
    session = lender(resources=resources)
    # Types stand in fields; what is said of the whole table may be large, and another one each time.
    found = of_fields(Fields(schema.remove_metadata()), tuple((casts or {}).items()), resources)
    source = Source(name, found.relation, found.columns, session, found.complete)
    if rows is schema:
        return source

    def load(session: duckdb.DuckDBPyConnection, columns: Sequence[str]) -> None:
        session.register(ROWS, harmless_table(rows, columns))

    return replace(source, pending=load, rows=rows.num_rows)


def _well_named(stored: list[Stored]) -> list[Stored]:
    check_names([one.name for one in stored])
    return stored


def _open_path(path: str, types: object, resources: Resources) -> Source | None:
    """Open the table of a database that a path names; None where it names none."""
    if found := postgres.address(path):
        declared.refuse_types(types, "PostgreSQL")
        return open_table(found, resources, _well_named)
    if remote.is_address(path):
        return None
    scheme = re.match(r"[^/]*://", path)
    if scheme is not None and not path.startswith(sqlite.SCHEME):  # the rest may hold a password
        raise EngineError(
            f"scan: no source begins with {scheme[0]!r}; there are postgresql://USER@HOST/DATABASE/TABLE, "
            f"sqlite:///FILE/TABLE, paths of files, and {', '.join(f'{one}://' for one in remote.SCHEMES)}"
        )
    if re.search(r"\bpassword\s*=", path, re.IGNORECASE):  # which no message shows
        raise EngineError(
            "scan: the source looks like the settings of a connection; write it as an address, "
            "postgresql://USER@HOST/DATABASE/TABLE"
        )
    if found := sqlite.address(path):
        return open_table(
            found, resources, lambda stored: sqlite.typed(_well_named(stored), types, found.database)
        )
    file, _, table = database(path)
    if file:
        declared.refuse_types(types, "a DuckDB database")
        return _open_database(file, table, resources)
    return None


def _open_paths(
    paths: Sequence[str], types: object, multiline: bool, encoding: str | None, resources: Resources
) -> Source:
    if len(paths) == 1 and (stored := _open_path(paths[0], types, resources)) is not None:
        return stored
    if any(_names_database(path) for path in paths):
        raise EngineError("scan: a list is of files of one kind; a table of a database is given alone")
    found = files_of(paths, resources)
    if found.ending in PARQUET:
        declared.refuse_types(types, "Parquet")
        return replace(ParquetFiles(found.name, found.paths, resources).source(), files=found.sources)
    wanted = declared.checked_types(types, nested=found.ending in JSON)
    connection = connect(resources=resources)
    if found.ending in CSV:
        tab = "\t" if found.ending == ".tsv" else None
        opened = open_csv(found.name, found.paths, tab, wanted, connection, multiline, encoding)
    else:
        opened = open_json(found.name, found.paths, wanted, connection)
    return replace(opened, files=found.sources)


def _names_database(path: str) -> bool:
    if remote.is_address(path):
        return False
    return bool(re.match(r"[^/]*://", path) or sqlite.address(path) or database(path)[0])


def _open_database(file: str, table: str, resources: Resources) -> Source:
    if not Path(file).is_file():
        raise EngineError(f"scan: there is no file {shown(file)} (looked in {os.getcwd()!r})")
    connection = connect(resources=resources)
    if not _attached(connection, file):
        raise EngineError(f"scan: {file!r} cannot be opened as a DuckDB database")
    listed = connection.execute(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_catalog = 'stored'"
    ).fetchall()
    names = {(name if schema == "main" else f"{schema}.{name}"): (schema, name) for schema, name in listed}
    if table not in names:
        near = nearest(table, names) if table else None
        hint = f"did you mean {near!r}? " if near else ""
        raise EngineError(
            f"scan: {file!r} has no table {table!r}; {hint}write '{file}/NAME' with one of: "
            + ", ".join(sorted(names))
        )
    schema, name = names[table]
    relation = f"stored.{identifier(schema)}.{identifier(name)}"
    rows = _rows_of(connection, f"DESCRIBE {relation}")
    if rows is None:
        raise EngineError(f"scan: {table!r} in {file!r} cannot be described; it is a view that does not bind")
    never_null = (r[0] for r in rows if r[2] == "NO" and not may_become_null(r[1]))
    complete = frozenset(never_null) - {r[0] for r in rows if r[1] in FLOATS}
    # DuckDB itself stores text unseen that came from Arrow; and a view may be one of Parquet files.
    kinds = [(r[0], r[1]) for r in rows]
    inside = within(connection, relation, kinds, check_text=True, decoded=False)
    files = whole_source(file), *behind.views(connection)
    return Source(f"{file}/{table}", *inside, owned(connection), complete, files=files)


def _attached(connection: duckdb.DuckDBPyConnection, file: str) -> bool:
    return _rows_of(connection, f"ATTACH {literal(file)} AS stored (READ_ONLY)") is not None


def _rows_of(connection: duckdb.DuckDBPyConnection, statement: str) -> list[Any] | None:
    """Return what a statement gives, or None where it fails: the library's own text may quote rows."""
    with suppress(Exception), in_own_words():
        return list(connection.execute(statement).fetchall())
    return None
