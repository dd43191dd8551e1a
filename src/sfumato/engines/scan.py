"""From a source, or a SQL text, to a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, overload

from sfumato.api.table import Table
from sfumato.names import suggest_arguments
from sfumato.query.schema import own_name
from sfumato.query.tables.public_table import PublicTable
from sfumato.query.tables.table_part import checked_parts, unit_name, unit_note
from sfumato.release.release import Release

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sfumato.engines.beam.beam_release import PlannedRelease


class SparkFrame(Protocol):
    """A Spark data frame as `scan` recognizes it."""

    @property
    def sparkSession(self) -> Any:
        """The session of a Spark frame that `scan` takes."""
        ...


class ArrowSchema(Protocol):
    """An Arrow schema as `scan` recognizes it, for rows of a Beam pipeline."""

    def with_metadata(self, metadata: Any) -> Any:
        """Return a copy of a schema that `scan` takes."""
        ...

    def get_all_field_indices(self, name: str) -> Any:
        """Return the places of a name in a schema that `scan` takes."""
        ...


@overload
def scan(
    source: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    privacy_unit: str | Sequence[str],
    types: Mapping[str, str] | None = None,
    multiline: bool = True,
    encoding: str | None = None,
    timezone: str = "UTC",
    unit_timezone: str | None = None,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | PathLike[str] | None = None,
) -> Table[Release]: ...
@overload
def scan(
    source: SparkFrame,
    *,
    privacy_unit: str | Sequence[str],
    types: Mapping[str, str] | None = None,
    timezone: str = "UTC",
    unit_timezone: str | None = None,
) -> Table[DataFrame]: ...
@overload
def scan(
    source: ArrowSchema,
    *,
    privacy_unit: str | Sequence[str],
    types: Mapping[str, str] | None = None,
    timezone: str = "UTC",
    unit_timezone: str | None = None,
) -> Table[PlannedRelease]: ...
@overload
def scan(
    source: object,
    *,
    privacy_unit: str | Sequence[str],
    types: Mapping[str, str] | None = None,
    timezone: str = "UTC",
    unit_timezone: str | None = None,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | PathLike[str] | None = None,
) -> Table[Release]: ...
@suggest_arguments
def scan(
    source: Any,
    *,
    privacy_unit: str | Sequence[str],
    types: Mapping[str, str] | None = None,
    multiline: bool = True,
    encoding: str | None = None,
    timezone: str = "UTC",
    unit_timezone: str | None = None,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | PathLike[str] | None = None,
) -> Table[Any]:
    """Open a private table.

    Args:
        source: a path to Parquet, CSV or JSON of one object a line; a pattern, a folder, or a list of such
            files with the same columns; an address of one, as "s3://bucket/visits.parquet", "gs://..." or
            "https://...", which is fetched whole (extra `remote`); "file.duckdb/table" for a table or view in
            a DuckDB file, "file.sqlite/table" in one of SQLite, "postgresql://user@host/database/table" in
            PostgreSQL; a DuckDB relation; an Arrow table, dataset or stream of batches, as a cursor of ADBC
            gives; a Polars, pandas or Spark data frame; an Arrow schema, for rows that a Beam pipeline brings
            later.
        privacy_unit: the column that tells whose row it is. Rows where it is NULL are dropped. Or a list of
            columns, and of SQL expressions of a row's columns, whose values tell it together, as in
            ["id", "date_trunc('week', day)"]: then a unit is one person in one week, and a person with
            rows in m weeks is protected as m people together are.
        types: DuckDB's types of columns that declare none, by name: of CSV and JSON, where else they are
            guessed from the first rows and a note says so, and of a pandas frame's columns of objects, which
            else are text. What does not fit its type is NULL. Columns of CSV that are not named are text.
        multiline: whether a text in quotes may have several lines in CSV. False where none has: then each
            line is a row, and no quote that somebody left open takes the lines behind it along.
        encoding: how texts are written in CSV, by the name that Python has for it, as "latin-1", "cp1252" or
            "utf-16"; UTF-8 where it is left out. Bytes that are no text in it are NULL.
        timezone: the time zone in which expressions, group keys and texts read times with a zone, such as
            "Europe/Berlin". The time zone of the machine, and of a Spark session, has no part in it.
        unit_timezone: the same for expressions of `privacy_unit`; `timezone` where it is left out.
        memory_limit: what DuckDB may take before it spills rows to disk, as '4GB' or '50%' of the machine's
            memory, or of the container's; 80% where it is left out.
        threads: at most so many at once; one for each core where it is left out.
        temp_directory: an existing folder to spill in, in a folder that only this user may enter; the folder
            of temporary files where it is left out. These three are for rows that are read in this process,
            not by workers of Spark or Beam.
    Returns:
        A Table, on which a question is built. No row is read yet; a stream is read once, for the first
        release, and its rows are kept.
    Raises:
        EngineError: the source is not there, is empty of columns, or cannot be read.
        ColumnError: there is no such column.
        QueryError: types are given that are none, or to a source that has its own; multiline=False or
            encoding= is given to what is no CSV; a limit to workers.
        ParameterError: a limit is none, the folder is not there, or there is no such time zone.

    >>> import pyarrow as pa
    >>> visits = pa.table({"id": [1, 1, 2], "visits": [3, 0, 5]})
    >>> scan(visits, privacy_unit="id").schema["visits"].kind.value
    'integer'
    """
    from sfumato.engines.duckdb.resources import checked_resources

    limits = memory_limit, threads, temp_directory
    parts = checked_parts(privacy_unit) if isinstance(privacy_unit, (list, tuple)) else ()
    unit: Any = parts[0] if len(parts) == 1 else privacy_unit
    unit_timezone = timezone if unit_timezone is None else unit_timezone
    plain = multiline and encoding is None
    elsewhere = read_elsewhere(source, types, plain, *limits, timezone=timezone)
    if elsewhere is not None:
        return unit_table(elsewhere, unit, parts, unit_timezone)
    from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine

    resources = checked_resources(*limits)
    engine = DuckDBEngine.open(source, timezone, types, multiline, encoding, resources)
    return unit_table(engine, unit, parts, unit_timezone, engine.notes)


def unit_table(
    engine: Any, unit: str, parts: Sequence[str], timezone: str, notes: tuple[str, ...] = ()
) -> Table[Any]:
    """Return the table that `scan` makes of an engine and a privacy unit."""
    if len(parts) < 2:
        own = own_name(unit, engine.schema()) if isinstance(unit, str) else unit
        return Table(engine, own, notes=notes)
    made, units = engine.composite(parts, timezone)
    return Table(made, unit_name(parts), notes=(*notes, unit_note(units)), _unit_parts=units)


def read_elsewhere(
    source: Any,
    types: Mapping[str, str] | None,
    plain: bool,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | PathLike[str] | None = None,
    *,
    public: bool = False,
    timezone: str = "UTC",
) -> Any:
    """Return the Spark or Beam engine of a scanned source; None where it is read in this process.

    Args:
        source, types, memory_limit, threads, temp_directory: as of `scan`.
        plain: whether nothing is said of how CSV is written, which only files of CSV take.
        public: whether the rows are public knowledge.
        timezone: in which times with a zone are read.
    Raises:
        QueryError: types or limits are given to workers.
        ParameterError: there is no such time zone.
    """
    from sfumato.engines.duckdb.column_types import refuse_types
    from sfumato.engines.duckdb.resources import refuse_resources

    limits = memory_limit, threads, temp_directory
    if plain and type(source).__module__.startswith("pyspark."):
        from sfumato.engines.spark.spark_engine import SparkEngine

        refuse_types(types, "a Spark data frame")
        refuse_resources(*limits, "a Spark data frame")
        return SparkEngine(source, public, timezone)
    if plain and is_arrow_schema(source):
        from sfumato.engines.beam.beam_engine import BeamEngine

        refuse_types(types, "an Arrow schema")
        refuse_resources(*limits, "a Beam pipeline")
        return BeamEngine(source, public, timezone)
    return None


def is_arrow_schema(source: object) -> bool:
    """Whether a scanned source is the schema of rows that a Beam pipeline brings."""
    import pyarrow as pa

    return isinstance(source, pa.Schema)


@suggest_arguments
def public(
    source: Any,
    *,
    types: Mapping[str, str] | None = None,
    multiline: bool = True,
    encoding: str | None = None,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | PathLike[str] | None = None,
) -> PublicTable:
    """Open a public table: what everybody may know, such as regions or a calendar, to join with private ones.

    Nothing in it is protected. Do not open a table of people here.

    Args:
        source, types, multiline, encoding, memory_limit, threads, temp_directory: as for `scan`. Rows are
            read in this process when a release is made; those of a Spark data frame are collected, and those
            of an Arrow schema come when a Beam pipeline runs.
    Returns:
        A `PublicTable`; nothing is read but names and types of columns.
    Raises:
        EngineError, QueryError, ParameterError: as from `scan`.

    >>> import pyarrow as pa
    >>> public(pa.table({"town": ["A", "B"], "region": ["north", "south"]})).schema["region"].kind.value
    'other'
    """
    from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
    from sfumato.engines.duckdb.post_processing import rows_of
    from sfumato.engines.duckdb.resources import checked_resources
    from sfumato.release.table_digest import table_digest

    plain, limits = multiline and encoding is None, (memory_limit, threads, temp_directory)
    elsewhere = read_elsewhere(source, types, plain, *limits, public=True)
    if elsewhere is not None:
        return PublicTable(elsewhere)
    resources = checked_resources(*limits)
    engine = DuckDBEngine.open(
        source, types=types, multiline=multiline, encoding=encoding, resources=resources
    )
    if engine.origin.address is None:
        engine.origin = replace(
            engine.origin, rows_digest=lambda: table_digest(rows_of(PublicTable(engine)).rows)
        )
    table = PublicTable(engine, notes=engine.notes)
    table.schema  # noqa: B018  says what cannot be read
    return table


def as_collection(name: str, source: Any) -> Any:
    """Return a scanned source under its name, where a Beam pipeline brings it."""
    if isinstance(source, PublicTable):
        called = getattr(source._engine, "called", None)
        return source if called is None else replace(source, _engine=called(name))
    if not is_arrow_schema(source):
        return source
    from sfumato.engines.beam.beam_engine import named

    return named(name, source)
