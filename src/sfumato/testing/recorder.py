"""What a running test may do and nobody else: seeded randomness, no noise, and the truth on record.

Nothing in a release knows of this: while a test asks for it, the methods of `Release` are wrapped,
and put back afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import ParameterError
from sfumato.noise import SeededWords, Words
from sfumato.noise.k_norm import SeparateNoise
from sfumato.testing.flakiness import require_test

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.measurements.k_norm import KNormNoise
    from sfumato.noise.centred_gaussian import CentredGaussian
    from sfumato.noise.words import Words64
    from sfumato.query.plan import Plan
    from sfumato.query.release import Release

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


def _still(noise: KNormNoise | CentredGaussian) -> Any:
    """Return noise whose every number is 0: it is made of many words, which no words make 0 together."""

    class Still(type(noise)):  # type: ignore[misc]
        def rounded(self, *given: Any) -> Any:
            """Draw as many zeros as there would be numbers, whatever words are given."""
            return np.zeros_like(super().rounded(*given[: isinstance(self, SeparateNoise)], SeededWords(0)))

    return Still(**{f.name: getattr(noise, f.name) for f in fields(noise)})


def seeded_words(seed: int | str | None = None) -> SeededWords:
    """Return random words that a seed determines, for the running test.

    Args:
        seed: whole number or text; the test's name without it.
    Raises:
        RefusalError: no pytest test is running.

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
    from sfumato.query.centred import CentredPlan
    from sfumato.query.release import Release
    from sfumato.query.together import TogetherPlan

    words, original = NoiselessWords(), Release.__init__

    def without_noise(self: Release, plan: Plan, *given: Any, **options: Any) -> None:
        if isinstance(plan, TogetherPlan | CentredPlan):
            plan = replace(plan, drawn=_still(plan.drawn))
        original(self, plan, *given, **(options | {"unsafe_words": words}))

    with _replaced(Release, "__init__", without_noise):
        yield


@dataclass
class Recorded:
    """One release with its truth.

    Args:
        release: as the code under test made it.
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
        keys = list(self.release.plan.query.keys)
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


class Recorder:
    """All releases of which noise was drawn since recording began, with the true statistics.

    >>> Recorder().releases
    []
    """

    def __init__(self) -> None:
        self.releases: list[Recorded] = []

    def __getitem__(self, release: Release | int) -> Recorded:
        """Return what was recorded of a release, or of the n-th one.

        Raises:
            ParameterError: its noise was not drawn while recording.
        """
        if isinstance(release, int):
            if -len(self.releases) <= release < len(self.releases):
                return self.releases[release]
            raise ParameterError(
                "release", release, f"below {len(self.releases)}, the number of recorded ones"
            )
        release.to_arrow()
        for recorded in self.releases:
            if recorded.release is release:
                return recorded
        raise ParameterError("release", release, "one that was first looked at while recording")


@contextmanager
def recording() -> Iterator[Recorder]:
    """Keep the true statistics of releases, until the end of the `with` block.

    A release is recorded when its noise is drawn, which is when it is first looked at.

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
    from sfumato.query.release import Release

    recorder, original = Recorder(), Release._noisy

    def recorded(self: Release, batch: pa.RecordBatch) -> Any:
        entry = next((r for r in recorder.releases if r.release is self), None)
        if entry is None:
            entry = Recorded(self)
            recorder.releases.append(entry)
        noising = self.plan.noising
        silent = replace(noising, selection=None, together=noising.together and _still(noising.together))
        truth = silent.draw(batch, NoiselessWords()).outputs()
        exact = noising.columns(batch)
        for e in self.plan.requirements.estimates:
            if e.kind == "quantile" and e.total is not None:
                place = truth.schema.names.index(e.name)
                truth = truth.set_column(place, e.name, exact[e.total])
        entry._batches.append(truth)
        return original(self, batch)

    with _replaced(Release, "_noisy", recorded):
        yield recorder


@contextmanager
def _replaced(owner: type, name: str, value: Any) -> Iterator[None]:
    before = owner.__dict__[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
