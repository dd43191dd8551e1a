"""Metrics: how far apart two values of a domain are: records, numbers, vectors, privacy units.

Distances are exact rationals, and `math.inf` where nothing leads from one value to the other. Where a
root is taken it is rounded *down* by 2^-128 relative, so that a distance is never overstated and no
claim is broken by rounding; maps, which must never understate, round their roots up.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.exact import root_down
from sfumato.framework.contribution_bodies import Body, Norm
from sfumato.framework.domains import (
    WHOLE,
    AtomDomain,
    CategoryDomain,
    ContributionDomain,
    Domain,
    GroupedIntegers,
    Part,
    ProductDomain,
    RowsDomain,
    TableDomain,
    VectorDomain,
)
from sfumato.framework.record_keys import group_key, record_key, records

Distance = Fraction | float  # a float only as math.inf


class Metric(ABC):
    """A metric: a distance on the domains that it admits.

    Examples are `AbsoluteDistance` and `SymmetricDistance`.

    >>> visits = VectorDomain(AtomDomain(int))  # of each person
    >>> SymmetricDistance().admits(visits), SymmetricDistance().distance([2, 5, 3], [2, 3])
    (True, Fraction(1, 1))
    >>> AbsoluteDistance().admits(visits), AbsoluteDistance().admits(visits.element)
    (False, True)
    """

    def _in_messages(self) -> str:
        return repr(self)

    @abstractmethod
    def admits(self, domain: Domain) -> bool:
        """Whether the metric measures all pairs of members of a domain.

        Args:
            domain: a domain.
        """

    @abstractmethod
    def distance(self, one: Any, other: Any) -> Distance:
        """Return the distance of two members of an admitted domain.

        Args:
            one, other: members of an admitted domain.
        Returns:
            An exact number, or infinity.
        """


def _has_records(domain: Domain) -> bool:
    """Whether all members of a domain are vectors or tables, which metrics of records take; NULL is none."""
    return isinstance(domain, TableDomain) or (isinstance(domain, VectorDomain) and not domain.null)


@dataclass(frozen=True)
class SymmetricDistance(Metric):
    """The number of records to add or remove, regardless of order.

    >>> SymmetricDistance().distance([1, 2, 2], [2, 3])
    Fraction(3, 1)
    """

    def admits(self, domain: Domain) -> bool:
        """Whether the metric's domain has vectors or tables."""
        return _has_records(domain)

    def distance(self, one: Sequence[Any], other: Sequence[Any]) -> Distance:
        """Return the size of the symmetric difference of two multisets of records."""
        a, b = records(one), records(other)
        return Fraction(sum(((a - b) + (b - a)).values()))


@dataclass(frozen=True)
class ChangeOneDistance(Metric):
    """The number of records to replace; infinite for vectors of different length.

    >>> ChangeOneDistance().distance([1, 2, 2], [2, 3, 1])
    Fraction(1, 1)
    """

    def admits(self, domain: Domain) -> bool:
        """Whether the metric's domain has vectors or tables."""
        return _has_records(domain)

    def distance(self, one: Sequence[Any], other: Sequence[Any]) -> Distance:
        """Return the number of records of one multiset that are not in the other."""
        if len(one) != len(other):
            return math.inf
        return Fraction(sum((records(one) - records(other)).values()))


@dataclass(frozen=True)
class AbsoluteDistance(Metric):
    """The absolute difference |one - other| of two numbers.

    >>> AbsoluteDistance().distance(0.5, 2)
    Fraction(3, 2)
    """

    def admits(self, domain: Domain) -> bool:
        """Whether the metric's domain has numbers that are neither NaN nor NULL."""
        return isinstance(domain, AtomDomain) and domain.is_number

    def distance(self, one: Any, other: Any) -> Distance:
        """Return the exact absolute difference of two numbers."""
        if one == other:
            return Fraction(0)
        if math.inf in (abs(one), abs(other)):
            return math.inf
        return abs(Fraction(one) - Fraction(other))


@dataclass(frozen=True)
class SpreadDistance(Metric):
    """The largest change of a number minus the smallest, which matters for choosing a candidate.

    Source:
        Bounded range: Dong, Durfee and Rogers 2020, "Optimal differential privacy composition for exponential
        mechanisms".

    >>> SpreadDistance().distance([1, 2, 3], [2, 3, 3])
    Fraction(1, 1)
    """

    def admits(self, domain: Domain) -> bool:
        """Whether the metric's domain has vectors of numbers that are neither NaN nor NULL."""
        return (
            isinstance(domain, VectorDomain) and not domain.null and AbsoluteDistance().admits(domain.element)
        )

    def distance(self, one: Sequence[Any], other: Sequence[Any]) -> Distance:
        """Return the exact spread of changes between two vectors."""
        if len(one) != len(other):
            return math.inf
        changes = [Fraction(b) - Fraction(a) for a, b in zip(one, other, strict=True)]
        return max(changes) - min(changes) if changes else Fraction(0)


