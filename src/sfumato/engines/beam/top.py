"""The largest groups as a Beam transform: each shard's largest meet in one place, and are drawn there."""

from __future__ import annotations

from sfumato.engines.beam.release import PlannedRelease
from sfumato.engines.top_work import TopWork
from sfumato.query.largest_groups import Top, TopExplanation
from sfumato.query.noisy.top_measurement import TopMeasurement
from sfumato.query.plans.plan import Plan


class PlannedTop(PlannedRelease):
    """The transform of one release of the largest groups. Made by `Top.release` and `sfumato.beam.Release`.

    It gives a dictionary for each group that is shown, in the order drawn. Otherwise as `PlannedRelease`.
    """

    plan: Plan[Top, TopMeasurement]
    _work: TopWork

    def explain(self) -> TopExplanation:  # type: ignore[override]
        """Return each step with its noise and cost; nothing in it depends on rows."""
        return self.plan.explain()

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
        return self.plan.measurement.half_width(confidence, simultaneous)

    @property
    def _names(self) -> list[str]:
        return self.plan.measurement.names
