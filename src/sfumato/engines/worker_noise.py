"""What a worker does for one release, on any engine that moves data between machines.

A worker may repeat its work: a task is retried, a lost partition is computed anew, a lazy result is looked
at twice. Noise drawn a second time for the same statistics would be a second release, and their mean a
better one. So the words of each batch of groups are determined by a key of the release and by the exact
statistics of the batch: the same statistics, the same noise, whoever computes them and however often.
Where the statistics differ, because the source itself gave other rows, so does all noise.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.api.largest_groups import Top
from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.stages import Stages, as_stream
from sfumato.engines.worker_secret import Secret, seal_secret
from sfumato.errors import EngineError, in_own_words, with_article
from sfumato.noise import KeyedWords
from sfumato.plan.group_measurement import GroupMeasurement
from sfumato.plan.noisy_statistics import NoisyBatch
from sfumato.plan.plan import Plan, certify_plans
from sfumato.plan.top_measurement import TopMeasurement
from sfumato.query import sizes
from sfumato.query.error_bars import UNBIASED, Bars, Bias
from sfumato.release.release import check_error_columns
from sfumato.release.release_files import regular


@dataclass(frozen=True)
class LastStage:
    """The stage of a release in which workers draw noise.

    Args:
        stages: the stages before.
        measurement: what is drawn for exact statistics.
        secret: of this release alone, sent along with the work; or where workers find one. Whoever knows it
            knows the noise of any exact statistics, so can tell from a release which ones fit.
        release: the public random number of the release, which makes a key of its own from a secret that
            serves many.
    """

    stages: Stages
    measurement: Any
    secret: bytes | Secret = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    release: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    @classmethod
    def _prepare(cls, plan: Plan[Any, Any], stages: Stages, secret: Secret | None, **options: Any) -> Self:
        certify_plans([plan])
        if (found := seal_secret(secret)) is not None:
            options["secret"] = found
        return cls(stages, plan.measurement, **options)

    def _words(self, batch: pa.RecordBatch) -> KeyedWords:
        """Return the random words of a worker's batch, from the secret and the exact numbers."""
        key = self.secret._key(self.release) if isinstance(self.secret, Secret) else self.secret
        return KeyedWords(key, digest(batch))


