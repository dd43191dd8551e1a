"""The two laws at scale one, in multiple precision: tails with directed rounding, and quantiles.

Both are symmetric, so each is told by its tail T(y) = P(|Z| > y) for y >= 0, and the quantile function
Q = T^-1. The derivatives of Q follow from one polynomial, its *curvature* c: Q'' = c(Q) Q'^2, with c = 1
for Laplace and c(z) = z for Gauss. Hence Q^(k) = P_k(Q) Q'^k where P_1 = 1, P_(k+1) = P_k' + k c P_k.
"""

from __future__ import annotations

import statistics
from abc import ABC, abstractmethod
from typing import Any

from sfumato.exact.directed import Rational, Real, directed, nearest, to_float
from sfumato.exact.normal import both_tails, over_root_two


class Standard(ABC):
    """A law at scale one.

    `curvature` holds the coefficients of c, lowest power first.
    """

    curvature: tuple[int, ...]

    @abstractmethod
    def tail(self, y: Rational, bits: int) -> tuple[Real, Real]:
        """Enclose T(y), y >= 0, with a relative width of about 2^-bits."""

    @abstractmethod
    def tail_absolute(self, y: Rational, bits: int) -> tuple[Real, Real]:
        """Enclose T(y), y >= 0, with an absolute width of about 2^-bits, and faster."""

    @abstractmethod
    def quantile(self, outside: Real, inside: Real, bits: int) -> Real:
        """Return Q(outside) to nearly `bits` bits; inside = 1 - outside may be the more precise one."""

    @abstractmethod
    def slope(self, z: Real, bits: int) -> Real:
        """Return Q'(u) at the u whose Q(u) is z."""

    def derivatives(self, count: int) -> list[list[int]]:
        """Return the polynomials P_1 ... P_count, each lowest power first.

        >>> gaussian.derivatives(4)
        [[1], [0, 1], [1, 0, 2], [0, 7, 0, 6]]
        """
        all_of_them = [[1]]
        for k in range(1, count):
            last = all_of_them[-1]
            following = [0] * (len(last) + len(self.curvature) - 1)
            for power, coefficient in enumerate(last):
                if power:
                    following[power - 1] += power * coefficient
                for shift, c in enumerate(self.curvature):
                    following[power + shift] += k * c * coefficient
            all_of_them.append(following)
        return all_of_them


class _Laplace(Standard):
    """T(y) = exp(-y), Q(u) = -ln u."""

    curvature: tuple[int, ...] = (1,)

    def tail(self, y: Rational, bits: int) -> tuple[Real, Real]:
        # exp magnifies a relative error of y by y.
        return _exp_of_minus(y, *directed(bits + 4 + int(y).bit_length()))

    def tail_absolute(self, y: Rational, bits: int) -> tuple[Real, Real]:
        # y exp(-y) < 1, so that no magnified error is above the unit of the precision.
        return _exp_of_minus(y, *directed(bits + 3))

    def quantile(self, outside: Real, inside: Real, bits: int) -> Real:
        context = nearest(bits)
        return context.abs(context.log(outside) if outside < 0.5 else context.log1p(context.minus(inside)))

    def slope(self, z: Real, bits: int) -> Real:
        context = nearest(bits)
        return context.minus(context.exp(z))


class _Gaussian(Standard):
    """T(y) = erfc(y / sqrt 2), Q(u) = sqrt 2 erfc^-1(u)."""

    curvature: tuple[int, ...] = (0, 1)

    def tail(self, y: Rational, bits: int) -> tuple[Real, Real]:
        # erfc magnifies a relative error of y by at most y^2 + 2.
        return both_tails(y, bits + 6 + 2 * int(y).bit_length())

    def tail_absolute(self, y: Rational, bits: int) -> tuple[Real, Real]:
        # MPFR's erf is several times as fast as its erfc, and its error is absolute, as wanted here.
        down, up = directed(bits + 3)
        low, high = (over_root_two(y, bits + 3, up=side) for side in (False, True))
        return down.sub(1, up.erf(high)), up.sub(1, down.erf(low))

    def quantile(self, outside: Real, inside: Real, bits: int) -> Real:
        """Solve by the cubic Taylor step of Q itself, from a float or an asymptotic start."""
        context = nearest(bits)
        mul, div, add, sub = context.mul, context.div, context.add, context.sub
        root_two = context.sqrt(2)
        z = self._start(outside, inside, bits)
        while True:
            if outside < 0.5:
                step = sub(outside, context.erfc(div(z, root_two)))
            else:
                step = sub(context.erf(div(z, root_two)), inside)
            r = mul(step, self.slope(z, bits))
            square = mul(z, z)
            cubic = div(mul(r, add(1, mul(2, square))), 6)
            z = add(z, mul(r, add(1, mul(r, add(div(z, 2), cubic)))))
            # The error that is left is of the order of (z r)^4 / z.
            if mul(context.abs(r), add(1, square)) <= context.mul_2exp(context.abs(z), -bits // 4 - 2):
                return z

    def _start(self, outside: Real, inside: Real, bits: int) -> Real:
        context = nearest(bits)
        if outside >= 0.5:
            if inside < 1e-6:
                return context.mul(inside, context.sqrt(context.div(context.const_pi(), 2)))
            return context.plus(statistics.NormalDist().inv_cdf(0.5 + to_float(inside) / 2))
        if outside > 1e-290:
            return context.plus(-statistics.NormalDist().inv_cdf(to_float(outside) / 2))
        # Far out, Newton steps on ln T, which is almost a parabola there, come near enough.
        log, root_two = context.log(outside), context.sqrt(2)
        z = context.sqrt(context.mul(-2, log))
        while True:
            tail = context.erfc(context.div(z, root_two))
            change = context.mul(context.mul(context.sub(log, context.log(tail)), tail), self.slope(z, bits))
            z = context.add(z, change)
            if -1e-12 < change < 1e-12:
                return z

    def slope(self, z: Real, bits: int) -> Real:
        context = nearest(bits)
        growth = context.exp(context.div(context.mul(z, z), 2))
        return context.minus(context.mul(growth, context.sqrt(context.div(context.const_pi(), 2))))


def _exp_of_minus(y: Rational, down: Any, up: Any) -> tuple[Real, Real]:
    low, high = down.div(y.numerator, y.denominator), up.div(y.numerator, y.denominator)
    return down.exp(down.minus(high)), up.exp(up.minus(low))


laplace: Standard = _Laplace()
gaussian: Standard = _Gaussian()
