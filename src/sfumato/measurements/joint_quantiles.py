"""Quantiles by the exponential mechanism: several ranks in one choice, drawn exactly."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fraction, positive
from sfumato.exact.directed import exp_bounds
from sfumato.framework import GroupedIntegers, L1Distance, Linear, Measurement, PureDP
from sfumato.measurements.coins import uniform_below
from sfumato.noise import Words
from sfumato.noise.bernoulli import pick
from sfumato.transformations.lattice import Lattice

MOST_TARGETS = 64
# NumPy's exp, expm1 and log are taken to be right to this part of what they return.
_ELEMENTARY = 2.0**-45
# The largest part of the weight that floats may leave out.
_LEFT = 2.0**-33
# So many groups are looked at together.
_TOGETHER = 256

Integers = NDArray[Any]  # int64, or Python's integers where these do not suffice


@dataclass(frozen=True)
class Target:
    """What is looked for: the place where counts reach a share of all, and a fixed number more or less.

    Args:
        rank: the share, from 0 to 1, taken exactly.
        shift: in steps; may be negative.
    """

    rank: Fraction
    shift: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rank", as_fraction(self.rank, "rank"))
        object.__setattr__(self, "shift", as_fraction(self.shift, "shift"))
        if not 0 <= self.rank <= 1:
            raise ParameterError("rank", self.rank, "from 0 to 1")


def joint_quantiles(
    scale: Number, lattice: Lattice, targets: Sequence[Target], *, name: str, keys: Iterable[Hashable]
) -> Measurement:
    """Choose a place for each target, all with one draw: near where the counts reach it.

    A place is as far from a target as counts are: the target less the count at and before it, or the
    count before it less the target, or 0 between the two. Places are chosen with a probability
    proportional to e^(-d / scale), where d is the largest of their distances.

    Args:
        scale: number greater than 0, in steps.
        lattice: the places.
        targets: at least one, at most 64.
        name: the coordinate of the counts, as of `Leaves`.
        keys: the groups to show, public or chosen privately; each gets a choice of its own.
    Returns:
        A Measurement of integers by group to pure DP: for each key the places, in the order of the targets.
        Its metric is the L1 distance of the counts; its map is 2 max(rank, 1 - rank) distance / scale, for
        the rank with which that is largest. However many targets there are, they cost no more.
    Raises:
        ParameterError: a parameter is not admissible; the error names it.

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


@dataclass(frozen=True)
class QuantileChoice:
    """How places are chosen in one group.

    Args:
        scale, lattice, targets: as of `joint_quantiles`.
    """

    scale: Fraction
    lattice: Lattice
    targets: tuple[Target, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.targets) <= MOST_TARGETS:
            raise ParameterError("targets", len(self.targets), f"from 1 to {MOST_TARGETS}")

    @property
    def loss(self) -> Fraction:
        """Epsilon where counts differ by 1 in all."""
        return 2 * max(max(t.rank, 1 - t.rank) for t in self.targets) / self.scale

    @cached_property
    def unit(self) -> int:
        """The parts of a step in which all distances are whole numbers."""
        return math.lcm(*(d for t in self.targets for d in (t.rank.denominator, t.shift.denominator)))

    def draw(
        self, places: NDArray[np.int64], before: Integers, words: Words | None = None
    ) -> tuple[int, ...]:
        """Choose a place for each target, in one group.

        Args:
            places: where there are values, rising, within the lattice.
            before: counts before each of them, and of all, in steps: 0 first, and rising.
            words: source of random words; None for this thread's secure words.
        """
        return next(self.draws(places, before, np.array([0, len(places)]), words))

    def draws(
        self,
        places: NDArray[np.int64],
        before: Integers,
        offsets: NDArray[np.int64],
        words: Words | None = None,
    ) -> Iterator[tuple[int, ...]]:
        """Choose a place for each target in each of several groups, one after another.

        Args:
            places, words: as of `draw`; the places of all groups, one group after another.
            before: counts before each of them in all groups, and of all.
            offsets: where each group begins, and where the last one ends.
        """
        for some in range(0, len(offsets) - 1, _TOGETHER):
            ends = offsets[some : some + _TOGETHER + 1]
            inside = places[ends[0] : ends[-1]], before[ends[0] : ends[-1] + 1], ends - ends[0]
            for group, near in enumerate(Levels.of_groups(self, *inside, self.near)):
                own = places[ends[group] : ends[group + 1]], before[ends[group] : ends[group + 1] + 1]
                # Where few places are near, and many far, these weigh more.
                yield self._drawn(near if near.left < _LEFT else Levels.of(self, *own, self.far), *own, words)

    def _drawn(
        self, near: Levels, places: NDArray[np.int64], before: Integers, words: Words | None
    ) -> tuple[int, ...]:
        def cumulative(bits: int) -> tuple[Any, Any]:
            # Floats do not tell once in about 2^30 draws.
            return near.floats() if bits == 64 else Levels.of(self, places, before).enclosures(bits)

        index = pick(cumulative, words)
        levels = near if index < len(near.distances) else Levels.of(self, places, before)
        return tuple(low + below(high - low + 1, words) for low, high in levels.level(index))

    @cached_property
    def farthest(self) -> int:
        """The largest shift of a target, in `unit`s."""
        return int(max(abs(t.shift) for t in self.targets) * self.unit)

    @cached_property
    def near(self) -> int:
        """A distance beyond the nearest, in `unit`s, that is enough where values are spread evenly.

        The largest of m distances has a Gamma law of shape m then.
        """
        return math.ceil(self.scale * self.unit * (28 + 3 * len(self.targets)))

    @cached_property
    def far(self) -> int:
        """A distance beyond the nearest, in `unit`s, that is always enough: less than e^-30 lies behind."""
        scales = 30 + len(self.targets) * math.log(self.lattice.count)
        return math.ceil(self.scale * self.unit * math.ceil(scales))


