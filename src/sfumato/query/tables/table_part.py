"""The rows of a table after its steps, as a part of another table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sfumato.dataclass import dataclass
from sfumato.query.schema import Filter, Schema, Step
from sfumato.query.tables.composite_unit import UnitPart


class Reader(Protocol):
    """What reads a table, as far as its columns go."""

    def schema(self, steps: Sequence[Step] = ()) -> Schema:
        """Return the columns after the steps."""
        ...

    def content(self, steps: Sequence[Step] = ()) -> dict[str, Any]:
        """Return what is read, and what steps keep and derive, as plain data; no private row is read."""
        ...


@dataclass(frozen=True)
class Part:
    """The rows of a table after its steps.

    Args:
        engine: what reads them.
        steps: filters and derived columns.
        unit: the privacy unit's column; None of a public table.
        parts: what makes the unit together, where that is more than a column.
    """

    engine: Reader
    steps: tuple[Step, ...]
    unit: str | None
    parts: tuple[UnitPart, ...] = ()

    @property
    def schema(self) -> Schema:
        """Its columns."""
        return self.engine.schema(self.steps)

    def told(self, name: str) -> list[str]:
        """Return what the explanation of a release says of the steps."""
        return [
            f"Of {name}, rows are kept where {step.expression}."
            if isinstance(step, Filter)
            else f"In {name}, {step.name} = {step.expression}."
            for step in self.steps
        ]
