"""A release as a Beam transform: two combines by shard, and DuckDB inside the workers.

    rows -> Arrow batches -> parts of shards of units -> totals -> parts of shards of groups -> noisy groups

Beam moves opaque parts between machines, and puts them together by `CombineFn`s that add them up wherever
they meet, before the shuffle too. In which order shards are ready, and in which bundles, depends on private
rows; so noisy groups are given out anew, shard by shard in the order of their public numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import is_not
from typing import Any, NoReturn, Self

import apache_beam as beam
import pyarrow as pa
from apache_beam.runners.runner import PipelineResult, PipelineState
from apache_beam.typehints.typehints import is_consistent_with, normalize
from apache_beam.utils.windowed_value import WindowedValue

from sfumato.api.largest_groups import Top, TopExplanation
from sfumato.engines.beam.beam_elements import KEYS, Part, ReadKeys, check_collection, in_one_window, origins
from sfumato.engines.beam.beam_rows import Columns
from sfumato.engines.duckdb.combined_stages import CombinedStages
from sfumato.engines.duckdb.stages import ForeignKeyJoin, Payload, Stages, as_stream
from sfumato.engines.worker_noise import TopWork, Work
from sfumato.errors import QueryError, RefusalError, with_article
from sfumato.ownership import process
from sfumato.plan.explanation import Explanation
from sfumato.plan.plan import Plan
from sfumato.plan.top_measurement import TopMeasurement
from sfumato.query import sizes
from sfumato.query.engine_protocol import BroughtKeys
from sfumato.release.group_comparison import only_here
from sfumato.release.payment import CanonicalForm, Charge
from sfumato.release.receipt import Receipt, receipt_elsewhere

# A shard of groups, and batches of it with their places.
Drawn = tuple[int, tuple[int, bytes]]


PRIVATE_KEYS = (
    "Beam: public keys come from the collection of private rows, but each key is shown. Pass keys "
    "that are public"
)

_COLLECTION = "a release on Beam"


class Once:
    """A Beam release's right to be applied, which whichever copy comes first takes."""

    def __init__(self) -> None:
        self._made_in, self._lock, self._done = process(), threading.Lock(), False

    def take(self) -> None:
        """Take the right to apply a Beam release.

        Raises:
            RefusalError: it was done before, or this is another process.
        """
        if (
            self._made_in != process()
        ):  # before the lock, which another thread may have held when this was forked
            raise RefusalError(
                "Release: this release belongs to the process that made it, because it is charged "
                "once. Make another with question.release(...) here"
            )
        with self._lock:
            if self._done:
                raise RefusalError(
                    "Release: this release, or a copy of it, was applied before, and it is charged "
                    "once. Make another with question.release(...) for another collection"
                )
            self._done = True


class Stays:
    """A transform that is paid for here: a copy is the same transform once more, and it is sent nowhere."""

    def __copy__(self) -> Self:
        # Beam copies transforms to give them another label.
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise RefusalError(
            f"{type(self).__name__}: it was charged in the process that made it, so it cannot be "
            "pickled or deeply copied. Apply it here, or make another there"
        )


