"""The smallest noise that a budget allows, and delta split over groups."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from sfumato.budget.closed_forms import gaussian_mu, gaussian_sigma, joined_delta
from sfumato.budget.epsilon_delta import admissible_count, admissible_delta, admissible_epsilon
from sfumato.budget.loss import Loss
from sfumato.errors import BudgetError
from sfumato.exact import root_up
from sfumato.exact.library_settings import isolated
from sfumato.exact.outward_rounding import convert, directed, exactly, log2
from sfumato.exact.root_finding import crossing, log_ratio

FINE = 2.0**-40  # of the noise
REACH = 500.0  # the noise is looked for within 2^-500 and 2^500 of the start

# The part of delta that releases leave, so that a check that rounds outward proves them to be within it.
ROOM = Fraction(1, 2**30)
# Chances with which a threshold shows a group of one unit. The certificate proves none to be below 1e-305, so
# that rounding stays within the room above the smallest. Above the largest, it takes a threshold to show all.
SMALLEST_CHANCE, LARGEST_CHANCE = Fraction(1, 10**290), Fraction(1, 2)

LossAt = Callable[[Fraction], Loss]


@isolated
def calibrate(loss_at: LossAt, epsilon: object, delta: object, *, start: object = 1) -> Fraction:
    """Return the smallest noise multiplier whose loss is within (epsilon, delta).

    The result has been evaluated and is within the budget; a multiplier smaller by the tolerance, 2^-40 of
    it, has been evaluated and is not. Without Gaussian noise, if composition can gain at most 1/1024 of
    epsilon, epsilons are summed instead. That is solved exactly where each epsilon is constant or inversely
    proportional to the multiplier.

    Args:
        loss_at: a function from a multiplier > 0 to a Loss; more noise never loses more. It is called a few
            dozen times.
        epsilon: finite number greater than 0.
        delta: number in [0, 1).
        start: a first multiplier; a good one saves a few calls.
    Returns:
        The multiplier.
    Raises:
        BudgetError: epsilon or delta is out of range, or no multiplier or every multiplier is within the
            budget.
    Source:
        design, "Budget"; the search is in `search`.

    >>> calibrate(lambda noise: Loss(laplace=((1 / noise, 3),)), 1, 0)
    Fraction(3, 1)
    """
    budget = _Budget(loss_at, admissible_epsilon(epsilon), admissible_delta(delta))
    first = admissible_epsilon(start, "start")
    loss = loss_at(first)
    if loss.least_delta > budget.delta:
        raise BudgetError(
            f"delta is {float(budget.delta):.6g}, "
            f"but group selection alone takes {float(loss.least_delta):.6g}"
        )
    room = budget.delta - loss.least_delta
    if loss.gaussian and room == 0:
        raise BudgetError(f"delta is {float(budget.delta):.6g}, which leaves none for Gaussian noise")
    if not loss.gaussian and not loss._improvable(budget.epsilon, room):
        return budget.by_sums(first)
    near, stride = first, 1.0
    if not (loss.approximate or loss.laplace):
        # One Gaussian noise in all: its own closed form, which is confirmed below.
        near, stride = first * root_up(loss.gaussian) / gaussian_mu(budget.epsilon, room), FINE
    return budget.found(budget.height, near, FINE, stride)


class _Budget:
    """The target (epsilon, delta) of a calibration, and how far a noise multiplier is from it."""

    def __init__(self, loss_at: LossAt, epsilon: Fraction, delta: Fraction) -> None:
        self.loss_at, self.epsilon, self.delta = loss_at, epsilon, delta

    def height(self, x: float) -> float:
        loss = self.loss_at(_power(x))
        total = loss.delta(self.epsilon)
        if total <= self.delta:
            return log_ratio(max(Fraction(0), total - loss.least_delta), self.delta - loss.least_delta)
        if loss.least_delta >= self.delta:
            return float("inf")
        return log_ratio(total - loss.least_delta, self.delta - loss.least_delta)

    def found(
        self, height: Callable[[float], float], start: Fraction, tolerance: float, stride: float
    ) -> Fraction:
        x = crossing(height, log2(start), tolerance, stride=stride, reach=REACH)
        if x is None:
            raise BudgetError(
                f"no amount of noise is enough for epsilon = {float(self.epsilon):.6g}, delta = "
                f"{float(self.delta):.6g}"
            )
        if x <= log2(start) - REACH:
            raise BudgetError(
                "every amount of noise is within the budget: the loss does not depend on the multiplier"
            )
        return _power(x)

    def by_sums(self, start: Fraction) -> Fraction:
        """Calibrate by basic composition, whose epsilon is usually linear in 1/multiplier."""
        half = 1 / (2 * start)
        once, twice = self.loss_at(start).basic_epsilon, self.loss_at(2 * start).basic_epsilon
        if once > twice:
            inverse = half + (self.epsilon - twice) * half / (once - twice)
            if inverse > 0 and self._is_smallest(1 / inverse):
                return 1 / inverse
        return self.found(self._sum_height, start, FINE, 1.0)

    def _is_smallest(self, multiplier: Fraction) -> bool:
        less = multiplier * (1 - Fraction(FINE))
        return self._within_sum(multiplier) and not self._within_sum(less)

    def _within_sum(self, multiplier: Fraction) -> bool:
        loss = self.loss_at(multiplier)
        return not loss.gaussian and loss.basic_epsilon <= self.epsilon and loss.least_delta <= self.delta

    def _sum_height(self, x: float) -> float:
        loss = self.loss_at(_power(x))
        if loss.gaussian or loss.least_delta > self.delta:
            return float("inf")
        return log_ratio(loss.basic_epsilon, self.epsilon)


def _power(x: float) -> Fraction:
    return Fraction(2.0**x)


@isolated
def split_delta(delta: object, groups: object) -> Fraction:
    """Return the largest d such that `groups` independent events of probability d have at most delta.

    Args:
        delta: number in [0, 1).
        groups: the number of groups that a unit may be in, at least 1.
    Returns:
        d with 1 - (1 - d)^groups <= delta, rounded down by at most 2^-79 of it; delta itself for one group.
    Raises:
        BudgetError: delta or groups is out of range.
    Source:
        d = -expm1(log1p(-delta) / groups); the events are independent because the noise is.

    >>> float(split_delta("1e-6", 4))
    2.500000937...e-07
    """
    total = admissible_delta(delta)
    count = admissible_count(groups, "groups")
    if count == 1 or total == 0:
        return total
    with_bits = 80
    while True:
        fine, down = directed(512).down, directed(with_bits).down
        logarithm = fine.log1p(convert(-total, fine))
        share = exactly(down.minus(fine.expm1(fine.div(logarithm, count))))
        share *= 1 - Fraction(1, 2**80)
        if joined_delta(share, count) <= total:
            return share
        with_bits -= 8


def threshold_delta(delta: Fraction, groups: int, *, union: bool = False) -> Fraction:
    """Return the calibrated delta of one group's threshold, small enough for the certificate to prove.

    Args:
        delta: for all groups together, above 0 and below 1.
        groups: the most that one unit makes large enough.
        union: whether the chances of groups add up, as their events are not independent.
    Raises:
        BudgetError: delta is too small for so many groups.

    >>> float(threshold_delta(Fraction(1, 10**6), 1)), float(threshold_delta(Fraction(99, 100), 1))
    (9.99999999...e-07, 0.5)
    """
    kept = delta * (1 - ROOM)
    each = kept / groups if union else split_delta(kept, groups)
    if each < SMALLEST_CHANCE:
        raise BudgetError(
            "delta leaves less than 1e-290 for each private group, which cannot be certified. Give a "
            "larger delta, such as 1e-6"
        )
    return min(each, LARGEST_CHANCE)


__all__ = ["calibrate", "gaussian_mu", "gaussian_sigma", "split_delta"]
