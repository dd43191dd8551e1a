"""Elements of a collection to Arrow batches of declared columns.

No element raises: what does not fit its column's declared type is NULL, whatever the other elements hold.
Neither does a batch: one whose texts are more than an Arrow column can hold becomes several.

Arrow guesses types, calls methods of classes that it does not know, and ends the whole process on some values
(a numpy time beside a numpy number, a map without a key). So it is given values of Python's own types alone,
and each by a rule that looks at no other value: what one row has must not depend on its neighbours.
"""

from __future__ import annotations

import base64
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.internal import pickler

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.sanitized_columns import VIEWS, parts, replace_views, with_parts
from sfumato.engines.worker_secret import CallableSecret, Secret, seal_secret
from sfumato.errors import EngineError, QueryError
from sfumato.query import sizes

T = TypeVar("T")


def detach_secret(secret: Secret | None) -> Secret | None:
    """Return a sealed secret, and refuse a function that carries it into a Beam pipeline.

    Raises:
        QueryError: also where `seal_secret` does.
    """
    found = seal_secret(secret)
    if isinstance(found, CallableSecret):
        staged = attempted(None, lambda: pickler.dumps(found.function, use_zlib=True))
        if staged is None:
            raise QueryError(
                f"{found.place}: the function cannot be sent to workers. Pass one from a module "
                "that the workers have"
            )
        if found._is_in(zlib.decompress(base64.b64decode(staged))):
            raise QueryError(
                f"{found.place}: the function holds the secret, which would be staged with it. Read "
                "the secret inside the function, from a place that workers can read"
            )
    return found


def attempted(otherwise: T, function: Callable[..., T], *arguments: Any) -> T:
    """Return a function's result on a Beam row, or a default where it fails."""
    try:
        return function(*arguments)
    except KeyboardInterrupt:  # of whoever sits before it
        raise
    except BaseException:  # parsers leave by sys.exit, Rust by a panic
        return otherwise


