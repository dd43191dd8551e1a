"""Elements of a collection to Arrow batches of declared columns.

No element raises: what does not fit its column's declared type is NULL, whatever the other elements hold.
Neither does a batch: one whose texts are more than an Arrow column can hold becomes several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import attrgetter, itemgetter
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.dataclass import dataclass
from sfumato.engines.beam import plain
from sfumato.engines.beam.callables import attempted
from sfumato.engines.duckdb.nested import parts, with_parts
from sfumato.errors import EngineError
from sfumato.query import sizes

# Of a value: what is longer is NULL, as one such row could exhaust a worker's memory.
VALUE_BYTES = 1 << 24
_NOTHING = object()


def declared(rows: pa.Schema) -> pa.Schema:
    """Return the types in which rows are read; extension types are those of plain values, or refused.

    Raises:
        EngineError: a column is of an extension type that has no plain values.
    """
    return pa.schema([field.with_type(_plain_type(field)) for field in rows])


@dataclass(frozen=True)
class Columns:
    """Puts rows into the columns that were declared for them.

    Args:
        schema: names and Arrow types. A row that lacks a value where `nullable` is False is dropped.
    """

    schema: pa.Schema

    def values(self, rows: Sequence[Any]) -> list[list[Any]]:
        """Return what dictionaries, named tuples or Beam rows have in each column; others have nothing."""
        reader = _reader(rows)
        return [_values(rows, field.name, reader) for field in self.schema]

    def most_bytes(self, values: Sequence[Sequence[Any]]) -> int:
        """Return how many bytes, at most, the texts of one of some columns are."""
        return 4 * max(_total(v, f.type) for v, f in zip(values, self.schema, strict=True))

    def of_values(self, values: Sequence[Sequence[Any]]) -> Iterator[pa.RecordBatch]:
        """Yield columns of values in batches."""
        if len(values[0]) > 1 and self.most_bytes(values) > sizes.COLUMN_BYTES:
            half = len(values[0]) // 2
            yield from self.of_values([column[:half] for column in values])
            yield from self.of_values([column[half:] for column in values])
        else:
            yield self._batch([plain.column(v, f.type) for v, f in zip(values, self.schema, strict=True)])

    def of_rows(self, rows: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        """Yield rows in batches."""
        yield from self.of_values(self.values(rows))

    def of_arrow(self, arriving: pa.RecordBatch | pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the declared columns of a batch or table; columns are found by name."""
        batches = arriving.to_batches() if isinstance(arriving, pa.Table) else [arriving]
        for batch in batches:
            yield from self._of_batch(batch)

    def _of_batch(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        given = [named_column(batch, field.name) for field in self.schema]
        if len(batch) > 1 and any(
            column is not None and _bytes(column) > sizes.COLUMN_BYTES for column in given
        ):
            half = len(batch) // 2
            yield from self._of_batch(batch.slice(0, half))
            yield from self._of_batch(batch.slice(half))
        else:
            fields = zip(given, self.schema, strict=True)
            yield self._batch([arrow_column(column, f.type, len(batch)) for column, f in fields])

    def _batch(self, columns: list[pa.Array]) -> pa.RecordBatch:
        columns = [_shortened(column) for column in columns]
        batch = pa.RecordBatch.from_arrays(columns, names=self.schema.names)
        required = [
            c.is_valid() for c, f in zip(columns, self.schema, strict=True) if not f.nullable and c.null_count
        ]
        kept = batch.filter(reduce(pc.and_, required)) if required else batch
        return pa.RecordBatch.from_arrays(kept.columns, schema=self.schema)


def _reader(rows: Sequence[Any]) -> Callable[[str], Callable[[Any], Any]] | None:
    """Return what reads a name from each row, where all are of one kind."""
    kinds = set(map(type, rows))
    return itemgetter if kinds == {dict} else attrgetter if all(map(_has_fields, kinds)) else None


def _values(
    rows: Sequence[Any], name: str, reader: Callable[[str], Callable[[Any], Any]] | None
) -> list[Any]:
    """Return what each row has under a name, or None, whatever the other rows are."""
    found = None if reader is None else attempted(None, lambda: [*map(reader(name), rows)])
    return [attempted(None, _value, row, name) for row in rows] if found is None else found


def _value(row: Any, name: str) -> Any:
    if isinstance(row, Mapping):
        return row.get(name)
    if not _has_fields(type(row)) and (found := attempted(_NOTHING, itemgetter(name), row)) is not _NOTHING:
        return found
    return getattr(row, name, None)


def _has_fields(kind: type) -> bool:
    return issubclass(kind, (tuple, beam.Row))


def _plain_type(field: pa.Field) -> pa.DataType:
    if isinstance(field.type, pa.Bool8Type):
        return pa.bool_()
    if pa.types.is_dictionary(field.type) or pa.types.is_run_end_encoded(field.type):
        return _plain_type(field.with_type(field.type.value_type))
    if isinstance(field.type, _READ):
        return field.type
    if field.type in _VIEWS:
        return _VIEWS[field.type]
    if _extended(field):
        stored = field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else "a plain type"
        raise EngineError(
            f"scan: the column {field.name!r} is {field.type}, an extension type whose values are not known "
            f"here; declare it as {stored}, which extended batches are read as too"
        )
    try:
        pa.array([], field.type)
        return _type_without_views(field.type)
    except pa.ArrowNotImplementedError:
        raise EngineError(
            f"scan: the column {field.name!r} is {field.type}, which cannot be read; cast it to "
            "another type, such as double or string, or drop it"
        ) from None


def _type_without_views(kind: pa.DataType) -> pa.DataType:
    """Return a type with texts and bytes for the views in it, of which Arrow can take no rows."""
    if not kind.num_fields:
        return _VIEWS.get(kind, kind)
    return with_parts(kind, [field.with_type(_type_without_views(field.type)) for field in parts(kind)])


def _extended(field: pa.Field) -> bool:
    """Whether a column, or what it is made of, is of an extension type, by its class or by its name alone."""
    kind = field.type
    named = b"ARROW:extension:name" in (field.metadata or {})
    inner = (kind.field(i) for i in range(kind.num_fields))
    return named or isinstance(kind, pa.BaseExtensionType) or any(map(_extended, inner))


def _total(values: Sequence[Any], kind: pa.DataType) -> int:
    """Return how many characters or bytes there are in values of a type that has no bound of its own."""
    if not (_is_text(kind) or _is_bytes(kind) or kind.num_fields):
        return 0
    if {str, bytes, type(None)}.issuperset(map(type, values)):
        return sum(map(len, filter(None, values)))
    return sum(map(_length, values))


def _length(value: Any) -> int:
    """Return how many characters or bytes there are in a value; a few fewer where it is odd."""
    # Or of a class of the user's own, or one that holds itself.
    return attempted(0, _counted, value)


def _counted(value: Any) -> int:
    if isinstance(value, str):
        return str.__len__(value)
    if isinstance(value, (bytes, bytearray, memoryview, np.ndarray)):
        return len(value) if isinstance(value, (bytes, bytearray)) else value.nbytes
    if isinstance(value, Mapping):
        return sum(_counted(item) for pair in value.items() for item in pair)
    return sum(map(_counted, value)) if isinstance(value, (list, tuple)) else 0


def _bytes(column: pa.Array) -> int:
    """Return at least how many bytes a column has when each row has a value of its own."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        values = column.dictionary
    elif pa.types.is_run_end_encoded(kind):
        values = column.values
    else:
        return int(column.nbytes)
    return len(column) * int(max(_lengths(values), default=0))


def _lengths(column: pa.Array) -> np.ndarray:
    """Return about how many bytes each value has: of what it holds, whatever its neighbours are."""
    kind = column.type
    if kind in _VIEWS:
        return _lengths(column.cast(_VIEWS[kind]))
    if isinstance(column, pa.ExtensionArray):
        return _lengths(column.storage)
    if pa.types.is_dictionary(kind):
        indices = column.indices.fill_null(-1).to_numpy()
        return np.append(_lengths(column.dictionary), 0)[indices]  # type: ignore[no-any-return]
    if pa.types.is_run_end_encoded(kind):
        return _lengths(pc.run_end_decode(column))
    if _is_text(kind) or _is_bytes(kind):
        return pc.binary_length(column).fill_null(0).to_numpy().astype(np.int64)  # type: ignore[no-any-return]
    if pa.types.is_struct(kind):
        return sum(map(_lengths, column.flatten()), np.zeros(len(column), np.int64))
    if pa.types.is_map(kind):
        entries = pa.struct([kind.key_field, kind.item_field])
        return _lengths(column.cast(pa.list_(pa.field("entries", entries, nullable=False))))
    if kind.num_fields:
        counts = pc.list_value_length(column).fill_null(0).to_numpy().astype(np.int64)
        until, ends = np.append(0, np.cumsum(_lengths(column.flatten()))), np.cumsum(counts)
        return 4 + until[ends] - until[ends - counts]  # type: ignore[no-any-return]
    return np.full(len(column), 0 if pa.types.is_null(kind) else (kind.bit_width + 7) // 8, np.int64)


def _singly(column: pa.Array) -> Iterator[pa.Array]:
    return (column.slice(i, 1) for i in range(len(column)))


def _shortened(column: pa.Array) -> pa.Array:
    """Return a column with NULL in the place of values that are too long."""
    # A truth value counts as a byte, and takes a bit.
    if not (_is_text(column.type) or _is_bytes(column.type) or column.type.num_fields) or (
        8 * column.nbytes <= VALUE_BYTES
    ):
        return column
    long = _lengths(column) > VALUE_BYTES
    if not long.any():
        return column
    none = pa.nulls(1, column.type)
    return _one_by_one(
        (none if is_long else v for is_long, v in zip(long, _singly(column), strict=True)), column.type
    )


def _one_by_one(columns: Iterable[pa.Array], kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays([pa.nulls(0, kind), *columns])


def named_column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    """Return a column by name; None where there is no such, or there are two."""
    if batch.schema.get_field_index(name) < 0:
        return None
    column = batch.column(name)
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, _without_views(column.dictionary))
    return _without_views(column)


def _without_views(column: pa.Array) -> pa.Array:
    # A slice of a view has all bytes of the whole, and Arrow takes no values of it.
    return column.cast(_VIEWS[column.type]) if column.type in _VIEWS else column


def arrow_column(given: pa.Array | None, kind: pa.DataType, rows: int) -> pa.Array:
    """Return a column of a batch in the declared type; NULL where there is none."""
    if given is None:
        return pa.nulls(rows, kind)
    found = attempted(None, _cast, given, kind)
    if found is not None:
        return found
    # One does not fit, or is text that is none.
    none = pa.nulls(1, kind)
    return _one_by_one((attempted(none, _cast, value, kind) for value in _singly(given)), kind)


def _cast(given: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column in the declared type; of another kind, as values of rows are: a text is no number."""
    if pa.types.is_dictionary(given.type) and given.type != kind:
        given = given.dictionary_decode()
    if isinstance(given.type, pa.Bool8Type):
        given = given.cast(pa.bool_())
    elif isinstance(given.type, pa.BaseExtensionType) and not isinstance(given.type, _READ):
        given = given.storage
    if given.type == kind:
        column = given
    elif any(alike(given.type) and alike(kind) for alike in _ALIKE):
        # Copied first: a slice that begins beyond 2 GiB does not fit a text's offsets, however short it is.
        long = pa.types.is_large_string(given.type)
        column = (given.take(pa.array(range(len(given)), pa.int64())) if long else given).cast(kind)
    else:
        column = plain.column(given.to_pylist(), kind)
    if _is_text(column.type):
        column.validate(full=True)  # bytes that are no text
    return column


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


_VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
# Extension types whose values are read as they are.
_READ = pa.UuidType, pa.JsonType
_ALIKE: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_timestamp,
    _is_text,
)
