"""The syntax tree of a differentially private SELECT: each part with its place in the text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sfumato.dialect.tree import Node
from sfumato.dialect.words import Place, Token, refusal

# Words that stand alone as an expression and name no column.
_VALUES = ("NULL", "TRUE", "FALSE")


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
    """An expression of one row, as its words, of which there is at least one."""

    tokens: tuple[Token, ...]

    @property
    def place(self) -> Place:
        """From its first word to its last."""
        return Place(self.tokens[0].start, self.tokens[-1].stop)


@dataclass(frozen=True)
class Truth:
    """A named argument that is TRUE or FALSE."""

    value: bool
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
    error_bars: Truth | None
    name_place: Place


@dataclass(frozen=True)
class Computed:
    """What is computed with private aggregates and keys, as its words."""

    expression: Expression


@dataclass(frozen=True)
class Item:
    """One entry of the SELECT list."""

    value: Call | Expression | Computed
    alias: str | None
    place: Place
    alias_place: Place


@dataclass(frozen=True)
class Statement:
    """A whole SELECT, nothing of it judged yet but its form.

    Args:
        tree: what DuckDB reads once the privacy clause, bounds and ranks are cut out.
        calls: all private aggregates: by where each begins, where it stops, its words and what it is.
        having: the condition of groups.
        after: what comes behind it: QUALIFY, WINDOW, ORDER BY, LIMIT and OFFSET, with these words.
    """

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
    tree: Node
    calls: Mapping[int, tuple[int, Expression, Call]] = field(default_factory=dict)
    having: Expression | None = None
    after: Expression | None = None

    def spell(self, expression: Expression) -> str:
        """Return an expression's own text, without the qualifiers that name the table."""
        kept = {token.start for token in self.unqualified(expression)}
        pieces: list[str] = []
        stop = expression.place.start
        for token in expression.tokens:
            if pieces:
                pieces.append(self.text[stop : token.start])
            if token.start in kept:
                pieces.append(self.text[token.start : token.stop])
            stop = token.stop
        return "".join(pieces)

    def unqualified(self, expression: Expression) -> list[Token]:
        """Return an expression's words, without the qualifiers that name the table."""
        tokens, alias = expression.tokens, (self.alias or "").casefold()
        kept: list[Token] = []
        i = 0
        while i < len(tokens):
            token = tokens[i]
            names = bool(alias) and token.kind in ("word", "name") and token.text.casefold() == alias
            dotted = i + 1 < len(tokens) and tokens[i + 1].word == "."
            if names and dotted and (i == 0 or tokens[i - 1].word != "."):
                i += 2
            else:
                kept.append(token)
                i += 1
        return kept

    def column(self, expression: Expression) -> str | None:
        """Return the column's name, where the expression is nothing but a column."""
        token, *more = self.unqualified(expression)
        named = token.kind == "name" or (token.kind == "word" and token.word not in _VALUES)
        return token.text if named and not more else None

    def shape(self, expression: Expression) -> tuple[str, ...]:
        """Return what makes two spellings of one expression equal: case and space do not count."""
        return tuple(map(_shape, self.unqualified(expression)))


def _shape(token: Token) -> str:
    if token.kind in ("text", "code") or (token.kind == "name" and token.text.upper() in _VALUES):
        return f"{token.kind} {token.text}"
    return token.text.casefold()


def positive(text: str, value: Literal, what: str) -> int:
    """Return a whole number of at least 1, or refuse `what` at its place in the text."""
    if value.kind != "number" or not value.text.isdigit() or not 0 < int(value.text) < 2**63:
        raise refusal(text, value.place, f"{what} must be a whole number of at least 1")
    return int(value.text)
