"""Laws of noise: Laplace and Gaussian, real and rounded, and discrete Laplace: tails, quantiles and more."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cached_property, partial, wraps
from math import isnan
from typing import Any, ClassVar, Protocol, cast, overload

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fraction, positive, positive_int, whole_number
from sfumato.exact.library_settings import Isolated, unaffected
from sfumato.exact.outward_rounding import convert, directed, exactly, exponent, nearest, rational, to_float
from sfumato.exact.root_finding import first_whole_near
from sfumato.noise.random_words import Words, source_of
from sfumato.noise.rounded_sampler import largest_scale, sampler
from sfumato.noise.standard_laws import Standard, discrete_shift, discrete_tail, gaussian, laplace

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
        def wrapped(law: Law, x: Values | Scalar, /) -> float | Floats:
            return apply(partial(method, law), x)

        return wrapped  # type: ignore[return-value]

    return of_each


_of_each, _of_each_whole = _elementwise(each), _elementwise(each_whole)


class Law(Isolated, ABC):
    """A symmetric law of noise Z: scale * (a standard law), in any unit, or the discrete Laplace law.

    Methods that are called `rounded...` are about R, which is Z rounded to the nearest integer.

    Source:
        docs/noise.md.
    """

    standard: ClassVar[Standard]
    unit_name: ClassVar[str]
    title: ClassVar[str]
    discrete: ClassVar[bool] = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.unit_name}={self.unit})"

    def _in_messages(self) -> str:
        return repr(self)

    @property
    @unaffected
    def unit(self) -> Fraction:
        """The factor of the standard law: Laplace's scale, Gauss's standard deviation."""
        return cast(Fraction, getattr(self, self.unit_name))

    @property
    @unaffected
    def name(self) -> str:
        """The law's name in a description for the certificate."""
        return self.title.lower().replace(" ", "_")

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
        return self._beyond(x, 1)

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
        return self._beyond(x, -1)

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
        low, high = (small_fraction(t) / 2 for t in self._outside(abs(exact), bits))
        if high < least_tail:
            low, high = Fraction(0), least_tail
        return (low, high) if exact > 0 else (1 - high, 1 - low)

    # Draws, and the laws of the rounded noise.

    def rounded(self, n: int, words: Words | None = None) -> NDArray[np.int64]:
        """Draw n values of the rounded law: Z with infinite precision, rounded to the nearest integer.

        Args:
            n: number of draws.
            words: source of random words; None for this thread's secure words.
                n words are taken first, then those that single draws need beyond their first, in order.
        Returns:
            int64 of shape (n,), independent; a value beyond +-(2^63 - 1) is moved to that.
        Raises:
            ParameterError: n is not a whole number of at least 0, or the unit is above 2^57.

        >>> from sfumato.noise import Laplace, SeededWords
        >>> Laplace(scale=1000).rounded(4, SeededWords(1))
        array([  -31, -1381,   158, -1154])

        Source:
            design, "One idea"; docs/noise.md.
        """
        count = whole_number(n, "n", 0)
        unit = self.unit
        if unit > largest_scale:
            expected = "at most 2**57 grid steps to be drawn in 64-bit integers: use a coarser grid"
            raise ParameterError(self.unit_name, unit, expected)
        return sampler(self.standard, unit, self.discrete).draw(count, source_of(words))

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
        outer = self._outside(abs(m) + Fraction(1, 2), bits)[0]
        if m == 0:
            return to_float(context.sub(1, outer))
        inner = self._outside(abs(m) - Fraction(1, 2), bits)[0]
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

    def _beyond(self, x: Scalar, side: int) -> float:
        """Return the law's P(Z > x), or on side -1 P(Z <= x), correctly rounded."""
        if isinstance(x, float) and not np.isfinite(x):
            return x if isnan(x) else float(side * x < 0)
        exact = side * self._place(Fraction(x))
        context = nearest(working_bits)
        half = context.div_2exp(self._outside(abs(exact), working_bits)[0], 1)
        return to_float(half if exact >= 0 else context.sub(1, half))

    def _outside(self, x: Fraction, bits: int) -> tuple[Any, Any]:
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
                (low, high), (bound_low, bound_high) = self._outside(t + Fraction(1, 2), bits), bound(bits)
                if high <= bound_low:
                    return True
                if low > bound_high:
                    return False
                bits *= 2

        context = nearest(working_bits)
        return first_whole_near(enough, int(context.ceil(context.sub(start, 0.5))), least=0)


