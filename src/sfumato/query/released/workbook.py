"""A release as a workbook for Excel: its numbers, error bars beside them, and a second sheet of what it is.

What a cell holds was in somebody's rows, or is a name that somebody gave: texts are written as texts, also
those that begin as formulas do. XlsxWriter is an optional part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.errors import QueryError
from sfumato.files import replacing

MOST_ROWS = 1_048_575  # beside the names
_LONGEST = 32_000  # characters of a cell, of which Excel has a few more
_FIRST_DAY = date(1900, 3, 1)  # before it Excel counts a day that there never was
_WHOLE = 1 << 53  # beyond it not every whole number is one that Excel has
_WIDE = 18  # of columns, in characters


def write(
    path: Path, table: pa.Table, about: Sequence[tuple[str, Any]], check: Callable[[], object] = lambda: None
) -> None:
    """Write a workbook of two sheets, `Release` and `About`; it appears when it is complete.

    Args:
        path: of the file.
        table: what the first sheet has.
        about: lines of the second one: what each is about, and what is said.
        check: refuses, by what it raises, before a file of that name is replaced.
    Raises:
        QueryError: there are more rows than a sheet has.
    """
    if table.num_rows > MOST_ROWS:
        raise QueryError(
            f"write: a sheet has {MOST_ROWS:,} rows beside the names, and the release {table.num_rows:,}; it "
            "is drawn and kept: write it to a .parquet or .csv file"
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
    """Write the values of a column below its name."""
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
    """Return the values of a column as Excel has them exactly: else their texts."""
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
