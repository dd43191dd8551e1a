"""What DuckDB makes of one node over arguments of given types: its result's type and its implicit casts.

An implicit cast can fail on a row, and no text shows it. DuckDB tells of it in the plan that it has bound and
not yet optimized, so a node is bound alone, over columns `_0`, `_1` of its arguments' types.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import duckdb

from sfumato.dataclass import dataclass
from sfumato.dialect.overloads import functions
from sfumato.dialect.syntax_tree import (
    NULL,
    Node,
    NotSql,
    ask,
    children,
    column_node,
    descendants,
    parsed,
    said,
    with_children,
    written,
)
from sfumato.engines.duckdb.sanitized_columns import is_nested

# Of each type some are values.
_SAMPLES = ("1", "2020-01-01 00:00:00", "00:00:00", "1 day", "00000000-0000-0000-0000-000000000000", "[1]")
_SHORT = 500  # characters, and types: thousands of long ones, which anybody may send, fill memory


class DoesNotBind(Exception):
    """DuckDB has no such function for such types, or casts where it cannot be told to try."""


@dataclass(frozen=True)
class Bound:
    """A node as DuckDB understands it.

    Args:
        type_name: of the result.
        casts: by argument, the type that DuckDB casts it to before it is used.
    """

    type_name: str
    casts: dict[int, str]


def is_constant(node: Node) -> bool:
    """Whether a node sees no column."""
    return not any(n["class"] == "COLUMN_REF" for n in descendants(node))


def bound(text: str, types: tuple[str | None, ...]) -> Bound:
    """Bind an expression over `_0`, `_1`, and so on; what is short is remembered.

    Args:
        text: the expression.
        types: of the columns; None for one that is not used.
    Raises:
        DoesNotBind: with the reason.
    """
    return (_remembered if len(text) < _SHORT and len(types) < _SHORT else _bound)(text, types)


def _bound(text: str, types: tuple[str | None, ...]) -> Bound:
    given = ", ".join(f"CAST(NULL AS {kind}) AS _{i}" for i, kind in enumerate(types) if kind is not None)
    source = f"(SELECT {given or 'NULL AS none'})"
    try:
        ((_, type_name, *_),) = ask(f"DESCRIBE SELECT {text} FROM {source}")
        plan = json.loads(dict(ask(f"EXPLAIN (FORMAT json) SELECT {text} FROM {source}"))["logical_plan"])
        tree = parsed(f"SELECT {_expression(plan)}")[0]
    except duckdb.Error as error:
        raise DoesNotBind(said(error)) from None
    except NotSql:
        raise DoesNotBind("it cannot be judged; write it in another way") from None
    _check_overloads(tree, types)
    return Bound(str(type_name), _implicit_casts(tree))


_remembered = lru_cache(maxsize=4096)(_bound)


def _check_overloads(tree: Node, types: tuple[str | None, ...]) -> None:
    """Refuse a call of a function, as DuckDB has bound it, that this DuckDB has with other properties."""
    for node in descendants(tree):
        if node["class"] == "FUNCTION":
            given = [_type_in_plan(argument, types) for argument in children(node)]
            if why := functions().refusal(node["function_name"].lower(), given):
                raise DoesNotBind(why)


def _type_in_plan(node: Node, types: tuple[str | None, ...]) -> str | None:
    """Return the type of an argument, if the plan shows it."""
    if node["class"] == "COLUMN_REF":
        return types[int(node["column_names"][0][1:])]
    return cast_type(node) if node["class"] == "CAST" else None


def types_of_constants(texts: str) -> list[str]:
    """Return the types of expressions, with commas between, that see no column and have been computed."""
    return [str(type_name) for _, type_name, *_ in ask(f"DESCRIBE SELECT {texts}")]


def type_of(text: str, types: tuple[str | None, ...] = ()) -> str:
    """Return the type of an expression over `_0`, `_1`, and so on."""
    return bound(text, types).type_name


def check_cast(given: str, kind: str) -> None:
    """See that rows of one type can be cast to another: some casts stop at each row, whatever it holds.

    Args:
        given: the type of what is cast, which is no constant.
        kind: the type to which it is cast.
    Raises:
        DoesNotBind: they cannot; or what is made of JSON or of structs may be a map whose keys are no keys,
            at which DuckDB stops.
    """
    (_remembered_cast if len(given) + len(kind) < _SHORT else _check_cast)(given, kind)


def _check_cast(given: str, kind: str) -> None:
    from_json = "JSON" in given and is_nested(kind)
    if from_json or ("MAP(" in kind and "MAP(" not in given and given != "VARCHAR"):
        raise DoesNotBind(f"{given} is never read as {kind} here")
    try:
        ask(f"SELECT hash(TRY_CAST(_0 AS {kind})) FROM (VALUES (CAST(NULL AS {given}))) AS rows(_0)")
    except duckdb.Error:
        raise DoesNotBind(f"{given} is never read as {kind} here") from None
    if is_missing_cast(given, kind):  # which TRY_CAST would make NULL in every row
        raise DoesNotBind(
            f"DuckDB has no cast from {given} to {kind}; cast to another type first, or leave it out"
        )


def is_missing_cast(given: str, kind: str) -> bool:
    """Whether DuckDB lacks a cast, as far as a value of the type tells."""
    for text in _SAMPLES:
        try:
            ask(f"SELECT hash(CAST(_0 AS {kind})) FROM (VALUES (CAST('{text}' AS {given}))) AS rows(_0)")
        except duckdb.Error as error:
            if "Unimplemented type for cast" in str(error) and "VARCHAR ->" not in str(error):
                return True
    return False


_remembered_cast = lru_cache(maxsize=4096)(_check_cast)


def _expression(plan: list[dict[str, Any]]) -> str:
    found: Any = plan[0]["extra_info"]["Expressions"]
    # One expression is asked for; it is cut where a constant in it has a line break.
    return found if isinstance(found, str) else "\n".join(found)


def _implicit_casts(tree: Node) -> dict[int, str]:
    casts: dict[int, str] = {}
    constants: list[Node] = []
    plain: set[int] = set()
    under_cast: set[int] = set()
    for node in descendants(tree):
        if node["class"] == "CAST" and not node["try_cast"]:
            child = node["child"]
            if child["class"] == "COLUMN_REF":
                number, kind = int(child["column_names"][0][1:]), cast_type(node)
                under_cast.add(id(child))
                if casts.setdefault(number, kind) != kind:
                    raise DoesNotBind("its arguments are of several types; cast them to one")
            elif is_constant(child):
                constants.append(node)
            else:
                raise DoesNotBind("it casts inside, where a value may not fit; write the cast, and in parts")
        elif node["class"] == "COLUMN_REF" and id(node) not in under_cast:
            plain.add(int(node["column_names"][0][1:]))
    if plain & casts.keys():
        raise DoesNotBind("its arguments are of several types; cast them to one")
    _compute(constants)
    return casts


def _compute(casts: list[Node]) -> None:
    """See that constants fit the types to which DuckDB casts them."""
    if not casts:
        return
    try:
        ask(f"SELECT hash({written(*casts)})")
    except duckdb.Error:
        if len(casts) == 1:
            (cast,) = casts
            raise DoesNotBind(f"{written(cast['child'])} is no {cast_type(cast)}") from None
        half = len(casts) // 2
        _compute(casts[:half])
        _compute(casts[half:])


def cast_type(node: Node) -> str:
    """Return the type that a cast names, as it is written."""
    text = written(node | {"child": NULL, "try_cast": False})
    return text.removeprefix("CAST(NULL AS ").removesuffix(")")


def local(node: Node, constants: Sequence[bool]) -> str:
    """Return the text of a node over `_0`, `_1` in the place of each child that is no constant."""
    parts = [
        child if constant else column_node(f"_{i}")
        for i, (child, constant) in enumerate(zip(children(node), constants, strict=True))
    ]
    return written(with_children(node, parts))
