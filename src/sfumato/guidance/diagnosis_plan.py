"""The plan of diagnostics: which queries about limits and bounds are released, and for which epsilon."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.budget import Loss
from sfumato.budget.epsilon_delta import ExactCost
from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.errors import ParameterError, QueryError
from sfumato.exact import as_written
from sfumato.guidance.contribution_distribution import (
    LIMITS,
    Bound,
    Names,
    histograms,
    in_public_groups,
    one_row,
    units,
)
from sfumato.guidance.counted_rows import records
from sfumato.guidance.diagnostics import Diagnostics, Item
from sfumato.guidance.shift_queries import ShiftAggregate, ShiftQueries
from sfumato.noise import Words
from sfumato.plan.plan import Plan
from sfumato.plan.planning import make_plan
from sfumato.query.aggregates import (
    MAX_VALUES,
    Aggregate,
    Sum,
    Weighted,
    count_distinct,
    mean,
    proportion,
)
from sfumato.query.query import Query
from sfumato.query.schema import Kind, quote_name
from sfumato.transformations import UnitSum

if TYPE_CHECKING:
    from sfumato.api.table import Table

# Parts of the budget: for the distribution of contributions, from which limits follow; for how many public
# keys match a row, where these are counted; and for the shares the rest.
OF_CONTRIBUTIONS, OF_KEYS = Fraction(1, 3), Fraction(1, 6)
# How far a noisy count of keys may be off at this confidence, in Laplace scales: where that is more than half
# of the keys, they are not counted.
_FAR = 3


@dataclass(frozen=True, repr=False)
class Diagnosis(Spelled):
    """The plan of diagnostics within a budget; nothing is read yet.

    Args:
        epsilon: what it costs beside the release.
        plan: of the release.
        rows: the table of rows; where groups are public, of those in one of them.
        people: a table with one row for each unit.
        names: of its columns.
        items: the shares that are asked.
        request: the numbers from which the shifts of outputs follow.
        tables: of rows and of units in groups, each with the names of those numbers that are asked of it.
        contributions: the plan of their distribution.
        matched: the table of rows in public groups, and the plan that counts groups with rows; or None.
        keys: how many public groups there are; 0 of private ones.
    """

    epsilon: Fraction
    plan: Plan
    rows: Table[Any]
    people: Table[Any]
    names: Names
    items: tuple[Item, ...]
    request: ShiftQueries
    tables: tuple[tuple[Table[Any], tuple[str, ...]], ...]
    contributions: Plan
    matched: tuple[Table[Any], Plan] | None
    keys: int

    def __post_init__(self) -> None:
        for most in (LIMITS[0], LIMITS[-1]):  # what cannot be planned shows before anything is read
            self.shares(most)
            self.numbers(most)
            self.distinct(dict.fromkeys(self.request.distinct, most))

    def shares(self, limit: int) -> Plan | None:
        """Return the plan of the shares beyond limits and bounds, with a limit of rows of a unit."""
        by_rows: dict[str, Any] = {"weight": self.names("rows"), "max_weight": limit}
        asked = {
            name: mean(name, lower=0, upper=1, **by_rows) if item.of_rows else proportion(name)
            for item in self.items
            for name in (item.output,)
        }
        epsilon = self._share_epsilon * self._part(1)
        return make_plan(one_row(self.people, asked), epsilon=epsilon) if asked else None

    def numbers(self, limit: int) -> tuple[Plan, ...]:
        """Return the plans of the statistics from which shifts follow, with a limit of rows of a unit."""
        plans = []
        for table, names in self.tables:
            asked = {name: self.request.asked[name].with_row_limit(limit, name) for name in names}
            epsilon = self._share_epsilon * self._part(len(names))
            query = table.bound(rows=limit).agg(**asked).query
            plans.append(make_plan(query, epsilon=epsilon, noise="laplace"))
        return tuple(plans)

    def pairs(self) -> Table[Any]:
        """Return the rows with a column for each pair of group and value, to count distinct values."""
        return self.rows.with_columns(
            **{name: _pair(self.plan.query, one.column) for name, one in self.request.distinct.items()}
        )

    def distinct(self, most: Mapping[str, int]) -> Plan | None:
        """Return the plan of the numbers of distinct values, with the query's limits and with larger ones."""
        asked: dict[str, Aggregate] = {}
        query = self.plan.query
        for name, one in self.request.distinct.items():
            few = min(
                one.values * (query.groups if query.keys else 1), query.total_rows or MAX_VALUES, MAX_VALUES
            )
            larger = min(max(most[name], few), MAX_VALUES)
            for suffix, limit in (("few", few), ("most", larger)):
                asked[f"{name}_{suffix}"] = count_distinct(name, values=limit, method=one.method)
        epsilon = self._share_epsilon * self._part(len(asked))
        return make_plan(one_row(self.pairs(), asked), epsilon=epsilon) if asked else None

    @property
    def delta(self) -> Fraction:
        """The delta of diagnostics, which is 0."""
        return Fraction(0)

    @property
    def spent(self) -> ExactCost:
        """The epsilon and delta that diagnostics spend."""
        return ExactCost(self.epsilon, self.delta)

    @property
    def unit(self) -> str:
        """The privacy unit of the rows that are diagnosed."""
        return self.plan.unit

    @cached_property
    def drawn_parts(self) -> tuple[dict[str, Any], ...]:
        """The plan descriptions of all parts of the diagnostics, with the largest limits they may have.

        Each part claims what it claims here, whatever its limits turn out to be, and is certified again
        before it is drawn.
        """
        most = LIMITS[-1]
        plans = (
            self.contributions,
            None if self.matched is None else self.matched[1],
            self.shares(most),
            *self.numbers(most),
            self.distinct(dict.fromkeys(self.request.distinct, most)),
        )
        return tuple(plan.description for plan in plans if plan is not None)

    @property
    def loss(self) -> Loss:
        """The privacy loss of diagnostics; all of their epsilon, as later parts depend on earlier ones."""
        return Loss(approximate=((self.epsilon, Fraction(0), 1),))

    @property
    def charge(self) -> Loss:
        """The privacy loss that a budget is charged for diagnostics."""
        return self.loss

    @property
    def _share_epsilon(self) -> Fraction:
        """The part of the diagnostics' epsilon for shares and shifts."""
        counted = OF_KEYS if self.matched is not None else 0
        return self.epsilon * (1 - OF_CONTRIBUTIONS - counted)

    def _part(self, numbers: int) -> Fraction:
        """Return the part of that epsilon for some queries of the diagnostics; all shares count as one."""
        all_numbers = bool(self.items) + len(self.request.asked) + 2 * len(self.request.distinct)
        return Fraction(numbers, all_numbers)

    def release(self, words: Words | None = None) -> Diagnostics:
        """Return the diagnostics of this plan, which are drawn once, on first access."""
        return Diagnostics(self, words)

    def content(self) -> dict[str, Any]:
        """Return the epsilon of the diagnostics and the limits they are about, as plain data."""
        limits = [item.limit for item in self.items]
        limits += [f"values={one.values}" for one in self.request.distinct.values()]
        return {"epsilon": str(self.epsilon), "of": list(dict.fromkeys(limits))}


