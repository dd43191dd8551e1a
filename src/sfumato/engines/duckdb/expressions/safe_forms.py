"""Expressions that cannot raise: each part in a form that gives NULL where DuckDB would stop.

DuckDB has TRY, but its optimizer moves expressions, also out of TRY, and a value that fails there costs a
hundred times what others cost. So nothing here rests on TRY: every cast, written or implicit, becomes
TRY_CAST, and what raises on some arguments is not given these. TRY around the whole is a second wall.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

import duckdb

from sfumato.dialect.syntax_tree import Node, ask, children, descendants, made, said, with_children, written
from sfumato.engines.duckdb.expressions import arithmetic, texts, times
from sfumato.engines.duckdb.expressions.safe_parts import (
    FUNCTIONS,
    SPANS,
    DoesNotBind,
    Form,
    Part,
    Unsafe,
    cast_type,
    constants,
    document,
    not_zero,
    once,
    place,
    placed,
    plain,
    tried,
    type_of,
    types_of_constants,
)
from sfumato.query import sizes

# Types that a cast may name. Others hold others, grow, or crash on deep values (VARIANT).
TYPES = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER",
    "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL", "VARCHAR", "DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS",
    "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "TIME", "UUID", "JSON",
)  # fmt: skip

# How many characters a constant has that a function makes of others, and of how many parts it does.
_LONGEST, _LONGEST_LIST, _MOST_PARTS = 1 << 12, 1 << 16, 1000


def total(tree: Node, type_of_column: Callable[[Node], str]) -> Part:
    """Return the total form of an expression whose parts are all admitted.

    Args:
        tree: as `syntax.parsed` gives it.
        type_of_column: the type of a reference to a column.
    Raises:
        Unsafe: with the part that has none.
    """
    made_of: dict[int, Part] = {}
    # Parents come before their children, so backwards each part is made of parts that are made.
    for node in reversed(list(descendants(tree))):
        parts = [made_of.pop(id(child)) for child in children(node)]
        if node["class"] == "COLUMN_REF":
            part = Part(node, type_of_column(node))
        elif node["class"] == "CONSTANT" or all(p.constant for p in parts):
            _check_constant(node)
            part = Part(node, "", constant=True)  # computed where it is used, as a whole
        else:
            part = _part(node, _computed(parts))
        made_of[id(node)] = part
    return _computed([made_of[id(tree)]])[0]


def _check_constant(node: Node) -> None:
    """Refuse a constant that is long before it is part of a longer one: each step could multiply it."""
    if node["class"] == "CAST" and node["type_expr"]["type_name"].upper() != "INTERVAL":
        _cast(node)
    if len(node.get("literal", {}).get("text", "")) > _LONGEST:  # functions may copy it for each row
        raise Unsafe(node, f"holds a text of more than {_LONGEST} characters")
    if node["class"] != "FUNCTION":
        return
    # It is written out once more with each function around it.
    if any(islice(descendants(node), _MOST_PARTS + 1, None)):
        raise Unsafe(node, f"computes a constant from more than {_MOST_PARTS} values")
    is_list = [
        one["class"] == "FUNCTION" and one["function_name"] == "list_value" for one in (node, *children(node))
    ]
    if is_list[0] and any(is_list[1:]):  # DuckDB takes long to bind deep ones
        raise Unsafe(node, "makes a list of lists; a list holds plain values here")
    most = _LONGEST_LIST if is_list[0] else _LONGEST
    try:
        ((length,),) = ask(f"SELECT strlen(CAST({written(node)} AS VARCHAR))")
    except duckdb.Error as error:
        raise Unsafe(node, f"cannot be computed: {said(error)}") from None
    if (length or 0) > most:
        raise Unsafe(node, f"makes a constant of more than {most} characters")


def _computed(parts: list[Part]) -> list[Part]:
    """Compute the constants among parts, once, for their types and to see that they can be computed."""
    types = iter(_types([p.node for p in parts if p.constant]))
    return [replace(p, type_name=next(types)) if p.constant else p for p in parts]


def _types(constants: list[Node]) -> list[str]:
    """Compute constants, as many at once as can be."""
    if not constants:
        return []
    if len(constants) <= sizes.CONSTANTS:
        try:
            texts = written(*constants)
            # In an aggregate: there DuckDB computes also what it leaves out elsewhere, as '' in 0 IN (0, '').
            ask(f"SELECT min(hash({texts})) FROM (VALUES (1))")
            return types_of_constants(texts)
        except duckdb.Error as error:
            if len(constants) == 1:
                raise Unsafe(constants[0], f"cannot be computed: {said(error)}") from None
    half = len(constants) // 2
    return _types(constants[:half]) + _types(constants[half:])


def _part(node: Node, parts: list[Part]) -> Part:
    try:
        match node["class"], node["type"]:
            case "FUNCTION", _:
                name = node["function_name"].lower()
                part = FORMS[name](node, name, parts)
                if (bits := FUNCTIONS[name]["bits"]) and part.type_name in SPANS:
                    return replace(part, within=(-(2 ** int(bits)), 2 ** int(bits)))
                return part
            case "CAST", _:
                if _cast(node) == "JSON" and parts[0].type_name == "VARCHAR":
                    return document(parts[0])
                if parts[0].type_name != _cast(node):
                    return tried(parts[0], _cast(node))
                return replace(parts[0], node=with_children(node, [parts[0].node]) | {"try_cast": True})
            case ("CONJUNCTION", _) | (_, "OPERATOR_NOT"):
                return Part(with_children(node, [tried(p, "BOOLEAN").node for p in parts]), "BOOLEAN")
            case _, "OPERATOR_IS_NULL" | "OPERATOR_IS_NOT_NULL":
                return Part(with_children(node, [p.node for p in parts]), "BOOLEAN")
            case _, "OPERATOR_TRY":
                return parts[0]
            case _, "ARRAY_EXTRACT" | "ARRAY_SLICE" | "STRUCT_EXTRACT":
                return _extracted(node, parts)
        return plain(node, "", parts)
    except DoesNotBind as error:
        raise Unsafe(node, f"does not fit its columns: {error}") from None


def _cast(node: Node) -> str:
    try:
        kind = type_of(f"CAST(NULL AS {cast_type(node)})")
    except DoesNotBind:
        raise Unsafe(node, "casts to a type that is not known") from None
    if kind.partition("(")[0] not in TYPES:
        raise Unsafe(node, f"casts to {kind.partition('(')[0]}, which is not available here")
    return kind


def _extracted(node: Node, parts: list[Part]) -> Part:
    if parts[0].type_name in ("JSON", "VARIANT"):
        raise Unsafe(node, "takes a part of JSON; write json_extract(..., '$.name') for it")
    if parts[0].type_name.startswith("MAP("):
        return plain(node, "", parts)  # what is given is a key
    places = [place(p) for p in parts[1:]]
    if len(places) == 3:  # a slice in steps
        places[2] = not_zero(places[2])
    return plain(node, "", [parts[0], *places])


def _if(node: Node, name: str, parts: list[Part]) -> Part:
    if len(parts) != 3:
        raise DoesNotBind("if takes a condition and two values")
    return plain(made("CASE WHEN _0 THEN _1 ELSE _2 END", *(p.node for p in parts)), name, parts)


def _if_null(node: Node, name: str, parts: list[Part]) -> Part:
    if len(parts) != 2:
        raise DoesNotBind("ifnull takes two values")
    return plain(made("COALESCE(_0, _1)", *(p.node for p in parts)), name, parts)


def _null_if(node: Node, name: str, parts: list[Part]) -> Part:
    if len(parts) != 2:
        raise DoesNotBind("nullif takes two values")
    same = plain(made("_0 = _1", *(p.node for p in parts)), name, parts)
    null = Part(made("NULL"), '"NULL"', constant=True)
    value = once(parts[0])
    form = made("CASE WHEN _0 THEN _1 ELSE _2 END", same.node, null.node, value.node)
    return plain(form, name, [same, null, value])


def _extreme(node: Node, name: str, parts: list[Part]) -> Part:
    """Compare two at a time: DuckDB cannot copy a plan where a column stands twice behind the first."""
    whole = plain(node, name, parts)
    values = children(whole.node)
    while len(values) > 2:
        pairs = [values[i : i + 2] for i in range(0, len(values), 2)]
        values = [made(f"{name}(_0, _1)", *pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return replace(whole, node=made(f"{name}({', '.join(['_0', '_1'][: len(values)])})", *values))


def _forms() -> Iterator[tuple[str, Form]]:
    """Yield the form of each function that an expression may call."""
    modules = {"": globals(), "arithmetic": vars(arithmetic), "times": vars(times), "texts": vars(texts)}
    for name, row in FUNCTIONS.items():
        module, _, function = row["form"].rpartition(".")
        fixed, places = (tuple(map(int, row[column].split())) for column in ("constants", "places"))
        if fixed:
            yield name, constants(*fixed, then=modules[module][function])
        elif function:
            yield name, placed(*places) if places else modules[module][function]


FORMS: dict[str, Form] = dict(_forms())
# Of constants alone, which are computed before a row is read: INTERVAL 3 MONTH is to_months(3).
OF_CONSTANTS = {
    "to_years", "to_quarters", "to_months", "to_weeks", "to_days", "to_hours", "to_minutes", "to_seconds",
    "to_milliseconds", "to_microseconds", "chr",
}  # fmt: skip
OPERATORS = {
    "COMPARE_IN", "COMPARE_NOT_IN", "OPERATOR_NOT", "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL",
    "OPERATOR_COALESCE", "OPERATOR_TRY", "ARRAY_EXTRACT", "ARRAY_SLICE", "STRUCT_EXTRACT",
}  # fmt: skip
