"""Tails of single numbers of one group with sums of squares, given the split of joint noise, in closed form.

The points of λC - μC that have a given n have the largest sides a and b with a - b = n: b = μ and any a up
to λ, or a = λ and any b up to μ. So each volume is the integral over a of one at sides a and μ, and over b of
one at sides λ and b; all numbers are over λ + μ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from sfumato.noise.k_norm.parabola import Parabola
from sfumato.noise.k_norm.sides import rule
from sfumato.noise.values import Floats

_tiny = 1e-300
_nodes = 12


def tail(cone: Parabola, coordinate: int, y: Floats, theta: Floats) -> Floats:
    """Return P(number > y), 0 <= y <= 1, given θ, as `tails.tail`.

    Args:
        cone: the body of one group.
        coordinate: the units if there are any, then the count, the sum and the sum of squares.
        y, theta: of shapes that fit each other.
    """
    y, left = np.broadcast_arrays(y, theta)
    right, at = 1 - left, coordinate - cone.units
    grown = _volume if cone.units else _area
    if at < 0:
        found = _difference(grown, y, left, right)
    else:
        found = (_over_units if cone.units else _beyond)(at, y, left, right)
    return np.asarray(found / (grown(left, right) + grown(right, left)), np.float64)


def squares(cone: Parabola, theta: Floats) -> list[Floats]:
    """Return the mean squares of all numbers, given θ: polynomials."""
    found = (_squares_over_units if cone.units else _squares_of_others)(theta, 1 - theta)
    return [own / found[-1] for own in found[:-1]]


def _squares_over_units(left: Floats, right: Floats) -> Floats:
    """u = λ' - μ' for the largest λ' <= λ and μ' <= μ that the others can have."""

    def given(p: Floats, q: Floats) -> Floats:
        others = _squares_of_others(p, q)
        return np.array([(p - q) ** 2 * others[-1], *others])

    return _integral(given, left, right)


def _squares_of_others(left: Floats, right: Floats) -> Floats:
    return _integral(_section_squares, left, right)


def _integral(of: Callable[[Floats, Floats], Floats], left: Floats, right: Floats) -> Floats:
    """Integrate a polynomial over a up to λ at μ, and over b up to μ at λ."""
    place, weight = np.polynomial.legendre.leggauss(5)
    total: Any = 0.0
    for share, w in zip(((place + 1) / 2).tolist(), (weight / 2).tolist(), strict=True):
        total = total + w * (left * of(share * left, right) + right * of(left, share * right))
    return np.asarray(total)


def _section_squares(a: Floats, b: Floats) -> Floats:
    """Integrate n², x², y² and 1 over aM - bM: over the square from -v to v, less what is at its corners."""
    place, weight = np.polynomial.legendre.leggauss(4)
    v, area = a + b, 8 / 3 * (a**2 + b**2 + 3 * a * b)
    x, y = 4 / 3 * v**4, 4 / 3 * v**4
    for one, other in ((a, b), (b, a)):
        for t, w in zip(((place + 1) / 2).tolist(), (weight / 2).tolist(), strict=True):
            # At |x| = other + one t, y stops 2 one t² before the end, on one side.
            x = x - 2 * w * one * (other + one * t) ** 2 * 2 * one * t**2
            y = y - 2 * w * one * (v**3 - (v - 2 * one * t**2) ** 3) / 3
    return np.array([(a - b) ** 2 * area, x, y, area])


def _area(end: Floats, other: Floats) -> Floats:
    """Integrate the area of aM - bM, 8/3 (a² + b² + 3ab), over a up to `end`, for b = `other`."""
    return np.asarray(8 / 3 * (end**3 / 3 + other**2 * end + 1.5 * other * end**2))


def _volume(end: Floats, other: Floats) -> Floats:
    """Integrate what this gives for both sides, over one of them up to `end`."""
    corner = (end + other) ** 4 - other**4
    return np.asarray(2 / 9 * corner + 4 / 3 * other * end**3 + 2 * other**2 * end**2)


def _difference(grown: Callable[[Floats, Floats], Floats], y: Floats, left: Floats, right: Floats) -> Floats:
    """The first number is a - b: above y of a above y + μ, and of b below λ - y."""
    above = grown(left, right) - grown(np.minimum(y + right, left), right)
    return above + grown(np.clip(left - y, 0.0, right), left)


def _beyond(at: int, y: Floats, left: Floats, right: Floats) -> Floats:
    """The volume where a number is above y, without units."""
    if at == 0:
        return _difference(_area, y, left, right)
    return _sum(y, left, right) + _sum(y, right, left) if at == 1 else _squares(y, left, right)


def _over_units(at: int, y: Floats, left: Floats, right: Floats) -> Floats:
    """The same with units: over p up to λ at μ, and over q up to μ at λ, between where its pieces meet."""
    place, weight = rule(_nodes)
    place, weight = (place + 1) / 2, weight / 2
    # Nearer to either end, where it is less smooth.
    place, weight = place**2 * (3 - 2 * place), weight * 6 * place * (1 - place)
    total = np.zeros_like(left)
    y_, left_, right_ = y[..., None], left[..., None], right[..., None]
    for end, other, first in ((left, right, True), (right, left, False)):
        cuts = [np.clip(cut, 0.0, end) for cut in (y - other, np.abs(y - other), y, y + other)]
        cuts = [0 * end, *cuts, end]
        for low, high in pairwise(np.sort(np.stack(cuts), axis=0)):
            if (low < high).any():
                p = low[..., None] + (high - low)[..., None] * place
                found = _beyond(at, y_, p, right_) if first else _beyond(at, y_, left_, p)
                total = total + (found * weight).sum(axis=-1) * (high - low)
    return total


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
