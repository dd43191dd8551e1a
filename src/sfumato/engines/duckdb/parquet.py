"""Parquet: read by DuckDB; and by Arrow where that stops at a value.

DuckDB's reader stops at text that is not UTF-8, JSON that is none, a time of day beyond the day, a time in
milliseconds beyond its calendar. Then the columns of the query are read again, by Arrow, each such value
is NULL, and all others are the same as before.
"""

from __future__ import annotations

import datetime
import io
import os
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import reduce
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.connection import check_out, connect, session_factory
from sfumato.engines.duckdb.resources import DEFAULTS, Resources
from sfumato.engines.duckdb.sanitized_columns import (
    decode_dictionary,
    describe_relation,
    may_become_null,
    parts,
    sanitize,
    sanitize_schema,
    try_describe_relation,
    with_parts,
    within,
)
from sfumato.engines.duckdb.source import ROWS, Source, arriving, open_database
from sfumato.errors import EngineError
from sfumato.query import sizes
from sfumato.sql_text import identifier, literal


def proven_columns(footers: Sequence[pq.FileMetaData], kinds: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Return Parquet columns whose footer statistics prove that all values are of their type.

    Reading these can stop at no value, and DuckDB itself leaves out row groups by the same numbers; of text
    and times it could take for given what reading would stop at.

    Args:
        footers: of all files of a table.
        kinds: names and DuckDB types of its columns.
    """
    wanted = {
        name: kind for name, kind in kinds if kind == "DATE" or re.fullmatch(r"DECIMAL\(\d+,\d+\)", kind)
    }
    if len(wanted) * sum(footer.num_row_groups for footer in footers) > sizes.FOOTER_CHUNKS:
        return frozenset()
    found = set(wanted)
    for footer in footers:
        places = {footer.schema.column(i).path: i for i in range(footer.num_columns)}
        found = {name for name in found if name in places and _within(footer, places[name], wanted[name])}
    return frozenset(found)


def _within(footer: pq.FileMetaData, place: int, kind: str) -> bool:
    column = footer.schema.column(place)
    # Others have orders of their own, in which not all writers agree.
    if (
        column.physical_type not in ("INT32", "INT64")
        or column.max_repetition_level
        or column.name != column.path
    ):
        return False
    with suppress(Exception):  # of dates that Python does not have
        return all(
            _chunk_is_within(footer.row_group(i).column(place).statistics, kind)
            for i in range(footer.num_row_groups)
        )
    return False


def _chunk_is_within(told: pq.Statistics | None, kind: str) -> bool:
    if told is None:
        return False
    if not told.has_min_max:
        return bool(told.has_null_count and told.num_values == 0)
    ends = told.min, told.max
    if kind == "DATE":  # those that Python has are of the years 1 to 9999
        return all(type(end) is datetime.date for end in ends)
    width, scale = map(int, re.findall(r"\d+", kind))
    return all(isinstance(end, Decimal) and abs(end.scaleb(scale)) < 10**width for end in ends)


# Arrow has no such types, and what it gives instead would be other values.
_DUCKDB_ALONE = ("VARIANT", "GEOMETRY", "UNION", "INTERVAL")
# Under which a file has Arrow's own schema.
_ARROW = b"ARROW:schema"
# What a folder such as year=2024 names, in a path.
_KEY = re.compile(r"(?:^|[/\\])([^/?\\=]+)=[^/\\]*(?=[/\\])")


@dataclass(frozen=True)
class ParquetFiles:
    """Parquet files of one table.

    Args:
        path: as the user gave it, for messages.
        files: each of them; all must have the same columns.
        resources: what reading them a second time may take.
    """

    path: str
    files: Sequence[str]
    resources: Resources = DEFAULTS

    def source(self) -> Source:
        """Return the source of Parquet files from their footers; no row is read.

        Raises:
            EngineError: one is no Parquet file, or has other columns than the first.
        """
        session = session_factory(resources=self.resources)
        with check_out(resources=self.resources, leaves_nothing=True) as connection:
            kinds = try_describe_relation(connection, self.relation)
            told = self._read_footers(kinds or ())
            if kinds is None or told is None:
                raise EngineError(
                    f"scan: {self.path!r} cannot be read as parquet, as it is empty, damaged or "
                    "another kind of file"
                )
            self._check_alike(connection)
            required, rows, proven = told
            inside = within(connection, self.relation, kinds, decoded=False, proven=proven)
        complete = required & {name for name, kind in kinds if not may_become_null(kind)}
        return Source(
            self.path,
            *inside,
            session,
            complete,
            again=lambda columns: self._again(kinds, columns),
            rows=rows,
            anywhere=True,
        )

    @property
    def relation(self) -> str:
        """SQL behind FROM that reads the Parquet files."""
        return f"read_parquet([{', '.join(map(literal, self.files))}])"

    def _check_alike(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Refuse Parquet files that differ in columns, or have a column that a folder names too.

        What becomes of these would depend on their rows.
        """
        first: dict[str, str] = {}
        for file in self.files:
            alone = f"read_parquet({literal(file)}, hive_partitioning = false)"
            kinds = dict(try_describe_relation(connection, alone) or ())
            first = first or kinds
            other = sorted(set(kinds.items()) ^ set(first.items()))
            if other or not kinds:
                columns = f"; {other[0][0]!r} is not the same" if other else ""
                raise EngineError(
                    f"scan: {file!r} and {self.files[0]!r} differ in columns or their "
                    f"types{columns}. Give all files the same columns and types"
                )
            of_folders = {found.casefold() for found in _KEY.findall(os.path.dirname(file) + os.sep)}
            if both := [name for name in kinds if name.casefold() in of_folders]:
                raise EngineError(
                    f"scan: {file!r} has a column {both[0]!r}, and the name of its folder gives "
                    "one too. Rename the folder, or drop the column"
                )

    def _read_footers(
        self, kinds: Sequence[tuple[str, str]]
    ) -> tuple[frozenset[str], int, frozenset[str]] | None:
        """Return what Parquet footers tell: required columns, number of rows, and proven columns."""
        with suppress(pa.ArrowException, OSError, ValueError, RuntimeError):
            found = [pq.read_metadata(file) for file in self.files]
            for name in {name for one in found for name in _unlike(one.schema.to_arrow_schema())}:
                raise EngineError(
                    f"scan: {name!r} of {self.path!r} has decimals of more than 38 digits, or a "
                    "map of 16-bit floats, which DuckDB and Arrow read differently. Cast it, such as "
                    "to double"
                )
            required = frozenset.intersection(*map(_required, found))
            # Names of folders may hold values of columns.
            plain = not any("=" in file for file in self.files)
            proven = proven_columns(found, kinds) if plain else frozenset()
            return required, sum(one.num_rows for one in found), proven
        return None

    def _again(self, kinds: Sequence[tuple[str, str]], columns: Sequence[str]) -> Source:
        """Return the source that reads the Parquet columns again, by Arrow."""
        wanted = [(name, kind) for name, kind in kinds if name in columns]
        for name, kind in wanted:
            if any(alone in kind for alone in _DUCKDB_ALONE):
                raise EngineError(
                    f"{self.path}: a value of {name!r} ({kind}) cannot be read. Cast the column"
                )
        connection = connect(resources=self.resources)
        typed = ", ".join(f"{identifier(name)} {kind}" for name, kind in kinds)
        connection.execute(f"CREATE TABLE {ROWS} ({typed})")
        names, into = [name for name, _ in kinds], ", ".join(identifier(name) for name, _ in wanted)

        def load(cursor: duckdb.DuckDBPyConnection, _: Sequence[str]) -> None:
            for file in self.files:
                partition = self._partition(cursor, file, names)
                for schema, batches in _read(file, [n for n, _ in wanted if n not in partition]):
                    values = ", ".join(
                        f"TRY_CAST({partition.get(name, identifier(name))} AS {kind})"
                        for name, kind in wanted
                    )
                    with arriving(cursor, schema, batches):
                        cursor.execute(
                            f"INSERT INTO {ROWS} ({into}) SELECT {values} FROM arriving"
                        ).fetchall()

        return Source(self.path, *within(connection, ROWS, kinds), open_database(connection), pending=load)

    def _partition(
        self, cursor: duckdb.DuckDBPyConnection, file: str, names: Sequence[str]
    ) -> dict[str, str]:
        """Return columns of a Parquet file that its folders' names give, as SQL."""
        own = {
            name
            for name, _ in describe_relation(
                cursor, f"read_parquet({literal(file)}, hive_partitioning = false)"
            )
        }
        absent = [name for name in names if name not in own]
        if not absent:
            return {}
        texts = ", ".join(f"CAST({identifier(name)} AS VARCHAR)" for name in absent)
        # As text: of the files together a type was guessed from the folders of all.
        read = f"read_parquet({literal(file)}, hive_types_autocast = false)"
        found = cursor.execute(f"SELECT {texts} FROM {read} LIMIT 1").fetchall()
        values = found[0] if found else [None] * len(absent)
        return {n: "NULL" if v is None else literal(str(v)) for n, v in zip(absent, values, strict=True)}


def _required(metadata: pq.FileMetaData) -> frozenset[str]:
    # DuckDB writes "required" where the rows at hand have no NULL: a fact about rows, no declaration.
    if "duckdb" in (metadata.created_by or "").lower():
        return frozenset()
    schema = metadata.schema.to_arrow_schema()
    # A float that is never NULL can still be NaN.
    return frozenset(f.name for f in schema if not f.nullable and not pa.types.is_floating(f.type))


def _unlike(schema: pa.Schema) -> list[str]:
    """Return Parquet columns of types that DuckDB and Arrow read differently."""

    def unlike(kind: pa.DataType, in_map: bool = False) -> bool:
        in_map |= pa.types.is_map(kind)
        inner = parts(kind) if kind.num_fields else []
        alone = pa.types.is_decimal256(kind) or (in_map and pa.types.is_float16(kind))
        return alone or any(unlike(field.type, in_map) for field in inner)

    return [field.name for field in schema if unlike(field.type)]


def _read(file: str, columns: Sequence[str]) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Yield a Parquet file's schema and sanitized batches, read by Arrow."""
    with pq.ParquetFile(file, coerce_int96_timestamp_unit="us", metadata=_metadata(file)) as opened:
        schema = opened.schema_arrow
        # A name with a dot would be taken for a path.
        plain = not any("." in name for name in schema.names) and set(columns) <= set(schema.names)
        read = list(columns) if plain else None
        kept = schema if read is None else pa.schema([f for f in schema if f.name in read])
        kept = sanitize_schema(reduce(lambda s, i: s.set(i, _stored(s.field(i))), range(len(kept)), kept))

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in opened.iter_batches(sizes.PARQUET_ROWS, columns=read):
                by_name: dict[str, Any] = dict(zip(batch.schema.names, batch.columns, strict=True))
                arrays = [sanitize(_decode(by_name[f.name])) for f in kept]
                yield pa.RecordBatch.from_arrays(arrays, schema=kept)

        yield kept, batches()


def _metadata(file: str) -> pq.FileMetaData | None:
    """Return a Parquet footer without Arrow's own schema, where that has dictionaries; else None.

    Arrow stops at text that is not UTF-8 where it puts the text in a dictionary. DuckDB has no dictionaries.
    """
    schema = pq.read_schema(file)
    if not any(map(_has_dictionary, schema.types)) or any(_ARROW in name.encode() for name in schema.names):
        return None
    with open(file, "rb") as opened:
        opened.seek(-8, os.SEEK_END)
        (length,) = struct.unpack("<I", opened.read(4))
        opened.seek(-8 - length, os.SEEK_END)
        footer = opened.read(length)
    plain = footer.replace(_ARROW, _ARROW[::-1])
    return pq.read_metadata(io.BytesIO(b"".join([b"PAR1", plain, struct.pack("<I", length), b"PAR1"])))


def _has_dictionary(kind: pa.DataType) -> bool:
    inner = parts(kind) if kind.num_fields else []
    return pa.types.is_dictionary(kind) or any(_has_dictionary(field.type) for field in inner)


def _stored(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.field(field.name, _as_duckdb_reads(kind))


def _decode(column: pa.Array) -> pa.Array:
    column = decode_dictionary(column) if pa.types.is_dictionary(column.type) else column
    kind = _as_duckdb_reads(column.type)
    return column if kind == column.type else column.cast(kind)


def _as_duckdb_reads(kind: pa.DataType) -> pa.DataType:
    """Return the type as which DuckDB reads a Parquet column that Arrow wrote."""
    if pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_float16(kind):
        return pa.float32()
    if not kind.num_fields or pa.types.is_dictionary(kind):
        return kind
    return with_parts(kind, [field.with_type(_as_duckdb_reads(field.type)) for field in parts(kind)])
