"""What something costs, exactly, and written as people do."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from sfumato.display.fields import spelled_fields


class ExactCost(NamedTuple):
    """An epsilon and a delta, exactly.

    Args:
        epsilon, delta: fractions, shown as one writes them.

    >>> cost = ExactCost(Fraction(1, 4), Fraction(1, 10**6))
    >>> cost
    ExactCost(epsilon=0.25, delta=1e-06)
    >>> cost.epsilon * 4 == 1, cost == (Fraction(1, 4), Fraction(1, 10**6))
    (True, True)
    """

    epsilon: Fraction
    delta: Fraction

    def __repr__(self) -> str:
        return spelled_fields(self, self._fields)
