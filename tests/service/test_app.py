"""What each path answers, to whom, in which format, and within which limits."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import sfumato as sf
from sfumato.errors import CatalogError, EngineError
from sfumato.service.analyst_catalog import AnalystsCatalog
from sfumato.service.answer_formats import ABOUT, ARROW, CSV, JSON
from sfumato.service.http_app import Service, _accepted
from sfumato.service.monitoring import LOG, Lines, digest
from sfumato.service.query_service import QueryRequest

from .asking import DECLARED, PAGE, QUESTION, VISITS, Asked, TestClient

COUNT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) AS n FROM visits"
EXACT = QUESTION.replace("epsilon = 1", "epsilon = 1000000")
SURE = pytest.mark.flakiness(k=100, because="noise of 1e-4 or less rounds to 0 in counts")


def test_tables_say_what_is_declared_and_nothing_else(asked: Asked) -> None:
    tables = {one["name"]: one for one in asked.get("/v1/tables").json()["tables"]}
    assert list(tables) == list(DECLARED)
    visits = tables["visits"]
    assert visits["privacy_unit"] == "id" and visits["max_groups"] == 3 and not visits["public"]
    columns = {one["name"]: one for one in visits["columns"]}
    assert columns["v"] == {"name": "v", "type": "BIGINT", "missing": True, "lower": "0", "upper": "20"}
    assert columns["year"]["domain"] == [2020, 2021, 2022]
    assert tables["towns"]["public"] and "privacy_unit" not in tables["towns"]


@SURE
def test_formats(asked: Asked) -> None:
    made = asked.post("/v1/release", sql=EXACT)
    assert made.headers["content-type"] == JSON
    found = made.json()
    assert [one["name"] for one in found["columns"]] == ["year", "n", "v"] and found["keys"] == ["year"]
    assert [row[:2] for row in found["rows"]] == [[2020, 300], [2021, 300], [2022, 300]]
    assert set(found["errors"]) == {"n", "v"} and found["spent"] == {"epsilon": 1e6, "delta": 0.0}
    assert found["explanation"].startswith("1. Read") and found["confidence"] == 0.95

    made = asked.post("/v1/release", accept=ARROW, sql=EXACT)
    table = pa.ipc.open_stream(made.content).read_all()
    assert (
        table.column_names == ["year", "n", "n_error", "v", "v_error"] and table["n"].to_pylist() == [300] * 3
    )
    about = json.loads(table.schema.metadata[ABOUT])
    assert about["errors"] == {"n": "n_error", "v": "v_error"} and about["spent"]["epsilon"] == 1e6

    made = asked.post("/v1/release", accept=CSV, sql=EXACT)
    assert pa.csv.read_csv(io.BytesIO(made.content)).column_names == table.column_names
    assert made.headers["content-type"].startswith("text/csv")
    # Each form says what its numbers are; CSV has no place for it.
    said = json.loads(made.headers["sfumato-metadata"])
    assert said == found["metadata"] == about["metadata"] and said["epsilon"] == 1e6
    assert (
        said["bias"]
        == "Does not include bias from contribution limits and bounds; diagnostics=0.05 estimates it."
    )
    assert "95% error bar" in said["error_bars"] and "of the clamped values" in said["error_bars"]


@SURE
def test_lists_dates_and_computed_columns(asked: Asked) -> None:
    dp = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1000000)"
    text = f"{dp} QUANTILES(v, [0.25, 0.75]) AS q, HISTOGRAM(v, [0, 10, 20]) AS h, COUNT(*) AS q_error FROM visits"
    for accept in (JSON, ARROW, CSV):
        assert asked.post("/v1/release", accept=accept, sql=text).status_code in (200, 400)
    computed = "n * 2 AS m, DATE '2024-01-31' AS day, 'NaN'::DOUBLE AS x, n"
    found = asked.post(
        "/v1/release", sql=f"SELECT {computed} FROM ({dp} COUNT(*) AS n FROM visits) AS t"
    ).json()
    assert found["rows"] == [[1800, "2024-01-31", None, 900]] and found["errors"] == {}
    found = asked.post("/v1/release", sql=f"{dp} COUNT(*) AS n, COUNT(*) * 2 AS m FROM visits").json()
    assert found["rows"] == [[900, 1800]] and set(found["errors"]) == {"n"}
    text = f"{dp.replace('000000)', ', delta = 1e-9)')} APPROX_TOP_COUNT(town, 2) FROM visits"
    found = asked.post("/v1/release", sql=text).json()
    assert found["keys"] == ["rank", "town"] and len(found["rows"]) == 2 and set(found["errors"]) == {"units"}


ODD_VALUES = {
    "TIMESTAMP '9999-12-31'": "9999-12-31T00:00:00",
    "DATE '12000-01-01'": "12000-01-01",
    "CAST('infinity' AS DATE)": "<value out of range: 2147483647>",
    "[CAST('-infinity' AS TIMESTAMP)]": ["<value out of range: -9223372036854775807>"],
    "{'a': DATE '0100-01-01 (BC)'}": {"a": "-0099-01-01"},
    "union_value(a := DATE '12000-01-01')": "12000-01-01",
    "12345678901234567890123456789012345678::HUGEINT": "12345678901234567890123456789012345678",
    "100::DECIMAL(5, 0)": "100",
    "INTERVAL 3 DAY": [0, 3, 0],
    "'\\xFF'::BLOB": "/w==",
    "'101'::BIT": "Bf0=",
}


@pytest.mark.noise_cannot_matter("it looks at constants")
@pytest.mark.parametrize("text", ODD_VALUES)
def test_what_was_paid_is_answered_whatever_values_it_has(asked: Asked, text: str) -> None:
    dp = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) AS n FROM visits"
    made = [
        asked.post("/v1/release", accept=m, sql=f"SELECT {text} AS x FROM ({dp})") for m in (JSON, ARROW, CSV)
    ]
    assert [one.status_code for one in made] == [200] * 3
    assert made[0].json()["rows"] == [[ODD_VALUES[text]]]


@pytest.mark.noise_cannot_matter("it looks at costs and formats")
def test_a_question_costs_nothing_before_it_is_released(asked: Asked) -> None:
    before = asked.get("/v1/budget").json()
    found = asked.post("/v1/ask", sql=QUESTION, units=[100]).json()
    assert found["cost"] == {"epsilon": 1.0, "delta": 0.0}
    assert found["explanation"].startswith("1. Read")
    (preview,) = found["previews"]
    assert [one["name"] for one in preview["columns"]][:3] == ["epsilon", "units", "shown"] and len(
        preview["rows"]
    ) == 1
    assert asked.get("/v1/budget").json() == before and asked.get("/v1/history").json()["history"] == []
    asked.post("/v1/release", sql=QUESTION)
    assert asked.get("/v1/budget").json()["spent"]["epsilon"] == 1.0
    assert [one["what"] for one in asked.get("/v1/history").json()["history"]] == ["n, v by year"]


@pytest.mark.noise_cannot_matter("it looks at costs and names")
def test_dummy_rows_are_free_and_say_so(asked: Asked) -> None:
    real, dummy = (asked.post("/v1/release", sql=QUESTION, dummy=one).json() for one in (False, True))
    assert dummy["columns"] == real["columns"] and dummy["keys"] == real["keys"]
    assert (
        dummy["dummy"]
        and not real["dummy"]
        and dummy["receipt"]["dummy"]
        and "made-up" in dummy["explanation"]
    )
    assert dummy["spent"]["epsilon"] == 0 and asked.get("/v1/budget").json()["spent"]["epsilon"] == 1
    assert len(asked.get("/v1/history").json()["history"]) == 1
    exact = QUESTION.replace("epsilon = 1", "epsilon = 1000000").replace(
        "visits GROUP", "visits WHERE town = 'Ulm' GROUP"
    )
    assert (
        asked.post("/v1/release", sql=exact, dummy=True).json()["rows"][0][1] < 100
    )  # of 150 in the real one
    assert asked.post("/v1/ask", sql=QUESTION, dummy=True, units=[]).json()["cost"]["epsilon"] == 1
    assert asked.post("/v1/release", sql="SELECT * FROM visits", dummy=True).status_code == 400


def test_tables_that_cannot_be_made_up(tmp_path: Path, asked: Asked) -> None:
    (tmp_path / "visits.csv").write_text("id,year\n1,2020\n")
    guessed = sf.catalog(
        {"tables": {"visits": {"source": str(tmp_path / "visits.csv"), "privacy_unit": "id"}}}
    )
    asked.desk.catalog = AnalystsCatalog.of(guessed)
    answer = asked.post("/v1/release", sql=COUNT, dummy=True)
    assert (
        answer.status_code == 400 and "declare the types" in answer.text and str(tmp_path) not in answer.text
    )


class Watched:
    """Rows of which it is told when they are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine

        self.times, real = 0, DuckDBEngine.statistics

        def statistics(engine: Any, *args: Any) -> Any:
            self.times += 1
            return real(engine, *args)

        monkeypatch.setattr(DuckDBEngine, "statistics", statistics)