def column_of_values(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values of Beam rows in a column of a type; NULL where one does not fit it.

    >>> column_of_values([1, 2.0, 2.5, "3", None], pa.int64()).to_pylist()
    [1, 2, None, None, None]
    """
    exact = _EXACT.get(kind.id)
    if exact is None or not exact.issuperset(map(type, values)):
        values = [plain(value, kind) for value in values]
    found = attempted(None, pa.array, values, kind)
    return (
        found if found is not None else pa.concat_arrays([pa.nulls(0, kind), *_value_columns(values, kind)])
    )


def plain(value: Any, kind: pa.DataType) -> Any:
    """Return a Beam row's value as Arrow takes it for a type; None if it does not fit."""
    return attempted(None, _plain, value, kind)


def _value_columns(values: Sequence[Any], kind: pa.DataType) -> list[pa.Array]:
    return [attempted(pa.nulls(1, kind), pa.array, [value], kind) for value in values]


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Return None for None, or raise where a Beam row's value is not of that type."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    elif isinstance(value, np.generic):
        value = _from_numpy(value)
    if value is None:
        return None
    if isinstance(kind, pa.BaseExtensionType):
        # Of those that are read these two are left: UUIDs, and JSON, which is text.
        return _uuid_bytes(value) if isinstance(kind, pa.UuidType) else _text(value)
    return next(made for is_one, made in _MADE if is_one(kind))(value, kind)


def _from_numpy(value: np.generic) -> Any:
    """Return a Beam row's NumPy value in Python; times in microseconds."""
    if isinstance(value, np.character):
        return value  # a text of Python's too, of which `item` cuts zeros off
    # `item` gives numbers for what is finer.
    if isinstance(value, np.datetime64):
        return value.astype("datetime64[us]").item()
    if isinstance(value, np.timedelta64):
        return value.astype("timedelta64[us]").item()
    return value.item()


def _whole(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return int.__int__(value)
    if not isinstance(value, (float, Decimal, Fraction)) or value != int(value):
        raise ValueError
    return int(value)


def _real(value: Any) -> float:
    if isinstance(value, float):
        return float.__float__(value)
    if not isinstance(value, (int, Decimal, Fraction)) or isinstance(value, bool):
        raise TypeError
    return float(value)


def _exactly(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


def _decimal(value: Any) -> Decimal | int:
    return Decimal(value) if isinstance(value, Decimal) else _whole(_exactly(value, int))


def _text(value: Any) -> str:
    return str.__str__(value) if isinstance(value, str) else _exact_bytes(value).decode()


def _value_bytes(value: Any) -> bytes:
    return str.encode(value) if isinstance(value, str) else _exact_bytes(value)


def _exact_bytes(value: Any) -> bytes:
    """Return bytes of a Beam row in Python's own class.

    Raises:
        TypeError: it has none, or, as an array of numbers, such as are not determined.
    """
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError
    return memoryview(value).tobytes()


def _uuid_bytes(value: Any) -> bytes:
    return uuid.UUID(int=value.int).bytes if isinstance(value, uuid.UUID) else _exact_bytes(value)


def _timedelta(value: Any) -> timedelta:
    if not isinstance(value, timedelta):
        raise TypeError
    return timedelta(days=value.days, seconds=value.seconds, microseconds=value.microseconds)


def _datetime(value: Any) -> datetime | date | int:
    if type(value) in (datetime, date, int):
        return value  # type: ignore[no-any-return]
    return _exact_datetime(value) if isinstance(value, datetime) else _exact_date(value)


def _date(value: Any) -> date | int:
    return value if type(value) in (date, int) else _exact_date(value)


def _exact_datetime(value: datetime) -> datetime:
    """Return a datetime of a Beam row in Python's own class, in microseconds.

    Raises:
        ValueError: it is no time: NaT of pandas passes for one.
    """
    if value != value:  # noqa: PLR0124 - as NaT is of no other test
        raise ValueError
    return datetime.fromisoformat(datetime.isoformat(value))


def _exact_date(value: date) -> date:
    """Return a date of a Beam row in Python's own class.

    Raises:
        ValueError: it is no date: NaT of pandas passes for one.
    """
    if value != value:  # noqa: PLR0124 - as above
        raise ValueError
    return date.fromordinal(date.toordinal(value))


def _items(value: Any) -> list[Any]:
    """Return the items of a list, tuple or array in a Beam row."""
    if isinstance(value, np.ndarray):
        return [value[i] for i in range(len(value))]
    return [*(list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value))]


def _list(value: Any, kind: pa.DataType) -> list[Any]:
    return [_plain(item, kind.value_type) for item in _items(value)]


def _struct(value: Any, kind: pa.DataType) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError
    return {field.name: _plain(value.get(field.name), field.type) for field in kind}


def _map(value: Any, kind: pa.DataType) -> list[tuple[Any, Any]]:
    pairs = [*value.items()] if isinstance(value, Mapping) else _items(value)
    made = [(_plain(key, kind.key_type), _plain(item, kind.item_type)) for key, item in pairs]
    if any(key is None for key, _ in made):
        raise ValueError
    return made


def _none(value: Any, kind: pa.DataType) -> None:
    raise TypeError


def _is_list(kind: pa.DataType) -> bool:
    return bool(kind.num_fields) and hasattr(kind, "value_type") and not pa.types.is_map(kind)


_MADE: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType], Any]], ...] = (
    (pa.types.is_integer, lambda value, kind: _whole(value)),
    (pa.types.is_floating, lambda value, kind: _real(value)),
    (pa.types.is_string, lambda value, kind: _text(value)),
    (pa.types.is_large_string, lambda value, kind: _text(value)),
    (pa.types.is_boolean, lambda value, kind: _exactly(value, bool)),
    (pa.types.is_timestamp, lambda value, kind: _datetime(value)),
    (pa.types.is_date, lambda value, kind: _date(value)),
    (pa.types.is_decimal, lambda value, kind: _decimal(value)),
    (pa.types.is_binary, lambda value, kind: _value_bytes(value)),
    (pa.types.is_large_binary, lambda value, kind: _value_bytes(value)),
    (pa.types.is_fixed_size_binary, lambda value, kind: _value_bytes(value)),
    (pa.types.is_time, lambda value, kind: _exactly(value, time)),
    (pa.types.is_duration, lambda value, kind: _timedelta(value)),
    (pa.types.is_interval, lambda value, kind: _exactly(value, pa.MonthDayNano)),
    (pa.types.is_dictionary, lambda value, kind: _plain(value, kind.value_type)),
    (pa.types.is_map, _map),
    (pa.types.is_struct, _struct),
    (_is_list, _list),
    (lambda kind: True, _none),
)

