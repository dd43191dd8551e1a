"""The certificate stands before every release: of each engine, and of the service.

Plans of the planner get scales that were divided by four here, and keep the loss that they state. Each engine
refuses them before anything is charged or read; without the check they are released.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.api import largest_groups
from sfumato.budget import Loss
from sfumato.budget import loss as checking
from sfumato.budget.epsilon_delta import ExactCost
from sfumato.budget.loss import certify_loss
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.errors import RefusalError
from sfumato.measurements import stratified_survey as survey
from sfumato.plan import planning
from sfumato.plan.plan import Claim, certify_plans, describe
from sfumato.release.payment import payment
from sfumato.release.release import Release
from tests.support.changed_plans import changed_top, scaled, without_certificate

ROWS = pa.table({"id": [1, 1, 2, 3], "town": ["A", "B", "A", "B"], "x": [1.0, 2.0, 3.0, None]})
REFUSED = "certificate is refused, so nothing is read, charged or drawn"

pytestmark = pytest.mark.noise_cannot_matter("releases are refused, or drawn and not looked at")


def by_town(source=ROWS):
    return sf.scan(source, privacy_unit="id").group_by("town", keys=["A", "B"]).bound(groups=1, rows=1)


def question(source=ROWS):
    return by_town(source).agg(n=sf.count(), people=sf.count_units())


def largest(source=ROWS):
    return sf.scan(source, privacy_unit="id").top("town", k=1, keys=["A", "B"])


@pytest.fixture
def weak(monkeypatch):
    """The planner makes plans whose scales are divided by four."""
    right, right_top = planning._choose_plan, largest_groups.make_top_plan

    monkeypatch.setattr(planning, "_choose_plan", lambda *given: scaled(right(*given), Fraction(1, 4)))
    monkeypatch.setattr(
        largest_groups, "make_top_plan", lambda *given: changed_top(right_top(*given), scale=Fraction(1, 4))
    )


@pytest.fixture
def unread(monkeypatch):
    """Fail where a row is read."""

    def read(*_):
        pytest.fail("rows were read")

    monkeypatch.setattr(DuckDBEngine, "statistics", read)


def in_python(budget):
    return question().release(epsilon=1, noise="laplace", budget=budget).to_arrow()


def in_sql(budget):
    text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = id) COUNT(*) AS n FROM t"
    return sf.sql(text, tables={"t": ROWS}, budget=budget).to_arrow()


def with_computation(budget):
    text = (
        "SELECT n + 1 AS m FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = id) "
        "COUNT(*) AS n FROM t)"
    )
    return sf.sql(text, tables={"t": ROWS}, budget=budget).to_arrow()


def of_largest(budget):
    return largest().release(epsilon=1, budget=budget).to_arrow()


def with_looks(budget):
    asked = by_town().agg(total=sf.sum("x", lower="auto", upper="auto"))
    return asked.release(epsilon=1, noise="laplace", budget=budget).to_arrow()


def of_a_share(budget):
    return question().release(share="1/3", noise="laplace", budget=budget).to_arrow()


def with_diagnostics(budget):
    return question().release(epsilon=1, noise="laplace", diagnostics=0.1, budget=budget).to_arrow()


def diagnosed(budget):
    return question().diagnose(epsilon=1, budget=budget).to_arrow()


def advised(budget):
    table = sf.scan(ROWS, privacy_unit="id")
    return sf.advise(table, [table.bound(rows="auto").agg(n=sf.count())], epsilon=1, budget=budget)


WAYS = [
    in_python,
    in_sql,
    with_computation,
    of_largest,
    with_looks,
    of_a_share,
    with_diagnostics,
    diagnosed,
    advised,
]


@pytest.mark.parametrize("way", WAYS)
def test_less_noise_than_is_charged_is_refused(way, weak, unread):
    budget = sf.Budget(epsilon=3)
    with pytest.raises(RefusalError, match=REFUSED):
        way(budget)
    assert budget.remaining.epsilon == 3 and not budget.history


@pytest.mark.parametrize("way", [in_python, of_largest, diagnosed])
def test_without_the_check_it_would_be_released(way, weak):
    budget = sf.Budget(epsilon=3)
    with without_certificate():
        assert way(budget) is not None
    assert budget.remaining.epsilon < 3


def test_a_release_is_made_of_no_plan_without_a_certificate(weak):
    plan = question().plan(epsilon=1, noise="laplace")
    with pytest.raises(RefusalError, match=REFUSED):
        Release(plan, by_town()._engine)
    with pytest.raises(RefusalError, match=REFUSED):
        payment(None, [plan], "a test")


def test_a_survey(monkeypatch):
    sample = {"school": ["E"] * 40 + ["H"] * 20, "award": [True, False] * 30}
    given = {"stratum": "school", "answer": "award", "population": {"E": 400, "H": 100}, "yes": True}
    assert sf.stratified_proportion(sample, **given, epsilon=1).counts
    right = survey.NOISES["laplace"]
    weak_kind = replace(right, law=lambda scale: right.law(scale / 4))
    monkeypatch.setattr(survey, "NOISES", {"laplace": weak_kind})
    monkeypatch.setattr(survey, "read_answers", lambda *_: pytest.fail("rows were read"))
    with pytest.raises(RefusalError, match=REFUSED):
        sf.stratified_proportion(sample, **given, epsilon=1)


class TestBeam:
    """Releases of a pipeline."""

    SCHEMA = pa.schema([("id", pa.int64()), ("town", pa.string())])

    def of_rows(self, budget):
        return question(self.SCHEMA).release(epsilon=1, noise="laplace", budget=budget)

    def of_largest(self, budget):
        return largest(self.SCHEMA).release(epsilon=1, budget=budget)

    @pytest.mark.parametrize("way", ["of_rows", "of_largest"])
    def test_releases(self, way, weak):
        pytest.importorskip("apache_beam")
        budget = sf.Budget(epsilon=3)
        with pytest.raises(RefusalError, match=REFUSED):
            getattr(self, way)(budget)
        assert not budget.history


TEXT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) year, COUNT(*) AS n FROM visits GROUP BY year"
COUNT = {"asks": "count", "args": [], "named": {}}
CHAIN = {"table": "visits", "calls": [["bound", [], {"rows": 1}], ["agg", [], {"n": COUNT}]]}


class TestService:
    """Questions of analysts, as texts and as chains of calls."""

    @pytest.mark.parametrize(
        "body", [{"sql": TEXT}, {"chain": CHAIN, "options": {"epsilon": 1}}], ids=["text", "chain"]
    )
    def test_questions(self, body, weak, tmp_path):
        from tests.support.service import LocalService

        service = LocalService(tmp_path)
        answer = service.post("/v1/release", **body)
        assert answer.status_code != 200 and "certificate is refused" in answer.text
        assert not service.budgets.charged_by("ann").history


@pytest.mark.long
class TestSpark:
    """Releases that workers of Spark draw."""

    @pytest.mark.parametrize("ask", [question, largest])
    def test_releases(self, ask, weak):
        pytest.importorskip("pyspark")
        from tests.support.engines import spark_frame

        frame, budget = spark_frame(ROWS), sf.Budget(epsilon=3)
        with pytest.raises(RefusalError, match=REFUSED):
            ask(frame).release(epsilon=1, budget=budget)
        assert not budget.history


def test_what_is_paid_is_at_least_what_is_proved():
    """A loss below the certificate is refused, in each way in which budgets count it."""
    laplace, gaussian = (
        question().plan(epsilon=1, delta="1e-6", noise=noise) for noise in ("laplace", "gaussian")
    )
    private = sf.scan(ROWS, privacy_unit="id").group_by("town").bound(groups=1, rows=1).agg(n=sf.count())
    selected = private.plan(epsilon=1, delta="1e-6", noise="laplace", group_selection="truncated_geometric")
    less = Fraction(999, 1000)
    for plan, loss, kind in (
        (laplace, laplace.loss.scaled(1 / less), "pure epsilon"),
        (gaussian, Loss(gaussian=gaussian.loss.gaussian * less), "squared mu"),
        (gaussian, Loss(), "squared mu"),
        (selected, replace(selected.loss, approximate=()), "pure epsilon"),
        (
            selected,
            replace(
                selected.loss, approximate=tuple((e, d * less, n) for e, d, n in selected.loss.approximate)
            ),
            "chance of events",
        ),
    ):
        assert certify_plans([plan])
        with pytest.raises(RefusalError, match=f"a {kind} of .* would be paid"):
            certify_loss(describe([plan]), loss)
        budget = sf.Budget(epsilon=3, delta="1e-5")
        with pytest.raises(RefusalError, match=f"a {kind} of .* would be paid"):
            wrong = replace(plan)
            wrong.measurement.__dict__["loss"] = loss  # where it is kept once it is computed
            try:
                payment(budget, [wrong], "a test")
            finally:
                del wrong.measurement.__dict__["loss"]
        assert not budget.history


def test_plans_together_are_within_what_they_claim_together():
    plans = [question().plan(epsilon=1), largest().plan(epsilon="1/2", delta="1e-6")]
    described = describe(plans)
    assert (described["epsilon"], described["delta"]) == ("3/2", "1/1000000")
    assert [part["kind"] for part in described["parts"]] == ["groups", "largest_groups"]
    assert described["unit"] == "id" and certify_plans(plans).epsilon <= Fraction(3, 2)
    with pytest.raises(RefusalError, match=REFUSED):
        certify_plans([plans[0], changed_top(plans[1], each=Fraction(1))])


def test_parts_that_follow_from_earlier_ones_stay_within_a_claim():
    plan = question().plan(epsilon="1/3")
    claim = Claim(ExactCost(Fraction(1), Fraction(0)), [plan])
    for _ in range(3):
        claim.take([plan])
    with pytest.raises(RefusalError, match="more than that together"):
        claim.take([plan])
    budget = sf.Budget(epsilon=3)
    payment(budget, [claim], "looks and an answer")()
    assert budget.remaining.epsilon == 2


@pytest.mark.long
def test_a_release_describes_its_looks_and_diagnostics():
    """The description of a release has all that it paid for, and what it claims is what it spent."""
    asked = by_town().agg(total=sf.sum("x", lower="auto", upper="auto"))
    release = asked.release(epsilon=1, noise="laplace", diagnostics=0.1)
    described = describe([release.plan])
    assert described["epsilon"] == "1" and release.spent == (1, 0)
    claims = [Fraction(part["epsilon"]) for part in described["parts"]]
    looks = len(release.plan.found[0].drawn_parts)
    assert looks >= 1 and sum(claims[:looks]) == release.found[0].epsilon
    assert claims[looks] == release.plan.epsilon and sum(claims) == 1
    assert len(claims) > looks + 2  # those of diagnostics


def test_long_descriptions_are_certified_and_not_kept():
    """256 of 100,000 time steps took 1.4 GB."""
    described = describe([question().plan(epsilon=1)])
    for unit, kept in (("id", 1), ("i" * checking._LONGEST_KEPT, 0)):
        checking._certified.cache_clear()
        assert certify_loss(described | {"unit": unit}).pure == 1
        assert checking._certified.cache_info().currsize == kept
