"""Quantile candidates: places near quantiles, chosen by the exponential mechanism."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.measurements.independent_noise import Law
from sfumato.measurements.int128_array import Int128Array, float64_values, int64_values
from sfumato.measurements.quantile_choice import Levels, QuantileChoice, Target, placed
from sfumato.noise import Words
from sfumato.noise.law_tails import Floats
from sfumato.query.aggregates import Aggregate, Quantiles
from sfumato.query.aggregates.quantile_aggregates import is_balanced
from sfumato.transformations import Leaves, Margin, Statistic

# The share of epsilon that places are chosen with: beside other outputs, where units may be in all groups or
# in some only, as groups are small then, and places farther off than counts; and where there are no
# others. Without error bars fewer numbers are left for noise, which then needs less of it.
SHARE, SHARE_LIMITED, SHARE_ALONE = Fraction(1, 4), Fraction(2, 5), Fraction(3, 4)
SHARE_PLAIN, SHARE_PLAIN_ALONE = Fraction(2, 5), Fraction(19, 20)
# How often a place that should lie before a rank lies behind it, where values are spread evenly.
WRONG_SIDE = 0.01
# Outer places are as good within so many scales, times the ranks, of where they are aimed. The wider this
# is, the nearer is the place in the middle to where one alone would be, and the farther are bars.
SPREAD = 2
# Near the ends outer places are aimed at the last value where the rank has too few rows beside it. Distances
# then grow by as much as a count does, so that all places are a sixth less near at most.
EXTREME = Fraction(3, 4)
# Places are chosen near multiples of 2^-20, so that distances are whole numbers of 64 bits; an error bar is
# of the rank that was asked.
RANK_BITS = 20
# The law of a quantile's error has so many nodes for each of four numbers, and is used down to this failure.
NODES, RARE = 17, 0.005
# As powers of ten, of both sides: noise is lower than its mean by so much once in 40 times.
_ONCE_IN_40 = Fraction(13, 10)


@dataclass(frozen=True)
class Places:
    """The quantile candidates that were chosen for a column.

    Args:
        places: float64 of shape (groups, ranks, 3), rising along the last axis; or of 1 in place of 3.
        aimed: how many rows from the rank the outer places were aimed.
        scale: of the choice, in rows.
    """

    places: Floats
    aimed: float
    scale: float

    def reach(self, failure: float, outer: float) -> float:
        """Return how far a quantile is off but with probability `failure`, over the outer places' distance.

        Between the outer places values are spread evenly, and the middle one is `BALANCED` between them.

        Args:
            failure: where it is very small, all of the distance is returned.
            outer: the weight of each outer place in the quantile.
        """
        errors = _errors(self.places.shape[1], round(self.aimed / self.scale, 3), outer)
        return 1.0 if failure < RARE else float(errors[math.ceil((1 - failure) * len(errors)) - 1])


@dataclass(frozen=True, repr=False)
class Choice(Spelled):
    """The choice of quantile candidates of one column: for each rank three places, or one.

    Args:
        leaves: the counts that are chosen from.
        ranks: multiples of 2^-20.
        margins: for each rank, of its outer places; none where there is one place alone.
        scale: of the choice, in steps of `leaves`.
        noise: what the noise of a margin takes off it, and what it is off besides, in steps of `leaves`.
    """

    leaves: Leaves
    ranks: tuple[Fraction, ...]
    margins: tuple[Margin, ...]
    scale: Fraction
    noise: tuple[float, float] = (0.0, 0.0)

    @property
    def each(self) -> int:
        """The number of quantile candidates for each rank."""
        return 3 if self.margins else 1

    @property
    def spread(self) -> int:
        """The number of steps within which outer quantile candidates are equally good."""
        return math.ceil(self.scale * SPREAD * len(self.ranks)) if self.margins else 0

    @property
    def shift(self) -> int:
        """How far from the rank the outer quantile candidates are aimed, in steps."""
        if not self.margins:
            return 0
        tolerance, off = self.noise
        return self.spread + math.ceil(tolerance + math.hypot(self.scale * _reach(len(self.ranks)), off))

    def with_margins(self, laws: Mapping[str, Law]) -> Choice:
        """Return the choice with outer quantile candidates aimed beyond the noise of their margins.

        Args:
            laws: of the noise of each number, in its own steps.
        """
        if not self.margins:
            return self
        law, step = laws[self.margins[0].names[0]], float(self.margins[0].coordinates[0].step)
        each = step / float(self.leaves.coordinates[0].step)
        # An error bar of 95% takes off what noise is above once in 20 times.
        return replace(self, noise=(law.tolerance(1) * each, law.tolerance(_ONCE_IN_40) * each))

    @cached_property
    def mechanism(self) -> QuantileChoice:
        """The exponential mechanism that draws the quantile candidates of a group."""
        within = max(max(rank, 1 - rank) for rank in self.ranks) >= EXTREME
        sides = (Fraction(-self.shift), Fraction(self.shift)) if self.margins else ()
        targets = []
        for rank in self.ranks:
            outer = [Target(rank, side, Fraction(self.spread), within) for side in sides]
            targets += [*outer[:1], Target(rank), *outer[1:]]
        return QuantileChoice(self.scale, self.leaves.lattice, tuple(targets))

    @property
    def description(self) -> dict[str, Any]:
        """What the quantile candidates are chosen from, and how, as the certificate reads it."""
        leaves, targets = self.leaves, self.mechanism.targets
        return {
            "kind": "quantiles",
            "name": leaves.names[0],
            "rows": leaves.rows,
            "one": str(1 << -leaves.exponent),
            "scale": str(self.mechanism.scale),
            "targets": [{"rank": str(t.rank), "within": t.within} for t in targets],
        }

    @property
    def deviation(self) -> float:
        """About how many rows a quantile candidate is off its rank, for evenly spread values."""
        largest, share = _largest(len(self.ranks), SPREAD if self.margins else None)
        steps = float(self.scale) * math.sqrt(float((share * largest**2).sum()) / 3)
        return steps * float(self.leaves.coordinates[0].step)

    def levels(self, counts: Mapping[int, int]) -> Levels:
        """Return how far each quantile candidate of a group is from its rank.

        Args:
            counts: of values by place, in steps, greater than 0.
        """
        return self.mechanism.levels(*placed(counts))

    def nearest(self, at: int, counts: Mapping[int, int]) -> float:
        """Return the value of the quantile candidate that is nearest to a rank.

        Args:
            at: which of the ranks.
            counts: as of `levels`.
        """
        alone = QuantileChoice(self.scale, self.leaves.lattice, (Target(self.ranks[at]),))
        ((place, _),) = alone.levels(*placed(counts)).level(0)
        return float(self.leaves.lattice.decimals(np.array([place]))[0])

    def draw(self, column: pa.ListArray, words: Words | None) -> tuple[Places, list[Int128Array]]:
        """Choose quantile candidates for each group, and count the rows around them.

        Args:
            column: exact counts: a list of structs (leaf, weight) for each group, sorted; or what
                `chosen` made of it.
            words: a source of random words; None for this thread's secure words.
        Returns:
            The places; and for each margin its exact numbers, to which noise is still to be added.
        """
        if not pa.types.is_struct(column.type):
            column = self.chosen(column, words)
        places, numbers = column.flatten()
        found = float64_values(places.flatten()).reshape(len(column), len(self.ranks), self.each)
        exact, each = Int128Array.from_arrow(numbers.flatten()), len(self.margins)
        step = self.leaves.coordinates[0].step
        return Places(found, float(self.shift * step), float(self.scale * step)), [
            Int128Array(exact.high[i::each], exact.low[i::each]) for i in range(each)
        ]

    def chosen(self, column: pa.ListArray, words: Words | None = None) -> pa.StructArray:
        """Choose quantile candidates for each group, as a column that `draw` takes in place of counts.

        Args:
            column, words: as of `draw`.
        """
        offsets = int64_values(column.offsets) - int64_values(column.offsets)[:1]
        entries = column.flatten()
        values = float64_values(entries.field("leaf"))
        places, weights = self.leaves.lattice.places(values), int64_values(entries.field("weight"))
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(weights)])
        drawn = self.mechanism.draws(places, before, offsets, words)
        rising = np.sort(drawn.reshape(len(column), len(self.ranks), self.each), axis=2)
        first, last = offsets[:-1], offsets[1:]
        totals, exact = (before[last] - before[first]).tolist(), []
        for at, margin in enumerate(self.margins):
            below = before[_search(places, first, last, rising[:, at, 0], "left")] - before[first]
            upto = before[_search(places, first, last, rising[:, at, -1], "right")] - before[first]
            exact.append(list(map(margin.between, below.tolist(), upto.tolist(), totals)))
        found = self.leaves.lattice.decimals(rising.ravel())
        values = pa.Array.from_buffers(pa.float64(), found.size, [None, pa.py_buffer(found)])
        numbers = Int128Array.from_integers([n for group in zip(*exact, strict=True) for n in group])
        parts = [values, numbers.to_arrow()]
        return pa.StructArray.from_arrays([_listed(p, len(column)) for p in parts], ["places", "numbers"])


def _search(
    places: NDArray[np.int64],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    wanted: NDArray[np.int64],
    side: Literal["left", "right"],
) -> NDArray[np.int64]:
    """Return where a candidate would be inserted among each group's places, as `np.searchsorted` does."""
    low, high = first.copy(), last.copy()
    while (open_ := low < high).any():
        middle = (low + high) // 2
        own = places[np.minimum(middle, len(places) - 1)]
        less = open_ & (own < wanted if side == "left" else own <= wanted)
        low, high = np.where(less, middle + 1, low), np.where(open_ & ~less, middle, high)
    return low


