"""Advice: complete questions whose epsilons add up, shared looks, and errors before anything is drawn."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.advice.advise import divide_portions
from sfumato.errors import BudgetError, ParameterError, QueryError
from sfumato.noise.random_words import SeededWords

pytestmark = pytest.mark.noise_cannot_matter("the words are seeded, or what is looked at is what it costs")
PRODUCTS = [f"p{i}" for i in range(20)]
OPEN = {"groups": "auto", "rows": "auto"}


def baskets(units=5_000, most=6):
    rows = [(i, f"p{(i + k) % 20}") for i in range(units) for k in range(1 + i % most)]
    ids, products = zip(*rows, strict=True)
    return pa.table({"id": ids, "product": products, "x": [float(i % 10) for i in ids]})


@pytest.fixture(scope="module")
def people():
    return sf.scan(baskets(), privacy_unit="id")


def questions(people):
    products = people.group_by("product", keys=PRODUCTS).bound(**OPEN)
    return {
        "sold": products.agg(n=sf.count(), x=sf.mean("x", lower=0, upper="auto")),
        "buyers": products.agg(people=sf.count_units()),
        "few": people.group_by("product").bound(groups=1, rows=1).agg(n=sf.count()),
        "all": people.agg(people=sf.count_units()),
    }


@pytest.fixture(scope="module")
def advice(people):
    words = {"unsafe_words": SeededWords(1)}
    return sf.advise(people, questions(people), epsilon=4, delta="1e-6", share="0.1", **words)


def test_all_epsilons_add_up_exactly(advice):
    assert advice.epsilon == 4
    assert advice.spent == Fraction(4, 10)
    assert advice.spent + sum(one.epsilon for one in advice.questions.values()) == 4
    assert sum(one.delta for one in advice.questions.values()) <= advice.delta == Fraction(1, 10**6)
    assert sum(found.epsilon for found in advice.found) == advice.spent
    for one in advice.questions.values():
        assert (one.plan.epsilon, one.plan.delta) == (one.epsilon, one.delta)
        assert one.plan.spent == (one.epsilon, one.delta)


def test_what_was_open_is_found_and_what_was_given_stays(advice):
    sold, buyers, few, people = advice.questions.values()
    assert (sold.groups, sold.rows) == (6, 1)
    assert buyers.groups == 6
    assert not any(one.question.automatic for one in advice.questions.values())
    lower, upper = sold.bounds["x"]
    assert lower == 0
    assert 6 < upper < 20
    assert (few.groups, few.rows) == (1, 1)
    assert few.better.limits["groups"] in (5, 6)
    assert few.better.times < 0.5
    assert (people.groups, people.rows, people.better) == (None, None, None)


@pytest.mark.long
def test_questions_of_other_rows_share_no_look(people):
    tables = (people, people.filter("x > 5"))
    asked = [one.group_by("product", keys=PRODUCTS).bound(**OPEN).agg(n=sf.count()) for one in tables]
    found = sf.advise(people, asked, epsilon=4, unsafe_words=SeededWords(1)).found
    assert len(found) == 2 and found[1].value["units"] < 0.6 * found[0].value["units"]


@pytest.mark.long
def test_what_was_advised_is_given_once(advice):
    for option in ({"epsilon": 1}, {"delta": 0}):
        with pytest.raises(sf.errors.QueryError, match="is set by the advice. Write question.release"):
            advice.questions["sold"].release(**option)


def test_a_budget_pays_for_looks_now_and_for_releases_later(people):
    budget = sf.Budget(epsilon=4, delta="1e-6", composition="adding")
    asked = {name: one for name, one in questions(people).items() if name in ("few", "all")}
    found = sf.advise(people, asked, epsilon=4, delta="1e-6", budget=budget)
    assert budget.spent == (0.8, 0.0)
    released = found.release(budget=budget, confidence=0.95)
    assert list(released) == list(found.questions)
    assert budget.remaining[0] == 0
    assert all("_error" in name for name in released["all"].to_arrow().column_names[1:])
    with pytest.raises(BudgetError):
        found.release(budget=budget)


def test_a_budget_must_have_enough_for_all_of_it(people, monkeypatch):
    no_draw(monkeypatch)
    budget = sf.Budget(epsilon=3, delta="1e-6")
    with pytest.raises(BudgetError, match="queries and all releases exceeds what is left"):
        sf.advise(people, questions(people), epsilon=4, delta="1e-6", budget=budget)
    assert budget.history == ()


@pytest.mark.long
def test_weights_move_epsilon(people):
    asked = {name: one for name, one in questions(people).items() if name in ("buyers", "all")}
    words = {"unsafe_words": SeededWords(3)}
    even = sf.advise(people, asked, epsilon=2, **words).questions
    more = sf.advise(people, asked, epsilon=2, weights={"all": 4}, **words).questions
    assert more["all"].epsilon > 1.5 * even["all"].epsilon
    listed = sf.advise(people, list(asked.values()), epsilon=2, weights=[1, 4], **words).questions
    assert [one.epsilon for one in listed.values()] == pytest.approx(
        [one.epsilon for one in more.values()], rel=0.1
    )


def test_the_division_has_the_smallest_sum():
    """Compared with all divisions there are."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        costs = [np.sort(rng.normal(size=9))[::-1] for _ in range(3)]
        costs[0][:1] = np.inf
        found = divide_portions(costs, [1, 1, 2], 9)
        every = [(i, j, 9 - i - j) for i in range(2, 8) for j in range(1, 8) if 9 - i - j >= 2]
        best = min(every, key=lambda d: sum(cost[n - 1] for cost, n in zip(costs, d, strict=True)))
        assert sum(found) == 9
        assert tuple(found) == best


