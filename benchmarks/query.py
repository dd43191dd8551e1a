"""Releases of a large Parquet file, of every shape, as ratios to the plain DuckDB query that only groups.

    python benchmarks/query.py [--shapes groups=4 quantile] [--rows 10000000] [--repeats 5]
        [--memory-limit 1GB] [--pipelinedp PYTHON] [--opendp PYTHON]

The file: 10 million rows, 1 million units with a heavy tail (some with 10,000 rows), 1,000 groups. The
job: count, sum and mean by group, at most 4 groups per unit; the other shapes are changes of it. The floor of
each groups by (unit, group), clamps, and adds up what the shape asks of the same columns and keys: it bounds
nothing and adds no noise; it opens its database in the time that is measured, as a release does. A quantile's floor is that of count and sum; a chosen one has public keys and
K-norm noise. Different values (at most 3 of a unit) have DuckDB's own exact distinct count as floor. A
histogram has twenty bins, a vector eight entries, totals ten regions of a hundred groups each, whose floor is a ROLLUP; a stratified
proportion is of all rows, as respondents, with the groups as strata, and `strata` the same of a scan, by units. The ten largest groups
have no limit; their floor counts units and sorts. `compare` is of each group with the first one. Every run is a process of its own, floor and release in turn; the table gives medians, ratios pair by pair (also of CPU seconds, which other work on the
machine changes less), and the largest resident memory of a run. `--memory-limit` is for both. Peers run in
environments of their own (`--pipelinedp`, `--opendp`: a Python that has the library), on the first shape;
PipelineDP on a tenth of the rows.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import duckdb
from _runs import generate, run

# Shape: how its file is made of the common one, if it is another.
SHAPES = {
    "groups=4": "",
    "groups=1": "",
    "groups=40": "",
    "quantile": "",
    "chosen quantile": "",
    "min and max": "",
    "variance": "",
    "public keys": "",
    "one group": "",
    "ten columns": "unit, grp, " + ", ".join(f"75 * random() - 10 AS x{i}" for i in range(10)),
    "text": "'person ' || unit AS unit, 'group ' || grp AS grp, x",
    "weights": "unit, grp, x, 1 + 49 * random() AS w",
    "regression": "unit, grp, x, 75 * random() - 10 AS y",
    "covariance": "unit, grp, x, 75 * random() - 10 AS y",
    "correlation": "unit, grp, x, 75 * random() - 10 AS y",
    "ratio": "",
    "difference": "",
    "compare": "",
    "shares of total": "",
    "proportion by weight": "unit, grp, x > 25 AS yes, 1 + 49 * random() AS w",
    "vectors": "unit, grp, array_value(" + ", ".join(["random() - 0.5"] * 8) + ") AS v",
    "mean of vectors": "unit, grp, array_value(" + ", ".join(["random() - 0.5"] * 8) + ") AS v",
    "totals": "unit, grp // 100 AS region, grp, x",
    "cumulative": "",
    "stratified": "",
    "strata": "",
    "values, shares": "unit, grp, CAST(100_000 * random() ** 3 AS INTEGER) AS x",
    "values, matched": "unit, grp, CAST(100_000 * random() ** 3 AS INTEGER) AS x",
    "text values, matched": "unit, grp, 'product number ' || CAST(100_000 * random() ** 3 AS INTEGER) AS x",
    "large values, matched": "unit, grp, hash(CAST(100_000 * random() ** 3 AS INTEGER)) // 2 AS x",
    "values of days, matched": "unit, grp, DATE '2000-01-01' + CAST(5_000 * random() ** 3 AS INTEGER) AS x",
    "values of few units, matched": "unit % 1000 AS unit, grp, CAST(100_000 * random() ** 3 AS INTEGER) AS x",
    "million values, shares": "unit, grp, CAST(1_000_000 * random() AS INTEGER) AS x",
    "million values, matched": "unit, grp, CAST(1_000_000 * random() AS INTEGER) AS x",
    "values by group, shares": "unit, grp, CAST(100_000 * random() ** 3 AS INTEGER) AS x",
    "values by group, matched": "unit, grp, CAST(100_000 * random() ** 3 AS INTEGER) AS x",
    "histogram": "",
    "value counts": "unit, grp, CAST(10 * random() AS INTEGER) AS x",
    "top": "",
    "top by sum": "",
    "top of a million": "unit, 1000 * grp + CAST(1000 * random() AS INTEGER) % 1000 AS grp, x",
    "million groups": "unit, 1000 * grp + CAST(1000 * random() AS INTEGER) % 1000 AS grp, x",
}

RUN = """
import json, sys, time
path, what, shape, limit, folder = sys.argv[1:6]
columns = [f"x{i}" for i in range(10)] if shape == "ten columns" else ["x"]
columns = [] if "vectors" in shape or "by weight" in shape else columns
of_shape = {"groups=1": 1, "groups=40": 40}