_none_type = type(None)
_WHOLE = np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64
# What most rows hold, and Arrow takes as it is.
_EXACT: dict[int, frozenset[type]] = {
    kind.id: frozenset({_none_type, exact, *of_numpy_too})
    for exact, of_numpy_too, kinds in (
        (int, _WHOLE, [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]),
        (float, (np.float32, np.float64), [pa.float32(), pa.float64()]),
        (bool, (), [pa.bool_()]),
        (str, (), [pa.string(), pa.large_string()]),
        (bytes, (), [pa.binary(), pa.large_binary()]),
        (date, (), [pa.date32()]),
        (datetime, (), [pa.timestamp("us")]),
        (Decimal, (), [pa.decimal128(1), pa.decimal256(1)]),
    )
    for kind in kinds
}


# Of a value: what is longer is NULL, as one such row could exhaust a worker's memory.
VALUE_BYTES = 1 << 24
_NOTHING = object()


def make_schema(rows: pa.Schema) -> pa.Schema:
    """Return the Arrow types in which Beam rows are read.

    Raises:
        EngineError: a column is of an extension type that has no plain values.
    """
    return pa.schema([field.with_type(_plain_type(field)) for field in rows])


@dataclass(frozen=True)
class Columns:
    """Puts Beam rows into the columns that were declared for them.

    Args:
        schema: names and Arrow types. A row that lacks a value where `nullable` is False is dropped.
    """

    schema: pa.Schema

    def values(self, rows: Sequence[Any]) -> list[list[Any]]:
        """Return the values of dictionaries, named tuples or Beam rows in each column."""
        reader = _reader(rows)
        return [_values(rows, field.name, reader) for field in self.schema]

    def max_text_bytes(self, values: Sequence[Sequence[Any]]) -> int:
        """Return an upper bound of the bytes of text in a column of Beam rows."""
        return 4 * max(_total(v, f.type) for v, f in zip(values, self.schema, strict=True))

    def batch_values(self, values: Sequence[Sequence[Any]]) -> Iterator[pa.RecordBatch]:
        """Yield columns of Beam rows' values in batches."""
        if len(values[0]) > 1 and self.max_text_bytes(values) > sizes.COLUMN_BYTES:
            half = len(values[0]) // 2
            yield from self.batch_values([column[:half] for column in values])
            yield from self.batch_values([column[half:] for column in values])
        else:
            yield self._batch([column_of_values(v, f.type) for v, f in zip(values, self.schema, strict=True)])

    def batch_rows(self, rows: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        """Yield Beam rows in Arrow batches."""
        yield from self.batch_values(self.values(rows))

    def select_columns(self, arriving: pa.RecordBatch | pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the declared columns of an Arrow batch among Beam rows."""
        batches = arriving.to_batches() if isinstance(arriving, pa.Table) else [arriving]
        for batch in batches:
            yield from self._convert_batch(batch)

    def _convert_batch(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        given = [get_column(batch, field.name) for field in self.schema]
        if len(batch) > 1 and any(
            column is not None and _bytes(column) > sizes.COLUMN_BYTES for column in given
        ):
            half = len(batch) // 2
            yield from self._convert_batch(batch.slice(0, half))
            yield from self._convert_batch(batch.slice(half))
        else:
            fields = zip(given, self.schema, strict=True)
            yield self._batch([arrow_column(column, f.type, len(batch)) for column, f in fields])

    def _batch(self, columns: list[pa.Array]) -> pa.RecordBatch:
        columns = [_drop_long_values(column) for column in columns]
        batch = pa.RecordBatch.from_arrays(columns, names=self.schema.names)
        required = [
            c.is_valid() for c, f in zip(columns, self.schema, strict=True) if not f.nullable and c.null_count
        ]
        kept = batch.filter(reduce(pc.and_, required)) if required else batch
        return pa.RecordBatch.from_arrays(kept.columns, schema=self.schema)


def _reader(rows: Sequence[Any]) -> Callable[[str], Callable[[Any], Any]] | None:
    """Return a function that reads a name from each Beam row, where all are of one kind."""
    kinds = set(map(type, rows))
    return itemgetter if kinds == {dict} else attrgetter if all(map(_has_fields, kinds)) else None


def _values(
    rows: Sequence[Any], name: str, reader: Callable[[str], Callable[[Any], Any]] | None
) -> list[Any]:
    """Return each Beam row's value under a name, or None, whatever the other rows are."""
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
    if field.type in VIEWS:
        return VIEWS[field.type]
    if _is_extension_type(field):
        stored = field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else "a plain type"
        raise EngineError(
            f"scan: the column {field.name!r} is {field.type}, an extension type with unknown "
            f"values. Declare it as {stored}, which also reads extended batches"
        )
    try:
        pa.array([], field.type)
        return _type_without_views(field.type)
    except pa.ArrowNotImplementedError:
        raise EngineError(
            f"scan: the column {field.name!r} is {field.type}, which cannot be read. Drop it, or "
            "cast it to another type, such as double or string"
        ) from None


def _type_without_views(kind: pa.DataType) -> pa.DataType:
    """Return an Arrow type without views, of which Arrow takes no Beam rows."""
    if not kind.num_fields:
        return VIEWS.get(kind, kind)
    return with_parts(kind, [field.with_type(_type_without_views(field.type)) for field in parts(kind)])


def _is_extension_type(field: pa.Field) -> bool:
    """Whether a column of Beam rows is of an extension type, by its class or by its name."""
    kind = field.type
    named = b"ARROW:extension:name" in (field.metadata or {})
    inner = (kind.field(i) for i in range(kind.num_fields))
    return named or isinstance(kind, pa.BaseExtensionType) or any(map(_is_extension_type, inner))


def _total(values: Sequence[Any], kind: pa.DataType) -> int:
    """Return the number of characters or bytes in unbounded values of Beam rows."""
    if not (_is_text(kind) or _is_bytes(kind) or kind.num_fields):
        return 0
    if {str, bytes, type(None)}.issuperset(map(type, values)):
        return sum(map(len, filter(None, values)))
    return sum(map(_length, values))


def _length(value: Any) -> int:
    """Return the number of characters or bytes of a Beam row's value."""
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
    """Return a lower bound of a column's bytes when each Beam row has its own value."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        values = column.dictionary
    elif pa.types.is_run_end_encoded(kind):
        values = column.values
    else:
        return int(column.nbytes)
    return len(column) * int(max(_lengths(values), default=0))


def _lengths(column: pa.Array) -> np.ndarray:
    """Return about how many bytes each value of a Beam column has."""
    kind = column.type
    if kind in VIEWS:
        return _lengths(replace_views(column))
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


def _drop_long_values(column: pa.Array) -> pa.Array:
    """Return a Beam column with NULL for values that are too long."""
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


def get_column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    """Return a Beam batch's column by name; None where there is no such, or there are two."""
    if batch.schema.get_field_index(name) < 0:
        return None
    column = batch.column(name)
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, replace_views(column.dictionary))
    return replace_views(column)


def arrow_column(array: pa.Array | None, kind: pa.DataType, rows: int) -> pa.Array:
    """Return a Beam batch's column in the declared type; NULL where there is none."""
    if array is None:
        return pa.nulls(rows, kind)
    found = attempted(None, _cast, array, kind)
    if found is not None:
        return found
    # One does not fit, or is text that is none.
    none = pa.nulls(1, kind)
    return _one_by_one((attempted(none, _cast, value, kind) for value in _singly(array)), kind)


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a Beam batch's column cast to the declared type; a text is no number."""
    if pa.types.is_dictionary(array.type) and array.type != kind:
        array = array.dictionary_decode()
    if isinstance(array.type, pa.Bool8Type):
        array = array.cast(pa.bool_())
    elif isinstance(array.type, pa.BaseExtensionType) and not isinstance(array.type, _READ):
        array = array.storage
    if array.type == kind:
        column = array
    elif any(alike(array.type) and alike(kind) for alike in _ALIKE):
        # Copied first: a slice that begins beyond 2 GiB does not fit a text's offsets, however short it is.
        long = pa.types.is_large_string(array.type)
        column = (array.take(pa.array(range(len(array)), pa.int64())) if long else array).cast(kind)
    else:
        column = column_of_values(array.to_pylist(), kind)
    if _is_text(column.type):
        column.validate(full=True)  # bytes that are no text
    return column


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


# Extension types whose values are read as they are.
_READ = pa.UuidType, pa.JsonType
_ALIKE: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_timestamp,
    _is_text,
)
