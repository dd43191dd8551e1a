"""Automatic limits, audited from outside at user level: all that a look shows; and defects that are planted."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.audit import audit
from sfumato.guidance import inferred_limits
from sfumato.guidance.inferred_limits import contribution_query

from .once import by_name, once

pytestmark = pytest.mark.long

SCHEMA = pa.schema([("id", pa.int64()), ("g", pa.string())])
CROWD = [(i, f"g{j}") for i in range(40) for j in range(1 + i % 2)]
HOSTILE = {
    "many rows": [(-1, "g0")] * 5_000,
    "many groups": [(-1, f"h{i}") for i in range(500)],
    "NULL": [(-1, None)] * 3,
}


def table(rows):
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


PAIRS = {name: (table(CROWD + rows), table(CROWD)) for name, rows in HOSTILE.items()}


def mechanism():
    """Table, size -> all noisy numbers that limits follow from."""
    known = {}

    def draw(rows, size):
        if id(rows) not in known:
            asked = sf.scan(rows, privacy_unit="id").group_by("g").bound(groups=1, rows=1).agg(n=sf.count())
            look = contribution_query(asked.table, asked.query, Fraction(1))
            once(look.table._engine), once(look.counted[0]._engine)
            known[id(rows)] = rows, look
        found = []
        for _ in range(size):
            seen = known[id(rows)][1].draw()
            numbers = {"people": seen.people, "number": seen.number}
            for name, one in (("groups", seen.groups), ("fullest", seen.fullest)):
                numbers |= {f"{name} {i}": number for i, number in enumerate(one.within)}
            found.append(numbers)
        return by_name(found)

    return draw


@pytest.mark.flakiness(k=14, because="alpha of the audits")
@pytest.mark.parametrize("name", PAIRS)
def test_a_look_keeps_its_claim(name):
    report = audit(mechanism(), epsilon=1, pairs=[PAIRS[name]], max_samples=100, alpha=1e-15)
    assert not report.violated, report


def plans_at(times, part):
    """Plans of a part of the look have so many times the budget."""
    right = inferred_limits.make_plan

    def plan(query, epsilon):
        counting = len(query.aggregates) == 1
        return right(query, epsilon=epsilon * times if counting == (part == "number") else epsilon)

    return lambda patch: patch.setattr(inferred_limits, "make_plan", plan)


DEFECTS = {
    "contributions at 40 times their part": (plans_at(40, "contributions"), "many groups"),
    "the number of groups at 400 times its part": (plans_at(400, "number"), "many groups"),
    "both without noise to speak of": (
        lambda patch: [plans_at(10**5, part)(patch) for part in ("number", "contributions")],
        "many rows",
    ),
}


@pytest.mark.flakiness(
    k=14, because="the bet's wealth grows steadily, and is at its goal long before the end"
)
@pytest.mark.parametrize("name", DEFECTS)
def test_planted_defects_are_found(name, monkeypatch):
    plant, pair = DEFECTS[name]
    plant(monkeypatch)
    assert audit(mechanism(), epsilon=1, pairs=[PAIRS[pair]], max_samples=2_000, seconds=600).violated
