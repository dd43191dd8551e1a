"""Ratios, differences, comparisons and shares: what they are, and how often their intervals hold."""

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ParameterError, QueryError
from sfumato.testing import assert_approx_equal, recording

GROUPS = 400
NOISES = ("k_norm", "laplace", "gaussian")
ASKED = {
    "n": sf.count(),
    "s": sf.sum("x", lower=0, upper=10),
    "t": sf.sum("y", lower=0, upper=10),
    "m": sf.mean("x", lower=0, upper=10),
    "r": sf.ratio("s", "n"),
    "d": sf.difference("s", "t"),
    "both": sf.ratio("t", "s"),
    "of_mean": sf.ratio("m", "n"),
}


def table() -> pa.Table:
    size = 50 * GROUPS
    rng = np.random.default_rng(3)
    numbers = {name: rng.uniform(2, 8, size) for name in "xy"}
    return pa.table({"id": np.arange(size), "g": np.arange(size) % GROUPS, **numbers})


TABLE = table()


def question(groups: int = GROUPS) -> sf.Question:
    keys = list(range(groups))
    return sf.scan(TABLE, privacy_unit="id").group_by("g", keys=keys).bound(groups=1, rows=1).agg(**ASKED)


def truth() -> dict[str, np.ndarray]:
    x, y = (TABLE[c].to_numpy().reshape(-1, GROUPS).sum(axis=0) for c in "xy")
    n = np.full(GROUPS, 50.0)
    return {"r": x / n, "d": x - y, "both": y / x, "of_mean": x / n / n}


def missed(release: sf.Release, confidence: float) -> dict[str, int]:
    """How many of the groups' bars do not hold."""
    found, bars = release.to_arrow(), release.errors(confidence=confidence)
    return {
        name: int((np.abs(found[name].to_numpy() - exact) > bars[name].to_numpy() + 1e-5).sum())
        for name, exact in truth().items()
    }


# Each of 400 bars fails with probability 0.2 at most: of a binomial law more than 145 is below 1e-14.
MAX = 145
COUNTED = pytest.mark.flakiness(k=13, because="a binomial tail of 1e-14 for each of four outputs")


@COUNTED
@pytest.mark.parametrize("noise", NOISES)
def test_bars_hold_as_often_as_they_say(noise):
    found = missed(question().release(epsilon=2, delta=1e-6, noise=noise), 0.8)
    assert max(found.values()) <= MAX, found


@pytest.mark.noise_cannot_matter("a number less itself is 0, and over itself 1, whatever its noise is")
def test_what_both_have_in_common_is_no_error():
    asked = question().table.agg(n=sf.count(), zero=sf.difference("n", "n"), one=sf.ratio("n", "n"))
    release = asked.release(epsilon=1)
    found, bars = release.to_arrow(), release.errors()
    assert set(found["zero"].to_pylist()) == {0.0} and set(bars["zero"].to_pylist()) == {0.0}
    sure = np.isfinite(bars["one"].to_numpy())
    assert np.all(found["one"].to_numpy()[sure] == 1) and np.all(bars["one"].to_numpy()[sure] < 1e-9)


def failed(release: sf.Release, output: str, confidence: float) -> list[int]:
    """How many of 200 pairs of groups have an interval without the true difference, and without the ratio."""
    exact = {"n": np.full(GROUPS, 50.0), "m": truth()["r"]}[output]
    found = [0, 0]
    for i in range(0, GROUPS, 2):
        pair = release.compare(output, i, {"g": i + 1}, confidence=confidence)
        apart, times = exact[i] - exact[i + 1], exact[i] / exact[i + 1]
        found[0] += not pair.difference[0] - 1e-6 <= apart <= pair.difference[1] + 1e-6
        found[1] += not pair.ratio[0] - 1e-6 <= times <= pair.ratio[1] + 1e-6
    return found


# Each of 200 fails with probability 0.2 at most: more than 88 is below 1e-14.
@pytest.mark.flakiness(k=13, because="a binomial tail below 1e-14 for each of four counts")
@pytest.mark.long
@pytest.mark.parametrize("noise", ["k_norm", "laplace"])
def test_comparisons_hold_as_often_as_they_say(noise):
    asked = question().table.agg(n=sf.count(), m=ASKED["m"])
    release = asked.release(epsilon=2, delta=1e-6, noise=noise)
    assert max(failed(release, "n", 0.8) + failed(release, "m", 0.8)) <= 88


@pytest.mark.noise_cannot_matter("intervals of the same release are compared")
def test_a_share_is_held_against_the_noise_of_both_groups():
    """Of two groups the share of one is what the other leaves, and so are the ends of its interval."""
    release = question(2).release(epsilon=20, noise="laplace")
    found = release.share_of_total("s", confidence=0.95)
    low, high = (found[name].to_numpy() for name in ("low", "high"))
    assert low + high[::-1] == pytest.approx(1, abs=1e-9) and np.all(high - low > 1e-3)


