"""`sf.catalog`: tables as their owner declares them, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from sfumato.catalogs.catalog_file import read
from sfumato.catalogs.declarations import Declarations
from sfumato.catalogs.declared_table import DeclaredTable
from sfumato.dataclass import dataclass
from sfumato.engines.declared_tables import opened, opened_public, said_where
from sfumato.engines.scan import as_collection
from sfumato.errors import QueryError
from sfumato.names import suggest_arguments
from sfumato.query.tables.dummy_rows import Making
from sfumato.query.tables.public_table import PublicTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sfumato.engines.catalog_check import CatalogCheck


@dataclass(frozen=True, repr=False)
class Catalog(Declarations):
    """Tables as their owner declares them. Made by `sfumato.catalog`."""

    def table(
        self,
        name: str,
        *,
        memory_limit: str | None = None,
        threads: int | None = None,
        temp_directory: str | PathLike[str] | None = None,
    ) -> DeclaredTable[Any]:
        """Open a private table, for questions; no row is read yet.

        Args:
            name: as the catalog calls it.
            memory_limit, threads, temp_directory: as for `sfumato.scan`.
        Returns:
            A table as of `sfumato.scan`, that knows its bounds, domains and limits.
        Raises:
            QueryError: there is no such table, or none that a question can be asked of.
            CatalogError: what is declared does not fit the source's columns and their types.
            EngineError: the source is not there, or cannot be read.

        >>> import pyarrow as pa, sfumato as sf
        >>> ages = pa.table({"id": [1, 2], "age": [30, 40]})
        >>> visits = {"source": ages, "privacy_unit": "id", "columns": {"age": {"lower": 0, "upper": 120}}}
        >>> table = catalog({"tables": {"visits": visits}}).table("visits")
        >>> table.bound(rows=1).agg(mean=sf.mean("age")).query.aggregates
        (('mean', Mean(column='age', lower=0, upper=120)),)
        """
        return opened(self, name, memory_limit=memory_limit, threads=threads, temp_directory=temp_directory)

    def public(
        self,
        name: str,
        *,
        memory_limit: str | None = None,
        threads: int | None = None,
        temp_directory: str | PathLike[str] | None = None,
    ) -> PublicTable:
        """Open a public table, to be joined with private ones; no row is read yet.

        Args:
            name, memory_limit, threads, temp_directory: as for `table`.
        Returns:
            A `PublicTable`.
        Raises:
            QueryError: there is no such table, or it is private.
            CatalogError, EngineError: as from `table`.

        >>> import pyarrow as pa
        >>> regions = {"source": pa.table({"town": ["Ulm"], "region": ["south"]}), "public": True}
        >>> list(catalog({"tables": {"regions": regions}}).public("regions").schema)
        ['town', 'region']
        """
        declared = self.declaration(name)
        if not declared.public:
            raise QueryError(f"{declared.where}: the table is private. Open it with catalog.table({name!r})")
        return opened_public(
            declared, memory_limit=memory_limit, threads=threads, temp_directory=temp_directory
        )

    def dummy(self, *, rows: int = 1_000, units: int | None = None, seed: int = 0) -> Catalog:
        """Return the same catalog over made-up rows: to write and try questions on, for free.

        Rows are made up from what the catalog declares, and from names and types of columns: of CSV, JSON and
        wherever `types` are declared from these alone, and the source need not be there; else as the source
        declares them, of which no row is read. Foreign keys name rows that are there.

        Args:
            rows, units, seed: of each private table, as for `Table.dummy`. A table whose rows a foreign key
                names by their privacy unit has one row for each unit; a public table has few rows.
        Raises:
            ParameterError: a number is not admissible.
            CatalogError, EngineError: a source that must tell its columns does not.
        Source:
            docs/dummy.md.

        >>> types = {"id": "BIGINT", "age": "BIGINT"}
        >>> visits = {"source": "not_there.csv", "privacy_unit": "id", "types": types}
        >>> catalog({"tables": {"visits": visits}}).dummy().table("visits").schema["age"].type_name
        'BIGINT'
        """
        from sfumato.engines.declared_tables import made_up

        return replace(self, tables=made_up(self, Making.from_options(rows, units, seed)))

    def check(self) -> CatalogCheck:
        """Compare what is declared with the rows, for the owner alone: what this returns is not private.

        Returns:
            A `CatalogCheck`: `ok` where all that is declared holds; `str()` says what does not. NOT PRIVATE.
        Raises:
            EngineError: rows cannot be read.

        >>> import pyarrow as pa
        >>> ages = pa.table({"id": [1, 2, 3], "age": [30, 40, 150]})
        >>> visits = {"source": ages, "privacy_unit": "id", "columns": {"age": {"lower": 0, "upper": 120}}}
        >>> check = catalog({"tables": {"visits": visits}}).check()
        >>> check.ok, [finding.text for finding in check.findings if finding.wrong]
        (False, ['1 row outside 0 to 120'])
        """
        from sfumato.engines.catalog_check import checked

        return checked(self)


@suggest_arguments
def catalog(
    source: str | PathLike[str] | Mapping[str, Any],
    *,
    timezone: str | None = None,
    spark: SparkSession | None = None,
) -> Catalog:
    """Read what the owner of tables declares: privacy units, types, bounds, domains, limits, foreign keys.

    Args:
        source: the path of a TOML file, or a dict of the same form, in which the `source` of a table may be
            whatever `sfumato.scan` takes; see docs/catalog.md.
        timezone: in which expressions and group keys read times with a zone, as for `sfumato.scan`, where a
            query names no other; in the file timezone = "Europe/Berlin". UTC where it is left out.
        spark: a session of Spark, where each `source` is the name of a table or view of it.
    Returns:
        A Catalog; no source is opened yet.
    Raises:
        CatalogError: something in it is unknown, missing or does not fit the rest; the text says where.
        EngineError: there is no such file.
        ParameterError: spark is no session, or there is no such time zone.

    >>> catalog({"tables": {"visits": {"source": "visits.parquet", "privacy_unt": "id"}}})
    Traceback (most recent call last):
    sfumato.errors.CatalogError: catalog: tables.visits: there is no key 'privacy_unt' of a table; did you
    mean privacy_unit? The keys are: ...
    """
    from sfumato.engines.duckdb.column_types import checked_types
    from sfumato.engines.duckdb.connection import checked_timezone
    from sfumato.engines.duckdb.text_lines import checked_encoding
    from sfumato.engines.spark.spark_engine import spark_tables

    declared = read(source, None if spark is None else spark_tables(spark), timezone)
    for table in declared.tables.values():
        with said_where(table):
            checked_types(table.types, nested=True)
            checked_encoding(table.encoding)
    tables = {
        name: replace(
            table,
            source=as_collection(name, table.source),
            timezone=checked_timezone("timezone", table.timezone),
        )
        for name, table in declared.tables.items()
    }
    return Catalog(declared.name, tables)