class PlannedRelease(Stays, beam.PTransform[Any, Any]):  # type: ignore[misc]
    """The Beam transform of one release, as `Question.release` and `sfumato.beam.Release` return it.

    A pipeline that runs again, or a worker that repeats its work, draws the same noise for the same rows. On
    different rows a second run would be a second release, so apply it to one collection and run that pipeline
    on one state of the data.

    >>> import pyarrow as pa, sfumato as sf
    >>> places = sf.scan(pa.schema([("id", pa.int64())]), privacy_unit="id").agg(people=sf.count_units())
    >>> release = places.release(epsilon=1)  # rows | release, where rows are dictionaries
    >>> release.spent, release.explain().spent
    ((1.0, 0.0), ExactCost(epsilon=1, delta=0))
    """

    def __init__(
        self,
        plan: Plan[Any, Any],
        work: Any,
        form: CanonicalForm,
        collections: Mapping[int, str] | None = None,
    ) -> None:
        """Make the transform of a plan.

        Args:
            plan: what to do.
            work: what the workers do for it, a `Work` or a `TopWork`.
            form: gives the canonical form of the plan.
            collections: the names of those that it is applied to, by the numbers of their tables; None for
                one.
        """
        super().__init__()
        self.plan: Plan[Any, Any] = plan
        self._form = form
        self._work: Any = work
        self._once = Once()
        self._names_of = collections
        self.paid: tuple[Charge, ...] = ()  # what a ledger has entered for it

    def default_label(self) -> str:
        """Return the transform's name in a pipeline; a second release needs another: `"name" >> release`.

        >>> import pyarrow as pa, sfumato as sf
        >>> places = sf.scan(pa.schema([("id", pa.int64())]), privacy_unit="id").agg(people=sf.count_units())
        >>> places.release(epsilon=1).default_label()
        'Release'
        """
        return "Release"

    @property
    def spent(self) -> tuple[float, float]:
        """The budget (epsilon, delta) that bounds the privacy loss of the release."""
        return float(self.plan.epsilon), float(self.plan.delta)

    def explain(self) -> Explanation:
        """Return the explanation: each step with its bounds, noise scale and share of the budget."""
        found: Explanation = self.plan.explain()
        return found

    def compare(self, *_: object, **__: object) -> NoReturn:
        """Refuse, and say how to compare two groups in a pipeline.

        Raises:
            RefusalError: the answer is a collection of the pipeline.

        >>> import pyarrow as pa, sfumato as sf
        >>> places = sf.scan(pa.schema([("id", pa.int64())]), privacy_unit="id").agg(people=sf.count_units())
        >>> places.release(epsilon=1).compare("people", 1, 2)
        Traceback (most recent call last):
        sfumato.errors.RefusalError: compare: ...
        """
        raise only_here("compare", _COLLECTION)

    def share_of_total(self, *_: object, **__: object) -> NoReturn:
        """Refuse, and say how to compute a share of a total in a pipeline.

        Raises:
            RefusalError: the answer is a collection of the pipeline.

        >>> import pyarrow as pa, sfumato as sf
        >>> places = sf.scan(pa.schema([("id", pa.int64())]), privacy_unit="id").agg(people=sf.count_units())
        >>> places.release(epsilon=1).share_of_total("people")
        Traceback (most recent call last):
        sfumato.errors.RefusalError: share_of_total: ...
        """
        raise only_here("share_of_total", _COLLECTION)

    def receipt(self) -> Receipt:
        """Return a receipt for `sfumato verify`: cost, plan, and a description of the noise.

        It has no digest of the answer, which is a collection of the pipeline.

        >>> import pyarrow as pa, sfumato as sf
        >>> places = sf.scan(pa.schema([("id", pa.int64())]), privacy_unit="id").agg(people=sf.count_units())
        >>> places.release(epsilon=1).receipt().certificate().epsilon
        Fraction(1, 1)
        """
        return receipt_elsewhere(self.plan, self._form(), self.paid, self.plan.bias.describe())

    def ended(self, result: PipelineResult) -> None:
        """Record in the charged ledger's journal how the pipeline ended.

        Args:
            result: the result of `pipeline.run()`, after `wait_until_finish()`.
        Raises:
            QueryError: the pipeline has not ended, or the argument is not the result of one.

        >>> import tempfile
        >>> import pyarrow as pa, sfumato as sf
        >>> from apache_beam.runners.runner import PipelineResult, PipelineState
        >>> places = sf.scan(pa.schema([("id", pa.int64())]), privacy_unit="id")
        >>> result = PipelineResult(PipelineState.DONE)  # as pipeline.run() gives it
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = sf.Ledger(f"{folder}/budget.db")
        ...     ledger.create("places", epsilon=3)
        ...     asked = places.agg(people=sf.count_units())
        ...     asked.release(epsilon=1, budget=ledger.budget("places")).ended(result)
        ...     [line.kind for line in ledger.journal.lines()]
        ['cap', 'asked', 'answered']
        """
        state = getattr(result, "state", None)
        if not PipelineState.is_terminal(state):
            raise QueryError(
                "ended: the pipeline has not ended. Pass the result of pipeline.run(), after "
                "wait_until_finish()"
            )
        for paid in self.paid:
            if state == PipelineState.DONE:
                paid.record("answered")
            else:
                paid.record("failed", error=str(state))

    def expand(
        self, rows: beam.PCollection[Any] | Mapping[str, beam.PCollection[Any]]
    ) -> beam.PCollection[Any]:
        """Return a collection of dictionaries, one for each released group; Beam calls it for `|`.

        Args:
            rows: the collection, or a dictionary of collections by table name.
        Returns:
            The collection.
        Raises:
            QueryError: the collections are not those that the question names.
            RefusalError: the release was in a pipeline before.

        >>> import pyarrow as pa, sfumato as sf
        >>> places = sf.scan(pa.schema([("id", pa.int64())]), privacy_unit="id").agg(people=sf.count_units())
        >>> places.release(epsilon=1).expand([{"id": 1}])
        Traceback (most recent call last):
        sfumato.errors.QueryError: ...
        """
        tables = self._tables(rows)
        make, kind = made_by(self, self._names)
        self._once.take()
        for paid in self.paid:
            paid.record("handed")
        keys = public_keys(tables, self._work.stages, self._names_of)
        parts = exact_parts(tables, self._work.stages, self._names_of, keys)
        work = replace(self._work, stages=self._work.stages.bare)
        if work.at_once:
            sent = beam.MapTuple(lambda shard, parts: (0, (shard, work.gathered(shard, parts))))
            gathered = parts | "Gather" >> sent.with_output_types(Drawn) | beam.GroupByKey()
            noise = beam.FlatMapTuple(
                lambda place, parts, keys=(): _placed(place, _knowing(work, keys).drawn_jointly(parts)), *keys
            )
            drawn = gathered | "Noise" >> noise.with_output_types(Drawn)
        else:
            noise = beam.FlatMapTuple(
                lambda shard, parts, keys=(): _drawn(_knowing(work, keys), shard, parts), *keys
            )
            drawn = parts | "Noise" >> noise.with_output_types(Drawn)
        shards = _pipeline(tables) | "Shards of groups" >> beam.Create(range(work.places))
        # A generator: Beam's runtime_type_check uses other iterators up.
        given = beam.FlatMap(
            lambda shard, ready: (make(row) for row in _rows(ready[shard])),
            ready=beam.pvalue.AsMultiMap(drawn),
        )
        return shards | "Release" >> given.with_output_types(kind)

    def _tables(self, rows: object) -> dict[int, beam.PCollection[Any]]:
        """Return a Beam release's collections by the numbers of their tables."""
        if self._names_of is None:
            check_collection(rows)
            return {0: rows}
        wanted = ", ".join(f"{name!r}: ..." for name in dict.fromkeys(self._names_of.values()))
        if not isinstance(rows, Mapping) or set(rows) != set(self._names_of.values()):
            given = (
                ", ".join(map(repr, rows)) if isinstance(rows, Mapping) else with_article(type(rows).__name__)
            )
            raise QueryError(
                f"Beam: the release reads several tables, but was applied to {given}. Apply it to "
                f"their collections, {{{wanted}}} | release"
            )
        for collection in rows.values():
            check_collection(collection)
        keys = rows.get(self._names_of.get(KEYS, ""))
        private = [rows[self._names_of[number]] for number in self._work.stages.arriving]
        if any(keys is origin for collection in private for origin in origins(collection)):
            raise QueryError(PRIVATE_KEYS)
        return {number: rows[name] for number, name in self._names_of.items()}

    @property
    def _names(self) -> list[str]:
        query = self.plan.query
        behind = ("", "_error") if self._work.confidence else ("",)
        return [*query.shown_keys, *(f"{name}{end}" for name in query.output_names for end in behind)]


