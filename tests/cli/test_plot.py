"""Charts: written, the same each time, and true to the numbers."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.errors import ParameterError
from sfumato.query.aggregates.counting import CountEstimate
from sfumato.query.aggregates.derived_outputs import CombinationEstimate
from sfumato.query.aggregates.sum_mean_variance import MeanEstimate, SumEstimate, VarianceEstimate
from sfumato.query.aggregates.vector_aggregates import VectorEstimate
from sfumato.query.error_bars import Bars
from sfumato.release.chart import (
    FIRST_ENTRIES,
    MOST_GROUPS,
    MOST_PANELS,
    Chart,
    _figure,
    _plain_style,
    _Series,
    bar_chart,
)

from .conftest import KINDS, question

ALL = question(
    "year, COUNT(*) AS n, AVG(visits, contribution_bounds_per_row => (0, 10)) AS average, "
    "QUANTILES(visits, [0.25, 0.5, 0.75], contribution_bounds_per_row => (0, 10)) AS quarter"
)

pytestmark = pytest.mark.flakiness(k=30, because="noise of scale 3 or less against 900 people in each group")


@pytest.fixture
def release(visits):
    return sf.sql(ALL)


@pytest.mark.long
@pytest.mark.parametrize("name", ["out.png", "out.svg", "OUT.SVG"])
def test_the_same_release_gives_the_same_bytes(release, name):
    bar_chart(release, name)
    first = Path(name).read_bytes()
    bar_chart(release, name)
    assert Path(name).read_bytes() == first
    assert not list(Path().glob("*.part"))


@pytest.mark.long
def test_formats(release):
    bar_chart(release, "out.png")
    bar_chart(release, "out.svg")
    assert Path("out.png").read_bytes().startswith(b"\x89PNG")
    assert ElementTree.parse("out.svg").getroot().tag.endswith("svg")
    assert b"<dc:date>" not in Path("out.svg").read_bytes()


@pytest.mark.long
def test_user_settings_are_neither_used_nor_changed(release):
    import matplotlib

    bar_chart(release, "plain.svg")
    with matplotlib.rc_context({"font.size": 30.0, "axes.facecolor": "red"}):
        bar_chart(release, "own.svg")
        assert matplotlib.rcParams["font.size"] == 30.0
    assert Path("own.svg").read_bytes() == Path("plain.svg").read_bytes()


def test_bars_are_as_high_as_the_numbers(release):
    chart = Chart.of(release, Bars())
    table = release.to_arrow()
    assert [p.title for p in chart.panels] == ["n", "average", "quarter"]
    assert chart.labels == ["1984", "1985", "1986"]
    with _plain_style():
        n, average, quarter = _figure(chart).axes
    assert [bar.get_height() for bar in n.patches] == table["n"].to_pylist()
    assert [bar.get_height() for bar in average.patches] == table["average"].to_pylist()
    drawn = [list(line.get_ydata()) for line in quarter.lines if line.get_marker() == "o"]
    assert drawn == [table[f"quarter_{rank}"].to_pylist() for rank in (25, 50, 75)]
    assert [t.get_text() for t in quarter.get_legend().get_texts()] == ["25%", "50%", "75%"]


def test_numbers_of_different_values_have_bars(visits):
    n, about = Chart.of(sf.sql(question(f"year, {KINDS}")), Bars()).panels
    assert (n.title, about.title) == ("kinds", "about")
    for panel in (n, about):
        (series,) = panel.series
        assert list(series.values) == [7, 7, 7] and min(series.low) >= 0


@pytest.mark.parametrize(
    ("kind", "value", "low", "high"),
    [("count", 3.0, 0, 13), ("sum", 3.0, -7, 13), ("mean", 3.0, 1, 5), ("variance", 3.0, 0, 5), ("count", -2.0, -2, 8)],
)  # fmt: skip
def test_error_bars_end_where_nothing_can_be(kind, value, low, high):
    kinds = (CountEstimate, SumEstimate, MeanEstimate, VarianceEstimate)
    (estimate,) = (made("x", lower=1.0, upper=5.0) for made in kinds if made.kind == kind)
    series = _Series.of("x", estimate, [value], [10.0])
    assert (series.low, series.high) == ([low], [high])


def test_differences_and_vectors_have_whole_error_bars():
    for estimate in (VectorEstimate("x", total="t", entries=2), CombinationEstimate("x")):
        series = _Series.of("x", estimate, [3.0, -3.0], [10.0, 1.0])
        assert (series.low, series.high) == ([-7, -4], [13, -2])


def test_lists_and_bins_have_a_mark_for_each(visits):
    calls = (
        "VECTOR_AVG([visits, 1], length => 2, bound => 7) AS v, HISTOGRAM(visits, [0, 3, 7]) AS h, "
        "VECTOR_SUM([1, 1, 1, 1, 1, 1, 1], length => 7, bound => 7) AS long"
    )
    release = sf.sql(question(f"year, {calls}"))
    vectors, bins, long = Chart.of(release, Bars()).panels
    table = release.to_arrow()
    assert [s.label for s in vectors.series] == ["[1]", "[2]"] and vectors.title == "v"
    assert [s.values for s in vectors.series] == [list(v) for v in zip(*table["v"].to_pylist(), strict=True)]
    assert [s.label for s in bins.series] == ["0_3", "3_7"]
    assert len(long.series) == FIRST_ENTRIES and long.title == "long, first 6 of 7 entries"
    bar_chart(release, "lists.svg")
    assert Path("lists.svg").stat().st_size > 0


def test_many_groups_and_many_answers_are_cut_and_said(visits):
    many = ", ".join(f"COUNT(*) AS n{i}" for i in range(MOST_PANELS + 2))
    release = sf.sql(
        question(f"year % 2 AS odd, {many}"),
    )
    chart = Chart.of(release, Bars())
    assert len(chart.panels) == MOST_PANELS
    assert f"The first {MOST_PANELS} of {MOST_PANELS + 2} answers." in chart.footer
    assert len(chart.labels) <= MOST_GROUPS


def test_odd_keys_draw(visits):
    key = "CASE year WHEN 1984 THEN '$x^' WHEN 1985 THEN '漢' || chr(27) END"
    release = sf.sql(question(f"{key} AS k, COUNT(*) AS n"))
    bar_chart(release, "odd.png")
    assert sorted(Chart.of(release, Bars()).labels) == sorted(["$x^", "漢 ", "NULL"])


@pytest.mark.parametrize("path", ["out.pdf", "out", "no/such/out.png"])
def test_bad_paths(release, path):
    with pytest.raises(ParameterError):
        bar_chart(release, path)


def test_bad_confidence(release):
    with pytest.raises(ParameterError):
        bar_chart(release, "out.png", bars=Bars._checked(1.5))


@pytest.mark.noise_cannot_matter("the lines below the panels are looked at")
def test_no_line_below_the_panels_is_cut(release):
    chart = Chart.of(release, Bars(0.999, simultaneous=True))
    one = replace(chart, panels=chart.panels[:1])

    def reach(figure):
        figure.set_dpi(160)  # as it is written
        (written,) = figure.texts
        return written.get_window_extent().x1, figure.bbox.x1

    with _plain_style():
        right, edge = reach(_figure(one))
        assert right < edge
        # Planted: a figure as wide as a panel alone.
        narrow = _figure(one)
        narrow.set_size_inches(3.4, 3)
        right, edge = reach(narrow)
        assert right > edge
