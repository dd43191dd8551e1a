"""Expressions that cannot raise: each part in a form that gives NULL where DuckDB would stop.

DuckDB has TRY, but its optimizer moves expressions, also out of TRY, and a value that fails there costs a
hundred times what others cost. So nothing here rests on TRY: every cast, written or implicit, becomes
TRY_CAST, and what raises on some arguments is not given these. TRY around the whole is a second wall.

Whole numbers are computed in BIGINT or HUGEINT, whatever their columns are declared, by what each part can be
at most; only what HUGEINT does not hold is NULL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import duckdb

from sfumato.dialect.syntax_tree import (
    Node,
    ask,
    children,
    descendants,
    first_line_of_error,
    made,
    with_children,
    write_sql,
)
from sfumato.engines.duckdb.expressions import texts, times
from sfumato.engines.duckdb.expressions.safe_parts import (
    FUNCTIONS,
    SPANS,
    DoesNotBind,
    Form,
    Part,
    Span,
    Unsafe,
    cast_type,
    constants,
    document,
    fits,
    get_type,
    named,
    not_zero,
    once,
    over,
    place,
    placed,
    plain,
    tried,
    types_of_constants,
    understood,
)
from sfumato.query import sizes
from sfumato.query.schema import FLOATS, INTEGERS
from sfumato.sql_text import double
from sfumato.transformations.statistics.vector_sum import MAX_ENTRIES

# Types that a cast may name. Others hold others, grow, or crash on deep values (VARIANT).
TYPES = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER",
    "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL", "VARCHAR", "DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS",
    "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "TIME", "UUID", "JSON",
)  # fmt: skip

# How many characters a constant has that a function makes of others, and of how many parts it does.
_LONGEST, _LONGEST_LIST, _MAX_PARTS = 1 << 12, 1 << 16, 1000


def to_safe_form(tree: Node, type_of_column: Callable[[Node], str]) -> Part:
    """Return the total form of an expression whose parts are all admitted.

    Args:
        tree: as `syntax.parse_expressions` gives it.
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
            part = _part(node, _compute_constants(parts))
        made_of[id(node)] = part
    return _compute_constants([made_of[id(tree)]])[0]


def _check_constant(node: Node) -> None:
    """Refuse a constant that is long before it is part of a longer one: each step could multiply it."""
    if node["class"] == "CAST" and node["type_expr"]["type_name"].upper() != "INTERVAL":
        _cast(node)
    if len(node.get("literal", {}).get("text", "")) > _LONGEST:  # functions may copy it for each row
        raise Unsafe(node, f"has a text of more than {_LONGEST} characters")
    if node["class"] != "FUNCTION":
        return
    # It is written out once more with each function around it.
    if any(islice(descendants(node), _MAX_PARTS + 1, None)):
        raise Unsafe(node, f"computes a constant from more than {_MAX_PARTS} values")
    is_list = [
        one["class"] == "FUNCTION" and one["function_name"] == "list_value" for one in (node, *children(node))
    ]
    if is_list[0] and any(is_list[1:]):  # DuckDB takes long to bind deep ones
        raise Unsafe(node, "makes a list of lists, but a list must hold plain values")
    most = _LONGEST_LIST if is_list[0] else _LONGEST
    try:
        ((length,),) = ask(f"SELECT strlen(CAST({write_sql(node)} AS VARCHAR))")
    except duckdb.Error as error:
        raise Unsafe(node, f"cannot be computed: {first_line_of_error(error)}") from None
    if (length or 0) > most:
        raise Unsafe(node, f"makes a constant of more than {most} characters")


def _compute_constants(parts: list[Part]) -> list[Part]:
    """Compute the constants among parts, once, for their types and to see that they can be computed."""
    types = iter(_types([p.node for p in parts if p.constant]))
    return [replace(p, type_name=next(types)) if p.constant else p for p in parts]


