"""Standard errors of outputs: the deviation of the noise that each has."""

import math

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ParameterError, QueryError

EXACT = pytest.mark.noise_cannot_matter("an error is computed once more from the same noisy numbers")
NOISES = ("laplace", "gaussian", "k_norm")
GROUPS, SIZE = 6_000, 100
RNG = np.random.default_rng(5)
X, Y = RNG.uniform(1, 9, SIZE), RNG.uniform(2, 8, SIZE)
ASKED = {
    "n": sf.count(),
    "s": sf.sum("x", lower=0, upper=10),
    "m": sf.mean("x", lower=0, upper=10),
    "v": sf.variance("x", lower=0, upper=10),
    "sd": sf.stddev("x", lower=0, upper=10),
    "t": sf.sum("y", lower=0, upper=10),
    "d": sf.difference("s", "t"),
    "r": sf.ratio("t", "s"),
}
EXACTLY = {"s": X.sum(), "m": X.mean(), "v": X.var(), "sd": X.std(), "t": Y.sum()}
EXACTLY |= {"d": X.sum() - Y.sum(), "r": Y.sum() / X.sum()}


def question(groups: int, **asked: object) -> sf.Question:
    """The same rows in each group."""
    kinds = {"id": pa.int64(), "g": pa.int64(), "x": pa.float64(), "y": pa.float64()}
    columns = (
        np.arange(groups * SIZE),
        np.repeat(np.arange(groups), SIZE),
        np.tile(X, groups),
        np.tile(Y, groups),
    )
    table = pa.table(list(columns), pa.schema([pa.field(*one, nullable=False) for one in kinds.items()]))
    people = sf.scan(table, privacy_unit="id").group_by("g", keys=list(range(groups))).bound(groups=1, rows=1)
    return people.agg(**(asked or ASKED))


def standard(release: sf.NoisyTable, name: str) -> np.ndarray:
    return release.errors(kind="standard")[name].to_numpy(zero_copy_only=False).astype(float)


@EXACT
@pytest.mark.parametrize("epsilon", ["1/3", 2, 8])
def test_that_of_a_count_is_of_the_rounded_law(epsilon):
    for noise in ("laplace", "gaussian"):
        release = question(2, n=sf.count()).release(epsilon=epsilon, delta=1e-6, noise=noise)
        law, step = release.plan.measurement.laws["units"], float(release.plan.measurement.steps["units"])
        m = np.arange(1, 150)
        squares = 2 * m**2 @ (law.sf((m - 0.5) / step) - law.sf((m + 0.5) / step))
        assert standard(release, "n") == pytest.approx(np.full(2, math.sqrt(squares)), rel=1e-5)


@EXACT
@pytest.mark.filterwarnings("error")
def test_where_a_count_has_no_noise_as_good_as_always_a_mean_has_that_of_its_sum():
    release = question(1).release(epsilon=10**6, noise="laplace")
    measured = release.plan.measurement
    assert measured.laws["units"].standard_deviation == 0
    total = next(e.total for e in measured.requirements.estimates if e.name == "m")
    sigma = measured.laws[total].standard_deviation * float(measured.steps[total])
    assert standard(release, "m") == pytest.approx([sigma / SIZE], rel=1e-3)


@EXACT
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_those_of_sums_and_means_are_of_their_noises(noise):
    release = question(3).release(epsilon=1, delta=1e-6, noise=noise)
    measured, (batch,) = release.plan.measurement, release._kept()
    sigma = {n: float(law.standard_deviation * measured.steps[n]) for n, law in measured.laws.items()}
    by_name = {e.name: e for e in measured.requirements.estimates}
    s, m, v = by_name["s"], by_name["m"], by_name["v"]
    values, rows = batch.numbers.values, m.counted(batch.numbers)
    counts = math.hypot(sigma[m.count], sigma[m.null_count])
    assert standard(release, "s") == pytest.approx(
        math.hypot(sigma[s.total], 5 * counts) + 0 * rows, rel=1e-9
    )
    # A count of missing values below 0 is taken as 0, and its noise changes nothing.
    counts = np.hypot(sigma[m.count], np.where(values[m.null_count] > 0, sigma[m.null_count], 0.0))
    mean = values[m.total] / rows
    assert standard(release, "m") == pytest.approx(np.hypot(sigma[m.total], mean * counts) / rows, rel=1e-4)
    slopes = 1.0, -2 * mean, 2 * mean**2 - values[v.squares] / rows
    own = [w * e for w, e in zip(slopes, (sigma[v.squares], sigma[v.total], counts), strict=True)]
    assert standard(release, "v") == pytest.approx(np.sqrt(sum(w**2 for w in own)) / rows, rel=1e-4)
    # The count that both sums have in common is no error of their difference.
    assert standard(release, "d") == pytest.approx(
        math.hypot(*(sigma[by_name[one].total] for one in "st"), 5 * sigma[s.null_count]) + 0 * rows, rel=1e-9
    )


