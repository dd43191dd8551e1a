"""Gaussian noise from a part of all units, as a measurement: what is released, and what it says of itself."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest

from sfumato.audit import Edge, audit
from sfumato.budget import Loss
from sfumato.errors import ParameterError
from sfumato.exact import root_up
from sfumato.framework import CentredDistance, ConeBody, GaussianDP, GroupedIntegers
from sfumato.measurements import centred_gaussian
from sfumato.measurements.correlated_noise import centred_noise
from sfumato.noise import SeededWords
from sfumato.noise.centred_noise import CentredGaussian

BODY = ConeBody(("people", "rows", "visits"), (F(1), F(2), F(30)), units=True)
METRIC = CentredDistance(BODY, (F(3), F(5), F(70)), F(2), F(1, 4), "ab")
COUNT = CentredDistance(ConeBody(("n",), (F(9),)), (F(18),), F(2), F(1, 2), "ab")


@pytest.mark.noise_cannot_matter("noise of 2^10 scales has a probability below e^-500000")
def test_what_is_released():
    release = centred_gaussian(2, METRIC)
    assert release.output_measure == GaussianDP() and release.input_domain == GroupedIntegers(BODY.names)
    assert release.input_metric == METRIC and release.map(3) == F(3, 2)
    out = release({"a": {"people": 10**9}, "private": {"people": 1}})
    assert list(out) == ["a", "b"] and all(set(v) == set(BODY.names) for v in out.values())
    assert abs(out["a"]["people"] - 10**9) < 10**6 > abs(out["b"]["visits"])


def test_the_noise_has_the_covariance_of_the_metric():
    noise = centred_noise(METRIC, F(4))
    assert noise == CentredGaussian((F(12), F(20), F(280)), F(2), (1, 2, 0), 2, METRIC.centre)
    assert [w * noise.shared for w in noise.weights] == [4 * c for c in METRIC.common]


@pytest.mark.parametrize(
    "given",
    [
        {"multiplier": 0},
        {"metric": CentredDistance(BODY, METRIC.scales, F(2), F(1, 3), "ab")},
        {
            "metric": CentredDistance(
                ConeBody(("u", "n"), (F(2), F(3)), True), (F(1), F(1)), F(2), F(1, 2), "ab"
            )
        },
        {"multiplier": 2**40},
    ],
)
def test_what_is_refused(given):
    with pytest.raises(ParameterError):
        centred_gaussian(**{"multiplier": 1, "metric": METRIC} | given)


@pytest.mark.long
@pytest.mark.parametrize("claimed, violated", [(1, False), (3, True)])
def test_the_auditor_of_counts(claimed, violated):
    """Of counts of two groups, a claim of a third of mu is found; alpha is 1e-9, and words are seeded."""
    multiplier = root_up(COUNT.moved(COUNT.body, 2)) / 2  # of which mu is 2
    noise, words = centred_noise(COUNT, multiplier), SeededWords(1)
    loss = Loss(gaussian=F((2 / claimed) ** 2).limit_denominator(10**6))

    def mechanism(dataset, size):
        drawn = np.array([noise.rounded(words)[0] for _ in range(size)])
        return drawn + np.array([(0, 0), *dataset]).sum(axis=0)

    edges = [Edge("a unit comes", [], [corner]) for corner in ((9, 9), (9, 0), (0, 9))]
    epsilon = float(loss.epsilon("1/100"))
    found = audit(
        mechanism, epsilon=epsilon, delta=0.01, pairs=edges, alpha=1e-9, max_samples=8000, seconds=100
    )
    assert found.violated is violated
