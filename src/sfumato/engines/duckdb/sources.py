"""Where rows come from: a FROM clause on a connection, and which columns are declared complete."""

from __future__ import annotations

import datetime
import decimal
import os
import re
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb import column_types
from sfumato.engines.duckdb.arrow_sources import (
    files_of_lazy_frame,
    files_of_views,
    is_dataset,
    open_dataset,
    open_relation,
    open_stream,
)
from sfumato.engines.duckdb.connection import check_out, connect, session_factory
from sfumato.engines.duckdb.databases import (
    SQLITE_SCHEME,
    Stored,
    open_table,
    postgres_address,
    sqlite_address,
    sqlite_typed,
)
from sfumato.engines.duckdb.dummy_source import open_dummy
from sfumato.engines.duckdb.file_paths import (
    CSV,
    JSON,
    PARQUET,
    SCHEMES,
    as_paths,
    database,
    ending,
    find_files,
    is_address,
)
from sfumato.engines.duckdb.parquet import ParquetFiles
from sfumato.engines.duckdb.resources import DEFAULTS, Resources
from sfumato.engines.duckdb.sanitized_columns import (
    describe_relation,
    may_become_null,
    sanitize_table,
    within,
)
from sfumato.engines.duckdb.source import ROWS, Source, check_names, no_rows, open_database
from sfumato.engines.duckdb.text_files import open_csv, open_json
from sfumato.engines.duckdb.text_lines import check_encoding
from sfumato.errors import EngineError, QueryError, in_own_words, nearest, shown, with_article
from sfumato.files import resolve_source_path
from sfumato.query.schema import FLOATS
from sfumato.query.tables.dummy_rows import DummyRows
from sfumato.sql_text import identifier, literal

# Objects whose text DuckDB reads as what they are.
_TEXTUAL = (
    *(int, float, bool, decimal.Decimal, uuid.UUID),
    *(datetime.date, datetime.datetime, datetime.time, np.integer, np.floating, np.bool_, np.datetime64),
)


def from_pandas(frame: Any, names: Sequence[str]) -> tuple[pa.Table, list[str]]:
    """Return a pandas frame's rows as Arrow, and its object columns, which are read as text.

    Such are columns of dtype object (and categories of objects): each value by itself is text, NULL where
    it is missing, the text of a number, a truth value, a date or a time, and NULL where it is anything else.

    Raises:
        EngineError: a column is of a type that Arrow lacks.
    """
    columns, texts = [], []
    for i, name in enumerate(names):
        column = frame.iloc[:, i]
        categories = getattr(column.dtype, "categories", None)
        kind = str(column.dtype if categories is None else categories.dtype)
        if kind == "object":
            columns.append(_texts(column))
            texts.append(name)
        elif kind in ("str", "string"):
            columns.append(_strings(column))
        else:
            columns.append(_typed(name, column))
    return pa.table(columns, names=list(names)), texts


def _typed(name: str, column: Any) -> pa.Array:
    with suppress(Exception):
        return pa.array(column, from_pandas=True)
    raise EngineError(
        f"scan: the column {name!r} of the pandas frame ({column.dtype}) has a type that Arrow "
        "does not have. Convert it to numbers, text or dates, or drop it"
    )


def _strings(column: Any) -> pa.Array:
    if hasattr(column, "cat"):
        codes = column.cat.codes.to_numpy()
        categories = _strings(column.cat.categories.to_series())
        return categories.take(pa.array(codes, mask=codes < 0))
    try:
        return pa.array(column, pa.large_string(), from_pandas=True)
    except Exception:  # of a text with half a surrogate pair, which is none in UTF-8
        return _texts(column)


def _texts(column: Any) -> pa.Array:
    return pa.array([_text(value) for value in column], pa.large_string())


def _is_missing(value: Any) -> bool:
    other = value
    return bool(value != other)  # as NaN, and what stands for no time


def _text(value: Any) -> str | None:
    try:
        if isinstance(value, bytes):
            value = value.decode()
        elif value is None or _is_missing(value):
            return None
        elif isinstance(value, _TEXTUAL):
            value = str(value)
        if type(value) is not str and not isinstance(value, str):
            return None
        return str.encode(value).decode()  # whatever a class of its own does
    except Exception:  # of this value
        return None


class ReadAs(NamedTuple):
    """How DuckDB reads an Arrow schema: the relation and its columns."""

    relation: str
    columns: tuple[tuple[str, str], ...]
    complete: frozenset[str]


