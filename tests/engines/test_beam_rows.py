"""Rows on Beam that are large, or of types of their own."""

from __future__ import annotations

import collections
import mmap
import os
import threading
import uuid
import weakref

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.beam import Release
from sfumato.engines.beam import beam_rows as rows_module
from sfumato.engines.beam.beam_release import SumRows
from sfumato.engines.beam.beam_rows import Columns, declared
from sfumato.engines.duckdb import stages as stages_module
from sfumato.errors import EngineError
from sfumato.query import sizes

# Extension types

BOOL8 = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None], pa.int8()))
OPAQUE = pa.opaque(pa.int8(), "a", "b")
UUID = uuid.UUID(int=5)


def values_of(kind: pa.DataType, arriving) -> list:
    columns = Columns(declared(pa.schema([("x", kind)])))
    if isinstance(arriving, list):
        batches = columns.of_rows([{"x": value} for value in arriving])
    else:
        batches = columns.of_arrow(pa.table({"x": arriving}))
    return [value for batch in batches for value in batch.column(0).to_pylist()]


@pytest.mark.parametrize(
    ("kind", "arriving", "values"),
    [
        (pa.bool8(), [True, False, None], [True, False, None]),
        (pa.bool8(), [1, UUID, "true"], [None, None, None]),
        (pa.bool8(), BOOL8, [True, False, None]),
        (pa.bool8(), pa.array([True, False]), [True, False]),
        (pa.bool8(), pa.array([1, 0], pa.int8()), [None, None]),
        (pa.bool_(), BOOL8, [True, False, None]),
        (pa.bool_(), pa.DictionaryArray.from_arrays(pa.array([1, 0]), BOOL8), [False, True]),
        (pa.int8(), pa.ExtensionArray.from_storage(OPAQUE, pa.array([7], pa.int8())), [7]),
        (pa.uuid(), pa.array([UUID.bytes], pa.uuid()), [UUID]),
        (pa.uuid(), [UUID, UUID.bytes, "text", 5], [UUID, UUID, None, None]),
        (pa.string(), pa.array(['{"a": 1}'], pa.json_()), ['{"a": 1}']),
        (pa.string_view(), pa.array(["a", None], pa.string_view()), ["a", None]),
        (pa.string(), [np.str_("a\0"), np.bytes_(b"\0")], ["a\0", "\0"]),
    ],
    ids=str,
)
def test_extension_types_are_read_as_what_they_stand_for(kind, arriving, values):
    assert values_of(kind, arriving) == values


@pytest.mark.long
@pytest.mark.parametrize(
    "arriving", [BOOL8, pa.array([True, False, None]), [True, False, None]], ids=["bool8", "bool", "rows"]
)
def test_a_release_counts_the_true_values_of_an_extension_type(arriving, run):
    import apache_beam as beam

    schema = pa.schema([("id", pa.int64()), ("x", pa.bool8())])
    people = sf.scan(schema, privacy_unit="id").filter("x").agg(n=sf.count_units())
    rows = (
        [{"id": i, "x": value} for i, value in enumerate(arriving)]
        if isinstance(arriving, list)
        else [pa.table({"id": [0, 1, 2], "x": arriving})]
    )
    assert run(lambda p: p | beam.Create(rows) | people.release(epsilon=10**5)) == [{"n": 1}]


@pytest.mark.parametrize(
    "field",
    [
        pa.field("x", OPAQUE),
        pa.field("x", pa.list_(pa.bool8())),
        pa.field("x", pa.struct([("y", pa.uuid())])),
        pa.field("x", pa.fixed_shape_tensor(pa.int8(), [2])),
        pa.field("x", pa.binary(), metadata={"ARROW:extension:name": "geoarrow.wkb"}),
    ],
    ids=str,
)
def test_an_extension_type_that_is_not_known_is_refused_by_name(field):
    with pytest.raises(EngineError, match="column 'x' is .*extension type .*declare it as"):
        sf.scan(pa.schema([("id", pa.int64()), field]), privacy_unit="id")


