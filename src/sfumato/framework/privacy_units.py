"""How many privacy units tables differ by, and what they contribute to groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.framework.domains import WHOLE, ContributionDomain, Domain, Part, RowsDomain
from sfumato.framework.metrics import Distance, Metric
from sfumato.framework.records import group_key, record_key, records


@dataclass(frozen=True)
class PrivacyUnitDistance(Metric):
    """The number of privacy units all of whose rows are added or removed.

    Args:
        groups: the most groups that a unit is in, or None for any number.
        rows: the most rows of a unit in a group, or None for any number.
        scaled: whether units are in any number of groups, with parts that come to `groups` whole ones.
        total: the most rows of a unit in all groups together, or None for any number.

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

    def admits(self, domain: Domain) -> bool:
        """Whether its members are personal rows without limits, or contributions with the same limits."""
        if isinstance(domain, ContributionDomain):
            limits = self.groups, self.rows, self.scaled, self.total
            return (domain.groups, domain.rows, domain.scaled, domain.total) == limits
        return isinstance(domain, RowsDomain) and self.groups is self.rows is self.total is None

    def distance(self, one: Any, other: Any) -> Distance:
        """Return the number of units that are in one of the two alone; a changed unit is two."""
        if isinstance(one, Mapping):
            return self._of_contributions(one, other)
        a, b = map(_by_unit, _apart(one, other))
        changed = sum(a[unit] != b[unit] for unit in a.keys() & b.keys())
        alone = a.keys() ^ b.keys()  # or changed: a unit that has more in one may have rows in both
        mine, theirs = ({record_key(row.unit) for row in rows} if alone else set() for rows in (one, other))
        return Fraction(len(alone) + len(alone & mine & theirs) + 2 * changed)

    def _of_contributions(self, one: Mapping[Any, list[Any]], other: Mapping[Any, list[Any]]) -> Distance:
        # Contributions carry no names: per group, units' rows that are in one alone. A unit that comes or
        # goes is in at most `groups` groups, in each once, or in parts that come to as many: at least so many
        # have come, and gone.
        one, other = _by_group_key(one), _by_group_key(other)
        groups = [_apart(one.get(g, []), other.get(g, [])) for g in dict.fromkeys([*one, *other])]
        contents = [(_by_content(a), _by_content(b)) for a, b in groups]
        return Fraction(self._gone([a - b for a, b in contents]) + self._gone([b - a for a, b in contents]))

    def _gone(self, groups: Iterable[Counter[Any]]) -> int:
        most = parts = rows = 0
        for moved in groups:
            most = max(most, moved.total())
            parts += sum(count * weight for (_, weight), count in moved.items())
            rows += sum(count * sum(dict(content).values()) for (content, _), count in moved.items())
        fewest = max(most, -(-parts // ((self.groups or 1) * WHOLE)))
        return fewest if self.total is None else max(fewest, -(-rows // self.total))


def _by_group_key(contributions: Mapping[Any, list[Any]]) -> dict[Hashable, list[Any]]:
    found: dict[Hashable, list[Any]] = {}
    for group, units in contributions.items():
        found.setdefault(group_key(group), []).extend(units)
    return found


def _apart(one: Sequence[Any], other: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Leave out of both what is the same object in both, which most of two neighbours is."""
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
    """Count units by what their rows are, in any order, and by how much of them counts."""
    parts = (unit if isinstance(unit, Part) else Part(unit, WHOLE) for unit in units)
    return Counter((frozenset(records(part.rows).items()), part.weight) for part in parts)


def _by_unit(rows: Iterable[Any]) -> dict[Any, Counter[Any]]:
    found: dict[Any, Counter[Any]] = {}
    for row in rows:
        if row.unit is not None:
            found.setdefault(record_key(row.unit), Counter())[record_key((row.key, row.values))] += 1
    return found
