"""What a worker does for one release, on any engine that moves data between machines.

A worker may repeat its work: a task is retried, a lost partition is computed anew, a lazy result is looked
at twice. Noise drawn a second time for the same statistics would be a second release, and their mean a
better one. So the words of each batch of groups are determined by a secret of the release and by the exact
statistics of the batch: the same statistics, the same noise, whoever computes them and however often.
Where the statistics differ, because the source itself gave other rows, so does all noise.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.duckdb.stages import Stages
from sfumato.noise import KeyedWords
from sfumato.query.noising import Noising, NoisyBatch
from sfumato.query.plan import Plan
from sfumato.query.release import BATCH_GROUPS, BATCH_TREES, check_error_columns


@dataclass(frozen=True)
class Work:
    """The last stage of a release: exact statistics of whole groups to outputs.

    Args:
        stages: the stages before.
        noising: the laws and the selection.
        confidence: of error bars in columns of their own, or None for none.
        secret: of this release; whoever knows it and a group's exact statistics knows their noise.
    """

    stages: Stages
    noising: Noising
    confidence: float | None = None
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    @classmethod
    def of(cls, plan: Plan, stages: Stages, confidence: float | None = None) -> Work:
        """Prepare the work of one release.

        Raises:
            QueryError: the confidence, or the columns that it adds, are not admissible.
        """
        if confidence is not None:
            check_error_columns(plan, confidence)
        return cls(stages, plan.noising, confidence)

    def released(self, shard: int, payloads: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        """Yield noisy outputs of all groups of one shard; at least one batch."""
        for batch in self.noisy(shard, payloads):
            yield batch.outputs(self.confidence)

    def noisy(self, shard: int, payloads: Iterable[bytes]) -> Iterator[NoisyBatch]:
        """Yield all groups of one shard with their noise; at least one batch."""
        rows = BATCH_TREES if self.stages.has_trees else BATCH_GROUPS
        for batch in self.stages.merged(shard, payloads, rows):
            yield self.noising.draw(batch, KeyedWords(self.secret, digest(batch)))

    @property
    def schema(self) -> pa.Schema:
        """The columns of the outputs."""
        return next(self.released(0, ())).schema


def digest(batch: pa.RecordBatch) -> bytes:
    """Return what is equal for equal batches, and for no others: of values, not of how they lie in memory."""
    hashed = hashlib.sha256()
    for column in batch.columns:
        # What lies under a NULL, and in the unused bits of booleans, is not determined.
        present = column.is_valid().cast(pa.uint8())
        values = column.drop_null()
        for part in (present, _bytewise(values)):
            sink = pa.BufferOutputStream()
            single: Any = pa.RecordBatch.from_arrays([part], names=["values"])
            with pa.ipc.new_stream(sink, single.schema) as writer:
                writer.write_batch(single)
            hashed.update(sink.getvalue())
    return hashed.digest()


def _bytewise(values: pa.Array) -> pa.Array:
    return pc.cast(values, pa.uint8()) if pa.types.is_boolean(values.type) else values
