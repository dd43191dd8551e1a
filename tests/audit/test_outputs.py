"""Outputs of any kind become columns, and nothing that can be told apart is lost on the way."""

import dataclasses
import enum
import functools
import math
import re
import struct
import weakref
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from fractions import Fraction

import gmpy2
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.audit import Raised, audit
from sfumato.audit.output_columns import ZERO_BITS, Reader
from sfumato.audit.output_leaves import iter_leaves


def in_itself(*beside):
    found = [*beside]
    found.append(found)
    return found


def in_its_array():
    found = np.array([0.5, None])
    found[1] = found
    return found


def deep(levels):
    found = 0.5
    for _ in range(levels):
        found = [found]
    return found


@pytest.mark.parametrize(
    ("output", "columns"),
    [
        (in_itself(0.5), {"len(value)": "2", "[0]": "0.5", "[1]": "Ellipsis"}),
        ({"n": 3, "all": in_itself()}, {".n": "3", "len(.all)": "1", ".all[0]": "Ellipsis"}),
        (in_its_array(), {"len(value)": "2", "[0]": "0.5", "[1]": "Ellipsis"}),
        (deep(100_000), {"len(value)": "1", "[0]" * 50: "a list"}),
    ],
)
def test_an_output_that_contains_itself_or_lies_deep_is_an_output(output, columns):
    reader = Reader()
    draws = reader.read([output])
    read = {path: reader.describe_value(draws, c) for c, path in enumerate(reader.paths)}
    assert read.items() >= columns.items()


def test_rows_of_a_table_are_known_by_their_texts():
    one = dict(iter_leaves({"group": ["x", "y"], "n": [1, 2]}))
    other = dict(iter_leaves({"group": ["y"], "n": [3]}))
    assert one["['y'].n"] == 2 and other["['y'].n"] == 3


def test_a_draw_is_read_alike_beside_whatever_other_draws():
    reader = Reader()
    draws = [[0.5, 2.0], [math.nan, -0.0]]
    alone, beside = reader.read(draws), reader.read([*draws, [None, 1.0], [0.5], 3, {"a": 1.0}])
    alone = alone.wide(len(reader.paths))
    for name in ("numbers", "tokens", "low"):
        np.testing.assert_array_equal(getattr(alone, name), getattr(beside, name)[:2])


@dataclasses.dataclass(eq=False)
class Answer:
    count: float
    unit: object = None


class Noted(float):
    """A number with something beside it."""

    def __new__(cls, value, note):
        return super().__new__(cls, value)

    def __init__(self, value, note):
        self.note = note


class Rows(list):
    def __init__(self, values, note):
        super().__init__(values)
        self.note = note


class Pointing:
    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return f"<Pointing {id(self)}>"


TELLING = [
    (1.0, 2.0), (0.0, -0.0), (1, 1.0), (True, 1), (None, 0.0), (math.nan, None), (math.inf, -math.inf), ("a", "b"), ("1", 1),
    ((1, 2), (1, 3)), ([1], [1, 1]), ({"a": 1}, {"b": 1}), ({"a": None}, {}), (Raised("ValueError"), Raised("TypeError")),
    (Raised("ValueError", "x"), Raised("ValueError", "y")), ({"g": ["a"], "n": [1]}, {"g": ["b"], "n": [1]}), (b"a", "a"),
    (2**100, 2**100 + 2**60), ("", None), ([[0.5]], [[0.25]]), ([True, None], [None, True]),
    (2**100 + 1, 2**100 + 3), (Decimal("0.1"), Decimal("0.10")), (Fraction(1, 3), 1 / 3), ("a" * 300 + "b", "a" * 300 + "c"), (1j, complex(0, 1.5)), (print, len),
    ({"a"}, {"b"}), (np.longdouble(1), np.longdouble(1) + np.finfo(np.longdouble).eps), (Answer(1), Pointing(1)), (datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC)),
    (enum.Enum("Made", {"ONE": 1}).ONE, enum.Enum("Made", {"ONE": 2}).ONE), (OSError(2, "no", "a"), OSError(2, "no", "b")), (Noted(1.0, 5), Noted(1.0, 6)), ("0x3039", "0x303a"),
    (Rows([1], 5), Rows([1], 6)), ({1: 5, "1": 0}, {1: 6, "1": 0}), ({"a": {"b": 5}, "a.b": 0}, {"a": {"b": 6}, "a.b": 0}), ({Answer(1): 5, Answer(2): 0}, {Answer(1): 6, Answer(2): 0}), ({"a": []}, {"b": []}), ([None, 0.0], [None, -0.0]),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), TELLING)
def test_different_outputs_stay_different(one, other):
    reader = Reader()
    draws = reader.read([one, other, one])
    columns = len(reader.paths)
    draws = draws.wide(columns)
    assert draws.whole[0] == draws.whole[2] != draws.whole[1]


