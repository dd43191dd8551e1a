"""Bounds that are left out in SQL, and found: what is understood, what is refused, and what is computed with it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import BudgetError, SqlError
from sfumato.guidance.inferred_bounds import ValueHistograms

ROWS = pa.table(
    {
        "id": np.arange(8_000) // 2,
        "g": np.arange(8_000) % 2,
        "x": np.random.default_rng(1).uniform(0, 50, 8_000),
        "w": np.random.default_rng(2).uniform(1, 3, 8_000),
    }
)
FOUND = pytest.mark.flakiness(k=12, because="noise of scale below 0.1 against thousands of units")


def asked(select, options="auto_bounds = true", epsilon=1_000, **given):
    return sf.sql(
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}, delta = 1e-6, privacy_unit_column = id, "
        f"max_groups_contributed = 2, max_rows_per_group = 1, {options}) {select}",
        tables={"t": ROWS},
        **given,
    )


@FOUND
@pytest.mark.parametrize(
    ("select", "totals"),
    [
        ("g, AVG(x) AS a FROM t GROUP BY g", [False]),
        ("g, SUM(x) AS a FROM t GROUP BY g", [True]),
        ("VAR_POP(x) AS a, AVG(x) AS b FROM t", [False]),
        ("SUM(x, weight => w, max_weight => 5) AS a FROM t", [False]),
        ("g, AVG(x) AS a FROM t GROUP BY g ORDER BY a DESC LIMIT 1", [False]),
        ("g, 2 * SUM(x) / COUNT(*) AS a FROM t GROUP BY g ORDER BY g", [True]),
    ],
)
def test_bounds_that_are_left_out_are_found(select, totals):
    release = asked(select)
    assert ["totals" in found.what for found in release.found] == totals
    for found in release.found:
        assert found.value[0] >= -1 and 45 < found.value[1] < 160
    assert release.spent[0] == 1_000 and release.to_arrow().num_rows >= 1
    assert release.explain().to_json().count('"found"') >= 1


@FOUND
def test_the_share_is_as_written():
    (found,) = asked("AVG(x) AS a FROM t", "auto_bounds = true, auto_share = 0.1").found
    assert found.epsilon <= 100


@pytest.mark.parametrize(
    ("select", "options", "text"),
    [
        ("AVG(x) AS a FROM t", "max_rows_per_group = 1", "given twice|auto_bounds = true"),
        ("AVG(x) AS a FROM t", "auto_share = 0.2", "have them found.*auto_bounds = true"),
        ("AVG(x) AS a FROM t", "auto_bounds = yes", "one of true, false"),
        ("AVG(x) AS a FROM t", "auto_bounds = true, auto_share = 1", "from 0.001 to 0.9"),
        ("QUANTILES(x, [0.5]) AS a FROM t", "auto_bounds = true", "without bounds"),
        ("g, CUMULATIVE_SUM(x) AS a FROM t GROUP BY g", "auto_bounds = true", "without bounds"),
        ("COVAR_POP(x, w) AS a FROM t", "auto_bounds = true", "without bounds"),
    ],
)
def test_what_is_refused(select, options, text, monkeypatch):
    monkeypatch.setattr(ValueHistograms, "draw", lambda *_: pytest.fail("looked"))
    with pytest.raises(SqlError, match=text):
        asked(select, options)


@FOUND
@pytest.mark.parametrize("select", ["AVG(x) AS a FROM t", "g, AVG(x) AS a FROM t GROUP BY g ORDER BY a"])
def test_a_budget_pays_once(select, monkeypatch):
    budget = sf.Budget(epsilon=1_500, delta=1e-5, composition="adding")
    asked(select, budget=budget)
    assert budget.spent[0] == 1_000
    monkeypatch.setattr(ValueHistograms, "draw", lambda *_: pytest.fail("looked"))
    with pytest.raises(BudgetError, match="more than is left"):
        asked(select, budget=budget)
