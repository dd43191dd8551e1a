"""Transformation and Measurement: functions with stability and privacy maps, and `>>`, which chains them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, overload

from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.errors import (
    BudgetError,
    ParameterError,
    QueryError,
    SfumatoError,
    in_own_words,
    shown,
    with_article,
)
from sfumato.exact import at_least_0
from sfumato.exact.library_settings import Isolated
from sfumato.framework.domains import AtomDomain, Domain, VectorDomain
from sfumato.framework.measures import AMOUNT, Measure, exact_amount
from sfumato.framework.metrics import ChangeOneDistance, Metric, SymmetricDistance


@dataclass(frozen=True, repr=False)
class Linear(Spelled):
    """A linear map: outputs move by at most `constant` times the distance of inputs.

    Args:
        constant: a finite number of at least 0; a float is exactly its binary value.
    Raises:
        ParameterError: `constant` is not such a number.

    >>> Linear(Fraction(3))(Fraction(1, 2))
    Fraction(3, 2)
    """

    constant: Fraction

    def __post_init__(self) -> None:
        # A float would make a claim of floats, and not of exact numbers: it is taken as exactly what it is.
        object.__setattr__(self, "constant", at_least_0(self.constant, "constant"))

    def __call__(self, d_in: Fraction) -> Fraction:
        """Return the largest distance of outputs by the linear map."""
        return self.constant * d_in


_PROBES = (Fraction(0), Fraction(1), Fraction(2))


class CheckedMap:
    """A stability or privacy map that is checked where a function is made, and at each use.

    Every value must be exact and at least 0, and no value may be less than one at a smaller distance.

    Args:
        name: the map and whose it is, for errors.
        function: the map.
        measure: of a privacy map; None for a stability map.
        derived: whether the map is computed from checked maps alone; it is not evaluated here then.
    Raises:
        BudgetError: a loss at distance 0, 1 or 2 is not admissible.
        QueryError: a stability at one of them is not.
    """

    def __init__(
        self, name: str, function: Callable[[Fraction], Any], measure: Measure | None, *, derived: bool
    ) -> None:
        self.measure: Measure | None = measure
        self._name, self._function = name, function
        self._known: dict[Fraction, Any] = {}
        for distance in () if derived else _PROBES:
            try:
                value = function(distance)
            except Exception:
                continue
            self._known[distance] = self._check(distance, value)

    def __call__(self, distance: Fraction) -> Any:
        """Return the checked value of the map at a distance."""
        return self._check(distance, self._function(distance))

    def _check(self, distance: Fraction, value: Any) -> Any:
        exact = exact_amount(value) if self.measure is None else self.measure._admit(value)
        if exact is None:
            expected = AMOUNT if self.measure is None else self.measure.admitted
            raise self._error(f"({distance}) is {shown(value)}, but must be {expected}")
        for other, known in self._known.items():
            (near, less), (far, more) = sorted(((other, known), (distance, exact)), key=lambda pair: pair[0])
            if near != far and not _is_not_above(less, more):
                raise self._error(
                    f" falls from {shown(less)} at {near} to {shown(more)} at {far}, but must never fall"
                )
        return exact

    def _error(self, text: str) -> SfumatoError:
        text = f"{self._name}{text}"
        return QueryError(text) if self.measure is None else BudgetError(text)


def _is_not_above(less: Any, more: Any) -> bool:
    """Whether no number of a checked map fell; nothing is known of a loss of an own kind."""
    if isinstance(less, tuple) and isinstance(more, tuple):
        return all(map(_is_not_above, less, more))
    return not isinstance(less, Fraction) or not isinstance(more, Fraction) or less <= more


def _check_map(
    name: str, given: Callable[[Fraction], Any], measure: Measure | None, *, derived: bool = False
) -> Callable[[Fraction], Any]:
    """Return a checked map; a linear one as it is, as its constant has been checked."""
    if isinstance(given, CheckedMap) and given.measure == measure:
        return given
    side = "stability_map" if measure is None else "privacy_map"
    checked = CheckedMap(f"{name}: {side}", given, measure, derived=derived)
    return given if type(given) is Linear else checked


def derive_map(
    name: str, function: Callable[[Fraction], Any], measure: Measure | None = None
) -> Callable[[Fraction], Any]:
    """Return a map that is computed from checked maps: checked where it is used.

    Args:
        name: of the transformation or measurement that the map is for.
        function: the map.
        measure: of a privacy map; None for a stability map.
    """
    return _check_map(name, function, measure, derived=True)


@dataclass(frozen=True, repr=False)
class Transformation(Isolated):
    """A deterministic function with a stability map.

    Args:
        name: the constructor's name, for errors and explanations.
        input_domain, output_domain: the input and output spaces of `function`.
        input_metric, output_metric: the metric on each; it must admit the domain.
        function: the definition; engines compute the same at scale.
        stability_map: a function from d_in (a Fraction) to an upper bound on the distance of outputs: an int
            or a Fraction of at least 0, never decreasing. It is checked at distances 0, 1 and 2, and at each
            use.
    Raises:
        QueryError: a metric does not measure its domain, or the map gives no such number.
        ParameterError: a domain or metric has the wrong type; or from `map`, for a negative or non-finite
            d_in.

    >>> from sfumato import transformations as t
    >>> t.bound_groups(groups=3).map(1)
    Fraction(1, 1)

    Source:
        Gaboardi, Hay, Vadhan 2020, "A programming framework for OpenDP".
    """

    name: str
    input_domain: Domain
    output_domain: Domain
    input_metric: Metric
    output_metric: Metric
    function: Callable[[Any], Any]
    stability_map: Callable[[Fraction], Fraction]

    def __post_init__(self) -> None:
        _check_space(self.name, "input", self.input_metric, self.input_domain)
        _check_space(self.name, "output", self.output_metric, self.output_domain)
        object.__setattr__(self, "stability_map", _check_map(self.name, self.stability_map, None))

    def __call__(self, value: Any) -> Any:
        """Apply the transformation's function."""
        return self.function(value)

    def __repr__(self) -> str:
        return f"<Transformation {self.name}: {self.input_domain} to {self.output_domain}>"

    def map(self, d_in: object) -> Fraction:
        """Return a bound on the distance of outputs, for inputs at most `d_in` apart.

        Args:
            d_in: the largest distance of two inputs, in the unit of `input_metric`; at least 0.
        Returns:
            An exact number.
        """
        return self.stability_map(distance_in(d_in))

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
                _chained(name, self.stability_map, other.stability_map),
            )
        return Measurement(
            name,
            self.input_domain,
            self.input_metric,
            other.output_measure,
            lambda value: other.function(self.function(value)),
            _chained(name, self.stability_map, other.privacy_map, other.output_measure),
        )


