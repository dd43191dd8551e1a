"""`sfumato journal`: what an owner sees of what was asked, and how it ends where something is wrong."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli.main import app

pytestmark = pytest.mark.noise_cannot_matter("what was asked is looked at, no answer")

ROWS = sf.scan(pa.table({"id": [1, 2], "town": ["A", "B"]}), privacy_unit="id").bound(rows=1)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> sf.Ledger:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SFUMATO_LEDGER", "budget.db")
    made = sf.Ledger("budget.db")
    made.create("shop", epsilon=9)
    made.grant("shop", "ann", epsilon=5)
    for question in (ROWS, ROWS.filter("town = '\x1b[31m[red]A' OR id = 1")):
        question.agg(n=sf.count()).release(epsilon=1, budget=made.budget("shop", "ann")).to_arrow()
    return made


def said(*arguments: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app, ["journal", *arguments], env={"COLUMNS": "60", "TERM": "dumb"})
    assert done.exit_code == code, done.output
    return done.output


def test_what_was_asked_is_shown(ledger):
    shown = said("show")
    rows = [line.split() for line in shown.splitlines() if line.strip()[:1].isdigit()]
    assert [row[0] for row in rows] == ["1", "2", "3", "4", "5", "6"]
    assert [row[3] for row in rows] == ["cap", "cap", "asked", "answered", "asked", "answered"]
    assert "no budget of 'nothing'" in said("show", "nothing", code=2)
    assert said("show", "shop", "--analyst", "ann").count("asked") == 2
    assert "lines.json" in said("show", "-o", "lines.json")
    lines = [json.loads(line) for line in Path("lines.json").read_text().splitlines()]
    assert lines == [json.loads(json.dumps(line.row())) for line in ledger.journal.lines()]
    assert lines[2]["plan"]["asks"] == "statistics" and lines[3]["rows"] == 1


def test_it_is_verified_with_a_head_that_was_kept(ledger):
    first = said("verify")
    assert "is whole: 6 lines" in first and "Not compared with an earlier head" in first
    head = first.splitlines()[-1].removeprefix("head ")
    assert head == ledger.journal.head
    ledger.budget("shop", "ann").spend("1/2")
    told = said("verify", "--head", head)
    assert "is whole: 7 lines" in told and "Not compared" not in told and "stay spent: 5" in told
    with closing(sqlite3.connect("budget.db")) as connection:
        connection.execute("UPDATE sfumato_journal SET content = replace(content, 'ann', 'bob') WHERE id = 5")
        connection.commit()
    assert "- line 5 is not what was written" in said("verify", "--head", head, code=1)
    assert "head" in said("verify", "--head", "x", code=2)


def test_what_to_look_at_is_listed_and_commands_no_terminal(ledger):
    told = said("audit")
    assert "[one unit] shop, ann, entries 4" in told and "\x1b" not in told and r"\x1b[31m[red]A" in told
    assert "- shop, ann: epsilon 2, delta 0" in told
    said("audit", "shop", "--strict", code=1)
    assert "no budget of 'school'" in said("audit", "school", "--strict", code=2)
    ledger.create("school", epsilon=1)
    assert "0 questions were asked" in said("audit", "school", "--strict")


def test_the_owner_names_versions_and_publishes(ledger):
    assert "The data of 'shop' is of version '2026-11'." in said("declare", "shop", "2026-11")
    budget = ledger.budget("shop", "ann")
    entry = budget.spend(1)
    known = budget._repeat_answer({"asks": 1})
    budget._record_outcome(entry, "answered", question=known.question, data=known.data, body=b"x")
    assert f"entry {entry.number} is for everybody" in said("publish", str(entry.number))
    assert "no answer to the question of entry 3 is kept" in said("publish", "3", code=2)
    assert "no budget of 'shp'" in said("declare", "shp", "1", code=2)
    shown = said("show")
    assert "version 2026-11" in shown and "published" in shown


def test_a_ledger_that_is_not_there_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in ("show", "verify", "audit"):
        assert "there is no ledger" in said(command, "--ledger", "none.db", code=1)
    assert not Path("none.db").exists()