def test_a_division_adds_up_whatever_the_costs():
    """Where no plan is possible, all of the budget is divided still, and no more."""
    never = np.full(8, np.inf)
    for costs in ([never, never], [never, -np.log(np.arange(1, 9))]):
        found = divide_portions(costs, [2, 3], 8)
        assert sum(found) == 8
        assert found[0] >= 2
        assert found[1] >= 3


def no_draw(monkeypatch):
    monkeypatch.setattr("sfumato.release.release.Release.to_arrow", lambda self: pytest.fail("it looked"))


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"epsilon": 0}, BudgetError, "epsilon is 0"),
        ({"delta": 0}, BudgetError, "delta is 0, but private groups need more"),
        ({"share": 1}, ParameterError, "share is 1"),
        ({"share": "0.0001"}, ParameterError, "share is"),
        ({"weights": {"Sold": 2}}, QueryError, "there is no question 'Sold'; did you mean 'sold'."),
        ({"weights": [1]}, ParameterError, "a number for each question"),
        ({"weights": {"sold": 0}}, ParameterError, "from 1/1000 to 1000"),
        ({"weights": 3}, ParameterError, "weights"),
        ({"questions": []}, QueryError, "0 questions"),
        ({"questions": "sold"}, ParameterError, "a list of questions"),
        ({"questions": 3}, ParameterError, "a list of questions"),
        ({"questions": {"": None}}, QueryError, "is a NoneType"),
        ({"questions": ["SELECT 1"]}, QueryError, "one of the questions is a str"),
        ({"table": 3}, ParameterError, "table"),
        ({"budget": 3}, ParameterError, "budget"),
        ({"epsilon": "1e-12"}, BudgetError, "epsilon is"),
    ],
)
def test_errors_come_before_a_look(people, monkeypatch, change, error, match):
    no_draw(monkeypatch)
    given = {"table": people, "questions": questions(people), "epsilon": 1, "delta": "1e-6"} | change
    table, asked = given.pop("table"), given.pop("questions")
    with pytest.raises(error, match=match):
        sf.advise(table, asked, **given)


@pytest.mark.long
def test_a_catalog_has_the_last_word(tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(baskets(), tmp_path / "baskets.parquet")
    (tmp_path / "catalog.toml").write_text(
        '[tables.baskets]\nsource = "baskets.parquet"\nprivacy_unit = "id"\nmax_groups = 2\nmax_rows = 2\n'
    )
    table = sf.catalog(tmp_path / "catalog.toml").table("baskets")
    asked = table.group_by("product").bound(**OPEN).agg(n=sf.count())
    (one,) = sf.advise(
        table, [asked], epsilon=4, delta="1e-6", unsafe_words=SeededWords(1)
    ).questions.values()
    assert one.groups == 2
    assert one.better is None


def charged(monkeypatch, people):
    """Return the epsilons of all that is drawn for advice and its releases, and how often rows are read for it."""
    from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
    from sfumato.release.release import Release

    drawn, read = [], []
    draw, statistics = Release._draw, DuckDBEngine.statistics

    def drawing(self):
        drawn.append(self.plan.epsilon)
        return draw(self)

    def reading(self, *given):
        read.append(given[0])
        return statistics(self, *given)

    monkeypatch.setattr(Release, "_draw", drawing)
    monkeypatch.setattr(DuckDBEngine, "statistics", reading)
    asked = {name: one for name, one in questions(people).items() if name in ("buyers", "all")}
    found = sf.advise(people, asked, epsilon=1, unsafe_words=SeededWords(1))
    looks = sum(drawn)
    for release in found.release().values():
        release.to_arrow()
    return looks, sum(drawn), len(read) == len(drawn)


@pytest.mark.long
def test_all_that_is_drawn_adds_up_to_the_budget(people, monkeypatch):
    """By what releases draw, whatever the advice says of itself; and nothing reads rows but these."""
    assert charged(monkeypatch, people) == (Fraction(1, 5), 1, True)
