"""Quantiles by the exponential mechanism: several ranks in one choice, drawn exactly."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
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
# Farther than so many scales beyond the nearest, all choices together have less than e^-30 of the weight.
_FAR = 30.0

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
            places = sorted(counts)
            before = [0, *accumulate(counts[place] for place in places)]
            found[key] = choice.draw(np.array(places, np.int64), integers(before))
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
        """Choose a place for each target.

        Args:
            places: where there are values, rising, within the lattice.
            before: counts before each of them, and of all, in steps: 0 first, and rising.
            words: source of random words; None for this thread's secure words.
        """
        near = Levels.of(self, places, before, self.far)

        def cumulative(bits: int) -> tuple[Any, Any]:
            # Floats do not tell once in about 2^30 draws.
            return near.floats() if bits == 64 else Levels.of(self, places, before).enclosures(bits)

        index = pick(cumulative, words)
        levels = near if index < len(near.distances) else Levels.of(self, places, before)
        return tuple(low + below(high - low + 1, words) for low, high in levels.level(index))

    @cached_property
    def far(self) -> int:
        """A distance beyond the nearest, in `unit`s, from which on floats do not look at choices."""
        scales = _FAR + len(self.targets) * math.log(self.lattice.count)
        return math.ceil(self.scale * self.unit * math.ceil(scales))


@dataclass(frozen=True)
class Levels:
    """The distances that places have, and which places are within each: from one place to another.

    e^(-d/b) is the integral of e^(-y/b)/b over all y >= d. So y is drawn first, by how many choices are
    within it, and then each target's place, uniformly among those within y, independently.

    Args:
        distances: rising, in `unit`s: the largest distance of a choice is one of them.
        rate: 1/scale, per unit.
        blocks: for each target the runs of places of equal distance: starts, sizes and distances.
        within: for each target how many of its places are within each distance.
    """

    distances: Integers
    rate: Fraction
    blocks: tuple[tuple[NDArray[np.int64], NDArray[np.int64], Integers], ...]
    within: tuple[NDArray[np.int64], ...]

    @classmethod
    def of(
        cls, choice: QuantileChoice, places: NDArray[np.int64], before: Integers, far: int | None = None
    ) -> Levels:
        """Measure the places of a group: those with values, and the gaps between them.

        Args:
            choice: what is looked for.
            places, before: as of `QuantileChoice.draw`.
            far: leave out what is farther beyond the nearest, in `unit`s; None for nothing.
        """
        unit, lattice, total = choice.unit, choice.lattice, int(before[-1])
        goals = [int((t.rank * total + t.shift) * unit) for t in choice.targets]
        # Where counts reach a goal the distance is 0; it is larger where they cannot.
        nearest = max(max(-goal, goal - total * unit, 0) for goal in goals)
        if max(nearest, total * unit, *map(abs, goals)) + (far or 0) >= 2**61:
            before = before.astype(object)
        before = before * unit
        blocks = []
        for goal in goals:
            first, last = 0, len(places)
            if far is not None:
                first = max(int(np.searchsorted(before, goal - nearest - far)) - 1, 0)
                last = min(int(np.searchsorted(before, goal + nearest + far, "right")), len(places))
            counts = before[first : last + 1]
            ends = lattice.first - 1, lattice.last + 1
            edges = np.empty(last - first + 2, np.int64)
            edges[0] = places[first - 1] if first else ends[0]
            edges[-1] = places[last] if last < len(places) else ends[1]
            edges[1:-1] = places[first:last]
            starts, sizes = np.empty((2, 2 * (last - first) + 1), np.int64)
            starts[::2], sizes[::2] = edges[:-1] + 1, np.diff(edges) - 1
            starts[1::2], sizes[1::2] = edges[1:-1], 1
            away = np.empty(len(starts), before.dtype)
            away[::2] = abs(counts - goal)
            away[1::2] = np.maximum(np.maximum(counts[:-1] - goal, goal - counts[1:]), 0)
            some = sizes > 0
            if far is not None:
                some &= away <= nearest + far
            blocks.append((starts[some], sizes[some], away[some]))
        distances = np.sort(np.concatenate([away[away >= nearest] for _, _, away in blocks]))
        distances = distances[np.append(True, distances[1:] != distances[:-1])]
        within = []
        for _, own, away in blocks:
            order = np.argsort(away, kind="stable")
            upto = np.cumsum(own[order])
            within.append(upto[np.searchsorted(away[order], distances, "right") - 1])
        return cls(distances, 1 / (choice.scale * unit), tuple(blocks), tuple(within))

    def level(self, index: int) -> list[tuple[int, int]]:
        """Return for each target the first and the last place within a distance."""
        most = self.distances[index]
        found = []
        for starts, sizes, away in self.blocks:
            near = np.flatnonzero(away <= most)
            last = near[-1]
            found.append((int(starts[near[0]]), int(starts[last] + sizes[last]) - 1))
        return found

    def floats(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return bounds of the probabilities that y is below each distance but the first, and in all.

        Between two distances e^(-y/b) has the integral e^(-first/b) - e^(-second/b), which counts for each
        choice that is within the first. The largest e^(-y/b) times a number of choices is at most the sum.
        """
        rate = float(self.rate)
        near = (self.distances - self.distances[0]).astype(float) * rate
        steps = np.append(np.diff(self.distances).astype(float) * rate, np.inf)
        powers = sum(np.log(count.astype(float)) for count in self.within) - near
        weights = np.exp(powers - powers.max()) * -np.expm1(-steps)
        sums = np.cumsum(weights)
        sums /= sums[-1]
        most = 42 * len(self.within) + _FAR  # of a power, and of what it is made of
        each = 2 * most * _ELEMENTARY + (len(self.within) + 8) * most * 2.0**-53 + 4 * _ELEMENTARY
        error, left = 2 * each + len(sums) * 2.0**-51, 4 * math.exp(-_FAR)
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


def integers(values: list[int]) -> Integers:
    """Return int64 where it holds them, else Python's integers."""
    return np.array(values, np.int64 if max(map(abs, values)) < 2**62 else object)


def below(bound: int, words: Words | None) -> int:
    """Return a uniform whole number from 0 to bound - 1."""
    return int(uniform_below(bound, 1, words)[0])
