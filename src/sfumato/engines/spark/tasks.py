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

import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb import spill
from sfumato.engines.duckdb.hops import Hop
from sfumato.engines.duckdb.stages import Payload, Stages
from sfumato.engines.work import Work
from sfumato.errors import EngineError

PARTS = "shard int, data binary"
_PART_SCHEMA = pa.schema([("shard", pa.int32()), ("data", pa.binary())])

Batches = Iterator[pa.RecordBatch]


def spill_beside_blocks() -> None:
    """Let this worker spill where Spark keeps its blocks, as pyspark does: Spark removes it all at the end.

    A worker itself is killed, and removes nothing.
    """
    folders = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    spill.inside(next((folder for folder in folders if os.path.isdir(folder)), None))


@dataclass(frozen=True)
class Partials:
    """Rows of any partition of the table with a number to parts of shards of units."""

    stages: Stages
    table: int = 0

    def __call__(self, batches: Batches) -> Batches:
        """Run on one partition."""
        spill_beside_blocks()
        return _emitted(self.stages.partials(batches, self.table))


@dataclass(frozen=True)
class Reach:
    """Parts of whole shards of keys to parts of shards of units, or of the next keys."""

    stages: Stages
    hop: Hop

    def __call__(self, batches: Batches) -> Batches:
        """Run on one partition."""
        spill_beside_blocks()
        for _, parts in _by_shard(batches):
            yield from _emitted(self.stages.reached(self.hop, parts))


@dataclass(frozen=True)
class Totals:
    """Parts of whole shards of units to parts of shards of groups."""

    stages: Stages

    def __call__(self, batches: Batches) -> Batches:
        """Run on one partition."""
        spill_beside_blocks()
        for _, parts in _by_shard(batches):
            yield from _emitted(self.stages.totals(parts))


@dataclass(frozen=True)
class Collect:
    """Parts of whole shards of groups to what goes on to the driver."""

    stages: Stages

    def __call__(self, batches: Batches) -> Batches:
        """Run on one partition."""
        spill_beside_blocks()
        for shard, parts in _by_shard(batches):
            yield from _emitted([Payload(shard, data) for data in self.stages.collected(parts)])


@dataclass(frozen=True)
class Merge:
    """Parts of whole shards of groups to outputs."""

    work: Work

    def __call__(self, batches: Batches) -> Batches:
        """Run on one partition."""
        spill_beside_blocks()
        for shard, parts in _by_shard(batches):
            yield from map(_for_spark, self.work.released(shard, parts))


@dataclass(frozen=True)
class Gather:
    """Parts of whole shards of groups to what they send to where one draw serves all groups."""

    work: Work

    def __call__(self, batches: Batches) -> Batches:
        """Run on one partition."""
        spill_beside_blocks()
        for shard, parts in _by_shard(batches):
            yield from _emitted([Payload(shard, self.work.gathered(shard, parts))])


@dataclass(frozen=True)
class Together:
    """What all shards of groups sent to outputs."""

    work: Work

    def __call__(self, batches: Batches) -> Batches:
        """Run on the only partition."""
        yield from map(_for_spark, self.work.together(_rows(batches)))


def _for_spark(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return outputs in types that Spark has: its lists have no length."""
    columns = [
        column.cast(pa.list_(column.type.value_type)) if pa.types.is_fixed_size_list(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def shipped(task: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """Return the task as a function that says what is missing, where a worker cannot run it."""
    from pyspark import cloudpickle

    data = cloudpickle.dumps(task)

    # Sent by its code, not by its name, so that it comes to say so.
    def function(batches):  # type: ignore[no-untyped-def]
        import pickle

        try:
            task = pickle.loads(data)
            from sfumato.engines.spark.tasks import settle
        except ImportError as error:
            raise RuntimeError(
                f"Spark's Python workers lack the module {error.name!r}; install sfumato and what it needs "
                "where they run, or send a packed environment along (docs/spark.md)"
            ) from None
        yield from task(batches)
        settle(type(task).__qualname__)

    return function


@cache
def settle(kind: str) -> None:
    """Let this worker look for garbage no more in what a task of this kind imported.

    After each task pyspark looks through all that a worker holds, which takes longer than a task of few rows.

    Args:
        kind: of the task: another one may have imported more.
    """
    gc.collect()
    gc.freeze()


@contextmanager
def unlogged() -> Iterator[None]:
    """Keep what this thread sends to Java out of py4j's log, which of level DEBUG has each command whole.

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
    """Yield each shard with its parts, one at a time; Spark brings one shard to a partition."""
    seen: set[int] = set()
    for shard, parts in groupby(_rows(batches), key=lambda row: row[0]):
        if shard in seen:
            raise EngineError("parts of one shard came apart; do not change the partitions inside a release")
        seen.add(shard)
        yield shard, (data for _, data in parts)
