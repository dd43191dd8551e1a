"""The documented tester: search graph, buckets, predicate, verdict. Seeds are fixed, as its verdict has no exact level."""

import json
import math
import threading

import numpy as np
import pyarrow as pa
import pytest

from sfumato.audit import HistogramMethod, MechanismError, Pair, audit, halton
from sfumato.audit.histogram_buckets import Buckets, Comparison
from sfumato.audit.histogram_method import DrawCache, SearchGraph
from sfumato.errors import ParameterError
from sfumato.noise import Laplace, SeededWords

pytestmark = pytest.mark.long

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


def test_samples_are_drawn_once_for_each_subset():
    asked = []
    graph = SearchGraph([1.0, 2.0, 3.0], DrawCache(lambda d: asked.append(d) or len(asked)))
    for node, successor in graph.edges():
        assert graph.samples(node) == graph.samples(node)
        graph.samples(successor)
    assert len(asked) == 8


@pytest.mark.parametrize("dataset", [[4, 5, 6], (4, 5, 6), np.array([4, 5, 6]), pa.table({"x": [4, 5, 6]})])
def test_datasets_of_many_kinds(dataset):
    graph = SearchGraph(dataset, DrawCache(len))
    sizes = [len(graph.records(s)) for _, s in graph.edges()]
    assert sorted(sizes) == [0] * 3 + [1] * 6 + [2] * 3
    assert all(type(graph.records(s)) is type(dataset) for _, s in graph.edges())


def test_draws_are_kept_for_all_roots():
    """Five Halton datasets of three records have 36 subsets: each is drawn from once, where 40 were."""
    drawn = []

    def mechanism(dataset, size):
        drawn.append(tuple(dataset))
        return noisy(len, 1)(dataset, size)

    method = HistogramMethod(datasets=5, samples=10, tolerated_edges=0.999)
    report = audit(mechanism, epsilon=1.0, method=method)
    assert len(report.edges) == 60
    assert len(drawn) == len(set(drawn)) == 36
    assert report.samples == 36 * 10 // 2


def test_draws_are_kept_for_given_pairs():
    drawn = []

    def mechanism(dataset, size):
        drawn.append(tuple(dataset))
        return noisy(len, 1)(dataset, size)

    pairs = [([1.0], []), ([2.0], []), ([1.0, 2.0], [1.0])]
    audit(mechanism, epsilon=1.0, pairs=pairs, method=HistogramMethod(samples=10, tolerated_edges=0.999))
    assert drawn == [(1.0,), (), (2.0,), (1.0, 2.0)]


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


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1], [1.0]), ([1], [True]), ([0.0], [-0.0]), ([1], (1,)), (["a"], [b"a"]), ([1.0], [np.float64(1)]),
        (np.array([1]), np.array([1], np.int32)), (np.zeros((2, 1)), np.zeros((1, 2))), ([{1}], [{2}]),
        (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[1, 0])),
        (np.array([Named(1)]), np.array([Named(1)])), ([Named(1)], [Named(1)]),
        (pa.table({"x": [1]}), pa.table({"x": [2]})), (pa.table({"x": [1]}), pa.table({"y": [1]})),
    ],
)  # fmt: skip
def test_what_may_not_be_the_same_is_drawn_anew(one, other):
    kept = DrawCache(lambda dataset: [dataset])
    assert kept(one) is not kept(other)


def test_of_too_many_draws_the_oldest_are_given_up():
    drawn = []
    kept = DrawCache(lambda dataset: drawn.append(dataset) or dataset, size=len, most=6)
    for dataset in ([1, 1], [2, 2], [3, 3], [1, 1], [4, 4], [1, 1], [2, 2]):
        kept(dataset)
    assert drawn == [[1, 1], [2, 2], [3, 3], [4, 4], [2, 2]]
    kept([5] * 100)
    kept([1, 1])
    assert drawn[5:] == [[5] * 100, [1, 1]]


def test_an_empty_dataset_has_no_neighbours_below():
    assert list(SearchGraph([], DrawCache(len)).edges()) == []


# Buckets.


def test_equal_buckets():
    x, y = column(0.0, 1.0, 2.0, 3.0), column(4.0, 4.0, 4.0, 4.0)
    buckets = Buckets.over(x, y, count=4)
    assert buckets.boundaries.tolist() == [0, 1, 2, 3, 4]
    assert buckets.counts(x).tolist() == [1, 1, 1, 1, 0]
    assert buckets.counts(y).tolist() == [0, 0, 0, 0, 4]
    assert buckets.describe(1, "value", []) == "1 <= value < 2"
    assert buckets.describe(4, "value", []) == "4 <= value"


