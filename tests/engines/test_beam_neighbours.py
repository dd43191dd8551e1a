"""A row on Beam means what it means alone, whatever its class does, and whatever stands beside it."""

from __future__ import annotations

import math
import sqlite3
import uuid
from collections import defaultdict
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import apache_beam as beam
import numpy as np
import pandas
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.beam import beam_rows as rows_module
from sfumato.engines.beam.beam_rows import Columns, declared
from sfumato.errors import QueryError

pytestmark = pytest.mark.long


class Leaves:
    """Of which nothing can be asked."""

    def __getattr__(self, name):
        raise SystemExit(3)

    __float__ = __int__ = __index__ = __len__ = __iter__ = __getitem__ = __reduce__ = __getattr__


class Real(float):
    pass


class Text(str):
    __slots__ = ()


# Without a unit: NumPy 2.5 warns where one is made from text, and not of this.
NAT = np.int64(-(2**63)).view("M8")

VALUES = [
    None, True, 0, 1, -1, 2**53 + 1, 2**63, 10**400, 0.0, -0.0, 1.0, 1.5, 1e300, math.nan, math.inf, "a", "é",
    "\ud800", "1", b"a", b"\xff", bytearray(b"a"), np.int8(1), np.uint64(2**63 + 1), np.float32(0.1),
    np.float64(2), np.longdouble(1.5), np.bool_(True), np.str_("x"), np.datetime64("2020-01-01"),
    np.datetime64("2020-01-01", "ns"), NAT, np.datetime64("9999999-01-01"),
    np.timedelta64(1, "ns"), np.timedelta64(1, "s"), np.timedelta64(1, "M"), np.void(b"ab"),
    np.array([(1, 2.0)], dtype="i4,f8")[0], date(2020, 1, 1), datetime(2020, 1, 1),
    datetime(2020, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5))),
    time(1, 2), timedelta(1), pandas.Timestamp("2020-01-01 00:00:00.000000001"), pandas.NaT, pandas.NA,
    pandas.Timedelta(1, "s"), Decimal("1.5"), Decimal("NaN"), Decimal("1E+30"), Fraction(1, 2),
    uuid.UUID(int=5), [1], [None], ["a"], ["\ud800"], (1,), {"a": 1}, {}, [("k", 1)], {1}, np.array([1]),
    np.array([[1]]), Leaves(), [Leaves()], Real(1.5), Text("b"), pa.scalar(1), 1j, object(),
]  # fmt: skip
KINDS = [
    pa.int8(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.binary(),
    pa.binary(1), pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("ns"),
    pa.timestamp("us", "Asia/Tokyo"), pa.time64("us"), pa.duration("us"), pa.decimal128(5, 2),
    pa.decimal256(50, 2), pa.list_(pa.int64()), pa.list_(pa.string()), pa.list_(pa.int64(), 1),
    pa.struct([("a", pa.int64())]), pa.map_(pa.string(), pa.int64()), pa.uuid(), pa.json_(), pa.null(),
]  # fmt: skip


def told(cell: pa.Scalar) -> str:
    # Times that Python does not have have numbers all the same.
    return f"{cell.type} {cell.value if isinstance(cell, (pa.TimestampScalar, pa.Date64Scalar)) else cell}"


def shown(columns: Columns, values: list) -> list[str]:
    found = [c for b in columns.of_rows([{"x": v} for v in values]) for c in b.column(0)]
    return list(map(told, found))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_value_is_read_as_it_is_alone(kind):
    """Arrow ended the process on a numpy time beside a numpy number, and on a map of [None], before."""
    columns = Columns(declared(pa.schema([("x", kind)])))
    alone = [shown(columns, [value])[0] for value in VALUES]
    assert shown(columns, VALUES) == alone
    assert shown(columns, VALUES[::-1]) == alone[::-1]
    for place in range(0, len(VALUES), 9):
        for value, expected in zip(VALUES, alone, strict=True):
            assert shown(columns, [value, VALUES[place]]) == [expected, alone[place]]


def of_int(*rows) -> list:
    columns = Columns(declared(pa.schema([("x", pa.int64())])))
    return [v for b in columns.of_rows(rows) for v in b.column(0).to_pylist()]


def selected():
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    found = connection.execute("SELECT 7 AS x").fetchone()
    connection.close()
    return found


class Lazy:
    @property
    def __class__(self):
        raise RuntimeError


NEIGHBOURS = {
    "empty": dict, "none": lambda: None, "text": lambda: "text", "a row": lambda: beam.Row(x=2),
    "another row": lambda: beam.Row(y=2), "one that leaves": Leaves, "one without a class": Lazy,
    "a dictionary": lambda: {"x": 1}, "a tuple": lambda: (1,),
}  # fmt: skip


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_what_a_row_has_under_a_name_does_not_depend_on_its_neighbours(name):
    """A dictionary with defaults, and a row of a database, lost their values beside a row without."""
    neighbour = NEIGHBOURS[name]()
    for make in (
        lambda: defaultdict(lambda: 5),
        lambda: defaultdict(lambda: 5, x=3),
        selected,
        lambda: {"x": 4},
        lambda: beam.Row(x=6),
        lambda: np.array([(8,)], dtype=[("x", "i8")])[0],
        lambda: pandas.Series({"x": 9}),
    ):
        alone, other = of_int(make()), of_int(neighbour)
        assert of_int(make(), neighbour) == [*alone, *other]
        assert of_int(neighbour, make(), make()) == [*other, *alone, *alone]
    absent = defaultdict(lambda: 5)
    assert of_int(absent) == [None] and not absent


@pytest.mark.parametrize(
    ("kind", "of_size"),
    [
        (pa.list_(pa.int64()), lambda n: [1] * (n // 4)),
        (pa.list_(pa.bool_()), lambda n: [True] * n * 2),
        (pa.list_(pa.string()), lambda n: ["a" * n]),
        (pa.list_view(pa.string()), lambda n: ["a" * n]),
        (pa.large_list(pa.list_(pa.bool_(), 2)), lambda n: [[True, False]] * n),
        (pa.list_(pa.dictionary(pa.int8(), pa.string())), lambda n: ["a" * n]),
        (pa.struct([("a", pa.string()), ("b", pa.int64())]), lambda n: {"a": "a" * n, "b": 1}),
        (pa.map_(pa.string(), pa.int64()), lambda n: [("a" * n, 1)]),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else "",
)
def test_whether_a_value_is_too_long_does_not_depend_on_its_neighbours(kind, of_size, monkeypatch):
    """A list beside a NULL was one byte longer, before, and a list of truth values an eighth."""
    monkeypatch.setattr(rows_module, "VALUE_BYTES", 100)
    columns = Columns(declared(pa.schema([("x", kind)])))
    empty = [None] if not pa.types.is_list(kind) else [[None] * 3]
    alone_of = {size: shown(columns, [of_size(size)])[0] for size in range(1, 110)}
    long = {size: alone.endswith("None") for size, alone in alone_of.items()}
    assert {*long.values()} == {True, False}
    turns = [size for size in range(2, 110) if long[size] != long[size - 1]]
    # Near where it turns each size is tried, as neighbours add some bytes, and elsewhere one in ten.
    for size in sorted(
        {*range(1, 110, 10)} | {s for turn in turns for s in range(turn - 6, turn + 6)} & {*long}
    ):
        value, alone = of_size(size), alone_of[size]
        for others in ([None], empty, [value, of_size(1)], [of_size(120)], [None] * 9):
            assert shown(columns, [value, *others])[0] == alone
            assert shown(columns, [*others, value])[-1] == alone
            assert shown(columns, [value, *others]) == [
                told(c)
                for b in columns.of_arrow(pa.table({"x": pa.array([value, *others], kind)}))
                for c in b.column(0)
            ]


# Classes of the user's own


class Day(date):
    def isoformat(self):
        return "yesterday"


class Moment(datetime):
    def isoformat(self, *_):
        return "now"

    def astimezone(self, *_):
        return self


class Data(bytes):
    def hex(self, *_):
        return "zz"


class Id(uuid.UUID):
    def __str__(self):
        return "mine"


class Whole(int):
    def __int__(self):
        return 8


class Posing:
    __class__ = bytes

    def __repr__(self):
        return "Posing()"  # without an address: it is in the name of a test

    def hex(self):
        return "zz"


@pytest.mark.parametrize(
    ("kind", "value", "plain"),
    [
        (pa.date32(), Day(2020, 1, 1), date(2020, 1, 1)),
        (pa.timestamp("us"), Moment(2020, 1, 1), datetime(2020, 1, 1)),
        (
            pa.timestamp("us", "UTC"),
            Moment(2020, 1, 1, 5, tzinfo=timezone(timedelta(hours=5))),
            datetime(2020, 1, 1, tzinfo=UTC),
        ),
        (pa.binary(), Data(b"a"), b"a"),
        (pa.uuid(), Id(int=3), uuid.UUID(int=3)),
        (pa.int64(), Whole(7), 7),
        (pa.int64(), Real(2.0), 2),
        (pa.string(), Text("b"), "b"),
        (pa.timestamp("us"), pandas.Timestamp("2020-01-01 00:00:00.000000001"), datetime(2020, 1, 1)),
        (pa.timestamp("us"), np.datetime64("2020-01-01", "ns"), datetime(2020, 1, 1)),
        (pa.timestamp("us"), NAT, None),
        (pa.string(), "\ud800", None),
        (pa.string(), Text("a\udfff"), None),
        (pa.binary(), Posing(), None),
    ],
    ids=repr,
)
def test_a_value_is_what_it_holds_whatever_its_class_says(kind, value, plain):
    """As a key or a unit each is one."""
    columns = Columns(declared(pa.schema([("x", kind)])))
    assert shown(columns, [value, plain]) == shown(columns, [plain, plain])


# What Beam checks


SCHEMA = pa.schema([("id", pa.int64()), ("place", pa.int64())])


@pytest.mark.parametrize("kind", [str, beam.Row, tuple[str, int], list[int]], ids=str)
def test_a_type_that_does_not_fit_is_refused_and_the_release_is_not_used_up(kind):
    question = sf.scan(SCHEMA, privacy_unit="id").agg(n=sf.count_units())
    rows = beam.Pipeline(runner="FnApiRunner") | beam.Create([{"id": 1}])
    release = question.release(epsilon=1)
    with pytest.raises(
        QueryError, match="what is released are dictionaries, or named tuples with the fields n"
    ):
        rows | release.with_output_types(kind)
    rows | "again" >> release.with_output_types(dict)


@pytest.mark.flakiness(k=100, because="noise of scale 10^-5 rounds away")
def test_beam_may_check_types_while_it_runs(run):
    """All that was released was lost: Beam used the iterator up."""
    table = sf.scan(SCHEMA, privacy_unit="id").group_by("place", keys=[1, 2]).bound(groups=1, rows=1)
    release = table.agg(n=sf.count()).release(epsilon=10**5)
    rows = [{"id": 1, "place": 1}, None, 5]
    found = run(
        lambda p: p | beam.Create([0]) | beam.FlatMap(lambda _: rows) | release, ["--runtime_type_check"]
    )
    # Noise of scale 10^-5.
    assert [row["n"] for row in found] == [1, 0]
