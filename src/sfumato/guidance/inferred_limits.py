"""Inferred limits of groups and rows per unit, from the noisy distribution of contributions.

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
from sfumato.guidance.contribution_distribution import (
    LIMITS,
    UNITS,
    Names,
    distributions,
    histograms,
    in_public_groups,
    one_row,
    units,
)
from sfumato.guidance.expected_error import EstimatedUnits, mean_error
from sfumato.noise import Words
from sfumato.plan.plan import Plan
from sfumato.plan.planning import make_plan
from sfumato.query.aggregates import count_distinct
from sfumato.query.inferred_parameters import Found
from sfumato.query.query import Query
from sfumato.query.schema import quote_name
from sfumato.release.release import Release

if TYPE_CHECKING:
    from sfumato.api.table import Table

# The part of the query's epsilon that counts private groups.
_OF_GROUPS = Fraction(1, 4)
# So many candidates in a row that are worse than the best end the search: noise grows from there on.
_PATIENCE = 3
NAMES = "groups", "rows"
Limits = tuple[int, int | None]  # of groups and rows


@dataclass(frozen=True)
class ContributionQuery:
    """A preliminary query of what units contribute, from which limits are inferred; only planned.

    Args:
        table: with one row for each unit.
        contributions: the plan of their distribution.
        counted: the rows, and the plan that counts their groups, where these are private.
        number: of public groups; 1 where there are no groups.
    """

    table: Table[Any]
    contributions: Plan
    counted: tuple[Table[Any], Plan] | None
    number: int

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans of the queries of contributions and of the number of groups."""
        return (self.contributions,) if self.counted is None else (self.contributions, self.counted[1])

    def draw(self, words: Words | None = None) -> EstimatedUnits:
        """Return the units as the query estimates them; each call draws anew, at full cost."""
        row = _drawn(self.contributions, self.table, words)
        found = distributions(self.contributions, row)
        number = float(self.number)
        if "groups" in found and self.counted is None:
            found["groups"] = found["groups"].with_upper_bound(self.number)
        if self.counted is not None:
            table, plan = self.counted
            (count,) = _drawn(plan, table, words).values()
            number = max(float(count), 1.0)
        people = max(row[UNITS], 1.0)
        return EstimatedUnits(found.get("groups"), found.get("fullest"), number, people)


def contribution_query(
    table: Table[Any], query: Query, epsilon: Fraction, rows_matter: bool = True
) -> ContributionQuery:
    """Plan the preliminary query of what units contribute.

    Args:
        table: the rows.
        query: what is asked of them, with limits that stand in for those that are to be found.
        epsilon: of the preliminary query.
        rows_matter: whether units may count with several rows in a group.
    Raises:
        BudgetError: the budget is too small for any noise.
    """
    rows, groups, number, counted = table._ungrouped, query.public_keys, 1, None
    names, part = Names.avoiding(*rows.schema), epsilon
    if isinstance(groups, pa.Table):
        number = max(groups.num_rows, 1)
        rows = in_public_groups(rows, query.keys, groups, names("group")) if groups.num_rows else rows
    elif query.keys:
        part = epsilon * (1 - _OF_GROUPS)
        texts = " || chr(31) || ".join(
            f"coalesce(CAST({quote_name(key)} AS VARCHAR), chr(30))" for key in query.keys
        )
        keyed = rows.with_columns(**{names("key"): texts})
        counting = one_row(keyed, {names("key"): count_distinct(names("key"), values=1)})
        counted = keyed, make_plan(counting, epsilon=epsilon * _OF_GROUPS)
    people = units(rows, query.keys, names, None)
    of = {"fullest": names("fullest")} if rows_matter else {}
    of |= {"groups": names("groups")} if query.keys else {}
    plan = make_plan(one_row(people, histograms(of)), epsilon=part)
    return ContributionQuery(people, plan, counted, number)


