"""Receipts have the entry of the ledger that paid: their own, once, and however a release is asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction as F
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import BudgetError, EngineError, RefusalError

pytestmark = pytest.mark.noise_cannot_matter("what a ledger entered is looked at, no answer")

ROWS = pa.table({"id": [1, 1, 2], "town": ["A", "B", "A"], "v": [1, 2, 3]})
VISITS = sf.scan(ROWS, privacy_unit="id")
TOWNS = VISITS.group_by("town", keys=["A", "B"]).bound(groups=2, rows=1)
COUNTS, MEANS = TOWNS.agg(n=sf.count()), TOWNS.agg(m=sf.mean("v", lower=0, upper="auto"))
PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, privacy_unit_column = id"


def asked(text: str, budget: sf.Budget) -> Any:
    return sf.sql(text, tables={"v": ROWS}, budget=budget)


def advised(budget: sf.Budget) -> list[Any]:
    advice = sf.advise(
        VISITS, {"a": COUNTS, "b": VISITS.bound(groups=1, rows=1).agg(n=sf.count())}, epsilon=1
    )
    return list(advice.release(budget=budget).values())


# What asks; each makes one entry.
WAYS: dict[str, Any] = {
    "groups": lambda b: [COUNTS.release(epsilon="1/3", budget=b)],
    "SQL of two": lambda b: around(
        f"SELECT x.n + y.n AS n FROM ({PRIVATE}) COUNT(*) AS n FROM v) AS x, ({PRIVATE}) COUNT(*) AS n FROM v) AS y", b
    ),
    "largest": lambda b: [VISITS.top("town", k=1, keys=["A", "B"]).release(epsilon=1, budget=b)],
    "diagnostics": lambda b: [COUNTS.release(epsilon=1, diagnostics="0.1", budget=b)],
    "looks": lambda b: [MEANS.release(epsilon=1, budget=b)],
    "SQL that looks": lambda b: around(f"SELECT m + 1 AS m FROM ({PRIVATE}, auto_bounds = TRUE) AVG(v) AS m FROM v)", b),
    "advice": advised,
}  # fmt: skip


def around(text: str, budget: sf.Budget) -> list[Any]:
    """Return what is computed, and each release before it."""
    release = asked(text, budget)
    return [release, *release._releases]


def opened(file: str) -> tuple[sf.Ledger, sf.Budget]:
    """Return a ledger, and a budget of which something was spent before."""
    ledger = sf.Ledger(file)
    ledger.create("hospital", epsilon=30, delta="1e-6")
    ledger.grant("hospital", "ann", epsilon=20)
    budget = ledger.budget("hospital", "ann")
    assert budget.spend("1/7", what="another") == budget.history[0]
    return ledger, budget


def has_its_own(release: Any, entered: Any) -> bool:
    """Whether a receipt has what was entered since, and that covers what it spent."""
    receipt = release.receipt()
    plain = json.loads(json.dumps(receipt.ledger))
    covered = all(
        sum(F(entry[name]) for entry in receipt.ledger) >= spent
        for name, spent in zip(("epsilon", "delta"), receipt.spent, strict=True)
    )
    return bool(covered and plain == [entry.row() for entry in entered])


@pytest.mark.parametrize("ways", [list(WAYS)[:2], pytest.param(list(WAYS)[2:], marks=pytest.mark.long)])
def test_every_release_has_its_own_entry(file, ways):
    _, budget = opened(file)
    for way in ways:
        before = len(budget.history)
        releases = WAYS[way](budget)
        entered = budget.history[before:]
        assert len(entered) == 1 and all(has_its_own(release, entered) for release in releases), way


def test_another_look_at_a_release_pays_and_enters_nothing_more(file, tmp_path):
    ledger, budget = opened(file)
    release = COUNTS.release(epsilon=1, budget=budget)
    for _ in range(3):
        release.to_arrow()
        release.write(tmp_path / "answer.parquet")
    assert len(ledger.history()) == 4 and has_its_own(release, budget.history[1:])
    assert replace(release.receipt(), ledger=None).sha256 == release.receipt().sha256


def test_a_draw_that_failed_was_paid_once_and_is_not_drawn_again(file, monkeypatch):
    from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine

    def failing(self, *arguments, **named):
        raise EngineError("the rows cannot be read")

    ledger, budget = opened(file)
    release = COUNTS.release(epsilon=1, budget=budget)
    with monkeypatch.context() as patch:
        patch.setattr(DuckDBEngine, "statistics", failing)
        with pytest.raises(EngineError):
            release.to_arrow()
    for look in (release.to_arrow, release.receipt):
        with pytest.raises(RefusalError, match="second draw"):
            look()
    assert len(ledger.history()) == 4


def test_a_child_neither_draws_nor_pays(file, in_child):
    ledger, budget = opened(file)
    (release,) = WAYS["groups"](budget)
    assert in_child(release.receipt)[0] is RefusalError
    assert in_child(lambda: WAYS["groups"](budget))[0] in (BudgetError, RefusalError)
    assert len(ledger.history()) == 4 and has_its_own(release, budget.history[1:])
    assert in_child(lambda: release.receipt().ledger) == release.receipt().ledger


def test_a_receipt_keeps_its_entries_in_a_file(file, tmp_path):
    _, budget = opened(file)
    release = COUNTS.release(epsilon="1/3", budget=budget)
    release.receipt().write(tmp_path / "receipt.json")
    receipt = sf.Receipt.read(tmp_path / "receipt.json")
    assert receipt == release.receipt() and receipt.ledger == [budget.history[-1].row()]
    told = str(receipt.verify(release.to_arrow()))
    assert f"entry {budget.history[-1].number} of " in told and "by 'ann'" in told
