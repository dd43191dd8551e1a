"""Noise of each group whose body is stretched where precision is unimportant: less for numbers that matter.

With y the largest of the p numbers that are favoured, and z that of all M numbers (n and the signed ones),
the norm is w y + (1 - w) z, for 0 < w < 1; with units |u - n| more. It is nowhere above that of `separate`,
max(|n|, t) + |u - n|: the body is that one, stretched to 1 / (1 - w) where the favoured numbers are 0.

With v = 1 - w and q = M - p, exp(-v z) is the integral of v exp(-v t) over t > z: given y, t has a density
proportional to t^q exp(-v t) on t > y, and the others are uniform between -t and t. With t = y + d the
density of (y, d) is a sum over j <= q of binomial(q, j) y^(M-1-j) exp(-y) d^j exp(-v d): of M + 1 exponential
numbers the last j + 1, over v, add up to d, and the others to y.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from math import comb, factorial
from typing import TypeVar

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact.enclosures import Enclosure
from sfumato.noise.k_norm.cone import Cone, unit_roundoff
from sfumato.noise.k_norm.drawing import Flags, Integers, as_uniform, check_scales
from sfumato.noise.k_norm.separate import (
    SeparateNoise,
    between_faces,
    on_cube,
    on_cube_exactly,
    signed_exponential,
)
from sfumato.noise.values import Floats

Real = TypeVar("Real")


@dataclass(frozen=True, repr=False)
class StretchedNoise(SeparateNoise):
    """Independent K-norm noise in each group, of a body that is stretched for what is not favoured.

    Args:
        cone, scales: as of `SeparateNoise`.
        favoured: which numbers are favoured, some and not all: 0 for the count, then the signed ones.
        part: w, the part of the norm that is theirs alone; greater than 0 and less than 1.

    >>> from sfumato.noise import SeededWords
    >>> from sfumato.noise.k_norm import Cone
    >>> scales = (Fraction(1000), Fraction(30_000))
    >>> StretchedNoise(Cone(1), scales, (0,), Fraction(3, 4)).rounded(3, SeededWords(1))
    array([[    -56,     656,    1464],
           [-141241,   13140, -103737]])

    Source:
        Hardt and Talwar 2010, "On the geometry of differential privacy". Proof: docs/proofs/k_norm.md.
    """

    favoured: tuple[int, ...]
    part: Fraction

    def __post_init__(self) -> None:
        if type(self.cone) is not Cone:
            raise ParameterError("cone", self.cone, "a Cone: no other body is known to be drawn like this")
        object.__setattr__(self, "favoured", tuple(sorted(set(self.favoured))))
        if not self.favoured or not set(self.favoured) < set(range(self._numbers)):
            raise ParameterError("favoured", self.favoured, "some of the count and signed numbers, not all")
        if not 0 < self.part < 1:
            raise ParameterError("part", self.part, "greater than 0 and less than 1")
        check_scales(self.scales, self.cone.dimensions, self.cone.dimensions + 1, self.stretch)

    @property
    def _numbers(self) -> int:
        """M."""
        return self.cone.signed + 1

    @property
    def stretch(self) -> Fraction:
        """How far numbers that are not favoured go, 1 / (1 - w)."""
        return 1 / (1 - self.part)

    @property
    def width(self) -> int:  # type: ignore[override]
        """Exponential numbers, of which the first has a sign; j; uniform numbers; the one of the units."""
        return 2 * self._numbers + 1 + self.cone.units

    @cached_property
    def chances(self) -> tuple[Fraction, ...]:
        """The probability of each j."""
        m, others = self._numbers, self._numbers - len(self.favoured)
        found = [
            comb(others, j) * factorial(m - 1 - j) * factorial(j) * self.stretch ** (j + 1)
            for j in range(others + 1)
        ]
        return tuple(chance / sum(found) for chance in found)

    @property
    def unit_margins(self) -> list[Fraction]:
        """Bounds of the errors in floats, at scale 1; the terms are those of docs/proofs/k_norm.md."""
        m, p, rho = self._numbers, len(self.favoured), Fraction(unit_roundoff)
        error, largest = Fraction(self._table.error), Fraction(self._table.largest)
        near = m * (error + (m + 4 * p + 11) * largest * rho)
        far = self.stretch * (m + 1) * (error + (m + 10) * largest * rho)
        own = [near if i in self.favoured else far for i in range(m)]
        if not self.cone.units:
            return own
        size = (self.stretch * (m + 1) + 1) * largest
        return [own[0] + error + 5 * size * rho, *own]

    def closely(self, numbers: Sequence[Floats]) -> None:  # type: ignore[override]
        """Return nothing: how large t is, numbers that are uniform below it do not tell."""

    def reals(self, words: Integers) -> tuple[list[Floats], Floats, Flags | None]:
        """Return the numbers at scale 1, the largest favoured one, and where faces and j are known."""
        m, p = self._numbers, len(self.favoured)
        uniform = as_uniform(words[m + 1 : 2 * m + 1])
        place = (uniform[0] + 1.0) * 0.5
        steps = [float(c) for c in accumulate(self.chances[:-1])]
        j = np.sum([place >= step for step in steps], axis=0)
        known = np.logical_and.reduce([np.abs(place - step) > between_faces for step in steps])
        size, rest = np.zeros_like(place), np.zeros_like(place)
        for i in range(m + 1):
            row, near = self._magnitudes(words[i]), i + j < m
            np.add(size, row, out=size, where=near)
            np.add(rest, row, out=rest, where=~near)
        core, face = on_cube(size, words[0], words[m + 2 : m + 1 + p])
        far = size + rest * float(self.stretch)
        numbers = self._ordered(core, [share * far for share in uniform[p:]])
        if self.cone.units:
            numbers.insert(0, np.copysign(self._magnitudes(words[-1]), words[-1]) + numbers[0])
        return numbers, size, known if face is None else known & face

    def enclose_reals(self, uniform: Sequence[Enclosure]) -> tuple[list[Enclosure], Enclosure] | None:
        """Return one vector at scale 1 and the largest favoured number; None where something is not known."""
        m, p, bits = self._numbers, len(self.favoured), uniform[0].bits
        found = [signed_exponential(u) for u in [*uniform[: m + 1], *uniform[2 * m + 1 :]]]
        parts = [f for f in found if f is not None]
        below = [uniform[m + 1].below(Enclosure.of(c, bits)) for c in accumulate(self.chances[:-1])]
        if len(parts) < len(found) or None in below:
            return None
        near = m - below.count(False)
        size, rest = (
            sum((part[0] for part in some[1:]), some[0][0]) for some in (parts[:near], parts[near : m + 1])
        )
        core = on_cube_exactly(size, parts[0][1], uniform[m + 2 : m + 1 + p])
        if core is None:
            return None
        far, one = size + rest.times(self.stretch), Enclosure.of(1, bits)
        numbers = self._ordered(core, [(u.times(2) - one) * far for u in uniform[m + 1 + p : 2 * m + 1]])
        if self.cone.units:
            step, positive = parts[-1]
            numbers.insert(0, numbers[0] + (step if positive else -step))
        return numbers, size

    def _ordered(self, core: Sequence[Real], others: Sequence[Real]) -> list[Real]:
        """Return numbers in the order of the coordinates."""
        rows = {False: iter(others), True: iter(core)}
        return [next(rows[i in self.favoured]) for i in range(self._numbers)]
