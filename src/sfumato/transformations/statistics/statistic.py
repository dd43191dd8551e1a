"""What a statistic is: integers that add up over units, how large one unit's can be, and their SQL."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Sequence
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.framework import WHOLE, Body
from sfumato.transformations.contribution_bounding import Values
from sfumato.transformations.row_sql import RowSql, SqlPart


class Role(Enum):
    """What a coordinate counts or adds up.

    Of a coordinate of a statistic such as `Count`.
    """

    UNITS = "units"
    ROWS = "rows"
    PRESENT = "present"
    NULL_COUNT = "null_count"
    SUM = "sum"
    SQUARES = "squares"
    PRODUCTS = "products"
    LEAVES = "leaves"
    MARGIN = "margin"
    DISTINCT = "distinct"
    WEIGHTS = "weights"
    VECTOR = "vector"
    BIN = "bin"


@dataclass(frozen=True, repr=False)
class Coordinate(Spelled):
    """One exact number of each group, a whole number of grid steps, which gets noise of its own.

    Of a statistic such as `Count`, whose `coordinates` they are.

    Args:
        name: by which numbers, noise scales and laws are found; unique in a release.
        role: what it counts or adds up.
        step: the grid step, in `unit`.
        unit: of the number: "units", "rows", "values", a column's name, or that squared.
        what: in a few words, for explanations.
        bounds: of the values that are added up, in the column's unit; None for counts.
    """

    name: str
    role: Role
    step: Fraction
    unit: str
    what: str
    bounds: tuple[float, float] | None = None


@dataclass(frozen=True)
class Statistic(ABC):
    """Integers per group to which each unit contributes independently of every other unit.

    Such as `Count` and `UnitSum`.

    A statistic of a group is made of the sum of `contribution(rows)` over the units in it, by `of_added`.
    For most that is the sum itself, so adding or removing a unit changes it by that unit's contribution and
    by nothing else. `body` holds every change that one unit makes, and is the only privacy claim. One that
    is not `additive` is made of other statistics and of what was released before.

    >>> from sfumato.transformations import UnitSum
    >>> hours = UnitSum("hours", "hours", exponent=0, lower=0, upper=40, integer=True)
    >>> one, other = [{"hours": 30}, {"hours": 25}], [{"hours": 12}]
    >>> hours.of_added(hours.contribution(one) + hours.contribution(other))
    Counter({'hours.total': 52})
    >>> hours.body
    Segment(name='hours.total', bound=40)
    """

    additive: ClassVar[bool] = True
    # Whether a group has numbers at many places, in place of one for each coordinate.
    listed: ClassVar[bool] = False
    # Whether what a unit adds is the sum of what its rows add, each by itself, up to a limit `rows` of them.
    by_rows: ClassVar[bool] = False
    # Whether it is the number of units, or a number of rows.
    counts_units: ClassVar[bool] = False
    counts_rows: ClassVar[bool] = False
    # Whether a number of the same rows limits all of its numbers, each row of them by itself.
    limited: ClassVar[bool] = False
    # Whether it is a signed number that no count limits, so that it is in a cube and in no cone.
    signed_alone: ClassVar[bool] = False
    # Whether it is one number that is never negative, or its first one limits the others.
    never_negative: ClassVar[bool] = False
    # Whether engines count its values first, by the place that each has, and what units add after that.
    by_value: ClassVar[bool] = False
    # DuckDB's types of a place, and of what is counted there of all units.
    place_type: ClassVar[str] = "BIGINT"
    weight_type: ClassVar[str] = "BIGINT"

    @property
    @abstractmethod
    def coordinates(self) -> tuple[Coordinate, ...]:
        """Its numbers; each has a noise scale of its own."""

    @abstractmethod
    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return what one unit with these rows in one group adds, by coordinate, in steps.

        Args:
            rows: the values of its rows.
            weight: how much of that counts, of `WHOLE`. What is added is so large a part of a vector of the
                body, or less; of counts exactly so large a part, where they are `divisible`.
        """

    def of_added(self, added: Counter[Hashable]) -> Counter[Hashable]:
        """Return a group's numbers, of the sum of what its units contribute.

        Args:
            added: the sum of what units contribute, as `contribution` gives it.
        """
        return added

    @property
    @abstractmethod
    def body(self) -> Body:
        """All that one unit may add to a group, in steps."""

    @property
    def description(self) -> dict[str, Any]:
        """What a unit may add to its numbers, as plain data that the certificate reads.

        Ranges and limits, in steps; no size and no sensitivity, which the certificate computes itself.
        """
        return {"kind": type(self).__name__}  # which the certificate refuses

    @property
    def _no_cone(self) -> str | None:
        """Why no cone holds what a unit adds, where that is so."""
        return "no cone holds the nodes of a quantile tree" if self.listed else None

    @property
    def _values_of(self) -> str | None:
        """The column of which rows with a value alone add to it; None where others do."""
        return None

    def _limits(self, other: Statistic) -> bool:
        """Whether what a unit adds to this number limits what it adds to each of another statistic's.

        Args:
            other: of the same group.
        """
        return False

    def _sql_parts(self, sql: RowSql) -> list[SqlPart]:
        """Write how it is computed: what is aggregated of a unit's rows in a group, and then of units.

        Args:
            sql: writes expressions over rows.
        """
        raise AssertionError(f"{type(self).__name__} is counted by value")

    def _place_sql(self, sql: RowSql) -> str:
        """Write the place of a row's value, where it is counted by value; NULL where the row has none.

        Args:
            sql: writes expressions over rows.
        """
        raise AssertionError(f"{type(self).__name__} is not counted by value")

    def _added_sql(self, sql: RowSql) -> str:
        """Write what a row adds at its place: a number, or the name of a value of the row.

        Args:
            sql: writes expressions over rows.
        """
        return "1"

    @property
    def divisible(self) -> bool:
        """Whether a part of a unit may count."""
        return True

    @property
    def entries(self) -> int:
        """How many numbers a group has for its coordinate, shown as a list; 0 where it is one number."""
        return 0

    @property
    def per_unit(self) -> str:
        """How a unit counts, where it does as a whole: not `by_rows`."""
        return "once"

    @property
    def content(self) -> dict[str, Any]:
        """What explanations say of each of its numbers beside what they say of all."""
        return {}

    @property
    def note(self) -> str | None:
        """What whoever asks should know of it, if anything."""
        return None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose values it takes."""
        column = getattr(self, "column", None)
        return () if column is None else (column,)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the coordinates."""
        return tuple(c.name for c in self.coordinates)
