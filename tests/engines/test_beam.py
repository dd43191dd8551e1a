"""Releases on Apache Beam: what is particular to it. The suite over all engines is beside."""

from __future__ import annotations

import math
import pickle
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import uuid
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms import window

import sfumato as sf
from sfumato.beam import Release
from sfumato.engines.beam import beam_release as release_module
from sfumato.engines.beam.beam_release import Joined, SumRows
from sfumato.engines.beam.beam_rows import Columns, declared
from sfumato.errors import BudgetError, EngineError, ParameterError, QueryError, RefusalError
from sfumato.query import sizes

SCHEMA = pa.schema([("id", pa.int64()), ("place", pa.string()), ("x", pa.float64())])
BIG = {"epsilon": 10**5, "delta": 1e-6}  # noise that rounds away


def visits(rows: int = 900) -> pa.Table:
    order = list(range(rows))
    return pa.table(
        [[i % 97 for i in order], [f"p{i * i % 7}" for i in order], [float(i % 31) for i in order]],
        schema=SCHEMA,
    )


def question(schema: pa.Schema = SCHEMA, keys=None, rows=None):
    table = sf.scan(schema if rows is None else rows, privacy_unit="id")
    return (
        table.group_by("place", keys=keys)
        .bound(groups=3, rows=2)
        .agg(n=sf.count(), people=sf.count_units(), total=sf.sum("x", lower=0, upper=30))
    )


@pytest.fixture
def released(run):
    """Elements, transform -> what the transform gives on them."""
    return lambda elements, transform: run(
        lambda pipeline: pipeline | beam.Create(elements, reshuffle=False) | transform
    )


def keep(element, folder: str) -> None:
    (Path(folder) / uuid.uuid4().hex).write_bytes(pickle.dumps(element))


class Visit(NamedTuple):
    id: int
    place: str
    x: float


def rows_as(shape: str, table: pa.Table) -> list:
    rows = table.to_pylist()
    return {
        "dictionaries": rows,
        "named tuples": [Visit(**row) for row in rows],
        "beam rows": [beam.Row(**row) for row in rows],
        "batches": table.to_batches(max_chunksize=200),
        "tables": [table.slice(0, 300), table.slice(300).select(["x", "place", "id"])],
        "a mixture": [*rows[:100], table.slice(100, 500), *(beam.Row(**row) for row in rows[600:])],
    }[shape]


SHAPES = ["dictionaries", "named tuples", "beam rows", "batches", "tables", "a mixture"]


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_of_every_shape_are_the_same_rows(shape, fixed_salt, released):
    rows = visits()
    expected = question(rows=rows).release(**BIG).to_arrow().to_pylist()
    found = released(rows_as(shape, rows), question().release(**BIG))
    assert [(r["place"], r["n"], r["people"]) for r in found] == sorted(
        (r["place"], r["n"], r["people"]) for r in expected
    )
    # Both have a scale of 0.002: a difference beyond 1 has a chance below e^-400.
    totals = sorted((r["place"], r["total"]) for r in expected)
    assert [r["total"] for r in found] == pytest.approx([total for _, total in totals], abs=1)


def test_both_ways_to_write_a_release(released):
    # One group has 73 units or more, and is left out with a chance below e^-1000.
    transform = Release(question(), **BIG, confidence=0.9, shards=3)
    assert transform.spent == question().release(**BIG).spent == (1e5, 1e-6)
    assert "epsilon" in str(transform.explain())
    (row, *_) = released(visits().to_pylist(), transform)
    assert list(row) == ["place", "n", "n_error", "people", "people_error", "total", "total_error"]
    assert row["total_error"] > 0


@pytest.mark.long
def test_public_groups_and_the_whole_table_are_there_without_a_row(released):
    keys = ["p0", "p1", "elsewhere"]
    found = released([], question(keys=keys).release(epsilon=1))
    assert {row["place"] for row in found} == set(keys)
    whole = sf.scan(SCHEMA, privacy_unit="id").agg(n=sf.count_units())
    ((row,),) = [[r.values() for r in released([], whole.release(epsilon=1))]]
    assert len(row) == 1
    assert released([], question().release(epsilon=1, delta=1e-6)) == []


# Repeated work


