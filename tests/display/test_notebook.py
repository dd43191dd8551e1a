"""The notebook of the examples, run as people run it, and looked at in a real browser.

`SFUMATO_PICTURES=1 pytest -m long tests/display/test_notebook.py` writes the picture of docs/notebooks.md anew.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.long,
    pytest.mark.noise_cannot_matter("it looks at what is shown around the numbers"),
]
ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "pictures" / "notebook.png"
DARK = "body { background: #111; color: #ddd; }"
PAGE = """<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>body {{ font: 14px/1.5 system-ui, sans-serif; margin: 1rem; }}
body > pre {{ font-size: 12px; padding: .5rem; background: #8882; overflow-x: auto; }} img {{ max-width: 100%; }} {}</style>"""


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    """The cells of the notebook after it was run."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    folder = tmp_path_factory.mktemp("notebook")
    command = [sys.executable, str(ROOT / "examples" / "rwm5yr.py"), str(folder / "rwm5yr.parquet")]
    subprocess.run(command, check=True, capture_output=True)
    notebook = nbformat.read(ROOT / "examples" / "visits.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    assert (folder / "visits.xlsx").read_bytes().startswith(b"PK")
    yield [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell: Any) -> dict[str, str]:
    """What a cell shows, by its kind."""
    found: dict[str, str] = {}
    for output in cell.outputs:
        found |= dict(output.get("data", {}))
    return found


def test_what_is_shown_is_meant_for_people(cells: list[Any]) -> None:
    assert not [output for cell in cells for output in cell.outputs if output.output_type == "error"]
    for cell in cells:
        text = str(shown(cell))
        assert "Fraction(" not in text and " object at 0x" not in text
    kinds = {cell.source.splitlines()[-1]: shown(cell) for cell in cells}
    for line in (
        "people",
        "question",
        "question.plan(epsilon=1)",
        "release",
        "budget",
        "sf.explain_epsilon(1)",
    ):
        assert 'class="sfumato' in kinds[line]["text/html"], line
    assert "image/png" in kinds["release.plot()"]
    before, after = (
        shown(cell)["text/html"]
        for cell in cells
        if cell.source.endswith("release") and "write" not in cell.source
    )
    assert "not drawn yet" in before and "<td" in after and " ± " in after and "not drawn yet" not in after


@pytest.mark.parametrize(("wide", "style"), [(1000, ""), (380, DARK)], ids=["wide, light", "narrow, dark"])
def test_a_browser_shows_it(cells: list[Any], wide: int, style: str, tmp_path: Path) -> None:
    from tests.support.browser import program, running

    if program() is None:
        pytest.skip("needs a browser: chromium in PATH, or Debian's package chromium")
    page = tmp_path / "page.html"
    body = []
    for place, cell in enumerate(cells):
        body.append(
            {5: "<div id=kept>", 8: "</div>"}.get(place, "")
        )  # of which there is a picture in the docs
        data = shown(cell)
        plot = (
            f'<img alt="" src="data:image/png;base64,{data["image/png"].strip()}">'
            if "image/png" in data
            else ""
        )
        body.append(f"<pre>{cell.source}</pre>{plot or data.get('text/html', '')}")
    page.write_text(PAGE.format(style) + "\n".join(body), encoding="utf-8")
    with running(tmp_path / "profile") as browser:
        tab = browser.tab(page.as_uri())
        tab.size(wide, 900)
        assert tab.complaints == []
        # Nothing is wider than the page but what has a scroll bar of its own.
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        ink, paper = tab.evaluate(
            "[getComputedStyle(document.querySelector('.sfumato td')).color, getComputedStyle(document.body).color]"
        )
        assert ink == paper
        high = int(tab.evaluate("document.documentElement.scrollHeight"))
        tab.size(wide, high)
        tab.picture(tmp_path / "seen.png")
        tab.picture(tmp_path / "kept.png", "#kept")
    assert (tmp_path / "seen.png").stat().st_size > 20_000
    if os.environ.get("SFUMATO_PICTURES") and wide > 500 and not style:
        from PIL import Image

        Image.open(tmp_path / "kept.png").convert("RGB").quantize(64).save(PICTURE, optimize=True)
