"""Simulated groups: rows made up from a query's columns and bounds, and the noise of a plan on them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError, QueryError, nearest, shown
from sfumato.exact import as_fraction
from sfumato.measurements.int128_array import Int128Array
from sfumato.noise import SeededWords, Words
from sfumato.noise.k_norm import JointNoise
from sfumato.noise.law_tails import Floats
from sfumato.plan.group_measurement import GroupMeasurement, SideBySide
from sfumato.plan.noisy_statistics import NoisyBatch, NoisyNumbers
from sfumato.plan.plan import Plan
from sfumato.query.aggregates import Aggregate, InBins, OfColumns, VectorSum, Weighted
from sfumato.query.engine_protocol import Engine
from sfumato.query.group_totals import GROUPING, Totals
from sfumato.query.query import Query
from sfumato.query.schema import Column, Kind
from sfumato.transformations import Listed

_STEEPEST = Fraction(10**9)  # power beyond which values are all at the lower bound
_LARGEST = 2.0**62  # whole numbers are kept within this


@dataclass(frozen=True)
class SimulatedRows:
    """The rows of one simulated group.

    Args:
        table: the rows.
        unit: the column of their privacy units.
    """

    table: pa.Table
    unit: str


def fit_powers(query: Query, means: Mapping[str, Any] | None) -> dict[str, float]:
    """Return for each column the power of simulated values that gives them a wanted mean.

    Args:
        query: what is asked.
        means: about the mean of a column's values, by its name.
    Raises:
        QueryError: a column has no bounds in the question.
        ParameterError: they are no mapping, or a mean is not between its column's bounds.
    """
    if means is not None and not isinstance(means, Mapping):
        raise ParameterError("means", means, "a number for each column, such as {'age': 40}")
    known = {name: _range(aggregate, name) for name, aggregate in _informative_aggregates(query).items()}
    bounds = {name: ends for name, ends in known.items() if ends is not None}
    found = {}
    for name, given in (means or {}).items():
        if name not in bounds:
            near = nearest(name, bounds) if isinstance(name, str) else None
            hint = f"; did you mean {near!r}?" if near else f". There are: {', '.join(bounds) or 'none'}"
            raise QueryError(f"means: {shown(name)} is not a column with bounds in this question{hint}")
        (low, high), mean = map(Fraction, bounds[name]), as_fraction(given, f"means of {name}")
        if not low < mean < high:
            within = " and ".join(f"{end:g}" for end in bounds[name])
            raise ParameterError(f"means of {name}", given, f"between its bounds, {within}")
        found[name] = float(min((high - mean) / (mean - low), _STEEPEST))
    return found


def simulated_rows(
    query: Query,
    units: int,
    rows: int,
    shift: float = 0.0,
    at: float | None = None,
    powers: Mapping[str, float] | None = None,
) -> SimulatedRows:
    """Return the rows of a simulated group, with values spread evenly between the bounds.

    Args:
        query: what is asked; its columns get values, and none is missing.
        units, rows: how many.
        shift: of the middle, as a part of the bounds: there values are spread as evenly, but are others, and
            toward one end they are denser than toward the other.
        at: where all values lie, from 0, the lower bound, to 1, the upper one; by default between these.
        powers: by column, the power of what is spread evenly, as `fit_powers` returns it.
    """
    count = units * rows
    columns: dict[str, pa.Array] = {}
    for name, aggregate in _informative_aggregates(query).items():
        spread = _spread(count, len(columns), shift) if at is None else np.full(count, at)
        if at is None and powers is not None:
            spread = spread ** powers.get(name, 1.0)
        columns[name] = _values(aggregate, name, query.schema[name], spread)
    unit = "unit"
    while unit in columns:
        unit = f"_{unit}"
    return SimulatedRows(pa.table({unit: np.repeat(np.arange(units), rows), **columns}), unit)


def width(query: Query) -> int:
    """Return the number of values of one simulated row."""
    return sum(getattr(aggregate, "length", 1) for aggregate in _informative_aggregates(query).values())


def _informative_aggregates(query: Query) -> dict[str, Aggregate]:
    """Return for each column of simulated rows the aggregate that tells most about its values."""
    found: dict[str, Aggregate] = {}
    for _, aggregate in query.measured:
        for column in aggregate.each.columns:
            of = _strip_weights(aggregate.each, column)
            if column not in found or _range(of, column) is not None:
                found[column] = of
    return found


def _strip_weights(aggregate: Aggregate, column: str) -> Aggregate:
    """Return the aggregate that a simulated column's values follow from, without its weights."""
    if isinstance(aggregate, Weighted) and column != aggregate.weights.column:
        return aggregate.aggregate
    return aggregate


