"""Frames of RANGE with a distance, such that no value raises where DuckDB adds the distance to it.

DuckDB adds in the type of the ORDER BY key, and stops where that overflows. So whole numbers and decimals are
compared in a wider type, and dates and times only within the years that everything else here has.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor

from sfumato.engines.duckdb.text import double, literal
from sfumato.query.schema import FLOATS, INTEGERS
from sfumato.query.tables.distance import Distance

_FIRST, _LAST = "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"


def wide_key(column: str, kind: str) -> str:
    """Return SQL of a key to which any distance may be added; NULL beyond the years 1 to 9999.

    Args:
        column: SQL of the key.
        kind: its type, one that `Distance.misfit` admits.
    """
    if kind in INTEGERS:
        return f"CAST({column} AS HUGEINT)"
    if kind.startswith("DECIMAL("):
        return f"CAST({column} AS DECIMAL(38,{_scale(kind)}))"
    if kind in FLOATS:
        return column  # beyond all numbers is an infinity
    zoned = kind == "TIMESTAMP WITH TIME ZONE"
    first, last = (f"CAST({literal(one + '+00' * zoned)} AS {kind})" for one in _ends(kind))
    moved = f"{column} AT TIME ZONE 'UTC'" if zoned else f"TRY_CAST({column} AS TIMESTAMP)"
    return f"CASE WHEN isinf({column}) OR {column} BETWEEN {first} AND {last} THEN {moved} END"


def frame_ends(ends: Sequence[str], distances: Sequence[Distance | None], kind: str) -> list[str]:
    """Return SQL of the two ends of a frame, of which those with {} are at distances.

    Where a distance comes to nothing, CURRENT ROW stands: rows that are equal in the order are meant, in the
    middle of which DuckDB may begin to look. Only a frame that ends before it begins keeps the 0: no row is
    in it, wherever DuckDB looks.
    """
    far = [distance and _steps(distance, kind, _inner(i, ends[i])) for i, distance in enumerate(distances)]
    same = all(far) and ends[0] == ends[1]
    found = []
    for i, (end, one) in enumerate(zip(ends, far, strict=True)):
        beside = far[1 - i]
        empty = same and _inner(1 - i, end) and beside is not None and not beside.is_zero
        nothing = one is not None and one.is_zero and not empty
        found.append("CURRENT ROW" if nothing else end if one is None else end.format(_sql(one, kind)))
    return found


def _inner(i: int, end: str) -> bool:
    """Whether rows count from an end of PRECEDING back, or from a start of FOLLOWING on."""
    return end.endswith("FOLLOWING") == (i == 0)


def _steps(distance: Distance, kind: str, inner: bool) -> Distance:
    """Return a distance in whole steps of a key: nothing is a part of one apart."""
    if distance.number is None or kind in FLOATS:
        return distance
    one = 10 ** (0 if kind in INTEGERS else _scale(kind))
    return Distance(Fraction((ceil if inner else floor)(distance.number * one), one))


def _sql(distance: Distance, kind: str) -> str:
    """Return SQL of a distance, in the type of the wide key."""
    if distance.number is None:
        months, days, microseconds = distance.span
        return f"INTERVAL '{months} months {days} days {microseconds} microseconds'"
    if kind in FLOATS:
        return f"CAST({double(float(distance.number))} AS {kind})"
    if kind in INTEGERS:
        return f"CAST({distance.number} AS HUGEINT)"
    scale = _scale(kind)
    most = Fraction(2 * 10**37, 10**scale)  # farther than two of them are apart, and it fits
    return f"CAST({literal(_decimal(min(distance.number, most), scale))} AS DECIMAL(38,{scale}))"


def _ends(kind: str) -> tuple[str, str]:
    return (_FIRST[:10], _LAST[:10]) if kind == "DATE" else (_FIRST, _LAST)


def _scale(kind: str) -> int:
    return int(kind.removesuffix(")").partition(",")[2])


def _decimal(value: Fraction, scale: int) -> str:
    whole, rest = divmod(int(value * 10**scale), 10**scale)
    return f"{whole}.{rest:0{scale}d}" if scale else str(whole)
