"""Privacy filters: ways to add up what questions lose, where later ones depend on earlier answers.

Three stand beside each other, each with a limit of its own and a delta of its own (docs/proofs/budget.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from sfumato.budget.closed_forms import gaussian_mu, pure_epsilon, zcdp_epsilon, zcdp_rho
from sfumato.budget.loss import Loss
from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled, exact, visible
from sfumato.exact import root_down

# Of delta: what questions may name; events that tell a unit's presence; and the ends of the two bell curves.
_NAMED, _EVENTS, _END = Fraction(1, 2), Fraction(1, 4), Fraction(1, 8)


@dataclass(frozen=True, repr=False)
class Spent(Spelled):
    """One query charged to a budget.

    An entry in the `history` of a `Budget`.

    Args:
        what: a short description.
        epsilon, delta: the amounts that it was charged.
        loss: the loss of all its noise, as the totals include it.
    """

    what: str
    epsilon: Fraction
    delta: Fraction
    loss: Loss

    def __repr__(self) -> str:
        return visible(f"<Spent on {self.what}: epsilon={exact(self.epsilon)}, delta={exact(self.delta)}>")


@dataclass(frozen=True)
class Way:
    """How a query can take a share of a budget in one privacy filter.

    Args:
        noises: with which the loss counts there for what it is; "auto" for all.
        epsilon, delta: what to begin with, and never more delta.
        part: the part of the sum's limit that an epsilon, or a loss, takes.
    """

    noises: tuple[str, ...]
    epsilon: Fraction
    delta: Fraction
    part: Callable[[Fraction, Loss], Fraction]


@dataclass(frozen=True)
class PrivacyFilter(ABC):
    """A privacy filter: a rule that adds up the losses of adaptive queries, and its limit.

    Args:
        limit: of the sum itself, greater than 0; and of deltas beside it.
    """

    limit: tuple[Fraction, Fraction]
    name: ClassVar[str]  # by which ledgers know it, for ever

    @abstractmethod
    def price(self, spent: Spent) -> tuple[Fraction, Fraction]:
        """Return what a query adds to the filter's two sums."""

    @abstractmethod
    def epsilon(self, left: Fraction) -> Fraction:
        """Return an epsilon that any query can spend when `left` is left in the filter."""

    @abstractmethod
    def enough(self, total: Fraction, delta: Fraction) -> Fraction:
        """Return the smallest epsilon of a budget with this delta whose filter would allow a total."""

    @abstractmethod
    def way(self, share: Fraction) -> Way:
        """Return how a query takes a share of the budget in this filter."""

    def fits(self, total: tuple[Fraction, Fraction]) -> bool:
        """Whether a total is within both limits of the filter."""
        return total[0] <= self.limit[0] and total[1] <= self.limit[1]

    def used(self, total: tuple[Fraction, Fraction]) -> Fraction:
        """Return the largest used part of the filter's two limits."""
        pairs = zip(total, self.limit, strict=True)
        return max(t / limit for t, limit in pairs if limit)


class Added(PrivacyFilter):
    """The privacy filter of basic composition: adds up epsilons and deltas."""

    name = "epsilon"

    def price(self, spent: Spent) -> tuple[Fraction, Fraction]:
        """Return the epsilon and delta that a query adds to the basic-composition filter."""
        return spent.epsilon, spent.delta

    def epsilon(self, left: Fraction) -> Fraction:
        """Return what is left in the basic-composition filter, which any query can spend."""
        return left

    def enough(self, total: Fraction, delta: Fraction) -> Fraction:
        """Return the smallest epsilon whose basic-composition filter would allow a total."""
        return total

    def way(self, share: Fraction) -> Way:
        """Return how a query takes a share in the basic-composition filter."""
        limit, delta = self.limit
        return Way(("auto",), share * limit, share * delta, lambda epsilon, _: epsilon / limit)


class Concentrated(PrivacyFilter):
    """The privacy filter of zero-concentrated DP: adds up rho, and probabilities of distinguishing events."""

    name = "rho"

    def price(self, spent: Spent) -> tuple[Fraction, Fraction]:
        """Return the rho and the event probability that a query adds to the zCDP filter."""
        return spent.loss.rho, spent.loss.least_delta

    def epsilon(self, left: Fraction) -> Fraction:
        """Return an epsilon whose rho fits what is left in the zCDP filter."""
        return root_down(2 * left)  # of any mechanism of epsilon rho is epsilon^2 / 2 at most

    def enough(self, total: Fraction, delta: Fraction) -> Fraction:
        """Return the smallest epsilon whose zCDP filter would allow a total rho."""
        return zcdp_epsilon(total, delta * _END) if total else Fraction(0)

    def way(self, share: Fraction) -> Way:
        """Return how a query takes a share in the zCDP filter."""
        limit, delta = self.limit
        begin = root_down(2 * share * limit)
        return Way(("laplace", "k_norm"), begin, share * delta, lambda _, loss: loss.rho / limit)


class Squares(PrivacyFilter):
    """The privacy filter of Gaussian DP: adds up mu^2, and probabilities of distinguishing events."""

    name = "mu^2"

    def price(self, spent: Spent) -> tuple[Fraction, Fraction]:
        """Return the mu^2 and the event probability that a query adds to the Gaussian-DP filter."""
        return spent.loss.mu_squared, spent.loss.least_delta

    def epsilon(self, left: Fraction) -> Fraction:
        """Return an epsilon whose mu^2 fits what is left in the Gaussian-DP filter."""
        return pure_epsilon(root_down(left))  # no more than rho allows, where that fits too

    def enough(self, total: Fraction, delta: Fraction) -> Fraction:
        """Return the smallest epsilon whose Gaussian-DP filter would allow a total mu^2."""
        return Loss(gaussian=total).epsilon(delta * _END) if total else Fraction(0)

    def way(self, share: Fraction) -> Way:
        """Return how a query takes a share in the Gaussian-DP filter."""
        limit, delta = self.limit[0], share * self.limit[1]
        begin = Loss(gaussian=share * limit).epsilon(delta)
        return Way(("gaussian",), begin, delta, lambda _, loss: loss.mu_squared / limit)


@lru_cache(1024)  # a ledger asks at each payment
def privacy_filters(epsilon: Fraction, delta: Fraction, tight: bool) -> tuple[PrivacyFilter, ...]:
    """Return the privacy filters of a budget, whose limits have deltas that sum to its delta."""
    if not tight:
        return (Added((epsilon, delta)),)
    rho, mu = zcdp_rho(epsilon, delta * _END), gaussian_mu(epsilon, delta * _END)
    events = delta * _EVENTS
    added, squares = Added((epsilon, delta * _NAMED)), Squares((mu * mu, events))
    # Of a budget near 1e-12 no rho is found.
    return (added, Concentrated((rho, events)), squares) if rho else (added, squares)
