"""PUBLIC_GROUPS: parse the outer join with a public table whose rows are all the groups.

    FROM visits RIGHT OUTER JOIN (SELECT DISTINCT item FROM items) AS p ON visits.item = p.item
    GROUP BY p.item

This join is never computed, because its rows without a match would belong to no privacy unit. Instead the
rows of the public side become the groups of the query, and its columns stand for the private ones that ON
compares them with.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from sfumato.dataclass import dataclass
from sfumato.dialect.from_clause import CommonTables, From, NotJoined, Reference, iter_tables, read_from
from sfumato.dialect.keywords import STRATEGY
from sfumato.dialect.post_processing_sql import check_allowed
from sfumato.dialect.released_sql import Pieces, locate_byte
from sfumato.dialect.select_statement import Expression, Item, Statement
from sfumato.dialect.sql_tokens import Cursor, Place, Token, refusal
from sfumato.dialect.syntax_tree import Node, NotSql, statements
from sfumato.errors import QueryError, SqlError

_FORM = (
    "FROM visits RIGHT OUTER JOIN (SELECT DISTINCT item FROM items) AS p ON visits.item = p.item GROUP BY "
    "p.item, where items is a public table"
)


def form(keys: Sequence[str]) -> str:
    """Return an example of a FROM clause that takes public groups for these keys.

    >>> form(["town"])
    'FROM visits RIGHT OUTER JOIN (SELECT DISTINCT town FROM towns) AS p ON visits.town = p.town'
    """
    first = keys[0] if keys[0].isidentifier() else "item"
    on = " AND ".join(f"visits.{key} = p.{key}" for key in keys)
    return f"FROM visits RIGHT OUTER JOIN (SELECT DISTINCT {', '.join(keys)} FROM {first}s) AS p ON {on}"


_KINDS = ("RIGHT", "LEFT", "FULL", "INNER", "CROSS", "OUTER", "JOIN", "ON", "USING", "WHERE", "GROUP")


@dataclass(frozen=True)
class PublicGroups:
    """The public groups of a private SELECT: a SELECT from public tables, and how its columns join.

    Args:
        sql: a SELECT of them from public tables.
        text: the whole text.
        places: where in it the SQL's bytes come from.
        alias: what their columns may be qualified with.
        columns: their names.
        pairs: of each column the one of the private tables that it equals: a reference, and then its name.
        using: whether the two have one name.
        place: of the option that asks for them.
        public: the public tables that are read.
    """

    sql: str
    text: str
    places: tuple[tuple[int, ...], tuple[Place, ...]]
    alias: str
    columns: tuple[str, ...]
    pairs: tuple[tuple[Reference, str], ...]
    using: bool
    place: Place
    public: tuple[str, ...] = ()

    def refuse(self, message: str, byte: int = -1) -> SqlError:
        """Make a SqlError that marks where the SELECT of the public groups, or a byte of it, stands."""
        return refusal(self.text, locate_byte(self.places, max(byte, 0)), message)

    def named_in(self, statement: Statement) -> PublicGroups:
        """Return the public groups with the names that the joined private columns have."""
        try:
            named = [(Reference(None, statement.tables.name(one)), column) for one, column in self.pairs]
        except QueryError as error:
            raise self.refuse(str(error)) from None
        return replace(self, pairs=tuple(named))

    def read_by(self, statement: Statement) -> Statement:
        """Return the statement with references to public group columns turned into private ones."""
        stands_for = {column.casefold(): one.column for one, column in self.pairs}
        where = () if statement.where is None else statement.where.tokens
        for i, token in enumerate(where):
            dotted = i + 2 < len(where) and where[i + 1].word == "."
            of_alias = self.alias and dotted and token.text.casefold() == self.alias.casefold()
            shared = self.using and not dotted and token.text.casefold() in stands_for
            behind = i > 0 and where[i - 1].word == "."
            if token.kind in ("word", "name") and not behind and (of_alias or shared):
                raise refusal(
                    statement.text,
                    token.place,
                    f"{STRATEGY}: all groups of the public table are shown. Write the condition "
                    "inside the SELECT DISTINCT",
                )
        return replace(statement, public=(self.alias.casefold(), stands_for))

    def key(self, statement: Statement, item: Item) -> str:
        """Return the output name of a group key that is a column of the public groups.

        Raises:
            SqlError: it is none of the public columns as it is.
        """
        assert isinstance(item.value, Expression)
        words = [token.text.casefold() for token in item.value.tokens]
        for column in self.columns:
            written = [self.alias.casefold(), ".", column.casefold()]
            if (words == written and self.alias) or (self.using and words == written[2:]):
                return item.alias or column
        example = f"{self.alias}.{self.columns[0]}" if self.alias else self.columns[0]
        raise refusal(
            statement.text,
            item.place,
            f"{STRATEGY}: the group keys must be the columns of the public table. Write "
            f"{example}; for groups of an expression, compute it in the SELECT DISTINCT and in the "
            "private table of ON",
        )

    def ordered(self, keys: Mapping[str, Item]) -> PublicGroups:
        """Return the public groups with their columns in the order of the group keys.

        Raises:
            SqlError: the keys are not all of their columns.
        """
        order = [self._column(item) for item in keys.values()]
        missing = [column for column in self.columns if column not in order]
        if missing:
            listed = ", ".join(f"{self.alias}.{c}" if self.alias else c for c in missing[:5])
            message = f"GROUP BY lacks {listed}. {STRATEGY} needs all columns of the public table"
            raise refusal(self.text, self.place, message)
        return replace(self, columns=tuple(order))

    def check(self, public: Collection[str], private: Collection[str]) -> PublicGroups:
        """Return the public groups with the public tables that their SELECT reads; refuse others.

        Raises:
            SqlError: something else is read.
        """
        (tree,) = statements(self.sql)
        read = check_allowed(tree, {}, (), public, private, lambda byte, text: self.refuse(text, byte))
        return replace(self, public=tuple(read))

    def _column(self, item: Item) -> str:
        """Return the column of the public groups that an item selects."""
        assert isinstance(item.value, Expression)
        last = item.value.tokens[-1].text.casefold()
        return next(column for column in self.columns if column.casefold() == last)


def public_groups(
    words: Cursor, span: range, place: Place, names: CommonTables
) -> tuple[range, PublicGroups]:
    """Split FROM into the tokens of private tables, and the public groups in its outer join.

    Args:
        words: the tokens of the private SELECT.
        span: those of FROM.
        place: the place of the option PUBLIC_GROUPS.
        names: the WITH tables that the private SELECT may read.
    Raises:
        SqlError: the FROM has another form.
    """
    return _JoinParser(words, span, place, names).read()


class _JoinParser:
    """Parses the outer join that gives public groups."""

    def __init__(self, words: Cursor, span: range, asked: Place, names: CommonTables) -> None:
        self.words, self.span, self.asked, self.names = words, span, asked, names

    def read(self) -> tuple[range, PublicGroups]:
        """Return the tokens of the private tables, and the public groups of a RIGHT OUTER JOIN."""
        tokens, span = self.words.tokens, self.span
        first = tokens[span.start]
        joins = [i for i in self.words.outer(span) if tokens[i].word == "JOIN" and tokens[i + 1].word == "("]
        if first.word == "(" and tokens[span.start + 1].word == "SELECT":
            return self._left(span)
        if not joins:
            message = f"{STRATEGY}: the public table of the groups is missing. Write {_FORM}, or leave this "
            raise self._refuse(message + "option out if a catalog declares the domains of the keys")
        at = joins[-1]
        start = at - 1 - (tokens[at - 1].word == "OUTER")
        if tokens[start].word != "RIGHT":
            named = tokens[start].word in ("INNER", "FULL", "LEFT")
            raise self._refuse(
                f"{STRATEGY}: join the public table with RIGHT OUTER JOIN, which shows all its "
                "groups and no others",
                tokens[start if named else at],
            )
        alias, condition = self._alias(self.words.closing[at + 1] + 1)
        subquery = range(at + 2, self.words.closing[at + 1])
        return range(span.start, start), self._groups(subquery, alias, range(condition, span.stop))

    def _left(self, span: range) -> tuple[range, PublicGroups]:
        """Parse public groups in a LEFT OUTER JOIN, which begins with the public table."""
        tokens, closing = self.words.tokens, self.words.closing
        subquery = range(span.start + 1, closing[span.start])
        alias, at = self._alias(subquery.stop + 1)
        behind = at + 1 + (tokens[at + 1].word == "OUTER")
        if tokens[at].word != "LEFT" or tokens[behind].word != "JOIN":
            raise self._refuse(f"{STRATEGY}: write LEFT OUTER JOIN after the public table", tokens[at])
        ends = [
            i for i in self.words.outer(range(behind + 1, span.stop)) if tokens[i].word in ("ON", "USING")
        ]
        if len(ends) != 1:
            raise self._refuse(
                f"{STRATEGY}: only one private table can be joined here. Join others before it, and "
                "write RIGHT OUTER JOIN (SELECT DISTINCT ...) last",
                tokens[behind],
            )
        private, condition = range(behind + 1, ends[0]), range(ends[0], span.stop)
        return private, self._groups(subquery, alias, condition)

    def _groups(self, subquery: range, alias: str, condition: range) -> PublicGroups:
        """Return the public groups of a SELECT DISTINCT, its alias and its join condition."""
        words, tokens = self.words, self.words.tokens
        pieces = Pieces()
        for i in subquery:
            pieces.word(words.text, tokens, i)
        columns = self._columns(subquery, pieces)
        using, pairs = self._pairs(condition, alias, columns)
        return PublicGroups(
            pieces.text, words.text, pieces.places(), alias, tuple(columns), tuple(pairs), using, self.asked
        )

    def _columns(self, subquery: range, pieces: Pieces) -> list[str]:
        """Return the column names of the SELECT DISTINCT that gives the public groups."""
        tokens = self.words.tokens
        first, second = tokens[subquery.start], tokens[min(subquery.start + 1, subquery.stop)]
        if first.word != "SELECT" or second.word != "DISTINCT" or tokens[subquery.start + 2].word == "ON":
            raise self._refuse(f"{STRATEGY}: read the public table with SELECT DISTINCT: {_FORM}", first)
        try:
            (tree,) = statements(pieces.text)
        except NotSql as error:
            place = locate_byte(pieces.places(), max(error.at, 0))
            raise refusal(self.words.text, place, f"this cannot be parsed: {error.why}") from None
        except (RecursionError, ValueError):
            raise self._refuse(f"{STRATEGY}: this is not one SELECT DISTINCT", first) from None
        if tree["type"] != "SELECT_NODE":
            raise self._refuse(
                f"{STRATEGY}: write one SELECT DISTINCT with the union inside it: SELECT DISTINCT "
                "item FROM (... UNION ALL ...)",
                first,
            )
        hidden = [str(one) for _, one in iter_tables(tree, self.names) if not isinstance(one, str)]
        if hidden:
            raise self._refuse(
                f"{STRATEGY}: {hidden[0]} is a name of WITH. Write its SELECT here, in brackets", first
            )
        columns = [self._name(node, first) for node in tree["select_list"]]
        if len({column.casefold() for column in columns}) < len(columns):
            raise self._refuse(
                f"{STRATEGY}: two columns of the public table have the same name. Rename one", first
            )
        return columns

    def _name(self, node: Node, first: Token) -> str:
        """Return the name of one column of the public groups."""
        name = node["alias"] or (node["column_names"][-1] if node["class"] == "COLUMN_REF" else "")
        if not name:
            raise self._refuse(f"{STRATEGY}: give each column of the public table a name: ... AS item", first)
        return str(name)

    def _pairs(
        self, condition: range, alias: str, columns: list[str]
    ) -> tuple[bool, list[tuple[Reference, str]]]:
        """Parse ON or USING: for each column of the public groups, the private column that it equals."""
        words, tokens = self.words, self.words.tokens
        opens = tokens[condition.start]
        if opens.word not in ("ON", "USING"):
            raise self._refuse(f"{STRATEGY}: ON or USING is missing: {_FORM}", opens)
        written = words.text[opens.start : tokens[condition.stop - 1].stop]
        try:
            (tree,) = statements(f"SELECT 1 FROM a JOIN b {written}")
            read = read_from(tree["from_table"], self.names)
            if len(read.joined) != 1 or tree["sample"]:
                raise NotJoined("the public table of the groups must be last in FROM")
        except NotSql:
            raise self._refuse(f"this cannot be parsed in {opens.word}", opens) from None
        except (NotJoined, RecursionError, ValueError) as error:
            raise self._refuse(f"{STRATEGY}: {error}", opens) from None
        pairs = list(self._iter_comparisons(read, alias, opens))
        by_name = {column.casefold(): column for column in columns}
        named = [theirs.casefold() for _, theirs in pairs]
        if sorted(named) != sorted(by_name):
            listed = ", ".join(columns)
            raise self._refuse(
                f"{STRATEGY}: {opens.word} must compare each of {listed} with one column", opens
            )
        return opens.word == "USING", [(ours, by_name[theirs.casefold()]) for ours, theirs in pairs]

    def _iter_comparisons(self, read: From, alias: str, opens: Token) -> Iterator[tuple[Reference, str]]:
        """Yield the private column and the public group's column of each comparison in ON or USING."""
        (joined,) = read.joined
        for name in joined.using:
            yield Reference(None, name), name
        for pair in joined.on:
            mine = [one for one in pair if alias and (one.table or "").casefold() == alias.casefold()]
            rest = [one for one in pair if one not in mine]
            if len(mine) != 1 or rest[0].table is None:
                raise self._refuse(
                    f"{STRATEGY}: ON must compare a column of a private table with one of the "
                    "public table, both with the names of their tables: visits.item = p.item",
                    opens,
                )
            yield rest[0], mine[0].column

    def _alias(self, at: int) -> tuple[str, int]:
        """Return the alias of the public groups' subquery, if it has one, and the next token."""
        tokens = self.words.tokens
        at += tokens[at].word == "AS"
        token = tokens[at]
        if token.kind in ("word", "name") and token.word not in _KINDS:
            return token.text, at + 1
        return "", at

    def _refuse(self, message: str, token: Token | None = None) -> SqlError:
        return refusal(self.words.text, self.asked if token is None else token.place, message)
