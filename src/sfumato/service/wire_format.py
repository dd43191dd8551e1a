"""The wire format between client and service: recorded calls and errors as JSON data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from typing import Any

from sfumato import errors
from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError, QueryError, SfumatoError, SqlError, shown, with_article
from sfumato.query.aggregates.aggregate import Aggregate, get_call

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


def error_to_json(error: SfumatoError) -> dict[str, Any]:
    """Return an error in wire format: its kind, its text, and further fields of its kind.

    >>> error_to_json(ParameterError("rows", 0, "at least 1"))["text"]
    'rows is 0, but must be at least 1'
    """
    kind = next(one.__name__ for one in type(error).__mro__ if one.__name__ in KINDS)
    data: dict[str, Any] = {"kind": kind, "text": str(error)}
    if isinstance(error, ParameterError):
        data |= {part: str(getattr(error, part)) for part in _PARTS}
    if isinstance(error, SqlError) and error.place is not None:
        data["place"] = list(error.place)
    return data


def error_from_json(data: Mapping[str, Any]) -> SfumatoError:
    """Return the error in wire format from `error_to_json`.

    >>> error_from_json(error_to_json(ParameterError("rows", 0, "at least 1")))
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


def _place(value: Any) -> tuple[int, int] | None:
    """Return the text position in an error's wire format; None if it is malformed."""
    if isinstance(value, (list, tuple)) and [type(one) for one in value] == [int, int]:
        return value[0], value[1]
    return None


MAX_CALLS = 200  # of a question, with those of the tables that it joins
MAX_TABLES = 20
DEEPEST = 12  # lists in lists, and tables in tables
_LEVELS = 80  # of JSON that these may have
LARGEST = 10**300  # of whole numbers
_FRACTION = re.compile(r"-?[0-9]{1,300}/[0-9]{1,300}")
_DECIMAL = re.compile(r"-?[0-9]{1,80}(\.[0-9]{1,80})?(E[+-]?[0-9]{1,3})?|-?(Infinity|NaN)")
_FORM = (
    "chain: it must be the name of a table and a list of calls, such as "
    '{"table": "visits", "calls": [["agg", [], {"n": {"asks": "count_units", "args": [], "named": {}}}]]}'
)
# How values that JSON has not are written, and read again.
_TEXTS: Mapping[str, tuple[type, Callable[[Any], str], Callable[[str], Any]]] = {
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),  # which is a date, too
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "fraction": (Fraction, lambda one: f"{one.numerator}/{one.denominator}", Fraction),
    "decimal": (Decimal, str, Decimal),
    "float": (float, repr, float),
}
_KEYS = (bool, int, float, str, date, time, Decimal, Fraction, bytes)  # of a dict


@dataclass(frozen=True)
class SentCall:
    """One recorded call of a chain, in wire format.

    Args:
        name: of the method.
        args, named: what it is given, as what JSON has.
    """

    name: str
    args: list[Any]
    named: dict[str, Any]

    @classmethod
    def record_call(cls, name: str, args: Iterable[Any], named: Mapping[str, Any]) -> SentCall:
        """Return a method call in wire format.

        Raises:
            QueryError: an argument is nothing that can be sent.
        """
        given = [to_json(name, one) for one in args]
        return cls(name, given, {key: to_json(f"{name}: {key}", one) for key, one in named.items()})

    @property
    def data(self) -> list[Any]:
        """The recorded call as JSON data."""
        return [self.name, self.args, self.named]


@dataclass(frozen=True)
class RecordedTable:
    """A table of a service by name, with the recorded calls on it.

    Args:
        kind: "table" or "public".
        name: the table's.
        calls: in order.
    """

    kind: str
    name: str
    calls: tuple[SentCall, ...] = ()

    @property
    def data(self) -> dict[str, Any]:
        """The recorded table and calls as JSON data."""
        return {self.kind: self.name, "calls": [call.data for call in self.calls]}


