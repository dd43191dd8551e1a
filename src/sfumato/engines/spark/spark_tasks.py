"""What Spark's Python workers run: each stage, as a function of the batches of one partition."""

from __future__ import annotations

import gc
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import groupby
from typing import Any

import pyarrow as pa

from sfumato.engines.duckdb.resources import set_spill_folder
from sfumato.engines.duckdb.stages import ForeignKeyJoin, Payload, Stages
from sfumato.engines.worker_noise import Work
from sfumato.errors import EngineError

PARTS = "shard int, data binary"
_PART_SCHEMA = pa.schema([("shard", pa.int32()), ("data", pa.binary())])

Batches = Iterator[pa.RecordBatch]


def spill_beside_blocks() -> None:
    """Make a Spark worker spill where Spark keeps its blocks, which Spark removes at the end.

    A worker itself is killed, and removes nothing.
    """
    folders = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    set_spill_folder(next((folder for folder in folders if os.path.isdir(folder)), None))


def sum_rows(stages: Stages, table: int, batches: Batches) -> Batches:
    """Spark task of the first stage: rows of a partition to parts of shards of units."""
    yield from _emitted(stages.partials(batches, table))


def reach_units(stages: Stages, join: ForeignKeyJoin, batches: Batches) -> Batches:
    """Spark task of a foreign-key join: whole shards of keys to parts of shards of units."""
    for _, parts in _by_shard(batches):
        yield from _emitted(stages.reached(join, parts))


def bound_units(stages: Stages, batches: Batches) -> Batches:
    """Spark task of the second stage: whole shards of units to parts of shards of groups."""
    for _, parts in _by_shard(batches):
        yield from _emitted(stages.totals(parts))


def collect_largest(stages: Stages, batches: Batches) -> Batches:
    """Spark task of the largest groups: whole shards of groups to what the driver receives."""
    for shard, parts in _by_shard(batches):
        yield from _emitted([Payload(shard, data) for data in stages.collected(parts)])


def draw_groups(work: Work, batches: Batches) -> Batches:
    """Spark task that draws noise: whole shards of groups to outputs."""
    for shard, parts in _by_shard(batches):
        yield from map(_for_spark, work.released(shard, parts))


def gather_groups(work: Work, batches: Batches) -> Batches:
    """Spark task that gathers whole shards of groups to where one draw serves all."""
    for shard, parts in _by_shard(batches):
        yield from _emitted([Payload(shard, work.gathered(shard, parts))])


def draw_joint_noise(work: Work, batches: Batches) -> Batches:
    """Spark task that draws noise for all groups at once."""
    yield from map(_for_spark, work.drawn_jointly(_rows(batches)))


def _for_spark(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return outputs in types that Spark has: its lists have no length."""
    columns = [
        column.cast(pa.list_(column.type.value_type)) if pa.types.is_fixed_size_list(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def make_task(task: Callable[..., Batches], *arguments: Any) -> Callable[[Batches], Batches]:
    """Return a Spark task as a function of batches, which says what a worker lacks."""
    from pyspark import cloudpickle

    data = cloudpickle.dumps((task, arguments))

    # Sent by its code, not by its name, so that it comes to say so.
    def function(batches):  # type: ignore[no-untyped-def]
        import pickle

        try:
            task, arguments = pickle.loads(data)
            from sfumato.engines.spark.spark_tasks import settle, spill_beside_blocks
        except ImportError as error:
            raise RuntimeError(
                f"Spark's Python workers lack the module {error.name!r}. Install sfumato and its "
                "dependencies there, or send a packed environment along (docs/spark.md)"
            ) from None
        spill_beside_blocks()
        yield from task(*arguments, batches)
        settle(task.__name__)

    return function


@cache
def settle(kind: str) -> None:
    """Freeze what a Spark worker imported, so that garbage collection skips it.

    After each task pyspark looks through all that a worker holds, which takes longer than a task of few rows.

    Args:
        kind: of the task: another one may have imported more.
    """
    gc.collect()
    gc.freeze()


@contextmanager
def suppress_log() -> Iterator[None]:
    """Keep what this thread sends to Spark's Java out of py4j's log.

    So a task that holds a secret is sent inside.
    """
    mine = threading.get_ident()

    def others(_: logging.LogRecord) -> bool:
        return threading.get_ident() != mine

    loggers = [logging.getLogger(f"py4j.{name}") for name in ("clientserver", "java_gateway")]
    for logger in loggers:
        logger.addFilter(others)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(others)


def _emitted(payloads: Iterable[Payload]) -> Batches:
    for payload in payloads:
        yield pa.RecordBatch.from_arrays(
            [pa.array([payload.shard], pa.int32()), pa.array([payload.data], pa.binary())],
            schema=_PART_SCHEMA,
        )


def _rows(batches: Batches) -> Iterator[tuple[int, bytes]]:
    for batch in batches:
        yield from zip(*(c.to_pylist() for c in batch.columns), strict=True)


def _by_shard(batches: Batches) -> Iterator[tuple[int, Iterator[bytes]]]:
    """Yield each shard of a Spark partition with its parts."""
    seen: set[int] = set()
    for shard, parts in groupby(_rows(batches), key=lambda row: row[0]):
        if shard in seen:
            raise EngineError(
                "parts of one shard were separated. Do not change the partitions inside a release"
            )
        seen.add(shard)
        yield shard, (data for _, data in parts)
