"""Answers by stratum, from the tables that people have."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from sfumato.errors import ColumnError, EngineError, ParameterError

WHERE = "stratified_proportion"


def read_answers(table: Any, stratum: str, answer: str, yes: Any) -> dict[Hashable, list[bool | None]]:
    """Return, for each stratum of the table, who said yes: True, False, or None where there is no answer.

    Raises:
        ColumnError: a column is unknown, or of a type that holds no answers.
        ParameterError: `yes` does not fit the column's type.
        EngineError: the table is of an unknown kind, or a column of mixed types.

    >>> read_answers({"s": [1, 1, 2], "a": ["y", None, "n"]}, "s", "a", "y")
    {1: [True, None], 2: [False]}
    """
    rows = _arrow(table, (stratum, answer))
    column = rows.column(answer)
    value = _yes(answer, column.type, yes)
    found: dict[Hashable, list[bool | None]] = {}
    for place, said in zip(rows.column(stratum).to_pylist(), column.to_pylist(), strict=True):
        found.setdefault(place, []).append(None if said is None else said == value)
    return found


def _yes(answer: str, given: Any, yes: Any) -> Any:
    """Return what counts as yes, judged from the column's type alone."""
    import pyarrow as pa

    types = pa.types
    kind = given.value_type if types.is_dictionary(given) else given
    fits: tuple[type, ...]
    if types.is_null(kind):
        return True
    if types.is_boolean(kind):
        fits, expected, yes = (bool,), "True or False, the one", True if yes is None else yes
    elif types.is_integer(kind) or types.is_floating(kind):
        fits, expected = (int, float), "a number, the one"
    elif types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        fits, expected = (str,), "a text, the one"
    else:
        raise ColumnError(f"{WHERE}: {answer!r} is of type {kind}; answers are booleans, numbers or texts")
    if hasattr(yes, "item"):
        yes = yes.item()
    if not isinstance(yes, fits) or (isinstance(yes, bool) and bool not in fits):
        raise ParameterError("yes", yes, f"{expected} that counts as yes: {answer!r} is of type {kind}")
    return yes


def _arrow(table: Any, names: tuple[str, str]) -> Any:
    """Return an Arrow table with these columns; others need not even be of one type."""
    import pyarrow as pa

    module = type(table).__module__.partition(".")[0]
    if module == "polars" and hasattr(table, "collect"):
        table = table.collect()
    columns = _columns(table, module)
    for name in names:
        if name not in columns:
            raise ColumnError.unknown(name, map(str, columns), WHERE)
    try:
        if module == "pandas":
            return pa.Table.from_pandas(table[list(dict.fromkeys(names))], preserve_index=False)
        if module == "polars":
            return table.to_arrow()
        if isinstance(table, pa.Table):
            return table
        if isinstance(table, Mapping):
            return pa.table({name: table[name] for name in names})
        return pa.table({name: [row.get(name) for row in table] for name in names})
    except (pa.ArrowException, TypeError, ValueError):
        # The library's own text quotes values.
        raise EngineError(
            f"{WHERE}: {names[0]!r} or {names[1]!r} has values of several types; give each column one type"
        ) from None


def _columns(table: Any, module: str) -> list[Any]:
    import pyarrow as pa

    if module in ("pandas", "polars"):
        return list(table.columns)
    if isinstance(table, pa.Table):
        return list(table.schema.names)
    if isinstance(table, Mapping):
        return list(table)
    if isinstance(table, list) and all(isinstance(row, Mapping) for row in table):
        return list(dict.fromkeys(name for row in table for name in row))
    raise EngineError(
        f"{WHERE}: cannot read a {type(table).__name__}; pass an Arrow table, a pandas or Polars data "
        "frame, a mapping of columns, or a list of mappings"
    )
