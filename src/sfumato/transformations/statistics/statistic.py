"""Statistics: integers added up per group, the body of what one unit may add to them, and their SQL."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, overload

from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.errors import ParameterError, QueryError
from sfumato.exact import root_up
from sfumato.framework import (
    WHOLE,
    Body,
    ConeBody,
    ContributionDistance,
    ContributionDomain,
    CubeBody,
    GroupedIntegers,
    GroupMetric,
    L1Distance,
    L2Distance,
    Linear,
    Metric,
    Norm,
    Part,
    PrivacyUnitDistance,
    Product,
    RowsBody,
    Transformation,
)
from sfumato.names.suggestions import suggest_arguments
from sfumato.transformations.contribution_bounding import Contributions, Parts, Values
from sfumato.transformations.row_sql import RowSql, SqlPart


class Role(Enum):
    """The role of a statistic's coordinate: what it counts or adds up.

    Coordinates of a statistic such as `Count` have one.
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
    """A coordinate of a statistic: one exact number for each group, in grid steps, with its own noise.

    It is one of the `coordinates` of a statistic such as `Count`.

    Args:
        name: the name that identifies numbers, noise scales and laws; unique in a release.
        role: what it counts or adds up.
        step: the grid step, in `unit`.
        unit: the unit of the number: "units", "rows", "values", a column's name, or that squared.
        what: a short description, for explanations.
        bounds: the bounds of the values that are added up, in the column's unit; None for counts.
    """

    name: str
    role: Role
    step: Fraction
    unit: str
    what: str
    bounds: tuple[float, float] | None = None


@dataclass(frozen=True)
class Statistic(ABC):
    """A statistic: integers per group to which each unit contributes independently of every other unit.

    Examples are `Count` and `UnitSum`.

    A group's statistic is `of_added` of the sum of `contribution(rows)` over its units. For most statistics
    it is that sum, so adding or removing a unit changes it by that unit's contribution and nothing else.
    `body` contains every change by one unit, and is the only privacy claim. A statistic that is not
    `additive` is computed from other statistics and earlier releases.

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
        """The coordinates of the statistic; each has its own noise scale."""

    @abstractmethod
    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return a unit's contribution to a group's statistic, by coordinate, in steps.

        It is in steps.

        Args:
            rows: the values of the unit's rows in the group.
            weight: the fraction that counts, in parts of `WHOLE`. The contribution is at most this fraction
                of a vector of the body; for `divisible` counts it is exactly this fraction.
        Returns:
            The contribution by coordinate.
        """

    def of_added(self, added: Counter[Hashable]) -> Counter[Hashable]:
        """Return a group's statistic from the sum of its units' contributions.

        Args:
            added: the sum of contributions, in the form that `contribution` returns.
        Returns:
            The statistic by coordinate.
        """
        return added

    @property
    @abstractmethod
    def body(self) -> Body:
        """The body of the statistic: all that one unit may add to a group, in steps."""

    @property
    def description(self) -> dict[str, Any]:
        """The statistic's ranges and limits as plain data for the certificate.

        Values are in steps. It contains no size and no sensitivity, which the certificate computes itself.
        """
        return {"kind": type(self).__name__}  # which the certificate refuses

    @property
    def _no_cone(self) -> str | None:
        """Why no cone holds what a unit adds to the statistic, where that is so."""
        return "no cone holds the nodes of a quantile tree" if self.listed else None

    @property
    def _value_column(self) -> str | None:
        """The column of the statistic, if only rows with a value in it add to it; else None."""
        return None

    def _limits(self, other: Statistic) -> bool:
        """Whether a unit's part of this count limits its part of another statistic.

        Args:
            other: of the same group.
        """
        return False

    def _sql_parts(self, sql: RowSql) -> list[SqlPart]:
        """Return the statistic's SQL: aggregates of a unit's rows in a group, and then of units.

        Args:
            sql: writes expressions over rows.
        """
        raise AssertionError(f"{type(self).__name__} is counted by value")

    def _place_sql(self, sql: RowSql) -> str:
        """Return the SQL of the place of a row's value, for a statistic that is counted by value.

        It is NULL where the row has none.

        Args:
            sql: writes expressions over rows.
        """
        raise AssertionError(f"{type(self).__name__} is not counted by value")

    def _added_sql(self, sql: RowSql) -> str:
        """Return the SQL of what a row adds to the statistic at its place: a number or a value's name.

        Args:
            sql: writes expressions over rows.
        """
        return "1"

    @property
    def divisible(self) -> bool:
        """Whether a fraction of a unit may count in the statistic."""
        return True

    @property
    def entries(self) -> int:
        """The length of the list for each coordinate; 0 if it is a single number."""
        return 0

    @property
    def per_unit(self) -> str:
        """How a unit counts as a whole, for a statistic that is not `by_rows`."""
        return "once"

    @property
    def content(self) -> dict[str, Any]:
        """What explanations add about each number of the statistic."""
        return {}

    @property
    def note(self) -> str | None:
        """What an analyst should know about the statistic, if anything."""
        return None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose values the statistic uses."""
        column = getattr(self, "column", None)
        return () if column is None else (column,)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the statistic's coordinates."""
        return tuple(c.name for c in self.coordinates)


