"""What a running test may see of the largest groups: their truth, and what is shown without noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.engines.top_work import TopWork
from sfumato.noise import Words
from sfumato.query.largest_groups import Top
from sfumato.query.noisy.top_measurement import TopMeasurement
from sfumato.query.plans.plan import Plan
from sfumato.query.released.top_release import TopRelease


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
