"""Total forms of what computes with numbers.

Integers are added and multiplied in a wider type that holds the result, which is then fitted with TRY_CAST.
"""

from __future__ import annotations

from sfumato.dialect.tree import Node, ask
from sfumato.engines.duckdb.expressions.part import (
    Form,
    NotTotal,
    Part,
    constants,
    named,
    not_zero,
    over,
    plain,
    tried,
    understood,
)
from sfumato.engines.duckdb.expressions.times import time_arithmetic
from sfumato.query.schema import FLOATS, INTEGERS

# Of these any two add up and multiply within 64 bits.
_SHORT = {"TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT"}
_SIGNS = {
    "+": "+", "add": "+", "-": "-", "subtract": "-", "*": "*", "multiply": "*",
    "//": "//", "divide": "//", "%": "%", "mod": "%",
}  # fmt: skip


def digits(type_name: str) -> tuple[int, int] | None:
    """Return how many digits a type of exact numbers has before and behind the point; None for other types.

    >>> digits("BIGINT"), digits("DECIMAL(18,3)"), digits("DOUBLE")
    ((19, 0), (15, 3), None)
    """
    if type_name in INTEGERS:
        return INTEGERS[type_name], 0
    if type_name.startswith("DECIMAL("):
        width, scale = map(int, type_name.removeprefix("DECIMAL(").removesuffix(")").split(","))
        return width - scale, scale
    return None


def _arithmetic(node: Node, name: str, parts: list[Part]) -> Part:
    moved = time_arithmetic(node, _SIGNS[name], parts)
    if moved is not None:
        return moved
    sign, result = _SIGNS[name], understood(node, parts).type_name
    if len(parts) == 1:
        return _absolute(node, name, parts) if sign == "-" else plain(node, name, parts)
    if sign == "//" or (sign == "%" and result not in FLOATS):
        if result in INTEGERS and _divides_all(parts[1]):
            return plain(node, name, parts)
        parts = [parts[0], not_zero(parts[1])]
    if result in INTEGERS:
        return _of_integers(sign, result, parts)
    if result.startswith("DECIMAL") and sign in ("+", "-", "*"):
        return _of_decimals(sign, parts)
    if result in FLOATS or result.startswith("DECIMAL"):
        return plain(node, name, parts)
    raise NotTotal(node, f"computes with {named(parts)}; cast to BIGINT or DOUBLE first")


def _divided(node: Node, name: str, parts: list[Part]) -> Part:
    return time_arithmetic(node, "/", parts) or plain(node, name, parts)


def _divides_all(part: Part) -> bool:
    """Whether every whole number can be divided by it: zero and, for the smallest of all, -1 are not such."""
    return part.constant and ask(f"SELECT {part.text}") not in ([(None,)], [(0,)], [(-1,)])


def _of_integers(sign: str, result: str, parts: list[Part]) -> Part:
    if all(p.type_name in _SHORT for p in parts):
        wide = [tried(p, "BIGINT") for p in parts]
    else:
        # Two numbers of 37 digits add up, and two of 19 digits multiply, within 128 bits.
        wide = [_wide(p, 19 if sign == "*" else 37) for p in parts]
    return tried(over(f"_0 {sign} _1", *wide), result)


def _wide(part: Part, most: int) -> Part:
    held = digits(part.type_name)
    if held is not None and held[0] > most:
        part = tried(part, f"DECIMAL({most},0)")
    return tried(part, "HUGEINT")


def _of_decimals(sign: str, parts: list[Part]) -> Part:
    held = [found for p in parts if (found := _digits_of(p)) is not None]
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


def _digits_of(part: Part) -> tuple[int, int] | None:
    if part.constant and digits(part.type_name) is not None:
        ((text,),) = ask(f"SELECT CAST({part.text} AS VARCHAR)")
        whole, _, rest = str(text).lstrip("-").partition(".")
        return max(len(whole), 1), len(rest)
    return digits(part.type_name)


def _absolute(node: Node, name: str, parts: list[Part]) -> Part:
    result = understood(node, parts).type_name
    if parts[0].type_name == "UHUGEINT":
        raise NotTotal(node, "computes with UHUGEINT; cast to HUGEINT or DOUBLE first")
    if parts[0].type_name not in INTEGERS:
        return plain(node, name, parts)
    return tried(plain(node, name, [_wide(parts[0], 37)]), result)


def _of_bits(node: Node, name: str, parts: list[Part]) -> Part:
    if any(p.type_name == "BIT" for p in parts):
        raise NotTotal(node, f"uses {name} on BIT, which takes two of one length only; cast to BIGINT first")
    return plain(node, name, parts)


def _rounded(node: Node, name: str, parts: list[Part]) -> Part:
    if len(parts) == 1 or parts[0].type_name in FLOATS:
        return plain(node, name, parts)
    ((places,),) = ask(f"SELECT TRY_CAST({parts[1].text} AS INTEGER)")
    if places is None or abs(places) > 40:
        raise NotTotal(parts[1].node, "is no number of digits; give one from -40 to 40")
    if parts[0].type_name in INTEGERS:
        result = understood(node, parts).type_name
        return tried(plain(node, name, [_wide(parts[0], 37), parts[1]]), result)
    return plain(node, name, parts if places >= 0 else [tried(parts[0], "DOUBLE"), parts[1]])


_PLAIN = (
    "** ^ ~ >> acos acosh asin asinh atan atan2 atanh bit_count cbrt cos cosh cot degrees even exp "
    "gamma isfinite isinf isnan lgamma ln log log10 log2 nextafter pi pow power radians sign signbit sin "
    "sinh sqrt tan tanh"
)
_ROUNDED = "round round_even trunc ceil ceiling floor"

FORMS: dict[str, Form] = {
    **dict.fromkeys(_PLAIN.split(), plain),
    **dict.fromkeys(_SIGNS, _arithmetic),
    "/": _divided,
    **dict.fromkeys(("&", "|", "xor"), _of_bits),
    **dict.fromkeys(("@", "abs"), _absolute),
    **dict.fromkeys(_ROUNDED.split(), constants(1, then=_rounded)),
}
