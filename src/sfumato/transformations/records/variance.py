"""Sample variance and covariance of a known number of bounded records."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sfumato.errors import ParameterError
from sfumato.framework import AtomDomain, Metric, ProductDomain, Transformation
from sfumato.names.helpful import helpful
from sfumato.transformations.records.space import (
    ADD_REMOVE,
    Bounds,
    NumberKind,
    Records,
    exact_products,
    exact_sum,
    known_size,
    listed,
)


@helpful
def variance(
    lower: object, upper: object, size: int, *, kind: NumberKind = float, metric: Metric = ADD_REMOVE
) -> Transformation:
    """Return the exact sample variance, with divisor n - 1, of a known number of bounded numbers.

    Args:
        lower, upper: the bounds, as of `clamp`.
        size: the number of records n, at least 2: public, and the same in both neighbours.
        kind: int, float or Fraction.
        metric: SymmetricDistance() or ChangeOneDistance().
    Returns:
        A Transformation from vectors of n numbers within the bounds to a Fraction under
        AbsoluteDistance. One record replaced moves it by (upper - lower)^2/n; no two vectors are
        further apart than the largest sample variance, floor(n^2/4)/(n(n-1)) (upper - lower)^2.
    Raises:
        ParameterError: a parameter is another.

    >>> spread = variance(0, 1, size=3)
    >>> spread([0.0, 0.0, 1.0]), spread.map(2), spread.output_domain.upper
    (Fraction(1, 3), Fraction(1, 3), Fraction(1, 3))

    Source:
        "Snapping mechanism notes", 7.2, with the largest value for odd n put right. Proof:
        docs/proofs/variance.md.
    """
    bounds, size = Bounds.of("variance", lower, upper, kind), known_size("variance", size, least=2)
    return _spread(
        Records("variance", bounds.domain, size, metric),
        size,
        lambda values: _codeviation(values, values, size),
        bounds.width**2,
        Fraction(0),
    )


@helpful
def covariance(
    first: tuple[object, object],
    second: tuple[object, object],
    size: int,
    *,
    kind: NumberKind = float,
    metric: Metric = ADD_REMOVE,
) -> Transformation:
    """Return the exact sample covariance, with divisor n - 1, of a known number of bounded pairs.

    Args:
        first, second: (lower, upper) of the first and of the second number of a pair, as of `clamp`.
        size: the number of pairs n, at least 2: public, and the same in both neighbours.
        kind: int, float or Fraction, of both.
        metric: SymmetricDistance() or ChangeOneDistance().
    Returns:
        A Transformation from vectors of n pairs to a Fraction under AbsoluteDistance. One pair replaced
        moves it by w/n, where w is the product of the widths; no two vectors are further apart than
        2 floor(n^2/4)/(n(n-1)) w.
    Raises:
        ParameterError: a parameter is another.

    >>> both = covariance((0, 1), (0, 10), size=4)
    >>> both([(0.0, 0.0), (1.0, 10.0), (0.0, 10.0), (1.0, 10.0)]), both.map(2)
    (Fraction(5, 3), Fraction(5, 2))

    Source:
        "Snapping mechanism notes", 7.3, with the largest value for odd n put right. Proof:
        docs/proofs/covariance.md.
    """
    size = known_size("covariance", size, least=2)
    sides = []
    for name, given in (("first", first), ("second", second)):
        pair = listed("covariance", name, given)
        if len(pair) != 2:
            raise ParameterError(f"covariance: {name}", pair, "a pair (lower, upper)")
        sides.append(Bounds.of(f"covariance: {name}", *pair, kind))
    records = Records("covariance", ProductDomain(tuple(side.domain for side in sides)), size, metric)
    widths = sides[0].width * sides[1].width
    return _spread(
        records,
        size,
        lambda pairs: _codeviation([x for x, _ in pairs], [y for _, y in pairs], size),
        widths,
        -widths,
    )


def _codeviation(first: Sequence[Any], second: Sequence[Any], size: int) -> Fraction:
    return (exact_products(first, second) - exact_sum(first) * exact_sum(second) / size) / (size - 1)


def _spread(records: Records, size: int, function: Any, widths: Fraction, least: Fraction) -> Transformation:
    """Return the transformation of (co)variances from `least` to `widths` times the largest share."""
    share = Fraction(size * size // 4, size * (size - 1))
    stability = records.stability(widths / size, widths / size)
    return records.total(
        AtomDomain(Fraction, share * least, share * widths),
        function,
        lambda d_in: min(stability(d_in), share * (widths - least)),
    )
