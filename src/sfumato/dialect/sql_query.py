"""SqlQuery: what a SQL text asks, as plain data, and its tables opened as a question."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import Any, Literal

import pyarrow as pa

from sfumato.api.largest_groups import Top
from sfumato.api.question import Question, Released
from sfumato.api.table import PRIVATE, Table
from sfumato.catalogs.declarations import product
from sfumato.dataclass import dataclass
from sfumato.dialect.from_clause import CommonTables, From, Query, Source, iter_tables
from sfumato.dialect.joined_tables import open_from
from sfumato.dialect.options_clause import Settings
from sfumato.dialect.post_processing_sql import PostProcessing
from sfumato.dialect.public_groups import PublicGroups
from sfumato.dialect.subqueries import Subqueries
from sfumato.dialect.syntax_tree import Node
from sfumato.dialect.top_groups import Largest
from sfumato.errors import ColumnError, QueryError
from sfumato.query.aggregates import Aggregate, Cumulative
from sfumato.query.group_totals import GroupingSets
from sfumato.query.schema import Derive, Filter, Schema, Step, quote_name
from sfumato.query.tables.public_table import PublicTable


@dataclass(frozen=True, repr=False)
class SqlQuery(Settings):
    """The query of a SQL text, before any table is opened, as `parse` returns it.

    Args:
        tables: the paths of files, or the names of tables, as written (their parts joined by dots), and how
            they are joined.
        named, plain: columns of joined tables with qualified names, and the other columns, in lower case.
        where: the WHERE expression, in DuckDB SQL, or None.
        derived: (name, expression) of derived columns, each from source columns alone.
        keys: the names of the group keys, in the order of the SELECT list.
        aggregates: (output name, aggregate), in the order of the SELECT list.
        groups, rows: contribution limits; None if nothing depends on them, "auto" to infer them, and "shared"
            if only keys are requested.
        notes: sentences about defaults that apply.
        weights: the weight of each output, by name.
        domains: the values of each key, if a catalog declares them; None for private groups.
        public_groups: the public table that holds the groups; None if they come from elsewhere.
        outside: the computation with the released tables, or None.
        companions: further private SELECTs of the same text, each a release of its own.
        looked_up: the WHERE condition as a tree, if it has x IN (SELECT ...); it replaces `where`.
        names: the names of the WITH tables.
        grouping: sets of keys whose totals are requested, or None.
        largest: the number of largest groups requested; an aggregate is then the sum that ranks them.
    """

    tables: From = field(kw_only=True)
    where: str | None = None
    derived: tuple[tuple[str, str], ...] = ()
    keys: tuple[str, ...] = ()
    aggregates: tuple[tuple[str, Aggregate], ...] = ()
    groups: int | Literal["auto", "shared"] | None = None
    rows: int | Literal["auto"] | None = None
    notes: tuple[str, ...] = ()
    weights: tuple[tuple[str, Fraction], ...] = ()
    domains: tuple[tuple[Hashable, ...], ...] | None = None
    named: frozenset[str] = frozenset()
    plain: frozenset[str] = frozenset()
    public_groups: PublicGroups | None = None
    outside: PostProcessing | None = None
    companions: tuple[SqlQuery, ...] = ()
    looked_up: Node | None = None
    names: CommonTables | None = None
    grouping: GroupingSets | None = None
    largest: Largest | None = None

    @property
    def source(self) -> str:
        """The first table in the FROM clause of the SQL query."""
        return str(self.tables.source)

    @property
    def sources(self) -> tuple[str, ...]:
        """The tables that the SQL query reads, at any depth, in order."""
        waiting: list[Source] = [self.tables.source, *(one.source for one in self.tables.joined)]
        if self.looked_up is not None and self.names is not None:
            waiting += [source for _, source in iter_tables(self.looked_up, self.names)]
        found: dict[Source, None] = {}
        while waiting:
            one = waiting.pop(0)
            if one not in found:
                found[one] = None
                if isinstance(one, Query):
                    waiting += [source for _, source in iter_tables(one.node, one.names)]
        return tuple(one for one in found if isinstance(one, str))

    @property
    def read(self) -> tuple[str, ...]:
        """The tables that the SQL query reads, including those with its public groups."""
        return (*self.sources, *(self.public_groups.public if self.public_groups is not None else ()))

    def _within(self, public: Collection[str], private: Collection[str]) -> SqlQuery:
        """Return the SQL query after a check that its public groups come from public tables alone.

        Raises:
            SqlError: they are not read from public tables alone.
        """
        if self.public_groups is None:
            return self
        return replace(self, public_groups=self.public_groups.check(public, private))

    @property
    def release_options(self) -> dict[str, Any]:
        """The options for `Question.release` or `Top.release` in the SQL text, as written.

        >>> from sfumato.dialect import parse
        >>> parse("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1, privacy_unit_column = id) "
        ...       "COUNT(*) FROM visits").release_options
        {'epsilon': '0.1', 'delta': '0'}
        """
        given = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "noise": self.noise,
            "group_selection": self.group_selection,
            "pre_threshold": self.pre_threshold,
            "diagnostics": self.diagnostics,
            "sampling": self.sampling or None,
            "nonnegative": self.nonnegative or None,
        }
        if self.auto_share is not None:
            given["auto_share"] = self.auto_share
        if self.largest is not None:
            given |= {"counts": self.largest.counts, "counts_share": self.largest.counts_share}
        return {name: value for name, value in given.items() if value is not None}

    def question(
        self,
        open_table: Callable[[str, str], Table[Released] | PublicTable],
        groups_of: Callable[[PublicGroups], pa.Table] | None = None,
    ) -> Question[Released] | Top:
        """Open the SQL query's tables and return its question.

        Args:
            open_table: a function from a source and the privacy unit's column to a private or public table.
            groups_of: a function from a public table to the groups that it holds.
        Returns:
            The same question as from method calls, with the notes on its table.
        Raises:
            QueryError: a column is unknown or does not fit, according to declared types alone.
        Source:
            docs/sql.md, "Expressions are DuckDB's".

        >>> import pyarrow as pa, sfumato as sf
        >>> from sfumato.dialect import parse
        >>> visits = pa.table({"id": [1, 2], "age": [30, 40]})
        >>> asked = parse("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = id) "
        ...               "COUNT(*) AS n FROM visits WHERE age >= 35")
        >>> print(asked.question(lambda source, unit: sf.scan(visits, privacy_unit=unit)))
        Question: n
        <BLANKLINE>
        name  what is asked   columns
        n     number of rows  n
        <BLANKLINE>
        of               private table (read with DuckDB)
        privacy unit     id
        keep rows where  age >= 35
        ...
        """
        try:
            table = self._table(Subqueries(open_table, self.joined_rows))
        except RecursionError:
            raise QueryError("the subqueries and expressions are nested too deeply") from None
        schema = table.schema
        derived, keys, columns = _settle(self, schema)
        steps: list[Step] = [] if self.where is None else [Filter(self.where)]
        steps += [Derive(name, expression) for name, expression in derived]
        # Not by keyword, as `with_columns` and `agg` take them: a column may be called "self".
        table = replace(
            table, _steps=(*table._steps, *steps), notes=tuple(dict.fromkeys((*table.notes, *self.notes)))
        )
        if self.public_groups is not None:
            assert groups_of is not None
            table = _in_public_groups(table, keys, self.public_groups, groups_of(self.public_groups))
        elif self.keys:
            groups = PRIVATE if self.domains is None else product(keys, self.domains)
            table = table.group_by(*keys, keys=groups)
        final = dict(zip(self.keys, keys, strict=True))
        if self.grouping is not None:
            sets = tuple(tuple(final[name] for name in one) for one in self.grouping.sets)
            ordered = tuple(tuple(key for key in keys if key in one) for one in sets)
            table = replace(table, _grouping=replace(self.grouping, sets=ordered))
        aggregates = tuple(
            (name, _fit_columns(aggregate, columns, final)) for name, aggregate in self.aggregates
        )
        if self.largest is not None:
            return self._top(table, keys, [aggregate for _, aggregate in aggregates])
        limits = table.bound(groups=self.groups, rows=self.rows, total_rows=self.total_rows)
        return Question(limits, aggregates, self.weights)

    def _top(self, table: Table[Any], keys: Sequence[str], by: Sequence[Aggregate]) -> Top:
        """Return the SQL query's question about the largest groups."""
        assert self.largest is not None
        groups = PRIVATE if table._public_keys is None else table._public_keys
        k, candidates = self.largest.k, self.largest.candidates
        return table.top(*keys, k=k, by=next(iter(by), None), keys=groups, candidates=candidates)

    def _table(self, subqueries: Subqueries) -> Table[Any]:
        """Open and join the tables of the SQL query's FROM clause."""
        unit = self.privacy_unit_column
        table = open_from(self.tables, unit, self.named, self.plain, subqueries.table, self.joined_rows)
        if self.looked_up is not None and self.names is not None:
            table = subqueries.filtered(table, self.looked_up, self.names, self.tables)
        return table


