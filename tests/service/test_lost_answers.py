"""A paid answer that is lost on the way is given to its payer again: by its key, and from the history."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from sfumato.client import connect
from sfumato.client.client import Client
from sfumato.errors import EngineError, QueryError
from sfumato.service.query_service import QueryRequest, QueryService
from sfumato.service.server import opened_budgets

from .asking import QUESTION, Asked, served

pytestmark = pytest.mark.noise_cannot_matter("answers are compared with each other, and costs")
KEY = "0123456789abcdef"


@pytest.fixture
def paying(asked: Asked, tmp_path: Path) -> Asked:
    """A service whose ledger has no version of the data: no question is the same as one before."""
    ledger = sf.Ledger(tmp_path / "budget.db")
    ledger.create("clinic", epsilon=100)
    for name in asked.secrets:
        ledger.grant("clinic", name, epsilon=10)
    asked.desk.budgets = opened_budgets(str(tmp_path / "budget.db"), "clinic")
    return asked


def ledger_of(asked: Asked) -> sf.Ledger:
    return asked.desk.budgets.ledger  # type: ignore[no-any-return,attr-defined]


def spent(asked: Asked, name: str = "ann") -> float:
    return float(asked.get("/v1/budget", name).json()["spent"]["epsilon"])


def sends(asked: Asked, key: str | None = KEY, name: str = "ann", accept: str = "*/*", **body: Any) -> Any:
    headers = {"accept": accept} | ({} if key is None else {"idempotency-key": key})
    given = {"sql": QUESTION} | body
    return asked.send("/v1/release", json.dumps(given).encode(), name, **headers)


def numbers(answer: Any) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()["rows"]


def test_the_same_request_with_the_same_key_is_paid_once(paying: Asked) -> None:
    first = sends(paying)
    again = [sends(paying) for _ in range(3)]
    assert spent(paying) == 1.0
    assert all(numbers(one) == numbers(first) for one in again)
    assert (
        first.json()["repeats"] is None
        and again[0].json()["repeats"] == ledger_of(paying).history()[-1].number
    )
    assert sends(paying, accept="text/csv").text.startswith('"year"') and spent(paying) == 1.0
    assert ledger_of(paying).journal.verify().ok
    kinds = [line.kind for line in ledger_of(paying).journal.lines() if line.kind != "cap"]
    assert kinds == ["asked", "answered", *["repeated"] * 4]


def test_other_keys_questions_and_people_pay_for_themselves(paying: Asked) -> None:
    first = numbers(sends(paying))
    assert numbers(sends(paying, KEY + "x")) != first or True  # fresh noise, which may be the same
    assert spent(paying) == 2.0
    sends(paying, sql=QUESTION.replace("AS n", "AS m"))
    assert spent(paying) == 3.0
    sends(paying, name="bob")
    assert spent(paying) == 3.0 and spent(paying, "bob") == 1.0
    sends(paying, None)
    sends(paying, None)
    assert spent(paying) == 5.0
    sends(paying, confidence=0.5)
    assert spent(paying) == 6.0


def test_a_refused_request_may_be_sent_again_with_its_key(paying: Asked) -> None:
    dear = {"sql": QUESTION.replace("epsilon = 1", "epsilon = 50")}
    assert [sends(paying, **dear).status_code for _ in range(2)] == [402, 402] and spent(paying) == 0.0


@pytest.mark.parametrize("key", ["", "short", "x" * 129, "a b" * 10, "é" * 20, "'; DROP TABLE" + "x" * 10])
def test_keys_that_are_none(paying: Asked, key: str) -> None:
    answer = paying.http.post(
        "/v1/release", content=json.dumps({"sql": QUESTION}), headers=[*((k.encode(), v.encode()) for k, v in paying.headers(**{"content-type": "application/json"}).items()), (b"idempotency-key", key.encode())],
    )  # fmt: skip
    assert answer.status_code == 400 and "idempotency-key" in answer.text and spent(paying) == 0.0


def test_a_request_that_is_under_way_is_not_paid_twice(
    paying: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where both are planned before either is paid."""
    planned, real = threading.Barrier(2, timeout=60), QueryService._asked

    def together(desk: QueryService, job: QueryRequest) -> Any:
        found = real(desk, job)
        planned.wait()
        return found

    monkeypatch.setattr(QueryService, "_asked", together)
    other = QueryService(paying.catalog, paying.desk.budgets, {"threads": 1})
    job = QueryRequest("release", "ann", text=QUESTION, key=KEY)
    with ThreadPoolExecutor(2) as threads:
        outcomes = list(threads.map(lambda desk: desk.answer(job), (paying.desk, other)))
    statuses = sorted(one.status for one in outcomes)
    assert statuses == [200, 409] and spent(paying) == 1.0
    assert next(one for one in outcomes if one.status == 409).headers == {"retry-after": "1"}
    monkeypatch.setattr(QueryService, "_asked", real)
    assert json.loads(paying.desk.answer(job).body)["repeats"] and spent(paying) == 1.0


