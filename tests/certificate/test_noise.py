"""Shapes of noise, against their definitions: norms by linear programs, squared lengths by all subsets."""

import itertools
import math
import random
from decimal import localcontext
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import linprog

from sfumato.certificate import CertificateError, certificate, certify, composition
from sfumato.certificate.composition import Loss
from sfumato.certificate.description import _steps_left, read
from sfumato.certificate.unit_loss import bounding, lone_chance, noise_loss
from tests.certificate.descriptions import (
    BINS,
    NULLS,
    ROWS,
    SUMS,
    UNITS,
    independent,
    k_norm,
    part,
    release,
    threshold,
)

BLOCKS = {
    "shape": "tree_laplace", "scales": {"units": "99"}, "series": 1, "steps": 5, "blocks": [1, 3],
}  # fmt: skip


@pytest.fixture(autouse=True)
def digits():
    """Those that the checker computes with."""
    _steps_left.set(1 << 62)
    with localcontext(composition.DIGITS):
        yield


def losses(described):
    described = read(described, "part")
    return noise_loss(described, bounding(described))


def body(units, signed):
    """The corners of what one unit adds to one group, in scales: units, a count, and numbers that it limits."""
    signs = [list(s) for s in itertools.product((-1, 1), repeat=signed)]
    zero = [0] * signed
    if units:
        return [[0, 0, *zero], [1, 0, *zero], [1, 1, *zero], *([1, 1, *s] for s in signs)]
    return [[0, *zero], [1, *zero], *([1, *s] for s in signs)]


def gauge(x, corners):
    """The norm whose ball is the hull of a body and its mirror image: the least sum of parts."""
    groups, corners = len(x), np.array(corners, float)
    corners = corners[np.any(corners != 0, axis=1)]
    many, size = len(corners), corners.shape[1]
    # x_g = sum of weights of corners less those of mirrored ones; in each group each at most one number.
    columns = 2 * groups * many + 2
    equal = np.zeros((groups * size, columns))
    most = np.zeros((2 * groups, columns))
    for g in range(groups):
        for side, sign in ((0, 1), (1, -1)):
            at = (2 * g + side) * many
            equal[g * size : (g + 1) * size, at : at + many] = sign * corners.T
            most[2 * g + side, at : at + many] = 1
            most[2 * g + side, -2 + side] = -1
    cost = np.zeros(columns)
    cost[-2:] = 1
    found = linprog(cost, most, np.zeros(2 * groups), equal, np.array(x, float).reshape(-1))
    return found.fun


@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
def test_joint_k_norm_by_linear_programs(units, groups):
    """A unit's corner in each of its groups: the norm that the sampler draws by is never above the bound."""
    order = ["units", "rows", "x.sum"] if units else ["rows", "x.sum"]
    statistics = ([UNITS] if units else []) + [ROWS, SUMS]
    rng = random.Random(3 * groups + units)
    for _ in range(10):
        scales = [x * Fraction(rng.randint(2, 9), 3) for x in [1] * units + [3, 3000]]
        named = dict(zip(order, scales, strict=True))
        sizes = [Fraction(x) / s for x, s in zip([1] * units + [3, 3000], scales, strict=True)]
        noise = k_norm(order, units=units) | {"scales": {n: str(s) for n, s in named.items()}}
        found = losses(part(statistics, noise, per_unit=groups, shown=groups))
        bound = float(found.pure)
        corners = [[float(a * s) for a, s in zip(corner, sizes, strict=True)] for corner in body(units, 1)]
        most = max(gauge(x, body(units, 1)) for x in itertools.product(corners, repeat=groups))
        assert most <= bound + 1e-9
        assert most >= bound - 1e-9  # two groups may hold different corners: reached


