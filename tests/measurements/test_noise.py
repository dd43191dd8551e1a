"""Noise as measurements: maps against brute force, the law of what is drawn, and what is released."""

import math
from collections import Counter
from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest

from sfumato import framework as fw
from sfumato.errors import ParameterError
from sfumato.exact import root_up
from sfumato.measurements import NOISES, NoiseKind, centred_gaussian, gaussian, k_norm, laplace
from sfumato.measurements.correlated_noise import centred_noise, k_norm_noise
from sfumato.measurements.int128_array import Int128Array
from sfumato.noise import DiscreteLaplace, Gaussian, SeededWords
from sfumato.noise.centred_noise import CentredGaussian
from sfumato.noise.k_norm import Cone, JointNoise, SeparateNoise

KINDS = pytest.mark.parametrize("make, law", [(laplace, DiscreteLaplace), (gaussian, Gaussian)])

UNIT = fw.AtomDomain(float, 0, 1)

STEP = F(2) ** -30  # of scale 1


class Silent:
    """A law whose noise is 0: what is left is the rounding."""

    def __init__(self, scale):
        self.scale = scale

    def rounded(self, n):
        return np.zeros(n, np.int64)


@pytest.fixture
def silent():
    """Noise kinds that round and add nothing."""
    return [NoiseKind(kind.name, kind.norm, Silent, kind.measure) for kind in NOISES.values()]


@pytest.mark.parametrize("scale", [F(1), F(1, 10**40), F(2) ** 900])
def test_the_grid_is_about_a_billionth_of_the_scale(scale, silent):
    """Half a step up goes up, a hair less goes down; and the output is on the grid."""
    made = silent[0].measurement(scale, fw.AtomDomain(F))
    step = made(0) or F(2) ** (math.frexp(scale)[1] - 31)
    assert 2**30 <= scale / step < 2**31
    assert made(step / 2) == step and made(step / 2 * F(2**40 - 1, 2**40)) == 0
    assert made(-step / 2) == 0 and made(-step / 2 * F(2**40 + 1, 2**40)) == -step


@pytest.mark.parametrize("size", [1, 5])
def test_the_map_of_vectors_is_nearly_reached(silent, size):
    """All entries from just below a half to a half: nearly nothing becomes a step in each."""
    hair = F(1, 2**40) * STEP
    for kind, apart in zip(silent, (F(size), root_up(F(size))), strict=True):
        made = kind.measurement(1, fw.VectorDomain(fw.AtomDomain(F), size))
        one, other = [STEP / 2] * size, [STEP / 2 - hair] * size
        moved = made.input_metric.distance(made(one), made(other))
        claimed = made.map(made.input_metric.distance(one, other) * (1 + F(1, 2**100)))
        assert claimed * (1 - F(1, 2**30)) < moved <= claimed
        assert claimed > apart * STEP * (1 - F(1, 2**100)) and made.map(0) == 0
        missing = made.map(hair) - apart * STEP  # what a map without the rounding would claim
        assert moved > missing


def test_whole_numbers_are_not_rounded(silent):
    for kind in silent:
        assert kind.measurement("0.1", fw.AtomDomain(int))(2**200 + 1) == 2**200 + 1
        assert kind.measurement(10**6, fw.VectorDomain(fw.AtomDomain(int)))([1, -(10**30)]) == [1, -(10**30)]
        assert kind.measurement(1, fw.VectorDomain(fw.AtomDomain(int)))([]) == []


@KINDS
@pytest.mark.parametrize("scale", ["1/3", 10**9])
def test_claims_on_whole_numbers(make, law, scale):
    vectors = fw.L1Distance() if make is laplace else fw.L2Distance()
    measure = fw.PureDP() if make is laplace else fw.GaussianDP()
    for made, metric in (
        (make(scale), fw.AbsoluteDistance()),
        (make(scale, fw.AtomDomain(int, 0, 9)), fw.AbsoluteDistance()),
        (make(scale, fw.VectorDomain(fw.AtomDomain(int))), vectors),
        (make(scale, fw.VectorDomain(fw.AtomDomain(int), 7)), vectors),
    ):
        assert (made.input_metric, made.output_measure) == (metric, measure)
        assert [made.map(d) for d in (0, 1, F(7, 2))] == [F(d) / F(scale) for d in (0, 1, F(7, 2))]


