"""Bind a parsed private SELECT: names, groups, aggregates and limits become an SqlQuery.

`select_parser` reads the form and `options_clause` the options. Here every other part gets its meaning, or is
refused at its place. docs/sql.md describes the meaning for users, and where it differs from BigQuery's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Literal

from sfumato.catalogs.declarations import Declarations, TableDeclaration, limit_note
from sfumato.dialect.aggregate_arguments import Aggregates
from sfumato.dialect.group_keys import Groups
from sfumato.dialect.keywords import LARGEST
from sfumato.dialect.options_clause import Advised, read_options
from sfumato.dialect.post_processing_sql import enclosing_sql, unused_names
from sfumato.dialect.private_selects import inner_tables, private_parts
from sfumato.dialect.public_groups import PublicGroups, form
from sfumato.dialect.released_sql import FreeNames, Writer
from sfumato.dialect.select_parser import read
from sfumato.dialect.select_statement import Expression, Item, Statement, StatementChecker, WrittenAggregate
from sfumato.dialect.sql_query import SqlQuery
from sfumato.dialect.sql_tokens import Cursor, refusal
from sfumato.dialect.subquery_columns import trace_declarations
from sfumato.dialect.syntax_tree import get_column_name, parts
from sfumato.dialect.top_groups import NOTE as COUNTS_UNITS
from sfumato.dialect.top_groups import LargestGroups, LargestWriter
from sfumato.errors import ParameterError, QueryError, shown
from sfumato.query.aggregates import Aggregate, CountPrivacyUnits, CountRows, Cumulative, Sum
from sfumato.query.query import check_weights

ADDED = ("count", "count_star", "sum", "anon_count", "anon_sum")
NOTE = (
    "SUM(...) OVER (ORDER BY ...) adds up released groups, and their noise too. CUMULATIVE_COUNT(*) "
    "and CUMULATIVE_SUM(x, ...) give cumulative totals of public steps with less noise."
)


def has_sum_of_released(statement: Statement, named: Collection[str]) -> bool:
    """Whether a SELECT list has a window sum over released counts, SUM(COUNT(*)) OVER (ORDER BY ...).

    Args:
        statement: the private SELECT.
        named: names of counts and sums among its outputs, in lower case.
    """
    for node in (one for tree in statement.tree["select_list"] for one in parts(tree)):
        if node["class"] == "WINDOW" and node["function_name"].lower() == "sum" and node["orders"]:
            added = [argument["expression"] for argument in node["arguments"]]
            if any(one.get("function_name", "").lower() in ADDED for one in added):
                return True
            if any((get_column_name(one) or "").casefold() in named for one in added):
                return True
    return False


def parse(
    text: str,
    catalog: Declarations | None = None,
    *,
    public: Iterable[str] = (),
    private: Iterable[str] = (),
    advised: Advised | None = None,
) -> SqlQuery:
    """Return the query that a differentially private SQL text expresses, bound to a catalog's tables.

    Args:
        text: SQL with BigQuery's DIFFERENTIAL_PRIVACY clause or ZetaSQL's ANONYMIZATION clause; expressions
            over one row are DuckDB SQL.
        catalog: the tables that FROM may name; it supplies what the text leaves out.
        public, private: names of tables, if there is no catalog; computations with released numbers may read
            public ones.
        advised: a budget to divide among several queries; what each leaves out is inferred.
    Returns:
        The query; for several private SELECTs the first, with the others as `companions`. No table is opened
        and no column looked up.
    Raises:
        SqlError: the text is not understood or not private, or FROM names no private table of the catalog;
            the error shows the place and what to write.
        QueryError: the argument is not text.
    Source:
        docs/sql.md.

    >>> query = parse('''
    ...     SELECT WITH DIFFERENTIAL_PRIVACY
    ...       OPTIONS (epsilon = 1, delta = 1e-6, privacy_unit_column = id, max_groups_contributed = 3)
    ...       year, COUNT(*) AS n, AVG(docvis, contribution_bounds_per_row => (0, 60)) AS visits
    ...     FROM 'rwm5yr.parquet' WHERE age >= 25 GROUP BY year''')
    >>> query.source, query.where, query.keys, query.groups, query.epsilon
    ('rwm5yr.parquet', 'age >= 25', ('year',), 3, '1')
    >>> query.aggregates[1]
    ('visits', Mean(column='docvis', lower=0, upper=60))
    >>> query.notes
    ('max_rows_per_group was not given, so at most 1 row of a privacy unit counts in a group.',)
    """
    if not isinstance(text, str):
        raise QueryError(f"sql: the query is {shown(text)}, but must be SQL text")
    if catalog is not None:
        public = [name for name, table in catalog.tables.items() if table.public]
        private = [name for name, table in catalog.tables.items() if not table.public]
    public, private = list(public), list(private)
    words, known = inner_tables(Cursor(text))
    free, parts = unused_names(words), private_parts(words)
    readings = []
    for part, names in zip(parts, known, strict=True):
        statement, groups = read(words.part(part.start, part.stop), names)
        statement = replace(statement, tables=statement.tables.private_first(public))
        declared = None if catalog is None else _bind_declarations(statement, catalog)
        readings.append(_Binder(statement, declared, groups, free, advised))
    outside = enclosing_sql(words, parts, [reading.writer for reading in readings])
    queries = [reading.query() for reading in readings]
    folded = {name.casefold() for name in public}
    named = {*private, *(name for query in queries for name in query.sources)}
    hidden = {name for name in named if name in private or name.casefold() not in folded} - {*public}
    queries = [query._within(public, hidden) for query in queries]
    if outside is not None:
        released = (name for reading in readings for name in reading.released)
        outside = outside.check(released, [query.read for query in queries], public, hidden)
    return replace(queries[0], outside=outside, companions=tuple(queries[1:]))


_LARGEST = (
    "ORDER BY and LIMIT sort all released groups, so every group has noise. If you only need the "
    "largest groups, APPROX_TOP_COUNT(x, 10) selects them with less noise."
)


def _bind_declarations(statement: Statement, catalog: Declarations) -> TableDeclaration:
    """Return what the catalog declares of the tables that a SELECT binds."""
    try:
        return trace_declarations(statement.tables, catalog)
    except QueryError as error:
        raise refusal(statement.text, statement.source_place, str(error)) from None


class _Binder(StatementChecker):
    """Binds one private SELECT, from its group keys to its aggregates and limits."""

    def __init__(
        self,
        statement: Statement,
        declared: TableDeclaration | None,
        groups: PublicGroups | None,
        free: FreeNames,
        advised: Advised | None,
    ) -> None:
        calls = [call for _, _, call in statement.calls.values()]
        found = next((call for call in calls if call.function in LARGEST), None)
        self.largest = None if found is None else LargestGroups.from_only_item(statement, found)
        if self.largest is not None:
            statement = self.largest.grouped()
        self.public = None if groups is None else groups.named_in(statement)
        self.statement = statement if self.public is None else self.public.read_by(statement)
        self.declared, self.advised = declared, advised
        self.options = read_options(statement, declared, advised)
        if self.largest is not None:
            self.largest.check_options()
        self.notes: list[str] = []
        self.groups = Groups(self.statement, self.options, declared, self.public, self.notes)
        self.keys, self.derived_keys = self.groups.keys()
        self.aggregates = Aggregates(
            self.statement,
            self.options.privacy_unit_column,
            declared,
            self.keys,
            self.notes,
            self.options.auto_bounds,
        )
        self.named = self._aggregates()
        if self.largest is None:
            self.writer = Writer(self.statement, self.keys, self.named, self._unselected, free)
        else:
            self.writer = LargestWriter(self.statement, self.keys, self.largest, free)
        counts = (CountRows, CountPrivacyUnits, Sum)
        added = {name.casefold() for name, (_, a) in self.named.items() if isinstance(a, counts)}
        if has_sum_of_released(self.statement, added):
            self.notes.append(NOTE)
        grouped = {id(item) for item in self.keys.values()}
        for item in statement.items:
            value = item.value
            if isinstance(value, Expression) and id(item) not in grouped and not self.writer.computes(value):
                raise self._refuse(item.place, self.groups.not_a_key(value))

    @property
    def released(self) -> list[str]:
        """The columns that the bound SELECT releases."""
        if self.largest is not None:
            return list(self.largest.columns(self.keys))
        outputs = (output for name, (_, a) in self.named.items() for output in a.outputs(name))
        return [*self.keys, *outputs]

    def query(self) -> SqlQuery:
        """Return the bound query, after checks of its groups, delta, limits and notes."""
        statement, options, keys, named = self.statement, self.options, self.keys, self.named
        aggregates = {name: aggregate for name, (_, aggregate) in named.items()}
        if self.largest is not None:
            self.largest.check_names(keys)
            aggregates = dict(self.largest.by())
        self._check_names(keys, named)
        domains = self.groups.domains(keys)
        sets = self.groups.sets(keys)
        private = domains is None and self.public is None
        shared = not aggregates and bool(keys) and private and options.groups is options.total_rows is None
        if not aggregates and self.largest is None and not shared:
            raise self._refuse(
                statement.items[0].place,
                "the query computes nothing about the groups. Add an aggregate such as COUNT(*)",
            )
        self._check_steps(private, sets is not None)
        if sets is not None and private:
            raise self._refuse(
                statement.group_by[0].place if statement.group_by else statement.clause_place,
                "totals need public groups. Declare the domains of the keys in a catalog, or set "
                "group_selection_strategy = PUBLIC_GROUPS and join a public table: "
                f"{form(list(keys))}",
            )
        if keys and private and not Fraction(options.delta or 0):
            write = "Write OPTIONS (delta = 1e-6, ...)" if self.advised is None else "Give --delta 1e-6"
            raise self._refuse(
                statement.clause_place,
                "delta is 0, but private groups need more, since showing that a group exists costs "
                f"privacy. {write}, well below one over the number of units, or set "
                "group_selection_strategy = PUBLIC_GROUPS and join a public table: "
                f"{form(list(keys))}",
            )
        groups: int | Literal["auto", "shared"] | None = None
        rows = largest = None
        if shared and self.largest is None:
            groups = "shared"
        elif self.largest is None:
            groups = self._groups_limit(bool(keys))
            rows = self._rows_limit(aggregates.values())
        else:
            largest = self.largest.request(not private)
            if private:
                self.largest.check_private()
            if not aggregates:
                self.notes.append(COUNTS_UNITS)
        if options.delta is None:
            self.notes.append("delta was not given, so it is 0.")
        if largest is None and keys and private and self._cuts_by_size:
            self.notes.append(_LARGEST)
        if options.selecting is not None and not keys and self.public is None:
            raise self._refuse(
                options.selecting, "without GROUP BY no group is selected. Leave this option out"
            )
        return SqlQuery(
            tables=statement.tables,
            named=statement.read[0],
            plain=statement.read[1],
            where=None
            if statement.where is None or statement.has_condition_tree
            else statement.spell(statement.where),
            looked_up=statement.tree["where_clause"] if statement.has_condition_tree else None,
            names=statement.names if statement.has_condition_tree else None,
            derived=(*self.derived_keys, *self.aggregates.derived.values()),
            keys=tuple(keys),
            grouping=sets,
            largest=largest,
            aggregates=tuple(aggregates.items()),
            **options.settings,
            groups=groups,
            rows=rows,
            notes=tuple(self.notes),
            domains=domains,
            weights=self._weights(aggregates),
            public_groups=None if self.public is None else self.public.ordered(keys),
        )

    def _check_steps(self, private: bool, totals: bool) -> None:
        """Check that cumulative totals bind to public groups for all time steps, without ROLLUP.

        Args:
            private: whether groups are chosen privately.
            totals: whether ROLLUP or the like asks for totals too.
        """
        found = [item for item, aggregate in self.named.values() if isinstance(aggregate, Cumulative)]
        if not found:
            return
        place, options = found[0].place, self.options
        if private:
            raise self._refuse(
                place,
                "cumulative totals need all time steps as public groups. Declare the domain of the "
                "key in a catalog, or join a public table with group_selection_strategy = "
                "PUBLIC_GROUPS",
            )
        if totals:
            raise self._refuse(
                place, "cumulative totals cannot be combined with ROLLUP, CUBE or GROUPING SETS"
            )
        if options.total_rows is not None:
            message = "with cumulative totals write max_groups_contributed and max_rows_per_group, not "
            raise self._refuse(place, f"{message}max_rows_contributed")

    @property
    def _cuts_by_size(self) -> bool:
        """Whether a bound SELECT sorts groups downwards and shows only the first ones."""
        after = self.statement.after
        words = [] if after is None else [token.word for token in self.statement.unqualified(after)]
        return {"ORDER", "DESC", "LIMIT"} <= set(words)

    def _unselected(self, call: WrittenAggregate, position: int) -> tuple[Aggregate, str]:
        """Return an aggregate that the binder found outside the SELECT list, and its default name."""
        aggregate = self.aggregates.aggregate(call)
        return aggregate, self.aggregates.default_name(call, aggregate, position)

    def _weights(self, names: Collection[str]) -> tuple[tuple[str, Fraction], ...]:
        """Return the weights of outputs in OPTIONS, bound to the names of aggregates."""
        try:
            return check_weights(self.options.weights.items(), names)
        except (ParameterError, QueryError) as error:
            raise self._refuse(self.options.weighing or self.statement.clause_place, str(error)) from None

    def _aggregates(self) -> dict[str, tuple[Item, Aggregate]]:
        """Bind the aggregates of the SELECT list, and return them by output name with their items."""
        named: dict[str, tuple[Item, Aggregate]] = {}
        taken: set[str] = set()
        for position, item in enumerate(self.statement.items, 1):
            if isinstance(item.value, WrittenAggregate):
                aggregate = self.aggregates.aggregate(item.value)
                name = item.alias or self.aggregates.default_name(item.value, aggregate, position)
                if name.casefold() in taken:
                    raise self._twice(name, item)
                taken.add(name.casefold())
                named[name] = (item, aggregate)
        return named

    def _check_names(self, keys: dict[str, Item], named: dict[str, tuple[Item, Aggregate]]) -> None:
        """Refuse output names that two bound columns share."""
        seen = {name.casefold() for name in keys}
        for name, (item, aggregate) in named.items():
            for output in aggregate.outputs(name):
                if output.casefold() in seen:
                    raise self._twice(output, item)
                seen.add(output.casefold())

    def _groups_limit(self, grouped: bool) -> int | Literal["auto"] | None:
        """Return the bound query's limit of groups per unit; "auto" where it is inferred."""
        groups = self.options.groups
        if not grouped or self.options.total_rows is not None:
            return None
        if groups is None and self.options.auto_limits:
            return "auto"
        if groups is None and self.declared is not None and self.declared.max_groups is not None:
            groups = self.declared.max_groups
            self.notes.append(limit_note(self.declared, "max_groups_contributed", groups))
        elif groups is None:
            self.notes.append(
                "max_groups_contributed was not given, so a privacy unit counts in at most 1 group "
                "(BigQuery's default)."
            )
        return groups or 1

    def _rows_limit(self, aggregates: Iterable[Aggregate]) -> int | Literal["auto"] | None:
        """Return the bound query's limit of rows per unit and group; None where no aggregate needs one."""
        rows, of_count, total = self.options.rows, self.aggregates.rows, self.options.total_rows
        if total is not None:
            if of_count is not None:
                raise self._refuse(
                    of_count[1],
                    f"a COUNT is bounded by {of_count[0]} in each group, but max_rows_contributed = "
                    f"{total} limits a unit's rows over all groups. Keep one of the two",
                )
            return None
        if of_count is not None:
            if rows is not None and rows != of_count[0]:
                raise self._refuse(
                    of_count[1],
                    f"a COUNT is bounded by {of_count[0]}, but max_rows_per_group is {rows}. Give "
                    "both the same limit, or keep one",
                )
            rows = of_count[0]
        needed = any(a.needs_rows for a in aggregates)
        if rows is None and needed and self.options.auto_limits:
            return "auto"
        if rows is None and needed and self.declared is not None and self.declared.max_rows is not None:
            rows = self.declared.max_rows
            self.notes.append(limit_note(self.declared, "max_rows_per_group", rows))
        if rows is None and needed:
            self.notes.append(
                "max_rows_per_group was not given, so at most 1 row of a privacy unit counts in a group."
            )
            rows = 1
        return rows
