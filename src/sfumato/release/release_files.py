"""Files that a release is written to and read back from, workbooks of Excel among them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote

import pyarrow as pa

from sfumato import __version__
from sfumato.display.formatting import FORMULA, exact, guard_formula, unguard_formula
from sfumato.errors import QueryError, RefusalError, require
from sfumato.files import check_output_path, identity, replacing
from sfumato.query.error_bars import Bars
from sfumato.release.canonical_form import canonical_digest

if TYPE_CHECKING:
    from sfumato.release.noisy_table import NoisyTable


FORMATS = (".parquet", ".csv", ".json")
WORKBOOK = ".xlsx"
ROW_GROUP = 1 << 16
METADATA = b"sfumato"  # the key of a schema's metadata with what is said of a table
_OTHER = (
    "{} is no longer the file that this release was written to, and the only copy of its numbers: it "
    "is gone, or was changed. Call to_arrow() before write() to keep a copy"
)


def check_path(path: str | Path, *, workbook: bool = False) -> Path:
    """Return the path of a release file, if its ending names a format and a file can be there.

    Args:
        path: to be written.
        workbook: whether Excel's format is one of them.
    Raises:
        ParameterError: no path, another ending, no such folder, or something else than a file.
        EngineError: what writes workbooks is not installed.
        OSError: no file can have the name.
    """
    target = check_output_path(path, "output path", (*FORMATS, WORKBOOK) if workbook else FORMATS)
    if is_workbook(target):
        require("xlsxwriter", "excel")
    for companion in written_files(target)[1:]:
        check_output_path(companion, "output path", (".json",))
    return target


def written_files(path: Path) -> tuple[Path, ...]:
    """Return the files that a release is written to: the table and, for CSV and JSON, its metadata.

    Source:
        Model for Tabular Data and Metadata on the Web (W3C, 2015), section 5.3, the default location.
    """
    if path.suffix.lower() in (".csv", ".json"):
        return path, path.with_name(f"{path.name}-metadata.json")
    return (path,)


def is_workbook(path: Path) -> bool:
    """Whether a release file is an Excel workbook, which is written in one piece."""
    return path.suffix.lower() == WORKBOOK


def write(
    path: Path,
    batches: Iterator[pa.RecordBatch],
    check: Callable[[], object] = lambda: None,
    said: Mapping[str, Any] | None = None,
) -> tuple[int, ...]:
    """Write a release file batch by batch; it appears under its name only when it is complete.

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
    """Return facts about a release as metadata for the schema of its file."""
    return {METADATA: json.dumps(facts, ensure_ascii=False).encode()}


def _metadata(path: Path, said: Mapping[str, Any]) -> bytes:
    """Return facts about a release file as metadata in the form of the W3C's CSV on the Web."""
    found: dict[str, Any] = {
        "@context": "http://www.w3.org/ns/csvw",
        "url": quote(os.fsencode(path.name)),
    }
    sentences = [text for text in said.values() if isinstance(text, str)]
    if sentences:
        found["dc:description"] = " ".join(sentences)
    return json.dumps(found | {"notes": [said]}, indent=2, ensure_ascii=False).encode() + b"\n"


def regular(batches: Iterator[pa.RecordBatch], rows: int | None = None) -> Iterator[pa.RecordBatch]:
    """Cut batches of a release to a fixed number of rows, so that a file does not show selected groups.

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
    """Read a release file back that `write` wrote.

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
                column_types={guard_formula(name): kind for name, kind in types.items()},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            )
            whole = pyarrow.csv.ParseOptions(newlines_in_values=True)
            table = pyarrow.csv.read_csv(file, convert_options=typed, parse_options=whole)
            names = map(unguard_formula, table.column_names)
            return pa.table([with_formulas(column) for column in table.columns], list(names))
        table = pa.Table.from_pylist([json.loads(line) for line in file])
        fields = [pa.field(f.name, types.get(f.name, f.type)) for f in table.schema]
        return table.cast(pa.schema(fields))


def _write_parquet(file: BinaryIO, batches: Iterator[pa.RecordBatch]) -> None:
    from pyarrow.parquet import ParquetWriter, write_table

    if not _written(file, batches, ParquetWriter):
        write_table(pa.table({}), file)


def write_csv(file: BinaryIO, batches: Iterator[pa.RecordBatch]) -> None:
    """Write a CSV file of a release, in which no text is a spreadsheet formula; no batch, no header."""
    from pyarrow.csv import CSVWriter

    _written(file, map(without_formulas, batches), CSVWriter)


