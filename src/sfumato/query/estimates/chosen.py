"""Quantiles between places that were chosen, by noisy numbers of rows beside them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.errors import QueryError
from sfumato.exact import round_down, round_up
from sfumato.noise.intervals import Interval
from sfumato.noise.values import Floats
from sfumato.query.aggregates import Quantiles
from sfumato.query.design import Design, block_of
from sfumato.query.estimates.estimate import Estimate
from sfumato.query.noisy.numbers import NoisyNumbers
from sfumato.query.schema import Kind
from sfumato.transformations import Lattice, Leaves, Margin

# As for trees: 64 bits hold the counts of 2^49 rows.
EXPONENT = -14
MOST_RANKS = 21
# Three places around a rank are off by amounts that have nothing to do with each other, their weighted mean
# by less than the middle one. It is taken where values between them are about evenly spread: at least so
# many times the rows that outer ones are aimed at are on either side of the rank, and one of them is at most
# so many times as far from the middle as the other.
MANY, EVENLY = 7.0, 8.0
# Where rows are not counted, one may be so many times as far.
EVENLY_UNCOUNTED = 2.0
# What the middle one counts for; the outer ones, which are farther off, have the rest in equal parts.
MIDDLE = 0.5


@dataclass(frozen=True)
class ChosenQuantile(Estimate):
    """The value below which a share of the rows lies: the mean of three places, the middle one, or one alone.

    Args:
        at: which of the column's ranks it is.
        margin: the coordinate of rows by which the outer places are beyond the rank; empty where there is one
            place alone.
        finest: the smallest step of places.
    """

    kind = "quantile"

    at: int = 0
    margin: str = ""
    finest: float = 0.0

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The counts that places are chosen from, and the number beside them."""
        assert self.total is not None
        return (self.total, self.margin) if self.margin else (self.total,)

    def _places(self, numbers: NoisyNumbers) -> tuple[Floats, Floats, Floats]:
        assert self.total is not None
        places = numbers.chosen[self.total].places[:, self.at]
        return places[:, 0], places[:, places.shape[1] // 2], places[:, -1]

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the mean of the places where values are many and the places three, else the middle one."""
        first, middle, last = self._places(numbers)
        if not self.margin:
            return middle
        assert self.total is not None
        aimed, beyond = numbers.chosen[self.total].aimed, numbers.values[self.margin]
        few, times = np.zeros(len(middle), bool), EVENLY_UNCOUNTED
        if self.count is not None:
            few, times = self.counted(numbers) * min(self.rank, 1 - self.rank) < MANY * aimed, EVENLY
        # Where many rows have the same value two places are often the same, and their mean is no row's value.
        before, after = middle - first, last - middle
        even = np.maximum(before, after) <= times * np.minimum(before, after)
        evenly = ~few & even & (beyond >= aimed / 2) & (first < last)
        outer = (1 - MIDDLE) / 2
        mean = first + MIDDLE * (middle - first) + outer * (last - first)
        return np.clip(np.where(evenly, mean, middle), first, last)

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return the outer places where the rows beside them surely say that the rank is between."""
        first, _, last = self._places(numbers)
        if not self.margin:
            return Interval(np.full_like(first, self.lower), np.full_like(last, self.upper))
        # A law that is symmetric fails on one side half as often.
        both = 2 * failure
        over = numbers.noises.tolerance({self.margin: np.ones(1)}, both) if both < 1 else 0.0
        between = numbers.values[self.margin] - over > 0
        low, high = np.where(between, first, self.lower), np.where(between, last, self.upper)
        # A value belongs to the nearest place, 2^-14 of its size away at most, or half of the finest step.
        return Interval(
            np.maximum(low - self._slack(low), self.lower), np.minimum(high + self._slack(high), self.upper)
        )

    def _slack(self, places: Floats) -> Floats:
        size = np.abs(places)
        if self.whole:  # below 2^14 every whole number is a place
            return np.where(size < 2.0**14, 0.0, size * 2.0**-13)
        return size * 2.0**-13 + self.finest


def chosen_quantiles(design: Design, name: str, aggregate: Quantiles) -> tuple[Estimate, ...]:
    """Ask for quantiles, all of one column and the same bounds by one choice."""
    low, high = math.ceil(aggregate.lower), math.floor(aggregate.upper)
    whole = design.schema[aggregate.column].kind is Kind.INTEGER and low < high
    lower, upper = (
        (float(low), float(high)) if whole else (round_down(aggregate.lower), round_up(aggregate.upper))
    )
    label, exponent = design.label(block_of(aggregate)), max(design.weight_exponent(), EXPONENT)
    leaves = Leaves(label, aggregate.column, design.rows, Lattice(lower, upper, whole), exponent)
    ranks = design.chosen.setdefault(leaves, [])
    of_column = [a for _, a in design.query.aggregates if isinstance(a, Quantiles)]
    bars = any(a.error_bars for a in of_column if block_of(a) == block_of(aggregate))
    found = []
    for output, rank in zip(aggregate.outputs(name), aggregate.ranks, strict=True):
        exact = Fraction(rank)
        if exact not in ranks:
            ranks.append(exact)
        margin = Margin(leaves, exact)
        if bars:
            design.add(margin)
        found.append(
            ChosenQuantile(
                output,
                count=design.base or ("units" if design.units else None),
                total=leaves.names[0],
                lower=lower,
                upper=upper,
                rank=rank,
                whole=whole,
                wide=max(abs(lower), abs(upper)) >= 2.0**62,
                at=ranks.index(exact),
                margin=margin.names[0] if bars else "",
                finest=2.0**leaves.lattice.finest,
            )
        )
    if len(ranks) > MOST_RANKS:
        raise QueryError(
            f"{name}: {len(ranks)} ranks of {aggregate.column} are more than the {MOST_RANKS} that are "
            "chosen together; ask for fewer, or for noise='laplace'"
        )
    return tuple(found)
