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
from math import ceil
from typing import Any

import gmpy2

from sfumato.noise.standard import nearest
from sfumato.snapping.parameters import Parameters, guard_bits


class Reference:
    """Draws of lattice indices, in p + 2 bits.

    Args:
        found: the mechanism's numbers.
    Attributes:
        last: the outermost index; +-last stands for the points where the outer clamp binds.
    """

    def __init__(self, found: Parameters) -> None:
        self.bits = found.precision + guard_bits
        self.last = ceil(found.bound / found.step)
        self._context = nearest(self.bits)
        self._epsilon = self._exactly(found.epsilon_prime)
        self._halves = 1 - found.step_exponent

    def draw(self, value: Fraction, word: int, more: Callable[[], int]) -> int:
        """Return the index that `value` is released at.

        Args:
            value: in units of the sensitivity about the centre, from -B' to B'.
            word: the first word, read as signed: the sign is S; the other bits, or their complement, are U's.
            more: gives a further word.
        """
        g = gmpy2.mpq(value.numerator, value.denominator)
        prefix, bits = (~word if word < 0 else word), 63
        with gmpy2.context(self._context):
            while True:
                # The least and the largest U* of all U from prefix to prefix + 1, times 2^-bits.
                far = self._index(g, word < 0, self._cut(prefix, bits, 0))
                near = self._index(g, word < 0, self._cut(prefix, bits, 1))
                if far == near:
                    return near
                prefix, bits = prefix << 64 | more(), bits + 64

    def _cut(self, prefix: int, bits: int, fill: int) -> Any:
        """Return the first q significant bits of prefix 2^-bits, followed by bits `fill` without end."""
        room = self.bits - prefix.bit_length()
        whole = prefix << room | ((1 << room) - 1) * fill if room >= 0 else prefix >> -room
        return self._context.mul_2exp(gmpy2.mpfr(whole), -bits - room)

    def _index(self, g: Any, negative: bool, u: Any) -> int:
        if u == 0:  # no bit of U is set yet: there is no bound to the noise
            return -self.last if negative else self.last
        context = self._context
        noise = context.div(context.log(u), self._epsilon)
        if not negative:
            noise = context.minus(noise)
        # gmpy2 adds a rational to an mpfr with two roundings; the exact sum is rounded once, by `draw`'s context.
        x = gmpy2.mpfr(g + gmpy2.mpq(noise))
        halves = int(context.floor(context.mul_2exp(x, self._halves)))
        return min(max((halves + 1) >> 1, -self.last), self.last)

    def _exactly(self, number: Fraction) -> Any:
        with gmpy2.context(self._context):
            return gmpy2.mpfr(gmpy2.mpq(number.numerator, number.denominator))
