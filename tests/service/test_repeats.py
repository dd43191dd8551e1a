"""A service gives the answer to the same question once more, for nothing; and to no other question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.budget.ledger import PriorAnswer, journal, ledger_databases
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.errors import EngineError
from sfumato.service.analyst_catalog import AnalystsCatalog
from sfumato.service.answer_formats import ARROW, CSV, JSON, unpacked
from sfumato.service.query_service import QueryRequest, QueryService
from sfumato.service.server import LedgerBudgets

pytestmark = pytest.mark.noise_cannot_matter("two answers are compared with each other, or what they cost")

ROWS = "id,town,v\n" + "".join(f"{i % 60},{'Ulm' if i % 2 else 'Bonn'},{i % 9}\n" for i in range(240))
CATALOG = '[tables.visits]\nsource = "visits.csv"\nprivacy_unit = "id"\nmax_groups = 2\nmax_rows = 3\n'
ASK = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6) town, COUNT(*) AS n FROM visits GROUP BY town"
MEAN = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, auto_bounds = TRUE) AVG(v) AS m FROM visits WHERE v >= 0"


class Service:
    """A desk on a file, its ledger, and what analysts do there."""

    def __init__(self, folder: Path, catalog: str = CATALOG, dataset: str = "shop") -> None:
        (folder / "visits.csv").write_text(ROWS)
        (folder / "catalog.toml").write_text(catalog)
        self.folder, self.ledger = folder, sf.Ledger(folder / "budget.db")
        if not (folder / "budget.db").exists() or dataset not in {
            one.dataset for one in self.ledger.accounts()
        }:
            self.ledger.create(dataset, epsilon=100, delta="1e-3", period="month")
            for analyst in ("ann", "bob"):
                self.ledger.grant(dataset, analyst, epsilon=50, period="month")
        tables = AnalystsCatalog.of(sf.catalog(folder / "catalog.toml"))
        self.desk = QueryService(tables, LedgerBudgets(self.ledger, dataset), {"threads": 1})

    def asks(self, text: str = ASK, analyst: str = "ann", media: str = JSON, **given: Any) -> Any:
        return self.desk.answer(QueryRequest("release", analyst, text=text, media=media, **given))

    @property
    def paid(self) -> int:
        return sum(entry.kind == "spend" for entry in self.ledger.history())


@pytest.fixture
def service(tmp_path: Path) -> Service:
    made = Service(tmp_path)
    made.ledger.journal.declare("shop", "2026-11")
    return made


def but_for(body: bytes) -> tuple[Any, Any]:
    """Return an answer in JSON without what says whether it is given once more, and that."""
    told = json.loads(body)
    return told.pop("repeats"), told


LARGEST = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6) APPROX_TOP_COUNT(town, 1) FROM visits"


DIAGNOSED = ASK.replace("1e-6)", "1e-6, diagnostics = 0.1)")
TEXTS = [
    ASK,
    MEAN,
    LARGEST,
    DIAGNOSED,
    f"SELECT n + 1 AS more FROM ({ASK})",
    f"SELECT a.n - b.n AS d FROM ({ASK}) AS a JOIN ({ASK}) AS b USING (town)",
]


@pytest.mark.noise_cannot_matter("numbers are not compared")
def test_diagnostics_come_with_the_shift_of_each_output(service):
    answer = json.loads(service.asks(DIAGNOSED).body)
    assert answer["diagnostics"]
    (shift,) = answer["shifts"]
    assert (shift["output"], shift["relative"], shift["of"]) == ("n", True, "value")
    assert shift["half_width"] is None or shift["half_width"] > 0


@pytest.mark.parametrize("text", TEXTS)
def test_a_service_pays_what_is_paid_beside_the_rows(service, text):
    assert service.asks(text).status == 200
    tables = sf.catalog(service.folder / "catalog.toml")
    sf.sql(text, catalog=tables, budget=service.ledger.budget("shop", "bob"))
    (here,), (beside,) = (service.ledger.budget("shop", name).history for name in ("ann", "bob"))
    assert (here.epsilon, here.delta, here.loss, here.what) == (
        beside.epsilon,
        beside.delta,
        beside.loss,
        beside.what,
    )
    one, other = [line for line in service.ledger.journal.lines() if line.kind == "asked"]
    assert one.detail.get("plan") == other.detail.get("plan")


@pytest.mark.parametrize("text", TEXTS)
def test_the_same_question_is_answered_once_more_byte_for_byte_for_nothing(service, text):
    first = service.asks(text)
    assert first.status == 200, first.body
    remaining = service.ledger.budget("shop", "ann").remaining
    again = service.asks(text)
    (was, answer), (says, same) = but_for(first.body), but_for(again.body)
    assert (was, says) == (None, service.ledger.history()[-1].number) and answer == same
    assert list(answer) == list(same) and json.dumps(answer) == json.dumps(same)
    assert again.headers == {"sfumato-repeats": str(says)} and not first.headers
    assert service.paid == 1 and service.ledger.budget("shop", "ann").remaining == remaining
    receipt = sf.Receipt.of_dict(same["receipt"])
    assert receipt.ledger[0]["entry"] == says and again.log == {"repeats": says}
    kinds = [line.kind for line in service.ledger.journal.lines()]
    assert kinds == ["cap", "cap", "cap", "data", "asked", "answered", "repeated"]
    assert service.ledger.journal.verify().ok


@pytest.mark.parametrize("first", [JSON, ARROW, CSV])
def test_it_is_the_same_in_every_form(service, first):
    told = {first: service.asks(media=first).body}
    told |= {media: service.asks(media=media).body for media in (JSON, ARROW, CSV) if media != first}
    for media, body in told.items():
        again = service.asks(media=media).body
        assert again == body or media == first != CSV  # as the first says that it is new
    assert service.paid == 1
    made = unpacked(told[ARROW])
    rows = json.loads(told[JSON])["rows"]
    assert rows == [list(row.values()) for row in made.table.to_pylist()]
    assert [line.split(",")[1] for line in told[CSV].decode().splitlines()[1:]] == [str(n) for _, n in rows]
    assert sf.Receipt.of_dict(dict(made.about["receipt"])).verify(made.table).ok


OTHERS: dict[str, Any] = {
    "another analyst": {"analyst": "bob"},
    "another epsilon": {"text": ASK.replace("epsilon = 1,", "epsilon = 1.5,")},
    "an epsilon that is a float": {"text": ASK.replace("1e-6", "1e-7")},
    "another limit": {"text": ASK.replace("1e-6)", "1e-6, max_groups_contributed = 1)")},
    "another confidence": {"confidence": 0.9},
    "bars of all together": {"simultaneous": True},
    "another name": {"text": ASK.replace("AS n", "AS m")},
    "another condition": {"text": ASK.replace(" GROUP", " WHERE v > 1 GROUP")},
    "something around it": {"text": f"SELECT * FROM ({ASK}) WHERE n > -5"},
    "other noise": {"text": ASK.replace("1e-6)", "1e-6, noise = 'gaussian')")},
}  # fmt: skip


@pytest.mark.parametrize("other", OTHERS)
def test_another_question_is_paid(service, other):
    service.asks()
    done = service.asks(**OTHERS[other])
    assert done.status == 200, done.body
    assert json.loads(done.body)["repeats"] is None and service.paid == 2


SAME = {
    "spaces, case, a comment": ASK.replace("town,", "  TOWN  AS town, /* so */").replace("GROUP BY town", "group by TOWN"),
    "options in another order": ASK.replace("epsilon = 1, delta = 1e-6", "delta = 1e-6, epsilon = 1.0"),
    "an alias": ASK.replace("FROM visits", "FROM visits AS w").replace("COUNT(*)", "COUNT(*)"),
}  # fmt: skip


@pytest.mark.parametrize("same", SAME)
def test_what_means_the_same_is_the_same_question(service, same):
    first = service.asks()
    again = service.asks(SAME[same])
    assert again.status == 200, again.body
    assert but_for(again.body)[1] == but_for(first.body)[1] and service.paid == 1


def test_what_finds_its_bounds_is_known_by_its_text(service):
    service.asks(MEAN)
    assert json.loads(service.asks(f"{MEAN} ").body)["repeats"] is None and service.paid == 2
    # The stand-ins of what is to be found are no bounds that somebody asked for.
    given = MEAN.replace(", auto_bounds = TRUE", "").replace(
        "AVG(v)", "AVG(v, contribution_bounds_per_row => (0, 1))"
    )
    assert json.loads(service.asks(given).body)["repeats"] is None and service.paid == 3


def test_without_a_version_of_the_data_nothing_is_given_once_more(tmp_path):
    service = Service(tmp_path)
    for _ in range(2):
        assert json.loads(service.asks().body)["repeats"] is None
    assert service.paid == 2
    # Nor what was answered before there was one.
    service.ledger.journal.declare("shop", "1")
    assert json.loads(service.asks().body)["repeats"] is None


def test_another_version_is_other_data(service):
    service.asks()
    service.ledger.journal.declare("shop", "2026-12")
    assert json.loads(service.asks().body)["repeats"] is None
    assert json.loads(service.asks().body)["repeats"] is not None
    service.ledger.journal.declare("shop", "2026-11")  # should the old data be back
    assert json.loads(service.asks().body)["repeats"] is not None and service.paid == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [("max_rows = 3", "max_rows = 2"), ('"visits.csv"', '"other.csv"'), ("max_groups = 2", 'max_groups = 2\ntypes = {v = "DOUBLE"}')],
)  # fmt: skip
def test_other_declarations_are_other_tables(service, old, new):
    service.asks()
    (service.folder / "other.csv").write_text(ROWS)
    other = Service(service.folder, CATALOG.replace(old, new))
    assert json.loads(other.asks().body)["repeats"] is None and other.paid == 2


def test_another_dataset_of_the_same_ledger_is_other_data(service):
    service.asks()
    other = Service(service.folder, dataset="school")
    other.ledger.journal.declare("school", "2026-11")
    assert json.loads(other.asks().body)["repeats"] is None and other.paid == 2


def test_tables_without_an_address_are_not_known_again(service):
    rows = pa.table({"id": [1, 2], "town": ["Ulm", "Bonn"]})
    tables = sf.catalog(
        {"tables": {"visits": {"source": rows, "privacy_unit": "id", "max_groups": 1, "max_rows": 1}}}
    )
    desk = QueryService(AnalystsCatalog.of(tables), service.desk.budgets, {})
    for _ in range(2):
        assert json.loads(desk.answer(QueryRequest("release", "ann", text=ASK)).body)["repeats"] is None
    assert service.paid == 2


def test_what_the_owner_publishes_is_for_everybody(service):
    first = service.asks()
    entry = service.ledger.history()[-1].number
    service.ledger.journal.publish(entry)
    says, answer = but_for(service.asks(analyst="bob").body)
    assert (says, answer) == (entry, but_for(first.body)[1]) and service.paid == 1
    assert service.asks(analyst="eve").status == 402  # who is granted nothing
    assert [line.analyst for line in service.ledger.journal.lines() if line.kind == "repeated"] == ["bob"]


def test_an_answer_of_a_period_that_is_over_is_given_still(service, monkeypatch):
    from datetime import datetime

    first = service.asks()
    monkeypatch.setattr(
        ledger_databases, "_clock", lambda: datetime.fromisoformat("2030-01-01T12:00:00+00:00")
    )
    assert but_for(service.asks().body)[1] == but_for(first.body)[1]
    assert service.ledger.budget("shop", "ann").spent == (0.0, 0.0) and service.paid == 1


def test_what_failed_is_no_answer(service, monkeypatch):
    def failing(*_: object, **__: object) -> None:
        raise EngineError("the rows cannot be read")

    with monkeypatch.context() as now:
        now.setattr(DuckDBEngine, "statistics", failing)
        assert service.asks().status == 503
    assert json.loads(service.asks().body)["repeats"] is None and service.paid == 2
    assert [line.kind for line in service.ledger.journal.lines()][4:] == [
        "asked",
        "failed",
        "asked",
        "answered",
    ]
    assert service.ledger.journal.lines()[5].detail["error"] == "EngineError"


def test_an_analyst_is_not_told_what_came_of_a_question(service, monkeypatch):
    """What failed, perhaps by somebody's rows, looks in the history as what was answered does."""

    def failing(*_: object, **__: object) -> None:
        raise EngineError("the rows cannot be read")

    service.asks()
    with monkeypatch.context() as now:
        now.setattr(DuckDBEngine, "statistics", failing)
        assert service.asks(confidence=0.9).status == 503
    told = json.loads(service.desk.answer(QueryRequest("history", "ann")).body)["history"]
    answered, failed = ({name: one[name] for name in one if name not in ("at", "entry")} for one in told)
    assert answered == failed and set(told[0]) == {"what", "epsilon", "delta", "at", "analyst", "entry"}