AUTOMATIC = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-9) AVG(age, contribution_bounds_per_row => AUTO) AS a FROM visits"


@pytest.mark.noise_cannot_matter("it looks at whether rows are read")
@pytest.mark.parametrize("text", [QUESTION, AUTOMATIC, AUTOMATIC.replace("=> AUTO", "=> 'auto'")])
def test_asking_reads_no_row(asked: Asked, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    watched = Watched(monkeypatch)
    asked.post("/v1/ask", sql=text, units=[])
    assert watched.times == 0
    assert asked.get("/v1/history").json()["history"] == []
    asked.post("/v1/release", sql=QUESTION)
    assert watched.times == 1  # so that it would have been seen


@pytest.mark.noise_cannot_matter("it looks at costs")
def test_a_budget_ends(tmp_path: Path) -> None:
    asked = Asked(tmp_path, epsilon="1.5")
    assert asked.post("/v1/release", sql=QUESTION).status_code == 200
    refused = asked.post("/v1/release", sql=QUESTION)
    assert refused.status_code == 402 and refused.json()["error"]["kind"] == "BudgetError"
    assert "more than is left" in refused.json()["error"]["text"]
    assert asked.get("/v1/budget").json()["remaining"]["epsilon"] == 0.5
    assert asked.post("/v1/release", "bob", sql=QUESTION).status_code == 200


@pytest.mark.noise_cannot_matter("it looks at names")
def test_nobody_sees_what_others_asked(asked: Asked) -> None:
    asked.post("/v1/release", "bob", sql=QUESTION.replace("AS n", "AS bobs"))
    assert "bobs" in asked.get("/v1/history", "bob").text
    for path in ("/v1/history", "/v1/budget", "/v1/tables"):
        assert "bob" not in asked.get(path).text
    assert asked.get("/v1/history?everybody=true").status_code == 403
    assert asked.get("/v1/history?everybody=true", "olga").json()["analyst"] is None
    assert asked.get("/v1/history?everybody=false", "olga").status_code == 400


def test_an_error_says_where(asked: Asked) -> None:
    refused = asked.post(
        "/v1/release", sql="SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) MAX(town) FROM visits"
    )
    error = refused.json()["error"]
    assert refused.status_code == 400 and error["kind"] == "SqlError"
    assert "line 1, column" in error["text"] and "^^^" in error["text"]
    refused = asked.post("/v1/release", sql=QUESTION.replace("visits", "visit"))
    assert "did you mean 'visits'" in refused.json()["error"]["text"]
    refused = asked.post("/v1/release", sql=QUESTION, confidense=0.9)
    assert "did you mean 'confidence'" in refused.json()["error"]["text"]


def test_what_nobody_expected_is_told_by_a_number_alone(
    asked: Asked, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(job: QueryRequest) -> None:
        secret = "a value of a row"
        raise KeyError(secret)

    asked.desk.answer = fails
    caplog.set_level(logging.INFO)
    answer = asked.post("/v1/release", sql=QUESTION)
    assert answer.status_code == 500 and "value" not in answer.text
    (record,) = [one for one in caplog.records if one.name == LOG.name]
    line = json.loads(Lines().format(record))
    assert line["id"] == answer.headers["x-request-id"] and "KeyError at" in line["fault"]
    assert "test_app.py" in line["fault"] and "value of a row" not in json.dumps(line)


def test_a_source_that_is_gone_is_the_owners_to_know(
    tmp_path: Path, asked: Asked, caplog: pytest.LogCaptureFixture
) -> None:
    pa.parquet.write_table(VISITS, tmp_path / "visits.parquet")
    catalog = sf.catalog(
        {"tables": {"visits": {"source": str(tmp_path / "visits.parquet"), "privacy_unit": "id"}}}
    )
    asked.desk.catalog = AnalystsCatalog.of(catalog)
    (tmp_path / "visits.parquet").unlink()
    caplog.set_level(logging.INFO)
    answer = asked.post("/v1/release", sql=COUNT)
    assert answer.status_code == 503 and str(tmp_path) not in answer.text and "owner" in answer.text
    assert str(tmp_path) in json.dumps([vars(one) for one in caplog.records], default=str)


def test_units_of_different_kinds_have_no_common_budget() -> None:
    monthly = {"source": VISITS, "privacy_unit": ["id", "year"]}
    catalog = sf.catalog({"tables": {"visits": {"source": VISITS, "privacy_unit": "id"}, "monthly": monthly}})
    with pytest.raises(CatalogError, match="made of different parts"):
        AnalystsCatalog.of(catalog)
    assert AnalystsCatalog.of(sf.catalog({"tables": {"monthly": monthly, "again": monthly}}))


@pytest.mark.parametrize("what", ["analyze", "unsafe", "check"])
def test_tables_are_open_for_releases_alone(asked: Asked, what: str) -> None:
    from sfumato.errors import RefusalError
    from sfumato.noise import SeededWords

    question = asked.catalog.table("visits").bound(groups=1, rows=1).agg(n=sf.count())
    with pytest.raises(RefusalError, match="opened for analysts"):
        if what == "analyze":
            question.analyze(epsilon=1)
        elif what == "unsafe":
            question.release(epsilon=1, unsafe_words=SeededWords(1))
        else:
            sf.check(question)


def test_the_document_has_the_paths_that_there_are(asked: Asked) -> None:
    document = asked.http.get("/openapi.json").json()
    routes = {
        (r.path, m.lower())
        for r in asked.service.routes
        for m in (getattr(r, "methods", None) or ())
        if m != "HEAD"
    }
    told = {(path, method) for path, methods in document["paths"].items() for method in methods}
    assert told == routes - {("/", "get"), ("/page/{name}", "get")}
    for path, methods in document["paths"].items():
        for method, told_of in methods.items():
            free = not told_of["security"]
            assert asked.http.request(method, path).status_code == (200 if free else 401)
            assert free or {"400", "401", "500"} <= set(told_of["responses"])


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        (None, JSON), ("*/*", JSON), ("text/*", CSV), ("text/csv", CSV), (f"{CSV};q=0.5, {ARROW}", ARROW), ("application/*", JSON),
        (f"{JSON};q=0, {CSV};q=0.1", CSV), ("TEXT/CSV", CSV), ("text/html, */*;q=0.1", JSON),
    ],
)  # fmt: skip
def test_accept(accept: str | None, media: str) -> None:
    assert _accepted(accept) == media


