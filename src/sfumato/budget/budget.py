"""One budget for many questions, of which later ones may depend on earlier answers, and its account."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from sfumato.budget.epsilon_delta import admissible_delta, admissible_epsilon
from sfumato.budget.filters import PrivacyFilter, Spent, Way, privacy_filters
from sfumato.budget.loss import Loss
from sfumato.dataclass import dataclass
from sfumato.display.cards import Card, Displayed, Facts, Rows
from sfumato.display.formatting import Spelled, exact, format_fields
from sfumato.errors import BudgetError, ParameterError, shown
from sfumato.exact import one_of, round_down, round_up, written_up
from sfumato.names import SuggestingArguments, foreign_names, suggest_arguments
from sfumato.ownership import Owned, Turn

if TYPE_CHECKING:
    from sfumato.budget.ledger.ledger_entries import Entry


COMPOSITIONS = ("tight", "adding")
_MIN_DELTA = Fraction(1, 2**1800)  # the bounds of Gaussian noise go no further
_LARGEST_EPSILON = 10**300  # floats tell no larger ones
_MAX_EPSILON = 1000  # which protects nobody, however it is composed

Totals = tuple[tuple[Fraction, Fraction], ...]


class Unspent(NamedTuple):
    """What is left of an account, as exact fractions; `Remaining` has the same as floats.

    `Ledger.accounts` returns it in each account.

    Args:
        epsilon, delta: amounts that the next query can surely spend.
        share: the share of the cap that is left.
    """

    epsilon: Fraction
    delta: Fraction
    share: Fraction

    def __repr__(self) -> str:
        return format_fields(self, self._fields)


@dataclass(frozen=True, repr=False)
class Cap(Spelled):
    """The total epsilon and delta of a budget, and the composition that adds up its queries.

    Used by `Ledger.accounts`, whose example shows what a cap leaves.

    Args:
        epsilon, delta: as for `Budget`.
        composition: "tight" or "adding".
    """

    epsilon: Fraction
    delta: Fraction
    composition: str

    @classmethod
    def _check(cls, epsilon: Any, delta: Any, composition: str) -> Self:
        """Return the cap of a budget from a user's epsilon, delta and composition.

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
    def _filters(self) -> tuple[PrivacyFilter, ...]:
        """The privacy filters of a budget's cap with their limits, which take milliseconds to find."""
        bounded = self.delta >= _MIN_DELTA and self.epsilon <= _MAX_EPSILON
        return privacy_filters(self.epsilon, self.delta, self.composition == "tight" and bounded)


