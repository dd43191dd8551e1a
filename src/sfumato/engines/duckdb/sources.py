"""Where rows come from: a FROM clause on a connection, and which columns are declared complete."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.engines.duckdb import spill
from sfumato.engines.duckdb.text import identifier, literal
from sfumato.errors import EngineError, in_own_words, nearest

READERS = {
    ".parquet": "read_parquet({path})",
    ".pq": "read_parquet({path})",
    # A row that cannot be read is dropped: an error would tell of it.
    ".csv": "read_csv({path}, ignore_errors = true)",
    ".tsv": "read_csv({path}, ignore_errors = true)",
    ".json": "read_json({path}, ignore_errors = true, format = 'auto')",
    ".jsonl": "read_json({path}, ignore_errors = true, format = 'newline_delimited')",
    ".ndjson": "read_json({path}, ignore_errors = true, format = 'newline_delimited')",
}
DATABASES = (".duckdb", ".db", ".ddb")
# DuckDB spills beyond this. The whole process then stays below 1 GB, however many groups there are; a
# release of 10 million rows is as fast as with all memory.
MEMORY_LIMIT = "600MB"
# These may evaluate an expression elsewhere than it stands: outside its TRY, or in a reader of files.
NO_OPTIMIZERS = "common_subexpressions,scalar_fn_pushdown,type_pushdown"
# What Arrow raises on Python values that it makes no column of; the text may quote them.
NO_ARROW = (pa.ArrowException, TypeError, ValueError, OverflowError)


@in_own_words()
def connect(timezone: str | None = None) -> duckdb.DuckDBPyConnection:
    """Open a database in memory that sees no Python variable and keeps what it spills to itself.

    Args:
        timezone: in which times with a zone are read as texts, dates and hours; None for this machine's.
    """
    connection = duckdb.connect(
        config={
            "autoinstall_known_extensions": False,
            "disabled_optimizers": NO_OPTIMIZERS,
            "memory_limit": MEMORY_LIMIT,
            "preserve_insertion_order": False,
            "python_enable_replacements": False,
            # Not encrypted: what DuckDB carries along has no random numbers fit for keys, and its extension
            # that has them brings a network file system, and would have to be downloaded.
            "temp_directory": spill.place(),
        }
    )
    spill.keep(connection)
    if timezone is not None:
        try:
            connection.execute(f"SET GLOBAL TimeZone = {literal(timezone)}")
        except duckdb.Error:
            raise EngineError(
                f"the time zone {timezone!r} is not known; name one as 'Europe/Berlin' or 'UTC' (on Spark: "
                "spark.sql.session.timeZone)"
            ) from None
    return connection


@dataclass(frozen=True)
class Source:
    """Rows on a DuckDB connection.

    Args:
        name: as the user gave it, for messages.
        relation: what stands behind FROM.
        connection: where it is known.
        complete: columns whose declared type admits no missing value.
        table: rows in memory, under the relation's name.
        pending: what brings the rows in before the first query.
        files: the paths and patterns that are read.
    """

    name: str
    relation: str
    connection: duckdb.DuckDBPyConnection
    complete: frozenset[str] = frozenset()
    table: pa.Table | None = None
    pending: Callable[[duckdb.DuckDBPyConnection], None] | None = None
    files: tuple[str, ...] = ()

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a cursor that sees the relation; what is registered belongs to one cursor alone."""
        cursor = self.connection.cursor()
        if self.table is not None:
            cursor.register(self.relation, self.table)
        return cursor

    def load(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Bring the rows in, where that waits for a release."""
        if self.pending is not None:
            self.pending(cursor)


def _unreadable(error: Exception) -> EngineError:
    kind = type(error).__name__
    return EngineError(
        f"scan: the source cannot be read: {kind}, whose text is left out, as it may quote rows"
    )


@in_own_words(_unreadable, Exception)
def open_source(source: Any, timezone: str | None = None) -> Source:
    """Open what `sfumato.scan` takes.

    Args:
        source: what to read; of an Arrow schema no rows, but what they would be.
        timezone: of rows that are in memory; None for this machine's.
    Raises:
        EngineError: it is not there, is of a kind that is not known, or has a column that cannot be read.
    """
    if isinstance(source, (str, os.PathLike)):
        return _open_path(os.fspath(source))
    if isinstance(source, duckdb.DuckDBPyRelation):
        return _open_relation(source)
    if isinstance(source, pa.Schema):
        return _open_arrow("Arrow schema", source, timezone)
    if isinstance(source, pa.Table):
        return _open_arrow("Arrow table", source, timezone)
    if isinstance(source, pa.RecordBatch):
        return _open_arrow("Arrow batch", pa.Table.from_batches([source]))
    match type(source).__module__.partition(".")[0], type(source).__name__:
        case "polars", "LazyFrame":
            return open_source(source.collect())
        case "polars", "DataFrame":
            return _open_frame("Polars frame", source, lambda frame: frame.to_arrow())
        case "pandas", "DataFrame":
            return _open_frame("pandas frame", source, _of_pandas)
    raise EngineError(
        f"scan: cannot read a {type(source).__name__}; pass a path, a DuckDB relation, an Arrow table, a "
        "Polars, pandas or Spark data frame, or the Arrow schema of rows that a Beam pipeline brings"
    )


def is_path(text: str) -> bool:
    """Whether a text reads as the path of a file, there or not, rather than as the name of a table."""
    stem = text.lower().removesuffix(".gz").removesuffix(".zst")
    return "/" in text or stem.endswith((*READERS, *DATABASES))


def _open_frame(name: str, frame: Any, read: Callable[[Any], pa.Table]) -> Source:
    _check_names([str(column) for column in frame.columns])
    try:
        table = read(frame)
    except NO_ARROW:
        for column in frame.columns:
            try:
                read(frame[[column]])
            except NO_ARROW:
                raise EngineError(
                    f"scan: the column {column!r} of the {name} ({frame[column].dtype}) mixes types, or is "
                    "of one that Arrow lacks; make it numbers, text or dates, or drop it"
                ) from None
        raise EngineError(f"scan: the {name} cannot be passed to Arrow") from None
    return _open_arrow(name, table)


def _of_pandas(frame: Any) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


def _open_arrow(name: str, rows: pa.Table | pa.Schema, timezone: str | None = None) -> Source:
    schema = rows if isinstance(rows, pa.Schema) else rows.schema
    _check_names(schema.names)
    connection = connect(timezone)
    if not _readable(connection, rows):
        for i, field in enumerate(schema):
            if not _readable(connection, pa.schema([field]) if rows is schema else rows.select([i])):
                raise EngineError(
                    f"scan: the column {field.name!r} is {field.type}, which cannot be read; cast it to "
                    "another type, such as double or string, or drop it"
                )
    table = schema.empty_table() if rows is schema else rows
    return Source(name, "source_rows", connection, _complete(schema), table)


def _readable(connection: duckdb.DuckDBPyConnection, rows: pa.Table | pa.Schema) -> bool:
    try:
        none = rows.empty_table() if isinstance(rows, pa.Schema) else rows.slice(0, 0)
        connection.register("declared", none)
    except (duckdb.Error, pa.ArrowException):
        return False
    connection.unregister("declared")
    return True


def _check_names(names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.casefold() in seen:
            raise EngineError(
                f"scan: there are two columns {name!r} (names are equal whatever their case); rename or "
                "drop one"
            )
        seen.add(name.casefold())
    if not names:
        raise EngineError("scan: there are no columns; give at least the one of the privacy unit")


def _open_relation(relation: duckdb.DuckDBPyRelation) -> Source:
    """Copy the relation, when it is first needed, to a table that DuckDB can keep out of core."""
    connection = connect()
    connection.register("empty_rows", relation.limit(0).to_arrow_table())
    connection.execute("CREATE TABLE source_rows AS FROM empty_rows")
    loaded: list[bool] = []

    def load(cursor: duckdb.DuckDBPyConnection) -> None:
        if not loaded:
            cursor.register("relation_rows", relation.to_arrow_reader())
            cursor.execute("INSERT INTO source_rows FROM relation_rows").fetchall()
            loaded.append(True)

    return Source("DuckDB relation", "source_rows", connection, pending=load)


def _complete(schema: pa.Schema) -> frozenset[str]:
    # A float that is never NULL can still be NaN.
    return frozenset(f.name for f in schema if not f.nullable and not pa.types.is_floating(f.type))


def _declared_complete(file: str) -> frozenset[str]:
    # DuckDB writes "required" where the rows at hand have no NULL: a fact about rows, no declaration.
    metadata = pq.read_metadata(file)
    if "duckdb" in (metadata.created_by or "").lower():
        return frozenset()
    return _complete(metadata.schema.to_arrow_schema())


def _open_path(path: str) -> Source:
    file, _, table = _database(path)
    if file:
        return _open_database(file, table)
    suffix = Path(path).suffix.lower()
    if suffix in (".gz", ".zst"):
        suffix = Path(Path(path).stem).suffix.lower()
    if Path(path).is_dir():
        ending = suffix if suffix in READERS else ".parquet"
        inside = os.path.join(path, f"*{ending}")
        raise EngineError(f"scan: {path!r} is a folder; name the files in it, such as {inside!r}")
    files = sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) else [path]
    if not files or not all(Path(f).is_file() for f in files):
        raise EngineError(f"scan: there is no file {path!r} (looked in {os.getcwd()!r})")
    if suffix not in READERS:
        known = ", ".join([*READERS, *(f"{d}/table" for d in DATABASES)])
        raise EngineError(f"scan: {path!r} ends in {suffix!r}, which is none of {known}")
    connection = connect()
    relation = READERS[suffix].format(path=literal(path))
    complete: frozenset[str] = frozenset()
    try:
        connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
        if "parquet" in relation:
            complete = frozenset.intersection(*(_declared_complete(f) for f in files))
    except (duckdb.Error, pa.ArrowException, OSError):
        raise EngineError(
            f"scan: {path!r} cannot be read as {suffix.removeprefix('.')}; it is empty, damaged, or "
            "another kind of file"
        ) from None
    return Source(path, relation, connection, complete, files=(path,))


def _database(path: str) -> tuple[str, str, str]:
    for ending in DATABASES:
        head, found, table = path.partition(f"{ending}/")
        if found:
            return head + ending, found, table
        if path.endswith(ending):
            return path, "", ""
    return "", "", ""


def _open_database(file: str, table: str) -> Source:
    if not Path(file).is_file():
        raise EngineError(f"scan: there is no file {file!r} (looked in {os.getcwd()!r})")
    connection = connect()
    try:
        connection.execute(f"ATTACH {literal(file)} AS stored (READ_ONLY)")
    except duckdb.Error:
        raise EngineError(f"scan: {file!r} cannot be opened as a DuckDB database") from None
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
    rows = connection.execute(f"DESCRIBE {relation}").fetchall()
    complete = frozenset(r[0] for r in rows if r[2] == "NO" and r[1] not in ("FLOAT", "DOUBLE"))
    return Source(f"{file}/{table}", relation, connection, complete, files=(file,))
