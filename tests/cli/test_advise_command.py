"""`sfumato advise`: texts of one table, each opened once, with one budget over all of them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.dialect.options_clause import Advised
from sfumato.engines.sql import asking
from sfumato.errors import SqlError

NO_LIMITS = {"memory_limit": None, "threads": None, "temp_directory": None}
BY_YEAR = (
    "SELECT WITH DIFFERENTIAL_PRIVACY {} year, COUNT(*) AS n, AVG(visits) AS mean FROM visits GROUP BY year"
)
PEOPLE = "SELECT WITH DIFFERENTIAL_PRIVACY {} COUNT(DISTINCT id) AS people FROM visits"
JOINED = (
    "SELECT WITH DIFFERENTIAL_PRIVACY {} AVG(age) AS age FROM people JOIN visits USING (id) WHERE visits > 2"
)
CATALOG = """
[tables.visits]
source = "visits.parquet"
privacy_unit = "id"

[tables.people]
source = "people.parquet"
privacy_unit = "id"
[tables.people.columns.age]
lower = 0
upper = 120

[tables.others]
source = "people.parquet"
privacy_unit = "age"
"""


@pytest.fixture
def catalog(visits):
    pq.write_table(pa.table({"id": range(900), "age": [p % 90 for p in range(900)]}), "people.parquet")
    (visits.parent / "catalog.toml").write_text(CATALOG)
    return "catalog.toml"


def texts(options="OPTIONS ()"):
    # OPTIONS may not be empty, and epsilon is what advice divides.
    return [text.format(options) for text in (BY_YEAR, PEOPLE, JOINED)]


LEFT = "OPTIONS (confidence = 0.95)"


@pytest.mark.long
@pytest.mark.noise_cannot_matter("what is looked at is what is said, whatever the numbers are")
def test_texts_of_one_catalog_are_advised_and_released(catalog, run, tmp_path):
    given = ["--epsilon", "200", "--delta", "1e-6", "-c", catalog, "-o", "advice.csv", "--plot", "advice.svg"]
    done = run("advise", *texts(LEFT), *given, "--release", columns=200)
    assert done.exit_code == 0, done.output
    assert "Advice for 3 questions at epsilon 200, delta 1e-06: 40 was spent on looking" in done.stdout
    for said in (
        "n, mean by year: OPTIONS (epsilon = ",
        "max_groups_contributed = ",
        "  mean: contribution_bounds",
    ):
        assert said in done.stdout
    assert "age: contribution" not in done.stdout  # a catalog has its bounds
    assert done.stdout.count("K-norm") + done.stdout.count("Laplace") >= 6  # each in the report, and released
    assert "Wrote advice.csv, advice.svg." in done.stdout and "is not charged to a budget" in done.stdout
    assert (tmp_path / "advice.svg").exists() and len((tmp_path / "advice.csv").read_text().splitlines()) == 5


@pytest.mark.noise_cannot_matter("sums of the budget are exact, whatever is drawn")
def test_what_is_printed_adds_up(catalog, run, tmp_path):
    (tmp_path / "questions.sql").write_text(";\n-- another\n".join(texts(LEFT)) + ";")
    done = run(
        "advise",
        "-f",
        "questions.sql",
        "-e",
        "1",
        "--delta",
        "1e-6",
        "--share",
        "1/3",
        "-c",
        catalog,
        columns=200,
    )
    assert done.exit_code == 0, done.output
    written = [line for line in done.stdout.splitlines() if "OPTIONS (epsilon" in line]
    assert [line.partition(":")[0] for line in written] == [f"questions ({i})" for i in (1, 2, 3)]
    parts = [Fraction(line.partition("epsilon = ")[2].partition(",")[0]) for line in written]
    rest = 1 - Fraction(1, 3)
    assert rest - Fraction(3, 10**8) < sum(parts) <= rest


def test_texts_name_the_same_table_of_a_catalog(catalog):
    read = asking(None, sf.catalog(catalog), None, NO_LIMITS, Advised("2", "1e-6"))
    first, second, joined, again = [read(text).questions[0] for text in [*texts(LEFT), JOINED.format(LEFT)]]
    assert first.table._engine is second.table._engine
    assert joined.table._engine is again.table._engine is not first.table._engine
    assert first.table._auto_limits == ("groups", "rows") and first.automatic
    # Whatever budget a text has, advice divides its own.
    told = PEOPLE.format("OPTIONS (epsilon = 7, auto_limits = false)")
    assert read(told).query.epsilon == "2"
    assert (
        BY_YEAR and not read(BY_YEAR.format("OPTIONS (auto_limits = false)")).questions[0].table._auto_limits
    )


def test_texts_name_the_same_file(visits):
    read = asking({"visits": "visits.parquet"}, None, None, NO_LIMITS, Advised("2", "1e-6"))
    ids = "OPTIONS (privacy_unit_column = id)"
    first, second = [read(text.format(ids)).questions[0].table for text in (BY_YEAR, PEOPLE)]
    assert first._engine is second._engine
    # Another unit, or other types, are another table.
    other = (
        read(PEOPLE.format("OPTIONS (privacy_unit_column = year)").replace("id)", "year)")).questions[0].table
    )
    assert other._engine is not first._engine
    # Without advice a text needs its own budget, as ever.
    with pytest.raises(SqlError, match="epsilon is missing"):
        asking({"visits": "visits.parquet"}, None, None, NO_LIMITS)(PEOPLE.format(ids))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([], "no question is given"),
        ([PEOPLE.format(LEFT), "--delta", "2"], "delta is '2'"),
        ([PEOPLE.format(LEFT), "--epsilon", "-1"], "epsilon is '-1'"),
        ([PEOPLE.format(LEFT), "--epsilon", "many"], "epsilon is 'many'"),
        ([PEOPLE.format(LEFT), "--share", "2"], "share is '2'"),
        ([BY_YEAR.format(LEFT)], "which needs a delta"),
        (["questions.sql"], "--file questions.sql"),
        ([PEOPLE.format(LEFT), " -- later;"], "' -- later;' holds no question"),
        ([PEOPLE.format(LEFT), "--file", "empty.sql"], "'empty.sql' holds no question"),
        ([PEOPLE.format("OPTIONS (noise = laplace)")], "noise is of a release"),
        ([PEOPLE.format("OPTIONS (diagnostics = 0.1)")], "diagnostics is of a release"),
        (
            [
                PEOPLE.format(LEFT),
                PEOPLE.format(LEFT).replace("COUNT(DISTINCT id)", "COUNT(*)").replace("visits", "others"),
            ],
            "asked of another table",
        ),
        (
            [BY_YEAR.format(LEFT) + " ORDER BY n", "--delta", "1e-6", "--release"],
            "computes with what is released",
        ),
        (
            [
                PEOPLE.format(LEFT).replace("COUNT(DISTINCT id) AS people", "APPROX_TOP_COUNT(year, 2) AS t"),
                "--delta",
                "1e-6",
            ],
            "largest",
        ),
        ([PEOPLE.format(LEFT), "-o", "visits.parquet"], "visits.parquet"),
        ([PEOPLE.format(LEFT), "--plot", "map.pdf"], "plot path"),
    ],
)
def test_what_is_wrong_is_said_before_a_look(given, text, catalog, run, monkeypatch):
    monkeypatch.setattr("sfumato.release.release.Release.to_arrow", lambda self: pytest.fail("it looked"))
    Path("empty.sql").write_text(";; /* ; */ ;")
    done = run("advise", "--epsilon", "1", "-c", catalog, *given, columns=300)
    assert done.exit_code == 2 and text in done.output, done.output


def test_it_needs_an_epsilon(catalog, run):
    done = run("advise", PEOPLE.format(LEFT), "-c", catalog, columns=200)
    assert done.exit_code == 2 and "--epsilon is missing" in done.output
