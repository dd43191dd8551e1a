"""How an aggregate was asked for: which function was called with what, so that it can be asked elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar, cast

from sfumato.dataclass import dataclass
from sfumato.names import helpful

F = TypeVar("F", bound=Callable[..., Any])
_CALL = "_called_by"


@dataclass(frozen=True)
class Call:
    """A call of a function that makes an aggregate.

    Args:
        function: its name.
        args, named: what it was given, by place and by name.
    """

    function: str
    args: tuple[Any, ...]
    named: Mapping[str, Any]


def asked(*sql_names: str, counts: bool = False) -> Callable[[F], F]:
    """Decorate a public function that makes an aggregate: the aggregate records its call.

    The call is not one of its fields, so aggregates of two different calls can be equal.

    Args:
        sql_names: the names of the function in SQL.
        counts: whether it counts, so that a bound in SQL is a limit of rows.

    >>> from sfumato.query.aggregates import median
    >>> call_of(median("age", lower=0, upper=100))
    Call(function='median', args=('age',), named={'lower': 0, 'upper': 100})
    """

    def marked(function: F) -> F:
        made: Any = helpful(_remembered(function))
        made.sql_names, made.counts = sql_names, counts
        return cast(F, made)

    return marked


def sql_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names in SQL of a function that makes an aggregate."""
    names: tuple[str, ...] = vars(function)["sql_names"]
    return names


def counts(function: Callable[..., Any]) -> bool:
    """Whether a function makes an aggregate that counts."""
    return vars(function).get("counts", False) is True


def _remembered(function: F) -> F:
    note = _note

    def call(*args: Any, **named: Any) -> Any:
        return note(function(*args, **named), function.__name__, args, named)

    # With the globals of the function's own module: doctest looks there for the examples of what it holds.
    own: dict[str, Any] = function.__globals__
    made = FunctionType(call.__code__, own, function.__name__, None, call.__closure__)
    return cast(F, wraps(function)(made))


def call_of(made: object) -> Call | None:
    """Return the call that made an aggregate; None where no function of ours did, as after a change of it."""
    found: Call | None = vars(made).get(_CALL)
    return found


def _note(made: Any, function: str, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    found = Call(function, tuple(map(_kept, args)), {name: _kept(one) for name, one in named.items()})
    object.__setattr__(made, _CALL, found)
    return made


def _kept(value: Any) -> Any:
    """Return a value that does not change with a list or dict that the caller goes on to use."""
    if isinstance(value, list):
        return tuple(value)
    return dict(value) if isinstance(value, Mapping) else value
