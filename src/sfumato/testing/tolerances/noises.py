"""Noises of means and variances in floats: how likely one takes a value past the ends of an interval."""

from __future__ import annotations

import math
from enum import Enum
from fractions import Fraction

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.noise import Law
from sfumato.testing.tolerances.integration import Floats, log_difference, roundoff
from sfumato.testing.tolerances.log_laws import LogLaw, log_law

ties: float = 1e-9  # a threshold this near to a grid point, in steps, may stand on either side of it


class Event(Enum):
    """What is asked of the distance between the noisy value and the raw one."""

    outside = "farther than t"
    inside = "nearer than t"


@dataclass(frozen=True)
class Ends:
    """Which ends of raw +- t the noisy value can pass; clamping takes some away."""

    above: bool
    below: bool

    def certain(self, event: Event) -> float | None:
        """Return the logarithm of the probability where no noise has a say."""
        if self.above or self.below:
            return None
        return -math.inf if event is Event.outside else 0.0


@dataclass(frozen=True)
class Noise:
    """A law in floats: its shape, unit, and the grid step that it is rounded to (0: it is real)."""

    shape: LogLaw
    unit: float
    step: float

    @classmethod
    def of(cls, law: Law, name: str, step: Fraction = Fraction(0)) -> Noise:
        """Take a law of `sfumato.noise`."""
        if not isinstance(law, Law):
            raise ParameterError(name, law, "a Laplace or Gaussian law of sfumato.noise")
        unit = float(law.unit)
        if not 1e-150 < unit < 1e150:
            raise ParameterError(name, law, "of a unit between 1e-150 and 1e150")
        return cls(log_law(law), unit, float(step))

    def density(self, x: Floats) -> Floats:
        """Return the logarithm of the density of the unrounded noise."""
        return self.shape.density(x / self.unit) - math.log(self.unit)

    def mass(self, m: Floats) -> Floats:
        """Return log P(round(Z / step) = m), also between whole numbers; smooth but at 0."""
        return self.shape.inside(m * self.step / self.unit, np.asarray(self.step / 2 / self.unit))

    def weight(self, r: Floats) -> Floats:
        """Return how likely the noise of a count is r: of whole noise its mass, of real noise its density."""
        return self.mass(r) if self.step else self.density(r)

    def at_most(self, r: float) -> Floats:
        """Return log P(noise of a count <= r), for a whole r where the noise is whole."""
        return self.shape.tail(np.array([(-r - self.step / 2) / self.unit]))

    def reach(self, cut: float, count: int) -> tuple[float, float]:
        """Return the smallest and largest noise of a count, but for 10^-cut and for noisy counts up to 1."""
        most = self.shape.reach(cut) * self.unit
        if not self.step:
            return max(1.0 - count, -most), most
        most = math.floor(most + 1)
        return max(2 - count, -most), most

    def chance(self, event: Event, ends: Ends, centre: Floats, half: Floats) -> Floats:
        """Return log P(|Z - centre| > half), or < half, or of one side alone, for noise that is not rounded.

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
            return self.shape.inside(centre / self.unit, np.maximum(half, 0) / self.unit)
        return self.shape.tail(-high / self.unit if ends.above else low / self.unit)

    def rounded_chance(
        self, event: Event, ends: Ends, centre: Floats, half: Floats, size: Floats
    ) -> tuple[Floats, Floats]:
        """Return the same for noise that is rounded to the grid, and its error.

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
        """Return log P(event) and log error for ends that lie in the middle between grid points."""
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
        """Return the logarithm of the error of `chance` that comes of ends computed in floats.

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
