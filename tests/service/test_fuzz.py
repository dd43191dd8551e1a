"""Requests that nobody would write do not stop the service, and do not show that one person's rows are odd.

    FUZZ=12000 FUZZ_SEED=2 SFUMATO_LONG=1 python -m pytest -m "long or release" -s tests/service/test_fuzz.py

Each goes to two services, whose tables differ in the rows of one person, and these are as odd as rows can be. Status, error,
cost and columns of the answers must be the same: else that person was seen.
"""

from __future__ import annotations

import copy
import json
import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pyarrow as pa
import pytest

from sfumato.errors import QueryError
from sfumato.service.query_service import QueryService, refused
from tests.support.hostile_requests import NAMES, ODD, OPTIONS, texts
from tests.support.service import LocalService

from .test_chain import difference

pytestmark = [
    pytest.mark.long,
    pytest.mark.noise_cannot_matter("of a query answered twice it compares what noise is not in"),
]

DP = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-18)"
MANY = 300
ORDINARY: dict[str, list[Any]] = {
    "id": [i % 100 for i in range(MANY)],
    "year": [2020 + i % 3 for i in range(MANY)],
    "town": ["Ulm" if i % 2 else "Bonn" for i in range(MANY)],
    "v": [float(i % 20) for i in range(MANY)],
    "n": [i % 7 for i in range(MANY)],
    "seconds": [i * 1000 for i in range(MANY)],
    "flag": [i % 2 == 0 for i in range(MANY)],
}
ODD_ROWS: dict[str, list[Any]] = {
    "id": [4217] * 8,
    "year": [None, 0, -(2**31), 2**31 - 1, 2020, 2021, 9999, 10000],
    "town": [None, "", "x" * 70_000, "\x00", "\U0010ffff", "1e999", "(", "2020-02-30"],
    "v": [None, float("nan"), float("inf"), float("-inf"), 1.7e308, 5e-324, -0.0, -1.7e308],
    "n": [None, 2**63 - 1, -(2**63), 0, -1, 1, 2**62, 7],
    "seconds": [None, 2**63 - 1, -(2**63) + 1, 0, 1, -1, 2**60, 253402300800],
    "flag": [None, True, False, True, True, True, True, True],
}
TYPES = [
    ("id", pa.int64()), ("year", pa.int32()), ("town", pa.string()), ("v", pa.float64()), ("n", pa.int64()),
    ("seconds", pa.timestamp("us")), ("flag", pa.bool_()),
]  # fmt: skip
COLUMNS = [name for name, _ in TYPES]
AGGREGATES = [
    "COUNT(*)", "COUNT({0})", "COUNT(DISTINCT {0}, contribution_bounds_per_group => (0, 2))",
    "SUM({0}, contribution_bounds_per_row => (0, 5))", "AVG({0}, contribution_bounds_per_row => (-1, 5))",
    "VAR_POP({0}, contribution_bounds_per_row => (0, 5))", "SUM({0}, contribution_bounds_per_group => (-10, 10))",
    "STDDEV({0}, contribution_bounds_per_row => (0, 1e3))", "MAX({0}, contribution_bounds_per_row => (0, 5))",
    "APPROX_QUANTILES({0}, 4, contribution_bounds_per_row => (0, 100))", "MEDIAN({0}, contribution_bounds_per_row => (0, 9))",
]  # fmt: skip
NUMBERS = [
    "({0} + {1})", "({0} - {1})", "({0} * {1})", "({0} / {1})", "({0} // {1})", "({0} % {1})", "-{0}", "({0} ** {1})", "abs({0})", "ln({0})",
    "exp({0})", "sqrt({0})", "pow({0}, {1})", "floor({0})", "sin({0})", "greatest({0}, {1})", "coalesce({0}, {1})", "nullif({0}, {1})",
    "CASE WHEN {0} = {1} THEN {2} ELSE {3} END", "IF({0} > {1}, {2}, {3})", "CAST({0} AS {T})", "TRY_CAST({0} AS {T})", "length({t})",
    "strpos({t}, {t})", "year({d})", "extract(epoch FROM {d})", "date_diff('day', {d}, {d})", "CAST({d} AS DATE) - CAST({d} AS DATE)",
    "ascii({t})", "CAST({t} AS INT)", "CAST({t} AS DECIMAL(38, 37))", "sum({0}) OVER (PARTITION BY id ORDER BY {1})", "sign({0})",
    "lag({0}) OVER (PARTITION BY id ORDER BY {1})", "row_number() OVER (PARTITION BY id ORDER BY {0})", "CAST({c} AS INT)", "round({0}, 2)",
]  # fmt: skip
TEXTS = [
    "upper({0})", "substr({0}, 2, 3)", "({0} || {1})", "replace({0}, {1}, {2})", "regexp_extract({0}, 'a+')", "CAST({n} AS VARCHAR)",
    "strftime({d}, '%Y')", "split_part({0}, 'x', 2)", "trim({0})", "coalesce({0}, {1})", "CASE WHEN {c} THEN {0} ELSE {1} END",
]  # fmt: skip
TIMES = [
    "date_trunc('month', {0})",
    "({0} + INTERVAL 1 MONTH)",
    "CAST({t} AS TIMESTAMP)",
    "coalesce({0}, {1})",
    "CAST({t} AS DATE)",
]
CONDITIONS = [
    "({n} < {n})", "({n} = {n})", "({t} LIKE 'U%')", "({n} IS NULL)", "({0} AND {1})", "({0} OR {1})", "(NOT {0})", "({n} BETWEEN {n} AND {n})",
    "({n} IN (1, {n}))", "({t} IN ('Ulm', {t}))", "({d} < {d})", "({n} IS DISTINCT FROM {n})", "regexp_matches({t}, 'b')", "CAST({t} AS BOOLEAN)",
]  # fmt: skip
RARE = [
    "error({0})", "[{0}]", "{{'a': {0}}}", "random()", "now()", "nextval({0})", "(SELECT max({0}) FROM visits)", "format('{{}}', {0})",
    "list_reduce([{0}], lambda x, y: x + y)", "repeat({0}, {1})", "lpad({0}, {1}, 'x')", "chr({0})", "make_date({0}, {1}, {2})", "md5({0})",
    "to_timestamp({0})", "json_extract({0}, '$')", "factorial({0})", "({0} << {1})", "unnest([{0}])", "strptime({0}, '%d')", "COUNTIF({0})",
    "regexp_replace({0}, {1}, {2})", "gamma({0})", "{0}::JSON", "levenshtein({0}, {1})", "to_days({0})", "age({0}, {1})", "uuid()",
]  # fmt: skip
KINDS = {
    "n": (NUMBERS, ["id", "year", "v", "n", "n", "v"], ["0", "1", "-1", "4217", "1e308", "9223372036854775807", "0.1", "NULL", "2.5", "'NaN'::DOUBLE"]),
    "t": (TEXTS, ["town"], ["''", "'x'", "'1e999'", "'\u202e'", "'2020-02-30'", "NULL::VARCHAR"]),
    "d": (TIMES, ["seconds"], ["TIMESTAMP '2020-02-29'", "DATE '9999-12-31'", "DATE '2020-01-01'"]),
    "c": (CONDITIONS, ["flag"], ["TRUE", "NULL::BOOLEAN", "(n > 1)"]),
}  # fmt: skip
CONSTANTS = [
    "0", "1", "-1", "4217", "1e308", "1e-320", "9223372036854775807", "-9223372036854775808", "170141183460469231731687303715884105728",
    "0.1", "''", "'x'", "'('", "'\u202e'", "'\x00'", "NULL", "TRUE", "'NaN'", "'inf'", "DATE '2020-02-29'", "TIMESTAMP '2020-01-01'", "'1 year'",
    "INTERVAL 100000 YEAR", "1000000000", "'%'", "X'00'", "3", "2.5", "'2020-02-30'", "DATE 'infinity'", "'['", "'a' COLLATE NOCASE",
]  # fmt: skip
CASTS = [
    "INT",
    "TINYINT",
    "DOUBLE",
    "VARCHAR",
    "DATE",
    "TIMESTAMP",
    "BOOLEAN",
    "DECIMAL(38, 37)",
    "HUGEINT",
    "UBIGINT",
    "TIME",
    "UUID",
    "BLOB",
    "JSON",
    "FLOAT",
]
BODIES: list[Any] = [None, True, 0, -1, 1e308, [], {}, "x", "", [1], {"a": 1}, 10**30, 0.5, "\x00", "é" * 50]
WORD = re.compile(r"\w+|'[^']*'|\"[^\"]*\"|\s+|.", re.DOTALL)


