"""CSV and JSON as sources: lines become texts in Arrow, and texts become the declared types in DuckDB."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain

import duckdb
import pyarrow as pa

from sfumato.engines.duckdb import declared
from sfumato.engines.duckdb.declared import Types
from sfumato.engines.duckdb.harmless import described, within
from sfumato.engines.duckdb.inference import SAMPLE, inferred_types, reads_as
from sfumato.engines.duckdb.layout import DELIMITERS, Layout, inferred_names, layout_of, names_without_header
from sfumato.engines.duckdb.lines import Csv, first_line, json_lines
from sfumato.engines.duckdb.nested import is_nested, parts_of
from sfumato.engines.duckdb.source import ROWS, Source, arriving, owned
from sfumato.engines.duckdb.text import identifier, literal
from sfumato.errors import EngineError, in_own_words

# What is read for its names and types is of the lines alone, and not of the names of folders. Times inside of
# structs and lists are read as ISO 8601 has them, so no others are to be found.
_LINES = (
    "format = 'newline_delimited', ignore_errors = true, hive_partitioning = false, dateformat = '%Y-%m-%d', "
    "timestampformat = '%Y-%m-%dT%H:%M:%S'"
)

# Types that strings of JSON are taken for, and these in nested ones.
_OF_STRINGS = ('"NULL"', "VARCHAR", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")

Reader = Callable[[str, Sequence[str]], Iterator[pa.RecordBatch]]


def open_csv(
    path: str,
    files: Sequence[str],
    delimiter: str | None,
    types: Types | None,
    connection: duckdb.DuckDBPyConnection,
    multiline: bool = True,
    encoding: str | None = None,
) -> Source:
    """Open CSV files of the same columns.

    Args:
        path: as the user gave it.
        files: each file.
        delimiter: between fields; None for the one among , ; tab | that the header shows.
        types: of columns by name, others are text; None to infer them, and to read as if they were declared.
        connection: where rows will be.
        multiline: whether a text in quotes may have several lines.
        encoding: of the files, as `checked_encoding` gives it.
    Raises:
        EngineError, ColumnError: the files cannot be read, or have other columns than are declared.
    """
    form, delimiters = Csv(multiline=multiline, encoding=encoding), delimiter or DELIMITERS
    types, notes = (
        (types, ()) if types is not None else _inferred(path, files[0], form, delimiters, connection)
    )
    layouts = {file: _layout(path, file, form, delimiters, types) for file in files}
    types = declared.columns_of(layouts[files[0]].names, types, repr(path))
    layouts = _with_names(layouts, types)
    kinds = types

    def read(file: str, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return layouts[file].batches(file, wanted)

    def value(name: str) -> str:
        return declared.cast(identifier(name), kinds[name])

    return _source(path, files, read, types, value, connection, notes)


def open_json(
    path: str, files: Sequence[str], types: Types | None, connection: duckdb.DuckDBPyConnection
) -> Source:
    """Open JSON files of one object a line.

    Args:
        path: as the user gave it.
        files: each file.
        types: of the columns, by name; None to infer them, and to read as if they were declared.
        connection: where rows will be.
    """
    for file in files:
        _check_lines(path, file)
    notes: tuple[str, ...] = ()
    if types is None:
        types = _inferred_json(path, files, connection)
        notes = (declared.inferred_note(path, types),)

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

    kinds = [(name, declared.base_type(kind)) for name, kind in types.items()]
    inside = within(connection, ROWS, kinds)
    return Source(
        path, *inside, owned(connection), pending=load, notes=notes, inferred=dict(types) if notes else None
    )


def _unreadable(path: str) -> EngineError:
    return EngineError(f"scan: {path!r} cannot be read; it is damaged, or another kind of file")


def _layout(path: str, file: str, form: Csv, delimiters: str, types: Types) -> Layout:
    with in_own_words(lambda _: _unreadable(path), Exception):
        return layout_of(file, form, delimiters, types)


def _with_names(layouts: Mapping[str, Layout], types: Types) -> dict[str, Layout]:
    """Return the layouts with the columns' names as they are spelled in the first file."""
    by_fold, found = {name.casefold(): name for name in types}, {}
    for file, layout in layouts.items():
        folded = [name.casefold() for name in layout.names]
        if len(set(folded)) < len(folded):
            raise EngineError(f"scan: the header of {file!r} has a name twice; names are equal whatever case")
        if sorted(folded) != sorted(by_fold):
            raise EngineError(
                f"scan: the header of {file!r} is {list(layout.names)}, but {list(types)} were expected; "
                "give all files one header"
            )
        found[file] = replace(layout, names=tuple(by_fold[name] for name in folded))
    return found


