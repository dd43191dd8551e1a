"""The jobs of other libraries on the pages `docs/coming_from`, run by a Python that has them; prints what each page should say.

    python benchmarks/coming_from.py opendp PYTHON      # also diffprivlib, pipelinedp, smartnoise, tumult

The registry must be in this folder: `python examples/rwm5yr.py`; for libraries that read CSV it is written beside it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd

PAGES = Path(__file__).parents[1] / "docs" / "coming_from"


def main(library: str, python: str) -> None:
    registry = pd.read_parquet("rwm5yr.parquet", columns=["id", "year", "docvis"])
    registry.to_csv("rwm5yr.csv", index=False)
    page = (PAGES / f"{library}.md").read_text()
    (code,) = re.findall(r"^```py\n(.*?)^```$", page, flags=re.S | re.M)
    subprocess.run(
        [python, "-W", "ignore", "-c", code], check=True, env=os.environ | {"PYSPARK_PYTHON": python}
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
