"""Tolerances of quantiles: how far noise leads a walk down a tree, or a choice, from a group's rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact.root_finding import first_whole
from sfumato.exact.time_trees import Tree
from sfumato.noise import Laplace, Words
from sfumato.noise.noise_sums import laplaces_tolerance, log10_two_sided_tail, rounded_tolerance
from sfumato.plan.noisy_trees import EMPTY_DEVIATIONS, EMPTY_SHARE, LeafCounts, noisy_tree
from sfumato.testing.assertions.compared_values import is_number, is_whole
from sfumato.testing.assertions.output_tolerances import OutputTolerance
from sfumato.testing.tolerances.noise_tolerances import per_partition_k
from sfumato.transformations.statistics.quantile_counts import (
    BRANCHING,
    HEIGHT,
    LEAVES,
    Leaves,
    QuantileTree,
    ValueTree,
)

if TYPE_CHECKING:
    from sfumato.measurements.independent_noise import Law
    from sfumato.plan.quantile_candidates import Choice
    from sfumato.query.aggregates.quantile_aggregates import ChosenQuantile


NOISES = HEIGHT * BRANCHING
# What the float arithmetic of a walk does to a share between 0 and 1 on one level, on the safe side.
_SHARE_SLACK = Fraction(1, 2**50)
# The same for the comparison of a count with those below which a child looks empty.
_EMPTY_SLACK = 1 + Fraction(1, 2**40)
_EMPTY_SHARE = Fraction(EMPTY_SHARE) * _EMPTY_SLACK
# Beyond 2^53 steps floats do not hold each sum of 16 counts; they miss less than 2^-47 of it.
_SUM_BITS = 47
_VALUE_SLACK = 2.0**-49

Children = Callable[[int, int], list[int]]


@dataclass(frozen=True)
class Walk:
    """A quantile of a group by a tree, and the interval of values that a correct release may show for it.

    Args:
        counts: exact leaf counts of the group.
        law: the noise of a node's count, in steps.
        rank: from 0 to 1.
        lower, upper: the bounds.
    """

    counts: LeafCounts
    law: Law
    rank: float
    lower: float
    upper: float

    @cached_property
    def without_noise(self) -> float:
        """The quantile that the tree gives without noise."""
        found = noisy_tree(self.counts, _Noiseless(self.law), (self.rank,))  # type: ignore[arg-type]
        return self.lower + float(found.values[0, 0]) * (self.upper - self.lower)

    def ends(self, reach: int) -> tuple[float, float]:
        """Return the lowest and highest quantile while all noises of the walk are within +- reach.

        Args:
            reach: at least 0, in steps.
        """
        total = int(self.counts.before[-1])
        reach += (total + BRANCHING * reach) >> _SUM_BITS
        empty = Fraction(EMPTY_DEVIATIONS * self.law.standard_deviation) * _EMPTY_SLACK
        rank = Fraction(self.rank)
        low = _lowest(self._children, rank, reach, empty)
        high = 1 - _lowest(self._mirror, 1 - rank, reach, empty)
        lower, width = Fraction(self.lower), Fraction(self.upper) - Fraction(self.lower)
        slack = _VALUE_SLACK * (abs(self.lower) + abs(self.upper))
        return float(lower + low * width) - slack, float(lower + high * width) + slack

    def tolerance_for(self, actual: float, k: float) -> OutputTolerance:
        """Return the tolerance of a quantile from a tree, on the side of the released value.

        Args:
            actual: what the release shows.
            k: greater than 0.
        """
        each = math.nextafter(per_partition_k(k, NOISES), math.inf)
        reach = rounded_tolerance(self.law, each)
        low, high = self.ends(reach)
        truth = self.without_noise
        tolerance = high - truth if actual >= truth else truth - low
        off = abs(actual - truth) > tolerance
        return OutputTolerance(tolerance, self._log10_tail_bound(actual, reach) if off else 0.0)

    def _log10_tail_bound(self, actual: float, reach: int) -> float:
        """Return log10 of a bound of the probability of a quantile as far off beyond `reach`."""

        def explains(t: int) -> bool:
            low, high = self.ends(t)
            return low <= actual <= high

        # From here on every child may be empty, and more noise changes nothing.
        enough = max(int(self.counts.before[-1]), reach) + 1
        if not explains(enough):
            return -math.inf
        reach = first_whole(explains, reach, enough) - 1
        return min(0.0, log10_two_sided_tail(self.law, reach + 0.5) + math.log10(NOISES))

    def _children(self, level: int, node: int) -> list[int]:
        width = LEAVES // BRANCHING ** (level + 1)
        edges = (node * BRANCHING + np.arange(BRANCHING + 1, dtype=np.int64)) * width
        counts: list[int] = self.counts.between(edges).tolist()
        return counts

    def _mirror(self, level: int, node: int) -> list[int]:
        """Return a tree's children from right to left, for the highest end of a quantile's walk."""
        return self._children(level, BRANCHING**level - 1 - node)[::-1]


def leaf_counts(tree: QuantileTree, value: Any, name: str) -> LeafCounts:
    """Count a group's rows by the leaves of a quantile's tree.

    Args:
        tree: the statistic, which says in which leaf a value is.
        value: the group's values, one for each row that counts, where None and NaN count for nothing;
            or its exact leaf counts, as mappings of "leaf" and "weight" (in steps), as a recorder has them.
        name: of the argument, for messages.
    Raises:
        ParameterError: it is neither.
        AssertionError: a value is outside the bounds, which are thus not those that the test means.
    """
    steps: Counter[int] = Counter()
    for entry in _entries(value, name):
        if isinstance(entry, Mapping):
            leaf, weight = entry.get("leaf", -1), entry.get("weight", -1)
            if not (is_count(leaf) and leaf < LEAVES and is_count(weight)):
                raise ParameterError(name, entry, f'a leaf from 0 to {LEAVES - 1} with a "weight" in steps')
            steps[int(leaf)] += int(weight)
        elif (place := tree.leaf(entry)) is not None:
            _check_bounds(entry, tree.lower, tree.upper, name)
            steps[place] += 1 << -tree.exponent
    leaves = sorted(steps)
    before = np.cumsum([0, *(steps[leaf] for leaf in leaves)], dtype=np.int64)
    return LeafCounts(np.array(leaves, np.int64), before, 1)


VALUES = "the group's own values, one for each row that counts"


def is_count(value: Any) -> bool:
    """Whether the weight of a quantile's leaf is a whole number of at least 0."""
    return is_whole(value) and value >= 0


