"""One budget for many questions, of which later ones may depend on earlier answers: a privacy filter.

Three sums are kept beside each other, each with a limit of its own, and a question may be asked as long as
one of the three would stay within its limit (docs/proofs/budget.md):

- epsilons and deltas, as they were asked for;
- rho, of zero-concentrated DP;
- mu^2, of Gaussian DP.

Privacy-loss distributions compose what is fixed beforehand, such as the noises of one release. They are not
used here, as no theorem allows it where a question's epsilon follows from earlier answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from sfumato.budget.conversions import zcdp_epsilon, zcdp_rho
from sfumato.budget.gaussian import gaussian_mu, pure_mu
from sfumato.budget.loss import Loss
from sfumato.budget.parameters import admissible_delta, admissible_epsilon
from sfumato.errors import BudgetError, ParameterError, shown
from sfumato.exact import one_of, root_down, round_down, round_up
from sfumato.ownership import Owned, Turn

COMPOSITIONS = ("tight", "adding")
# Of delta: what questions may name; events that tell a unit's presence; and the ends of the two bell curves.
_NAMED, _EVENTS, _END = Fraction(1, 2), Fraction(1, 4), Fraction(1, 8)
# A delta of which nothing is left but float noise buys no bell curve.
_ADDED, _RHO, _SQUARES = "epsilons and deltas added", "zero-concentrated DP", "Gaussian DP"
_PURE = "laplace", "k_norm"
_LEAST_DELTA = Fraction(1, 2**1800)
_LARGEST_EPSILON = 10**300  # floats tell no larger ones
_MOST_EPSILON = 1000  # which protects nobody, however it is composed


class Remaining(NamedTuple):
    """What is left of a budget.

    Args:
        epsilon: what the next question may surely ask for; with Gaussian noise perhaps more (or less, at a
            delta of a percent and above).
        delta: what it may name beside.
        share: the part of the budget that is left, from 0 to 1.
    """

    epsilon: float
    delta: float
    share: float


@dataclass(frozen=True)
class Spent:
    """One question that was paid.

    Args:
        what: in a few words.
        epsilon, delta: what it asked for.
        loss: all that its noises lose, as the sums saw it.
    """

    what: str
    epsilon: Fraction
    delta: Fraction
    loss: Loss


@dataclass(frozen=True)
class _Sum:
    """A way to add up losses: what one question adds, and how far that may get."""

    name: str
    limit: tuple[Fraction, Fraction]
    price: Callable[[Spent], tuple[Fraction, Fraction]]

    def fits(self, total: tuple[Fraction, Fraction]) -> bool:
        return total[0] <= self.limit[0] and total[1] <= self.limit[1]

    def way(self, share: Fraction) -> Way:
        """Return how a question takes a share by this sum."""
        limit, delta = self.limit[0], share * self.limit[1]
        if self.name == _ADDED:
            return Way(("auto",), share * limit, delta, lambda epsilon, _: epsilon / limit)
        if self.name == _RHO:
            return Way(_PURE, root_down(2 * share * limit), delta, lambda _, loss: _rho(loss) / limit)
        begin = Loss(gaussian=share * limit).epsilon(delta)
        return Way(("gaussian",), begin, delta, lambda _, loss: _square(loss) / limit)

    def used(self, total: tuple[Fraction, Fraction]) -> Fraction:
        """Return the largest part of a limit that is used."""
        return max(
            (t / limit for t, limit in zip(total, self.limit, strict=True) if limit), default=Fraction(0)
        )


@dataclass(frozen=True)
class Way:
    """How a question may take a share of a budget: by one of its sums.

    Args:
        noises: with which the loss counts there for what it is; "auto" for all.
        epsilon, delta: what to begin with, and never more delta.
        part: the part of the sum's limit that an epsilon, or a loss, takes.
    """

    noises: tuple[str, ...]
    epsilon: Fraction
    delta: Fraction
    part: Callable[[Fraction, Loss], Fraction]


class Budget(Owned):
    """An (epsilon, delta) for all questions together, which cannot be overspent.

    What is asked next, and for how much, may depend on all answers before. A question that does not fit is
    refused before anything is read, and costs nothing. Several threads may ask, of the process that made the
    budget alone; there are no copies.

    Args:
        epsilon: all that may be lost, greater than 0. A float is taken as exactly its binary value, and ten
            times 0.1 is then more than 1; texts ("0.1") and Fractions are what they say.
        delta: in [0, 1).
        composition: "tight" also keeps sums in zero-concentrated and in Gaussian DP, so that many small
            questions cost less than their epsilons add up to; of delta it leaves one half for what
            questions name. "adding" adds epsilons and deltas, of which questions may name all. With delta 0
            both are one.
    Raises:
        BudgetError: epsilon or delta is not admissible.
        ParameterError: composition is none of these.

    >>> budget = Budget(epsilon=1)
    >>> budget.spend("0.75")
    >>> budget.remaining
    Remaining(epsilon=0.25, delta=0.0, share=0.25)
    >>> budget.spend("0.5")
    Traceback (most recent call last):
    sfumato.errors.BudgetError: epsilon='0.5' is more than is left of the budget: 0.25, so that 0.25 is...

    Source:
        docs/proofs/budget.md, after Rogers, Roth, Ullman and Vadhan 2016; Feldman and Zrnic 2021; Smith and
        Thakurta 2022; Whitehouse, Ramdas, Rogers and Wu 2023.
    """

    _elsewhere = (
        "what is spent in two places would be counted in neither; give each place a budget of its own"
    )
    _refusal = BudgetError

    def __init__(self, epsilon: Any, delta: Any = 0, *, composition: str = "tight") -> None:
        self._epsilon, self._delta = admissible_epsilon(epsilon), admissible_delta(delta)
        one_of(composition, "composition", COMPOSITIONS)
        if self._epsilon > _LARGEST_EPSILON:
            raise BudgetError(f"epsilon is {shown(epsilon)}, but a budget has at most 1e300")
        tight = composition == "tight" and self._delta >= _LEAST_DELTA and self._epsilon <= _MOST_EPSILON
        self._sums = _sums(self._epsilon, self._delta) if tight else (_added(self._epsilon, self._delta),)
        self._totals = [(Fraction(0), Fraction(0))] * len(self._sums)
        self._history: list[Spent] = []
        self._turn = Turn()

    @property
    def total(self) -> tuple[float, float]:
        """All that may be lost: epsilon and delta."""
        return float(self._epsilon), float(self._delta)

    @property
    def history(self) -> tuple[Spent, ...]:
        """What was paid, in order."""
        return tuple(self._history)

    @property
    def spent(self) -> tuple[float, float]:
        """An (epsilon, delta) that what was asked so far stays within, rounded up.

        It is the smallest epsilon of a budget with the same delta that would have allowed these questions.
        What is promised of later questions too is `total`.
        """
        if not self._history:
            return 0.0, 0.0
        found = [(round_up(self._totals[0][0]), round_up(self._totals[0][1]))]
        if len(self._sums) > 1:
            whole, end = round_up(self._delta), self._delta * _END
            (rho, event), (square, _) = self._totals[1:]
            if event <= self._sums[1].limit[1]:
                by_rho = zcdp_epsilon(rho, end) if rho else Fraction(0)
                by_square = Loss(gaussian=square).epsilon(end) if square else Fraction(0)
                found.append((round_up(min(by_rho, by_square)), whole))
        fitting = [f for f, s, t in zip(found, self._sums, self._totals, strict=False) if t[1] <= s.limit[1]]
        return min(fitting or found)

    @property
    def remaining(self) -> Remaining:
        """What is left, rounded down."""
        return Remaining(*map(round_down, self._left()))

    def _left(self) -> tuple[Fraction, Fraction, Fraction]:
        left, share = [(Fraction(0), Fraction(0))], Fraction(0)
        for each, total in zip(self._sums, self._totals, strict=True):
            if not each.fits(total):
                continue
            first, second = (limit - t for limit, t in zip(each.limit, total, strict=True))
            # By rho, as a mechanism of epsilon has epsilon^2 / 2 at most; its mu allows no more.
            by_epsilon = first if each.name == _ADDED else root_down(2 * first) if each.name == _RHO else 0
            left.append((Fraction(by_epsilon), second))
            share = max(share, 1 - each.used(total))
        return *max(left), share

    def spend(
        self, epsilon: Any, delta: Any = 0, *, loss: Loss | None = None, what: str = "a question"
    ) -> None:
        """Pay for a question; what asks releases does so itself.

        Args:
            epsilon, delta: what the question stays within.
            loss: what its noises lose, where more is known than epsilon and delta; both must be true.
            what: in a few words, for `history`.
        Raises:
            BudgetError: it is not admissible, or more than is left, or this is another process than that
                which made the budget; nothing is spent then.
            ParameterError: loss is none.
            RefusalError: it is asked in the middle of another question, as by a handler of a signal.
        """
        self._check_home()
        eps, dlt = admissible_epsilon(epsilon), admissible_delta(delta)
        if not isinstance(loss, Loss | None):
            raise ParameterError("loss", type(loss).__name__, "a Loss of sfumato.budget, or left out")
        asked = Spent(str(what), eps, dlt, loss or Loss(approximate=((eps, dlt, 1),)))
        prices = [each.price(asked) for each in self._sums]
        with self._turn():
            totals = [(a + c, b + d) for (a, b), (c, d) in zip(self._totals, prices, strict=True)]
            if not any(each.fits(total) for each, total in zip(self._sums, totals, strict=True)):
                raise BudgetError(self._refused(asked, epsilon, delta))
            self._totals = totals
            self._history.append(asked)

    def ways(self, share: Fraction) -> list[Way]:
        """Return how a question may take a share: by sums of which the least is used up.

        Once a question has taken a share by one of them, so do those after it: their shares add up.

        Args:
            share: greater than 0 and at most 1.
        Raises:
            BudgetError: less is left.
        """
        used = [each.used(total) for each, total in zip(self._sums, self._totals, strict=True)]
        least = min(used)
        if least + share > 1:
            raise BudgetError(
                f"share={float(share):.6g} is more than is left of the budget: {1 - float(least):.6g}"
            )
        return [each.way(share) for each, part in zip(self._sums, used, strict=True) if part == least]

    def _refused(self, asked: Spent, epsilon: Any, delta: Any) -> str:
        """Say what is lacking, where sums are of what was asked for; else what may be asked."""
        binary = (
            "A float is taken as exactly its binary value: give shares that add up to the budget as texts "
            "('0.1') or Fractions"
        )
        if len(self._sums) > 1:
            left_epsilon, left_delta, share = self._left()
            return (
                f"epsilon={round_up(asked.epsilon):.6g} with delta={round_up(asked.delta):.6g} is more than "
                f"is left of the budget: {float(share):.1%}, so that a question may ask for "
                f"epsilon={_told(left_epsilon)} and delta={_told(left_delta)}. Half of the budget's delta is "
                f"for tighter composition; composition='adding' leaves all of it to questions. {binary}"
            )
        name, given, value, place = "epsilon", epsilon, asked.epsilon, 0
        if self._totals[0][0] + value <= self._sums[0].limit[0]:
            name, given, value, place = "delta", delta, asked.delta, 1
        left_over = self._sums[0].limit[place] - self._totals[0][place]
        return (
            f"{name}={shown(given)} is more than is left of the budget: {_told(left_over)}, so that "
            f"{round_up(value - left_over):g} is lacking. {binary}"
        )

    def __repr__(self) -> str:
        epsilon, _, share = self._left()
        return (
            f"<Budget of epsilon={_told(self._epsilon)}, delta={_told(self._delta)}: {float(share):.1%} "
            f"left, a question may ask for epsilon={_told(epsilon)}>"
        )


def _told(number: Fraction) -> str:
    """Return a number in six digits; in all of a float's where these would be more than it is."""
    text = f"{round_down(number):g}"
    return text if Fraction(text) <= number else repr(round_down(number))


