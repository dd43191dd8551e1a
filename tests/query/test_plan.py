"""A plan's only privacy claim is the map of its chain, and the chain keeps to it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.audit import falsify
from sfumato.budget import Loss
from sfumato.query.plan import Plan
from sfumato.transformations import Count, Moments, Norm, QuantileTree, Statistic, UnitSum

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
LIMITS = [(1, 1), (3, 2)]
NOISES = ["laplace", "gaussian"]


@cache
def plan_of(asked: str, noise: str, groups: int, rows: int, *, public: bool) -> Plan:
    people = sf.scan(TABLE, privacy_unit="id")
    grouped = people.group_by("group", keys=list(range(5))) if public else people.group_by("group")
    question = grouped.bound(groups=groups, rows=rows).agg(**ASKED[asked])
    return question.plan(epsilon=1, delta=1e-6, noise=noise)


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("asked", ASKED)
def test_no_unit_moves_a_plan_by_more_than_its_map_and_one_moves_it_as_far(asked, noise, limits):
    """Where squares are asked the map allows for half a step of rounding more than can be (see
    docs/proofs/moments.md); on the grids of a plan that is less than a millionth."""
    plan = plan_of(asked, noise, *limits, public=False)
    found = falsify(plan.chain, 1, evaluations=400)
    assert not found.violated, str(found)
    assert found.ratio >= Fraction(99, 100), str(found)


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("asked", ASKED)
def test_the_loss_of_a_plan_is_what_the_map_of_its_chain_says(asked, noise, limits):
    plan = plan_of(asked, noise, *limits, public=True)
    reach = plan.chain.map(1)
    if noise == "gaussian":
        assert plan.loss == Loss(gaussian=reach**2)
    else:
        assert plan.loss.gaussian == 0 and plan.loss.basic_epsilon == reach
    private = plan_of(asked, noise, *limits, public=False)
    assert private.loss.gaussian == (private.chain.map(1) ** 2 if noise == "gaussian" else 0)
    assert private.loss.basic_epsilon >= (private.chain.map(1) if noise == "laplace" else 0)


class SmallMoments(Moments):
    """The largest distance from the centre is taken for half of what it is."""

    @property
    def reach(self) -> int:
        return self.grid.half_range // 2


class HalfSum(UnitSum):
    """Half the width, which is right around the midpoint alone."""

    @property
    def largest(self) -> tuple[Fraction, ...]:
        return (Fraction(self.upper - self.lower, 2),)


class OneRow(Count):
    """People's noise on a count of rows."""

    @property
    def largest(self) -> tuple[Fraction, ...]:
        return (Fraction(1 << -self.exponent),)


class ShortTree(QuantileTree):
    """One level of four is forgotten."""

    def sensitivity(self, norm: Norm, scales: Any) -> Fraction:
        return super().sensitivity(norm, scales) * Fraction(3, 4)


class NullIsNothing(Moments):
    """A missing value is taken to cost nothing, whatever its noise."""

    def sensitivity(self, norm: Norm, scales: Any) -> Fraction:
        of = dict(zip(self._ordered("sum", "absent", "squares"), scales, strict=True))
        row = self._with_value(norm, of["sum"], of.get("squares"))
        return row * (self.rows if norm is Norm.L1 else self.rows**2) * Fraction(9, 10)


PLANTED: dict[str, tuple[str, type[Statistic]]] = {
    "half the reach": ("mean", SmallMoments),
    "missing values": ("one column", NullIsNothing),
    "width of a sum": ("sum by unit", HalfSum),
    "people for rows": ("rows", OneRow),
    "a level of the tree": ("quantiles", ShortTree),
}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("defect", PLANTED)
def test_a_wrong_statistic_in_a_plan_is_found(defect, noise):
    asked, wrong = PLANTED[defect]
    plan = plan_of(asked, noise, 3, 2, public=True)
    old = plan.requirements.statistics
    new = tuple(wrong(**vars(s)) if isinstance(s, wrong.__bases__) else s for s in old)
    assert new != old
    planted = replace(plan, requirements=replace(plan.requirements, statistics=new))
    found = falsify(planted.chain, 1, evaluations=1500)
    assert found.violated and found.failure == "distance" and not found.artefact
    assert not falsify(plan.chain, 1, evaluations=300).violated
