"""The largest groups as a Beam transform: each shard's largest meet in one place, and are drawn there."""

from __future__ import annotations

from collections.abc import Mapping

from sfumato.engines.beam.release import PlannedRelease
from sfumato.engines.top_work import TopWork
from sfumato.query.top.asked import Top
from sfumato.query.top.explanation import TopExplanation
from sfumato.query.top.plan import TopPlan


class PlannedTop(PlannedRelease):
    """The transform of one release of the largest groups. Made by `Top.release` and `sfumato.beam.Release`.

    It gives a dictionary for each group that is shown, in the order drawn. Otherwise as `PlannedRelease`.
    """

    plan: TopPlan  # type: ignore[assignment]
    _work: TopWork  # type: ignore[assignment]

    def __init__(
        self, question: Top, plan: TopPlan, work: TopWork, collections: Mapping[int, str] | None = None
    ) -> None:
        """Make the transform of a plan.

        Args:
            question, plan: what is asked, and its noise.
            work: what the workers do for it.
            collections: as of `PlannedRelease`.
        """
        super().__init__(plan, work, collections)  # type: ignore[arg-type]
        self.question = question

    def explain(self) -> TopExplanation:  # type: ignore[override]
        """Return each step with its noise and cost; nothing in it depends on rows."""
        return TopExplanation(self.question, self.plan)

    def half_width(self, confidence: float = 0.95, *, simultaneous: bool = False) -> float:
        """Return the half-width of error bars of the numbers, the same for all groups.

        Args:
            confidence: in (0, 1): the chance that a group's number is within it of the truth.
            simultaneous: let that be the chance that all of them are.
        Raises:
            ParameterError, RefusalError: as from `TopRelease.errors`.

        >>> import pyarrow as pa, sfumato as sf
        >>> columns = pa.schema([("id", pa.int64()), ("place", pa.string())])
        >>> top = sf.scan(columns, privacy_unit="id").top("place", k=3, keys=["A", "B", "C", "D"])
        >>> top.release(epsilon=3).half_width()
        6.0
        """
        return self._work.drawing.half_width(confidence, simultaneous)

    @property
    def _names(self) -> list[str]:
        return self._work.drawing.names
