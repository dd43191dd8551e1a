"""`sfumato check`, `analyze`, `advise` and `verify`: what they find in real files, and verdicts as exit codes."""

import json
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.cli.options import ExitCode
from sfumato.engines import question_check
from tests.support.commands import query, refused

pytestmark = pytest.mark.noise_cannot_matter("costs, verdicts and files are looked at, no noisy number")

CATALOG = """[tables.people]
source = "visits.parquet"
privacy_unit = "id"
max_groups = 3
max_rows = 1
[tables.people.columns]
visits = {lower = 0, upper = 6}
year = {domain = [1984, 1985, 1986]}
"""
ASKED = query(
    "year, COUNT(*) AS n, AVG(visits, contribution_bounds_per_row => (0, 5)) AS mean",
    options="epsilon = 1, delta = 1e-6, privacy_unit_column = id, max_rows_per_group = 1",
)
COUNT = query("year, COUNT(*) AS n")


@pytest.fixture
def catalog(visits):
    path = Path("catalog.toml")
    path.write_text(CATALOG)
    Path("query.sql").write_text(ASKED)
    return path


# Check.


def test_rows_are_checked(catalog, run):
    done = run("check", "catalog.toml")
    assert done.exit_code == ExitCode.DONE and done.stdout.startswith("NOT PRIVATE"), done.output
    assert "people: private, 2,700 rows" in done.stdout
    catalog.write_text(CATALOG.replace("upper = 6", "upper = 5.5"))
    done = run("check", "catalog.toml")
    assert done.exit_code == ExitCode.FAILED
    assert "columns.visits: 384 rows outside 0 to 5.5" in done.stdout


@pytest.mark.long
def test_queries_are_checked(catalog, run, monkeypatch):
    given = ("check", "query.sql", "--splits", "1", "--removed", "1")
    done = run(*given)
    assert done.exit_code == ExitCode.DONE and "split 1: " in done.stdout, done.output
    assert "for 1 unit, one at a time, exact numbers move by at most 1 of" in done.stdout
    monkeypatch.setattr(question_check, "_measure_change", lambda *_: 7)
    done = run(*given)
    assert done.exit_code == ExitCode.FAILED and "WRONG one unit less" in done.stdout


# Analyze.


def test_what_cannot_be_analyzed_or_is_not_asked_for(catalog, run):
    refused(run("analyze", "query.sql", "--groups", "1,3"), 2, "add --not-private")
    Path("two.sql").write_text(f"SELECT * FROM ({ASKED}) UNION ALL ({ASKED})")
    for given, says in (
        (("query.sql", "--groups", "1;2"), "whole numbers"),
        (("query.sql", "--bounds", "mean=0:5", "--bounds", "mean=0:6"), "given twice"),
        (("query.sql", "--output", "visits.parquet"), "visits.parquet"),
        (("two.sql",), "2 private SELECTs"),
    ):
        refused(run("analyze", *given, "--not-private", columns=200), 2, says)


# Advise.

BY_YEAR = (
    "SELECT WITH DIFFERENTIAL_PRIVACY {} year, COUNT(*) AS n, AVG(visits) AS mean FROM visits GROUP BY year"
)
PEOPLE = "SELECT WITH DIFFERENTIAL_PRIVACY {} COUNT(DISTINCT id) AS people FROM visits"

LEFT = "OPTIONS (confidence = 0.95)"  # epsilon is what advice divides


@pytest.fixture
def advised(visits):
    pq.write_table(pa.table({"id": range(900), "age": [p % 90 for p in range(900)]}), "people.parquet")
    Path("catalog.toml").write_text(
        '[tables.visits]\nsource = "visits.parquet"\nprivacy_unit = "id"\n'
        '[tables.people]\nsource = "people.parquet"\nprivacy_unit = "id"\ncolumns = {age = {lower = 0, upper = 120}}\n'
        '[tables.others]\nsource = "people.parquet"\nprivacy_unit = "age"\n'
    )
    return "catalog.toml"


def test_advised_numbers_are_rounded_down():
    from sfumato.cli.advise_command import _down

    for number in (Fraction(2, 3), Fraction(10), Fraction(1, 3_000_000), Fraction(8, 9), Fraction(1, 7)):
        assert number * (1 - Fraction(1, 10**8)) < Fraction(_down(number)) <= number