def to_json(where: str, value: Any) -> Any:
    """Return an argument of a recorded call in wire format.

    Args:
        where: whose it is, for the error.
        value: a number, text, date, list, dict or aggregate, or the recording of a table.
    Raises:
        QueryError: it is nothing that can be sent.
    """
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()  # a number of NumPy
    if isinstance(value, RecordedTable):
        return value.data
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and isfinite(value)):
        return value
    if isinstance(value, Aggregate) and (call := get_call(value)) is not None:
        sent = SentCall.record_call(call.function, call.args, call.named)
        return {"asks": sent.name, "args": sent.args, "named": sent.named}
    for kind, (of, text, _) in _TEXTS.items():
        if isinstance(value, of):
            return {kind: text(value)}
    if isinstance(value, tuple):
        return {"tuple": [to_json(where, one) for one in value]}
    if isinstance(value, Mapping):
        return {"dict": [[to_json(where, key), to_json(where, one)] for key, one in value.items()]}
    if isinstance(value, (list, set, range)):
        return [to_json(where, one) for one in value]
    if hasattr(value, "tolist"):  # an array
        return to_json(where, value.tolist())
    raise QueryError(
        f"{where}: {with_article(type(value).__name__)} cannot be sent to a service. Pass a "
        "number, a text, a date, or a list of these"
    )


