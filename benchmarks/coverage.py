"""Coverage and width of the error bars of every statistic, at 50, 80 and 95%.

    python benchmarks/coverage.py [--releases 1000] [--only WORD] [--table WORD] [--noise NAME]
        [--opendp PYTHON] [--smartnoise PYTHON] [--peer-releases 1000]
    python benchmarks/coverage.py --strata [--repetitions 10000] [--quick]

Each question is released so many times with each kind of noise, from each table of `_held_out.py`. A line says
how often the bars of an output hold the exact number, computed here with NumPy, over all groups and releases;
`width` is the median half-width at 95%, over the 95% quantile of the true errors. A star is beside a coverage
that is out of its window: for sums and ratios of noisy numbers from 3 points below the confidence to 5 above; for
quantiles, spread and fits 78 to 90 at 80% and 94 to 98 at 95%, without the upper ends for quantiles of whole
numbers. The last table has the range of each statistic over the tables.

Noise of many releases is drawn at once, as a release draws it. Bars that are the widest of a few among all groups
of a release (docs/statistics.md) are so among 100 releases here, so up to a point wider. What is computed from
whole releases is measured with the first table. With 1,000 releases it takes about 20 minutes on two cores. OpenDP and
SmartNoise give error bars of counts and sums, PipelineDP and Tumult Analytics none. `--strata` measures
stratified proportions over many designs; see `_strata_bars.py`.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import _strata_bars as strata
import numpy as np
import pandas as pd
import pyarrow as pa
from _held_out import MAX_WEIGHT, Source, sources
from _peers import OPENDP, SMARTNOISE
from _runs import run

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.plan.group_measurement import SideBySide
from sfumato.query.aggregates import FUNCTIONS

LEVELS = (0.5, 0.8, 0.95)
LINEAR = ((0.47, 0.55), (0.77, 0.85), (0.92, 1.0))
SPREAD = ((0.0, 1.0), (0.78, 0.90), (0.94, 0.98))
DELTAS = {"k_norm": 0, "laplace": 0, "gaussian": 1e-6}
AT_ONCE = 100  # releases
Truth = Callable[[pd.DataFrame], float | np.ndarray]
# Output, errors, and for each level how far bars reach below and above 0, for the error.
Bars = Iterator[tuple[str, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]]


@dataclass(frozen=True)
class Question:
    """Aggregates by output, and what the exact output of a group of rows is.

    Args:
        asked: the aggregates.
        truths: by output.
        epsilon: of a release.
        windows: of coverage at each level.
        grouped: how groups are made of the table.
    """

    asked: Mapping[str, sf.Aggregate]
    truths: Mapping[str, Truth]
    epsilon: float = 0.2
    windows: tuple[tuple[float, float], ...] = LINEAR
    grouped: str = "groups"


def questions(of: Source) -> dict[str, Question]:
    """Return what is requested together, by name."""
    x, y = ({"lower": low, "upper": high} for low, high in (of.x, of.y))
    weight, both = {"weight": "w", "max_weight": MAX_WEIGHT}, {"x": of.x, "y": of.y}
    edges = np.unique(np.linspace(*of.x, 6).round()).tolist()
    values = sorted(of.frame.v.unique())
    whole = bool((of.frame.x % 1 == 0).all())

    def rank(r: float) -> Truth:
        return lambda f: float(np.sort(f.x)[max(int(np.ceil(r * len(f) - 1e-9)) - 1, 0)])

    def bins(f: pd.DataFrame, **more: Any) -> np.ndarray:
        return np.histogram(f.x, edges, **more)[0]

    def each(name: str, columns: list[str], of_all: Truth) -> dict[str, Truth]:
        return {f"{name}_{c}": lambda f, i=i: np.asarray(of_all(f))[i] for i, c in enumerate(columns)}

    named = sf.histogram("x", edges).outputs("histogram")
    in_bins = [n.removeprefix("histogram_") for n in named]
    return {
        "counts": Question(
            {
                "count": sf.count(), "count_units": sf.count_units(), "count_if": sf.count_if("flag"),
                "sum": sf.sum("x", **x), "proportion": sf.proportion("flag"),
                "count_distinct": sf.count_distinct("v", values=1),
            },
            {
                "count": len, "count_units": len, "count_if": lambda f: f.flag.sum(), "sum": lambda f: f.x.sum(),
                "proportion": lambda f: f.flag.mean(), "count_distinct": lambda f: f.v.nunique(),
            },
        ),
        "sums": Question(
            {
                "sum_per_row": sf.sum("x", **x, per="row"), "other": sf.sum("y", **y, per="row"),
                "mean": sf.mean("x", **x), "ratio": sf.ratio("other", "sum_per_row"),
                "difference": sf.difference("sum_per_row", "other"),
            },
            {
                "sum_per_row": lambda f: f.x.sum(), "mean": lambda f: f.x.mean(),
                "ratio": lambda f: f.y.sum() / f.x.sum(), "difference": lambda f: f.x.sum() - f.y.sum(),
            },
        ),
        "sums of columns with NULL": Question(
            {
                "a": sf.sum("x_null", **x, per="row"), "b": sf.sum("y_null", **y, per="row"),
                "mean, NULL": sf.mean("x_null", **x), "ratio, NULL": sf.ratio("b", "a"),
                "difference, NULL": sf.difference("a", "b"),
            },
            {
                "a": lambda f: f.x_null.sum(), "mean, NULL": lambda f: f.x_null.mean(),
                "ratio, NULL": lambda f: f.y_null.sum() / f.x_null.sum(), "difference, NULL": lambda f: f.x_null.sum() - f.y_null.sum(),
            },
        ),
        "weighted": Question(
            {
                "count, weighted": sf.count(**weight), "sum, weighted": sf.sum("x", **x, **weight),
                "mean, weighted": sf.mean("x", **x, **weight),
            },
            {
                "count, weighted": lambda f: f.w.sum(), "sum, weighted": lambda f: (f.w * f.x).sum(),
                "mean, weighted": lambda f: np.average(f.x, weights=f.w),
            },
        ),
        "bins": Question(
            {"histogram": sf.histogram("x", edges), "share": sf.histogram("x", edges, shares=True)},
            each("histogram", in_bins, bins) | each("share", in_bins, lambda f: bins(f) / max(bins(f).sum(), 1)),
        ),
        "weighted bins": Question(
            {"histogram, weighted": sf.histogram("x", edges, **weight)},
            each("histogram, weighted", in_bins, lambda f: bins(f, weights=f.w)),
        ),
        "values": Question(
            {"value_counts": sf.value_counts("v", values)},
            {f"value_counts_{v}": lambda f, v=v: (f.v == v).sum() for v in values},
        ),
        "vectors": Question(
            {
                "vector_sum": sf.vector_sum("vector", length=3, bound=1),
                "vector_mean": sf.vector_mean("vector", length=3, bound=1),
            },
            {
                "vector_sum": lambda f: of.vectors[f.index].sum(axis=0),
                "vector_mean": lambda f: of.vectors[f.index].mean(axis=0),
            },
        ),
        "SQL": Question({}, {"growth_computed": lambda f: 100 * f.y.sum() / f.x.sum() - 100}, grouped="SQL"),
        "totals": Question(
            {"count, totals": sf.count(), "mean, totals": sf.mean("x", **x)},
            {"count, totals": len, "mean, totals": lambda f: f.x.mean()},
            grouped="totals",
        ),
        "time steps": Question(
            {"cumulative": sf.cumulative(sf.count())}, {"cumulative": len}, grouped="time steps"
        ),
        "quantiles": Question(
            {
                "quantiles": sf.quantiles("x", [0.25, 0.75], **x), "quantile": sf.quantile("x", 0.9, **x),
                "median": sf.median("x", **x), "min": sf.min("x", **x), "max": sf.max("x", **x),
            },
            {
                "quantiles_25": rank(0.25), "quantiles_75": rank(0.75), "quantile": rank(0.9),
                "median": rank(0.5), "min": rank(0.01), "max": rank(0.99),
            },
            1, ((0.0, 1.0), (0.78, 1.0), (0.94, 1.0)) if whole else SPREAD,
        ),
        "spread": Question(
            {"variance": sf.variance("x", **x), "stddev": sf.stddev("x", **x)},
            {"variance": lambda f: f.x.var(ddof=0), "stddev": lambda f: f.x.std(ddof=0)},
            1, SPREAD,
        ),
        "covariance": Question(
            {"covariance": sf.covariance("x", "y", bounds=both)},
            {"covariance": lambda f: f.x.cov(f.y, ddof=0)}, 1, SPREAD,
        ),
        "correlation": Question(
            {"correlation": sf.correlation("x", "y", bounds=both)}, {"correlation": lambda f: f.x.corr(f.y)}, 1, SPREAD
        ),
        "fit": Question(
            {"linear_regression": sf.linear_regression("y", ["x"], bounds=both)},
            each("linear_regression", ["x", "intercept"], lambda f: np.polyfit(f.x, f.y, 1)), 1, SPREAD,
        ),
    }  # fmt: skip


def grouped(of: Source, how: str) -> sf.Table:
    """Return the table in its groups, their totals, or time steps."""
    # After it, decimals are known not to be missing.
    rows = sf.scan(of.arrow(), privacy_unit="id").filter("x <= 1000 AND y <= 1000")
    if how == "time steps":
        steps = sorted(of.frame.t.unique())
        return rows.group_by("t", keys=steps).bound(groups=of.groups, rows=of.groups)
    by = rows.group_by("g", keys=of.keys)
    return (by.totals() if how == "totals" else by).bound(groups=of.groups, rows=1)


def in_sql(of: Source, epsilon: float, noise: str) -> sf.Release:
    """Return the release under a formula of SQL, of which nothing is drawn yet."""
    bounds = [f"contribution_bounds_per_row => ({low}, {high})" for low, high in (of.x, of.y)]
    text = f"""SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}, delta = {DELTAS[noise]},
        privacy_unit_column = id, max_groups_contributed = {of.groups}, max_rows_per_group = 1, noise = '{noise}',
        group_selection_strategy = PUBLIC_GROUPS)
        k.g AS g, 100 * SUM(y, {bounds[1]}) / SUM(x, {bounds[0]}) - 100 AS growth
        FROM t RIGHT OUTER JOIN (SELECT DISTINCT g FROM keys) AS k ON t.g = k.g GROUP BY k.g ORDER BY g"""
    tables = {"t": of.arrow().select(["id", "g", "x", "y"]), "keys": sf.public(pa.table({"g": of.keys}))}
    return sf.sql(text, tables=tables).released


def exact(of: Source, how: str, key: object, truth: Truth) -> float | np.ndarray:
    """Return the exact output of one group, of all of them, or of all time steps up to one."""
    f = of.frame
    rows = f[f.t <= key] if how == "time steps" else f if key is None else f[f.g == key]
    return np.asarray(truth(rows), float)


def measured(of: Source, question: Question, noise: str, releases: int) -> Bars:
    """Yield the bars of each output over releases of a question."""
    if question.grouped == "SQL":
        asked = in_sql(of, question.epsilon, noise)
        plan = asked.plan
    else:
        asked = grouped(of, question.grouped).agg(**question.asked)
        plan = asked.plan(epsilon=question.epsilon, noise=noise, delta=DELTAS[noise])
    own, known = plan.measurement, {}
    (batch,) = (
        pa.Table.from_batches(asked._engine.statistics(plan.exact, 1 << 20)).combine_chunks().to_batches()
    )
    joint = question.grouped in ("totals", "time steps")
    size = 1 if joint else min(AT_ONCE, releases)
    tiled = batch.take(pa.array(np.tile(np.arange(batch.num_rows), size)))
    many = replace(own, noise=SideBySide(own.noise, size)) if own.at_once and not joint else own
    for _ in range(releases // size):
        drawn = many.draw(tiled)
        numbers = replace(drawn.numbers, noise=own.noise)
        keys = drawn.keys.column(0).to_pylist()
        for e in own.requirements.estimates:
            if e.name not in question.truths:
                continue
            for key in {(e.name, k) for k in keys} - known.keys():
                known[key] = exact(of, question.grouped, key[1], question.truths[e.name])
            errors = e.shown(numbers) - np.array([known[e.name, k] for k in keys])
            yield e.name, errors, [(-half, half) for half in (e.half_width(numbers, c) for c in LEVELS)]


def released(of: Source, noise: str, releases: int) -> Bars:
    """Yield the bars of what releases say of two groups, of shares, and of two releases."""
    asked = grouped(of, "groups").agg(n=sf.count(), x=sf.sum("x", lower=of.x[0], upper=of.x[1], per="row"))
    budget = {"epsilon": 0.2, "noise": noise, "delta": DELTAS[noise]}
    groups = of.frame.groupby("g")
    size, total = groups.size(), groups.x.sum()
    before = None
    for _ in range(releases):
        release = asked.release(**budget)
        for name, truth in (("n", size), ("x", total)):
            one, other = truth[of.keys[0]], truth[of.keys[1]]
            two = [release.compare(name, *of.keys[:2], level) for level in LEVELS]
            yield f"compare, difference of {name}", *_around(one - other, [c.difference for c in two])
            yield f"compare, ratio of {name}", *_around(one / other, [c.ratio for c in two])
            shares = [release.share_of_total(name, level) for level in LEVELS]
            ends = [(s["low"].to_numpy(), s["high"].to_numpy()) for s in shares]
            yield f"share_of_total of {name}", *_around((truth / truth.sum()).to_numpy(), ends)
        if before is not None:
            yield from _beside(sf.combine([before, release]), {"x": total.to_numpy()}, "combine")
            yield from _beside(sf.change(before, release), {"x": 0.0}, "change")
        before = None if before is not None else release


def over_groups(of: Source, noise: str, releases: int) -> Bars:
    """Yield the bars of weighted sums over released groups in SQL, such as age-standardised rates."""
    bounds = [f"contribution_bounds_per_row => ({low}, {high})" for low, high in (of.x, of.y)]
    text = f"""SELECT sum(w * y) AS total, sum(w * y / x) / sum(w) AS rate, sum(w * y) / sum(w * x) AS share
        FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.2, delta = {DELTAS[noise]},
            privacy_unit_column = id, max_groups_contributed = {of.groups}, max_rows_per_group = 1,
            noise = '{noise}', group_selection_strategy = PUBLIC_GROUPS)
            k.g AS g, SUM(x, {bounds[0]}) AS x, SUM(y, {bounds[1]}) AS y
            FROM t RIGHT OUTER JOIN (SELECT DISTINCT g FROM keys) AS k ON t.g = k.g GROUP BY k.g)
        JOIN keys USING (g)"""
    w, groups = np.arange(1, len(of.keys) + 1) / 10, of.frame.groupby("g")
    keys = sf.public(pa.table({"g": of.keys, "w": w}))
    tables = {"t": of.arrow().select(["id", "g", "x", "y"]), "keys": keys}
    x, y = groups.x.sum().to_numpy(), groups.y.sum().to_numpy()
    truths = {"total": w @ y, "rate": w @ (y / x) / w.sum(), "share": w @ y / (w @ x)}
    for _ in range(releases):
        yield from _beside(sf.sql(text, tables=tables), truths, "{} over groups, SQL")


def top(of: Source, noise: str, releases: int) -> Bars:
    """Yield the bars of the numbers of the largest groups."""
    asked = sf.scan(of.arrow(), privacy_unit="id").top("g", k=2, keys=of.keys)
    size = of.frame.groupby("g").size()
    for _ in range(releases):
        release = asked.release(epsilon=0.2, delta=DELTAS[noise])
        yield from _beside(release, {"units": size[release.to_arrow()["g"].to_pylist()].to_numpy()}, "top")


def _beside(release: Any, truths: Mapping[str, Any], called: str) -> Bars:
    """Yield the bars of columns of a release, called so."""
    shown, bars = release.to_arrow(), [release.errors(level) for level in LEVELS]
    for name, truth in truths.items():
        halves = [bar[name].to_numpy() for bar in bars]
        yield called.format(name), shown[name].to_numpy() - truth, [(-half, half) for half in halves]


def _around(truth: Any, ends: list[Any]) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Return the errors of the middle of intervals, and the intervals beside it."""
    middle = np.atleast_1d((np.asarray(ends[0][0]) + ends[0][1]) / 2)
    return middle - truth, [(low - middle, high - middle) for low, high in ends]


