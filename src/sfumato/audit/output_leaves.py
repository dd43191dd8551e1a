"""Leaves of outputs: exact numbers and texts by their place in the output, without memory addresses."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import itertools
import math
import numbers
import os
import re
import types
from collections.abc import Collection, Iterator, Mapping, Set
from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b
from typing import Any

import numpy as np

from sfumato.audit.mechanisms import Raised, plain, rows, without_addresses, without_addresses_in

RAISES = "exception "
# Of one text so many characters are shown, and so deep are keys of mappings told.
_SHOWN, _DEEPEST_KEY = 200, 12


@dataclasses.dataclass(frozen=True)
class Exact:
    """A leaf of an output that is a number, but neither a float nor an int.

    Args:
        value: what it is, exactly or as a float.
        kind: name of its type.
    """

    value: Fraction | float
    kind: str


@dataclasses.dataclass(frozen=True)
class Unread:
    """A leaf of an output that is not read further.

    Args:
        kind: what it is, in words.
        why: why no more was read; empty where there is no more.
    """

    kind: str
    why: str = "its values are not read"


def describe_value(value: Any, depth: int = 0) -> str:
    """Return the value of a leaf in words, the same for equal values.

    >>> describe_value(object()), describe_value((1, "a", {"c", "b"}))
    ('an object', "(1, 'a', {'b', 'c'})")
    >>> describe_value(Raised("ValueError")), describe_value(print)
    ('exception ValueError', 'builtins.print')
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
        inside = ", ".join(describe_value(v, depth + 1) for v in value)
        return _cut(f"({inside}{',' if len(value) == 1 else ''})" if type(value) is tuple else f"[{inside}]")
    if type(value) in (set, frozenset):
        return _cut(f"{{{', '.join(sorted(describe_value(v, depth + 1) for v in value))}}}")
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        return without_addresses(f"{value.__module__}.{value.__qualname__}")
    return article(type(value).__name__)


def key_word(key: Any) -> str:
    """Return a key in the path of a leaf: a text as it is.

    >>> key_word("n"), key_word(1), key_word(object())
    ('n', '1', 'an object')
    """
    return without_addresses(key) if isinstance(key, str) else describe_value(key)


def article(kind: str) -> str:
    """Return the type name of a leaf with its article."""
    return f"{'an' if kind[:1].lower() in 'aeio' else 'a'} {kind}"


def _cut(text: str) -> str:
    """Cut the text of a leaf, and add a hash of it."""
    if len(text) <= _SHOWN:
        return text
    return f"{text[:_SHOWN]}... #{blake2b(text.encode('utf-8', 'replace'), digest_size=8).hexdigest()}"


