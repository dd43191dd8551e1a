"""What is asked of each group: its columns, its outputs, what it needs, and the call that made it."""

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
from sfumato.display.formatting import spelled as spelled_value
from sfumato.errors import ColumnError, ParameterError, QueryError, shown
from sfumato.exact import Number, as_fraction
from sfumato.names import Suggesting, foreign_names, helpful, not_a_column
from sfumato.query.schema import IN_PLACE, Kind, Schema, spelled

if TYPE_CHECKING:
    from sfumato.plan.required_statistics import Design
    from sfumato.query.aggregates.estimate import Estimate
    from sfumato.query.aggregates.weighted import Weighted

F = TypeVar("F", bound=Callable[..., Any])
_CALL = "_called_by"
# A column with its bounds: aggregates of the same one may share statistics.
Block = tuple[str, Fraction, Fraction]
AUTO = "auto"
_NUMBERS = "a number: 'auto' finds bounds of sum, mean, variance and stddev alone"
_MEANT_AUTO = ("auto", "automatic", "automatically", "detect", "guess", "infer", "none", "?")


@dataclass(frozen=True)
class Call:
    """A call of a function that makes an aggregate.

    Args:
        function: its name.
        args, named: what it was given, by place and by name.
    """

    function: str
    args: tuple[Any, ...]
    named: Mapping[str, Any]


def asked(*sql_names: str, counts: bool = False) -> Callable[[F], F]:
    """Decorate a public function that makes an aggregate: the aggregate records its call.

    The call is not one of its fields, so aggregates of two different calls can be equal.

    Args:
        sql_names: the names of the function in SQL.
        counts: whether it counts, so that a bound in SQL is a limit of rows.

    >>> from sfumato.query.aggregates import median
    >>> call_of(median("age", lower=0, upper=100))
    Call(function='median', args=('age',), named={'lower': 0, 'upper': 100})
    """

    def marked(function: F) -> F:
        made: Any = helpful(_remembered(function))
        made.sql_names, made.counts = sql_names, counts
        return cast(F, made)

    return marked


