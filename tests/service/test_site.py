"""The site of the documentation in a real browser, on wide and narrow screens: nothing is wider than its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import Browser, Tab, program, running

pytestmark = pytest.mark.long

# Wide tables, long messages, long lines of code, signatures, pictures.
PAGES = ("index", "statistics", "sources", "mistakes", "choosing", "threat-model", "tutorials/first_table")
# What is wider than the screen, and which boxes of code and tables are wider than their place.
WIDER = """(() => {
  const wider = (e) => e.scrollWidth > e.clientWidth + 1;
  return [...(document.documentElement.scrollWidth > innerWidth ? ["page"] : []),
          ...[...document.querySelectorAll("article pre")].filter(wider).map(() => "code"),
          ...[...document.querySelectorAll("article .table-wrapper")].filter(wider).map(() => "table")];
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if program() is None:
        pytest.skip("needs a browser: chromium in PATH, or Debian's package chromium")
    with running(tmp_path_factory.mktemp("profile")) as made:
        yield made


def opened(browser: Browser, page: Path, width: int) -> Tab:
    tab = browser.tab(page.as_uri())
    tab.size(width, 900)
    return tab


def test_all_fits_its_place(site: Path, browser: Browser) -> None:
    found = {}
    for page in PAGES:
        tab = opened(browser, site / f"{page}.html", 1280)
        found[page] = tab.evaluate(WIDER)
        tab.size(360, 900)
        # On a narrow screen tables scroll in their place, and the page does not.
        found[f"{page}, narrow"] = [what for what in tab.evaluate(WIDER) if what == "page"]
    assert not {page: what for page, what in found.items() if what}


# Formulas that take no room, and those that are wider than their place and cannot be scrolled in it.
UNSEEN = """[...document.querySelectorAll("math")].filter((m) => {
  const box = m.getBoundingClientRect(), place = m.closest("div.math, p, li, td, article").getBoundingClientRect();
  const scrolls = m.parentElement.matches("div.math") && getComputedStyle(m.parentElement).overflowX === "auto";
  return box.width < 2 || box.height < 2 || (box.right > place.right + 1 && !scrolls);
}).map((m) => m.textContent)"""


def test_formulas_are_seen(site: Path, browser: Browser) -> None:
    for page, fewest in {"proofs/k_norm": 300, "proofs/snapping": 150, "surveys": 30}.items():
        tab = opened(browser, site / f"{page}.html", 1280)
        assert tab.evaluate("document.querySelectorAll('math').length") > fewest
        assert tab.evaluate("document.fonts.check('1em \"Latin Modern Math of this site\"')")
        assert not tab.evaluate(UNSEEN)
        tab.size(360, 900)
        assert not tab.evaluate(UNSEEN) and "page" not in tab.evaluate(WIDER)
        assert not [url for url in tab.requests if url.startswith("http")]
