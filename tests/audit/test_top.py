"""Releases of the largest groups, audited from outside at user level."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.audit import audit, units
from sfumato.query import top
from sfumato.query.top_plan import TopPlan

pytestmark = pytest.mark.long

SCHEMA = pa.schema([("unit", pa.string()), ("group", pa.string()), ("value", pa.float64())])
GROUPS = ["a", "b", "c"]


def table(rows):
    return pa.Table.from_pylist(rows, SCHEMA)


def crowd(each, one_more):
    rows = [{"unit": f"u{i}", "group": g, "value": 1.0} for g, n in each.items() for i in range(n)]
    return table(rows + [{"unit": "more", "group": g, "value": 1.0} for g in one_more])


def mechanism(keys, **options):
    """Draw a release many times; what is asked of the rows is read once for a table."""

    def draw(rows, size):
        question = sf.scan(rows, privacy_unit="unit").top("group", k=2, keys=keys)
        found = list(question.engine.statistics(question.exact, 1 << 16))

        class Once:
            name, files = "DuckDB", ()

            @staticmethod
            def statistics(query, batch_rows):
                return iter(found)

        once = top.Top(Once(), question.schema, "unit", (), ("group",), question.public_keys, 2)
        drawn = [once.release(**options).to_arrow() for _ in range(size)]
        return [tuple(map(tuple, (r.values() for r in t.to_pylist()))) for t in drawn]

    return draw


CLAIMS = {
    "public": (GROUPS, {"epsilon": 1}, {}),
    "public, keys alone": (GROUPS, {"epsilon": 1}, {"counts": False}),
    "private": (None, {"epsilon": 1, "delta": 0.01}, {}),
}


@pytest.mark.flakiness(k=14, because="alpha of the audits")
@pytest.mark.parametrize("name", CLAIMS)
def test_releases_keep_their_claim(name):
    keys, claim, options = CLAIMS[name]
    report = audit(
        mechanism(keys, **claim, **options),
        **claim,
        pairs=units(groups=GROUPS, table=table),
        max_samples=200,
        alpha=1e-15,
    )
    assert not report.violated, report


PAIR = [(crowd({"a": 3, "b": 3, "c": 3}, ["a"]), crowd({"a": 3, "b": 3, "c": 3}, []))]
DEFECTS = {
    "k taken the wrong way": ("rate", lambda plan: plan.epsilon * plan.k),
    "sensitivity a sixteenth": ("step_rate", lambda plan: 16 * plan.rate),
}


@pytest.mark.flakiness(
    k=14,
    because="the bet's wealth grows steadily, and is at its goal after some hundred of the draws that it has",
)
@pytest.mark.parametrize("name", DEFECTS)
def test_planted_defects_are_found(name, monkeypatch):
    attribute, wrong = DEFECTS[name]
    monkeypatch.setattr(TopPlan, attribute, property(wrong))
    draw = mechanism(GROUPS, epsilon=1, counts=False)
    assert audit(draw, epsilon=1, pairs=PAIR, max_samples=20_000).violated


@pytest.mark.flakiness(
    k=14,
    because="the bet's wealth grows steadily, and is at its goal after some hundred of the draws that it has",
)
def test_a_forgotten_end_is_found(monkeypatch):
    """Whoever is alone in a group is then shown."""
    monkeypatch.setattr(TopPlan, "margin", property(lambda plan: 0))
    pair = [(crowd({"a": 3}, ["z"]), crowd({"a": 3}, []))]
    draw = mechanism(None, epsilon=1, delta=1e-6, counts=False)
    assert audit(draw, epsilon=1, delta=1e-6, pairs=pair, max_samples=20_000).violated