def test_a_question_that_is_refused_is_written_down_with_why(service):
    for text in (
        "SELECT id FROM visits",
        ASK.replace("epsilon = 1,", "epsilon = 99,"),
        ASK.replace("town", "twon"),
    ):
        assert service.asks(text).status in (400, 402, 403)
    refused = [line for line in service.ledger.journal.lines() if line.kind == "refused"]
    assert [line.detail["why"] for line in refused] == ["SqlError", "BudgetError", "ColumnError"]
    assert (
        refused[0].detail["text"] == "SELECT id FROM visits"
        and refused[1].detail["plan"]["asks"] == "statistics"
    )
    assert service.paid == 0 and service.ledger.journal.verify().ok


def asking(service: Service, text: str = ASK, analyst: str = "ann", **given: Any) -> Any:
    """Return what is told of a question before it is asked."""
    told = service.desk.answer(QueryRequest("ask", analyst, text=text, **given))
    assert told.status == 200, told.body
    return json.loads(told.body)["repeats"]


@pytest.mark.parametrize("text", TEXTS)
def test_that_a_question_would_be_free_is_said_before_it_is_asked(service, text):
    assert asking(service, text) is None
    service.asks(text)
    lines = len(service.ledger.journal.lines())
    assert asking(service, text) == service.ledger.history()[-1].number
    assert len(service.ledger.journal.lines()) == lines and service.paid == 1  # it is given to nobody
    assert json.loads(service.asks(text).body)["repeats"] == asking(service, text)


