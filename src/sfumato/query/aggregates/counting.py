"""Counting aggregates: numbers of rows, of privacy units and of distinct values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, get_args

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact import Number, one_of, positive_int
from sfumato.noise.law_tails import Floats
from sfumato.query.aggregates.aggregate import Aggregate, aggregate_function, column_name
from sfumato.query.aggregates.estimate import Estimate
from sfumato.query.aggregates.weighted_aggregates import Weighted, get_weights, weighted
from sfumato.query.option_names import DistinctMethod
from sfumato.transformations import DistinctMatched, DistinctShared, Statistic

if TYPE_CHECKING:
    from sfumato.plan.noisy_statistics import NoisyNumbers
    from sfumato.plan.required_statistics import Design


MAX_VALUES = 1_000_000


@dataclass(frozen=True, repr=False)
class CountRows(Aggregate):
    """Counts rows, or rows where `column` has a value."""

    in_totals = True

    column: str | None = None

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return which rows are counted."""
        if self.column is None:
            return "number of rows"
        return f"rows with a value of {written.get(self.column, self.column)}"

    def estimates(self, design: Design, name: str) -> tuple[Estimate, ...]:
        """Return the estimate of a number of rows."""
        count, null_count = (design.base or "", "") if self.column is None else design.counted(self.column)
        return (CountEstimate(name, count, null_count, whole=True),)

    def weighted_estimates(self, design: Design, name: str, aggregate: Weighted) -> tuple[Estimate, ...]:
        """Return the estimate of a count of the population: the sum of weights."""
        return (CountEstimate(name, design.require_weights(aggregate).names[0]),)


@dataclass(frozen=True, repr=False)
class CountPrivacyUnits(Aggregate):
    """Counts privacy units."""

    in_totals = True

    @property
    def needs_rows(self) -> bool:
        """Whether counting units depends on a limit of rows: it does not, each counts once."""
        return False

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return that privacy units are counted."""
        return "number of privacy units"

    def estimates(self, design: Design, name: str) -> tuple[Estimate, ...]:
        """Return the estimate of a number of units."""
        return (CountEstimate(name, "units", whole=True),)


@dataclass(frozen=True, repr=False)
class CountDistinct(Aggregate):
    """Counts distinct values of a column, of which a unit contributes at most `values`."""

    column: str
    values: int
    method: DistinctMethod

    @property
    def needs_rows(self) -> bool:
        """Whether counting distinct values depends on a limit of rows: it does not."""
        return False

    @property
    def limits_values(self) -> bool:
        """Whether counting distinct values limits the values of a unit: it does, to `values`."""
        return True

    @property
    def divisible(self) -> bool:
        """Whether a unit may count in part: in a matching it counts with a value or not."""
        return self.method == "shares"

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return which distinct values are counted."""
        column = written.get(self.column, self.column)
        return f"distinct values of {column}, at most {self.values:,} of a unit"

    def estimates(self, design: Design, name: str) -> tuple[Estimate, ...]:
        """Return the estimate of a number of distinct values."""
        statistic: Statistic = (
            DistinctMatched(self.column, self.values)
            if self.method == "matching"
            else DistinctShared(self.column, self.values)
        )
        design.add(statistic)
        return (CountEstimate(name, statistic.names[0], whole=True),)


@aggregate_function("COUNT", "CUMULATIVE_COUNT", "ANON_COUNT", counts=True)
def count(
    column: str | None = None, *, weight: str | None = None, max_weight: Number | None = None
) -> Aggregate:
    """Count rows, or rows in which `column` is neither NULL nor NaN.

    Args:
        column: a column; leave it out to count all rows.
        weight: a column of survey weights, to estimate the number of rows in the population.
        max_weight: trim larger weights to this. Negative weights become 0; rows without a weight do not
            count.
    Returns:
        An aggregate for `agg`: the number of rows, a whole number, or a float with weights.
    Raises:
        QueryError: the column is not a name, or only one of `weight` and `max_weight` is given.
    Source:
        Dwork, McSherry, Nissim and Smith 2006, "Calibrating noise to sensitivity in private data analysis".
        Proof: docs/proofs/count.md, and with weights docs/proofs/weighted_sum.md.

    >>> count()
    CountRows(column=None)
    """
    name = column_name("count", column) if column is not None else None
    return weighted(CountRows(name), get_weights("count", weight, max_weight))


@aggregate_function()
def count_units() -> Aggregate:
    """Count privacy units (people): each unit counts once in each of its groups.

    Returns:
        An aggregate for `agg`: the number of units, a whole number.
    Source:
        Proof: docs/proofs/count_units.md.

    >>> count_units()
    CountPrivacyUnits()
    """
    return CountPrivacyUnits()


@aggregate_function("APPROX_COUNT_DISTINCT", counts=True)
def count_distinct(column: str, *, values: int, method: DistinctMethod = "matching") -> Aggregate:
    """Count the distinct values of a column that are neither NULL nor NaN.

    Args:
        column: any column.
        values: the most distinct values that a unit may contribute to a group.
        method: "matching" counts as many values as possible, each contributed by one unit. "shares" divides
            each unit among its rows; it counts less if units have more values than the limit, but takes less
            time on Spark and Beam because it does not need to compare all units of a group.
    Returns:
        An aggregate for `agg`: the number of distinct values, a whole number.
    Raises:
        QueryError: the column is not a name.
        ParameterError: the limit is not a whole number from 1 to 1,000,000, or the method does not exist.

    >>> count_distinct("product", values=3)
    CountDistinct(column='product', values=3, method='matching')

    Source:
        Knop and Steinke 2023, "Counting distinct elements under person-level differential privacy". Proof:
        docs/proofs/distinct_matched.md.
    """
    if positive_int(values, "values") > MAX_VALUES:
        raise ParameterError("values", values, f"at most {MAX_VALUES:,}")
    one_of(method, "method", get_args(DistinctMethod))
    return CountDistinct(column_name("count_distinct", column), values, method)


@dataclass(frozen=True)
class CountEstimate(Estimate):
    """The estimate of a count: of units, of rows, or of rows with a value."""

    kind = "count"

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy count."""
        return self.counted(numbers)

    @property
    def linear(self) -> Mapping[str, float]:
        """The noisy statistics that a count is the sum of."""
        return self.signs
