"""Total forms of what computes with lists of numbers: the norm of a vector, and its entries in steps."""

from __future__ import annotations

import re
from typing import Any

from sfumato.dialect.syntax_tree import Node, ask, made
from sfumato.engines.duckdb.expressions.binding import DoesNotBind
from sfumato.engines.duckdb.expressions.parts import Form, NotTotal, Part, once, tried
from sfumato.query.schema import FLOATS, INTEGERS
from sfumato.sql_text import double
from sfumato.transformations.statistics.vector_sum import MOST_ENTRIES

_LIST = re.compile(r"([^\[]+)\[\d*\]")
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
    held = _LIST.fullmatch(parts[0].type_name)
    if parts[0].constant or held is None or not held[1].startswith(_NUMBERS):
        raise NotTotal(parts[0].node, f"is no column of lists of numbers, which {name} takes")
    ((length, last),) = ask(f"SELECT {parts[1].text}, {parts[2].text}")
    if type(length) is not int or not 1 <= length <= MOST_ENTRIES:
        raise NotTotal(parts[1].node, f"is no number of entries from 1 to {MOST_ENTRIES:,}")
    return once(tried(parts[0], "DOUBLE[]")).node, length, last


def _if_vector(vector: Node, length: int, computed: str) -> Node:
    """Compute with a list that has so many numbers; NULL in the place of any other."""
    valid = f"len(_0) = {length} AND list_count(_0) = {length} AND NOT list_contains(_0, 'nan'::DOUBLE)"
    return made(f"CASE WHEN {valid} THEN {computed} END", vector)


def _norm(node: Node, name: str, parts: list[Part]) -> Part:
    vector, length, norm = _vector(node, name, parts)
    if norm not in _NORMS:
        raise NotTotal(parts[2].node, f"is no norm; {name} takes {', '.join(map(repr, _NORMS))}")
    return Part(_if_vector(vector, length, _NORMS[norm]), "DOUBLE")


def _steps(node: Node, name: str, parts: list[Part]) -> Part:
    vector, length, exponent = _vector(node, name, parts)
    if type(exponent) is not int or abs(exponent) > _MOST_EXPONENT:
        raise NotTotal(parts[2].node, f"is no exponent of 2 from -{_MOST_EXPONENT} to {_MOST_EXPONENT}")
    scaled, most = f"x * {double(2.0**-exponent)}", double(_MOST_STEPS)
    steps = f"TRY_CAST(round(least(greatest({scaled}, -{most}), {most})) AS BIGINT)"
    kind = f"BIGINT[{length}]"
    return Part(
        _if_vector(vector, length, f"TRY_CAST(list_transform(_0, lambda x: {steps}) AS {kind})"), kind
    )


FORMS: dict[str, Form] = {"vector_norm": _norm, "vector_steps": _steps}
