"""The K-norm of cones, and lengths as seen through noise in common: against linear programs, an inverse and all corners."""

from dataclasses import replace
from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from sfumato.errors import ParameterError
from sfumato.framework import CentredDistance, ConeBody, GroupedIntegers, KNormDistance, Product, Segment

BODIES = [
    ConeBody(("n",), (F(3),)),
    ConeBody(("n", "s"), (F(2), F(5))),
    ConeBody(("n", "s", "t"), (F(2), F(4), F(1, 2))),
    ConeBody(("u", "n"), (F(1), F(3)), units=True),
    ConeBody(("u", "n", "s"), (F(1), F(2), F(7)), units=True),
]


def corners(body: ConeBody) -> list[tuple[F, ...]]:
    """Those of what one unit may add to one group."""
    full = [
        (*body.bounds[: 1 + body.units], *s)
        for s in product(*((-b, b) for b in body.bounds[1 + body.units :]))
    ]
    alone = [(body.bounds[0], *[F(0)] * (len(body.bounds) - 1))] if body.units else []
    return [(F(0),) * len(body.bounds), *alone, *full]


def by_definition(body: ConeBody, groups: int, k: int, x: np.ndarray) -> float:
    """The least sum of weights with which corners of C and of -C make x: the gauge of conv(C or -C)."""
    every = [v for v in product(corners(body), repeat=groups) if sum(any(part) for part in v) <= k]
    columns = np.array([[float(value) for part in v for value in part] for v in every]).T
    both = np.hstack([columns, -columns])
    found = linprog(np.ones(both.shape[1]), A_eq=both, b_eq=x.ravel(), bounds=(0, None))
    assert found.status == 0
    return float(found.fun)


def table(body: ConeBody, x) -> dict:
    return {g: dict(zip(body.names, row, strict=True)) for g, row in enumerate(x)}


@pytest.mark.parametrize("body", BODIES, ids=lambda b: "".join(b.names))
@pytest.mark.parametrize("groups, k", [(1, 1), (2, 1), (2, 2), pytest.param(3, 2, marks=pytest.mark.long)])
def test_the_norm_is_the_gauge_of_the_hull(body, groups, k):
    rng = np.random.default_rng(1)
    metrics = [KNormDistance(body, None if k == groups else k), KNormDistance(body, k)]
    for _ in range(6):
        x = rng.integers(-6, 7, (groups, len(body.bounds)))
        truth = by_definition(body, groups, k, x)
        for metric in metrics:
            assert float(metric.distance(table(body, x.tolist()), {})) == pytest.approx(truth, abs=1e-9)
        apart = KNormDistance(body, k, apart=True).distance(table(body, x.tolist()), {})
        assert float(apart) <= truth + 1e-9


@pytest.mark.parametrize("body", BODIES, ids=lambda b: "".join(b.names))
@pytest.mark.parametrize("groups, k", [(2, 1), (12, 4), (40, 20)])
def test_the_logarithm_of_the_density_moves_by_at_most_1(body, groups, k):
    """For shifts by random contributions to k groups, from random places near and far; somewhere it moves by 1."""
    rng, own = np.random.default_rng(groups), corners(body)[1:]
    for apart in (True, False):
        metric, most = KNormDistance(body, k, apart), F(0)
        for trial in range(12):
            x = rng.integers(-9, 10, (groups, len(body.bounds))) * 10 ** (trial % 3) * (trial > 0)
            moved, sign = x.tolist(), int(rng.choice([-1, 1]))
            for g in rng.permutation(groups)[:k]:
                moved[g] = [a + sign * b for a, b in zip(moved[g], own[rng.integers(len(own))], strict=True)]
            one, other = (metric.vector_norm(place) for place in (x.tolist(), moved))
            most = max(most, abs(one - other))
        assert most == 1


# Noise with a part in common.

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


def by_name(metric, x):
    return {g: dict(zip(metric.body.names, row, strict=True)) for g, row in enumerate(x)}


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: "".join(m.body.names))
def test_it_is_the_length_in_the_inverse_of_the_covariance(metric):
    rng = np.random.default_rng(1)
    for _ in range(50):
        x, y = rng.integers(-9, 10, (2, len(metric.keys), len(metric.scales)))
        found = metric.distance(by_name(metric, x.tolist()), by_name(metric, y.tolist()))
        assert float(found) == pytest.approx(length(metric, x - y), rel=1e-12)
    assert metric.distance({}, {}) == 0 and metric.distance({1: {"other": 1}}, {}) == float("inf")
    # Of groups that are not shown nothing is seen.
    assert metric.distance({"private": {metric.body.names[0]: 5}}, {}) == 0


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


def test_distances_that_are_refused():
    assert COUNT.admits(GroupedIntegers(("n",))) and not COUNT.admits(GroupedIntegers(("u",)))
    numbers = ({"scales": ()}, {"scales": (F(0),)}, {"total": F(0)}, {"centre": F(2)})
    for given in (*numbers, {"keys": ()}, {"keys": ("a", "b", "a")}):
        with pytest.raises(ParameterError):
            replace(COUNT, **given)
    with pytest.raises(ParameterError):
        SUMS.moved(SUMS.body, 1)
