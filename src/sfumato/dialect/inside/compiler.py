"""SELECTs inside, compiled: each becomes a table made of tables, private or public."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from sfumato.dialect.inside.public import public_table
from sfumato.dialect.inside.queries import DEEPEST, Query, Source, tables_of
from sfumato.dialect.inside.select import Select
from sfumato.dialect.inside.union import union_all
from sfumato.errors import ColumnError, QueryError, SqlError
from sfumato.query.engine import Engine
from sfumato.query.table import Table
from sfumato.query.tables.public_table import PublicTable


class Inside:
    """Makes tables of the SELECTs of one text; each once.

    Args:
        open_table: gives a private or public table, from its name and the privacy unit's column; asked once.
        joined_rows: the limit of joined rows of a unit; None for that of `Table.join`.
    """

    def __init__(
        self,
        open_table: Callable[[str, str], Table[Any] | PublicTable],
        joined_rows: int | None = None,
    ) -> None:
        self._open = cache(open_table)
        self.joined_rows = joined_rows
        self._opened: dict[tuple[Source, str], Table[Any] | PublicTable] = {}
        self._public: dict[Source, bool] = {}
        self._units: dict[str, str] = {}
        self._engine: Engine[Any] | None = None
        self._depth = 0

    def table(self, source: Source, unit: str) -> Table[Any] | PublicTable:
        """Return the table that a name or a SELECT is.

        Args:
            source: the name, or the SELECT.
            unit: what its privacy unit's column is called, should it be private.
        Raises:
            QueryError: it is not unit-local, or does not fit its columns.
        """
        key = source, unit
        if key not in self._opened:
            if isinstance(source, str):
                self._opened[key] = self._base(source, unit)
            elif self.is_public(source, unit):
                if self._engine is None:
                    raise source.refuse(
                        source.first,
                        "FROM begins with a SELECT of public tables alone: a public table; begin with a "
                        "private one, and JOIN this",
                    )
                self._opened[key] = self.public(source, unit)
            else:
                with self._deeper(source):
                    self._opened[key] = self._private(source, unit)
            if self._engine is None:
                self._engine = self._opened[key].engine
        return self._opened[key]

    def is_public(self, source: Source, unit: str) -> bool:
        """Whether a source reads public tables alone."""
        if source not in self._public:
            if isinstance(source, str):
                try:
                    self._public[source] = isinstance(self._open(source, unit), PublicTable)
                except ColumnError:  # which says that there is no such privacy unit
                    self._public[source] = False
            else:
                with self._deeper(source):
                    read = [one for _, one in tables_of(source.node, source.names)]
                    self._public[source] = all(self.is_public(one, unit) for one in read)
        return self._public[source]

    def public(self, source: Source, unit: str, value: bool = False) -> PublicTable:
        """Return a public table, or what a SELECT of public tables gives, perhaps as the row of one value."""
        if isinstance(source, str):
            found = self.table(source, unit)
        else:
            assert self._engine is not None  # a private table comes first
            with self._deeper(source):
                found = public_table(source, self._engine, lambda one: self.public(one, unit), value)
        assert isinstance(found, PublicTable)
        return found

    def _base(self, name: str, unit: str) -> Table[Any] | PublicTable:
        found = self._open(name, unit)
        if isinstance(found, Table) and self._units.setdefault(name, found.unit) != found.unit:
            raise QueryError(
                f"{name!r} is read with the privacy unit {self._units[name]!r} and with {found.unit!r}: a "
                "row belongs to one"
            )
        return found

    def _private(self, query: Query, unit: str) -> Table[Any]:
        if query.node["type"] == "SELECT_NODE":
            return Select(self, query, unit).table
        return union_all(self, query, unit)

    @contextmanager
    def _deeper(self, query: Query) -> Iterator[None]:
        if self._depth == DEEPEST:
            raise query.refuse(
                query.node, f"SELECTs in SELECTs stand {DEEPEST} deep at most; save a part of them"
            )
        self._depth += 1
        try:
            yield
        except SqlError:
            raise
        except QueryError as error:
            raise query.refuse(query.first, str(error)) from None
        finally:
            self._depth -= 1
