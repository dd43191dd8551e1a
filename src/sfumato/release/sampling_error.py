"""Error bars that also hold what a random sample leaves open: from noisy numbers, without normal theory.

The units are taken as a simple random sample of a population much larger than the sample. An interval of
noise holds what was counted in the sample; what the population has is then in an interval around both its
ends, as every one here grows with what was counted. Both failures add up. Proof: docs/proofs/sampling.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import betaincinv, gammainccinv, gammaincinv

from sfumato.dataclass import dataclass
from sfumato.errors import QueryError
from sfumato.exact.root_finding import halve
from sfumato.measurements.int128_array import arrow_column
from sfumato.noise.law_tails import Floats
from sfumato.noise.noise_sums import Form, Interval
from sfumato.plan.noisy_statistics import NoisyBatch, NoisyNumbers
from sfumato.plan.plan import Plan
from sfumato.query.aggregates import (
    Aggregate,
    CountPrivacyUnits,
    CountRows,
    Estimate,
    Mean,
    StandardDeviation,
    Sum,
    Variance,
)
from sfumato.query.aggregates.sum_mean_variance import StandardDeviationEstimate, VarianceEstimate
from sfumato.query.schema import Kind

_HALVINGS = 60
_OUTWARD = 1e-9  # relative, for what SciPy and floats are off
_ALMOST_NOTHING = 1e-9  # of one unit


def poisson(counted: Interval, tail: float) -> Interval:
    """Return the mean of a Poisson number by exact tests: sampling error of a count.

    Args:
        counted: what the number is between.
        tail: how probably each end may fail.

    Of a binomial law too: its tails are below those of the Poisson law of the same mean.

    Source:
        Garwood 1936, "Fiducial limits for the Poisson distribution"; Anderson and Samuels 1967.
    """
    low, high = _ends(counted)
    first = np.where(low > 0, gammaincinv(np.where(low > 0, low, 1.0), tail), 0.0)
    return _outward(Interval(first, gammainccinv(high + 1, tail)))


def poisson_sum(total: Interval, tail: float) -> Interval:
    """Return the mean of a sum of a Poisson number of values from 0 to 1, with sampling error.

    Such a sum of mean m is at least s > m with a probability of at most exp(s - m - s log(s / m)), and as
    much for at most s < m: its moments are no larger than those of a Poisson number.

    Args:
        total: what the sum is between.
        tail: how probably each end may fail.

    Source:
        Chernoff 1952.
    """
    low, high = _ends(total)
    least = -np.log(tail)

    def unlikely(s: Floats, mean: Floats) -> NDArray[np.bool_]:
        return np.asarray(_term(s, mean) - s + mean > least)

    first = halve(lambda mean: unlikely(low, mean), low, np.zeros_like(low), _HALVINGS)[1]
    far = 2 * high + 4 * least  # where mean - s - s log(mean / s) is above `least`
    last = halve(lambda mean: unlikely(high, mean), high, far, _HALVINGS)[1]
    return _outward(Interval(first, last))


def bennett(varies: Floats, tail: float) -> Floats:
    """Return the sampling error of a sum of a Poisson number of values from -1 to 1.

    Args:
        varies: the largest that the sum of their squares may be on average.
        tail: how probably it is further off, at either end.

    Source:
        Bennett 1962, with the moments of a Poisson number of values.
    """
    least = -np.log(tail)

    def unlikely(far: Floats) -> NDArray[np.bool_]:
        with np.errstate(divide="ignore"):
            return np.asarray((varies + far) * np.log1p(far / varies) - far > least)

    end = 2 * least + 2 * np.sqrt(least * varies)
    return np.asarray(halve(unlikely, np.zeros_like(varies), end, _HALVINGS)[1])


def clopper_pearson(ones: Interval, zeros: Interval, tail: float) -> Interval:
    """Return the share of ones in the population by exact tests of the sample.

    Args:
        ones, zeros: what their numbers in the sample are between.
        tail: how probably each end may fail.

    Source:
        Clopper and Pearson 1934.
    """

    def least(ones: Floats, zeros: Floats) -> Floats:
        there = ones > 0
        return np.where(there, betaincinv(np.where(there, ones, 1.0), zeros + 1, tail), 0.0)

    (low, high), (few, many) = _ends(ones), _ends(zeros)
    return _outward(Interval(least(low, many), 1 - least(few, high)), 1.0)


def entropy(above: Interval, below: Interval, tail: float) -> Interval:
    """Return the population mean of values from 0 to 1, by relative entropy from the sample's.

    Args:
        above: what the sum of values is between.
        below: the same of the sum of what they lack of 1.
        tail: how probably each end may fail.

    Source:
        Hoeffding 1963, "Probability inequalities for sums of bounded random variables", theorem 1.
    """
    least = -np.log(tail)

    def lowest(s: Floats, r: Floats) -> Floats:
        """Return the lowest population mean for sums s and r of the sample."""
        count = np.maximum(s + r, np.finfo(float).tiny)

        def unlikely(p: Floats) -> NDArray[np.bool_]:
            return np.asarray(_term(s, count * p) + _term(r, count * (1 - p)) > least)

        return np.asarray(halve(unlikely, s / count, np.zeros_like(s), _HALVINGS)[1])

    (low, high), (few, many) = _ends(above), _ends(below)
    return _outward(Interval(lowest(low, many), 1 - lowest(few, high)), 1.0)


def estimate_mean(above: Interval, below: Interval, tail: float) -> Interval:
    """Return the population mean of values of a Poisson number of units that count in part.

    Args:
        above, below: as of `entropy`, with each value times the part that its unit counts.
        tail: how probably each end may fail, and that units may count more on average than is found.

    Sums of distances from the true mean p are off by Bennett's bound; their squares add up to at most
    p (1 - p) times what all units count.
    """
    (low, high), (few, many) = _ends(above), _ends(below)
    largest = poisson_sum(Interval(high + many, high + many), tail).high

    def lowest(s: Floats, r: Floats) -> Floats:
        """Return the lowest population mean for sums s and r of the sample."""

        def unlikely(p: Floats) -> NDArray[np.bool_]:
            return np.asarray(s * (1 - p) - r * p > bennett(largest * p * (1 - p), tail))

        start = s / np.maximum(s + r, np.finfo(float).tiny)
        return np.asarray(halve(unlikely, start, np.zeros_like(s), _HALVINGS)[1])

    return _outward(Interval(lowest(low, many), 1 - lowest(few, high)), 1.0)


def bernstein(above: Interval, below: Interval, variance: Floats, tail: float) -> Interval:
    """Return the population mean of values from 0 to 1, by their variance in the sample.

    Args:
        above, below: as of `entropy`.
        variance: the largest that the sample's may be, divided by the count.
        tail: how probably each end may fail.

    Source:
        Maurer and Pontil 2009, "Empirical Bernstein bounds and sample variance penalization", theorem 4.
    """
    (low, high), (few, many) = _ends(above), _ends(below)
    count, least = low + few, np.log(2 / tail)
    known = count > 1
    less = np.where(known, count - 1, 1.0)
    half = np.sqrt(2 * variance * least / less) + 7 * least / (3 * less)
    half = np.where(known, half, np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        first = np.where(low > 0, low / (low + many), 0.0) - half
        last = np.where(few > 0, high / (high + few), 1.0) + half
    return _outward(Interval(first, last), 1.0)


def _term(s: Floats, mean: Floats) -> Floats:
    """Return s log(s / mean), which is 0 at 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(s > 0, s * np.log(np.where(s > 0, s, 1.0) / mean), 0.0))


