"""The K-norm of cones: against its definition by linear programs over all corners, and by enumeration."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.optimize import linprog

from sfumato.errors import ParameterError
from sfumato.framework import ConeBody, GroupedIntegers, KNormDistance, Norm, ParabolaBody

BODIES = [
    ConeBody(("n",), (F(3),)),
    ConeBody(("n", "s"), (F(2), F(5))),
    ConeBody(("n", "s", "t"), (F(2), F(4), F(1, 2))),
    ConeBody(("u", "n"), (F(1), F(3)), units=True),
    ConeBody(("u", "n", "s"), (F(1), F(2), F(7)), units=True),
]
SQUARES = ParabolaBody(("n", "x", "y"), (F(2), F(3), F(5)))
BOTH = ParabolaBody(("u", "n", "x", "y"), (F(1), F(2), F(3), F(5)), units=True)


def corners(body: ConeBody) -> list[tuple[F, ...]]:
    """Those of what one unit may add to one group, or some of them."""
    if isinstance(body, ParabolaBody):
        return polygon(body, 8, within=True)
    full = [
        (*body.bounds[: 1 + body.units], *s)
        for s in product(*((-b, b) for b in body.bounds[1 + body.units :]))
    ]
    alone = [(body.bounds[0], *[F(0)] * (len(body.bounds) - 1))] if body.units else []
    return [(F(0),) * len(body.bounds), *alone, *full]


def polygon(body: ParabolaBody, sides: int, within: bool) -> list[tuple[F, ...]]:
    """Corners of a body with so many sides in the place of the parabola: chords within it, or tangents about it."""
    t = [F(2 * i, sides) - 1 for i in range(sides + 1)]
    points = [(a, 2 * a * a - 1) for a in t if within or abs(a) == 1]
    if not within:  # where two tangents meet
        points += [((a + b) / 2, 2 * a * b - 1) for a, b in pairwise(t)]
    *counts, x, y = body.bounds
    alone = [(counts[0], F(0), F(0), F(0))] if body.units else []
    return [(F(0),) * len(body.bounds), *alone, *((*counts, x * a, y * b) for a, b in points)]


def by_definition(body: ConeBody, groups: int, k: int, x: np.ndarray, own=None) -> float:
    """The least sum of weights with which corners of C and of -C make x: the gauge of conv(C or -C)."""
    own = own or corners(body)
    every = [v for v in product(own, repeat=groups) if sum(any(part) for part in v) <= k]
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
        for shared in (F(0), F(1, 10**6), F(1, 3), 1 - F(1, 10**6), F(1)):
            apart = KNormDistance(body, k, apart=True, shared=shared).distance(table(body, x.tolist()), {})
            assert float(apart) <= truth + 1e-9


@pytest.mark.parametrize("body", [SQUARES, BOTH], ids=lambda b: "".join(b.names))
@pytest.mark.parametrize("groups, k, sides, near", [(1, 1, 100, 4e-4), (2, 2, 10, 0.04), (2, 1, 12, 0.03)])
def test_the_norm_with_squares_is_between_those_of_polygons(body, groups, k, sides, near):
    rng = np.random.default_rng(3)
    metric = KNormDistance(body, None if k == groups else k)
    for trial in range(20):
        x = rng.integers(-6, 7, (groups, len(body.bounds)))
        x[:, -2] *= 1 + trial % 3
        found = float(metric.distance(table(body, x.tolist()), {}))
        most, least = (
            by_definition(body, groups, k, x, polygon(body, sides, within)) for within in (True, False)
        )
        assert least - 1e-9 <= found <= most + 1e-9 and most - least <= near * found


def test_what_squares_allow():
    n, x, y = SQUARES.bounds
    for i in range(-12, 13):
        for j in range(-12, 13):
            a, b = F(i, 10), F(j, 10)
            assert SQUARES.holds((n, x * a, y * b)) == (2 * a * a - 1 <= b <= 1)
            assert SQUARES.holds((n / 2, x * a / 2, y * b / 2)) == (2 * a * a - 1 <= b <= 1)
    with pytest.raises(ParameterError):
        ParabolaBody(("n", "x"), (1, 1))
    with pytest.raises(ParameterError):
        ParabolaBody(("u", "n", "x"), (1, 1, 1), units=True)
    assert BOTH.holds((1, 1, 0, 0)) and not BOTH.holds((0, 1, 0, 0)) and not BOTH.holds((1, 1, F(3, 2), 0))


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


@pytest.mark.parametrize(
    "body",
    [*BODIES, *(pytest.param(b, marks=pytest.mark.long) for b in (SQUARES, BOTH))],
    ids=lambda b: "".join(b.names),
)
@pytest.mark.parametrize("groups, k", [(2, 1), (3, 2), (12, 1), (12, 4), (12, 11), (40, 20)])
def test_the_logarithm_of_the_density_moves_by_at_most_1(body, groups, k):
    """For shifts by random contributions to k groups, from random places near and far; somewhere it moves by 1."""
    rng, own = np.random.default_rng(groups), corners(body)[1:]
    for shared in (F(0), F(1, 10**9), F(1, 8), F(3, 4), 1 - F(1, 10**9)):
        metric, most = KNormDistance(body, k, apart=True, shared=shared), F(0)
        for trial in range(12):
            x = rng.integers(-9, 10, (groups, len(body.bounds))) * 10 ** (trial % 3) * (trial > 0)
            moved, sign = x.tolist(), int(rng.choice([-1, 1]))
            for g in rng.permutation(groups)[:k]:
                moved[g] = [a + sign * b for a, b in zip(moved[g], own[rng.integers(len(own))], strict=True)]
            one, other = (metric.norm([body.sides(v) for v in place]) for place in (x.tolist(), moved))
            most = max(most, abs(one - other))
        assert most == 1


@pytest.mark.parametrize(
    "body",
    [*BODIES, *(pytest.param(b, marks=pytest.mark.long) for b in (SQUARES, BOTH))],
    ids=lambda b: "".join(b.names),
)
def test_it_is_a_norm(body):
    rng = np.random.default_rng(2)
    metrics = [KNormDistance(body), KNormDistance(body, 2), KNormDistance(body, 2, apart=True)]
    for metric in (*metrics, KNormDistance(body, 2, apart=True, shared=F(1, 8))):
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


# Bodies that are stretched where precision is unimportant.

STRETCHED = [
    (body, favoured)
    for body, favoured in [
        (BODIES[1], ("n",)),
        (BODIES[1], ("s",)),
        (BODIES[2], ("s",)),
        (BODIES[2], ("n", "t")),
        (BODIES[4], ("n",)),
        (BODIES[4], ("s",)),
    ]
]

FEW = [pytest.param(*s, marks=[pytest.mark.long] * (s not in STRETCHED[1::4])) for s in STRETCHED]


def stretched_corners(body: ConeBody, favoured: tuple[str, ...], part: F) -> list[list[F]]:
    """Those of the cube of what is limited, and where the favoured numbers are 0 further out; and units alone."""
    limited = body.names[body.units :]
    found = [dict(zip(limited, signs, strict=True)) for signs in product((-1, 1), repeat=len(limited))]
    found += [{n: 0 if n in favoured else F(v) / (1 - part) for n, v in one.items()} for one in found]
    if body.units:
        found = [{body.names[0]: one["n"]} | one for one in found]
        found += [{body.names[0]: sign} | dict.fromkeys(limited, 0) for sign in (-1, 1)]
    return [[F(one[n]) * b for n, b in zip(body.names, body.bounds, strict=True)] for one in found]


@pytest.mark.parametrize("part", [F(1, 8), F(3, 4)])
@pytest.mark.parametrize("body, favoured", FEW, ids=str)
def test_the_stretched_norm_is_the_gauge_of_the_stretched_body(body, favoured, part):
    columns = np.array(stretched_corners(body, favoured, part), float).T
    metric = KNormDistance(body, 1, apart=True, favoured=favoured, part=part)
    rng = np.random.default_rng(3)
    for _ in range(25):
        x = rng.integers(-9, 10, len(body.bounds)).tolist()
        found = linprog(np.ones(columns.shape[1]), A_eq=columns, b_eq=x, bounds=(0, None))
        assert found.status == 0
        assert float(metric.of([x])) == pytest.approx(found.fun, abs=1e-9)
        assert metric.distance(table(body, [x]), {}) == metric.of([x])


def moves(metric: KNormDistance, body: ConeBody, groups: int, k: int) -> F:
    """The most by which the norm of random places moves by a contribution to k groups."""
    rng, own, most = np.random.default_rng(4), corners(body)[1:], F(0)
    for trial in range(40):
        x = rng.integers(-9, 10, (groups, len(body.bounds))) * 10 ** (trial % 3) * (trial > 4)
        moved, sign = x.tolist(), int(rng.choice([-1, 1]))
        for g in rng.permutation(groups)[:k]:
            moved[g] = [a + sign * b for a, b in zip(moved[g], own[rng.integers(len(own))], strict=True)]
        most = max(most, abs(metric.of(x.tolist()) - metric.of(moved)))
    return most


class Shrunk(KNormDistance):
    """A body that is shrunk for what is favoured, where it should be stretched for the rest."""

    def of(self, vectors):
        factors = [1 + self.part * (name in self.favoured) for name in self.body.names]
        plain = KNormDistance(self.body, self.groups, apart=True)
        return plain.of([[f * v for f, v in zip(factors, own, strict=True)] for own in vectors])


@pytest.mark.parametrize("body, favoured", FEW, ids=str)
def test_no_contribution_leaves_the_stretched_body(body, favoured):
    for part in (F(1, 16), F(1, 2), F(31, 32)):
        given = {"apart": True, "favoured": favoured, "part": part}
        for groups, k in ((1, 1), (3, 2)):
            assert moves(KNormDistance(body, k, **given), body, groups, k) == 1
            assert moves(Shrunk(body, k, **given), body, groups, k) > 1
        most = max(KNormDistance(body, 1, **given).of([v]) for v in grid(body))
        assert most == 1 < max(Shrunk(body, 1, **given).of([v]) for v in grid(body))


@pytest.mark.parametrize(
    "given",
    [
        {"favoured": ("n", "s")},
        {"favoured": ("x",)},
        {"favoured": ("n",), "part": F(0)},
        {"favoured": (), "part": F(1, 2)},
        {"favoured": ("n",), "part": F(1)},
        {"favoured": ("n",), "apart": False},
        {"favoured": ("n",), "shared": F(1, 2)},
    ],
)
def test_what_is_favoured_is_some_of_what_is_limited_in_groups_by_themselves(given):
    with pytest.raises(ParameterError):
        KNormDistance(**{"body": BODIES[1], "groups": 1, "apart": True, "part": F(1, 2)} | given)
    with pytest.raises(ParameterError):
        KNormDistance(BODIES[4], 1, apart=True, favoured=("u",), part=F(1, 2))
