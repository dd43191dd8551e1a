"""K-norm noise where rows are on many machines: one draw for all public groups, whoever has summed them, and when."""

import pickle
import random
from dataclasses import replace
from functools import cache
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.duckdb.stages import Stages
from sfumato.engines.worker_noise import Work
from sfumato.errors import EngineError
from sfumato.noise.centred_noise import CentredGaussian
from sfumato.noise.k_norm import JointNoise, SeparateNoise
from sfumato.noise.level_noise import LevelsGaussian
from sfumato.noise.series_noise import SeriesGaussian, TreeLaplace

ORDER = np.arange(420)
SCHEMA = pa.schema([("id", pa.int64()), ("g", pa.int64()), ("x", pa.float64())])
ROWS = pa.table(
    {
        "id": ORDER // 3,
        "g": (ORDER + ORDER // 3) % 7,
        "x": pa.array([None if i % 13 == 5 else i * i % 97 / 4 for i in ORDER.tolist()]),
    }
)
KEYS = list(range(9))  # two of which nobody is in
SHARDS = 2
NUMBERS = {
    "n": sf.count(),
    "people": sf.count_units(),
    "m": sf.mean("x", lower=0, upper=20),
}
QUANTILES = {"n": sf.count(), "q": sf.quantiles("x", [0.25, 0.5], lower=0, upper=30)}
MEANS = {"n": sf.count(), "m": sf.mean("x", lower=0, upper=20)}
SUMS = {"c": sf.cumulative(sf.count()), "s": sf.cumulative(sf.sum("x", lower=0, upper=20))}
# What is asked, public keys, groups of a unit, the noise that is chosen.
CASES = {
    "a count": ({"n": sf.count()}, KEYS, 9, JointNoise),
    "all groups": (NUMBERS, KEYS, 9, JointNoise),
    "some groups": (NUMBERS, KEYS, 8, JointNoise),
    "private groups": (NUMBERS, None, 3, SeparateNoise),
    "quantiles of all groups": (QUANTILES, KEYS, 9, JointNoise),
    "quantiles of private groups": (QUANTILES, None, 3, SeparateNoise),
    # Whose noise has a part in common in all groups: one draw, too.
    "gaussian": (MEANS, KEYS, 9, CentredGaussian),
    "steps of time": ({"n": sf.count()} | SUMS, KEYS, 3, SeriesGaussian),
    "steps of time, no delta": (SUMS, KEYS, 3, TreeLaplace),
    "totals": (MEANS, KEYS, 3, LevelsGaussian),
}
GAUSSIAN = ("gaussian", "steps of time", "totals")
TOGETHER = [name for name, (*_, kind) in CASES.items() if not issubclass(kind, SeparateNoise)]
# Fixed, so that no test depends on chance.
SECRET = sha256(b"a secret of tests").digest()


def question(case: str, rows=ROWS):
    asked, keys, groups, _ = CASES[case]
    table = sf.scan(rows, privacy_unit="id")
    grouped = table if keys == "none" else table.group_by("g", keys=keys)
    grouped = grouped.totals(integer=True) if case == "totals" else grouped
    return grouped.bound(groups=groups, rows=2).agg(**asked)


def budget(case: str) -> dict:
    delta = 1e-6 if case in GAUSSIAN or "private" in case else 0
    noise = "gaussian" if case in GAUSSIAN else "laplace" if "no delta" in case else "k_norm"
    return {"delta": delta, "noise": noise}


@cache
def work_of(case: str, epsilon=1, confidence: float | None = None) -> Work:
    """Return what workers do, as it reaches them."""
    plan = question(case).plan(epsilon=epsilon, **budget(case))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("secrets.randbits", lambda bits: 7)  # the choice of a unit's groups
        stages = Stages.prepare(DuckDBEngine.open(ROWS), ROWS.schema, plan.exact, SHARDS)
    work = Work.prepare(plan, stages, confidence)
    return pickle.loads(pickle.dumps(replace(work, secret=SECRET)))


def parts_of(stages: Stages, seed: int, rows: pa.Table = ROWS) -> list[tuple[int, list[bytes]]]:
    """Return shards of groups with their parts, of rows that came in some order and in some pieces."""
    chance = random.Random(seed)
    rows = rows.select(stages.rows.names).take(chance.sample(range(rows.num_rows), rows.num_rows))
    cut = chance.randint(1, rows.num_rows - 1)
    units = gathered(
        [p for part in (rows[:cut], rows[cut:]) for p in stages.partials(part.to_batches())], chance
    )
    totals = [p for _, parts in units for p in stages.totals(parts)]
    found = dict(gathered(totals, chance))
    return [(shard, found.get(shard, [])) for shard in range(stages.group_shards)]


def gathered(payloads, chance: random.Random) -> list[tuple[int, list[bytes]]]:
    by_shard: dict[int, list[bytes]] = {}
    for payload in chance.sample(payloads, len(payloads)):
        by_shard.setdefault(payload.shard, []).append(payload.data)
    return list(by_shard.items())


@cache
def merged(case: str) -> tuple[Work, list[tuple[int, list[bytes]]]]:
    """Return what workers do, and what the last of them have of all rows."""
    work = work_of(case, 20 if "private" in case else 1)  # so that groups are shown
    return work, parts_of(work.stages, 0)


def outputs(work: Work, shards: list[tuple[int, list[bytes]]]) -> pa.Table:
    """Do what the last workers do."""
    if work.measurement.at_once:
        return pa.Table.from_batches(
            [*work.drawn_jointly([(s, work.gathered(s, parts)) for s, parts in shards])]
        )
    return pa.Table.from_batches([b for s, parts in sorted(shards) for b in work.released(s, parts)])


def numbers(work: Work, seed: int = 0, rows: pa.Table = ROWS) -> list[dict]:
    """Return released rows by key; the work is done twice, on parts and shards that come in two orders."""
    shards = parts_of(work.stages, seed, rows)
    found = outputs(work, shards)
    again = outputs(work, [(shard, parts[::-1]) for shard, parts in shards[::-1]])
    assert found.equals(again), "work that is repeated"
    return sorted(found.to_pylist(), key=lambda row: str(row.get("g")))


FEW = "gaussian", "steps of time", "totals", "some groups", "private groups", "quantiles of all groups"


@pytest.mark.parametrize("case", [pytest.param(c, marks=[pytest.mark.long] * (c not in FEW)) for c in CASES])
def test_one_secret_has_the_same_numbers_whatever_the_order_the_parts_and_the_retries(case):
    work, shards = merged(case)
    assert isinstance(work.measurement.noise, CASES[case][3])
    assert work.measurement.at_once is (case in TOGETHER)
    assert work.places == (1 if case in TOGETHER else SHARDS)
    first = numbers(work)
    assert len(first) >= (1 if case == "the whole table" else 7)
    assert numbers(replace(work, stages=replace(work.stages, unit_shards=3)), seed=1) == first
    assert outputs(work, shards) != outputs(replace(work, secret=SECRET[::-1]), shards)
    # Exact statistics are those of one machine.
    found = [batch for shard, own in shards for batch in work.stages.merged(shard, own, 100)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("secrets.randbits", lambda bits: 7)
        expected = [*DuckDBEngine.open(ROWS).statistics(work.stages.query, 100)]
    assert by_key(found) == by_key(expected)


def by_key(batches: list[pa.RecordBatch]) -> list[str]:
    return sorted(map(str, pa.Table.from_batches(batches).to_pylist()))


@pytest.mark.parametrize("case", ["a count", "some groups"])
def test_groups_that_are_noised_apart_or_twice_are_refused(case):
    work, shards = merged(case)
    (shard, parts), *_ = shards
    with pytest.raises(EngineError, match="came where noise is for 9 together"):
        list(work.noisy(shard, parts))
    sent = [(shard, work.gathered(shard, parts)) for shard, parts in shards]
    with pytest.raises(EngineError, match="came where noise is for 9 together"):
        list(work.drawn_jointly([*sent, sent[0]]))


@pytest.mark.long
def test_no_row_changes_the_types_of_what_comes_together():
    """Huge sums, NaN, a NULL among the keys, shards without a row, no row at all."""
    schema = SCHEMA.set(1, pa.field("g", pa.string())).append(pa.field("i", pa.int64()))
    awkward = [
        [1, 2, 3, 4],
        ["a", None, "nan", "zz"],
        [1e300, -1e300, None, float("nan")],
        [2**62, -(2**62), 5, None],
    ]
    table = sf.scan(schema, privacy_unit="id").group_by("g", keys=["a", None, "nan", "b"])
    asked = table.bound(groups=4, rows=3).agg(
        s=sf.sum("i", lower=-(2**62), upper=2**62),
        v=sf.variance("x", lower=-1e90, upper=1e90),
        q=sf.quantiles("i", 0.5, lower=0, upper=10),
        r=sf.quantiles("x", 0.5, lower=-1e90, upper=1e90, error_bars=False),
    )
    work = replace(asked.release(epsilon=1, noise="k_norm")._work, secret=SECRET)
    rows = pa.table(awkward, schema=schema)
    for some in (rows, rows[:1], rows[:0]):
        units = [p.data for p in work.stages.partials(some.to_batches())]
        found = dict(gathered([*work.stages.totals(units)], random.Random(0)))
        sent = [(s, work.gathered(s, found.get(s, []))) for s in range(work.stages.group_shards)]
        (batch,) = work.drawn_jointly(sent)
        assert sorted(map(str, batch["g"].to_pylist())) == ["None", "a", "b", "nan"]
        assert batch.schema == work.schema and not any(c.null_count for c in batch.columns[1:])
