"""What workers do for a release of the largest groups, where rows are on many machines.

Each shard of groups sends its largest to one place, which finds the largest of all and draws once. As of
every release that workers draw, noise follows from a secret and from the exact numbers that meet there.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import field

import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.stages import Stages, as_stream
from sfumato.engines.secret import Secret, sealed
from sfumato.engines.work import digest, keyed_words, stopped
from sfumato.errors import in_own_words
from sfumato.noise import Words
from sfumato.query import sizes
from sfumato.query.descriptions import certified
from sfumato.query.largest_groups import Top
from sfumato.query.noisy.top_measurement import TopMeasurement
from sfumato.query.plans.plan import Plan


@dataclass(frozen=True)
class TopWork:
    """The last stage of a release of the largest groups.

    Args:
        stages: the stages before.
        measurement: what is drawn of exact numbers.
        secret, release: as of `Work`.
    """

    stages: Stages
    measurement: TopMeasurement
    secret: bytes | Secret = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    release: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    # All groups meet in one place.
    at_once: bool = True
    places: int = 1

    @classmethod
    def of(cls, plan: Plan[Top, TopMeasurement], stages: Stages, secret: Secret | None = None) -> TopWork:
        """Prepare the work of one release.

        Raises:
            QueryError: the secret is not there, and its fingerprint was not given.
        """
        certified([plan])
        found = sealed(secret)
        return cls(stages, plan.measurement) if found is None else cls(stages, plan.measurement, found)

    def gathered(self, shard: int, payloads: Iterable[bytes]) -> bytes:
        """Return what one shard of groups sends to where all meet."""
        with in_own_words(stopped, Exception):
            sent = self.stages.collected(payloads)
            batches = [batch for data in sent for batch in pa.ipc.open_stream(data)]
            return as_stream(batches) if batches else b""

    def together(self, gathered: Iterable[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
        """Yield ranks, keys and noisy numbers; at least one batch.

        Args:
            gathered: each shard of groups with what it sent, in any order.
        """
        with in_own_words(stopped, Exception):
            batches = list(self.stages.merged(None, [data for _, data in gathered], sizes.BATCH_GROUPS))
            exact = pa.Table.from_batches(batches).combine_chunks()
            (batch,) = exact.to_batches() or batches[:1]
            drawn = self.measurement.draw(exact, self._words(batch))
            yield from drawn.to_batches() or [pa.RecordBatch.from_pylist([], schema=drawn.schema)]

    def _words(self, batch: pa.RecordBatch) -> Words:
        return keyed_words(self.secret, self.release, digest(batch))
