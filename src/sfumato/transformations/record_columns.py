"""Record columns: values cast, clamped, and filled where missing; the domains and bounds of records."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.errors import ColumnError, ParameterError
from sfumato.exact import as_fraction, positive_int, round_up
from sfumato.framework import (
    AbsoluteDistance,
    AtomDomain,
    ChangeOneDistance,
    Domain,
    Linear,
    Metric,
    ProductDomain,
    SymmetricDistance,
    TableDomain,
    Transformation,
    VectorDomain,
)
from sfumato.framework.domains import check_length
from sfumato.names.suggestions import suggest_arguments
from sfumato.transformations.grid import has_value

Map = Callable[[Fraction], Fraction]
Number = int | float | Fraction
NumberKind = type[int] | type[float] | type[Fraction]
Kind = NumberKind | type[bool] | type[str]

ADD_REMOVE: Metric = SymmetricDistance()
ABSOLUTE: Metric = AbsoluteDistance()


@dataclass(frozen=True)
class Records:
    """Columns of records as the input of a constructor, with their metric and stability maps.

    Args:
        where: the constructor's name, for errors.
        element: the domain of a record.
        size: how many records, at least 1, or None for any number.
        metric: SymmetricDistance() or ChangeOneDistance().
    Raises:
        ParameterError: size or metric is another.

    >>> five = Records("mean", AtomDomain(float), 5, ADD_REMOVE)
    >>> five.stability(added=Fraction(1), replaced=Fraction(2))(Fraction(3))
    Fraction(2, 1)
    """

    where: str
    element: Domain
    size: int | None
    metric: Metric

    def __post_init__(self) -> None:
        check_metric(self.where, self.metric)
        if self.size is not None:
            object.__setattr__(self, "size", positive_int(self.size, f"{self.where}: size"))

    @property
    def most(self) -> Fraction | None:
        """The largest number of records, where it is known."""
        return None if self.size is None else Fraction(self.size)

    def stability(self, added: Fraction, replaced: Fraction) -> Map:
        """Return the map of a number that moves by so much at most for one record added or replaced.

        Of vectors that have one length, those at symmetric distance d differ in d/2 records, those at
        change-one distance d in d, and no two differ in more records than they have.
        """
        symmetric, size = self.metric == SymmetricDistance(), self.size
        if size is None:
            return Linear(added if symmetric else replaced)
        each = 2 if symmetric else 1
        return lambda d_in: min(size, math.floor(d_in / each)) * replaced

    def each(self, output: Domain, function: Callable[[Any], Any]) -> Transformation:
        """Return the transformation that applies a function to each record.

        A record that comes, goes or changes is one of its results.
        """
        where, size = self.where, self.size
        return Transformation(
            where,
            VectorDomain(self.element, size),
            VectorDomain(output, size),
            self.metric,
            self.metric,
            lambda values: list(map(function, check_length(values, size, where))),
            Linear(Fraction(1)),
        )

    def total(
        self,
        output: Domain,
        function: Callable[[Sequence[Any]], Any],
        stability_map: Map,
        metric: Metric = ABSOLUTE,
    ) -> Transformation:
        """Return the transformation of all records into one number, or one vector of numbers."""
        where, size = self.where, self.size
        return Transformation(
            where,
            VectorDomain(self.element, size),
            output,
            self.metric,
            metric,
            lambda values: function(check_length(values, size, where)),
            stability_map,
        )


@dataclass(frozen=True, repr=False)
class Bounds(Spelled):
    """Bounds of a column of records: they move inward to members of a kind of numbers.

    >>> Bounds.parse("clamp", 0.5, "9/4", int)
    Bounds(kind=int, lower=1, upper=2)
    """

    kind: NumberKind
    lower: Fraction
    upper: Fraction

    @classmethod
    def parse(cls, where: str, lower: object, upper: object, kind: NumberKind) -> Bounds:
        """Take the bounds of a column of records from the parameters of the constructor `where`."""
        check_number_kind(where, kind)
        below, above = as_fraction(lower, f"{where}: lower"), as_fraction(upper, f"{where}: upper")
        low, high = round_up_to_kind(kind, below), -round_up_to_kind(kind, -above)
        if low > high:
            raise ParameterError(
                f"{where}: lower",
                lower,
                f"at most upper, {upper!r}, with a number of kind {kind.__name__} between",
            )
        return cls(kind, Fraction(low), Fraction(high))

    @property
    def domain(self) -> AtomDomain:
        """The domain of records between the bounds."""
        return AtomDomain(self.kind, self.lower, self.upper)

    @property
    def width(self) -> Fraction:
        """The distance of the bounds of records."""
        return self.upper - self.lower


def check_sequence(where: str, name: str, values: object) -> tuple[Any, ...]:
    """Take a sequence of values of a record column; a text is not one."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise ParameterError(f"{where}: {name}", values, "a list or tuple")
    return tuple(values)


