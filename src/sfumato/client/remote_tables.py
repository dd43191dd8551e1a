"""Tables and questions of a service: checked, planned and previewed here, and released there.

Each stands for a table or a question of this process, on what the owner declares and without rows. Methods
are those of `Table`, `PublicTable`, `Question` and `Top`; the calls are recorded, and a release sends them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from sfumato.api.largest_groups import Top
from sfumato.api.question import Question
from sfumato.api.table import Table
from sfumato.catalogs.declarations import ColumnDeclaration, ForeignKey, TableDeclaration
from sfumato.client.remote_release import Asked, RemoteRelease
from sfumato.dataclass import dataclass
from sfumato.display.cards import Card, Displayed
from sfumato.engines.catalog import Catalog
from sfumato.errors import BudgetError, QueryError
from sfumato.exact import Number
from sfumato.names import SuggestingArguments, foreign_names
from sfumato.query.option_names import Amount, NoiseChoice, SelectionChoice
from sfumato.query.schema import Schema
from sfumato.query.tables.dummy_rows import DummyRows, Making
from sfumato.query.tables.public_table import PublicTable
from sfumato.service.wire_format import RecordedTable, SentCall, to_json

if TYPE_CHECKING:
    from sfumato.guidance.preview import Preview
    from sfumato.plan.plan import Plan

_OF_OWNER = "exact numbers of rows are for their owner"
_NOT_HERE = {
    "analyze": f"{_OF_OWNER}. preview(...) shows the expected errors",
    "diagnose": "release(diagnostics=...) estimates the bias from limits and bounds",
    "for_analysts": "a service answers only with releases",
}


class Service(Protocol):
    """What sends a question, and brings what comes of it."""

    def _release(self, question: Mapping[str, Any], confidence: float, **flags: bool) -> RemoteRelease: ...

    def _ask(self, question: Mapping[str, Any], units: Sequence[int], confidence: float) -> Asked: ...


def _recording(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a remote method that calls the local object's method and records the call."""

    @wraps(method)
    def call(self: Remote, /, *args: Any, **named: Any) -> Any:
        return self._then(method.__name__, args, named)

    return call


