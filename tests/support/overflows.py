"""Overflows of arithmetic in SQL: ranges of all that a statement computes, in the plan that DuckDB binds.

`Overflows` walks that plan, in which every operation has the type that DuckDB gave it, with an interval for each
value. Columns of a table have the range of their type, or one that is known. A table has at most `ROWS` rows.
Tuples of every operator stand for different rows of it, so a value also has a bound for each such row: what is added
up over units and groups is no more than that bound times `ROWS`, however often it is added up, and no more than that
bound times `n` where the tuple has `n` rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil, floor, inf, isqrt, sqrt
from typing import Any

import duckdb

from sfumato.transformations.statistics.vector_sum import MAX_ENTRIES

ROWS = 1 << 34
BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}
INTEGERS = {name: (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) for name, bits in BITS.items()}
INTEGERS |= {"U" + name: (0, (1 << bits) - 1) for name, bits in BITS.items()}
# What a sum over all rows would be in: no statement needs an integer for less, and none is narrower.
NARROW = {name for name in INTEGERS if "BIG" not in name and "HUGE" not in name}
Node = dict[str, Any]


@dataclass(frozen=True)
class Range:
    """A number from `low` to `high`, and at most `each` for each row that it stands for; or what holds such.

    Args:
        low, high: the interval.
        each: at most so much for each row.
        item: of a list, what its entries are.
        fields: of a struct, what its fields are.
        counts: whether it is the number of rows that its tuple stands for.
    """

    low: float = -inf
    high: float = inf
    each: float = inf
    item: Range | None = None
    fields: Mapping[str, Range] = field(default_factory=dict)
    counts: bool = False

    @property
    def size(self) -> float:
        return max(abs(self.low), abs(self.high))

    def within(self, low: float, high: float) -> Range:
        if self.high < low or self.low > high:  # nothing is left: a branch that is never taken
            return replace(self, low=low, high=low)
        return replace(self, low=max(self.low, low), high=min(self.high, high))


def number(low: float, high: float, each: float = inf) -> Range:
    return Range(low, high, min(each, max(abs(low), abs(high))))


ROWS_OF_TUPLE = "rows"  # by which what is known of their number is found, beside expressions


def either(ranges: Sequence[Range]) -> Range:
    """Return what is one of some."""
    items = [one.item for one in ranges if one.item is not None]
    names = {name for one in ranges for name in one.fields}
    return Range(
        min(one.low for one in ranges),
        max(one.high for one in ranges),
        max(one.each for one in ranges),
        either(items) if items else None,
        {name: either([one.fields[name] for one in ranges if name in one.fields]) for name in names},
    )


def of_type(kind: Node) -> Range:
    """Return all values of a type."""
    name, inside = kind["id"], kind.get("type_info") or {}
    if name in ("LIST", "ARRAY"):
        return Range(item=of_type(inside["child_type"]))
    if name == "STRUCT":
        return Range(fields={one["first"]: of_type(one["second"]) for one in inside["child_types"]})
    return number(*INTEGERS.get(name, (-inf, inf)))


def bound_plan(connection: duckdb.DuckDBPyConnection, text: str) -> Node:
    """Return the plan of a statement as DuckDB binds it, before it is optimized."""
    (found,) = connection.execute("SELECT json_serialize_plan(?, optimize := false)", [text]).fetchall()
    answer = json.loads(found[0])
    assert not answer["error"], answer
    (plan,) = answer["plans"]
    return plan


def columns_of(connection: duckdb.DuckDBPyConnection, text: str) -> dict[str, str]:
    """Return the columns of a statement, with their types."""
    return {name: kind for name, kind, *_ in connection.execute(f"DESCRIBE {text}").fetchall()}


@dataclass
class Overflows:
    """What a statement can compute.

    Args:
        plan: as DuckDB binds it.
        tables: columns of tables that have less than all values of their types.
    """

    plan: Node
    tables: Mapping[str, Mapping[str, Range]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.found: set[str] = set()
        self.projected: dict[str, set[str]] = {}
        self._ctes: dict[int, list[Range]] = {}
        self.columns = self._operator(self.plan)

    def _operator(self, node: Node) -> list[Range]:
        """Return the columns of an operator."""
        kind = node["type"].removeprefix("LOGICAL_")
        if kind == "MATERIALIZED_CTE":
            definition, rest = node["children"]
            self._ctes[node["table_index"]] = self._operator(definition)
            return self._operator(rest)
        if kind == "CTE_REF":
            return self._ctes[node["cte_index"]]
        if kind == "GET":
            table = self.tables.get((node["function_data"] or {}).get("table", ""), {})
            types = dict(zip(node["names"], node["returned_types"], strict=True))
            names = [
                node["names"][i] for i in (one["index"] for one in node["column_indexes"]) if i < len(types)
            ]
            return [table.get(name, of_type(types[name])) for name in names] or [Range()]
        given = [self._operator(child) for child in node["children"]]
        row = [column for columns in given for column in columns]
        if kind == "PROJECTION":
            for expression in node["expressions"]:
                if expression["alias"]:
                    self.projected.setdefault(expression["alias"], set()).add(_written(_type(expression)))
            return self._all(node["expressions"], row)
        if kind == "AGGREGATE_AND_GROUP_BY":
            return [*self._all(node["groups"], row), *self._all(node["expressions"], row)]
        if kind in ("UNNEST", "WINDOW"):
            return [*row, *self._all(node["expressions"], row)]
        if kind in ("COMPARISON_JOIN", "ANY_JOIN", "CROSS_PRODUCT"):
            for one in node.get("conditions", []):
                for side, columns in zip(("left", "right"), given, strict=True):
                    self._value(one[side], columns, {})
            return given[0] if node.get("join_type") in ("SEMI", "ANTI") else row
        if kind == "UNION":
            return [either(columns) for columns in zip(*given, strict=True)]
        if kind in ("FILTER", "DISTINCT", "ORDER_BY", "LIMIT", "TOP_N", "DUMMY_SCAN"):
            self._all(node.get("expressions", []), row)
            return row or [Range()]
        raise NotImplementedError(kind)

    def _all(self, nodes: Sequence[Node], row: list[Range]) -> list[Range]:
        return [self._value(node, row, {}) for node in nodes]

    def _value(self, node: Node, row: list[Range], narrowed: Mapping[str, Range]) -> Range:
        """Return what an expression can be, where some expressions are known to be within a range."""
        found = self._computed(node, row, narrowed)
        known = narrowed.get(_key(node)) if narrowed else None
        found = found if known is None else found.within(known.low, known.high)
        if (rows := narrowed.get(ROWS_OF_TUPLE)) is not None and _type(node)["id"] in INTEGERS:
            found = found.within(-_times(found.each, rows.high), _times(found.each, rows.high))
        limits = INTEGERS.get(_type(node)["id"])
        if limits is None:
            return found
        if not limits[0] <= found.low <= found.high <= limits[1]:
            if not _is_silent(node):
                self.found.add(f"{_name(node)} of {_type(node)['id']}: {found.low} to {found.high}")
            found = found.within(*limits)
        return replace(found, each=min(found.each, found.size))

    def _computed(self, node: Node, row: list[Range], narrowed: Mapping[str, Range]) -> Range:
        kind, name = node["expression_class"], _name(node)

        def value(one: Node, more: Mapping[str, Range] | None = None) -> Range:
            return self._value(one, row, narrowed if more is None else more)

        if kind == "BOUND_CONSTANT":
            given = node["value"]
            if given["is_null"] or not isinstance(given.get("value"), int | float | dict):
                return of_type(given["type"]) if not given["is_null"] else Range(0, 0, 0)
            constant = given["value"]
            if given["type"]["id"] == "DECIMAL":
                constant = constant / 10 ** given["type"]["type_info"]["scale"]
            if isinstance(constant, dict):  # of 128 bits
                if "upper" not in constant:
                    return of_type(given["type"])
                constant = (constant["upper"] << 64) + constant["lower"]
            return number(constant, constant)
        if kind == "BOUND_REF":
            return row[node["index"]]
        if kind == "BOUND_CASE":
            branches, left = [], dict(narrowed)
            for check in node["case_checks"]:
                value(check["when_expr"], left)
                branches += [value(check["then_expr"], left | one) for one in self._cases(check, row, left)]
                left |= _narrowed(check["when_expr"], partial(value, more=left), left, negated=True)
            branches.append(value(node["else_expr"], left))
            return either([one for one in branches if one != Range(0, 0, 0)] or branches)
        if kind == "BOUND_UNNEST":
            return value(node["child"]).item or Range()
        if kind in ("BOUND_LAMBDA", "BOUND_PARAMETER"):
            return Range()
        if kind == "BOUND_WINDOW":
            for one in node.get("children", []):
                value(one)
            return number(1, ROWS, 1) if "ROW_NUMBER" in node["type"] else of_type(_type(node))
        children, before = node.get("children", []), set(self.found)
        given = [value(one) for one in children]
        if name == "OPERATOR_TRY":  # what cannot be computed in it is NULL
            self.found = before
            return given[0]
        if name in ("list_transform", "list_filter"):
            body = children[1]["lambda_expr"]
            inside = self._value(body, [given[0].item or Range(), *given[2:]], {})
            return replace(given[0], item=inside if name == "list_transform" else given[0].item)
        if name == "struct_pack":
            return Range(fields=dict(zip(_fields(node), given, strict=True)))
        if name == "struct_extract":
            return given[0].fields.get(children[1]["value"]["value"], of_type(_type(node)))
        if _type(node)["id"] == "BOOLEAN":
            return Range()
        made = MEANINGS.get(name)
        if made is None:
            if _type(node)["id"] in INTEGERS:
                raise NotImplementedError(name)
            return of_type(_type(node))
        if name == "count_star" and not node.get("filter"):
            return Range(0, ROWS, 1, counts=True)
        if name == "list_aggr" and children[1]["value"]["value"] != "sum":
            return COUNT()
        if name == "*" and _key(children[0]) == _key(children[1]):
            return number(0, _times(given[0].size, given[0].size))
        return made(*given)

    def _cases(self, check: Node, row: list[Range], before: Mapping[str, Range]) -> list[dict[str, Range]]:
        """Return what is known in a branch: of each condition, where it takes one of several."""
        condition = check["when_expr"]
        several = condition["children"] if condition["type"] == "CONJUNCTION_OR" else [condition]
        return [_narrowed(one, lambda node: self._value(node, row, before), before) for one in several]


def narrow_arithmetic(plan: Any) -> Iterator[str]:
    """Yield operations on integers that compute in fewer than 64 bits."""
    for node in expressions(plan):
        if _name(node) in ARITHMETIC and _type(node)["id"] in NARROW:
            yield f"{_name(node)} of {_type(node)['id']}"


def expressions(plan: Any) -> Iterator[Node]:
    """Yield all expressions of a plan."""
    for inside in plan.values() if isinstance(plan, dict) else plan if isinstance(plan, list) else ():
        yield from expressions(inside)
    if isinstance(plan, dict) and "expression_class" in plan:
        yield plan


def _type(node: Node) -> Node:
    # Conditions are of no stated type.
    return node.get("return_type") or (node.get("value") or {}).get("type") or {"id": "BOOLEAN"}


def _written(kind: Node) -> str:
    """Return a type as DESCRIBE writes it."""
    inside = kind.get("type_info") or {}
    if kind["id"] == "LIST":
        return f"{_written(inside['child_type'])}[]"
    if kind["id"] == "STRUCT":
        parts = [f"{one['first']} {_written(one['second'])}" for one in inside["child_types"]]
        return f"STRUCT({', '.join(parts)})"
    return str(kind["id"])


def _name(node: Node) -> str:
    path = (node.get("qname") or {}).get("path")
    return path[-1] if path else node["type"]


def _fields(node: Node) -> list[str]:
    return [one["first"] for one in _type(node)["type_info"]["child_types"]]


def _is_silent(node: Node) -> bool:
    """Whether what does not fit becomes NULL."""
    return bool((node.get("function_data") or {}).get("try_cast"))


LEFT_OUT = ("alias", "query_location", "query_location_length", "return_type", "arguments", "key")


def _key(node: Any) -> str:
    """Return the same text for equal expressions, of whichever type they are cast to."""
    if isinstance(node, list):
        return f"[{', '.join(map(_key, node))}]"
    if not isinstance(node, dict):
        return str(node)
    if "expression_class" not in node:
        return str([(name, _key(one)) for name, one in node.items() if name not in LEFT_OUT])
    if "key" not in node:
        if node["expression_class"] == "BOUND_REF":
            node["key"] = f"#{node['index']}"
        elif _name(node) == "__cast" and not _is_silent(node):
            node["key"] = _key(node["children"][0])
        else:
            node["key"] = str([(name, _key(one)) for name, one in node.items() if name not in LEFT_OUT])
    return node["key"]


# Comparisons, as what they say of the left side, where they hold and where they do not.
OPPOSITE = {"<=": ">", ">": "<=", "<": ">=", ">=": "<", "=": "<>", "<>": "="}


def _narrowed(
    condition: Node, value: Callable[[Node], Range], before: Mapping[str, Range], *, negated: bool = False
) -> dict[str, Range]:
    """Return ranges of expressions where a condition is true, or where it is not."""
    kind = condition["type"]
    if (kind == "CONJUNCTION_AND" and not negated) or (kind == "CONJUNCTION_OR" and negated):
        found = dict(before)
        for one in condition["children"]:
            found |= _narrowed(one, value, found, negated=negated)
        return found
    if kind == "COMPARE_BETWEEN":
        return {} if negated else _between(condition, value, before)
    name = _name(condition)
    if name not in OPPOSITE:
        return {}
    name = OPPOSITE[name] if negated else name
    left, right = condition["children"]
    limit, key = value(right), _key(left)
    known, compared = before.get(key, Range()), value(left)
    low, high = {
        "<=": (-inf, limit.high), "<": (-inf, limit.high - 1), ">=": (limit.low, inf), ">": (limit.low + 1, inf),
        "=": (limit.low, limit.high), "<>": (-inf, inf),
    }[name]  # fmt: skip
    if _type(left)["id"] in ("DOUBLE", "FLOAT"):
        low, high = (limit.low if low > -inf else low), (limit.high if high < inf else high)
    found = {key: known.within(low, high)}
    if _name(left) == "abs" and high < inf:
        inside = _key(left["children"][0])
        found[inside] = before.get(inside, Range()).within(-high, high)
    return found | ({ROWS_OF_TUPLE: Range(0, high)} if compared.counts and high < inf else {})


def _between(node: Node, value: Callable[[Node], Range], before: Mapping[str, Range]) -> dict[str, Range]:
    """Return the range of what is between two others."""
    one, low, high = node["children"]
    return {_key(one): before.get(_key(one), Range()).within(value(low).low, value(high).high)}


def _times(a: float, b: float) -> float:
    return 0 if not a or not b else a * b


def _product(a: Range, b: Range) -> Range:
    ends = [_times(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return number(min(ends), max(ends), min(_times(a.each, b.size), _times(b.each, a.size)))


def _sum(a: Range, b: Range) -> Range:
    return number(a.low + b.low, a.high + b.high, a.each + b.each)


def _difference(a: Range, b: Range | None = None) -> Range:
    if b is None:
        return number(-a.high, -a.low, a.each)
    return number(a.low - b.high, a.high - b.low, a.each + b.each)


def _quotient(a: Range, b: Range) -> Range:
    """Of whole numbers; what is divided by 0 is NULL."""
    by = max(b.low, 1)
    if inf in (a.size, b.size) or b.low < 0:
        return number(-a.size, a.size, a.each)
    least, most = ((1 if end > 0 else -1) * (abs(int(end)) // int(by)) for end in (a.low, a.high))
    if b.counts:  # of as many rows as it is divided by
        least, most = max(least, -a.each), min(most, a.each)
    each = a.each if a.each == inf else -(-int(a.each) // int(by))
    return number(min(least, 0), max(most, 0), each)


def _added_up(a: Range) -> Range:
    low, high = min(a.low, 0) and -_times(a.each, ROWS), max(a.high, 0) and _times(a.each, ROWS)
    return replace(number(low, high), each=a.each, counts=a.counts)


def _real(function: Callable[[float], float]) -> Callable[..., Range]:
    def made(a: Range, *_: Range) -> Range:
        return number(*(one if one in (inf, -inf) else function(one) for one in (a.low, a.high)))

    return made


def _shifted_left(a: Range, b: Range) -> Range:
    if a.low < 0 or b.low < 0:  # DuckDB raises where it shifts a negative number, or by one
        return number(-inf, inf)
    return number(0, int(a.high) << int(min(b.high, 200)))


def _root(a: float) -> float:
    return isqrt(int(a)) + 1 if a > 1 << 53 else sqrt(max(a, 0))


def _list_sum(a: Range, *_: Range) -> Range:
    item = a.item or Range()
    return number(*(_times(end, ENTRIES) for end in (item.low, item.high)))


ENTRIES = MAX_ENTRIES  # of a list that is added up
COUNT = lambda *_: number(0, ROWS, 1)  # noqa: E731
SAME = lambda a, *_: a  # noqa: E731
ARITHMETIC = {"+", "-", "*", "//", "%", "<<", ">>", "abs", "sum"}
MEANINGS: dict[str, Callable[..., Range]] = {
    "+": _sum, "-": _difference, "*": _product, "//": _quotient, "sum": _added_up, "sum_no_overflow": _added_up,
    "%": lambda a, b: number(0, b.high - 1) if a.low >= 0 else number(1 - b.size, b.size - 1),
    "<<": _shifted_left,
    ">>": lambda a, b: number(int(a.low) >> int(b.low), int(a.high) >> int(b.low)),
    "&": lambda a, b: number(0, max(min(a.high, b.high), 0)),
    "abs": lambda a: number(0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high)), a.size, a.each),
    "least": lambda *all_: number(
        min(one.low for one in all_), min(one.high for one in all_), max(one.each for one in all_)
    ),
    "greatest": lambda *all_: number(
        max(one.low for one in all_), max(one.high for one in all_), max(one.each for one in all_)
    ),
    "count": COUNT, "count_star": COUNT, "len": COUNT, "list_count": COUNT,
    "bit_count": lambda a: number(0, 64),
    "bit_or": lambda a: number(min(a.low, 0), (1 << int(a.high).bit_length()) - 1),
    "min": SAME, "max": SAME, "first": SAME, "any_value": SAME,
    "__cast": SAME, "OPERATOR_CAST": SAME, "OPERATOR_COALESCE": lambda *all_: either(all_), "coalesce": lambda *all_: either(all_),
    "round": _real(lambda x: floor(x + 0.5)), "floor": _real(floor), "ceil": _real(ceil), "sqrt": _real(_root),
    "/": lambda a, b: number(-inf, inf),
    "hash": lambda *_: number(*INTEGERS["UBIGINT"]),
    "array_extract": lambda a, *_: a.item or Range(), "list_extract": lambda a, *_: a.item or Range(),
    "list": lambda a, *_: Range(item=a), "list_value": lambda *all_: Range(item=either(all_) if all_ else None),
    "list_sort": SAME, "list_distinct": SAME, "flatten": lambda a: a.item or Range(),
    "list_aggr": _list_sum, "list_sum": _list_sum,
    "list_resize": lambda a, _, b: replace(a, item=b), "list_position": lambda *_: number(0, 1 << 20),
    "range": lambda *given: Range(item=number(0, max(one.high for one in given))),
    "unnest": lambda a, *_: a.item or Range(),
}  # fmt: skip