def _ends(interval: Interval) -> tuple[Floats, Floats]:
    """Return the ends of a sampling interval that is not negative, rounded outward."""
    low = np.where(interval.low > _ALMOST_NOTHING, interval.low, 0.0)
    return low, np.maximum(interval.high, _ALMOST_NOTHING)


def _outward(interval: Interval, maximum: float = np.inf) -> Interval:
    """Return a sampling interval from 0 a little wider, but within what is possible."""
    low, high = interval.low * (1 - _OUTWARD), interval.high * (1 + _OUTWARD)
    return Interval(np.maximum(low, 0.0), np.minimum(high, maximum))


@dataclass(frozen=True)
class Sampled:
    """Error bars of a plan's outputs with sampling error.

    Args:
        plan: of the release.
    Raises:
        QueryError: units are no simple random sample of what is counted, or no output has such a bar.
    """

    plan: Plan

    def __post_init__(self) -> None:
        query = self.plan.query
        if query.series is not None or query.grouping is not None:
            raise QueryError(
                "errors: sampling=True is not for cumulative totals or totals of groups. Put those "
                "in another release, or leave sampling out"
            )
        if query.total_rows is not None:
            raise QueryError(
                "errors: sampling=True needs limits in each group, groups= and rows=, not "
                "total_rows. Change the limits, or leave sampling out"
            )
        if not any(self._has(e) for e in self.plan.requirements.estimates):
            raise QueryError(
                "errors: sampling=True is for counts, sums, means and proportions, with one row for "
                f"each unit (rows=1; here rows={query.rows}), except sums of units that are at "
                "least 0, or with count_units(). Use one of these, or leave sampling out"
            )

    def half_widths(self, batch: NoisyBatch, confidence: float, among: int = 1) -> pa.RecordBatch:
        """Return the keys and half-widths of error bars with sampling error; NULL if there are none.

        Args:
            batch: released groups.
            confidence: in (0, 1), that all of so many bars hold.
            among: how many.
        """
        found = {}
        for e in self.plan.requirements.estimates:
            if not self._has(e):
                found[e.name] = pa.nulls(batch.keys.num_rows, e.error_type)
                continue
            shown = e.output(batch.numbers).to_numpy(zero_copy_only=False).astype(float)
            bar = self.interval(e, batch.numbers, (1 - confidence) / among)
            bar = bar.clipped(0.0, np.inf) if e.nonnegative else bar
            found[e.name] = arrow_column(np.maximum(np.maximum(bar.high - shown, shown - bar.low), 0.0))
        return batch.with_keys(found)

    def _has(self, estimate: Estimate) -> bool:
        """Whether an output has error bars with sampling error."""
        asked, one = self._aggregates.get(estimate.name), self.plan.query.rows == 1
        match asked:
            case CountPrivacyUnits():
                return True
            case CountRows() | Mean():
                return one
            case Sum():
                signed = asked.lower < 0 < asked.upper
                return (one or asked.per != "row") and not (signed and not estimate.count)
        return False

    def make_interval(self, estimate: Estimate) -> Callable[[NoisyNumbers, float], Interval]:
        """Return the function that computes an output's intervals with sampling error.

        Raises:
            QueryError: it has none.
        """
        if not self._has(estimate):
            raise QueryError(
                f"sampling=True: {estimate.name} has no interval with the sampling error. Use "
                "counts, sums, means or proportions, with one row for each unit (rows=1; here "
                f"rows={self.plan.query.rows})"
            )
        return partial(self.interval, estimate)

    def parts(
        self, estimate: Estimate, own: Interval, rest: Interval, failure: float
    ) -> tuple[Interval, Interval]:
        """Return the expectation over samples of a group and of all others.

        Args:
            estimate: of a count or a sum.
            own, rest: what the group and the others have in the sample, within the noise.
            failure: how probably each of the two may fail.
        Raises:
            QueryError: the output has no such interval, or may be below 0.

        Of a unit the group has at most `largest`, and the others together as much for each further group.
        """
        self.make_interval(estimate)
        asked, query = self._aggregates[estimate.name], self.plan.query
        largest = 1.0
        if isinstance(asked, Sum):
            if asked.lower < 0 < asked.upper:
                raise QueryError(
                    f"share_of_total: with sampling=True, {estimate.name} needs bounds of one sign, "
                    f"but has {float(asked.lower):g} and {float(asked.upper):g}"
                )
            largest = float(asked.upper if asked.lower >= 0 else asked.lower)
        whole = not query.scaled and (not isinstance(asked, Sum) or self._zero_or_one(asked))
        limits = poisson if whole else poisson_sum
        of_group = limits(own.scaled(1 / largest), failure / 2).scaled(largest)
        most = largest * query.groups
        if query.groups > 1:
            limits = poisson_sum
        return of_group, limits(rest.scaled(1 / most), failure / 2).scaled(most)

    @property
    def _aggregates(self) -> Mapping[str, Aggregate]:
        return dict(self.plan.query.aggregates)

    def interval(self, estimate: Estimate, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return an interval that holds the population's value but with probability `failure`.

        Of counts and sums that is what a sample like this one has on average.
        """
        asked = self._aggregates[estimate.name]
        if isinstance(asked, Mean):
            return self._mean(asked, estimate, numbers, failure)
        if isinstance(asked, Sum):
            return self._sum(asked, estimate, numbers, failure)
        limits = poisson_sum if self.plan.query.scaled else poisson
        return limits(estimate.interval(numbers, failure / 2), failure / 4)

    def _sum(self, aggregate: Sum, estimate: Estimate, numbers: NoisyNumbers, failure: float) -> Interval:
        lower, upper = float(aggregate.lower), float(aggregate.upper)
        total = estimate.interval(numbers, failure / 4)
        if self._zero_or_one(aggregate):
            return poisson(total, 3 * failure / 8)
        largest = max(abs(lower), abs(upper))
        # How much the sum varies: by the squares where a variance is released, or by the count, or itself.
        spread = self._spread(aggregate) if self.plan.query.rows == 1 else None
        if spread is not None:
            assert isinstance(spread, VarianceEstimate)
            squares = _interval(numbers, spread.sum_of_squares, failure / 4)
        elif lower < 0 < upper:
            squares = _interval(numbers, estimate.signs, failure / 4).scaled(largest**2)
        else:
            sign = 1.0 if lower >= 0 else -1.0
            return poisson_sum(total.scaled(sign / largest), 3 * failure / 8).scaled(sign * largest)
        varies = poisson_sum(squares.scaled(1 / largest**2), failure / 8).high
        half = largest * bennett(varies, failure / 8)
        return Interval(total.low - half, total.high + half)

    def _mean(self, aggregate: Mean, estimate: Estimate, numbers: NoisyNumbers, failure: float) -> Interval:
        lower, upper = float(aggregate.lower), float(aggregate.upper)
        width = upper - lower
        # The sum of what each value has above the lower bound, and of what it has below the upper one.
        low = _interval(numbers, _less(estimate, lower), failure / 4).scaled(1 / width)
        high = _interval(numbers, _less(estimate, upper), failure / 4).scaled(-1 / width)
        spread = self._spread(aggregate)
        if self.plan.query.scaled:
            share = estimate_mean(low, high, failure / 6)
        elif self._zero_or_one(aggregate):
            share = clopper_pearson(low, high, failure / 4)
        elif spread is None:
            share = entropy(low, high, failure / 4)
        else:
            share = entropy(low, high, failure / 8)
            of_variance = spread.interval(numbers, failure / 16).high
            variance = of_variance**2 if isinstance(spread, StandardDeviationEstimate) else of_variance
            narrow = bernstein(low, high, variance / width**2, failure / 8 - failure / 32)
            share = Interval(np.maximum(share.low, narrow.low), np.minimum(share.high, narrow.high))
        return share.map(lambda x: lower + width * x)

    def _spread(self, aggregate: Mean | Sum) -> Estimate | None:
        """Return the sample variance of the same values, if it is released too."""
        same = [
            name
            for name, a in self._aggregates.items()
            if isinstance(a, Variance | StandardDeviation)
            and (a.column, a.lower, a.upper) == (aggregate.column, aggregate.lower, aggregate.upper)
        ]
        return next((e for e in self.plan.requirements.estimates if e.name in same), None)

    def _zero_or_one(self, aggregate: Sum | Mean) -> bool:
        """Whether each sampled value is 0 or 1: not if units in too many groups count in part."""
        whole = not self.plan.query.scaled and self.plan.query.schema[aggregate.column].kind in (
            Kind.INTEGER,
            Kind.BOOLEAN,
        )
        return whole and (aggregate.lower, aggregate.upper) == (Fraction(0), Fraction(1))


def _interval(numbers: NoisyNumbers, weights: Mapping[str, float], failure: float) -> Interval:
    """Return the interval of a weighted sum of noisy statistics in the sample."""
    return numbers.noises.interval(numbers.values, Form(weights), failure)


def _less(estimate: Estimate, bound: float) -> dict[str, float]:
    """Return the weights of noisy statistics in the sum of a sample's excess over a bound."""
    return {estimate.total: 1.0} | {n: sign * (estimate.centre - bound) for n, sign in estimate.signs.items()}
