"""Noisy statistics of a batch of groups: all that outputs and error bars are computed from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.measurements.independent_noise import Law
from sfumato.measurements.int128_array import arrow_column
from sfumato.noise.law_tails import Floats
from sfumato.noise.laws import Gaussian
from sfumato.noise.level_noise import LevelsGaussian
from sfumato.noise.level_tolerances import LevelNoises
from sfumato.noise.noise_sums import Noises, laplaces_tolerance
from sfumato.plan.quantile_candidates import Places
from sfumato.query.group_totals import Totals

if TYPE_CHECKING:
    from sfumato.plan.group_measurement import GroupMeasurement


@dataclass(frozen=True)
class NoisyTree:
    """The noisy statistics of a quantile tree: quantiles at the requested ranks, and their bounds.

    For every hundredth, the walk to it ends in a node: in a leaf, or in a larger node below which nothing
    was found. Where in it the rows are, no count tells.

    Args:
        ranks: the asked ranks.
        values: shape (groups, ranks): quantiles as shares of the range.
        low, high: shape (groups, 101): the ends of these nodes, as shares of the range, rising.
        below, upto: shape (groups, 101): noisy numbers of rows left of each end, in grid steps: sums of
            counts as they came, also negative ones, so that their errors are sums of noises.
        total: shape (groups,): noisy number of all rows, likewise.
    """

    ranks: tuple[float, ...]
    values: Floats
    low: Floats
    high: Floats
    below: Floats
    upto: Floats
    total: Floats


@dataclass(frozen=True)
class NoisyCdf:
    """The noisy cumulative counts of a value tree: those of all its values, by least squares.

    Args:
        upto: shape (groups, values): noisy numbers of rows up to each value, in grid steps.
    """

    upto: Floats


@dataclass(frozen=True)
class Cumulated:
    """Noisy cumulative totals of time steps.

    Args:
        values: by coordinate, float64 of shape (groups,), in the units of the statistics.
        scales: by coordinate, the scale of the noise in grid steps.
        deviations: of each group's total, over the scale.
        off: how far each is off a sum of unrounded noises at most, before it is rounded to a whole step.
        largest: where totals are sums of Laplace noises, the largest scale among them, over the scale; None
            where they are Gaussian.
    """

    values: Mapping[str, Floats]
    scales: Mapping[str, float]
    deviations: Floats
    off: Floats
    largest: Floats | None = None

    def reach(self, sizes: Mapping[str, float], k: float) -> Floats:
        """Return the tolerance t of noisy cumulative totals: P(|weighted sum| > t) <= 10^-k.

        Args:
            sizes: by coordinate, the weight of its total.
            k: greater than 0.
        """
        deviations = self.deviation(sizes)
        if self.largest is None:
            return Gaussian(1).tolerance(k) * deviations
        widest = max(size * self.scales[n] for n, size in sizes.items())
        return laplaces_tolerance(k, deviations, widest * self.largest)

    def deviation(self, sizes: Mapping[str, float]) -> Floats:
        """Return the standard deviation of each weighted sum of noisy cumulative totals, before rounding."""
        return math.hypot(*(size * self.scales[n] for n, size in sizes.items())) * self.deviations


@dataclass(frozen=True)
class Levelled:
    """Noisy statistics of groups and of their totals, level by level.

    Args:
        totals: which there are.
        noises: of all that is shown.
        cells: the numbers of groups, without totals.
        keys: of the groups.
        values: by coordinate, those of each level, shown or not.
    """

    totals: Totals
    noises: LevelNoises
    cells: NoisyNumbers
    keys: pa.RecordBatch
    values: Mapping[str, list[Floats]]


@dataclass(frozen=True, repr=False)
class NoisyNumbers(Spelled):
    """The noisy statistics of a batch of groups, in the units of the statistics.

    Args:
        values: by coordinate, float64 of shape (groups,), or (groups, entries) where it is a vector.
        trees: by coordinate of a tree, a `NoisyTree` or a `NoisyCdf`.
        laws: by coordinate, the law of the noise in grid steps.
        steps: by coordinate, the grid step.
        chosen: by coordinate of counts, the places that were chosen from them.
        totals: of time steps, all up to each; None where none are asked.
        levels: of groups and their totals; None where none are asked.
        noise: that was drawn, of all coordinates; None where nothing was.
    """

    values: Mapping[str, Floats]
    trees: Mapping[str, Any]
    laws: Mapping[str, Law]
    steps: Mapping[str, Fraction]
    chosen: Mapping[str, Places] = field(default_factory=dict)
    totals: Cumulated | None = None
    levels: Levelled | None = None
    noise: Any = None

    @property
    def cumulated(self) -> Cumulated:
        """The noisy cumulative totals, for a query that has them."""
        assert self.totals is not None
        return self.totals

    def row(self, index: int) -> NoisyNumbers | None:
        """Return the noisy statistics of one group; None with trees, chosen places or totals."""
        if self.trees or self.chosen or self.totals is not None or self.levels is not None:
            return None
        return replace(self, values={n: v[index : index + 1] for n, v in self.values.items()})

    @property
    def noises(self) -> Noises:
        """The noise in the noisy statistics, for intervals."""
        if self.levels is not None:
            return self.levels.noises
        return Noises(self.noise, {n: float(s) for n, s in self.steps.items()})


class NoisyBatch:
    """What the group measurement gives: the keys and the noisy statistics of a batch of groups."""

    def __init__(self, measurement: GroupMeasurement, keys: pa.RecordBatch, numbers: NoisyNumbers) -> None:
        self.measurement = measurement
        self.keys = keys
        self.numbers = numbers

    @property
    def kept(self) -> tuple[Any, ...]:
        """The noisy statistics of the batch as plain data, as `from_state` takes them."""
        numbers, levels = self.numbers, self.numbers.levels
        if levels is not None:
            return levels.keys, dict(levels.values), {}, {}, None
        return self.keys, dict(numbers.values), dict(numbers.trees), dict(numbers.chosen), numbers.totals

    @classmethod
    def from_state(cls, measurement: GroupMeasurement, state: tuple[Any, ...]) -> NoisyBatch:
        """Return the measured batch whose `state` this is.

        Args:
            measurement: of the plan.
            state: the keys, the noisy statistics by coordinate, trees, chosen places and cumulative totals.
        """
        keys, values, trees, chosen, totals = state
        noise, laws, steps = measurement.noise, measurement.laws, measurement.steps
        if isinstance(noise, LevelsGaussian) and keys.num_rows:
            assert measurement.totals is not None
            own = measurement.totals.for_keys(keys.columns)
            return cls.from_levels(measurement, own, replace(noise, rollup=own.rollup), keys, values)
        numbers = NoisyNumbers(values, trees, laws, steps, chosen, totals, noise=noise)
        return cls(measurement, keys, numbers)

    @classmethod
    def from_levels(
        cls,
        measurement: GroupMeasurement,
        totals: Totals,
        noise: LevelsGaussian,
        keys: pa.RecordBatch,
        levels: dict[str, list[Floats]],
    ) -> NoisyBatch:
        """Return the batch of groups and totals for the noisy statistics of all levels."""
        shown = {name: totals.placed(own) for name, own in levels.items()}
        off = {name: totals.placed(noise.off(c)) for c, name in enumerate(measurement.names)}
        scales = {n: float(s) * (1 + 2.0**-50) for n, s in zip(measurement.names, noise.scales, strict=True)}
        floats = {n: float(s) for n, s in measurement.steps.items()}
        noises = LevelNoises(noise, floats, scales, totals.placed(noise.deviations), off)
        of_cells = NoisyNumbers(
            {n: own[0] for n, own in levels.items()}, {}, measurement.laws, measurement.steps
        )
        cells = replace(of_cells, levels=Levelled(totals, noises, of_cells, keys, levels))
        numbers = replace(of_cells, values=shown, levels=Levelled(totals, noises, cells, keys, levels))
        return cls(measurement, totals.keys(keys.columns, measurement.keys), numbers)

    def outputs(self, confidence: float | None = None, among: int = 1) -> pa.RecordBatch:
        """Return the keys of the batch and its outputs, with error bars if a confidence is given.

        Args:
            confidence, among: as of `half_widths`.
        """
        return self.with_error_bars({} if confidence is None else self._half_widths(confidence, among))

    def with_error_bars(self, found: Mapping[str, pa.Array], suffix: str = "_error") -> pa.RecordBatch:
        """Return the keys and outputs of the noisy batch, and error bars behind those that have one.

        Args:
            found: the error bars by output.
            suffix: of the names of their columns.
        """
        estimates = self.measurement.requirements.estimates
        columns: dict[str, pa.Array] = {}
        for estimate in estimates:
            columns[estimate.name] = estimate.output(self.numbers)
            if estimate.name in found:
                columns[f"{estimate.name}{suffix}"] = found[estimate.name]
        return self.with_keys(columns)

    def half_widths(self, confidence: float, among: int = 1) -> pa.RecordBatch:
        """Return the keys of the noisy batch and the half-width of each output's error bar.

        Args:
            confidence: in (0, 1), that all of so many bars hold.
            among: how many.
        """
        return self.with_keys(self._half_widths(confidence, among))

    def _half_widths(self, confidence: float, among: int) -> dict[str, pa.Array]:
        estimates = self.measurement.requirements.estimates
        return {e.name: arrow_column(e.half_width(self.numbers, confidence, among)) for e in estimates}

    def with_keys(self, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """Return columns behind the keys of the noisy batch."""
        return pa.RecordBatch.from_arrays(
            [*self.keys.columns, *columns.values()], names=[*self.keys.schema.names, *columns]
        )
