"""Numbers and shares in bins."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.noise.intervals import Interval
from sfumato.noise.values import Floats
from sfumato.query.aggregates import InBins, Weights
from sfumato.query.design import Design
from sfumato.query.estimates.counts import CountEstimate
from sfumato.query.estimates.estimate import Estimate
from sfumato.query.noisy.numbers import NoisyNumbers
from sfumato.query.schema import Kind
from sfumato.transformations import Grid, RowsInBins, UnitsInBins, WeightGrid, WeightsInBins

# Noise on a sum of weights has no more steps than 2^45, as long as weights have 2^4.
_NOISE_BITS, _FEWEST_BITS = 45, 4


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


def in_bins(
    design: Design, name: str, aggregate: InBins, weights: Weights | None = None
) -> tuple[Estimate, ...]:
    """Ask for numbers or shares in bins, also of a population; the same bins are counted once for both."""
    most = Fraction(1) if weights is None else weights.most
    names, outputs = _counted(design, aggregate, weights).names, aggregate.outputs(name)
    if aggregate.shares:
        least = float(most * min(Fraction(1), design.multiplier))
        pairs = zip(outputs, names, strict=True)
        return tuple(ShareEstimate(output, of, upper=1.0, least=least, bins=names) for output, of in pairs)
    return tuple(CountEstimate(o, of, whole=weights is None) for o, of in zip(outputs, names, strict=True))


def _counted(design: Design, aggregate: InBins, weights: Weights | None) -> RowsInBins:
    """Take the numbers in bins of a column."""
    once = aggregate.per == "unit"
    of = {s.label: s for s in design.statistics.values() if isinstance(s, RowsInBins)}
    label, rows = f"{aggregate.column}#{len(of) + 1}", 1 if once else design.rows
    exponent = Grid.for_noise(design.multiplier * rows).exponent
    made: RowsInBins
    if weights is None:
        make = UnitsInBins if once else RowsInBins
        made = make(label, aggregate.column, rows, aggregate.bins, min(design.whole_exponent, exponent))
    else:
        noise = design.multiplier * rows * weights.most
        grid = _weight_grid(design, weights, noise)
        # A unit that is scaled down needs finer steps than its weights.
        exponent = min(0, Grid.for_noise(noise).exponent - grid.exponent)
        made = WeightsInBins(
            label,
            aggregate.column,
            rows,
            aggregate.bins,
            exponent,
            weight=weights.column,
            weights=grid,
            once=once,
        )
    for one in of.values():
        if replace(made, label=one.label) == one:
            return one
    design.add(made)
    return made


def _weight_grid(design: Design, weights: Weights, noise: Fraction) -> WeightGrid:
    """Return the grid of weights: whole numbers stay whole, and beside much noise there are fewer steps."""
    whole = (
        design.schema[weights.column].kind in (Kind.INTEGER, Kind.BOOLEAN) and weights.most.denominator == 1
    )
    least = WeightGrid.up_to(weights.most, whole).exponent
    coarse = min(
        Grid.for_noise(noise, _NOISE_BITS).exponent, Grid.for_noise(weights.most, _FEWEST_BITS).exponent
    )
    grid = Grid(max(least, coarse))
    return WeightGrid(grid.exponent, grid.steps_at_least(weights.most))
