"""Dummy rows as a source: values of each type, the same for the same declarations and seed.

A value follows from the column's name and type, what is declared of it, the number of the row, and a stream
of bits that is the SHAKE-128 of the seed and the names of table and column. Columns of one name have values
of one small pool, so that tables meet in a join.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa

from sfumato.engines.duckdb.column_types import ddl
from sfumato.engines.duckdb.connection import connect
from sfumato.engines.duckdb.resources import DEFAULTS, Resources
from sfumato.engines.duckdb.source import ROWS, Source, arriving, open_database
from sfumato.errors import QueryError
from sfumato.query.schema import FLOATS, INTEGERS
from sfumato.query.tables.dummy_rows import MADE_UP, UNIT, DummyRows, Known
from sfumato.sql_text import double, identifier, literal

_POOL = 10  # different values of a column of which nothing is declared
_STEPS = 1024  # between bounds of real numbers
_NULLS = 20  # one value in so many is missing, where it may
_LISTS = 3  # entries of lists that may have any number
_LIST = re.compile(r"(.+)\[(\d*)\]")
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_LARGEST = 2**62


def open_dummy(dummy: DummyRows, resources: Resources = DEFAULTS) -> Source:
    """Open dummy rows as a source, in a database of their own.

    Args:
        dummy: which.
        resources: what DuckDB may take of the machine.
    """
    kinds = dummy.columns
    arrays: dict[str, pa.Array] = {"i": pa.array(np.arange(dummy.making.rows))}
    values = []
    for number, name in enumerate(kinds):
        bits = _bits(dummy, name)
        arrays[f"r{number}"] = pa.array(bits)
        domain = dummy.known.get(name, Known()).domain
        if domain is not None:
            place = arrays["i"].to_numpy() if dummy.public else bits
            arrays[f"d{number}"] = pa.array(list(domain)).take(pa.array(place % len(domain)))
        # What does not fit, as a domain of other values, is said where the table is opened.
        values.append(f"TRY_CAST({_value(dummy, name, number)} AS {kinds[name]}) AS {identifier(name)}")
    rows = pa.table(arrays)
    connection = connect(resources=resources)
    connection.execute(f"CREATE TABLE {ROWS} ({ddl(kinds)})")
    with arriving(connection, rows.schema, rows.to_batches()):
        connection.execute(f"INSERT INTO {ROWS} SELECT {', '.join(values)} FROM arriving").fetchall()
    # A column that admits no missing value has none, but for types of which no value is made up.
    complete = frozenset(name for name in dummy.complete if _is_made(kinds[name]))
    made = ("rows", dummy.making.rows), ("units", dummy.making.units), ("seed", dummy.making.seed)
    # Of what is joined with public rows the private ones say whether it is made up.
    notes = () if dummy.public or dummy.elsewhere else (MADE_UP,)
    columns, session = [*kinds.items()], open_database(connection)
    elsewhere = dummy.elsewhere
    return Source(
        dummy.name, ROWS, columns, session, complete, notes=notes, made_up=made, elsewhere=elsewhere
    )


def common(parts: Sequence[tuple[tuple[str, int], ...]]) -> tuple[tuple[str, int], ...]:
    """Return the numbers that made-up private tables share; none where they are real.

    Raises:
        QueryError: some of the tables were, and others not.
    """
    if any(parts) and not all(parts):
        raise QueryError(
            "some private tables are dummy tables and others are not. Use dummy tables for all of "
            "them, or for none"
        )
    return parts[0] if parts else ()


def _bits(dummy: DummyRows, name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return a pseudo-random whole number below 2^62 for each made-up row."""
    key = f"{dummy.making.seed}\0{dummy.name}\0{name.casefold()}"
    stream = hashlib.shake_128(key.encode("utf-8", "surrogatepass")).digest(8 * dummy.making.rows)
    return (np.frombuffer(stream, "<u8") >> np.uint64(2)).astype(np.int64)


def _value(dummy: DummyRows, name: str, number: int) -> str:
    """Return SQL of a column's made-up values."""
    kind, known, bits = dummy.columns[name], dummy.known.get(name, Known()), f"r{number}"
    if name == dummy.unique and name != dummy.unit:
        return _named(kind, "(i + 1)", name.casefold())
    if name == dummy.unit:
        return _named(kind, f"({_skewed(bits, dummy.making.units)})", UNIT)
    if dummy.refers is not None and name == dummy.refers.column:
        return _named(kind, f"({_skewed(bits, dummy.refers.count)})", dummy.refers.name)
    if known.domain is not None:
        made = f"d{number}"
    else:
        made = _made(kind, "i" if dummy.public else bits, name.casefold(), known.bounds)
    if name not in dummy.complete and not dummy.public:
        return f"CASE WHEN ({bits} >> 40) % {_NULLS} > 0 THEN {made} END"
    return made


