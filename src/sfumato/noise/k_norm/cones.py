"""Cones: the body of one group in K-norm noise, and a uniform point of λC - μC for cones C.

C holds what one unit may add to one group: n in [0, 1], and m signed numbers of at most n. With t the largest
of them, x is in λC - μC where

    a = max(0, n, (t + n)/2) <= λ    and    a - n <= μ,

that is, where t <= min(2λ - n, 2μ + n). So n has a density proportional to that bound to the power m, on
[-μ, λ]: with L = λ + μ and M = m + 1, it is v - 2μ or 2λ - v, for v^M uniform in [μ^M, L^M] or [λ^M, L^M].
The signed numbers are uniform in [-v, v].

With units, C has one number more in front, u in [n, 1]: whether the unit is in the group at all, of whose
rows n tells how many there are. The others that have a given u are λ'C - μ'C without units, for the largest
λ' = min(λ, μ + u) and μ' = min(μ, λ - u): of a volume proportional to 2R^M - λ'^M - μ'^M, with R = λ' + μ'.
So u and R are drawn as n and v are of one signed number more, as if that volume were R^M; then v/R, to the
power M uniform in [0, 1], and the side of n; and all of it again where v is less than what is left on that
side, λ' or μ'. With no signed number the volume is R itself, and n uniform in [-μ', λ'].
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from math import comb

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.exact.outward_rounding import Enclosure
from sfumato.noise.law_tails import Floats

unit_roundoff: float = 2.0**-53
# Roots are taken of numbers from here on: below, errors grow without bound.
_smallest = 2.0**-12
_smallest_share = 2.0**-16  # likewise, of v/R
_root_checked = 8.0  # roundoffs


@dataclass(frozen=True)
class Cone:
    """The cone C of one group: its uniform points in λC - μC, with proven float errors.

    Args:
        signed: how many signed numbers, m.
        units: whether there is a number of units, besides that of rows.

    >>> [str(c) for c in Cone(1).volume], Cone(1, units=True).dimensions
    (['3/4', '-1'], 3)
    """

    signed: int
    units: bool = False

    @property
    def dimensions(self) -> int:
        """The number of coordinates of a group's cone."""
        return 1 + self.signed + self.units

    @cached_property
    def volume(self) -> tuple[Fraction, ...]:
        """The volume of λC - μC for a cone, λ + μ = 1, in powers of (λ - 1/2)^2, up to a constant.

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
        """Return the first coordinate of the cone with the same law: all signed numbers have one."""
        return min(coordinate, 1 + self.units)

    # In floats, for many groups: all in units of L, with ρ for `unit_roundoff`.

    def margin(self, theta: float, tau: float) -> float:
        """Bound the error of each coordinate of the cone's float points, in units of L.

        Without units that is `_edge_margin` where v is least: v^M is at least half of min(θ, 1 - θ)^M, or
        else known to be at least 2^-12. n = θ - (1 - θ) ± (1 - v), with the sign of d in `_edge_margin`, is
        continuous in d, so a wrong sign adds nothing. Less than 24 further roundings of numbers of at most 1
        give all coordinates, the room of u, and their products with L and the scales.

        With units that holds for u and R, with M + 1 in the place of M. Let R be off by e. One of λ' and μ'
        is θ or 1 - θ, and the other is R less this, so n moves by at most 2 e and by as much as w = v/R, or
        by e where n = RU - μ'. v, v - μ' and v - λ' move by as much as R and w. w = |T|^(1/M) of a place T
        is off by ρ, as T is; by 2^-63 |T|^(1/M - 1)/M, as T is off by 2^-63, below 2.2ρ from |T| = 2^-16 on
        (x 2^(-16 x) <= 1/(16 e ln 2)); and by the root's own error, c ρ. So all are off by at most 2 e and
        (4 + c)ρ, and by less than 24 further roundings.
        """
        power = self.dimensions
        if power == 1:
            return 24 * unit_roundoff
        least = max(_product(min(theta, tau), power) / 2, _smallest)
        edge = float(_edge_margin(np.array(least ** (1 / power)), power))
        return (
            2 * edge + (28 + self._share_roundoffs) * unit_roundoff
            if self.units
            else edge + 24 * unit_roundoff
        )

    def closer_margins(self, theta: float, tau: float, numbers: Sequence[Floats]) -> list[Floats]:
        """Bound the error of each coordinate of a cone's float points by the numbers themselves.

        v = min(2θ - n, n + 2(1 - θ)), or R of u in its place, is off by e. A signed number s = vT is off by
        |s| times e/v, or times e/R and (1 + c)ρ; by at most 3.2ρ for w and its own T; and by six roundings of
        itself.
        """
        first, power, share = numbers[0], self.dimensions, self._share_roundoffs
        if power == 1:
            return [np.full_like(first, 24 * unit_roundoff)]
        edge = np.minimum(2 * theta - first, first + 2 * tau)
        own = _edge_margin(edge, power)
        margins = [own + 24 * unit_roundoff]
        if self.units:
            margins.append(2 * own + (28 + share) * unit_roundoff)
        steep = own / edge + (share + 8) * unit_roundoff
        return margins + [np.abs(s) * steep + 4 * unit_roundoff for s in numbers[1 + self.units :]]

    @property
    def _share_roundoffs(self) -> float:
        """The error of the root of v/R in a cone's points, beside those of its argument."""
        return _root_error(self.signed + 1) if self.units and self.signed else 0.0

    def floats(
        self, theta: float, tau: float, uniform: Sequence[Floats]
    ) -> tuple[list[Floats], Floats | None, NDArray[np.bool_] | None]:
        """Approximate uniform points of the cone's λC - μC in floats, each over L.

        Args:
            theta, tau: λ and μ over L.
            uniform: for each number of a group an array, uniform in [-1, 1).
        Returns:
            (numbers, room, known). With units, `room` tells how far v is inside (below 0: beyond); `known` is
            where the margin holds. None where there is nothing to tell.
        """
        if self.dimensions == 1:
            # v is linear in U, and so is n.
            n = uniform[0] + 1.0
            n *= 0.5
            n -= tau
            return [n], None, None
        first, edge, known = _edge(theta, tau, self.dimensions, uniform[0])
        if not self.units:
            return [first, *(edge * t for t in uniform[1:])], None, known
        right = np.minimum(theta - first, tau)
        if not self.signed:
            n = uniform[1] + 1.0
            n *= 0.5
            n *= edge
            n -= right
            return [first, n], None, known
        size = np.abs(uniform[1])
        enough = size >= _smallest_share
        v, sure = _root(size, self.signed + 1)
        for other in (known, sure):
            if other is not None:
                enough &= other
        v *= edge
        left = np.minimum(first + tau, theta)
        side = np.where(uniform[1] < 0, right, left)
        room = v - side
        n = room - side
        n *= np.copysign(1.0, -uniform[1])
        return [first, n, *(v * t for t in uniform[2:])], room, enough

    # The same in enclosures.

    def exactly(
        self, left_radius: Enclosure, right_radius: Enclosure, uniform: Sequence[Enclosure]
    ) -> tuple[list[Enclosure], Enclosure | None] | None:
        """Enclose a uniform point of the cone's λC - μC of one group.

        Args:
            left_radius, right_radius: λ and μ.
            uniform: for each number of the group, uniform in (0, 1).
        Returns:
            The numbers and how far v is inside, or None where the bits do not tell the side of u or n.
        """
        found = _edge_exactly(left_radius, right_radius, self.dimensions, uniform[0])
        if found is None:
            return None
        first, edge = found
        one = Enclosure.around(1, edge.bits)
        signed = [t.times(2) - one for t in uniform[1:]]
        if not self.units:
            return [first, *(edge * t for t in signed)], None
        left, right = left_radius.or_less(right_radius + first), right_radius.or_less(left_radius - first)
        if not self.signed:
            return [first, edge * uniform[1] - right], None
        on_left = uniform[1].below(Enclosure.around(Fraction(1, 2), edge.bits))
        if on_left is None:
            return None
        v = abs(signed[0]).root(self.signed + 1) * edge
        side = right if on_left else left
        n = v - side.times(2)
        return [first, n if on_left else -n, *(v * t for t in signed[1:])], v - side


