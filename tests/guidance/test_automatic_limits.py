"""Limits that a release finds: near the best, told, paid for, and never by what rows say exactly."""

from fractions import Fraction

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.api.table import Table
from sfumato.errors import BudgetError, ParameterError
from sfumato.guidance.contribution_distribution import LIMITS, Distribution
from sfumato.guidance.expected_error import EstimatedUnits
from sfumato.guidance.inferred_limits import best_limits
from sfumato.noise.random_words import SeededWords
from sfumato.plan.planning import make_plan

pytestmark = pytest.mark.noise_cannot_matter("the words are seeded, or the numbers given")


def baskets(units=5_000, most=6, each=1):
    rows = [(i, f"p{(i + k) % 20}") for i in range(units) for k in range(1 + i % most) for _ in range(each)]
    ids, products = zip(*rows, strict=True)
    return pa.table({"id": ids, "product": products, "x": [float(i % 10) for i in ids]})


def asked(table, groups="auto", rows="auto", keys=None, **more):
    people = sf.scan(table, privacy_unit="id").group_by("product", keys=keys)
    return people.bound(groups=groups, rows=rows).agg(n=sf.count(), **more)


BUDGET = {"epsilon": 2, "delta": "1e-6"}


@pytest.mark.parametrize("keys", [None, [f"p{i}" for i in range(20)]], ids=["private", "public"])
@pytest.mark.parametrize("each", [1, 3])
def test_limits_are_those_of_the_table(keys, each):
    options = BUDGET if keys is None else {"epsilon": 2}
    release = asked(baskets(each=each), keys=keys).release(**options, unsafe_words=SeededWords(2))
    (found,) = release.found
    assert found.what == "limits of each id"
    assert found.value == {"groups": 6, "rows": each}
    assert found.epsilon == Fraction(1, 5)
    assert release.plan.query.max_groups == 6
    assert release.plan.query.max_rows == each
    assert release.spent[0] == 2.0
    assert release.plan.epsilon == Fraction(9, 5)
    assert f"groups=6, rows={each}, found with epsilon 0.2" in str(release.explain())
    assert release.explain().to_dict()["found"][0]["value"] == {"groups": 6, "rows": each}


@pytest.mark.long
@pytest.mark.parametrize(
    ("most", "rows", "each", "left_out"),
    [
        (2, 1, 1, 10 / 21),
        (3, 1, 2, 1 - 5 / 7 / 2),
        *(pytest.param(*one, marks=pytest.mark.long) for one in ((6, 1, 1, 0.0), (6, 2, 4, 0.5))),
    ],
)
def test_what_limits_leave_out_is_told(monkeypatch, most, rows, each, left_out):
    # Baskets have 1 to 6 products, as many of each, with so many rows in each of them; an owner limits both.
    monkeypatch.setattr(Table, "_max_limits", (most, rows))
    (found,) = asked(baskets(units=20_000, each=each)).release(**BUDGET, unsafe_words=SeededWords(2)).found
    assert found.value == {"groups": most, "rows": rows}
    of, share = found.left_out
    # Of 20,000 units, noise of some hundred moves no share by a hundredth.
    assert of == "rows" and share == pytest.approx(left_out, abs=0.01)
    told = f"about {100 * share:.0f}%" if left_out else "about 0%"
    assert str(found).endswith(f"; {told} of rows are over the limits")
    assert found.content["left out"] == ["rows", share]


@pytest.mark.long
def test_bounds_and_limits_may_both_be_found():
    question = asked(baskets(), m=sf.mean("x", lower="auto", upper="auto"))
    release = question.release(**BUDGET, diagnostics="0.1", unsafe_words=SeededWords(2))
    limits, bounds = release.found
    assert limits.value == {"groups": 6, "rows": 1}
    assert bounds.what == "bounds of the rows of 'x'"
    assert sum(one.epsilon for one in release.found) <= 2 * Fraction(9, 10) * Fraction(3, 10)
    assert release.spent == (2.0, 1e-6)
    assert release.diagnostics.sentences()


