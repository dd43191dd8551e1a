"""A release of a query: the one place where exact statistics meet noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.budget.epsilon_delta import ExactCost
from sfumato.display.cards import Card
from sfumato.display.formatting import visible
from sfumato.display.progress import find_progress, notebook_bar
from sfumato.errors import ParameterError, QueryError, RefusalError, in_own_words
from sfumato.noise import Words
from sfumato.noise.law_tails import Floats
from sfumato.plan.noisy_statistics import NoisyBatch
from sfumato.plan.plan import Described, Plan, certify_plans
from sfumato.plan.serialization import DetachedEngine, table_bytes, table_from_bytes
from sfumato.query import sizes
from sfumato.query.aggregates import CountPrivacyUnits, CountRows, Estimate, Mean
from sfumato.query.aggregates.estimate import nullable_column
from sfumato.query.engine_protocol import Evaluator
from sfumato.query.error_bars import NO_STANDARD_ERROR, Bars, Bias, check_confidence, check_error_names
from sfumato.query.inferred_parameters import Found
from sfumato.release import release_files
from sfumato.release.canonical_form import canonical
from sfumato.release.group_comparison import Comparison, compare_groups, shares
from sfumato.release.noisy_table import NO_LISTS, NoisyTable, make_draw_error
from sfumato.release.release_display import release_card, release_facts

if TYPE_CHECKING:
    from sfumato.guidance.diagnostics import Diagnostics
    from sfumato.plan.explanation import Explanation
    from sfumato.query.query import Query
    from sfumato.release.chart import Chart
    from sfumato.release.sampling_error import Sampled


_NOT_KEPT = (
    "errors: this release was streamed to a file, and its noisy statistics were not kept. Call "
    "to_arrow() before write(), or write(..., confidence=0.95)"
)


class Release(NoisyTable):
    """A noisy table that is safe to publish, with its error bars, explanation and cost.

    `Question.release` returns it.

    The noise is drawn once, on first access, and every later access returns the same numbers. `write`
    streams; a release that was only written is read back from its file. A forked process sees the numbers
    that were drawn before the fork and cannot draw any itself. A drawn release can be copied and pickled;
    copies never draw.

    Args:
        plan: the plan to carry out.
        engine: the engine that reads the rows.
        confidence: add error bars of this confidence, in columns named `<output>_error`.
        unsafe_words: a source of random words for tests; with any but the secure source the result is not
            private.
    """

    def __init__(
        self,
        plan: Plan,
        engine: Evaluator,
        *,
        confidence: float | None = None,
        unsafe_words: Words | None = None,
    ) -> None:
        if confidence is not None:
            check_error_columns(plan, confidence)
        if unsafe_words is not None and not isinstance(unsafe_words, Words):
            raise ParameterError("unsafe_words", unsafe_words, "a Words of sfumato.noise, in tests alone")
        certify_plans([plan])
        super().__init__(engine)
        self.plan: Plan = plan
        self.confidence = confidence
        self._words = unsafe_words
        self._diagnostics = None if plan.diagnostics is None else plan.diagnostics.release(unsafe_words)
        self._batches: list[NoisyBatch] | None = None
        self._started = False
        # Where to, and what tells that file from any other.
        self._written: tuple[Path, tuple[int, ...]] | None = None

    @property
    def _plans(self) -> tuple[Described, ...]:
        """The plan of all that the release draws."""
        return (self.plan,)

    @property
    def _spent(self) -> ExactCost:
        return self.plan.spent

    @property
    def diagnostics(self) -> Diagnostics | None:
        """The diagnostics of limits and bounds, if `diagnostics=` was given; drawn on first access.

        `spent` includes their cost, whether or not they are accessed.
        """
        return self._diagnostics

    @property
    def found(self) -> tuple[Found, ...]:
        """The parameters that the release inferred, such as bounds, with their costs."""
        return self.plan.found

    @property
    def drawn(self) -> bool:
        """Whether the noise of the release has been drawn."""
        return self._batches is not None or self._written is not None

    def to_arrow(self) -> pa.Table:
        """Return the released table: key columns, then the outputs, sorted by key.

        Returns:
            An Arrow table.
        Raises:
            RefusalError: it was written to a file that is gone or has changed.
        """
        with self._turn():
            if self._table is None:
                if self._written is not None:
                    self._table = release_files.read(*self._written, self._types)
                else:
                    bars = None if self.confidence is None else self.bars
                    batches = list(self._outputs(self._draw_all(), bars, 1))
                    self._table = pa.Table.from_batches(batches).combine_chunks()
            self._table = self._with_metadata(self._table, None if self.confidence is None else self.bars)
        return self._table

    def _errors(self, bars: Bars) -> pa.Table:
        """Return the release's error bars: the keys, and one for each output."""
        self._check_kind(bars)
        batches = self._kept()
        error_bars = self._error_bars(bars, self._among(bars, batches))
        return pa.Table.from_batches(list(map(error_bars, batches))).combine_chunks()

    def _error_bars(self, bars: Bars, among: int) -> Callable[[NoisyBatch], pa.RecordBatch]:
        """Return the function that computes the keys and error bars of a batch.

        Args:
            bars: the kind of error bars.
            among: of half-widths, how many hold at once.
        """
        if bars.standard:
            return _standard_errors
        sampled = self._sampling_bars(bars)
        half_widths = NoisyBatch.half_widths if sampled is None else sampled.half_widths
        return lambda batch: half_widths(batch, bars.confidence, among)

    def _sampling_bars(self, bars: Bars) -> Sampled | None:
        """Return the release's error bars with sampling error; None if they are of the noise alone.

        Raises:
            QueryError: no output has such bars.
        """
        if not bars.sampling:
            return None
        from sfumato.release.sampling_error import Sampled  # SciPy's laws take long to import

        return Sampled(self.plan)

    def _grouped(self, method: str) -> Release:
        return self

    def _compared(self, output: str, first: object, second: object, bars: Bars) -> Comparison:
        sampled = self._sampling_bars(bars)
        return compare_groups(self._kept(), output, first, second, bars, self.bias, sampled)

    def _shares(self, output: str, bars: Bars) -> pa.Table:
        sampled = self._sampling_bars(bars)
        return shares(self._kept(), output, bars, self.bias, sampled)

    def _kept(self) -> list[NoisyBatch]:
        """Return the noisy batches of the release; draw them if they were not."""
        with self._turn():
            if self._written is not None and self._batches is None:
                raise RefusalError(_NOT_KEPT)
            return self._draw_all()

    def _write(self, target: Path, bars: Bars | None, check: Callable[[], object]) -> None:
        own = None if self.confidence is None else self.bars
        bars = own if bars is None else bars
        with self._turn():
            among = 1
            if bars is not None and bars.simultaneous and self._written is None:
                among = self._among(bars, self._draw_all())
            kept = self._batches
            if kept is None and self._written is not None:
                if bars != own:
                    raise RefusalError(_NOT_KEPT)
                # Kept, as the file may be the one that is replaced.
                if self._table is None:
                    self._table = release_files.read(*self._written, self._types)
                self._write_batches(target, iter(self._table.to_batches()), bars, check)
                return
            written = self._write_batches(target, self._outputs(kept, bars, among), bars, check)
            if kept is None:
                self._written = target, written
                self._drew(None)

    def _noisy_numbers(self) -> Any:
        """Return the noisy statistics of the release; None where they were streamed to a file."""
        return None if self._batches is None else [batch.kept for batch in self._batches]

    def _restore(self, state: Any) -> None:
        """Have the noisy statistics that a release of the same query had."""
        self._started = True
        self._batches = [NoisyBatch.from_state(self.plan.measurement, one) for one in state]
        for one in self._batches:
            one.outputs()  # so that numbers of another query show before they are looked at

    @property
    def _repeatable(self) -> bool:
        """Whether a journal may give the same numbers once more: not without diagnostics, which it lacks."""
        return self._diagnostics is None

    def _state(self) -> dict[str, Any]:
        """Return the release for another process: plan, noisy statistics or streamed table, and no rows."""
        engine = DetachedEngine.from_engine(self._engine, self.plan.query.steps)
        state = super()._state() | {"plan": self.plan, "engine": engine, "confidence": self.confidence}
        return state if self._batches is not None else state | {"streamed": table_bytes(self.to_arrow())}

    def _set_state(self, state: Mapping[str, Any]) -> None:
        """Become the finished release that `_state` describes."""
        plan = state["plan"]
        # Diagnostics stay where they were drawn; their cost is that of the plan.
        Release.__init__(
            self, replace(plan, diagnostics=None), state["engine"], confidence=state["confidence"]
        )
        self.plan = plan
        super()._set_state(state)
        if "streamed" in state:
            self._table = table_from_bytes(state["streamed"])
            self._started, self._written = True, (Path("elsewhere"), ())

    @property
    def _unsafe(self) -> bool:
        return self._words is not None or self._was_unsafe

    def canonical(self) -> dict[str, Any]:
        """Return the canonical form of the release's query."""
        return canonical(self.plan, self._engine)

    def _check_bars(self, bars: Bars) -> None:
        """Refuse error bars that cannot be written beside the outputs of the release."""
        check_error_columns(self.plan, bars.confidence, bars.suffix)
        self._check_kind(bars)

    def _check_kind(self, bars: Bars) -> None:
        """Refuse standard errors, or error bars with sampling error, if no output of the release has them."""
        self._sampling_bars(bars)
        if bars.standard and not any(e.has_standard_error for e in self.plan.requirements.estimates):
            raise QueryError(NO_STANDARD_ERROR.format(", ".join(self.plan.query.output_names)))

    def _with_bars(self, bars: Bars) -> pa.Table:
        """Return the released table with error bars, as `write` writes it."""
        batches = self._kept()
        return pa.Table.from_batches(list(self._outputs(batches, bars, self._among(bars, batches))))

    def _check_lists(self, path: Path) -> None:
        """Refuse a file without place for lists if an output of the release is a list."""
        for estimate in self.plan.requirements.estimates:
            if estimate.entries and path.suffix.lower() in NO_LISTS:
                wanted = f".parquet or .json, as CSV and Excel have no lists, and {estimate.name} is one"
                raise ParameterError("output path", str(path), wanted)

    @property
    def _types(self) -> dict[str, pa.DataType]:
        """The types of the release's outputs and error bars, which texts in a file do not have."""
        estimates = self.plan.requirements.estimates
        shown = {e.name: e.type for e in estimates}
        taken = {*shown, *self.plan.query.shown_keys}
        errors = {f"{e.name}_error": e.error_type for e in estimates}
        return shown | {name: kind for name, kind in errors.items() if name not in taken}

    def _outputs(
        self, batches: list[NoisyBatch] | None, bars: Bars | None, among: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the outputs of the release; draw the noise, if it was not, once the file is there."""
        error_bars = None if bars is None else self._error_bars(bars, among)
        names = [e.name for e in self.plan.requirements.estimates if e.has_standard_error]
        for batch in self._draw() if batches is None else batches:
            if bars is None or error_bars is None:
                yield batch.outputs()
                continue
            found = error_bars(batch)
            shown = names if bars.standard else self.plan.query.output_names
            yield batch.with_error_bars({name: found[name] for name in shown}, bars.suffix)

    @property
    def hints(self) -> tuple[str, ...]:
        """Signs in the released numbers that the query may not be the intended one; free of charge.

        There is a sentence for each sign: public keys whose count is no more than its error bar, and means at
        a bound of their values. It is None if the release was streamed to a file.
        """
        with self._turn():
            if self._written is not None and self._batches is None:
                return ()
            return tuple(map(visible, hints(self.plan, self._draw_all())))

    def _chart(self, bars: Bars, summary: str = "") -> Chart:
        """Return the chart of the release as plain data, with an additional line below."""
        from sfumato.release.chart import Chart

        return Chart.from_release(self, bars, summary)

    def explain(self) -> Explanation:
        """Return the explanation of the release: each step with its bounds, noise and budget share."""
        return self.plan.explain()

    @property
    def made(self) -> pa.Table | None:
        """The released table if it is drawn and in memory, otherwise None."""
        return None if self._table is self._batches is None else self.to_arrow()

    @property
    def measured(self) -> list[str]:
        """The outputs with error bars; none if the release was streamed to a file."""
        streamed = self._written is not None and self._batches is None
        return [] if streamed else list(self.plan.query.output_names)

    @property
    def _query(self) -> Query:
        """The query of the release."""
        return self.plan.query

    @property
    def bars(self) -> Bars:
        """The error bars that the release was asked for, or those at a confidence of 0.95."""
        return Bars(0.95 if self.confidence is None else self.confidence, sampling=self.plan.sampling)

    @property
    def bias(self) -> Bias:
        """The bias that limits and bounds can cause in the release, which error bars do not include."""
        return self.plan.bias

    def _card(self) -> Card:
        made, query = self.made, self.plan.query
        groups = None if made is None else made.num_rows
        bars = self.bars if made is not None and self.measured else None
        notes = [*self.plan.notes, *(self.hints if made is not None else ())]
        said = [*release_facts(self, groups, bars), *(("note", note) for note in notes)]
        return release_card(self, said, query.shown_keys)

    @property
    def _subject(self) -> str:
        return ", ".join([*self.plan.query.shown_keys, *self.plan.query.output_names])

    def _among(self, bars: Bars, batches: list[NoisyBatch]) -> int:
        """Return how many numbers of the release the confidence of error bars is for, together."""
        each = sum(e.entries or 1 for e in self.plan.requirements.estimates) if bars.simultaneous else 1
        rows = sum(int(b.keys.num_rows) for b in batches)
        return rows * each or 1 if bars.simultaneous or bars.selected else 1

    def _draw_all(self) -> list[NoisyBatch]:
        if self._batches is None:
            with notebook_bar("Reading rows, adding noise", find_progress(self, self._engine)):
                self._batches = list(self._draw())
            self._drew(sum(batch.keys.num_rows for batch in self._batches))
        return self._batches

    def _draw(self) -> Iterator[NoisyBatch]:
        """Draw the noise of the release, at most once and in one process: a second draw would leak."""
        self._check_home()
        if self._started:
            raise RefusalError(
                "this release is being drawn, or failed while its noise was drawn, and a second draw "
                "would spend a second budget. Use it when it is finished, or make a new release"
            )
        self._started = True
        return self._drawn()

    def _drawn(self) -> Iterator[NoisyBatch]:
        plan = self.plan
        trees = any(s.listed for s in plan.exact.statistics)
        with self._telling(), in_own_words(make_draw_error, Exception):
            batches = self._engine.statistics(plan.exact, sizes.BATCH_TREES if trees else sizes.BATCH_GROUPS)
            for batch in join_batches(batches) if plan.measurement.at_once else batches:
                noisy = self._noisy(batch)
                self._check_home()  # a handler of a signal may have forked in the middle: the child stops
                yield noisy

    def _noisy(self, batch: pa.RecordBatch) -> NoisyBatch:
        return self.plan.measurement.draw(batch, self._words)


def join_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make one batch of all exact statistics, for noise that is drawn for all groups together."""
    yield pa.Table.from_batches(list(batches)).combine_chunks().to_batches()[0]


def _standard_errors(batch: NoisyBatch) -> pa.RecordBatch:
    """Return the keys of a batch and its standard errors; NULL where an output has none."""
    found = {}
    for e in batch.measurement.requirements.estimates:
        if e.has_standard_error:
            found[e.name] = nullable_column(e.standard_error(batch.numbers))
        else:
            found[e.name] = pa.nulls(batch.keys.num_rows, e.error_type)
    return batch.with_keys(found)


def check_error_columns(plan: Plan, confidence: object, suffix: str = "_error") -> None:
    """Check that error bars can stand beside the outputs, in columns named `<output>_error`.

    Args:
        plan: of the release.
        confidence: of the error bars.
        suffix: of the names.
    Raises:
        ParameterError: confidence is not in (0, 1).
        QueryError: a name is taken.
    """
    check_confidence(confidence)
    query = plan.query
    check_error_names(query.output_names, [*query.shown_keys, *query.output_names], suffix)


CONFIDENCE = 0.95
_NARROW = 0.1  # an error bar with more of the bounds' width tells nothing of where most values are


def hints(plan: Plan, batches: Sequence[NoisyBatch]) -> tuple[str, ...]:
    """Return a sentence for each sign in a release that its query is not what was meant.

    Args:
        plan: of the release.
        batches: its noisy numbers.
    """
    found: list[str] = []
    asked = dict(plan.query.aggregates)
    for estimate in plan.requirements.estimates:
        # One count tells of the keys; a bin may be empty in groups that are not.
        counts = isinstance(asked.get(estimate.name), CountRows | CountPrivacyUnits)
        if counts and isinstance(plan.query.public_keys, pa.Table):
            found += _unmatched(estimate, batches)
            break
    for estimate in plan.requirements.estimates:
        aggregate = asked.get(estimate.name)
        # An answer is yes or no: all of one kind is nothing that was cut.
        if isinstance(aggregate, Mean) and not aggregate.lower == 0 == aggregate.upper - 1:
            found += _clamping_hint(estimate, aggregate, batches)
    return tuple(found)


def _unmatched(estimate: Estimate, batches: Sequence[NoisyBatch]) -> list[str]:
    """Return a hint on public groups whose released count may be noise alone."""
    empty = of = 0
    for batch in batches:
        shown, half = _shown(estimate, batch)
        empty, of = empty + int((shown <= half).sum()), of + len(shown)
    if not empty:
        return []
    number = "the only public group" if of == 1 else f"{empty:,} of {of:,} public groups"
    return [
        f"{estimate.name} is no more than its error bar in {number}, so the keys may match few "
        "rows or none. If they should match, check their spelling, type and time zone."
    ]


def _clamping_hint(estimate: Estimate, aggregate: Mean, batches: Sequence[NoisyBatch]) -> list[str]:
    """Return a hint on a released mean that is at a bound of its values."""
    width = estimate.upper - estimate.lower
    at = {"lower": 0, "upper": 0}
    of = 0
    for batch in batches:
        shown, half = _shown(estimate, batch)
        told = half < _NARROW * width
        of += len(shown)
        at["lower"] += int((told & (shown - half <= estimate.lower)).sum())
        at["upper"] += int((told & (shown + half >= estimate.upper)).sum())
    return [
        f"{estimate.name} is {side}={float(getattr(aggregate, side)):g} within its error bar"
        f"{'' if of == 1 else f' in {number:,} of {of:,} groups'}: most values of {aggregate.column} may be "
        "clamped to that bound. If more are possible, ask with wider bounds."
        for side, number in at.items()
        if number
    ]


def _shown(estimate: Estimate, batch: NoisyBatch) -> tuple[Floats, Floats]:
    """Return a released output and its error bar."""
    value = estimate.output(batch.numbers).to_numpy(zero_copy_only=False).astype(float)
    return value, estimate.half_width(batch.numbers, CONFIDENCE)