@dataclass
class Reading:
    """A reader of recorded calls in wire format, which anybody may have sent.

    Args:
        opened: gives what stands for a table, by kind and name.
        called: gives what stands for a call of a method of it, with arguments that are read.
        asked: gives what stands for an aggregate, by its function and arguments that are read.
    """

    opened: Callable[[str, str], Any]
    called: Callable[[Any, str, list[Any], dict[str, Any]], Any]
    asked: Callable[[str, list[Any], dict[str, Any]], Any]
    _calls: int = 0
    _tables: int = 0

    def chain(self, data: Any, depth: int = 0) -> Any:
        """Return the result of a chain of calls in wire format.

        Raises:
            QueryError: it is none; or what the three functions raise.
        """
        kind = next((one for one in ("table", "public") if isinstance(data, dict) and one in data), None)
        if kind is None or set(data) != {kind, "calls"} or not isinstance(data["calls"], list):
            raise QueryError(_FORM)
        self._tables += 1
        if self._tables > MAX_TABLES:
            raise QueryError(f"chain: a query can have at most {MAX_TABLES} tables")
        found = self.opened(kind, _text(data[kind]))
        for call in data["calls"]:
            if not isinstance(call, list) or len(call) != 3:
                raise QueryError(f"{_FORM}; a call is a list of its name, a list and an object of arguments")
            self._calls += 1
            if self._calls > MAX_CALLS:
                raise QueryError(f"chain: a query can have at most {MAX_CALLS} calls")
            found = self.called(found, _text(call[0]), *self._arguments(call[1], call[2], depth))
        return found

    def _arguments(self, args: Any, named: Any, depth: int) -> tuple[list[Any], dict[str, Any]]:
        if not isinstance(args, list) or not isinstance(named, dict):
            raise QueryError(f"{_FORM}; arguments are a list, and an object of those that have names")
        by_name = {_text(name): self.value(one, depth + 1) for name, one in named.items()}
        return [self.value(one, depth + 1) for one in args], by_name

    def value(self, data: Any, depth: int = 0) -> Any:
        """Return an argument in wire format as a Python value.

        Raises:
            QueryError: it is nothing that is sent.
        """
        if depth > DEEPEST:
            raise QueryError(f"chain: lists and tables are nested deeper than {DEEPEST}")
        if data is None or isinstance(data, bool):
            return data
        if isinstance(data, str):
            return _text(data)
        if isinstance(data, int) and abs(data) < LARGEST:
            return data
        if isinstance(data, float) and isfinite(data):
            return data
        if isinstance(data, list):
            return [self.value(one, depth + 1) for one in data]
        if isinstance(data, dict):
            return self._object(data, depth)
        raise QueryError("chain: a number is too large")

    def _object(self, data: dict[str, Any], depth: int) -> Any:
        """Return the Python value of a JSON object in wire format: an aggregate, a table or a typed value."""
        if set(data) == {"asks", "args", "named"}:
            return self.asked(_text(data["asks"]), *self._arguments(data["args"], data["named"], depth))
        if "calls" in data:
            return self.chain(data, depth + 1)
        kind, given = next(iter(data.items())) if len(data) == 1 else ("", None)
        if kind == "tuple" and isinstance(given, list):
            return tuple(self.value(one, depth + 1) for one in given)
        if kind == "dict" and isinstance(given, list):
            return self._dict(given, depth)
        if kind in _TEXTS and isinstance(given, str):
            return _value(kind, given)
        raise QueryError(f"chain: {shown(sorted(data)[:3])} are not keys of an argument. See docs/serve.md")

    def _dict(self, given: list[Any], depth: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for pair in given:
            key = self.value(pair[0], depth + 1) if isinstance(pair, list) and len(pair) == 2 else []
            if not isinstance(key, _KEYS):
                raise QueryError(
                    "chain: a dict must be a list of pairs, each a text, number or date and a value"
                )
            found[key] = self.value(pair[1], depth + 1)
        return found


def is_shallow(data: Any) -> bool:
    """Whether JSON data is nested no deeper than the wire format allows.

    >>> is_shallow({"table": "visits", "calls": []}), is_shallow({"calls": eval("[" * 90 + "]" * 90)})
    (True, False)
    """
    level = [data]
    for _ in range(_LEVELS):
        level = [
            one
            for each in level
            if isinstance(each, (list, dict))
            for one in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return True
    return False


def query_as_python(data: Any, options: Mapping[str, Any]) -> str | None:
    """Return a query in wire format as Python code; None if it is malformed."""
    with suppress(ValueError, TypeError, AttributeError):
        return f"{as_python(data)}.release({_arguments_as_python([], options)})"
    return None


def as_python(data: Any) -> str:
    """Return recorded calls in wire format as Python code, for journals and logs.

    >>> as_python({"table": "visits", "calls": [["filter", ["age > 40"], {}], ["bound", [], {"rows": 1}]]})
    "table('visits').filter('age > 40').bound(rows=1)"
    """
    match data:
        case {"asks": function, "args": args, "named": named}:
            return f"sf.{function}({_arguments_as_python(args, named)})"
        case {"calls": calls, **of}:
            (kind, name), *_ = of.items()
            rest = (f".{called}({_arguments_as_python(args, named)})" for called, args, named in calls)
            return f"{kind}({name!r}){''.join(rest)}"
        case {"tuple": given}:
            return f"({', '.join(map(as_python, given))}{',' * (len(given) == 1)})"
        case {"dict": given}:
            return f"{{{', '.join(f'{as_python(key)}: {as_python(one)}' for key, one in given)}}}"
        case {"float": given} | {"fraction": given} | {"decimal": given}:
            return str(given)
        case dict():
            return ", ".join(f"{kind}({given!r})" for kind, given in data.items())
        case list():
            return f"[{', '.join(map(as_python, data))}]"
    return repr(data)


def _arguments_as_python(args: list[Any], named: Mapping[str, Any]) -> str:
    return ", ".join([*map(as_python, args), *(f"{name}={as_python(one)}" for name, one in named.items())])


def _text(value: Any) -> str:
    """Return a text in wire format, if it can be written as UTF-8."""
    try:
        if isinstance(value, str) and value.encode():
            return value
    except UnicodeEncodeError:
        raise QueryError("chain: a text has half of a surrogate pair") from None
    if value == "":
        return ""
    raise QueryError(_FORM)


def _value(kind: str, text: str) -> Any:
    """Return a typed value in wire format, such as a date, from its text."""
    form = {"fraction": _FRACTION, "decimal": _DECIMAL}.get(kind)
    if form is None or form.fullmatch(text):
        try:
            return _TEXTS[kind][2](text)
        except (ValueError, ArithmeticError):
            pass
    raise QueryError(f"chain: {shown(text)} is no {kind}")
