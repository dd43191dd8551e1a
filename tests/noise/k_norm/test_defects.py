"""Planted defects of the sampler: each is found by the laws, or by drawing again slowly; the honest code is not.

sup |F_n - F| passes sqrt(ln(2 / a) / (2 n)) with probability at most a (Massart): a = 1e-12 for each law, and seeds
are fixed. The sum of n norms has a Gamma law too, and is beyond its quantiles at a / 2 with probability a.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction as F
from functools import partial

import numpy as np
import pytest
from scipy import stats

from sfumato.framework import ConeBody, KNormDistance
from sfumato.noise import SeededWords
from sfumato.noise.k_norm import (
    Cone,
    JointNoise,
    SeparateNoise,
    cone_noise,
    cones,
    sampling,
)
from sfumato.noise.k_norm.joint_marginals import marginals

from . import reference

JOINTLY, APART = 600, 10_000  # draws, which cost the more the more of them share
ALARM = 1e-12
FINE = F(2) ** 16  # steps beside which rounding is small
CUBE, UNITS, COUNT = Cone(1), Cone(1, units=True), Cone(0)


def norms(noise, drawn):
    """The K-norm of each of many draws, by the body's own words."""
    body = ConeBody(tuple(map(str, range(noise.cone.dimensions))), noise.scales, noise.cone.units)
    metric = KNormDistance(body) if isinstance(noise, JointNoise) else KNormDistance(body, 1, apart=True)
    return [float(metric.norm([body.sides(v) for v in one.T.tolist()])) for one in drawn]


