"""Numbers below 0 are shown as 0 where asked: the others, and all error bars' confidence, stay as they are."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.noise import SeededWords

EXACT = pytest.mark.noise_cannot_matter("two releases have the same noise")
KEYS = [f"g{i}" for i in range(60)]
ASKED = {
    "people": sf.count_units(),
    "rows": sf.count(),
    "s": sf.sum("x", lower=0, upper=10),
    "w": sf.sum("x", lower=0, upper=10, weight="x", max_weight=2),
    "c": sf.count_if("b"),
    "signed": sf.sum("x", lower=-1, upper=10),
    "m": sf.mean("x", lower=0, upper=10),
    "r": sf.ratio("s", "people"),
}
SHOWN = ("people", "rows", "s", "w", "c")


def question() -> sf.Question:
    rows = pa.table(
        {"id": range(40), "g": [KEYS[i % 9] for i in range(40)], "x": [1.5] * 40, "b": [True] * 40}
    )
    table = sf.scan(rows, privacy_unit="id").group_by("g", keys=KEYS).bound(groups=1, rows=1)
    return table.agg(**ASKED)


@EXACT
@pytest.mark.parametrize("noise", ["laplace", "gaussian", "k_norm"])
def test_numbers_below_0_are_0_and_bars_reach_as_far(noise):
    """A bar holds all of the interval of its noise from 0 on, in which the exact number is as often as before."""
    options = {"epsilon": 1, "delta": 0 if noise == "k_norm" else 1e-6, "noise": noise}
    before, after = (
        question().release(**options, nonnegative=one, unsafe_words=SeededWords(7)) for one in (False, True)
    )
    old, new, bars, found = before.to_pandas(), after.to_pandas(), before.errors(0.8), after.errors(0.8)
    (batch,) = before._kept()
    for estimate in before.plan.requirements.estimates:
        name = estimate.name
        shown, was, half, reach = (np.asarray(one[name], float) for one in (new, old, bars, found))
        if name not in SHOWN:
            np.testing.assert_array_equal(shown, was)
            np.testing.assert_array_equal(half, reach)
            continue
        assert (was < 0).any()
        np.testing.assert_array_equal(shown, np.maximum(was, 0))
        interval = estimate.interval(batch.numbers, 0.2)
        low, high = np.maximum(interval.low, 0), np.maximum(interval.high, 0)
        np.testing.assert_allclose(reach, np.maximum(high - shown, shown - low), rtol=1e-9, atol=1e-9)
        assert (reach <= half + 1e-9).all()


@EXACT
def test_bars_with_the_sampling_error_reach_as_far():
    before, after = (
        question().release(epsilon=1, sampling=True, nonnegative=one, unsafe_words=SeededWords(7))
        for one in (False, True)
    )
    old, bars = before.to_pandas()["people"].to_numpy(), before.errors(0.8)["people"].to_numpy()
    new, found = after.to_pandas()["people"].to_numpy(), after.errors(0.8)["people"].to_numpy()
    np.testing.assert_array_equal(new, np.maximum(old, 0))
    assert (found <= bars).all() and (found < bars).any()


@EXACT
def test_it_is_the_same_wherever_a_release_goes(tmp_path):
    asked = question()
    release = asked.release(epsilon=1, nonnegative=True, unsafe_words=SeededWords(3))
    streamed = asked.release(epsilon=1, nonnegative=True, noise="laplace")
    streamed.write(tmp_path / "r.parquet", confidence=0.9)
    assert (pq.read_table(tmp_path / "r.parquet").to_pandas()[["people", "s"]] >= 0).all(axis=None)
    assert (release.to_pandas()[list(SHOWN)] >= 0).all(axis=None)
    assert pickle.loads(pickle.dumps(release)).errors().equals(release.errors())
    (note,) = [note for note in release.explain().to_dict()["notes"] if "shown as 0" in note]
    assert note.startswith("people, rows, s, w, c: negative numbers are shown as 0")
    assert release.spent == asked.release(epsilon=1, unsafe_words=SeededWords(3)).spent


@EXACT
def test_totals_and_sql(tmp_path):
    rows = pa.table({"id": range(40), "g": ["g0"] * 40, "x": [1.5] * 40})
    table = sf.scan(rows, privacy_unit="id").group_by("g", keys=KEYS)
    totals = table.totals().bound(groups=1, rows=1).agg(n=sf.count(), s=sf.sum("x", lower=0, upper=2))
    shown = totals.release(epsilon=1, delta=1e-6, nonnegative=True, unsafe_words=SeededWords(2)).to_pandas()
    assert (shown.drop(columns=["g", "grouping"]) >= 0).all(axis=None)
    assert (totals.release(epsilon=1, delta=1e-6, unsafe_words=SeededWords(2)).to_pandas()["n"] < 0).any()
    pq.write_table(rows, tmp_path / "rows.parquet")
    sql = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = id, nonnegative = true, "
        f"max_rows_per_group = 1) COUNT(*) AS n FROM '{tmp_path}/rows.parquet'"
    )
    assert "n: negative numbers are shown as 0" in str(sf.sql(sql).explain())
