"""A plan's only privacy claim is the map of its chain, and the chain keeps to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.audit import falsify
from sfumato.budget import Loss
from sfumato.framework import Body, Norm, Segment, Transformation
from sfumato.framework.contribution_bodies import SimplexBody
from sfumato.noise import Gaussian, Laplace
from sfumato.plan.plan import Plan
from sfumato.transformations import (
    Count,
    Moments,
    QuantileTree,
    Row,
    Statistic,
    UnitSum,
    bound_groups,
    per_group,
)
from sfumato.transformations.statistics.moments import MomentsBody
from tests.support.plan_chains import same_loss

TABLE = pa.table(
    {"id": [1, 2], "group": [1, 2], "n": [1, 2], "x": [0.5, 1.5], "yes": [True, False], "text": ["a", "b"]}
)
ASKED: dict[str, dict[str, Any]] = {
    "rows": {"n": sf.count()},
    "units": {"u": sf.count_units()},
    "values of a column": {"x": sf.count("x"), "t": sf.count("text"), "u": sf.count_units()},
    "sum by unit": {"s": sf.sum("n", lower=0, upper=30)},
    "sum of reals by unit": {"s": sf.sum("x", lower=-3, upper=30.5), "n": sf.count()},
    "sum by row": {"s": sf.sum("x", lower=2, upper=10, per="row")},
    "mean": {"m": sf.mean("x", lower=0, upper=30)},
    "share": {"m": sf.mean("yes", lower=0, upper=1)},
    "variance": {"v": sf.variance("n", lower=-5, upper=5)},
    "quantiles": {"q": sf.quantiles("x", [0.5], lower=0, upper=30)},
    "one column": {
        "rows": sf.count(),
        "sum": sf.sum("n", lower=0, upper=30),
        "mean": sf.mean("n", lower=0, upper=30),
        "variance": sf.variance("n", lower=0, upper=30),
    },
    "all": {
        "rows": sf.count(),
        "units": sf.count_units(),
        "sum": sf.sum("n", lower=0, upper=30),
        "mean": sf.mean("x", lower=0, upper=30),
        "variance": sf.variance("x", lower=0, upper=30),
        "quantiles": sf.quantiles("n", [0.5], lower=0, upper=30),
    },
}
LIMITS = [pytest.param((1, 1), marks=pytest.mark.long), (3, 2)]
NOISES = ["laplace", "gaussian"]


@cache
def plan_of(asked: str, noise: str, groups: int, rows: int, *, public: bool) -> Plan:
    people = sf.scan(TABLE, privacy_unit="id")
    grouped = people.group_by("group", keys=list(range(5))) if public else people.group_by("group")
    question = grouped.bound(groups=groups, rows=rows).agg(**ASKED[asked])
    return question.plan(epsilon=1, delta=1e-6, noise=noise)


def of_numbers(plan: Plan) -> Transformation:
    """A plan's chain, of groups that are plain numbers, as the falsifier's are."""
    chain = plan.exact_chain
    return replace(chain, function=lambda rows: chain([row._replace(key=(row.key,)) for row in rows]))


def in_norm(plan: Plan) -> Transformation:
    """Rows to exact statistics, measured by the norm of the plan's noise, which tells how tight a body is."""
    groups, statistics = plan.query.groups, plan.requirements.statistics
    scales = [plan.scales[name] for name in plan.requirements.body.names]
    bounding = bound_groups(groups, domain=plan.exact_chain.input_domain)
    return bounding >> per_group(statistics, plan.noise.norm, scales, groups)


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("asked", ASKED)
def test_no_unit_moves_a_plan_by_more_than_its_map_and_one_moves_it_as_far(asked, noise, limits):
    """Where squares are asked the map allows for half a step of rounding more than can be (see
    docs/proofs/moments.md); on the grids of a plan that is less than a millionth."""
    plan = plan_of(asked, noise, *limits, public=False)
    for chain in (plan.exact_chain, in_norm(plan)):
        found = falsify(chain, 1, evaluations=300)
        assert not found.violated, str(found)
        assert found.ratio >= Fraction(99, 100), str(found)


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("asked", ASKED)
def test_the_loss_of_a_plan_is_what_the_map_of_its_chain_says(asked, noise, limits):
    plan = plan_of(asked, noise, *limits, public=True)
    assert same_loss(plan)
    reach = in_norm(plan).map(1)
    if noise == "gaussian":
        assert plan.loss == Loss(gaussian=plan.loss.gaussian)
        assert 0 <= reach**2 - plan.loss.gaussian < reach**2 / 2**100  # the root is rounded up
    else:
        assert plan.loss.gaussian == 0 and plan.loss.basic_epsilon == reach
    assert plan.loss.delta(plan.epsilon) <= plan.delta
    private = plan_of(asked, noise, *limits, public=False)
    noise_alone = replace(private.measurement, selection=None).map(1)
    assert private.loss.gaussian == noise_alone.gaussian
    assert private.loss.basic_epsilon >= noise_alone.basic_epsilon


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("asked", [name for name in ASKED if name not in ("quantiles", "all")])
def test_the_chain_is_what_a_release_runs(asked, noise, limits, monkeypatch):
    """With noise that is known, a release has the numbers that the plan's chain computes from the rows."""
    for law in (Laplace, Gaussian):
        monkeypatch.setattr(law, "rounded", lambda self, n, *, words=None: 1000 + np.arange(n))
    people = sf.scan(TABLE, privacy_unit="id").group_by("group", keys=list(range(5)))
    question = people.bound(groups=limits[0], rows=limits[1]).agg(**ASKED[asked])
    release = question.release(epsilon=1, delta=1e-6, noise=noise)
    (batch,) = release._draw()
    rows = [Row(r["id"], (r["group"],), r) for r in TABLE.to_pylist()]
    exact = release.plan.exact_chain(rows)
    for name, step in release.plan.steps.items():
        drawn = [int(Fraction(v) / step) for v in batch.numbers.values[name]]
        assert drawn == [exact.get((g,), Counter())[name] + 1000 + g for g in range(5)]