def _skewed(bits: str, count: int) -> str:
    """Return SQL of a made-up unit number: each once, then low ones more often."""
    square = f"(({bits} % 65536) * ({bits} % 65536)) // 65536"
    return f"CASE WHEN i < {count} THEN i + 1 ELSE 1 + ({square} * {count}) // 65536 END"


def _is_made(kind: str) -> bool:
    return _made(kind, "0", "", None) != "NULL"


def _named(kind: str, number: str, name: str) -> str:
    """Return SQL of a made-up value that stands for one number."""
    if kind in INTEGERS:
        return f"1 + ({number} - 1) % {_max_integer(kind)}"
    if kind in FLOATS:
        return number
    if (decimal := _DECIMAL.fullmatch(kind)) is not None:
        return f"{number} % {10 ** min(int(decimal[1]) - int(decimal[2]), 9)}"
    if kind == "DATE":
        return f"DATE '2000-01-01' + CAST({number} AS INTEGER)"
    form = _FORMS.get(kind)
    return _made(kind, number, name, None) if form is None else form(number, name)


def _max_integer(kind: str) -> int:
    """Return the largest made-up whole number of a type."""
    bits = {"TINYINT": 7, "UTINYINT": 7, "SMALLINT": 15, "USMALLINT": 15}.get(kind, 31)
    return int((1 << bits) - 1)


def _made(kind: str, bits: str, name: str, bounds: tuple[Fraction, Fraction] | None) -> str:
    """Return SQL of a made-up value of a type; NULL of types that are not made up."""
    if kind in INTEGERS:
        return _whole(kind, bits, bounds)
    if kind in FLOATS or _DECIMAL.fullmatch(kind):
        return _real(kind, bits, bounds)
    if (of := _LIST.fullmatch(kind)) is not None:
        inside = _made(of[1], f"({bits} + 7919 * k)", name, (Fraction(0), Fraction(1)))
        length = of[2] or _LISTS
        return "NULL" if inside == "NULL" else f"list_transform(range({length}), lambda k: {inside})"
    form = _FORMS.get(kind)
    return "NULL" if form is None else form(f"({bits} % {_POOL} + 1)", name)


def _whole(kind: str, bits: str, bounds: tuple[Fraction, Fraction] | None) -> str:
    low, high = bounds or (Fraction(0), Fraction(_POOL - 1))
    least = 0 if kind.startswith("U") else -_LARGEST
    if kind in ("TINYINT", "SMALLINT", "UTINYINT", "USMALLINT", "INTEGER", "UINTEGER"):
        most = _max_integer(kind)
        least = 0 if kind.startswith("U") else -most
    else:
        most = _LARGEST
    first = min(max(-(-low.numerator // low.denominator), least), most)
    last = max(min(high.numerator // high.denominator, most), first)
    return f"CAST({first} AS HUGEINT) + CAST({bits} AS HUGEINT) % {last - first + 1}"


def _real(kind: str, bits: str, bounds: tuple[Fraction, Fraction] | None) -> str:
    low, high = (float(end) for end in bounds or (0, 100))
    if (decimal := _DECIMAL.fullmatch(kind)) is not None:
        digits, places = int(decimal[1]), int(decimal[2])
        most = float(10 ** min(digits - places, 18)) * (1 - 10.0 ** -min(digits, 9))
        low, high = max(low, -most), min(high, most)
    elif kind == "FLOAT":
        low, high = max(low, -3e38), min(high, 3e38)
    part = f"(({bits} % {_STEPS + 1}) / {double(float(_STEPS))})"
    return f"{double(low)} * (1 - {part}) + {double(high)} * {part}"


_FORMS: dict[str, Callable[[str, str], str]] = {
    "BOOLEAN": lambda n, _: f"{n} % 2 = 0",
    "VARCHAR": lambda n, name: f"{literal(name + ' ')} || {n}",
    "BLOB": lambda n, name: f"encode({literal(name + ' ')} || {n})",
    "DATE": lambda n, _: f"DATE '2024-01-01' + CAST(7 * {n} AS INTEGER)",
    "TIME": lambda n, _: f"TIME '08:00:00' + to_hours({n})",
    "TIMESTAMP": lambda n, _: f"TIMESTAMP '2024-01-01 08:00:00' + to_hours(31 * {n})",
    "TIMESTAMP WITH TIME ZONE": lambda n, _: f"TIMESTAMPTZ '2024-01-01 08:00:00+00' + to_hours(31 * {n})",
    "INTERVAL": lambda n, _: f"to_days(CAST({n} AS INTEGER))",
    "UUID": lambda n, _: f"'00000000-0000-4000-8000-' || lpad(CAST({n} AS VARCHAR), 12, '0')",
    "JSON": lambda n, _: f"'{{\"n\": ' || {n} || '}}'",
}
