"""Laws of single numbers of noise of each group, in closed form."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.exact.directed import exp_bounds, log2
from sfumato.noise.k_norm.laws import Marginal
from sfumato.noise.k_norm.separate import SeparateNoise


@dataclass(frozen=True, repr=False)
class ErlangMixture(Marginal):
    """|Z| is scale times an Erlang number of shape j with probability weights[j - 1].

    Every term is positive, so that tails are right to 12 digits however small.

    >>> ErlangMixture(Fraction(1), (Fraction(1, 2), Fraction(1, 2))).outside(15.2) / 2
    1.0769...e-06
    """

    weights: tuple[Fraction, ...]

    def _outside(self, x: float) -> float:
        # P(Erlang(j) > x) is e^-x times the first j terms of e^x's series.
        left, term, total = 1.0, 1.0, 0.0
        for j, weight in enumerate(self.weights, 1):
            total += left * term
            left = max(left - float(weight), 0.0)
            term *= x / j
        return float(min(1.0, np.exp(-x) * total))

    def _size_tail(self, x: float) -> float:
        return self._outside(x)

    def tail_bounds(self, x: Fraction) -> tuple[Fraction, Fraction]:
        """Enclose P(Z > x), x in steps."""
        if x < 0:
            low, high = self.tail_bounds(-x)
            return 1 - high, 1 - low
        y, left, term, total = x / self.scale, Fraction(1), Fraction(1), Fraction(0)
        for j, weight in enumerate(self.weights, 1):
            total += left * term
            left -= weight
            term *= y / j
        low, high = exp_bounds(-y, 128)
        return low * total / 2, high * total / 2

    def tail_quantile(self, probability: Fraction) -> float:
        """Return about the x with P(Z > x) = probability, for probabilities below 1/2."""
        return self.tolerance(-log2(2 * probability) / np.log2(10))

    @property
    def variance(self) -> float:
        """The variance of Z, in squared steps."""
        second = sum((w * j * (j + 1) for j, w in enumerate(self.weights, 1)), Fraction(0))
        return float(second * self.scale**2)


def separate(noise: SeparateNoise, coordinate: int) -> ErlangMixture:
    """Return the law of a coordinate of noise of each group.

    A number of a vector of M that has the density exp(-max) is its maximum, Erlang(M), or uniform below
    it: an equal mixture of Erlang(1) to Erlang(M). Units are that and a Laplace number: of Erlang(j) and
    it, in characteristic functions, (1 - it)^-j / (1 + t^2) is half (1 - it)^-(j + 1), and half a sum that
    halves again.
    """
    power = noise.cone.signed + 1
    mixture = [Fraction(1, power)] * power
    if noise.cone.units and coordinate == 0:
        with_units = [Fraction(0)] * (power + 1)
        for j, weight in enumerate(mixture, 1):
            with_units[j] += weight / 2
            for i in range(1, j + 1):
                with_units[i - 1] += weight / 2 / 2 ** (j - i + 1)
            with_units[0] += weight / 2 / 2**j
        mixture = with_units
    return ErlangMixture(noise.scales[coordinate], tuple(mixture))