def _edge(
    theta: float, tau: float, power: int, uniform: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_] | None]:
    """Return a cone's n, v below it of density v^(power - 1), and where they are known (None: all)."""
    low, high = _product(tau, power), _product(theta, power)
    y = uniform + 1.0
    y *= ((2.0 - low) - high) / 2
    # How far beyond n = λ - μ, where v is 1: v^power falls as fast on either side.
    y -= 1.0 - low
    n = np.abs(y)
    np.subtract(1.0, n, out=n)
    enough = n >= _smallest if _product(min(theta, tau), power) / 2 < _smallest else None
    v, known = _root(np.maximum(n, _smallest / 2, out=n), power)
    if enough is not None:
        known = enough if known is None else known & enough
    np.subtract(1.0, v, out=n)
    np.copysign(n, y, out=n)
    n += theta - tau
    return n, v, known


def _edge_exactly(
    lam: Enclosure, mu: Enclosure, power: int, uniform: Enclosure
) -> tuple[Enclosure, Enclosure] | None:
    """Enclose a cone's n and v; None where the bits do not tell the side."""
    all_ = (lam + mu).power(power)
    low, high = mu.power(power), lam.power(power)
    left = all_ - low
    y = uniform * (left + (all_ - high))
    on_left = y.below(left)
    if on_left is None:
        return None
    if on_left:
        v = (low + y).root(power)
        return v - mu.times(2), v
    v = (left + all_ - y).root(power)
    return lam.times(2) - v, v


