"""The parsed form of a private SELECT: Statement, Item, Expression, WrittenAggregate, with places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from fractions import Fraction
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.dialect.from_clause import CommonTables, From, qualify_name
from sfumato.dialect.sql_tokens import Literal, Place, Token, refusal
from sfumato.dialect.syntax_tree import Node, descendants, in_scope
from sfumato.errors import SqlError
from sfumato.query.schema import quote_name

# Words that stand alone as an expression and name no column.
_VALUES = ("NULL", "TRUE", "FALSE")


@dataclass(frozen=True)
class Bounds:
    """Bounds as written in a SELECT statement, and what they bound: a row, a group or a clamped value.

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
        """The lower and upper bound of each column, as written in the statement."""
        return ((self.lower, self.upper), *self.more)


@dataclass(frozen=True)
class Expression:
    """An expression of one row in a SELECT statement, as its tokens."""

    tokens: tuple[Token, ...]

    @property
    def place(self) -> Place:
        """The place of an expression in a SELECT statement's text."""
        return Place(self.tokens[0].start, self.tokens[-1].stop)


@dataclass(frozen=True)
class Truth:
    """A named argument in a SELECT statement that is TRUE or FALSE."""

    value: bool
    place: Place


@dataclass(frozen=True)
class WrittenAggregate:
    """An aggregate call as written in a SELECT statement; COUNT(*) has no argument.

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
        """The columns that an aggregate call in the statement names behind its argument."""
        return tuple(c for c in (self.weight, *self.others, self.named.get("stratum")) if c is not None)

    @property
    def weight(self) -> Expression | None:
        """The column of weights that an aggregate call in the statement names."""
        return self.named.get("weight")

    def is_set(self, name: str) -> bool:
        """Whether a named argument in the statement is TRUE or left out."""
        return name not in self.named or bool(self.named[name].value)


@dataclass(frozen=True)
class Computed:
    """An item of a SELECT statement that is computed from private aggregates and keys."""

    expression: Expression


@dataclass(frozen=True)
class Item:
    """One item of a SELECT statement's list."""

    value: WrittenAggregate | Expression | Computed
    alias: str | None
    place: Place
    alias_place: Place


