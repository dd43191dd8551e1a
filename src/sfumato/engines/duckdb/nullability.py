"""Which columns a condition leaves without NULL and NaN, and which expressions never have either.

No privacy rests on this: where a value is missing that was thought not to be, a row adds no more than others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, reduce
from typing import Any

import duckdb

from sfumato.dataclass import dataclass
from sfumato.dialect.syntax_tree import Node, ask, children, descendants, write_sql
from sfumato.engines.duckdb.expressions.safe_parts import SPANS, cast_type, fits
from sfumato.query.schema import FLOATS, Column, Kind
from sfumato.sql_text import same_name

# What is known of a column: that it is not NULL, or that it is not NaN.
Facts = frozenset[tuple[str, str]]
_NOT_NULL, _NOT_NAN = "not NULL", "not NaN"
_NONE: Facts = frozenset()
_FOLLOWS = ("value", "true", "false", "number")

# Functions that are NULL wherever an argument is, and nowhere else; and functions that may be elsewhere.
_NULL_WITH = (
    "~~ !~~ ~~* !~~* contains starts_with ^@ prefix ends_with suffix length len strlen lower lcase upper "
    "ucase isfinite isinf isnan"
)
_NULL_ELSEWHERE = (
    "+ add - subtract * multiply // divide % mod / ** ^ pow power @ abs sign round trunc ceil ceiling floor "
    "sqrt exp ln log log10 log2 trim ltrim rtrim left right substr substring replace like_escape "
    "ilike_escape regexp_matches regexp_full_match instr strpos year month day hour minute second quarter "
    "week dayofweek isodow dayofyear date_part datepart date_trunc datetrunc date_diff datediff epoch "
    "last_day"
)
_TOTAL = frozenset(_NULL_WITH.split(" "))
STRICT = _TOTAL | frozenset(_NULL_ELSEWHERE.split(" "))
_ARITHMETIC = ("+", "-", "*", "//", "%")  # whose type, of whole numbers, holds every result
# Comparisons that are false where the other is true, as NaN is above all numbers and equal to itself.
_OPPOSITE = {"LESSTHAN": "GREATERTHANOREQUALTO", "GREATERTHAN": "LESSTHANOREQUALTO", "EQUAL": "NOTEQUAL"}
_OPPOSITE |= {other: one for one, other in _OPPOSITE.items()}


@dataclass(frozen=True)
class _Part:
    """What follows from the value of a part of an expression, and what it takes for it to have one.

    Args:
        value, true, false, other: what holds where it is not NULL; is true; is false; is false or NULL.
        number: what holds where it is neither NULL nor NaN.
        null, nan: what must hold for it not to be NULL, and not to be NaN; None where nothing is enough.
        kind: its type, where that is known and matters.
        empty: whether it is the constant NULL.
    """

    value: Facts = _NONE
    true: Facts = _NONE
    false: Facts = _NONE
    other: Facts = _NONE
    number: Facts = _NONE
    null: Facts | None = None
    nan: Facts | None = None
    kind: str = ""
    empty: bool = False

    def given(self, facts: Facts) -> _Part:
        """Return the part of a CASE that is reached only where facts hold."""
        known: dict[str, Any] = {name: getattr(self, name) | facts for name in _FOLLOWS}
        needed: dict[str, Any] = {
            name: None if (of := getattr(self, name)) is None else of - facts for name in ("null", "nan")
        }
        return replace(self, **known, **needed)


def complete_columns(condition: Node, columns: Mapping[str, Column]) -> frozenset[str]:
    """Return the columns that have a value, neither NULL nor NaN, wherever a condition is true.

    Args:
        condition: a total expression.
        columns: all that it may use.
    """
    known = _known(condition, columns).true
    return frozenset(
        name
        for name, column in columns.items()
        if (same_name(name), _NOT_NULL) in known
        and (column.type_name not in FLOATS or (same_name(name), _NOT_NAN) in known)
    )


def may_be_missing(value: Node, type_name: str, columns: Mapping[str, Column]) -> bool:
    """Whether a total expression may be NULL or NaN, as far as its parts and columns tell."""
    known = _known(value, columns)
    return known.null != _NONE or (type_name in FLOATS and known.nan != _NONE)


def _known(tree: Node, columns: Mapping[str, Column]) -> _Part:
    schema = {same_name(name): column for name, column in columns.items()}
    found: dict[int, tuple[_Part, bool]] = {}
    # Parents come before their children, so backwards each part is told from parts that are.
    for node in reversed(list(descendants(tree))):
        below = [found[id(child)] for child in children(node)]
        kind, parts = node["class"], [part for part, _ in below]
        constant = kind == "CONSTANT" or (kind in _FORMS and all(is_constant for _, is_constant in below))
        if kind == "COLUMN_REF":
            part = _column(node, schema)
        elif constant:
            part = _constant(node)
        else:
            part = _FORMS[kind](node, parts) if kind in _FORMS else _Part()
        found[id(node)] = part, constant
    return found[id(tree)][0]


def _column(node: Node, schema: Mapping[str, Column]) -> _Part:
    name, *fields = map(same_name, node["column_names"])
    value = frozenset([(name, _NOT_NULL)])
    if fields:
        return _Part(value)
    column = schema[name]
    number = value | {(name, _NOT_NAN)}
    return _Part(
        value,
        value,
        value,
        number=number,
        null=None if column.kind is Kind.OPAQUE else value if column.missing else _NONE,
        nan=number - value if column.missing and column.type_name in FLOATS else _NONE,
        kind=column.type_name,
    )


def _constant(node: Node) -> _Part:
    kind = cast_type(node) if node["class"] == "CAST" else ""
    if node["class"] == "CONSTANT":
        text = None if node["literal"].get("kind") == "NULL_LITERAL" else str(node["literal"].get("text"))
    else:
        text = _print_constant(write_sql(node))
    if text is None:
        return _Part(empty=True)
    return _Part(null=_NONE, nan=None if "nan" in text.casefold() else _NONE, kind=kind)  # 'nan' is a number


@lru_cache(maxsize=1024)
def _print_constant(constant: str) -> str | None:
    """Return a constant as DuckDB prints it; None where it is NULL, or NULL in the place of an error."""
    with suppress(duckdb.Error):
        ((text,),) = ask(f"SELECT CAST(TRY({constant}) AS VARCHAR)")
        return None if text is None else str(text)
    return None


def _any(facts: Iterable[Facts]) -> Facts:
    return reduce(frozenset.union, facts, _NONE)


def _each(facts: Iterable[Facts]) -> Facts:
    found = list(facts)
    return reduce(frozenset.intersection, found) if found else _NONE


def _all(needed: Iterable[Facts | None]) -> Facts | None:
    """Return all that several parts need together."""
    found = list(needed)
    return None if None in found else _any(one for one in found if one is not None)


def _least(needed: Iterable[Facts | None]) -> Facts | None:
    """Return what one of several parts needs."""
    return min((one for one in needed if one is not None), key=len, default=None)


def _merge_cases(parts: list[_Part], null: Facts | None) -> _Part:
    """Return what is known of a value that is that of one of several parts."""
    some = [part for part in parts if not part.empty]
    kinds = {part.kind for part in some}
    known: dict[str, Any] = {name: _each(getattr(part, name) for part in some) for name in _FOLLOWS}
    nan, kind = _all(part.nan for part in some), kinds.pop() if len(kinds) == 1 else ""
    return _Part(**known, null=null, nan=nan, kind=kind, empty=not some)


def _case(node: Node, parts: list[_Part]) -> _Part:
    branches, before = [], _NONE
    for when, then in zip(parts[:-1:2], parts[1:-1:2], strict=True):
        branches.append(then.given(before | when.true))
        before |= when.other
    branches.append(parts[-1].given(before))
    return _merge_cases(branches, _all(part.null for part in branches))


def _cast(node: Node, parts: list[_Part]) -> _Part:
    (child,), kind = parts, cast_type(node)
    if child.kind == kind:
        return child
    exact = child.kind in SPANS or child.kind == "BOOLEAN" or child.kind.startswith("DECIMAL")
    whole = SPANS.get(child.kind) or ((0, 1) if child.kind == "BOOLEAN" else None)
    kept = fits(whole, kind) if whole and kind in SPANS else kind in FLOATS and exact
    kept = kept or (child.kind, kind) == ("FLOAT", "DOUBLE")
    of_float = child.kind in FLOATS and kind in FLOATS
    return _Part(
        child.value,
        child.value,
        child.value,
        number=child.number if of_float else child.value,
        null=child.null if kept else None,
        nan=child.nan if of_float else _NONE if exact or kind not in FLOATS else None,
        kind=kind,
    )


def _comparison(node: Node, parts: list[_Part]) -> _Part:
    how = node["type"].removeprefix("COMPARE_")
    if how not in _OPPOSITE:  # IS DISTINCT FROM, IS NOT DISTINCT FROM
        return _Part(null=_NONE, kind="BOOLEAN")
    value = _any(part.value for part in parts)
    true, false = (value | _compare(one, *parts) for one in (how, _OPPOSITE[how]))
    return _Part(value, true, false, null=_all(part.null for part in parts), kind="BOOLEAN")


def _compare(how: str, left: _Part, right: _Part) -> Facts:
    """Return what holds where a comparison is true, as NaN is above all numbers."""
    facts = _NONE
    if how == "LESSTHAN" or (how in ("LESSTHANOREQUALTO", "EQUAL") and right.nan == _NONE):
        facts |= left.number
    if how == "GREATERTHAN" or (how in ("GREATERTHANOREQUALTO", "EQUAL") and left.nan == _NONE):
        facts |= right.number
    return facts


def _between(node: Node, parts: list[_Part]) -> _Part:
    value, upper = parts[0], parts[2]
    true = _any(part.value for part in parts) | (value.number if upper.nan == _NONE else _NONE)
    return _Part(value.value, true, value.value, null=_all(part.null for part in parts), kind="BOOLEAN")


def _conjunction(node: Node, parts: list[_Part]) -> _Part:
    true, false = ([getattr(p, name) for p in parts if not p.empty] for name in ("true", "false"))
    other = [part.other for part in parts]
    is_and = node["type"] == "CONJUNCTION_AND"
    facts = (_any(true), _each(false), _each(other)) if is_and else (_each(true), _any(false), _any(other))
    null = _all(part.null for part in parts)
    return _Part(facts[0] & facts[1], *facts, null=null, kind="BOOLEAN")


def _operator(node: Node, parts: list[_Part]) -> _Part:
    first, null = parts[0], _all(part.null for part in parts)
    match node["type"]:
        case "OPERATOR_TRY":
            return first
        case "OPERATOR_NOT":
            return _Part(first.value, first.false, first.true, null=null, kind="BOOLEAN")
        case "OPERATOR_IS_NULL":
            return _Part(false=first.value, other=first.value, null=_NONE, kind="BOOLEAN")
        case "OPERATOR_IS_NOT_NULL":
            return _Part(true=first.value, null=_NONE, kind="BOOLEAN")
        case "OPERATOR_COALESCE":
            return _merge_cases(parts, _least(part.null for part in parts))
        case "COMPARE_IN" | "COMPARE_NOT_IN":
            equal = first.number if all(part.nan == _NONE for part in parts[1:]) else first.value
            true, false = first.value | equal, first.value
            if node["type"] == "COMPARE_NOT_IN":
                true, false = false, true
            return _Part(first.value, true, false, null=null, kind="BOOLEAN")
    return _Part()


def _function(node: Node, parts: list[_Part]) -> _Part:
    name = node["function_name"].lower()
    if name in ("greatest", "least"):
        return _merge_cases(parts, _least(part.null for part in parts))
    if name not in STRICT:
        return _Part()
    value, null = _any(part.value for part in parts), _all(part.null for part in parts)
    whole = name in _ARITHMETIC and all(part.kind in ("BIGINT", "HUGEINT") for part in parts)
    found = _Part(value, value, value, null=null if whole or name in _TOTAL else None)
    if name in ("isfinite", "isinf"):
        return replace(found, true=value | parts[0].number, kind="BOOLEAN")
    if name == "isnan":
        number, null = parts[0].number, parts[0].null
        # Where it is NULL, a column is: for others, as of a CASE without ELSE, this says nothing of NaN.
        other = frozenset(f for f in number if f[1] == _NOT_NAN and null == frozenset([(f[0], _NOT_NULL)]))
        return replace(found, false=value | number, other=other, kind="BOOLEAN")
    return replace(found, nan=_NONE, kind="HUGEINT") if whole else found


_FORMS: dict[str, Callable[[Node, list[_Part]], _Part]] = {
    "CASE": _case,
    "CAST": _cast,
    "COMPARISON": _comparison,
    "BETWEEN": _between,
    "CONJUNCTION": _conjunction,
    "OPERATOR": _operator,
    "FUNCTION": _function,
}