def check_metric(where: str, metric: object) -> None:
    """Refuse metrics of columns that do not count records."""
    if not isinstance(metric, (SymmetricDistance, ChangeOneDistance)):
        raise ParameterError(f"{where}: metric", metric, "SymmetricDistance() or ChangeOneDistance()")


def check_number_kind(where: str, kind: object) -> None:
    """Refuse kinds of record columns that are not numbers."""
    if not isinstance(kind, type) or kind not in (int, float, Fraction):
        raise ParameterError(f"{where}: kind", kind, "int, float or Fraction")


def make_domain(where: str, kind: Kind, name: str = "kind") -> AtomDomain:
    """Return the domain of a column's records of a kind, NaN and NULL too."""
    if not isinstance(kind, type) or kind not in (bool, int, float, Fraction, str):
        raise ParameterError(f"{where}: {name}", kind, "bool, int, float, Fraction or str")
    return AtomDomain(kind, nan=kind is float, null=True)


def check_constant(where: str, name: str, value: object, kind: Kind) -> Any:
    """Take a value of a record column's kind; a float also as any number that is exactly one."""
    if AtomDomain(kind).contains(value):
        return value
    if kind is float:
        try:
            exact = as_fraction(value, name)
            if round_up(exact) == exact:
                return float(exact)
        except ParameterError:
            pass
    raise ParameterError(f"{where}: {name}", value, f"a value of kind {kind.__name__}, neither NaN nor NULL")


def round_up_to_kind(kind: NumberKind, bound: Fraction) -> Number:
    """Return the smallest number of a column's kind at or above a bound; an infinite float if none.

    >>> round_up_to_kind(int, Fraction(1, 2)), round_up_to_kind(float, Fraction(1, 10)) > Fraction(1, 10)
    (1, True)
    """
    if kind is int:
        return math.ceil(bound)
    return round_up(bound) if kind is float else bound


@suggest_arguments
def impute(
    value: object, *, kind: Kind = float, size: int | None = None, metric: Metric = ADD_REMOVE
) -> Transformation:
    """Impute a column of records: replace each NaN and each NULL by a constant.

    Args:
        value: the constant, of this kind; it must not come from the data.
        kind: bool, int, float, Fraction or str.
        size: the number of records, or None.
        metric: SymmetricDistance() or ChangeOneDistance().
    Returns:
        A Transformation from vectors with NaN and NULL to vectors without. Its map is the identity.
    Raises:
        ParameterError: a parameter is not of these kinds.

    >>> impute(0)([1.5, float("nan"), None])
    [1.5, 0.0, 0.0]

    Source:
        A function of one record at a time. Proof: docs/proofs/impute.md.
    """
    records = Records("impute", make_domain("impute", kind), size, metric)
    filling = check_constant("impute", "value", value, kind)

    def imputed(record: Any) -> Any:
        return record if has_value(record) else filling

    return records.each(AtomDomain(kind), imputed)


