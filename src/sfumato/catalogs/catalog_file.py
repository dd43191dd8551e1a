"""Read a catalog file (TOML), or a dict of the same form, into declarations; errors name the key."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Hashable, Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from glob import escape, has_magic
from pathlib import Path
from typing import Any, cast

from sfumato.catalogs.declarations import ColumnDeclaration, Declarations, ForeignKey, TableDeclaration
from sfumato.errors import CatalogError, EngineError, ParameterError, QueryError, in_own_words, nearest, shown
from sfumato.exact import as_int
from sfumato.names.foreign_names import ARGUMENTS
from sfumato.query.aggregates import check_bounds
from sfumato.query.tables.combined_tables import MAX_UNIT_ROWS
from sfumato.query.tables.table_part import check_parts, unit_name

_TABLE = (
    *("source", "public", "privacy_unit", "unit_timezone", "types", "multiline", "encoding", "foreign_keys"),
    *("max_groups", "max_rows", "max_joined_rows"),
)
_COLUMN = ("lower", "upper", "domain", "missing")
_OF_UNITS = ("privacy_unit", "unit_timezone", "foreign_keys", "max_groups", "max_rows", "max_joined_rows")
_MAX_LIMIT = 10**9
_DATABASE = re.compile(r"\.(duckdb|ddb|db|sqlite|sqlite3|db3)(/|$)")
_URL = re.compile(r"[^/]*://")  # whatever the scheme: of a path, errors would show a password in it
# Values of these kinds compare with each other, and with no others.
_KINDS: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("truth values", (bool,)),
    ("numbers", (int, float, Decimal)),
    ("texts", (str,)),
    ("times", (datetime,)),
    ("dates", (date,)),
    ("times of day", (time,)),
)


def read(
    source: str | os.PathLike[str] | Mapping[str, Any],
    placed: Callable[[object], object] | None = None,
    timezone: str | None = None,
) -> Declarations:
    """Read a catalog file and return its declarations.

    Args:
        source: the path of a TOML file, or a dict of the same form.
        placed: gives what `sfumato.scan` takes of each table's source; without it a text is a path, which
            begins at the folder of the file.
        timezone: that of all tables, where the catalog names none.
    Raises:
        CatalogError: something in it is unknown, missing, of another type, or does not fit the rest.
        EngineError: there is no such file, or it cannot be read.
    """
    if isinstance(source, Mapping):
        return _declarations("catalog", source, placed or (lambda table: table), timezone)
    if not isinstance(source, (str, os.PathLike)):
        raise ParameterError("catalog", source, "the path of a TOML file, or a dict of the same form")
    path = str(os.fspath(source))
    folder = os.path.dirname(path)
    return _declarations(path, _toml(path), placed or (lambda table: _relative_path(folder, table)), timezone)


def _toml(path: str) -> dict[str, Any]:
    """Return the TOML of a catalog file as a dict."""

    def says(error: Exception) -> EngineError | CatalogError:
        if isinstance(error, OSError):
            return EngineError(f"catalog: {path!r} cannot be read: {error.strerror or type(error).__name__}")
        # Its own text may quote the file, which may be another one than was meant.
        place = re.search(r"at line \d+, column \d+|at end of document", str(error))
        where = f" {place[0]}" if place else ""
        return CatalogError(f"{path}: this is not TOML{where}. Put text in quotes, as in docs/catalog.md")

    with in_own_words(says, OSError, ValueError, RecursionError):  # what is no UTF-8 is a ValueError, too
        return tomllib.loads(Path(path).read_bytes().decode("utf-8-sig"), parse_float=Decimal)


def _relative_path(folder: str, source: object) -> object:
    """Return a source's path in a catalog file, relative to the file's folder."""
    if isinstance(source, list):
        return [_relative_path(folder, one) for one in source]
    if not isinstance(source, str) or not folder or source.startswith("~"):
        return source
    scheme, found, path = source.partition(":///")
    if scheme == "sqlite" and found:
        return f"{scheme}{found}{os.path.join(folder, path)}"
    if _URL.match(source):
        return source
    plain = _DATABASE.search(source) or not has_magic(source + folder)
    return os.path.join(folder if plain else escape(folder), source)


def _declarations(
    name: str, given: Mapping[str, Any], placed: Callable[[object], object], timezone: str | None
) -> Declarations:
    """Return the declarations of all tables in a catalog file, after checks of names and foreign keys."""
    _known(name, given, ("timezone", "tables"), "catalog")
    if timezone is not None and "timezone" in given:
        raise CatalogError(f"{name}: timezone is given both here and in catalog(..., timezone=). Keep one")
    zone = given.get("timezone", "UTC") if timezone is None else timezone
    if not isinstance(zone, str):
        raise CatalogError(
            f'{name}: timezone is {shown(zone)}, but must be the name of a time zone, such as "Europe/Berlin"'
        )
    entries = _mapping(f"{name}: tables", given.get("tables"), "[tables.visits]")
    tables = {key: _table(name, key, entry, placed, zone) for key, entry in entries.items()}
    if not tables:
        raise CatalogError(f"{name}: no table is declared. Write [tables.visits] with its source")
    folded: dict[str, str] = {}
    for key in tables:
        if (other := folded.setdefault(key.casefold(), key)) != key:
            raise CatalogError(f"{name}: the tables {other!r} and {key!r} differ only in case. Rename one")
    for table in tables.values():
        _check_foreign_key(table, tables)
    return Declarations(name, tables)


def _table(
    catalog: str, name: object, entry: object, placed: Callable[[object], object], zone: str
) -> TableDeclaration:
    """Return the declaration of one [tables.NAME] entry of a catalog file."""
    if not isinstance(name, str) or not name.strip():
        raise CatalogError(f"{catalog}: tables: {shown(name)} is not a table name")
    where = f"{catalog}: tables.{name}"
    given = _mapping(where, entry, f'[tables.{name}] source = "{name}.parquet"')
    _known(where, given, (*_TABLE, "columns"), "table")
    source = given.get("source")
    if source is None or (isinstance(source, str) and not source.strip()):
        raise CatalogError(f'{where}: source is missing. Write source = "{name}.parquet"')
    public = _truth(where, given, "public", False)
    if public and (odd := [key for key in _OF_UNITS if key in given]):
        raise CatalogError(
            f"{where}: {odd[0]} cannot be combined with public = true, as a public table has no "
            "privacy units. Leave one out"
        )
    parts = _unit(where, given.get("privacy_unit"))
    unit = unit_name(parts) or None
    timezone = given.get("unit_timezone", zone)
    if not isinstance(timezone, str) or ("unit_timezone" in given and len(parts) < 2):
        raise CatalogError(
            f"{where}: unit_timezone is {shown(timezone)}, but must be the name of a time zone, "
            "in which expressions in a list as privacy_unit read times"
        )
    foreign = _foreign_key(where, given.get("foreign_keys"))
    if not public and unit is None and foreign is None:
        raise CatalogError(
            f'{where}: privacy_unit is missing. Write privacy_unit = "id" with the column that says '
            "whose row it is, or public = true if anybody may see the rows"
        )
    if unit is not None and foreign is not None:
        raise CatalogError(
            f"{where}: both privacy_unit and foreign_keys are given, but a row gets its unit from "
            "one of them. Keep one"
        )
    columns = tuple(_columns(where, given.get("columns", {})))
    for column in columns:
        if unit is not None and column.name.casefold() == unit.casefold() and column.domain is not None:
            raise CatalogError(
                f"{where}.columns.{column.name}: the privacy unit cannot have a domain, as a "
                "group for each unit is not private. Leave the domain out"
            )
    try:
        found = placed(source)
    except EngineError as error:
        raise CatalogError(f"{where}: {error}") from None
    return TableDeclaration(
        name=name,
        catalog=catalog,
        source=found,
        public=public,
        privacy_unit=unit,
        unit_parts=parts if len(parts) > 1 else (),
        unit_timezone=timezone,
        timezone=zone,
        types=_types(where, given.get("types")),
        multiline=_truth(where, given, "multiline", True),
        encoding=_text(where, given, "encoding"),
        foreign_key=foreign,
        max_groups=_limit(where, given, "max_groups"),
        max_rows=_limit(where, given, "max_rows"),
        max_joined_rows=_limit(where, given, "max_joined_rows", MAX_UNIT_ROWS),
        columns=columns,
    )


def _unit(where: str, value: object) -> tuple[str, ...]:
    """Return the columns of a privacy_unit entry in a catalog file; () where there is none."""
    if value is None or (isinstance(value, str) and value.strip()):
        return () if value is None else (value,)
    if not isinstance(value, (list, tuple)):
        raise CatalogError(
            f"{where}: privacy_unit is {shown(value)}, but must be the name of a column, or a list of names"
        )
    try:
        return check_parts(value)
    except (ParameterError, QueryError) as error:
        text = str(error)
    raise CatalogError(f"{where}: {text}")


def _types(where: str, value: object) -> dict[str, str] | None:
    """Return the column types of a types entry in a catalog file."""
    if value is None:
        return None
    types = dict(_mapping(f"{where}: types", value, 'types = {id = "BIGINT", day = "DATE"}'))
    for name, kind in types.items():
        if not isinstance(name, str) or not isinstance(kind, str):
            raise CatalogError(
                f"{where}: types: {shown(name)} is declared {shown(kind)}, which is not a type"
            )
    return types


def _foreign_key(where: str, value: object) -> ForeignKey | None:
    """Return the foreign key of a foreign_keys entry in a catalog file."""
    if value is None:
        return None
    form = 'foreign_keys = {customer = "customers.id"}'
    keys = _mapping(f"{where}: foreign_keys", value, form)
    if len(keys) != 1:
        raise CatalogError(
            f"{where}: foreign_keys has {len(keys)} keys, but one key leads to the unit of a row. "
            f"Write {form}"
        )
    ((column, target),) = keys.items()
    table, _, key = target.rpartition(".") if isinstance(target, str) else ("", "", "")
    if not isinstance(column, str) or not table.strip() or not key.strip():
        raise CatalogError(
            f"{where}: foreign_keys: {shown(column)} is {shown(target)}, but must name a table and its "
            f"column: {form}"
        )
    return ForeignKey(column, table, key)


def _check_foreign_key(table: TableDeclaration, tables: Mapping[str, TableDeclaration]) -> None:
    """Refuse a foreign key in a catalog file that reaches no private table, or is part of a circle."""
    seen, at = [table.name], table
    while (key := at.foreign_key) is not None:
        target = f"foreign_keys: {key.column} is '{key.table}.{key.key}'"
        if key.table not in tables:
            near = nearest(key.table, tables)
            hint = f"; did you mean {near!r}?" if near else "."
            raise CatalogError(
                f"{at.where}: {target}, but there is no table {key.table!r}{hint} "
                f"The tables are: {', '.join(tables)}"
            )
        if tables[key.table].public:
            raise CatalogError(
                f"{at.where}: {target}, but {key.table} is public, so its rows belong to no "
                "unit. Name the private table by which a row reaches its unit"
            )
        if key.table in seen:
            circle = " -> ".join([*seen[seen.index(key.table) :], key.table])
            raise CatalogError(f"{at.where}: {target}, which is circular: {circle}")
        seen.append(key.table)
        at = tables[key.table]


def _limit(where: str, entry: Mapping[str, Any], name: str, limit: int = _MAX_LIMIT) -> int | None:
    """Return a limit such as max_groups in a catalog file, an integer of at least 1."""
    if name not in entry:
        return None
    number = as_int(entry[name])
    if number is None or not 1 <= number <= limit:
        told = "a billion" if limit == _MAX_LIMIT else f"{limit:,}"
        raise CatalogError(
            f"{where}: {name} is {shown(entry[name])}, but must be a whole number from 1 to {told}"
        )
    return number


def _columns(where: str, value: object) -> Iterable[ColumnDeclaration]:
    """Yield the declarations of a table's columns in a catalog file."""
    seen: set[str] = set()
    columns = _mapping(f"{where}: columns", value, f"[{where.partition(': ')[2]}.columns.age]")
    for name, entry in columns.items():
        place = f"{where}.columns.{name}"
        if not isinstance(name, str) or not name.strip() or name.casefold() in seen:
            raise CatalogError(f"{place}: the column is named twice (case does not matter)")
        seen.add(name.casefold())
        column = _mapping(place, entry, f"columns.{name} = {{lower = 0, upper = 120}}")
        _known(place, column, _COLUMN, "column")
        domain = _domain(place, column.get("domain"))
        yield ColumnDeclaration(name, _bounds(place, column), domain, _is_complete(place, column))