def test_it_is_said_of_the_same_question_alone(service):
    service.asks()
    for other in ({"analyst": "bob"}, {"confidence": 0.9}, {"text": ASK.replace("1,", "1.5,")}):
        assert asking(service, **other) is None
    service.ledger.journal.publish(4)
    assert asking(service, analyst="bob") == 4
    service.ledger.journal.declare("shop", "2026-12")
    assert asking(service) is None


INADMISSIBLE = {
    "an epsilon beyond all": ("ann", ASK.replace("epsilon = 1,", "epsilon = 1e300,")),
    "a small one": ("ann", MEAN.replace("epsilon = 1,", "epsilon = 1e-300,")),
    "epsilon 0": ("ann", ASK.replace("epsilon = 1,", "epsilon = 0,")),
    "more than is left, of what looks first": ("ann", MEAN.replace("epsilon = 1,", "epsilon = 60,")),
    "before anything is granted": ("eve", ASK),
    "by whom no budget can name": (" eve\n", ASK),
}


@pytest.mark.parametrize("why", INADMISSIBLE)
def test_every_refusal_is_written_once(service, why):
    analyst, text = INADMISSIBLE[why]
    done = service.asks(text, analyst)
    assert done.status in (400, 402), done.body
    (line,) = [line for line in service.ledger.journal.lines() if line.kind == "refused"]
    assert line.analyst == analyst and line.detail["why"] == json.loads(done.body)["error"]["kind"]
    assert service.paid == 0 and service.ledger.journal.verify().ok


