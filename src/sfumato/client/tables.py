"""Tables and questions of a service: checked and planned here, on what is declared, and released there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, Protocol

from sfumato.client.released import Asked, RemoteRelease
from sfumato.display.card import Card
from sfumato.display.displayed import Displayed
from sfumato.errors import BudgetError, QueryError
from sfumato.exact import Number
from sfumato.names import Helpful, foreign
from sfumato.query.aggregates import Aggregate
from sfumato.query.choices import Amount, BeyondChoice, NoiseChoice, SelectionChoice
from sfumato.query.previews.preview import Preview
from sfumato.query.question import Question
from sfumato.query.schema import Schema
from sfumato.query.table import Table
from sfumato.query.tables.combining import MOST_ROWS, JoinKind
from sfumato.query.tables.public_table import PublicTable
from sfumato.query.top.asked import Top
from sfumato.service.recorded import Recorded, SentCall, written

if TYPE_CHECKING:
    from sfumato.budget import Budget
    from sfumato.engines.catalog import Catalog
    from sfumato.query.plans.plan import Plan
    from sfumato.query.top.plan import TopPlan

_OF_OWNER = "exact numbers of rows are for their owner, beside them"
_ELSEWHERE = {
    "analyze": f"{_OF_OWNER}; preview(...) tells which errors to expect",
    "diagnose": "release(diagnostics=...) tells what limits and bounds change, beside the answer",
    "for_analysts": "a service admits releases alone",
}


class Service(Protocol):
    """What sends a question, and brings what comes of it."""

    def _release(self, question: Mapping[str, Any], confidence: float, **flags: bool) -> RemoteRelease: ...

    def _ask(self, question: Mapping[str, Any], units: Sequence[int], confidence: float) -> Asked: ...


@dataclass(frozen=True, repr=False)
class _Remote(Helpful, Displayed):
    """What is here of something at a service.

    Args:
        service: whose it is.
        recorded: the calls that made it.
    """

    service: Service
    recorded: Recorded

    def _next(
        self, name: str, args: Sequence[Any], named: Mapping[str, Any], on: Any
    ) -> tuple[Any, Recorded]:
        """Call a method of what is here, and write the call down.

        Returns:
            What it gave, and the recording.
        """
        method = getattr(on, name)
        defaults = {key: one.default for key, one in signature(method).parameters.items()}
        given = {key: one for key, one in named.items() if key not in defaults or one is not defaults[key]}
        made = method(*map(self._here, args), **{key: self._here(one) for key, one in given.items()})
        sent = {key: _sent(one) for key, one in given.items()}
        if isinstance(made, (Table, Top)) and not _plain(given.get("keys")):
            sent["keys"] = _rows(made.public_keys)
        call = SentCall.of(name, map(_sent, args), sent)
        return made, replace(self.recorded, calls=(*self.recorded.calls, call))

    def _here(self, value: Any) -> Any:
        """Return what stands here for a table of the same service."""
        if isinstance(value, (RemoteTable, RemotePublicTable)):
            if value.service is not self.service:
                raise QueryError("the tables are of two services; a question is asked of one")
            return value.local
        if isinstance(value, (Table, PublicTable)):
            raise QueryError(
                "a table of this process cannot be sent to a service, which has its rows to itself; take one "
                "of its own, clinic.table(...) or clinic.public(...)"
            )
        if isinstance(value, Mapping):
            return {key: self._here(one) for key, one in value.items()}
        return value


@dataclass(frozen=True, repr=False)
class RemotePublicTable(_Remote):
    """A public table of a service, to be joined with private ones. Made by `Client.public`."""

    local: PublicTable = field(kw_only=True)

    @classmethod
    def opened(cls, service: Service, catalog: Catalog, name: str) -> RemotePublicTable:
        """Return a public table by its name."""
        local = catalog.public(name)
        return cls(service, Recorded("public", name), local=local)

    @property
    def schema(self) -> Schema:
        """The columns by name, with what is known of their types."""
        return self.local.schema

    def filter(self, expression: str) -> RemotePublicTable:
        """Keep the rows where a SQL expression of one row's columns is true, as `PublicTable.filter`."""
        return self._then("filter", expression)

    def with_columns(self, /, **expressions: str) -> RemotePublicTable:
        """Add or replace columns by SQL expressions, as `PublicTable.with_columns`."""
        return self._then("with_columns", **expressions)

    def _then(self, name: str, /, *args: Any, **named: Any) -> RemotePublicTable:
        local, recorded = self._next(name, args, named, self.local)
        return replace(self, recorded=recorded, local=local)

    def _card(self) -> Card:
        return self.local._card()

    def __repr__(self) -> str:
        return repr(self.local).replace("<PublicTable", f"<RemotePublicTable {self.recorded.name}")


