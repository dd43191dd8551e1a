"""Group metrics: how far one unit moves the numbers of all groups, as noise on them together measures it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.errors import ParameterError
from sfumato.exact import root_down, whole_number
from sfumato.exact.rollup import Rollup
from sfumato.exact.time_trees import Toeplitz, Tree
from sfumato.framework.contribution_bodies import Body, ConeBody, CubeBody, Norm, Product
from sfumato.framework.domains import Domain, GroupedIntegers
from sfumato.framework.metrics import Distance, Metric


class GroupMetric(Metric):
    """A distance of integers by group, as joint noise on all groups measures it.

    Examples are `KNormDistance` and `LevelsDistance`.

    >>> from sfumato.framework import CentredDistance, ConeBody, KNormDistance, Segment
    >>> body = ConeBody(("rows",), (Fraction(2),))
    >>> metric = KNormDistance(body)
    >>> [metric.holds(Segment("rows", Fraction(most)), groups=3) for most in (2, 3)]
    [True, False]
    >>> centred = CentredDistance(body, (Fraction(2),), Fraction(4), Fraction(1, 2), keys=("a", "b", "c"))
    >>> centred.moved(body, groups=3)
    Fraction(13, 16)
    """

    names: tuple[str, ...]

    def admits(self, domain: Domain) -> bool:
        """Whether the metric measures a domain: integers by group with these coordinates."""
        return isinstance(domain, GroupedIntegers) and domain.coordinates == self.names

    def holds(self, body: Body, groups: int, by_rows: bool = False) -> bool:
        """Whether one unit moves by at most 1 in the metric.

        Args:
            body: what a unit may add to a group, or to all of its groups together.
            groups: the most groups of a unit.
            by_rows: whether a unit's contribution is the sum of its rows' contributions.
        """
        return body.groups == 1 and self.moved(body, groups) <= 1

    def moved(self, body: Body, groups: int) -> Fraction:
        """Return a bound on the distance that one unit moves in the metric, or on its square.

        Args:
            body: what a unit may add to a group.
            groups: the most groups of a unit.
        Returns:
            An exact number.
        """
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class KNormDistance(Spelled, GroupMetric):
    """The K-norm of groups: the smallest λ + μ such that λ contributions of a unit minus μ give the change.

    Args:
        body: what one unit may add to a group.
        groups: the most groups of a unit; None for all.
        apart: whether to measure each group separately and divide the sum over groups by `groups`: never
            more, and equal for one group. This is the norm of noise that is independent between groups.
    Raises:
        ParameterError: a parameter is out of range, or does not fit the others.

    >>> body = ConeBody(("rows",), (Fraction(1),))
    >>> change = {"a": {"rows": 1}, "b": {"rows": -1}}, {}
    >>> metrics = KNormDistance(body), KNormDistance(body, 1), KNormDistance(body, 2, apart=True)
    >>> [metric.distance(*change) for metric in metrics]
    [Fraction(2, 1), Fraction(2, 1), Fraction(1, 1)]

    Source:
        Hardt and Talwar 2010, "On the geometry of differential privacy"; Awan and Slavković 2021, "Structure
        and sensitivity in differential privacy". Proof of the formula: docs/proofs/k_norm.md.
    """

    body: ConeBody
    groups: int | None = None
    apart: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.body, CubeBody) and not self.apart:
            raise ParameterError("apart", self.apart, "True, for signed numbers alone")
        if self.groups is not None:
            whole_number(self.groups, "groups", 1)
        elif self.apart:
            raise ParameterError("groups", None, "the most groups of a unit, for groups measured separately")

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        """The coordinates of the group metric's K-norm body."""
        return self.body.names

    def holds(self, body: Body, groups: int, by_rows: bool = False) -> bool:
        """Whether one unit moves groups by at most 1 in the K-norm, according to the coordinates' bounds."""
        times = groups if body.groups == 1 else 1
        within = zip(body.linf_sensitivities, self.body.bounds, strict=False)
        known = (self.groups or times) >= times and all(most <= bound for most, bound in within)
        # Of rows in several groups each has its part of the norm; units have all of it in each group.
        return known and (body.groups == 1 or by_rows)

    def distance(self, one: Mapping[Any, Any], other: Mapping[Any, Any]) -> Distance:
        """Return the exact K-norm of the groups' change; infinite if a coordinate has no bound."""
        names, empty = self.body.names, dict[str, int]()
        vectors = []
        for group in dict.fromkeys([*one, *other]):
            a, b = one.get(group, empty), other.get(group, empty)
            if not {*a, *b} <= set(names):
                return math.inf
            vectors.append([a.get(name, 0) - b.get(name, 0) for name in names])
        return self.vector_norm(vectors)

    def vector_norm(self, vectors: Sequence[Sequence[int | Fraction]]) -> Fraction:
        """Return the K-norm of the groups' vectors.

        Args:
            vectors: for each group, a unit's contribution: a number for each coordinate, in grid steps.
        Returns:
            The exact norm.

        >>> body = ConeBody(("rows", "visits"), (Fraction(1), Fraction(30)))
        >>> KNormDistance(body).vector_norm([(1, 30), (-1, -12)])
        Fraction(2, 1)
        """
        return self.norm([self.body.sides(vector) for vector in vectors])

    def norm(self, sides: Sequence[tuple[Fraction, Fraction]]) -> Fraction:
        """Return the K-norm from the groups' `sides`.

        Args:
            sides: for each group, the pair from `ConeBody.sides`.
        Returns:
            The exact norm.

        >>> body = ConeBody(("rows", "visits"), (Fraction(1), Fraction(30)))
        >>> came, went = body.sides((1, 30)), body.sides((-1, -12))  # a row more in a group, a row less
        >>> KNormDistance(body).norm([came, came]), KNormDistance(body).norm([came, went])
        (Fraction(1, 1), Fraction(2, 1))
        >>> KNormDistance(body, groups=1).norm([came, came])  # of a unit that is in one group alone
        Fraction(2, 1)
        """
        if self.apart:
            return sum((a + b for a, b in sides), Fraction(0)) / (self.groups or 1)
        parts = list(zip(*sides, strict=True)) or [(Fraction(0),)]
        return sum((self._one_side(part) for part in parts), Fraction(0))

    def _one_side(self, part: Sequence[Fraction]) -> Fraction:
        largest = max(part)
        return largest if self.groups is None else max(largest, sum(part, Fraction(0)) / self.groups)