@pytest.mark.long
def test_a_pipeline_that_runs_again_draws_the_same_noise_for_the_same_rows_and_other_noise_for_others():
    transform = question(keys=["p0", "p1", "p2"]).release(epsilon=0.1)
    kept = {}
    with tempfile.TemporaryDirectory() as folder:
        pipeline = beam.Pipeline(runner="FnApiRunner")
        source = pipeline | beam.Create([0]) | beam.FlatMap(lambda _: rows_from(folder))
        source | transform | beam.Map(lambda row: keep(row, (Path(folder) / "out").read_text()))
        for name, rows in (("one", visits()), ("two", visits()), ("three", visits(901))):
            (Path(folder) / "rows").write_bytes(pickle.dumps(rows.to_pylist()))
            (Path(folder) / name).mkdir()
            (Path(folder) / "out").write_text(f"{folder}/{name}")
            pipeline.run().wait_until_finish()
            kept[name] = sorted(
                tuple(pickle.loads(f.read_bytes()).values()) for f in (Path(folder) / name).iterdir()
            )
    assert kept["one"] == kept["two"]
    assert len(kept["one"]) == 3
    # One row more, in one group of one shard; what stands in this shard has noise of its own.
    assert kept["one"] != kept["three"]


def rows_from(folder: str) -> list:
    return pickle.loads((Path(folder) / "rows").read_bytes())


def in_the_worker(transform, table: pa.Table, seed: int) -> list:
    """Do a release's work as workers do that were given other parts of it, in another order, some of it twice."""
    chance, stages, work = random.Random(seed), transform._work.stages, transform._work
    rows = table.to_pylist()
    chance.shuffle(rows)
    cuts = sorted(chance.sample(range(len(rows)), 3))
    units = joined(
        stages.joined_partials,
        [
            part
            for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)
            for part in bundle(stages, rows[start:end], chance)
        ],
        chance,
    )
    totals = [(p.shard, p.data) for parts in units.values() for p in stages.totals(parts)]
    seeds = [(shard, b"") for shard in range(stages.group_shards)]
    groups = joined(stages.joined_totals, totals + seeds, chance)
    assert set(groups) == set(range(stages.group_shards))
    found = []
    for shard, parts in groups.items():
        first, second = (
            list(release_module._rows(d for _, d in release_module._drawn(work, shard, parts)))
            for _ in range(2)
        )
        assert first == second
        found += first
    return sorted(found, key=repr)


def bundle(stages, rows: list, chance: random.Random) -> list:
    """Run a bundle that fails half-way, and is given to another worker anew."""
    fn = SumRows(stages)
    fn.start_bundle()
    for row in rows[: chance.randint(0, len(rows))]:
        list(fn.process(row))
    fn = pickle.loads(pickle.dumps(SumRows(stages)))
    fn.start_bundle()
    parts = [part for row in rows for part in fn.process(row)]
    return [windowed.value for windowed in [*parts, *fn.finish_bundle()]]


def joined(join, parts: list, chance: random.Random) -> dict[int, list[bytes]]:
    """Combine parts by shard with lifting: some before the shuffle, then accumulators in any order."""
    fn, by_shard = Joined(join), {}
    chance.shuffle(parts)
    for shard, data in parts:
        by_shard.setdefault(shard, []).append(data)
    found = {}
    for shard, datas in by_shard.items():
        lifted = [fn.create_accumulator() for _ in range(chance.randint(1, 3))]
        for data in datas:
            place = chance.randrange(len(lifted))
            lifted[place] = fn.add_input(lifted[place], data)
        lifted = [fn.compact(pickle.loads(pickle.dumps(a))) for a in lifted]
        found[shard] = fn.extract_output(fn.compact(fn.merge_accumulators(lifted)))
    return found


def fresh_in_the_worker(work, shard, parts, drawn=release_module._drawn):
    """The planted defect: noise keyed by a secret that each attempt draws for itself."""
    return drawn(replace(work, secret=secrets.token_bytes(32)), shard, parts)


