"""K-norm noise as a measurement: what is released, its map, and an auditor who looks at all numbers together.

An auditor calls an honest mechanism violated with probability at most 1e-9; all words are seeded.
"""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest

from sfumato.audit import Edge, audit
from sfumato.errors import ParameterError
from sfumato.framework import ConeBody, GroupedIntegers, KNormDistance, ParabolaBody, PureDP
from sfumato.measurements import k_norm
from sfumato.measurements.k_norm import noise_of
from sfumato.noise import SeededWords
from sfumato.noise.k_norm import (
    CentredNoise,
    Cone,
    JointNoise,
    LimitedNoise,
    Parabola,
    SeparateNoise,
    SeparateParabolas,
    StretchedNoise,
)

BODY = ConeBody(("rows", "visits"), (F(2), F(30)))
UNITS = ConeBody(("people", "rows", "visits"), (F(1), F(2), F(30)), units=True)
SQUARES = ParabolaBody(("rows", "visits", "squares"), (F(2), F(16), F(80)))


@pytest.mark.noise_cannot_matter("noise of 2^19 scales has a probability below e^-1000")
def test_what_is_released():
    release = k_norm(1, UNITS, keys=["a", "b"])
    assert release.output_measure == PureDP() and release.input_domain == GroupedIntegers(UNITS.names)
    given = {"a": {"people": 10**9, "rows": 2 * 10**9}, "private": {"people": 1, "rows": 1}}
    out = release(given)
    # Only the groups that are shown, all of them, and all their numbers.
    assert list(out) == ["a", "b"]
    assert all(set(numbers) == set(UNITS.names) for numbers in out.values())
    assert abs(out["a"]["rows"] - 2 * 10**9) < 10**6 > abs(out["b"]["visits"])


def test_one_draw_for_all_groups_or_noise_of_each():
    assert k_norm(1, BODY, "abc").input_metric == KNormDistance(BODY)
    assert k_norm(1, BODY, "abc", groups=3).input_metric == KNormDistance(BODY)
    assert k_norm(1, BODY, "abc", groups=2).input_metric == KNormDistance(BODY, 2, apart=True)
    assert noise_of(BODY, F(2), 3) == JointNoise(Cone(1), (F(1), F(15)), 3)
    assert noise_of(BODY, F(2), 3, 2) == SeparateNoise(Cone(1), (F(2), F(30)))
    release = k_norm(1, BODY, "abc", groups=2, shared="1/3")
    assert release.input_metric == KNormDistance(BODY, 2, apart=True, shared=F(1, 3))
    assert k_norm(1, BODY, "abc", groups=3, shared="1/3").input_metric == KNormDistance(BODY)
    assert noise_of(BODY, F(2), 3, 2, F(1, 3)) == LimitedNoise(Cone(1), (F(1), F(15)), 3, 2, F(1, 3))
    favour = {"favoured": ("visits",), "part": F(1, 3)}
    for most in (2, 3):  # stretched, noise is of each group by itself in any case
        release = k_norm(1, BODY, "abc", groups=most, **favour)
        assert release.input_metric == KNormDistance(BODY, most, apart=True, **favour)
    assert noise_of(BODY, F(2), 3, 2, **favour) == StretchedNoise(Cone(1), (F(2), F(30)), (1,), F(1, 3))
    assert noise_of(UNITS, F(1), 3, 1, **favour).favoured == (1,)
    assert k_norm(1, SQUARES, "abc").input_metric == KNormDistance(SQUARES)
    assert noise_of(SQUARES, F(2), 3) == JointNoise(Parabola(), (F(1), F(8), F(40)), 3)
    assert noise_of(SQUARES, F(2), 3, 2) == SeparateParabolas(Parabola(), (F(2), F(16), F(80)))
    both = ParabolaBody(("people", *SQUARES.names), (F(1), *SQUARES.bounds), units=True)
    assert noise_of(both, F(2), 3) == JointNoise(Parabola(units=True), (F(1, 2), F(1), F(8), F(40)), 3)
    assert noise_of(both, F(1), 3, 1) == SeparateParabolas(Parabola(units=True), both.bounds)
    count = ConeBody(("rows",), (3,))
    assert k_norm(1, count, "abc", total="1/3").input_metric == KNormDistance(count)
    assert noise_of(count, F(2), 3, total=F(1, 3)) == CentredNoise((F(3, 2),), 3, F(1, 3))


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": 0},
        {"epsilon": float("nan")},
        {"body": BODY.bounds},
        {"keys": []},
        {"groups": 0},
        {"groups": 1.5},
        {"epsilon": F(1, 10**30)},
        {"groups": 1, "shared": 1},
        {"shared": "1/2"},
        {"groups": 1, "shared": -1},
        {"groups": 1, "shared": "1/2", "keys": []},
        {"groups": 1, "shared": "1/2", "body": SQUARES},
        {"groups": 1, "favoured": ("rows",), "part": "1/2", "body": SQUARES},
        {"total": "1/3", "body": SQUARES},
        {"total": "1/3"},
        {"favoured": ("rows",), "part": "1/2"},
        {"favoured": ("rows",), "groups": 1},
        {"favoured": BODY.names, "part": "1/2", "groups": 1},
        {"part": "1/2", "groups": 1},
        {"favoured": ("rows",), "part": "1/2", "groups": 1, "shared": "1/2"},
        {"body": ConeBody(("rows",), (1,)), "total": "2/3"},
        {"body": ConeBody(("rows",), (1,)), "total": "1/3", "groups": 1},
    ],
)
def test_what_is_refused(given):
    with pytest.raises(ParameterError):
        k_norm(**{"epsilon": 1, "body": BODY, "keys": [1, 2]} | given)


