"""What each path answers, to whom, in which format, and within which limits; and what the log and metrics hold."""

import io
import json
import logging
import re

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import sfumato as sf
from sfumato.errors import CatalogError, EngineError, RefusalError, SqlError
from sfumato.noise import SeededWords
from sfumato.service.analyst_catalog import AnalystsCatalog
from sfumato.service.answer_formats import ABOUT, ARROW, CSV, JSON
from sfumato.service.monitoring import LOG, Lines, Metrics, digest
from sfumato.service.query_service import failed
from sfumato.service.server import PAGE
from tests.support.service import COUNT, OPTIONS, QUERY, SECRET, VISITS, LocalService

EXACT = QUERY.replace("epsilon = 1", "epsilon = 1000000")
SURE = pytest.mark.flakiness(k=100, because="noise of 1e-4 or less rounds to 0 in counts")
COSTS = pytest.mark.noise_cannot_matter("it looks at costs, names and formats")


def logged(caplog):
    return [json.loads(Lines().format(one)) for one in caplog.records if one.name == LOG.name]


@SURE
def test_formats(service):
    made = service.post("/v1/release", sql=EXACT)
    found = made.json()
    assert made.headers["content-type"] == JSON
    assert [one["name"] for one in found["columns"]] == ["year", "n", "v"] and found["keys"] == ["year"]
    assert [row[:2] for row in found["rows"]] == [[2020, 300], [2021, 300], [2022, 300]]
    assert set(found["errors"]) == {"n", "v"} and found["spent"] == {"epsilon": 1e6, "delta": 0.0}
    assert found["explanation"].startswith("1. Read") and found["confidence"] == 0.95

    made = service.post("/v1/release", accept=ARROW, sql=EXACT)
    table = pa.ipc.open_stream(made.content).read_all()
    assert table.column_names == ["year", "n", "n_error", "v", "v_error"]
    assert table["n"].to_pylist() == [300] * 3
    about = json.loads(table.schema.metadata[ABOUT])
    assert about["errors"] == {"n": "n_error", "v": "v_error"} and about["spent"]["epsilon"] == 1e6

    made = service.post("/v1/release", accept=CSV, sql=EXACT)
    assert pa.csv.read_csv(io.BytesIO(made.content)).column_names == table.column_names
    # Each form says what its numbers are; CSV has no place for it but a header.
    said = json.loads(made.headers["sfumato-metadata"])
    assert said == found["metadata"] == about["metadata"] and said["epsilon"] == 1e6
    assert said["bias"].startswith("Does not include bias") and "95% error bar" in said["error_bars"]


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
    "'NaN'::DOUBLE": None,
}


@pytest.mark.noise_cannot_matter("it looks at constants")
def test_a_charged_answer_is_sent_whatever_its_values(service):
    columns = ", ".join(f"{text} AS x{i}" for i, text in enumerate(ODD_VALUES))
    sql = f"SELECT {columns} FROM ({COUNT})"
    made = [service.post("/v1/release", accept=media, sql=sql) for media in (JSON, ARROW, CSV)]
    assert [one.status_code for one in made] == [200] * 3, made[0].text
    assert made[0].json()["rows"] == [list(ODD_VALUES.values())] and made[0].json()["errors"] == {}


@COSTS
def test_a_query_costs_nothing_before_it_is_released(service):
    before = service.get("/v1/budget").json()
    found = service.post("/v1/ask", sql=COUNT, units=[100], epsilons=[0.5, 2, 8]).json()
    assert found["cost"] == {"epsilon": 1.0, "delta": 0.0} and found["explanation"].startswith("1. Read")
    (preview,) = found["previews"]
    assert [row[:2] for row in preview["rows"]] == [[0.5, 100], [2.0, 100], [8.0, 100]]
    errors = [row[3] for row in preview["rows"]]
    assert errors == sorted(errors, reverse=True) and errors[0] > 3 * errors[1]
    delta = QUERY.replace("epsilon = 1", "epsilon = 1, delta = 1e-6, noise = gaussian")
    assert service.post("/v1/ask", sql=delta, units=[]).json()["cost"]["delta"] == pytest.approx(1e-6)
    assert service.get("/v1/budget").json() == before and service.get("/v1/history").json()["history"] == []
    service.post("/v1/release", sql=QUERY)
    assert service.spent() == 1.0
    assert [one["what"] for one in service.get("/v1/history").json()["history"]] == ["n, v by year"]


