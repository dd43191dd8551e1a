"""Compile unit-local subqueries, set operations and SELECTs of public tables to tables made of tables."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any

from sfumato.api.table import (
    Table,
    add_membership,
    compute_public_table,
    distinct_rows,
    select_columns,
    with_value,
)
from sfumato.catalogs.declarations import Declarations, TableDeclaration
from sfumato.dialect.from_clause import (
    MAX_DEPTH,
    CommonTables,
    From,
    Query,
    Reference,
    Source,
    Written,
    iter_tables,
)
from sfumato.dialect.keywords import refusals
from sfumato.dialect.post_processing_sql import check_allowed
from sfumato.dialect.private_selects import NotUnderstood, PlainSelect
from sfumato.dialect.semi_joins import with_existence
from sfumato.dialect.sql_tokens import Cursor
from sfumato.dialect.subquery_columns import read_declarations
from sfumato.dialect.subquery_select import Select
from sfumato.dialect.syntax_tree import Node, ask, column_node, fresh, made, rewrite_tree, write_sql
from sfumato.errors import ColumnError, QueryError, SqlError, nearest, shown
from sfumato.query.engine_protocol import Engine
from sfumato.query.schema import FLOATS, INTEGERS, quote_name
from sfumato.query.tables.public_table import PublicTable

_NULL = '"NULL"'  # the type of NULL alone


def set_operation(subqueries: Subqueries, query: Query, unit: str) -> Table[Any]:
    """Return the table of a UNION, INTERSECT or EXCEPT of private subqueries, which all have the unit.

    Raises:
        SqlError: it is another one, or they have other columns.
    """
    node = query.node
    if node["type"] != "SET_OPERATION_NODE":
        what = "WITH RECURSIVE" if "RECURSIVE" in node["type"] else node["type"].removesuffix("_NODE")
        raise query.refuse(query.first, f"{what} is not supported here. Write SELECT ... FROM ...")
    kind, every = node["setop_type"], node["setop_all"]
    if kind not in ("UNION", "INTERSECT", "EXCEPT") or (every and kind != "UNION"):
        message = refusals("set_operators").get(kind, f"{kind}: write UNION ALL")
        raise query.refuse(query.first, message)
    if node["modifiers"]:
        raise query.refuse(query.first, f"ORDER BY and LIMIT after {kind} are not supported. Leave them out")
    table, *others = _operands(subqueries, query, unit)
    for other in others:
        table = table.union(other) if kind == "UNION" else _compare_tables(table, other, kind)
    return table if every or kind != "UNION" else _ordered(distinct_rows(table), table)


def _operands(subqueries: Subqueries, query: Query, unit: str) -> list[Table[Any]]:
    """Return the tables of a set operation's SELECTs, with the first one's names and types in common."""
    node, names = query.node, query.names.within(query.node)
    children = node.get("children") or [node["left"], node["right"]]
    tables: list[tuple[Query, Table[Any]]] = []
    kinds: list[str] = []
    place = 0
    for i, child in enumerate(children):
        one = Query(f"SELECT {i + 1} of {node['setop_type']}", child, names, query.columns)
        found = subqueries.table(one, _unit(one, place, unit) if tables else unit)
        if not isinstance(found, Table):
            raise query.refuse(
                one.first,
                "a SELECT of public tables cannot be united with one of private tables, as its rows "
                "have no privacy unit. Join it instead",
            )
        if tables:
            found = _match_columns(one, found, tables[0][1])
            kinds = [_common(one, found, *pair) for pair in zip(found.schema, kinds, strict=True)]
        else:
            place = list(found.schema).index(found.unit)
            kinds = [column.type_name for column in found.schema.values()]
        tables.append((one, found))
    return [_cast(found, kinds) for _, found in tables]


def _ordered(table: Table[Any], like: Table[Any]) -> Table[Any]:
    """Return a table with the columns of another one, in its order."""
    return select_columns(table, tuple((name, name) for name in like.schema), like.unit)


def _compare_tables(first: Table[Any], second: Table[Any], kind: str) -> Table[Any]:
    """Return the rows of INTERSECT or EXCEPT once each; NULL equals NULL there, as in GROUP BY."""
    taken = {name.casefold() for name in first.schema}
    mark, least, most = (fresh(name, taken) for name in ("part", "least", "most"))
    both = first.with_columns(**{mark: "0"}).union(second.with_columns(**{mark: "1"}))
    keys = [name for name in first.schema if name != first.unit]
    marks = {least: f"min({quote_name(mark)})", most: f"max({quote_name(mark)})"}
    wanted = f"{quote_name(least)} = 0 AND {quote_name(most)} = {int(kind == 'INTERSECT')}"
    return _ordered(both.per_unit(*keys, **marks).filter(wanted), first)


def _match_columns(query: Query, table: Table[Any], first: Table[Any]) -> Table[Any]:
    """Return a subquery's table with the column names of the first subquery of UNION ALL."""
    columns, wanted = list(table.schema), list(first.schema)
    if len(columns) != len(wanted):
        raise query.refuse(
            query.first, f"this SELECT has {len(columns)} columns, but the first one has {len(wanted)}"
        )
    place = wanted.index(first.unit)
    if columns.index(table.unit) != place:
        raise query.refuse(
            query.first,
            f"the privacy unit is column {place + 1} in the first SELECT, but not here. Put it there too",
        )
    if columns == wanted:
        return table
    return select_columns(table, tuple(zip(columns, wanted, strict=True)), first.unit)


