"""Databases of the process's own, in memory, which spill to folders of their own.

To open one takes longer than a small release, so one that is left as it was goes to the next user. It has
one user at a time, in a session: temporary tables, rows that Python brings, settings of progress and the like
are the session's, and end with it. A database is closed where something went wrong, where its user computed
for long, where it spilled, after some sessions, and where a look finds tables, views, secrets or attached
databases of its user: nothing else that sfumato makes would outlive a session.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache, partial
from typing import NamedTuple

import duckdb

from sfumato.engines.duckdb.resources import DEFAULTS, Resources, keep_open, new_spill_folder
from sfumato.errors import ParameterError, in_own_words, nearest
from sfumato.ownership import process
from sfumato.query import sizes
from sfumato.sql_text import literal

# Optimizers that leave expressions where they stand. Any other, as common_subexpressions, may evaluate an
# expression outside of its TRY or in a reader of files, so it is off, and so is one that a new DuckDB has.
_OPTIMIZERS = (
    "aggregate_function_rewriter aggregate_reuse build_side_probe_side column_lifetime "
    "common_aggregate common_subplan compressed_materialization cte_filter_pusher cte_inlining "
    "deliminator distinct_aggregate_rewrite duplicate_groups empty_result_pullup expression_rewriter "
    "extension filter_pullup filter_pushdown grouping_sets in_clause join_elimination "
    "join_filter_pushdown join_order late_materialization limit_pushdown materialized_cte "
    "outer_join_simplification partial_aggregate_pushdown partitioned_execution projection_placement "
    "projection_pullup redundant_order_keys regex_range remote_pushdown reorder_filter "
    "row_group_pruner sampling_pushdown statistics_propagation top_n top_n_window_elimination "
    "unnest_rewriter unused_columns window_rewriter window_self_join"
)
# In seconds of CPU time of this process, as DuckDB's threads do the work: waiting does not count, so that
# other processes make no release dearer. After more work, the time to open a database does not matter, and
# closing it frees memory that its threads hold.
BRIEF = 0.3
# One row, the folder, where nothing else is there; the database itself is one of the databases.
_LEFT = (
    "SELECT current_setting('temp_directory') UNION ALL SELECT '' FROM duckdb_tables() UNION ALL "
    "SELECT '' FROM duckdb_views() WHERE NOT internal UNION ALL SELECT '' FROM duckdb_secrets() UNION ALL "
    "(SELECT '' FROM duckdb_databases() WHERE NOT internal OFFSET 1)"
)


# Of a database of given tables alone. One thread: equal rows are always taken in one order, and sums have the
# same bits.
_CLOSED = {
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "enable_external_access": False,
    "python_enable_replacements": False,
    "temp_directory": "",
    "threads": 1,
}


class _Kind(NamedTuple):
    """The settings that a pooled DuckDB database is opened with, and its process."""

    process: tuple[int, int]
    timezone: str
    resources: Resources
    large_texts: bool = False
    own_types: bool = False
    given: str = ""  # how closed it is: "" for what may read files


class _Waiting(NamedTuple):
    """An idle database in the connection pool, and how many sessions it has had."""

    kind: _Kind
    database: duckdb.DuckDBPyConnection
    sessions: int


# In the order in which they were given back. Who takes a number out has the database; no lock, which a fork
# would leave taken.
_idle: dict[int, _Waiting] = {}
_numbers = itertools.count()
# In which times with a zone are read where nobody names another, whatever the zone of the machine.
UTC = "UTC"


@in_own_words()
def connect(
    timezone: str = UTC,
    resources: Resources = DEFAULTS,
    *,
    large_texts: bool = False,
    own_types: bool = False,
) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB database in memory that sees no Python variable and spills to a folder of its own.

    Args:
        timezone: in which times with a zone are read as texts, dates and hours, as DuckDB calls it.
        resources: what it may take of the machine.
        large_texts: whether a batch may give more than 2 GiB of text, in columns whose offsets have 64 bits.
        own_types: whether batches give types that Arrow lacks as extension types, for another DuckDB to read.
    """
    connection = duckdb.connect(
        config={
            "arrow_large_buffer_size": large_texts,
            "arrow_lossless_conversion": own_types,
            "autoinstall_known_extensions": False,
            "preserve_insertion_order": False,
            "python_enable_replacements": False,
            # Not encrypted: what DuckDB carries along has no random numbers fit for keys, and its extension
            # that has them brings a network file system, and would have to be downloaded.
            "temp_directory": new_spill_folder(resources.temp_directory),
            **resources.settings,
        }
    )
    keep_open(connection)
    connection.execute(f"SET GLOBAL disabled_optimizers = {literal(disabled_optimizers(connection))}")
    connection.execute(f"SET GLOBAL TimeZone = {literal(timezone)}")
    return connection


def disabled_optimizers(connection: duckdb.DuckDBPyConnection, *more: str) -> str:
    """Return the optimizers that a database does without, as a setting of the running DuckDB.

    Args:
        connection: to the database, which knows all optimizers.
        more: names of others to do without.
    """
    names = [name for (name,) in connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()]
    return ",".join(sorted({*unknown_optimizers(names), *more} & {*names}))


