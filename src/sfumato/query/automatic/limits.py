"""Limits of what a unit contributes, found from a noisy distribution of contributions.

A larger limit brings more noise, and a smaller one cuts more. What is cut follows from how many groups units
are in, and how many rows they have there; noise follows from the plan that there would be. The limits with
the smallest expected error are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.errors import BudgetError, ParameterError, QueryError
from sfumato.noise import Words
from sfumato.query.aggregates import count_distinct
from sfumato.query.automatic.errors import Contributions, mean_error, output_errors
from sfumato.query.diagnostics.contributions import LIMITS, UNITS, asked, distributions
from sfumato.query.diagnostics.units import Names, in_public_groups, units
from sfumato.query.found import Found
from sfumato.query.plans.plan import Plan
from sfumato.query.plans.planning import make_plan
from sfumato.query.query import Query
from sfumato.query.released.release import Release
from sfumato.query.schema import quoted

if TYPE_CHECKING:
    from sfumato.query.table import Table

# Of a look's budget, what counts private groups.
_OF_GROUPS = Fraction(1, 4)
# So many candidates in a row that are worse than the best end the search: noise grows from there on.
_PATIENCE = 3
NAMES = "groups", "rows"


@dataclass(frozen=True)
class LimitsLook:
    """A noisy look at what units contribute: planned, and nothing read.

    Args:
        table: with one row for each unit.
        contributions: the plan of their distribution.
        counted: the rows, and the plan that counts their groups, where these are private.
        number: of public groups; 1 where there are no groups.
    """

    table: Table[Any]
    names: Names
    contributions: Plan
    counted: tuple[Table[Any], Plan] | None
    number: int

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans of what is drawn."""
        return (self.contributions,) if self.counted is None else (self.contributions, self.counted[1])

    def draw(self, words: Words | None = None) -> Contributions:
        """Return what the look shows; drawn anew, at its whole cost, by each call."""
        row = _drawn(self.contributions, self.table, words)
        named = {n: a.outputs(n) for n, a in self.contributions.query.aggregates if len(a.outputs(n)) > 1}
        found = distributions(list(named), row, named, max(self.contributions.deviations.values()))
        number = float(self.number)
        if "groups" in found and self.counted is None:
            found["groups"] = found["groups"].of_at_most(self.number)
        if self.counted is not None:
            table, plan = self.counted
            (count,) = _drawn(plan, table, words).values()
            number = max(float(count), 1.0)
        people = max(row[UNITS], 1.0)
        return Contributions(found.get("groups"), found.get("fullest"), number, people)


def limits_look(table: Table[Any], query: Query, epsilon: Fraction, rows_matter: bool = True) -> LimitsLook:
    """Plan a look at what units contribute.

    Args:
        table: the rows.
        query: what is asked of them, with limits that stand in for those that are to be found.
        epsilon: what the look costs.
        rows_matter: whether units may count with several rows in a group.
    Raises:
        BudgetError: the budget is too small for any noise.
    """
    rows, groups, number, counted = table._rows_alone, query.public_keys, 1, None
    names, part = Names.beside(*rows.schema), epsilon
    if isinstance(groups, pa.Table):
        number = max(groups.num_rows, 1)
        rows = in_public_groups(rows, query.keys, groups, names("group")) if groups.num_rows else rows
    elif query.keys:
        part = epsilon * (1 - _OF_GROUPS)
        texts = " || chr(31) || ".join(
            f"coalesce(CAST({quoted(key)} AS VARCHAR), chr(30))" for key in query.keys
        )
        keyed = rows.with_columns(**{names("key"): texts})
        counting = _query(keyed, {names("key"): count_distinct(names("key"), values=1)})
        counted = keyed, make_plan(counting, epsilon=epsilon * _OF_GROUPS)
    people = units(rows, query.keys, names, None)
    of = {"fullest": names("fullest")} if rows_matter else {}
    of |= {"groups": names("groups")} if query.keys else {}
    plan = make_plan(_query(people, asked(of)), epsilon=part)
    return LimitsLook(people, names, plan, counted, number)


