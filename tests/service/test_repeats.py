"""A query that is repeated, or a request that is sent again, gets the answer that was paid; no other one does."""

import json
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.errors import EngineError, QueryError
from sfumato.service.analyst_catalog import AnalystsCatalog
from sfumato.service.answer_formats import JSON
from sfumato.service.query_service import QueryRequest, QueryService
from sfumato.service.server import LedgerBudgets
from tests.support.service import QUERY, LocalClient, LocalService

pytestmark = pytest.mark.noise_cannot_matter("two answers are compared with each other, or what they cost")

ROWS = "id,town,v\n" + "".join(f"{i % 60},{'Ulm' if i % 2 else 'Bonn'},{i % 9}\n" for i in range(240))
CATALOG = '[tables.visits]\nsource = "visits.csv"\nprivacy_unit = "id"\nmax_groups = 2\nmax_rows = 3\n'
CATALOG += 'types = {id = "BIGINT", town = "VARCHAR", v = "BIGINT"}\n'
ASK = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6) town, COUNT(*) AS n FROM visits GROUP BY town"
MEAN = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, auto_bounds = TRUE) AVG(v) AS m FROM visits WHERE v >= 0"
LARGEST = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6) APPROX_TOP_COUNT(town, 1) FROM visits"
DIAGNOSED = ASK.replace("1e-6)", "1e-6, diagnostics = 0.1)")
JOINED = f"SELECT a.n - b.n AS d FROM ({ASK}) AS a JOIN ({ASK}) AS b USING (town)"
TEXTS = {"groups": ASK, "bounds found": MEAN, "largest": LARGEST, "diagnosed": DIAGNOSED, "two": JOINED}


class Shop:
    """A query service on a file, its ledger, and its analysts."""

    def __init__(self, folder, catalog=CATALOG, dataset="shop"):
        (folder / "visits.csv").write_text(ROWS)
        (folder / "catalog.toml").write_text(catalog)
        self.folder, self.ledger = folder, sf.Ledger(folder / "budget.db")
        if not (folder / "budget.db").exists() or dataset not in {
            one.dataset for one in self.ledger.accounts()
        }:
            self.ledger.create(dataset, epsilon=100, delta="1e-3", period="month")
            for analyst in ("ann", "bob"):
                self.ledger.grant(dataset, analyst, epsilon=50, period="month")
        self.budgets = LedgerBudgets(self.ledger, dataset)
        self.desk = self.desk_of(sf.catalog(folder / "catalog.toml"))

    def desk_of(self, catalog):
        return QueryService(AnalystsCatalog.from_catalog(catalog), self.budgets, {"threads": 1})

    def asks(self, text=ASK, analyst="ann", media=JSON, desk=None, **given):
        job = QueryRequest("release", analyst, text=text, media=media, **given)
        return (desk or self.desk).answer(job)

    def repeats(self, *args, **given):
        """Return the entry whose answer is given once more; None where it is new."""
        done = self.asks(*args, **given)
        assert done.status == 200, done.body
        return json.loads(done.body)["repeats"]

    def told(self, text=ASK, analyst="ann", **given):
        """Return the entry that a repeat would give, as the cost of a query says before."""
        done = self.desk.answer(QueryRequest("ask", analyst, text=text, **given))
        assert done.status == 200, done.body
        return json.loads(done.body)["repeats"]

    def lines(self, *kinds):
        return [line for line in self.ledger.journal.lines() if not kinds or line.kind in kinds]

    @property
    def paid(self):
        return sum(entry.kind == "spend" for entry in self.ledger.history())


@pytest.fixture
def shop(tmp_path):
    made = Shop(tmp_path)
    made.ledger.journal.declare("shop", "2026-11")
    return made


def failing(*_, **__):
    raise EngineError("the rows cannot be read")


def but_for(body):
    """Return an answer in JSON without the entry that it repeats, and that."""
    answer = json.loads(body)
    return answer.pop("repeats"), answer


LONG = [pytest.param(one, marks=pytest.mark.long) for one in TEXTS if one != "groups"]