def _types(constants: list[Node]) -> list[str]:
    """Compute constants, as many at once as can be."""
    if not constants:
        return []
    if len(constants) <= sizes.CONSTANTS:
        try:
            texts = write_sql(*constants)
            # In an aggregate: there DuckDB computes also what it leaves out elsewhere, as '' in 0 IN (0, '').
            ask(f"SELECT min(hash({texts})) FROM (VALUES (1))")
            return types_of_constants(texts)
        except duckdb.Error as error:
            if len(constants) == 1:
                raise Unsafe(constants[0], f"cannot be computed: {first_line_of_error(error)}") from None
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
                return _extract(node, parts)
        return plain(node, "", parts)
    except DoesNotBind as error:
        raise Unsafe(node, f"does not fit its columns: {error}") from None


def _cast(node: Node) -> str:
    try:
        kind = get_type(f"CAST(NULL AS {cast_type(node)})")
    except DoesNotBind:
        raise Unsafe(node, "casts to an unknown type") from None
    if kind.partition("(")[0] not in TYPES:
        raise Unsafe(node, f"casts to {kind.partition('(')[0]}, which is not available here")
    return kind


def _extract(node: Node, parts: list[Part]) -> Part:
    if parts[0].type_name in ("JSON", "VARIANT"):
        raise Unsafe(node, "takes a part of JSON. Write json_extract(..., '$.name') for it")
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


_NUMBER_LIST = re.compile(r"([^\[]+)\[\d*\]")
_NUMBERS = (*INTEGERS, *FLOATS, "DECIMAL", "BOOLEAN")
_NORMS = {
    "l1": "list_sum(list_transform(_0, lambda x: abs(x)))",
    "l2": "sqrt(list_sum(list_transform(_0, lambda x: x * x)))",
    "linf": "list_max(list_transform(_0, lambda x: abs(x)))",
}
_MAX_STEPS = 2.0**62  # of an entry
_MAX_EXPONENT = 900


def _vector(node: Node, name: str, parts: list[Part]) -> tuple[Node, int, Any]:
    """Return a list as DOUBLEs, how many entries a vector has, and the value of the last argument."""
    if len(parts) != 3 or not (parts[1].constant and parts[2].constant):
        raise DoesNotBind(f"{name} takes a list of numbers and two constants")
    held = _NUMBER_LIST.fullmatch(parts[0].type_name)
    if parts[0].constant or held is None or not held[1].startswith(_NUMBERS):
        raise Unsafe(parts[0].node, f"is not a column of lists of numbers, which {name} takes")
    ((length, last),) = ask(f"SELECT {parts[1].text}, {parts[2].text}")
    if type(length) is not int or not 1 <= length <= MAX_ENTRIES:
        raise Unsafe(parts[1].node, f"is not a number of entries from 1 to {MAX_ENTRIES:,}")
    return once(tried(parts[0], "DOUBLE[]")).node, length, last


def _if_vector(vector: Node, length: int, computed: str) -> Node:
    """Compute with a list that has so many numbers; NULL in the place of any other."""
    valid = f"len(_0) = {length} AND list_count(_0) = {length} AND NOT list_contains(_0, 'nan'::DOUBLE)"
    return made(f"CASE WHEN {valid} THEN {computed} END", vector)


def _norm(node: Node, name: str, parts: list[Part]) -> Part:
    vector, length, norm = _vector(node, name, parts)
    if norm not in _NORMS:
        raise Unsafe(parts[2].node, f"is no norm; {name} takes {', '.join(map(repr, _NORMS))}")
    return Part(_if_vector(vector, length, _NORMS[norm]), "DOUBLE")


