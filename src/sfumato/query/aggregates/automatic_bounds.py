"""Aggregates with automatic bounds: those that a release infers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from fractions import Fraction
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError, QueryError, shown
from sfumato.exact import Number, as_fraction
from sfumato.query.aggregates.aggregate import (
    AUTO,
    Aggregate,
    Unbounded,
    column_name,
    format_call,
    get_bounds,
    is_auto,
    refuse_meant_auto,
    short,
)
from sfumato.query.schema import FLOATS, Derive, Kind, Schema, quote_name

# Bounds are no larger: what float64 can still square.
LARGEST_MAGNITUDE = 10**100


@dataclass(frozen=True, repr=False)
class Automatic(Aggregate):
    """An aggregate with a bound, or both, that a release is to infer.

    Args:
        make: the function that makes it.
        column: whose values are bounded.
        lower, upper: the bounds that are given; None of one that is to be found.
        magnitudes: between which the sizes of bounds are, that are to be found; None where nobody knows.
        options: what else the function was given.
    """

    make: Callable[..., Aggregate]
    column: str
    lower: Fraction | None
    upper: Fraction | None
    magnitudes: tuple[Fraction, Fraction] | None = None
    options: tuple[tuple[str, Any], ...] = field(default=())

    def bounded(self, lower: Fraction, upper: Fraction) -> Aggregate:
        """Return the aggregate with its given and inferred bounds."""
        return self.make(self.column, lower=lower, upper=upper, **dict(self.options))

    def __repr__(self) -> str:
        ends = {"lower": self.lower, "upper": self.upper}
        bounds = {name: AUTO if end is None else end for name, end in ends.items()}
        return format_call(
            self.make, self.column, bounds | {"magnitudes": self.magnitudes} | dict(self.options)
        )

    @property
    def placeholder(self) -> Aggregate:
        """The aggregate with placeholders for automatic bounds, by which all else can be checked."""
        if self.lower is not None:
            return self.bounded(self.lower, self.lower + max(abs(self.lower), Fraction(1)))
        upper = Fraction(1) if self.upper is None else self.upper
        return self.bounded(upper - max(abs(upper), Fraction(1)), upper)

    @property
    def needs_rows(self) -> bool:
        """Whether the aggregate depends on a limit of rows, as it does with bounds."""
        return self.placeholder.needs_rows

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of an aggregate with automatic bounds."""
        return self.placeholder.columns

    def outputs(self, name: str) -> tuple[str, ...]:
        """Return the output columns of an aggregate with automatic bounds."""
        return self.placeholder.outputs(name)

    def check(self, name: str, schema: Schema) -> None:
        """Check the columns of an aggregate with automatic bounds."""
        self.placeholder.check(name, schema)

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return the function and column of an aggregate with automatic bounds."""
        return f"{self.make.__name__} of {written.get(self.column, self.column)}, automatic bounds"


@dataclass(frozen=True, repr=False)
class Filled(Aggregate):
    """An aggregate of a column in which a number stands in the place of each missing value.

    Args:
        of: the aggregate.
        column: the column.
        missing: the number.
    """

    of: Aggregate
    column: str
    missing: Fraction

    @property
    def each(self) -> Aggregate:
        """The aggregate of the values with those that take the place of missing ones."""
        return self.of

    @property
    def needs_rows(self) -> bool:
        """Whether the aggregate depends on a limit of rows."""
        return self.of.needs_rows

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return what is computed from the values, missing ones replaced."""
        return f"{self.of.meaning(written)}, missing values as {float(self.missing):g}"

    def step(self, schema: Schema) -> Derive:
        """Return the step that makes a column without missing values."""
        column, number = schema[self.column], quote_name(self.column)
        whole = self.missing.denominator == 1 and abs(self.missing) < 2**63
        value = str(self.missing) if whole else repr(float(self.missing))
        if column.kind is Kind.BOOLEAN:
            number = f"CAST({number} AS TINYINT)"
        filled = f"coalesce({number}, {value})"
        if column.type_name in FLOATS:
            filled = f"CASE WHEN isnan({number}) THEN {value} ELSE {filled} END"
        return Derive(f"{self.column}_or_{short(self.missing)}", filled)


def with_bounds(
    make: Callable[..., Aggregate],
    column: object,
    bounds: tuple[Number | None, Number | None],
    magnitudes: object,
    of: Callable[[str, Fraction, Fraction], Aggregate],
    options: Mapping[str, Any] | None = None,
    missing: Number | None = None,
) -> Aggregate:
    """Return an aggregate with given bounds, with automatic ones, or without, as its function was called.

    Args:
        make: the function that makes it, and takes `options`.
        column: whose values are bounded.
        bounds: lower and upper, as they were given.
        magnitudes: between which the sizes of bounds are, that are to be found.
        of: makes the aggregate of a column with exact bounds.
        options: what else the function was given.
        missing: what stands in the place of a missing value; None where these are left out.
    Raises:
        QueryError: one bound is missing, or there are magnitudes beside bounds that are given.
        ParameterError: a bound, or `magnitudes`, is not admissible.
    """
    lower, upper = bounds
    name, given = column_name(make.__name__, column), tuple((options or {}).items())
    if missing is not None:
        what = f"{make.__name__}({shown(name)}) missing"
        value = as_fraction(missing, what)
        if abs(value) > LARGEST_MAGNITUDE:
            raise ParameterError(what, missing, "from -1e100 to 1e100")
        return Filled(with_bounds(make, name, bounds, magnitudes, of, options), name, value)
    if lower is None and upper is None:
        return Unbounded(make, name, given)
    if is_auto(lower) or is_auto(upper):
        return _automatic(make, name, lower, upper, magnitudes, given)
    if magnitudes is not None:
        raise QueryError(
            f"{make.__name__}: magnitudes= is for automatic bounds. Write lower='auto' or "
            "upper='auto' with it, or leave it out"
        )
    return of(name, *get_bounds(make.__name__, name, lower, upper))


def _automatic(
    make: Callable[..., Aggregate],
    name: str,
    lower: Number | None,
    upper: Number | None,
    magnitudes: object,
    options: tuple[tuple[str, Any], ...],
) -> Aggregate:
    what = f"{make.__name__}({shown(name)})"
    if lower is None or upper is None:
        missing = "lower" if lower is None else "upper"
        raise QueryError(f"{what}: {missing} missing; write {missing}='auto', or a number")
    refuse_meant_auto(what, lower, upper)
    low, high = (
        None if is_auto(end) else as_fraction(end, f"{what} {which}")
        for which, end in (("lower", lower), ("upper", upper))
    )
    asked = Automatic(make, name, low, high, _magnitudes(what, magnitudes), options)
    asked.placeholder  # noqa: B018  checks the bound that is given, and the options
    return asked


def _magnitudes(what: str, value: Any) -> tuple[Fraction, Fraction] | None:
    if value is None:
        return None
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ParameterError(f"{what} magnitudes", value, "two numbers, such as (1, 10**6)")
    least, most = (as_fraction(number, f"{what} magnitudes") for number in value)
    if not Fraction(1, LARGEST_MAGNITUDE) <= least < most <= LARGEST_MAGNITUDE:
        raise ParameterError(
            f"{what} magnitudes", value, "the smaller one first, greater than 0, and from 1e-100 to 1e100"
        )
    return least, most
