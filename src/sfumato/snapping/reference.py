"""The mechanism as Mironov and the notes define it, in MPFR: what the fast path must equal.

A draw is a stream of random bits: a sign S, and U in (0, 1) bit by bit. U* is U cut to q significant bits, so
that its exponent is geometric and its mantissa uniform. With g the value about the centre, exact,

    x = g (+) S (*) LN(U*) (/) epsilon',

where LN, (/) and (+) are each rounded to nearest at q bits, and the index of the lattice point is x / Lambda'
rounded to the nearest integer, ties upwards. x is monotone in U*: where both ends of the interval of U that
the words so far leave give one index, this is the draw; otherwise one word more is taken. What comes out, and
how many words are taken, is a matter of the words alone.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil, isinf
from typing import Any

import gmpy2

from sfumato.exact.directed import nearest
from sfumato.snapping.parameters import Parameters, guard_bits

# B eta <= 2^-60, and less.
_rounding = 2.0**-56


class Reference:
    """Draws of lattice indices, in p + 2 bits.

    Args:
        found: the mechanism's numbers.
    Attributes:
        last: the outermost index; +-last stands for the points where the outer clamp binds.
    """

    def __init__(self, found: Parameters) -> None:
        self.bits: int = found.precision + guard_bits
        self.last: int = ceil(found.bound / found.step)
        self._context = nearest(self.bits)
        self._halves = 1 - found.step_exponent
        self._lower, self._upper, self._center, self._unit = (
            _rational(x) for x in (found.lower, found.upper, found.center, found.sensitivity)
        )
        with gmpy2.context(self._context):
            self._epsilon = gmpy2.mpfr(_rational(found.epsilon_prime))

    def centred(self, value: Fraction | float) -> Any:
        """Clamp a value, not NaN, and return it in units of the sensitivity about the centre, exactly."""
        if isinstance(value, float) and isinf(value):
            inside = self._upper if value > 0 else self._lower
        else:
            inside = min(max(gmpy2.mpq(value), self._lower), self._upper)
        return (inside - self._center) / self._unit

    def draw(self, value: Fraction | float, word: int, more: Callable[[], int]) -> int:
        """Return the index that `value` is released at.

        Args:
            value: the statistic, in its unit.
            word: the first word, read as signed: the sign is S; the other bits, or their complement, are U's.
            more: gives a further word.
        """
        g, negative = self.centred(value), word < 0
        prefix, bits = (~word if negative else word), 63
        with gmpy2.context(self._context):
            while True:
                # The largest and the least U* of all U from prefix to prefix + 1, times 2^-bits.
                near = self._halves_at(g, negative, self._cut(prefix, bits, 1))
                # From one to the other, the noise grows by at most lambda' / prefix, and rounding moves x by
                # less than 2^-60 steps: far from all boundaries, one of them tells.
                reach = 4 / gmpy2.mpfr(prefix) + _rounding if prefix else gmpy2.inf()
                index = self._index(near - reach)
                if index == self._index(near + reach):
                    return index
                far = self._halves_at(g, negative, self._cut(prefix, bits, 0))
                index = self._index(near)
                if index == self._index(far):
                    return index
                prefix, bits = prefix << 64 | more(), bits + 64

    def _cut(self, prefix: int, bits: int, fill: int) -> Any:
        """Return the first q significant bits of prefix 2^-bits, followed by bits `fill` without end."""
        room = self.bits - prefix.bit_length()
        whole = prefix << room | ((1 << room) - 1) * fill if room >= 0 else prefix >> -room
        return self._context.mul_2exp(gmpy2.mpfr(whole), -bits - room)

    def _halves_at(self, g: Any, negative: bool, u: Any) -> Any:
        """Return x for one U*, in half-steps. Python's operators use the context that `draw` has entered."""
        noise = gmpy2.log(u) / self._epsilon  # -inf where no bit of U is set yet: there is no bound
        if not negative:
            noise = -noise
        if gmpy2.is_infinite(noise):
            return noise
        # gmpy2 adds a rational to an mpfr with two roundings: here the exact sum is rounded once.
        return gmpy2.mul_2exp(gmpy2.mpfr(g + gmpy2.mpq(noise)), self._halves)

    def _index(self, halves: Any) -> int:
        """Round to the nearest whole step, ties upwards, and stop at the outermost index."""
        if gmpy2.is_infinite(halves):
            return self.last if halves > 0 else -self.last
        return min(max((int(gmpy2.floor(halves)) + 1) >> 1, -self.last), self.last)


def _rational(number: Fraction) -> Any:
    return gmpy2.mpq(number.numerator, number.denominator)
