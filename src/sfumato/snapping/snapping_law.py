"""The law of a snapped release: its accuracy, bias and variance, by sums over the lattice."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor
from typing import Any, NamedTuple

from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fraction, at_least_0, positive, round_up, whole_number
from sfumato.exact.library_settings import Isolated
from sfumato.exact.outward_rounding import convert, exactly, exp_bounds, log_bounds, nearest, to_float
from sfumato.exact.root_finding import first_float, first_whole
from sfumato.names.suggestions import suggest_arguments
from sfumato.snapping.snapping_parameters import Parameters, derive, largest_epsilon, statistic


class InSteps:
    """Noise of the snapping law in steps of the lattice, of scale 1 / rate."""

    def __init__(self, found: Parameters) -> None:
        self._context = nearest(2 * found.precision + 64)
        self._rate = found.epsilon_prime * found.step

    def _exp(self, x: Fraction) -> Any:
        """exp(-rate x) of the snapping law."""
        context = self._context
        return context.exp(context.minus(self._real(x * self._rate)))

    def _real(self, x: Fraction) -> Any:
        return convert(x, self._context)


def bias_bound(parameters: Parameters, value: Fraction) -> Fraction:
    """Bound |mean of the snapped release - value| from above, in sensitivities."""
    return abs(signed_bias(parameters, value)) + _roundings(parameters) * parameters.step


def signed_bias(parameters: Parameters, value: Fraction) -> Fraction:
    """Return the bias of the snapping law at a value, of real noise, in sensitivities."""
    inside = min(max(value, -parameters.half_width), parameters.half_width)
    cell = _Cell(parameters, _index(inside / parameters.step))
    return inside - value + cell.bias(inside / parameters.step) * parameters.step


def largest_bias_bound(parameters: Parameters) -> Fraction:
    """Bound the bias of the snapping law at every value within the bounds.

    The bias is odd, within a cell its derivative is convex, and the part that clamping adds grows outwards:
    the largest is at a stationary point or an end of the first, the last or the last but one cell.
    """
    far = parameters.half_width / parameters.step
    last = _index(far)
    best = Fraction(0)
    for k in {0, max(last - 1, 0), last}:
        cell = _Cell(parameters, k)
        low, high = max(Fraction(0), k - Fraction(1, 2)), min(far, k + Fraction(1, 2))
        inner = [a for a in cell.stationary() if low < a < high]
        best = max([best, *(abs(cell.bias(a)) for a in [low, *inner, high])])
    return (best + _roundings(parameters)) * parameters.step


def _index(a: Fraction) -> int:
    return floor(a + Fraction(1, 2))


def _roundings(parameters: Parameters) -> Fraction:
    """Bound what p-bit arithmetic and the working precision add to the law's bias, in steps."""
    return 8 * parameters.eta * (1 + parameters.bound * parameters.epsilon_prime)


class _Cell(InSteps):
    """The bias of the snapping law for values nearest to one lattice point."""

    def __init__(self, found: Parameters, k0: int) -> None:
        super().__init__(found)
        self._k0 = k0
        context = self._context
        bound = found.bound / found.step
        n = ceil(bound)
        half = self._exp(Fraction(1, 2))
        whole = context.sub(1, self._exp(Fraction(1)))
        cut = bound - n + 1

        def coefficient(to_end: int) -> Any:
            """Return half of the geometric sum of the law's tails, the last weighted by `cut`."""
            sum_ = context.div(context.sub(1, self._exp(Fraction(to_end))), whole)
            rest = context.mul(self._real(cut), self._exp(Fraction(to_end)))
            return context.div(context.mul(half, context.add(sum_, rest)), 2)

        self._up, self._down = coefficient(n - 1 - k0), coefficient(n - 1 + k0)

    def bias(self, a: Fraction) -> Fraction:
        """Return the bias of the snapping law at a, in steps."""
        context, offset = self._context, a - self._k0
        up = context.mul(self._up, self._exp(-offset))
        down = context.mul(self._down, self._exp(offset))
        return exactly(context.sub(up, down)) - offset

    def stationary(self) -> list[Fraction]:
        """Return where the bias of the snapping law is stationary within the cell, nearly."""
        context, s = self._context, self._real(1 / self._rate)
        square = context.sub(context.mul(s, s), context.mul(4, context.mul(self._up, self._down)))
        if square <= 0 or self._up <= 0:
            return []
        root = context.sqrt(square)
        tops = (context.sub(s, root), context.add(s, root))
        return [
            self._k0 + exactly(context.mul(s, context.log(context.div(top, context.mul(2, self._up)))))
            for top in tops
            if top > 0
        ]


# Below this, the noise is beyond all floats whatever the bounds.
_least_epsilon = 2.0**-1022