def _is_complete(where: str, entry: Mapping[str, Any]) -> bool:
    """Return whether a column entry in a catalog file says that no value is missing."""
    if "missing" in entry and entry["missing"] != "none":
        raise CatalogError(
            f'{where}: missing is {shown(entry["missing"])}, but must be "none", for no NULL or '
            "NaN. Leave it out if a value can be missing"
        )
    return "missing" in entry


def _bounds(where: str, entry: Mapping[str, Any]) -> tuple[Fraction, Fraction] | None:
    """Return the lower and upper bound of a column entry in a catalog file."""
    ends = {name: entry[name] for name in ("lower", "upper") if name in entry}
    if not ends:
        return None
    for name in ("lower", "upper"):
        if name not in ends:
            raise CatalogError(f"{where}: {name} is missing. Bounds need both lower and upper")
        if not _is_number(ends[name], exact=True):
            raise CatalogError(f"{where}: {name} is {shown(ends[name])}, but must be a number")
    try:
        return check_bounds(where + ":", ends["lower"], ends["upper"])
    except ParameterError as error:
        text = str(error)
    raise CatalogError(text)


def _is_number(value: object, exact: bool = False) -> bool:
    """Whether a value in a catalog file is a finite number of moderate size."""
    if isinstance(value, Decimal):
        return value.is_finite() and abs(value.adjusted()) < 1000
    plain = isinstance(value, (int, float, Fraction)) if exact else isinstance(value, (int, float))
    return plain and not isinstance(value, bool) and abs(cast("Fraction", value)) < 10**1000


