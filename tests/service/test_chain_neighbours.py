"""A chain has the same status, error, price and form of answer, whoever is in the tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from sfumato.errors import QueryError
from sfumato.service.query_service import QueryRequest, QueryResponse, QueryService, refused

from .asking import Asked
from .chains import CHAINS, LEFT, PRIVATE, TABLES, neighbours
from .fuzz import difference
from .hostile_chains import bodies
from .test_chain import Direct

pytestmark = pytest.mark.flakiness(
    k=14, because="fewer than 2000 answers, each of which may show a group of one person, at delta 1e-18"
)
Pair = tuple[Asked, Asked]


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    made = [tmp_path_factory.mktemp(name) for name in ("with", "without")]
    return Asked(made[0], declared=neighbours(), each=200), Asked(made[1], declared=TABLES, each=200)


@pytest.fixture(scope="module")
def anns(services: Pair) -> tuple[Direct, Direct]:
    """Return a client of each, which fetches once what is told of the tables."""
    return Direct(services[0]), Direct(services[1])


def body_of(ann: Direct, name: str) -> dict[str, Any]:
    """Return a chain of the corpus as it is sent, at a delta that shows nobody's group."""
    ask, options = (CHAINS | LEFT)[name]
    made: dict[str, Any] = ask(ann)._sent(options)
    return made | {"options": made["options"] | ({"delta": "1e-18"} if "delta" in options else {})}


def alike(services: Pair, path: str, body: Mapping[str, Any], rows: bool) -> int:
    """Fail where two services answer in another way; return the status."""
    text = json.dumps(body)
    one, other = (service.send(path, text.encode()) for service in services)
    wrong = difference(one, other, text)
    # Bounds that were found are noisy, and stand in the explanation.
    assert not wrong or ("auto" in text and wrong.startswith("explanation")), (wrong, text[:300])
    if rows and one.status_code == 200:
        assert len(one.json().get("rows", ())) == len(other.json().get("rows", ()))
    return int(one.status_code)


@pytest.mark.parametrize("name", CHAINS | LEFT)
def test_chains_of_neighbouring_tables(services: Pair, anns: tuple[Direct, Direct], name: str) -> None:
    body = body_of(anns[0], name)
    assert body == body_of(anns[1], name)  # what is told of the tables is the same, too
    assert alike(services, "/v1/release", body, rows=name not in PRIVATE) == 200
    assert alike(services, "/v1/ask", body | {"units": []}, rows=False) == 200


@pytest.mark.parametrize("step", [60, pytest.param(10, marks=pytest.mark.long)])
def test_hostile_chains_of_neighbouring_tables(services: Pair, step: int) -> None:
    seen = Counter[int]()
    for i, body in enumerate(bodies()[3::step]):
        ask = i % 3 == 0
        seen[
            alike(services, "/v1/ask" if ask else "/v1/release", body | ({"units": []} if ask else {}), False)
        ] += 1
    assert set(seen) <= {200, 400, 402, 413} and seen[400] > 0.5 * seen.total()


def refuses(desk: QueryService, job: QueryRequest, outcome: QueryResponse) -> QueryResponse:
    """Refuse what odd rows do not fit, as a cast that fails on one row would."""
    return refused(QueryError("no such number"), 400)


def drops(desk: QueryService, job: QueryRequest, outcome: QueryResponse) -> QueryResponse:
    """Leave a group out, as one that is made of the rows that there are would."""
    made = json.loads(outcome.body)
    return QueryResponse(200, outcome.media, json.dumps(made | {"rows": made["rows"][:-1]}).encode())


def explains(desk: QueryService, job: QueryRequest, outcome: QueryResponse) -> QueryResponse:
    """Plan by the rows."""
    made = json.loads(outcome.body)
    return QueryResponse(200, outcome.media, json.dumps(made | {"explanation": "905 rows"}).encode())


@pytest.mark.parametrize("defect", [refuses, drops, explains])
def test_answers_that_follow_from_an_odd_row_are_found(
    services: Pair, anns: tuple[Direct, Direct], monkeypatch: pytest.MonkeyPatch, defect: Any
) -> None:
    answer = QueryService.answer

    def planted(desk: QueryService, job: QueryRequest) -> QueryResponse:
        found = answer(desk, job)
        odd = job.kind == "release" and desk is services[0].desk
        return defect(desk, job, found) if odd else found

    monkeypatch.setattr(QueryService, "answer", planted)
    with pytest.raises(AssertionError):
        test_chains_of_neighbouring_tables(services, anns, "domain")


def test_what_is_told_of_neighbouring_tables(services: Pair) -> None:
    one, other = (service.get("/v1/tables").json() for service in services)
    assert one == other
