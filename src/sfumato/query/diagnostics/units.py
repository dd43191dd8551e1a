"""One row for each privacy unit: in how many groups it is, with how many rows, and what is cut of them.

All of it is unit-local: each row follows from one unit's rows and from public knowledge alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.query.schema import quoted
from sfumato.query.tables.public_table import PublicTable

if TYPE_CHECKING:
    from sfumato.query.table import Table


@dataclass(frozen=True)
class Names:
    """Names of columns that no table here has: those of people's columns may be any."""

    prefix: str

    @classmethod
    def beside(cls, *taken: str) -> Names:
        """Return names that begin as none of these does."""
        prefix = "_"
        while any(name.startswith(prefix) for name in taken):
            prefix += "_"
        return cls(prefix)

    def __call__(self, name: str) -> str:
        """Return one."""
        return self.prefix + name


def double(number: float) -> str:
    """Return SQL of a number."""
    return f"CAST('{number!r}' AS DOUBLE)"


def in_public_groups(rows: Table[Any], keys: tuple[str, ...], groups: pa.Table, number: str) -> Table[Any]:
    """Return the rows whose keys are among public ones, with the number of their group.

    Args:
        rows: the table.
        keys: the columns to group by.
        groups: the public keys.
        number: the name of the column of numbers, from 0.

    NULL equals nothing in a join, but a group of NULL has the rows with NULL: keys with NULL in the same
    columns are joined on the others.
    """
    import pyarrow.compute as pc

    numbered = groups.append_column(number, pa.array(range(groups.num_rows), pa.int64()))
    missing = [pc.is_null(groups[key]).to_pylist() for key in keys]
    patterns = list(zip(*missing, strict=True))
    parts = []
    for pattern in dict.fromkeys(patterns):
        there = [key for key, null in zip(keys, pattern, strict=True) if not null]
        part = rows
        for key, null in zip(keys, pattern, strict=True):
            part = part.filter(f"{quoted(key)} IS {'' if null else 'NOT '}NULL")
        own = numbered.filter(pa.array([p == pattern for p in patterns])).select([*there, number])
        if there:
            engine: Any = rows._engine.of_rows(own)
            parts.append(part.join(PublicTable(engine), on=there))
        else:
            parts.append(part.with_columns(**{number: f"CAST({own[number][0].as_py()} AS BIGINT)"}))
    return reduce(lambda some, more: some.union(more), parts)


@dataclass(frozen=True)
class Bound:
    """A bound of a column's values, or with `per_unit` of their sums of one unit and group.

    Args:
        column: whose values it clamps.
        name, at: "lower" or "upper", and where it is.
        per_unit: whether it clamps sums.
    """

    column: str
    name: str
    at: float
    per_unit: bool

    def beyond(self, value: str) -> str:
        """Return SQL that a value is beyond it; NaN, which SQL puts above all, is beyond none."""
        sign = "<" if self.name == "lower" else ">"
        return f"{value} {sign} CAST('{self.at!r}' AS DOUBLE) AND NOT isnan({value})"


def units(
    rows: Table[Any],
    keys: tuple[str, ...],
    names: Names,
    limit: int | None,
    bounds: tuple[Bound, ...] = (),
    values: Mapping[str, str] | None = None,
) -> Table[Any]:
    """Return one row for each unit.

    Args:
        rows: without groups; where these are public, those in one of them.
        keys: the columns to group by.
        names: of the columns.
        limit: of rows in a group, beyond which they count as cut; None for no such limit.
        bounds: what may clamp values.
        values: aggregates of the rows of a unit and group that are added up too, by column.
    Returns:
        A table of the unit and of `groups`, `rows`, `fullest` (most rows in a group), `cut` (rows beyond the
        limit), and `clamped0`, `clamped1`, ...: for each bound how many rows have a value beyond it; and
        the columns of `values`.
    """
    numbers = {
        names(f"value{i}"): f"try_cast({quoted(one.column)} AS DOUBLE)" for i, one in enumerate(bounds)
    }
    here, cut = names("rows"), names("cut")
    made = {here: "count(*)"}
    for i, (one, value) in enumerate(zip(bounds, numbers, strict=True)):
        if one.per_unit:
            made |= {names(f"sum{i}"): f"sum({value})", names(f"known{i}"): f"count({value})"}
        else:
            made[names(f"clamped{i}")] = f"count(*) FILTER (WHERE {one.beyond(value)})"
    more = dict(values or {})
    pairs = rows.with_columns(**numbers).per_unit(*keys, **made, **more)
    clamped = {
        names(f"clamped{i}"): f"CASE WHEN {one.beyond(names(f'sum{i}'))} THEN {names(f'known{i}')} ELSE 0 END"
        for i, one in enumerate(bounds)
        if one.per_unit
    }
    pairs = pairs.with_columns(**clamped, **{cut: "0" if limit is None else f"greatest({here} - {limit}, 0)"})
    own = (here, cut, *(names(f"clamped{i}") for i in range(len(bounds))))
    summed = {name: f"sum({name})" for name in (*own, *more)}
    return pairs.per_unit(**{names("groups"): "count(*)", names("fullest"): f"max({here})"}, **summed)