# Rows beside others

BESIDE = [  # a column's type, somebody's value, and one of somebody else that Arrow does not take with it
    (pa.timestamp("us"), np.datetime64("2020-01-01T00:00:00.000000001", "ns"), "no time"),
    (pa.duration("us"), np.timedelta64(5, "s"), "none"),
    (pa.date32(), np.True_, object()),
    (pa.float64(), np.uint64(2**64 - 1), 2**53 + 1),
    (pa.float32(), np.float16(1.5), "no number"),
    (pa.int64(), np.int8(3), 1.5),
    (pa.int64(), True, 1),
    (pa.string(), np.str_("a"), b"\xff"),
    (pa.list_(pa.int64()), [1, None], {"a": 1}),
    (pa.map_(pa.string(), pa.int64()), [("a", 1)], [None]),
]


@pytest.mark.parametrize(("kind", "value", "other"), BESIDE, ids=range(len(BESIDE)))
def test_a_value_is_the_same_whatever_is_beside_it(kind, value, other):
    assert values_of(kind, [value, other])[:1] == values_of(kind, [value])
    assert values_of(kind, [value, value]) == values_of(kind, [value]) * 2


class Indexed:
    def __getitem__(self, name):
        return {"x": 5, "items": 5}[name]


VIEW = pa.string_view()
OF_VIEWS = {
    pa.list_(VIEW): lambda text: [text],
    pa.large_list(VIEW): lambda text: [text],
    pa.list_(VIEW, 1): lambda text: [text],
    pa.struct({"p": VIEW}): lambda text: {"p": text},
    pa.map_(VIEW, pa.binary_view()): lambda text: [(text, b"b")],
    pa.list_(pa.struct({"p": pa.list_(VIEW)})): lambda text: [{"p": [text]}],
}


@pytest.mark.parametrize("kind", OF_VIEWS, ids=str)
@pytest.mark.parametrize("as_rows", [True, False])
def test_a_row_of_views_takes_no_other_along(kind, as_rows, small):
    """Arrow can take no rows of views, as where one lacks its unit, nor tell how long they are."""
    columns = Columns(declared(pa.schema([pa.field("id", pa.int64(), nullable=False), ("x", kind)])))
    short, long = OF_VIEWS[kind]("a"), OF_VIEWS[kind]("a" * (2 * rows_module.VALUE_BYTES))
    ids, values = [1, None, 3, 4], [short, short, long, None]
    if as_rows:
        batches = columns.of_rows([{"id": u, "x": x} for u, x in zip(ids, values, strict=True)])
    else:
        batches = columns.of_arrow(pa.table({"id": ids, "x": pa.array(values, kind)}))
    found = [row for batch in batches for row in batch.to_pylist()]
    assert found == [{"id": 1, "x": short}, {"id": 3, "x": None}, {"id": 4, "x": None}]


@pytest.mark.parametrize("name", ["x", "items", "keys", "values", "count", "index"])
@pytest.mark.parametrize("other", [{}, {"other": 1}, 7, None, (1,), [], "text", object()], ids=range(8))
def test_a_row_is_the_same_whatever_is_beside_it(name, other):
    """Also where a column is called as what each dictionary or tuple can do."""
    columns = Columns(pa.schema([(name, pa.int64())]))
    rows = [{name: 5}, collections.namedtuple("Named", [name])(5), Indexed()]
    both = [value for batch in columns.of_rows([*rows, other]) for value in batch.column(0).to_pylist()]
    assert both == [5, 5, 5 if name in ("x", "items") else None, None]


