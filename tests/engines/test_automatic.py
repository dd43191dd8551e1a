"""Automatic bounds where rows are on workers, and where there are none before a pipeline runs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ParameterError, QueryError, RefusalError
from sfumato.noise import SeededWords

ROWS = pa.table(
    {
        "id": pa.array(np.arange(4_000) // 2),
        "g": pa.array(np.arange(4_000) % 2),
        "x": pa.array(np.random.default_rng(5).uniform(20, 80, 4_000)),
    }
)
AUTO = {"lower": "auto", "upper": "auto"}


def asked(table):
    return (
        table.group_by("g", keys=[0, 1])
        .bound(groups=2, rows=1)
        .agg(mean=sf.mean("x", **AUTO), total=sf.sum("x", lower=0, upper="auto", per="unit"))
    )


@pytest.mark.flakiness(k=12, because="runs of noise with a probability below 1e-13, of scales below 0.02")
@pytest.mark.parametrize("kind", ["duckdb", pytest.param("spark", marks=pytest.mark.long)])
def test_bounds_are_found_on_every_engine_that_has_rows(kind, request):
    rows = request.getfixturevalue("frame_of")(ROWS) if kind == "spark" else ROWS
    release = asked(sf.scan(rows, privacy_unit="id")).release(epsilon=1_000)
    shown = sorted(
        release.collect() if kind == "spark" else release.to_arrow().to_pylist(), key=lambda r: r["g"]
    )
    for row in shown:
        own = ROWS.filter(pa.compute.equal(ROWS["g"], row["g"]))["x"].to_numpy()
        assert abs(row["mean"] - own.mean()) < 1
        assert abs(row["total"] - own.sum()) < 2_000
    by_rows, totals = (found.value for found in release.found)
    assert 10 <= by_rows[0] <= 25 and 75 <= by_rows[1] <= 100
    assert totals[0] == 0 and 75 <= totals[1] <= 170


@pytest.mark.long
@pytest.mark.flakiness(k=12, because="runs of noise with a probability below 1e-13, of scales below 0.1")
def test_advice_looks_at_rows_on_workers(frame_of):
    table = sf.scan(frame_of(ROWS), privacy_unit="id")
    by_g = table.group_by("g", keys=[0, 1])
    questions = {
        "means": by_g.bound(groups="auto", rows="auto").agg(n=sf.count(), mean=sf.mean("x", **AUTO)),
        "people": table.agg(people=sf.count_units()),
    }
    advice = sf.advise(table, questions, epsilon=1_000)
    assert advice.spent == 200
    assert advice.spent + sum(one.epsilon for one in advice.questions.values()) == 1_000
    assert advice.questions["means"].limits == "groups=2, rows=1"
    (people,) = advice.questions["people"].release().collect()
    assert abs(people["people"] - 2_000) <= 2


@pytest.mark.long
@pytest.mark.noise_cannot_matter("nothing is drawn")
def test_what_spark_refuses_is_refused_before_a_look(frame_of):
    """Before, a look was paid and drawn, and then the release refused."""
    budget, question = sf.Budget(10), asked(sf.scan(frame_of(ROWS), privacy_unit="id"))
    for options, error in (
        ({"unsafe_words": SeededWords(1)}, ParameterError),
        ({"diagnostics": 0.1}, QueryError),
        ({"auto_share": 2}, ParameterError),
    ):
        with pytest.raises(error, match=next(iter(options))):
            question.release(epsilon=1, budget=budget, **options)
    assert budget.history == ()


def test_a_pipeline_has_no_rows_to_look_at():
    with pytest.raises(
        RefusalError, match="Beam: bounds and limits that are 'auto'.*pipeline has none yet. Give numbers"
    ):
        asked(sf.scan(ROWS.schema, privacy_unit="id")).release(epsilon=1)
