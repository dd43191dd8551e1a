"""How far a window's frame of RANGE reaches from a row, and in which types of columns: as plain data."""

from __future__ import annotations

from fractions import Fraction

from sfumato.dataclass import dataclass
from sfumato.query.schema import FLOATS, INTEGERS

_TIMES = ("DATE", "TIMESTAMP")
_ZONED = "TIMESTAMP WITH TIME ZONE"
_YEARS = 10_000
LARGEST = 10**18  # a number; so that it and a value are far within 128 bits
# Of months, days and microseconds: what reaches from any year to any other one.
_MOST = (12 * _YEARS, 366 * _YEARS, 366 * _YEARS * 24 * 3600 * 10**6)


@dataclass(frozen=True)
class Distance:
    """A number, or a span of time, that is not negative.

    Args:
        number: in the units of a column of numbers; None of a span.
        span: months, days and microseconds: a month has no fixed number of days, nor has a day one of hours
            where clocks are changed.
    """

    number: Fraction | None = None
    span: tuple[int, int, int] = (0, 0, 0)

    def __post_init__(self) -> None:
        given = (self.number,) if self.number is not None else self.span
        if any(part < 0 for part in given):
            raise ValueError("a distance in a window is not negative: PRECEDING and FOLLOWING say where to")
        if (self.number or 0) > LARGEST or any(p > most for p, most in zip(self.span, _MOST, strict=True)):
            raise ValueError(f"a distance in a window is at most {LARGEST:,}, or {_YEARS:,} years")

    @property
    def is_zero(self) -> bool:
        """Whether it comes to nothing."""
        return not (any(self.span) if self.number is None else self.number)

    def misfit(self, kind: str) -> str | None:
        """Say why values of a type cannot be compared at this distance, and what to write; else None."""
        number = self.number is not None
        if kind == "HUGEINT" or kind.startswith("DECIMAL(38,"):
            return f"{kind} leaves no room for a distance beyond it: CAST(... AS DOUBLE), or AS BIGINT"
        if kind in INTEGERS or kind in FLOATS or kind.startswith("DECIMAL("):
            return None if number else f"{kind} is a number, and the distance an INTERVAL: write a number"
        if kind not in (*_TIMES, _ZONED):
            return f"{kind} is no number, date or timestamp; CAST(... AS ...) makes it one"
        if number:
            return f"{kind} is a time, and the distance a number: write INTERVAL 30 DAYS"
        if kind == _ZONED and any(self.span[:2]):
            return (
                "which day or month a time with a zone is in depends on the zone: ORDER BY CAST(... AS "
                "TIMESTAMP), or write INTERVAL 720 HOURS"
            )
        return None
