"""Laws of single numbers of noise whose body is stretched: mixtures of Erlang laws of two rates, exactly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from math import factorial

from sfumato.dataclass import dataclass
from sfumato.exact import round_up
from sfumato.exact.directed import exp_bounds
from sfumato.noise.k_norm.separate_laws import ExactMarginal
from sfumato.noise.k_norm.stretched import StretchedNoise

# Of (shape, rate): a weight, of any sign; all together 1.
Weights = Mapping[tuple[int, Fraction], Fraction]
ONE = Fraction(1)


@dataclass(frozen=True, repr=False)
class TwoRates(ExactMarginal):
    """|Z| is scale times a number whose law is a sum of Erlang laws with weights of any sign.

    Weights and rates are rational, and so are polynomials in rational numbers: tails are enclosed.

    Args:
        weights: of (shape, rate).

    >>> TwoRates(ONE, (((1, Fraction(1, 2)), Fraction(2)), ((1, ONE), Fraction(-1)))).outside(30)
    6.1180...e-07
    """

    weights: tuple[tuple[tuple[int, Fraction], Fraction], ...]

    def _outside(self, x: float) -> float:
        return min(1.0, round_up(2 * self.tail_bounds(Fraction(x) * self.scale)[1]))

    def _size_tail(self, x: float) -> float:
        return self._outside(x)

    @cached_property
    def _series(self) -> dict[Fraction, list[Fraction]]:
        """For each rate, by powers of rate times x, what exp(-rate x) is multiplied with in the tail."""
        found: dict[Fraction, list[Fraction]] = {}
        for (shape, rate), weight in self.weights:
            own = found.setdefault(rate, [])
            own += [Fraction(0)] * (shape - len(own))
            for i in range(shape):
                own[i] += weight / factorial(i)
        return found

    @cached_property
    def _bits(self) -> int:
        """Enough where rates are next to each other, and weights are large and cancel."""
        return 192 + 2 * int(sum(abs(weight) for _, weight in self.weights)).bit_length()

    def tail_bounds(self, x: Fraction) -> tuple[Fraction, Fraction]:
        """Enclose P(Z > x), x in steps."""
        if x < 0:
            low, high = self.tail_bounds(-x)
            return 1 - high, 1 - low
        least = most = Fraction(0)
        for rate, series in self._series.items():
            y, total = rate * x / self.scale, Fraction(0)
            for coefficient in reversed(series):
                total = total * y + coefficient
            ends = [end * total / 2 for end in exp_bounds(-y, self._bits)]
            least, most = least + min(ends), most + max(ends)
        return max(least, Fraction(0)), most

    @property
    def variance(self) -> float:
        """The variance of Z, in squared steps."""
        second = sum((w * k * (k + 1) / rate**2 for (k, rate), w in self.weights), Fraction(0))
        return float(second * self.scale**2)


def stretched(noise: StretchedNoise, coordinate: int) -> TwoRates:
    """Return the law of a coordinate of stretched noise.

    A favoured number is y, an Erlang number by the chances of j, where it is the largest of the p of them,
    and else uniform below. Another one is uniform below t, whose density is proportional to t^q exp(-v t)
    times the integral of y^(p-1) exp(-w y) up to t: exp(-v t) less exp(-t) times a polynomial.
    """
    m, p = noise.cone.signed + 1, len(noise.favoured)
    v, q = 1 - noise.part, m - p
    index = coordinate - noise.cone.units
    found: defaultdict[tuple[int, Fraction], Fraction] = defaultdict(Fraction)
    if max(index, 0) in noise.favoured:
        for j, chance in enumerate(noise.chances):
            found[m - j, ONE] += chance / p
            for shape in range(1, m - j) if p > 1 else ():
                found[shape, ONE] += chance * Fraction(p - 1, p) / (m - j - 1)
    else:
        sizes = {(q + 1, v): factorial(q) / v ** (q + 1)}
        sizes |= {(q + i + 1, ONE): -(noise.part**i) * factorial(q + i) / factorial(i) for i in range(p)}
        for (top, rate), mass in sizes.items():
            for shape in range(1, top):
                found[shape, rate] += mass / sum(sizes.values()) / (top - 1)
    if index < 0:
        found = _with_laplace(found)
    return TwoRates(noise.scales[coordinate], tuple(found.items()))


def _with_laplace(weights: Weights) -> defaultdict[tuple[int, Fraction], Fraction]:
    """Return the law of the size of Z + a Laplace number, from that of |Z|, in partial fractions.

    In transforms, A = r / (r - s) to the power k stands for an Erlang number, B = 1 / (1 - s) for an
    exponential one, and C = 1 / (1 + s) for its negative, which is as likely: Laplace is (B + C) / 2.
    """
    found: defaultdict[tuple[int, Fraction], Fraction] = defaultdict(Fraction)
    for (shape, rate), weight in weights.items():
        if rate == 1:
            # A B is one shape more, and A C is half of A and C.
            found[shape + 1, ONE] += weight / 2
            for i in range(1, shape + 1):
                found[i, ONE] += weight / 2 / 2 ** (shape - i + 1)
            found[1, ONE] += weight / 2 / 2**shape
            continue
        # A B is (A - r B) / (1 - r), and A C is (A + r C) / (1 + r).
        for sign in (-1, 1):
            left = weight / 2
            for i in range(shape, 0, -1):
                found[i, rate] += left / (1 + sign * rate)
                left *= sign * rate / (1 + sign * rate)
            found[1, ONE] += left
    return found
