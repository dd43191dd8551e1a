"""Diagnostics, audited from outside at user level, from rows to what is printed; and defects that are planted."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.audit import audit
from sfumato.guidance import diagnosis_plan
from sfumato.guidance.diagnosis_plan import Diagnosis
from sfumato.plan.planning import make_plan
from sfumato.release.release import Release
from sfumato.testing import noise_free, release_mechanism

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
    found = {"most": told.most_rows}
    for part in (*told._drawn(0.95), told._contributions):
        (row,) = part.to_arrow().to_pylist()
        for name, value in row.items():
            vector = enumerate(value) if isinstance(value, list) else ()
            found |= {f"{name}[{i}]": one for i, one in vector} or {name: value}
    return found


def diagnosis_of(rows):
    people = sf.scan(rows, privacy_unit="id").group_by("g").bound(groups=1, rows=1)
    question = people.agg(n=sf.count(), m=sf.mean("x", lower=0, upper=2))
    plan = make_plan(question.query, epsilon=1, delta=Fraction(1, 10**6))
    return diagnosis_plan.diagnosis(question.table, plan, Fraction(EPSILON))


@dataclass(frozen=True)
class Given:
    """The distribution of contributions, as one of many releases gave it."""

    row: dict[str, float]

    def to_arrow(self):
        return pa.Table.from_pylist([self.row])


class Bulk:
    """Many diagnostics of one table: their distributions at once, then their shares, of as many rows as these say."""

    def __init__(self, rows):
        self.diagnosis, self.rows, self.known = diagnosis_of(rows), rows, {}

    def drawn(self, part, plan, size):
        if part not in self.known:
            table = (
                self.diagnosis.people
                if part == "contributions" or not part[1]
                else self.diagnosis.tables[part[1] - 1][0]
            )
            ask = lambda _: Release(plan, table._engine)  # noqa: E731
            self.known[part] = release_mechanism(ask)
        return self.known[part](self.rows, size)

    def most_rows(self, row):
        told = self.diagnosis.release()
        told._contributions = Given(row)
        return told._distributions["rows"].enough

    def __call__(self, size):
        found = self.drawn("contributions", self.diagnosis.contributions, size)
        rows = [{name: int(column[i]) for name, column in found.items()} for i in range(size)]
        found["most"] = np.array([self.most_rows(row) for row in rows])
        for most in np.unique(found["most"]).tolist():
            places = np.flatnonzero(found["most"] == most)
            plans = self.diagnosis.shares(most), *self.diagnosis.numbers(most)
            for i, plan in enumerate(plans):
                for name, column in self.drawn((most, i), plan, len(places)).items():
                    found.setdefault(name, np.full(size, np.nan))[places] = column
        return found


def mechanism():
    """Table, size -> what is told: shares, the distribution of contributions, and the cap of rows."""
    known = {}

    def draw(rows, size):
        if id(rows) not in known:
            known[id(rows)] = rows, Bulk(rows)
        return known[id(rows)][1](size)

    return draw


@pytest.mark.noise_cannot_matter("there is none")
@pytest.mark.parametrize("name", PAIRS)
def test_bulk_draws_are_diagnostics(name):
    for rows in PAIRS[name]:
        with noise_free():
            one, drawn = shown(diagnosis_of(rows).release()), Bulk(rows)(2)
        assert {name: column.tolist() for name, column in drawn.items()} == {
            name: [value, value] for name, value in one.items()
        }


@pytest.mark.flakiness(k=15, because="independent noises of scale 1 or more in 60 numbers are equal")
def test_bulk_draws_have_noise_of_their_own():
    drawn = Bulk(PAIRS["one row"][0])(4)
    rows = {tuple(column[i] for column in drawn.values()) for i in range(4)}
    assert len(rows) == 4


@pytest.mark.flakiness(k=14, because="alpha of the audits")
@pytest.mark.parametrize("name", PAIRS)
def test_they_keep_their_claim(name):
    report = audit(mechanism(), epsilon=EPSILON, pairs=[PAIRS[name]], max_samples=80, alpha=1e-15)
    assert not report.violated, report


def contributions_at_sixteen_times_their_part(patch):
    patch.setattr(diagnosis_plan, "OF_CONTRIBUTIONS", Fraction(16, 3))
    patch.setattr(Diagnosis, "_of_shares", property(lambda self: self.epsilon * Fraction(2, 3)))


def shares_at_128_times_the_budget(patch):
    patch.setattr(Diagnosis, "_of_shares", property(lambda self: self.epsilon * 128))


def a_cap_by_exact_numbers(patch):
    patch.setattr(diagnosis_plan, "OF_CONTRIBUTIONS", Fraction(10**6))
    patch.setattr(Diagnosis, "_of_shares", property(lambda self: self.epsilon * Fraction(2, 3)))
    patch.setattr("sfumato.guidance.contribution_distribution.ENOUGH", 1.0)


DEFECTS = {
    "contributions at 16 times their part": (contributions_at_sixteen_times_their_part, "one row"),
    "shares at 32 times the budget": (shares_at_128_times_the_budget, "one row"),
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
