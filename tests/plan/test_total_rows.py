"""A plan with a limit of rows over all groups: what it claims, what is true of it, and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.audit import falsify
from sfumato.errors import ParameterError, QueryError
from sfumato.framework import RowsBody, Transformation
from sfumato.plan.plan import Plan
from tests.support.changed_plans import with_scales
from tests.support.plan_chains import same_loss

TABLE = pa.table({"id": [1, 2], "g": [1, 2], "n": [1, 2], "x": [0.5, 1.5]})
ASKED: dict[str, dict[str, Any]] = {
    "rows": {"n": sf.count()},
    "units": {"u": sf.count_units()},
    "sum by unit": {"s": sf.sum("n", lower=0, upper=30)},
    "sum by row": {"s": sf.sum("x", lower=2, upper=10, per="row")},
    "quantiles": {"q": sf.quantiles("x", [0.5], lower=0, upper=30)},
    "all": {
        "rows": sf.count(),
        "units": sf.count_units(),
        "sum": sf.sum("n", lower=0, upper=30, per="unit"),
        "mean": sf.mean("x", lower=0, upper=30),
        "variance": sf.variance("x", lower=0, upper=30),
    },
}
NOISES = ["laplace", "gaussian"]
EPSILON, DELTA = Fraction(1), Fraction(1, 10**6)


def table() -> Any:
    return sf.scan(TABLE, privacy_unit="id")


@cache
def plan_of(
    asked: str, noise: str, total: int = 4, keys: tuple[int, ...] | None = None, **options: Any
) -> Plan:
    grouped = table().group_by("g", keys=None if keys is None else list(keys))
    question = grouped.bound(total_rows=total).agg(**ASKED[asked])
    return question.plan(epsilon=EPSILON, delta=DELTA, noise=noise, **options)


FIVE = tuple(range(5))


BY_ROWS: dict[str, dict[str, Any]] = {
    "rows": ASKED["rows"],
    "sum by row": ASKED["sum by row"],
    "mean": {"m": sf.mean("x", lower=0, upper=30)},
    "variance": {"n": sf.count(), "v": sf.variance("x", lower=0, upper=30)},
    "several": {"n": sf.count(), "m": sf.mean("x", lower=0, upper=30), "v": sf.count("x")},
}


@pytest.mark.parametrize("weight", [1, 30])
@pytest.mark.parametrize("asked", BY_ROWS)
def test_k_norm_noise_of_what_goes_by_rows(asked: str, weight: int) -> None:
    """Of each group by itself, in the shape of N rows in one group; of several numbers less than Laplace noise."""
    wanted = BY_ROWS[asked]
    question = table().group_by("g", keys=list(range(8))).bound(total_rows=4).agg(**wanted)
    question = question.weigh(**{next(iter(wanted)): weight})
    plan = question.plan(epsilon=EPSILON, noise="k_norm")
    assert same_loss(plan) and plan.loss.delta(EPSILON) == 0
    found = falsify(of_numbers(plan), 1, evaluations=150)
    assert not found.violated, str(found)
    assert found.ratio >= Fraction(99, 100) or weight > 1, str(found)
    if asked in ("mean", "variance", "several") and weight == 1:
        laplace = question.plan(epsilon=EPSILON, noise="laplace")
        assert all(plan.expected[name] < laplace.expected[name] for name in plan.expected)


def test_noise_for_a_part_of_the_rows_is_seen() -> None:
    """K-norm noise that is made for rows of one group less is too little, and the chain says so."""
    plan = table().group_by("g", keys=list(range(8))).bound(total_rows=4).agg(n=sf.count()).plan(
        epsilon=EPSILON, noise="k_norm"
    )  # fmt: skip
    chain = of_numbers(plan)
    less = replace(chain, stability_map=lambda d: chain.map(d) * Fraction(3, 4))
    assert falsify(less, 1, evaluations=300).violated


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("asked", ASKED)
def test_the_loss_of_a_plan_is_what_the_map_of_its_chain_says(asked: str, noise: str) -> None:
    plan = plan_of(asked, noise, keys=FIVE)
    assert same_loss(plan) and isinstance(plan.requirements.body, RowsBody)
    assert plan.loss.delta(EPSILON) <= DELTA
    private = plan_of(asked, noise)
    noise_alone = replace(private.measurement, selection=None).map(1)
    assert private.loss.gaussian == noise_alone.gaussian
    assert private.loss.basic_epsilon >= noise_alone.basic_epsilon
    assert private.loss.delta(EPSILON) <= DELTA
    # Several units together: by group privacy.
    again = plan.measurement.map(3)
    if noise == "gaussian":
        assert again.gaussian == 9 * plan.loss.gaussian
    else:
        assert again.basic_epsilon == 3 * plan.loss.basic_epsilon


def of_numbers(plan: Plan) -> Transformation:
    """A plan's chain, of groups that are plain numbers, as the falsifier's are."""
    chain = plan.exact_chain
    return replace(chain, function=lambda rows: chain([row._replace(key=(row.key,)) for row in rows]))


@pytest.mark.long
@pytest.mark.parametrize("keys", [None, FIVE])
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("asked", ASKED)
def test_no_unit_moves_a_plan_by_more_than_its_map_and_one_moves_it_as_far(
    asked: str, noise: str, keys: tuple[int, ...] | None
) -> None:
    plan = plan_of(asked, noise, keys=keys)
    chain = plan.exact_chain if keys is None else of_numbers(plan)
    found = falsify(chain, 1, evaluations=300)
    assert not found.violated, str(found)
    assert found.ratio >= Fraction(99, 100), str(found)


def test_noise_beside_that_of_other_limits() -> None:
    """Of rows N times that of one row, of people the root of it; of N groups with N rows each it is N times more."""
    n, one = 9, table().group_by("g", keys=[1, 2]).bound(groups=1, rows=1)
    for noise in NOISES:
        alone = one.agg(s=sf.sum("x", lower=2, upper=10, per="row")).plan(
            epsilon=EPSILON, delta=DELTA, noise=noise
        )
        total = plan_of("sum by row", noise, n, keys=tuple(range(20)))
        assert total.expected["s"] == pytest.approx(n * alone.expected["s"], rel=0.1)
    people = plan_of("units", "gaussian", n, keys=tuple(range(20))).deviations["units"]
    single = one.agg(u=sf.count_units()).plan(epsilon=EPSILON, delta=DELTA, noise="gaussian")
    assert people == pytest.approx(3 * single.deviations["units"], rel=0.01)
    two_limits = table().group_by("g").bound(groups=n, rows=n)
    for asked in ("all", "rows"):
        rival = two_limits.agg(**ASKED[asked]).plan(epsilon=EPSILON, delta=DELTA)
        found = plan_of(asked, "auto", n)
        for name in found.expected:
            assert found.expected[name] < rival.expected[name]


@pytest.mark.parametrize("noise", [*NOISES, "k_norm", "auto"])
def test_where_rows_can_be_in_one_group_alone_the_noise_is_that_of_one_group(noise: str) -> None:
    options: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "noise": noise}
    asked = {"n": sf.count(), "m": sf.mean("x", lower=0, upper=30)}
    pairs = [
        (table().bound(total_rows=5), table().bound(rows=5)),
        (table().group_by("g", keys=[1]).bound(total_rows=5), table().group_by("g", keys=[1]).bound(groups=1, rows=5)),
        (table().group_by("g").bound(total_rows=1), table().group_by("g").bound(groups=1, rows=1)),
    ]  # fmt: skip
    for mine, other in pairs:
        one, two = mine.agg(**asked).plan(**options), other.agg(**asked).plan(**options)
        assert one.scales == two.scales and one.loss == two.loss and one.noise.name == two.noise.name
        assert one.measurement.map(1) == two.measurement.map(1)


def divisions(total: int, most: int) -> Iterator[list[int]]:
    """All ways to divide up to so many rows over groups."""
    yield []
    for first in range(min(total, most), 0, -1):
        for rest in divisions(total - first, first):
            yield [first, *rest]


def normal(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def true_delta(plan: Plan, total: int) -> float:
    """The least delta at the plan's epsilon, over all ways in which a unit's rows may be divided.

    Of its groups some are lone, which are seen with the chance that one unit passes the threshold; in the others
    are so many people that they are always shown, so that all their noisy numbers are seen.
    """
    selection: Any = plan.selection
    passes = float(selection.law.tail_bounds(Fraction(2 * selection.tau - 3, 2))[1])
    units, rows = (float(plan.scales[name]) for name in ("units", "rows"))
    worst = 0.0
    for division in divisions(total, total):
        for lone in range(len(division) + 1):
            shared = division[lone:]  # the largest are lone first, or the smallest
            for of_others in (shared, division[: len(division) - lone]):
                worst = max(worst, 1 - (1 - passes) ** lone * (1 - beyond(plan, of_others, units, rows)))
    return worst


def beyond(plan: Plan, shared: list[int], units: float, rows: float) -> float:
    """The delta of the noise of numbers of people and rows, where a unit has so many rows in groups."""
    epsilon = float(plan.epsilon)
    if plan.noise.name == "gaussian":
        mu = math.sqrt(sum(1 / units**2 + (n / rows) ** 2 for n in shared))
        return (
            normal(-epsilon / mu + mu / 2) - math.exp(epsilon) * normal(-epsilon / mu - mu / 2) if mu else 0.0
        )
    pure = sum(1 / units + n / rows for n in shared)
    return 0.0 if pure <= epsilon * (1 + 1e-12) else -math.expm1(epsilon - pure)


ASKED["people and rows"] = {"u": sf.count_units(), "n": sf.count()}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("total", [2, 3, 6])
def test_the_true_delta_of_private_groups_is_within_the_claim(noise: str, total: int) -> None:
    """Exactly, for each way to divide rows over lone groups and others; and it is near the claim."""
    plan = plan_of("people and rows", noise, total, group_selection=noise)
    found = true_delta(plan, total)
    assert found <= float(DELTA) * (1 + 1e-9)
    assert found >= float(DELTA) * (0.3 if noise == "gaussian" else 0.6)
    assert plan.loss.delta(EPSILON) <= DELTA


@pytest.mark.parametrize("noise", NOISES)
def test_a_delta_of_too_few_groups_and_noise_of_too_few_rows_are_seen(noise: str) -> None:
    total = 6
    plan = plan_of("people and rows", noise, total, group_selection=noise)
    selection: Any = plan.selection
    one_group = replace(selection, delta_per_group=min(total * selection.delta_per_group, Fraction(1, 2)))
    assert true_delta(
        replace(plan, measurement=replace(plan.measurement, selection=one_group)), total
    ) > 2 * float(DELTA)
    for names in (("units",), ("rows",)):
        less = {name: scale / (3 if name in names else 1) for name, scale in plan.scales.items()}
        assert true_delta(with_scales(plan, less), total) > 2 * float(DELTA)


def test_the_explanation_says_what_is_left_out() -> None:
    explained = plan_of("all", "gaussian").explain()
    assert (
        "Let each id count with at most 4 rows over all groups together, taken at random; what is beyond that is "
        "left out. Clamp values to their bounds." in str(explained)
    )
    content = explained.to_dict()
    assert content["limits"]["rows_per_unit"] == 4
    assert sum(n["share"] for n in content["statistics"]) == pytest.approx(1, abs=1e-6)
    whole = table().bound(total_rows=4).agg(n=sf.count()).plan(epsilon=1).explain()
    assert "Let each id count with at most 4 rows, taken at random; what" in str(whole)
    assert (
        "rows_per_unit"
        not in table().bound(rows=4).agg(n=sf.count()).plan(epsilon=1).explain().to_dict()["limits"]
    )


@pytest.mark.parametrize("noise", NOISES)
def test_weights_move_noise_within_the_budget(noise: str) -> None:
    question = table().group_by("g").bound(total_rows=4).agg(**ASKED["all"])
    plain, weighed = (
        q.plan(epsilon=1, delta=DELTA, noise=noise) for q in (question, question.weigh(rows=20))
    )
    assert weighed.expected["rows"] < 0.9 * plain.expected["rows"]
    assert weighed.loss.delta(EPSILON) <= DELTA


def test_what_is_refused() -> None:
    grouped = table().group_by("g")
    for other in ({"groups": 2}, {"rows": 2}, {"groups": 2, "rows": 2}):
        with pytest.raises(QueryError, match="leave groups and rows out, or total_rows"):
            grouped.bound(total_rows=3, **other).agg(n=sf.count())
        with pytest.raises(QueryError, match="leave groups and rows out, or total_rows"):
            grouped.bound(**other).bound(total_rows=3).agg(n=sf.count())
    for beyond_limit in ("scale", "sample"):
        with pytest.raises(QueryError, match="leave beyond out"):
            table().group_by("g", keys=[1, 2]).bound(total_rows=3, beyond=beyond_limit).agg(n=sf.count())
    for wrong in (0, -1, 1.5, True, 10**9 + 1, "3"):
        with pytest.raises(ParameterError, match="total_rows"):
            grouped.bound(total_rows=wrong)
    public = table().group_by("g", keys=[1, 2]).bound(total_rows=3)
    for asked in (
        grouped.bound(total_rows=3).agg(n=sf.count()),
        public.agg(u=sf.count_units()),
        public.agg(n=sf.count(), s=sf.sum("x", lower=0, upper=3)),
        public.agg(s=sf.sum("x", lower=0, upper=3)),
        public.agg(q=sf.quantiles("x", [0.5], lower=0, upper=3)),
    ):
        with pytest.raises(
            QueryError, match=r"total_rows \(in SQL max_rows_contributed\) K-norm noise is for"
        ):
            asked.plan(epsilon=1, delta=DELTA, noise="k_norm")
        assert asked.plan(epsilon=1, delta=DELTA).noise.name != "k_norm"


def test_plans_of_other_limits_are_other_plans() -> None:
    assert plan_of("rows", "laplace", 3).scales != plan_of("rows", "laplace", 4).scales
    one, other = (
        table().group_by("g").bound(**b).agg(u=sf.count_units()) for b in ({"groups": 4}, {"total_rows": 4})
    )
    assert one.plan(epsilon=1, delta=DELTA).exact != other.plan(epsilon=1, delta=DELTA).exact