def test_adaptive_width_is_that_of_freedman_and_diaconis():
    generator = np.random.default_rng(1)
    x, y = column(*generator.normal(0, 1, 1000)), column(*generator.normal(0, 3, 1000))
    boundaries = Buckets.over(x, y).boundaries
    spreads = [np.subtract(*np.quantile(v, [0.75, 0.25])) for v, _ in (x, y)]
    expected = sum(2 * s / 10 for s in spreads) / 2
    assert boundaries[1] - boundaries[0] == pytest.approx(expected, rel=0.05)


def test_an_interquartile_range_of_0_falls_back_to_the_range():
    x = column(*[0.0] * 999, 8.0)
    boundaries = Buckets.over(x, x).boundaries
    assert boundaries[1] - boundaries[0] == pytest.approx(8 / 10, rel=0.01)


@pytest.mark.parametrize(
    "values",
    [
        [1.0] * 5,
        [-1.7e308, 0.0, 1.7e308],
        [5e-324, 0.0],
        [1e300, 1e300 * (1 + 2**-52)],
        [None] * 5,
        [None, 1.0],
    ],
)
@pytest.mark.parametrize("count", [None, 3])
def test_every_value_is_counted_once(values, count):
    x, y = column(*values), column(*values[::-1])
    buckets = Buckets.over(x, y, count)
    assert buckets.counts(x).sum() == len(values)
    assert len(buckets.counts(x)) == len(buckets)
    assert (np.diff(buckets.boundaries) > 0).all()


def test_what_is_no_number_has_a_bucket():
    buckets = Buckets.over(column(None, 1.0), column(2.0, 3.0))
    assert buckets.counts(column(None, 1.0))[-1] == 1
    assert buckets.describe(len(buckets) - 1, "value", ["?"] * 7 + ["None"]) == "value is None"


# Predicate.


def test_intervals_and_predicate_by_hand():
    x, y = np.array([600, 300, 100]), np.array([100, 300, 600])
    compared = Comparison.of(x, y, Pair(0.5, 0.01), samples=1000, confidence=0.95)
    z = 2.3939797998185104  # the normal quantile of 1 - 0.05 / 6
    c = z / (2 * math.sqrt(1000))
    lower = (math.sqrt(0.6) - c) ** 2
    upper = (math.sqrt(0.1) + c) ** 2
    assert compared.lower[0] == pytest.approx(lower)
    assert compared.upper[0] == pytest.approx(upper)
    assert compared.failing.tolist() == [True, False, False]
    assert compared.epsilon_lower == pytest.approx(math.log((lower - 0.01) / upper))
    swapped = Comparison.of(y, x, Pair(0.5, 0.01), samples=1000, confidence=0.95)
    assert swapped.failing.tolist() == [False, False, True]


def test_delta_is_allowed_for():
    x, y = np.array([30, 970]), np.array([0, 1000])
    assert Comparison.of(x, y, Pair(1.0), samples=1000, confidence=0.95).failing.any()
    assert not Comparison.of(x, y, Pair(1.0, 0.05), samples=1000, confidence=0.95).failing.any()


def test_an_empty_bucket_never_fails():
    x = np.array([0, 1000])
    assert not Comparison.of(x, x[::-1], Pair(0.0), samples=1000, confidence=0.95).failing[0]


# Verdicts.


def test_the_default_datasets_are_halton_points():
    method = HistogramMethod()
    assert method.data() == halton(50, 3)
    report = audit(noisy(len, 1), epsilon=1.0, method="histogram", max_samples=100_000)
    assert report.edges[0][0] == "[0.5, 0.3333333333333333, 0.2] without [0.5]"
    assert not report.violated
    assert any("the limits were met" in note for note in report.notes)
    assert any("of 600 in all" in note for note in report.notes)
    assert 30 <= method.tolerated_edges * 600 < 31


@pytest.mark.parametrize("buckets", [None, 50])
def test_half_noise_is_found_and_right_noise_is_not(buckets):
    method = HistogramMethod(datasets=5, buckets=buckets)
    found = audit(noisy(len, 0.5), epsilon=1.0, method=method)
    assert found.violated
    assert found.epsilon_lower > 1
    assert found.witness.frequency > math.e * found.witness.neighbour_frequency
    assert not audit(noisy(len, 1), epsilon=1.0, method=method).violated


def test_the_regression_of_anon_avg():
    """The sum's scale |U - L|, right inside a mean of known count, is not for add/remove."""
    data = [[4.5, 5.0], [5.0]]
    by_width, by_largest = (anon_sum(scale, 4.0, 5.0) for scale in (1, 5))
    assert audit(by_width, epsilon=1.0, data=data, method="histogram").violated
    assert not audit(by_largest, epsilon=1.0, data=data, method="histogram").violated


def test_a_mean_over_the_exact_count():
    """With the right scale it still is not private."""
    words = SeededWords(3)

    def mechanism(dataset, size):
        return (sum(dataset) + Laplace(STEPS).rounded(size, words) / STEPS) / max(1, len(dataset))

    pairs = [([1.0], [1.0, 1.0]), ([0.0], [0.0, 0.0])]
    assert audit(mechanism, epsilon=0.5, pairs=pairs, method=HistogramMethod(samples=50_000)).violated


