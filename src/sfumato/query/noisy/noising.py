"""Exact statistics of a batch of groups to noisy ones: the same on one machine and on many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.display.fields import Spelled
from sfumato.errors import EngineError
from sfumato.exact.isolation import Isolated
from sfumato.measurements.k_norm import KNormNoise
from sfumato.measurements.noise import Law
from sfumato.measurements.selection import (
    GaussianThreshold,
    GroupSelection,
    KNormThreshold,
    LaplaceThreshold,
)
from sfumato.measurements.wide import WideIntegers, int64_values
from sfumato.noise import Words
from sfumato.noise.centred_gaussian import CentredGaussian
from sfumato.noise.k_norm import SeparateNoise
from sfumato.noise.levels_gaussian import LevelNoises, LevelsGaussian
from sfumato.noise.series_gaussian import FINE, SeriesGaussian
from sfumato.noise.tree_laplace import TreeLaplace
from sfumato.query.noisy.choosing import Choice, Places
from sfumato.query.noisy.numbers import Cumulated, Levelled, NoisyNumbers, arrow_column, kept_batch, kept_rows
from sfumato.query.noisy.quantiles import PROFILE, LeafCounts, NoisyTree, noisy_tree
from sfumato.query.requirements import Requirements
from sfumato.query.series import Series
from sfumato.query.totals import GROUPING, Totals
from sfumato.transformations import QuantileTree, Statistic


@dataclass(frozen=True, repr=False)
class Noising(Isolated, Spelled):
    """What turns exact statistics into a release; small, and fit to be sent to a worker.

    Args:
        keys: names of the key columns.
        requirements: statistics, and how the outputs are made of them.
        statistics: what the engine computes, in order.
        steps: the grid step of each coordinate, in its own unit.
        laws: the laws of the noise, by coordinate, in grid steps.
        selection: how private groups are chosen, or None.
        together: noise that is drawn for all numbers together, in place of that of each law by itself.
        choices: places near quantiles that are chosen before, from exact counts.
        series: which groups are time steps, where noise is drawn for series of them.
        totals: which totals of groups are shown, where noise is drawn for them too.
        bars: whether all is kept that error bars of quantiles are read from.
    """

    keys: tuple[str, ...]
    requirements: Requirements
    statistics: tuple[Statistic, ...]
    steps: Mapping[str, Fraction]
    laws: Mapping[str, Law]
    selection: GroupSelection | None
    together: KNormNoise | CentredGaussian | LevelsGaussian | SeriesGaussian | TreeLaplace | None = None
    choices: tuple[Choice, ...] = ()
    series: Series | None = None
    totals: Totals | None = None
    bars: bool = True

    @property
    def at_once(self) -> bool:
        """Whether all groups must be in one batch: one draw serves them."""
        return not isinstance(self.together, SeparateNoise | None)

    @property
    def description(self) -> dict[str, Any]:
        """What is drawn, as the certificate reads it."""
        selection = self.selection
        return {
            "statistics": [statistic.description for statistic in self.requirements.statistics],
            "choices": [choice.description for choice in self.choices],
            "noise": self._noise(),
            "selection": None if selection is None else selection.description,
        }

    def _noise(self) -> dict[str, Any] | None:
        names = [name for statistic in self.requirements.statistics for name in statistic.names]
        if self.together is not None:
            return self.together.description(names)
        laws = {name: self.law(name) for name in names}
        kinds = sorted({type(law).__name__.lower() for law in laws.values()})
        scales = {name: str(law.unit) for name, law in laws.items()}
        return {"shape": "independent", "law": " and ".join(kinds), "scales": scales} if names else None

    def law(self, name: str) -> Law:
        """Return the law of the noise of a number, where each number has noise of its own.

        Args:
            name: of its coordinate.
        """
        if name == "units" and isinstance(self.selection, LaplaceThreshold | GaussianThreshold):
            return self.selection.law  # drawn when groups are selected
        return self.laws[name]

    def draw(self, batch: pa.RecordBatch, words: Words | None = None) -> NoisyBatch:
        """Select groups and add noise.

        Args:
            batch: as an engine's `statistics` gives it.
            words: a source of random words; None for this thread's secure words.
        """
        keys, exact = self._keys_of(batch), self.columns(batch)
        values: dict[str, WideIntegers] = {}
        chosen: dict[str, Places] = {}
        totals = None
        if isinstance(self.together, LevelsGaussian):
            return self._with_totals(self.together, keys, exact, words)
        if isinstance(self.together, SeriesGaussian | TreeLaplace):
            values, totals = self._in_series(self.together, keys, exact, words)
        elif self.together is not None:
            keys, values, chosen = self._together(self.together, keys, exact, words)
        elif self.selection is not None:
            kept, noisy = self.selection.select(int64_values(exact["units"]), words=words)
            keys, exact = kept_batch(keys, kept), self.columns(kept_batch(batch, kept))
            if noisy is not None:
                values["units"] = WideIntegers.from_int64(noisy[kept])
        trees: dict[str, NoisyTree] = {}
        for statistic in self.requirements.statistics:
            if isinstance(statistic, QuantileTree):
                name = statistic.names[0]
                ranks = tuple(dict.fromkeys(e.rank for e in self.requirements.estimates if e.total == name))
                counts = LeafCounts.from_arrow(exact[name])
                profile = PROFILE if self.bars else PROFILE[:0]
                trees[name] = noisy_tree(counts, self.law(name), ranks, words, profile)
                continue
            for name in statistic.names:
                if name not in values:
                    numbers = exact[name].flatten() if statistic.entries else exact[name]
                    column = WideIntegers.from_arrow(numbers)
                    values[name] = column + self.law(name).rounded(len(column), words=words)
        floats = {name: value.scaled(self.steps[name]) for name, value in values.items()}
        for statistic in self.requirements.statistics:
            if statistic.entries:
                floats |= {name: floats[name].reshape(-1, statistic.entries) for name in statistic.names}
        return NoisyBatch(self, keys, NoisyNumbers(floats, trees, self.laws, self.steps, chosen, totals))

    def chosen(self, batch: pa.RecordBatch, words: Words | None = None) -> pa.RecordBatch:
        """Return exact statistics with what was chosen in place of the counts that it was chosen from.

        What comes together where one draw serves all groups is so a few numbers of each. `draw` takes it too.

        Args:
            batch, words: as of `draw`.
        """
        exact = self.columns(batch)
        for choice in self.choices:
            (leaves,) = choice.leaves.names
            exact[leaves] = choice.chosen(exact[leaves], words)
        # By position, as a key may have a coordinate's name.
        columns = [*self._keys_of(batch).columns, *exact.values()]
        return pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])

    def _together(
        self,
        noise: KNormNoise | CentredGaussian,
        keys: pa.RecordBatch,
        exact: dict[str, pa.Array],
        words: Words | None,
    ) -> tuple[pa.RecordBatch, dict[str, WideIntegers], dict[str, Places]]:
        """Add noise to all numbers of the groups that are shown."""
        names, count = (
            [n for s in self.requirements.statistics for n in s.names],
            len(next(iter(exact.values()))),
        )
        if not count:
            drawn = np.empty((len(names), 0), np.int64)
        elif isinstance(noise, SeparateNoise):
            drawn = noise.rounded(count, words)
        elif count == noise.groups:
            drawn = noise.rounded(words)
        else:
            raise EngineError(f"{count} groups came where noise is for {noise.groups} together")
        values: dict[str, WideIntegers] = {}
        if isinstance(self.selection, KNormThreshold):
            noisy = self.selection.with_noise(int64_values(exact["units"]), drawn[0])
            kept = self.selection.keep(noisy)
            keys, drawn = kept_batch(keys, kept), drawn[:, kept]
            exact = {name: kept_rows(column, kept) for name, column in exact.items()}
            values["units"] = WideIntegers.from_int64(noisy[kept])
        # How far they are beyond a rank is a number of each group too, once places are chosen.
        chosen: dict[str, Places] = {}
        beyond: dict[str, WideIntegers] = {}
        for choice in self.choices:
            (leaves,) = choice.leaves.names
            chosen[leaves], numbers = choice.draw(exact[leaves], words)
            beyond |= {m.names[0]: own for m, own in zip(choice.margins, numbers, strict=True)}
        for name, row in zip(names, drawn, strict=True):
            if name not in values:
                number = beyond[name] if name in beyond else WideIntegers.from_arrow(exact[name])
                values[name] = number + row
        return keys, values, chosen

    def _in_series(
        self,
        noise: SeriesGaussian | TreeLaplace,
        keys: pa.RecordBatch,
        exact: dict[str, pa.Array],
        words: Words | None,
    ) -> tuple[dict[str, WideIntegers], Cumulated]:
        """Add noise to all numbers of time steps, and to what they add up to."""
        assert self.series is not None
        names = [n for s in self.requirements.statistics for n in s.names]
        if not keys.num_rows:  # of no group, to know the columns
            empty = dict.fromkeys(names, np.zeros(0))
            return {n: WideIntegers.from_integers([]) for n in names}, Cumulated(
                empty, {}, *[np.zeros(0)] * 2
            )
        order = self.series.order(keys.columns)
        drawn, (deviations, off) = noise.rounded(words), noise.cumulated

        def placed(by_step: NDArray[Any]) -> NDArray[Any]:
            found = np.empty(order.size, np.float64 if by_step.dtype == np.float64 else np.int64)
            found[order] = by_step
            return found

        values, totals = {}, {}
        half = 1 << FINE >> 1
        for name, fine in zip(names, drawn, strict=True):
            number = WideIntegers.from_arrow(exact[name])
            values[name] = number + placed((fine + half) >> FINE)
            total = number.cumulated(order) + placed((np.cumsum(fine, axis=1) + half) >> FINE)
            totals[name] = total.scaled(self.steps[name])
        scales = {n: float(s) * (1 + 2.0**-50) for n, s in zip(names, noise.scales, strict=True)}
        largest = placed(noise.largest) if isinstance(noise, TreeLaplace) else None
        return values, Cumulated(totals, scales, placed(deviations), placed(off), largest)

    def _with_totals(
        self, noise: LevelsGaussian, keys: pa.RecordBatch, exact: dict[str, pa.Array], words: Words | None
    ) -> NoisyBatch:
        """Add noise to the numbers of all groups, and add them up to what is shown."""
        assert self.totals is not None
        if not keys.num_rows:  # of no group, to know the columns
            none = NoisyNumbers(dict.fromkeys(exact, np.zeros(0)), {}, self.laws, self.steps)
            whole = keys.append_column(GROUPING, pa.array([], pa.int64()))
            return NoisyBatch(self, whole, none)
        totals, steps = self.totals.of(keys.columns), self.steps
        noise = replace(noise, rollup=totals.rollup)
        names = [n for s in self.requirements.statistics for n in s.names]
        drawn = noise.rounded(words)
        sizes, cells, shown, off = noise.rollup.sizes, {}, {}, {}
        for c, (name, fine, bits) in enumerate(zip(names, drawn, noise.fine, strict=True)):
            number = WideIntegers.from_arrow(exact[name])
            levels = [
                number.added_up(codes, len(own)).finer(bits) + noise.rollup.totals(fine, i)
                for i, (codes, own) in enumerate(zip(noise.rollup.codes, sizes, strict=True))
            ]
            scaled = [one.scaled(steps[name] / (1 << bits)) for one in levels]
            cells[name], shown[name] = scaled[0], totals.placed(scaled)
            off[name] = totals.placed(noise.off(c))
        scales = {n: float(s) * (1 + 2.0**-50) for n, s in zip(names, noise.scales, strict=True)}
        floats = {n: float(s) for n, s in steps.items()}
        noises = LevelNoises(self.laws, floats, scales, totals.placed(noise.deviations), off)
        of_cells = NoisyNumbers(cells, {}, self.laws, steps)
        levelled = Levelled(totals, noises, replace(of_cells, levels=Levelled(totals, noises, of_cells)))
        return NoisyBatch(
            self, totals.keys(keys.columns, self.keys), replace(of_cells, values=shown, levels=levelled)
        )

    def _keys_of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self.keys:
            return batch.select([])
        return pa.RecordBatch.from_arrays(batch.columns[: len(self.keys)], names=list(self.keys))

    def columns(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """Return columns by coordinate; by position, because a key may have a coordinate's name."""
        names = [name for s in sorted(self.statistics, key=lambda s: s.listed) for name in s.names]
        return dict(zip(names, batch.columns[len(self.keys) :], strict=False))