def public_keys(
    tables: Mapping[int, beam.PCollection[Any]], stages: Stages, names: Mapping[int, str] | None
) -> list[beam.pvalue.AsList]:
    """Return public keys as a Beam side input, in a list, where a collection brings them; else none."""
    brought = stages.query.public_keys
    if not isinstance(brought, BroughtKeys):
        return []
    label = _labels(names or {}).get(KEYS, "")
    return [beam.pvalue.AsList(tables[KEYS] | f"Public keys{label}" >> beam.ParDo(ReadKeys(brought)))]


def exact_parts(
    tables: Mapping[int, beam.PCollection[Any]],
    stages: Stages,
    names: Mapping[int, str] | None = None,
    keys: Sequence[beam.pvalue.AsList] = (),
) -> beam.PCollection[tuple[int, list[bytes]]]:
    """Return a Beam collection of each shard of groups with its parts, empty shards too.

    Args:
        tables: the collections by the numbers that the stages have for their tables.
        stages: what workers do.
        names: of the collections, for the names of steps.
        keys: what `public_keys` gives.
    """
    second = stages.bare if stages.by_rows else stages
    label = _labels(names or {})
    public = [
        rows
        | f"Public rows{label[number]}" >> beam.ParDo(SumRows(stages.bare, number))
        | f"Number {number}" >> beam.MapTuple(lambda _, data, number=number: (number, data))
        for number, rows in tables.items()
        if number not in stages.arriving and number != KEYS
    ]
    brought = [beam.pvalue.AsList(public | "Public rows" >> beam.Flatten())] if public else []
    brought += keys
    parts: dict[int, beam.PCollection[Part]] = {}
    for number in stages.arriving:
        beside = brought if stages.sums(number) else []
        kind = SumRowsBeside if beside else SumRows
        summed = beam.ParDo(kind(stages.from_table(number), number), *beside)
        parts[number] = tables[number] | f"Sum rows{label.get(number, '')}" >> summed
    for number, join in enumerate(stages.key_joins):
        both = (
            parts.pop(join.owners),
            parts.pop(join.rows),
        ) | f"Keys and rows {number}" >> beam.Flatten()
        beside = brought if stages.sums(join.gives) else []
        reach = beam.FlatMapTuple(_reaching(stages.from_table(join.gives), join), *beside)
        met = both | f"Join keys {number}" >> beam.GroupByKey()
        parts[join.gives] = met | f"Reach units {number}" >> reach.with_output_types(Part)
    # Rows themselves are not added up: a worker is given those of a shard one part at a time.
    joined = beam.CombinePerKey(Joined(stages.joined_partials)) if stages.adds_up else beam.GroupByKey()
    rows = [*parts.values()]
    units = (rows[0] if len(rows) == 1 else rows | "Rows" >> beam.Flatten()) | "Join units" >> joined
    beside = [] if stages.by_rows else brought
    # A list, as what is done with parts may need a database while this one is in use.
    bound = beam.FlatMapTuple(
        lambda _, parts, public=(), keys=(): [*_parts(_with(second, public, keys).totals(parts))], *beside
    )
    totals = units | "Bound units" >> bound.with_output_types(Part)
    empty = beam.Map(lambda shard: (shard, b"")).with_output_types(Part)
    seeds = _pipeline(tables) | "Shards" >> beam.Create(range(stages.group_shards)) | "Empty parts" >> empty
    groups = (totals, seeds) | beam.Flatten()
    return groups | "Join groups" >> beam.CombinePerKey(Joined(stages.joined_totals))


