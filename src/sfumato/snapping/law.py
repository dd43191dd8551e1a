"""The exact law of a release, if the statistic were a guess: a finite sum over the lattice, in closed form.

In steps of the lattice and about the centre: at a value a, with noise of scale 1 / rate and the outermost
index n, the release reaches the index k > -n with probability T(k - 1/2 - a), the tail of real Laplace noise.
Squared distances rise from the point next to a by 2 (k - a) - 1 with each index passed, so that their mean is
an arithmetic-geometric sum of tails on each side.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor
from typing import Any

from sfumato.exact import Number, at_least_0, round_up, whole_number
from sfumato.exact.directed import exactly, nearest, to_float
from sfumato.exact.isolation import Isolated
from sfumato.exact.roots import first_whole
from sfumato.snapping.accuracy import probability
from sfumato.snapping.bias import signed_bias
from sfumato.snapping.parameters import Parameters
from sfumato.snapping.steps import InSteps

# Below 2^-5000 only the size of a chance matters.
_tiny_bits = 5000
_tiny = nearest(64).mul_2exp(1, -_tiny_bits)


class SnappedLaw(Isolated, InSteps):
    """The law of one release, if the statistic were `guess`; made by `SnappingMechanism.law`.

    Everything is in the statistic's unit. Chances of errors and accuracies are rounded up, and cover the
    roundings of p-bit arithmetic; probability, bias and variance are those of real noise, to the last bit
    of a float, which that arithmetic changes by less than 2^-100 of their largest terms.

    Args:
        found: the mechanism's numbers.
        guess: a number of your own, not the secret statistic.

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
        Raises:
            ParameterError: index is no whole number.

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
            return to_float(self._at_most(k))
        # On the side where both tails are small, so that nothing cancels.
        if k > self._a:
            return to_float(context.sub(self._at_least(k), self._at_least(k + 1)))
        return to_float(context.sub(self._at_most(k), self._at_most(k - 1)))

    @property
    def clamped(self) -> float:
        """The probability that the outer clamp binds: that the release is center +- bound."""
        return to_float(self._context.add(self._at_least(self._last), self._at_most(-self._last)))

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
        """The variance of the release, in squared units.

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
            A distance from the guess to a point of the lattice, or 0; rounded up.
        Raises:
            ParameterError: alpha is not in (0, 1].

        >>> from sfumato.snapping import SnappingMechanism
        >>> mechanism = SnappingMechanism(1, lower=0, upper=10)
        >>> mechanism.law(5).accuracy(0.05), round(mechanism.accuracy(0.05), 3)
        (2.0, 3.996)
        """
        part = probability(alpha)
        if self._beyond(Fraction(0)) <= part:
            return 0.0
        found = [d for side in (1, -1) if (d := self._smallest(side, part)) is not None]
        return round_up(min(found) * self._unit)

    def alpha(self, accuracy: Number) -> float:
        """Return P(|release - guess| > accuracy).

        Args:
            accuracy: at least 0.
        Raises:
            ParameterError: accuracy is negative or not finite.

        >>> from sfumato.snapping import SnappingMechanism
        >>> law = SnappingMechanism(1, lower=0, upper=10).law(5)
        >>> round(law.alpha(2), 4), law.alpha("1.999") > 0.3
        (0.0498, True)
        """
        exact = at_least_0(accuracy, "accuracy")
        return round_up(min(self._beyond(exact / self._unit), Fraction(1)))

    # In steps of the lattice.

    def _beyond(self, distance: Fraction) -> Fraction:
        """Return P(|release - guess| > distance), from above, of the mechanism in p bits."""
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
            chance = _at_most(self._tail(k - Fraction(1, 2) - side * self._a))
            total += chance + roundings * min(chance, 1 - chance + Fraction(1, 2**context.precision))
        return total

    def _smallest(self, side: int, part: Fraction) -> Fraction | None:
        """Return the smallest distance of a point on one side that is exceeded with at most `part`."""
        start = side * self._from
        low, high = (-self._last if start <= -self._bound else ceil(start)), self._last
        if self._bound < start or self._beyond(self._point(high) - start) > part:
            return None
        found = first_whole(lambda k: self._beyond(self._point(k) - start) <= part, low - 1, high)
        return self._point(found) - start

    def _point(self, index: int) -> Fraction:
        return min(max(Fraction(index), -self._bound), self._bound)

    def _at_least(self, k: int) -> Any:
        return self._tail(k - Fraction(1, 2) - self._a)

    def _at_most(self, k: int) -> Any:
        return self._tail(self._a - k - Fraction(1, 2))

    def _tail(self, x: Fraction) -> Any:
        """P(noise >= x)."""
        context = self._context
        half = context.div(self._exp(abs(x)), 2)
        return half if x >= 0 else context.sub(1, half)

    def _mean(self) -> Fraction:
        """E release - a."""
        return (signed_bias(self._found, self._a * self._found.step)) / self._found.step

    def _mean_square(self) -> Fraction:
        """E (release - a)^2."""
        near = min(floor(self._a + Fraction(1, 2)), self._last - 1)
        up = self._squares(self._a - near, self._last - 1 - near)
        down = self._squares(near - self._a, self._last - 1 + near)
        return (self._a - near) ** 2 + exactly(self._context.add(up, down))

    def _squares(self, offset: Fraction, inner: int) -> Any:
        """Add up (2 j - 1 - 2 offset) T(j - 1/2 - offset) for j up to `inner`, and the outermost step.

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


def _at_most(chance: Any) -> Fraction:
    """Return a chance, or a bound of one that is written more shortly than its digits."""
    return exactly(chance) if chance > _tiny else Fraction(1, 2**_tiny_bits)
