"""What a running test may see of releases that workers draw, those of Spark and Beam.

Workers are other processes, which know of no test. So the work that is sent to them is of a kind that keeps
what it sees in a folder of this machine, or that draws no noise. Only a running test makes such work.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.stages import as_stream
from sfumato.engines.work import Work, digest
from sfumato.noise import Words
from sfumato.query.noisy.measurement import GroupMeasurement, NoisyBatch


@dataclass(frozen=True)
class WatchedWork(Work):
    """Work that keeps what it sees, or that draws no noise.

    Args:
        folder: where exact and noisy numbers are kept; None for nowhere.
        words: what is drawn instead of noise; None for noise.
    """

    folder: str | None = None
    words: Words | None = None

    def _exact(self, shard: int, payloads: Any) -> Any:
        for place, batch in enumerate(super()._exact(shard, payloads)):
            self._keep(f"exact-{shard:08}-{place:08}", as_stream([batch]))
            yield batch

    def _draw(self, batch: pa.RecordBatch) -> NoisyBatch:
        noisy = super()._draw(batch)
        # As its words go by the same, a draw that is repeated has this name again.
        self._keep(f"noisy-{digest(batch).hex()}", pickle.dumps((noisy.keys, noisy.numbers)))
        return noisy

    def _words(self, batch: pa.RecordBatch) -> Any:
        return super()._words(batch) if self.words is None else self.words

    def _keep(self, name: str, data: bytes) -> None:
        if self.folder is not None:
            path = Path(self.folder) / name
            part = path.with_name(f"{os.getpid()}-part-{name}")
            part.write_bytes(data)
            os.replace(part, path)


def watched(change: Callable[[WatchedWork], WatchedWork]) -> Any:
    """Return what stands in place of `Work.of`: the same work, watched and changed."""
    original = Work.of

    def of(cls: type[Work], *given: Any, **options: Any) -> WatchedWork:
        made = original(*given, **options)
        return change(WatchedWork(**{f.name: getattr(made, f.name) for f in fields(made)}))

    return classmethod(of)


def exact_batches(folder: Path) -> list[pa.RecordBatch]:
    """Return the exact statistics that were kept, by shard."""
    return [b for p in sorted(folder.glob("exact-*")) for b in pa.ipc.open_stream(p.read_bytes())]


def noisy_batches(folder: Path, measurement: GroupMeasurement) -> list[NoisyBatch]:
    """Return the noisy numbers that were kept."""
    read = [pickle.loads(p.read_bytes()) for p in sorted(folder.glob("noisy-*"))]
    if not measurement.keys:  # one row without columns is none, once it was written
        read = [(pa.record_batch({"x": [0]}).select([]), numbers) for _, numbers in read]
    return [NoisyBatch(measurement, keys, numbers) for keys, numbers in read]
