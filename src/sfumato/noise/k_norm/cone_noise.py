"""K-norm noise of cones: one joint draw for all public groups, or separate noise for each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.exact import positive_int, whole_number
from sfumato.exact.outward_rounding import Enclosure
from sfumato.noise.k_norm.cones import Cone, unit_roundoff
from sfumato.noise.k_norm.sampling import (
    Approximation,
    Enclosed,
    Flags,
    Integers,
    Radii,
    Streams,
    Vectors,
    as_uniform,
    block,
    check_scales,
    radii,
)
from sfumato.noise.law_tails import Floats
from sfumato.noise.random_words import Words, get_source
from sfumato.noise.rounded_sampler import Buffers, QuantileTable, quantile_table
from sfumato.noise.standard_laws import laplace


@dataclass(frozen=True, repr=False)
class JointVectors(Spelled, Vectors):
    """Vectors of joint K-norm noise: uniform points of λC - μC in each group, for given λ and μ."""

    cone: Cone
    scales: Sequence[Fraction]
    shared: Radii

    @property
    def width(self) -> int:  # type: ignore[override]
        """The number of uniform numbers that a group's joint noise takes: one for each coordinate."""
        return self.cone.dimensions

    @property
    def dimensions(self) -> int:  # type: ignore[override]
        """The number of coordinates of a group with joint noise."""
        return self.cone.dimensions

    def approximate(self, words: Integers) -> Approximation:
        """Return vectors of joint noise in floats."""
        theta, tau, _ = self.shared.floats
        numbers, room, known = self.cone.floats(theta, tau, as_uniform(words))
        for x, factor in zip(numbers, self._factors, strict=True):
            np.multiply(x, factor, out=x)
        return Approximation(numbers, self.margins, room, self.margin, known)

    @cached_property
    def margin(self) -> float:
        """A bound of the float errors of joint noise, in units of L."""
        return self.cone.margin(*self.shared.floats[:2])

    @cached_property
    def margins(self) -> list[float]:
        """Bounds of the float errors of joint noise, in grid steps."""
        # Numbers are at most 1, and four roundings of theirs are in the margin already.
        return [1.001 * factor * self.margin for factor in self._factors]

    def closely(self, numbers: Sequence[Floats]) -> list[Floats]:
        """Return closer bounds of the float errors of joint noise, in grid steps."""
        theta, tau, _ = self.shared.floats
        each = [x / factor for x, factor in zip(numbers, self._factors, strict=True)]
        margins = self.cone.closer_margins(theta, tau, each)
        return [1.001 * factor * margin for factor, margin in zip(self._factors, margins, strict=True)]

    @cached_property
    def _factors(self) -> list[float]:
        return [self.shared.floats[2] * float(scale) for scale in self.scales]

    def enclose(self, uniform: Sequence[Enclosure]) -> Enclosed | None:
        """Return one group's vector of joint noise in enclosures."""
        found = self.cone.exactly(*self.shared.enclose(uniform[0].bits), uniform)
        if found is None:
            return None
        numbers, room = found
        return Enclosed([n.times(scale) for n, scale in zip(numbers, self.scales, strict=True)], room)


