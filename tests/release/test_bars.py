"""What error bars and intervals cover is said wherever they stand, and with the sampling error they hold a population."""

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import QueryError
from sfumato.query.error_bars import NO_BIAS

SAID = NO_BIAS.removeprefix("does ")
NOTHING = pytest.mark.noise_cannot_matter("what is said of the numbers is looked at")


def visits(people=3_000, per=10):
    """People with a row in each of ten towns."""
    rows = np.repeat(np.arange(people), per)
    table = {"id": rows, "town": np.tile(np.arange(per), people), "x": np.tile(np.arange(per) * 7.0, people)}
    return sf.scan(pa.table(table), privacy_unit="id")


def cut(groups=2, **asked):
    """A question whose limits bind: people are in ten towns, and count in two."""
    asked = asked or {"n": sf.count_units(), "x": sf.mean("x", lower=0, upper=10)}
    return visits().group_by("town", keys=list(range(10))).bound(groups=groups, rows=1).agg(**asked)


# Where limits or bounds can bind, and where they cannot.


@pytest.mark.long
@NOTHING
@pytest.mark.parametrize(
    "question, bias",
    [
        (cut(), (True, True)),
        (cut(n=sf.count_units()), (True, False)),
        (cut(groups=10, n=sf.count_units()), (False, False)),
        (cut(groups=10, n=sf.count()), (True, False)),
        (visits().agg(n=sf.count_units()), (False, False)),
        (visits().agg(n=sf.count_distinct("town", values=3)), (True, False)),
        (visits().bound(total_rows=2).agg(n=sf.count()), (True, False)),
        (visits().agg(s=sf.sum("x", lower=0, upper=10)), (False, True)),
        (visits().group_by("town").bound(groups=10).agg(n=sf.count_units()), (True, False)),
        (visits().with_columns(yes="x > 3").bound(rows=1).agg(p=sf.proportion("yes")), (True, False)),
    ],
)
def test_what_can_bind_is_known_without_rows(question, bias):
    found = question.query.bias
    assert (found.limits, found.bounds) == bias
    said = str(question.plan(epsilon=1, delta="1e-6" if question.query.private_groups else 0).explain())
    assert (SAID in said) == any(bias)
    # What is offered works.
    if "diagnostics=0.05" in found.describe():
        question.plan(epsilon=1, delta="1e-6" if question.query.private_groups else 0, diagnostics=0.05)
    elif any(bias):
        with pytest.raises(QueryError, match="no limits and no bounds"):
            question.plan(epsilon=1, diagnostics=0.05)


@NOTHING
def test_simultaneous_bars_share_the_failure():
    release = cut(n=sf.count_units()).release(epsilon=1)  # ten numbers
    assert release.errors(0.9, simultaneous=True) == release.errors(0.99)


# With the sampling error.


def halves(seed, people=20_000):
    """Two random halves of people of one law: no effect."""
    rng = np.random.default_rng(seed)
    table = {"id": np.arange(people), "arm": rng.integers(0, 2, people), "x": rng.lognormal(1, 1, people)}
    question = (
        sf.scan(pa.table(table), privacy_unit="id").group_by("arm", keys=[0, 1]).bound(groups=1, rows=1)
    )
    return question.agg(n=sf.count(), x=sf.mean("x", lower=0, upper=30)).release(epsilon=1)


@pytest.mark.long
@pytest.mark.flakiness(k=13, because="a binomial tail of 1e-14 for each of 400 shares of two outputs")
@pytest.mark.parametrize("groups", [1, 3])
def test_shares_hold_those_of_the_population(groups):
    rng = np.random.default_rng(7)
    chances = np.array([0.5, 0.3, 0.15, 0.05])
    missed = {"n": 0, "s": 0}
    for _ in range(100):
        size = rng.poisson(400)
        first = rng.choice(4, size, p=chances)
        town = np.concatenate([(first + i) % 4 for i in range(groups)])
        table = {"id": np.tile(np.arange(size), groups), "town": town, "x": rng.exponential(3, size * groups)}
        question = sf.scan(pa.table(table), privacy_unit="id").group_by("town", keys=[0, 1, 2, 3])
        question = question.bound(groups=groups, rows=1)
        release = question.agg(n=sf.count(), s=sf.sum("x", lower=0, upper=10)).release(epsilon=4)
        truth = sum(np.roll(chances, i) for i in range(groups)) / groups
        for name in missed:
            found = release.share_of_total(name, 0.8, sampling=True)
            low, high = found["low"].to_numpy(), found["high"].to_numpy()
            missed[name] += int(((low > truth) | (high < truth)).sum())
            alone = release.share_of_total(name, 0.8)
            assert np.all(low <= alone["low"].to_numpy() + 1e-9) and np.all(
                high >= alone["high"].to_numpy() - 1e-9
            )
    # Of 400 that fail with probability 0.2 at most, more than 145 do with a probability below 1e-14.
    assert max(missed.values()) <= 145


