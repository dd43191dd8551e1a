"""Tolerances of a noisy variance: the interval rule, the exact law, and the complementary tolerance."""

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
from sfumato.testing.tolerances.log_integrals import Floats, Groups, Panels, graded, log_integrals, roundoff
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

_outer, _inner = 1e-11, 1e-12
_batch = 256


@dataclass(frozen=True)
class VarianceLaw(RatioLaw):
    """The law of a noisy variance."""

    name = "variance"
    search = 1e-6

    squares: Fraction
    total: Fraction
    squares_step: Fraction
    sum_step: Fraction
    squares_noise: Noise
    sum_noise: Noise

    @classmethod
    def from_arguments(
        cls,
        normalized_squares: Number,
        normalized_sum: Number,
        count: int,
        squares_noise: Law,
        sum_noise: Law,
        count_noise: Law,
        lower: Number,
        upper: Number,
        rounded: Rounded,
        squares_step: Number | None = None,
        sum_step: Number | None = None,
    ) -> VarianceLaw:
        """Return the law of a noisy variance, from the checked arguments of the public functions."""
        whole_count, whole_sums = find_rounded_parts(rounded)
        count_step = Fraction(whole_count)
        squares = at_least_0(normalized_squares, "normalized_squares")
        total, n = as_fraction(normalized_sum, "normalized_sum"), check_count(count, "count")
        low, high = check_value_bounds(lower, upper)
        top = (high - low) ** 2 / 4
        divisor = max(1, n)
        raw = max(Fraction(0), min(top, squares / divisor - (total / divisor) ** 2))
        of_squares = check_grid_step(squares_step, "squares_step", whole_sums)
        of_sum = check_grid_step(sum_step, "sum_step", whole_sums)
        return cls(
            count=n,
            count_step=count_step,
            count_noise=Noise.from_law(count_noise, "count_noise", count_step),
            raw=raw,
            lowest=Fraction(0),
            highest=top,
            squares=squares,
            total=total,
            squares_step=of_squares,
            sum_step=of_sum,
            squares_noise=Noise.from_law(squares_noise, "squares_noise", of_squares),
            sum_noise=Noise.from_law(sum_noise, "sum_noise", of_sum),
        )

    @property
    def levels(self) -> int:
        """How finely panels are graded: an integral over real counts has many, and halves them as needed."""
        return 5 if self.count_step else 1

    def by_intervals(
        self, of_squares: Fraction, of_sum: Fraction, of_count: Fraction, k: float, part_k: float
    ) -> RatioTolerance:
        """Return the tolerance by interval arithmetic, step by step."""
        low_squares, high_squares = self.squares - of_squares, self.squares + of_squares
        low_sum, high_sum = self.total - of_sum, self.total + of_sum
        low_count, high_count = (max(Fraction(1), self.count + side * of_count) for side in (-1, 1))
        divisor = Fraction(max(1, self.count))

        low_square = low_squares / (high_count if low_squares > 0 else low_count)
        high_square = high_squares / low_count

        if high_sum <= 0:
            low_squared, high_squared = (high_sum / high_count) ** 2, (low_sum / low_count) ** 2
        elif low_sum <= 0:
            low_squared, high_squared = Fraction(0), (max(-low_sum, high_sum) / low_count) ** 2
        else:
            low_squared, high_squared = (low_sum / high_count) ** 2, (high_sum / low_count) ** 2

        low, high = self.clamped(low_square - high_squared), self.clamped(high_square - low_squared)
        intervals = {
            "squares": Interval._enclose(low_squares, self.squares, high_squares),
            "sum": Interval._enclose(low_sum, self.total, high_sum),
            "count": Interval._enclose(low_count, divisor, high_count),
            "mean square": Interval._enclose(low_square, self.squares / divisor, high_square),
            "squared mean": Interval._enclose(low_squared, (self.total / divisor) ** 2, high_squared),
            "variance": Interval._enclose(low, self.raw, high),
        }
        t = round_up(max(high - self.raw, self.raw - low, Fraction(0)))
        return RatioTolerance(t, "joint", k, part_k, intervals)

    def integral(self, distance: float | Fraction, event: Event, cut: float) -> tuple[float, float]:
        """Return the logarithms of P(event) and of its error; noise beyond 10^-cut is left out."""
        return self._integral(distance, event, cut, _outer, _inner)

    def approximate(self, distance: float | Fraction, event: Event, cut: float) -> tuple[float, float]:
        """Return the `integral` of a noisy variance to fewer digits, for a search."""
        return self._integral(distance, event, cut, 1e-7, 1e-8)

    def _integral(
        self, distance: float | Fraction, event: Event, cut: float, outer: float, inner: float
    ) -> tuple[float, float]:
        t, ends = float(distance), self.ends(distance, event)
        certain = ends.certain(event)
        if certain is not None:
            return certain, -math.inf
        least, most = self.count_noise.reach(cut, self.count)
        reach = self.sum_noise.shape.reach(cut) * self.sum_noise.unit
        if not self.sum_step:
            given = _Conditional(self, t, event, ends, reach, inner, 0)
            return self._over_counts(given, least, most, outer)
        steps = math.floor(reach / float(self.sum_step)) + 1
        largest = (float(self.raw) + t) * (self.count + most) + float(self.squares)
        largest += (abs(float(self.total)) + reach) ** 2
        cells = (2 * steps + 1) * (max(most - least, 0) + 2)
        short = cells <= max_terms and largest < max_steps * float(self.squares_step)
        if self.count_step and short:
            given = _Conditional(self, t, event, ends, reach, inner, 0)
            return self._term_by_term(given, int(least), int(most), steps)
        widened = (_Conditional(self, t, event, ends, reach, inner, side) for side in (1, -1))
        return enclose(*(self._over_counts(given, least, most, outer) for given in widened))

    def _over_counts(
        self, conditional: _Conditional, least: float, maximum: float, relative: float
    ) -> tuple[float, float]:
        kinks = [c - self.count for c in conditional.turns()]
        return self.over_counts(conditional.over_sums, least, maximum, kinks, self.levels, relative)

    def _term_by_term(
        self, conditional: _Conditional, least: int, limit: int, steps: int
    ) -> tuple[float, float]:
        """Sum over the noises of a variance's count and sum, everything rounded."""
        grid = np.arange(-steps, steps + 1, dtype=float)
        sums = (float(self.sum_step) * grid)[None, :]
        mass_of_sums = self.sum_noise.mass(grid)[None, :]
        counts = np.concatenate([[1.0 - self.count], np.arange(least, limit + 1, dtype=float)])
        masses = self.count_noise.mass(counts)
        masses[0] = self.count_noise.log_lower_tail(1 - self.count)[0]
        value = error = -math.inf
        for start in range(0, len(counts), _batch):
            r, mass = counts[start : start + _batch, None], masses[start : start + _batch, None]
            chance, its_error = conditional.chance(r, sums, rounded=True)
            value = float(np.logaddexp(value, np.logaddexp.reduce(chance + mass + mass_of_sums, axis=None)))
            error = float(
                np.logaddexp(error, np.logaddexp.reduce(its_error + mass + mass_of_sums, axis=None))
            )
        return value, float(np.logaddexp(error, roundoff(np.asarray(value))))