def test_k_norm_of_each_group_adds_up():
    noise = k_norm(["rows", "x.sum"], joint=False, rows=3, x_sum=2000)
    found = losses(part([ROWS, SUMS], noise, per_unit=3))
    assert found == Loss(((Fraction(3, 2), 3),), Fraction(9, 2), Fraction(27, 8))


@pytest.mark.parametrize(
    ("order", "statistics", "units"),
    [
        (["x.sum", "rows"], [ROWS, SUMS], False),  # a signed number limits nothing
        (["rows", "units"], [UNITS, ROWS], False),  # rows do not limit units
        (["rows", "x.sum"], [ROWS | {"rows": 2}, SUMS], False),  # rows of another limit
        (["n", "x.sum"], [{"kind": "values", "name": "n", "one": "1", "rows": 3, "column": "y"}, SUMS], False),
        (["n", "x.sum", "x.nulls"], [{"kind": "values", "name": "n", "one": "1", "rows": 3, "column": "x"}, NULLS], False),
        (["t"], [{"kind": "unit_sum", "name": "t", "lower": "1", "upper": "9", "centre": "5", "missing": False}], False),
        (["t"], [{"kind": "unit_sum", "name": "t", "lower": "1", "upper": "9", "centre": "1", "missing": True}], False),
        (["x.sum"], [SUMS], False),
        (["rows"], [ROWS], True),
        (["rows", "units", "x.sum"], [UNITS, ROWS, SUMS], True),
        (["t", "x.sum"], [{"kind": "distinct", "name": "t", "one": "1", "values": 2, "matched": True}, SUMS], False),
        (["a", "b"], [{"kind": "bins", "names": ["a", "b"], "rows": 1, "one": "1", "weight": "1"}], False),
    ],
)  # fmt: skip
def test_counts_that_limit_nothing_are_refused(order, statistics, units):
    noise = k_norm(order, units=units) | {"scales": {name: "1000000" for name in order}}
    with pytest.raises(CertificateError):
        losses(part(statistics, noise))


@pytest.mark.parametrize(
    ("statistics", "noise", "groups"),
    [
        ([BINS], k_norm(["a", "b", "c"], joint=False, body="cube", a=99, b=99, c=99), {}),  # numbers of one row
        ([UNITS], BLOCKS, {"total_rows": 1}),
        ([UNITS], BLOCKS, {"keys": "brought"}),
    ],
)  # fmt: skip
def test_noise_that_does_not_hide_such_numbers_is_refused(statistics, noise, groups):
    with pytest.raises(CertificateError, match=r"noise\.shape"):
        losses(part(statistics, noise, **groups))


@pytest.mark.parametrize("joint", [True, False])
def test_k_norm_of_rows_limited_in_all_groups(joint):
    """All rows in one group are as far as rows can be; units are in each of their groups."""
    for statistics, names, times in (([ROWS], ["rows"], 1), ([UNITS, ROWS], ["units", "rows"], 3)):
        scales = {"scales": {name: "2" for name in names}}
        noise = k_norm(names, joint=joint, units=len(names) > 1) | scales
        norm = gauge([[x / 2 for x in (1, 3)[2 - len(names) :]]], body(len(names) > 1, 0))
        found = losses(part(statistics, noise, per_unit=3, shown=3, total_rows=3))
        ways = [way for way in itertools.product(range(4), repeat=3) if 0 < sum(way) <= 3]
        moved = [[[min(n, 1) / 2, n / 2][2 - len(names) :] for n in way] for way in ways]
        if joint:
            most = max(gauge(x, body(len(names) > 1, 0)) for x in moved)
        else:
            most = max(sum(gauge([x], body(len(names) > 1, 0)) for x in way) for way in moved)
        assert most <= float(found.pure) + 1e-9 and found.pure <= (1 if joint else times) * norm + 1e-9


def test_k_norm_of_units_that_are_in_as_many_groups_as_they_have_rows():
    noise = k_norm(["units"], joint=False) | {"scales": {"units": "2"}}
    found = losses(part([UNITS], noise, per_unit=3, shown=3, total_rows=3))
    assert found.pure == Fraction(3, 2)  # as with one row in each of three groups


