"""The numbers of each unit from which the shifts of outputs follow, and how.

Every output is a function of sums over rows, or over the groups of each unit. With limits and bounds it is a
function of sums of clamped values over the parts of rows that count; without them, of sums of values that are
clamped much further out, over all rows. All groups are taken together. Proof: docs/proofs/diagnostics.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import date
from itertools import combinations_with_replacement, pairwise

from sfumato.dataclass import dataclass
from sfumato.noise.intervals import Interval
from sfumato.query.aggregates import (
    Aggregate,
    Correlation,
    CountDistinct,
    CountPrivacyUnits,
    CountRows,
    Derived,
    InBins,
    LinearRegression,
    Mean,
    OfColumns,
    Quantiles,
    StandardDeviation,
    Stratified,
    Sum,
    Variance,
    VectorMean,
    VectorSum,
    Weighted,
    Weights,
)
from sfumato.query.diagnostics.shifts import (
    ONE,
    ZERO,
    Ends,
    Numbers,
    Question,
    clip,
    held,
    part_of_bins,
    plus,
    rank_shift,
    share_of,
    sides,
    statistic,
    terms,
    times,
    total,
)
from sfumato.query.diagnostics.units import Names, UnitSums, double
from sfumato.query.plans.plan import Plan
from sfumato.query.schema import Kind, quoted
from sfumato.transformations import Ball, Edges, UnitSum

# With more bins in all, those of a histogram are taken together: they take too many columns.
MOST_BINS = 50
LONGEST = 4_000  # characters of the condition that a row is in one of many bins
# Values that are beyond a bound count up to so many widths of the bounds further out, and weights up to so
# many times the largest.
BEYOND = 1.0


@dataclass(frozen=True)
class WeightedShare:
    """A mean over units of a number from 0, or from -1, to 1, with weights.

    Args:
        share: SQL of a unit.
        weight: the column of its weight.
        signed: whether the number may be below 0.
    """

    share: str
    weight: str
    signed: bool = False


@dataclass(frozen=True)
class Column:
    """Values between bounds, as SQL of a row, or of a unit and group.

    Args:
        number: the value; NULL for none.
        lower, upper: the bounds.
        binds: whether a value may be beyond them.
    """

    number: str
    lower: float
    upper: float
    binds: bool = True

    def scale(self, limited: bool) -> tuple[float, float]:
        """Return the lower end and the width of what values are clamped to."""
        width, beyond = self.upper - self.lower, 0.0 if limited or not self.binds else BEYOND
        return self.lower - beyond * width, (1 + 2 * beyond) * width

    def clamped(self, limited: bool) -> str:
        """Return SQL of where in this range a value is, from 0 to 1."""
        low, width = self.scale(limited)
        return f"coalesce({_within(f'({self.number} - {double(low)}) / {double(width)}')}, 0.0)"


@dataclass(frozen=True)
class Records:
    """Rows, or units in a group, that count: SQL of how much each does, without limits and with them."""

    known: str
    limited: str
    of_pair: bool = False


@dataclass
class Request:
    """Everything that is requested for the shifts of outputs.

    Args:
        plan: of the release.
        names: makes names of columns.
        places: the places that are compared with quantiles, by name; without them, any.
        most: the number of aggregates whose shift is requested, from the first; None for all.
    """

    plan: Plan
    names: Names
    places: Mapping[str, float] | None = None
    most: int | None = None
    means: dict[str, WeightedShare] = field(default_factory=dict)
    weights: dict[str, str] = field(default_factory=dict)
    vectors: dict[str, list[str]] = field(default_factory=dict)
    quantiles: dict[str, Quantiles] = field(default_factory=dict)
    distinct: dict[str, CountDistinct] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.query = self.plan.query
        self.limits = {limit for limit, _ in self.query.binding_limits}
        self.sums = UnitSums(self.names, self.query.max_rows if "rows" in self.limits else None)
        for i, (name, aggregate) in enumerate(self.query.measured):
            made = self._of(name, aggregate.each) if self.most is None or i < self.most else []
            self.questions += made
            named = {one.output for one in made}
            if self._shifts(aggregate.each) and name not in named:
                self.left += [one for one in aggregate.outputs(name) if one not in named]
            elif isinstance(aggregate.each, Stratified):
                self.left += aggregate.outputs(name)[1:]
        for name, aggregate in self.query.aggregates:
            if isinstance(aggregate, Derived):
                self.questions += self._derived(name, aggregate)

    @property
    def of_units(self) -> dict[str, str]:
        """SQL of what each unit has, by column."""
        found = {name: sql for sql, name in self.weights.items()}
        found |= {name: one.share for name, one in self.means.items()}
        return found | {name: f"[{', '.join(entries)}]" for name, entries in self.vectors.items()}

    def _shifts(self, aggregate: Aggregate) -> bool:
        """Whether limits or bounds may shift an output."""
        return bool(self._limits(aggregate) or aggregate.clamps(self.query.schema) or aggregate.limits_values)

    def _limits(self, aggregate: Aggregate) -> set[str]:
        return self.limits - (set() if self._by_row(aggregate) else {"rows"})

    def _by_row(self, aggregate: Aggregate) -> bool:
        """Whether rows count; else each unit counts once in a group."""
        of = aggregate.of if isinstance(aggregate, Weighted) else aggregate
        if isinstance(of, Sum):
            return of.column not in {s.column for s in self.plan.statistics if isinstance(s, UnitSum)}
        return of.needs_rows

    def _of(self, name: str, aggregate: Aggregate) -> list[Question]:
        """Return what is requested for the shifts of an aggregate: nothing where nothing shifts it."""
        if not self._shifts(aggregate):
            return []
        of, weights = (
            (aggregate.of, aggregate.weights) if isinstance(aggregate, Weighted) else (aggregate, None)
        )
        by_row = self._by_row(aggregate)
        if not by_row and self.query.total_rows is not None and not isinstance(of, CountDistinct):
            return []  # which groups of a unit are left depends on all of its rows, in no simple way
        if isinstance(of, InBins):
            return self._bins(name, of, weights, by_row)
        if isinstance(of, Quantiles):
            return self._quantiles(name, of)
        if isinstance(of, VectorSum):
            return self._vectors(name, of, by_row)
        if isinstance(of, CountDistinct):
            return [self._distinct(name, of)]
        binds = of.clamps(self.query.schema)
        columns = [Column(self._number(c), float(low), float(high), binds) for c, low, high in of.bounds]
        if isinstance(of, CountPrivacyUnits):
            return [self._counted(name, Records("1.0", "1.0", True))]
        if isinstance(of, CountRows):
            return [self._counted(name, self._records([of.column] if of.column else [], weights))]
        if not by_row:
            (column,) = columns
            known = self.sums.pair(f"count({column.number})")
            columns = [replace(column, number=self.sums.pair(f"sum({column.number})"))]
            found = f"CASE WHEN {known} > 0 THEN 1.0 ELSE 0.0 END"
            return [self._sum(name, Records(found, found, True), columns[0])]
        records = self._records([c for c, _, _ in of.bounds], weights)
        if isinstance(of, Sum):
            return [self._sum(name, records, columns[0])]
        if isinstance(of, Mean | Variance | StandardDeviation | OfColumns):
            return self._moments(of.outputs(name), of, records, columns)
        return []

    # What is added up.

    def _number(self, column: str) -> str:
        """Return the column of a row's value as a number; NULL where it has none."""
        value = f"try_cast({quoted(column)} AS DOUBLE)"
        return self.sums.row(f"CASE WHEN isnan({value}) THEN NULL ELSE {value} END")

    def _records(self, columns: Sequence[str], weights: Weights | None, condition: str = "") -> Records:
        """Return the rows with a value in all columns, and a weight."""
        there = [f"{self._value(column)} IS NOT NULL" for column in columns]
        there += [f"({condition})"] if condition else []
        if weights is None:
            known = (
                self.sums.row(f"CASE WHEN {' AND '.join(there)} THEN 1.0 ELSE 0.0 END") if there else "1.0"
            )
            return Records(known, known)
        size = f"{self._number(weights.column)} / {double(float(weights.most))}"
        where = " AND ".join([f"{self._number(weights.column)} IS NOT NULL", *there])
        known, limited = (
            self.sums.row(f"CASE WHEN {where} THEN {_within(size, most)} ELSE 0.0 END")
            for most in (1 + BEYOND, 1.0)
        )
        return Records(known, limited)

    def _value(self, column: str) -> str:
        if self.query.schema[column].kind.numeric:
            return self._number(column)
        return quoted(column)

    def _kept(self, total: str) -> str:
        """Return SQL of what counts of a sum of a unit, by the limit of groups, or of rows in all."""
        kept = self.sums.kept(total)
        for limit, most in self.query.binding_limits:
            if limit != "rows":
                own = self.names("rows" if limit == "total_rows" else limit)
                return f"CASE WHEN {own} > {most} THEN {most} / CAST({own} AS DOUBLE) ELSE 1.0 END * {kept}"
        return kept

    def _share(self, top: str, bottom: str, signed: bool = False) -> str:
        """Request the mean of a ratio of sums, weighted by the lower one; return its name."""
        return self._mean(_ratio(top, bottom), bottom, signed)

    def _mean(self, share: str, weight: str, signed: bool) -> str:
        if weight.isidentifier():
            column = weight
        else:
            column = self.weights.setdefault(weight, self.names(f"weight{len(self.weights)}"))
        made = WeightedShare(share, column, signed)
        for name, known in self.means.items():
            if known == made:
                return name
        name = self.names(f"mean{len(self.means)}")
        self.means[name] = made
        return name

    def _average(self, records: Records, factor: str, limited: bool, signed: bool = False) -> str:
        """Request the mean of a number of each record, with limits or without."""
        counts = records.limited if limited else records.known
        value = self.sums.total(f"{counts} * {factor}", records.of_pair)
        weight = self.sums.total(counts, records.of_pair)
        if limited and self.limits:
            share = _ratio(self.sums.kept(value), self.sums.kept(weight))
            return self._mean(share, self._kept(weight), signed)
        return self._share(value, weight, signed)

    def _part(self, records: Records, factor: str = "1.0") -> str:
        """Request what counts with limits, times a number of each record, as a part of all records."""
        kept = self._kept(self.sums.total(f"{records.limited} * {factor}", records.of_pair))
        return self._share(kept, self.sums.total(records.known, records.of_pair))

    # What follows for each aggregate.

    def _counted(self, name: str, records: Records, of: str = "value") -> Question:
        part = self._part(records)
        return Question(name, (part,), lambda at: (clip(at[part], 0, 1), ONE), True, of, False)

    def _sum(self, name: str, records: Records, column: Column) -> Question:
        kept = self._part(records, self._column(column, True, records))
        every = self._average(records, self._column(column, False, records), False)
        (low, width), (wide_low, wide) = column.scale(True), column.scale(False)
        count = (self._part(records),) if low else ()

        def ends(at: Numbers) -> tuple[Interval, Interval]:
            found = total([times(low, clip(at[one], 0, 1)) for one in count])
            found += times(width, clip(at[kept], 0, 1))
            return found, plus(wide_low, times(wide, clip(at[every], 0, 1)))

        return Question(name, (kept, every, *count), ends, True, absolute=False)

    def _column(self, column: Column, limited: bool, records: Records) -> str:
        found = column.clamped(limited)
        return found if records.of_pair else self.sums.row(found)

    def _moments(
        self, outputs: Sequence[str], of: Aggregate, records: Records, columns: Sequence[Column]
    ) -> list[Question]:
        """Request means of values, of squares and of products, as far as an aggregate needs them."""
        places = range(len(columns))
        pairs = [
            (i, j)
            for i, j in combinations_with_replacement(places, 2)
            if not isinstance(of, Mean)
            and (len(columns) == 1 or i < j or isinstance(of, Correlation | LinearRegression))
            and not (isinstance(of, LinearRegression) and i == j == 0)
        ]
        named: dict[tuple[bool, int, int], str] = {}
        for limited in (True, False):
            values = [self._column(c, limited, records) for c in columns]
            for i in places:
                named[limited, i, -1] = self._average(records, values[i], limited)
            for i, j in pairs:
                product = f"(2.0 * {values[i]} - 1.0) * (2.0 * {values[j]} - 1.0)"
                named[limited, i, j] = self._average(records, product, limited, i != j)

        def of_side(at: Numbers, limited: bool, k: int) -> Interval:
            # Values from -1 to 1 about the centre, as products are of these.
            means = [plus(-1, times(2, clip(at[named[limited, i, -1]], 0, 1))) for i in places]
            products = {(i, j): clip(at[named[limited, i, j]], -1 if i != j else 0, 1) for i, j in pairs}
            return statistic(of, [c.scale(limited) for c in columns], means, products, k)

        def question(k: int, output: str) -> Question:
            return Question(
                output,
                tuple(dict.fromkeys(named.values())),
                lambda at: (of_side(at, True, k), of_side(at, False, k)),
                False,
            )

        return [question(k, output) for k, output in enumerate(outputs)]

    @property
    def _room(self) -> int:
        """How many more bins there may be."""
        return MOST_BINS - sum(map(len, self.vectors.values())) // 2

    def _vector(self, bins: Sequence[Records]) -> list[tuple[str, str]]:
        """Request what counts in each bin, and what does not; return the names of both."""
        vector = self.names(f"vector{len(self.vectors)}")
        entries = []
        for records in bins:
            kept = self._kept(self.sums.total(records.limited, records.of_pair))
            entries += [kept, f"{self.sums.total(records.known, records.of_pair)} - {kept}"]
        self.vectors[vector] = entries
        return [(f"{vector}[{i}]", f"{vector}[{i + 1}]") for i in range(0, len(entries), 2)]

    def _bins(self, name: str, of: InBins, weights: Weights | None, by_row: bool) -> list[Question]:
        """Request what counts in each bin, or in all where there are too many."""
        conditions, outputs = self._conditions(of), list(of.outputs(name))
        if isinstance(of, Stratified):
            conditions = [f"{one} AND {quoted(of.answer)}" for one in conditions]
        elif not of.shares and len(conditions) > self._room:
            conditions, outputs = [self._in_any(of, conditions)], [name]
        if len(conditions) > self._room or len(conditions[0]) > LONGEST:
            return []
        bins = [self._records([], weights, one) for one in conditions]
        if not by_row:
            rows = f"CAST({self.names('rows')} AS DOUBLE)"
            both = [[self.sums.pair(f"sum({one})") for one in (each.known, each.limited)] for each in bins]
            bins = [Records(f"{known} / {rows}", f"{limited} / {rows}", True) for known, limited in both]
        entries = self._vector(bins)
        numbers = tuple(one for pair in entries for one in pair)
        if isinstance(of, Stratified):
            assert of.design is not None
            sizes = zip(of.design.strat_sizes, of.design.sample_sizes, strict=True)
            factors = [there / asked if asked else 0.0 for there, asked in sizes]
            return [Question(name, numbers, part_of_bins(entries, factors), True, absolute=False)]
        one_of = [[float(i == j) for i in range(len(entries))] for j in range(len(entries))]
        if of.shares:
            made = zip(outputs, one_of, strict=True)
            return [Question(output, numbers, share_of(entries, of_it), False) for output, of_it in made]
        return [
            Question(output, pair, part_of_bins([pair], [1.0]), True, absolute=False)
            for output, pair in zip(outputs, entries, strict=True)
        ]

    def _in_any(self, of: InBins, conditions: Sequence[str]) -> str:
        """Return SQL of whether a row is in a bin at all."""
        if not isinstance(of.bins, Edges):
            return " OR ".join(f"({one})" for one in conditions)
        value, edges = self._number(of.column), of.bins.edges
        ends = [f"{value} IS NOT NULL"]
        ends += [] if of.bins.below else [f"{value} >= {double(edges[0])}"]
        ends += [] if of.bins.above else [f"{value} <= {double(edges[-1])}"]
        return " AND ".join(ends)

    def _conditions(self, of: InBins) -> list[str]:
        """Return SQL of which bin a row is in."""
        if isinstance(of.bins, Edges):
            value, edges = self._number(of.column), of.bins.edges
            found = [f"{value} >= {double(a)} AND {value} < {double(b)}" for a, b in pairwise(edges)]
            found[-1] = f"{value} >= {double(edges[-2])} AND {value} <= {double(edges[-1])}"
            found = [f"{value} < {double(edges[0])}"] * of.bins.below + found
            return found + [f"{value} > {double(edges[-1])}"] * of.bins.above
        column = quoted(of.column)
        values = [_literal(value) for value in of.bins.values]
        found = [f"{column} = {value}" for value in values]
        if of.bins.other:
            found.append(f"{column} IS NOT NULL AND {column} NOT IN ({', '.join(values)})")
        return found

    def _quantiles(self, name: str, of: Quantiles) -> list[Question]:
        """Request how many values are below and at each place, with limits and without."""
        here = self.names(f"places{len(self.quantiles)}")
        low, high = float(of.lower), float(of.upper)
        places = [low + rank * (high - low) for rank in of.ranks]
        if self.places is not None:
            places = [self._place(of, self.places[one]) for one in of.outputs(here)]
        # Whether there is room does not depend on where the places are, which noise decides.
        if 2 * (len(places) + 2) + 1 > self._room:
            return []
        value, ends = self._number(of.column), sorted({low, *places, high})
        conditions = [f"{value} < {double(low)}"]
        for i, place in enumerate(ends):
            conditions.append(f"{value} = {double(place)}")
            above = f"{value} > {double(place)}"
            conditions.append(above if place == high else f"{above} AND {value} < {double(ends[i + 1])}")
        self.quantiles[here] = of
        entries = self._vector([self._records([], None, one) for one in conditions])

        def of_rank(rank: float, place: float) -> Ends:
            return lambda at: (rank_shift(*sides(at, entries), rank, 1 + 2 * ends.index(place)), ZERO)

        numbers = tuple(one for pair in entries for one in pair)
        made = zip(of.outputs(name), of.ranks, places, strict=True)
        return [Question(output, numbers, of_rank(rank, at), False, "rank") for output, rank, at in made]

    def _place(self, of: Quantiles, value: float) -> float:
        """Return where many values may be equal, if that is near: a bound, or a whole number."""
        low, high = float(of.lower), float(of.upper)
        if self.query.schema[of.column].kind is Kind.INTEGER:
            value = float(round(value))
        near = (high - low) / 1000
        return low if value < low + near else high if value > high - near else value

    def _vectors(self, name: str, of: VectorSum, by_row: bool) -> list[Question]:
        """Request how long vectors are, with limits and bounds and without."""
        if not of.estimable:
            return []
        entries = [f"try_cast({quoted(of.column)}[{i}] AS DOUBLE)" for i in range(1, of.length + 1)]
        whole = " AND ".join(
            [f"len({quoted(of.column)}) = {of.length}", *(f"NOT isnan({one})" for one in entries)]
        )
        known = self.sums.row(f"coalesce({whole}, false)")
        if not by_row:
            entries = [self.sums.pair(f"sum(CASE WHEN {known} THEN {one} ELSE 0.0 END)") for one in entries]
        size = f"({_norm(of, entries)}) / {double(float(of.bound))}"
        if by_row:  # in columns of their own, or it would be written out many times
            size = self.sums.row(f"CASE WHEN {known} THEN {self.sums.row(size)} ELSE 0.0 END")
        if by_row:
            long, short = (self.sums.row(_within(size, most)) for most in (1 + BEYOND, 1.0))
        else:
            long, short = (_within(size, most) for most in (1 + BEYOND, 1.0))
        if not isinstance(of, VectorMean):
            return [self._counted(name, Records(long, short, not by_row), "length")]
        there = self.sums.row(f"CASE WHEN {known} THEN 1.0 ELSE 0.0 END")
        records = Records(there, there)
        limited = self._average(records, short, True)
        every = self._average(records, f"{long} / {1 + BEYOND}", False)

        def ends(at: Numbers) -> tuple[Interval, Interval]:
            return clip(at[limited], 0, 1), times(1 + BEYOND, clip(at[every], 0, 1))

        return [Question(name, (limited, every), ends, True, "length")]

    def _distinct(self, name: str, of: CountDistinct) -> Question:
        here = self.names(f"distinct{len(self.distinct)}")
        self.distinct[here] = of
        value = quoted(of.column)
        if self.query.schema[of.column].kind is Kind.REAL:
            value = f"CASE WHEN isnan({value}) THEN NULL ELSE {value} END"
        self.values[here] = self.sums.total(self.sums.pair(f"count(DISTINCT {value})"), True)
        both = f"{here}_few", f"{here}_most"
        return Question(name, both, lambda at: (held(at, both[0]), held(at, both[1])), True, absolute=False)

    def _derived(self, name: str, of: Derived) -> list[Question]:
        """Return the shift of what is computed of other outputs, where these have one."""
        known = {one.output: one for one in self.questions if one.of == "value"}
        parts = [known[one] for one in of.of if one in known]
        numbers = tuple(dict.fromkeys(n for part in parts for n in part.numbers))
        top, bottom = terms(of)
        alone = len(top.terms) == len(bottom.terms) == 1 and not (top.constant or bottom.constant)
        own = all(part.absolute and not part.relative for part in parts)
        if len(parts) == len(of.of) and (own or alone):

            def side(at: Numbers, i: int) -> Interval:
                above, below = (
                    plus(
                        float(some.constant),
                        total([times(float(w), known[n].ends(at)[i]) for n, w in some.terms]),
                    )
                    for some in (top, bottom)
                )
                return above / below

            return [
                Question(
                    name, numbers, lambda at: (side(at, 0), side(at, 1)), bool(bottom.terms), absolute=own
                )
            ]
        if parts or set(of.of) & set(self.left):
            self.left += of.outputs(name)
        return []


def _ratio(top: str, bottom: str) -> str:
    return f"CASE WHEN {bottom} > 1e-9 THEN ({top}) / {bottom} ELSE 0.0 END"


def _within(value: str, most: float = 1.0) -> str:
    """Return SQL of a value that is clamped from 0 to a number; greatest() would count as a text."""
    return f"CASE WHEN {value} < 0 THEN 0.0 WHEN {value} > {most!r} THEN {most!r} ELSE {value} END"


def _norm(of: VectorSum, entries: Sequence[str]) -> str:
    sizes = [f"abs({one})" for one in entries]
    if Ball(of.norm) is Ball.LINF:
        return f"greatest({', '.join([*sizes, '0.0'])})"
    if Ball(of.norm) is Ball.L1:
        return " + ".join(sizes)
    return f"sqrt({' + '.join(f'{one} * {one}' for one in entries)})"


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"