def _reaching(stages: Stages, join: ForeignKeyJoin) -> Callable[..., list[Part]]:
    # A list, as below.
    return lambda _, parts, public=(), keys=(): [*_parts(_with(stages, public, keys).reached(join, parts))]


def _labels(names: Mapping[int, str]) -> dict[int, str]:
    """Return names of Beam steps that tell tables apart."""
    several = [*names.values()]
    return {
        number: f" of {name}" + (f" ({number})" if several.count(name) > 1 else "")
        for number, name in names.items()
    }


def _pipeline(tables: Mapping[int, beam.PCollection[Any]]) -> beam.Pipeline:
    return next(iter(tables.values())).pipeline


def _with(stages: Stages, *brought: Iterable[Part]) -> Stages:
    """Return the stages with public rows and keys that Beam collections brought."""
    data: dict[int, list[bytes]] = {}
    for number, stream in (part for parts in brought for part in parts):
        data.setdefault(number, []).append(stream)
    knowing = stages.with_keys(data.pop(KEYS, []))
    return knowing.with_public(data) if isinstance(knowing, CombinedStages) else knowing


def _knowing(work: Work, keys: Iterable[Part]) -> Work:
    """Return the work of a Beam worker that adds noise, with public keys that were brought."""
    return replace(work, stages=work.stages.with_keys([stream for _, stream in keys]))