def probability(alpha: object) -> Fraction:
    """Return a checked alpha, the probability of a larger error."""
    exact = as_fraction(alpha, "alpha")
    if not 0 < exact <= 1:
        raise ParameterError("alpha", alpha, "above 0 and at most 1")
    return exact


def tight(parameters: Parameters, alpha: Fraction) -> float:
    """Return the a with P(error > a) <= alpha for every statistic within the bounds (GetAccuracy2)."""
    return _up(parameters, min(_noise(parameters, alpha) + parameters.step / 2, 2 * parameters.bound))


def loose(parameters: Parameters, alpha: Fraction) -> float:
    """Return (1 + ln(1/alpha)) / epsilon', a looser accuracy: lambda' stands for half a step."""
    return _up(parameters, _noise(parameters, alpha) + 1 / parameters.epsilon_prime)


def at_value(parameters: Parameters, value: Fraction, alpha: Fraction) -> float:
    """Return the a with P(error > a) <= alpha at one value, given in sensitivities about the centre.

    The notes' four cases (GetAccuracy). An error above B - |value| can only be towards the centre, where half
    of the noise is. As printed, P_U^- is an upper bound where a lower one is needed, and the last case
    promises too much for values near the bounds.
    """
    size = abs(value)
    both_sides = _noise(parameters, alpha) + parameters.step / 2
    one_side = _noise(parameters, min(2 * alpha, Fraction(1))) + parameters.step / 2
    return _up(parameters, min(both_sides, max(parameters.bound - size, one_side), parameters.bound + size))


def significance(parameters: Parameters, accuracy: Fraction) -> float:
    """Return the alpha with P(error > accuracy) <= alpha for every statistic within the bounds.

    `accuracy` is in sensitivities. It is `tight`, solved for alpha: exp(-epsilon' (a - Lambda' / 2)).
    """
    if accuracy >= 2 * parameters.bound:
        return 0.0
    eta = parameters.eta
    within = accuracy - parameters.step / 2 - eta * parameters.half_width
    log = within * parameters.epsilon_prime / (1 + eta) ** 2 - eta
    return 1.0 if log <= 0 else round_up(exp_up(-log))


def exp_up(x: Fraction) -> Fraction:
    """Return e^x for x <= 0, about 2^-256 of it above, for the snapping law; at least 2^-2000."""
    if x < -1400:
        return Fraction(1, 2**2000)
    return exp_bounds(x, 256)[1]


class LaplaceComparison(NamedTuple):
    """The accuracy of a snapped release next to that of plain Laplace noise with the same epsilon.

    It is the property `against_laplace` of a `SnappingMechanism`. Unless the outer clamp caps it, snapping =
    factor * laplace + half_step.

    Attributes:
        snapping: the accuracy of the release, as from `accuracy`.
        laplace: ln(1/alpha) sensitivity / epsilon, for the textbook mechanism, which floats cannot implement.
        factor: epsilon / epsilon', the cost of the arithmetic.
        half_step: half of the lattice's step, the cost of snapping.
    Source:
        Covington 2020, section 6.3.
    """

    snapping: float
    laplace: float
    factor: float
    half_step: float


def against_laplace(parameters: Parameters, alpha: Fraction) -> LaplaceComparison:
    """Compare `tight` with Laplace noise of the same epsilon, as section 6.3 does."""
    laplace = log_bounds(1 / alpha)[1] / parameters.epsilon * parameters.sensitivity
    factor, half = parameters.epsilon / parameters.epsilon_prime, parameters.step * parameters.sensitivity / 2
    return LaplaceComparison(tight(parameters, alpha), float(laplace), float(factor), float(half))


@suggest_arguments
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
        accuracy: the required accuracy, greater than 0, in the statistic's unit.
        alpha: the probability, in (0, 1], of a larger error.
        sensitivity, lower, upper, gamma: as for `SnappingMechanism`.
    Returns:
        epsilon, a float; the float below it does not reach the accuracy.
    Raises:
        ParameterError: a parameter is not valid, or no valid epsilon gives this accuracy.

    >>> from sfumato.snapping import SnappingMechanism
    >>> round(SnappingMechanism.epsilon_for_accuracy(2, 0.05, lower=0, upper=10), 3)
    1.997

    Source:
        Covington 2020, (6.4). Lambda' on its right side depends on the unknown, so it is solved by bisection:
        accuracy falls as epsilon grows, with jumps where 1 / epsilon' passes a power of two.
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


def _noise(parameters: Parameters, alpha: Fraction) -> Fraction:
    """Return the distance from the value that g + noise exceeds with probability at most alpha."""
    eta = parameters.eta
    return (log_bounds(1 / alpha)[1] + eta) * (
        1 + eta
    ) ** 2 / parameters.epsilon_prime + eta * parameters.half_width


