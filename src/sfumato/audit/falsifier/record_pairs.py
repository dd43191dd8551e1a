"""Pairs of neighbouring tables and record lists for the falsifier, and the choice of a kind of pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from sfumato.audit.falsifier.domain_members import (
    EACH,
    LENGTHS,
    LONGEST,
    Draw,
    draw_member,
    draw_neighbor,
    draw_pattern,
    draw_similar_record,
    draw_size,
    record,
)
from sfumato.audit.falsifier.number_pairs import (
    Coordinates,
    GroupedCoordinates,
    Numbers,
    Pairs,
    State,
    Values,
)
from sfumato.dataclass import dataclass
from sfumato.errors import QueryError
from sfumato.framework import PrivacyUnitDistance
from sfumato.framework.domains import (
    AtomDomain,
    ContributionDomain,
    Domain,
    GroupedIntegers,
    ProductDomain,
    Row,
    RowsDomain,
    TableDomain,
    VectorDomain,
)
from sfumato.framework.metrics import (
    AbsoluteDistance,
    ChangeOneDistance,
    DiscreteDistance,
    L1Distance,
    L2Distance,
    LInfDistance,
    Metric,
    ProductMetric,
    SymmetricDistance,
)

MAX_ROWS = 192  # of a unit
_APART = 10**6  # names of units that one table alone has begin here


@dataclass(frozen=True)
class Source:
    """Makes records of a pair of neighbours, new or near a given one."""

    new: Callable[[Draw], Any]
    near: Callable[[Any, Draw], Any]


@dataclass(frozen=True)
class Mixture:
    """The state of a pair of record lists: common records, those of each side, and their orders."""

    common: tuple[Any, ...]
    one: tuple[Any, ...]
    other: tuple[Any, ...]
    orders: tuple[int, int] = (0, 0)


class Records(Pairs):
    """Pairs of record lists that differ by records added, removed or replaced.

    Args:
        source: makes records.
        size: how many; None for any number.
        changes: a record replaced is at distance one (else a record added or removed).
        members: sequences whose records to build on.
    """

    longest: Sequence[int] = LONGEST

    def __init__(self, source: Source, size: int | None, changes: bool, members: Sequence[Any]) -> None:
        self.source = source
        self.size = size
        self.changes = changes
        self.members: list[tuple[Any, ...]] = [tuple(m) for m in members]
        self.pool: list[Any] = [r for m in self.members for r in m]

    def drawn(self, draw: Draw, max_distance: Fraction) -> State:
        """Return the state of a random pair of record lists with a few records that differ."""
        if self.members and draw.is_rare_event(2):
            common = list(draw.choose(self.members))
        else:
            size = self._size(draw) if self.size is None else self.size
            common = draw_pattern(lambda: self._new(draw), size, draw)
        if draw.is_rare_event(8):  # the same records in another order
            return Mixture(tuple(common), (), (), (0, 1 + draw.below(1000)))
        few = min(math.floor(max_distance), 64)
        one = draw_pattern(lambda: self._new(draw), few, draw)
        other = draw_pattern(lambda: self._new(draw), few, draw)
        if not self.changes and self.size is None:  # most often all of the room on one side
            one, other = draw.choose(((one, []), (one, []), ([], other), (one[: few // 2], other)))
        return Mixture(tuple(common), tuple(one), tuple(other), self._orders(draw))

    def iter_long(self, draw: Draw, max_distance: Fraction) -> Iterator[State]:
        """Yield states of long pairs of record lists, at lengths where counters wrap."""
        if self.size is not None or max_distance < 1:
            return
        for size in self.longest:
            one = self._new(draw)
            yield Mixture((one,) * (size - 1), (one,), ())
        first = self._new(draw)
        # One of two different records is none that adds nothing, such as 0 in a sum.
        second = next((r for r in (self._new(draw) for _ in range(16)) if r != first), first)
        for one in (first, second):
            for size in (*EACH, *LENGTHS):
                yield Mixture((one,) * (size - 1), (one,), ())
        for size in LENGTHS * 4:
            one, other = self._new(draw), self._new(draw)
            yield Mixture((one,) * (size - 1), (other,), ())
            yield Mixture((*(one,) * (size - 2), other), (one,), ())

    def mutate(self, state: State, draw: Draw, max_distance: Fraction) -> State:
        """Change, repeat, add or drop a record in a pair of record lists, or change their order."""
        kind = draw.below(8)
        if kind == 0:
            return replace(state, orders=self._orders(draw))
        side = draw.choose(("common", "common", "one", "other"))
        found = list(getattr(state, side))
        if not found or (kind == 1 and not (side == "common" and self.size)):
            found.insert(draw.below(len(found) + 1), self._new(draw))
        elif kind == 2 and not (side == "common" and self.size):
            del found[draw.below(len(found))]
        elif kind == 3:
            found = [draw.choose(found)] * len(found)
        elif kind == 4:
            found[draw.below(len(found))] = draw.choose(found)
        else:
            at = draw.below(len(found))
            found[at] = self.source.near(found[at], draw)
        return replace(state, **{side: tuple(found)})

    def build(self, state: State, max_distance: Fraction) -> tuple[Any, Any]:
        """Return the pair of record lists of a state."""
        common, one, other = self._split(state, math.floor(max_distance))
        return ordered(common + one, state.orders[0]), ordered(common + other, state.orders[1])

    def _split(self, state: Mixture, limit: int) -> tuple[list[Any], list[Any], list[Any]]:
        one, other = list(state.one), list(state.other)
        if self.changes or self.size is not None:
            each = min(len(one), len(other), limit if self.changes else limit // 2, self.size or limit)
            one, other = one[:each], other[:each]
        else:
            one = one[:limit]
            other = other[: limit - len(one)]
        common = list(state.common)
        if self.size is not None:
            common = (common * self.size)[: self.size - len(one)]
        return common, one, other

    def _size(self, draw: Draw) -> int:
        return draw_size(draw)

    def _new(self, draw: Draw) -> Any:
        return draw.choose(self.pool) if self.pool and draw.is_rare_event(2) else self.source.new(draw)

    def _orders(self, draw: Draw) -> tuple[int, int]:
        return draw.choose_early((0, 1, 2, draw.below(1000))), draw.choose_early((0, 1, 2, draw.below(1000)))


def ordered(items: list[Any], order: int) -> list[Any]:
    """Return records as they are, backwards, the last first, or shuffled."""
    if order == 1:
        return items[::-1]
    if order == 2:
        return items[-1:] + items[:-1]
    return Draw(order).shuffle(items) if order else items


class Units(Records):
    """Pairs of tables that differ by all rows of some units, in any order, and by rows without a unit.

    A record is a unit: a sequence of (key, values).
    """

    longest: Sequence[int] = ()  # bounding the rows of so many units takes minutes

    def __init__(self, columns: Sequence[tuple[str, Domain]], members: Sequence[Any]) -> None:
        self.columns = columns
        super().__init__(
            Source(self._unit, self._draw_similar_rows), None, False, [_units(m) for m in members]
        )

    def build(self, state: State, max_distance: Fraction) -> tuple[Any, Any]:
        """Return the pair of tables of a state."""
        common, one, other = self._split(state, math.floor(max_distance))
        shared = _rows(common, 0)
        # The first unit of the second table has a name of the first: a unit that changes is two.
        both = (shared + _rows(one, _APART), shared + _rows(other, _APART))
        strays = [Row(None, key, values) for unit in common[:1] for key, values in unit]
        return ordered(both[0] + strays, state.orders[0]), ordered(both[1], state.orders[1])

    def _size(self, draw: Draw) -> int:
        return draw.choose_early((0, 1, 2, 3))

    def _unit(self, draw: Draw) -> tuple[Any, ...]:
        """Return the rows of a random unit, alike or different, in one or many groups."""
        keys, rows = draw.choose_early((1, 2, 3, 4, 5, 8, 16)), draw.choose_early((1, 2, 3, 5))
        values = draw_pattern(lambda: record(self.columns, draw), keys * rows, draw)
        return tuple((i % keys, v) for i, v in enumerate(values))

    def _draw_similar_rows(self, unit: tuple[Any, ...], draw: Draw) -> tuple[Any, ...]:
        """Return the rows of a unit that differ a little: changed, repeated or dropped rows or groups."""
        rows, kind = list(unit), draw.below(6)
        if not rows:
            return self._unit(draw)
        key, values = draw.choose(rows)
        if kind == 0:
            rows.append((draw.choose((key, 1 + max(k for k, _ in rows))), values))
        elif kind == 1:
            del rows[draw.below(len(rows))]
        elif kind == 2:
            values = draw_similar_record(self.columns, values, draw)
            rows = [(k, values) for k, _ in rows]
        elif kind == 3:
            top = 1 + max(k for k, _ in rows)
            rows = (rows + [(k + top, v) for k, v in rows])[:MAX_ROWS]
        elif kind == 4:
            rows = (rows + rows)[:MAX_ROWS]
        else:
            rows[draw.below(len(rows))] = key, draw_similar_record(self.columns, values, draw)
        return tuple(rows)


def _rows(units: Sequence[Any], first: int) -> list[Row]:
    return [Row(first + i, key, values) for i, unit in enumerate(units) for key, values in unit]


def _units(rows: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Gather the rows of each unit of a table; keys become whole numbers."""
    keys: dict[Any, int] = {}
    found: dict[Any, list[Any]] = {}
    for row in rows:
        if row.unit is not None:
            found.setdefault(row.unit, []).append((keys.setdefault(row.key, len(keys)), row.values))
    return [tuple(unit) for unit in found.values()]


