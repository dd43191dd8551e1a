"""Draw docs/pictures/analysis.svg: the heat map of "Utility analysis for the owner" in docs/choosing.md.

python docs/pictures/analysis.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pyarrow as pa

import sfumato as sf

if __name__ == "__main__":
    mpl.rcParams["svg.hashsalt"] = "analysis"
    rng = np.random.default_rng(1)
    size = rng.integers(1, 9, 3000)
    visits = pa.table(
        {
            "id": np.repeat(np.arange(3000), size),
            "town": [f"T{int(t)}" for t in 6 * rng.random(size.sum()) ** 2],
            "minutes": rng.gamma(2, 15, size.sum()),
        }
    )
    table = sf.scan(visits, privacy_unit="id").group_by("town").bound(groups=1, rows=1)
    question = table.agg(n=sf.count(), minutes=sf.mean("minutes", lower=0, upper=60))
    compared = {"groups": [1, 2, 4, 6], "rows": [1, 3], "bounds": {"minutes": [(0, 60), (0, 120)]}}
    question.analyze(epsilon=0.5, delta="1e-6", **compared).plot(Path(__file__).parent / "analysis.svg")
