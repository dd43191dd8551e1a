"""Noise for counts of many public groups, of which one unit may be in all: about half of all units.

A unit moves N, the number of all units, by 1, and n - N/2 by one half in every group, up or down: these moves
are a cube, which is its own mirror image. So noise is drawn for N, by one part of epsilon, and for the cube,
by the rest; n is what is released about N/2, and N/2. As both noises are added, N itself cancels: nobody has
to count it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache, cached_property
from typing import ClassVar

from sfumato.dataclass import dataclass
from sfumato.display.fields import Spelled
from sfumato.errors import ParameterError
from sfumato.exact import positive_int, round_up
from sfumato.exact.enclosures import Enclosure, LazyReal, is_less
from sfumato.noise.k_norm.cone import Cone, unit_roundoff
from sfumato.noise.k_norm.drawing import Approximation, Enclosed, Integers, Vectors, as_uniform, check_scales
from sfumato.noise.k_norm.radii import HALF, constant, gamma, log_of
from sfumato.noise.k_norm.streams import Streams
from sfumato.noise.words import Words, source_of


@dataclass(frozen=True, repr=False)
class CentredNoise(Spelled):
    """K-norm noise on counts of public groups: half of that of all units, and that of a cube about it.

    Each group's number is X + Y U: X a Laplace number and Y a Gamma number of shape groups + 1, which all
    groups share, and U uniform in [-1, 1], its own.

    Args:
        scales: one number: what 1 is worth in grid steps, over epsilon.
        groups: how many.
        total: the part of epsilon for all units, above 0 and at most 1/2.

    >>> from sfumato.noise import SeededWords
    >>> CentredNoise((Fraction(1000),), groups=4, total=Fraction(1, 4)).rounded(SeededWords(1))
    array([[-4526, -1256, -1898, -1781]])

    Source:
        Hardt and Talwar 2010, "On the geometry of differential privacy", for the cube. Proof:
        docs/proofs/k_norm.md, "All units, and a cube".
    """

    scales: tuple[Fraction, ...]
    groups: int
    total: Fraction
    cone: ClassVar[Cone] = Cone(0)

    def __post_init__(self) -> None:
        if not 0 < self.total <= HALF:
            raise ParameterError("total", self.total, "above 0, and at most 1/2")
        positive_int(self.groups, "groups")
        # |X| and Y add up to at most a Gamma number of shape groups + 2, stretched by the larger factor.
        check_scales(self.scales, 1, self.groups + 2, reach=self.stretches[0])

    @property
    def stretches(self) -> tuple[Fraction, Fraction]:
        """What X and Y are stretched by at scale 1: one half, over their parts of epsilon."""
        return HALF / self.total, HALF / (1 - self.total)

    def rounded(self, words: Words | None = None) -> Integers:
        """Draw once, with infinite precision, rounded to the nearest integers.

        Args:
            words: source of random words; None for this thread's secure words.
        Returns:
            int64 of shape (1, groups).
        """
        source = source_of(words)
        streams = Streams(source)
        middle, radius = (
            scaled(x, s * self.scales[0])
            for x, s in zip(_shared(self.groups, streams), self.stretches, strict=True)
        )
        return CentredVectors(middle, radius).draw(self.groups, streams, source)


def _shared(groups: int, streams: Streams) -> tuple[LazyReal, LazyReal]:
    """Draw a Laplace number, and a Gamma number of shape groups + 1, of scale 1."""
    positive = is_less(constant(HALF), streams.at(1, 1).enclose)
    magnitude = log_of(streams.at(1, 0))

    def laplace(bits: int) -> Enclosure:
        return -magnitude(bits) if positive else magnitude(bits)

    return laplace, gamma(groups + 1, streams, 0)


def scaled(number: LazyReal, factor: Fraction) -> LazyReal:
    """Return a number times a rational one."""
    return cache(lambda bits: number(bits).times(factor))


@dataclass(frozen=True)
class CentredVectors(Vectors):
    """Numbers of groups about a middle, uniform within a radius, in grid steps."""

    middle: LazyReal
    radius: LazyReal
    width = dimensions = 1

    @cached_property
    def _floats(self) -> tuple[float, float, float]:
        """Middle and radius, and a bound of the error of what is made of them."""
        (middle, one), (radius, other) = (number(160).nearest() for number in (self.middle, self.radius))
        # A place is off by a roundoff and 2^-63, the product and the sum by one roundoff of theirs.
        rounding = (3 * Fraction(radius) + abs(Fraction(middle))) * Fraction(unit_roundoff)
        return middle, radius, round_up(one + other + rounding * Fraction(1.01))

    def approximate(self, words: Integers) -> Approximation:
        """Return numbers in floats."""
        middle, radius, margin = self._floats
        (place,) = as_uniform(words)
        return Approximation([place * radius + middle], [margin])

    def enclose(self, uniform: Sequence[Enclosure]) -> Enclosed:
        """Return one number in enclosures."""
        bits = uniform[0].bits
        place = uniform[0].times(2) - Enclosure.of(1, bits)
        return Enclosed([self.middle(bits) + self.radius(bits) * place])
