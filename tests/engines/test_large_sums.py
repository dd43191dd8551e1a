"""Sums of integers beyond 64 bits: right, with their error bars, in every form; their type by the question."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import sfumato as sf
from sfumato.api.table import Table
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.duckdb.stages import Stages
from sfumato.engines.worker_noise import Work
from sfumato.noise import SeededWords

TOP = 2**63 - 1
UNITS = 300
WIDE = {"lower": -(10**19), "upper": 10**19}
SURELY = 1 - 1e-12


def large(value: int = TOP) -> pa.Table:
    """One row of each unit in each group: as large as can be in a, as small in b."""
    n = pa.array([value, -value] * UNITS, pa.int64())
    return pa.table({"id": [u for u in range(UNITS) for _ in "ab"], "g": ["a", "b"] * UNITS, "n": n})


def question(table: Table, **options):
    asked = table.group_by("g", keys=["a", "b"]).bound(groups=2, rows=1)
    return asked.agg(
        of_unit=sf.sum("n", **WIDE, per="unit"), of_row=sf.sum("n", **WIDE, per="row"), **options
    )


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("with_mean", [False, True])
def test_sums_beyond_64_bits_are_right(engine, noise, with_mean):
    """They stopped at 2^63, without a word: 2.8 * 10^21 was shown as 9.2 * 10^18."""
    more = {"mean": sf.mean("n", **WIDE)} if with_mean else {}
    release = question(Table(engine(large()), "id"), **more).release(
        epsilon=20, delta=1e-6, noise=noise, unsafe_words=SeededWords(noise)
    )
    shown, bars = release.to_arrow(), release.errors(SURELY)
    for name in ("of_unit", "of_row"):
        assert shown.schema.field(name).type == pa.float64()
        for sign, value, bar in zip((1, -1), shown[name].to_pylist(), bars[name].to_pylist(), strict=True):
            truth = sign * UNITS * TOP
            assert abs(value - truth) <= bar < 0.5 * abs(truth), (name, value, bar)


def test_rows_beyond_the_range_that_is_added_up_exactly_are_right(engine):
    """With little noise, rows of integers were clamped to 2^62 though the bounds were wider."""
    release = question(Table(engine(large(2**63 - 2**32)), "id")).release(
        epsilon=100_000, unsafe_words=SeededWords(1)
    )
    truth = UNITS * (2**63 - 2**32)
    shown, bars = release.to_arrow(), release.errors(SURELY)
    for name in ("of_unit", "of_row"):
        assert abs(shown[name][0].as_py() - truth) <= bars[name][0].as_py() < 1e-3 * truth


@pytest.mark.long
def test_types_follow_from_the_question(engine):
    """Whatever the rows are, also where there are none."""
    for value in (0, 1, TOP):
        rows = large(value)
        for given in (rows, rows.slice(0, 0)):
            release = question(Table(engine(given), "id"), n=sf.count()).release(
                epsilon=1, unsafe_words=SeededWords(3)
            )
            assert release.to_arrow().schema.types[1:] == [pa.float64(), pa.float64(), pa.int64()]
    narrow = Table(engine(large(1)), "id").bound(rows=4).agg(
        fits=sf.sum("n", lower=-(2**22), upper=2**22),
        over=sf.sum("n", lower=0, upper=2**22 + 1),
        rows=sf.sum("n", lower=0, upper=2**20, per="row"),
        more=sf.sum("n", lower=0, upper=2**20 + 1, per="row"),
    )  # fmt: skip
    release = narrow.release(epsilon=1, unsafe_words=SeededWords(4))
    assert [str(t) for t in release.to_arrow().schema.types] == ["int64", "double", "int64", "double"]
    told = release.explain().to_dict()["outputs"]
    assert [told[name]["type"] for name in told] == ["int64", "float64", "int64", "float64"]


def test_noise_beyond_64_bits_is_shown(engine):
    """At epsilon 10^-9 the noise of a sum with bounds of 2^22 has a scale of 2^52, and can be far beyond."""
    asked = Table(engine(large(1)), "id").bound(rows=1).agg(s=sf.sum("n", lower=0, upper=2**22))
    assert asked.plan(epsilon=1e-6).requirements.estimates[0].integer
    assert not asked.plan(epsilon=1e-9).requirements.estimates[0].integer


@pytest.mark.long
@pytest.mark.parametrize("value", [TOP, 0])
def test_every_form_of_output(tmp_path, value):
    """Numbers are the same everywhere, and a column of whole numbers in a text file is read back as it was."""

    def release():
        return question(Table(DuckDBEngine.open(large(value)), "id"), n=sf.count()).release(
            epsilon=1, unsafe_words=SeededWords(5)
        )

    answer = release().to_arrow()
    expected = answer["of_unit"].to_pylist()
    assert release().to_pandas()["of_unit"].tolist() == expected
    assert str(release().to_pandas().dtypes["of_unit"]) == "float64"
    assert release().to_polars()["of_unit"].to_list() == expected
    assert str(release().to_polars().schema["of_unit"]) == "Float64"
    for ending in ("parquet", "csv", "json"):
        written = release()
        path = tmp_path / f"out.{ending}"
        written.write(path, confidence=0.95)
        again = written.to_arrow()  # read back from the file alone
        assert again["of_unit"].to_pylist() == expected
        assert again.schema.types[1:] == [t for own in answer.schema.types[1:] for t in (own, pa.float64())]
    lines = (tmp_path / "out.json").read_text().splitlines()
    assert [json.loads(line)["of_unit"] for line in lines] == expected
    assert pyarrow.csv.read_csv(tmp_path / "out.csv")["of_unit"].cast(pa.float64()).to_pylist() == expected
    assert pyarrow.parquet.read_table(tmp_path / "out.parquet")["of_unit"].to_pylist() == expected


def test_a_key_that_is_named_like_an_error_bar_keeps_its_type(tmp_path):
    rows = pa.table({"id": range(10), "s_error": ["x"] * 10, "n": range(10)})
    asked = Table(DuckDBEngine.open(rows), "id").group_by("s_error", keys=["x"]).bound(groups=1)
    release = asked.agg(s=sf.sum("n", lower=0, upper=10)).release(epsilon=1, unsafe_words=SeededWords(6))
    release.write(tmp_path / "out.csv")
    assert release.to_arrow()["s_error"].to_pylist() == ["x"]


def test_workers_of_a_cluster_know_the_types_before_any_row():
    rows = large()
    local = DuckDBEngine.open(rows)
    plan = question(Table(local, "id")).plan(epsilon=1, noise="laplace")
    stages = Stages.of(local, rows.schema, plan.exact, 2)
    assert [str(t) for t in Work.of(plan, stages, 0.95).schema.types[1:]] == ["double"] * 4


def test_joining_nothing_is_one_row_of_the_only_shard_where_nothing_is_grouped():
    rows = pa.table({"id": [1, 2], "x": [1, 2]})
    local = DuckDBEngine.open(rows)
    asked = Table(local, "id").bound(rows=1).agg(n=sf.count(), s=sf.sum("x", lower=0, upper=2))
    plan = asked.plan(epsilon=1, noise="laplace")
    stages = Stages.of(local, rows.schema, plan.exact, 2)
    parts = [p.data for p in stages.partials(rows.to_batches())]
    totals = [p.data for p in stages.totals(parts)]
    nothing = stages.joined_totals([])
    assert [row["shard"] for data in nothing for row in pa.ipc.open_stream(data).read_all().to_pylist()] == [
        0
    ]
    expected = [batch.to_pylist() for batch in stages.merged(None, totals, 10)]
    assert [batch.to_pylist() for batch in stages.merged(None, [*nothing, *totals], 10)] == expected
