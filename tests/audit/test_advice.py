"""Advice and the releases that it advises, audited from outside at user level, from end to end; and planted defects."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.advice import advice_request
from sfumato.advice import shared_queries as looks
from sfumato.api.question import Question
from sfumato.audit import audit
from sfumato.guidance.inferred_limits import ContributionQuery
from tests.support.changed_plans import without_certificate

from .once import by_name, once

pytestmark = pytest.mark.long

SCHEMA = pa.schema([("id", pa.int64()), ("g", pa.string()), ("x", pa.float64())])
KEYS = ["g0", "g1"]
CROWD = [(i, f"g{j}", float(i % 3)) for i in range(40) for j in range(1 + i % 2)]
HOSTILE = {
    "many rows in all groups": [(-1, key, 1e9) for key in KEYS for _ in range(40)],
    "rows of no group": [(-1, "h", None)] * 3,
}


def table(rows):
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


PAIRS = {name: (table(CROWD + rows), table(CROWD)) for name, rows in HOSTILE.items()}


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    """Divide the rest by eight, plan each look once, and add up its rows once: what is drawn is the same."""
    monkeypatch.setattr(advice_request, "PORTIONS", 8)
    monkeypatch.setattr(advice_request, "_PORTIONS_EACH", 4)
    right, known = looks.contribution_query, {}

    def look(table, query, epsilon, matter):
        key = table._engine, query.keys, epsilon
        if key not in known:
            known[key] = right(table, query, epsilon, matter)
            once(known[key].table._engine)
        return known[key]

    monkeypatch.setattr(looks, "contribution_query", look)


def mechanism():
    """Table, size -> all that advice says, and all that its releases show: epsilon 1 together."""
    known = {}

    def draw(rows, size):
        if id(rows) not in known:
            opened = sf.scan(rows, privacy_unit="id")
            once(opened._engine)
            known[id(rows)] = rows, opened
        people = known[id(rows)][1]
        by_group = people.group_by("g", keys=KEYS).bound(groups="auto", rows=1)
        questions = {
            "by": by_group.agg(n=sf.count()),
            "all": people.agg(people=sf.count_units()),
        }
        found = []
        for _ in range(size):
            advice = sf.advise(people, questions, epsilon=1)
            numbers = {"units": advice.found[0].value["units"]}
            numbers |= {f"epsilon of {n}": float(one.epsilon) for n, one in advice.questions.items()}
            numbers["groups"] = advice.questions["by"].groups
            for name, release in advice.release().items():
                shown = release.to_arrow()
                for output in set(shown.column_names) - {"g"}:
                    numbers |= {f"{output} of {name} {i}": v for i, v in enumerate(shown[output].to_pylist())}
            found.append(numbers)
        return by_name(found)

    return draw


@pytest.mark.flakiness(k=14, because="alpha of the audits")
@pytest.mark.parametrize("name", PAIRS)
def test_advice_and_its_releases_keep_their_claim(name):
    report = audit(mechanism(), epsilon=1, pairs=[PAIRS[name]], max_samples=40, alpha=1e-15, seconds=600)
    assert not report.violated, report


def looks_at_contributions_at_a_thousand_times_their_part(patch):
    right = looks.contribution_query
    patch.setattr(
        looks, "contribution_query", lambda t, q, epsilon, matter: right(t, q, 1000 * epsilon, matter)
    )


def units_are_told_exactly(patch):
    right = ContributionQuery.draw

    def draw(self, words=None):
        (batch,) = self.table._engine.statistics(self.contributions.exact, 1)
        return replace(right(self, words), people=float(batch.column(0)[0].as_py()))

    patch.setattr(ContributionQuery, "draw", draw)


def releases_cost_more_than_was_said(patch):
    right = Question.plan

    def plan(self, **options):
        return right(self, **options | {"epsilon": 100 * options["epsilon"]})

    patch.setattr(Question, "plan", plan)


DEFECTS = (
    looks_at_contributions_at_a_thousand_times_their_part,
    units_are_told_exactly,
    releases_cost_more_than_was_said,
)


@pytest.mark.flakiness(
    k=14, because="the bet's wealth grows steadily, and is at its goal long before the end"
)
@pytest.mark.parametrize("plant", DEFECTS, ids=lambda plant: plant.__name__)
def test_planted_defects_are_found(plant, monkeypatch):
    plant(monkeypatch)
    with without_certificate():  # which refuses some of them
        report = audit(
            mechanism(), epsilon=1, pairs=[PAIRS["many rows in all groups"]], max_samples=300, seconds=600
        )
    assert report.violated, report