def _steps(node: Node, name: str, parts: list[Part]) -> Part:
    vector, length, exponent = _vector(node, name, parts)
    if type(exponent) is not int or abs(exponent) > _MAX_EXPONENT:
        raise Unsafe(parts[2].node, f"is not an exponent of 2 from -{_MAX_EXPONENT} to {_MAX_EXPONENT}")
    scaled, most = f"x * {double(2.0**-exponent)}", double(_MAX_STEPS)
    steps = f"TRY_CAST(round(least(greatest({scaled}, -{most}), {most})) AS BIGINT)"
    kind = f"BIGINT[{length}]"
    return Part(
        _if_vector(vector, length, f"TRY_CAST(list_transform(_0, lambda x: {steps}) AS {kind})"), kind
    )


_HUGE = "HUGEINT"
_MIN, _MAX = SPANS[_HUGE]
# DuckDB has no literal of the smallest HUGEINT.
_MIN_SQL, _MAX_SQL = f"(-{_MAX}::HUGEINT - 1)", f"{_MAX}::HUGEINT"
_SIGNS = {
    "+": "+", "add": "+", "-": "-", "subtract": "-", "*": "*", "multiply": "*",
    "//": "//", "divide": "//", "%": "%", "mod": "%",
}  # fmt: skip


def _arithmetic(node: Node, name: str, parts: list[Part]) -> Part:
    moved = times.time_arithmetic(node, _SIGNS[name], parts)
    if moved is not None:
        return moved
    sign, result = _SIGNS[name], understood(node, parts).type_name
    if all(p.type_name in INTEGERS for p in parts):
        return _integer_arithmetic(sign, parts) if len(parts) == 2 else _sign_integer(sign, parts[0])
    if len(parts) == 1:
        return _absolute(node, name, parts)
    if sign == "//" or (sign == "%" and result not in FLOATS):
        parts = [parts[0], not_zero(parts[1])]
    if result.startswith("DECIMAL") and sign in ("+", "-", "*"):
        return _decimal_arithmetic(sign, parts)
    if result in FLOATS or result.startswith("DECIMAL"):
        return plain(node, name, parts)
    raise Unsafe(node, f"computes with {named(parts)}. Cast to BIGINT or DOUBLE first")


def _divide(node: Node, name: str, parts: list[Part]) -> Part:
    return times.time_arithmetic(node, "/", parts) or plain(node, name, parts)


def _integer_arithmetic(sign: str, parts: list[Part]) -> Part:
    """Compute with whole numbers in a type that holds every result; only beyond HUGEINT it is NULL."""
    spans = [_span(part) for part in parts]
    within = _reached(sign, *spans)
    kind = _narrowest(within, *spans)
    parts = [tried(part, kind) for part in parts]
    if sign in ("//", "%"):
        parts = [parts[0], _divisor(sign, parts[1], spans[1])]
    # DuckDB refuses a product that is the smallest HUGEINT, which is its own type's.
    if not fits(within, kind) or (sign == "*" and within[0] == _MIN):
        # As a lambda, so that no part stands twice: a product of many would double with each.
        text = f"list_reduce(list_pack(_0, _1), lambda l, r: {_guard(sign)})"
        return Part(made(text, *(part.node for part in parts)), kind)
    return tried(replace(over(f"_0 {sign} _1", *parts), within=within), _narrowest(within))


def _span(part: Part) -> Span:
    assert part.span is not None  # as it is a whole number
    return part.span


def _narrowest(*spans: Span) -> str:
    return "BIGINT" if all(fits(span, "BIGINT") for span in spans) else _HUGE


