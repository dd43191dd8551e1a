"""What analysts read names tables as the catalog does: where their rows are is known to the owner alone."""

from __future__ import annotations

import inspect
import sqlite3
from collections import Counter
from contextlib import closing
from itertools import islice
from typing import Any

import duckdb
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.api.question import Question
from sfumato.catalogs.declared_table import DeclaredTable
from sfumato.errors import QueryError
from sfumato.query.aggregates import FUNCTIONS
from sfumato.query.tables.public_table import PublicTable
from sfumato.service.analyst_catalog import OF_PUBLIC, OF_QUESTIONS, OF_RELEASE, OF_TABLES, OF_TOP
from sfumato.service.query_service import QueryRequest, QueryService
from tests.support.hostile_requests import STATEMENTS, texts
from tests.support.service import TOWNS, VISITS, LocalService

pytestmark = pytest.mark.flakiness(
    k=14, because="fewer than 3000 answers, each of which may show a group of one person, at delta 1e-18"
)
NET = QueryService._names_a_source
MARK = "zzq9mark"  # in the name of each source, and in no name that the catalog gives
COUNT: dict[str, Any] = {"asks": "count", "args": [], "named": {}}
ASK = ["agg", [], {"n": COUNT}]
NAMES = ("visits", "again", "shop", "people", "many", "keyed")
TABLES: list[dict[str, Any]] = [
    *({"table": name, "calls": []} for name in NAMES),
    {"table": "visits", "calls": [["filter", ["age > 30"], {}]]},
    {"public": "towns", "calls": []},
]


def declared(folder):
    """Tables of every kind of source, each with the mark in all parts of its place."""
    here = folder / f"{MARK}folder"
    (here / f"{MARK}many").mkdir(parents=True)
    pq.write_table(VISITS, here / f"{MARK}visits.parquet")
    pq.write_table(VISITS, here / f"{MARK}many" / f"{MARK}1.parquet")
    pyarrow.csv.write_csv(VISITS, f"{MARK}again.csv")  # a bare name, in the current folder
    pyarrow.csv.write_csv(TOWNS, here / f"{MARK}towns.csv")
    with duckdb.connect(str(here / f"{MARK}shop.duckdb")) as made:
        made.register("v", VISITS)
        made.execute(f"CREATE TABLE {MARK}visits AS SELECT * FROM v")
    with closing(sqlite3.connect(here / f"{MARK}people.sqlite")) as lite, lite:
        lite.execute(f"CREATE TABLE {MARK}people (id INTEGER, year INTEGER, city TEXT, age INTEGER)")
        rows = VISITS.select(["id", "year", "city", "age"]).slice(0, 300).to_pylist()
        lite.executemany(f"INSERT INTO {MARK}people VALUES (:id, :year, :city, :age)", rows)
    columns = {"v": {"lower": 0, "upper": 20}, "year": {"domain": [2020, 2021, 2022]}}
    of = {"privacy_unit": "id", "max_groups": 3, "max_rows": 3}
    return {
        "visits": {"source": str(here / f"{MARK}visits.parquet"), **of, "columns": columns},
        "again": {
            "source": f"{MARK}again.csv",
            **of,
            "types": {"id": "BIGINT", "town": "VARCHAR", "age": "BIGINT"},
        },
        "shop": {"source": str(here / f"{MARK}shop.duckdb" / f"{MARK}visits"), **of},
        "people": {"source": str(here / f"{MARK}people.sqlite" / f"{MARK}people"), "privacy_unit": "id"},
        "many": {"source": str(here / f"{MARK}many"), **of},
        "keyed": {"source": str(here / f"{MARK}many" / "*.parquet"), "foreign_keys": {"id": "people.id"}},
        "towns": {
            "source": str(here / f"{MARK}towns.csv"),
            "public": True,
            "types": {"town": "VARCHAR", "city": "VARCHAR", "region": "VARCHAR"},
        },
    }


@pytest.fixture(scope="module")
def marked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("names")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        # What is held to the rule are the messages themselves, not the net below them.
        patch.setattr(QueryService, "_names_a_source", lambda *_: False)
        yield LocalService(folder, 10**8, declared(folder), ledger=True, each=100)


def unmarked(answer, sent):
    """Fail where an answer names a source."""
    shown = answer.content.decode("utf-8", errors="replace") + str(dict(answer.headers))
    assert MARK not in shown.casefold(), (sent, shown[:600])
    assert answer.status_code < 500, (sent, shown[:600])
    return int(answer.status_code)


def asked(marked, chain, options=None, seen=None):
    body = {"chain": chain, "options": {"epsilon": "1", "delta": "1e-18"} if options is None else options}
    for path, more in (("/v1/ask", {"units": []}), ("/v1/release", {}), ("/v1/release", {"dummy": True})):
        status = unmarked(marked.post(path, **body, **more), chain)
        if seen is not None:
            seen[status] += 1


def calls_with(table):
    """Calls of every method with a table in the place of each argument; and of every aggregate."""
    for kind, names in ((DeclaredTable, OF_TABLES), (Question, OF_QUESTIONS)):
        for name in names:
            for given in (table, [table], {"tuple": [table]}, {"dict": [["x", table]]}):
                yield name, [name, [given], {}]
            for argument in inspect.signature(getattr(kind, name)).parameters.values():
                if argument.kind is argument.KEYWORD_ONLY or argument.name not in ("self", "columns"):
                    yield name, [name, [], {argument.name: table}]
            yield name, [name, [], {"x": table}]
    for function in FUNCTIONS:
        yield "agg", ["agg", [], {"n": {"asks": function.__name__, "args": [table], "named": {}}}]
        for argument in inspect.signature(function).parameters:
            yield (
                "agg",
                ["agg", [], {"n": {"asks": function.__name__, "args": ["v"], "named": {argument: table}}}],
            )


