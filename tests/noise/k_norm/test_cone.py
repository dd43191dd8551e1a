"""Points of one group's body for given sides, against points of a box that are in it by the body's own words.

Two empirical laws of n numbers of one law differ by d with probability at most 2 e exp(-d^2 n) (Wei and Dudley 2012):
below 1e-14 where d^2 n is 36. Seeds are fixed.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sfumato.noise import SeededWords
from sfumato.noise.k_norm import Cone, cones
from sfumato.noise.k_norm.sampling import as_uniform

THRESHOLD = 36
CONES = [Cone(1), Cone(3), Cone(0, True), Cone(1, True), Cone(2, True), Cone(3, True)]
SIDES = [0.5, 0.8, 0.97]


def places(label, dimensions, count):
    words = SeededWords(label).take(dimensions * count).view(np.int64).reshape(dimensions, count)
    return np.array(as_uniform(words))


def from_a_box(body, theta):
    """Points for which max(a, u + b) is at most θ, and the same less u at most 1 - θ."""
    points = places("box", body.dimensions, 1_000_000)
    counts = points[: 1 + body.units]
    counts += 2 * theta - 1
    counts /= 2
    n = points[int(body.units)]
    a = (np.abs(points[body.units :]).max(axis=0) + n) / 2
    u = n
    if body.units:
        u = points[0]
        a = np.maximum(a, u + a - n)
    return points[:, (a <= theta) & (a - u <= 1 - theta)]


def drawn(body, theta):
    numbers, room, _ = body.floats(theta, 1 - theta, list(places("draw", body.dimensions, 120_000)))
    found = np.array(numbers)
    return found if room is None else found[:, room > 0]


def unlike(body, theta):
    """Whether numbers, their sizes, or sums of two are of another law than in the body."""
    one, other = drawn(body, theta), from_a_box(body, theta)
    n = min(one.shape[1], other.shape[1])
    assert n > 25_000
    views = [lambda x, i=i: x[i] for i in range(body.dimensions)]
    views += [lambda x, i=i: x[i - 1] + x[i] for i in range(1, body.dimensions)]
    views += [lambda x, i=i: x[i - 1] - np.abs(x[i]) for i in range(1, body.dimensions)]
    distance = max(stats.ks_2samp(view(one)[:n], view(other)[:n], method="asymp").statistic for view in views)
    return distance**2 * n > THRESHOLD


@pytest.mark.parametrize("theta", [SIDES[0], *(pytest.param(x, marks=pytest.mark.long) for x in SIDES[1:])])
@pytest.mark.parametrize("body", CONES, ids=str)
def test_points_are_uniform_in_the_body(body, theta):
    assert not unlike(body, theta)


def all_taken(monkeypatch):
    """Points are taken beyond what is left of the sides, too."""
    honest = Cone.floats
    monkeypatch.setattr(Cone, "floats", lambda *args: (honest(*args)[0], None, None))


def v_is_uniform(monkeypatch):
    """v/R is uniform in place of its power."""
    honest = cones._root
    monkeypatch.setattr(cones, "_root", lambda y, degree: (y, None) if degree == 2 else honest(y, degree))


def one_number_less(monkeypatch):
    """u and R are drawn as n and v are of as many signed numbers."""
    honest = cones._edge
    monkeypatch.setattr(
        cones, "_edge", lambda theta, tau, power, uniform: honest(theta, tau, power - 1, uniform)
    )


@pytest.mark.parametrize("plant", [all_taken, v_is_uniform, one_number_less])
def test_a_wrong_law_is_found(plant, monkeypatch):
    plant(monkeypatch)
    assert unlike(Cone(1, True), 0.5)
