"""Answers by stratum, from the tables that people have."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from sfumato.errors import ColumnError, EngineError, ParameterError, in_own_words, with_article

WHERE = "stratified_proportion"


def _unreadable(error: Exception) -> EngineError:
    kind = type(error).__name__
    return EngineError(
        f"{WHERE}: the table cannot be read: {kind}, whose text is left out, as it may quote rows"
    )


@in_own_words(_unreadable, Exception)
def read_answers(table: Any, stratum: str, answer: str, yes: Any) -> dict[Hashable, list[bool | None]]:
    """Return, for each stratum of the table, who said yes: True, False, or None where there is no answer.

    Raises:
        ColumnError: a column is unknown, or of a declared type that holds no answers.
        ParameterError: `yes` does not fit the declared type, or is missing where it is not boolean.
        EngineError: the table is of an unknown kind, or cannot be read, or its columns differ in length.

    >>> read_answers({"s": [1, 1, 2], "a": ["y", None, "n"]}, "s", "a", "y")
    {1: [True, None], 2: [False]}
    """
    columns = _columns(table)
    for name in (stratum, answer):
        if name not in columns:
            raise ColumnError._unknown(name, map(str, columns), WHERE)
    places, answers = _column(table, stratum), _column(table, answer)
    value = _yes(answer, _declared_type(answers), yes)
    pairs = _values(places), _values(answers)
    if len(pairs[0]) != len(pairs[1]):
        raise EngineError(
            f"{WHERE}: {stratum!r} has {len(pairs[0])} rows, but {answer!r} has {len(pairs[1])}"
        )
    found: dict[Hashable, list[bool | None]] = {}
    for place, said in zip(*pairs, strict=True):
        found.setdefault(place, []).append(None if said is None else _same(said, value))
    return found


def _columns(table: Any) -> list[Any]:
    if _home(table) in ("pandas", "polars"):
        frame = table.collect_schema() if hasattr(table, "collect_schema") else table
        return list(frame.names() if hasattr(frame, "names") else frame.columns)
    if _home(table) == "pyarrow" and hasattr(table, "column_names"):
        return list(table.column_names)
    if isinstance(table, Mapping):
        return list(table)
    if isinstance(table, list) and all(isinstance(row, Mapping) for row in table):
        return list(dict.fromkeys(name for row in table for name in row))
    raise EngineError(
        f"{WHERE}: cannot read {with_article(type(table).__name__)}; pass an Arrow table, a pandas or "
        f"Polars data "
        "frame, a mapping of columns, or a list of mappings. Of a table of sf.scan it is an output, "
        "agg(share=sf.proportion(..., stratum=..., asked=..., population=...))"
    )


def _column(table: Any, name: str) -> Any:
    if isinstance(table, list):
        return [row.get(name) for row in table]
    if _home(table) == "polars":
        return (table.lazy().select(name).collect())[name]
    return table.column(name) if _home(table) == "pyarrow" else table[name]


def _declared_type(column: Any) -> Any:
    """Return the Arrow type that a column declares; None where it depends on the values."""
    import pyarrow as pa

    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return column.type
    if _home(column) == "polars" and str(column.dtype) != "Object":
        return column.head(0).to_arrow().type
    dtype = getattr(column, "dtype", None)
    if _home(column) in ("pandas", "numpy") and str(dtype) not in ("object", "category"):
        return pa.array(column[:0], from_pandas=True).type
    return None


def _values(column: Any) -> list[Any]:
    if hasattr(column, "to_pylist"):
        return list(column.to_pylist())
    return list(column.tolist() if hasattr(column, "tolist") else column)


def _same(said: Any, yes: Any) -> bool:
    said = said.item() if hasattr(said, "item") else said
    return isinstance(said, (bool, int, float, str)) and said == yes


def _yes(answer: str, given: Any, yes: Any) -> Any:
    """Return what counts as yes: judged from the declared type alone, never from answers."""
    import pyarrow as pa

    types = pa.types
    yes = yes.item() if getattr(yes, "shape", None) == () else yes
    if given is None or types.is_null(given):
        if yes is None:
            expected = (
                f"the value that counts as yes: {answer!r} declares no type (write yes=True for booleans)"
            )
            raise ParameterError("yes", yes, expected)
        return yes
    kind = given.value_type if types.is_dictionary(given) else given
    fits: tuple[type, ...]
    if types.is_boolean(kind):
        fits, expected, yes = (bool,), "True or False, the one", True if yes is None else yes
    elif types.is_integer(kind) or types.is_floating(kind):
        fits, expected = (int, float), "a number, the one"
    elif types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        fits, expected = (str,), "a text, the one"
    else:
        raise ColumnError(f"{WHERE}: {answer!r} is of type {kind}; answers are booleans, numbers or texts")
    if not isinstance(yes, fits) or (isinstance(yes, bool) and bool not in fits):
        raise ParameterError("yes", yes, f"{expected} that counts as yes: {answer!r} is of type {kind}")
    return yes


def _home(thing: Any) -> str:
    return type(thing).__module__.partition(".")[0]