# Within a standard error lie .683 of Gaussian errors and .757 of Laplace errors, and of sums of these between.
# Of 6,000, less than .64 or more than .80 have a probability below 1e-12, for each of 7 outputs; whole counts are in the tests above.
@pytest.mark.long
@pytest.mark.flakiness(k=10, because="binomial tails of 1e-12 for each of 7 outputs")
@pytest.mark.parametrize("noise", NOISES)
def test_they_are_the_deviations_of_released_numbers(noise):
    release = question(GROUPS).release(epsilon=4, delta=1e-6, noise=noise)
    table = release.to_arrow()
    for name, exact in EXACTLY.items():
        off = np.abs(table[name].to_numpy() - exact) / standard(release, name)
        assert 0.64 < (off <= 1).mean() < 0.80, name


@EXACT
def test_what_noise_leaves_open_has_none():
    keys = {"keys": ["many", "none"]}
    table = pa.table({"id": range(900), "g": ["many"] * 900, "x": [4.0] * 900})
    people = sf.scan(table, privacy_unit="id").group_by("g", **keys).bound(groups=1, rows=1)
    asked = {"n": sf.count(), "m": sf.mean("x", lower=0, upper=10), "r": sf.ratio("n", "n")}
    release = people.agg(**asked, q=sf.median("x", lower=0, upper=10)).release(epsilon=1)
    found = release.errors(kind="standard").to_pylist()
    assert [one["m"] is None for one in found] == [one["r"] is None for one in found] == [False, True]
    assert all(one["q"] is None and one["n"] > 0 for one in found)
    assert found[0]["r"] == pytest.approx(0, abs=1e-9)  # of a number over itself
    assert release.frame(errors="standard").columns.tolist() == [
        "g", "n", "n_standard_error", "m", "m_standard_error", "r", "r_standard_error", "q"
    ]  # fmt: skip


@EXACT
def test_totals_and_time_steps_have_their_own():
    table = pa.table({"id": range(900), "g": ["a", "b", "b"] * 300, "day": [1, 2, 3] * 300})
    people = sf.scan(table, privacy_unit="id")
    totals = people.group_by("g", keys=["a", "b"]).bound(groups=1).totals()
    release = totals.agg(n=sf.count_units()).release(epsilon=1, delta=1e-6)
    (batch,) = release._kept()
    assert standard(release, "n") == pytest.approx(batch.numbers.noises.deviation({"units": np.ones(1)}))
    days = people.group_by("day", keys=[1, 2, 3]).bound(groups=1)
    release = days.agg(n=sf.cumulative(sf.count_units())).release(epsilon=1)
    (batch,) = release._kept()
    law, scale = batch.numbers.cumulated, float(release.plan.measurement.noise.scales[0])
    scale *= float(release.plan.measurement.steps["units"])
    assert standard(release, "n") == pytest.approx(scale * law.deviations, rel=1e-9)


@EXACT
def test_those_of_the_largest_groups_and_after_sql():
    people = sf.scan(pa.table({"id": range(900), "g": ["a", "b", "b"] * 300}), privacy_unit="id")
    release = people.top("g", k=2, keys=["a", "b"]).release(epsilon=1)
    law = release.plan.laws["units"]
    assert standard(release, "units") == pytest.approx(math.sqrt(law.variance), rel=1e-4)
    assert release.frame(errors="standard").columns.tolist() == ["rank", "g", "units", "units_standard_error"]


@EXACT
@pytest.mark.parametrize("epsilon", ["1/100", 1, 8])
def test_those_of_whole_noise_are_not_rounded_once_more(epsilon):
    people = sf.scan(pa.table({"id": range(9), "x": [1, 2, 3] * 3}), privacy_unit="id").bound(rows=1)
    asked = people.agg(n=sf.count(), k=sf.sum("x", lower=0, upper=3), d=sf.difference("k", "n"))
    release = asked.release(epsilon=epsilon, noise="laplace")
    each = [law.standard_deviation for law in release.plan.laws.values()]
    for name, deviation in {"n": each[0], "k": math.hypot(*each), "d": each[1]}.items():
        assert standard(release, name) == pytest.approx(deviation, rel=1e-9)


@EXACT
def test_files_have_them_and_receipts_cover_them(tmp_path):
    release = question(2, n=sf.count(), q=sf.median("x", lower=0, upper=10)).release(epsilon=1)
    receipt = release.receipt(errors="standard")
    for ending in ("parquet", "csv", "json"):
        release.write(tmp_path / f"release.{ending}", errors="standard")
        assert receipt.verify(tmp_path / f"release.{ending}").ok
    streamed = question(2, n=sf.count()).release(epsilon=1)
    streamed.write(tmp_path / "streamed.parquet", errors="standard")
    assert streamed.to_arrow().column_names == ["g", "n", "n_standard_error"]


@EXACT
def test_what_has_none_is_refused():
    quantile = question(2, q=sf.median("x", lower=0, upper=10)).release(epsilon=1)
    with pytest.raises(QueryError, match="q has no standard error; counts"):
        quantile.errors(kind="standard")
    with pytest.raises(QueryError, match="q has no standard error"):
        quantile.frame(errors="standard")
    release = question(2, n=sf.count()).release(epsilon=1)
    for option in ({"sampling": True}, {"simultaneous": True}):
        with pytest.raises(QueryError, match="Leave out simultaneous and sampling"):
            release.errors(kind="standard", **option)
    with pytest.raises(ParameterError, match="'half_width', 'standard'"):
        release.errors(kind="se")
    assert not release.drawn