@dataclass(frozen=True)
class Account:
    """A budget's cap, and the totals that its privacy filters have added up.

    Args:
        cap: the cap of the budget.
        totals: the total of each filter.
        called: the name of the account in messages.

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
    def _empty(cls, cap: Cap, name: str = "the budget") -> Self:
        """Return the account of a budget from which nothing was spent."""
        return cls(cap, ((Fraction(0), Fraction(0)),) * len(cap._filters), name)

    def _after(self, requested: Spent) -> Self:
        """Return a budget's account after one more query, whether or not the query fits."""
        prices = [each.price(requested) for each in self.cap._filters]
        pairs = zip(self.totals, prices, strict=True)
        return replace(self, totals=tuple((a + c, b + d) for (a, b), (c, d) in pairs))

    @property
    def _fits(self) -> bool:
        """Whether a budget's account is within the limit of at least one privacy filter."""
        return any(each.fits(total) for each, total in self._sums)

    @property
    def spent(self) -> tuple[float, float]:
        """The smallest epsilon of a budget with the same delta that would have allowed the spending.

        If no budget with this delta would have, because a renewed cap can be passed over time, it is the sums
        of epsilons and of deltas.
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
        """The epsilon and delta that the next query can surely spend, and the share that is left."""
        left, share = [(Fraction(0), Fraction(0))], Fraction(0)
        for each, total in self._sums:
            if not each.fits(total):
                continue
            first, second = (limit - t for limit, t in zip(each.limit, total, strict=True))
            left.append((each.epsilon(first), second))
            share = max(share, 1 - each.used(total))
        return Unspent(*max(left), share)

    def _ways(self, share: Fraction) -> list[Way]:
        """Return the ways in which a query can take a share of a budget: by its least used privacy filters.

        Raises:
            BudgetError: less is left.
        """
        used = [each.used(total) for each, total in self._sums]
        least = min(used)
        if least + share > 1:
            left = max(1 - least, Fraction(0))
            raise BudgetError(
                f"share={_share(share)} exceeds what is left of {self.called}: "
                + (f"write share={six_digits(left)} or less" if left else "nothing is left")
            )
        return [each.way(share) for (each, _), part in zip(self._sums, used, strict=True) if part == least]

    def _refusal(self, requested: Spent, epsilon: Any, delta: Any) -> BudgetError:
        """Return the error for a query that costs more than is left of a budget.

        Args:
            requested: what does not fit.
            epsilon, delta: the same as they were given.
        """
        if len(self.totals) > 1:
            return BudgetError(self._sums_refusal(requested))
        name, given, value, place = "epsilon", epsilon, requested.epsilon, 0
        (limit,), (total,) = (each.limit for each in self.cap._filters), self.totals
        if total[0] + value <= limit[0]:
            name, given, value, place = "delta", delta, requested.delta, 1
        over = max(limit[place] - total[place], Fraction(0))
        number = six_digits(given) if isinstance(given, Fraction) else shown(given)
        return BudgetError(
            f"{name}={number} exceeds what is left of {self.called}: {six_digits(over)} is "
            f"left, and {round_up(value - limit[place] + total[place]):g} more is needed"
        )

    def _sums_refusal(self, requested: Spent) -> str:
        """Return the refusal of a tight budget: what is missing, and what a query can still spend."""
        left, with_delta = self.left, f" with delta={round_up(requested.delta):.6g}" * (requested.delta > 0)
        first = f"epsilon={round_up(requested.epsilon):.6g}{with_delta} exceeds what is left of {self.called}"
        if not left.epsilon:
            return f"{first}: nothing is left for another query"
        pairs = ("epsilon", requested.epsilon - left.epsilon), ("delta", requested.delta - left.delta)
        lacking = " and ".join(f"{name}={round_up(over):.6g}" for name, over in pairs if over > 0)
        pair = f"epsilon={six_digits(left.epsilon)} and delta={six_digits(left.delta)}"
        can = f"a query can still spend {pair}"
        second = f" by {lacking}" if lacking else ""
        tighter = ". composition='adding' leaves all of the budget's delta to queries, instead of half"
        return f"{first}{second}; {can}" + (tighter if requested.delta > left.delta else "")

    @property
    def _sums(self) -> list[tuple[PrivacyFilter, tuple[Fraction, Fraction]]]:
        return list(zip(self.cap._filters, self.totals, strict=True))


def _share(share: Fraction) -> str:
    """Return a share of a budget as people write it, such as 1/60 or 0.05."""
    decimal = f"{float(share):.6g}"
    return decimal if Fraction(decimal) == share else str(share)


def six_digits(number: Fraction) -> str:
    """Return a number of a budget in six digits, or in as many as a float needs not to be more than it."""
    text = f"{round_down(number):g}"
    return text if Fraction(text) <= number else repr(round_down(number))


_MAX = 20  # questions that are shown

LOG = logging.getLogger("sfumato.budget")


class Remaining(NamedTuple):
    """What is left of a budget.

    `Budget.remaining` returns it.

    Args:
        epsilon: the epsilon that the next query can surely spend. With Gaussian noise it can perhaps spend
            more, or less at a delta of a percent and above.
        delta: the delta that the next query can spend with it.
        share: the share of the budget that is left, from 0 to 1.
    """

    epsilon: float
    delta: float
    share: float


class Budget(SuggestingArguments, Displayed, Owned):
    """A total (epsilon, delta) for many queries, which cannot be overspent.

    Each query and its cost may depend on all earlier answers. A query that does not fit is refused at no
    charge, before anything is read. Several threads may use a budget, but only in the process that made it;
    it cannot be copied.

    Args:
        epsilon: the total, greater than 0. A float means the number as written: ten times 0.1 is 1.
        delta: the total, in [0, 1).
        composition: "tight" also adds up losses in zero-concentrated and in Gaussian DP, so that many small
            queries cost less than the sum of their epsilons; queries can name half of the delta. "adding"
            adds epsilons and deltas, and queries can name all of the delta. With delta 0 both are the same.
    Raises:
        BudgetError: epsilon or delta is out of range.
        ParameterError: the composition does not exist.

    >>> budget = Budget(epsilon=1)
    >>> budget.spend("0.75")
    >>> budget.remaining
    Remaining(epsilon=0.25, delta=0.0, share=0.25)
    >>> budget.spend("0.5")
    Traceback (most recent call last):
    sfumato.errors.BudgetError: epsilon='0.5' exceeds what is left of the budget: 0.25 is left, and 0.25...

    Source:
        docs/proofs/budget.md, after Rogers, Roth, Ullman and Vadhan 2016; Feldman and Zrnic 2021; Smith and
        Thakurta 2022; Whitehouse, Ramdas, Rogers and Wu 2023.
    """

    _foreign = foreign_names.BUDGET
    _elsewhere = "spending in two places would be counted in neither. Give each place a budget of its own"
    _refusal = BudgetError

    @suggest_arguments
    def __init__(self, epsilon: Any, delta: Any = 0, *, composition: str = "tight") -> None:
        self._account = Account._empty(Cap._check(epsilon, delta, composition))
        self._history: list[Spent] = []
        self._turn = Turn()

    @property
    def total(self) -> tuple[float, float]:
        """The total epsilon and delta of the budget."""
        cap = self._accounts()[-1].cap
        return float(cap.epsilon), float(cap.delta)

    @property
    def history(self) -> tuple[Spent, ...]:
        """The queries charged to the budget, in order."""
        return tuple(self._history)

    @property
    def spent(self) -> tuple[float, float]:
        """An (epsilon, delta) that bounds the loss of all queries of this budget so far, rounded up.

        It is the smallest epsilon of a budget with the same delta that would have allowed these queries. The
        guarantee that includes later queries is `total`.
        """
        return self._accounts()[-1].spent

    @property
    def remaining(self) -> Remaining:
        """What is left of the budget, rounded down."""
        return Remaining(*map(round_down, self._left()))

    def spend(
        self,
        epsilon: Any,
        delta: Any = 0,
        *,
        loss: Loss | None = None,
        what: str = "a question",
        plan: Mapping[str, Any] | None = None,
    ) -> Entry | None:
        """Charge one query to the budget; releases do this themselves.

        Args:
            epsilon, delta: a bound on the loss of the query.
            loss: the loss of its noise, if more is known than epsilon and delta; both must be true.
            what: a short description, for `history`.
            plan: the query in canonical form, for the journal of a ledger; other budgets do not keep it.
        Returns:
            The entry of the ledger that keeps the budget, or None without a ledger.
        Raises:
            BudgetError: the amount is out of range or more than is left, or this is not the process that made
                the budget; nothing is spent then.
            ParameterError: `loss` or `plan` has the wrong type.
            RefusalError: it is called in the middle of another query, as from a signal handler.
        """
        self._check_home()
        eps, dlt = admissible_epsilon(epsilon), admissible_delta(delta)
        if not isinstance(loss, Loss | None):
            raise ParameterError("loss", type(loss).__name__, "a Loss of sfumato.budget, or left out")
        if not isinstance(plan, Mapping | None):
            raise ParameterError("plan", type(plan).__name__, "the canonical form of a plan, or left out")
        asked = Spent(str(what), eps, dlt, loss or Loss(approximate=((eps, dlt, 1),)))
        with self._turn():
            entry = self._charge(asked, epsilon, delta, plan)
        with suppress(Exception):  # of a handler: what is spent is spent
            LOG.info("spent epsilon=%.6g, delta=%.6g", eps, dlt)
        return entry

    def _ways(self, share: Fraction) -> list[Way]:
        """Return the ways in which a query can take a share of this budget.

        Once a question has taken a share by one of them, so do those after it: their shares add up.

        Args:
            share: greater than 0 and at most 1.
        Raises:
            BudgetError: less is left.
        """
        return self._accounts()[-1]._ways(share)

    # What a budget that is kept elsewhere does in its own way.

    def _accounts(self) -> tuple[Account, ...]:
        """Return all accounts that a query must fit; the last one is the budget's own."""
        return (self._account,)

    def _charge(
        self, requested: Spent, epsilon: Any, delta: Any, plan: Mapping[str, Any] | None
    ) -> Entry | None:
        """Charge a query to the budget's account, or refuse it and quote epsilon and delta as given."""
        after = self._account._after(requested)
        if not after._fits:
            raise self._account._refusal(requested, epsilon, delta)
        self._account = after
        self._history.append(requested)
        return None

    def _left(self) -> Unspent:
        """Return what every account of the budget has left."""
        return Unspent(*map(min, zip(*(account.left for account in self._accounts()), strict=True)))

    def _card(self) -> Card:
        cap, left, (epsilon, delta) = self._accounts()[-1].cap, self.remaining, self.spent
        facts = [
            ("in all", f"epsilon {exact(cap.epsilon)}, delta {exact(cap.delta)}"),
            ("spent", f"within {_price(epsilon, delta)}"),
            ("left", f"{left.share:.1%}; a query can spend {_price(left.epsilon, left.delta)}"),
        ]
        paid = [[one.what, exact(one.epsilon), exact(one.delta)] for one in self.history[-_MAX:]]
        more = f"The last {_MAX} of {len(self.history):,} questions." if len(self.history) > _MAX else ""
        rows = Rows(["paid for", "epsilon", "delta"], paid, beyond=more) if paid else None
        return Card(self._title, [Facts(facts), rows])

    @property
    def _title(self) -> str:
        return "Budget of all queries together"

    def __repr__(self) -> str:
        left = self._left()
        cap = self._account.cap
        return (
            f"<Budget of epsilon={six_digits(cap.epsilon)}, delta={six_digits(cap.delta)}: "
            f"{float(left.share):.1%} left, a query can spend epsilon={six_digits(left.epsilon)}>"
        )


def _price(epsilon: float, delta: float) -> str:
    return f"epsilon {epsilon:.6g}, delta {delta:.6g}"
