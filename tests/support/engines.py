"""The engines that tests compare with the definitions: each opens typed rows as a source.

One entry of `ENGINES` for each. What an engine has no type for is in its `lacks`; tests and strategies leave
these types out. On an engine that starts a job for each evaluation generated tests have fewer examples, unless
SFUMATO_LONG is set.
"""

from __future__ import annotations

import os
import pickle
import random
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import count
from pathlib import Path
from types import MethodType
from typing import Any
from weakref import WeakKeyDictionary

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.duckdb.stages import Payload, Stages
from sfumato.plan.noisy_statistics import NoisyBatch
from sfumato.query import sizes
from sfumato.release.payment import no_charge
from sfumato.release.release import Release
from sfumato.sql_text import identifier

Columns = Mapping[str, tuple[str, Sequence[str | None]]]
LONG = bool(os.environ.get("SFUMATO_LONG"))


def typed_rows(columns: Columns, connection: duckdb.DuckDBPyConnection) -> str:
    """Return a SELECT of typed rows: by column, its SQL type and its values as text."""
    connection.register(
        "texts",
        pa.table({name: pa.array(list(values), pa.string()) for name, (_, values) in columns.items()}),
    )
    typed = (f"CAST({identifier(n)} AS {kind}) AS {identifier(n)}" for n, (kind, _) in columns.items())
    return f"SELECT {', '.join(typed)} FROM texts"


@cache
def scratch() -> duckdb.DuckDBPyConnection:
    """One database for all that makes rows: opening one takes longer than the rows."""
    return duckdb.connect()


def as_arrow(columns: Columns | pa.Table) -> pa.Table:
    if isinstance(columns, pa.Table):
        return columns
    return scratch().sql(typed_rows(columns, scratch())).to_arrow_table()


