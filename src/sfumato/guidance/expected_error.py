"""The model of expected error of each output of a plan: noise, what limits and bounds cut, and random choice.

Every forecast is made here, from the noise of the plan (`plan.noise_error`) and from what is known of the
rows: their exact statistics (`ExpectedOutputs`), or what preliminary queries estimate (`EstimatedUnits`). A
preview knows nothing of the rows: `simulated_groups` draws the noise on rows that it makes up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import exp, hypot, log
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.guidance.contribution_distribution import Distribution
from sfumato.measurements.group_selection import GroupSelection
from sfumato.noise.law_tails import Floats
from sfumato.plan.noise_error import Errors
from sfumato.plan.noisy_statistics import NoisyNumbers
from sfumato.plan.plan import Plan
from sfumato.query.aggregates import (
    CountPrivacyUnits,
    Estimate,
    Weighted,
)

if TYPE_CHECKING:
    from sfumato.guidance.unit_contributions import Atom, Pair, Weights

# Draws of the plan's own noise, where an output is no sum of noisy numbers; and how many of them at once.
DRAWS, AT_ONCE = 1000, 1 << 21
# An output is taken for straight where, over four deviations of a number's noise on both sides, it is off a
# straight line by less than this part of what one deviation changes.
BENT = 0.2
# Of a random choice slopes are taken over so small a part of a deviation of the noise.
SMALL = 1e-4
# By a normal law with a third moment: at so many places, each as probable.
PLACES = 64
MAX_UNITS = 1 << 40
_ADDED = "count", "sum", "cumulative total", "vector_sum"
_SMALLEST = 1e-300


@dataclass(frozen=True)
class Expected:
    """The expected value and errors of an output: arrays of shape (groups,).

    Args:
        value: without noise.
        choice: the standard deviation that a random choice of groups makes.
        noise: the root mean square of what noise changes.
    """

    value: Floats
    choice: Floats
    noise: Floats


@dataclass(frozen=True)
class ExpectedOutputs:
    """The expected errors of a plan's outputs, given the exact statistics of the groups.

    Args:
        plan: of the noise.
        made: of which atoms each coordinate is made.
        atoms: what is expected of each, shape (groups,).
        moments: variances and covariances of them by a random choice of groups.
        draws: draws of the noise of each coordinate, by name; called where they are needed.
    """

    plan: Plan
    made: Mapping[str, Weights]
    atoms: Mapping[Atom, Floats]
    moments: Mapping[Pair, Floats]
    draws: Callable[[], Mapping[str, Floats]]

    def expected(self, e: Estimate) -> Expected:
        """Return the expected value of an output, and its expected errors by noise and by random choice.

        Noise is exact where the output is a sum of noisy numbers, and to first order where it is nearly one
        over the size of the noise: elsewhere, as of a mean of few rows, the root mean square of 1,000 draws.
        """
        exact = {name: self.exact(name) for name in e.coordinates}
        value = self._value(e, exact)
        squares, bent = np.zeros(len(value)), np.zeros(len(value))
        slopes: dict[Atom, Floats] = {}
        for name, number in exact.items():
            deviation = self.plan.deviations[name]
            up, down, further, back, near, nearer = (
                self._value(e, exact | {name: number + times * deviation})
                for times in (1, -1, 4, -4, SMALL, -SMALL)
            )
            squares += ((up - down) / 2) ** 2
            bent += np.abs(further + back - 2 * value) + np.abs(further - back - 4 * (up - down))
            slope = (near - nearer) / (2 * SMALL * deviation)
            for atom, weight in self.made[name].items():
                slopes[atom] = slopes.get(atom, 0.0) + weight * slope
        noise = np.sqrt(squares)
        where = np.flatnonzero(~(bent <= BENT * noise))
        noise[where] = self._simulate_error(e, exact, value, where)
        return Expected(value, self._choice(slopes, len(value)), noise)

    def exact(self, name: str) -> Floats:
        """Return the expected value of a statistic without noise."""
        return np.asarray(sum(weight * self.atoms[atom] for atom, weight in self.made[name].items()))

    def _value(self, e: Estimate, values: Mapping[str, Floats]) -> Floats:
        with np.errstate(all="ignore"):
            found = e.value(
                NoisyNumbers(values, {}, self.plan.laws, self.plan.steps, noise=self.plan.measurement.noise)
            )
        return np.asarray(found, np.float64)

    def _choice(self, slopes: Mapping[Atom, Floats], groups: int) -> Floats:
        """Return the standard error of a random choice of groups, to first order."""
        total = np.zeros(groups)
        for (one, other), moment in self.moments.items():
            if one in slopes and other in slopes:
                total += (1 if one == other else 2) * slopes[one] * slopes[other] * moment
        return np.sqrt(np.maximum(total, 0.0))

    def _simulate_error(
        self, e: Estimate, exact: Mapping[str, Floats], value: Floats, where: NDArray[np.intp]
    ) -> Floats:
        """Return the root mean square error by noise, from draws, for groups where it is not linear."""
        if not len(where):
            return np.zeros(0)
        draws, found = self.draws(), np.empty(len(where))
        step = max(1, AT_ONCE // DRAWS)
        for start in range(0, len(where), step):
            rows = where[start : start + step]
            noisy = {name: (number[rows, None] + draws[name]).ravel() for name, number in exact.items()}
            off = self._value(e, noisy).reshape(len(rows), -1) - value[rows, None]
            off[np.isnan(off)] = np.inf  # noise over noise may be no number at all
            found[start : start + len(rows)] = np.sqrt(np.mean(off**2, axis=1))
        return found


def chances(selection: GroupSelection | None, mean: Floats, variance: Floats, third: Floats) -> Floats:
    """Return the expected probability that each group is shown, from moments of its number of units.

    Args:
        selection: how groups are chosen; None for public ones.
        mean, variance, third: of the number of units that count, with its third central moment.
    Source:
        Cornish and Fisher 1938, for places of equal probability, as far as the third moment.
    """
    if selection is None:
        return np.ones(len(mean))
    deviation = np.sqrt(np.maximum(variance, 0.0))
    with np.errstate(all="ignore"):
        skew = np.where(deviation > 0, third / deviation**3, 0.0)
    curve = _curve(selection, float((mean + 6 * deviation).max(initial=0.0)))
    z = _normal_places()
    found = np.zeros(len(mean))
    for place in z:
        found += curve(mean + deviation * (place + np.clip(skew, -1, 1) * (place**2 - 1) / 6))
    return np.clip(found / len(z), 0.0, 1.0)


def _normal_places() -> Floats:
    z = np.array([NormalDist().inv_cdf((place + 0.5) / PLACES) for place in range(PLACES)])
    return np.asarray(z / np.sqrt(np.mean(z**2)))


def _curve(selection: GroupSelection, maximum: float) -> Callable[[Floats], Floats]:
    """Return the probability that a group is shown as a function of its number of units, interpolated."""
    # Beyond all doubt: from there on a group is shown.
    sure, top = 1, int(min(maximum, MAX_UNITS)) + 1
    while sure < top and selection.chance(sure) < 1 - 1e-12:
        sure *= 2
    sure = min(sure, top)
    places = np.unique(np.rint(np.linspace(0, sure, 2001)).astype(np.int64))
    known = np.array([selection.chance(int(n)) for n in places])
    return lambda units: np.interp(units, places, known)


@dataclass(frozen=True)
class OutputError:
    """The expected error of an output in a group of average size.

    Args:
        noise: by noise alone.
        total: by noise, by what is cut, and by groups that are not shown.
        weight: how much the output matters.
    """

    noise: float
    total: float
    weight: float


@dataclass(frozen=True)
class EstimatedUnits:
    """The units of a table as preliminary queries estimate them, and the expected errors that follow.

    Args:
        groups: of units by the number of groups they are in; None where there are no groups.
        fullest: of units by their rows in the group where they have most; None where that matters not.
        number: of groups, about.
        people: of units, about.
    """

    groups: Distribution | None
    fullest: Distribution | None
    number: float
    people: float

    @property
    def rows(self) -> float:
        """The estimated number of rows of a unit in a group."""
        return 1.0 if self.fullest is None else self.fullest.mean

    @property
    def units(self) -> float:
        """The estimated number of units of a group, if all groups are alike."""
        each = 1.0 if self.groups is None else self.groups.mean
        return max(self.people * min(each / self.number, 1.0), 1.0)

    def lost(self, groups: int, rows: int | None) -> tuple[float, float]:
        """Return the estimated shares of units and of rows that limits cut."""
        of_groups = 0.0 if self.groups is None else self.groups.lost(groups)
        of_rows = 0.0 if rows is None or self.fullest is None else self.fullest.lost(rows)
        return of_groups, 1 - (1 - of_groups) * (1 - of_rows)

    def errors(
        self,
        plan: Plan,
        groups: int,
        rows: int | None,
        *,
        expected: Errors | None = None,
        clamped: Mapping[str, float] | None = None,
    ) -> dict[str, OutputError]:
        """Return the expected error of each measured output of a plan, in a group of average size.

        Args:
            plan: of the release.
            groups, rows: the limits of the plan.
            expected: in the place of the plan's own expected errors, as they would be with another budget.
            clamped: what bounds cut of a value on average, by the name of the aggregate.
        Returns:
            By output: for counts and sums their own error, for means and variances that of their value, and
            for quantiles that of their rank, from 0 to 1.
        """
        of_units, of_rows = self.lost(groups, rows)
        noise = plan.expected if expected is None else expected
        estimates = {e.name: e for e in plan.requirements.estimates if not e.derived}
        kept = max(self.units * (1 - of_units), 0.5)
        # Groups differ in size: of those of this size on average, a part are large enough to be shown.
        shown = 1.0 if plan.selection is None else 1 / (1 + (noise[None] / kept) ** 2)
        found = {}
        for name, aggregate in plan.query.aggregates:
            by_rows = aggregate.needs_rows and not isinstance(aggregate, CountPrivacyUnits)
            lost, size = (of_rows, self.units * self.rows) if by_rows else (of_units, self.units)
            cut, weight = (clamped or {}).get(name, 0.0), float(plan.query.weight(name))
            for output in aggregate.outputs(name):
                e = estimates.get(output)
                if e is not None:
                    alone, total = _error(e, noise[output], size, lost, cut, shown)
                    found[output] = OutputError(alone, total, weight)
        return found


def _error(
    e: Estimate, noise: float, size: float, lost: float, cut: float, shown: float
) -> tuple[float, float]:
    """Return the expected error of an output by noise alone, and in total.

    Args:
        e: the output.
        noise: of a sum its error; of others that of one row.
        size: rows, or units, in a group.
        lost: the share of these that limits leave out.
        cut: what bounds cut of a value on average.
        shown: the share of groups that are shown.
    """
    if e.kind in _ADDED:
        whole = size * (1.0 if e.kind == "count" else (abs(e.lower) + abs(e.upper)) / 4 or 1.0)
        each = hypot(noise, lost * whole + cut * size)
        return noise, each * shown + whole * (1 - shown)
    left = size * max(1 - lost, 1e-9)  # the error of a mean grows as rows are left out
    if e.kind == "stddev":  # of values that fill half of the bounds
        left *= e.half_range or 1.0
    if e.kind == "variance":
        cut *= 2 * e.half_range
    return noise / left, hypot(noise / left, cut) / shown


def mean_error(errors: Iterable[OutputError], *, noise: bool = False) -> float:
    """Return the geometric mean of expected errors, by their weights; 1 if there are none.

    Args:
        errors: of outputs.
        noise: whether of noise alone.
    """
    pairs = [(one.weight, log(max(one.noise if noise else one.total, _SMALLEST))) for one in errors]
    weights = sum(weight for weight, _ in pairs)
    return exp(sum(weight * value for weight, value in pairs) / weights) if weights else 1.0


def per_width(plan: Plan, name: str) -> float:
    """Return the expected error of an aggregate by noise if its bounds were one apart.

    Args:
        plan: of the release.
        name: of the aggregate.
    """
    bounded = _fill_bounds(plan, name)
    width = float(bounded.upper - bounded.lower)
    return plan.expected[name] / (width**2 / 2 if bounded.needs_squares else width)


def with_bounds(plan: Plan, name: str, times: float) -> dict[str | None, float]:
    """Return a plan's expected errors by noise with the bounds of an aggregate so many times as wide."""
    factor = times**2 if _fill_bounds(plan, name).needs_squares else times
    outputs = dict(plan.query.aggregates)[name].outputs(name)
    return {output: one * (factor if output in outputs else 1.0) for output, one in plan.expected.items()}


def _fill_bounds(plan: Plan, name: str) -> Any:
    """Return the aggregate that has the bounds on which an expected error depends."""
    asked = dict(plan.query.aggregates)[name].each
    return asked.aggregate if isinstance(asked, Weighted) else asked


def chance_shown(plan: Plan, units: int) -> float:
    """Return the expected probability that a group of so many units is shown."""
    return 1.0 if plan.selection is None else plan.selection.chance(units)
