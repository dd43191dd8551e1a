"""Python values as texts, such that equal values, and no others, are equal texts; and back.

Keys and units of a private collection are whatever a callable returns, so no type is declared for them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime
from json.encoder import encode_basestring_ascii
from typing import Any

import numpy as np

KINDS = "text, an int or float, a truth value, bytes, a date, a datetime, a UUID, None, or a tuple of these"
_READ: dict[str, Callable[[str], Any]] = {
    "bytes": bytes.fromhex,
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
    "uuid": uuid.UUID,
}


def written(value: Any) -> str:
    """Return a value as text.

    Args:
        value: None, text, an int or float, a truth value, bytes, a date, a datetime, a UUID, or a tuple of
            these.
    Raises:
        TypeError, ValueError: it is of another type; an object's own `==` or `repr` says nothing of the kind.

    >>> written(("x", 1)) == written(("x", 1.0)), written("1") == written(1)
    (True, False)
    >>> read(written((date(2020, 2, 29), None)))
    (datetime.date(2020, 2, 29), None)
    """
    if type(value) is int:  # as most are; and as below, but faster
        return str(value)
    if type(value) is str:
        return encode_basestring_ascii(value)
    return json.dumps(_plain(value))


def read(text: str) -> Any:
    """Return the value of a text that `written` gave."""
    return json.loads(text, object_hook=_tagged, parse_constant=float) if text[0] != "[" else _tuple(text)


def _tuple(text: str) -> tuple[Any, ...]:
    return _tuples(json.loads(text, object_hook=_tagged, parse_constant=float))  # type: ignore[no-any-return]


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    match value:
        case None | bool() | str():
            return value
        case int():
            return int(value)
        case float():
            return int(value) if value.is_integer() else value
        case tuple():
            return [_plain(item) for item in value]
        case bytes():
            return {"bytes": value.hex()}
        case datetime():
            whole = value if value.tzinfo is None else value.astimezone(UTC)
            text = whole.isoformat()
            datetime.fromisoformat(text)  # raises where it is none: NaT of pandas passes for a datetime
            return {"datetime": text}
        case date():
            return {"date": value.isoformat()}
        case uuid.UUID():
            return {"uuid": str(value)}
    raise TypeError


def _tagged(item: dict[str, str]) -> Any:
    ((tag, text),) = item.items()
    return _READ[tag](text)
