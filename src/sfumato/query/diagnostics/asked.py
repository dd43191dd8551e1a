"""What is asked about a question's limits and bounds, with a part of its budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.budget import Loss
from sfumato.dataclass import dataclass
from sfumato.display.fields import Spelled
from sfumato.errors import ParameterError, QueryError
from sfumato.exact import as_written
from sfumato.noise import Words
from sfumato.query.aggregates import (
    MOST_VALUES,
    Aggregate,
    Sum,
    Weighted,
    count_distinct,
    mean,
    proportion,
    vector_sum,
)
from sfumato.query.diagnostics import contributions
from sfumato.query.diagnostics.contributions import LIMITS
from sfumato.query.diagnostics.release import Diagnostics, Item
from sfumato.query.diagnostics.requested import Request
from sfumato.query.diagnostics.units import Bound, Names, in_public_groups, rows_alone, units
from sfumato.query.plans.plan import Plan
from sfumato.query.plans.planning import make_plan
from sfumato.query.query import Query
from sfumato.query.schema import Kind, quoted
from sfumato.transformations import UnitSum

if TYPE_CHECKING:
    from sfumato.query.table import Table

# Parts of the budget: for the distribution of contributions, from which limits follow; for how many public
# keys match a row, and for places that are compared with quantiles, where these are requested; and for the
# shares the rest.
OF_CONTRIBUTIONS, OF_KEYS, OF_PLACES = Fraction(1, 3), Fraction(1, 6), Fraction(1, 6)
# How far a noisy count of keys may be off at this confidence, in Laplace scales: where that is more than half
# of the keys, they are not counted.
_FAR = 3


@dataclass(frozen=True, repr=False)
class Diagnosis(Spelled):
    """What is asked about limits and bounds, within a budget: planned, and nothing read.

    Args:
        epsilon: what it costs beside the release.
        plan: of the release.
        rows: the table of rows; where groups are public, of those in one of them.
        people: a table with one row for each unit.
        names: of its columns.
        items: the shares that are asked.
        request: the numbers from which the shifts of outputs follow.
        contributions: the plan of their distribution.
        matched: the table of rows in public groups, and the plan that counts groups with rows; or None.
        keys: how many public groups there are; 0 of private ones.
        places_epsilon: what the places that are compared with quantiles cost, whatever they turn out to be.
    """

    epsilon: Fraction
    plan: Plan
    rows: Table[Any]
    people: Table[Any]
    names: Names
    items: tuple[Item, ...]
    request: Request
    contributions: Plan
    matched: tuple[Table[Any], Plan] | None
    keys: int
    places_epsilon: Fraction

    def __post_init__(self) -> None:
        for most in (LIMITS[0], LIMITS[-1]):  # what cannot be planned shows before anything is read
            self.shares(most)
            self.bins(most)
            self.distinct(dict.fromkeys(self.request.distinct, most))
        self.places()

    def shares(self, most: int) -> Plan | None:
        """Return the plan of the shares, in which a unit counts with at most so many rows."""
        by_rows: dict[str, Any] = {"weight": self.names("rows"), "max_weight": most}
        asked = {
            name: mean(name, lower=0, upper=1, **by_rows) if item.of_rows else proportion(name)
            for item in self.items
            for name in (item.output,)
        }
        asked |= {
            name: mean(name, lower=-1 if one.signed else 0, upper=1, weight=one.weight, max_weight=most)
            for name, one in self.request.means.items()
        }
        epsilon = self._of_shares * self._parts[0]
        return make_plan(_query(self.people, asked), epsilon=epsilon) if asked else None

    def bins(self, most: int) -> Plan | None:
        """Return the plan of numbers of rows in bins, of which a unit counts with at most so many."""
        asked: dict[str, Aggregate] = {
            name: vector_sum(name, length=len(entries), bound=most, norm="l1")
            for name, entries in self.request.vectors.items()
        }
        epsilon = self._of_shares * self._parts[1]
        return make_plan(_query(self.people, asked), epsilon=epsilon) if asked else None

    def places(self) -> Plan | None:
        """Return the plan of the places that are compared with quantiles."""
        asked: dict[str, Aggregate] = {
            name: replace(one, error_bars=False) for name, one in self.request.quantiles.items()
        }
        if not asked:
            return None
        query = self.plan.query
        limit = query.total_rows or query.groups * query.rows
        return make_plan(self.rows.bound(rows=limit).agg(**asked).query, epsilon=self.places_epsilon)

    def at(self, places: Mapping[str, float]) -> Diagnosis:
        """Return the same, with what is compared with quantiles at these places."""
        request = Request(self.plan, self.names, places, self.request.most)
        return replace(self, request=request, people=_people(self.rows, self.plan, self.names, request))

    def pairs(self) -> Table[Any]:
        """Return the rows, with columns whose different values are those of groups and values."""
        return self.rows.with_columns(
            **{name: _pair(self.plan.query, one.column) for name, one in self.request.distinct.items()}
        )

    def distinct(self, most: Mapping[str, int]) -> Plan | None:
        """Return the plan of numbers of different values, with limits, and with larger ones."""
        asked: dict[str, Aggregate] = {}
        query = self.plan.query
        for name, one in self.request.distinct.items():
            few = min(
                one.values * (query.groups if query.keys else 1), query.total_rows or MOST_VALUES, MOST_VALUES
            )
            larger = min(max(most[name], few), MOST_VALUES)
            for suffix, limit in (("few", few), ("most", larger)):
                asked[f"{name}_{suffix}"] = count_distinct(name, values=limit, method=one.method)
        epsilon = self._of_shares * self._parts[2]
        return make_plan(_query(self.pairs(), asked), epsilon=epsilon) if asked else None

    @property
    def delta(self) -> Fraction:
        """What it costs: nothing."""
        return Fraction(0)

    @property
    def loss(self) -> Loss:
        """What it loses, for a budget: its epsilon, as its last part is planned by answers of the first."""
        return Loss(approximate=((self.epsilon, Fraction(0), 1),))

    @property
    def _of_shares(self) -> Fraction:
        """The part of shares and of all other numbers."""
        counted = OF_KEYS if self.matched is not None else 0
        return self.epsilon * (1 - OF_CONTRIBUTIONS - counted) - self.places_epsilon

    @property
    def _parts(self) -> tuple[Fraction, ...]:
        """How this is divided: over shares, bins and different values, evenly over what is requested."""
        asked = self.request
        numbers = len(self.items) + len(asked.means), len(asked.vectors), 2 * len(asked.distinct)
        return tuple(Fraction(one, sum(numbers)) for one in numbers)

    def release(self, words: Words | None = None) -> Diagnostics:
        """Return the diagnostics, drawn when they are first looked at, and once."""
        return Diagnostics(self, words)

    def content(self) -> dict[str, Any]:
        """Return what they cost and are of, as plain data."""
        limits = [item.limit for item in self.items]
        limits += [f"values={one.values}" for one in self.request.distinct.values()]
        return {"epsilon": str(self.epsilon), "of": list(dict.fromkeys(limits))}


def diagnosis(table: Table[Any], plan: Plan, epsilon: Fraction) -> Diagnosis:
    """Plan what is asked about the limits and bounds of a release.

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
            "diagnostics: these ask the rows a second time, with what the first answer tells, which a Beam "
            "pipeline cannot; leave them out here, or ask them of the table in a file"
        )
    bounds = tuple(_bounds(plan))
    rows = rows_alone(table)
    names = Names.beside(*rows.schema)
    groups = query.public_keys
    number, keys, matched = names("group"), 0, None
    if isinstance(groups, pa.Table) and query.keys:
        keys = groups.num_rows
        rows = in_public_groups(rows, query.keys, groups, number) if keys else rows.filter("false")
        if keys and _FAR / (epsilon * OF_KEYS) <= Fraction(keys, 2):
            counted = _query(rows, {number: count_distinct(number, values=1)})
            matched = rows, make_plan(counted, epsilon=epsilon * OF_KEYS)
    items = tuple(item for item, _ in _items(query, names, bounds))
    request, people = _requested(rows, plan, names)
    if not items and not request.questions:
        raise QueryError(
            "diagnostics: this question has no limits and no bounds that change anything; leave them out"
        )
    of = {"rows": names("rows")}
    of |= {item.distribution: names(item.distribution) for item in items if item.distribution}
    of |= {name: request.values[name] for name in request.distinct}
    look = make_plan(_query(people, contributions.asked(of)), epsilon=epsilon * OF_CONTRIBUTIONS)
    places = epsilon * OF_PLACES if request.quantiles else Fraction(0)
    return Diagnosis(epsilon, plan, rows, people, names, items, request, look, matched, keys, places)


