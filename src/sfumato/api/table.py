"""The private table of the API: filter, derive, join, group, bound, and ask."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, Self

import pyarrow as pa

from sfumato.api.largest_groups import Top
from sfumato.api.question import Question, Released
from sfumato.dataclass import dataclass
from sfumato.display.cards import Card, Displayed
from sfumato.errors import ArgumentError, ColumnError, ParameterError, QueryError
from sfumato.exact import one_of, positive_int, truth_value
from sfumato.names import SuggestingArguments, foreign_names, not_a_column
from sfumato.query.aggregates import Aggregate, Filled, Unbounded, check_aggregates
from sfumato.query.engine_protocol import BroughtKeys, Engine
from sfumato.query.group_totals import GroupingSets, grouping_sets
from sfumato.query.option_names import BEYOND_CHOICES, BeyondChoice
from sfumato.query.schema import (
    IN_PLACE,
    Derive,
    Filter,
    Schema,
    Step,
    check_expression,
    check_flat,
)
from sfumato.query.table_display import table_card, table_line
from sfumato.query.tables.combined_tables import (
    MAX_ROWS,
    Combination,
    JoinKind,
    distinct,
    is_in,
    join,
    per_unit,
    union,
)
from sfumato.query.tables.dummy_rows import MADE_UP, Known, Making
from sfumato.query.tables.public_table import PublicTable
from sfumato.query.tables.shaped_tables import Computed, Renamed, Select, Window, WindowCall, WithValue
from sfumato.query.tables.table_part import Part, UnitPart

LARGEST_LIMIT = 10**9
SHARED_GROUPS = 1_000  # of a unit that shares a weight among its groups; a larger number shows fewer
# Types of which some values are no key of a group: days and times beyond the years 1 to 9999, 39 digits.
_NOT_ALL_KEYS = "DATE", "TIME", "HUGEINT"
PRIVATE = "private"  # in the place of public keys: groups are chosen privately

_NO_UNIT = (
    "an expression alone cannot be a privacy unit: derive a column before sf.scan, as in "
    "docs/howto/messy_csv.md, or add it to a column for a smaller unit, as in ['id', 'year(day)']"
)


@dataclass(frozen=True, repr=False)
class Table(SuggestingArguments, Displayed, Generic[Released]):
    """A private table to filter, derive, group, bound and query; every method returns a new table.

    Made by `sfumato.scan`. Until a release is drawn, only names and types of columns are read.

    Attributes:
        unit: the privacy unit's column.
        keys: the columns to group by.
        groups, rows, total_rows: contribution limits; None if not set.
        notes: what an analyst should know about the table.
    """

    _foreign = foreign_names.TABLE | foreign_names.ASKED

    _engine: Engine[Released]
    unit: str
    _steps: tuple[Step, ...] = ()
    keys: tuple[str, ...] = ()
    _public_keys: pa.Table | BroughtKeys | None = None
    groups: int | None = None
    rows: int | None = None
    notes: tuple[str, ...] = ()
    _beyond: BeyondChoice = "auto"
    _unit_parts: tuple[UnitPart, ...] = ()
    total_rows: int | None = None
    _grouping: GroupingSets | None = None
    # Of `groups` and `rows`, which stand in here for what a release is to find.
    _auto_limits: tuple[str, ...] = ()
    _shared: bool = False

    def __post_init__(self) -> None:
        schema = self.schema
        if not isinstance(self.unit, str):
            raise ParameterError("privacy_unit", self.unit, "the name of a column, as text")
        if self.unit not in schema:
            nobody = "for a table without a privacy unit, use sf.public"
            raise ColumnError._unknown(
                self.unit, schema, "privacy_unit", _NO_UNIT if "(" in self.unit else "", also=nobody
            )
        # A unit of several parts compares well; bytes too, but they print badly.
        if not self._unit_parts and schema[self.unit].type_name not in ("BLOB", "BIT"):
            check_flat("privacy_unit", self.unit, schema, "in the source, before scan")
        self._check_limits()

    def _check_limits(self) -> None:
        """Check the limits that are set against those that a catalog declares; without one, do nothing."""

    def _advice(self, name: str) -> Mapping[str, str]:
        if "_engine" not in vars(self) or name not in self.schema:
            return self._foreign
        return {name: f"name a column as text: group_by({name!r}), sf.count({name!r})"}

    if not TYPE_CHECKING:

        def __getitem__(self, _: object) -> Any:
            raise ArgumentError(foreign_names.INDEXED)

    @cached_property
    def schema(self) -> Schema:
        """The columns of the private table by name, with what is known about their types."""
        return self._engine.schema(self._steps)

    def filter(self, expression: str) -> Table[Released]:
        """Keep the rows for which a SQL expression is true.

        Args:
            expression: a DuckDB SQL expression over the columns of one row, without aggregates, windows,
                subqueries or random functions. Rows for which it fails or is NULL are dropped.
        Returns:
            A table with these rows; the original does not change.
        Raises:
            QueryError: the expression is not supported or names an unknown column.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2], "minutes": [30, 45, 200]}), privacy_unit="id")
        >>> visits.filter("minutes BETWEEN 1 AND 120")
        <Table (read with DuckDB): 2 columns; privacy unit id; keep rows where minutes BETWEEN 1 AND 120>
        """
        return self._with_step(Filter(check_expression("filter", expression)))

    def with_columns(self, /, **expressions: str) -> Table[Released]:
        """Add or replace columns by SQL expressions over one row; a row where an expression fails has NULL.

        Args:
            expressions: DuckDB SQL expressions over the columns of one row, by the name of the new column.
        Returns:
            A table with these columns; the original does not change.
        Raises:
            QueryError: an expression is not supported, or would replace the privacy unit.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2], "minutes": [30, 45, 200]}), privacy_unit="id")
        >>> list(visits.with_columns(hours="minutes / 60", long="minutes > 120").schema)
        ['id', 'minutes', 'hours', 'long']
        """
        table = self
        for name, expression in expressions.items():
            if name.casefold() == self.unit.casefold():
                raise QueryError(
                    f"with_columns: {name!r} is the privacy unit, which cannot be redefined. Clean "
                    "it before scan: duckdb.sql(\"SELECT trim(id) AS who, * FROM 'rows.csv'\"), "
                    'privacy_unit="who"'
                )
            table = table._with_step(Derive(name, check_expression("with_columns", expression)))
        return table

    def join(
        self,
        other: Table[Any] | PublicTable,
        *,
        on: str | Sequence[str] | Sequence[tuple[str, str]] | Mapping[str, str],
        how: JoinKind = "inner",
        rows: int = MAX_ROWS,
        unit_rows: int | None = None,
    ) -> Table[Released]:
        """Join columns of another table where values are equal.

        Args:
            other: a public table (`sfumato.public`), or a private one with the same privacy units.
            on: the columns to match, which have the same types: a name, several names, or pairs such as
                {"here": "there"}. For a private table they include the privacy units, or all parts of
                composite ones. NULL equals nothing.
            how: "inner", or "left" to also keep rows without a match, with NULL in the other's columns.
            rows: for a private table, the most rows of a unit to match that have the same values in `on`; at
                most 10,000. A public table has no such limit.
            unit_rows: at most 10,000,000; None means 100,000, or what a catalog declares. With a private
                table, a unit has at most this many joined rows, or as many as it has in one of the tables;
                further rows are dropped before they are joined. With a public table, a release is refused, at
                no charge, if this and earlier joins could turn one row into more rows.
        Returns:
            The table with the other's columns; a column whose name is taken becomes `<name>_right`.
            Contribution limits apply after the join: a row with three matches is three rows.
        Raises:
            QueryError: types differ, the privacy units are not matched, or the engine cannot join tables.
        Source:
            docs/many_tables.md.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2], "town": ["A", "B", "A"]}), privacy_unit="id")
        >>> regions = sf.public(pa.table({"town": ["A", "B"], "region": ["north", "south"]}))
        >>> list(visits.join(regions, on="town").schema)
        ['id', 'town', 'region']
        """
        self._check_ungrouped("join")
        if not isinstance(other, (Table, PublicTable)):
            raise ParameterError("join", type(other).__name__, "a table that sf.scan or sf.public has opened")
        if isinstance(other, Table):
            other._check_ungrouped("join")
        return self._combine(join(self._part, other._part, on, how, rows, unit_rows), *other.notes)

    def union(self, other: Table[Any]) -> Table[Released]:
        """Add the rows of another private table with the same units, columns and types.

        Args:
            other: a private table of the same engine with the same privacy unit.
        Returns:
            A table with the rows of both; a unit with rows in both is one unit.
        Raises:
            QueryError: the columns differ, or the other table is public.
        Source:
            docs/many_tables.md.

        >>> import pyarrow as pa, sfumato as sf
        >>> spring = sf.scan(pa.table({"id": range(3_000)}), privacy_unit="id")
        >>> autumn = sf.scan(pa.table({"id": range(1_000, 4_000)}), privacy_unit="id")
        >>> release = spring.union(autumn).agg(people=sf.count_units()).release(epsilon=1)
        >>> round(release.to_arrow()["people"][0].as_py(), -3)  # 2,000 of them are in both
        4000
        """
        self._check_ungrouped("union")
        if not isinstance(other, (Table, PublicTable)):
            raise ParameterError("union", type(other).__name__, "a table that sf.scan has opened")
        if isinstance(other, Table):
            other._check_ungrouped("union")
        return self._combine(union(self._part, other._part), *other.notes)

    def per_unit(self, /, *by: str, **aggregates: str) -> Table[Released]:
        """Aggregate the rows of each privacy unit to one row, or to one row for each value of some columns.

        Args:
            by: columns to keep besides the unit.
            aggregates: SQL, each with one aggregate: count(*), or count(x), count(DISTINCT x), sum, avg, min,
                max, bool_and or bool_or of an expression over one row, optionally with FILTER (WHERE ...).
        Returns:
            A table with the unit, `by` and the aggregates.
        Raises:
            QueryError: an aggregate is not supported or names an unknown column.
        Source:
            docs/many_tables.md.

        >>> import pyarrow as pa, sfumato as sf
        >>> orders = sf.scan(pa.table({"id": [1, 1, 2], "price": [3, 4, 5]}), privacy_unit="id")
        >>> list(orders.per_unit(orders="count(*)", spent="sum(price)").schema)
        ['id', 'orders', 'spent']
        """
        self._check_ungrouped("per_unit")
        return self._combine(per_unit(self._part, by, aggregates))

    def sql(
        self, text: str, *, tables: Mapping[str, Table[Any] | PublicTable] | None = None
    ) -> Table[Released]:
        """Return a table from unit-local SQL: each row depends on one unit's rows and public tables only.

        Args:
            text: a SELECT in which `self` is this table. Its list includes the privacy unit.
            tables: other tables from `sfumato.scan` and `sfumato.public`, by their names in the text.
        Returns:
            The table; its privacy unit has the name that the text gives it.
        Raises:
            SqlError: the text is not of this form; the error shows the place and what to write.
            ParameterError: a value in `tables` does not come from `sfumato.scan` or `sfumato.public`.
            QueryError: the table already has groups, limits or totals.
        Source:
            docs/sql.md, "SQL inside".

        >>> import pyarrow as pa, sfumato as sf
        >>> orders = sf.scan(pa.table({"id": [1, 1, 2], "price": [3, 4, 5]}), privacy_unit="id")
        >>> list(orders.sql("SELECT id, count(*) AS n FROM self GROUP BY id HAVING n > 1").schema)
        ['id', 'n']
        """
        self._check_ungrouped("sql")
        known: dict[str, Any] = {**(tables or {}), "self": self}
        for name, table in known.items():
            if not isinstance(table, (Table, PublicTable)):
                raise ParameterError(
                    f"tables[{name!r}]", type(table).__name__, "a table of sf.scan or sf.public"
                )
            if isinstance(table, Table):
                table._check_ungrouped("sql")
        made: Table[Released] = self._engine.unit_local(text, known)
        return made

    def group_by(self, *columns: str, keys: Any = None) -> Table[Released]:
        """Group the table by one or more columns.

        Args:
            columns: the columns to group by. Without any, there is one group with all rows.
            keys: the groups, if they are public knowledge: a list of values for one column, a list of tuples
                for several, or an array or table from Arrow, NumPy, pandas or Polars. On Spark they can be a
                data frame, and on Beam a schema that `sfumato.beam.named` names, for a collection from the
                pipeline. The output has every one of these groups, even those without rows. Without keys, or
                with "private", groups are chosen privately.
        Returns:
            A grouped table; the original does not change.
        Raises:
            QueryError: a column is unknown, the privacy unit is a key, or keys do not fit the columns.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2], "town": ["A", "B", "A"]}), privacy_unit="id")
        >>> visits.group_by("town", keys=["A", "B", "C"])
        <Table (read with DuckDB): 2 columns; privacy unit id; group by town (3 public groups)>
        >>> visits.group_by("town")
        <Table (read with DuckDB): 2 columns; privacy unit id; group by town (chosen privately)>
        """
        if self._grouping is not None:
            raise QueryError(
                "group_by: totals were requested for the earlier groups, and would be lost. Write "
                "totals after the last group_by"
            )
        schema = self.schema
        for key in columns:
            if not isinstance(key, str):
                raise ParameterError("group_by", key, 'names of columns, as in group_by("town", "year")')
            if key not in schema:
                raise ColumnError._unknown(key, schema, "group_by", not_a_column(key, schema))
            if key == self.unit:
                raise QueryError(
                    f"group_by: {key!r} is the privacy unit, and a group for each unit is not "
                    "private. Group by a column that many units share"
                )
            check_flat("group_by", key, schema, IN_PLACE)
        if len(set(columns)) < len(columns):
            raise QueryError(f"group_by: {list(columns)} names a column twice")
        if keys is not None and not columns:
            raise QueryError('group_by: public keys need their columns. Write group_by("town", keys=[...])')
        chosen = keys is None or (isinstance(keys, str) and keys == PRIVATE)
        table = None if chosen else self._engine.public_keys(columns, keys, self._steps)
        return self._with(keys=columns, _public_keys=table)

    def totals(self, *sets: Sequence[str], cube: bool = False, integer: bool = False) -> Table[Released]:
        """Add totals of public groups that agree with the groups' numbers, in rows whose keys are NULL.

        Args:
            sets: lists of key names; each list adds a row for each combination of their values. The default
                is ROLLUP: all keys, all but the last, and so on to the grand total, `[]`.
            cube: add all sets of keys.
            integer: make counts, and sums of whole numbers, whole; and not negative where exact ones cannot
                be.
        Returns:
            The table. Its release has a column `grouping` after the keys: 0 for groups. For totals it has one
            bit for each key that is NULL because the row covers all its values; the first key's bit is the
            highest.
        Raises:
            QueryError: the table has no keys, or a set names something else.
        Source:
            docs/totals.md.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2], "town": ["A", "B", "A"]}), privacy_unit="id")
        >>> towns = visits.group_by("town", keys=["A", "B"]).totals(integer=True).bound(groups=2, rows=1)
        >>> shown = towns.agg(n=sf.count()).release(epsilon=1, delta="1e-6").to_arrow()
        >>> shown["town"].to_pylist(), shown["grouping"].to_pylist()
        (['A', 'B', None], [0, 0, 1])
        """
        truth_value(cube, "cube")
        truth_value(integer, "integer")
        return self._with(_grouping=grouping_sets(self.keys, sets, cube, integer))

    def top(
        self,
        *columns: str,
        k: int,
        by: Any = None,
        keys: Any = None,
        candidates: int | None = None,
    ) -> Top:
        """Query the k largest groups, ranked by units or by a sum; a unit may be in any number of groups.

        Args:
            columns: the columns to group by, at least one.
            k: how many groups, from 1 to 100,000.
            by: `sf.sum(column, lower=, upper=)`, with bounds on what a unit adds to a group; None to rank by
                units.
            keys: the groups, if they are public knowledge, as for `group_by`; the release shows k of them.
                Without keys it shows at most k and needs a delta. On Beam they can be a schema from
                `sfumato.beam.named`.
            candidates: the number of largest private groups from which the release chooses; None means 10 k,
                and at least 100.
        Returns:
            A `Top`. Its `release(epsilon=..., delta=...)` returns a table of ranks and keys, with noisy
            numbers unless you turn them off.
        Raises:
            QueryError: a column or a key does not fit, or the table has contribution limits.
        Source:
            docs/statistics.md, "The largest groups".

        >>> import pyarrow as pa, sfumato as sf
        >>> orders = sf.scan(pa.table({"id": [1, 1, 2], "product": ["tea", "jam", "tea"]}), privacy_unit="id")
        >>> orders.top("product", k=10).release(epsilon=1, delta="1e-6")
        <TopRelease of 10 by product; epsilon=1, delta=1e-06>
        """
        if (self.groups, self.rows, self.total_rows) != (None, None, None):
            raise QueryError("top: a privacy unit counts in all of its groups, however many. Leave bound out")
        if not columns:
            raise QueryError('top: name the columns to group by, such as top("product", k=10)')
        table = self.group_by(*columns, keys=keys)
        return Top(
            self._engine,
            self.schema,
            self.unit,
            self._steps,
            columns,
            table._public_keys,
            k,
            candidates,
            table._notes_of_top,
            by,
        )

    @property
    def _notes_of_top(self) -> tuple[str, ...]:
        """Notes on asking the table for the largest of these groups."""
        return self._all_notes

    @property
    def _all_notes(self) -> tuple[str, ...]:
        """Notes on the table for explanations: its source, and the time zone of its times."""
        zoned = any("TIME ZONE" in self.schema[key].type_name for key in self.keys)
        if not zoned and not self._engine.reads_zone(self._steps):
            return self.notes
        zone = self._engine.timezone
        return (*self.notes, f"Times with a zone are read in the time zone {zone} (timezone= names another).")

    def bound(
        self,
        *,
        groups: int | Literal["auto", "shared"] | None = None,
        rows: int | Literal["auto"] | None = None,
        beyond: BeyondChoice | None = None,
        total_rows: int | None = None,
    ) -> Table[Released]:
        """Limit the contribution of each privacy unit, by `groups` and `rows` or by `total_rows` alone.

        Args:
            groups: the most groups in which a unit counts. "shared" releases the keys of private groups and
                takes no aggregates in agg(): a unit in t groups, at most 1,000, adds 1/sqrt(t) to each.
            rows: the most rows of a unit that count in a group; the contribution of a unit with more is
                scaled down. Leave it out if each unit has one row by construction, as after `per_unit`.
            beyond: how a unit in more than `groups` groups contributes. "sample": to a random choice of them.
                "scale", for public groups: a unit in j groups contributes the fraction groups/j to each.
                "auto": "scale" for public groups without quantiles, otherwise "sample".
            total_rows: the most rows of a unit that count over all groups together; further rows are dropped
                at random. Use it for units whose rows may all be in one group or all in different groups.
        Returns:
            A table with these limits; the original does not change.
        Raises:
            ParameterError: a limit is not a whole number of at least 1, or `beyond` is not one of these
                values.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2], "town": ["A", "B", "A"]}), privacy_unit="id")
        >>> towns = visits.group_by("town", keys=["A", "B"])
        >>> questions = [towns.bound(groups=1, rows=rows).agg(n=sf.count()) for rows in (1, 5)]
        >>> [round(one.plan(epsilon=1).expected["n"], 1) for one in questions]  # errors grow with limits
        [1.4, 7.1]

        `groups` and `rows` may be "auto". A release then infers them with a noisy query of what units
        contribute, for a share of its epsilon, and reports them in `found` (docs/choosing.md).
        """
        shared = isinstance(groups, str) and groups == "shared"
        if shared:
            groups = min(SHARED_GROUPS, self._max_limits[0])
        limits = ("groups", groups), ("rows", rows), ("total_rows", total_rows)
        given: dict[str, Any] = {n: 1 if _is_auto(n, v) else _limit(v, n) for n, v in limits if v is not None}
        kept = [n for n in self._auto_limits if n not in given]
        if groups is not None:
            given["_shared"] = shared
        given["_auto_limits"] = (*kept, *(n for n, v in limits if _is_auto(n, v)))
        if beyond is not None:
            given["_beyond"] = one_of(beyond, "beyond", BEYOND_CHOICES)
        return self._with(**given)

    def for_analysts(self) -> Table[Released]:
        """Return the table for analysts, who may see releases and nothing exact.

        The table and everything made from it refuse `analyze`, `sf.check`, and random words whose noise is
        known.

        Returns:
            The table; the original does not change.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 2]}), privacy_unit="id").for_analysts()
        >>> visits.agg(n=sf.count_units()).analyze(epsilon=1)
        Traceback (most recent call last):
        sfumato.errors.RefusalError: analyze: this table was opened for analysts, who must not see ...
        """
        return replace(self, _engine=self._engine.for_analysts())

    def dummy(self, *, rows: int = 1_000, units: int | None = None, seed: int = 0) -> Table[Any]:
        """Return a table of dummy rows with the same columns, for trying queries at no cost.

        Dummy rows depend on names and types of columns and on what a catalog declares; the data is not read.
        The table takes every query that the original takes, in this process, without spending a budget.
        Explanations, answers on the command line and receipts say that the rows are dummies.

        Args:
            rows: the number of rows.
            units: the number of privacy units; the default is a quarter of the rows.
            seed: the same seed makes the same rows, another seed makes others.
        Returns:
            A table of dummy rows.
        Raises:
            ParameterError: a number is out of range.
            QueryError: the table is derived from others or grouped, or its types were guessed from rows.
        Source:
            docs/dummy.md.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.schema({"id": pa.int64(), "town": pa.string()}), privacy_unit="id")
        >>> visits.dummy().agg(people=sf.count_units()).release(epsilon=1)
        <Release of people; epsilon=1, delta=0, of dummy rows>
        """
        self._check_ungrouped("dummy")
        making = Making.from_options(rows, units, seed)
        columns = [part.text for part in self._unit_parts] or [self.unit]
        unit = next((name for name in columns if name in self._engine.schema()), None)
        made = self._engine.dummy(making, unit, self._known)
        return replace(self, _engine=made, notes=(MADE_UP, *self.notes))

    @property
    def _known(self) -> Mapping[str, Known]:
        """What a catalog declares of the table's columns; nothing without one."""
        return {}

    def agg(self, /, *unnamed: Aggregate, **aggregates: Aggregate) -> Question[Released]:
        """Query aggregates of each group; their names become the output columns.

        Args:
            unnamed: always empty, because each aggregate needs a name.
            aggregates: aggregates such as `sfumato.count()`, by output column.
        Returns:
            A Question; it reads nothing until you release it.
        Raises:
            QueryError: an aggregate has no name, does not fit its column, or lacks a limit.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2], "minutes": [30, 45, 200]}), privacy_unit="id")
        >>> visits.bound(rows=3).agg(visits=sf.count(), mean=sf.mean("minutes", lower=0, upper=120))
        <Question: visits, mean>
        """
        if unnamed:
            raise QueryError("agg: give each aggregate a name, such as agg(n=sf.count())")
        check_aggregates(aggregates.items())
        return Question(*self._limit_to_one_row(aggregates.values())._fill_missing(aggregates))

    def _fill_missing(
        self, aggregates: Mapping[str, Aggregate]
    ) -> tuple[Self, tuple[tuple[str, Aggregate], ...]]:
        """Derive columns in which missing values are replaced; return the table and aggregates of these."""
        made: dict[Derive, str] = {}
        found = []
        for name, asked in aggregates.items():
            of = asked.of if isinstance(asked, Filled) else asked
            column = self.schema.get(asked.column) if isinstance(asked, Filled) else None
            # What is wrong with others is said of the column that they name.
            if isinstance(asked, Filled) and column and column.kind.numeric and not isinstance(of, Unbounded):
                step = asked.step(self.schema)
                new, taken = step.name, {one.casefold() for one in (*self.schema, *made.values())}
                while step not in made and new.casefold() in taken:
                    new = f"_{new}"
                own = {one: one for one in of.columns} | {asked.column: made.setdefault(step, new)}
                of = of.of_columns(own)
            found.append((name, of))
        steps = tuple(replace(step, name=name) for step, name in made.items())
        return replace(self, _steps=(*self._steps, *steps)), tuple(found)

    def _limit_to_one_row(self, aggregates: Collection[Aggregate]) -> Table[Released]:
        """Take the limit of 1 row, if the table's rows are such that a unit has one in a group."""
        given = self.rows is not None or self.total_rows is not None
        if given or not any(a.needs_rows for a in aggregates):
            return self
        unique = self._engine.unique(self._steps)
        if not unique or not set(unique) <= {self.unit, *self.keys}:
            return self
        note = "rows was not given: in this table, a privacy unit has at most one row in a group."
        if any(self.schema[key].type_name.startswith(_NOT_ALL_KEYS) for key in self.keys):
            note += (
                " Values that cannot be keys, such as infinite dates, are in the group of NULL, in "
                "which it counts as one row."
            )
        return self._with(rows=1, notes=(*self.notes, note))

    def _with(self, **settings: Any) -> Self:
        """Return the table with other groups, limits or notes; its columns and unit stay as they are."""
        table = copy(self)
        vars(table).update(settings)
        table._check_limits()
        return table

    def _card(self) -> Card:
        return table_card(self)

    def __repr__(self) -> str:
        return table_line(self)

    def _in_messages(self) -> str:
        titles = self._engine.titles
        return f"the table {titles[0]!r}" if len(titles) == 1 else "a table"

    @property
    def _max_limits(self) -> tuple[int, int]:
        """The largest limits of groups and rows that a release of the table may infer."""
        return LARGEST_LIMIT, LARGEST_LIMIT

    @property
    def _part(self) -> Part:
        return Part(self._engine, self._steps, self.unit, self._unit_parts)

    def _combine(self, how: Combination, *notes: str) -> Table[Released]:
        notes = tuple(dict.fromkeys([*self.notes, *notes, *how.notes]))
        unit = how.unit if isinstance(how, Select) else self.unit
        return replace(self, _engine=self._engine.combined(how), unit=unit, _steps=(), notes=notes)

    @property
    def _ungrouped(self) -> Table[Released]:
        """The table without groups and limits, and without those of a catalog."""
        return Table(self._engine, self.unit, self._steps, notes=self.notes, _unit_parts=self._unit_parts)

    def _check_ungrouped(self, where: str) -> None:
        if self.keys:
            raise QueryError(f"{where}: call it before group_by")

    def _with_step(self, step: Step) -> Table[Released]:
        if self.keys:
            raise QueryError("filter and with_columns come before group_by")
        return replace(self, _steps=(*self._steps, step))


