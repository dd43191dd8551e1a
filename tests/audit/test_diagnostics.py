"""Diagnostics, audited from outside at user level, from rows to what is printed; and defects that are planted."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.audit import audit
from sfumato.query.diagnostics import asked
from sfumato.query.diagnostics.asked import Diagnosis
from sfumato.query.plans.planning import make_plan

from .once import once

pytestmark = pytest.mark.long

SCHEMA = pa.schema([("id", pa.int64()), ("g", pa.string()), ("x", pa.float64())])
EPSILON = 1


def table(rows):
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


CROWD = [(i, f"g{j}", 1.0) for i in range(40) for j in range(1 + i % 2)]
HOSTILE = {
    "many rows": [(-1, "g0", 1e308)] * 5_000,
    "many groups": [(-1, f"h{i}", -1e308) for i in range(500)],
    "NULL and NaN": [(-1, None, float("nan")), (-1, None, None)],
    "one row": [(-1, "g0", 1.0)],
}
PAIRS = {name: (table(CROWD + rows), table(CROWD)) for name, rows in HOSTILE.items()}


def shown(told):
    """Return all noisy numbers that what is told follows from."""
    (shares,) = told._drawn(0.95).to_arrow().to_pylist()
    (contributions,) = told._contributions.to_arrow().to_pylist()
    return shares | contributions | {"most": told.most_rows}


def mechanism():
    """Table, size -> what is told: shares, the distribution of contributions, and the cap of rows."""
    known = {}

    def draw(rows, size):
        key = id(rows)
        if key not in known:
            people = sf.scan(rows, privacy_unit="id").group_by("g").bound(groups=1, rows=1)
            question = people.agg(n=sf.count(), m=sf.mean("x", lower=0, upper=2))
            plan = make_plan(question.query, epsilon=1, delta=Fraction(1, 10**6))
            diagnosis = asked.diagnosis(question.table, plan, Fraction(EPSILON))
            once(diagnosis.people.engine)
            known[key] = rows, diagnosis
        diagnosis, found = known[key][1], []
        for _ in range(size):
            found.append(shown(diagnosis.release()))
        return {name: [row[name] for row in found] for name in found[0]}

    return draw


@pytest.mark.flakiness(k=14, because="alpha of the audits")
@pytest.mark.parametrize("name", PAIRS)
def test_they_keep_their_claim(name):
    report = audit(mechanism(), epsilon=EPSILON, pairs=[PAIRS[name]], max_samples=80, alpha=1e-15)
    assert not report.violated, report


def contributions_at_sixteen_times_their_part(patch):
    patch.setattr(asked, "OF_CONTRIBUTIONS", Fraction(16, 3))
    patch.setattr(Diagnosis, "_of_shares", property(lambda self: self.epsilon * Fraction(2, 3)))


def shares_at_sixteen_times_the_budget(patch):
    patch.setattr(Diagnosis, "_of_shares", property(lambda self: self.epsilon * 16))


def a_cap_by_exact_numbers(patch):
    patch.setattr(asked, "OF_CONTRIBUTIONS", Fraction(10**6))
    patch.setattr(Diagnosis, "_of_shares", property(lambda self: self.epsilon * Fraction(2, 3)))
    patch.setattr("sfumato.query.diagnostics.contributions.ENOUGH", 1.0)


DEFECTS = {
    "contributions at 16 times their part": (contributions_at_sixteen_times_their_part, "one row"),
    "shares at 16 times the budget": (shares_at_sixteen_times_the_budget, "one row"),
    "a cap by exact numbers": (a_cap_by_exact_numbers, "many rows"),
}


@pytest.mark.flakiness(
    k=14, because="the bet's wealth grows steadily, and is at its goal long before the end"
)
@pytest.mark.parametrize("name", DEFECTS)
def test_planted_defects_are_found(name, monkeypatch):
    plant, pair = DEFECTS[name]
    plant(monkeypatch)
    assert audit(mechanism(), epsilon=EPSILON, pairs=[PAIRS[pair]], max_samples=2_000, seconds=600).violated
