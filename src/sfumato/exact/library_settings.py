"""Library settings: run code with the defaults of NumPy, SciPy, gmpy2 and decimal, whatever a caller set.

A caller may have NumPy raise on an underflow, or decimal compute to two digits. Whether a result or an error
comes of private rows must not depend on that, so that whatever a caller enters runs with the libraries'
defaults, and leaves the caller's settings as they were.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

from sfumato.exact.outward_rounding import default_context

F = TypeVar("F", bound=Callable[..., Any])

_inside: ContextVar[bool] = ContextVar("sfumato_library_defaults", default=False)


@contextmanager
def library_defaults() -> Iterator[None]:
    """Give NumPy, gmpy2 and decimal their default settings for a while.

    >>> with np.errstate(all="raise"), library_defaults():
    ...     np.float64(1e-300) * np.float64(1e-300)
    np.float64(0.0)
    """
    if _inside.get():
        yield
        return
    token = _inside.set(True)
    try:
        with (
            np.errstate(divide="warn", over="warn", invalid="warn", under="ignore"),
            default_context(),
            decimal.localcontext(
                decimal.Context(
                    prec=28,
                    rounding=decimal.ROUND_HALF_EVEN,
                    Emin=-999_999,
                    Emax=999_999,
                    traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
                )
            ),
        ):
            yield
    finally:
        _inside.reset(token)


def isolated(function: F) -> F:
    """Let a function run with the default settings of NumPy, gmpy2 and decimal.

    >>> @isolated
    ... def third():
    ...     return decimal.Decimal(1) / 3
    >>> with decimal.localcontext(prec=2):
    ...     third()
    Decimal('0.3333333333333333333333333333')
    """

    inside, defaults = _inside.get, library_defaults

    def call(*args: Any, **named: Any) -> Any:
        if inside():
            return function(*args, **named)
        with defaults():
            return function(*args, **named)

    # With the globals of the function's own module: doctest looks there for the examples of what it holds.
    own: dict[str, Any] = cast(Any, function).__globals__
    made = FunctionType(call.__code__, own, cast(Any, function).__name__, None, call.__closure__)
    made.__dict__["isolated"] = True
    return cast(F, wraps(function)(made))


def mark_unaffected(function: F) -> F:
    """Mark a method of an `Isolated` class that runs under any library settings, as it computes nothing."""
    function.__dict__["isolated"] = False
    return function


class Isolated:
    """Base of classes whose public methods, and calls, run with the default settings of libraries."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, value in list(vars(cls).items()):
            public = not name.startswith("_") or name in ("__call__", "__init__", "__post_init__")
            if public and isinstance(value, FunctionType) and not hasattr(value, "isolated"):
                setattr(cls, name, isolated(value))
            elif (
                public and isinstance(value, property) and value.fget and not hasattr(value.fget, "isolated")
            ):
                setattr(cls, name, property(isolated(value.fget), doc=value.__doc__))
