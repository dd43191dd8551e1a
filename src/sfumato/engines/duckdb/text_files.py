"""CSV and JSON as sources: lines become texts in Arrow, and texts become the declared types in DuckDB."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, product

import duckdb
import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb import column_types
from sfumato.engines.duckdb.column_types import MISSING, SAMPLE, Types, inferred_types, reads_as
from sfumato.engines.duckdb.sanitized_columns import (
    is_nested,
    list_nested_types,
    try_describe_relation,
    within,
)
from sfumato.engines.duckdb.source import ROWS, Source, arriving, open_database
from sfumato.engines.duckdb.text_lines import Csv, first_line, json_lines
from sfumato.errors import EngineError, in_own_words, shown
from sfumato.sql_text import identifier, literal

DELIMITERS = ",;\t|"
# Lines before the header, at most, and lines that names are inferred from.
_PREAMBLE, _SAMPLE = 64, 1000


@dataclass(frozen=True)
class Layout:
    """The layout of one CSV file: form, names and least number of fields.

    Args:
        form: how its records are written.
        names: of its columns, in its order; a column without a name is `column` and its place, from 0.
        least: how many fields a record must have: at the end, those without a name may be missing.
    """

    form: Csv
    names: tuple[str, ...]
    least: int

    def batches(self, file: str, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield columns of a CSV file as texts; see `Csv.batches`."""
        return self.form.batches(file, self.names, wanted, self.least)


def detect_layout(file: str, form: Csv, delimiters: str, declared: Collection[str]) -> Layout:
    """Return the layout of a CSV file in which most of the declared names are found.

    The first line is the header, or lines stand before it that have fewer fields, and it has all these names.
    Where all names are those of columns without a name, and as many as the first line has fields, there is
    no header.

    Args:
        file: the path.
        form: how its records are written, as far as that is known.
        delimiters: that are tried, in this order.
        declared: names of columns, perhaps not of all.
    Raises:
        EngineError: the header is no text in the encoding of the file.
    """
    lines = form.head(file, _SAMPLE)
    wanted = {name.casefold() for name in declared}
    unnamed = {f"column{i}" for i in range(len(wanted))}
    if wanted == unnamed:
        rows = [replace(form, delimiter=delimiter, header=False) for delimiter in delimiters]
        firsts = [(one, one.record(lines)[1]) for one in rows]
        for one, fields in firsts:
            fits = len(fields) == len(wanted) and {field.casefold() for field in fields} != wanted
            if fits and (len(wanted) > 1 or all(len(other) == 1 for _, other in firsts)):
                return _layout(one, fields)
    best, score = _layout(form, []), (-1, -1)
    for delimiter in delimiters:
        most = 0  # fields of a line before
        for skipped in range(min(len(lines), _PREAMBLE) or 1):
            one = replace(form, delimiter=delimiter, skipped=skipped)
            one = replace(one, quote=_quote(lines[skipped], one) if lines else '"')
            _, fields = one.record(lines[skipped:])
            found = _layout(one, fields)
            named = ({field.strip().casefold() for field in fields} & wanted) - unnamed
            new = len(named), _count_matches(found.names, wanted)
            complete = new[0] and new[1] == len(wanted) and len(fields) > most
            if (complete or not skipped) and new > score:
                best, score = found, new
            most = max(most, len(fields))
    if best.form.header and (wrong := [name for name in best.names if not _is_text(name)]):
        raise EngineError(
            f"scan: the header of {shown(file)} has bytes that are not "
            f"{form.encoding or 'UTF-8'}, in column {best.names.index(wrong[0]) + 1}. Write "
            "encoding='latin-1', or the encoding of the file"
        )
    return best


def inferred_names(file: str, form: Csv, delimiters: str) -> tuple[str, ...] | None:
    """Guess the column names of a CSV file from its header and first rows; None without any.

    Args:
        file, form, delimiters: as of `detect_layout`.
    """
    lines = form.head(file, _SAMPLE)
    best, score = None, (0.0, 0)
    for delimiter, quote in product(delimiters, "\"'"):
        one = replace(form, delimiter=delimiter, quote=quote)
        records = [record for record in one.records(lines) if any(record[1])]
        if not records:
            continue
        sizes = Counter(len(fields) for _, fields in records)
        size, times = max(sizes.items(), key=lambda item: (item[1], item[0]))
        filled = max(_count_filled_fields(fields) for _, fields in records if len(fields) == size)
        line, header = next(
            one for one in records if filled <= len(one[1]) and _count_filled_fields(one[1]) <= size
        )
        new = (times / len(records) if size > 1 else 0.0, size)
        if quote == _quote(line, one) and (best is None or new > score):
            best, score = tuple(_names(header)), new
    return best


