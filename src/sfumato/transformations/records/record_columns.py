"""Columns of a table as vectors: values cast, clamped, and filled where they are missing."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from sfumato.errors import ColumnError, ParameterError
from sfumato.framework import (
    AbsoluteDistance,
    AtomDomain,
    Domain,
    Linear,
    Metric,
    ProductDomain,
    TableDomain,
    Transformation,
    VectorDomain,
)
from sfumato.framework.domains import check_length
from sfumato.names.suggestions import helpful
from sfumato.transformations.grid import has_value
from sfumato.transformations.records.record_space import (
    ADD_REMOVE,
    Bounds,
    Kind,
    Number,
    NumberKind,
    Records,
    any_of,
    check_metric,
    constant,
    listed,
)


@helpful
def impute(
    value: object, *, kind: Kind = float, size: int | None = None, metric: Metric = ADD_REMOVE
) -> Transformation:
    """Put a constant in the place of each NaN and each NULL.

    Args:
        value: the constant, of the kind; it must not be taken from the data.
        kind: bool, int, float, Fraction or str.
        size: the number of records, or None.
        metric: SymmetricDistance() or ChangeOneDistance().
    Returns:
        A Transformation from vectors with NaN and NULL to vectors without. Its map is the identity.
    Raises:
        ParameterError: a parameter is another.

    >>> impute(0)([1.5, float("nan"), None])
    [1.5, 0.0, 0.0]

    Source:
        A function of one record at a time. Proof: docs/proofs/impute.md.
    """
    records = Records("impute", any_of("impute", kind), size, metric)
    filling = constant("impute", "value", value, kind)

    def imputed(record: Any) -> Any:
        return record if has_value(record) else filling

    return records.each(AtomDomain(kind), imputed)


@helpful
def clamp(
    lower: object,
    upper: object,
    *,
    kind: NumberKind = float,
    size: int | None = None,
    metric: Metric = ADD_REMOVE,
) -> Transformation:
    """Move each number that lies outside two bounds to the nearer one.

    Infinities clamp. NaN and NULL are not in the domain: put `impute` before.

    Args:
        lower, upper: the bounds, numbers with lower <= upper, in the unit of the records. For int and
            float they move inward to the nearest number of that kind.
        kind: int, float or Fraction.
        size: the number of records, or None.
        metric: SymmetricDistance() or ChangeOneDistance() for vectors; AbsoluteDistance() for a single
            number instead of a vector.
    Returns:
        A Transformation from vectors (or numbers) to vectors (numbers) within the bounds. Its map is the
        identity in each of the metrics.
    Raises:
        ParameterError: a parameter is another, or no number of the kind lies between the bounds.

    >>> clamp(0, 1)([-0.5, 0.25, float("inf")])
    [0.0, 0.25, 1.0]
    >>> from sfumato.framework import AbsoluteDistance
    >>> clamp(0, 10, kind=int, metric=AbsoluteDistance())(12)
    10

    Source:
        A projection onto an interval is 1-Lipschitz. Proof: docs/proofs/clamp.md.
    """
    bounds = Bounds.of("clamp", lower, upper, kind)
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


@helpful
def cast(
    kind: Kind,
    default: object = None,
    *,
    given: Kind = str,
    size: int | None = None,
    metric: Metric = ADD_REMOVE,
) -> Transformation:
    """Read each record as another kind; what does not fit becomes NULL or a default.

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
        kind: what to read as: bool, int, float, Fraction or str.
        default: a value of that kind for what does not fit, or None for NULL.
        given: the kind of the records.
        size: the number of records, or None.
        metric: SymmetricDistance() or ChangeOneDistance().
    Returns:
        A Transformation from vectors of `given` (NaN and NULL too) to vectors of `kind` without NaN, and
        without NULL where there is a default. Its map is the identity.
    Raises:
        ParameterError: a parameter is another.

    >>> cast(float)([" 7 ", "1e3", "٣", "nan", "1e400", None])
    [7.0, 1000.0, None, None, None, None]
    >>> cast(int, default=0, given=float)([3.0, 1.5, float("inf")])
    [3, 0, 0]

    Source:
        A function of one record at a time. Proof: docs/proofs/cast.md.
    """
    records = Records("cast", any_of("cast", given, "given"), size, metric)
    any_of("cast", kind)
    if default is not None:
        default = constant("cast", "default", default, kind)

    def read(record: Any) -> Any:
        found = None
        if has_value(record):
            found = record if given is kind else converted(record, kind)
        return default if found is None else found

    return records.each(AtomDomain(kind, null=default is None), read)


def converted(value: Any, kind: Kind) -> Any:
    """Return a value as another kind, or None where it does not fit."""
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


@helpful
def column(name: str | Sequence[str], domain: TableDomain, *, metric: Metric = ADD_REMOVE) -> Transformation:
    """Take one column of a table, or several side by side, in the order of the rows.

    Args:
        name: the column; or several names, for records that are tuples.
        domain: the tables, with the domain of each column.
        metric: SymmetricDistance() or ChangeOneDistance().
    Returns:
        A Transformation from tables to vectors of the column's domain. Its map is the identity.
    Raises:
        ParameterError: a parameter is another.
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
    names = (name,) if isinstance(name, str) else listed("column", "name", name)
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
