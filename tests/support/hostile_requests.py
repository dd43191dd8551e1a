"""Requests to a service by somebody who wants a row, a file, code to run, or all of the memory."""

import itertools
import re
from pathlib import Path
from typing import Any

from tests.support.service import NUMBER, QUERY, SECRET
from tests.support.verdicts import verdicts

DP = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-18{})"
OTHERS = "bobs_own_question"
# What no answer holds: the code's places, its errors, a row, a file, and another analyst.
NEVER = (
    *("Traceback", 'File "', "site-packages", "/sfumato/", "plantedfile"),
    *(SECRET, str(NUMBER), OTHERS, "bob"),
)


def of_dialect() -> list[str]:
    """The texts that tests of SQL have as refused, and all that are hostile: those of issue 12 among them."""
    inside = [text for _, text in verdicts("inside.txt", "refused")]
    found = [f"{DP.format('')} COUNT(*) AS n FROM ({text}) AS t" for text in inside]
    found += [re.sub("[«»]", "", text) for _, text in verdicts("outside.txt", "refused")]
    options = ", privacy_unit_column = id, max_groups_contributed = 3, max_rows_per_group = 3"
    words = {"@DP": DP.format(options), "@TR": DP.format(options), "@PG": DP.format(options)}
    words |= {
        "@G": ", contribution_bounds_per_group => (0, 1000)",
        "@R": ", contribution_bounds_per_row => (0, 1)",
    }
    for short, long in words.items():
        found = [text.replace(short, long) for text in found]
    return found


def of_files(folder: Path) -> list[str]:
    """Texts that name a file that is there, or what reads one."""
    file = folder / "planted.csv"
    file.write_text("id,v\n1,plantedfile\n2,plantedfile\n")
    sources = [
        f"'{file}'", f'"{file}"', f"`{file}`", f"read_csv('{file}')", f"read_csv_auto('{file}')", f"read_text('{file}')",
        f"read_blob('{file}')", f"glob('{folder}/*')", f"sniff_csv('{file}')", f"'file://{file}'", "'/etc/passwd'",
        "read_text('/etc/passwd')", "read_json('/proc/self/environ')", "'https://127.0.0.1:1/x.parquet'",
        "'s3://bucket/x.parquet'", "'http://127.0.0.1:1/x.csv'", "sqlite_scan('tokens.db', 'tokens')",
        "'tokens.db/tokens'", f"'{folder}/tokens.db/tokens'", "'budget.db/entries'", "postgres_scan('', 'a', 'b')",
        "'postgresql://ann:secret@localhost/shop/orders'", "information_schema.tables", "duckdb_settings()",
        "duckdb_secrets()", "pragma_table_info('visits')", "sqlite_master", "duckdb_tables()", "range(10)",
        "generate_series(1, 10)", "unnest([1])", "(VALUES (1))", "query('SELECT 1')", "query_table('visits')",
        "visits TABLESAMPLE 1%", "visits, visits", "parquet_metadata('x')", "read_parquet('rwm5yr.parquet')",
        "main.visits", "memory.main.visits", "temp.visits", "system.main.visits", "visits@1", "'visits'", "VISITS",
        "catalog.visits", "nobody", "''", "\"\"", "'visits.csv'", "delta_scan('x')", "st_read('x')", "'\\\\host\\x.csv'",
    ]  # fmt: skip
    options = ["", ", privacy_unit_column = id"]
    around = [
        "SELECT * FROM {0}",
        "COPY {0} TO '/tmp/x.csv'",
        "ATTACH {0}",
        "SELECT n, (SELECT max(v) FROM {0}) FROM (@) AS t",
    ]
    inner = f"{DP.format('')} COUNT(*) AS n FROM visits"
    found = [
        f"{DP.format(one)} COUNT(*) AS n FROM {source}" for source, one in itertools.product(sources, options)
    ]
    return found + [text.format(source).replace("@", inner) for source in sources for text in around]


