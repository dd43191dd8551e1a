"""EXISTS, and IN (SELECT ...) of private tables, as joins that mark the rows that match."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sfumato.api.table import Table
from sfumato.dialect.from_clause import (
    CommonTables,
    NotJoined,
    Query,
    conditions_moved,
    conjunction,
    conjuncts,
    read_from,
)
from sfumato.dialect.joined_tables import mark_matches
from sfumato.dialect.syntax_tree import (
    Node,
    descendants,
    fresh,
    get_column_name,
    is_aggregate,
    made,
    write_sql,
)
from sfumato.errors import QueryError
from sfumato.query.schema import format_name
from sfumato.query.tables.public_table import PublicTable

if TYPE_CHECKING:
    from sfumato.dialect.subqueries import Subqueries


def with_existence(
    subqueries: Subqueries,
    table: Table[Any],
    names: CommonTables,
    node: Node,
    plain: Callable[[Node], tuple[Table[Any], Node]],
    aliases: Sequence[str],
) -> tuple[Table[Any], str]:
    """Return a table with a column that is NULL where EXISTS or IN (SELECT ...) is false, and its name.

    Args:
        subqueries: opens the tables of the inner SELECT.
        table: the rows of the outer SELECT.
        names: the WITH tables that it may read.
        node: the tree of EXISTS or IN.
        plain: gives the table, perhaps with columns more, and an expression of the outer SELECT over it.
        aliases: the names of the outer SELECT's tables, in lower case.
    Raises:
        SqlError: the inner SELECT is of another form, or reads a private table without comparing the units.
    """
    inner = _Inner(subqueries, table, names, node, aliases)
    columns: list[str] = []
    texts = []
    for tree in inner.outside:  # a SELECT in one of them adds a column to the table
        table, text = plain(tree)
        texts.append(text)
    for text in texts:
        known = {name.casefold(): name for name in table.schema}
        name = known.get((get_column_name(text) or "").casefold(), "")
        if not name:
            name = fresh("compared", set(known))
            table = table.with_columns(**{name: write_sql(text)})
        columns.append(name)
    if subqueries.is_public(inner.query, table.unit):
        if not columns:
            columns = [fresh("compared", {name.casefold() for name in table.schema})]
            table = table.with_columns(**{columns[0]: "1"})
        other: Table[Any] | PublicTable = subqueries.public(inner.query, table.unit)
    elif table.unit not in columns or (inner.is_in and columns[0] != table.unit):
        unit = format_name(table.unit)
        write = f"EXISTS (SELECT 1 FROM ... AS b WHERE b.{unit} = a.{unit} AND ...)"
        raise names.written.refuse(
            node, f"a SELECT of a private table in WHERE must compare the privacy units. Write {write}"
        )
    else:
        other = subqueries.table(inner.query, f"key_{columns.index(table.unit)}")
    pairs = [(column, f"key_{i}") for i, column in enumerate(columns)]
    try:
        table, mark = mark_matches(table, other, pairs, subqueries.joined_rows)
    except QueryError as error:
        raise names.written.refuse(node, str(error)) from None
    return table, mark


def _is_plain(select: Node) -> bool:
    """Whether a SELECT has no part that changes which of its rows there are, but WHERE."""
    if select["type"] != "SELECT_NODE" or any(select[part] for part in ("having", "qualify", "sample")):
        return False
    if any(is_aggregate(one) for item in select["select_list"] for one in descendants(item)):
        return False
    ordered = ("ORDER_MODIFIER", "DISTINCT_MODIFIER")
    kept = all(one["type"] in ordered and not one.get("distinct_on_targets") for one in select["modifiers"])
    return kept and not select["group_expressions"] and select["aggregate_handling"] != "FORCE_AGGREGATES"


class _Inner:
    """The SELECT inside EXISTS or IN, without its comparisons with the outer SELECT.

    Args: as in `with_existence`.
    """

    def __init__(
        self,
        subqueries: Subqueries,
        table: Table[Any],
        names: CommonTables,
        node: Node,
        aliases: Sequence[str],
    ) -> None:
        self.refuse = names.written.refuse
        select = node["subquery"]["node"]
        if not _is_plain(select):
            raise self.refuse(
                node, "EXISTS and IN need a plain SELECT ... FROM ... WHERE here. Compute the rest in FROM"
            )
        select = conditions_moved(select)
        self.table, self.aliases = table, aliases
        self._read(subqueries, select, names)
        self.is_in = node["subquery_type"] == "ANY"
        self.outside: list[Node] = [node["child"]] if self.is_in else []
        inside: list[Node] = select["select_list"][:1] if self.is_in else []
        if self.is_in and len(select["select_list"]) != 1:
            raise self.refuse(node, f"IN takes one column, but this SELECT has {len(select['select_list'])}")
        rest = [part for part in conjuncts(select["where_clause"]) if not self._splits(part, inside)]
        listed = [one | {"alias": f"key_{i}"} for i, one in enumerate(inside or [made("1")])]
        new = select | {"select_list": listed, "where_clause": conjunction(rest), "modifiers": []}
        self.query = Query("a SELECT in WHERE", new, names)

    def _read(self, subqueries: Subqueries, select: Node, names: CommonTables) -> None:
        """Find the names of the inner SELECT's tables and columns."""
        try:
            tables = read_from(select["from_table"], names.within(select), select["where_clause"])
        except NotJoined as error:
            raise self.refuse(select["from_table"], str(error)) from None
        self.inner = {name.casefold() for name in (tables.alias, *tables.aliases.values()) if name}
        self.columns: set[str] = set()
        for one in (tables.source, *(joined.source for joined in tables.joined)):
            try:
                opened = subqueries.table(one, self.table.unit)
            except QueryError:
                continue  # its names are qualified, or the error comes when it is read
            self.columns |= {name.casefold() for name in opened.schema}

    def _is_outer(self, reference: Node) -> bool:
        """Whether a column in the inner SELECT is of the outer one."""
        first, *more = map(str.casefold, reference["column_names"])
        if more and first in {*self.inner, *self.aliases}:
            return first not in {*self.inner, *self.columns}  # perhaps a field of an inner column
        return first not in self.columns and first in {name.casefold() for name in self.table.schema}

    def _splits(self, part: Node, inside: list[Node]) -> bool:
        """Take a comparison with the outer SELECT out of the inner one's WHERE, if a condition is one."""

        def outer(tree: Node) -> list[bool]:
            return [self._is_outer(one) for one in descendants(tree) if one["class"] == "COLUMN_REF"]

        if not any(outer(part)):
            return False
        if part["type"] == "COMPARE_EQUAL":
            for mine, theirs in (("left", "right"), ("right", "left")):
                if not any(outer(part[mine])) and all(outer(part[theirs])):
                    inside.append(part[mine])
                    self.outside.append(part[theirs])
                    return True
        raise self.refuse(
            part, "a SELECT in WHERE can compare its columns with those outside only with =, and AND between"
        )