@dataclass(frozen=True, repr=False)
class RemoteTable(_Remote):
    """A private table of a service; its methods are those of a table of `sf.catalog`. Made by `Client.table`.

    What is wrong with a call is said at once, of what the owner declares; nothing is sent before a release.
    """

    _foreign = foreign.TABLE | foreign.ASKED | _ELSEWHERE

    local: Table[Any] = field(kw_only=True)

    @classmethod
    def opened(cls, service: Any, catalog: Catalog, name: str) -> RemoteTable:
        """Return a private table by its name."""
        table = catalog.table(name)
        local = replace(table, notes=tuple(service.tables[name].get("notes", ())))
        return cls(service, Recorded("table", name), local=local)

    def _advice(self, name: str) -> Mapping[str, str]:
        return {**self.local._advice(name), **_ELSEWHERE} if "local" in vars(self) else self._foreign

    @property
    def schema(self) -> Schema:
        """The columns by name, with what is known of their types."""
        return self.local.schema

    @property
    def unit(self) -> str:
        """The privacy unit's column."""
        return self.local.unit

    @property
    def notes(self) -> tuple[str, ...]:
        """What whoever asks should know of the table."""
        return self.local.notes

    def filter(self, expression: str) -> RemoteTable:
        """Keep the rows where a SQL expression is true, as `Table.filter`."""
        return self._then("filter", expression)

    def with_columns(self, /, **expressions: str) -> RemoteTable:
        """Add or replace columns by SQL expressions of one row's columns, as `Table.with_columns`."""
        return self._then("with_columns", **expressions)

    def join(
        self,
        other: RemoteTable | RemotePublicTable,
        *,
        on: str | Sequence[str] | Sequence[tuple[str, str]] | Mapping[str, str],
        how: JoinKind = "inner",
        rows: int = MOST_ROWS,
        unit_rows: int | None = None,
    ) -> RemoteTable:
        """Put columns of another table of the service beside these, as `Table.join`."""
        return self._then("join", other, on=on, how=how, rows=rows, unit_rows=unit_rows)

    def union(self, other: RemoteTable) -> RemoteTable:
        """Add the rows of another private table of the service, as `Table.union`."""
        return self._then("union", other)

    def per_unit(self, /, *by: str, **aggregates: str) -> RemoteTable:
        """Make one row of all rows of a privacy unit, as `Table.per_unit`."""
        return self._then("per_unit", *by, **aggregates)

    def sql(
        self, text: str, *, tables: Mapping[str, RemoteTable | RemotePublicTable] | None = None
    ) -> RemoteTable:
        """Make a table by SQL in which each row follows from one privacy unit's rows, as `Table.sql`."""
        return self._then("sql", text, tables=tables)

    def group_by(self, *columns: str, keys: Any = None) -> RemoteTable:
        """Ask for each group of one or more columns, as `Table.group_by`; domains are public groups."""
        return self._then("group_by", *columns, keys=keys)

    def totals(self, *sets: Sequence[str], cube: bool = False, integer: bool = False) -> RemoteTable:
        """Ask for totals of public groups too, which agree with them, as `Table.totals`."""
        return self._then("totals", *sets, cube=cube, integer=integer)

    def bound(
        self,
        *,
        groups: int | Literal["auto"] | None = None,
        rows: int | Literal["auto"] | None = None,
        beyond: BeyondChoice | None = None,
        total_rows: int | None = None,
    ) -> RemoteTable:
        """Limit what one privacy unit contributes, as `Table.bound`."""
        return self._then("bound", groups=groups, rows=rows, beyond=beyond, total_rows=total_rows)

    def agg(self, /, *unnamed: Aggregate, **aggregates: Aggregate) -> RemoteQuestion:
        """Say what is asked of each group, as `Table.agg`; bounds that are left out are the catalog's."""
        local, recorded = self._next("agg", unnamed, aggregates, self.local)
        return RemoteQuestion(self.service, recorded, local=local)

    def top(
        self, *columns: str, k: int, by: Any = None, keys: Any = None, candidates: int | None = None
    ) -> RemoteTop:
        """Ask for the k largest groups, as `Table.top`."""
        named = {"k": k, "by": by, "keys": keys, "candidates": candidates}
        local, recorded = self._next("top", columns, named, self.local)
        return RemoteTop(self.service, recorded, local=local)

    def dummy(self, *, rows: int = 1_000, units: int | None = None, seed: int = 0) -> Table[Any]:
        """Return a table of this process of made-up rows with the same columns, as `Table.dummy`: free."""
        return self.local.dummy(rows=rows, units=units, seed=seed)

    def _then(self, name: str, /, *args: Any, **named: Any) -> RemoteTable:
        local, recorded = self._next(name, args, named, self.local)
        return replace(self, recorded=recorded, local=local)

    def _card(self) -> Card:
        return self.local._card()

    def __repr__(self) -> str:
        return repr(self.local).replace("<Table", f"<RemoteTable {self.recorded.name}")


