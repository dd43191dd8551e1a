"""Rows that noisy numbers select: they are marked, and their error bars hold for all rows before the selection."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.duckdb.post_processing import selects

EXACT = pytest.mark.noise_cannot_matter("bars of noise are compared with bars of the same noise")
NOTE = "Noisy numbers decide which rows are shown, so these are more extreme on average than the exact ones."


@pytest.mark.parametrize(
    ("rest", "found"),
    [
        ("", False),
        ("WHERE k > 2 AND j IN (1, 2)", False),
        ("WHERE k > 2 OR n > 5", True),
        ("WHERE K > 2", False),
        ("WHERE r.n > 5", True),
        ("ORDER BY n DESC", False),
        ("LIMIT 3", False),
        ("ORDER BY k LIMIT 3", False),
        ("ORDER BY n / 2 LIMIT 3", True),
        ("ORDER BY k, n LIMIT 3", True),
        ("ORDER BY 2 LIMIT 3", True),
        ("ORDER BY n DESC LIMIT 10%", True),
        ("QUALIFY row_number() OVER (PARTITION BY k ORDER BY n) = 1", True),
        ("QUALIFY row_number() OVER (ORDER BY k) = 1", False),
        ("GROUP BY ALL HAVING max(n) > 3", True),
        ("WHERE k IN (SELECT k FROM r WHERE n > 5)", True),
    ],
)
def test_what_selects_rows_by_noise(rest, found):
    assert selects(f"SELECT k, n FROM r {rest}", ["k", "j"]) is found
    assert (
        selects(f"WITH a AS (SELECT k, n FROM r {rest}) SELECT * FROM (SELECT k FROM a) AS b", ["k", "j"])
        is found
    )


@EXACT
@pytest.mark.parametrize("rest", ["ORDER BY n DESC LIMIT 2", "HAVING n > -1000", "HAVING town < 'C'", ""])
def test_bars_of_selected_rows_hold_for_all_that_they_are_selected_from(tmp_path, rest):
    rows = pa.table({"id": range(1500), "town": ["ABCDE"[i % 5] for i in range(1500)]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    release = sf.sql(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, privacy_unit_column = id, "
        "max_groups_contributed = 1, max_rows_per_group = 1) "
        f"town, COUNT(*) AS n FROM '{tmp_path}/rows.parquet' GROUP BY town {rest}"
    )  # fmt: skip
    noisy = "n" in rest.split()
    told = release.explain().to_dict()["notes"]
    assert (NOTE in told) is noisy and (NOTE in str(release)) is noisy
    if not rest:
        return  # the noisy table itself
    assert ("in all rows that these are selected from" in release.bars.describe(release.bias)) is noisy
    release.to_arrow()
    each = 1 - 0.1 / (5 if noisy else 1)
    alone = release.released.errors(each).to_pydict()
    wanted = dict(zip(alone["town"], alone["n"], strict=True))
    for one in (release, pickle.loads(pickle.dumps(release))):
        table, bars = one.to_arrow().to_pydict(), one.errors(0.9).to_pydict()
        assert bars["n"] == pytest.approx([wanted[town] for town in table["town"]], rel=1e-9)
        assert one.frame(errors=True, confidence=0.9)["n_error"].tolist() == bars["n"]
    assert one.errors(kind="standard")["n"].to_pylist() == pytest.approx(
        [release.released.errors(kind="standard")["n"][0].as_py()] * one.to_arrow().num_rows
    )
