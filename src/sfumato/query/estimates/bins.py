"""Numbers and shares in bins."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.noise.intervals import Interval
from sfumato.noise.values import Floats
from sfumato.query.aggregates import InBins
from sfumato.query.design import Design
from sfumato.query.estimates.counts import CountEstimate
from sfumato.query.estimates.estimate import Estimate
from sfumato.query.numbers import NoisyNumbers
from sfumato.transformations import Grid, RowsInBins, UnitsInBins


@dataclass(frozen=True)
class ShareEstimate(Estimate):
    """A part of all that is in bins: a noisy number over the sum of the noisy numbers.

    Args:
        bins: the coordinates of all bins.
    """

    kind = "share"

    bins: tuple[str, ...] = ()

    @property
    def coordinates(self) -> tuple[str, ...]:
        """All bins."""
        return self.bins

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the share, from 0 to 1."""
        assert self.count is not None
        total = np.sum([numbers.values[name] for name in self.bins], axis=0)
        share: Floats = np.clip(numbers.values[self.count] / np.maximum(total, self.least), 0.0, 1.0)
        return share

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return Fieller's interval: a bin's own noise is in the sum too."""
        assert self.count is not None
        whole = dict.fromkeys(self.bins, 1.0)
        return numbers.noises.ratio(numbers.values, {self.count: 1.0}, whole, (0.0, 1.0), failure)


def in_bins(design: Design, name: str, aggregate: InBins) -> tuple[Estimate, ...]:
    """Ask for numbers or shares in bins; the same bins are counted once for both."""
    names, outputs = _counted(design, aggregate).names, aggregate.outputs(name)
    if aggregate.shares:
        least = float(min(Fraction(1), design.multiplier))
        pairs = zip(outputs, names, strict=True)
        return tuple(ShareEstimate(output, of, upper=1.0, least=least, bins=names) for output, of in pairs)
    return tuple(CountEstimate(o, of, whole=True) for o, of in zip(outputs, names, strict=True))


def _counted(design: Design, aggregate: InBins) -> RowsInBins:
    """Take the numbers in bins of a column."""
    make, rows = (UnitsInBins, 1) if aggregate.per == "unit" else (RowsInBins, design.rows)
    found = {s.label: s for s in design.statistics.values() if isinstance(s, RowsInBins)}
    for one in found.values():
        if (type(one), one.column, one.bins) == (make, aggregate.column, aggregate.bins):
            return one
    exponent = min(design.whole_exponent, Grid.for_noise(design.multiplier * rows).exponent)
    made = make(f"{aggregate.column}#{len(found) + 1}", aggregate.column, rows, aggregate.bins, exponent)
    design.add(made)
    return made
