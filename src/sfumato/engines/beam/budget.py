"""One budget for everything that a pipeline releases."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sfumato.budget.parameters import admissible_delta, admissible_epsilon
from sfumato.errors import BudgetError, shown
from sfumato.ownership import Owned, Turn


class Budget(Owned):
    """An (epsilon, delta) that aggregations draw on when they are applied, and that cannot be overspent.

    By basic composition: epsilons add up, deltas add up, exactly. From several threads too, but in the
    process that made it alone.

    Args:
        epsilon, delta: all that may be spent. A float is taken as exactly its binary value, and ten times
            0.1 is then more than 1; texts ("0.1") and Fractions are what they say.

    >>> budget = Budget(epsilon=1, delta="1e-6")
    >>> budget.spend("0.75")
    >>> budget.left
    (0.25, 1e-06)
    >>> budget.spend("0.5")
    Traceback (most recent call last):
    sfumato.errors.BudgetError: epsilon='0.5' is more than is left of the budget: 0.25, so that 0.25 is...
    """

    _elsewhere = (
        "what is spent in two places would be counted in neither; give each place a budget of its own"
    )
    _refusal = BudgetError

    def __init__(self, epsilon: Any, delta: Any = 0) -> None:
        self._epsilon, self._delta = admissible_epsilon(epsilon), admissible_delta(delta)
        self._lock = Turn()

    @property
    def left(self) -> tuple[float, float]:
        """What may still be spent."""
        return float(self._epsilon), float(self._delta)

    def spend(self, epsilon: Any, delta: Any = 0) -> None:
        """Take a share.

        Raises:
            BudgetError: it is not admissible, or more than is left, or this is another process than that
                which made the budget; nothing is taken then.
            RefusalError: it is asked in the middle of another question, as by a handler of a signal.
        """
        self._check_home()
        eps: Fraction = admissible_epsilon(epsilon)
        dlt: Fraction = admissible_delta(delta)
        with self._lock:
            for name, given, asked, left in (
                ("epsilon", epsilon, eps, self._epsilon),
                ("delta", delta, dlt, self._delta),
            ):
                if asked > left:
                    raise BudgetError(
                        f"{name}={shown(given)} is more than is left of the budget: {float(left):g}, so that "
                        f"{float(asked - left):g} is lacking. A float is taken as exactly its binary value: "
                        "give shares that add up to the budget as texts ('0.1') or Fractions"
                    )
            self._epsilon, self._delta = self._epsilon - eps, self._delta - dlt