@dataclass(frozen=True)
class LimitInference:
    """A query of contributions, and the limits to be inferred from it.

    Args:
        preliminary: the query of contributions.
        query: what is asked, with limits that stand in.
        epsilon: of the preliminary query.
        free: whether groups and rows are to be found.
        most: the largest that they may be.
    """

    preliminary: ContributionQuery
    query: Query
    epsilon: Fraction
    free: tuple[bool, bool]
    most: tuple[int, int]

    def find(self, plan: Callable[[Query], Plan], words: Words | None) -> tuple[Query, Found]:
        """Draw the contributions, and return the query with inferred limits, and what was inferred.

        Args:
            plan: of a question, with the budget that is left for it.
            words: a source of random words for tests.
        """

        query = self.query
        start = query.max_groups or 1, query.max_rows
        seen = self.preliminary.draw(words)
        groups, rows = best_limits(
            seen, lambda *limits: plan(apply_limits(query, limits)), start, self.free, self.most
        )
        value = {n: v for n, v, free in zip(NAMES, (groups, rows), self.free, strict=True) if free}
        what = f"limits of each {query.unit}" if len(value) > 1 else f"limit of each {query.unit}"
        of_groups, of_rows = seen.lost(groups, rows)
        # Where units' rows in a group are not looked at, nobody knows how many are left out of those.
        left_out = ("units' groups", of_groups) if seen.fullest is None else ("rows", of_rows)
        return apply_limits(query, (groups, rows)), Found.from_plans(
            what, value, self.preliminary.plans, left_out
        )


def limit_inference(table: Table[Any], query: Query, epsilon: Fraction) -> LimitInference | None:
    """Plan the inference of a table's automatic limits; None if no output depends on them.

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
    preliminary = contribution_query(table, query, epsilon, matter)
    return LimitInference(preliminary, query, epsilon, free, max_limits(table, query))


def max_limits(table: Table[Any], query: Query) -> tuple[int, int]:
    """Return the largest limits of groups and rows that may be inferred."""
    groups, rows = table._max_limits
    if isinstance(query.public_keys, pa.Table):
        groups = min(groups, max(query.public_keys.num_rows, 1))
    return min(groups, LIMITS[-1]), min(rows, LIMITS[-1])


def apply_limits(query: Query, limits: Limits) -> Query:
    """Return a query with limits of groups and rows, unless it limits all rows of a unit together."""
    again = replace(query, series=None, totals=None)
    if query.total_rows is not None:
        return again
    groups = limits[0] if query.keys else query.max_groups
    return replace(again, max_groups=groups, max_rows=limits[1])


def best_limits(
    seen: EstimatedUnits,
    plan: Callable[[int, int | None], Plan],
    start: Limits,
    open_limits: tuple[bool, bool],
    max_limits: tuple[int, int],
) -> Limits:
    """Return the limits of groups and rows with the smallest expected error.

    Args:
        seen: what units contribute.
        plan: what would be done with limits.
        start: limits to start from; those that are not free stay.
        open_limits: whether each limit is to be found.
        max_limits: the largest that each may be.
    """
    known: dict[Limits, float] = {}

    def cost(limits: Limits) -> float:
        if limits not in known:
            known[limits] = inf
            with suppress(BudgetError, ParameterError, QueryError):  # limits that noise cannot hide are none
                known[limits] = mean_error(seen.errors(plan(*limits), *limits).values())
        return known[limits]

    found = start
    for _ in range(2):  # each given the other one
        for place in (0, 1):
            if open_limits[place]:
                found = min(_tried(found, place, max_limits[place], cost), key=cost)
    return found


def _tried(limits: Limits, place: int, most: int, cost: Callable[[Limits], float]) -> Iterator[Limits]:
    """Yield candidate limits in one place, until several in a row are no better."""
    least, worse = cost(limits), 0
    yield limits
    for limit in [*(one for one in LIMITS if one < most), most]:
        one = (limit, limits[1]) if place == 0 else (limits[0], limit)
        yield one
        worse = 0 if cost(one) < least else worse + 1
        least = min(least, cost(one))
        if worse >= _PATIENCE and limit > (limits[place] or 1):
            return


def _drawn(plan: Plan, table: Table[Any], words: Words | None) -> dict[str, float]:
    (row,) = Release(plan, table._engine, unsafe_words=words).to_arrow().to_pylist()
    return dict(row)