class SumRows(beam.DoFn):  # type: ignore[misc]
    """Runs the first stage on a Beam bundle's rows of one table."""

    def __init__(self, stages: Stages, table: int = 0) -> None:
        self._stages, self._table, self._columns = stages, table, Columns(stages.get_schema(table))

    def start_bundle(self) -> None:
        """Begin a Beam bundle without rows."""
        self._rows: list[Any] = []
        self._values: list[list[Any]] = self._columns.values(())
        self._batches: list[pa.RecordBatch] = []
        self._bytes = self._waiting = 0

    def process(self, element: Any) -> Iterable[WindowedValue]:
        """Take a row, or a batch of them, into a Beam bundle."""
        if isinstance(element, (pa.RecordBatch, pa.Table)):
            return [*map(in_one_window, self._added(self._columns.select_columns(element)))]
        self._rows.append(element)
        if len(self._rows) < sizes.READ_ROWS:
            return ()
        self._read()
        if len(self._values[0]) < sizes.BEAM_ROWS and self._bytes <= sizes.WAITING_BYTES:
            return ()
        return [*map(in_one_window, self._gathered())]

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Run the first stage on the rest of a Beam bundle."""
        self._read()
        yield from map(in_one_window, [*self._gathered(), *self._summed()])

    def infer_output_type(self, input_type: Any) -> Any:
        """Return the Beam type of a stage's parts."""
        return Part

    def _read(self) -> None:
        """Keep the columns that are read of a Beam bundle's rows."""
        values, self._rows = self._columns.values(self._rows), []
        self._bytes += self._columns.max_text_bytes(values)
        for column, more in zip(self._values, values, strict=True):
            column.extend(more)

    def _gathered(self) -> Iterator[Part]:
        values, self._values, self._bytes = self._values, self._columns.values(()), 0
        yield from self._added(self._columns.batch_values(values) if values[0] else ())

    def _added(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Part]:
        for batch in batches:
            self._batches.append(batch)
            self._waiting += batch.nbytes
            if self._waiting >= sizes.WAITING_BYTES:
                yield from self._summed()

    def _summed(self) -> list[Part]:
        batches, self._batches, self._waiting = self._batches, [], 0
        return list(_parts(self._stages.partials(batches, self._table))) if batches else []


class SumRowsBeside(SumRows):
    """Runs the first stage on a Beam bundle with public collections as side inputs."""

    def process(self, element: Any, *brought: Sequence[Part]) -> Iterable[WindowedValue]:
        """Take rows, with public tables and public keys as Beam side inputs."""
        if len(self._given) != len(brought) or any(map(is_not, self._given, brought)):
            self._given, self._stages = brought, _with(self._stages, *brought)
        return super().process(element)

    _given: tuple[Sequence[Part], ...] = ()


class Joined(beam.CombineFn):  # type: ignore[misc]
    """Joins the parts of a shard in Beam; many small ones become few.

    An accumulator is [bytes that were added up, bytes since then, parts]. Parts are added up again when twice
    as much came since, so that all that is ever added up is at most twice what came; an accumulator is never
    larger than three times the shard's own pairs, or groups, or these and `JOIN_BYTES`.

    Args:
        join: adds parts up.
    """

    def __init__(self, join: Callable[[Iterable[bytes]], list[bytes]]) -> None:
        self._join = join

    def create_accumulator(self) -> list[Any]:
        """Begin a shard in Beam with no part."""
        return [0, 0, []]

    def add_input(self, accumulator: list[Any], part: bytes) -> list[Any]:
        """Add a part to a shard in Beam."""
        return self._with(accumulator, [part])

    def merge_accumulators(self, accumulators: Iterable[list[Any]]) -> list[Any]:
        """Merge parts of a shard into a copy, as a Beam runner may merge it once more."""
        others = iter(accumulators)
        joined, fresh, held = next(others, self.create_accumulator())
        merged = [joined, fresh, [*held]]
        for _, _, parts in others:
            merged = self._with(merged, parts)
        return merged

    def compact(self, accumulator: list[Any]) -> list[Any]:
        """Add up a shard's parts before Beam shuffles them, where that is worth it."""
        joined, fresh, parts = accumulator
        many = len(parts) > sizes.SHUFFLE_PARTS and fresh > max(sizes.SHUFFLE_BYTES, joined)
        return self._added_up(parts) if many else accumulator

    def extract_output(self, accumulator: list[Any]) -> list[bytes]:
        """Return the parts of a shard in Beam."""
        parts: list[bytes] = accumulator[2]
        return parts

    def _with(self, accumulator: list[Any], parts: list[bytes]) -> list[Any]:
        joined, fresh, held = accumulator
        held.extend(filter(None, parts))
        fresh += sum(map(len, parts))
        if fresh > max(sizes.JOIN_BYTES, 2 * joined) or len(held) > sizes.JOIN_PARTS:
            return self._added_up(held)
        return [joined, fresh, held]

    def _added_up(self, parts: list[bytes]) -> list[Any]:
        joined = self._join(parts)
        return [sum(map(len, joined)), 0, joined]


