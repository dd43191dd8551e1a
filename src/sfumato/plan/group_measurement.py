"""The measurement of a plan: exact statistics to noisy ones, the same on one machine and on many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.budget import Loss
from sfumato.budget.calibration import ROOM
from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.errors import EngineError, ParameterError
from sfumato.exact.library_settings import isolated
from sfumato.framework import (
    CentredDistance,
    KNormDistance,
    LevelsDistance,
    SeriesDistance,
    TimeStepsDistance,
    TreeDistance,
)
from sfumato.framework.group_metrics import levels_moved, series_moved, tree_moved
from sfumato.measurements.correlated_noise import K_NORM, KNormNoise, centred_moved, k_norm_loss
from sfumato.measurements.group_selection import (
    GaussianThreshold,
    GroupSelection,
    KNormThreshold,
    LaplaceThreshold,
)
from sfumato.measurements.independent_noise import NOISES, IndependentNoise, Law, NoiseKind
from sfumato.measurements.int128_array import Int128Array, arrow_column, int64_values
from sfumato.noise import Words
from sfumato.noise.centred_noise import CentredGaussian
from sfumato.noise.k_norm import JointNoise, SeparateNoise
from sfumato.noise.k_norm.joint_marginals import marginals
from sfumato.noise.level_noise import LevelsGaussian
from sfumato.noise.series_noise import FINE, SeriesGaussian, TreeLaplace
from sfumato.plan.noisy_statistics import Cumulated, NoisyBatch, NoisyNumbers
from sfumato.plan.noisy_trees import PROFILE, LeafCounts, noisy_cdf, noisy_tree
from sfumato.plan.quantile_candidates import Choice, Places, replace_margins
from sfumato.plan.required_statistics import Requirements
from sfumato.query import sizes
from sfumato.query.engine_protocol import ExactQuery
from sfumato.query.group_totals import GROUPING, Series, Totals
from sfumato.query.query import Query
from sfumato.transformations import CountUnits, QuantileTree, Statistic, ValueTree, cone_of

Noise = IndependentNoise | KNormNoise | CentredGaussian | LevelsGaussian | SeriesGaussian | TreeLaplace


def take_rows(column: pa.Array, mask: NDArray[np.bool_]) -> pa.Array:
    """Return the kept rows of an Arrow column, in memory of their own: no other row is in it.

    Args:
        column: of any type.
        mask: for each row, whether it is kept.
    """
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False)).reshape(-1, 2)
    if len(edges) > sizes.KEPT_PARTS:
        return column.take(arrow_column(np.flatnonzero(mask).astype(np.int64)))
    parts = [column.slice(start, end - start) for start, end in edges.tolist()]
    return pa.concat_arrays([*parts, column.slice(0, 0), column.slice(0, 0)])  # one array would not be copied


def take_batch(batch: pa.RecordBatch, mask: NDArray[np.bool_]) -> pa.RecordBatch:
    """Return the kept rows of an Arrow batch, as `take_rows` does for each column."""
    return pa.RecordBatch.from_arrays([take_rows(c, mask) for c in batch.columns], schema=batch.schema)


@dataclass(frozen=True, repr=False)
class GroupMeasurement(Spelled):
    """The measurement of a plan: it adds noise to statistics by group, and maps to the loss.

    `draw` and `map` use the same parameters; there is no other copy of them. Workers run the same object,
    pickled.

    Args:
        keys: names of the key columns.
        requirements: statistics, and how the outputs are made of them.
        statistics: what the engine computes, in order.
        noise: the noise of all coordinates, in grid steps.
        selection: how private groups are chosen, or None.
        choices: places near quantiles that are chosen before, from exact counts.
        shown: how many public groups there are, or None.
        series: which groups are time steps, where noise is drawn for series of them.
        totals: which totals of groups are shown, where noise is drawn for them too.
        bars: whether to keep what error bars of quantiles need.
    Raises:
        ParameterError: the threshold of the selection is for another noise than is drawn.
    """

    keys: tuple[str, ...]
    requirements: Requirements
    statistics: tuple[Statistic, ...]
    noise: Noise
    selection: GroupSelection | None = None
    choices: tuple[Choice, ...] = ()
    shown: int | None = None
    series: Series | None = None
    totals: Totals | None = None
    bars: bool = True

    def __post_init__(self) -> None:
        rule = self.selection
        if not isinstance(rule, LaplaceThreshold | GaussianThreshold | KNormThreshold):
            return
        if rule.law != self.laws["units"]:
            raise ParameterError("selection", rule, "a threshold on the noise of the number of units")

    @classmethod
    def from_query(
        cls,
        query: Query,
        needed: Requirements,
        noise: Noise,
        selection: GroupSelection | None = None,
        choices: tuple[Choice, ...] = (),
    ) -> GroupMeasurement:
        """Return the group measurement that answers a query.

        Args:
            query, needed: the query, and the statistics that answer it.
            noise, selection, choices: as of the class.
        """
        statistics = replace_margins(needed.statistics, choices)
        # Selection needs the number of units, whether or not it is released.
        if selection is not None and not any(s.counts_units for s in statistics):
            statistics = (CountUnits(), *statistics)
        keys = query.public_keys
        shown = keys.num_rows if isinstance(keys, pa.Table) else None if query.keys else 1
        return cls(
            query.keys, needed, statistics, noise, selection, choices, shown, query.series, query.totals
        )

    def for_query(self, query: Query) -> GroupMeasurement:
        """Return the group measurement for a query with other values of public keys."""
        if self.series is None and self.totals is None:
            return self
        return replace(self, series=query.series, totals=query.totals)

    @property
    def kind(self) -> NoiseKind:
        """The kind of noise of the measurement."""
        noise, k_norm = self.noise, cast(NoiseKind, K_NORM)  # which has a name and a norm alone
        if isinstance(noise, IndependentNoise):
            return noise.kind
        if isinstance(noise, JointNoise | SeparateNoise):
            return k_norm
        return NOISES["laplace" if isinstance(noise, TreeLaplace) else "gaussian"]

    @property
    def names(self) -> list[str]:
        """The names of all coordinates that the measurement adds noise to, in order."""
        return [coordinate.name for coordinate in self.requirements.coordinates]

    @property
    def laws(self) -> Mapping[str, Law]:
        """The law of the measurement's noise on each coordinate, in grid steps; a copy."""
        return dict(zip(self.names, self._laws, strict=True))

    @cached_property
    def _laws(self) -> tuple[Any, ...]:
        return tuple(list_laws(self.noise))

    @property
    def scales(self) -> Mapping[str, Fraction]:
        """The scale of the measurement's noise on each coordinate, in grid steps."""
        return dict(zip(self.names, self.noise.scales, strict=True))

    @property
    def steps(self) -> Mapping[str, Fraction]:
        """The grid step of each coordinate of the measurement, in its own unit; a copy."""
        return {coordinate.name: coordinate.step for coordinate in self.requirements.coordinates}

    @property
    def at_once(self) -> bool:
        """Whether the measurement draws noise for all groups at once, so needs them in one batch."""
        return not isinstance(self.noise, IndependentNoise | SeparateNoise)

    @property
    def independent(self) -> bool:
        """Whether the measurement draws independent noise for each number of each group."""
        return isinstance(self.noise, IndependentNoise)

    @property
    def choice_epsilon(self) -> Fraction:
        """The epsilon of all quantile choices of the measurement, in all groups of a unit."""
        times = self.requirements.times
        each = (c.mechanism.loss * c.leaves.body.linf_sensitivities[0] for c in self.choices)
        return times * sum(each, Fraction(0))

    def metric(
        self, multiplier: Fraction, query: Query
    ) -> CentredDistance | KNormDistance | LevelsDistance | TimeStepsDistance | None:
        """Return the metric of the measurement's joint noise; None for independent noise.

        Args:
            multiplier: divides the scales, so that one unit moves by at most 1.
            query: the query whose groups are shown.
        """
        noise, needed, names = self.noise, self.requirements, tuple(self.names)
        if isinstance(noise, IndependentNoise):
            return None
        if isinstance(noise, JointNoise | SeparateNoise):
            apart = isinstance(noise, SeparateNoise)
            return KNormDistance(cone_of(needed.statistics), self._limit if apart else None, apart)
        scales = tuple(scale / multiplier for scale in noise.scales)
        if isinstance(noise, CentredGaussian):
            cone = cone_of(needed.statistics)
            total = noise.shared / (noise.centre * cone.bounds[0]) / multiplier
            return CentredDistance(cone, scales, total, noise.centre, query.public_groups)
        if isinstance(noise, LevelsGaussian):
            return LevelsDistance(names, scales, noise.sizes, noise.rollup, query.public_groups)
        assert query.series is not None
        table: Any = query.public_keys
        series = query.series.groups(table, query.keys)
        if isinstance(noise, TreeLaplace):
            return TreeDistance(names, scales, noise.factor, series)
        return SeriesDistance(names, scales, noise.factor, series)

    @cached_property
    def loss(self) -> Loss:
        """The privacy loss of the measurement for one unit."""
        return self.map(1)

    def charge(self, epsilon: Fraction, delta: Fraction) -> Loss:
        """Return what a budget pays for the measurement: its loss, to be composed with others."""
        return self.loss

    @property
    def _limit(self) -> int:
        """The largest number of groups in which one unit changes what is measured."""
        times = self.requirements.times
        return times if self.shown is None else min(times, self.shown)

    @isolated
    def map(self, units: int = 1) -> Loss:
        """Return the privacy loss of the measurement: of noise, choices and selection together.

        Args:
            units: how many privacy units are added or removed; with private groups at most 1.
        Raises:
            ParameterError: units is above 1, and groups are private.

        >>> import pyarrow as pa, sfumato as sf
        >>> people = sf.scan(pa.table({"id": [1, 2]}), privacy_unit="id").bound(rows=2)
        >>> people.agg(n=sf.count()).plan(epsilon=1).measurement.map(1).epsilon(0)
        Fraction(1, 1)

        Source:
            docs/proofs/certificate.md, for each kind of noise.
        """
        if not units:
            return Loss()
        if self.selection is None:
            return self._noise_loss(units)
        if units > 1:
            raise ParameterError("units", units, "at most 1, where groups are private")
        beside = self.selection.loss_beside_noise(self.requirements.groups)
        # Planning leaves this much room, because the certificate rounds tails of noise up.
        delta = min(beside.additive_delta / (1 - ROOM), Fraction(1))
        return self._noise_loss(1) + replace(beside, additive_delta=delta)

    def _noise_loss(self, units: int) -> Loss:
        needed, noise = self.requirements, self.noise
        body, times = needed.body, needed.times
        if isinstance(noise, IndependentNoise):
            return noise.loss(body, times, units)
        if isinstance(noise, JointNoise | SeparateNoise):
            pure = k_norm_loss(noise, cone_of(needed.statistics), self._limit) + self.choice_epsilon
        elif isinstance(noise, TreeLaplace):
            pure = tree_moved(noise.factor, noise.scales, noise.series, body, times)
        else:
            if isinstance(noise, CentredGaussian):
                squared = centred_moved(noise, cone_of(needed.statistics), body, times)
            elif isinstance(noise, SeriesGaussian):
                squared = series_moved(noise.factor, noise.scales, noise.series, body, times)
            else:
                squared = levels_moved(noise.rollup, noise.sizes, noise.scales, body, times)
            return Loss(gaussian=units**2 * squared)
        return Loss(approximate=((units * pure, Fraction(0), 1),))

    def description(self, exact: ExactQuery) -> dict[str, Any]:
        """Return what the measurement draws, as the certificate reads it."""
        selection, names = self.selection, self.names
        return {
            "kind": "groups",
            "groups": exact.description,
            "statistics": [statistic.description for statistic in self.requirements.statistics],
            "choices": [choice.description for choice in self.choices],
            "noise": self.noise.description(names) if names else None,
            "selection": None if selection is None else selection.description,
        }

    @isolated
    def draw(self, batch: pa.RecordBatch, words: Words | None = None) -> NoisyBatch:
        """Measure a batch of groups: select groups and add noise to exact statistics.

        Args:
            batch: as an engine's `statistics` gives it.
            words: a source of random words; None for this thread's secure words.
        """
        keys, exact = self._read_keys(batch), self.columns(batch)
        values: dict[str, Int128Array] = {}
        chosen: dict[str, Places] = {}
        totals = None
        noise, laws, steps = self.noise, self.laws, self.steps
        if isinstance(noise, LevelsGaussian):
            return self._with_totals(noise, keys, exact, words)
        if isinstance(noise, SeriesGaussian | TreeLaplace):
            values, totals = self._in_series(noise, keys, exact, words)
        elif not isinstance(noise, IndependentNoise):
            keys, values, chosen = self._add_joint_noise(noise, keys, exact, words)
        elif self.selection is not None:
            kept, noisy = self.selection.select(int64_values(exact["units"]), words=words)
            keys, exact = take_batch(keys, kept), self.columns(take_batch(batch, kept))
            if noisy is not None:
                values["units"] = Int128Array.from_int64(noisy[kept])
        trees: dict[str, Any] = {}
        lists: dict[str, int] = {}  # entries of each list of numbers, by name
        for statistic in self.requirements.statistics:
            if isinstance(statistic, QuantileTree):
                name = statistic.names[0]
                ranks = tuple(dict.fromkeys(e.rank for e in self.requirements.estimates if e.total == name))
                counts = LeafCounts.from_arrow(exact[name])
                profile = PROFILE if self.bars else PROFILE[:0]
                trees[name] = noisy_tree(counts, laws[name], ranks, words, profile)
                continue
            if isinstance(statistic, ValueTree):
                (name,) = statistic.names
                trees[name] = noisy_cdf(exact[name], statistic, laws[name], words)
                continue
            if entries := statistic.entries:
                lists |= dict.fromkeys(statistic.names, entries)
            for name in statistic.names:
                if name not in values:
                    numbers = exact[name].flatten() if entries else exact[name]
                    noise_steps = laws[name].rounded(len(numbers), words=words)
                    values[name] = Int128Array.from_arrow(numbers) + noise_steps
        floats = {name: value.scaled(steps[name]) for name, value in values.items()}
        floats |= {name: floats[name].reshape(-1, entries) for name, entries in lists.items()}
        return NoisyBatch(self, keys, NoisyNumbers(floats, trees, laws, steps, chosen, totals, noise=noise))

    @isolated
    def chosen(self, batch: pa.RecordBatch, words: Words | None = None) -> pa.RecordBatch:
        """Return exact statistics with quantile choices in place of the counts they were chosen from.

        What comes together where one draw serves all groups is so a few numbers of each. `draw` takes it too.

        Args:
            batch, words: as of `draw`.
        """
        exact = self.columns(batch)
        for choice in self.choices:
            (leaves,) = choice.leaves.names
            exact[leaves] = choice.chosen(exact[leaves], words)
        # By position, as a key may have a coordinate's name.
        columns = [*self._read_keys(batch).columns, *exact.values()]
        return pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])

    def _add_joint_noise(
        self,
        noise: KNormNoise | CentredGaussian,
        keys: pa.RecordBatch,
        exact: dict[str, pa.Array],
        words: Words | None,
    ) -> tuple[pa.RecordBatch, dict[str, Int128Array], dict[str, Places]]:
        """Add K-norm noise to all statistics of the groups that are shown."""
        names, count = self.names, len(next(iter(exact.values())))
        if not count:
            drawn = np.empty((len(names), 0), np.int64)
        elif isinstance(noise, SeparateNoise):
            drawn = noise.rounded(count, words)
        elif count == noise.groups:
            drawn = noise.rounded(words)
        else:
            raise EngineError(f"{count} groups came where noise is for {noise.groups} together")
        values: dict[str, Int128Array] = {}
        if isinstance(self.selection, KNormThreshold):
            noisy = self.selection._with_noise(int64_values(exact["units"]), drawn[0])
            kept = self.selection.keep(noisy)
            keys, drawn = take_batch(keys, kept), drawn[:, kept]
            exact = {name: take_rows(column, kept) for name, column in exact.items()}
            values["units"] = Int128Array.from_int64(noisy[kept])
        # How far they are beyond a rank is a number of each group too, once places are chosen.
        chosen: dict[str, Places] = {}
        beyond: dict[str, Int128Array] = {}
        for choice in self.choices:
            (leaves,) = choice.leaves.names
            chosen[leaves], numbers = choice.draw(exact[leaves], words)
            beyond |= {m.names[0]: own for m, own in zip(choice.margins, numbers, strict=True)}
        for name, row in zip(names, drawn, strict=True):
            if name not in values:
                number = beyond[name] if name in beyond else Int128Array.from_arrow(exact[name])
                values[name] = number + row
        return keys, values, chosen

    def _in_series(
        self,
        noise: SeriesGaussian | TreeLaplace,
        keys: pa.RecordBatch,
        exact: dict[str, pa.Array],
        words: Words | None,
    ) -> tuple[dict[str, Int128Array], Cumulated]:
        """Add noise to all statistics of time steps, and to their cumulative totals."""
        assert self.series is not None
        names = self.names
        if not keys.num_rows:  # of no group, to know the columns
            empty = dict.fromkeys(names, np.zeros(0))
            return {n: Int128Array.from_integers([]) for n in names}, Cumulated(empty, {}, *[np.zeros(0)] * 2)
        order = self.series.order(keys.columns)
        drawn, (deviations, off) = noise.rounded(words), noise.cumulated

        def placed(by_step: NDArray[Any]) -> NDArray[Any]:
            found = np.empty(order.size, np.float64 if by_step.dtype == np.float64 else np.int64)
            found[order] = by_step
            return found

        values, totals = {}, {}
        half = 1 << FINE >> 1
        for name, fine in zip(names, drawn, strict=True):
            number = Int128Array.from_arrow(exact[name])
            values[name] = number + placed((fine + half) >> FINE)
            total = number.cumulated(order) + placed((np.cumsum(fine, axis=1) + half) >> FINE)
            totals[name] = total.scaled(self.steps[name])
        scales = {n: float(s) * (1 + 2.0**-50) for n, s in zip(names, noise.scales, strict=True)}
        largest = placed(noise.largest) if isinstance(noise, TreeLaplace) else None
        return values, Cumulated(totals, scales, placed(deviations), placed(off), largest)

    def _with_totals(
        self, noise: LevelsGaussian, keys: pa.RecordBatch, exact: dict[str, pa.Array], words: Words | None
    ) -> NoisyBatch:
        """Add noise to the statistics of all groups, and add them up to totals."""
        assert self.totals is not None
        if not keys.num_rows:  # of no group, to know the columns
            none = NoisyNumbers(dict.fromkeys(exact, np.zeros(0)), {}, self.laws, self.steps, noise=noise)
            whole = keys.append_column(GROUPING, pa.array([], pa.int64()))
            return NoisyBatch(self, whole, none)
        totals, steps = self.totals.for_keys(keys.columns), self.steps
        noise = replace(noise, rollup=totals.rollup)
        names, drawn = self.names, noise.rounded(words)
        sizes, levels = noise.rollup.sizes, {}
        for name, fine, bits in zip(names, drawn, noise.fine, strict=True):
            number = Int128Array.from_arrow(exact[name])
            noisy = [
                number.added_up(codes, len(own)).finer(bits) + noise.rollup.totals(fine, i)
                for i, (codes, own) in enumerate(zip(noise.rollup.codes, sizes, strict=True))
            ]
            levels[name] = [one.scaled(steps[name] / (1 << bits)) for one in noisy]
        return NoisyBatch.from_levels(self, totals, noise, keys, levels)

    def _read_keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self.keys:
            return batch.select([])
        return pa.RecordBatch.from_arrays(batch.columns[: len(self.keys)], names=list(self.keys))

    def columns(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """Return exact statistics by coordinate; by position, as a key may have the same name."""
        names = [name for s in sorted(self.statistics, key=lambda s: s.listed) for name in s.names]
        return dict(zip(names, batch.columns[len(self.keys) :], strict=False))


def list_laws(noise: Any) -> Sequence[Any]:
    """Return the law of each coordinate that a measurement's noise is added to, in grid steps."""
    return marginals(noise) if isinstance(noise, JointNoise | SeparateNoise) else noise.laws


class SideBySide:
    """Noise of several simulated releases, each of which draws it for all of its groups.

    Args:
        noise: which one draw serves all groups.
        size: how many releases.
    """

    def __init__(self, noise: Any, size: int) -> None:
        self.noise = noise
        self.size = size
        self.groups: int = noise.groups * size
        self.laws: Sequence[Any] = list_laws(noise)
        self.scales: Sequence[Fraction] = noise.scales

    def rounded(self, words: Words | None = None) -> NDArray[np.int64]:
        """Draw the noise of all simulated releases: of shape (coordinates, releases times groups)."""
        return np.hstack([self.noise.rounded(words) for _ in range(self.size)])