def _entries(value: Any, name: str) -> list[Any]:
    """Return a quantile's expected values or leaf counts as a list, and refuse all else."""
    for method in ("to_pylist", "tolist", "to_list"):
        if hasattr(value, method):
            value = getattr(value, method)()
            break
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise ParameterError(name, value, VALUES)
    entries = list(value)
    for entry in entries:
        if not (entry is None or isinstance(entry, (Mapping, bool)) or is_number(entry)):
            raise ParameterError(name, entry, VALUES)
    return entries


def _check_bounds(value: Any, lower: float, upper: float, name: str) -> None:
    """Raise where an expected value of a quantile is outside the release's bounds."""
    if not lower <= float(value) <= upper:
        raise AssertionError(
            f"{name} has the value {value}, but the release's bounds are [{lower:.10g}, "
            f"{upper:.10g}]. Clamp the values to the bounds first"
        )


def _lowest(children: Children, share: Fraction, reach: int, empty: Fraction) -> Fraction:
    """Return the lowest quantile of a walk, as a share of the range, while noises are within +- reach.

    Args:
        children: exact counts of a node's children, by level and node.
        share: the asked rank.
        reach: in steps.
        empty: a child with so many steps never looks empty.
    """
    node, nodes, found = 0, 1, Fraction(1)
    for level in range(HEIGHT):
        share = max(share - _SHARE_SLACK, Fraction(0))
        counts = children(level, node)
        if max(counts) <= reach:
            # The noise may leave no child: the value is then read inside the node.
            found = min(found, (node + share) / nodes)
            if reach == 0:
                return found
        child, share = _leftmost(*_box(counts, reach, empty), share)
        node, nodes = node * BRANCHING + child, nodes * BRANCHING
    return min(found, (node + share) / nodes)


def _box(counts: list[int], reach: int, empty: Fraction) -> tuple[list[int], list[int]]:
    """Return the smallest and largest weight of each child in a quantile's walk."""
    largest = [c + reach for c in counts]
    total = sum(largest)
    least = []
    for c, most in zip(counts, largest, strict=True):
        low = c - reach
        kept = low >= empty or (1 - _EMPTY_SHARE) * low >= _EMPTY_SHARE * (total - most)
        least.append(low if low > 0 and kept else 0)
    return least, largest