def service_of(folder, *, odd):
    """Return a service of the tables, with that person or without."""
    rows = {name: ORDINARY[name] + (ODD_ROWS[name] if odd else []) for name in COLUMNS}
    table = pa.table({name: pa.array(rows[name], kind) for name, kind in TYPES})
    declared = {
        "visits": {
            "source": table, "privacy_unit": "id", "max_groups": 3, "max_rows": 3,
            "columns": {"v": {"lower": 0, "upper": 20}, "year": {"domain": [2020, 2021, 2022]}},
        },
        "people": {"source": table.select(["id", "town", "n"]), "privacy_unit": "id", "max_groups": 1, "max_rows": 1},
        "towns": {"source": pa.table({"town": ["Ulm", "Bonn"], "region": ["s", "w"]}), "public": True},
    }  # fmt: skip
    return LocalService(folder, declared=declared, each=100)


class Fuzz:
    """Requests, as endless as they are chosen by a seed.

    Args:
        random: chooses.
        known: texts of SQL to change.
    """

    def __init__(self, random: random.Random, known: list[str]) -> None:
        self.random = random
        self.known = [WORD.findall(text) for text in known if len(text) < 2000]

    def part(self, depth: int, kind: str = "n") -> str:
        """Return an expression of numbers, texts, times or conditions."""
        choose = self.random
        forms, columns, constants = KINDS[kind]
        if depth == 0 or choose.random() < 0.15:
            return choose.choice(columns if choose.random() < 0.7 else constants)
        form = choose.choice(forms if choose.random() < 0.98 else RARE)
        parts = {name: self.part(depth - 1, name) for name in KINDS}
        return form.format(*(self.part(depth - 1, kind) for _ in range(4)), T=choose.choice(CASTS), **parts)

    def question(self) -> str:
        """Return a text of SQL that could be right."""
        choose = self.random
        what = choose.choice(AGGREGATES).format(f"CAST({self.part(choose.randrange(4))} AS DOUBLE)")
        source = choose.choice(
            [
                "visits", "visits", "visits", "visits JOIN towns USING (town)",
                "visits JOIN (SELECT id, n AS m FROM people) AS p USING (id)",
                f"(SELECT id, {self.part(2)} AS v, town, year, n, seconds, flag FROM visits) AS t",
                f"(SELECT id, max({self.part(1)}) AS v, count(*) AS n, min(town) AS town, min(year) AS year, max(seconds) AS seconds,"
                " true AS flag FROM visits GROUP BY id) AS t",
            ]
        )  # fmt: skip
        key = choose.choice(
            ["", "", "year", "town", "flag", f"{self.part(2)} AS k", f"{self.part(2, 't')} AS k"]
        )
        text = f"{DP} {key + ', ' if key else ''}{what} AS a FROM {source}"
        if choose.random() < 0.5:
            text += f" WHERE {self.part(3, 'c')}"
        return text + (f" GROUP BY {key.rpartition(' ')[2]}" if key else "")

    def changed(self) -> str:
        """Return a known text, or one that could be right, with some of its words changed."""
        choose = self.random
        words = list(choose.choice(self.known)) if choose.random() < 0.5 else WORD.findall(self.question())
        for _ in range(choose.randrange(1, 5)):
            other, i = choose.choice(self.known), choose.randrange(len(words) + 1)
            match choose.randrange(7):
                case 0:
                    words[i : i + 1] = []
                case 1:
                    words[i:i] = words[i - 3 : i]
                case 2:
                    words[i : i + 1] = [choose.choice(other or [""])]
                case 3:
                    j = choose.randrange(len(other) + 1)
                    words[i:i] = other[j : j + choose.randrange(1, 12)]
                case 4:
                    words[i:i] = [choose.choice(CONSTANTS + COLUMNS)]
                case 5:
                    words[i : i + 1] = [self.part(2)]
                case _:
                    words[i:i] = [
                        chr(choose.choice([0, 10, 39, 34, 40, 0x202E, 0x1F600, choose.randrange(32, 0xD7FF)]))
                    ]
        return "".join(words)[:5000]

    def body(self) -> dict[str, Any]:
        """Return the body of a question, mostly one that is right."""
        choose = self.random
        found: dict[str, Any] = {"sql": self.question() if choose.random() < 0.6 else self.changed()}
        if choose.random() < 0.15:
            name = choose.choice(["sql", "confidence", "simultaneous", "dummy", "units", "x", "analyst"])
            found[name] = choose.choice(BODIES)
        return found

    def requests(self) -> Iterator[tuple[str, bytes, dict[str, str]]]:
        """Give paths, bodies and headers of questions without end."""
        choose = self.random
        while True:
            path, headers = choose.choice(["/v1/release", "/v1/release", "/v1/ask"]), dict[str, str]()
            given = self.body() | ({"units": []} if path == "/v1/ask" else {})
            body = json.dumps(given).encode()
            if choose.random() < 0.05:
                spot = choose.randrange(len(body))
                body = (
                    body[:spot]
                    + choose.randbytes(choose.randrange(1, 4))
                    + body[spot + choose.randrange(3) :]
                )
            if choose.random() < 0.1:
                name = choose.choice(["accept", "content-type", "accept-encoding", "x-y", "range", "cookie"])
                headers[name] = choose.choice(
                    ["", "text/csv", "*/*", "application/json;q=0", "\t", "é" * 9, "a" * 999]
                )
            yield path, body, headers


