"""What means and variances share: their noises, their results, and the search for a tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fraction, positive, round_up
from sfumato.exact.roots import close
from sfumato.noise import Gaussian, Laplace, Law
from sfumato.testing.integration import log_difference, roundoff
from sfumato.testing.log_laws import LogLaw, log_law

Floats = NDArray[np.float64]
cuts = (26.0, 80.0, 350.0, 1100.0, 3600.0)  # noise beyond 10^-26, ... is left out, and added to the error
_largest_k = 3500  # of an exact tolerance: what is left out must be less likely than 10^-k
most_terms = 4_000_000  # of a sum over grid points; longer ones are enclosed
most_steps = 2.0**40  # beyond it, floats do not tell grid points apart; such sums are enclosed, too
_ties = 1e-9  # a threshold this near to a grid point, in steps, may stand on either side of it
_smallest_log = -708.0  # of a tolerance; e^-708 is a normal float


class Interval(NamedTuple):
    """Where a part of a ratio lies: its smallest value, the one without noise, the largest."""

    low: float
    raw: float
    high: float

    @classmethod
    def of(cls, low: Fraction, raw: Fraction, high: Fraction) -> Interval:
        """Round exact ends to floats."""
        return cls(float(low), float(raw), float(high))


class Probability(float):
    """A probability with a bound on its error.

    Attributes:
        error: the true probability is at most this far away. With rounded noise, what lies exactly t away
            is outside by one rounding of floats and inside by another: both are within the error.
        k: -log10 of the probability, also where that is too small for a float.
    """

    error: float
    k: float

    def __new__(cls, log_value: float, log_error: float) -> Probability:
        """Take both as natural logarithms."""
        probability = super().__new__(cls, math.exp(min(log_value, 0.0)))
        probability.error = math.exp(min(log_error, 0.0)) + 5e-324
        probability.k = -log_value / math.log(10)
        return probability


class RatioTolerance(float):
    """A tolerance that shows where its width comes from.

    Attributes:
        rule: the rule that gave it.
        k: 10^-k is the flakiness that it was made for.
        part_k: the k of each noise, or None where the rule needs none.
        intervals: of each part, by name.
        failure: for rule "exact", the true chance that correct noise goes beyond; else None.
    """

    rule: str
    k: float
    part_k: float | None
    intervals: Mapping[str, Interval]
    failure: Probability | None

    def __new__(
        cls,
        value: float,
        rule: str,
        k: float,
        part_k: float | None,
        intervals: Mapping[str, Interval],
        failure: Probability | None = None,
    ) -> RatioTolerance:
        """Make the number and hang the rest on it."""
        tolerance = super().__new__(cls, value)
        tolerance.rule, tolerance.k, tolerance.part_k = rule, k, part_k
        tolerance.intervals = MappingProxyType(dict(intervals))
        tolerance.failure = failure
        return tolerance

    def explain(self) -> str:
        """Return one line for each part, and the result."""
        rows = [
            f"{name:>13}: {i.low:.9g} <= {i.raw:.9g} <= {i.high:.9g}" for name, i in self.intervals.items()
        ]
        share = "" if self.part_k is None else f", {self.part_k:.9g} for each noise"
        return "\n".join(
            [*rows, f"{'tolerance':>13}: {float(self):.9g} (rule {self.rule}, k = {self.k:.9g}{share})"]
        )


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

    def chance(self, event: Event, ends: Ends, centre: Floats, half: Floats) -> Floats:
        """Return log P(|Z - centre| > half), or < half, or of one side alone, for noise that is not rounded.

        Args:
            event: which of the two.
            ends: an end that is not there cannot be passed.
            centre: in units.
            half: in units; below 0 is taken as 0.
        """
        half = np.maximum(half, 0)
        low, high = centre - half, centre + half
        if event is Event.outside:
            result = np.full(np.shape(low), -np.inf)
            if ends.above:
                result = self.shape.tail(high / self.unit)
            if ends.below:
                result = np.logaddexp(result, self.shape.tail(-low / self.unit))
            return np.asarray(np.minimum(result, 0))
        if ends.above and ends.below:
            return self.shape.inside(centre / self.unit, half / self.unit)
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
        near = _ties + 2.0**-50 * size / self.step
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
        high = np.maximum(high, low)
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
            half: in units.
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
            slope = np.log((1 + (np.abs(centre) + half) / self.unit) / self.unit)
            return np.asarray(np.minimum(by_ends, chance + slope) + shift)


def whole_at_least_0(value: object, name: str) -> int:
    """Take a raw count."""
    number = as_fraction(value, name)
    if number < 0 or number.denominator != 1:
        raise ParameterError(name, value, "a whole number of at least 0")
    return int(number)


def bounds(lower: Number, upper: Number) -> tuple[Fraction, Fraction]:
    """Take the bounds that values are clamped to."""
    low, high = as_fraction(lower, "lower"), as_fraction(upper, "upper")
    if low >= high:
        raise ParameterError("upper", upper, f"greater than lower, which is {lower!r}")
    return low, high


def part_tolerance(law: Law, k: float, rounded: bool, step: Fraction) -> Fraction:
    """Return the tolerance of one real part, exactly rounded noise counted in whole steps."""
    if not rounded:
        return Fraction(law.tolerance(k))
    in_steps = Laplace(law.unit / step) if isinstance(law, Laplace) else Gaussian(law.unit / step)
    return step * in_steps.rounded_tolerance(k)


def grid_step(step: Number, name: str, rounded: bool) -> Fraction:
    """Take the grid step of a rounded statistic; 0 where it is not rounded."""
    exact = positive(step, name)
    return exact if rounded else Fraction(0)


# Given t, an event and how many decades of noise to look at: log probability, log error.
Integral = Callable[[float | Fraction, Event, float], tuple[float, float]]


def probability(integral: Integral, t: float | Fraction, event: Event) -> Probability:
    """Return P(event), with more and more of the noise's tails until they do not matter."""
    for cut in cuts:
        value, error = integral(t, event, cut)
        beyond = math.log(2) - cut * math.log(10)  # of the count, and of the sum
        if beyond < value - 32:
            break
    return Probability(value, float(np.logaddexp(error, beyond)))