@COSTS
def test_dummy_rows_are_not_charged_and_are_not_the_real_ones(service, tmp_path):
    real, dummy = (service.post("/v1/release", sql=QUERY, dummy=one).json() for one in (False, True))
    assert dummy["columns"] == real["columns"] and dummy["keys"] == real["keys"]
    assert dummy["dummy"] and not real["dummy"] and dummy["receipt"]["dummy"]
    assert dummy["spent"]["epsilon"] == 0 and service.spent() == 1
    exact = EXACT.replace("visits GROUP", "visits WHERE town = 'Ulm' GROUP")
    found = service.post("/v1/release", sql=exact, dummy=True).json()
    assert found["rows"][0][1] < 100  # of 150 in the real one
    assert service.post("/v1/release", sql="SELECT * FROM visits", dummy=True).status_code == 400
    # Where types are not declared, the file would have to be read for them.
    (tmp_path / "visits.csv").write_text("id,year\n1,2020\n")
    table = {"source": str(tmp_path / "visits.csv"), "privacy_unit": "id"}
    service = LocalService(tmp_path, declared={"visits": table})
    answer = service.post("/v1/release", sql=COUNT, dummy=True)
    assert answer.status_code == 400 and "declare the types" in answer.text
    assert str(tmp_path) not in answer.text


@COSTS
@pytest.mark.parametrize("ledger", [False, True])
def test_budgets_are_of_each_analyst_and_end(tmp_path, ledger):
    service = LocalService(tmp_path, "1.5" if not ledger else 1.5, ledger=ledger)
    assert service.post("/v1/release", sql=QUERY.replace("AS n", "AS anns")).status_code == 200
    refused = service.post("/v1/release", sql=QUERY)
    assert refused.status_code == 402 and refused.json()["error"]["kind"] == "BudgetError"
    assert service.get("/v1/budget").json()["remaining"]["epsilon"] == pytest.approx(0.5)
    assert service.post("/v1/release", "bob", sql=QUERY.replace("AS n", "AS bobs")).status_code == 200
    # Nobody sees what another one asked; the owner sees all.
    assert "bobs" in service.get("/v1/history", "bob").text
    for path in ("/v1/history", "/v1/budget", "/v1/tables"):
        assert "bob" not in service.get(path).text
        assert service.get("/v1/history?everybody=true").status_code == 403
    found = service.get("/v1/history?everybody=true", "olga").json()
    assert found["analyst"] is None and ("bobs" in str(found)) is ledger
    assert service.get("/v1/history?everybody=false", "olga").status_code == 400


def test_an_error_says_where(service):
    for sql, wrong in (
        (f"/* 𝒟 😀 */\r\n{OPTIONS} MAX(town) FROM visits", "MAX"),
        (COUNT.replace("epsilon", "epsilom"), "epsilom"),
        (f"SELECT t.n FROM ({COUNT.replace('COUNT(*)', 'MODE(v)')}) AS t", "MODE"),
        (f"WITH a AS ({COUNT}), b AS ({COUNT.replace('COUNT(*)', 'SUM(age)')}) SELECT * FROM a, b", "SUM"),
    ):
        answer = service.post("/v1/ask", sql=sql)
        error = answer.json()["error"]
        assert answer.status_code == 400 and error["kind"] == SqlError.__name__ and "^^^" in error["text"]
        start, stop = error["place"]
        assert sql[start:stop] == wrong
        line, column = map(int, re.findall(r"line (\d+), column (\d+)", error["text"])[0])
        before = re.split(r"\r\n|\r|\n", sql[:start])
        assert (len(before), len(before[-1]) + 1) == (line, column)