@dataclass(frozen=True, repr=False)
class Measurement(Isolated):
    """A random function with a privacy map.

    Args:
        name: the constructor's name.
        input_domain, input_metric: the domain and metric of the input; the metric must admit the domain.
        output_measure: the measure in which `privacy_map` states its loss, such as `PureDP()`.
        function: a function that draws a release; each call draws fresh noise.
        privacy_map: a function from d_in (a Fraction) to the loss in the measure's unit, never understated:
            ints or Fractions of at least 0, never decreasing. It is checked at distances 0, 1 and 2, and at
            each use.
    Raises:
        QueryError: the metric does not measure the domain.
        BudgetError: the map gives no valid loss.
        ParameterError: the domain or metric has the wrong type; or from `map`, for a negative or non-finite
            d_in.
    Source:
        Gaboardi, Hay, Vadhan 2020, "A programming framework for OpenDP".

    >>> from sfumato import measurements as m
    >>> m.laplace(4).map(1)
    Fraction(1, 4)
    """

    name: str
    input_domain: Domain
    input_metric: Metric
    output_measure: Measure
    function: Callable[[Any], Any]
    privacy_map: Callable[[Fraction], Any]

    def __post_init__(self) -> None:
        _check_space(self.name, "input", self.input_metric, self.input_domain)
        if not isinstance(self.output_measure, Measure):
            raise ParameterError(
                f"{self.name}: output_measure", self.output_measure, "a measure, such as PureDP()"
            )
        object.__setattr__(self, "privacy_map", _check_map(self.name, self.privacy_map, self.output_measure))

    def __call__(self, value: Any) -> Any:
        """Draw a release of the measurement.

        Raises:
            QueryError: the function fails, as it may on what is not in the input domain.
        """
        with in_own_words(self._failed, Exception):
            return self.function(value)

    def _failed(self, error: Exception) -> QueryError:
        return QueryError(
            f"{self.name} failed with {with_article(type(error).__name__)} (its text is left out, "
            f"as it may quote the data). The input must be in {self.input_domain}"
        )

    def __repr__(self) -> str:
        return f"<Measurement {self.name}: {self.input_domain}, in {self.output_measure}>"

    def map(self, d_in: object) -> Any:
        """Return the privacy loss for inputs at most `d_in` apart.

        Args:
            d_in: the largest distance of two inputs, in the unit of `input_metric`; at least 0.
        Returns:
            The loss, in the measure's unit.
        """
        return self.privacy_map(distance_in(d_in))


