"""Privacy measures: in what unit a loss is stated, and how losses add up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.exact import root_up


class Measure(ABC):
    """A unit of privacy loss."""

    @abstractmethod
    def total(self, losses: Sequence[Any]) -> Any:
        """Return the loss of a composition, in which each part may depend on the outputs of those before.

        Args:
            losses: in this measure's unit, fixed beforehand; none for what reveals nothing.
        """

    @abstractmethod
    def within(self, loss: Any, budget: Any) -> bool:
        """Whether a loss is at most the budget."""


class _Sum(Measure):
    def total(self, losses: Sequence[Fraction]) -> Fraction:
        """Return the sum."""
        return sum(losses, Fraction(0))

    def within(self, loss: Fraction, budget: Fraction) -> bool:
        """Whether it is at most the budget."""
        return loss <= budget


@dataclass(frozen=True)
class PureDP(_Sum):
    """Pure differential privacy: the map gives epsilon, and epsilons add up.

    >>> PureDP().total([Fraction(1, 3), Fraction(1, 2)])
    Fraction(5, 6)
    """


@dataclass(frozen=True)
class ZeroConcentratedDP(_Sum):
    """Zero-concentrated differential privacy (Bun, Steinke 2016): the map gives rho, and rhos add up."""


@dataclass(frozen=True)
class ApproximateDP(Measure):
    """Approximate differential privacy: the map gives (epsilon, delta); both add up.

    >>> ApproximateDP().total([(Fraction(1), Fraction(1, 10)), (Fraction(2), Fraction(1, 10))])
    (Fraction(3, 1), Fraction(1, 5))
    """

    def total(self, losses: Sequence[tuple[Fraction, Fraction]]) -> tuple[Fraction, Fraction]:
        """Return the sums: basic composition."""
        return sum((e for e, _ in losses), Fraction(0)), sum((d for _, d in losses), Fraction(0))

    def within(self, loss: tuple[Fraction, Fraction], budget: tuple[Fraction, Fraction]) -> bool:
        """Whether both parts are at most the budget's."""
        return loss[0] <= budget[0] and loss[1] <= budget[1]


@dataclass(frozen=True)
class GaussianDP(Measure):
    """Gaussian differential privacy (Dong, Roth, Su 2022): the map gives mu; squares add up.

    >>> GaussianDP().total([Fraction(3), Fraction(4)])
    Fraction(5, 1)
    """

    def total(self, losses: Sequence[Fraction]) -> Fraction:
        """Return the root of the sum of squares, rounded up."""
        return root_up(sum((mu * mu for mu in losses), Fraction(0)))

    def within(self, loss: Fraction, budget: Fraction) -> bool:
        """Whether it is at most the budget."""
        return loss <= budget
