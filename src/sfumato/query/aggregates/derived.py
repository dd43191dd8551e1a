"""Ratios and differences of other outputs: computed from what is released, at no further cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from sfumato.errors import QueryError, shown
from sfumato.query.aggregates.aggregate import Aggregate


@dataclass(frozen=True)
class Derived(Aggregate):
    """What is computed of two outputs of the same question.

    Args:
        first, second: the outputs' names.
    """

    sign: ClassVar[str]

    first: str
    second: str

    @property
    def derived(self) -> bool:
        """It is."""
        return True

    @property
    def needs_rows(self) -> bool:
        """It reads no rows."""
        return False

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return the formula."""
        return f"{self.first} {self.sign} {self.second}"


@dataclass(frozen=True)
class Ratio(Derived):
    """One output over another one."""

    sign = "/"


@dataclass(frozen=True)
class Difference(Derived):
    """One output less another one."""

    sign = "-"


def ratio(first: str, second: str) -> Aggregate:
    """Divide one output by another one, with an error bar for both together.

    Args:
        first, second: names of outputs of the same question.
    Returns:
        An aggregate that costs nothing: it is computed of noisy numbers. It is NaN where the second output is
        0, and its error bar is infinite where the second may be 0, as far as its noise tells.
    Raises:
        QueryError: a name is no text.

    >>> ratio("visits", "people")
    Ratio(first='visits', second='people')

    Source:
        Fieller 1954, "Some problems in interval estimation".
    """
    return Ratio(*_names("ratio", first, second))


def difference(first: str, second: str) -> Aggregate:
    """Take one output from another one, with an error bar for both together.

    Args:
        first, second: names of outputs of the same question.
    Returns:
        An aggregate that costs nothing: it is computed of noisy numbers. What both have in common is no error
        of it.
    Raises:
        QueryError: a name is no text.

    >>> difference("asked", "answered")
    Difference(first='asked', second='answered')
    """
    return Difference(*_names("difference", first, second))


def _names(function: str, *names: object) -> list[str]:
    for name in names:
        if not isinstance(name, str):
            raise QueryError(
                f"{function}: {shown(name)} is no output's name; write agg(a=..., b=..., "
                f"c=sf.{function}('a', 'b'))"
            )
    return [str(name) for name in names]
