"""Combinators of releases: product, compose, postprocess, and the odometer that composes adaptively."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from sfumato.errors import BudgetError, ParameterError, QueryError, shown
from sfumato.framework.core import Linear, Measurement, Transformation, derive_map, distance_in
from sfumato.framework.domains import Domain, ProductDomain, check_length
from sfumato.framework.measures import Filter
from sfumato.framework.metrics import Metric, ProductMetric
from sfumato.names.suggestions import suggest_arguments
from sfumato.ownership import Owned, Turn


@suggest_arguments
def product(transformations: Sequence[Transformation]) -> Transformation:
    """Combine transformations side by side, one for each part of a product.

    Args:
        transformations: at least one; all with the same input metric and the same output metric.
    Returns:
        A Transformation from the product of the input domains to the product of the output domains. The
        distance of two members is the sum of the distances of their parts. Its constant is the largest of the
        constants; if a map is not linear, its map is the sum of the maps.
    Raises:
        ParameterError: there is no transformation.
        QueryError: metrics differ; from a call, for a wrong number of parts.

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
        else derive_map(name, lambda d_in: sum((part.stability_map(d_in) for part in parts), Fraction(0)))
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


@suggest_arguments
def compose(measurements: Sequence[Measurement]) -> Measurement:
    """Compose several releases of one input into one measurement.

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
        The composition theorem of each measure, see `Measure.total`. Proof: docs/proofs/compose.md.
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
        derive_map(name, lambda d_in: measure.total([part.privacy_map(d_in) for part in parts]), measure),
    )


@suggest_arguments
def postprocess(measurement: Measurement, function: Callable[[Any], Any]) -> Measurement:
    """Post-process a release with a function, which costs no privacy.

    Args:
        measurement: the measurement that makes the release.
        function: a function of the release, and of nothing private.
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


class Odometer(Owned):
    """An odometer: release about one input until a budget is spent.

    The next measurement, and its loss, may depend on everything released before. The total loss of all
    releases stays within the budget, which holds for measures that are a `Filter`. A measurement that does
    not fit is refused at no cost, before anything is drawn; whether it fits depends on maps alone, never on
    the data. Several threads may use an odometer, but only in the process that made it; it cannot be copied.

    Args:
        data: a member of the domain, which only measurements read.
        domain, metric: the domain of the input and the metric on it.
        measure: `PureDP()`, `ApproximateDP()`, `ZeroConcentratedDP()` or `GaussianDP()`.
        budget: in the measure's unit: an epsilon, a pair (epsilon, delta), a rho or a mu.
        d_in: the distance between neighbouring inputs.
    Raises:
        QueryError: the metric does not measure the domain, or the measure is not a `Filter`.
        BudgetError: the budget is not valid.
        ParameterError: d_in is not a finite number of at least 0.

    >>> from sfumato.framework import AbsoluteDistance, AtomDomain, PureDP
    >>> from sfumato.measurements import laplace
    >>> odometer = Odometer(1000, AtomDomain(int), AbsoluteDistance(), PureDP(), budget=1)
    >>> 0 < odometer.ask(laplace(2)) < 2000
    True
    >>> odometer.spent, odometer.remaining
    (Fraction(1, 2), Fraction(1, 2))
    >>> odometer.ask(laplace("1.5"))
    Traceback (most recent call last):
    sfumato.errors.BudgetError: laplace would lose 2/3 ...: 1/2 is left of the budget 1

    Source:
        See `Filter`; docs/proofs/odometer.md.
    """

    _elsewhere = "queries in two places would be counted in neither. Give each place an odometer of its own"
    _refusal = BudgetError

    def __init__(
        self, data: Any, domain: Domain, metric: Metric, measure: Filter, budget: Any, d_in: Any = 1
    ) -> None:
        if not metric.admits(domain):
            raise QueryError(
                f"Odometer: the metric {shown(metric)} does not measure the domain {shown(domain)}"
            )
        if not isinstance(measure, Filter):
            raise QueryError(
                f"Odometer: losses in {shown(measure)} must be fixed beforehand, with compose. "
                "Measures that allow adaptive losses are PureDP, ApproximateDP, ZeroConcentratedDP "
                "and GaussianDP"
            )
        self._data, self._domain, self._metric, self._measure = data, domain, metric, measure
        self._budget, self._d_in = measure.budget(budget), distance_in(d_in)
        self._spent, self._turn = measure.total([]), Turn()

    @property
    def spent(self) -> Any:
        """The total loss of everything that the odometer released."""
        return self._spent

    @property
    def remaining(self) -> Any:
        """The largest loss that still fits the budget, rounded down if not rational."""
        return self._measure.remaining(self._spent, self._budget)

    def ask(self, measurement: Measurement) -> Any:
        """Draw a release, if it fits the budget.

        Args:
            measurement: a measurement, or a chain that ends in one, from this domain and metric to this
                measure.
        Returns:
            The release.
        Raises:
            QueryError: its domain, metric or measure is a different one.
            BudgetError: it would lose more than is left, its map gives no valid loss, or this is not the
                process that made the odometer.
            RefusalError: it is called in the middle of another call, as from a signal handler.
        """
        self._check_home()
        self._check_spaces(measurement)
        loss = measurement.privacy_map(self._d_in)
        with self._turn():
            total = self._measure.total([self._spent, loss])
            if not self._measure.within(total, self._budget):
                raise BudgetError(
                    f"{measurement.name} would lose {_shown(loss)} at distance {self._d_in}: "
                    f"{_shown(self.remaining)} is left of the budget {_shown(self._budget)}"
                )
            self._spent = total  # before the draw: a draw that fails has been paid
        released = measurement(self._data)
        self._check_home()  # a handler of a signal may have forked in the middle
        return released

    def _check_spaces(self, measurement: Measurement) -> None:
        if not measurement.input_domain.includes(self._domain):
            what, taken, given = "domain", measurement.input_domain, self._domain
        elif measurement.input_metric != self._metric:
            what, taken, given = "metric", measurement.input_metric, self._metric  # type: ignore[assignment]
        elif measurement.output_measure != self._measure:
            what, taken, given = "measure", measurement.output_measure, self._measure  # type: ignore[assignment]
        else:
            return
        raise QueryError(f"{measurement.name} has the {what} {taken}, but the odometer has {given}")


def _shown(loss: Any) -> str:
    if isinstance(loss, tuple):
        return f"({', '.join(map(_shown, loss))})"
    return str(loss) if len(str(loss)) <= 20 else f"{float(loss):.6g}"
