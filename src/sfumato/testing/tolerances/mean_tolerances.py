"""Tolerances of a noisy mean: the interval rule, the exact law, and the complementary tolerance.

The mean is the noisy sum of distances from the midpoint, over the noisy count clamped to at least 1. For a
fixed noisy count c, to be farther than t from the raw mean m is a tail of the sum's noise Z:
Z > (m + t) c - S or Z < (m - t) c - S. What is left is a sum over c where the count's noise is whole, and an
integral where it is real, each side log-concave in c.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NotRequired, TypedDict, Unpack

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fraction, at_least_0, positive, round_up
from sfumato.exact.library_settings import isolated
from sfumato.noise import Law
from sfumato.testing.tolerances.log_integrals import Floats, roundoff
from sfumato.testing.tolerances.noise_tolerances import per_partition_k
from sfumato.testing.tolerances.ratio_noises import Ends, Event, Noise
from sfumato.testing.tolerances.ratio_tolerances import (
    Interval,
    Probability,
    RatioLaw,
    RatioTolerance,
    Rounded,
    check_count,
    check_grid_step,
    check_value_bounds,
    enclose,
    find_rounded_parts,
    get_part_tolerance,
    max_steps,
    max_terms,
)

_rules = ("joint", "exact", "2020")


class MeanCase(TypedDict):
    """A raw mean and its noises, as `mean_tolerance` describes them."""

    normalized_sum: Number
    count: int
    sum_noise: Law
    count_noise: Law
    rounded: Rounded
    lower: NotRequired[Number | None]
    upper: NotRequired[Number | None]
    sum_step: NotRequired[Number | None]


@isolated
def mean_tolerance(
    k: Number,
    *,
    normalized_sum: Number,
    count: int,
    sum_noise: Law,
    count_noise: Law,
    rounded: Rounded,
    lower: Number | None = None,
    upper: Number | None = None,
    rule: str = "joint",
    sum_step: Number | None = None,
) -> RatioTolerance:
    """Return t with P(|noisy mean - raw mean| > t) <= 10^-k.

    Rules: "joint" uses interval arithmetic; sum and count both stay close except with probability 10^-k.
    "exact" is the smallest t, from the distribution of the ratio. "2020" takes each noise at k/2, which is
    UNSOUND: its flakiness is up to 2 * 10^(-k/2), and more if the sum can be negative.

    Args:
        k: greater than 0; 10^-k is the flakiness.
        normalized_sum: the raw sum of distances from the midpoint of the bounds, in the unit of the values.
        count: the raw count, a whole number.
        sum_noise: the distribution of the sum's noise, in the unit of the values.
        count_noise: the distribution of the count's noise.
        rounded: which noise the tested library rounds: "none" if all noise is real (PipelineDP); "count", to
            whole numbers; "sums", to whole steps; or "all". A tolerance for whole counts is wrong for real
            ones.
        lower: the lower bound of the values, to which the noisy mean is clamped; None for no clamping.
        upper: the upper bound, likewise.
        rule: one of the three rules.
        sum_step: the grid step of a rounded sum, in the unit of the values; leave it out for a real one.
    Returns:
        t in the unit of the values: a float with the `intervals` of "sum", "count" and "mean" (relative to
        the midpoint). "exact" is sound and within 1e-9 of the smallest.
    Raises:
        ParameterError: an argument is out of range.
    Source:
        docs/tolerances.md, "Means".

    >>> from sfumato.noise import Laplace
    >>> given = dict(normalized_sum=500, count=1000, sum_noise=Laplace(10), count_noise=Laplace(1))
    >>> t = mean_tolerance(23, **given, rounded="count")
    >>> print(t.explain())
              sum: -36.5260432 <= 500 <= 1036.52604
            count: 946 <= 1000 <= 1054
             mean: -0.0386110393 <= 0.5 <= 1.09569349
        tolerance: 0.595693492 (rule joint, k = 23, 23.30103 for each noise)
    >>> round(mean_tolerance(23, **given, rounded="count", rule="exact"), 6)
    0.52965
    >>> round(mean_tolerance(23, **given, rounded="none", rule="exact"), 6)
    0.529648
    """
    exact_k = positive(k, "k")
    law = MeanLaw.from_arguments(
        normalized_sum, count, sum_noise, count_noise, rounded, lower, upper, sum_step
    )
    if rule not in _rules:
        raise ParameterError("rule", rule, f"one of {', '.join(map(repr, _rules))}")
    if rule == "2020":
        half_k = float(exact_k / 2)
        of_sum, of_count = (
            max(Fraction(math.ceil(noise.tolerance(half_k))), get_part_tolerance(noise, half_k, step))
            for noise, step in ((sum_noise, law.step), (count_noise, law.count_step))
        )
        return law.by_intervals(of_sum, of_count, float(exact_k), half_k, rule)
    part_k = per_partition_k(k, 2)
    of_sum = get_part_tolerance(sum_noise, part_k, law.step)
    of_count = get_part_tolerance(count_noise, part_k, law.count_step)
    joint = law.by_intervals(of_sum, of_count, float(exact_k), part_k)
    if rule == "joint":
        return joint
    return law.exact_tolerance(exact_k, joint)


@isolated
def mean_failure_probability(tolerance: Number, **case: Unpack[MeanCase]) -> Probability:
    """Return P(|noisy mean - raw mean| > tolerance), the true flakiness of a test.

    Args:
        tolerance: at least 0, in the unit of the values.
        case: the raw numbers, noises and bounds, by name, as for `mean_tolerance`.
    Returns:
        A float with its `error`, and `k`, -log10 of it. With rounded noise, a sum over up to four million
        noisy counts is exact and a longer one is enclosed between two integrals; `error` is the width.
    Raises:
        ParameterError: an argument is out of range.
    Source:
        docs/tolerances.md, "The law of a mean".

    >>> from sfumato.noise import Laplace
    >>> p = mean_failure_probability(
    ...     0.1, normalized_sum=500, count=1000, sum_noise=Laplace(10), count_noise=Laplace(1),
    ...     rounded="count")
    >>> p, p.error < 1e-12 * p
    (4.5522844...e-05, True)
    """
    return MeanLaw.from_arguments(**case).failure_probability(at_least_0(tolerance, "tolerance"))


@isolated
def complementary_mean_tolerance(k: Number, **case: Unpack[MeanCase]) -> float:
    """Return the largest t with P(|noisy mean - raw mean| < t) <= 10^-k; closer means lack noise.

    Args:
        k: greater than 0; 10^-k is the probability that correct noise is called missing.
        case: the raw numbers, noises and bounds, by name, as for `mean_tolerance`.
    Returns:
        t in the unit of the values, sound and within 1e-9 of the largest; 0 if the raw mean itself has a
        probability above 10^-k (as with rounded noise, or at a bound to which means are clamped), and inf if
        every t is valid.
    Raises:
        ParameterError: an argument is out of range.
    Source:
        docs/tolerances.md, "The law of a mean".

    >>> from sfumato.noise import Laplace
    >>> t = complementary_mean_tolerance(
    ...     5, normalized_sum=500, count=1000, sum_noise=Laplace(10), count_noise=Laplace(1),
    ...     rounded="count")
    >>> round(t, 12)
    1.04768e-07
    """
    law = MeanLaw.from_arguments(**case)
    return law.complementary_tolerance(k, law.sum_noise)


@dataclass(frozen=True)
class MeanLaw(RatioLaw):
    """The law of a noisy mean, relative to the midpoint of the bounds."""

    name = "mean"
    search = 1e-10

    total: Fraction
    step: Fraction
    sum_noise: Noise

    @classmethod
    def from_arguments(
        cls,
        normalized_sum: Number,
        count: int,
        sum_noise: Law,
        count_noise: Law,
        rounded: Rounded,
        lower: Number | None = None,
        upper: Number | None = None,
        sum_step: Number | None = None,
    ) -> MeanLaw:
        """Return the law of a noisy mean, from the checked arguments of the public functions."""
        whole_count, whole_sum = find_rounded_parts(rounded)
        total, n = as_fraction(normalized_sum, "normalized_sum"), check_count(count, "count")
        reach = None
        if lower is not None or upper is not None:
            if lower is None or upper is None:
                missing = "lower" if lower is None else "upper"
                raise ParameterError(missing, None, "given, as the other bound is")
            low, high = check_value_bounds(lower, upper)
            reach = (high - low) / 2
        raw = total / max(1, n)
        if reach is not None:
            raw = max(-reach, min(reach, raw))
        step, count_step = check_grid_step(sum_step, "sum_step", whole_sum), Fraction(whole_count)
        noises = (
            Noise.from_law(sum_noise, "sum_noise", step),
            Noise.from_law(count_noise, "count_noise", count_step),
        )
        lowest = None if reach is None else -reach
        return cls(n, count_step, noises[1], raw, lowest, reach, total, step, noises[0])

    def by_intervals(
        self, of_sum: Fraction, of_count: Fraction, k: float, part_k: float, rule: str = "joint"
    ) -> RatioTolerance:
        """Return the tolerance of a mean by interval arithmetic, from those of the sum and the count.

        Rule "2020" pairs the extremes without a look at the sign of the sum, and clamps nothing.
        """
        low_sum, high_sum = self.total - of_sum, self.total + of_sum
        low_count, high_count = (max(Fraction(1), self.count + side * of_count) for side in (-1, 1))
        if rule == "2020":
            low, high = low_sum / high_count, high_sum / low_count
            t = max(abs(low - self.raw), abs(high - self.raw))
        else:
            low = self.clamped(low_sum / (high_count if low_sum > 0 else low_count))
            high = self.clamped(high_sum / (low_count if high_sum > 0 else high_count))
            t = max(high - self.raw, self.raw - low, Fraction(0))
        intervals = {
            "sum": Interval._enclose(low_sum, self.total, high_sum),
            "count": Interval._enclose(low_count, Fraction(max(1, self.count)), high_count),
            "mean": Interval._enclose(low, self.raw, high),
        }
        return RatioTolerance(round_up(t), rule, k, part_k, intervals)

    def integral(self, distance: float | Fraction, event: Event, cut: float) -> tuple[float, float]:
        """Return the logs of P(event) of a noisy mean and of its error; noise beyond 10^-cut is left out."""
        t, ends = float(distance), self.ends(distance, event)
        certain = ends.certain(event)
        if certain is not None:
            return certain, -math.inf
        least, most = self.count_noise.reach(cut, self.count)
        if not self.step:
            return self._smooth(t, event, ends, least, most, 0.0)
        largest = (abs(float(self.raw)) + t) * (self.count + most) + abs(float(self.total))
        short = most - least < max_terms and largest < max_steps * float(self.step)
        if self.count_step and short:
            return self._term_by_term(t, event, ends, int(least), int(most))
        slack = float(self.step) / 2
        ends_of = (self._smooth(t, event, ends, least, most, side * slack) for side in (1, -1))
        return enclose(*ends_of)

    def _smooth(
        self, t: float, event: Event, ends: Ends, least: float, maximum: float, slack: float
    ) -> tuple[float, float]:
        """Sum or integrate over the noise of a mean's count by Gauss's rules, its sum's noise as real.

        The ends of the event are moved by `slack`: outwards for an upper bound of the rounded noise.
        """
        outwards = -slack if event is Event.outside else slack

        def chance(r: Floats) -> tuple[Floats, Floats]:
            return self._chance(r, t, event, ends, outwards, rounded=False)

        slopes = [s for s in (float(self.raw) + t, float(self.raw) - t) if s]
        shifts = (0.0, slack, -slack) if slack else (0.0,)
        kinks = [(float(self.total) + shift) / s - self.count for shift in shifts for s in slopes]
        return self.over_counts(chance, least, maximum, kinks, 10, 1e-13)

    def _term_by_term(
        self, t: float, event: Event, ends: Ends, least: int, limit: int
    ) -> tuple[float, float]:
        """Sum over the noise of a mean's count, its sum's noise rounded."""

        def chance(r: Floats) -> tuple[Floats, Floats]:
            return self._chance(r, t, event, ends, 0.0, rounded=True)

        value, error = self.at_one(chance)
        for start in range(least, limit + 1, 1 << 16):
            r = np.arange(start, min(start + (1 << 16), limit + 1), dtype=float)
            logs, its_error = chance(r)
            mass = self.count_noise.mass(r)
            value = float(np.logaddexp(value, np.logaddexp.reduce(logs + mass)))
            error = float(np.logaddexp(error, np.logaddexp.reduce(its_error + mass)))
        return value, float(np.logaddexp(error, roundoff(np.asarray(value))))

    def _chance(
        self, r: Floats, t: float, event: Event, ends: Ends, outwards: float, *, rounded: bool
    ) -> tuple[Floats, Floats]:
        """Return log P(event | noise r of the count) of a noisy mean, and its roundoff."""
        mean, divisor = float(self.raw), max(1, self.count)
        offset = float(self.raw * divisor - self.total)
        drift = mean * (r + (self.count - divisor))
        centre, half = drift + offset, t * (self.count + r) + outwards
        size = np.abs(drift) + abs(offset)
        if rounded:
            return self.sum_noise.rounded_chance(event, ends, centre, half, size + np.abs(half))
        value = self.sum_noise.chance(event, ends, centre, half)
        size = size + (0.0 if event is Event.inside else np.abs(half))
        return value, self.sum_noise.roundoff(event, ends, value, centre, half, size)
