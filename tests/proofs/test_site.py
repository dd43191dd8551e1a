"""The documentation site builds without a warning, with every page in reach and its mathematics set."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(page.relative_to(DOCS) for page in DOCS.rglob("*.md"))


def test_mathematics_is_set(site: Path) -> None:
    """Formulas of the source come out as formulas, which browsers set without a script; none stays text."""
    # One test of all pages, as each process that had some of them would build the site.
    assert not [
        str(page) for page in PAGES if not is_set(page, (site / page.with_suffix(".html")).read_text())
    ]


def is_set(page: Path, html: str) -> bool:
    source = re.sub(r"^```.*?^```|`[^`\n]*`", "", (DOCS / page).read_text(), flags=re.S | re.M)
    written = len(re.findall(r"\$\$.+?\$\$|\$[^$]+\$", source, flags=re.S))
    rest = re.sub(r"<(script|pre|code)\b.*?</\1>|<span class=\"math.*?</(?:span|div)>", "", html, flags=re.S)
    return (
        len(re.findall(r"class=\"math notranslate nohighlight\"><math", html)) == written and "$" not in rest
    )
