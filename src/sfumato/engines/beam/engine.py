"""Questions about rows that a Beam pipeline will bring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.engines.duckdb.engine import DuckDBEngine
from sfumato.errors import QueryError, RefusalError
from sfumato.query.engine import ExactQuery, Schema, Step

if TYPE_CHECKING:
    from sfumato.engines.beam.release import PlannedRelease
    from sfumato.query.plan import Plan


class BeamEngine:
    """Knows declared columns; rows come when a release is applied to a collection.

    Args:
        rows: the columns that are looked for in each row, with their Arrow types.
    """

    name = "Beam"

    def __init__(self, rows: pa.Schema) -> None:
        if len(set(rows.names)) < len(rows) or not len(rows):
            raise QueryError(f"scan: the schema names the columns {rows.names}; name at least one, each once")
        self.rows = rows
        self.local = DuckDBEngine.open(rows.empty_table())

    def schema(self, steps: Sequence[Step] = ()) -> Schema:
        """Return the columns after the steps."""
        return self.local.schema(steps)

    def public_keys(self, keys: Sequence[str], values: object, steps: Sequence[Step]) -> pa.Table:
        """Return public keys with the key columns' types, sorted."""
        return self.local.public_keys(keys, values, steps)

    def statistics(self, query: ExactQuery, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Refuse: there are no rows here."""
        raise RefusalError("Beam: there are no rows before a pipeline runs; apply a release to a collection")

    def release(self, plan: Plan, **options: Any) -> PlannedRelease:
        """Return the release as a transform: rows to the noisy table, one dictionary for each group."""
        from sfumato.engines.beam.release import PlannedRelease

        return PlannedRelease(plan, **options)
