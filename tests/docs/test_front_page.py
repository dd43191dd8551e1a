"""README and the front page show one release, which the picture shows too, and its bars hold the exact means."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WITH_BAR = r"[\d.,]+ ± [\d.,]+"


def rows(text: str, begins: str) -> dict[str, list[str]]:
    lines = (
        re.findall(rf"^{begins}(\d{{4}}) .*$", text, re.M),
        re.findall(rf"^{begins}\d{{4}} .*$", text, re.M),
    )
    return {year: re.findall(WITH_BAR, line) for year, line in zip(*lines, strict=True)}


@pytest.fixture(scope="module")
def front():
    """What docs/pictures/front.py has."""
    return runpy.run_path(str(ROOT / "docs" / "pictures" / "front.py"))


@pytest.mark.noise_cannot_matter("its noise is seeded")
def test_the_table_is_the_release_of_the_picture(front) -> None:
    drawn = {year: numbers for year, *numbers in front["rows"](front["released"](1))}
    assert rows((ROOT / "README.md").read_text().split("## Start")[0], "") == drawn
    assert set(front["EPSILONS"]) >= {1}


@pytest.mark.noise_cannot_matter("nothing is drawn")
def test_the_release_is_that_of_the_first_command(front) -> None:
    import sfumato as sf
    from sfumato.dialect import parse

    text = (ROOT / "examples" / "visits_by_year.sql").read_text()
    (asked,) = parse(text).aggregates[1:]
    assert dict(front["question"]().aggregates)["visits"] == asked[1]
    command = sf.sql(text, tables={"rwm5yr.parquet": front["table"]()}).plan
    shown = front["question"]().plan(epsilon=1, delta="1e-6")
    assert (command.noise, command.selection, command.scales) == (shown.noise, shown.selection, shown.scales)


@pytest.mark.long
@pytest.mark.flakiness(k=11, because="binomial tails below 1e-12 for each of five years, twice")
def test_the_bars_of_the_front_page_hold_the_exact_means(front) -> None:
    # Each bar fails with probability 0.06 at most, for what the bounds cut too: of 40, more than 18 fail with
    # one below 1e-12. With bounds 0 to 30 the bar of 1984 fails in more than half of the releases.
    exact, clamped = front["missed"](40)
    assert max(exact.values()) <= 18 and max(clamped.values()) <= 18
    assert front["missed"](40, 20)[0][1984] > 18


def test_the_table_is_readmes() -> None:
    shown = rows((ROOT / "docs" / "index.md").read_text(), r"\| ")
    given = rows((ROOT / "README.md").read_text().split("## Start")[0], "")
    assert shown == given
    assert len(shown) == 5