def now():
    return time.perf_counter(), time.process_time()

def floor():
    import duckdb
    start = now()
    con = duckdb.connect(config={"temp_directory": folder} | ({"memory_limit": limit} if limit else {}))
    con.execute("SET enable_progress_bar = false")
    bounded = [f"least(greatest({c}, 0), 50)" for c in columns]
    sums = [f"sum({b})" for b in bounded]
    if shape == "variance":
        sums += [f"sum({b} * {b})" for b in bounded]
    if shape == "ten columns":  # each of which has a mean
        sums += [f"count({c})" for c in columns]
    if "vectors" in shape:
        sums = [f"sum(v[{i + 1}])" for i in range(8)]
    if shape in ("regression", "covariance", "correlation"):
        y = "least(greatest(y, 0), 50)"
        sums += [f"sum({y})", f"sum({bounded[0]} * {y})", f"sum({bounded[0]} * {bounded[0]})"]
        sums += [f"sum({y} * {y})"] * (shape == "correlation")
    if shape == "strata":
        con.execute(f"SELECT grp, sum(n) FROM (SELECT unit, grp, count(*) FILTER (x > 25) / count(*) AS n FROM '{path}' GROUP BY unit, grp) GROUP BY grp").fetchall()
        return start
    if shape == "histogram":
        sums = [f"count(*) FILTER (x >= {2.5 * i} AND x < {2.5 * (i + 1)})" for i in range(20)]
    if shape == "value counts":
        sums = [f"count(*) FILTER (x = {i})" for i in range(11)]
    if shape == "proportion by weight":
        sums = ["sum(w) FILTER (yes)", "sum(w)"]
    if shape == "weights":
        sums += [f"sum({b} * w)" for b in bounded] + ["sum(w)"]
    if "values" in shape:
        key, by = (", grp", " GROUP BY grp") if "group" in shape else ("", "")
        con.execute(f"SELECT count(DISTINCT x){key} FROM '{path}'{by}").fetchall()
        return start
    if shape == "stratified":  # groups alone, as each row is a respondent
        con.execute(f"SELECT grp, count(*), count(*) FILTER (x > 25) FROM '{path}' GROUP BY grp").fetchall()
        return start
    if shape == "top by sum":
        units = f"SELECT grp, least(greatest(sum(x), 0), 50) AS n FROM '{path}' GROUP BY unit, grp"
        con.execute(f"SELECT grp, sum(n) AS n FROM ({units}) GROUP BY grp ORDER BY n DESC LIMIT 10").fetchall()
        return start
    if shape.startswith("top"):
        units = f"SELECT grp FROM '{path}' GROUP BY unit, grp"
        con.execute(f"SELECT grp, count(*) AS n FROM ({units}) GROUP BY grp ORDER BY n DESC LIMIT 10").fetchall()
        return start
    inner = ", ".join(["count(*) AS n", *(f"{s} AS s{i}" for i, s in enumerate(sums))])
    outer = ", ".join(["count(*)", "sum(n)", *(f"sum(s{i})" for i in range(len(sums)))])
    key, by = ("", "") if shape == "one group" else (", grp", " GROUP BY grp")
    if shape == "totals":
        key, by = ", region, grp", " GROUP BY ROLLUP (region, grp)"
    con.execute(f"SELECT {outer}{key} FROM (SELECT {inner}, unit{key} FROM '{path}' GROUP BY unit{key}){by}").fetchall()
    return start