# The auditor. A dataset is a list of contributions, each a vector for all groups; noise is added to their sum.

ONE_EACH = (1, 15, 1, 15)  # a unit with one row at its bound, of two allowed, in each of two groups
CORNERS = [(2, 30, 2, 30), (2, -30, 2, 30), ONE_EACH, (2, 30, 0, 0), (0, 0, 2, -30), (2, 0, 2, 0)]


def released(draw):
    """The mechanism `dataset -> all numbers of two groups` of a draw of noise, vectorised."""

    def mechanism(dataset, size):
        total = np.array([(0, 0, 0, 0), *dataset]).sum(axis=0)
        return draw(size) + total

    return mechanism


def joint_draws(noise, words):
    return lambda size: np.array([noise.rounded(words).T.ravel() for _ in range(size)])


def separate_draws(noise, words):
    return lambda size: noise.rounded(2 * size, words).T.reshape(size, 4)


def report(draw, epsilon, samples):
    edges = [Edge("a unit comes", [], [corner]) for corner in CORNERS]
    return audit(released(draw), epsilon=epsilon, pairs=edges, alpha=1e-9, max_samples=samples, seconds=100)


@pytest.mark.long
def test_the_auditor_breaks_no_honest_claim():
    found = report(separate_draws(noise_of(BODY, F(1), 3, 2), SeededWords(1)), 1, 40_000)
    assert not found.violated and found.epsilon_lower > 0.3
    found = report(joint_draws(noise_of(BODY, F(2), 2), SeededWords(2)), 2, 1500)
    assert not found.violated
    stretched = noise_of(BODY, F(1), 3, 2, favoured=("visits",), part=F(1, 2))
    assert not report(separate_draws(stretched, SeededWords(1)), 1, 40_000).violated


@pytest.mark.long
def test_the_auditor_finds_a_limit_forgotten_and_no_honest_one():
    """Noise for one group of a unit, beside noise for both of two: of epsilon 2 there is enough to see in few draws."""
    for most, violated in ((1, True), (2, False)):
        noise = LimitedNoise(Cone(1), (F(1), F(15)), 2, most, F(1, 8))
        found = report(joint_draws(noise, SeededWords(6)), 2, 2500)
        assert found.violated is violated


@pytest.mark.long
@pytest.mark.parametrize("scales, violated", [((F(2), F(16), F(80)), False), ((F(2), F(16), F(20)), True)])
def test_the_auditor_with_squares(scales, violated):
    """Rows at either end of the values, and in the middle; and noise of squares for a quarter of what they add."""
    noise, words = SeparateParabolas(Parabola(), scales), SeededWords(7)
    corners = [(2, 16, 80), (2, -16, 80), (2, 0, -80), (2, 8, -40)]
    edges = [Edge("a unit comes", [], [corner]) for corner in corners]

    def mechanism(dataset, size):
        return noise.rounded(size, words).T + np.array([(0, 0, 0), *dataset]).sum(axis=0)

    found = audit(mechanism, epsilon=1, pairs=edges, alpha=1e-9, max_samples=10_000, seconds=100)
    assert found.violated is violated
    assert found.epsilon_lower > 0.3


DEFECTS = {
    # epsilon that is claimed, the draws, and how many: for two groups of a unit.
    "k forgotten": (1, separate_draws(noise_of(BODY, F(1), 3, 1), SeededWords(3)), 200_000),
    "epsilon for each number": (1, separate_draws(noise_of(BODY, F(2), 3, 2), SeededWords(4)), 200_000),
    "a body that is shrunk for what is favoured": (
        1,
        separate_draws(StretchedNoise(Cone(1), (F(4), F(30)), (1,), F(1, 2)), SeededWords(6)),
        400_000,
    ),
    "a bound for the sum that is half of what is added": (
        1,
        separate_draws(SeparateNoise(Cone(1), (F(4), F(15))), SeededWords(5)),
        400_000,
    ),
}


def report_of_counts(noise, epsilon, samples=4000):
    """The auditor on the counts of two groups, of which a unit is in one, the other, or both."""
    words = SeededWords(str(noise))

    def draws(size):
        return np.array([noise.rounded(words)[0] for _ in range(size)])

    edges = [Edge("a unit comes", [], [corner]) for corner in ((9, 9), (9, 0), (0, 9))]

    def mechanism(dataset, size):
        return draws(size) + np.array([(0, 0), *dataset]).sum(axis=0)

    return audit(mechanism, epsilon=epsilon, pairs=edges, alpha=1e-9, max_samples=samples, seconds=100)


@pytest.mark.long
@pytest.mark.parametrize(
    "epsilon, scale, violated",
    [
        (1, F(9), False),
        (1, F(9, 4), True),  # for a bound that is a quarter of what is added
    ],
)
def test_the_auditor_of_counts_about_half_of_all_units(epsilon, scale, violated):
    assert report_of_counts(CentredNoise((scale,), 2, F(1, 3)), epsilon).violated is violated


@pytest.mark.long
@pytest.mark.parametrize("name", DEFECTS)
def test_the_auditor_finds_a_planted_defect(name):
    assert report(*[DEFECTS[name][i] for i in (1, 0, 2)]).violated
