"""Rows that come as Arrow batches: copied, when first needed, to a table that DuckDB keeps out of core."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import duckdb
import pyarrow as pa

from sfumato.engines.duckdb import behind, spill
from sfumato.engines.duckdb.connection import connect
from sfumato.engines.duckdb.harmless import described, harmless, harmless_schema, within, within_types
from sfumato.engines.duckdb.resources import Resources
from sfumato.engines.duckdb.source import ROWS, Source, arriving, no_rows, owned
from sfumato.errors import EngineError, in_own_words
from sfumato.files import whole_source

# Formats whose values have types, so that none can stop the reading of others.
_TYPED = ("parquet", "ipc", "orc")


def open_relation(relation: duckdb.DuckDBPyRelation, resources: Resources) -> Source:
    """Open a relation of DuckDB, on whatever connection it is."""
    with suppress(Exception), in_own_words():
        schema = relation.limit(0).to_arrow_table().schema
        return _opened(
            "DuckDB relation", schema, relation.to_arrow_reader, resources, behind.relation(relation)
        )
    raise EngineError("scan: the DuckDB relation cannot be described; fetchall() it to see why")


def open_dataset(dataset: Any, resources: Resources) -> Source:
    """Open a dataset of Arrow, whose files may be anywhere.

    Raises:
        EngineError: its files are text, in which one row can stop the reading.
    """
    for part in _parts(dataset):
        kind = getattr(getattr(part, "format", None), "default_extname", None)
        if kind is not None and kind not in (*_TYPED, "feather", "arrow"):
            raise EngineError(
                f"scan: a dataset of {kind} files stops at a row that is not written well, which would "
                f"tell of it; give the files themselves, such as 'folder/*.{kind}'"
            )
    files = tuple(whole_source(file) for part in _parts(dataset) for file in getattr(part, "files", ()))
    return _opened("Arrow dataset", dataset.schema, lambda: dataset.scanner().to_reader(), resources, files)


def open_stream(stream: Any, resources: Resources) -> Source | None:
    """Open what gives Arrow batches once: a reader, a cursor of ADBC, whatever has `__arrow_c_stream__`.

    None of what gives no batches, or something else than rows, as a column does.

    Raises:
        EngineError: a cursor has no rows.
    """
    name = type(stream).__name__
    with suppress(Exception), in_own_words():
        reader = _reader(stream)  # which of anything else raises
        return _opened(f"Arrow stream ({name})", reader.schema, _once(reader), resources)
    if _is_cursor(stream):
        raise EngineError("scan: the cursor has no rows; execute a query first")
    return None


def is_dataset(source: object) -> bool:
    """Whether it is a dataset of Arrow."""
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
            raise EngineError("the Arrow stream was read before, and broke off; make it again, and scan it")
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
    connection = connect(resources=resources)
    empty = no_rows(schema.remove_metadata())
    connection.register("empty_rows", empty)
    kinds = described(connection, "empty_rows")
    kept, columns = within(connection, "empty_rows", kinds)
    connection.execute(f"CREATE TABLE {ROWS} AS FROM {kept}")
    loaded: list[bool] = []
    loading = threading.Lock()

    def load(cursor: duckdb.DuckDBPyConnection, columns: Sequence[str]) -> None:
        with loading:
            if not loaded:
                copy(cursor)

    def copy(cursor: duckdb.DuckDBPyConnection) -> None:
        batches = spill.keep(reader())
        schema = harmless_schema(batches.schema)
        typed = (
            pa.RecordBatch.from_arrays([harmless(c) for c in batch.columns], schema=schema)
            for batch in batches
        )
        # Interrupted once they were there, and not yet said to be, all rows would come a second time.
        cursor.execute(f"TRUNCATE {ROWS}")
        with arriving(cursor, schema, typed):
            cursor.execute(f"INSERT INTO {ROWS} FROM {within_types('arriving', kinds)}").fetchall()
        loaded.append(True)

    return Source(name, ROWS, columns, owned(connection), pending=load, files=files)