@dataclass(frozen=True)
class _Conditional:
    """The law of a noisy variance for given noises of the count, and of the sum.

    `widening` is 1 for an upper bound of the event with noises of sum and squares that are rounded, -1 for
    a lower one, 0 for the event itself.
    """

    law: VarianceLaw
    t: float
    event: Event
    ends: Ends
    reach: float
    relative: float
    widening: int

    def over_sums(self, r: Floats) -> tuple[Floats, Floats]:
        """Integrate over the noise of a variance's sum, for each noise r of the count, in logarithms."""
        parts = [self._over_sums(r[i : i + _batch]) for i in range(0, len(r), _batch)]
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    def _over_sums(self, r: Floats) -> tuple[Floats, Floats]:
        def function(group: Groups, x: Floats) -> tuple[Floats, Floats]:
            value, error = self.chance(r[group][:, None], x, rounded=False)
            density = self.law.sum_noise.density(x)
            return value + density, error + density

        return log_integrals(function, self._panels(r), len(r), self.relative)

    def _panels(self, r: Floats) -> Panels:
        """Cut the noise of a variance's sum where it and the squares have their kinks."""
        c, total = r + self.law.count, float(self.law.total)
        zero = np.zeros_like(r)
        places = [zero - self.reach, zero + self.reach, zero, zero - total]
        for v in self._edges():
            root = np.sqrt(np.maximum(c * (float(self.law.squares) - c * v), 0))
            places += [root - total, -root - total]
        table = np.sort(np.clip(np.stack(places), -self.reach, self.reach), axis=0)
        return graded(list(table), levels=self.law.levels)

    def _edges(self) -> list[float]:
        raw = float(self.law.raw)
        return [raw + self.t] * self.ends.above + [raw - self.t] * self.ends.below

    def turns(self) -> list[float]:
        """Return a variance's noisy counts at which kinks of the sum's noise meet or vanish."""
        squares, total = float(self.law.squares), float(self.law.total)
        found = []
        for v in self._edges():
            inner = squares * squares - 4 * v * total * total
            if v:
                found.append(squares / v)
                found += [(squares + a * math.sqrt(inner)) / (2 * v) for a in (1, -1) if inner > 0]
            elif squares:
                found.append(total * total / squares)
        return [c for c in found if math.isfinite(c)]

    def chance(self, r: Floats, x: Floats, *, rounded: bool) -> tuple[Floats, Floats]:
        """Return log P(event) of a variance for noises r of the count and x of the sum, and its roundoff."""
        law, total, raw = self.law, float(self.law.total), float(self.law.raw)
        divisor = max(1, law.count)
        c = law.count + r
        moved = c - divisor
        offset = float(law.raw * divisor - law.squares + law.total**2 / divisor)
        # (V c - Q) + (S + x)^2 / c, written so that what is large has gone: x and moved are noises.
        tilt = total / divisor
        drift = moved * (raw - tilt * (total / c)) + offset
        bend = (2 * total + x) * (x / c)
        centre, half = drift + bend, self.t * c
        size = np.abs(moved) * (raw + np.abs(tilt * (total / c))) + abs(offset) + np.abs(bend)
        if self.widening:
            centre, half = self._widened(centre, half, total + x, c)
        if rounded:
            return law.squares_noise.rounded_chance(self.event, self.ends, centre, half, size + np.abs(half))
        value = law.squares_noise.chance(self.event, self.ends, centre, half)
        if self.event is Event.outside:
            size = size + np.abs(half)
        return value, law.squares_noise.roundoff(self.event, self.ends, value, centre, half, size)

    def _widened(self, centre: Floats, half: Floats, s: Floats, c: Floats) -> tuple[Floats, Floats]:
        """Move both ends of a variance's event by what rounding of sum and squares can do, out or in."""
        g, a = float(self.law.sum_step) / 2, np.abs(s)
        more = (2 * a + g) * (g / c)
        less = np.where(a > g, (2 * a - g) * (g / c), a * (a / c))
        squares = float(self.law.squares_step) / 2
        # Outside grows when the upper end falls and the lower one rises; inside when they part.
        grow_inside = (self.widening > 0) == (self.event is Event.inside)
        if grow_inside:
            high, low = centre + half + more + squares, centre - half - less - squares
        else:
            high, low = centre + half - less - squares, centre - half + more + squares
        return (high + low) / 2, (high - low) / 2


