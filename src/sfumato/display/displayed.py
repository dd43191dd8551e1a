"""What has a card: notebooks show it by itself, and `print` as text."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import Any

from sfumato.display.card import Card, Listing
from sfumato.display.html import html
from sfumato.display.text import visible


class Displayed:
    """Base of what notebooks show as a card, and `print` as the same in text.

    A class says by `_card` what is shown; that may neither read rows, nor draw, nor spend anything.
    """

    __slots__ = ()

    @abstractmethod
    def _card(self) -> Card: ...

    def _repr_html_(self) -> str:
        return html(self._card())

    def __str__(self) -> str:
        return self._card().text()


class Told(Displayed):
    """Base of what says itself in lines, by `__str__`: `repr` and notebooks show these too.

    Names in them may be anybody's: what a terminal would obey or hide is escaped. A dataclass of this kind is
    one with repr=False.
    """

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__str__" in vars(cls):
            cls.__str__ = _escaped(cls.__str__)  # type: ignore[method-assign]

    def _card(self) -> Card:
        first, _, rest = str(self).partition("\n")
        return Card(first, [Listing(rest.strip("\n"))] if rest.strip() else [])

    def __repr__(self) -> str:
        return str(self)


def _escaped(write: Callable[[Any], str]) -> Callable[[Any], str]:
    @wraps(write)
    def written(self: Any) -> str:
        return visible(write(self), lines=True)

    return written
