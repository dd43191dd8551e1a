"""CSV and JSON as sources: lines become texts in Arrow, and texts become the declared types in DuckDB."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any

import duckdb
import pyarrow as pa

from sfumato.engines.duckdb import declared
from sfumato.engines.duckdb.declared import Types
from sfumato.engines.duckdb.harmless import described, within
from sfumato.engines.duckdb.lines import Csv, first_line, json_lines
from sfumato.engines.duckdb.source import ROWS, Source, arriving, owned
from sfumato.engines.duckdb.text import identifier, literal
from sfumato.errors import EngineError, in_own_words

_DELIMITERS = ",;\t|"
# What is guessed is of the lines alone; DuckDB would take columns from the names of folders too.
_CSV = "ignore_errors = true, hive_partitioning = false"
_LINES = f"format = 'newline_delimited', {_CSV}"
_EXAMPLE = "'id': 'BIGINT', 'amount': 'DOUBLE'"

Reader = Callable[[str, Sequence[str]], Iterator[pa.RecordBatch]]


def open_csv(
    path: str,
    files: Sequence[str],
    delimiter: str | None,
    types: Types | None,
    connection: duckdb.DuckDBPyConnection,
    multiline: bool = True,
) -> Source:
    """Open CSV files of the same columns.

    Args:
        path: as the user gave it.
        files: each file.
        delimiter: between fields; None for the one among , ; tab | that the header shows.
        types: of columns by name, others are text; None to guess.
        connection: where rows will be.
        multiline: whether a text in quotes may have several lines.
    """
    notes: tuple[str, ...] = ()
    if types is None:
        form, types, formats = _guessed_csv(path, files[0], connection)
        form = replace(form, multiline=multiline)
        notes = (declared.guessed(path, types),)
        headers = {file: _header(path, file, form) if form.header else list(types) for file in files}
    else:
        form, formats = _written(path, files[0], delimiter, types, multiline), {}
        headers = {file: _header(path, file, form) for file in files}
        types = declared.columns_of(headers[files[0]], types, repr(path))
    _check_headers(headers, types)
    kinds = types

    def read(file: str, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return form.batches(file, headers[file], wanted)

    def value(name: str) -> str:
        return declared.cast(identifier(name), kinds[name], formats.get(name))

    return _source(path, files, read, types, value, connection, notes)


def open_json(
    path: str, files: Sequence[str], types: Types | None, connection: duckdb.DuckDBPyConnection
) -> Source:
    """Open JSON files of one object a line.

    Args:
        path: as the user gave it.
        files: each file.
        types: of the columns, by name; None to guess.
        connection: where rows will be.
    """
    for file in files:
        _check_lines(path, file)
    notes: tuple[str, ...] = ()
    if types is None:
        listed = ", ".join(map(literal, files))
        found = _described(connection, f"read_json([{listed}], {_LINES})")
        if not found or [name for name, _ in found] == ["json"]:
            raise declared.no_guess(path, _EXAMPLE)
        types = dict(found)
        notes = (declared.guessed(path, types),)

    def read(file: str, _: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return json_lines(file)

    kinds = types

    def value(name: str) -> str:
        return _of_json(name, kinds[name])

    return _source(path, files, read, types, value, connection, notes, " WHERE json_valid(line)")


def _source(
    path: str,
    files: Sequence[str],
    read: Reader,
    types: Types,
    value: Callable[[str], str],
    connection: duckdb.DuckDBPyConnection,
    notes: tuple[str, ...],
    where: str = "",
) -> Source:
    connection.execute(f"CREATE TABLE {ROWS} ({declared.ddl(types)})")
    loaded: set[str] = set()
    loading = threading.Lock()

    def load(cursor: duckdb.DuckDBPyConnection, columns: Sequence[str]) -> None:
        with loading:
            # What another thread reads stays whole: columns are added, and all rows change at once.
            wanted = [name for name in types if name in columns or name in loaded]
            if not loaded or not set(wanted) <= loaded:
                cursor.execute("BEGIN")
                try:
                    copy(cursor, wanted)
                    cursor.execute("COMMIT")
                except BaseException:
                    with suppress(duckdb.Error):
                        cursor.execute("ROLLBACK")
                    raise
                loaded.update(wanted)

    def copy(cursor: duckdb.DuckDBPyConnection, wanted: Sequence[str]) -> None:
        cursor.execute(f"DELETE FROM {ROWS}")
        for file in files:
            batches = iter(read(file, wanted))
            first = next(batches, None)
            if first is not None:
                names, values = ", ".join(map(identifier, wanted)), ", ".join(map(value, wanted))
                with arriving(cursor, first.schema, chain([first], batches)):
                    cursor.execute(
                        f"INSERT INTO {ROWS} ({names}) SELECT {values} FROM arriving{where}"
                    ).fetchall()

    inside = within(connection, ROWS, list(types.items()))
    return Source(path, *inside, owned(connection), pending=load, notes=notes, guessed=bool(notes))


def _header(path: str, file: str, form: Csv) -> list[str]:
    with suppress(Exception):
        return form.first(file)
    raise _unreadable(path)


def _unreadable(path: str) -> EngineError:
    return EngineError(f"scan: {path!r} cannot be read; it is damaged, or another kind of file")


def _written(path: str, file: str, delimiter: str | None, types: Types, multiline: bool) -> Csv:
    """Return how a file is written: with the delimiter that finds most declared names in the header."""
    names = {name.casefold() for name in types}

    def found(form: Csv) -> int:
        return sum(column.casefold() in names for column in _header(path, file, form))

    return max((Csv(d, multiline=multiline) for d in delimiter or _DELIMITERS), key=found)


def _check_headers(headers: dict[str, list[str]], types: Types) -> None:
    for file, header in headers.items():
        folded = [name.casefold() for name in header]
        if len(set(folded)) < len(folded):
            raise EngineError(f"scan: the header of {file!r} has a name twice; names are equal whatever case")
        if sorted(folded) != sorted(name.casefold() for name in types):
            raise EngineError(
                f"scan: the header of {file!r} is {header}, but {list(types)} were expected; give all files "
                "one header"
            )
        by_fold = {name.casefold(): name for name in types}
        headers[file] = [by_fold[name] for name in folded]


def _guessed_csv(
    path: str, file: str, connection: duckdb.DuckDBPyConnection
) -> tuple[Csv, dict[str, str], dict[str, str]]:
    """Let DuckDB guess how a file is written, and its types, from its first rows."""
    kinds = _described(connection, f"read_csv({literal(file)}, {_CSV})")
    sniffed: list[Any] = []
    with suppress(Exception), in_own_words():
        sniffed = connection.execute(
            "SELECT Delimiter, Quote, SkipRows, HasHeader, DateFormat, TimestampFormat "
            f"FROM sniff_csv({literal(file)}, ignore_errors = true)"
        ).fetchall()
    if not kinds or not sniffed:
        raise declared.no_guess(path, _EXAMPLE)
    delimiter, quote, skipped, header, day, time = sniffed[0]
    form = Csv(
        delimiter if len(delimiter) == 1 and delimiter != "\0" else ",",
        quote if quote == "'" else '"',
        bool(header),
        int(skipped),
    )
    types = {name: kind if declared.is_castable(kind) else "VARCHAR" for name, kind in kinds}
    formats = {name: {"DATE": day, "TIMESTAMP": time}.get(kind) for name, kind in types.items()}
    return form, types, {name: text for name, text in formats.items() if text}


def _check_lines(path: str, file: str) -> None:
    """Refuse, by its first line, a file of another form: one bad object would take all behind it."""
    line = _first(path, file)
    if line.startswith("[") or line == "{":
        raise EngineError(
            f"scan: {path!r} is not one JSON object a line, which alone is read: in an array one malformed "
            f"object would take all behind it along. Write lines: jq -c '.[]' {file} > rows.jsonl, or in "
            "pandas to_json(..., orient='records', lines=True)"
        )


def _first(path: str, file: str) -> str:
    with suppress(Exception):
        return first_line(file)
    raise _unreadable(path)


def _of_json(name: str, kind: str) -> str:
    pointer = literal("/" + name.replace("~", "~0").replace("/", "~1"))
    if declared.is_castable(kind):
        value = declared.cast(f"json_extract_string(line, {pointer})", kind)
    else:
        value = f"TRY_CAST(json_extract(line, {pointer}) AS {kind})"
    return f"TRY({value})"


def _described(connection: duckdb.DuckDBPyConnection, relation: str) -> list[tuple[str, str]] | None:
    with suppress(Exception), in_own_words():
        return described(connection, relation)
    return None
