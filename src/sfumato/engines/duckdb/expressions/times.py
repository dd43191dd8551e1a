"""Total forms of what computes with dates, times and intervals.

Dates of the years 1 to 9999 are moved and measured, so that nothing leaves the range of a type; others are
NULL there.
"""

from __future__ import annotations

import duckdb

from sfumato.dialect.syntax_tree import Node, ask
from sfumato.engines.duckdb.expressions.safe_parts import (
    DATED,
    Part,
    Unsafe,
    constants,
    named,
    once,
    over,
    plain,
    rename_call,
    timely,
    tried,
)
from sfumato.errors import nearest
from sfumato.query.schema import FLOATS, INTEGERS

_LONGEST_FORMAT = 256
_TIMED = (*DATED, "TIME", "INTERVAL")
# Of a time of day, which has no date, these say something too.
_PARTS_OF_HOURS = {"hour", "minute", "second", "millisecond", "microsecond", "date_part", "datepart"}
# Of these some raise at the ends of the calendar.
_WITHIN_CALENDAR = {
    "date_diff", "date_part", "date_trunc", "datediff", "datepart", "datetrunc", "isoyear", "last_day",
    "strftime", "week", "weekofyear", "yearweek",
}  # fmt: skip


def time_arithmetic(node: Node, sign: str, parts: list[Part]) -> Part | None:
    """Return the total form of an operation with times; None if there is no time in it."""
    types = [p.type_name for p in parts]
    if not any(t.startswith(_TIMED) for t in types):
        return None
    kinds = [
        "time" if t.startswith(DATED) else "number" if t in FLOATS or t in INTEGERS else t for t in types
    ]
    days = [t in INTEGERS and "DATE" in types for t in types]
    if all(p.constant or p.type_name != "INTERVAL" or _is_short(p.node) for p in parts):
        match sign, kinds:
            case "-", ["time", "time"]:
                return plain(node, sign, [_in_calendar(p) for p in parts])
            case "+" | "-", ["time", "INTERVAL"]:
                return _shift_time(sign, *parts)
            case "+", ["INTERVAL", "time"]:
                return _shift_time(sign, parts[1], parts[0])
            case "+" | "-", ["time", "number"] if days[1]:
                return _later(sign, *parts)
            case "+", ["number", "time"] if days[0]:
                return _later(sign, parts[1], parts[0])
            case "*", ["INTERVAL", "number"] if parts[0].constant:
                return _multiply(*parts)
            case "*", ["number", "INTERVAL"] if parts[1].constant:
                return _multiply(parts[1], parts[0])
    raise Unsafe(
        node,
        f"computes with {named(parts)}. Use a date plus or minus whole days or an interval, one "
        "date minus another, or a number times a constant interval, such as x * INTERVAL '1 day'",
    )


def _is_short(node: Node) -> bool:
    """Whether an interval is of a form that is made here, and so leads out of no calendar."""
    return node["class"] == "FUNCTION" and node["function_name"] in ("*", "-")


def _in_calendar(part: Part) -> Part:
    if part.type_name in ("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"):
        part = tried(part, "TIMESTAMP")
    return over("CASE WHEN year(_0) BETWEEN 1 AND 9999 THEN _0 END", once(part))


def _later(sign: str, date: Part, days: Part) -> Part:
    return over(f"_0 {sign} _1", _in_calendar(date), tried(tried(days, "DECIMAL(7,0)"), "INTEGER"))


def _shift_time(sign: str, time: Part, by: Part) -> Part:
    if by.constant:
        _check_interval(by)
    return over(f"_0 {sign} _1", _in_calendar(time), by)


def _check_interval(part: Part, times: str = "1") -> None:
    """Refuse an interval that leads from a date of the years 1 to 9999 out of all calendars."""
    ends = [
        f"TIMESTAMPTZ '{day} 00:00:00+00' {sign} ({part.text}) * {times}"
        for day in ("0001-01-01", "9999-12-31")
        for sign in "+-"
    ]
    try:
        ask(f"SELECT hash({', '.join(ends)})")
    except duckdb.Error:
        raise Unsafe(part.node, "is too long an interval: it leads outside the calendar") from None


