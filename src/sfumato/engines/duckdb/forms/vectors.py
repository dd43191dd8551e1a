"""Sums of vectors: lists of whole numbers of one length, brought into a ball in 128-bit integers."""

from __future__ import annotations

from collections.abc import Callable

from sfumato.engines.duckdb.forms.values import Part, Values, sums_of
from sfumato.engines.duckdb.scaled import scaled
from sfumato.engines.duckdb.text import double, identifier
from sfumato.framework import Ball
from sfumato.query import sizes
from sfumato.transformations import VectorCount, VectorSum
from sfumato.transformations.statistics.unit_sum import HUGE_STEPS
from sfumato.transformations.statistics.vector_sum import FAR_STEPS


def vector_sum(values: Values, s: VectorSum) -> list[Part]:
    """Add up vectors, of which units' sums, or those of rows, are in the ball."""
    row, stages = values.earlier(_steps(values, s), "BIGINT[]"), list[tuple[str, str]]()
    name, most = s.names[0], values.most(s)

    def stage(expression: str, type_name: str) -> str:
        stage_name = f"{name} {len(stages)}"
        values.types[stage_name] = type_name
        stages.append((identifier(stage_name), expression))
        return stages[-1][0]

    if s.rows is None:
        total = _within(stage, identifier(name), s)
        added = (
            total
            if most is None
            else stage(_each(total, f"CAST({scaled('x::HUGEINT', None, most)} AS BIGINT)"), "BIGINT[]")
        )
    else:
        row = _within(values.earlier, row, s)
        added = stage(_each(identifier(name), scaled("coalesce(x, 0)::HUGEINT", s.rows, most)), "HUGEINT[]")
    pair = sums_of(values.value(row, "BIGINT[]"), s.length)
    return [Part(name, pair, sums_of(added, s.length), tuple(stages), s.length, "HUGEINT[]")]


def vector_count(values: Values, s: VectorCount) -> list[Part]:
    """Count rows with a vector."""
    name, counted = s.names[0], f"count(*) FILTER ({values.value(f'({_is_vector(values, s)})', 'BOOLEAN')})"
    total = f"({identifier(name)}::HUGEINT * {1 << -s.exponent})"
    return [Part(name, counted, f"sum({scaled(total, s.rows, values.most(s))})", pair_type="BIGINT")]


def _each(vector: str, x: str) -> str:
    """Write what is made of each entry `x`."""
    return f"list_transform({vector}, lambda x: {x})"


def _steps(values: Values, s: VectorSum) -> str:
    """Write a row's vector in steps; NULL where it has none."""
    entries = _entries(values, s)
    huge = HUGE_STEPS * 2.0**s.exponent
    clamped = f"least(greatest(x, {double(-huge)}), {double(huge)})"
    steps = f"CAST(round({clamped} * {double(2.0**-s.exponent)}) AS BIGINT)"
    return f"CASE WHEN {_is_vector(values, s)} THEN {_each(entries, steps)} END"


def _entries(values: Values, s: VectorSum | VectorCount) -> str:
    return f"CAST({values.column(s.column)} AS DOUBLE[])"


def _is_vector(values: Values, s: VectorSum | VectorCount) -> str:
    """Write the condition that a row has a vector."""
    entries = _entries(values, s)
    valued = [f"len({entries}) = {s.length}", f"list_count({entries}) = {s.length}"]
    return " AND ".join([*valued, f"NOT list_bool_or({_each(entries, 'isnan(x)')})"])


def _within(stage: Callable[[str, str], str], vector: str, s: VectorSum) -> str:
    """Write `vector_sum.within`; `stage` names an expression that those after it use.

    The root is found from a float, but none that is too small: with any s > 0, (s + q // s) // 2 + 1 is above
    (s + q / s) / 2, which is at least the root of q; of numbers below, only those are taken whose squares are
    not below q. Where the float is right to 2^-31, one of the three is the least.
    """
    if s.ball is Ball.LINF:
        clamped = f"least(greatest(coalesce(x, 0), {-s.radius}), {s.radius})"
        return stage(_each(vector, f"CAST({clamped} AS BIGINT)"), "BIGINT[]")
    clamped = f"least(greatest(coalesce(x, 0), {-FAR_STEPS}), {FAR_STEPS})"
    near = stage(_each(vector, f"CAST({clamped} AS BIGINT)"), "BIGINT[]")
    if s.ball is Ball.L1:
        size = stage(f"list_sum({_each(near, 'abs(x)')})::HUGEINT", "HUGEINT")
        longer = f"{size} > {s.radius}"
    else:
        square = stage(f"list_sum({_each(near, 'x::HUGEINT * x')})", "HUGEINT")
        root = stage(f"greatest(1, CAST(sqrt(CAST({square} AS DOUBLE)) AS HUGEINT))::HUGEINT", "HUGEINT")
        above = stage(f"({root} + {square} // {root}) // 2 + 1", "HUGEINT")
        less = [f"WHEN ({above} - {by}) * ({above} - {by}) >= {square} THEN {above} - {by}" for by in (2, 1)]
        size = stage(f"CASE {' '.join(less)} ELSE {above} END", "HUGEINT")
        longer = f"{square} > {s.radius**2}::HUGEINT"
    shortened = f"CAST(x::HUGEINT * {s.radius} // {size} AS BIGINT)"
    if s.ball is Ball.L2 or s.length * FAR_STEPS <= sizes.BIGINT_ROOM:
        # HUGEINTs take several times as long to divide as BIGINTs.
        size, narrow = stage(f"CAST({size} AS BIGINT)", "BIGINT"), sizes.BIGINT_ROOM // s.radius
        few = f"x BETWEEN {-narrow} AND {narrow} THEN x * {s.radius}::BIGINT // {size}"
        shortened = f"CASE WHEN {few} ELSE {shortened} END"
    return stage(f"CASE WHEN {longer} THEN {_each(near, shortened)} ELSE {near} END", "BIGINT[]")