def names_without_header(
    layout: Layout, file: str, types: Mapping[str, str], reads: Callable[[Mapping[str, str]], bool]
) -> tuple[str, ...] | None:
    """Return column names of a CSV file whose first line is a row; None if it is the header.

    Args:
        layout: of the file.
        file: the path.
        types: inferred from the other rows.
        reads: whether values, by the names of columns, are of their types.
    """
    form = layout.form
    _, fields = form.record(form.head(file, _SAMPLE)[form.skipped :])
    values = {
        name: field
        for name, field in zip(layout.names, fields, strict=True)
        if field.strip() not in ("", *MISSING) and types[name] != "VARCHAR"
    }
    # pandas writes such names where columns have none, behind the empty one of the index.
    numbered = not fields[0] and fields[1:] == list(map(str, range(len(fields) - 1)))
    is_row = reads(values) if values else len(set(map(str.casefold, layout.names))) < len(layout.names)
    return tuple(f"column{i}" for i in range(len(fields))) if is_row and not numbered else None


def _quote(header: str, form: Csv) -> str:
    """Return the quote character of a CSV header."""
    fields = header.removesuffix("\r").split(form.delimiter)
    single = any(len(name) > 1 and name[0] == name[-1] == "'" for name in fields)
    return "'" if single and '"' not in header else '"'


def _layout(form: Csv, fields: list[str]) -> Layout:
    if not form.header:
        return Layout(form, tuple(f"column{i}" for i in range(len(fields))), len(fields))
    return Layout(
        form, tuple(_names(fields)), max(_count_filled_fields([field.strip() for field in fields]), 1)
    )


def _count_filled_fields(fields: Sequence[str]) -> int:
    """Return the number of CSV fields without the empty ones at the end."""
    return max((i for i, field in enumerate(fields, 1) if field), default=0)


def _names(fields: Sequence[str]) -> list[str]:
    return [field.strip() or f"column{i}" for i, field in enumerate(fields)]


def _count_matches(names: Sequence[str], wanted: set[str]) -> int:
    return len({name.casefold() for name in names} & wanted)