def _cast(table: Table[Any], kinds: list[str]) -> Table[Any]:
    """Return a subquery's table with its columns cast to these types; values that do not fit are NULL."""
    others = {
        name: f"TRY_CAST({quote_name(name)} AS {kind})"
        for (name, column), kind in zip(table.schema.items(), kinds, strict=True)
        if column.type_name != kind
    }
    made = table.with_columns(**others)
    if list(made.schema) != list(table.schema):  # what takes the place of a column stands last
        made = select_columns(made, tuple((name, name) for name in table.schema), table.unit)
    return made


def _common(query: Query, table: Table[Any], name: str, before: str) -> str:
    """Return the common type of a column in the subqueries of UNION ALL."""
    here = table.schema[name].type_name
    if here == before:
        return here
    if name == table.unit:
        raise query.refuse(
            query.first,
            f"the privacy unit {name} is {before} in the first SELECT and {here} in this one, "
            "and units are not cast. Give both tables one type before scan",
        )
    kind = _type_of_both(before, here)
    if kind is None:
        raise query.refuse(
            query.first,
            f"{name} is {before} before, and {here} in this SELECT: {_why(before, here)}",
        )
    return kind


def _why(before: str, here: str) -> str:
    """Return why columns of two subqueries of UNION ALL have no common type."""
    cast = f"Write CAST(... AS {before})"
    families = {_family(before), _family(here)}
    if families == {"number"}:
        return "no type holds the values of both exactly. Cast one, such as CAST(... AS DOUBLE)"
    if families <= {"time", "instant"}:
        if "instant" in families:
            return "the date and hour of a time with a zone depend on the zone. Write CAST(... AS TIMESTAMP)"
        return f"not all dates and times have nanoseconds. {cast}, or CAST(... AS TIMESTAMP)"
    return f"the two types have no values in common. {cast}"


def _family(kind: str) -> str:
    """Return the family of a column type: numbers, times, or the type itself."""
    if kind in INTEGERS or kind in FLOATS or kind.startswith("DECIMAL("):
        return "number"
    if kind in ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"):
        return "time"
    return "instant" if kind == "TIMESTAMP WITH TIME ZONE" else kind


@lru_cache
def _type_of_both(before: str, here: str) -> str | None:
    """Return DuckDB's common type of two columns under UNION ALL; None where values would not fit."""
    if _NULL in (before, here):
        return here if before == _NULL else before
    families = {_family(before), _family(here)}
    if families not in ({"number"}, {"time"}) or "TIMESTAMP_NS" in (before, here):
        return None
    ((_, kind, *_),) = ask(f"DESCRIBE SELECT CAST(NULL AS {before}) UNION ALL SELECT CAST(NULL AS {here})")
    # Of decimals it may be one with too few digits, before the point or behind it.
    room = _digits(str(kind))
    if room and any(
        have > most for one in (before, here) for have, most in zip(_digits(one), room, strict=True)
    ):
        return None
    return str(kind)