@pytest.mark.parametrize("where", ["desk", "app"])
def test_a_fault_of_ours_is_reported_by_a_number(service, caplog, monkeypatch, where):
    def fails(*_):
        secret = "a value of a row"
        raise KeyError(secret)

    monkeypatch.setattr(*((service.desk, "answer") if where == "desk" else (service.app, "_body")), fails)
    caplog.set_level(logging.INFO)
    answer = service.post("/v1/release", sql=QUERY)
    assert answer.status_code == 500 and "value" not in answer.text + json.dumps(logged(caplog))
    (line,) = logged(caplog)
    assert line["id"] == answer.headers["x-request-id"]
    assert where == "app" or ("KeyError at" in line["fault"] and "test_http_app.py" in line["fault"])


def test_a_source_that_is_gone_is_named_to_the_owner_alone(tmp_path, caplog):
    pa.parquet.write_table(VISITS, tmp_path / "visits.parquet")
    table = {"source": str(tmp_path / "visits.parquet"), "privacy_unit": "id"}
    service = LocalService(tmp_path, declared={"visits": table})
    (tmp_path / "visits.parquet").unlink()
    caplog.set_level(logging.INFO)
    answer = service.post("/v1/release", sql=COUNT)
    assert answer.status_code == 503 and str(tmp_path) not in answer.text and "owner" in answer.text
    assert str(tmp_path) in json.dumps([vars(one) for one in caplog.records], default=str)
    outcome = failed(EngineError("/data/rows.parquet is not there"))
    assert outcome.status == 503 and b"rows.parquet" not in outcome.body
    assert "rows.parquet" in outcome.log["why"]


def test_privacy_units_of_different_kinds_have_no_common_budget():
    monthly = {"source": VISITS, "privacy_unit": ["id", "year"]}
    with pytest.raises(CatalogError, match="made of different parts"):
        AnalystsCatalog.from_catalog(
            sf.catalog({"tables": {"a": {"source": VISITS, "privacy_unit": "id"}, "b": monthly}})
        )
    assert AnalystsCatalog.from_catalog(sf.catalog({"tables": {"monthly": monthly, "again": monthly}}))


def test_tables_are_open_for_releases_alone(service):
    query = service.catalog.table("visits").bound(groups=1, rows=1).agg(n=sf.count())
    for exact in (
        lambda: query.analyze(epsilon=1),
        lambda: query.release(epsilon=1, unsafe_words=SeededWords(1)),
        lambda: sf.check(query),
    ):
        with pytest.raises(RefusalError, match="opened for analysts"):
            exact()


def test_the_openapi_document_has_the_paths_that_there_are(service):
    document = service.http.get("/openapi.json").json()
    routes = {
        (r.path, method.lower()) for r in service.app.routes for method in r.methods if method != "HEAD"
    }
    described = {(path, method) for path, methods in document["paths"].items() for method in methods}
    assert described == routes - {("/", "get"), ("/page/{name}", "get")}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            free = not operation["security"]
            assert service.http.request(method, path).status_code == (200 if free else 401)
            assert free or {"400", "401", "500"} <= set(operation["responses"])


def test_metrics_are_for_owners_and_name_nobody(service):
    service.get("/v1/tables")
    service.get("/v1/nothing")
    assert service.get("/metrics").status_code == 403
    text = service.get("/metrics", "olga").text
    assert 'sfumato_requests_total{route="tables",status="200"} 1' in text
    assert "ann" not in text and "nothing" not in text
    metrics = Metrics()
    for seconds in (0.02, 0.02, 5.0):
        metrics.done("ask", 200, seconds)
    buckets = dict(re.findall(r'le="([\w.+]+)"} (\d+)', metrics.text(0)))
    assert [buckets[le] for le in ("0.01", "0.03", "3.0", "10.0", "+Inf")] == ["0", "2", "2", "3", "3"]


