"""Files that a release is written to and read back from."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.errors import EngineError, ParameterError

FORMATS = (".parquet", ".csv", ".json")
ROW_GROUP = 1 << 16


def checked_path(path: str | Path) -> Path:
    """Return the path, if its ending names a format and its folder is there.

    Raises:
        ParameterError: another ending, or no such folder.
    """
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise ParameterError("output path", str(path), "a name that ends in .parquet, .csv or .json")
    if not target.parent.is_dir():
        raise ParameterError("output path", str(path), "in a folder that exists")
    return target


def write(path: Path, batches: Iterator[pa.RecordBatch]) -> None:
    """Write batches as they come; a file appears under its name only when it is complete."""
    part = path.with_name(path.name + ".part")
    writers = {".parquet": _write_parquet, ".csv": _write_csv, ".json": _write_json}
    try:
        writers[path.suffix.lower()](part, regular(batches))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def regular(batches: Iterator[pa.RecordBatch], rows: int | None = None) -> Iterator[pa.RecordBatch]:
    """Cut batches anew, into a fixed number of rows: those of a row group, unless others are asked for.

    A batch of a release holds the groups that were selected among a fixed number of exact ones:
    its length, seen in a file's row groups, would tell how many there were.
    """
    each = ROW_GROUP if rows is None else rows
    waiting: list[pa.RecordBatch] = []
    size, schema = 0, None
    for batch in batches:
        schema = batch.schema
        waiting.append(batch)
        size += batch.num_rows
        if size >= each:
            table = pa.Table.from_batches(waiting).combine_chunks()
            whole = size - size % each
            yield from table.slice(0, whole).to_batches(max_chunksize=each)
            waiting, size = table.slice(whole).to_batches(), size - whole
    if schema is not None:
        rest = pa.Table.from_batches(waiting, schema=schema).combine_chunks().to_batches()
        yield from rest or [pa.RecordBatch.from_pylist([], schema=schema)]


def read(path: Path) -> pa.Table:
    """Read back what `write` wrote."""
    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet

        return pyarrow.parquet.read_table(path)
    if path.suffix.lower() == ".csv":
        import pyarrow.csv

        return pyarrow.csv.read_csv(path)
    with path.open(encoding="utf-8") as lines:
        return pa.Table.from_pylist([json.loads(line) for line in lines])


def require(module: str, extra: str) -> None:
    """Raise an error that says what to install, if a module is not there."""
    if importlib.util.find_spec(module) is None:
        raise EngineError(f"{module} is not installed; install it with: pip install 'sfumato[{extra}]'")


def _write_parquet(path: Path, batches: Iterator[pa.RecordBatch]) -> None:
    from pyarrow.parquet import ParquetWriter, write_table

    if not _written(path, batches, ParquetWriter):
        write_table(pa.table({}), path)


def _write_csv(path: Path, batches: Iterator[pa.RecordBatch]) -> None:
    from pyarrow.csv import CSVWriter

    if not _written(path, batches, CSVWriter):
        path.touch()


def _written(path: Path, batches: Iterator[pa.RecordBatch], make: Callable[[Path, pa.Schema], Any]) -> bool:
    """Write batches by a writer of the first one's schema; False where there is no batch."""
    writer: Any = None
    try:
        for batch in batches:
            writer = writer or make(path, batch.schema)
            writer.write_batch(batch)
    finally:
        if writer is not None:
            writer.close()
    return writer is not None


def _write_json(path: Path, batches: Iterator[pa.RecordBatch]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for batch in batches:
            for row in batch.to_pylist():
                file.write(json.dumps(row, default=str, ensure_ascii=False) + "\n")