def sql_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names in SQL of a function that makes an aggregate."""
    names: tuple[str, ...] = vars(function)["sql_names"]
    return names


def counts(function: Callable[..., Any]) -> bool:
    """Whether a function makes an aggregate that counts."""
    return vars(function).get("counts", False) is True


def _remembered(function: F) -> F:
    note = _note

    def call(*args: Any, **named: Any) -> Any:
        return note(function(*args, **named), function.__name__, args, named)

    # With the globals of the function's own module: doctest looks there for the examples of what it holds.
    own: dict[str, Any] = function.__globals__
    made = FunctionType(call.__code__, own, function.__name__, None, call.__closure__)
    return cast(F, wraps(function)(made))


def call_of(made: object) -> Call | None:
    """Return the call that made an aggregate; None where no function of ours did, as after a change of it."""
    found: Call | None = vars(made).get(_CALL)
    return found


def _note(made: Any, function: str, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    found = Call(function, tuple(map(_kept, args)), {name: _kept(one) for name, one in named.items()})
    object.__setattr__(made, _CALL, found)
    return made


def _kept(value: Any) -> Any:
    """Return a value that does not change with a list or dict that the caller goes on to use."""
    if isinstance(value, list):
        return tuple(value)
    return dict(value) if isinstance(value, Mapping) else value


@dataclass(frozen=True, repr=False)
class Aggregate(Suggesting, Spelled, ABC):
    """Something that is asked of each group, as `Table.agg` takes it: plain data, with nothing to call.

    Made by functions such as `count`, `sum` and `quantile`; two of them are equal where they ask the same.

    >>> import sfumato as sf
    >>> sf.sum("minutes", lower=0, upper=180)
    Sum(column='minutes', lower=0, upper=180, per=None)
    >>> sf.mean("minutes", lower=0, upper=180) == sf.mean("minutes", lower=0, upper="180.0")
    True
    """

    _foreign = foreign_names.AGGREGATE

    def _in_messages(self) -> str | None:
        call = call_of(self)
        if call is None:
            return None
        given = [*map(shown, call.args), *(f"{name}={shown(one)}" for name, one in call.named.items())]
        return f"sf.{call.function}({', '.join(given)})"

    @property
    def each(self) -> Aggregate:
        """What is asked of each group by itself, of which this is made."""
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is asked of."""
        column = vars(self).get("column")
        return () if column is None else (column,)

    @property
    def needs_rows(self) -> bool:
        """Whether what it promises depends on a limit of rows per unit and group."""
        return True

    @property
    def limits_values(self) -> bool:
        """Whether it has a limit of its own on how many values of a unit count."""
        return False

    @property
    def bounds(self) -> tuple[tuple[str, Fraction, Fraction], ...]:
        """The columns of numbers whose values it clamps, each with its bounds."""
        return ()

    def clamps(self, schema: Schema) -> bool:
        """Whether it has bounds that may clamp what its columns hold."""
        return False

    @property
    def derived(self) -> bool:
        """Whether it is computed of other outputs, and nothing is measured for it."""
        return False

    @property
    def divisible(self) -> bool:
        """Whether a part of a unit may count, that is in more public groups than the limit."""
        return True

    @property
    def of_groups(self) -> bool:
        """Whether it can be asked of groups; else of the whole table alone."""
        return True

    def outputs(self, name: str) -> tuple[str, ...]:
        """Return the output columns, where it is asked by a name."""
        return (name,)

    def drawn(self, name: str) -> tuple[str, ...]:
        """Return the output columns that a picture shows beside each other."""
        return self.outputs(name)

    def of_columns(self, columns: Mapping[str, str]) -> Self:
        """Return the same, of columns by other names."""
        if not self.columns:
            return self
        given: Any = self
        return replace(given, column=columns[given.column])  # type: ignore[no-any-return]

    def check(self, name: str, schema: Schema) -> None:
        """Check that it can be asked of its columns.

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
        """Return how each output is computed from noisy statistics.

        Args:
            design: collects the statistics that the outputs need.
            name: the name of the aggregate in the query.
        """
        raise AssertionError(f"{type(self).__name__} has no statistics of its own")

    def weighted_estimates(self, design: Design, name: str, asked: Weighted) -> tuple[Estimate, ...]:
        """Return the same for the population that weighted rows stand for; `asked` has the weights."""
        raise AssertionError(f"{type(self).__name__} has no weighted form")

    @abstractmethod
    def meaning(self, written: Mapping[str, str]) -> str:
        """Return what it is, in a few words, for pictures.

        Args:
            written: what is shown in the place of a column, by its name.
        """

    def note(self, name: str) -> str | None:
        """What whoever asks should know of an output of this name: that it is not quite what it is called."""
        return None


@dataclass(frozen=True, repr=False)
class BoundedAggregate(Aggregate):
    """An aggregate of a column with bounds on its values."""

    kind: ClassVar[str]
    needs_squares: ClassVar[bool] = False  # whether squares of values are added up for it

    column: str
    lower: Fraction
    upper: Fraction

    @property
    def block(self) -> Block:
        """What may share statistics: the column and its bounds."""
        return self.column, self.lower, self.upper

    @property
    def bounds(self) -> tuple[tuple[str, Fraction, Fraction], ...]:
        """The column with its bounds."""
        return ((self.column, self.lower, self.upper),)

    def clamps(self, schema: Schema) -> bool:
        """Whether values may be beyond the bounds: truth values are not beyond 0 and 1."""
        return schema[self.column].kind is not Kind.BOOLEAN or self.lower > 0 or self.upper < 1

    def check(self, name: str, schema: Schema) -> None:
        """Check that the column is there, and holds numbers."""
        super().check(name, schema)
        check_numeric(name, self.column, schema)

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return its kind, the column and the bounds."""
        column = written.get(self.column, self.column)
        return f"{self.kind} of {column}, bounds {float(self.lower):g} to {float(self.upper):g}"


