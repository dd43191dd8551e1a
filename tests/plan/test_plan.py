"""A plan's only privacy claim is the map of its chain: the chain keeps to it, and is what a release runs."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction as F
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.audit import falsify
from sfumato.framework import CentredDistance, Transformation
from sfumato.noise.centred_noise import CentredGaussian
from sfumato.noise.k_norm import JointNoise, SeparateNoise
from sfumato.noise.level_noise import LevelsGaussian
from sfumato.noise.series_noise import SeriesGaussian
from sfumato.plan.plan import Plan
from sfumato.testing import noise_free
from sfumato.transformations import Row, bound_groups, per_group
from tests.support.plan_chains import same_loss

GROUPS = 5
TABLE = pa.table(
    {
        "id": [i // 3 for i in range(18)], "group": [i % GROUPS for i in range(18)], "n": [i % 4 for i in range(18)],
        "x": [0.5 * (i % 7) for i in range(18)], "yes": [i % 2 == 0 for i in range(18)], "text": ["a", None, "b"] * 6,
        "whole": [i % 6 for i in range(18)],
    },
    schema=pa.schema([
        ("id", pa.int64()), ("group", pa.int64()), ("n", pa.int64()), ("x", pa.float64()), ("yes", pa.bool_()),
        ("text", pa.string()), pa.field("whole", pa.int64(), nullable=False),
    ]),
)  # fmt: skip
ASKED: dict[str, dict[str, Any]] = {
    "rows": {"n": sf.count()},
    "values": {"x": sf.count("x"), "t": sf.count("text"), "u": sf.count_units()},
    "sums": {"s": sf.sum("n", lower=0, upper=30), "t": sf.sum("n", lower=0, upper=50)},
    "sum of reals": {"s": sf.sum("x", lower=-3, upper=30.5), "n": sf.count()},
    "sums of rows": {
        "s": sf.sum("x", lower=2, upper=10, per="row"), "t": sf.sum("n", lower=-9, upper=5, per="row"), "n": sf.count(),
    },
    "share": {"m": sf.mean("yes", lower=0, upper=1)},
    "moments": {
        "rows": sf.count(), "mean": sf.mean("x", lower=0, upper=30), "variance": sf.variance("n", lower=-5, upper=5),
    },
    "squares": {"n": sf.count(), "v": sf.variance("whole", lower=0, upper=30)},
    "quantiles": {"q": sf.quantiles("x", [0.5], lower=0, upper=30)},
    "totals over time": {"m": sf.mean("x", lower=0, upper=2), "s": sf.cumulative(sf.sum("x", lower=0, upper=2))},
    "blocks of time": {"n": sf.cumulative(sf.count()), "s": sf.cumulative(sf.sum("x", lower=0, upper=2))},
}  # fmt: skip
LIMITS: dict[str, Any] = {
    "private": lambda t: t.group_by("group").bound(groups=3, rows=2),
    "some": lambda t: t.group_by("group", keys=list(range(GROUPS))).bound(groups=3, rows=2, beyond="sample"),
    "scaled": lambda t: t.group_by("group", keys=list(range(GROUPS))).bound(groups=2, rows=1),
    "all": lambda t: t.group_by("group", keys=list(range(GROUPS))).bound(groups=GROUPS, rows=2),
    "rows in all": lambda t: t.group_by("group", keys=list(range(8))).bound(total_rows=4),
    "totals": lambda t: (
        t.group_by("group", "yes", keys=[(g, y) for g in range(3) for y in (True, False)]).totals().bound(groups=3, rows=2)
    ),
}  # fmt: skip
KNORM = (JointNoise, SeparateNoise)
# The noise, the limits, what is asked: how near a unit comes to the distance that is claimed, and the kind of noise.
CASES: dict[tuple[str, str, str], tuple[F, Any]] = {
    **{("laplace", "private", asked): (F(99, 100), object) for asked in [*ASKED][:9]},
    **{("gaussian", "private", asked): (F(99, 100), object) for asked in ("values", "moments", "quantiles")},
    **{("laplace", "some", asked): (F(99, 100), object) for asked in ("rows", "moments")},
    **{("laplace", "scaled", asked): (F(9, 10), object) for asked in ("values", "moments")},
    **{("laplace", "rows in all", asked): (F(99, 100), object) for asked in ("rows", "moments")},
    **{("gaussian", "rows in all", asked): (F(99, 100), object) for asked in ("sums of rows", "moments")},
    **{("k_norm", "all", asked): (F(99, 100), KNORM) for asked in [*ASKED][:8] if asked != "share"},
    **{("k_norm", "some", asked): (F(99, 100), KNORM) for asked in ("sums", "moments")},
    **{("k_norm", "rows in all", asked): (F(99, 100), KNORM) for asked in ("rows", "squares")},
    **{("gaussian", "all", asked): (F(8, 10), CentredGaussian) for asked in ("rows", "values", "moments")},
    ("gaussian", "some", "totals over time"): (F(6, 10), SeriesGaussian),
    ("laplace", "some", "blocks of time"): (F(6, 10), object),
    ("gaussian", "totals", "moments"): (F(6, 10), LevelsGaussian),
}
EPSILON, DELTA = F(3, 2), F(1, 10**6)


def question(limits: str, asked: str) -> Any:
    return LIMITS[limits](sf.scan(TABLE, privacy_unit="id")).agg(**ASKED[asked])


def budget(noise: str, limits: str) -> dict[str, Any]:
    return {
        "epsilon": EPSILON,
        "delta": DELTA if noise == "gaussian" or limits == "private" else 0,
        "noise": noise,
    }


@cache
def plan_of(noise: str, limits: str, asked: str) -> Plan:
    return question(limits, asked).plan(**budget(noise, limits))


def of_numbers(plan: Plan) -> Transformation:
    """A plan's chain, of groups that are plain numbers, as the falsifier's are; with noise in common, by its metric."""
    chain, metric = plan.exact_chain, getattr(plan, "metric", None)
    if isinstance(metric, CentredDistance):
        metric = replace(metric, keys=range(GROUPS))
    elif hasattr(metric, "series"):
        metric = replace(metric, series=tuple(tuple(key for (key,) in one) for one in metric.series))
    elif hasattr(metric, "rollup"):
        metric = replace(metric, keys=tuple(range(len(metric.keys))))
    else:
        keyed = plan.query.keys and not plan.query.private_groups
        return (
            replace(chain, function=lambda rows: chain([row._replace(key=(row.key,)) for row in rows]))
            if keyed
            else chain
        )
    groups, statistics = plan.query.groups, plan.requirements.statistics
    bounding = bound_groups(groups, domain=chain.input_domain)
    return bounding >> per_group(statistics, groups=groups, together=metric)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_no_unit_moves_a_plan_by_more_than_its_map_and_one_moves_it_as_far(case):
    """Where squares are asked the map allows for half a step of rounding more than can be (see
    docs/proofs/moments.md); on the grids of a plan that is less than a millionth."""
    (least, kind), plan = CASES[case], plan_of(*case)
    assert isinstance(plan.measurement.noise, kind)
    found = falsify(of_numbers(plan), 1, evaluations=150)
    assert not found.violated, str(found)
    assert found.ratio >= least, str(found)


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_the_loss_of_a_plan_is_what_the_map_of_its_chain_says(case):
    plan = plan_of(*case)
    assert same_loss(plan) and plan.loss.delta(EPSILON) <= DELTA
    if case[0] == "k_norm":
        assert plan.loss.epsilon(0) == EPSILON and plan.delta == 0
    alone, both = (replace(plan.measurement, selection=None).map(units) for units in (1, 2))
    assert both.gaussian == 4 * alone.gaussian and both.basic_epsilon == 2 * alone.basic_epsilon


@pytest.mark.parametrize(
    "case", [case for case in CASES if case[1] in ("all", "totals") or case[0] == "laplace"], ids=" ".join
)
def test_the_chain_is_what_a_release_runs(case):
    noise, limits, asked = case
    if limits != "all" and asked == "quantiles":
        return  # of which no numbers are kept
    made = LIMITS["all" if limits != "totals" else limits](sf.scan(TABLE, privacy_unit="id")).agg(
        **ASKED[asked]
    )
    with noise_free():
        release = made.release(**budget(noise, "all"))
        (batch,) = release._draw()
    rows = [Row(r["id"], tuple(r[key] for key in made.query.keys), r) for r in TABLE.to_pylist()]
    exact = release.plan.exact_chain(rows)
    keys = list(zip(*[c.to_pylist() for c in batch.keys.columns[: len(made.query.keys)]], strict=True))
    cells = [(i, key) for i, key in enumerate(keys) if None not in key]
    assert {key for _, key in cells} >= set(exact)
    for name, step in release.plan.steps.items():
        drawn = batch.numbers.values[name]
        assert [F(drawn[i]) / step for i, _ in cells] == [exact.get(key, Counter())[name] for _, key in cells]
