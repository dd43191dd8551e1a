"""Releases on Spark and Beam beside those of one machine: ratios, strata, automatic bounds, and what tests record."""

from __future__ import annotations

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.beam import Release
from sfumato.errors import ParameterError, QueryError, RefusalError
from sfumato.noise import SeededWords
from sfumato.testing import assert_approx_equal, noise_free, recording

from . import test_k_norm
from .test_k_norm import SCHEMA, budget, question

ROWS = pa.table(
    {
        "id": pa.array(range(300), pa.int64()),
        "g": pa.array([i % 3 for i in range(300)], pa.int64()),
        "x": pa.array([float(i % 11) for i in range(300)]),
        "yes": pa.array([[True, False, None, True][i % 4] for i in range(300)]),
    }
)
BUDGET = {"epsilon": 10**5, "noise": "laplace", "confidence": 0.9}
SIZES = {"asked": dict.fromkeys(range(3), 100), "population": {0: 100, 1: 5000, 2: 900}}


def by_group(rows):
    asked = sf.scan(rows, privacy_unit="id").group_by("g", keys=[0, 1, 2, 7]).bound(groups=1, rows=1)
    total = sf.sum("x", lower=0, upper=10)
    return asked.agg(n=sf.count(), s=total, r=sf.ratio("s", "n"), d=sf.difference("s", "n"))


def of_strata(rows):
    proportion, table = sf.proportion("yes", stratum="g", **SIZES), sf.scan(rows, privacy_unit="id")
    return table.bound(rows=1).agg(p=proportion, q=proportion, d=sf.difference("p", "q"))


def same(found: list[dict], asked) -> None:
    expected = asked(ROWS).release(**BUDGET).to_arrow().to_pylist()
    found = sorted(found, key=lambda row: row.get("g", 0))
    assert [list(row) for row in found] == [list(row) for row in expected]
    for row, other in zip(found, expected, strict=True):
        for name, value in other.items():
            if row.get("g") != 7 or not name.startswith("r"):  # of a group without rows there is no ratio
                assert row[name] == pytest.approx(value, abs=0.01), name


@pytest.mark.long
@pytest.mark.flakiness(k=100, because="noise of scale 1e-3 or less against differences of 1 and of 0.01")
@pytest.mark.parametrize("asked", [by_group, of_strata])
def test_computed_numbers_and_bars_are_those_of_one_machine(frame_of, run, fixed_salt, asked):
    same([row.asDict() for row in asked(frame_of(ROWS)).release(**BUDGET).collect()], asked)
    transform = asked(ROWS.schema).release(**BUDGET)
    found = run(lambda p: p | beam.Create(ROWS.to_pylist(), reshuffle=False) | transform)
    same([dict(row) if isinstance(row, dict) else row._asdict() for row in found], asked)


# What a refusal to compare groups on workers says to ask for: error bars of two numbers at once.
TWO = {"epsilon": 1, "delta": 1e-6, "confidence": 0.975}


def bars(rows, times=1):
    """Return the share of group 1, and how far it is below group 2, as the refusals say, as (low, high)."""
    rows = [row | {"n_error": times * row["n_error"]} for row in rows]
    by_group = {row["g"]: row for row in rows if not row["grouping"]}
    (total,) = (row for row in rows if row["grouping"])
    one, two = by_group[1], by_group[2]
    share = [(one["n"] + s * one["n_error"]) / (total["n"] - s * total["n_error"]) for s in (-1, 1)]
    width = one["n_error"] + two["n_error"]
    return share, [two["n"] - one["n"] + s * width for s in (-1, 1)]


def held(times: float) -> list[int]:
    table = sf.scan(ROWS, privacy_unit="id").group_by("g", keys=[0, 1, 2, 7]).totals()
    asked, found = table.bound(groups=1, rows=1).agg(n=sf.count()), [0, 0]
    for _ in range(200):
        rows = asked.release(**TWO).to_arrow().to_pylist()
        for i, ((low, high), truth) in enumerate(zip(bars(rows, times), (1 / 3, 0), strict=True)):
            found[i] += low <= truth <= high
    return found


@pytest.mark.long
@pytest.mark.flakiness(
    k=28, because="139 of 200 or fewer have odds of 7e-31, and with bars of a twentieth more 1e-50"
)
def test_the_bars_that_the_refusals_name_hold_and_narrow_ones_do_not():
    assert min(held(1)) >= 140
    assert max(held(0.05)) < 140