@dataclass(frozen=True)
class Levels:
    """The distances that places have, and which places are within each: from one place to another.

    e^(-d/b) is the integral of e^(-y/b)/b over all y >= d. So y is drawn first, by how many choices are
    within it, and then each target's place, uniformly among those within y, independently.

    Args:
        distances: rising, in `unit`s: among them is the largest distance of each choice.
        rate: 1/scale, per unit.
        ends: for each target the first and the last place within each distance.
        log_left: log of a bound of what all choices that are left out weigh, where the nearest weigh 1 each.
    """

    distances: Integers
    rate: Fraction
    ends: tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]
    log_left: float = -math.inf

    @classmethod
    def of(
        cls, choice: QuantileChoice, places: NDArray[np.int64], before: Integers, far: int | None = None
    ) -> Levels:
        """Measure the places of a group.

        Args:
            choice: what is looked for.
            places, before: as of `QuantileChoice.draw`; `before` may begin with any number.
            far: leave out what is farther beyond the nearest, in `unit`s; None for nothing.
        """
        return cls.of_groups(choice, places, before, np.array([0, len(places)]), far)[0]

    @classmethod
    def of_groups(
        cls,
        choice: QuantileChoice,
        places: NDArray[np.int64],
        before: Integers,
        offsets: NDArray[np.int64],
        far: int | None = None,
    ) -> list[Levels]:
        """Measure the places of several groups; args: as of `of` and of `QuantileChoice.draws`."""
        groups, lattice = len(offsets) - 1, choice.lattice
        # What is computed is below this in size, and a distance with its group's number is one integer.
        most = choice.unit * (int(before[-1]) - int(before[0])) + choice.farthest + 2 * (far or 0)
        width = (4 * most).bit_length()
        if groups > 1 and width + groups.bit_length() > 62:
            runs = pairwise(offsets.tolist())
            return [cls.of(choice, places[a:b], before[a : b + 1], far) for a, b in runs]
        before = ((before if width <= 62 else before.astype(object)) - before[0]) * choice.unit
        starts, stops = offsets[:-1], offsets[1:]
        totals = before[stops] - before[starts]
        goals = [
            t.rank.numerator * (totals // t.rank.denominator) + int(t.shift * choice.unit)
            for t in choice.targets
        ]
        # Where counts reach a goal the distance is 0; it is larger where they cannot.
        nearest = np.max([np.maximum(np.maximum(-goal, goal - totals), 0) for goal in goals], axis=0)
        numbers = np.arange(groups) << width if groups > 1 else np.zeros(1, np.int64)
        keys, aims = [numbers + nearest], [before[starts] + goal for goal in goals]
        for aim in aims:
            low, high = starts, stops + 1
            if far is not None:
                low = np.maximum(np.searchsorted(before, aim - nearest - far), low)
                high = np.minimum(np.searchsorted(before, aim + nearest + far, "right"), high)
            counts = np.maximum(high - low, 0)
            own = np.repeat(np.arange(groups), counts)
            at = np.arange(len(own)) + np.repeat(low - np.cumsum(counts) + counts, counts)
            away = abs(before[at] - aim[own])
            keys.append((numbers[own] + away)[away > nearest[own]])
        key = np.sort(np.concatenate(keys))  # `np.unique` takes ten times as long
        key = key[np.append(True, key[1:] != key[:-1])]
        group = key >> width if groups > 1 else np.zeros(len(key), np.int64)
        distances = key - numbers[group]
        padded = np.append(places, lattice.last)

        def ends(aim: Integers, group: NDArray[np.int64], distances: Integers) -> list[NDArray[np.int64]]:
            # Places up to which counts are too few, or before which they are too many, are farther.
            low = np.searchsorted(before, aim[group] - distances)
            high = np.searchsorted(before, aim[group] + distances, "right") - 1
            return [
                np.where(low > starts[group], padded[low - 1], lattice.first),
                np.where(high < stops[group], padded[np.minimum(high, len(places))], lattice.last),
            ]

        of_targets = [ends(aim, group, distances) for aim in aims]
        rate = 1 / (choice.scale * choice.unit)
        left = np.full(groups, -math.inf)
        if far is not None:
            wide = [ends(aim, np.arange(groups), nearest + 2 * far) for aim in aims]
            upto = sum(np.log((high - low + 1).astype(float)) for low, high in wide)
            steps = float(far * rate)
            left = np.logaddexp(upto - steps, len(aims) * math.log(lattice.count) - 2 * steps)
        return [
            cls(
                distances[a:b],
                rate,
                tuple((low[a:b], high[a:b]) for low, high in of_targets),
                float(log_left),
            )
            for (a, b), log_left in zip(
                pairwise(np.searchsorted(group, np.arange(groups + 1))), left, strict=True
            )
        ]

    @property
    def within(self) -> Iterator[NDArray[np.int64]]:
        """For each target, how many of its places are within each distance."""
        return (high - low + 1 for low, high in self.ends)

    def level(self, index: int) -> list[tuple[int, int]]:
        """Return for each target the first and the last place within a distance."""
        return [(int(low[index]), int(high[index])) for low, high in self.ends]

    @cached_property
    def _weights(self) -> tuple[NDArray[np.float64], float]:
        """The weight of each distance, the largest of about 1, and the log of what they were divided by.

        Between two distances e^(-y/b) has the integral e^(-first/b) - e^(-second/b), which counts for each
        choice that is within the first.
        """
        rate = float(self.rate)
        near = (self.distances - self.distances[0]).astype(float) * rate
        steps = np.append(np.diff(self.distances).astype(float) * rate, np.inf)
        powers = sum(np.log(count.astype(float)) for count in self.within) - near
        largest = float(powers.max())
        return np.exp(powers - largest) * -np.expm1(-steps), largest

    @property
    def left(self) -> float:
        """A bound of the part of all weight that is left out."""
        weights, largest = self._weights
        return float(2 * np.exp(min(self.log_left - largest, 0.0)) / weights.sum())

    def floats(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return bounds of the probabilities that y is below each distance but the first, and in all."""
        sums = np.cumsum(self._weights[0])
        sums /= sums[-1]
        most = 42 * len(self.ends) + 30  # of a power, and of what it is made of
        each = 2 * most * _ELEMENTARY + (len(self.ends) + 8) * most * 2.0**-53 + 4 * _ELEMENTARY
        error, left = 2 * each + len(sums) * 2.0**-51, 2 * self.left
        # Behind the last low bound floats do not tell, as they do not know what is farther.
        return sums * (1 - error) - left, np.append(np.minimum(sums * (1 + error) + left, 1.0)[:-1], 1.0)

    def enclosures(self, bits: int) -> tuple[list[Fraction], list[Fraction]]:
        """Return the same bounds, about 2^-bits apart; where no place was left out."""
        bits += 64
        near = [self.rate * int(d - self.distances[0]) for d in self.distances.tolist()]
        bounds = [exp_bounds(-x, bits) if x <= bits else (Fraction(0), Fraction(1, 1 << bits)) for x in near]
        bounds.append((Fraction(0), Fraction(0)))
        counts = [math.prod(own) for own in zip(*(w.tolist() for w in self.within), strict=True)]
        between = list(zip(counts, pairwise(bounds), strict=True))
        least = [n * max(a[0] - b[1], Fraction(0)) for n, (a, b) in between]
        most = [n * (a[1] - b[0]) for n, (a, b) in between]
        lows, highs = list(accumulate(least)), list(accumulate(most))
        last = [Fraction(1)]
        return (
            [x / highs[-1] for x in lows[:-1]] + last,
            [min(x / lows[-1], last[0]) if lows[-1] else last[0] for x in highs[:-1]] + last,
        )


def placed(counts: Mapping[int, int]) -> tuple[NDArray[np.int64], Integers]:
    """Return places that have counts, rising, and the counts before each of them, and of all."""
    places = sorted(counts)
    before = [0, *accumulate(counts[place] for place in places)]
    return np.array(places, np.int64), np.array(before, np.int64 if before[-1] < 2**62 else object)


def below(bound: int, words: Words | None) -> int:
    """Return a uniform whole number from 0 to bound - 1."""
    return int(uniform_below(bound, 1, words)[0])
