"""What is asked about a question's limits and bounds, with a part of its budget."""

from __future__ import annotations

from collections.abc import Iterator
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
    Sum,
    Weighted,
    count_distinct,
    mean,
    proportion,
)
from sfumato.query.diagnostics import contributions
from sfumato.query.diagnostics.contributions import LIMITS
from sfumato.query.diagnostics.release import Diagnostics, Item
from sfumato.query.diagnostics.shifts import Question, clamps, questions, weights
from sfumato.query.diagnostics.units import Bound, Names, in_public_groups, rows_alone, units
from sfumato.query.plans.plan import Plan
from sfumato.query.plans.planning import make_plan
from sfumato.query.query import Query
from sfumato.transformations import UnitSum

if TYPE_CHECKING:
    from sfumato.query.table import Table

# Parts of the budget: for the distribution of contributions, from which limits follow; of public keys, for
# how many of them match a row, where that is asked; and for the shares the rest.
OF_CONTRIBUTIONS, OF_KEYS = Fraction(1, 3), Fraction(1, 6)
# How far a noisy count of keys may be off at this confidence, in Laplace scales: where that is more than half
# of the keys, they are not counted.
_FAR = 3


@dataclass(frozen=True, repr=False)
class Diagnosis(Spelled):
    """What is asked about limits and bounds, within a budget: planned, and nothing read.

    Args:
        epsilon: what it costs beside the release.
        people: a table with one row for each unit.
        names: of its columns.
        items: the shares that are asked.
        means: of which the shifts of outputs follow: the columns of their weights, by name.
        shifts: what follows from them, by output.
        unestimated: the outputs whose shift is not estimated.
        contributions: the plan of their distribution.
        matched: the table of rows in public groups, and the plan that counts groups with rows; or None.
        keys: how many public groups there are; 0 of private ones.
    """

    epsilon: Fraction
    people: Table[Any]
    names: Names
    items: tuple[Item, ...]
    means: tuple[tuple[str, str], ...]
    shifts: tuple[Question, ...]
    unestimated: tuple[str, ...]
    contributions: Plan
    matched: tuple[Table[Any], Plan] | None
    keys: int

    def __post_init__(self) -> None:
        for most in (LIMITS[0], LIMITS[-1]):  # what cannot be planned shows before anything is read
            self.shares(most)

    def shares(self, most: int) -> Plan:
        """Return the plan of the shares, in which a unit counts with at most so many rows."""
        by_rows: dict[str, Any] = {"weight": self.names("rows"), "max_weight": most}
        asked = {
            name: mean(name, lower=0, upper=1, **by_rows) if item.of_rows else proportion(name)
            for item in self.items
            for name in (item.output,)
        }
        asked |= {
            name: mean(name, lower=0, upper=1, weight=weight, max_weight=most) for name, weight in self.means
        }
        return make_plan(_query(self.people, asked), epsilon=self._of_shares)

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
        counted = OF_KEYS if self.matched is not None else 0
        return self.epsilon * (1 - OF_CONTRIBUTIONS - counted)

    def release(self, words: Words | None = None) -> Diagnostics:
        """Return the diagnostics, drawn when they are first looked at, and once."""
        return Diagnostics(self, words)

    def content(self) -> dict[str, Any]:
        """Return what they cost and are of, as plain data."""
        return {"epsilon": str(self.epsilon), "of": list(dict.fromkeys(item.limit for item in self.items))}


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
    people = units(rows, query.keys, names, query.max_rows, bounds, clamps(plan))
    items, expressions = list[Item](), dict[str, str]()
    for item, expression in _items(query, names, bounds):
        expressions[names(f"share{len(items)}")] = expression
        items.append(item.called(names(f"share{len(items)}")))
    if not items:
        raise QueryError(
            "diagnostics: this question has no limits and no bounds that change anything; leave them out"
        )
    means, shifts, unestimated = questions(plan, names)
    of_means = {name: share for name, (share, _) in means.items()} | weights(plan, names)
    people = people.with_columns(**expressions).with_columns(**of_means)
    of = {"rows": names("rows")}
    of |= {item.distribution: names(item.distribution) for item in items if item.distribution}
    look = make_plan(_query(people, contributions.asked(of)), epsilon=epsilon * OF_CONTRIBUTIONS)
    weighted = tuple((name, weight) for name, (_, weight) in means.items())
    return Diagnosis(
        epsilon, people, names, tuple(items), weighted, tuple(shifts), tuple(unestimated), look, matched, keys
    )


def _query(table: Table[Any], asked: dict[str, Any]) -> Query:
    """Return a question about a whole table in which a unit counts as one row."""
    return table.bound(rows=1).agg(**asked).query


def _items(query: Query, names: Names, bounds: tuple[Bound, ...]) -> Iterator[tuple[Item, str]]:
    """Yield what is asked, each with SQL of a unit: a share of its rows, or whether it counts."""
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
