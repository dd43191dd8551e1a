"""Assertions on ratios, differences, weighted means and lists; what has no law is refused."""

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ParameterError, RefusalError
from sfumato.testing import assert_approx_equal, assert_noisy, noise_free, recording

SIZE = 3000
X = [float(i * 37 % 101) for i in range(SIZE)]
Y = [float(i * 53 % 11) for i in range(SIZE)]
WEIGHTS = [(1 + i % 39) / 128 for i in range(SIZE)]  # all of them together are not 1 in a small group
TABLE = pa.table({"id": range(SIZE), "x": X, "y": Y, "w": WEIGHTS})
PEOPLE = sf.scan(TABLE, privacy_unit="id").bound(rows=1)
NOISES = ["laplace", "gaussian", "k_norm"]


def ratios(noise: str) -> sf.Release:
    asked = PEOPLE.agg(
        n=sf.count(),
        s=sf.sum("x", lower=0, upper=100, per="row"),
        each=sf.ratio("s", "n"),
        less=sf.difference("s", "n"),
        nothing=sf.difference("n", "n"),
    )
    return asked.release(epsilon=1, delta=1e-6, noise=noise)


TRUTH = {"n": SIZE, "s": sum(X), "each": sum(X) / SIZE, "less": sum(X) - SIZE, "nothing": 0}


@pytest.mark.parametrize("noise", NOISES)
def test_ratios_and_differences_are_near_their_truth_and_one_that_is_off_is_named(noise):
    release = ratios(noise)
    assert_approx_equal(release, TRUTH, k=15)
    with pytest.raises(RefusalError, match="^2 values cannot show"):  # those of n and s; the others follow
        assert_noisy(release, TRUTH, k=15)
    for output, off in (("each", 3), ("less", 5e4), ("nothing", 1), ("each", -3)):
        with pytest.raises(AssertionError, match=rf"1 of 5 values is off(.|\n)* {output}"):
            assert_approx_equal(release, {**TRUTH, output: TRUTH[output] + off}, k=15)


def test_the_tolerance_of_a_ratio_is_that_of_its_noise():
    # The count is known to some tens, the sum to some thousands: a ratio off by its own tenth is seen.
    with noise_free():
        release = ratios("laplace")
    with pytest.raises(AssertionError, match="each"):
        assert_approx_equal(release, {"each": 1.1 * TRUTH["each"]}, k=15, columns=["each"])
    assert_approx_equal(release, {"each": 1.001 * TRUTH["each"]}, k=15, columns="each")


def weighted(noise: str, size: int, epsilon: float = 1) -> sf.Release:
    people = sf.scan(TABLE.slice(0, size), privacy_unit="id").bound(rows=1)
    weights = {"weight": "w", "max_weight": 0.5}
    asked = people.agg(
        people=sf.count(**weights),
        total=sf.sum("x", lower=0, upper=100, **weights),
        mean=sf.mean("x", lower=0, upper=100, **weights),
    )
    return asked.release(epsilon=epsilon, delta=1e-6, noise=noise)


def weighted_truth(size: int) -> dict[str, float]:
    total = sum(w * x for w, x in zip(WEIGHTS[:size], X[:size], strict=True))
    return {"people": sum(WEIGHTS[:size]), "total": total, "mean": total / sum(WEIGHTS[:size])}


@pytest.mark.parametrize("noise", NOISES)
def test_weighted_outputs_are_near_their_truth_and_a_mean_that_is_off_is_named(noise):
    assert_approx_equal(weighted(noise, 4), weighted_truth(4), k=15)
    release, truth = weighted(noise, SIZE), weighted_truth(SIZE)
    assert_approx_equal(release, truth, k=15)
    with pytest.raises(AssertionError, match=r"1 of 3 values is off(.|\n)* mean"):
        assert_approx_equal(release, {**truth, "mean": truth["mean"] + 20}, k=15)


def test_few_rows_of_small_weights_are_judged_by_what_the_mean_is_divided_by():
    # Twelve rows weigh less than 1 together, and hardly any noise is added: a tolerance in which their sum is
    # divided by 1 is so wide that a wrong mean passes.
    release, truth = weighted("laplace", 12, epsilon=10_000), weighted_truth(12)
    assert truth["people"] < 0.7
    assert_approx_equal(release, truth, k=15)
    # The tolerance is 0.44: noise would have to go beyond it on this side to hide so much.
    with pytest.raises(AssertionError, match="mean"):
        assert_approx_equal(release, {**truth, "mean": truth["mean"] + 1}, k=15)


BOUNDS = {"x": (0, 100), "y": (0, 10)}


@pytest.mark.flakiness(k=15, because="a release is compared with what it shows itself")
@pytest.mark.parametrize(
    ("aggregates", "output"),
    [
        ({"c": sf.covariance("x", "y", bounds=BOUNDS)}, "c"),
        ({"n": sf.count(), "m": sf.mean("x", lower=0, upper=100), "q": sf.ratio("m", "n")}, "q"),
    ],
)
def test_what_has_no_law_is_refused_and_a_tolerance_of_ones_own_does(aggregates, output):
    release = PEOPLE.agg(**aggregates).release(epsilon=1)
    shown = release.to_arrow()[output][0].as_py()
    with pytest.raises(RefusalError, match=f"{output} is a .*, for which no tolerance is derived"):
        assert_approx_equal(release, {output: shown}, columns=[output])
    assert_approx_equal(release, {output: shown}, tolerance={output: 1.0}, columns=[output])


# Lists.


VECTORS = TABLE.slice(0, 60).append_column("g", pa.array(["a", "b", "c"] * 20))
VECTORS = VECTORS.append_column("v", pa.array([[0.6, 0.8, float(i % 2)] for i in range(60)]))


def vectors(**options):
    grouped = sf.scan(VECTORS, privacy_unit="id").group_by("g", keys=["a", "b", "z"]).bound(groups=1)
    asked = grouped.agg(s=sf.vector_sum("v", length=3, bound=2), n=sf.count_units())
    return asked.release(epsilon=1, **options)


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_each_entry_is_judged_by_its_own_noise_and_one_that_is_off_is_named(delta):
    with recording() as recorder:
        release = vectors(delta=delta)
        truth = recorder[release].truth
    assert_approx_equal(release, truth, k=15)
    with pytest.raises(RefusalError, match="^12 values cannot show"):  # a count is 0 steps off too often
        assert_noisy(release, truth, k=15)
    assert_noisy(release, truth, k=15, columns=["s"])
    wrong = truth.to_pylist()
    wrong[1]["s"][2] += 1000
    with pytest.raises(AssertionError, match=r"1 of 12 values is off(.|\n)*b.* s\[2\]"):
        assert_approx_equal(release, wrong, k=15)
    with noise_free():
        still = vectors(delta=delta)
        with pytest.raises(AssertionError, match="noise is missing"):
            assert_noisy(still, truth.select(["g", "s"]), k=15, columns=["s"])
    for given in ([36, 48], 36, "abc"):
        with pytest.raises(ParameterError, match="a list of 3 numbers"):
            assert_approx_equal(release, {"a": {"s": given}}, k=15, columns=["s"])
