"""Base classes of aggregates, the record of the call that made one, and checks of columns and bounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeGuard, TypeVar, cast

from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.display.formatting import format_repr as spelled_value
from sfumato.errors import ColumnError, ParameterError, QueryError, shown
from sfumato.exact import Number, as_fraction
from sfumato.names import Suggesting, foreign_names, not_a_column, suggest_arguments
from sfumato.query.schema import IN_PLACE, Kind, Schema, format_name

if TYPE_CHECKING:
    from sfumato.plan.required_statistics import Design
    from sfumato.query.aggregates.estimate import Estimate
    from sfumato.query.aggregates.weighted_aggregates import Weighted

F = TypeVar("F", bound=Callable[..., Any])
_CALL = "_called_by"
# A column with its bounds: aggregates of the same one may share statistics.
Block = tuple[str, Fraction, Fraction]
AUTO = "auto"
_NUMBERS = "a number: 'auto' chooses bounds of sum, mean, variance and stddev only"
_MEANT_AUTO = ("auto", "automatic", "automatically", "detect", "guess", "infer", "none", "?")


@dataclass(frozen=True)
class Call:
    """A recorded call of a function that makes an aggregate.

    Args:
        function: its name.
        args, named: what it was given, by place and by name.
    """

    function: str
    args: tuple[Any, ...]
    named: Mapping[str, Any]


def aggregate_function(*sql_names: str, counts: bool = False) -> Callable[[F], F]:
    """Decorate a function that makes an aggregate, so that the aggregate records its call.

    The call is not one of its fields, so aggregates of two different calls can be equal.

    Args:
        sql_names: the names of the function in SQL.
        counts: whether it counts, so that a bound in SQL is a limit of rows.

    >>> from sfumato.query.aggregates import median
    >>> get_call(median("age", lower=0, upper=100))
    Call(function='median', args=('age',), named={'lower': 0, 'upper': 100})
    """

    def marked(function: F) -> F:
        made: Any = suggest_arguments(_record_call(function))
        made.sql_names, made.counts = sql_names, counts
        return cast(F, made)

    return marked


def sql_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names in SQL of a function that makes an aggregate."""
    names: tuple[str, ...] = vars(function)["sql_names"]
    return names


def counts(function: Callable[..., Any]) -> bool:
    """Whether a function makes an aggregate that counts, so that its bound in SQL is a limit of rows."""
    return vars(function).get("counts", False) is True


def _record_call(function: F) -> F:
    note = _note

    def call(*args: Any, **named: Any) -> Any:
        return note(function(*args, **named), function.__name__, args, named)

    # With the globals of the function's own module: doctest looks there for the examples of what it holds.
    own: dict[str, Any] = function.__globals__
    made = FunctionType(call.__code__, own, function.__name__, None, call.__closure__)
    return cast(F, wraps(function)(made))


def get_call(made: object) -> Call | None:
    """Return the recorded call that made an aggregate; None if it was changed since."""
    found: Call | None = vars(made).get(_CALL)
    return found


