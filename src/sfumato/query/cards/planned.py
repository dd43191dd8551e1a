"""Plans and explanations as cards: each step, each noisy number with its price, and what it comes to."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.display.card import Card, Part, Rows, Sentences, Steps
from sfumato.display.numbers import exact

if TYPE_CHECKING:
    from sfumato.query.explanation import Explanation
    from sfumato.query.plans.plan import Plan
    from sfumato.query.top.explanation import TopExplanation


def plan_card(plan: Plan[Any, Any]) -> Card:
    """Return what a plan does and would cost."""
    return Card(
        f"Plan: {plan.query.told}; it would cost {price(*plan.spent)}",
        [Sentences(["Nothing was read or spent for this."]), *plan.explain()._card().parts],
    )


def explanation_card(explanation: Explanation) -> Card:
    """Return the steps of a release; of several, those of each."""
    title = f"How the answer is made, for {price(*explanation.spent)}"
    if not explanation.together:
        return Card(title, _steps(explanation))
    parts: list[Part | None] = []
    for i, one in enumerate(explanation.releases, 1):
        parts += [Sentences([f"Release {i} of {len(explanation.releases)}"]), *_steps(one)]
    return Card(title, [*parts, Sentences(explanation.together)])


def top_explanation_card(explanation: TopExplanation) -> Card:
    """Return the steps of a release of the largest groups."""
    plan = explanation.plan
    title = f"How the answer is made, for {price(plan.epsilon, plan.delta)}"
    return Card(title, [Steps(explanation.steps), Sentences([f"Note: {note}" for note in explanation.notes])])


def price(epsilon: Fraction | float, delta: Fraction | float) -> str:
    """Write a budget.

    >>> from fractions import Fraction
    >>> price(Fraction(1, 3), Fraction(1, 10**6))
    'epsilon 1/3, delta 1e-06'
    """
    return f"epsilon {exact(epsilon)}, delta {exact(delta)}"


def _steps(explanation: Explanation) -> list[Part | None]:
    before, after = explanation.steps
    names = ["number", "bounds", "noise (σ)", "budget", "used for"]
    numbers = [[what, within, noise, share, used] for what, within, noise, share, used in explanation.numbers]
    notes = [f"Note: {note}" for note in [*explanation.content.get("notes", ()), *explanation.left_out]]
    return [
        Steps(before),
        Rows(names, numbers, left=5) if numbers else None,
        Steps(after, len(before) + 1),
        Sentences(notes) if notes else None,
    ]
