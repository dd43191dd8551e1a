"""Types of columns: declared for a file or frame that has none, or inferred from a sample of its rows.

A type is DuckDB's. DATE, TIME and TIMESTAMP may be followed by the format of their texts, as `strptime` has
it: "DATE %d/%m/%Y". Columns of JSON may be nested: "STRUCT(planet VARCHAR)[]".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, product

import duckdb
import pyarrow as pa

from sfumato.dialect.syntax_tree import ask
from sfumato.engines.duckdb.sanitized_columns import is_nested, list_nested_types
from sfumato.errors import ColumnError, EngineError, QueryError, nearest, with_article
from sfumato.sql_text import identifier, literal

# What a text is cast to, by DuckDB's TRY_CAST: each was tried on hostile texts.
_NAMES = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE"),
    *("VARCHAR", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "UUID"),
)
# Words, numbers, quoted names, and what stands between them; brackets are counted.
_FORM = re.compile(r'[A-Za-z](?:[A-Za-z0-9_ ,()\[\]]|"(?:[^"]|"")*")*')
_FORMATTED = re.compile(r'(?P<kind>[A-Za-z ]+?)\s+(?:"(?P<quoted>%[^"]*)"|(?P<bare>%.*\S))\s*')
_WITH_FORMAT = ("DATE", "TIME", "TIMESTAMP")

Types = Mapping[str, str]


def check_types(types: object, *, nested: bool = False) -> dict[str, str] | None:
    """Return declared types under DuckDB's own names.

    Args:
        types: by the names of columns.
        nested: whether lists, structs, maps and JSON are types here.
    Raises:
        QueryError: it is no mapping of column names to types that a text can be read as.
    """
    if types is None:
        return None
    if not isinstance(types, Mapping) or not types:
        raise QueryError(
            f"types is {with_article(type(types).__name__)}, but must give each column a type: "
            "types={'id': 'BIGINT', 'amount': 'DOUBLE', 'day': 'DATE'}"
            if not isinstance(types, Mapping)
            else "types is empty. Give each column a type, types={'id': 'BIGINT'}, or leave it out"
        )
    return {_name(name): _canonical(name, kind, nested) for name, kind in types.items()}


def _name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise QueryError(f"types: {name!r} is not the name of a column")
    return name


def _canonical(name: str, kind: object, nested: bool) -> str:
    formatted = _FORMATTED.fullmatch(kind.strip()) if isinstance(kind, str) else None
    if formatted is not None:
        return _with_format(name, formatted["kind"], formatted["quoted"] or formatted["bare"])
    known = ", ".join([*_NAMES[:-2], "TIMESTAMPTZ", "DECIMAL(p, s)", "UUID"])
    if not isinstance(kind, str) or not _is_type(kind.strip()):
        raise QueryError(f"types: {name!r} is declared {kind!r}, which is not a type. Use one of {known}")
    try:
        found = str(ask(f"SELECT typeof(CAST(NULL AS {kind}))")[0][0])
    except duckdb.Error:
        found = ""
    if found and not is_castable(found) and _is_readable(found):
        if nested:
            return found
        raise QueryError(
            f"types: {name!r} is declared {kind!r}, which only columns of JSON have. Declare 'VARCHAR', and "
            "take the text apart in with_columns"
        )
    if not is_castable(found):
        near = nearest(kind, _NAMES)
        hint = f"did you mean {near}? " if near and near != kind.upper() else ""
        raise QueryError(
            f"types: {name!r} is declared {kind!r}, but a text cannot be read as that; "
            f"{hint}use one of {known}"
        )
    return found


def _is_type(kind: str) -> bool:
    """Whether a text reads as one declared column type, so that it ends nothing that stands around it."""
    if not _FORM.fullmatch(kind):
        return False
    depth = 0
    for character in re.sub(r'"(?:[^"]|"")*"', "", kind):
        depth += (character in "([") - (character in ")]")
        if depth < 0:
            return False
    return depth == 0


def _with_format(name: str, kind: str, format: str) -> str:
    base = _canonical(name, kind, nested=False)
    shown = f"{kind} {format}"
    if base not in _WITH_FORMAT:
        raise QueryError(
            f"types: {name!r} is declared {shown!r}, but only DATE, TIME and TIMESTAMP have a format. "
            f"Write {base!r}"
        )
    try:
        zoned = str(ask(f"SELECT typeof(try_strptime('', {literal(format)}))")[0][0]) != "TIMESTAMP"
    except duckdb.Error:
        zoned = None
    if zoned is None or zoned:
        why = "which has a time zone" if zoned else "which is not a format of strptime"
        write = "TIMESTAMPTZ" if zoned else f"{base} %d/%m/%Y"
        raise QueryError(f"types: {name!r} is declared {shown!r}, {why}. Write {write!r}, or another format")
    return f"{base} {format}"


def is_castable(kind: str) -> bool:
    """Whether texts can be read as a type, named as DuckDB does."""
    return kind in _NAMES or (kind.startswith("DECIMAL(") and kind.endswith(")"))


def _is_readable(kind: str) -> bool:
    """Whether a JSON value can be read as a column type, named as DuckDB does."""
    if is_nested(kind):
        return all(_is_readable(of) for _, of in list_nested_types(kind))
    return kind == "JSON" or is_castable(kind)


def base_type(kind: str) -> str:
    """Return a declared column type without its format.

    >>> base_type("DATE %d/%m/%Y"), base_type("DECIMAL(10,2)")
    ('DATE', 'DECIMAL(10,2)')
    """
    return kind.partition(" %")[0]


def cast(text: str, kind: str) -> str:
    """Write the cast of a text to a declared column type; a text that does not fit is NULL."""
    if kind == "VARCHAR":
        return text
    base, _, format = kind.partition(" %")
    if format:
        return f"TRY_CAST(TRY(try_strptime(trim({text}), {literal('%' + format)})) AS {base})"
    return f"TRY_CAST({text} AS {kind})"


def declared_types(columns: Sequence[str], types: Types, name: str) -> dict[str, str]:
    """Return the declared type of each column of a text file or frame; text where none is declared.

    Raises:
        ColumnError: a type is declared for a column that is not there.
    """
    by_fold = {column.casefold(): column for column in columns}
    for declared in types:
        if declared.casefold() not in by_fold:
            raise ColumnError._unknown(declared, columns, f"types of {name}")
    folded = {declared.casefold(): kind for declared, kind in types.items()}
    if len(folded) < len(types):
        raise QueryError("types: a column is named twice (names are equal whatever their case)")
    return {column: folded.get(column.casefold(), "VARCHAR") for column in columns}


def as_python(types: Types) -> str:
    """Return declared column types as the `types=` of `scan`.

    >>> as_python({"id": "BIGINT", "day": "DATE %d/%m/%Y"})
    "types={'id': 'BIGINT', 'day': 'DATE %d/%m/%Y'}"
    """
    return f"types={dict(types)!r}"


def as_option(types: Types) -> str:
    """Return declared column types as OPTIONS in SQL.

    >>> print(as_option({"the id": "BIGINT", "day": "DATE %b %d, %Y"}))
    types = '"the id" BIGINT, day DATE "%b %d, %Y"'
    """
    entries = ", ".join(f"{_word(name)} {_quoted_format(kind)}" for name, kind in types.items())
    return f"types = {literal(entries)}"


def as_toml(types: Types) -> str:
    """Return declared column types as a catalog file has them.

    >>> print(as_toml({"the id": "BIGINT", "day": "DATE"}))
    types = {"the id" = "BIGINT", day = "DATE"}
    """
    entries = (
        f"{name if re.fullmatch(r'[A-Za-z0-9_-]+', name) else json.dumps(name)} = {json.dumps(kind)}"
        for name, kind in types.items()
    )
    return f"types = {{{', '.join(entries)}}}"


def _word(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else identifier(name)


def _quoted_format(kind: str) -> str:
    base, _, format = kind.partition(" %")
    return f'{base} "%{format}"' if re.search(r"[,()\[\]]", format) else kind


def inferred_note(name: str, types: Types, form: str = "") -> str:
    """Return the note that column types were guessed, with the declaration that gives the same types.

    Args:
        name: of the source.
        types: of all its columns.
        form: "toml" where a catalog declares the source.
    """
    declared = (
        as_toml(types) if form == "toml" else f"{as_python(types)}; in SQL OPTIONS ({as_option(types)})"
    )
    return (
        f"the types of {name} were inferred from its first rows, so one row can change them. "
        f"Declare them: {declared}"
    )


def refuse_types(types: object, kind: str) -> None:
    """Refuse declared column types for a source that has its own."""
    if types is not None:
        raise QueryError(f"types: {kind} declares its own types. Leave types= out, or cast with with_columns")


def ddl(types: Types) -> str:
    """Write column names and types as CREATE TABLE has them."""
    return ", ".join(f"{identifier(name)} {base_type(kind)}" for name, kind in types.items())


def not_inferred(name: str) -> EngineError:
    """Return the error of a file whose column types cannot be guessed."""
    return EngineError(
        f"scan: the types of {name!r} cannot be inferred, as it is empty, damaged or another kind of file"
    )


def match_declared_names(types: Types, names: Sequence[str]) -> set[str]:
    """Return the columns' own spelling of the names that have a declared type."""
    folded = {name.casefold() for name in types}
    return {name for name in names if name.casefold() in folded}