def _note(made: Any, function: str, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    found = Call(
        function, tuple(map(_copy_argument, args)), {name: _copy_argument(one) for name, one in named.items()}
    )
    object.__setattr__(made, _CALL, found)
    return made


def _copy_argument(value: Any) -> Any:
    """Return an argument of a recorded call as a value that later changes of a list do not reach."""
    if isinstance(value, list):
        return tuple(value)
    return dict(value) if isinstance(value, Mapping) else value


@dataclass(frozen=True, repr=False)
class Aggregate(Suggesting, Spelled, ABC):
    """The base class of the aggregates that `Table.agg` takes, as plain data.

    Functions such as `count`, `sum` and `quantile` return them. Two aggregates that compute the same are
    equal.

    >>> import sfumato as sf
    >>> sf.sum("minutes", lower=0, upper=180)
    Sum(column='minutes', lower=0, upper=180, per=None)
    >>> sf.mean("minutes", lower=0, upper=180) == sf.mean("minutes", lower=0, upper="180.0")
    True
    """

    _foreign = foreign_names.AGGREGATE
    needs_moments: ClassVar[bool] = False  # whether it bounds each row of its column, and adds values up
    needs_squares: ClassVar[bool] = False  # whether squares of these values are added up for it, too
    in_totals: ClassVar[bool] = False  # whether totals of groups have it

    def _in_messages(self) -> str | None:
        call = get_call(self)
        if call is None:
            return None
        given = [*map(shown, call.args), *(f"{name}={shown(one)}" for name, one in call.named.items())]
        return f"sf.{call.function}({', '.join(given)})"

    @property
    def placeholder(self) -> Aggregate:
        """The aggregate with placeholders for bounds that are to be inferred; by default itself."""
        return self

    @property
    def each(self) -> Aggregate:
        """The aggregate of each group that this one is made of; by default itself."""
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of an aggregate."""
        column = vars(self).get("column")
        return () if column is None else (column,)

    @property
    def needs_rows(self) -> bool:
        """Whether an aggregate depends on the limit of rows per unit and group."""
        return True

    @property
    def limits_values(self) -> bool:
        """Whether an aggregate limits how many distinct values of a unit count."""
        return False

    @property
    def bounds(self) -> tuple[tuple[str, Fraction, Fraction], ...]:
        """The numeric columns that an aggregate clamps, each with its bounds."""
        return ()

    def clamps(self, schema: Schema) -> bool:
        """Whether an aggregate's bounds may clamp values of its columns."""
        return False

    @property
    def derived(self) -> bool:
        """Whether an aggregate is computed from other outputs, with no statistics of its own."""
        return False

    @property
    def divisible(self) -> bool:
        """Whether units over the limit of groups may be scaled down for this aggregate."""
        return True

    @property
    def of_groups(self) -> bool:
        """Whether an aggregate can be grouped."""
        return True

    def outputs(self, name: str) -> tuple[str, ...]:
        """Return the output columns of an aggregate of this name."""
        return (name,)

    def drawn(self, name: str) -> tuple[str, ...]:
        """Return the output columns of an aggregate that a chart shows side by side."""
        return self.outputs(name)

    def of_columns(self, columns: Mapping[str, str]) -> Self:
        """Return an aggregate with its columns renamed."""
        if not self.columns:
            return self
        given: Any = self
        return replace(given, column=columns[given.column])  # type: ignore[no-any-return]

    def check(self, name: str, schema: Schema) -> None:
        """Check that an aggregate's columns exist and have types that it accepts.

        Args:
            name: by which it is asked.
            schema: the columns that there are.
        Raises:
            ColumnError: a column is not there, or has a type of which this cannot be asked.
        """
        for column in self.columns:
            if column not in schema:
                raise ColumnError._unknown(column, schema, f"agg: {name}", not_a_column(column, schema))

    def estimates(self, design: Design, name: str) -> tuple[Estimate, ...]:
        """Return the estimates of an aggregate's outputs, and add the statistics that they need.

        Args:
            design: collects the statistics that the outputs need.
            name: the name of the aggregate in the query.
        """
        raise AssertionError(f"{type(self).__name__} has no statistics of its own")

    def weighted_estimates(self, design: Design, name: str, aggregate: Weighted) -> tuple[Estimate, ...]:
        """Return the estimates of an aggregate with survey weights; `aggregate` has the weights."""
        raise AssertionError(f"{type(self).__name__} has no weighted form")

    @abstractmethod
    def meaning(self, written: Mapping[str, str]) -> str:
        """Return a short description of an aggregate, for charts and explanations.

        Args:
            written: what is shown in the place of a column, by its name.
        """

    def note(self, name: str) -> str | None:
        """Return what a user should know about an aggregate's output, if anything."""
        return None


@dataclass(frozen=True, repr=False)
class BoundedAggregate(Aggregate):
    """Base class of aggregates of one column with bounds on its values."""

    kind: ClassVar[str]

    column: str
    lower: Fraction
    upper: Fraction

    @property
    def block(self) -> Block:
        """The column and bounds by which bounded aggregates share statistics."""
        return self.column, self.lower, self.upper

    @property
    def bounds(self) -> tuple[tuple[str, Fraction, Fraction], ...]:
        """The column of a bounded aggregate, with its bounds."""
        return ((self.column, self.lower, self.upper),)

    def clamps(self, schema: Schema) -> bool:
        """Whether a bounded aggregate may clamp values; truth values are within 0 and 1."""
        return schema[self.column].kind is not Kind.BOOLEAN or self.lower > 0 or self.upper < 1

    def check(self, name: str, schema: Schema) -> None:
        """Check that the column of a bounded aggregate exists, and holds numbers."""
        super().check(name, schema)
        check_numeric(name, self.column, schema)

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return the kind of a bounded aggregate, its column and bounds."""
        column = written.get(self.column, self.column)
        return f"{self.kind} of {column}, bounds {float(self.lower):g} to {float(self.upper):g}"


@dataclass(frozen=True, repr=False)
class Unbounded(Aggregate):
    """An aggregate without bounds, which the table's catalog must declare.

    Args:
        make: the function that makes it.
        column: whose bounds are to be taken.
        options: what else the function was given.
    """

    make: Callable[..., Aggregate]
    column: str
    options: tuple[tuple[str, Any], ...] = ()

    def bounded(self, lower: Fraction, upper: Fraction) -> Aggregate:
        """Return the aggregate with the bounds that a catalog declares."""
        options = dict(self.options) | ({"per": "row"} if "per" in dict(self.options) else {})
        return self.make(self.column, lower=lower, upper=upper, **options)

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return the function and column of an aggregate without bounds."""
        return f"{self.make.__name__} of {written.get(self.column, self.column)}"

    def __repr__(self) -> str:
        return format_call(self.make, self.column, dict(self.options))

    def refusal(self, remedy: str = "") -> QueryError:
        """Return the error that an aggregate's bounds are missing."""
        return _missing(self.make.__name__, self.column, self.options, "lower and upper are", remedy)


def format_call(make: Callable[..., Aggregate], column: str, named: Mapping[str, Any]) -> str:
    """Return the Python call that makes an aggregate, as text."""
    given = [spelled_value(column)]
    given += [f"{name}={spelled_value(value)}" for name, value in named.items() if value is not None]
    return f"sf.{make.__name__}({', '.join(given)})"


def check_numeric(name: str, column: str, schema: Schema) -> None:
    """Check that the column of an aggregate holds numbers.

    Raises:
        ColumnError: it does not.
    """
    if schema[column].entries is not None:
        kind, entry = schema[column].type_name, f"{format_name(column)}[1]"
        raise ColumnError(
            f"agg: {name} needs numbers, but column {column!r} is {kind}; use one entry, "
            f"{entry}, {IN_PLACE}, or in Python vector_sum"
        )
    if not schema[column].kind.numeric:
        kind, spelt = schema[column].type_name, format_name(column)
        # No cast makes a number of a time.
        of_time = kind.startswith(("DATE", "TIME"))
        number = f"epoch({spelt}), seconds since 1970," if of_time else f"try_cast({spelt} AS DOUBLE)"
        raise ColumnError(
            f"agg: {name} needs numbers, but column {column!r} is {kind}; use {number} {IN_PLACE}"
        )


def column_name(function: str, column: object) -> str:
    """Return the column name that an aggregate's function was given.

    Raises:
        QueryError: it is no text.
    """
    if not isinstance(column, str):
        raise QueryError(f"{function}: the column is {shown(column)}, but must be a column's name, as text")
    return column


def short(number: Fraction) -> str:
    """Return a bound of an aggregate as text; different bounds have different texts."""
    for text in (f"{float(number):g}", repr(float(number))):
        if number in (Fraction(text), Fraction(float(text))):
            return text
    return str(number)


def is_auto(bound: object) -> TypeGuard[str]:
    """Whether a bound of an aggregate is "auto"."""
    return isinstance(bound, str) and bound == AUTO


def refuse_meant_auto(what: str, lower: object, upper: object) -> None:
    """Refuse words that probably mean "auto" as a bound of an aggregate."""
    for name, bound in (("lower", lower), ("upper", upper)):
        if isinstance(bound, str) and bound.casefold() in _MEANT_AUTO and bound != AUTO:
            found = what.partition("(")[0] in ("sum", "mean", "variance", "stddev")
            wanted = 'a number, or "auto", which chooses one for a part of epsilon' if found else _NUMBERS
            raise ParameterError(f"{what} {name}", bound, wanted)


def get_bounds(
    function: str,
    column: str,
    lower: Number | None,
    upper: Number | None,
    arguments: tuple[tuple[str, Any], ...] = (),
) -> tuple[Fraction, Fraction]:
    """Return the exact bounds that an aggregate's function was given.

    Raises:
        QueryError: one is missing.
        ParameterError: as of `check_bounds`.
    """
    if lower is None or upper is None:
        names = [n for n, v in (("lower", lower), ("upper", upper)) if v is None]
        missing = f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'}"
        raise _missing(function, column, arguments, missing)
    return check_bounds(f"{function}({shown(column)})", lower, upper)


def _missing(
    function: str, column: str, arguments: tuple[tuple[str, Any], ...], missing: str, remedy: str = ""
) -> QueryError:
    ranks = "".join(
        f", {list(v) if isinstance(v, tuple) else v}" for n, v in arguments if n in ("rank", "ranks")
    )
    return QueryError(
        f"{function}({shown(column)}): {missing} missing, so no amount of noise is enough. "
        f"Write {function}({shown(column)}{ranks}, lower=..., upper=...) with a range known "
        f"beforehand, not read from the data{remedy}"
    )


def check_bounds(what: str, lower: object, upper: object) -> tuple[Fraction, Fraction]:
    """Return exact lower and upper bounds of an aggregate, or raise what is wrong with them.

    Args:
        what: whose they are, for the error.
        lower, upper: numbers, as `as_fraction` takes them.
    Raises:
        ParameterError: one is no finite number, lower is not below upper, or float64 cannot tell them apart.
    """
    if is_auto(lower) or is_auto(upper):
        raise QueryError(
            f"{what}: 'auto' chooses bounds of sum, mean, variance and stddev only. Write numbers "
            "between which values are known to lie"
        )
    refuse_meant_auto(what, lower, upper)
    low, high = as_fraction(lower, f"{what} lower"), as_fraction(upper, f"{what} upper")
    if low >= high:
        raise ParameterError(f"{what} lower", lower, f"below upper, which is {shown(upper)}")
    # What float64 can still square, and tell apart.
    if max(abs(low), abs(high)) > 10**100 or high - low < Fraction(1, 10**100):
        raise ParameterError(f"{what} bounds", (lower, upper), "between 1e-100 and 1e100 in size")
    if (high - low) * 2**45 < max(abs(low), abs(high)):
        raise ParameterError(f"{what} bounds", (lower, upper), "further apart, or nearer to zero")
    return low, high
