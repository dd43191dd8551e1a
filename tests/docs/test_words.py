"""README, CHANGELOG and the pages in docs/ keep within their numbers of words."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROSE = runpy.run_path(str(ROOT / "tools" / "prose.py"))


@pytest.mark.noise_cannot_matter("nothing is drawn")
@pytest.mark.parametrize(("name", "most"), [("README.md", 900), ("CHANGELOG.md", 1_500), ("docs", 90_000)])
def test_pages_keep_within_their_words(name: str, most: int) -> None:
    assert PROSE["MAX_WORDS"][name] == most
    assert 0 < PROSE["count_words"](ROOT / name) <= most


@pytest.mark.noise_cannot_matter("nothing is drawn")
def test_only_code_and_tables_by_tools_are_not_counted(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    written = "<!-- begin: written by tools/trust.py -->\n| one | two |\n<!-- end -->"
    page.write_text(
        f"# Three words here\n\n```python\nprint('code')\n```\n\n{written}\n\n| a | table |\n|---|---|\n"
    )
    assert PROSE["count_words"](page) == 5
    assert PROSE["count_words"](tmp_path) == 5
