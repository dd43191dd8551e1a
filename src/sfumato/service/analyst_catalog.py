"""A catalog as analysts meet it, and questions to its tables that came as calls of a chain.

Tables admit releases alone, and no word has the path of a file. Of a chain only the methods named here can be
called, and no value comes in that could read a file or be code: what is given are numbers, texts,
dates, lists, aggregates and tables of the catalog. What these methods do not take they refuse themselves, in
words; anything else that comes out of them is a fault of ours, and told as one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sfumato.api.largest_groups import Top
from sfumato.api.question import Question
from sfumato.api.table import Table
from sfumato.budget import Budget
from sfumato.budget.epsilon_delta import admissible_epsilon
from sfumato.catalogs.declarations import TableDeclaration
from sfumato.catalogs.declared_table import DeclaredTable
from sfumato.dataclass import dataclass
from sfumato.engines.catalog import Catalog
from sfumato.errors import CatalogError, QueryError, nearest, shown
from sfumato.query.aggregates import FUNCTIONS
from sfumato.query.tables.combined_tables import UNIT_ROWS
from sfumato.query.tables.public_table import PublicTable
from sfumato.release.payment import payment
from sfumato.service.answer_formats import plain
from sfumato.service.wire_format import Reading

_NAME = "catalog"  # in the place of the path of its file, which explanations and errors would show


@dataclass(frozen=True)
class AnalystsCatalog(Catalog):
    """The catalog that analysts of a service see: its tables allow releases and nothing exact."""

    @classmethod
    def from_catalog(cls, catalog: Catalog) -> AnalystsCatalog:
        """Return the same catalog for analysts.

        Raises:
            CatalogError: private tables have units of several kinds, whose losses one budget cannot add up.
        """
        tables = {
            # What nobody limits, an analyst could set to a hundred times as much.
            name: replace(table, catalog=_NAME, max_joined_rows=table.max_joined_rows or UNIT_ROWS)
            for name, table in catalog.tables.items()
        }
        made = cls(_NAME, tables)
        kinds = {made.unit_kind(name): name for name, table in tables.items() if not table.public}
        if len(kinds) > 1:
            one, other = list(kinds.values())[:2]
            raise CatalogError(
                f"{catalog.name}: the privacy units of {one} and {other} are made of different "
                "parts, so their losses do not add up in one budget. Give each kind a catalog, and a "
                "service, of its own"
            )
        return made

    def unit_kind(self, name: str) -> tuple[str, ...]:
        """Return the parts of a private table's privacy unit; () if it is a single column."""
        table = self.declaration(name)
        while table.foreign_key is not None:
            table = self.declaration(table.foreign_key.table)
        return (*sorted(table.unit_parts), table.unit_timezone) if table.unit_parts else ()

    def table(self, name: str, **limits: Any) -> DeclaredTable[Any]:
        """Open a private table of the analysts' catalog, for releases only; see `Catalog.table`."""
        table = super().table(name, **limits)
        return replace(table, _engine=table._engine.for_analysts())

    def described(self, **limits: Any) -> list[dict[str, Any]]:
        """Return the public facts about all catalog tables as JSON data; no row is read.

        Raises:
            CatalogError, EngineError: as from `Catalog.table`.
        """
        return [self._described(table, limits) for table in self.tables.values()]

    def _described(self, declared: TableDeclaration, limits: Mapping[str, Any]) -> dict[str, Any]:
        opened: Any = (self.public if declared.public else self.table)(declared.name, **limits)
        columns = []
        for name, column in opened.schema.items():
            described: dict[str, Any] = {"name": name, "type": column.type_name, "missing": column.missing}
            bounds, domain = declared.bounds(name), declared.domains([name])
            if bounds is not None:
                described |= {"lower": _exact(bounds[0]), "upper": _exact(bounds[1])}
            if domain is not None:
                described["domain"] = plain(domain[0])
            columns.append(described)
        described = {"name": declared.name, "public": declared.public, "columns": columns}
        described |= {"notes": list(opened.notes)}
        if not declared.public:
            parts = [part.text for part in opened._unit_parts]
            described |= {"privacy_unit": opened.unit, "privacy_unit_parts": parts}
            described |= {"unit_timezone": declared.unit_timezone, "foreign_key": _key(declared)}
            described |= {"timezone": declared.timezone}
            described |= {"max_groups": declared.max_groups, "max_rows": declared.max_rows}
            described |= {"max_joined_rows": declared.max_joined_rows}
        return described


def _key(declared: TableDeclaration) -> dict[str, str] | None:
    """Return the foreign key by which a catalog table reaches its privacy unit; None if it has its own."""
    key = declared.foreign_key
    return None if key is None else {"column": key.column, "table": key.table, "key": key.key}