@pytest.mark.noise_cannot_matter("refusals, and texts")
def test_what_cannot_be_compared_is_refused():
    release = question(3).release(epsilon=1)
    for call, says in [
        (lambda: release.compare("nn", 0, 1), "did you mean 'n'"),
        (lambda: release.compare("n", 0, 9), "no group 9 is shown"),
        (lambda: release.compare("n", (0, 1), 1), "identified by g"),
        (lambda: release.compare("n", {"h": 1}, 1), "identified by g, not by h"),
        (lambda: release.compare("n", 0, np.array([1, 2])), "not an array"),
        (lambda: release.share_of_total("m"), "does not add up"),
    ]:
        with pytest.raises(QueryError, match=says):
            call()
    with pytest.raises(ParameterError, match="confidence"):
        release.compare("n", 0, 1, confidence=1)
    assert (
        "difference" in str(release.compare("n", np.int64(0), 1))
        and not release.compare("n", 1, 1).excludes_zero
    )


# Of 60 intervals each fails with probability 0.2 at most: 42 and more is below 1e-14.
@pytest.mark.long
@pytest.mark.flakiness(k=13, because="a binomial tail below 1e-14 for each")
@pytest.mark.parametrize(("output", "share"), [("s", -14.0), ("n", 5000 / 8990)])
def test_shares_below_0_and_of_what_may_be_missing_hold(output, share):
    """More of the others bring a share below 0 nearer to 0; noisy counts of missing values are clipped to 0, all one way."""
    if output == "s":
        groups = np.repeat([0, 1], [1400, 1500])
        aggregate = sf.sum("x", lower=-1, upper=1)
    else:
        groups = np.repeat(np.arange(GROUPS), [5000] + [10] * (GROUPS - 1))
        aggregate = sf.count("x")
    rows = pa.table({"id": np.arange(groups.size), "g": groups, "x": np.where(groups == 0, -1.0, 1.0)})
    by_group = sf.scan(rows, privacy_unit="id").group_by("g", keys=range(groups[-1] + 1))
    asked = by_group.bound(groups=1, rows=1).agg(asked=aggregate, m=sf.mean("x", lower=-1, upper=1))
    failed = 0
    for _ in range(60):
        found = asked.release(epsilon=20, noise="laplace").share_of_total("asked", confidence=0.8)
        failed += not found["low"][0].as_py() <= share <= found["high"][0].as_py()
    assert failed < 42


@pytest.mark.noise_cannot_matter("where the ratio is NaN the bar is infinite, whatever the noise is")
def test_where_there_is_no_ratio_the_bar_is_infinite():
    """Both numbers are noise of whole steps about 0, and some are 0."""
    nobody = sf.scan(TABLE.slice(0, 0), privacy_unit="id").group_by("g", keys=range(GROUPS))
    asked = nobody.bound(groups=1, rows=1).agg(n=sf.count(), of=sf.ratio("n", "n"))
    release = asked.release(epsilon=2, noise="laplace")
    none = np.isnan(release.to_arrow()["of"].to_numpy(zero_copy_only=False))
    assert np.isinf(release.errors()["of"].to_numpy()[none]).all()


@pytest.mark.flakiness(k=13, because="bars and tolerances at 1e-15 of 18 numbers")
def test_of_totals_that_are_whole_numbers_they_are_of_what_is_shown():
    rows = pa.table({"id": range(90), "a": [i % 3 for i in range(90)], "b": [i % 2 for i in range(90)]})
    keys = [(a, b) for a in range(3) for b in range(2)]
    asked = sf.scan(rows, privacy_unit="id").group_by("a", "b", keys=keys).totals(integer=True)
    question = asked.bound(groups=1, rows=1).agg(
        n=sf.count(), m=sf.sum("b", lower=0, upper=1), d=sf.difference("n", "m"), r=sf.ratio("m", "n")
    )
    with recording() as recorder:
        release = question.release(epsilon="1/4", delta="1e-6")
        truth = recorder[release].truth
    found, bars = release.to_arrow(), release.errors(1 - 1e-15)
    for row, bar, true in zip(found.to_pylist(), bars.to_pylist(), truth.to_pylist(), strict=True):
        assert row["d"] == row["n"] - row["m"]
        assert row["n"] == 0 or row["r"] == row["m"] / row["n"]
        assert abs(row["d"] - true["d"]) <= bar["d"] + 1e-9
        assert np.isinf(bar["r"]) or abs(row["r"] - true["r"]) <= bar["r"] + 1e-9
    assert_approx_equal(release, truth.drop_columns(["r"]), k=15, columns=["n", "m", "d"])
    assert found["d"].to_pylist()[-1] == sum(found["d"].to_pylist()[:6])