@pytest.mark.long
@pytest.mark.parametrize("name", ["groups", *LONG])
def test_a_repeat_is_the_same_byte_for_byte_and_free_and_the_first_is_paid_as_beside_the_rows(shop, name):
    text = TEXTS[name]
    assert shop.told(text) is None
    first = shop.asks(text)
    assert first.status == 200, first.body
    remaining, lines = shop.ledger.budget("shop", "ann").remaining, len(shop.lines())
    entry = shop.ledger.history()[-1].number
    assert shop.told(text) == entry and len(shop.lines()) == lines
    again = shop.asks(text)
    (was, answer), (says, same) = but_for(first.body), but_for(again.body)
    assert (was, says) == (None, entry) and json.dumps(answer) == json.dumps(same)
    assert again.headers == {"sfumato-repeats": str(says)} and not first.headers
    assert again.log == {"repeats": says}
    assert shop.paid == 1 and shop.ledger.budget("shop", "ann").remaining == remaining
    assert sf.Receipt.of_dict(same["receipt"]).ledger[0]["entry"] == says
    kinds = [line.kind for line in shop.lines()]
    assert kinds == ["cap", "cap", "cap", "data", "asked", "answered", "repeated"]
    sf.sql(text, catalog=sf.catalog(shop.folder / "catalog.toml"), budget=shop.ledger.budget("shop", "bob"))
    (here,), (beside,) = (shop.ledger.budget("shop", analyst).history for analyst in ("ann", "bob"))
    for part in ("epsilon", "delta", "loss", "what"):
        assert getattr(here, part) == getattr(beside, part)
    one, other = shop.lines("asked")
    assert one.detail.get("plan") == other.detail.get("plan") and shop.ledger.journal.verify().ok
    if name == "diagnosed":
        (shift,) = answer["shifts"]
        assert answer["diagnostics"] and (shift["output"], shift["of"]) == ("n", "value")


OTHERS: list[dict[str, Any]] = [
    {"analyst": "bob"},
    {"confidence": 0.9},
    {"simultaneous": True},
    {"text": ASK.replace(" GROUP", " WHERE v > 1 GROUP")},
    {"text": f"SELECT * FROM ({ASK}) WHERE n > -5"},
]
SAME = ASK.replace("town,", "  TOWN  AS town, /* so */").replace("epsilon = 1, delta", "epsilon = 1.0, delta")


@pytest.mark.long
def test_another_query_is_paid_and_one_of_the_same_meaning_is_not(shop):
    shop.asks()
    assert shop.repeats(SAME) == 4 and shop.paid == 1
    for number, other in enumerate(OTHERS, 2):
        assert shop.told(**other) is None and shop.repeats(**other) is None and shop.paid == number, other


@pytest.mark.long
def test_bounds_that_are_found_are_no_bounds_that_somebody_asked_for(shop):
    """What finds its bounds is known by its text."""
    assert shop.repeats(MEAN) is None and shop.repeats(f"{MEAN} ") is None
    given = MEAN.replace(", auto_bounds = TRUE", "")
    assert shop.repeats(given.replace("AVG(v)", "AVG(v, contribution_bounds_per_row => (0, 1))")) is None


def test_other_data_is_another_query(shop, tmp_path_factory, monkeypatch):
    shop.asks()
    (shop.folder / "other.csv").write_text(ROWS)
    for old, new in (("max_rows = 3", "max_rows = 2"), ('"visits.csv"', '"other.csv"')):
        assert Shop(shop.folder, CATALOG.replace(old, new)).repeats() is None, new
    # Another version of the data; the old one may come back.
    shop = Shop(shop.folder)
    for version, repeats in (("2026-12", None), ("2026-12", 7), ("2026-11", 4)):
        shop.ledger.journal.declare("shop", version)
        assert shop.repeats() == repeats
    # The same name in another folder, and tables without an address.
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for folder in (shop.folder, elsewhere):
        (folder / "visits.csv").write_text(ROWS)
        (folder / "catalog.toml").write_text(CATALOG)
        monkeypatch.chdir(folder)
        found = shop.repeats(desk=shop.desk_of(sf.catalog("catalog.toml")))
    assert found is None
    rows = pa.table({"id": [1, 2], "town": ["Ulm", "Bonn"]})
    table = {"source": rows, "privacy_unit": "id", "max_groups": 1, "max_rows": 1}
    memory = shop.desk_of(sf.catalog({"tables": {"visits": table}}))
    assert [shop.repeats(desk=memory) for _ in range(2)] == [None, None]


@pytest.mark.long
def test_a_published_answer_is_for_every_analyst(shop):
    first = shop.asks()
    entry = shop.ledger.history()[-1].number
    shop.ledger.journal.publish(entry)
    assert shop.told(analyst="bob") == entry
    assert but_for(shop.asks(analyst="bob").body) == (entry, but_for(first.body)[1]) and shop.paid == 1
    assert shop.asks(analyst="eve").status == 402  # who is granted nothing
    assert [line.analyst for line in shop.lines("repeated")] == ["bob"]


