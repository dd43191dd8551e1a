"""Covariances, correlations and regressions: what is measured for them, and what their error bars hold."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.transformations import CrossMoments, Moments

BOUNDS = {"x": (0, 30), "y": (0, 10), "z": (0, 5)}
NOISES = [("laplace", 0), ("gaussian", Fraction(1, 10**6)), ("k_norm", 0)]
SURE = "noise of scale 1e-5 or less against differences of a thousandth"


WIDE = {"x": (0, 60), "y": (0, 20), "z": (0, 5)}


def bounds(columns, of=BOUNDS):
    return {c: of[c] for c in columns}


def table(copies=1, missing=False, n=400, collinear=False):
    """Rows of `copies` groups, all the same, one row each unit."""
    made = np.random.default_rng(3)
    x, z = made.integers(0, 31, n), made.integers(0, 6, n)
    if collinear:
        z = x // 6
    y = np.clip(np.rint(0.2 * x + 0.5 * z + made.normal(0, 1, n)), 0, 10).astype(int)
    columns = {"id": np.arange(copies * n), "g": np.repeat(np.arange(copies), n)}
    columns |= {name: np.tile(values, copies) for name, values in (("x", x), ("y", y), ("z", z))}
    schema = pa.schema([pa.field(c, pa.int64(), nullable=missing) for c in columns])
    return pa.table(list(columns.values()), schema=schema), (x, y, z)


def asked(of=BOUNDS):
    return {
        "c": sf.covariance("x", "y", bounds=bounds("xy", of)),
        "r": sf.correlation("x", "y", bounds=bounds("xy", of)),
        "f": sf.linear_regression("y", ["x", "z"], bounds=of),
    }


def exact(x, y, z):
    fit = np.linalg.lstsq(np.c_[np.ones(len(x)), x, z], y, rcond=None)[0]
    names = ("c", "r", "f_intercept", "f_x", "f_z")
    return dict(zip(names, (np.cov(x, y, bias=True)[0, 1], np.corrcoef(x, y)[0, 1], *fit), strict=True))


def whole(data, rows=1, **outputs):
    return sf.scan(data, privacy_unit="id").bound(rows=rows).agg(**outputs)


@pytest.mark.flakiness(k=100, because=SURE)
@pytest.mark.parametrize(("noise", "delta", "missing"), [(*one, i > 0) for i, one in enumerate(NOISES)])
def test_without_noise_they_are_what_they_are_called(noise, delta, missing):
    data, columns = table(missing=missing)
    found = whole(data, **asked()).release(epsilon=10**6, delta=delta, noise=noise).to_arrow().to_pylist()[0]
    for name, value in exact(*columns).items():
        assert abs(found[name] - value) < 2e-2 * max(1, abs(value)), name


@pytest.mark.flakiness(k=100, because=SURE)
def test_rows_that_lack_a_value_do_not_count():
    rows = [(1, 2, 3), (2, None, 9), (3, 7, None), (4, 12, 5), (5, 20, 1), (6, None, None)]
    data = pa.table([list(c) for c in zip(*rows, strict=True)], names=["id", "x", "y"])
    found = whole(data, c=asked()["c"]).release(epsilon=10**6).to_arrow()["c"][0].as_py()
    assert abs(found - np.cov([2, 12, 20], [3, 5, 1], bias=True)[0, 1]) < 1e-2


@pytest.mark.parametrize("missing", [False, True])
def test_nothing_is_measured_twice(missing):
    data, _ = table(missing=missing)
    of_x = {"lower": 0, "upper": 30}
    regression = {"f": asked()["f"]} if missing else asked()
    plan = whole(data, n=sf.count(), **regression).plan(epsilon=1, noise="laplace")
    (cross,) = [s for s in plan.statistics if isinstance(s, CrossMoments)]
    # Three sums and five products; then complete rows, or the squares of y, which a correlation asks for.
    assert len(cross.names) == 9 and not any(isinstance(s, Moments) for s in plan.statistics)
    beside = asked() | {
        "m": sf.mean("x", **of_x),
        "v": sf.variance("x", **of_x),
        "s": sf.stddev("y", lower=0, upper=10),
    }
    if not missing:
        more = whole(data, n=sf.count(), **beside).plan(epsilon=1, noise="laplace")
        assert len(more.requirements.coordinates) == len(plan.requirements.coordinates)
        assert more.measurement.map(1).epsilon(0) == 1


def covered(release, columns, confidence):
    """How often each bar holds the exact number."""
    found, bars = release.to_arrow().to_pydict(), release.errors(confidence).to_pydict()
    truth = exact(*columns) | {"v": columns[0].var(), "d": columns[0].std()}
    return {name: np.mean(np.abs(np.array(found[name]) - truth[name]) <= bars[name]) for name in truth}


@pytest.mark.flakiness(k=10, because="14 shares leave their limits by 8 deviations, each below 1e-12")
@pytest.mark.parametrize(
    "noise",
    ["gaussian", *(pytest.param(name, marks=pytest.mark.long) for name in ("laplace", "k_norm"))],
)
def test_bars_hold_as_often_as_they_say(noise, groups=1_000):
    data, columns = table(copies=groups, n=300)
    grouped = sf.scan(data, privacy_unit="id").group_by("g", keys=range(groups)).bound(groups=1, rows=1)
    # Bounds whose middles are far from the means.
    spread = {"v": sf.variance("x", lower=0, upper=60), "d": sf.stddev("x", lower=0, upper=60)}
    release = grouped.agg(**asked(WIDE), **spread).release(epsilon=20, delta=dict(NOISES)[noise], noise=noise)
    for confidence, least, most in ((0.8, 0.785, 0.915), (0.95, 0.945, 0.99)):
        low, high = (p + sign * 8 * np.sqrt(p * (1 - p) / groups) for sign, p in ((-1, least), (1, most)))
        found = covered(release, columns, confidence)
        assert all(low < share < high for share in found.values()), found


@pytest.mark.long
@pytest.mark.flakiness(k=26, because="each of 20 releases shows a coefficient with probability 0.05 or less")
def test_a_singular_design_says_so():
    data = pa.table({"id": range(1000), "x": [5.0] * 1000, "y": [float(i % 7) for i in range(1000)]})
    of = bounds("xy")
    asked = whole(data, f=sf.linear_regression("y", ["x"], bounds=of), r=sf.correlation("x", "y", bounds=of))
    # A number is shown only where noise is beyond a tolerance of 95%.
    releases = [asked.release(epsilon=1) for _ in range(20)]
    nan = [np.isnan(release.to_arrow()["f_x"][0].as_py()) for release in releases]
    assert any(nan)
    release = releases[nan.index(True)]
    assert np.isnan(release.to_arrow()["f_intercept"][0].as_py())
    bars = release.errors(confidence=0.5).to_pylist()[0]
    assert bars["f_x"] == bars["f_intercept"] == float("inf")
    assert "nearly singular design" in str(release.explain())


@pytest.mark.long
@pytest.mark.flakiness(k=100, because="whatever the noise is, outputs are clamped")
def test_outputs_stay_in_their_ranges_whatever_the_noise_is():
    data, _ = table(n=3)
    for noise, delta in NOISES:
        release = whole(data, **asked()).release(epsilon=Fraction(1, 1000), delta=delta, noise=noise)
        found, bars = release.to_arrow().to_pylist()[0], release.errors(confidence=0.95).to_pylist()[0]
        assert abs(found["c"]) <= 75 and abs(found["r"]) <= 1 and bars["r"] <= 2 and bars["c"] <= 150
        assert not any(np.isnan(bar) for bar in bars.values())