def subsets(many, k):
    return itertools.combinations(range(many), min(many, k))


@pytest.mark.parametrize("series", [1, 2])
@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_series_by_all_subsets(series, k):
    """The largest squared length of what a unit adds to weighted sums, in whichever steps it is."""
    weights, steps = [16, 9, 7, 7, 2], 5
    noise = {
        "shape": "series_gaussian",
        "scales": {"units": "2"},
        "series": series,
        "weights": weights,
        "weight_bits": 4,
    }
    found = losses(part([UNITS], noise, per_unit=k, shown=series * steps))
    one = np.array([[weights[t - s] if t >= s else 0 for s in range(steps)] for t in range(steps)])
    matrix = np.kron(np.eye(series, dtype=int), one)
    most = max(int((matrix[:, list(at)].sum(axis=1) ** 2).sum()) for at in subsets(series * steps, k))
    bound = found.mu_squared * 4 * 256
    assert most <= bound <= most * (1 if series == 1 else Fraction(6, 5))


def test_weights_that_rise_are_refused():
    noise = {
        "shape": "series_gaussian",
        "scales": {"units": "2"},
        "series": 1,
        "weights": [16, 9, 10],
        "weight_bits": 4,
    }
    with pytest.raises(CertificateError, match="weights"):
        losses(part([UNITS], noise, shown=3))


def test_series_that_leave_groups_out_are_refused():
    noise = {
        "shape": "series_gaussian",
        "scales": {"units": "2"},
        "series": 2,
        "weights": [16, 9],
        "weight_bits": 4,
    }
    assert losses(part([UNITS], noise, shown=4)).mu_squared > 0
    for shown in (3, 5, 2):
        with pytest.raises(CertificateError, match="not all groups are steps"):
            losses(part([UNITS], noise, shown=shown))


@pytest.mark.parametrize("k", range(1, 8))
def test_levels_by_all_subsets(k):
    cells, totals = 7, [[0, 1, 2], [3, 4], [5], [6]]
    levels = [
        {"size": "2", "totals": [{"cells": 1, "times": 7}]},
        {
            "size": "3",
            "totals": [{"cells": 3, "times": 1}, {"cells": 1, "times": 2}, {"cells": 2, "times": 1}],
        },
        {"size": "5", "totals": [{"cells": 7, "times": 1}]},
    ]
    noise = {"shape": "levels_gaussian", "scales": {"units": "4"}, "levels": levels}
    found = losses(part([UNITS], noise, per_unit=k, shown=cells))

    def moved(at):
        own = sum(Fraction(len({*at} & {*total})) ** 2 for total in totals)
        return (Fraction(len(at), 4) + own / 9 + Fraction(len(at) ** 2, 25)) / 16

    # Each level is at its worst by itself, so the bound may be above the worst of all together.
    most = max(map(moved, subsets(cells, k)))
    assert most <= found.mu_squared <= most * Fraction(11, 10)


def test_levels_that_leave_groups_out_are_refused():
    levels = [
        {"size": "1", "totals": [{"cells": 1, "times": 5}]},
        {"size": "1", "totals": [{"cells": 2, "times": 2}]},
    ]
    noise = {"shape": "levels_gaussian", "scales": {"units": "4"}, "levels": levels}
    with pytest.raises(CertificateError, match="not of all groups"):
        losses(part([UNITS], noise))


