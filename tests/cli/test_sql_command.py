"""`sfumato sql`: what it prints and writes, what it refuses before anything is charged, and its exit codes."""

import csv
import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sfumato import errors
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.release.release import Release
from tests.support.commands import OPTIONS, line, query, refused

COUNT = query("year, COUNT(*) AS n")
MANY = query("year, COUNT(*) AS n, AVG(visits, contribution_bounds_per_row => (0, 10)) AS mean_visits")
LARGEST = query("APPROX_TOP_COUNT(year, 2)", options=OPTIONS.rpartition(",")[0], groups=False)
RANKS = LARGEST.replace("2)", "2, counts => FALSE)")
pytestmark = pytest.mark.flakiness(k=30, because="noise of scale 3 or less against 900 people in each group")


def printed_numbers(text, name):
    """Read a column of the printed table back, without error bars."""
    lines = text.splitlines()
    header = next(i for i, one in enumerate(lines) if one.startswith("year") and name in one)
    place = re.split(r"\s{2,}", lines[header].strip()).index(name)
    rows = lines[header + 2 : header + 5]
    return [re.split(r"\s{2,}", row.strip())[place].split(" ±")[0].replace(",", "") for row in rows]


# What is printed and written.


def test_the_table_and_the_files_hold_the_same_numbers_drawn_once(visits, run, monkeypatch):
    draws, draw = [], Release._draw
    monkeypatch.setattr(Release, "_draw", lambda self: draws.append(self) or draw(self))
    Path("out.csv").symlink_to("visits.csv")  # a link is replaced, and not followed
    done = run("sql", MANY, "-oout.parquet", "-oout.csv", "-oout.json", "--errors", "--receipt", "r.json")
    assert done.exit_code == 0 and len(draws) == 1 and done.stderr == "", done.output
    assert re.search(r"^1984\s+\d+ ± \d+\s+\d\.\d+ ± 0\.\d+", done.stdout, re.MULTILINE)
    said = line(done.stdout)
    assert "epsilon 1000, delta 1e-06, for each id" in said and "3 shown, chosen privately" in said
    assert "covers the noise around statistics of the clamped values, not sampling error" in said
    assert "bias from contribution limits and bounds; --diagnostics estimates it." in said
    assert "Wrote out.parquet, out.csv, out.csv-metadata.json, out.json, " in said
    table = pq.read_table("out.parquet").to_pylist()
    assert table == [json.loads(text) for text in Path("out.json").read_text().splitlines()]
    with open("out.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["mean_visits"]) for row in rows] == [row["mean_visits"] for row in table]
    assert [str(row["n"]) for row in table] == printed_numbers(done.stdout, "n")
    for row, shown in zip(table, printed_numbers(done.stdout, "mean_visits"), strict=True):
        assert float(shown) == pytest.approx(
            row["mean_visits"], abs=0.51 * 10 ** -len(shown.partition(".")[2])
        )
        assert row["mean_visits_error"] > 0
    assert not Path("out.csv").is_symlink() and not Path("visits.csv").exists()


def test_keys_cannot_command_the_terminal_and_are_told_apart(visits, run):
    keys = r"CASE year WHEN 1984 THEN '' WHEN 1985 THEN 'NULL' END AS k, chr(27) || '[31m' || chr(10) || '[bold]x' AS odd"
    done = run("sql", query(f"{keys}, COUNT(*) AS n"))
    assert done.exit_code == 0 and r"\x1b[31m\n[bold]x" in done.stdout and "\x1b" not in done.stdout
    first = [text.split()[0] for text in done.stdout.splitlines() if "±" in text][:3]
    assert first == ["''", "NULL", "NULL"]


# Plans.


def test_a_dry_run_reads_no_row(visits, run, monkeypatch):
    monkeypatch.setattr(Release, "_draw", lambda self: pytest.fail("rows were read"))
    done = run("sql", MANY, "--dry-run", "-o", "out.parquet", "--plot", "out.png")
    assert done.exit_code == 0 and "How the answer is made" in done.stdout
    assert "nothing was spent" in done.stdout
    assert not Path("out.parquet").exists() and not Path("out.png").exists()


def test_a_sum_of_whole_numbers_is_printed_with_its_bar_and_null_where_no_group_is_shown(visits, run):
    none = COUNT.replace("epsilon = 1000, delta = 1e-6", "epsilon = 1e-4, delta = 1e-60")
    for text, printed in ((COUNT, "2,700 ± 0"), (none, "NULL")):
        done = run("sql", f"SELECT sum(n) AS s FROM ({text})")
        assert done.exit_code == 0 and done.stdout.split("\n")[3].strip() == printed, done.output


# Other queries.


CATALOG = """[tables.people]
source = "nowhere.csv"
privacy_unit = "id"
types = {id = "BIGINT", year = "BIGINT", visits = "DOUBLE"}
max_groups = 3
max_rows = 1
[tables.people.columns]
visits = {lower = 0, upper = 6}
year = {domain = [1984, 1985, 1986]}
"""


@pytest.mark.noise_cannot_matter("notes and files are looked at, no number")
def test_dummy_rows_of_a_catalog_are_no_release(visits, run):
    Path("catalog.toml").write_text(CATALOG)
    asked = query("year, AVG(visits) AS mean", source="people", options="epsilon = 1, delta = 1e-6")
    given = ("-c", "catalog.toml", asked, "-o", "a.csv", "--receipt", "r.json", "--explain")
    done = run("sql", "--dummy", *given)
    assert done.exit_code == 0 and "THESE ROWS ARE DUMMY ROWS" in line(done.stdout), done.output
    assert "spent NOTHING, as the rows are dummy rows; for real rows epsilon 1, delta" in line(done.stdout)
    done = run("verify", "r.json", "a.csv")
    assert done.exit_code == 1 and "NOT A RELEASE" in done.stdout
    refused(run("sql", *given), 1, "there is no file")
    refused(run("sql", "--dummy", COUNT), 2, "Add --catalog")


# What is given.


MISTAKES = [
    ([], 2, "the SQL is missing"),
    ([COUNT, "--file", "q.sql"], 2, "both as an argument and by --file"),
    (["SELECT 1"], 2, "privacy clause is missing"),
    ([COUNT.replace("visits.parquet", "none.parquet")], 1, "there is no file 'none.parquet'"),
    ([COUNT, "-o", "out.xls"], 2, ".parquet, .csv, .json or .xlsx"),
    ([COUNT, "-o", "a.csv", "-o", "./a.csv"], 2, "named twice"),
    ([COUNT, "-oout.csv", "--receipt", "out.csv-metadata.json"], 2, "named twice"),
    ([COUNT, "-o", "visits.parquet"], 2, "a file other than the source of the rows"),
    ([COUNT, "--receipt", "receipt.txt"], 2, "ends in .json"),
    ([COUNT, "--receipt", "receipt.json", "--dry-run"], 2, "nothing is released"),
    ([COUNT, "--confidence", "95"], 2, "between 0 and 1"),
    ([COUNT, "--quiet"], 2, "Add --output or --plot"),
    ([COUNT, "--table", "postgresql://ann:hunter2@h/d"], 2, "NAME=PATH"),
    ([query("[year] AS k, COUNT(*) AS n"), "-o", "out.csv"], 2, "INT"),
    (["--plot", "a.png", RANKS], 2, "counts => FALSE"),
    (["--errors", "-o", "a.csv", f"{RANKS} ORDER BY rank"], 2, "counts => FALSE"),
    (["--errors", "-o", "a.csv", f"SELECT max(n) AS s FROM ({COUNT})"], 2, "DP_INTERVAL_LOW"),
    (["-o", "visits.parquet", f"SELECT 1 FROM ({LARGEST})"], 2, "a file other than the source"),
]  # fmt: skip


@pytest.mark.noise_cannot_matter("nothing is drawn")
def test_mistakes_are_errors_before_anything_is_drawn(visits, run, monkeypatch):
    monkeypatch.setattr(DuckDBEngine, "statistics", lambda *_: pytest.fail("rows were read"))
    rows = visits.read_bytes()
    for arguments, code, says in MISTAKES:
        done = run("sql", *arguments)
        refused(done, code, says)
        assert "hunter2" not in done.output
        assert visits.read_bytes() == rows and [path.name for path in Path().iterdir()] == ["visits.parquet"]


@pytest.mark.parametrize(
    ("error", "code"), [(errors.RefusalError("no"), 2), (errors.BudgetError("no"), 2), (errors.EngineError("\x1b[31m"), 1)]
)  # fmt: skip
def test_exit_codes_by_kind_of_error(visits, run, monkeypatch, error, code):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr("sfumato.engines.sql.ask", fails)
    done = run("sql", COUNT)
    assert done.exit_code == code and "\x1b" not in done.output


@pytest.mark.long
def test_an_answer_that_is_paid_survives_a_full_disk_a_reader_who_leaves_and_sql_that_fails(
    visits, run, monkeypatch
):
    def gone(*_, **__):
        raise BrokenPipeError(32, "Broken pipe")

    def full(*_, **__):
        raise OSError(28, "No space left on device", "out.csv")

    with monkeypatch.context() as now:
        now.setattr("sfumato.cli.table_printer.print_table", gone)
        done = run("sql", COUNT, "-o", "out.csv")
        assert done.exit_code == 1 and "Broken pipe" in done.stderr and "1984" in Path("out.csv").read_text()
    with monkeypatch.context() as now:
        now.setattr(Release, "write", full)
        done = run("sql", COUNT, "-o", "out.csv")
        assert done.exit_code == 1 and "1984" in done.stdout and "out.csv: No space left" in done.stderr
    done = run("sql", f"WITH t AS ({COUNT}) SELECT (SELECT n FROM t) AS x FROM t", "-q", "-o", "new.csv")
    assert done.exit_code == 2 and "1984" in done.stdout and "the noisy numbers failed" in done.stderr
    statistics, calls = DuckDBEngine.statistics, []

    def second(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise errors.EngineError("the disk is gone")
        return statistics(*arguments)

    monkeypatch.setattr(DuckDBEngine, "statistics", second)
    done = run("sql", f"SELECT a.n FROM ({COUNT}) AS a, ({COUNT}) AS b")
    assert done.exit_code == 1 and "1984" in done.stdout and "1 of the 2 tables" in line(done.stderr)
