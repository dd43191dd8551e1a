"""Files that a release is written to and read back from."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote

import pyarrow as pa

from sfumato.display.text import FORMULA, guarded, unguarded
from sfumato.errors import EngineError, RefusalError
from sfumato.files import checked_place, identity, replacing

if TYPE_CHECKING:
    import polars

FORMATS = (".parquet", ".csv", ".json")
WORKBOOK = ".xlsx"
ROW_GROUP = 1 << 16
METADATA = b"sfumato"  # the key of a schema's metadata with what is said of a table
_OTHER = (
    "{} is no longer the file that this release was written to, which alone holds its numbers: it is gone, "
    "or was changed since. Call to_arrow() before write(), and both see the same numbers"
)


def checked_path(path: str | Path, *, workbook: bool = False) -> Path:
    """Return the whole path, if its ending names a format and a file can be there.

    Args:
        path: to be written.
        workbook: whether Excel's format is one of them.
    Raises:
        ParameterError: no path, another ending, no such folder, or something else than a file.
        EngineError: what writes workbooks is not installed.
        OSError: no file can have the name.
    """
    target = checked_place(path, "output path", (*FORMATS, WORKBOOK) if workbook else FORMATS)
    if is_workbook(target):
        require("xlsxwriter", "excel")
    for companion in written_files(target)[1:]:
        checked_place(companion, "output path", (".json",))
    return target


def written_files(path: Path) -> tuple[Path, ...]:
    """Return the files that a release writes for a path: the table and, for CSV and JSON, its metadata.

    Source:
        Model for Tabular Data and Metadata on the Web (W3C, 2015), section 5.3, the default location.
    """
    if path.suffix.lower() in (".csv", ".json"):
        return path, path.with_name(f"{path.name}-metadata.json")
    return (path,)


def is_workbook(path: Path) -> bool:
    """Whether a path is that of a workbook, which is written in one piece."""
    return path.suffix.lower() == WORKBOOK


def write(
    path: Path,
    batches: Iterator[pa.RecordBatch],
    check: Callable[[], object] = lambda: None,
    said: Mapping[str, Any] | None = None,
) -> tuple[int, ...]:
    """Write batches as they come; a file appears under its name only when it is complete.

    Args:
        path: of the file.
        batches: to be written.
        check: refuses, by what it raises, before a file of that name is replaced.
        said: what is said of them, as plain data: Parquet keeps it in the metadata of its schema; CSV and
            JSON have a second file for it, which is there before the table is.
    Returns:
        What tells this file from any other, for `read`.
    """
    writers = {".parquet": _write_parquet, ".csv": write_csv, ".json": _write_json}
    with replacing(path, check) as file:
        ready = regular(batches)
        if said and path.suffix.lower() == ".parquet":
            ready = (batch.replace_schema_metadata(schema_metadata(said)) for batch in ready)
        writers[path.suffix.lower()](file, ready)
        file.flush()
        for companion in written_files(path)[1:] if said else ():
            with replacing(companion, check) as metadata:
                metadata.write(_metadata(path, said or {}))
        return identity(file)


def schema_metadata(facts: Mapping[str, Any]) -> dict[bytes, bytes]:
    """Return facts about a table as metadata for its schema."""
    return {METADATA: json.dumps(facts, ensure_ascii=False).encode()}


def _metadata(path: Path, said: Mapping[str, Any]) -> bytes:
    """Return facts about a table as metadata in the form of the W3C's CSV on the Web."""
    found: dict[str, Any] = {
        "@context": "http://www.w3.org/ns/csvw",
        "url": quote(os.fsencode(path.name)),
    }
    sentences = [text for text in said.values() if isinstance(text, str)]
    if sentences:
        found["dc:description"] = " ".join(sentences)
    return json.dumps(found | {"notes": [said]}, indent=2, ensure_ascii=False).encode() + b"\n"


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