def test_what_failed_is_no_answer_and_looks_in_the_history_as_what_was_answered(shop, monkeypatch):
    """It failed perhaps by somebody's rows: its analyst is not told."""
    with monkeypatch.context() as now:
        now.setattr(DuckDBEngine, "statistics", failing)
        assert shop.asks().status == 503
    assert shop.repeats() is None and shop.paid == 2
    assert [line.kind for line in shop.lines()][4:] == ["asked", "failed", "asked", "answered"]
    told = json.loads(shop.desk.answer(QueryRequest("history", "ann")).body)["history"]
    failed, answered = ({name: one[name] for name in one if name not in ("at", "entry")} for one in told)
    assert answered == failed and set(told[0]) == {"what", "epsilon", "delta", "at", "analyst", "entry"}


REFUSED = [
    ("ann", "SELECT id FROM visits", "SqlError"),
    ("ann", ASK.replace("epsilon = 1,", "epsilon = 99,"), "BudgetError"),
    ("ann", ASK.replace("epsilon = 1,", "epsilon = 1e300,"), "BudgetError"),
    ("ann", MEAN.replace("epsilon = 1,", "epsilon = 60,"), "BudgetError"),
    ("eve", ASK, "BudgetError"),  # before anything is granted
    (" eve\n", ASK, "ParameterError"),  # whom no budget can name
]


@pytest.mark.parametrize(("analyst", "text", "kind"), REFUSED)
def test_a_refusal_charges_nothing_and_is_in_the_journal_once(shop, analyst, text, kind):
    done = shop.asks(text, analyst)
    assert done.status in (400, 402), done.body
    (line,) = shop.lines("refused")
    assert line.analyst == analyst and line.detail["why"] == json.loads(done.body)["error"]["kind"]
    assert kind == line.detail["why"] and shop.paid == 0 and shop.ledger.journal.verify().ok


@pytest.mark.long
def test_an_answer_that_was_changed_by_hand_is_not_given(shop):
    shop.asks(key=KEY)
    for statement in (
        "UPDATE sfumato_answers SET body = x'00'",
        "DELETE FROM sfumato_answers",
        "UPDATE sfumato_journal SET content = replace(content, '\"kind\"', '\"x\":1,\"kind\"') WHERE kind = 'answered'",
    ):
        kept = (shop.folder / "budget.db").read_bytes()
        with closing(sqlite3.connect(shop.folder / "budget.db")) as changed, changed:
            changed.execute(statement)
        done = shop.asks()
        assert done.status == 503 and "changed by hand" in done.log["why"], statement
        assert shop.asks(key=KEY).status in (409, 503) and shop.paid == 1
        assert not shop.ledger.journal.verify().ok
        (shop.folder / "budget.db").write_bytes(kept)


# Answers that were lost on the way: known by the key of their request, and by the history.

KEY = "0123456789abcdef"


def sends(service, key=KEY, name="ann", accept="*/*", **body):
    headers = {"accept": accept} | ({} if key is None else {"idempotency-key": key})
    return service.send("/v1/release", json.dumps({"sql": QUERY} | body).encode(), name, **headers)