class NoisyBatch:
    """A batch of released groups: key columns, and the noisy numbers of each group."""

    def __init__(self, noising: Noising, keys: pa.RecordBatch, numbers: NoisyNumbers) -> None:
        self.noising = noising
        self.keys = keys
        self.numbers = numbers

    def outputs(self, confidence: float | None = None, among: int = 1) -> pa.RecordBatch:
        """Return the keys and one column for each output; with a confidence, behind it that of its error bar.

        Args:
            confidence, among: as of `half_widths`.
        """
        return self.beside({} if confidence is None else self._half_widths(confidence, among))

    def beside(self, widths: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """Return the keys and one column for each output, behind it its half-width, where there is one."""
        estimates = self.noising.requirements.estimates
        columns: dict[str, pa.Array] = {}
        for estimate in estimates:
            columns[estimate.name] = estimate.output(self.numbers)
            if estimate.name in widths:
                columns[f"{estimate.name}_error"] = widths[estimate.name]
        return self.with_keys(columns)

    def half_widths(self, confidence: float, among: int = 1) -> pa.RecordBatch:
        """Return the keys and the half-width of each output's error bar.

        Args:
            confidence: in (0, 1), that all of so many bars hold.
            among: how many.
        """
        return self.with_keys(self._half_widths(confidence, among))

    def _half_widths(self, confidence: float, among: int) -> dict[str, pa.Array]:
        estimates = self.noising.requirements.estimates
        return {e.name: arrow_column(e.half_width(self.numbers, confidence, among)) for e in estimates}

    def with_keys(self, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """Return columns behind those of the keys."""
        return pa.RecordBatch.from_arrays(
            [*self.keys.columns, *columns.values()], names=[*self.keys.schema.names, *columns]
        )


class SideBySide:
    """Noise of several releases side by side: each is a draw of its own, for all of its groups.

    Args:
        noise: which one draw serves all groups.
        size: how many releases.
    """

    def __init__(self, noise: Any, size: int) -> None:
        self.noise = noise
        self.size = size
        self.groups: int = noise.groups * size

    def rounded(self, words: Words | None = None) -> NDArray[np.int64]:
        """Draw all of them: of shape (coordinates, releases times groups)."""
        return np.hstack([self.noise.rounded(words) for _ in range(self.size)])