@pytest.mark.long
def test_bundles_that_are_retried_or_cut_anew_draw_the_same_noise(monkeypatch):
    monkeypatch.setattr(sizes, "JOIN_PARTS", 4)
    monkeypatch.setattr(sizes, "SHUFFLE_BYTES", 0)
    monkeypatch.setattr(sizes, "SHUFFLE_PARTS", 1)
    # Of 97 units each is in three of four groups, so one group has 73 and is left out with a chance below e^-1000.
    # Sums have noise of 2^30 steps or more and counts some: two releases are equal with a chance below 10^-9.
    transform = question().release(epsilon=10, delta="0.01")
    attempts = [in_the_worker(transform, visits(), seed) for seed in range(4)]
    assert attempts[0]
    assert all(attempt == attempts[0] for attempt in attempts)
    other = in_the_worker(question().release(epsilon=10, delta="0.01"), visits(), 0)
    assert other != attempts[0]


def test_a_planted_secret_of_the_attempt_is_found(monkeypatch):
    monkeypatch.setattr(release_module, "_drawn", fresh_in_the_worker)
    transform = question(keys=["p0", "p1"]).release(epsilon=0.1, noise="laplace")
    with pytest.raises(AssertionError):
        in_the_worker(transform, visits(), 0)


def test_a_release_is_applied_once():
    transform = question().release(epsilon=1, delta=1e-6)
    pipeline = beam.Pipeline(runner="FnApiRunner")
    rows = pipeline | beam.Create([])
    rows | transform
    with pytest.raises(RefusalError, match="applied before"):
        rows | "again" >> transform


# Rows that do not fit


def batch_of(values: list, kind: pa.DataType) -> list:
    columns = Columns(declared(pa.schema([("x", kind)])))
    return [v for batch in columns.of_rows([{"x": v} for v in values]) for v in batch.column(0).to_pylist()]


class Awkward:
    __hash__ = object.__hash__

    def __float__(self):
        raise RuntimeError

    def __eq__(self, other):
        raise RuntimeError

    def __int__(self):
        raise RuntimeError


ODD = [
    Awkward(),
    object(),
    [1],
    {"a": 1},
    "text",
    "\ud800",
    b"\xff",
    float("nan"),
    10**400,
    -(2**70),
    True,
    None,
]


@pytest.mark.parametrize(
    ("kind", "fitting", "foreign"),
    [
        (pa.int64(), [1, np.int64(2), 3.0, np.float64(4), Decimal(5), None], [1.5, "6", True, 2**63]),
        (pa.int8(), [1, 127, -128], [128, 1e9]),
        (pa.float64(), [1, 1.5, np.float32(0.5), Decimal("2.5"), 2**60 + 1, math.inf], ["1", 10**400]),
        (pa.bool_(), [True, False, np.bool_(True)], [1, "true"]),
        (pa.string(), ["", "é", "日本"], [1, "\ud800"]),
        (pa.date32(), [date(2020, 2, 29)], ["2020-02-29"]),
        (pa.timestamp("us"), [datetime(2020, 2, 29, 12)], ["now"]),
        (pa.timestamp("us", "UTC"), [datetime(2020, 2, 29, 12, tzinfo=UTC)], ["now"]),
        (pa.decimal128(5, 2), [Decimal("1.25")], [Decimal("1.255"), Decimal(10**9)]),
        (pa.dictionary(pa.int32(), pa.string()), ["a", "b"], [1]),
    ],
    ids=str,
)
def test_what_does_not_fit_is_null_and_changes_nothing_else(kind, fitting, foreign):
    alone = [batch_of([v], kind)[0] for v in fitting]
    assert all(
        a == (v.item() if isinstance(v, np.generic) else v) for a, v in zip(alone, fitting, strict=True)
    ) or (kind == pa.float64())
    assert batch_of(fitting, kind) == alone
    assert batch_of(foreign, kind) == [None] * len(foreign)
    mixed = [*fitting, *foreign, *fitting]
    assert batch_of(mixed, kind) == [*alone, *[None] * len(foreign), *alone]
    # Nothing raises, and what stands beside it is as it was.
    for odd in ODD:
        assert batch_of([*fitting, odd], kind)[:-1] == alone


