"""How far a release may be from the statistic: section 6.3, and the epsilon that reaches an accuracy.

With probability 1 - alpha, |noise| is at most ln(1/alpha) / epsilon', and rounding to the lattice adds at
most half a step. The terms in eta below cover the roundings of p-bit arithmetic (docs/proofs/snapping.md).
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fraction, positive, round_up
from sfumato.exact.directed import exp_bounds, log_bounds
from sfumato.exact.roots import first_float
from sfumato.names.helpful import helpful
from sfumato.snapping.parameters import Parameters, derive, largest_epsilon, statistic

# Below this, the noise is beyond all floats whatever the bounds.
_least_epsilon = 2.0**-1022


def probability(alpha: object) -> Fraction:
    """Take an alpha."""
    exact = as_fraction(alpha, "alpha")
    if not 0 < exact <= 1:
        raise ParameterError("alpha", alpha, "above 0 and at most 1")
    return exact


def tight(found: Parameters, alpha: Fraction) -> float:
    """Return the a with P(error > a) <= alpha for every statistic within the bounds (GetAccuracy2)."""
    return _up(found, min(_noise(found, alpha) + found.step / 2, 2 * found.bound))


def loose(found: Parameters, alpha: Fraction) -> float:
    """Return (1 + ln(1/alpha)) / epsilon': the same, with lambda' for half a step."""
    return _up(found, _noise(found, alpha) + 1 / found.epsilon_prime)


def at_value(found: Parameters, value: Fraction, alpha: Fraction) -> float:
    """Return the a with P(error > a) <= alpha at one value, given in sensitivities about the centre.

    The notes' four cases (GetAccuracy). An error above B - |value| can only be towards the centre, where half
    of the noise is. As printed, P_U^- is an upper bound where a lower one is needed, and the last case
    promises too much for values near the bounds.
    """
    size = abs(value)
    both_sides = _noise(found, alpha) + found.step / 2
    one_side = _noise(found, min(2 * alpha, Fraction(1))) + found.step / 2
    return _up(found, min(both_sides, max(found.bound - size, one_side), found.bound + size))


def significance(found: Parameters, accuracy: Fraction) -> float:
    """Return the alpha with P(error > accuracy) <= alpha for every statistic within the bounds, rounded up.

    `accuracy` is in sensitivities. It is `tight`, solved for alpha: exp(-epsilon' (a - Lambda' / 2)).
    """
    if accuracy >= 2 * found.bound:
        return 0.0
    eta = found.eta
    within = accuracy - found.step / 2 - eta * found.half_width
    log = within * found.epsilon_prime / (1 + eta) ** 2 - eta
    return 1.0 if log <= 0 else round_up(exp_up(-log))


def exp_up(x: Fraction) -> Fraction:
    """Return e^x for x <= 0, about 2^-256 of it above; below 2^-2000, which no float tells apart, 2^-2000."""
    if x < -1400:
        return Fraction(1, 2**2000)
    return exp_bounds(x, 256)[1]


class LaplaceComparison(NamedTuple):
    """The accuracy of a release beside that of plain Laplace noise of the same epsilon.

    Made by `SnappingMechanism`, whose `against_laplace` it is.

    Where the outer clamp does not cap it, snapping = factor * laplace + half_step.

    Attributes:
        snapping: of the release, as `accuracy` gives it.
        laplace: ln(1/alpha) sensitivity / epsilon, of the textbook mechanism, which floats do not have.
        factor: epsilon / epsilon', what the arithmetic costs.
        half_step: half of the lattice's step, what snapping costs.
    Source:
        Covington 2020, section 6.3.
    """

    snapping: float
    laplace: float
    factor: float
    half_step: float


def against_laplace(found: Parameters, alpha: Fraction) -> LaplaceComparison:
    """Compare `tight` with Laplace noise of the same epsilon, as section 6.3 does."""
    laplace = log_bounds(1 / alpha)[1] / found.epsilon * found.sensitivity
    factor, half = found.epsilon / found.epsilon_prime, found.step * found.sensitivity / 2
    return LaplaceComparison(tight(found, alpha), float(laplace), float(factor), float(half))


@helpful
def epsilon_for_accuracy(
    accuracy: Number,
    alpha: Number,
    *,
    sensitivity: Number = 1.0,
    lower: Number,
    upper: Number,
    gamma: Number = 0.05,
) -> float:
    """Return the smallest float epsilon whose `accuracy(alpha)` is at most `accuracy`.

    Args:
        accuracy: greater than 0, in the statistic's unit.
        alpha: probability, in (0, 1], of a larger error.
        sensitivity, lower, upper, gamma: as for `SnappingMechanism`.
    Returns:
        epsilon, a float; the float below it does not reach the accuracy.
    Raises:
        ParameterError: a parameter is not admissible, or no admissible epsilon gives this accuracy.

    >>> epsilon_for_accuracy(3, 0.05, lower=0, upper=10) < epsilon_for_accuracy(2, 0.05, lower=0, upper=10)
    True

    Source:
        Covington 2020, (6.4). Lambda' on its right side depends on the unknown, so that it is solved by
        bisection: accuracy falls as epsilon grows, with jumps where 1 / epsilon' passes a power of two.
    """
    wanted, part = positive(accuracy, "accuracy"), probability(alpha)
    rest = statistic(sensitivity, lower, upper, gamma)

    def reached(epsilon: float) -> float:
        return tight(derive(Fraction(epsilon), *rest), part)

    low, high = _least_epsilon, float(largest_epsilon)
    if reached(high) > wanted:
        raise ParameterError(
            "accuracy", accuracy, f"at least {reached(high)!r}, what epsilon = 2**53 reaches"
        )
    if reached(low) <= wanted:
        raise ParameterError("accuracy", accuracy, f"below {reached(low)!r}, what every epsilon reaches")
    return first_float(lambda epsilon: reached(epsilon) <= wanted, low, high)


def _noise(found: Parameters, alpha: Fraction) -> Fraction:
    """Return the distance from the value that g + noise exceeds with probability at most alpha."""
    eta = found.eta
    return (log_bounds(1 / alpha)[1] + eta) * (1 + eta) ** 2 / found.epsilon_prime + eta * found.half_width


def _up(found: Parameters, length: Fraction) -> float:
    return round_up(length * found.sensitivity)
