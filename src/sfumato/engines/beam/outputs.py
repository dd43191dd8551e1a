"""What the elements of a released collection are: dictionaries, or named tuples where they were asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.typehints.typehints import is_consistent_with, normalize

from sfumato.errors import QueryError

Row = dict[str, Any]


def made_by(transform: beam.PTransform[Any, Any], names: Sequence[str]) -> tuple[Callable[[Row], Any], Any]:
    """Return what makes an element of a released row, and the type that Beam is told.

    Args:
        transform: perhaps with a type from `with_output_types`.
        names: of the released columns.
    Raises:
        QueryError: the type is no dictionary and no named tuple with these fields.
    """
    hints = transform.get_type_hints()
    kind = hints.simple_output_type(transform.label) if hints.has_simple_output_type() else None
    if kind is None:
        return _as_it_is, Row
    fields = getattr(kind, "_fields", None)
    if not isinstance(kind, type) or not issubclass(kind, tuple) or fields is None:
        if not is_consistent_with(Row, normalize(kind)):
            raise QueryError(
                f"Release: with_output_types names {getattr(kind, '__name__', kind)}, but what is released "
                f"are dictionaries, or named tuples with the fields {', '.join(names)}"
            )
        return _as_it_is, kind if kind == beam.typehints.Any else Row
    if sorted(fields) != sorted(names):
        raise QueryError(
            f"Release: with_output_types names {kind.__name__}, whose fields are {', '.join(fields)}, but "
            f"the released columns are {', '.join(names)}; give it these fields"
        )
    return lambda row: kind(**row), kind


def _as_it_is(row: Row) -> Row:
    return row
