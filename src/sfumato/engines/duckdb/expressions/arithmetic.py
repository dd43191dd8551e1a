"""Safe forms of arithmetic: whole numbers, decimals, floats, and lists of numbers as vectors.

Whole numbers are computed in BIGINT or HUGEINT, whatever their columns are declared, by what each part can be
at most; only what HUGEINT does not hold is NULL.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from sfumato.dialect.syntax_tree import Node, ask, made
from sfumato.engines.duckdb.expressions.safe_parts import (
    SPANS,
    DoesNotBind,
    Part,
    Span,
    Unsafe,
    fits,
    named,
    not_zero,
    once,
    over,
    plain,
    tried,
    understood,
)
from sfumato.engines.duckdb.expressions.times import time_arithmetic
from sfumato.query.schema import FLOATS, INTEGERS
from sfumato.sql_text import double
from sfumato.transformations.statistics.vector_sum import MAX_ENTRIES

_NUMBER_LIST = re.compile(r"([^\[]+)\[\d*\]")
_NUMBERS = (*INTEGERS, *FLOATS, "DECIMAL", "BOOLEAN")
_NORMS = {
    "l1": "list_sum(list_transform(_0, lambda x: abs(x)))",
    "l2": "sqrt(list_sum(list_transform(_0, lambda x: x * x)))",
    "linf": "list_max(list_transform(_0, lambda x: abs(x)))",
}
_MOST_STEPS = 2.0**62  # of an entry
_MOST_EXPONENT = 900


def _vector(node: Node, name: str, parts: list[Part]) -> tuple[Node, int, Any]:
    """Return a list as DOUBLEs, how many entries a vector has, and the value of the last argument."""
    if len(parts) != 3 or not (parts[1].constant and parts[2].constant):
        raise DoesNotBind(f"{name} takes a list of numbers and two constants")
    held = _NUMBER_LIST.fullmatch(parts[0].type_name)
    if parts[0].constant or held is None or not held[1].startswith(_NUMBERS):
        raise Unsafe(parts[0].node, f"is no column of lists of numbers, which {name} takes")
    ((length, last),) = ask(f"SELECT {parts[1].text}, {parts[2].text}")
    if type(length) is not int or not 1 <= length <= MAX_ENTRIES:
        raise Unsafe(parts[1].node, f"is no number of entries from 1 to {MAX_ENTRIES:,}")
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
    if type(exponent) is not int or abs(exponent) > _MOST_EXPONENT:
        raise Unsafe(parts[2].node, f"is no exponent of 2 from -{_MOST_EXPONENT} to {_MOST_EXPONENT}")
    scaled, most = f"x * {double(2.0**-exponent)}", double(_MOST_STEPS)
    steps = f"TRY_CAST(round(least(greatest({scaled}, -{most}), {most})) AS BIGINT)"
    kind = f"BIGINT[{length}]"
    return Part(
        _if_vector(vector, length, f"TRY_CAST(list_transform(_0, lambda x: {steps}) AS {kind})"), kind
    )


_HUGE = "HUGEINT"
_LEAST, _MOST = SPANS[_HUGE]
# DuckDB has no literal of the smallest HUGEINT.
_LEAST_SQL, _MOST_SQL = f"(-{_MOST}::HUGEINT - 1)", f"{_MOST}::HUGEINT"
_SIGNS = {
    "+": "+", "add": "+", "-": "-", "subtract": "-", "*": "*", "multiply": "*",
    "//": "//", "divide": "//", "%": "%", "mod": "%",
}  # fmt: skip


def _arithmetic(node: Node, name: str, parts: list[Part]) -> Part:
    moved = time_arithmetic(node, _SIGNS[name], parts)
    if moved is not None:
        return moved
    sign, result = _SIGNS[name], understood(node, parts).type_name
    if all(p.type_name in INTEGERS for p in parts):
        return _of_integers(sign, parts) if len(parts) == 2 else _of_one(sign, parts[0])
    if len(parts) == 1:
        return _absolute(node, name, parts)
    if sign == "//" or (sign == "%" and result not in FLOATS):
        parts = [parts[0], not_zero(parts[1])]
    if result.startswith("DECIMAL") and sign in ("+", "-", "*"):
        return _of_decimals(sign, parts)
    if result in FLOATS or result.startswith("DECIMAL"):
        return plain(node, name, parts)
    raise Unsafe(node, f"computes with {named(parts)}; cast to BIGINT or DOUBLE first")


def _divided(node: Node, name: str, parts: list[Part]) -> Part:
    return time_arithmetic(node, "/", parts) or plain(node, name, parts)


def _of_integers(sign: str, parts: list[Part]) -> Part:
    """Compute with whole numbers in a type that holds every result; only beyond HUGEINT it is NULL."""
    spans = [_span(part) for part in parts]
    within = _reached(sign, *spans)
    kind = _narrowest(within, *spans)
    parts = [tried(part, kind) for part in parts]
    if sign in ("//", "%"):
        parts = [parts[0], _divisor(sign, parts[1], spans[1])]
    # DuckDB refuses a product that is the smallest HUGEINT, which is its own type's.
    if not fits(within, kind) or (sign == "*" and within[0] == _LEAST):
        # As a lambda, so that no part stands twice: a product of many would double with each.
        text = f"list_reduce(list_pack(_0, _1), lambda l, r: {_guarded(sign)})"
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


def _guarded(sign: str) -> str:
    """Return SQL of an operation on two HUGEINTs, l and r; NULL where HUGEINT does not hold the result."""
    least, most = _LEAST_SQL, _MOST_SQL
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


def _of_one(sign: str, part: Part) -> Part:
    """Return a whole number, with its sign turned by "-"."""
    if sign == "+":
        return part
    (least, most), kind = _span(part), _narrowest(_span(part), (-_span(part)[1], -_span(part)[0]))
    wide = tried(part, kind)
    if -least > SPANS[kind][1]:
        wide, least = _above_least(wide), -_MOST
    return tried(replace(over("- _0", wide), within=(-most, -least)), _narrowest((-most, -least)))


def _above_least(part: Part) -> Part:
    """Return NULL in the place of the smallest HUGEINT, whose amount no HUGEINT holds."""
    return over(f"CASE WHEN _0 > {_LEAST_SQL} THEN _0 END", once(part))


def _of_decimals(sign: str, parts: list[Part]) -> Part:
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
        raise Unsafe(node, "computes with UHUGEINT; cast to HUGEINT or DOUBLE first")
    if len(parts) != 1 or parts[0].type_name not in INTEGERS:
        return plain(node, name, parts)
    (part,) = parts
    least, most = _span(part)
    within = max(least, -most, 0), max(-least, most)
    kind = _narrowest(within, (least, most))
    wide = tried(part, kind)
    if not fits(within, kind):
        wide, within = _above_least(wide), (within[0], _MOST)
    return tried(replace(over("abs(_0)", wide), within=within), _narrowest(within))


def _bit_count(node: Node, name: str, parts: list[Part]) -> Part:
    """Count bits: DuckDB counts in TINYINT, in which the 128 of a HUGEINT are -128."""
    counted = plain(node, name, parts)
    return counted if counted.type_name != "TINYINT" else over("CAST(_0 AS SMALLINT) & 255", counted)


def _of_bits(node: Node, name: str, parts: list[Part]) -> Part:
    if any(p.type_name == "BIT" for p in parts):
        raise Unsafe(node, f"uses {name} on BIT, which takes two of one length only; cast to BIGINT first")
    return plain(node, name, parts)


def _rounded(node: Node, name: str, parts: list[Part]) -> Part:
    if len(parts) == 1 or parts[0].type_name in FLOATS:
        return plain(node, name, parts)
    ((places,),) = ask(f"SELECT TRY_CAST({parts[1].text} AS INTEGER)")
    if places is None or abs(places) > 40:
        raise Unsafe(parts[1].node, "is no number of digits; give one from -40 to 40")
    if parts[0].type_name in INTEGERS:
        return _rounded_whole(node, name, parts, max(-places, 0))
    return plain(node, name, parts if places >= 0 else [tried(parts[0], "DOUBLE"), parts[1]])


def _rounded_whole(node: Node, name: str, parts: list[Part], zeros: int) -> Part:
    """Round a whole number to so many zeros, which may lead beyond its type."""
    (least, most), step = _span(parts[0]), 10**zeros
    within = (least, most) if name.startswith("trunc") else (least - step // 2, most + step // 2)
    kind = _narrowest(within)
    wide = tried(parts[0], kind)
    if not fits(within, kind):
        away = name == "round"  # a half goes away from zero, or to what is even
        last, first = (min(end, end // step * step + step // 2 - away) for end in (_MOST, -_LEAST))
        lowest = _LEAST_SQL if first == -_LEAST else f"{-first}::HUGEINT"
        wide = over(f"CASE WHEN _0 BETWEEN {lowest} AND {last}::HUGEINT THEN _0 END", once(wide))
        within = _LEAST, _MOST
    return tried(replace(plain(node, name, [wide, parts[1]]), within=within), _narrowest(within))