SAMPLE = 20_480  # rows
# What stands for a missing value where other values are numbers or times.
MISSING = ("NA", "N/A", "#N/A", "NULL", "null", "None", r"\N")
_WHOLE = r"[+-]?[0-9]{1,40}"
_REAL = r"[+-]?([0-9]{1,38}|[0-9]{0,38}[.][0-9]*)([eE][+-]?[0-9]{1,3})?|[+-]?(nan|NaN|NAN|inf|Inf|infinity)"
_CLOCK = r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?"
_DAY = r"[0-9]{4}[-/][0-9]{1,2}[-/][0-9]{1,2}"
_PLAIN = {
    "BOOLEAN": "(?i:true|false|t|f|yes|no|y|n)",
    **dict.fromkeys(("BIGINT", "UBIGINT", "HUGEINT"), _WHOLE),
    "DOUBLE": _REAL,
}
_TIMES = {
    "TIME": _CLOCK,
    "DATE": _DAY,
    "TIMESTAMP": f"{_DAY}([ T]{_CLOCK})?",
    "TIMESTAMP WITH TIME ZONE": f"{_DAY}[ T]{_CLOCK} ?(Z|[+-][0-9]{{2}}(:?[0-9]{{2}})?)",
}
# Where several fit, the first is taken.
_DAYS = (
    "%y-%m-%d",
    *(f"%d{s}%m{s}%{y}" for s, y in product("/.-", "yY")),
    *(f"%m{s}%d{s}%{y}" for s, y in product("/.-", "yY")),
    *("%Y.%m.%d", "%y/%m/%d", "%y.%m.%d"),
    *(f"%d{s}%{b}{s}%{y}" for s, b, y in product(" -", "bB", "yY")),
    *(f"%{b} %d, %Y" for b in "bB"),
)
_CLOCKS = ("%H:%M:%S", "%H:%M", "%H:%M:%S.%f", "%I:%M:%S %p", "%I:%M %p")
_DIRECTIVES = {
    **dict.fromkeys("dmHIMS", "[0-9]{1,2}"),
    **{"y": "[0-9]{2}", "Y": "[0-9]{4}", "f": "[0-9]{1,9}", "p": "(?i:[ap]m)"},
    **{"b": "[A-Za-z]{3}", "B": "[A-Za-z]{3,9}"},
}


