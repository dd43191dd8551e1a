"""What noisy looks and the answer after them may cost, and what pays for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from sfumato.budget import Budget
from sfumato.budget.epsilon_delta import ExactCost, admissible_delta
from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact import Number, as_written
from sfumato.plan.budget_shares import Share
from sfumato.plan.plan import Plan
from sfumato.plan.plan_description import Claim
from sfumato.plan.planning import make_plan
from sfumato.query.query import Query
from sfumato.release.payment import CanonicalForm, Charge, payment

# What looks take of epsilon where nobody says, and where limits alone are found: measured, in
# docs/accuracy.md.
AUTO_SHARE, AUTO_SHARE_OF_LIMITS = Fraction(3, 10), Fraction(1, 10)


@dataclass(frozen=True)
class Means:
    """What looks and the answer after them may cost.

    Args:
        looks: the epsilon of all looks together.
        answer: gives the plan of the answer, after looks that cost so much.
        begin: before the first look, pays for everything; or for nothing. It is given plans of the first
            looks and of the answer, with stand-ins.
        pay_look: certifies the plans of a look, and pays for it where that was not paid before.
        pay_answer: does the same for the answer.
    """

    looks: Fraction
    answer: Callable[[Query, Fraction], Plan]
    begin: Callable[[Sequence[Plan]], None]
    pay_look: Callable[[Sequence[Plan]], None]
    pay_answer: Callable[[Plan], None]


def of_epsilon(
    whole: Fraction,
    beside: Fraction,
    auto_share: object,
    options: Mapping[str, Any],
    pay: Callable[[Claim], None],
) -> Means:
    """Return what an epsilon for everything gives: what looks leave of it goes to the answer.

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

    return Means(looks, answer, begin, take, lambda plan: take([plan]))


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
) -> Means:
    """Return what a share of a budget gives: looks take a part of it, and the answer another, by one sum.

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

    return Means(
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
