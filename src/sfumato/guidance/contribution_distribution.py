"""The noisy distribution of what privacy units contribute, and the table of units that it is of."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, reduce
from math import exp, sqrt
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.plan.plan import Plan
from sfumato.query.aggregates import Aggregate, count_units, histogram
from sfumato.query.schema import quote_name
from sfumato.query.tables.public_table import PublicTable

if TYPE_CHECKING:
    from sfumato.api.table import Table
    from sfumato.query.query import Query

# Limits to choose from: each number up to 6, then steps of about a quarter or a third, and of ten at the end.
LIMITS = (
    *(1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 150, 200, 300, 500),
    *(1_000, 2_000, 5_000, 10_000, 100_000, 1_000_000),
)
# A limit that so many units are within is large enough.
ENOUGH = 0.95
# Beyond a limit that so many are within, what seems to be units is mostly noise.
NEARLY_ALL = 0.98
# A bin with fewer units than so many deviations of its noise has none, as far as anybody knows.
NOISE = 1.5
# Nor is a limit chosen for fewer than this part of the units.
FEW = 0.001
# So many bins side by side have units for sure if they have more than so many deviations of their noise.
SURE = {1: 4, 2: 4, 4: 4}
# The same of bins anywhere, of which there are many: beyond the last that has units for sure is noise alone.
SURE_ANYWHERE = 7
# A tail falls with the square of what units have, at least: one that falls less has no end.
_LIGHTEST = 2.0
_TOO_FEW = 3.0  # deviations of noise, by which the next bin has fewer: there the tail ended
_PERHAPS = 0.25  # deviations of noise that may hide units
_NEARLY = 3.0  # times the mean length of a tail: 95% of it
UNITS = "units"


def histograms(columns: Mapping[str, str]) -> dict[str, Aggregate]:
    """Return the aggregates that measure the distribution of contributions, from a table of units.

    Args:
        columns: of whole numbers from 1, by what they are of: their distributions are asked.
    """
    edges = [1, *(limit + 1 for limit in LIMITS)]
    found: dict[str, Aggregate] = {UNITS: count_units()}
    return found | {
        of: histogram(column, edges, outside="count", per="unit") for of, column in columns.items()
    }


@dataclass(frozen=True)
class Tail:
    """The tail of a distribution of contributions, which noise hides: it falls by a constant rate.

    Args:
        start: the tail has units beyond it.
        density: units with as much as `start`.
        rate: the part of these that have one more, below 1.
    """

    start: int
    density: float
    rate: float

    @property
    def units(self) -> float:
        """The number of units in the tail of the distribution."""
        return self.density * self.rate / (1 - self.rate)

    def beyond(self, limit: int) -> float:
        """Return how much the units of the tail contribute beyond a limit."""
        more = max(limit - self.start, 0)
        units = self.units * self.rate**more
        return units * (max(self.start - limit, 0) + 1 / (1 - self.rate))


@dataclass(frozen=True)
class Distribution:
    """The noisy distribution of units by what each contributes, such as its number of groups.

    Args:
        units: the noisy number of all.
        within: of each of `LIMITS`, those that have so much, and more than the limit before.
        deviation: of the noise of each of `within`.
        most: what nobody has more than, where that is known.
    """

    units: float
    within: tuple[float, ...]
    deviation: float
    most: int | None = None

    def with_upper_bound(self, most: int) -> Distribution:
        """Return the distribution with an upper bound on contributions, beyond which all is noise."""
        end = next((i for i, limit in enumerate(LIMITS) if limit >= most), len(LIMITS) - 1)
        within = tuple(number if i <= end else 0.0 for i, number in enumerate(self.within))
        return Distribution(self.units, within, self.deviation, most)

    @property
    def enough(self) -> int:
        """The smallest limit of contributions that 95% of units are within, by the noisy distribution."""
        return self._within(ENOUGH)

    @property
    def surely_enough(self) -> int:
        """The smallest limit that 95% of units are within, even if noise makes the counts too large."""
        return self._within(ENOUGH, -2.0)

    def _within(self, part: float, doubt: float = 1.0) -> int:
        """Return the smallest limit of contributions that a share of units is within.

        Args:
            part: of the units.
            doubt: deviations that their sum is taken to be too small by.
        """
        found = 0.0
        for i, (limit, number) in enumerate(zip(LIMITS, self.within, strict=True), 1):
            found += number
            # One deviation more: noise is no reason for a limit that is far larger.
            if found + doubt * self.deviation * sqrt(i) >= part * self.units:
                return limit
        return LIMITS[-1]

    @property
    def _last(self) -> int:
        """The largest limit up to which bins of the distribution surely hold units."""
        # Sums of many noises may stay too small up to the largest limit: nothing sure is there then.
        end = min(LIMITS.index(self._within(NEARLY_ALL)) + 1, self._sure)
        more, few = 1, FEW * self.units
        while more:
            more = next(
                (
                    bins
                    for bins, most in SURE.items()
                    if sum(self.within[end : end + bins]) > max(most * self.deviation * sqrt(bins), few)
                ),
                0,
            )
            end = min(end + more, len(LIMITS))
        return LIMITS[end - 1]

    @property
    def _sure(self) -> int:
        """The number of bins of the distribution up to the last one with more than noise.

        Where none has, all units may surely be in the first ones: up to where their sum stands out most.
        """
        ends = [
            end
            for end in range(1, len(self.within) + 1)
            for bins in SURE
            if sum(self.within[max(end - bins, 0) : end]) > SURE_ANYWHERE * self.deviation * sqrt(bins)
        ]
        bins = range(1, len(self.within) + 1)
        return max(ends, default=max(bins, key=lambda end: sum(self.within[:end]) / sqrt(end)))

    @cached_property
    def mean(self) -> float:
        """The mean contribution of a unit, by the noisy distribution."""
        units = sum(number for _, number in self._sizes) + self._tail.units
        whole = sum(size * number for size, number in self._sizes) + self._tail.beyond(0)
        return max(whole / max(units, 1e-9), 1.0)

    def lost(self, limit: int) -> float:
        """Return the share of all contributions that is over a limit, by the noisy distribution."""
        whole = sum(size * number for size, number in self._sizes) + self._tail.beyond(0)
        beyond = sum(max(size - limit, 0.0) * number for size, number in self._sizes)
        beyond += self._tail.beyond(limit)
        return beyond / whole if whole > 0 else 0.0

    @cached_property
    def _tail(self) -> Tail:
        """The tail beyond the last bin of the distribution that stands out of the noise, if bins fall slowly.

        What is cut has no error bar, and noise has. So bins that fall slowly are taken to go on as they fall
        where noise begins, as far as the next bins have as many, or noise may hide them.
        """
        none = Tail(0, 0.0, 0.0)
        seen = [
            (before + 1, limit, number)
            for before, limit, number in zip((0, *LIMITS), LIMITS, self.within, strict=False)
            if number > max(NOISE * self.deviation, FEW * self.units) and limit <= self._last
        ]
        if len(seen) < 2 or seen[-1][1] >= (LIMITS[-1] if self.most is None else self.most):
            return none
        (start, end, fewer), (first, last, number) = seen[-2:]
        density, apart = number / (last - first + 1), (first + last - start - end) / 2
        rate = min((density * (end - start + 1) / fewer) ** (1 / apart), exp(-_LIGHTEST / last))
        tail = Tail(last, density, rate)
        place = LIMITS.index(last) + 1
        following = tail.units * (1 - rate ** (LIMITS[place] - last))
        if following > self.within[place] + _TOO_FEW * self.deviation:
            return none
        # Of the bins that nearly all of the tail would be in, no more than these have.
        reach = last + _NEARLY / (1 - rate)
        hidden = [n for limit, n in zip(LIMITS, self.within, strict=True) if last < limit <= reach]
        most = max(sum(hidden), 0.0) + _PERHAPS * self.deviation * sqrt(max(len(hidden), 1))
        return Tail(last, density * min(1.0, most / tail.units), rate)

    @cached_property
    def _sizes(self) -> list[tuple[float, float]]:
        """The mean contribution and the units of each bin of the distribution that is not only noise."""
        found, before, last = [], 0, self._last
        for limit, number in zip(LIMITS, self.within, strict=True):
            if limit <= last and number > max(NOISE * self.deviation, FEW * self.units):
                found.append(((before + 1 + limit) / 2, number))
            before = limit
        return found


def distributions(plan: Plan, row: Mapping[str, Any]) -> dict[str, Distribution]:
    """Return the contribution distributions in a released row, by name.

    Args:
        plan: of the release, whose query has `histograms`.
        row: the released numbers, by output.
    """
    deviation, found = max(plan.deviations.values()), dict[str, Distribution]()
    for name, aggregate in plan.query.aggregates:
        if name != UNITS:
            within = aggregate.outputs(name)[1:-1]  # between those with 0 and those beyond all limits
            found[name] = Distribution(row[UNITS], tuple(row[one] for one in within), deviation)
    return found


@dataclass(frozen=True)
class Names:
    """Makes column names for the table of units that no column of the rows has."""

    prefix: str

    @classmethod
    def avoiding(cls, *taken: str) -> Names:
        """Return a maker of column names with a prefix that none of these names has."""
        prefix = "_"
        while any(name.startswith(prefix) for name in taken):
            prefix += "_"
        return cls(prefix)

    def __call__(self, name: str) -> str:
        """Return a column name with the prefix."""
        return self.prefix + name


def in_public_groups(rows: Table[Any], keys: tuple[str, ...], groups: pa.Table, number: str) -> Table[Any]:
    """Return the rows in public groups, with the number of their group, before contributions are counted.

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
            part = part.filter(f"{quote_name(key)} IS {'' if null else 'NOT '}NULL")
        own = numbered.filter(pa.array([p == pattern for p in patterns])).select([*there, number])
        if there:
            engine: Any = rows._engine.with_rows(own)
            parts.append(part.join(PublicTable(engine), on=there))
        else:
            parts.append(part.with_columns(**{number: f"CAST({own[number][0].as_py()} AS BIGINT)"}))
    return reduce(lambda some, more: some.union(more), parts)


@dataclass(frozen=True)
class Bound:
    """A bound of a column's values, or of a unit's sums, in the table of units.

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
        """Return SQL of whether a value is beyond the bound; NaN never is."""
        sign = "<" if self.name == "lower" else ">"
        return f"{value} {sign} CAST('{self.at!r}' AS DOUBLE) AND NOT isnan({value})"


def one_row(table: Table[Any], aggregates: Mapping[str, Any]) -> Query:
    """Return a query of the whole table of units, in which each unit has one row."""
    return table.bound(rows=1).agg(**aggregates).query


def units(
    rows: Table[Any],
    keys: tuple[str, ...],
    names: Names,
    limit: int | None,
    bounds: tuple[Bound, ...] = (),
    values: Mapping[str, str] | None = None,
) -> Table[Any]:
    """Return the table of units: a row for each, with its groups, rows, and rows over limits and bounds.

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
        names(f"value{i}"): f"try_cast({quote_name(one.column)} AS DOUBLE)" for i, one in enumerate(bounds)
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