class SmallMoments(Moments):
    """The largest distance from the centre is taken for half of what it is."""

    @property
    def half_range(self) -> int:
        return self.grid.half_range // 2


class HalfSum(UnitSum):
    """Half the width, which is right around the midpoint alone."""

    @property
    def body(self) -> Body:
        return Segment(self.names[0], Fraction(self.upper - self.lower, 2))


class OneRow(Count):
    """People's noise on a count of rows."""

    @property
    def body(self) -> Body:
        return Segment(self.names[0], Fraction(1 << -self.exponent))


class ShortTree(QuantileTree):
    """One level of four is forgotten."""

    @property
    def body(self) -> Body:
        class Short(SimplexBody):
            def size(self, norm: Norm, scales: Any) -> Fraction:
                return super().size(norm, scales) * Fraction(3, 4)

        return Short(**vars(super().body))


class NullIsNothing(Moments):
    """A missing value is taken to cost nothing, whatever its noise."""

    @property
    def body(self) -> Body:
        class Free(MomentsBody):
            def size(self, norm: Norm, scales: Any) -> Fraction:
                of = dict(zip(self._ordered("sum", "null_count", "squares"), scales, strict=True))
                row = self.with_value(norm, of["sum"], of.get("squares"))
                return row * (self.rows if norm is Norm.L1 else self.rows**2) * Fraction(9, 10)

        return Free(**vars(super().body))


PLANTED: dict[str, tuple[str, type[Statistic]]] = {
    "half the range": ("mean", SmallMoments),
    "missing values": ("one column", NullIsNothing),
    "width of a sum": ("sum by unit", HalfSum),
    "people for rows": ("rows", OneRow),
    "a level of the tree": ("quantiles", ShortTree),
}


@pytest.mark.long
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("defect", PLANTED)
def test_a_wrong_statistic_in_a_plan_is_found(defect, noise):
    asked, wrong = PLANTED[defect]
    plan = plan_of(asked, noise, 3, 2, public=True)
    old = plan.requirements.statistics
    new = tuple(
        wrong(**{f.name: getattr(s, f.name) for f in fields(s)}) if isinstance(s, wrong.__bases__) else s
        for s in old
    )
    assert new != old
    planted = replace(
        plan, measurement=replace(plan.measurement, requirements=replace(plan.requirements, statistics=new))
    )
    for measured in (of_numbers, in_norm):
        found = falsify(measured(planted), 1, evaluations=300)
        assert found.violated and found.failure == "distance" and not found.artefact
        assert not falsify(measured(plan), 1, evaluations=300).violated


def test_a_plan_cannot_be_changed_in_place():
    plan = plan_of("rows", "laplace", 3, 2, public=True)
    for numbers in (plan.laws, plan.scales, plan.steps, plan.measurement.laws, plan.measurement.steps):
        before = dict(numbers)
        numbers.clear()
        assert before
    assert plan.laws and plan.scales and plan.steps and plan.measurement.laws and plan.measurement.steps