BOUNDED = {"lower": 0, "upper": 5}
KEYS: dict[str, list[Any]] = {
    "year": [None, "private", [2020, 2021], [2020, 4217, None]],
    "town": [None, "private", ["Ulm", "Bonn"], ["", "Ulm"]],
    "flag": ["private", [True, False], [None]],
    "n": [[0, 1, 2**62], "private"],
}
CHAIN_COLUMNS = ["v", "n", "town", "year", "seconds", "flag"]


def asks(name: str, *args: Any, **named: Any) -> dict[str, Any]:
    """Return an aggregate as it is sent."""
    return {"asks": name, "args": list(args), "named": named}


class ChainFuzz:
    """Bodies of requests without end, chosen by a seed; of the same tables.

    Args:
        random: chooses.
    """

    def __init__(self, random: random.Random) -> None:
        self.random, self._sql = random, Fuzz(random, [])

    def _part(self, kind: str = "n") -> str:
        return self._sql.part(self.random.randrange(3), kind)

    def _step(self, name: str) -> list[Any]:
        """Return a call that makes a table of a table."""
        choose = self.random
        match name:
            case "filter":
                return ["filter", [self._part("c")], {}]
            case "with_columns":
                of, kind = choose.choice(
                    [("v", "n"), ("n", "n"), ("town", "t"), ("seconds", "d"), ("w", "n")]
                )
                return ["with_columns", [], {of: self._part(kind)}]
            case "public":
                made = [["filter", ["region <> 'e'"], {}]] * choose.randrange(2)
                how = choose.choice(["inner", "left"])
                return ["join", [{"public": "towns", "calls": made}], {"on": "town", "how": how}]
            case "people":
                made = [
                    ["per_unit", [], {"m": choose.choice(["count(*)", f"max({self._part()})", "min(n)"])}]
                ]
                given = {"on": {"dict": [["id", "id"]]}, "rows": 1 + choose.randrange(3)}
                return ["join", [{"table": "people", "calls": made}], given]
            case "union":
                return ["union", [{"table": "visits", "calls": [self._step("filter")]}], {}]
            case "per_unit":
                made = {
                    "v": f"max({self._part()})",
                    "n": "count(*)",
                    "town": "min(town)",
                    "year": "max(year)",
                }
                return ["per_unit", [], made | {"seconds": "max(seconds)", "flag": "bool_or(flag)"}]
        columns = f"id, {self._part()} AS v, town, year, n, seconds, flag"
        return ["sql", [f"SELECT {columns} FROM self WHERE {self._part('c')}"], {}]

    def _aggregate(self) -> dict[str, Any]:
        """Return an aggregate, of a column that has numbers."""
        column = self.random.choice(["v", "v", "n"])
        return self.random.choice(
            [
                asks("count"), asks("count_units"), asks("count", column), asks("sum", column, **BOUNDED), asks("mean", column, **BOUNDED),
                asks("sum", column, **BOUNDED, per="row"), asks("variance", column, **BOUNDED), asks("stddev", column, lower=0, upper=1e3),
                asks("median", column, lower=0, upper=9), asks("quantiles", column, [0.1, {"fraction": "1/2"}], lower=0, upper=100),
                asks("max", column, **BOUNDED), asks("count_distinct", self.random.choice(CHAIN_COLUMNS), values=2),
                asks("histogram", column, [0, 1, 5, {"float": "inf"}]), asks("value_counts", "town", ["Ulm", "x"], other=True),
                asks("proportion", column, **BOUNDED), asks("min", column, lower={"decimal": "0.5"}, upper={"fraction": "7/2"}),
                asks("covariance", "v", "n", bounds={"dict": [["v", {"tuple": [0, 5]}], ["n", {"tuple": [0, 9]}]]}),
            ]
        )  # fmt: skip

    def chain(self) -> dict[str, Any]:
        """Return a chain that could be right."""
        choose = self.random
        names = [
            "filter",
            "filter",
            "with_columns",
            "with_columns",
            "public",
            "people",
            "union",
            "per_unit",
            "sql",
        ]
        calls = [self._step(name) for name in choose.sample(names, choose.randrange(4))]
        if choose.random() < 0.1:
            named = {"k": 1 + choose.randrange(3), "by": choose.choice([None, asks("sum", "v", **BOUNDED)])}
            calls.append(["top", [choose.choice(["town", "year"])], named])
            return {"table": "visits", "calls": calls}
        keys = choose.sample(sorted(KEYS), choose.choice([0, 1, 1, 1, 2]))
        if keys:
            given = choose.choice(KEYS[keys[0]]) if len(keys) == 1 else "private"
            calls.append(["group_by", keys, {"keys": given}])
        bounds = {"groups": 1 + choose.randrange(3), "rows": 1 + choose.randrange(3)}
        calls.append(["bound", [], dict(choose.sample(sorted(bounds.items()), 2)) if keys else {"rows": 2}])
        names = choose.sample(["a", "b", "c", "été"], choose.choice([1, 1, 2, 3]))
        calls.append(["agg", [], {name: self._aggregate() for name in names}])
        if choose.random() < 0.1:
            calls.append(["weigh", [], {names[0]: choose.choice([2, {"fraction": "1/3"}, 0, 1e9])}])
        return {"table": "visits", "calls": calls}

    def options(self) -> dict[str, Any]:
        """Return options of a release, mostly of one that can be made."""
        choose = self.random
        if choose.random() < 0.06:
            return dict(choose.choice(OPTIONS))
        found: dict[str, Any] = {"epsilon": choose.choice([1, "0.5", 3.0, {"fraction": "1/3"}])}
        if choose.random() < 0.8:
            found["delta"] = "1e-18"
        if choose.random() < 0.2:
            found["noise"] = choose.choice(["laplace", "gaussian", "auto", "k_norm"])
        if choose.random() < 0.1:
            name = choose.choice(["group_selection", "pre_threshold", "diagnostics", "auto_share", "counts"])
            found[name] = choose.choice(["laplace", 3, {"fraction": "1/20"}, False, "auto"])
        return found

    def change(self, data: Any) -> None:
        """Change something somewhere in what JSON has: a value is another one, twice there, or gone."""
        choose, places = self.random, list(_places(data))
        if not places:
            return
        of, key = choose.choice(places)
        match choose.randrange(8):
            case 0:
                del of[key]
            case 1 if isinstance(of, list):
                of.insert(key, copy.deepcopy(of[key]))
            case 2:
                of[key] = copy.deepcopy(choose.choice(ODD))
            case 3:
                other, there = choose.choice(places)
                if there in other if isinstance(other, dict) else there < len(other):
                    of[key] = copy.deepcopy(other[there])
            case 4:
                of[key] = choose.choice([*COLUMNS, *NAMES, *CHAIN_COLUMNS])
            case 5:
                of[key] = self._part(choose.choice("ntdc"))
            case 6 if isinstance(of, dict):
                of[choose.choice([*NAMES, "lower", "rows", "keys", "on", "expression"])] = of.pop(key)
            case _:
                of[key] = copy.deepcopy(choose.choice(BODIES))

    def body(self) -> dict[str, Any]:
        """Return the body of a question, mostly one that is right."""
        found = {"chain": self.chain(), "options": self.options()}
        if self.random.random() < 0.4:
            for _ in range(self.random.randrange(1, 4)):
                self.change(found)
        return found

    def requests(self) -> Iterator[tuple[str, bytes, dict[str, str]]]:
        """Give paths, bodies and headers of questions without end."""
        while True:
            path = self.random.choice(["/v1/release", "/v1/release", "/v1/ask"])
            body = self.body() | ({"units": []} if path == "/v1/ask" else {})
            yield path, json.dumps(body).encode(), {}