class Contributions(Records):
    """Pairs of contributions by group that differ by some units.

    A record is a unit: for each of its groups the list of its rows. Values come from the given members;
    without any, rows have no columns.
    """

    def __init__(
        self, groups: int, members: Sequence[Any], rows: int | None, total: int | None = None
    ) -> None:
        self.groups = groups
        self.rows = rows
        self.total = total
        lists = [list(rows) for m in members for units in m.values() for rows in units]
        self.lists: list[list[Any]] = lists or [[{}]]
        super().__init__(Source(self._unit, lambda unit, draw: self._unit(draw)), None, False, [])

    def build(self, state: State, max_distance: Fraction) -> tuple[Any, Any]:
        """Return the pair of mappings from groups to the rows of units."""
        common, one, other = self._split(state, math.floor(max_distance))
        first, second = state.orders
        return self._by_group(common + one, first), self._by_group(common + other, second)

    def _unit(self, draw: Draw) -> tuple[Any, ...]:
        keys = draw.choose((self.groups, 1, 1 + draw.below(self.groups)))
        first, times = draw.below(2), draw.choose_early((1, 2, 3, 5))
        rows = draw_pattern(lambda: (draw.choose(self.lists) * times)[: self.rows], keys, draw)
        if self.total is None:
            return tuple((first + i, r) for i, r in enumerate(rows))
        # Of all rows in one group, or of one in each, or of what lies between.
        found, left = [], self.total
        for i, r in enumerate(rows):
            kept = r[: min(left, max(1, self.total // keys))]
            if kept:
                found.append((first + i, kept))
            left -= len(kept)
        return tuple(found)

    @staticmethod
    def _by_group(units: list[Any], order: int) -> Mapping[Any, list[Any]]:
        found: dict[Any, list[Any]] = {}
        for unit in ordered(units, order):
            for key, rows in unit:
                found.setdefault(key, []).append(ordered(rows, order))
        return found


NORMS = (LInfDistance, L1Distance, L2Distance)  # by their power; 0 for the largest difference


def make_pairs(domain: Domain, metric: Metric, members: Sequence[Any]) -> Pairs:
    """Return the kind of neighbouring pairs of a domain in a metric.

    Args:
        members: of the domain, to build on; of a domain that is not known here, all there are.
    Raises:
        QueryError: it is not known how to make members of the domain, and none is given.
    """
    for known in (_make_number_pairs, _make_record_pairs):
        found = known(domain, metric, members)
        if found is not None:
            return found
    if len(members) < 2:
        raise QueryError(
            f"falsify cannot make neighbours in {domain} by {metric}. Pass some: members=[one, other, ...]"
        )
    return Values(domain, members, alone=True)


def _make_number_pairs(domain: Domain, metric: Metric, members: Sequence[Any]) -> Pairs | None:
    if isinstance(metric, DiscreteDistance):
        return Values(domain, members)
    if isinstance(metric, AbsoluteDistance) and isinstance(domain, AtomDomain):
        return Numbers(domain, members)
    if isinstance(metric, ProductMetric) and isinstance(domain, ProductDomain):
        return _make_product_pairs(domain, metric.inner, 1, members)
    norm = next((n for n, kind in enumerate(NORMS) if isinstance(metric, kind)), None)
    if norm is None:
        return None
    if isinstance(domain, GroupedIntegers) and isinstance(metric, (L1Distance, L2Distance)):
        return GroupedCoordinates(metric.scales, norm, members)
    if isinstance(domain, ProductDomain):
        return _make_product_pairs(domain, AbsoluteDistance(), norm, members)
    if isinstance(domain, VectorDomain):
        entry = make_pairs(domain.element, AbsoluteDistance(), [v for m in members for v in m])
        return Coordinates([entry], domain.size, norm, list)
    return None


def _make_product_pairs(domain: ProductDomain, inner: Metric, norm: int, members: Sequence[Any]) -> Pairs:
    parts = [make_pairs(p, inner, [m[i] for m in members]) for i, p in enumerate(domain.parts)]
    return Coordinates(parts, len(parts), norm, tuple)


def _make_record_pairs(domain: Domain, metric: Metric, members: Sequence[Any]) -> Pairs | None:
    if isinstance(metric, (SymmetricDistance, ChangeOneDistance)):
        changes = isinstance(metric, ChangeOneDistance)
        if isinstance(domain, VectorDomain):
            entry = domain.element
            source = Source(partial(draw_member, entry), partial(draw_neighbor, entry))
            return Records(source, domain.size, changes, members)
        if isinstance(domain, TableDomain):
            source = Source(partial(record, domain.columns), partial(draw_similar_record, domain.columns))
            return Records(source, domain.size, changes, members)
    if isinstance(metric, PrivacyUnitDistance) and isinstance(domain, RowsDomain):
        return Units(domain.columns, members)
    if isinstance(domain, ContributionDomain) and not domain.scaled:
        return Contributions(domain.groups, members, domain.rows, domain.total)
    return None
