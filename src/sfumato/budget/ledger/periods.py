"""Calendar periods, in UTC, by which a cap may be renewed."""

from __future__ import annotations

from datetime import date

PERIODS = ("week", "month", "quarter", "year")


def period_of(day: date, period: str | None) -> str:
    """Return the name of the period that a day is in; later ones sort later.

    Args:
        day: in UTC.
        period: one of `PERIODS`; None for all time, which is one period without a name.

    >>> [period_of(date(2027, 1, 2), each) for each in PERIODS]
    ['2026-W53', '2027-01', '2027-Q1', '2027']
    """
    if period is None:
        return ""
    if period == "week":
        year, week, _ = day.isocalendar()
        return f"{year:04}-W{week:02}"
    if period == "month":
        return f"{day.year:04}-{day.month:02}"
    if period == "quarter":
        return f"{day.year:04}-Q{(day.month + 2) // 3}"
    return f"{day.year:04}"
