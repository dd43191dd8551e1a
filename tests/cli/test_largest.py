"""The largest groups on the command line: a table, an explanation, files and a picture."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.query.error_bars import Bars
from sfumato.release.chart import Chart

OPTIONS = "epsilon = 1000, delta = 1e-6, privacy_unit_column = id"
CALL = "APPROX_TOP_COUNT(year, 2)"
BARE = "APPROX_TOP_COUNT(year, 2, counts => FALSE)"
SUM = "APPROX_TOP_SUM(year, visits, 2, contribution_bounds_per_group => (0, 6))"


def text(call: str = CALL) -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({OPTIONS}) {call} FROM 'visits.parquet'"


@pytest.mark.flakiness(k=50, because="noise of scale 0.004 rounds to 0 but with exp(-125), twice")
def test_a_table_with_its_explanation_a_file_and_a_picture(visits, run, tmp_path):
    done = run("sql", "--explain", "--errors", "-o", "top.parquet", "-p", "top.png", text(), columns=120)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert [line.split() for line in lines if "rank" in line and "units" in line][-1] == [
        "rank",
        "year",
        "units",
    ]
    assert sum("900 ± 0" in line for line in lines) == 2
    for said in (
        "2. Draw 2 groups, one after another",
        "spent   epsilon 1000, delta 1e-06, for each id",
        "2 of the 2 asked for, by units, in the order drawn; they are private",
        "Laplace, exactly rounded, drawn once for these groups",
        "95% error bar, for each number by itself",
        "APPROX_TOP_COUNT counts the privacy units of each group, not its rows.",
        "Wrote top.parquet, top.png.",
    ):
        assert said in done.output
    assert pq.read_table("top.parquet").column_names == ["rank", "year", "units", "units_error"]
    assert (tmp_path / "top.png").stat().st_size > 1000


@pytest.mark.noise_cannot_matter("labels and words are looked at")
def test_the_picture_of_sums(visits):
    release = sf.sql(text(SUM))
    chart = Chart.of_largest(release, Bars(simultaneous=True))
    assert len(chart.labels) == 2 and chart.keys == "year"
    (panel,) = chart.panels
    assert panel.title == "largest groups by sum" and panel.subtitle == "sum of visits, bounds 0 to 6"
    assert panel.series[0].low[0] < panel.series[0].values[0] < panel.series[0].high[0]
    assert "for all numbers at once" in chart.footer and "Laplace noise, by sfumato" in chart.footer


@pytest.mark.noise_cannot_matter("columns are looked at")
def test_ranks_alone_and_a_streamed_file(visits, run, tmp_path):
    done = run("sql", text("APPROX_TOP_COUNT(year, 2, counts => FALSE)"))
    assert done.exit_code == 0 and "±" not in done.output and "rank   year" in done.output
    done = run("sql", "-q", "-o", "top.csv", text())
    assert done.exit_code == 0 and not done.output
    assert (tmp_path / "top.csv").read_text().startswith('"rank","year","units"\n')


@pytest.mark.flakiness(k=50, because="noise of scale 0.004 rounds to 0 but with exp(-125), 8 times")
def test_what_is_computed_with_them(visits, run, tmp_path):
    done = run("sql", "--explain", "--errors", "-o", "sorted.parquet", f"{text()} ORDER BY year", columns=120)
    assert done.exit_code == 0, done.output
    assert sum("900 ± 0" in line for line in done.output.splitlines()) == 2
    assert "6. Compute with the noisy table alone" in done.output
    assert "2 of the 2 asked for, by units, in the order drawn; they are private" in done.output
    assert "95% error bar" in done.output
    assert pq.read_table("sorted.parquet").column_names == ["rank", "year", "units", "units_error"]
    counted = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({OPTIONS}) COUNT(*) AS n FROM 'visits.parquet'"
    both = f"WITH t AS ({text()}), c AS ({counted}) SELECT year, units / n AS share FROM t, c ORDER BY rank"
    done = run("sql", "--explain", both, columns=200)
    assert done.exit_code == 0, done.output
    for said in (
        "2. Draw 2 groups, one after another",
        "epsilon 2000, delta 2e-06: the sums of those of 2 releases",
        "Laplace noise; groups: 2 of the 2 asked for, by units",
    ):
        assert said in done.output
    # What was drawn is printed where computing with it fails: it is paid for.
    done = run("sql", f"SELECT units, 1 / CAST(left('x' || rank, 1) AS INT) FROM ({text()})", columns=120)
    assert done.exit_code and sum("900 ± 0" in line for line in done.output.splitlines()) == 2, done.output


def test_a_dry_run_reads_nothing(visits, run):
    done = run("sql", "--dry-run", text(SUM), columns=120)
    assert (
        done.exit_code == 0 and "take the sum of visits, bounds 0 to 6, in each group of year" in done.output
    )
    assert "no row was read" in done.output


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--preview", text()], "--dry-run says the noise"),
        (["--plot", "a.png", text("APPROX_TOP_COUNT(year, 2, counts => FALSE)")], "counts => FALSE"),
        (["--errors", "-o", "a.csv", text("APPROX_TOP_COUNT(year, 2, counts => FALSE)")], "counts => FALSE"),
        (["--preview", f"{text()} ORDER BY units"], "--dry-run says the noise"),
        (["--plot", "a.png", f"{text()} ORDER BY units"], "leave out what is computed"),
        (["--errors", "-o", "a.csv", f"SELECT 1 FROM ({text()})"], "has no error bars of its own"),
        (["--errors", "-o", "a.csv", f"{text(BARE)} ORDER BY rank"], "counts => FALSE"),
        (["-o", "visits.parquet", f"SELECT 1 FROM ({text()})"], "another file than those"),
        (["-o", "visits.parquet", text()], "another file than those that the rows come from"),
        ([text("APPROX_TOP_COUNT(year)")], "how many groups?"),
    ],
)
def test_refusals_come_before_anything_is_drawn(visits, run, given, says):
    done = run("sql", *given, columns=200)
    assert done.exit_code == 2 and says in done.output