def _is_text(name: str) -> bool:
    with suppress(UnicodeEncodeError):
        return bool(name.encode())
    return False


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
    """Open CSV files of the same columns as a source.

    Args:
        path: as the user gave it.
        files: each file.
        delimiter: between fields; None for the one among , ; tab | that the header shows.
        types: of columns by name, others are text; None to infer them, and to read as if they were declared.
        connection: where rows will be.
        multiline: whether a text in quotes may have several lines.
        encoding: of the files, as `check_encoding` gives it.
    Raises:
        EngineError, ColumnError: the files cannot be read, or have other columns than are declared.
    """
    form, delimiters = Csv(multiline=multiline, encoding=encoding), delimiter or DELIMITERS
    types, notes = (
        (types, ()) if types is not None else _infer_columns(path, files[0], form, delimiters, connection)
    )
    layouts = {file: _file_layout(path, file, form, delimiters, types) for file in files}
    types = column_types.declared_types(layouts[files[0]].names, types, repr(path))
    layouts = _with_names(layouts, types)
    kinds = types

    def read(file: str, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return layouts[file].batches(file, wanted)

    def value(name: str) -> str:
        return column_types.cast(identifier(name), kinds[name])

    return _source(path, files, read, types, value, connection, notes)


def open_json(
    path: str, files: Sequence[str], types: Types | None, connection: duckdb.DuckDBPyConnection
) -> Source:
    """Open JSON files of one object a line as a source.

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
        types = _infer_json_types(path, files, connection)
        notes = (column_types.inferred_note(path, types),)

    def read(file: str, _: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return json_lines(file)

    kinds = types

    def value(name: str) -> str:
        return _json_columns(name, kinds[name])

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
    connection.execute(f"CREATE TABLE {ROWS} ({column_types.ddl(types)})")
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

    kinds = [(name, column_types.base_type(kind)) for name, kind in types.items()]
    inside = within(connection, ROWS, kinds)
    return Source(
        path,
        *inside,
        open_database(connection),
        pending=load,
        notes=notes,
        inferred=dict(types) if notes else None,
    )


def _unreadable(path: str) -> EngineError:
    return EngineError(f"scan: {path!r} cannot be read, as it is damaged or another kind of file")


def _file_layout(path: str, file: str, form: Csv, delimiters: str, types: Types) -> Layout:
    with in_own_words(lambda _: _unreadable(path), Exception):
        return detect_layout(file, form, delimiters, types)


def _with_names(layouts: Mapping[str, Layout], types: Types) -> dict[str, Layout]:
    """Return CSV layouts with column names as the first file spells them."""
    by_fold, found = {name.casefold(): name for name in types}, {}
    for file, layout in layouts.items():
        folded = [name.casefold() for name in layout.names]
        if len(set(folded)) < len(folded):
            raise EngineError(f"scan: the header of {file!r} has a name twice (case does not matter)")
        if sorted(folded) != sorted(by_fold):
            raise EngineError(
                f"scan: the header of {file!r} is {list(layout.names)}, but {list(types)} were "
                "expected. Give all files the same header"
            )
        found[file] = replace(layout, names=tuple(by_fold[name] for name in folded))
    return found


def _infer_columns(
    path: str, file: str, form: Csv, delimiters: str, connection: duckdb.DuckDBPyConnection
) -> tuple[Types, tuple[str, ...]]:
    """Guess column names and types of a CSV file, with notes that say so.

    Raises:
        EngineError: the file has no columns, or cannot be read.
    """
    with in_own_words(lambda _: _unreadable(path), Exception):
        names = inferred_names(file, form, delimiters)
        if names is None:
            raise column_types.not_inferred(path)
        layout = detect_layout(file, form, delimiters, names)
        types = _inferred_types(file, layout, connection)
        if layout.form.header:
            names = names_without_header(layout, file, types, lambda row: reads_as(connection, row, types))
            if names is not None:
                types = _inferred_types(file, detect_layout(file, form, delimiters, names), connection)
        return types, (column_types.inferred_note(path, types), *form.wrong_bytes(file))


def _inferred_types(file: str, layout: Layout, connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    names = list(dict.fromkeys(layout.names))
    return inferred_types(connection, _sample(layout.batches(file, names), names))


def _sample(batches: Iterator[pa.RecordBatch], names: Sequence[str]) -> pa.Table:
    """Return the first rows of a text file, as texts."""
    found: list[pa.RecordBatch] = []
    for batch in batches:
        found.append(batch)
        if sum(one.num_rows for one in found) >= SAMPLE:
            break
    schema = pa.schema([(name, pa.large_string()) for name in names])
    return pa.Table.from_batches(found, schema).slice(0, SAMPLE)


def _infer_json_types(
    path: str, files: Sequence[str], connection: duckdb.DuckDBPyConnection
) -> dict[str, str]:
    """Guess column types of JSON files from their first rows."""
    listed = ", ".join(map(literal, files))
    found = try_describe_relation(connection, f"read_json([{listed}], {_LINES})")
    if not found or [name for name, _ in found] == ["json"]:
        raise column_types.not_inferred(path)
    cursor = connection.cursor()
    cursor.register("inferred_from", _sample(json_lines(files[0]), ["line"]))
    rows = "inferred_from WHERE json_valid(line)"
    texts = ", ".join(f"{_text_of_json(name)} AS {identifier(name)}" for name, _ in found)
    strings = inferred_types(cursor, cursor.sql(f"SELECT {texts} FROM {rows}").to_arrow_table(), strings=True)
    tried = {name: _json_candidates(kind, strings[name]) for name, kind in found}
    tests = [(name, kind) for name, kinds in tried.items() for kind in kinds]
    asked = ", ".join(
        f"bool_and({_json_columns(name, kind)} IS NOT NULL) "
        f"FILTER (WHERE json_type(json_extract(line, {_pointer(name)})) <> 'NULL')"
        for name, kind in tests
    )
    fits = cursor.execute(f"SELECT {asked} FROM {rows}").fetchall()[0]
    good = {name: kind for (name, kind), fit in reversed([*zip(tests, fits, strict=True)]) if fit}
    types = {name: good.get(name, tried[name][-1]) for name, _ in found}
    return column_types.check_types(types, nested=True) or {}


def _json_candidates(kind: str, string: str) -> list[str]:
    """Return the column types to try for a JSON column."""
    if column_types.is_castable(kind) or kind == '"NULL"':
        plain = kind in _OF_STRINGS
        return [*([string] if plain and string != "VARCHAR" else []), "VARCHAR" if plain else kind]
    return list(dict.fromkeys([kind, _with_texts_for_times(kind), "JSON"]))


def _with_texts_for_times(kind: str) -> str:
    if not is_nested(kind):
        return "VARCHAR" if kind in _OF_STRINGS else kind
    parts = [(name, _with_texts_for_times(of)) for name, of in list_nested_types(kind)]
    if kind.endswith("]"):
        return f"{parts[0][1]}[]"
    if kind.startswith("MAP("):
        return f"MAP({', '.join(of for _, of in parts)})"
    return f"STRUCT({', '.join(f'{identifier(name)} {of}' for name, of in parts)})"


def _check_lines(path: str, file: str) -> None:
    """Refuse a JSON file that is not one object a line, by its first line."""
    line = _first(path, file)
    if line.startswith("[") or line == "{":
        raise EngineError(
            f"scan: {path!r} is not JSON with one object on each line, so one malformed object "
            f"would lose all after it. Write lines: jq -c '.[]' {file} > rows.jsonl, or in pandas "
            "to_json(..., orient='records', lines=True)"
        )


def _first(path: str, file: str) -> str:
    with suppress(Exception):
        return first_line(file)
    raise _unreadable(path)


def _pointer(name: str) -> str:
    return literal("/" + name.replace("~", "~0").replace("/", "~1"))


def _text_of_json(name: str) -> str:
    return f"CAST(json_extract_string(line, {_pointer(name)}) AS VARCHAR)"


def _json_columns(name: str, kind: str) -> str:
    if column_types.is_castable(column_types.base_type(kind)):
        value = column_types.cast(f"json_extract_string(line, {_pointer(name)})", kind)
    elif kind == "JSON":
        value = f"nullif(json_extract(line, {_pointer(name)}), 'null')"
    else:
        value = f"TRY_CAST(json_extract(line, {_pointer(name)}) AS {kind})"
    return f"TRY({value})"
