"""How an aggregate was asked for: which function was called with what, so that it can be asked elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar, cast

from sfumato.dataclass import dataclass

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


def remembered(function: F) -> F:
    """Let what a function makes know by which call: beside its fields, so that two calls may make equals.

    >>> from sfumato.query.aggregates import median
    >>> call_of(median("age", lower=0, upper=100))
    Call(function='median', args=('age',), named={'lower': 0, 'upper': 100})
    """
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