@pytest.mark.long
@pytest.mark.noise_cannot_matter("bars are compared with bars of the same release")
def test_frames_files_pictures_and_sql_take_the_sampling_error(tmp_path):
    release = halves(1)
    wide = release.errors(sampling=True)
    frame = release.frame(errors=True, sampling=True)
    assert frame["n_error"].tolist() == wide["n"].to_pylist()
    assert "the sampling error" in frame.attrs["sfumato"]["error_bars"]
    release.write(tmp_path / "arms.csv", errors=True, sampling=True)
    assert release.receipt(errors=True, sampling=True).verify(tmp_path / "arms.csv").ok
    assert not release.receipt(errors=True).verify(tmp_path / "arms.csv").ok
    text = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, sampling = true, privacy_unit_column = id, "
        "max_rows_per_group = 1) COUNT(*) AS n{} FROM t"
    )
    one = pa.table({"id": np.arange(1_000)})
    plain = sf.sql(text.format(""), tables={"t": one})
    plain.to_arrow()
    assert plain.bars.sampling and "the sampling error" in str(plain)
    assert plain.errors().equals(plain.errors(sampling=True)) and not plain.errors().equals(
        plain.errors(sampling=False)
    )
    ends = sf.sql(text.format(", DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high"), tables={"t": one})
    (row,) = ends.to_arrow().to_pylist()
    (width,) = ends.released.errors(sampling=True)["n"].to_pylist()
    assert row["high"] - row["low"] == pytest.approx(2 * width)
    # A question asked with it shows it on its card.
    asked = sf.scan(one, privacy_unit="id").bound(rows=1).agg(n=sf.count())
    shown = asked.release(epsilon=1, sampling=True)
    shown.to_arrow()
    assert "the noise and the sampling error" in str(shown) and "± 78" in str(shown)


@pytest.mark.noise_cannot_matter("it is refused before anything is drawn")
def test_what_has_no_interval_with_the_sampling_error_is_refused():
    question = visits().bound(rows=2).agg(n=sf.count())
    with pytest.raises(QueryError, match="rows=2"):
        question.release(epsilon=1, sampling=True)
    grouped = cut(n=sf.count_units(), v=sf.variance("x", lower=0, upper=9), s=sf.sum("x", lower=-1, upper=9))
    release = grouped.release(epsilon=1)
    with pytest.raises(QueryError, match="v has no interval"):
        release.compare("v", 0, 1, sampling=True)
    with pytest.raises(QueryError, match="one sign"):
        release.share_of_total("s", sampling=True)


@pytest.mark.noise_cannot_matter("bars of counts follow from the laws alone")
@pytest.mark.parametrize("noise", ["laplace", "gaussian", "k_norm"])
def test_simultaneous_bars_exist_at_any_confidence(noise):
    """What each of many bars may fail with is told apart from 0, where its confidence is no longer from 1."""
    budget = {"epsilon": 2, "noise": noise, "delta": "1/1000000" if noise == "gaussian" else 0}
    asked = visits(50, 12).group_by("town", keys=list(range(12))).bound(groups=12, rows=1).agg(n=sf.count())
    release = asked.release(**budget)
    for confidence in (0.9, 1 - 2.0**-53):
        one, every = (release.errors(confidence, simultaneous=s)["n"].to_pylist() for s in (False, True))
        assert len({*one}) == len({*every}) == 1 and one[0] < every[0]
