"""Values of rows as a query computes them, each once, and what units add of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from fractions import Fraction

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.text import double, identifier
from sfumato.query.schema import FLOATS, Column
from sfumato.transformations import Statistic


def sums_of(lists: str, entries: int) -> str:
    """Add up lists entry by entry, none to zeros: faster than to unnest, and no list of lists is kept."""
    return f"[{', '.join(f'coalesce(sum({lists}[{i}]), 0)' for i in range(1, entries + 1))}]"


def after(source: str, stages: Sequence[tuple[str, str]]) -> str:
    """Return rows of what stands behind FROM with columns that are computed one after another, each once.

    UNNEST of one value is that value. DuckDB would write a plain expression in the place of each use of it,
    such as of each entry of a list.
    """
    for name, expression in stages:
        source = f"(SELECT *, unnest([{expression}]) AS {name} FROM {source})"
    return source


@dataclass(frozen=True)
class Part:
    """What is aggregated of values for each unit and group, and what the unit then adds to a coordinate.

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
        """The types of columns with the coordinate's name: of pairs, and of sums over units."""
        return {self.pair_type, "HUGEINT[]" if self.entries else "HUGEINT"}

    @property
    def joined(self) -> str:
        """An aggregate over sums of parts of the rows, or of units, which adds them up."""
        name = identifier(self.coordinate)
        return sums_of(name, self.entries) if self.entries else f"sum({name})"

    @property
    def nothing(self) -> str:
        """The sum of nothing."""
        zero = "0::HUGEINT"
        return f"list_resize([]::HUGEINT[], {self.entries}, {zero})" if self.entries else zero


@dataclass(frozen=True)
class Values:
    """Expressions over rows that may count.

    Args:
        schema: the columns after the steps.
        in_part: whether a unit that is in more groups than the limit counts in part in each.
        types: the type of each named value. A test compares it with the one that DuckDB binds.
    """

    schema: Mapping[str, Column]
    in_part: bool
    types: dict[str, str] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    _earlier: dict[str, str] = field(default_factory=dict)

    @property
    def named(self) -> dict[str, str]:
        """Name and expression of each value of a row that is aggregated: computed once, where it is near."""
        return {name: expression for expression, name in self._names.items()}

    def value(self, expression: str, type_name: str) -> str:
        """Return the name of a value that is computed once for each row, of a type."""
        name = self._names.setdefault(expression, f"y{len(self._names)}")
        self.types[name] = type_name
        return name

    @property
    def stages(self) -> tuple[tuple[str, str], ...]:
        """Name and expression of what is computed of each row before its values, one after another."""
        return tuple((name, expression) for expression, name in self._earlier.items())

    def earlier(self, expression: str, type_name: str) -> str:
        """Return the name of what is computed of each row, once, before its values; with those before it."""
        name = self._earlier.setdefault(expression, f"x{len(self._earlier)}")
        self.types[name] = type_name
        return name

    def column(self, column: str) -> str:
        """Return the name of a column of the table among the rows."""
        return identifier("v:" + column)

    def number(self, column: str) -> str:
        """Return a column as DOUBLE."""
        return f"CAST({self.column(column)} AS DOUBLE)"

    def valued(self, column: str) -> str:
        """Return the condition that a row has a value, which NULL and NaN are not."""
        if self.schema[column].type_name in FLOATS:
            return f"NOT isnan({self.number(column)})"
        return f"{self.column(column)} IS NOT NULL"

    def counted(self, column: str) -> str:
        """Return how many rows have a value; not by its steps, which DuckDB would compute once more."""
        if self.schema[column].type_name in FLOATS:
            return f"count(*) FILTER ({self.value(self.valued(column), 'BOOLEAN')})"
        return f"count({self.value(self.column(column), self.schema[column].type_name)})"

    def steps(self, column: str, lower: int, upper: int, exponent: int) -> str:
        """Return a column clamped and rounded to steps; every float64 in it is exact."""
        step = 2.0**exponent
        value = self.number(column)
        clamped = f"least(greatest({value}, {double(lower * step)}), {double(upper * step)})"
        rounded = f"CAST(round({clamped} * {double(2.0**-exponent)}) AS BIGINT)"
        return f"CASE WHEN {self.valued(column)} THEN {rounded} END"

    def most(self, s: Statistic) -> Fraction | None:
        """Return the largest number that a unit adds, where parts of it are made."""
        return max(s.body.linf_sensitivities) if self.in_part else None
