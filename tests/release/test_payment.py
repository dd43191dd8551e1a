"""What pays for releases: once, before a row is read, and not where the question is refused."""

from fractions import Fraction

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import BudgetError, EngineError, ParameterError, QueryError
from sfumato.guidance.inferred_bounds import ValueHistograms
from sfumato.noise import SeededWords

pytestmark = pytest.mark.noise_cannot_matter("what is looked at is what is paid")
ROWS = pa.table({"id": [1, 1, 2, 3], "town": ["A", "B", "A", "B"], "x": [1, 2, 3, 4]})
SQL = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {}, privacy_unit_column = id) "
    "SUM(x, contribution_bounds_per_group => (0, 10)) AS total FROM visits"
)


def towns():
    table = sf.scan(ROWS, privacy_unit="id").group_by("town", keys=["A", "B"])
    return table.bound(groups=2, rows=1).agg(n=sf.count())


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


def test_a_text_of_two_questions_pays_for_both_or_for_none():
    text = f"WITH one AS ({SQL.format(1)}), two AS ({SQL.format(2)}) SELECT one.total, two.total AS other FROM one, two"
    little = sf.Budget(2)
    with pytest.raises(BudgetError, match="exceeds what is left"):
        sf.sql(text, tables={"visits": ROWS}, budget=little)
    assert little.history == ()
    enough = sf.Budget(3)
    sf.sql(text, tables={"visits": ROWS}, budget=enough)
    assert enough.remaining.epsilon == 0.0
    assert len(enough.history) == 1


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


def test_diagnostics_that_are_refused_cost_nothing():
    budget = sf.Budget(3)
    question = sf.scan(ROWS, privacy_unit="id").bound(rows=1).agg(n=sf.count())
    with pytest.raises(ParameterError, match="unsafe_words"):
        question.diagnose(epsilon=1, budget=budget, unsafe_words=1)
    assert budget.history == ()
    question.diagnose(epsilon=1, budget=budget)
    assert budget.remaining.epsilon == 2.0


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


def counted(keys):
    table = sf.scan(ROWS, privacy_unit="id").group_by("town", keys=keys)
    return table.bound(groups=5, rows=1).agg(n=sf.count())


PUBLIC, PRIVATE = list("ABCDE"), None


@pytest.mark.parametrize("keys", [PUBLIC, PRIVATE], ids=["public", "private"])
@pytest.mark.parametrize("times", [1, 2, 7, 40])
def test_so_many_shares_fit_and_hardly_more(keys, times):
    budget, share = sf.Budget(3, "1e-6"), Fraction(1, times)
    question = counted(keys)
    for _ in range(times):
        question.release(share=share, budget=budget)
    assert budget.remaining.share < 0.02
    with pytest.raises(BudgetError, match="share=.* exceeds what is left"):
        question.release(share=max(share, Fraction(1, 25)), budget=budget)
    assert len(budget.history) == times


@pytest.mark.parametrize(
    "options",
    [
        {"share": 0}, {"share": -1}, {"share": 2}, {"share": "x"}, {"share": float("nan")},
        {"share": "0.1", "epsilon": 1}, {"share": "0.1", "delta": "1e-6"}, {"share": "0.1", "budget": None},
        {"share": "0.1", "noise": "nose"}, {"share": "0.1", "budget": 3},
    ],
)  # fmt: skip
def test_what_is_no_share_is_refused(options):
    budget = sf.Budget(3, "1e-6")
    with pytest.raises(ParameterError):
        towns().release(**{"budget": budget, **options})
    assert budget.history == ()


MANY = pa.table({
    "id": [i // 2 for i in range(8_000)], "town": ["AB"[i % 2] for i in range(8_000)], "x": [5.0] * 8_000,
})  # fmt: skip
AUTO = {"lower": 0, "upper": "auto"}


def left_open(keys=PUBLIC[:2]):
    """Each question that leaves something to its release: bounds, limits, both."""
    table = sf.scan(MANY, privacy_unit="id").group_by("town", keys=keys)
    return [
        table.bound(groups=2, rows=1).agg(n=sf.count(), m=sf.mean("x", **AUTO)),
        table.bound(groups="auto", rows=1).agg(n=sf.count()),
        table.bound(groups="auto", rows="auto").agg(s=sf.sum("x", **AUTO)),
    ]


@pytest.mark.parametrize(
    ("budget", "parts"),
    [
        ((3, "1e-6"), 2), pytest.param((3, 0), 3, marks=pytest.mark.long),
        pytest.param((1, "1e-6"), 9, marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_looks_take_their_part_of_a_share(budget, parts):
    """Both are within the share, by one sum; so many fit, and no more."""
    budget = sf.Budget(*budget)
    questions, words, paid = left_open(), SeededWords(1), 0
    for i in range(parts):
        question = questions[i % len(questions)]
        before = budget.remaining.share
        release = question.release(share=Fraction(1, parts), budget=budget, unsafe_words=words)
        *looks, answer = budget.history[paid:]
        paid = len(budget.history)
        assert before - budget.remaining.share <= 1 / parts + 1e-9
        assert sum(found.epsilon for found in release.found) == sum(look.epsilon for look in looks) > 0
        assert {(look.what, look.delta) for look in looks} == {
            (f"a preliminary query for {question.query.title}", 0)
        }
        assert (answer.epsilon, answer.loss) == (release.plan.epsilon, release.plan.loss)
        assert release.plan.epsilon > max(look.epsilon for look in looks)
    # Of several looks the squares add up to less than what the answer leaves for them, the square of their sum.
    # How little is left depends on the limits that were found; room for one more part there never is.
    part = Fraction(1, 10) if parts < 9 else Fraction(1, parts)
    assert budget.remaining.share < part
    with pytest.raises(BudgetError, match="share=.* exceeds what is left"):
        questions[0].release(share=part, budget=budget)
    assert len(budget.history) == paid


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"share": 0}, ParameterError), ({"budget": None}, ParameterError), ({"auto_share": 1}, ParameterError),
        ({"auto_share": "x"}, ParameterError), ({"epsilon": 1}, ParameterError), ({"diagnostics": 0.1}, ParameterError),
        ({"noise": "nose"}, ParameterError), ({"confidence": 2}, ParameterError), ({"share": 1}, BudgetError),
    ],
)  # fmt: skip
def test_what_is_wrong_beside_a_share_is_said_before_a_look_is_paid(options, error, monkeypatch):
    monkeypatch.setattr(ValueHistograms, "draw", lambda *_: pytest.fail("looked"))
    budget = sf.Budget(3, "1e-6")
    budget.spend(1)
    paid = budget.history
    with pytest.raises(error):
        left_open()[0].release(**{"share": "0.1", "budget": budget, **options})
    assert budget.history == paid