def _limit(value: object, name: str) -> int:
    if isinstance(value, str) and name != "total_rows" and not value.strip("+- ").isdecimal():
        raise ParameterError(name, value, 'a whole number of at least 1, or "auto", which chooses one')
    number = positive_int(value, name)
    if number > LARGEST_LIMIT:
        raise ParameterError(name, value, f"at most {LARGEST_LIMIT:,}, beyond which it limits nothing")
    return number


def _is_auto(name: str, value: object) -> bool:
    """Whether a table's limit is left to the release; that of rows in all groups cannot be."""
    return name != "total_rows" and isinstance(value, str) and value == "auto"


def select_columns(table: Table[Released], columns: Renamed, unit: str) -> Table[Released]:
    """Return columns of a table as (column, new name), one of which is the privacy unit's."""
    return table._combine(Select(table._part, columns, unit))


def distinct_rows(table: Table[Released]) -> Table[Released]:
    """Return a table with each row once."""
    return table._combine(distinct(table._part, table.schema))


def distinct_keys(table: Table[Released], by: Sequence[str]) -> Table[Released]:
    """Return a table with one row for each unit and distinct values of some columns."""
    return table._combine(distinct(table._part, by, "GROUP BY"))


def add_membership(table: Table[Released], column: str, other: PublicTable, name: str) -> Table[Released]:
    """Return a table with a column that says whether values of another are in a public table."""
    return table._combine(is_in(table._part, column, other._part, name), *other.notes)


def with_value(table: Table[Released], other: PublicTable, name: str) -> Table[Released]:
    """Return a table with a column that has the one value of a public table in each row."""
    return table._combine(WithValue(table._part, other._part, name), *other.notes)


def add_window_columns(table: Table[Released], calls: Sequence[WindowCall]) -> Table[Released]:
    """Return a table with columns that window functions compute from each unit's rows."""
    return table._combine(Window(table._part, tuple(calls)))


def compute_public_table(engine: Engine[Any], parts: Mapping[str, PublicTable], sql: str) -> PublicTable:
    """Return a public table that SQL computes from public tables alone, on an engine."""
    how = Computed(tuple((name, table._part) for name, table in parts.items()), sql)
    notes = tuple(dict.fromkeys(note for table in parts.values() for note in table.notes))
    return PublicTable(engine.combined(how), notes=notes)