@pytest.mark.noise_cannot_matter("it looks at statuses")
def test_a_format_that_is_unknown_costs_nothing(asked: Asked) -> None:
    assert asked.post("/v1/release", accept="text/html", sql=QUESTION).status_code == 406
    assert asked.get("/v1/budget").json()["spent"]["epsilon"] == 0


class Slow:
    """A desk whose jobs wait until they are let go."""

    killed, places = 0, 8

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = threading.Semaphore(0)

    async def run(self, job: QueryRequest) -> Any:
        self.begun.release()
        await asyncio.to_thread(self.go.wait)
        return await self.inner.run(job)


def test_questions_at_once_are_limited(tmp_path: Path) -> None:
    asked = Asked(tmp_path, waiting=3, each=2)
    slow, question = Slow(), {"sql": QUESTION, "units": []}
    slow.inner, made = asked.service.runner, asked.service
    asked.http = TestClient(Service(slow, made.tokens, made.limits, PAGE), base_url="http://service")
    with asked.http:  # one loop for all
        found: list[int] = []
        threads = [
            threading.Thread(
                target=lambda name=name: found.append(asked.post("/v1/ask", name, **question).status_code)
            )
            for name in ("ann", "ann", "bob")
        ]
        for thread in threads:
            thread.start()
            slow.begun.acquire()
        assert asked.post("/v1/ask", "ann", **question).status_code == 429
        busy = asked.post("/v1/ask", "bob", **question)
        assert (
            busy.status_code == 503
            and busy.headers["retry-after"] == "5"
            and "Nothing was spent" in busy.text
        )
        assert asked.http.get("/health").status_code == 200
        slow.go.set()
        for thread in threads:
            thread.join()
        assert found == [200, 200, 200]
        assert asked.post("/v1/ask", "ann", **question).status_code == 200


