"""What a catalog declares beside what its rows are: exact counts, for the owner alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from os import PathLike, fspath
from typing import Any

import duckdb
import pyarrow as pa

from sfumato.catalogs.declarations import Declarations, ForeignKey, TableDeclaration
from sfumato.dataclass import dataclass
from sfumato.display.cards import TextCard
from sfumato.engines.declared_tables import (
    match_column,
    name_table_in_errors,
    open_without_unit,
    opened,
    unlike,
)
from sfumato.engines.duckdb.column_types import is_castable
from sfumato.engines.duckdb.databases import sqlite_address
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.duckdb.source_reader import FOREIGN, cause
from sfumato.engines.duckdb.sources import takes_types
from sfumato.errors import ColumnError, EngineError, SfumatoError, in_own_words
from sfumato.query.schema import FLOATS
from sfumato.sql_text import identifier

NOT_PRIVATE = (
    "NOT PRIVATE: these are exact counts of rows, for the owner of the tables only. Do not publish "
    "them, and do not choose bounds, domains or limits by them."
)


@dataclass(frozen=True)
class Finding:
    """One finding of a catalog check.

    Args:
        where: the table or column.
        text: the finding, without the value of any row.
        wrong: whether it contradicts the catalog.

    Made by `Catalog.check`.
    """

    where: str
    text: str
    wrong: bool


@dataclass(frozen=True, repr=False)
class CatalogCheck(TextCard):
    """The result of checking a catalog against its rows. NOT PRIVATE: for the owner only.

    Args:
        catalog: the name of the catalog.
        findings: the findings, table by table.

    Made by `Catalog.check`.

    >>> import pyarrow as pa, sfumato as sf
    >>> ages = pa.table({"id": [1, 2, 3], "age": [30, 40, 130]})
    >>> visits = {"source": ages, "privacy_unit": "id", "columns": {"age": {"lower": 0, "upper": 120}}}
    >>> check = sf.catalog({"tables": {"visits": visits}}).check()
    >>> check.ok, [one.text for one in check.findings if one.wrong]
    (False, ['1 row outside 0 to 120'])
    """

    catalog: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether no finding of the check contradicts the catalog."""
        return not any(finding.wrong for finding in self.findings)

    def __str__(self) -> str:
        lines = [f"{'WRONG' if f.wrong else 'ok   '} {f.where}: {f.text}" for f in self.findings]
        wrong = sum(finding.wrong for finding in self.findings)
        contradicts = "contradicts" if wrong == 1 else "contradict"
        told = "the rows are as declared" if self.ok else f"{wrong} of these {contradicts} it"
        return "\n".join([NOT_PRIVATE, "", *lines, "", f"{self.catalog}: {told}"])


def check_catalog(catalog: Declarations) -> CatalogCheck:
    """Check each table of a catalog against its rows.

    Raises:
        EngineError: rows cannot be read.
    """
    engines: dict[str, DuckDBEngine] = {}
    findings: list[Finding] = []
    for table in catalog.tables.values():
        try:
            engine: Any = (
                open_without_unit(table)
                if table.privacy_unit is None
                else opened(catalog, table.name)._engine
            )
        except SfumatoError as error:
            findings.append(Finding(table.where, str(error).removeprefix(f"{table.where}: "), True))
            continue
        if not isinstance(engine, DuckDBEngine):
            text = f"rows of {engine.name} cannot be read here. Check them where they are"
            findings.append(Finding(table.where, text, False))
            continue
        engines[table.name] = engine
        findings += _check_rows(table, engine)
    for table in catalog.tables.values():
        key = table.foreign_key
        if key is not None and table.name in engines and key.table in engines:
            findings += _check_foreign_key(catalog, table, key, engines[table.name], engines[key.table])
    return CatalogCheck(catalog.name, tuple(findings))