IN_ITSELF: list = []
IN_ITSELF.append(IN_ITSELF)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int64(), IN_ITSELF),
        (pa.list_(pa.int64()), IN_ITSELF),
        (pa.map_(pa.string(), pa.int64()), [None]),
        (pa.map_(pa.string(), pa.int64()), {None: 1}),
        (pa.list_(pa.map_(pa.string(), pa.int64())), [[None]]),
        (pa.struct([("m", pa.map_(pa.string(), pa.int64()))]), {"m": [None]}),
        (pa.map_(pa.string(), pa.map_(pa.string(), pa.int64())), {"a": [None]}),
    ],
    ids=str,
)
def test_a_value_at_which_arrow_ends_the_process_is_null(kind, value):
    assert values_of(kind, [value, None]) == [None, None]


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
        "large texts": [pa.table({"id": numbers, "text": pa.array(texts, pa.large_string())})],
        "views": [pa.table({"id": numbers, "text": pa.array(texts, pa.string_view())})],
        "a dictionary": [pa.table({"id": numbers, "text": encoded})],
        "runs": [
            pa.table(
                {"id": numbers, "text": pa.RunEndEncodedArray.from_arrays(range(1, len(texts) + 1), texts)}
            )
        ],
    }


def columns_of(elements: list) -> list[pa.RecordBatch]:
    columns = Columns(declared(SCHEMA))
    if isinstance(elements[0], dict):
        return list(columns.of_rows(elements))
    return [batch for element in elements for batch in columns.of_arrow(element)]


@pytest.mark.parametrize("shape", batches_with(TEXTS))
def test_texts_beyond_the_limit_of_a_batch_make_several(shape, small):
    batches = columns_of(batches_with(TEXTS)[shape])
    assert len(batches) > 1
    assert all(batch.column(1).nbytes <= 600 for batch in batches)
    assert [t for batch in batches for t in batch.column(1).to_pylist()] == TEXTS
    assert [i for batch in batches for i in batch.column(0).to_pylist()] == list(range(60))


@pytest.mark.parametrize("shape", batches_with(TEXTS))
def test_a_text_that_is_too_long_is_null_and_the_others_are_as_they_were(shape, small):
    texts = [*TEXTS[:7], "y" * 5000, *TEXTS[7:], "é" * 51, "z" * 100]
    found = [t for batch in columns_of(batches_with(texts)[shape]) for t in batch.column(1).to_pylist()]
    assert found == [*TEXTS[:7], None, *TEXTS[7:], None, "z" * 100]


def test_texts_that_lie_beyond_2_gib_of_a_batch_are_read():
    """Of a batch as large as it may be; its first 2 GiB are memory that is never touched."""
    start, texts = 2**31, b"abcdef"
    memory = mmap.mmap(-1, start + len(texts))
    memory[start:] = texts
    offsets = pa.py_buffer(np.array([start, start + 1, start + 3, start + 6], np.int64).tobytes())
    array = pa.LargeStringArray.from_buffers(3, offsets, pa.py_buffer(memory))
    batch = pa.record_batch({"id": [1, 2, 3], "text": array})
    assert [t for b in columns_of([batch]) for t in b.column(1).to_pylist()] == ["a", "bc", "def"]


class Evil(str):
    __slots__ = ()

    def __len__(self):
        raise RuntimeError


def summing() -> SumRows:
    asked = sf.scan(SCHEMA, privacy_unit="id").filter("text <> ''").bound(rows=1).agg(n=sf.count())
    fn = SumRows(Release(asked, epsilon=1)._work.stages)
    fn.start_bundle()
    return fn


def test_of_long_rows_few_wait():
    """65,536 of 20 kB were 1.3 GB, of what no column needs too."""

    class Row(dict):
        __hash__ = object.__hash__

    fn, alive = summing(), weakref.WeakSet()
    for i in range(1000):
        row = Row(id=i, text="short", other="x" * 1000)
        alive.add(row)
        assert not [*fn.process(row)] and len(alive) <= sizes.READ_ROWS
        del row


def test_of_long_texts_few_wait():
    fn, text = summing(), "x" * (1 << 18)
    longest, most = sizes.READ_ROWS * len(text), sizes.WAITING_BYTES
    for i in range(300):
        assert all(len(data) < 10**5 for _, data in (w.value for w in fn.process({"id": i, "text": text})))
        assert sum(map(len, fn._values[1])) <= most // 4 + longest
        assert fn._waiting <= most + longest


