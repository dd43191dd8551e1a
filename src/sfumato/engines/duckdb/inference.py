"""The types of columns of texts, inferred from a sample of rows: those that lose none of its values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain, product

import duckdb
import pyarrow as pa

from sfumato.engines.duckdb.declared import cast
from sfumato.engines.duckdb.text import identifier, literal

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
    """Return a type for each column of texts, with its format, as `declared` reads them.

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
    """Return whether each value, by the name of its column, is one of the type of the column.

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
    """Return types, each with the pattern of its texts; the first that fits all is taken."""
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