@dataclass(frozen=True)
class Work(LastStage):
    """A worker's last stage: exact statistics of whole groups to noisy outputs.

    Args:
        confidence: of error bars in columns of their own, or None for none.
        bias: what limits and bounds can change in the outputs.
    """

    measurement: GroupMeasurement
    confidence: float | None = None
    bias: Bias = UNBIASED

    @classmethod
    def prepare(
        cls, plan: Plan, stages: Stages, confidence: float | None = None, secret: Secret | None = None
    ) -> Work:
        """Prepare the workers' noise of one release.

        Args:
            secret: where workers find one; without it one is drawn, and sent along.
        Raises:
            QueryError: the confidence, or the columns that it adds, are not admissible; or the secret is not
                there, and its fingerprint was not given.
        """
        if confidence is not None:
            check_error_columns(plan, confidence)
        return cls._prepare(plan, stages, secret, confidence=confidence, bias=plan.bias)

    def released(self, shard: int, payloads: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        """Yield a worker's noisy outputs of one shard of groups; at least one batch."""
        for batch in self.noisy(shard, payloads):
            yield batch.outputs(self.confidence)

    def noisy(self, shard: int, payloads: Iterable[bytes]) -> Iterator[NoisyBatch]:
        """Yield a worker's noisy statistics of one shard of groups; at least one batch."""
        with in_own_words(make_worker_error, Exception):
            for batch in self._exact(shard, payloads):
                yield self._draw(batch)

    @property
    def at_once(self) -> bool:
        """Whether one worker draws the noise of all groups."""
        return self.measurement.at_once

    @property
    def places(self) -> int:
        """In how many places workers draw noise: one, or shard by shard."""
        return 1 if self.at_once else self.stages.group_shards

    def gathered(self, shard: int, payloads: Iterable[bytes]) -> bytes:
        """Return what one shard of groups sends to the worker that draws for all groups."""
        with in_own_words(make_worker_error, Exception):
            exact = self._exact(shard, payloads)
            return as_stream([self.measurement.chosen(batch, self._words(batch)) for batch in exact])

    def drawn_jointly(self, gathered: Iterable[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
        """Yield noisy outputs of all groups, which one worker draws.

        Args:
            gathered: each shard of groups with what it sent, in any order.
        """
        with in_own_words(make_worker_error, Exception):
            # The draw goes by the shards' public numbers, and then by keys.
            parts = [batch for _, data in sorted(gathered) for batch in pa.ipc.open_stream(data)]
            (batch,) = pa.Table.from_batches(parts).combine_chunks().to_batches()
            yield self._draw(batch).outputs(self.confidence)

    def _exact(self, shard: int, payloads: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        """Yield a shard's exact statistics in the batches that workers' noise goes by."""
        rows = sizes.BATCH_TREES if self.stages.has_trees else sizes.BATCH_GROUPS
        return regular(self.stages.merged(shard, payloads, rows), rows)

    def _draw(self, batch: pa.RecordBatch) -> NoisyBatch:
        return self.measurement.draw(batch, self._words(batch))

    @property
    def schema(self) -> pa.Schema:
        """The columns of workers' noisy outputs, for which nothing is drawn."""
        exact = next(self.stages.merged(0, (), 1)).slice(0, 0)
        bare = self.measurement.draw(exact, KeyedWords(bytes(32), b"")).outputs().schema
        if self.confidence is None:
            return bare
        estimates = self.measurement.requirements.estimates
        bars = {e.name: pa.field(f"{e.name}_error", e.error_type) for e in estimates}
        return pa.schema([each for one in bare for each in (one, bars.get(one.name)) if each is not None])

    @property
    def comments(self) -> dict[str, str]:
        """What workers' outputs do not include, and what their error bars cover, by column."""
        names = [estimate.name for estimate in self.measurement.requirements.estimates]
        found = dict.fromkeys(names, self.bias.describe()) if self.bias else {}
        if self.confidence is not None:
            covered = Bars(self.confidence).describe(self.bias)
            found |= {f"{name}_error": covered for name in names}
        return found


def make_worker_error(error: Exception) -> EngineError:
    """Return the error of a worker that stopped, without a text that may quote rows."""
    kind = type(error).__name__
    return EngineError(
        f"a worker failed with {with_article(kind)} (its text is left out, as it may quote rows)"
    )


def digest(batch: pa.RecordBatch) -> bytes:
    """Return a digest of a batch's exact values, from which a worker's noise follows."""
    hashed = hashlib.sha256()
    for column in batch.columns:
        for part in _encode_column(column):
            hashed.update(part)
    return hashed.digest()


def _encode_column(column: pa.Array) -> Iterator[bytes]:
    """Yield a column's type, length and values for the digest of a worker's batch."""
    yield f"{column.type} {len(column)}\n".encode()
    # What lies under a NULL, before and behind a slice, and in the unused bits of booleans is not determined.
    yield column.is_valid().to_numpy(zero_copy_only=False).tobytes()
    values = column.drop_null()
    kind, start, end = values.type, values.offset, values.offset + len(values)
    if not len(values):
        return
    if pa.types.is_boolean(kind):
        yield values.to_numpy(zero_copy_only=False).tobytes()
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield pc.list_value_length(values).to_numpy(zero_copy_only=False).tobytes()
        yield from _encode_column(values.flatten())
    elif pa.types.is_struct(kind):
        for field in values.flatten():
            yield from _encode_column(field)
    elif width := _offset_bytes(kind):
        yield pc.binary_length(values).to_numpy(zero_copy_only=False).tobytes()
        offsets = np.frombuffer(values.buffers()[1], f"i{width}")[start : end + 1]
        yield values.buffers()[2].slice(offsets[0], offsets[-1] - offsets[0]).to_pybytes()
    else:
        width = kind.bit_width // 8
        yield values.buffers()[1].slice(start * width, (end - start) * width).to_pybytes()


def _offset_bytes(kind: pa.DataType) -> int:
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return 4
    return 8 if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) else 0


@dataclass(frozen=True)
class TopWork(LastStage):
    """A worker's last stage of the largest groups: each shard sends its largest to one place."""

    measurement: TopMeasurement
    at_once: bool = True
    places: int = 1

    @classmethod
    def prepare(
        cls, plan: Plan[Top, TopMeasurement], stages: Stages, secret: Secret | None = None
    ) -> TopWork:
        """Prepare the workers' noise of a release of the largest groups.

        Raises:
            QueryError: the secret is not there, and its fingerprint was not given.
        """
        return cls._prepare(plan, stages, secret)

    def gathered(self, shard: int, payloads: Iterable[bytes]) -> bytes:
        """Return what one shard of groups sends to the worker that draws the largest groups."""
        with in_own_words(make_worker_error, Exception):
            sent = self.stages.collected(payloads)
            batches = [batch for data in sent for batch in pa.ipc.open_stream(data)]
            return as_stream(batches) if batches else b""

    def drawn_jointly(self, gathered: Iterable[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
        """Yield ranks, keys and noisy numbers of the largest groups, which one worker draws.

        Args:
            gathered: each shard of groups with what it sent, in any order.
        """
        with in_own_words(make_worker_error, Exception):
            batches = list(self.stages.merged(None, [data for _, data in gathered], sizes.BATCH_GROUPS))
            exact = pa.Table.from_batches(batches).combine_chunks()
            (batch,) = exact.to_batches() or batches[:1]
            drawn = self.measurement.draw(exact, self._words(batch))
            yield from drawn.to_batches() or [pa.RecordBatch.from_pylist([], schema=drawn.schema)]
