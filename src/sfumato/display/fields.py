"""What a value of several fields looks like in Python, with exact numbers as one writes them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from fractions import Fraction
from typing import Any

from sfumato.display.numbers import exact


class Spelled:
    """Base of dataclasses with repr=False, whose `repr` has exact numbers as one writes them.

    >>> from dataclasses import dataclass
    >>> @dataclass(repr=False)
    ... class Bounds(Spelled):
    ...     ends: tuple[Fraction, Fraction]
    >>> Bounds((Fraction(1, 2), Fraction(1, 3)))
    Bounds(ends=(0.5, 1/3))
    """

    __slots__ = ()

    def __repr__(self) -> str:
        told: Any = self  # a dataclass
        return spelled_fields(self, [f.name for f in fields(told) if f.repr])


class Short(Spelled):
    """The same without fields that are as they are by default.

    >>> from dataclasses import dataclass
    >>> @dataclass(repr=False)
    ... class Bounds(Short):
    ...     lower: int
    ...     upper: int | None = None
    >>> Bounds(0), Bounds(0, 5)
    (Bounds(lower=0), Bounds(lower=0, upper=5))
    """

    __slots__ = ()

    def __repr__(self) -> str:
        told: Any = self  # a dataclass
        return spelled_fields(
            self, [f.name for f in fields(told) if f.repr and getattr(self, f.name) != f.default]
        )


def spelled_fields(value: object, names: Iterable[str]) -> str:
    """Return the `repr` of a value of named fields, with exact numbers as one writes them."""
    said = (f"{name}={spelled(getattr(value, name))}" for name in names)
    return f"{type(value).__name__}({', '.join(said)})"


def spelled(value: object) -> str:
    """Return the `repr` of a value; exact numbers and types are as one writes them, inside of lists too."""
    if isinstance(value, Fraction):
        return exact(value)
    if isinstance(value, type):
        return value.__name__
    if type(value) is tuple:
        return f"({', '.join(map(spelled, value))}{',' * (len(value) == 1)})"
    if type(value) is list:
        return f"[{', '.join(map(spelled, value))}]"
    if type(value) is dict:
        return f"{{{', '.join(f'{spelled(k)}: {spelled(v)}' for k, v in value.items())}}}"
    return repr(value)
