"""Rows in bins: histograms of rows, units or weights over a column's values; all bins share one limit.

The bin of a row's value is found in SQL by halving, so that a thousand bins take ten comparisons.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import field
from datetime import date
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.framework import WEIGHT_BITS, WHOLE, Body
from sfumato.framework.contribution_bodies import SimplexBody
from sfumato.sql_text import double, literal
from sfumato.transformations.contribution_bounding import Values
from sfumato.transformations.grid import Grid, as_double, has_value, scaled_counts, scaled_down
from sfumato.transformations.row_sql import RowSql
from sfumato.transformations.statistics.statistic import Coordinate, Role, Statistic
from sfumato.transformations.statistics.weighted_sum import WeightGrid


class Places(ABC):
    """The public bins of a column, of which each value is in one or in none."""

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of bins."""

    @abstractmethod
    def place(self, value: Any) -> int | None:
        """Return the bin of a row's value, from 0; None where it has none, as for NULL and NaN."""

    @abstractmethod
    def _sql(self, sql: RowSql, column: str) -> str:
        """Return the SQL of the bin of a column's value."""


@dataclass(frozen=True)
class Edges(Places):
    """Bins of numbers between edges: each includes its lower edge, the last its upper edge too, as in NumPy.

    Args:
        edges: increasing float64 numbers, including infinities.
        below, above: whether numbers outside the edges have a bin of their own on that side.
    Raises:
        ParameterError: there are fewer than two edges, or they do not increase.

    >>> bins = Edges((0.0, 18.0, 65.0), above=True)
    >>> [bins.place(x) for x in (-1, 0, 17.9, 18, 65, 66, None)]
    [None, 0, 0, 1, 1, 2, None]
    """

    edges: tuple[float, ...]
    below: bool = False
    above: bool = False

    def __post_init__(self) -> None:
        if len(self.edges) < 2 or not all(one < other for one, other in pairwise(self.edges)):
            raise ParameterError(
                "edges", self.edges, "at least two numbers, each greater than the one before"
            )

    @property
    def count(self) -> int:
        """The number of bins, between edges and outside."""
        return len(self.edges) - 1 + self.below + self.above

    def place(self, value: Any) -> int | None:
        """Return the bin of a number.

        Args:
            value: the row's value; None for NULL.
        Returns:
            The number of the bin, or None.
        """
        number = as_double(value)
        if number is None:
            return None
        if number < self.edges[0]:
            return 0 if self.below else None
        if number > self.edges[-1]:
            return self.count - 1 if self.above else None
        return self.below + min(bisect_right(self.edges, number), len(self.edges) - 1) - 1

    def _sql(self, sql: RowSql, column: str) -> str:
        """Return the SQL of a number's bin between edges; NULL where it has none.

        Args:
            sql: writes expressions over rows.
            column: of numbers.
        """
        x = sql.number(column)
        first, *inner, last = self.edges
        below = "0" if self.below else "NULL"
        above = str(self.count - 1) if self.above else "NULL"
        inside = _bisect_sql(x, list(map(_edge, inner)), [str(i + self.below) for i in range(len(inner) + 1)])
        found = (
            f"CASE WHEN {x} < {_edge(first)} THEN {below} WHEN {x} > {_edge(last)} THEN {above} "
            f"ELSE {inside} END"
        )
        return f"CASE WHEN {sql.valued(column)} THEN {found} END"


