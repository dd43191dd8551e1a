"""DeclaredTable: a private table of a catalog, with bounds, limits and domains from its declaration."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, cast

from sfumato.api.largest_groups import Top
from sfumato.api.question import Question, Released
from sfumato.api.table import Table
from sfumato.catalogs.declarations import (
    TableDeclaration,
    bounds_note,
    exceeded_limit_message,
    groups_note,
    limit_note,
    product,
    unused_note,
)
from sfumato.dataclass import dataclass
from sfumato.errors import QueryError
from sfumato.exact import as_int
from sfumato.query.aggregates import Aggregate, Filled, Unbounded, check_aggregates
from sfumato.query.schema import Derive
from sfumato.query.tables.combined_tables import (
    MAX_ROWS,
    Combination,
    JoinKind,
    Union,
    list_key_pairs,
    with_units,
)
from sfumato.query.tables.dummy_rows import Known
from sfumato.query.tables.public_table import PublicTable

Origin = tuple[TableDeclaration, str]


@dataclass(frozen=True, repr=False)
class DeclaredTable(Table[Released]):
    """A private table of a catalog, as `Catalog.table` returns it, with the methods of `Table`.

    Declarations are about the source's own columns; a derived or replaced column has none. `agg` completes a
    question with them; nothing comes from rows.

    >>> import pyarrow as pa, sfumato as sf
    >>> rows = pa.table({"id": [1, 2], "town": ["Ulm", "Bonn"], "age": [30, 40]})
    >>> columns = {"age": {"lower": 0, "upper": 120}, "town": {"domain": ["Ulm", "Bonn", "Jena"]}}
    >>> people = {"source": rows, "privacy_unit": "id", "max_groups": 1, "max_rows": 1, "columns": columns}
    >>> table = sf.catalog({"tables": {"people": people}}).table("people")
    >>> question = table.group_by("town").agg(mean=sf.mean("age"))
    >>> print(question.table.notes[0])
    groups was not given, so it is 1, the most that catalog: tables.people allows.
    """

    declared: TableDeclaration = field(kw_only=True)
    by_domains: bool = False
    # Of columns that a join left as they are: the table they are of, and their name there.
    origins: Mapping[str, Origin] | None = field(default=None, kw_only=True)

    def _check_limits(self) -> None:
        """Refuse limits above the declared ones."""
        limits = self.declared.max_groups, self.declared.max_rows
        # A unit's rows may all be in one group, or each in another.
        limit_of_all = min((limit for limit in limits if limit is not None), default=None)
        given_limits = self.groups, self.rows, self.total_rows
        names = "groups", "rows", "total_rows"
        for name, given, limit in zip(names, given_limits, (*limits, limit_of_all), strict=True):
            if given is not None and limit is not None and given > limit:
                raise QueryError(f"bound: {exceeded_limit_message(self.declared, name, given, limit)}")

    def group_by(self, *columns: str, keys: Any = None) -> DeclaredTable[Released]:
        """Group by columns; if the catalog declares domains for all, their values are the groups.

        Args:
            columns: the columns to group by. If the catalog declares domains for all of them, all
                combinations of their values are the groups, as public knowledge.
            keys: other groups; or "private" to choose groups privately.
        Returns:
            A grouped table; the original does not change.
        Raises:
            QueryError: as for any table; or the domains have more than 1,000,000 groups together.
        """
        domains = self._domains(columns) if keys is None else None
        given = keys if domains is None else product(columns, domains)
        grouped = cast("DeclaredTable[Released]", super().group_by(*columns, keys=given))
        return replace(grouped, by_domains=domains is not None)

    @property
    def _known(self) -> Mapping[str, Known]:
        """Return the declared bounds and domains of the table's columns, for dummy rows."""
        by_fold = {column.name.casefold(): column for column in self.declared.columns}
        found = {name: by_fold.get(name.casefold()) for name in self._engine.schema()}
        return {name: Known(one.bounds, one.domain) for name, one in found.items() if one is not None}

    def agg(self, /, *unnamed: Aggregate, **aggregates: Aggregate) -> Question[Released]:
        """Query aggregates of each group; the declaration supplies missing bounds and limits.

        Raises:
            QueryError: as for any table.
        """
        check_aggregates(aggregates.items())
        bounded = {name: self._apply_bounds(name, asked) for name, asked in aggregates.items()}
        one_row = cast("DeclaredTable[Released]", self._limit_to_one_row(bounded.values()))
        table = one_row._limited(bounded.values())
        notes = dict.fromkeys([*table.notes, *self._notes(aggregates.values())])
        return Table.agg(replace(table, notes=tuple(notes)), *unnamed, **bounded)

    def top(
        self, *columns: str, k: int, by: Any = None, keys: Any = None, candidates: int | None = None
    ) -> Top:
        """Query the k largest groups of a declared table; declared domains make public groups.

        The catalog's limits do not apply: a unit counts in all of its groups.
        """
        if isinstance(by, Unbounded):
            raise QueryError(
                "top: by needs bounds on what a unit adds to a group, but those in "
                f"{self.declared.where} are for single rows. Write sf.sum({by.column!r}, "
                "lower=..., upper=...)"
            )
        return super().top(*columns, k=k, by=by, keys=keys, candidates=candidates)

    @property
    def _max_limits(self) -> tuple[int, int]:
        """The largest limits of groups and rows that a release may infer: the declared ones."""
        groups, rows = super()._max_limits
        return self.declared.max_groups or groups, self.declared.max_rows or rows

    @property
    def _notes_of_top(self) -> tuple[str, ...]:
        """The notes on the largest groups, with declared limits that have no effect."""
        limits = {"max_groups": self.declared.max_groups, "max_rows": self.declared.max_rows}
        unused = [unused_note(self.declared, name) for name, limit in limits.items() if limit is not None]
        return (*self._all_notes, *self._notes(()), *unused)

    def join(
        self,
        other: Table[Any] | PublicTable,
        *,
        on: str | Sequence[str] | Sequence[tuple[str, str]] | Mapping[str, str],
        how: JoinKind = "inner",
        rows: int = MAX_ROWS,
        unit_rows: int | None = None,
    ) -> DeclaredTable[Released]:
        """Join columns of another table, as `Table.join`.

        If `on` has a foreign key that the catalog declares and the columns that it references, the privacy
        units are matched too, without being named. `unit_rows` is at most what the catalog declares for these
        tables, and that by default.
        """
        unit_rows = self._joined_rows(other, unit_rows)
        if not isinstance(other, DeclaredTable):
            made = super().join(other, on=on, how=how, rows=rows, unit_rows=unit_rows)
            return cast("DeclaredTable[Released]", made)
        pairs, units = with_units(list_key_pairs(on), self._part, other._part), (self.unit, other.unit)
        if any(_names(self._origin(here), other._origin(there)) for here, there in pairs):
            pairs = pairs if units in pairs else (*pairs, units)
        found_rows = super().join(other, on=pairs, how=how, rows=rows, unit_rows=unit_rows)
        joined = cast("DeclaredTable[Released]", found_rows)
        old = [name for name in other.schema if name not in {there for _, there in pairs}]
        new = list(joined.schema)[len(self.schema) :]
        found = {name: self._origin(name) for name in self.schema}
        found |= {name: other._origin(was) for name, was in zip(new, old, strict=True)}
        origins = {name: origin for name, origin in found.items() if origin is not None}
        return replace(joined, declared=joined.declared.joined_with([other.declared]), origins=origins)

    def union(self, other: Table[Any]) -> DeclaredTable[Released]:
        """Add the rows of another table, as `Table.union`; the declared limits of both tables apply."""
        made = cast("DeclaredTable[Released]", super().union(other))
        others = [other.declared] if isinstance(other, DeclaredTable) else []
        return replace(made, declared=made.declared.joined_with(others))

    def _joined_rows(self, other: object, value: int | None) -> int | None:
        """Return the limit of joined rows per unit: the given one, or the declared limit of both tables."""
        asked = as_int(value)  # what is no whole number is refused where it is joined
        for table in (self, other):
            declared = table.declared if isinstance(table, DeclaredTable) else None
            limit = None if declared is None else declared.max_joined_rows
            if declared is not None and limit is not None and asked is not None and asked > limit:
                raise QueryError(f"join: {exceeded_limit_message(declared, 'unit_rows', asked, limit)}")
        limits = [t.declared.max_joined_rows for t in (self, other) if isinstance(t, DeclaredTable)]
        return min((one for one in limits if one is not None), default=None) if value is None else value

    def _origin(self, column: str) -> Origin | None:
        """Return the declared table and column that a column comes from; None where a step computed it."""
        for step in reversed(self._steps):
            if isinstance(step, Derive) and step.name.casefold() == column.casefold():
                quoted = re.fullmatch('"((?:[^"]|"")*)"', step.expression)  # as SQL qualifies columns
                if quoted is None:
                    return None
                column = quoted[1].replace('""', '"')
        return (self.declared, column) if self.origins is None else self.origins.get(column)

    def _combine(self, how: Combination, *notes: str) -> DeclaredTable[Released]:
        """Return the combined table, with the declarations of columns that stay unchanged."""
        kept = [
            replace(column, name=new)
            for old, new in (() if isinstance(how, Union) else how.kept[0][1])
            for column in self.declared.columns
            if column.name.casefold() == old.casefold() and self._is_declared(old)
        ]
        combined = cast("DeclaredTable[Released]", super()._combine(how, *notes))
        return replace(combined, declared=replace(self.declared, columns=tuple(kept)), origins={})

    def _is_declared(self, column: str) -> bool:
        """Whether a column is the declared one, and not computed by a step."""
        derived = {step.name.casefold() for step in self._steps if isinstance(step, Derive)}
        return column.casefold() not in derived

    def _domains(self, columns: Sequence[str]) -> Any:
        """Return the declared domains of group keys; None where one is computed or has none."""
        if not all(isinstance(c, str) and c in self.schema and self._is_declared(c) for c in columns):
            return None  # what is wrong with it is said where groups are made
        return self.declared.domains(columns)

    def _apply_bounds(self, name: str, aggregate: Aggregate) -> Aggregate:
        """Return an aggregate with bounds from the table's declaration, where it has none."""
        if isinstance(aggregate, Filled):
            return replace(aggregate, of=self._apply_bounds(name, aggregate.of))
        if not isinstance(aggregate, Unbounded):
            return aggregate
        column = aggregate.column
        if column not in self.schema:
            return aggregate  # which is said where the question is checked
        bounds = self.declared.bounds(column) if self._is_declared(column) else None
        if bounds is None:
            raise aggregate.refusal(self._declaring(column))
        if dict(aggregate.options).get("per") == "unit":
            raise QueryError(
                f"agg: {name} needs bounds on what a unit adds to a group, but those in "
                f"{self.declared.where} are for single rows. Write sum({column!r}, lower=..., "
                "upper=..., per='unit'), or leave per out"
            )
        return aggregate.bounded(*bounds)

    def _declaring(self, column: str) -> str:
        """Suggest where bounds of a column of this declared table could be declared."""
        where, origin = self.declared.where, self._origin(column)
        if origin is not None and self._is_declared(column):
            return f", or declare lower and upper of {origin[1]} in {origin[0].where}"
        if self.declared.bounds(column) is not None:
            return (
                f"; the bounds in {where} are for the source's {column}, not for the column from with_columns"
            )
        return f"; the question derives {column}, so bounds in {where} cannot be used"

    def _limited(self, aggregates: Iterable[Aggregate]) -> DeclaredTable[Released]:
        """Return the table with the declared limits that an aggregate needs and the query lacks."""
        if self.total_rows is not None:
            return self
        groups, rows, notes = self.groups, self.rows, list(self.notes)
        if groups is None and self.keys and self.declared.max_groups is not None:
            groups = self.declared.max_groups
            notes.append(limit_note(self.declared, "groups", groups))
        if rows is None and self.declared.max_rows is not None and any(a.needs_rows for a in aggregates):
            rows = self.declared.max_rows
            notes.append(limit_note(self.declared, "rows", rows))
        return replace(self, groups=groups, rows=rows, notes=tuple(notes))

    def _notes(self, aggregates: Iterable[Aggregate]) -> list[str]:
        """Return the notes on bounds and groups that come from the table's declaration."""
        found = []
        domains = self.declared.domains(self.keys) if self.by_domains else None
        if domains is not None:
            found.append(groups_note(self.declared, self.keys, domains))
        for one in (aggregate.each for aggregate in aggregates):
            bounds = self.declared.bounds(one.column) if isinstance(one, Unbounded) else None
            if isinstance(one, Unbounded) and bounds is not None:
                found.append(bounds_note(self.declared, one.column, bounds))
        return found


def _names(one: Origin | None, other: Origin | None) -> bool:
    """Whether one of two columns is a declared foreign key to the other."""
    if one is None or other is None:
        return False
    for (table, column), (there, name) in ((one, other), (other, one)):
        key = table.foreign_key
        if key is not None and (key.column.casefold(), key.table, key.key.casefold()) == (
            column.casefold(),
            there.name,
            name.casefold(),
        ):
            return True
    return False
