"""Functions of users, which are given one private row at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sfumato.errors import ParameterError


def checked(name: str, function: Any) -> Callable[[Any], Any]:
    """Refuse what cannot be called."""
    if not callable(function):
        raise ParameterError(name, function, "a function of one row")
    return function  # type: ignore[no-any-return]


def forgiving(function: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
    """Drop what a function fails on: whether it fails depends on private rows, and an error would tell."""

    def tried(element: Any) -> list[Any]:
        try:
            return function(element)
        except Exception:  # of a user's function, on one row
            return []

    return tried
