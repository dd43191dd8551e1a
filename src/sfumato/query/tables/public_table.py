"""Public tables, which private tables can be joined with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.display.cards import Card, Displayed
from sfumato.names import SuggestingArguments
from sfumato.query.engine_protocol import Engine
from sfumato.query.schema import Derive, Filter, Schema, Step, check_expression
from sfumato.query.table_display import public_card, public_table_line
from sfumato.query.tables.table_part import Part


@dataclass(frozen=True, repr=False)
class PublicTable(SuggestingArguments, Displayed):
    """A public table: it holds nothing about people and can be joined with private tables.

    `sfumato.public` returns it. Every method returns a new table.

    >>> import pyarrow as pa, sfumato as sf
    >>> towns = sf.public(pa.table({"town": ["A", "B"], "region": ["north", "south"]}))
    >>> towns.filter("region = 'north'")
    <PublicTable (read with DuckDB): 2 columns; keep rows where region = 'north'>
    """

    _engine: Engine[Any]
    _steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def schema(self) -> Schema:
        """The columns of the public table by name, with what is known about their types."""
        return self._engine.schema(self._steps)

    def filter(self, expression: str) -> PublicTable:
        """Keep the rows of the public table for which a SQL expression over one row is true.

        Args:
            expression: SQL over one row's columns, as for `Table.filter`.
        Returns:
            A table with these rows; the original does not change.
        Raises:
            QueryError: the expression is not understood or uses more than one row.

        >>> import pyarrow as pa, sfumato as sf
        >>> towns = sf.public(pa.table({"town": ["Bonn", "Ulm"], "people": [322_000, 129_000]}))
        >>> towns.filter("people > 200000")
        <PublicTable (read with DuckDB): 2 columns; keep rows where people > 200000>
        """
        return self._with_step(Filter(check_expression("filter", expression)))

    def with_columns(self, /, **expressions: str) -> PublicTable:
        """Add or replace columns of the public table by SQL expressions over one row.

        Args:
            expressions: SQL over one row's columns, by name of the new column.
        Returns:
            A table with these columns; the original does not change.
        Raises:
            QueryError: an expression is not understood or uses more than one row.

        >>> import pyarrow as pa, sfumato as sf
        >>> towns = sf.public(pa.table({"town": ["Bonn", "Ulm"], "people": [322_000, 129_000]}))
        >>> list(towns.with_columns(large="people > 200000").schema)
        ['town', 'people', 'large']
        """
        table = self
        for name, expression in expressions.items():
            table = table._with_step(Derive(name, check_expression("with_columns", expression)))
        return table

    def _card(self) -> Card:
        return public_card(self)

    def __repr__(self) -> str:
        return public_table_line(self)

    def _in_messages(self) -> str:
        titles = self._engine.titles
        return f"the public table {titles[0]!r}" if len(titles) == 1 else "a public table"

    @property
    def _part(self) -> Part:
        return Part(self._engine, self._steps, None)

    def _with_step(self, step: Step) -> PublicTable:
        table = replace(self, _steps=(*self._steps, step))
        table.schema  # noqa: B018  checks the step
        return table