def test_errors_come_before_a_look(monkeypatch):
    monkeypatch.setattr("sfumato.release.release.Release.to_arrow", lambda self: pytest.fail("it looked"))
    with pytest.raises(BudgetError, match="delta is 0"):
        asked(baskets()).release(epsilon=1)
    with pytest.raises(ParameterError, match="auto_share"):
        asked(baskets()).release(**BUDGET, auto_share=2)
    budget = sf.Budget(epsilon=1, delta="1e-6")
    with pytest.raises(BudgetError):
        asked(baskets()).release(**BUDGET, budget=budget)
    assert budget.history == ()


def test_a_catalog_has_the_last_word(tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(baskets(each=3), tmp_path / "baskets.parquet")
    (tmp_path / "catalog.toml").write_text(
        '[tables.baskets]\nsource = "baskets.parquet"\nprivacy_unit = "id"\nmax_groups = 2\nmax_rows = 2\n'
    )
    table = sf.catalog(tmp_path / "catalog.toml").table("baskets").group_by("product")
    question = table.bound(groups="auto", rows="auto").agg(n=sf.count())
    (found,) = question.release(**BUDGET, unsafe_words=SeededWords(1)).found
    assert found.value == {"groups": 2, "rows": 2}


def known(groups, rows=None):
    """Contributions without noise: how many units are in how many groups."""

    def distribution(numbers):
        within, before = [], 0
        for limit in LIMITS:
            within.append(float(sum(n for size, n in numbers.items() if before < size <= limit)))
            before = limit
        return Distribution(float(sum(numbers.values())), tuple(within), 0.0)

    return distribution(groups), None if rows is None else distribution(rows)


@pytest.mark.long
def test_the_best_limit_moves_with_the_budget():
    """Little noise is worth more groups, and much noise fewer."""
    table = baskets()
    seen = EstimatedUnits(*known({1: 2_000, 4: 1_000, 20: 300}), 50.0, 3_300)

    def found(epsilon):
        def plan(groups, rows):
            return make_plan(
                asked(table, groups, rows, keys=list(map(str, range(50)))).query, epsilon=epsilon
            )

        return best_limits(seen, plan, (1, 1), (True, False), (50, 1))[0]

    limits = [found(epsilon) for epsilon in (0.01, 0.1, 1, 10)]
    assert limits == sorted(limits)
    assert limits[0] < limits[-1] == 20


def test_noise_of_far_bins_is_taken_for_nobody():
    """Before, sums that noise had made too small went on to the largest limit, and took noise for units there."""
    within = [1_000.0, 1_000.0, 800.0, *[0.0] * (len(LIMITS) - 5), 40.0, 40.0]
    seen = Distribution(units=3_000.0, within=tuple(within), deviation=20.0)
    assert seen.mean < 3
    assert seen.lost(3) == 0
    far = [800.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 200.0, *[0.0] * (len(LIMITS) - 8)]
    assert Distribution(units=1_000.0, within=tuple(far), deviation=20.0).lost(1) > 0.5  # many, after a gap


def test_a_budget_pays_the_delta_of_an_answer_whose_noise_looks_decide():
    """With groups=1 noise would be K-norm noise, which needs no delta; with those that are found it does."""
    table = pa.table({"id": [i // 20 for i in range(8_000)], "product": [f"p{i % 20}" for i in range(8_000)]})
    table = table.append_column("x", pa.array([float(i % 5) for i in range(8_000)]))
    question = asked(table, rows=1, keys=[f"p{i}" for i in range(20)], m=sf.mean("x", lower=0, upper=5))
    budget = sf.Budget(epsilon=1, delta="1e-3", composition="adding")
    release = question.release(epsilon="0.5", delta="1e-6", budget=budget, unsafe_words=SeededWords(1))
    assert question._check_plan(epsilon="0.5", delta="1e-6").delta == 0
    assert release.plan.delta == Fraction(1, 10**6)
    assert [(one.epsilon, one.delta) for one in budget.history] == [(Fraction(1, 2), Fraction(1, 10**6))]