def _up(parameters: Parameters, length: Fraction) -> float:
    return round_up(length * parameters.sensitivity)


# Below 2^-5000 only the size of a chance matters.
_tiny_bits = 5000
_tiny = nearest(64).mul_2exp(1, -_tiny_bits)


class SnappedLaw(Isolated, InSteps):
    """The distribution of one snapped release, if the statistic were `guess`.

    `SnappingMechanism.law` returns it. All values are in the statistic's unit. Probabilities of errors and
    accuracies are rounded up and cover the rounding of p-bit arithmetic. Probability, bias and variance are
    those of real noise, to the last bit of a float; p-bit arithmetic changes them by less than 2^-100 of
    their largest terms.

    Args:
        found: the mechanism's parameters.
        guess: a number that you choose, not the secret statistic.
    Source:
        Covington 2020, sections 6.3 and 6.4, which has bounds; docs/snapping.md, "The law of a release".
    """

    def __init__(self, found: Parameters, guess: Fraction) -> None:
        super().__init__(found)
        self.guess = guess
        self._found = found
        value = (guess - found.center) / found.sensitivity
        self._value = value
        self._unit = found.step * found.sensitivity
        # All that follows is in steps.
        self._from = value / found.step
        self._a = min(max(value, -found.half_width), found.half_width) / found.step
        self._bound = found.bound / found.step
        self._last = ceil(self._bound)

    def __repr__(self) -> str:
        return f"<law of a release at {float(self.guess):g}>"

    def probability(self, index: int) -> float:
        """Return P(release = center + index * lattice); the outermost index stands for center +- bound.

        Args:
            index: a whole number; beyond the outermost one the probability is 0.
        Returns:
            A float.
        Raises:
            ParameterError: index is not a whole number.

        >>> from sfumato.snapping import SnappingMechanism
        >>> law = SnappingMechanism(1, lower=0, upper=10).law(5)
        >>> [round(law.probability(k), 4) for k in (-1, 0, 1)], law.probability(99)
        ([0.159, 0.6321, 0.159], 0.0)
        """
        k = whole_number(index, "index", -(2**4096))
        if abs(k) > self._last:
            return 0.0
        context = self._context
        if k == self._last:
            return to_float(self._at_least(k))
        if k == -self._last:
            return to_float(self._lower_tail(k))
        # On the side where both tails are small, so that nothing cancels.
        if k > self._a:
            return to_float(context.sub(self._at_least(k), self._at_least(k + 1)))
        return to_float(context.sub(self._lower_tail(k), self._lower_tail(k - 1)))

    @property
    def clamped(self) -> float:
        """The probability that the outer clamp binds: that the release is center +- bound."""
        return to_float(self._context.add(self._at_least(self._last), self._lower_tail(-self._last)))

    @property
    def bias(self) -> float:
        """E release - guess, with its sign: below 0 where releases are too small on average.

        >>> from sfumato.snapping import SnappingMechanism
        >>> mechanism = SnappingMechanism(1, lower=0, upper=10)
        >>> [round(mechanism.law(guess).bias, 6) for guess in (0, 5, 10)]
        [0.000399, 0.0, -0.000399]
        """
        return float(signed_bias(self._found, self._value) * self._found.sensitivity)

    @property
    def variance(self) -> float:
        """The variance of a release, in squared units.

        >>> from sfumato.snapping import SnappingMechanism
        >>> law = SnappingMechanism(1, lower=0, upper=10).law(5)
        >>> round(law.variance, 3)                         # textbook Laplace noise has 2
        2.234
        """
        return float((self._mean_square() - self._mean() ** 2) * self._unit**2)

    @property
    def mean_squared_error(self) -> float:
        """E (release - guess)^2: the variance plus the squared bias."""
        bias = signed_bias(self._found, self._value) / self._found.step
        return float((self._mean_square() - self._mean() ** 2 + bias**2) * self._unit**2)

    def accuracy(self, alpha: Number) -> float:
        """Return the smallest a with P(|release - guess| > a) <= alpha.

        Args:
            alpha: probability, in (0, 1].
        Returns:
            A distance from the guess to a lattice point, or 0; rounded up.
        Raises:
            ParameterError: alpha is not in (0, 1].

        >>> from sfumato.snapping import SnappingMechanism
        >>> mechanism = SnappingMechanism(1, lower=0, upper=10)
        >>> mechanism.law(5).accuracy(0.05), round(mechanism.accuracy(0.05), 3)
        (2.0, 3.996)
        """
        part = probability(alpha)
        if self._tail_bound(Fraction(0)) <= part:
            return 0.0
        found = [d for side in (1, -1) if (d := self._smallest(side, part)) is not None]
        return round_up(min(found) * self._unit)

    def alpha(self, accuracy: Number) -> float:
        """Return P(|release - guess| > accuracy), rounded up.

        Args:
            accuracy: at least 0.
        Returns:
            A float.
        Raises:
            ParameterError: accuracy is negative or not finite.

        >>> from sfumato.snapping import SnappingMechanism
        >>> law = SnappingMechanism(1, lower=0, upper=10).law(5)
        >>> round(law.alpha(2), 4), law.alpha("1.999") > 0.3
        (0.0498, True)
        """
        exact = at_least_0(accuracy, "accuracy")
        return round_up(min(self._tail_bound(exact / self._unit), Fraction(1)))

    # In steps of the lattice.

    def _tail_bound(self, distance: Fraction) -> Fraction:
        """Return P(|release - guess| > distance) by this law, from above, of the mechanism in p bits."""
        found, context = self._found, self._context
        # Each tail is off by less than half of this times e^-T (docs/proofs/snapping.md, "Bias").
        roundings = 4 * found.eta * (1 + found.bound * found.epsilon_prime)
        total = Fraction(0)
        for side in (1, -1):
            start = side * self._from
            if distance >= self._bound - start:
                continue
            if start + distance < -self._bound:
                return Fraction(1)
            k = min(floor(start + distance) + 1, self._last)
            chance = _round_up_probability(self._tail(k - Fraction(1, 2) - side * self._a))
            total += chance + roundings * min(chance, 1 - chance + Fraction(1, 2**context.precision))
        return total

    def _smallest(self, side: int, part: Fraction) -> Fraction | None:
        """Return the smallest distance of a point on one side that the law exceeds with at most `part`."""
        start = side * self._from
        low, high = (-self._last if start <= -self._bound else ceil(start)), self._last
        if self._bound < start or self._tail_bound(self._point(high) - start) > part:
            return None
        found = first_whole(lambda k: self._tail_bound(self._point(k) - start) <= part, low - 1, high)
        return self._point(found) - start

    def _point(self, index: int) -> Fraction:
        return min(max(Fraction(index), -self._bound), self._bound)

    def _at_least(self, k: int) -> Any:
        return self._tail(k - Fraction(1, 2) - self._a)

    def _lower_tail(self, k: int) -> Any:
        return self._tail(self._a - k - Fraction(1, 2))

    def _tail(self, x: Fraction) -> Any:
        """Return P(noise >= x) of the snapping law."""
        context = self._context
        half = context.div(self._exp(abs(x)), 2)
        return half if x >= 0 else context.sub(1, half)

    def _mean(self) -> Fraction:
        """Return E release - a of the snapping law."""
        return (signed_bias(self._found, self._a * self._found.step)) / self._found.step

    def _mean_square(self) -> Fraction:
        """Return E (release - a)^2 of the snapping law."""
        near = min(floor(self._a + Fraction(1, 2)), self._last - 1)
        up = self._squares(self._a - near, self._last - 1 - near)
        down = self._squares(near - self._a, self._last - 1 + near)
        return (self._a - near) ** 2 + exactly(self._context.add(up, down))

    def _squares(self, offset: Fraction, inner: int) -> Any:
        """Add up the law's (2 j - 1 - 2 offset) T(j - 1/2 - offset) for j up to `inner`, and the last step.

        Args:
            offset: how far a lies beyond the point that j counts from, in this direction.
            inner: the number of whole steps to the outermost index but one.
        """
        context = self._context
        ratio = self._exp(Fraction(1))
        rest = context.sub(1, ratio)
        power = self._exp(Fraction(inner))
        # Sums of r^j and of j r^j for j from 1 to `inner`.
        ones = context.div(context.mul(ratio, context.sub(1, power)), rest)
        last = context.mul(power, context.sub(inner + 1, context.mul(inner, ratio)))
        times = context.div(context.mul(ratio, context.sub(1, last)), context.mul(rest, rest))
        both = context.sub(context.mul(2, times), context.mul(self._real(1 + 2 * offset), ones))
        inner_sum = context.mul(both, context.div(self._exp(-Fraction(1, 2) - offset), 2))
        end = self._bound - self._last + 1 + inner - offset
        step = end**2 - (inner - offset) ** 2
        outermost = context.mul(self._real(step), self._tail(inner + Fraction(1, 2) - offset))
        return context.add(inner_sum, outermost)


def _round_up_probability(chance: Any) -> Fraction:
    """Return a probability of the snapping law exactly, or a shorter bound where it is tiny."""
    return exactly(chance) if chance > _tiny else Fraction(1, 2**_tiny_bits)