@suggest_arguments
def body_in_all(statistics: Sequence[Statistic], groups: int, total: int | None = None) -> Body:
    """Return the body of several statistics: one unit's contribution to each group, or to all groups.

    Args:
        statistics: the statistics to add up.
        groups: the most groups of a unit.
        total: the most rows of a unit over all groups, which every statistic scales down to; or None.
    Returns:
        A body over all groups, a `RowsBody`, if a unit's rows may be in several groups; otherwise the
        statistics' own.
    Raises:
        ParameterError: a statistic scales a unit down to a number of rows other than `total`.
    Source:
        docs/proofs/bound_total_rows.md.

    >>> from sfumato.transformations import Count
    >>> body_in_all([Count(rows=1)], 3)
    Product(factors=(Segment(name='rows', bound=1),))
    """
    most = Product(tuple(s.body for s in statistics))
    for statistic in statistics if total is not None else ():
        if statistic.by_rows and getattr(statistic, "rows", None) != total:
            raise ParameterError("total", total, f"the limit of rows of {', '.join(statistic.names)}")
    if total is None or min(groups, total) == 1:
        return most
    given: Sequence[Any] = statistics
    of_one = (replace(s, rows=1) if s.by_rows else s for s in given)
    return RowsBody(Product(tuple(s.body for s in of_one)), most, total)


@overload
@suggest_arguments
def per_group(
    statistics: Sequence[Statistic],
    *,
    groups: int,
    rows: int | None = None,
    together: GroupMetric | None = None,
    scaled: bool = False,
    total: int | None = None,
) -> Transformation: ...
@overload
def per_group(
    statistics: Sequence[Statistic],
    norm: Norm,
    scales: Sequence[Fraction],
    groups: int,
    rows: int | None = None,
    *,
    scaled: bool = False,
    total: int | None = None,
    shared: bool = False,
) -> Transformation: ...
def per_group(
    statistics: Sequence[Statistic],
    norm: Norm | None = None,
    scales: Sequence[Fraction] = (),
    groups: int = 1,
    rows: int | None = None,
    together: GroupMetric | None = None,
    scaled: bool = False,
    total: int | None = None,
    shared: bool = False,
) -> Transformation:
    """Add up statistics per group.

    Args:
        statistics: the statistics to add up, with distinct coordinates.
        norm: the distance of outputs: L1 for Laplace noise, L2 for Gaussian noise. Without a norm it is the
            number of units whose contributions lie between them, which noise on each number can use.
        scales: with a norm, one noise scale for each coordinate of all statistics, in grid steps.
        groups: the limit that `bound_groups` or `scale_groups` enforced.
        rows: the limit that `bound_rows` enforced, or None; statistics then scale rows down.
        together: the K-norm that compares outputs, whose body is `cone_of` the statistics, so that one unit
            moves them by at most 1. Or the metric of Gaussian noise with a common part, on series, or with
            totals.
        scaled: whether units contribute fractions, as after `scale_groups`.
        total: the limit that `bound_total_rows` enforced; each statistic has at least as many rows.
        shared: whether units contribute fractions, as after `share_groups`. In the L2 norm, a unit then moves
            all of its groups together by no more than one group.
    Returns:
        A Transformation from contributions to integers per group. A unit changes at most `groups` groups, in
        each by one contribution: L1 sensitivities add up over statistics and groups, and so do squares of L2
        sensitivities. Fractions of units are means of such changes.
    Raises:
        ParameterError: `together` is for other numbers, for fewer groups, or has a body that does not contain
            a unit's contribution, as far as its bounds show; a unit moves by more than 1; a statistic is not
            a sum over units; or a count has no steps for fractions of a unit, or fewer rows than `total`.

    >>> from sfumato.transformations import Row, bound_groups, Count
    >>> count = bound_groups(2) >> per_group([Count(rows=1)], Norm.L1, [Fraction(1)], groups=2)
    >>> count([Row(1, "a", {}), Row(2, "a", {})]), count.map(1)
    ({'a': Counter({'rows': 2})}, Fraction(2, 1))
    >>> (bound_groups(2) >> per_group([Count(rows=1)], groups=2)).map(1)
    Fraction(1, 1)

    Source:
        Triangle inequality, Pythagoras. Proof: docs/proofs/per_group.md.
    """
    statistics, scales = tuple(statistics), tuple(scales)
    if not all(s.additive for s in statistics):
        raise ParameterError("statistics", statistics, "sums over units")
    body = body_in_all(statistics, groups, total)
    for statistic in statistics:
        if (scaled or shared) and not statistic.divisible:
            raise ParameterError("statistics", statistic, "in steps of 2^-20 of a unit or of a row, or less")
    if shared and norm is not Norm.L2:
        raise ParameterError("norm", norm, "Norm.L2, where units come in parts whose squares come to 1")
    times = groups if body.groups == 1 and not shared else 1
    metric: Metric
    if together is not None:
        known = together.holds(body, groups, all(s.by_rows for s in statistics))
        if together.names != body.names or not known:
            raise ParameterError("together", together, f"of {', '.join(body.names)} in {groups} groups")
        metric, d_out = together, Fraction(1)
    elif norm is None:
        metric, d_out = ContributionDistance(body, times, scaled), Fraction(1)
    else:
        named = tuple(zip(body.names, scales, strict=True))
        metric, d_out = L1Distance(named), times * body.size(norm, scales)
        if norm is Norm.L2:
            metric, d_out = L2Distance(named), root_up(d_out)

    def function(contributions: Contributions | Parts) -> dict[Hashable, Counter[Any]]:
        totals: dict[Hashable, Counter[Any]] = {}
        for key, units in contributions.items():
            # The falsifier puts one contribution in a group some 70,000 times: it is computed once.
            times = Counter(map(id, units))
            parts = [
                (unit if isinstance(unit, Part) else (unit,), times[which])
                for which, unit in {id(unit): unit for unit in units}.items()
            ]
            totals[key] = Counter()
            for statistic in statistics:
                added: Counter[Hashable] = Counter()
                for part, as_often in parts:
                    for name, steps in statistic.contribution(*part).items():
                        added[name] += as_often * steps
                totals[key].update(statistic.of_added(added))
        return totals

    return Transformation(
        f"per_group({', '.join(body.names)})",
        ContributionDomain(groups, rows, scaled, total, shared),
        GroupedIntegers(body.names),
        PrivacyUnitDistance(groups, rows, scaled, total, shared),
        metric,
        function,
        Linear(d_out),
    )