@dataclass(frozen=True)
class OneSidedDistance(Metric):
    """The largest change of a group's integer if all changes have one direction; otherwise infinite.

    Source:
        As for `limited_top_k`, which needs it.

    >>> OneSidedDistance().distance({"a": {"n": 1}}, {"a": {"n": 2}, "b": {"n": 1}})
    Fraction(1, 1)
    """

    def admits(self, domain: Domain) -> bool:
        """Whether the metric's domain has integers by group, of one coordinate."""
        return isinstance(domain, GroupedIntegers) and len(domain.coordinates) == 1

    def distance(self, one: Mapping[Any, Any], other: Mapping[Any, Any]) -> Distance:
        """Return the exact one-sided distance."""
        empty: dict[Any, int] = {}
        changes = [Fraction(0)]
        for group in dict.fromkeys([*one, *other]):
            a, b = one.get(group, empty), other.get(group, empty)
            changes += [Fraction(b.get(n, 0)) - Fraction(a.get(n, 0)) for n in dict.fromkeys([*a, *b])]
        low, high = min(changes), max(changes)
        return math.inf if low < 0 < high else high - low


@dataclass(frozen=True)
class DiscreteDistance(Metric):
    """The discrete metric: 0 for equal values, 1 for different ones.

    >>> DiscreteDistance().distance("yes", "no")
    Fraction(1, 1)
    """

    def admits(self, domain: Domain) -> bool:
        """Whether the metric's domain has single values."""
        return isinstance(domain, (AtomDomain, CategoryDomain))

    def distance(self, one: Any, other: Any) -> Distance:
        """Return 0 for equal values, 1 for different ones."""
        return Fraction(record_key(one) != record_key(other))


@dataclass(frozen=True, repr=False)
class _Norm(Spelled, Metric):
    scales: tuple[tuple[str, Fraction], ...] = ()

    def admits(self, domain: Domain) -> bool:
        """Whether the metric's domain has numbers side by side; with scales, integers by group."""
        if isinstance(domain, GroupedIntegers):
            return tuple(name for name, _ in self.scales) == domain.coordinates
        number = AbsoluteDistance().admits
        if isinstance(domain, ProductDomain):
            return not self.scales and all(map(number, domain.parts))
        if not isinstance(domain, VectorDomain) or domain.null or self.scales:
            return False
        return number(domain.element)

    def differences(self, one: Any, other: Any) -> list[Distance]:
        """Return all |differences| of two values for a metric, each divided by its scale."""
        if isinstance(one, Mapping):
            return self._by_group(one, other)
        if len(one) != len(other):
            return [math.inf]
        return [AbsoluteDistance().distance(a, b) for a, b in zip(one, other, strict=True)]

    def _by_group(self, one: Mapping[Any, Any], other: Mapping[Any, Any]) -> list[Distance]:
        scales = dict(self.scales)
        found: list[Distance] = []
        for group in dict.fromkeys([*one, *other]):
            a, b = one.get(group, {}), other.get(group, {})
            for key in dict.fromkeys([*a, *b]):
                name = key if isinstance(key, str) else key[0]  # a node of a tree is (name, level, place)
                if by := a.get(key, 0) - b.get(key, 0):
                    found.append(abs(Fraction(by)) / scales[name])
        return found


@dataclass(frozen=True, repr=False)
class L1Distance(_Norm):
    """The L1 metric: the sum of absolute differences, each divided by its scale.

    Args:
        scales: empty for vectors; for integers by group, a pair (coordinate, scale in grid steps) for each.

    >>> L1Distance().distance([1, 2], [4, 0])
    Fraction(5, 1)
    """

    def distance(self, one: Any, other: Any) -> Distance:
        """Return the exact L1 distance."""
        return sum(self.differences(one, other), Fraction(0))


@dataclass(frozen=True, repr=False)
class L2Distance(_Norm):
    """The L2 metric: the root of the sum of squared differences, each divided by its scale.

    Args:
        scales: empty for vectors; for integers by group, a pair (coordinate, scale in grid steps) for each.

    >>> L2Distance().distance([1, 2], [4, 6])
    Fraction(5, 1)
    """

    def distance(self, one: Any, other: Any) -> Distance:
        """Return the L2 distance, rounded down if it is not rational."""
        parts = self.differences(one, other)
        return (
            math.inf if math.inf in parts else root_down(sum((Fraction(p) ** 2 for p in parts), Fraction(0)))
        )


