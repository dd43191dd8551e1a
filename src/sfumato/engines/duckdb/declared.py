"""Types of columns of a file or frame that has none: declared by somebody, or guessed from rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import duckdb

from sfumato.dialect.tree import ask
from sfumato.engines.duckdb.text import identifier, literal
from sfumato.errors import ColumnError, EngineError, QueryError, nearest

# What a text is cast to, by DuckDB's TRY_CAST: each was tried on hostile texts.
_NAMES = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE"),
    *("VARCHAR", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "UUID"),
)
_FORM = re.compile(r"[A-Za-z][A-Za-z0-9_ ]*(\(\s*\d+\s*(,\s*\d+\s*)?\))?")

Types = Mapping[str, str]


def checked_types(types: object) -> dict[str, str] | None:
    """Return declared types under DuckDB's own names.

    Raises:
        QueryError: it is no mapping of column names to names of types that a text can be cast to.
    """
    if types is None:
        return None
    if not isinstance(types, Mapping) or not types:
        raise QueryError(
            f"types is a {type(types).__name__}, but must give each column a type: "
            "types={'id': 'BIGINT', 'amount': 'DOUBLE', 'day': 'DATE'}"
            if not isinstance(types, Mapping)
            else "types is empty; give each column a type, types={'id': 'BIGINT'}, or leave it out"
        )
    return {_name(name): _canonical(name, kind) for name, kind in types.items()}


def _name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise QueryError(f"types: {name!r} is no name of a column")
    return name


def _canonical(name: str, kind: object) -> str:
    known = ", ".join([*_NAMES[:-2], "TIMESTAMPTZ", "DECIMAL(p, s)", "UUID"])
    if not isinstance(kind, str) or not _FORM.fullmatch(kind.strip()):
        raise QueryError(f"types: {name!r} is declared {kind!r}, which is no type; there are {known}")
    try:
        found = str(ask(f"SELECT typeof(CAST(NULL AS {kind}))")[0][0])
    except duckdb.Error:
        found = ""
    if not is_castable(found):
        near = nearest(kind, _NAMES)
        hint = f"did you mean {near}? " if near and near != kind.upper() else ""
        raise QueryError(
            f"types: {name!r} is declared {kind!r}, which a text cannot be read as; {hint}There are {known}"
        )
    return found


def is_castable(kind: str) -> bool:
    """Whether texts can be read as a type, named as DuckDB does."""
    return kind in _NAMES or kind.startswith("DECIMAL(")


def cast(text: str, kind: str, date_format: str | None = None) -> str:
    """Write the cast of a text to a type; what does not fit is NULL."""
    if kind == "VARCHAR":
        return text
    if date_format and kind in ("DATE", "TIMESTAMP"):
        return f"TRY_CAST(TRY(try_strptime({text}, {literal(date_format)})) AS {kind})"
    return f"TRY_CAST({text} AS {kind})"


def columns_of(columns: Sequence[str], types: Types, name: str) -> dict[str, str]:
    """Return the type of each column that is there; text where none is declared.

    Raises:
        ColumnError: a type is declared for a column that is not there.
    """
    by_fold = {column.casefold(): column for column in columns}
    for declared in types:
        if declared.casefold() not in by_fold:
            raise ColumnError.unknown(declared, columns, f"types of {name}")
    folded = {declared.casefold(): kind for declared, kind in types.items()}
    if len(folded) < len(types):
        raise QueryError("types: a column is named twice (names are equal whatever their case)")
    return {column: folded.get(column.casefold(), "VARCHAR") for column in columns}


def guessed(name: str, types: Types) -> str:
    """Return the note that types were guessed, with what to write instead."""
    shown = ", ".join(f"{column!r}: {kind!r}" for column, kind in list(types.items())[:12])
    more = ", ..." if len(types) > 12 else ""
    return (
        f"the types of {name} were guessed from its first rows, so one row can change them. Declare them: "
        f"types={{{shown}{more}}}; in SQL OPTIONS (types = 'column TYPE, ...')"
    )


def refuse_types(types: object, kind: str) -> None:
    """Refuse declared types for a source that has its own."""
    if types is not None:
        raise QueryError(f"types: {kind} declares its own types; leave types= out, or cast with with_columns")


def ddl(types: Types) -> str:
    """Write columns of a table."""
    return ", ".join(f"{identifier(name)} {kind}" for name, kind in types.items())


def no_guess(name: str, example: str) -> EngineError:
    """Return the error of a file whose types could not be guessed."""
    return EngineError(
        f"scan: the types of {name!r} cannot be guessed: it is empty, damaged, or another kind of file. "
        f"Declare them: types={{{example}}}"
    )


def declared_names(types: Types, names: Sequence[str]) -> set[str]:
    """Return the columns' own spelling of the names that have a type."""
    folded = {name.casefold() for name in types}
    return {name for name in names if name.casefold() in folded}
