"""Combinators: several functions side by side, several releases of one input, and what follows a release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from sfumato.errors import ParameterError, QueryError
from sfumato.framework.core import Linear, Measurement, Transformation, derived
from sfumato.framework.domains import ProductDomain, check_length
from sfumato.framework.metrics import ProductMetric
from sfumato.names.suggestions import helpful


@helpful
def product(transformations: Sequence[Transformation]) -> Transformation:
    """Apply one transformation to each part of a product.

    Args:
        transformations: at least one; all with the same input metric and the same output metric.
    Returns:
        A Transformation from the product of the input domains to the product of the output domains, where
        the distance of two members is the sum of the distances of their parts. Its constant is the
        largest of the constants; where a map is not linear, its map is the sum of the maps.
    Raises:
        ParameterError: there is no transformation.
        QueryError: metrics differ; from a call, for another number of parts.

    >>> from sfumato.framework import AbsoluteDistance, AtomDomain
    >>> whole, distance = AtomDomain(int), AbsoluteDistance()
    >>> def times(n):
    ...     return Transformation("times", whole, whole, distance, distance, lambda x: n * x, Linear(n))
    >>> both = product([times(2), times(5)])
    >>> both((1, 1)), both.map(3)
    ((2, 5), Fraction(15, 1))

    Source:
        "Lipschitz sized variance for proportion CI", definition 1 (ii). Proof: docs/proofs/product.md.
    """
    parts = _at_least_one(transformations, "transformations")
    for side in ("input_metric", "output_metric"):
        _must_agree("product", parts, side)

    def function(values: Sequence[Any]) -> tuple[Any, ...]:
        check_length(values, len(parts), "product")
        return tuple(part.function(value) for part, value in zip(parts, values, strict=True))

    name = _listed("product", parts)
    constants = [p.stability_map.constant for p in parts if isinstance(p.stability_map, Linear)]
    stability_map: Callable[[Fraction], Fraction] = (
        Linear(max(constants))
        if len(constants) == len(parts)
        else derived(name, lambda d_in: sum((part.stability_map(d_in) for part in parts), Fraction(0)))
    )
    return Transformation(
        name,
        ProductDomain(tuple(part.input_domain for part in parts)),
        ProductDomain(tuple(part.output_domain for part in parts)),
        ProductMetric(parts[0].input_metric),
        ProductMetric(parts[0].output_metric),
        function,
        stability_map,
    )


@helpful
def compose(measurements: Sequence[Measurement]) -> Measurement:
    """Make several releases of one input.

    Args:
        measurements: at least one; all from the same domain and metric to the same measure. To choose the
            next one after seeing a release, use an `Odometer`.
    Returns:
        A Measurement to a tuple of their releases. Its map is the measure's total of their maps.
    Raises:
        ParameterError: there is no measurement.
        QueryError: a domain, metric or measure differs; convert measures with
            `sfumato.measurements.convert`.

    >>> from sfumato.measurements import laplace
    >>> compose([laplace(2), laplace(3)]).map(1)
    Fraction(5, 6)

    Source:
        the composition theorem of each measure, see `Measure.total`. Proof: docs/proofs/compose.md.
    """
    parts = _at_least_one(measurements, "measurements")
    for side in ("input_domain", "input_metric", "output_measure"):
        _must_agree("compose", parts, side)
    measure = parts[0].output_measure
    name = _listed("compose", parts)
    return Measurement(
        name,
        parts[0].input_domain,
        parts[0].input_metric,
        measure,
        lambda value: tuple(part.function(value) for part in parts),
        derived(name, lambda d_in: measure.total([part.privacy_map(d_in) for part in parts]), measure),
    )


@helpful
def postprocess(measurement: Measurement, function: Callable[[Any], Any]) -> Measurement:
    """Apply a function to a release; what is computed from a release alone costs nothing.

    Args:
        measurement: what is released.
        function: of the release, and of nothing private.
    Returns:
        A Measurement with the same map.

    >>> from sfumato.measurements import laplace
    >>> never_negative = postprocess(laplace(2), lambda count: max(0, count))
    >>> never_negative(-(10**6)), never_negative.map(1)
    (0, Fraction(1, 2))

    Source:
        Dwork and Roth 2014, "The algorithmic foundations of differential privacy", proposition 2.1.
        Proof: docs/proofs/postprocess.md.
    """
    return Measurement(
        f"postprocess({measurement.name})",
        measurement.input_domain,
        measurement.input_metric,
        measurement.output_measure,
        lambda value: function(measurement.function(value)),
        measurement.privacy_map,
    )


def _at_least_one(parts: Sequence[Any], name: str) -> tuple[Any, ...]:
    if not parts:
        raise ParameterError(name, parts, "a sequence of at least one")
    return tuple(parts)


def _must_agree(name: str, parts: Sequence[Any], side: str) -> None:
    first = parts[0]
    for other in parts[1:]:
        if getattr(other, side) != getattr(first, side):
            raise QueryError(
                f"{name}: all must have the same {side.replace('_', ' ')}, but {first.name!r} has "
                f"{getattr(first, side)} and {other.name!r} has {getattr(other, side)}"
            )


def _listed(name: str, parts: Sequence[Any]) -> str:
    return f"{name}({', '.join(part.name for part in parts)})"
