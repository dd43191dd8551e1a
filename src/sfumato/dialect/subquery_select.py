"""Compile one SELECT of a private subquery: WHERE, GROUP BY, HAVING, windows, QUALIFY, list, DISTINCT."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sfumato.api.table import (
    Table,
    add_membership,
    add_window_columns,
    distinct_keys,
    distinct_rows,
    select_columns,
    with_value,
)
from sfumato.dataclass import dataclass
from sfumato.dialect.from_clause import From, Query, Reference, conditions_moved
from sfumato.dialect.semi_joins import with_existence
from sfumato.dialect.subquery_columns import Scope, trace_column
from sfumato.dialect.syntax_tree import (
    CLAUSES,
    PLACES,
    STAR,
    Node,
    column_node,
    fresh,
    get_column_name,
    is_aggregate,
    made,
    parts,
    rewrite_tree,
    shape,
    unknown,
    write_sql,
)
from sfumato.dialect.window_functions import window_call
from sfumato.errors import ColumnError, QueryError, SqlError
from sfumato.query.schema import format_name
from sfumato.query.tables.public_table import PublicTable
from sfumato.query.tables.shaped_tables import WindowCall

if TYPE_CHECKING:
    from sfumato.dialect.subqueries import Subqueries


@dataclass
class Item:
    """An item of a subquery's SELECT list: its name, its node, and its expression over FROM's columns."""

    name: str
    node: Node
    tree: Node


def group_keys(query: Query, items: Sequence[Item], plain: Callable[[Node], Node]) -> list[tuple[Node, Node]]:
    """Return the GROUP BY keys of a subquery: as written, and over the columns of FROM.

    Args:
        query: the SELECT.
        items: its list.
        plain: gives an expression over the columns of FROM.
    Raises:
        SqlError: a position is none of the list.
    """
    if query.node["aggregate_handling"] == "FORCE_AGGREGATES":  # GROUP BY ALL
        alone = [one for one in items if not any(is_aggregate(part) for part in parts(one.tree))]
        return [(one.node, one.tree) for one in alone]
    found: list[tuple[Node, Node]] = []
    for node in query.node["group_expressions"]:
        number = node["literal"]["text"] if node["class"] == "CONSTANT" else ""
        if number.isdigit() and node["literal"]["kind"] == "INTEGER":
            if not 1 <= int(number[:9]) <= len(items):
                raise query.refuse(node, f"GROUP BY {number}: the SELECT list has only {len(items)} entries")
            found.append((node, items[int(number) - 1].tree))
        else:
            found.append((node, plain(node)))
    return found


class Grouped:
    """The grouping of a subquery by its privacy unit and keys, which collects aggregates.

    Args:
        query: the SELECT, for messages.
        table: its rows.
        keys: what it groups by, as written, and over the table's columns.
        by: the columns of the keys.
        values: columns that are the same in all rows.
        hidden: columns that the SELECT does not name.
    Raises:
        SqlError: the privacy unit is no key.
    """

    def __init__(
        self,
        query: Query,
        table: Table[Any],
        keys: Sequence[tuple[Node, Node]],
        by: Sequence[str],
        values: Collection[str],
        hidden: Collection[str],
    ) -> None:
        self.query = query
        self.hidden = hidden
        self.table = table
        self.by: list[str] = list(dict.fromkeys(by))
        if table.unit not in by:
            where = keys[0][0] if keys else query.first
            raise query.refuse(
                where,
                "rows of several units would become one row. Add the privacy unit: GROUP BY "
                + format_name(table.unit)
                + "".join(f", {name}" for name in by[:3]),
            )
        self.named: dict[str, str] = {shape(tree): name for (_, tree), name in zip(keys, by, strict=True)}
        self.kinds: set[tuple[str, str]] = {(tree["class"], tree["type"]) for _, tree in keys}
        self.asked: dict[str, tuple[str, Node]] = {}
        self.names: set[str] = {name.casefold() for name in (*by, *values)}
        self.values = values
        self.constant: set[str] = set[str]()

    def rewrite(self, tree: Node, name: str) -> Node:
        """Return an expression of a grouped subquery over its keys and aggregates.

        Raises:
            SqlError: it reads a column of single rows.
        """

        def change(one: Node) -> Node | None:
            if (one["class"], one["type"]) in self.kinds and (key := self.named.get(shape(one))) is not None:
                return column_node(key)
            if is_aggregate(one):
                if any(is_aggregate(p) or p["class"] == "WINDOW" for p in parts(one) if p is not one):
                    message = "aggregates cannot be nested. Write the inner one in a subquery"
                    raise self.query.refuse(one, message)
                key = shape(one)
                if key not in self.asked:
                    self.asked[key] = fresh(name, self.names), one
                return column_node(self.asked[key][0])
            if one["class"] == "COLUMN_REF" and one["column_names"][0] in self.table.schema:
                column = one["column_names"][0]
                if column in self.values:
                    self.constant.add(column)
                    return one
                message = f"{column} is neither in GROUP BY nor in an aggregate. Add it to one"
                if column in self.hidden:
                    message = (
                        "what a SELECT in an expression finds is of single rows here. Write the expression "
                        "around this SELECT: FROM (SELECT ... GROUP BY ...) AS g WHERE ..."
                    )
                raise self.query.refuse(one, message)
            return None

        return rewrite_tree(tree, change)

    def result(self) -> Table[Any]:
        """Return the grouped subquery's table: one row for each unit and keys."""
        aggregates = {name: write_sql(node) for name, node in self.asked.values()}
        others = [name for name in self.by if name != self.table.unit]
        return self.table.per_unit(*others, **aggregates) if aggregates else distinct_keys(self.table, others)


