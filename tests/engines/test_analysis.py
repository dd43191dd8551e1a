"""Utility analysis: bias, choice and noise are those of what the engine does, over many releases of it."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.duckdb.source_reader import Reader
from sfumato.errors import ParameterError, QueryError, RefusalError
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
    return make_plan(limits._of(question.query), **options)


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


DRAWS = 3000


@pytest.mark.long
@pytest.mark.noise_cannot_matter("the words are seeded")
def test_noise_is_that_of_many_releases(options):
    """Of 3,000 releases the spread about the exact outputs is as expected: of means of few rows, too."""
    asked = question()
    found = asked.analyze(**options, groups=2, rows=1)
    (point,) = found.points
    plan = plan_of(asked, point.limits, **options)
    exact = exact_outputs(plan, asked.table._engine, 1)
    (batch,) = (
        pa.Table.from_batches(list(asked.table._engine.statistics(plan.exact, 1 << 16)))
        .combine_chunks()
        .to_batches()
    )
    words = SeededWords(7)
    noisy = [plan.measurement.draw(batch, words) for _ in range(DRAWS)]
    for name in found.outputs:
        e = next(e for e in plan.requirements.estimates if e.name == name)
        values = np.array([np.asarray(e.value(b.numbers)) for b in noisy])
        for i, town in enumerate(TOWNS):
            if name == "each" and town == TOWNS[-1]:
                continue  # one noise over another has no deviation
            spread = np.sqrt(np.mean((values[:, i] - exact[name][town]) ** 2))
            assert point.cells[name].noise[i] == pytest.approx(spread, rel=0.12), (name, town)


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
    assert Share(2).of(5) == 0.4


def test_odd_rows():
    """No rows, no unit, one unit with all rows, NaN and infinities: numbers, and no error."""
    asked = {
        "n": sf.count(),
        "has": sf.count("x"),
        "s": sf.sum("x", lower=0, upper=10),
        "m": sf.mean("x", lower=0, upper=10),
    }
    tables = {
        "none": ROWS.slice(0, 0),
        "no unit": pa.table({"id": pa.array([None, None], pa.int64()), "town": ["A", "B"], "x": [1.0, 2.0]}),
        "one unit": pa.table(
            {"id": [7] * 500, "town": [f"T{i % 9}" for i in range(500)], "x": [float(i) for i in range(500)]}
        ),
        "odd": pa.table(
            {"id": [1, 2, 3, 4], "town": ["A", None, "A", "A"], "x": [math.inf, -math.inf, math.nan, 1e308]}
        ),
    }
    for name, rows in tables.items():
        for keys in (None, ["A", "T1"]):
            found = question(keys, rows=rows, **asked).analyze(
                epsilon=1, delta=1e-6, noise="laplace", groups=[1, 3], rows=[1, 7]
            )
            totals = found.to_arrow().to_pylist()
            assert len(totals) == 16 and str(found) and found.best() in [p.limits for p in found.points]
            if name == "odd" and keys:
                groups = found.to_arrow(by_group=True).to_pylist()
                means = [r["exact"] for r in groups if r["output"] == "m" and r["town"] == "A"]
                assert means[0] == pytest.approx((10 + 1e120) / 2)  # infinite counts as the bound
                assert next(r["exact"] for r in groups if r["output"] == "has" and r["town"] == "A") == 2
            if name == "one unit" and keys is None:
                bias = [r["bias"] for r in found.to_arrow(by_group=True).to_pylist() if r["output"] == "n"]
                assert bias[0] == pytest.approx(1 / 9 - 56)


BAD = [
    ({"groups": [1, 0]}, ParameterError, "groups is 0, but must be"),
    ({"groups": 10**9 + 1}, ParameterError, "beyond which it limits nothing"),
    ({"bounds": {"n": [(0, 1)]}}, QueryError, "which has none"),
    ({"bounds": {"mean": [(3, 1)]}}, ParameterError, "below upper"),
    ({"groups": list(range(1, 402))}, ParameterError, "at most 400"),
]


def test_a_bad_grid_is_refused_before_anything_is_read(monkeypatch):
    monkeypatch.setattr(DuckDBEngine, "contributions", lambda *_: pytest.fail("rows are read"))
    for given, kind, text in BAD:
        with pytest.raises(kind, match=text):
            question().analyze(epsilon=1, **given)


def test_noise_over_noise_has_no_finite_error():
    asked = question(None, n=sf.count(), s=sf.sum("k", lower=-1, upper=1), r=sf.ratio("s", "n"))
    found = asked.analyze(epsilon=1e-3, delta=1e-9, noise="laplace", groups=[1, 2])
    assert all(e > 0 for e in found.to_arrow()["error"].to_pylist()) and found.best("r")
    with pytest.raises(QueryError, match="analyze: the bounds of m are 'auto'"):
        question(None, m=sf.mean("k", lower=0, upper="auto")).analyze(epsilon=1, delta=1e-6)


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


def test_it_says_that_it_is_not_private(tmp_path):
    asked = question(None, n=ASKED["n"], mean=ASKED["mean"])
    found = asked.analyze(epsilon=1, delta=1e-6, groups=[1, 2, 4], rows=[1, 3])
    assert type(found).__name__ == "NonPrivateAnalysis" and str(found).startswith("NOT PRIVATE")
    found.plot(tmp_path / "map.svg")
    assert "NOT PRIVATE" in (tmp_path / "map.svg").read_text()
    frame = found.to_pandas(by_group=True)
    assert len(frame) == len(found.to_polars(by_group=True)) == 6 * 2 * found.keys.num_rows


def test_the_rows_are_read_once(monkeypatch):
    """One query, whatever the grid."""
    times = []
    right = Reader._reading
    monkeypatch.setattr(Reader, "_reading", lambda *a: (times.append(a[1]), right(*a))[1])
    question(n=sf.count()).analyze(epsilon=1, groups=[1, 2, 3, 4, 5], rows=[1, 2, 3, 4])
    assert len(times) == 1