@pytest.mark.long
@pytest.mark.parametrize(
    "element", [None, 5, "text", object(), (), {}, beam.Row(y=1), {"id": {}}, pa.table({"y": [1]})]
)
def test_an_element_that_is_no_row_has_no_values_and_the_others_keep_theirs(element, released):
    rows = [{"id": 1, "place": "a", "x": 2.0}, element, Visit(2, "b", 3.0)]
    fn = SumRows(question().release(epsilon=1, delta=1e-3)._work.stages)
    fn.start_bundle()
    for row in rows:
        assert not list(fn.process(row))
    assert list(fn.finish_bundle())
    assert released(
        rows, sf.scan(SCHEMA, privacy_unit="id").agg(n=sf.count_units()).release(epsilon=10**5)
    ) == [{"n": 2}]


def test_batches_of_other_types_mean_what_rows_mean():
    columns = Columns(SCHEMA)
    arriving = pa.table(
        {
            "place": pa.array(["a", "b", None]).dictionary_encode(),
            "x": pa.array([1, 2, 2**60 + 1]),
            "id": pa.array(["7", "8", "9"]),
        }
    )
    (batch,) = columns.of_arrow(arriving)
    assert batch.to_pydict() == {"id": [None] * 3, "place": ["a", "b", None], "x": [1.0, 2.0, float(2**60)]}
    broken = pa.StringArray.from_buffers(2, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff"))
    (batch,) = columns.of_arrow(pa.table({"place": broken, "id": [1, 2]}))
    assert batch.to_pydict() == {"id": [1, 2], "place": ["a", None], "x": [None, None]}
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])
    assert next(columns.of_arrow(twice)).to_pydict()["id"] == [None]


def test_rows_that_lack_what_is_declared_complete_are_dropped():
    columns = Columns(pa.schema([pa.field("id", pa.int64(), nullable=False), ("x", pa.float64())]))
    rows = [{"id": 1, "x": None}, {"id": None, "x": 1.0}, {"x": 2.0}, {"id": "text", "x": 2.0}]
    assert next(columns.of_rows(rows)).to_pylist() == [{"id": 1, "x": None}]


# Before a pipeline runs


@pytest.mark.long
@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: sf.scan(pa.schema([]), privacy_unit="id"), EngineError, "at least the one"),
        (lambda: sf.scan(pa.schema([("a", pa.int8()), ("a", pa.int8())]), privacy_unit="a"), EngineError, "two columns 'a'"),
        (lambda: sf.scan(SCHEMA, privacy_unit="user"), QueryError, "no column 'user'"),
        (lambda: question().release(epsilon=1), BudgetError, "delta is 0"),
        (lambda: question().release(epsilon=0, delta=1e-6), BudgetError, "greater than 0"),
        (lambda: Release(question(), epsilon=1, delta=1e-6, shards=0), ParameterError, "shards"),
        (lambda: Release(question(), epsilon=1, delta=1e-6, confidence=1.5), ParameterError, "confidence"),
        (lambda: Release("SELECT 1", epsilon=1), ParameterError, "question"),
        (lambda: Release(question(rows=visits()), epsilon=1, delta=1e-6), QueryError, "rows on DuckDB"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_refused_when_it_is_made(make, error, words):
    with pytest.raises(error, match=words):
        make()


@pytest.mark.long
def test_collections_with_windows_or_without_end_are_refused():
    pipeline = beam.Pipeline(runner="FnApiRunner")
    rows = pipeline | beam.Create([])
    windows = rows | beam.WindowInto(window.FixedWindows(60))
    endless = pipeline | "other" >> beam.Create([])
    endless.is_bounded = False
    for place, collection in enumerate((windows, endless)):
        with pytest.raises(QueryError, match="GlobalWindows"):
            collection | f"release {place}" >> question().release(epsilon=1, delta=1e-6)
    with pytest.raises(QueryError, match="one collection"):
        pipeline | question().release(epsilon=1, delta=1e-6)


@pytest.mark.long
def test_without_beam_the_error_says_what_to_install():
    for attempt in (
        "import sfumato.beam",
        "import pyarrow as pa, sfumato as sf; sf.scan(pa.schema([('a', pa.int8())]), privacy_unit='a')",
    ):
        hidden = (
            "import importlib.util as u; find = u.find_spec\n"
            "u.find_spec = lambda name, *rest: None if name == 'apache_beam' else find(name, *rest)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", hidden + attempt], capture_output=True, text=True, check=False
        )
        assert "EngineError" in done.stderr
        assert "pip install 'sfumato[beam]'" in done.stderr