def _delegating(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a remote method that calls the local object's method, without recording it."""

    @wraps(method)
    def call(self: Remote, /, *args: Any, **named: Any) -> Any:
        return getattr(self._local, method.__name__)(*args, **named)

    return call


@dataclass(frozen=True, repr=False)
class Remote(SuggestingArguments, Displayed):
    """A remote table or question: recorded calls, and the local object that checks them."""

    _service: Service
    _recorded: RecordedTable
    _local: Any

    def _then(self, name: str, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Call a method of the local object, record the call, and return the remote result."""
        method = getattr(self._local, name)
        defaults = {key: one.default for key, one in signature(method).parameters.items()}
        given = {key: one for key, one in named.items() if key not in defaults or one is not defaults[key]}
        made = method(*map(self._here, args), **{key: self._here(one) for key, one in given.items()})
        sent = {key: _send(one) for key, one in given.items()}
        if isinstance(made, (Table, Top)) and not _plain(given.get("keys")):
            sent["keys"] = _rows(made._public_keys)
        call = SentCall.record_call(name, map(_send, args), sent)
        kind = next(remote for local, remote in _REMOTES.items() if isinstance(made, local))
        return kind(self._service, replace(self._recorded, calls=(*self._recorded.calls, call)), made)

    def _here(self, value: Any) -> Any:
        """Return the local object behind a remote table of the same service."""
        if isinstance(value, Remote) and isinstance(value._local, (Table, PublicTable)):
            if value._service is not self._service:
                raise QueryError("the tables are from two services. Use tables of one")
            return value._local
        if isinstance(value, (Table, PublicTable)):
            raise QueryError(
                "a table of this process cannot be sent to a service. Use the service's own, "
                "clinic.table(...) or clinic.public(...)"
            )
        if isinstance(value, Mapping):
            return {key: self._here(one) for key, one in value.items()}
        return value

    def _body(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return a remote question with its release options in wire format."""
        given = {name: to_json(f"release: {name}", one) for name, one in options.items()}
        return {"chain": self._recorded.data, "options": given}

    def _card(self) -> Card:
        card: Card = self._local._card()
        return card

    def __repr__(self) -> str:
        return repr(self._local).replace("<", "<Remote", 1)


def _send(value: Any) -> Any:
    if isinstance(value, Remote):
        return value._recorded
    return {key: _send(one) for key, one in value.items()} if isinstance(value, Mapping) else value


def _plain(keys: Any) -> bool:
    """Whether keys are sent as given; a data frame or array is sent as its rows."""
    return keys is None or isinstance(keys, (str, list, tuple, set, range))


def _rows(keys: Any) -> list[Any]:
    columns = [column.to_pylist() for column in keys.columns]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


@dataclass(frozen=True, repr=False)
class RemotePublicTable(Remote):
    """A public table of a service, to join with private ones; `Client.public` returns it.

    >>> from sfumato.client import connect
    >>> reforms = connect(url, token).public("reforms")
    >>> list(reforms.filter("year > 1985").with_columns(late="year > 1986").schema)
    ['year', 'reform', 'late']
    """

    _local: PublicTable

    @classmethod
    def _open_by_name(cls, service: Service, catalog: Catalog, name: str) -> RemotePublicTable:
        """Return a remote public table by its name."""
        return cls(service, RecordedTable("public", name), catalog.public(name))

    @property
    def schema(self) -> Schema:
        """The remote table's columns by name, with their types."""
        return self._local.schema

    filter: ClassVar[Callable[..., RemotePublicTable]] = _recording(PublicTable.filter)
    with_columns: ClassVar[Callable[..., RemotePublicTable]] = _recording(PublicTable.with_columns)


@dataclass(frozen=True, repr=False)
class RemoteTable(Remote):
    """A private table of a service, with the methods of a table from `sf.catalog`.

    `Client.table` returns it. Mistakes in a call are reported at once, from the owner's declarations; nothing
    is sent before a release. The catalog supplies bounds, limits and domains that you leave out.

    >>> from sfumato.client import connect
    >>> visits = connect(url, token).table("visits")
    >>> visits, visits.unit, visits.notes
    (<RemoteTable visits (read with DuckDB): 4 columns; privacy unit id>, 'id', ())
    >>> visits.filter("agee > 40")
    Traceback (most recent call last):
    ...
    sfumato.errors.ColumnError: filter: 'agee > 40': there is no column 'agee'; did you mean 'age'? ...
    """

    _foreign = foreign_names.TABLE | foreign_names.ASKED | _NOT_HERE

    _local: Table[Any]

    @classmethod
    def _open_by_name(cls, service: Any, catalog: Catalog, name: str) -> RemoteTable:
        """Return a remote private table by its name."""
        table = catalog.table(name)
        name = catalog.declaration(name).name
        noted = replace(table, notes=tuple(service.tables[name].get("notes", ())))
        return cls(service, RecordedTable("table", name), noted)

    def _advice(self, name: str) -> Mapping[str, str]:
        return {**self._local._advice(name), **_NOT_HERE} if "_local" in vars(self) else self._foreign

    @property
    def schema(self) -> Schema:
        """The remote table's columns by name, with their types."""
        return self._local.schema

    @property
    def unit(self) -> str:
        """The column of the remote table's privacy unit."""
        return self._local.unit

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of the service's owner about the remote table."""
        return self._local.notes

    filter: ClassVar[Callable[..., RemoteTable]] = _recording(Table.filter)
    with_columns: ClassVar[Callable[..., RemoteTable]] = _recording(Table.with_columns)
    join: ClassVar[Callable[..., RemoteTable]] = _recording(Table.join)
    union: ClassVar[Callable[..., RemoteTable]] = _recording(Table.union)
    per_unit: ClassVar[Callable[..., RemoteTable]] = _recording(Table.per_unit)
    sql: ClassVar[Callable[..., RemoteTable]] = _recording(Table.sql)
    group_by: ClassVar[Callable[..., RemoteTable]] = _recording(Table.group_by)
    totals: ClassVar[Callable[..., RemoteTable]] = _recording(Table.totals)
    bound: ClassVar[Callable[..., RemoteTable]] = _recording(Table.bound)
    agg: ClassVar[Callable[..., RemoteQuestion]] = _recording(Table.agg)
    top: ClassVar[Callable[..., RemoteTop]] = _recording(Table.top)
    dummy: ClassVar[Callable[..., Table[Any]]] = _delegating(Table.dummy)


@dataclass(frozen=True, repr=False)
class RemoteQuestion(Remote):
    """A complete question to a service, validated locally: it can be planned, previewed and released.

    `RemoteTable.agg` returns it, for a table of the client from `connect`. A plan or a preview sends nothing.

    >>> from sfumato.client import connect
    >>> import sfumato as sf
    >>> asked = connect(url, token).table("visits").group_by("year").agg(n=sf.count_units())
    >>> asked, asked.output_names
    (<RemoteQuestion of visits: n by year>, ('n',))
    >>> asked.plan(epsilon="0.5").spent, asked.epsilon_for(units=3000, n=20)
    (ExactCost(epsilon=0.5, delta=0), 0.3034)
    """

    _foreign = foreign_names.QUESTION | _NOT_HERE

    _local: Question[Any]

    @property
    def title(self) -> str:
        """A short summary of the remote question."""
        return self._local.title

    @property
    def automatic(self) -> bool:
        """Whether the release infers bounds or limits of the remote question."""
        return self._local.automatic

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of the output columns after the keys."""
        return self._local.output_names

    weigh: ClassVar[Callable[..., RemoteQuestion]] = _recording(Question.weigh)
    plan: ClassVar[Callable[..., Plan]] = _delegating(Question.plan)
    preview: ClassVar[Callable[..., Preview]] = _delegating(Question.preview)
    epsilon_for: ClassVar[Callable[..., float]] = _delegating(Question.epsilon_for)

    def ask(
        self, *, units: Sequence[int] = (100, 1_000, 10_000), confidence: float = 0.95, **options: Any
    ) -> Asked:
        """Ask the service for the cost, the remaining budget, and whether the answer would be repeated.

        Args:
            units, confidence: as for `Client.ask`.
            options: options of `release`.
        Returns:
            An `Asked`.
        Raises:
            QueryError, BudgetError, RefusalError: as for `release`; nothing is read or spent.
            EngineError: the service does not answer.

        >>> from sfumato.client import connect
        >>> import sfumato as sf
        >>> asked = connect(url, token).table("visits").group_by("year").agg(n=sf.count_units())
        >>> asked.ask(units=[], epsilon="0.5").cost
        Cost(epsilon=0.5, delta=0.0)
        """
        return self._service._ask(self._sent(options), units, confidence)

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
        """Release the question at the service, and charge your budget there.

        Args:
            epsilon, delta, noise, group_selection, pre_threshold, diagnostics, auto_share: as for
                `Question.release`.
            confidence, simultaneous: of the error bars that come with it.
            dummy: query dummy rows from the service, at no cost.
        Returns:
            The answer. The same question is answered again at no charge if the owner has declared the version
            of the data.
        Raises:
            QueryError, BudgetError, RefusalError: as for `Question.release`; nothing is spent then.
            EngineError: the service does not answer. If it received the question, the cost may have been
                spent; `Client.history` shows it.

        >>> from sfumato.client import connect
        >>> import sfumato as sf
        >>> asked = connect(url, token).table("visits").group_by("year").agg(n=sf.count_units())
        >>> answer = asked.release(epsilon="0.5")
        >>> answer
        <RemoteRelease of year, n; epsilon=0.5, delta=0>
        >>> answer["year"]
        [1984, 1985, 1986, 1987, 1988]
        """
        if epsilon is None:
            raise BudgetError("epsilon is missing. Pass a finite number greater than 0")
        chosen: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "noise": noise}
        chosen |= {"group_selection": group_selection, "pre_threshold": pre_threshold}
        chosen |= {"diagnostics": diagnostics, "auto_share": auto_share}
        defaults = signature(Question.release).parameters
        options = {name: one for name, one in chosen.items() if one is not defaults[name].default}
        flags = {"simultaneous": simultaneous, "dummy": dummy}
        return self._service._release(self._sent(options), confidence, **flags)

    def _sent(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the remote question in wire format, after planning it locally to report mistakes."""
        self._local._check_plan(**options)
        return self._body(options)

    def __repr__(self) -> str:
        return repr(self._local).replace("<Question", f"<RemoteQuestion of {self._recorded.name}", 1)


@dataclass(frozen=True, repr=False)
class RemoteTop(Remote):
    """A query to a service for the k largest groups, as `RemoteTable.top` returns it.

    The table comes from a `Client`, which `connect` returns. A plan sends nothing.

    >>> from sfumato.client import connect
    >>> ages = connect(url, token).table("visits").top("age", k=3)
    >>> ages, ages.plan(epsilon=1, delta="1e-6").spent
    (<RemoteTop of visits: the 3 largest groups by age>, ExactCost(epsilon=1, delta=1e-06))
    """

    _foreign = foreign_names.QUESTION | _NOT_HERE

    _local: Top

    plan: ClassVar[Callable[..., Plan[Any, Any]]] = _delegating(Top.plan)
    explain: ClassVar[Callable[..., Any]] = _delegating(Top.explain)

    def ask(self, **options: Any) -> Asked:
        """Ask the service for the cost of the largest groups, as `RemoteQuestion.ask`.

        Args:
            options: options of `Top.plan`.
        Returns:
            An `Asked`.

        >>> from sfumato.client import connect
        >>> ages = connect(url, token).table("visits").top("age", k=3)
        >>> ages.ask(epsilon=1, delta="1e-6").cost
        Cost(epsilon=1.0, delta=1e-06)
        """
        return self._service._ask(self._sent(options), (), 0.95)

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
        """Release the keys of the largest groups at the service, and charge your budget there.

        Args:
            epsilon, delta, counts, counts_share: as for `Top.release`.
            confidence, simultaneous, dummy: as for `RemoteQuestion.release`.
        Returns:
            A `RemoteRelease`.
        Raises:
            QueryError, BudgetError, EngineError: as for `RemoteQuestion.release`.

        >>> from sfumato.client import connect
        >>> numbers = connect(url, token).table("visits").top("docvis", k=3)
        >>> answer = numbers.release(epsilon=4, delta="1e-6")
        >>> len(answer), answer.to_arrow().column_names
        (3, ['rank', 'docvis', 'units'])
        """
        options: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "counts": counts}
        if counts_share is not None:
            options["counts_share"] = counts_share
        flags = {"simultaneous": simultaneous, "dummy": dummy}
        return self._service._release(self._sent(options), confidence, **flags)

    def _sent(self, options: Mapping[str, Any]) -> dict[str, Any]:
        self._local.plan(**options)
        return self._body(options)

    def __repr__(self) -> str:
        return repr(self._local).replace("<Top", f"<RemoteTop of {self._recorded.name}", 1)


_REMOTES: Mapping[type, type[Remote]] = {
    Table: RemoteTable,
    PublicTable: RemotePublicTable,
    Question: RemoteQuestion,
    Top: RemoteTop,
}


_NAME = "catalog"  # as errors of the service call it
_ONE = Making(1, 1, 0)
# How values of a domain, which are texts in JSON, are read by the type of their column.
_VALUES: Mapping[str, Callable[[str], Any]] = {
    "DECIMAL": Decimal,
    "TIMESTAMP": datetime.fromisoformat,
    "DATE": date.fromisoformat,
    "TIME": time.fromisoformat,
}


def make_catalog(tables: Mapping[str, Mapping[str, Any]]) -> Catalog:
    """Return a catalog of remote tables from the service's declarations; dummy rows stand for theirs."""
    return Catalog(_NAME, {name: _table(declared) for name, declared in tables.items()})


def _table(declared: Mapping[str, Any]) -> TableDeclaration:
    """Return the declaration of one remote table."""
    key, parts = declared.get("foreign_key"), tuple(declared.get("privacy_unit_parts", ()))
    unit: str | None = None if declared["public"] else declared["privacy_unit"]
    # A unit of several columns is no column of the source; nor is one that another table brings.
    brought = bool(parts) or (
        key is not None and unit is not None and unit.casefold() != key["column"].casefold()
    )
    columns = [one for one in declared["columns"] if not (brought and one["name"] == unit)]
    rows = DummyRows(
        _ONE,
        {one["name"]: one["type"] for one in columns},
        frozenset(one["name"] for one in columns if not one["missing"]),
        None if brought else unit,
        public=declared["public"],
        name=declared["name"],
        elsewhere=True,
    )
    return TableDeclaration(
        declared["name"],
        _NAME,
        rows,
        public=declared["public"],
        privacy_unit=None if key is not None else unit,
        unit_parts=() if key is not None else parts,
        unit_timezone=declared.get("unit_timezone", "UTC"),
        timezone=declared.get("timezone", "UTC"),
        foreign_key=None if key is None else ForeignKey(key["column"], key["table"], key["key"]),
        max_groups=declared.get("max_groups"),
        max_rows=declared.get("max_rows"),
        max_joined_rows=declared.get("max_joined_rows"),
        columns=tuple(_column(one) for one in columns if "lower" in one or "domain" in one),
    )


def _column(declared: Mapping[str, Any]) -> ColumnDeclaration:
    """Return the declaration of a remote table's column."""
    bounds = (Fraction(declared["lower"]), Fraction(declared["upper"])) if "lower" in declared else None
    read = next((read for kind, read in _VALUES.items() if declared["type"].startswith(kind)), None)
    values = declared.get("domain")
    if values is not None and read is not None:
        values = [value if value is None else read(value) for value in values]
    return ColumnDeclaration(declared["name"], bounds, None if values is None else tuple(values))
