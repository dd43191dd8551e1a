"""Errors that are expected of outputs: of a plan's noise, and of a random choice of groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.measurements.group_selection import GroupSelection
from sfumato.noise.laws import Floats
from sfumato.query.aggregates import Estimate
from sfumato.query.analysis.atoms import Atom, Weights
from sfumato.query.analysis.contributions import Pair
from sfumato.query.noisy.noisy_statistics import NoisyNumbers
from sfumato.query.plans.plan import Plan

# Draws of the plan's own noise, where an output is no sum of noisy numbers; and how many of them at once.
DRAWS, AT_ONCE = 1000, 1 << 21
# An output is taken for straight where, over four deviations of a number's noise on both sides, it is off a
# straight line by less than this part of what one deviation changes.
BENT = 0.2
# Of a random choice slopes are taken over so small a part of a deviation of the noise.
SMALL = 1e-4
# By a normal law with a third moment: at so many places, each as probable.
PLACES = 64
MOST_UNITS = 1 << 40


@dataclass(frozen=True)
class Expected:
    """What is expected of an output in each group: arrays of shape (groups,).

    Args:
        value: without noise.
        choice: the standard deviation that a random choice of groups makes.
        noise: the root mean square of what noise changes.
    """

    value: Floats
    choice: Floats
    noise: Floats


@dataclass(frozen=True)
class Numbers:
    """What is expected of a question's numbers under one plan.

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
        """Return what is expected of one output.

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
        noise[where] = self._drawn(e, exact, value, where)
        return Expected(value, self._choice(slopes, len(value)), noise)

    def exact(self, name: str) -> Floats:
        """Return what is expected of a coordinate without noise."""
        return np.asarray(sum(weight * self.atoms[atom] for atom, weight in self.made[name].items()))

    def _value(self, e: Estimate, values: Mapping[str, Floats]) -> Floats:
        with np.errstate(all="ignore"):
            found = e.value(NoisyNumbers(values, {}, self.plan.laws, self.plan.steps))
        return np.asarray(found, np.float64)

    def _choice(self, slopes: Mapping[Atom, Floats], groups: int) -> Floats:
        """Return the deviation of a random choice, to first order in what it changes of each number."""
        total = np.zeros(groups)
        for (one, other), moment in self.moments.items():
            if one in slopes and other in slopes:
                total += (1 if one == other else 2) * slopes[one] * slopes[other] * moment
        return np.sqrt(np.maximum(total, 0.0))

    def _drawn(
        self, e: Estimate, exact: Mapping[str, Floats], value: Floats, where: NDArray[np.intp]
    ) -> Floats:
        """Return the root mean square of what noise changes, of some groups."""
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
    """Return how probable it is that groups are shown, whose numbers of units are sums of independent coins.

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


def _curve(selection: GroupSelection, most: float) -> Callable[[Floats], Floats]:
    """Return the chance by number of units, straight between some of them."""
    # Beyond all doubt: from there on a group is shown.
    sure, top = 1, int(min(most, MOST_UNITS)) + 1
    while sure < top and selection.chance(sure) < 1 - 1e-12:
        sure *= 2
    sure = min(sure, top)
    places = np.unique(np.rint(np.linspace(0, sure, 2001)).astype(np.int64))
    known = np.array([selection.chance(int(n)) for n in places])
    return lambda units: np.interp(units, places, known)