# Each prints with an address, or in an order that an address or a hash decides.
PLACED = {
    "attributes": lambda: Pointing(Pointing([object()])),
    "function": lambda: lambda: 0,
    "exception": lambda: ValueError(object()),
    "key": lambda: {object(): 1.0, (1, object()): 2.0},
    "set": lambda: {object(), object(), "a", frozenset([object(), 1.5])},
    "weak references": lambda: [weakref.ref(Answer), weakref.WeakSet(), weakref.WeakValueDictionary()],
    "partial": lambda: functools.partial(print, object()),
    "sets of sets": lambda: {frozenset({frozenset({object(), Answer}), object()}), frozenset({object})},
    "an exception from another": lambda: raised_from(KeyError(object()), OSError(2, "no", object())),
    "texts in a set": lambda: {str(object()), "b"},
    "a key that is a set": lambda: {frozenset([object, Answer, (1, object())]): 1.0},
    "a zone": lambda: datetime(2020, 1, 1, tzinfo=type("Zone", (tzinfo,), {"utcoffset": lambda *_: None})()),
}


def raised_from(error, cause):
    try:
        raise error from cause
    except type(error) as found:
        return found


@pytest.mark.parametrize("name", PLACED)
def test_what_is_read_does_not_tell_where_in_memory_an_output_lies(name):
    """All are kept alive: no two have the same address."""
    outputs = [PLACED[name]() for _ in range(60)]
    reader = Reader()
    draws = reader.read(outputs)
    assert len(np.unique(draws.whole)) == 1
    assert not any(re.search("0x[0-9a-f]", word) for word in [*reader.paths, *reader.vocabulary.words])


TYPED = {
    "Decimal": Decimal,
    "Fraction": Fraction,
    "complex": lambda v: complex(0.0, v),
    "datetime": lambda v: datetime(2020, 1, 1) + timedelta(seconds=v),
    "set": lambda v: {v, 1e9},
    "bytes": lambda v: struct.pack("<d", v),
    "dataclass": Answer,
    "object": Pointing,
    "exception": ValueError,
    "message": lambda v: Raised("ValueError", f"{v:.6f} is too much"),
    "text": lambda v: f'{{"count": {v:.6f}}}',
    "long double": np.longdouble,
    "gmpy2": gmpy2.mpq,
    "beside a number": lambda v: Noted(1.0, v),
    "array of objects": lambda v: np.array([None, Fraction(v)], object),
    "Arrow list": lambda v: pa.scalar([v, None]),
    "a key with a dot": lambda v: {"a": {"b": v}, "a.b": 0.5},
}


@pytest.mark.parametrize("name", TYPED)
def test_numbers_of_every_type_are_read_as_the_numbers_that_they_are(name):
    """So that noise too small by half in them is found; each value by itself was a text seen once."""
    reader = Reader()
    values = [1.0 + 40_000 * k / 64 for k in range(64)]
    draws = reader.read([TYPED[name](value) for value in values])
    ordered = [
        c for c in range(len(reader.paths))
        if np.isfinite(draws.numbers[:, c]).all() and (np.diff(draws.numbers[:, c]) > 0).all()
    ]  # fmt: skip
    assert ordered, reader.paths
    assert not reader.notes


@given(
    st.lists(
        st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**63 - 1),
        min_size=1,
        max_size=20,
    )
)
@settings(max_examples=20, deadline=None)
def test_lowest_set_bits(values):
    draws = Reader().read(values)
    for value, low in zip(values, draws.low[:, 0].tolist(), strict=True):
        numerator, denominator = value.as_integer_ratio()
        least = (numerator & -numerator).bit_length() - denominator.bit_length()
        assert low == (least if numerator else ZERO_BITS)
    for kind in (float, int):
        own = [v for v in values if isinstance(v, kind)]
        if own:
            one, other = (Reader().read(given).low[:, 0] for given in (np.array(own), own))
            np.testing.assert_array_equal(one, other)


class Opaque:
    @property
    def __class__(self):
        return Opaque

    def __len__(self):
        raise RuntimeError("no length")

    def __iter__(self):
        return iter(())

    def __contains__(self, value):
        return False


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ({"v": 1, "all": iter([1.0])}, "its values are not read: .all (a list_iterator)"),
        (Opaque(), "reading it raises: value (an Opaque)"),
        (deep(60), f"it is nested 50 levels deep: {'[0]' * 50} (a list)"),
        ("at 0x7f3a5c0d2e10", "it looks like a memory address: address in value (text)"),
    ],
)
def test_what_is_not_read_is_named_in_the_report(output, told):
    report = audit(lambda data: output, epsilon=1, pairs=[([1.0], [])], max_samples=100)
    assert any(f"not read, as {told}" in note for note in report.notes)
