"""Table parts: a table with its steps as a part of another table, and the parts of a composite unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError, QueryError
from sfumato.query.schema import Filter, Schema, Step


@dataclass(frozen=True)
class UnitPart:
    """One of the columns or expressions that make a composite privacy unit.

    Args:
        text: a column, or SQL of one row's columns.
        kind: its type, such that values of two kinds are never equal.
    """

    text: str
    kind: str


def check_parts(values: Sequence[object]) -> tuple[str, ...]:
    """Return the valid parts of a composite privacy unit.

    Raises:
        ParameterError: one is no text.
        QueryError: there are none, or one comes twice.
    """
    texts: list[str] = []
    for part in values:
        if not isinstance(part, str) or not part.strip() or not part.isprintable():
            raise ParameterError(
                "privacy_unit", part, "a column, or an expression of columns such as date_trunc('week', day)"
            )
        if part.casefold() in (text.casefold() for text in texts):
            raise QueryError(f"privacy_unit: {part!r} is listed twice. Name each part once")
        texts.append(part)
    if not texts:
        raise QueryError("privacy_unit: the list is empty. Name the columns that say whose row it is")
    return tuple(texts)


def unit_name(parts: Sequence[str]) -> str:
    """Return the name of the column that holds a composite privacy unit.

    >>> unit_name(["id", "date_trunc('week', day)"])
    "id and date_trunc('week', day)"
    """
    return " and ".join(parts)


def unit_note(parts: Sequence[UnitPart]) -> str:
    """Return a note on what a release with a composite privacy unit protects, and what not."""
    first, *rest = (part.text for part in parts)
    each = f"one {first}" + (f" with one value of {unit_name(rest)}" if rest else "")
    zones = dict.fromkeys(part.kind.partition(" in ")[2] for part in parts)
    read = "".join(f" Times with a zone are read in {zone}." for zone in zones if zone)
    return (
        f"The privacy unit is {each}: all rows of one such unit are protected together, and no "
        f"more. For one {first} in several of them, the loss adds up: in m units, it is m times as "
        f"large.{read}"
    )


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

    def sentences(self, name: str) -> list[str]:
        """Return the steps of the table part as sentences for the explanation of a release."""
        return [
            f"Of {name}, rows are kept where {step.expression}."
            if isinstance(step, Filter)
            else f"In {name}, {step.name} = {step.expression}."
            for step in self.steps
        ]
