"""Releases on Apache Beam: what is particular to it. The suite over all engines is beside."""

from __future__ import annotations

import pickle
import random

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.beam import Release
from sfumato.engines.beam import beam_release as release_module
from sfumato.engines.beam.beam_release import Joined, SumRows
from sfumato.errors import BudgetError, ParameterError
from sfumato.query import sizes

SCHEMA = pa.schema([("id", pa.int64()), ("place", pa.string()), ("x", pa.float64())])


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


# Repeated work


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


# Failures


# Accumulators


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
    with pytest.raises(BudgetError, match="exceeds what is left"):
        Release(rows, epsilon="0.5", budget=budget)
    with pytest.raises(BudgetError, match="exceeds what is left"):
        Release(places.agg(people=sf.count_units()), epsilon="0.1", delta="2e-6", budget=budget)
    with pytest.raises(ParameterError, match="shards"):
        Release(rows, epsilon="0.1", shards=0, budget=budget)
    assert [spent.what for spent in budget.history] == ["n", "the 1 largest by place"]
    assert budget.remaining[:2] == (0.25, 5e-7)
