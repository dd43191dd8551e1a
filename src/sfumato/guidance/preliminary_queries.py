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
    LEAST_LOOK,
    Aggregates,
    ValueHistograms,
    Values,
    bounded,
    check_preliminary,
    find_bounds,
    open_values,
)
from sfumato.guidance.inferred_limits import limit_inference
from sfumato.noise import Words
from sfumato.plan.budget_shares import Share
from sfumato.plan.plan import Plan
from sfumato.plan.plan_description import Claim
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

# What looks take of epsilon where nobody says, and where limits alone are found: measured, in
# docs/accuracy.md.
AUTO_SHARE, AUTO_SHARE_OF_LIMITS = Fraction(3, 10), Fraction(1, 10)


@dataclass(frozen=True)
class PreliminaryBudget:
    """The budget of preliminary queries and of the release after them, and how it is charged.

    Args:
        looks: the epsilon of all looks together.
        answer: gives the plan of the answer, after looks that cost so much.
        begin: before the first look, pays for everything; or for nothing. It is given plans of the first
            looks and of the answer, with stand-ins.
        charge_query: certifies the plans of a look, and pays for it where that was not paid before.
        charge_answer: does the same for the answer.
    """

    looks: Fraction
    answer: Callable[[Query, Fraction], Plan]
    begin: Callable[[Sequence[Plan]], None]
    charge_query: Callable[[Sequence[Plan]], None]
    charge_answer: Callable[[Plan], None]


def of_epsilon(
    whole: Fraction,
    beside: Fraction,
    auto_share: object,
    options: Mapping[str, Any],
    pay: Callable[[Claim], None],
) -> PreliminaryBudget:
    """Return the budget of preliminary queries within an epsilon; the release gets what they leave.

    Args:
        whole: the epsilon of everything.
        beside: the part of it for what is asked beside; looks and the answer have the rest.
        auto_share: the part of the rest for looks.
        options: others of a release.
        pay: pays for everything: all that may be spent. Which noise the answer has, and so whether it needs
            delta, may follow from what looks find.
    """
    epsilon, spends = whole - beside, ExactCost(whole, admissible_delta(options["delta"]))
    claims: list[Claim] = []

    def begin(plans: Sequence[Plan]) -> None:
        claims.append(Claim(spends, plans))
        pay(claims[0])

    def answer(query: Query, spent: Fraction) -> Plan:
        return make_plan(query, epsilon=epsilon - spent, **options)

    looks = epsilon * _part(auto_share)

    def take(plans: Sequence[Plan]) -> None:
        claims[0].take(plans)

    return PreliminaryBudget(looks, answer, begin, take, lambda plan: take([plan]))