def test_metrics_are_for_owners_and_hold_no_names(asked: Asked) -> None:
    asked.get("/v1/tables")
    asked.get("/v1/nothing")
    assert asked.get("/metrics").status_code == 403
    text = asked.get("/metrics", "olga").text
    assert 'sfumato_requests_total{route="tables",status="200"} 1' in text
    assert "ann" not in text and "nothing" not in text


def test_the_log_has_a_digest_of_the_question(asked: Asked, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for text in ("SELECT 'ann is ill'", "SELECT 'ann is ill'", "SELECT 'ann is well'"):
        asked.post("/v1/ask", sql=text)
    lines = [json.loads(Lines().format(one)) for one in caplog.records if one.name == LOG.name]
    digests = [line["question"] for line in lines]
    assert digests[0] == digests[1] != digests[2] and "ill" not in json.dumps(lines)
    assert (
        digests[0]
        == digest(asked.tokens.key("log"), "SELECT 'ann is ill'")
        != digest(bytes(32), "SELECT 'ann is ill'")
    )
    assert all(line["caller"] == "ann" and line["status"] == 400 and line["route"] == "ask" for line in lines)


def test_what_others_log_is_not_quoted() -> None:
    record = logging.LogRecord("uvicorn.error", logging.WARNING, "", 0, "refused: %s", ("a secret",), None)
    assert "a secret" not in Lines().format(record)


def test_errors_of_the_engine_hide_their_words() -> None:
    from sfumato.service.query_service import failed

    outcome = failed(EngineError("/data/rows.parquet is not there"))
    assert (
        outcome.status == 503 and b"rows.parquet" not in outcome.body and "rows.parquet" in outcome.log["why"]
    )
