"""Questions about rows that a Beam pipeline will bring."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.engines.distributed import DistributedEngine
from sfumato.engines.work import Work
from sfumato.errors import EngineError, RefusalError
from sfumato.query.engine import ExactQuery

if TYPE_CHECKING:
    from sfumato.engines.beam.release import PlannedRelease
    from sfumato.noise import Words
    from sfumato.query.plan import Plan


SHARDS = 16


def plain(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values, of which Arrow makes a column whatever they are."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return plain(kind.value_type)
    return pa.bool_() if isinstance(kind, pa.Bool8Type) else kind


class BeamEngine(DistributedEngine):
    """Knows declared columns; rows come when a release is applied to a collection.

    Args:
        rows: the columns that are looked for in each row, with their Arrow types.
    """

    name = "Beam"

    def __init__(self, rows: pa.Schema) -> None:
        fields = [field.with_type(plain(field.type)) for field in rows]
        for field in fields:
            try:
                pa.array([], field.type)
            except pa.ArrowNotImplementedError:
                raise EngineError(
                    f"scan: the column {field.name!r} is {field.type}, which Arrow does not make of "
                    "the values of rows; declare a plain type in its place, or leave it out"
                ) from None
        super().__init__(pa.schema(fields))

    def statistics(self, query: ExactQuery, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Refuse: there are no rows here."""
        raise RefusalError("Beam: there are no rows before a pipeline runs; apply a release to a collection")

    def release(
        self, plan: Plan, *, confidence: float | None = None, unsafe_words: Words | None = None
    ) -> PlannedRelease:
        """Return the release as a transform: rows to the noisy table, one dictionary for each group.

        Args:
            plan: what to do.
            confidence: also give error bars, under the names `<output>_error`.
            unsafe_words: refused here; the noise of a batch follows from a secret of the release.
        """
        self._refuse(unsafe_words)
        from sfumato.engines.beam.release import PlannedRelease

        return PlannedRelease(plan, confidence=confidence)

    def work(self, plan: Plan, confidence: float | None = None, shards: int = SHARDS) -> Work:
        """Return what the workers will do for one release; it holds the secret of the release."""
        return Work.of(plan, self.stages(plan.exact, shards), confidence)