def test_a_defect_on_one_side_only_is_found_in_both_orders():
    def mechanism(dataset, size):
        return np.zeros(size) if dataset else np.where(np.arange(size) % 10, 0.0, 1.0)

    for pair in (([], [1.0]), ([1.0], [])):
        report = audit(mechanism, epsilon=1.0, pairs=[pair], method="histogram")
        assert report.violated
        assert report.witness.dataset == []


def test_what_is_no_number_breaks_the_predicate_too():
    def mechanism(dataset, size):
        if 7 in dataset:
            raise ValueError("seven")
        return [None] * size if dataset else [0.5] * size

    for pair, events in (
        (([1], []), {"value is None", "0.5 <= value"}),
        (([1, 7], [1]), {"value is exception ValueError", "value is None"}),
    ):
        report = audit(mechanism, epsilon=1.0, pairs=[pair], method="histogram")
        assert report.violated
        assert report.witness.event in events


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


def test_a_tolerated_share_of_edges_keeps_the_method_from_crying_wolf():
    """A correct count reaches its claim on every edge: of 600 comparisons some fail."""
    options = {"epsilon": 1.0, "max_samples": 2_000_000}
    mechanism = noisy(len, 1, seed=1)
    assert audit(mechanism, method=HistogramMethod(tolerated_edges=0), **options).violated
    assert not audit(mechanism, method=HistogramMethod(), **options).violated
    found = audit(noisy(len, 0.7), method=HistogramMethod(), **options)
    assert found.violated
    assert found.notes[-1].endswith("edges failed, of 600 in all")


def test_change_one_compares_the_pairs_of_the_audit():
    report = audit(
        anon_sum(1), epsilon=1.0, neighbors="change-one", data=[[-1.0, 0.5], [1.0]], method="histogram"
    )
    assert report.violated
    assert len(report.witness.dataset) == len(report.witness.neighbour)


def test_the_report_says_that_its_verdict_has_no_exact_level():
    report = audit(noisy(len, 0.5), epsilon=1.0, method=HistogramMethod(datasets=2))
    assert math.isnan(report.alpha)
    assert report.method == "histogram"
    assert "no exact error rate" in " ".join(report.notes)
    assert "(false alarms over the whole audit: no exact rate)" in str(report)
    assert "method=HistogramMethod(datasets=2)" in report.witness.replay
    replayed = report.witness.replay.replace("mechanism,", "noisy(len, 0.5),")
    assert eval(replayed, {"audit": audit, "HistogramMethod": HistogramMethod, "noisy": noisy}).violated
    assert dict(report.settings)["method.buckets"] == "None"
    assert json.loads(report.to_json())["alpha"] == "nan"
    picture = report.witness.histogram
    assert len(picture.boundaries) == len(picture.counts) + 1 == len(picture.neighbour_counts) + 1
    assert report.samples % 5_000 == 0


def test_its_lower_bound_claims_no_confidence():
    """The largest of many approximate bounds, chosen by the draws that it is made of, is above 1 too often."""
    method = HistogramMethod(datasets=30, samples=500)
    reports = [audit(noisy(len, 1, seed), epsilon=1.0, method=method) for seed in range(12)]
    assert sum(r.epsilon_lower > 1 for r in reports) > 1
    for report in reports:
        assert math.isnan(report.confidence)
        assert "by approximate intervals" in str(report) and "0.95 confidence" not in str(report)
        assert "by approximate intervals" in report.to_html() and "nan" not in report.to_html()


def test_progress_is_told_after_each_edge():
    told = []
    report = audit(
        noisy(len, 1),
        epsilon=1.0,
        method=HistogramMethod(datasets=1, samples=100),
        progress=told.append,
        seconds=1e9,
    )
    assert len(told) == len(report.edges) == 12
    assert [p.samples for p in told] == sorted(p.samples for p in told)
    assert told[-1].samples == report.samples == 400


def test_a_mechanism_that_always_raises_has_no_verdict():
    def mechanism(dataset, size):
        raise KeyError("x")

    with pytest.raises(MechanismError, match="raises always: KeyError"):
        audit(mechanism, epsilon=1.0, method=HistogramMethod(datasets=1, samples=20))


@pytest.mark.parametrize(
    "options",
    [
        {"datasets": 0},
        {"size": 0},
        {"samples": 0},
        {"buckets": 0},
        {"confidence": 1.0},
        {"tolerated_buckets": 1.0},
        {"tolerated_edges": -0.1},
    ],
)
def test_bad_options(options):
    with pytest.raises(ParameterError) as caught:
        HistogramMethod(**options)
    assert caught.value.name == next(iter(options))
