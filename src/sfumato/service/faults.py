"""Errors as plain data, so that an analyst far away meets the same exceptions as one beside the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato import errors
from sfumato.errors import ParameterError, SfumatoError, SqlError

# Of which the kind travels; a kind that a later version adds comes as the root of all.
KINDS: dict[str, type[SfumatoError]] = {
    kind.__name__: kind
    for kind in (
        errors.SfumatoError,
        errors.QueryError,
        errors.ArgumentError,
        errors.UnknownNameError,
        errors.ParameterError,
        errors.ColumnError,
        errors.SqlError,
        errors.CatalogError,
        errors.BudgetError,
        errors.EngineError,
        errors.RefusalError,
    )
}
_PARTS = ("name", "value", "expected")  # of a ParameterError


def as_data(error: SfumatoError) -> dict[str, Any]:
    """Return an error of ours as what JSON has: its kind, its words, and what else its kind has.

    >>> as_data(ParameterError("rows", 0, "at least 1"))["text"]
    'rows is 0, but must be at least 1'
    """
    kind = next(one.__name__ for one in type(error).__mro__ if one.__name__ in KINDS)
    data: dict[str, Any] = {"kind": kind, "text": str(error)}
    if isinstance(error, ParameterError):
        data |= {part: str(getattr(error, part)) for part in _PARTS}
    if isinstance(error, SqlError) and error.place is not None:
        data["place"] = list(error.place)
    return data


def of_data(data: Mapping[str, Any]) -> SfumatoError:
    """Return the error that `as_data` was given.

    >>> of_data(as_data(ParameterError("rows", 0, "at least 1")))
    ParameterError('rows is 0, but must be at least 1')
    """
    kind = KINDS.get(str(data.get("kind")), SfumatoError)
    error = kind.__new__(kind, str(data.get("text", "")))  # its words are there: nothing makes them again
    for part in _PARTS:
        if kind is ParameterError and part in data:
            setattr(error, part, str(data[part]))
    if isinstance(error, SqlError):
        error.place = _place(data.get("place"))
    return error


def _place(given: Any) -> tuple[int, int] | None:
    """Return a place in a text; None for what is none, as of a service that is no service."""
    if isinstance(given, (list, tuple)) and [type(one) for one in given] == [int, int]:
        return given[0], given[1]
    return None
