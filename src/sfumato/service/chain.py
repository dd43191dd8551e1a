"""A question that came as calls of a chain: made on tables of a catalog, by methods that are named here.

Nothing else can be called, and no value comes in that could read a file or be code: what is given are
numbers, texts, dates, lists, aggregates and tables of the catalog. What these methods do not take they refuse
themselves, in words; anything else that comes out of them is a fault of ours, and told as one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.budget import Budget
from sfumato.budget.parameters import admissible_epsilon
from sfumato.dataclass import dataclass
from sfumato.errors import QueryError, nearest, shown
from sfumato.query.aggregates import FUNCTIONS
from sfumato.query.largest_groups import Top
from sfumato.query.payment import payment
from sfumato.query.question import Question
from sfumato.query.table import Table
from sfumato.query.tables.public_table import PublicTable
from sfumato.service.opened import AnalystsCatalog
from sfumato.service.recorded import Reading

OF_TABLES = (
    *("filter", "with_columns", "join", "union", "per_unit", "sql"),
    *("group_by", "totals", "bound", "agg", "top"),
)
OF_PUBLIC = ("filter", "with_columns")
OF_QUESTIONS = ("weigh",)
_METHODS: tuple[tuple[type, str, tuple[str, ...]], ...] = (
    (Table, "a table", OF_TABLES),
    (PublicTable, "a public table", OF_PUBLIC),
    (Question, "a question", OF_QUESTIONS),
    (Top, "a question for the largest groups", ()),
)
_AGGREGATES = {function.__name__: function for function in FUNCTIONS}
OF_RELEASE = (
    *("epsilon", "delta", "noise", "group_selection", "pre_threshold"),
    *("diagnostics", "auto_share", "sampling"),
)
OF_TOP = ("epsilon", "delta", "counts", "counts_share")
_HERE = {
    "budget": "the service pays with your budget there; leave it out",
    "unsafe_words": "a service draws its noise itself; leave it out",
    "share": "a share is of a budget in this process; write epsilon=..., such as a part of clinic.remaining",
    "confidence": "it stands beside the options, as a field of the request",
}


@dataclass(frozen=True)
class AskedByChain:
    """A question, with what was chosen for its release; nothing is read or spent yet.

    Args:
        question: of a chain.
        release_options: of its `release`.
    """

    question: Question[Any] | Top
    release_options: Mapping[str, Any]
    confidence: float = 0.95  # as of a text that names none

    @property
    def questions(self) -> tuple[Any, ...]:
        """It, as the only one."""
        return (self.question,)

    @property
    def queries(self) -> tuple[Any, ...]:
        """It, as what has its options."""
        return (self,)

    @property
    def epsilon(self) -> Any:
        """The budget's epsilon, as it was given."""
        return self.release_options["epsilon"]

    @property
    def delta(self) -> Any:
        """The budget's delta, as it was given."""
        return self.release_options.get("delta", 0)

    @property
    def looks(self) -> bool:
        """Whether a release looks at rows before it is planned."""
        return isinstance(self.question, Question) and self.question.automatic

    def trial(self) -> Any:
        """Return the release that nobody pays for: to see what it would be, and never to be drawn."""
        question = self.question
        if isinstance(question, Top):
            return question._engine.top(question.plan(**self.release_options))
        return question._engine.release(question._checked_plan(**self.release_options))

    def pay_for(self, trial: Any, budget: Budget) -> Any:
        """Pay for what `trial` gave, where nothing looks first, and return it: now it may be drawn.

        Raises:
            BudgetError: it is more than is left; nothing is spent then.
        """
        made_up = self.question._engine.made_up
        pay = payment(budget, [trial.plan], self.question.told, form=trial.canonical, made_up=made_up)
        trial._paid = pay()
        return trial

    def release(self, budget: Budget) -> Any:
        """Pay, look and release."""
        return self.question.release(**self.release_options, budget=budget)


def asked_by_chain(
    data: Any, options: Any, catalog: AnalystsCatalog, limits: Mapping[str, Any]
) -> AskedByChain:
    """Return the question that a chain of calls asks; no row is read.

    Args:
        data: the chain, as `recorded.py` writes it.
        options: of `release`, as what JSON has.
        catalog: the tables.
        limits: `memory_limit`, `threads` and `temp_directory`.
    Raises:
        QueryError: the chain has a call that is not admitted; or as from the methods themselves.
    """
    tables: dict[tuple[str, str], Any] = {}

    def opened(kind: str, name: str) -> Any:
        if (kind, name) not in tables:  # a table is the same, however often it is named
            tables[kind, name] = (catalog.table if kind == "table" else catalog.public)(name, **limits)
        return tables[kind, name]

    reading = Reading(opened, _called, _aggregate)
    question = reading.chain(data)
    if not isinstance(question, (Question, Top)):
        raise QueryError("chain: it ends with agg(...) or top(...), which ask for something")
    admitted = OF_TOP if isinstance(question, Top) else OF_RELEASE
    given: dict[str, Any] = {}
    for name, value in options.items():
        if name not in admitted:
            raise _unknown("release", name, admitted, _HERE)
        given[name] = reading.value(value)
    admissible_epsilon(given.setdefault("epsilon", None))  # which has no default at a service
    return AskedByChain(question, given)


def _called(of: Any, name: str, args: list[Any], named: dict[str, Any]) -> Any:
    kind, methods = next((kind, names) for one, kind, names in _METHODS if isinstance(of, one))
    if name not in methods:
        raise _unknown(kind, name, methods, {})
    return getattr(of, name)(*args, **named)


def _aggregate(name: str, args: list[Any], named: dict[str, Any]) -> Any:
    if name not in _AGGREGATES:
        raise _unknown("an aggregate", name, _AGGREGATES, {})
    return _AGGREGATES[name](*args, **named)


def _unknown(kind: str, name: str, known: Any, advice: Mapping[str, str]) -> QueryError:
    near = nearest(name, known)
    hint = advice.get(name) or (f"did you mean {near}?" if near else f"there are: {', '.join(known)}")
    return QueryError(f"chain: {kind} has no {shown(name)} here; {hint}")