def _leftmost(least: list[int], largest: list[int], share: Fraction) -> tuple[int, Fraction]:
    """Return the leftmost child in which a quantile can lie, and the smallest share inside it.

    Args:
        least, largest: weights of each child; not all of the largest are 0.
        share: of the rows in the node.
    Source:
        docs/tolerances.md, "Quantiles", steps 2 and 3.
    """
    left, right, child = 0, sum(least) - least[0], 0
    while left + largest[child] == 0 or (1 - share) * (left + largest[child]) < share * right:
        left += largest[child]
        child += 1
        right -= least[child]
    lead: Fraction = share * right - (1 - share) * left
    return child, share + lead / (largest[child] if lead >= 0 else least[child])


class _Noiseless:
    """A law without noise but with its deviation, which decides what looks empty in a quantile's tree."""

    def __init__(self, law: Law) -> None:
        self.standard_deviation = law.standard_deviation

    def rounded(self, count: int, words: Words | None = None) -> NDArray[np.int64]:
        """Return zeros for a quantile's tree without noise."""
        return np.zeros(count, np.int64)


# A probability of 10^-MAX_K or less is none.
MAX_K = 300.0
_FLOATS = 2.0**-40  # of the rows of a group: what sums of floats lose at most


@dataclass(frozen=True)
class Ranked:
    """A quantile of a group from noisy counts of all values, and the values that a correct release may show.

    Args:
        upto: exact rows up to each value, in steps.
        tree: the blocks of values that have noise.
        law: the noise of a count, in steps.
        rank: from 0 to 1.
        lower: the smallest value.
    """

    upto: NDArray[np.int64]
    tree: Tree
    law: Law
    rank: float
    lower: float

    @classmethod
    def from_values(cls, tree: ValueTree, law: Law, rank: float, value: Any, name: str) -> Ranked:
        """Return the tolerance of a quantile of noisy counts, from a group's values.

        Args:
            tree, law, rank: the statistic, the noise of its counts, and the rank.
            value: the group's values, or exact counts of them, as for `leaf_counts`.
            name: of the argument, for messages.
        Raises:
            ParameterError, AssertionError: as of `leaf_counts`.
        """
        counts = np.zeros(tree.tree.steps, np.int64)
        for place, weight in _counts(tree, value, name).items():
            counts[place - tree.lattice.first] = weight
        return cls(np.cumsum(counts), tree.tree, law, rank, tree.lattice.lower)

    @cached_property
    def without_noise(self) -> float:
        """The quantile that the noisy counts give without noise."""
        return self._reached(np.zeros(len(self.upto)))[0]

    def ends(self, k: float) -> tuple[float, float]:
        """Return the lowest and highest quantile of noisy counts, but with probability 10^-k.

        Args:
            k: greater than 0.
        """
        tree, nodes = self.tree, sum(map(self.tree.nodes, range(self.tree.levels)))
        each = k + math.log10(tree.steps + 1)
        variances = np.append(tree.rank_variances(self.rank), tree.totals[0][-1])
        deviations = np.sqrt(variances)
        if isinstance(self.law, Laplace):
            scale = float(self.law.scale)
            # The largest weight of a noise in a cumulative count, and in the share of all.
            largest = np.append(tree.totals[1] + self.rank * tree.totals[1][-1], tree.totals[1][-1])
            reach = laplaces_tolerance(each, math.sqrt(2) * scale * deviations, scale * largest)
        else:
            reach = self.law.tolerance(each) * deviations
        reach = reach + deviations * math.sqrt(nodes) / 2  # rounding, by Cauchy and Schwarz
        total = float(self.upto[-1])
        # A noisy total below 0 is taken as 0.
        below = self.rank * max(float(reach[-1]) - total, 0.0)
        return self._reached(reach[:-1] + below + _FLOATS * (total + reach.max()))

    def _reached(self, reach: NDArray[np.float64]) -> tuple[float, float]:
        """Return the first and last place where sums may be least, with counts off by `reach` at most."""
        beyond = self.upto - self.rank * float(self.upto[-1])
        up, down = (np.append(0.0, np.cumsum((beyond + way * reach)[:-1])) for way in (1, -1))
        first = np.argmax(up <= np.minimum.accumulate(up[::-1])[::-1])
        last = len(down) - 1 - np.argmax((down <= np.minimum.accumulate(down))[::-1])
        return self.lower + float(first), self.lower + float(last)

    def tolerance_for(self, actual: float, k: float) -> OutputTolerance:
        """Return the tolerance of a quantile of noisy counts, on the side of the released value.

        Args:
            actual: what the release shows.
            k: greater than 0.
        """

        def explains(k: float) -> bool:
            low, high = self.ends(k)
            return low <= actual <= high

        low, high = self.ends(k)
        truth = self.without_noise
        tolerance = high - truth if actual >= truth else truth - low
        if low <= actual <= high:
            return OutputTolerance(tolerance, 0.0)
        least, most = k, MAX_K
        if not explains(most):
            return OutputTolerance(tolerance, -math.inf)
        while most - least > _CLOSE_K:
            middle = (least + most) / 2
            least, most = (least, middle) if explains(middle) else (middle, most)
        return OutputTolerance(tolerance, -least)