_rules = ("joint", "exact")


class VarianceCase(TypedDict):
    """A raw variance and its noises, as `variance_tolerance` describes them."""

    normalized_squares: Number
    normalized_sum: Number
    count: int
    squares_noise: Law
    sum_noise: Law
    count_noise: Law
    lower: Number
    upper: Number
    rounded: Rounded
    squares_step: NotRequired[Number | None]
    sum_step: NotRequired[Number | None]


@isolated
def variance_tolerance(
    k: Number,
    *,
    normalized_squares: Number,
    normalized_sum: Number,
    count: int,
    squares_noise: Law,
    sum_noise: Law,
    count_noise: Law,
    lower: Number,
    upper: Number,
    rounded: Rounded,
    rule: str = "joint",
    squares_step: Number | None = None,
    sum_step: Number | None = None,
) -> RatioTolerance:
    """Return t with P(|noisy variance - raw variance| > t) <= 10^-k.

    Rules: "joint" uses interval arithmetic; all three noises stay close except with probability 10^-k.
    "exact" is the smallest t, from the distribution of the noisy variance. (The document of 2020 has a rule
    for means only.)

    Args:
        k: greater than 0; 10^-k is the flakiness.
        normalized_squares: the raw sum of squared distances from the midpoint of the bounds.
        normalized_sum: the raw sum of distances from the midpoint, in the unit of the values.
        count: the raw count, a whole number.
        squares_noise: the distribution of the noise of the sum of squares, in squared units.
        sum_noise: the distribution of the sum's noise, in the unit of the values.
        count_noise: the distribution of the count's noise.
        lower: the lower bound of the values; the noisy variance is clamped to [0, (upper - lower)^2 / 4].
        upper: upper bound of the values.
        rounded: which noise the tested library rounds: "none" if all noise is real (PipelineDP); "count", to
            whole numbers; "sums", to whole steps; or "all". A tolerance for whole counts is wrong for real
            ones.
        rule: one of the two rules.
        squares_step: the grid step of a rounded sum of squares, in squared units; leave it out for a real
            one.
        sum_step: the grid step of a rounded sum, in the unit of the values, likewise.
    Returns:
        t in squared units: a float with the `intervals` of "squares", "sum", "count", "mean square", "squared
        mean" and "variance". "exact" is sound and within 1e-5 of the smallest.
    Raises:
        ParameterError: an argument is out of range.
    Source:
        docs/tolerances.md, "Variances".

    >>> from sfumato.noise import Laplace
    >>> noises = dict(squares_noise=Laplace(4), sum_noise=Laplace(2), count_noise=Laplace(1))
    >>> t = variance_tolerance(
    ...     5, normalized_squares=4000, normalized_sum=1000, count=1000, lower=-4, upper=4, rounded="count",
    ...     **noises)
    >>> print(t.explain())
          squares: 3949.55386 <= 4000 <= 4050.44614
              sum: 974.776931 <= 1000 <= 1025.22307
            count: 987 <= 1000 <= 1013
      mean square: 3.89886857 <= 4 <= 4.10379548
     squared mean: 0.925958654 <= 1 <= 1.07895277
         variance: 2.8199158 <= 3 <= 3.17783683
        tolerance: 0.180084199 (rule joint, k = 5, 5.47711981 for each noise)
    """
    exact_k = positive(k, "k")
    law = VarianceLaw.from_arguments(
        normalized_squares,
        normalized_sum,
        count,
        squares_noise,
        sum_noise,
        count_noise,
        lower,
        upper,
        rounded,
        squares_step,
        sum_step,
    )
    if rule not in _rules:
        why = "; the document of 2020 has a rule for means alone" if rule == "2020" else ""
        raise ParameterError("rule", rule, f"one of {', '.join(map(repr, _rules))}{why}")
    part_k = per_partition_k(k, 3)
    joint = law.by_intervals(
        get_part_tolerance(squares_noise, part_k, law.squares_step),
        get_part_tolerance(sum_noise, part_k, law.sum_step),
        get_part_tolerance(count_noise, part_k, law.count_step),
        float(exact_k),
        part_k,
    )
    if rule == "joint":
        return joint
    return law.exact_tolerance(exact_k, joint)


