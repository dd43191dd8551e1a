"""Loss conversions: a measurement's loss in another privacy measure, rounded up."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sfumato.budget.closed_forms import zcdp_epsilon
from sfumato.budget.epsilon_delta import admissible_delta
from sfumato.budget.loss import Loss, PrivacyLoss
from sfumato.errors import ParameterError, QueryError, shown
from sfumato.framework import (
    ApproximateDP,
    GaussianDP,
    Measure,
    Measurement,
    PureDP,
    ZeroConcentratedDP,
)
from sfumato.framework.core import derive_map
from sfumato.names.suggestions import suggest_arguments

Pair = tuple[Fraction, Fraction]
NOTHING = (Fraction(0), Fraction(0))


@suggest_arguments
def convert(measurement: Measurement, measure: Measure, delta: Any = None) -> Measurement:
    """Convert the loss of a measurement to another privacy measure.

    It converts from pure DP to all others but Gaussian DP; from Gaussian DP to zCDP, `PrivacyLoss` and
    approximate DP; from approximate DP to `PrivacyLoss`; and from zCDP and `PrivacyLoss` to approximate DP.

    Args:
        measurement: the measurement.
        measure: the target measure.
        delta: a number in (0, 1), for conversions to approximate DP from Gaussian DP, zCDP and `PrivacyLoss`;
            otherwise None.
    Returns:
        The same Measurement with a map to the target measure.
    Raises:
        QueryError: there is no such conversion.
        BudgetError: delta is not in (0, 1); from `map`, if a `PrivacyLoss` does not reach it.
        ParameterError: delta is missing, or given where it has no effect.

    >>> from sfumato.framework import ApproximateDP, ZeroConcentratedDP
    >>> from sfumato.measurements import gaussian, laplace
    >>> convert(laplace(2), ZeroConcentratedDP()).map(1)
    Fraction(1, 8)
    >>> epsilon, delta = convert(gaussian(4), ApproximateDP(), delta="1e-6").map(1)
    >>> f"{float(epsilon):.3f}", delta
    ('1.061', Fraction(1, 1000000))

    Source:
        Pure DP to zCDP: Bun and Steinke 2016, "Concentrated differential privacy", proposition 1.4. Gaussian
        DP to approximate DP: Balle and Wang 2018, theorem 8. zCDP to approximate DP: Canonne, Kamath and
        Steinke 2020, "The discrete Gaussian for differential privacy", proposition 12. Proof:
        docs/proofs/convert.md.
    """
    pair = (type(measurement.output_measure), type(measure))
    if pair in WITHOUT_DELTA:
        if delta is not None:
            expected = f"left out: {pair[0].__name__} to {pair[1].__name__} needs none"
            raise ParameterError("delta", delta, expected)
        change = WITHOUT_DELTA[pair]
    elif pair in WITH_DELTA:
        if delta is None:
            raise ParameterError("delta", delta, "a number in (0, 1)")
        target, at_delta = admissible_delta(delta, zero=False), WITH_DELTA[pair]

        def change(loss: Any) -> Pair:
            return at_delta(loss, target)
    else:
        known = ", ".join(f"{a.__name__} to {b.__name__}" for a, b in (*WITHOUT_DELTA, *WITH_DELTA))
        raise QueryError(
            f"convert: {measurement.name} is in {measurement.output_measure}, which cannot be "
            f"converted to {shown(measure)}. Use one of {known}"
        )
    return Measurement(
        measurement.name,
        measurement.input_domain,
        measurement.input_metric,
        measure,
        measurement.function,
        derive_map(measurement.name, lambda d_in: change(measurement.privacy_map(d_in)), measure),
    )


def _approximate_to_loss(loss: Pair) -> Loss:
    epsilon, delta = loss
    if epsilon == 0 or delta >= 1:
        return Loss(additive_delta=min(delta, Fraction(1)))
    return Loss(approximate=((epsilon, delta, 1),))


def _zcdp_to_approximate(rho: Fraction, delta: Fraction) -> Pair:
    return (zcdp_epsilon(rho, delta), delta) if rho else NOTHING


def _loss_to_approximate(loss: Loss, delta: Fraction) -> Pair:
    return (loss.epsilon(delta), delta) if loss != Loss() else NOTHING


WITHOUT_DELTA: dict[tuple[type[Measure], type[Measure]], Callable[[Any], Any]] = {
    (PureDP, ApproximateDP): lambda epsilon: (epsilon, Fraction(0)),
    (PureDP, ZeroConcentratedDP): lambda epsilon: epsilon**2 / 2,
    (PureDP, PrivacyLoss): lambda epsilon: _approximate_to_loss((epsilon, Fraction(0))),
    (ApproximateDP, PrivacyLoss): _approximate_to_loss,
    (GaussianDP, PrivacyLoss): lambda mu: Loss(gaussian=mu**2),
    (GaussianDP, ZeroConcentratedDP): lambda mu: mu**2 / 2,
}
WITH_DELTA: dict[tuple[type[Measure], type[Measure]], Callable[[Any, Fraction], Pair]] = {
    (GaussianDP, ApproximateDP): lambda mu, delta: _loss_to_approximate(Loss(gaussian=mu**2), delta),
    (ZeroConcentratedDP, ApproximateDP): _zcdp_to_approximate,
    (PrivacyLoss, ApproximateDP): _loss_to_approximate,
}
