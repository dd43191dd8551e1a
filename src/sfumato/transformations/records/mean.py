"""The mean of a known number of bounded records."""

from __future__ import annotations

from fractions import Fraction

from sfumato.framework import AtomDomain, Metric, Transformation
from sfumato.names.helpful import helpful
from sfumato.transformations.records.space import (
    ADD_REMOVE,
    Bounds,
    NumberKind,
    Records,
    exact_sum,
    known_size,
)


@helpful
def mean(
    lower: object, upper: object, size: int, *, kind: NumberKind = float, metric: Metric = ADD_REMOVE
) -> Transformation:
    """Return the exact mean of a known number of bounded numbers.

    Args:
        lower, upper: the bounds, as of `clamp`.
        size: the number of records n, at least 1: public, and the same in both neighbours.
        kind: int, float or Fraction.
        metric: SymmetricDistance() or ChangeOneDistance().
    Returns:
        A Transformation from vectors of n numbers within the bounds to a Fraction under
        AbsoluteDistance. One record replaced moves it by (upper - lower)/n; two vectors at symmetric
        distance d differ in d/2 records.
    Raises:
        ParameterError: a parameter is another.

    >>> mean(0, 1, size=4)([0.0, 1.0, 1.0, 0.5]), mean(0, 1, size=4).map(2)
    (Fraction(5, 8), Fraction(1, 4))

    Source:
        Triangle inequality. Proof: docs/proofs/mean.md.
    """
    bounds, size = Bounds.of("mean", lower, upper, kind), known_size("mean", size)
    records = Records("mean", bounds.domain, size, metric)
    return records.total(
        AtomDomain(Fraction, bounds.lower, bounds.upper),
        lambda values: exact_sum(values) / size,
        records.stability(bounds.width / size, bounds.width / size),
    )
