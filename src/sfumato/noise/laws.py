"""Laws of noise: Laplace and Gaussian, real and rounded, and discrete Laplace."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact import Number, positive, whole_number
from sfumato.exact.library_settings import mark_unaffected
from sfumato.exact.outward_rounding import nearest, to_float
from sfumato.noise.law_tails import Floats, Tails, times_root, working_bits
from sfumato.noise.random_words import Words, get_source
from sfumato.noise.rounded_sampler import largest_scale, sampler
from sfumato.noise.standard_laws import Standard, discrete_shift, discrete_tail, gaussian, laplace


class Law(Tails):
    """A symmetric distribution of noise Z: scale times a standard one, in any unit, or discrete Laplace.

    Source:
        docs/noise.md.
    """

    unit_name: ClassVar[str]
    title: ClassVar[str]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.unit_name}={self.unit})"

    def _in_messages(self) -> str:
        return repr(self)

    @property
    @mark_unaffected
    def unit(self) -> Fraction:
        """The scale of the distribution: Laplace's scale, or the Gaussian standard deviation."""
        return cast(Fraction, getattr(self, self.unit_name))

    @property
    @mark_unaffected
    def name(self) -> str:
        """The name of the distribution in a description for the certificate."""
        return self.title.lower().replace(" ", "_")

    def rounded(self, n: int, words: Words | None = None) -> NDArray[np.int64]:
        """Draw n rounded values: Z with infinite precision, rounded to the nearest integer.

        Args:
            n: the number of draws.
            words: a source of random words; None for this thread's secure source. First n words are taken,
                then, in order, those that single draws need beyond their first.
        Returns:
            int64 of shape (n,), independent; values beyond +-(2^63 - 1) are clamped to it.
        Raises:
            ParameterError: n is not a whole number of at least 0, or the unit is above 2^57.

        >>> from sfumato.noise import Laplace, SeededWords
        >>> Laplace(scale=1000).rounded(4, SeededWords(1))
        array([  -31, -1381,   158, -1154])

        Source:
            The design, "One idea"; docs/noise.md.
        """
        count = whole_number(n, "n", 0)
        unit = self.unit
        if unit > largest_scale:
            expected = "at most 2**57 grid steps, to fit 64-bit integers. Use a coarser grid"
            raise ParameterError(self.unit_name, unit, expected)
        return sampler(self.standard, unit, self.discrete).draw(count, get_source(words))


@dataclass(frozen=True, init=False, repr=False)
class Laplace(Law):
    """The Laplace distribution, with density exp(-|x| / scale) / (2 scale).

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
        """The variance, 2 scale^2."""
        return float(2 * self.scale**2)

    @property
    def standard_deviation(self) -> float:
        """The standard deviation, the square root of 2 times the scale."""
        return times_root(self.scale, 2)


@dataclass(frozen=True, init=False, repr=False)
class DiscreteLaplace(Laplace):
    """The discrete (geometric) Laplace distribution: P(Z = z) is proportional to exp(-|z| / scale), z whole.

    It is the distribution of |Y| minus a shift, at least 0, rounded and with a sign, for Y from the Laplace
    distribution of this scale. Quantiles and tolerances are whole: the smallest that hold with the required
    probability.

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
        """The variance, 2 r / (1 - r)^2 with r = exp(-1 / scale)."""
        return self.standard_deviation**2

    @property
    def standard_deviation(self) -> float:
        """The standard deviation, 1 / (sqrt 2 sinh(1 / (2 scale)))."""
        context = nearest(working_bits)
        half = context.div(self.scale.denominator, 2 * self.scale.numerator)
        return to_float(context.div(1, context.mul(context.sqrt(2), context.sinh(half))))

    def _place(self, x: Fraction) -> Fraction:
        return math.floor(x) + Fraction(1, 2)

    def _two_sided_tail(self, x: Fraction, bits: int) -> tuple[Any, Any]:
        return discrete_tail(int(x + Fraction(1, 2)), self.scale, bits)

    def _magnitude(self, outside: Any, inside: Any) -> Any:
        context = nearest(working_bits)
        real = context.sub(super()._magnitude(outside, inside), discrete_shift(self.scale, working_bits))
        return context.rint(real) if real > 0 else context.plus(0)


@dataclass(frozen=True, init=False, repr=False)
class Gaussian(Law):
    """The Gaussian distribution with mean 0.

    Args:
        sigma: the standard deviation, greater than 0, in any unit, taken exactly.
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
        """The variance, sigma^2."""
        return float(self.sigma**2)

    @property
    def standard_deviation(self) -> float:
        """The standard deviation, sigma."""
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