@dataclass(frozen=True, init=False, repr=False)
class Laplace(Law):
    """The Laplace law, of density exp(-|x| / scale) / (2 scale).

    Args:
        scale: greater than 0, in any unit, taken exactly; epsilon = l1 sensitivity / scale.
    Raises:
        ParameterError: scale is not a finite number greater than 0.

    >>> law = Laplace(scale="0.5")
    >>> law, law.scale, law.variance
    (Laplace(scale=1/2), Fraction(1, 2), 0.5)

    Source:
        Dwork, McSherry, Nissim, Smith 2006, for its use; docs/noise.md for the draws.
    """

    scale: Fraction
    standard: ClassVar[Standard] = laplace
    unit_name: ClassVar[str] = "scale"
    title: ClassVar[str] = "Laplace"

    def __init__(self, scale: Number) -> None:
        object.__setattr__(self, "scale", positive(scale, "scale"))

    @property
    def variance(self) -> float:
        """The variance of the Laplace law, 2 scale^2."""
        return float(2 * self.scale**2)

    @property
    def standard_deviation(self) -> float:
        """The standard deviation of the Laplace law, the square root of 2, times the scale."""
        return times_root(self.scale, 2)


@dataclass(frozen=True, init=False, repr=False)
class DiscreteLaplace(Laplace):
    """The discrete (geometric) Laplace law: P(Z = z) is proportional to exp(-|z| / scale), z whole.

    It is the law of |Y| less a shift, at least 0, rounded and with a sign, for Y of the Laplace law of this
    scale. Quantiles and tolerances are whole: the smallest that are not passed more often.

    Args:
        scale: greater than 0, taken exactly; epsilon = l1 sensitivity / scale.
    Raises:
        ParameterError: scale is not a finite number greater than 0.

    >>> law = DiscreteLaplace(scale=1)
    >>> [round(law.rounded_pmf(z), 3) for z in (0, 1, 2)], round(law.standard_deviation, 3)
    ([0.462, 0.17, 0.063], 1.357)
    >>> law.tolerance(5), law.sf(3.2) == law.sf(3), law.tail_quantile(0.05)
    (11.0, True, 2.0)

    Source:
        Ghosh, Roughgarden and Sundararajan 2012, "Universally utility-maximizing privacy mechanisms";
        docs/noise.md for the draws.
    """

    title: ClassVar[str] = "discrete Laplace"
    discrete: ClassVar[bool] = True

    @property
    def variance(self) -> float:
        """The variance of the discrete Laplace law, 2 r / (1 - r)^2 with r = exp(-1 / scale)."""
        return self.standard_deviation**2

    @property
    def standard_deviation(self) -> float:
        """The standard deviation of the discrete Laplace law, 1 / (sqrt 2 sinh(1 / (2 scale)))."""
        context = nearest(working_bits)
        half = context.div(self.scale.denominator, 2 * self.scale.numerator)
        return to_float(context.div(1, context.mul(context.sqrt(2), context.sinh(half))))

    def _place(self, x: Fraction) -> Fraction:
        return math.floor(x) + Fraction(1, 2)

    def _outside(self, x: Fraction, bits: int) -> tuple[Any, Any]:
        return discrete_tail(int(x + Fraction(1, 2)), self.scale, bits)

    def _magnitude(self, outside: Any, inside: Any) -> Any:
        context = nearest(working_bits)
        real = context.sub(super()._magnitude(outside, inside), discrete_shift(self.scale, working_bits))
        return context.rint(real) if real > 0 else context.plus(0)


@dataclass(frozen=True, init=False, repr=False)
class Gaussian(Law):
    """The Gaussian law of mean 0.

    Args:
        sigma: standard deviation, greater than 0, in any unit, taken exactly.
    Raises:
        ParameterError: sigma is not a finite number greater than 0.

    >>> law = Gaussian(sigma=0.5)
    >>> law, law.sigma, law.variance
    (Gaussian(sigma=1/2), Fraction(1, 2), 0.25)

    Source:
        Balle and Wang 2018, for its use; docs/noise.md for the draws.
    """

    sigma: Fraction
    standard: ClassVar[Standard] = gaussian
    unit_name: ClassVar[str] = "sigma"
    title: ClassVar[str] = "Gaussian"

    def __init__(self, sigma: Number) -> None:
        object.__setattr__(self, "sigma", positive(sigma, "sigma"))

    @property
    def variance(self) -> float:
        """The variance of the Gaussian law, sigma^2."""
        return float(self.sigma**2)

    @property
    def standard_deviation(self) -> float:
        """The standard deviation of the Gaussian law, sigma."""
        return float(self.sigma)


