"""Rows that come as Arrow batches: copied, when first needed, to a table that DuckDB keeps out of core."""

from __future__ import annotations

import os
import re
import secrets
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from glob import escape, glob, has_magic
from typing import Any

import duckdb
import pyarrow as pa

from sfumato.engines.duckdb.connection import connect
from sfumato.engines.duckdb.resources import Resources, keep_open
from sfumato.engines.duckdb.sanitized_columns import describe_relation, parts, within, within_types
from sfumato.engines.duckdb.source import ROWS, Source, check_names, no_rows, open_database, register_rows
from sfumato.errors import EngineError, in_own_words
from sfumato.files import resolve_source_path

_VIEWS = "SELECT sql FROM duckdb_views() WHERE NOT internal"
_DATABASES = "SELECT path FROM duckdb_databases() WHERE path IS NOT NULL"
_QUOTED = re.compile(r"""'((?:[^']|'')*)'|"((?:[^"]|"")*)\"""")
_SCANNED = re.compile(r"SCAN \[([^\]\n]*)")


def files_of_relation(rows: duckdb.DuckDBPyRelation) -> tuple[str, ...]:
    """Return the files that a DuckDB relation names, with views and databases on its connection."""
    texts = []
    with suppress(Exception):
        texts.append(rows.sql_query())
    name = f"sfumato_{secrets.token_hex(8)}"  # of a view that a query of the relation's connection leaves
    for asked in (_VIEWS, _DATABASES):
        with suppress(Exception), in_own_words():
            texts += [_as_text(asked, text) for (text,) in rows.query(name, asked).fetchall()]
    with suppress(Exception), in_own_words():
        rows.query(name, f"DROP VIEW {name}")
    return _files(texts)


