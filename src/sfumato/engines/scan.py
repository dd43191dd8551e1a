"""From a source, or a SQL text, to a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, overload

from sfumato.catalogs.declarations import Declarations
from sfumato.errors import ParameterError, QueryError, SqlError, nearest
from sfumato.query.release import Release
from sfumato.query.table import PublicTable, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sfumato.dialect import SqlQuery
    from sfumato.engines.beam.release import PlannedRelease
    from sfumato.engines.catalog import Catalog
    from sfumato.engines.duckdb.resources import Resources


class SparkFrame(Protocol):
    """A data frame of Spark, by what no other source has."""

    @property
    def sparkSession(self) -> Any:
        """Its session."""
        ...


class ArrowSchema(Protocol):
    """An Arrow schema, by what no other source has."""

    def with_metadata(self, metadata: Any) -> Any:
        """Return a copy."""
        ...

    def get_all_field_indices(self, name: str) -> Any:
        """Return the places of a name."""
        ...


@overload
def scan(
    source: str | PathLike[str],
    *,
    privacy_unit: str,
    types: Mapping[str, str] | None = None,
    multiline: bool = True,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | PathLike[str] | None = None,
) -> Table[Release]: ...
@overload
def scan(
    source: SparkFrame, *, privacy_unit: str, types: Mapping[str, str] | None = None
) -> Table[DataFrame]: ...
@overload
def scan(
    source: ArrowSchema, *, privacy_unit: str, types: Mapping[str, str] | None = None
) -> Table[PlannedRelease]: ...
@overload
def scan(
    source: object,
    *,
    privacy_unit: str,
    types: Mapping[str, str] | None = None,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | PathLike[str] | None = None,
) -> Table[Release]: ...
def scan(
    source: Any,
    *,
    privacy_unit: str,
    types: Mapping[str, str] | None = None,
    multiline: bool = True,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | PathLike[str] | None = None,
) -> Table[Any]:
    """Open a private table.

    Args:
        source: a path to Parquet, CSV or JSON of one object a line (globs too, of files with the same
            columns); "file.duckdb/table" for a table or view in a DuckDB file; a DuckDB relation; an Arrow
            table, a Polars, pandas or Spark data frame; an Arrow schema, for rows that a Beam pipeline
            brings later.
        privacy_unit: the column that tells whose row it is. Rows where it is NULL are dropped.
        types: DuckDB's types of columns that declare none, by name: of CSV and JSON, where else they are
            guessed from the first rows and a note says so, and of a pandas frame's columns of objects, which
            else are text. What does not fit its type is NULL. Columns of CSV that are not named are text.
        multiline: whether a text in quotes may have several lines in CSV. False where none has: then each
            line is a row, and no quote that somebody left open takes the lines behind it along.
        memory_limit: what DuckDB may take before it spills rows to disk, as '4GB' or '50%' of the machine's
            memory, or of the container's; 80% where it is left out.
        threads: at most so many at once; one for each core where it is left out.
        temp_directory: an existing folder to spill in, in a folder that only this user may enter; the folder
            of temporary files where it is left out. These three are for rows that are read in this process,
            not by workers of Spark or Beam.
    Returns:
        A Table, on which a question is built. No row is read yet.
    Raises:
        EngineError: the source is not there, is empty of columns, or cannot be read.
        ColumnError: there is no such column.
        QueryError: types are given that are none, or to a source that has its own; multiline=False is given
            to what is no CSV; a limit to workers.
        ParameterError: a limit is none, or the folder is not there.

    >>> import pyarrow as pa
    >>> visits = pa.table({"id": [1, 1, 2], "visits": [3, 0, 5]})
    >>> scan(visits, privacy_unit="id").schema["visits"].kind.value
    'integer'
    """
    from sfumato.engines.duckdb.declared import refuse_types
    from sfumato.engines.duckdb.resources import checked_resources, refuse_resources

    limits = memory_limit, threads, temp_directory
    if multiline and type(source).__module__.startswith("pyspark."):
        from sfumato.engines.spark.engine import SparkEngine

        refuse_types(types, "a Spark data frame")
        refuse_resources(*limits, "a Spark data frame")
        return Table(SparkEngine(source), privacy_unit)
    import pyarrow as pa

    if multiline and isinstance(source, pa.Schema):
        from sfumato.engines.beam.engine import BeamEngine

        refuse_types(types, "an Arrow schema")
        refuse_resources(*limits, "a Beam pipeline")
        return Table(BeamEngine(source), privacy_unit)
    from sfumato.engines.duckdb.engine import DuckDBEngine

    engine = DuckDBEngine.open(source, types=types, multiline=multiline, resources=checked_resources(*limits))
    return Table(engine, privacy_unit, notes=engine.notes)


def public(
    source: Any,
    *,
    types: Mapping[str, str] | None = None,
    multiline: bool = True,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | PathLike[str] | None = None,
) -> PublicTable:
    """Open a public table: what everybody may know, such as regions or a calendar, to join with private ones.

    Nothing in it is protected. Do not open a table of people here.

    Args:
        source, types, multiline, memory_limit, threads, temp_directory: as for `scan`; rows are read in this
            process.
    Raises:
        EngineError, QueryError, ParameterError: as from `scan`.

    >>> import pyarrow as pa
    >>> public(pa.table({"town": ["A", "B"], "region": ["north", "south"]})).schema["region"].kind.value
    'other'
    """
    from sfumato.engines.duckdb.engine import DuckDBEngine
    from sfumato.engines.duckdb.resources import checked_resources

    resources = checked_resources(memory_limit, threads, temp_directory)
    engine = DuckDBEngine.open(source, types=types, multiline=multiline, resources=resources)
    table = PublicTable(engine, notes=engine.notes)
    table.schema  # noqa: B018  says what cannot be read
    return table


@overload
def sql(
    text: str,
    *,
    tables: None = None,
    types: Mapping[str, str] | None = None,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | PathLike[str] | None = None,
) -> Release: ...
@overload
def sql(
    text: str,
    *,
    catalog: Catalog,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | PathLike[str] | None = None,
) -> Release: ...
@overload
def sql(
    text: str, *, tables: Mapping[str, SparkFrame], types: Mapping[str, str] | None = None
) -> DataFrame: ...
@overload
def sql(
    text: str,
    *,
    tables: Mapping[str, object],
    types: Mapping[str, str] | None = None,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | PathLike[str] | None = None,
) -> Release: ...
def sql(
    text: str,
    *,
    tables: Mapping[str, Any] | None = None,
    catalog: Catalog | None = None,
    types: Mapping[str, str] | None = None,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | PathLike[str] | None = None,
) -> Any:
    """Ask in SQL: `SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (...) ... FROM 'file.parquet' ...`.

    Args:
        text: one SELECT in BigQuery's or ZetaSQL's differential-privacy dialect; see docs/sql.md.
        tables: sources by the name that FROM and JOIN use, where that is not a path; what `sfumato.public`
            has opened is public, all others are private.
        catalog: the tables that FROM and JOIN may name, as `sfumato.catalog` gives them; then bounds, limits
            and the privacy unit may be left out where it declares them, and `tables` and `types` must be.
        types: of columns of a source that declares none, as for `scan`; in the text OPTIONS (types =
            'id BIGINT, amount DOUBLE').
        memory_limit, threads, temp_directory: as for `scan`.
    Returns:
        A Release; a `ProcessedRelease`, with the same face, where the text computes with the released table.
    Raises:
        SqlError: the text is not understood or asks for something that is not private.
        QueryError, BudgetError, EngineError: as from `scan` and `Question.release`.

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
    from sfumato.dialect import parse
    from sfumato.engines.duckdb.resources import checked_resources
    from sfumato.engines.duckdb.sources import is_path

    if catalog is not None:
        if not isinstance(catalog, Declarations):
            raise ParameterError("catalog", catalog, "what sf.catalog(...) gives")
        if tables or types is not None:
            raise QueryError(
                "sql: catalog= says what tables there are, and their types; leave the others out"
            )
        limits: dict[str, Any] = {
            "memory_limit": memory_limit,
            "threads": threads,
            "temp_directory": temp_directory,
        }
        query = parse(text, catalog)

        def declared(_: SqlQuery, name: str, __: str) -> Any:
            public = catalog.declaration(name).public
            return catalog.public(name, **limits) if public else catalog.table(name, **limits)

        return _released(query, declared, checked_resources(memory_limit, threads, temp_directory))
    if not isinstance(tables, Mapping | None) or not all(isinstance(name, str) for name in tables or ()):
        kind = type(tables).__name__  # its text would show rows
        raise QueryError(
            f"sql: tables is a {kind}, but must give each table a name: tables={{'visits': ...}}"
        )
    sources = dict(tables or {})
    public = [name for name, source in sources.items() if isinstance(source, PublicTable)]
    query = parse(text, public=public, private=sources.keys() - public)
    queries = (query, *query.beside)
    for name in (name for one in queries for name in one.sources):
        if name not in sources and not is_path(name):
            near = nearest(name, sources)
            given = f"tables={{{name!r}: ...}}, on the command line --table {name}=PATH"
            remedy = f"did you mean {near!r}?" if near else f"say what it is: {given}"
            raise SqlError(f"FROM names {name!r}, which is no path of a file and no table; {remedy}")
    if types is not None and any(one.types is not None for one in queries):
        raise QueryError("sql: types are given twice, in OPTIONS (types = ...) and beside the text; keep one")

    def opened(one: SqlQuery, name: str, unit: str) -> Any:
        if isinstance(sources.get(name), PublicTable):
            return sources[name]
        return scan(
            sources.get(name, name),
            privacy_unit=unit,
            types=one.types if types is None else types,
            multiline=one.multiline,
            memory_limit=memory_limit,
            threads=threads,
            temp_directory=temp_directory,
        )

    return _released(query, opened, checked_resources(memory_limit, threads, temp_directory))


