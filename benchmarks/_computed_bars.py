"""Coverage and width of error bars of numbers computed from several noisy ones: `coverage.py --only computed`.

People in 5 public groups are counted and two columns are added up. Bars are those of the sums, means, ratios
and differences, of SQL arithmetic with them, of comparisons of two groups and of shares of the total. They are
held against exact numbers in each of so many releases.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import sfumato as sf

LEVELS = (0.5, 0.8, 0.95)
GROUPS, PEOPLE, EPSILON = 5, 3_000, 0.2
SIDES, WEIGHTS = (0, 0, 0, 1, 1), (0.4, 0.2, 0.1, 0.2, 0.1)  # of public tables beside the groups
# Groups of each person, noise and delta. With one group for each person, K-norm noise is drawn by group.
CASES = {
    "K-norm, joint": (GROUPS, "k_norm", 0),
    "K-norm, by group": (1, "k_norm", 0),
    "Laplace": (GROUPS, "laplace", 0),
    "Gaussian": (1, "gaussian", 1e-6),
}
SQL = """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}, delta = {delta}, privacy_unit_column = id,
  max_groups_contributed = {groups}, max_rows_per_group = 1, noise = '{noise}', confidence = {level},
  group_selection_strategy = PUBLIC_GROUPS)
  k.g AS g, 100 * SUM(y, contribution_bounds_per_row => (0, 40)) / SUM(x, contribution_bounds_per_row => (0, 60)) - 100
    AS growth, DP_INTERVAL_LOW(growth) AS low, DP_INTERVAL_HIGH(growth) AS high
  FROM t RIGHT OUTER JOIN (SELECT DISTINCT g FROM keys) AS k ON t.g = k.g GROUP BY k.g ORDER BY g"""
WEIGHTED = """SELECT side, sum(w * y) AS weighted, sum(w * y / x) / sum(w) AS rate, sum(w * y) / sum(w * x) AS share
  FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}, delta = {delta}, privacy_unit_column = id,
    max_groups_contributed = {groups}, max_rows_per_group = 1, noise = '{noise}',
    group_selection_strategy = PUBLIC_GROUPS)
    k.g AS g, SUM(x, contribution_bounds_per_row => (0, 60)) AS x, SUM(y, contribution_bounds_per_row => (0, 40)) AS y
    FROM t RIGHT OUTER JOIN (SELECT DISTINCT g FROM keys) AS k ON t.g = k.g GROUP BY k.g)
  JOIN keys USING (g) GROUP BY side ORDER BY side"""
Bars = Iterator[tuple[str, np.ndarray, np.ndarray]]  # output, whether bars hold, half-widths


def table(groups: int) -> pa.Table:
    """Return the rows of people in so many groups each; no column has missing values."""
    rng, people = np.random.default_rng(7), np.repeat(np.arange(PEOPLE), groups)
    group = (people + np.tile(np.arange(groups), PEOPLE)) % GROUPS
    x = rng.poisson(20, len(people)).clip(0, 60)
    columns = {"id": people, "g": group, "x": x, "y": rng.binomial(x, 0.6).clip(0, 40)}
    fields = [pa.field(name, pa.int64(), nullable=False) for name in columns]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


def run(releases: int) -> None:
    """Print coverage at 50, 80 and 95%, and the mean half-width at 95%, for each noise and output."""
    logging.getLogger("sfumato").setLevel(logging.ERROR)
    print(
        f"{releases} releases at epsilon {EPSILON}; a share of n bars is off by 3 / sqrt(n) at most, as a rule\n"
    )
    print(f"{'noise':<17} {'output':<26} {'50%':>6} {'80%':>6} {'95%':>6} {'width':>9} {'bars':>7}")
    for name, case in CASES.items():
        held: dict[tuple[str, float], list[float]] = defaultdict(list)
        widths: dict[str, list[float]] = defaultdict(list)
        for level, output, holds, half in _released(case, releases):
            held[output, level] += np.ravel(holds).tolist()
            if level == LEVELS[-1]:
                widths[output].append(float(np.mean(half)))
        for output, of in widths.items():
            shares = " ".join(f"{100 * np.mean(held[output, level]):6.1f}" for level in LEVELS)
            print(
                f"{name:<17} {output:<26} {shares} {np.mean(of):9.4g} {len(held[output, LEVELS[0]]):7}",
                flush=True,
            )


def _released(
    case: tuple[int, str, float], releases: int
) -> Iterator[tuple[float, str, np.ndarray, np.ndarray]]:
    groups, noise, delta = case
    rows = table(groups)
    g, x, y = (rows[name].to_numpy() for name in ("g", "x", "y"))
    exact = {"n": np.bincount(g), "x": np.bincount(g, x), "y": np.bincount(g, y)}
    exact |= {
        "mean": exact["x"] / exact["n"],
        "difference": exact["x"] - exact["y"],
        "ratio": exact["y"] / exact["x"],
    }
    people = (
        sf.scan(rows, privacy_unit="id").group_by("g", keys=list(range(GROUPS))).bound(groups=groups, rows=1)
    )
    question = people.agg(
        n=sf.count(),
        x=sf.sum("x", lower=0, upper=60, per="row"),
        y=sf.sum("y", lower=0, upper=40, per="row"),
        mean=sf.mean("x", lower=0, upper=60),
        difference=sf.difference("x", "y"),
        ratio=sf.ratio("y", "x"),
    )
    keys = pa.table({"g": list(range(GROUPS)), "side": SIDES, "w": WEIGHTS})
    tables = {"t": rows, "keys": sf.public(keys)}
    for i in range(releases):
        yield from _weighted(
            tables, exact, WEIGHTED.format(epsilon=EPSILON, delta=delta, groups=groups, noise=noise)
        )
        release = question.release(epsilon=EPSILON, delta=delta, noise=noise)
        for level in LEVELS:
            names = ("n", "x") if i % 8 else ("n", "x", "mean")  # of which each takes long
            for bars in (_numbers(release, exact, level), _between(release, exact, level, names)):
                yield from ((level, *one) for one in bars)
        if i % 8:
            continue
        for level in LEVELS:
            text = SQL.format(epsilon=EPSILON, delta=delta, groups=groups, noise=noise, level=level)
            found = sf.sql(text, tables=tables).to_arrow()
            low, high = (found[name].to_numpy() for name in ("low", "high"))
            growth = 100 * exact["ratio"] - 100
            yield level, "100 * y / x - 100 in SQL", (low <= growth) & (growth <= high), (high - low) / 2


def _weighted(
    tables: dict[str, object], exact: dict[str, np.ndarray], text: str
) -> Iterator[tuple[float, str, np.ndarray, np.ndarray]]:
    """Yield weighted sums over groups in SQL, as age-standardised rates are."""
    release = sf.sql(text, tables=tables)
    found, x, y = release.to_arrow(), exact["x"], exact["y"]
    over = lambda of: np.bincount(SIDES, np.array(WEIGHTS) * of)  # noqa: E731
    truths = {"weighted": over(y), "rate": over(y / x) / over(1), "share": over(y) / over(x)}
    for level in LEVELS:
        bars = release.errors(level)
        for name, truth in truths.items():
            half = bars[name].to_numpy()
            yield (
                level,
                f"{name} over groups in SQL",
                np.abs(found[name].to_numpy() - truth) <= half * (1 + 1e-9),
                half,
            )


def _numbers(release: sf.Release, exact: dict[str, np.ndarray], level: float) -> Bars:
    found, bars = release.to_arrow(), release.errors(level)
    for name, truth in exact.items():
        half = bars[name].to_numpy()
        yield name, np.abs(found[name].to_numpy() - truth) <= half * (1 + 1e-9), half


def _between(release: sf.Release, exact: dict[str, np.ndarray], level: float, names: tuple[str, ...]) -> Bars:
    for name in names:
        one, other = exact[name][:2]
        found = release.compare(name, 0, 1, level)
        for of, (low, high), truth in (("-", found.difference, one - other), ("/", found.ratio, one / other)):
            yield (
                f"{name} {of} {name}, two groups",
                np.array([low <= truth <= high]),
                np.array([(high - low) / 2]),
            )
        if name != "mean":
            shares, truth = release.share_of_total(name, level), exact[name] / exact[name].sum()
            low, high = (shares[end].to_numpy() for end in ("low", "high"))
            yield f"share of total {name}", (low <= truth) & (truth <= high), (high - low) / 2
