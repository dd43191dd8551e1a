"""Tolerances of ratios (means and variances): shared arguments, results, and the search for a tolerance."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import ClassVar, Literal, NamedTuple, get_args

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fraction, positive, round_up
from sfumato.exact.root_finding import close
from sfumato.noise import Law
from sfumato.testing.tolerances.log_integrals import Floats, Groups, graded, log_integrals, roundoff
from sfumato.testing.tolerances.ratio_noises import Ends, Event, Noise, in_steps, ties

cuts: tuple[float, ...] = (
    26.0,
    80.0,
    350.0,
    1100.0,
    3600.0,
)  # noise beyond 10^-26, ... is left out, and added to the error
_largest_k = 3500  # of an exact tolerance: what is left out must be less likely than 10^-k
max_terms = 4_000_000  # of a sum over grid points; longer ones are enclosed
max_steps: float = 2.0**40  # beyond it, floats do not tell grid points apart; such sums are enclosed, too
_smallest_log = -708.0  # of a tolerance; e^-708 is a normal float


class Interval(NamedTuple):
    """The interval of one part of a ratio: smallest value, value without noise, largest value.

    Part of the result of `mean_tolerance`.

    Args:
        low, raw, high: numbers in the statistic's own unit.

    >>> from sfumato.noise import Laplace
    >>> from sfumato.testing import mean_tolerance
    >>> noises = dict(sum_noise=Laplace(10), count_noise=Laplace(2), rounded="count")
    >>> visits = dict(normalized_sum=-240, count=200, **noises)
    >>> mean_tolerance(9, **visits).intervals["count"]
    Interval(low=157.0, raw=200.0, high=243.0)
    """

    low: float
    raw: float
    high: float

    @classmethod
    def _enclose(cls, low: Fraction, raw: Fraction, high: Fraction) -> Interval:
        """Return the interval of a ratio's part, with exact ends rounded to floats.

        Args:
            low, raw, high: exact numbers.
        Returns:
            The interval, each number rounded to the nearest float.
        """
        return cls(float(low), float(raw), float(high))


class Probability(float):
    """A probability with a bound on its error, such as the failure probability of a ratio.

    Made by `mean_failure_probability`.

    Attributes:
        error: a bound on the distance to the true probability. With rounded noise, float rounding can put a
            value exactly t away outside or inside; the error covers both.
        k: -log10 of the probability, also if that is too small for a float.
    """

    error: float
    k: float

    def __new__(cls, log_value: float, log_error: float) -> Probability:
        """Make the failure probability of a ratio from natural logarithms."""
        probability = super().__new__(cls, math.exp(min(log_value, 0.0)))
        probability.error = math.exp(min(log_error, 0.0)) + 5e-324
        probability.k = -log_value / math.log(10)
        return probability


class RatioTolerance(float):
    """The tolerance of a ratio, with the intervals that determine its width.

    Made by `mean_tolerance` and `variance_tolerance`.

    Attributes:
        rule: the rule that it was computed with.
        k: 10^-k is the flakiness that it was computed for.
        part_k: the k of each noise, or None if the rule needs none.
        intervals: the intervals of the parts, by name.
        failure: for rule "exact", the true probability that correct noise exceeds it; otherwise None.
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
        """Make the tolerance of a ratio, a float with its rule, k and intervals."""
        tolerance = super().__new__(cls, value)
        tolerance.rule, tolerance.k, tolerance.part_k = rule, k, part_k
        tolerance.intervals = MappingProxyType(dict(intervals))
        tolerance.failure = failure
        return tolerance

    def explain(self) -> str:
        """Return one line for each part of the ratio, and one for its tolerance.

        >>> from sfumato.noise import Laplace
        >>> from sfumato.testing import mean_tolerance
        >>> noises = dict(sum_noise=Laplace(10), count_noise=Laplace(2), rounded="count")
        >>> visits = dict(normalized_sum=-240, count=200, **noises)
        >>> print(mean_tolerance(9, **visits).explain())
                  sum: -454.16413 <= -240 <= -25.8358698
                count: 157 <= 200 <= 243
                 mean: -2.89276516 <= -1.2 <= -0.106320452
            tolerance: 1.69276516 (rule joint, k = 9, 9.30103 for each noise)
        """
        rows = [
            f"{name:>13}: {i.low:.9g} <= {i.raw:.9g} <= {i.high:.9g}" for name, i in self.intervals.items()
        ]
        share = "" if self.part_k is None else f", {self.part_k:.9g} for each noise"
        return "\n".join(
            [*rows, f"{'tolerance':>13}: {float(self):.9g} (rule {self.rule}, k = {self.k:.9g}{share})"]
        )


