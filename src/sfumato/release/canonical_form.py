"""The canonical form of a plan: what is asked, and for which budget, as plain data that is always the same.

Two forms that are equal, byte for byte, ask the same of tables of the same names: the journal answers the
second from the first, and a receipt says with one what was released. What is in it follows from the question,
its budget and declared columns alone: no private row, no content of a file, no folder, no time. Of a public
table in memory, which has no name, there is a digest of its rows, whatever their order.

Not in it, as the answer does not depend on them: how a question was written (SQL or Python, spaces, the case
of names, the order of options, of filters and of what is derived, names of derived columns that are not
shown), notes, error bars and their confidence, what reads the rows, and numbers that follow from the rest,
such as scales of noise."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from math import isfinite
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.exact.parameters import canonical_bytes
from sfumato.query.engine_protocol import BroughtKeys, Evaluator
from sfumato.query.tables.table_part import Part
from sfumato.release.table_digest import table_digest

if TYPE_CHECKING:
    from sfumato.api.largest_groups import Top
    from sfumato.plan.plan import Plan
    from sfumato.plan.top_measurement import TopMeasurement
    from sfumato.query.query import Query


VERSION = 1
MAX_KEYS = 1000  # public groups that are listed; of more there is a digest


def canonical(plan: Plan, engine: Evaluator) -> dict[str, Any]:
    """Return the canonical form of a plan for statistics.

    Args:
        plan: of `Question.plan`, or of a release.
        engine: what reads the rows, which knows what the table is called.
    Returns:
        Plain data, fit for JSON; numbers exactly, as texts of fractions.
    """
    query = plan.query
    told = engine.content(query.steps)
    return {
        "version": VERSION,
        "asks": "statistics",
        **_rows(told, query.unit, query.keys, query.public_keys),
        **({} if query.grouping is None else {"totals": plain(query.grouping)}),
        "limits": _limits(query, plan.exact.description),
        "outputs": [_output(name, asked, told["columns"]) for name, asked in query.aggregates],
        **plain(plan._content),
    }


def canonical_top(plan: Plan[Top, TopMeasurement]) -> dict[str, Any]:
    """Return the canonical form of a plan for the largest groups."""
    question = plan.query
    told = question._engine.content(question._steps)
    return {
        "version": VERSION,
        "asks": "largest groups",
        **_rows(told, question.unit, question.keys, question._public_keys),
        "k": question.k,
        "by": "units" if question.by is None else _output("sum", question.by, told["columns"]),
        "candidates": question.candidates,
        "counts_share": str(plan.measurement.share),
        "budget": {"epsilon": str(plan.epsilon), "delta": str(plan.delta)},
    }


def canonical_digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a canonical form, in hexadecimal digits."""
    return hashlib.sha256(canonical_bytes(content)).hexdigest()


def plain(value: Any) -> Any:
    """Return a value in the canonical form: as JSON has it, with different values kept different.

    >>> from fractions import Fraction
    >>> plain({"bounds": (Fraction(1, 10), float("inf"))})
    {'bounds': ['1/10', {'float': 'inf'}]}
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if isfinite(value) else {"float": repr(value)}
        case Enum():
            return value.value
        case Fraction():
            return str(value)
        case Part():
            return value.engine.content(value.steps) | {"unit": value.unit}
        case Mapping():
            return {str(key): plain(one) for key, one in value.items()}
        case tuple() | list():
            return [plain(one) for one in value]
        case datetime() | date() | time():
            return {type(value).__name__: value.isoformat()}
        case Decimal() | timedelta():
            return {type(value).__name__: str(value)}
        case bytes():
            return {"bytes": value.hex()}
    if is_dataclass(value):
        return {"kind": type(value).__name__} | {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    return {type(value).__name__: str(value)}


def _rows(
    description: Mapping[str, Any], unit: str, keys: tuple[str, ...], public: pa.Table | BroughtKeys | None
) -> dict[str, Any]:
    """Return the canonical form of rows: source, privacy unit and groups."""
    columns = description["columns"]
    groups: Any = "private" if keys and public is None else None
    if isinstance(public, BroughtKeys):
        groups = {"collection": public.collection}
    elif public is not None:
        groups = {"count": public.num_rows}
        if public.num_rows <= MAX_KEYS:
            groups["values"] = [[plain(value) for value in row.values()] for row in public.to_pylist()]
        else:
            groups["sha256"] = table_digest(public)
    return {name: one for name, one in description.items() if name != "columns"} | {
        "privacy_unit": columns.get(unit, unit),
        "group_by": [[key, columns.get(key, key)] for key in keys],
        "groups": groups,
    }


def _limits(query: Query, bounding: Mapping[str, Any]) -> dict[str, Any]:
    """Return the canonical form of contribution limits, from the description of bounding."""
    if bounding["total_rows"] is not None:
        return {"total_rows": bounding["total_rows"]}
    counted = any(asked.needs_rows for _, asked in query.aggregates)
    limits: dict[str, Any] = {"rows": query.rows} if counted else {}
    if query.keys:
        limits |= {"groups": bounding["per_unit"], "beyond": bounding["beyond"]}
    return limits


def _output(name: str, asked: Any, columns: Mapping[str, str]) -> list[Any]:
    written = {column: columns.get(column, column) for column in asked.columns}
    return [name, plain(asked.of_columns(written))]