def distance_in(d_in: object) -> Fraction:
    """Take the argument of a transformation's or measurement's map: a finite distance of at least 0."""
    return at_least_0(d_in, "d_in")


def _chained(
    name: str,
    first: Callable[[Fraction], Fraction],
    second: Callable[[Fraction], Any],
    measure: Measure | None = None,
) -> Any:
    if type(first) is type(second) is Linear:
        return Linear(first.constant * second.constant)
    return derive_map(name, lambda d_in: second(first(d_in)), measure)


def _check_space(name: str, side: str, metric: Metric, domain: Domain) -> None:
    for what, given, kind, example in (
        ("domain", domain, Domain, "a domain, such as AtomDomain(float, 0, 30)"),
        ("metric", metric, Metric, "a metric, such as SymmetricDistance()"),
    ):
        if not isinstance(given, kind):
            raise ParameterError(f"{name}: {side}_{what}", given, example)
    if not metric.admits(domain):
        raise QueryError(
            f"{name}: the {side} metric {shown(metric)} does not measure the {side} domain {shown(domain)}"
        )


def _check_chain(first: Transformation, second: Transformation | Measurement) -> None:
    remedy = ""
    if not second.input_domain.includes(first.output_domain):
        what, given, taken = "domain", str(first.output_domain), str(second.input_domain)
        remedy = _remedy(first, second)
    elif second.input_metric != first.output_metric:
        what, given, taken = "metric", str(first.output_metric), str(second.input_metric)
    else:
        return
    raise QueryError(
        f"cannot chain {second.name!r} after {first.name!r}: "
        f"the first gives the {what} {given}, the second takes {taken}{remedy}"
    )


def _remedy(first: Transformation, second: Transformation | Measurement) -> str:
    """Return what to put between two transformations that do not chain, if one step leads on."""
    given, taken = first.output_domain, second.input_domain
    records = isinstance(first.output_metric, (SymmetricDistance, ChangeOneDistance))
    if records and isinstance(given, VectorDomain) and isinstance(taken, VectorDomain):
        if taken.size not in (None, given.size):
            return f"; give the first size={taken.size} too"
        given, taken = given.element, taken.element
    if isinstance(given, VectorDomain) and isinstance(taken, AtomDomain):
        return f"; make the second for {given}"
    if not isinstance(given, AtomDomain) or not isinstance(taken, AtomDomain):
        return ""
    if not AtomDomain(taken.kind).includes(AtomDomain(given.kind)):
        return "; put `cast` between them" if records else f"; make the second for {given}"
    if given.nan > taken.nan or given.null > taken.null:
        return "; put `impute` between them"
    return "; put `clamp` between them, with the bounds of the second"