def _reached(sign: str, left: Span, right: Span) -> Span:
    """Return between what a sum, a difference, a product, a quotient or a remainder is.

    >>> _reached("*", (-128, 127), (-128, 127)), _reached("%", (-7, 100), (10, 10))
    ((-16256, 16384), (-7, 9))
    >>> _reached("//", (-7, 9), (2, 3)), _reached("//", (-7, 9), (-2, 3))
    ((-3, 4), (-9, 9))
    """
    (least, most), divisors = left, [abs(end) for end in right]
    if sign == "+":
        return least + right[0], most + right[1]
    if sign == "-":
        return least - right[1], most - right[0]
    if sign == "*":
        ends = [one * other for one in left for other in right]
        return min(ends), max(ends)
    if sign == "%":  # of the sign of what is divided
        rest = max(*divisors, 1) - 1
        return max(least, -rest) if least < 0 else 0, min(most, rest) if most > 0 else 0
    # DuckDB cuts quotients towards zero.
    smallest = 1 if right[0] <= 1 and right[1] >= -1 else min(divisors)
    if right[0] > 0:
        ends = [_cut(end, by) for end in left for by in right]
        return min(ends), max(ends)
    largest = max(abs(least), abs(most)) // smallest
    return -largest, largest


def _cut(dividend: int, divisor: int) -> int:
    whole = abs(dividend) // abs(divisor)
    return whole if (dividend < 0) == (divisor < 0) else -whole


def _divisor(sign: str, divisor: Part, span: Span) -> Part:
    """Return a divisor at which DuckDB does not stop: no zero, and no -1 of which remainders are taken."""
    least, most = span
    if sign == "%" and least <= -1 <= most:  # what is left is 0, as with 1
        return over("CASE WHEN _0 = -1 THEN 1 WHEN _0 <> 0 THEN _0 END", once(divisor))
    return not_zero(divisor) if least <= 0 <= most else divisor


def _guard(sign: str) -> str:
    """Return SQL of an operation on two HUGEINTs, l and r; NULL where HUGEINT does not hold the result."""
    least, most = _MIN_SQL, _MAX_SQL
    if sign == "+":
        return f"CASE WHEN l BETWEEN {least} - least(r, 0) AND {most} - greatest(r, 0) THEN l END + r"
    if sign == "-":
        return f"CASE WHEN l BETWEEN {least} + greatest(r, 0) AND {most} + least(r, 0) THEN l END - r"
    if sign == "//":  # beyond is the smallest over -1 alone
        return f"l // CASE WHEN r <> -1 OR l > {least} THEN r END"
    product = "abs(CAST(l AS DOUBLE) * CAST(r AS DOUBLE))"  # which tells most products without a division
    below = f"WHEN r < 0 THEN {most} // least(r, -1) ELSE {least} END"
    above = f"WHEN r < -1 THEN {least} // least(r, -2) ELSE {most} END"
    first = f"CASE WHEN r > 0 THEN {least} // greatest(r, 1) {below}"
    last = f"CASE WHEN r > 0 THEN {most} // greatest(r, 1) {above}"
    kept = f"CASE WHEN {product} < 1.71e38 AND l BETWEEN {first} AND {last} THEN l END"
    # DuckDB refuses a product that is the smallest HUGEINT, but not a sum.
    near = f"{kept} * (r - sign(r)) + {kept} * sign(r)"
    return f"CASE WHEN {product} < 1.7e38 THEN l * CASE WHEN {product} < 1.7e38 THEN r END ELSE {near} END"


def _sign_integer(sign: str, part: Part) -> Part:
    """Return a whole number, with its sign turned by "-"."""
    if sign == "+":
        return part
    (least, most), kind = _span(part), _narrowest(_span(part), (-_span(part)[1], -_span(part)[0]))
    wide = tried(part, kind)
    if -least > SPANS[kind][1]:
        wide, least = _above_least(wide), -_MAX
    return tried(replace(over("- _0", wide), within=(-most, -least)), _narrowest((-most, -least)))


def _above_least(part: Part) -> Part:
    """Return NULL in the place of the smallest HUGEINT, whose amount no HUGEINT holds."""
    return over(f"CASE WHEN _0 > {_MIN_SQL} THEN _0 END", once(part))