STATEMENTS = [
    "", " ", ";", "--", "/*", "'", '"', "SELECT", "SELECT 1", "DROP TABLE visits", "INSTALL httpfs", "LOAD httpfs",
    "PRAGMA database_list", "SET enable_external_access = true", "EXPLAIN SELECT * FROM visits", "DESCRIBE visits",
    "SHOW TABLES", "SUMMARIZE visits", "CREATE TABLE x AS SELECT * FROM visits", "INSERT INTO visits VALUES (1)",
    "EXPORT DATABASE '/tmp/x'", "CALL pragma_version()", "VACUUM", "CHECKPOINT", "FROM visits", "TABLE visits",
    "PIVOT visits ON year USING count(*)", "BEGIN; SELECT 1", "SELECT getenv('HOME')", "SELECT current_setting('home')",
    QUERY + "; SELECT * FROM visits", QUERY + ";;", QUERY + " UNION ALL SELECT * FROM visits",
    QUERY + " -- \x00", "\x00", "\ud800", "\u202e" + QUERY, "S\u0000ELECT", "ſELECT * FROM visits",
    "(" * 5000, "SELECT " + "-" * 5000 + "1", "SELECT " + "(SELECT " * 2000, "WITH a AS (" * 50, "'" * 9999, "x" * 100_000,
]  # fmt: skip
SQL_COLUMNS = [
    "MAX(town)", "MIN(town)", "ANY_VALUE(town)", "LIST(town)", "STRING_AGG(town)", "FIRST(town)", "ARG_MAX(town, id)",
    "town", "id, COUNT(*)", "SUM(income)", "SUM(CASE WHEN id = 7 THEN 1/0 ELSE 0 END)", "MEDIAN(income)",
    "SUM(error(town))", "SUM(CAST(town AS INT))", "COUNT(*) FILTER (WHERE getenv('HOME') = 'x')", "COUNT(DISTINCT town)",
    "MAX(getvariable('x'))", "SUM(length(read_text('/etc/passwd')))", "SUM(txid_current())", "APPROX_COUNT_DISTINCT(town)",
    "MODE(town)", "HISTOGRAM(town)", "SUM(random())", "SUM(setseed(0.5))", "COUNT(*) OVER ()", "ENTROPY(town)", "*",
    "SQL_COLUMNS(*)", "visits", "row(town)", "APPROX_TOP_K(town, 3)", "PRODUCT(income)", "BIT_XOR(id)", "SUM(hash(town))",
    "COUNT(*) + (SELECT max(income) FROM visits)", "QUANTILES(income, [0, 1])", "VAR_POP(income)", "rowid, COUNT(*)",
]  # fmt: skip
SQL_OPTIONS = [
    "seed = 1", "unsafe_words = 1", "random_seed = 0", "epsilon = 0", "epsilon = -1", "epsilon = 1e400", "epsilon = NULL",
    "epsilon = 'a'", "epsilon = 1/0", "delta = 2", "noise = none", "noise = 'none'", "noise = zero", "analyze = true",
    "max_groups_contributed = 1000000", "max_rows_per_group = 1000", "types = 'id INT'", "multiline = true",
    "privacy_unit_column = town", "privacy_unit_column = year", "privacy_unit_column = [id, year]", "budget = 5",
    "diagnostics = 1", "diagnostics = 0.5", "group_selection_strategy = NONE", "min_privacy_units_per_group = 0",
    "confidence = 2", "file = '/etc/passwd'", "rows = all", "epsilon = 1, epsilon = 1", "unit_timezone = '../../etc'",
    "memory_limit = '1GB'", "threads = 99", "temp_directory = '/'", "catalog = 'x'", "analyst = 'bob'",
]  # fmt: skip


def texts(folder: Path) -> list[str]:
    columns = [f"{DP.format('')} {column} AS c FROM visits" for column in SQL_COLUMNS]
    grouped = [f"{DP.format('')} town, {column} FROM visits GROUP BY town" for column in SQL_COLUMNS]
    options = [f"{DP.format(', ' + option)} COUNT(*) AS n FROM visits" for option in SQL_OPTIONS]
    return [*of_dialect(), *of_files(folder), *STATEMENTS, *columns, *grouped, *options]


# Chains of calls.

