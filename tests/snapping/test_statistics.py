"""Section 7: definitions, sensitivities and ranges, on every small data set; chains and releases."""

import itertools
import math
import statistics
from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.framework import ChangeOneDistance, PureDP
from sfumato.noise import FixedWords
from sfumato.snapping import Histogram, Mean, SampleCovariance, SampleVariance

# Every data set of up to four records from these; the ends are the bounds.
a, b, c, d = -1, 3, 2, 7

points = [a, 0.5, 1, b]

corners = [(a, c), (a, d), (b, c), (b, d), (1.0, 4.5)]


def made(size):
    yield Mean(size, lower=a, upper=b), points
    if size > 1:
        yield SampleVariance(size, lower=a, upper=b), points
        yield SampleCovariance(size, x_bounds=(a, b), y_bounds=(c, d)), corners


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_range_and_sensitivity_on_every_data_set(size):
    for statistic, records in made(size):
        at = {data: statistic(data) for data in itertools.product(records, repeat=size)}
        low, high = statistic.range
        assert (min(at.values()), max(at.values())) == (low, high)
        moved = [
            abs(at[(x, *rest)] - at[(y, *rest)])
            for rest in itertools.product(records, repeat=size - 1)
            for x, y in itertools.combinations(records, 2)
        ]
        assert max(moved) == statistic.sensitivity


def test_definitions_against_the_standard_library():
    rng = np.random.default_rng(2)
    for size in (2, 3, 50):
        x, y = rng.uniform(a, b, size), rng.uniform(c, d, size)
        exact = [Fraction(v) for v in x.tolist()]
        assert Mean(size, lower=a, upper=b)(x) == statistics.mean(exact)
        assert SampleVariance(size, lower=a, upper=b)(x) == statistics.variance(exact)
        covariance = SampleCovariance(size, x_bounds=(a, b), y_bounds=(c, d))(np.column_stack([x, y]))
        assert float(covariance) == pytest.approx(statistics.covariance(x.tolist(), y.tolist()), rel=1e-12)
    huge = [1e300, -1e300, 5e-324, 1.0]
    assert Mean(4, lower=-1e300, upper=1e300)(huge) == (Fraction(1) + Fraction(5e-324)) / 4


def test_nan_counts_as_the_midpoint_and_infinities_clamp():
    assert Mean(3, lower=0, upper=10)([math.nan, math.inf, -math.inf]) == 5
    assert SampleVariance(2, lower=0, upper=10)([math.nan, 5]) == 0
    assert SampleCovariance(2, x_bounds=(0, 10), y_bounds=(0, 4))([(math.nan, -math.inf), (5, math.inf)]) == 0
    assert Histogram(3, edges=[0, 1, 2, 3])([math.nan, math.inf, -1]) == [1, 1, 1]


def test_histogram():
    rng = np.random.default_rng(4)
    edges = [0.0, 0.1, 0.25, 0.7, 1.0]
    statistic = Histogram(1000, edges=edges)
    data = rng.uniform(0, 1, 1000)
    assert statistic(data) == np.histogram(data, edges)[0].tolist()
    assert sum(statistic(data)) == 1000
    assert Histogram(6, edges=edges)([*edges, 0.0999999]) == [2, 1, 1, 2]
    # One changed record: two counts by one each, at most.
    small = Histogram(3, edges=[0, 1, 2, 3])
    for rest in itertools.product([0.5, 1.5, 2.5], repeat=2):
        for x, y in itertools.product([0.5, 1.5, 2.5], repeat=2):
            moved = np.abs(np.array(small([x, *rest])) - small([y, *rest]))
            assert moved.sum() == (2 if x != y else 0) and moved.max(initial=0) <= 1
    assert small.transformation.map(1) == 2


def test_mechanisms_have_the_right_bounds():
    m = Mean(10, lower=2, upper=4).mechanism(1)
    assert (m.center, m.sensitivity, m.lower, m.upper) == (3, Fraction(1, 5), 2, 4)
    for size, largest in ((9, Fraction(10, 36)), (10, Fraction(10, 36))):
        m = SampleVariance(size, lower=0, upper=1).mechanism(1)
        assert (m.lower, m.upper, m.sensitivity) == (0, largest, Fraction(1, size))
        m = SampleCovariance(size, x_bounds=(0, 1), y_bounds=(0, 1)).mechanism(1)
        assert (m.lower, m.upper, m.center, m.sensitivity) == (-largest, largest, 0, Fraction(1, size))
    m = Histogram(10, edges=[0, 1, 2]).mechanism(1)
    assert (m.lower, m.upper, m.sensitivity, m.epsilon) == (0, 10, 1, Fraction(1, 2))


@pytest.mark.parametrize("epsilon", ["1/3", 4])
def test_chains_state_epsilon_exactly(epsilon):
    for statistic in (
        Mean(10, lower=0, upper=1),
        SampleVariance(11, lower=0, upper=1),
        SampleCovariance(10, x_bounds=(0, 1), y_bounds=(0, 2)),
    ):
        chain, m = statistic.measurement(epsilon), statistic.mechanism(epsilon)
        eta = Fraction(1, 2**m.precision)
        stated = m.epsilon_prime * (1 + 12 * m.bound / m.sensitivity * eta) + 2 * eta
        assert chain.map(1) == stated <= m.epsilon
        assert chain.map(0) == 0
        assert chain.map(3) == stated + 2 * m.epsilon_prime
        assert (chain.output_measure, chain.input_metric) == (PureDP(), ChangeOneDistance())
    counts = Histogram(10, edges=[0, 1, 2, 3]).measurement(epsilon)
    m = Histogram(10, edges=[0, 1, 2, 3]).mechanism(epsilon)
    assert counts.map(1) == 2 * m.privacy_loss(1) <= 2 * m.epsilon
    assert counts.map(Fraction(1, 3)) == 0
    assert counts.map(2) == 3 * m.privacy_loss(Fraction(4, 3))


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("size", lambda: Mean(0, lower=0, upper=1)),
        ("size", lambda: SampleVariance(1, lower=0, upper=1)),
        ("size", lambda: SampleCovariance(1, x_bounds=(0, 1), y_bounds=(0, 1))),
        ("lower", lambda: Mean(3, lower=1, upper=1)),
        ("x_bounds", lambda: SampleCovariance(3, x_bounds=(1, 0), y_bounds=(0, 1))),
        ("edges", lambda: Histogram(3, edges=[0, 1])),
        ("edges", lambda: Histogram(3, edges=[0, 1, 1])),
        ("data", lambda: Mean(3, lower=0, upper=1)([1, 2])),
        ("data", lambda: SampleCovariance(3, x_bounds=(0, 1), y_bounds=(0, 1))([1, 2, 3])),
        ("epsilon", lambda: Mean(3, lower=0, upper=1).release([1, 2, 3], epsilon=0)),
        ("epsilon", lambda: Histogram(3, edges=[0, 1, 2]).release([1, 2, 3], epsilon=-1)),
        ("gamma", lambda: Mean(3, lower=0, upper=1).measurement(1, gamma=2)),
    ],
)
def test_bad_input(name, make):
    with pytest.raises(ParameterError, match=f"^{name} is"):
        make()


def test_refusals_come_before_words_are_drawn():
    words = FixedWords([1, 2, 3])
    with pytest.raises(ParameterError):
        Mean(3, lower=0, upper=1).release([1, 2], epsilon=1, words=words)
    assert words.taken == 0
