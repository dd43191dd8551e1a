"""Tails of single numbers of one group with sums of squares, given the split of joint noise, in closed form.

The points of λC - μC that have a given n have the largest sides a and b with a - b = n: b = μ and any a up
to λ, or a = λ and any b up to μ. So each volume is the integral over a of one at sides a and μ, and over b of
one at sides λ and b; all numbers are over λ + μ.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.noise.values import Floats

_tiny = 1e-300


def tail(coordinate: int, y: Floats, theta: Floats) -> Floats:
    """Return P(number > y), 0 <= y <= 1, given θ, as `tails.tail`.

    Args:
        coordinate: 0 for the count, 1 for the sum, 2 for the sum of squares.
        y, theta: of shapes that fit each other.
    """
    y, left = np.broadcast_arrays(y, theta)
    right = 1 - left
    whole = _area(left, right) + _area(right, left)
    if coordinate == 1:
        found = _sum(y, left, right) + _sum(y, right, left)
    else:
        found = (_count if coordinate == 0 else _squares)(y, left, right)
    return np.asarray(found / whole, np.float64)


def squares(theta: Floats) -> list[Floats]:
    """Return the mean squares of the count, the sum and the sum of squares, given θ: polynomials."""
    place, weight = np.polynomial.legendre.leggauss(5)
    unit = ((place + 1) / 2)[:, None]
    totals = [0 * theta for _ in range(4)]
    for end, other in ((theta, 1 - theta), (1 - theta, theta)):
        for share, w in zip(unit.ravel().tolist(), (weight / 2).tolist(), strict=True):
            a, b = share * end, other
            for i, part in enumerate(_section_squares(a, b)):
                totals[i] = totals[i] + w * end * part
    return [total / totals[3] for total in totals[:3]]


def _section_squares(a: Floats, b: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Integrate n², x², y² and 1 over aM - bM: over the square from -v to v, less what is at its corners."""
    place, weight = np.polynomial.legendre.leggauss(4)
    v, area = a + b, 8 / 3 * (a**2 + b**2 + 3 * a * b)
    x, y = 4 / 3 * v**4, 4 / 3 * v**4
    for one, other in ((a, b), (b, a)):
        for t, w in zip(((place + 1) / 2).tolist(), (weight / 2).tolist(), strict=True):
            # At |x| = other + one t, y stops 2 one t² before the end, on one side.
            x = x - 2 * w * one * (other + one * t) ** 2 * 2 * one * t**2
            y = y - 2 * w * one * (v**3 - (v - 2 * one * t**2) ** 3) / 3
    return (a - b) ** 2 * area, x, y, area


def _area(end: Floats, other: Floats) -> Floats:
    """Integrate the area of aM - bM, 8/3 (a² + b² + 3ab), over a up to `end`, for b = `other`."""
    return np.asarray(8 / 3 * (end**3 / 3 + other**2 * end + 1.5 * other * end**2))


def _count(y: Floats, left: Floats, right: Floats) -> Floats:
    """n = a - b: of a above y + μ, and of b below λ - y."""
    above = _area(left, right) - _area(np.minimum(y + right, left), right)
    return above + _area(np.clip(left - y, 0.0, right), left)


def _sum(y: Floats, end: Floats, other: Floats) -> Floats:
    """Over a up to `end` at b = `other`, or the other way round: at x from y on, all but what is at corners.

    That is 2v(v - y) - 2/3 (a² + b²), and 2/3 ((y - b)₊³ / a + (y - a)₊³ / b), which y cuts from corners.
    """

    def smooth(a: Floats) -> Floats:
        v = a + other
        return np.asarray(2 / 3 * v**3 - y * v**2 - 2 / 9 * a**3 - 2 / 3 * other**2 * a)

    start = np.maximum(y - other, 0.0)
    logarithm = np.log(np.maximum(end, _tiny) / np.maximum(start, _tiny))
    corners = np.minimum(y, other) ** 4 - np.maximum(y - end, 0.0) ** 4
    found = smooth(end) - smooth(start) + 2 / 3 * start**3 * logarithm
    found = found + corners / (6 * np.maximum(other, _tiny))
    return np.asarray(np.where(start < end, found, 0.0))


def _squares(y: Floats, left: Floats, right: Floats) -> Floats:
    """For y at or above n: the integral of 2 (a + root of b (v - y)/2) over y; below, of the mirrored one."""
    root = 4 / 3 / math.sqrt(2)
    # b = μ: y is at or above n up to a = y + μ.
    start, middle = np.maximum(y - right, 0.0), np.minimum(y + right, left)

    def beyond(a: Floats) -> Floats:
        over = np.maximum(a + right - y, 0.0)
        return 2 / 3 * a**3 + (right - y) * a**2 + 0.4 * root * np.sqrt(right) * over**2.5

    found = np.where(start < middle, beyond(middle) - beyond(start), 0.0)
    least = y + right
    below = _area(left, right) - _area(middle, right) - right * (left**2 - middle**2)
    below = below - 2 * right * least * (left - middle) - root * _rooted(least, least, left)
    found = found + np.where(least < left, below, 0.0)
    # a = λ: y is at or above n from b = λ - y on.
    rest = left - y
    start = np.abs(rest)
    above = 2 * left * (rest * (right - start) + (right**2 - start**2) / 2)
    found = found + np.where(start < right, above + root * _rooted(rest, start, right), 0.0)
    end, far = np.clip(rest, 0.0, right), left + y
    below = _area(end, left) - end**2 * far - 2 / 3 * end**3
    return np.asarray(found + below - 0.4 * root * np.sqrt(left) * ((end + far) ** 2.5 - far**2.5))


def _rooted(shift: Floats, start: Floats, end: Floats) -> Floats:
    """Integrate the root of b (b + shift)³ over b from `start`, at least |shift|, to `end`."""

    def rational(b: Floats) -> Floats:
        over = np.maximum(b + shift, 0.0)
        return np.asarray(np.sqrt(b * over) * (8 * b**2 + 14 * b * shift + 3 * shift**2) / 24)

    def roots(b: Floats) -> Floats:
        return np.asarray(np.maximum(np.sqrt(b) + np.sqrt(np.maximum(b + shift, 0.0)), _tiny))

    return np.asarray(rational(end) - rational(start) - shift**3 / 8 * np.log(roots(end) / roots(start)))
