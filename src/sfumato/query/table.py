"""The fluent question: scan, filter, derive, group, bound, aggregate, release."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.errors import ColumnError, ParameterError, QueryError, shown
from sfumato.exact import positive_int
from sfumato.query.aggregates import Aggregate, BoundedAggregate, CountPrivacyUnits, CountRows, Quantiles, Sum
from sfumato.query.engine import Derive, Engine, ExactQuery, Filter, Kind, Schema, Step

if TYPE_CHECKING:
    from sfumato.noise import Words
    from sfumato.query.plan import Plan
    from sfumato.query.release import Release

LARGEST_LIMIT = 10**9
# Where an expression goes that takes the place of a column, whichever way a question is asked.
_IN_PLACE = "in its place (in Python, as a column that with_columns derives first)"


@dataclass(frozen=True)
class Table:
    """A private table and what is to be done with it; every method gives a new one.

    Made by `sfumato.scan`. Nothing is read but declarations (names and types of columns) until a
    release is drawn.
    """

    engine: Engine
    unit: str
    steps: tuple[Step, ...] = ()
    keys: tuple[str, ...] = ()
    public_keys: pa.Table | None = None
    groups: int | None = None
    rows: int | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        schema = self.schema
        if not isinstance(self.unit, str):
            raise ParameterError("privacy_unit", self.unit, "the name of a column, as text")
        if self.unit not in schema:
            raise ColumnError.unknown(self.unit, schema, "privacy_unit")
        if schema[self.unit].type_name not in ("BLOB", "BIT"):  # those compare well, but print badly
            _check_flat("privacy_unit", self.unit, schema, "in the source, before scan")

    @property
    def schema(self) -> Schema:
        """The columns by name, with what is known of their types."""
        return self.engine.schema(self.steps)

    def filter(self, expression: str) -> Table:
        """Keep the rows where a SQL expression is true.

        Args:
            expression: of one row's columns, in DuckDB's SQL: no aggregates, windows, subqueries or
                random functions. A row for which it is NULL or fails is dropped.
        Raises:
            QueryError: the expression is not admissible or names an unknown column.
        """
        return self._with_step(Filter(_text("filter", expression)))

    def with_columns(self, /, **expressions: str) -> Table:
        """Add or replace columns by SQL expressions of one row's columns; a row that fails gives NULL.

        Raises:
            QueryError: an expression is not admissible, or would replace the privacy unit.
        """
        table = self
        for name, expression in expressions.items():
            if name.casefold() == self.unit.casefold():
                raise QueryError(f"with_columns: {name!r} is the privacy unit, which cannot be redefined")
            table = table._with_step(Derive(name, _text("with_columns", expression)))
        return table

    def group_by(self, *columns: str, keys: Any = None) -> Table:
        """Ask for each group of one or more columns.

        Args:
            columns: the columns to group by. None at all asks about the whole table.
            keys: the groups, where they are public knowledge: a list of values for one column, a
                list of tuples for several, or an array or table of Arrow, NumPy, pandas or
                Polars. Each is in the output, also without rows. Without it, groups are chosen privately.
        Raises:
            QueryError: unknown column, the privacy unit as a key, or keys that do not fit.
        """
        schema = self.schema
        for key in columns:
            if not isinstance(key, str):
                raise ParameterError("group_by", key, "names of columns, as text")
            if key not in schema:
                raise ColumnError.unknown(key, schema, "group_by")
            _check_flat("group_by", key, schema, _IN_PLACE)
            if key == self.unit:
                raise QueryError(
                    f"group_by: {key!r} is the privacy unit; a group for each unit is not private"
                )
        if len(set(columns)) < len(columns):
            raise QueryError(f"group_by: a column is named twice in {list(columns)}")
        if keys is not None and not columns:
            raise QueryError("group_by: public keys are given, but no column that they belong to")
        table = None if keys is None else self.engine.public_keys(columns, keys, self.steps)
        return replace(self, keys=columns, public_keys=table)

    def bound(self, *, groups: int | None = None, rows: int | None = None) -> Table:
        """Limit what one privacy unit contributes.

        Args:
            groups: a unit counts in at most so many groups, chosen at random among its own.
            rows: a unit counts as at most so many rows in a group; one with more is scaled down.
        Raises:
            ParameterError: a limit is not a whole number of at least 1.
        """
        given = {n: _limit(v, n) for n, v in (("groups", groups), ("rows", rows)) if v is not None}
        return replace(self, **given)  # type: ignore[arg-type]

    def agg(self, /, *unnamed: Aggregate, **aggregates: Aggregate) -> Question:
        """Say what is asked of each group; the names are those of the output's columns.

        Raises:
            QueryError: an aggregate has no name, cannot be asked of its column, or lacks a limit.
        """
        if unnamed:
            raise QueryError("agg: give each aggregate a name, such as agg(n=sf.count())")
        return Question(self, tuple(aggregates.items()))

    def _with_step(self, step: Step) -> Table:
        if self.keys:
            raise QueryError("filter and with_columns come before group_by")
        return replace(self, steps=(*self.steps, step))


@dataclass(frozen=True)
class Question:
    """A complete question, validated; it can be planned (what would it cost?) and released."""

    table: Table
    aggregates: tuple[tuple[str, Aggregate], ...]

    def __post_init__(self) -> None:
        table, schema = self.table, self.table.schema
        if not self.aggregates:
            raise QueryError("agg: nothing is asked; name at least one aggregate, such as n=sf.count()")
        for name, aggregate in self.aggregates:
            if not isinstance(aggregate, Aggregate):
                raise QueryError(
                    f"agg: {name} is {shown(aggregate)}, which is not a private aggregate; there are count, "
                    "count_units, sum, mean, variance, stddev and quantiles"
                )
            _check_column(name, aggregate, schema)
        _check_names([*table.keys, *self.output_names])
        if table.keys and table.groups is None:
            raise QueryError(
                "groups is missing: in how many groups may one privacy unit count at most? "
                "Give groups=..., in a question as .bound(groups=..., rows=...)"
            )
        if table.rows is None and any(_needs_rows(a) for _, a in self.aggregates):
            raise QueryError(
                "rows is missing: as how many rows may one privacy unit count in a group at most? "
                "Give rows=..., in a question as .bound(rows=...)"
            )

    @property
    def groups(self) -> int:
        """The limit of groups per unit that holds: no more than there are public groups."""
        table = self.table
        if not table.keys:
            return 1
        limit = table.groups or 1
        return limit if table.public_keys is None else max(1, min(limit, table.public_keys.num_rows))

    @property
    def rows(self) -> int:
        """The limit of rows per unit and group (1 where no aggregate depends on it)."""
        return self.table.rows or 1

    @property
    def private_groups(self) -> bool:
        """Whether the groups themselves must be chosen privately."""
        return bool(self.table.keys) and self.table.public_keys is None

    @property
    def output_names(self) -> tuple[str, ...]:
        """The output's columns after the keys."""
        return tuple(n for name, aggregate in self.aggregates for n in names_of(name, aggregate))

    def exact(self) -> ExactQuery:
        """Return the exact half of the question, without statistics yet."""
        table = self.table
        return ExactQuery(table.steps, table.unit, table.keys, table.public_keys, self.groups)

    def plan(
        self,
        *,
        epsilon: Any,
        delta: Any = 0,
        noise: str = "auto",
        group_selection: str = "auto",
        pre_threshold: int = 1,
    ) -> Plan:
        """Say what a release with these options would do and cost, without reading a row.

        Takes the options of `release`.
        """
        from sfumato.query.plan import make_plan

        return make_plan(
            self,
            epsilon=epsilon,
            delta=delta,
            noise=noise,
            group_selection=group_selection,
            pre_threshold=pre_threshold,
        )

    def release(
        self,
        *,
        epsilon: Any,
        delta: Any = 0,
        noise: str = "auto",
        group_selection: str = "auto",
        pre_threshold: int = 1,
        confidence: float | None = None,
        unsafe_words: Words | None = None,
    ) -> Release:
        """Release the answer: noisy numbers, safe to publish.

        Args:
            epsilon: the privacy budget, greater than 0. A float is taken as exactly its binary value.
            delta: in [0, 1); private groups need more than 0.
            noise: "auto" (the smaller error), "laplace" or "gaussian".
            group_selection: "auto" (keeps most), "truncated_geometric", "laplace" or "gaussian".
            pre_threshold: private groups with fewer units than this are never shown.
            confidence: on Spark and Beam, also give error bars, in columns named `<output>_error`; on
                DuckDB the release itself is asked for them.
            unsafe_words: on DuckDB, a source of random words for tests; the result is not private.
        Returns:
            A Release; its noise is drawn once, however often it is looked at. Of a Spark data
            frame a Spark data frame, which is computed here, and once (docs/spark.md).
        Raises:
            QueryError, BudgetError: before anything is read, spent or drawn.
        """
        plan = self.plan(
            epsilon=epsilon,
            delta=delta,
            noise=noise,
            group_selection=group_selection,
            pre_threshold=pre_threshold,
        )
        release: Release = self.table.engine.release(plan, confidence=confidence, unsafe_words=unsafe_words)
        return release


