"""The K-norm of cones: against its definition by linear programs over all corners, and by enumeration."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from sfumato.errors import ParameterError
from sfumato.framework import ConeBody, GroupedIntegers, KNormDistance, Norm

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
@pytest.mark.parametrize("groups, k", [(1, 1), (2, 2), (2, 1), (3, 2), (3, 3)])
def test_the_norm_is_the_gauge_of_the_hull(body, groups, k):
    rng = np.random.default_rng(1)
    metrics = [KNormDistance(body, None if k == groups else k), KNormDistance(body, k)]
    for _ in range(6 if groups == 3 else 25):
        x = rng.integers(-6, 7, (groups, len(body.bounds)))
        truth = by_definition(body, groups, k, x)
        for metric in metrics:
            assert float(metric.distance(table(body, x.tolist()), {})) == pytest.approx(truth, abs=1e-9)
        apart = KNormDistance(body, k, apart=True).distance(table(body, x.tolist()), {})
        assert float(apart) <= truth + 1e-9


def grid(body: ConeBody) -> list[tuple[int, ...]]:
    """All whole contributions of a unit to one group, by the words of the body's description."""
    found = []
    spans = [range(int(b) + 1) for b in body.bounds[: 1 + body.units]]
    spans += [range(-int(b), int(b) + 1) for b in body.bounds[1 + body.units :]]
    for v in product(*spans):
        n, most = v[body.units], body.bounds[body.units]
        in_reach = all(
            abs(s) * most <= n * b
            for s, b in zip(v[1 + body.units :], body.bounds[1 + body.units :], strict=True)
        )
        if in_reach and (not body.units or n * body.bounds[0] <= v[0] * most):
            found.append(v)
    return found


@pytest.mark.parametrize("body", BODIES, ids=lambda b: "".join(b.names))
def test_every_contribution_is_at_most_1_and_some_are_1(body):
    own = grid(body)
    wide = product(*(range(-int(b) - 1, int(b) + 2) for b in body.bounds))
    assert {v for v in wide if body.holds(v)} == set(own)
    for k, apart in ((None, False), (1, False), (2, False), (2, True)):
        metric, most = KNormDistance(body, k, apart), F(0)
        for v, w in product(own, repeat=2):
            if k == 1 and any(v) and any(w):
                continue
            most = max(
                most, metric.distance(table(body, [v, w]), {}), metric.distance({}, table(body, [v, w]))
            )
        assert most == 1


@pytest.mark.parametrize("body", BODIES, ids=lambda b: "".join(b.names))
@pytest.mark.parametrize("groups, k", [(2, 1), (3, 2), (12, 1), (12, 4), (12, 11), (40, 20)])
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
            one, other = (metric.of(place) for place in (x.tolist(), moved))
            most = max(most, abs(one - other))
        assert most == 1


@pytest.mark.parametrize("body", BODIES, ids=lambda b: "".join(b.names))
def test_it_is_a_norm(body):
    rng = np.random.default_rng(2)
    metrics = [KNormDistance(body), KNormDistance(body, 2), KNormDistance(body, 2, apart=True)]
    for metric in metrics:
        for _ in range(100):
            x, y = rng.integers(-9, 10, (2, 3, len(body.bounds))).tolist()
            total = [[a + b for a, b in zip(r, s, strict=True)] for r, s in zip(x, y, strict=True)]
            one, other, both = (metric.distance(table(body, v), {}) for v in (x, y, total))
            assert both <= one + other
            assert (
                metric.distance({}, table(body, x))
                == one
                == metric.distance(table(body, total), table(body, y))
            )
            assert metric.distance(table(body, [[3 * a for a in r] for r in x]), {}) == 3 * one


def test_a_cone_is_a_body_like_others():
    body = BODIES[4]
    assert body.linf_sensitivities == body.split(Norm.L2) == (1, 2, 7)
    assert body.size(Norm.L1, body.linf_sensitivities) == 3 and body.size(Norm.L2, (F(1), F(1), F(7))) == 6
    assert KNormDistance(body).admits(GroupedIntegers(("u", "n", "s")))
    assert not KNormDistance(body).admits(GroupedIntegers(("u", "n")))
    assert KNormDistance(body).distance({"a": {"other": 1}}, {}) == float("inf")
    assert KNormDistance(body).distance({}, {}) == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: ConeBody((), ()),
        lambda: ConeBody(("u",), (1,), units=True),
        lambda: ConeBody(("n", "n"), (1, 1)),
        lambda: ConeBody(("n", "s"), (1,)),
        lambda: ConeBody(("n", "s"), (1, 0)),
        lambda: KNormDistance(BODIES[0], 0),
        lambda: KNormDistance(BODIES[0], apart=True),
    ],
)
def test_what_is_no_body_is_refused(make):
    with pytest.raises(ParameterError):
        make()
