"""The documentation site builds without a warning, with every page in reach and its mathematics set."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(page.relative_to(DOCS) for page in DOCS.rglob("*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [
            sys.executable,
            "-m",
            "sphinx",
            "-W",
            "--keep-going",
            "-q",
            "-d",
            out / "doctrees",
            DOCS,
            out / "html",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return out / "html"


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_mathematics_is_set(site: Path, page: Path) -> None:
    """Formulas of the source come out as formulas, with the script that sets them; none stays text."""
    source = re.sub(r"^```.*?^```|`[^`\n]*`", "", (DOCS / page).read_text(), flags=re.S | re.M)
    written = len(re.findall(r"\$\$.+?\$\$|\$[^$]+\$", source, flags=re.S))
    html = (site / page.with_suffix(".html")).read_text()
    assert html.count('class="math notranslate nohighlight"') == written
    assert not written or "mathjax" in html.lower()
    assert "$" not in re.sub(
        r"<(script|pre|code)\b.*?</\1>|<span class=\"math.*?</(?:span|div)>", "", html, flags=re.S
    )