@dataclass(frozen=True, repr=False)
class RemoteQuestion(_Remote):
    """A complete question to a service, validated here: it can be planned, previewed and released.

    Made by `RemoteTable.agg`, of a table that `connect` leads to.
    """

    _foreign = foreign.QUESTION | _ELSEWHERE

    local: Question[Any] = field(kw_only=True)

    @property
    def told(self) -> str:
        """What is asked, in a few words."""
        return self.local.told

    @property
    def automatic(self) -> bool:
        """Whether the question leaves something to its release, which looks at the rows first."""
        return self.local.automatic

    @property
    def output_names(self) -> tuple[str, ...]:
        """The output's columns after the keys."""
        return self.local.output_names

    def weigh(self, /, **weights: Number) -> RemoteQuestion:
        """Say how much what is asked matters, beside the rest, as `Question.weigh`."""
        local, recorded = self._next("weigh", (), weights, self.local)
        return replace(self, recorded=recorded, local=local)

    def plan(self, **options: Any) -> Plan:
        """Say what a release with these options would do and cost, as `Question.plan`; nothing is sent.

        Args:
            options: those of `Question.plan`.
        Returns:
            A `Plan`, as of `Question.plan`.
        """
        return self.local.plan(**options)

    def preview(
        self,
        *,
        epsilon: Amount | Sequence[Amount] | None = None,
        units: int | Sequence[int] = (100, 1_000, 10_000),
        rows: int = 1,
        confidence: float = 0.95,
        means: Mapping[str, Number] | None = None,
        share: Number | None = None,
        budget: Budget | None = None,
        **options: Any,
    ) -> Preview:
        """Say how wide error bars will be, and which groups are shown, as `Question.preview`.

        Nothing is sent. With `share`, `budget` is one of this process, such as `sf.Budget(epsilon=3)`; the
        preview's column `epsilon` says what to give to `release`.
        """
        return self.local.preview(
            epsilon=epsilon,
            units=units,
            rows=rows,
            confidence=confidence,
            means=means,
            share=share,
            budget=budget,
            **options,
        )

    def epsilon_for(
        self, *, units: int, rows: int = 1, confidence: float = 0.95, shown: float | None = None,
        means: Mapping[str, Number] | None = None, options: Mapping[str, Any] | None = None,
        **half_widths: Number,
    ) -> float:  # fmt: skip
        """Return about the smallest epsilon for error bars as narrow as asked, as `Question.epsilon_for`."""
        return self.local.epsilon_for(
            units=units,
            rows=rows,
            confidence=confidence,
            shown=shown,
            means=means,
            options=options,
            **half_widths,
        )

    def ask(
        self, *, units: Sequence[int] = (100, 1_000, 10_000), confidence: float = 0.95, **options: Any
    ) -> Asked:
        """Let the service say what it costs, what is left, and whether it would give an answer once more.

        Args:
            units, confidence: as of `Client.ask`.
            options: of `release`.
        Returns:
            An `Asked`.
        Raises:
            QueryError, BudgetError, RefusalError: as from `release`; nothing is read, and nothing spent.
            EngineError: the service does not answer.
        """
        return self.service._ask(self._sent(options), units, confidence)

    def release(
        self,
        *,
        epsilon: Amount | None = None,
        delta: Amount = 0,
        noise: NoiseChoice = "auto",
        group_selection: SelectionChoice = "auto",
        pre_threshold: int = 1,
        diagnostics: Number | None = None,
        auto_share: Amount | None = None,
        confidence: float = 0.95,
        simultaneous: bool = False,
        dummy: bool = False,
    ) -> RemoteRelease:
        """Let the service release the answer, and spend its cost of your budget there.

        Args:
            epsilon, delta, noise, group_selection, pre_threshold, diagnostics, auto_share: as of
                `Question.release`.
            confidence, simultaneous: of the error bars that come with it.
            dummy: ask rows that the service makes up, for free.
        Returns:
            The answer; the same question again is given once more, for nothing, where the owner has named the
            version of the data.
        Raises:
            QueryError, BudgetError, RefusalError: as beside the rows; nothing is spent then.
            EngineError: the service does not answer. Where it had the question, it may have spent its cost:
                `Client.history` tells.
        """
        if epsilon is None:
            raise BudgetError("epsilon is left out, but must be a finite number greater than 0")
        chosen: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "noise": noise}
        chosen |= {"group_selection": group_selection, "pre_threshold": pre_threshold}
        chosen |= {"diagnostics": diagnostics, "auto_share": auto_share}
        defaults = signature(Question.release).parameters
        options = {name: one for name, one in chosen.items() if one is not defaults[name].default}
        flags = {"simultaneous": simultaneous, "dummy": dummy}
        return self.service._release(self._sent(options), confidence, **flags)

    def _sent(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the question as it is sent, once what is wrong with it is said here."""
        self.local.checked_plan(**options)
        return _body(self.recorded, options)

    def _card(self) -> Card:
        return self.local._card()

    def __repr__(self) -> str:
        return repr(self.local).replace("<Question", f"<RemoteQuestion of {self.recorded.name}")


@dataclass(frozen=True, repr=False)
class RemoteTop(_Remote):
    """The question to a service for the k largest groups; made by `RemoteTable.top`.

    A `Client`, which `connect` gives, has the table.
    """

    _foreign = foreign.QUESTION | _ELSEWHERE

    local: Top = field(kw_only=True)

    def plan(self, **options: Any) -> TopPlan:
        """Say what a release with these options would do and cost, as `Top.plan`; nothing is sent.

        Args:
            options: those of `Question.plan`.
        Returns:
            A plan: its `spent`, and `explain()`.
        """
        return self.local.plan(**options)

    def ask(self, **options: Any) -> Asked:
        """Let the service say what it costs, as `RemoteQuestion.ask`.

        Args:
            options: those of `Question.plan`.
        Returns:
            An `Asked`.
        """
        return self.service._ask(self._sent(options), (), 0.95)

    def release(
        self,
        *,
        epsilon: Number,
        delta: Number = 0,
        counts: bool = True,
        counts_share: Number | None = None,
        confidence: float = 0.95,
        simultaneous: bool = False,
        dummy: bool = False,
    ) -> RemoteRelease:
        """Let the service release the keys of the largest groups, and spend its cost of your budget there.

        Args:
            epsilon, delta, counts, counts_share: as of `Top.release`.
            confidence, simultaneous, dummy: as of `RemoteQuestion.release`.
        Returns:
            A `RemoteRelease`.
        Raises:
            QueryError, BudgetError, EngineError: as from `RemoteQuestion.release`.
        """
        options: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "counts": counts}
        if counts_share is not None:
            options["counts_share"] = counts_share
        flags = {"simultaneous": simultaneous, "dummy": dummy}
        return self.service._release(self._sent(options), confidence, **flags)

    def _sent(self, options: Mapping[str, Any]) -> dict[str, Any]:
        self.local.plan(**options)
        return _body(self.recorded, options)

    def _card(self) -> Card:
        return self.local._card()

    def __repr__(self) -> str:
        return repr(self.local).replace("<Top", f"<RemoteTop of {self.recorded.name}")


def _body(recorded: Recorded, options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "chain": recorded.data,
        "options": {name: written(f"release: {name}", one) for name, one in options.items()},
    }


def _sent(value: Any) -> Any:
    if isinstance(value, _Remote):
        return value.recorded
    return {key: _sent(one) for key, one in value.items()} if isinstance(value, Mapping) else value


def _plain(keys: Any) -> bool:
    """Whether keys are sent as they are given: a frame or an array is sent as the rows that it comes to."""
    return keys is None or isinstance(keys, (str, list, tuple, set, range))


def _rows(keys: Any) -> list[Any]:
    columns = [column.to_pylist() for column in keys.columns]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
