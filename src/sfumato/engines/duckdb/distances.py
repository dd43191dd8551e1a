"""Frames of RANGE with a distance, such that no value raises where DuckDB adds the distance to it.

DuckDB adds in the type of the ORDER BY key, and stops where that overflows. So whole numbers and decimals are
compared in a wider type, and dates and times only within the years that everything else here has.
"""

from __future__ import annotations

from fractions import Fraction

from sfumato.engines.duckdb.text import double, literal
from sfumato.query.distance import Distance
from sfumato.query.schema import FLOATS, INTEGERS

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


def reach(distance: Distance, kind: str) -> str:
    """Return SQL of a distance, in the type of the wide key."""
    if distance.number is None:
        months, days, microseconds = distance.span
        return f"INTERVAL '{months} months {days} days {microseconds} microseconds'"
    if kind in FLOATS:
        return f"CAST({double(float(distance.number))} AS {kind})"
    # Between whole numbers, and decimals, there is none of more digits.
    scale = 0 if kind in INTEGERS else _scale(kind)
    steps = int(distance.number * 10**scale)
    if kind in INTEGERS:
        return f"CAST({steps} AS HUGEINT)"
    steps = min(steps, 2 * 10**37)  # farther than two of them are apart, and it fits
    return f"CAST({literal(_decimal(Fraction(steps, 10**scale), scale))} AS DECIMAL(38,{scale}))"


def _ends(kind: str) -> tuple[str, str]:
    return (_FIRST[:10], _LAST[:10]) if kind == "DATE" else (_FIRST, _LAST)


def _scale(kind: str) -> int:
    return int(kind.removesuffix(")").partition(",")[2])


def _decimal(value: Fraction, scale: int) -> str:
    whole, rest = divmod(int(value * 10**scale), 10**scale)
    return f"{whole}.{rest:0{scale}d}" if scale else str(whole)