ONE = ("--epsilon", "1", PEOPLE.format(LEFT))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (ONE[2:], "--epsilon is missing"),
        ((*ONE, "--epsilon", "many"), "epsilon is 'many'"),
        ((*ONE[:2], BY_YEAR.format(LEFT)), "--delta is 0, but private groups need more"),
        ((*ONE[:2], PEOPLE.format("OPTIONS (noise = laplace)")), "noise is an option of a release"),
        ((*ONE, PEOPLE.format(LEFT).replace("DISTINCT id", "*").replace("visits", "others")), "reads another table"),
        ((*ONE[:2], BY_YEAR.format(LEFT) + " ORDER BY n", "--delta", "1e-6", "--release"), "computes with released tables"),
        ((*ONE[:2], PEOPLE.format(LEFT).replace("COUNT(DISTINCT id)", "APPROX_TOP_COUNT(year, 2)"), "--delta", "1e-6"), "largest"),
        ((*ONE, "-o", "visits.parquet"), "visits.parquet"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_before_a_look(given, says, advised, run, monkeypatch):
    monkeypatch.setattr("sfumato.release.release.Release.to_arrow", lambda self: pytest.fail("it looked"))
    refused(run("advise", "-c", advised, *given, columns=300), 2, says)


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "more"),
    [
        (ASKED, ("--errors", "--simultaneous")),
        pytest.param(query("'=' || year AS \"=k\", COUNT(*) AS n"), ("--quiet",), marks=pytest.mark.long),
        pytest.param(query("APPROX_TOP_COUNT(year, 2)", groups=False).replace(", max_rows_per_group = 1", ""), (), marks=pytest.mark.long),
        pytest.param(COUNT + " ORDER BY n DESC LIMIT 2", (), marks=pytest.mark.long),
    ],
    ids=["errors", "formulas", "largest", "around"],
)  # fmt: skip
def test_a_release_and_its_receipt(text, more, visits, run):
    files = ["a.parquet", "a.csv", "a.json"]
    done = run(
        "sql", text, *(word for name in files for word in ("-o", name)), "--receipt", "receipt.json", *more
    )
    assert done.exit_code == 0, done.output
    for name in files:
        found = run("verify", "receipt.json", name)
        assert found.exit_code == ExitCode.DONE and f"{name} agrees with the receipt: " in found.stdout, (
            found.output
        )
        assert "Spent: epsilon 1" in found.stdout and "not signed" in found.stdout
    if text == ASKED:
        assert json.loads(Path("receipt.json").read_text())["plan"]["table"]["name"] == "visits.parquet"
    if "=k" in text:
        written = Path("a.csv").read_text()
        assert '"\'=k","n"\n' in written and '\n"\'=1984"' in written and '\n"=' not in written


# Verify.


def test_another_table_or_receipt_is_not_certified(visits, run):
    assert run("sql", COUNT, "-o", "a.parquet", "--receipt", "receipt.json").exit_code == 0
    assert run("verify", "receipt.json").exit_code == ExitCode.DONE
    table = pq.read_table("a.parquet")
    pq.write_table(table.set_column(1, "n", pa.array([1, 2, 3])), "b.parquet")
    done = run("verify", "receipt.json", "b.parquet")
    assert done.exit_code == ExitCode.FAILED and "values differ in 'n'" in done.stdout
    pq.write_table(pa.table({"id": [1], "\x1b[31m": [1]}), "c.parquet")
    done = run("verify", "receipt.json", "c.parquet")
    assert done.exit_code == ExitCode.FAILED and "\x1b" not in done.stdout
    changed = json.loads(Path("receipt.json").read_text())
    changed["spent"]["epsilon"] = "1"
    Path("changed.json").write_text(json.dumps(changed))
    for given in (("changed.json",), ("changed.json", "a.parquet")):
        done = run("verify", *given)
        assert done.exit_code == ExitCode.FAILED and "Refused: " in done.stdout, done.output
    for given, says in (
        (("none.json", "a.parquet"), "receipt 'none.json' cannot be read: No such file"),
        (("visits.parquet", "visits.parquet"), "is not a receipt of sfumato"),
    ):
        refused(run("verify", *given), ExitCode.MISUSED, says)
