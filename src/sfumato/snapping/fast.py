"""Many draws at once, in float64 with a proven margin; what it cannot decide goes to the reference.

A block of first words gives approximations of -ln U with a proven bound (`noise.quantile_table`). With the
value they give the place on the lattice, in steps, to within `margin`. Where the nearest half-integer is
farther than that, rounding is the truth's rounding, and the reference's too. See docs/proofs/snapping.md.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.exact import round_down
from sfumato.noise import quantile_table as qt
from sfumato.noise.rounding import Buffers, block
from sfumato.noise.standard import laplace
from sfumato.noise.words import Words
from sfumato.snapping.lattice import Lattice
from sfumato.snapping.parameters import Parameters
from sfumato.snapping.reference import Reference

Floats = NDArray[np.float64]


class FastPath:
    """Draws for arrays of values.

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
        """Bound the distance, in steps, of the computed place from the true one and from the reference's."""
        found, unit, table = self._found, self._lattice.step, qt.table(laplace)
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
        """Return the releases of a one-dimensional array: a word for each, then more for some."""
        out = np.empty(len(values))
        buffers = _Buffers(min(block, len(values)))
        undecided: list[tuple[int, int]] = []
        table = qt.table(laplace)
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
    """The noise's buffers, which keep the words in row 0 and -ln U in row 4."""

    def values(self, values: Floats, ends: tuple[float, float], center: float, rest: float) -> None:
        """Put the clamped values about the centre into row 1."""
        place = self._room[1, : len(values)]
        np.clip(values, *ends, out=place)
        if center:
            np.subtract(place, center, out=place)
        if rest:
            np.subtract(place, rest, out=place)

    def indices(self, out: Floats, per_step: float, scale: float, reach: float) -> list[int]:
        """Round values plus noise to whole steps, and list those farther than `reach` from one."""
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
