"""A release as a Beam transform: two combines by shard, and DuckDB inside the workers.

    rows -> Arrow batches -> parts of shards of units -> totals -> parts of shards of groups -> noisy groups

Beam moves opaque parts between machines, and puts them together by `CombineFn`s that add them up wherever
they meet, before the shuffle too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from sfumato.engines.beam.engine import SHARDS, BeamEngine
from sfumato.engines.beam.rows import Columns
from sfumato.engines.duckdb.stages import Payload, Stages
from sfumato.engines.work import Work
from sfumato.errors import ParameterError, QueryError, RefusalError
from sfumato.exact import positive_int
from sfumato.query.explanation import Explanation
from sfumato.query.plan import Plan
from sfumato.query.table import Question

# Rows wait as Python objects, then as Arrow columns, before DuckDB sums them.
BATCH_ROWS, WAITING_BYTES = 1 << 16, 1 << 25
# Parts of a shard are added up when so much came since the last time.
JOIN_BYTES, JOIN_PARTS = 1 << 25, 1 << 10
# Before a shuffle less is worth it.
SHUFFLE_BYTES = 1 << 20

Part = tuple[int, bytes]


class PlannedRelease(beam.PTransform):  # type: ignore[misc]
    """The transform of one release. Made by `Question.release` and `sfumato.beam.Release`.

    A pipeline that runs again, or a worker that repeats its work, draws the same noise for the same rows.
    Where the rows are others a second run would be a second release, so apply it to one collection and run
    that pipeline on one state of the data.

    Args:
        plan: what to do.
        confidence: also give error bars, under the names `<output>_error`.
        shards: into how many parts units, and groups, are divided; one for each ten million pairs of unit
            and group keeps them small.
    """

    def __init__(self, plan: Plan, *, confidence: float | None = None, shards: int = SHARDS) -> None:
        super().__init__()
        engine = plan.question.table.engine
        if not isinstance(engine, BeamEngine):
            raise QueryError(
                f"Release: the question is about rows on {engine.name}; for rows of a pipeline begin with "
                "sf.scan(pa.schema([...]), privacy_unit=...)"
            )
        self.plan = plan
        self._work = engine.work(plan, confidence, positive_int(shards, "shards"))
        self._lock, self._applied = threading.Lock(), False

    def default_label(self) -> str:
        """Return the name in a pipeline; a second release there needs another: `"name" >> release`."""
        return "Release"

    @property
    def spent(self) -> tuple[float, float]:
        """The budget (epsilon, delta) that the release stays within."""
        return float(self.plan.epsilon), float(self.plan.delta)

    def explain(self) -> Explanation:
        """Return each step with its bounds, noise scale and share of the budget."""
        explanation: Explanation = self.plan.explain()
        return explanation

    def expand(self, rows: beam.PCollection) -> beam.PCollection:
        """Give a collection of dictionaries, one for each released group."""
        check_collection(rows)
        with self._lock:
            if self._applied:
                raise RefusalError(
                    "Release: this release was applied before, and is paid for once; make another with "
                    "question.release(...) for another collection"
                )
            self._applied = True
        work = self._work
        released = beam.FlatMapTuple(lambda shard, parts: _dictionaries(work, shard, parts))
        return exact_parts(rows, work.stages) | "Release" >> released.with_output_types(dict[str, Any])


def Release(
    question: Question, *, confidence: float | None = None, shards: int = SHARDS, **options: Any
) -> PlannedRelease:
    """Release the answer to a question about the rows of a collection.

    Args:
        question: begun with `sf.scan(pa.schema([...]), privacy_unit=...)`.
        confidence: also give error bars of this confidence, under the names `<output>_error`.
        shards: into how many parts units, and groups, are divided.
        options: epsilon, delta, noise, group_selection and pre_threshold, as for `Question.release`.
    Returns:
        A transform: `rows | Release(question, epsilon=1, delta=1e-6)` is a collection of dictionaries.
    Raises:
        QueryError, BudgetError: before a pipeline is run, and nothing is spent.
    """
    if not isinstance(question, Question):
        raise ParameterError("question", question, "what .agg(...) gives: sf.scan(...).agg(n=sf.count())")
    return PlannedRelease(question.plan(**options), confidence=confidence, shards=shards)


def check_collection(rows: object) -> None:
    """Refuse what a release is not defined on."""
    if not isinstance(rows, beam.PCollection):
        raise QueryError(f"Beam: a release is of one collection, not of a {type(rows).__name__}")
    if not isinstance(rows.windowing.windowfn, GlobalWindows) or not rows.is_bounded:
        raise QueryError(
            "Beam: the collection has windows or no end. A unit's limits hold for a whole release; put "
            "beam.WindowInto(beam.window.GlobalWindows()) before it, and release one bounded collection"
        )


def exact_parts(rows: beam.PCollection, stages: Stages) -> beam.PCollection:
    """Return (shard of groups, its parts), for every shard, also where nothing arrives."""
    empty = beam.Map(lambda shard: (shard, b"")).with_output_types(Part)
    bound = beam.FlatMapTuple(lambda _, parts: _parts(stages.totals(parts))).with_output_types(Part)
    seeds = rows.pipeline | "Shards" >> beam.Create(range(stages.group_shards)) | "Empty parts" >> empty
    totals = (
        rows
        | "Sum rows" >> beam.ParDo(SumRows(stages))
        | "Join units" >> beam.CombinePerKey(Joined(stages.joined_partials))
        | "Bound units" >> bound
    )
    parts = (totals, seeds) | beam.Flatten()
    return parts | "Join groups" >> beam.CombinePerKey(Joined(stages.joined_totals))


class SumRows(beam.DoFn):  # type: ignore[misc]
    """Gathers the rows of a bundle, by column, and sums them by unit and group."""

    def __init__(self, stages: Stages) -> None:
        self._stages, self._columns = stages, Columns(stages.rows)

    def start_bundle(self) -> None:
        """Begin with nothing."""
        self._rows: list[Any] = []
        self._batches: list[pa.RecordBatch] = []
        self._waiting = 0

    def process(self, element: Any) -> Iterable[Part]:
        """Take a row, or a batch of them."""
        if isinstance(element, (pa.RecordBatch, pa.Table)):
            for batch in self._columns.of_arrow(element):
                self._add(batch)
        else:
            self._rows.append(element)
            if len(self._rows) < BATCH_ROWS:
                return ()
            self._gather()
        return self._summed() if self._waiting >= WAITING_BYTES else ()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Sum what is left."""
        self._gather()
        for part in self._summed():
            yield GlobalWindows.windowed_value_at_end_of_window(part)

    def infer_output_type(self, input_type: Any) -> Any:
        """Return the type of parts."""
        return Part

    def _gather(self) -> None:
        if self._rows:
            self._add(self._columns.of_rows(self._rows))
            self._rows = []

    def _add(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._waiting += batch.nbytes

    def _summed(self) -> list[Part]:
        batches, self._batches, self._waiting = self._batches, [], 0
        return list(_parts(self._stages.partials(batches))) if batches else []


class Joined(beam.CombineFn):  # type: ignore[misc]
    """Puts the parts of a shard together; many small ones become few.

    An accumulator is [bytes that were added up, bytes since then, parts]. Parts are added up again when twice
    as much came since, so that all that is ever added up is at most twice what came; an accumulator is never
    larger than three times the shard's own pairs, or groups, or these and `JOIN_BYTES`.

    Args:
        join: adds parts up.
    """

    def __init__(self, join: Callable[[Iterable[bytes]], list[bytes]]) -> None:
        self._join = join

    def create_accumulator(self) -> list[Any]:
        """Begin with no part."""
        return [0, 0, []]

    def add_input(self, accumulator: list[Any], part: bytes) -> list[Any]:
        """Take a part."""
        return self._with(accumulator, [part])

    def merge_accumulators(self, accumulators: Iterable[list[Any]]) -> list[Any]:
        """Take the parts of others into a copy of the first, as a runner may merge it once more."""
        others = iter(accumulators)
        joined, fresh, held = next(others, self.create_accumulator())
        merged = [joined, fresh, [*held]]
        for _, _, parts in others:
            merged = self._with(merged, parts)
        return merged

    def compact(self, accumulator: list[Any]) -> list[Any]:
        """Add up what is to be shuffled, where that is worth it."""
        joined, fresh, parts = accumulator
        return self._added_up(parts) if len(parts) > 1 and fresh > max(SHUFFLE_BYTES, joined) else accumulator

    def extract_output(self, accumulator: list[Any]) -> list[bytes]:
        """Return the parts."""
        parts: list[bytes] = accumulator[2]
        return parts

    def _with(self, accumulator: list[Any], parts: list[bytes]) -> list[Any]:
        joined, fresh, held = accumulator
        held.extend(filter(None, parts))
        fresh += sum(map(len, parts))
        if fresh > max(JOIN_BYTES, 2 * joined) or len(held) > JOIN_PARTS:
            return self._added_up(held)
        return [joined, fresh, held]

    def _added_up(self, parts: list[bytes]) -> list[Any]:
        joined = self._join(parts)
        return [sum(map(len, joined)), 0, joined]


def _parts(payloads: Iterable[Payload]) -> Iterator[Part]:
    for payload in payloads:
        yield payload.shard, payload.data


def _dictionaries(work: Work, shard: int, parts: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for batch in work.released(shard, parts):
        yield from batch.to_pylist()
