"""Questions about rows that a Beam pipeline will bring."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from sfumato.engines.distributed import DistributedEngine
from sfumato.engines.work import Work
from sfumato.errors import QueryError, RefusalError
from sfumato.exact import positive_int
from sfumato.query.combining import Combination
from sfumato.query.exact import ExactQuery

if TYPE_CHECKING:
    from sfumato.engines.beam.release import PlannedRelease
    from sfumato.engines.secret import Secret
    from sfumato.noise import Words
    from sfumato.query.plan import Plan


SHARDS = 16


class BeamEngine(DistributedEngine):
    """Knows declared columns; rows come when a release is applied to a collection.

    Args:
        rows: the columns that are looked for in each row, with their Arrow types.
    Raises:
        EngineError: a column is of a type that cannot be read.
    """

    name = "Beam"

    def __init__(self, rows: pa.Schema) -> None:
        from sfumato.engines.beam.rows import declared

        super().__init__(declared(rows))

    def combined(self, how: Combination) -> Self:
        """Refuse: collections meet nowhere yet."""
        raise QueryError(
            "Beam combines no tables here yet; do it in Beam before scan, so that each row of the result "
            "follows from rows of its own privacy unit, or use DuckDB"
        )

    def statistics(self, query: ExactQuery, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Refuse: there are no rows here."""
        raise RefusalError("Beam: there are no rows before a pipeline runs; apply a release to a collection")

    def release(
        self,
        plan: Plan,
        *,
        confidence: float | None = None,
        unsafe_words: Words | None = None,
        shards: int = SHARDS,
        secret: Secret | None = None,
    ) -> PlannedRelease:
        """Return the release as a transform: rows to the noisy table, one dictionary for each group.

        Args:
            plan: what to do.
            confidence: also give error bars, under the names `<output>_error`.
            unsafe_words: refused here; the noise of a batch follows from a secret of the release.
            shards: into how many parts units, and groups, are divided; one for each ten million pairs of
                unit and group keeps them small.
            secret: where workers find the secret of the noise; without it one is drawn and sent along.
        """
        self._refuse(unsafe_words)
        from sfumato.engines.beam.callables import sealed_apart
        from sfumato.engines.beam.release import PlannedRelease

        work = self.work(plan, confidence, positive_int(shards, "shards"), sealed_apart(secret))
        return PlannedRelease(plan, work)

    def work(
        self,
        plan: Plan,
        confidence: float | None = None,
        shards: int = SHARDS,
        secret: Secret | None = None,
    ) -> Work:
        """Return what the workers will do for one release; it holds its secret, or where one is found."""
        return Work.of(plan, self.stages(plan.exact, shards), confidence, secret)
