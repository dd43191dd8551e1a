"""The digest of a released answer, and files and tables that are compared with it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from os import PathLike, fspath
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.display.formatting import unguard_formula
from sfumato.errors import EngineError, ParameterError, in_own_words, shown
from sfumato.release.release_files import with_formulas
from sfumato.release.table_digest import column_digest, digests, table_digest

_LIST = re.compile(r"(large_list|list|fixed_size_list)<[^:<>]*: ([^<>]*?)(?: not null)?>(?:\[(\d+)\])?")
_DECIMAL = re.compile(r"decimal(32|64|128|256)\((\d+), (-?\d+)\)")
_ZONED = re.compile(r"timestamp\[(s|ms|us|ns), tz=([^\]]+)\]")


class _Columns(NamedTuple):
    """The columns of an answer as a file has them: names, values, and whether these are texts."""

    names: Sequence[str]
    columns: Mapping[str, Any]
    texts: bool = False


@dataclass(frozen=True)
class ColumnDigest:
    """The digest of one column of an answer.

    Args:
        name: the name of the column.
        type: its Arrow type, as text.
        sha256: the digest of its values, in the order of the released rows.

    Made by `NoisyTable.receipt`.
    """

    name: str
    type: str
    sha256: str


@dataclass(frozen=True)
class Answer:
    """The digest of a released table, which identifies the answer.

    Args:
        rows: the number of rows.
        columns: the digests of its columns, in order.
        sha256: the digest of all values, independent of the order of rows and columns.

    Made by `NoisyTable.receipt`.
    """

    rows: int
    columns: tuple[ColumnDigest, ...]
    sha256: str

    @classmethod
    def _from_table(cls, table: pa.Table) -> Self:
        """Return the digests of a released table and its columns."""
        whole, each = digests(table)
        columns = [
            ColumnDigest(one.name, _type_name(one.type), own)
            for one, own in zip(table.schema, each, strict=True)
        ]
        return cls(table.num_rows, tuple(columns), whole)


def differences(table: pa.Table, answer: Answer) -> Iterable[str]:
    """Yield how an answer differs from its digest, as far as that can be told."""
    there, here = [column.name for column in answer.columns], table.column_names
    missing, added = [n for n in there if n not in here], [n for n in here if n not in there]
    yield from (f"column {name!r} was released, but is missing" for name in missing)
    for name in added:
        hint = ", such as error bars; a receipt covers them if it is made with confidence=..."
        yield f"column {name!r} was not released{hint if name.endswith('_error') else ''}"
    if table.num_rows != answer.rows:
        yield f"it has {table.num_rows:,} rows, but {answer.rows:,} were released"
    if missing or added or table.num_rows != answer.rows:
        return
    if table_digest(table) == answer.sha256:
        return
    changed = [c.name for c in answer.columns if column_digest(table[c.name]) != c.sha256]
    if len(changed) == len(answer.columns) > 1:
        yield "its values differ, in every column: it may be another release, or rows in another order"
    elif changed:
        rest = "; the other columns are as released" if len(changed) < len(answer.columns) else ""
        yield f"values differ in {', '.join(map(repr, changed))}{rest}"
    else:
        yield "its values differ"  # two digests that do not fit each other


def opened(answer: Any, released: Answer) -> tuple[str, pa.Table, list[str]]:
    """Open an answer: return its name in messages, its table in the released types, and what does not fit.

    Args:
        answer: the path of a file, or an Arrow table.
        released: what it may have of columns.
    Raises:
        EngineError: the file is not there, or is no such file.
    """
    types = {column.name: _type(column.type) for column in released.columns}
    if isinstance(answer, pa.Table):
        return "The table", *_typed(_read_columns(answer), types)
    if not isinstance(answer, str | PathLike):
        raise ParameterError("answer", type(answer).__name__, "the path of a file, or an Arrow table")
    path = Path(fspath(answer))
    if path.suffix.lower() not in ENDINGS:
        raise ParameterError("answer", str(path), f"a name that ends in {', '.join(ENDINGS)}")

    def says(error: Exception) -> EngineError:
        if isinstance(error, OSError) and error.strerror:
            return EngineError(f"{shown(str(path))} cannot be read: {error.strerror}")
        return EngineError(f"{shown(str(path))} cannot be read; it is damaged, or another kind of file")

    with in_own_words(says, Exception), path.open("rb") as file:
        found = _READERS[path.suffix.lower()](file)
    return path.name, *_typed(found, types)


def _parquet(file: BinaryIO) -> _Columns:
    import pyarrow.parquet

    return _read_columns(pyarrow.parquet.read_table(file))


def _arrow(file: BinaryIO) -> _Columns:
    return _read_columns(pa.ipc.open_file(file).read_all())


def _read_columns(table: pa.Table) -> _Columns:
    return _Columns(table.column_names, dict(zip(table.column_names, table.columns, strict=True)))


def _csv(file: BinaryIO) -> _Columns:
    """Return the columns of a CSV answer as texts; what stands in quotes is text, nothing at all is NULL."""
    from pyarrow import csv

    whole = csv.ParseOptions(newlines_in_values=True)
    names = csv.open_csv(file, parse_options=whole).schema.names
    file.seek(0)
    as_text = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    table = csv.read_csv(file, parse_options=whole, convert_options=as_text)
    names = list(map(unguard_formula, names))
    return _Columns(names, dict(zip(names, table.columns, strict=True)), texts=True)


def _json(file: BinaryIO) -> _Columns:
    """Return the columns of a JSON answer as lists of values."""
    rows = [json.loads(line, object_pairs_hook=unique_names) for line in file]
    names = list(dict.fromkeys(name for row in rows for name in row))
    if any(len(row) < len(names) for row in rows):
        raise ValueError("lines have different names")
    return _Columns(names, {name: [row[name] for row in rows] for name in names})


_READERS: dict[str, Callable[[BinaryIO], _Columns]] = {
    ".parquet": _parquet,
    ".csv": _csv,
    ".json": _json,
    ".arrow": _arrow,
    ".feather": _arrow,
}
ENDINGS = tuple(_READERS)


def _typed(read: _Columns, types: Mapping[str, pa.DataType | None]) -> tuple[pa.Table, list[str]]:
    """Return an answer in the released types, and a sentence for each column that does not fit."""
    names, columns, texts = read
    if twice := [name for name in columns if list(names).count(name) > 1]:
        return pa.table({}), [f"column {name!r} is there twice" for name in twice]
    if not names and any(types):
        # A file of JSON without a line has no names; what was released without a row has no line.
        return pa.table({name: pa.nulls(0) for name in types}), []
    found, odd = {}, []
    for name, column in columns.items():
        kind = types.get(name)
        made = _column(column, kind, texts)
        if made is None:
            odd.append(f"column {name!r} has a value that is not {kind}, the released type")
        found[name] = made if made is not None else pa.nulls(len(column))
    return pa.table(found), odd


def _column(column: Any, kind: pa.DataType | None, texts: bool) -> pa.ChunkedArray | pa.Array | None:
    """Return a column of an answer in the released type; None if it does not fit."""
    with suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
        if isinstance(column, list):
            if kind is None:
                return pa.array([None if one is None else json.dumps(one) for one in column], pa.string())
            if _class(kind) == "value":
                if any(
                    isinstance(one, bool) != pa.types.is_boolean(kind) for one in column if one is not None
                ):
                    return None
                return pa.array(column, kind)
            if pa.types.is_nested(kind):
                return pa.array(column, kind)
            return pa.array(column, pa.string()).cast(kind)
        if texts and (kind is None or _class(kind) == "text"):
            column = with_formulas(column)
        if kind is None or column.type == kind:
            return column
        alike = texts or pa.types.is_null(column.type) or _class(column.type) == _class(kind)
        return column.cast(kind) if alike else None
    return None


def _class(kind: pa.DataType) -> str:
    """Return the class of a column type whose values have the same digest in any width."""
    if pa.types.is_dictionary(kind):
        return _class(kind.value_type)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return "value"
    if pa.types.is_temporal(kind):
        return "time"
    if pa.types.is_nested(kind):
        return "list"
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return "text" if text else str(kind).partition("(")[0]


def _type(text: str) -> pa.DataType | None:
    """Return the Arrow type for its name in a digest; None if only Parquet and Arrow files keep it."""
    with suppress(ValueError, TypeError):
        if found := _LIST.fullmatch(text):
            of = _type(found[2])
            if of is None:
                return None
            if found[1] == "fixed_size_list":
                return pa.list_(of, int(found[3]))
            return pa.list_(of) if found[1] == "list" else pa.large_list(of)
        if found := _DECIMAL.fullmatch(text):
            return getattr(pa, f"decimal{found[1]}")(int(found[2]), int(found[3]))
        if found := _ZONED.fullmatch(text):
            return pa.timestamp(found[1], found[2])
        return pa.type_for_alias(text)
    return None


def _type_name(kind: pa.DataType) -> str:
    """Return the name of a column type in a digest, whatever its width in storage."""
    if isinstance(kind, pa.ExtensionType | pa.BaseExtensionType):
        return _type_name(kind.storage_type)
    return _type_name(kind.value_type) if pa.types.is_dictionary(kind) else str(kind)


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON without repeated names, whose digest would be ambiguous.

    Raises:
        ValueError: one is.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object in it has a name twice")
    return found