def test_the_log_has_a_keyed_digest_of_the_query_and_no_words(service, caplog):
    caplog.set_level(logging.INFO)
    for text in ("SELECT 'ann is ill'", "SELECT 'ann is ill'", "SELECT 'ann is well'"):
        service.post("/v1/ask", sql=text)
    lines = logged(caplog)
    one, again, other = (line["question"] for line in lines)
    assert one == again != other and "ill" not in json.dumps(lines)
    assert (
        one == digest(service.tokens.key("log"), "SELECT 'ann is ill'") != digest(b"", "SELECT 'ann is ill'")
    )
    assert all(line["caller"] == "ann" and line["status"] == 400 and line["route"] == "ask" for line in lines)
    record = logging.LogRecord("uvicorn.error", logging.WARNING, "", 0, "refused: %s", ("a secret",), None)
    assert "a secret" not in Lines().format(record)


@pytest.mark.long
def test_files_that_are_gone_are_no_fault_of_the_analyst(paying, tmp_path, caplog):
    assert paying.http.get("/ready").json() == {"status": "ready"}
    caplog.set_level(logging.INFO)
    for name, says, kept in (
        ("tokens.db", "tokens cannot be looked up", ["/health"]),
        ("budget.db", "the ledger that pays", ["/health", "/v1/tables"]),
    ):
        (tmp_path / name).rename(tmp_path / "away")
        answers = [paying.get(path) for path in ("/v1/budget", "/v1/history")]
        answers += [paying.post(path, sql=QUERY) for path in ("/v1/ask", "/v1/release")]
        for answer in answers:
            assert answer.status_code == 503 and says in answer.text, answer.text
            assert str(tmp_path) not in answer.text
        assert paying.http.get("/ready").status_code == 503
        assert [paying.get(path).status_code for path in kept] == [200] * len(kept)
        assert not (tmp_path / name).exists()  # an empty one would know nobody, or nothing spent
        (tmp_path / "away").rename(tmp_path / name)
        assert paying.http.get("/ready").status_code == 200 and name in str([vars(r) for r in caplog.records])


@pytest.mark.parametrize("path", ["/", "/v1/tables", "/nothing"])
def test_the_policy_of_the_page_is_strict(service, path):
    headers = service.http.get(path).headers
    policy = dict(part.partition(" ")[::2] for part in headers["content-security-policy"].split("; "))
    ours = {"script-src", "style-src", "connect-src"}
    assert {name for name, value in policy.items() if value == "'self'"} == ours
    nothing = {"default-src", "frame-ancestors", "base-uri", "form-action", "trusted-types"}
    assert {name for name, value in policy.items() if value == "'none'"} == nothing
    assert policy["require-trusted-types-for"] == "'script'" and "unsafe" not in str(policy)
    assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY" and headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"
    assert "set-cookie" not in headers and "access-control-allow-origin" not in headers


def test_files_of_the_page(service):
    media = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
    for path in PAGE.iterdir():
        found = service.http.get(f"/page/{path.name}")
        assert found.status_code == 200 and found.headers["content-type"].startswith(media[path.suffix])
        assert found.content == path.read_bytes() and SECRET not in found.text
    for name in ("nothing.js", "..%2fapp.py", "__init__.py", "page.css%00", "page.js/", ".", "%2e%2e"):
        assert service.http.get(f"/page/{name}").status_code == 404


def test_sizes_and_budgets_of_a_preview_are_limited(service):
    for given in (0, "1", [0], [-1], ["1"], [None], [True], {}, [1e-9], [1e300], [1] * 21, None):
        found = service.post("/v1/ask", sql=COUNT, epsilons=given)
        assert found.status_code == 400 and "epsilons must be a list of at most 20 budgets" in found.text
    found = service.post("/v1/ask", sql=COUNT, units=[1, 2, 3], epsilons=[1.5] * 20)
    assert found.status_code == 400 and "at most 40 together with units" in found.text