def _digits(kind: str) -> tuple[int, ...]:
    """Return the digits that an exact number type has before and behind the point; () for other types."""
    if kind in INTEGERS:
        return INTEGERS[kind], 0
    found = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", kind)
    return (int(found[1]) - int(found[2]), int(found[2])) if found else ()


def _unit(query: Query, place: int, unit: str) -> str:
    """Return the name of the column at a place in a subquery's SELECT list, as far as the list says."""
    listed = query.node.get("select_list") or []
    if query.columns or any(node["class"] == "STAR" for node in listed) or place >= len(listed):
        return unit
    node = listed[place]
    named = node["column_names"][-1] if node["class"] == "COLUMN_REF" else f"column_{place + 1}"
    return str(node["alias"] or named)


def public_table(
    query: Query, engine: Engine[object], open_table: Callable[[Source], PublicTable], value: bool = False
) -> PublicTable:
    """Return the public table that a subquery of public tables makes.

    Args:
        query: reads public tables alone.
        engine: what computes it.
        open_table: gives a public table.
        value: whether it stands for one value: then it is one row, of NULL where it gives none, and an error
            where it gives several.
    Raises:
        SqlError: it holds something whose result does not follow from these tables.
        QueryError: it does not fit their columns.
    """
    tree = json.loads(json.dumps(query.node))
    names: dict[Source, str] = {}
    parts: dict[str, PublicTable] = {}
    for node, source in list(iter_tables(tree, query.names)):
        name = names.setdefault(source, f"public {len(names)}")
        parts[name] = open_table(source)
        node["alias"] = node["alias"] or node["qualified_name"]["path"][-1]
        node["qualified_name"] = {"path": [name]}
        node |= {"table_name": name, "schema_name": "", "catalog_name": ""}

    def refuse(byte: int, message: str) -> SqlError:
        said = message.replace("outside the private SELECT", "in a SELECT of public tables")
        said = said.replace("the noisy numbers", "these tables")
        return query.refuse({"query_location": byte}, said)

    columns = {column.casefold() for table in parts.values() for column in table.schema}
    check_allowed(tree, {}, columns, parts, (), refuse)
    text = query_text(tree)
    if query.columns:
        listed = ", ".join(map(quote_name, query.columns))
        text = f"SELECT * FROM ({text}) AS part({listed})"
    if value:
        text = f"SELECT ({text}) AS value"
    return compute_public_table(engine, parts, text)


def query_text(tree: Node) -> str:
    """Return a query's syntax tree as SQL text."""
    statement = {"error": False, "statements": [{"node": tree, "named_param_map": []}]}
    ((text,),) = ask("SELECT json_deserialize_sql(?)", [json.dumps(statement)])
    return str(text)


