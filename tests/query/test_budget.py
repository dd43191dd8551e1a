"""What pays for releases: once, before a row is read, and not where the question is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import BudgetError, EngineError, ParameterError, QueryError
from sfumato.noise import SeededWords

ROWS = pa.table({"id": [1, 1, 2, 3], "town": ["A", "B", "A", "B"], "x": [1, 2, 3, 4]})
SQL = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {}, privacy_unit_column = id) "
    "SUM(x, contribution_bounds_per_group => (0, 10)) AS total FROM visits"
)


def towns():
    table = sf.scan(ROWS, privacy_unit="id").group_by("town", keys=["A", "B"])
    return table.bound(groups=2, rows=1).agg(n=sf.count())


@pytest.mark.noise_cannot_matter("nothing is looked at")
def test_each_kind_of_release_pays_once():
    budget = sf.Budget(10, composition="adding")
    release = towns().release(epsilon=1, budget=budget)
    assert budget.remaining.epsilon == 9.0  # before the first look
    release.to_arrow()
    release.errors()
    sf.scan(ROWS, privacy_unit="id").top("town", k=1, keys=["A", "B"]).release(epsilon=2, budget=budget)
    sf.sql(SQL.format(3), tables={"visits": ROWS}, budget=budget)
    assert budget.remaining.epsilon == 4.0
    assert [spent.what for spent in budget.history] == ["n by town", "the 1 largest by town", "total"]


@pytest.mark.noise_cannot_matter("nothing is looked at")
def test_a_text_of_two_questions_pays_for_both_or_for_none():
    text = f"WITH one AS ({SQL.format(1)}), two AS ({SQL.format(2)}) SELECT one.total, two.total AS other FROM one, two"
    little = sf.Budget(2)
    with pytest.raises(BudgetError, match="more than is left"):
        sf.sql(text, tables={"visits": ROWS}, budget=little)
    assert little.history == ()
    enough = sf.Budget(3)
    sf.sql(text, tables={"visits": ROWS}, budget=enough)
    assert enough.remaining.epsilon == 0.0
    assert len(enough.history) == 1


@pytest.mark.noise_cannot_matter("nothing is drawn")
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"confidence": 2}, ParameterError), ({"noise": "nose"}, ParameterError), ({"epsilon": 0}, BudgetError),
        ({"epsilon": 4}, BudgetError), ({"unsafe_words": 1}, ParameterError), ({"noise": "gaussian"}, BudgetError),
    ],
)  # fmt: skip
def test_what_is_refused_costs_nothing(options, error):
    budget = sf.Budget(3)
    with pytest.raises(error):
        towns().release(**{"epsilon": 1, "budget": budget, **options})
    assert budget.history == ()


@pytest.mark.noise_cannot_matter("nothing is drawn")
@pytest.mark.parametrize("budget", [3, "3", (3, 0), object()])
def test_what_is_no_budget_is_refused(budget):
    with pytest.raises(ParameterError, match=r"sf\.Budget"):
        towns().release(epsilon=1, budget=budget)


@pytest.mark.noise_cannot_matter("nothing is shown")
def test_a_release_that_fails_stays_paid(tmp_path):
    path = tmp_path / "rows.parquet"
    import pyarrow.parquet as pq

    pq.write_table(ROWS, path)
    question = sf.scan(path, privacy_unit="id").bound(rows=1).agg(n=sf.count())
    budget = sf.Budget(1)
    release = question.release(epsilon=1, budget=budget)
    path.write_bytes(b"no longer a table")
    with pytest.raises((EngineError, QueryError)):
        release.to_arrow()
    assert budget.remaining.epsilon == 0.0


@pytest.mark.noise_cannot_matter("seeded")
def test_noise_is_the_same_with_and_without_a_budget():
    one = towns().release(epsilon=1, unsafe_words=SeededWords(7))
    other = towns().release(epsilon=1, unsafe_words=SeededWords(7), budget=sf.Budget(1))
    assert one.to_arrow().equals(other.to_arrow())


@pytest.mark.noise_cannot_matter("nothing is drawn")
def test_the_loss_of_the_plan_is_what_is_charged():
    """The planted defect: charged by what it asked alone, Gaussian noise would cost (epsilon, delta) each time."""
    budget = sf.Budget(3, "1e-6")
    question = towns()
    times = 0
    with pytest.raises(BudgetError):
        while times < 100:
            question.release(epsilon=1, delta="1e-6", noise="gaussian", budget=budget)
            times += 1
    assert times >= 6
    assert budget.history[0].loss == question.plan(epsilon=1, delta="1e-6", noise="gaussian").loss