@pytest.mark.parametrize(
    ("counts", "names"),
    [
        (["units"], ["units", "x.sum"]),
        (["units", "rows"], ["units", "rows", "x.sum"]),
        (["units", "rows"], ["units", "rows"]),  # a unit that has no rows may be the farthest
    ],
)
@pytest.mark.parametrize("k", [1, 2, 4])
def test_a_number_in_common(counts, names, k):
    """The squared distance by the covariance of all groups, at all corners; the checker takes the best t."""
    rng, shown = random.Random(k + len(counts)), 4
    of = {"units": (UNITS, 1), "rows": (ROWS, 3), "x.sum": (SUMS, 3000)}
    if len(counts) == 1:
        of["x.sum"] = SUMS | {"rows": 1}, 1000
    statistics, box = [of[name][0] for name in names], [of[name][1] for name in names]
    heavier = 2 if "x.sum" in names else 8  # than the first count, in what all have in common
    corners = [[0] * len(box), [1, *[0] * (len(box) - 1)], box] + ([[1, 3, 0]] if len(box) > 2 else [])
    for _ in range(4):
        scales = [Fraction(b) * Fraction(rng.randint(4, 16), 4) for b in box]
        common = Fraction(rng.randint(2, 12), 8)
        noise = {
            "shape": "centred_gaussian",
            "scales": {n: str(s) for n, s in zip(names, scales, strict=True)},
            "counts": [{"name": n, "weight": 1 + heavier * i} for i, n in enumerate(counts)],
            "common": str(common),
            "fine_bits": 20,
        }
        found = losses(part(statistics, noise, per_unit=k, shown=shown))
        weights = [1 + heavier * i if i < len(counts) else 0 for i in range(len(box))]
        shared = np.array(weights * shown, float)
        covariance = np.diag([float(s) ** 2 for s in scales] * shown) + float(common) ** 2 * np.outer(
            shared, shared
        )
        inverse = np.linalg.inv(covariance)
        most = 0.0
        for way in itertools.product(corners, repeat=k):
            x = np.array([*itertools.chain(*way), *[0] * len(box) * (shown - k)], float)
            most = max(most, x @ inverse @ x)
        bound = float(found.mu_squared)
        assert most <= bound * (1 + 1e-12)
        assert bound <= most * (1.01 if len(counts) == 1 else 1.6)


def test_a_number_in_common_moves_by_fine_steps():
    """With no bits below a step the number in common moves by whole units, which is worse."""
    noise = {
        "shape": "centred_gaussian",
        "scales": {"units": "2"},
        "common": "1",
        "counts": [{"name": "units", "weight": 1}],
    }
    bounds = [
        losses(part([UNITS], noise | {"fine_bits": b}, per_unit=4, shown=4)).mu_squared for b in (0, 20)
    ]
    assert bounds[0] > bounds[1]


def tail(reach, signed, units):
    """The tail of the first number under the density that K-norm noise has, by quadrature."""

    def beside(n):  # the density of a count of n, over all numbers that it limits
        inside = mp.exp(-n) * (2 * n) ** signed
        if not signed:
            return inside
        # The integral of m 2^m t^(m-1) e^-t over t from n: the other numbers' largest is t.
        return inside + signed * 2**signed * mp.gammainc(signed, n)

    whole = 2 * mp.quad(beside, [0, 5, 20, mp.inf])
    if not units:
        return mp.quad(beside, [reach, reach + 5, mp.inf]) / whole

    def above(u):  # units are another Laplace number off the count
        return mp.exp(-u) / 2 if u > 0 else 1 - mp.exp(u) / 2

    places = [-20, 0, reach, reach + 20]
    return mp.quad(lambda n: beside(abs(n)) * above(reach - n), places) / whole


@pytest.mark.parametrize("signed", [0, 1, 3])
@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("at", [2, 6, 14])
def test_tails_of_k_norm_noise(signed, units, at):
    names = ["units", *(["rows"] if units else []), *(f"s{i}" for i in range(signed))]
    statistics = [UNITS, *([ROWS] if units else []), *(SUMS | {"name": f"s{i}"} for i in range(signed))]
    noise = k_norm(names, joint=False, units=units) | {"scales": {n: "7/3" for n in names}}
    described = part(statistics, noise, selection=threshold(at), keys="private", per_unit=1)
    found = lone_of(read(described, "part"))
    true = tail((mp.mpf(at) - 1.5) * 3 / 7, signed, units)
    assert true * (1 - mp.mpf(10) ** -7) <= float(found) <= true * (1 + mp.mpf(10) ** -6)