FINE = 2.0  # standard deviations from here on, rounding is a uniform error beside Gaussian noise
NEAR = 10  # steps that hold a Gaussian below FINE, tilted by at most a few units


@dataclass(frozen=True)
class RoundedNoise:
    """The rounded law of a count's noise: a real draw, rounded to a whole number, times a step.

    Without a law there is no noise.

    >>> from sfumato.noise import Laplace
    >>> round(RoundedNoise(Laplace(10)).variance, 3), RoundedNoise(None).variance
    (200.083, 0.0)
    """

    law: Law | None
    step: float = 1.0

    @cached_property
    def variance(self) -> float:
        """The variance of the rounded law: about that of the real law and 1/12, which rounding adds."""
        if self.law is None:
            return 0.0
        if self.law.discrete:
            whole = self.law.variance
        elif isinstance(self.law, Laplace):
            # P(R = m) = sinh(1/2b) e^(-|m|/b) for m != 0.
            rest = 1 / float(self.law.scale)
            whole = math.exp(-rest / 2) * (1 + math.exp(-rest)) / math.expm1(-rest) ** 2
        elif self.law.variance >= FINE**2:
            whole = self.law.variance + 1 / 12
        else:
            steps = np.arange(1, 20 * NEAR)
            whole = float(2 * (steps**2 * self.law.rounded_pmf(steps)).sum())
        return whole * self.step**2

    @property
    def reach(self) -> float:
        """The end of the rounded law's `exponent`, which is infinite from here on."""
        return 1 / (float(self.law.scale) * self.step) if isinstance(self.law, Laplace) else math.inf

    def exponent(self, s: Floats) -> Floats:
        """Return log E e^(s R) of the rounded law, or a number above it, for s >= 0 of any shape.

        Laplace: the sum of two geometric series. Gaussian with a standard deviation of 2 or more: rounding
        is a factor sinh(s/2) / (s/2), to 1e-33 (Poisson summation). Below that, a sum of point
        masses, and where s is so large that the sum would not end, e^(s/2) for the rounding.
        """
        if self.law is None:
            return np.zeros_like(s)
        s = s * self.step
        if isinstance(self.law, Laplace):
            return _laplace(float(self.law.scale), self.law.shift, s)
        if not isinstance(self.law, Gaussian):
            raise AssertionError(self.law)
        half, spread = s / 2, s * s * (self.law.variance / 2)
        if self.law.variance >= FINE**2:
            return spread + _log_sinhc(half)
        steps = np.arange(1, 4 * NEAR)
        masses = self.law.rounded_pmf(steps)
        small = np.minimum(s, NEAR / 2)
        total = self.law.rounded_pmf(0) + sum(
            2 * p * np.cosh(m * small) for m, p in zip(steps, masses, strict=True)
        )
        return np.where(s < NEAR / 2, np.log(total), spread + half)


def _laplace(b: float, shift: float, s: Floats) -> Floats:
    rest = 1 / b
    log_part = -shift / b  # of the noise that would not be 0
    inside = np.minimum(s, rest * (1 - 1e-9))
    # sinh(1/2b) e^(-1/b), without overflow for small b, times that part.
    log_factor = math.log(-math.expm1(-rest) / 2) - rest / 2 + log_part
    with np.errstate(over="ignore", invalid="ignore"):
        up = np.exp(inside) / -np.expm1(inside - rest)
        down = np.exp(-inside) / -np.expm1(-inside - rest)
        # In logarithms where e^s overflows, though the mass there does not.
        far = inside + log_factor - np.log(-np.expm1(inside - rest))
        near = np.log1p(math.exp(log_factor) * (up + down) - math.exp(-rest / 2 + log_part))
    found: Any = np.where(inside < 600, near, np.logaddexp(0, far))
    return np.where(s < rest * (1 - 1e-9), found, np.inf)


def _log_sinhc(x: Floats) -> Floats:
    """Return log(sinh(x) / x) for x >= 0, the part of rounding in a law's exponent."""
    large = np.maximum(x, 1e-3)
    return np.where(x < 1e-3, x * x / 6, large - np.log(2 * large) + np.log1p(-np.exp(-2 * large)))
