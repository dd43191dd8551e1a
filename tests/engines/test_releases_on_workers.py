"""Releases on Spark and Beam beside those of one machine: ratios, strata, automatic bounds, and what tests record."""

from __future__ import annotations

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.beam import Release
from sfumato.errors import ParameterError, RefusalError
from sfumato.testing import assert_approx_equal, recording

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


@pytest.mark.long
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


def test_a_pipeline_has_no_rows_to_look_at():
    with pytest.raises(RefusalError, match="'auto'.*pipeline has no rows yet. Give numbers"):
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
@pytest.mark.flakiness(
    k=20, because="100 units, or shares of .45, against a threshold of 5.7 with noise of .5"
)
def test_keys_of_private_groups_without_a_limit(frame_of, run):
    rows = pa.concat_tables([ROWS.select(["id", "g"]), pa.table({"id": [-1] * 5, "g": [5, 6, 7, 8, 9]})])

    def keys(source):
        asked = sf.scan(source, privacy_unit="id").group_by("g").bound(groups="shared").agg()
        return asked.release(epsilon=20, delta=1e-20)

    found = run(lambda p: p | beam.Create(rows.to_pylist(), reshuffle=False) | keys(rows.schema))
    assert sorted(row["g"] for row in found) == [0, 1, 2] and all(list(row) == ["g"] for row in found)
    assert sorted(map(tuple, keys(frame_of(rows)).collect())) == [(0,), (1,), (2,)]
