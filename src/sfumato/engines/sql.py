"""`sf.sql`: from a SQL text and tables, by the names that it has for them, to the questions that it asks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, cast, overload

from sfumato.api.largest_groups import Top
from sfumato.api.question import Question
from sfumato.budget import Budget
from sfumato.budget.epsilon_delta import ExactCost, admissible_delta, admissible_epsilon
from sfumato.budget.ledger import LedgerBudget
from sfumato.catalogs.declarations import Declarations
from sfumato.dataclass import dataclass
from sfumato.engines.scan import SparkFrame, as_collection, scan
from sfumato.errors import ColumnError, ParameterError, QueryError, SqlError, nearest, shown, with_article
from sfumato.guidance.preliminary_queries import check_complete
from sfumato.names import suggest_arguments
from sfumato.plan.plan import Claim, Described
from sfumato.query.error_bars import Bars
from sfumato.query.schema import format_name, match_name
from sfumato.query.tables.public_table import PublicTable
from sfumato.release.noisy_table import NoisyTable
from sfumato.release.payment import CanonicalForm, QuestionKey, payment, question_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sfumato.dialect import SqlQuery
    from sfumato.dialect.options_clause import Advised
    from sfumato.engines.catalog import Catalog
    from sfumato.engines.duckdb.post_processing import PostProcessingSql, ReleasedColumns
    from sfumato.engines.duckdb.resources import Resources
    from sfumato.release.release import Release
    from sfumato.release.top_release import TopRelease


@overload
def sql(
    text: str,
    *,
    tables: None = None,
    types: Mapping[str, str] | None = None,
    timezone: str | None = None,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | PathLike[str] | None = None,
    budget: Budget | None = None,
) -> NoisyTable: ...
@overload
def sql(
    text: str,
    *,
    catalog: Catalog,
    timezone: str | None = None,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | PathLike[str] | None = None,
    budget: Budget | None = None,
) -> NoisyTable: ...
@overload
def sql(
    text: str,
    *,
    tables: Mapping[str, SparkFrame],
    types: Mapping[str, str] | None = None,
    timezone: str | None = None,
    budget: Budget | None = None,
) -> DataFrame: ...
@overload
def sql(
    text: str,
    *,
    tables: Mapping[str, object],
    types: Mapping[str, str] | None = None,
    timezone: str | None = None,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | PathLike[str] | None = None,
    budget: Budget | None = None,
) -> NoisyTable: ...
@suggest_arguments
def sql(
    text: str,
    *,
    tables: Mapping[str, Any] | None = None,
    catalog: Catalog | None = None,
    types: Mapping[str, str] | None = None,
    timezone: str | None = None,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | PathLike[str] | None = None,
    budget: Budget | None = None,
) -> Any:
    """Query in SQL: `SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (...) ... FROM 'file.parquet' ...`.

    Args:
        text: a SELECT in BigQuery's or ZetaSQL's differential-privacy dialect; see docs/sql.md.
        tables: sources, by the names that FROM and JOIN use for anything that is not a path. Tables from
            `sfumato.public` are public; all others are private.
        catalog: the tables that FROM and JOIN may name, from `sfumato.catalog`. The text may then leave out
            bounds, limits and the privacy unit that it declares, and you cannot give `tables` and `types`.
        types: types of columns without a declared type, as for `scan`; in the text OPTIONS (types = 'id
            BIGINT, amount DOUBLE').
        timezone: the time zone in which expressions and group keys read times with a zone, as for `scan`; in
            the text OPTIONS (timezone = 'Europe/Berlin'). The default is the catalog's, or UTC.
        memory_limit, threads, temp_directory: as for `scan`.
        budget: the `sfumato.Budget` to charge.
    Returns:
        A noisy table: a `Release`; a `TopRelease` for a query for the largest groups; a `ProcessedRelease` if
        the text computes with released tables. For a Spark data frame, a Spark data frame.
    Raises:
        SqlError: the text is not understood or requests something that is not private.
        QueryError, BudgetError, EngineError: as for `scan` and `Question.release`.

    >>> import pyarrow as pa
    >>> visits = pa.table({"id": [1, 1, 2], "visits": [3, 0, 5]})
    >>> release = sql(
    ...     "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = id) "
    ...     "SUM(visits, contribution_bounds_per_group => (0, 10)) AS total FROM visits",
    ...     tables={"visits": visits},
    ... )
    >>> release.spent
    (1.0, 0.0)
    """
    limits = {"memory_limit": memory_limit, "threads": threads, "temp_directory": temp_directory}
    return ask(text, tables, catalog, types, limits, timezone).release(budget)


@dataclass(frozen=True)
class ParsedQuery:
    """The questions of a text, each of one private SELECT; nothing is read or spent yet.

    Args:
        query: the first, with the others beside it.
        questions: in the same order.
        public: tables that are read as they are, and not joined.
        resources: what DuckDB may take of the machine.
    """

    query: SqlQuery
    questions: tuple[Question[Any] | Top, ...]
    public: Mapping[str, PublicTable]
    resources: Resources

    @property
    def queries(self) -> tuple[SqlQuery, ...]:
        """Each private SELECT as it was understood."""
        return (self.query, *self.query.companions)

    def diagnosed(self, share: str) -> ParsedQuery:
        """Return it with diagnostics of each release, for a share of its budget, unless the text says.

        Raises:
            QueryError: it asks for the largest groups.
        """
        if any(one.largest is not None for one in self.queries):
            raise QueryError(
                "diagnostics: the largest groups are drawn without limits, so there is no bias to "
                "estimate. Leave diagnostics out"
            )
        first, *companions = (replace(one, diagnostics=one.diagnostics or share) for one in self.queries)
        return replace(self, query=replace(first, companions=tuple(companions)))

    def check_planned(self, what: str) -> None:
        """Refuse what would need rows, where only a plan is asked for: what a release is to find.

        Raises:
            QueryError: there is something.
        """
        for question in self.questions:
            if isinstance(question, Question):
                check_complete(question.aggregates, question.table._auto_limits, what)

    @property
    def needs_preliminary_queries(self) -> bool:
        """Whether a release looks at rows before it is planned, for bounds or limits that are left to it."""
        return any(isinstance(question, Question) and question.automatic for question in self.questions)

    def trial(self) -> Any:
        """Return the release that nobody pays for: to see what it would be, and never to be drawn.

        What a release would find by looking at rows has stand-ins in it.
        """
        from sfumato.release.processed_release import ProcessedRelease

        if self.query.outside is None:
            return _trial(self.questions[0], self.query)
        planned, computation = self._plan_computed()
        return ProcessedRelease([one.trial for one in planned], computation)

    def charge_for(self, trial: Any, budget: Budget) -> Any:
        """Pay for what `trial` gave, where nothing looks first, and return it: now it may be drawn.

        Raises:
            BudgetError: it is more than is left; nothing is spent then.
        """
        from sfumato.release.processed_release import ProcessedRelease

        assert not self.needs_preliminary_queries
        parts = trial._releases if isinstance(trial, ProcessedRelease) else (trial,)
        plans: list[Any] = [part.plan for part in parts]
        made_up = all(question._engine.made_up for question in self.questions)
        what = "; ".join(question.title for question in self.questions)
        paid = payment(budget, plans, what, form=trial.canonical, made_up=made_up)()
        for one in (*parts, trial):
            one._paid = paid
        return trial

    def release(self, budget: Budget | None = None) -> Any:
        """Plan all releases, see that what is computed with them fits, and only then read and spend."""
        from sfumato.release.processed_release import ProcessedRelease

        query, questions = self.query, self.questions
        if query.outside is None:
            return questions[0].release(**query.release_options, budget=budget)
        planned, computation = self._plan_computed()
        claims = list(map(_claim, planned, questions, self.queries))
        what = "; ".join(question.title for question in questions)
        made_up = all(question._engine.made_up for question in questions)
        form = ProcessedRelease([one.trial for one in planned], computation).canonical
        same = None if self.needs_preliminary_queries else self._same(form)
        paid = payment(budget, claims, what, form=form, same=same, made_up=made_up)()
        made = ProcessedRelease([one.release() for one in planned], computation)
        made._take(paid)
        return made

    def repeats(self, trial: Any, budget: LedgerBudget) -> int | None:
        """Return the entry of a ledger whose answer `release` would give again; None where it would be paid.

        Raises:
            EngineError: the ledger cannot be read.
        """
        asked = None if self.needs_preliminary_queries else self._same(trial.canonical)()
        return None if asked is None else budget._find_answer(asked).entry

    def _same(self, form: CanonicalForm) -> QuestionKey:
        """Return by what the text is known again, as `Question.release` knows one question."""
        read: list[Any] = [question._engine for question in self.questions]
        if self.query.outside is not None:
            read += [table._engine for table in self.public.values()]
        queries = [question.query for question in self.questions if isinstance(question, Question)]
        return question_key(form, read, queries)

    def _plan_computed(self) -> tuple[list[_Planned], PostProcessingSql]:
        """Return all releases as they are planned, and what is computed with them, which fits."""
        from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
        from sfumato.engines.duckdb.post_processing import PostProcessingSql

        query, questions = self.query, self.questions
        assert query.outside is not None
        if not all(isinstance(question._engine, DuckDBEngine) for question in questions):
            raise SqlError(
                "this text computes with released tables, which needs rows that are read in this "
                "process. Query keys and aggregates only, and compute with the result, for example "
                "with spark.sql"
            )
        planned = [_plan(question, one) for question, one in zip(questions, self.queries, strict=True)]
        read = {name: self.public[name] for name in query.outside.public}
        asked = zip(planned, self.queries, strict=True)
        known = [(one.columns, Bars(of.confidence, sampling=of.sampling)) for one, of in asked]
        return planned, PostProcessingSql(query.outside, known, read, self.resources)


@dataclass(frozen=True)
class _Planned:
    """A private SELECT of a text that computes with what is released.

    Args:
        trial: its release, as nobody pays for it; where that looks at rows first, with stand-ins for what it
            is to find.
        columns: what is released.
        release: makes the release, which is paid for.
    """

    trial: Release | TopRelease
    columns: ReleasedColumns
    release: Callable[[], Any]


def _claim(planned: _Planned, question: Question[Any] | Top, query: SqlQuery) -> Described:
    """Return what is paid for a release; where looks come first, all that it may spend.

    Whether an answer needs its delta may follow from what looks find.
    """
    plan: Any = planned.trial.plan
    if not (isinstance(question, Question) and question.automatic):
        return cast(Described, plan)
    return Claim(ExactCost(admissible_epsilon(query.epsilon), admissible_delta(query.delta)), [plan])


def _plan(question: Question[Any] | Top, query: SqlQuery) -> _Planned:
    from sfumato.engines.duckdb.post_processing import columns_of_largest, released_columns

    made = _trial(question, query)
    if isinstance(question, Top):
        return _Planned(made, columns_of_largest(made.plan), lambda: made)
    columns = released_columns(made.plan, question.table.schema)
    if question.automatic:
        return _Planned(made, columns, partial(question.release, **query.release_options))
    return _Planned(made, columns, lambda: made)


def _trial(question: Question[Any] | Top, query: SqlQuery) -> Any:
    """Return the release of one private SELECT, as it is planned and nobody pays for it."""
    options = query.release_options
    if isinstance(question, Top):
        return question._engine.top(question.plan(**options))
    return question.table._engine.release(question._check_plan(**options))


def ask(
    text: str,
    tables: Mapping[str, Any] | None,
    catalog: Declarations | None,
    types: Mapping[str, str] | None,
    limits: Mapping[str, Any],
    timezone: str | None = None,
) -> ParsedQuery:
    """Return the questions that a text asks of tables; arguments and errors are those of `sql`.

    Args:
        limits: `memory_limit`, `threads` and `temp_directory`.
    """
    return asking(tables, catalog, types, limits, timezone=timezone)(text)


def asking(
    tables: Mapping[str, Any] | None,
    catalog: Declarations | None,
    types: Mapping[str, str] | None,
    limits: Mapping[str, Any],
    advised: Advised | None = None,
    timezone: str | None = None,
) -> Callable[[str], ParsedQuery]:
    """Return what reads texts, as `ask`; what several of them name is opened once, and is the same table.

    Args:
        tables, catalog, types, limits, timezone: as of `ask`.
        advised: the budget of all texts together, where advice divides it.
    """
    from sfumato.dialect import parse
    from sfumato.engines.duckdb.resources import check_resources

    known: dict[Any, Any] = {}

    def once(key: object, open_one: Callable[[], Any]) -> Any:
        if key not in known:
            known[key] = open_one()
        return known[key]

    def read(text: str) -> ParsedQuery:
        check_no_secret(text)
        resources = check_resources(**limits)
        if catalog is None:
            query, opened = parse_with_tables(text, tables, types, limits, advised, timezone)

            def table(one: SqlQuery, name: str, unit: str) -> Any:
                given = (
                    *(sorted((one.types or {}).items()), one.unit_parts, one.unit_timezone),
                    *(one.timezone, one.multiline, one.encoding),
                )
                key = match_name(name, tables or ()), unit.casefold(), repr(given)
                return once(key, partial(opened, one, name, unit))

            return _parse_query(query, table, resources)
        if not isinstance(catalog, Declarations):
            raise ParameterError("catalog", catalog, "what sf.catalog(...) gives")
        if tables or types is not None:
            message = "sql: catalog= gives the tables and their types. Leave the other arguments out"
            raise QueryError(message)
        declared: Any = catalog

        def of_catalog(one: SqlQuery, name: str, _: str) -> Any:
            called = declared.declaration(name)
            opened = declared.public if called.public else declared.table
            table = once(called.name, partial(opened, called.name, **limits))
            zone = find_time_zone(one, timezone)
            return once((called.name, zone), partial(in_zone, table, zone))

        return _parse_query(parse(text, declared, advised=advised), of_catalog, resources)

    return read


def _parse_query(query: SqlQuery, open_table: OpenTable, resources: Resources) -> ParsedQuery:
    from sfumato.engines.duckdb.post_processing import read_public_groups

    queries, public = (query, *query.companions), dict[str, PublicTable]()
    for name in (name for one in queries for name in _public_names(one)):
        public[name] = public[name] if name in public else open_table(query, name, "")
    questions = [
        one.question(partial(open_table, one), lambda groups: read_public_groups(groups, public, resources))
        for one in queries
    ]
    return ParsedQuery(query, tuple(questions), public, resources)


def _public_names(query: SqlQuery) -> list[str]:
    """Return the public tables that are read as they are, and not joined."""
    found = list(query.public_groups.public) if query.public_groups is not None else []
    return found + list(query.outside.public if query.outside is not None else ())


# What an address with a user in it has, or with a password as an option.
_SECRET = re.compile(r"@|[?&](?:password|sig|signature|token|x-amz-[a-z-]+)=", re.IGNORECASE)
# Gives a table of a private SELECT, from its name and the privacy unit's column.
OpenTable = Callable[["SqlQuery", str, str], Any]


def check_no_secret(text: object) -> None:
    """Refuse a text that names a user of a database.

    Raises:
        SqlError: it has one in an address.
    """
    # What is in quotes, or between them; two of them are one that belongs to an address.
    written = re.sub(r"''|\"\"", "", text if isinstance(text, str) else "")
    parts = re.findall(r"""'[^']*'?|"[^"]*"?|[^'"]+""", written)
    if any(_SECRET.search(part.partition("://")[2]) for part in parts):
        raise SqlError(
            "the text has the address of a database with its user in it, which errors and "
            "explanations would show. Give it a name, tables={'orders': 'postgresql://...'}, or use "
            "a catalog"
        )


