"""Tails of single numbers of one group, given the split of joint noise: polynomials, piece by piece.

All numbers are over λ + μ, so that θ is λ and 1 - θ is μ. Each function gives the volume of the part of
λC - μC where the number is above y, up to one constant factor for each cone and kind of number.
"""

from __future__ import annotations

import numpy as np

from sfumato.noise.k_norm.cone import Cone
from sfumato.noise.values import Floats


def tail(cone: Cone, coordinate: int, y: Floats, theta: Floats) -> Floats:
    """Return P(number > y), y >= 0, given θ.

    Args:
        cone: the body of one group.
        coordinate: the units if there are any, then the count, then the signed numbers.
        y, theta: of shapes that fit each other.
    """
    at = coordinate - cone.units
    if at < 0:
        volume = _units
    elif at == 0:
        volume = _count_with_units if cone.units else _count
    else:
        volume = _signed_with_units if cone.units else _signed
    zero = 0 * theta
    whole = volume(cone.signed, zero, theta) + volume(cone.signed, zero, 1 - theta)
    return np.asarray(volume(cone.signed, y, theta) / whole, np.float64)


def _count(m: int, y: Floats, theta: Floats) -> Floats:
    """n has the density v^m, where v is 2μ + n up to n = λ - μ, and then 2λ - n."""
    power, tau = m + 1, 1 - theta
    right = np.maximum(2 * theta - np.maximum(y, theta - tau), theta) ** power - theta**power
    left = 1 - (2 * tau + np.minimum(y, theta - tau)) ** power
    return np.asarray(right + np.where(y < theta - tau, left, 0.0))


def _signed(m: int, y: Floats, theta: Floats) -> Floats:
    """s is uniform in [-v, v], where v^M is uniform in [μ^M, 1] or [λ^M, 1]."""
    power = m + 1

    def above(low: Floats) -> Floats:
        start = np.maximum(low, y)
        return np.asarray((1 - start**power) / power - y * (1 - start**m) / m)

    return np.asarray(above(theta) + above(1 - theta))


def _units(m: int, y: Floats, theta: Floats) -> Floats:
    """u has λ'C - μ'C of the others beside it, with λ' = min(λ, μ + u) and μ' = min(μ, λ - u)."""
    power, more, tau = m + 1, m + 2, 1 - theta
    middle = theta - tau

    def right(y: Floats) -> Floats:
        rest = np.maximum(theta - y, 0.0)
        grown = 2 * ((theta + rest) ** more - theta**more) - rest**more
        return np.asarray(grown / more - theta**power * rest)

    start = np.minimum(y, middle)
    left = (2 * (1 - (2 * tau + start) ** more) - theta**more + (tau + start) ** more) / more
    left = left - tau**power * (middle - start)
    return np.asarray(right(np.maximum(y, middle)) + np.where(y < middle, left, 0.0))


def _count_with_units(m: int, y: Floats, theta: Floats) -> Floats:
    """n has the density of the room of u over the others: v^m - v^M m/M - |n|^M / M."""
    power, more, tau = m + 1, m + 2, 1 - theta
    middle = np.maximum(theta - tau, 0.0)

    def integral(low: Floats, high: Floats, from_: Floats, to: Floats) -> Floats:
        """Between two n, whose v are `low` and `high`."""
        grown = (high**power - low**power - m * (high**more - low**more) / more) / power
        return np.asarray(grown - (to**more - from_**more) / (power * more))

    start = np.clip(y, middle, theta)
    right = integral(theta, 2 * theta - start, start, theta)
    start = np.minimum(y, middle)
    left = integral(2 * tau + start, 2 * tau + middle, start, middle)
    return np.asarray(right + np.where(y < middle, left, 0.0))


def _signed_with_units(m: int, y: Floats, theta: Floats) -> Floats:
    """The largest t of the signed numbers has the density t^(m-1) times the room of u, over all n.

    This number is that one with probability 1/m, of either sign, or else uniform in [-t, t].
    """
    place, weight = np.polynomial.legendre.leggauss(m // 2 + 2)

    def room(t: Floats, end: Floats) -> Floats:
        near = t * (1 - t) + (end - t) - (end**2 - t**2) / 2
        return np.where(t <= end, near, (2 * end - t) * (1 - t))

    def between(low: Floats, high: Floats, end: Floats) -> Floats:
        found, half = 0 * (low + high), (high - low) / 2
        for x, w in zip(place.tolist(), weight.tolist(), strict=True):
            t = low + half * (1 + x)
            chance = t ** (m - 1)
            if m > 1:
                chance = chance + (m - 1) * (t - y) * t ** (m - 2)
            found = found + w * half * chance * room(t, end)
        return np.asarray(found)

    total = 0 * (y + theta)
    for end in (theta, 1 - theta):
        middle = np.maximum(y, end)
        total = total + between(y + 0 * theta, middle, end) + between(middle, 1 + 0 * middle, end)
    return total