def names_of(name: str, aggregate: Aggregate) -> tuple[str, ...]:
    """Return the output columns of one aggregate."""
    if isinstance(aggregate, Quantiles) and not aggregate.scalar:
        return tuple(f"{name}_{rank * 100:g}" for rank in aggregate.ranks)
    return (name,)


def _needs_rows(aggregate: Aggregate) -> bool:
    return not (
        isinstance(aggregate, CountPrivacyUnits) or (isinstance(aggregate, Sum) and aggregate.per != "row")
    )


def _check_column(name: str, aggregate: Aggregate, schema: Schema) -> None:
    column = getattr(aggregate, "column", None)
    if column is None:
        return
    if column not in schema:
        raise ColumnError.unknown(column, schema, f"agg: {name}")
    if not isinstance(aggregate, (BoundedAggregate, CountRows)):
        raise ParameterError(name, aggregate, "an aggregate")
    if isinstance(aggregate, BoundedAggregate) and not schema[column].kind.numeric:
        raise ColumnError(
            f"agg: {name} asks for numbers of column {column!r}, which is {schema[column].type_name}; "
            f"use try_cast({_spelled(column)} AS DOUBLE) {_IN_PLACE}"
        )


def _limit(value: object, name: str) -> int:
    number = positive_int(value, name)
    if number > LARGEST_LIMIT:
        raise ParameterError(name, value, f"at most {LARGEST_LIMIT:,}, beyond which it limits nothing")
    return number


def _check_flat(where: str, column: str, schema: Schema, place: str) -> None:
    if schema[column].kind is Kind.OPAQUE:
        name, type_name = _spelled(column), schema[column].type_name
        field = f", or a field such as {name}.x," if type_name.startswith("STRUCT") else ""
        raise ColumnError(
            f"{where}: {column!r} is {type_name}, whose values do not compare alike everywhere; "
            f"use CAST({name} AS VARCHAR){field} {place}"
        )


def _spelled(column: str) -> str:
    return column if column.isidentifier() else '"' + column.replace('"', '""') + '"'


def _check_names(names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.casefold() in seen:
            raise QueryError(f"agg: the output name {name!r} is used twice; give each column its own name")
        seen.add(name.casefold())


def _text(where: str, expression: object) -> str:
    if not isinstance(expression, str) or not expression.strip():
        raise QueryError(
            f"{where}: {shown(expression)} is not a SQL expression; write text such as 'age >= 25'"
        )
    return expression
