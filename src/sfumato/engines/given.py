"""Tables beside a text of SQL, by the names that it has for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.engines.scan import scan
from sfumato.errors import ColumnError, QueryError, SqlError, nearest, shown, with_article
from sfumato.query.schema import own_name, spelled
from sfumato.query.tables.public_table import PublicTable

if TYPE_CHECKING:
    from sfumato.dialect import SqlQuery
    from sfumato.dialect.options_clause import Advised

# An address with a user in it, perhaps with a password, or with a password as an option.
_SECRET = re.compile(
    r"""://(?:[^\s'"]|''|"")*(@|[?&](password|sig|signature|token|x-amz-[a-z-]+)=)""", re.IGNORECASE
)
# Gives a table of a private SELECT, from its name and the privacy unit's column.
OpenTable = Callable[["SqlQuery", str, str], Any]


def check_no_secret(text: object) -> None:
    """Refuse a text that names a user of a database.

    Raises:
        SqlError: it has one in an address.
    """
    if isinstance(text, str) and _SECRET.search(text):
        raise SqlError(
            "the text has the address of a database with its user in it, which errors and explanations "
            "would show: give it a name, tables={'orders': 'postgresql://...'}, or a catalog"
        )


def as_collection(name: str, source: Any) -> Any:
    """Return a source, with its name where a Beam pipeline brings it, so that it may be joined."""
    import pyarrow as pa

    if isinstance(source, PublicTable):
        called = getattr(source._engine, "called", None)
        return source if called is None else replace(source, _engine=called(name))
    if not isinstance(source, pa.Schema):
        return source
    from sfumato.engines.beam.engine import named

    return named(name, source)


def zone_of(query: SqlQuery, timezone: str | None) -> str | None:
    """Return the time zone that a text, or the call with it, names; None where none does.

    Raises:
        QueryError: both do.
    """
    if timezone is not None and query.timezone is not None:
        raise QueryError(
            "sql: the time zone is given twice, in OPTIONS (timezone = ...) and beside the text; keep one"
        )
    return timezone if query.timezone is None else query.timezone


def in_zone(table: Any, zone: str | None) -> Any:
    """Return a table that reads times with a zone in another one; the same where none is named."""
    return table if zone is None else replace(table, _engine=table._engine.in_timezone(zone))


def of_tables(
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
    from sfumato.engines.duckdb.paths import is_path

    if not isinstance(tables, Mapping | None) or not all(isinstance(name, str) for name in tables or ()):
        kind = type(tables).__name__  # its text would show rows
        raise QueryError(
            f"sql: tables is {with_article(kind)}, but must give each table a name: tables={{'visits': ...}}"
        )
    sources = {name: as_collection(name, source) for name, source in (tables or {}).items()}
    public = [name for name, source in sources.items() if isinstance(source, PublicTable)]
    query = parse(text, public=public, private=sources.keys() - public, advised=advised)
    queries = (query, *query.beside)
    for name in (own_name(name, sources) for one in queries for name in one.sources):
        if name not in sources and not is_path(name):
            near = nearest(name, sources)
            given = f"tables={{{name!r}: ...}}, on the command line --table {name}=PATH"
            remedy = f"did you mean {near!r}?" if near else f"say what it is: {given}"
            raise SqlError(f"FROM names {name!r}, which is no path of a file and no table; {remedy}")
    if types is not None and any(one.types is not None for one in queries):
        raise QueryError("sql: types are given twice, in OPTIONS (types = ...) and beside the text; keep one")

    def opened(one: SqlQuery, name: str, unit: str) -> Any:
        name, zone = own_name(name, sources), zone_of(one, timezone)
        if isinstance(sources.get(name), PublicTable):
            return in_zone(sources[name], zone)
        declared = one.types if types is None else types
        if one.unit_parts and unit.casefold() != one.privacy_unit_column.casefold():
            raise ColumnError(
                f"the privacy unit is made of {' and '.join(one.unit_parts)}, and is the column "
                f"{spelled(one.privacy_unit_column)} of {shown(name)}; it cannot be {spelled(unit)}"
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
