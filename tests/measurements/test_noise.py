"""Laplace and Gaussian noise on numbers and vectors: maps against brute force, and the law of what is drawn."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import ParameterError, QueryError
from sfumato.exact import root_up
from sfumato.framework import (
    AbsoluteDistance,
    AtomDomain,
    CategoryDomain,
    GaussianDP,
    GroupedIntegers,
    L1Distance,
    L2Distance,
    ProductDomain,
    PureDP,
    VectorDomain,
)
from sfumato.measurements import NOISES, NoiseKind, gaussian, independent_noise, laplace
from sfumato.noise import Gaussian, Laplace, SeededWords
from sfumato.transformations import Norm

steady = settings(derandomize=True, database=None, deadline=None, max_examples=100)
KINDS = pytest.mark.parametrize("make, law", [(laplace, Laplace), (gaussian, Gaussian)])
UNIT = AtomDomain(float, 0, 1)
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


# The map, by brute force on the grid.


def near_the_grid():
    """All sixteenths of a step around three places, and their neighbours at 2^-40 of a step."""
    for place in (F(0), F(-7), F(2**33)):
        for n in range(-24, 25):
            for hair in (-1, 0, 1):
                yield (place + F(n, 16) + F(hair, 2**40)) * STEP


def reaches_too_far(measurement, pairs, scale):
    """Whether outputs without noise lie further apart, over the scale, than the map says; and the best ratio."""
    best = F(0)
    for one, other in pairs:
        moved = abs(measurement(one) - measurement(other)) / scale
        if one != other:
            best = max(best, moved / measurement.map(abs(F(one) - F(other))))
        elif moved:
            return True, best
    return best > 1, best


def scalar_pairs():
    points = list(near_the_grid())[:147]
    return list(product(points, points[1::3]))


@pytest.mark.long
def test_the_map_of_single_numbers_covers_all_pairs_and_is_reached(silent):
    for kind in silent:
        assert reaches_too_far(kind.measurement(1, AtomDomain(F)), scalar_pairs(), 1) == (False, 1)


def test_halves_that_round_to_even_are_found(silent, monkeypatch):
    """1/2 and 3/2 steps are one step apart, but go to 0 and 2."""

    class ToEven:
        ceil = staticmethod(math.ceil)

        @staticmethod
        def floor(x):
            return round(x - F(1, 2))

    made = silent[0].measurement(1, AtomDomain(F))
    assert not reaches_too_far(made, scalar_pairs(), 1)[0]
    monkeypatch.setattr(independent_noise, "math", ToEven)
    assert reaches_too_far(made, scalar_pairs(), 1)[0]


def test_a_map_without_the_rounding_is_found(silent):
    made = silent[0].measurement(1, AtomDomain(F))
    honest = made.privacy_map
    object.__setattr__(made, "privacy_map", lambda d: d)
    assert honest(STEP / 2) == STEP and reaches_too_far(made, scalar_pairs(), 1)[0]


@pytest.mark.parametrize("scale", [F(1), F(3, 7), F(10**12), F(1, 10**40), F(2) ** 900])
def test_the_grid_is_about_a_billionth_of_the_scale(scale, silent):
    """Half a step up goes up, a hair less goes down; and the output is on the grid."""
    made = silent[0].measurement(scale, AtomDomain(F))
    step = made(0) or F(2) ** (math.frexp(scale)[1] - 31)
    assert 2**30 <= scale / step < 2**31
    assert made(step / 2) == step and made(step / 2 * F(2**40 - 1, 2**40)) == 0
    assert made(-step / 2) == 0 and made(-step / 2 * F(2**40 + 1, 2**40)) == -step


@steady
@given(st.lists(st.tuples(*[st.fractions(-4, 4)] * 2), min_size=1, max_size=4), st.booleans())
def test_the_map_of_vectors_covers_random_pairs(pairs, in_l2):
    kind = NOISES["gaussian" if in_l2 else "laplace"]
    made = NoiseKind(kind.name, kind.norm, Silent, kind.measure).measurement(
        1, VectorDomain(AtomDomain(F), len(pairs))
    )
    one, other = ([F(p[i] * STEP) for p in pairs] for i in (0, 1))
    metric = made.input_metric
    assert metric.distance(made(one), made(other)) <= made.map(
        metric.distance(one, other) * (1 + F(1, 2**100))
    )


@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_map_of_vectors_is_nearly_reached(silent, size):
    """All entries from just below a half to a half: nearly nothing becomes a step in each."""
    hair = F(1, 2**40) * STEP
    for kind, apart in zip(silent, (F(size), root_up(F(size))), strict=True):
        made = kind.measurement(1, VectorDomain(AtomDomain(F), size))
        one, other = [STEP / 2] * size, [STEP / 2 - hair] * size
        moved = made.input_metric.distance(made(one), made(other))
        claimed = made.map(made.input_metric.distance(one, other) * (1 + F(1, 2**100)))
        assert claimed * (1 - F(1, 2**30)) < moved <= claimed
        assert claimed > apart * STEP * (1 - F(1, 2**100)) and made.map(0) == 0
        missing = made.map(hair) - apart * STEP  # what a map without the rounding would claim
        assert moved > missing


def test_floats_are_the_numbers_that_they_are(silent):
    made = silent[0].measurement("1e-300", UNIT)
    for value in (0.1, 1 / 3, 5e-324, 1.0, 0.0, -0.0, 2.0**-1022, math.nextafter(0.5, 0)):
        assert abs(made(value) - F(value)) <= F(1, 2**1025)
    wide = silent[0].measurement(1, AtomDomain(float, -1e308, 1e308))
    assert wide(1e308) == F(1e308) and wide(2.0**53) == 2**53 and isinstance(wide(0.5), F)


@KINDS
def test_parameters_are_taken_exactly(make, law):
    assert make("0.1").map(1) == 10
    assert make(0.1).map(1) == 1 / F(0.1) != 10


def test_whole_numbers_are_not_rounded(silent):
    for kind in silent:
        assert kind.measurement("0.1", AtomDomain(int))(2**200 + 1) == 2**200 + 1
        assert kind.measurement(10**6, VectorDomain(AtomDomain(int)))([1, -(10**30)]) == [1, -(10**30)]
        assert kind.measurement(1, VectorDomain(AtomDomain(int)))([]) == []


# The claims.


@KINDS
@pytest.mark.parametrize("scale", ["1/3", 2, 10**9])
def test_claims_on_whole_numbers(make, law, scale):
    vectors = L1Distance() if make is laplace else L2Distance()
    measure = PureDP() if make is laplace else GaussianDP()
    for made, metric in (
        (make(scale), AbsoluteDistance()),
        (make(scale, AtomDomain(int, 0, 9)), AbsoluteDistance()),
        (make(scale, VectorDomain(AtomDomain(int))), vectors),
        (make(scale, VectorDomain(AtomDomain(int), 7)), vectors),
    ):
        assert (made.input_metric, made.output_measure) == (metric, measure)
        assert [made.map(d) for d in (0, 1, F(7, 2))] == [F(d) / F(scale) for d in (0, 1, F(7, 2))]


@KINDS
def test_claims_on_other_numbers(make, law):
    one = make(1, AtomDomain(F))
    assert [one.map(d) for d in (0, STEP / 3, STEP, STEP * F(4, 3), 1)] == [0, STEP, STEP, 2 * STEP, 1]
    assert make(3, UNIT).map(F(1, 3)) == math.ceil(F(2**29, 3)) * F(2) ** -29 / 3
    three = make(1, VectorDomain(UNIT, 3))
    moved = 3 if make is laplace else root_up(F(3))
    assert three.map(1) == 1 + moved * STEP and three.map(0) == 0


# The law of the noise.


CDF = {
    Laplace: lambda x: np.where(x < 0, np.exp(-np.abs(x)) / 2, 1 - np.exp(-np.abs(x)) / 2),
    Gaussian: lambda x: np.array([math.erfc(-y / math.sqrt(2)) / 2 for y in x.tolist()]),
}


def sup_distance(draws, law, scale):
    """Of the empirical distribution from a law's; beyond `ALLOWED` with probability below 1e-16 (DKW)."""
    x = np.sort(np.array([float(d) for d in draws]))
    n = len(x)
    exact = CDF[law](x / scale)
    return max(np.max(np.arange(1, n + 1) / n - exact), np.max(exact - np.arange(n) / n))


