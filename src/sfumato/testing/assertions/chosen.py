"""How far from a group's quantile the places may lie that were chosen for it, given its rows.

The probability that places are chosen whose largest distance reaches some d is known from the counts; nearer
places are in known runs, and the output is between the places of its rank: docs/tolerances.md, "Quantiles".
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.testing.assertions.cells import is_number
from sfumato.testing.assertions.places import Judgement
from sfumato.testing.assertions.quantiles import VALUES, is_count, listed

if TYPE_CHECKING:
    from sfumato.query.aggregates.order_statistics import ChosenQuantile
    from sfumato.query.noisy.choosing import Choice

_LN10 = math.log(10)
# What floats may lose of the logarithm of a probability, of up to 64 counts of places, on the safe side.
_SLACK = 1e-6


@dataclass(frozen=True)
class Chosen:
    """One quantile of one group, and all that a correct release may show for it.

    Args:
        choice: how the places of its column are chosen.
        at: which of the ranks it is.
        levels: the distances of the group's places.
        without_noise: the value of a place that is nearest to the rank.
    """

    choice: Choice
    at: int
    levels: Any  # `Levels` of measurements.quantile_choice
    without_noise: float

    @classmethod
    def of(cls, choice: Choice, e: ChosenQuantile, given: Any, name: str) -> Chosen:
        """Measure a group.

        Args:
            choice: how the places are chosen.
            e: the output.
            given: the group's values, or exact counts of its places, as for `leaf_counts`.
            name: of the argument, for messages.
        Raises:
            ParameterError: `given` is neither.
            AssertionError: a value is outside the bounds, which are thus not those that the test means.
        """
        counts = _counts(choice, given, name)
        return cls(choice, e.at, choice.levels(counts), choice.nearest(e.at, counts))

    @cached_property
    def log10_tails(self) -> list[float]:
        """log10 of bounds of the probabilities that the largest distance is each, or larger."""
        levels = self.levels
        near = (levels.distances - levels.distances[0]).astype(float) * float(levels.rate)
        with np.errstate(divide="ignore"):
            powers = sum(np.log(count.astype(float)) for count in levels.within) - near
            weights = powers + np.log(-np.expm1(-np.append(np.diff(near), np.inf)))
        tails = np.logaddexp.accumulate(weights[::-1])[::-1]
        found: list[float] = np.minimum((tails - tails[0] + _SLACK) / _LN10, 0.0).tolist()
        return found

    def ends(self, index: int) -> tuple[float, float]:
        """Return the lowest and the highest value while no distance is above that of an index."""
        own = slice(self.at * self.choice.each, (self.at + 1) * self.choice.each)
        runs = self.levels.level(index)[own]
        lattice = self.choice.leaves.lattice
        return lattice.decimal(min(low for low, _ in runs)), lattice.decimal(max(high for _, high in runs))

    def judge(self, actual: float, k: float) -> Judgement:
        """Say how far on its side an output may be from the quantile without noise.

        Args:
            actual: what the release shows.
            k: greater than 0.
        """
        tails = self.log10_tails
        index = next((i for i in range(len(tails) - 1) if tails[i + 1] <= -k), len(tails) - 1)
        low, high = self.ends(index)
        truth = self.without_noise
        tolerance = high - truth if actual >= truth else truth - low
        if abs(actual - truth) <= tolerance:
            return Judgement(tolerance, 0.0)
        while index < len(tails) and not self._explains(index, actual):
            index += 1
        return Judgement(tolerance, tails[index] if index < len(tails) else -math.inf)

    def _explains(self, index: int, actual: float) -> bool:
        low, high = self.ends(index)
        return low <= actual <= high


def _counts(choice: Choice, given: Any, name: str) -> Counter[int]:
    lattice, exponent = choice.leaves.lattice, choice.leaves.exponent
    entries = listed(given)
    if entries is None:
        raise ParameterError(name, given, VALUES)
    counts: Counter[int] = Counter()
    for entry in entries:
        value, weight = entry, 1 << -exponent
        if isinstance(entry, Mapping):
            value, weight = entry.get("leaf"), entry.get("weight", -1)
            if not (is_number(value) and is_count(weight)):
                raise ParameterError(name, entry, 'the value of a place with a "weight" in steps')
        elif not (entry is None or is_number(entry) or isinstance(entry, bool)):
            raise ParameterError(name, entry, VALUES)
        place = lattice.place(value)
        if place is None:
            continue
        number = float(value)  # type: ignore[arg-type]
        if not lattice.lower <= number <= lattice.upper:
            raise AssertionError(
                f"{name} has the value {value}, and the release's bounds are [{lattice.lower:.10g}, "
                f"{lattice.upper:.10g}]: clamp the values to the bounds that should be there"
            )
        counts[place] += int(weight)
    return +counts
