"""A noisy distribution of what privacy units contribute, and the limits that follow from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from sfumato.query.aggregates import Aggregate, count_units, histogram

# Limits to choose from: each number up to 6, then steps of about a quarter or a third, and of ten at the end.
LIMITS = (
    *(1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 150, 200, 300, 500),
    *(1_000, 2_000, 5_000, 10_000, 100_000, 1_000_000),
)
# A limit that so many units are within is large enough.
ENOUGH = 0.95
# Beyond a limit that so many are within, what looks like units is mostly noise.
NEARLY_ALL = 0.98
# A bin with fewer units than so many deviations of its noise has none, as far as anybody knows.
NOISE = 1.5
# Nor is a limit chosen for fewer than this part of the units.
FEW = 0.001
# So many bins side by side have units for sure if they have more than so many deviations of their noise.
SURE = {1: 4, 2: 4, 4: 4}
# The same of bins anywhere, of which there are many: beyond the last that has units for sure is noise alone.
SURE_ANYWHERE = 7
UNITS = "units"


def asked(columns: Mapping[str, str]) -> dict[str, Aggregate]:
    """Return what is asked of a table with one row for each unit.

    Args:
        columns: of whole numbers from 1, by what they are of: their distributions are asked.
    """
    edges = [1, *(limit + 1 for limit in LIMITS)]
    found: dict[str, Aggregate] = {UNITS: count_units()}
    return found | {
        of: histogram(column, edges, outside="count", per="unit") for of, column in columns.items()
    }


@dataclass(frozen=True)
class Distribution:
    """Noisy numbers of units by something that each has, as a number of groups.

    Args:
        units: the noisy number of all.
        within: of each of `LIMITS`, those that have so much, and more than the limit before.
        deviation: of the noise of each of `within`.
    """

    units: float
    within: tuple[float, ...]
    deviation: float

    def of_at_most(self, most: int) -> Distribution:
        """Return the same where nobody has more than so much, so that what looks like it is noise."""
        end = next((i for i, limit in enumerate(LIMITS) if limit >= most), len(LIMITS) - 1)
        within = tuple(number if i <= end else 0.0 for i, number in enumerate(self.within))
        return Distribution(self.units, within, self.deviation)

    @property
    def enough(self) -> int:
        """The smallest limit that enough units are within, as far as the noise tells."""
        return self._within(ENOUGH)

    def _within(self, part: float) -> int:
        """Return the smallest limit that a part of the units are within, as far as the noise tells."""
        found = 0.0
        for i, (limit, number) in enumerate(zip(LIMITS, self.within, strict=True), 1):
            found += number
            # One deviation more: noise is no reason for a limit that is far larger.
            if found + self.deviation * sqrt(i) >= part * self.units:
                return limit
        return LIMITS[-1]

    @property
    def _last(self) -> int:
        """The largest limit up to which bins have units: nearly all, and what is sure right beyond them."""
        # Sums of many noises may stay too small up to the largest limit: nothing sure is there then.
        end = min(LIMITS.index(self._within(NEARLY_ALL)) + 1, self._sure)
        more, few = 1, FEW * self.units
        while more:
            more = next(
                (
                    bins
                    for bins, most in SURE.items()
                    if sum(self.within[end : end + bins]) > max(most * self.deviation * sqrt(bins), few)
                ),
                0,
            )
            end = min(end + more, len(LIMITS))
        return LIMITS[end - 1]

    @property
    def _sure(self) -> int:
        """How many bins there are up to the last that surely has units, by itself or with some before it."""
        ends = [
            end
            for end in range(1, len(self.within) + 1)
            for bins in SURE
            if sum(self.within[max(end - bins, 0) : end]) > SURE_ANYWHERE * self.deviation * sqrt(bins)
        ]
        return max(ends, default=len(LIMITS))

    @property
    def mean(self) -> float:
        """About how much units have on average, those beyond what is enough as much as that."""
        sizes = [size * number for size, number in self._sizes]
        return max(sum(sizes) / max(sum(number for _, number in self._sizes), 1e-9), 1.0) if sizes else 1.0

    def lost(self, limit: int) -> float:
        """Return about the share of all that units have together which is beyond a limit."""
        whole = sum(size * number for size, number in self._sizes)
        beyond = sum(max(size - limit, 0.0) * number for size, number in self._sizes)
        return beyond / whole if whole > 0 else 0.0

    @property
    def _sizes(self) -> list[tuple[float, float]]:
        """How much units have in each bin, and about how many there are; those of noise alone left out."""
        found, before, last = [], 0, self._last
        for limit, number in zip(LIMITS, self.within, strict=True):
            if limit <= last and number > max(NOISE * self.deviation, FEW * self.units):
                found.append(((before + 1 + limit) / 2, number))
            before = limit
        return found


def distributions(
    names: Sequence[str], row: Mapping[str, float], outputs: Mapping[str, Sequence[str]], deviation: float
) -> dict[str, Distribution]:
    """Return the distributions that a released row has.

    Args:
        names: what they are of.
        row: the released numbers, by output.
        outputs: of each name the outputs, in order: units that have 0, then those within each limit, then
            those beyond all.
        deviation: the largest standard deviation of the noise of one of them.
    """
    return {
        name: Distribution(row[UNITS], tuple(row[one] for one in outputs[name][1:-1]), deviation)
        for name in names
    }
