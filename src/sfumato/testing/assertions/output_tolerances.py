"""The tolerance of each output of one group of a release, and the noise that the output shows.

Each output is a function of the group's noisy numbers. For a true mean m the noisy sum less m times the
noisy count is a weighted sum of noises and nothing else, whatever the count is: its law is known, and gives
the interval of outputs. Only noisy numbers are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from sfumato.dataclass import dataclass
from sfumato.noise.k_norm.marginals import DependentSum, Marginal
from sfumato.noise.level_tolerances import LevelSum
from sfumato.noise.noise_sums import NoiseSum, log10_two_sided_tail
from sfumato.testing.assertions.compared_values import Group
from sfumato.testing.flakiness import log10_sum
from sfumato.testing.tolerances.noise_tolerances import per_partition_k

if TYPE_CHECKING:
    from sfumato.noise import Law
    from sfumato.plan.noisy_statistics import Levelled, NoisyBatch
    from sfumato.plan.plan import Plan
    from sfumato.query.aggregates import Estimate

_LOG2 = math.log10(2)
# Relative error of the float arithmetic from noisy numbers to outputs, on the safe side.
_FLOATS = 1e-12
_IMPROBABLE = 100.0  # as 10^-k: nobody asks how much less probable something is


@dataclass(frozen=True)
class OutputTolerance:
    """The tolerance of one output of one group, and the probability of its distance from the truth.

    Args:
        tolerance: a correct release is within it of the truth, but with probability 10^-k.
        log10_probability: bound of the probability of an output as far off as this one; 0 where it
            is not off.
    """

    tolerance: float
    log10_probability: float


@dataclass(frozen=True)
class Residue:
    """The noise that one output of one group shows, given the truth.

    Args:
        group, output: where.
        noise: in units of the output's leading noise's step; NaN where a value at its bounds hides it.
        slack: what arithmetic and the rounding of the output may have moved `noise`.
        lead: the law of the leading noise, in steps: independent of all earlier residues, but for noise that
            was drawn together.
        half: what the rounding of the leading noise itself may have moved it: 1/2, up to 1 if discrete,
            or 0 for real noise.
        name: the coordinate of the leading noise.
        others: what is in `noise` of other coordinates, in their steps.
    """

    group: Group
    output: str
    noise: float
    slack: float
    lead: Any
    half: float
    name: str = ""
    others: Mapping[str, float] = field(default_factory=dict)

    @property
    def size(self) -> float:
        """The absolute value of an output's noise."""
        return abs(self.noise)

    @property
    def is_only_noise(self) -> bool:
        """Whether an output shows the leading noise alone."""
        return not self.others


def log10_tail(law: Any, x: float) -> float:
    """Return log10 of P(|Z| > x), or of a bound of it for a law of K-norm noise."""
    return law.log10_outside(x) if isinstance(law, Marginal) else log10_two_sided_tail(law, x)


def each_k(k: float, values: int, *, apart: bool) -> float:
    """Return the k of each output's tolerance, for all of several to hold but for 10^-k.

    Args:
        k: greater than 0.
        values: at least 1, how many.
        apart: whether their noises are independent; if not, the failures add up.
    """
    return per_partition_k(k, values) if apart else k + math.log10(values)


# Kinds of outputs that are sums of noisy numbers.
LINEAR = ("count", "sum", "vector_sum", "combination")


