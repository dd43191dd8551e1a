"""When a release is paid for: after all checks, before a row is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sfumato.budget import Budget, Loss
from sfumato.errors import ParameterError
from sfumato.query.plan import Plan
from sfumato.query.top_plan import TopPlan

# Called once, by what is about to read; it raises where the budget has too little left.
Pay = Callable[[], None]


def free() -> None:
    """Pay nothing: nobody keeps a budget."""


def payment(budget: Budget | None, plans: Sequence[Plan | TopPlan], what: str) -> Pay:
    """Return what pays for some releases together, of all or none.

    Args:
        budget: that pays; or None.
        plans: of the releases.
        what: in a few words.
    Raises:
        ParameterError: budget is none.
    """
    if budget is None:
        return free
    if not isinstance(budget, Budget):
        raise ParameterError(
            "budget", type(budget).__name__, "a Budget, such as sf.Budget(epsilon=3, delta=1e-6)"
        )
    epsilon, delta = sum(plan.epsilon for plan in plans), sum(plan.delta for plan in plans)
    loss = sum((plan.loss for plan in plans), Loss())
    return lambda: budget.spend(epsilon, delta, loss=loss, what=what)
