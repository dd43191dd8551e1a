"""SQL of how much of each row, or unit in a group, counts with limits and without."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sfumato.dataclass import dataclass
from sfumato.guidance.contribution_distribution import Names
from sfumato.query.aggregates import Weights
from sfumato.query.schema import Schema, quote_name

if TYPE_CHECKING:
    from sfumato.api.table import Table

# Values that are beyond a bound count up to so many widths of the bounds further out, and weights up to so
# many times the largest.
BEYOND = 1.0


class Columns:
    """The SQL columns from which the counted part of rows, or of units in groups, is computed.

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
        """Return the name of a column of each row, for its SQL."""
        return self._select(self.rows, sql)

    def pair(self, sql: str) -> str:
        """Return the name of a column of each unit and group, for the SQL of an aggregate of their rows."""
        return self._select(self.pairs, sql)

    def end(self, sql: str) -> str:
        """Return the name of a column that is computed last, from the numbers of a unit's rows and groups."""
        return self._select(self.ends, sql)

    def _select(self, known: dict[str, str], sql: str) -> str:
        # The same SQL has the same name wherever it stands, so that what is the same is asked once.
        return known.setdefault(sql, self._names(f"of_{sha256(sql.encode()).hexdigest()[:16]}"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Columns) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Column:
    """A column of values between bounds, as SQL of each counted row or unit.

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
        """Return the lower end and width of the range to which counted values are clamped."""
        width, beyond = self.upper - self.lower, 0.0 if limited or not self.binds else BEYOND
        return self.lower - beyond * width, (1 + 2 * beyond) * width

    def clamped(self, limited: bool) -> str:
        """Return SQL of the position of a value in the range that it is clamped to, from 0 to 1."""
        low, width = self.scale(limited)
        number = self.limited if limited and self.limited is not None else self.number
        return f"coalesce({within(f'({number} - {double(low)}) / {double(width)}')}, 0.0)"


@dataclass(frozen=True)
class Records:
    """Counted rows, or units in groups: SQL of how much each counts with limits and without.

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
        """SQL of the part of a row that counts without limits, and not with them."""
        return f"{self.known} - {self.kept}"


@dataclass(frozen=True)
class Counting:
    """How much of each row, or unit in a group, counts under the limits of a query.

    Args:
        names: of columns.
        schema: of the rows.
        limits: that may leave out something of a unit, by name.
    """

    names: Names
    schema: Schema
    limits: Mapping[str, int]

    def rows(self, columns: Sequence[str], weights: Weights | None, by_row: bool = True) -> Records:
        """Return counted rows: those with a value in all columns, and with a weight."""
        made = Columns(self.names, False)
        there = [f"{self._value(made, column)} IS NOT NULL" for column in columns]
        here = self._n("in_group")
        one = "1.0" if by_row else f"1.0 / {here}"
        part = made.end(self.part() if by_row else f"({self._survives(here)}) * {one}")
        if weights is None:
            known = made.end(if_all(there, one))
            return Records(known, f"{known} * {part}" if by_row else if_all(there, part), made)
        weight = made.row(to_double_sql(weights.column))
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
        """Return units in groups that count once, and SQL of the part of their sums that counts."""
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
        """Return SQL of the part of a row that counts under the limits."""
        limits = {"groups": "in_groups", "rows": "in_group", "total_rows": "in_all"}
        parts = [f"({self._least(one, self._n(own))})" for one, own in limits.items() if one in self.limits]
        return " * ".join(parts) or "1.0"

    def _survives(self, here: str) -> str:
        """Return SQL of the probability that a unit counts in a group, given its rows there."""
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
            return made.row(to_double_sql(column))
        return quote_name(column)


def records(rows: Table[Any], keys: tuple[str, ...], names: Names, columns: Sequence[Columns]) -> Table[Any]:
    """Return the table of rows, or of units in groups, with the columns from which counted parts follow.

    Args:
        rows, keys, names: as of `units`.
        columns: what each of them has too, all of rows or all of units in groups.
    Returns:
        A table with `in_group` and `in_all` (how many rows its unit has there, and in all), `in_groups` (in
        how many groups), and the columns.
    """
    own, of_rows, of_pairs, ends = quote_name(rows.unit), dict[str, str](), dict[str, str](), dict[str, str]()
    for one in columns:
        for found, more in ((of_rows, one.rows), (of_pairs, one.pairs), (ends, one.ends)):
            found |= {name: sql for sql, name in more.items()}
    group, everywhere, place, many = map(names, ("in_group", "in_all", "place", "in_groups"))
    by = ", ".join(map(quote_name, keys))
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


def to_double_sql(column: str) -> str:
    """Return SQL of a value as DOUBLE; NULL for NaN and for no number."""
    value = f"try_cast({quote_name(column)} AS DOUBLE)"
    return f"CASE WHEN isnan({value}) THEN NULL ELSE {value} END"


def if_all(there: Sequence[str], value: str) -> str:
    """Return SQL of a number if all conditions hold, else 0."""
    return f"CASE WHEN {' AND '.join(there)} THEN {value} ELSE 0.0 END" if there else value


def within(value: str, maximum: float = 1.0) -> str:
    """Return SQL of a value clamped to the range from 0 to a number."""
    return f"CASE WHEN {value} < 0 THEN 0.0 WHEN {value} > {maximum!r} THEN {maximum!r} ELSE {value} END"


def double(number: float) -> str:
    """Return SQL of a DOUBLE literal."""
    return f"CAST('{number!r}' AS DOUBLE)"
