"""The delta of several losses together: pure ones, Laplace noise, and Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from fractions import Fraction

from sfumato.certificate.contributions import Counted
from sfumato.certificate.numbers import TINY, WIDE, above, coins_below, gaussian_delta

try:
    from gmpy2 import mpz as _integer  # multiplies long integers faster
except ImportError:  # the same numbers without it
    _integer = int

_CELLS = (12, 48, 192, 768)  # of a grid from 0 to the largest loss of one number, coarse ones first
_MOST_PLACES = 1 << 17  # of the losses of all numbers together
_LARGEST_LOSS = Fraction(64)  # of one number; what is beyond is counted as lost for sure
_MOST_MIXED = 1 + (1 << 12)  # pure losses that are looked at one by one


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
        return Loss(*(getattr(self, own.name) + getattr(other, own.name) for own in fields(self)))

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
        best = _concentrated_delta(self.rho, epsilon) if self.ranged else Fraction(1)
        coins, laplace = self.pure + self.ranged, tuple(pair for pair in self.laplace if pair[0])
        if not laplace:
            if best > enough:
                parts = (w * gaussian_delta(self.mu_squared, epsilon - loss) for w, loss in _mixed(coins))
                best = min(best, sum(parts, Fraction(0)))
            return best
        epsilon -= sum((x - min(x, _LARGEST_LOSS)) * n for x, n in laplace + coins)
        laplace, coins = (tuple((min(x, _LARGEST_LOSS), n) for x, n in own) for own in (laplace, coins))
        largest = max(loss for loss, _ in laplace + coins)
        bits = 64 + (max(0, math.ceil(-math.log2(above(enough)))) if enough else 0)
        for cells in _CELLS if enough else _CELLS[:1]:  # no grid shows a delta of 0
            step = largest / cells
            places = sum(times * (loss / step + 1) for loss, times in laplace + coins)
            if self.mu_squared or places > _MOST_PLACES or best <= enough:
                break
            best = min(best, _hockey_stick(*_losses(laplace, coins, step, bits), step, bits, epsilon))
        return best


def _mixed(pure: Counted) -> list[tuple[Fraction, Fraction]]:
    """Return bounds of chances of losses, and the losses, of pure losses: each is a biased coin's.

    More than `_MOST_MIXED` of them are added up first, which loses no more than one coin of the sum.

    Source:
        Kairouz, Oh and Viswanath 2015, "The composition theorem for differential privacy".
    """
    if math.prod(times + 1 for _, times in pure) > _MOST_MIXED:
        pure = ((sum((loss * times for loss, times in pure), Fraction(0)), 1),)
    found = [(Fraction(1), Fraction(0))]
    for loss, n in pure:
        chances = coins_below(loss, n)
        found = [(w * v, a + (n - 2 * i) * loss) for w, a in found for i, v in enumerate(chances)]
    return found


def _losses(laplace: Counted, coins: Counted, step: Fraction, bits: int) -> tuple[int, list[int]]:
    """Return the place of the least loss in steps, and chances of losses from there in parts of 2^-bits.

    Source:
        Doroshenko et al. 2022, "Connect the dots: tighter discrete approximations of privacy loss
        distributions"; docs/proofs/certificate.md, "Laplace noise".
    """
    reach, found = 0, [1 << bits]
    each = [(_laplace_chances(loss, step, bits), times) for loss, times in laplace]
    for one, times in each + [(_coin_chances(loss, step, bits), times) for loss, times in coins]:
        own, left, reach = one, times, reach + times * (len(one) // 2)
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


def _coin_chances(loss: Fraction, step: Fraction, bits: int) -> list[int]:
    """Return chances of losses from -J to J steps of a biased coin, each at the two places beside it.

    These are as probable together as that side, on both tables, so that their hockey stick is the chord.
    """
    last, w, (right, wrong) = math.ceil(loss / step), float(step), map(float, coins_below(loss, 1))
    near, off, found = float(last * step - loss), float(loss - (last - 1) * step), [0.0] * (2 * last + 1)
    for i, chance, down, up in ((-2, right, off, near), (0, wrong, near, off)):
        found[i] += chance * math.expm1(up) / math.expm1(w)
        found[i + 1] += chance * math.expm1(-down) / math.expm1(-w)
    return [int(math.ldexp(chance * WIDE, bits)) + 1 for chance in found]


def _convolved(one: list[int], other: list[int], bits: int) -> list[int]:
    """Return chances of sums: numbers are digits of long integers, whose product has them as its digits."""
    width, size = (2 * bits + 64) // 8, len(one) + len(other) - 1
    product = int(_integer(_packed(one, width)) * _integer(_packed(other, width)))
    digits = product.to_bytes(size * width + width, "little")
    places = range(0, size * width, width)
    return [(int.from_bytes(digits[i : i + width], "little") >> bits) + 1 for i in places]


def _packed(numbers: list[int], width: int) -> int:
    return int.from_bytes(b"".join(n.to_bytes(width, "little") for n in numbers), "little")


def _hockey_stick(first: int, chances: list[int], step: Fraction, bits: int, epsilon: Fraction) -> Fraction:
    """Return a bound of the sum of chances times 1 - e^(epsilon - loss), of losses above epsilon."""
    start = max(math.floor(epsilon / step) + 1, first)
    near, each = above(start * step - epsilon), above(step)
    parts = (-math.expm1(-near - j * each) * float(p) for j, p in enumerate(chances[start - first :]))
    return Fraction(math.ldexp(math.fsum(parts) * WIDE, -bits))


def _concentrated_delta(rho: Fraction, epsilon: Fraction) -> Fraction:
    """Return a bound of the delta of zero-concentrated DP: any order is one, and this is about the best.

    Source:
        Canonne, Kamath and Steinke 2020, "The discrete Gaussian for differential privacy", proposition 12.
    """
    r, e = float(rho), float(epsilon)
    low, high = 1 + 1e-9, 2 + e / r + r**-0.5
    for _ in range(60):  # the slope of the logarithm rises with the order
        order = (low + high) / 2
        low, high = (order, high) if (2 * order - 1) * r + math.log1p(-1 / order) < e else (low, order)
    terms = (order - 1) * order * r, -(order - 1) * e, -math.log(order - 1), order * math.log1p(-1 / order)
    power = sum(terms) + 2.0**-48 * sum(map(abs, terms))  # each is right to 2^-50 of it
    return Fraction(min(1.0, max(math.exp(min(power, 1.0)) * WIDE, TINY)))
