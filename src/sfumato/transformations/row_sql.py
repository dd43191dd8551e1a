"""SQL over rows: how each statistic is computed by unit and group, then by group, as text for DuckDB.

HUGEINTs take several times as long to divide as BIGINTs, so what a BIGINT holds is divided as one.

A pair of a unit and a group has a number of rows `n`; where units count in part, a weight `w` of `WHOLE` too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from fractions import Fraction

from sfumato.dataclass import dataclass
from sfumato.framework import WEIGHT_BITS, WHOLE, Body
from sfumato.sql_text import FLOATS, double, identifier


def sum_lists_sql(lists: str, entries: int) -> str:
    """Return SQL that adds up lists entry by entry, none to zeros, faster than unnesting them."""
    return f"[{', '.join(f'coalesce(sum({lists}[{i}]), 0)' for i in range(1, entries + 1))}]"


def after(source: str, stages: Sequence[tuple[str, str]]) -> str:
    """Return SQL of rows with columns that are computed one after another, each once.

    UNNEST of one value is that value. DuckDB would write a plain expression in the place of each use of it,
    such as of each entry of a list.
    """
    for name, expression in stages:
        source = f"(SELECT *, unnest([{expression}]) AS {name} FROM {source})"
    return source


def value_hash(value: str, type_name: str) -> str:
    """Return SQL of a value's stand-in: equal for equal values, also for the two zeros."""
    if type_name in FLOATS:
        return f"hash({value} + 0.0)"
    text = f"CAST({value} AS VARCHAR)"
    if type_name == "INTERVAL":
        # DuckDB's hash of intervals mixes their parts too little; those of equal length are equal.
        days = f"(12 * year({value})::HUGEINT + month({value})) * 30 + day({value})"
        minutes = f"(({days}) * 24 + hour({value})) * 60 + minute({value})"
        return f"hash(CAST(({minutes}) * 60000000 + microsecond({value}) AS VARCHAR))"
    if type_name.endswith("]") or type_name.startswith(("STRUCT", "MAP", "UNION")):
        # DuckDB's hash does not tell [] from [NULL], [[1], [2]] from [[1, 2]]; text tells two zeros apart.
        same = f"replace(replace({text}, '-0.0', '0.0'), '-nan', 'nan')"
        return f"hash([hash({value}), hash({same})])"
    # DuckDB's hash of 128 bits is the same where the two halves change places.
    wide = type_name.startswith(("HUGEINT", "UHUGEINT", "UUID", "DECIMAL"))
    return f"hash({text})" if wide else f"hash({value})"


@dataclass(frozen=True)
class SqlPart:
    """The SQL of one coordinate: the aggregate over a unit's rows in a group, and what the unit then adds.

    Args:
        coordinate: its name.
        pair: an aggregate of values, or nothing.
        added: an aggregate over units, or nothing.
        stages: name and expression of what is computed of each pair before, one after another.
        entries: of a coordinate that is a list, how long it is; else 0.
        pair_type: the type that DuckDB gives to `pair`; what is added up over units has 128 bits.
    """

    coordinate: str
    pair: str
    added: str
    stages: tuple[tuple[str, str], ...] = ()
    entries: int = 0
    pair_type: str = "HUGEINT"

    @property
    def types(self) -> set[str]:
        """The SQL types of columns with the coordinate's name: of pairs, and of sums over units."""
        return {self.pair_type, "HUGEINT[]" if self.entries else "HUGEINT"}

    @property
    def joined(self) -> str:
        """The SQL aggregate that adds up sums of parts of the rows, or of units."""
        name = identifier(self.coordinate)
        return sum_lists_sql(name, self.entries) if self.entries else f"sum({name})"

    @property
    def nothing(self) -> str:
        """The SQL of the sum of nothing."""
        zero = "0::HUGEINT"
        return f"list_resize([]::HUGEINT[], {self.entries}, {zero})" if self.entries else zero


