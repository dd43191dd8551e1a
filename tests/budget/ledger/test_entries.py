"""Receipts have the entry of the ledger that paid: their own, and once."""

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
COUNTS = TOWNS.agg(n=sf.count())


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
    release = COUNTS.release(epsilon=1, budget=budget)
    assert in_child(release.receipt)[0] is RefusalError
    assert in_child(lambda: COUNTS.release(epsilon=1, budget=budget))[0] in (BudgetError, RefusalError)
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
