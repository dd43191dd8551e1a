"""Distances as seen through noise with a part in common: against a matrix's inverse, and over all corners."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.framework import CentredDistance, ConeBody, GroupedIntegers, Product, Segment

COUNT = CentredDistance(ConeBody(("n",), (F(2),)), (F(3),), F(5, 2), F(1, 2), range(4))
SUMS = CentredDistance(ConeBody(("n", "s"), (F(1), F(6))), (F(4), F(9)), F(3), F(3, 4), range(4))
UNITS = CentredDistance(
    ConeBody(("u", "n", "s"), (F(1), F(2), F(8)), True), (F(4), F(5), F(9)), F(3), F(5, 8), range(4)
)
METRICS = [COUNT, SUMS, UNITS]


def parts(metric):
    return Product(tuple(Segment(n, b) for n, b in zip(metric.body.names, metric.body.bounds, strict=True)))


def covariance(metric):
    own = np.diag([float(s) ** 2 for s in metric.scales] * len(metric.keys))
    common = np.array([float(c) for c in metric.common] * len(metric.keys))
    return own + np.outer(common, common)


def length(metric, x):
    return float(np.sqrt(x.ravel() @ np.linalg.solve(covariance(metric), x.ravel())))


def table(metric, x):
    return {g: dict(zip(metric.body.names, row, strict=True)) for g, row in enumerate(x)}


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: "".join(m.body.names))
def test_it_is_the_length_in_the_inverse_of_the_covariance(metric):
    rng = np.random.default_rng(1)
    for _ in range(50):
        x, y = rng.integers(-9, 10, (2, len(metric.keys), len(metric.scales)))
        found = metric.distance(table(metric, x.tolist()), table(metric, y.tolist()))
        assert float(found) == pytest.approx(length(metric, x - y), rel=1e-12)
    assert metric.distance({}, {}) == 0 and metric.distance({1: {"other": 1}}, {}) == float("inf")
    # Of groups that are not shown nothing is seen.
    assert metric.distance({"private": {metric.body.names[0]: 5}}, {}) == 0


def corners(body):
    """Those of what one unit may add to one group."""
    counts = body.bounds[: 1 + body.units]
    full = [(*counts, *s) for s in product(*((-b, b) for b in body.bounds[1 + body.units :]))]
    alone = [(body.bounds[0], *[F(0)] * (len(body.bounds) - 1))] if body.units else []
    return [(F(0),) * len(body.bounds), *alone, *full]


def farthest(metric, groups):
    """The largest squared length of a unit's contribution, by all corners."""
    every = product(corners(metric.body), repeat=len(metric.keys))
    return max(length(metric, np.array(v, float)) ** 2 for v in every if sum(map(any, v)) <= groups)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("metric", METRICS, ids=lambda m: "".join(m.body.names))
def test_no_contribution_moves_farther_than_it_says(metric, groups):
    for centre in (F(1, 8), F(1, 2), metric.centre, F(1)):
        # The noise in common stays what it is; the centre is the analysis' own.
        moved = replace(metric, centre=centre, total=metric.total * metric.centre / centre)
        assert moved.common == metric.common
        assert farthest(metric, groups) <= float(moved.moved(parts(metric), groups)) * (1 + 1e-12)


def test_the_bound_is_reached():
    """Four groups, counts from one half: two of the groups is the farthest that a unit goes."""
    even = replace(COUNT, scales=(F(2) * F(245, 100),), total=F(346, 100), centre=F(1, 2))
    assert farthest(even, 4) == pytest.approx(float(even.moved(parts(even), 4)), rel=1e-3)


class NotShown(CentredDistance):
    """Groups that the unit is not in are forgotten: their noise is about a part of all units too."""

    def moved(self, body, groups):
        out = (self.centre * self.body.bounds[0] / self.scales[0]) ** 2
        return super().moved(body, groups) - (len(self.keys) - groups) * out


class NoTotal(CentredDistance):
    """N is known."""

    def moved(self, body, groups):
        return super().moved(body, groups) - 1 / self.total**2


class OneGroup(CentredDistance):
    """A unit in one group, whatever the limit is."""

    def moved(self, body, groups):
        return super().moved(body, 1)


class CountsAlone(CentredDistance):
    """Sums cost nothing beside the count that limits them."""

    def moved(self, body, groups):
        return super().moved(Product(body.parts[: self.counts]), groups)


@pytest.mark.parametrize("kind, groups", [(NotShown, 2), (NoTotal, 4), (OneGroup, 4), (CountsAlone, 4)])
def test_a_wrong_bound_is_found(kind, groups):
    shape = SUMS if kind is CountsAlone else COUNT
    for centre in (F(1, 4), F(1, 2), F(3, 4)):
        given = {"centre": centre, "scales": tuple(s / 3 for s in shape.scales), "total": F(2)}
        honest = replace(shape, **given)
        wrong = kind(honest.body, honest.scales, honest.total, honest.centre, honest.keys)
        assert farthest(honest, groups) <= float(honest.moved(parts(honest), groups)) * (1 + 1e-12)
        if farthest(honest, groups) > float(wrong.moved(parts(honest), groups)):
            return
    raise AssertionError(kind)


def test_what_is_refused():
    assert COUNT.admits(GroupedIntegers(("n",))) and not COUNT.admits(GroupedIntegers(("u",)))
    numbers = ({"scales": ()}, {"scales": (F(0),)}, {"total": F(0)}, {"centre": F(2)})
    for given in (*numbers, {"keys": ()}, {"keys": ("a", "b", "a")}):
        with pytest.raises(ParameterError):
            replace(COUNT, **given)
    with pytest.raises(ParameterError):
        SUMS.moved(SUMS.body, 1)
