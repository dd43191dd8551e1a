"""Tables of what units have: a row for each unit, or rows with how much of each counts.

All of it is unit-local: each row follows from one unit's rows and from public knowledge alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.query.aggregates import Weights
from sfumato.query.schema import Schema, quoted
from sfumato.query.tables.public_table import PublicTable

if TYPE_CHECKING:
    from sfumato.api.table import Table
    from sfumato.query.query import Query


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


def one_row(table: Table[Any], aggregates: Mapping[str, Any]) -> Query:
    """Return a query of a whole table in which a unit counts as one row."""
    return table.bound(rows=1).agg(**aggregates).query


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


# Values that are beyond a bound count up to so many widths of the bounds further out, and weights up to so
# many times the largest.
BEYOND = 1.0


class Columns:
    """The columns that numbers of rows, or of units in groups, are computed from.

    Args:
        names: of columns.
        of_pairs: whether they are numbers of units in groups.
    """

    def __init__(self, names: Names, of_pairs: bool) -> None:
        self._names, self.of_pairs = names, of_pairs
        self.rows: dict[str, str] = {}
        self.pairs: dict[str, str] = {}
        self.ends: dict[str, str] = {}

    def row(self, sql: str) -> str:
        """Return the column of what a row has, by SQL of its columns and of these."""
        return self._of(self.rows, sql)

    def pair(self, sql: str) -> str:
        """Return the column of an aggregate of the rows of a unit and group."""
        return self._of(self.pairs, sql)

    def end(self, sql: str) -> str:
        """Return the column of what a row has, or a unit and group, beside how many of each there are."""
        return self._of(self.ends, sql)

    def _of(self, known: dict[str, str], sql: str) -> str:
        # The same SQL has the same name wherever it stands, so that what is the same is asked once.
        return known.setdefault(sql, self._names(f"of_{sha256(sql.encode()).hexdigest()[:16]}"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Columns) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Column:
    """Values between bounds, as SQL of a row, or of a unit and group.

    Args:
        number: the value; NULL for none.
        lower, upper: the bounds.
        binds: whether a value may be beyond them.
        limited: the value that counts with limits, where that is another one.
    """

    number: str
    lower: float
    upper: float
    binds: bool = True
    limited: str | None = None

    def scale(self, limited: bool) -> tuple[float, float]:
        """Return the lower end and the width of what values are clamped to."""
        width, beyond = self.upper - self.lower, 0.0 if limited or not self.binds else BEYOND
        return self.lower - beyond * width, (1 + 2 * beyond) * width

    def clamped(self, limited: bool) -> str:
        """Return SQL of where in this range a value is, from 0 to 1."""
        low, width = self.scale(limited)
        number = self.limited if limited and self.limited is not None else self.number
        return f"coalesce({within(f'({number} - {double(low)}) / {double(width)}')}, 0.0)"


@dataclass(frozen=True)
class Records:
    """Rows, or units in a group, that count.

    Args:
        known: SQL of how much each counts without limits, from 0 to 1.
        kept: the same with limits, from 0 to this.
        columns: the columns that are read.
        unit: how much 1 is.
    """

    known: str
    kept: str
    columns: Columns
    unit: float = 1.0

    @property
    def lost(self) -> str:
        """SQL of what limits leave out."""
        return f"{self.known} - {self.kept}"


@dataclass(frozen=True)
class Counting:
    """How much of rows, and of units in groups, counts.

    Args:
        names: of columns.
        schema: of the rows.
        limits: that may leave out something of a unit, by name.
    """

    names: Names
    schema: Schema
    limits: Mapping[str, int]

    def rows(self, columns: Sequence[str], weights: Weights | None, by_row: bool = True) -> Records:
        """Return the rows with a value in all columns, and a weight; or parts of units in a group."""
        made = Columns(self.names, False)
        there = [f"{self._value(made, column)} IS NOT NULL" for column in columns]
        here = self._n("in_group")
        one = "1.0" if by_row else f"1.0 / {here}"
        part = made.end(self.part() if by_row else f"({self._survives(here)}) * {one}")
        if weights is None:
            known = made.end(if_all(there, one))
            return Records(known, f"{known} * {part}" if by_row else if_all(there, part), made)
        weight = made.row(number_of(weights.column))
        size = f"{weight} / {double(float(weights.most))}"
        there.append(f"{weight} IS NOT NULL")
        known, light = (within(size, most) for most in (1 + BEYOND, 1.0))
        unit = (1 + BEYOND) * float(weights.most)
        return Records(
            made.end(if_all(there, f"{known} * {one} / {1 + BEYOND}")),
            made.end(if_all(there, f"{light} * {part} / {1 + BEYOND}")),
            made,
            unit,
        )

    def once(self, made: Columns, number: str) -> tuple[Records, Callable[[str], str]]:
        """Return the units in groups in which they have some values, and which part of their sums counts."""
        part = made.end(self._survives(f"CAST({number} AS DOUBLE)"))
        known = made.end(f"CASE WHEN {number} > 0 THEN 1.0 ELSE 0.0 END")
        share = "1.0"
        if "total_rows" in self.limits:
            share = made.end(f"({self.part()}) / CASE WHEN {part} > 1e-9 THEN {part} ELSE 1.0 END")
        return Records(known, f"{known} * {part}", made), lambda value: f"{value} * {share}"

    def _n(self, name: str) -> str:
        return f"CAST({self.names(name)} AS DOUBLE)"

    def _least(self, limit: str, own: str) -> str:
        most = self.limits.get(limit)
        return "1.0" if most is None else f"CASE WHEN {own} > {most} THEN {most} / {own} ELSE 1.0 END"

    def part(self) -> str:
        """Return SQL of the part of a row that counts."""
        limits = {"groups": "in_groups", "rows": "in_group", "total_rows": "in_all"}
        parts = [f"({self._least(one, self._n(own))})" for one, own in limits.items() if one in self.limits]
        return " * ".join(parts) or "1.0"

    def _survives(self, here: str) -> str:
        """Return SQL of the probability that a unit counts in a group, where it has so many rows."""
        most = self.limits.get("total_rows")
        if most is None:
            return self._least("groups", self._n("in_groups"))
        own = self._n("in_all")
        # No row of the group is among those that are chosen.
        ways = [f"{own} - {here}", f"{own} - {most}", f"{own} - {here} - {most}", own]
        a, b, c, d = (f"lgamma({one} + 1.0)" for one in ways)
        every = f"{own} <= {most} OR {own} - {here} < {most}"
        return (
            f"CASE WHEN {here} < 1 THEN 0.0 WHEN {every} THEN 1.0 ELSE 1.0 - exp({a} + {b} - {c} - {d}) END"
        )

    def _value(self, made: Columns, column: str) -> str:
        if self.schema[column].kind.numeric:
            return made.row(number_of(column))
        return quoted(column)


def records(rows: Table[Any], keys: tuple[str, ...], names: Names, columns: Sequence[Columns]) -> Table[Any]:
    """Return the rows, or a row for each unit and group, beside how many of each the unit has.

    Args:
        rows, keys, names: as of `units`.
        columns: what each of them has too, all of rows or all of units in groups.
    Returns:
        A table with `in_group` and `in_all` (how many rows its unit has there, and in all), `in_groups` (in
        how many groups), and the columns.
    """
    own, of_rows, of_pairs, ends = quoted(rows.unit), dict[str, str](), dict[str, str](), dict[str, str]()
    for one in columns:
        for found, more in ((of_rows, one.rows), (of_pairs, one.pairs), (ends, one.ends)):
            found |= {name: sql for sql, name in more.items()}
    group, everywhere, place, many = map(names, ("in_group", "in_all", "place", "in_groups"))
    by = ", ".join(map(quoted, keys))
    rows = rows.with_columns(**of_rows)
    if columns[0].of_pairs:
        pairs = rows.per_unit(*keys, **{group: "count(*)"}, **of_pairs)
        made = pairs.sql(
            f"SELECT *, count(*) OVER (PARTITION BY {own}) AS {many}, "
            f"sum({group}) OVER (PARTITION BY {own}) AS {everywhere} FROM self"
        )
    else:
        order = f"dense_rank() OVER (PARTITION BY {own} ORDER BY {by})" if by else "1"
        made = rows.sql(
            f"SELECT *, max({place}) OVER (PARTITION BY {own}) AS {many} FROM (SELECT *, "
            f"count(*) OVER (PARTITION BY {', '.join([own, by] if by else [own])}) AS {group}, "
            f"count(*) OVER (PARTITION BY {own}) AS {everywhere}, {order} AS {place} FROM self) AS counted"
        )
    return made.with_columns(**ends)


def number_of(column: str) -> str:
    """Return SQL of a value as a number; NULL where it has none."""
    value = f"try_cast({quoted(column)} AS DOUBLE)"
    return f"CASE WHEN isnan({value}) THEN NULL ELSE {value} END"


def if_all(there: Sequence[str], value: str) -> str:
    """Return SQL of a number where all conditions hold, else 0."""
    return f"CASE WHEN {' AND '.join(there)} THEN {value} ELSE 0.0 END" if there else value


def within(value: str, most: float = 1.0) -> str:
    """Return SQL of a value that is clamped from 0 to a number; greatest() would count as a text."""
    return f"CASE WHEN {value} < 0 THEN 0.0 WHEN {value} > {most!r} THEN {most!r} ELSE {value} END"
