"""The reference of the snapping mechanism in MPFR, as Mironov and the notes define it.

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

from sfumato.exact.outward_rounding import INFINITY, convert, is_finite, nearest, rational
from sfumato.snapping.snapping_parameters import Parameters, guard_bits

# B eta <= 2^-60, and less.
_rounding = 2.0**-56


class Reference:
    """The reference mechanism: draws of lattice indices, in p + 2 bits.

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
            rational(x) for x in (found.lower, found.upper, found.center, found.sensitivity)
        )
        self._epsilon = convert(found.epsilon_prime, self._context)

    def centred(self, value: Fraction | float) -> Any:
        """Clamp a value for the reference mechanism, and return its distance from the centre, exactly."""
        if isinstance(value, float) and isinf(value):
            inside = self._upper if value > 0 else self._lower
        else:
            inside = min(max(rational(value), self._lower), self._upper)
        return (inside - self._center) / self._unit

    def draw(self, value: Fraction | float, word: int, more: Callable[[], int]) -> int:
        """Return the lattice index at which the reference mechanism releases a value.

        Args:
            value: the statistic, in its unit.
            word: the first word, read as signed: the sign is S; the other bits, or their complement, are U's.
            more: gives a further word.
        """
        g, negative = self.centred(value), word < 0
        prefix, bits = (~word if negative else word), 63
        context = self._context
        while True:
            # The largest and the least U* of all U from prefix to prefix + 1, times 2^-bits.
            near = self._halves_at(g, negative, self._cut(prefix, bits, 1))
            # From one to the other, the noise grows by at most lambda' / prefix, and rounding moves x by
            # less than 2^-60 steps: far from all boundaries, one of them tells.
            reach = context.add(context.div(4, prefix), _rounding) if prefix else INFINITY
            index = self._index(context.sub(near, reach))
            if index == self._index(context.add(near, reach)):
                return index
            far = self._halves_at(g, negative, self._cut(prefix, bits, 0))
            index = self._index(near)
            if index == self._index(far):
                return index
            prefix, bits = prefix << 64 | more(), bits + 64

    def _cut(self, prefix: int, bits: int, fill: int) -> Any:
        """Return the first q significant bits of the reference's U, of which `bits` are known."""
        room = self.bits - prefix.bit_length()
        whole = prefix << room | ((1 << room) - 1) * fill if room >= 0 else prefix >> -room
        return self._context.mul_2exp(whole, -bits - room)

    def _halves_at(self, g: Any, negative: bool, u: Any) -> Any:
        """Return the reference's noisy value for one U*, in half-steps."""
        context = self._context
        noise = context.div(
            context.log(u), self._epsilon
        )  # -inf where no bit of U is set yet: there is no bound
        if not negative:
            noise = context.minus(noise)
        if not is_finite(noise):
            return noise
        # gmpy2 adds a rational to an mpfr with two roundings: here the exact sum is rounded once.
        return context.mul_2exp(convert(g + rational(noise), context), self._halves)

    def _index(self, halves: Any) -> int:
        """Round to the reference's nearest index, ties upwards, and stop at the outermost one."""
        if not is_finite(halves):
            return self.last if halves > 0 else -self.last
        return min(max((int(self._context.floor(halves)) + 1) >> 1, -self.last), self.last)