@dataclass(frozen=True)
class Opener:
    """Rows -> Engine. Rows are an Arrow table, or a SQL type and texts for each column.

    Args:
        open: what does it.
        lacks: DuckDB types that sources of this engine cannot have.
        slow: whether an evaluation takes about a second.
        jobs: the jobs that were started so far, where there are such.
    """

    open: Callable[[Columns | pa.Table], Any]
    lacks: frozenset[str] = frozenset()
    slow: bool = False
    jobs: Callable[[], Any] = lambda: None

    def __call__(self, columns: Columns | pa.Table) -> Any:
        if not isinstance(columns, pa.Table):
            self.needs(*(kind for kind, _ in columns.values()))
        return self.open(columns)

    def needs(self, *kinds: str) -> None:
        """Skip the test if sources of this engine cannot have one of the types."""
        if missing := self.lacks & set(kinds):
            pytest.skip(f"sources of this engine have no {', '.join(missing)}")

    def few(self, examples: int) -> int:
        """Return how many examples there is time for."""
        return max(3, examples // 15) if self.slow else examples


def on_duckdb(folder: str) -> Opener:
    numbers = count()

    def open_rows(columns: Columns | pa.Table) -> DuckDBEngine:
        if isinstance(columns, pa.Table):
            return DuckDBEngine.open(columns)
        path = f"{folder}/{next(numbers)}.duckdb"
        scratch().execute(f"ATTACH '{path}' AS made")
        scratch().execute(f"CREATE TABLE made.rows AS {typed_rows(columns, scratch())}")
        scratch().execute("DETACH made")
        return DuckDBEngine.open(f"{path}/rows")

    return Opener(open_rows)


class StagedEngine:
    """The stages without a cluster: rows in random parts, some of them put together on the way."""

    name, files, made_up = "stages", (), False

    def __init__(self, rows: pa.Table) -> None:
        self._rows, self._local = rows, DuckDBEngine.open(rows.schema.empty_table())
        self.schema, self.public_keys = self._local.schema, self._local.public_keys
        self.timezone, self.reads_zone = self._local.timezone, self._local.reads_zone
        self._random = random.Random(rows.num_rows)

    def release(self, plan, *, confidence=None, unsafe_words=None, pay=no_charge) -> Release:
        pay()
        return Release(plan, self, confidence=confidence, unsafe_words=unsafe_words)

    def statistics(self, query, batch_rows: int) -> Iterator[pa.RecordBatch]:
        chance, read = self._random, self._local.reads(query)
        rows = self._rows.select(read)
        stages = Stages.prepare(self._local, rows.schema, query, chance.randint(1, 4))
        stages = pickle.loads(pickle.dumps(stages))  # as workers get it
        cuts = sorted(chance.choices(range(rows.num_rows + 1), k=chance.randint(0, 3)))
        parts = [
            rows.slice(start, end - start).to_batches(max_chunksize=max(1, rows.num_rows // 2))
            for start, end in zip([0, *cuts], [*cuts, rows.num_rows], strict=True)
        ]
        with pytest.MonkeyPatch.context() as patch:
            if chance.random() < 0.5:  # as if rows were many
                patch.setattr(sizes, "FEW_ROWS", 0)
            units = self._shuffled(
                [p for part in parts for p in stages.partials(part)], stages.joined_partials
            )
            totals = [p for of_shard in units.values() for p in stages.totals(of_shard)]
        assert {p.shard for p in totals} <= set(range(stages.group_shards))
        groups = self._shuffled(totals, stages.joined_totals)
        if stages.group_shards > 1 and query.public_keys is None and chance.random() < 0.5:
            self._check_shards_are_disjoint(stages, groups, batch_rows)
        if query.largest is not None:
            groups = {shard: stages.collected(parts) for shard, parts in groups.items()}
        return stages.merged(None, [data for of_shard in groups.values() for data in of_shard], batch_rows)

    def _shuffled(self, payloads: list[Payload], joined: Callable[[list[bytes]], list[bytes]]):
        by_shard: dict[int, list[bytes]] = {}
        self._random.shuffle(payloads)
        for payload in payloads:
            by_shard.setdefault(payload.shard, []).append(payload.data)
        for shard, parts in by_shard.items():
            if self._random.random() < 0.5:  # some of the parts, once more or all at once
                cut = self._random.randint(0, len(parts))
                by_shard[shard] = [*joined(parts[:cut]), *parts[cut:]]
        return by_shard

    def _check_shards_are_disjoint(self, stages: Stages, groups: dict[int, list[bytes]], rows: int) -> None:
        keys = [
            repr(key)
            for shard, parts in groups.items()
            for batch in stages.merged(shard, parts, rows)
            for key in zip(*(c.to_pylist() for c in batch.columns[: len(stages.query.keys)]), strict=True)
        ]
        assert len(set(keys)) == len(keys)


def in_stages(folder: str) -> Opener:
    return Opener(lambda columns: StagedEngine(as_arrow(columns)), frozenset({"UHUGEINT"}))  # nor has Arrow


@cache
def spark_session():
    """One session for all tests: two threads, two shards, a task that fails is tried again."""
    from sfumato.spark import session

    return session(
        "tests",
        {
            "spark.master": "local[2, 4]",
            # Jobs of a second: compiling them well takes longer than running them.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.codegen.wholeStage": False,
            # Tests lose shuffles on purpose. A local session forgets its block manager then: each heartbeat fails, and
            # after 60 of them, ten minutes later, Spark ends its process with code 56.
            "spark.executor.heartbeat.maxFailures": 2**31 - 1,
            "spark.ui.enabled": False,
            "spark.ui.showConsoleProgress": False,
            "spark.default.parallelism": 2,
            "spark.sql.shuffle.partitions": 2,
            "spark.sql.session.timeZone": "UTC",
            "spark.log.level": "OFF",
            "spark.eventLog.enabled": True,
            "spark.eventLog.compress": False,
            "spark.eventLog.dir": tempfile.mkdtemp(prefix="spark-events-"),
        },
    )


def spark_frame(rows: pa.Table):
    """Return rows as a Spark data frame of the same types."""
    from pyspark.sql.pandas.types import from_arrow_schema

    if rows.num_rows > 100_000:  # from a file: rows given to the driver would stay in its memory
        path = tempfile.mkdtemp(prefix="spark-rows-") + "/rows.parquet"
        pq.write_table(rows, path)
        return spark_session().read.parquet(path)
    return spark_session().createDataFrame(rows, from_arrow_schema(rows.schema, prefer_timestamp_ntz=True))


def noisy_parts(work: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The last task of a release, but for outputs: noisy batches themselves."""
    from sfumato.engines.spark.spark_tasks import _by_shard

    for shard, parts in _by_shard(batches):
        for batch in work.noisy(shard, parts):
            yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(batch)])], names=["data"])


class Collected(Release):
    """A release whose noise is drawn by Spark's workers, as a table on the driver: for tests alone."""

    def __init__(self, engine, plan, unsafe_words=None) -> None:
        super().__init__(plan, engine, unsafe_words=unsafe_words)
        self.work = engine.work(plan)
        if unsafe_words is not None:
            self.work = replace(self.work, secret=unsafe_words.take(4).tobytes())

    def _draw(self):
        from pyspark import cloudpickle

        from sfumato.engines.spark.spark_tasks import make_task

        cloudpickle.register_pickle_by_value(__import__(noisy_parts.__module__, fromlist=["tests"]))
        task = make_task(noisy_parts, self.work)
        parts = self._engine._groups(self.work.stages).mapInArrow(task, "data binary")
        yield in_order([pickle.loads(row.data) for row in parts.collect()], self.plan.query.keys)


def in_order(batches: list[NoisyBatch], keys: Sequence[str]) -> NoisyBatch:
    """Return all groups in one batch, sorted by key, as a release on one machine has them."""
    if not keys:
        (batch,) = batches
        return NoisyBatch(batch.measurement, pa.record_batch({"x": [0]}).select([]), batch.numbers)
    table = pa.Table.from_batches([batch.keys for batch in batches])
    scratch().register(
        "given", table.append_column("row number", pa.array(range(table.num_rows), pa.int64()))
    )
    by_key = f'SELECT "row number" FROM given ORDER BY {", ".join(map(identifier, keys))}'
    order = scratch().sql(by_key).to_arrow_table()["row number"]
    rows, numbers = order.to_numpy().astype(np.int64), [batch.numbers for batch in batches]

    def gathered(column: Callable[[Any], Any]) -> Any:
        return np.concatenate([column(n) for n in numbers])[rows]

    first = numbers[0]
    values = {name: gathered(lambda n, name=name: n.values[name]) for name in first.values}
    trees = {
        name: replace(
            tree,
            **{
                part.name: gathered(lambda n, name=name, part=part: getattr(n.trees[name], part.name))
                for part in fields(tree)
                if part.name != "ranks"
            },
        )
        for name, tree in first.trees.items()
    }
    chosen = {
        name: replace(places, places=gathered(lambda n, name=name: n.chosen[name].places))
        for name, places in first.chosen.items()
    }
    (sorted_keys,) = table.take(order).combine_chunks().to_batches() or [batches[0].keys]
    return NoisyBatch(
        batches[0].measurement, sorted_keys, replace(first, values=values, trees=trees, chosen=chosen)
    )


def jobs_of_spark() -> set[int]:
    return set(spark_session().sparkContext.statusTracker().getJobIdsForGroup(None))


def on_spark(folder: str) -> Opener:
    from sfumato.engines.spark.spark_engine import SparkEngine

    class Engine(SparkEngine):
        def release(self, plan, *, confidence=None, unsafe_words=None, pay=no_charge) -> Release:
            pay()
            return Collected(self, plan, unsafe_words)

    # Spark's integers are signed and end at 64 bits, and it has no identifiers, enumerations or times of day; its
    # arrays have no length.
    lacks = {
        "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT", "UHUGEINT", "UUID", "TIME", "BIT",
        "DOUBLE[2]", "FLOAT[2]",
    }  # fmt: skip
    return Opener(
        lambda columns: Engine(spark_frame(as_arrow(columns))), frozenset(lacks), not LONG, jobs_of_spark
    )


@cache
def quick_beam() -> None:
    """Keep what Beam computes a hundred times for each pipeline, always the same: half of what one costs.

    That is the arguments of each method of each DoFn, and the values of flags for each kind of options.
    """
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.transforms import core

    look, parse = core.get_function_args_defaults, PipelineOptions.__init__
    looked: WeakKeyDictionary[Callable[..., Any], tuple[list[str], list[Any]]] = WeakKeyDictionary()
    parsed: dict[tuple[type, tuple[str, ...]], dict[str, Any]] = {}

    def arguments(function: Callable[..., Any]) -> tuple[list[str], list[Any]]:
        if not isinstance(function, MethodType):
            return look(function)
        if (found := looked.get(function.__func__)) is None:
            found = looked[function.__func__] = look(function)
        names, defaults = found
        return [*names], [*defaults]

    def options(self: Any, flags: Sequence[str] | None = None, **others: Any) -> None:
        if flags is None or others:
            parse(self, flags, **others)
            return
        key = type(self), tuple(flags)
        if key not in parsed:
            parse(self, flags)
            parsed[key] = deepcopy(self.__dict__)
        self.__dict__.update(deepcopy(parsed[key]), _flags=flags)

    core.get_function_args_defaults, PipelineOptions.__init__ = arguments, options


def results_on_beam(
    build: Callable[[Any], Any], options: Sequence[str] = ("--runner=FnApiRunner",)
) -> list[Any]:
    """Run a pipeline; return what the collection that `build` makes of it holds, in the order of their texts."""
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    quick_beam()
    with tempfile.TemporaryDirectory() as folder:

        def keep(element: Any) -> None:
            Path(folder, uuid.uuid4().hex).write_bytes(pickle.dumps(element))

        with beam.Pipeline(options=PipelineOptions(list(options))) as pipeline:
            build(pipeline) | "Keep" >> beam.Map(keep)
        return sorted((pickle.loads(file.read_bytes()) for file in Path(folder).iterdir()), key=repr)


class CollectedOnBeam(Collected):
    """A release whose noise is drawn by Beam's workers."""

    def _draw(self):
        import apache_beam as beam

        work = self.work

        def noisy(shard: int, parts: list[bytes]) -> list[NoisyBatch]:
            return list(work.noisy(shard, parts))

        batches = results_on_beam(lambda p: self._engine.parts(p, work.stages) | beam.FlatMapTuple(noisy))
        yield in_order(batches, self.plan.query.keys)


def batches_of(path: str) -> list[pa.RecordBatch | pa.Table]:
    """Return the rows of a file in batches; the first one as a table."""
    with pa.OSFile(path) as file, pa.ipc.open_file(file) as reader:
        batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
        return [pa.Table.from_batches(batches[:1], reader.schema), *batches[1:]]


def on_beam(folder: str) -> Opener:
    from sfumato.engines.beam.beam_engine import BeamEngine

    numbers = count()

    class Engine(BeamEngine):
        """Keeps rows in a file: Beam would compress them into the pipeline's description."""

        def __init__(self, rows: pa.Table, public: bool = False) -> None:
            super().__init__(rows.schema, public)
            number = next(numbers)
            self.path, self.collection = f"{folder}/{number}.arrow", f"rows {number}"
            with pa.OSFile(self.path, "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
                writer.write_table(rows, max_chunksize=max(1, rows.num_rows // 2))

        def stages(self, query, shards=None) -> Stages:
            return super().stages(query, 2)

        def parts(self, pipeline, stages: Stages):
            import apache_beam as beam

            from sfumato.engines.beam.beam_release import exact_parts

            paths = {
                n: table.engine.path for n, table in self.tables.items() if hasattr(table.engine, "path")
            }
            rows = {
                n: pipeline | f"Path {n}" >> beam.Create([path]) | f"Read {n}" >> beam.FlatMap(batches_of)
                for n, path in paths.items()
            }
            return exact_parts(rows, stages, self.collections)

        def statistics(self, query, batch_rows: int) -> Iterator[pa.RecordBatch]:
            import apache_beam as beam

            stages = self.stages(query)
            sent = stages.collected if query.largest is not None else list
            build = lambda p: self.parts(p, stages) | beam.MapTuple(lambda _, parts: sent(parts))  # noqa: E731
            parts = [data for datas in results_on_beam(build) for data in datas]
            return stages.merged(None, parts, batch_rows)

        def release(self, plan, *, confidence=None, unsafe_words=None, pay=no_charge) -> Release:
            pay()
            return CollectedOnBeam(self, plan, unsafe_words)

    return Opener(lambda columns: Engine(as_arrow(columns)), frozenset({"UHUGEINT"}), not LONG)


ENGINES = {"duckdb": on_duckdb, "stages": in_stages, "spark": on_spark, "beam": on_beam}
# Of which each evaluation is a job.
JOBS = ("spark", "beam")


def in_long(*names: str) -> list[Any]:
    """Return names of engines as parameters of the second tier."""
    return [pytest.param(name, marks=pytest.mark.long) for name in names]


# A small value of each of the sizes at which engines compute the same answer in another way.
SMALL = {
    "FEW_ROWS": 3, "BITMAP_BITS": 3, "BITMAP_WORDS": 4, "GROUPS_PER_WORD": 1, "COPIES": 2, "BIGINT_ROOM": 1 << 10,
    "LISTED_BINS": 1, "BATCH_GROUPS": 2, "BATCH_TREES": 1, "COUNTED_ROWS": 2, "COUNTED_BUCKETS": 2,
    "MATCHED_VALUES": 12, "MATCHED_PAIRS": 40, "ROWS_OF_A_VALUE": 1, "FIRST_ROWS": 2, "MANY_VALUES": 4, "FIRST_ROWS_OF_MANY": 5, "SHARE_LEFT_OUT": 1,
    "PAIRS_AT_ONCE": 2, "LOOKS": 2, "UNIT_BUCKETS": 2, "PRUNINGS": 1, "TABLE_RANGE": 4,
    "PARQUET_ROWS": 2, "SQLITE_ROWS": 2, "TEXT_RECORDS": 2, "FIRST_TEXT_BYTES": 4, "TEXT_BYTES": 8,
    "BLOCK_BYTES": 16, "FOOTER_CHUNKS": 1, "CONDITIONS": 1, "CONSTANTS": 1, "IDLE_DATABASES": 2, "SESSIONS": 10,
    "STAGE_ROWS": 2, "PAYLOAD_BYTES": 300, "SHARD_BYTES": 16, "READ_ROWS": 2, "BEAM_ROWS": 3,
    "WAITING_BYTES": 100, "JOIN_BYTES": 100, "JOIN_PARTS": 2, "SHUFFLE_BYTES": 0, "SHUFFLE_PARTS": 1,
    "COLUMN_BYTES": 100, "BATCH_KEYS": 2, "KEPT_PARTS": 1,
}  # fmt: skip
