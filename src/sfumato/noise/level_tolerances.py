"""Level noise after least squares: its variances, and tolerances of its weighted sums for error bars."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.exact.rollup import Rollup
from sfumato.noise.law_tails import Floats
from sfumato.noise.laws import Gaussian
from sfumato.noise.noise_sums import InGroups, Noises, NoiseSum, Weight

_FINE = 1 << 16  # parts of a grid step, in which the law of a sum is stated


@dataclass(frozen=True)
class LevelNoises(Noises):
    """Level noise of the totals of all levels, for confidence intervals.

    Args:
        scales: by coordinate the deviation of noise of size 1, in grid steps.
        deviations: of each total, over these scales.
        off: by coordinate, how far each total is off a Gaussian number, in grid steps at most.
    """

    scales: Mapping[str, float]
    deviations: Floats
    off: Mapping[str, Floats]

    def tolerance(self, weights: Mapping[str, Weight], failure: float) -> Floats:
        """Return t with P(|weighted sum of level noise| > t) <= failure, for each total.

        Args:
            weights, failure: as of `Noises`.
        """
        sizes = {n: np.abs(w) * self.steps[n] for n, w in weights.items()}
        reach = Gaussian(1).tolerance(-math.log10(failure)) * self.deviation(weights)
        reach = reach + sum((size * self.off[n] for n, size in sizes.items()), np.zeros(1))
        return np.asarray(reach * (1 + 2.0**-40))

    def along(self, top: InGroups, bottom: InGroups, failure: float) -> Callable[[Floats], Floats]:
        """Return a function: of m, t with P(|noise in top - m bottom| > t) <= failure, for each total."""
        ((_, above),), ((_, below),) = top, bottom
        names = dict.fromkeys((*above.weights, *below.weights))

        def reach(m: Floats) -> Floats:
            weights = {n: above.weights.get(n, 0.0) - m * below.weights.get(n, 0.0) for n in names}
            return self.tolerance(weights, failure)

        return reach

    def deviation(self, weights: Mapping[str, Floats]) -> Floats:
        """Return the standard deviation of a weighted sum of level noise, for each total, before rounding."""
        squares = ((w * self.steps[n] * self.scales[n]) ** 2 for n, w in weights.items())
        return np.sqrt(sum(squares, np.zeros(1))) * self.deviations

    def law(self, total: int, weights: Mapping[str, float]) -> LevelSum:
        """Return the law of a weighted sum of the level noise of one total.

        Args:
            total: which, in order.
            weights: by coordinate, in units per grid step.
        """
        fine = float(self.deviations[total]) * _FINE
        terms = [(w / _FINE, Gaussian(Fraction(self.scales[n] * fine))) for n, w in weights.items()]
        off = sum(abs(w) * float(self.off[n][total]) for n, w in weights.items())
        return LevelSum(NoiseSum(terms), off)


@dataclass(frozen=True)
class LevelSum:
    """A weighted sum of one total's level noise, within `off` of a sum of Gaussian numbers."""

    gaussian: NoiseSum
    off: float

    @property
    def terms(self) -> Sequence[tuple[Any, Any]]:
        """The level noise in this sum, in fine steps: (weight, law) of each."""
        return self.gaussian.terms

    def tolerance(self, k: float) -> float:
        """Return t with P(|sum of level noise| > t) <= 10^-k."""
        return float(self.gaussian.tolerance(k)) + self.off

    def log10_tail(self, t: float) -> float:
        """Return log10 of a bound of P(|sum of level noise| >= t)."""
        return self.gaussian.log10_tail(max(0.0, t - self.off))


def variances(rollup: Rollup, weights: Sequence[float]) -> tuple[Floats, ...]:
    """Return by level the variances, or bounds of them, of totals' level noise after least squares.

    Args:
        rollup: which totals there are.
        weights: for each level one over the variance of its own noise; 0 where it is not measured.
    """
    if rollup.complete:
        each = complete_level_variances(rollup, weights).tolist()
        return tuple(np.full(len(own), one) for own, one in zip(rollup.sizes, each, strict=True))
    measured, found = [i for i, w in enumerate(weights) if w], dict[int, Floats]()
    for i in range(len(weights)):
        if i not in found:
            chain = rollup.chain(i, measured)
            own = dict(zip(chain, _nested_level_variances(rollup, weights, chain), strict=True))
            found |= own if len(chain) == len({*measured, i}) else {i: own[i]}
    return tuple(found[i] for i in range(len(weights)))


def complete_level_variances(rollup: Rollup, weights: Sequence[float]) -> Floats:
    """Return by level the variance of a total's noise, where cells are all combinations of keys.

    The interactions of a set of keys are eigenvectors of each level, with the cells of a total as
    eigenvalue if the level has these keys, else 0. So what is known there is the sum of weight * cells of a
    total over these levels; and a total has its part of each space.

    Args:
        rollup, weights: as of `variances`.
    """
    held, parts = rollup.spaces
    each = rollup.cells / np.array([len(own) for own in rollup.sizes], np.float64)
    known = held @ (np.array(weights) * each)
    return np.asarray((parts / known) @ held * each**2 / rollup.cells)


def _nested_level_variances(rollup: Rollup, weights: Sequence[float], chain: Sequence[int]) -> list[Floats]:
    """Return the variances of noise of nested levels' totals, from the cells up: up the tree, then down.

    Up, u = 1/(w + 1/sum of u) over the parts is the variance of a total by its parts and its own noise. Down,
    with f that of a total given everything, a part with u has u (1 - p) + p^2 f, p = u/sum of u.
    """
    codes = [rollup.codes[i] for i in chain]
    # Which total of the next level each total is part of.
    above: list[NDArray[np.int64]] = []
    for own, after in pairwise(codes):
        place = np.zeros(int(own.max()) + 1, np.int64)
        place[own] = after
        above.append(place)
    up: list[Floats] = [np.full(rollup.cells, 1 / weights[0])]
    for place, level in zip(above, chain[1:], strict=True):
        together = np.bincount(place, up[-1])
        up.append(1 / (weights[level] + 1 / together))
    found: list[Floats] = [up[-1]]
    for place, parts in zip(reversed(above), reversed(up[:-1]), strict=True):
        share = parts / np.bincount(place, parts)[place]
        found.append(np.asarray(parts * (1 - share) + share**2 * found[-1][place]))
    return found[::-1]
