"""Payment of releases: the charge to a budget before a row is read, its record in a journal, and the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, reduce
from operator import add
from typing import Any

from sfumato.budget import Budget
from sfumato.budget.ledger import Entry, LedgerBudget, PriorAnswer
from sfumato.errors import ParameterError, SfumatoError
from sfumato.plan.plan import Described, certify_plans, sum_costs
from sfumato.query.engine_protocol import Evaluator
from sfumato.query.query import Query

# Gives the canonical form of what is asked, for the journal of a ledger.
CanonicalForm = Callable[[], Mapping[str, Any]]
# Gives all that an answer depends on but the data, by which it is known again; None where it is not.
QuestionKey = Callable[[], Mapping[str, Any] | None]

LOG = logging.getLogger("sfumato.budget")
NOT_CHARGED = "This release is not charged to a budget, so nothing tracks the total privacy loss."
NO_BUDGET = f"{NOT_CHARGED} Pass budget=sf.Budget(epsilon=...) to track and cap it."


_NEW = PriorAnswer(None)


class Charge:
    """The charge of a release to a ledger, and the record of its outcome in the journal.

    Args:
        budget: that paid.
        entry: of the ledger.
        again: what its journal knows of the question; with an answer, where that is given once more and the
            entry is the one that paid for it then.
    """

    def __init__(self, budget: LedgerBudget, entry: Entry, again: PriorAnswer = _NEW) -> None:
        self.budget = budget
        self.entry = entry
        self.again = again
        self._recorded = "" if again.body is None else "answered"

    def record(self, kind: str, **said: Any) -> None:
        """Record the outcome of the charge in the journal: "answered", "failed" or "handed".

        A journal that cannot be written now takes no answer away that is paid: without an outcome the
        question counts as one that failed, and stays spent. That is in the log.
        """
        if self._recorded in ("answered", kind):
            return
        self._recorded, written = kind, False
        with suppress(SfumatoError):
            self.budget._record_outcome(self.entry, kind, **said)
            written = True
        if not written:
            LOG.warning("the outcome of entry %d of the ledger could not be written there", self.entry.number)


@contextmanager
def journaled(paid: Sequence[Charge], **said: Any) -> Iterator[None]:
    """Record the outcome of what is done within for all charges: failed, or answered with facts."""
    try:
        yield
    except Exception as error:
        for one in paid:
            one.record("failed", error=type(error).__name__)
        raise
    for one in paid:
        one.record("answered", **said)


# Called once, by what is about to read; it raises where the budget has too little left. It returns what a
# ledger has entered for it: one entry, of looks that were paid by themselves one more each.
ChargeBudget = Callable[[], tuple[Charge, ...]]


def no_charge() -> tuple[Charge, ...]:
    """Charge nothing: it is paid already, or the rows are made up."""
    return ()


def no_budget() -> tuple[Charge, ...]:
    """Charge nothing, as there is no budget, and warn about that once in this process.

    In the log, which Python shows on stderr where a program sets up none: a warning would stop programs that
    take warnings for errors, and a sentence in each explanation would soon be read no more.
    """
    _say_once()
    return ()


@cache
def _say_once() -> None:
    LOG.warning("%s", f"{NO_BUDGET} (This warning is shown once.)")


def check_budget(budget: object) -> None:
    """Refuse an argument `budget` that is no budget to charge.

    Raises:
        ParameterError: budget is none.
    """
    if not isinstance(budget, Budget | None):
        raise ParameterError("budget", budget, "a Budget, such as sf.Budget(epsilon=3, delta=1e-6)")


def payment(
    budget: Budget | None,
    plans: Sequence[Described],
    what: str,
    *,
    form: CanonicalForm | None = None,
    same: QuestionKey | None = None,
    made_up: bool = False,
) -> ChargeBudget:
    """Certify releases, and return the function that charges the budget for all of them or none.

    This is the only way to pay, and every release passes here, also where no budget pays.

    Args:
        budget: that pays; or None.
        plans: of the releases; what is asked beside them is paid too.
        what: in a few words.
        form: the canonical form of all that is asked.
        same: by what a ledger's journal knows the answer again, which then costs nothing.
        made_up: whether all rows are made up, of which nothing need be paid.
    Raises:
        ParameterError: budget is none.
        RefusalError: the certificate of the releases is refused.
    """
    check_budget(budget)
    certify_plans(plans)
    if made_up:
        return no_charge
    if budget is None:
        return no_budget
    (epsilon, delta), loss = sum_costs(plans), reduce(add, (plan.charge for plan in plans))

    def pay() -> tuple[Charge, ...]:
        if not isinstance(budget, LedgerBudget):
            budget.spend(epsilon, delta, loss=loss, what=what)
            return ()
        asked = None if same is None else same()
        again = _NEW if asked is None else budget._repeat_answer(asked)
        if again.body is not None:
            return (Charge(budget, budget._entry(again.entry or 0), again),)
        plan = None if form is None else form()
        return (Charge(budget, budget.spend(epsilon, delta, loss=loss, what=what, plan=plan), again),)

    return pay


def question_key(
    form: CanonicalForm, engines: Sequence[Evaluator], queries: Sequence[Query] = ()
) -> QuestionKey:
    """Return the function that gives the key by which a journal recognizes a paid query.

    Args:
        form: the canonical form of what is asked.
        engines: of all tables that are read.
        queries: whose noisy numbers are kept under names of columns, which the canonical form does not have.
    """

    def same() -> Mapping[str, Any] | None:
        from sfumato import __version__  # noise that follows from a plan may be another in another version

        places = [engine.addresses for engine in engines]
        if None in places:
            return None
        named = [[name, list(asked.columns)] for query in queries for name, asked in query.aggregates]
        return {"asks": form(), "places": places, "columns": named, "version": __version__}

    return same


QUERY_LOG = logging.getLogger("sfumato.query")
QUERY_LOG.addHandler(logging.NullHandler())
_silent = ContextVar("looks", default=False)


def log_planned(engine: str, aggregates: int, **cost: Any) -> None:
    """Log that a release is planned and what it costs.

    Args:
        engine: on which it will run.
        aggregates: how many are asked.
        cost: epsilon and delta that it stays within, or its share of a budget.
    """
    with suppress(Exception):
        told = ", ".join(f"{name}={float(value):.6g}" for name, value in cost.items())
        QUERY_LOG.info("planned: aggregates=%d, %s, on %s", aggregates, told, engine)


def log_answered(engine: str, seconds: float) -> None:
    """Log that a paid query is answered, and how long it took.

    Args:
        engine: on which it ran.
        seconds: from the first look to the last number.
    """
    if not _silent.get():
        with suppress(Exception):
            QUERY_LOG.info("answered in %.3f s, on %s", seconds, engine)


@contextmanager
def without_log() -> Iterator[None]:
    """Keep the answers to preliminary queries out of the log."""
    before = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(before)
