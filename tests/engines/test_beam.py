"""Releases on Apache Beam: what is particular to it. The suite over all engines is beside."""

from __future__ import annotations

import pickle
import random
import secrets
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.beam import Release
from sfumato.engines.beam import beam_release as release_module
from sfumato.engines.beam.beam_release import Joined, SumRows
from sfumato.errors import BudgetError, EngineError, ParameterError, QueryError
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


def test_both_ways_to_write_a_release(released):
    # One group has 73 units or more, and is left out with a chance below e^-1000.
    transform = Release(question(), **BIG, confidence=0.9, shards=3)
    assert transform.spent == question().release(**BIG).spent == (1e5, 1e-6)
    assert "epsilon" in str(transform.explain())
    (row, *_) = released(visits().to_pylist(), transform)
    assert list(row) == ["place", "n", "n_error", "people", "people_error", "total", "total_error"]
    assert row["total_error"] > 0


# Repeated work


@pytest.mark.long
def test_a_pipeline_that_runs_again_draws_the_same_noise_for_the_same_rows_and_other_noise_for_others(
    tmp_path,
):
    """Though other rows were killed half-way, with released numbers in hand; and nothing is left that looks complete."""
    rows, fatal, folder = tmp_path / "rows", str(tmp_path / "fatal"), str(tmp_path)

    def die_once(row):
        import os
        import signal

        if row["place"] == "p4" and os.path.exists(fatal):
            os.remove(fatal)
            os.kill(os.getpid(), signal.SIGKILL)
        return repr(sorted(row.items()))

    def rows_of_today(_):
        import pickle

        return pickle.loads((Path(folder) / "rows").read_bytes())

    pipeline = beam.Pipeline(runner="FnApiRunner")
    source = pipeline | beam.Create([0], reshuffle=False) | beam.FlatMap(rows_of_today)
    transform = question(keys=["p0", "p1", "p2", "p4"]).release(epsilon=0.1)
    source | transform | beam.Map(die_once) | beam.io.WriteToText(f"{folder}/out/released")
    described = tmp_path / "pipeline"
    described.write_bytes(pipeline.to_runner_api().SerializeToString())
    (tmp_path / "fatal").touch()
    outputs = []
    for given in (visits(), visits(), visits(), visits(901)):
        rows.write_bytes(pickle.dumps(given.to_pylist()))
        arguments = [sys.executable, "-c", RUN_AGAIN, str(described)]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        files = sorted((tmp_path / "out").glob("released*"))
        outputs.append(
            (done.returncode, sorted(line for file in files for line in file.read_text().splitlines()))
        )
    killed, once, again, other = outputs
    assert killed == (-signal.SIGKILL, [])
    assert once == again and once[0] == 0 and len(once[1]) == 4
    # One row more, in one group of one shard; what stands in this shard has noise of its own.
    assert other[0] == 0 and other[1] != once[1]


RUN_AGAIN = """
import logging, sys
logging.disable(logging.WARNING)
import apache_beam as beam
from apache_beam.portability.api import beam_runner_api_pb2
described = beam_runner_api_pb2.Pipeline.FromString(open(sys.argv[1], "rb").read())
runner = beam.runners.runner.create_runner("FnApiRunner")
beam.Pipeline.from_runner_api(described, runner, beam.options.pipeline_options.PipelineOptions([])).run()
"""


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


def test_a_bundle_that_failed_leaves_no_rows_to_the_next():
    fn = SumRows(question().release(epsilon=1, delta=1e-3)._work.stages)
    fn.start_bundle()
    for element in (*visits(9).to_pylist(), *visits(9).to_batches()):
        assert not [*fn.process(element)]
    fn.start_bundle()
    assert not [*fn.finish_bundle()]


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


def test_bundles_that_are_retried_or_cut_anew_draw_the_same_noise(monkeypatch):
    monkeypatch.setattr(sizes, "JOIN_PARTS", 1)
    monkeypatch.setattr(sizes, "SHUFFLE_BYTES", 0)
    monkeypatch.setattr(sizes, "SHUFFLE_PARTS", 1)
    # Of 97 units each is in three of four groups, so one group has 73 and is left out with a chance below e^-1000.
    # Sums have noise of 2^30 steps or more and counts some: two releases are equal with a chance below 10^-9.
    transform = Release(question(), epsilon=10, delta="0.01", shards=3)
    attempts = [in_the_worker(transform, visits(), seed) for seed in range(3)]
    assert attempts[0]
    assert all(attempt == attempts[0] for attempt in attempts)
    other = in_the_worker(Release(question(), epsilon=10, delta="0.01", shards=3), visits(), 0)
    assert other != attempts[0]


def test_a_planted_secret_of_the_attempt_is_found(monkeypatch):
    monkeypatch.setattr(release_module, "_drawn", fresh_in_the_worker)
    transform = question(keys=["p0", "p1"]).release(epsilon=0.1, noise="laplace")
    with pytest.raises(AssertionError):
        in_the_worker(transform, visits(), 0)


# Before a pipeline runs


REFUSED = [
    (lambda: sf.scan(pa.schema([]), privacy_unit="id"), EngineError, "at least the one"),
    (lambda: sf.scan(SCHEMA, privacy_unit="user"), QueryError, "no column 'user'"),
    (lambda: question().release(epsilon=1), BudgetError, "delta is 0"),
    (lambda: Release(question(), epsilon=1, delta=1e-6, shards=0), ParameterError, "shards"),
    (lambda: Release(question(), epsilon=1, delta=1e-6, confidence=1.5), ParameterError, "confidence"),
    (lambda: Release("SELECT 1", epsilon=1), ParameterError, "question"),
    (lambda: Release(question(rows=visits()), epsilon=1, delta=1e-6), QueryError, "rows on DuckDB"),
]  # fmt: skip


def test_what_cannot_be_answered_is_refused_when_it_is_made():
    for make, error, words in REFUSED:
        with pytest.raises(error, match=words):
            make()


# Failures


@pytest.mark.long
@pytest.mark.parametrize("stage", ["partials", "joined_totals", "merged"])
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


# Accumulators


@pytest.mark.parametrize(("pairs", "merged"), [(50, False), (200, True), (10**6, True)])
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
