"""The documented tester: search graph, buckets, predicate, verdict. Seeds are fixed, as its verdict has no exact level."""

import math
import threading

import numpy as np
import pytest

from sfumato.audit import HistogramMethod, Pair, audit
from sfumato.audit.histogram_buckets import Buckets, Comparison
from sfumato.audit.histogram_method import DrawCache, SearchGraph
from sfumato.noise import Laplace, SeededWords

STEPS = 2**20


def column(*values):
    """Numbers with code 0; what is None gets code 7."""
    numbers = np.array([math.nan if v is None else v for v in values], np.float64)
    return numbers, np.array([7 if v is None else 0 for v in values])


def noisy(function, scale, seed=1):
    """A mechanism: a statistic of the dataset with exact Laplace noise."""
    words = SeededWords(seed)
    law = Laplace(scale * STEPS)

    def mechanism(dataset, size):
        return round(function(dataset) * STEPS) / STEPS + law.rounded(size, words) / STEPS

    return mechanism


def anon_sum(scale, lower=-1.0, upper=1.0):
    return noisy(lambda data: sum(min(max(x, lower), upper) for x in data), scale)


# Search graph.


def test_each_pair_of_neighbouring_subsets_once_depth_first():
    graph = SearchGraph(("a", "b", "c"), DrawCache(list))
    edges = [(graph.records(n), graph.records(s)) for n, s in graph.edges()]
    assert len(edges) == len(set(edges)) == graph.edge_count == 3 * 2**2
    assert all(len(n) == len(s) + 1 and set(s) < set(n) for n, s in edges)
    assert {n for n, _ in edges} | {s for _, s in edges} == {
        tuple(x for i, x in enumerate("abc") if bits >> i & 1) for bits in range(8)
    }
    # After a dataset come the subsets of its last subset, not its other ones.
    assert [n for n, _ in edges[3:6]] == [("a", "b"), ("a", "b"), ("a",)]


class Named:
    """A record that cannot be pickled, and whose text is not what it holds."""

    def __init__(self, value):
        self.value = value
        self.lock = threading.Lock()

    def __repr__(self):
        return "a record"


def test_records_of_one_text_are_not_taken_for_the_same():
    seen = []
    graph = SearchGraph(
        [Named(1), Named(2)], DrawCache(lambda d: seen.append([r.value for r in d]) or len(seen))
    )
    for node, successor in graph.edges():
        assert graph.samples(node) != graph.samples(successor)
    assert seen == [[1, 2], [2], [1], []]


def test_equal_buckets():
    x, y = column(0.0, 1.0, 2.0, 3.0), column(4.0, 4.0, 4.0, 4.0)
    buckets = Buckets.over(x, y, count=4)
    assert buckets.boundaries.tolist() == [0, 1, 2, 3, 4]
    assert buckets.counts(x).tolist() == [1, 1, 1, 1, 0]
    assert buckets.counts(y).tolist() == [0, 0, 0, 0, 4]
    assert buckets.describe(1, "value", []) == "1 <= value < 2"
    assert buckets.describe(4, "value", []) == "4 <= value"


@pytest.mark.parametrize(
    "values", [[1.0] * 5, [-1.7e308, 0.0, 1.7e308], [5e-324, 0.0], [None] * 5, [None, 1.0]]
)
@pytest.mark.parametrize("count", [None, 3])
def test_every_value_is_counted_once(values, count):
    x, y = column(*values), column(*values[::-1])
    buckets = Buckets.over(x, y, count)
    assert buckets.counts(x).sum() == len(values)
    assert len(buckets.counts(x)) == len(buckets)
    assert (np.diff(buckets.boundaries) > 0).all()


# Predicate.


def test_intervals_and_predicate_by_hand():
    x, y = np.array([600, 300, 100]), np.array([100, 300, 600])
    compared = Comparison.compare(x, y, Pair(0.5, 0.01), samples=1000, confidence=0.95)
    z = 2.3939797998185104  # the normal quantile of 1 - 0.05 / 6
    c = z / (2 * math.sqrt(1000))
    lower = (math.sqrt(0.6) - c) ** 2
    upper = (math.sqrt(0.1) + c) ** 2
    assert compared.lower[0] == pytest.approx(lower)
    assert compared.upper[0] == pytest.approx(upper)
    assert compared.failing.tolist() == [True, False, False]
    assert compared.epsilon_lower == pytest.approx(math.log((lower - 0.01) / upper))
    swapped = Comparison.compare(y, x, Pair(0.5, 0.01), samples=1000, confidence=0.95)
    assert swapped.failing.tolist() == [False, False, True]


# Verdicts.


def test_the_regression_of_anon_avg():
    """The sum's scale |U - L|, right inside a mean of known count, is not for add/remove."""
    data = [[4.5, 5.0], [5.0]]
    by_width, by_largest = (anon_sum(scale, 4.0, 5.0) for scale in (1, 5))
    assert audit(by_width, epsilon=1.0, data=data, method="histogram").violated
    assert not audit(by_largest, epsilon=1.0, data=data, method="histogram").violated


def test_a_defect_on_one_side_only_is_found_in_both_orders():
    def mechanism(dataset, size):
        return np.zeros(size) if dataset else np.where(np.arange(size) % 10, 0.0, 1.0)

    for pair in (([], [1.0]), ([1.0], [])):
        report = audit(mechanism, epsilon=1.0, pairs=[pair], method="histogram")
        assert report.violated
        assert report.witness.dataset == []
    report = audit(
        lambda d: None if d else 0.5, epsilon=1.0, pairs=[pair], method=HistogramMethod(samples=500)
    )
    assert report.violated and report.witness.event in ("value is None", "0.5 <= value")


def test_a_tolerated_share_hides_a_defect_on_few_buckets():
    """The option is documented, and this is why it is not the default."""

    def mechanism(dataset, size):
        noise = noisy(len, 1, seed=2)(dataset, size)
        return np.where(np.arange(size) % 20, noise, 50.0 if dataset else -50.0)

    pairs = [([], [1.0])]
    assert audit(mechanism, epsilon=1.0, pairs=pairs, method=HistogramMethod()).violated
    assert not audit(
        mechanism, epsilon=1.0, pairs=pairs, method=HistogramMethod(tolerated_buckets=0.05)
    ).violated
