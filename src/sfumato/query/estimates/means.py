"""Means, variances and standard deviations: ratios of noisy numbers."""

from __future__ import annotations

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.noise.intervals import Interval
from sfumato.noise.values import Floats
from sfumato.query.aggregates import Mean, StandardDeviation, Variance
from sfumato.query.design import Design, block_of
from sfumato.query.estimates.cross import count as cross_count
from sfumato.query.estimates.cross import term as cross_term
from sfumato.query.estimates.estimate import Estimate
from sfumato.query.noisy.numbers import NoisyNumbers
from sfumato.transformations import CrossMoments, Role


@dataclass(frozen=True)
class MeanEstimate(Estimate):
    """A mean: the noisy sum over the noisy count, or over the least count where that is less."""

    kind = "mean"

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the mean, within the bounds."""
        assert self.total is not None
        mean = numbers.values[self.total] / np.maximum(self.counted(numbers), self.least)
        return np.clip(mean + self.centre, self.lower, self.upper)

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return Fieller's interval, within the bounds."""
        assert self.total is not None
        within = self.lower - self.centre, self.upper - self.centre
        mean = numbers.noises.ratio(numbers.values, {self.total: 1.0}, self.signs, within, failure)
        return mean.map(lambda x: x + self.centre)


@dataclass(frozen=True)
class VarianceEstimate(Estimate):
    """A variance: the noisy mean of squares less the square of the noisy mean."""

    kind = "variance"

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the variance, from 0 to its largest possible value."""
        assert self.total is not None and self.squares is not None
        count = np.maximum(self.counted(numbers), 1.0)
        mean = numbers.values[self.total] / count
        return self.of_variance(numbers.values[self.squares] / count + self.square_centre - mean**2)

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return what intervals of the mean and of the mean square leave."""
        assert self.total is not None and self.squares is not None
        # Mean and mean square lie in their intervals together but with half the failure of each.
        noises, values = numbers.noises, numbers.values
        within = -self.half_range, self.half_range
        mean = noises.ratio(values, {self.total: 1.0}, self.signs, within, failure / 2)
        within = -self.square_centre, self.half_range**2 - self.square_centre
        square = noises.ratio(values, {self.squares: 1.0}, self.signs, within, failure / 2)
        return (square.map(lambda x: x + self.square_centre) - mean.squared()).map(self.of_variance)

    @property
    def sum_of_squares(self) -> dict[str, float]:
        """The weights of noisy numbers of which the sum of squares, of values themselves, is the sum."""
        assert self.total is not None and self.squares is not None
        each = self.square_centre + self.centre**2
        weights = {self.squares: 1.0, self.total: 2 * self.centre}
        return weights | {n: sign * each for n, sign in self.signs.items()}

    def of_variance(self, variance: Floats) -> Floats:
        """Return what is shown of a variance."""
        return np.clip(variance, 0.0, self.upper)


@dataclass(frozen=True)
class StandardDeviationEstimate(VarianceEstimate):
    """The root of a variance."""

    kind = "stddev"

    def of_variance(self, variance: Floats) -> Floats:
        """Return the root."""
        return np.asarray(np.sqrt(np.clip(variance, 0.0, self.upper**2)))


def means(design: Design, name: str, aggregate: Mean) -> tuple[Estimate, ...]:
    """Ask for a mean, of the sum that is asked beside where columns are asked together."""
    if (found := _beside(design, aggregate)) is not None:
        cross, place = found
        term = cross_term(cross, place)
        bounds = float(aggregate.lower), float(aggregate.upper)
        rows = cross_count(design, cross)
        return (MeanEstimate(name, rows, None, term.total, None, term.centre, 0.0, *bounds),)
    moments = design.moments(block_of(aggregate))
    count, null_count = design.counted(aggregate.column)
    return (
        MeanEstimate(
            name,
            count,
            null_count,
            moments.names[0],
            centre=float(moments.grid.centre * moments.grid.step),
            lower=float(aggregate.lower),
            upper=float(aggregate.upper),
        ),
    )


def variances(design: Design, name: str, aggregate: Variance | StandardDeviation) -> tuple[Estimate, ...]:
    """Ask for a variance or its root, of what is asked beside as a mean is."""
    width = float(aggregate.upper) - float(aggregate.lower)
    make, top = (
        (VarianceEstimate, width * width / 4)
        if isinstance(aggregate, Variance)
        else (StandardDeviationEstimate, width / 2)
    )
    if (found := _beside(design, aggregate)) is not None:
        cross, place = found
        term = cross_term(cross, place)
        return (
            make(
                name,
                cross_count(design, cross),
                total=term.total,
                squares=cross.product_name(place, place),
                centre=term.centre,
                square_centre=term.square_centre,
                upper=top,
                half_range=term.half_range,
            ),
        )
    moments = design.moments(block_of(aggregate))
    count, null_count = design.counted(aggregate.column)
    return (
        make(
            name,
            count,
            null_count,
            moments.names[0],
            next(c.name for c in moments.coordinates if c.role is Role.SQUARES),
            centre=float(moments.grid.centre * moments.grid.step),
            square_centre=float(moments.square_centre * moments.square_step),
            upper=top,
            half_range=float(moments.half_range * moments.grid.step),
        ),
    )


def _beside(
    design: Design, aggregate: Mean | Variance | StandardDeviation
) -> tuple[CrossMoments, int] | None:
    """Return the column among those that are asked together, over the same rows within the same bounds."""
    cross = design.cross(design.lacking([aggregate.column]))
    labels = [] if cross is None else [axis.label for axis in cross.axes]
    label = design.label(block_of(aggregate))
    return None if cross is None or label not in labels else (cross, labels.index(label))
