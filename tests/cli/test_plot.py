"""Pictures of releases are true to the numbers."""

import pytest

import sfumato as sf
from sfumato.query.error_bars import Bars
from sfumato.release.chart import FIRST_ENTRIES, Chart, _figure, _plain_style
from tests.support.commands import query

BOUNDS = "contribution_bounds_per_row => (0, 10)"

ALL = query(
    f"year, COUNT(*) AS n, AVG(visits, {BOUNDS}) AS average, QUANTILES(visits, [0.25, 0.5, 0.75], {BOUNDS}) AS quarter, "
    "VECTOR_AVG([visits, 1], length => 2, bound => 7) AS v, HISTOGRAM(visits, [0, 3, 7]) AS h, "
    "VECTOR_SUM([1, 1, 1, 1, 1, 1, 1], length => 7, bound => 7) AS long"
)


@pytest.mark.long
@pytest.mark.noise_cannot_matter("bars are compared with the numbers that were drawn")
def test_bars_and_marks_are_as_high_as_the_numbers(visits):
    release = sf.sql(ALL)
    chart, table = Chart.from_release(release, Bars()), release.to_arrow()
    assert chart.labels == ["1984", "1985", "1986"]
    *_, vectors, bins, long = chart.panels
    assert [s.label for s in vectors.series] == ["[1]", "[2]"]
    assert [s.values for s in vectors.series] == [list(v) for v in zip(*table["v"].to_pylist(), strict=True)]
    assert [s.label for s in bins.series] == ["0_3", "3_7"] and len(long.series) == FIRST_ENTRIES
    with _plain_style():
        n, average, quarter, *_ = _figure(chart).axes
    assert [bar.get_height() for bar in n.patches] == table["n"].to_pylist()
    assert [bar.get_height() for bar in average.patches] == table["average"].to_pylist()
    drawn = [list(one.get_ydata()) for one in quarter.lines if one.get_marker() == "o"]
    assert drawn == [table[f"quarter_{rank}"].to_pylist() for rank in (25, 50, 75)]
    assert [t.get_text() for t in quarter.get_legend().get_texts()] == ["25%", "50%", "75%"]