@dataclass(frozen=True, repr=False)
class Unbounded(Aggregate):
    """An aggregate whose bounds are left to the catalog of its table; without one it cannot be asked.

    Args:
        make: the function that makes it.
        column: whose bounds are to be taken.
        options: what else the function was given.
    """

    make: Callable[..., Aggregate]
    column: str
    options: tuple[tuple[str, Any], ...] = ()

    def bounded(self, lower: Fraction, upper: Fraction) -> Aggregate:
        """Return the aggregate with bounds of each row."""
        options = dict(self.options) | ({"per": "row"} if "per" in dict(self.options) else {})
        return self.make(self.column, lower=lower, upper=upper, **options)

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return its function and the column."""
        return f"{self.make.__name__} of {written.get(self.column, self.column)}"

    def __repr__(self) -> str:
        return spelled_call(self.make, self.column, dict(self.options))

    def refusal(self, remedy: str = "") -> QueryError:
        """Say that bounds are missing."""
        return _missing(self.make.__name__, self.column, self.options, "lower and upper", remedy)


def spelled_call(make: Callable[..., Aggregate], column: str, named: Mapping[str, Any]) -> str:
    """Return the call that makes an aggregate, as one writes it."""
    given = [spelled_value(column)]
    given += [f"{name}={spelled_value(value)}" for name, value in named.items() if value is not None]
    return f"sf.{make.__name__}({', '.join(given)})"


def check_numeric(name: str, column: str, schema: Schema) -> None:
    """Check that a column holds numbers.

    Raises:
        ColumnError: it does not.
    """
    if schema[column].entries is not None:
        kind, entry = schema[column].type_name, f"{spelled(column)}[1]"
        raise ColumnError(
            f"agg: {name} asks for numbers of column {column!r}, which is {kind}; take one entry, {entry}, "
            f"{IN_PLACE}, or in Python vector_sum, the sum of vectors"
        )
    if not schema[column].kind.numeric:
        kind, spelt = schema[column].type_name, spelled(column)
        # No cast makes a number of a time.
        of_time = kind.startswith(("DATE", "TIME"))
        number = f"epoch({spelt}), seconds since 1970," if of_time else f"try_cast({spelt} AS DOUBLE)"
        raise ColumnError(
            f"agg: {name} asks for numbers of column {column!r}, which is {kind}; use {number} {IN_PLACE}"
        )


def column_name(function: str, column: object) -> str:
    """Return the name of a column that a function was given.

    Raises:
        QueryError: it is no text.
    """
    if not isinstance(column, str):
        raise QueryError(f"{function}: the column is {shown(column)}, but must be a column's name, as text")
    return column


def short(number: Fraction) -> str:
    """Write a bound such that different bounds are written differently."""
    for text in (f"{float(number):g}", repr(float(number))):
        if number in (Fraction(text), Fraction(float(text))):
            return text
    return str(number)


def is_auto(bound: object) -> TypeGuard[str]:
    """Whether a bound is to be found by a release."""
    return isinstance(bound, str) and bound == AUTO


def refuse_meant_auto(what: str, lower: object, upper: object) -> None:
    """Refuse words that mean "auto", and say it."""
    for name, bound in (("lower", lower), ("upper", upper)):
        if isinstance(bound, str) and bound.casefold() in _MEANT_AUTO and bound != AUTO:
            found = what.partition("(")[0] in ("sum", "mean", "variance", "stddev")
            wanted = 'a number, or "auto", which finds one for a part of epsilon' if found else _NUMBERS
            raise ParameterError(f"{what} {name}", bound, wanted)


def bounds_of(
    function: str,
    column: str,
    lower: Number | None,
    upper: Number | None,
    given: tuple[tuple[str, Any], ...] = (),
) -> tuple[Fraction, Fraction]:
    """Return the exact bounds that a function was given; `given` is what else it was.

    Raises:
        QueryError: one is missing.
        ParameterError: as of `checked_bounds`.
    """
    if lower is None or upper is None:
        missing = " and ".join(n for n, v in (("lower", lower), ("upper", upper)) if v is None)
        raise _missing(function, column, given, missing)
    return checked_bounds(f"{function}({shown(column)})", lower, upper)


def _missing(
    function: str, column: str, given: tuple[tuple[str, Any], ...], missing: str, remedy: str = ""
) -> QueryError:
    ranks = "".join(f", {list(v) if isinstance(v, tuple) else v}" for n, v in given if n in ("rank", "ranks"))
    return QueryError(
        f"{function}({shown(column)}): {missing} missing. Without bounds no noise is enough; write "
        f"{function}({shown(column)}{ranks}, lower=..., upper=...) with a range that is known beforehand, "
        f"not read from the data{remedy}"
    )


def checked_bounds(what: str, lower: object, upper: object) -> tuple[Fraction, Fraction]:
    """Return exact bounds.

    Args:
        what: whose they are, for the error.
        lower, upper: numbers, as `as_fraction` takes them.
    Raises:
        ParameterError: one is no finite number, lower is not below upper, or float64 cannot tell them apart.
    """
    if is_auto(lower) or is_auto(upper):
        raise QueryError(
            f"{what}: 'auto' finds bounds of sum, mean, variance and stddev alone; write numbers between "
            "which values are known to lie"
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