def by_peers(of: Source, options: argparse.Namespace) -> Iterator[tuple[str, str, np.ndarray, np.ndarray]]:
    """Yield output, library, errors and half-widths by level of counts and sums; the others give no error bars."""
    outputs, groups = ["count", "sum"], of.frame.groupby("g")
    truth = np.array([groups.size(), groups.x.sum()], float)
    asked = {
        "outputs": outputs, "groups": of.groups, "rows": 1, "keys": of.keys, "lower": of.x[0], "upper": of.x[1],
        "delta": 1e-6, "epsilons": [0.2], "releases": options.peer_releases, "bind": False,
        "alphas": [round(1 - level, 2) for level in LEVELS],
    }  # fmt: skip
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        of.frame[["id", "g", "x"]].rename(columns={"g": "key"}).to_parquet(path)
        for name, python, script in (
            ("OpenDP", options.opendp, OPENDP),
            ("SmartNoise", options.smartnoise, SMARTNOISE),
        ):
            if python:
                ((numbers,), bars) = run(python, script, path, json.dumps(asked))
                for output, own, exact_one, half in zip(
                    outputs,
                    np.array(numbers, float).transpose(1, 0, 2),
                    truth,
                    np.array(bars, float).T,
                    strict=True,
                ):
                    yield output, name, own - exact_one, half


