"""Numbers of rows and of privacy units, and their error bars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sfumato.dataclass import dataclass
from sfumato.exact import Number
from sfumato.noise.intervals import Interval
from sfumato.noise.values import Floats
from sfumato.query.aggregates.aggregate import Aggregate, column_name
from sfumato.query.aggregates.called import asked
from sfumato.query.aggregates.estimate import Estimate, linear_interval
from sfumato.query.aggregates.weighted import Weighted, weighted, weights_of

if TYPE_CHECKING:
    from sfumato.query.noisy.noisy_statistics import NoisyNumbers
    from sfumato.query.requirements import Design


@dataclass(frozen=True, repr=False)
class CountRows(Aggregate):
    """The number of rows, or of rows where `column` has a value."""

    column: str | None = None

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return what is counted."""
        if self.column is None:
            return "number of rows"
        return f"rows with a value of {written.get(self.column, self.column)}"

    def estimates(self, design: Design, name: str) -> tuple[Estimate, ...]:
        """Ask for a number of rows."""
        count, null_count = (design.base, None) if self.column is None else design.counted(self.column)
        return (CountEstimate(name, count, null_count, whole=True),)

    def weighted_estimates(self, design: Design, name: str, asked: Weighted) -> tuple[Estimate, ...]:
        """Ask for the sum of weights."""
        return (CountEstimate(name, design.weighted(asked).names[0]),)


@dataclass(frozen=True, repr=False)
class CountPrivacyUnits(Aggregate):
    """The number of privacy units."""

    @property
    def needs_rows(self) -> bool:
        """A unit counts once, whatever its rows."""
        return False

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return what is counted."""
        return "number of privacy units"

    def estimates(self, design: Design, name: str) -> tuple[Estimate, ...]:
        """Ask for the number of units."""
        return (CountEstimate(name, "units", whole=True),)


@asked("COUNT", "CUMULATIVE_COUNT", "ANON_COUNT", counts=True)
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


@asked()
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


@dataclass(frozen=True)
class CountEstimate(Estimate):
    """A number of units, of rows, or of rows with a value."""

    kind = "count"

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy count."""
        return self.counted(numbers)

    @property
    def linear(self) -> Mapping[str, float]:
        """The count itself."""
        return self.signs

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return the count, give or take the tolerance of its noises."""
        return linear_interval(numbers, self.linear, failure)
