"""Plans that take a share of a budget: by the sum, and the noise, that give most for it.

What is cheap in epsilon may be dear elsewhere: K-norm noise of epsilon 1 costs a rho of 1/2, and Gaussian
noise of (1, 1e-6) one of 0.028. So with a budget the noise is chosen by what it costs there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sfumato.budget import Budget, Loss
from sfumato.budget.filters import Way
from sfumato.dataclass import dataclass
from sfumato.errors import BudgetError, ParameterError, QueryError
from sfumato.exact import Number, as_written, one_of, root_down
from sfumato.exact.outward_rounding import round_bits
from sfumato.plan.noise_error import ratio
from sfumato.plan.plan import Plan
from sfumato.plan.planning import make_plan
from sfumato.query.option_names import NOISE_CHOICES
from sfumato.query.query import Query

_NEAR = Fraction(63, 64)  # of a share, from which on looking for more is not worth it
_TRIES = 8
_HALVINGS = 40


@dataclass(frozen=True)
class Share:
    """A share of a budget that a release takes, and the ways to take it.

    Args:
        part: greater than 0 and at most 1: of 1/20, twenty such questions may be asked.
        ways: by which sums.
    """

    part: Fraction
    ways: tuple[Way, ...]

    @classmethod
    def from_budget(cls, budget: Budget | None, share: Number) -> Share:
        """Return a share of a budget.

        Raises:
            ParameterError: budget is none, or the share is not admissible.
            BudgetError: no such share is left.
        """
        if budget is not None and not isinstance(budget, Budget):
            raise ParameterError("budget", budget, "a Budget, such as sf.Budget(epsilon=3, delta=1e-6)")
        if budget is None:
            raise ParameterError("share", share, "left out without budget=. Give epsilon instead")
        part = as_written(share, "share")
        if not 0 < part <= 1:
            raise ParameterError("share", share, "greater than 0, and at most 1")
        return cls(part, tuple(budget._ways(part)))

    def best(self, query: Query, options: dict[str, Any]) -> tuple[Plan, Way]:
        """Return the plan with the smallest expected errors that takes the budget share, and its way.

        Args:
            query: what is asked.
            options: of `make_plan`, but epsilon and delta.
        Raises:
            BudgetError: it buys nothing.
            ParameterError, QueryError: as of `make_plan`.

        Source:
            docs/budget.md, "One budget for many questions".
        """
        noise = one_of(options.get("noise", "auto"), "noise", NOISE_CHOICES)
        found: list[tuple[Plan, Way]] = []
        refused: BudgetError | ParameterError | QueryError | None = None
        for way in self.ways:
            for one in _noises(way, noise):
                try:
                    plans = _largest(query, way, self.part, options | {"noise": one})
                    found += [(plan, way) for plan in plans]
                except (BudgetError, ParameterError, QueryError) as error:
                    refused = refused or error
        if not found:
            raise refused or BudgetError(
                "the share is too small: no amount of noise is enough for it. Give a larger one"
            )
        weights, (first, _) = query.output_weights, found[0]
        return min(found, key=lambda pair: ratio(pair[0].expected, first.expected, weights))

    def times(self, part: Fraction) -> Share:
        """Return a part of the budget share, with all of its delta."""
        ways = tuple(replace(way, epsilon=way.epsilon * part) for way in self.ways)
        return Share(self.part * part, ways)

    def by(self, way: Way) -> Share:
        """Return the budget share restricted to one of its ways."""
        return replace(self, ways=tuple(one for one in self.ways if one.noises == way.noises))

    def less(self, epsilon: Fraction) -> Share:
        """Return what is left of the budget share after mechanisms with delta 0 of some epsilon."""
        (way,) = self.ways
        return self.times(1 - _split_pure(way, epsilon) / self.part) if epsilon else self

    def pure_epsilon(self, way: Way) -> Fraction:
        """Return about the largest epsilon with delta 0 that the budget share pays for."""
        high = Fraction(1)
        while _split_pure(way, high) <= self.part:
            high *= 2
        low = Fraction(0)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if _split_pure(way, middle) <= self.part else (low, middle)
        if not low:
            raise BudgetError("the share is too small for a preliminary query. Give a larger one")
        return low


def _split_pure(way: Way, epsilon: Fraction) -> Fraction:
    return way.part(epsilon, Loss(approximate=((epsilon, Fraction(0), 1),)))


def _noises(way: Way, requested: str) -> tuple[str, ...]:
    if requested == "auto":
        return way.noises
    return (requested,) if way.noises == ("auto",) or requested in way.noises else ()


def _largest(query: Query, way: Way, share: Fraction, options: dict[str, Any]) -> Iterator[Plan]:
    """Yield the plan with about the largest epsilon that a budget share pays for."""
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
