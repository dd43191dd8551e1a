"""The standard laws, Laplace and Gaussian at scale one: tails, quantiles, and exact rounded draws.

Both are symmetric, so each is given by its tail T(y) = P(|Z| > y) for y >= 0, and the quantile function
Q = T^-1. The derivatives of Q follow from one polynomial, its *curvature* c: Q'' = c(Q) Q'^2, with c = 1
for Laplace and c(z) = z for Gauss. Hence Q^(k) = P_k(Q) Q'^k where P_1 = 1, P_(k+1) = P_k' + k c P_k.
"""

from __future__ import annotations

import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Any

from sfumato.exact.outward_rounding import (
    Rational,
    Real,
    both_tails,
    directed,
    nearest,
    over_root_two,
    rational,
    to_float,
)

largest_integer = 2**63 - 1
_guess_bits = 128


class Standard(ABC):
    """A standard law, at scale one.

    `curvature` holds the coefficients of c, lowest power first.
    """

    curvature: tuple[int, ...]

    @abstractmethod
    def tail(self, y: Rational, bits: int) -> tuple[Real, Real]:
        """Enclose the standard law's tail T(y), y >= 0, with a relative width of about 2^-bits."""

    @abstractmethod
    def tail_absolute(self, y: Rational, bits: int) -> tuple[Real, Real]:
        """Enclose the standard law's tail T(y), y >= 0, to an absolute width of about 2^-bits, faster."""

    @abstractmethod
    def quantile(self, outside: Real, inside: Real, bits: int) -> Real:
        """Return the standard law's Q(outside) to nearly `bits` bits; inside = 1 - outside.

        `inside` may be the more precise one.
        """

    @abstractmethod
    def slope(self, z: Real, bits: int) -> Real:
        """Return the slope Q'(u) of the standard law's quantile function, at the u whose Q(u) is z."""

    def derivatives(self, count: int) -> list[list[int]]:
        """Return the polynomials P_1 ... P_count of the quantile function's derivatives.

        Each has its lowest power first.

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
    """The standard Laplace law: T(y) = exp(-y), Q(u) = -ln u."""

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
    """The standard Gaussian law: T(y) = erfc(y / sqrt 2), Q(u) = sqrt 2 erfc^-1(u)."""

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
        """Solve for the standard Gaussian quantile by the cubic Taylor step of Q itself."""
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


def discrete_tail(whole: int, scale: Fraction, bits: int) -> tuple[Real, Real]:
    """Enclose the discrete Laplace law's P(|X| >= whole), 2 e^(-whole / scale) / (1 + e^(-1 / scale)).

    Args:
        whole: at least 1.
        scale: of the law.
        bits: the relative width is about 2^-bits.
    """
    y = rational(whole * scale.denominator, scale.numerator)
    precision = bits + 6 + int(y).bit_length()
    (down, up), (less, more) = directed(precision), _mean_step(scale, precision)
    low, high = _exp_of_minus(y, down, up)
    return down.div(low, more), up.div(high, less)


@lru_cache(maxsize=1 << 10)
def _mean_step(scale: Fraction, precision: int) -> tuple[Real, Real]:
    """Enclose (1 + e^(-1 / scale)) / 2, which is the same for all tails of a discrete Laplace law."""
    down, up = directed(precision)
    low, high = _exp_of_minus(rational(1 / scale), down, up)
    return down.div_2exp(down.add(1, low), 1), up.div_2exp(up.add(1, high), 1)


def discrete_shift(scale: Fraction, bits: int) -> Real:
    """Return s = scale ln cosh(1 / (2 scale)), to about 2^-bits.

    With Z of the Laplace law, |Z| less s, rounded and at least 0, has the discrete law of |X|.
    """
    context = nearest(bits)
    power = context.expm1(context.minus(context.div(scale.denominator, scale.numerator)))
    lost = context.log1p(context.div_2exp(power, 1))
    return context.add(0.5, context.mul(lost, context.div(scale.numerator, scale.denominator)))


class ExactDraws:
    """Exact draws of round(scale * Z), Z of a standard law, settled by comparing U with its tail.

    Args:
        standard: the law of Z.
        scale: in units of the grid.
        discrete: whether to draw the discrete Laplace law in place of the rounded one.
    """

    def __init__(self, standard: Standard, scale: Fraction, discrete: bool = False) -> None:
        self._standard, self._scale, self._discrete = standard, scale, discrete
        self.shift = discrete_shift(scale, _guess_bits) if discrete else 0

    def draws(self, first: Iterable[int], more: Callable[[], int]) -> list[int]:
        """Return an exact rounded draw of the standard law for each first word, taking more in order."""
        return [self.settle(word, 0, largest_integer, more) for word in first]

    def settle(self, word: int, low: int, high: int, more: Callable[[], int]) -> int:
        """Return the standard law's exact rounded draw whose first word, read as signed, is `word`.

        Args:
            word: the first word.
            low, high: integers between which its magnitude is known to lie.
            more: gives a further word.
        """
        # U lies between prefix and prefix + 1, times 2^-bits.
        prefix, bits = (~word if word < 0 else word), 63
        while True:
            low, high = self._narrow(prefix, bits, low, high)
            if low == high:
                return -low if word < 0 else low
            prefix, bits = prefix << 64 | more(), bits + 64

    def _narrow(self, prefix: int, bits: int, low: int, high: int) -> tuple[int, int]:
        """Narrow a standard law's draw until bounds meet, or a half-integer is inside U's interval."""
        # From a good guess, two comparisons do; each wrong step costs one more.
        middle = low if high - low == 1 else self._guess(prefix, bits)
        while low < high:
            middle = min(max(middle, low), high - 1)
            side = self._compare_with(prefix, bits, middle)
            if side == 0:
                break
            if side > 0:
                high, middle = middle, middle - 1
            else:
                low, middle = middle + 1, middle + 1
        return low, high

    def _guess(self, prefix: int, bits: int) -> int:
        """Return the rounded standard law's quantile in the middle of U's interval: a good guess."""
        # x is below 2^64 and wanted to well within 1/2, whatever the length of the prefix.
        context = nearest(_guess_bits)
        outside = context.mul_2exp(2 * prefix + 1, -bits - 1)
        z = self._standard.quantile(outside, context.sub(1, outside), _guess_bits)
        x = context.mul(z, context.div(self._scale.numerator, self._scale.denominator))
        return int(context.rint(context.sub(x, self.shift))) if x < largest_integer else largest_integer

    def _compare_with(self, prefix: int, bits: int, middle: int) -> int:
        """Return on which side of the chance of more than `middle` all of U's interval lies.

        Returns:
            1: U is larger, so the magnitude rounds to `middle` or less; -1: to more; 0: the tail is inside.
        """
        precision = bits + 9
        while True:
            down, up = directed(2 * precision)  # wide enough for the shift to be exact
            low, high = self._tail(middle, precision)
            low, high = down.mul_2exp(low, bits), up.mul_2exp(high, bits)
            if high <= prefix:
                return 1
            if low >= prefix + 1:
                return -1
            # The tail is transcendental, thus neither end of U's interval, and some precision tells.
            if low >= prefix and high <= prefix + 1:
                return 0
            precision *= 2

    def _tail(self, middle: int, bits: int) -> tuple[Real, Real]:
        """Enclose the chance of a magnitude of more than `middle`, T((middle + 1/2) / scale) if rounded."""
        if self._discrete:
            return discrete_tail(middle + 1, self._scale, bits)
        y = rational((2 * middle + 1) * self._scale.denominator, 2 * self._scale.numerator)
        return self._standard.tail_absolute(y, bits)
