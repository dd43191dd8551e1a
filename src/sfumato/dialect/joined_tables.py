"""Open the tables of a FROM clause and join them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from sfumato.api.table import Table, compute_public_table, distinct_rows, select_columns
from sfumato.dialect.from_clause import From, Joined, Reference, Source, qualify_name
from sfumato.dialect.syntax_tree import fresh
from sfumato.errors import ColumnError, QueryError
from sfumato.query.schema import format_name, quote_name
from sfumato.query.tables.combined_tables import JoinKind
from sfumato.query.tables.public_table import PublicTable


def open_from(
    source: From,
    unit: str,
    named: Iterable[str],
    plain: Collection[str],
    open_table: Callable[[Source, str], Any],
    joined_rows: int | None = None,
) -> Table[Any]:
    """Open the tables of a FROM clause and join them.

    Args:
        source: the FROM clause.
        unit: the privacy unit's column in all private tables.
        named: columns of joined tables that are read by their qualified names.
        plain: columns that are read without a table's name, in lower case.
        open_table: gives a private or public table, from its source and the privacy unit's column.
        joined_rows: the limit of joined rows of a unit; None for that of `Table.join`.
    Raises:
        QueryError: columns are unknown, ambiguous or of several types, or no table is private.
    """
    table = open_table(source.source, unit)
    if not isinstance(table, Table):
        raise QueryError(
            f"FROM begins with a public table, {str(source.source)!r}. Begin with the private "
            "table, and JOIN the public one"
        )
    names, equal = {*named, *source.compared}, dict[str, str]()
    for one in source.joined:
        other = open_table(one.source, unit)
        pairs, beside = _match_columns(table, other, one, source, names, plain, equal)
        if one.matching:
            table = filter_matches(table, beside, pairs, one.how, joined_rows)
            continue
        hidden = set[str]()
        if one.where is not None and not pairs:
            table, beside, pairs = crossed(table, beside)
            hidden |= {ours for ours, _ in pairs}
        # A join leaves out the columns that are equal to others: those that are read keep their names.
        read = {theirs for _, theirs in pairs if theirs.casefold() in plain and theirs not in table.schema}
        kept = {_unused_name(name, table, beside): name for name in sorted(read)}
        if kept:
            beside = beside.with_columns(**{copy: quote_name(name) for copy, name in kept.items()})
        table = table.join(beside, on=pairs, how=one.how, unit_rows=joined_rows)
        if kept:
            table = table.with_columns(**{name: quote_name(copy) for copy, name in kept.items()})
        table = _without(table, hidden | set(kept))
    return table


def crossed(
    table: Table[Any], other: Table[Any] | PublicTable
) -> tuple[Table[Any], PublicTable, list[tuple[str, str]]]:
    """Return two tables, and what a join compares so that each row of the one meets each of the other.

    Raises:
        QueryError: both are private.
    """
    if isinstance(other, Table):
        raise QueryError(
            "both tables are private, so only rows of the same unit can be joined. Compare the privacy units "
            f"in ON or WHERE: a.{format_name(table.unit)} = b.{format_name(other.unit)}"
        )
    one = fresh("one", {name.casefold() for name in (*table.schema, *other.schema)})
    return table.with_columns(**{one: "1"}), other.with_columns(**{one: "1"}), [(one, one)]


def mark_matches(
    table: Table[Any],
    other: Table[Any] | PublicTable,
    pairs: Sequence[tuple[str, str]],
    joined_rows: int | None = None,
) -> tuple[Table[Any], str]:
    """Return a table with a column that is TRUE where a row matches one of another table, else NULL.

    Args:
        table: whose rows stay, once each.
        other: the other one; if it is private, the pairs compare the units.
        pairs: columns of both that are equal, at least one.
        joined_rows: the limit of joined rows of a unit; None for that of `Table.join`.
    Raises:
        QueryError: the units are not compared.
    """
    listed = list(dict.fromkeys(theirs for _, theirs in pairs))
    if isinstance(other, Table):
        if (table.unit, other.unit) not in pairs:
            raise QueryError(
                "both tables are private, so only rows of the same unit can be compared. Compare the "
                f"privacy units too: a.{format_name(table.unit)} = b.{format_name(other.unit)}"
            )
        other = distinct_rows(select_columns(other, tuple((name, name) for name in listed), other.unit))
    else:
        select = f"SELECT DISTINCT {', '.join(map(quote_name, listed))} FROM part"
        other = compute_public_table(table._engine, {"part": other}, select)
    mark = fresh("matched", {name.casefold() for name in (*table.schema, *other.schema)})
    matches = other.with_columns(**{mark: "TRUE"})
    return table.join(matches, on=pairs, how="left", unit_rows=joined_rows), mark


def filter_matches(
    table: Table[Any],
    other: Table[Any] | PublicTable,
    pairs: Sequence[tuple[str, str]],
    how: JoinKind,
    joined_rows: int | None = None,
) -> Table[Any]:
    """Return the rows of a table that match rows of another one ("inner"), or none ("left").

    Args: as in `marked`.
    """
    marks, mark = mark_matches(table, other, pairs, joined_rows)
    found = marks.filter(f"{quote_name(mark)} IS {'NOT ' if how == 'inner' else ''}NULL")
    return _without(found, {mark})


def _without(table: Table[Any], hidden: Collection[str]) -> Table[Any]:
    """Return a table without columns that only a join needed: no name of a later table means them."""
    if not hidden:
        return table
    return select_columns(
        table, tuple((name, name) for name in table.schema if name not in hidden), table.unit
    )


def _unused_name(name: str, *tables: Table[Any] | PublicTable) -> str:
    """Return an unused name for a column that a join in the FROM clause would drop."""
    taken = {column.casefold() for table in tables for column in table.schema}
    while name.casefold() in taken:
        name = f"_{name}"
    return name


def _match_columns(
    table: Table[Any],
    other: Table[Any] | PublicTable,
    one: Joined,
    source: From,
    names: Collection[str],
    plain: Collection[str],
    equal: dict[str, str],
) -> tuple[list[tuple[str, str]], Table[Any] | PublicTable]:
    """Return the pairs of columns that a join compares, and the joined table with qualified column names.

    `equal` has what inner joins made the same, by qualified name, as the unit is.
    """
    known = {name.casefold() for name in table.schema}
    own = {name.casefold(): name for name in other.schema}

    def before(name: str) -> bool:
        return name.casefold() in known

    def earlier(reference: Reference) -> str:
        name = source.name(reference)
        return equal.get(name.casefold()) or _resolve_column(name, table, "FROM")

    merged = {table.unit.casefold(), *(name.casefold() for name in one.shared(own, before))}
    both = sorted(own.keys() & known & set(plain) - merged)
    if both and not one.matching:
        raise QueryError(
            f"several tables have a column {both[0]}. Write the table's name before it: "
            f"{one.alias or 'name'}.{both[0]}"
        )
    pairs = one.pairs(own, before, earlier)
    if one.alias:
        if one.how == "inner":
            equal |= {qualify_name(one.alias, theirs).casefold(): ours for ours, theirs in pairs}
        prefix = f"{one.alias}."
        for name in sorted(name for name in names if name.startswith(prefix)):
            column = _resolve_column(name.removeprefix(prefix), other, str(one.source))
            other = other.with_columns(**{name: quote_name(column)})
    return pairs, other


def _resolve_column(name: str, table: Table[Any] | PublicTable, where: str) -> str:
    """Return the column of a table in the FROM clause by its name, in any case; refuse others."""
    schema = table.schema
    for column in schema:
        if column.casefold() == name.casefold():
            return column
    raise ColumnError._unknown(name, schema, where)