@pytest.mark.parametrize("units", [False, True])
def test_far_tails_of_much_k_norm_noise(units):
    """Of 400 numbers, where e^-reach is far below the least float, and the chance is not."""
    names = ["units", *(["rows"] if units else []), *(f"s{i}" for i in range(400))]
    statistics = [UNITS, *([ROWS] if units else []), *(SUMS | {"name": f"s{i}"} for i in range(400))]
    noise = k_norm(names, joint=False, units=units) | {"scales": dict.fromkeys(names, "1")}
    described = part(statistics, noise, selection=threshold(1500), keys="private", per_unit=1)
    found = lone_of(read(described, "part"))
    with mp.workdps(40):
        true = far_tail(mp.mpf(1500) - mp.mpf(3) / 2, 401, units)
        assert true <= exact(found) <= true * (1 + mp.mpf(10) ** -30) and true < 1e-100


def lone_of(one):
    return lone_chance(one, bounding(one))


def exact(x):
    return mp.mpf(x.numerator) / x.denominator


def far_tail(reach, count, units):
    erlang = [mp.gammainc(j, reach, regularized=True) if j else mp.mpf(0) for j in range(count + 2)]
    true = mp.fsum(erlang[1 : count + 1]) / count / 2
    if units:
        sums = [mp.fsum(erlang[j - i + 1] / 2**i for i in range(1, j + 1)) for j in range(1, count + 1)]
        true = mp.fsum((erlang[j + 1] + sums[j - 1] + mp.exp(-reach) / 2**j) / 2 for j in range(1, count + 1))
        true = true / count / 2
    return true


@pytest.mark.parametrize("scale", ["1/3", "3", "1000000"])
@pytest.mark.parametrize("law", ["laplace", "discrete_laplace", "gaussian"])
def test_tails_of_independent_noise(law, scale):
    noise = {"shape": "independent", "law": law, "scales": {"units": scale}}
    found = lone_of(read(part([UNITS], noise, selection=threshold(11), keys="private", per_unit=1), "part"))
    with mp.workdps(60):
        b = mp.mpf(Fraction(scale).numerator) / Fraction(scale).denominator
        r = mp.exp(-1 / b)  # the sum of r^n from 10 on, over that of all r^|n|
        true = {
            "laplace": mp.exp(-9.5 / b) / 2,
            "discrete_laplace": r**10 / (1 - r) / (1 + 2 * r / (1 - r)),
            "gaussian": mp.ncdf(-9.5 / b),
        }[law]
        assert true <= mp.mpf(found.numerator) / found.denominator <= true * (1 + mp.mpf(10) ** -40)


@pytest.mark.parametrize("sigma", ["1/3", "4", "100"])
def test_a_unit_that_shares_may_be_in_any_number_of_groups(sigma):
    """The chance of each number of groups is within the bound, and of 1 or of 1,000 groups nearly the bound."""
    scale, most = Fraction(sigma), 1000
    noise = independent("gaussian", units=scale * 2**20)
    units, rule = UNITS | {"one": str(2**20)}, threshold(int((1 + 5 * scale) * 2**20))
    limits = {"keys": "private", "beyond": "share", "per_unit": most}
    found = lone_of(read(part([units], noise, selection=rule, **limits), "part"))
    with mp.workdps(60):

        def chance(t):
            reach = (rule["threshold"] - mp.mpf(1) / 2) / 2**20 - mp.floor(2**20 / mp.sqrt(t)) / 2**20
            return 1 - (1 - mp.ncdf(-reach / exact(scale))) ** t

        chances = [chance(t) for t in range(1, most + 1)]
        assert max(chances) <= exact(found) <= max(chances) * 1.03
        assert max(chances) == (chances[0] if sigma == "1/3" else chances[-1])