def _released(query: SqlQuery, open_table: Callable[[SqlQuery, str, str], Any], resources: Resources) -> Any:
    """Plan all releases, and see that what is computed with them fits: nothing is read or spent before.

    Args:
        query: what the text asks.
        open_table: gives a table of one of its private SELECTs, from its name and the privacy unit's column.
        resources: what DuckDB may take of the machine.
    """
    from sfumato.engines.duckdb.engine import DuckDBEngine
    from sfumato.engines.duckdb.outside import OutsideSql, groups_of
    from sfumato.query.processed import ProcessedRelease

    queries, public = (query, *query.beside), dict[str, PublicTable]()
    for name in (name for one in queries for name in _public_names(one)):
        public[name] = public[name] if name in public else open_table(query, name, "")
    questions = [
        one.question(partial(open_table, one), lambda groups: groups_of(groups, public, resources))
        for one in queries
    ]
    if query.outside is None:
        return questions[0].release(**query.release_options)
    engines = [question.table.engine for question in questions]
    if not all(isinstance(engine, DuckDBEngine) for engine in engines):
        raise SqlError(
            "this text computes with released tables, which is done where rows are read in this process; "
            "ask for keys and aggregates alone, and compute with what comes back, as spark.sql does"
        )
    plans = [question.plan(**one.release_options) for question, one in zip(questions, queries, strict=True)]
    planned = [
        (plan, question.table.schema, one.confidence)
        for plan, question, one in zip(plans, questions, queries, strict=True)
    ]
    read = {name: public[name] for name in query.outside.public}
    computation = OutsideSql(query.outside, planned, read, resources)
    releases = [engine.release(plan) for engine, plan in zip(engines, plans, strict=True)]
    return ProcessedRelease(releases, computation)


def _public_names(query: SqlQuery) -> list[str]:
    """Return the public tables that are read as they are, and not joined."""
    found = list(query.public_groups.public) if query.public_groups is not None else []
    return found + list(query.outside.public if query.outside is not None else ())