def _added(epsilon: Fraction, delta: Fraction) -> _Sum:
    return _Sum(_ADDED, (epsilon, delta), lambda spent: (spent.epsilon, spent.delta))


def _sums(epsilon: Fraction, delta: Fraction) -> tuple[_Sum, ...]:
    """Return the three ways to add up, with limits whose deltas come to delta together."""
    rho, mu = zcdp_rho(epsilon, delta * _END), gaussian_mu(epsilon, delta * _END)
    events = delta * _EVENTS
    return (
        _added(epsilon, delta * _NAMED),
        _Sum(_RHO, (rho, events), lambda spent: (_rho(spent.loss), spent.loss.least_delta)),
        _Sum(_SQUARES, (mu * mu, events), lambda spent: (_square(spent.loss), spent.loss.least_delta)),
    )


def _rho(loss: Loss) -> Fraction:
    """Return the rho of all that no event of `least_delta` tells."""
    return _of_parts(loss, loss.gaussian / 2, lambda epsilon: epsilon * epsilon / 2)


def _square(loss: Loss) -> Fraction:
    """Return mu^2, likewise."""
    return _of_parts(loss, loss.gaussian, lambda epsilon: pure_mu(epsilon) ** 2)


def _of_parts(loss: Loss, gaussian: Fraction, of_pure: Callable[[Fraction], Fraction]) -> Fraction:
    laplace = sum((of_pure(rate) * count for rate, count in loss.laplace), Fraction(0))
    if loss.pure is not None:  # a bound of all of them together
        laplace = min(laplace, of_pure(loss.pure))
    others = sum((of_pure(epsilon) * count for epsilon, _, count in loss.approximate), Fraction(0))
    return gaussian + laplace + others
