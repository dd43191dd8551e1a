"""Small parts of the laws: how a value is taken from the caller, and how one is given back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.exact.directed import exactly, exponent, nearest, to_float

Floats = NDArray[np.float64]
Scalar = int | float | Fraction
Values = NDArray[Any] | Sequence[float]
Wholes = NDArray[Any] | Sequence[int]


class OfEach(Protocol):
    """A function of one number, or of an array of them, element by element."""

    @overload
    def __call__(self, x: Scalar, /) -> float: ...
    @overload
    def __call__(self, x: Values, /) -> Floats: ...


class MethodOfEach(Protocol):
    """A method that is an `OfEach`."""

    @overload
    def __get__(self, law: None, owner: type, /) -> Callable[..., Any]: ...
    @overload
    def __get__(self, law: object, owner: type | None = None, /) -> OfEach: ...


# Bits of the working precision for values that are rounded to a float: with 140 to spare, they come out
# as the float nearest to the truth, but for a chance of about 2^-100.
working_bits = 192
# Tails below 2^-floor_bits are enclosed by 0 and this: a Fraction of an astronomic denominator helps nobody.
floor_bits = 1 << 16
least_tail: Fraction = Fraction(1, 2**floor_bits)


def times_root(factor: Fraction, square: int) -> float:
    """Return factor * sqrt(square), correctly rounded."""
    context = nearest(working_bits)
    return to_float(context.mul(context.sqrt(square), context.div(factor.numerator, factor.denominator)))


def power_of_ten(k: Fraction) -> tuple[Any, Any]:
    """Return 10^-k and 1 - 10^-k, both to nearly the working precision."""
    context = nearest(working_bits + int(k).bit_length())
    power = context.minus(context.div(k.numerator, k.denominator))
    return context.exp10(power), context.minus(context.expm1(context.mul(power, context.log(10))))


def small_fraction(t: Any) -> Fraction:
    """Take an end of an enclosure as a Fraction; one that is too small to write down as 0."""
    if t == 0 or exponent(t) < -2 * floor_bits:
        return Fraction(0)
    return exactly(t)


def floats(values: object, name: str) -> Floats:
    """Take numbers as an array of floats.

    Raises:
        ParameterError: they are none; NumPy's own error would quote one, and it may be a row's.
    """
    with suppress(Exception):
        return np.asarray(values, np.float64)
    raise ParameterError(name, values, "a number, or an array of them")


def each(function: Callable[[Any], float], x: Values | Scalar) -> float | Floats:
    """Apply to one number as it is, or to each element of an array of floats."""
    if isinstance(x, (int, float, Fraction)):
        return function(x)
    values = floats(x, "an argument of the law")
    results = np.array([function(v) for v in values.ravel().tolist()], np.float64)
    return results.reshape(values.shape) if values.ndim else float(results[0])


def each_whole(function: Callable[[int], float], m: Wholes | int) -> float | Floats:
    """Apply to one whole number, or to each element of an array of them."""
    if isinstance(m, bool):
        raise ParameterError("m", m, "a whole number")
    if isinstance(m, int):
        return function(m)
    values = np.asarray(m)
    if values.size and not np.issubdtype(values.dtype, np.integer):
        raise ParameterError("m", values.dtype.name, "a whole number, or an array of them")
    results = np.array([function(v) for v in values.ravel().tolist()], np.float64)
    return results.reshape(values.shape) if values.ndim else float(results[0])
