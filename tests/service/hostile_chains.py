"""Chains of calls of those who want a row, a file, code to run, or all of the memory."""

from __future__ import annotations

import itertools
from typing import Any

COUNT: dict[str, Any] = {"asks": "count_units", "args": [], "named": {}}
ASK = ["agg", [], {"n": COUNT}]
GOOD: dict[str, Any] = {"table": "visits", "calls": [ASK]}
NAMES = [
    "__class__", "__init__", "__dict__", "__reduce__", "__getattr__", "__call__", "__init_subclass__", "_part", "_combined", "_with_step",
    "_check_rows_alone", "engine", "unit", "schema", "notes", "analyze", "diagnose", "release", "plan", "preview", "epsilon_for", "dummy",
    "for_analysts", "to_arrow", "query", "_checked_plan", "table", "of_rows", "statistics", "contributions", "open", "eval", "exec", "system",
    "filter.__globals__", "filter\x00", "FILTER", " filter", "filter ", "agg;release", "", "where", "select", "sql2", "connect", "read_csv",
]  # fmt: skip
FUNCTIONS = [
    "__import__", "eval", "open", "scan", "public", "catalog", "sql", "check", "advise", "Budget", "Ledger", "Sum", "CountRows", "stratified",
    "Aggregate", "replace", "bool", "type", "os.system", "count_units.__globals__", "remembered", "helpful", "audit", "AUTO",
]  # fmt: skip
ODD: list[Any] = [
    None, True, 0, -1, 1.5, 10**299, 10**301, "", "x", "\x00", "\ud800", "é" * 500, "x" * 20_000, [], {}, [[]], [None], [1, "a"], {"a": 1},
    {"tuple": []}, {"tuple": [1, 2]}, {"dict": []}, {"dict": [["a", 1]]}, {"dict": [[[1], 1]]}, {"dict": [[1]]}, {"dict": {"a": 1}},
    {"fraction": "1/3"}, {"fraction": "1/0"}, {"fraction": "1e999999999"}, {"fraction": "9" * 301 + "/1"}, {"fraction": 1},
    {"decimal": "1E+999"}, {"decimal": "1e999999999"}, {"decimal": "NaN"}, {"decimal": "sNaN"}, {"decimal": "x"}, {"float": "nan"},
    {"float": "-inf"}, {"float": "x"}, {"float": 1}, {"date": "2024-02-30"}, {"date": "9999-12-31"}, {"date": "x" * 999}, {"datetime": "x"},
    {"datetime": "2024-01-01T00:00:00+99:00"}, {"time": "25:00"}, {"bytes": "0"}, {"bytes": "00ff"}, {"set": [1]}, {"asks": "count"},
    {"asks": "count", "args": {}, "named": {}}, {"asks": ["count"], "args": [], "named": {}}, COUNT, {"table": "people", "calls": []},
    {"public": "towns", "calls": []}, {"public": "visits", "calls": []}, {"table": "towns", "calls": []}, {"table": "/etc/passwd", "calls": []},
    {"table": "visits", "public": "towns", "calls": []}, {"calls": []}, {"table": {"table": "visits"}, "calls": []}, GOOD,
    {"__class__": "os.system"}, {"py/object": "os.system"}, {"$ref": "#/x"}, {"path": "/etc/passwd"}, {"engine": "duckdb"}, {"file": "x.csv"},
]  # fmt: skip
METHODS = [
    "filter",
    "with_columns",
    "join",
    "union",
    "per_unit",
    "sql",
    "group_by",
    "totals",
    "bound",
    "top",
    "weigh",
]
OPTIONS: list[dict[str, Any]] = [
    {}, {"epsilon": None}, {"epsilon": 0}, {"epsilon": -1}, {"epsilon": "1e999999999"}, {"epsilon": "1e-999999999"}, {"epsilon": {"float": "nan"}},
    {"epsilon": [1]}, {"epsilon": COUNT}, {"epsilon": GOOD}, {"epsilon": True}, {"epsilon": 1, "delta": 2}, {"epsilon": 1, "delta": "x"},
    {"epsilon": 1, "noise": "none"}, {"epsilon": 1, "noise": ["laplace"]}, {"epsilon": 1, "noise": "gaussian"}, {"epsilon": 1, "budget": 3},
    {"epsilon": 1, "share": 0.5}, {"epsilon": 1, "unsafe_words": 1}, {"epsilon": 1, "confidence": 0.5}, {"epsilon": 1, "seed": 1},
    {"epsilon": 1, "diagnostics": 2}, {"epsilon": 1, "diagnostics": "x"}, {"epsilon": 1, "pre_threshold": -1}, {"epsilon": 1, "pay": 1},
    {"epsilon": 1, "group_selection": "none"}, {"epsilon": 1, "counts": False}, {"epsilon": 1, "self": 1}, {"epsilon": 1, "": 1},
    {"epsilon": 1, "analyst": "bob"}, {"epsilon": 1, "\ud800": 1}, {"epsilon": 1, "__class__": 1}, {"epsilon": {"fraction": "1/0"}},
]  # fmt: skip
FILES = [
    "'/etc/passwd'",
    "read_text('/etc/passwd')",
    "'tokens.db/tokens'",
    "getenv('HOME')",
    "(SELECT max(town) FROM visits)",
    "error(town)",
]