@suggest_arguments
def clamp(
    lower: object,
    upper: object,
    *,
    kind: NumberKind = float,
    size: int | None = None,
    metric: Metric = ADD_REMOVE,
) -> Transformation:
    """Clamp a column of records: move each number outside two bounds to the nearer bound.

    Infinities are clamped. NaN and NULL are not in the domain: apply `impute` first.

    Args:
        lower, upper: numbers with lower <= upper, in the unit of the records. For int and float they move
            inward to the nearest number of that kind.
        kind: int, float or Fraction.
        size: the number of records, or None.
        metric: SymmetricDistance() or ChangeOneDistance() for vectors; AbsoluteDistance() for a single
            number instead of a vector.
    Returns:
        A Transformation from vectors (or numbers) to vectors (numbers) within the bounds. Its map is the
        identity in each of the metrics.
    Raises:
        ParameterError: a parameter is not valid, or no number of this kind is between the bounds.

    >>> clamp(0, 1)([-0.5, 0.25, float("inf")])
    [0.0, 0.25, 1.0]
    >>> from sfumato.framework import AbsoluteDistance
    >>> clamp(0, 10, kind=int, metric=AbsoluteDistance())(12)
    10

    Source:
        A projection onto an interval is 1-Lipschitz. Proof: docs/proofs/clamp.md.
    """
    bounds = Bounds.parse("clamp", lower, upper, kind)
    low, high = kind(bounds.lower), kind(bounds.upper)

    def clamped(number: Number) -> Number:
        return min(max(number, low), high)

    if isinstance(metric, AbsoluteDistance):
        if size is not None:
            raise ParameterError("clamp: size", size, "None under AbsoluteDistance(), which takes one number")
        return Transformation(
            "clamp", AtomDomain(kind), bounds.domain, metric, metric, clamped, Linear(Fraction(1))
        )
    return Records("clamp", AtomDomain(kind), size, metric).each(bounds.domain, clamped)


# ASCII alone: other scripts have digits that int() reads. What is written exactly is read exactly, so
# its length is limited: 640 digits are what every Python reads, and 10^9999 is computed in no time.
LONGEST = 640
SPACE = " \t\n\r\f\v"
DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
INFINITY = re.compile(r"([+-]?)inf(?:inity)?", re.IGNORECASE | re.ASCII)


@suggest_arguments
def cast(
    kind: Kind,
    default: object = None,
    *,
    given: Kind = str,
    size: int | None = None,
    metric: Metric = ADD_REMOVE,
) -> Transformation:
    """Cast a column of records to another kind; what does not fit becomes NULL or a default.

    It never raises because of a record. A number fits where the other kind has the same number; only a
    float is rounded to, to the nearest. In detail:

    - to int: whole numbers; 1.5 does not fit (nothing is cut off).
    - to float: all numbers whose nearest float is below 2^1024, as that float; infinities stay.
    - to Fraction: all finite numbers, exactly.
    - to bool: 0 and 1; the texts true and false in any case.
    - to str: as Python writes it; true and false; integers of up to 640 digits.
    - from bool: 0 and 1.
    - from str: ASCII decimals with sign, point and an exponent of up to 4 digits, of up to 640
      characters, in ASCII space or none; inf and infinity with sign, to float.
    - NaN and NULL never fit.

    Args:
        kind: the target kind: bool, int, float, Fraction or str.
        default: a value of that kind for records that do not fit, or None for NULL.
        given: the kind of the records.
        size: the number of records, or None.
        metric: SymmetricDistance() or ChangeOneDistance().
    Returns:
        A Transformation from vectors of `given`, with NaN and NULL, to vectors of `kind` without NaN, and
        without NULL if there is a default. Its map is the identity.
    Raises:
        ParameterError: a parameter is not valid.

    >>> cast(float)([" 7 ", "1e3", "٣", "nan", "1e400", None])
    [7.0, 1000.0, None, None, None, None]
    >>> cast(int, default=0, given=float)([3.0, 1.5, float("inf")])
    [3, 0, 0]

    Source:
        A function of one record at a time. Proof: docs/proofs/cast.md.
    """
    records = Records("cast", make_domain("cast", given, "given"), size, metric)
    make_domain("cast", kind)
    if default is not None:
        default = check_constant("cast", "default", default, kind)

    def read(record: Any) -> Any:
        found = None
        if has_value(record):
            found = record if given is kind else cast_value(record, kind)
        return default if found is None else found

    return records.each(AtomDomain(kind, null=default is None), read)


