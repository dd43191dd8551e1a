"""What a running test may see of the largest groups, and of releases that workers draw."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.api.largest_groups import Top
from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.stages import as_stream
from sfumato.engines.worker_noise import TopWork, Work, digest
from sfumato.noise import Words
from sfumato.plan.group_measurement import GroupMeasurement, NoisyBatch
from sfumato.plan.plan import Plan
from sfumato.plan.top_measurement import TopMeasurement
from sfumato.release.top_release import TopRelease


@dataclass
class RecordedTop:
    """One release of the largest groups with its truth.

    Args:
        release: as the code under test made it.
        truth: the exact numbers of public groups; of private ones those of the largest, one more than there
            are candidates.
    """

    release: TopRelease
    truth: pa.Table

    @classmethod
    def of(cls, release: TopRelease, exact: pa.Table) -> RecordedTop:
        """Keep exact numbers, which come in steps."""
        question = release.question
        numbers = [int(n) * release.plan.measurement.step for n in exact.columns[-1].to_pylist()]
        column = [round(n) if question.whole else float(n) for n in numbers]
        return cls(
            release, pa.table([*exact.columns[:-1], column], names=[*question.keys, question.measured])
        )

    @property
    def kept(self) -> pa.Table:
        """The exact numbers of the groups that are shown, in the order drawn."""
        keys, rows = list(self.release.question.keys), self.truth.to_pylist()
        places = {repr([row[key] for key in keys]): place for place, row in enumerate(rows)}
        shown = self.release.to_arrow().select(keys).to_pylist()
        return self.truth.take([places[repr(list(row.values()))] for row in shown])


@dataclass(frozen=True)
class StillTop(TopMeasurement):
    """The same without noise: equal numbers are in the order of their keys, and no private group is shown
    that is more likely hidden by the end.

    Args:
        words: with which noise is 0.
    """

    words: Words | None = None

    def draw(self, exact: pa.Table, words: Words | None = None) -> pa.Table:
        """Return the groups with the largest numbers, whatever words are given."""
        return super().draw(exact, self.words)

    def _picked(self, numbers: NDArray[Any], words: Words | None) -> list[int]:
        order = np.argsort(-numbers, kind="stable").tolist()
        if self.candidates is None or self.margin is None:
            return [int(i) for i in order[: self.k]]
        behind = order[self.candidates : self.candidates + 1]
        end = max((int(numbers[i]) for i in behind), default=0) + 1 + self.margin
        return [int(i) for i in order[: min(self.k, self.candidates)] if numbers[i] > end]


def _still(drawn: TopMeasurement, words: Words) -> StillTop:
    return StillTop(**{f.name: getattr(drawn, f.name) for f in fields(TopMeasurement)}, words=words)


def still_draw(words: Words) -> Callable[..., None]:
    """Return what stands in place of `TopRelease.__init__`."""
    original = TopRelease.__init__

    def without_noise(self: TopRelease, plan: Plan[Top, TopMeasurement], *given: Any) -> None:
        original(self, replace(plan, measurement=_still(plan.measurement, words)), *given)

    return without_noise


def still_work(words: Words) -> Any:
    """Return what stands in place of `TopWork.of`."""
    original = TopWork.of

    def of(cls: type[TopWork], *given: Any, **options: Any) -> TopWork:
        made = original(*given, **options)
        return replace(made, measurement=_still(made.measurement, words))

    return classmethod(of)


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
