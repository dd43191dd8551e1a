"""No request stops the service, or shows that one person's rows are odd."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sfumato.errors import QueryError
from sfumato.service.query_service import QueryRequest, QueryResponse, QueryService, refused

from .fuzz import MANY, Fuzz, fuzzed, pair
from .fuzz_chains import ChainFuzz
from .hostile import texts

Requests = Iterator[tuple[str, bytes, dict[str, str]]]

pytestmark = [
    pytest.mark.long,
    pytest.mark.noise_cannot_matter("of a question answered twice it compares what noise is not in"),
]


KINDS: dict[str, Callable[[random.Random, Path], Requests]] = {
    "sql": lambda choose, folder: Fuzz(choose, texts(folder)).requests(),
    "chains": lambda choose, _: ChainFuzz(choose).requests(),
}


# Of SQL a third of what SFUMATO_LONG asks for: the defect that is planted below shows in the first 60.
SQL = "600" if os.environ.get("SFUMATO_LONG") else "200"


@pytest.mark.parametrize(("kind", "usual"), [("sql", SQL), ("chains", "100")])
def test_requests_that_nobody_would_write(tmp_path: Path, kind: str, usual: str) -> None:
    count, seed = (int(os.environ.get(name, given)) for name, given in (("FUZZ", usual), ("FUZZ_SEED", "1")))
    wrong = list[str]()

    def tell(text: str) -> None:
        wrong.append(text)
        print(text, flush=True)

    seen = fuzzed(pair(tmp_path), KINDS[kind](random.Random(seed), tmp_path), count, tell)
    print(f"seed {seed}: {dict(seen)}")
    assert not wrong, (seed, len(wrong), wrong[0])
    assert seen[200] > 0.05 * seen.total() and seen[400] > 0.2 * seen.total()


@pytest.mark.parametrize(("kind", "word"), [("sql", "v"), ("chains", "filter")])
def test_a_service_that_refuses_what_an_odd_row_does_not_fit_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, word: str
) -> None:
    answer = QueryService.answer

    def planted(desk: QueryService, job: QueryRequest) -> QueryResponse:
        rows = desk.catalog.tables["visits"].source
        if word in job.text and len(rows) > MANY:  # as a cast that fails on one row would
            return refused(QueryError("no such number"), 400)
        return answer(desk, job)

    monkeypatch.setattr(QueryService, "answer", planted)
    wrong = list[str]()
    fuzzed(pair(tmp_path), KINDS[kind](random.Random(1), tmp_path), 60, wrong.append)
    assert wrong and "statuses 400 and 200" in "".join(wrong)