class GroupTolerances:
    """The tolerances of one group's outputs, from its noisy statistics.

    Args:
        plan: of the release.
        batch, row: where the group is.
    """

    def __init__(self, plan: Plan, batch: NoisyBatch, row: int) -> None:
        self.laws: Mapping[str, Law] = plan.laws
        self.steps: dict[str, float] = {n: float(s) for n, s in plan.steps.items()}
        self.batch = batch
        self.row = row
        numbers = batch.numbers.values
        self.levels: Levelled | None = batch.numbers.levels
        # Of a vector the largest entry, which tells what floats may lose.
        self.values: dict[str, float] = {
            n: float(abs(v[row]).max()) if v.ndim > 1 else float(v[row]) for n, v in numbers.items()
        }

    def linear(self, e: Estimate, truth: float, actual: float, k: float) -> OutputTolerance:
        """Return the tolerance of a count or a sum."""
        given: Any = e
        weights = self._linear_weights(e)
        slack = self._floats(e, truth) + self._clipping(e)
        slack += sum(abs(w) * self._agreed(one) for w, one in given.parts) if e.derived else 0.0
        if not weights:  # a number less itself
            return OutputTolerance(slack, 0.0)
        noise = self._noise(weights)
        slack += self._rounded(e, truth, noise)
        tolerance = noise.tolerance(k) + slack
        if e.whole and float(truth).is_integer():
            tolerance = float(math.floor(tolerance))
        off = abs(actual - truth)
        return _output_tolerance(tolerance, off, noise, off - slack)

    def proportion(self, e: Estimate, truth: float, actual: float, k: float) -> OutputTolerance:
        """Return the tolerance of a proportion of strata, which is cut to [0, 1]."""
        given: Any = e
        weights = {n: w * self.steps[n] for n, w in given.weights.items()}
        noise = self._noise(weights)
        slack = _FLOATS * sum(abs(w * self.values[n]) for n, w in given.weights.items())
        tolerance, off = noise.tolerance(k) + slack, abs(actual - truth)
        return _output_tolerance(tolerance, off, noise, off - slack)

    def total(self, e: Estimate, truth: float, actual: float, k: float) -> OutputTolerance:
        """Return the tolerance of a total of time steps, by the error bars of any confidence."""
        given: Any = e

        def reach(k: float) -> float:
            own = float(given.tolerance(self.batch.numbers, k)[self.row]) + 0.5 * e.whole
            own += _FLOATS * (abs(truth) + abs(actual))
            return float(math.floor(own)) if e.whole and float(truth).is_integer() else own

        tolerance, off, beyond = reach(k), abs(actual - truth), k
        if off <= tolerance:
            return OutputTolerance(tolerance, 0.0)
        while beyond < _IMPROBABLE and reach(2 * beyond) < off:
            beyond *= 2
        return OutputTolerance(tolerance, -beyond)

    def mean(self, e: Estimate, truth: float, actual: float, k: float) -> OutputTolerance:
        """Return the tolerance of a mean."""
        at = truth - e.centre
        noise, base, count = self._ratio_noise(e, e.total, at), at * self._count(e), self._used_count(e)
        slack = self._ratio_slack(e, e.total, at)
        reach = noise.tolerance(k) + slack
        ends = [(base + side * reach) / count + e.centre for side in (-1, 1)]
        tolerance = _farthest(truth, ends, e.lower, e.upper) + _FLOATS * abs(truth)
        shown = abs((actual - e.centre) * count - base)
        return _output_tolerance(tolerance, abs(actual - truth), noise, shown - slack)

    def ratio(self, e: Estimate, truth: float, actual: float, k: float) -> OutputTolerance:
        """Return the tolerance of a ratio of two sums: the first less `truth` times the second is noise."""
        given: Any = e
        first, second = (one.linear for one in given.both)
        weights = {n: first.get(n, 0.0) - truth * second.get(n, 0.0) for n in e.coordinates}
        slack = _FLOATS * sum(abs(w * self.values[n]) for n, w in weights.items())
        for one, times in zip(given.both, (1.0, abs(truth)), strict=True):
            slack += times * (self._rows_slack(one) + self._clipping(one) + self._agreed(one))
        below = abs(sum(w * self.values[n] for n, w in second.items()))
        below -= self._clipping(given.both[1]) + self._agreed(given.both[1])
        if below <= 0:
            return OutputTolerance(math.inf, 0.0)
        used = {n: w * self.steps[n] for n, w in weights.items() if w}
        off = abs(actual - truth)
        if not used:  # a multiple of itself
            return OutputTolerance(slack / below, -math.inf if off > slack / below else 0.0)
        noise = self._noise(used)
        return _output_tolerance((noise.tolerance(k) + slack) / below, off, noise, off * below - slack)

    def _clipping(self, e: Estimate) -> float:
        """Return what counting no less than 0 missing values may move a sum of noisy numbers."""
        if e.derived:
            given: Any = e
            return sum((abs(w) * self._clipping(one) for w, one in given.parts), 0.0)
        return abs((1.0 if e.kind == "count" else e.centre) * self._clipped(e))

    def _rows_slack(self, e: Estimate) -> float:
        """Return what rounding each row's value to the grid may move a sum."""
        return 0.0 if not (e.total and e.count) else self._ratio_slack(e, e.total, 0.0)

    def share(self, e: Estimate, truth: float, actual: float, k: float) -> OutputTolerance:
        """Return the tolerance of a share of all that is in bins."""
        whole, steps = sum(self.values[n] for n in e.coordinates), [self.steps[n] for n in e.coordinates]
        weights = {n: -truth * self.steps[n] for n in e.coordinates}
        weights[e.count] += self.steps[e.count]
        noise = self._noise({n: w for n, w in weights.items() if w})
        # A unit that is scaled down is cut to a step in each bin.
        slack = abs(whole) * (steps[0] + truth * sum(steps)) + _FLOATS * sum(map(abs, self.values.values()))
        used, reach = max(whole, e.least), noise.tolerance(k) + slack
        ends = [(truth * whole + side * reach) / used for side in (-1, 1)]
        tolerance = _farthest(truth, ends, 0.0, 1.0) + _FLOATS
        shown = abs(actual * used - truth * whole)
        return _output_tolerance(tolerance, abs(actual - truth), noise, shown - slack)

    def variance(
        self, e: Estimate, truth: float, mean: float | None, actual: float, k: float
    ) -> OutputTolerance:
        """Return the tolerance of a variance or standard deviation; a known true mean makes it smaller."""
        power = 1 if e.kind == "variance" else 2
        each = k if mean is not None else k + _LOG2
        low_mean, high_mean = self._mean_range(e, mean, each)
        squares = [low_mean**2, high_mean**2]
        lowest = 0.0 if low_mean < 0 < high_mean else min(squares)
        count, used = self._count(e), self._used_count(e)
        # The true mean square, from where squares are counted, is in this range.
        squared = [truth**power - e.square_centre + q for q in (lowest, max(squares))]
        widest = max(map(abs, squared))
        noise, slack = self._ratio_noise(e, e.squares, widest), self._ratio_slack(e, e.squares, widest)
        reach = noise.tolerance(each) + slack
        products = [q * count for q in squared]
        shift = e.square_centre - (self.values[e.total] / used) ** 2
        ends = ((min(products) - reach) / used + shift, (max(products) + reach) / used + shift)
        roots = [max(end, 0.0) ** (1 / power) for end in ends]
        tolerance = _farthest(truth, roots, 0.0, e.upper) + _FLOATS * (abs(truth) + abs(e.square_centre))
        if abs(actual - truth) <= tolerance:
            return OutputTolerance(tolerance, 0.0)
        shown = (actual**power - shift) * used
        off = max(0.0, min(products) - shown, shown - max(products))
        tail = noise.log10_tail(max(0.0, off - slack))
        probability = tail if mean is not None else min(0.0, log10_sum(tail, -each))
        return OutputTolerance(tolerance, probability)

    def residue(
        self, group: Group, e: Estimate, lead: str, truth: float, mean: float | None, actual: float
    ) -> Residue | None:
        """Return the noise that an output shows, in steps of the leading one."""
        if e.kind in LINEAR:
            weights = self._linear_weights(e)
            if lead not in weights:
                return None
            sign, clipped = 1.0 if e.kind == "count" else e.centre, False
            slack = self._floats(e, truth) + self._rounded(e, truth, self._noise(weights))
            shown = actual - truth - sign * self._clipped(e)
        else:
            if e.kind == "mean":
                total, at, clipped = e.total, truth - e.centre, actual in (e.lower, e.upper)
                value = actual - e.centre
            else:
                power = 1 if e.kind == "variance" else 2
                clipped = actual in (0.0, e.upper)
                if mean is None or not e.total:
                    return None
                total, at = e.squares, truth**power - e.square_centre + (mean - e.centre) ** 2
                value = actual**power - e.square_centre + (self.values[e.total] / self._used_count(e)) ** 2
            if total != lead:
                return None
            weights, slack = self._ratio_weights(e, total, at), self._ratio_slack(e, total, at)
            shown = value * self._used_count(e) - at * self._count(e)
        unit = weights.pop(lead)
        others = {n: w / unit for n, w in weights.items()}
        noise, law = math.nan if clipped else shown / unit, self.laws[lead]
        return Residue(group, e.name, noise, slack / abs(unit), law, 0.5 + law.shift, lead, others)

    def _linear_weights(self, e: Estimate) -> dict[str, float]:
        # Of a vector each entry is one number.
        weights = e.linear if e.linear is not None else {e.total: 1.0}
        return {n: w * self.steps[n] for n, w in weights.items() if w}

    def _ratio_weights(self, e: Estimate, total: str, at: float) -> dict[str, float]:
        weights = {total: 1.0, e.count: -at, e.null_count: at}
        return {n: w * self.steps[n] for n, w in weights.items() if n and w}

    def _ratio_noise(self, e: Estimate, total: str, at: float) -> NoiseSum | DependentSum | LevelSum:
        return self._noise(self._ratio_weights(e, total, at))

    def _noise(self, weights: Mapping[str, float]) -> NoiseSum | DependentSum | LevelSum:
        terms: Any = tuple((w, self.laws[n]) for n, w in weights.items())
        if self.levels is not None:
            return self.levels.noises.law(self.row, weights)
        return DependentSum(terms) if isinstance(terms[0][1], Marginal) else NoiseSum(terms)

    def _count(self, e: Estimate) -> float:
        return self.values[e.count] - (self.values[e.null_count] if e.null_count else 0.0)

    def _clipped(self, e: Estimate) -> float:
        """Return what counting no less than 0 missing values adds to an output's count; at most 0."""
        if not e.null_count or self.levels is not None:
            return 0.0
        return min(self.values[e.null_count], 0.0)

    def _used_count(self, e: Estimate) -> float:
        return max(self._count(e) + self._clipped(e), e.least)

    def _mean_range(self, e: Estimate, mean: float | None, k: float) -> tuple[float, float]:
        """Return the interval of the true mean in a variance's tolerance, from the bounds' centre."""
        if mean is not None:
            return mean - e.centre, mean - e.centre
        count, total = self._count(e), self.values[e.total]
        reach = self._ratio_noise(e, e.total, e.half_range).tolerance(k) + self._ratio_slack(
            e, e.total, e.half_range
        )
        if count <= 0:
            return -e.half_range, e.half_range
        low, high = ((total + side * reach) / count for side in (-1, 1))
        return min(max(low, -e.half_range), e.half_range), max(min(high, e.half_range), -e.half_range)

    def _ratio_slack(self, e: Estimate, total: str, at: float) -> float:
        """Return what rounding values to their grid, and scaled units, may move an output: a step a row."""
        step = self.steps[total]
        if e.entries:  # which are cut twice by less than a step where the vector is shortened
            step *= 3
        if total == e.squares and e.total:
            step += 2 * e.half_range * self.steps[e.total]
        count = abs(self._count(e))
        return count * step + _FLOATS * (abs(at) * count + abs(self.values[total]))

    def _floats(self, e: Estimate, truth: float) -> float:
        """Return what float arithmetic may move an output: sums are exact up to 2^53."""
        size = abs(truth) + sum(abs(self.values[n]) for n in e.coordinates)
        exact = e.kind == "count" and size < 2**53
        return 0.0 if exact else 1e-15 * size * (1 + abs(e.centre if e.kind == "sum" else 0.0))

    def _agreed(self, e: Estimate) -> float:
        """Return what agreement with other groups and totals may move a whole output."""
        if not e.whole or self.levels is None:
            return 0.0
        shown = self.batch.numbers
        return float(abs(e.output(shown)[self.row].as_py() - e.value(shown)[self.row]))

    def _rounded(self, e: Estimate, truth: float, noise: NoiseSum | DependentSum | LevelSum) -> float:
        """Return what rounding to a whole number may move an output: at most a half."""
        if not e.whole:
            return 0.0
        if self.levels is not None:
            return self._agreed(e)
        on_grid = all((w % 1) == 0 for w, _ in noise.terms) and float(truth).is_integer()
        return 0.0 if on_grid else 0.5


def _output_tolerance(tolerance: float, off: float, noise: Any, seen: float) -> OutputTolerance:
    """Return the judgement of an output that is `off` from the truth by noise of at least `seen`."""
    return OutputTolerance(tolerance, noise.log10_tail(max(0.0, seen)) if off > tolerance else 0.0)


def _farthest(truth: float, ends: Sequence[float], lower: float, upper: float) -> float:
    """Return the largest distance of an output from the truth, clamped if the truth is within bounds."""
    if lower <= truth <= upper:
        ends = [min(max(end, lower), upper) for end in ends]
    return max(abs(end - truth) for end in ends)
