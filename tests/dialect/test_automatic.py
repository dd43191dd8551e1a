"""Bounds and limits that are left out in SQL, and found: what is computed with them, paid for them, and refused."""

from fractions import Fraction

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


def asked(
    select,
    options="auto_bounds = true",
    limits=", max_groups_contributed = 2, max_rows_per_group = 1",
    **given,
):
    start = f"epsilon = 1000, delta = 1e-6, privacy_unit_column = id{limits}"
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({start}, {options}) {select}"
    return sf.sql(text, tables={"t": ROWS}, **given)


@pytest.mark.long
@FOUND
@pytest.mark.parametrize(
    ("select", "totals"),
    [
        ("g, AVG(x) AS a FROM t GROUP BY g ORDER BY a DESC LIMIT 1", [False]),
        pytest.param("g, 2 * SUM(x) / COUNT(*) AS a FROM t GROUP BY g", [True], marks=pytest.mark.long),
        pytest.param("VAR_POP(x) AS a, AVG(x) AS b FROM t", [False], marks=pytest.mark.long),
        pytest.param("SUM(x, weight => w, max_weight => 5) AS a FROM t", [False], marks=pytest.mark.long),
    ],
)
def test_bounds_that_are_left_out_are_found(select, totals):
    release = asked(select)
    assert ["totals" in found.what for found in release.found] == totals
    for found in release.found:
        assert found.value[0] >= -1 and 45 < found.value[1] < 160
    assert release.spent[0] == 1_000 and release.to_arrow().num_rows >= 1


@FOUND
@pytest.mark.parametrize(
    ("select", "options", "value"),
    [
        pytest.param(
            "g, 2 * COUNT(*) AS n FROM t GROUP BY g",
            "auto_limits = true",
            {"groups": 2, "rows": 1},
            marks=pytest.mark.long,
        ),
        pytest.param("COUNT(*) AS n FROM t", "auto_limits = true", {"rows": 2}, marks=pytest.mark.long),
        ("g, COUNT(*) AS n FROM t GROUP BY g", "auto_limits = false", None),
    ],
)
def test_limits_that_are_left_out_are_found(select, options, value):
    release = asked(select, options, "")
    assert [found.value for found in release.found] == ([] if value is None else [value])
    assert release.spent[0] == 1_000 and release.to_arrow().num_rows >= 1


@pytest.mark.parametrize(
    ("select", "options"),
    [
        ("AVG(x) AS a FROM t", "auto_share = 0.2"),
        ("AVG(x) AS a FROM t", "auto_bounds = yes"),
        ("AVG(x) AS a FROM t", "auto_bounds = true, auto_share = 1"),
        ("QUANTILES(x, [0.5]) AS a FROM t", "auto_bounds = true"),
        ("g, CUMULATIVE_SUM(x) AS a FROM t GROUP BY g", "auto_bounds = true"),
        ("COVAR_POP(x, w) AS a FROM t", "auto_bounds = true"),
        ("g, COUNT(*) AS n FROM t GROUP BY g", "auto_limits = true, max_rows_contributed = 3"),
    ],
)
def test_what_is_refused(select, options, monkeypatch):
    monkeypatch.setattr(ValueHistograms, "draw", lambda *_: pytest.fail("looked"))
    with pytest.raises(SqlError):
        asked(select, options, "" if "limits" in options else ", max_rows_per_group = 1")


@pytest.mark.long
@FOUND
@pytest.mark.parametrize(
    "select", ["AVG(x) AS a FROM t", pytest.param("2 * AVG(g) AS m FROM t", marks=pytest.mark.long)]
)
def test_a_budget_pays_once_before_a_look(select, monkeypatch):
    """All that the text may spend, as whether the answer needs its delta may follow from what looks find."""
    budget = sf.Budget(epsilon=1_500, delta=1e-5, composition="adding")
    (found,) = asked(select, "auto_bounds = true, auto_share = 0.1", budget=budget).found
    assert [(one.epsilon, one.delta) for one in budget.history] == [(1000, Fraction("1e-6"))]
    assert found.epsilon <= 100
    monkeypatch.setattr(ValueHistograms, "draw", lambda *_: pytest.fail("looked"))
    with pytest.raises(BudgetError, match="exceeds what is left"):
        asked(select, budget=budget)
