"""The body of numbers that share one limit: the rows of a unit, each in one of several bins."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sfumato.dataclass import dataclass
from sfumato.display.fields import Spelled
from sfumato.framework import Body, Norm


@dataclass(frozen=True, repr=False)
class SimplexBody(Spelled, Body):
    """Numbers that are not negative and come to at most `most` together.

    Its size does not grow with the number of coordinates: a vector of it is a mean of vectors with all of
    `most` in one coordinate, or in none, and the size of a mean is at most the largest size.

    Args:
        coordinates: their names.
        most: what they come to at most.

    >>> body = SimplexBody(("young", "old"), Fraction(3))
    >>> body.size(Norm.L1, [Fraction(2), Fraction(6)]), body.size(Norm.L2, [Fraction(2), Fraction(6)])
    (Fraction(3, 2), Fraction(9, 4))

    Proof: docs/proofs/rows_in_bins.md.
    """

    coordinates: tuple[str, ...]
    most: Fraction
    # How far one of them moves depends on the others.
    spread = True

    @property
    def names(self) -> tuple[str, ...]:
        """The coordinates."""
        return self.coordinates

    @property
    def linf_sensitivities(self) -> tuple[Fraction, ...]:
        """All in one coordinate."""
        return (self.most,) * len(self.coordinates)

    def size(self, norm: Norm, scales: Sequence[Fraction]) -> Fraction:
        """Return that of all in the coordinate with the smallest scale."""
        ratio = self.most / min(scales)
        return ratio if norm is Norm.L1 else ratio**2

    def split(self, norm: Norm) -> tuple[Fraction, ...]:
        """The same noise on each."""
        return self.linf_sensitivities