N = 60_000
ALLOWED = math.sqrt(math.log(2 / 1e-16) / (2 * N))


def draws_of(made):
    value = [F(1, 3)] * N
    return [d - F(1, 3) for d in made(value)]


@pytest.mark.long
@pytest.mark.flakiness(k=15, because="Massart's bound: 1e-16, and e^-100 for the wrong ones")
@KINDS
def test_noise_on_numbers_has_the_law_and_wrong_noise_is_found(make, law):
    """0.018 is allowed; a scale off by 30% is 0.048 or more away, missing noise 0.5."""
    domain = VectorDomain(AtomDomain(F), N)
    assert sup_distance(draws_of(make(5, domain)), law, 5) < ALLOWED
    kind = NOISES[make.__name__]
    for factor in (F(7, 10), F(13, 10)):
        wrong = NoiseKind(kind.name, kind.norm, lambda s, f=factor: law(s * f), kind.measure)
        assert sup_distance(draws_of(wrong.measurement(5, domain)), law, 5) > ALLOWED
    without = NoiseKind(kind.name, kind.norm, Silent, kind.measure)
    assert sup_distance(draws_of(without.measurement(5, domain)), law, 5) > 0.4


@pytest.mark.flakiness(k=14, because="Chernoff's bound at 1e-15; 120 draws have three values with 0.55^120")
@KINDS
def test_noise_on_whole_numbers_has_the_law_of_rounded_noise(make, law, unlikely):
    span = range(-400, 401)
    expected = {m: law(2).rounded_pmf(m) for m in range(-8, 9)} | {"beyond": 2 * law(2).rounded_sf(8)}

    def counts(made):
        drawn = made([1000] * N)
        return Counter(d - 1000 if abs(d - 1000) <= 8 else "beyond" for d in drawn if d - 1000 in span)

    assert not unlikely(counts(make(2, VectorDomain(AtomDomain(int)))), expected)
    assert unlikely(counts(make(F(7, 5), VectorDomain(AtomDomain(int)))), expected)
    assert unlikely(counts(make(F(13, 5), VectorDomain(AtomDomain(int)))), expected)
    single = make(2)
    assert len({single(0) for _ in range(120)}) > 3


