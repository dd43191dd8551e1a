"""Quantiles between places that were chosen, by noisy numbers of rows beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.errors import QueryError
from sfumato.exact import round_down, round_up
from sfumato.noise.intervals import Interval
from sfumato.noise.values import Floats
from sfumato.query.aggregates import Quantiles, names_of
from sfumato.query.design import Design, block_of
from sfumato.query.estimates.estimate import Estimate
from sfumato.query.numbers import NoisyNumbers
from sfumato.query.schema import Kind
from sfumato.transformations import Crossing, Lattice, Leaves

# As for trees: 64 bits hold the counts of 2^49 rows.
EXPONENT = -14
MOST_RANKS = 21
# The place in the middle is the answer, unless a line between the other two says that it is off by more rows
# than the least of these parts of those that they are aimed at, and by fewer than the largest: beyond, it is
# likelier that values do not lie along a line.
OFF = 0.25, 0.6


@dataclass(frozen=True)
class ChosenQuantile(Estimate):
    """The value below which a share of the rows lies: the middle of three places, or between the outer two.

    Args:
        at: which of the column's ranks it is.
        below, upto: the coordinates of rows below the first place, and up to the last; empty where there is
            one place alone.
        finest: the smallest step of places.
    """

    kind = "quantile"

    at: int = 0
    below: str = ""
    upto: str = ""
    finest: float = 0.0

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The counts that places are chosen from, and the two numbers beside them."""
        assert self.total is not None
        return (self.total, self.below, self.upto) if self.below else (self.total,)

    def _places(self, numbers: NoisyNumbers) -> tuple[Floats, Floats, Floats]:
        assert self.total is not None
        places = numbers.chosen[self.total].places[:, self.at]
        return places[:, 0], places[:, places.shape[1] // 2], places[:, -1]

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the middle place, or where the line between the outer two crosses the rank."""
        first, middle, last = self._places(numbers)
        if not self.below:
            return middle
        low, high = numbers.values[self.below], numbers.values[self.upto]
        rise, width = np.maximum(high - low, 0.0), last - first
        share = np.clip(-low / np.where(rise > 0, rise, 1.0), 0.0, 1.0)
        line = np.where(rise > 0, first + width * share, middle)
        off = low + rise * (middle - first) / np.where(width > 0, width, 1.0)
        assert self.total is not None
        rows, aimed = np.abs(off), numbers.chosen[self.total].aimed
        kept = self.whole | (rows <= OFF[0] * aimed) | (rows >= OFF[1] * aimed)
        return np.clip(np.where(kept, middle, line), first, last)

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return the outer places where the rows beside them surely say that the rank is between."""
        first, _, last = self._places(numbers)
        if not self.below:
            return Interval(np.full_like(first, self.lower), np.full_like(last, self.upper))
        weight = np.ones(1)
        # A law that is symmetric fails on one side half as often.
        tolerance = [numbers.noises.tolerance({name: weight}, failure) for name in (self.below, self.upto)]
        low = np.where(numbers.values[self.below] + tolerance[0] < 0, first, self.lower)
        high = np.where(numbers.values[self.upto] - tolerance[1] > 0, last, self.upper)
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
    for output, rank in zip(names_of(name, aggregate), aggregate.ranks, strict=True):
        nearest = Fraction(round(Fraction(rank) * (1 << Crossing.BITS)), 1 << Crossing.BITS)
        if nearest not in ranks:
            ranks.append(nearest)
        beside = [Crossing(leaves, nearest, upto) for upto in (False, True)] if bars else []
        for crossing in beside:
            design.add(crossing)
        first, last = (c.names[0] for c in beside) if bars else ("", "")
        found.append(
            ChosenQuantile(
                output,
                total=leaves.names[0],
                lower=lower,
                upper=upper,
                rank=rank,
                whole=whole,
                wide=max(abs(lower), abs(upper)) >= 2.0**62,
                at=ranks.index(nearest),
                below=first,
                upto=last,
                finest=2.0**leaves.lattice.finest,
            )
        )
    if len(ranks) > MOST_RANKS:
        raise QueryError(
            f"{name}: {len(ranks)} ranks of {aggregate.column} are more than the {MOST_RANKS} that are "
            "chosen together; ask for fewer, or for noise='laplace'"
        )
    return tuple(found)
