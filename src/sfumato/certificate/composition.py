"""Losses, alone and together, of pure mechanisms and of Gaussian noise; and numbers rounded outward.

Decimal numbers have the 60 digits of `DIGITS`, in which all of this is to run. What is computed of them is
right to much less than 1e-45 of its parts, and is widened by that. No bound is below 1e-305.
docs/proofs/certificate.md, "Numbers".
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction

from sfumato.certificate.description import take

Counted = tuple[tuple[Fraction, int], ...]
_MAX_SUMS = 1 + (1 << 12)  # of losses that are added up one by one
DIGITS = Context(60, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
_NEAR, _MIN, _POWERS = Decimal("1e-45"), Decimal("1e-305"), Context(60, Emax=9999, traps=[])
_TURN = Decimal("17.7715317526334649880635239602427747944584867575027608923416")  # 4 sqrt(2) pi
_NODES = [(n * n, DIGITS.exp(DIGITS.divide(-n * n, 64))) for n in range(1, 103, 2)]


@dataclass(frozen=True)
class Loss:
    """What noise and choices lose together, each independent of the others given what came before.

    Args:
        coins: pure epsilons, of what loses no more than biased coins with these, and how often each.
        pure: a pure epsilon of all of them, which may be less than their sum.
        rho: of zero-concentrated DP, of all of them without Gaussian noise.
        mu_squared: of all Gaussian noise.
    """

    coins: Counted = ()
    pure: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)
    mu_squared: Fraction = Fraction(0)

    def __add__(self, other: Loss) -> Loss:
        return Loss(*(getattr(self, own.name) + getattr(other, own.name) for own in fields(self)))

    @property
    def all_rho(self) -> Fraction:
        """The rho of zero-concentrated DP of all of it."""
        return self.rho + self.mu_squared / 2

    def delta(self, epsilon: Fraction, enough: Fraction) -> Fraction:
        """Return a bound of delta at an epsilon; up to `enough` it need not be sharper."""
        if not self.mu_squared and self.pure <= epsilon:
            return Fraction(0)
        best, alike = Fraction(1), Counter[Fraction]()
        for loss, times in self.coins:
            alike[loss] += times if loss else 0
        for coins in (tuple(alike.items()), ((self.pure, 1),)):
            if best > enough and math.prod(times + 1 for _, times in coins) <= _MAX_SUMS:
                deltas = ((w, gaussian_delta(self.mu_squared, epsilon - loss)) for w, loss in _mix(coins))
                best = min(best, sum_exactly(chance * delta for chance, delta in deltas))
        if best > enough:
            best = min(best, _concentrated_delta(self.all_rho, epsilon))
        return best


def _mix(coins: Counted) -> list[tuple[Fraction, Fraction]]:
    """Return bounds of the chances of losses, and the losses, of biased coins together.

    Of n coins i have the loss -loss, and the others loss.

    Source:
        Kairouz, Oh and Viswanath 2015, "The composition theorem for differential privacy".
    """
    found = [(Fraction(1), Fraction(0))]
    for loss, n in coins:
        power, whole = -decimal(loss), (1 + (-decimal(loss)).exp()) ** n
        chances = [math.comb(n, i) * (i * power).exp() / whole for i in range(n + 1)]
        each = [(widen(v, v), (n - 2 * i) * loss) for i, v in enumerate(chances)]
        found = [(w * v, a + b) for w, a in found for v, b in each]
    return found


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


def sum_exactly(numbers: Iterable[Fraction]) -> Fraction:
    """Return the exact sum."""
    return sum(numbers, Fraction(0))


def decimal(x: Fraction) -> Decimal:
    """Return a number with the digits of the context."""
    return Decimal(x.numerator) / Decimal(x.denominator)


def widen(x: Decimal, parts: Decimal) -> Fraction:
    """Return a bound of what was computed of some parts, with the digits of the context."""
    return Fraction(max(x + parts * _NEAR, _MIN))


def exp_above(x: Fraction) -> Fraction:
    """Return a bound of e^x; as a fraction a larger one than 1e9999 would take too long to write."""
    power = decimal(x).exp(_POWERS)
    return widen(power, power)


def any_of_many(chance: Fraction, times: int) -> Fraction:
    """Return a bound of the chance that something of this chance happens in one of independent trials."""
    with localcontext(prec=330):  # budgets pay what is nearer than 1e-70 above it
        none = (1 - decimal(chance)) ** times - times * Decimal("1e-325")
        return min(times * chance, 1 - Fraction(max(none, Decimal(0))))


def tail_above(law: str, x: Fraction, scale: Fraction) -> Fraction:
    """Return a bound of the chance that noise is above x times its scale, a half more than a whole number.

    Args:
        law: "laplace", "discrete_laplace" or "gaussian".
        x: a number above 0.
        scale: of the noise.
    """
    # With a half step, e^(-n / scale) / (1 + e^(-1 / scale)) for the next whole number n; without, e^-x / 2.
    half = decimal(1 / scale) / 2 if law == "discrete_laplace" else Decimal(0)
    found = _tail(decimal(x)) if law == "gaussian" else (-decimal(x) - half).exp() / (1 + (-2 * half).exp())
    return widen(found, found)


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
    return widen(found / numbers / 2, found)


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
        return Fraction(_MIN if low > 40 else 1)
    near, far = _tail(low), e.exp() * _tail(high)
    return min(widen(near - far, near + far), Fraction(1))


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
