"""Distinct values: the number of different values in a group, of which each unit brings a limited number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

from sfumato.dataclass import dataclass
from sfumato.framework import WEIGHT_BITS, WHOLE, Body, Segment
from sfumato.transformations.contribution_bounding import Values
from sfumato.transformations.grid import Grid, has_value, scaled_down
from sfumato.transformations.row_sql import RowSql, value_hash
from sfumato.transformations.statistics.statistic import Coordinate, Role, Statistic


@dataclass(frozen=True)
class DistinctValues(Statistic):
    """A number of distinct values, of which each unit brings a limited number.

    Args:
        column: whose values are counted; NULL and NaN are none.
        values: the most values that a unit brings.
    """

    by_value: ClassVar[bool] = True
    never_negative: ClassVar[bool] = True
    place_type: ClassVar[str] = "UBIGINT"

    column: str
    values: int

    @property
    def per_unit(self) -> str:
        """How a unit counts: with a few distinct values."""
        return f"with at most {_many(self.values)} of {self.column}"

    def _place_sql(self, sql: RowSql) -> str:
        """Return the SQL of the stand-in for a row's distinct value."""
        code = value_hash(sql.column(self.column), sql.columns[self.column])
        return f"CASE WHEN {sql.valued(self.column)} THEN {code} END"


@dataclass(frozen=True)
class DistinctMatched(DistinctValues):
    """Distinct values by matching: the most that count if each is contributed by one unit.

    This is a maximum matching of units, each with up to `values` partners, to the values that they have. It
    is not a sum over units, but one more unit increases it by at most `values` and never decreases it.

    Args:
        column: the column whose values are counted, except NULL and NaN.
        values: the most values that a unit contributes.

    >>> matched = DistinctMatched("x", values=1)
    >>> ann, bob = matched.contribution([{"x": "a"}, {"x": "b"}]), matched.contribution([{"x": "a"}])
    >>> matched.of_added(ann + bob), matched.of_added(bob + bob)
    (Counter({'x[1].distinct': 2}), Counter({'x[1].distinct': 1}))

    Source:
        Knop and Steinke 2023, "Counting distinct elements under person-level differential privacy". Proof:
        docs/proofs/distinct_matched.md.
    """

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The coordinate of the number of distinct values."""
        return _coordinates(self.column, self.values, 0)

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return the set of distinct values of a unit."""
        own = frozenset(r[self.column] for r in rows if has_value(r[self.column]))
        return Counter({(self.names[0], own): 1}) if own else Counter()

    def of_added(self, added: Counter[Hashable]) -> Counter[Hashable]:
        """Return the number of distinct values: the size of a maximum matching."""
        sets = [own for own, units in _places(added, self.names[0]) for _ in range(units)]
        return Counter({self.names[0]: max_matched(sets, self.values)})

    @property
    def divisible(self) -> bool:
        """Whether a fraction of a unit can count: it cannot in a matching of distinct values."""
        return False

    @property
    def description(self) -> dict[str, Any]:
        """The description of the matched distinct values for the certificate."""
        counted = {"name": self.names[0], "one": "1", "values": self.values}
        return {"kind": "distinct", **counted, "matched": True}

    @property
    def body(self) -> Body:
        """The body of distinct values: as many values as the limit."""
        return Segment(self.names[0], Fraction(self.values))


@dataclass(frozen=True)
class DistinctShared(DistinctValues):
    """Distinct values by shares: a value counts by the shares that its units contribute, at most one.

    A unit with n rows contributes values/n, at most 1, to the value of each row. A value to which all units
    contribute less than 1 counts as that fraction. The result is never more than a maximum matching, and it
    does not need all units together.

    Args:
        column: the column whose values are counted, except NULL and NaN.
        values: the most that a unit contributes over all values.
        exponent: log2 of the step of shares.

    >>> shared = DistinctShared("x", values=1, exponent=-2)
    >>> ann = shared.contribution([{"x": "a"}, {"x": "b"}])
    >>> bob = shared.contribution([{"x": "a"}])
    >>> shared.of_added(ann), shared.of_added(ann + bob)  # in quarters of a value
    (Counter({'x[1].shared': 4}), Counter({'x[1].shared': 6}))

    Proof: docs/proofs/distinct_shared.md.
    """

    EXPONENT: ClassVar[int] = -WEIGHT_BITS

    exponent: int = EXPONENT

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The coordinate of the number of distinct values, in fractions of one."""
        return _coordinates(self.column, self.values, self.exponent)

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return the share that a unit contributes to each of its distinct values."""
        own = [r[self.column] for r in rows if has_value(r[self.column])]
        if not own:
            return Counter()
        each = scaled_down(1 << -self.exponent, len(own), self.values, weight)
        return Counter({(self.names[0], value): n * each for value, n in Counter(own).items()})

    def of_added(self, added: Counter[Hashable]) -> Counter[Hashable]:
        """Return the sum of shares over distinct values, at most one for each."""
        brought = (steps for _, steps in _places(added, self.names[0]))
        return Counter({self.names[0]: sum(min(steps, 1 << -self.exponent) for steps in brought)})

    @property
    def divisible(self) -> bool:
        """Whether fractions of a unit are whole steps of the shares."""
        return self.exponent <= -WEIGHT_BITS

    @property
    def description(self) -> dict[str, Any]:
        """The description of the shared distinct values for the certificate."""
        counted = {"name": self.names[0], "one": str(1 << -self.exponent), "values": self.values}
        return {"kind": "distinct", **counted, "matched": False}

    @property
    def body(self) -> Body:
        """The body of distinct values: as many values as the limit."""
        return Segment(self.names[0], Fraction(self.values << -self.exponent))


def max_matched(sets: Iterable[Iterable[Hashable]], limit: int) -> int:
    """Return how many distinct values can be matched to holders, each of which brings few.

    Args:
        sets: values.
        limit: how many of them each set brings at most.

    >>> max_matched([{"a", "b"}, {"a"}, {"a"}], limit=1), max_matched([{"a", "b", "c"}], limit=2)
    (2, 2)

    Source:
        Kuhn 1955, "The Hungarian method": paths that exchange partners. Engines have a faster form.
    """
    holders = [list(own) for own in sets for _ in range(limit)]
    brought_by: dict[Hashable, int] = {}
    brings: dict[int, Hashable] = {}

    def placed(first: int) -> bool:
        """Match a distinct value to one holder more, and move others that stand in the way."""
        came: dict[Hashable, int] = {}
        waiting = [first]
        for holder in waiting:
            for value in holders[holder]:
                if value in came:
                    continue
                came[value] = holder
                if value in brought_by:
                    waiting.append(brought_by[value])
                    continue
                free: Hashable = value
                while free is not None:  # back along the way that led here
                    mover = came[free]
                    brought_by[free], brings[mover], free = mover, free, brings.get(mover)
                return True
        return False

    return sum(placed(holder) for holder in range(len(holders)))


def _many(values: int) -> str:
    return "1 value" if values == 1 else f"{values:,} values"


def _coordinates(column: str, values: int, exponent: int) -> tuple[Coordinate, ...]:
    name = f"{column}[{values}].{'shared' if exponent else 'distinct'}"
    what = f"different values of {column}, at most {_many(values)} of a unit"
    return (Coordinate(name, Role.DISTINCT, Grid(exponent).step, "values", what),)


def _places(added: Mapping[Hashable, int], name: str) -> list[tuple[Any, int]]:
    """Return the distinct values' places in a coordinate, and what was added at each."""
    return [(key[1], n) for key, n in added.items() if isinstance(key, tuple) and key[0] == name]