@dataclass(frozen=True, repr=False)
class CentredDistance(Spelled, GroupMetric):
    """The length of the groups' change, as measured by centred Gaussian noise with a common part.

    Each number has its own noise. Each count (of units, or of what they limit) also has the noise on the
    number of all units, multiplied by its bound and by `centre`, the same in all groups.

    Args:
        body: what one unit may add to a group.
        scales: for each coordinate the standard deviation of its own noise, in grid steps.
        total: the standard deviation of the noise on the number of all units.
        centre: the fraction of all units from which each count is measured, in [0, 1].
        keys: the groups to show, each once; noise is on these alone.
    Raises:
        ParameterError: a group occurs twice, or there is none; scales are not one above 0 for each
            coordinate; or centre is not from 0 to 1.

    >>> body = ConeBody(("n",), (Fraction(1),))
    >>> metric = CentredDistance(body, (Fraction(1),), Fraction(2), Fraction(1, 2), keys=("a", "b", "c"))
    >>> float(metric.distance({"a": {"n": 1}, "b": {"n": 1}}, {})), metric.moved(body, groups=3)
    (1.0, Fraction(1, 1))

    Source:
        Sherman and Morrison 1950, for the inverse. Proof: docs/proofs/centred_gaussian.md.
    """

    body: ConeBody
    scales: tuple[Fraction, ...]
    total: Fraction
    centre: Fraction
    keys: Sequence[Hashable]

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", tuple(self.keys))
        if not self.keys or len(set(self.keys)) < len(self.keys):
            raise ParameterError("keys", self.keys, "at least one group, and none twice")
        if len(self.scales) != len(self.body.bounds) or min(*self.scales, self.total) <= 0:
            raise ParameterError("scales", self.scales, "one above 0 for each coordinate and in total")
        if not 0 <= self.centre <= 1:
            raise ParameterError("centre", self.centre, "from 0 to 1")

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        """The coordinates of the centred metric's body."""
        return self.body.names

    @property
    def counts(self) -> int:
        """The number of leading coordinates that count a fraction of all units."""
        return 1 + self.body.units

    @property
    def common(self) -> tuple[Fraction, ...]:
        """For each coordinate, the standard deviation of the groups' common noise, in grid steps."""
        counted = [bound * self.centre * self.total for bound in self.body.bounds[: self.counts]]
        return (*counted, *[Fraction(0)] * self.body.signed)

    def distance(self, one: Mapping[Any, Any], other: Mapping[Any, Any]) -> Distance:
        """Return the groups' centred distance, rounded down if not rational; infinite if unknown."""
        names, empty = self.body.names, dict[str, int]()
        own, along = Fraction(0), Fraction(0)
        for group in self.keys:
            a, b = one.get(group, empty), other.get(group, empty)
            if not {*a, *b} <= set(names):
                return math.inf
            for name, scale, common in zip(names, self.scales, self.common, strict=True):
                by = a.get(name, 0) - b.get(name, 0)
                own += (by / scale) ** 2
                along += by * common / scale**2
        every = sum(((c / s) ** 2 for c, s in zip(self.common, self.scales, strict=True)), Fraction(0))
        return root_down(own - along**2 / (1 + len(self.keys) * every))

    def moved(self, body: Body, groups: int) -> Fraction:
        """Return a bound on the square of the distance that one unit moves in the centred metric.

        Args:
            body: what a unit may add to a group, part by part: the counts, and then the numbers that they
                limit.
            groups: the most groups of a unit.
        Returns:
            An exact number.
        Raises:
            ParameterError: a count is not a part of its own.
        """
        parts = Product(body.parts).of_parts(self.scales)
        counts, rest = parts[: self.counts], parts[self.counts :]
        if len(counts) < self.counts or any(len(part.names) > 1 for part, _ in counts):
            raise ParameterError("body", body, "one part for each count, and then the others")
        own = [part.size(Norm.L2, scale) for part, scale in counts]
        near, far = self.centre**2, (1 - self.centre) ** 2
        outside = near * sum(own, Fraction(0))
        inside = far * sum(own, Fraction(0)) + sum((p.size(Norm.L2, s) for p, s in rest), Fraction(0))
        if self.body.units:
            inside = max(inside, far * own[0] + near * own[1])
        return 1 / self.total**2 + len(self.keys) * outside + groups * max(inside - outside, Fraction(0))


