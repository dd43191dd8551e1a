"""Limits that are left out in SQL, and found."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import SqlError

ROWS = pa.table(
    {
        "id": [i for i in range(4_000) for _ in range(1 + i % 3)],
        "g": [k for i in range(4_000) for k in range(1 + i % 3)],
    }
)
FOUND = pytest.mark.flakiness(k=12, because="noise of scale below 0.1 against thousands of units")


def asked(select, options, **given):
    start = "epsilon = 1000, delta = 1e-6, privacy_unit_column = id, "
    return sf.sql(
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({start}{options}) {select}", tables={"t": ROWS}, **given
    )


@FOUND
@pytest.mark.parametrize(
    ("select", "options", "value"),
    [
        ("g, COUNT(*) AS n FROM t GROUP BY g", "auto_limits = true", {"groups": 3, "rows": 1}),
        ("g, COUNT(*) AS n FROM t GROUP BY g", "auto_limits = true, max_rows_per_group = 1", {"groups": 3}),
        ("g, COUNT(*) AS n FROM t GROUP BY g", "auto_limits = true, max_groups_contributed = 2", {"rows": 1}),
        ("COUNT(*) AS n FROM t", "auto_limits = true", {"rows": 3}),
        ("g, 2 * COUNT(*) AS n FROM t GROUP BY g ORDER BY g", "auto_limits = true", {"groups": 3, "rows": 1}),
    ],
)
def test_limits_that_are_left_out_are_found(select, options, value):
    release = asked(select, options)
    (found,) = release.found
    assert found.value == value
    assert release.spent[0] == 1_000
    assert release.to_arrow().num_rows >= 1


def test_they_are_off():
    assert asked("g, COUNT(*) AS n FROM t GROUP BY g", "auto_limits = false").found == ()


def test_beside_a_limit_of_all_rows_there_are_none():
    with pytest.raises(SqlError, match="keep one of the two"):
        asked("g, COUNT(*) AS n FROM t GROUP BY g", "auto_limits = true, max_rows_contributed = 3")


@pytest.mark.noise_cannot_matter("what is paid follows from the text")
@pytest.mark.parametrize("select", ["AVG(g) AS m FROM t", "2 * AVG(g) AS m FROM t"])
def test_all_that_a_text_may_spend_is_paid_before_its_looks(select):
    """Whether the answer needs its delta may follow from what looks find."""
    budget = sf.Budget(epsilon=1000, delta="1e-3", composition="adding")
    asked(select, "auto_bounds = true, max_rows_per_group = 1", budget=budget)
    assert [(one.epsilon, one.delta) for one in budget.history] == [(1000, Fraction("1e-6"))]