def diagnosis(table: Table[Any], plan: Plan, epsilon: Fraction) -> Diagnosis:
    """Plan the diagnostics of a query's limits and bounds.

    Args:
        table: whose rows it is of.
        plan: of the release.
        epsilon: what the diagnostics may cost.
    Raises:
        QueryError: it has no limits and no bounds that could change anything, or its rows are not here.
        BudgetError: the budget is too small for any noise.
    """
    query = plan.query
    if query.brought_groups or query.engine == "Beam":
        raise QueryError(
            "diagnostics: they read the rows a second time, which a Beam pipeline cannot. Leave them "
            "out, or query the table in a file"
        )
    bounds = tuple(_bounds(plan))
    rows = table._ungrouped
    names = Names.avoiding(*rows.schema)
    groups = query.public_keys
    number, keys, matched = names("group"), 0, None
    if isinstance(groups, pa.Table) and query.keys:
        keys = groups.num_rows
        rows = in_public_groups(rows, query.keys, groups, number) if keys else rows.filter("false")
        if keys and _FAR / (epsilon * OF_KEYS) <= Fraction(keys, 2):
            counted = one_row(rows, {number: count_distinct(number, values=1)})
            matched = rows, make_plan(counted, epsilon=epsilon * OF_KEYS)
    items = tuple(item for item, _ in _items(query, names, bounds))
    request = ShiftQueries(plan, names)
    tables = _tables(rows, query, request)
    distinct = {
        name: f"count(DISTINCT {_valued(query, one.column)})" for name, one in request.distinct.items()
    }
    people = units(rows, query.keys, names, query.max_rows, bounds, distinct)
    people = people.with_columns(**{item.output: sql for item, sql in _items(query, names, bounds)})
    if not items and not request.questions:
        raise QueryError("diagnostics: no limit or bound of this question can cause bias. Leave them out")
    of = {"rows": names("rows")}
    of |= {item.distribution: names(item.distribution) for item in items if item.distribution}
    of |= {name: name for name in request.distinct}
    contributions = make_plan(one_row(people, histograms(of)), epsilon=epsilon * OF_CONTRIBUTIONS)
    return Diagnosis(epsilon, plan, rows, people, names, items, request, tables, contributions, matched, keys)


