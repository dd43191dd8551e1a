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
    check_flat,
    checked_expression,
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
    """A private table: filter, derive, group, bound and ask; every method gives a new table.

    Made by `sfumato.scan`. Nothing is read but declarations (names and types of columns) until a
    release is drawn.

    Attributes:
        unit: the privacy unit's column.
        keys: the columns to group by.
        groups, rows, total_rows: limits of what a unit contributes; None where not given.
        notes: what whoever asks should know of the table.
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
        """The columns of the private table by name, with what is known of their types."""
        return self._engine.schema(self._steps)

    def filter(self, expression: str) -> Table[Released]:
        """Keep the rows where a SQL expression is true.

        Args:
            expression: of one row's columns, in DuckDB's SQL: no aggregates, windows, subqueries or
                random functions. A row for which it is NULL or fails is dropped.
        Returns:
            A table of these rows; this one is as it was.
        Raises:
            QueryError: the expression is not admissible or names an unknown column.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2], "minutes": [30, 45, 200]}), privacy_unit="id")
        >>> visits.filter("minutes BETWEEN 1 AND 120")
        <Table (read with DuckDB): 2 columns; privacy unit id; keep rows where minutes BETWEEN 1 AND 120>
        """
        return self._with_step(Filter(checked_expression("filter", expression)))

    def with_columns(self, /, **expressions: str) -> Table[Released]:
        """Add or replace columns by SQL expressions of one row's columns; a row that fails gives NULL.

        Args:
            expressions: of one row's columns, in DuckDB's SQL, by the name of the column that each makes.
        Returns:
            A table with these columns; this one is as it was.
        Raises:
            QueryError: an expression is not admissible, or would replace the privacy unit.

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
            table = table._with_step(Derive(name, checked_expression("with_columns", expression)))
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
        """Join columns of another table, where values are equal.

        Args:
            other: a public table (`sfumato.public`), or a private one of the same privacy units.
            on: columns that are equal, of the same type: a name, several, or pairs, as {"here": "there"}.
                With a private table the two privacy units are among them, or all parts of composite ones.
                NULL equals nothing.
            how: "left" also keeps rows that match none, with NULL in the other's columns; "inner" does not.
            rows: of a private table, at most so many rows of a unit with the same values in `on` are matched;
                at most 10,000. A public table has no such limit.
            unit_rows: with a private table, a unit has at most so many joined rows, or as many as it has in
                one of the tables; what would be more is left out before it is made. With a public table, a
                question in which one row could become more, with the joins before it, is refused when it is
                released, before anything is paid. At most 10,000,000. None: 100,000, or what a catalog says.
        Returns:
            The table with the other's columns; one whose name is here already is called `<name>_right`. Its
            limits are counted after the join: a row that matches three is three rows.
        Raises:
            QueryError: types differ, the privacy units are not compared, or the engine joins no tables.
        Source:
            docs/many_tables.md.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2], "town": ["A", "B", "A"]}), privacy_unit="id")
        >>> regions = sf.public(pa.table({"town": ["A", "B"], "region": ["north", "south"]}))
        >>> list(visits.join(regions, on="town").schema)
        ['id', 'town', 'region']
        """
        self._check_rows_alone("join")
        if not isinstance(other, (Table, PublicTable)):
            raise ParameterError("join", type(other).__name__, "a table that sf.scan or sf.public has opened")
        if isinstance(other, Table):
            other._check_rows_alone("join")
        return self._combined(join(self._part, other._part, on, how, rows, unit_rows), *other.notes)

    def union(self, other: Table[Any]) -> Table[Released]:
        """Add the rows of another private table of the same units, with the same columns and types.

        Args:
            other: a private table of the same engine, with the same privacy unit.
        Returns:
            A table of the rows of both; a unit with rows in both is one unit.
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
        self._check_rows_alone("union")
        if not isinstance(other, (Table, PublicTable)):
            raise ParameterError("union", type(other).__name__, "a table that sf.scan has opened")
        if isinstance(other, Table):
            other._check_rows_alone("union")
        return self._combined(union(self._part, other._part), *other.notes)

    def per_unit(self, /, *by: str, **aggregates: str) -> Table[Released]:
        """Make one row of all rows of a privacy unit, or of those with the same values in some columns.

        Args:
            by: columns that stay, beside the unit.
            aggregates: SQL of one aggregate each: count(*), count(x), count(DISTINCT x), sum, avg, min, max,
                bool_and or bool_or of an expression of one row, perhaps with FILTER (WHERE ...).
        Returns:
            A table of the unit, `by`, and the aggregates.
        Raises:
            QueryError: an aggregate is none of these, or names an unknown column.
        Source:
            docs/many_tables.md.

        >>> import pyarrow as pa, sfumato as sf
        >>> orders = sf.scan(pa.table({"id": [1, 1, 2], "price": [3, 4, 5]}), privacy_unit="id")
        >>> list(orders.per_unit(orders="count(*)", spent="sum(price)").schema)
        ['id', 'orders', 'spent']
        """
        self._check_rows_alone("per_unit")
        return self._combined(per_unit(self._part, by, aggregates))

    def sql(
        self, text: str, *, tables: Mapping[str, Table[Any] | PublicTable] | None = None
    ) -> Table[Released]:
        """Make a table by unit-local SQL: every row follows from one unit's rows, and public tables.

        Args:
            text: a SELECT; `self` is this table. It keeps the privacy unit in its list.
            tables: others, by the names that the text has for them: of `sfumato.scan` and `sfumato.public`.
        Returns:
            The table, whose privacy unit has the name that the text gives it.
        Raises:
            SqlError: the text is not understood or not of this form; it shows the place and what to write.
            ParameterError: something in tables is no table of `sfumato.scan` or `sfumato.public`.
            QueryError: groups, limits or totals were asked of a table before.
        Source:
            docs/sql.md, "SQL inside".

        >>> import pyarrow as pa, sfumato as sf
        >>> orders = sf.scan(pa.table({"id": [1, 1, 2], "price": [3, 4, 5]}), privacy_unit="id")
        >>> list(orders.sql("SELECT id, count(*) AS n FROM self GROUP BY id HAVING n > 1").schema)
        ['id', 'n']
        """
        self._check_rows_alone("sql")
        known: dict[str, Any] = {**(tables or {}), "self": self}
        for name, table in known.items():
            if not isinstance(table, (Table, PublicTable)):
                raise ParameterError(
                    f"tables[{name!r}]", type(table).__name__, "a table of sf.scan or sf.public"
                )
            if isinstance(table, Table):
                table._check_rows_alone("sql")
        made: Table[Released] = self._engine.unit_local(text, known)
        return made

    def group_by(self, *columns: str, keys: Any = None) -> Table[Released]:
        """Group the table by one or more columns.

        Args:
            columns: the columns to group by. None at all asks about the whole table.
            keys: the groups, where they are public knowledge: a list of values for one column, a
                list of tuples for several, or an array or table of Arrow, NumPy, pandas or
                Polars; on Spark a data frame; on Beam also a schema that `sfumato.beam.named` has named, of a
                collection that the pipeline brings. Each is in the output, also without rows. Without it, or
                with "private", groups are chosen privately.
        Returns:
            A table that is asked by groups; this one is as it was.
        Raises:
            QueryError: unknown column, the privacy unit as a key, or keys that do not fit.

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
        """Add totals of public groups, which agree with them: rows of which keys are NULL.

        Args:
            sets: of keys, each a list of names: a row for each combination of their values. Without any it is
                ROLLUP: all keys, all but the last one, and so on to the total of all groups, `[]`.
            cube: all sets of keys.
            integer: counts, and sums of whole numbers, are whole numbers, and not negative where exact ones
                cannot be.
        Returns:
            The table, whose release has a column `grouping` behind the keys: 0 for groups, else a bit for
            each key that is NULL because a row is a total of all its values, the first key's the highest.
        Raises:
            QueryError: there are no keys, or a set has a name that is none of them.
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
        """Ask for the k largest groups, by units or by a sum; a unit may be in any number of them.

        Args:
            columns: the columns to group by, at least one.
            k: how many groups, from 1 to 100,000.
            by: `sf.sum(column, lower=, upper=)`, with bounds of what a unit adds to a group; None for units.
            keys: the groups, where they are public knowledge, as of `group_by`: k of them are shown. Without
                it at most k are, and delta is needed. On Beam also a schema of `sfumato.beam.named`.
            candidates: of private groups, how many of the largest may be shown; None for 10 k, at least
                100.
        Returns:
            A `Top`, of which `release(epsilon=..., delta=...)` gives a table of ranks and keys, and unless
            they are left out noisy numbers of units.
        Raises:
            QueryError: a column or a key does not fit, or limits were set.
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
        """Limit what one privacy unit contributes: `groups` and `rows`, or `total_rows` by itself.

        Args:
            groups: a unit counts in at most so many groups. "shared" releases the keys of private groups, and
                agg() has no aggregates: a unit in t of them, at most 1,000, adds 1/sqrt(t) to each.
            rows: a unit counts as at most so many rows in a group; one with more is scaled down. It may be
                left out where each unit has one row by how they are made, as behind `per_unit`.
            beyond: how a unit counts that is in more groups. "sample": in some of them, chosen at random.
                "scale": of public groups, in part in each: of j, as groups/j of a unit. "auto": "scale" for
                public groups where no quantiles are asked, else "sample".
            total_rows: at most so many rows of a unit count, over all groups together, chosen at random; the
                others are left out. For units whose rows may all be in one group, or each in another.
        Returns:
            A table with these limits; this one is as it was.
        Raises:
            ParameterError: a limit is not a whole number of at least 1, or `beyond` is something else.

        `groups` and `rows` may be "auto": then a release finds them by a noisy look at what units contribute,
        for a share of its epsilon, and tells them in `found` (docs/choosing.md).

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2], "town": ["A", "B", "A"]}), privacy_unit="id")
        >>> towns = visits.group_by("town", keys=["A", "B"])
        >>> questions = [towns.bound(groups=1, rows=rows).agg(n=sf.count()) for rows in (1, 5)]
        >>> [round(one.plan(epsilon=1).expected["n"], 1) for one in questions]  # errors grow with limits
        [1.4, 7.1]
        """
        shared = isinstance(groups, str) and groups == "shared"
        if shared:
            groups = min(SHARED_GROUPS, self._most_limits[0])
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
        """Return the table for analysts, who may see releases, and nothing exact.

        Refused are `analyze`, `sf.check`, and words of which the noise is known.

        Whatever is made of it refuses, too.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 2]}), privacy_unit="id").for_analysts()
        >>> visits.agg(n=sf.count_units()).analyze(epsilon=1)
        Traceback (most recent call last):
        sfumato.errors.RefusalError: analyze: this table was opened for analysts, who must not see ...
        """
        return replace(self, _engine=self._engine.for_analysts())

    def dummy(self, *, rows: int = 1_000, units: int | None = None, seed: int = 0) -> Table[Any]:
        """Return a table of made-up rows with the same columns, to try questions on at no charge.

        What is made up follows from names and types of columns, and what a catalog declares; the data is not
        read. Whatever can be asked of the table can be asked of this one, in this process, and no budget is
        spent. Explanations, answers on the command line and receipts say that rows are made up.

        Args:
            rows: how many.
            units: of how many privacy units; a quarter of the rows where it is left out.
            seed: with another one, rows are others; with the same one, they are the same.
        Raises:
            ParameterError: a number is not admissible.
            QueryError: the table is made of others, or was grouped; or its types were guessed from rows.
        Source:
            docs/dummy.md.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.schema({"id": pa.int64(), "town": pa.string()}), privacy_unit="id")
        >>> visits.dummy().agg(people=sf.count_units()).release(epsilon=1)
        <Release of people; epsilon=1, delta=0, of made-up rows>
        """
        self._check_rows_alone("dummy")
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
        """Ask aggregates of each group of the table; the names are those of the output's columns.

        Args:
            unnamed: nothing; each aggregate has a name.
            aggregates: such as `sfumato.count()`, by the name of the output column.
        Returns:
            A question; nothing is read before it is released.
        Raises:
            QueryError: an aggregate has no name, cannot be asked of its column, or lacks a limit.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2], "minutes": [30, 45, 200]}), privacy_unit="id")
        >>> visits.bound(rows=3).agg(visits=sf.count(), mean=sf.mean("minutes", lower=0, upper=120))
        <Question: visits, mean>
        """
        if unnamed:
            raise QueryError("agg: give each aggregate a name, such as agg(n=sf.count())")
        check_aggregates(aggregates.items())
        return Question(*self._one_row(aggregates.values())._filled(aggregates))

    def _filled(self, aggregates: Mapping[str, Aggregate]) -> tuple[Self, tuple[tuple[str, Aggregate], ...]]:
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

    def _one_row(self, asked: Collection[Aggregate]) -> Table[Released]:
        """Take the limit of 1 row, if the table's rows are such that a unit has one in a group."""
        given = self.rows is not None or self.total_rows is not None
        if given or not any(a.needs_rows for a in asked):
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
    def _most_limits(self) -> tuple[int, int]:
        """The largest limits of groups and rows that a release of the table may infer."""
        return LARGEST_LIMIT, LARGEST_LIMIT

    @property
    def _part(self) -> Part:
        return Part(self._engine, self._steps, self.unit, self._unit_parts)

    def _combined(self, how: Combination, *notes: str) -> Table[Released]:
        notes = tuple(dict.fromkeys([*self.notes, *notes, *how.notes]))
        unit = how.unit if isinstance(how, Select) else self.unit
        return replace(self, _engine=self._engine.combined(how), unit=unit, _steps=(), notes=notes)

    @property
    def _rows_alone(self) -> Table[Released]:
        """The table without groups and limits, and without those of a catalog."""
        return Table(self._engine, self.unit, self._steps, notes=self.notes, _unit_parts=self._unit_parts)

    def _check_rows_alone(self, where: str) -> None:
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


