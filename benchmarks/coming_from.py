"""The jobs of other libraries on the pages `docs/coming_from`, run, and what they print held against the pages.

    python benchmarks/coming_from.py                  # all six: in environments of their own, in ./peers
    python benchmarks/coming_from.py opendp tumult    # these; Tumult Analytics needs Java 17
    python benchmarks/coming_from.py --write          # write into the pages what was printed

Numbers may differ, as noise is drawn anew; all else must be as it stands on the page, or 1 is returned. The registry must be in
this folder: `python examples/rwm5yr.py`; for libraries that read CSV it is written beside it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd

PAGES = Path(__file__).parents[1] / "docs" / "coming_from"
# The versions that the pages name, and what they need beside what they ask for.
PEERS = {
    "bigquery": ["zetasql==0.1.5"],
    "diffprivlib": ["diffprivlib==0.6.6", "scikit-learn<1.6", "pandas"],
    "opendp": ["opendp[polars]==0.16.0"],
    "pipelinedp": ["pipeline-dp==0.3.1", "pandas", "pyarrow"],
    "smartnoise": ["smartnoise-sql==1.0.10"],
    "tumult": ["tmlt-analytics==0.21.0"],
}
JOB = re.compile(r"^```py\n(?P<code>.*?)^```\n\n```text\n(?P<printed>.*?)^```$", re.S | re.M)


def without_numbers(text: str) -> str:
    return "".join(re.sub(r"[-+─═]{3,}", "-", re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "#", text)).split())


def environment(library: str) -> Path:
    """Return the Python of an environment of the library's own, which is made where there is none."""
    folder = Path("peers") / library
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "-q", *PEERS[library]], check=True)
        (folder / "ready").touch()
    return (folder / "bin" / "python").absolute()


def run(library: str, write: bool) -> bool:
    """Run one job; tell whether it prints what stands on the page."""
    page = PAGES / f"{library}.md"
    (job,) = JOB.finditer(page.read_text())
    python = environment(library)
    given = os.environ | {"PYSPARK_PYTHON": str(python)}
    done = subprocess.run(
        [python, "-W", "ignore", "-c", job["code"]], env=given, stdout=subprocess.PIPE, text=True, check=False
    )
    printed = "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines() if line.strip())
    same = done.returncode == 0 and without_numbers(printed) == without_numbers(job["printed"])
    print(f"{library}: {'as on the page' if same else 'NOT as on the page'}\n{printed}", flush=True)
    if write and done.returncode == 0:
        text = page.read_text()
        page.write_text(text[: job.start("printed")] + printed + text[job.end("printed") :])
    return same


def main(*given: str) -> int:
    libraries = [name for name in given if name != "--write"] or list(PEERS)
    registry = pd.read_parquet("rwm5yr.parquet", columns=["id", "year", "docvis"])
    registry.to_csv("rwm5yr.csv", index=False)
    same = [run(library, "--write" in given) for library in libraries]
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