def unknown_optimizers(names: Iterable[str]) -> list[str]:
    """Return optimizers that may evaluate an expression elsewhere than it stands."""
    return [name for name in names if name not in _OPTIMIZERS.split(" ")]


def check_out_closed(
    timezone: str = UTC, resources: Resources = DEFAULTS, *, locked: bool = False
) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
    """Check out a session of a database that reaches nothing but the tables that it is given.

    Args:
        timezone: as for `connect`.
        resources: of which the memory is bounded here too.
        locked: whether no statement may change a setting, and errors say as JSON where in the text they are.
    """
    memory = Resources(memory_bytes=resources.memory_bytes)
    return check_out(timezone, memory, given="locked" if locked else "closed")


def check_timezone(name: str, zone: object) -> str:
    """Return a time zone as DuckDB calls it, whatever the case in which it is written.

    Args:
        name: the argument's, for the error.
        zone: its name.
    Raises:
        ParameterError: there is no such time zone.
    """
    if zone == UTC:
        return UTC
    known = _zones()
    found = known.get(zone.casefold()) if isinstance(zone, str) else None
    if found is None:
        near = nearest(zone, known.values()) if isinstance(zone, str) else None
        raise ParameterError(
            name,
            zone,
            "the name of a time zone, such as 'UTC' or 'Europe/Berlin'"
            + (f"; did you mean {near!r}?" if near else ""),
        )
    return found


@cache
def _zones() -> dict[str, str]:
    """Return the names of time zones, by how they are compared."""
    with check_out(leaves_nothing=True) as session:
        found = session.execute("SELECT name FROM pg_timezone_names()").fetchall()
    return {name.casefold(): name for (name,) in sorted(found)}


def session_factory(
    timezone: str = UTC, resources: Resources = DEFAULTS
) -> Callable[[], AbstractContextManager[duckdb.DuckDBPyConnection]]:
    """Return a function that checks out database sessions in one time zone."""
    return partial(check_out, timezone, resources)


@contextmanager
def check_out(
    timezone: str = UTC,
    resources: Resources = DEFAULTS,
    *,
    large_texts: bool = False,
    own_types: bool = False,
    given: str = "",
    leaves_nothing: bool = False,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Check out a session of a pooled database, which nobody else has meanwhile.

    What it is to keep must be temporary. A result that is still to be read holds the database.

    Args:
        given: how closed the database is, if it is.
        leaves_nothing: whether all its statements describe and set nothing, so that no look is needed after.
    """
    here = process()
    kind = _Kind(here, timezone, resources, large_texts, own_types, given)
    _, database, sessions = _take_idle(kind) or _Waiting(kind, _open(kind), 0)
    session, begun = keep_open(database.cursor()), time.process_time()
    fit = False
    try:
        yield session
        fit = time.process_time() - begun < BRIEF
    finally:
        if process() == here:  # a forked child would wait for threads that it has not
            session.close()
            if fit and sessions + 1 < sizes.SESSIONS and (leaves_nothing or _as_new(database)):
                _give_back(_Waiting(kind, database, sessions + 1))
            else:
                database.close()


def _open(kind: _Kind) -> duckdb.DuckDBPyConnection:
    if kind.given:
        return _open_closed(kind)
    return connect(kind.timezone, kind.resources, large_texts=kind.large_texts, own_types=kind.own_types)


def _open_closed(kind: _Kind) -> duckdb.DuckDBPyConnection:
    locked = kind.given == "locked"
    limits = {name: value for name, value in kind.resources.settings.items() if name == "memory_limit"}
    database = keep_open(duckdb.connect(config=_CLOSED | {"errors_as_json": locked} | limits))
    database.execute(f"SET GLOBAL TimeZone = {literal(kind.timezone)}")
    if locked:
        database.execute("SET GLOBAL lock_configuration = true")
    return database


def _take_idle(kind: _Kind) -> _Waiting | None:
    """Take the idle database of a kind that was returned to the pool last."""
    for number in reversed(list(_idle)):
        found = _idle.get(number)  # another thread may have taken it, and may before the next line
        if found is not None and found.kind == kind and _idle.pop(number, None) is not None:
            return found
    return None


def _give_back(given: _Waiting) -> None:
    """Return a database to the pool; the one that is idle longest is closed where they are too many."""
    _idle[next(_numbers)] = given
    for number in list(_idle)[: -sizes.IDLE_DATABASES]:
        found = _idle.pop(number, None)
        if found is not None and found.kind.process == given.kind.process:  # a parent's is let alone
            found.database.close()


def _as_new(database: duckdb.DuckDBPyConnection) -> bool:
    """Whether a pooled database has nothing left from its last session."""
    with suppress(duckdb.Error), database.cursor() as look:
        (place,), *left = look.execute(_LEFT).fetchall()
        # Its folder may be cleared away before the next user comes, and DuckDB makes none anew.
        return not left and not os.path.lexists(place)
    return False
