"""The recorder of true statistics for a running test, releases without noise, and seeded randomness.

Nothing in a release knows of this: while a test asks for it, the methods of `Release` are wrapped,
and put back afterwards.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import field, fields, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.api.largest_groups import Top
from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.stages import as_stream
from sfumato.engines.worker_noise import TopWork, Work, digest
from sfumato.errors import ParameterError
from sfumato.noise import SeededWords, Words
from sfumato.noise.k_norm import SeparateNoise
from sfumato.plan.group_measurement import GroupMeasurement, Noise
from sfumato.plan.noisy_statistics import NoisyBatch
from sfumato.plan.plan import Plan
from sfumato.plan.top_measurement import TopMeasurement
from sfumato.release.release import Release, join_batches
from sfumato.release.top_release import TopRelease
from sfumato.testing.flakiness import require_test

if TYPE_CHECKING:
    from sfumato.noise.random_words import Words64

# The sign bit clear and all others set: the median of each coin, and of |noise| the smallest value.
_MIDDLE = (1 << 63) - 1


class NoiselessWords(Words):
    """Words for releases without noise: noise rounds to 0, a coin shows its more probable side.

    Raises:
        RefusalError: no pytest test is running.
    """

    def __init__(self) -> None:
        require_test("words without noise")

    def take(self, count: int) -> Words64:
        """Return the word of releases without noise `count` times."""
        return np.full(count, _MIDDLE, np.uint64)


def _noiseless(noise: Noise) -> Any:
    """Return joint noise whose every number is 0: no random words would make all of its parts 0."""

    class Noiseless(type(noise)):  # type: ignore[misc]
        def rounded(self, *given: Any) -> Any:
            """Return zeros for a release without noise, whatever words are given."""
            return np.zeros_like(super().rounded(*given[: isinstance(self, SeparateNoise)], SeededWords(0)))

    return Noiseless(**{f.name: getattr(noise, f.name) for f in fields(noise)})


def _without_noise(measurement: GroupMeasurement) -> GroupMeasurement:
    """Return a measurement that draws no noise from `NoiselessWords`."""
    if measurement.independent:  # the words are enough
        return measurement
    return replace(measurement, noise=_noiseless(measurement.noise))


@dataclass(frozen=True)
class NoiselessTop(TopMeasurement):
    """The measurement of a top-k release without noise.

    Equal numbers are in the order of their keys, and a private group that is more likely hidden is not shown.

    Args:
        words: with which noise is 0.
    """

    words: Words | None = None

    def draw(self, exact: pa.Table, words: Words | None = None) -> pa.Table:
        """Return the groups with the largest numbers without noise, whatever words are given."""
        return super().draw(exact, self.words)

    def _pick_groups(self, numbers: NDArray[Any], words: Words | None) -> list[int]:
        order = np.argsort(-numbers, kind="stable").tolist()
        if self.candidates is None or self.margin is None:
            return [int(i) for i in order[: self.k]]
        behind = order[self.candidates : self.candidates + 1]
        end = max((int(numbers[i]) for i in behind), default=0) + 1 + self.margin
        return [int(i) for i in order[: min(self.k, self.candidates)] if numbers[i] > end]


def _noiseless_top(drawn: TopMeasurement, words: Words) -> NoiselessTop:
    return NoiselessTop(**{f.name: getattr(drawn, f.name) for f in fields(TopMeasurement)}, words=words)


def _noiseless_top_release(words: Words) -> Callable[..., None]:
    """Return a `TopRelease.__init__` that makes a top-k release without noise."""
    original = TopRelease.__init__

    def without_noise(self: TopRelease, plan: Plan[Top, TopMeasurement], *given: Any) -> None:
        original(self, replace(plan, measurement=_noiseless_top(plan.measurement, words)), *given)

    return without_noise


def _noiseless_top_work(words: Words) -> Any:
    """Return a `TopWork.prepare` that makes work for workers which draw a top-k release without noise."""
    original = TopWork.prepare

    def prepare(cls: type[TopWork], *given: Any, **options: Any) -> TopWork:
        made = original(*given, **options)
        return replace(made, measurement=_noiseless_top(made.measurement, words))

    return classmethod(prepare)


@dataclass(frozen=True)
class WatchedWork(Work):
    """Work of Spark or Beam workers that records exact and noisy numbers, or draws no noise.

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