def _listed(values: pa.Array, groups: int) -> pa.ListArray:
    """Return the same number of values for each group, as quantile candidates have it."""
    ends = np.arange(groups + 1) * (len(values) // max(groups, 1))
    offsets = pa.Array.from_buffers(pa.int32(), groups + 1, [None, pa.py_buffer(ends.astype(np.int32))])
    return pa.ListArray.from_arrays(offsets, values)


def list_choices(
    chosen: Sequence[tuple[Leaves, tuple[Fraction, ...]]],
    statistics: Sequence[Statistic],
    epsilon: Fraction,
    groups: int,
) -> tuple[Choice, ...]:
    """Return the choices of quantile candidates of a release.

    Args:
        chosen: counts, and the ranks of which places are chosen from them.
        statistics: of a release, among them the margins of these places.
        epsilon: for the choices in all groups of a unit together, equal parts for each column.
        groups: the most groups of a unit.
    """
    found = []
    for leaves, ranks in chosen:
        beside = tuple(s for s in statistics if isinstance(s, Margin) and s.leaves == leaves)
        parts = 1 << RANK_BITS
        near = tuple(Fraction(round(rank * parts), parts) for rank in ranks)
        made = Choice(leaves, near, beside, Fraction(1))
        largest = leaves.body.linf_sensitivities[0] * groups * len(chosen)
        found.append(replace(made, scale=made.mechanism.loss * largest / epsilon))
    return tuple(found)


def replace_margins(statistics: Sequence[Statistic], choices: Sequence[Choice]) -> tuple[Statistic, ...]:
    """Return the statistics that an engine counts: candidate counts in place of quantile margins."""
    plain = [s for s in statistics if not isinstance(s, Margin)]
    return (*plain, *(c.leaves for c in choices))


def read_selection_share(aggregates: Sequence[tuple[Aggregate, Fraction]], *, limited: bool) -> Fraction:
    """Return the part of epsilon that pays for choosing quantile candidates.

    Args:
        limited: whether units are in some groups only.
        aggregates: aggregates, and how much each matters. Quantiles of twice the weight have twice the odds,
            but for those with error bars, which need noisy numbers as well.
    """
    quantiles = [a for a, _ in aggregates if isinstance(a, Quantiles)]
    if not quantiles:
        return Fraction(0)
    alone = len(quantiles) == len(aggregates)
    if any(a.error_bars for a in quantiles):
        return SHARE_ALONE if alone else SHARE_LIMITED if limited else SHARE
    if alone:
        return SHARE_PLAIN_ALONE
    share = SHARE_PLAIN
    chosen, others = (
        [w for a, w in aggregates if isinstance(a, Quantiles) is kind] for kind in (True, False)
    )
    chosen_weight, weight = (sum(own, Fraction(0)) / len(own) for own in (chosen, others))
    return share * chosen_weight / (share * chosen_weight + (1 - share) * weight)


@cache
def _largest(ranks: int, spread: int | None) -> tuple[Floats, Floats]:
    """Return the largest distance of a quantile candidate in scales, and its probability.

    Places within y of a rank are as many as y; of where outer places are aimed, as the spread and y. With m
    single places alone this is the Gamma law of shape m + 1 of which docs/proofs/joint_quantiles.md tells.

    Args:
        ranks: how many there are.
        spread: in scales, for each rank; None where there are no outer places.
    """
    y = np.linspace(0.005, 30.0 + 10 * ranks, 4_000)
    log = ranks * np.log(y) - y
    if spread is not None:
        log += 2 * ranks * np.log(spread * ranks + y)
    share = np.exp(log - log.max())
    return y, share / share.sum()


@lru_cache(1 << 8)
def _errors(ranks: int, shift: float, outer: float) -> Floats:
    """Return equally likely errors of a quantile by the law of its places, rising; args: as of `reach`.

    Args:
        ranks: how many there are.
        shift: of the outer places, in scales.
    """
    y, share = _largest(ranks, SPREAD)
    parts = (np.arange(NODES) + 0.5) / NODES
    nodes, even = np.interp(parts, np.cumsum(share), y), 2 * parts - 1
    y, low, here, high = (x.ravel() for x in np.meshgrid(nodes, even, even, even))
    wide = SPREAD * ranks + y
    first, middle, last = np.sort([low * wide - shift, here * y, high * wide + shift], axis=0)
    errors = np.abs(middle + outer * (first - 2 * middle + last)) / (last - first)
    return np.sort(errors[is_balanced(first, middle, last)])


def _reach(ranks: int) -> float:
    """Return how many scales beyond its spread a quantile candidate is with probability `WRONG_SIDE`."""
    largest, share = _largest(ranks, SPREAD)
    wide = 2 * (SPREAD * ranks + largest)
    return next(
        x / 8
        for x in range(8, 1 << 20)
        if float((share * np.maximum(largest - x / 8, 0.0) / wide).sum()) <= WRONG_SIDE
    )
