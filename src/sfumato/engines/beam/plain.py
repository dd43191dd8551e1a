"""Python values in the exact types that Arrow is known to take.

Arrow guesses types, calls methods of classes that it does not know, and ends the whole process on some values
(a numpy time beside a numpy number, a map without a key). So it is given values of Python's own types alone,
and each by a rule that looks at no other value: what one row has must not depend on its neighbours.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.engines.beam.callables import attempted


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values in a column of a type; NULL where one does not fit it.

    >>> column([1, 2.0, 2.5, "3", None], pa.int64()).to_pylist()
    [1, 2, None, None, None]
    """
    exact = _EXACT.get(kind.id)
    if exact is None or not exact.issuperset(map(type, values)):
        values = [plain(value, kind) for value in values]
    found = attempted(None, pa.array, values, kind)
    return found if found is not None else pa.concat_arrays([pa.nulls(0, kind), *_singly(values, kind)])


def plain(value: Any, kind: pa.DataType) -> Any:
    """Return a value as Arrow takes it for a type; None if it is none of that type."""
    return attempted(None, _plain, value, kind)


def _singly(values: Sequence[Any], kind: pa.DataType) -> list[pa.Array]:
    return [attempted(pa.nulls(1, kind), pa.array, [value], kind) for value in values]


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Return None for None, or raise where a value, or one in it, is none of that type."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    elif isinstance(value, np.generic):
        value = _of_numpy(value)
    if value is None:
        return None
    if isinstance(kind, pa.BaseExtensionType):
        # Of those that are read these two are left: UUIDs, and JSON, which is text.
        return _uuid_bytes(value) if isinstance(kind, pa.UuidType) else _text(value)
    return next(made for is_one, made in _MADE if is_one(kind))(value, kind)


def _of_numpy(value: np.generic) -> Any:
    """Return what a number, a text or a time of numpy is in Python; times in microseconds."""
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


def _bytes(value: Any) -> bytes:
    return str.encode(value) if isinstance(value, str) else _exact_bytes(value)


def _exact_bytes(value: Any) -> bytes:
    """Return bytes of Python's own class.

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
    """Return a datetime of Python's own class, in microseconds.

    Raises:
        ValueError: it is no time: NaT of pandas passes for one.
    """
    if value != value:  # noqa: PLR0124 - as NaT is of no other test
        raise ValueError
    return datetime.fromisoformat(datetime.isoformat(value))


def _exact_date(value: date) -> date:
    """Return a date of Python's own class.

    Raises:
        ValueError: it is no date: NaT of pandas passes for one.
    """
    if value != value:  # noqa: PLR0124 - as above
        raise ValueError
    return date.fromordinal(date.toordinal(value))


def _items(value: Any) -> list[Any]:
    """Return what a list, a tuple or an array of one dimension holds, whatever its class says of itself."""
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
    (pa.types.is_binary, lambda value, kind: _bytes(value)),
    (pa.types.is_large_binary, lambda value, kind: _bytes(value)),
    (pa.types.is_fixed_size_binary, lambda value, kind: _bytes(value)),
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
