"""The number of different values in a group, of which each unit brings a limited number."""

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
    """A number of different values, of which each unit brings a limited number.

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
        """With a few values."""
        return f"with at most {_many(self.values)} of {self.column}"

    def _place_sql(self, sql: RowSql) -> str:
        """Write what stands for a row's value."""
        code = value_hash(sql.column(self.column), sql.columns[self.column])
        return f"CASE WHEN {sql.valued(self.column)} THEN {code} END"


@dataclass(frozen=True)
class DistinctMatched(DistinctValues):
    """The most different values that are counted where each is brought by one unit, and a unit brings few.

    That is a maximum matching of units, each with up to `values` partners, to the values that they have. It
    is no sum over units, but one unit more makes it larger by at most `values`, and never smaller.

    Args:
        column: whose values are counted; NULL and NaN are none.
        values: the most values that a unit brings.

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
        """The number of values."""
        return _coordinates(self.column, self.values, 0)

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return the set of values that a unit has, once."""
        own = frozenset(r[self.column] for r in rows if has_value(r[self.column]))
        return Counter({(self.names[0], own): 1}) if own else Counter()

    def of_added(self, added: Counter[Hashable]) -> Counter[Hashable]:
        """Return the size of a maximum matching."""
        sets = [own for own, units in _places(added, self.names[0]) for _ in range(units)]
        return Counter({self.names[0]: most_matched(sets, self.values)})

    @property
    def divisible(self) -> bool:
        """A part of a unit has no place in a matching."""
        return False

    @property
    def description(self) -> dict[str, Any]:
        """What a unit may add, as the certificate reads it."""
        counted = {"name": self.names[0], "one": "1", "values": self.values}
        return {"kind": "distinct", **counted, "matched": True}

    @property
    def body(self) -> Body:
        """As many values as the limit."""
        return Segment(self.names[0], Fraction(self.values))


@dataclass(frozen=True)
class DistinctShared(DistinctValues):
    """The number of different values, to each of which the units that have it bring shares.

    A unit with n rows brings values/n with each of them, at most 1, to the row's value; a value of which all
    units bring less than 1 counts as so large a part. That is never more than a maximum matching, and needs
    no look at all units together.

    Args:
        column: whose values are counted; NULL and NaN are none.
        values: the most values that a unit brings, in all.
        exponent: log2 of the step in which shares are counted.

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
        """The number of values, in parts of one."""
        return _coordinates(self.column, self.values, self.exponent)

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return what a unit brings to each of its values."""
        own = [r[self.column] for r in rows if has_value(r[self.column])]
        if not own:
            return Counter()
        each = scaled_down(1 << -self.exponent, len(own), self.values, weight)
        return Counter({(self.names[0], value): n * each for value, n in Counter(own).items()})

    def of_added(self, added: Counter[Hashable]) -> Counter[Hashable]:
        """Return the sum over values of what is brought to each, at most one."""
        brought = (steps for _, steps in _places(added, self.names[0]))
        return Counter({self.names[0]: sum(min(steps, 1 << -self.exponent) for steps in brought)})

    @property
    def divisible(self) -> bool:
        """Whether parts of a unit are whole numbers of steps."""
        return self.exponent <= -WEIGHT_BITS

    @property
    def description(self) -> dict[str, Any]:
        """What a unit may add, as the certificate reads it."""
        counted = {"name": self.names[0], "one": str(1 << -self.exponent), "values": self.values}
        return {"kind": "distinct", **counted, "matched": False}

    @property
    def body(self) -> Body:
        """As many values as the limit."""
        return Segment(self.names[0], Fraction(self.values << -self.exponent))


def most_matched(sets: Iterable[Iterable[Hashable]], most: int) -> int:
    """Return how many values can be brought by one of the sets that hold them, each of which brings few.

    Args:
        sets: values.
        most: how many of them each set brings at most.

    >>> most_matched([{"a", "b"}, {"a"}, {"a"}], most=1), most_matched([{"a", "b", "c"}], most=2)
    (2, 2)

    Source:
        Kuhn 1955, "The Hungarian method": paths that exchange partners. Engines have a faster form.
    """
    holders = [list(own) for own in sets for _ in range(most)]
    brought_by: dict[Hashable, int] = {}
    brings: dict[int, Hashable] = {}

    def placed(first: int) -> bool:
        """Let one holder more bring a value, and others bring another one where they stand in the way."""
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
    """Return the places of a coordinate and what was added at each."""
    return [(key[1], n) for key, n in added.items() if isinstance(key, tuple) and key[0] == name]
