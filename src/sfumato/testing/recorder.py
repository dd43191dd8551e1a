"""What a running test may do and nobody else: seeded randomness, no noise, and the truth on record.

Nothing in a release knows of this: while a test asks for it, the methods of `Release` are wrapped,
and put back afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import field, fields, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.noise import SeededWords, Words
from sfumato.noise.k_norm import SeparateNoise
from sfumato.testing.flakiness import require_test

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.noise.random_words import Words64
    from sfumato.plan.group_measurement import GroupMeasurement, Noise
    from sfumato.plan.plan import Plan
    from sfumato.release.release import Release
    from sfumato.release.top_release import TopRelease
    from sfumato.testing.watched import RecordedTop, WatchedWork

# The sign bit clear and all others set: the median of each coin, and of |noise| the smallest value.
_MIDDLE = (1 << 63) - 1


class NoiselessWords(Words):
    """Words with which all noise rounds to 0, and a coin shows its more probable side.

    Raises:
        RefusalError: no pytest test is running.
    """

    def __init__(self) -> None:
        require_test("words without noise")

    def take(self, count: int) -> Words64:
        """Return the same word `count` times."""
        return np.full(count, _MIDDLE, np.uint64)


def _still(noise: Noise) -> Any:
    """Return noise whose every number is 0: it is made of many words, which no words make 0 together."""

    class Still(type(noise)):  # type: ignore[misc]
        def rounded(self, *given: Any) -> Any:
            """Draw as many zeros as there would be numbers, whatever words are given."""
            return np.zeros_like(super().rounded(*given[: isinstance(self, SeparateNoise)], SeededWords(0)))

    return Still(**{f.name: getattr(noise, f.name) for f in fields(noise)})


def _silent(measurement: GroupMeasurement) -> GroupMeasurement:
    noise = measurement.noise
    if measurement.independent:  # which words without noise are enough for
        return measurement
    return replace(measurement, noise=_still(noise))


def seeded_words(seed: int | str | None = None) -> SeededWords:
    """Return random words that a seed determines, for the running test.

    Args:
        seed: whole number or text; the test's name without it.
    Raises:
        RefusalError: no pytest test is running.
        ParameterError: seed is neither a whole number nor a text.

    >>> seeded_words(1)                     # in a test, as this example is when pytest runs it
    SeededWords(1)
    """
    name = require_test("seeded words")
    return SeededWords(name if seed is None else seed)


@contextmanager
def noise_free() -> Iterator[None]:
    """Make releases without noise, until the end of the `with` block.

    A release that is made inside draws no noise, whenever it is looked at. A group is shown if it is
    more likely shown than not. Bounds, groups per unit and rounding to the grid are as always: what
    is seen is what the noise would have been added to.

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
    from sfumato.engines.worker_noise import TopWork, Work
    from sfumato.release.release import Release
    from sfumato.release.top_release import TopRelease
    from sfumato.testing.watched import still_draw, still_work, watched

    words, original = NoiselessWords(), Release.__init__

    def without_noise(self: Release, plan: Plan, *given: Any, **options: Any) -> None:
        plan = replace(plan, measurement=_silent(plan.measurement))
        original(self, plan, *given, **(options | {"unsafe_words": words}))

    def still(work: WatchedWork) -> WatchedWork:
        return replace(work, words=words, measurement=_silent(work.measurement))

    with ExitStack() as undone:
        undone.enter_context(_replaced(Release, "__init__", without_noise))
        undone.enter_context(_replaced(Work, "of", watched(still)))
        undone.enter_context(_replaced(TopRelease, "__init__", still_draw(words)))
        undone.enter_context(_replaced(TopWork, "of", still_work(words)))
        yield


@dataclass
class Recorded:
    """One release with its truth.

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
        """The outputs without noise of the groups that the release shows."""
        import pyarrow as pa

        truth, shown = self.truth, self.release.to_arrow()
        keys = list(self.release.plan.query.shown_keys)
        if not keys:
            return truth
        seen = {tuple(row.values()) for row in shown.select(keys).to_pylist()}
        mask = [tuple(row.values()) in seen for row in truth.select(keys).to_pylist()]
        return truth.filter(pa.array(mask, pa.bool_()))

    def _table(self, batches: list[pa.RecordBatch]) -> pa.Table:
        import pyarrow as pa

        if not batches:
            self.release.to_arrow()
        return pa.Table.from_batches(batches).combine_chunks()

    def _add(self, batch: pa.RecordBatch) -> None:
        """Add a batch of exact statistics."""
        measurement = self.release.plan.measurement
        truth = replace(_silent(measurement), selection=None).draw(batch, NoiselessWords()).outputs()
        exact = measurement.columns(batch)
        for e in self.release.plan.requirements.estimates:
            if e.kind == "quantile" and e.total is not None:
                place = truth.schema.names.index(e.name)
                truth = truth.set_column(place, e.name, exact[e.total])
        self._batches.append(truth)


class Recorder:
    """All releases of which noise was drawn since recording began, with the true statistics.

    >>> Recorder().releases
    []
    """

    def __init__(self) -> None:
        self.releases: list[Recorded | RecordedTop] = []
        # What workers draw: the plan, the engine, and the folder of each, beside what the release gave.
        self._watched: list[_Watched] = []

    def __getitem__(self, release: Release | TopRelease | int | Any) -> Any:
        """Return what was recorded of a release, or of the n-th one.

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
        if isinstance(release, (_release_type(), _top_type())):
            release.to_arrow()
        for recorded in self.releases:
            if recorded.release is release:
                return recorded
        raise ParameterError("release", release, "one that was first looked at while recording")


@dataclass
class _Watched:
    """A release that workers draw.

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
        """Read what workers kept, where they are done and it was not read before."""
        from sfumato.release.release import joined
        from sfumato.testing.watched import exact_batches, noisy_batches

        if self.recorded is not None or not (noisy := noisy_batches(self.folder, self.plan.measurement)):
            return
        release = _release_type()(self.plan, self.engine)
        release._started, release._batches = True, noisy
        self.recorded = Recorded(release)
        exact = exact_batches(self.folder)
        for batch in joined(iter(exact)) if self.plan.measurement.at_once else exact:
            self.recorded._add(batch)
        releases.append(self.recorded)


def _release_type() -> type[Release]:
    from sfumato.release.release import Release

    return Release


def _top_type() -> type[TopRelease]:
    from sfumato.release.top_release import TopRelease

    return TopRelease


def _engines_of_workers() -> list[type]:
    """Return the engines whose releases are drawn by workers, of those that are installed."""
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
    """Keep the true statistics of releases, until the end of the `with` block.

    A release is recorded when its noise is drawn, which is when it is first looked at. Of one that workers
    draw, on Spark or Beam, those of this machine keep what they see in a temporary folder.

    Yields:
        A `Recorder`, which has what is recorded of each release.
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
    from sfumato.engines.worker_noise import Work
    from sfumato.testing.watched import RecordedTop, watched

    recorder, original, drawn = Recorder(), _release_type()._noisy, _top_type()._drawn

    def recorded_top(self: TopRelease, exact: pa.Table) -> Any:
        recorder.releases.append(RecordedTop.of(self, exact))
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

                with _replaced(Work, "of", watched(here)):
                    made.result = before(self, plan, **options)
                return made.result

            return release

        undone.enter_context(_replaced(_release_type(), "_noisy", recorded))
        undone.enter_context(_replaced(_top_type(), "_drawn", recorded_top))
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
