"""The queries that shifts of outputs need: which noisy values, and how a shift follows from them.

Every output is a function of sums over rows, or over the groups of each unit. With limits and bounds it is a
function of sums of clamped values over the parts of rows that count; without them, of sums of values that are
clamped much further out, over all rows. All groups are taken together. Proof: docs/proofs/diagnostics.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise

from sfumato.dataclass import dataclass
from sfumato.guidance.contribution_distribution import Names
from sfumato.guidance.counted_rows import (
    Column,
    Columns,
    Counting,
    Records,
    double,
    if_all,
    to_double_sql,
)
from sfumato.guidance.shifts import (
    ZERO,
    Basis,
    Ends,
    ShiftFormula,
    bases,
    basis,
    divide_intervals,
    linear,
    make_shift_formula,
    quantile,
    shares,
    statistic,
)
from sfumato.noise.noise_sums import Interval
from sfumato.plan.noisy_statistics import NoisyNumbers
from sfumato.plan.plan import Plan
from sfumato.query.aggregates import (
    Aggregate,
    CountDistinct,
    CountPrivacyUnits,
    CountRows,
    Derived,
    InBins,
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
    WeightedSum,
    Weights,
    vector_sum,
)
from sfumato.query.aggregates.stratified_proportion import LimitEstimate, StandardErrorEstimate
from sfumato.query.schema import Kind, quote_name
from sfumato.transformations import Edges, UnitSum
from sfumato.transformations.grid import get_exponent

MAX_PLACES = 250  # between which quantiles are looked for, if values are whole numbers
PLACES = 80  # within the bounds, if they are not
MAX_PAIRS = 12  # of columns, whose products are in one vector
STEPS = 40  # bits of a bound of vectors, which are added up in whole steps
ENOUGH = "with a limit of values that about 95% of units are within"


@dataclass(frozen=True)
class ShiftAggregate:
    """An aggregate that a shift needs, of rows or of units in groups.

    Args:
        columns: what it is made of.
        vector: SQL of a list of numbers that are not below 0 and add up to 1 at most; empty for bins.
        aggregate: the bins.
    """

    columns: Columns
    vector: tuple[str, ...] = ()
    aggregate: Aggregate | None = None

    def with_row_limit(self, limit: int, name: str) -> Aggregate:
        """Return the aggregate of a shift, with a limit of rows of a unit."""
        if self.aggregate is not None:
            return self.aggregate
        return vector_sum(name, length=len(self.vector), bound=limit, norm="l1")


@dataclass
class ShiftQueries:
    """All queries that the shifts of a plan's outputs need.

    Args:
        plan: of the release.
        names: makes names of columns.
    """

    plan: Plan
    names: Names
    asked: dict[str, ShiftAggregate] = field(default_factory=dict)
    distinct: dict[str, CountDistinct] = field(default_factory=dict)
    questions: list[ShiftFormula] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.query = self.plan.query
        self.limits = dict(self.query.binding_limits)
        self.made = Counting(self.names, self.query.schema, self.limits)
        known: dict[str, ShiftFormula] = {}
        for name, aggregate in self.query.measured:
            if self._may_shift(aggregate.each):
                known |= {one.output: one for one in self._shifts(name, aggregate.each)}
                self.left += [one for one in aggregate.outputs(name) if one not in known]
        self.questions += known.values()
        for name, aggregate in self.query.aggregates:
            if isinstance(aggregate, Derived) and any(
                one in known or one in self.left for one in aggregate.inputs
            ):
                made = self._derive_shift(name, aggregate, known)
                self.questions += [] if made is None else [made]
                self.left += aggregate.outputs(name) if made is None else []

    def without(self, failed: Sequence[str]) -> None:
        """Drop queries that cannot be released, and the shifts that need them."""
        for name in failed:
            del self.asked[name]
        there = {number for name, one in self.asked.items() for number in self.numbers(name, one)}
        there |= {f"{name}_{end}" for name in self.distinct for end in ("few", "most")}
        lost = [one for one in self.questions if not all(there >= weights.keys() for weights in one.sums)]
        self.left += [one.output for one in lost]
        self.questions = [one for one in self.questions if one not in lost]

    @staticmethod
    def numbers(name: str, aggregate: ShiftAggregate) -> tuple[str, ...]:
        """Return the names of the noisy values that a query of a shift releases."""
        if aggregate.aggregate is not None:
            return aggregate.aggregate.outputs(name)
        return tuple(f"{name}[{i}]" for i in range(len(aggregate.vector)))

    def _may_shift(self, aggregate: Aggregate) -> bool:
        """Whether limits or bounds may shift an output, so that queries are needed."""
        limits = self.limits.keys() - (set() if self._by_row(aggregate) else {"rows"})
        return bool(limits or aggregate.clamps(self.query.schema) or aggregate.limits_values)

    def _by_row(self, aggregate: Aggregate) -> bool:
        """Whether an aggregate's shift is a matter of rows; otherwise each unit counts once in a group."""
        of = aggregate.aggregate if isinstance(aggregate, Weighted) else aggregate
        if isinstance(of, Sum):
            return of.column not in {s.column for s in self.plan.statistics if isinstance(s, UnitSum)}
        return of.needs_rows

    def _shifts(self, name: str, aggregate: Aggregate) -> list[ShiftFormula]:
        """Return the shifts of an aggregate, and add the queries that they need."""
        weights = aggregate.weights if isinstance(aggregate, Weighted) else None
        of = aggregate.aggregate if isinstance(aggregate, Weighted) else aggregate
        by_row = self._by_row(aggregate)
        if isinstance(of, CountDistinct):
            return [self._distinct(name, of)]
        if isinstance(of, Quantiles):
            return self._quantiles(name, of)
        if isinstance(of, InBins):
            return self._bins(name, of, self.made.rows([], weights, by_row))
        if isinstance(of, VectorSum):
            return self._vectors(name, of, by_row)
        if isinstance(of, CountRows | CountPrivacyUnits):
            columns = [of.column] if isinstance(of, CountRows) and of.column else []
            return [self._counted(name, self.made.rows(columns, weights, by_row))]
        binds = of.clamps(self.query.schema)
        if not by_row:
            ((column, low, high),) = of.bounds
            made = Columns(self.names, True)
            number = made.row(to_double_sql(column))
            records, share = self.made.once(made, made.pair(f"count({number})"))
            value = made.pair(f"sum({number})")
            return [self._sum(name, records, Column(value, float(low), float(high), binds, share(value)))]
        records = self.made.rows([c for c, _, _ in of.bounds], weights, True)
        blocks = [
            Column(records.columns.row(to_double_sql(c)), float(low), float(high), binds)
            for c, low, high in of.bounds
        ]
        if isinstance(of, Sum):
            return [self._sum(name, records, blocks[0])]
        if isinstance(of, Mean | Variance | StandardDeviation | OfColumns):
            return self._moments(of.outputs(name), of, records, blocks)
        return []

    def _vector(self, columns: Columns, entries: Sequence[str]) -> tuple[str, ...]:
        """Add a query of a vector for shifts; return the names of its entries."""
        return self._request(ShiftAggregate(columns, tuple(entries)))

    def _request(self, aggregate: ShiftAggregate) -> tuple[str, ...]:
        name = next((name for name, one in self.asked.items() if one == aggregate), None)
        if name is None:
            name = self.names(f"asked{len(self.asked)}")
            self.asked[name] = aggregate
        return self.numbers(name, aggregate)

    # What follows for each aggregate.

    def _counted(self, name: str, records: Records) -> ShiftFormula:
        kept, lost = self._vector(records.columns, [records.kept, records.lost])
        return linear(name, {kept: records.unit}, {kept: records.unit, lost: records.unit})

    def _expand(
        self, records: Records, columns: Sequence[Column], places: Sequence[tuple[int, ...]]
    ) -> dict[tuple[bool, tuple[int, ...]], tuple[Basis, tuple[str, ...]]]:
        """Add queries of what counts with limits and without, by basis functions of the values."""
        found = {}
        for start in range(0, len(places), MAX_PAIRS):
            some, entries = places[start : start + MAX_PAIRS], [f"({records.lost}) / 2.0"]
            for limited in (True, False):
                values = [records.columns.end(column.clamped(limited)) for column in columns]
                counts = records.kept if limited else records.known
                for one in some:
                    entries += [f"({counts}) * ({f}) / {2.0 * len(some)}" for f in basis(values, one).sql]
            numbers = iter(self._vector(records.columns, entries)[1:])
            for limited in (True, False):
                for one in some:
                    made = basis(["x"] * len(columns), one)
                    found[limited, one] = made, tuple(next(numbers) for _ in made.sql)
        return found

    def _sum(self, name: str, records: Records, column: Column) -> ShiftFormula:
        made, both = self._expand(records, [column], [(0,)]), []
        for limited in (True, False):
            low, width = column.scale(limited)
            above, below = made[limited, (0,)][1]
            both.append({above: 2 * records.unit * (low + width), below: 2 * records.unit * low})
        return linear(name, *both)

    def _moments(
        self, outputs: Sequence[str], aggregate: Aggregate, records: Records, columns: Sequence[Column]
    ) -> list[ShiftFormula]:
        """Add queries of the means and products from which the shifts of an aggregate follow."""
        places = bases(aggregate, len(columns))
        made = self._expand(records, columns, places)
        sums: tuple[list[Mapping[str, float]], ...] = ([], [])
        places_of: dict[tuple[int, ...], int] = {}
        for one in places:
            wanted: dict[tuple[int, ...], tuple[float, ...]]
            wanted = {(i,): weights for i, weights in basis([""] * len(columns), one).means.items()}
            functions = made[True, one][0]
            wanted |= {(*one, -1): functions.product} if functions.product else {}
            for key, weights in wanted.items():
                if key in places_of:
                    continue
                places_of[key] = len(sums[0])
                for found, limited in zip(sums, (True, False), strict=True):
                    both = list(zip(made[limited, one][1], weights, strict=True))
                    found += [dict(both), {number: 1.0 - weight for number, weight in both}]

        def side(at: Sequence[Interval], limited: bool, k: int) -> Interval:
            def signed(*key: int) -> Interval:  # from -1 to 1
                place = places_of[key]
                return divide_intervals(at[place], at[place + 1]).scaled(2).shifted(-1)

            scales = [column.scale(limited) for column in columns]
            products = {(one[0], one[-1]): signed(*one, -1) for one in places if (*one, -1) in places_of}
            return statistic(aggregate, scales, [signed(i) for i in range(len(columns))], products, k)

        return [make_shift_formula(output, sums, partial(side, k=k)) for k, output in enumerate(outputs)]

    def _in_bins(self, aggregate: InBins, records: Records) -> list[tuple[str, str]]:
        """Add queries of what counts and what does not in each bin; return the names of both."""
        plain = replace(aggregate, per="row", shares=False)
        both = (records.columns.end(sql) for sql in (records.kept, records.lost))
        kept, lost = (
            self._request(ShiftAggregate(records.columns, (), Weighted(plain, Weights(one, Fraction(1)))))
            for one in both
        )
        return list(zip(kept, lost, strict=True))

    def _bins(self, name: str, aggregate: InBins, records: Records) -> list[ShiftFormula]:
        outputs, unit = aggregate.outputs(name), records.unit
        if isinstance(aggregate, Stratified):
            return self._strata(name, aggregate, records)
        found = self._in_bins(aggregate, records)
        if aggregate.shares:
            kept = [one for one, _ in found]
            return [shares(output, kept, found, j) for j, output in enumerate(outputs)]
        both = zip(outputs, found, strict=True)
        return [linear(output, {kept: unit}, {kept: unit, lost: unit}) for output, (kept, lost) in both]

    def _strata(self, name: str, aggregate: Stratified, records: Records) -> list[ShiftFormula]:
        """Return the shifts of a stratified proportion, its standard error and its interval."""
        assert aggregate.design is not None
        strata, made, answer = aggregate.design, records.columns, quote_name(aggregate.answer)
        yes = replace(
            records,
            known=made.end(if_all([answer], records.known)),
            kept=made.end(if_all([answer], records.kept)),
        )
        bins = InBins(aggregate.column, aggregate.bins, aggregate.suffixes, "row")
        found = self._in_bins(bins, yes)
        proportion = linear(
            name,
            *(
                {n: float(step) for both, step in zip(found, strata.steps, strict=True) for n in both[:few]}
                for few in (1, 2)
            ),
        )
        in_strata = [
            [dict.fromkeys(both[:few], 1.0 / n) for both, n in zip(found, strata.sample_sizes, strict=True)]
            for few in (1, 2)
        ]
        estimates = {one.name: one for one in self.plan.requirements.estimates}
        error, *ends = (estimates[output] for output in aggregate.outputs(name)[1:])
        noise = NoisyNumbers({}, {}, self.plan.laws, self.plan.steps, noise=self.plan.measurement.noise)
        assert isinstance(error, StandardErrorEstimate)

        def of_error(at: Sequence[Interval], _: bool) -> Interval:
            return error.interval_from_shares(at, noise)

        def of_end(at: Sequence[Interval], _: bool, end: LimitEstimate) -> Interval:
            return at[0].clipped(0, 1).map(partial(end.end, numbers=noise))

        limited, without, _ = proportion.sums
        questions = [proportion, make_shift_formula(error.name, in_strata, of_error)]
        for one in ends:
            assert isinstance(one, LimitEstimate)
            questions.append(make_shift_formula(one.name, [[limited], [without]], partial(of_end, end=one)))
        return questions

    def _quantiles(self, name: str, aggregate: Quantiles) -> list[ShiftFormula]:
        """Return the shifts of quantiles, with queries of the numbers of values between many places."""
        column = Column(
            "", float(aggregate.lower), float(aggregate.upper), aggregate.clamps(self.query.schema)
        )
        low, width = column.scale(False)
        edges, places = self._places(aggregate, low, low + width)
        records = self.made.rows([aggregate.column], None)
        bins = InBins(
            aggregate.column, Edges(edges, True, True), tuple(map(str, range(len(edges) + 1))), "row"
        )
        found = self._in_bins(bins, records)

        def sums(rank: float, few: int) -> list[Mapping[str, float]]:
            return [
                {n: 1 - rank if i <= j else -rank for i, both in enumerate(found) for n in both[:few]}
                for j in range(len(found) - 1)
            ]

        def of_rank(at: Sequence[Interval], limited: bool) -> Interval:
            value = quantile(at, places)
            return value.clipped(column.lower, column.upper) if limited else value

        made = zip(aggregate.outputs(name), aggregate.ranks, strict=True)
        return [make_shift_formula(output, [sums(rank, 1), sums(rank, 2)], of_rank) for output, rank in made]

    def _places(
        self, aggregate: Quantiles, low: float, high: float
    ) -> tuple[tuple[float, ...], list[tuple[float, float]]]:
        """Return the bins from whose counts the shift of a quantile follows, and the values in each."""
        whole = self.query.schema[aggregate.column].kind in (Kind.INTEGER, Kind.BOOLEAN)
        values = range(math.ceil(low), math.floor(high) + 1)
        if whole and 0 < len(values) <= MAX_PLACES:
            edges = [value - 0.5 for value in (*values, values.stop)]
            inside = [(float(value), float(value)) for value in values]
        else:
            count = round(PLACES * (high - low) / float(aggregate.upper - aggregate.lower))
            edges = [low + i * (high - low) / count for i in range(count + 1)]
            inside = list(pairwise(edges))
        return tuple(edges), [(low, low), *inside, (high, high)]

    def _vectors(self, name: str, aggregate: VectorSum, by_row: bool) -> list[ShiftFormula]:
        """Return the shifts of the lengths of vectors, and add the queries that they need."""
        made, bound = Columns(self.names, not by_row), float(aggregate.bound)
        vector, norm = quote_name(aggregate.column), f"{aggregate.length}, '{aggregate.norm}'"
        if by_row:
            size = made.row(f"vector_norm({vector}, {norm})")
            there = made.row(f"CASE WHEN {size} IS NOT NULL THEN 1.0 ELSE 0.0 END")
            records = Records(there, f"{there} * {made.end(self.made.part())}", made)
            column = Column(size, 0.0, bound)
        else:
            exponent = get_exponent(aggregate.bound) - STEPS
            steps = made.row(f"vector_steps({vector}, {aggregate.length}, {exponent})")
            records, share = self.made.once(made, made.pair(f"count({steps})"))
            total = made.pair(f"sum({steps})")
            size = made.end(f"vector_norm({total}, {norm}) * {double(2.0**exponent)}")
            column = Column(size, 0.0, bound, limited=share(size))
        if isinstance(aggregate, VectorMean):
            like = Mean("", Fraction(0), aggregate.bound)
            return [
                replace(one, relative=True, of="length")
                for one in self._moments([name], like, records, [column])
            ]
        return [replace(self._sum(name, records, column), of="length")]

    def _distinct(self, name: str, aggregate: CountDistinct) -> ShiftFormula:
        here = self.names(f"distinct{len(self.distinct)}")
        self.distinct[here] = aggregate
        few, most = f"{here}_few", f"{here}_most"
        return replace(linear(name, {few: 1.0}, {most: 1.0}), against=ENOUGH)

    def _derive_shift(
        self, name: str, aggregate: Derived, known: dict[str, ShiftFormula]
    ) -> ShiftFormula | None:
        """Return the shift of a derived output, if all of its parts have one."""
        top, bottom = aggregate.fraction
        needed = dict.fromkeys(one for one, _ in (*top.terms, *bottom.terms))
        if not bottom.terms:
            needed = dict.fromkeys(one for one in needed if one in known or one in self.left)
        parts = {one: known.get(one) or self._unshifted(one) for one in needed}
        found = {one: part for one, part in parts.items() if part is not None and part.of == "value"}
        if len(found) < len(needed):
            return None

        def ends(at: Sequence[Interval]) -> Ends:
            left, each = list(at), dict[str, Ends]()
            for one, part in found.items():
                each[one] = part.ends(left[: len(part.sums)])
                del left[: len(part.sums)]

            def side(some: WeightedSum, i: int) -> Interval:
                of_both = (each[n].both[i].scaled(float(w)) for n, w in some.terms)
                return sum(of_both, ZERO).shifted(float(some.constant))

            if bottom.terms:
                return Ends(*(side(top, i) / side(bottom, i) for i in (0, 1)))
            # What nothing shifts is in neither.
            factors = {n: float(w / bottom.constant) for n, w in top.terms if n in each}
            moved = (each[n].difference.scaled(w) for n, w in factors.items())
            return Ends(ZERO, ZERO, sum(moved, ZERO))

        sums = tuple(weights for part in found.values() for weights in part.sums)
        against = next((one.against for one in found.values() if one.against == ENOUGH), None)
        made = ShiftFormula(name, sums, ends, bool(bottom.terms))
        return made if against is None else replace(made, against=against)

    def _unshifted(self, output: str) -> ShiftFormula | None:
        """Return the query of an output that nothing shifts, but by which a shifted one is divided."""
        if output in self.left:
            return None
        name, aggregate = next((n, a) for n, a in self.query.measured if output in a.outputs(n))
        return next(one for one in self._shifts(name, aggregate.each) if one.output == output)