def _fit_columns(aggregate: Aggregate, columns: Mapping[str, str], keys: Mapping[str, str]) -> Aggregate:
    """Return an aggregate of the SQL query over the columns that the opened table has."""
    fitted = aggregate.of_columns(columns)
    if isinstance(fitted, Cumulative) and fitted.over is not None:
        fitted = replace(fitted, over=keys[fitted.over])
    return fitted


def _in_public_groups(
    table: Table[Released], keys: Sequence[str], asked: PublicGroups, groups: pa.Table
) -> Table[Released]:
    """Group the SQL query's table by the rows of a public table; a group of NULLs stays empty."""
    for key, column in zip(keys, groups.columns, strict=True):
        if column.null_count:
            table = table.filter(f"{quote_name(key)} IS NOT NULL")
    note = (
        f"the {groups.num_rows:,} groups by {', '.join(keys)} are public, from "
        f"{' and '.join(asked.public) or 'the text'}: each of them is shown, and rows with other "
        "values are dropped."
    )
    table = replace(table, notes=(*table.notes, note))
    try:
        return table.group_by(*keys, keys=groups.rename_columns(list(keys)))
    except ColumnError:
        raise
    except QueryError as error:
        raise asked.refuse(str(error).replace("group_by: keys=", "the public table of the groups")) from None


