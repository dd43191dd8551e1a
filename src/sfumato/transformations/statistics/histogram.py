"""Counts of values at places, of which a unit's rows are each at one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from sfumato.dataclass import dataclass
from sfumato.display.fields import Spelled
from sfumato.exact import root_up
from sfumato.framework import WHOLE, Body, Norm
from sfumato.transformations.grid import scaled_down


@dataclass(frozen=True, repr=False)
class HistogramBody(Spelled, Body):
    """Counts at places, on one or several levels: on each they come to at most `rows` steps.

    Args:
        name: of the coordinate, which stands for all places.
        rows: the limit of rows, in steps.
        levels: how often each row is counted, once on each.
    """

    name: str
    rows: Fraction
    levels: int = 1
    spread = True

    @property
    def names(self) -> tuple[str, ...]:
        """The one name."""
        return (self.name,)

    @property
    def linf_sensitivities(self) -> tuple[Fraction, ...]:
        """All rows at one place."""
        return (self.rows,)

    def size(self, norm: Norm, scales: Sequence[Fraction]) -> Fraction:
        """Return levels * rows/scale; for L2 its square is largest where all rows share one place on each."""
        ratio = self.rows / scales[0]
        return self.levels * (ratio if norm is Norm.L1 else ratio**2)

    def split(self, norm: Norm) -> tuple[Fraction, ...]:
        """The sensitivity over all levels."""
        return (self.rows * (self.levels if norm is Norm.L1 else root_up(Fraction(self.levels))),)


def scaled_counts(
    places: Sequence[int | None], limit: int, exponent: int, weight: int = WHOLE
) -> Counter[int]:
    """Return what a unit adds at each place: limit/n for each of its n rows, at most 1, cut to the grid.

    Args:
        places: of all its rows; None where a row has no value, which counts among the n alone.
        limit: the limit of rows.
        exponent: log2 of the step in which rows are counted, at most 0.
        weight: how much of the unit counts.

    >>> scaled_counts([3, 3, 5, None], limit=2, exponent=-3)
    Counter({3: 8, 5: 4})
    """
    counts = Counter(place for place in places if place is not None)
    return Counter(
        {place: scaled_down(n << -exponent, len(places), limit, weight) for place, n in counts.items()}
    )
