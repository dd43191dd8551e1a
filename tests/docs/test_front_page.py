"""The front page of the site has the numbers that README's first command gave."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
WITH_BAR = r"[\d.,]+ ± [\d.,]+"


def rows(text: str, begins: str) -> dict[str, list[str]]:
    lines = (
        re.findall(rf"^{begins}(\d{{4}}) .*$", text, re.M),
        re.findall(rf"^{begins}\d{{4}} .*$", text, re.M),
    )
    return {year: re.findall(WITH_BAR, line) for year, line in zip(*lines, strict=True)}


def test_the_table_is_readmes() -> None:
    shown = rows((ROOT / "docs" / "index.md").read_text(), r"\| ")
    given = rows((ROOT / "README.md").read_text().split("## Start")[0], "")
    assert shown == given
    assert len(shown) == 5