def _domain(where: str, given: object) -> tuple[Hashable, ...] | None:
    """Return the domain of a column entry in a catalog file: a list of distinct values of one type."""
    if given is None:
        return None
    if not isinstance(given, (list, tuple, range)) or not given:
        raise CatalogError(
            f"{where}: domain is {shown(given)}, but must be a list of all values, such as domain "
            "= [2023, 2024]"
        )
    kinds = {_kind(where, value) for value in given}
    if len(kinds) > 1:
        raise CatalogError(f"{where}: domain has {' and '.join(sorted(kinds))}. Give all values one type")
    if len(set(given)) < len(given):
        twice = next(value for i, value in enumerate(given) if value in given[:i])
        raise CatalogError(f"{where}: domain names {twice if _is_number(twice) else shown(twice)} twice")
    return tuple(given)


def _kind(where: str, value: object) -> str:
    """Return which kind of value an entry of a domain in a catalog file is."""
    for name, types in _KINDS:
        if isinstance(value, types) and (name != "numbers" or _is_number(value)):
            return name
    raise CatalogError(
        f"{where}: domain has {shown(value)}, but its values must be numbers, texts, dates, times "
        "or truth values"
    )


def _truth(where: str, entry: Mapping[str, Any], name: str, default: bool) -> bool:
    """Return a true or false entry of a catalog file."""
    value = entry.get(name, default)
    if not isinstance(value, bool):
        raise CatalogError(f"{where}: {name} is {shown(value)}, but must be true or false")
    return value


