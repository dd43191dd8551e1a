"""One group's part of a draw: a uniform point of λC - μC, for cones C.

C holds what one unit may add to one group: n in [0, 1], and m signed numbers of at most n. With t the largest
of them, x is in λC - μC where

    a = max(0, n, (t + n)/2) <= λ    and    a - n <= μ,

that is, where t <= min(2λ - n, 2μ + n). So n has a density proportional to that bound to the power m, on
[-μ, λ]: with L = λ + μ and M = m + 1, it is v - 2μ or 2λ - v, for v^M uniform in [μ^M, L^M] or [λ^M, L^M].
The signed numbers are uniform in [-v, v].

With units, C has one number more in front, u in [n, 1]: whether the unit is in the group at all, of whose
rows n tells how many there are. Now x is in λC - μC where max(a, u + a - n) <= λ, and the same less u is
at most μ. Given the others, u lies in [a - μ, a - μ + L - max(|n|, t)]: it is drawn as if the others were
0, and all of it again where it lies beyond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb

import numpy as np
from numpy.typing import NDArray

from sfumato.exact.enclosures import Enclosure
from sfumato.noise.values import Floats

unit_roundoff = 2.0**-53
# Roots are taken of numbers from here on: below, errors grow without bound.
_smallest = 2.0**-12
_root_checked = 8.0  # roundoffs


@dataclass(frozen=True)
class Cone:
    """The body of one group.

    Args:
        signed: how many signed numbers, m.
        units: whether there is a number of units beside that of rows.

    >>> [str(c) for c in Cone(1).volume], Cone(1, units=True).dimensions
    (['3/4', '-1'], 3)
    """

    signed: int
    units: bool = False

    @property
    def dimensions(self) -> int:
        """Numbers of a group."""
        return 1 + self.signed + self.units

    @cached_property
    def volume(self) -> tuple[Fraction, ...]:
        """The volume of λC - μC for λ + μ = 1 in powers of (λ - 1/2)^2, up to a constant factor.

        Without units, (2 - λ^M - μ^M) / M. With units, the integral of 1 - max(|n|, t).
        """
        m, power = self.signed, self.signed + 1
        found = _minus_powers(power)
        if self.units:
            more = [(m - 1) * c for c in _powers(power + 1)]
            found = [(power + 1) * c for c in found]
            found = [
                (found[j] if j < len(found) else Fraction(0)) + (more[j] if j < len(more) else 0)
                for j in range(max(len(found), len(more)))
            ]
            found = [(c - (2 * m if j == 0 else 0)) / (power + 1) for j, c in enumerate(found)]
        while len(found) > 1 and not found[-1]:
            found.pop()
        return tuple(c / power for c in found)

    def alike(self, coordinate: int) -> int:
        """Return the first coordinate that has the same law: all signed numbers have one."""
        return min(coordinate, 1 + self.units)

    # In floats, for many groups: all in units of L.

    def margin(self, theta: float, tau: float) -> float:
        """Bound the error of each number of `floats`, in units of L: the terms of docs/proofs/k_norm.md."""
        power = self.signed + 1
        if power == 1:
            return 24 * unit_roundoff
        least = max(_product(min(theta, tau), power) / 2, _smallest)
        return float(self._margin(np.array(least ** (1 / power))))

    def closer_margin(self, theta: float, tau: float, n: Floats) -> Floats:
        """Bound the errors of numbers of `floats` whose first one, in units of L, is n."""
        if self.signed == 0:
            return np.full_like(n, self.margin(theta, tau))
        return np.asarray(self._margin(np.minimum(2 * theta - n, n + 2 * tau)))

    def _margin(self, v: Floats) -> Floats:
        """Bound errors by how steep the root is at v and above it."""
        power = self.signed + 1
        steep = 1.001 * v ** (1 - power) / power
        return np.asarray(((4 * power + 16) * steep + _root_error(power) + 24) * unit_roundoff)

    def floats(
        self, theta: float, tau: float, uniform: Sequence[Floats]
    ) -> tuple[list[Floats], Floats | None, NDArray[np.bool_] | None]:
        """Approximate the numbers of groups, each over L.

        Args:
            theta, tau: λ and μ over L.
            uniform: for each number of a group an array, uniform in [-1, 1).
        Returns:
            (numbers, room, known). With units, `room` tells how far u is inside (below 0: beyond); `known` is
            where the margin holds. None where there is nothing to tell.
        """
        power = self.signed + 1
        y = uniform[0] + 1.0
        if power == 1:
            # v is linear in U, and so is n.
            y *= 0.5
            y -= tau
            return self._with_units(tau, [y], uniform) if self.units else ([y], None, None)
        low, high = _product(tau, power), _product(theta, power)
        y *= ((2.0 - low) - high) / 2
        # How far beyond n = λ - μ, where v is 1: v^M falls as fast on either side.
        y -= 1.0 - low
        n = np.abs(y)
        np.subtract(1.0, n, out=n)
        v, known = _root(n, power)
        if _product(min(theta, tau), power) / 2 < _smallest:
            enough = n >= _smallest
            known = enough if known is None else known & enough
        np.subtract(1.0, v, out=n)
        np.copysign(n, y, out=n)
        n += theta - tau
        numbers = [n, *(v * t for t in uniform[1:power])]
        if not self.units:
            return numbers, None, known
        numbers, room, _ = self._with_units(tau, numbers, uniform)
        return numbers, room, known

    def _with_units(
        self, tau: float, numbers: list[Floats], uniform: Sequence[Floats]
    ) -> tuple[list[Floats], Floats, None]:
        largest = np.abs(numbers[0])
        for s in numbers[1:]:
            np.maximum(largest, np.abs(s), out=largest)
        place = (uniform[-1] + 1.0) * 0.5
        # a = (max(|n|, t) + n) / 2 in all cases.
        u = (largest + numbers[0]) * 0.5 - tau + place
        return [u, *numbers], (1.0 - largest) - place, None

    # The same in enclosures.

    def exactly(
        self, left_radius: Enclosure, right_radius: Enclosure, uniform: Sequence[Enclosure]
    ) -> tuple[list[Enclosure], Enclosure | None] | None:
        """Enclose the numbers of one group.

        Args:
            left_radius, right_radius: λ and μ.
            uniform: for each number of the group, uniform in (0, 1).
        Returns:
            The numbers and how far u is inside, or None where the bits do not tell the side of n.
        """
        bits = left_radius.bits
        lam, mu = left_radius, right_radius
        power = self.signed + 1
        all_ = (lam + mu).power(power)
        low, high = mu.power(power), lam.power(power)
        left = all_ - low
        y = uniform[0] * (left + (all_ - high))
        on_left = y.below(left)
        if on_left is None:
            return None
        if on_left:
            v = (low + y).root(power)
            n = v - mu.times(2)
        else:
            v = (left + all_ - y).root(power)
            n = lam.times(2) - v
        one = Enclosure.of(1, bits)
        numbers = [n, *(v * (t.times(2) - one) for t in uniform[1 : 1 + self.signed])]
        if not self.units:
            return numbers, None
        largest = abs(n)
        for s in numbers[1:]:
            largest = largest.or_more(abs(s))
        place = uniform[-1] * (lam + mu)
        u = (largest + n).times(Fraction(1, 2)) - mu + place
        return [u, *numbers], lam + mu - largest - place


def _powers(power: int) -> list[Fraction]:
    """θ^power + (1 - θ)^power in powers of (θ - 1/2)^2."""
    return [Fraction(2 * comb(power, j), 2 ** (power - j)) for j in range(0, power + 1, 2)]


def _minus_powers(power: int) -> list[Fraction]:
    """2 - θ^power - (1 - θ)^power in powers of (θ - 1/2)^2."""
    return [(2 if j == 0 else 0) - c for j, c in enumerate(_powers(power))]


def _product(factor: float, times: int) -> float:
    """The power, with one rounding for each factor."""
    found = factor
    for _ in range(times - 1):
        found *= factor
    return found


def _root_error(degree: int) -> float:
    """Bound the error of roots of numbers of at most 1, in roundoffs."""
    return 2.0 if degree in (2, 4) else 1.001 * _root_checked


def _root(y: Floats, degree: int) -> tuple[Floats, NDArray[np.bool_] | None]:
    """Return roots, and where they are known to be within `_root_error`: None for everywhere.

    A square root is correctly rounded by IEEE 754; whatever library gave another one, its power shows it.
    """
    if degree in (2, 4):
        v = np.sqrt(np.maximum(y, 0.0))
        return v if degree == 2 else np.sqrt(v), None
    y = np.maximum(y, _smallest / 2)
    v = np.cbrt(y) if degree == 3 else np.power(y, 1.0 / degree)
    back = v * v
    for _ in range(degree - 2):
        back *= v
    # The power itself is off by less than one roundoff for each factor.
    return v, np.abs(back - y) <= (_root_checked - 2) * degree * unit_roundoff * y
