"""Requests that nobody would write, made by changing ones that somebody would.

    FUZZ=12000 FUZZ_SEED=2 python -m pytest -m long -s tests/service/test_fuzz.py

Each question goes to two services, whose tables differ in the rows of one person, and these are as odd as rows can be. Then
status and error must be the same, as must be what it costs and which columns an answer has: else that person was seen.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from .asking import Asked
from .hostile import NEVER

DP = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-18)"
EXPECTED = {200, 400, 401, 402, 403, 404, 405, 406, 408, 413, 415, 429}
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
ODD: dict[str, list[Any]] = {
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
# Of an answer, and of what is told before it; hints follow from the noisy numbers.
SAME = ("columns", "keys", "spent", "explanation", "cost", "remaining", "previews", "notes", "confidence")
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


def asked(folder: Path, *, odd: bool) -> Asked:
    """Return a service of the tables, with that person or without."""
    rows = {name: ORDINARY[name] + (ODD[name] if odd else []) for name in COLUMNS}
    table = pa.table({name: pa.array(rows[name], kind) for name, kind in TYPES})
    declared = {
        "visits": {
            "source": table, "privacy_unit": "id", "max_groups": 3, "max_rows": 3,
            "columns": {"v": {"lower": 0, "upper": 20}, "year": {"domain": [2020, 2021, 2022]}},
        },
        "people": {"source": table.select(["id", "town", "n"]), "privacy_unit": "id", "max_groups": 1, "max_rows": 1},
        "towns": {"source": pa.table({"town": ["Ulm", "Bonn"], "region": ["s", "w"]}), "public": True},
    }  # fmt: skip
    return Asked(folder, declared=declared, each=100)


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


def difference(one: Any, other: Any, text: str) -> str:
    """Return what is wrong with two answers; nothing where all is well."""
    for answer in (one, other):
        shown = answer.content.decode("utf-8", "replace")
        if answer.status_code not in EXPECTED:
            return f"status {answer.status_code}"
        found = [never for never in NEVER if never in shown and never not in text]
        if found:
            return f"it shows {found}"
    if one.status_code != other.status_code:
        return f"statuses {one.status_code} and {other.status_code}: {one.text[:300]} / {other.text[:300]}"
    if one.status_code != 200:
        return "" if one.text == other.text else f"errors {one.text[:300]} / {other.text[:300]}"
    if not one.headers["content-type"].startswith("application/json"):
        return "" if one.headers["content-type"] == other.headers["content-type"] else "media"
    first, second = one.json(), other.json()
    for name in SAME:
        if first.get(name) != second.get(name):
            return f"{name}: {str(first.get(name))[:300]} / {str(second.get(name))[:300]}"
    return ""


def pair(folder: Path) -> tuple[Asked, Asked]:
    """Return two services, whose tables differ in that person."""
    for name in ("odd", "ordinary"):
        (folder / name).mkdir()
    return asked(folder / "odd", odd=True), asked(folder / "ordinary", odd=False)


def fuzzed(
    services: tuple[Asked, Asked],
    requests: Iterator[tuple[str, bytes, dict[str, str]]],
    count: int,
    tell: Callable[[str], None],
) -> Counter[int]:
    """Ask two services so many requests, and tell what is wrong, with the request.

    Returns:
        How often there was each status.
    """
    seen = Counter[int]()
    for path, body, headers in islice(requests, count):
        sent = [(name.encode(), value.encode()) for name, value in headers.items()]
        answers = []
        for one in services:
            given = [(b"authorization", one.headers()["authorization"].encode())]
            given += [(b"content-type", b"application/json")] if "content-type" not in headers else []
            answers.append(one.http.post(path, content=body, headers=given + sent))
        seen[answers[0].status_code] += 1
        wrong = difference(*answers, body.decode("utf-8", "replace"))
        if wrong:
            tell(f"{wrong}\n  {path} {headers} {body!r}")
    return seen
