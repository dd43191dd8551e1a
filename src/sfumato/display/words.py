"""What the words of outputs mean, in a sentence each, for a card to say where a word first stands on it.

They are the first sentences of docs/glossary.md, which a test holds to them.
"""

from __future__ import annotations

import re
from html import escape

WORDS = {
    "privacy unit": "Whose rows come or go together: most often a person, with all rows that have the same "
    "id.",
    "epsilon": "How well a unit is hidden: it bounds what anybody can learn from a release about whether "
    "somebody is in the table; at 1 a guess is right 73 times of 100, where 50 is mere luck.",
    "delta": "The small chance that what epsilon says does not hold.",
    "K-norm": "Noise in the shape of what one unit can do to all numbers of a question together.",
    "σ": "What noise is off on average (its root mean square).",
    "error bar": "What an exact number is within, in 95 of 100 releases.",
    "limits": "In how many groups a unit may count, and with how many rows in each.",
    "clamp": "Move what is beyond a bound to the bound.",
    "exactly rounded": "Noise is drawn as a real number with all its digits, and then rounded to a whole "
    "number of small steps, the grid.",
}
_WRITTEN = {"privacy units": "privacy unit", "error bars": "error bar", "clamped": "clamp"}
_FIND = re.compile(
    "|".join(rf"(?<![\w-]){re.escape(word)}(?![\w-])" for word in sorted((*WORDS, *_WRITTEN), key=len)[::-1])
)


class Glossary:
    """The words that a card has told already: each is told once, where it first stands.

    >>> told = Glossary()
    >>> told.once("epsilon 1, epsilon 2")[:20]
    '<abbr title="How wel'
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
