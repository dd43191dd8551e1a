"""Utility analysis: bias, choice and noise are those of what the engine does, over many releases of it."""

import math

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import RefusalError
from sfumato.guidance.expected_error import chances
from sfumato.guidance.unit_contributions import Share
from sfumato.measurements import TruncatedGeometric
from sfumato.measurements.int128_array import Int128Array
from sfumato.noise import SeededWords
from sfumato.plan.noisy_statistics import NoisyNumbers
from sfumato.plan.planning import make_plan

RNG = np.random.default_rng(18)
SIZE = 1500
UNIT = (120 * RNG.random(SIZE) ** 2).astype(int)
X = RNG.gamma(2, 5, SIZE)
ROWS = pa.table(
    {
        "id": pa.array(UNIT, mask=UNIT == 3),
        "town": [f"T{int(i)}" for i in 6 * RNG.random(SIZE) ** 2],
        "x": pa.array(np.where(X > 30, np.inf, np.where(X < 0.5, np.nan, X)), mask=RNG.random(SIZE) < 0.1),
        "k": (RNG.normal(0, 9, SIZE)).astype(int),
    }
)
TOWNS = [f"T{i}" for i in range(7)]  # of which the last has no rows
ASKED = {
    "n": sf.count(),
    "people": sf.count_units(),
    "has": sf.count("x"),
    "per_unit": sf.sum("k", lower=-5, upper=20),
    "lacking": sf.sum("x", lower=3, upper=20, per="unit"),
    "per_row": sf.sum("x", lower=0, upper=20, per="row"),
    "mean": sf.mean("x", lower=0, upper=20),
    "var": sf.variance("x", lower=0, upper=20),
    "sd": sf.stddev("k", lower=-10, upper=10),
    "each": sf.ratio("n", "people"),
    "more": sf.difference("n", "people"),
}
GRID = {"groups": [1, 4], "rows": [1, 2], "bounds": {"mean": [(0, 20), (2, 8)]}}


def question(keys=TOWNS, beyond="auto", rows=ROWS, **asked):
    table = (
        sf.scan(rows, privacy_unit="id").group_by("town", keys=keys).bound(groups=2, rows=1, beyond=beyond)
    )
    return table.agg(**(asked or ASKED))


def plan_of(question, limits, **options):
    """Return the plan of one point."""
    return make_plan(limits._limited(question.query), **options)