def _settle(query: SqlQuery, schema: Schema) -> tuple[list[tuple[str, str]], list[str], dict[str, str]]:
    """Choose the names of the SQL query's derived columns and keys, so that expressions see source columns.

    Returns:
        The columns to derive, in order; the final names of the keys; and the final name of each
        aggregated column. A key that has the name of a source column takes its place last, after all
        that is computed from that column.
    """
    source = {name.casefold(): name for name in schema}
    taken = {*source, *(name.casefold() for name, _ in query.derived)}

    def fresh(stem: str) -> str:
        while stem.casefold() in taken:
            stem = f"_{stem}"
        taken.add(stem.casefold())
        return stem

    early: list[tuple[str, str]] = []
    late: list[tuple[str, str]] = []
    keys: dict[str, str] = {}
    columns: dict[str, str] = {}
    grouped = set(query.keys)
    hiding = {name.casefold() for name, _ in query.derived if name in grouped} & set(source)
    for name, expression in query.derived:
        final, now = name, expression
        if name in grouped and name.casefold() in hiding:
            final = name
            if len(hiding) > 1:
                early.append((fresh(f"_{name}"), expression))
                now = quote_name(early[-1][0])
            late.append((final, now))
        else:
            final = fresh(name) if name.casefold() in source else name
            early.append((final, now))
        (keys if name in grouped else columns)[name] = final
    for name in query.keys:
        keys[name] = keys.get(name) or _source_column(name, source, schema, "GROUP BY")
    for _, aggregate in query.aggregates:
        for column in aggregate.columns:
            if column in columns:
                continue
            columns[column] = _source_column(column, source, schema, "the SELECT list")
            if column.casefold() in hiding:
                early.append((fresh(f"_{column}"), quote_name(columns[column])))
                columns[column] = early[-1][0]
    return [*early, *late], [keys[name] for name in query.keys], columns


def _source_column(name: str, source: dict[str, str], schema: Schema, where: str) -> str:
    """Return the opened table's column that a SQL query names, in any case."""
    if name in schema:
        return name
    if name.casefold() not in source:
        raise ColumnError._unknown(name, schema, where)
    return source[name.casefold()]
