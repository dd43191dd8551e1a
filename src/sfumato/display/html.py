"""Cards as HTML: the one place where it is made, and where what comes from data is made harmless.

It has no script and asks for nothing. Colours are those of the page around it, so that a card is readable
in light and in dark, whichever tool shows it, and how it was told to be either.
"""

from __future__ import annotations

import re
from html import escape

from sfumato.display.card import Card, Cell, Facts, Listing, Part, Rows, Sentences, Steps
from sfumato.display.text import visible

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
    """The words that a card has told already: each is told once, where it first stands.

    >>> told = Glossary()
    >>> told.once("epsilon 1, epsilon 2")[:20]
    '<abbr title="The pri'
    >>> told.once("epsilon 3")
    'epsilon 3'
    """

    def __init__(self) -> None:
        self._words: set[str] = set()

    def once(self, text: str) -> str:
        """Return HTML with what its words mean beside them.

        Args:
            text: what is escaped already, and has no tag.
        """
        return _FIND.sub(self._one, text)

    def _one(self, found: re.Match[str]) -> str:
        word = _WRITTEN.get(found[0], found[0])
        if word in self._words:
            return found[0]
        self._words.add(word)
        return f'<abbr title="{escape(WORDS[word])}">{found[0]}</abbr>'


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
    """Return a card as HTML, of which nothing can be more than text; a pointer on a word shows what it means.

    >>> "<script>" in html(Card("A column called <script>", []))
    False
    """
    told = Glossary()
    parts = [f'<p class="title">{told.once(escaped(card.title))}</p>']
    if card.warning:
        parts.append(f'<p class="warning">{told.once(escaped(card.warning))}</p>')
    parts += [_part(part, told) for part in card.parts if part is not None]
    inside = "\n".join(parts)
    return f'<div class="sfumato {_NO_MATHEMATICS}">\n<style>{_STYLE}</style>\n{inside}\n</div>'


def progress_bar(title: str, share: float | None, seconds: float) -> str:
    """Return a bar of the share that is done, if that is known, and how long it took so far.

    >>> "42%" in progress_bar("Reading <rows>", 0.42, 3)
    True
    """
    value = "" if share is None else f' value="{share:.3f}"'
    done = "" if share is None else f"{share:.0%}, "
    said = f"{escaped(title)}: {done}{seconds:.0f} s"
    return f'<div class="sfumato"><progress max="1"{value}></progress> {said}</div>'


def escaped(text: str, *, lines: bool = False) -> str:
    """Return text as HTML shows it.

    Args:
        text: any.
        lines: let line ends and tabs through.
    """
    return escape(visible(text, lines=lines))


def _part(part: Part, told: Glossary) -> str:
    if isinstance(part, Listing):
        return f"<pre>{escaped(part.text, lines=True)}</pre>"
    if isinstance(part, Sentences):
        return "\n".join(f"<p>{told.once(escaped(one))}</p>" for one in part.sentences)
    if isinstance(part, Steps):
        items = "\n".join(f"<li>{told.once(escaped(one))}</li>" for one in part.steps)
        return f'<ol start="{part.first}">\n{items}\n</ol>'
    if isinstance(part, Facts):
        lines = (
            f'<tr><th scope="row">{told.once(escaped(about))}</th><td>{told.once(escaped(said))}</td></tr>'
            for about, said in part.facts
        )
        return "\n".join(['<table class="facts">', *lines, "</table>"])
    return _rows(part)


def _rows(part: Rows) -> str:
    found = ['<table class="rows">']
    if any(part.names):
        names = (f"<th{_left(i, part)}>{escaped(name)}</th>" for i, name in enumerate(part.names))
        found.append(f"<thead><tr>{''.join(names)}</tr></thead>")
    found.append("<tbody>")
    for row in part.rows:
        found.append(f"<tr>{''.join(f'<td{_left(i, part)}>{_cell(c)}</td>' for i, c in enumerate(row))}</tr>")
    found.append("</tbody></table>")
    if part.beyond:
        found.append(f"<p>{escaped(part.beyond)}</p>")
    return "\n".join(found)


def _left(place: int, part: Rows) -> str:
    return ' class="left"' if place < part.left else ""


def _cell(one: Cell) -> str:
    if isinstance(one, str):
        return escaped(one)
    return f'{escaped(one.value)}<span class="bar"> ± {escaped(one.error)}</span>'