def _check_rows(table: TableDeclaration, engine: DuckDBEngine) -> Iterator[Finding]:
    """Check rows against a catalog's bounds and domains: count those outside."""
    unit = table.privacy_unit
    counts = {"rows": "count(*)"}
    if unit is not None:
        counts["of no unit"] = f"count(*) - count({identifier(unit)})"
    ranges, schema = {}, engine.schema()
    for column in table.columns:
        name = match_column(engine, column.name, table.where)
        if column.complete:
            is_float = schema[name].type_name in FLOATS
            value = f"nullif({identifier(name)}, 'nan')" if is_float else identifier(name)
            counts[f"without {column.name}"] = f"count(*) - count({value})"
        if column.bounds is not None:
            number = f"TRY_CAST({identifier(name)} AS DOUBLE)"
            least, most = map(_literal, column.bounds)
            ranges[column.name] = column.bounds
            counts[f"outside {column.name}"] = (
                f"count(*) FILTER (WHERE NOT isnan({number}) AND ({number} < {least} OR {number} > {most}))"
            )
    found = dict(zip(counts, _ask(engine, f"SELECT {', '.join(counts.values())} FROM {{}}")[0], strict=True))
    kind = "public" if table.public else "private"
    yield Finding(table.where, f"{kind}, {_rows(found['rows'])}", False)
    if unit is not None and found["of no unit"]:
        lost = f"{_rows(found['of no unit'])} without {unit}, in no answer"
        yield Finding(table.where, lost, False)
    yield from _check_types(table, engine)
    for name, (lower, upper) in ranges.items():
        outside = found[f"outside {name}"]
        text = f"{_rows(outside)} outside {_plain(lower)} to {_plain(upper)}"
        yield Finding(f"{table.where}.columns.{name}", text, outside > 0)
    for column in table.columns:
        if column.complete:
            lost = found[f"without {column.name}"]
            text = f"{_rows(lost)} without a value, in no answer"
            yield Finding(f"{table.where}.columns.{column.name}", text, lost > 0)
        if column.domain is not None:
            name = match_column(engine, column.name, table.where)
            outside = _count_outside_domain(engine, name, engine.public_keys([name], list(column.domain), ()))
            text = f"{_rows(outside)} outside the domain of {len(column.domain):,}"
            yield Finding(f"{table.where}.columns.{column.name}", text, outside > 0)


def _check_types(table: TableDeclaration, engine: DuckDBEngine) -> Iterator[Finding]:
    """Check a catalog's declared types: count values that do not fit."""
    types = dict(table.types or {}) if takes_types(table.source) else {}
    if isinstance(table.source, (str, PathLike)) and sqlite_address(fspath(table.source)) is not None:
        # There any value may stand in any column.
        found = {name: column.type_name for name, column in engine.schema().items()}
        types |= {name: kind for name, kind in found.items() if kind != "VARCHAR" and is_castable(kind)}
    if not types:
        return
    texts = dict.fromkeys(types, "VARCHAR")
    with name_table_in_errors(table):
        raw = DuckDBEngine.open(table.source, types=texts, multiline=table.multiline, encoding=table.encoding)
    names = list(dict.fromkeys(match_column(engine, name, table.where) for name in types))
    asked = f"SELECT {', '.join(f'count({identifier(name)})' for name in names)} FROM {{}}"
    for name, there, typed in zip(names, _ask(raw, asked)[0], _ask(engine, asked)[0], strict=True):
        if lost := there - typed:
            type_name = engine.schema()[name].type_name
            yield Finding(
                f"{table.where}: types: {name}", f"{_rows(lost)} with a value that is not {type_name}", True
            )


