"""Parameters: what a caller passes, checked and taken exactly as Fractions, whole numbers or names."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from sfumato.errors import ParameterError
from sfumato.exact.outward_rounding import round_up

_expected = "a finite number (int, float, Fraction, Decimal, or text such as '0.1' or '1/3')"
_LARGEST_EXPONENT = 10_000
Number = int | float | str | Fraction | Decimal


def as_fraction(value: object, name: str) -> Fraction:
    """Return a parameter as exactly the number that it is.

    Args:
        value: an int, float, Fraction, Decimal, NumPy scalar, or text such as "0.1" or "1/3". A float is
            exactly its binary value; text is exactly what is written.
        name: the parameter's name, for the error.
    Returns:
        The same number as a Fraction.
    Raises:
        ParameterError: value is not a finite number.

    >>> as_fraction("0.1", "epsilon"), as_fraction(0.5, "epsilon")
    (Fraction(1, 10), Fraction(1, 2))
    """
    if type(value) is Fraction:
        return value  # as most are, once they were taken
    # Not of a column, also where it has one row.
    number = value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value
    if isinstance(number, (int, float, str, Fraction, Decimal)) and not isinstance(number, bool):
        with suppress(ValueError, OverflowError, InvalidOperation, ZeroDivisionError):
            if not isinstance(number, (str, Decimal)) or _is_small(str(number)):
                return Fraction(number)
    raise ParameterError(name, value, _expected)


def _is_small(text: str) -> bool:
    """Whether the text of a number parameter is short as a quotient, too: not so 1e999999999."""
    exponent = re.search(r"[eE]([-+]?[\d_]+)\s*$", text)
    return exponent is None or (len(exponent[1]) < 9 and abs(int(exponent[1])) <= _LARGEST_EXPONENT)


def as_written(value: object, name: str) -> Fraction:
    """Return a number parameter as a person wrote it: the float 0.1 is a tenth, and 1/3 a third.

    Args:
        value: as for `as_fraction`.
        name: the parameter's name, for the error.
    Returns:
        For a float, the fraction with the smallest denominator up to a million that Python would round to it,
        or else its shortest decimal. For other numbers, exactly the same number.
    Raises:
        ParameterError: value is not a finite number.

    >>> as_written(0.1, "epsilon"), as_written(1 / 3, "share"), as_written(1e-9, "delta")
    (Fraction(1, 10), Fraction(1, 3), Fraction(1, 1000000000))
    """
    exact = as_fraction(value, name)
    number = value.item() if hasattr(value, "item") else value
    if not isinstance(number, float):
        return exact
    simple = exact.limit_denominator(1_000_000)
    return simple if float(simple) == number else Fraction(repr(number))


def written_up(number: Fraction) -> float:
    """Return the float that people would write for a number, or else the next float above it.

    Args:
        number: a number, such as an epsilon that was spent.
    Returns:
        A float.

    >>> written_up(Fraction(1, 10**6)), written_up(Fraction(1, 10**6) + Fraction(1, 10**30))
    (1e-06, 1.0000000000000002e-06)
    """
    with suppress(OverflowError):  # beyond all floats
        if as_written(near := float(number), "number") == number:
            return near
    return round_up(number)


def as_fractions(values: Any, name: str, expected: str = "finite numbers") -> list[Fraction]:
    """Return a parameter with several numbers exactly; errors quote none of them, because they may be data.

    Args:
        values: a list or other iterable of numbers.
        name: the parameter's name, for the error.
        expected: the valid values, for the error.
    Returns:
        Each number as exactly the rational that it is.
    Raises:
        ParameterError: a value is not a finite number.

    >>> as_fractions(["0.5", 2], "edges")
    [Fraction(1, 2), Fraction(2, 1)]
    """
    with suppress(Exception):  # of whoever gives them
        if not isinstance(values, (str, bytes)):
            return [as_fraction(value, name) for value in values]
    raise ParameterError(name, values, expected)


def one_of(value: object, name: str, known: Iterable[str]) -> str:
    """Return a parameter that must be one of some names; no other value is compared with them.

    Args:
        value: the argument.
        name: the parameter's name, for the error.
        known: the valid names.
    Returns:
        The name.
    Raises:
        ParameterError: the value is not one of them.

    >>> one_of("laplace", "noise", ("laplace", "gaussian"))
    'laplace'
    """
    names = list(known)
    if isinstance(value, str) and value in names:
        return value
    raise ParameterError(name, value, f"one of {', '.join(map(repr, names))}")


def truth_value(value: object, name: str) -> bool:
    """Return a parameter that must be True or False.

    Args:
        value: the argument.
        name: the parameter's name, for the error.
    Returns:
        The value.
    Raises:
        ParameterError: the value is neither.

    >>> truth_value(True, "dummy")
    True
    """
    if not isinstance(value, bool):
        raise ParameterError(name, value, "True or False")
    return value


def positive(value: object, name: str) -> Fraction:
    """Return a number parameter exactly, which must be greater than zero.

    Args:
        value: the argument.
        name: the parameter's name, for the error.
    Returns:
        The number as exactly the rational that it is.
    Raises:
        ParameterError: the value is not a finite number greater than zero.

    >>> positive("0.1", "epsilon")
    Fraction(1, 10)
    """
    number = as_fraction(value, name)
    if number <= 0:
        raise ParameterError(name, value, "greater than 0")
    return number


def at_least_0(value: object, name: str) -> Fraction:
    """Return a number parameter exactly, which must not be negative.

    Args:
        value: the argument.
        name: the parameter's name, for the error.
    Returns:
        The number as exactly the rational that it is.
    Raises:
        ParameterError: the value is not a finite number of at least zero.

    >>> at_least_0("1/2", "delta")
    Fraction(1, 2)
    """
    number = as_fraction(value, name)
    if number < 0:
        raise ParameterError(name, value, "at least 0")
    return number


def as_int(value: object) -> int | None:
    """Return a whole number of Python or NumPy as an int, and None for other values and booleans.

    Args:
        value: the argument.
    Returns:
        An int or None.

    >>> import numpy
    >>> as_int(numpy.int8(3)), as_int(3.0), as_int(True), as_int(numpy.True_), as_int(numpy.array([3]))
    (3, None, None, None, None)
    """
    # NumPy before 2.3 takes its own truth values for whole numbers, with a warning.
    if isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", None) == "b":
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def whole_number(value: object, name: str, least: int) -> int:
    """Return a parameter that must be a whole number of at least `least`.

    Args:
        value: the argument.
        name: the parameter's name, for the error.
        least: the smallest valid number.
    Returns:
        The number as an int.
    Raises:
        ParameterError: the value is not such a number.

    >>> whole_number(0, "seed", 0)
    0
    """
    number = as_int(value)
    if number is None or number < least:
        raise ParameterError(name, value, f"a whole number of at least {least}")
    return number


def positive_int(value: object, name: str) -> int:
    """Return a parameter that must be a whole number of at least 1.

    Args:
        value: the argument.
        name: the parameter's name, for the error.
    Returns:
        The number as an int.
    Raises:
        ParameterError: the value is not such a number.

    >>> positive_int(3, "groups")
    3
    """
    return whole_number(value, name, 1)


def canonical_bytes(content: Mapping[str, Any]) -> bytes:
    """Return parameters and other plain data as canonical bytes: JSON with sorted keys, in ASCII.

    >>> canonical_bytes({"b": [1, None], "a": "é"})
    b'{"a":"\\\\u00e9","b":[1,null]}'
    """
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
