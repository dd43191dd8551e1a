"""Preliminary queries that several queries to advise on share: of contributions, and histograms of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.advice.advice_request import AdviceQuery
from sfumato.api.question import Question
from sfumato.budget.epsilon_delta import ExactCost
from sfumato.dataclass import dataclass
from sfumato.guidance.expected_error import EstimatedUnits
from sfumato.guidance.histogram_tail import Floats
from sfumato.guidance.inferred_bounds import (
    MIN_LOOK,
    Histogram,
    ValueHistograms,
    Values,
    find_bounds,
    open_values,
)
from sfumato.guidance.inferred_limits import ContributionQuery, contribution_query
from sfumato.noise import Words
from sfumato.plan.plan import Claim, Plan

# The cost of histograms of values relative to a query of contributions: there are two or three.
_OF_VALUES = 2
# Of what is not looked at.
_NOTHING = EstimatedUnits(None, None, 1.0, 1.0)


class _NotSeenError(Exception):
    """A histogram is needed that was not drawn."""


@dataclass(frozen=True)
class SharedContributions:
    """Queries with the same rows and groups, which share one preliminary query of contributions.

    Args:
        first: one of them.
        rows_matter: whether units may count with several rows in a group of any of them.
    """

    first: Question[Any]
    rows_matter: bool

    @property
    def needed(self) -> bool:
        """Whether any of these queries needs the contributions of units, not just their number."""
        return self.rows_matter or bool(self.first.query.keys)

    def plan(self, epsilon: Fraction) -> ContributionQuery:
        """Plan the shared query of contributions."""
        return contribution_query(self.first.table, self.first.query, epsilon, self.rows_matter)


def shared_contributions(
    queries: tuple[AdviceQuery, ...],
) -> list[tuple[SharedContributions, list[AdviceQuery]]]:
    """Return the queries grouped by rows and groups, as they share a query of contributions."""
    found: list[tuple[SharedContributions, list[AdviceQuery]]] = []
    for one in queries:
        matter = any(a.needs_rows for _, a in one.question.aggregates)
        for i, (kind, members) in enumerate(found):
            if _is_alike(kind.first, one.question):
                found[i] = SharedContributions(kind.first, kind.rows_matter or matter), [*members, one]
                break
        else:
            found.append((SharedContributions(one.question, matter), [one]))
    return found


def _is_alike(one: Question[Any], other: Question[Any]) -> bool:
    a, b = one.table, other.table
    if (a._engine is not b._engine) or (a.unit, a._steps, a.keys) != (b.unit, b._steps, b.keys):
        return False
    mine, theirs = a._public_keys, b._public_keys
    if isinstance(mine, pa.Table) and isinstance(theirs, pa.Table):
        return bool(mine.equals(theirs))
    return mine is theirs


@dataclass
class SharedHistograms:
    """The noisy histograms of a column's values that several queries share, each drawn once.

    Args:
        values: what is bounded.
        histograms: draws them.
        epsilon: what they may cost together.
        claim: of all preliminary queries, within which they are certified.
        first_bounds: the bounds that were found first.
        seen: the histograms.
    """

    values: Values
    histograms: ValueHistograms
    epsilon: Fraction
    claim: Claim | None = None
    first_bounds: tuple[float, float] = (0.0, 0.0)
    seen: list[Histogram] = field(default_factory=list)

    def plan(self) -> Plan:
        """Return the plan of the cheapest shared histogram, which shows whether it can be drawn."""
        return self.histograms.plan(self.histograms.edges, self.epsilon * MIN_LOOK)

    def draw(self, noise: float) -> None:
        """Draw the shared histograms for the bounds that are best under this noise."""

        def draw(edges: Floats, part: Fraction) -> Histogram:
            if self.claim is not None:
                self.claim.take([self.histograms.plan(edges, self.epsilon * part)])
            self.seen.append(self.histograms.draw(edges, self.epsilon * part))
            return self.seen[-1]

        self.first_bounds = self._found(draw, noise)

    def bounds(self, noise: float) -> tuple[float, float]:
        """Return the best bounds under another noise, from the histograms that were drawn."""

        drawn = iter(self.seen)

        def draw(edges: Floats, part: Fraction) -> Histogram:
            one = next(drawn, None)
            if one is None or not np.array_equal(one.edges, edges):
                raise _NotSeenError
            return one

        try:
            return self._found(draw, noise)
        except _NotSeenError:
            return self.first_bounds

    def _found(self, draw: Callable[[Floats, Fraction], Histogram], noise: float) -> tuple[float, float]:
        first = self.histograms.edges
        # What these queries leave would be lost: the epsilon of the releases was set before.
        return find_bounds(draw, first, noise, self.values.fixed, sparing=False)

    def cut(self, lower: float, upper: float) -> float:
        """Return how much bounds clamp off a value on average, by the last shared histogram."""
        last = self.seen[-1]
        centre = 0.0 if 0.0 in last.edges else last.middle
        found = 0.0
        ends = (centre - lower, upper - centre)
        for side, end in zip((bins.coarse() for bins in last.from_centre(centre)), ends, strict=True):
            run = side.last_run() if len(side.counts) else None
            if run is not None:
                middles = (side.edges[:-1] + side.edges[1:])[: run[1]] / 2
                beyond = np.maximum(middles - end, 0.0) * side.counts[: run[1]]
                found += max(float(beyond.sum()), 0.0)
        return found / max(float(last.counts.sum()), 1.0)

    @property
    def edges(self) -> Floats:
        """The edges of the last shared histogram, at which bounds may be."""
        return self.seen[-1].edges


@dataclass(frozen=True)
class PreliminaryQueries:
    """All shared preliminary queries of a request; planned, and nothing read.

    Args:
        kinds: of rows and groups, with the questions that have them.
        planned: for each of them the query of contributions; None if none is needed.
        of_contributions: what each of these costs.
        of_values: of all histograms of values.
        words: a source of random words for tests.
        claim: of all of them together; None where there is none.
    """

    kinds: list[tuple[SharedContributions, list[AdviceQuery]]]
    planned: list[ContributionQuery | None]
    of_contributions: Fraction
    of_values: Fraction
    words: Words | None
    claim: Claim | None = None

    @property
    def parts(self) -> int:
        """The number of shared preliminary queries that cost epsilon."""
        return int(self.of_values > 0) + sum(query is not None for query in self.planned)

    def contributions(self) -> dict[str, EstimatedUnits]:
        """Draw each shared query of contributions, and return the estimated units by query name."""
        found = dict[str, EstimatedUnits]()
        for (_, members), query in zip(self.kinds, self.planned, strict=True):
            if query is not None and self.claim is not None:
                self.claim.take(query.plans)
            seen = _NOTHING if query is None else query.draw(self.words)
            if query is not None and query.counted is not None:
                plan = query.counted[1]
                ((name, law),) = plan.measurement.laws.items()
                seen = replace(
                    seen, number=estimate_group_count(seen.number, float(law.unit * plan.steps[name]))
                )
            found |= {one.name: seen for one in members}
        return found

    def values(self, rows: Mapping[str, int | None]) -> dict[tuple[str, str], SharedHistograms]:
        """Return the shared histograms of each automatic aggregate, by query and aggregate.

        Args:
            rows: the limit of rows of each question, by its name.
        """
        shared = list[tuple[Question[Any], SharedHistograms]]()
        found = dict[tuple[str, str], SharedHistograms]()
        for one in (one for _, members in self.kinds for one in members):
            for name, value in open_values(one.question.aggregates, rows[one.name]).items():
                for other, seen in shared:
                    if seen.values == value and _has_same_rows(other, one.question, value):
                        found[one.name, name] = seen
                        break
                else:
                    table, query = one.question.table, one.question.query
                    histograms = ValueHistograms(table._engine, query, table._part, value, self.words)
                    shared.append(
                        (one.question, SharedHistograms(value, histograms, self.of_values, self.claim))
                    )
                    found[one.name, name] = shared[-1][1]
        different = [seen for _, seen in shared if seen.histograms.known is None]
        for seen in different:
            seen.epsilon = self.of_values / len(different)
        return found


def estimate_group_count(noisy: float, scale: float) -> float:
    """Return the likely number of groups, given a noisy one: the mean of its log.

    Before, one magnitude is as probable as any other; a number that is mostly noise is no reason for many.

    >>> round(estimate_group_count(1000, 10)), round(estimate_group_count(50, 100))
    (999, 15)
    """
    numbers = np.geomspace(1, 1e7, 1000)
    chances = np.exp(-np.abs(noisy - numbers) / scale + np.abs(noisy - numbers).min() / scale)
    return float(np.exp((chances * np.log(numbers)).sum() / chances.sum()))


def _has_same_rows(one: Question[Any], other: Question[Any], value: Values) -> bool:
    a, b = one.table, other.table
    same = a._engine is b._engine and (a.unit, a._steps) == (b.unit, b._steps)
    return same and (a.keys == b.keys or not value.totals)


def plan_preliminary(
    queries: tuple[AdviceQuery, ...], epsilon: Fraction, words: Words | None
) -> PreliminaryQueries:
    """Plan all shared preliminary queries within an epsilon.

    Raises:
        BudgetError: it is too small for any noise.
    """
    kinds = shared_contributions(queries)
    # With one row of a unit a sum and a mean may have the same bounds; with two there are all that may be.
    rows = {
        one.name: 2 if "rows" in one.question.table._auto_limits else one.question.query.max_rows
        for one in queries
    }
    values = PreliminaryQueries(kinds, [], epsilon, epsilon, words).values(rows)
    columns = {id(seen) for seen in values.values() if seen.histograms.known is None}
    parts = sum(kind.needed for kind, _ in kinds) + _OF_VALUES * len(columns)
    each = epsilon / max(parts, 1)
    planned = [kind.plan(each) if kind.needed else None for kind, _ in kinds]
    found = PreliminaryQueries(kinds, planned, each, each * _OF_VALUES * len(columns), words)
    open_ones = {id(seen): seen for seen in found.values(rows).values() if seen.histograms.known is None}
    plans = [plan for query in planned if query is not None for plan in query.plans]
    plans += [seen.plan() for seen in open_ones.values()]
    return replace(found, claim=Claim(ExactCost(epsilon, Fraction(0)), plans)) if plans else found