def _watched_work(change: Callable[[WatchedWork], WatchedWork]) -> Any:
    """Return a `Work.prepare` that records what workers draw; `change` sets where, or with which words."""
    original = Work.prepare

    def prepare(cls: type[Work], *given: Any, **options: Any) -> WatchedWork:
        made = original(*given, **options)
        return change(WatchedWork(**{f.name: getattr(made, f.name) for f in fields(made)}))

    return classmethod(prepare)


def seeded_words(seed: int | str | None = None) -> SeededWords:
    """Return random words that a seed determines, for the running test.

    Args:
        seed: a whole number or text; the default is the test's name.
    Returns:
        A source of random words, for `unsafe_words`.
    Raises:
        RefusalError: no pytest test is running.
        ParameterError: seed is neither a whole number nor text.

    >>> seeded_words(1)                     # in a test, as this example is when pytest runs it
    SeededWords(1)
    """
    name = require_test("seeded words")
    return SeededWords(name if seed is None else seed)


@contextmanager
def noise_free() -> Iterator[None]:
    """Make releases without noise until the end of the `with` block.

    A release made inside the block draws no noise, whenever it is accessed. It shows a group if the group is
    more likely shown than not. Bounds, groups per unit and rounding to the grid are as always: the numbers
    are those to which noise would have been added.

    Yields:
        Nothing.
    Raises:
        RefusalError: no pytest test is running.

    >>> import pyarrow as pa, sfumato as sf
    >>> people = sf.scan(pa.table({"id": [1, 2, 3], "x": [1, 2, 30]}), privacy_unit="id")
    >>> question = people.bound(rows=1).agg(n=sf.count(), mean=sf.mean("x", lower=0, upper=10))
    >>> with noise_free():
    ...     question.release(epsilon=0.1).to_arrow().to_pylist()
    [{'n': 3, 'mean': 4.333333333...}]
    """
    require_test("releases without noise")
    words, original = NoiselessWords(), Release.__init__

    def without_noise(self: Release, plan: Plan, *given: Any, **options: Any) -> None:
        plan = replace(plan, measurement=_without_noise(plan.measurement))
        original(self, plan, *given, **(options | {"unsafe_words": words}))

    def still(work: WatchedWork) -> WatchedWork:
        return replace(work, words=words, measurement=_without_noise(work.measurement))

    with ExitStack() as undone:
        undone.enter_context(_replaced(Release, "__init__", without_noise))
        undone.enter_context(_replaced(Work, "prepare", _watched_work(still)))
        undone.enter_context(_replaced(TopRelease, "__init__", _noiseless_top_release(words)))
        undone.enter_context(_replaced(TopWork, "prepare", _noiseless_top_work(words)))
        yield


