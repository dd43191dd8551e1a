"""Requests that nobody would write do not stop the service, and do not show that one person's rows are odd.

    FUZZ=12000 FUZZ_SEED=2 SFUMATO_LONG=1 python -m pytest -m "long or release" -s tests/service/test_fuzz.py

Each goes to two services, whose tables differ in the rows of one person, and these are as odd as rows can be. Status, error,
cost and columns of the answers must be the same: else that person was seen.
"""

import json
import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from sfumato.errors import QueryError
from sfumato.service.query_service import QueryService, make_refusal
from tests.support.expressions import AWKWARD, CONSTANTS, EVERYWHERE, expression, rows
from tests.support.hostile_requests import texts
from tests.support.service import LocalService

from .test_chain import difference

pytestmark = [
    pytest.mark.long,
    pytest.mark.noise_cannot_matter("of a query answered twice it compares what noise is not in"),
]

DP = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-18)"
MANY = 300
PLAIN = {
    "bo": "true",
    "s": "abc",
    "t": "a",
    "d": "2020-02-29",
    "ts": "2020-02-29 12:34:56",
    "tz": "2020-01-01 00:00:00+00",
}
AGGREGATES = [
    "COUNT(*)", "COUNT({0})", "COUNT(DISTINCT {0}, contribution_bounds_per_group => (0, 2))",
    "SUM({0}, contribution_bounds_per_row => (0, 5))", "AVG({0}, contribution_bounds_per_row => (-1, 5))",
    "SUM({0}, contribution_bounds_per_group => (-10, 10))", "STDDEV({0}, contribution_bounds_per_row => (0, 1e3))",
    "APPROX_QUANTILES({0}, 4, contribution_bounds_per_row => (0, 100))", "MEDIAN({0}, contribution_bounds_per_row => (0, 9))",
]  # fmt: skip
BODIES: list[Any] = [None, True, 0, -1, 1e308, [], {}, "x", "", [1], {"a": 1}, 10**30, 0.5, "\x00", "é" * 50]
WORD = re.compile(r"\w+|'[^']*'|\"[^\"]*\"|\s+|.", re.DOTALL)


def visits(*, odd: bool) -> pa.Table:
    """Return rows of a hundred ordinary people, and perhaps those of one with every awkward value."""
    awkward, count = rows(EVERYWHERE, 24), MANY + 24 * odd
    ids = [i % 100 if i < MANY else 4217 for i in range(count)]
    columns = {n: [PLAIN.get(n, str(i % 7)) for i in range(MANY)] + awkward[n][1] * odd for n in EVERYWHERE}
    raw = pa.table({"id": ids} | {n: pa.array(values, pa.string()) for n, values in columns.items()})
    with duckdb.connect() as connection:
        connection.register("raw", raw)
        typed = ", ".join(f"CAST({n} AS {AWKWARD[n][0]}) AS {n}" for n in EVERYWHERE)
        return connection.sql(f"SELECT id, {typed} FROM raw").to_arrow_table()


