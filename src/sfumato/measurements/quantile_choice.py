"""Quantile choice by the exponential mechanism: places for several ranks in one draw, chosen exactly.

Round numbers weigh more than others before any count is looked at (`BaseMeasure`); `Levels` is the law by
which places are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fraction, positive
from sfumato.exact.outward_rounding import exp_bounds
from sfumato.framework import GroupedIntegers, L1Distance, Linear, Measurement, PureDP
from sfumato.measurements.candidate_selection import uniform_below
from sfumato.names.suggestions import suggest_arguments
from sfumato.noise import Words
from sfumato.noise.random_words import Words64, get_source, pick
from sfumato.transformations.quantile_lattice import Lattice

# Round numbers have so many digits, counted from the first one or from that of the bounds' distance.
DIGITS = 1, 2, 3
# Of wide bounds only the roundest numbers: not more than so many of them.
MAX_ROUND = 1 << 15
# Numbers are called round that are at most one of so many places.
FEW = 2

# Powers of ten with larger exponents, or their reciprocals, are no float64.
_LARGEST_POWER = 300


@dataclass(frozen=True)
class BaseMeasure:
    """The base measure of quantile choice: about equal weights for places, more for round numbers.

    People's values are often round, and then many have one of them. Places are chosen by weight and by
    distance; were all weights equal, the thousands of places around such a number would outweigh it.

    Args:
        lattice: the places.

    >>> base = BaseMeasure(Lattice(0.0, 50.0, whole=True))
    >>> [int(base.between(place, place)) for place in (20, 23)], int(base.total)
    ([4, 1], 96)

    Source:
        McSherry and Talwar 2007: the exponential mechanism with a base measure; any one has the same privacy.
    """

    lattice: Lattice

    @cached_property
    def _round(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The round numbers among quantile places, rising, and cumulated weights of the base measure."""
        found = [self._with_digits(digits) for digits in DIGITS]
        count = self.lattice.count
        found = [places for places in found if 0 < len(places) <= min(count // FEW, MAX_ROUND)]
        more = [np.full(len(places), count // len(places)) for places in found]
        places, own = np.unique(np.concatenate([*found, np.zeros(0, np.int64)]), return_inverse=True)
        weights = np.zeros(len(places) + 1, np.int64)
        np.add.at(weights, own + 1, np.concatenate([*more, np.zeros(0, np.int64)]))
        return places, np.cumsum(weights)

    def _with_digits(self, digits: int) -> NDArray[np.int64]:
        lattice = self.lattice
        top = _decade(Fraction(lattice.upper) - Fraction(lattice.lower))
        # Below this size places are as far apart as at zero.
        lowest = 0 if lattice.whole else _decade(Fraction(lattice.near))
        largest = max(abs(lattice.lower), abs(lattice.upper))
        runs = [_multiples(lattice.lower, lattice.upper, top - digits + 1)]
        for decade in range(lowest, min(top, _decade(Fraction(largest)) + 1)):
            if (decade - lowest) * 10**digits > MAX_ROUND:
                return np.zeros(0, np.int64)
            least = 10.0**decade if decade > lowest else 0.0
            own = _multiples(least, 10.0 ** (decade + 1), decade - digits + 1)
            runs += [-own, own]
        values = np.concatenate(runs)
        values = values[(lattice.lower <= values) & (values <= lattice.upper)]
        if lattice.whole:
            values = values[values == np.floor(values)]
        return np.unique(lattice.places(lattice.all_nearest(values)))

    @cached_property
    def total(self) -> int:
        """The base measure of all quantile places."""
        return int(self.between(self.lattice.first, self.lattice.last))

    def between(self, low: Any, high: Any) -> Any:
        """Return the base measure of quantile places from one to another, both included; arrays too."""
        places, before = self._round
        more = before[np.searchsorted(places, high, "right")] - before[np.searchsorted(places, low)]
        return high - low + 1 + more

    def pick(self, low: NDArray[np.int64], high: NDArray[np.int64], words: Words | None) -> NDArray[np.int64]:
        """Draw quantile places, each between two, both included, in proportion to the base measure."""
        places, before = self._round
        first, end = np.searchsorted(places, low), np.searchsorted(places, high, "right")
        alike = high - low + 1
        drawn = uniform_below(alike + before[end] - before[first], len(low), words)
        rounder = np.flatnonzero(drawn >= alike)
        found = low + drawn
        at = (before[first] + drawn - alike)[rounder]
        found[rounder] = places[np.searchsorted(before, at, "right") - 1]
        return found


def _decade(size: Fraction) -> int:
    """Return the exponent of the largest power of ten at most a number, for round quantile places."""
    found = math.floor(math.log10(size))
    return found - (Fraction(10) ** found > size) + (Fraction(10) ** (found + 1) <= size)


def _multiples(lower: float, upper: float, power: int) -> NDArray[np.float64]:
    """Return the float64 next to multiples of a power of ten between bounds: round quantile places."""
    step = Fraction(10) ** power
    first, last = math.ceil(Fraction(lower) / step), math.floor(Fraction(upper) / step)
    if abs(power) > _LARGEST_POWER or max(-first, last) >= 1 << 53 or last - first > MAX_ROUND:
        return np.zeros(0)
    numbers = np.arange(first, last + 1).astype(float)
    # A quotient by a whole power of ten is the nearest float64, the product with a fraction is not.
    return numbers * float(10**power) if power >= 0 else numbers / float(10**-power)


# NumPy's exp, expm1 and log are taken to be right to this part of what they return.
_ELEMENTARY = 2.0**-45

Integers = NDArray[Any]  # int64, or Python's integers where these do not suffice


@dataclass(frozen=True)
class Levels:
    """The levels of quantile choices in one or more groups: distances, and which places are within each.

    e^(-d/b) is the integral of e^(-y/b)/b over all y >= d. So y is drawn first, by what the choices within it
    weigh, and then each target's place among those within y, by its weight, independently.

    Args:
        distances: rising in each group, in `unit`s: among them is the largest distance of each choice.
        rate: 1/scale, per unit.
        ends: for each target the first and the last place within each distance.
        base: what places weigh.
        offsets: where each group's levels begin, and where the last group's end.
        log_left: of each group, log of a bound of what all choices weigh that are left out, times
            e^(nearest/b).
    """

    distances: Integers
    rate: Fraction
    ends: tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]
    base: BaseMeasure
    offsets: NDArray[np.int64]
    log_left: NDArray[np.float64]

    @property
    def within(self) -> Iterator[NDArray[np.int64]]:
        """For each quantile target, the base measure of the places within each level's distance."""
        return (self.base.between(low, high) for low, high in self.ends)

    def level(self, index: int) -> list[tuple[int, int]]:
        """Return for each quantile target the first and the last place within a level's distance."""
        return [(int(low[index]), int(high[index])) for low, high in self.ends]

    def pick(self, indices: NDArray[np.int64], words: Words | None) -> NDArray[np.int64]:
        """Draw a place for each quantile target among those within each level's distance."""
        return np.stack([self.base.pick(low[indices], high[indices], words) for low, high in self.ends], 1)

    @cached_property
    def _group(self) -> NDArray[np.int64]:
        """The group of each level of quantile choice."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    @cached_property
    def _weights(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums of the weights of quantile levels up to each, the largest of about 1, and log divisors.

        Between two distances e^(-y/b) has the integral e^(-first/b) - e^(-second/b); it is taken as often as
        the choices within the first weigh.
        """
        rate, first = float(self.rate), self.offsets[:-1]
        near = (self.distances - self.distances[first][self._group]).astype(float) * rate
        steps = np.append(np.diff(self.distances).astype(float) * rate, np.inf)
        steps[self.offsets[1:] - 1] = np.inf
        powers = sum(np.log(weight.astype(float)) for weight in self.within) - near
        largest = np.maximum.reduceat(powers, first)
        return _cumulate(np.exp(powers - largest[self._group]) * -np.expm1(-steps), self.offsets), largest

    @property
    def left(self) -> NDArray[np.float64]:
        """Bounds of the share of each group's weight that the levels of quantile choice leave out."""
        sums, largest = self._weights
        powers = np.minimum(self.log_left - largest, 700.0)
        return np.minimum(2 * np.exp(powers) / sums[self.offsets[1:] - 1], 1.0)

    def floats(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return bounds of the probabilities of quantile levels: below each but the first, and in all.

        With W < 2^60 a power, the sum of ln w_j less y/b, is made of numbers of at most P = 30 + 42m. NumPy's
        log is right to 2^-45, so the power is off by P (2^-45 + (m + 8) 2^-53); the bound is twice as much.
        exp, expm1 and its argument add 4 * 2^-45. All weights are positive, so sums of n of them add n 2^-53,
        and a quotient of sums has twice the error.
        """
        sums, last = self._weights[0], self.offsets[1:] - 1
        sums = sums / sums[last][self._group]
        most = 42 * len(self.ends) + 30  # of a power, and of what it is made of
        each = 2 * most * _ELEMENTARY + (len(self.ends) + 8) * most * 2.0**-53 + 4 * _ELEMENTARY
        error = (2 * each + np.diff(self.offsets) * 2.0**-51)[self._group]
        left = (2 * self.left)[self._group]
        # Behind the last low bound floats do not tell, as they do not know what is farther.
        high = np.minimum(sums * (1 + error) + left, 1.0)
        high[last] = 1.0
        return sums * (1 - error) - left, high

    def decide(self, first: Words64) -> NDArray[np.int64]:
        """Return the level of each group by its first random word; -1 where floats do not decide.

        A word w says that U is in [w, w + 1] 2^-64; a float is nearer to each end than its neighbours.
        """
        low, high = self.floats()
        numbers, starts = first.astype(float), self.offsets[:-1]
        least = np.nextafter(numbers, 0.0) * 2.0**-64
        most = np.nextafter(numbers + 1.0, np.inf) * 2.0**-64
        below = np.add.reduceat(high <= least[self._group], starts, dtype=np.int64)
        above = np.add.reduceat(low < most[self._group], starts, dtype=np.int64)
        return np.where((below == above) & (self.left < _LEFT), starts + below, -1)

    def enclosures(self, bits: int) -> tuple[list[Fraction], list[Fraction]]:
        """Return closer bounds of quantile levels' probabilities, 2^-bits apart, if none is left out."""
        bits += 64
        near = [self.rate * int(d - self.distances[0]) for d in self.distances.tolist()]
        bounds = [exp_bounds(-x, bits) if x <= bits else (Fraction(0), Fraction(1, 1 << bits)) for x in near]
        bounds.append((Fraction(0), Fraction(0)))
        products = [math.prod(own) for own in zip(*(w.tolist() for w in self.within), strict=True)]
        between = list(zip(products, pairwise(bounds), strict=True))
        least = [n * max(a[0] - b[1], Fraction(0)) for n, (a, b) in between]
        most = [n * (a[1] - b[0]) for n, (a, b) in between]
        lows, highs = list(accumulate(least)), list(accumulate(most))
        last = [Fraction(1)]
        return (
            [x / highs[-1] for x in lows[:-1]] + last,
            [min(x / lows[-1], last[0]) if lows[-1] else last[0] for x in highs[:-1]] + last,
        )


def _cumulate(values: NDArray[np.float64], offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the sums of each group's weights up to each of its levels, one after another added."""
    sizes, found = np.diff(offsets), np.empty_like(values)
    lengths = np.frexp(sizes)[1]  # groups of like sizes are rows of one table
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        at = offsets[rows, None] + np.arange(sizes[rows].max())
        inside = at < offsets[rows + 1, None]
        own = np.where(inside, values[np.minimum(at, len(values) - 1)], 0.0)
        found[at[inside]] = np.cumsum(own, axis=1)[inside]
    return found


MAX_TARGETS = 64
# The largest part of the weight that floats may leave out.
_LEFT = 2.0**-33
# So many groups, or so many places, are looked at together.
_MAX_GROUPS, _MAX_PLACES = 1 << 13, 1 << 17
# What is computed in 64 bits is smaller.
_WORD = 1 << 60


@dataclass(frozen=True, repr=False)
class Target(Spelled):
    """A target of quantile choice: the position where counts reach a share of the total plus a shift.

    Args:
        rank: the share, from 0 to 1, taken exactly.
        shift: a fixed number of steps, which may be negative.
        spread: a number of steps, at least 0: all positions within this distance are equally near. If other
            targets are searched with it, a wide spread leaves them nearly as accurate as alone.
        within: whether the target is never below 0 nor above the total. One more count then increases
            distances by all of itself, instead of the larger of the share and the rest.
    Raises:
        ParameterError: a number is not finite, rank is not from 0 to 1, or spread is negative.
    Source:
        docs/proofs/joint_quantiles.md.

    >>> Target(Fraction(1, 2)).rank  # the median
    Fraction(1, 2)
    """

    rank: Fraction
    shift: Fraction = Fraction(0)
    spread: Fraction = Fraction(0)
    within: bool = False

    def __post_init__(self) -> None:
        for name in ("rank", "shift", "spread"):
            object.__setattr__(self, name, as_fraction(getattr(self, name), name))
        if not 0 <= self.rank <= 1:
            raise ParameterError("rank", self.rank, "from 0 to 1")
        if self.spread < 0:
            raise ParameterError("spread", self.spread, "at least 0")

    @property
    def moves(self) -> tuple[Fraction, Fraction]:
        """The largest decrease and increase of a position's distance to the target by one more count."""
        most = max(self.rank, 1 - self.rank)
        return most, Fraction(1) if self.within else most


@suggest_arguments
def joint_quantiles(
    scale: Number, lattice: Lattice, targets: Sequence[Target], *, name: str, keys: Iterable[Hashable]
) -> Measurement:
    """Choose a position for each quantile target with one draw, near where the counts reach it.

    The distance of a position from a target is measured in counts: the target minus the count at and before
    it, or the count before it minus the target, or 0 between the two, each minus the target's spread.
    Positions are chosen with probability proportional to e^(-d / scale) times their weights, where d is the
    largest of their distances. Round numbers weigh more than others (`BaseMeasure`).

    Args:
        scale: a number greater than 0, in steps.
        lattice: the possible positions.
        targets: from 1 to 64 targets.
        name: the coordinate of the counts, as in `Leaves`.
        keys: the groups to show, public or chosen privately; each gets its own choice.
    Returns:
        A Measurement of integers by group to pure DP: for each key the positions, in the order of the
        targets. Its metric is the L1 distance of the counts. Its map is 2 max(rank, 1 - rank) distance /
        scale, for the rank with which that is largest, or (1 + max(rank, 1 - rank)) distance / scale for a
        target that is `within`. The number of targets does not add to the cost.
    Raises:
        ParameterError: a parameter is not valid; the error names it.

    >>> from sfumato.transformations import Lattice
    >>> lattice = Lattice(0.0, 30.0, whole=True)
    >>> median = joint_quantiles(2, lattice, [Target(Fraction(1, 2))], name="x.leaves", keys=["a"])
    >>> counts = {("x.leaves", 3): 10**6, ("x.leaves", 4): 10**7, ("x.leaves", 9): 10**6}
    >>> median({"a": counts}), median.map(1)
    ({'a': (4,)}, Fraction(1, 2))

    Source:
        McSherry and Talwar 2007; Smith 2011, "Privacy-preserving statistical estimation with optimal
        convergence rates"; the largest of several distances is ours. Proof: docs/proofs/joint_quantiles.md.
    """
    choice = QuantileChoice(positive(scale, "scale"), lattice, tuple(targets))
    shown = tuple(keys)

    def function(groups: Mapping[Any, Mapping[Any, int]]) -> dict[Any, tuple[int, ...]]:
        empty: dict[Any, int] = {}
        found = {}
        for key in shown:
            own = groups.get(key, empty)
            # Elsewhere, or negative, are no counts of values; leaving them out brings no two inputs apart.
            counts = {k[1]: n for k, n in own.items() if n > 0 and lattice.first <= k[1] <= lattice.last}
            found[key] = choice.draw(*placed(counts))
        return found

    metric = L1Distance(((name, Fraction(1)),))
    reach = Linear(choice.loss)
    return Measurement("joint_quantiles", GroupedIntegers((name,)), metric, PureDP(), function, reach)


@dataclass(frozen=True, repr=False)
class QuantileChoice(Spelled):
    """How quantiles are chosen in one group: targets, places, and the rate of the exponential mechanism.

    Args:
        scale, lattice, targets: as of `joint_quantiles`.
    """

    scale: Fraction
    lattice: Lattice
    targets: tuple[Target, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.targets) <= MAX_TARGETS:
            raise ParameterError("targets", len(self.targets), f"from 1 to {MAX_TARGETS}")

    @property
    def loss(self) -> Fraction:
        """The pure epsilon of the quantile choice, where counts differ by 1 in all."""
        moves = [t.moves for t in self.targets]
        return (max(less for less, _ in moves) + max(more for _, more in moves)) / self.scale

    @cached_property
    def unit(self) -> int:
        """The unit, in parts of a step, in which distances of places to quantile targets are whole."""
        return math.lcm(*(x.denominator for t in self.targets for x in (t.rank, t.shift, t.spread)))

    def draw(
        self, places: NDArray[np.int64], before: Integers, words: Words | None = None
    ) -> tuple[int, ...]:
        """Choose the quantiles of one group: a place for each target.

        Args:
            places: where there are values, rising, within the lattice.
            before: counts before each of them, and of all, in steps: 0 first, and rising.
            words: source of random words; None for this thread's secure words.
        """
        return tuple(self.draws(places, before, np.array([0, len(places)]), words)[0].tolist())

    def draws(
        self,
        places: NDArray[np.int64],
        before: Integers,
        offsets: NDArray[np.int64],
        words: Words | None = None,
    ) -> NDArray[np.int64]:
        """Choose the quantiles of several groups: for each group a place for each target.

        Args:
            places, words: as of `draw`; the places of all groups, one group after another.
            before: counts before each of them in all groups, and of all.
            offsets: where each group begins, and where the last one ends.
        """
        found, start = [np.empty((0, len(self.targets)), np.int64)], 0
        while start < len(offsets) - 1:
            stop = int(np.searchsorted(offsets, offsets[start] + _MAX_PLACES, "right")) - 1
            ends = offsets[start : max(min(stop, start + _MAX_GROUPS), start + 1) + 1]
            while len(ends) > 2 and not self._is_small(before[ends[0]], before[ends[-1]]):
                ends = ends[: len(ends) // 2 + 1]
            own = places[ends[0] : ends[-1]], before[ends[0] : ends[-1] + 1]
            found.append(self._drawn(*own, ends - ends[0], get_source(words)))
            start += len(ends) - 1
        return np.concatenate(found)

    def _drawn(
        self, places: NDArray[np.int64], before: Integers, offsets: NDArray[np.int64], words: Words
    ) -> NDArray[np.int64]:
        near, first = self.levels(places, before, self.near, offsets), words.take(len(offsets) - 1)
        index = near.decide(first)
        decided = index >= 0
        found = np.empty((len(index), len(self.targets)), np.int64)
        found[decided] = near.pick(index[decided], words)
        for group in np.flatnonzero(~decided).tolist():
            low, high = offsets[group], offsets[group + 1]
            found[group] = self._drawn_exactly(
                places[low:high], before[low : high + 1], int(first[group]), words
            )
        return found

    def _drawn_exactly(
        self, places: NDArray[np.int64], before: Integers, first: int, words: Words
    ) -> NDArray[np.int64]:
        """Choose the quantiles of one group where floats do not decide, or most weight is far."""
        far = self.levels(places, before, self.far)

        def cumulative(bits: int) -> tuple[Any, Any]:
            # Floats do not tell once in about 2^30 draws.
            return far.floats() if bits == 64 else self.levels(places, before).enclosures(bits)

        index = pick(cumulative, words, first)
        levels = far if index < len(far.distances) else self.levels(places, before)
        found: NDArray[np.int64] = levels.pick(np.array([index]), words)[0]
        return found

    def _is_small(self, first: Any, last: Any) -> bool:
        """Whether counts of quantile choice, from one to another, are computed in 64 bits."""
        return self.unit * (int(last) - int(first)) + self.farthest + 2 * max(self.near, self.far) < _WORD

    def levels(
        self,
        places: NDArray[np.int64],
        before: Integers,
        far: int | None = None,
        offsets: NDArray[np.int64] | None = None,
    ) -> Levels:
        """Return levels of quantile choice: distances of places to targets.

        Args:
            places, before: as of `draws`; `before` may begin with any number.
            far: leave out what is farther beyond the nearest, in `unit`s; None for nothing.
            offsets: as of `draws`; None for one group.
        """
        ends = np.array([0, len(places)]) if offsets is None else offsets
        small = self._is_small(before[0], before[-1])
        return _Counts(self, places, before if small else before.astype(object), ends).levels(far)

    @cached_property
    def base(self) -> BaseMeasure:
        """The base measure of the places for the quantile choice."""
        return BaseMeasure(self.lattice)

    @cached_property
    def farthest(self) -> int:
        """The largest shift of a quantile target, with its spread, in `unit`s."""
        return int(max(abs(t.shift) + t.spread for t in self.targets) * self.unit)

    @cached_property
    def near(self) -> int:
        """A distance beyond the nearest quantile place that is enough for evenly spread values.

        It is in `unit`s.

        The largest of m distances has a Gamma law of shape m then.
        """
        return math.ceil(self.scale * self.unit * (28 + 3 * len(self.targets)))

    @cached_property
    def far(self) -> int:
        """A distance, in `unit`s, beyond the nearest quantile place with less than e^-30 of the weight."""
        scales = 30 + len(self.targets) * math.log(self.base.total)
        return math.ceil(self.scale * self.unit * math.ceil(scales))


class _Counts:
    """Counts of places in several groups, one after another, and the quantile targets in each.

    Args:
        choice: what is looked for.
        places, before, offsets: as of `QuantileChoice.draws`; `before` may begin with any number.
    """

    def __init__(
        self,
        choice: QuantileChoice,
        places: NDArray[np.int64],
        before: Integers,
        offsets: NDArray[np.int64],
    ) -> None:
        self.choice, self.places = choice, np.append(places, choice.lattice.last)
        self.starts, self.stops = offsets[:-1], offsets[1:]
        self.before = (before - before[0]) * choice.unit
        totals = self.before[self.stops] - self.before[self.starts]
        goals = [self._goal(target, totals) for target in choice.targets]
        self.aims = [tuple(self.before[self.starts] + end for end in goal) for goal in goals]
        # Where counts reach a goal the distance is 0; it is larger where they cannot.
        self.nearest = np.max([np.maximum(np.maximum(-b, a - totals), 0) for a, b in goals], axis=0)

    def _goal(self, target: Target, totals: Integers) -> tuple[Integers, Integers]:
        """Return from which to which count places are at a quantile target, in each group."""
        share = target.rank.numerator * (totals // target.rank.denominator)
        unit = self.choice.unit
        low, high = (share + int((target.shift + end) * unit) for end in (-target.spread, target.spread))
        if target.within:
            low, high = (np.minimum(np.maximum(end, 0), totals) for end in (low, high))
        return low, high

    def levels(self, far: int | None) -> Levels:
        """Return the levels of quantile choice by these counts; `far` as of `QuantileChoice.levels`."""
        group, distances = self._distances(far)
        ends = tuple(self._ends(aim, group, distances) for aim in self.aims)
        rate = 1 / (self.choice.scale * self.choice.unit)
        offsets = np.searchsorted(group, np.arange(len(self.starts) + 1))
        return Levels(distances, rate, ends, self.choice.base, offsets, self._log_left(far, rate))

    def _distances(self, far: int | None) -> tuple[NDArray[np.int64], Integers]:
        """Return the distances of places to quantile targets in each group, rising, and their groups."""
        groups = np.arange(len(self.starts))
        owners, found = [groups], [self.nearest]
        for least, most in self.aims:
            low, high = self.starts, self.stops + 1
            if far is not None:
                low = np.maximum(np.searchsorted(self.before, least - self.nearest - far), low)
                high = np.minimum(np.searchsorted(self.before, most + self.nearest + far, "right"), high)
            counts = np.maximum(high - low, 0)
            own = np.repeat(groups, counts)
            at = np.arange(len(own)) + np.repeat(low - np.cumsum(counts) + counts, counts)
            away = np.maximum(least[own] - self.before[at], self.before[at] - most[own])
            beyond = away > self.nearest[own]
            owners.append(own[beyond])
            found.append(away[beyond])
        group, distances = np.concatenate(owners), np.concatenate(found)
        # One integer for both is sorted ten times as fast as two, or as `np.unique` does.
        width = int(distances.max()).bit_length()
        key = (group if width + len(groups).bit_length() < 63 else group.astype(object)) << width | distances
        key = np.sort(key)
        key = key[np.append(True, key[1:] != key[:-1])]
        group = (key >> width).astype(np.int64)
        return group, key & ((1 << width) - 1)

    def _ends(
        self, aim: tuple[Integers, Integers], group: NDArray[np.int64], distances: Integers
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first and the last place within each distance of a quantile target."""
        # Places up to which counts are too few, or before which they are too many, are farther.
        low = np.searchsorted(self.before, aim[0][group] - distances)
        high = np.searchsorted(self.before, aim[1][group] + distances, "right") - 1
        lattice = self.choice.lattice
        return (
            np.where(low > self.starts[group], self.places[low - 1], lattice.first),
            np.where(
                high < self.stops[group], self.places[np.minimum(high, len(self.places) - 1)], lattice.last
            ),
        )

    def _log_left(self, far: int | None, rate: Fraction) -> NDArray[np.float64]:
        """Return the log of a bound of the weight that levels leave out in each group.

        See docs/proofs/joint_quantiles.md.
        """
        groups = np.arange(len(self.starts))
        if far is None:
            return np.full(len(groups), -math.inf)
        base, steps = self.choice.base, float(far * rate)
        wide = [self._ends(aim, groups, self.nearest + 2 * far) for aim in self.aims]
        upto = sum(np.log(base.between(low, high).astype(float)) for low, high in wide)
        found: NDArray[np.float64] = np.logaddexp(
            upto - steps, len(self.aims) * math.log(base.total) - 2 * steps
        )
        return found


def placed(counts: Mapping[int, int]) -> tuple[NDArray[np.int64], Integers]:
    """Return quantile places that have counts, rising, and the counts before each of them and of all."""
    places = sorted(counts)
    before = [0, *accumulate(counts[place] for place in places)]
    return np.array(places, np.int64), np.array(before, np.int64 if before[-1] < 2**62 else object)
