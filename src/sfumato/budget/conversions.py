"""zCDP and approximate DP: each in terms of the other, rounded up. Gaussian noise alone: `gaussian`.

Every order a > 1 of Renyi divergence gives a true bound,

    ln delta <= (a - 1) (a rho - epsilon) + (a - 1) ln(1 - 1/a) - ln a,

so that the order is searched in floats, and the bound then computed at it, upwards.
Source: Canonne, Kamath and Steinke 2020, "The discrete Gaussian for differential privacy", proposition 12.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from sfumato.exact.directed import convert, directed, exactly, round_bits
from sfumato.exact.isolation import isolated
from sfumato.exact.roots import halve

BITS = 128


@isolated
def zcdp_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """Return an epsilon at which rho-zCDP is (epsilon, delta)-DP, rounded up.

    Args:
        rho: greater than 0.
        delta: in (0, 1).

    >>> float(zcdp_epsilon(Fraction(1, 2), Fraction(1, 10**6)))
    5.22153...
    """
    log_delta = math.log(delta.numerator) - math.log(delta.denominator)
    rate = _moderate(rho)
    excess = _least_excess(lambda x: rate * x * x + log_delta + math.log1p(x))
    down, up = directed(BITS)
    order = 1 + excess
    # ln(1 - 1/a) = -ln(1 + 1/excess); ln(1 / (a delta)) may have either sign.
    gained = exactly(down.log1p(convert(1 / excess, down)))
    leak = exactly(up.log(convert(1 / (order * delta), up)))
    return max(Fraction(0), round_bits(order * rho - gained + leak / excess, 64, up=True))


@isolated
def zcdp_delta(rho: Fraction, epsilon: Fraction) -> Fraction:
    """Return a delta at which rho-zCDP is (epsilon, delta)-DP, rounded up; 1 where there is no better one.

    Args:
        rho: greater than 0.
        epsilon: at least 0.

    >>> float(zcdp_delta(Fraction(1, 2), Fraction(2)))
    0.05429...
    """
    rate, gap = _moderate(rho), epsilon - rho
    wide = float(min(gap, Fraction(2**1000)))
    excess = _least_excess(lambda x: 2 * rate * x - wide - math.log1p(1 / x))
    down, up = directed(BITS)
    gained = down.mul(convert(excess, down), down.log1p(convert(1 / excess, down)))
    gained = down.add(gained, down.log1p(convert(excess, down)))
    return min(Fraction(1), exactly(up.exp(up.sub(convert(excess * (excess * rho - gap), up), gained))))


@isolated
def zcdp_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return a rho, near the largest, at which zCDP is (epsilon, delta)-DP: `zcdp_delta` says so.

    Args:
        epsilon: greater than 0.
        delta: in (0, 1).
    Returns:
        A rho within about 2^-40 epsilon of the largest; 0 where none is found.

    >>> float(zcdp_rho(Fraction(3), Fraction(1, 10**6)))
    0.18506...
    """
    low, high = Fraction(0), epsilon
    for _ in range(40):
        middle = (low + high) / 2
        if zcdp_delta(middle, epsilon) <= delta:
            low = middle
        else:
            high = middle
    return low


def _moderate(rho: Fraction) -> float:
    return float(min(max(rho, Fraction(1, 2**1000)), Fraction(2**1000)))


def _least_excess(slope: Callable[[float], float]) -> Fraction:
    """Return the excess a - 1 of the best order: near to where a slope, which grows with it, is 0."""
    place, _ = halve(lambda x: slope(2.0 ** float(x)) >= 0, -600.0, 600.0, 64)
    return round_bits(Fraction(2.0 ** float(place)), 53, up=True)