@dataclass(frozen=True)
class Listed(Places):
    """Bins of listed values, one for each.

    Args:
        values: text, whole numbers, truth values or dates; all of one kind, without repetition.
        other: whether all other values share an extra bin after these.
    Raises:
        ParameterError: there is no value, or one occurs twice.

    >>> [Listed(("a", "b"), other=True).place(x) for x in ("b", "c", None)]
    [1, 2, None]
    """

    values: tuple[Hashable, ...]
    other: bool = False

    def __post_init__(self) -> None:
        if not self.values or len(set(self.values)) < len(self.values):
            raise ParameterError("values", self.values, "at least one, and none twice")

    @property
    def count(self) -> int:
        """The number of bins: the listed values, and one for others if requested."""
        return len(self.values) + self.other

    @cached_property
    def _places(self) -> dict[Hashable, int]:
        return {value: place for place, value in enumerate(self.values)}

    def place(self, value: Any) -> int | None:
        """Return the bin of a value.

        Args:
            value: the row's value; None for NULL.
        Returns:
            The number of the bin, or None.
        """
        if not has_value(value):
            return None
        return self._places.get(value, len(self.values) if self.other else None)

    def _sql(self, sql: RowSql, column: str) -> str:
        """Return the SQL of a listed value's bin; of another value's the bin behind the list, or NULL.

        Args:
            sql: writes expressions over rows.
            column: of values of the kind that is listed.
        """
        values: Any = self.values
        value, kind = sql.column(column), type(values[0])
        present = f"{value} IS NOT NULL"
        if kind is str:
            value = f'{value} COLLATE "binary"'  # a column of a database may have another collation
        if kind is int:
            value = f"TRY_CAST({value} AS HUGEINT)"
        other = str(len(values)) if self.other else "NULL"
        if len(values) > sql.listed:
            constants = [_constant(one) for one in values]
            place = f"coalesce(list_position([{', '.join(constants)}], {value})::BIGINT - 1, {other})"
            return f"CASE WHEN {present} THEN {place} END"
        # Texts in the order of their code points, which is that of their bytes.
        ordered = sorted(enumerate(values), key=lambda pair: pair[1])
        constants = [_constant(one) for _, one in ordered]
        equal = [
            f"CASE WHEN {value} = {constant} THEN {i} ELSE {other} END"
            for (i, _), constant in zip(ordered, constants, strict=True)
        ]
        return f"CASE WHEN {present} THEN {_bisect_sql(value, constants[1:], equal)} END"


def _bisect_sql(x: str, bounds: Sequence[str], places: Sequence[str]) -> str:
    """Return the SQL of x's bin by halving increasing bounds; at a bound, the upper bin."""
    if not bounds:
        return places[0]
    half = len(bounds) // 2
    lower = _bisect_sql(x, bounds[:half], places[: half + 1])
    upper = _bisect_sql(x, bounds[half + 1 :], places[half + 1 :])
    return f"CASE WHEN {x} < {bounds[half]} THEN {lower} ELSE {upper} END"


def _edge(edge: float) -> str:
    return f"'{edge}'::DOUBLE" if edge in (float("inf"), -float("inf")) else double(edge)


def _constant(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value}::HUGEINT"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    return literal(str(value))