def exact_outputs(plan, engine, salt):
    """Return what a release without noise would show."""
    batches = list(engine.statistics(plan.exact, 1 << 16, salt))
    (batch,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    columns = plan.measurement.columns(batch)
    values = {name: Int128Array.from_arrow(columns[name]).scaled(step) for name, step in plan.steps.items()}
    numbers = NoisyNumbers(values, {}, plan.laws, plan.steps)
    keys = batch.column(0).to_pylist()
    return {
        e.name: dict(zip(keys, e.value(numbers).tolist(), strict=True)) for e in plan.requirements.estimates
    }


def expected(point, keys, name):
    cell = point.cells[name]
    return dict(zip(keys, (cell.exact + cell.bias).tolist(), strict=True))


@pytest.fixture(
    params=[
        {"noise": "laplace"},
        pytest.param({"noise": "k_norm"}, marks=pytest.mark.long),
        pytest.param({"noise": "gaussian", "delta": 1e-6}, marks=pytest.mark.long),
    ],
    ids=str,
)
def options(request):
    return {"epsilon": 1, **request.param}


@pytest.mark.noise_cannot_matter("of scaled units the exact numbers are compared; none is drawn but by seeds")
def test_of_units_in_part_the_bias_is_the_engines_own(options):
    """Groups are public, a unit beyond the limit counts in part: the engine's exact outputs are expected."""
    asked = question()
    found = asked.analyze(**options, **GRID)
    keys = found.keys["town"].to_pylist()
    assert keys == TOWNS and len(found.points) == 8
    for point in found.points:
        plan = plan_of(asked, point.limits, **options)
        assert plan.query.scaled
        engine = exact_outputs(plan, asked.table._engine, 1)
        for name in found.outputs:
            got = expected(point, keys, name)
            for town in TOWNS[:-1]:  # of no rows there is no exact mean to compare with
                noise = point.cells[name].noise[keys.index(town)]
                assert got[town] == pytest.approx(engine[name][town], rel=1e-6, abs=1e-5 * noise), (
                    name,
                    town,
                )
            assert not point.cells[name].choice.any()


def test_it_is_what_pipelinedp_defines():
    """Its utility analysis of counts, privacy ids and sums of units, written down once more, row by row.

    Source: PipelineDP, analysis/per_partition_combiners.py, SumCombiner, CountCombiner, PrivacyIdCountCombiner: what
    clipping changes, and what a limit of l partitions leaves of a unit in j of them, by the probability
    min(1, l / j), with the deviation of that coin.
    """
    limit, rows, low, high = 2, 3, -5.0, 20.0
    asked = question(None, "sample", n=ASKED["n"], people=ASKED["people"], per_unit=ASKED["per_unit"])
    (point,) = (found := asked.analyze(epsilon=1, delta=1e-6, groups=limit, rows=rows)).points
    pairs: dict[tuple[int, str], list[int]] = {}
    for row in ROWS.to_pylist():
        if row["id"] is not None:
            pairs.setdefault((row["id"], row["town"]), []).append(row["k"])
    partitions: dict[int, int] = {}
    for unit, _ in pairs:
        partitions[unit] = partitions.get(unit, 0) + 1
    for i, town in enumerate(found.keys["town"].to_pylist()):
        for name, of, bounds in (
            ("n", len, (0, rows)),
            ("people", lambda _: 1, (0, 1)),
            ("per_unit", sum, (low, high)),
        ):
            bias = variance = 0.0
            for (unit, where), values in pairs.items():
                if where == town:
                    keep, raw = min(1, limit / partitions[unit]), of(values)
                    clipped = min(max(raw, bounds[0]), bounds[1])
                    bias += clipped - raw - clipped * (1 - keep)
                    variance += clipped**2 * keep * (1 - keep)
            assert point.cells[name].bias[i] == pytest.approx(bias, rel=1e-9, abs=1e-9)
            assert point.cells[name].choice[i] == pytest.approx(math.sqrt(variance), rel=1e-6)


def test_the_chance_to_be_shown_is_that_of_a_sum_of_coins():
    """Beside the distribution of a sum of coins that differ, by convolution."""
    rule = TruncatedGeometric("0.5", "1e-4")
    for coins in ([0.5] * 30, [1 / 3] * 10 + [1.0] * 12, [0.1] * 150, [1.0] * 17, [0.9] * 3 + [0.2] * 60):
        law = np.ones(1)
        for p in coins:
            law = np.convolve(law, [1 - p, p])
        want = sum(law[n] * rule.chance(n) for n in range(len(law)))
        p = np.array(coins)
        moments = [p.sum(), (p * (1 - p)).sum(), (p * (1 - p) * (1 - 2 * p)).sum()]
        got = chances(rule, *(np.array([m]) for m in moments))[0]
        assert got == pytest.approx(want, abs=0.005), coins
    assert Share(2).part(5) == 0.4


def test_a_table_for_analysts_refuses_and_what_is_made_of_it():
    table = sf.scan(ROWS, privacy_unit="id")
    other = sf.scan(ROWS.select(["id", "k"]), privacy_unit="id")
    for closed in (
        table.for_analysts(),
        table.for_analysts().filter("k > 0"),
        table.for_analysts().join(other, on="id"),
        table.join(other.for_analysts(), on="id"),
        table.union(table.for_analysts()),
        table.for_analysts().per_unit("town", n="count(*)"),
        table.for_analysts().sql("SELECT id, town FROM self"),
        other.sql(
            "SELECT s.id, t.town FROM self AS s JOIN t ON s.id = t.id", tables={"t": table.for_analysts()}
        ),
    ):
        asked = closed.bound(groups=1, rows=1).agg(n=sf.count())
        with pytest.raises(RefusalError, match="opened for analysts"):
            asked.analyze(epsilon=1)
        with pytest.raises(RefusalError, match="check: .*opened for analysts"):
            sf.check(asked)
        with pytest.raises(RefusalError, match="unsafe_words: .*opened for analysts"):
            asked.release(epsilon=1, unsafe_words=SeededWords(1))
        with pytest.raises(RefusalError, match="unsafe_words: .*opened for analysts"):
            asked.diagnose(epsilon=1, unsafe_words=SeededWords(1))
        assert asked.plan(epsilon=1)
    assert table.join(other, on="id").bound(rows=1).agg(n=sf.count()).analyze(epsilon=1).points