class Fuzz:
    """Requests without end, chosen by a seed.

    Args:
        random: chooses.
        known: texts of SQL to change.
    """

    def __init__(self, random: random.Random, known: list[str]) -> None:
        self.random = random
        self.known = [WORD.findall(text) for text in known if len(text) < 2000]

    def part(self, depth: int) -> str:
        return expression(self.random, EVERYWHERE, depth)

    def question(self) -> str:
        """Return a text of SQL that could be right."""
        choose = self.random
        what = choose.choice(AGGREGATES).format(f"TRY_CAST({self.part(choose.randrange(3))} AS DOUBLE)")
        columns = ", ".join(EVERYWHERE[1:])
        source = choose.choice(
            [
                "visits", "visits", "visits JOIN towns USING (t)", "visits JOIN (SELECT id, a AS m FROM people) AS p USING (id)",
                f"(SELECT id, TRY_CAST({self.part(2)} AS BOOLEAN) AS bo, {columns} FROM visits) AS v",
            ]
        )  # fmt: skip
        key = choose.choice(["", "", "", "i", "s", "bo", f"{self.part(2)} AS k"])
        text = f"{DP} {key + ', ' if key else ''}{what} AS n FROM {source}"
        if choose.random() < 0.5:
            text += f" WHERE {choose.choice(['({}) IS NULL', '({}) = ({})', '{}']).format(self.part(2), self.part(1))}"
        return text + (f" GROUP BY {key.rpartition(' ')[2]}" if key else "")

    def changed(self) -> str:
        """Return a known text, or one that could be right, with some of its words changed."""
        choose = self.random
        words = list(choose.choice(self.known)) if choose.random() < 0.5 else WORD.findall(self.question())
        for _ in range(choose.randrange(1, 5)):
            other, i = choose.choice(self.known), choose.randrange(len(words) + 1)
            j, odd = choose.randrange(len(other) + 1), choose.choice([0, 10, 39, 34, 40, 0x202E, 0x1F600])
            piece = choose.choice(
                [[], words[i - 3 : i], other[j : j + choose.randrange(1, 12)], [choose.choice(CONSTANTS + EVERYWHERE)], [chr(odd)]]
            )  # fmt: skip
            words[i : i + choose.randrange(2)] = piece
        return "".join(words)[:5000]

    def requests(self) -> Iterator[tuple[str, bytes, dict[str, str]]]:
        """Give paths, bodies and headers of questions without end."""
        choose = self.random
        while True:
            path, headers = choose.choice(["/v1/release", "/v1/release", "/v1/ask"]), dict[str, str]()
            given: dict[str, Any] = {"sql": self.question() if choose.random() < 0.6 else self.changed()}
            given |= {"units": []} if path == "/v1/ask" else {}
            if choose.random() < 0.15:
                name = choose.choice(["sql", "confidence", "simultaneous", "dummy", "units", "x", "analyst"])
                given[name] = choose.choice(BODIES)
            body = json.dumps(given).encode()
            if choose.random() < 0.05:
                spot = choose.randrange(len(body))
                body = body[:spot] + choose.randbytes(choose.randrange(1, 4)) + body[spot:]
            if choose.random() < 0.1:
                name = choose.choice(["accept", "content-type", "accept-encoding", "x-y", "range", "cookie"])
                headers[name] = choose.choice(
                    ["", "text/csv", "*/*", "application/json;q=0", "\t", "a" * 999]
                )
            yield path, body, headers


def fuzzed(folder, seed, count):
    """Send so many requests to two services; return how often there was each status, and what is wrong."""
    services, seen, wrong = [], Counter(), list[str]()
    for name in ("odd", "ordinary"):
        (folder / name).mkdir()
        table = visits(odd=name == "odd")
        of = {"privacy_unit": "id", "max_groups": 3, "max_rows": 3}
        declared = {
            "visits": {"source": table, **of, "columns": {"i": {"domain": [0, 1, 2]}}},
            "people": {"source": table.select(["id", "s", "a"]), **of},
            "towns": {"source": pa.table({"t": ["a", "b"], "region": ["s", "w"]}), "public": True},
        }
        services.append(LocalService(folder / name, declared=declared, each=100))
    for path, body, headers in islice(Fuzz(random.Random(seed), texts(folder)).requests(), count):
        given = {"content-type": "application/json"} | headers
        answers = [one.http.post(path, content=body, headers=one.headers(**given)) for one in services]
        seen[answers[0].status_code] += 1
        if told := difference(*answers, body.decode("utf-8", "replace")):
            wrong.append(f"{told}\n  {path} {headers} {body!r}")
    return seen, wrong


@pytest.mark.parametrize("usual", [60, pytest.param(600, marks=pytest.mark.release)])
def test_requests_that_nobody_would_write(tmp_path, usual):
    count, seed = (int(os.environ.get(name, given)) for name, given in (("FUZZ", usual), ("FUZZ_SEED", 1)))
    seen, wrong = fuzzed(tmp_path, seed, count)
    assert not wrong, (seed, len(wrong), wrong[0])
    assert seen[200] > 0.05 * seen.total() and seen[400] > 0.2 * seen.total()


def test_a_service_that_refuses_what_an_odd_row_does_not_fit_is_found(tmp_path, monkeypatch):
    answer = QueryService.answer

    def planted(desk, job):
        if "x" in job.text and len(desk.catalog.tables["visits"].source) > MANY:  # as a cast that fails would
            return make_refusal(QueryError("no such number"), 400)
        return answer(desk, job)

    monkeypatch.setattr(QueryService, "answer", planted)
    _, wrong = fuzzed(tmp_path, 1, 30)
    assert "statuses 400 and 200" in "".join(wrong)