def test_an_answer_that_came_while_the_data_was_exchanged_is_not_kept(service, monkeypatch):
    statistics = DuckDBEngine.statistics

    def meanwhile(self: Any, *given: Any, **more: Any) -> Any:
        service.ledger.journal.declare("shop", "2026-12")
        return statistics(self, *given, **more)

    with monkeypatch.context() as now:
        now.setattr(DuckDBEngine, "statistics", meanwhile)
        assert service.asks().status == 200
    assert asking(service) is None
    service.ledger.journal.declare("shop", "2026-11")
    assert asking(service) is None and service.ledger.journal.verify().ok


def test_the_same_name_in_another_folder_is_another_table(service, tmp_path_factory, monkeypatch):
    found = []
    for folder in (service.folder, tmp_path_factory.mktemp("elsewhere")):
        monkeypatch.chdir(folder)
        Path("visits.csv").write_text(ROWS)
        Path("catalog.toml").write_text(CATALOG)
        desk = QueryService(
            AnalystsCatalog.of(sf.catalog("catalog.toml")), service.desk.budgets, {"threads": 1}
        )
        found.append(json.loads(desk.answer(QueryRequest("release", "ann", text=ASK)).body)["repeats"])
    assert found == [None, None] and service.paid == 2


def test_two_processes_that_ask_at_once_pay_twice_and_one_answer_is_given_on(service, monkeypatch):
    again = journal.Journal._repeat_answer
    with monkeypatch.context() as now:
        now.setattr(journal.Journal, "_repeat_answer", lambda self, *given: PriorAnswer(again(self, *given).question, data="2026-11"))  # fmt: skip
        first, second = service.asks(), service.asks()
    assert but_for(first.body)[1] != but_for(second.body)[1] and service.paid == 2
    for _ in range(2):
        assert but_for(service.asks().body) == (4, but_for(first.body)[1])