@KINDS
def test_claims_on_other_numbers(make, law):
    one = make(1, fw.AtomDomain(F))
    assert [one.map(d) for d in (0, STEP / 3, STEP, STEP * F(4, 3), 1)] == [0, STEP, STEP, 2 * STEP, 1]
    assert make(3, UNIT).map(F(1, 3)) == math.ceil(F(2**29, 3)) * F(2) ** -29 / 3
    three = make(1, fw.VectorDomain(UNIT, 3))
    moved = 3 if make is laplace else root_up(F(3))
    assert three.map(1) == 1 + moved * STEP and three.map(0) == 0


N = 25_000


@pytest.mark.long
@pytest.mark.flakiness(k=14, because="Chernoff's bound at 1e-15; 120 draws have three values with 0.55^120")
@KINDS
def test_noise_on_whole_numbers_has_the_law_of_rounded_noise(make, law, unlikely):
    span = range(-400, 401)
    expected = {m: law(2).rounded_pmf(m) for m in range(-8, 9)} | {"beyond": 2 * law(2).rounded_sf(8)}

    def counts(made):
        drawn = made([1000] * N)
        return Counter(d - 1000 if abs(d - 1000) <= 8 else "beyond" for d in drawn if d - 1000 in span)

    assert not unlikely(counts(make(2, fw.VectorDomain(fw.AtomDomain(int)))), expected)
    assert unlikely(counts(make(F(7, 5), fw.VectorDomain(fw.AtomDomain(int)))), expected)
    assert unlikely(counts(make(F(13, 5), fw.VectorDomain(fw.AtomDomain(int)))), expected)
    single = make(2)
    assert len({single(0) for _ in range(120)}) > 3


@pytest.mark.noise_cannot_matter("it looks at the groups alone")
@KINDS
def test_which_groups_hold_anybody_does_not_show(make, law):
    made = make([F(2)], fw.GroupedIntegers(("a",)), keys=["x", "y"])
    for groups in ({}, {"x": {"a": 0}}, {"x": {"a": 5}, "z": {"a": 5}}):
        assert [(key, list(numbers)) for key, numbers in made(groups).items()] == [("x", ["a"]), ("y", ["a"])]
    for domain, keys in ((fw.GroupedIntegers(("a",)), None), (fw.AtomDomain(int), ["x"])):
        with pytest.raises(ParameterError, match="keys"):
            make(F(2) if keys else [F(2)], domain, keys=keys)


def test_the_sampler_behind_it_is_the_secure_one(monkeypatch):
    seen = []
    honest = DiscreteLaplace.rounded

    def watched(self, n, words=None):
        seen.append(words)
        return honest(self, n, SeededWords(1))

    monkeypatch.setattr(DiscreteLaplace, "rounded", watched)
    laplace(2)(0)
    assert seen == [None]  # None: this thread's secure words


@KINDS
def test_domains_and_scales_that_are_refused(make, law):
    for domain in (fw.AtomDomain(float), fw.AtomDomain(float, 0, 1, nan=True), fw.AtomDomain(int, null=True), fw.AtomDomain(str), None,
                   fw.VectorDomain(fw.AtomDomain(float), 2), fw.VectorDomain(UNIT), fw.VectorDomain(fw.AtomDomain(F))):  # fmt: skip
        with pytest.raises(ParameterError, match="domain"):
            make(1, domain)
    for scale, domain in product(
        [0, -1, math.nan, math.inf, True, "x"], [fw.AtomDomain(int), fw.VectorDomain(UNIT, 2)]
    ):
        with pytest.raises(ParameterError, match="scale"):
            make(scale, domain)
    with pytest.raises(ParameterError, match="scale .* at most 2\\^57"):
        make(2**57 + 1)