@pytest.mark.flakiness(
    k=14, because="50 draws of scale 2^56 are distinct but for 1225 / 2^58; 1600 signs at 10 deviations"
)
@KINDS
def test_entries_have_noises_of_their_own(make, law):
    drawn = make(2**56, VectorDomain(AtomDomain(int), 50))([0] * 50)
    assert len(set(drawn)) == 50
    both = np.array([make(2**40, VectorDomain(AtomDomain(int), 2))([0, 0]) for _ in range(1600)], float)
    assert abs(np.corrcoef(np.sign(both).T)[0, 1]) < 0.25  # 1600 fair signs: 10 sigma
    one = np.repeat(both[:, :1], 2, axis=1)
    assert np.corrcoef(np.sign(one).T)[0, 1] > 0.25


@pytest.mark.flakiness(k=14, because="50 draws of scale 2^56 are distinct but for 1225 / 2^58")
@KINDS
def test_each_coordinate_of_a_group_has_its_own_scale(make, law):
    made = make([F(2**56), F(1, 2**20)], GroupedIntegers(("a", "b")), keys=range(50))
    drawn = made({g: {"a": 7, "b": 7} for g in range(50)})
    assert len({t["a"] for t in drawn.values()}) == 50 and {t["b"] for t in drawn.values()} == {7}


