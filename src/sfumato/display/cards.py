"""Cards: a title and parts of a few kinds as plain data, shown as text and as HTML.

HTML is made here alone, and what comes from data is made harmless here.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import wraps
from html import escape
from typing import Any, NamedTuple

from sfumato.dataclass import dataclass
from sfumato.display.formatting import Shown, visible

Cell = str | Shown


class Fact(NamedTuple):
    """A line of a card: a name, and a sentence about it."""

    about: str
    said: str


@dataclass(frozen=True)
class Rows:
    """A table in a card.

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
    """Lines of a name and a sentence in a card."""

    facts: Sequence[Fact | tuple[str, str]]


@dataclass(frozen=True)
class Steps:
    """Numbered sentences in a card."""

    steps: Sequence[str]
    first: int = 1


@dataclass(frozen=True)
class Sentences:
    """Sentences in a card, each on a line."""

    sentences: Sequence[str]


@dataclass(frozen=True)
class Listing:
    """Text with lines of its own in a card."""

    text: str


Part = Rows | Facts | Steps | Sentences | Listing


@dataclass(frozen=True)
class Card:
    """A card: a title, parts and a warning, as plain data.

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
        """Return the card as lines of text."""
        blocks = [_text(part) for part in self.parts if part is not None]
        head = [visible(self.title), *([visible(self.warning)] if self.warning else [])]
        return "\n\n".join(["\n".join(head), *filter(None, blocks)])


def cell(value: Any) -> str:
    """Write a value in a card's table that has no error bar.

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


WORDS = {
    "privacy unit": "Whom the guarantee protects: most often a person, with all rows that have the same id.",
    "epsilon": "The privacy loss. It limits what anybody can learn about whether a unit is in the table; at "
    "epsilon 1 a guess is right at most 73 times in 100, where chance gives 50.",
    "delta": "The small probability that the loss exceeds epsilon.",
    "K-norm": "Noise with the shape of what one unit can add to all numbers of a query jointly.",
    "σ": "The root mean square of the noise.",
    "error bar": "The distance from the exact number that holds in 95 of 100 releases.",
    "limits": "The number of groups in which a unit counts, and the number of its rows that count in each.",
    "clamp": "Move a value beyond a bound to the bound.",
    "exactly rounded": "Noise is drawn as a real number with infinite precision, then rounded to a grid.",
}
_WRITTEN = {"privacy units": "privacy unit", "error bars": "error bar", "clamped": "clamp"}
_FIND = re.compile(
    "|".join(rf"(?<![\w-]){re.escape(word)}(?![\w-])" for word in sorted((*WORDS, *_WRITTEN), key=len)[::-1])
)


class Glossary:
    """The glossary of a card in HTML: each word is explained once, at its first use.

    >>> told = Glossary()
    >>> told.once("epsilon 1, epsilon 2")[:20]
    '<abbr title="The pri'
    >>> told.once("epsilon 3")
    'epsilon 3'
    """

    def __init__(self) -> None:
        self._words: set[str] = set()

    def once(self, text: str) -> str:
        """Return HTML in which the words of the glossary are explained.

        Args:
            text: what is escaped already, and has no tag.
        """
        return _FIND.sub(self._one, text)

    def _one(self, match: re.Match[str]) -> str:
        word = _WRITTEN.get(match[0], match[0])
        if word in self._words:
            return match[0]
        self._words.add(word)
        return f'<abbr title="{escape(WORDS[word])}">{match[0]}</abbr>'


# Notebooks typeset what stands between dollars as mathematics, but in elements of these classes.
_NO_MATHEMATICS = "tex2jax_ignore mathjax_ignore"
_STYLE = """
.sfumato { color: inherit; font-size: .9rem; line-height: 1.45; margin: .3rem 0; overflow-x: auto; }
.sfumato > p { margin: .35rem 0; max-width: 46rem; overflow-wrap: anywhere; text-align: left; }
.sfumato > p.title { font-weight: 600; }
.sfumato > p.warning { font-weight: 600; border-left: .3rem solid #d55e00; padding-left: .5rem; }
.sfumato table { border-collapse: collapse; border: 0; margin: .5rem 0; color: inherit; width: auto;
  display: table; table-layout: auto; font-size: inherit; background: none; }
.sfumato tr, .sfumato tbody tr:nth-child(odd), .sfumato tbody tr:hover { background: none; }
.sfumato th, .sfumato td { padding: .15rem .75rem .15rem 0; border: 0; text-align: left;
  vertical-align: top; color: inherit; font-weight: 400; background: none; max-width: 28rem; min-width: 0; }
.sfumato .rows th, .sfumato .rows td { text-align: right; white-space: nowrap; padding-left: .4rem;
  font-variant-numeric: tabular-nums; border-bottom: 1px solid rgba(127, 127, 127, .25); }
.sfumato .rows thead th { font-weight: 600; border-bottom: 1px solid currentColor; vertical-align: bottom; }
.sfumato .rows .left { text-align: left; white-space: pre-wrap; overflow-wrap: break-word; padding-left: 0; }
.sfumato .bar, .sfumato .facts th { opacity: .72; }
.sfumato abbr { text-decoration: underline dotted rgba(127, 127, 127, .8); cursor: help; }
.sfumato .facts th { white-space: nowrap; }
.sfumato .facts td { max-width: 46rem; overflow-wrap: anywhere; }
.sfumato ol { margin: .35rem 0; padding-left: 2rem; max-width: 46rem; list-style: decimal; }
.sfumato li { overflow-wrap: anywhere; }
.sfumato pre { margin: .35rem 0; padding: 0; white-space: pre-wrap; overflow-wrap: anywhere;
  color: inherit; background: none; border: 0; font-size: .85rem; }
"""