def find_time_zone(query: SqlQuery, timezone: str | None) -> str | None:
    """Return the time zone that a text, or the call with it, names; None where none does.

    Raises:
        QueryError: both do.
    """
    if timezone is not None and query.timezone is not None:
        raise QueryError(
            "sql: the time zone is given both in OPTIONS (timezone = ...) and as timezone=. Keep one"
        )
    return timezone if query.timezone is None else query.timezone


def in_zone(table: Any, zone: str | None) -> Any:
    """Return a table that reads times with a zone in another one; the same where none is named."""
    return table if zone is None else replace(table, _engine=table._engine.in_timezone(zone))


def parse_with_tables(
    text: str,
    tables: Mapping[str, Any] | None,
    types: Mapping[str, str] | None,
    limits: Mapping[str, Any],
    advised: Advised | None,
    timezone: str | None = None,
) -> tuple[SqlQuery, OpenTable]:
    """Return what a text asks, and what opens the tables that it names; none is opened yet.

    Args:
        text, tables, types: as of `sf.sql`.
        limits: `memory_limit`, `threads` and `temp_directory`.
        advised: the budget of several texts together, where advice divides it.
        timezone: as of `sf.sql`.
    Raises:
        SqlError: the text is not understood, or names what is not there.
        QueryError: `tables` is no dict of names, or types or a time zone are given twice.
    """
    from sfumato.dialect import parse
    from sfumato.engines.duckdb.file_paths import is_path

    if not isinstance(tables, Mapping | None) or not all(isinstance(name, str) for name in tables or ()):
        kind = type(tables).__name__  # its text would show rows
        raise QueryError(
            f"sql: tables is {with_article(kind)}, but must give each table a name: tables={{'visits': ...}}"
        )
    sources = {name: as_collection(name, source) for name, source in (tables or {}).items()}
    public = [name for name, source in sources.items() if isinstance(source, PublicTable)]
    query = parse(text, public=public, private=sources.keys() - public, advised=advised)
    queries = (query, *query.companions)
    for name in (match_name(name, sources) for one in queries for name in one.sources):
        if name not in sources and not is_path(name):
            near = nearest(name, sources)
            given = f"tables={{{name!r}: ...}}, on the command line --table {name}=PATH"
            remedy = f"did you mean {near!r}?" if near else f"say what it is: {given}"
            raise SqlError(f"FROM names {name!r}, which is neither a file nor a table; {remedy}")
    if types is not None and any(one.types is not None for one in queries):
        raise QueryError("sql: types are given both in OPTIONS (types = ...) and as types=. Keep one")

    def opened(one: SqlQuery, name: str, unit: str) -> Any:
        name, zone = match_name(name, sources), find_time_zone(one, timezone)
        if isinstance(sources.get(name), PublicTable):
            return in_zone(sources[name], zone)
        declared = one.types if types is None else types
        if one.unit_parts and unit.casefold() != one.privacy_unit_column.casefold():
            raise ColumnError(
                f"the privacy unit of {shown(name)} is made of {' and '.join(one.unit_parts)}, in "
                f"the column {format_name(one.privacy_unit_column)}. It cannot be {format_name(unit)}"
            )
        return scan(
            sources.get(name, name),
            privacy_unit=one.unit_parts or unit,
            timezone="UTC" if zone is None else zone,
            unit_timezone=one.unit_timezone,
            types=declared,
            multiline=one.multiline,
            encoding=one.encoding,
            **limits,
        )

    return query, opened
