"""No request stops the service, or shows that one person's rows are odd."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sfumato.errors import QueryError
from sfumato.service.desk import Desk, Job, Outcome, refused

from .fuzz import MANY, fuzzed

pytestmark = [
    pytest.mark.long,
    pytest.mark.noise_cannot_matter("of a question answered twice it compares what noise is not in"),
]


def test_requests_that_nobody_would_write(tmp_path: Path) -> None:
    count, seed = (int(os.environ.get(name, usual)) for name, usual in (("FUZZ", "600"), ("FUZZ_SEED", "1")))
    wrong = list[str]()

    def tell(text: str) -> None:
        wrong.append(text)
        print(text, flush=True)

    seen = fuzzed(tmp_path, seed, count, tell)
    print(f"seed {seed}: {dict(seen)}")
    assert not wrong, (seed, len(wrong), wrong[0])
    assert seen[200] > 0.05 * seen.total() and seen[400] > 0.2 * seen.total()


def test_a_service_that_refuses_what_an_odd_row_does_not_fit_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Desk.answer

    def planted(desk: Desk, job: Job) -> Outcome:
        rows = desk.catalog.tables["visits"].source
        if "v" in job.text and len(rows) > MANY:  # as a cast that fails on one row would
            return refused(QueryError("no such number"), 400)
        return answer(desk, job)

    monkeypatch.setattr(Desk, "answer", planted)
    wrong = list[str]()
    fuzzed(tmp_path, 1, 60, wrong.append)
    assert wrong and "statuses 400 and 200" in "".join(wrong)
