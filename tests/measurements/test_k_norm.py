"""K-norm noise as a measurement: what is released, its map, and an auditor who looks at all numbers together.

An auditor calls an honest mechanism violated with probability at most 1e-9; all words are seeded.
"""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest

from sfumato.audit import Edge, audit
from sfumato.errors import ParameterError
from sfumato.framework import ConeBody, GroupedIntegers, KNormDistance, PureDP
from sfumato.measurements import k_norm
from sfumato.measurements.correlated_noise import k_norm_noise
from sfumato.noise import SeededWords
from sfumato.noise.k_norm import Cone, JointNoise, SeparateNoise

BODY = ConeBody(("rows", "visits"), (F(2), F(30)))
UNITS = ConeBody(("people", "rows", "visits"), (F(1), F(2), F(30)), units=True)


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
    assert k_norm_noise(BODY, F(2), 3) == JointNoise(Cone(1), (F(1), F(15)), 3)
    assert k_norm_noise(BODY, F(2), 3, 2) == SeparateNoise(Cone(1), (F(2), F(30)))


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
    found = report(separate_draws(k_norm_noise(BODY, F(1), 3, 2), SeededWords(1)), 1, 40_000)
    assert not found.violated and found.epsilon_lower > 0.3
    found = report(joint_draws(k_norm_noise(BODY, F(2), 2), SeededWords(2)), 2, 1500)
    assert not found.violated


DEFECTS = {
    # epsilon that is claimed, the draws, and how many: for two groups of a unit.
    "k forgotten": (1, separate_draws(k_norm_noise(BODY, F(1), 3, 1), SeededWords(3)), 200_000),
    "epsilon for each number": (1, separate_draws(k_norm_noise(BODY, F(2), 3, 2), SeededWords(4)), 200_000),
    "a bound for the sum that is half of what is added": (
        1,
        separate_draws(SeparateNoise(Cone(1), (F(4), F(15))), SeededWords(5)),
        400_000,
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", DEFECTS)
def test_the_auditor_finds_a_planted_defect(name):
    assert report(*[DEFECTS[name][i] for i in (1, 0, 2)]).violated
