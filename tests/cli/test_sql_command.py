"""`sfumato sql`: what it prints, what it writes, and how it fails."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato import errors
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.release.release import Release

from .conftest import KINDS, question

COUNT = question("year, COUNT(*) AS n")
pytestmark = pytest.mark.flakiness(k=30, because="noise of scale 3 or less against 900 people in each group")
MANY = question("year, COUNT(*) AS n, AVG(visits, contribution_bounds_per_row => (0, 10)) AS mean_visits")


def printed_numbers(text: str, name: str) -> list[str]:
    """Read a column of the printed table back, without error bars."""
    lines = text.splitlines()
    header = next(i for i, line in enumerate(lines) if line.startswith("year") and name in line)
    place = re.split(r"\s{2,}", lines[header].strip()).index(name)
    rows = lines[header + 2 : header + 5]
    return [re.split(r"\s{2,}", row.strip())[place].split(" ±")[0].replace(",", "") for row in rows]


class TestOutput:
    def test_table_has_keys_numbers_errors_and_cost(self, visits, run):
        done = run("sql", MANY)
        assert done.exit_code == 0, done.output
        assert re.search(r"^1984\s+\d+ ± \d+\s+\d\.\d+ ± 0\.\d+", done.stdout, re.MULTILINE)
        assert "epsilon 1000, delta 1e-06, for each id" in done.stdout
        assert "3 shown, chosen privately" in done.stdout
        said = " ".join(done.stdout.split())
        assert "covers the noise around statistics of the clamped values, not sampling error" in said
        assert (
            "does not include bias from contribution limits and bounds; --diagnostics estimates it."
            in said.casefold()
        )
        assert done.stderr == ""

    @pytest.mark.parametrize(("error_bars", "shown"), [("", True), (", error_bars => FALSE", False)])
    def test_quantiles_with_k_norm_noise(self, error_bars, shown, visits, run):
        """With error bars of its own, and without: then they would reach to the bounds."""
        bounds = "contribution_bounds_per_row => (0, 10)"
        asked = question(f"year, COUNT(*) AS n, PERCENTILE_CONT(visits, 0.5, {bounds}{error_bars}) AS median")
        done = run("sql", asked.replace("epsilon =", "noise = k_norm, epsilon ="), "-oout.json", "--errors")
        assert done.exit_code == 0, done.output
        rows = [json.loads(line) for line in Path("out.json").read_text().splitlines()]
        assert [round(row["median"], 1) for row in rows] == [3, 3, 3]
        assert (max(row["median_error"] for row in rows) < 5) == shown
        assert "K-norm" in done.stdout

    @pytest.mark.long
    def test_files_hold_the_printed_numbers(self, visits, run):
        done = run("sql", MANY, "-oout.parquet", "-oout.csv", "-oout.json", "--errors")
        assert done.exit_code == 0, done.output
        table = pq.read_table("out.parquet").to_pylist()
        assert table == [json.loads(line) for line in Path("out.json").read_text().splitlines()]
        with open("out.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        assert [float(row["mean_visits"]) for row in rows] == [row["mean_visits"] for row in table]
        assert [str(row["n"]) for row in table] == printed_numbers(done.stdout, "n")
        for row, shown in zip(table, printed_numbers(done.stdout, "mean_visits"), strict=True):
            decimals = len(shown.partition(".")[2])
            assert float(shown) == pytest.approx(row["mean_visits"], abs=0.51 * 10**-decimals)
            assert row["mean_visits_error"] > 0

    def test_links_of_the_names_are_replaced_wherever_they_lead(self, visits, run):
        """Also to another output, or in a circle."""
        Path("a.csv").symlink_to("b.csv")
        Path("circle.csv").symlink_to("circle.csv")
        done = run("sql", COUNT, "-oa.csv", "-ob.csv", "-ocircle.csv")
        assert done.exit_code == 0, done.output
        assert len({Path(name).read_bytes() for name in ("a.csv", "b.csv", "circle.csv")}) == 1
        assert not Path("a.csv").is_symlink()

    def test_metadata_of_a_csv_has_its_own_name(self, visits, run):
        done = run("sql", COUNT, "-oout.csv", "--receipt", "out.csv-metadata.json")
        assert done.exit_code == 2 and "a file is named twice" in done.stderr and not Path("out.csv").exists()
        done = run("sql", COUNT, "-oout.csv", "--receipt", "receipt.json")
        assert done.exit_code == 0 and "Wrote out.csv, out.csv-metadata.json, receipt.json." in done.stdout
        assert json.loads(Path("out.csv-metadata.json").read_text())["url"] == "out.csv"

    @pytest.mark.long
    def test_noise_is_drawn_once(self, visits, run, monkeypatch):
        draws = []
        draw = Release._draw
        monkeypatch.setattr(Release, "_draw", lambda self: draws.append(self) or draw(self))
        done = run("sql", MANY, "-oa.parquet", "-ob.csv", "-pc.svg", "--explain", "--simultaneous")
        assert done.exit_code == 0, done.output
        assert len(draws) == 1

    def test_quiet_with_one_output_streams(self, visits, run, monkeypatch):
        monkeypatch.setattr(Release, "to_arrow", lambda self: pytest.fail("kept in memory"))
        done = run("sql", COUNT, "--quiet", "-o", "out.parquet")
        assert (done.exit_code, done.output) == (0, "")
        assert pq.read_table("out.parquet").num_rows == 3

    def test_simultaneous_error_bars_are_wider(self, visits, run):
        small = question("year, COUNT(*) AS n", options="epsilon = 1, delta = 1e-6, privacy_unit_column = id")
        run("sql", small, "-q", "-o", "each.parquet", "--errors")
        run("sql", small, "-q", "-o", "all.parquet", "--errors", "--simultaneous")
        each, every = (pq.read_table(f)["n_error"].to_pylist() for f in ("each.parquet", "all.parquet"))
        assert min(every) > max(each)

    def test_numbers_of_different_values(self, visits, run):
        """Visits are from 0 to 6. Noise that moves a whole number has probability e^-80."""
        done = run("sql", question(f"year, {KINDS}"))
        assert done.exit_code == 0, done.output
        assert printed_numbers(done.stdout, "kinds") == printed_numbers(done.stdout, "about") == ["7"] * 3

    def test_one_answer_stands_upright(self, visits, run):
        done = run("sql", question("COUNT(*) AS n, COUNT(DISTINCT id) AS people", groups=False))
        assert done.exit_code == 0, done.output
        assert re.search(r"^n\s+\d[\d,]* ±", done.stdout, re.MULTILINE)
        assert re.search(r"^people\s+\d[\d,]* ±", done.stdout, re.MULTILINE)
        assert "groups" not in done.stdout.split("spent")[1].split("±")[0]

    def test_lists_show_their_first_entries(self, visits, run):
        calls = (
            "VECTOR_SUM([visits, 1], length => 2, bound => 9) AS short, "
            "VECTOR_AVG([1, 2, 3, 4, 5], length => 5, bound => 8) AS long"
        )
        number = r"-?[\d.,]+ ± +[\d.]+"
        alone = run("sql", question(calls, groups=False), columns=120)
        assert alone.exit_code == 0, alone.output
        assert re.search(rf"^short +{number}, {number} *$", alone.stdout, re.MULTILINE)
        several = rf"{number}, {number}, {number}, … \(5 entries\)"
        assert re.search(rf"^long +{several} *$", alone.stdout, re.MULTILINE)
        grouped = run("sql", question(f"year, {calls}"), "-o", "out.parquet", "-p", "out.svg", columns=150)
        assert grouped.exit_code == 0, grouped.output
        assert re.search(rf"^1984 .*{several}", grouped.stdout, re.MULTILINE)
        computed = run("sql", question(f"year, {calls}, 2 * COUNT(*) AS twice"), columns=150)
        assert computed.exit_code == 0, computed.output
        assert re.search(rf"1984 .*{several}", computed.stdout)

    def test_a_wide_table_folds_with_its_keys_repeated(self, visits, run):
        columns = "year, " + ", ".join(f"COUNT(*) AS number_of_rows_{i}" for i in range(6))
        done = run("sql", question(columns))
        assert done.exit_code == 0, done.output
        assert len(re.findall(r"^year ", done.stdout, re.MULTILINE)) == 2
        assert max(map(len, done.stdout.splitlines())) <= 80
        assert all(f"number_of_rows_{i}" in done.stdout for i in range(6))
        wide = run("sql", question(columns), columns=200)
        assert len(re.findall(r"^year ", wide.stdout, re.MULTILINE)) == 1

    def test_a_long_table_says_what_is_not_shown(self, visits, run):
        done = run("sql", COUNT, "--show", "2", "-o", "out.csv")
        assert "1985" in done.stdout and "1986" not in done.stdout
        assert "The first 2 of 3 groups" in done.stdout
        assert len(Path("out.csv").read_text().splitlines()) == 4

    def test_no_group_is_explained(self, visits, run):
        few = question(
            "id + 0 AS each, COUNT(*) AS n", options="epsilon = 1, delta = 1e-40, privacy_unit_column = id"
        )
        done = run("sql", few, "--plot", "empty.png")
        assert done.exit_code == 0, done.output
        assert "none shown: a group needs about" in done.stdout
        assert Path("empty.png").stat().st_size > 0

    def test_keys_cannot_command_the_terminal(self, visits, run):
        done = run("sql", question(r"chr(27) || '[31m' || chr(10) || '[bold]x' AS k, COUNT(*) AS n"))
        assert done.exit_code == 0, done.output
        assert r"\x1b[31m\n[bold]x" in done.stdout

    def test_an_empty_key_and_null_differ(self, visits, run):
        done = run(
            "sql", question("CASE year WHEN 1984 THEN '' WHEN 1985 THEN 'NULL' END AS k, COUNT(*) AS n")
        )
        assert [line.split()[0] for line in done.stdout.splitlines() if "±" in line][:3] == [
            "''",
            "NULL",
            "NULL",
        ]

    def test_a_default_that_was_taken_is_told(self, visits, run):
        done = run("sql", COUNT.replace(", max_groups_contributed = 3", ""))
        assert "max_groups_contributed was not given" in done.stdout


class TestExplain:
    def test_explain_tells_bounds_noise_and_shares(self, visits, run):
        done = run(
            "sql",
            MANY.replace("OPTIONS (", "OPTIONS (group_selection = gaussian, "),
            "--explain",
            columns=120,
        )
        told, _, table = done.stdout.partition("\nyear")
        assert "Add exactly rounded" in told and "0 to 10" in told and "%" in told
        assert "choice of groups" in told
        assert "±" in table

    def test_dry_run_reads_no_row(self, visits, run, monkeypatch):
        monkeypatch.setattr(Release, "_draw", lambda self: pytest.fail("rows were read"))
        done = run("sql", MANY, "--dry-run", "-o", "out.parquet", "--plot", "out.png")
        assert done.exit_code == 0, done.output
        assert "How the answer is made" in done.stdout
        assert "nothing was spent" in done.stdout
        assert not Path("out.parquet").exists() and not Path("out.png").exists()


class TestInput:
    def test_from_file_and_standard_input(self, visits, run):
        Path("q.sql").write_text("\ufeff" + COUNT, encoding="utf-8")
        assert run("sql", "--file", "q.sql").exit_code == 0
        assert run("sql", "-", stdin=COUNT).exit_code == 0

    def test_names_for_tables(self, visits, run):
        text = COUNT.replace("'visits.parquet'", "v")
        assert run("sql", text, "--table", "v=visits.parquet").exit_code == 0

    def test_public_tables_are_joined(self, visits, run):
        Path("eras.csv").write_text("year,era\n" + "\n".join(f"{year},old" for year in range(1980, 2030)))
        text = COUNT.replace("'visits.parquet'", "v JOIN eras AS e USING (year) WHERE e.era = 'old'")
        done = run("sql", text, "-t", "v=visits.parquet", "--public", "eras=eras.csv", "--explain")
        assert done.exit_code == 0 and "joined with a public table on year" in " ".join(done.stdout.split())
        assert run("sql", text, "-t", "v=visits.parquet", "--public", "eras").exit_code == 2


class TestErrors:
    @pytest.mark.long
    @pytest.mark.parametrize(
        ("arguments", "code", "says"),
        [
            ([], 2, "The SQL is given nowhere"),
            (["q.sql"], 2, "write --file q.sql"),
            ([" "], 2, "The SQL is empty"),
            ([COUNT, "--file", "q.sql"], 2, "both as an argument and by --file"),
            (["--file", "missing.sql"], 2, "missing.sql"),
            (["SELECT 1"], 2, "privacy clause is missing"),
            ([COUNT.replace("year", "yaer")], 2, "did you mean 'year'"),
            ([COUNT.replace("1e-6", "0")], 2, "Write OPTIONS (delta = 1e-6, ...)"),
            ([COUNT.replace("'visits.parquet'", "visits")], 2, "--table visits=PATH"),
            ([COUNT.replace("'visits.parquet'", "visitz"), "-t", "visits=x.csv"], 2, "did you mean 'visits'?"),
            ([COUNT.replace("visits.parquet", "none.parquet")], 1, "there is no file 'none.parquet'"),
            ([COUNT, "-o", "out.xls"], 2, ".parquet, .csv, .json or .xlsx"),
            ([COUNT, "-o", "no/such/out.csv"], 2, "in a folder that exists"),
            ([COUNT, "-o", "a.csv", "-o", "a.csv"], 2, "named twice"),
            ([COUNT, "--plot", "out.pdf"], 2, "ends in .png or .svg"),
            ([COUNT, "--confidence", "95"], 2, "between 0 and 1"),
            ([COUNT, "--show", "0"], 2, "at least 1"),
            ([COUNT, "--quiet"], 2, "add --output or --plot"),
            ([COUNT, "--table", "visits"], 2, "NAME=PATH"),
            ([COUNT, "--table", "a=b", "--table", "a=c"], 2, "given twice"),
            ([COUNT, "--nonsense"], 2, "No such option"),
        ],
    )  # fmt: skip
    def test_a_mistake_is_told_before_anything_is_spent(
        self, visits, run, monkeypatch, arguments, code, says
    ):
        monkeypatch.setattr(Release, "_draw", lambda self: pytest.fail("a budget was spent"))
        done = run("sql", *arguments)
        assert done.exit_code == code, done.output
        assert says in " ".join(done.stderr.split())
        assert "Traceback" not in done.output and done.stdout == ""

    def test_the_marked_place_stays_under_its_word(self, visits, run):
        done = run("sql", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilonn = 1) COUNT(*) FROM 'v.parquet'")
        *_, line, marks = done.stderr.rstrip().splitlines()
        assert line[marks.index("^") : marks.rindex("^") + 1] == "epsilonn"

    def test_plot_without_matplotlib_says_what_to_install(self, visits, run, monkeypatch):
        find = importlib.util.find_spec
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda n, *a: None if n == "matplotlib" else find(n, *a)
        )
        done = run("sql", COUNT, "--plot", "out.png")
        assert done.exit_code == 1
        assert "pip install 'sfumato[plot]'" in done.stderr

    def test_a_file_that_cannot_be_written_does_not_cost_the_answer(self, visits, run, monkeypatch):
        def full(*_, **__):
            raise OSError(28, "No space left on device", "out.csv")

        monkeypatch.setattr(Release, "write", full)
        done = run("sql", COUNT, "-o", "out.csv")
        assert done.exit_code == 1
        assert "1984" in done.stdout and "out.csv: No space left" in done.stderr

    def test_an_answer_that_cannot_be_printed_does_not_cost_the_file(self, visits, run, monkeypatch):
        def gone(*_, **__):
            raise BrokenPipeError(32, "Broken pipe")

        monkeypatch.setattr("sfumato.cli.table_printer.print_table", gone)
        done = run("sql", COUNT, "-o", "out.csv")
        assert done.exit_code == 1
        assert "Broken pipe" in done.stderr and "1984" in Path("out.csv").read_text()

    def test_a_key_that_no_format_holds_is_refused_beforehand(self, visits, run):
        done = run("sql", question("[year] AS k, COUNT(*) AS n"), "-o", "out.csv")
        assert done.exit_code == 2
        assert "INTEGER[]" in done.stderr or "BIGINT[]" in done.stderr
        assert not list(Path().glob("out.csv*"))

    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (errors.RefusalError("no"), 2),
            (errors.BudgetError("no"), 2),
            (errors.EngineError("no"), 1),
        ],
    )
    def test_exit_codes_by_kind(self, visits, run, monkeypatch, error, code):
        def fails(*_, **__):
            raise error

        monkeypatch.setattr("sfumato.engines.sql.ask", fails)
        assert run("sql", COUNT).exit_code == code


class TestComputing:
    """SQL that computes with the released table."""

    def test_bars_where_they_are_known(self, visits, run):
        done = run("sql", question("year, COUNT(*) AS n, COUNT(*) / 2 AS half") + " ORDER BY n DESC LIMIT 1")
        assert done.exit_code == 0, done.output
        (row,) = [line for line in done.stdout.splitlines() if re.match(r"\s*19\d\d", line)]
        assert row.count("±") == 1 and "error bar" in done.stdout

    def test_around_there_are_none(self, visits, run):
        text = f"SELECT sum(n) AS people FROM ({COUNT})"
        done = run("sql", text, "-o", "out.csv", "--explain")
        assert done.exit_code == 0, done.output
        assert "±" not in done.stdout and "costs nothing" in " ".join(done.stdout.split())
        assert Path("out.csv").read_text().startswith('"people"')
        assert "DP_INTERVAL_LOW" in run("sql", text, "-o", "out.csv", "--errors").stderr
        assert "--plot draws groups" in " ".join(run("sql", text, "--plot", "out.svg").stderr.split())

    def test_a_failure_does_not_lose_the_noisy_table(self, visits, run):
        text = "SELECT (SELECT n FROM t) AS x FROM t"
        for more in ([], ["-q", "-o", "out.csv"]):
            done = run("sql", f"WITH t AS ({COUNT}) {text}", *more)
            assert done.exit_code == 2
            assert "1984" in done.stdout and "computing with the noisy numbers failed" in done.stderr

    def test_several_private_selects_cost_their_sum(self, visits, run):
        Path("eras.csv").write_text("year,era\n1984,old\n1985,new\n1990,none\n")
        ours = COUNT.replace("'visits.parquet'", "v")
        text = f"WITH a AS ({ours}), b AS ({ours}) SELECT era, a.n + b.n AS s FROM a JOIN b USING (year) JOIN eras USING (year)"
        files = ["--types", "id BIGINT, year BIGINT", "--table", "v=visits.csv", "--public", "eras=eras.csv"]
        Path("visits.csv").write_text("id,year\n" + "\n".join(f"{i},{1984 + i % 2}" for i in range(900)))
        done = run("sql", text, *files, "-o", "out.csv", "--explain")
        assert done.exit_code == 0, done.output
        said = " ".join(done.stdout.split())
        assert "Release 2 of 2" in said
        assert "epsilon 1000 + 1000 = 2000 and delta 1e-06 + 1e-06 = 2e-06, by basic composition" in said
        assert "spent epsilon 2000, delta 2e-06: the sums of those of 2 releases" in said
        assert sorted(Path("out.csv").read_text().split()) == ['"era","s"', '"new",900', '"old",900']
        assert run("sql", text, *files, "--dry-run").stdout.endswith("nothing was spent.\n")
        private = run("sql", text.replace("JOIN eras", "JOIN v"), *files)
        assert private.exit_code == 2 and "v is a private table" in private.stderr

    def test_what_was_drawn_before_a_failure_is_printed(self, visits, run, monkeypatch):
        honest, calls = DuckDBEngine.statistics, []

        def statistics(*arguments):
            calls.append(arguments)
            if len(calls) == 2:
                raise errors.EngineError("the disk is gone")
            return honest(*arguments)

        monkeypatch.setattr(DuckDBEngine, "statistics", statistics)
        done = run("sql", f"SELECT a.n FROM ({COUNT}) AS a, ({COUNT}) AS b")
        assert done.exit_code == 1 and "1984" in done.stdout
        assert "1 of the 2 tables" in " ".join(done.stderr.split()) and len(calls) == 2


@pytest.mark.noise_cannot_matter("what is said of the numbers is looked at")
def test_the_command_takes_the_sampling_error(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"id": range(1_000)}), "t.parquet")
    text = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = id, "
        "max_rows_per_group = 1{}) COUNT(*) AS n FROM 't.parquet'"
    )
    given = [run("sql", text.format(""), "--sampling"), run("sql", text.format(", sampling = true"))]
    for done in given:
        said = " ".join(done.stdout.split())
        assert "covers the noise and the sampling error" in said and "± 78" in said
    plain = " ".join(run("sql", text.format(""), "--errors", "-o", "n.parquet").stdout.split())
    assert "not sampling error" in plain and "± 3" in plain
    assert "not sampling error" in json.loads(pq.read_schema("n.parquet").metadata[b"sfumato"])["error_bars"]
