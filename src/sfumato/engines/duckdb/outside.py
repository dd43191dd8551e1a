"""SQL on a released table, run on a database of its own: no file, no setting, nothing but that table."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import duckdb
import pyarrow as pa

from sfumato.dialect.outside import Outside
from sfumato.engines.duckdb.connection import lent
from sfumato.engines.duckdb.resources import Resources
from sfumato.engines.duckdb.text import literal
from sfumato.errors import SqlError, in_own_words
from sfumato.query.plan import Plan
from sfumato.query.processed import with_intervals
from sfumato.query.release import Release
from sfumato.query.schema import Schema


class OutsideSql:
    """What a text computes with the released table.

    Args:
        outside: the SQL.
        plan: what is released.
        columns: the columns of the private table, after the steps of the plan.
        confidence: of error bars that the SQL names.
        resources: what DuckDB may take of the machine.
    Raises:
        SqlError: it does not fit the types of what is released.
    """

    def __init__(
        self, outside: Outside, plan: Plan, columns: Schema, confidence: float, resources: Resources
    ) -> None:
        self.outside, self.confidence, self.resources = outside, confidence, resources
        self.columns = outside.columns
        keys = {name: columns[name].declared or columns[name].type_name for name in plan.query.keys}
        self._empty = _empty(plan, keys, outside)
        self.text = " ".join(outside.sql.split())
        with in_own_words(self._refused, duckdb.Error):
            self.schema = self._named(self._computed(self._empty)).schema
        seen = set[str]()
        for name in self.schema.names:
            if name.casefold() in seen and name != outside.row:
                raise outside.refuse(
                    -1, f"the output name {name} is used twice; give each column its own: ... AS name"
                )
            seen.add(name.casefold())

    def run(self, released: Release) -> tuple[pa.Table, pa.Array | None]:
        """Return what it gives, and which row of the released table each row is, where that is followed."""
        outside = self.outside
        table = with_intervals(released, outside.intervals, self.confidence, outside.row)
        with in_own_words(self._failed, duckdb.Error):
            found = self._computed(table)
        rows = found[outside.row].combine_chunks() if self.columns is not None else None
        return self._named(found), rows

    def _computed(self, table: pa.Table) -> pa.Table:
        config = {
            "allow_community_extensions": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "enable_external_access": False,
            "errors_as_json": True,
            "python_enable_replacements": False,
            "temp_directory": "",
            "threads": 1,  # the order of rows follows from the text, and sums have the same bits
        }
        limits = {name: value for name, value in self.resources.settings.items() if name == "memory_limit"}
        with duckdb.connect(config={**config, **limits}) as connection:
            zones = [f.type.tz for f in table.schema if pa.types.is_timestamp(f.type) and f.type.tz]
            if zones:
                connection.execute(f"SET TimeZone = {literal(zones[0])}")
            connection.execute("SET lock_configuration = true")
            connection.register(self.outside.table, table)
            if not table.num_rows:
                connection.execute(
                    self.outside.sql
                ).fetchall()  # which says where an error is; a relation does not
            return connection.sql(self.outside.sql).to_arrow_table()

    def _named(self, table: pa.Table) -> pa.Table:
        """Leave out what was added, and name error bars that have no name as their output."""
        if self.columns is not None:
            table = table.drop_columns([self.outside.row])
        names = {
            name: f"{of}_{'high' if high else 'low'}"
            for name, of, high in self.outside.intervals
            if f"{of}_{'high' if high else 'low'}" not in table.schema.names
        }
        return table.rename_columns([names.get(name, name) for name in table.schema.names])

    def _refused(self, error: Exception) -> SqlError:
        told, at = _told(error)
        missing = re.match(r'Referenced column "?(.+?)"? not found', _first(told))
        if missing:
            hidden = {self.outside.row, *(name for name, _, _ in self.outside.intervals)}
            listed = ", ".join(name for name in self._empty.schema.names if name not in hidden)
            return self.outside.refuse(
                at,
                f"{missing[1]} is no column here. The released columns are: {listed}; a column of the "
                "private table stands in GROUP BY, or in a private aggregate",
            )
        return self.outside.refuse(at, f"computing with the released table: {_first(told)}")

    def _failed(self, error: Exception) -> SqlError:
        told, at = _told(error)
        return self.outside.refuse(
            at,
            f"computing with the noisy numbers failed: {_first(told)}. They are not lost, and need not be "
            "paid for again: `.released` of this release has the noisy table; TRY_CAST and TRY(...) "
            "give NULL instead",
        )


def _empty(plan: Plan, keys: Mapping[str, str], outside: Outside) -> pa.Table:
    """Return a table with the types of the released one, and no row."""
    types: dict[str, pa.DataType] = {}
    if keys:
        listed = ", ".join(f"CAST(NULL AS {kind})" for kind in keys.values())
        with lent() as connection:
            schema = connection.sql(f"SELECT {listed} WHERE false").to_arrow_table().schema
        types = dict(zip(keys, schema.types, strict=True))
    types |= {e.name: pa.int64() if e.integer else pa.float64() for e in plan.requirements.estimates}
    types |= {name: pa.float64() for name, _, _ in outside.intervals} | {outside.row: pa.int64()}
    return pa.schema(types.items()).empty_table()


def _told(error: Exception) -> tuple[dict[str, str], int]:
    """Return what DuckDB says of an error, and the byte at which, or -1. Noisy numbers may be in it."""
    text = str(error)
    try:
        told: dict[str, str] = json.loads(text[text.index("{") :])
    except ValueError:
        return {"exception_message": text}, -1
    position = str(told.get("position", ""))
    return told, int(position) if position.isdigit() and len(position) < 10 else -1


def _first(told: Mapping[str, str]) -> str:
    return str(told.get("exception_message", "")).partition("\n")[0].rstrip(".")
