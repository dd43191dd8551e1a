"""Record keys: when two records, units or group keys are the same, and a total order of them.

Python's `==` does for neither: NaN differs from itself, 1 equals True, and 0.0 equals -0.0. Nor do `hash`,
which has ties, and `repr`, which raises for integers of more than 4,300 digits.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b
from numbers import Integral, Rational, Real
from typing import Any

_PLAIN = {int, str, bytes, bool, Fraction, type(None)}  # asking what else a record may be is slow
_LONGEST = 5000  # decimals with exponents beyond this stay decimals: as a whole number they fill the memory


def record_key(record: Any) -> Any:
    """Return a record's hashable key, equal for equal records: -0.0 is not 0.0, NaN is NaN.

    >>> record_key(1) == record_key(True), record_key(float("nan")) == record_key(float("nan"))
    (False, True)
    """
    kind = type(record)
    if kind in _PLAIN:
        return kind.__name__, record
    if isinstance(record, float):
        return "float", "nan" if math.isnan(record) else struct.pack("d", record)
    if kind is dict or (kind is not tuple and isinstance(record, Mapping)):
        return "record", tuple(sorted((name, record_key(v)) for name, v in record.items()))
    if isinstance(record, (list, tuple)):
        return "tuple", tuple(map(record_key, record))
    if _is_nan(record):
        return type(record).__name__, "nan"
    return type(record).__name__, record


def records(values: Iterable[Any]) -> Counter[Any]:
    """Return a multiset of records by their keys."""
    return Counter(map(record_key, values))


def group_key(key: Hashable) -> Hashable:
    """Return the one of all equal keys that names their group, whichever of them the rows hold.

    Groups are the keys of a dict, which holds 1, True and 1.0 as one, under the name that came first. So that
    the name does not tell which came first, it is a function of the value: a whole number where the value is
    one, else a float where it is one, else a fraction; one NaN for all.

    >>> group_key(True), group_key((-0.0, 1.5)), group_key(float("nan")) is group_key(float("nan"))
    (1, (0, 1.5), True)
    """
    if type(key) is int:
        return key
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, bytes):
        return bytes(key)
    if isinstance(key, tuple):
        return tuple(map(group_key, key))
    if isinstance(key, frozenset):
        return frozenset(map(group_key, key))
    if isinstance(key, datetime) and key.utcoffset() is not None:
        return _in_utc(key)
    if isinstance(key, (Real, Decimal)):
        return _number(key)
    return key


def ordered_bytes(record: Any) -> bytes:
    """Return a record key's bytes: equal for equal records only, sorted as numbers and texts are.

    >>> sorted([10, "b", 2.5, None, "a", -3], key=ordered_bytes)
    [None, -3, 2.5, 10, 'a', 'b']
    """
    if record is None:
        return b"0"
    if type(record) is int:
        return b"1" + _ordered_rational(record, 1) + b"+" + _INT
    if isinstance(record, (Real, Decimal)):
        return b"1" + _ordered_number(record) + _name(record)
    if isinstance(record, str):
        return b"2" + _part(str.__str__(record).encode("utf-8", "surrogatepass")) + _name(record)
    if isinstance(record, bytes):
        return b"3" + _part(bytes(record)) + _name(record)
    if isinstance(record, (list, tuple)):
        return b"4" + b"".join(_part(ordered_bytes(entry)) for entry in record)
    if isinstance(record, Mapping):
        entries = sorted((ordered_bytes(name), ordered_bytes(v)) for name, v in record.items())
        return b"5" + b"".join(_part(name) + _part(v) for name, v in entries)
    if isinstance(record, AbstractSet):
        return b"6" + b"".join(map(_part, sorted(map(ordered_bytes, record)))) + _name(record)
    if isinstance(record, datetime) and record.utcoffset() is not None:
        record = _in_utc(record)
    return b"7" + _name(record) + _text(record)


def digest(record: Any) -> bytes:
    """Return 32 bytes that look random and are equal for equal record keys only.

    >>> digest((-1, "a")) == digest((-2, "a")), hash((-1, "a")) == hash((-2, "a"))
    (False, True)
    """
    return blake2b(ordered_bytes(record), digest_size=32).digest()


def _number(key: Any) -> Hashable:
    if _is_nan(key):
        return math.nan
    if isinstance(key, Decimal) and (not key.is_finite() or abs(key.adjusted()) > _LONGEST):
        return float(key) if key == float(key) else key
    if isinstance(key, Real) and not isinstance(key, Rational) and math.isinf(key):
        return float(key)
    exact = _exact(key)
    if exact.denominator == 1:
        return exact.numerator
    nearest = _nearest(*exact.as_integer_ratio())
    return nearest if nearest == exact else exact


def _ordered_number(number: Any) -> bytes:
    if _is_nan(number):
        return b"\xff"
    if isinstance(number, Decimal) and number.is_finite() and abs(number.adjusted()) > _LONGEST:
        return _ordered_float(float(number)) + _text(number.normalize())
    if not isinstance(number, Rational) and math.isinf(number):
        return _ordered_float(float(number))
    exact = _exact(number)
    sign = b"-" if exact == 0 and isinstance(number, float) and math.copysign(1, number) < 0 else b"+"
    return _ordered_rational(exact.numerator, exact.denominator) + sign


def _ordered_rational(numerator: int, denominator: int) -> bytes:
    parts = _ordered_int(numerator) + _ordered_int(denominator)
    return _ordered_float(_nearest(numerator, denominator)) + parts


def _exact(number: Any) -> Fraction:
    if isinstance(number, Integral):
        return Fraction(int(number))
    if isinstance(number, (Rational, Decimal, float)):
        return Fraction(number)
    return Fraction(float(number))  # NumPy's narrower floats


def _nearest(numerator: int, denominator: int) -> float:
    try:
        return numerator / denominator
    except OverflowError:
        return math.nextafter(math.inf, 0) * (1 if numerator > 0 else -1)


def _ordered_float(number: float) -> bytes:
    word = int.from_bytes(struct.pack(">d", number + 0.0), "big")
    return (word ^ ((1 << 64) - 1) if word >> 63 else word | 1 << 63).to_bytes(8, "big")


def _ordered_int(number: int) -> bytes:
    size = number.bit_length() // 8 + 1
    body = size.to_bytes(8, "big") + abs(number).to_bytes(size, "big")
    return b"\x01" + body if number >= 0 else b"\x00" + bytes(255 - byte for byte in body)


def _part(entry: bytes) -> bytes:
    """End an entry of a record key, so that no entry begins another and entries sort one after the other."""
    return entry.replace(b"\0", b"\0\xff") + b"\0\0"


def _name(record: Any) -> bytes:
    return _part(type(record).__name__.encode("utf-8", "surrogatepass"))


_INT = _name(0)


def _text(record: Any) -> bytes:
    try:
        return repr(record).encode("utf-8", "surrogatepass")
    except Exception:  # a repr of somebody's own, or of a very long integer within
        return b"%d" % hash(record)


def _is_nan(record: Any) -> bool:
    if isinstance(record, Decimal):
        return record.is_nan()
    return isinstance(record, Real) and bool(record != record)  # noqa: PLR0124 - also of NumPy's kinds


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return moment
