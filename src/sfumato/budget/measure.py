"""The measure whose losses are compositions of dominating pairs."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sfumato.budget.loss import Loss
from sfumato.dataclass import dataclass
from sfumato.framework.measures import Measure


@dataclass(frozen=True)
class PrivacyLoss(Measure):
    """Dominating pairs: the map gives a `Loss`, from which delta at any epsilon follows.

    Closed forms or privacy-loss distributions give the numbers, whichever is tighter. A budget is
    (epsilon, delta).

    >>> from sfumato.budget import Loss
    >>> measure = PrivacyLoss()
    >>> both = measure.total([Loss(gaussian=Fraction(1, 4)), Loss(laplace=((Fraction(1, 2), 1),))])
    >>> measure.within(both, (Fraction(3), Fraction(1, 1000)))
    True

    Source:
        Zhu, Dong and Wang 2022, "Optimal accounting of differential privacy via characteristic function".
    """

    admitted = "a Loss of sfumato.budget"

    def _admit(self, loss: Any) -> Loss | None:
        """Return what a privacy map gave as a Loss, whose parts are exact and at least 0; else None.

        Args:
            loss: what the map gave.
        """
        return loss if isinstance(loss, Loss) else None

    def total(self, losses: Sequence[Loss]) -> Loss:
        """Return the composed loss."""
        return sum(losses, Loss())

    def within(self, loss: Loss, budget: tuple[Fraction, Fraction]) -> bool:
        """Whether the loss at the budget's epsilon has at most its delta."""
        return loss.delta(budget[0]) <= budget[1]