# What lies deeper in an output is not read.
_DEEPEST = 50
# So many numbers in one text are read, and of bytes so many one by one; of an output so many leaves.
_MAX_NUMBERS, _MAX_BYTES, MAX_LEAVES = 16, 64, 20_000
_NUMBER = re.compile(r"0x[0-9a-fA-F]{1,7}\b|[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_TEXTS = (str, bytes, bytearray, memoryview)
_MOMENTS = (datetime.date, datetime.time, datetime.timedelta)
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
# Types that are read as what they are; what their subclasses hold beside that is read too.
_KNOWN = (
    *(int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, Decimal, Fraction),
    *_MOMENTS,
)
# The place of a member of a set, until it is known.
_SOMEWHERE = "\0"

Leaf = tuple[str, Any]


def iter_leaves(output: Any, path: str = "", ancestors: tuple[int, ...] = ()) -> Iterator[Leaf]:
    """Take an output apart into its leaves, each with its path.

    Objects are told by the name of their type and by their attributes, sets by their members in order: what
    an output is does not depend on where in memory it lies. A part that contains itself is one leaf.

    Args:
        output: of any kind.
        path: its place.
        ancestors: identities of the parts that it lies in.

    >>> list(iter_leaves({"n": 3, "mean": [0.5, None]}))
    [('.keys', "('n', 'mean')"), ('.n', 3), ('len(.mean)', 2), ('.mean[0]', 0.5), ('.mean[1]', None)]
    """
    if id(output) in ancestors:
        yield path, ...
    elif len(ancestors) == _DEEPEST:
        yield path, Unread(article(type(output).__name__), f"it is nested {_DEEPEST} levels deep")
    else:
        try:
            # `output` stays alive to the end, so that no other part is made in its place in memory.
            yield from _iter_leaves(output, path, (*ancestors, id(output)))
        except Exception:  # attributes, numbers and iterators can be the mechanism's code too
            yield path or "value", Unread(article(type(output).__name__), "reading it raises")


def _iter_leaves(value: Any, path: str, ancestors: tuple[int, ...]) -> Iterator[Leaf]:
    name = path or "value"
    output = value
    if not isinstance(value, _MOMENTS):  # those of pandas would lose their time zone
        output = value.as_py() if hasattr(value, "as_py") else plain(value)
    if isinstance(output, np.ndarray):
        output = output.tolist()
    elif isinstance(output, (np.datetime64, np.timedelta64)) and np.isnat(output):
        output = Unread("NaT", "")
    elif isinstance(output, np.generic):
        output = output.item()
    if output is None or output is ... or isinstance(output, (bool, float, Unread)):
        yield name, output
    elif isinstance(output, enum.Enum):
        # A class that is made anew in each draw may have the same names for other values.
        yield name, describe_value(output)
        yield from iter_leaves(output.value, f"{path}.value", ancestors)
    elif isinstance(output, numbers.Number):
        yield from _number(output, name)
    elif isinstance(output, _MOMENTS):
        yield from _moment(output, name)
    elif isinstance(output, _TEXTS):
        yield from _text(output, name)
    elif isinstance(output, Raised):
        yield name, output
        yield from _text(output.message, f"message{path}")
    else:
        yield from _parts(output, path, ancestors)
    yield from _iter_attribute_leaves(output, path, ancestors)


def _iter_attribute_leaves(output: Any, path: str, ancestors: tuple[int, ...]) -> Iterator[Leaf]:
    """Yield the leaves of the attributes that a subclass of a number, a text or a list has."""
    if isinstance(output, _KNOWN):
        for attribute, value in getattr(output, "__dict__", {}).items():
            yield from iter_leaves(value, f"{path}.{attribute}", ancestors)


def _parts(output: Any, path: str, ancestors: tuple[int, ...]) -> Iterator[Leaf]:
    name = path or "value"
    if isinstance(output, Mapping):
        yield from _mapping(output, path, ancestors)
    elif isinstance(output, Set):
        yield from _set(output, path, ancestors)
    elif isinstance(output, range):
        yield name, Unread("a range", "")
        yield from iter_leaves((output.start, output.stop, output.step), path, ancestors)
    elif isinstance(output, Collection) and not isinstance(output, type):
        items = output if isinstance(output, (list, tuple)) else list(output)
        yield f"len({name})", len(items)
        for place, value in _named(items):
            yield from iter_leaves(value, f"{path}[{place}]", ancestors)
    else:
        yield from _object(output, path, ancestors)


def _number(value: Any, name: str) -> Iterator[Leaf]:
    """Yield the leaves of a number: a float of it, and what a float does not hold."""
    if isinstance(value, numbers.Rational):
        exact = Fraction(int(value.numerator), int(value.denominator))
        yield name, value if isinstance(value, int) else Exact(exact, type(value).__name__)
        if not isinstance(value, numbers.Integral):
            yield f"denominator of {name}", exact.denominator
    elif isinstance(value, Decimal):
        if not value.is_finite() or abs(value.adjusted()) > 400:
            yield name, Exact(math.nan if value.is_nan() else float(value), "Decimal")
            yield f"text of {name}", str(value)
            return
        exact = Fraction(value)
        yield name, Exact(exact, "Decimal -0" if value.is_signed() and not value else "Decimal")
        yield f"exponent of {name}", value.as_tuple().exponent
    elif isinstance(value, numbers.Complex) and not isinstance(value, numbers.Real):
        yield name, Unread(article(type(value).__name__), "")
        yield from _iter_leaves(value.real, f"{name}.real", ())
        yield from _iter_leaves(value.imag, f"{name}.imag", ())
        return
    else:
        yield name, Exact(float(value), type(value).__name__)
        if isinstance(value, np.floating):  # a long double
            yield f"rest of {name}", float(value - type(value)(float(value)))
        return
    try:
        rest = exact - Fraction(float(exact))
    except OverflowError:
        return
    if rest:
        yield f"rest of {name}", float(rest)


def _moment(value: Any, name: str) -> Iterator[Leaf]:
    kind = type(value).__name__
    if isinstance(value, datetime.timedelta):
        found = value // _MICROSECOND
    elif isinstance(value, datetime.datetime):
        if str(value) == "NaT":  # of pandas, which calls it a datetime
            yield name, Unread(article(kind), "")
            return
        found = (value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND
    elif isinstance(value, datetime.time):
        found = ((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond
    else:
        yield name, Exact(Fraction(value.toordinal()), kind)
        return
    yield name, Exact(Fraction(int(found)), kind)
    if isinstance(value, (datetime.datetime, datetime.time)):
        if value.tzinfo is not None:
            offset = value.utcoffset()
            yield f"offset of {name}", None if offset is None else offset.total_seconds()
            yield f"zone of {name}", str(value.tzinfo)
        if value.fold:
            yield f"fold of {name}", value.fold
    finer = getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0)
    if finer:
        yield f"nanoseconds of {name}", int(finer)


def _text(value: Any, name: str) -> Iterator[Leaf]:
    """Yield the leaves of a text: itself, its length and the numbers in it; of bytes each number."""
    if not isinstance(value, str):
        value = without_addresses_in(bytes(value))
        yield name, value
        yield f"len({name})", len(value)
        if len(value) == 8:
            for order in ("<", ">"):
                yield f"{name} as {order}f8", float(np.frombuffer(value, f"{order}f8")[0])
        for i, byte in enumerate(value[:_MAX_BYTES]):
            yield f"{name}[{i}]", byte
        if len(value) > _MAX_BYTES:
            yield (
                f"{name}[{_MAX_BYTES}:]",
                Unread("bytes", "bytes after the first 64 are compared only by a hash"),
            )
        return
    given, value = value, without_addresses(value)
    yield name, value
    if given != value:
        yield f"address in {name}", Unread("text", "it looks like a memory address")
    yield f"len({name})", len(value)
    for i, match in enumerate(_NUMBER.finditer(value)):
        if i == _MAX_NUMBERS:
            yield f"number {i} in {name}", Unread("text", "numbers after the first 16 of a text are not read")
            return
        yield f"number {i} in {name}", int(match[0], 16) if "x" in match[0] else float(match[0])


def _mapping(output: Mapping[Any, Any], path: str, ancestors: tuple[int, ...]) -> Iterator[Leaf]:
    lists = [v for v in output.values() if isinstance(v, (list, np.ndarray))]
    yield f"{path}.keys", describe_value(tuple(output))
    if output and len(lists) == len(output) and len({len(v) for v in lists}) == 1:
        yield from iter_leaves(rows(dict(output)), path, ancestors)
        return
    for key, value in output.items():
        yield from iter_leaves(value, f"{path}.{key_word(key)}", ancestors)


def _set(output: Set[Any], path: str, ancestors: tuple[int, ...]) -> Iterator[Leaf]:
    """Yield the leaves of a set in an order that no hash or address decides: texts by name, others sorted."""
    yield f"len({path or 'value'})", len(output)
    parts: list[tuple[list[tuple[str, float, str]], list[Leaf]]] = []
    for member in output:
        if member is None or isinstance(member, (*_TEXTS, enum.Enum)):
            yield f"{describe_value(member)} in {path or 'value'}", True
        else:
            # Read once: sets within sets would be read twice as often at each level.
            found = list(itertools.islice(iter_leaves(member, _SOMEWHERE, ancestors), MAX_LEAVES))
            parts.append((sorted((where, *_order(leaf)) for where, leaf in found), found))
    parts.sort(key=lambda part: part[0])
    for i, (_, found) in enumerate(parts):
        for where, leaf in found:
            yield where.replace(_SOMEWHERE, f"{path}[{i}]"), leaf


def _object(output: Any, path: str, ancestors: tuple[int, ...]) -> Iterator[Leaf]:
    name, kind = path or "value", describe_value(output)
    if isinstance(output, os.PathLike):
        yield name, Unread(article(type(output).__name__), "")
        yield from _text(os.fspath(output), f"path of {name}")
        return
    if isinstance(output, BaseException):
        yield name, Unread(kind, "")
        yield from iter_leaves(output.args, f"{path}.args", ancestors)
    attributes = _attributes(output)
    if not isinstance(output, BaseException):
        stateless = type(output) is object
        yield name, Unread(kind, "" if attributes or stateless else "its values are not read")
    if "__float__" in dir(type(output)):
        yield f"float({name})", float(output)
    for attribute, value in attributes.items():
        yield from iter_leaves(value, f"{path}.{attribute}", ancestors)


def _attributes(output: Any) -> dict[str, Any]:
    if isinstance(output, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)):
        return {}
    if isinstance(output, types.MethodType):
        return {"__self__": output.__self__}
    found = {}
    for cls in type(output).__mro__:
        for name, what in vars(cls).items():
            # Slots, and what exceptions and partial functions of C hold.
            if (
                isinstance(what, types.MemberDescriptorType)
                and not name.endswith("__")
                and hasattr(output, name)
            ):
                found[name] = getattr(output, name)
    return found | dict(getattr(output, "__dict__", {}))


def _named(items: Any) -> Iterator[tuple[str, Any]]:
    """Name rows in the path of a leaf by the texts in them: the row of group "a" is always the same."""
    seen: dict[str, int] = {}
    for i, item in enumerate(items):
        texts = (
            [v for v in item.values() if v is None or isinstance(v, (str, bytes))]
            if isinstance(item, dict)
            else []
        )
        if texts:
            name = ",".join(map(describe_value, texts))
            seen[name] = seen.get(name, 0) + 1
            yield (name if seen[name] == 1 else f"{name}#{seen[name]}"), item
        else:
            yield str(i), item


def _order(leaf: Any) -> tuple[float, str]:
    """Return a key that orders the leaves of a set."""
    if isinstance(leaf, Exact):
        value, kind = as_float(leaf.value), leaf.kind
    elif isinstance(leaf, (int, float)) and not isinstance(leaf, bool):
        value, kind = as_float(leaf), ""
    else:
        return 0.0, describe_value(leaf)
    return (math.inf if math.isnan(value) else value), kind


def as_float(value: Any) -> float:
    """Return the number of a leaf as a float, infinite where it is too large."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