def in_strata(releases: int) -> Iterator[tuple[str, list[float], float, float]]:
    """Yield, by noise, coverage and width of stratified proportions of a sample of 200 of 6,194."""
    cells = strata.cells(releases, [strata.SCHOOLS], (0.2, "spread"), LEVELS, strata.LAWS[3:7])
    by_law = defaultdict(list)
    for cell in cells:
        by_law[str(cell.law)].append(cell)
    for law, own in by_law.items():
        at = [[c for c in own if float(c.confidence) == level] for level in LEVELS]
        yield (
            law,
            [float(np.mean([c.coverage for c in some])) for some in at],
            at[-1][0].width,
            at[-1][0].wald,
        )


Line = tuple[str, str, str, list[float], float, float, tuple[tuple[float, float], ...]]


def lines(options: argparse.Namespace) -> Iterator[Line]:
    """Yield statistic, noise, table, coverages, median half-width at 95%, it over that of true errors, and windows."""
    tables = sources()
    for table, of in tables.items():
        if options.table not in table:
            continue
        parts = questions(of)
        others = (
            {"released": released, "over groups": over_groups, "top": top}
            if table == next(iter(tables))
            else {}
        )
        parts |= dict.fromkeys(others, Question({}, {}))
        for (name, question), noise in product(parts.items(), options.noise or DELTAS):
            if options.only not in name or (name, noise) == ("top", "k_norm"):
                continue
            try:
                bars = others[name](of, noise, options.releases) if name in others else None
                found = gathered(bars or measured(of, question, noise, options.releases), question)
            except SfumatoError as error:  # such as of noise that a statistic cannot have
                print(f"{name}, {noise}: {error}", file=sys.stderr)
                continue
            for statistic, (held, width, ratio) in found.items():
                yield statistic, noise, table, held, width, ratio, question.windows