@dataclass
class Recorded:
    """One recorded release with its true statistics.

    Args:
        release: as the code under test made it; of one that workers of Spark or Beam drew, the same numbers.
    """

    release: Release
    _batches: list[pa.RecordBatch] = field(default_factory=list)

    @property
    def truth(self) -> pa.Table:
        """The outputs without noise of all groups, also of those that were not selected, sorted by key.

        In place of a quantile stand the group's exact leaf counts, from which the assertions find what a
        release may show for it.
        """
        return self._table(self._batches)

    @property
    def kept(self) -> pa.Table:
        """The recorded outputs without noise of the groups that the release shows."""
        truth, shown = self.truth, self.release.to_arrow()
        keys = list(self.release.plan.query.shown_keys)
        if not keys:
            return truth
        seen = {tuple(row.values()) for row in shown.select(keys).to_pylist()}
        mask = [tuple(row.values()) in seen for row in truth.select(keys).to_pylist()]
        return truth.filter(pa.array(mask, pa.bool_()))

    def _table(self, batches: list[pa.RecordBatch]) -> pa.Table:
        if not batches:
            self.release.to_arrow()
        return pa.Table.from_batches(batches).combine_chunks()

    def _add(self, batch: pa.RecordBatch) -> None:
        """Record a batch of exact statistics."""
        measurement = self.release.plan.measurement
        truth = replace(_without_noise(measurement), selection=None).draw(batch, NoiselessWords()).outputs()
        exact = measurement.columns(batch)
        for e in self.release.plan.requirements.estimates:
            if e.kind == "quantile" and e.total is not None:
                place = truth.schema.names.index(e.name)
                truth = truth.set_column(place, e.name, exact[e.total])
        self._batches.append(truth)


@dataclass
class RecordedTop:
    """One recorded release of the largest groups with its true numbers.

    Args:
        release: as the code under test made it.
        truth: the exact numbers of public groups; of private ones those of the largest, one more than there
            are candidates.
    """

    release: TopRelease
    truth: pa.Table

    @classmethod
    def record(cls, release: TopRelease, exact: pa.Table) -> RecordedTop:
        """Record the exact numbers of the largest groups, which come in steps."""
        question = release.question
        numbers = [int(n) * release.plan.measurement.step for n in exact.columns[-1].to_pylist()]
        column = [round(n) if question.whole else float(n) for n in numbers]
        return cls(
            release, pa.table([*exact.columns[:-1], column], names=[*question.keys, question.measured])
        )

    @property
    def kept(self) -> pa.Table:
        """The recorded exact numbers of the groups that are shown, in the order drawn."""
        keys, rows = list(self.release.question.keys), self.truth.to_pylist()
        places = {repr([row[key] for key in keys]): place for place, row in enumerate(rows)}
        shown = self.release.to_arrow().select(keys).to_pylist()
        return self.truth.take([places[repr(list(row.values()))] for row in shown])


class Recorder:
    """The recorder: all releases drawn since recording began, with their true statistics.

    >>> Recorder().releases
    []
    """

    def __init__(self) -> None:
        self.releases: list[Recorded | RecordedTop] = []
        # What workers draw: the plan, the engine, and the folder of each, beside what the release gave.
        self._watched: list[_Watched] = []

    def __getitem__(self, release: Release | TopRelease | int | Any) -> Any:
        """Return the record of a release, or of the n-th one.

        Args:
            release: a release; on Spark its data frame, on Beam its transform, once the pipeline ran.
        Raises:
            ParameterError: its noise was not drawn while recording.
        """
        for watched in self._watched:
            watched.collect(self.releases)
        if isinstance(release, int):
            if -len(self.releases) <= release < len(self.releases):
                return self.releases[release]
            raise ParameterError(
                "release", release, f"below {len(self.releases)}, the number of recorded ones"
            )
        for watched in self._watched:
            if watched.result is release and watched.recorded is not None:
                return watched.recorded
        if isinstance(release, (Release, TopRelease)):
            release.to_arrow()
        for recorded in self.releases:
            if recorded.release is release:
                return recorded
        raise ParameterError("release", release, "one that was drawn while recording")


@dataclass
class _Watched:
    """A recorded release that workers draw.

    Args:
        plan, engine: of the release.
        folder: where workers keep what they see.
        result: what the release gave: a data frame, or a transform.
        recorded: what was kept, once they are done.
    """

    plan: Plan
    engine: Any
    folder: Path
    result: Any = None
    recorded: Recorded | None = None

    def collect(self, releases: list[Recorded | RecordedTop]) -> None:
        """Read the files that workers recorded, once they are done."""
        if self.recorded is not None or not (noisy := _noisy_batches(self.folder, self.plan.measurement)):
            return
        release = Release(self.plan, self.engine)
        release._started, release._batches = True, noisy
        self.recorded = Recorded(release)
        exact = _exact_batches(self.folder)
        for batch in join_batches(iter(exact)) if self.plan.measurement.at_once else exact:
            self.recorded._add(batch)
        releases.append(self.recorded)