def test_hidden_groups_by_enumeration(monkeypatch):
    """A toy with noise of three values on the units of two groups: all outputs, both directions, exactly."""
    law = {-1: Fraction(1, 5), 0: Fraction(3, 5), 1: Fraction(1, 5)}
    at, epsilon_power = 2, Fraction(3)  # a group is shown from 2 on; e^epsilon = 3

    def outputs(units):
        """The chances of what is seen of groups with so many units; a group without any is never there."""
        found = {}
        for drawn in itertools.product(law, repeat=len(units)):
            seen = tuple(n + z if n and n + z >= at else None for n, z in zip(units, drawn, strict=True))
            found[seen] = found.get(seen, 0) + math.prod(law[z] for z in drawn)
        return found

    def delta(one, other):
        a, b = outputs(one), outputs(other)
        return sum(max(p - epsilon_power * b.get(seen, 0), 0) for seen, p in a.items())

    chance = sum(p for z, p in law.items() if 1 + z >= at)
    noise = [
        Fraction(0),
        max(delta([9], [8]), delta([8], [9])),
        max(delta([9, 9], [8, 8]), delta([8, 8], [9, 9])),
    ]

    class Toy(Loss):
        def __add__(self, other):
            return self

        def delta(self, epsilon, enough):
            return noise[int(self.mu_squared)]

    monkeypatch.setattr(certificate, "lone_chance", lambda part, limits: 1 - (1 - chance) ** limits.groups)
    monkeypatch.setattr(
        certificate, "noise_loss", lambda part, limits: Toy(mu_squared=Fraction(limits.groups))
    )
    for k in (1, 2):
        events = 1 - (1 - chance) ** k
        claim = str((events + (1 - events) * noise[k]) * Fraction(1_000_001, 1_000_000))
        ways = [[0] * lone + [8] * (k - lone) for lone in range(k + 1)]
        true = max(max(delta(w, [n + 1 for n in w]), delta([n + 1 for n in w], w)) for w in ways)
        described = part(
            [UNITS],
            independent("laplace", units=1),
            keys="private",
            per_unit=k,
            selection=threshold(2),
            delta=claim,
        )
        assert true <= certify(release(described)).delta <= true * Fraction(2)


def test_truncated_geometric_beside_noise():
    rule = {"kind": "truncated_geometric", "epsilon": "1/8", "delta": "1/10000000", "pre_threshold": 3}
    described = part(
        [ROWS], independent("laplace", rows=8), selection=rule, keys="private", delta="1/1000000"
    )
    found = certify(release(described))
    true = 1 - (1 - Fraction(1, 10**7)) ** 2
    assert found.pure == found.epsilon == 1 and true <= found.delta < true * (1 + Fraction(1, 10**50))
    with pytest.raises(CertificateError, match="delta"):
        certify(release(described | {"delta": "1/10000000"}))


def test_a_ball_without_corners_has_a_pure_loss():
    ball = {"kind": "vector", "name": "v", "length": 4, "radius": "60", "ball": "l2", "rows": None}
    found = losses(part([UNITS, ball], independent("laplace", units=4, v=240)))
    assert found.coins == ((Fraction(1, 4), 2), (Fraction(1, 2), 2))
    assert (found.pure, found.rho) == (Fraction(3, 2), 2 * (Fraction(1, 32) + Fraction(1, 32)))
    of_rows = losses(part([ball | {"rows": 3}], independent("laplace", v=240)))
    assert of_rows == Loss(((Fraction(3, 2), 2),), Fraction(3), Fraction(9, 16))
    corners = losses(part([ball | {"ball": "linf"}], independent("laplace", v=240)))
    assert corners.coins == ((Fraction(1, 4), 8),)
