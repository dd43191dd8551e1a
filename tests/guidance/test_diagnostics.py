"""What limits and bounds changed: shares as defined, error bars that hold, budgets that add up, one draw."""

from fractions import Fraction
from math import log10

import pyarrow as pa
import pytest
from scipy.stats import binom

import sfumato as sf
from sfumato.errors import BudgetError, RefusalError, SfumatoError
from sfumato.guidance import diagnosis_plan
from sfumato.guidance.contribution_distribution import LIMITS, Distribution
from sfumato.noise.random_words import SeededWords
from sfumato.plan.planning import make_plan

pytestmark = pytest.mark.noise_cannot_matter("the words are seeded, or what is compared has next to no noise")
EXACT = 10**6  # an epsilon at which no noise is left


def table(rows, key="town"):
    ids, keys, values = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            key: pa.array(keys, pa.string()),
            "x": pa.array(values, pa.float64()),
        }
    )


# Unit 1 in three towns with five rows, 2 in one with two rows, 3 in a town of NULL, 4 nowhere but in z.
ROWS = [
    *((1, "a", v) for v in (1.0, 50.0, float("nan"))),
    *((1, "b", 60.0), (1, "c", None), (2, "a", -3.0), (2, "a", float("inf")), (3, None, 5.0), (4, "z", 7.0)),
]


def found(question, epsilon=EXACT, **options):
    result = question.diagnose(epsilon=epsilon, **options).findings()
    return {(one.limit, one.of): one.share for one in result}


def asked_of(people, key="town", **limits):
    return (
        sf.scan(table(people, key), privacy_unit="id")
        .group_by(key)
        .bound(**limits)
        .agg(n=sf.count(), m=sf.mean("x", lower=0, upper=40))
    )


SCORES = {
    ("groups=1", "rows"): Fraction(5) * Fraction(2, 3) / 9,
    ("groups=1", "units"): Fraction(1, 4),
    ("rows=2", "rows"): Fraction(1, 9),
    ("rows=2", "units"): Fraction(1, 4),
    ("lower=0", "values of x"): Fraction(1, 9),
    ("upper=40", "values of x"): Fraction(3, 9),
}


@pytest.mark.long
@pytest.mark.parametrize("key", ['"; DROP', pytest.param("__groups", marks=pytest.mark.long)])
def test_shares_are_those_of_the_definition(key, monkeypatch):
    monkeypatch.setattr("sfumato.guidance.contribution_distribution.ENOUGH", 1.0)
    got = found(asked_of(ROWS, key, groups=1, rows=2))
    assert got == {name: pytest.approx(float(share), abs=1e-3) for name, share in SCORES.items()}


@pytest.mark.long
def test_rows_in_no_public_group_do_not_count_and_a_group_of_null_has_its_rows():
    rows = sf.scan(table(ROWS), privacy_unit="id").group_by("town", keys=["a", "b", None, "q"])
    question = rows.bound(groups=1, rows=3, beyond="sample").agg(n=sf.count())
    got = found(question)
    # 1 has three rows in a and one in b, 2 two in a, 3 one in the group of NULL; of 4 keys q has none.
    assert got["groups=1", "units"] == pytest.approx(1 / 3, abs=1e-3)
    assert got["groups=1", "rows"] == pytest.approx(2 / 7, abs=1e-3)
    assert got["rows=3", "rows"] == pytest.approx(0, abs=1e-3)
    assert got["keys", "public keys"] == pytest.approx(1 / 4, abs=1e-3)


@pytest.mark.long
def test_sums_of_a_unit_are_clamped_as_sums():
    question = sf.scan(table(ROWS), privacy_unit="id").group_by("town").bound(groups=9, rows=9)
    got = found(question.agg(s=sf.sum("x", lower=0, upper=55)))
    # Sums: 51 and NaN in a, which is no number; 60 in b; infinity of 2.
    assert ("upper=55", "sums of x") in got
    assert ("rows=9", "rows") not in got, "a sum of a unit has no limit of rows"


PEOPLE = [(i, f"t{j}", float(i % 50)) for i in range(2_000) for j in range(1 + i % 5)]


def test_budgets_add_up_exactly():
    question = asked_of(ROWS, groups=1, rows=1)
    plan = question.plan(epsilon="0.3", delta="1e-6", diagnostics="0.05")
    assert plan.spent == (Fraction(3, 10), Fraction(1, 10**6))
    assert plan.epsilon == Fraction(3, 10) * Fraction(19, 20)
    diagnosis = plan.diagnostics
    parts = [diagnosis.contributions, diagnosis.shares(7), *diagnosis.numbers(7)]
    assert sum(part.epsilon for part in parts) == diagnosis.epsilon == Fraction(3, 200)
    counted = (
        sf.scan(table(ROWS), privacy_unit="id")
        .group_by("town", keys=[str(i) for i in range(10_000)])
        .bound(groups=1, rows=1)
        .agg(n=sf.count())
    ).plan(epsilon=1, diagnostics=0.5)
    beside = counted.diagnostics
    parts = [beside.matched[1], beside.contributions, beside.shares(7), *beside.numbers(7)]
    assert sum(part.epsilon for part in parts) == Fraction(1, 2)
    assert counted.spent == (1, 0)


@pytest.mark.long
def test_drawn_once_in_one_place(in_child):
    import copy

    release = asked_of(PEOPLE, groups=1, rows=1).release(epsilon=1, delta=1e-6, diagnostics=0.1)
    told = release.diagnostics
    assert not told.drawn
    with pytest.raises(RefusalError, match="cannot be copied"):
        copy.copy(told)
    kind, text = in_child(told.to_arrow)
    assert issubclass(kind, SfumatoError)
    assert "cannot be copied: drawn in two places" in text
    once = told.to_arrow()
    assert told.drawn
    assert not release.drawn
    assert told.to_arrow().equals(once)
    assert told.to_arrow(0.9)["share"].equals(once["share"])
    assert release.diagnostics is told
    assert release.spent == (1.0, 1e-6)


