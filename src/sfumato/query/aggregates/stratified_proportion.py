"""The proportion in a stratified population, with its interval, from a sample of public design."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.errors import ColumnError, ParameterError
from sfumato.exact import Number, as_fraction
from sfumato.noise.law_tails import Floats
from sfumato.noise.noise_sums import Form, Interval
from sfumato.query.aggregates.aggregate import Aggregate, column_name
from sfumato.query.aggregates.estimate import Estimate
from sfumato.query.aggregates.histograms import MAX_BINS, InBins, value_counts
from sfumato.query.schema import IN_PLACE, Kind, Schema, format_name
from sfumato.transformations import Grid, YesInStrata
from sfumato.transformations.stratified_design import StratifiedDesign

if TYPE_CHECKING:
    from sfumato.measurements.stratified_survey import ProportionLimits
    from sfumato.noise.laws import RoundedNoise
    from sfumato.plan.noisy_statistics import NoisyNumbers
    from sfumato.plan.required_statistics import Design


# Behind the name that it is asked by: the standard error, and the ends of the confidence interval.
SUFFIXES = ("standard_error", "low", "high")


@dataclass(frozen=True, repr=False)
class Stratified(InBins):
    """A stratified proportion of yes, with its standard error and confidence interval.

    Args:
        answer: the column of answers.
        design: how many were asked in each stratum, and how many there are.
        confidence: of the interval.
    """

    answer: str = ""
    design: StratifiedDesign | None = None
    confidence: Fraction = Fraction(19, 20)

    @property
    def columns(self) -> tuple[str, ...]:
        """The column of strata and the column of answers."""
        return (self.column, self.answer)

    @property
    def of_groups(self) -> bool:
        """Whether a stratified proportion can be grouped: it cannot, as the design is of the whole table."""
        return False

    def of_columns(self, columns: Mapping[str, str]) -> Self:
        """Return a stratified proportion with its columns renamed."""
        return replace(self, column=columns[self.column], answer=columns[self.answer])

    def outputs(self, name: str) -> tuple[str, ...]:
        """Return the outputs of a stratified proportion: itself, its standard error and its interval."""
        return (name, *(f"{name}_{suffix}" for suffix in SUFFIXES))

    def drawn(self, name: str) -> tuple[str, ...]:
        """Return the ends of a stratified proportion's interval, with the proportion between them."""
        return (f"{name}_low", name, f"{name}_high")

    def check(self, name: str, schema: Schema) -> None:
        """Check that strata have their own type, and answers are truth values."""
        super().check(name, schema)
        found = schema[self.answer]
        if found.kind is not Kind.BOOLEAN:
            raise ColumnError(
                f"agg: {name} is a proportion of yes in column {self.answer!r}, which is "
                f"{found.type_name}; write which values are yes, such as {format_name(self.answer)} = "
                f"1, {IN_PLACE}"
            )

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return the answer and the strata of a stratified proportion."""
        answer, stratum = (written.get(column, column) for column in (self.answer, self.column))
        return f"proportion of {answer}, stratified by {stratum}, {self.bins.count} strata"

    def note(self, name: str) -> str | None:
        """Return that the sizes of strata are given, and not read from rows."""
        assert self.design is not None
        asked, population = sum(self.design.sample_sizes), sum(self.design.strat_sizes)
        return (
            f"{name}: the sizes of the sample ({asked:,} asked of {population:,}) are as given, "
            "not read from rows. Its interval covers the sample and the noise, its error bar only "
            "the noise."
        )

    def estimates(self, design: Design, name: str) -> tuple[Estimate, ...]:
        """Return the estimates of a stratified proportion, its standard error and its interval."""
        assert self.design is not None
        names, outputs = self._yes_in_strata(design).names, self.outputs(name)
        given: Any = {"strata": names, "design": self.design, "confidence": self.confidence}
        share, error, low, high = outputs
        return (
            ProportionEstimate(share, upper=1.0, **given),
            StandardErrorEstimate(error, **given),
            LimitEstimate(low, upper=1.0, **given),
            LimitEstimate(high, upper=1.0, upper_end=True, **given),
        )

    def _yes_in_strata(self, design: Design) -> YesInStrata:
        """Add the statistic of yes-counts by stratum, once for the same strata."""
        found = {s.label: s for s in design.statistics.values() if isinstance(s, YesInStrata)}
        for one in found.values():
            if (one.column, one.answer, one.bins) == (self.column, self.answer, self.bins):
                return one
        exponent = min(design.whole_exponent, Grid.for_noise(design.multiplier * design.rows).exponent)
        label = f"{self.answer} by {self.column}#{len(found) + 1}"
        made = YesInStrata(label, self.column, design.rows, self.bins, exponent, self.answer)
        design.add(made)
        return made


def stratified(
    column: str,
    stratum: object,
    asked: Mapping[Any, int] | None,
    population: Mapping[Any, int] | None,
    confidence: Number,
) -> Aggregate:
    """Return a stratified proportion, with its sizes of strata checked: see `proportion`.

    Raises:
        QueryError: a column is no name.
        ParameterError: sizes are not there for the same strata, or out of range.
    """
    for name, given in (("asked", asked), ("population", population)):
        if not isinstance(given, Mapping) or not given:
            what = "were asked in it" if name == "asked" else "there are in it"
            raise ParameterError(
                f"proportion: {name}", given, f"a mapping of each stratum to how many {what}: public numbers"
            )
    assert asked is not None and population is not None
    strata = sorted(population, key=repr)  # in whatever order they are given, they are the same
    if set(asked) != set(strata):
        expected = f"of the strata of population, {strata!r:.200}"
        raise ParameterError("proportion: asked", list(asked), expected)
    level = as_fraction(confidence, "proportion: confidence")
    if not 0 < level < 1:
        raise ParameterError("proportion: confidence", confidence, "greater than 0 and less than 1")
    if len(strata) > MAX_BINS:
        raise ParameterError("proportion: population", f"{len(strata):,} strata", f"at most {MAX_BINS:,}")
    places: Any = value_counts(column_name("proportion: stratum", stratum), strata)
    sizes = [asked[s] for s in strata], [population[s] for s in strata]
    design = StratifiedDesign(*sizes, "proportion", names=tuple(strata), called=("asked", "population"))
    answer = column_name("proportion", column)
    return Stratified(places.column, places.bins, places.suffixes, "row", False, answer, design, level)


@dataclass(frozen=True)
class StratifiedEstimate(Estimate):
    """Base class of estimates from noisy yes-counts of strata.

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
        """The noisy yes-counts of all strata."""
        return self.strata

    @property
    def has_standard_error(self) -> bool:
        """Whether there is a standard error of noise alone: an output has that of sample and noise."""
        return False

    @property
    def weights(self) -> dict[str, float]:
        """How much a yes in each stratum adds to the proportion."""
        return {name: float(step) for name, step in zip(self.strata, self.design.steps, strict=True)}

    @property
    def factors(self) -> dict[str, float]:
        """How much noise in each stratum adds to the error of the proportion and its interval."""
        mean = math.hypot(*self.weights.values()) / math.sqrt(len(self.strata))
        return dict.fromkeys(self.strata, mean)

    def mean(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy stratified proportion, which noise may move out of [0, 1]."""
        return np.asarray(sum(w * numbers.values[n] for n, w in self.weights.items()))

    def mean_interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return the interval of the stratified proportion without noise."""
        found = numbers.noises.interval(numbers.values, Form(self.weights), failure)
        return found.clipped(0.0, 1.0)

    def noise(self, numbers: NoisyNumbers) -> RoundedNoise:
        """Return the noise law of the yes-count of each stratum, or a wider one."""
        law = max((numbers.laws[name] for name in self.strata), key=lambda law: law.unit)
        from sfumato.noise.laws import RoundedNoise

        return RoundedNoise(law, float(numbers.steps[self.strata[0]]))


@dataclass(frozen=True)
class ProportionEstimate(StratifiedEstimate):
    """The estimate of a stratified proportion."""

    kind = "proportion"

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy stratified proportion, from 0 to 1."""
        return np.clip(self.mean(numbers), 0.0, 1.0)

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return the interval of the stratified proportion without noise."""
        return self.mean_interval(numbers, failure)


@dataclass(frozen=True)
class StandardErrorEstimate(StratifiedEstimate):
    """The estimate of a stratified proportion's standard error, by sample and noise."""

    kind = "standard error"

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the standard error of the stratified proportion."""
        counts = np.stack([numbers.values[name] for name in self.strata], axis=1).tolist()
        return np.array([self._estimated(own, numbers) for own in counts])

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return the interval of the standard error, from those of the counts of strata."""
        failure /= len(self.strata)
        forms = (Form({n: 1.0 / size}) for n, size in zip(self.strata, self.design.sample_sizes, strict=True))
        return self.interval_from_shares(
            [numbers.noises.interval(numbers.values, f, failure) for f in forms], numbers
        )

    def interval_from_shares(self, shares: Sequence[Interval], numbers: NoisyNumbers) -> Interval:
        """Return the interval of the standard error, given intervals of the share of yes in each stratum."""
        least, most = np.zeros(()), np.zeros(())
        for own, weight in zip(shares, self.design.variance_weights, strict=True):
            low, high = (np.clip(end, 0.0, 1.0) for end in (own.low, own.high))
            nearest = np.clip(0.5, low, high)  # p (1 - p) is largest at 1/2
            least = least + float(weight) * np.minimum(low * (1 - low), high * (1 - high))
            most = most + float(weight) * (nearest * (1 - nearest))
        noise = self.noise(numbers).variance * float(sum(step**2 for step in self.design.steps))
        return Interval(np.sqrt(least + noise), np.sqrt(most + noise))

    def _estimated(self, counts: Sequence[float], numbers: NoisyNumbers) -> float:
        sizes = self.design.sample_sizes, self.design.strat_sizes
        from sfumato.measurements.stratified_survey import stratified_estimate

        return math.sqrt(stratified_estimate(counts, *sizes, self.noise(numbers).variance)[1])


@dataclass(frozen=True)
class LimitEstimate(StratifiedEstimate):
    """The estimate of an end of a stratified proportion's interval; the upper one with `upper_end`.

    It grows with the estimated proportion, and depends on nothing else.
    """

    kind = "confidence limit"

    upper_end: bool = False

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the end of the stratified proportion's interval."""
        return self.end(self.mean(numbers), numbers)

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return the interval of that end, given the proportion without noise."""
        return self.mean_interval(numbers, failure).map(lambda mean: self.end(mean, numbers))

    def end(self, means: Floats, numbers: NoisyNumbers) -> Floats:
        """Return the end of the interval for a value of the stratified proportion."""
        limits = _limits(self.design, self.noise(numbers))
        return limits.limits(means, self.confidence)[self.upper_end]


@lru_cache(16)
def _limits(design: StratifiedDesign, noise: RoundedNoise) -> ProportionLimits:
    from sfumato.measurements.stratified_survey import ProportionLimits

    return ProportionLimits(design, noise)