def test_one_that_was_stopped_is_named_and_not_paid_again(
    paying: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    from sfumato.service import query_service

    with monkeypatch.context() as patch:
        patch.setattr(query_service, "answer", dies)
        with pytest.raises(KeyboardInterrupt):
            paying.desk.answer(QueryRequest("release", "ann", text=QUESTION, key=KEY))
    assert spent(paying) == 1.0
    answer = sends(paying)
    assert answer.status_code == 409 and "has no answer yet" in answer.text and spent(paying) == 1.0
    assert sends(paying, KEY + "2").status_code == 200 and spent(paying) == 2.0


def test_looks_that_are_paid_by_themselves_have_the_key_too(paying: Asked) -> None:
    sql = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, auto_bounds = TRUE) AVG(age) AS m FROM visits"
    )
    first = sends(paying, sql=sql)
    assert numbers(sends(paying, sql=sql)) == numbers(first)
    assert spent(paying) == pytest.approx(1.0)


def test_answers_from_the_history(paying: Asked) -> None:
    first = sends(paying, None)
    (entry,) = [one for one in paying.get("/v1/history").json()["history"]]
    again = paying.get(f"/v1/answers/{entry['entry']}")
    assert numbers(again) == numbers(first) and again.json()["repeats"] == entry["entry"]
    assert again.headers["sfumato-repeats"] == str(entry["entry"]) and spent(paying) == 1.0
    # Nobody else gets it, the owner neither; and the owner's history of all offers it to nobody.
    for name in ("bob", "olga"):
        refused = paying.get(f"/v1/answers/{entry['entry']}", name)
        assert refused.status_code == 404 and "no answer of yours is kept" in refused.text
    (seen,) = paying.get("/v1/history?everybody=true", "olga").json()["history"]
    assert seen["entry"] == entry["entry"] and seen["analyst"] == "ann"
    for wrong in ("0", "999999999999999", "1", "x", "-1", "1.5", "9" * 40, "%00"):
        assert paying.get(f"/v1/answers/{wrong}").status_code == 404, wrong


def test_an_answer_that_was_changed_by_hand_is_not_given(paying: Asked, tmp_path: Path) -> None:
    import sqlite3

    sends(paying)
    with closing(sqlite3.connect(tmp_path / "budget.db")) as changed, changed:
        changed.execute("UPDATE sfumato_answers SET body = x'00'")
    assert sends(paying).status_code == 503 and not ledger_of(paying).journal.verify().ok


def test_the_client_sends_a_lost_question_again_and_pays_once(
    paying: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, real = [], Client._sent

    def loses(self: Client, method: str, path: str, *more: Any) -> Any:
        found = real(self, method, path, *more)
        if path == "/v1/release" and len(lost) < 2:
            lost.append(found)
            raise ConnectionResetError("lost on the way")
        return found

    monkeypatch.setattr(Client, "_sent", loses)
    with served(paying) as url:
        ann = connect(url, paying.secrets["ann"])
        answer = ann.sql(QUESTION)
        assert len(lost) == 2 and ann.spent.epsilon == 1.0
        (paid,) = ann.history
        assert answer.repeats == paid.entry and ann.answer(paid.entry).to_arrow() == answer.to_arrow()
        with pytest.raises(QueryError, match="no answer of yours"):
            ann.answer(10**6)
        lost.clear()
        monkeypatch.setattr("sfumato.client.client._SENT", 1)
        with pytest.raises(EngineError, match="lost on the way"):
            ann.sql(QUESTION)
        assert ann.answer(ann.history[-1].entry or 0).to_arrow().num_rows == 3