_CLOSE_K = 1 / 64
_LN10 = math.log(10)
# What floats may lose of the logarithm of a probability, of up to 64 counts of places, on the safe side.
_SLACK = 1e-6


@dataclass(frozen=True)
class Chosen:
    """A quantile of a group by choice, and the interval of values that a correct release may show for it.

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
    def from_choice(cls, choice: Choice, e: ChosenQuantile, value: Any, name: str) -> Chosen:
        """Return the tolerance of a quantile by choice, from a group's values.

        Args:
            choice: how the places are chosen.
            e: the output.
            value: the group's values, or exact counts of its places, as for `leaf_counts`.
            name: of the argument, for messages.
        Raises:
            ParameterError: `value` is neither.
            AssertionError: a value is outside the bounds, which are thus not those that the test means.
        """
        counts = _counts(choice.leaves, value, name)
        return cls(choice, e.at, choice.levels(counts), choice.nearest(e.at, counts))

    @cached_property
    def log10_tails(self) -> list[float]:
        """The log10 of bounds of the probability that a quantile's choices are each distance off, or more."""
        levels = self.levels
        near = (levels.distances - levels.distances[0]).astype(float) * float(levels.rate)
        with np.errstate(divide="ignore"):
            powers = sum(np.log(count.astype(float)) for count in levels.within) - near
            weights = powers + np.log(-np.expm1(-np.append(np.diff(near), np.inf)))
        tails = np.logaddexp.accumulate(weights[::-1])[::-1]
        found: list[float] = np.minimum((tails - tails[0] + _SLACK) / _LN10, 0.0).tolist()
        return found

    def ends(self, index: int) -> tuple[float, float]:
        """Return the lowest and highest quantile while no choice is farther off than a distance."""
        own = slice(self.at * self.choice.each, (self.at + 1) * self.choice.each)
        runs = self.levels.level(index)[own]
        ends = np.array([min(low for low, _ in runs), max(high for _, high in runs)])
        low, high = self.choice.leaves.lattice.decimals(ends).tolist()
        return low, high

    def tolerance_for(self, actual: float, k: float) -> OutputTolerance:
        """Return the tolerance of a quantile by choice, on the side of the released value.

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
            return OutputTolerance(tolerance, 0.0)
        while index < len(tails) and not self._explains(index, actual):
            index += 1
        return OutputTolerance(tolerance, tails[index] if index < len(tails) else -math.inf)

    def _explains(self, index: int, actual: float) -> bool:
        low, high = self.ends(index)
        return low <= actual <= high


def _counts(leaves: Leaves, given: Any, name: str) -> Counter[int]:
    lattice, exponent = leaves.lattice, leaves.exponent
    counts: Counter[int] = Counter()
    for entry in _entries(given, name):
        value, weight = entry, 1 << -exponent
        if isinstance(entry, Mapping):
            value, weight = entry.get("leaf"), entry.get("weight", -1)
            if not (is_number(value) and is_count(weight)):
                raise ParameterError(name, entry, 'the value of a place with a "weight" in steps')
        place = lattice.place(value)
        if place is not None:
            _check_bounds(value, lattice.lower, lattice.upper, name)
            counts[place] += int(weight)
    return +counts