def test_it_is_said_over_http_and_far_away(service):
    from starlette.testclient import TestClient

    from sfumato.client import RemoteRelease, connect
    from sfumato.service.access_tokens import Tokens
    from sfumato.service.http_app import Limits
    from sfumato.service.http_app import Service as App
    from sfumato.service.server import PAGE
    from sfumato.service.worker_processes import Inline

    tokens = Tokens(service.folder / "tokens.db")
    headers = {"authorization": f"Bearer {tokens.create('ann', role='analyst')}"}
    http = TestClient(App(Inline(lambda: service.desk), tokens, Limits(), PAGE), base_url="http://service")
    said = []
    for media in (ARROW, ARROW, CSV):
        got = http.post("/v1/release", json={"sql": ASK}, headers={**headers, "accept": media})
        assert got.status_code == 200
        repeats = RemoteRelease(got.content).repeats if media == ARROW else None
        said.append((repeats, got.headers.get("sfumato-repeats")))
    assert said == [(None, None), (4, "4"), (None, "4")] and service.paid == 1
    told = http.post("/v1/ask", json={"sql": ASK, "units": []}, headers=headers).json()
    schema = http.get("/openapi.json").json()["paths"]["/v1/ask"]["post"]["responses"]["200"]["content"]
    far = connect("http://service", tokens.create("ann", role="analyst"))
    far._request = lambda way, path, body, accept: http.request(way, path, json=body, headers=headers).content
    assert far.ask(ASK, units=[]).repeats == 4 and far.ask(ASK, units=[], confidence=0.5).repeats is None
    assert told["repeats"] == 4 and set(schema[JSON]["schema"]["required"]) <= set(told)


def test_made_up_rows_are_in_no_journal(service):
    (service.folder / "catalog.toml").write_text(
        CATALOG + 'types = {id = "BIGINT", town = "VARCHAR", v = "BIGINT"}\n'
    )
    desk = QueryService(
        AnalystsCatalog.of(sf.catalog(service.folder / "catalog.toml")), service.desk.budgets, {}
    )
    outcome = desk.answer(QueryRequest("release", "ann", text=ASK, dummy=True))
    assert json.loads(outcome.body)["repeats"] is None and len(service.ledger.journal.lines()) == 4


def test_a_long_answer_is_not_kept_and_paid_again(service, monkeypatch):
    monkeypatch.setattr(journal, "MOST_KEPT", 10)
    for _ in range(2):
        assert json.loads(service.asks().body)["repeats"] is None
    assert service.paid == 2 and service.ledger.journal.verify().ok


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE sfumato_answers SET body = x'00'", "DELETE FROM sfumato_answers",
        "UPDATE sfumato_journal SET content = replace(content, '\"kind\"', '\"x\":1,\"kind\"') WHERE kind = 'answered'",
    ],
)  # fmt: skip
def test_an_answer_that_was_changed_is_not_given(service, statement):
    import sqlite3
    from contextlib import closing

    service.asks()
    with closing(sqlite3.connect(service.folder / "budget.db")) as connection:
        connection.execute(statement)
        connection.commit()
    done = service.asks()
    assert done.status == 503 and "changed by hand" in done.log["why"] and service.paid == 1
    assert not service.ledger.journal.verify().ok


@pytest.mark.parametrize("planted", ["bars", "tables", "asks"])
def test_a_question_that_is_known_by_less_would_be_found(service, monkeypatch, planted):
    """The planted defects: an answer is given where the confidence, the tables or the question are others."""
    again = journal.Journal._repeat_answer
    monkeypatch.setattr(
        journal.Journal,
        "_repeat_answer",
        lambda self, d, a, asked: again(self, d, a, {**asked, planted: None}),
    )
    service.asks()
    (service.folder / "other.csv").write_text(ROWS)
    found = {
        "bars": lambda: service.asks(confidence=0.9),
        "tables": lambda: Service(service.folder, CATALOG.replace("visits.csv", "other.csv")).asks(),
        "asks": lambda: service.asks(ASK.replace("COUNT(*)", "COUNT(DISTINCT id)")),
    }[planted]()
    assert json.loads(found.body)["repeats"] is not None
    monkeypatch.undo()
    assert json.loads(service.asks(confidence=0.8).body)["repeats"] is None