@isolated
def variance_failure_probability(tolerance: Number, **case: Unpack[VarianceCase]) -> Probability:
    """Return P(|noisy variance - raw variance| > tolerance), the true flakiness of a test.

    Args:
        tolerance: at least 0, in squared units.
        case: the raw numbers, noises and bounds, by name, as for `variance_tolerance`.
    Returns:
        A float with its `error`, and `k`, -log10 of it. With rounded noise, up to four million noisy counts
        and sums are added up and more are enclosed between two integrals; `error` is the width.
    Raises:
        ParameterError: an argument is out of range.
    Source:
        docs/tolerances.md, "The law of a variance".

    >>> from sfumato.noise import Laplace
    >>> p = variance_failure_probability(
    ...     0.1, normalized_squares=4000, normalized_sum=1000, count=1000, lower=-4, upper=4,
    ...     squares_noise=Laplace(4), sum_noise=Laplace(2), count_noise=Laplace(1), rounded="count")
    >>> p.error < 1e-9 * p < p < 1e-4
    True
    """
    return VarianceLaw.from_arguments(**case).failure_probability(at_least_0(tolerance, "tolerance"))


@isolated
def complementary_variance_tolerance(k: Number, **case: Unpack[VarianceCase]) -> float:
    """Return the largest t with P(|noisy variance - raw variance| < t) <= 10^-k.

    Args:
        k: greater than 0; 10^-k is the probability that correct noise is called missing.
        case: the raw numbers, noises and bounds, by name, as for `variance_tolerance`.
    Returns:
        t in squared units, sound and within 1e-5 of the largest; 0 if the raw variance itself has a
        probability above 10^-k (as with rounded noise, or for a raw variance of 0), and inf if every t is
        valid.
    Raises:
        ParameterError: an argument is out of range.
    Source:
        docs/tolerances.md, "The law of a variance".

    >>> from sfumato.noise import Laplace
    >>> t = complementary_variance_tolerance(
    ...     5, normalized_squares=4000, normalized_sum=1000, count=1000, lower=-4, upper=4,
    ...     squares_noise=Laplace(4), sum_noise=Laplace(2), count_noise=Laplace(1), rounded="count")
    >>> 5e-8 < t < 2e-7
    True
    """
    law = VarianceLaw.from_arguments(**case)
    return law.complementary_tolerance(k, law.squares_noise)