def _edge_margin(v: Floats, power: int) -> Floats:
    """Bound the error of a cone's `_edge` by how steep the root is at v and above it.

    A word's place T in [-1, 1) is off by ρ + 2^-63, and T + 1 by ρ more. Powers of θ and 1 - θ, each factor
    with a relative error of 1.0001 ρ, are off by at most 2Mρ. So y = (T + 1)(2 - θ^M - (1 - θ)^M)/2 is off by
    (2M + 8)ρ, and v^M = 1 - |d|, with d = y - (1 - (1 - θ)^M), by (4M + 16)ρ. The root multiplies that by
    v^(1 - M)/M and adds `_root_error`.
    """
    steep = 1.001 * v ** (1 - power) / power
    return np.asarray(((4 * power + 16) * steep + _root_error(power)) * unit_roundoff)


def _powers(power: int) -> list[Fraction]:
    """Return θ^power + (1 - θ)^power in powers of (θ - 1/2)^2, for a cone's volume."""
    return [Fraction(2 * comb(power, j), 2 ** (power - j)) for j in range(0, power + 1, 2)]


def _minus_powers(power: int) -> list[Fraction]:
    """Return 2 - θ^power - (1 - θ)^power in powers of (θ - 1/2)^2, for a cone's volume."""
    return [(2 if j == 0 else 0) - c for j, c in enumerate(_powers(power))]


def _product(factor: float, times: int) -> float:
    """Return a power in a cone's point, with one rounding for each factor."""
    found = factor
    for _ in range(times - 1):
        found *= factor
    return found


def _root_error(degree: int) -> float:
    """Bound the error of roots of numbers of at most 1 in a cone's points, in roundoffs."""
    return 2.0 if degree in (2, 4) else 1.001 * _root_checked


def _root(y: Floats, degree: int) -> tuple[Floats, NDArray[np.bool_] | None]:
    """Return roots of numbers of at least 0 for a cone's points, and where `_root_error` bounds their error.

    A square root is correctly rounded by IEEE 754; whatever library gave another one, its power shows it.
    """
    if degree in (2, 4):
        v = np.sqrt(y)
        return v if degree == 2 else np.sqrt(v), None
    v = np.cbrt(y) if degree == 3 else np.power(y, 1.0 / degree)
    back = v * v
    for _ in range(degree - 2):
        back *= v
    back -= y
    np.abs(back, out=back)
    # The power itself is off by less than one roundoff for each factor.
    return v, back <= (_root_checked - 2) * degree * unit_roundoff * y