def files_of_views(connection: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Return the files that views of a DuckDB connection name."""
    with suppress(Exception), in_own_words():
        return _files(text for (text,) in connection.execute(_VIEWS).fetchall())
    return ()


def files_of_lazy_frame(frame: Any) -> tuple[str, ...]:
    """Return files that a lazy Polars frame names; where it reads several, that is the first."""
    with suppress(Exception):
        found = _SCANNED.findall(frame.explain(optimized=False))
        return _there(path for text in found for path in text.split(", "))
    return ()


def _as_text(requested: str, text: str) -> str:
    return "'" + text.replace("'", "''") + "'" if requested == _DATABASES else text


def _files(texts: Iterable[str]) -> tuple[str, ...]:
    quoted = (pair for text in texts for pair in _QUOTED.findall(text))
    return _there(one.replace("''", "'") or other.replace('""', '"') for one, other in quoted)


def _there(paths: Iterable[str]) -> tuple[str, ...]:
    # A pattern has a folder or an ending: '*' may be what a text is compared with.
    found = dict.fromkeys(path for path in paths if os.path.isfile(path) or _is_pattern(path))
    return tuple(map(resolve_source_path, found))


def _is_pattern(path: str) -> bool:
    return has_magic(path) and bool(re.search(r"/|\.\w+$", path)) and bool(glob(path, recursive=True))


# Formats whose values have types, so that none can stop the reading of others.
_TYPED = ("parquet", "ipc", "orc")
# Readers that were given to `scan`: their rows are another source's.
_taken: weakref.WeakSet[pa.RecordBatchReader] = weakref.WeakSet()


def open_relation(relation: duckdb.DuckDBPyRelation, resources: Resources) -> Source:
    """Open a DuckDB relation as a source that comes as Arrow batches."""
    schema: pa.Schema | None = None
    with suppress(Exception), in_own_words():
        schema = relation.limit(0).to_arrow_table().schema
    if schema is None:
        raise EngineError("scan: the DuckDB relation cannot be described. Call fetchall() on it to see why")
    return _opened(
        "DuckDB relation", schema, relation.to_arrow_reader, resources, files_of_relation(relation)
    )


def open_dataset(dataset: Any, resources: Resources) -> Source:
    """Open an Arrow dataset as a source, wherever its files are.

    Raises:
        EngineError: its files are text, or others in which one row can stop the reading; it is filtered.
    """
    if getattr(dataset, "_scan_options", None):
        raise EngineError(
            "scan: the dataset has a filter, which could fail on a row and so reveal it. Pass the "
            "dataset without it, and call filter() on the table"
        )
    for part in _parts(dataset):
        kind = getattr(getattr(part, "format", None), "default_extname", None)
        if kind is not None and kind not in (*_TYPED, "feather", "arrow"):
            raise EngineError(
                f"scan: reading a dataset of {kind} files fails on a malformed row, which would "
                f"reveal it. Pass the files themselves, such as 'folder/*.{kind}'"
            )
        _check_types(part, dataset.schema)
    files = tuple(one for part in _parts(dataset) for one in _written_over(getattr(part, "files", ())))
    return _opened("Arrow dataset", dataset.schema, lambda: dataset.scanner().to_reader(), resources, files)


def open_stream(stream: Any, resources: Resources) -> Source | None:
    """Open a stream of Arrow batches as a source: a reader, an ADBC cursor, or `__arrow_c_stream__`.

    None of what gives no batches, or something else than rows, as a column does.

    Raises:
        EngineError: a cursor has no rows; a reader was given before.
    """
    if isinstance(stream, pa.RecordBatchReader) and stream in _taken:
        raise EngineError(
            "scan: this RecordBatchReader was passed to scan before, and can be read only once. "
            "Query the table made from it, or make a new reader"
        )
    reader: pa.RecordBatchReader | None = None
    with suppress(Exception), in_own_words():
        reader = _reader(stream)  # which of anything else raises
    if reader is None:
        if _is_cursor(stream):
            raise EngineError("scan: the cursor has no rows. Execute a query first")
        return None
    opened = _opened(f"Arrow stream ({type(stream).__name__})", reader.schema, _once(reader), resources)
    _taken.add(reader)
    return opened


def _check_types(part: Any, wanted: pa.Schema) -> None:
    """Refuse an Arrow dataset whose columns would be cast or converted, which stops at a value."""
    if getattr(getattr(part, "format", None), "default_extname", None) == "orc":
        for field in wanted:
            if _has_times(field.type):
                raise EngineError(
                    f"scan: {field.name!r} of the dataset has times, and Arrow fails on times "
                    "before 1677 or after 2262 in ORC files. Write them as Parquet, or leave the "
                    "column out"
                )
    for fragment in part.get_fragments():
        found = fragment.physical_schema
        for field in wanted:
            place = found.get_field_index(field.name)
            if place >= 0 and found.field(place).type != field.type:
                raise EngineError(
                    f"scan: {field.name!r} of the dataset is {field.type}, but "
                    f"{found.field(place).type} in one of its files, so Arrow may fail on a value. "
                    "Write all files with one type"
                )


def _has_times(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _has_times(kind.storage_type)
    return bool(pa.types.is_timestamp(kind)) or any(_has_times(one.type) for one in parts(kind))


def _written_over(files: Sequence[str]) -> Iterator[str]:
    """Yield the files of an Arrow dataset, with the pattern of a folder that it has all files of."""
    yield from map(resolve_source_path, files)
    kinds = {(os.path.dirname(file), os.path.splitext(file)[1]) for file in files}
    for folder, kind in sorted(kinds):
        pattern = os.path.join(escape(folder), f"*{kind}*")
        there = set(map(os.path.realpath, glob(pattern)))
        if kind and there and there <= set(map(os.path.realpath, files)):
            yield resolve_source_path(pattern)


def is_dataset(source: object) -> bool:
    """Whether a source is an Arrow dataset."""
    if not type(source).__module__.startswith("pyarrow."):
        return False
    from pyarrow.dataset import Dataset

    return isinstance(source, Dataset)


def _is_cursor(source: object) -> bool:
    return type(source).__module__.startswith("adbc_driver") and hasattr(source, "fetch_record_batch")


def _reader(stream: Any) -> pa.RecordBatchReader:
    if isinstance(stream, pa.RecordBatchReader):
        return stream
    if _is_cursor(stream):
        return stream.fetch_record_batch()
    return pa.RecordBatchReader.from_stream(stream)


def _once(reader: pa.RecordBatchReader) -> Callable[[], pa.RecordBatchReader]:
    waiting = [reader]

    def take() -> pa.RecordBatchReader:
        if not waiting:
            raise EngineError(
                "the source can be read only once, and stopped before its end. Make it again, and call scan"
            )
        return waiting.pop()

    return take


def _parts(dataset: Any) -> list[Any]:
    children = getattr(dataset, "children", None) or [dataset]
    return [one for child in children for one in (_parts(child) if child is not dataset else [child])]


def _opened(
    name: str,
    schema: pa.Schema,
    reader: Callable[[], pa.RecordBatchReader],
    resources: Resources,
    files: tuple[str, ...] = (),
) -> Source:
    check_names(schema.names)
    connection = connect(resources=resources)
    empty = no_rows(schema.remove_metadata())
    connection.register("empty_rows", empty)
    kinds = describe_relation(connection, "empty_rows")
    kept, columns = within(connection, "empty_rows", kinds)
    connection.execute(f"CREATE TABLE {ROWS} AS FROM {kept}")
    loaded: list[bool] = []
    loading = threading.Lock()

    def load(cursor: duckdb.DuckDBPyConnection, columns: Sequence[str]) -> None:
        with loading:
            if not loaded:
                copy(cursor)

    def copy(cursor: duckdb.DuckDBPyConnection) -> None:
        batches = keep_open(reader())
        # Interrupted once they were there, and not yet said to be, all rows would come a second time.
        cursor.execute(f"TRUNCATE {ROWS}")
        with register_rows(cursor, batches.schema, batches):
            cursor.execute(f"INSERT INTO {ROWS} FROM {within_types('arriving', kinds)}").fetchall()
        loaded.append(True)

    return Source(name, ROWS, columns, open_database(connection), pending=load, files=files)
