"""Columns of post-processing SQL that are linear in released rows, or ratios, with the weight of each row.

Post-processing may join released rows with public tables, and add them up by group with public weights, as
for an age-standardised rate. Which columns are such sums follows from the syntax tree alone. The tree then
gets columns of the weights, from which error bars follow by the law of the noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cache

from sfumato.dataclass import dataclass
from sfumato.dialect.subqueries import query_text
from sfumato.dialect.syntax_tree import (
    Node,
    children,
    column_node,
    in_scope,
    is_aggregate,
    made,
    parse_expressions,
    shape,
    statements,
)
from sfumato.query.linear_forms import ADDED, LinearColumn, LinearSql, Part, RatioParts

_Weights = dict[Part, Node]  # of noisy numbers, and of what is added
_Ratio = tuple[_Weights, _Weights]
_LIMITS = ("LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER")


@cache
def _one() -> _Weights:
    """Return the weights of a denominator that is 1."""
    return {ADDED: parse_expressions("SELECT 1")[0]}


class NotLinear(Exception):
    """A column or a SELECT that is not known to be linear in released rows."""


def linear_sql(sql: str, table: str, row: str, outputs: Mapping[str, bool | None]) -> LinearSql | None:
    """Return post-processing SQL with weights of released rows; None where no column has a form.

    Args:
        sql: one SELECT.
        table: the released table, which it reads once.
        row: the column of row numbers in it.
        outputs: its noisy columns: whether they are ratios of linear forms; None where they have no forms.
    """
    (tree,) = statements(sql)
    try:
        return _Rewriter(tree, table, row, outputs).rewrite()
    except (NotLinear, RecursionError):
        return None


@dataclass(frozen=True)
class _Scope:
    """The noisy columns that a SELECT sees, in lower case.

    Args:
        table: what it calls the relation that has them.
        forms: their ratios; None where a column has no linear form.
        reading: the tables and names of WITH that have noisy numbers, as subqueries may read them too.
    """

    table: str
    forms: dict[str, list[_Ratio] | None]
    reading: frozenset[str]

    def is_public(self, node: Node | None) -> bool:
        """Whether no noisy number stands in an expression."""
        found = _nodes(node) if node else []
        unnamed = any(one.get("class") in ("STAR", "POSITIONAL_REFERENCE") for one in found)
        return not unnamed and not any(map(self.is_noisy, found))

    def is_noisy(self, node: Node) -> bool:
        """Whether a node is the name of a noisy number, or of a table of them."""
        if node.get("type") == "BASE_TABLE":
            return node["table_name"].casefold() in self.reading
        if node.get("class") != "COLUMN_REF":
            return False
        names = [name.casefold() for name in node["column_names"]]
        known = self.table in names[:-1] or len(names) == 1
        return names == [self.table] or (known and names[-1] in self.forms)

    def ratios(self, node: Node, leaf: Callable[[Node], list[_Ratio] | None]) -> list[_Ratio]:
        """Return an expression as a sum of ratios of linear forms.

        Args:
            leaf: returns that of a noisy number; None for an operator.
        """
        if self.is_public(node):
            return [({ADDED: node}, _one())]
        if (found := leaf(node)) is not None:
            return found
        kind, parts = node["class"], children(node)
        if kind == "CAST" and node["type_expr"]["type_name"].upper() in ("DOUBLE", "FLOAT"):
            return self.ratios(parts[0], leaf)
        match node.get("function_name") if kind == "FUNCTION" and node["is_operator"] else None, parts:
            case ("+" | "-") as sign, [*parts] if parts:
                last = self.ratios(parts[-1], leaf)
                last = _times(last, "-_0") if sign == "-" else last
                return _plus(self.ratios(parts[0], leaf), last) if len(parts) > 1 else last
            case "*", [one, other]:
                one, other = (other, one) if self.is_public(one) else (one, other)
                if self.is_public(other):
                    return _times(self.ratios(one, leaf), "CAST(_0 AS DOUBLE) * _1", other)
            case "/", [one, other]:
                if self.is_public(other):
                    return _times(self.ratios(one, leaf), "CAST(_0 AS DOUBLE) / _1", other)
                match self.ratios(one, leaf), self.ratios(other, leaf):
                    case [(top, first)], [(bottom, second)] if first == second == _one():
                        return [(top, bottom)]
        raise NotLinear

    def column(self, node: Node) -> list[_Ratio] | None:
        """Return the ratios of a noisy column; None for another expression."""
        if node["class"] != "COLUMN_REF":
            return None
        found = self.forms.get(node["column_names"][-1].casefold())
        if found is None:
            raise NotLinear
        return found


def _times(ratios: list[_Ratio], template: str, *factor: Node) -> list[_Ratio]:
    return [
        ({part: made(template, weight, *factor) for part, weight in top.items()}, bottom)
        for top, bottom in ratios
    ]


def _plus(one: list[_Ratio], other: list[_Ratio]) -> list[_Ratio]:
    """Add sums of ratios; those of one denominator are one."""
    found = list(one)
    for top, bottom in other:
        same = next((i for i, known in enumerate(found) if _key(known[1]) == _key(bottom)), None)
        if same is None:
            found.append((top, bottom))
            continue
        whole = dict(found[same][0])
        for part, weight in top.items():
            whole[part] = made("CAST(_0 AS DOUBLE) + _1", whole[part], weight) if part in whole else weight
        found[same] = whole, bottom
    return found


def _key(weights: _Weights) -> list[tuple[Part, str]]:
    return sorted((part, shape(weight)) for part, weight in weights.items())


@dataclass(frozen=True, eq=False)
class _Rewriter:
    """Adds columns of weights to a SELECT over released rows; see `linear_sql`."""

    tree: Node
    table: str
    row: str
    outputs: Mapping[str, bool | None]
    ctes: dict[str, Node] = field(default_factory=dict)

    def rewrite(self) -> LinearSql | None:
        """Return the SQL with weights; None if no column has any."""
        if self.tree["type"] != "SELECT_NODE":
            raise NotLinear
        ctes = self.tree["cte_map"]["map"]
        if any(one["value"]["aliases"] for one in ctes):
            raise NotLinear
        self.ctes.update((one["key"].casefold(), one["value"]["query_node"]) for one in ctes)
        entries = list(self.tree["select_list"])
        if any(one["class"] == "STAR" for one in entries):
            raise NotLinear
        scope = self._rows(self.tree)
        whole = bool(self.tree["group_expressions"] or self.tree["aggregate_handling"] != "STANDARD_HANDLING")
        whole = whole or any(is_aggregate(one) for entry in entries for one in _classed(entry))
        if not all(map(scope.is_public, self.tree["group_expressions"])):
            raise NotLinear
        columns, added = list[LinearColumn | None](), list[str]()
        for entry in entries:
            plain = whole and not any(map(is_aggregate, _classed(entry)))
            if plain and not scope.is_public(entry):
                raise NotLinear  # it is grouped by
            columns.append(None if scope.is_public(entry) else self._column(entry, scope, whole, added))
        if not any(columns):
            return None
        return LinearSql(query_text(self.tree), tuple(columns), tuple(added))

    def _column(self, entry: Node, scope: _Scope, is_integer: bool, added: list[str]) -> LinearColumn | None:
        """Return the linear form of an entry of the SELECT list, whose weights become columns."""
        sums: list[tuple[Node, list[_Ratio]]] = []

        def sum_of(node: Node) -> list[_Ratio] | None:
            if not is_aggregate(node):
                return None
            plain = node["function_name"].lower() == "sum" and not node["distinct"]
            if not plain or not scope.is_public(node["filter"]):
                raise NotLinear
            sums.append((node, scope.ratios(children(node)[0], scope.column)))
            return [({(str(len(sums) - 1), 0): _one()[ADDED]}, _one())]

        if entry["class"] == "FUNCTION" and entry["function_name"].lower() == "round":
            entry = children(entry)[0]
        try:
            if is_integer:
                ratios = scope.ratios(entry, sum_of)
            else:
                sums.append((entry, scope.ratios(entry, scope.column)))
                ratios = [({("0", 0): _one()[ADDED]}, _one())]
        except NotLinear:
            return None
        within = [ratio for _, own in sums for ratio in own]
        if all(any(bottom != _one() for _, bottom in some) for some in (ratios, within)):
            return None  # ratios of sums of ratios
        weights, outer = _listed(ratios, [])
        names, parts = [self._add(weights, added)], list[tuple[RatioParts, ...]]()
        for node, own in sums:
            item, sides = _listed(own, [column_node(self.row)])
            names.append(self._add(_list(node, item) if is_integer else made("[_0]", item), added))
            parts.append(sides)
        return LinearColumn(outer, tuple(parts), tuple(names))

    def _add(self, node: Node, added: list[str]) -> str:
        """Add a column to the SELECT list, and return its name."""
        name = f"{self.row} {len(added)}"
        self.tree["select_list"].append(node | {"alias": name})
        added.append(name)
        return name

    def _rows(self, select: Node) -> _Scope:
        """Return the noisy columns that a SELECT sees, if public values alone decide which rows it has."""
        found = self._relation(select["from_table"])
        if found is None:
            raise NotLinear
        deciding = [select[name] for name in ("where_clause", "having", "qualify")]
        modifiers = {one["type"]: one for one in select["modifiers"]}
        if "DISTINCT_MODIFIER" in modifiers or select["sample"]:
            raise NotLinear
        named: dict[str, list[_Ratio] | None] = {
            entry["alias"].casefold(): None
            for entry in select["select_list"]
            if entry["alias"] and not found.is_public(entry)
        }
        scope = _Scope(found.table, named | found.forms, found.reading)
        if modifiers.keys() & {*_LIMITS}:
            orders = [one["expression"] for one in modifiers.get("ORDER_MODIFIER", {}).get("orders", ())]
            deciding += orders
            if any(one["class"] == "CONSTANT" for one in orders):
                raise NotLinear
        if not all(map(scope.is_public, deciding)) or not self._joins_are_public(select["from_table"], scope):
            raise NotLinear
        return scope

    def _joins_are_public(self, source: Node, scope: _Scope) -> bool:
        """Whether joins do not depend on noisy numbers, nor the public tables in them."""
        if source["type"] != "JOIN":
            return self._relation(source) is not None or not any(map(scope.is_noisy, _nodes(source)))
        using = {name.casefold() for name in source["using_columns"]}
        sides = source["left"], source["right"]
        return (
            source["ref_type"] in ("REGULAR", "CROSS")
            and scope.is_public(source["condition"])
            and not using & scope.forms.keys()
            and all(self._joins_are_public(side, scope) for side in sides)
        )

    def _relation(self, source: Node) -> _Scope | None:
        """Return the noisy columns of a part of FROM; None where it has none."""
        if source.get("sample") or source.get("column_name_alias"):
            raise NotLinear
        if source["type"] == "JOIN":
            sides = [self._relation(source[side]) for side in ("left", "right")]
            noisy = [side for side in sides if side is not None]
            if len(noisy) > 1:
                raise NotLinear
            return noisy[0] if noisy else None
        name, select = source["alias"], None
        if source["type"] == "BASE_TABLE":
            name = name or source["table_name"]
            if source["table_name"] == self.table:
                return self._scope(name, {o.casefold(): self._forms(o) for o in self.outputs})
            select = self.ctes.get(source["table_name"].casefold())
        elif source["type"] == "SUBQUERY":
            select = source["subquery"]["node"]
        if select is None or not self._reads(select):
            return None
        return self._scope(name, self._passed(select))

    def _scope(self, name: str, forms: dict[str, list[_Ratio] | None]) -> _Scope:
        reading = {name for name, select in self.ctes.items() if self._reads(select)}
        return _Scope(name.casefold(), forms, frozenset({self.table.casefold(), *reading}))

    def _forms(self, output: str) -> list[_Ratio] | None:
        top, bottom = (({(output, side): _one()[ADDED]}) for side in (0, 1))
        ratio = self.outputs[output]
        return None if ratio is None else [(top, bottom if ratio else _one())]

    def _reads(self, select: Node) -> bool:
        """Whether a SELECT reads the released table."""
        names = [node["table_name"] for node, _ in in_scope(select) if node.get("type") == "BASE_TABLE"]
        return self.table in names or any(
            self._reads(self.ctes[name.casefold()]) for name in names if name.casefold() in self.ctes
        )

    def _passed(self, select: Node) -> dict[str, list[_Ratio] | None]:
        """Return the noisy columns that a SELECT passes on, and have it pass on the row number."""
        if select["type"] != "SELECT_NODE" or select["cte_map"]["map"] or select["group_expressions"]:
            raise NotLinear
        scope, found = self._rows(select), dict[str, list[_Ratio] | None]()
        for entry in select["select_list"]:
            if entry["class"] == "STAR" or any(map(is_aggregate, _classed(entry))):
                raise NotLinear
            if not scope.is_public(entry):
                name = entry["alias"] or entry.get("column_names", [""])[-1]
                if not name:
                    raise NotLinear  # DuckDB names it
                try:
                    found[name.casefold()] = scope.ratios(entry, scope.column)
                except NotLinear:
                    found[name.casefold()] = None
        if column_node(self.row) not in select["select_list"]:
            select["select_list"].append(column_node(self.row))
        return found


def _nodes(tree: Node) -> list[Node]:
    return [node for node, _ in in_scope(tree)]


def _classed(tree: Node) -> list[Node]:
    return [node for node in _nodes(tree) if "class" in node]


def _listed(ratios: list[_Ratio], before: list[Node]) -> tuple[Node, tuple[RatioParts, ...]]:
    """Return the list of the weights in ratios, and where each is in it."""
    nodes, places = list(before), list[RatioParts]()
    for top, bottom in ratios:
        above = {part: len(nodes) + i for i, part in enumerate(top)}
        nodes += top.values()
        below = None if bottom == _one() else {part: len(nodes) + i for i, part in enumerate(bottom)}
        nodes += () if below is None else bottom.values()
        places.append((above, below))
    items = ", ".join(f"CAST(_{i} AS DOUBLE)" for i in range(len(nodes)))
    return made(f"[{items}]", *nodes), tuple(places)


def _list(node: Node, item: Node) -> Node:
    """Return the aggregate that lists an item for each row that a sum adds up."""
    known = made("_0 IS NOT NULL", children(node)[0])
    kept = known if node["filter"] is None else made("_0 AND _1", known, node["filter"])
    return made("list(_0)", item) | {"filter": kept}