def test_a_text_that_will_not_be_measured_changes_nothing(small):
    loop: list = []
    loop.append(loop)
    texts = [*TEXTS[:5], Evil("ab"), loop, {"a": Evil("b")}, *TEXTS[5:]]
    rows = [{"id": i, "text": text} for i, text in enumerate(texts)]
    found = [t for batch in columns_of(rows) for t in batch.column(1).to_pylist()]
    assert [*found[:5], *found[8:]] == TEXTS and found[5] in (None, "ab") and found[6:8] == [None, None]


@pytest.mark.parametrize("shape", ["rows", "a table"])
def test_long_keys_go_through_all_stages(shape, small, fixed_salt):
    keys = [f"{'k' * 80}{i % 30}" for i in range(60)]
    table = sf.scan(SCHEMA, privacy_unit="id").group_by("text").bound(groups=1, rows=1)
    stages = Release(table.agg(n=sf.count()), epsilon=1, delta=1e-6, shards=2)._work.stages
    fn = SumRows(stages)
    fn.start_bundle()
    parts = [part for element in batches_with(keys)[shape] for part in fn.process(element)]
    parts = [windowed.value for windowed in [*parts, *fn.finish_bundle()]]
    assert len(parts) > 4 and all(len(data) < 4000 for _, data in parts)
    totals = [p for shard in range(2) for p in stages.totals([d for s, d in parts if s == shard])]
    found = [
        row
        for batch in stages.merged(None, stages.joined_totals([p.data for p in totals]), 100)
        for row in batch.to_pylist()
    ]
    assert [[*row.values()] for row in found] == [[key, 2] for key in sorted(set(keys))]


# Threads of a worker


@pytest.fixture
def two_at_once(monkeypatch):
    """A process in which two stages run at a time."""
    made = stages_module._Turns(4 << 30, threading.Semaphore(2))
    monkeypatch.setattr(stages_module, "_turns", lambda process: made)


def test_threads_have_a_database_each_and_wait_for_their_turn(two_at_once):
    inside, most, lock, full = [], [], threading.Lock(), threading.Barrier(2)

    def stage():
        with stages_module.opened("UTC") as connection:
            connection.execute("CREATE TEMP TABLE mine AS SELECT 1")
            with lock:
                inside.append(1)
                most.append(len(inside))
            full.wait()  # two at a time, no more, no fewer
            with stages_module.opened("UTC") as nested:  # would never end if it waited for a turn
                assert nested.execute("SELECT current_setting('memory_limit')").fetchone()[0] == "600.0 MiB"
            with lock:
                inside.pop()

    threads = [threading.Thread(target=stage) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 2 and len(most) == 6


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


@pytest.mark.long
def test_stages_in_threads_spill_and_do_not_fail(two_at_once, monkeypatch):
    """Four threads, each with more than its database holds."""
    monkeypatch.setattr(stages_module, "STAGE_BYTES", 32 << 20)
    schema = pa.schema([("id", pa.int64()), ("place", pa.int64()), ("x", pa.float64())])
    table = sf.scan(schema, privacy_unit="id").group_by("place").bound(groups=3, rows=2)
    asked = table.agg(
        n=sf.count(), m=sf.mean("x", lower=0, upper=30), q=sf.quantiles("x", [0.5], lower=0, upper=30)
    )
    stages = Release(asked, epsilon=1, delta=1e-6, shards=1)._work.stages
    order, parts = np.arange(60_000), []
    for start in range(0, 120_000, 60_000):
        unit = order + start
        columns = [pa.array(unit // 3), pa.array(unit * 7919 % 1000), pa.array(unit % 31 * 1.0)]
        parts += [p.data for p in stages.partials([pa.record_batch(columns, schema=schema)])]
    done: list[int] = []

    def work():
        joined = stages.joined_partials(parts)
        done.append(sum(len(p.data) > 0 for p in stages.totals(joined)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 4
