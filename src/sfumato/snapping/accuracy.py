"""How far a release may be from the statistic: section 6.3, and the epsilon that reaches an accuracy.

With probability 1 - alpha, |noise| is at most ln(1/alpha) / epsilon', and rounding to the lattice adds at
most half a step. The terms in eta below cover the roundings of p-bit arithmetic (docs/proofs/snapping.md).
"""

from __future__ import annotations

import struct
from fractions import Fraction

from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fraction, positive, round_up
from sfumato.snapping.parameters import Parameters, derive, largest_epsilon, log_bounds, statistic

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
    # Positive floats are ordered as their bits are.
    below, enough = _bits(low), _bits(high)
    while enough - below > 1:
        middle = (below + enough) // 2
        if reached(_float(middle)) <= wanted:
            enough = middle
        else:
            below = middle
    return _float(enough)


def _noise(found: Parameters, alpha: Fraction) -> Fraction:
    """Return the distance from the value that g + noise exceeds with probability at most alpha."""
    eta = found.eta
    return (log_bounds(1 / alpha)[1] + eta) * (1 + eta) ** 2 / found.epsilon_prime + eta * found.reach


def _up(found: Parameters, length: Fraction) -> float:
    return round_up(length * found.sensitivity)


def _bits(number: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def _float(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])
