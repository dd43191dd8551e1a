"""The plan of a question that takes a share of a budget: by the sum, and the noise, that give most for it.

What is cheap in epsilon may be dear elsewhere: K-norm noise of epsilon 1 costs a rho of 1/2, and Gaussian
noise of (1, 1e-6) one of 0.028. So with a budget the noise is chosen by what it costs there.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from sfumato.budget import Budget
from sfumato.budget.filters import Way
from sfumato.errors import BudgetError, ParameterError, QueryError
from sfumato.exact import Number, as_fraction, one_of, root_down
from sfumato.exact.directed import round_bits
from sfumato.query.choices import NOISE_CHOICES
from sfumato.query.expected import ratio
from sfumato.query.plan import Plan
from sfumato.query.planning import make_plan
from sfumato.query.query import Query

_NEAR = Fraction(63, 64)  # of a share, from which on looking for more is not worth it
_TRIES = 8


def plan_of_share(query: Query, budget: Budget | None, share: Number, options: dict[str, Any]) -> Plan:
    """Return the plan with the smallest expected errors among those that take a share of a budget.

    Args:
        query: what is asked.
        budget: that pays.
        share: the part of it, greater than 0 and at most 1: of 1/20, twenty such questions may be asked.
        options: of `make_plan`, but epsilon and delta.
    Raises:
        ParameterError: budget is none, or the share is not admissible.
        BudgetError: no such share is left, or it buys nothing.

    Source:
        docs/budget.md, "One budget for many questions".
    """
    if not isinstance(budget, Budget):
        raise ParameterError("share", share, "left out where there is no budget=; give epsilon")
    part = as_fraction(share, "share")
    if not 0 < part <= 1:
        raise ParameterError("share", share, "greater than 0, and at most 1")
    noise = one_of(options.get("noise", "auto"), "noise", NOISE_CHOICES)
    found: list[Plan] = []
    refused: BudgetError | ParameterError | QueryError | None = None
    for way in budget.ways(part):
        for one in _noises(way, noise):
            try:
                found += _largest(query, way, part, options | {"noise": one})
            except (BudgetError, ParameterError, QueryError) as error:
                refused = refused or error
    if not found:
        raise refused or BudgetError("the share buys nothing: no noise is enough for it; ask for more")
    weights = query.output_weights
    return min(found, key=lambda plan: ratio(plan.expected, found[0].expected, weights))


def _noises(way: Way, asked: str) -> tuple[str, ...]:
    if asked == "auto":
        return way.noises
    return (asked,) if way.noises == ("auto",) or asked in way.noises else ()


def _largest(query: Query, way: Way, share: Fraction, options: dict[str, Any]) -> Iterator[Plan]:
    """Yield the plan with about the largest epsilon that takes no more than a share."""
    epsilon, best = way.epsilon, None
    for _ in range(_TRIES):
        plan = make_plan(query, epsilon=epsilon, delta=way.delta, **options)
        part = way.part(plan.epsilon, plan.loss)
        if part <= share:
            best = plan
            if part >= share * _NEAR:
                break
        # Sums of squares grow with the square of epsilon, about.
        epsilon = round_bits(epsilon * root_down(share / part) * Fraction(255, 256), 40, up=False)
    if best is not None:
        yield best
