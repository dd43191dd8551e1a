"""Losses, alone and together: pure ones, Laplace noise, and Gaussian noise; and numbers rounded outward.

Decimal numbers have 60 digits. What is computed of them is right to much less than 1e-45 of its parts, and is
widened by that. No bound is below 1e-305. docs/proofs/certificate.md, "Numbers".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from typing import NamedTuple

from sfumato.certificate.description import take

Counted = tuple[tuple[Fraction, int], ...]
Stick = Callable[[Decimal], Decimal]

_CELLS = (12, 48, 192, 768)  # of a grid from 0 to the largest loss of one number, coarse ones first
_WIDEST_GRID, _FINEST_STEP = Fraction(64), Fraction(1, 10**40)
_MOST_PLACES = 1 << 17  # of the losses of all numbers together
_MOST_MIXED = 1 + (1 << 12)  # pure losses that are looked at one by one
_RARE = 4  # in the last digit of a chance
DIGITS = Context(60, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
_NEAR, _LEAST = Decimal("1e-45"), Decimal("1e-305")
_ROOT = Decimal("2.50662827463100050241576528481104525300698674060993831662992357634229365")  # of 2 pi


@dataclass(frozen=True)
class Loss:
    """What noise and choices lose together, each independent of the others given what came before.

    Args:
        pure: pure epsilons, and how often each.
        ranged: pure epsilons of choices by the exponential mechanism, which have a bounded range.
        laplace: distances over the scales of Laplace noise, and of how many numbers each.
        mu_squared: of all Gaussian noise.
        spared: of zero-concentrated DP, what is less than pure losses say: their parts have smaller ones.
    """

    pure: Counted = ()
    ranged: Counted = ()
    laplace: Counted = ()
    mu_squared: Fraction = Fraction(0)
    spared: Fraction = Fraction(0)

    def __add__(self, other: Loss) -> Loss:
        return Loss(*(getattr(self, own.name) + getattr(other, own.name) for own in fields(self)))

    @property
    def epsilon(self) -> Fraction | None:
        """The pure epsilon of all; None with Gaussian noise."""
        pairs = self.pure + self.ranged + self.laplace
        return None if self.mu_squared else total(loss * times for loss, times in pairs)

    @property
    def rho(self) -> Fraction:
        """Of zero-concentrated DP: half the square of a pure loss, an eighth of one of bounded range."""
        pure = total(loss**2 * times for loss, times in self.pure + self.laplace) + self.mu_squared
        return pure / 2 + total(loss**2 * times for loss, times in self.ranged) / 8 - self.spared

    def delta(self, epsilon: Fraction, enough: Fraction) -> Fraction:
        """Return a bound of delta at an epsilon; up to `enough` it need not be sharper."""
        if self.epsilon is not None and self.epsilon <= epsilon:
            return Fraction(0)
        best = _concentrated_delta(self.rho, epsilon) if self.ranged else Fraction(1)
        coins, laplace = self.pure + self.ranged, tuple(pair for pair in self.laplace if pair[0])
        if not laplace:
            return best if best <= enough else min(best, self._mixed_delta(coins, epsilon, enough))
        largest = min(_WIDEST_GRID, max(loss for loss, _ in laplace + coins))
        digits = 18 + (min(305, max(0, -decimal(enough).adjusted())) if enough else 0)
        for cells in _CELLS if enough else _CELLS[:1]:  # no grid shows a delta of 0
            step = largest / cells
            places = sum(times * (loss / step + 1) for loss, times in laplace + coins)
            if self.mu_squared or places > _MOST_PLACES or step < _FINEST_STEP or best <= enough:
                break
            with localcontext(DIGITS, prec=digits + 100):  # steps may be as small as 1e-40
                sticks = [(_laplace_stick(decimal(loss)), loss, times) for loss, times in laplace]
                sticks += [(_coin_stick(decimal(loss)), loss, times) for loss, times in coins]
                best = min(best, _hockey_stick(_composed(sticks, step, digits), step, epsilon) / 10**digits)
        return best

    def _mixed_delta(self, coins: Counted, epsilon: Fraction, enough: Fraction) -> Fraction:
        """Return a bound of the mean of delta over the losses of coins, the largest loss first."""
        found, mixed = Fraction(0), sorted(_mixed(coins), key=lambda pair: -pair[1])
        left = total(chance for chance, _ in mixed)
        for chance, loss in mixed:
            rare = chance * _MOST_MIXED * 10**30 < enough
            own = Fraction(1) if rare else gaussian_delta(self.mu_squared, epsilon - loss)
            if left * own * 10**45 < found:  # smaller losses have smaller deltas
                return found + left * own
            found, left = found + chance * own, left - chance
        return found


def _mixed(pure: Counted) -> list[tuple[Fraction, Fraction]]:
    """Return bounds of chances of losses, and the losses, of pure losses: each is a biased coin's.

    More than `_MOST_MIXED` of them are added up first, which loses no more than one coin of the sum.

    Source:
        Kairouz, Oh and Viswanath 2015, "The composition theorem for differential privacy".
    """
    if math.prod(times + 1 for _, times in pure) > _MOST_MIXED:
        pure = ((total(loss * times for loss, times in pure), 1),)
    found = [(Fraction(1), Fraction(0))]
    for loss, n in pure:
        chances = _coins(loss, n)
        found = [(w * v, a + (n - 2 * i) * loss) for w, a in found for i, v in enumerate(chances)]
    return found


def _laplace_stick(loss: Decimal) -> Stick:
    """Return the hockey stick of Laplace noise: 1 - t up to e^-loss, 1 - (t / e^loss)^(1/2) to e^loss, 0."""
    end = loss.exp()
    return lambda t: max(1 - min(t, (t / end).sqrt()), Decimal(0))


def _coin_stick(loss: Decimal) -> Stick:
    """Return the hockey stick of a biased coin, whose sides have the losses -loss and loss."""
    odds = loss.exp()
    return lambda t: (max(odds - t, Decimal(0)) + max(1 - odds * t, Decimal(0))) / (odds + 1)


class _Losses(NamedTuple):
    """Chances of losses on a grid, in parts of 10^-digits.

    Args:
        first: the least loss, in steps.
        chances: of each loss from there on.
        beyond: of larger ones.
    """

    first: int
    chances: list[int]
    beyond: int = 0


def _composed(sticks: list[tuple[Stick, Fraction, int]], step: Fraction, digits: int) -> _Losses:
    """Return the losses of so many of each of some hockey sticks, which are all below a loss.

    Source:
        Doroshenko et al. 2022, "Connect the dots: tighter discrete approximations of privacy loss
        distributions"; docs/proofs/certificate.md, "Laplace noise".
    """
    one = found = _Losses(0, [10**digits])
    for stick, loss, times in sticks:
        own, power, left = _on_grid(stick, math.ceil(loss / step), step, digits), one, times
        while left:
            power = _added(power, own, digits) if left & 1 else power
            left >>= 1
            own = _added(own, own, digits) if left else own
        found = _added(found, power, digits)
    return found


def _on_grid(stick: Stick, last: int, step: Fraction, digits: int) -> _Losses:
    """Return losses from -last to last steps, whose hockey stick is the chord of another one.

    In t = e^loss chords between grid points change their slope at each; chances are that change times t. The
    slope is -1 before the first point, and 0 after the last.
    """
    take(20 * last)
    ratio, t = decimal(step).exp(), decimal(-last * step).exp()
    slope, height, chances = Decimal(-1), stick(t), list[int]()
    for _ in range(-last, last + 1):
        following = stick(t * ratio)
        rise = (following - height) / (t * ratio - t)
        chances.append(int(((rise - slope) * t).scaleb(digits)) + 2)
        slope, height, t = rise, following, t * ratio
    return _Losses(-last, chances)


def _added(one: _Losses, other: _Losses, digits: int) -> _Losses:
    """Return the sums of two losses: chances are digits of long numbers, whose product has theirs.

    The rarest ones at the ends count as larger losses. All chances together are less than 2.
    """
    width, size = 2 * digits + 9, len(one.chances) + len(other.chances) - 1
    take(size * width >> 5)
    with localcontext(DIGITS, prec=MAX_PREC):
        packed = (Decimal("".join(f"{n:0{width}}" for n in own.chances)) for own in (one, other))
        product = str(math.prod(packed)).zfill(size * width)
    chances = [int(product[i : i + width - digits]) + 1 for i in range(0, size * width, width)]
    often = [i for i, chance in enumerate(chances) if chance > _RARE] or [0]
    low, high = often[0], often[-1]
    beyond = 2 * (one.beyond + other.beyond) + sum(chances[high + 1 :])
    chances[low] += sum(chances[:low])
    return _Losses(one.first + other.first + low, chances[low : high + 1], beyond)


def _hockey_stick(losses: _Losses, step: Fraction, epsilon: Fraction) -> Fraction:
    """Return a bound of the sum of chances times 1 - e^(epsilon - loss), of losses above epsilon."""
    take(len(losses.chances))
    start = max(math.floor(epsilon / step) + 1, losses.first)
    above, found = losses.chances[start - losses.first :], Decimal(losses.beyond)
    part, ratio = decimal(epsilon - start * step).exp(), decimal(-step).exp()
    for chance in above:
        found += chance * (1 - part)
        part *= ratio
    return widened(found, Decimal(sum(above)))


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
    return exp_above(Fraction(min(power, 0.0)))


def _coins(loss: Fraction, times: int) -> list[Fraction]:
    """Return bounds of the chances that none, one, ... of biased coins have the loss -loss, others loss."""
    with localcontext(DIGITS):
        odds = (-decimal(loss)).exp()
        chances = [(1 / (1 + odds)) ** times]
        for i in range(times):
            chances.append(chances[-1] * odds * (times - i) / (i + 1))
        return [widened(chance, chance) for chance in chances]


def total(numbers: Iterable[Fraction]) -> Fraction:
    """Return the exact sum."""
    return sum(numbers, Fraction(0))


def decimal(x: Fraction) -> Decimal:
    """Return a number with the digits of the context."""
    return Decimal(x.numerator) / Decimal(x.denominator)


def widened(x: Decimal, parts: Decimal) -> Fraction:
    """Return a bound of what was computed of some parts, with the digits of the context."""
    return Fraction(max(x + parts * _NEAR, _LEAST))


def exp_above(x: Fraction) -> Fraction:
    """Return a bound of e^x."""
    with localcontext(DIGITS):
        power = decimal(x).exp()
        return widened(power, power)


def root_above(x: Fraction) -> Fraction:
    """Return a rational number that is not below a square root, and at most 2^-250 of it above."""
    shift = max(0, 512 - x.numerator.bit_length() + x.denominator.bit_length()) // 2
    square = -(-(x.numerator << 2 * shift) // x.denominator)
    root = math.isqrt(square)
    return Fraction(root + (root * root < square), 1 << shift)


def any_of_many(chance: Fraction, times: int) -> Fraction:
    """Return a bound of the chance that something of this chance happens in one of independent trials."""
    with localcontext(DIGITS, prec=330):  # budgets pay what is nearer than 1e-70 above it
        none = (1 - decimal(chance)) ** times - times * Decimal("1e-325")
        return min(times * chance, 1 - Fraction(max(none, Decimal(0))))


def tail_above(law: str, x: Fraction) -> Fraction:
    """Return a bound of the chance that noise of scale 1 is above x, which is at least 0.

    Args:
        law: "laplace" or "gaussian".
        x: a number.
    """
    if law == "laplace":
        return exp_above(-x) / 2
    with localcontext(DIGITS):
        found = _tail(decimal(min(x, Fraction(40))))
        return widened(found, found)


def k_norm_tail(reach: Fraction, numbers: int, units: bool) -> Fraction:
    """Return a bound of the tail of the first number of K-norm noise of one group.

    The count that limits so many numbers, itself included, has the law of a signed Erlang number of a shape
    that is any of 1 to `numbers`. Units above it are another signed exponential number off it.
    """
    with localcontext(DIGITS):
        x, none = decimal(reach), Decimal(0)
        density = (-x).exp()
        erlang, term, found, off = [none], density, none, none
        for j in range(1, numbers + 2):
            erlang.append(erlang[-1] + term)  # the tail of Erlang of shape j
            term *= x / j
        for j in range(1, numbers + 1):
            off = (erlang[j] + off) / 2  # of Erlang less an exponential number
            both = (erlang[j + 1] + off + density / 2**j) / 2
            found += both if units else erlang[j]
        return widened(found / numbers / 2, found)


def gaussian_delta(mu_squared: Fraction, epsilon: Fraction) -> Fraction:
    """Return a bound of the delta of Gaussian noise: Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu).

    Args:
        mu_squared: the squared distance of two inputs, over the deviation.
        epsilon: any number, also below 0.
    Source:
        Balle and Wang 2018, "Improving the Gaussian mechanism for differential privacy", theorem 8.
    """
    take(200)
    if not mu_squared:
        return max(Fraction(0), 1 - 1 / exp_above(-epsilon))
    mu = root_above(mu_squared)
    low, high = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    with localcontext(DIGITS):
        if low > 40 or max(abs(low), abs(high)) > 10**6:
            return Fraction(_LEAST if low > 40 else 1)
        near, far = _tail(decimal(low)), decimal(epsilon).exp() * _tail(decimal(high))
        return min(widened(near - far, near + far), Fraction(1))


def _tail(x: Decimal) -> Decimal:
    """Return the chance that a standard normal number is above x, to 1e-45 of it."""
    if x < 0:
        return 1 - _tail(-x)
    square, density = x * x, (-x * x / 2).exp() / _ROOT
    if x < 6:
        term, total, n = x, Decimal(0), 1  # x + x³/3 + x⁵/15 + ...
        while total + term > total:
            total, n = total + term, n + 2
            term = term * square / n
        return Decimal("0.5") - density * total
    fraction = x  # Laplace's, x + 1/(x + 2/(x + ...))
    for n in range(20 + int(6500 / square), 0, -1):
        fraction = x + n / fraction
    return density / fraction