@dataclass(frozen=True)
class Fields:
    """The fields of an Arrow schema as a cache key, compared to the last difference.

    Neither do all types come back from a serialized schema: of a dictionary in a dictionary one is left.
    """

    schema: pa.Schema = field(compare=False)
    serialized: bytes = field(init=False)
    kinds: tuple[pa.DataType, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "serialized", self.schema.serialize().to_pybytes())
        object.__setattr__(self, "kinds", tuple(self.schema.types))


@lru_cache(maxsize=256)
def read_options(fields: Fields, casts: tuple[tuple[str, str], ...], resources: Resources) -> ReadAs:
    """Return how DuckDB reads an Arrow source with these fields, some of them cast.

    Raises:
        EngineError: it cannot.
    """
    schema = fields.schema
    with check_out(resources=resources) as session:
        if not _readable(session, schema):
            for one in schema:
                if not _readable(session, pa.schema([one])):
                    raise EngineError(
                        f"scan: the column {one.name!r} is {one.type}, which cannot be read. Drop "
                        "it, or cast it to another type, such as double or string"
                    )
        session.register(ROWS, no_rows(schema))
        relation = _cast(ROWS, schema.names, dict(casts))
        relation, columns = within(session, relation, describe_relation(session, relation))
    return ReadAs(relation, tuple(columns), _complete(schema, columns))


def _cast(relation: str, names: Sequence[str], casts: column_types.Types) -> str:
    if all(kind == "VARCHAR" for kind in casts.values()):
        return relation
    columns = (
        f"{column_types.cast(identifier(n), casts[n])} AS {identifier(n)}" if n in casts else identifier(n)
        for n in names
    )
    return f"(SELECT {', '.join(columns)} FROM {relation})"


def _readable(session: duckdb.DuckDBPyConnection, schema: pa.Schema) -> bool:
    with suppress(duckdb.Error, pa.ArrowException):
        session.register("declared", no_rows(schema))
        session.unregister("declared")
        return not any(_is_odd(field.type) for field in schema)
    return False


def _is_odd(kind: pa.DataType, inside: bool = False) -> bool:
    """Whether an Arrow type holds one that DuckDB cannot read with every value."""
    if isinstance(kind, pa.BaseExtensionType):
        return _is_odd(kind.storage_type, inside)
    if _is_coded(kind):
        # Of others DuckDB takes the codes for values, or stops.
        of, in_runs = kind.value_type, pa.types.is_run_end_encoded(kind)
        return _is_coded(of) or (in_runs and (inside or of.num_fields > 0)) or _is_odd(of, True)
    return (
        pa.types.is_union(kind)  # none of its values can be NULL
        or (pa.types.is_map(kind) and kind.key_type.num_fields > 0)  # keys that nobody could compare here
        or any(_is_odd(kind.field(i).type, True) for i in range(kind.num_fields))
    )


def _is_coded(kind: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind))


def _complete(schema: pa.Schema, kinds: Sequence[tuple[str, str]]) -> frozenset[str]:
    """Return an Arrow source's columns that are declared to have a value in each row."""
    # A float that is never NULL can still be NaN.
    required = {f.name for f in schema if not f.nullable and not pa.types.is_floating(f.type)}
    return frozenset(name for name, kind in kinds if name in required and not may_become_null(kind))


# What Arrow raises on Python values that it makes no column of; the text may quote them.
NO_ARROW = (pa.ArrowException, TypeError, ValueError, OverflowError)


def _unreadable(error: Exception) -> EngineError:
    kind = type(error).__name__
    return EngineError(
        f"scan: the source cannot be read: {kind} (its text is left out, as it may quote rows)"
    )


