"""Texts of those who want a row, a file, or what others asked; and what no answer holds."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from .asking import NUMBER, QUESTION, SECRET

DIALECT = Path(__file__).parents[1] / "dialect"
DP = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-18{})"
OTHERS = "bobs_own_question"
# What no answer holds: the code's places, its errors, a row, a file, and another analyst.
NEVER = (
    "Traceback",
    'File "',
    "site-packages",
    "/sfumato/",
    SECRET,
    str(NUMBER),
    "plantedfile",
    OTHERS,
    "bob",
)


def of_dialect() -> list[str]:
    """The texts that tests of SQL have as refused, and all that are hostile: those of issue 12 among them."""
    found = []
    for path in sorted(DIALECT.glob("*.txt")):
        entries = re.findall(r"^== (.*)\n((?:(?!==|\n).*\n?)*)", path.read_text(), re.MULTILINE)
        kept = [text for verdict, text in entries if verdict.startswith("refused") or "hostile" in path.name]
        inside = path.name == "inside.txt"
        found += [f"{DP.format('')} COUNT(*) AS n FROM ({text}) AS t" if inside else text for text in kept]
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
    QUESTION + "; SELECT * FROM visits", QUESTION + ";;", QUESTION + " UNION ALL SELECT * FROM visits",
    QUESTION + " -- \x00", "\x00", "\ud800", "\u202e" + QUESTION, "S\u0000ELECT", "ſELECT * FROM visits",
    "(" * 5000, "SELECT " + "-" * 5000 + "1", "SELECT " + "(SELECT " * 2000, "WITH a AS (" * 50, "'" * 9999, "x" * 100_000,
]  # fmt: skip
COLUMNS = [
    "MAX(town)", "MIN(town)", "ANY_VALUE(town)", "LIST(town)", "STRING_AGG(town)", "FIRST(town)", "ARG_MAX(town, id)",
    "town", "id, COUNT(*)", "SUM(income)", "SUM(CASE WHEN id = 7 THEN 1/0 ELSE 0 END)", "MEDIAN(income)",
    "SUM(error(town))", "SUM(CAST(town AS INT))", "COUNT(*) FILTER (WHERE getenv('HOME') = 'x')", "COUNT(DISTINCT town)",
    "MAX(getvariable('x'))", "SUM(length(read_text('/etc/passwd')))", "SUM(txid_current())", "APPROX_COUNT_DISTINCT(town)",
    "MODE(town)", "HISTOGRAM(town)", "SUM(random())", "SUM(setseed(0.5))", "COUNT(*) OVER ()", "ENTROPY(town)", "*",
    "COLUMNS(*)", "visits", "row(town)", "APPROX_TOP_K(town, 3)", "PRODUCT(income)", "BIT_XOR(id)", "SUM(hash(town))",
    "COUNT(*) + (SELECT max(income) FROM visits)", "QUANTILES(income, [0, 1])", "VAR_POP(income)", "rowid, COUNT(*)",
]  # fmt: skip
OPTIONS = [
    "seed = 1", "unsafe_words = 1", "random_seed = 0", "epsilon = 0", "epsilon = -1", "epsilon = 1e400", "epsilon = NULL",
    "epsilon = 'a'", "epsilon = 1/0", "delta = 2", "noise = none", "noise = 'none'", "noise = zero", "analyze = true",
    "max_groups_contributed = 1000000", "max_rows_per_group = 1000", "types = 'id INT'", "multiline = true",
    "privacy_unit_column = town", "privacy_unit_column = year", "privacy_unit_column = [id, year]", "budget = 5",
    "diagnostics = 1", "diagnostics = 0.5", "group_selection_strategy = NONE", "min_privacy_units_per_group = 0",
    "confidence = 2", "file = '/etc/passwd'", "rows = all", "epsilon = 1, epsilon = 1", "unit_timezone = '../../etc'",
    "memory_limit = '1GB'", "threads = 99", "temp_directory = '/'", "catalog = 'x'", "analyst = 'bob'",
]  # fmt: skip


def texts(folder: Path) -> list[str]:
    columns = [f"{DP.format('')} {column} AS c FROM visits" for column in COLUMNS]
    grouped = [f"{DP.format('')} town, {column} FROM visits GROUP BY town" for column in COLUMNS]
    options = [f"{DP.format(', ' + option)} COUNT(*) AS n FROM visits" for option in OPTIONS]
    return [*of_dialect(), *of_files(folder), *STATEMENTS, *columns, *grouped, *options]
