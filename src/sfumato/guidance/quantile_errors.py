"""Expected errors of quantiles in an analysis, from all values of a column and how much each counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.guidance.expected_error import PLACES, Expected
from sfumato.guidance.simulated_groups import find_aggregate_name
from sfumato.guidance.unit_contributions import Column, Contributed, Ranked, ValuesCounted
from sfumato.noise import SeededWords
from sfumato.noise.law_tails import Floats
from sfumato.plan.group_measurement import SideBySide
from sfumato.plan.plan import Plan
from sfumato.query.aggregates import Estimate, Quantiles
from sfumato.query.aggregates.quantile_aggregates import ChosenQuantile
from sfumato.query.query import Query
from sfumato.transformations import Leaves, QuantileTree

# Releases that are drawn to see what noise does: so many, and of many groups as many as make so many groups
# in all, or the least number; and so many groups at once.
DRAWS, ENOUGH, MIN, AT_ONCE = 300, 40_000, 50, 2_000
# Places that are chosen are drawn one by one, which takes long: of so many groups, in so many draws in all.
CHOSEN_GROUPS, CHOSEN = 50, 1_000
# Sums of parts of rows are off by rounding: so much more of a share of rows is still that share.
_ROUNDED = 1e-12


def find_quantiles(values: ValuesCounted, counted: Floats, ranks: Floats | float) -> Floats:
    """Return the quantile of each group: its smallest value up to which a share of the rows is.

    Args:
        values: of the groups.
        counted: how much each value counts.
        ranks: the share, one for all groups or one for each.
    """
    before = np.concatenate([np.zeros(1), np.cumsum(counted)])
    first, last = before[values.starts[:-1]], before[values.starts[1:]]
    wanted = first + np.clip(ranks, _ROUNDED, 1.0) * (last - first) * (1 - _ROUNDED)
    at = np.searchsorted(before[1:], wanted, side="left")
    # Values that count nothing are passed over, at the beginning too.
    at = np.clip(at, values.starts[:-1], np.maximum(values.starts[1:] - 1, 0))
    found = np.append(values.values, np.nan)[np.where(last > first, at, len(values.values))]
    return np.asarray(found, np.float64)


@dataclass(frozen=True)
class ExpectedQuantiles:
    """The expected errors of a query's quantiles under one plan.

    Args:
        plan: of the release.
        share: the place of what of a unit counts.
        found: what rows gave.
        counts: what is expected of numbers that are no counts of values, by coordinate, in their own units.
    """

    plan: Plan
    share: int
    found: Contributed
    counts: Mapping[str, Floats]

    def expected(self, estimates: Sequence[Estimate]) -> dict[str, Expected]:
        """Return the expected value and errors of each quantile.

        The value is that of what is expected of rows, within bounds; noise is seen in some hundred releases
        that are drawn, in each of which all is as in a release. Of places that are chosen in many groups it
        is that of a law of ranks, so many times as large as it is in those groups that are drawn.
        """
        drawn = self._draw_quantiles(estimates)
        found = {}
        for e in estimates:
            values, at = self._values(e.name)
            counted, variances = values.expected[at], values.variances[at]

            def bounded(
                ranks: Floats | float, e: Estimate = e, values: Any = values, counted: Any = counted
            ) -> Floats:
                return np.clip(find_quantiles(values, counted, ranks), e.lower, e.upper)

            value = bounded(e.rank)
            empty = np.isnan(value)
            value = np.where(empty, (e.lower + e.upper) / 2, value)
            spread = self._spread_of_ranks(values, counted, variances, e.rank, value)
            choice = (bounded(e.rank + spread) - bounded(e.rank - spread)) / 2
            noise = np.sqrt(np.mean((drawn[e.name] - value) ** 2, axis=0))
            if isinstance(e, ChosenQuantile) and len(value) > CHOSEN_GROUPS:
                law = self._noise_of_ranks(e, values, counted, value)
                seen = self._seen & (law > 0)
                times = np.median(noise[seen] / law[seen]) if seen.any() else 1.0
                noise = np.where(self._seen, noise, times * law)
            found[e.name] = Expected(value, np.where(empty, 0.0, choice), noise)
        return found

    @property
    def _seen(self) -> NDArray[np.bool_]:
        """The groups whose chosen quantiles are drawn, if there are too many for all."""
        groups = self.found.groups
        found = np.zeros(groups, bool)
        found[np.linspace(0, groups - 1, min(groups, CHOSEN_GROUPS)).astype(int)] = True
        return found

    def _noise_of_ranks(
        self, e: ChosenQuantile, values: ValuesCounted, counted: Floats, value: Floats
    ) -> Floats:
        """Return the error of a quantile whose rank noise moves by a Laplace law."""
        before = np.concatenate([np.zeros(1), np.cumsum(counted)])
        total = np.maximum(before[values.starts[1:]] - before[values.starts[:-1]], 1e-9)
        squares = np.zeros(len(value))
        for place in _laplace_places():
            rank = e.rank + place * self.plan.expected[e.name] / total
            moved = np.clip(find_quantiles(values, counted, rank), e.lower, e.upper)
            # Beyond all values one place is as good as another, up to the bound.
            moved = np.where(
                rank < 0, (e.lower + moved) / 2, np.where(rank > 1, (moved + e.upper) / 2, moved)
            )
            squares += np.where(np.isnan(moved), 0.0, moved - value) ** 2
        return np.asarray(np.sqrt(squares / PLACES))

    def _values(self, output: str) -> tuple[ValuesCounted, int]:
        """Return the values that a quantile is of, and the place of the plan's limits among their counts."""
        column = dict(self.plan.query.aggregates)[find_aggregate_name(self.plan.query, output)].columns[0]
        ranked = next(one for one in self.found.ranked if one.column.name == column)
        return self.found.ranked[ranked], ranked.limits.index((self.share, self.plan.query.rows))

    @staticmethod
    def _spread_of_ranks(
        values: ValuesCounted, counted: Floats, variances: Floats, rank: float, value: Floats
    ) -> Floats:
        """Return the standard error of a quantile's rank by the random choice of rows."""
        group = np.repeat(np.arange(len(value)), np.diff(values.starts))

        def summed(numbers: Floats) -> Floats:
            return np.asarray(np.bincount(group, numbers, len(value)), np.float64)

        below = np.where(values.values <= value[group], 1 - rank, -rank)
        total = summed(counted)
        return np.asarray(np.sqrt(summed(variances * below**2)) / np.where(total > 0, total, 1.0))

    def _draw_quantiles(self, estimates: Sequence[Estimate]) -> dict[str, NDArray[np.float64]]:
        """Return noisy quantiles of many draws, of shape (draws, groups); NaN for groups not drawn."""
        batch, all_groups = self._batch(), self.found.groups
        alone = not self.plan.measurement.at_once and all(isinstance(e, ChosenQuantile) for e in estimates)
        at = np.flatnonzero(self._seen) if alone and all_groups > CHOSEN_GROUPS else np.arange(all_groups)
        batch, groups = batch.take(pa.array(at)), max(len(at), 1)
        if self.plan.measurement.choices:
            draws = min(CHOSEN // min(groups, CHOSEN_GROUPS), DRAWS)
        else:
            draws = int(np.clip(ENOUGH // groups, min(MIN, DRAWS), DRAWS))
        # Several draws side by side, as if there were so many times the groups.
        each = int(np.clip(AT_ONCE // groups, 1, draws))
        measurement = replace(self.plan.measurement, selection=None, bars=False)
        if measurement.at_once:
            noise: Any = SideBySide(measurement.noise, each)
            measurement = replace(measurement, noise=noise)
        batch = batch.take(pa.array(np.tile(np.arange(batch.num_rows), each)))
        words = SeededWords(0)
        found: dict[str, list[Floats]] = {e.name: [] for e in estimates}
        for _ in range(-(-draws // each)):
            numbers = measurement.draw(batch, words).numbers
            for e in estimates:
                found[e.name].append(e.value(numbers).reshape(each, -1))

        def placed(values: list[Floats]) -> NDArray[np.float64]:
            rows = np.concatenate(values)
            full = np.full((len(rows), all_groups), np.nan)
            full[:, at] = rows
            return full

        return {name: placed(values) for name, values in found.items()}

    def _batch(self) -> pa.RecordBatch:
        """Return the exact statistics of the groups, from which noisy quantiles are drawn."""
        measurement, groups = self.plan.measurement, self.found.groups
        columns: list[pa.Array] = [column.combine_chunks() for column in self.found.keys.columns]
        for statistic in sorted(measurement.statistics, key=lambda s: s.listed):
            for name in statistic.names:
                if isinstance(statistic, QuantileTree | Leaves):
                    columns.append(self._read_leaf_counts(statistic))
                    continue
                # Others than the counts beside quantiles change nothing in them, and may be too large.
                steps = np.rint(self.counts.get(name, np.zeros(groups)) / float(self.plan.steps[name]))
                columns.append(pa.array(np.clip(steps, -(2.0**62), 2.0**62).astype(np.int64)))
        return pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])

    def _read_leaf_counts(self, statistic: QuantileTree | Leaves) -> pa.Array:
        """Return the counts of a quantile tree's leaves, or of candidates, as lists."""
        ranked = next(one for one in self.found.ranked if one.column.name == statistic.column)
        values, at = self.found.ranked[ranked], ranked.limits.index((self.share, self.plan.query.rows))
        places = _places(statistic, values.values)
        # Values rise, and so do places: bounds move them together at the ends.
        group = np.repeat(np.arange(self.found.groups), np.diff(values.starts))
        different = np.ones(len(places), bool)
        different[1:] = (places[1:] != places[:-1]) | (group[1:] != group[:-1])
        steps = values.expected[at] * 2.0**-statistic.exponent
        if self.plan.measurement.choices and self.found.groups > CHOSEN_GROUPS:
            different &= self._seen[group]
            steps = np.where(self._seen[group], steps, 0.0)
        begin = np.flatnonzero(different)
        before = np.concatenate([np.zeros(1), np.cumsum(steps)])
        ends = np.rint(before[np.append(begin, len(places))]).astype(np.int64)
        struct = pa.StructArray.from_arrays(
            [pa.array(places[begin]), pa.array(np.diff(ends))], names=["leaf", "weight"]
        )
        offsets = np.searchsorted(begin, values.starts).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), struct)


def ranked_columns(queries: Sequence[tuple[int, Query]], columns: Sequence[Column]) -> tuple[Ranked, ...]:
    """Return the columns of which quantiles are analysed, with all limits under which values count.

    Args:
        queries: each with the place of its share.
        columns: with the widest bounds that are compared.
    """
    limits: dict[str, dict[tuple[int, int], None]] = {}
    for share, query in queries:
        for _, aggregate in query.measured:
            if isinstance(aggregate, Quantiles):
                limits.setdefault(aggregate.column, {})[share, query.rows] = None
    return tuple(Ranked(one, tuple(limits[one.name])) for one in columns if one.name in limits)


def exact_quantiles(query: Query, contributed: Contributed) -> dict[str, Floats]:
    """Return the exact quantiles of each group without limits and bounds; NaN if a group has none."""
    outputs = {}
    by_column = {one.column.name: values for one, values in contributed.ranked.items()}
    for name, aggregate in query.measured:
        if isinstance(aggregate, Quantiles):
            values = by_column[aggregate.column]
            for output, rank in zip(aggregate.outputs(name), aggregate.ranks, strict=True):
                outputs[output] = find_quantiles(values, values.rows, rank)
    return outputs


def _laplace_places() -> Floats:
    """Return equally probable moves of a quantile's rank under a Laplace law of deviation 1."""
    p = (np.arange(PLACES) + 0.5) / PLACES
    return np.asarray(np.sign(p - 0.5) * -np.log(2 * np.minimum(p, 1 - p)) / np.sqrt(2))


def _places(statistic: QuantileTree | Leaves, values: Floats) -> NDArray[Any]:
    """Return the leaf or candidate of a quantile statistic in which each value is counted."""
    if isinstance(statistic, QuantileTree):
        return statistic.all_leaves(values)
    return statistic.lattice.all_nearest(values)