@dataclass(frozen=True)
class FindLimits:
    """A look, and what it is to find.

    Args:
        look: planned.
        query: what is asked, with limits that stand in.
        epsilon: what the look costs.
        free: whether groups and rows are to be found.
        most: the largest that they may be.
    """

    look: LimitsLook
    query: Query
    epsilon: Fraction
    free: tuple[bool, bool]
    most: tuple[int, int]

    def find(self, plan: Callable[[Query], Plan], words: Words | None) -> tuple[Query, Found]:
        """Look, and return the question with limits, and what was found.

        Args:
            plan: of a question, with the budget that is left for it.
            words: a source of random words for tests.
        """

        def planned(groups: int, rows: int | None) -> Plan:
            return plan(self._with(groups, rows))

        query = self.query
        start = query.max_groups or 1, query.max_rows
        seen = self.look.draw(words)
        groups, rows = best_limits(seen, planned, start, self.free, self.most)
        value = {n: v for n, v, free in zip(NAMES, (groups, rows), self.free, strict=True) if free}
        what = f"limits of each {query.unit}" if len(value) > 1 else f"limit of each {query.unit}"
        of_groups, of_rows = seen.lost(groups, rows)
        # Where units' rows in a group are not looked at, nobody knows how many are left out of those.
        left_out = ("units' groups", of_groups) if seen.fullest is None else ("rows", of_rows)
        return self._with(groups, rows), Found.from_plans(what, value, self.look.plans, left_out)

    def _with(self, groups: int, rows: int | None) -> Query:
        most = groups if self.query.keys else self.query.max_groups
        return replace(self.query, max_groups=most, max_rows=rows, series=None, totals=None)


def find_limits(table: Table[Any], query: Query, epsilon: Fraction) -> FindLimits | None:
    """Plan what finds the limits that a table leaves to its release; None where no answer follows from them.

    Args:
        table: the rows, and which limits.
        query: what is asked of them, with limits that stand in.
        epsilon: what it costs.
    """
    wanted = "groups" in table._auto_limits, "rows" in table._auto_limits
    needs_rows = any(a.needs_rows for _, a in query.aggregates)
    free = wanted[0] and bool(query.keys), wanted[1] and needs_rows
    if not any(free):
        return None
    matter = needs_rows and (wanted[1] or query.rows > 1)
    look, (most_groups, most_rows) = limits_look(table, query, epsilon, matter), table._most_limits
    if isinstance(query.public_keys, pa.Table):
        most_groups = min(most_groups, look.number)
    most = min(most_groups, LIMITS[-1]), min(most_rows, LIMITS[-1])
    return FindLimits(look, query, epsilon, free, most)


def best_limits(
    seen: Contributions,
    plan: Callable[[int, int | None], Plan],
    start: tuple[int, int | None],
    free: tuple[bool, bool],
    most: tuple[int, int],
) -> tuple[int, int | None]:
    """Return the limits of groups and rows with the smallest expected error of what is asked.

    Args:
        seen: what units contribute.
        plan: what would be done with limits.
        start: limits to start from; those that are not free stay.
        free: whether each limit is to be found.
        most: the largest that each may be.
    """
    known: dict[tuple[int, int | None], float] = {}

    def cost(limits: tuple[int, int | None]) -> float:
        if limits not in known:
            known[limits] = inf
            with suppress(BudgetError, ParameterError, QueryError):  # limits that noise cannot hide are none
                known[limits] = expected_cost(plan(*limits), seen, *limits)
        return known[limits]

    found = start
    for _ in range(2):  # each given the other one
        for place in (0, 1):
            if free[place]:
                found = min(_tried(found, place, most[place], cost), key=cost)
    return found


def _tried(
    limits: tuple[int, int | None], place: int, most: int, cost: Callable[[tuple[int, int | None]], float]
) -> Iterator[tuple[int, int | None]]:
    """Yield limits with another one in a place, until several in a row are no better."""
    least, worse = cost(limits), 0
    yield limits
    for limit in [*(one for one in LIMITS if one < most), most]:
        one = (limit, limits[1]) if place == 0 else (limits[0], limit)
        yield one
        worse = 0 if cost(one) < least else worse + 1
        least = min(least, cost(one))
        if worse >= _PATIENCE and limit > (limits[place] or 1):
            return


def expected_cost(plan: Plan, seen: Contributions, groups: int, rows: int | None) -> float:
    """Return about the error of what is asked: the geometric mean over the outputs, by their weights."""
    return mean_error(output_errors(plan, seen, groups, rows).values())


def _query(table: Table[Any], what: dict[str, Any]) -> Query:
    return table.bound(rows=1).agg(**what).query


def _drawn(plan: Plan, table: Table[Any], words: Words | None) -> dict[str, float]:
    (row,) = Release(plan, table._engine, unsafe_words=words).to_arrow().to_pylist()
    return dict(row)
