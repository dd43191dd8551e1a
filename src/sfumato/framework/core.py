"""Transformation and Measurement, and the `>>` that chains them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, overload

from sfumato.errors import ParameterError, QueryError
from sfumato.exact import as_fraction


@dataclass(frozen=True)
class Transformation:
    """A deterministic function with a stability claim.

    Args:
        name: the constructor's name, for errors and explanations.
        input_domain, output_domain: the spaces of `function`.
        input_metric, output_metric: how distance is measured in each.
        function: the definition; engines compute the same at scale.
        stability_map: d_in (a Fraction) to an upper bound of the distance of outputs.
    Raises:
        ParameterError: from `map`, for a negative or non-finite d_in.

    >>> from sfumato import transformations as t
    >>> t.bound_groups(groups=3).map(1)
    Fraction(1, 1)

    Source:
        Gaboardi, Hay, Vadhan 2020, "A programming framework for OpenDP".
    """

    name: str
    input_domain: Any
    output_domain: Any
    input_metric: Any
    output_metric: Any
    function: Callable[[Any], Any]
    stability_map: Callable[[Fraction], Fraction]

    def __call__(self, value: Any) -> Any:
        """Apply the function."""
        return self.function(value)

    def map(self, d_in: object) -> Fraction:
        """Return an upper bound of the distance of outputs whose inputs are at most `d_in` apart."""
        return self.stability_map(_distance(d_in))

    @overload
    def __rshift__(self, other: Transformation) -> Transformation: ...
    @overload
    def __rshift__(self, other: Measurement) -> Measurement: ...
    def __rshift__(self, other: Transformation | Measurement) -> Transformation | Measurement:
        _check_chain(self, other)
        name = f"{self.name} >> {other.name}"
        if isinstance(other, Transformation):
            return Transformation(
                name,
                self.input_domain,
                other.output_domain,
                self.input_metric,
                other.output_metric,
                lambda value: other.function(self.function(value)),
                lambda d_in: other.stability_map(self.stability_map(d_in)),
            )
        return Measurement(
            name,
            self.input_domain,
            self.input_metric,
            other.output_measure,
            lambda value: other.function(self.function(value)),
            lambda d_in: other.privacy_map(self.stability_map(d_in)),
        )


@dataclass(frozen=True)
class Measurement:
    """A random function with a privacy claim.

    Args:
        name: the constructor's name.
        input_domain, input_metric: what it takes.
        output_measure: `PureDP`, `GaussianDP` or `ApproximateDP`.
        function: draws a release; each call draws fresh noise.
        privacy_map: d_in (a Fraction) to the loss in the measure's unit, never understated.

    >>> from fractions import Fraction
    >>> from sfumato import measurements as m
    >>> m.laplace(["units"], [Fraction(4)]).map(1)
    Fraction(1, 1)
    """

    name: str
    input_domain: Any
    input_metric: Any
    output_measure: Any
    function: Callable[[Any], Any]
    privacy_map: Callable[[Fraction], Any]

    def __call__(self, value: Any) -> Any:
        """Draw a release."""
        return self.function(value)

    def map(self, d_in: object) -> Any:
        """Return the privacy loss for inputs that are at most `d_in` apart."""
        return self.privacy_map(_distance(d_in))


def _distance(d_in: object) -> Fraction:
    distance = as_fraction(d_in, "d_in")
    if distance < 0:
        raise ParameterError("d_in", d_in, "at least 0")
    return distance


def _check_chain(first: Transformation, second: Transformation | Measurement) -> None:
    for what, given, taken in (
        ("domain", first.output_domain, second.input_domain),
        ("metric", first.output_metric, second.input_metric),
    ):
        if given != taken:
            raise QueryError(
                f"cannot chain {second.name!r} after {first.name!r}: "
                f"the first gives the {what} {given}, the second takes {taken}"
            )
