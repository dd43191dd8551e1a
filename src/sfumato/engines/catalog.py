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
from sfumato.engines.declared_tables import name_table_in_errors, open_public, opened
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
    """Tables as their owner declares them; `sfumato.catalog` returns it."""

    def table(
        self,
        name: str,
        *,
        memory_limit: str | None = None,
        threads: int | None = None,
        temp_directory: str | PathLike[str] | None = None,
    ) -> DeclaredTable[Any]:
        """Open a private table for questions, without reading a row.

        Args:
            name: the name in the catalog.
            memory_limit, threads, temp_directory: as for `sfumato.scan`.
        Returns:
            A table as from `sfumato.scan`, which knows its bounds, domains and limits.
        Raises:
            QueryError: the table does not exist, or cannot be queried.
            CatalogError: declarations do not fit the source's columns and types.
            EngineError: the source does not exist or cannot be read.

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
        """Open a public table to join with private ones, without reading a row.

        Args:
            name, memory_limit, threads, temp_directory: as for `table`.
        Returns:
            A `PublicTable`.
        Raises:
            QueryError: the table does not exist, or is private.
            CatalogError, EngineError: as for `table`.

        >>> import pyarrow as pa
        >>> regions = {"source": pa.table({"town": ["Ulm"], "region": ["south"]}), "public": True}
        >>> list(catalog({"tables": {"regions": regions}}).public("regions").schema)
        ['town', 'region']
        """
        declared = self.declaration(name)
        if not declared.public:
            raise QueryError(f"{declared.where}: the table is private. Open it with catalog.table({name!r})")
        return open_public(
            declared, memory_limit=memory_limit, threads=threads, temp_directory=temp_directory
        )

    def dummy(self, *, rows: int = 1_000, units: int | None = None, seed: int = 0) -> Catalog:
        """Return the same catalog over dummy rows, for writing and trying queries at no cost.

        Dummy rows depend on the catalog's declarations and on names and types of columns. For CSV, JSON and
        wherever `types` are declared, these come from the catalog alone, and the source need not exist. For
        other sources they come from the source's declarations, without reading a row. Foreign keys refer to
        existing dummy rows.

        Args:
            rows, units, seed: for each private table, as for `Table.dummy`. A table that a foreign key
                references by its privacy unit has one row for each unit; a public table has few rows.
        Returns:
            A Catalog.
        Raises:
            ParameterError: a number is out of range.
            CatalogError, EngineError: a source must supply its columns and does not.
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
        """Compare the declarations with the rows, for the owner only. The result is NOT PRIVATE.

        Returns:
            A `CatalogCheck`: `ok` if all declarations hold; `str()` says which do not. NOT PRIVATE.
        Raises:
            EngineError: rows cannot be read.

        >>> import pyarrow as pa
        >>> ages = pa.table({"id": [1, 2, 3], "age": [30, 40, 150]})
        >>> visits = {"source": ages, "privacy_unit": "id", "columns": {"age": {"lower": 0, "upper": 120}}}
        >>> check = catalog({"tables": {"visits": visits}}).check()
        >>> check.ok, [finding.text for finding in check.findings if finding.wrong]
        (False, ['1 row outside 0 to 120'])
        """
        from sfumato.engines.catalog_check import check_catalog

        return check_catalog(self)


@suggest_arguments
def catalog(
    source: str | PathLike[str] | Mapping[str, Any],
    *,
    timezone: str | None = None,
    spark: SparkSession | None = None,
) -> Catalog:
    """Read an owner's declarations: privacy units, types, bounds, domains, limits, foreign keys.

    Args:
        source: the path of a TOML file, or a dict of the same form, in which a table's `source` may be
            anything that `sfumato.scan` takes; see docs/catalog.md.
        timezone: the time zone in which expressions and group keys read times with a zone, as for
            `sfumato.scan`, unless a query names another; in the file timezone = "Europe/Berlin". The default
            is UTC.
        spark: a Spark session, in which each `source` is the name of a table or view.
    Returns:
        A Catalog; no source is opened yet.
    Raises:
        CatalogError: something is unknown, missing or inconsistent; the text says where.
        EngineError: the file does not exist.
        ParameterError: `spark` is not a session, or the time zone does not exist.

    >>> catalog({"tables": {"visits": {"source": "visits.parquet", "privacy_unt": "id"}}})
    Traceback (most recent call last):
    sfumato.errors.CatalogError: catalog: tables.visits: there is no key 'privacy_unt' of a table; did you
    mean privacy_unit? The keys are: ...
    """
    from sfumato.engines.duckdb.column_types import check_types
    from sfumato.engines.duckdb.connection import check_timezone
    from sfumato.engines.duckdb.text_lines import check_encoding
    from sfumato.engines.spark.spark_engine import spark_tables

    declared = read(source, None if spark is None else spark_tables(spark), timezone)
    for table in declared.tables.values():
        with name_table_in_errors(table):
            check_types(table.types, nested=True)
            check_encoding(table.encoding)
    tables = {
        name: replace(
            table,
            source=as_collection(name, table.source),
            timezone=check_timezone("timezone", table.timezone),
        )
        for name, table in declared.tables.items()
    }
    return Catalog(declared.name, tables)