def gathered(bars: Bars, question: Question) -> dict[str, tuple[list[float], float, float]]:
    """Return by statistic how often bars hold at each level, and their median half-width at 95%, plain and over the ideal."""
    errors, held, halves = (defaultdict(list) for _ in range(3))
    for output, error, ends in bars:
        name = max((a for a in question.asked if output.startswith(a)), key=len, default=output)
        error = np.ravel(error)  # noqa: PLW2901
        slack = 1e-12 + 1e-12 * np.abs(error)  # what floats lose
        both = [(np.ravel(low) - slack, np.ravel(high) + slack) for low, high in ends]
        shown = np.isfinite(error)
        errors[name].append(np.abs(error[shown]))
        held[name].append([((low <= -error) & (-error <= high))[shown] for low, high in both])
        halves[name].append(((both[-1][1] - both[-1][0]) / 2)[shown])
    found = {}
    for name, parts in errors.items():
        true, half = np.concatenate(parts), np.concatenate(halves[name])
        if len(true):
            ideal = float(np.quantile(true, LEVELS[-1]))
            width = float(np.median(half))
            found[name] = (
                np.concatenate(held[name], axis=1).mean(axis=1).tolist(),
                width,
                width / ideal if ideal else np.nan,
            )
    return found


def marked(held: list[float], windows: tuple[tuple[float, float], ...]) -> str:
    """Return coverages in percent, with a star beside those that are out of their windows."""
    inside = (low <= h <= high for h, (low, high) in zip(held, windows, strict=True))
    return " ".join(f"{100 * h:5.1f}{' ' if ok else '*'}" for h, ok in zip(held, inside, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--releases", type=int, default=1_000)
    parser.add_argument("--only", default="", metavar="WORD", help="questions whose name has it")
    parser.add_argument("--table", default="", metavar="WORD")
    parser.add_argument("--noise", action="append", choices=DELTAS)
    parser.add_argument("--opendp", metavar="PYTHON", help="a Python that has it: bars of counts and sums")
    parser.add_argument("--smartnoise", metavar="PYTHON")
    parser.add_argument("--peer-releases", type=int, default=1_000)
    parser.add_argument(
        "--strata", action="store_true", help="stratified proportions over many designs, alone"
    )
    parser.add_argument("--repetitions", type=int, default=10_000, help="of each of these designs")
    parser.add_argument("--quick", action="store_true", help="two fifths of these designs")
    options = parser.parse_args()
    if options.strata:
        strata.run(options.repetitions, options.quick)
        return
    logging.getLogger("sfumato").setLevel(logging.ERROR)
    start, head = time.monotonic(), f"{'50%':>6} {'80%':>6} {'95%':>6}"
    print(f"{'statistic':26} {'noise':9} {'table':11} {head}  {'half-width':>10} {'width':>6}", flush=True)
    by_statistic: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in lines(options):
        statistic, noise, table, held, width, ratio, windows = line
        by_statistic[statistic, noise].append(line)
        print(
            f"{statistic:26} {noise:9} {table:11} {marked(held, windows)} {width:10.4g} {ratio:6.2f}"
            f"  {time.monotonic() - start:5.0f} s",
            flush=True,
        )
    for table, of in sources().items():
        for output, library, errors, halves in by_peers(of, options) if options.table in table else ():
            held = [float(np.mean(np.abs(errors) <= half)) for half in halves]
            ideal = float(np.quantile(np.abs(errors), LEVELS[-1]))
            print(
                f"{output:17} {library:18} {table:11} {marked(held, LINEAR)} {halves[-1]:10.4g} {halves[-1] / ideal:6.2f}",
                flush=True,
            )
    if "stratified" in options.only or not options.only:
        for law, held, width, wald in in_strata(options.releases):
            print(
                f"{'stratified proportion':26} {law:21} {marked(held, LINEAR)} {width / 2:10.4g} {width / wald:6.2f}"
            )
    print(
        f"\nAll tables: the lowest and highest coverage\n{'statistic':26} {'noise':9} {'50%':>13} {'80%':>13} {'95%':>13}"
    )
    out = 0
    for (statistic, noise), some in by_statistic.items():
        ends = [
            marked([f(of[3][i] for of in some) for i in range(3)], some[0][6]).split() for f in (min, max)
        ]
        out += sum("*" in "".join(pair) for pair in zip(*ends, strict=True))
        print(f"{statistic:26} {noise:9}", *(f"{' to '.join(pair):>14}" for pair in zip(*ends, strict=True)))
    print(f"{out} of {3 * len(by_statistic)} are out of their windows")


def check() -> None:
    """Check that every aggregate is requested."""
    asked = {a for of in sources().values() for q in questions(of).values() for a in q.asked}
    missing = {f.__name__ for f in FUNCTIONS} - {name.split(",")[0].split(" ")[0] for name in asked}
    assert not missing, missing


if __name__ == "__main__":
    check()
    main()