@dataclass(frozen=True)
class ContributionDistance(Metric):
    """The number of units' contributions that lead from one value to the other, or a lower bound.

    Args:
        body: what one unit may add to each of its groups.
        groups: the most groups of a unit; 1 if the body covers all its groups together.
        scaled: whether a unit may be in more groups, with fractions that sum to at most `groups`.

    >>> from fractions import Fraction
    >>> from sfumato.framework import Segment
    >>> metric = ContributionDistance(Segment("rows", Fraction(2)), 3)
    >>> metric.distance({"a": {"rows": 5}}, {"b": {"rows": 1}})
    Fraction(5, 2)
    >>> metric.admits(GroupedIntegers(("rows",))), metric.admits(GroupedIntegers(("units",)))
    (True, False)

    Source:
        The norm whose unit ball is the sensitivity hull: Awan and Slavković 2021, "Structure and sensitivity
        in differential privacy".
    """

    body: Body
    groups: int
    scaled: bool = False

    def admits(self, domain: Domain) -> bool:
        """Whether the metric's domain has integers by group with the body's coordinates."""
        return isinstance(domain, GroupedIntegers) and domain.coordinates == self.body.names

    def distance(self, one: Mapping[Any, Any], other: Mapping[Any, Any]) -> Distance:
        """Return the largest number of contributions that any group and coordinate needs."""
        changed = [moved for group in dict.fromkeys([*one, *other]) if (moved := _moved(one, other, group))]
        bounds: list[Distance] = [
            Fraction(0 if self.scaled else len(changed), self.groups * self.body.groups)
        ]
        largest = dict(zip(self.body.names, self.body.linf_sensitivities, strict=True))
        bounds += [_share(size, largest[name]) for moved in changed for name, size in moved]
        for norm in Norm:
            split = self.body.split(norm)
            scales = dict(zip(self.body.names, split, strict=True))
            if not all(split):
                continue
            most = self.body.size(norm, split)
            sizes = [
                sum((_share(size, scales[name]) ** (1 if norm is Norm.L1 else 2) for name, size in moved))
                for moved in changed
            ]
            shares = [_share(size, most) for size in [*sizes, Fraction(sum(sizes)) / self.groups]]
            # With the L2 norm of one unit at most r in each of its groups, d units reach d r in one group
            # and d r root(groups) in all.
            bounds += shares if norm is Norm.L1 else [root_down(Fraction(share)) for share in shares]
        return max(bounds)


def _moved(one: Mapping[Any, Any], other: Mapping[Any, Any], group: Hashable) -> list[tuple[str, Fraction]]:
    """Return a group's numbers that differ, for a metric; a tree's node is (name, level, place)."""
    a, b = one.get(group, {}), other.get(group, {})
    moved = ((key, a.get(key, 0) - b.get(key, 0)) for key in dict.fromkeys([*a, *b]))
    return [(key if isinstance(key, str) else key[0], abs(Fraction(by))) for key, by in moved if by]


def _share(size: Distance, maximum: Fraction) -> Any:
    if maximum:
        return size / maximum
    return math.inf if size else Fraction(0)


@dataclass(frozen=True, repr=False)
class LInfDistance(_Norm):
    """The L-infinity metric: the largest absolute difference of two vectors of one length.

    >>> LInfDistance().distance([1, 2], [4, 6])
    Fraction(4, 1)
    """

    def distance(self, one: Any, other: Any) -> Distance:
        """Return the exact L-infinity distance."""
        return max(self.differences(one, other), default=Fraction(0))


@dataclass(frozen=True)
class ProductMetric(Metric):
    """The metric of products: the sum of the distances of their parts.

    Args:
        inner: the metric of each part.

    >>> ProductMetric(AbsoluteDistance()).distance((1, 2), (4, 0))
    Fraction(5, 1)

    Source:
        "Lipschitz sized variance for proportion CI", definition 1.
    """

    inner: Metric

    def admits(self, domain: Domain) -> bool:
        """Whether the metric's domain is a product whose every part the inner metric admits."""
        return isinstance(domain, ProductDomain) and all(map(self.inner.admits, domain.parts))

    def distance(self, one: Sequence[Any], other: Sequence[Any]) -> Distance:
        """Return the sum of the parts' distances."""
        parts = (self.inner.distance(a, b) for a, b in zip(one, other, strict=True))
        return sum(parts, Fraction(0))


