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

from sfumato.engines.beam import plain

KINDS = "text, an int or float, a truth value, bytes, a date, a datetime, a UUID, None, or a tuple of these"
NONE, NAN = "null", "NaN"
# Of tuples in tuples: more could be written where the stack is short, and not read where it is long.
DEPTH = 16
_READ: dict[str, Callable[[str], Any]] = {
    "bytes": bytes.fromhex,
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
    "uuid": uuid.UUID,
}


def written(value: Any) -> str:
    """Return a value as text. What holds text that is not UTF-8, as half a surrogate pair, is None.

    Args:
        value: None, text, an int or float, a truth value, bytes, a date, a datetime, a UUID, or a tuple of
            these.
    Raises:
        TypeError, ValueError: it is of another type; an object's own `==` or `repr` says nothing of the kind.

    >>> written(("x", 1)) == written(("x", 1.0)), written("1") == written(1)
    (True, False)
    >>> read(written((date(2020, 2, 29), None)))
    (datetime.date(2020, 2, 29), None)
    >>> written("\\ud800") == written(None) == NONE
    True
    """
    if type(value) is int:  # as most are; and as below, but faster
        return str(value)
    if type(value) is str and value.isascii():
        return encode_basestring_ascii(value)
    try:
        return json.dumps(_plain(value, DEPTH))
    except UnicodeEncodeError:
        return NONE


def read(text: str) -> Any:
    """Return the value of a text that `written` gave."""
    return json.loads(text, object_hook=_tagged, parse_constant=float) if text[0] != "[" else _tuple(text)


def _tuple(text: str) -> tuple[Any, ...]:
    return _tuples(json.loads(text, object_hook=_tagged, parse_constant=float))  # type: ignore[no-any-return]


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _plain(value: Any, depth: int) -> Any:
    """Return a value of Python's own classes, by what it holds: not by what its class says of itself."""
    if isinstance(value, np.generic):
        value = plain.of_numpy(value)
    match value:
        case None | bool():
            return value
        case str():
            return str.encode(value).decode()
        case int():
            return int.__int__(value)
        case float():
            return int(float.__float__(value)) if float.is_integer(value) else float.__float__(value)
        case tuple():
            if not depth:
                raise ValueError
            return [_plain(item, depth - 1) for item in tuple.__iter__(value)]
        case bytes():
            return {"bytes": plain.exact_bytes(value).hex()}
        case datetime():
            whole = plain.exact_datetime(value)
            return {"datetime": (whole if whole.tzinfo is None else whole.astimezone(UTC)).isoformat()}
        case date():
            return {"date": plain.exact_date(value).isoformat()}
        case uuid.UUID():
            return {"uuid": str(uuid.UUID(int=value.int))}
    raise TypeError


def _tagged(item: dict[str, str]) -> Any:
    ((tag, text),) = item.items()
    return _READ[tag](text)