def _inferred(
    path: str, file: str, form: Csv, delimiters: str, connection: duckdb.DuckDBPyConnection
) -> tuple[Types, tuple[str, ...]]:
    """Return types of the columns of a file, to be declared, and notes that say so.

    Raises:
        EngineError: the file has no columns, or cannot be read.
    """
    with in_own_words(lambda _: _unreadable(path), Exception):
        names = inferred_names(file, form, delimiters)
        if names is None:
            raise declared.not_inferred(path)
        layout = layout_of(file, form, delimiters, names)
        types = _inferred_types(file, layout, connection)
        if layout.form.header:
            names = names_without_header(layout, file, types, lambda row: reads_as(connection, row, types))
            if names is not None:
                types = _inferred_types(file, layout_of(file, form, delimiters, names), connection)
        return types, (declared.inferred_note(path, types), *form.wrong_bytes(file))


def _inferred_types(file: str, layout: Layout, connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    names = list(dict.fromkeys(layout.names))
    return inferred_types(connection, _sample(layout.batches(file, names), names))


def _sample(batches: Iterator[pa.RecordBatch], names: Sequence[str]) -> pa.Table:
    """Return the first rows, as texts."""
    found: list[pa.RecordBatch] = []
    for batch in batches:
        found.append(batch)
        if sum(one.num_rows for one in found) >= SAMPLE:
            break
    schema = pa.schema([(name, pa.large_string()) for name in names])
    return pa.Table.from_batches(found, schema).slice(0, SAMPLE)


def _inferred_json(path: str, files: Sequence[str], connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return types of columns of JSON, in which each value of the first rows can be read."""
    listed = ", ".join(map(literal, files))
    found = _described(connection, f"read_json([{listed}], {_LINES})")
    if not found or [name for name, _ in found] == ["json"]:
        raise declared.not_inferred(path)
    cursor = connection.cursor()
    cursor.register("inferred_from", _sample(json_lines(files[0]), ["line"]))
    rows = "inferred_from WHERE json_valid(line)"
    texts = ", ".join(f"{_text_of_json(name)} AS {identifier(name)}" for name, _ in found)
    strings = inferred_types(cursor, cursor.sql(f"SELECT {texts} FROM {rows}").to_arrow_table(), strings=True)
    tried = {name: _json_candidates(kind, strings[name]) for name, kind in found}
    tests = [(name, kind) for name, kinds in tried.items() for kind in kinds]
    asked = ", ".join(
        f"bool_and({_of_json(name, kind)} IS NOT NULL) "
        f"FILTER (WHERE json_type(json_extract(line, {_pointer(name)})) <> 'NULL')"
        for name, kind in tests
    )
    fits = cursor.execute(f"SELECT {asked} FROM {rows}").fetchall()[0]
    good = {name: kind for (name, kind), fit in reversed([*zip(tests, fits, strict=True)]) if fit}
    types = {name: good.get(name, tried[name][-1]) for name, _ in found}
    return declared.checked_types(types, nested=True) or {}


def _json_candidates(kind: str, string: str) -> list[str]:
    """Return types of a column to try: of strings what these are, of others what DuckDB takes them for."""
    if declared.is_castable(kind) or kind == '"NULL"':
        plain = kind in _OF_STRINGS
        return [*([string] if plain and string != "VARCHAR" else []), "VARCHAR" if plain else kind]
    return list(dict.fromkeys([kind, _with_texts_for_times(kind), "JSON"]))


def _with_texts_for_times(kind: str) -> str:
    if not is_nested(kind):
        return "VARCHAR" if kind in _OF_STRINGS else kind
    parts = [(name, _with_texts_for_times(of)) for name, of in parts_of(kind)]
    if kind.endswith("]"):
        return f"{parts[0][1]}[]"
    if kind.startswith("MAP("):
        return f"MAP({', '.join(of for _, of in parts)})"
    return f"STRUCT({', '.join(f'{identifier(name)} {of}' for name, of in parts)})"


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


def _pointer(name: str) -> str:
    return literal("/" + name.replace("~", "~0").replace("/", "~1"))


def _text_of_json(name: str) -> str:
    return f"CAST(json_extract_string(line, {_pointer(name)}) AS VARCHAR)"


def _of_json(name: str, kind: str) -> str:
    if declared.is_castable(declared.base_type(kind)):
        value = declared.cast(f"json_extract_string(line, {_pointer(name)})", kind)
    elif kind == "JSON":
        value = f"nullif(json_extract(line, {_pointer(name)}), 'null')"
    else:
        value = f"TRY_CAST(json_extract(line, {_pointer(name)}) AS {kind})"
    return f"TRY({value})"


def _described(connection: duckdb.DuckDBPyConnection, relation: str) -> list[tuple[str, str]] | None:
    with suppress(Exception), in_own_words():
        return described(connection, relation)
    return None
