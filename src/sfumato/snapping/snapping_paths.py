"""The two paths of a snapped draw: the reference in MPFR, and the fast path for arrays, which equals it.

The reference is the mechanism as Mironov and the notes define it. A draw is a stream of random bits: a sign
S, and U in (0, 1) bit by bit. U* is U cut to q significant bits, so that its exponent is geometric and its
mantissa uniform. With g the value about the centre, exact,

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

import numpy as np
from numpy.typing import NDArray

from sfumato.exact import round_down
from sfumato.exact.outward_rounding import INFINITY, convert, is_finite, nearest, rational
from sfumato.noise import rounded_sampler
from sfumato.noise.random_words import Words
from sfumato.noise.rounded_sampler import Buffers, block
from sfumato.noise.standard_laws import laplace
from sfumato.snapping.rounding_lattice import Lattice
from sfumato.snapping.snapping_parameters import Parameters, guard_bits

Floats = NDArray[np.float64]

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


class FastPath:
    """The fast path of the snapping mechanism: draws for arrays of values.

    Args:
        found: the mechanism's numbers.
        reference: decides what the margin leaves open.
        lattice: in the statistic's unit.
    """

    def __init__(self, found: Parameters, reference: Reference, lattice: Lattice) -> None:
        self._found, self._reference, self._lattice = found, reference, lattice
        center, unit = found.center, lattice.step
        scale = 1 / (found.epsilon_prime * found.step)
        self._ends = float(found.lower), float(found.upper)
        self._center = float(center)
        self._rest = float(center - Fraction(self._center))
        self._scale = float(scale)
        self._reach, self._per_step = -1.0, 0.0
        # Outside of this no bound holds, as the floats underflow: the reference draws all.
        if Fraction(1, 2**900) < unit < 2**900:
            self._per_step = float(1 / unit)
            self._reach = round_down(Fraction(1, 2) - self._margin(scale))

    def _margin(self, scale: Fraction) -> Fraction:
        """Bound the distance of the fast path's values from the true ones and the reference's, in steps.

        The terms are the table's error of the noise, what the bounds and the centre lose when they become
        floats, and roundings: 4.01 * 2^-53 of the value's size before the sum, and 2^-53 of both in it.
        """
        found, unit, table = self._found, self._lattice.step, rounded_sampler.quantile_table(laplace)
        ends = (found.lower, found.upper)
        moved = max(abs(Fraction(f) - e) for f, e in zip(self._ends, ends, strict=True))
        lost = abs(found.center - Fraction(self._center) - Fraction(self._rest))
        # Bounds of the value's and of the noise's size, in steps.
        value = (found.half_width * found.sensitivity + 2 * abs(Fraction(self._rest)) + moved) / unit + 1
        noise = scale * Fraction(table.largest) + 1
        # Two subtractions, 1 / unit and a product round the value; the sum rounds both; the reference adds
        # less than 2^-100 of either.
        return table.margin(scale) + (moved + lost) / unit + (6 * value + 2 * noise) / 2**53

    def draw(self, values: Floats, words: Words) -> Floats:
        """Return the snapped releases of an array: one random word for each, then more for some."""
        out = np.empty(len(values))
        buffers = _Buffers(min(block, len(values)))
        undecided: list[tuple[int, int]] = []
        table = rounded_sampler.quantile_table(laplace)
        with np.errstate(invalid="ignore"):
            for start in range(0, len(values), block):
                part = out[start : start + block]
                taken = words.take(len(part)).view(np.int64)
                buffers.magnitudes(laplace, table, taken)
                buffers.values(values[start : start + block], self._ends, self._center, self._rest)
                for i in buffers.indices(part, self._per_step, self._scale, self._reach):
                    undecided.append((start + i, int(taken[i])))
                self._lattice.place(part)
        for i, word in undecided:
            index = self._reference.draw(float(values[i]), word, lambda: int(words.take(1)[0]))
            out[i] = self._lattice.point(index)
        return out


class _Buffers(Buffers):
    """The fast path's noise buffers, with the words in row 0 and -ln U in row 4."""

    def values(self, values: Floats, ends: tuple[float, float], center: float, rest: float) -> None:
        """Put the clamped values about the centre into row 1 of the fast path's buffers."""
        place = self._room[1, : len(values)]
        np.clip(values, *ends, out=place)
        if center:
            np.subtract(place, center, out=place)
        if rest:
            np.subtract(place, rest, out=place)

    def indices(self, out: Floats, per_step: float, scale: float, reach: float) -> list[int]:
        """Round values plus noise to whole steps in the fast path, and list those it leaves open."""
        size = len(out)
        given, place, distance, _, x = (row[:size] for row in self._room)
        near = self._near[:size]
        np.multiply(x, scale, out=x)
        np.copysign(x, given, out=x)
        np.multiply(place, per_step, out=place)
        np.add(x, place, out=x)
        np.rint(x, out=out)
        np.subtract(x, out, out=distance)
        np.absolute(distance, out=distance)
        # False for NaN too: what cannot be compared is not decided.
        np.less_equal(distance, reach, out=near)
        if near.all():
            return []
        open_ = np.flatnonzero(~near)
        out[open_] = 0.0
        return [int(i) for i in open_]