@pytest.mark.parametrize(
    ("i", "step"),
    [
        *(pytest.param(i, 4, marks=pytest.mark.long) for i in (1, 6)),
        *(pytest.param(i, 1, marks=pytest.mark.release) for i in range(8)),
    ],
)
def test_a_table_in_the_place_of_anything_is_named_as_the_catalog_names_it(marked, i, step):
    table, seen, told = TABLES[i], Counter(), 0
    name = table.get("table") or table["public"]
    for method, call in islice(calls_with(table), 0, None, step):
        chain = {"table": "visits", "calls": [ASK, call] if method in OF_QUESTIONS else [call, ASK]}
        answer = marked.post("/v1/ask", chain=chain, options={"epsilon": "1", "delta": "1e-18"}, units=[])
        seen[unmarked(answer, chain)] += 1
        told += f"table '{name}'" in answer.text
    for method in OF_PUBLIC[:: min(step, 2)]:
        joined = ["join", [{"public": "towns", "calls": [[method, [table], {}]]}], {"on": "town"}]
        asked(marked, {"table": "visits", "calls": [joined, ASK]}, seen=seen)
    for option in (*OF_RELEASE, *OF_TOP)[::step]:
        asked(marked, {"table": "visits", "calls": [ASK]}, {"epsilon": "1", option: table}, seen)
    assert seen[400] > 60 // step and told >= 30 // step, (seen, told)


@pytest.mark.parametrize(
    "names",
    [pytest.param(NAMES[2:4], marks=pytest.mark.long), pytest.param(NAMES, marks=pytest.mark.release)],
)
def test_answers_of_every_endpoint(marked, names):
    for name in names:
        counted = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-18, max_groups_contributed = 1, max_rows_per_group = 1) COUNT(*) AS n FROM {name}"
        for path, accept in (("/v1/ask", "*/*"), ("/v1/release", "*/*"), ("/v1/release", "text/csv")):
            answer = marked.post(path, accept=accept, sql=counted)
            assert unmarked(answer, counted) == 200, answer.text
        ways: list[Any] = [
            [["bound", [], {"groups": 1, "rows": 1}], ASK],
            [["top", ["year"], {"k": 2}]],
            [["bound", [], {"groups": 1, "rows": 1}], ["union", [{"table": "visits", "calls": []}], {}], ASK],
            [["join", [{"table": "people", "calls": []}], {"on": "id"}], ["bound", [], {"rows": 1}], ASK],
            [["per_unit", [], {"x": "count(*)"}], ASK],
        ]
        for calls in ways:
            asked(marked, {"table": name, "calls": calls})
    for path in ("tables", "budget", "history", "words", "budget?everybody=true", "history?everybody=true"):
        for who in ("ann", "olga"):
            unmarked(marked.get(f"/v1/{path}", who), path)
    for one in marked.get("/v1/history").json()["history"]:
        unmarked(marked.get(f"/v1/answers/{one['entry']}"), one)
    for path in ("/metrics", "/health", "/ready", "/openapi.json", "/", "/nowhere", "/v1/answers/1"):
        unmarked(marked.get(path, "olga"), path)


@pytest.mark.parametrize(
    "step", [pytest.param(20, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.release)]
)
def test_hostile_texts(marked, tmp_path, step):
    for i, text in enumerate([*STATEMENTS, *texts(tmp_path)[::step]]):
        path = "/v1/ask" if i % 2 else "/v1/release"
        unmarked(marked.post(path, sql=text.replace("\ud800", ""), **({"units": []} if i % 2 else {})), text)


def test_reprs_of_a_catalog_s_tables_have_its_names(marked):
    catalog = marked.catalog
    made: list[Any] = [
        catalog.table("visits"),
        catalog.table("again").filter("age > 3"),
        catalog.public("towns"),
    ]
    made += [made[0].agg(n=sf.count()), made[0].top("year", k=2), made[0].join(made[2], on="town")]
    for one in made:
        assert MARK not in repr(one) + str(one) + sf.errors.shown(one)
    assert sf.errors.shown(made[0]) == "the table 'visits'" and isinstance(made[2], PublicTable)
    assert sf.errors.shown(made[2]) == "the public table 'towns'" and sf.errors.shown(made[3]) == "a Question"


def test_the_net_below_all_messages(tmp_path, monkeypatch):
    """Should a message name a source after all, the owner alone reads it, and the tables are not blamed."""
    monkeypatch.chdir(tmp_path)
    asked = LocalService(tmp_path, declared={"again": declared(tmp_path)["again"]})
    monkeypatch.setattr(QueryService, "_names_a_source", NET)
    assert NET(asked.desk, QueryError(f"no such {MARK}again.csv"), QueryRequest("ask", "ann", "x"))
    assert not NET(
        asked.desk, QueryError(f"no such {MARK}again.csv"), QueryRequest("ask", "ann", f"'{MARK}again.csv'")
    )
    assert not NET(asked.desk, QueryError("no such column in again"), QueryRequest("ask", "ann", "x"))

    def names_it(*_):
        raise QueryError(f"{MARK}again.csv is not so")

    monkeypatch.setattr(asked.desk, "_parse_query", names_it)
    answer = asked.post("/v1/ask", sql="SELECT 1")
    assert answer.status_code == 400 and MARK not in answer.text and "ask the owner" in answer.text.lower()
