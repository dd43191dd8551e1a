"""What has a card: notebooks show it by itself, and `print` as text."""

from __future__ import annotations

from abc import abstractmethod

from sfumato.display.card import Card, Listing
from sfumato.display.html import html


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

    A dataclass of this kind is one with repr=False.
    """

    __slots__ = ()

    def _card(self) -> Card:
        first, _, rest = str(self).partition("\n")
        return Card(first, [Listing(rest.strip("\n"))] if rest.strip() else [])

    def __repr__(self) -> str:
        return str(self)
