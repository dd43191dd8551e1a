"""What engines have in common whose rows are on many machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from sfumato.dialect.inside.text import table_of
from sfumato.engines.duckdb.engine import DuckDBEngine
from sfumato.engines.duckdb.stages import Stages
from sfumato.errors import ParameterError, QueryError
from sfumato.noise import Words
from sfumato.query.combining import Combination
from sfumato.query.exact import ExactQuery
from sfumato.query.schema import Schema, Step


class DistributedEngine:
    """Knows the columns of rows that workers hold: what a step or a key means, DuckDB says on an empty table.

    Args:
        rows: the columns, with their Arrow types.
        timezone: in which times with a zone are read; this machine's without it.
    Raises:
        EngineError: a column cannot be read, or the time zone is not known.
    """

    name: str
    files: tuple[str, ...] = ()  # which workers read, wherever they are

    def __init__(self, rows: pa.Schema, timezone: str | None = None) -> None:
        self._rows = rows
        self._local = DuckDBEngine.open(rows, timezone)

    def schema(self, steps: Sequence[Step] = ()) -> Schema:
        """Return the columns after the steps."""
        return self._local.schema(steps)

    def public_keys(self, keys: Sequence[str], values: object, steps: Sequence[Step]) -> pa.Table:
        """Return public keys with the key columns' types, sorted."""
        return self._local.public_keys(keys, values, steps)

    def combined(self, how: Combination) -> Any:
        """Refuse: rows of several tables meet nowhere yet."""
        raise QueryError(
            f"{self.name} combines no tables here yet; do it in {self.name} before scan, so that each row of "
            "the result follows from rows of its own privacy unit, or use DuckDB"
        )

    def unit_local(self, text: object, tables: Mapping[str, Any]) -> Any:
        """Return the private table that unit-local SQL makes of tables, by name."""
        return table_of(text, tables)

    def stages(self, query: ExactQuery, shards: int) -> Stages:
        """Prepare what workers compute; they are given the columns that are read, and no others."""
        read = pa.schema([self._rows.field(name) for name in self._local.reads(query)])
        return Stages.of(self._local, read, query, shards)

    def _refuse(self, unsafe_words: Words | None) -> None:
        """Refuse words for noise: that of a batch follows from a secret of the release."""
        if unsafe_words is not None:
            expected = f"left out on {self.name}, whose workers draw the noise"
            raise ParameterError("unsafe_words", unsafe_words, expected)
