"""A row on Beam means what it means alone, whatever its class, its size and the rows beside it are."""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import uuid
from collections import defaultdict
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import apache_beam as beam
import duckdb
import numpy as np
import pandas
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.beam import Release
from sfumato.engines.beam import beam_rows as rows_module
from sfumato.engines.beam.beam_rows import Columns, make_schema
from sfumato.engines.duckdb import stages as stages_module
from sfumato.errors import EngineError
from sfumato.query import sizes


def values_of(kind: pa.DataType, arriving) -> list:
    columns = Columns(make_schema(pa.schema([("x", kind)])))
    if isinstance(arriving, list):
        batches = columns.batch_rows([{"x": value} for value in arriving])
    else:
        batches = columns.select_columns(pa.table({"x": arriving}))
    return [value for batch in batches for value in batch.column(0).to_pylist()]


# Values of each type.
FIT = [
    (pa.int64(), [1, np.int64(2), 3.0, np.float64(4), Decimal(5), None], [1.5, "6", True, 2**63]),
    (pa.int8(), [1, 127, -128], [128, 1e9]),
    (pa.float64(), [1.5, np.float32(0.5), Decimal("2.5"), math.inf], ["1", 10**400, True]),
    (pa.bool_(), [True, False, np.bool_(True)], [1, "true"]),
    (pa.string(), ["", "é", "日本"], [1, "\ud800", b"\xff"]),
    (pa.date32(), [date(2020, 2, 29)], ["2020-02-29"]),
    (pa.timestamp("us"), [datetime(2020, 2, 29, 12)], ["now"]),
    (pa.timestamp("us", "UTC"), [datetime(2020, 2, 29, 12, tzinfo=UTC)], ["now"]),
    (pa.decimal128(5, 2), [Decimal("1.25")], [Decimal("1.255"), Decimal(10**9)]),
    (pa.dictionary(pa.int32(), pa.string()), ["a", "b"], [1]),
]


def test_what_does_not_fit_is_null_and_changes_nothing_else():
    for kind, fitting, foreign in FIT:
        plain = [v.item() if isinstance(v, np.generic) else v for v in fitting]
        assert values_of(kind, fitting) == plain, kind
        assert values_of(kind, foreign) == [None] * len(foreign), kind
        assert values_of(kind, [*fitting, *foreign, *fitting]) == [*plain, *[None] * len(foreign), *plain]


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
    found = [c for b in columns.batch_rows([{"x": v} for v in values]) for c in b.column(0)]
    return list(map(told, found))


QUICK = pa.int64(), pa.timestamp("us"), pa.map_(pa.string(), pa.int64())


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[pytest.mark.long] * (k not in QUICK)) for k in KINDS], ids=str
)
def test_a_value_is_read_as_it_is_alone(kind):
    """Arrow ended the process on a numpy time beside a numpy number, and on a map of [None], before."""
    columns = Columns(make_schema(pa.schema([("x", kind)])))
    alone = [shown(columns, [value])[0] for value in VALUES]
    assert shown(columns, VALUES) == alone
    assert shown(columns, VALUES[::-1]) == alone[::-1]
    for place in range(0, len(VALUES), 9):
        for value, expected in zip(VALUES, alone, strict=True):
            assert shown(columns, [value, VALUES[place]]) == [expected, alone[place]]


def of_int(*rows) -> list:
    columns = Columns(make_schema(pa.schema([("x", pa.int64())])))
    return [v for b in columns.batch_rows(rows) for v in b.column(0).to_pylist()]


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


def test_what_a_row_has_under_a_name_does_not_depend_on_its_neighbours():
    """A dictionary with defaults, and a row of a database, lost their values beside a row without."""
    for neighbour in (make() for make in NEIGHBOURS.values()):
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
    # Also where a column is called as what each dictionary or tuple can do.
    columns = Columns(pa.schema([("items", pa.int64())]))
    for other in ({}, (1,), [], "text", None):
        (batch,) = columns.batch_rows([{"items": 5}, other, {"other": 1}])
        assert batch.column(0).to_pylist() == [5, None, None]


# Classes of the user's own


PLAIN = [
    (pa.int64(), Real(2.0), 2),
    (pa.string(), Text("b"), "b"),
    (pa.timestamp("us"), pandas.Timestamp("2020-01-01 00:00:00.000000001"), datetime(2020, 1, 1)),
    (pa.timestamp("us"), np.datetime64("2020-01-01", "ns"), datetime(2020, 1, 1)),
    (pa.timestamp("us"), NAT, None),
    (pa.string(), "\ud800", None),
    (pa.string(), Text("a\udfff"), None),
]


def test_a_value_is_what_it_holds_whatever_its_class_says():
    """As a key or a unit each is one."""
    for kind, value, plain in PLAIN:
        columns = Columns(make_schema(pa.schema([("x", kind)])))
        assert shown(columns, [value, plain]) == shown(columns, [plain, plain]), repr(value)


