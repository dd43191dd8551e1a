"""The parameters of a snapping mechanism, exact: what follows from epsilon, sensitivity, bounds and gamma.

All lengths here are in units of the sensitivity and about the centre; `SnappingMechanism` gives them back in
the unit of the statistic.
"""

from __future__ import annotations

import math
from fractions import Fraction

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError, shown
from sfumato.exact import as_fraction, positive, round_up
from sfumato.exact.outward_rounding import log_bounds, round_bits

least_precision = 118
max_precision = 2048
# Arithmetic carries two bits more than eta claims: docs/proofs/snapping.md needs them for its constants.
guard_bits = 2
largest_epsilon = 2**53
# The notes ask B eta <= 2^-52; with 2^-60 of everything, accuracy falls from each float epsilon to the next.
_share = Fraction(1, 2**60)


@dataclass(frozen=True)
class Parameters:
    """The parameters of one snapping mechanism.

    Args:
        epsilon: privacy loss that two values `sensitivity` apart may cost, above 2 eta.
        sensitivity: greater than 0, in the statistic's unit.
        lower, upper: bounds on the statistic.
        gamma: probability, in (0, 1], with which the outer clamp may bind; None where B was given.

    Attributes:
        center: midpoint of the bounds, in the statistic's unit.
        half_width: B', half the width of the bounds.
        precision: p, with eta = 2^-p.
        bound: B.
        epsilon_prime: of the noise, rounded down to p bits; the noise's scale is lambda' = 1 / epsilon_prime.
        step: Lambda', the smallest power of two that is not below lambda'.
        step_exponent: its binary logarithm.

    Source:
        Covington 2020, sections 5 and 6.5.1; Mironov 2012, theorem 1.
    """

    epsilon: Fraction
    sensitivity: Fraction
    lower: Fraction
    upper: Fraction
    gamma: Fraction | None

    center: Fraction
    half_width: Fraction
    precision: int
    bound: Fraction
    epsilon_prime: Fraction
    step: Fraction
    step_exponent: int

    @property
    def eta(self) -> Fraction:
        """The parameter eta, 2^-p."""
        return Fraction(1, 2**self.precision)

    def privacy_loss(self, distance: Fraction) -> Fraction:
        """Return the privacy loss for two values that are `distance` sensitivities apart."""
        if distance == 0:
            return Fraction(0)
        return self.epsilon_prime * (distance + 12 * self.bound * self.eta) + 2 * self.eta


def parameters(
    epsilon: object,
    *,
    sensitivity: object,
    lower: object,
    upper: object,
    gamma: object = None,
    bound: object = None,
) -> Parameters:
    """Return the snapping parameters of a caller's numbers, checked; B from gamma, or as it was given.

    Raises:
        ParameterError: a number is not admissible; it says which, and what is.
    """
    exact_epsilon = as_fraction(epsilon, "epsilon")
    if exact_epsilon <= Fraction(2, 2**max_precision):
        expected = (
            f"above 2 eta, that is above 2**-{max_precision - 1}, as eta is 2**-{max_precision} at best"
        )
        raise ParameterError("epsilon", epsilon, expected)
    if exact_epsilon > largest_epsilon:
        raise ParameterError("epsilon", epsilon, "at most 2**53")
    if bound is not None and gamma is not None:
        raise ParameterError("gamma", gamma, "left out where bound is given")
    rest = statistic(sensitivity, lower, upper, "0.05" if gamma is None else gamma)
    outer = None if bound is None else positive(bound, "bound") / rest[0]
    found = derive(exact_epsilon, *rest, outer)
    if found.precision > max_precision or math.isinf(
        round_up(abs(found.center) + found.bound * found.sensitivity)
    ):
        raise ParameterError("epsilon", epsilon, "larger: the noise for these bounds is beyond all floats")
    # docs/proofs/snapping.md asks for it; every gamma gives more.
    least = (found.half_width + found.step / 2) * found.sensitivity
    if bound is not None and found.bound * found.sensitivity < least:
        raise ParameterError(
            "bound",
            bound,
            f"at least {round_up(least)!r}: half of upper - lower, and half a step of the lattice",
        )
    return found


def statistic(
    sensitivity: object, lower: object, upper: object, gamma: object
) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    """Check the parameters of the statistic: sensitivity, bounds and gamma."""
    low, high = as_fraction(lower, "lower"), as_fraction(upper, "upper")
    if low >= high:
        raise ParameterError("lower", lower, f"below upper, which is {shown(upper)}")
    part = as_fraction(gamma, "gamma")
    if not 0 < part <= 1:
        raise ParameterError("gamma", gamma, "above 0 and at most 1")
    return positive(sensitivity, "sensitivity"), low, high, part


def derive(
    epsilon: Fraction,
    sensitivity: Fraction,
    lower: Fraction,
    upper: Fraction,
    gamma: Fraction,
    outer: Fraction | None = None,
) -> Parameters:
    """Derive all snapping parameters from admissible numbers; `outer` is B in sensitivities, where given."""
    center, half_width = (lower + upper) / 2, (upper - lower) / (2 * sensitivity)
    precision = max(least_precision, _exponent_not_below(2 / (_share * epsilon)))
    if outer is None:
        wanted = half_width + _largest_step(epsilon, precision) / 2 * (1 + 2 * log_bounds(1 / gamma)[1])
        bound = _to_float_step(center, wanted * sensitivity) / sensitivity
    else:
        bound = outer
    # Mironov's B < 2^(p-7) lambda' follows, as lambda' > 1 / epsilon.
    precision = max(precision, _exponent_not_below(bound * max(Fraction(1), epsilon) / _share))
    eta = Fraction(1, 2**precision)
    epsilon_prime = round_bits((epsilon - 2 * eta) / (1 + 12 * bound * eta), precision, up=False)
    exponent = _exponent_not_below(1 / epsilon_prime)
    step = Fraction(2) ** exponent
    return Parameters(
        epsilon, sensitivity, lower, upper, gamma if outer is None else None,
        center, half_width, precision, bound, epsilon_prime, step, exponent,
    )  # fmt: skip


def _largest_step(epsilon: Fraction, precision: int) -> Fraction:
    """Return the notes' k, a bound of the parameter Lambda' that does not need B."""
    return (2 + Fraction(24, 2**52)) / (epsilon - Fraction(2, 2**precision))


def _to_float_step(center: Fraction, wanted: Fraction) -> Fraction:
    """Round the parameter B up so that |center| + B is a float, and nearly always the other end too."""
    outer = round_up(abs(center) + wanted)
    return wanted if math.isinf(outer) else Fraction(outer) - abs(center)


def _exponent_not_below(number: Fraction) -> int:
    """Return the smallest e with 2^e >= number > 0, for the parameters that are powers of two.

    >>> [_exponent_not_below(x) for x in (Fraction(1), Fraction(9, 8), Fraction(1, 3))]
    [0, 1, -1]
    """
    exponent = number.numerator.bit_length() - number.denominator.bit_length()
    while Fraction(2) ** exponent >= number:
        exponent -= 1
    while Fraction(2) ** exponent < number:
        exponent += 1
    return exponent