def html(card: Card) -> str:
    """Return a card as HTML with safe text; a pointer on a word of the glossary shows what it means.

    >>> "<script>" in html(Card("A column called <script>", []))
    False
    """
    told = Glossary()
    parts = [f'<p class="title">{told.once(escape_html(card.title))}</p>']
    if card.warning:
        parts.append(f'<p class="warning">{told.once(escape_html(card.warning))}</p>')
    parts += [_part(part, told) for part in card.parts if part is not None]
    inside = "\n".join(parts)
    return f'<div class="sfumato {_NO_MATHEMATICS}">\n<style>{_STYLE}</style>\n{inside}\n</div>'


def progress_bar(title: str, share: float | None, seconds: float) -> str:
    """Return the card of a progress bar: the share that is done, if known, and the seconds so far.

    >>> "42%" in progress_bar("Reading <rows>", 0.42, 3)
    True
    """
    value = "" if share is None else f' value="{share:.3f}"'
    done = "" if share is None else f"{share:.0%}, "
    said = f"{escape_html(title)}: {done}{seconds:.0f} s"
    return f'<div class="sfumato"><progress max="1"{value}></progress> {said}</div>'


def escape_html(text: str, *, lines: bool = False) -> str:
    """Return a text as HTML in cards and pages.

    Args:
        text: any.
        lines: let line ends and tabs through.
    """
    return escape(visible(text, lines=lines))


def _part(part: Part, glossary: Glossary) -> str:
    if isinstance(part, Listing):
        return f"<pre>{escape_html(part.text, lines=True)}</pre>"
    if isinstance(part, Sentences):
        return "\n".join(f"<p>{glossary.once(escape_html(one))}</p>" for one in part.sentences)
    if isinstance(part, Steps):
        items = "\n".join(f"<li>{glossary.once(escape_html(one))}</li>" for one in part.steps)
        return f'<ol start="{part.first}">\n{items}\n</ol>'
    if isinstance(part, Facts):
        lines = (
            f'<tr><th scope="row">{glossary.once(escape_html(about))}</th>'
            f"<td>{glossary.once(escape_html(said))}</td></tr>"
            for about, said in part.facts
        )
        return "\n".join(['<table class="facts">', *lines, "</table>"])
    return _rows(part)


def _rows(part: Rows) -> str:
    found = ['<table class="rows">']
    if any(part.names):
        names = (f"<th{_left(i, part)}>{escape_html(name)}</th>" for i, name in enumerate(part.names))
        found.append(f"<thead><tr>{''.join(names)}</tr></thead>")
    found.append("<tbody>")
    for row in part.rows:
        found.append(
            f"<tr>{''.join(f'<td{_left(i, part)}>{_html_cell(c)}</td>' for i, c in enumerate(row))}</tr>"
        )
    found.append("</tbody></table>")
    if part.beyond:
        found.append(f"<p>{escape_html(part.beyond)}</p>")
    return "\n".join(found)


def _left(place: int, part: Rows) -> str:
    return ' class="left"' if place < part.left else ""


def _html_cell(one: Cell) -> str:
    if isinstance(one, str):
        return escape_html(one)
    return f'{escape_html(one.value)}<span class="bar"> ± {escape_html(one.error)}</span>'


class Displayed:
    """Base class of objects that notebooks show as a card, and `print` as its text.

    A class says by `_card` what is shown; that may neither read rows, nor draw, nor spend anything.
    """

    __slots__ = ()

    @abstractmethod
    def _card(self) -> Card: ...

    def _repr_html_(self) -> str:
        return html(self._card())

    def __str__(self) -> str:
        return self._card().text()


class TextCard(Displayed):
    """Base class of objects whose card is the text of their `__str__`, in `repr` and notebooks too.

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
