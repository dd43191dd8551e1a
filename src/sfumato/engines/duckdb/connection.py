"""A database of the process's own, in memory, which spills to a folder of its own."""

from __future__ import annotations

import duckdb

from sfumato.engines.duckdb import spill
from sfumato.engines.duckdb.resources import DEFAULTS, Resources
from sfumato.engines.duckdb.text import literal
from sfumato.errors import EngineError, in_own_words

# These may evaluate an expression elsewhere than it stands: outside its TRY, or in a reader of files.
NO_OPTIMIZERS = "common_subexpressions,scalar_fn_pushdown,type_pushdown"


@in_own_words()
def connect(timezone: str | None = None, resources: Resources = DEFAULTS) -> duckdb.DuckDBPyConnection:
    """Open a database in memory that sees no Python variable and keeps what it spills to itself.

    Args:
        timezone: in which times with a zone are read as texts, dates and hours; None for this machine's.
        resources: what it may take of the machine.
    """
    connection = duckdb.connect(
        config={
            "autoinstall_known_extensions": False,
            "disabled_optimizers": NO_OPTIMIZERS,
            "preserve_insertion_order": False,
            "python_enable_replacements": False,
            # Not encrypted: what DuckDB carries along has no random numbers fit for keys, and its extension
            # that has them brings a network file system, and would have to be downloaded.
            "temp_directory": spill.place(resources.temp_directory),
            **resources.settings,
        }
    )
    spill.keep(connection)
    if timezone is not None:
        try:
            connection.execute(f"SET GLOBAL TimeZone = {literal(timezone)}")
        except duckdb.Error:
            raise EngineError(
                f"the time zone {timezone!r} is not known; name one as 'Europe/Berlin' or 'UTC' (on Spark: "
                "spark.sql.session.timeZone)"
            ) from None
    return connection
