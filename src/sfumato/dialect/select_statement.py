"""The syntax tree of a differentially private SELECT: each part with its place in the text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from fractions import Fraction
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.dialect.from_clause import CommonTables, From, qualified
from sfumato.dialect.syntax_tree import Node, descendants
from sfumato.dialect.tokens import Literal, Place, Token, refusal
from sfumato.errors import SqlError
from sfumato.query.schema import quoted

# Words that stand alone as an expression and name no column.
_VALUES = ("NULL", "TRUE", "FALSE")


@dataclass(frozen=True)
class Bounds:
    """Two numbers, and what they bound: one of BOUNDS, or "clamped".

    Args:
        more: those of further columns, of an aggregate of several.
    """

    kind: str
    lower: Literal
    upper: Literal
    place: Place
    more: tuple[tuple[Literal, Literal], ...] = ()

    @property
    def pairs(self) -> tuple[tuple[Literal, Literal], ...]:
        """Lower and upper bound of each column."""
        return ((self.lower, self.upper), *self.more)


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
class WrittenAggregate:
    """An aggregate: COUNT(*) has no argument.

    Args:
        others: the columns behind its argument, of an aggregate of several.
        named: further named arguments: a literal, a truth, a column or a tuple of literals, by name.
        places: where each stands, with its name.
        condition: of FILTER (WHERE condition): only rows where it is true count.
    """

    function: str
    argument: Expression | None
    distinct: bool
    ranks: tuple[Literal, ...]
    listed: bool
    bounds: Bounds | None
    name_place: Place
    others: tuple[Expression, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict)
    condition: Expression | None = None

    @property
    def further(self) -> tuple[Expression, ...]:
        """The columns that are named behind its argument."""
        return tuple(c for c in (self.weight, *self.others, self.named.get("stratum")) if c is not None)

    @property
    def weight(self) -> Expression | None:
        """The column of weights."""
        return self.named.get("weight")

    def is_set(self, name: str) -> bool:
        """Whether a named argument that is a truth is TRUE, as it is where it is left out."""
        return name not in self.named or bool(self.named[name].value)


@dataclass(frozen=True)
class Computed:
    """What is computed with private aggregates and keys, as its words."""

    expression: Expression


@dataclass(frozen=True)
class Item:
    """One entry of the SELECT list."""

    value: WrittenAggregate | Expression | Computed
    alias: str | None
    place: Place
    alias_place: Place


@dataclass(frozen=True)
class Statement:
    """A whole SELECT, nothing of it judged yet but its form.

    Args:
        tree: what DuckDB reads once the privacy clause, bounds and ranks are cut out.
        names: the tables of WITH that it may read.
        calls: all private aggregates: by where each begins, where it stops, its words and what it is.
        group_sets: of ROLLUP and its kin the sets of keys, by their place in `group_by`; None without them.
        having: the condition of groups.
        after: what comes behind it: QUALIFY, WINDOW, ORDER BY, LIMIT and OFFSET, with these words.
        public: the name of a public table of groups, and the columns that each of its own stands for, by its
            name in lower case; see `public_groups`.
    """

    text: str
    clause: str
    clause_place: Place
    options: tuple[tuple[Literal, Literal], ...]
    items: tuple[Item, ...]
    tables: From
    source_place: Place
    where: Expression | None
    group_by: tuple[Expression, ...]
    group_by_all: bool
    tree: Node
    names: CommonTables
    group_sets: tuple[tuple[int, ...], ...] | None = None
    calls: Mapping[int, tuple[int, Expression, WrittenAggregate]] = field(default_factory=dict)
    having: Expression | None = None
    after: Expression | None = None
    public: tuple[str, Mapping[str, str]] = field(default_factory=lambda: ("", {}))

    def spell(self, expression: Expression) -> str:
        """Return an expression's own text, without the qualifiers that name the first table."""
        kept = {token.start: token for token in self.unqualified(expression)}
        pieces: list[str] = []
        stop = expression.place.start
        for token in expression.tokens:
            if pieces:
                pieces.append(self.text[stop : token.start])
            if token.start in kept:
                same = kept[token.start] is token
                written = self.text[token.start : token.stop] if same else quoted(kept[token.start].text)
                pieces.append(written)
            stop = token.stop
        return "".join(pieces)

    @property
    def read(self) -> tuple[frozenset[str], frozenset[str]]:
        """The columns of joined tables that are read by qualified names, and others, in lower case."""
        aliases, named, plain = self.tables.aliases, set[str](), set[str]()
        keys = ("select_list", "group_expressions")
        trees = [*(node for key in keys for node in self.tree[key]), self.tree["where_clause"]]
        for node in (one for tree in trees if tree is not None for one in descendants(tree)):
            if node["class"] == "COLUMN_REF":
                first, *rest = node["column_names"]
                public = self._stands_for(first, rest[0]) if rest else ""
                if public and self.bare(public) != public:
                    named.add(public)
                elif public:
                    plain.add(public.casefold())
                elif rest and first.casefold() in aliases:
                    named.add(qualified(aliases[first.casefold()], rest[0]))
                elif not rest or first.casefold() != (self.tables.alias or "").casefold():
                    plain.add(first.casefold())
        # Those of aggregates that stand behind the groups are not in the tree's list.
        for _, expression, call in self.calls.values():
            own = {token.start: token for token in expression.tokens}
            named |= {t.text for t in self.unqualified(expression) if own.get(t.start) is not t}
            for further in call.further:
                (column,) = self.unqualified(further)
                (plain if column in further.tokens else named).add(column.text)
        plain = {name.casefold() for name in plain}
        return frozenset(named), frozenset(plain - {(i.alias or "").casefold() for i in self.items})

    def _stands_for(self, table: str, column: str) -> str:
        """Return what a column of the public table of groups stands for, or nothing."""
        alias, columns = self.public
        return columns.get(column.casefold(), "") if alias and table.casefold() == alias else ""

    @property
    def looks_up(self) -> bool:
        """Whether WHERE holds a SELECT."""
        where = self.tree["where_clause"]
        return where is not None and any(node["class"] == "SUBQUERY" for node in descendants(where))

    def bare(self, column: str) -> str:
        """Return a column's name as its own table has it."""
        for alias in self.tables.aliases.values():
            if column.startswith(f"{alias}."):
                return column[len(alias) + 1 :]
        return column

    def unqualified(self, expression: Expression) -> list[Token]:
        """Return an expression's words, without the qualifiers that name the first table.

        A column of a table that is joined is one word with its qualifier, which is its name there.
        """
        tokens, alias = expression.tokens, (self.tables.alias or "").casefold()
        aliases = self.tables.aliases
        kept: list[Token] = []
        i = 0
        while i < len(tokens):
            token = tokens[i]
            dotted = i + 1 < len(tokens) and tokens[i + 1].word == "."
            begins = token.kind in ("word", "name") and dotted and (i == 0 or tokens[i - 1].word != ".")
            if begins and i + 2 < len(tokens) and self._stands_for(token.text, tokens[i + 2].text):
                name = self._stands_for(token.text, tokens[i + 2].text)
                kept.append(Token("name", name, "", token.start, tokens[i + 2].stop))
                i += 3
            elif begins and alias and token.text.casefold() == alias:
                i += 2
            elif begins and token.text.casefold() in aliases and i + 2 < len(tokens):
                column = tokens[i + 2]
                name = qualified(aliases[token.text.casefold()], column.text)
                kept.append(Token("name", name, "", token.start, column.stop))
                i += 3
            else:
                kept.append(token)
                i += 1
        return kept

    def column(self, expression: Expression) -> str | None:
        """Return the column's name, where the expression is nothing but a column."""
        token, *more = self.unqualified(expression)
        named = token.kind == "name" or (token.kind == "word" and token.word not in _VALUES)
        return token.text if named and not more else None

    def means(self, written: Expression, item: Item, name: str) -> bool:
        """Return whether a column is an item: by its name, or as it is selected."""
        alone = len(written.tokens) == 1 and written.tokens[0].text.casefold() == name.casefold()
        value = item.value
        return alone or (isinstance(value, Expression) and self.shape(written) == self.shape(value))

    def shape(self, expression: Expression) -> tuple[str, ...]:
        """Return what makes two spellings of one expression equal: case and space do not count."""
        return tuple(map(_shape, self.unqualified(expression)))


def _shape(token: Token) -> str:
    if token.kind in ("text", "code") or (token.kind == "name" and token.text.upper() in _VALUES):
        return f"{token.kind} {token.text}"
    return token.text.casefold()


class OfStatement:
    """Base of what reads one statement, and refuses parts of it."""

    statement: Statement

    def _refuse(self, place: Place, message: str) -> SqlError:
        return refusal(self.statement.text, place, message)

    def _pairs(self, bounds: Bounds) -> list[tuple[str, str]]:
        """Return lower and upper bound of each column, as written."""
        pairs = [(low.text, high.text) for low, high in bounds.pairs]
        for low, high in pairs:
            if Fraction(low) >= Fraction(high):
                message = f"the lower bound {low} is not below the upper bound {high}"
                raise self._refuse(bounds.place, message)
        return pairs

    def _twice(self, name: str, item: Item) -> SqlError:
        message = f"the output name {name} is used twice; give each column its own: ... AS name"
        return self._refuse(item.alias_place, message)
