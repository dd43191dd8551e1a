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
from sfumato.query.aggregates.weighted_aggregates import Weighted, weighted, weights_of
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
        return (CountEstimate(name, design.weighted(aggregate).names[0]),)


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
    """Count rows, or rows in which `column` is not NULL and not NaN.

    Args:
        column: a column; all rows count without one.
        weight: a column of survey weights: then rows count as many as they stand for in the population.
        max_weight: larger weights are trimmed to this; below 0 they are 0, and rows without one do not count.
    Returns:
        What `agg` takes: the number of rows, a whole number; with weights a float.
    Raises:
        QueryError: the column is no name, or one of the weights is missing.
    Source:
        Dwork, McSherry, Nissim and Smith 2006, "Calibrating noise to sensitivity in private data analysis".
        Proof: docs/proofs/count.md, and with weights docs/proofs/weighted_sum.md.

    >>> count()
    CountRows(column=None)
    """
    name = column_name("count", column) if column is not None else None
    return weighted(CountRows(name), weights_of("count", weight, max_weight))


@aggregate_function()
def count_units() -> Aggregate:
    """Count privacy units (people): each counts once in each of its groups.

    Returns:
        What `agg` takes: the number of units, a whole number.
    Source:
        Proof: docs/proofs/count_units.md.

    >>> count_units()
    CountPrivacyUnits()
    """
    return CountPrivacyUnits()


@aggregate_function("APPROX_COUNT_DISTINCT", counts=True)
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
