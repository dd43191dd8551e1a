"""Totals and means of a population, of noisy sums of weights and of values times weights."""

from __future__ import annotations

from fractions import Fraction

from sfumato.query.aggregates import CountRows, InBins, Mean, Weighted
from sfumato.query.design import Design
from sfumato.query.estimates.bins import in_bins
from sfumato.query.estimates.counts import CountEstimate, SumEstimate
from sfumato.query.estimates.estimate import Estimate
from sfumato.query.estimates.means import MeanEstimate


def weighted(design: Design, name: str, aggregate: Weighted) -> tuple[Estimate, ...]:
    """Ask for the number, the total, the mean or the histogram of a population."""
    if isinstance(aggregate.of, InBins):
        return in_bins(design, name, aggregate.of, aggregate.weights)
    made = design.weighted(aggregate)
    of, count = aggregate.of, made.names[0]
    if isinstance(of, CountRows):
        return (CountEstimate(name, count),)
    total, grid = made.names[1], made.grid
    assert grid is not None
    centre = float(grid.centre * grid.step)
    if not isinstance(of, Mean):
        return (SumEstimate(name, count, total=total, centre=centre),)
    # Like one row of a mean without weights, or less, where there is less noise.
    least = float(aggregate.weights.most * min(Fraction(1), design.multiplier))
    bounds = float(of.lower), float(of.upper)
    return (
        MeanEstimate(name, count, total=total, centre=centre, lower=bounds[0], upper=bounds[1], least=least),
    )