def _multiply(interval: Part, number: Part) -> Part:
    for most in range(9, 0, -1):
        try:
            _check_interval(interval, "9" * most)
        except Unsafe:
            continue
        if number.type_name in INTEGERS:
            factor = tried(tried(number, f"DECIMAL({most},0)"), "BIGINT")
        else:
            factor = over(f"CASE WHEN abs(_0) < 1e{most} - 1 THEN _0 END", once(number))
        return over("_0 * _1", interval, factor)
    raise Unsafe(interval.node, "is too long an interval to be multiplied")


def _part_of_time(node: Node, name: str, parts: list[Part]) -> Part:
    new = list(parts)
    for i, part in enumerate(parts):
        if part.constant and part.type_name == "VARCHAR":
            continue
        if not part.type_name.startswith(DATED) and not (
            part.type_name == "TIME" and name in _PARTS_OF_HOURS
        ):
            raise Unsafe(
                node, f"uses {name}, which takes a date or a timestamp. Cast to one: CAST(... AS DATE)"
            )
        if name in _WITHIN_CALENDAR and part.type_name != "TIME":
            new[i] = _in_calendar(part)
    return plain(node, name, new)


def _format(node: Node, name: str, parts: list[Part]) -> Part:
    ((length,),) = ask(f"SELECT strlen(CAST({parts[1].text} AS VARCHAR))") if len(parts) == 2 else ((0,),)
    if (length or 0) > _LONGEST_FORMAT:  # each part of it may become 30 characters
        raise Unsafe(parts[1].node, f"is a format of more than {_LONGEST_FORMAT} characters")
    return _part_of_time(node, name, parts)


def _parse(node: Node, name: str, parts: list[Part]) -> Part:
    return constants(1, then=_read)(rename_call(node, "try_strptime"), name, parts)


def _read(node: Node, name: str, parts: list[Part]) -> Part:
    cut = [timely(p) if p.type_name == "VARCHAR" and not p.constant else p for p in parts]
    return plain(node, name, cut)


def _from_epoch(node: Node, name: str, parts: list[Part]) -> Part:
    if len(parts) != 1:
        raise Unsafe(node, "uses to_timestamp, which takes a number of seconds")
    seconds = once(tried(parts[0], "DOUBLE"))
    # The years 1 to 9999.
    return over("to_timestamp(CASE WHEN _0 BETWEEN -62135596800 AND 253402300799 THEN _0 END)", seconds)


def _from_microseconds(node: Node, name: str, parts: list[Part]) -> Part:
    if len(parts) != 1 or parts[0].type_name not in INTEGERS:
        raise Unsafe(node, "uses make_timestamp, which takes a whole number of microseconds")
    number = once(tried(parts[0], "BIGINT"))
    # The years 1 to 9999.
    return over(
        "make_timestamp(CASE WHEN _0 BETWEEN -62135596800000000 AND 253402300799999999 THEN _0 END)", number
    )


def _date(node: Node, name: str, parts: list[Part]) -> Part:
    if len(parts) != 3 or any(p.type_name not in INTEGERS for p in parts):
        raise Unsafe(node, "uses make_date, which takes a year, a month and a day, all whole numbers")
    return over("TRY_CAST(_0 || '-' || _1 || '-' || _2 AS DATE)", *(tried(p, "VARCHAR") for p in parts))


def _in_zone(node: Node, name: str, parts: list[Part]) -> Part:
    """Read a time in a zone: `ts AT TIME ZONE 'Europe/Berlin'`."""
    if len(parts) != 2 or not parts[0].constant:
        raise Unsafe(node, "needs the name of one zone: ts AT TIME ZONE 'Europe/Berlin'")
    ((zone,),) = ask(f"SELECT CAST({parts[0].text} AS VARCHAR)")
    known = ask("SELECT name FROM pg_timezone_names() WHERE lower(name) = lower(?)", [zone or ""])
    if not known:
        near = nearest(zone or "", [one for (one,) in ask("SELECT name FROM pg_timezone_names()")])
        hint = f"; did you mean {near!r}?" if near else "; write one such as 'Europe/Berlin' or 'UTC'"
        raise Unsafe(parts[0].node, f"is not a known time zone{hint}")
    if not parts[1].type_name.startswith(DATED):
        raise Unsafe(node, "uses AT TIME ZONE, which takes a date or a timestamp")
    return plain(node, name, [parts[0], _in_calendar(parts[1])])