def _places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Give the lists and objects in what JSON has, with each key of theirs."""
    if isinstance(data, (list, dict)):
        for key, one in list(enumerate(data) if isinstance(data, list) else data.items()):
            yield data, key
            yield from _places(one)


def pair(folder):
    """Return two services, whose tables differ in that person."""
    for name in ("odd", "ordinary"):
        (folder / name).mkdir()
    return service_of(folder / "odd", odd=True), service_of(folder / "ordinary", odd=False)


def fuzzed(services, requests, count):
    """Send so many requests to two services; return how often there was each status, and what is wrong."""
    seen, wrong = Counter(), list[str]()
    for path, body, headers in islice(requests, count):
        sent = [(name.encode(), value.encode()) for name, value in headers.items()]
        answers = []
        for one in services:
            given = [(b"authorization", one.headers()["authorization"].encode())]
            given += [(b"content-type", b"application/json")] if "content-type" not in headers else []
            answers.append(one.http.post(path, content=body, headers=given + sent))
        seen[answers[0].status_code] += 1
        if told := difference(*answers, body.decode("utf-8", "replace")):
            wrong.append(f"{told}\n  {path} {headers} {body!r}")
    return seen, wrong


def requests_of(kind, seed, folder):
    draw = random.Random(seed)
    return Fuzz(draw, texts(folder)).requests() if kind == "sql" else ChainFuzz(draw).requests()


@pytest.mark.parametrize("kind", ["sql", "chains"])
@pytest.mark.parametrize("usual", [60, pytest.param(600, marks=pytest.mark.release)])
def test_requests_that_nobody_would_write(tmp_path, kind, usual):
    count, seed = (int(os.environ.get(name, given)) for name, given in (("FUZZ", usual), ("FUZZ_SEED", 1)))
    seen, wrong = fuzzed(pair(tmp_path), requests_of(kind, seed, tmp_path), count)
    assert not wrong, (seed, len(wrong), wrong[0])
    assert seen[200] > 0.05 * seen.total() and seen[400] > 0.2 * seen.total()


@pytest.mark.parametrize(("kind", "word"), [("sql", "v"), ("chains", "filter")])
def test_a_service_that_refuses_what_an_odd_row_does_not_fit_is_found(tmp_path, monkeypatch, kind, word):
    answer = QueryService.answer

    def planted(desk, job):
        rows = desk.catalog.tables["visits"].source
        if word in job.text and len(rows) > MANY:  # as a cast that fails on one row would
            return refused(QueryError("no such number"), 400)
        return answer(desk, job)

    monkeypatch.setattr(QueryService, "answer", planted)
    _, wrong = fuzzed(pair(tmp_path), requests_of(kind, 1, tmp_path), 30)
    assert "statuses 400 and 200" in "".join(wrong)