def far_from_the_laws(noise, groups=3, draws=JOINTLY):
    """Whether norms, their sum, or numbers of the first and the last group are not distributed as they should be."""
    words = SeededWords(str(noise))
    if isinstance(noise, SeparateNoise):
        n = APART
        drawn = noise.rounded(n * groups, words).reshape(-1, n, groups).transpose(1, 0, 2)
    else:
        n, groups = draws, noise.groups
        drawn = np.array([noise.rounded(words) for _ in range(n)])
    sizes, shape = norms(noise, drawn), groups * noise.cone.dimensions
    total = stats.gamma(n * shape)
    if 2 * min(total.cdf(sum(sizes)), total.sf(sum(sizes))) < ALARM:
        return True
    found = [stats.kstest(sizes, stats.gamma(shape).cdf).statistic]
    for i, law in enumerate(laws_of(noise)):
        for numbers in (drawn[:, i, 0], drawn[:, i, -1]):
            x = np.sort(numbers)[:: n // 40]
            empirical = (numbers[:, None] <= x).mean(axis=0)
            found.append(np.abs(1 - empirical - law.rounded_sf(x)).max())
    return max(found) > math.sqrt(math.log(2 / ALARM) / (2 * n))


def laws_of(noise):
    slow = isinstance(noise, JointNoise) and noise.cone.units
    return [] if slow else marginals(noise)


def unlike_the_reference(noise, groups, draws=6):
    """Whether one of a few draws is not the one that 500 bits give."""
    noise, given = replace(noise, groups=groups), (noise.cone.signed, noise.cone.units, noise.scales, groups)

    def slowly(seed):
        return reference.joint(*given, SeededWords(seed))

    return any(not np.array_equal(noise.rounded(SeededWords(s)), slowly(s)) for s in range(draws))


def of(kind, body, scale=FINE, groups=3):
    scales = (scale,) * body.dimensions
    return JointNoise(body, scales, groups) if kind == "joint" else SeparateNoise(body, scales)


HONEST = [("joint", CUBE), ("joint", UNITS), ("joint", COUNT), ("separate", CUBE), ("separate", UNITS)]


@pytest.mark.parametrize(
    "kind, body",
    [pytest.param(*h, marks=[pytest.mark.long] * (h != ("separate", CUBE))) for h in HONEST],
    ids=str,
)
def test_honest_noise_is_not_suspected(kind, body):
    assert not far_from_the_laws(of(kind, body))


# Each defect: the noise that suffers it, and what is put in place of what.


def gamma_of_dimensions(monkeypatch):
    """The Gamma number has the shape of the norm, without the 2 of the radii."""
    honest = sampling.gamma
    monkeypatch.setattr(
        sampling, "gamma", lambda shape, streams, *a: honest(shape - 2 * (a == (0,)), streams, *a)
    )


def size_not_shared(monkeypatch):
    """Each group has a size and a split of its own: the right law for one group."""

    def rounded(self, words):
        one = [honest(replace(self, groups=1), words) for _ in range(self.groups)]
        return np.hstack(one)

    honest = JointNoise.rounded
    monkeypatch.setattr(JointNoise, "rounded", rounded)


def marginals_alone(monkeypatch):
    """Groups from different draws: each number has its law, and together they have not."""

    def rounded(self, words):
        return np.stack([honest(self, words)[:, g] for g in range(self.groups)], axis=1)

    honest = JointNoise.rounded
    monkeypatch.setattr(JointNoise, "rounded", rounded)


def one_sided_body(monkeypatch):
    """C in place of C - C: what a unit adds, and never what it takes away."""

    def enclose(self, uniform):
        found = honest(self, uniform)
        return found and sampling.Enclosed([abs(found.numbers[0]), *found.numbers[1:]], found.room)

    honest = cone_noise.JointVectors.enclose
    monkeypatch.setattr(cone_noise.JointVectors, "enclose", enclose)
    only_slow(monkeypatch)


def acceptance_reversed(monkeypatch):
    """Units beyond the body are taken, and those within it are not."""
    monkeypatch.setattr(cones.Cone, "floats", partial_room(cones.Cone.floats, lambda room: -room))


def no_acceptance(monkeypatch):
    """Units are taken wherever they lie."""
    monkeypatch.setattr(cones.Cone, "floats", partial_room(cones.Cone.floats, lambda room: 1 + 0 * room))


def partial_room(floats, change):
    def changed(self, *args):
        numbers, room, known = floats(self, *args)
        return numbers, None if room is None else change(room), known

    return changed


def split_is_uniform(monkeypatch):
    """θ as for a count alone."""
    honest = sampling.share
    monkeypatch.setattr(sampling, "share", lambda volume, *rest: honest((F(1),), *rest))


def signed_not_limited(monkeypatch):
    """The sum goes up to the size of all, whatever the count is."""

    def floats(self, theta, tau, uniform):
        (n, _), room, known = honest(self, theta, tau, uniform)
        return [n, uniform[1]], room, known

    honest = cones.Cone.floats
    monkeypatch.setattr(cones.Cone, "floats", floats)


def no_root(monkeypatch):
    """v is uniform where its square should be."""
    monkeypatch.setattr(cones, "_root", lambda y, degree: (y, None))


def rounded_before_it_is_scaled(monkeypatch):
    """Whole numbers are drawn at scale 1 and multiplied."""

    def rounded(self, words):
        small = honest(replace(self, scales=(F(1),) * len(self.scales)), words)
        return small * np.array([[int(s)] for s in self.scales])

    honest = JointNoise.rounded
    monkeypatch.setattr(JointNoise, "rounded", rounded)


def largest_not_shared_out(monkeypatch):
    """It is always the count that is the largest of its group."""

    def on_cube(size, signs, words):
        return [np.copysign(size, signs), *(size * share for share in sampling.as_uniform(words))], None

    monkeypatch.setattr(cone_noise, "_on_cube", on_cube)


def units_beside(monkeypatch):
    """Units have noise of their own, not about that of the rows."""

    def approximate(self, words):
        found = honest(self, words)
        return replace(found, numbers=[found.numbers[0] - found.numbers[1], *found.numbers[1:]])

    honest = cone_noise.SeparateNoise.approximate
    monkeypatch.setattr(cone_noise.SeparateNoise, "approximate", approximate)


def only_slow(monkeypatch):
    honest = sampling.Vectors._round_into
    monkeypatch.setattr(sampling.Vectors, "_round_into", lambda *args: honest(*args) | True)


DEFECTS = [
    ("joint", CUBE, gamma_of_dimensions),
    ("joint", CUBE, size_not_shared),
    ("joint", CUBE, marginals_alone),
    ("joint", CUBE, one_sided_body),
    ("joint", UNITS, acceptance_reversed),
    ("joint", UNITS, no_acceptance),
    ("joint", CUBE, split_is_uniform),
    ("joint", CUBE, signed_not_limited),
    ("joint", CUBE, no_root),
    ("separate", CUBE, largest_not_shared_out),
    ("separate", UNITS, units_beside),
]


# Found in half as many draws.
PLAIN = (gamma_of_dimensions, size_not_shared, marginals_alone, one_sided_body, acceptance_reversed)
PLAIN += (no_acceptance, signed_not_limited)


@pytest.mark.long
@pytest.mark.parametrize("kind, body, plant", DEFECTS, ids=lambda d: getattr(d, "__name__", None))
def test_a_wrong_law_is_found(kind, body, plant, monkeypatch):
    plant(monkeypatch)
    # With few groups the split is nearly uniform, and sums nearly as large as all.
    groups, draws = {split_is_uniform: 100, signed_not_limited: 20}.get(plant, 3), JOINTLY
    if plant in PLAIN:
        draws = JOINTLY // 2
    assert far_from_the_laws(of(kind, body, groups=groups), groups, draws)


def no_margin(monkeypatch):
    """Floats decide wherever they lie, right or wrong."""
    monkeypatch.setattr(cones.Cone, "margin", lambda self, theta, tau: 0.0)


def no_closer_margin(monkeypatch):
    """Where floats are not surely right, they decide on a second look."""
    honest = cone_noise.JointVectors.closely
    monkeypatch.setattr(
        cone_noise.JointVectors, "closely", lambda self, numbers: [0 * x for x in honest(self, numbers)]
    )


def towards_zero(monkeypatch):
    """Cut in place of rounded."""

    def cut(self, out, found):
        for row, x in zip(out, found.numbers, strict=True):
            row[:] = np.trunc(x)
        return np.zeros(out.shape[1], np.bool_)

    monkeypatch.setattr(sampling.Vectors, "_round_into", cut)


def float_scale(monkeypatch):
    """A scale of a third of a step, as a float, in the exact path too."""
    honest = JointNoise.__post_init__

    def post_init(self):
        object.__setattr__(self, "scales", tuple(F(float(s)) * (1 + F(1, 2**30)) for s in self.scales))
        honest(self)

    monkeypatch.setattr(JointNoise, "__post_init__", post_init)


def size_is_not_accepted(monkeypatch):
    """The first proposal for r is taken as it comes."""
    monkeypatch.setattr(sampling._GammaProposal, "accepted", lambda self: True)


@pytest.mark.parametrize(
    "body, scale, plant",
    [
        (CUBE, F(2) ** 44, no_margin),
        (CUBE, F(2) ** 44, no_closer_margin),
        (CUBE, F(7), towards_zero),
        (CUBE, F(7), rounded_before_it_is_scaled),
        (CUBE, F(2) ** 44 / 3, float_scale),
        (CUBE, F(7), size_is_not_accepted),
    ],
    ids=lambda d: getattr(d, "__name__", None),
)
def test_a_wrong_draw_is_found(body, scale, plant, monkeypatch):
    honest = of("joint", body, scale)
    find = partial(unlike_the_reference, honest, 60 if plant in (no_margin, no_closer_margin) else 8)
    assert not find()
    plant(monkeypatch)
    assert find()