@in_own_words(_unreadable, Exception)
def open_source(
    source: Any,
    types: object = None,
    multiline: bool = True,
    encoding: str | None = None,
    resources: Resources = DEFAULTS,
) -> Source:
    """Open a source of any kind that `sfumato.scan` takes.

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
        raise QueryError(f"{said} is for CSV. Leave it out for other sources")
    if (paths := as_paths(source)) is not None:
        return _open_paths(paths, types, multiline, check_encoding(encoding), resources)
    if type(source).__module__.partition(".")[0] == "pandas" and type(source).__name__ == "DataFrame":
        return _open_pandas(source, types, resources)
    column_types.refuse_types(types, with_article(type(source).__name__))
    if isinstance(source, duckdb.DuckDBPyRelation):
        return open_relation(source, resources)
    if isinstance(source, DummyRows):
        return open_dummy(source, resources)
    if isinstance(source, (pa.Schema, pa.Table)):
        name = "Arrow table" if isinstance(source, pa.Table) else "Arrow schema"
        return _open_arrow(name, source, resources=resources)
    if isinstance(source, pa.RecordBatch):
        return _open_arrow("Arrow batch", pa.Table.from_batches([source]), resources=resources)
    match type(source).__module__.partition(".")[0], type(source).__name__:
        case "polars", "LazyFrame":
            opened = open_source(_collect_frame(source), resources=resources)
            return replace(opened, files=files_of_lazy_frame(source))
        case "polars", "DataFrame":
            return _open_polars(source, resources)
    if is_dataset(source):
        return open_dataset(source, resources)
    if (stream := open_stream(source, resources)) is not None:
        return stream
    raise _no_source(source)


def _no_source(source: object) -> EngineError:
    """Return the error of an object that is no source, with what to do instead."""
    if isinstance(source, dict | list):
        how = "Table.from_pydict" if isinstance(source, dict) else "Table.from_pylist"
        return EngineError(
            f"scan: cannot read {with_article(type(source).__name__)}. Convert it to a table first, "
            f"for example with pyarrow.{how}"
        )
    return EngineError(
        f"scan: cannot read {with_article(type(source).__name__)}. Pass a path or a list of paths, "
        "a DuckDB relation, an Arrow table, dataset or stream, a Polars, pandas or Spark data frame, "
        "or, for Beam, an Arrow schema"
    )


def guesses(source: object) -> bool:
    """Whether a source's types are guessed from its first rows where none are declared."""
    return ending(source) in (*CSV, *JSON)


def takes_types(source: object) -> bool:
    """Whether a source's columns have declared types, and not types of its own."""
    if (paths := as_paths(source)) is not None:
        return guesses(source) or sqlite_address(paths[0]) is not None
    return type(source).__module__.partition(".")[0] == "pandas"


def empty_source(source: Any) -> Any:
    """Return an in-memory source with the same columns and no rows."""
    if isinstance(source, pa.Table | pa.RecordBatch):
        return no_rows(source.schema)
    match type(source).__module__.partition(".")[0], type(source).__name__:
        case "pandas", "DataFrame":
            return source.iloc[:0]
        case "polars", "DataFrame" | "LazyFrame":
            return source.clear()
    return source


def _collect_frame(frame: Any) -> Any:
    """Collect a lazy Polars frame; its error may quote rows, so nothing of it is shown."""
    with suppress(Exception):
        return frame.collect()
    raise EngineError("scan: the lazy Polars frame cannot be computed. Call collect() to see why")


def _open_polars(frame: Any, resources: Resources) -> Source:
    name = "Polars frame"
    check_names(list(frame.columns))
    with suppress(Exception):
        return _open_arrow(name, frame.to_arrow(), resources=resources)
    for column in frame.columns:
        with suppress(Exception):
            frame[[column]].to_arrow()
            continue
        raise EngineError(
            f"scan: the column {column!r} of the {name} ({frame[column].dtype}) has a type that "
            "Arrow does not have. Convert it to numbers, text or dates, or drop it"
        )
    return _open_arrow(name, frame.to_arrow(), resources=resources)


def _open_pandas(frame: Any, types: object, resources: Resources) -> Source:
    names = [str(column) for column in frame.columns]
    check_names(names)
    wanted = column_types.check_types(types)
    table, texts = from_pandas(frame, names)
    if unfit := [name for name in wanted or () if name in names and name not in texts]:
        raise EngineError(
            f"scan: types gives {unfit[0]!r} a type, but the pandas column has one. types= is for "
            "columns of dtype object"
        )
    kinds = column_types.declared_types(names, wanted or {}, "the pandas frame")
    casts = {name: kinds[name] for name in texts}
    untyped = [
        name
        for name in texts
        if wanted is None or name not in column_types.match_declared_names(wanted, names)
    ]
    notes = (_object_note({name: kinds[name] for name in texts}, untyped),) if untyped else ()
    return replace(_open_arrow("pandas frame", table, casts=casts, resources=resources), notes=notes)


def _object_note(types: column_types.Types, columns: Sequence[str]) -> str:
    listed = ", ".join(map(repr, columns))
    return (
        f"pandas columns of dtype object declare no type, so these are read as text: {listed}. "
        f"Declare these types, or others: {column_types.as_python(types)}"
    )


