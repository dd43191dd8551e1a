"""Tables of a service, of which questions are made here, on what is declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal

from sfumato.client.questions import RemoteQuestion, RemoteTop
from sfumato.client.remote import NOT_HERE, Remote, Service
from sfumato.dataclass import dataclass
from sfumato.display.card import Card
from sfumato.names import foreign
from sfumato.query.aggregates import Aggregate
from sfumato.query.choices import BeyondChoice
from sfumato.query.schema import Schema
from sfumato.query.table import Table
from sfumato.query.tables.combining import MOST_ROWS, JoinKind
from sfumato.query.tables.public_table import PublicTable
from sfumato.service.recorded import Recorded

if TYPE_CHECKING:
    from sfumato.engines.catalog import Catalog


@dataclass(frozen=True, repr=False)
class RemotePublicTable(Remote):
    """A public table of a service, to be joined with private ones. Made by `Client.public`.

    >>> from sfumato.client import connect
    >>> reforms = connect(url, token).public("reforms")
    >>> list(reforms.schema)
    ['year', 'reform']
    """

    local: PublicTable = field(kw_only=True)

    @classmethod
    def _opened(cls, service: Service, catalog: Catalog, name: str) -> RemotePublicTable:
        """Return a public table by its name."""
        local = catalog.public(name)
        return cls(service, Recorded("public", name), local=local)

    @property
    def schema(self) -> Schema:
        """The columns by name, with what is known of their types."""
        return self.local.schema

    def filter(self, expression: str) -> RemotePublicTable:
        """Keep the rows where a SQL expression of one row's columns is true, as `PublicTable.filter`.

        >>> from sfumato.client import connect
        >>> reforms = connect(url, token).public("reforms")
        >>> list(reforms.filter("year > 1985").schema)
        ['year', 'reform']
        """
        return self._then("filter", expression)

    def with_columns(self, /, **expressions: str) -> RemotePublicTable:
        """Add or replace columns by SQL expressions, as `PublicTable.with_columns`.

        >>> from sfumato.client import connect
        >>> reforms = connect(url, token).public("reforms")
        >>> list(reforms.with_columns(late="year > 1986").schema)
        ['year', 'reform', 'late']
        """
        return self._then("with_columns", **expressions)

    def _then(self, name: str, /, *args: Any, **named: Any) -> RemotePublicTable:
        local, recorded = self._next(name, args, named)
        return replace(self, recorded=recorded, local=local)

    def _card(self) -> Card:
        return self.local._card()

    def __repr__(self) -> str:
        return repr(self.local).replace("<PublicTable", "<RemotePublicTable", 1)


@dataclass(frozen=True, repr=False)
class RemoteTable(Remote):
    """A private table of a service; its methods are those of a table of `sf.catalog`. Made by `Client.table`.

    What is wrong with a call is said at once, of what the owner declares; nothing is sent before a release.

    >>> from sfumato.client import connect
    >>> visits = connect(url, token).table("visits")
    >>> visits, visits.unit, visits.notes
    (<RemoteTable visits (read with DuckDB): 4 columns; privacy unit id>, 'id', ())
    >>> visits.filter("agee > 40")
    Traceback (most recent call last):
    ...
    sfumato.errors.ColumnError: filter: 'agee > 40': there is no column 'agee'; did you mean 'age'? ...
    """

    _foreign = foreign.TABLE | foreign.ASKED | NOT_HERE

    local: Table[Any] = field(kw_only=True)

    @classmethod
    def _opened(cls, service: Any, catalog: Catalog, name: str) -> RemoteTable:
        """Return a private table by its name."""
        table = catalog.table(name)
        name = catalog.declaration(name).name
        local = replace(table, notes=tuple(service.tables[name].get("notes", ())))
        return cls(service, Recorded("table", name), local=local)

    def _advice(self, name: str) -> Mapping[str, str]:
        return {**self.local._advice(name), **NOT_HERE} if "local" in vars(self) else self._foreign

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
        """Keep the rows where a SQL expression is true, as `Table.filter`.

        >>> from sfumato.client import connect
        >>> visits = connect(url, token).table("visits")
        >>> visits.filter("age > 40")
        <RemoteTable visits (read with DuckDB): 4 columns; privacy unit id; keep rows where age > 40>
        """
        return self._then("filter", expression)

    def with_columns(self, /, **expressions: str) -> RemoteTable:
        """Add or replace columns by SQL expressions of one row's columns, as `Table.with_columns`.

        >>> from sfumato.client import connect
        >>> visits = connect(url, token).table("visits")
        >>> list(visits.with_columns(decade="floor(age / 10) * 10").schema)
        ['id', 'year', 'age', 'docvis', 'decade']
        """
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
        """Put columns of another table of the service beside these, as `Table.join`.

        >>> from sfumato.client import connect
        >>> clinic = connect(url, token)
        >>> joined = clinic.table("visits").join(clinic.public("reforms"), on="year")
        >>> list(joined.schema)
        ['id', 'year', 'age', 'docvis', 'reform']
        """
        return self._then("join", other, on=on, how=how, rows=rows, unit_rows=unit_rows)

    def union(self, other: RemoteTable) -> RemoteTable:
        """Add the rows of another private table of the service, as `Table.union`.

        >>> from sfumato.client import connect
        >>> clinic = connect(url, token)
        >>> clinic.table("visits").union(clinic.table("late_visits"))
        <RemoteTable visits, late_visits (read with DuckDB): 4 columns; privacy unit id>
        """
        return self._then("union", other)

    def per_unit(self, /, *by: str, **aggregates: str) -> RemoteTable:
        """Make one row of all rows of a privacy unit, as `Table.per_unit`.

        >>> from sfumato.client import connect
        >>> visits = connect(url, token).table("visits")
        >>> list(visits.per_unit(most="max(docvis)").schema)
        ['id', 'most']
        """
        return self._then("per_unit", *by, **aggregates)

    def sql(
        self, text: str, *, tables: Mapping[str, RemoteTable | RemotePublicTable] | None = None
    ) -> RemoteTable:
        """Make a table by SQL in which each row follows from one privacy unit's rows, as `Table.sql`.

        >>> from sfumato.client import connect
        >>> visits = connect(url, token).table("visits")
        >>> list(visits.sql("SELECT id, max(docvis) AS most FROM self GROUP BY id").schema)
        ['id', 'most']
        """
        return self._then("sql", text, tables=tables)

    def group_by(self, *columns: str, keys: Any = None) -> RemoteTable:
        """Ask for each group of one or more columns, as `Table.group_by`; domains are public groups.

        >>> from sfumato.client import connect
        >>> import sfumato as sf
        >>> visits = connect(url, token).table("visits")
        >>> visits.group_by("year").agg(n=sf.count_units())
        <RemoteQuestion of visits: n by year>
        """
        return self._then("group_by", *columns, keys=keys)

    def totals(self, *sets: Sequence[str], cube: bool = False, integer: bool = False) -> RemoteTable:
        """Ask for totals of public groups too, which agree with them, as `Table.totals`.

        >>> from sfumato.client import connect
        >>> import sfumato as sf
        >>> visits = connect(url, token).table("visits")
        >>> asked = visits.group_by("year").totals().agg(visits=sf.sum("docvis"))
        >>> asked
        <RemoteQuestion of visits: visits by year>
        """
        return self._then("totals", *sets, cube=cube, integer=integer)

    def bound(
        self,
        *,
        groups: int | Literal["auto"] | None = None,
        rows: int | Literal["auto"] | None = None,
        beyond: BeyondChoice | None = None,
        total_rows: int | None = None,
    ) -> RemoteTable:
        """Limit what one privacy unit contributes, as `Table.bound`.

        >>> from sfumato.client import connect
        >>> import sfumato as sf
        >>> visits = connect(url, token).table("visits")
        >>> asked = visits.group_by("year").bound(groups=2, rows=1).agg(n=sf.count())
        >>> asked.plan(epsilon=1)
        <Plan: n by year; epsilon 1, delta 0, Laplace noise>
        """
        return self._then("bound", groups=groups, rows=rows, beyond=beyond, total_rows=total_rows)

    def agg(self, /, *unnamed: Aggregate, **aggregates: Aggregate) -> RemoteQuestion:
        """Say what is asked of each group, as `Table.agg`; bounds that are left out are the catalog's.

        >>> from sfumato.client import connect
        >>> import sfumato as sf
        >>> visits = connect(url, token).table("visits")
        >>> visits.agg(n=sf.count(), visits=sf.mean("docvis")).output_names
        ('n', 'visits')
        """
        local, recorded = self._next("agg", unnamed, aggregates)
        return RemoteQuestion(self.service, recorded, local=local)

    def top(
        self, *columns: str, k: int, by: Any = None, keys: Any = None, candidates: int | None = None
    ) -> RemoteTop:
        """Ask for the k largest groups, as `Table.top`.

        >>> from sfumato.client import connect
        >>> visits = connect(url, token).table("visits")
        >>> visits.top("age", k=3).plan(epsilon=1, delta="1e-6").spent
        ExactCost(epsilon=1, delta=1e-06)
        """
        named = {"k": k, "by": by, "keys": keys, "candidates": candidates}
        local, recorded = self._next("top", columns, named)
        return RemoteTop(self.service, recorded, local=local)

    def dummy(self, *, rows: int = 1_000, units: int | None = None, seed: int = 0) -> Table[Any]:
        """Return a table of this process of made-up rows with the same columns, as `Table.dummy`: free.

        >>> from sfumato.client import connect
        >>> visits = connect(url, token).table("visits")
        >>> visits.dummy(rows=5)
        <Table visits (read with DuckDB, on made-up rows): 4 columns; privacy unit id>
        """
        return self.local.dummy(rows=rows, units=units, seed=seed)

    def _then(self, name: str, /, *args: Any, **named: Any) -> RemoteTable:
        local, recorded = self._next(name, args, named)
        return replace(self, recorded=recorded, local=local)

    def _card(self) -> Card:
        return self.local._card()

    def __repr__(self) -> str:
        return repr(self.local).replace("<Table", "<RemoteTable", 1)