@dataclass(frozen=True)
class RowSql:
    """A writer of SQL expressions over rows that may count.

    Args:
        columns: DuckDB's type of each column, after the steps.
        in_part: whether a unit that is in more groups than the limit counts in part in each.
        room: up to which size numbers are divided as BIGINTs; the answer is the same for any.
        listed: how many values are compared one by one, and not looked up in a list; the answer is the same.
        types: the type of each named value. A test compares it with the one that DuckDB binds.
    """

    columns: Mapping[str, str]
    in_part: bool
    room: int
    listed: int
    types: dict[str, str] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    _earlier: dict[str, str] = field(default_factory=dict)

    @property
    def named(self) -> dict[str, str]:
        """Name and SQL of each value of a row that is aggregated, computed once near it."""
        return {name: expression for expression, name in self._names.items()}

    def value(self, expression: str, type_name: str) -> str:
        """Return the name of a value in SQL that is computed once for each row, of a type."""
        name = self._names.setdefault(expression, f"y{len(self._names)}")
        self.types[name] = type_name
        return name

    @property
    def stages(self) -> tuple[tuple[str, str], ...]:
        """Name and SQL of what is computed of each row before its values, one after another."""
        return tuple((name, expression) for expression, name in self._earlier.items())

    def earlier(self, expression: str, type_name: str) -> str:
        """Return the name of SQL that is computed once for each row before its values.

        The other such expressions stay before it.
        """
        name = self._earlier.setdefault(expression, f"x{len(self._earlier)}")
        self.types[name] = type_name
        return name

    def column(self, column: str) -> str:
        """Return the SQL name of a column of the table among the rows."""
        return identifier("v:" + column)

    def number(self, column: str) -> str:
        """Return SQL of a column as DOUBLE."""
        return f"CAST({self.column(column)} AS DOUBLE)"

    def valued(self, column: str) -> str:
        """Return the SQL condition that a row has a value, which NULL and NaN are not."""
        if self.columns[column] in FLOATS:
            return f"NOT isnan({self.number(column)})"
        return f"{self.column(column)} IS NOT NULL"

    def counted(self, column: str) -> str:
        """Return SQL of how many rows have a value, without computing its steps again."""
        if self.columns[column] in FLOATS:
            return f"count(*) FILTER ({self.value(self.valued(column), 'BOOLEAN')})"
        return f"count({self.value(self.column(column), self.columns[column])})"

    def steps(self, column: str, lower: int, upper: int, exponent: int) -> str:
        """Return SQL of a column clamped and rounded to grid steps; every float64 in it is exact."""
        step = 2.0**exponent
        value = self.number(column)
        clamped = f"least(greatest({value}, {double(lower * step)}), {double(upper * step)})"
        rounded = f"CAST(round({clamped} * {double(2.0**-exponent)}) AS BIGINT)"
        return f"CASE WHEN {self.valued(column)} THEN {rounded} END"

    def scaled(self, total: str, rows: int | None, body: Body) -> str:
        """Return SQL of `grid.scaled_down`: integer division cuts towards zero.

        Args:
            total: a HUGEINT.
            rows: the limit of rows, or None for what has none.
            body: what a unit within the limit of rows adds at most.
        """
        if rows is not None:
            limit = self.room // rows
            total = (
                f"CASE WHEN n <= {rows} THEN {total} "
                f"WHEN {total} BETWEEN {-limit} AND {limit} THEN (CAST({total} AS BIGINT) * {rows}) // n "
                f"ELSE ({total} * {rows}) // n END"
            )
        if not self.in_part:
            return total
        if self._narrow(body):
            return f"(CAST({total} AS BIGINT) * w) // {WHOLE}"
        return f"CASE WHEN w = {WHOLE} THEN {total} ELSE (({total}) * w) // {WHOLE} END"

    def scaled_upwards(self, total: str, rows: int, limit: int, body: Body) -> str:
        """Return SQL of `grid.scaled_down_upwards`.

        Args:
            total: a HUGEINT, in steps, not negative.
            rows, limit: the limit of rows, and the same in steps.
            body: as of `scaled`.
        """

        def cut(number: str) -> str:
            return f"least(({number} * {rows} + n - 1) // n + 1, {limit})"

        narrow = self.room // rows
        limited = (
            f"CASE WHEN n <= {rows} OR {total} = 0 THEN {total} "
            f"WHEN {total} <= {narrow} THEN {cut(f'CAST({total} AS BIGINT)')} ELSE {cut(total)} END"
        )
        if not self.in_part:
            return limited
        limited = f"CAST({limited} AS BIGINT)" if self._narrow(body) else f"({limited})"
        return f"({limited} * w + {WHOLE - 1}) // {WHOLE}"

    def whole_number(self, count: str, exponent: int) -> str:
        """Return SQL of a whole number within the limit, in steps of 2^exponent, and its parts."""
        if self.in_part:
            count, exponent = f"{count} * w", exponent + WEIGHT_BITS
        return f"({count})::HUGEINT * {1 << -exponent}" if exponent else count

    def _narrow(self, body: Body) -> bool:
        """Whether an SQL BIGINT holds `WHOLE` times what a unit adds."""
        return max(body.linf_sensitivities, default=Fraction(0)) * WHOLE < self.room
