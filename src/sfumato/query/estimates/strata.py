"""The proportion of a stratified population, its standard error, and the ends of its confidence interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.noise.intervals import Interval
from sfumato.noise.values import Floats
from sfumato.query.aggregates import Stratified
from sfumato.query.design import Design
from sfumato.query.estimates.estimate import Estimate, linear_interval
from sfumato.query.noisy.numbers import NoisyNumbers
from sfumato.transformations import Grid, YesInStrata
from sfumato.transformations.stratified import StratifiedDesign

if TYPE_CHECKING:
    from sfumato.measurements.stratified.interval import ProportionLimits
    from sfumato.noise.rounded import RoundedNoise


@dataclass(frozen=True)
class StratifiedEstimate(Estimate):
    """What is estimated of noisy yes-counts of strata.

    Args:
        strata: the coordinates of the counts.
        design: how many were asked in each stratum, and how many there are.
        confidence: of the interval.
    """

    strata: tuple[str, ...] = ()
    design: StratifiedDesign = field(kw_only=True)
    confidence: Fraction = Fraction(19, 20)

    @property
    def coordinates(self) -> tuple[str, ...]:
        """All strata."""
        return self.strata

    @property
    def weights(self) -> dict[str, float]:
        """What one yes in each stratum adds to the proportion."""
        return {name: float(step) for name, step in zip(self.strata, self.design.steps, strict=True)}

    @property
    def factors(self) -> dict[str, float]:
        """What moves the proportion moves its interval: on average, as all strata have the same noise."""
        mean = math.hypot(*self.weights.values()) / math.sqrt(len(self.strata))
        return dict.fromkeys(self.strata, mean)

    def mean(self, numbers: NoisyNumbers) -> Floats:
        """Return the estimated proportion, which noise may move out of [0, 1]."""
        return np.asarray(sum(w * numbers.values[n] for n, w in self.weights.items()))

    def of_mean(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return where it is without noise."""
        return linear_interval(numbers, self.weights, failure).map(lambda x: np.clip(x, 0.0, 1.0))

    def noise(self, numbers: NoisyNumbers) -> RoundedNoise:
        """Return the noise on each count: the same for all strata, or else no less."""
        law = max((numbers.laws[name] for name in self.strata), key=lambda law: law.unit)
        from sfumato.noise.rounded import RoundedNoise

        return RoundedNoise(law, float(numbers.steps[self.strata[0]]))


@dataclass(frozen=True)
class ProportionEstimate(StratifiedEstimate):
    """The proportion."""

    kind = "proportion"

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the proportion, from 0 to 1."""
        return np.clip(self.mean(numbers), 0.0, 1.0)

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return where it is without noise."""
        return self.of_mean(numbers, failure)


@dataclass(frozen=True)
class StandardErrorEstimate(StratifiedEstimate):
    """The root of the estimated variance: of the sample and of the noise."""

    kind = "standard error"

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return it, of each group."""
        counts = np.stack([numbers.values[name] for name in self.strata], axis=1).tolist()
        return np.array([self._of(own, numbers) for own in counts])

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return between which it is, of the counts without noise beside the same noise on the mean."""
        least, most = np.zeros(1), np.zeros(1)
        sizes = zip(self.strata, self.design.sample_sizes, self.design.variance_weights, strict=True)
        for name, n, weight in sizes:
            own = linear_interval(numbers, {name: 1.0 / n}, failure / len(self.strata))
            low, high = (np.clip(end, 0.0, 1.0) for end in (own.low, own.high))
            nearest = np.clip(0.5, low, high)  # p (1 - p) is largest at 1/2
            least = least + float(weight) * np.minimum(low * (1 - low), high * (1 - high))
            most = most + float(weight) * nearest * (1 - nearest)
        noise = self.noise(numbers).variance * float(sum(step**2 for step in self.design.steps))
        return Interval(np.sqrt(least + noise), np.sqrt(most + noise))

    def _of(self, counts: Sequence[float], numbers: NoisyNumbers) -> float:
        sizes = self.design.sample_sizes, self.design.strat_sizes
        from sfumato.measurements.stratified.estimate import stratified_estimate

        return math.sqrt(stratified_estimate(counts, *sizes, self.noise(numbers).variance)[1])


@dataclass(frozen=True)
class LimitEstimate(StratifiedEstimate):
    """An end of the confidence interval: the lower one, or with `upper_end` the other.

    It grows with the estimated proportion, and depends on nothing else.
    """

    kind = "confidence limit"

    upper_end: bool = False

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the end."""
        return self._end(self.mean(numbers), numbers)

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return where it would be if the estimated proportion were the one without noise."""
        return self.of_mean(numbers, failure).map(lambda mean: self._end(mean, numbers))

    def _end(self, means: Floats, numbers: NoisyNumbers) -> Floats:
        limits = _limits(self.design, self.noise(numbers))
        return limits.limits(means, self.confidence)[self.upper_end]


@lru_cache(16)
def _limits(design: StratifiedDesign, noise: RoundedNoise) -> ProportionLimits:
    from sfumato.measurements.stratified.interval import ProportionLimits

    return ProportionLimits(design, noise)


def proportions(design: Design, name: str, aggregate: Stratified) -> tuple[Estimate, ...]:
    """Ask for the proportion of a stratified population, and what is left open of it."""
    assert aggregate.design is not None
    names, outputs = _counted(design, aggregate).names, aggregate.outputs(name)
    given: Any = {"strata": names, "design": aggregate.design, "confidence": aggregate.confidence}
    share, error, low, high = outputs
    return (
        ProportionEstimate(share, upper=1.0, **given),
        StandardErrorEstimate(error, **given),
        LimitEstimate(low, upper=1.0, **given),
        LimitEstimate(high, upper=1.0, upper_end=True, **given),
    )


def _counted(design: Design, aggregate: Stratified) -> YesInStrata:
    """Take the yes-counts of strata, once for the same strata."""
    found = {s.label: s for s in design.statistics.values() if isinstance(s, YesInStrata)}
    for one in found.values():
        if (one.column, one.answer, one.bins) == (aggregate.column, aggregate.answer, aggregate.bins):
            return one
    exponent = min(design.whole_exponent, Grid.for_noise(design.multiplier * design.rows).exponent)
    label = f"{aggregate.answer} by {aggregate.column}#{len(found) + 1}"
    made = YesInStrata(label, aggregate.column, design.rows, aggregate.bins, exponent, aggregate.answer)
    design.add(made)
    return made