@dataclass(frozen=True)
class RowsInBins(Statistic):
    """The numbers of rows in bins, at most `rows` for each unit in all bins together.

    A row adds one to the bin of its value. A unit with n rows adds rows/n for each row, truncated to the
    grid.

    Args:
        label: the prefix of the coordinates' names.
        column: the column whose values are counted; NULL and NaN are in no bin.
        rows: the limit of rows per unit and group.
        bins: the bins, `Edges` or `Listed`.
        exponent: log2 of the step of rows, at most 0.

    >>> ages = RowsInBins("age", "age", rows=2, bins=Edges((0.0, 18.0, 65.0)), exponent=-2)
    >>> ages.contribution([{"age": 3}, {"age": 30}, {"age": 40}])
    Counter({'age.bin1': 5, 'age.bin0': 2})
    >>> ages.what(1)
    'rows in bin 2 of age'

    Proof: docs/proofs/rows_in_bins.md.
    """

    by_rows: ClassVar[bool] = True
    by_value: ClassVar[bool] = True
    # Many units in one bin, in fine steps, may be more than a BIGINT.
    weight_type: ClassVar[str] = "HUGEINT"

    label: str
    column: str
    rows: int
    bins: Places
    exponent: int = 0

    @property
    def where(self) -> str | None:
        """The column of truth values that says which rows are in bins; None for all rows."""
        return None

    @cached_property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The coordinates of the bins: one number each."""
        step, of = Grid(self.exponent).step, "rows" if self.by_rows else "units"
        return tuple(
            Coordinate(f"{self.label}.bin{i}", Role.BIN, step, of, self.what(i))
            for i in range(self.bins.count)
        )

    def what(self, place: int) -> str:
        """Return a short description of what a bin counts.

        Args:
            place: the number of the bin, from 0.
        Returns:
            The description.
        """
        return f"{'rows' if self.by_rows else 'units'} in bin {place + 1} of {self.column}"

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return the unit's rows in each bin, scaled down to the limit."""
        where = self.where
        places = [
            self.bins.place(r[self.column]) if where is None or r[where] is True else None for r in rows
        ]
        counts = scaled_counts(places, self.rows, self.exponent, weight)
        return Counter({self.names[place]: n for place, n in counts.items()})

    @property
    def content(self) -> dict[str, Any]:
        """What explanations say about all bins together."""
        return {"each_of": {"first": self.names[0], "what": self.each_of}}

    @property
    def each_of(self) -> str:
        """The numbers that share one explanation: all bins."""
        return f"{'rows' if self.by_rows else 'units'} in each of {self.bins.count:,} bins of {self.column}"

    @property
    def divisible(self) -> bool:
        """Whether fractions of a row are whole steps of the bins."""
        return self.exponent <= -WEIGHT_BITS

    @property
    def description(self) -> dict[str, Any]:
        """The description of the bins for the certificate."""
        rows, one = self.rows if self.by_rows else None, str(1 << -self.exponent)
        return {"kind": "bins", "names": list(self.names), "rows": rows, "one": one, "weight": "1"}

    @property
    def body(self) -> Body:
        """The body of the bins: as many rows as the limit, over all bins together."""
        return SimplexBody(self.names, Fraction(self.rows << -self.exponent))

    @property
    def _no_cone(self) -> str:
        """Why no cone holds what a unit adds to bins: it is in a simplex."""
        return (
            "noise: K-norm noise is not available for histogram and value_counts, whose "
            "contributions have the shape of Laplace noise. Use 'laplace', 'gaussian' or 'auto'"
        )

    def _place_sql(self, sql: RowSql) -> str:
        """Return the SQL of a row's bin, from 0; NULL where it is in none."""
        found = f"CAST({self.bins._sql(sql, self.column)} AS BIGINT)"
        return found if self.where is None else f"CASE WHEN {sql.column(self.where)} THEN {found} END"


@dataclass(frozen=True)
class UnitsInBins(RowsInBins):
    """The numbers of units in bins: each unit counts once over all bins, divided among its rows.

    Raises:
        ParameterError: rows is not 1.

    >>> UnitsInBins("size", "size", 1, Listed(("s", "m")), -2).contribution([{"size": "s"}, {"size": "m"}])
    Counter({'size.bin0': 2, 'size.bin1': 2})

    Proof: docs/proofs/units_in_bins.md.
    """

    by_rows: ClassVar[bool] = False

    @property
    def per_unit(self) -> str:
        """How a unit counts in bins: divided among its rows."""
        return f"divided over its rows by bins of {self.column}"

    def __post_init__(self) -> None:
        if self.rows != 1:
            raise ParameterError("rows", self.rows, "1: a unit counts once")