@dataclass(frozen=True)
class PrivacyUnitDistance(Metric):
    """The number of privacy units whose rows are all added or removed.

    Args:
        groups: the most groups of a unit, or None for any number.
        rows: the most rows of a unit in a group, or None for any number.
        scaled: whether units are in any number of groups, with fractions that sum to at most `groups`.
        total: the most rows of a unit over all groups together, or None for any number.
        shared: whether units contribute fractions whose squares sum to at most 1.

    >>> from sfumato.transformations import Row
    >>> PrivacyUnitDistance().distance([Row(1, "a", {}), Row(1, "b", {})], [Row(2, "a", {})])
    Fraction(2, 1)
    >>> limited = PrivacyUnitDistance(groups=3, rows=5)  # of contributions with the same limits
    >>> limited.admits(ContributionDomain(groups=3, rows=5)), limited.admits(ContributionDomain(groups=4))
    (True, False)
    """

    groups: int | None = None
    rows: int | None = None
    scaled: bool = False
    total: int | None = None
    shared: bool = False

    def admits(self, domain: Domain) -> bool:
        """Whether the metric's domain has personal rows, or contributions with the same limits."""
        if isinstance(domain, ContributionDomain):
            limits = self.groups, self.rows, self.scaled, self.total, self.shared
            return (domain.groups, domain.rows, domain.scaled, domain.total, domain.shared) == limits
        return isinstance(domain, RowsDomain) and self.groups is self.rows is self.total is None

    def distance(self, one: Any, other: Any) -> Distance:
        """Return the number of units in only one of two tables; a changed unit counts as two."""
        if isinstance(one, Mapping):
            return self._contribution_distance(one, other)
        a, b = map(_by_unit, _drop_shared_rows(one, other))
        changed = sum(a[unit] != b[unit] for unit in a.keys() & b.keys())
        alone = a.keys() ^ b.keys()  # or changed: a unit that has more in one may have rows in both
        mine, theirs = ({record_key(row.unit) for row in rows} if alone else set() for rows in (one, other))
        return Fraction(len(alone) + len(alone & mine & theirs) + 2 * changed)

    def _contribution_distance(
        self, one: Mapping[Any, list[Any]], other: Mapping[Any, list[Any]]
    ) -> Distance:
        # Contributions carry no names: per group, units' rows that are in one alone. A unit that comes or
        # goes is in at most `groups` groups, in each once, or in parts that come to as many: at least so many
        # have come, and gone.
        one, other = _by_group_key(one), _by_group_key(other)
        groups = [_drop_shared_rows(one.get(g, []), other.get(g, [])) for g in dict.fromkeys([*one, *other])]
        contents = [(_by_content(a), _by_content(b)) for a, b in groups]
        return Fraction(self._gone([a - b for a, b in contents]) + self._gone([b - a for a, b in contents]))

    def _gone(self, groups: Iterable[Counter[Any]]) -> int:
        most = parts = rows = 0
        for moved in groups:
            most = max(most, moved.total())
            parts += sum(count * weight ** (1 + self.shared) for (_, weight), count in moved.items())
            rows += sum(count * sum(dict(content).values()) for (content, _), count in moved.items())
        whole = WHOLE**2 if self.shared else (self.groups or 1) * WHOLE
        fewest = max(most, -(-parts // whole))
        return fewest if self.total is None else max(fewest, -(-rows // self.total))


def _by_group_key(contributions: Mapping[Any, list[Any]]) -> dict[Hashable, list[Any]]:
    found: dict[Hashable, list[Any]] = {}
    for group, units in contributions.items():
        found.setdefault(group_key(group), []).extend(units)
    return found


def _drop_shared_rows(one: Sequence[Any], other: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Leave out of two tables' rows what is the same object in both, before their distance is counted."""
    common = Counter(map(id, one)) & Counter(map(id, other))

    def rest(units: Sequence[Any]) -> list[Any]:
        left, found = Counter(common), []
        for unit in units:
            if left[id(unit)] > 0:
                left[id(unit)] -= 1
            else:
                found.append(unit)
        return found

    return rest(one), rest(other)


def _by_content(units: Iterable[Any]) -> Counter[Any]:
    """Count units, for their distance, by what their rows are in any order, and how much counts."""
    parts = (unit if isinstance(unit, Part) else Part(unit, WHOLE) for unit in units)
    return Counter((frozenset(records(part.rows).items()), part.weight) for part in parts)


def _by_unit(rows: Iterable[Any]) -> dict[Any, Counter[Any]]:
    found: dict[Any, Counter[Any]] = {}
    for row in rows:
        if row.unit is not None:
            found.setdefault(record_key(row.unit), Counter())[record_key((row.key, row.values))] += 1
    return found