def test_wide_numbers_are_pythons():
    chance = np.random.default_rng(1)
    wide = [int(high) * 2**62 + int(low) for high, low in chance.integers(-(2**60), 2**60, (50, 2))] + [
        2**64 - 1,
        -1,
        0,
    ]
    noise = np.array([*chance.integers(-(2**62), 2**62, 50).tolist(), 1, -(2**63), 2**63 - 1], np.int64)
    made = Int128Array.from_integers(wide)
    exact = [a + b for a, b in zip(wide, noise.tolist(), strict=True)]
    assert [int(x) for x in (made + noise).to_arrow().to_pylist()] == exact
    assert (made + noise).scaled(F(1, 4)).tolist() == pytest.approx([x / 4 for x in exact], rel=1e-15)
    order = chance.permutation(len(wide)).reshape(1, -1)
    sums = made.cumulated(order).to_arrow().to_pylist()
    assert [int(sums[i]) for i in order[0]] == np.cumsum(np.array(wide, object)[order[0]]).tolist()


# K-norm noise, and noise with a part in common.

BODY = fw.ConeBody(("rows", "visits"), (F(2), F(30)))

UNITS = fw.ConeBody(("people", "rows", "visits"), (F(1), F(2), F(30)), units=True)


@pytest.mark.noise_cannot_matter("noise of 2^19 scales has a probability below e^-1000")
def test_what_is_released_with_k_norm_noise():
    release = k_norm(1, UNITS, keys=["a", "b"])
    assert release.output_measure == fw.PureDP() and release.input_domain == fw.GroupedIntegers(UNITS.names)
    given = {"a": {"people": 10**9, "rows": 2 * 10**9}, "private": {"people": 1, "rows": 1}}
    out = release(given)
    # Only the groups that are shown, all of them, and all their numbers.
    assert list(out) == ["a", "b"]
    assert all(set(numbers) == set(UNITS.names) for numbers in out.values())
    assert abs(out["a"]["rows"] - 2 * 10**9) < 10**6 > abs(out["b"]["visits"])


def test_one_draw_for_all_groups_or_noise_of_each():
    assert k_norm(1, BODY, "abc").input_metric == fw.KNormDistance(BODY)
    assert k_norm(1, BODY, "abc", groups=3).input_metric == fw.KNormDistance(BODY)
    assert k_norm(1, BODY, "abc", groups=2).input_metric == fw.KNormDistance(BODY, 2, apart=True)
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
def test_k_norm_noise_that_is_refused(given):
    with pytest.raises(ParameterError):
        k_norm(**{"epsilon": 1, "body": BODY, "keys": [1, 2]} | given)


PEOPLE = fw.ConeBody(("people", "rows", "visits"), (F(1), F(2), F(30)), units=True)

CENTRED = fw.CentredDistance(PEOPLE, (F(3), F(5), F(70)), F(2), F(1, 4), "ab")


@pytest.mark.noise_cannot_matter("noise of 2^10 scales has a probability below e^-500000")
def test_what_is_released_with_noise_in_common():
    release = centred_gaussian(2, CENTRED)
    assert release.output_measure == fw.GaussianDP() and release.input_domain == fw.GroupedIntegers(
        PEOPLE.names
    )
    assert release.input_metric == CENTRED and release.map(3) == F(3, 2)
    out = release({"a": {"people": 10**9}, "private": {"people": 1}})
    assert list(out) == ["a", "b"] and all(set(v) == set(PEOPLE.names) for v in out.values())
    assert abs(out["a"]["people"] - 10**9) < 10**6 > abs(out["b"]["visits"])


def test_the_noise_has_the_covariance_of_the_metric():
    noise = centred_noise(CENTRED, F(4))
    assert noise == CentredGaussian((F(12), F(20), F(280)), F(2), (1, 2, 0), 2, CENTRED.centre)
    assert [w * noise.shared for w in noise.weights] == [4 * c for c in CENTRED.common]


@pytest.mark.parametrize(
    "given",
    [
        {"multiplier": 0},
        {"metric": fw.CentredDistance(PEOPLE, CENTRED.scales, F(2), F(1, 3), "ab")},
        {
            "metric": fw.CentredDistance(
                fw.ConeBody(("u", "n"), (F(2), F(3)), True), (F(1), F(1)), F(2), F(1, 2), "ab"
            )
        },
        {"multiplier": 2**40},
    ],
)
def test_noise_in_common_that_is_refused(given):
    with pytest.raises(ParameterError):
        centred_gaussian(**{"multiplier": 1, "metric": CENTRED} | given)