@pytest.mark.long
@pytest.mark.parametrize(
    "rows",
    [
        [],
        [(1, f"t{i}", 1.0) for i in range(2_000)],
        *(
            pytest.param(rows, marks=pytest.mark.long)
            for rows in (
                [(1, "a", 1.0)] * 30_000,
                [(i, None, float("nan")) for i in range(100)],
                [(i, "a", v) for i, v in enumerate((1e308, -1e308, float("inf"), -float("inf"), 5e-324))],
            )
        ),
    ],
    ids=["empty", "one in many groups", "one unit of many rows", "NULL", "extremes"],
)
def test_rows_raise_nothing(rows):
    for one in asked_of(rows, groups=2, rows=3).diagnose(epsilon=0.1).findings():
        assert 0 <= one.share <= 1
        assert 0 <= one.half_width <= 1


def misses(draws, narrower=1.0):
    """How many error bars do not hold the exact share, of how many."""
    question = asked_of(PEOPLE, groups=2, rows=1)
    plan = make_plan(question.query, epsilon=1, delta=Fraction(1, 10**6))
    diagnosis = diagnosis_plan.diagnosis(question.table, plan, Fraction(3, 10))
    missed = of = 0
    for seed in range(draws):
        told = diagnosis.release(SeededWords(seed))
        most = told.most_rows
        by_unit = {i: 1 + i % 5 for i in range(2_000)}
        weight = {i: min(n, most) for i, n in by_unit.items()}
        exact = sum(weight[i] * max(0, 1 - 2 / n) for i, n in by_unit.items()) / sum(weight.values())
        for one in told.findings():
            truth = {"rows": exact, "units": 3 / 5}.get(one.of) if one.limit == "groups=2" else None
            if truth is not None:
                of += 1
                missed += abs(one.share - truth) > narrower * one.half_width
    return missed, of


@pytest.mark.long
def test_error_bars_hold_as_often_as_they_say():
    missed, of = misses(20)
    assert of == 40
    assert binom.sf(missed - 1, of, 0.05) > 1e-4
    missed, of = misses(8, narrower=0.1)
    assert log10(binom.sf(missed - 1, of, 0.05)) < -9


def test_a_smaller_limit_is_advised_where_noise_is_no_reason_for_it():
    """Most units are within 2 by noise alone, and one in five has more: 2 would cut them, and no bar would tell."""
    within = [0.0] * len(LIMITS)
    within[0], within[2] = 720.0, 180.0
    assert Distribution(900, tuple(within), 2.0).surely_enough == LIMITS[2]
    noisy = Distribution(900, tuple(within), 150.0)
    assert noisy.enough < LIMITS[2] < noisy.surely_enough  # the planted defect is to advise the first


def test_a_budget_pays_for_both():
    budget = sf.Budget(epsilon=1, delta="1e-6", composition="adding")
    question = asked_of(ROWS, groups=1, rows=1)
    question.release(epsilon="0.5", delta="1e-6", diagnostics="0.1", budget=budget)
    assert budget.remaining[:2] == (0.5, 0)
    question.diagnose(epsilon="0.25", budget=budget)
    assert budget.remaining[:2] == (0.25, 0)
    with pytest.raises(BudgetError, match="exceeds what is left"):
        question.diagnose(epsilon="0.5", budget=budget)
    assert budget.remaining[:2] == (0.25, 0)


# Of people and their visits: 1 has two in a and one in b, 2 two in a, 3 none; 4, with one, is no person.
PEOPLE_TABLE = pa.table({"id": [1, 2, 3], "age": [30.0, 90.0, 50.0]})

VISITS = pa.table(
    {
        "id": [1, 1, 1, 2, 2, 4],
        "town": ["a", "a", "b", "a", "a", "c"],
        "cost": [5.0, 50.0, 5.0, 5.0, 99.0, 1.0],
    }
)


def joined_rows():
    people, visits = (sf.scan(one, privacy_unit="id") for one in (PEOPLE_TABLE, VISITS))
    return people.join(visits, on="id")


JOINED = {
    ("groups=1", "rows"): (3 * 1 / 2) / 5,
    ("groups=1", "units"): 1 / 2,
    ("rows=1", "rows"): (1 + 1) / 5,
    ("rows=1", "units"): 1.0,
    ("lower=0", "values of cost"): 0.0,
    ("upper=40", "values of cost"): 2 / 5,
    ("lower=0", "values of age"): 0.0,
    ("upper=60", "values of age"): 2 / 5,
}

AGGREGATES = {
    "n": sf.count(), "cost": sf.mean("cost", lower=0, upper=40), "age": sf.mean("age", lower=0, upper=60)
}  # fmt: skip


@pytest.mark.long
def test_of_joined_tables_shares_are_of_joined_rows(monkeypatch):
    monkeypatch.setattr("sfumato.guidance.contribution_distribution.ENOUGH", 1.0)
    question = joined_rows().group_by("town").bound(groups=1, rows=1).agg(**AGGREGATES)
    assert found(question) == {name: pytest.approx(share, abs=1e-3) for name, share in JOINED.items()}
    release = question.release(epsilon=2 * EXACT, delta="1e-6", diagnostics="0.5")
    shown = {(one.limit, one.of): one.share for one in release.diagnostics.findings()}
    assert shown == {name: pytest.approx(share, abs=1e-3) for name, share in JOINED.items()}
    assert release.spent == (2 * EXACT, 1e-6)