def numbers(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()["rows"]


def test_the_same_request_with_the_same_key_is_paid_once(paying):
    for sql in (QUERY, MEAN.replace("v >= 0", "v >= 1")):
        first, spent = sends(paying, sql=sql, key=KEY + sql[-1]), paying.spent()
        again = [sends(paying, sql=sql, key=KEY + sql[-1]) for _ in range(2)]
        assert paying.spent() == spent and all(numbers(one) == numbers(first) for one in again)
        assert first.json()["repeats"] is None
        assert again[0].json()["repeats"] == paying.get("/v1/history").json()["history"][-1]["entry"]
        assert sends(paying, sql=sql, key=KEY + sql[-1], accept="text/csv").status_code == 200
    assert paying.spent() == pytest.approx(2.0) and paying.ledger.journal.verify().ok


def test_other_keys_queries_and_analysts_pay_for_themselves(paying):
    sends(paying)
    for number, other in enumerate(
        (
            {"key": KEY + "x"},
            {"sql": QUERY.replace("AS n", "AS m")},
            {"key": None},
            {"key": None},
            {"confidence": 0.5},
        ),
        2,
    ):
        assert sends(paying, **other).json()["repeats"] is None and paying.spent() == number, other
    sends(paying, name="bob")
    assert paying.spent("bob") == 1.0
    dear = {"sql": QUERY.replace("epsilon = 1", "epsilon = 50"), "key": KEY + "dear"}
    assert [sends(paying, **dear).status_code for _ in range(2)] == [402, 402]
    for key in ("", "short", "x" * 129, "a b" * 10, "'; DROP TABLE" + "x" * 10):
        answer = sends(paying, key)
        assert answer.status_code == 400 and "idempotency-key" in answer.text
    assert paying.spent() == 6


def test_a_request_that_is_under_way_is_not_paid_twice(paying, monkeypatch):
    """Also where both are planned before either is paid."""
    planned, real = threading.Barrier(2, timeout=60), QueryService._parse_query

    def together(desk, job):
        found = real(desk, job)
        planned.wait()
        return found

    monkeypatch.setattr(QueryService, "_parse_query", together)
    other = QueryService(paying.catalog, paying.budgets, {"threads": 1})
    job = QueryRequest("release", "ann", text=QUERY, key=KEY)
    with ThreadPoolExecutor(2) as threads:
        found = sorted(
            threads.map(lambda desk: desk.answer(job), (paying.desk, other)), key=lambda one: one.status
        )
    assert [one.status for one in found] == [200, 409] and paying.spent() == 1.0
    assert found[1].headers == {"retry-after": "1"}
    monkeypatch.setattr(QueryService, "_parse_query", real)
    assert json.loads(paying.desk.answer(job).body)["repeats"] and paying.spent() == 1.0


@pytest.mark.long
def test_the_last_epsilon_is_spent_once(tmp_path):
    """Of queries that are planned at once, and fit each alone, the ledger pays one."""
    service = LocalService(tmp_path, 1, ledger=True)
    planned, real = threading.Barrier(3, timeout=60), QueryService._parse_query

    class Desk(QueryService):
        def _parse_query(self, job):
            found = real(self, job)
            planned.wait()
            return found

    desks = [Desk(service.catalog, service.budgets, {"threads": 1}) for _ in range(3)]
    with ThreadPoolExecutor(3) as threads:
        jobs = [QueryRequest("release", "ann", text=QUERY) for _ in desks]
        found = list(threads.map(lambda desk, job: desk.answer(job), desks, jobs))
    assert sorted(one.status for one in found) == [200, 402, 402] and service.spent() == 1.0


def test_an_answer_of_the_history_is_for_its_payer_alone(paying):
    first = sends(paying, None)
    (entry,) = paying.get("/v1/history").json()["history"]
    again = paying.get(f"/v1/answers/{entry['entry']}")
    assert numbers(again) == numbers(first) and again.json()["repeats"] == entry["entry"]
    assert again.headers["sfumato-repeats"] == str(entry["entry"]) and paying.spent() == 1.0
    for name in ("bob", "olga"):
        refused = paying.get(f"/v1/answers/{entry['entry']}", name)
        assert refused.status_code == 404 and "no answer of yours is kept" in refused.text
    (seen,) = paying.get("/v1/history?everybody=true", "olga").json()["history"]
    assert seen["entry"] == entry["entry"] and seen["analyst"] == "ann"
    for wrong in ("0", "999999999999999", "1", "x", "-1", "1.5", "9" * 40, "%00"):
        assert paying.get(f"/v1/answers/{wrong}").status_code == 404, wrong


@pytest.mark.long
def test_a_client_sends_a_lost_request_again_and_pays_once(paying, monkeypatch):
    lost = []

    class Losing(LocalClient):
        def _sent(self, method, path, *more):
            found = super()._sent(method, path, *more)
            if path == "/v1/release" and len(lost) < 2:
                lost.append(more[-1])
                raise ConnectionResetError("lost on the way")
            return found

    monkeypatch.setattr("sfumato.client.client._PAUSE", 0)
    ann = Losing(paying)
    answer = ann.sql(QUERY)
    assert len(lost) == 2 and lost[0] == lost[1] and ann.spent.epsilon == 1.0
    (paid,) = ann.history
    assert answer.repeats == paid.entry and ann.answer(paid.entry).to_arrow() == answer.to_arrow()
    with pytest.raises(QueryError, match="no answer of yours"):
        ann.answer(10**6)
    lost.clear()
    monkeypatch.setattr("sfumato.client.client._SENT", 1)
    with pytest.raises(EngineError, match="lost on the way"):
        ann.sql(QUERY)
    assert ann.answer(ann.history[-1].entry).to_arrow().num_rows == 3