def test_batches_of_other_types_mean_what_rows_mean():
    columns = Columns(pa.schema([("id", pa.int64()), ("place", pa.string()), ("x", pa.float64())]))
    arriving = pa.table(
        {
            "place": pa.array(["a", "b", None]).dictionary_encode(),
            "x": pa.array([1, 2, 2**60 + 1]),
            "id": pa.array(["7", "8", "9"]),
        }
    )
    (batch,) = columns.select_columns(arriving)
    assert batch.to_pydict() == {"id": [None] * 3, "place": ["a", "b", None], "x": [1.0, 2.0, float(2**60)]}
    broken = pa.StringArray.from_buffers(2, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff"))
    (batch,) = columns.select_columns(pa.table({"place": broken, "id": [1, 2]}))
    assert batch.to_pydict() == {"id": [1, 2], "place": ["a", None], "x": [None, None]}
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])
    assert next(columns.select_columns(twice)).to_pydict()["id"] == [None]


def test_rows_that_lack_what_is_declared_complete_are_dropped():
    columns = Columns(pa.schema([pa.field("id", pa.int64(), nullable=False), ("x", pa.float64())]))
    rows = [{"id": 1, "x": None}, {"id": None, "x": 1.0}, {"x": 2.0}, {"id": "text", "x": 2.0}]
    assert next(columns.batch_rows(rows)).to_pylist() == [{"id": 1, "x": None}]


@pytest.mark.long
@pytest.mark.flakiness(k=100, because="noise of scale 10^-5 rounds away")
def test_beam_may_check_types_while_it_runs(run):
    """All that was released was lost: Beam used the iterator up. Elements that are no rows have no values."""
    schema = pa.schema([("id", pa.int64()), ("place", pa.int64())])
    table = sf.scan(schema, privacy_unit="id").group_by("place", keys=[1, 2]).bound(groups=1, rows=1)
    release = table.agg(n=sf.count()).release(epsilon=10**5)
    rows = [
        {"id": 1, "place": 1},
        None,
        5,
        "text",
        object,
        (),
        {},
        beam.Row(y=1),
        {"id": {}},
        pa.table({"y": [1]}),
    ]
    found = run(
        lambda p: p | beam.Create([0]) | beam.FlatMap(lambda _: rows) | release, ["--runtime_type_check"]
    )
    assert [row["n"] for row in found] == [1, 0]


BOOL8 = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None], pa.int8()))

OPAQUE = pa.opaque(pa.int8(), "a", "b")

UUID = uuid.UUID(int=5)

EXTENDED = [
    (pa.bool8(), [True, False, None], [True, False, None]),
    (pa.bool8(), BOOL8, [True, False, None]),
    (pa.bool8(), pa.array([True, False]), [True, False]),
    (pa.bool_(), pa.DictionaryArray.from_arrays(pa.array([1, 0]), BOOL8), [False, True]),
    (pa.int8(), pa.ExtensionArray.from_storage(OPAQUE, pa.array([7], pa.int8())), [7]),
    (pa.uuid(), pa.array([UUID.bytes], pa.uuid()), [UUID]),
    (pa.uuid(), [UUID, UUID.bytes, "text", 5], [UUID, UUID, None, None]),
    (pa.string_view(), pa.array(["a", None], pa.string_view()), ["a", None]),
    (pa.string(), [np.str_("a\0"), np.bytes_(b"\0")], ["a\0", "\0"]),
]


def test_extension_types_are_read_as_what_they_stand_for():
    for kind, arriving, values in EXTENDED:
        assert values_of(kind, arriving) == values, kind


# Extension types


VIEW = pa.string_view()
OF_VIEWS = {
    pa.list_(VIEW): lambda text: [text],
    pa.struct({"p": VIEW}): lambda text: {"p": text},
    pa.map_(VIEW, pa.binary_view()): lambda text: [(text, b"b")],
}


@pytest.mark.parametrize("as_rows", [True, False])
@pytest.mark.parametrize("kind", [*OF_VIEWS], ids=str)
def test_a_row_of_views_takes_no_other_along(kind, as_rows, small):
    """Arrow can take no rows of views, as where one lacks its unit, nor tell how long they are."""
    columns = Columns(make_schema(pa.schema([pa.field("id", pa.int64(), nullable=False), ("x", kind)])))
    short, long = OF_VIEWS[kind]("a"), OF_VIEWS[kind]("a" * (2 * rows_module.VALUE_BYTES))
    ids, values = [1, None, 3, 4], [short, short, long, None]
    if as_rows:
        batches = columns.batch_rows([{"id": u, "x": x} for u, x in zip(ids, values, strict=True)])
    else:
        batches = columns.select_columns(pa.table({"id": ids, "x": pa.array(values, kind)}))
    found = [row for batch in batches for row in batch.to_pylist()]
    assert found == [{"id": 1, "x": short}, {"id": 3, "x": None}, {"id": 4, "x": None}]


