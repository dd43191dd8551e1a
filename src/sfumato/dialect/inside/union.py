"""UNION ALL inside: the rows of several SELECTs under each other, by the places of their columns.

Columns of one place have one type: that of DuckDB, where all are numbers, or all dates and times without a
zone: beside a float, whole numbers and decimals are rounded to one. Anything else is refused.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sfumato.dialect.inside.queries import Query
from sfumato.dialect.tree import ask
from sfumato.query.local import chosen
from sfumato.query.schema import FLOATS, INTEGERS, quoted
from sfumato.query.table import Table

if TYPE_CHECKING:
    from sfumato.dialect.inside.compiler import Inside

_REFUSED = {
    "EXCEPT": "EXCEPT: write a LEFT JOIN on the privacy unit and WHERE ... IS NULL",
    "INTERSECT": "INTERSECT: write a JOIN on the privacy unit",
    "UNION": "UNION: write UNION ALL, and SELECT DISTINCT around it where rows may be there twice",
}

_NULL = '"NULL"'  # the type of NULL alone


def union_all(inside: Inside, query: Query, unit: str) -> Table[Any]:
    """Return the rows of private SELECTs under each other.

    Raises:
        SqlError: it is no UNION ALL, or they have other columns.
    """
    node = query.node
    if node["type"] != "SET_OPERATION_NODE":
        what = "WITH RECURSIVE" if "RECURSIVE" in node["type"] else node["type"].removesuffix("_NODE")
        raise query.refuse(query.first, f"{what} has no place here: write SELECT ... FROM ...")
    if node["setop_type"] != "UNION" or not node["setop_all"]:
        message = _REFUSED.get(node["setop_type"], f"{node['setop_type']}: write UNION ALL")
        raise query.refuse(query.first, message)
    if node["modifiers"]:
        raise query.refuse(query.first, "ORDER BY and LIMIT behind UNION ALL: leave them out")
    names = query.names.within(node)
    children = node.get("children") or [node["left"], node["right"]]
    tables: list[tuple[Query, Table[Any]]] = []
    kinds: list[str] = []
    place = 0
    for i, child in enumerate(children):
        one = Query(f"SELECT {i + 1} of UNION ALL", child, names, query.columns)
        found = inside.table(one, _unit(one, place, unit) if tables else unit)
        if not isinstance(found, Table):
            raise query.refuse(
                one.first, "a SELECT of public tables beside one of private ones: its rows have no unit"
            )
        if tables:
            found = _fitted(one, found, tables[0][1])
            kinds = [_common(one, found, *pair) for pair in zip(found.schema, kinds, strict=True)]
        else:
            place = list(found.schema).index(found.unit)
            kinds = [column.type_name for column in found.schema.values()]
        tables.append((one, found))
    table, *others = (_cast(found, kinds) for _, found in tables)
    for found in others:
        table = table.union(found)
    return table


def _fitted(query: Query, table: Table[Any], first: Table[Any]) -> Table[Any]:
    """Return a table with the names of the first SELECT's columns."""
    columns, wanted = list(table.schema), list(first.schema)
    if len(columns) != len(wanted):
        raise query.refuse(
            query.first, f"this SELECT has {len(columns)} columns, and the first one {len(wanted)}"
        )
    place = wanted.index(first.unit)
    if columns.index(table.unit) != place:
        raise query.refuse(
            query.first, f"the privacy unit is column {place + 1} in the first SELECT, and not here"
        )
    if columns == wanted:
        return table
    return chosen(table, tuple(zip(columns, wanted, strict=True)), first.unit)


def _cast(table: Table[Any], kinds: list[str]) -> Table[Any]:
    """Return a table whose columns have these types; a value that does not fit is NULL."""
    others = {
        name: f"TRY_CAST({quoted(name)} AS {kind})"
        for (name, column), kind in zip(table.schema.items(), kinds, strict=True)
        if column.type_name != kind
    }
    made = table.with_columns(**others)
    if list(made.schema) != list(table.schema):  # what takes the place of a column stands last
        made = chosen(made, tuple((name, name) for name in table.schema), table.unit)
    return made


def _common(query: Query, table: Table[Any], name: str, before: str) -> str:
    """Return the type that a column has beside those of the SELECTs before."""
    here = table.schema[name].type_name
    if here == before:
        return here
    if name == table.unit:
        raise query.refuse(
            query.first,
            f"the privacy unit {name} is {before} before, and {here} in this SELECT: units of two types are "
            "never the same, so it is not cast; give both tables one type before scan",
        )
    kind = _type_of_both(before, here)
    if kind is None:
        raise query.refuse(
            query.first,
            f"{name} is {before} before, and {here} in this SELECT: {_why(before, here)}",
        )
    return kind


def _why(before: str, here: str) -> str:
    cast = f"write CAST(... AS {before}) here"
    families = {_family(before), _family(here)}
    if families == {"number"}:
        return "no type holds the values of both as they are; cast one, such as CAST(... AS DOUBLE)"
    if families <= {"time", "instant"}:
        if "instant" in families:
            return (
                "which date and hour a time with a zone has depends on the zone; write CAST(... AS TIMESTAMP)"
            )
        return f"not all dates and times have nanoseconds; {cast}, or CAST(... AS TIMESTAMP)"
    return f"a value of the one is none of the other; {cast}"


def _family(kind: str) -> str:
    if kind in INTEGERS or kind in FLOATS or kind.startswith("DECIMAL("):
        return "number"
    if kind in ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"):
        return "time"
    return "instant" if kind == "TIMESTAMP WITH TIME ZONE" else kind


@lru_cache
def _type_of_both(before: str, here: str) -> str | None:
    """Return the type that DuckDB gives two columns; None where it does not hold the values of both."""
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
    """Return how many digits an exact number has before and behind the point; none of others."""
    if kind in INTEGERS:
        return INTEGERS[kind], 0
    found = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", kind)
    return (int(found[1]) - int(found[2]), int(found[2])) if found else ()


def _unit(query: Query, place: int, unit: str) -> str:
    """Return what the column at a place is called, as far as the SELECT list says."""
    listed = query.node.get("select_list") or []
    if query.columns or any(node["class"] == "STAR" for node in listed) or place >= len(listed):
        return unit
    node = listed[place]
    named = node["column_names"][-1] if node["class"] == "COLUMN_REF" else f"column_{place + 1}"
    return str(node["alias"] or named)