def _requested(rows: Table[Any], plan: Plan, names: Names) -> tuple[Request, Table[Any]]:
    """Return what is requested for shifts, for as many aggregates as one table can, and a row a unit."""
    most = len(plan.query.measured)
    while most:
        request = Request(plan, names, most=most)
        with suppress(QueryError):
            return request, _people(rows, plan, names, request)
        most //= 2
    request = Request(plan, names, most=0)
    return request, _people(rows, plan, names, request)


def _people(rows: Table[Any], plan: Plan, names: Names, request: Request) -> Table[Any]:
    """Return one row for each unit, with everything that is requested of units."""
    query, bounds = plan.query, tuple(_bounds(plan))
    shares = {item.output: expression for item, expression in _items(query, names, bounds)}
    people = units(rows, query.keys, names, query.max_rows, bounds, request.sums)
    return people.with_columns(**shares).with_columns(**request.of_units)


def _pair(query: Query, column: str) -> str:
    """Return SQL of a text for each group and value; NULL where there is no value."""
    value, there = quoted(column), f"{quoted(column)} IS NOT NULL"
    if query.schema[column].kind is Kind.REAL:
        there += f" AND NOT isnan({value})"
    texts = []
    for one in (*map(quoted, query.keys), value):
        text = f"CAST({one} AS VARCHAR)"
        texts.append(f"coalesce(concat(length({text}), ':', {text}), '-')")
    return f"CASE WHEN {there} THEN concat({', '.join(texts)}) ELSE NULL END"