@pytest.mark.noise_cannot_matter("it looks at the groups alone")
@KINDS
def test_which_groups_hold_anybody_does_not_show(make, law):
    made = make([F(2)], GroupedIntegers(("a",)), keys=["x", "y"])
    for groups in ({}, {"x": {"a": 0}}, {"x": {"a": 5}, "z": {"a": 5}}):
        assert list(made(groups)) == ["x", "y"]
    for domain, keys in ((GroupedIntegers(("a",)), None), (AtomDomain(int), ["x"])):
        with pytest.raises(ParameterError, match="keys"):
            make(F(2) if keys else [F(2)], domain, keys=keys)


def test_the_sampler_behind_it_is_the_secure_one(monkeypatch):
    seen = []
    honest = Laplace.rounded

    def watched(self, n, words=None):
        seen.append(words)
        return honest(self, n, SeededWords(1))

    monkeypatch.setattr(Laplace, "rounded", watched)
    laplace(2)(0)
    assert seen == [None]  # None: this thread's secure words


# Refusals.


@KINDS
@pytest.mark.parametrize(
    "domain",
    [
        AtomDomain(float), AtomDomain(float, 0), AtomDomain(float, 0, 1, nan=True), AtomDomain(float, 0, 1, null=True),
        AtomDomain(int, null=True), AtomDomain(str), AtomDomain(bool), CategoryDomain(("a", "b")), None, int,
        VectorDomain(AtomDomain(float), 2), VectorDomain(VectorDomain(AtomDomain(int))), ProductDomain((AtomDomain(int),)),
        VectorDomain(AtomDomain(F)), VectorDomain(UNIT),
    ],
    ids=str,
)  # fmt: skip
def test_domains_that_it_cannot_take(make, law, domain):
    with pytest.raises(ParameterError, match="domain"):
        make(1, domain)


@KINDS
@pytest.mark.parametrize("scale", [0, -1, math.nan, math.inf, None, "x", True, [1]])
@pytest.mark.parametrize(
    "domain", [AtomDomain(int), UNIT, VectorDomain(AtomDomain(int)), VectorDomain(UNIT, 2)], ids=str
)
def test_scales_that_are_none(make, law, scale, domain):
    with pytest.raises(ParameterError, match="scale"):
        make(scale, domain)


@pytest.mark.flakiness(k=17, because="two draws of scale 2^57 are equal with 2^-59")
@KINDS
def test_the_largest_scale(make, law):
    for domain in (AtomDomain(int), VectorDomain(AtomDomain(int))):
        with pytest.raises(ParameterError, match="scale .* at most 2\\^57"):
            make(2**57 + 1, domain)
    assert make(2**57)(0) != make(2**57)(0) and make(2**900, UNIT)(1.0) % 2**800 == 0


@KINDS
@pytest.mark.parametrize("element", [AtomDomain(int), UNIT])
def test_a_vector_of_another_length_is_refused_before_anything_is_drawn(make, law, element, monkeypatch):
    made = make(1, VectorDomain(element, 2))
    monkeypatch.setattr(law, "rounded", None)
    for values in ([], [1], [1, 1, 1]):
        with pytest.raises(
            QueryError, match=f"{make.__name__}: length of the input is {len(values)}, but must be 2$"
        ):
            made(values)


def test_both_kinds_are_what_they_are():
    assert {name: (k.norm, k.law) for name, k in NOISES.items()} == {
        "laplace": (Norm.L1, Laplace), "gaussian": (Norm.L2, Gaussian),
    }  # fmt: skip