def _exact_batches(folder: Path) -> list[pa.RecordBatch]:
    """Return the exact statistics that workers recorded in a folder, by shard."""
    return [b for p in sorted(folder.glob("exact-*")) for b in pa.ipc.open_stream(p.read_bytes())]


def _noisy_batches(folder: Path, measurement: GroupMeasurement) -> list[NoisyBatch]:
    """Return the noisy statistics that workers recorded in a folder."""
    read = [pickle.loads(p.read_bytes()) for p in sorted(folder.glob("noisy-*"))]
    if not measurement.keys:  # one row without columns is none, once it was written
        read = [(pa.record_batch({"x": [0]}).select([]), numbers) for _, numbers in read]
    return [NoisyBatch(measurement, keys, numbers) for keys, numbers in read]


def _engines_of_workers() -> list[type]:
    """Return the installed engines whose releases are recorded by workers."""
    found: list[type] = []
    if find_spec("pyspark") is not None:
        from sfumato.engines.spark.spark_engine import SparkEngine

        found.append(SparkEngine)
    if find_spec("apache_beam") is not None:
        from sfumato.engines.beam.beam_engine import BeamEngine

        found.append(BeamEngine)
    return found


@contextmanager
def recording() -> Iterator[Recorder]:
    """Record the true statistics of releases until the end of the `with` block.

    A release is recorded when its noise is drawn, on first access. Workers of Spark or Beam on this machine
    keep their part in a temporary folder.

    Yields:
        A `Recorder`, with the record of each release.
    Raises:
        RefusalError: no pytest test is running.

    >>> import pyarrow as pa, sfumato as sf
    >>> people = sf.scan(pa.table({"id": [1, 2, 3]}), privacy_unit="id")
    >>> with recording() as recorder:
    ...     release = people.bound(rows=1).agg(n=sf.count()).release(epsilon=1)
    ...     recorder[release].truth.to_pylist()
    [{'n': 3}]
    """
    require_test("a record of true statistics")
    recorder, original, drawn = Recorder(), Release._noisy, TopRelease._drawn

    def recorded_top(self: TopRelease, exact: pa.Table) -> Any:
        recorder.releases.append(RecordedTop.record(self, exact))
        return drawn(self, exact)

    def recorded(self: Release, batch: pa.RecordBatch) -> Any:
        entry = next((r for r in recorder.releases if r.release is self), None)
        if entry is None:
            entry = Recorded(self)
            recorder.releases.append(entry)
        entry._add(batch)
        return original(self, batch)

    with ExitStack() as undone:
        parent = Path(undone.enter_context(TemporaryDirectory()))

        def releases(engine: type) -> Any:
            before = engine.__dict__["release"]

            def release(self: Any, plan: Plan, **options: Any) -> Any:
                made = _Watched(plan, self, parent / str(len(recorder._watched)))
                made.folder.mkdir()
                recorder._watched.append(made)

                def here(work: WatchedWork) -> WatchedWork:
                    return replace(work, folder=str(made.folder))

                with _replaced(Work, "prepare", _watched_work(here)):
                    made.result = before(self, plan, **options)
                return made.result

            return release

        undone.enter_context(_replaced(Release, "_noisy", recorded))
        undone.enter_context(_replaced(TopRelease, "_drawn", recorded_top))
        for engine in _engines_of_workers():
            undone.enter_context(_replaced(engine, "release", releases(engine)))
        yield recorder
        for one in recorder._watched:
            one.collect(recorder.releases)


@contextmanager
def _replaced(owner: type, name: str, value: Any) -> Iterator[None]:
    before = owner.__dict__[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