def nested(depth: int) -> Any:
    made: Any = 1
    for _ in range(depth):
        made = [made]
    return made


def joined(count: int) -> Any:
    join = ["join", [{"public": "towns", "calls": []}], {"on": "town"}]
    return {"table": "visits", "calls": [*[join] * count, ASK]}


def inside(depth: int) -> Any:
    made: Any = {"table": "people", "calls": []}
    for _ in range(depth):
        made = {"table": "people", "calls": [["union", [made], {}]]}
    return {"table": "people", "calls": [*made["calls"], ASK]}


def calls() -> list[Any]:
    """Calls of which each is wrong somewhere, or asks for what is not to be had."""
    found: list[Any] = [[name, [], {}] for name in NAMES]
    found += [["agg", [], {"n": {"asks": name, "args": [], "named": {}}}] for name in FUNCTIONS]
    found += [[method, [odd], {}] for method, odd in itertools.product(METHODS, ODD[::3])]
    found += [["agg", [], {"n": odd}] for odd in ODD]
    found += [["group_by", ["year"], {"keys": odd}] for odd in ODD]
    found += [
        ["bound", [], {name: odd}]
        for name, odd in itertools.product(("groups", "rows", "total_rows", "beyond"), ODD[::5])
    ]
    found += [
        ["agg", [], {"n": {"asks": asks, "args": [odd], "named": {"lower": 0, "upper": 1}}}]
        for asks, odd in itertools.product(
            ("sum", "median", "quantiles", "cumulative", "histogram", "count_distinct"), ODD[::4]
        )
    ]
    found += [
        ["agg", [], {"n": {"asks": "mean", "args": ["v"], "named": {"lower": odd, "upper": 2}}}]
        for odd in ODD
    ]
    found += [["join", [{"public": "towns", "calls": []}], {"on": odd}] for odd in ODD]
    found += [["sql", [f"SELECT id, {file} AS x FROM self"], {}] for file in FILES]
    found += [["sql", [f"SELECT id FROM {file}"], {}] for file in FILES]
    found += [["filter", [file], {}] for file in FILES] + [
        ["with_columns", [], {"x": file}] for file in FILES
    ]
    found += [["sql", ["SELECT * FROM t"], {"tables": {"dict": [["t", odd]]}}] for odd in ODD[::4]]
    found += [
        ["filter", ["v > 1"], {"\ud800": 1}],
        ["filter", ["v > 1"], {"expression": "v > 1"}],
        ["agg", [COUNT], {}],
    ]
    found += [
        [1, [], {}],
        ["agg"],
        ["agg", {}, []],
        ["agg", [], {}, 1],
        "agg",
        None,
        5,
        [["agg"], [], {}],
        {"agg": []},
    ]
    return found


def bodies() -> list[dict[str, Any]]:
    """Bodies of requests."""
    one = {"epsilon": 1}
    found = [{"chain": {"table": "visits", "calls": [call, ASK]}, "options": one} for call in calls()]
    found += [{"chain": GOOD, "options": options} for options in OPTIONS]
    found += [{"chain": odd, "options": one} for odd in ODD] + [
        {"chain": GOOD, "options": odd} for odd in ODD
    ]
    found += [
        {"chain": {kind: name, "calls": [ASK]}, "options": one}
        for kind in ("table", "public", "file")
        for name in ODD[:20]
    ]
    found += [
        {"chain": {"table": name, "calls": [ASK]}, "options": one}
        for name in ("'x.csv'", "tokens.db/tokens", "bob", "VISITS", "visits\x00")
    ]
    found += [{"chain": joined(n), "options": one} for n in (1, 19, 21, 300)]
    found += [{"chain": inside(n), "options": one} for n in (2, 5, 15, 40)]
    found += [
        {"chain": {"table": "visits", "calls": [["filter", ["v > 1"], {}]] * n + [ASK]}, "options": one}
        for n in (50, 201, 3000)
    ]
    found += [
        {
            "chain": {"table": "visits", "calls": [["group_by", ["year"], {"keys": nested(n)}], ASK]},
            "options": one,
        }
        for n in (2, 12, 14, 70, 300)
    ]
    found += [
        {
            "chain": {"table": "visits", "calls": [["group_by", ["v"], {"keys": list(range(n))}], ASK]},
            "options": one,
        }
        for n in (10_000, 30_000)
    ]
    found += [
        {"chain": {"table": "visits", "calls": []}, "options": one},
        {"chain": {"public": "towns", "calls": []}, "options": one},
        {"chain": {"table": "visits", "calls": [ASK, ASK]}, "options": one},
        {"chain": {"table": "visits", "calls": [["top", ["town"], {"k": 10**6}]]}, "options": one},
        {"chain": {"table": "visits", "calls": [["top", ["town"], {"k": 1, "by": COUNT}]]}, "options": one},
        {"chain": GOOD, "options": one, "sql": "SELECT 1"},
        {"options": one},
        {"chain": GOOD},
    ]
    return found