def _parts(payloads: Iterable[Payload]) -> Iterator[Part]:
    for payload in payloads:
        yield payload.shard, payload.data


def _drawn(work: Work, shard: int, parts: Iterable[bytes]) -> list[Drawn]:
    return _placed(shard, work.released(shard, parts))


def _placed(shard: int, released: Iterable[pa.RecordBatch]) -> list[Drawn]:
    return [(shard, (place, as_stream([b]))) for place, b in enumerate(released)]


def _rows(drawn: Iterable[tuple[int, bytes]]) -> Iterator[dict[str, Any]]:
    for _, data in sorted(drawn):
        for batch in pa.ipc.open_stream(data):
            yield from batch.to_pylist()


Row = dict[str, Any]


def made_by(transform: beam.PTransform[Any, Any], names: Sequence[str]) -> tuple[Callable[[Row], Any], Any]:
    """Return what makes a Beam element of a released row, and its type.

    Args:
        transform: perhaps with a type from `with_output_types`.
        names: of the released columns.
    Raises:
        QueryError: the type is no dictionary and no named tuple with these fields.
    """
    hints = transform.get_type_hints()
    kind = hints.simple_output_type(transform.label) if hints.has_simple_output_type() else None
    if kind is None:
        return _as_it_is, Row
    fields = getattr(kind, "_fields", None)
    if not isinstance(kind, type) or not issubclass(kind, tuple) or fields is None:
        if not is_consistent_with(Row, normalize(kind)):
            raise QueryError(
                f"Release: with_output_types names {getattr(kind, '__name__', kind)}, but the "
                f"output is dictionaries, or named tuples with the fields {', '.join(names)}"
            )
        return _as_it_is, kind if kind == beam.typehints.Any else Row
    if sorted(fields) != sorted(names):
        raise QueryError(
            f"Release: with_output_types names {kind.__name__}, whose fields are "
            f"{', '.join(fields)}, but the released columns are {', '.join(names)}. Give it these "
            "fields"
        )
    return lambda row: kind(**row), kind


def _as_it_is(row: Row) -> Row:
    return row


class PlannedTop(PlannedRelease):
    """The Beam transform of the largest groups, as `Top.release` and `sfumato.beam.Release` return it.

    It gives a dictionary for each shown group, in the order drawn. Otherwise it is like `PlannedRelease`.
    """

    plan: Plan[Top, TopMeasurement]
    _work: TopWork

    def explain(self) -> TopExplanation:  # type: ignore[override]
        """Return the explanation: each step with its noise and cost. It does not depend on rows."""
        return self.plan.explain()

    def half_width(self, confidence: float = 0.95, *, simultaneous: bool = False) -> float:
        """Return the half-width of the error bars of the numbers, the same for all groups.

        Args:
            confidence: in (0, 1), the chance that a group's number is within this distance of the truth.
            simultaneous: let the confidence hold for all groups at once.
        Returns:
            The half-width.
        Raises:
            ParameterError, RefusalError: as for `TopRelease.errors`.

        >>> import pyarrow as pa, sfumato as sf
        >>> columns = pa.schema([("id", pa.int64()), ("place", pa.string())])
        >>> top = sf.scan(columns, privacy_unit="id").top("place", k=3, keys=["A", "B", "C", "D"])
        >>> top.release(epsilon=3).half_width()
        6.0
        """
        return self.plan.measurement.half_width(confidence, simultaneous)

    @property
    def _names(self) -> list[str]:
        return self.plan.measurement.names