# Automatic bounds.
VALUES = pa.table(
    {
        "id": pa.array(np.arange(4_000) // 2),
        "g": pa.array(np.arange(4_000) % 2),
        "x": pa.array(np.random.default_rng(5).uniform(20, 80, 4_000)),
    }
)


def automatic(rows):
    table = sf.scan(rows, privacy_unit="id").group_by("g", keys=[0, 1]).bound(groups=2, rows=1)
    mean, total = sf.mean("x", lower="auto", upper="auto"), sf.sum("x", lower=0, upper="auto", per="unit")
    return table.agg(mean=mean, total=total)


@pytest.mark.flakiness(k=12, because="runs of noise with a probability below 1e-13, of scales below 0.02")
@pytest.mark.parametrize("kind", ["duckdb", pytest.param("spark", marks=pytest.mark.long)])
def test_bounds_are_found_on_every_engine_that_has_rows(kind, request):
    rows = request.getfixturevalue("frame_of")(VALUES) if kind == "spark" else VALUES
    release = automatic(rows).release(epsilon=1_000)
    shown = release.collect() if kind == "spark" else release.to_arrow().to_pylist()
    for row in shown:
        own = VALUES.filter(pa.compute.equal(VALUES["g"], row["g"]))["x"].to_numpy()
        assert abs(row["mean"] - own.mean()) < 1
        assert abs(row["total"] - own.sum()) < 2_000
    by_rows, totals = (found.value for found in release.found)
    assert 10 <= by_rows[0] <= 25 and 75 <= by_rows[1] <= 100
    assert totals[0] == 0 and 75 <= totals[1] <= 170


@pytest.mark.long
@pytest.mark.noise_cannot_matter("nothing is drawn")
def test_what_spark_refuses_is_refused_before_a_look(frame_of):
    """Before, a look was paid and drawn, and then the release refused."""
    budget, asked = sf.Budget(10), automatic(frame_of(VALUES))
    refused = {"unsafe_words": (SeededWords(1), ParameterError), "diagnostics": (0.1, QueryError)}
    for name, (value, error) in refused.items():
        with pytest.raises(error, match=name):
            asked.release(epsilon=1, budget=budget, **{name: value})
    assert budget.history == ()


def test_a_pipeline_has_no_rows_to_look_at():
    with pytest.raises(RefusalError, match="'auto'.*pipeline has none yet. Give numbers"):
        automatic(VALUES.schema).release(epsilon=1)


# What a test sees of releases that workers draw.
def asked(case: str) -> dict:
    return {"epsilon": 20} | budget(case)


def alike(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


def on_beam(transform) -> None:
    """Run a pipeline of a release, and print what it gives."""
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        pipeline | beam.Create(test_k_norm.ROWS.to_pylist()) | transform | beam.Map(print)


@pytest.mark.long
@pytest.mark.usefixtures("fixed_salt")
@pytest.mark.flakiness(k=19, because="each meets two assertions, of k = 20, or draws no noise")
@pytest.mark.parametrize("case", ["private groups", "quantiles of all groups"])
def test_a_record_of_workers_is_that_of_one_machine(frame_of, case, capfd):
    rows = test_k_norm.ROWS
    with recording() as recorder:
        truth = alike(recorder[question(case, rows).release(**asked(case))].truth)
        frame = question(case, frame_of(rows).repartition(3)).release(**asked(case))
        transform = Release(question(case, SCHEMA), **asked(case), shards=2)
        with pytest.raises(ParameterError, match="while recording"):
            recorder[transform]  # no pipeline has run
        on_beam(transform)
        on_spark, on_pipeline = recorder[frame], recorder[transform]
    printed = sorted(filter(None, capfd.readouterr().out.splitlines()))
    for recorded, seen in ((on_spark, alike(frame.toArrow())), (on_pipeline, printed)):
        assert alike(recorded.truth) == truth and alike(recorded.release.to_arrow()) == seen
        assert_approx_equal(recorded.release, recorded.truth, k=20)


@pytest.mark.long
@pytest.mark.usefixtures("fixed_salt")
@pytest.mark.noise_cannot_matter("there is none")
def test_workers_draw_no_noise_where_a_test_asks_for_none(frame_of, capfd):
    case = "private groups"
    options = asked(case) | {"epsilon": 2}
    with noise_free(), recording() as recorder:
        frame = question(case, frame_of(test_k_norm.ROWS)).release(**options)
        transform = Release(question(case, SCHEMA), **options, shards=2)
        on_beam(transform)
    plain = alike(recorder[frame].kept)
    assert plain == alike(frame.toArrow()) == sorted(filter(None, capfd.readouterr().out.splitlines()))
    assert bool(plain) and plain == alike(recorder[transform].kept)


@pytest.mark.long
@pytest.mark.usefixtures("fixed_salt")
@pytest.mark.flakiness(k=20, because="its numbers are moved by far more than noise moves them")
def test_an_assertion_sees_numbers_of_workers_that_are_off(frame_of):
    """A planted defect: all numbers moved by more than noise moves them."""
    asked_of = question("private groups", frame_of(test_k_norm.ROWS))
    with recording() as recorder:
        recorded = recorder[asked_of.release(**asked("private groups"))]
    for batch in recorded.release._batches:
        for name in batch.numbers.values:
            batch.numbers.values[name][:] += 1000
    with pytest.raises(AssertionError):
        assert_approx_equal(recorded.release, recorded.truth, k=20)
