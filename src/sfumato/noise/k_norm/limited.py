"""Noise for public groups of which one unit may be in some only: one draw, with a part that is of each group.

The norm is w times that of `joint`, and 1 - w times that of `separate`: both are at most 1 for what a unit
adds to at most k groups, so the mixture is. It needs less noise than either where k is neither near 1 nor
near all.

Given λ and μ (see `limited_radii`), groups are independent, each with a density proportional to exp(-β (a +
b)) in λC - μC. A vector is either uniform there, accepted with this probability; or one of `separate`
noise, accepted if it lies there: whichever is accepted more often.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from math import factorial

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.display.fields import Spelled
from sfumato.errors import ParameterError
from sfumato.exact import positive_int
from sfumato.exact.enclosures import Enclosure
from sfumato.noise.k_norm.cone import Cone, unit_roundoff
from sfumato.noise.k_norm.drawing import (
    Approximation,
    Enclosed,
    Integers,
    Vectors,
    as_uniform,
    block,
    check_scales,
)
from sfumato.noise.k_norm.joint import JointVectors
from sfumato.noise.k_norm.limited_radii import Sizes, powers
from sfumato.noise.k_norm.radii import Radii
from sfumato.noise.k_norm.separate import SeparateNoise, signed_exponential
from sfumato.noise.k_norm.streams import Streams
from sfumato.noise.quantile_table import table
from sfumato.noise.rounding import Buffers
from sfumato.noise.standard import laplace
from sfumato.noise.values import Floats
from sfumato.noise.words import Words, source_of

MOST_SIGNED = 20  # numbers of a group, beside counts


@dataclass(frozen=True, repr=False)
class LimitedNoise(Spelled):
    """K-norm noise on public groups, of which one unit may be in some: one draw for all groups.

    Its density is proportional to exp(-w (max over groups of a + max over groups of b) - (1 - w)/k sum over
    groups of (a + b)), with the a and b of `cone`, each coordinate divided by its scale.

    Args:
        cone: what one unit may add to one group, at scale 1.
        scales: for each coordinate, what 1 is worth in grid steps, over epsilon.
        groups: how many.
        most: k, the most groups of a unit.
        shared: w, greater than 0 and less than 1.

    >>> from sfumato.noise import SeededWords
    >>> scales = (Fraction(1000), Fraction(30_000))
    >>> noise = LimitedNoise(Cone(1), scales, groups=3, most=2, shared=Fraction(1, 2))
    >>> noise.rounded(SeededWords(1))
    array([[    -4,   2059,   2791],
           [142568,   9327, -97294]])

    Source:
        Hardt and Talwar 2010, "On the geometry of differential privacy". Proof: docs/proofs/k_norm.md.
    """

    cone: Cone
    scales: tuple[Fraction, ...]
    groups: int
    most: int
    shared: Fraction

    def __post_init__(self) -> None:
        if type(self.cone) is not Cone:
            raise ParameterError("cone", self.cone, "a Cone: no other body is known to be drawn like this")
        if self.cone.signed > MOST_SIGNED:
            form = f"at most {MOST_SIGNED} signed numbers: of more, the laws of error bars leave floats"
            raise ParameterError("cone", self.cone, form)
        if not 0 < self.shared < 1:
            raise ParameterError("shared", self.shared, "greater than 0 and less than 1")
        positive_int(self.groups, "groups")
        positive_int(self.most, "most")
        check_scales(self.scales, self.cone.dimensions, self.groups * self.cone.dimensions + 2, self._reach)

    @property
    def _reach(self) -> Fraction:
        """How much larger than the norm a number can be: the norm is at least this part of max a + max b."""
        return 1 / max(self.shared, Fraction(1, self.most))

    @property
    def sizes(self) -> Sizes:
        """The law of what all groups share."""
        return Sizes(self.cone, self.groups, self.most, self.shared)

    @property
    def tilt(self) -> Fraction:
        """β."""
        return (1 - self.shared) / self.most

    @cached_property
    def within(self) -> bool:
        """Whether proposals are uniform in λC - μC, for the λ and μ that are most likely."""
        hat, found = self.sizes.hat, powers(self.cone)
        half = float(hat.start + hat.end) / 4
        body = sum(float(c) * _power(half, i) * _power(half, j) for (i, j), c in found.items())
        rate = 1 / float(self.tilt)
        all_ = sum(float(c) * _factorial(i, rate) * _factorial(j, rate) for (i, j), c in found.items())
        return body < all_

    def rounded(self, words: Words | None = None) -> Integers:
        """Draw once, with infinite precision, rounded to the nearest integers.

        Args:
            words: source of random words; None for this thread's secure words.
        Returns:
            int64 of shape (dimensions, groups), one row for each coordinate.
        """
        source = source_of(words)
        streams = Streams(source)
        kind = WithinVectors if self.within else TiltedVectors
        made = kind(self.cone, self.scales, self.sizes.draw(streams), self.tilt)
        return made.draw(self.groups, streams, source)


def _power(end: float, i: int) -> float:
    return float(end ** (i + 1)) / (i + 1) if i >= 0 else 1.0


def _factorial(i: int, rate: float) -> float:
    return float(factorial(i) * rate ** (i + 1)) if i >= 0 else 1.0


@dataclass(frozen=True)
class WithinVectors(JointVectors):
    """Uniform points of λC - μC, accepted with probability exp(-β (a + b))."""

    tilt: Fraction

    @property
    def width(self) -> int:  # type: ignore[override]
        """One uniform number for each coordinate, and one for acceptance."""
        return self.cone.dimensions + 1

    @cached_property
    def _buffers(self) -> Buffers:
        return Buffers(block)

    def approximate(self, words: Integers) -> Approximation:
        """Return vectors in floats."""
        theta, tau, size = self.shared.floats
        numbers, room, known = self.cone.floats(theta, tau, as_uniform(words[:-1]))
        magnitudes = table(laplace)
        steep = float(self.tilt) * size
        norm = _size(self.cone, numbers)
        accepted = self._buffers.magnitudes(laplace, magnitudes, words[-1]) - steep * norm
        # Sizes are at most 3, of at most 3 numbers and their roundings, and the product has three more.
        own = magnitudes.error + 1.001 * steep * (6 * self.margin + 30 * unit_roundoff)
        own += (magnitudes.largest + 3 * steep) * 4 * unit_roundoff
        room = accepted if room is None else np.minimum(room, accepted)
        self.scale(numbers)
        return Approximation(numbers, self.margins, room, max(own, self.margin), known)

    def enclose(self, uniform: Sequence[Enclosure]) -> Enclosed | None:
        """Return one vector in enclosures."""
        found = self.cone.exactly(*self.shared.enclose(uniform[0].bits), uniform[:-1])
        chance = signed_exponential(uniform[-1])
        if found is None or chance is None:
            return None
        numbers, room = found
        a, b = _sides(self.cone, numbers)
        accepted = chance[0] - (a + b).times(self.tilt)
        room = accepted if room is None else room.or_less(accepted)
        return Enclosed([n.times(scale) for n, scale in zip(numbers, self.scales, strict=True)], room)


@dataclass(frozen=True)
class TiltedVectors(Vectors):
    """Vectors of density exp(-β (a + b)), accepted in λC - μC."""

    cone: Cone
    scales: Sequence[Fraction]
    shared: Radii
    tilt: Fraction

    @cached_property
    def _anywhere(self) -> SeparateNoise:
        return SeparateNoise(self.cone, tuple(scale / self.tilt for scale in self.scales))

    @property
    def width(self) -> int:  # type: ignore[override]
        """That of noise of each group."""
        return self._anywhere.width

    @property
    def dimensions(self) -> int:  # type: ignore[override]
        """Coordinates of a group."""
        return self.cone.dimensions

    def approximate(self, words: Integers) -> Approximation:
        """Return vectors in floats."""
        theta, tau, size = self.shared.floats
        numbers, _, known = self._anywhere.reals(words)
        n = numbers[self.cone.units]
        norm = _size(self.cone, numbers)
        # a + b is the size, and a - b the first number.
        first = numbers[0] if self.cone.units else n
        room = np.minimum(
            float(self.tilt) * size * theta - (norm + first) * 0.5,
            float(self.tilt) * size * tau - (norm - first) * 0.5,
        )
        own = self._anywhere.largest_margin
        largest = table(laplace).largest * (self.cone.dimensions + 1)
        margin = 1.001 * (5 * own + (4 * largest + 4 * float(self.tilt) * size) * 4 * unit_roundoff)
        found = self._anywhere.scaled(numbers, known)
        return Approximation(found.numbers, found.margins, room, margin, known)

    def closely(self, numbers: Sequence[Floats]) -> list[Floats]:
        """Return closer bounds of the errors of vectors in grid steps."""
        return self._anywhere.closely(numbers)

    def enclose(self, uniform: Sequence[Enclosure]) -> Enclosed | None:
        """Return one vector in enclosures."""
        found = self._anywhere.enclose_reals(uniform)
        if found is None:
            return None
        numbers, _ = found
        a, b = _sides(self.cone, numbers)
        left, right = self.shared.enclose(uniform[0].bits)
        room = (left.times(self.tilt) - a).or_less(right.times(self.tilt) - b)
        scales = self._anywhere.scales
        return Enclosed([n.times(scale) for n, scale in zip(numbers, scales, strict=True)], room)


def _size(cone: Cone, numbers: Sequence[Floats]) -> Floats:
    """Return a + b: max(|n|, t), and with units |u - n| more."""
    rest = numbers[cone.units :]
    largest = np.abs(rest[0])
    for s in rest[1:]:
        np.maximum(largest, np.abs(s), out=largest)
    return largest + np.abs(numbers[0] - rest[0]) if cone.units else largest


def _sides(cone: Cone, numbers: Sequence[Enclosure]) -> tuple[Enclosure, Enclosure]:
    """Return (a, b)."""
    rest = numbers[cone.units :]
    largest = abs(rest[0])
    for s in rest[1:]:
        largest = largest.or_more(abs(s))
    if cone.units:
        largest = largest + abs(numbers[0] - rest[0])
    half = Fraction(1, 2)
    return (largest + numbers[0]).times(half), (largest - numbers[0]).times(half)
