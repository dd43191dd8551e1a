"""What one unit may add to all numbers of a group together: a count, and numbers that it limits."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.errors import QueryError
from sfumato.framework import Body, ConeBody, CubeBody, Product
from sfumato.names.helpful import helpful
from sfumato.transformations.statistics.bins import RowsInBins
from sfumato.transformations.statistics.count import Count, CountUnits
from sfumato.transformations.statistics.cross import CrossMoments
from sfumato.transformations.statistics.distinct import DistinctMatched, DistinctShared
from sfumato.transformations.statistics.margin import Margin
from sfumato.transformations.statistics.moments import Moments
from sfumato.transformations.statistics.statistic import Statistic
from sfumato.transformations.statistics.unit_sum import UnitSum
from sfumato.transformations.statistics.weighted import WeightedSum

# What a unit adds of its own, whatever its number of rows.
BY_UNITS = (UnitSum, DistinctMatched, DistinctShared)


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

    >>> from sfumato.transformations import Moments, ValueGrid
    >>> mean = Moments("x", "x", 3, ValueGrid(0, -5, 5))
    >>> cone_of([Count(3), mean]).bounds, cone_of([CountUnits(), Count(3), mean]).units
    ((Fraction(3, 1), Fraction(15, 1)), True)

    Proof: docs/proofs/k_norm.md.
    """
    statistics = tuple(statistics)
    body: Body = Product(tuple(s.body for s in statistics))
    first, rest = statistics[0], statistics[1:]
    if any(s.entries for s in statistics):
        raise QueryError(
            "noise: K-norm noise is for single numbers, and not for vectors; take 'laplace', 'gaussian' or "
            "'auto'"
        )
    if any(s.listed for s in statistics):
        raise QueryError("no cone holds the nodes of a quantile tree")
    if any(isinstance(s, RowsInBins) for s in statistics):
        raise QueryError(
            "noise: what a unit adds to bins has the shape of Laplace noise, so K-norm noise is not drawn "
            "for histogram and value_counts; take 'laplace', 'gaussian' or 'auto'"
        )
    if all(isinstance(s, Margin) for s in statistics):
        return CubeBody(body.names, body.linf_sensitivities)
    if isinstance(first, CountUnits):
        by_rows = not any(isinstance(s, BY_UNITS) for s in rest)
        both = by_rows and bool(rest) and _limits(rest[0], rest[1:])
        return ConeBody(body.names, body.linf_sensitivities, units=both)
    if rest and _limits(first, rest) and _counts_values(rest[0]) and _limits(rest[0], rest[1:]):
        return ConeBody(body.names, body.linf_sensitivities, units=True)
    if _limits(first, rest) or (not rest and _limits_itself(first)):
        return ConeBody(body.names, body.linf_sensitivities)
    raise QueryError(f"no count among {', '.join(body.names)} limits all the others")


def _limits(count: Statistic, others: Sequence[Statistic]) -> bool:
    """Whether this is a number of rows, and the others are sums over the same rows, each at most a row's.

    Rows that are scaled down are cut towards zero in all sums; they count as a whole number, and those with
    a value are rounded up.
    """
    if not isinstance(count, Count) or not all(
        isinstance(s, (Count, CrossMoments, Moments, Margin, WeightedSum)) and s.rows == count.rows
        for s in others
    ):
        return False
    if count.column is None:
        return True
    return all(
        isinstance(s, Moments) and s.column == count.column and s.null_count_exponent is None for s in others
    )


def _counts_values(statistic: Statistic) -> bool:
    return isinstance(statistic, Count) and statistic.column is not None


def _limits_itself(statistic: Statistic) -> bool:
    """Whether it is one number that is never negative, or its first one limits the second."""
    if isinstance(statistic, UnitSum):
        return statistic.ends[0] >= statistic.centre
    return isinstance(statistic, (Count, DistinctMatched, DistinctShared, WeightedSum))
