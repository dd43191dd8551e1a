"""Tails, quantiles and tolerances of laws of noise, real and rounded, correctly rounded to floats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import partial, wraps
from math import isnan
from typing import Any, ClassVar, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fraction, positive, positive_int
from sfumato.exact.library_settings import Isolated
from sfumato.exact.outward_rounding import convert, directed, exactly, exponent, nearest, rational, to_float
from sfumato.exact.root_finding import find_first_integer
from sfumato.noise.standard_laws import Standard, discrete_shift

Floats = NDArray[np.float64]
Scalar = int | float | Fraction
Values = NDArray[Any] | Sequence[float]
Wholes = NDArray[Any] | Sequence[int]


class OfEach(Protocol):
    """The type of a function of a law that takes one number, or an array of them element by element."""

    @overload
    def __call__(self, x: Scalar, /) -> float: ...
    @overload
    def __call__(self, x: Values, /) -> Floats: ...


class MethodOfEach(Protocol):
    """The type of a method of a law that is an `OfEach`."""

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
    """Return factor * sqrt(square) as a float, correctly rounded: the deviation of a law."""
    context = nearest(working_bits)
    return to_float(context.mul(context.sqrt(square), context.div(factor.numerator, factor.denominator)))


def power_of_ten(k: Fraction) -> tuple[Any, Any]:
    """Return 10^-k and 1 - 10^-k, the probabilities of a tolerance, to nearly the working precision."""
    context = nearest(working_bits + int(k).bit_length())
    power = context.minus(context.div(k.numerator, k.denominator))
    return context.exp10(power), context.minus(context.expm1(context.mul(power, context.log(10))))


def small_fraction(t: Any) -> Fraction:
    """Return an end of a tail probability's enclosure as a Fraction; 0 if it is too small to write down."""
    if t == 0 or exponent(t) < -2 * floor_bits:
        return Fraction(0)
    return exactly(t)


def floats(values: object, name: str) -> Floats:
    """Take the argument of a law as an array of floats.

    Raises:
        ParameterError: they are none; NumPy's own error would quote one, and it may be a row's.
    """
    with suppress(Exception):
        return np.asarray(values, np.float64)
    raise ParameterError(name, values, "a number, or an array of them")


def each(function: Callable[[Any], float], x: Values | Scalar) -> float | Floats:
    """Apply a function of a law to one number, or to each element of an array of floats."""
    if isinstance(x, (int, float, Fraction)):
        return function(x)
    values = floats(x, "an argument of the law")
    results = np.array([function(v) for v in values.ravel().tolist()], np.float64)
    return results.reshape(values.shape) if values.ndim else float(results[0])


def each_whole(function: Callable[[int], float], m: Wholes | int) -> float | Floats:
    """Apply a function of a law to one whole number, or to each element of an array of them."""
    if isinstance(m, bool):
        raise ParameterError("m", m, "a whole number")
    if isinstance(m, int):
        return function(m)
    values = np.asarray(m)
    if values.size and not np.issubdtype(values.dtype, np.integer):
        raise ParameterError("m", values.dtype.name, "a whole number, or an array of them")
    results = np.array([function(v) for v in values.ravel().tolist()], np.float64)
    return results.reshape(values.shape) if values.ndim else float(results[0])


def _elementwise(apply: Callable[..., float | Floats]) -> Callable[[Callable[..., float]], MethodOfEach]:
    """Return a decorator that lets a law's method of one number take arrays, too."""

    def of_each(method: Callable[..., float]) -> MethodOfEach:
        @wraps(method)
        def wrapped(law: Tails, x: Values | Scalar, /) -> float | Floats:
            return apply(partial(method, law), x)

        return wrapped  # type: ignore[return-value]

    return of_each


_of_each, _of_each_whole = _elementwise(each), _elementwise(each_whole)