def _text(where: str, entry: Mapping[str, Any], name: str) -> str | None:
    """Return a text entry of a catalog file."""
    value = entry.get(name)
    if value is not None and not isinstance(value, str):
        raise CatalogError(f"{where}: {name} is {shown(value)}, but must be a text")
    return value


def _mapping(where: str, value: object, example: str) -> Mapping[str, Any]:
    """Return a table entry of a catalog file; refuse other values."""
    if isinstance(value, Mapping):
        return value
    kind = "is missing" if value is None else f"is {shown(value)}, but must be a table"
    raise CatalogError(f"{where} {kind}: write {example}")


def _known(where: str, entry: Mapping[str, Any], known: tuple[str, ...], of: str) -> None:
    """Refuse unknown keys in a catalog file, with a suggestion."""
    for key in entry:
        if key not in known:
            meant = ARGUMENTS.get(key, "") if isinstance(key, str) else ""
            ours = [n for n in known if n in (meant, f"max_{meant}") or n in meant.split(" and ")]
            near = " and ".join(ours) or (nearest(key, known) if isinstance(key, str) else None)
            hint = f"; did you mean {near}?" if near else "."
            raise CatalogError(
                f"{where}: there is no key {shown(key)} of a {of}{hint} The keys are: {', '.join(known)}"
            )