@dataclass(frozen=True, repr=False)
class LevelsDistance(Spelled, GroupMetric):
    """The length of the change of groups and totals of all levels, each number divided by its scale.

    Args:
        names: the coordinates.
        scales: for each coordinate the standard deviation of noise at a level of size 1, in grid steps.
        sizes: for each level the factor on the scales of its noise; 0 if it is not measured. The first level,
            of the groups themselves, always is.
        rollup: the totals.
        keys: the groups, in the order of its cells.
    Raises:
        ParameterError: keys, scales or sizes are out of range, or are not one for each cell, coordinate or
            level.

    >>> from sfumato.exact.rollup import Rollup
    >>> rollup = Rollup(((0,), ()), (2,), ((0, 1), (0, 0)))
    >>> metric = LevelsDistance(("n",), (Fraction(1),), (Fraction(2), Fraction(4)), rollup, ("a", "b"))
    >>> metric.distance({"a": {"n": 4}, "b": {"n": -4}}, {}) ** 2 <= 8
    True
    >>> from sfumato.framework import Segment
    >>> one = Segment("n", Fraction(4))  # what a unit may add to a group
    >>> metric.moved(one, groups=1), metric.moved(one, groups=2)
    (Fraction(5, 1), Fraction(12, 1))

    Proof: docs/proofs/levels_gaussian.md.
    """

    names: tuple[str, ...]
    scales: tuple[Fraction, ...]
    sizes: tuple[Fraction, ...]
    rollup: Rollup
    keys: tuple[Hashable, ...]

    def __post_init__(self) -> None:
        if len(self.keys) != self.rollup.cells or len(set(self.keys)) < len(self.keys):
            raise ParameterError("keys", len(self.keys), "one for each cell, and none twice")
        if len(self.scales) != len(self.names) or not self.names or min(self.scales) <= 0:
            raise ParameterError("scales", self.scales, "one above 0 for each coordinate")
        if len(self.sizes) != len(self.rollup.sets) or min(self.sizes) < 0 or not self.sizes[0]:
            raise ParameterError("sizes", self.sizes, "one of at least 0 for each level, the first above 0")

    def distance(self, one: Mapping[Any, Any], other: Mapping[Any, Any]) -> Distance:
        """Return the distance of groups on all levels, rounded down if not rational, or infinite."""
        empty = dict[str, int]()
        pairs = [(one.get(key, empty), other.get(key, empty)) for key in self.keys]
        if any(not {*a, *b} <= set(self.names) for a, b in pairs):
            return math.inf
        length = Fraction(0)
        for codes, size in zip(self.rollup.levels, self.sizes, strict=True):
            for name, scale in zip(self.names, self.scales, strict=True) if size else ():
                totals = [0] * (max(codes) + 1)
                for code, (a, b) in zip(codes, pairs, strict=True):
                    totals[code] += a.get(name, 0) - b.get(name, 0)
                length += sum((t / (size * scale)) ** 2 for t in map(Fraction, totals))
        return root_down(length)

    def moved(self, body: Body, groups: int) -> Fraction:
        """Return a bound on the square of the distance that one unit moves groups on all levels.

        Args:
            body: what a unit may add to a group.
            groups: the most groups of a unit.
        Returns:
            An exact number.
        """
        return levels_moved(self.rollup, self.sizes, self.scales, body, groups)


