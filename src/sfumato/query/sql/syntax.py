"""The syntax tree of a differentially private SELECT: each part with its place in the text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from sfumato.errors import SqlError


@dataclass(frozen=True)
class Place:
    """Where something stands in the text: offsets of its first character, and after its last."""

    start: int
    stop: int


@dataclass(frozen=True)
class Literal:
    """A number, word or name as it was written (`kind` is "number", "word", "text" or "name")."""

    text: str
    kind: str
    place: Place


@dataclass(frozen=True)
class Bounds:
    """Two numbers, and what they bound: one of BOUNDS, or "clamped"."""

    kind: str
    lower: Literal
    upper: Literal
    place: Place


@dataclass(frozen=True)
class Expression:
    """An expression of one row, as its tokens."""

    tokens: tuple[Token, ...]
    is_column: bool
    place: Place


@dataclass(frozen=True)
class Call:
    """An aggregate: COUNT(*) has no argument."""

    function: str
    argument: Expression | None
    distinct: bool
    ranks: tuple[Literal, ...]
    listed: bool
    bounds: Bounds | None
    name_place: Place


@dataclass(frozen=True)
class Item:
    """One entry of the SELECT list."""

    value: Call | Expression
    alias: str | None
    place: Place
    alias_place: Place


@dataclass(frozen=True)
class Statement:
    """A whole SELECT, nothing of it judged yet but its form."""

    text: str
    clause: str
    clause_place: Place
    options: tuple[tuple[Literal, Literal], ...]
    items: tuple[Item, ...]
    source: str
    alias: str | None
    where: Expression | None
    group_by: tuple[Expression, ...]
    group_by_all: bool

    def spell(self, expression: Expression) -> str:
        """Return an expression's own text, without the qualifiers that name the table."""
        kept, text, stop = self.unqualified(expression), "", expression.place.start
        for token in expression.tokens:
            text += self.text[stop : token.start] if text else ""
            text += self.text[token.start : token.end + 1] if token in kept else ""
            stop = token.end + 1
        return text

    def unqualified(self, expression: Expression) -> list[Token]:
        """Return an expression's tokens, without the qualifiers that name the table."""
        tokens = [None, *expression.tokens, None]
        kept: list[Token] = []
        dropped = False
        for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
            assert token is not None
            named = self.alias is not None and token.text.casefold() == self.alias.casefold()
            starts = before is None or before.token_type != TokenType.DOT
            dotted = after is not None and after.token_type == TokenType.DOT
            if named and starts and dotted and token.token_type != TokenType.STRING:
                dropped = True
            elif dropped:
                dropped = False
            else:
                kept.append(token)
        return kept

    def column(self, expression: Expression) -> str | None:
        """Return the column's name, where the expression is nothing but a column."""
        tokens = self.unqualified(expression)
        return tokens[0].text if expression.is_column and len(tokens) == 1 else None

    def shape(self, expression: Expression) -> tuple[str, ...]:
        """Return what makes two spellings of one expression equal: case and space do not count."""
        texts = (TokenType.STRING, TokenType.BYTE_STRING, TokenType.HEREDOC_STRING, TokenType.NATIONAL_STRING)
        return tuple(
            f"{token.token_type.name} {token.text}" if token.token_type in texts else token.text.casefold()
            for token in self.unqualified(expression)
        )


def positive(text: str, value: Literal, what: str) -> int:
    """Return a whole number of at least 1, or refuse `what` at its place in the text."""
    if value.kind != "number" or not value.text.isdigit() or not 0 < int(value.text) < 2**63:
        raise refusal(text, value.place, f"{what} must be a whole number of at least 1")
    return int(value.text)


def refusal(text: str, place: Place, message: str) -> SqlError:
    """Make an error that shows the line and marks the place.

    Args:
        text: the whole SQL text.
        place: what to mark.
        message: what is wrong and what to write instead.

    >>> print(refusal("SELECT x\\nFROM t", Place(14, 15), "t is not known"))
    t is not known
    line 2, column 6:
        FROM t
             ^
    """
    start = min(place.start, len(text))
    first = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1
    ends = [i for i in (text.find("\n", start), text.find("\r", start)) if i >= 0]
    last = min(ends, default=len(text))
    number = len(re.findall(r"\r\n|\r|\n", text[:first])) + 1
    left = max(first, start - 60)
    right = min(last, max(left + 100, start + 40))
    shown = "".join(c if c.isprintable() else " " for c in text[left:right])
    before, after = ("..." if left > first else ""), ("..." if right < last else "")
    marks = "^" * max(1, min(place.stop, right) - start)
    pad = " " * (len(before) + start - left)
    return SqlError(
        f"{message}\nline {number}, column {start - first + 1}:\n    {before}{shown}{after}\n    {pad}{marks}"
    )