def check_count(value: object, name: str) -> int:
    """Return the checked raw count of a ratio."""
    number = as_fraction(value, name)
    if number < 0 or number.denominator != 1:
        raise ParameterError(name, value, "a whole number of at least 0")
    return int(number)


def check_value_bounds(lower: Number, upper: Number) -> tuple[Fraction, Fraction]:
    """Return the checked bounds that the values of a ratio are clamped to."""
    low, high = as_fraction(lower, "lower"), as_fraction(upper, "upper")
    if low >= high:
        raise ParameterError("upper", upper, f"greater than lower, which is {lower!r}")
    return low, high


Rounded = Literal["none", "count", "sums", "all"]
_ROUNDED = (
    "'none' (real noise), 'count' (whole counts, real sums), 'sums' or 'all': which noises are whole steps"
)


def find_rounded_parts(rounded: object) -> tuple[bool, bool]:
    """Return which noises of a ratio are rounded to whole steps: the count's, and the sums'."""
    if not isinstance(rounded, str) or rounded not in get_args(Rounded):
        raise ParameterError("rounded", rounded, _ROUNDED)
    return rounded in ("count", "all"), rounded in ("sums", "all")


def get_part_tolerance(law: Law, k: float, step: Fraction) -> Fraction:
    """Return the tolerance of a ratio's part, in whole steps where rounded; the step of real noise is 0."""
    if not step:
        return Fraction(law.tolerance(k))
    return step * in_steps(law, step).rounded_tolerance(k)


def check_grid_step(step: Number | None, name: str, rounded: bool) -> Fraction:
    """Return the checked grid step of a ratio's rounded part; 0 where it is not rounded."""
    if rounded:
        return positive(step, name)
    if step is not None:
        raise ParameterError(name, step, "left out, as this noise is not rounded")
    return Fraction(0)


# Given t, an event and how many decades of noise to look at: log probability, log error.
Integral = Callable[[float | Fraction, Event, float], tuple[float, float]]