IN_ITSELF: list = []
IN_ITSELF.append(IN_ITSELF)


FATAL = [
    (pa.int64(), IN_ITSELF),
    (pa.list_(pa.int64()), IN_ITSELF),
    (pa.map_(pa.string(), pa.int64()), [None]),
    (pa.map_(pa.string(), pa.int64()), {None: 1}),
    (pa.list_(pa.map_(pa.string(), pa.int64())), [[None]]),
    (pa.struct([("m", pa.map_(pa.string(), pa.int64()))]), {"m": [None]}),
    (pa.map_(pa.string(), pa.map_(pa.string(), pa.int64())), {"a": [None]}),
]


def test_a_value_at_which_arrow_ends_the_process_is_null():
    for kind, value in FATAL:
        assert values_of(kind, [value, None]) == [None, None], kind


# Long texts


@pytest.fixture
def small(monkeypatch):
    """Limits that a test reaches."""
    monkeypatch.setattr(sizes, "COLUMN_BYTES", 400)
    monkeypatch.setattr(rows_module, "VALUE_BYTES", 100)
    monkeypatch.setattr(sizes, "WAITING_BYTES", 1000)
    monkeypatch.setattr(sizes, "PAYLOAD_BYTES", 1000)


TEXTS = ["x" * (i % 90) for i in range(60)]
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


def batches_with(texts: list) -> dict[str, list]:
    numbers = pa.array(range(len(texts)))
    table = pa.table({"id": numbers, "text": texts})
    encoded = pa.array(texts, pa.string()).dictionary_encode()
    return {
        "rows": table.to_pylist(),
        "a table": [table],
        "views": [pa.table({"id": numbers, "text": pa.array(texts, pa.string_view())})],
        "a dictionary": [pa.table({"id": numbers, "text": encoded})],
    }


def columns_of(elements: list) -> list[pa.RecordBatch]:
    columns = Columns(make_schema(SCHEMA))
    if isinstance(elements[0], dict):
        return list(columns.batch_rows(elements))
    return [batch for element in elements for batch in columns.select_columns(element)]


def test_long_texts_make_several_batches_and_one_that_is_too_long_is_null(small):
    texts = [*TEXTS[:7], "y" * 5000, *TEXTS[7:], "é" * 51, "z" * 100]
    for shape, elements in batches_with(texts).items():
        batches = columns_of(elements)
        assert len(batches) > 1 and all(batch.column(1).nbytes <= 600 for batch in batches), shape
        found = [t for batch in batches for t in batch.column(1).to_pylist()]
        assert found == [*TEXTS[:7], None, *TEXTS[7:], None, "z" * 100], shape
        assert [i for batch in batches for i in batch.column(0).to_pylist()] == list(range(63))


@pytest.fixture
def two_at_once(monkeypatch):
    """A process in which two stages run at a time."""
    made = stages_module._Turns(4 << 30, threading.Semaphore(2))
    monkeypatch.setattr(stages_module, "_turns", lambda process: made)


def test_a_stage_that_fails_gives_its_turn_back(two_at_once):
    for _ in range(3):
        with pytest.raises(duckdb.Error), stages_module.opened("UTC") as failing:
            failing.execute("SELECT nothing FROM nowhere")


def test_the_databases_of_a_machine_are_within_half_of_its_memory():
    for gigabytes in (1, 2, 4, 15, 64, 1024):
        for cores in (1, 2, 4, 8, 96):
            memory = gigabytes << 30
            at_once, each = stages_module.stages_at_once(memory, cores), stages_module.stage_bytes(memory)
            assert 1 <= at_once <= cores
            assert at_once == 1 or cores * at_once * each <= memory / 2
            assert each <= memory / 2


# Threads of a worker


@pytest.mark.parametrize("stops", [False, True])
def test_a_fork_in_the_middle_of_a_stage_ends(stops, fork):
    """While DuckDB reads what comes in. To close its connection in the child, whatever it did then, never ended."""
    schema = pa.schema([("id", pa.int64()), ("place", pa.int64())])
    table = sf.scan(schema, privacy_unit="id").group_by("place").bound(groups=1, rows=1)
    stages = Release(table.agg(n=sf.count()), epsilon=1, delta=1e-6, shards=2)._work.stages
    parent = os.getpid()

    def arriving(forks):
        for place in range(4):
            if forks and place == 2:
                fork.here()
            if stops and os.getpid() != parent:
                raise ValueError
            yield pa.record_batch([pa.array(range(5000)), pa.array([place] * 5000)], schema=schema)

    parts: list = []
    told = fork.told(lambda: parts.extend(stages.partials(arriving(True))), EngineError)
    assert told == ("refused" if stops else "went on", "went on")
    assert parts == [*stages.partials(arriving(False))]