def cast_value(value: Any, kind: Kind) -> Any:
    """Return a record's value cast to another kind, or None where it does not fit."""
    if kind is str:
        return _as_text(value)
    if kind is bool and isinstance(value, str):
        word = value.strip(SPACE).lower()
        if word in ("true", "false"):
            return word == "true"
    number = _read_text(value) if isinstance(value, str) else value
    if number is None:
        return None
    if isinstance(number, float) and math.isinf(number):
        return number if kind is float else None
    return _fit(Fraction(number), kind)


def _fit(number: Fraction, kind: Kind) -> Any:
    if kind is int:
        return number.numerator if number.denominator == 1 else None
    if kind is bool:
        return bool(number) if number in (0, 1) else None
    if kind is float:
        try:
            return float(number)
        except OverflowError:
            return None
    return number


def _read_text(text: str) -> Number | None:
    text = text.strip(SPACE)
    if len(text) <= LONGEST and DECIMAL.fullmatch(text):
        return Fraction(text)
    infinity = INFINITY.fullmatch(text)
    if infinity:
        return -math.inf if infinity[1] == "-" else math.inf
    return None


def _as_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, float) and max(abs(value.numerator), value.denominator) >= 10**LONGEST:
        return None
    return str(value)


@suggest_arguments
def column(name: str | Sequence[str], domain: TableDomain, *, metric: Metric = ADD_REMOVE) -> Transformation:
    """Take one column of a table of records, or several columns, in the order of the rows.

    Args:
        name: the column; or several names, for records that are tuples.
        domain: the tables, with the domain of each column.
        metric: SymmetricDistance() or ChangeOneDistance().
    Returns:
        A Transformation from tables to vectors of the column's domain. Its map is the identity.
    Raises:
        ParameterError: a parameter is not valid.
        ColumnError: the tables have no such column.

    >>> from sfumato.framework import TableDomain
    >>> from sfumato.framework import AtomDomain
    >>> people = TableDomain((("age", AtomDomain(int, 0, 120)), ("name", AtomDomain(str))))
    >>> column("age", people)([{"age": 30, "name": "a"}, {"age": 41, "name": "b"}])
    [30, 41]

    Source:
        A function of one record at a time. Proof: docs/proofs/column.md.
    """
    check_metric("column", metric)
    if not isinstance(domain, TableDomain):
        raise ParameterError("column: domain", domain, "a TableDomain")
    names = (name,) if isinstance(name, str) else check_sequence("column", "name", name)
    if not names:
        raise ParameterError("column: name", name, "the name of a column, or several")
    known = dict(domain.columns)
    for wanted in names:
        if wanted not in known:
            raise ColumnError._unknown(wanted, known, "column")
    element: Domain = known[names[0]]
    if not isinstance(name, str):
        element = ProductDomain(tuple(known[n] for n in names))

    def taken(row: Mapping[str, Any]) -> Any:
        return row[name] if isinstance(name, str) else tuple(row[n] for n in names)

    size = domain.size
    return Transformation(
        "column",
        domain,
        VectorDomain(element, size),
        metric,
        metric,
        lambda rows: [taken(row) for row in check_length(rows, size, "column")],
        Linear(Fraction(1)),
    )
