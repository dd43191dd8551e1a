"""Noise for public groups of which one unit may be in all: one draw for all groups together."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.display.fields import Spelled
from sfumato.exact import positive_int
from sfumato.exact.enclosures import Enclosure
from sfumato.noise.k_norm.cone import Cone
from sfumato.noise.k_norm.drawing import Approximation, Enclosed, Integers, Vectors, as_uniform, check_scales
from sfumato.noise.k_norm.radii import Radii, radii
from sfumato.noise.k_norm.streams import Streams
from sfumato.noise.values import Floats
from sfumato.noise.words import Words, source_of


@dataclass(frozen=True, repr=False)
class JointVectors(Spelled, Vectors):
    """Uniform points of λC - μC in each group, for given λ and μ."""

    cone: Cone
    scales: Sequence[Fraction]
    shared: Radii

    @property
    def width(self) -> int:  # type: ignore[override]
        """One uniform number for each coordinate."""
        return self.cone.dimensions

    @property
    def dimensions(self) -> int:  # type: ignore[override]
        """Coordinates of a group."""
        return self.cone.dimensions

    def approximate(self, words: Integers) -> Approximation:
        """Return vectors in floats."""
        theta, tau, _ = self.shared.floats
        numbers, room, known = self.cone.floats(theta, tau, as_uniform(words))
        for x, factor in zip(numbers, self._factors, strict=True):
            np.multiply(x, factor, out=x)
        return Approximation(numbers, self.margins, room, self.margin, known)

    @cached_property
    def margin(self) -> float:
        """A bound of the errors in floats, in units of L."""
        return self.cone.margin(*self.shared.floats[:2])

    @cached_property
    def margins(self) -> list[float]:
        """Bounds of the errors in floats, in grid steps."""
        # Numbers are at most 1, and four roundings of theirs are in the margin already.
        return [1.001 * factor * self.margin for factor in self._factors]

    def closely(self, numbers: Sequence[Floats]) -> list[Floats]:
        """Return closer bounds of the errors of vectors in grid steps."""
        theta, tau, _ = self.shared.floats
        each = [x / factor for x, factor in zip(numbers, self._factors, strict=True)]
        margins = self.cone.closer_margins(theta, tau, each)
        return [1.001 * factor * margin for factor, margin in zip(self._factors, margins, strict=True)]

    @cached_property
    def _factors(self) -> list[float]:
        return [self.shared.floats[2] * float(scale) for scale in self.scales]

    def enclose(self, uniform: Sequence[Enclosure]) -> Enclosed | None:
        """Return one vector in enclosures."""
        found = self.cone.exactly(*self.shared.enclose(uniform[0].bits), uniform)
        if found is None:
            return None
        numbers, room = found
        return Enclosed([n.times(scale) for n, scale in zip(numbers, self.scales, strict=True)], room)


@dataclass(frozen=True, repr=False)
class JointNoise(Spelled):
    """K-norm noise on public groups, of which one unit may be in all: one draw for all groups together.

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
        """Return what is drawn, as the certificate reads it.

        Args:
            names: of the coordinates, in order.
        """
        shape = {"shape": "k_norm", "joint": True, "body": "cone", "units": self.cone.units}
        return shape | {"order": list(names), "scales": dict(zip(names, map(str, self.scales), strict=True))}

    def rounded(self, words: Words | None = None) -> Integers:
        """Draw once, with infinite precision, rounded to the nearest integers.

        Args:
            words: source of random words; None for this thread's secure words.
        Returns:
            int64 of shape (dimensions, groups), one row for each coordinate.
        """
        source = source_of(words)
        streams = Streams(source)
        shared = radii(self.cone.volume, self.cone.dimensions, self.groups, streams)
        return JointVectors(self.cone, self.scales, shared).draw(self.groups, streams, source)
