"""The same questions in other libraries: scripts for a Python that has them.

Each takes the path of a Parquet file with the columns id, key and perhaps x, and a JSON text; it says in JSON, for
each epsilon, the numbers of each output in each release, by the groups in their order; null where one is not given.
With "alphas", OpenDP and SmartNoise say for the last epsilon also the half-widths of each output, by alpha.
"""

from __future__ import annotations

_GIVEN = """
import json, logging, sys, warnings
warnings.simplefilter("ignore"); logging.disable(logging.CRITICAL)
import pandas as pd
path, given = sys.argv[1], json.loads(sys.argv[2])
frame = pd.read_parquet(path)
outputs, groups, rows, keys = given["outputs"], given["groups"], given["rows"], given["keys"]
lower, upper, delta = given["lower"], given["upper"], given["delta"]
"""

# Bounds of a unit's rows in a group are contributions per partition; Gaussian noise with its accountant of
# privacy-loss distributions, Laplace noise with the naive one, as that accountant refuses some metrics.
PIPELINEDP = (
    _GIVEN
    + """
import pipeline_dp
from pipeline_dp import pipeline_backend
Metrics = pipeline_dp.Metrics
metric = {"count": Metrics.COUNT, "people": Metrics.PRIVACY_ID_COUNT, "sum": Metrics.SUM, "mean": Metrics.MEAN,
          "variance": Metrics.VARIANCE}
field = {"count": "count", "people": "privacy_id_count", "sum": "sum", "mean": "mean", "variance": "variance"}
x = frame.x if "x" in frame else [0] * len(frame)
data = list(zip(frame.id, frame.key, x))
found = []
for epsilon in given["epsilons"]:
    releases = []
    for _ in range(given["releases"]):
        if given["noise"] == "gaussian":
            accountant = pipeline_dp.PLDBudgetAccountant(total_epsilon=epsilon, total_delta=delta)
        else:
            accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=delta)
        engine = pipeline_dp.DPEngine(accountant, pipeline_backend.LocalBackend())
        params = pipeline_dp.AggregateParams(
            metrics=[metric[o] for o in outputs], noise_kind=pipeline_dp.NoiseKind[given["noise"].upper()],
            max_partitions_contributed=groups, max_contributions_per_partition=rows,
            min_value=lower, max_value=upper)
        extractors = pipeline_dp.DataExtractors(
            privacy_id_extractor=lambda r: r[0], partition_extractor=lambda r: r[1], value_extractor=lambda r: r[2])
        result = engine.aggregate(data, params, extractors, public_partitions=None if given["private"] else keys)
        accountant.compute_budgets()
        by_key = {k: v._asdict() for k, v in result}
        releases.append([[by_key[k][field[o]] if k in by_key else None for k in keys] for o in outputs])
    found.append(releases)
print(json.dumps(found))
"""
)

# Its epsilon is for each column that it computes internally, so it is divided by their number; groups are public.
SMARTNOISE = (
    _GIVEN
    + """
import snsql
from snsql import Privacy
frame = frame.rename(columns={"key": "g"})
about = {"": {"": {"t": {
    "row_privacy": False, "max_ids": groups * rows, "censor_dims": False, "id": {"type": "int", "private_id": True},
    "g": {"type": "string"}, "x": {"type": "float", "lower": lower, "upper": upper}}}}}
column = {"count": "COUNT(*)", "people": "COUNT(DISTINCT id)", "sum": "SUM(x)", "mean": "AVG(x)"}
text = "SELECT g, " + ", ".join(f"{column[o]} AS o{i}" for i, o in enumerate(outputs)) + " FROM t GROUP BY g"
read = lambda epsilon: snsql.from_df(frame, privacy=Privacy(epsilon=epsilon, delta=delta), metadata=about)
times = read(1.0).get_privacy_cost(text)[0]
found = []
for epsilon in given["epsilons"]:
    releases = []
    for _ in range(given["releases"]):
        by_key = {row[0]: row[1:] for row in read(float(epsilon / times)).execute(text)[1:]}
        releases.append([[float(by_key[k][i]) if k in by_key else None for k in keys] for i in range(len(outputs))])
    found.append(releases)
    bars = [read(float(epsilon / times)).get_simple_accuracy(text, alpha)[1:] for alpha in given.get("alphas", [])]
print(json.dumps([found, [[float(b) for b in own] for own in bars]] if bars else found))
"""
)

# Each output is a query of its own, with an equal part of epsilon.
TUMULT = (
    _GIVEN
    + """
import os
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddRowsWithID, KeySet, MaxGroupsPerID, MaxRowsPerGroupPerID, PureDPBudget, QueryBuilder, Session)
spark = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", 2).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
table = spark.createDataFrame(frame)
groups_of = KeySet.from_dict({"key": keys})
limited = QueryBuilder("t").enforce(MaxGroupsPerID("key", groups)).enforce(MaxRowsPerGroupPerID("key", rows))
by = limited.groupby(groups_of)
query = {"count": lambda: by.count(name="n"), "people": lambda: by.count_distinct(columns=["id"], name="n"),
         "sum": lambda: by.sum("x", low=lower, high=upper, name="n"),
         "mean": lambda: by.average("x", low=lower, high=upper, name="n")}
found = []
for epsilon in given["epsilons"]:
    releases = []
    for _ in range(given["releases"]):
        session = Session.from_dataframe(
            PureDPBudget(epsilon), "t", table, protected_change=AddRowsWithID(id_column="id"))
        own = []
        for o in outputs:
            answer = session.evaluate(query[o](), PureDPBudget(epsilon / len(outputs)))
            by_key = {r["key"]: r["n"] for r in answer.collect()}
            own.append([float(by_key[k]) for k in keys])
        releases.append(own)
    found.append(releases)
print(json.dumps(found))
"""
)