def without_formulas(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch as a CSV file has it: no text or name in it is a spreadsheet formula."""
    columns = [_replace_pattern(column, f"^{FORMULA}", r"'\1") for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, [guard_formula(name) for name in batch.schema.names])


def with_formulas(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of texts from a CSV file as it was before `without_formulas`."""
    return _replace_pattern(column, f"^'{FORMULA}", r"\1")


def _replace_pattern(column: Any, pattern: str, replacement: str) -> Any:
    """Return a column for a CSV file with a pattern replaced, if it holds texts."""
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
    """Write batches to a release file by a writer of the first one's schema; False without a batch."""
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


MAX_ROWS = 1_048_575  # beside the names
_LONGEST = 32_000  # characters of a cell, of which Excel has a few more
_FIRST_DAY = date(1900, 3, 1)  # before it Excel counts a day that there never was
_WHOLE = 1 << 53  # beyond it not every whole number is one that Excel has
_WIDE = 18  # of columns, in characters


def write_workbook(
    path: Path, table: pa.Table, about: Sequence[tuple[str, Any]], check: Callable[[], object] = lambda: None
) -> None:
    """Write an Excel workbook of a release with two sheets, `Release` and `About`.

    Args:
        path: of the file.
        table: what the first sheet has.
        about: lines of the second one: what each is about, and what is said.
        check: refuses, by what it raises, before a file of that name is replaced.
    Raises:
        QueryError: there are more rows than a sheet has.
    """
    if table.num_rows > MAX_ROWS:
        raise QueryError(
            f"write: a sheet has {MAX_ROWS:,} rows below the header, but the release has "
            f"{table.num_rows:,}. It is drawn and kept: write it to a .parquet or .csv file"
        )
    from xlsxwriter import Workbook

    with replacing(path, check) as file:
        # Numbers that are none are written as texts below, and nothing is guessed from a text.
        book = Workbook(file, {"in_memory": True, "strings_to_urls": False, "strings_to_formulas": False})
        head = book.add_format({"bold": True, "bottom": 1})
        sheet = book.add_worksheet("Release")
        for place, name in enumerate(table.column_names):
            sheet.write_string(0, place, _cut(name), head)
            _fill(book, sheet, place, table.column(place))
        sheet.set_column(0, max(table.num_columns - 1, 0), _WIDE)
        sheet.freeze_panes(1, 0)
        told = book.add_worksheet("About")
        wrapped = book.add_format({"text_wrap": True, "valign": "top", "align": "left"})
        told.set_column(0, 0, _WIDE, book.add_format({"valign": "top"}))
        told.set_column(1, 1, 100)
        for line, (name, said) in enumerate(about):
            told.write_string(line, 0, _cut(name))
            if isinstance(said, float):
                told.write_number(line, 1, said, wrapped)
            else:
                told.write_string(line, 1, _cut(str(said)), wrapped)
        book.close()


def _fill(book: Any, sheet: Any, place: int, column: pa.ChunkedArray) -> None:
    """Write the values of a column into a sheet of the workbook."""
    forms = {datetime: "yyyy-mm-dd hh:mm:ss.000", date: "yyyy-mm-dd", time: "hh:mm:ss.000"}
    formats = {kind: book.add_format({"num_format": form}) for kind, form in forms.items()}
    for line, value in enumerate(_values(column), 1):
        if value is None:
            continue
        if isinstance(value, bool):
            sheet.write_boolean(line, place, value)
        elif isinstance(value, int | float):
            sheet.write_number(line, place, value)
        elif isinstance(value, datetime | date | time):
            sheet.write_datetime(line, place, value, formats[type(value)])
        else:
            sheet.write_string(line, place, _cut(value))


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column as Excel has them exactly; else their texts."""
    kind = column.type
    nanoseconds = (pa.types.is_timestamp(kind) and kind.unit == "ns") or pa.types.is_time64(kind)
    if nanoseconds or pa.types.is_duration(kind):
        column = column.cast(pa.string())  # as Python has none of them
    return [_value(value) for value in column.to_pylist()]


def _value(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _WHOLE else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Decimal):
        near = float(value)  # of which Excel has fifteen digits
        return near if math.isfinite(near) and Decimal(f"{near:.15g}") == value else str(value)
    if isinstance(value, datetime):
        told = value.tzinfo is None and value.date() >= _FIRST_DAY and not value.microsecond % 1000
        return value if told else value.isoformat(sep=" ")
    if isinstance(value, date):
        return value if value >= _FIRST_DAY else value.isoformat()
    if isinstance(value, time):
        return value if value.tzinfo is None and not value.microsecond % 1000 else value.isoformat()
    return value.hex() if isinstance(value, bytes) else str(value)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def about(release: NoisyTable, bars: Bars | None) -> list[tuple[str, Any]]:
    """Return the lines of the workbook sheet `About`: cost, unit, bounds, error bars, plan.

    Args:
        release: that was drawn.
        bars: the error bars that stand beside the numbers; None without any.
    """
    from sfumato.release.release_display import error_bars

    epsilon, delta = release._spent
    content: dict[str, Any] = release.explain().to_dict()
    lines: list[tuple[str, Any]] = [("released by", f"sfumato {__version__}, with differential privacy")]
    if release._engine.made_up:
        lines.append(("WARNING", "of dummy rows: an answer about nobody"))
    lines += [("epsilon", exact(epsilon)), ("delta", exact(delta))]
    for one in content.get("releases", [content]):
        lines += _single_release(one)
    if "computed" in content:
        lines.append(("computed", f"with the noisy table alone: {content['computed']}"))
    lines += [("found", str(found)) for found in release.found]
    named = {"±": ("error bars", " They are in columns that end in _error.")}
    for name, said in error_bars(release, bars):
        called, where = named.get(name, (name, ""))
        lines.append((called, f"{said}{where}"))
    notes = [note for one in content.get("releases", [content]) for note in one["notes"]]
    lines += [("note", note) for note in dict.fromkeys([*notes, *release.hints])]
    return [*lines, ("plan, SHA-256", canonical_digest(release.canonical()))]


def _single_release(content: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "privacy unit", content["privacy_unit"]
    if content["group_by"]:
        yield "groups", f"{', '.join(content['group_by'])} ({content['groups_are']})"
    if "told" in content:  # the largest groups
        yield from (("step", step) for step in content["told"])
        return
    limits = content["limits"]
    for name, what in _LIMITS.items():
        if limits.get(name) is not None:
            yield "limit", f"{what}: {limits[name]:,}"
    for statistic in content["statistics"]:
        if "lower" in statistic:
            yield "bounds", f"{statistic['what']}: {statistic['lower']:g} to {statistic['upper']:g}"
    yield "noise", content["noise"]


_LIMITS = {
    "groups_per_unit": "groups in which a unit counts, at most",
    "rows_per_unit_and_group": "rows of a unit in a group, at most",
    "rows_per_unit": "rows of a unit in all groups, at most",
}
