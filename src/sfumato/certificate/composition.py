"""The delta of several losses together: pure ones, Laplace noise, and Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sfumato.certificate.contributions import Counted
from sfumato.certificate.numbers import WIDE, above, exp_above, exp_below, gaussian_delta

try:
    from gmpy2 import mpz as _integer  # multiplies long integers faster
except ImportError:  # the same numbers without it
    _integer = int

_CELLS = (12, 48, 192, 768)  # of a grid from 0 to the largest loss of one number, coarse ones first
_MOST_PLACES = 1 << 17  # of the losses of all numbers together
_LARGEST_LOSS = 1000  # of one number, whose exponential is right to 2^-40
_MOST_MIXED = 1 << 10  # pure losses that are looked at one by one


@dataclass(frozen=True)
class Loss:
    """What noise and choices lose together, each independent of the others given what came before.

    Args:
        pure: pure epsilons, and how often each.
        ranged: pure epsilons of choices by the exponential mechanism, which have a bounded range.
        laplace: distances over the scales of Laplace noise, and of how many numbers each.
        mu_squared: of all Gaussian noise.
    """

    pure: Counted = ()
    ranged: Counted = ()
    laplace: Counted = ()
    mu_squared: Fraction = Fraction(0)

    def __add__(self, other: Loss) -> Loss:
        squares = self.mu_squared + other.mu_squared
        pairs = self.pure + other.pure, self.ranged + other.ranged, self.laplace + other.laplace
        return Loss(*pairs, squares)

    @property
    def epsilon(self) -> Fraction | None:
        """The pure epsilon of all; None with Gaussian noise."""
        pairs = self.pure + self.ranged + self.laplace
        return None if self.mu_squared else sum((loss * times for loss, times in pairs), Fraction(0))

    @property
    def rho(self) -> Fraction:
        """Of zero-concentrated DP: half the square of a pure loss, an eighth of one of bounded range."""
        pure = sum((loss**2 * times for loss, times in self.pure + self.laplace), self.mu_squared) / 2
        return pure + sum((loss**2 * times for loss, times in self.ranged), Fraction(0)) / 8

    def delta(self, epsilon: Fraction, enough: Fraction) -> Fraction:
        """Return a bound of delta at an epsilon; up to `enough` it need not be sharper."""
        if self.epsilon is not None and self.epsilon <= epsilon:
            return Fraction(0)
        mixed, laplace = _mixed(self.pure + self.ranged), [pair for pair in self.laplace if pair[0]]
        if not laplace and len(mixed) == 1:
            return gaussian_delta(self.mu_squared, epsilon, enough)
        if not laplace:
            parts = [(w, above(gaussian_delta(self.mu_squared, epsilon - loss, enough))) for w, loss in mixed]
            return min(Fraction(1), Fraction(math.fsum(w * part for w, part in parts) * WIDE))
        largest, best = max(loss for loss, _ in laplace), Fraction(1)
        bits = 64 + (max(0, math.ceil(-math.log2(above(enough)))) if enough else 0)
        for cells in _CELLS if enough else _CELLS[:1]:  # no grid shows a delta of 0
            step = largest / cells
            places = sum(times * (loss / step + 1) for loss, times in laplace)
            if self.mu_squared or largest > _LARGEST_LOSS or places > _MOST_PLACES or best <= enough:
                break
            first, chances = _losses(laplace, step, bits)
            total = math.fsum(w * _hockey_stick(first, chances, step, bits, epsilon - x) for w, x in mixed)
            best = min(best, Fraction(total * WIDE))
        return best


def _mixed(pure: Counted) -> list[tuple[float, Fraction]]:
    """Return bounds of chances of losses, and the losses, of pure losses: each is a biased coin's.

    More than `_MOST_MIXED` of them are added up first, which loses no more than one coin of the sum.

    Source:
        Kairouz, Oh and Viswanath 2015, "The composition theorem for differential privacy".
    """
    if math.prod(times + 1 for _, times in pure) > _MOST_MIXED:
        pure = ((sum((loss * times for loss, times in pure), Fraction(0)), 1),)
    found = [(1.0, Fraction(0))]
    for loss, times in pure:
        right = WIDE / (1 + exp_below(-loss))
        coins = [
            (math.comb(times, i) * right**times * exp_above(-i * loss) * WIDE, (times - 2 * i) * loss)
            for i in range(times + 1)
        ]
        found = [(w * v * WIDE, a + b) for w, a in found for v, b in coins]
    return found


def _losses(laplace: list[tuple[Fraction, int]], step: Fraction, bits: int) -> tuple[int, list[int]]:
    """Return the place of the least loss in steps, and chances of losses from there in parts of 2^-bits.

    Source:
        Doroshenko et al. 2022, "Connect the dots: tighter discrete approximations of privacy loss
        distributions"; docs/proofs/certificate.md, "Laplace noise".
    """
    reach, found = 0, [1 << bits]
    for loss, times in laplace:
        own, left = _laplace_chances(loss, step, bits), times
        reach += times * (len(own) // 2)
        while left:
            found = _convolved(found, own, bits) if left & 1 else found
            left >>= 1
            own = _convolved(own, own, bits) if left else own
    return -reach, found


def _laplace_chances(loss: Fraction, step: Fraction, bits: int) -> list[int]:
    """Return chances of losses from -J to J steps, whose hockey stick is the chord of that of Laplace noise.

    That is 1 - e^((l - loss)/2) between -loss and loss. In t = e^l its chords between grid points change
    their slope at each; chances are that change times t.
    """
    last, w, a = math.ceil(loss / step), float(step), float(loss)
    top = math.expm1(float((last - 1) * step - loss) / 2) / math.expm1(-w)
    chances = {i: math.exp((i * w - a) / 2) * math.tanh(w / 4) for i in range(2 - last, last - 1)}
    chances |= {last: top, -last: top * math.exp(-last * w)}
    # What is left is at the two places beside the ends, as often as e^l to 1; or at the one between them.
    left = max(0.0, 1 - math.fsum(chances.values())) + 2.0**-46
    share = 1 / (1 + math.exp((1 - last) * w)) if last > 1 else 1.0
    chances |= {1 - last: left * share * math.exp((1 - last) * w), last - 1: left * share}
    return [int(math.ldexp(chances[i] * WIDE, bits)) + 1 for i in range(-last, last + 1)]


def _convolved(one: list[int], other: list[int], bits: int) -> list[int]:
    """Return chances of sums: numbers are digits of long integers, whose product has them as its digits."""
    width, size = (2 * bits + 64) // 8, len(one) + len(other) - 1
    product = int(_integer(_packed(one, width)) * _integer(_packed(other, width)))
    digits = product.to_bytes(size * width + width, "little")
    places = range(0, size * width, width)
    return [(int.from_bytes(digits[i : i + width], "little") >> bits) + 1 for i in places]


def _packed(numbers: list[int], width: int) -> int:
    return int.from_bytes(b"".join(n.to_bytes(width, "little") for n in numbers), "little")


def _hockey_stick(first: int, chances: list[int], step: Fraction, bits: int, epsilon: Fraction) -> float:
    """Return a bound of the sum of chances times 1 - e^(epsilon - loss), of losses above epsilon."""
    start = max(math.floor(epsilon / step) + 1, first)
    near, each = above(start * step - epsilon), above(step)
    parts = (-math.expm1(-near - j * each) * float(p) for j, p in enumerate(chances[start - first :]))
    return math.ldexp(math.fsum(parts) * WIDE, -bits)