COUNT: dict[str, Any] = {"asks": "count_units", "args": [], "named": {}}
ASK = ["agg", [], {"n": COUNT}]
GOOD: dict[str, Any] = {"table": "visits", "calls": [ASK]}
NAMES = [
    "__class__", "__init__", "__dict__", "__reduce__", "__getattr__", "__call__", "__init_subclass__", "_part", "_combine", "_with_step",
    "_check_ungrouped", "engine", "unit", "schema", "notes", "analyze", "diagnose", "release", "plan", "preview", "epsilon_for", "dummy",
    "for_analysts", "to_arrow", "query", "_check_plan", "table", "with_rows", "statistics", "contributions", "open", "eval", "exec", "system",
    "filter.__globals__", "filter\x00", "FILTER", " filter", "filter ", "agg;release", "", "where", "select", "sql2", "connect", "read_csv",
]  # fmt: skip
FUNCTIONS = [
    "__import__", "eval", "open", "scan", "public", "catalog", "sql", "check", "advise", "Budget", "Ledger", "Sum", "CountRows", "stratified",
    "Aggregate", "replace", "bool", "type", "os.system", "count_units.__globals__", "remembered", "suggest_arguments", "audit", "AUTO",
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


def inside(depth: int) -> list[Any]:
    """Calls on a table of people, that put tables under tables."""
    made: list[Any] = []
    for _ in range(depth):
        made = [["union", [{"table": "people", "calls": made}], {}]]
    return made


TOWNS = {"public": "towns", "calls": []}


def calls() -> list[Any]:
    """Calls of which each is wrong somewhere, or asks for what is not to be had."""
    found: list[Any] = [[name, [], {}] for name in NAMES]
    found += [["agg", [], {"n": {"asks": name, "args": [], "named": {}}}] for name in FUNCTIONS]
    found += [[method, [odd], {}] for method, odd in itertools.product(METHODS, ODD[::3])]
    for odd in ODD:
        mean = {"asks": "mean", "args": ["v"], "named": {"lower": odd, "upper": 2}}
        found += [["agg", [], {"n": odd}], ["group_by", ["year"], {"keys": odd}], ["agg", [], {"n": mean}]]
        found += [["join", [TOWNS], {"on": odd}]]
    limits = ("groups", "rows", "total_rows", "beyond")
    found += [["bound", [], {name: odd}] for name, odd in itertools.product(limits, ODD[::5])]
    asked = ("sum", "median", "quantiles", "cumulative", "histogram", "count_distinct")
    found += [
        ["agg", [], {"n": {"asks": asks, "args": [odd], "named": {"lower": 0, "upper": 1}}}]
        for asks, odd in itertools.product(asked, ODD[::4])
    ]
    for file in FILES:
        found += [["sql", [f"SELECT id, {file} AS x FROM self"], {}], ["sql", [f"SELECT id FROM {file}"], {}]]
        found += [["filter", [file], {}], ["with_columns", [], {"x": file}]]
    found += [["sql", ["SELECT * FROM t"], {"tables": {"dict": [["t", odd]]}}] for odd in ODD[::4]]
    found += [
        ["filter", ["v > 1"], {"\ud800": 1}],
        ["agg", [COUNT], {}],
        [1, [], {}],
        ["agg"],
        ["agg", {}, []],
    ]
    return [*found, ["agg", [], {}, 1], "agg", None, 5, [["agg"], [], {}], {"agg": []}]


def bodies() -> list[dict[str, Any]]:
    """Bodies of requests."""
    filtered, joined = ["filter", ["v > 1"], {}], ["join", [TOWNS], {"on": "town"}]
    of_visits = [[call, ASK] for call in calls()] + [[joined] * n + [ASK] for n in (1, 19, 21, 300)]
    of_visits += [[filtered] * n + [ASK] for n in (50, 201, 3000)]
    of_visits += [[["group_by", ["year"], {"keys": nested(n)}], ASK] for n in (2, 12, 14, 70, 300)]
    of_visits += [[["group_by", ["v"], {"keys": list(range(n))}], ASK] for n in (10_000, 30_000)]
    of_visits += [
        [],
        [ASK, ASK],
        [["top", ["town"], {"k": 10**6}]],
        [["top", ["town"], {"k": 1, "by": COUNT}]],
    ]
    chains: list[Any] = [{"table": "visits", "calls": calls} for calls in of_visits]
    chains += [{"table": "people", "calls": [*inside(n), ASK]} for n in (2, 5, 15, 40)]
    chains += [{kind: name, "calls": [ASK]} for kind in ("table", "public", "file") for name in ODD[:20]]
    names = ("'x.csv'", "tokens.db/tokens", "bob", "VISITS", "visits\x00")
    chains += [*({"table": name, "calls": [ASK]} for name in names), TOWNS, *ODD]
    found = [{"chain": chain, "options": {"epsilon": 1}} for chain in chains]
    found += [{"chain": GOOD, "options": options} for options in (*OPTIONS, *ODD)]
    return [*found, {"chain": GOOD, "sql": "SELECT 1"}, {"options": {"epsilon": 1}}, {"chain": GOOD}]
