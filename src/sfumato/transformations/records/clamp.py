"""Numbers moved to the nearest of two bounds."""

from __future__ import annotations

from fractions import Fraction

from sfumato.errors import ParameterError
from sfumato.framework import AbsoluteDistance, AtomDomain, Linear, Metric, Transformation
from sfumato.names.helpful import helpful
from sfumato.transformations.records.space import ADD_REMOVE, Bounds, Number, NumberKind, Records


@helpful
def clamp(
    lower: object,
    upper: object,
    *,
    kind: NumberKind = float,
    size: int | None = None,
    metric: Metric = ADD_REMOVE,
) -> Transformation:
    """Move each number that lies outside two bounds to the nearer one.

    Infinities clamp. NaN and NULL are not in the domain: put `impute` before.

    Args:
        lower, upper: the bounds, numbers with lower <= upper, in the unit of the records. For int and
            float they move inward to the nearest number of that kind.
        kind: int, float or Fraction.
        size: the number of records, or None.
        metric: SymmetricDistance() or ChangeOneDistance() for vectors; AbsoluteDistance() for a single
            number instead of a vector.
    Returns:
        A Transformation from vectors (or numbers) to vectors (numbers) within the bounds. Its map is the
        identity in each of the metrics.
    Raises:
        ParameterError: a parameter is another, or no number of the kind lies between the bounds.

    >>> clamp(0, 1)([-0.5, 0.25, float("inf")])
    [0.0, 0.25, 1.0]
    >>> from sfumato.framework import AbsoluteDistance
    >>> clamp(0, 10, kind=int, metric=AbsoluteDistance())(12)
    10

    Source:
        A projection onto an interval is 1-Lipschitz. Proof: docs/proofs/clamp.md.
    """
    bounds = Bounds.of("clamp", lower, upper, kind)
    low, high = kind(bounds.lower), kind(bounds.upper)

    def clamped(number: Number) -> Number:
        return min(max(number, low), high)

    if isinstance(metric, AbsoluteDistance):
        if size is not None:
            raise ParameterError("clamp: size", size, "None under AbsoluteDistance(), which takes one number")
        return Transformation(
            "clamp", AtomDomain(kind), bounds.domain, metric, metric, clamped, Linear(Fraction(1))
        )
    return Records("clamp", AtomDomain(kind), size, metric).each(bounds.domain, clamped)
