"""Numbers rounded outward: exp, normal tails, roots and powers that never lie on the wrong side.

Decimal numbers have 60 digits. What is computed of them is right to much less than 1e-45 of its parts, and is
widened by that. No bound is below 1e-305. docs/proofs/certificate.md, "Numbers".
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction

WIDE = 1 + 2.0**-40  # of floats
TINY = 1e-305
DIGITS = Context(60, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
_NEAR = Decimal("1e-45")
_ROOT = Decimal("2.50662827463100050241576528481104525300698674060993831662992357634229365")  # of 2 pi


def above(x: Fraction) -> float:
    """Return a float above a number."""
    try:
        return math.nextafter(float(x), math.inf)
    except OverflowError:
        return math.inf if x > 0 else -1e308


def decimal(x: Fraction) -> Decimal:
    """Return a number with the digits of the context."""
    return Decimal(x.numerator) / Decimal(x.denominator)


def widened(x: Decimal, parts: Decimal) -> Fraction:
    """Return a bound of what was computed of some parts, with the digits of the context."""
    return Fraction(max(x + parts * _NEAR, Decimal(TINY)))


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


def coins_below(loss: Fraction, times: int) -> list[Fraction]:
    """Return bounds of the chances that none, one, ... of biased coins have the loss -loss, others loss."""
    with localcontext(DIGITS):
        odds = (-decimal(loss)).exp()
        chances = [(1 / (1 + odds)) ** times]
        for i in range(times):
            chances.append(chances[-1] * odds * (times - i) / (i + 1))
        return [widened(chance, chance) for chance in chances]


def tail_above(x: Fraction) -> Fraction:
    """Return a bound of the chance that a standard normal number is above x, which is at least 0."""
    with localcontext(DIGITS):
        found = _tail(decimal(min(x, Fraction(40))))
        return widened(found, found)


def gaussian_delta(mu_squared: Fraction, epsilon: Fraction) -> Fraction:
    """Return a bound of the delta of Gaussian noise: Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu).

    Args:
        mu_squared: the squared distance of two inputs, over the deviation.
        epsilon: any number, also below 0.
    Source:
        Balle and Wang 2018, "Improving the Gaussian mechanism for differential privacy", theorem 8.
    """
    if not mu_squared:
        return max(Fraction(0), 1 - 1 / exp_above(-epsilon))
    mu = root_above(mu_squared)
    low, high = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if low > 40 or max(abs(low), abs(high)) > 10**6:
        return Fraction(TINY if low > 40 else 1)
    with localcontext(DIGITS):
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
    for n in range(200, 0, -1):
        fraction = x + n / fraction
    return density / fraction