def release():
    import sfumato as sf, sfumato.engines.duckdb.duckdb_engine, sfumato.plan.plan, sfumato.release.release
    if shape == "stratified":
        import duckdb
        counted = duckdb.sql(f"SELECT grp, 10 * count(*) FROM '{path}' GROUP BY grp").fetchall()
        start = now()
        sample = duckdb.sql(f"SELECT grp, coalesce(x > 25, false) AS yes FROM '{path}'").to_arrow_table()
        sf.stratified_proportion(sample, stratum="grp", answer="yes", population=dict(counted), epsilon=1).interval(0.95)
        return start
    if shape == "strata":  # whose sizes are known beforehand
        import duckdb
        sizes = dict(duckdb.sql(f"SELECT grp, count(*) FROM '{path}' WHERE grp IS NOT NULL GROUP BY grp").fetchall())
    start = now()
    table = sf.scan(path, privacy_unit="unit", **({"memory_limit": limit} if limit else {}))
    bounds = {"lower": 0, "upper": 50}
    if shape.startswith("top"):
        by = {"by": sf.sum("x", lower=0, upper=50)} if "sum" in shape else {}
        table.top("grp", k=10, **by).release(epsilon=1, delta=1e-6).to_arrow()
        return start
    if shape in ("public keys", "chosen quantile", "cumulative"):
        table = table.group_by("grp", keys=range(1000))
    if shape == "totals":
        table = table.group_by("region", "grp", keys=[(i // 100, i) for i in range(1000)]).totals()
    alone = shape in ("one group", "strata") or ("values" in shape and "group" not in shape)
    if not alone and not table.keys:
        table = table.group_by("grp")
    table = table.bound(rows=1, **({} if alone else {"groups": of_shape.get(shape, 4)}))
    if shape in ("quantile", "chosen quantile"):
        asked = {"median": sf.quantiles("x", [0.5], **bounds)}
    elif shape == "min and max":
        asked = {"least": sf.min("x", **bounds), "most": sf.max("x", **bounds)}
    elif shape == "difference":
        asked = {"n": sf.count(), "total": sf.sum("x", **bounds), "more": sf.difference("total", "n")}
    elif shape in ("compare", "shares of total"):
        asked = {"n": sf.count(), "total": sf.sum("x", **bounds)}
    elif shape == "proportion by weight":
        asked = {"p": sf.proportion("yes", weight="w", max_weight=50)}
    elif shape == "ratio":
        asked = {"n": sf.count(), "total": sf.sum("x", **bounds), "each": sf.ratio("total", "n")}
    elif shape in ("covariance", "correlation"):
        asked = {"c": getattr(sf, shape)("x", "y", bounds={"x": (0, 50), "y": (0, 50)})}
    elif "vectors" in shape:
        of = sf.vector_mean if "mean" in shape else sf.vector_sum
        asked = {"v": of("v", length=8, bound=1)}
    elif shape == "value counts":
        asked = {"n": sf.count(), "x": sf.value_counts("x", list(range(11)))}
    elif shape == "cumulative":
        asked = {"n": sf.cumulative(sf.count()), "total": sf.cumulative(sf.sum("x", **bounds))}
    elif shape == "variance":
        asked = {"variance": sf.variance("x", **bounds)}
    elif shape == "weights":
        weights = {"weight": "w", "max_weight": 50}
        asked = {"n": sf.count(**weights), "total": sf.sum("x", **bounds, **weights), "mean": sf.mean("x", **bounds, **weights)}
    elif shape == "regression":
        asked = {"fit": sf.linear_regression("y", ["x"], bounds={"x": (0, 50), "y": (0, 50)})}
    elif "values" in shape:
        asked = {"n": sf.count_distinct("x", values=3, method="matching" if "matched" in shape else "shares")}
    elif shape == "strata":
        table = table.with_columns(yes="x > 25")
        asked = {"p": sf.proportion("yes", stratum="grp", asked=sizes, population={k: 10 * n for k, n in sizes.items()})}
    elif shape == "histogram":
        asked = {"n": sf.count(), "x": sf.histogram("x", [2.5 * i for i in range(21)])}
    elif shape == "ten columns":
        asked = {c: sf.mean(c, **bounds) for c in columns}
    else:
        asked = {"n": sf.count(), "total": sf.sum("x", **bounds), "mean": sf.mean("x", **bounds)}
    noise = {"noise": "k_norm"} if shape == "chosen quantile" else {"delta": 1e-6}
    made = table.agg(**asked).release(epsilon=1, **noise)
    if shape == "compare":  # each of the other groups with the first
        first, *others = made.to_arrow()["grp"].to_pylist()
        [made.compare("total", other, first) for other in others]
    elif shape == "shares of total":
        made.share_of_total("total")
    else:
        made.to_arrow()
    return start

def peer_pipelinedp():
    import pandas, pipeline_dp
    from pipeline_dp import pipeline_backend
    frame = pandas.read_parquet(path).dropna()
    rows = list(frame.itertuples(index=False, name=None))
    start = now()
    list(pipelinedp(pipeline_backend.LocalBackend(), rows))
    return start

def peer_opendp():
    import opendp.prelude as dp, polars as pl
    dp.enable_features("contrib", "floating-point", "honest-but-curious")
    start = now()
    context = dp.Context.compositor(
        data=pl.scan_parquet(path),
        privacy_unit=dp.unit_of(contributions=[dp.polars.Bound(per_group=1), dp.polars.Bound(by=["grp"], num_groups=4)], identifier=pl.col("unit")),
        privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=[], max_length=20_000_000), dp.polars.Margin(by=["grp"], max_length=20_000_000, max_groups=1000, invariant="keys")],
    )
    query = (context.query().truncate_per_group(1).truncate_num_groups(4, by=["grp"], keep="first").group_by("grp").agg(
        dp.len(), pl.col("x").fill_null(0.0).fill_nan(0.0).dp.sum((0.0, 50.0))))
    query.release().collect()
    return start

start = {"floor": floor, "release": release, "pipelinedp": peer_pipelinedp, "opendp": peer_opendp}[what]()
seconds = time.perf_counter() - start[0]
cpu = time.process_time() - start[1]
mb = peak_mb()
print(json.dumps({"seconds": seconds, "cpu": cpu, "mb": mb}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=[*SHAPES], choices=[*SHAPES], metavar="SHAPE")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory-limit", default="")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--pipelinedp", metavar="PYTHON")
    parser.add_argument("--opendp", metavar="PYTHON")
    options = parser.parse_args()

    def runs(python: str, what: str, shape: str, rows: int) -> dict[str, float]:
        path = made(shape, rows, options.folder)
        found: dict[str, float] = run(
            python, RUN, path, what, shape, options.memory_limit, options.folder / "floor_spills"
        )
        return found

    print(
        f"{'':16}{'floor s':>9}{'release s':>11}{'ratio':>7}  {'(range)':15}{'of CPU':>6}{'floor MB':>10}{'release MB':>12}"
    )
    for shape in options.shapes:
        floors, releases = [], []
        for _ in range(options.repeats):
            floors.append(runs(sys.executable, "floor", shape, options.rows))
            releases.append(runs(sys.executable, "release", shape, options.rows))
        report(shape, floors, releases)
    first = options.shapes[0]
    if options.pipelinedp:
        report_peer(
            "PipelineDP local, 1/10 rows", runs(options.pipelinedp, "pipelinedp", first, options.rows // 10)
        )
    if options.opendp:
        report_peer("OpenDP Polars", runs(options.opendp, "opendp", first, options.rows))


def made(shape: str, rows: int, folder: Path) -> Path:
    """Return the file of a shape; it is written where it is not there yet."""
    common = generate(rows, folder)
    if not SHAPES[shape]:
        return common
    path = folder / f"rows_{rows}_{shape.replace(' ', '_')}.parquet"
    if not path.exists():
        duckdb.execute(f"COPY (SELECT {SHAPES[shape]} FROM '{common}') TO '{path}' (FORMAT parquet)")
    return path


def report(shape: str, floors: list[dict[str, float]], releases: list[dict[str, float]]) -> None:
    pairs = [*zip(releases, floors, strict=True)]
    ratios, cpu = ([r[of] / f[of] for r, f in pairs] for of in ("seconds", "cpu"))
    floor, release = (statistics.median(r["seconds"] for r in runs) for runs in (floors, releases))
    largest = [max(r["mb"] for r in runs) for runs in (floors, releases)]
    print(
        f"{shape:16}{floor:9.2f}{release:11.2f}{statistics.median(ratios):7.2f}  "
        f"({min(ratios):4.2f} to {max(ratios):4.2f}){statistics.median(cpu):7.2f}{largest[0]:10.0f}{largest[1]:12.0f}",
        flush=True,
    )


def report_peer(name: str, found: dict[str, float]) -> None:
    print(f"{name}: {found['seconds']:.2f} s, {found['mb']:.0f} MB")


if __name__ == "__main__":
    main()