def levels_moved(
    rollup: Rollup, sizes: Sequence[Fraction], scales: Sequence[Fraction], body: Body, groups: int
) -> Fraction:
    """Return a bound of the square of how far one unit moves groups and their totals on all levels.

    Args:
        rollup, sizes, scales: as of `LevelsDistance`.
        body, groups: what one unit may add to a group, and the most groups that it is in.
    """
    of_levels = (rollup.squares(i, groups) / s**2 for i, s in enumerate(sizes) if s)
    return sum(of_levels, Fraction(0)) * body.size(Norm.L2, scales)


@dataclass(frozen=True, repr=False)
class TimeStepsDistance(Spelled, GroupMetric):
    """A distance of numbers by time step, in one series or several.

    Examples are `SeriesDistance` and `TreeDistance`.

    Args:
        names: the coordinates.
        scales: for each coordinate the scale of its noise, in grid steps.
        factor: the sums of time steps that have noise.
        series: for each series its groups, in order of time.
    Raises:
        ParameterError: a group is in two series, a series does not have a group for each time step, or scales
            are not one above 0 for each coordinate.

    >>> from sfumato.exact.time_trees import Tree
    >>> from sfumato.framework import Segment, TreeDistance
    >>> metric = TreeDistance(("visits",), (Fraction(2),), Tree(3, (1, 2)), (("jan", "feb", "mar"),))
    >>> metric.admits(GroupedIntegers(("visits",))), metric.admits(GroupedIntegers(("hours",)))
    (True, False)
    >>> metric.changes({"jan": {"visits": 5}}, {"jan": {"visits": 4}, "mar": {"visits": 2}})
    [(Fraction(2, 1), [1, 0, -2])]
    >>> metric.moved(Segment("visits", Fraction(3)), groups=1)  # of a person with 3 visits in one month
    Fraction(3, 1)
    """

    names: tuple[str, ...]
    scales: tuple[Fraction, ...]
    factor: Any
    series: tuple[tuple[Hashable, ...], ...]

    def __post_init__(self) -> None:
        keys = [key for one in self.series for key in one]
        if not keys or len(set(keys)) < len(keys):
            raise ParameterError("series", len(keys), "at least one group, and none twice")
        if any(len(one) != self.factor.steps for one in self.series):
            raise ParameterError("series", len(self.series), f"of {self.factor.steps} steps each")
        if len(self.scales) != len(self.names) or not self.names or min(self.scales) <= 0:
            raise ParameterError("scales", self.scales, "one above 0 for each coordinate")

    def changes(
        self, one: Mapping[Any, Any], other: Mapping[Any, Any]
    ) -> list[tuple[Fraction, list[int]]] | None:
        """Return the changes of each series by coordinate and time step, each with its scale.

        It returns None if there are unknown coordinates.

        Args:
            one, other: integers by group, as for `distance`.
        Returns:
            The changes, or None.
        """
        empty, found = dict[str, int](), []
        for keys in self.series:
            pairs = [(one.get(key, empty), other.get(key, empty)) for key in keys]
            if any(not {*a, *b} <= set(self.names) for a, b in pairs):
                return None
            found += [
                (scale, [a.get(name, 0) - b.get(name, 0) for a, b in pairs])
                for name, scale in zip(self.names, self.scales, strict=True)
            ]
        return found