def chosen(table: Table[Released], columns: Renamed, unit: str) -> Table[Released]:
    """Return columns of a table as (column, new name), one of which is the privacy unit's."""
    return table._combined(Select(table._part, columns, unit))


def distinct_rows(table: Table[Released]) -> Table[Released]:
    """Return a table with each row once."""
    return table._combined(distinct(table._part, table.schema))


def distinct_keys(table: Table[Released], by: Sequence[str]) -> Table[Released]:
    """Return a table with one row for each unit and distinct values of some columns."""
    return table._combined(distinct(table._part, by, "GROUP BY"))


def looked_up(table: Table[Released], column: str, other: PublicTable, name: str) -> Table[Released]:
    """Return a table with a column that says whether values of another are in a public table."""
    return table._combined(is_in(table._part, column, other._part, name), *other.notes)


def with_value(table: Table[Released], other: PublicTable, name: str) -> Table[Released]:
    """Return a table with a column that has the one value of a public table in each row."""
    return table._combined(WithValue(table._part, other._part, name), *other.notes)


def windowed(table: Table[Released], calls: Sequence[WindowCall]) -> Table[Released]:
    """Return a table with columns that window functions compute from each unit's rows."""
    return table._combined(Window(table._part, tuple(calls)))


def computed(engine: Engine[Any], parts: Mapping[str, PublicTable], sql: str) -> PublicTable:
    """Return a public table that SQL computes from public tables alone, on an engine."""
    how = Computed(tuple((name, table._part) for name, table in parts.items()), sql)
    notes = tuple(dict.fromkeys(note for table in parts.values() for note in table.notes))
    return PublicTable(engine.combined(how), notes=notes)