class Tails(Isolated, ABC):
    """Tails, quantiles and tolerances of a law of noise Z.

    Methods that are called `rounded...` are about R, which is Z rounded to the nearest integer.
    """

    standard: ClassVar[Standard]
    discrete: ClassVar[bool] = False

    @property
    @abstractmethod
    def unit(self) -> Fraction:
        """The factor of the standard law: Laplace's scale, Gauss's standard deviation."""

    @property
    def shift(self) -> float:
        """How much less |Z| is than in real noise before rounding: 0, or at most 1/2 for discrete noise."""
        return to_float(discrete_shift(self.unit, working_bits)) if self.discrete else 0.0

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance of the law, in squared units."""

    @property
    @abstractmethod
    def standard_deviation(self) -> float:
        """The standard deviation of the law, in units."""

    # Values of the real law.

    @_of_each
    def sf(self, x: Scalar) -> float:
        """Return the law's P(Z > x), the survival function.

        Args:
            x: number or array, in units; an int or a Fraction is taken exactly.
        Returns:
            float, or float64 in the shape of x; correctly rounded, far tails included.

        >>> from sfumato.noise import Gaussian, Laplace
        >>> Laplace(scale=2).sf(0), Gaussian(sigma=1).sf(-1e9)
        (0.5, 1.0)
        """
        return self._one_sided_tail(x, 1)

    @_of_each
    def cdf(self, x: Scalar) -> float:
        """Return the law's P(Z <= x), the distribution function.

        Args:
            x: number or array, in units; an int or a Fraction is taken exactly.
        Returns:
            float, or float64 in the shape of x; correctly rounded, far tails included.

        >>> from sfumato.noise import Gaussian
        >>> Gaussian(sigma=1).cdf([-1.0, 0.0, 1.0]).round(3)
        array([0.159, 0.5  , 0.841])
        """
        return self._one_sided_tail(x, -1)

    @_of_each
    def tail_quantile(self, p: Scalar) -> float:
        """Return the x with P(Z > x) = p under the law, the inverse of `sf`.

        Args:
            p: probability or array of them, from 0 to 1; an int or a Fraction is taken exactly.
        Returns:
            float in units, or float64 in the shape of p; correctly rounded.
        Raises:
            ParameterError: p is not from 0 to 1.

        >>> from sfumato.noise import Gaussian
        >>> round(Gaussian(sigma=1).tail_quantile(0.025), 4)
        1.96
        """
        if not 0 <= p <= 1:
            raise ParameterError("p", p, "a probability, from 0 to 1")
        exact = Fraction(p)
        outside = 2 * min(exact, 1 - exact)
        if outside == 0:
            return float("inf") if exact == 0 else float("-inf")
        if outside == 1:
            return 0.0
        context = nearest(working_bits)
        t = to_float(self._magnitude(*(convert(q, context) for q in (outside, 1 - outside))))
        return t if exact < Fraction(1, 2) else -t

    @_of_each
    def quantile(self, p: Scalar) -> float:
        """Return the x with P(Z <= x) = p under the law, the inverse of `cdf`.

        Args:
            p: probability or array of them, from 0 to 1; an int or a Fraction is taken exactly.
        Returns:
            float in units, or float64 in the shape of p; correctly rounded.
        Raises:
            ParameterError: p is not from 0 to 1.

        >>> from sfumato.noise import Laplace
        >>> Laplace(scale=2).quantile([0, 0.5, 1])
        array([-inf,   0.,  inf])
        """
        return 0.0 - self.tail_quantile(p)

    def tolerance(self, k: Number) -> float:
        """Return t with P(|Z| > t) = 10^-k: how far noise may lie from 0 before a test should fail.

        Args:
            k: greater than 0; 10^-k is the chance of a false alarm.
        Returns:
            float in units, correctly rounded.
        Raises:
            ParameterError: k is not greater than 0.

        >>> from sfumato.noise import Gaussian, Laplace
        >>> Gaussian(sigma=1).tolerance(16), Laplace(scale="1/50").tolerance(23)
        (8.304785425194114, 1.059189142777261)
        """
        outside, inside = power_of_ten(positive(k, "k"))
        return to_float(self._magnitude(outside, inside))

    def complementary_tolerance(self, k: Number) -> float:
        """Return t with P(|Z| < t) = 10^-k: how near to 0 noise must not lie, or it is missing.

        Args:
            k: greater than 0; 10^-k is the chance of a false alarm.
        Returns:
            float in units, correctly rounded.
        Raises:
            ParameterError: k is not greater than 0.

        >>> from sfumato.noise import Laplace
        >>> Laplace(scale=1).complementary_tolerance(5)
        1.0000050000333335e-05
        """
        inside, outside = power_of_ten(positive(k, "k"))
        return to_float(self._magnitude(outside, inside))

    def tail_bounds(self, x: Number, bits: int = 64) -> tuple[Fraction, Fraction]:
        """Enclose the law's P(Z > x) between two fractions.

        Args:
            x: any number, in units, taken exactly.
            bits: the enclosure is about 2^-bits times its value wide (for x < 0: 2^-bits). A tail below
                2^-65536 is enclosed by 0 and this.
        Returns:
            (low, high) with low <= P(Z > x) <= high.
        Raises:
            ParameterError: x is not a finite number, or bits not a whole number of at least 1.

        >>> from sfumato.noise import Laplace
        >>> low, high = Laplace(scale=1).tail_bounds(1)
        >>> low < Fraction("0.18393972058572116079776188508073") < high
        True
        """
        exact, bits = self._place(as_fraction(x, "x")), positive_int(bits, "bits")
        if exact == 0:
            return Fraction(1, 2), Fraction(1, 2)
        low, high = (small_fraction(t) / 2 for t in self._two_sided_tail(abs(exact), bits))
        if high < least_tail:
            low, high = Fraction(0), least_tail
        return (low, high) if exact > 0 else (1 - high, 1 - low)

    @_of_each_whole
    def rounded_sf(self, m: int) -> float:
        """Return the rounded law's P(R > m) = P(Z > m + 1/2).

        Args:
            m: whole number or array of them.
        Returns:
            float, or float64 in the shape of m; correctly rounded.
        Raises:
            ParameterError: m is not whole.

        >>> from sfumato.noise import Gaussian
        >>> Gaussian(sigma=2).rounded_sf(3) == Gaussian(sigma=2).sf(3.5)
        True
        """
        return self.sf(m + Fraction(1, 2))

    @_of_each_whole
    def rounded_cdf(self, m: int) -> float:
        """Return the rounded law's P(R <= m) = P(Z < m + 1/2).

        Args:
            m: whole number or array of them.
        Returns:
            float, or float64 in the shape of m; correctly rounded.
        Raises:
            ParameterError: m is not whole.

        >>> from sfumato.noise import Gaussian
        >>> Gaussian(sigma=2).rounded_cdf(3) == Gaussian(sigma=2).cdf(3.5)
        True
        """
        return self.sf(-m - Fraction(1, 2))

    @_of_each_whole
    def rounded_pmf(self, m: int) -> float:
        """Return the rounded law's P(R = m).

        Args:
            m: whole number or array of them.
        Returns:
            float, or float64 in the shape of m; correctly rounded for units up to 2^57.
        Raises:
            ParameterError: m is not whole.

        >>> from sfumato.noise import Gaussian
        >>> round(Gaussian(sigma=1).rounded_pmf(0), 4)
        0.3829
        """
        # Neighbouring tails agree in about as many bits as the unit has, and 1 - T(1/2) likewise.
        bits = working_bits + max(0, int(self.unit).bit_length())
        context = nearest(bits)
        outer = self._two_sided_tail(abs(m) + Fraction(1, 2), bits)[0]
        if m == 0:
            return to_float(context.sub(1, outer))
        inner = self._two_sided_tail(abs(m) - Fraction(1, 2), bits)[0]
        return to_float(context.div_2exp(context.sub(inner, outer), 1))

    def rounded_tolerance(self, k: Number) -> int:
        """Return the smallest whole t with P(|R| > t) <= 10^-k under the rounded law.

        Args:
            k: greater than 0; 10^-k bounds the chance of a false alarm.
        Returns:
            t >= 0.
        Raises:
            ParameterError: k is not greater than 0.

        >>> from sfumato.noise import Laplace
        >>> Laplace(scale=2).rounded_tolerance(5)
        23
        """
        exact = positive(k, "k")
        start = self._magnitude(*power_of_ten(exact))

        def bound(bits: int) -> tuple[Any, Any]:
            down, up = directed(bits + int(exact).bit_length() + 8)
            top, bottom = exact.numerator, exact.denominator
            return (
                down.exp10(down.minus(up.div(top, bottom))),
                up.exp10(up.minus(down.div(top, bottom))),
            )

        return self._smallest(start, bound)

    def rounded_half_width(self, confidence: Number) -> int:
        """Return the smallest whole t with P(|R| <= t) >= confidence under the rounded law: an error bar.

        Args:
            confidence: from 0 to less than 1, taken exactly.
        Returns:
            t >= 0.
        Raises:
            ParameterError: confidence is not from 0 to less than 1.

        >>> from sfumato.noise import Gaussian
        >>> Gaussian(sigma=10).rounded_half_width("0.95")
        20
        """
        exact = as_fraction(confidence, "confidence")
        if not 0 <= exact < 1:
            raise ParameterError("confidence", confidence, "from 0 to less than 1")
        if exact == 0:
            return 0
        rest = rational(1 - exact)
        context = nearest(working_bits)
        start = self._magnitude(convert(rest, context), convert(exact, context))

        def bound(bits: int) -> tuple[Any, Any]:
            return rest, rest

        return self._smallest(start, bound)

    # How it is done.

    def _place(self, x: Fraction) -> Fraction:
        """Return where P(Z > x) is looked up: with discrete noise in the middle between whole numbers."""
        return x

    def _one_sided_tail(self, x: Scalar, side: int) -> float:
        """Return the law's P(Z > x), or on side -1 P(Z <= x), correctly rounded."""
        if isinstance(x, float) and not np.isfinite(x):
            return x if isnan(x) else float(side * x < 0)
        exact = side * self._place(Fraction(x))
        context = nearest(working_bits)
        half = context.div_2exp(self._two_sided_tail(abs(exact), working_bits)[0], 1)
        return to_float(half if exact >= 0 else context.sub(1, half))

    def _two_sided_tail(self, x: Fraction, bits: int) -> tuple[Any, Any]:
        """Enclose the law's two-sided tail P(|Z| > x), x >= 0, with a relative width of about 2^-bits."""
        return self.standard.tail(rational(x / self.unit), bits)

    def _magnitude(self, outside: Any, inside: Any) -> Any:
        """Return the t of the law with P(|Z| > t) = outside, where inside = 1 - outside."""
        context = nearest(working_bits)
        z = self.standard.quantile(outside, inside, working_bits)
        return context.mul(z, context.div(self.unit.numerator, self.unit.denominator))

    def _smallest(self, start: Any, bound: Callable[[int], tuple[Any, Any]]) -> int:
        """Return the law's smallest whole t >= 0 with P(|Z| > t + 1/2) <= bound, near to start - 1/2.

        The bound is algebraic and the tail is not, so that some precision tells them apart.
        """

        def enough(t: int) -> bool:
            bits = 64
            while True:
                (low, high), (bound_low, bound_high) = (
                    self._two_sided_tail(t + Fraction(1, 2), bits),
                    bound(bits),
                )
                if high <= bound_low:
                    return True
                if low > bound_high:
                    return False
                bits *= 2

        context = nearest(working_bits)
        return find_first_integer(enough, int(context.ceil(context.sub(start, 0.5))), least=0)