@dataclass(frozen=True, repr=False)
class JointNoise(Spelled):
    """Joint K-norm noise on public groups, of which one unit may be in all: one draw for all groups.

    Its density is proportional to exp(-(max over groups of a + max over groups of b)), with the a and
    b = a - n of `cone`, each coordinate divided by its scale.

    Args:
        cone: what one unit may add to one group, at scale 1.
        scales: for each coordinate, what 1 is worth in grid steps, over epsilon.
        groups: how many.

    >>> from sfumato.noise import SeededWords
    >>> noise = JointNoise(Cone(1), (Fraction(1000), Fraction(30_000)), groups=3)
    >>> noise.rounded(SeededWords(1))
    array([[ -5471,  -2357,  -3165],
           [ 48175, -39444,  85383]])

    Source:
        Hardt and Talwar 2010, "On the geometry of differential privacy". Proof: docs/proofs/k_norm.md.
    """

    cone: Cone
    scales: tuple[Fraction, ...]
    groups: int

    def __post_init__(self) -> None:
        positive_int(self.groups, "groups")
        check_scales(self.scales, self.cone.dimensions, self.groups * self.cone.dimensions + 2)

    def description(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the description of the joint K-norm noise for the certificate.

        Args:
            names: of the coordinates, in order.
        """
        shape = {"shape": "k_norm", "joint": True, "body": "cone", "units": self.cone.units}
        return shape | {"order": list(names), "scales": dict(zip(names, map(str, self.scales), strict=True))}

    def rounded(self, words: Words | None = None) -> Integers:
        """Draw joint K-norm noise once, with infinite precision, rounded to the nearest integers.

        Args:
            words: source of random words; None for this thread's secure words.
        Returns:
            int64 of shape (dimensions, groups), one row for each coordinate.
        """
        source = get_source(words)
        streams = Streams(source)
        shared = radii(self.cone.volume, self.cone.dimensions, self.groups, streams)
        return JointVectors(self.cone, self.scales, shared).draw(self.groups, streams, source)


# Where U times the number of faces is so near to a whole number, floats do not tell the face.
_between_faces: float = 2.0**-44


@dataclass(frozen=True, repr=False)
class SeparateNoise(Spelled, Vectors):
    """Separate K-norm noise: independent in each group.

    Args:
        cone: what one unit may add to one group, at scale 1.
        scales: for each coordinate, what 1 is worth in grid steps, times the groups of a unit, over epsilon.

    >>> from sfumato.noise import SeededWords
    >>> SeparateNoise(Cone(1), (Fraction(1000), Fraction(30_000))).rounded(3, SeededWords(1))
    array([[  1114,   1514,  -1304],
           [-39469, -37159,  53418]])

    Source:
        Hardt and Talwar 2010, "On the geometry of differential privacy". Proof: docs/proofs/k_norm.md.
    """

    cone: Cone
    scales: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        check_scales(self.scales, self.cone.dimensions, self.cone.dimensions)

    def description(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the description of the separate K-norm noise for the certificate.

        Args:
            names: of the coordinates, in order.
        """
        # Without units the norm is the largest coordinate, whether or not the first limits the others.
        body, units = "cone" if self.cone.units else "cube", self.cone.units
        shape = {"shape": "k_norm", "joint": False, "body": body, "units": units}
        return shape | {"order": list(names), "scales": dict(zip(names, map(str, self.scales), strict=True))}

    @property
    def width(self) -> int:  # type: ignore[override]
        """The number of uniform numbers of a group's separate noise: exponentials, uniforms, units."""
        return 2 * self.cone.signed + 1 + self.cone.units

    @property
    def dimensions(self) -> int:  # type: ignore[override]
        """The number of coordinates of a group with separate noise."""
        return self.cone.dimensions

    def rounded(self, count: int, words: Words | None = None) -> Integers:
        """Draw separate K-norm noise for some groups, rounded to the nearest integers.

        Args:
            count: number of groups.
            words: source of random words; None for this thread's secure words.
        Returns:
            int64 of shape (dimensions, count), one row for each coordinate.
        Raises:
            ParameterError: count is not a whole number of at least 0.
        """
        source = get_source(words)
        # A copy has buffers of its own: another thread, or a handler of a signal, may draw in the middle.
        return replace(self).draw(whole_number(count, "count", 0), Streams(source), source)

    @cached_property
    def _table(self) -> QuantileTable:
        return quantile_table(laplace)

    @cached_property
    def _buffers(self) -> Buffers:
        return Buffers(block)

    @cached_property
    def margins(self) -> list[float]:
        """Bounds of the float errors of separate noise, in grid steps."""
        each = zip(self.scales, self.unit_margins, strict=True)
        return [float(scale * margin * Fraction(1.001)) for scale, margin in each]

    @cached_property
    def unit_margins(self) -> list[Fraction]:
        """Bounds of the float errors of separate noise at scale 1.

        Laplace magnitudes of at most E are off by the table's e, so their sum by Me + M^2 E ρ. The choice of
        the largest number takes U times M, off by 2Mρ; near a whole number it is not known. The fraction that
        is left is taken in whole numbers, so it is off by M 2^-63, and as a float by ρ/2. Every place is thus
        off by at most ρ for M up to 512, the spread by 2MEρ more, and scaling by three roundings.
        """
        power, largest = self.cone.signed + 1, Fraction(self._table.largest)
        sums = power * Fraction(self._table.error) + power**2 * largest * Fraction(unit_roundoff)
        spread = power * largest * 2 * Fraction(unit_roundoff)
        other = Fraction(self._table.error) + (power + 1) * largest * 2 * Fraction(unit_roundoff)
        scaled = (power + 1) * largest * 3 * Fraction(unit_roundoff)
        own = sums + spread + scaled
        return [own + other] * self.cone.units + [own] * power

    def closely(self, numbers: Sequence[Floats]) -> list[Floats]:
        """Return closer bounds of the float errors of separate noise, in grid steps.

        With g such that no magnitude x is off by more than g(1 + x), a size S is off by g(M + S) + MSρ. A
        number x is off by |x|/S of that, by Sρ for its place, and by at most 4ρ of itself. u - n adds
        g(1 + |u - n|) and four roundings of S + |u - n|.
        """
        power, scales, growth = self.cone.signed + 1, [float(s) for s in self.scales], self._table.growth
        at_1 = [np.abs(x) / scale for x, scale in zip(numbers, scales, strict=True)]
        rows = at_1[self.cone.units :]
        size = np.max(rows, axis=0)
        # What the size is off by, of itself, and each number's own share of that.
        spread = growth * (power / size + 1) + (power + 4) * unit_roundoff
        margins = [x * spread + size * unit_roundoff for x in rows]
        if self.cone.units:
            step = at_1[0] + at_1[1]  # at least |u - n|
            margins.insert(0, margins[0] + growth * (1 + step) + (size + step) * 4 * unit_roundoff)
        return [1.001 * scale * margin for scale, margin in zip(scales, margins, strict=True)]

    def approximate(self, words: Integers) -> Approximation:
        """Return vectors of separate noise in floats."""
        power = self.cone.signed + 1
        size = self._magnitudes(words[0]).copy()
        for row in words[1:power]:
            size += self._magnitudes(row)
        numbers, known = _on_cube(size, words[0], words[power : 2 * power - 1])
        if self.cone.units:
            more = np.copysign(self._magnitudes(words[-1]), words[-1])
            numbers.insert(0, more + numbers[0])
        for x, scale in zip(numbers, self.scales, strict=True):
            np.multiply(x, float(scale), out=x)
        return Approximation(numbers, self.margins, known=known)

    def _magnitudes(self, words: Integers) -> Floats:
        return self._buffers.magnitudes(laplace, self._table, words)

    def enclose(self, uniform: Sequence[Enclosure]) -> Enclosed | None:
        """Return a vector of separate noise in enclosures; None where its face or a sign is not known."""
        power = self.cone.signed + 1
        found = [_signed_exponential(u) for u in [*uniform[:power], *uniform[2 * power - 1 :]]]
        parts = [f for f in found if f is not None]
        if len(parts) < len(found):
            return None
        size = parts[0][0]
        for more, _ in parts[1:power]:
            size = size + more
        numbers = _on_cube_exactly(size, parts[0][1], uniform[power : 2 * power - 1])
        if numbers is None:
            return None
        if self.cone.units:
            step, positive = parts[-1]
            numbers.insert(0, numbers[0] + (step if positive else -step))
        return Enclosed([n.times(scale) for n, scale in zip(numbers, self.scales, strict=True)])


def _on_cube(size: Floats, signs: Integers, words: Integers) -> tuple[list[Floats], Flags | None]:
    """Return uniform numbers of a cube of this size for K-norm noise, and where the largest is known.

    Args:
        size: an array.
        signs: words of which the sign is that of the largest number.
        words: an array less than there are numbers; the first one chooses the largest, too.
    """
    largest = np.copysign(size, signs)
    if not len(words):
        return [largest], None
    count, vectors = len(words) + 1, len(size)
    numbers = np.empty((count, vectors))
    # Of U times the numbers the whole part is the place of the largest. The fraction has no rounding: it is
    # what products of words keep. (A word is 2^63 less than U's first bits, and so should the fraction be.)
    (chosen,) = as_uniform(words[:1])
    chosen += 1.0
    chosen *= count / 2
    # The very last words round up to beyond the last number; which one it is, is not known there.
    place = np.minimum(chosen, count - 1).astype(np.int64)
    fraction = words[:1] * np.int64(count)
    if count % 2 == 0:
        fraction ^= np.int64(-(2**63))
    shares = [*as_uniform(fraction), *as_uniform(words[1:])]
    known = np.abs(shares[0]) <= 1.0 - 2 * _between_faces
    for number, share in zip(numbers[1:], shares, strict=True):
        np.multiply(share, size, out=number)
    # The largest changes places with the first.
    numbers[0] = largest
    place *= vectors
    place += np.arange(vectors)
    flat = numbers.reshape(-1)
    first = flat.take(place)
    flat[place] = largest
    numbers[0] = first
    return list(numbers), known


def _on_cube_exactly(size: Enclosure, positive: bool, uniform: Sequence[Enclosure]) -> list[Enclosure] | None:
    """Return enclosures of uniform numbers of a cube for K-norm noise; None if the largest is unknown."""
    numbers, one = [size if positive else -size], Enclosure.around(1, size.bits)
    if uniform:
        y = uniform[0].times(len(uniform) + 1)
        face = y.floor()
        if face is None:
            return None
        places = [y - Enclosure.around(face, size.bits), *uniform[1:]]
        numbers += [(place.times(2) - one) * size for place in places]
        numbers[0], numbers[face] = numbers[face], numbers[0]
    return numbers


def _signed_exponential(uniform: Enclosure) -> tuple[Enclosure, bool] | None:
    """Return -ln |2U - 1| for K-norm noise, and whether 2U - 1 is above 0; None where that is not known."""
    bits = uniform.bits
    place = uniform.times(2) - Enclosure.around(1, bits)
    negative = place.below(Enclosure.around(0, bits))
    if negative is None:
        return None
    return -abs(place).log(), not negative
