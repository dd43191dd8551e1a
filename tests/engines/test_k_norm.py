"""K-norm noise where rows are on many machines: one draw for all public groups, whoever has summed them, and when."""

from __future__ import annotations

import pickle
import random
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scipy.stats import gamma

import sfumato as sf
from sfumato.audit import VectorLaw, closeness
from sfumato.engines.beam.engine import BeamEngine
from sfumato.engines.duckdb.engine import DuckDBEngine
from sfumato.engines.duckdb.stages import Stages
from sfumato.engines.work import MOST_WITH_VALUES, Work, digest
from sfumato.errors import EngineError, ParameterError
from sfumato.noise import KeyedWords, SeededWords
from sfumato.noise.k_norm import JointNoise, LimitedNoise, SeparateNoise

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
# What is asked, public keys, groups of a unit, the noise that is chosen.
CASES = {
    "a count": ({"n": sf.count()}, KEYS, 9, JointNoise),
    "all groups": (NUMBERS, KEYS, 9, JointNoise),
    "some groups": (NUMBERS, KEYS, 3, LimitedNoise),
    "one group": (NUMBERS, KEYS, 1, SeparateNoise),
    "private groups": (NUMBERS, None, 3, SeparateNoise),
    "quantiles of all groups": (QUANTILES, KEYS, 9, JointNoise),
    "quantiles of some groups": (QUANTILES, KEYS, 3, LimitedNoise),
    "quantiles of private groups": (QUANTILES, None, 3, SeparateNoise),
    "the whole table": (QUANTILES, "none", 1, JointNoise),
}
TOGETHER = [name for name, (*_, kind) in CASES.items() if kind is not SeparateNoise]
# Fixed, so that no test depends on chance.
SECRET = sha256(b"a secret of tests").digest()


def question(case: str, rows=ROWS):
    asked, keys, groups, _ = CASES[case]
    table = sf.scan(rows, privacy_unit="id")
    grouped = table if keys == "none" else table.group_by("g", keys=keys)
    return grouped.bound(groups=groups, rows=2).agg(**asked)


