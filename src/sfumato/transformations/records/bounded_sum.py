"""The exact sum of bounded numbers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sfumato.framework import AtomDomain, Metric, Transformation
from sfumato.names.helpful import helpful
from sfumato.transformations.records.space import ADD_REMOVE, Bounds, NumberKind, Records, exact_sum


@helpful
def bounded_sum(
    lower: object,
    upper: object,
    *,
    kind: NumberKind = float,
    size: int | None = None,
    metric: Metric = ADD_REMOVE,
) -> Transformation:
    """Add up numbers between two bounds, exactly.

    Numbers are not clamped here: put `clamp` with the same bounds before.

    Args:
        lower, upper: the bounds, as of `clamp`.
        kind: int, float or Fraction. Sums of floats are Fractions, in which no order of summation and no
            rounding shows; sums of ints are ints.
        size: the number of records, or None.
        metric: SymmetricDistance() or ChangeOneDistance().
    Returns:
        A Transformation from vectors within the bounds to an int or a Fraction under AbsoluteDistance.
        One record added or removed moves it by max(|lower|, |upper|), one replaced by upper - lower.
        Vectors of a known size that are a symmetric distance d apart differ in d/2 records.
    Raises:
        ParameterError: a parameter is another.

    >>> from sfumato.transformations import clamp
    >>> total = clamp(0, 10) >> bounded_sum(0, 10)
    >>> total([0.5, 12.0]), total.map(1)
    (Fraction(21, 2), Fraction(10, 1))

    Source:
        Triangle inequality. Proof: docs/proofs/bounded_sum.md.
    """
    bounds = Bounds.of("bounded_sum", lower, upper, kind)
    records = Records("bounded_sum", bounds.domain, size, metric)
    whole = kind is int
    output = AtomDomain(int if whole else Fraction)
    if records.size is not None:
        output = AtomDomain(output.kind, records.size * bounds.lower, records.size * bounds.upper)

    def function(values: Sequence[Any]) -> int | Fraction:
        return sum(values) if whole else exact_sum(values)

    return records.total(
        output, function, records.stability(max(abs(bounds.lower), abs(bounds.upper)), bounds.width)
    )
