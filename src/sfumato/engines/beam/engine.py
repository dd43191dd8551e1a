"""Questions about rows that a Beam pipeline will bring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.engines.duckdb.engine import DuckDBEngine
from sfumato.engines.duckdb.stages import Stages
from sfumato.engines.work import Work
from sfumato.errors import ParameterError, QueryError, RefusalError
from sfumato.query.engine import ExactQuery, Schema, Step

if TYPE_CHECKING:
    from sfumato.engines.beam.release import PlannedRelease
    from sfumato.noise import Words
    from sfumato.query.plan import Plan


SHARDS = 16


class BeamEngine:
    """Knows declared columns; rows come when a release is applied to a collection.

    Args:
        rows: the columns that are looked for in each row, with their Arrow types.
    """

    name = "Beam"

    def __init__(self, rows: pa.Schema) -> None:
        if len(set(rows.names)) < len(rows) or not len(rows):
            raise QueryError(f"scan: the schema names the columns {rows.names}; name at least one, each once")
        self._rows = rows
        self._local = DuckDBEngine.open(rows.empty_table())

    def schema(self, steps: Sequence[Step] = ()) -> Schema:
        """Return the columns after the steps."""
        return self._local.schema(steps)

    def public_keys(self, keys: Sequence[str], values: object, steps: Sequence[Step]) -> pa.Table:
        """Return public keys with the key columns' types, sorted."""
        return self._local.public_keys(keys, values, steps)

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
        if unsafe_words is not None:
            raise ParameterError(
                "unsafe_words", unsafe_words, "left out on Beam, whose workers draw the noise"
            )
        from sfumato.engines.beam.release import PlannedRelease

        return PlannedRelease(plan, confidence=confidence)

    def work(self, plan: Plan, confidence: float | None = None, shards: int = SHARDS) -> Work:
        """Return what the workers will do for one release; it holds the secret of the release."""
        return Work.of(plan, self.stages(plan.exact, shards), confidence)

    def stages(self, query: ExactQuery, shards: int) -> Stages:
        """Prepare what workers compute; they are given the columns that are read, and no others."""
        read = pa.schema([self._rows.field(name) for name in self._local.reads(query)])
        return Stages.of(self._local, read, query, shards)