# Failures


@pytest.mark.long
@pytest.mark.parametrize("stage", ["partials", "totals", "joined_partials", "joined_totals", "merged"])
def test_a_worker_that_fails_fails_the_pipeline_and_shows_nothing(stage, monkeypatch, released):
    transform = question().release(**BIG)

    def fail(self, *arguments):
        raise EngineErrorOfTest(stage)

    monkeypatch.setattr(sizes, "WAITING_BYTES", 0)  # parts of shards for each batch
    monkeypatch.setattr(sizes, "SHUFFLE_BYTES", 0)
    monkeypatch.setattr(sizes, "SHUFFLE_PARTS", 1)
    monkeypatch.setattr(f"sfumato.engines.duckdb.stages.Stages.{stage}", fail)
    shown: list = []
    with pytest.raises(Exception, match=f"{stage}|EngineErrorOfTest"):
        shown = released(visits().to_batches(max_chunksize=100), transform)
    assert not shown


class EngineErrorOfTest(Exception):
    pass


RUN_AGAIN = """
import logging, sys
logging.disable(logging.WARNING)
import apache_beam as beam
from apache_beam.portability.api import beam_runner_api_pb2
described = beam_runner_api_pb2.Pipeline.FromString(open(sys.argv[1], "rb").read())
runner = beam.runners.runner.create_runner("FnApiRunner")
beam.Pipeline.from_runner_api(described, runner, beam.options.pipeline_options.PipelineOptions([])).run()
"""


@pytest.mark.long
def test_a_killed_worker_leaves_nothing_that_looks_complete_and_the_next_draws_the_same_noise(tmp_path):
    """A pipeline as a runner gets it is run by a process that is killed half-way, and by two that are not."""
    fatal, folder = str(tmp_path / "fatal"), str(tmp_path)

    def die_once(row):
        import os
        import signal

        if row["place"] == "p4" and os.path.exists(fatal):
            os.remove(fatal)
            os.kill(os.getpid(), signal.SIGKILL)
        return repr(sorted(row.items()))

    pipeline = beam.Pipeline(runner="FnApiRunner")
    transform = question(keys=["p0", "p1", "p2", "p4"]).release(epsilon=0.1)
    rows = pipeline | beam.Create(visits().to_batches(max_chunksize=300), reshuffle=False)
    rows | transform | beam.Map(die_once) | beam.io.WriteToText(f"{folder}/out/released")
    (tmp_path / "pipeline").write_bytes(pipeline.to_runner_api().SerializeToString())
    (tmp_path / "fatal").touch()
    outputs = []
    for _ in range(3):
        arguments = [sys.executable, "-c", RUN_AGAIN, str(tmp_path / "pipeline")]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        files = sorted((tmp_path / "out").glob("released*"))
        lines = sorted(line for file in files for line in file.read_text().splitlines())
        outputs.append((done.returncode, lines))
    killed, once, again = outputs
    assert killed == (-signal.SIGKILL, [])
    assert once == again
    assert once[0] == 0
    assert len(once[1]) == 4


# Hot keys


@pytest.mark.long
def test_a_unit_and_a_group_with_very_many_rows_are_small_on_the_way(monkeypatch):
    """100,000 rows of one unit, and 20,000 units in one group, in many bundles."""
    monkeypatch.setattr(sizes, "JOIN_BYTES", 1 << 16)
    monkeypatch.setattr(sizes, "JOIN_PARTS", 16)
    stages = Release(question(), epsilon=1, delta=1e-6, shards=2)._work.stages
    largest = {"unit": 0, "group": 0}

    def added(name: str, fn: Joined, parts: list[bytes]) -> list[bytes]:
        accumulator = fn.create_accumulator()
        for part in parts:
            accumulator = fn.add_input(accumulator, part)
            largest[name] = max(largest[name], sum(map(len, accumulator[2])))
        return fn.extract_output(accumulator)

    hot = [
        pa.table({"id": [1] * 5000, "place": [f"p{j % 50}" for j in range(5000)], "x": [1.0] * 5000})
        for _ in range(20)
    ]
    parts = [p.data for rows in hot for p in stages.partials(rows.to_batches())]
    kept = added("unit", Joined(stages.joined_partials), parts)
    # Rows take 100,000 x 20 bytes; a unit is never more than its groups.
    assert largest["unit"] < 100_000
    (totals,) = [stages.totals(kept)]
    assert sum(1 for _ in totals) <= 2
    crowds = [
        pa.table({"id": range(i * 1000, i * 1000 + 1000), "place": ["everywhere"] * 1000, "x": [1.0] * 1000})
        for i in range(20)
    ]
    totals = [
        p.data for rows in crowds for q in stages.partials(rows.to_batches()) for p in stages.totals([q.data])
    ]
    groups = added("group", Joined(stages.joined_totals), totals)
    assert largest["group"] < 60_000
    rows = next(stages.merged(None, groups, 100)).to_pylist()
    assert [row["units"] for row in rows] == [20_000]


