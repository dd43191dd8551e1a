"""What was paid of one (epsilon, delta), by each of the sums that are kept of it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, Self

from sfumato.budget.filters import PrivacyFilter, Spent, Way, filters
from sfumato.budget.parameters import admissible_delta, admissible_epsilon
from sfumato.dataclass import dataclass
from sfumato.display.fields import Spelled, spelled_fields
from sfumato.errors import BudgetError, shown
from sfumato.exact import one_of, round_down, round_up, written_up

COMPOSITIONS = ("tight", "adding")
_LEAST_DELTA = Fraction(1, 2**1800)  # the bounds of Gaussian noise go no further
_LARGEST_EPSILON = 10**300  # floats tell no larger ones
_MOST_EPSILON = 1000  # which protects nobody, however it is composed

Totals = tuple[tuple[Fraction, Fraction], ...]


class Unspent(NamedTuple):
    """What is left, exactly; `Remaining` says it in floats. Made by `Ledger.accounts`, in each account.

    Args:
        epsilon, delta: that the next question may surely have.
        share: of the cap.
    """

    epsilon: Fraction
    delta: Fraction
    share: Fraction

    def __repr__(self) -> str:
        return spelled_fields(self, self._fields)


@dataclass(frozen=True, repr=False)
class Cap(Spelled):
    """All that may be lost, and how it is added up.

    Args:
        epsilon, delta: as `Budget` takes them.
        composition: "tight" or "adding".

    Made by `Ledger.accounts`, whose example shows what a cap leaves.
    """

    epsilon: Fraction
    delta: Fraction
    composition: str

    @classmethod
    def of(cls, epsilon: Any, delta: Any, composition: str) -> Self:
        """Check what a user gives.

        Raises:
            BudgetError: epsilon or delta is not admissible.
            ParameterError: composition is none of these.
        """
        cap = cls(admissible_epsilon(epsilon), admissible_delta(delta), composition)
        one_of(composition, "composition", COMPOSITIONS)
        if cap.epsilon > _LARGEST_EPSILON:
            raise BudgetError(f"epsilon is {shown(epsilon)}, but a budget has at most 1e300")
        return cap

    @cached_property
    def filters(self) -> tuple[PrivacyFilter, ...]:
        """The sums that are kept, with their limits, which take some milliseconds to find."""
        bounded = self.delta >= _LEAST_DELTA and self.epsilon <= _MOST_EPSILON
        return filters(self.epsilon, self.delta, self.composition == "tight" and bounded)


@dataclass(frozen=True)
class Account:
    """A cap, and what was paid of it.

    Args:
        cap: what may be paid.
        totals: of each of its filters.
        called: what messages call it.

    >>> import tempfile
    >>> import sfumato as sf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = sf.Ledger(f"{folder}/budget.db")
    ...     ledger.create("hospital", epsilon=3)
    ...     _ = ledger.budget("hospital").spend("0.75", what="patients by year")
    ...     account = ledger.accounts("hospital")[0].account
    >>> account.spent, account.left
    ((0.75, 0.0), Unspent(epsilon=2.25, delta=0, share=0.75))
    """

    cap: Cap
    totals: Totals
    called: str = "the budget"

    @classmethod
    def empty(cls, cap: Cap, called: str = "the budget") -> Self:
        """Return one of which nothing was paid."""
        return cls(cap, ((Fraction(0), Fraction(0)),) * len(cap.filters), called)

    def after(self, asked: Spent) -> Self:
        """Return the account with a question more, whether it fits or not."""
        prices = [each.price(asked) for each in self.cap.filters]
        pairs = zip(self.totals, prices, strict=True)
        return replace(self, totals=tuple((a + c, b + d) for (a, b), (c, d) in pairs))

    @property
    def fits(self) -> bool:
        """Whether one of the sums is within its limit."""
        return any(each.fits(total) for each, total in self._sums)

    @property
    def spent(self) -> tuple[float, float]:
        """The smallest epsilon of a budget with the same delta that would have allowed this; rounded up.

        Where no such budget has this delta, as what was paid may pass a cap that is renewed: the sums of
        epsilons and of deltas.
        """
        delta = self.cap.delta
        found = [
            (written_up(one.enough(total[0], delta)), written_up(total[1] if i == 0 else delta))
            for i, (one, total) in enumerate(self._sums)
            if total[1] <= one.limit[1]
        ]
        epsilons, deltas = self.totals[0]
        return min(found, default=(written_up(epsilons), min(1.0, written_up(deltas))))

    @property
    def left(self) -> Unspent:
        """An epsilon and a delta that the next question may surely have, and the share that is left."""
        left, share = [(Fraction(0), Fraction(0))], Fraction(0)
        for each, total in self._sums:
            if not each.fits(total):
                continue
            first, second = (limit - t for limit, t in zip(each.limit, total, strict=True))
            left.append((each.epsilon(first), second))
            share = max(share, 1 - each.used(total))
        return Unspent(*max(left), share)

    def _ways(self, share: Fraction) -> list[Way]:
        """Return how a question may take a share: by sums of which the least is used up.

        Raises:
            BudgetError: less is left.
        """
        used = [each.used(total) for each, total in self._sums]
        least = min(used)
        if least + share > 1:
            left = max(1 - least, Fraction(0))
            raise BudgetError(
                f"share={_share(share)} is more than is left of {self.called}: "
                + (f"write share={told(left)} or less" if left else "nothing is left")
            )
        return [each.way(share) for (each, _), part in zip(self._sums, used, strict=True) if part == least]

    def refusal(self, asked: Spent, epsilon: Any, delta: Any) -> BudgetError:
        """Say what is lacking, where sums are of what was asked for; else what may be asked.

        Args:
            asked: what does not fit.
            epsilon, delta: the same as they were given.
        """
        if len(self.totals) > 1:
            return BudgetError(self._refused(asked))
        name, given, value, place = "epsilon", epsilon, asked.epsilon, 0
        (limit,), (total,) = (each.limit for each in self.cap.filters), self.totals
        if total[0] + value <= limit[0]:
            name, given, value, place = "delta", delta, asked.delta, 1
        over = max(limit[place] - total[place], Fraction(0))
        number = told(given) if isinstance(given, Fraction) else shown(given)
        return BudgetError(
            f"{name}={number} is more than is left of {self.called}: {told(over)}, "
            f"so that {round_up(value - limit[place] + total[place]):g} is lacking"
        )

    def _refused(self, asked: Spent) -> str:
        """Say what is lacking, and what a question may still ask for; in short, as it is read in a hurry."""
        left, with_delta = self.left, f" with delta={round_up(asked.delta):.6g}" * (asked.delta > 0)
        first = f"epsilon={round_up(asked.epsilon):.6g}{with_delta} is more than is left of {self.called}"
        if not left.epsilon:
            return f"{first}: nothing is left for a question"
        pairs = ("epsilon", asked.epsilon - left.epsilon), ("delta", asked.delta - left.delta)
        lacking = " and ".join(f"{name}={round_up(over):.6g}" for name, over in pairs if over > 0)
        can = f"a question may still ask for epsilon={told(left.epsilon)} and delta={told(left.delta)}"
        second = f", {lacking} too much" if lacking else ""
        tighter = ". composition='adding' leaves all of the budget's delta to questions, and not half"
        return f"{first}{second}; {can}" + (tighter if asked.delta > left.delta else "")

    @property
    def _sums(self) -> list[tuple[PrivacyFilter, tuple[Fraction, Fraction]]]:
        return list(zip(self.cap.filters, self.totals, strict=True))


def _share(share: Fraction) -> str:
    """Return a share as people write it, such as 1/60 or 0.05."""
    decimal = f"{float(share):.6g}"
    return decimal if Fraction(decimal) == share else str(share)


def told(number: Fraction) -> str:
    """Return a number in six digits; in all of a float's where these would be more than it is."""
    text = f"{round_down(number):g}"
    return text if Fraction(text) <= number else repr(round_down(number))
