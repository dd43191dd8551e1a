"""One row for each privacy unit: in how many groups it is, with how many rows, and what is cut of them.

All of it is unit-local: each row follows from one unit's rows and from public knowledge alone.
"""

from __future__ import annotations

from dataclasses import replace
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


class UnitSums:
    """What is added up over the rows of each unit, and over the parts of them that a limit of rows keeps.

    Args:
        names: of columns.
        limit: of rows per unit and group; None for none.
    """

    def __init__(self, names: Names, limit: int | None) -> None:
        self._names, self._limit = names, limit
        self._of_rows: dict[str, str] = {}
        self._of_pairs: dict[str, str] = {}
        self._totals: dict[tuple[str, bool], str] = {}

    def row(self, sql: str) -> str:
        """Return the column of what a row has, by SQL of its columns and of these."""
        return self._of_rows.setdefault(sql, self._names(f"row{len(self._of_rows)}"))

    def pair(self, sql: str) -> str:
        """Return the column of an aggregate of the rows of a unit and group."""
        return self._of_pairs.setdefault(sql, self._names(f"pair{len(self._of_pairs)}"))

    def total(self, sql: str, of_pair: bool) -> str:
        """Return the column of the sum, over a unit, of what rows have, or a unit and group."""
        if not of_pair:
            sql = self.pair(f"sum({sql})")
        return self._totals.setdefault((sql, of_pair), self._names(f"total{len(self._totals)}"))

    def kept(self, total: str) -> str:
        """Return the column of such a sum of what the limit of rows keeps: all of units and groups."""
        limited = any(name == total and not of_pair for (_, of_pair), name in self._totals.items())
        return f"{total}_kept" if limited and self._limit is not None else total

    @property
    def of_rows(self) -> dict[str, str]:
        """SQL of what each row has, by column."""
        return {name: sql for sql, name in self._of_rows.items()}

    @property
    def of_pairs(self) -> dict[str, str]:
        """Aggregates of the rows of a unit and group, by column."""
        return {name: sql for sql, name in self._of_pairs.items()}

    @property
    def added(self) -> dict[str, str]:
        """SQL of what a unit and group has, which is added up over the groups of a unit, by column."""
        found = {name: sql for (sql, _), name in self._totals.items()}
        rows = self._names("rows")
        part = f"CASE WHEN {rows} > {self._limit} THEN {self._limit} / CAST({rows} AS DOUBLE) ELSE 1.0 END"
        kept = {self.kept(name): f"{part} * {sql}" for name, sql in found.items() if self.kept(name) != name}
        return found | kept


def rows_alone(table: Table[Any]) -> Table[Any]:
    """Return the rows of a question's table, without its groups and limits."""
    return replace(
        table,
        keys=(),
        public_keys=None,
        groups=None,
        rows=None,
        beyond="auto",
        auto_limits=(),
        total_rows=None,
        grouping=None,
    )


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
            engine: Any = rows.engine.of_rows(own)
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
    sums: UnitSums | None = None,
) -> Table[Any]:
    """Return one row for each unit.

    Args:
        rows: without groups; where these are public, those in one of them.
        keys: the columns to group by.
        names: of the columns.
        limit: of rows in a group, beyond which they count as cut; None for no such limit.
        bounds: what may clamp values.
        sums: what else is added up.
    Returns:
        A table of the unit and of `groups`, `rows`, `fullest` (most rows in a group), `cut` (rows beyond the
        limit), and `clamped0`, `clamped1`, ...: for each bound how many rows have a value beyond it; and
        the columns of `sums`.
    """
    values = {names(f"value{i}"): f"try_cast({quoted(one.column)} AS DOUBLE)" for i, one in enumerate(bounds)}
    here, cut = names("rows"), names("cut")
    made = {here: "count(*)"}
    for i, (one, value) in enumerate(zip(bounds, values, strict=True)):
        if one.per_unit:
            made |= {names(f"sum{i}"): f"sum({value})", names(f"known{i}"): f"count({value})"}
        else:
            made[names(f"clamped{i}")] = f"count(*) FILTER (WHERE {one.beyond(value)})"
    of_rows, of_pairs, added = ({}, {}, {}) if sums is None else (sums.of_rows, sums.of_pairs, sums.added)
    pairs = rows.with_columns(**values, **of_rows).per_unit(*keys, **made, **of_pairs)
    clamped = {
        names(f"clamped{i}"): f"CASE WHEN {one.beyond(names(f'sum{i}'))} THEN {names(f'known{i}')} ELSE 0 END"
        for i, one in enumerate(bounds)
        if one.per_unit
    }
    pairs = pairs.with_columns(**clamped, **{cut: "0" if limit is None else f"greatest({here} - {limit}, 0)"})
    own = (here, cut, *(names(f"clamped{i}") for i in range(len(bounds))))
    summed = {name: f"sum({sql})" for name, sql in (*zip(own, own, strict=True), *added.items())}
    return pairs.per_unit(**{names("groups"): "count(*)", names("fullest"): f"max({here})"}, **summed)
