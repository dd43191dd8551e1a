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
from sfumato.query.top.draw import TopDraw
from sfumato.query.top.release import TopRelease


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
        numbers = [int(n) * question.step for n in exact.columns[-1].to_pylist()]
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
class StillDraw(TopDraw):
    """A draw without noise: equal numbers are in the order of their keys, and of private groups none is shown
    that is more likely hidden by the end.

    Args:
        words: with which noise is 0.
    """

    words: Words

    def table(self, exact: pa.Table, words: Words | None) -> pa.Table:
        """Return the groups with the largest numbers, whatever words are given."""
        return super().table(exact, self.words)

    def _picked(self, numbers: NDArray[Any], words: Words | None) -> list[int]:
        plan, order = self.plan, np.argsort(-numbers, kind="stable").tolist()
        if plan.candidates is None or plan.margin is None:
            return [int(i) for i in order[: plan.k]]
        behind = order[plan.candidates : plan.candidates + 1]
        end = max((int(numbers[i]) for i in behind), default=0) + 1 + plan.margin
        return [int(i) for i in order[: min(plan.k, plan.candidates)] if numbers[i] > end]


def _still(drawing: TopDraw, words: Words) -> StillDraw:
    return StillDraw(**{f.name: getattr(drawing, f.name) for f in fields(TopDraw)}, words=words)


def still_draw(words: Words) -> Callable[..., None]:
    """Return what stands in place of `TopRelease.__init__`."""
    original = TopRelease.__init__

    def without_noise(self: TopRelease, *given: Any, **options: Any) -> None:
        original(self, *given, **options)
        self._drawing = _still(self._drawing, words)

    return without_noise


def still_work(words: Words) -> Any:
    """Return what stands in place of `TopWork.of`."""
    original = TopWork.of

    def of(cls: type[TopWork], *given: Any, **options: Any) -> TopWork:
        made = original(*given, **options)
        return replace(made, drawing=_still(made.drawing, words))

    return classmethod(of)