# In how many groups a unit counts at most, found for counts of public groups with Laplace noise: of pairs of units and
# groups. It says what it found in each release.
PIPELINEDP_GROUPS = """
import json, logging, sys, warnings
warnings.simplefilter("ignore"); logging.disable(logging.CRITICAL)
import pandas as pd
import pipeline_dp
from pipeline_dp import pipeline_backend
path, given = sys.argv[1], json.loads(sys.argv[2])
frame = pd.read_parquet(path)
data, keys = list(zip(frame.id.tolist(), frame.g.tolist())), list(range(given["groups"]))
params = pipeline_dp.CalculatePrivateContributionBoundsParams(
    aggregation_noise_kind=pipeline_dp.NoiseKind.LAPLACE, aggregation_eps=given["epsilon"] - given["look"],
    aggregation_delta=0, calculation_eps=given["look"], max_partitions_contributed_upper_bound=given["most"])
extractors = pipeline_dp.DataExtractors(
    privacy_id_extractor=lambda r: r[0], partition_extractor=lambda r: r[1], value_extractor=lambda r: 0)
found = []
for _ in range(given["releases"]):
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=given["epsilon"], total_delta=0)
    engine = pipeline_dp.DPEngine(accountant, pipeline_backend.LocalBackend())
    (bounds,) = engine.calculate_private_contribution_bounds(data, params, extractors, keys)
    found.append(int(bounds.max_partitions_contributed))
print(json.dumps(found))
"""

# Cumulative counts by a tree of Laplace noise, made consistent: of no rows, as they do not change errors.
TREE = """
import json, sys
import numpy as np
import opendp.prelude as dp
dp.enable_features("contrib", "floating-point")
given = json.loads(sys.argv[2])
steps, found = given["steps"], []
for branching in (2, 4, 8, 16, 32):
    space = dp.vector_domain(dp.atom_domain(T=int), size=steps), dp.l1_distance(T=int)
    tree = space >> dp.t.then_b_ary_tree(steps, branching)
    scale = dp.binary_search_param(lambda s: tree >> dp.m.then_laplace(s), d_in=given["groups"], d_out=given["epsilon"])
    release, leaves = tree >> dp.m.then_laplace(scale), dp.t.make_consistent_b_ary_tree(branching)
    off = [np.cumsum(leaves(release([0] * steps))[:steps]) for _ in range(given["releases"])]
    found.append([branching, float(np.sqrt(np.mean(np.square(off))))])
print(json.dumps(found))
"""

# Rows are truncated where limits bind alone, as OpenDP 0.16 keeps one group less than it is told. Under zCDP, whose rho is the largest that gives (epsilon, delta) by the bound of Canonne, Kamath and Steinke.
OPENDP = (
    _GIVEN
    + """
import math
import opendp.prelude as dp, polars as pl
dp.enable_features("contrib", "floating-point", "honest-but-curious")

def delta_of(rho, epsilon):
    def log_delta(a):
        return (a - 1) * (a * rho - epsilon) - math.log(a - 1) + a * math.log1p(-1 / a)
    low, high = 1 + 1e-9, 1e6
    for _ in range(300):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if log_delta(left) < log_delta(right) else (left, high)
    return math.exp(min(log_delta(low), 0.0))

def rho_of(epsilon):
    low, high = 0.0, epsilon
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle, epsilon) <= delta else (low, middle)
    return low

size = len(frame)
table = pl.read_parquet(path)
unit = dp.unit_of(contributions=1, identifier=pl.col("id"))
if not given["bind"]:
    unit = dp.unit_of(contributions=[dp.polars.Bound(by=["key"], per_group=rows, num_groups=groups)])
found, bars = [], []
for epsilon in given["epsilons"]:
    releases = []
    for _ in range(given["releases"]):
        context = dp.Context.compositor(
            data=table.lazy(),
            privacy_unit=unit,
            privacy_loss=dp.loss_of(rho=rho_of(epsilon)),
            split_evenly_over=1,
            margins=[dp.polars.Margin(by=[], max_length=2 * size),
                     dp.polars.Margin(by=["key"], max_length=2 * size, max_groups=len(keys))])
        asked = [dp.len().alias("count")]
        if "sum" in outputs or "mean" in outputs:
            whole = table.schema["x"].is_integer()
            x = pl.col("x").fill_null(0) if whole else pl.col("x").fill_null(0.0).fill_nan(0.0)
            kind = int if whole else float
            asked.append(x.dp.sum((kind(lower), kind(upper))).alias("sum"))
        query = context.query()
        if given["bind"]:
            query = query.truncate_per_group(rows).truncate_num_groups(groups, by=["key"], keep="first")
        query = query.group_by("key").agg(*asked).with_keys(pl.LazyFrame({"key": keys}))
        if "alphas" in given and not bars:
            for alpha in given["alphas"]:
                own = query.summarize(alpha=alpha)
                by_output = dict(zip(own["column"], own["accuracy"]))
                bars.append([by_output[o] for o in outputs])
        done = query.release().collect().to_pandas().set_index("key").reindex(keys)
        if "mean" in outputs:
            done["mean"] = done["sum"] / done["count"].clip(lower=1)
        releases.append([[float(v) for v in done[o]] if o in done else None for o in outputs])
    found.append(releases)
print(json.dumps([found, bars] if bars else found))
"""
)
