"""Statistics per group: their sums over units, and all that one unit may add to them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, overload

from sfumato.errors import ParameterError, QueryError
from sfumato.exact import root_up
from sfumato.framework import (
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
from sfumato.names.suggestions import helpful
from sfumato.transformations.contribution_bounding import Contributions, Parts
from sfumato.transformations.statistics.statistic import Statistic


@helpful
def body_in_all(statistics: Sequence[Statistic], groups: int, total: int | None = None) -> Body:
    """Return what one unit may add to each of its groups; or to all together, with a limit of rows in all.

    Args:
        statistics: what is added up.
        groups: the most groups of a unit.
        total: the most rows of a unit in all groups, as many as any statistic scales down to; or None.
    Returns:
        A body of all groups, a `RowsBody`, where a unit's rows may be in several: else the statistics' own.
    Raises:
        ParameterError: a statistic scales a unit down to other than `total` rows.
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
@helpful
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
) -> Transformation:
    """Add up statistics per group.

    Args:
        statistics: what to add up, with distinct coordinates.
        norm: how outputs are compared: L1 for Laplace noise, L2 for Gaussian noise; without it by the
            number of units' contributions between them, which noise of each number can use.
        scales: with a norm, one noise scale for each coordinate of all statistics, in grid steps.
        groups: the limit that `bound_groups`, or `scale_groups`, enforced.
        rows: the limit that `bound_rows` enforced, or None without it: statistics scale rows down.
        together: outputs are compared by this K-norm, whose body is `cone_of` the statistics: in it one unit
            moves them by at most 1. Or as Gaussian noise with a part in common, on series, or with
            totals, sees them.
        scaled: whether units come in parts, as `scale_groups` leaves them.
        total: the limit that `bound_total_rows` enforced; statistics are of as many rows at least.
    Returns:
        A Transformation from contributions to integers per group. A unit changes at most `groups`
        groups, in each by one contribution: L1 sensitivities add over statistics and groups,
        squares of L2 sensitivities do. Parts of units are means of such changes.
    Raises:
        ParameterError: `together` is of other numbers, of fewer groups, or of a body that does not hold what
            a unit adds, as far as its bounds tell; or a unit moves by more than 1; or a statistic is not a
            sum over units; or a count has no steps for parts of a unit, or fewer rows than `total`.

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
        if scaled and not statistic.divisible:
            raise ParameterError("statistics", statistic, "in steps of 2^-20 of a unit or of a row, or less")
    times = groups if body.groups == 1 else 1
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
        ContributionDomain(groups, rows, scaled, total),
        GroupedIntegers(body.names),
        PrivacyUnitDistance(groups, rows, scaled, total),
        metric,
        function,
        Linear(d_out),
    )


@helpful
def cone_of(statistics: Sequence[Statistic]) -> ConeBody:
    """Return a cone that holds every contribution of a unit to a group, after all of its rounding.

    The count that limits the others comes first: units, of which each contribution to a group is one; units,
    and then rows, of which it is at least one; or rows, where no number goes by units. In the place of rows,
    or below rows or units, may be the rows with a value in a column, for sums of its values alone. One
    number that is never negative needs no other, and sums of weights limit those of weighted values. Margins
    alone are in a cube.

    Args:
        statistics: of one group, in their order.
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
    """Whether this is a number of rows that limits all others."""
    return count.counts_rows and all(count._limits(other) for other in others)
