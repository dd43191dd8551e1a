"""Table parts: a table with its steps, as a part of another table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sfumato.dataclass import dataclass
from sfumato.query.schema import Filter, Schema, Step
from sfumato.query.tables.unit_parts import UnitPart


class Reader(Protocol):
    """Protocol of what reads the columns of a table part."""

    def schema(self, steps: Sequence[Step] = ()) -> Schema:
        """Return the columns of the table part after steps."""
        ...

    def content(self, steps: Sequence[Step] = ()) -> dict[str, Any]:
        """Return the content of a table part as plain data; no private row is read."""
        ...


@dataclass(frozen=True)
class Part:
    """A table with its steps, as a part of a combined or shaped table.

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
        """The columns of the table part."""
        return self.engine.schema(self.steps)

    def told(self, name: str) -> list[str]:
        """Return the steps of the table part as sentences for the explanation of a release."""
        return [
            f"Of {name}, rows are kept where {step.expression}."
            if isinstance(step, Filter)
            else f"In {name}, {step.name} = {step.expression}."
            for step in self.steps
        ]