def _open_arrow(
    name: str,
    rows: pa.Table | pa.Schema,
    casts: column_types.Types | None = None,
    resources: Resources = DEFAULTS,
) -> Source:
    schema = rows if isinstance(rows, pa.Schema) else rows.schema
    check_names(schema.names)
    session = session_factory(resources=resources)
    # Types stand in fields; what is said of the whole table may be large, and another one each time.
    found = read_options(Fields(schema.remove_metadata()), tuple((casts or {}).items()), resources)
    source = Source(name, found.relation, found.columns, session, found.complete)
    if rows is schema:
        return source

    def load(session: duckdb.DuckDBPyConnection, columns: Sequence[str]) -> None:
        session.register(ROWS, sanitize_table(rows, columns))

    return replace(source, pending=load, rows=rows.num_rows)


def _well_named(stored: list[Stored]) -> list[Stored]:
    check_names([one.name for one in stored])
    return stored


def _open_path(path: str, types: object, resources: Resources) -> Source | None:
    """Open the database table that a source's path names; None where it names none."""
    if found := postgres_address(path):
        column_types.refuse_types(types, "PostgreSQL")
        return open_table(found, resources, _well_named)
    if is_address(path):
        return None
    scheme = re.match(r"[^/]*://", path)
    if scheme is not None and not path.startswith(SQLITE_SCHEME):  # the rest may hold a password
        raise EngineError(
            f"scan: {scheme[0]!r} is not a known kind of source. Use "
            "postgresql://USER@HOST/DATABASE/TABLE, sqlite:///FILE/TABLE, a path, or one of "
            f"{', '.join(f'{one}://' for one in SCHEMES)}"
        )
    if re.search(r"\bpassword\s*=", path, re.IGNORECASE):  # which no message shows
        raise EngineError(
            "scan: the source looks like connection settings. Write it as an address, "
            "postgresql://USER@HOST/DATABASE/TABLE"
        )
    if found := sqlite_address(path):
        return open_table(
            found, resources, lambda stored: sqlite_typed(_well_named(stored), types, found.database)
        )
    file, _, table = database(path)
    if file:
        column_types.refuse_types(types, "a DuckDB database")
        return _open_database(file, table, resources)
    return None


def _open_paths(
    paths: Sequence[str], types: object, multiline: bool, encoding: str | None, resources: Resources
) -> Source:
    if len(paths) == 1 and (stored := _open_path(paths[0], types, resources)) is not None:
        return stored
    if any(_names_database(path) for path in paths):
        raise EngineError("scan: a list must hold files of one kind. Pass a table of a database by itself")
    found = find_files(paths, resources)
    if found.ending in PARQUET:
        column_types.refuse_types(types, "Parquet")
        return replace(ParquetFiles(found.name, found.paths, resources).source(), files=found.sources)
    wanted = column_types.check_types(types, nested=found.ending in JSON)
    connection = connect(resources=resources)
    if found.ending in CSV:
        tab = "\t" if found.ending == ".tsv" else None
        opened = open_csv(found.name, found.paths, tab, wanted, connection, multiline, encoding)
    else:
        opened = open_json(found.name, found.paths, wanted, connection)
    return replace(opened, files=found.sources)


def _names_database(path: str) -> bool:
    if is_address(path):
        return False
    return bool(re.match(r"[^/]*://", path) or sqlite_address(path) or database(path)[0])


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
    rows = _try_query(connection, f"DESCRIBE {relation}")
    if rows is None:
        raise EngineError(
            f"scan: {table!r} in {file!r} cannot be described: it is a view that cannot be resolved"
        )
    never_null = (r[0] for r in rows if r[2] == "NO" and not may_become_null(r[1]))
    complete = frozenset(never_null) - {r[0] for r in rows if r[1] in FLOATS}
    # DuckDB itself stores text unseen that came from Arrow; and a view may be one of Parquet files.
    kinds = [(r[0], r[1]) for r in rows]
    inside = within(connection, relation, kinds, check_text=True, decoded=False)
    files = resolve_source_path(file), *files_of_views(connection)
    return Source(f"{file}/{table}", *inside, open_database(connection), complete, files=files)


def _attached(connection: duckdb.DuckDBPyConnection, file: str) -> bool:
    return _try_query(connection, f"ATTACH {literal(file)} AS stored (READ_ONLY)") is not None


def _try_query(connection: duckdb.DuckDBPyConnection, statement: str) -> list[Any] | None:
    """Return what a statement on a DuckDB file gives, or None where it fails."""
    with suppress(Exception), in_own_words():
        return list(connection.execute(statement).fetchall())
    return None
