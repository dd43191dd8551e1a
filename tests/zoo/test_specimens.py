"""The specimens are what they say: enough of them, sourced, vectorised, and different from their twins.

That they are wrong, and their twins right, is shown in `test_zoo.py`.
"""

import math
from collections import Counter

import numpy as np
import pytest
import specimens

NAMES = [s.name for s in specimens.SPECIMENS]
# What the zoo was asked to hold, and where it is.
LISTED = {
    "half noise": ["half noise"],
    "inverted and swapped scale": ["inverted scale", "swapped scales"],
    "both mistakes of ANON_AVG": [
        "sum with the width of its bounds",
        "mean over the exact count",
        "mean of the sum with the width of its bounds",
    ],
    "sum with the wrong neighbouring": ["sum with the wrong neighbouring"],
    "L0 ignored": ["number of groups ignored"],
    "per-row noise for per-user claims": ["noise of rows for people"],
    "shared budget spent twice": ["shared budget spent twice"],
    "quantile tree without a split": ["quantile tree without a split"],
    "sparse vector variants": [f"sparse vector variant {i}" for i in (3, 4, 5, 6)],
    "noisy-max variants": [
        "noisy max that gives the value, Laplace",
        "noisy max that gives the value, exponential",
        "noisy max with half the noise",
    ],
    "exponential mechanism that underflows": ["exponential mechanism that underflows"],
    "classic Gaussian sigma at epsilon 20": ["classic Gaussian sigma at epsilon 20"],
    "sigma where a variance belongs": ["sigma where a variance belongs"],
    "L-infinity for L2 in many dimensions": ["L-infinity for L2 in 16 dimensions"],
    "randomized response over k answers": ["randomized response over ten answers"],
    "delta not split over groups": ["delta not split over groups"],
    "thresholds": ["threshold at >=", "threshold on rounded noise", "threshold on exact counts"],
    "groups from the data": ["groups from the data"],
    "bounds from the data": ["bounds from the data"],
    "NULL units that escape bounding": ["NULL units escape bounding"],
    "join fan-out after bounding": ["join fan-out after bounding"],
    "length as public": ["length as public"],
    "exact zero for n < 2": ["exact zero for n < 2"],
    "NaN poisoning": ["NaN poisoning"],
    "an exception on infinity": ["exception on infinity"],
    "int64 wrap": ["int64 wrap"],
    "float summation order": ["float summation order"],
    "float Laplace and float Gaussian": ["float Laplace", "float Gaussian"],
    "fixed seed": ["fixed seed"],
    "16-bit randomness": ["16-bit randomness"],
    "a zCDP claim that is four times too small": [
        "zCDP four times too small",
        "zCDP of noisy max four times too small",
    ],
    "the variance whose noise is scaled to the wrong interval": ["noise for the raw squares"],
}


def drawn(mechanism, dataset, size):
    """The outputs of a mechanism; what it raises is an output as well."""
    try:
        return mechanism(dataset, size)
    except (OverflowError, ValueError) as error:
        return [repr(error)] * size


def test_there_are_enough():
    assert len(NAMES) >= 40
    assert max(Counter(NAMES).values()) == 1
    assert {name for names in LISTED.values() for name in names} <= set(NAMES)
    assert [s.name for s in specimens.SPECIMENS if s.unseen] == ["classic Gaussian sigma at epsilon 20"]


@pytest.mark.parametrize("specimen", specimens.SPECIMENS, ids=NAMES)
def test_a_specimen_is_complete(specimen):
    (claimed,) = [specimen.claim[k] for k in ("epsilon", "rho", "mu") if k in specimen.claim]
    assert specimen.truth > claimed
    assert specimen.source
    assert specimen.why.endswith(".")
    specimens.seed(1)
    for dataset in specimen.pairs[0]:
        for mechanism in (specimen.broken, specimen.twin):
            assert len(drawn(mechanism, dataset, 7)) == 7


@pytest.mark.parametrize("specimen", specimens.SPECIMENS, ids=NAMES)
def test_draws_repeat_from_a_seed(specimen):
    def again(mechanism):
        specimens.seed("again")
        return [repr(drawn(mechanism, dataset, 20)) for dataset in specimen.pairs[0]]

    assert again(specimen.broken) == again(specimen.broken)
    assert again(specimen.twin) == again(specimen.twin)


def test_true_deltas():
    """The thresholds' true deltas, from their laws: what the specimens' `why` say."""
    found = {s.name: s for s in specimens.SPECIMENS}
    size = 200_000
    specimens.seed("deltas")
    for name, broken, twin in [
        ("threshold at >=", math.exp(-1.5) / 2, math.exp(-2.5) / 2),
        ("threshold on rounded noise", math.exp(-2) / 2, math.exp(-3) / 2),
    ]:
        specimen = found[name]
        assert specimen.claim["delta"] == twin
        for mechanism, truth in ((specimen.broken, broken), (specimen.twin, twin)):
            shown = np.mean([v is not None for v in mechanism(specimen.pairs[0][1], size)])
            # Hoeffding: beyond this with probability 2 exp(-2 n t^2) = 1e-10.
            assert abs(shown - truth) < math.sqrt(math.log(2e10) / (2 * size))