def of_share(
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

    Each look is paid before it is drawn, and the answer, of which the noise follows from what they found,
    before it reads rows. What looks leave goes to the answer.

    Args:
        query: what is asked, with stand-ins for what is to be found.
        budget: that pays.
        share: the part of it for looks and answer.
        auto_share: the part of that for looks.
        options: others of a release.
        paid: to which is added what a ledger enters.
        form: gives the canonical form of a plan.
        made_up: whether all rows are made up, of which nothing need be paid.
    """
    part = _part(auto_share)
    whole = Share.of(budget, share)
    plan, way = whole.times(1 - part).best(query, options)
    asked, told = {**options, "noise": plan.noise.name}, query.told

    def answer(one: Query, spent: Fraction) -> Plan:
        return whole.by(way).less(spent).best(one, asked)[0]

    def pay(plans: Sequence[Plan], what: str, form: CanonicalForm | None = None) -> None:
        paid.extend(payment(budget, plans, what, form=form, made_up=made_up)())

    return PreliminaryBudget(
        whole.times(part).pure_epsilon(way),
        answer,
        lambda _: None,
        lambda plans: pay(plans, f"a look for {told}"),
        lambda found: pay([found], told, partial(form, found)),
    )


def _part(given: object) -> Fraction:
    share = as_written(given, "auto_share")
    if not Fraction(1, 1000) <= share <= Fraction(9, 10):
        raise ParameterError("auto_share", given, "from 0.001 to 0.9, the part of epsilon for finding bounds")
    return share


# Of what looks cost, limits take a third where there are bounds to be found as well.
_OF_LIMITS = Fraction(1, 3)


def check_complete(aggregates: Aggregates, limits: Collection[str], what: str) -> None:
    """Refuse to plan a query whose bounds or limits need preliminary queries.

    Raises:
        QueryError: it does.
    """
    if limits:
        raise QueryError(
            f"{what}: {' and '.join(limits)} of bound are 'auto', so that only a release finds them, by a "
            "noisy look at the rows. Give numbers, or release"
        )
    for name, asked in aggregates:
        if isinstance(asked, Automatic):
            raise QueryError(
                f"{what}: the bounds of {name} are 'auto', so that only a release finds them, by a noisy "
                "look at the rows. Give lower= and upper=, or release"
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
        means: PreliminaryBudget,
        *,
        check: Callable[[Plan], Plan] = lambda plan: plan,
        confidence: float | None = None,
        unsafe_words: Words | None = None,
    ) -> Plan:
        """Release the preliminary queries, and return the plan of the query with inferred bounds and limits.

        All that depends on the question alone is checked before the first look is drawn.

        Args:
            means: what looks and the answer may cost, and what pays.
            check: gives the whole plan of one with stand-ins, or refuses what else cannot be.
            confidence: of error bars beside the outputs, for which there must be names.
            unsafe_words: a source of random words for tests.
        Raises:
            QueryError, ParameterError, BudgetError, RefusalError: as of a release.
        """
        check_preliminary(self.engine)
        # With stand-ins: what it refuses, it refuses before a row is read.
        trial = means.answer(self.query, means.looks)
        if confidence is not None:
            check_error_columns(trial, confidence)
        self.engine.check_release(check(trial), unsafe_words)
        values = open_values(self.aggregates, self.query.max_rows)
        of_limits = means.looks * (_OF_LIMITS if values else 1)
        limits = limit_inference(self.table, self.query, of_limits) if self.table._auto_limits else None
        for_bounds = means.looks - (of_limits if limits is not None else 0)
        looks, each = self._looks(values, for_bounds, unsafe_words)
        first = [] if limits is None else [*limits.look.plans]
        first += [
            one.plan(one.edges, each * LEAST_LOOK) for one in looks.values() if one.known is None
        ]  # which refuses what cannot be looked at
        means.begin([*first, check(trial)])
        query, told = self.query, tuple[Found, ...]()
        if limits is not None:
            means.charge_query(limits.look.plans)
            query, one_found = limits.find(lambda q: means.answer(q, means.looks), unsafe_words)
            told = (one_found,)
            trial = means.answer(query, means.looks)
            values = open_values(self.aggregates, query.max_rows)
        looks, each = self._looks(values, for_bounds, unsafe_words)
        found = {}
        for value, looking in looks.items():
            noise = max(per_width(trial, name) for name, other in values.items() if other == value)
            found[value] = self._found(value, looking, each, noise, means.charge_query)
        asked = bounded(self.aggregates, {name: found[value][0] for name, value in values.items()})
        told += tuple(one_found for _, one_found in found.values())
        spent = sum((f.epsilon for f in told), Fraction(0))
        plan = check(means.answer(replace(query, aggregates=asked, series=None, totals=None), spent))
        means.charge_answer(plan)
        return replace(plan, found=told)

    def _looks(
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
        looking: ValueHistograms,
        epsilon: Fraction,
        noise: float,
        pay: Callable[[Sequence[Plan]], None],
    ) -> tuple[tuple[Fraction, Fraction], Found]:
        """Return inferred bounds after preliminary histograms, and what these cost."""
        drawn = list[Plan]()
        ends: tuple[float | Fraction, float | Fraction]
        if looking.known is not None:
            ends = looking.known
        else:

            def look(edges: Any, part: Fraction) -> Any:
                drawn.append(looking.plan(edges, epsilon * part))
                pay(drawn[-1:])
                return looking.look(edges, epsilon * part)

            ends = find_bounds(look, looking.edges, noise, value.fixed)
        both = value.within(ends)
        return both, Found.from_plans(f"bounds of the {value.told}", tuple(map(float, both)), drawn)
