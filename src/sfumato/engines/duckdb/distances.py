"""Frames of RANGE with a distance: which rows they have follows from values, in exact arithmetic.

DuckDB adds the distance to the ORDER BY key in the key's type. It stops where that overflows. Where the sum
is the key itself (NaN, infinities, 1e300 - 1), its frame begins among equal rows, in the order in which they
lie in memory. So rows are ordered by a whole number here, `place`, which is even and grows with the key. The
ends of a row's frame are odd, so that no frame begins or ends among equal rows.
"""

from __future__ import annotations

from math import ceil, floor

import numpy as np

from sfumato.engines.duckdb.text import double, literal
from sfumato.query.schema import FLOATS, INTEGERS
from sfumato.query.tables.distance import Distance

_FIRST, _LAST = "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"
_FAR = "10000000000000000000::HUGEINT"  # microseconds, beyond all times and distances
_FARTHEST = 2 * 10**37  # steps of a decimal: farther than two of them are apart


def place(column: str, kind: str) -> str:
    """Return SQL of the even whole number by which a key is ordered; NULL beyond the years 1 to 9999.

    Args:
        column: SQL of the key, of which equal values are the same.
        kind: its type, one that `Distance.misfit` admits.
    """
    if kind in FLOATS:
        return f"2 * {_code(f'CAST({column} AS DOUBLE)')}"
    if kind in INTEGERS:
        return f"2 * CAST({column} AS HUGEINT)"
    if kind.startswith("DECIMAL("):
        return f"2 * CAST(replace(CAST({column} AS VARCHAR), '.', '') AS HUGEINT)"
    beyond = f"CASE WHEN {column} > {_day(_LAST, kind)} THEN {_FAR} ELSE -{_FAR} END"
    return f"CASE WHEN isinf({column}) THEN {beyond} ELSE {_twice_microseconds(_time(column, kind))} END"


def frame_end(
    end: str, distance: Distance, kind: str, column: str, last: bool, down: bool
) -> tuple[str, str]:
    """Return an end of a frame, with {} for how far it is from a row's place, and SQL of that.

    Args:
        end: "{} PRECEDING" or "{} FOLLOWING".
        distance: how far it is from a row's key.
        kind, column: the key's type, and SQL of it.
        last: whether the frame ends there, or begins.
        down: whether the order is descending.
    """
    # From its own peers an outer end reaches outwards; an inner one leaves out those that are nearer.
    following = end.endswith("FOLLOWING")
    inner = following is not last
    if inner and distance.is_zero:  # to 0 before a row is to its last peer
        return frame_end("{} PRECEDING" if following else "{} FOLLOWING", distance, kind, column, last, down)
    if kind in INTEGERS or kind.startswith("DECIMAL("):
        one = 1 if kind in INTEGERS else 10 ** _scale(kind)
        steps = min((ceil if inner else floor)((distance.number or 0) * one), _FARTHEST)
        return end, f"{2 * steps + (-1 if inner else 1)}::HUGEINT"
    upwards, upper = following is not down, last is not down
    if kind in FLOATS:
        key = f"CAST({column} AS DOUBLE)"
        edge, usual = _edge(key, _double(distance, kind), upwards, upper), f"isfinite({column})"
    else:
        months, days, rest = distance.span
        span = f"INTERVAL '{months} months {days} days {rest} microseconds'"
        moved = f"({_time(column, kind)}) {'+' if upwards else '-'} {span}"
        edge, usual = f"({_twice_microseconds(moved)}) {'+' if upper else '-'} 1", f"NOT isinf({column})"
    here = place(column, kind)
    far = f"({edge}) - ({here})" if upwards else f"({here}) - ({edge})"
    # An infinite value, and NaN, is near itself alone.
    return end, f"CASE WHEN {usual} THEN {far} ELSE 1::HUGEINT END"


def _code(value: str) -> str:
    """Return SQL of a whole number that grows with a DOUBLE, by 1 from one to the next; 0 is that of 0."""
    bits = f"CAST(CAST({value} AS BIT) AS BIGINT)"
    return f"CAST(CASE WHEN {bits} < 0 THEN -9223372036854775808 - {bits} ELSE {bits} END AS HUGEINT)"


def _edge(key: str, distance: float, upwards: bool, upper: bool) -> str:
    """Return SQL of the odd number between places that are within a distance of a finite key and others.

    The sum of key and distance is rounded, and what that changed is exact (Knuth 1969, "TwoSum").
    """
    far = double(distance if upwards else -distance)
    total = f"({key} + {far})"
    part = f"({total} - {key})"
    lost = f"(({key} - ({total} - {part})) + ({far} - {part}))"
    if upper:
        beside = f"CASE WHEN {lost} < 0 THEN -1 ELSE 1 END"
    else:
        beside = f"CASE WHEN {lost} > 0 THEN 1 ELSE -1 END"
    return f"2 * {_code(total)} + {beside}"


def _double(distance: Distance, kind: str) -> float:
    """Return the distance as the nearest value of a type, or of DOUBLE where that is 0."""
    exact = float(distance.number or 0)
    if kind == "DOUBLE":
        return exact
    return float(np.float32(exact)) or exact


def _time(column: str, kind: str) -> str:
    """Return SQL of a key as a TIMESTAMP; NULL where it is infinite, or beyond the years 1 to 9999."""
    zoned = kind == "TIMESTAMP WITH TIME ZONE"
    moved = f"{column} AT TIME ZONE 'UTC'" if zoned else f"TRY_CAST({column} AS TIMESTAMP)"
    return f"CASE WHEN {column} BETWEEN {_day(_FIRST, kind)} AND {_day(_LAST, kind)} THEN {moved} END"


def _day(text: str, kind: str) -> str:
    text = text[:10] if kind == "DATE" else text + "+00" * (kind == "TIMESTAMP WITH TIME ZONE")
    return f"CAST({literal(text)} AS {kind})"


def _twice_microseconds(time: str) -> str:
    return f"2 * CAST(epoch_us({time}) AS HUGEINT)"


def _scale(kind: str) -> int:
    return int(kind.removesuffix(")").partition(",")[2])
