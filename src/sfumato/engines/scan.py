"""From a source, or a SQL text, to a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, overload

from sfumato.api.table import Table
from sfumato.names import suggest_arguments
from sfumato.query.schema import match_name
from sfumato.query.tables.public_table import PublicTable
from sfumato.query.tables.table_part import check_parts, unit_name, unit_note
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
        source: one of: a path to Parquet, CSV or JSON with one object per line; a pattern, a folder, or a
            list of such files with the same columns; the address of one, such as
            "s3://bucket/visits.parquet", "gs://..." or "https://...", which is downloaded whole (extra
            `remote`); "file.duckdb/table" for a table or view in a DuckDB file, "file.sqlite/table" in
            SQLite, "postgresql://user@host/database/table" in PostgreSQL; a DuckDB relation; an Arrow table,
            dataset or stream of batches, such as from an ADBC cursor; a Polars, pandas or Spark data frame;
            an Arrow schema, for rows that a Beam pipeline supplies later.
        privacy_unit: the column that identifies the person or other unit of a row. Rows where it is NULL are
            dropped. It can be a list of columns and of SQL expressions over one row's columns that identify
            the unit together, such as ["id", "date_trunc('week', day)"]. Then a unit is one person in one
            week, and a person with rows in m weeks has the protection of a group of m units.
        types: DuckDB types, by name, for columns without a declared type: in CSV and JSON, where they are
            otherwise guessed from the first rows, with a note, and for a pandas frame's object columns, which
            are otherwise text. A value that does not fit its type is NULL. CSV columns that are not named
            here are text.
        multiline: whether quoted text in CSV may have several lines. If you set it to False, each line is a
            row, and an unclosed quote does not swallow the lines after it.
        encoding: the encoding of text in CSV, by its Python name, such as "latin-1", "cp1252" or "utf-16";
            the default is UTF-8. Invalid bytes are NULL.
        timezone: the time zone in which expressions, group keys and text read times with a zone, such as
            "Europe/Berlin". The time zone of the machine or of a Spark session has no effect.
        unit_timezone: the same for expressions in `privacy_unit`; the default is `timezone`.
        memory_limit: how much memory DuckDB may use before it spills rows to disk, such as '4GB', or '50%' of
            the memory of the machine or container; the default is 80%.
        threads: the most threads to use; the default is one for each core.
        temp_directory: an existing folder for spilled rows, which go to a subfolder that only this user may
            enter; the default is the folder of temporary files. `memory_limit`, `threads` and
            `temp_directory` apply to rows that this process reads, not to workers of Spark or Beam.
    Returns:
        A Table, the start of a question. No row is read yet. A stream is read once, for the first release,
        and its rows are kept.
    Raises:
        EngineError: the source does not exist, has no columns, or cannot be read.
        ColumnError: a column does not exist.
        QueryError: types are not valid, or the source has its own; multiline=False or encoding= is given for
            a source other than CSV; a resource limit is given for workers.
        ParameterError: a limit is not valid, or the folder or the time zone does not exist.

    >>> import pyarrow as pa
    >>> visits = pa.table({"id": [1, 1, 2], "visits": [3, 0, 5]})
    >>> scan(visits, privacy_unit="id").schema["visits"].kind.value
    'integer'
    """
    from sfumato.engines.duckdb.resources import check_resources

    limits = memory_limit, threads, temp_directory
    parts = check_parts(privacy_unit) if isinstance(privacy_unit, (list, tuple)) else ()
    unit: Any = parts[0] if len(parts) == 1 else privacy_unit
    unit_timezone = timezone if unit_timezone is None else unit_timezone
    plain = multiline and encoding is None
    elsewhere = read_elsewhere(source, types, plain, *limits, timezone=timezone)
    if elsewhere is not None:
        return unit_table(elsewhere, unit, parts, unit_timezone)
    from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine

    resources = check_resources(*limits)
    engine = DuckDBEngine.open(source, timezone, types, multiline, encoding, resources)
    return unit_table(engine, unit, parts, unit_timezone, engine.notes)


def unit_table(
    engine: Any, unit: str, parts: Sequence[str], timezone: str, notes: tuple[str, ...] = ()
) -> Table[Any]:
    """Return the table that `scan` makes of an engine and a privacy unit."""
    if len(parts) < 2:
        own = match_name(unit, engine.schema()) if isinstance(unit, str) else unit
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
    """Open a public table, such as regions or a calendar, to join with private ones.

    Nothing in it is protected. Do not open a table about people here.

    Args:
        source, types, multiline, encoding, memory_limit, threads, temp_directory: as for `scan`. This process
            reads the rows when a release is made. Rows of a Spark data frame are collected; rows of an Arrow
            schema arrive when a Beam pipeline runs.
    Returns:
        A `PublicTable`; only names and types of columns are read.
    Raises:
        EngineError, QueryError, ParameterError: as for `scan`.

    >>> import pyarrow as pa
    >>> public(pa.table({"town": ["A", "B"], "region": ["north", "south"]})).schema["region"].kind.value
    'other'
    """
    from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
    from sfumato.engines.duckdb.post_processing import read_public_table
    from sfumato.engines.duckdb.resources import check_resources
    from sfumato.release.table_digest import table_digest

    plain, limits = multiline and encoding is None, (memory_limit, threads, temp_directory)
    elsewhere = read_elsewhere(source, types, plain, *limits, public=True)
    if elsewhere is not None:
        return PublicTable(elsewhere)
    resources = check_resources(*limits)
    engine = DuckDBEngine.open(
        source, types=types, multiline=multiline, encoding=encoding, resources=resources
    )
    if engine.origin.address is None:
        engine.origin = replace(
            engine.origin, rows_digest=lambda: table_digest(read_public_table(PublicTable(engine)).rows)
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