def _check_foreign_key(
    catalog: Declarations, table: TableDeclaration, key: ForeignKey, here: DuckDBEngine, there: DuckDBEngine
) -> Iterator[Finding]:
    """Check a catalog's foreign key: the key is unique, of one type, and reaches a unit."""
    where = f"{table.where}: foreign_keys: {key.column}"
    try:
        name, column = match_column(there, key.key, key.table), match_column(here, key.column, table.name)
    except ColumnError as error:
        yield Finding(where, str(error), True)
        return
    if text := unlike(here.schema()[column], there.schema()[name], column, f"{key.table}.{name}"):
        yield Finding(where, text, True)
        return
    quoted = identifier(name)
    once = f"SELECT {quoted} AS k, count(*) AS n FROM {{}} WHERE {quoted} IS NOT NULL GROUP BY {quoted}"
    ((twice,),) = _ask(there, f"SELECT count(*) FROM ({once}) WHERE n > 1")
    text = (
        f"{key.table}.{name} is not unique ({twice:,} values are repeated): a row here has "
        "several owners there"
    )
    yield Finding(where, text if twice else f"{key.table}.{name} is unique", twice > 0)
    keys = _arrow(there, f"SELECT DISTINCT {quoted} AS k FROM {{}} WHERE {quoted} IS NOT NULL")
    lost = _count_outside_domain(here, column, keys.rename_columns([column]))
    text = (
        f"{_rows(lost)} with a value that {key.table}.{name} lacks: they have no unit, and are in no answer"
    )
    yield Finding(where, text, lost > 0)
    quoted = identifier(column)
    ((empty,),) = _ask(here, f"SELECT count(*) FROM {{}} WHERE {quoted} IS NULL")
    if empty:
        yield Finding(where, f"{_rows(empty)} without {column}, of no unit, in no answer", False)
    yield from _check_owners(catalog, table, key, name)


def _check_owners(
    catalog: Declarations, table: TableDeclaration, key: ForeignKey, name: str
) -> Iterator[Finding]:
    """Check a catalog's foreign key for values that several units have."""
    where = f"{table.where}: foreign_keys: {key.column}"
    try:
        owners = opened(catalog, key.table)
        opened(catalog, table.name)  # says what is wrong with names
    except SfumatoError as error:
        yield Finding(where, str(error), True)
        return
    if name == owners.unit or not isinstance(owners._engine, DuckDBEngine):
        return
    quoted, unit = identifier(name), identifier(owners.unit)
    units = f"SELECT count(DISTINCT {unit}) AS n FROM {{}} WHERE {quoted} IS NOT NULL GROUP BY {quoted}"
    ((several, most),) = _ask(owners._engine, f"SELECT count(*) FILTER (WHERE n > 1), max(n) FROM ({units})")
    if several:
        text = (
            f"{several:,} of these values belong to several {owners.unit}, up to {most:,}: rows "
            "with them count for each, which divides their protection"
        )
        yield Finding(where, text, True)


def _count_outside_domain(engine: DuckDBEngine, column: str, values: pa.Table) -> int:
    """Count rows whose value is outside a catalog's domain."""
    name = identifier(column)

    def asked(session: duckdb.DuckDBPyConnection, relation: str) -> int:
        session.register("declared_values", values.rename_columns(["k"]))
        where = f"{name} IS NOT NULL AND {name} NOT IN (FROM declared_values)"
        ((count,),) = session.execute(f"SELECT count(*) FROM {relation} WHERE {where}").fetchall()
        return int(count)

    found: int = _read_rows(engine, asked)
    return found


def _ask(engine: DuckDBEngine, text: str) -> list[tuple[Any, ...]]:
    """Run an exact query of a catalog check, in which {} stands for the rows."""
    rows: list[tuple[Any, ...]] = _read_rows(engine, lambda s, r: s.execute(text.replace("{}", r)).fetchall())
    return rows


def _arrow(engine: DuckDBEngine, text: str) -> pa.Table:
    return _read_rows(engine, lambda s, r: s.sql(text.replace("{}", r)).to_arrow_table())


def _read_rows(engine: DuckDBEngine, look: Callable[[duckdb.DuckDBPyConnection, str], Any]) -> Any:
    """Read exact rows for a catalog check, in a second way where a value stops the first."""
    columns: Sequence[str] = list(engine.schema())
    kind: type[BaseException] | None = None
    for any_value in (False, True):
        try:
            with in_own_words(), engine.rows(columns, any_value=any_value) as (session, relation):
                return look(session, relation)
        except FOREIGN as error:
            kind = type(error)  # its text may quote rows
    raise EngineError(f"the rows cannot be read. {cause(kind)}")


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _literal(number: Fraction) -> str:
    return f"CAST('{float(number)!r}' AS DOUBLE)"


def _plain(number: Fraction) -> str:
    return str(number) if number.denominator == 1 else str(float(number))