def _decimal_arithmetic(sign: str, parts: list[Part]) -> Part:
    held = [found for p in parts if (found := p.digits) is not None]
    if len(held) == 2:
        (i0, s0), (i1, s1) = held
        if sign == "*" and i0 + s0 + i1 + s1 <= 38:
            first = i0 + s0
            if first + i1 + s1 > 18:  # more than the 64 bits in which DuckDB may compute
                first = 38 - i1 - s1
            return over("_0 * _1", _decimal(parts[0], first, s0), _decimal(parts[1], i1 + s1, s1))
        scale, whole = max(s0, s1), max(i0, i1) + 1
        if sign != "*" and whole + scale <= 38:
            return over(f"_0 {sign} _1", *(_decimal(p, whole + scale, scale) for p in parts))
    return over(f"_0 {sign} _1", *(tried(p, "DOUBLE") for p in parts))


def _decimal(part: Part, width: int, scale: int) -> Part:
    return tried(part, f"DECIMAL({width},{scale})")


def _absolute(node: Node, name: str, parts: list[Part]) -> Part:
    if parts[0].type_name == "UHUGEINT":
        raise Unsafe(node, "computes with UHUGEINT. Cast to HUGEINT or DOUBLE first")
    if len(parts) != 1 or parts[0].type_name not in INTEGERS:
        return plain(node, name, parts)
    (part,) = parts
    least, most = _span(part)
    within = max(least, -most, 0), max(-least, most)
    kind = _narrowest(within, (least, most))
    wide = tried(part, kind)
    if not fits(within, kind):
        wide, within = _above_least(wide), (within[0], _MAX)
    return tried(replace(over("abs(_0)", wide), within=within), _narrowest(within))


def _bit_count(node: Node, name: str, parts: list[Part]) -> Part:
    """Count bits: DuckDB counts in TINYINT, in which the 128 of a HUGEINT are -128."""
    counted = plain(node, name, parts)
    return counted if counted.type_name != "TINYINT" else over("CAST(_0 AS SMALLINT) & 255", counted)


def _bit_arithmetic(node: Node, name: str, parts: list[Part]) -> Part:
    if any(p.type_name == "BIT" for p in parts):
        raise Unsafe(node, f"uses {name} on BIT, which takes two of the same length. Cast to BIGINT first")
    return plain(node, name, parts)


def _round(node: Node, name: str, parts: list[Part]) -> Part:
    if len(parts) == 1 or parts[0].type_name in FLOATS:
        return plain(node, name, parts)
    ((places,),) = ask(f"SELECT TRY_CAST({parts[1].text} AS INTEGER)")
    if places is None or abs(places) > 40:
        raise Unsafe(parts[1].node, "is not a number of digits from -40 to 40")
    if parts[0].type_name in INTEGERS:
        return _round_integer(node, name, parts, max(-places, 0))
    return plain(node, name, parts if places >= 0 else [tried(parts[0], "DOUBLE"), parts[1]])


def _round_integer(node: Node, name: str, parts: list[Part], zeros: int) -> Part:
    """Round a whole number to so many zeros, which may lead beyond its type."""
    (least, most), step = _span(parts[0]), 10**zeros
    within = (least, most) if name.startswith("trunc") else (least - step // 2, most + step // 2)
    kind = _narrowest(within)
    wide = tried(parts[0], kind)
    if not fits(within, kind):
        away = name == "round"  # a half goes away from zero, or to what is even
        last, first = (min(end, end // step * step + step // 2 - away) for end in (_MAX, -_MIN))
        lowest = _MIN_SQL if first == -_MIN else f"{-first}::HUGEINT"
        wide = over(f"CASE WHEN _0 BETWEEN {lowest} AND {last}::HUGEINT THEN _0 END", once(wide))
        within = _MIN, _MAX
    return tried(replace(plain(node, name, [wide, parts[1]]), within=within), _narrowest(within))


def _forms() -> Iterator[tuple[str, Form]]:
    """Yield the form of each function that an expression may call."""
    modules = {"": globals(), "times": vars(times), "texts": vars(texts)}
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