@pytest.mark.parametrize("pairs", [50, 200, 10**6])
@pytest.mark.parametrize("merged", [False, True])
def test_an_accumulator_is_small_and_little_is_added_up_twice(monkeypatch, pairs, merged):
    """Of a shard whose own pairs have so many bytes."""
    monkeypatch.setattr(sizes, "JOIN_BYTES", 100)
    joins, lengths = [], []

    def join(parts: list[bytes]) -> list[bytes]:
        joins.append(sum(map(len, parts)))
        return [b"+" * min(joins[-1], pairs)]

    fn = Joined(join)
    accumulator = fn.create_accumulator()
    for _ in range(1000):
        part = b"x" * 10
        if merged:
            accumulator = fn.merge_accumulators([accumulator, fn.add_input(fn.create_accumulator(), part)])
        else:
            accumulator = fn.add_input(accumulator, part)
        added_up, fresh, parts = accumulator
        lengths.append(sum(map(len, parts)))
        assert lengths[-1] == added_up + fresh
    fn.compact(accumulator)
    assert max(lengths) <= 3 * pairs + 100 and joins
    assert sum(joins) <= 2 * 10 * 1000


def test_an_accumulator_that_is_merged_twice_counts_once_in_each():
    """More would be counted than a unit has, and noise made for less."""
    fn = Joined(lambda parts: [b"".join(parts)])
    first, other = (fn.add_input(fn.create_accumulator(), part) for part in (b"a", b"b"))
    for _ in range(2):
        assert fn.extract_output(fn.merge_accumulators([first, other])) == [b"a", b"b"]


# The budget


def test_a_budget_is_not_overspent_and_a_refusal_spends_nothing():
    table, budget = sf.scan(SCHEMA, privacy_unit="id"), sf.Budget(1, "1e-6")
    rows, places = table.bound(rows=1).agg(n=sf.count()), table.group_by("place").bound(groups=1)
    Release(rows, epsilon="0.5", budget=budget)
    Release(table.top("place", k=1, keys=["A", "B"]), epsilon="0.25", budget=budget)
    with pytest.raises(BudgetError, match="more than is left"):
        Release(rows, epsilon="0.5", budget=budget)
    with pytest.raises(BudgetError, match="more than is left"):
        Release(places.agg(people=sf.count_units()), epsilon="0.1", delta="2e-6", budget=budget)
    with pytest.raises(ParameterError, match="shards"):
        Release(rows, epsilon="0.1", shards=0, budget=budget)
    assert [spent.what for spent in budget.history] == ["n", "the 1 largest by place"]
    assert budget.remaining[:2] == (0.25, 5e-7)


@pytest.mark.long
def test_two_releases_of_a_question_pay_twice_and_draw_twice(run):
    budget, asked = sf.Budget("2e-10"), sf.scan(SCHEMA, privacy_unit="id").agg(n=sf.count_units())
    one, two = (asked.release(epsilon="1e-10", budget=budget) for _ in range(2))
    found = run(
        lambda p: (
            rows := p | beam.Create(visits().to_batches()),
            (rows | "one" >> one, rows | "two" >> two) | beam.Flatten(),
        )[-1]
    )
    assert budget.remaining == (0.0, 0.0, 0.0)
    # Noise of scale 10^10: two draws are equal with a chance below 1e-10.
    assert len({row["n"] for row in found}) == 2
