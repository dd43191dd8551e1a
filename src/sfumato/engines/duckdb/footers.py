"""What the footers of Parquet files prove of columns, so that no row need be held against it."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal

import pyarrow.parquet as pq

from sfumato.query import sizes


def harmless_columns(footers: Sequence[pq.FileMetaData], kinds: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Return columns of dates and decimals whose smallest and largest values are ones of their type.

    Reading these can stop at no value, and DuckDB itself leaves out row groups by the same numbers; of text
    and times it could take for given what reading would stop at.

    Args:
        footers: of all files of a table.
        kinds: names and DuckDB types of its columns.
    """
    wanted = {
        name: kind for name, kind in kinds if kind == "DATE" or re.fullmatch(r"DECIMAL\(\d+,\d+\)", kind)
    }
    if len(wanted) * sum(footer.num_row_groups for footer in footers) > sizes.FOOTER_CHUNKS:
        return frozenset()
    found = set(wanted)
    for footer in footers:
        places = {footer.schema.column(i).path: i for i in range(footer.num_columns)}
        found = {name for name in found if name in places and _within(footer, places[name], wanted[name])}
    return frozenset(found)


def _within(footer: pq.FileMetaData, place: int, kind: str) -> bool:
    column = footer.schema.column(place)
    # Others have orders of their own, in which not all writers agree.
    if (
        column.physical_type not in ("INT32", "INT64")
        or column.max_repetition_level
        or column.name != column.path
    ):
        return False
    with suppress(Exception):  # of dates that Python does not have
        return all(
            _chunk_is_within(footer.row_group(i).column(place).statistics, kind)
            for i in range(footer.num_row_groups)
        )
    return False


def _chunk_is_within(told: pq.Statistics | None, kind: str) -> bool:
    if told is None:
        return False
    if not told.has_min_max:
        return bool(told.has_null_count and told.num_values == 0)
    ends = told.min, told.max
    if kind == "DATE":  # those that Python has are of the years 1 to 9999
        return all(type(end) is datetime.date for end in ends)
    width, scale = map(int, re.findall(r"\d+", kind))
    return all(isinstance(end, Decimal) and abs(end.scaleb(scale)) < 10**width for end in ends)