def enclose(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """Return the middle of two bounds of a ratio's probability, and an error that reaches both, in logs.

    Args:
        first, second: each with its own error.
    """
    high, low = max(first[0], second[0]), min(first[0], second[0])
    middle = float(np.logaddexp(high, low)) - math.log(2)
    half = high + math.log(-math.expm1(low - high) / 2) if high > low else -math.inf
    return middle, float(np.logaddexp.reduce([first[1], second[1], half]))


def probability(integral: Integral, t: float | Fraction, event: Event) -> Probability:
    """Return P(event) of a ratio, with more and more of the noise's tails until they do not matter."""
    for cut in cuts:
        value, error = integral(t, event, cut)
        beyond = math.log(2) - cut * math.log(10)  # of the count, and of the sum
        if beyond < value - 32:
            break
    return Probability(value, float(np.logaddexp(error, beyond)))


def find_smallest_tolerance(
    integral: Integral, k: Fraction, sound: float, relative: float, jumps: list[Fraction]
) -> float:
    """Return the smallest tolerance t of a ratio with P(outside t) <= 10^-k, from above.

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
        tried = ((r, excess(r)) for r in (right, right * (1 + ties)))
        right, below = next((pair for pair in tried if pair[1] <= 0), (math.nan, math.nan))
        if math.isnan(right):
            raise ParameterError(
                "rule",
                "exact",
                f'"joint" here: a law of so many rounded noises is enclosed, too widely for k = {float(k):g}',
            )
    return close(excess, bad, (right, below), 0.0, relative=relative, near=relative)


def find_largest_tolerance(integral: Integral, k: Fraction, start: float, relative: float) -> float:
    """Return the largest t of a ratio with P(inside t) <= 10^-k, from below; 0 where there is none.

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
    """Return log (P + error) - log 10^-k of a ratio at a tolerance."""
    target = -float(k) * math.log(10)
    cut = next((c for c in cuts if -c * math.log(10) < target - 32), cuts[-1])
    value, error = integral(t, event, cut)
    return float(np.logaddexp.reduce([value, error, math.log(2) - cut * math.log(10)])) - target


# For noises of the count, log P(event) and its roundoff.
Chance = Callable[[Floats], tuple[Floats, Floats]]


@dataclass(frozen=True)
class RatioLaw(ABC):
    """The law of a noisy mean or variance.

    Args:
        count: the raw count.
        count_step: 1 where the noise of the count is whole, 0 where it is real.
        count_noise: the noise of the count.
        raw: the ratio without noise.
        lowest, highest: the range that the noisy ratio is clamped to; None for none.
    """

    name: ClassVar[str]
    search: ClassVar[float]  # how near the tolerance of rule "exact" is to the smallest

    count: int
    count_step: Fraction
    count_noise: Noise
    raw: Fraction
    lowest: Fraction | None
    highest: Fraction | None

    @abstractmethod
    def integral(self, distance: float | Fraction, event: Event, cut: float) -> tuple[float, float]:
        """Return the logs of P(event) of a noisy ratio and of its error; noise beyond 10^-cut is left out."""

    def approximate(self, distance: float | Fraction, event: Event, cut: float) -> tuple[float, float]:
        """Return the `integral` of a noisy ratio with the error that a search for a tolerance needs."""
        return self.integral(distance, event, cut)

    def clamped(self, ratio: Fraction) -> Fraction:
        """Clamp a ratio to its range."""
        if self.lowest is None or self.highest is None:
            return ratio
        return max(self.lowest, min(self.highest, ratio))

    def ends(self, distance: float | Fraction, event: Event) -> Ends:
        """Return which ends of raw +- distance the clamped noisy ratio can pass."""
        if self.lowest is None or self.highest is None:
            return Ends(above=True, below=True)
        high, low = self.raw + Fraction(distance), self.raw - Fraction(distance)
        if event is Event.outside:
            return Ends(above=high < self.highest, below=low > self.lowest)
        return Ends(above=high <= self.highest, below=low >= self.lowest)

    def exact_tolerance(self, k: Fraction, joint: RatioTolerance) -> RatioTolerance:
        """Return the tolerance of a ratio by rule "exact", from that of rule "joint"."""
        jumps: list[Fraction] = []
        if self.lowest is not None and self.highest is not None:
            jumps = [self.raw - self.lowest, self.highest - self.raw]
        t = min(find_smallest_tolerance(self.approximate, k, float(joint), self.search, jumps), float(joint))
        low, high = self.clamped(self.raw - Fraction(t)), self.clamped(self.raw + Fraction(t))
        interval = {self.name: Interval._enclose(low, self.raw, high)}
        return RatioTolerance(t, "exact", float(k), None, interval, self.failure_probability(t))

    def failure_probability(self, tolerance: float | Fraction) -> Probability:
        """Return the probability that correct noise takes a ratio beyond a tolerance."""
        return probability(self.integral, tolerance, Event.outside)

    def complementary_tolerance(self, k: Number, noise: Noise) -> float:
        """Return the complementary tolerance of a ratio; `noise` is that of its numerator."""
        start = noise.unit / max(1, self.count)
        return find_largest_tolerance(self.approximate, positive(k, "k"), start, self.search)

    def over_counts(
        self,
        chance: Chance,
        least: float,
        maximum: float,
        kinks: Sequence[float],
        levels: int,
        relative: float,
    ) -> tuple[float, float]:
        """Sum or integrate a ratio's chance over the noise of the count; counts up to 1 all stand for 1.

        Args:
            chance: of the event, for given noises of the count.
            least, most: ends of the noise.
            kinks: noises at which the chance is not smooth.
            levels: how finely panels are graded.
            relative: the error that is aimed at.
        """

        def function(_: Groups, r: Floats) -> tuple[Floats, Floats]:
            distinct, place = np.unique(r, return_inverse=True)
            value, error = chance(distinct)
            weight = self.count_noise.weight(r)
            return value[place].reshape(r.shape) + weight, error[place].reshape(r.shape) + weight

        value = error = -math.inf
        if least <= maximum:
            points = sorted(
                min(max(p, float(least)), float(maximum)) for p in (least, maximum, 0.0, 1.0, *kinks)
            )
            panels = graded([np.array([p]) for p in points], is_integer=bool(self.count_step), levels=levels)
            values, errors = log_integrals(function, panels, 1, relative)
            value, error = float(values[0]), float(errors[0])
        atom, atom_error = self.at_one(chance)
        return float(np.logaddexp(value, atom)), float(np.logaddexp(error, atom_error))

    def at_one(self, chance: Chance) -> tuple[float, float]:
        """Return the part of a ratio's noisy counts up to 1, which all stand for 1."""
        value, error = chance(np.array([1.0 - self.count]))
        mass = self.count_noise.log_lower_tail(1 - self.count)
        part = value + mass
        return float(part[0]), float(np.logaddexp(error + mass, roundoff(part))[0])
