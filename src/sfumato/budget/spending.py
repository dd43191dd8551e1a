"""One budget for many questions, of which later ones may depend on earlier answers.

Three sums are kept beside each other, each with a limit of its own (`filters`), and a question may be asked
as long as one of the three would stay within its limit.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

from sfumato.budget.filters import Spent, Way, filters
from sfumato.budget.loss import Loss
from sfumato.budget.parameters import admissible_delta, admissible_epsilon
from sfumato.errors import BudgetError, ParameterError, shown
from sfumato.exact import one_of, round_down, round_up
from sfumato.ownership import Owned, Turn

COMPOSITIONS = ("tight", "adding")
_LEAST_DELTA = Fraction(1, 2**1800)  # the bounds of Gaussian noise go no further
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
        self._sums = filters(self._epsilon, self._delta, tight)
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
        pairs = list(zip(self._sums, self._totals, strict=True))
        found = [
            (round_up(one.enough(total[0], self._delta)), round_up(total[1] if i == 0 else self._delta))
            for i, (one, total) in enumerate(pairs)
            if total[1] <= one.limit[1]
        ]
        return min(found)

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
            left.append((each.epsilon(first), second))
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