@suggest_arguments
def cone_of(statistics: Sequence[Statistic]) -> ConeBody:
    """Return a cone that contains every contribution of a unit to a group's statistics, after rounding.

    The count that limits the others comes first. It is units, with one per contribution to a group, followed
    by rows, with at least one; or rows alone, if no number is per unit. For sums of a single column, the rows
    with a value in it can replace rows or stand below rows or units. A single number that is never negative
    needs no other, and sums of weights limit those of weighted values. Margins alone are in a cube.

    Args:
        statistics: the statistics of one group, in order.
    Returns:
        The cone.
    Raises:
        QueryError: no count limits all numbers, or there is a quantile tree.

    >>> from sfumato.transformations import Count, CountUnits, Moments, ValueGrid
    >>> mean = Moments("x", "x", 3, ValueGrid(0, -5, 5))
    >>> cone_of([Count(3), mean]).bounds, cone_of([CountUnits(), Count(3), mean]).units
    ((Fraction(3, 1), Fraction(15, 1)), True)

    Proof: docs/proofs/k_norm.md.
    """
    statistics = tuple(statistics)
    body: Body = Product(tuple(s.body for s in statistics))
    names, bounds = body.names, body.linf_sensitivities
    first, rest = statistics[0], statistics[1:]
    refusal = next((s._no_cone for s in statistics if s._no_cone is not None), None)
    if refusal is not None:
        raise QueryError(refusal)
    if all(s.signed_alone for s in statistics):
        return CubeBody(names, bounds)
    below = bool(rest) and _limits(rest[0], rest[1:])
    if first.counts_units:
        return ConeBody(names, bounds, units=below)
    if _limits(first, rest):
        return ConeBody(names, bounds, units=below)
    if not rest and first.never_negative:
        return ConeBody(names, bounds)
    raise QueryError(f"no count among {', '.join(names)} limits all the others")


def _limits(count: Statistic, others: Sequence[Statistic]) -> bool:
    """Whether a statistic is a number of rows that limits all other statistics."""
    return count.counts_rows and all(count._limits(other) for other in others)
