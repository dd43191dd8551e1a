"""Pictures of releases: the same bytes each time, and true to the numbers."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.release.chart import bar_chart
from tests.support.commands import query

BOUNDS = "contribution_bounds_per_row => (0, 10)"

pytestmark = pytest.mark.flakiness(k=30, because="noise of scale 3 or less against 900 people in each group")


@pytest.fixture
def release(visits):
    return sf.sql(query(f"year, COUNT(*) AS n, AVG(visits, {BOUNDS}) AS average"))


@pytest.mark.long
def test_files_are_the_same_each_time_whatever_the_settings_of_matplotlib(release):
    import matplotlib

    bar_chart(release, "out.png")
    bar_chart(release, "out.svg")
    first = Path("out.svg").read_bytes()
    with matplotlib.rc_context({"font.size": 30.0, "axes.facecolor": "red"}):
        bar_chart(release, "OUT.SVG")
        assert matplotlib.rcParams["font.size"] == 30.0
    assert Path("OUT.SVG").read_bytes() == first and b"<dc:date>" not in first
    assert Path("out.png").read_bytes().startswith(b"\x89PNG")
    assert ElementTree.parse("out.svg").getroot().tag.endswith("svg") and not list(Path().glob("*.part"))