def _query(table: Table[Any], asked: dict[str, Any]) -> Query:
    """Return a question about a whole table in which a unit counts as one row."""
    return table.bound(rows=1).agg(**asked).query


def _items(query: Query, names: Names, bounds: tuple[Bound, ...]) -> list[tuple[Item, str]]:
    """Return what is asked, each with SQL of a unit: a share of its rows, or whether it counts."""
    found = enumerate(_shares(query, names, bounds))
    return [(item.called(names(f"share{i}")), expression) for i, (item, expression) in found]


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
    """Return the bounds of a question, each once."""
    summed = {s.column for s in plan.statistics if isinstance(s, UnitSum)}
    found: dict[Bound, None] = {}
    for _, asked in plan.query.measured:
        of = asked.of if isinstance(asked, Weighted) else asked
        for column, lower, upper in of.bounds if of.clamps(plan.query.schema) else ():
            per_unit = isinstance(of, Sum) and column in summed
            for name, at in (("lower", lower), ("upper", upper)):
                found[Bound(column, name, float(at), per_unit)] = None
    return list(found)


def share_of(budget: Fraction, share: object) -> Fraction:
    """Return the part of a budget that diagnostics take.

    Raises:
        ParameterError: the share is not between 0 and 1.
    """
    part = as_written(share, "diagnostics")
    if not 0 < part < 1:
        raise ParameterError("diagnostics", share, "a share of the budget between 0 and 1, such as 0.05")
    return budget * part