@dataclass(frozen=True)
class WeightsInBins(RowsInBins):
    """The sums of weights of rows in bins: the size of each bin's population.

    A row adds its weight to the bin of its value; without a weight or a value it adds nothing. A unit with n
    rows adds rows/n of that, truncated to the grid. Steps are 2^exponent of a step of weights.

    Args:
        label, column, rows, bins, exponent: as for `RowsInBins`.
        weight: the column of weights.
        weights: the largest weight and the step of weights.
        once: whether a unit counts once, with its weights divided among its rows.
    Raises:
        ParameterError: a unit counts once, and `rows` is more than one.

    >>> of = WeightGrid(0, 50)
    >>> ages = WeightsInBins("age", "age", 2, Edges((0.0, 18.0, 65.0)), -2, weight="w", weights=of)
    >>> ages.contribution([{"age": 3, "w": 10}, {"age": 30, "w": 70}, {"age": 40, "w": None}])
    Counter({'age.bin1': 133, 'age.bin0': 26})

    Proof: docs/proofs/weights_in_bins.md.
    """

    weight: str = field(kw_only=True)
    weights: WeightGrid = field(kw_only=True)
    once: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.once and self.rows != 1:
            raise ParameterError("rows", self.rows, "1: a unit counts once")

    @property
    def by_rows(self) -> bool:  # type: ignore[override]
        """Whether rows add their weights to bins separately, rather than each unit once."""
        return not self.once

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the weights and of the values in bins."""
        return self.weight, self.column

    @cached_property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The coordinates of the weighted bins: one number each."""
        step, bounds = self.weights.step * Grid(self.exponent).step, (0.0, float(self.most_weight))
        of = "units" if self.once else "rows"
        what = f"sum of the weights {self.weight}, trimmed, of {of} in bin"
        return tuple(
            Coordinate(
                f"{self.label}.bin{i}",
                Role.BIN,
                step,
                self.weight,
                f"{what} {i + 1} of {self.column}",
                bounds,
            )
            for i in range(self.bins.count)
        )

    @property
    def per_unit(self) -> str:
        """How a unit counts in bins: with its weight."""
        return f"with the mean of its weights {self.weight}, divided over its rows by bins of {self.column}"

    @property
    def each_of(self) -> str:
        """The numbers that share one explanation: all weighted bins."""
        return f"sum of the weights {self.weight}, trimmed, of {super().each_of}"

    @property
    def most_weight(self) -> Fraction:
        """The largest weight of a row in bins."""
        return self.weights.most * self.weights.step

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return the weights of the unit's rows in each bin, scaled down to the limit."""
        sums: Counter[int] = Counter()
        for row in rows:
            place, own = self.bins.place(row[self.column]), self.weights.steps(row[self.weight])
            if place is not None and own is not None:
                sums[place] += own << -self.exponent
        return Counter({self.names[i]: scaled_down(n, len(rows), self.rows, weight) for i, n in sums.items()})

    @property
    def description(self) -> dict[str, Any]:
        """The description of the weighted bins for the certificate."""
        return super().description | {"weight": str(self.weights.most)}

    @property
    def body(self) -> Body:
        """The body of weighted bins: as many rows of the largest weight as the limit, over all bins."""
        return SimplexBody(self.names, Fraction(self.rows * self.weights.most << -self.exponent))

    def _added_sql(self, sql: RowSql) -> str:
        """Return the SQL of a row's weight in its bin in steps, 0 where it has none."""
        return sql.value(f"coalesce({self.weights._sql(sql, self.weight)}, 0)", "BIGINT")


@dataclass(frozen=True)
class YesInStrata(RowsInBins):
    """The numbers of yes-answers in strata, at most `rows` for each unit in all strata together.

    A row whose answer is true adds one to its stratum. A unit with n rows, whatever their answers, adds
    rows/n for each row that counts, truncated to the grid.

    Args:
        answer: the column of answers: true, false, or NULL for a missing one, which counts as no.

    >>> awards = YesInStrata("school", "school", 1, Listed(("E", "H")), exponent=-2, answer="award")
    >>> awards.contribution([{"school": "H", "award": True}, {"school": "H", "award": None}])
    Counter({'school.bin1': 2})
    >>> awards.what(1)
    'yes-answers of award where school is H'

    Proof: docs/proofs/yes_in_strata.md.
    """

    answer: str = ""

    @property
    def where(self) -> str:
        """The column of answers: only rows with yes count."""
        return self.answer

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the strata and of the answers."""
        return (self.column, self.answer)

    @property
    def each_of(self) -> str:
        """The numbers that share one explanation: those of all strata."""
        return f"yes-answers of {self.answer} in each of {self.bins.count:,} strata of {self.column}"

    def what(self, place: int) -> str:
        """Return a short description of the yes-answers that a stratum counts.

        Args:
            place: the number of the stratum, from 0.
        Returns:
            The description.
        """
        stratum = self.bins.values[place] if isinstance(self.bins, Listed) else place + 1
        return f"yes-answers of {self.answer} where {self.column} is {stratum}"