@dataclass(frozen=True)
class Statement:
    """A parsed private SELECT statement, before its names are bound.

    Args:
        tree: what DuckDB reads once the privacy clause, bounds and ranks are cut out.
        names: the WITH tables that it may read.
        calls: all private aggregates: by where each begins, where it stops, its words and what it is.
        group_sets: of ROLLUP and its kin the sets of keys, by their place in `group_by`; None without them.
        having: the condition of groups.
        after: what comes behind it: QUALIFY, WINDOW, ORDER BY, LIMIT and OFFSET, with these words.
        public: the name of a public table of groups, and the columns that each of its own stands for, by its
            name in lower case; see `public_groups`.
        moved: whether the tree's WHERE has conditions of ON too.
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
    moved: bool = False

    def spell(self, expression: Expression) -> str:
        """Return the text of an expression in the statement, without the first table's qualifiers."""
        kept = {token.start: token for token in self.unqualified(expression)}
        pieces: list[str] = []
        stop = expression.place.start
        for token in expression.tokens:
            if pieces:
                pieces.append(self.text[stop : token.start])
            if token.start in kept:
                same = kept[token.start] is token
                written = self.text[token.start : token.stop] if same else quote_name(kept[token.start].text)
                pieces.append(written)
            stop = token.stop
        return "".join(pieces)

    @property
    def read(self) -> tuple[frozenset[str], frozenset[str]]:
        """The columns that the statement reads by qualified names, and those it reads by bare names."""
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
                    named.add(qualify_name(aliases[first.casefold()], rest[0]))
                elif not rest or first.casefold() != (self.tables.alias or "").casefold():
                    plain.add(first.casefold())
        where = self.tree["where_clause"]
        for node in () if where is None else descendants(where):
            if node["class"] == "SUBQUERY":
                named |= set(self._iter_outer_columns(node["subquery"]["node"]))
        # Those of aggregates that stand behind the groups are not in the tree's list.
        for _, expression, call in self.calls.values():
            own = {token.start: token for token in expression.tokens}
            named |= {t.text for t in self.unqualified(expression) if own.get(t.start) is not t}
            for further in call.further:
                (column,) = self.unqualified(further)
                (plain if column in further.tokens else named).add(column.text)
        plain = {name.casefold() for name in plain}
        return frozenset(named), frozenset(plain - {(i.alias or "").casefold() for i in self.items})

    def _iter_outer_columns(self, inner: Node) -> Iterator[str]:
        """Yield the qualified columns of joined tables that a subquery of the statement's WHERE names."""
        nodes = [node for node, _ in in_scope(inner)]
        own = {
            str(node.get("alias") or node.get("table_name")).casefold()
            for node in nodes
            if "class" not in node
        }
        aliases = self.tables.aliases
        for node in nodes:
            first, *rest = node.get("column_names", [""]) if node.get("class") == "COLUMN_REF" else [""]
            if rest and first.casefold() in aliases.keys() - own:
                yield qualify_name(aliases[first.casefold()], rest[0])

    def _stands_for(self, table: str, column: str) -> str:
        """Return the private column that a public group's column in the statement stands for, or ""."""
        alias, columns = self.public
        return columns.get(column.casefold(), "") if alias and table.casefold() == alias else ""

    @property
    def has_condition_tree(self) -> bool:
        """Whether the statement's WHERE is read as a tree: it has a subquery, or a condition of ON."""
        where = self.tree["where_clause"]
        subqueries = where is not None and any(node["class"] == "SUBQUERY" for node in descendants(where))
        return subqueries or self.moved

    def bare(self, column: str) -> str:
        """Return a column's name without the qualifier of its joined table."""
        for alias in self.tables.aliases.values():
            if column.startswith(f"{alias}."):
                return column[len(alias) + 1 :]
        return column

    def unqualified(self, expression: Expression) -> list[Token]:
        """Return an expression's tokens, without the first table's qualifiers.

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
                name = qualify_name(aliases[token.text.casefold()], column.text)
                kept.append(Token("name", name, "", token.start, column.stop))
                i += 3
            else:
                kept.append(token)
                i += 1
        return kept

    def column(self, expression: Expression) -> str | None:
        """Return the column's name, where an expression of the statement is a plain column."""
        token, *more = self.unqualified(expression)
        named = token.kind == "name" or (token.kind == "word" and token.word not in _VALUES)
        return token.text if named and not more else None

    def means(self, written: Expression, item: Item, name: str) -> bool:
        """Return whether an expression refers to an item of the statement, by alias or by equal text."""
        alone = len(written.tokens) == 1 and written.tokens[0].text.casefold() == name.casefold()
        value = item.value
        return alone or (isinstance(value, Expression) and self.shape(written) == self.shape(value))

    def shape(self, expression: Expression) -> tuple[str, ...]:
        """Return a key that is equal for expressions of the statement written alike."""
        return tuple(map(_shape, self.unqualified(expression)))


def _shape(token: Token) -> str:
    if token.kind in ("text", "code") or (token.kind == "name" and token.text.upper() in _VALUES):
        return f"{token.kind} {token.text}"
    return token.text.casefold()


class StatementChecker:
    """Base class of what checks a SELECT statement and refuses parts of it at their places."""

    statement: Statement

    def _refuse(self, place: Place, message: str) -> SqlError:
        return refusal(self.statement.text, place, message)

    def _pairs(self, bounds: Bounds) -> list[tuple[str, str]]:
        """Return the lower and upper bound of each column in a statement's bounds, lower below upper."""
        pairs = [(low.text, high.text) for low, high in bounds.pairs]
        for low, high in pairs:
            if Fraction(low) >= Fraction(high):
                message = f"the lower bound {low} is not below the upper bound {high}"
                raise self._refuse(bounds.place, message)
        return pairs

    def _twice(self, name: str, item: Item) -> SqlError:
        message = f"the output name {name} is used twice. Give each column its own: ... AS name"
        return self._refuse(item.alias_place, message)