@cache
def work_of(case: str, epsilon=1, confidence: float | None = None) -> Work:
    """Return what workers do, as it reaches them."""
    delta = 1e-6 if "private" in case else 0
    plan = question(case).plan(epsilon=epsilon, delta=delta, noise="k_norm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("secrets.randbits", lambda bits: 7)  # the choice of a unit's groups
        stages = Stages.of(DuckDBEngine.open(ROWS), ROWS.schema, plan.exact, SHARDS)
    work = Work.of(plan, stages, confidence)
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


def numbers(work: Work, seed: int = 0, rows: pa.Table = ROWS) -> list[dict]:
    """Return released rows by key; ."""
    found = []
    for shard, parts in parts_of(work.stages, seed, rows):
        first, again = ([*work.released(shard, p)] for p in (parts, parts[::-1]))
        assert first == again, "work that is repeated"
        found += [row for batch in first for row in batch.to_pylist()]
    return sorted(found, key=lambda row: str(row.get("g")))


@dataclass(frozen=True)
class ByArrival(Work):
    """A planted defect: groups are noised in the order in which they arrived."""

    def noisy(self, shard, payloads):
        parts = list(payloads)
        merged = pa.Table.from_batches([*self.stages.merged(shard, parts, 100)])
        order = pa.array(np.argsort([sha256(bytes([n]) + parts[0]).digest() for n in range(merged.num_rows)]))
        (batch,) = merged.take(order).combine_chunks().to_batches()
        yield self.noising.draw(batch, KeyedWords(self.secret, digest(batch)))


@dataclass(frozen=True)
class ByCall(Work):
    """A planted defect: the words of a draw go on from those of the draw before."""

    def noisy(self, shard, payloads):
        for batch in self.stages.merged(shard, payloads, 100):
            yield self.noising.draw(batch, WORDS)


WORDS = SeededWords(5)


@pytest.mark.parametrize("case", CASES)
def test_one_secret_has_the_same_numbers_whatever_the_order_the_parts_and_the_retries(case):
    work = merged(case)[0]
    assert isinstance(work.noising.together, CASES[case][3])
    assert work.stages.group_shards == (1 if case in TOGETHER else SHARDS)
    first = numbers(work)
    assert len(first) >= (1 if case == "the whole table" else 7)
    assert numbers(replace(work, stages=replace(work.stages, unit_shards=3)), seed=1) == first
    shard, parts = merged(case)[1][0]
    assert [*work.released(shard, parts)] != [*replace(work, secret=SECRET[::-1]).released(shard, parts)]


@pytest.mark.parametrize("defect", [ByArrival, ByCall])
def test_a_draw_that_depends_on_the_order_is_found(defect):
    work = work_of("some groups")
    with pytest.raises(AssertionError, match="work that is repeated"):
        numbers(defect(work.stages, work.noising, secret=SECRET))


@pytest.mark.parametrize("case", ["a count", "some groups"])
def test_groups_that_are_noised_apart_are_refused(case):
    work = work_of(case)
    apart = replace(work, stages=replace(work.stages, shards=SHARDS))
    with pytest.raises(EngineError, match="came where noise is for 9 together"):
        numbers(apart)


@pytest.mark.parametrize("case", CASES)
def test_exact_statistics_are_those_of_one_machine(case):
    work, parts = merged(case)
    found = [batch for shard, own in parts for batch in work.stages.merged(shard, own, 100)]
    engine = DuckDBEngine.open(ROWS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("secrets.randbits", lambda bits: 7)
        expected = [*engine.statistics(work.stages.query, 100)]
    assert by_key(found) == by_key(expected)


def by_key(batches: list[pa.RecordBatch]) -> list[str]:
    return sorted(map(str, pa.Table.from_batches(batches).to_pylist()))


def test_at_a_large_epsilon_the_numbers_are_the_exact_ones():
    """Noise rounds away, and places are next to what they are aimed at."""
    for row in numbers(work_of("quantiles of all groups", 10**5)):
        own = ROWS.filter(pc.equal(ROWS["g"], row["g"]))
        assert row["n"] == own.num_rows
        values = sorted(v for v in own["x"].to_pylist() if v is not None)
        for rank, name in ((0.25, "q_25"), (0.5, "q_50")) if values else ():
            place = round(rank * len(values))
            assert values[place - 2] <= row[name] <= values[place + 1]


@pytest.mark.parametrize("case", ["a count", "private groups"])
def test_error_bars_and_explanation_are_those_of_one_machine(case):
    """Bars of counts follow from the noise alone."""
    delta = {"delta": 1e-6} if "private" in case else {}
    release = question(case).release(
        epsilon=20, **delta, noise="k_norm", confidence=0.9, unsafe_words=SeededWords(1)
    )
    expected = release.to_arrow()
    work = work_of(case, 20, 0.9)
    found = numbers(work)
    assert work.schema.equals(expected.schema) and [*found[0]] == expected.column_names
    assert {row["n_error"] for row in found} == set(expected["n_error"].to_pylist())
    transform = question(case, SCHEMA).release(epsilon=20, **delta, noise="k_norm")
    assert transform.spent == release.spent
    one, other = (made.explain().to_dict() for made in (transform, release))
    assert one["statistics"] == other["statistics"] and one["budget"] == other["budget"]


# The law of what is released.


def drawn(work: Work, exact: pa.RecordBatch, secret: bytes) -> np.ndarray:
    """Return the noise of one release of given exact statistics, in grid steps: (coordinates, groups)."""
    work = replace(
        work, stages=SimpleNamespace(has_trees=False, merged=lambda *_: iter([exact])), secret=secret
    )
    (batch,) = work.noisy(0, ())
    steps = work.noising.steps
    columns = work.noising.columns(exact)
    return np.array(
        [
            [
                float(v) / float(steps[name]) - float(e)
                for v, e in zip(values, columns[name].to_pylist(), strict=True)
            ]
            for name, values in batch.numbers.values.items()
        ]
    )


@dataclass(frozen=True)
class EachByItself(Work):
    """A planted defect: each group has noise of its own, of the scale for all together."""

    def noisy(self, shard, payloads):
        noise = self.noising.together
        apart = replace(self.noising, together=SeparateNoise(noise.cone, noise.scales))
        yield from Work.noisy(replace(self, noising=apart), shard, payloads)


@pytest.mark.parametrize("kind", [Work, EachByItself])
def test_noise_of_all_groups_has_the_norm_that_it_should(kind):
    found = work_of("a count", "1e-6")  # noise beside which rounding is nothing
    (exact,) = found.stages.merged(0, merged("a count")[1][0][1], 100)
    work = kind(found.stages, found.noising)
    sample = np.array([drawn(work, exact, sha256(f"{i}".encode()).digest()) for i in range(400)])
    (scale,) = map(float, work.noising.together.scales)

    def norm(x):
        return np.maximum(x, 0).max(axis=(1, 2)) + np.maximum(-x, 0).max(axis=(1, 2))

    law = VectorLaw({"norm": (norm, gamma(9, scale=scale).cdf)})
    assert closeness(sample, law).passed is (kind is Work)


def test_one_person_more_changes_the_noise_of_all_groups_and_nothing_else():
    """No type, no order, no number of batches; and as all noise is another, no difference of two looks is exact."""
    work = work_of("some groups", "1e-6")
    came, elsewhere = (
        pa.concat_tables([ROWS, pa.table({"id": [10**6], "g": [g], "x": [1.0]})]) for g in (3, 77)
    )
    before, after, as_before = (released(work, rows) for rows in (ROWS, came, elsewhere))
    assert before == as_before  # a row of no public group
    assert before["g"] == after["g"] == pa.chunked_array([KEYS]) and before.schema == after.schema
    assert not any(pc.equal(before["n"], after["n"]).to_pylist())


def released(work: Work, rows: pa.Table) -> pa.Table:
    ((shard, parts),) = parts_of(work.stages, 0, rows)
    (batch,) = work.released(shard, parts)
    return pa.Table.from_batches([batch])


def test_no_noise_is_drawn_for_the_columns_of_a_release(monkeypatch):
    def fail(self, *given):
        raise AssertionError("drawn")

    for kind in (JointNoise, LimitedNoise, SeparateNoise):
        monkeypatch.setattr(kind, "rounded", fail)
    for case in CASES:
        names = work_of(case, 1, 0.9).schema.names
        assert names[-1].endswith("_error") and len(names) == len(set(names))


# What is too large for one place.


def wide(groups: int, limit: int, rows=SCHEMA, **asked):
    table = sf.scan(rows, privacy_unit="id").group_by("g", keys=list(range(groups)))
    return table.bound(groups=limit, rows=1).agg(**asked)


def test_values_of_many_groups_in_one_place_are_refused_before_a_row_is_read():
    most = MOST_WITH_VALUES
    assert most == 1024  # as docs/limits.md says
    wide(most, most, **QUANTILES).release(epsilon=1, noise="k_norm")
    with pytest.raises(
        ParameterError, match=r"1,025 public groups .* one place, and 1,024 are the most; write 'laplace'"
    ):
        wide(most + 1, most + 1, **QUANTILES).release(epsilon=1, noise="k_norm")
    # Numbers alone, and groups that are noised apart, are no reason.
    wide(most + 1, most + 1, **NUMBERS).release(epsilon=1, noise="k_norm")
    wide(most + 1, 1, **QUANTILES).release(epsilon=1, noise="k_norm")
    with pytest.raises(ParameterError, match="each of more than 65,536 groups"):
        wide(65_537, 65_537, **NUMBERS).release(epsilon=1, noise="k_norm")
    assert isinstance(wide(2, 1, **NUMBERS).table.engine, BeamEngine)