class Subqueries:
    """The tables that the subqueries of one text make, each compiled once.

    Args:
        open_table: gives a private or public table, from its name and the privacy unit's column; asked once.
        joined_rows: the limit of joined rows of a unit; None for that of `Table.join`.
    """

    def __init__(
        self,
        open_table: Callable[[str, str], Table[Any] | PublicTable],
        joined_rows: int | None = None,
    ) -> None:
        self._open = cache(open_table)
        self.joined_rows = joined_rows
        self._opened: dict[tuple[Source, str], Table[Any] | PublicTable] = {}
        self._public: dict[Source, bool] = {}
        self._units: dict[str, str] = {}
        self._engine: Engine[Any] | None = None
        self._depth = 0

    def table(self, source: Source, unit: str) -> Table[Any] | PublicTable:
        """Return the private or public table that a name or a subquery stands for.

        Args:
            source: the name, or the SELECT.
            unit: what its privacy unit's column is called, should it be private.
        Raises:
            QueryError: it is not unit-local, or does not fit its columns.
        """
        key = source, unit
        if key not in self._opened:
            if isinstance(source, str):
                self._opened[key] = self._base(source, unit)
            elif self.is_public(source, unit):
                if self._engine is None:
                    raise source.refuse(
                        source.first,
                        "FROM begins with a SELECT of public tables alone. Begin with a private "
                        "table, and JOIN this",
                    )
                self._opened[key] = self.public(source, unit)
            else:
                with self._deeper(source):
                    self._opened[key] = self._private(source, unit)
            if self._engine is None:
                self._engine = self._opened[key]._engine
        return self._opened[key]

    def is_public(self, source: Source, unit: str) -> bool:
        """Whether a table or subquery reads public tables alone."""
        if source not in self._public:
            if isinstance(source, str):
                try:
                    self._public[source] = isinstance(self._open(source, unit), PublicTable)
                except ColumnError:  # which says that there is no such privacy unit
                    self._public[source] = False
            else:
                with self._deeper(source):
                    read = [one for _, one in iter_tables(source.node, source.names)]
                    self._public[source] = all(self.is_public(one, unit) for one in read)
        return self._public[source]

    def public(self, source: Source, unit: str, value: bool = False) -> PublicTable:
        """Return a public table, or the one that a subquery of public tables makes."""
        if isinstance(source, str):
            found = self.table(source, unit)
        else:
            assert self._engine is not None  # a private table comes first
            with self._deeper(source):
                found = public_table(source, self._engine, lambda one: self.public(one, unit), value)
        assert isinstance(found, PublicTable)
        return found

    def public_value(self, names: CommonTables, node: Node, unit: str) -> PublicTable:
        """Return the public table of one row that a scalar subquery of public tables makes.

        Raises:
            SqlError: it reads a private table, or gives several columns.
        """
        inner = Query("a SELECT in an expression", node["subquery"]["node"], names)
        if not self.is_public(inner, unit):
            raise names.written.refuse(
                node,
                "a SELECT of a private table as a value would depend on the rows of all units. Write "
                "a SELECT with GROUP BY the privacy unit in FROM, and join it on that",
            )
        return self.public(inner, unit, value=True)

    def is_existence(self, names: CommonTables, node: Node, unit: str) -> bool:
        """Whether a subquery in an expression is EXISTS, or IN (SELECT ...) of a private table."""
        if node["subquery_type"] == "EXISTS":
            return True
        is_in = node["subquery_type"] == "ANY" and node["comparison_type"] == "COMPARE_EQUAL"
        return is_in and not self.is_public(Query("", node["subquery"]["node"], names), unit)

    def public_values(self, names: CommonTables, node: Node, unit: str) -> PublicTable:
        """Return the public table of one column in which IN (SELECT ...) looks.

        Raises:
            SqlError: the SELECT stands elsewhere, or reads a private table.
        """
        if node["subquery_type"] != "ANY" or node["comparison_type"] != "COMPARE_EQUAL":
            raise names.written.refuse(
                node,
                "this SELECT in an expression is not supported. Use x IN (SELECT y FROM a public "
                "table) or a (SELECT ...) of public tables that gives one value, or a join in FROM",
            )
        inner = Query("a SELECT behind IN", node["subquery"]["node"], names)
        if not self.is_public(inner, unit):
            raise names.written.refuse(
                node,
                "IN (SELECT ...) of a private table would show which other units are in it. Join it "
                "on the privacy unit, in FROM",
            )
        other = self.public(inner, unit)
        if len(other.schema) != 1:
            raise names.written.refuse(
                node, f"IN takes one column, but this SELECT gives {len(other.schema)}"
            )
        return other

    def filtered(self, table: Table[Any], node: Node, names: CommonTables, tables: From) -> Table[Any]:
        """Return the rows where a WHERE condition with subqueries of public tables is true.

        Args:
            table: the tables, joined, as `open_from` gives them.
            node: DuckDB's tree of the condition.
            names: the WITH tables.
            tables: the FROM clause.
        Raises:
            QueryError: the condition is not admissible.
        """
        taken = {name.casefold() for name in table.schema}
        known = {alias.casefold() for alias in (tables.alias, *tables.aliases.values()) if alias}

        def plain(tree: Node) -> Node:
            return rewrite_tree(tree, change)

        def over_table(tree: Node) -> tuple[Table[Any], Node]:
            found = plain(tree)
            return table, found

        def change(one: Node) -> Node | None:
            nonlocal table
            if one["class"] == "COLUMN_REF":
                first, *rest = one["column_names"]
                if rest and first.casefold() in known:
                    return one | {"column_names": [tables.name(Reference(first, rest[0])), *rest[1:]]}
                return one
            if one["class"] != "SUBQUERY":
                return None
            if one["subquery_type"] == "SCALAR":
                name = fresh("value", taken)
                table = with_value(table, self.public_value(names, one, table.unit), name)
                return column_node(name)
            if self.is_existence(names, one, table.unit):
                table, mark = with_existence(self, table, names, one, over_table, [*known])
                return made("_0 IS NOT NULL", column_node(mark))
            other = self.public_values(names, one, table.unit)
            child, name = fresh("looked_up", taken), fresh("is_in", taken)
            text = write_sql(plain(one["child"]))  # a SELECT in it adds a column to the table
            table = add_membership(table.with_columns(**{child: text}), child, other, name)
            return column_node(name)

        condition = plain(node)
        return table.filter(write_sql(condition))

    def _base(self, name: str, unit: str) -> Table[Any] | PublicTable:
        """Open a table that subqueries read by its name, with one privacy unit throughout."""
        found = self._open(name, unit)
        if isinstance(found, Table) and self._units.setdefault(name, found.unit) != found.unit:
            raise QueryError(
                f"{name!r} is read with the privacy unit {self._units[name]!r} and with "
                f"{found.unit!r}. Use one of them everywhere"
            )
        return found

    def _private(self, query: Query, unit: str) -> Table[Any]:
        """Compile a subquery of private tables: one SELECT, or UNION and the like."""
        if query.node["type"] == "SELECT_NODE":
            return Select(self, query, unit).table
        return set_operation(self, query, unit)

    @contextmanager
    def _deeper(self, query: Query) -> Iterator[None]:
        """Count the nesting of subqueries, and mark the subquery in errors."""
        if self._depth == MAX_DEPTH:
            raise query.refuse(
                query.node,
                f"subqueries can be nested at most {MAX_DEPTH} deep. Save a part of the query as a table",
            )
        self._depth += 1
        try:
            yield
        except SqlError:
            raise
        except QueryError as error:
            raise query.refuse(query.first, str(error)) from None
        finally:
            self._depth -= 1