def _exact(number: Fraction) -> str:
    """Return a catalog bound as exact text: a whole number or a quotient."""
    return str(number)


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
    (Top, "a query for the largest groups", ()),
)
_AGGREGATES = {function.__name__: function for function in FUNCTIONS}
OF_RELEASE = (
    *("epsilon", "delta", "noise", "group_selection", "pre_threshold"),
    *("diagnostics", "auto_share", "sampling", "nonnegative"),
)
OF_TOP = ("epsilon", "delta", "counts", "counts_share")
_HERE = {
    "budget": "the service charges your budget there. Leave it out",
    "unsafe_words": "a service draws its noise itself. Leave it out",
    "share": "a share is for a budget in this process. Write epsilon=..., such as a part of clinic.remaining",
    "confidence": "it is not an option, but a field of the request",
}


@dataclass(frozen=True)
class ChainQuery:
    """An analyst's query by a chain of calls, with its release options; nothing is read or charged yet.

    Args:
        question: of a chain.
        release_options: of its `release`.
    """

    question: Question[Any] | Top
    release_options: Mapping[str, Any]
    confidence: float = 0.95  # as of a text that names none

    @property
    def questions(self) -> tuple[Any, ...]:
        """The one question of the analyst's chain, as a tuple."""
        return (self.question,)

    @property
    def queries(self) -> tuple[Any, ...]:
        """The one query with release options of the analyst's chain, as a tuple."""
        return (self,)

    @property
    def epsilon(self) -> Any:
        """The epsilon of the analyst's chain query, as given."""
        return self.release_options["epsilon"]

    @property
    def delta(self) -> Any:
        """The delta of the analyst's chain query, as given."""
        return self.release_options.get("delta", 0)

    @property
    def needs_preliminary_queries(self) -> bool:
        """Whether the analyst's chain query infers bounds from rows before it is planned."""
        return isinstance(self.question, Question) and self.question.automatic

    def trial(self) -> Any:
        """Return the uncharged release of an analyst's chain query, to plan with and never to draw."""
        question = self.question
        if isinstance(question, Top):
            return question._engine.top(question.plan(**self.release_options))
        return question._engine.release(question._check_plan(**self.release_options))

    def charge_for(self, trial: Any, budget: Budget) -> Any:
        """Charge the budget for a `trial` release of a chain query and return it, now drawable.

        Raises:
            BudgetError: it is more than is left; nothing is spent then.
        """
        made_up = self.question._engine.made_up
        pay = payment(budget, [trial.plan], self.question.title, form=trial.canonical, made_up=made_up)
        trial._paid = pay()
        return trial

    def release(self, budget: Budget) -> Any:
        """Charge the analyst's budget, infer bounds if needed, and release the chain query."""
        return self.question.release(**self.release_options, budget=budget)


def read_chain_query(
    data: Any, options: Any, catalog: AnalystsCatalog, limits: Mapping[str, Any]
) -> ChainQuery:
    """Return the query in an analyst's chain of calls, if every call is allowed; no row is read.

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

    reading = Reading(opened, _call_method, _aggregate)
    question = reading.chain(data)
    if not isinstance(question, (Question, Top)):
        raise QueryError("chain: it must end with agg(...) or top(...)")
    admitted = OF_TOP if isinstance(question, Top) else OF_RELEASE
    given: dict[str, Any] = {}
    for name, value in options.items():
        if name not in admitted:
            raise _unknown("release", name, admitted, _HERE)
        given[name] = reading.value(value)
    admissible_epsilon(given.setdefault("epsilon", None))  # which has no default at a service
    return ChainQuery(question, given)


def _call_method(of: Any, name: str, args: list[Any], named: dict[str, Any]) -> Any:
    """Call a method of a table or question, if analysts are allowed to."""
    kind, methods = next((kind, names) for one, kind, names in _METHODS if isinstance(of, one))
    if name not in methods:
        raise _unknown(kind, name, methods, {})
    return getattr(of, name)(*args, **named)


def _aggregate(name: str, args: list[Any], named: dict[str, Any]) -> Any:
    """Call an aggregate function, if analysts are allowed to."""
    if name not in _AGGREGATES:
        raise _unknown("an aggregate", name, _AGGREGATES, {})
    return _AGGREGATES[name](*args, **named)


def _unknown(kind: str, name: str, known: Any, advice: Mapping[str, str]) -> QueryError:
    near = nearest(name, known)
    hint = advice.get(name) or (f"did you mean {near}?" if near else f"there are: {', '.join(known)}")
    return QueryError(f"chain: {kind} has no {shown(name)} here; {hint}")
