"""A plan with a limit of rows over all groups: what it claims, what is true of it, and what it refuses."""

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.plan.plan import Plan

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