def unit_local_table(text: object, tables: Mapping[str, Table[Any] | PublicTable]) -> Table[Any]:
    """Return the private table that a unit-local SELECT makes of other tables.

    Args:
        text: SQL in which every row follows from the rows of one privacy unit, and from public tables.
        tables: by the names that it may read.
    Raises:
        SqlError: it is not understood, or not of this form; it shows the place and what to write.
        QueryError: it does not fit the tables' columns.
    """
    if not isinstance(text, str):
        raise QueryError(f"sql: the query is {shown(text)}, but must be SQL text")
    words = Cursor(text)
    plain = PlainSelect(words, [], [])
    try:
        tree = plain.tree()
        query = Query("sql", tree, CommonTables(Written(text, plain.place)))
        known = {name: _declaration(name, table) for name, table in tables.items()}
        unit = read_declarations(query, Declarations("sql", known)).privacy_unit
        if unit is None:
            raise query.refuse(query.first, "this reads only public tables. Begin FROM with a private one")
        found = Subqueries(lambda name, _: _table(name, tables)).table(query, unit)
    except NotUnderstood as error:
        at = words.tokens[0 if error.at is None else error.at]
        raise words.refuse(f"not understood: {error.why}", at) from None
    except RecursionError:
        raise QueryError("sql: the subqueries and expressions are nested too deeply") from None
    assert isinstance(found, Table)
    return found


def _declaration(name: str, table: Table[Any] | PublicTable) -> TableDeclaration:
    unit = table.unit if isinstance(table, Table) else None
    return TableDeclaration(name, "sql", None, public=unit is None, privacy_unit=unit)


def _table(name: str, tables: Mapping[str, Table[Any] | PublicTable]) -> Table[Any] | PublicTable:
    if name not in tables:
        near = nearest(name, tables)
        raise QueryError(
            f"FROM names {name!r}, which is not a table; "
            + (f"did you mean {near!r}?" if near else f"the tables are: {', '.join(tables)}")
        )
    return tables[name]