def inferred_types(
    connection: duckdb.DuckDBPyConnection, texts: pa.Table, *, strings: bool = False
) -> dict[str, str]:
    """Guess a type for each column of texts, with its format, from a sample of rows.

    Args:
        connection: that looks at the texts.
        texts: a sample of rows.
        strings: whether the texts are strings of JSON, which are no numbers and no truth values.
    """
    firsts = {name: _first_value(texts.column(name)) for name in texts.column_names}
    tried = {
        name: [one for one in _candidates(strings) if value is not None and re.fullmatch(one[1], value)]
        for name, value in firsts.items()
    }
    tests = [(name, kind, pattern) for name, some in tried.items() for kind, pattern in some]
    found: dict[str, str] = {}
    if tests:
        looked = connection.cursor()
        looked.register("inferred_from", texts)
        asked = ", ".join(_fits(*one) for one in tests)
        fits = looked.execute(f"SELECT {asked} FROM inferred_from").fetchall()[0]
        looked.unregister("inferred_from")
        for (name, kind, _), good in zip(tests, fits, strict=True):
            if good:
                found.setdefault(name, kind)
    return {name: found.get(name, "VARCHAR") for name in texts.column_names}


def reads_as(
    connection: duckdb.DuckDBPyConnection, values: Mapping[str, str], types: Mapping[str, str]
) -> bool:
    """Return whether each text value is one of its column's guessed type.

    Args:
        connection: that reads the values.
        values: as texts, at least one.
        types: as `inferred_types` gives them.
    """
    asked = " AND ".join(f"{cast(literal(value), types[name])} IS NOT NULL" for name, value in values.items())
    return bool(connection.execute(f"SELECT {asked}").fetchall()[0][0])


def _first_value(column: pa.ChunkedArray) -> str | None:
    values = (value.as_py() for chunk in column.chunks for value in chunk)
    return next((v.strip() for v in values if v is not None and v.strip() not in ("", *MISSING)), None)


@cache
def _candidates(strings: bool) -> tuple[tuple[str, str], ...]:
    """Return the column types that are tried on texts, each with its pattern, in order."""
    plain = {} if strings else _PLAIN
    days = ((f"DATE {day}", day) for day in _DAYS)
    times = ((f"TIMESTAMP {day} {clock}", f"{day} {clock}") for day, clock in product(_DAYS, _CLOCKS))
    formats = ((kind, _pattern(format)) for kind, format in chain(days, times))
    return (*plain.items(), *_TIMES.items(), *formats)


def _pattern(format: str) -> str:
    return "".join(_pieces(format))


def _pieces(format: str) -> Iterator[str]:
    for literally, directive in re.findall(r"([^%]*)(?:%(.))?", format):
        yield re.escape(literally) + (_DIRECTIVES[directive] if directive else "")


def _fits(name: str, kind: str, pattern: str) -> str:
    text = f"trim({identifier(name)})"
    missing = ", ".join(map(literal, ("", *MISSING)))
    read = f"regexp_full_match({text}, {literal(pattern)}) AND {cast(text, kind)} IS NOT NULL"
    return f"bool_and({read}) FILTER (WHERE {text} NOT IN ({missing}))"
