"""Sums, means, variances and standard deviations of a column's values within bounds."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.errors import ColumnError, QueryError
from sfumato.exact import Number, one_of
from sfumato.noise.law_tails import Floats
from sfumato.noise.noise_sums import Form, Interval
from sfumato.query.aggregates.aggregate import Aggregate, BoundedAggregate, aggregate_function, column_name
from sfumato.query.aggregates.automatic_bounds import with_bounds
from sfumato.query.aggregates.estimate import (
    LARGEST_WHOLE,
    MAX_SCALES,
    MAX_UNITS,
    Estimate,
)
from sfumato.query.aggregates.regression import Term, covariance_interval, cross_count, cross_term
from sfumato.query.aggregates.stratified_proportion import stratified
from sfumato.query.aggregates.weighted_aggregates import Weighted, get_weights, weighted
from sfumato.query.option_names import Bounded
from sfumato.query.schema import IN_PLACE, Kind, Schema, format_name
from sfumato.transformations import CrossMoments, Grid, Role, UnitSum, ValueGrid
from sfumato.transformations.statistics.unit_sum import HUGE_STEPS

if TYPE_CHECKING:
    from sfumato.plan.noisy_statistics import NoisyNumbers
    from sfumato.plan.required_statistics import Design


@dataclass(frozen=True, repr=False)
class Sum(BoundedAggregate):
    """A sum; `per` says whether bounds apply to each "row", or to each "unit" in a group."""

    kind = "sum"
    in_totals = True

    per: Bounded | None = None

    @property
    def needs_rows(self) -> bool:
        """Whether a sum depends on a limit of rows: if its bounds are of each row."""
        return self.per == "row"

    def clamps(self, schema: Schema) -> bool:
        """Whether a sum's bounds may clamp values, or what a unit adds with all of its rows."""
        return self.per != "row" or super().clamps(schema)

    def estimates(self, design: Design, name: str) -> tuple[Estimate, ...]:
        """Return the estimate of a sum, of clamped rows or of units' clamped sums."""
        integer = design.schema[self.column].kind in (Kind.INTEGER, Kind.BOOLEAN)
        per_row = design.per_row(self)
        bound = max(abs(self.lower), abs(self.upper))
        most = max(Fraction(MAX_UNITS), design.multiplier * MAX_SCALES)
        wide = integer and bound * (design.rows if per_row else 1) * most > LARGEST_WHOLE
        if not per_row:
            return (self._per_unit_estimate(design, name, integer, wide),)
        block = self.block
        moments = design.moments(block)
        count, null_count, centre = "", "", 0.0
        if block not in design.lone_sums:
            count, null_count = design.counted(self.column)
            centre = float(moments.grid.centre * moments.grid.step)
        return (
            SumEstimate(name, count, null_count, moments.names[0], centre=centre, whole=integer, wide=wide),
        )

    def weighted_estimates(self, design: Design, name: str, aggregate: Weighted) -> tuple[Estimate, ...]:
        """Return the estimate of the population's sum."""
        return (SumEstimate(name, **_weighted(design, aggregate)),)

    def _per_unit_estimate(self, design: Design, name: str, integer: bool, wide: bool) -> Estimate:
        lower, upper = self.lower, self.upper
        bound = max(abs(lower), abs(upper))
        missing = design.missing(self.column)
        first, last = (min(lower, Fraction(0)), max(upper, Fraction(0))) if missing else (lower, upper)
        largest = (last - first) / 2 if design.units else bound
        # Noise on whole numbers has scales in steps of one; beyond 2^50 of them, or where bounds are
        # beyond what a row is clamped to, or where parts of a unit count, a column of integers is put
        # on a grid like any other.
        largest_noise = 2**50 if not design.query.added_up else 2**30
        exact = integer and not design.query.scaled and bound <= HUGE_STEPS
        exact = exact and design.multiplier * bound < largest_noise
        if exact:
            grid = Grid(0)
        else:
            bounds = ValueGrid.around(lower, upper, Grid.for_noise(design.multiplier * largest))
            grid = Grid(bounds.exponent)
        low, high = grid.steps_at_most(lower), grid.steps_at_least(upper)
        label = design.label(self.block)
        made = UnitSum(label, self.column, grid.exponent, low, high, exact, missing=missing)
        if design.units:
            made = replace(made, centre=builtins.sum(made.ends) // 2)
        design.add(made)
        return SumEstimate(
            name,
            "units" if design.units else "",
            total=made.names[0],
            centre=float(made.centre * grid.step),
            whole=integer,
            wide=wide,
        )


@dataclass(frozen=True, repr=False)
class CountIf(Sum):
    """A count of rows in which a column is true: a sum of 0 and 1."""

    lower: Fraction = Fraction(0)
    upper: Fraction = Fraction(1)
    per: Bounded | None = "row"

    def check(self, name: str, schema: Schema) -> None:
        """Check that the column of a `count_if` holds truth values."""
        Aggregate.check(self, name, schema)
        if schema[self.column].kind is not Kind.BOOLEAN:
            column = format_name(self.column)
            raise ColumnError(
                f"agg: {name} counts rows in which column {self.column!r} is true, but it is "
                f"{schema[self.column].type_name}; use a condition, such as {column} IS NOT NULL, {IN_PLACE}"
            )

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return the condition under which rows are counted."""
        return f"rows in which {written.get(self.column, self.column)} is true"


@dataclass(frozen=True, repr=False)
class Mean(BoundedAggregate):
    """A mean of a column within bounds."""

    kind = "mean"
    needs_moments = in_totals = True

    def estimates(self, design: Design, name: str) -> tuple[Estimate, ...]:
        """Return the estimate of a mean; it shares the sum of covariances of the same rows."""
        if (found := _find_covariance(design, self)) is not None:
            cross, place = found
            term = cross_term(cross, place)
            bounds = float(self.lower), float(self.upper)
            rows = cross_count(design, cross)
            return (MeanEstimate(name, rows, "", term.total, "", term.centre, 0.0, *bounds),)
        moments = design.moments(self.block)
        count, null_count = design.counted(self.column)
        return (
            MeanEstimate(
                name,
                count,
                null_count,
                moments.names[0],
                centre=float(moments.grid.centre * moments.grid.step),
                lower=float(self.lower),
                upper=float(self.upper),
            ),
        )

    def weighted_estimates(self, design: Design, name: str, aggregate: Weighted) -> tuple[Estimate, ...]:
        """Return the estimate of the population's mean."""
        # Like one row of a mean without weights, or less, where there is less noise.
        least = float(aggregate.weights.most * min(Fraction(1), design.multiplier))
        lower, upper = float(self.lower), float(self.upper)
        return (MeanEstimate(name, least=least, lower=lower, upper=upper, **_weighted(design, aggregate)),)


@dataclass(frozen=True, repr=False)
class Variance(BoundedAggregate):
    """A population variance, divided by the count."""

    kind = "variance"
    needs_moments = needs_squares = in_totals = True

    def estimates(self, design: Design, name: str) -> tuple[Estimate, ...]:
        """Return the estimate of a variance."""
        width = float(self.upper) - float(self.lower)
        return (VarianceEstimate(name, upper=width * width / 4, **_spread(design, self)),)


@dataclass(frozen=True, repr=False)
class StandardDeviation(BoundedAggregate):
    """A population standard deviation."""

    kind = "standard deviation"
    needs_moments = needs_squares = in_totals = True

    def estimates(self, design: Design, name: str) -> tuple[Estimate, ...]:
        """Return the estimate of a standard deviation."""
        width = float(self.upper) - float(self.lower)
        return (StandardDeviationEstimate(name, upper=width / 2, **_spread(design, self)),)


@aggregate_function("SUM", "CUMULATIVE_SUM", "ANON_SUM")
def sum(
    column: str,
    *,
    lower: Number | None = None,
    upper: Number | None = None,
    per: Bounded | None = None,
    weight: str | None = None,
    max_weight: Number | None = None,
    magnitudes: tuple[Number, Number] | None = None,
    missing: Number | None = None,
) -> Aggregate:
    """Add up a column.

    Args:
        column: a numeric column.
        lower, upper: bounds in the column's unit. They clamp each unit's exact sum in a group, or each row
            with per="row". Leave both out, here and below, if the table's catalog declares bounds for the
            column; these clamp each row. With "auto" for one or both, a release infers them for a share of
            its budget (docs/choosing.md).
        per: "unit" or "row". The default is "unit"; but with rows=1 and a mean or variance of the same column
            and bounds in the same question, the sum shares their numbers and is per row.
        weight: a column of survey weights, to estimate the total of the population: the sum of values times
            weights (an expansion total). Bounds then clamp each row.
        max_weight: trim larger weights to this. Negative weights become 0; rows without a weight do not
            count.
        magnitudes: for bounds that are inferred, the smallest and largest size of values, such as (1, 10**6).
            You know them beforehand and do not read them from the data; larger values are clamped.
        missing: a number to replace NULL and NaN before bounds apply. Without it, rows without a value do not
            count.
    Returns:
        An aggregate for `agg`: the sum, in the column's unit.
    Raises:
        QueryError: a bound, `weight` or `max_weight` is missing, a bound is not finite, or lower is not below
            upper; or per-unit bounds are given with weights.
    Source:
        Wilson et al. 2020, "Differentially private SQL with bounded user contribution". Proofs:
        docs/proofs/unit_sum.md, per row docs/proofs/moments.md, and with weights docs/proofs/weighted_sum.md.

    >>> sum("docvis", lower=0, upper=60)
    Sum(column='docvis', lower=0, upper=60, per=None)
    """
    if per is not None:
        one_of(per, "per", get_args(Bounded))
    weights = get_weights("sum", weight, max_weight)
    if weights is not None and per == "unit":
        raise QueryError("sum: with weights, bounds are for each row. Leave per='unit' out")
    own: Bounded | None = per if weights is None else "row"
    options = {"per": per} if weights is None else {"per": per, "weight": weight, "max_weight": max_weight}
    return with_bounds(
        sum,
        column,
        (lower, upper),
        magnitudes,
        lambda name, low, high: weighted(Sum(name, low, high, own), weights),
        options,
        missing,
    )


@aggregate_function("COUNTIF", "COUNT_IF", counts=True)
def count_if(column: str) -> Aggregate:
    """Count the rows in which a column is true.

    Args:
        column: a column of truth values; rows without a value do not count.
    Returns:
        An aggregate for `agg`: the number of rows, a whole number.
    Raises:
        QueryError: the column is not a name.
    Source:
        A sum of values from 0 to 1. Proof: docs/proofs/moments.md.

    >>> count_if("employed").column
    'employed'
    """
    return CountIf(column_name("count_if", column))


@aggregate_function("AVG", "ANON_AVG")
def mean(
    column: str,
    *,
    lower: Number | None = None,
    upper: Number | None = None,
    weight: str | None = None,
    max_weight: Number | None = None,
    magnitudes: tuple[Number, Number] | None = None,
    missing: Number | None = None,
) -> Aggregate:
    """Average a column whose values are clamped to [lower, upper].

    Args:
        column: a numeric column.
        lower, upper: bounds of each row, in the column's unit.
        weight, max_weight: as for `sum`, to estimate the mean of the population: the sum of values times
            weights, divided by the sum of weights.
        magnitudes, missing: as for `sum`.
    Returns:
        An aggregate for `agg`: the mean, in the column's unit, within the bounds.
    Raises:
        QueryError: a bound, `weight` or `max_weight` is missing, a bound is not finite, or lower is not below
            upper.
    Source:
        The law of the quotient: docs/tolerances.md, "Means". Proofs: docs/proofs/moments.md, and with weights
        docs/proofs/weighted_sum.md.

    >>> mean("income", lower=0, upper=100, weight="w", max_weight=50).weights
    Weights(column='w', most=50)
    """
    weights = get_weights("mean", weight, max_weight)
    options = {} if weights is None else {"weight": weight, "max_weight": max_weight}
    return with_bounds(
        mean, column, (lower, upper), magnitudes, lambda *of: weighted(Mean(*of), weights), options, missing
    )


@aggregate_function("STRATIFIED_PROPORTION")
def proportion(
    column: str,
    *,
    weight: str | None = None,
    max_weight: Number | None = None,
    stratum: str | None = None,
    asked: Mapping[Any, int] | None = None,
    population: Mapping[Any, int] | None = None,
    confidence: Number = Fraction(19, 20),
) -> Aggregate:
    """Return the share of rows whose answer is true, or the share in the population that they represent.

    Args:
        column: truth values, or 0 and 1; other numbers are clamped to these. Rows without a value do not
            count.
        weight, max_weight: the column of survey weights, and the value to which larger weights are trimmed.
        stratum: for a stratified sample, the column with each row's stratum. The column then has truth
            values, a missing answer counts as no, and the question has no groups.
        asked, population: for each stratum, the number of people asked, at least 2, and the number in the
            population. Both are public.
        confidence: the confidence of the interval, between 0 and 1.
    Returns:
        An aggregate. For a stratified sample it has four outputs: the proportion by its name, and
        `_standard_error`, `_low` and `_high`, which cover sampling and noise together.
    Raises:
        QueryError: the column is not a name, or only one of `weight` and `max_weight` is given.
        ParameterError: sizes are out of range, or are not given for the same strata.

    >>> proportion("employed")
    Mean(column='employed', lower=0, upper=1)
    >>> sizes = {"asked": {"E": 10, "H": 5}, "population": {"E": 90, "H": 30}}
    >>> proportion("award", stratum="school", **sizes).outputs("p")
    ('p', 'p_standard_error', 'p_low', 'p_high')

    Source:
        Hájek 1971, the ratio of two expansion totals; Cochran 1977, section 5.10. Proofs:
        docs/proofs/weighted_sum.md, docs/proofs/yes_in_strata.md.
    """
    if stratum is None and asked is None and population is None:
        return mean(column_name("proportion", column), lower=0, upper=1, weight=weight, max_weight=max_weight)
    if weight is not None or max_weight is not None:
        raise QueryError(
            "proportion: with strata, weights follow from asked and population. Leave weight and "
            "max_weight out"
        )
    return stratified(column, stratum, asked, population, confidence)


@aggregate_function("VARIANCE", "VAR_POP", "ANON_VAR_POP")
def variance(
    column: str,
    *,
    lower: Number | None = None,
    upper: Number | None = None,
    magnitudes: tuple[Number, Number] | None = None,
    missing: Number | None = None,
) -> Aggregate:
    """Return the population variance of a column whose values are clamped to [lower, upper].

    Args:
        column: a numeric column.
        lower, upper: bounds of each row, in the column's unit. With "auto" for one or both, a release infers
            them for a share of its budget (docs/choosing.md).
        magnitudes: for bounds that are inferred, the smallest and largest size of values.
        missing: as for `sum`.
    Returns:
        An aggregate for `agg`: the variance, in the square of the column's unit.
    Raises:
        QueryError: a bound is missing or not finite, lower is not below upper, or magnitudes are given for
            bounds that are not inferred.
    Source:
        The distribution of a function of three noisy numbers: docs/tolerances.md, "Variances". Proof:
        docs/proofs/moments.md.

    >>> variance("docvis", lower=0, upper=60)
    Variance(column='docvis', lower=0, upper=60)
    """
    return with_bounds(variance, column, (lower, upper), magnitudes, Variance, missing=missing)


@aggregate_function("STDDEV", "STDDEV_POP", "ANON_STDDEV_POP")
def stddev(
    column: str,
    *,
    lower: Number | None = None,
    upper: Number | None = None,
    magnitudes: tuple[Number, Number] | None = None,
    missing: Number | None = None,
) -> Aggregate:
    """Return the population standard deviation of a column whose values are clamped to [lower, upper].

    Args:
        column: a numeric column.
        lower, upper: bounds of each row, in the column's unit. With "auto" for one or both, a release infers
            them for a share of its budget (docs/choosing.md).
        magnitudes: for bounds that are inferred, the smallest and largest size of values.
        missing: as for `sum`.
    Returns:
        An aggregate for `agg`: the standard deviation, in the column's unit.
    Raises:
        QueryError: a bound is missing or not finite, lower is not below upper, or magnitudes are given for
            bounds that are not inferred.
    Source:
        As for `variance`, of which it is the square root.

    >>> stddev("docvis", lower=0, upper=60)
    StandardDeviation(column='docvis', lower=0, upper=60)
    """
    return with_bounds(stddev, column, (lower, upper), magnitudes, StandardDeviation, missing=missing)


@dataclass(frozen=True)
class MeanEstimate(Estimate):
    """The estimate of a mean: the noisy sum over the noisy count, which is at least `least`."""

    kind = "mean"

    @property
    def forms(self) -> tuple[Form, Form]:
        """The linear forms of noisy statistics of which a mean is the ratio."""
        count = Form(self.signs)
        return Form({self.total: 1.0}).plus(count, self.centre), count

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy mean, within its bounds."""
        mean = numbers.values[self.total] / np.maximum(self.counted(numbers), self.least)
        return np.clip(mean + self.centre, self.lower, self.upper)

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return Fieller's interval of a mean, within its bounds."""
        within = self.lower - self.centre, self.upper - self.centre
        count = self.noisy_forms(numbers)[1].weights
        mean = numbers.noises.ratio(self.used(numbers), {self.total: 1.0}, count, within, failure)
        return mean.shifted(self.centre)


@dataclass(frozen=True)
class VarianceEstimate(Estimate):
    """The estimate of a variance: the noisy mean of squares less the square of the noisy mean."""

    kind = "variance"

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy variance, from 0 to its largest possible value."""
        count = np.maximum(self.counted(numbers), 1.0)
        mean = numbers.values[self.total] / count
        return self.from_variance(numbers.values[self.squares] / count + self.square_centre - mean**2)

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return the interval of a variance."""
        terms = [Term(self.total, self.centre, self.half_range, self.square_centre)]
        found = covariance_interval(numbers, self.signs, terms, self.squares, failure)
        return found.map(self.from_variance)

    @property
    def sum_of_squares(self) -> dict[str, float]:
        """The noisy statistics that the sum of squares of a variance is the sum of."""
        each = self.square_centre + self.centre**2
        weights = {self.squares: 1.0, self.total: 2 * self.centre}
        return weights | {n: sign * each for n, sign in self.signs.items()}

    def from_variance(self, variance: Floats) -> Floats:
        """Return the output for a variance: the variance itself, clamped."""
        return np.clip(variance, 0.0, self.upper)


@dataclass(frozen=True)
class StandardDeviationEstimate(VarianceEstimate):
    """The estimate of a standard deviation: the root of that of the variance."""

    kind = "stddev"

    def from_variance(self, variance: Floats) -> Floats:
        """Return the standard deviation for a variance."""
        return np.asarray(np.sqrt(np.clip(variance, 0.0, self.upper**2)))


@dataclass(frozen=True)
class SumEstimate(Estimate):
    """The estimate of a sum: of distances from a centre, plus the centre for each value counted."""

    kind = "sum"

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy sum."""
        return numbers.values[self.total] + self.centre * self.counted(numbers)

    @property
    def linear(self) -> Mapping[str, float]:
        """The noisy statistics that the estimate of a sum is the sum of."""
        return {self.total: 1.0} | {n: sign * self.centre for n, sign in self.signs.items()}


def _weighted(design: Design, aggregate: Weighted) -> dict[str, Any]:
    """Return the noisy statistics of a weighted sum or mean: sums of weights, and of values times weights."""
    made = design.require_weights(aggregate)
    assert made.grid is not None
    return {
        "count": made.names[0],
        "total": made.names[1],
        "centre": float(made.grid.centre * made.grid.step),
    }


def _spread(design: Design, aggregate: Variance | StandardDeviation) -> dict[str, Any]:
    """Return the noisy statistics of a variance, which covariances of the same rows share."""
    if (found := _find_covariance(design, aggregate)) is not None:
        cross, place = found
        term = cross_term(cross, place)
        return {
            "count": cross_count(design, cross),
            "total": term.total,
            "squares": cross.product_name(place, place),
            "centre": term.centre,
            "square_centre": term.square_centre,
            "half_range": term.half_range,
        }
    moments = design.moments(aggregate.block)
    count, null_count = design.counted(aggregate.column)
    return {
        "count": count,
        "null_count": null_count,
        "total": moments.names[0],
        "squares": next(c.name for c in moments.coordinates if c.role is Role.SQUARES),
        "centre": float(moments.grid.centre * moments.grid.step),
        "square_centre": float(moments.square_centre * moments.square_step),
        "half_range": float(moments.half_range * moments.grid.step),
    }


def _find_covariance(
    design: Design, aggregate: Mean | Variance | StandardDeviation
) -> tuple[CrossMoments, int] | None:
    """Return the covariance statistic that has the same rows and bounds as a sum, mean or variance."""
    cross = design.cross(design.lacking([aggregate.column]))
    labels = [] if cross is None else [axis.label for axis in cross.axes]
    label = design.label(aggregate.block)
    return None if cross is None or label not in labels else (cross, labels.index(label))
