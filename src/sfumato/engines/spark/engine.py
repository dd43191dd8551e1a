"""Plans to releases on Apache Spark: two shuffles, and DuckDB inside the workers.

Spark reads the rows, moves parts of shards between machines and keeps what is waiting; it never looks
inside a part. What a row expression, a key or a limit means is settled once, in `engines.duckdb.stages`.
Nothing is collected to the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.engines.duckdb.engine import DuckDBEngine
from sfumato.engines.duckdb.stages import Payload, Stages
from sfumato.engines.work import Work
from sfumato.query.engine import ExactQuery, Schema, Step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sfumato.query.plan import Plan

_PARTS = "shard int, data binary"
_PART_SCHEMA = pa.schema([("shard", pa.int32()), ("data", pa.binary())])

Batches = Iterator[pa.RecordBatch]


class SparkEngine:
    """Evaluates queries on a Spark data frame.

    Args:
        frame: the rows; lazily, as everything here.
    """

    name = "Spark"

    def __init__(self, frame: DataFrame) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self._frame = frame
        self._rows: pa.Schema = to_arrow_schema(frame.schema, timezone=_timezone(frame))
        self._local = DuckDBEngine.open(self._rows.empty_table())

    def schema(self, steps: Sequence[Step] = ()) -> Schema:
        """Return the columns after the steps."""
        return self._local.schema(steps)

    def public_keys(self, keys: Sequence[str], values: object, steps: Sequence[Step]) -> pa.Table:
        """Return public keys with the key columns' types, sorted."""
        return self._local.public_keys(keys, values, steps)

    def release(self, plan: Plan, *, confidence: float | None = None) -> DataFrame:
        """Return the noisy table as a data frame, lazily: the same numbers however often it is computed."""
        from pyspark.sql.pandas.types import from_arrow_schema

        work = Work.of(plan, self._stages(plan.exact), confidence)

        columns = from_arrow_schema(work.schema)
        return self._groups(work.stages).mapInArrow(_by_shard(work.released), columns)

    def statistics(self, query: ExactQuery, batch_rows: int) -> Batches:
        """Yield exact statistics on the driver, sorted by key: for tests, no release calls it."""
        stages = self._stages(query)
        totals = [bytes(row.data) for row in self._totals(stages).collect()]
        return stages.merged(None, totals, batch_rows)

    def _stages(self, query: ExactQuery) -> Stages:
        return Stages.of(self._local, self._rows, query, self._shards())

    def _shards(self) -> int:
        """Return a number that grows with the cluster and with the data."""
        context = self._frame.sparkSession.sparkContext
        return max(int(context.defaultParallelism), int(self._frame.rdd.getNumPartitions()))

    def _totals(self, stages: Stages) -> DataFrame:
        """Return totals of groups, in parts, wherever their units were bounded."""
        partials = self._frame.mapInArrow(_emitting(stages.partials), _PARTS)
        units = partials.repartitionById(stages.shards, "shard")
        return units.mapInArrow(_emitting(lambda batches: stages.totals(_data(batches))), _PARTS)

    def _groups(self, stages: Stages) -> DataFrame:
        """Return parts of shards of groups, each shard in a partition of its own."""
        # A part for each shard, so that public groups appear where nothing arrives.
        seeds = self._frame.sparkSession.range(stages.group_shards)
        empty = seeds.selectExpr("CAST(id AS INT) AS shard", "CAST('' AS BINARY) AS data")
        return self._totals(stages).union(empty).repartitionById(stages.group_shards, "shard")


def _emitting(stage: Callable[[Batches], Iterable[Payload]]) -> Callable[[Batches], Batches]:
    """Turn a stage into what Spark calls for each partition."""

    def function(batches: Batches) -> Batches:
        for payload in stage(batches):
            yield pa.RecordBatch.from_arrays(
                [pa.array([payload.shard], pa.int32()), pa.array([payload.data], pa.binary())],
                schema=_PART_SCHEMA,
            )

    return function


def _by_shard(stage: Callable[[int, list[bytes]], Batches]) -> Callable[[Batches], Batches]:
    """Turn a stage of whole shards into what Spark calls for each partition."""

    def function(batches: Batches) -> Batches:
        parts: dict[int, list[bytes]] = {}
        for batch in batches:
            for shard, data in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                parts.setdefault(shard, []).append(data)
        for shard in sorted(parts):
            yield from stage(shard, parts[shard])

    return function


def _data(batches: Batches) -> Iterator[bytes]:
    for batch in batches:
        yield from (value.as_py() for value in batch.column("data"))


def _timezone(frame: DataFrame) -> str:
    return str(frame.sparkSession.conf.get("spark.sql.session.timeZone"))
