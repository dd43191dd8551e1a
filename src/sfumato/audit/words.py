"""Values in words: the same for equal ones, wherever in memory they lie."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import types
from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b
from typing import Any

import numpy as np

from sfumato.audit.mechanisms import Raised, without_addresses, without_addresses_in

RAISES = "exception "
# Of one text so many characters are shown, and so deep are keys of mappings told.
_SHOWN, _DEEPEST_KEY = 200, 12


@dataclasses.dataclass(frozen=True)
class Exact:
    """A number that is neither a float nor an int.

    Args:
        value: what it is, exactly or as a float.
        kind: name of its type.
    """

    value: Fraction | float
    kind: str


@dataclasses.dataclass(frozen=True)
class Unread:
    """A leaf of which only this is known.

    Args:
        kind: what it is, in words.
        why: why no more was read; empty where there is no more.
    """

    kind: str
    why: str = "its values are not read"


def word(value: Any, depth: int = 0) -> str:
    """Return what a value is in words, the same for equal ones, wherever in memory they lie.

    >>> word(object()), word((1, "a", {"c", "b"})), word(Raised("ValueError")), word(print)
    ('an object', "(1, 'a', {'b', 'c'})", 'exception ValueError', 'builtins.print')
    """
    if isinstance(value, Raised):
        return RAISES + value.kind
    if isinstance(value, Unread):
        return value.kind
    if value is None or type(value) in (type(...), bool, int, float, complex, Decimal, Fraction):
        return repr(value)
    if type(value) in (datetime.date, datetime.datetime, datetime.time, datetime.timedelta):
        return without_addresses(repr(value))
    if isinstance(value, str):
        return _cut(repr(without_addresses(value)))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _cut(repr(without_addresses_in(bytes(value))))
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, np.generic):
        return f"{type(value).__name__}({_cut(without_addresses(str(value)))})"
    if depth == _DEEPEST_KEY:
        return "..."
    if type(value) in (tuple, list):
        inside = ", ".join(word(v, depth + 1) for v in value)
        return _cut(f"({inside}{',' if len(value) == 1 else ''})" if type(value) is tuple else f"[{inside}]")
    if type(value) in (set, frozenset):
        return _cut(f"{{{', '.join(sorted(word(v, depth + 1) for v in value))}}}")
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        return without_addresses(f"{value.__module__}.{value.__qualname__}")
    return article(type(value).__name__)


def key_word(key: Any) -> str:
    """Return a key of a mapping in words: a text as it is.

    >>> key_word("n"), key_word(1), key_word(object())
    ('n', '1', 'an object')
    """
    return without_addresses(key) if isinstance(key, str) else word(key)


def article(kind: str) -> str:
    """Return a noun with its article."""
    return f"{'an' if kind[:1].lower() in 'aeio' else 'a'} {kind}"


def _cut(text: str) -> str:
    """Cut a text, and tell those that differ later by a hash."""
    if len(text) <= _SHOWN:
        return text
    return f"{text[:_SHOWN]}... #{blake2b(text.encode('utf-8', 'replace'), digest_size=8).hexdigest()}"
