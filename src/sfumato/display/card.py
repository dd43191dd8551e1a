"""What people are shown of a thing: a title and parts of a few kinds, as plain data and as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sfumato.dataclass import dataclass
from sfumato.display.numbers import Shown
from sfumato.display.text import visible

Cell = str | Shown


class Fact(NamedTuple):
    """A line: what it is about, and what is said of it."""

    about: str
    said: str


@dataclass(frozen=True)
class Rows:
    """A table.

    Args:
        names: of its columns; empty ones alone for none.
        rows: cells of each row: texts, or values with error bars.
        left: how many columns say what a row is, and stand to the left; numbers stand to the right.
        beyond: a sentence where there are more rows.
    """

    names: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    left: int = 1
    beyond: str = ""


@dataclass(frozen=True)
class Facts:
    """Lines of a name and a sentence."""

    facts: Sequence[Fact | tuple[str, str]]


@dataclass(frozen=True)
class Steps:
    """Sentences with numbers, in an order."""

    steps: Sequence[str]
    first: int = 1


@dataclass(frozen=True)
class Sentences:
    """Sentences, each on a line."""

    sentences: Sequence[str]


@dataclass(frozen=True)
class Listing:
    """Text that has its own lines."""

    text: str


Part = Rows | Facts | Steps | Sentences | Listing


@dataclass(frozen=True)
class Card:
    """What is shown of a thing.

    Args:
        title: what it is.
        parts: in order.
        warning: what must not be overlooked, if anything.

    >>> print(Card("Two towns", [Rows(["town", "n"], [["A", Shown("1,204", "36")], ["B", "7"]])]).text())
    Two towns
    <BLANKLINE>
    town           n
    A     1,204 ± 36
    B              7
    """

    title: str
    parts: Sequence[Part | None]
    warning: str = ""

    def text(self) -> str:
        """Return it as lines, which a terminal may have."""
        blocks = [_text(part) for part in self.parts if part is not None]
        head = [visible(self.title), *([visible(self.warning)] if self.warning else [])]
        return "\n\n".join(["\n".join(head), *filter(None, blocks)])


def cell(value: Any) -> str:
    """Write a value of a table that has no error bar.

    >>> cell(None), cell(1984), cell(0.30000000000000004), cell("")
    ('NULL', '1984', '0.3', "''")
    """
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return str(value) or "''"


def _text(part: Part) -> str:
    if isinstance(part, Listing):
        return visible(part.text, lines=True)
    if isinstance(part, Sentences):
        return "\n".join(visible(one) for one in part.sentences)
    if isinstance(part, Steps):
        return "\n".join(f"{i}. {visible(one)}" for i, one in enumerate(part.steps, part.first))
    if isinstance(part, Facts):
        width = max((len(visible(about)) for about, _ in part.facts), default=0)
        return "\n".join(f"{visible(about):<{width}}  {visible(said)}" for about, said in part.facts)
    rows = [list(map(visible, part.names))] if any(part.names) else []
    rows += [[visible(_cell(one)) for one in row] for row in part.rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            text.ljust(width) if i < part.left else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([*lines, *([visible(part.beyond)] if part.beyond else [])])


def _cell(one: Cell) -> str:
    return one if isinstance(one, str) else f"{one.value} ± {one.error}"