def _range(aggregate: Aggregate, column: str) -> tuple[float, float] | None:
    """Return the range of a simulated column's values, if an aggregate bounds them."""
    if isinstance(aggregate, OfColumns):
        return next((float(low), float(high)) for name, low, high in aggregate.blocks if name == column)
    if isinstance(aggregate, Weighted):
        return 0.0, float(aggregate.weights.most)
    if isinstance(aggregate, InBins) and not isinstance(aggregate.bins, Listed):
        return _between(aggregate.bins.edges)
    lower, upper = getattr(aggregate, "lower", None), getattr(aggregate, "upper", None)
    return None if lower is None or upper is None else (float(lower), float(upper))


def _between(edges: Sequence[float]) -> tuple[float, float]:
    """Return a finite range of simulated values around the finite edges of bins."""
    known = [edge for edge in edges if math.isfinite(edge)] or [0.0]
    apart = (known[-1] - known[0]) / len(known) or 1.0
    low, high = (
        known[end] if math.isfinite(edges[end]) else known[end] + s * apart for end, s in ((0, -1), (-1, 1))
    )
    return (low, high) if math.isfinite(high - low) else (0.0, 1.0)


def _spread(count: int, which: int, shift: float) -> NDArray[np.float64]:
    # Multiples of an irrational number, modulo 1: evenly spread, and columns apart from each other. No square
    # leaves 5 when it is divided by 8.
    spread: NDArray[np.float64] = np.mod((np.arange(count) + 0.5) * (math.sqrt(5 + 8 * which) % 1), 1)
    return spread + 4 * shift * spread * (1 - spread)


def _values(aggregate: Aggregate, name: str, column: Column, spread: NDArray[np.float64]) -> pa.Array:
    count = len(spread)
    bins: Any = aggregate.bins if isinstance(aggregate, InBins) and name == aggregate.column else None
    if isinstance(bins, Listed):
        chosen = np.minimum((spread * len(bins.values)).astype(int), len(bins.values) - 1)
        return pa.array([bins.values[i] for i in chosen.tolist()])
    if isinstance(aggregate, VectorSum):
        flat = pa.array(np.tile(spread[:, None] * 0, (1, aggregate.length)).ravel())
        return pa.FixedSizeListArray.from_arrays(flat, aggregate.length)
    low, high = _range(aggregate, name) or (0.0, 1.0)
    if column.kind is Kind.BOOLEAN:
        return pa.array(spread < 0.5)
    if column.kind is Kind.INTEGER:
        between = np.clip(low + spread * (high - low), -_LARGEST, _LARGEST)
        return pa.array(np.rint(between).astype(np.int64))
    if column.kind is Kind.REAL:
        return pa.array(low + spread * (high - low))
    return pa.array([f"value {i}" for i in range(count)])


MAX_ROWS, MAX_VALUES = 1_000_000, 10_000_000  # made up for one group
_FINE = Fraction(1 << 30)  # grid steps: a scale at which rounding does not matter, and all numbers fit
FEW, MANY = 40, 2000  # made-up groups: of which the middle bar is shown, and errors
# Of which the middle of values is moved, as a part of the bounds: places near no number that is very round.
SHIFTS = (-0.0437, -0.0161, 0.0189, 0.0472)


