"""Noises of ratios (means and variances), in logarithms: the probability to pass the ends of an interval."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from enum import Enum
from fractions import Fraction

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact.outward_rounding import log_tail
from sfumato.noise import Gaussian, Laplace, Law
from sfumato.testing.tolerances.log_integrals import Floats, log_difference, roundoff


class LogLaw(ABC):
    """The symmetric law of a ratio's noise at scale one, in natural logarithms."""

    @abstractmethod
    def density(self, x: Floats) -> Floats:
        """Return the logarithm of the noise's density."""

    @abstractmethod
    def tail(self, x: Floats) -> Floats:
        """Return log P(Z > x) of a ratio's noise Z."""

    @abstractmethod
    def log_central_probability(self, centre: Floats, half: Floats) -> Floats:
        """Return log P(|Z - centre| < half) of a ratio's noise Z, without cancellation."""

    @abstractmethod
    def reach(self, decades: float) -> float:
        """Return x with P(|Z| > x) <= 10^-decades for a ratio's noise Z."""


class LogLaplace(LogLaw):
    """The Laplace law of a ratio's noise, in logarithms; or, between whole numbers, the discrete one.

    Args:
        log_part: the logarithm of the part of the noise that has this law, where the rest is 0.
    """

    def __init__(self, log_part: float = 0.0) -> None:
        self._log_half = log_part - math.log(2)
        self._rest = -math.expm1(log_part)

    def density(self, x: Floats) -> Floats:
        """Return -|x| - log 2, the log density of a ratio's Laplace noise, or of its part."""
        return -np.abs(x) + self._log_half

    def tail(self, x: Floats) -> Floats:
        """Return log P(Z > x) of a ratio's Laplace noise Z."""
        far = -np.abs(x) + self._log_half
        return np.where(x >= 0, far, np.log1p(-np.exp(far)))

    def log_central_probability(self, centre: Floats, half: Floats) -> Floats:
        """Return log P(|Z - centre| < half) of a ratio's Laplace noise Z."""
        a = np.abs(centre)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # Both ends on one side of 0: e^-a sinh(half).
            beside = -a + half + np.log(-np.expm1(-2 * half)) + self._log_half
            sides = -np.expm1(-(half - a)) - np.expm1(-(half + a))
            around = np.log(self._rest + math.exp(self._log_half) * sides)
        return np.where(a >= half, beside, around)

    def reach(self, decades: float) -> float:
        """Return decades times ln 10, the reach of a ratio's Laplace noise."""
        return decades * math.log(10)


class LogGaussian(LogLaw):
    """The Gaussian law of a ratio's noise, in logarithms."""

    def density(self, x: Floats) -> Floats:
        """Return -x^2/2 - log(2 pi)/2, the log density of a ratio's Gaussian noise."""
        return -x * x / 2 - math.log(2 * math.pi) / 2

    def tail(self, x: Floats) -> Floats:
        """Return log P(Z > x) of a ratio's Gaussian noise Z."""
        return log_tail(x)

    def log_central_probability(self, centre: Floats, half: Floats) -> Floats:
        """Return log P(|Z - centre| < half) of a ratio's Gaussian noise Z."""
        a, half = np.broadcast_arrays(np.abs(centre), half)
        result = np.empty(a.shape)
        narrow = half * np.maximum(1, a) <= 2
        b, h = a[narrow], half[narrow]
        nodes, weights = np.polynomial.legendre.leggauss(20)
        total = np.zeros(b.shape)
        for x, w in zip(nodes.tolist(), weights.tolist(), strict=True):
            y = h * x
            total += w * np.exp(-y * (b + y / 2))
        with np.errstate(divide="ignore"):
            result[narrow] = self.density(b) + np.log(h * total)
        b, h = a[~narrow], half[~narrow]
        near, far = self.tail(np.abs(b - h)), self.tail(b + h)
        beside = near + np.log1p(-np.exp(np.minimum(far - near, -1e-9)))
        around = np.log1p(-np.minimum(np.exp(near) + np.exp(far), 1 - 1e-9))
        result[~narrow] = np.where(b >= h, beside, around)
        return result

    def reach(self, decades: float) -> float:
        """Return the reach of a ratio's Gaussian noise Z, by P(|Z| > x) <= e^(-x^2/2)."""
        return math.sqrt(2 * decades * math.log(10))