def _tables(
    rows: Table[Any], query: Query, request: ShiftQueries
) -> tuple[tuple[Table[Any], tuple[str, ...]], ...]:
    """Return the tables from which the diagnostics' statistics of shifts are computed, as few as possible."""
    found: list[tuple[Table[Any], tuple[str, ...]]] = []
    failed: list[str] = []
    for of_pairs in (True, False):
        waiting = [tuple(name for name, one in request.asked.items() if one.columns.of_pairs == of_pairs)]
        while waiting:
            names = waiting.pop()
            if not names:
                continue
            try:
                found.append((_table(rows, query, request, names), names))
            except QueryError:
                half = len(names) // 2
                waiting += [names[half:], names[:half]] if half else []
                failed += [] if half else names
    request.without(failed)
    return tuple(found)


def _table(rows: Table[Any], query: Query, request: ShiftQueries, names: tuple[str, ...]) -> Table[Any]:
    asked: dict[str, ShiftAggregate] = {name: request.asked[name] for name in names}
    made = records(rows, query.keys, request.names, [one.columns for one in asked.values()])
    vectors = {name: f"[{', '.join(one.vector)}]" for name, one in asked.items() if one.vector}
    return made.with_columns(**vectors)


def _pair(query: Query, column: str) -> str:
    """Return SQL of a text for each pair of group and value; NULL without a value."""
    texts = []
    for one in (*map(quote_name, query.keys), quote_name(column)):
        text = f"CAST({one} AS VARCHAR)"
        texts.append(f"coalesce(concat(length({text}), ':', {text}), '-')")
    return f"CASE WHEN {_valued(query, column)} IS NOT NULL THEN concat({', '.join(texts)}) ELSE NULL END"


def _valued(query: Query, column: str) -> str:
    """Return SQL of a value; NULL if it is NaN."""
    value = quote_name(column)
    real = query.schema[column].kind is Kind.REAL
    return f"CASE WHEN isnan({value}) THEN NULL ELSE {value} END" if real else value


def _items(query: Query, names: Names, bounds: tuple[Bound, ...]) -> list[tuple[Item, str]]:
    """Return the shares that diagnostics ask for, each with its SQL for a unit."""
    found = enumerate(_shares(query, names, bounds))
    return [(item.with_name(names(f"share{i}")), expression) for i, (item, expression) in found]


def _shares(query: Query, names: Names, bounds: tuple[Bound, ...]) -> Iterator[tuple[Item, str]]:
    rows, groups, fullest = (f"CAST({names(n)} AS DOUBLE)" for n in ("rows", "groups", "fullest"))
    for name, most in query.binding_limits:
        if name == "total_rows":
            yield from _limit(name, most, "rows", f"1 - {most} / {rows}", f"{rows} > {most}")
        elif name == "groups":
            yield from _limit(name, most, "groups", f"1 - {most} / {groups}", f"{groups} > {most}")
        else:
            cut = f"{names('cut')} / {rows}"
            yield from _limit(name, most, "fullest" if query.keys else "rows", cut, f"{fullest} > {most}")
    for i, one in enumerate(bounds):
        of = f"{'sums' if one.per_unit else 'values'} of {one.column}"
        yield Item(f"{one.name}={one.at:g}", of, True), f"{names(f'clamped{i}')} / {rows}"


def _limit(name: str, most: int, of: str, share: str, beyond: str) -> Iterator[tuple[Item, str]]:
    limit = f"{name}={most}"
    yield Item(limit, "rows", True, name, most, of), f"greatest({share}, 0)"
    yield Item(limit, "units", False, name, most, of), beyond


def _bounds(plan: Plan) -> list[Bound]:
    """Return the bounds that a diagnosis is about, each once."""
    summed = {s.column for s in plan.statistics if isinstance(s, UnitSum)}
    found: dict[Bound, None] = {}
    for _, asked in plan.query.measured:
        of = asked.aggregate if isinstance(asked, Weighted) else asked
        for column, lower, upper in of.bounds if of.clamps(plan.query.schema) else ():
            per_unit = isinstance(of, Sum) and column in summed
            for name, at in (("lower", lower), ("upper", upper)):
                found[Bound(column, name, float(at), per_unit)] = None
    return list(found)


def read_share(budget: Fraction, share: object) -> Fraction:
    """Return the part of epsilon that `diagnostics=` takes.

    Raises:
        ParameterError: the share is not between 0 and 1.
    """
    part = as_written(share, "diagnostics")
    if not 0 < part < 1:
        raise ParameterError("diagnostics", share, "a share of the budget between 0 and 1, such as 0.05")
    return budget * part