def bars(
    plan: Plan,
    engine: Engine[Any],
    units: int,
    rows: int,
    confidence: float,
    powers: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Return the median half-width of each output's error bar, in simulated groups of one size.

    Args:
        plan: of the release.
        engine: what evaluates its question.
        units, rows: of a group, and of each unit in it.
        confidence: of the error bars.
        powers: of values by column, as `fit_powers` returns it.
    """
    return SimulatedGroups.draw(plan, engine, units, rows, FEW, powers=powers).bars(confidence)


@dataclass(frozen=True)
class SimulatedGroups:
    """Simulated groups with the noise of a plan; they contain no row, and are released nowhere.

    They are all alike. But how far off a quantile is hangs on how near it is to a round number, so that for
    quantiles there are groups of several kinds, in which it is not at the same place.

    Args:
        plan: of the release.
        noisy: batches of such groups, each of one kind.
        exact: the outputs without noise, of each batch.
        numbers: the numbers without noise, of each batch, as of one group.
    """

    plan: Plan
    noisy: tuple[NoisyBatch, ...]
    exact: tuple[Mapping[str, float | None], ...]
    numbers: tuple[Mapping[str, Floats], ...]

    @classmethod
    def draw(
        cls,
        plan: Plan,
        engine: Engine[Any],
        units: int,
        rows: int,
        count: int,
        at: float | None = None,
        powers: Mapping[str, float] | None = None,
    ) -> SimulatedGroups:
        """Draw the noise of simulated groups, with the same seed each time.

        Args:
            plan, engine, units, rows, count, powers: as of `bars`, and how many groups.
            at: where all values lie, from 0, the lower bound, to 1, the upper one; by default between these.
        """
        most = min(MAX_ROWS, MAX_VALUES // max(1, width(plan.query)))
        if units * rows > most:
            form = f"at most {most:,} rows in a group" + (", of so many columns" if most < MAX_ROWS else "")
            raise ParameterError("units", units, form)
        shifts = SHIFTS if any(e.kind == "quantile" for e in plan.requirements.estimates) else (0.0,)
        words, found = SeededWords(0), list[tuple[NoisyBatch, Any, Any]]()
        for shift in shifts:
            made = simulated_rows(plan.query, units, rows, shift, at, powers)
            each = math.ceil(count / len(shifts))
            measurement, batch, draws = _batch(plan, engine, made, each, kept=len(shifts) == 1)
            numbers = _numbers(plan, measurement.columns(batch))
            exact = _exact(plan, numbers, made)
            found += [(measurement.draw(batch, words), exact, numbers) for _ in range(draws)]
        noisy, exacts, of_one = zip(*found, strict=True)
        return cls(plan, noisy, exacts, of_one)

    @property
    def draws(self) -> dict[str, Floats]:
        """The noise of each statistic in the simulated groups, in its own unit."""
        pairs = list(zip(self.noisy, self.numbers, strict=True))
        return {
            n: np.concatenate([b.numbers.values[n] - own[n] for b, own in pairs]) for n in self.numbers[0]
        }

    def bars(self, confidence: float) -> dict[str, float]:
        """Return the median half-width of each output's error bar over the simulated groups."""
        found = [batch.half_widths(confidence) for batch in self.noisy]
        return {n: float(np.median(self._numbers(found, n))) for n in self.plan.query.output_names}

    def errors(self, confidence: float) -> dict[str, float]:
        """Return the quantile, at this confidence, of each output's error over the simulated groups.

        Those of which no exact one is known are left out.
        """
        released, found = [batch.outputs() for batch in self.noisy], {}
        for name, known in self.exact[0].items():
            if known is not None:
                off = np.abs(self._numbers(released, name, [exact[name] for exact in self.exact]))
                off = np.where(np.isnan(off), np.inf, off)
                found[name] = float(np.quantile(off, confidence, method="higher"))
        return found

    def _numbers(
        self, batches: Sequence[pa.RecordBatch], name: str, less: Sequence[float | None] | None = None
    ) -> Floats:
        """Return an output of all simulated groups, less a number for each batch."""
        found = []
        for batch, noisy, away in zip(batches, self.noisy, less or [0.0] * len(batches), strict=True):
            column = batch.column(name)
            values = column.flatten() if pa.types.is_fixed_size_list(column.type) else column
            numbers = np.array(values.to_pylist(), np.float64).reshape(batch.num_rows, -1)
            if (totals := self.plan.measurement.totals) is not None:  # groups, and not their totals
                bits = totals.bits(_finest(totals), len(self.plan.query.keys))
                numbers = numbers[np.array(noisy.keys.column(GROUPING).to_pylist()) == bits]
            found.append(numbers.ravel() - (away or 0.0))
        return np.concatenate(found)


class _ReusedNoise(SideBySide):
    """Noise drawn once for simulated groups of all sizes, and scaled for other budgets if possible."""

    def rounded(self, words: Words | None = None) -> NDArray[np.int64]:
        noise = self.noise
        if not isinstance(noise, JointNoise):
            return _drawn_once(noise, self.size)
        # K-norm noise of another budget is the same with other scales: drawn at fine ones, and scaled.
        drawn = _drawn_once(replace(noise, scales=(_FINE,) * len(noise.scales)), self.size)
        factors = np.array([[float(scale / _FINE)] for scale in noise.scales])
        scaled: NDArray[np.int64] = np.rint(drawn * factors).astype(np.int64)
        return scaled


@lru_cache(maxsize=4)
def _drawn_once(noise: Any, size: int) -> NDArray[np.int64]:
    drawn = SideBySide(noise, size).rounded(SeededWords(0))
    drawn.flags.writeable = False
    return drawn


def _batch(
    plan: Plan, engine: Engine[Any], made: SimulatedRows, count: int, kept: bool
) -> tuple[GroupMeasurement, pa.RecordBatch, int]:
    """Return the exact statistics of equal simulated groups, and how often to draw their noise.

    Args:
        plan, engine, made, count: what is asked, of what, and of how many groups.
        kept: whether noise that is drawn for all groups at once may be the same in all batches.
    """
    query, measurement = plan.query, replace(plan.measurement, selection=None)
    asked = replace(
        plan.exact, steps=(), unit=made.unit, keys=(), public_keys=None, groups=1, scaled=False,
        total_rows=None,
    )  # fmt: skip
    (one,) = engine.with_rows(made.table).statistics(asked, 1)
    keys: list[Any] = []
    each, draws = count, 1
    noise: Any = measurement.noise
    if measurement.at_once:
        each = noise.groups
        draws = math.ceil(count / each)
        if measurement.series is None and measurement.totals is None:
            copies: Any = (_ReusedNoise if kept else SideBySide)(noise, draws)
            measurement, each, draws = replace(measurement, noise=copies), each * draws, 1
        else:  # which have keys
            public: Any = query.public_keys
            keys = [column.combine_chunks() for column in public.columns]
    keys = keys or [pa.nulls(each, pa.int64()) for _ in query.keys]
    numbers = [column.take(pa.array(np.zeros(each, np.int64))) for column in one.columns]
    if measurement.totals is not None:
        numbers = [_in_one_cell(column, measurement.totals) for column in numbers]
    names = [f"c{i}" for i in range(len(keys) + len(numbers))]
    return measurement, pa.RecordBatch.from_arrays([*keys, *numbers], names=names), draws


def _finest(totals: Totals) -> int:
    """Return the level of totals that simulated groups stand for: the shown one with the most keys."""
    return max(totals.shown, key=lambda level: len(totals.rollup.sets[level]))


def _in_one_cell(column: pa.Array, totals: Totals) -> pa.Array:
    """Put all units of a simulated total into one of its groups, if only totals are shown."""
    codes = totals.rollup.codes[_finest(totals)]
    first = np.zeros(len(codes), bool)
    first[np.unique(codes, return_index=True)[1]] = True
    import pyarrow.compute as pc

    return pc.if_else(pa.array(first), column, pa.scalar(0).cast(column.type))


def _numbers(plan: Plan, columns: Mapping[str, pa.Array]) -> dict[str, Floats]:
    """Return the exact statistics of one simulated group."""
    return {
        c.name: Int128Array.from_arrow(columns[c.name][:1]).scaled(c.step)
        for s in plan.requirements.statistics
        if not s.listed
        for c in s.coordinates
        if c.name in columns
    }


def _exact(plan: Plan, values: Mapping[str, Floats], made: SimulatedRows) -> dict[str, float | None]:
    """Return the exact outputs of a simulated group; None for cumulative totals."""
    numbers = NoisyNumbers(values, {}, plan.laws, plan.steps, noise=plan.measurement.noise)
    found: dict[str, float | None] = {}
    for e in plan.requirements.estimates:
        if e.kind == "quantile":
            column = dict(plan.query.aggregates)[find_aggregate_name(plan.query, e.name)].columns[0]
            found[e.name] = float(
                np.quantile(np.array(made.table[column].to_pylist(), float), e.rank, method="inverted_cdf")
            )
        elif e.entries:
            found[e.name] = 0.0  # vectors of zeros were made up
        elif e.kind == "cumulative total":
            found[e.name] = None
        else:
            found[e.name] = float(e.value(numbers)[0])
    return found


def find_aggregate_name(query: Query, output: str) -> str:
    """Return the name of the aggregate that gives an output of simulated groups."""
    return next(name for name, a in query.aggregates if output in a.outputs(name))
