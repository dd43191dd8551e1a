"""`sfumato sql --receipt` and `sfumato verify`."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.cli.options import ExitCode
from tests.cli.conftest import question

pytestmark = pytest.mark.noise_cannot_matter("digests are compared, whatever the numbers are")


@pytest.mark.parametrize("more", [(), ("--errors",), ("--quiet",), ("--quiet", "--errors", "--simultaneous")])
def test_a_release_and_its_receipt(more, visits, run):
    text = question("year, COUNT(*) AS n, AVG(visits, contribution_bounds_per_row => (0, 6)) AS mean")
    done = run(
        "sql", text, "-o", "a.parquet", "-o", "a.csv", "-o", "a.json", "--receipt", "receipt.json", *more
    )
    assert done.exit_code == 0, done.output
    assert "receipt.json" in done.stdout or "--quiet" in more
    for name in ("a.parquet", "a.csv", "a.json"):
        found = run("verify", "receipt.json", name)
        assert found.exit_code == ExitCode.DONE, found.output
        columns = "n, n_error, mean, mean_error" if "--errors" in more else "n, mean"
        assert f"{name} agrees with the receipt: 3 rows of year, {columns}." in found.stdout
        assert "Spent: epsilon 1000, delta 1e-06" in found.stdout and "not signed" in found.stdout
    plan = json.loads((visits.parent / "receipt.json").read_text())["plan"]
    assert plan["table"]["name"] == "visits.parquet" and plan["limits"]["groups"] == 3


def test_what_was_changed(visits, run):
    run("sql", question("year, COUNT(*) AS n"), "-o", "a.parquet", "--receipt", "receipt.json")
    table = pq.read_table("a.parquet")
    pq.write_table(table.set_column(1, "n", pa.array([1, 2, 3])), "b.parquet")
    done = run("verify", "receipt.json", "b.parquet")
    assert done.exit_code == ExitCode.FAILED
    assert (
        "b.parquet is not the answer of this receipt" in done.stdout
        and "values are others in 'n'" in done.stdout
    )


def test_the_largest_groups_and_sql_around(visits, run):
    for text in (
        question("APPROX_TOP_COUNT(year, 2)", groups=False).replace(", max_rows_per_group = 1", ""),
        question("year, COUNT(*) AS n") + " ORDER BY n DESC LIMIT 2",
    ):
        done = run("sql", text, "-q", "-o", "a.parquet", "--receipt", "receipt.json")
        assert done.exit_code == 0, done.output
        assert run("verify", "receipt.json", "a.parquet").exit_code == ExitCode.DONE


@pytest.mark.parametrize(
    "given, said",
    [
        (("receipt.json", "a.parquet"), "receipt 'receipt.json' cannot be read: No such file"),
        (("visits.parquet", "visits.parquet"), "is no receipt of sfumato"),
    ],
)
def test_files_that_must_be_fixed(given, said, visits, run):
    done = run("verify", *given)
    assert done.exit_code == ExitCode.MISUSED and said in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    "given, said",
    [
        (("--receipt", "receipt.txt"), "ends in .json"),
        (("--receipt", "none/receipt.json"), "in a folder that exists"),
        (("--receipt", "receipt.json", "--dry-run"), "nothing is released"),
        (("--receipt", "a.json", "-o", "a.json"), "named twice"),
    ],
)
def test_receipts_that_cannot_be_written(given, said, visits, run):
    done = run("sql", question("year, COUNT(*) AS n"), *given)
    assert done.exit_code == 2 and said in " ".join(done.stderr.split())
    assert not (visits.parent / "receipt.json").exists()


def test_a_receipt_replaces_no_source(visits, run):
    (visits.parent / "rows.json").write_text('{"id": 1}\n')
    text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = id) COUNT(DISTINCT id) AS n FROM 'rows.json'"
    done = run("sql", text, "--types", "id BIGINT", "--receipt", "rows.json")
    assert done.exit_code == 2 and "another file than those that the rows come from" in " ".join(
        done.stderr.split()
    )


def test_codes_that_a_terminal_would_obey(visits, run):
    table = pa.table({"id": [1], "\x1b[31m": [1]})
    pq.write_table(table, "a.parquet")
    run("sql", question("year, COUNT(*) AS n"), "-q", "-o", "b.parquet", "--receipt", "receipt.json")
    done = run("verify", "receipt.json", "a.parquet")
    assert done.exit_code == ExitCode.FAILED and "\x1b" not in done.stdout


def test_csv_of_keys_that_are_formulas(visits, run):
    text = question("'=' || year AS \"=k\", COUNT(*) AS n").replace("GROUP BY year", "GROUP BY '=' || year")
    done = run("sql", text, "-q", "-o", "a.csv", "--receipt", "receipt.json")
    assert done.exit_code == 0, done.output
    written = (visits.parent / "a.csv").read_text()
    assert '"\'=k","n"\n' in written and '\n"\'=1984"' in written and '\n"=' not in written
    found = run("verify", "receipt.json", "a.csv")
    assert found.exit_code == ExitCode.DONE, found.output
