"""A place in the words of a text: words and numbers are taken one by one, or refused where they stand."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction

from sfumato.dialect.syntax import Literal
from sfumato.dialect.vocabulary import NO_NUMBER
from sfumato.dialect.words import Place, Token, brackets, refusal, tokenize
from sfumato.errors import SqlError


class Cursor:
    """The words of a text, and which of them is next.

    `written` is the text, blank where words were cut out.

    Args:
        text: SQL.
    Raises:
        SqlError: a quote, a comment or a bracket does not end.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.written = text
        self.tokens: list[Token] = tokenize(text)
        while len(self.tokens) > 1 and self.tokens[-2].word == ";":
            del self.tokens[-2]
            stop = self.tokens[-2].stop if len(self.tokens) > 1 else 0
            self.tokens[-1] = Token("end", "", "", stop, stop + 1)
        self.closing: dict[int, int] = brackets(text, self.tokens)
        self.at: int = 0

    def part(self, start: int, stop: int) -> Cursor:
        """Return some of the words, which keep their places, as a text of their own; the next is its end."""
        part = object.__new__(Cursor)
        end = self.tokens[stop]
        part.text, part.written, part.at = self.text, self.written, 0
        part.tokens = [*self.tokens[start:stop], Token("end", "", "", end.start, end.stop)]
        part.closing = {i - start: self.closing[i] - start for i in range(start, stop) if i in self.closing}
        return part

    def without(self, spans: Iterable[range]) -> Cursor:
        """Return the words without some: the others keep their places, and `written` is blank between."""
        cut, written = {i for span in spans for i in span}, list(self.written)
        for i in cut:
            start, stop = self.tokens[i].place
            written[start:stop] = " " * (stop - start)
        part = object.__new__(Cursor)
        part.text, part.written, part.at = self.text, "".join(written), 0
        part.tokens = [token for i, token in enumerate(self.tokens) if i not in cut]
        part.closing = brackets(self.text, part.tokens)
        return part

    @property
    def token(self) -> Token:
        """What is next; "end" where there is nothing more."""
        return self.tokens[self.at]

    @property
    def before(self) -> Token:
        """What was taken last."""
        return self.tokens[self.at - 1]

    @property
    def after(self) -> Token:
        """What follows the next one."""
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)]

    def take(self, word: str) -> bool:
        """Go on behind a word, if it is next."""
        found = self.token.word == word
        self.at += found
        return found

    def literal(self, kind: str) -> Literal:
        """Take what is next as it was written."""
        token = self.token
        self.at += token.kind != "end"
        return Literal(token.text, kind, token.place)

    def number(self, what: str) -> Literal:
        """Take a number with its sign.

        Raises:
            SqlError: `what` is none, or out of all range.
        """
        start = self.token
        sign = start.text if start.word in ("-", "+") else ""
        self.at += bool(sign)
        last = self.token
        if last.kind != "number" or "_" in last.text:
            raise self.refuse(f"{what} {NO_NUMBER}", start if last.kind == "end" else last)
        self.at += 1
        text, place = sign + last.text, Place(start.start, last.stop)
        if self.token.word == "E" and self.token.start == last.stop:
            raise refusal(self.text, Place(start.start, self.token.stop), f"{what} {NO_NUMBER}")
        exponent = re.search(r"e([+-]?\d+)$", text, re.IGNORECASE)
        if len(text) > 1000 or (exponent and (len(exponent[1]) > 5 or abs(int(exponent[1])) > 5000)):
            raise refusal(self.text, place, f"{what} is out of all range")
        Fraction(text)
        return Literal(text, "number", place)

    def refuse(self, message: str, token: Token | None = None) -> SqlError:
        """Make an error that marks a word, or what is next."""
        return refusal(self.text, (token or self.token).place, message)