def in_steps(law: Law, step: Fraction) -> Law:
    """Return the law of a ratio's noise in grid steps."""
    return type(law)(law.unit / step)  # type: ignore[call-arg]


def log_law(law: Law) -> LogLaw:
    """Return the logarithmic law of a ratio's noise, in steps, at scale one."""
    if isinstance(law, Laplace):
        return LogLaplace(-law.shift / float(law.unit))
    if isinstance(law, Gaussian):
        return LogGaussian()
    raise ParameterError("noise", law, "a Laplace or Gaussian law of sfumato.noise")


ties: float = 1e-9  # a threshold this near to a grid point, in steps, may stand on either side of it


class Event(Enum):
    """The event that a noisy ratio is farther from the raw one than t, or nearer."""

    outside = "farther than t"
    inside = "nearer than t"


@dataclass(frozen=True)
class Ends:
    """Which ends of raw +- t a noisy ratio can pass; clamping takes some away."""

    above: bool
    below: bool

    def certain(self, event: Event) -> float | None:
        """Return the logarithm of the event's probability where no noise changes it."""
        if self.above or self.below:
            return None
        return -math.inf if event is Event.outside else 0.0


@dataclass(frozen=True)
class Noise:
    """The noise of a part of a ratio, in floats: its law, unit, and the grid step that it is rounded to."""

    shape: LogLaw
    unit: float
    step: float

    @classmethod
    def from_law(cls, law: Law, name: str, step: Fraction = Fraction(0)) -> Noise:
        """Return the noise of a part of a ratio, from a law of `sfumato.noise`."""
        if not isinstance(law, Law):
            raise ParameterError(name, law, "a Laplace or Gaussian law of sfumato.noise")
        unit = float(law.unit)
        if not 1e-150 < unit < 1e150:
            raise ParameterError(name, law, "of a unit between 1e-150 and 1e150")
        if law.discrete and not step:
            raise ParameterError(
                name, law, "Laplace(scale=...), or named by rounded=, as discrete noise is whole"
            )
        return cls(log_law(in_steps(law, step) if step else law), unit, float(step))

    def density(self, x: Floats) -> Floats:
        """Return the logarithm of the density of a ratio's unrounded noise."""
        return self.shape.density(x / self.unit) - math.log(self.unit)

    def mass(self, m: Floats) -> Floats:
        """Return log P(round(Z / step) = m) of a ratio's noise, also between whole numbers."""
        return self.shape.log_central_probability(
            m * self.step / self.unit, np.asarray(self.step / 2 / self.unit)
        )

    def weight(self, r: Floats) -> Floats:
        """Return how likely the noise of a ratio's count is r: its mass if whole, its density if real."""
        return self.mass(r) if self.step else self.density(r)

    def log_lower_tail(self, r: float) -> Floats:
        """Return log P(noise of a ratio's count <= r), for a whole r where the noise is whole."""
        return self.shape.tail(np.array([(-r - self.step / 2) / self.unit]))

    def reach(self, cut: float, count: int) -> tuple[float, float]:
        """Return the smallest and largest noise of a ratio's count, but for 10^-cut and counts up to 1."""
        most = self.shape.reach(cut) * self.unit
        if not self.step:
            return max(1.0 - count, -most), most
        most = math.floor(most + 1)
        return max(2 - count, -most), most

    def chance(self, event: Event, ends: Ends, centre: Floats, half: Floats) -> Floats:
        """Return log P(|Z - centre| > half), or < half, or of one side, for a ratio's unrounded noise Z.

        Args:
            event: which of the two.
            ends: an end that is not there cannot be passed.
            centre: in units.
            half: in units; below 0 the ends have crossed: all is outside of both, and nothing inside.
        """
        low, high = centre - half, centre + half
        if event is Event.outside:
            result = np.full(np.shape(low), -np.inf)
            if ends.above:
                result = self.shape.tail(high / self.unit)
            if ends.below:
                result = np.logaddexp(result, self.shape.tail(-low / self.unit))
            return np.asarray(np.minimum(result, 0))
        if ends.above and ends.below:
            return self.shape.log_central_probability(centre / self.unit, np.maximum(half, 0) / self.unit)
        return self.shape.tail(-high / self.unit if ends.above else low / self.unit)

    def rounded_chance(
        self, event: Event, ends: Ends, centre: Floats, half: Floats, size: Floats
    ) -> tuple[Floats, Floats]:
        """Return the `chance` of noise that is rounded to the grid, and its error.

        An end on a grid point, or so near to one that floats do not tell, has two readings: the point
        passes the end, or does not. The result is their middle, and the error reaches both.

        Args:
            event: as for `chance`.
            ends: likewise.
            centre: in units.
            half: in units; below 0 is taken as 0.
            size: sum of the absolute terms of which centre and half were computed.
        """
        half = np.maximum(half, 0)
        near = ties + 2.0**-50 * size / self.step
        low, high = (centre - half) / self.step, (centre + half) / self.step
        if event is Event.outside:
            more = np.ceil(low + near) - 0.5, np.floor(high - near) + 0.5
            less = np.ceil(low - near) - 0.5, np.floor(high + near) + 0.5
        else:
            more = np.floor(low - near) + 0.5, np.ceil(high + near) - 0.5
            less = np.floor(low + near) + 0.5, np.ceil(high - near) - 0.5
        value, error = self._between_steps(event, ends, *more)
        apart = (ends.below & (more[0] != less[0])) | (ends.above & (more[1] != less[1]))
        if apart.any():
            other, its_error = self._between_steps(event, ends, less[0][apart], less[1][apart])
            upper, lower = value[apart], np.minimum(other, value[apart])
            value[apart] = np.logaddexp(upper, lower) - math.log(2)
            gap = log_difference(upper, lower) - math.log(2)
            error[apart] = np.logaddexp.reduce([error[apart], its_error, gap])
        return value, error

    def _between_steps(self, event: Event, ends: Ends, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return log P(event) and log error of a ratio's noise, for ends between grid points."""
        scale = self.step / self.unit
        value = self.chance(event, ends, self.step * ((low + high) / 2), self.step * ((high - low) / 2))
        error = roundoff(value)
        # An end times the scale is off by its own rounding, and so is the chance by the density there.
        for there, end in ((ends.below, low), (ends.above, high)):
            if there:
                with np.errstate(divide="ignore"):
                    shift = np.log(2.0**-51 * np.abs(end) * scale)
                error = np.logaddexp(error, self.shape.density(end * scale) + shift)
        return value, error

    def roundoff(
        self, event: Event, ends: Ends, chance: Floats, centre: Floats, half: Floats, size: Floats
    ) -> Floats:
        """Return the logarithm of the error of a ratio's `chance` from ends computed in floats.

        An end that is off by d moves the chance by its density there, times d; an interval that is off
        as a whole by no more than itself times d times the slope of the log density.

        Args:
            event: as for `chance`.
            ends: likewise.
            chance: what that gave.
            centre: in units.
            half: in units; below 0 as for `chance`.
            size: sum of the absolute terms of which an end (inside: the centre) was computed.
        """
        with np.errstate(divide="ignore"):
            shift = np.log(2.0**-51 * size)
            if ends.above and ends.below:
                by_ends = np.logaddexp(self.density(centre - half), self.density(centre + half))
            else:
                by_ends = self.density(centre + half if ends.above else centre - half)
            if event is Event.outside:
                return np.asarray(by_ends + shift)
            slope = np.log((1 + (np.abs(centre) + np.abs(half)) / self.unit) / self.unit)
            return np.asarray(np.minimum(by_ends, chance + slope) + shift)
