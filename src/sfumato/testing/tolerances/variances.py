"""Tolerances of a noisy variance: the interval rule, the exact law, and the complementary tolerance.

The variance is the noisy sum of squares over the noisy count, less the square of the noisy sum over the noisy
count, all of distances from the midpoint. Its law is in `variance_law`.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict, Unpack

from sfumato.errors import ParameterError
from sfumato.exact import Number, at_least_0, positive
from sfumato.exact.isolation import isolated
from sfumato.noise import Law
from sfumato.testing.tolerances.noises import Event
from sfumato.testing.tolerances.numbers import per_partition_k
from sfumato.testing.tolerances.ratios import (
    Probability,
    RatioTolerance,
    Rounded,
    largest_tolerance,
    part_tolerance,
    probability,
    smallest_tolerance,
)
from sfumato.testing.tolerances.variance_law import VarianceLaw

_rules = ("joint", "exact")
_search = 1e-6


class VarianceCase(TypedDict):
    """A raw variance and its noises, as `variance_tolerance` describes them."""

    normalized_squares: Number
    normalized_sum: Number
    count: int
    squares_noise: Law
    sum_noise: Law
    count_noise: Law
    lower: Number
    upper: Number
    rounded: Rounded
    squares_step: NotRequired[Number | None]
    sum_step: NotRequired[Number | None]


@isolated
def variance_tolerance(
    k: Number,
    *,
    normalized_squares: Number,
    normalized_sum: Number,
    count: int,
    squares_noise: Law,
    sum_noise: Law,
    count_noise: Law,
    lower: Number,
    upper: Number,
    rounded: Rounded,
    rule: str = "joint",
    squares_step: Number | None = None,
    sum_step: Number | None = None,
) -> RatioTolerance:
    """Return t with P(|noisy variance - raw variance| > t) <= 10^-k.

    Rules: "joint", by interval arithmetic, where all three noises stay near but for 10^-k; "exact", the
    smallest t, from the law of the noisy variance. (The document of 2020 has a rule for means alone.)

    Args:
        k: greater than 0; 10^-k is the flakiness.
        normalized_squares: the raw sum of squared distances from the midpoint of the bounds.
        normalized_sum: the raw sum of distances from the midpoint, in the unit of the values.
        count: the raw count, a whole number.
        squares_noise: the law of the noise of the sum of squares, in squared units.
        sum_noise: the law of the sum's noise, in the unit of the values.
        count_noise: the law of the count's noise.
        lower: lower bound of the values; the noisy variance is clamped to [0, (upper - lower)^2 / 4].
        upper: upper bound of the values.
        rounded: which noises the tested library rounds: "none", where all noise is real (PipelineDP);
            "count", to whole numbers; "sums", to whole steps; or "all". A tolerance for whole counts is
            false for real ones.
        rule: one of the two.
        squares_step: the grid step of a rounded sum of squares, in squared units; left out for a real one.
        sum_step: the grid step of a rounded sum likewise.
    Returns:
        t in squared units; a float with the `intervals` of "squares", "sum", "count", "mean square",
        "squared mean" and "variance". "exact" is sound and within 1e-5 of the smallest.
    Raises:
        ParameterError: an argument is out of range.
    Source:
        docs/tolerances.md, "Variances".

    >>> from sfumato.noise import Laplace
    >>> noises = dict(squares_noise=Laplace(4), sum_noise=Laplace(2), count_noise=Laplace(1))
    >>> t = variance_tolerance(
    ...     5, normalized_squares=4000, normalized_sum=1000, count=1000, lower=-4, upper=4, rounded="count",
    ...     **noises)
    >>> print(t.explain())
          squares: 3949.55386 <= 4000 <= 4050.44614
              sum: 974.776931 <= 1000 <= 1025.22307
            count: 987 <= 1000 <= 1013
      mean square: 3.89886857 <= 4 <= 4.10379548
     squared mean: 0.925958654 <= 1 <= 1.07895277
         variance: 2.8199158 <= 3 <= 3.17783683
        tolerance: 0.180084199 (rule joint, k = 5, 5.47711981 for each noise)
    """
    exact_k = positive(k, "k")
    law = VarianceLaw.of(
        normalized_squares,
        normalized_sum,
        count,
        squares_noise,
        sum_noise,
        count_noise,
        lower,
        upper,
        rounded,
        squares_step,
        sum_step,
    )
    if rule not in _rules:
        why = "; the document of 2020 has a rule for means alone" if rule == "2020" else ""
        raise ParameterError("rule", rule, f"one of {', '.join(map(repr, _rules))}{why}")
    part_k = per_partition_k(k, 3)
    joint = law.by_intervals(
        part_tolerance(squares_noise, part_k, law.squares_step),
        part_tolerance(sum_noise, part_k, law.sum_step),
        part_tolerance(count_noise, part_k, law.count_step),
        float(exact_k),
        part_k,
    )
    if rule == "joint":
        return joint
    t = smallest_tolerance(law.roughly, exact_k, float(joint), _search, [law.raw, law.top - law.raw])
    return law.exactly(min(t, float(joint)), float(exact_k))


@isolated
def variance_failure_probability(tolerance: Number, **case: Unpack[VarianceCase]) -> Probability:
    """Return P(|noisy variance - raw variance| > tolerance), the true flakiness of a test.

    Args:
        tolerance: at least 0, in squared units.
        case: the raw numbers, noises and bounds, by name, as for `variance_tolerance`.
    Returns:
        A float with its `error`, and `k`, -log10 of it. With rounded noise up to four million noisy counts
        and sums are added up, more are enclosed between two integrals; `error` says how widely.
    Raises:
        ParameterError: an argument is out of range.
    Source:
        docs/tolerances.md, "The law of a variance".

    >>> from sfumato.noise import Laplace
    >>> p = variance_failure_probability(
    ...     0.1, normalized_squares=4000, normalized_sum=1000, count=1000, lower=-4, upper=4,
    ...     squares_noise=Laplace(4), sum_noise=Laplace(2), count_noise=Laplace(1), rounded="count")
    >>> p.error < 1e-9 * p < p < 1e-4
    True
    """
    law = VarianceLaw.of(**case)
    return probability(law.integral, at_least_0(tolerance, "tolerance"), Event.outside)


@isolated
def complementary_variance_tolerance(k: Number, **case: Unpack[VarianceCase]) -> float:
    """Return the largest t with P(|noisy variance - raw variance| < t) <= 10^-k.

    Args:
        k: greater than 0; 10^-k is the chance that correct noise is taken for missing.
        case: the raw numbers, noises and bounds, by name, as for `variance_tolerance`.
    Returns:
        t in squared units, sound and within 1e-5 of the largest; 0 where the raw variance itself is more
        likely than 10^-k (as with rounded noise, or for a raw variance of 0), inf where every t will do.
    Raises:
        ParameterError: an argument is out of range.
    Source:
        docs/tolerances.md, "The law of a variance".

    >>> from sfumato.noise import Laplace
    >>> t = complementary_variance_tolerance(
    ...     5, normalized_squares=4000, normalized_sum=1000, count=1000, lower=-4, upper=4,
    ...     squares_noise=Laplace(4), sum_noise=Laplace(2), count_noise=Laplace(1), rounded="count")
    >>> 5e-8 < t < 2e-7
    True
    """
    law = VarianceLaw.of(**case)
    start = law.squares_noise.unit / max(1, law.count)
    return largest_tolerance(law.roughly, positive(k, "k"), start, _search)
