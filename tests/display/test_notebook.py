"""The notebook of the examples, run as people run it, and looked at in a real browser.

`SFUMATO_PICTURES=1 pytest -m long tests/display/test_notebook.py` writes the picture of docs/notebooks.md anew.
"""

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
