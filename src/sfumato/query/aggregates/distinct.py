"""Numbers of different values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, get_args

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact import one_of, positive_int
from sfumato.query.aggregates.aggregate import Aggregate, column_name
from sfumato.query.aggregates.called import asked
from sfumato.query.aggregates.counts import CountEstimate
from sfumato.query.aggregates.estimate import Estimate
from sfumato.query.choices import DistinctMethod
from sfumato.transformations import DistinctMatched, DistinctShared, Statistic

if TYPE_CHECKING:
    from sfumato.query.requirements import Design


MOST_VALUES = 1_000_000


@dataclass(frozen=True, repr=False)
class CountDistinct(Aggregate):
    """The number of different values of a column, of which a unit brings at most `values`."""

    column: str
    values: int
    method: DistinctMethod

    @property
    def needs_rows(self) -> bool:
        """A unit's values are limited, whatever its rows."""
        return False

    @property
    def limits_values(self) -> bool:
        """A unit counts with at most `values` of them."""
        return True

    @property
    def divisible(self) -> bool:
        """In a matching a unit has a place or none."""
        return self.method == "shares"

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return what is counted."""
        column = written.get(self.column, self.column)
        return f"different values of {column}, at most {self.values:,} of a unit"

    def estimates(self, design: Design, name: str) -> tuple[Estimate, ...]:
        """Ask for the number of different values."""
        statistic: Statistic = (
            DistinctMatched(self.column, self.values)
            if self.method == "matching"
            else DistinctShared(self.column, self.values)
        )
        design.add(statistic)
        return (CountEstimate(name, statistic.names[0], whole=True),)


@asked("APPROX_COUNT_DISTINCT", counts=True)
def count_distinct(column: str, *, values: int, method: DistinctMethod = "matching") -> Aggregate:
    """Count the different values of a column that are not NULL and not NaN.

    Args:
        column: any column.
        values: a unit counts with at most so many different values in a group.
        method: "matching" counts as many values as can be, each brought by one unit. "shares" divides each
            unit among its rows: less is counted where units have more values than the limit, but it needs
            no look at all units of a group together, which takes less on Spark and Beam.
    Returns:
        What `agg` takes: the number of different values, a whole number.
    Raises:
        QueryError: the column is no name.
        ParameterError: the limit is not a whole number from 1 to 1,000,000, or there is no such method.

    >>> count_distinct("product", values=3)
    CountDistinct(column='product', values=3, method='matching')

    Source:
        Knop and Steinke 2023, "Counting distinct elements under person-level differential privacy". Proof:
        docs/proofs/distinct_matched.md.
    """
    if positive_int(values, "values") > MOST_VALUES:
        raise ParameterError("values", values, f"at most {MOST_VALUES:,}")
    one_of(method, "method", get_args(DistinctMethod))
    return CountDistinct(column_name("count_distinct", column), values, method)