@dataclass(frozen=True, repr=False)
class SeriesDistance(TimeStepsDistance):
    """The length of the change of each series' running weighted sums, divided by the scales.

    Args:
        names: the coordinates.
        scales: for each coordinate the standard deviation of the noise on its running weighted sums, in grid
            steps.
        factor: the weights of these sums.
        series: for each series its groups, in order of time.

    >>> from sfumato.exact.time_trees import Toeplitz
    >>> factor = Toeplitz.from_power(Fraction(1, 2), 3)
    >>> metric = SeriesDistance(("n",), (Fraction(1),), factor, (("jan", "feb", "mar"),))
    >>> round(float(metric.distance({"jan": {"n": 1}}, {})) ** 2, 9), float(factor.squared_sum(1))
    (1.390625, 1.390625)
    >>> from sfumato.framework import Segment
    >>> one = Segment("n", Fraction(1))  # what a unit may add to a month
    >>> float(metric.moved(one, groups=1)), float(metric.moved(one, groups=2))
    (1.390625, 4.015625)

    Proof: docs/proofs/series_gaussian.md.
    """

    factor: Toeplitz

    def distance(self, one: Mapping[Any, Any], other: Mapping[Any, Any]) -> Distance:
        """Return the group metric of series, rounded down if not rational; infinite if unknown."""
        changes = self.changes(one, other)
        if changes is None:
            return math.inf
        length = Fraction(0)
        for scale, moved in changes:
            length += sum((s * s for s in self.factor.times([m / scale for m in moved])), Fraction(0))
        return root_down(length)

    def moved(self, body: Body, groups: int) -> Fraction:
        """Return a bound on the square of the distance that one unit moves the groups of series.

        Args:
            body: what a unit may add to a group.
            groups: the most groups of a unit.
        Returns:
            An exact number.
        """
        return series_moved(self.factor, self.scales, len(self.series), body, groups)


def series_moved(
    factor: Toeplitz, scales: Sequence[Fraction], series: int, body: Body, groups: int
) -> Fraction:
    """Return a bound of the square of how far one unit moves groups in running sums of time series.

    Args:
        factor, scales: as of `SeriesDistance`.
        series: how many there are.
        body, groups: what one unit may add to a group, and the most groups that it is in.
    """
    most = min(groups, factor.steps)
    if series == 1:
        columns = factor.squared_sum(most)
    else:
        # Its groups may be spread over several series, so many in each.
        columns = groups * max(factor.squared_sum(j) / j for j in range(1, most + 1))
    return columns * body.size(Norm.L2, scales)


@dataclass(frozen=True, repr=False)
class TreeDistance(TimeStepsDistance):
    """The sum of the changes of all blocks of each series' tree, each number divided by its scale.

    Args:
        names: the coordinates.
        scales: for each coordinate the scale of the noise on its blocks, in grid steps.
        factor: the blocks.
        series: for each series its groups, in order of time.

    >>> from sfumato.exact.time_trees import Tree
    >>> metric = TreeDistance(("n",), (Fraction(2),), Tree(3, (1, 2)), (("jan", "feb", "mar"),))
    >>> metric.distance({"jan": {"n": 1}}, {"feb": {"n": 1}})
    Fraction(1, 1)
    >>> from sfumato.framework import Segment
    >>> metric.moved(Segment("n", Fraction(1)), groups=2)  # two months, each in a block of both levels
    Fraction(2, 1)

    Proof: docs/proofs/tree_laplace.md.
    """

    factor: Tree

    def distance(self, one: Mapping[Any, Any], other: Mapping[Any, Any]) -> Distance:
        """Return the group metric of series by blocks of a tree; infinite if unknown."""
        changes = self.changes(one, other)
        if changes is None:
            return math.inf
        length = Fraction(0)
        for scale, moved in changes:
            blocks = (
                sum(moved[i : i + size]) for size in self.factor.sizes for i in range(0, len(moved), size)
            )
            length += sum(map(abs, blocks)) / scale
        return length

    def moved(self, body: Body, groups: int) -> Fraction:
        """Return a bound on the distance that one unit moves blocks; a group is in one block of each level.

        Args:
            body: what a unit may add to a group.
            groups: the most groups of a unit.
        Returns:
            An exact number.
        """
        return tree_moved(self.factor, self.scales, len(self.series), body, groups)


def tree_moved(factor: Tree, scales: Sequence[Fraction], series: int, body: Body, groups: int) -> Fraction:
    """Return a bound of how far one unit moves a tree's blocks: each group is in one of each level.

    Args:
        factor, scales: as of `TreeDistance`.
        series: how many there are.
        body, groups: what one unit may add to a group, and the most groups that it is in.
    """
    most = min(groups, factor.steps * series)
    return most * factor.levels * body.size(Norm.L1, scales)
