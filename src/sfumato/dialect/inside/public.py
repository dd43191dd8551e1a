"""A SELECT of public tables alone: whatever DuckDB computes of them, always the same, and of nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable

from sfumato.dialect.allowed import check_outside
from sfumato.dialect.inside.queries import Query, Source, tables_of
from sfumato.dialect.tree import Node, ask
from sfumato.errors import SqlError
from sfumato.query.engine import Engine
from sfumato.query.local import computed
from sfumato.query.schema import quoted
from sfumato.query.tables.public_table import PublicTable


def public_table(
    query: Query, engine: Engine[object], open_table: Callable[[Source], PublicTable], value: bool = False
) -> PublicTable:
    """Return what a SELECT of public tables gives.

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
    for node, source in list(tables_of(tree, query.names)):
        name = names.setdefault(source, f"public {len(names)}")
        parts[name] = open_table(source)
        node["alias"] = node["alias"] or node["qualified_name"]["path"][-1]
        node["qualified_name"] = {"path": [name]}
        node |= {"table_name": name, "schema_name": "", "catalog_name": ""}

    def refuse(byte: int, message: str) -> SqlError:
        said = message.replace("outside the private SELECT", "in a SELECT of public tables")
        said = said.replace("there are released and public tables", "there are public tables alone")
        said = said.replace("the noisy numbers", "these tables")
        return query.refuse({"query_location": byte}, said)

    columns = {column.casefold() for table in parts.values() for column in table.schema}
    check_outside(tree, {}, columns, parts, (), refuse)
    text = _written(tree)
    if query.columns:
        listed = ", ".join(map(quoted, query.columns))
        text = f"SELECT * FROM ({text}) AS part({listed})"
    if value:
        text = f"SELECT ({text}) AS value"
    return computed(engine, parts, text)


def _written(tree: Node) -> str:
    statement = {"error": False, "statements": [{"node": tree, "named_param_map": []}]}
    ((text,),) = ask("SELECT json_deserialize_sql(?)", [json.dumps(statement)])
    return str(text)