_NO_LIMIT = (
    "LIMIT in a SELECT of a private table depends on the rows of all units. For n rows of each unit "
    "write QUALIFY row_number() OVER (PARTITION BY {unit} ORDER BY ...) <= n"
)
_NO_UNIT = "each SELECT of a private table must keep its privacy unit. Add {unit} to the SELECT list"


class Select:
    """Compiles a SELECT of private tables in a subquery to a table, clause by clause.

    Args:
        subqueries: makes tables of what it reads.
        query: the SELECT.
        unit: what the privacy unit is called in its result.
    Raises:
        QueryError: it is not unit-local.
    """

    def __init__(self, subqueries: Subqueries, query: Query, unit: str) -> None:
        self.subqueries = subqueries
        self.node: Node = conditions_moved(query.node)
        self.unit = unit
        query = Query(query.name, self.node, query.names.within(query.node), query.columns)
        self.query = query
        self._check()
        mentioned = self._mentioned()
        self.scope: Scope = Scope(
            query, self.node, self._first_unit, subqueries.table, mentioned, subqueries.joined_rows
        )
        self.table: Table[Any] = self.scope.table
        self.taken: set[str] = {name.casefold() for name in self.table.schema}
        self.aliases: dict[str, Node] = {
            node["alias"].casefold(): node for node in self.node["select_list"] if node.get("alias")
        }
        self.derived: dict[str, str] = {}
        self.values: dict[str, PublicTable] = {}
        self.expanding: int = 0
        self.expanded: int = 0
        self._make()

    # What has no place.

    def _check(self) -> None:
        """Refuse clauses of a subquery's SELECT that are not unit-local: LIMIT, samples, ROLLUP."""
        node, refuse = self.node, self.query.refuse
        if more := unknown(node, CLAUSES):
            raise refuse(None, f"{more[0]} in a SELECT is not supported")
        if node["sample"]:
            raise refuse(
                None,
                "samples are not supported. Leave it out: contributions are bounded per privacy unit instead",
            )
        if any(len(found) != len(node["group_expressions"]) for found in node["group_sets"]) or (
            len(node["group_sets"]) > 1 or node["group_sets"] == [[]]  # GROUP BY ()
        ):
            where = (node["group_expressions"] or [None])[0]
            raise refuse(
                where,
                "ROLLUP, CUBE and GROUPING SETS would make rows without a privacy unit. Group by the "
                "unit and columns",
            )
        for one in node["modifiers"]:
            if one["type"] == "DISTINCT_MODIFIER" and one["distinct_on_targets"]:
                message = "DISTINCT ON: write QUALIFY row_number() OVER (PARTITION BY {} ORDER BY ...) = 1"
                raise refuse(one["distinct_on_targets"][0], message.format(format_name(self.unit)))
            if one["type"].startswith("LIMIT"):
                raise refuse(
                    one.get("limit") or one.get("offset"), _NO_LIMIT.format(unit=format_name(self.unit))
                )
            if one["type"] not in ("DISTINCT_MODIFIER", "ORDER_MODIFIER"):
                raise refuse(None, f"{one['type']} is not supported here")
            if one["type"] == "ORDER_MODIFIER":
                where = one["orders"][0]["expression"]
                raise refuse(where, "ORDER BY in a subquery has no effect. Leave it out")

    # The privacy unit, followed from the result to the first table.

    def _first_unit(self, tables: From) -> str:
        """Return the first table's name of the privacy unit that the subquery's SELECT list keeps."""
        stars: list[str] = []
        for i, node in enumerate(self.node["select_list"]):
            if node["class"] == "STAR":
                if self.query.columns:
                    message = "a star that renames columns is not supported. List the columns"
                    raise self.query.refuse(node, message)
                stars.append(node["relation_name"])
                continue
            name = node["alias"] or (node["column_names"][-1] if node["class"] == "COLUMN_REF" else "")
            if self.query.columns:
                name = self.query.columns[i] if i < len(self.query.columns) else ""
            if name.casefold() != self.unit.casefold():
                continue
            if node["class"] != "COLUMN_REF":
                raise self.query.refuse(
                    node,
                    f"{name} is an expression, but the privacy unit must be a plain column. Give "
                    "the expression another name",
                )
            names = node["column_names"]
            reference = Reference(names[0] if len(names) == 2 else None, names[-1])
            found = trace_column(tables, reference)
            if found is None:
                raise self.query.refuse(
                    node,
                    f"{'.'.join(names)} is not the privacy unit of the first table in FROM. Select "
                    "that table's column",
                )
            return found
        for star in stars:
            found = trace_column(tables, Reference(star or None, self.unit))
            if found is not None:
                return found
        where = self.node["select_list"][0]
        raise self.query.refuse(where, _NO_UNIT.format(unit=format_name(self.unit)))

    def _mentioned(self) -> set[str] | None:
        """Return the columns that the subquery's SELECT reads; None where it has a star."""
        found: set[str] = set()
        listed = [
            self.node[k] for k in ("select_list", "where_clause", "group_expressions", "having", "qualify")
        ]
        join = self.node["from_table"]
        while join["type"] == "JOIN" and join["left"]["type"] == "JOIN":  # read tables joined before
            listed.append(join["condition"])
            found |= {name.casefold() for name in join["using_columns"]}
            join = join["left"]
        for tree in listed:
            for node in (tree if isinstance(tree, list) else [tree]) if tree else []:
                for one in parts(node):
                    if one["class"] == "STAR":
                        return None
                    if one["class"] == "COLUMN_REF":
                        found |= {name.casefold() for name in one["column_names"]}
        return found

    # From clause to clause.

    def _make(self) -> None:
        """Compile the clauses of the subquery's SELECT in order, from WHERE to DISTINCT."""
        node = self.node
        if node["where_clause"]:
            for one in parts(node["where_clause"]):
                if is_aggregate(one):
                    raise self.query.refuse(
                        one, "an aggregate in WHERE, which sees single rows. Write it in HAVING"
                    )
                if one["class"] == "WINDOW":
                    raise self.query.refuse(one, "a window function in WHERE. Write it in QUALIFY")
            with self._at(node["where_clause"]):
                self._filter(self._plain(node["where_clause"]))
        items = self._items()
        grouped = node["group_expressions"] or node["aggregate_handling"] == "FORCE_AGGREGATES"
        trees = [one.tree for one in items]
        having, qualify = (self._part(node[k]) for k in ("having", "qualify"))
        everything = [one for one in [*trees, having, qualify] if one is not None]
        if grouped or having is not None or any(is_aggregate(p) for tree in everything for p in parts(tree)):
            keys = group_keys(self.query, items, self._plain)
            by = [self._column(tree, "key") for _, tree in keys]
            asked = Grouped(self.query, self.table, keys, by, self.values, [*self.derived.values()])
            trees = [asked.rewrite(one.tree, one.name) for one in items]
            having, qualify = (one and asked.rewrite(one, "aggregate") for one in (having, qualify))
            self.table, self.derived = asked.result(), {}
            for name, other in self.values.items():
                if name in asked.constant and name not in self.table.schema:
                    self.table = with_value(self.table, other, name)
            self.taken = {name.casefold() for name in self.table.schema}
            if having is not None:
                with self._at(node["having"]):
                    self._filter(having)
        trees, qualify = self._windows(trees, qualify)
        if qualify is not None:
            with self._at(node["qualify"]):
                self._filter(qualify)
        self._choose(items, trees)
        if any(one["type"] == "DISTINCT_MODIFIER" for one in node["modifiers"]):
            listed = list(self.table.schema)
            self.table = distinct_rows(self.table)
            if list(self.table.schema) != listed:  # there the unit comes first
                self.table = select_columns(
                    self.table, tuple((name, name) for name in listed), self.table.unit
                )

    @contextmanager
    def _at(self, node: Node) -> Iterator[None]:
        """Mark a node of the subquery's SELECT in errors of a block."""
        try:
            yield
        except SqlError:
            raise
        except QueryError as error:
            raise self.query.refuse(node, str(error)) from None

    def _part(self, node: Node | None) -> Node | None:
        """Return HAVING or QUALIFY of the subquery's SELECT over the columns of FROM."""
        if node is None:
            return None
        with self._at(node):
            return self._plain(node)

    def _filter(self, tree: Node) -> None:
        self.table = self.table.filter(write_sql(tree))

    def _items(self) -> list[Item]:
        """Return the items of the subquery's SELECT list, with stars written out."""
        found: list[Item] = []
        for i, node in enumerate(self.node["select_list"], 1):
            if node["class"] == "STAR":
                found += [Item(name, node, column_node(column)) for name, column in self._star(node)]
                continue
            name = node["alias"] or (
                node["column_names"][-1] if node["class"] == "COLUMN_REF" else f"column_{i}"
            )
            with self._at(node):
                found.append(Item(name, node, self._plain(node)))
        if self.query.columns:
            if len(self.query.columns) != len(found):
                message = f"{len(self.query.columns)} names for {len(found)} columns"
                raise self.query.refuse(self.node["select_list"][0], message)
            for one, name in zip(found, self.query.columns, strict=True):
                one.name = name
        seen: set[str] = set()
        for one in found:
            if one.name.casefold() in seen:
                message = f"the name {one.name} is used twice. Give each column its own: ... AS name"
                raise self.query.refuse(one.node, message)
            seen.add(one.name.casefold())
        return found

    def _star(self, node: Node) -> list[tuple[str, str]]:
        """Return the columns that a star in the subquery's SELECT list stands for."""
        if unknown(node, STAR):
            raise self.query.refuse(node, "only EXCLUDE is supported after a star. List the columns")
        if self.node["group_expressions"]:
            raise self.query.refuse(node, "a star cannot be used with GROUP BY. List the columns")
        left_out = {str(name).casefold() for name in node["exclude_list"]}
        columns = self.scope.columns(node["relation_name"] or None)
        if left_out - {name.casefold() for name, _ in columns}:
            raise self.query.refuse(node, "EXCLUDE names a column that does not exist")
        return [(name, column) for name, column in columns if name.casefold() not in left_out]

    # Expressions over the columns of FROM.

    def _plain(self, node: Node) -> Node:
        """Return an expression of the subquery over the columns of FROM, with aliases written out."""

        def change(one: Node) -> Node | None:
            if one["class"] == "COLUMN_REF":
                found = self.scope.resolve(one["column_names"])
                if found is not None:
                    return one | {"column_names": found}
                alias = self.aliases.get(one["column_names"][0].casefold())
                if alias is None or len(one["column_names"]) > 1 or alias is node:
                    known = [name for _, columns in self.scope.places for name in columns]
                    name = ".".join(one["column_names"])
                    raise self.query.refuse(one, str(ColumnError._unknown(name, known, "SELECT")))
                return self._expand_alias(alias)
            if one["class"] == "SUBQUERY":
                if self.subqueries.is_existence(self.query.names, one, self.table.unit):
                    return made("_0 IS NOT NULL", column_node(self._existence(one)))
                scalar = one["subquery_type"] == "SCALAR"
                return column_node(self._value(one) if scalar else self._found(one))
            if one["class"] in ("STAR", "LAMBDA", "PARAMETER", "POSITIONAL_REFERENCE"):
                raise self.query.refuse(one, f"{one['class'].lower()} is not supported in an expression")
            return None

        return rewrite_tree(node, change)

    def _existence(self, node: Node) -> str:
        """Return the column that is NULL where EXISTS, or IN of private rows, is false in the subquery."""
        if (key := shape(node, PLACES)) not in self.derived:
            aliases = [alias.casefold() for alias, _ in self.scope.places if alias]
            self.table, self.derived[key] = with_existence(
                self.subqueries, self.table, self.query.names, node, self._over_table, aliases
            )
            self.taken |= {name.casefold() for name in self.table.schema}
        return self.derived[key]

    def _over_table(self, node: Node) -> tuple[Table[Any], Node]:
        """Return the subquery's table, and an expression over it, which may need a column more."""
        found = self._plain(node)
        return self.table, found

    def _expand_alias(self, alias: Node) -> Node:
        """Return the expression behind an alias of the subquery's SELECT list, within limits on nesting."""
        self.expanded += 1
        if self.expanding == 20 or self.expanded > 1000:
            message = "aliases of the SELECT list are used in one another too often. Use a subquery"
            raise self.query.refuse(alias, message)
        self.expanding += 1
        try:
            return self._plain(alias)
        finally:
            self.expanding -= 1

    def _found(self, node: Node) -> str:
        """Return the column that tells whether a value is in a public subquery, for IN (SELECT ...)."""
        other = self.subqueries.public_values(self.query.names, node, self.table.unit)
        child = self._plain(node["child"])
        key = f"{shape(child)} IN {shape(node['subquery'], PLACES)}"
        if key not in self.derived:
            column = self._column(child, "looked_up")
            self.derived[key] = fresh("is_in", self.taken)
            self.table = add_membership(self.table, column, other, self.derived[key])
        return self.derived[key]

    def _value(self, node: Node) -> str:
        """Return the column that holds the value of a scalar public subquery."""
        key = f"VALUE {shape(node['subquery'], PLACES)}"
        if key not in self.derived:
            other = self.subqueries.public_value(self.query.names, node, self.table.unit)
            name = self.derived[key] = fresh("value", self.taken)
            self.values[name] = other
            self.table = with_value(self.table, other, name)
        return self.derived[key]

    def _column(self, tree: Node, stem: str) -> str:
        """Return the column of an expression in the subquery, derived where it is no plain column."""
        name = get_column_name(tree)
        if name is not None:
            return next((n for n in self.table.schema if n.casefold() == name.casefold()), name)
        key = shape(tree)
        if key not in self.derived:
            self.derived[key] = fresh(stem, self.taken)
            self.table = self.table.with_columns(**{self.derived[key]: write_sql(tree)})
        return self.derived[key]

    # Windows, and the SELECT list.

    def _windows(self, trees: list[Node], qualify: Node | None) -> tuple[list[Node], Node | None]:
        """Compute the window functions of the subquery's SELECT; return its expressions over them."""
        calls: dict[str, WindowCall] = {}

        def change(preferred: str) -> Callable[[Node], Node | None]:
            def found(one: Node) -> Node | None:
                if one["class"] != "WINDOW":
                    return None
                key = shape(one)
                if key not in calls:
                    name = fresh(preferred, self.taken)
                    unit = self.table.unit
                    call = window_call(name, one, unit, self._column, self.query.refuse)
                    calls[key] = call
                    if any(call.distances):
                        self._check_distances(one, call)
                return column_node(calls[key].name)

            return found

        new = [rewrite_tree(tree, change("window")) for tree in trees]
        qualified = qualify and rewrite_tree(qualify, change("window"))
        if calls:
            self.table = add_window_columns(self.table, list(calls.values()))
        return new, qualified

    def _check_distances(self, node: Node, call: WindowCall) -> None:
        """Refuse a RANGE frame in the subquery's SELECT whose distance does not fit its order."""
        if len(call.order) != 1:
            message = "RANGE with a distance needs one ORDER BY key, a number, a date or a timestamp"
            raise self.query.refuse(node, message)
        column = call.order[0].column
        for distance in call.distances:
            why = distance and distance.misfit(self.table.schema[column].type_name)
            if why:
                raise self.query.refuse(node, f"RANGE with a distance, ordered by {column}: {why}")

    def _choose(self, items: list[Item], trees: list[Node]) -> None:
        """Reduce the table to the subquery's SELECT list, which must keep the privacy unit."""
        columns: list[tuple[str, str]] = []
        for one, tree in zip(items, trees, strict=True):
            with self._at(one.node):
                columns.append((self._column(tree, "value"), one.name))
        unit = self.table.unit
        for column, name in columns:
            if name.casefold() == self.unit.casefold():
                if column != unit:
                    raise self.query.refuse(
                        self.node["select_list"][0],
                        f"{name} is not the privacy unit, which is {format_name(unit)} here. "
                        f"Select that as {name}",
                    )
                break
        else:
            raise self.query.refuse(self.node["select_list"][0], _NO_UNIT.format(unit=format_name(unit)))
        if columns != [(column, column) for column in self.table.schema]:
            self.table = select_columns(self.table, tuple(columns), name)
