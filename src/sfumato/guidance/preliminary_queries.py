"""Preliminary queries of a release that infers bounds or limits: their budget, and the plan after them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from sfumato.budget import Budget
from sfumato.budget.epsilon_delta import ExactCost, admissible_delta
from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError, QueryError
from sfumato.exact import Number, as_written
from sfumato.guidance.expected_error import per_width
from sfumato.guidance.inferred_bounds import (
    MIN_LOOK,
    Aggregates,
    ValueHistograms,
    Values,
    apply_inferred_bounds,
    check_preliminary,
    find_bounds,
    open_values,
)
from sfumato.guidance.inferred_limits import limit_inference
from sfumato.noise import Words
from sfumato.plan.budget_shares import Share
from sfumato.plan.plan import Claim, Plan
from sfumato.plan.planning import make_plan
from sfumato.query.aggregates import (
    Automatic,
)
from sfumato.query.engine_protocol import Engine
from sfumato.query.inferred_parameters import Found
from sfumato.query.query import Query
from sfumato.release.payment import CanonicalForm, Charge, payment
from sfumato.release.release import check_error_columns

if TYPE_CHECKING:
    from sfumato.api.table import Table

# The default part of epsilon for preliminary queries, and for limits alone: measured, in
# docs/accuracy.md.
AUTO_SHARE, AUTO_SHARE_OF_LIMITS = Fraction(3, 10), Fraction(1, 10)


@dataclass(frozen=True)
class PreliminaryBudget:
    """The budget of preliminary queries and of the release after them, and how it is charged.

    Args:
        preliminary: the epsilon of all preliminary queries together.
        answer: returns the plan of the release, after preliminary queries with this epsilon.
        begin: charges for everything before the first query, or for nothing. It takes the plans of the
            first queries and of the release, with placeholders.
        charge_query: certifies the plans of a query, and charges for it unless that was charged before.
        charge_answer: does the same for the release.
    """

    preliminary: Fraction
    answer: Callable[[Query, Fraction], Plan]
    begin: Callable[[Sequence[Plan]], None]
    charge_query: Callable[[Sequence[Plan]], None]
    charge_answer: Callable[[Plan], None]


def budget_from_epsilon(
    whole: Fraction,
    beside: Fraction,
    auto_share: object,
    options: Mapping[str, Any],
    pay: Callable[[Claim], None],
) -> PreliminaryBudget:
    """Return the budget of preliminary queries within an epsilon; the release gets what they leave.

    Args:
        whole: the epsilon of everything.
        beside: the part of it for diagnostics; preliminary queries and the release have the rest.
        auto_share: the part of the rest for preliminary queries.
        options: others of a release.
        pay: pays for everything: all that may be spent. Which noise the answer has, and so whether it needs
            delta, may follow from inferred bounds and limits.
    """
    epsilon, spends = whole - beside, ExactCost(whole, admissible_delta(options["delta"]))
    claims: list[Claim] = []

    def begin(plans: Sequence[Plan]) -> None:
        claims.append(Claim(spends, plans))
        pay(claims[0])

    def answer(query: Query, spent: Fraction) -> Plan:
        return make_plan(query, epsilon=epsilon - spent, **options)

    preliminary = epsilon * _part(auto_share)

    def take(plans: Sequence[Plan]) -> None:
        claims[0].take(plans)

    return PreliminaryBudget(preliminary, answer, begin, take, lambda plan: take([plan]))


def budget_from_share(
    query: Query,
    budget: Budget | None,
    share: Number,
    auto_share: object,
    options: dict[str, Any],
    paid: list[Charge],
    form: Callable[[Plan], Mapping[str, Any]],
    *,
    made_up: bool = False,
) -> PreliminaryBudget:
    """Return the budget of preliminary queries within a share of a budget, each charged before it is drawn.

    Each query is charged before it is drawn, and the release, whose noise follows from what they show,
    before it reads rows. The release gets what the queries leave.

    Args:
        query: what is asked, with stand-ins for what is to be found.
        budget: that pays.
        share: the part of it for preliminary queries and the release.
        auto_share: the part of that for preliminary queries.
        options: others of a release.
        paid: to which is added what a ledger enters.
        form: gives the canonical form of a plan.
        made_up: whether all rows are made up, of which nothing need be paid.
    """
    part = _part(auto_share)
    whole = Share.from_budget(budget, share)
    plan, way = whole.times(1 - part).best(query, options)
    fixed, name = {**options, "noise": plan.noise.name}, query.title

    def answer(one: Query, spent: Fraction) -> Plan:
        return whole.by(way).less(spent).best(one, fixed)[0]

    def pay(plans: Sequence[Plan], what: str, form: CanonicalForm | None = None) -> None:
        paid.extend(payment(budget, plans, what, form=form, made_up=made_up)())

    return PreliminaryBudget(
        whole.times(part).pure_epsilon(way),
        answer,
        lambda _: None,
        lambda plans: pay(plans, f"a preliminary query for {name}"),
        lambda found: pay([found], name, partial(form, found)),
    )


def _part(value: object) -> Fraction:
    share = as_written(value, "auto_share")
    if not Fraction(1, 1000) <= share <= Fraction(9, 10):
        raise ParameterError("auto_share", value, "from 0.001 to 0.9, the part of epsilon for finding bounds")
    return share


# Of the epsilon of preliminary queries, limits take a third where there are bounds to be found as well.
_OF_LIMITS = Fraction(1, 3)


def check_complete(aggregates: Aggregates, limits: Collection[str], what: str) -> None:
    """Refuse to plan a query whose bounds or limits need preliminary queries.

    Raises:
        QueryError: it does.
    """
    if limits:
        raise QueryError(
            f"{what}: {' and '.join(limits)} of bound are 'auto', so only a release finds them, "
            "with a preliminary query. Give numbers, or call release"
        )
    for name, asked in aggregates:
        if isinstance(asked, Automatic):
            raise QueryError(
                f"{what}: the bounds of {name} are 'auto', so only a release finds them, with a "
                "preliminary query. Give lower= and upper=, or call release"
            )


@dataclass(frozen=True)
class AutomaticQuery:
    """A query with automatic bounds or limits, which preliminary queries infer.

    Args:
        table: the rows, and which limits are to be found.
        query: the question, with bounds and limits that stand in for those that are to be found.
        aggregates: what is asked.
    """

    table: Table[Any]
    query: Query
    aggregates: Aggregates

    @property
    def engine(self) -> Engine[Any]:
        """The engine that answers the preliminary queries."""
        return self.table._engine

    def plan(
        self,
        budget: PreliminaryBudget,
        *,
        check: Callable[[Plan], Plan] = lambda plan: plan,
        confidence: float | None = None,
        unsafe_words: Words | None = None,
    ) -> Plan:
        """Release the preliminary queries, and return the plan of the query with inferred bounds and limits.

        All that depends on the query alone is checked before the first preliminary query is drawn.

        Args:
            budget: of the preliminary queries and the release.
            check: gives the whole plan of one with stand-ins, or refuses what else cannot be.
            confidence: of error bars beside the outputs, for which there must be names.
            unsafe_words: a source of random words for tests.
        Raises:
            QueryError, ParameterError, BudgetError, RefusalError: as of a release.
        """
        check_preliminary(self.engine)
        # With stand-ins: what it refuses, it refuses before a row is read.
        trial = budget.answer(self.query, budget.preliminary)
        if confidence is not None:
            check_error_columns(trial, confidence)
        self.engine.check_release(check(trial), unsafe_words)
        values = open_values(self.aggregates, self.query.max_rows)
        of_limits = budget.preliminary * (_OF_LIMITS if values else 1)
        limits = limit_inference(self.table, self.query, of_limits) if self.table._auto_limits else None
        for_bounds = budget.preliminary - (of_limits if limits is not None else 0)
        queries, each = self._histograms(values, for_bounds, unsafe_words)
        first = [] if limits is None else [*limits.preliminary.plans]
        first += [
            one.plan(one.edges, each * MIN_LOOK) for one in queries.values() if one.known is None
        ]  # which refuses what cannot be looked at
        budget.begin([*first, check(trial)])
        query, inferred = self.query, tuple[Found, ...]()
        if limits is not None:
            budget.charge_query(limits.preliminary.plans)
            query, one_found = limits.find(lambda q: budget.answer(q, budget.preliminary), unsafe_words)
            inferred = (one_found,)
            trial = budget.answer(query, budget.preliminary)
            values = open_values(self.aggregates, query.max_rows)
        queries, each = self._histograms(values, for_bounds, unsafe_words)
        found = {}
        for value, histograms in queries.items():
            noise = max(per_width(trial, name) for name, other in values.items() if other == value)
            found[value] = self._found(value, histograms, each, noise, budget.charge_query)
        asked = apply_inferred_bounds(
            self.aggregates, {name: found[value][0] for name, value in values.items()}
        )
        inferred += tuple(one_found for _, one_found in found.values())
        spent = sum((f.epsilon for f in inferred), Fraction(0))
        plan = check(budget.answer(replace(query, aggregates=asked, series=None, totals=None), spent))
        budget.charge_answer(plan)
        return replace(plan, found=inferred)

    def _histograms(
        self, values: Mapping[str, Values], epsilon: Fraction, words: Words | None
    ) -> tuple[dict[Values, ValueHistograms], Fraction]:
        """Return the preliminary histograms of each kind of values, and the epsilon of each."""
        different = dict.fromkeys(values.values())
        each = epsilon / max(len(different), 1)
        part = self.table._part
        return {
            value: ValueHistograms(self.engine, self.query, part, value, words) for value in different
        }, each

    def _found(
        self,
        value: Values,
        histograms: ValueHistograms,
        epsilon: Fraction,
        noise: float,
        pay: Callable[[Sequence[Plan]], None],
    ) -> tuple[tuple[Fraction, Fraction], Found]:
        """Return inferred bounds after preliminary histograms, and what these cost."""
        drawn = list[Plan]()
        ends: tuple[float | Fraction, float | Fraction]
        if histograms.known is not None:
            ends = histograms.known
        else:

            def draw(edges: Any, part: Fraction) -> Any:
                drawn.append(histograms.plan(edges, epsilon * part))
                pay(drawn[-1:])
                return histograms.draw(edges, epsilon * part)

            ends = find_bounds(draw, histograms.edges, noise, value.fixed)
        both = value.within(ends)
        return both, Found.from_plans(f"bounds of the {value.description}", tuple(map(float, both)), drawn)
