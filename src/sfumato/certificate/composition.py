"""Losses, alone and together: pure ones, Laplace noise, and Gaussian noise; and numbers rounded outward.

Decimal numbers have the 60 digits of `DIGITS`, in which all of this is to run. What is computed of them is
right to much less than 1e-45 of its parts, and is widened by that. No bound is below 1e-305.
docs/proofs/certificate.md, "Numbers".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction

from sfumato.certificate.description import take

Counted = tuple[tuple[Fraction, int], ...]
Stick = Callable[[Decimal, Decimal], Decimal]
# Losses on a grid: the least one, in steps, and chances of each from there on, in parts of 10^-digits.
_Losses = tuple[int, list[int]]

_CELLS = (12, 48, 192, 768)  # of a grid from 0 to the largest loss of one number, coarse ones first
_WIDEST_GRID, _FINEST_STEP = Fraction(64), Fraction(1, 10**40)
_MOST_MIXED = 1 + (1 << 12)  # coins that are looked at one by one
_RARE = 4  # in the last digit of a chance
DIGITS = Context(60, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
_NEAR, _LEAST, _POWERS = Decimal("1e-45"), Decimal("1e-305"), Context(60, Emax=9999, traps=[])
_TURN = Decimal("17.7715317526334649880635239602427747944584867575027608923416")  # 4 sqrt(2) pi
_NODES = [(n * n, DIGITS.exp(DIGITS.divide(-n * n, 64))) for n in range(1, 103, 2)]


@dataclass(frozen=True)
class Loss:
    """What noise and choices lose together, each independent of the others given what came before.

    Args:
        coins: pure epsilons, the rho of zero-concentrated DP of each, and how often each.
        laplace: distances over the scales of Laplace noise, and of how many numbers each.
        mu_squared: of all Gaussian noise.
    """

    coins: tuple[tuple[Fraction, Fraction, int], ...] = ()
    laplace: Counted = ()
    mu_squared: Fraction = Fraction(0)

    def __add__(self, other: Loss) -> Loss:
        return Loss(*(getattr(self, own.name) + getattr(other, own.name) for own in fields(self)))

    @property
    def pairs(self) -> Counted:
        """All pure epsilons, and how often each: those of choices, and of Laplace noise."""
        return (*((loss, times) for loss, _, times in self.coins), *self.laplace)

    @property
    def epsilon(self) -> Fraction | None:
        """The pure epsilon of all; None with Gaussian noise."""
        return None if self.mu_squared else total(loss * times for loss, times in self.pairs)

    @property
    def rho(self) -> Fraction:
        """Of zero-concentrated DP: half of the squares of Laplace and Gaussian noise, and that of coins."""
        noise = total(loss**2 * times for loss, times in self.laplace) + self.mu_squared
        return noise / 2 + total(rho * times for _, rho, times in self.coins)

    def delta(self, epsilon: Fraction, enough: Fraction) -> Fraction:
        """Return a bound of delta at an epsilon; up to `enough` it need not be sharper."""
        pairs, pure = tuple(pair for pair in self.pairs if pair[0]), self.epsilon
        if pure is not None and pure <= epsilon:
            return Fraction(0)
        on_grid = self.laplace and pure is not None
        mixed = _mixed(((pure or Fraction(0), 1),) if on_grid else pairs)
        best = total(chance * gaussian_delta(self.mu_squared, epsilon - loss) for chance, loss in mixed)
        if best > enough:
            best = min(best, _concentrated_delta(self.rho, epsilon))
        digits = 18 + min(305, max(0, -decimal(enough).adjusted()))
        for cells in _CELLS if on_grid else ():
            if best <= enough or not enough:  # no grid shows a delta of 0
                break
            step = max(min(_WIDEST_GRID, max(pairs)[0]) / cells, _FINEST_STEP)
            with localcontext(prec=digits + 100):  # steps may be as small as 1e-40
                best = min(best, _hockey_stick(self._on_grid(step, digits), step, epsilon) / 10**digits)
        return best

    def _on_grid(self, step: Fraction, digits: int) -> _Losses:
        """Return losses on a grid, which are all together above those of Laplace noise and coins.

        Source:
            Doroshenko et al. 2022, "Connect the dots: tighter discrete approximations of privacy loss
            distributions"; docs/proofs/certificate.md, "Laplace noise and coins".
        """
        found: _Losses = 0, [10**digits]
        for place, (loss, times) in enumerate(self.pairs):
            stick = _coin_stick if place < len(self.coins) else _laplace_stick
            own = many = _chord(stick, loss, step, digits)
            for bit in f"{times:b}"[1:]:
                many = _added(many, many, digits)
                many = _added(many, own, digits) if bit == "1" else many
            found = _added(found, many, digits)
        return found


def _mixed(pairs: Counted) -> list[tuple[Fraction, Fraction]]:
    """Return bounds of chances of losses, and the losses, of pure losses: each is a biased coin's.

    More than `_MOST_MIXED` of them are added up first, which loses no more than one coin of the sum.

    Source:
        Kairouz, Oh and Viswanath 2015, "The composition theorem for differential privacy".
    """
    if math.prod(times + 1 for _, times in pairs) > _MOST_MIXED:
        pairs = ((total(loss * times for loss, times in pairs), 1),)
    found = [(Fraction(1), Fraction(0))]
    for loss, n in pairs:
        chances = _coins(loss, n)
        found = [(w * v, a + (n - 2 * i) * loss) for w, a in found for i, v in enumerate(chances)]
    return found


def _coins(loss: Fraction, times: int) -> list[Fraction]:
    """Return bounds of the chances that none, one, ... of biased coins have the loss -loss, others loss."""
    odds = (-decimal(loss)).exp()
    chances = [(1 / (1 + odds)) ** times]
    for i in range(times):
        chances.append(chances[-1] * odds * (times - i) / (i + 1))
    return [widened(chance, chance) for chance in chances]


def _laplace_stick(t: Decimal, end: Decimal) -> Decimal:
    """Return the hockey stick of Laplace noise: 1 - t up to 1 / end, 1 - (t / end)^(1/2) to end, 0."""
    return max(1 - min(t, (t / end).sqrt()), Decimal(0))


def _coin_stick(t: Decimal, odds: Decimal) -> Decimal:
    """Return the hockey stick of a biased coin, whose sides have these odds."""
    return (max(odds - t, Decimal(0)) + max(1 - odds * t, Decimal(0))) / (odds + 1)


def _chord(stick: Stick, loss: Fraction, step: Fraction, digits: int) -> _Losses:
    """Return losses on the grid whose hockey stick is the chord of another one.

    In t = e^loss chords between grid points change their slope at each; chances are that change times t. The
    slope is -1 before the first point, and 0 after the last.
    """
    last, end = math.ceil(loss / step), decimal(loss).exp()
    take(20 * last)
    ratio, t = decimal(step).exp(), decimal(-last * step).exp()
    slope, height, chances = Decimal(-1), stick(t, end), list[int]()
    for _ in range(-last, last + 1):
        following = stick(t * ratio, end)
        rise = (following - height) / (t * ratio - t)
        chances.append(int(((rise - slope) * t).scaleb(digits)) + 2)
        slope, height, t = rise, following, t * ratio
    return -last, chances


def _added(one: _Losses, other: _Losses, digits: int) -> _Losses:
    """Return the sums of two losses: chances are digits of long numbers, whose product has theirs.

    The rarest ones of small losses count as those of a larger one.
    """
    width, size = 2 * digits + 9, len(one[1]) + len(other[1]) - 1
    take(size * width >> 4)
    with localcontext(prec=MAX_PREC):
        packed = (Decimal("".join(f"{n:0{width}}" for n in own)) for own in (one[1], other[1]))
        product = str(math.prod(packed)).zfill(size * width)
    chances = [int(product[i : i + width - digits]) + 1 for i in range(0, size * width, width)]
    low = next((i for i, chance in enumerate(chances) if chance > _RARE), 0)
    return one[0] + other[0] + low, [sum(chances[: low + 1]), *chances[low + 1 :]]


def _hockey_stick(losses: _Losses, step: Fraction, epsilon: Fraction) -> Fraction:
    """Return a bound of the sum of chances times 1 - e^(epsilon - loss), of losses above epsilon."""
    first, chances = losses
    start = max(math.floor(epsilon / step) + 1, first)
    above, found = chances[start - first :], Decimal(0)
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
        low, high = (order, high) if (2 * order - 1) * r - math.log1p(1 / (order - 1)) < e else (low, order)
    more = order - 1
    terms = more * order * r, -more * e, -math.log(more), -order * math.log1p(1 / more)
    power = sum(terms) + 2.0**-48 * sum(map(abs, terms))  # each is right to 2^-50 of it
    return exp_above(Fraction(power if power < 0 else 0))  # also where it is no number


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
    """Return a bound of e^x; as a fraction a larger one than 1e9999 would take too long to write."""
    power = decimal(x).exp(_POWERS)
    return widened(power, power)


def any_of_many(chance: Fraction, times: int) -> Fraction:
    """Return a bound of the chance that something of this chance happens in one of independent trials."""
    with localcontext(prec=330):  # budgets pay what is nearer than 1e-70 above it
        none = (1 - decimal(chance)) ** times - times * Decimal("1e-325")
        return min(times * chance, 1 - Fraction(max(none, Decimal(0))))


def tail_above(law: str, x: Fraction) -> Fraction:
    """Return a bound of the chance that noise of scale 1 is above x, which is at least 0.

    Args:
        law: "laplace" or "gaussian".
        x: a number.
    """
    found = _tail(decimal(x)) if law == "gaussian" else (-decimal(x)).exp() / 2
    return widened(found, found)


def k_norm_tail(reach: Fraction, numbers: int, units: bool) -> Fraction:
    """Return a bound of the tail of the first number of K-norm noise of one group.

    The count that limits so many numbers, itself included, has the law of a signed Erlang number of a shape
    that is any of 1 to `numbers`. Units above it are another signed exponential number off it.
    """
    x, off, found = decimal(reach), Decimal(0), Decimal(0)
    erlang = term = density = (-x).exp()
    for j in range(1, numbers + 1):
        off, term = (erlang + off) / 2, term * x / j  # of Erlang less an exponential number
        found += (erlang + term + off + density / 2**j) / 2 if units else erlang
        erlang += term  # the tail of the next shape
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
    mu, e = decimal(mu_squared).sqrt(), decimal(epsilon)
    low, high = e / mu - mu / 2, e / mu + mu / 2
    if max(abs(low), abs(high)) > 10**6:
        return Fraction(_LEAST if low > 40 else 1)
    near, far = _tail(low), e.exp() * _tail(high)
    return min(widened(near - far, near + far), Fraction(1))


def _tail(x: Decimal) -> Decimal:
    """Return the chance that a standard normal number is above x, to 1e-45 of it.

    Source:
        Chiarella and Reichel 1968, "On the evaluation of integrals related to the error function":
        a sum of midpoints, and what the pole of the integrand adds.
    """
    if x < 0:
        return 1 - _tail(-x)
    found = sum(weight / (square + 32 * x * x) for square, weight in _NODES)
    pole = 1 / (1 + (x * _TURN).exp()) if x < _TURN else 0
    return found * 64 * x / _TURN * (-x * x / 2).exp() + pole
