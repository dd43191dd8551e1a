"""Numbers rounded outward: exp, normal tails, roots and powers that never lie on the wrong side.

exp, expm1, log1p and erfc of the C library are right to a few units in the last place, 2^-50 of the value;
their arguments are moved outward first, and their values widened by 2^-40. Below 1e-290 an upper bound is
1e-290 and a lower one is 0. docs/proofs/certificate.md, "Numbers".
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction

WIDE = 1 + 2.0**-40
_NARROW = 1 - 2.0**-40
_TINY = 1e-290
_LARGEST_POWER = 690.0  # e^690 and e^-690 are normal floats
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803483")
_NEAR = Decimal("1e-45")  # of what is computed with 70 digits in at most a thousand operations
_TERMS = 300


def above(x: Fraction) -> float:
    """Return a float above a number."""
    try:
        return math.nextafter(float(x), math.inf)
    except OverflowError:
        return math.inf if x > 0 else -1e308


def exp_above(x: Fraction) -> float:
    """Return a float above e^x."""
    power = above(x)
    return math.inf if power > _LARGEST_POWER else max(math.exp(power) * WIDE, _TINY)


def exp_below(x: Fraction) -> float:
    """Return a float below e^x, and not below 0."""
    power = min(-above(-x), _LARGEST_POWER)
    return 0.0 if power < -_LARGEST_POWER else math.exp(power) * _NARROW


def root_above(x: Fraction) -> Fraction:
    """Return a rational number that is not below a square root, and within 2^-60 of it."""
    shift = max(0, 128 - x.numerator.bit_length() + x.denominator.bit_length()) // 2
    square = -(-(x.numerator << 2 * shift) // x.denominator)
    root = math.isqrt(square)
    return Fraction(root + (root * root < square), 1 << shift)


def tail_above(x: Fraction) -> float:
    """Return a float above the chance that a standard normal number is above x."""
    return max(math.erfc(-_over_root_two(-x)) / 2 * WIDE, _TINY)


def tail_below(x: Fraction) -> float:
    """Return a float below the chance that a standard normal number is above x, and not below 0."""
    found = math.erfc(_over_root_two(x)) / 2 * _NARROW
    return found if found > _TINY else 0.0


def _over_root_two(x: Fraction) -> float:
    """Return a float above x over the square root of 2, which takes two roundings of half a unit each."""
    return math.nextafter(math.nextafter(above(x) * math.sqrt(0.5), math.inf), math.inf)


def any_of_many(chance: Fraction, times: int) -> Fraction:
    """Return a bound of the chance that something of this chance happens in one of independent trials."""
    if times * chance.denominator.bit_length() > 1 << 20:
        return min(Fraction(1), times * chance)
    whole = chance.denominator**times
    some = whole - (chance.denominator - chance.numerator) ** times
    if whole.bit_length() < 1 << 12:
        return Fraction(some, whole)
    shift = whole.bit_length() - some.bit_length() + 200  # a short number, rounded up
    return Fraction(-(-(some << shift) // whole), 1 << shift)


def gaussian_delta(mu_squared: Fraction, epsilon: Fraction, enough: Fraction) -> Fraction:
    """Return a bound of the delta of Gaussian noise: Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu).

    Args:
        mu_squared: the squared distance of two inputs, over the deviation.
        epsilon: any number, also below 0.
        enough: a bound up to here need not be sharper.
    Source:
        Balle and Wang 2018, "Improving the Gaussian mechanism for differential privacy", theorem 8.
    """
    if not mu_squared:
        return max(Fraction(0), 1 - Fraction(exp_below(epsilon)))
    mu = root_above(mu_squared)
    ends = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    high, low = Fraction(tail_above(ends[0])), Fraction(exp_below(epsilon)) * Fraction(tail_below(ends[1]))
    if high - low > enough and max(map(abs, ends)) < 10**6:
        with localcontext(Context(70, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])):
            one, other, power = (Decimal(x.numerator) / Decimal(x.denominator) for x in (*ends, epsilon))
            near, far = _tail(one), power.exp() * _tail(other)
            return min(Fraction(max(near - far + (near + far) * _NEAR, Decimal(_TINY))), Fraction(1))
    return min(high - low, Fraction(1))


def _tail(x: Decimal) -> Decimal:
    """Return the chance that a standard normal number is above x, to 1e-45 of it."""
    if x < 0:
        return 1 - _tail(-x)
    density = (-x * x / 2).exp() / (2 * _PI).sqrt()
    if x < 4:
        term = total = x  # x + x³/3 + x⁵/15 + ...
        for n in range(1, _TERMS):
            term = term * x * x / (2 * n + 1)
            total += term
        return Decimal("0.5") - density * total
    fraction = x  # Laplace's, x + 1/(x + 2/(x + ...))
    for n in range(_TERMS, 0, -1):
        fraction = x + n / fraction
    return density / fraction