def read(path: Path, written: tuple[int, ...], types: Mapping[str, pa.DataType]) -> pa.Table:
    """Read back what `write` wrote.

    Args:
        path: of the file.
        written: what `write` returned.
        types: of the columns whose types must not follow from what is in the file.
    Raises:
        RefusalError: it is gone, or something else is there now.
    """
    try:
        file = path.open("rb")
    except OSError:
        file = None
    if file is None:
        raise RefusalError(_OTHER.format(path))
    with file:
        if identity(file) != written:
            raise RefusalError(_OTHER.format(path))
        if path.suffix.lower() == ".parquet":
            import pyarrow.parquet

            return pyarrow.parquet.read_table(file)
        if path.suffix.lower() == ".csv":
            import pyarrow.csv

            # What stands in quotes is a text, be it empty or "NA"; NULL alone is nothing at all.
            typed = pyarrow.csv.ConvertOptions(
                column_types={guarded(name): kind for name, kind in types.items()},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            )
            whole = pyarrow.csv.ParseOptions(newlines_in_values=True)
            table = pyarrow.csv.read_csv(file, convert_options=typed, parse_options=whole)
            names = map(unguarded, table.column_names)
            return pa.table([with_formulas(column) for column in table.columns], list(names))
        table = pa.Table.from_pylist([json.loads(line) for line in file])
        fields = [pa.field(f.name, types.get(f.name, f.type)) for f in table.schema]
        return table.cast(pa.schema(fields))


def require(module: str, extra: str) -> None:
    """Raise an error that says what to install, if a module is not there."""
    if importlib.util.find_spec(module) is None:
        raise EngineError(f"{module} is not installed; install it with: pip install 'sfumato[{extra}]'")


def to_polars(table: pa.Table) -> polars.DataFrame:
    """Return a table as a Polars data frame, if Polars is installed."""
    require("polars", "polars")
    import polars

    frame = polars.from_arrow(table)
    assert isinstance(frame, polars.DataFrame)
    return frame


def _write_parquet(file: BinaryIO, batches: Iterator[pa.RecordBatch]) -> None:
    from pyarrow.parquet import ParquetWriter, write_table

    if not _written(file, batches, ParquetWriter):
        write_table(pa.table({}), file)


def write_csv(file: BinaryIO, batches: Iterator[pa.RecordBatch]) -> None:
    """Write batches as CSV, in which no text is a formula of a spreadsheet; without a batch, no header."""
    from pyarrow.csv import CSVWriter

    _written(file, map(without_formulas, batches), CSVWriter)


def without_formulas(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch as CSV files have it: no text or name in it is a formula of a spreadsheet."""
    columns = [_replaced(column, f"^{FORMULA}", r"'\1") for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, [guarded(name) for name in batch.schema.names])


def with_formulas(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of texts as it was before `without_formulas`."""
    return _replaced(column, f"^'{FORMULA}", r"\1")


def _replaced(column: Any, pattern: str, replacement: str) -> Any:
    """Return a column with a pattern replaced, where it holds texts."""
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind) and _is_text(kind.value_type):
        column, kind = column.cast(kind.value_type), kind.value_type
    if not _is_text(kind):
        return column
    if kind == pa.string_view():  # which has no such function
        column = column.cast(pa.string())
    return pc.replace_substring_regex(column, pattern=pattern, replacement=replacement)


def _is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def _written(
    file: BinaryIO, batches: Iterator[pa.RecordBatch], make: Callable[[BinaryIO, pa.Schema], Any]
) -> bool:
    """Write batches by a writer of the first one's schema; False where there is no batch."""
    writer: Any = None
    try:
        for batch in batches:
            writer = writer or make(file, batch.schema)
            writer.write_batch(batch)
    finally:
        if writer is not None:
            writer.close()
    return writer is not None


def _write_json(file: BinaryIO, batches: Iterator[pa.RecordBatch]) -> None:
    for batch in batches:
        for row in batch.to_pylist():
            file.write(json.dumps(row, default=str, ensure_ascii=False).encode() + b"\n")
