"""What a release of the largest groups does and costs: decided from the question alone."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from sfumato.budget import Loss
from sfumato.budget.conversions import zcdp_rho
from sfumato.budget.cost import ExactCost
from sfumato.dataclass import dataclass
from sfumato.display.fields import Spelled
from sfumato.errors import BudgetError
from sfumato.exact import root_down, root_up
from sfumato.exact.directed import exp_bounds
from sfumato.measurements.noise import Law
from sfumato.measurements.peeling import margin_for
from sfumato.noise import Gaussian, Laplace

# Half of delta is for what concentrates, where groups are private too.
_HALF = Fraction(1, 2)
LARGEST_SCALE = 2**56
LARGEST_EPSILON = 1000


@dataclass(frozen=True, repr=False)
class TopPlan(Spelled):
    """What a release of the largest groups does.

    Args:
        k: how many groups.
        candidates: how many of the largest groups may be shown; None where the groups are public.
        epsilon, delta: the budget, exactly.
        share: the part of it that is for the numbers of units, from 0 to less than 1.
        rho: the zCDP that the peels and the numbers share; None where they share epsilon itself.
        lower, upper: the least and the most that one unit adds to a group in which it is, in steps.

    Made by `Top.plan`.
    """

    k: int
    candidates: int | None
    epsilon: Fraction
    delta: Fraction
    share: Fraction
    rho: Fraction | None = None
    lower: int = 1
    upper: int = 1

    @property
    def spread(self) -> int:
        """How much more one unit moves one group's score than another's, at most, in steps."""
        return max(self.upper, 0) - min(self.lower, 0)

    @property
    def largest(self) -> int:
        """How far one unit moves a group's number, at most, in steps."""
        return max(abs(self.lower), abs(self.upper))

    @property
    def description(self) -> dict[str, Any]:
        """What is drawn, as the certificate reads it."""
        law = self.law
        return {
            "kind": "largest_groups",
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "keys": "public" if self.candidates is None else "private",
            "lower": str(self.lower),
            "upper": str(self.upper),
            "rate": str(self.step_rate),
            "picks": self.k,
            "candidates": self.candidates,
            "margin": self.margin,
            "noise": None if law is None else {"law": type(law).__name__.lower(), "scale": str(law.unit)},
        }

    @cached_property
    def rate(self) -> Fraction:
        """Epsilon of one key."""
        if self.rho is None:
            return (1 - self.share) * self.epsilon / self.k
        return root_down(8 * (1 - self.share) * self.rho / self.k)

    @property
    def spent(self) -> ExactCost:
        """The budget (epsilon, delta) of a release."""
        return ExactCost(self.epsilon, self.delta)

    @property
    def loss(self) -> Loss:
        """What the release loses, of which no more is said than its budget."""
        return Loss(approximate=((self.epsilon, self.delta, 1),))

    @property
    def step_rate(self) -> Fraction:
        """What a step of a score counts for in the exponent of each peel."""
        return self.rate / self.spread

    @cached_property
    def noise_scale(self) -> Fraction:
        """The scale of the noise of the numbers, in steps; 0 without any."""
        if not self.share:
            return Fraction(0)
        if self.rho is None:
            return self.largest * self.k / (self.share * self.epsilon)
        return self.largest * root_up(self.k / (2 * self.share * self.rho))

    @cached_property
    def law(self) -> Law | None:
        """The noise of the numbers, which one unit moves by `largest` each, in steps."""
        if not self.share:
            return None
        return Laplace(scale=self.noise_scale) if self.rho is None else Gaussian(sigma=self.noise_scale)

    @property
    def miss(self) -> Fraction:
        """A bound of the chance that a group is shown that other people's tables do not show."""
        whole = self.delta if self.rho is None else self.delta * _HALF
        return whole / (1 + exp_bounds(self.epsilon, 128)[1])

    @cached_property
    def margin(self) -> int | None:
        """How far above the groups that are no candidates the end lies; None where groups are public."""
        if self.candidates is None:
            return None
        return margin_for(self.step_rate, self.candidates, self.miss, self.largest)


def make_top_plan(plan: TopPlan) -> TopPlan:
    """Return the plan, or one by zCDP where that has a larger rate.

    Raises:
        BudgetError: groups are private and delta is 0 or epsilon above 1,000, or the noise is
            too large to draw.
    """
    private = plan.candidates is not None
    if private and plan.delta == 0:
        raise BudgetError("delta is 0, but private groups need one, such as 1e-6; or give keys=[...]")
    if private and plan.epsilon > LARGEST_EPSILON:
        raise BudgetError(
            f"epsilon is above {LARGEST_EPSILON:,}, which protects nobody where groups are private"
        )
    made = plan
    if plan.delta and (rho := zcdp_rho(plan.epsilon, plan.delta * _HALF if private else plan.delta)):
        other = replace(plan, rho=rho)
        made = other if other.rate > plan.rate else plan
    if made.noise_scale > LARGEST_SCALE:
        raise BudgetError("the noise would be beyond 64 bits; ask for a larger epsilon or a smaller k")
    return made