def smallest_tolerance(
    integral: Integral, k: Fraction, sound: float, relative: float, jumps: list[Fraction]
) -> float:
    """Return the smallest t with P(outside t) <= 10^-k, from above, its error included.

    Args:
        integral: of the noisy value.
        k: greater than 0.
        sound: a tolerance that is known to do.
        relative: how near the result is to the smallest.
        jumps: where the probability jumps: the distances of the raw value from the ends of its range.
    Raises:
        ParameterError: the probability cannot be computed closely enough to tell 10^-k.
    """

    _check_k(k)

    def excess(t: float) -> float:
        return _excess(integral, t, Event.outside, k)

    bad, right = (0.0, excess(0.0)), sound
    below: float | None = None
    if bad[1] <= 0 or sound <= 0:
        return 0.0
    for jump in sorted(round_up(j) for j in jumps if j > 0):
        if jump >= right:
            break
        at_jump = excess(jump)
        if at_jump > 0:
            bad = jump, at_jump
            continue
        just_before = jump * (1 - relative)
        before = excess(just_before)
        if before > 0:
            return jump
        right, below = just_before, before
        break
    if below is None:
        # A sound tolerance that noise on a grid can meet has two readings; a little beyond it has one.
        tried = ((r, excess(r)) for r in (right, right * (1 + _ties)))
        right, below = next((pair for pair in tried if pair[1] <= 0), (math.nan, math.nan))
        if math.isnan(right):
            raise ParameterError(
                "rule",
                "exact",
                f'"joint" here: a law of so many rounded noises is enclosed, too widely for k = {float(k):g}',
            )
    return close(excess, bad, (right, below), 0.0, relative=relative, near=relative)


def largest_tolerance(integral: Integral, k: Fraction, start: float, relative: float) -> float:
    """Return the largest t with P(inside t) <= 10^-k, from below; 0 where there is none.

    Args:
        integral: of the noisy value.
        k: greater than 0.
        start: any t > 0, in the unit of the value.
        relative: how near the result is to the largest.
    """

    _check_k(k)

    def excess(fall: float) -> float:
        return _excess(integral, math.exp(-fall), Event.inside, k)

    low = -math.log(start)
    at_low = excess(low)
    while at_low <= 0:
        low -= 2.0
        if low < -math.log(start) - 1500 or low < -700:
            return math.inf
        at_low = excess(low)
    floor = min(-_smallest_log, low + math.log(10) * (float(k) + 15))
    at_floor = excess(floor)
    if at_floor > 0:
        return 0.0
    return math.exp(-close(excess, (low, at_low), (floor, at_floor), relative, near=relative))


def _check_k(k: Fraction) -> None:
    if k > _largest_k:
        raise ParameterError("k", float(k), f"at most {_largest_k}, but for the rules that look at no law")


def _excess(integral: Integral, t: float, event: Event, k: Fraction) -> float:
    """Return log (P + error) - log 10^-k."""
    target = -float(k) * math.log(10)
    cut = next((c for c in cuts if -c * math.log(10) < target - 32), cuts[-1])
    value, error = integral(t, event, cut)
    return float(np.logaddexp.reduce([value, error, math.log(2) - cut * math.log(10)])) - target
