"""Assertions of noisy results: what must pass passes, and as often as stated; what must fail fails."""

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats
from scipy.optimize import bisect

import sfumato as sf
from sfumato.errors import ParameterError, RefusalError
from sfumato.noise import Gaussian, Laplace, SeededWords
from sfumato.testing import assert_approx_equal, assert_noisy, recording
from sfumato.testing.assertions.released_values import ReleasedCells
from sfumato.testing.flakiness import Account, running
from sfumato.testing.tolerances.noise_tolerances import log10_gamma_deviation, log10_many
from tests.support.changed_plans import scaled, without_certificate

K = 23
pytestmark = pytest.mark.noise_cannot_matter("all noise is written here, or drawn from seeded words")
LAWS = {"laplace": Laplace, "gaussian": Gaussian}
LONG = pytest.mark.long


def text_of(call, *args, **options) -> str:
    with pytest.raises(AssertionError) as caught:
        call(*args, **options)
    return str(caught.value)


# What may be compared.

SAME = {
    "numbers": (3.0, 5),
    "numpy numbers": (np.float64(3), np.int64(4)),
    "fractions": (Fraction(7, 2), 4),
    "lists": ([1, 2, 3], [2, 3, 4.5]),
    "arrays": (np.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3) + 1.5),
    "mappings": ({"a": 1, ("b", 2): 2}, {"a": 2, ("b", 2): 3}),
    "nested mappings": ({"a": {"n": 1, "m": 9}}, {"a": {"n": 2, "m": 8}}),
    "a series": (pd.Series([1, 2]), [2, 3]),
}


@pytest.mark.parametrize("name", SAME)
def test_shapes_that_match(name):
    actual, expected = SAME[name]
    assert_approx_equal(actual, expected, tolerance=2)
    assert_noisy(actual, expected, tolerance=0.5)
    text_of(assert_approx_equal, actual, expected, tolerance=0.25)
    text_of(assert_noisy, actual, expected, tolerance=3)


ROWS = {"year": [1991, 1992], "sex": ["f", None], "n": [100, 200], "mean": [1.5, 2.5]}
TABLES = {
    "arrow": pa.table(ROWS),
    "pandas": pd.DataFrame(ROWS),
    "pandas with keys as index": pd.DataFrame(ROWS).set_index(["year", "sex"]),
    "polars": pl.DataFrame(ROWS),
    "lazy polars": pl.LazyFrame(ROWS),
    "rows": [dict(zip(ROWS, row, strict=True)) for row in zip(*ROWS.values(), strict=True)],
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_all_kinds_by_group_key(name):
    turned = pa.table({k: v[::-1] for k, v in ROWS.items()})
    for one, other in ((TABLES[name], turned), (turned, TABLES[name])):
        assert_approx_equal(one, other, tolerance=0, keys=["year", "sex"])
        text = text_of(assert_noisy, one, other, tolerance=1e-9, keys=["year", "sex"])
        assert "4 of 4" in text and "(1992, None) mean" in text


def test_tolerances_by_group_by_output_and_by_k():
    actual = {"a": {"n": 10, "m": 1.0}, "b": {"n": 20, "m": 2.0}}
    expected = {"a": {"n": 12, "m": 1.1}, "b": {"n": 22, "m": 2.1}}
    assert_approx_equal(actual, expected, tolerance={"n": 2, "m": 0.2})
    assert_approx_equal(actual, expected, tolerance={"a": {"n": 2, "m": 0.2}, "b": {"n": 2, "m": 0.2}})
    assert "'b' n" in text_of(
        assert_approx_equal, actual, expected, tolerance={"a": 5, "b": {"n": 1, "m": 1}}
    )
    assert_approx_equal([1, 2], [3, 3], tolerance=[2, 1])
    asked = []
    assert_approx_equal([1.0] * 10, [1.5] * 10, tolerance=lambda k: asked.append(k) or 1, k=K)
    assert all(abs(k - (K + 1)) < 1e-9 for k in asked) and len(asked) == 10
    with pytest.raises(ParameterError, match="tolerance.*'b'"):
        assert_approx_equal({"a": 1, "b": 1}, {"a": 1, "b": 1}, tolerance={"a": 1})


MISMATCHES = [
    ([1, 2, 3], [1, 2], "expected a array of shape"),
    (np.zeros((2, 3)), np.zeros((3, 2)), "shape"),
    (1.0, [1.0], "actual is a number"),
    ([1.0], {"a": 1.0}, "expected a mapping"),
    ({"a": {"n": 1}}, {"a": {"m": 1}}, "expected has m, which actual lacks"),
    ({"a": {"n": 1}, "b": {"m": 1}}, {"a": {"n": 1}, "b": {"n": 1}}, "actual has no n for 'b'"),
    ([{"g": 1, "n": 2}, {"g": 1, "n": 2}], {1: {"n": 2}}, "actual has groups twice: 1"),
    ({"a": math.nan}, {"a": 1.0}, "'a': nan, which no tolerance admits"),
    ({"a": None}, {"a": 1.0}, "'a': missing, which no tolerance admits"),
    ({"a": 1}, {}, "extra"),
]


@pytest.mark.parametrize("actual, expected, said", MISMATCHES)
def test_what_does_not_match_fails(actual, expected, said):
    for call in (assert_approx_equal, assert_noisy):
        text = text_of(call, actual, expected, tolerance=1, keys=["g"])
        assert said.replace("expected", "raw" if call is assert_noisy else "expected") in text


# What a message says.


BAD = [dict(tolerance=1, law=Laplace(1)), dict(), dict(tolerance=-1), dict(tolerance="wide"), dict(law="laplace", k=1),
       dict(law=Laplace(1)), dict(law=Laplace(1), k=math.nan), dict(tolerance=1, k=0)]  # fmt: skip


def test_bad_input_is_named():
    for call in (assert_approx_equal, assert_noisy):
        for options in BAD:
            with pytest.raises(ParameterError, match="^(k|tolerance|law) is"):
                call([1.0], [2.0], **options)
    for expected in (math.nan, None):
        with pytest.raises(ParameterError, match="expected of 'a' value is"):
            assert_approx_equal({"a": 1}, {"a": expected}, tolerance=1)
    for keys in (None, ["month"]):
        with pytest.raises(ParameterError, match="keys is"):
            assert_approx_equal(TABLES["arrow"], TABLES["arrow"], tolerance=1, keys=keys)


@pytest.mark.parametrize("call", [assert_approx_equal, assert_noisy])
def test_a_column_that_is_not_expected_is_not_passed_over(call):
    actual, some = {"a": {"n": 1, "m": 500}}, {"a": {"n": 3}}
    said = text_of(call, actual, some, tolerance=2)
    assert "lacks m, which actual has" in said and "columns=['n']" in said
    call(actual, some, tolerance=2, columns=["n"])
    call(pa.table({"g": ["a"], "n": [1], "m": [9]}), {"a": {"n": 3}}, tolerance=2, columns="n", keys=["g"])
    partly = {"a": {"n": 3, "m": 503}, "b": {"n": 3}}
    assert "of 'b' lacks m" in text_of(call, {**actual, "b": {"n": 1, "m": 5}}, partly, tolerance=2)
    for columns in ([], ["n", "o"], 5):
        with pytest.raises(ParameterError, match="^columns is"):
            call(actual, {"a": {"n": 3}}, tolerance=2, columns=columns)


# As often as stated: single laws.


def fails(call, *args, **options) -> bool:
    """Whether an assertion fails, which is not counted as the flakiness of this suite."""
    try:
        with running(Account()):
            call(*args, **options)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("scale", [pytest.param(0.3, marks=LONG), 3])
def test_failure_rates_of_rounded_noise(kind, scale):
    # Narrow rounded noise is mostly 0: few values do not show whether it is there.
    law, runs, values, p = LAWS[kind](scale), 200, 5 if scale >= 3 else 150, 0.1
    noisy = law.rounded(runs * values, SeededWords(f"{kind}{scale}")).reshape(runs, values)
    failed = sum(fails(assert_approx_equal, row.tolist(), [0] * values, law=law, k=1) for row in noisy)
    each = law.rounded_tolerance(-math.log10(-math.expm1(math.log1p(-p) / values)))
    true = 1 - (1 - 2 * law.rounded_sf(each)) ** values
    assert true <= p and abs(failed - runs * true) <= 5 * math.sqrt(runs * true) + 1
    narrow = sum(fails(assert_noisy, row.tolist(), [0] * values, law=law, k=1) for row in noisy)
    assert narrow <= runs * p + 5 * math.sqrt(runs * p)


def test_each_check_of_a_spread_has_its_part():
    """A spread that correct noise has with probability 10^-10 fails at k = 9, and passes at 9.6 and more."""
    n, spread = 100, bisect(lambda s: log10_gamma_deviation(100, 100 * s) + 10, 0.1, 1)
    sides = np.where(np.arange(n) % 2, spread, -spread)
    assert "too narrow" in text_of(assert_noisy, sides, np.zeros(n), law=Laplace(1), k=9.3)
    assert_noisy(sides, np.zeros(n), law=Laplace(1), k=9.5)


def test_outputs_of_a_group_share_its_flakiness():
    table = sf.scan(pa.table({"id": range(9)}), privacy_unit="id")
    release = released(table.bound(rows=1).agg(n=sf.count(), u=sf.count_units()), epsilon="0.001")
    shown, law = release.to_arrow().to_pylist()[0], release.plan.laws["units"]
    reach = law.rounded_tolerance(K + math.log10(2))
    assert reach > law.rounded_tolerance(K) + 9
    assert_approx_equal(release, shown | {"u": shown["u"] + reach}, k=K)
    text_of(assert_approx_equal, release, shown | {"u": shown["u"] + reach + 1}, k=K)


# Must fail: 10^-9 of missing the defect at these numbers of values.


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "rounded"),
    [
        ("laplace", True),
        pytest.param("gaussian", True, marks=LONG),
        pytest.param("gaussian", False, marks=LONG),
    ],
)
def test_wrong_noise_must_fail(kind, rounded):
    law, n = LAWS[kind](50), 3000
    words = SeededWords(f"{kind}{rounded}")

    def drawn(scale):
        noise = LAWS[kind](scale * (1 if rounded else 2**30)).rounded(n, words)
        return noise.tolist() if rounded else (noise / 2.0**30).tolist()

    truth = [0] * n if rounded else [0.0] * n
    assert_noisy(drawn(50), truth, law=law, k=K)
    assert "too narrow" in text_of(assert_noisy, drawn(0.7 * 50), truth, law=law, k=K)
    assert "too wide" in text_of(assert_noisy, drawn(1.4 * 50), truth, law=law, k=K)
    assert "missing" in text_of(assert_noisy, truth, truth, law=law, k=K)
    # A wrong sensitivity: 10 where it is 1, and the other way round.
    assert "too wide" in text_of(assert_noisy, drawn(500)[:60], truth[:60], law=law, k=K)
    assert "too narrow" in text_of(assert_noisy, drawn(5)[:60], truth[:60], law=law, k=K)
    assert "off" in text_of(assert_approx_equal, drawn(500 * 50), truth, law=law, k=K)


def test_one_value_without_noise_fails_where_noise_is_real():
    for how in (dict(law=Laplace(2)), dict(tolerance=lambda k: Laplace(2).complementary_tolerance(k))):
        assert "missing" in text_of(assert_noisy, 5.0, 5.0, **how, k=K)


def test_bounds_of_many():
    assert log10_gamma_deviation(1, 0) == -math.inf and log10_gamma_deviation(5, 5) == 0
    with mpmath.workdps(30):
        for shape, total in ((10, 4), (10, 25), (0.5, 0.01), (1000, 1200)):
            tail = mpmath.gammainc(shape, 0, total, regularized=True)
            true = float(mpmath.log10(tail if total < shape else 1 - tail))
            assert true <= log10_gamma_deviation(shape, total) <= max(0.7 * true, true + 1.5)
    for successes, tries, p in ((3, 3, 0.5), (60, 100, 0.3), (9, 1000, 1e-3)):
        true = math.log10(stats.binom.sf(successes - 1, tries, p))
        assert true - 1e-9 <= log10_many(successes, tries, p) <= 0.7 * true
    assert log10_many(1, 100, 0.5) == 0 and log10_many(1, 100, 0.0) == -math.inf


# Releases.


def people(groups: int, units: int, missing: bool = False) -> sf.Table:
    """In each group so many units with two rows each, of values near their upper bound."""
    n = groups * units
    ids = np.repeat(np.arange(n), 2)
    x = 8.5 + (np.arange(2 * n) % 3) / 2
    values = pa.array([None if missing and i % 4 == 0 else v for i, v in enumerate(x.tolist())], pa.float64())
    # Without missing values the column says so.
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("g", pa.int64()),
            pa.field("x", pa.float64(), nullable=missing),
            ("n", pa.int64()),
        ]
    )
    return sf.scan(
        pa.table([pa.array(ids), pa.array(ids % groups), values, pa.array(ids % 4)], schema=schema),
        privacy_unit="id",
    )


def asked(table: sf.Table, groups: int, keys: bool = True):
    chosen = table.group_by("g", keys=list(range(groups))) if keys else table.group_by("g")
    return chosen.bound(groups=1, rows=2).agg(
        n=sf.count(), u=sf.count_units(), c=sf.count("x"), s=sf.sum("n", lower=0, upper=8),
        r=sf.sum("x", lower=-5, upper=10, per="row"), m=sf.mean("x", lower=-5, upper=10),
        v=sf.variance("x", lower=-5, upper=10), d=sf.stddev("x", lower=-5, upper=10),
    )  # fmt: skip


def released(question, seed=1, **options):
    return question.release(**({"epsilon": 1, "delta": 1e-6} | options), unsafe_words=SeededWords(seed))


def truth_of(question, **options) -> pa.Table:
    with recording() as recorder:
        release = released(question, **options)
        return recorder[release].truth


RATES = [("laplace", True, 30, 1.0), pytest.param("gaussian", False, 1, 0.3, marks=LONG),
         pytest.param("laplace", False, 5, 60.0, marks=LONG)]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("noise", "missing", "units", "epsilon"), RATES)
def test_failure_rates_of_each_output(noise, missing, units, epsilon):
    """Each output of each group fails at most as often as its k says, and where the law is exact, as often."""
    groups = 300
    question = asked(people(groups, units, missing), groups)
    release = released(question, epsilon=epsilon, noise=noise, seed=repr((noise, missing, units)))
    truth = {r["g"]: r for r in truth_of(question, epsilon=epsilon, noise=noise).to_pylist()}
    cells = ReleasedCells(release)
    for k, output in product((1.0, 2.0), "nucsrmvd"):
        failed = 0
        for (g,), row in cells.cells.values.items():
            expected = {o: float(truth[g][o]) for o in ("m", output)}
            judged = cells.tolerance_for((g,), output, expected, row[output], k)
            out = abs(row[output] - truth[g][output]) > judged.tolerance
            failed += out
            # What is off is improbable.
            assert not out or judged.log10_probability <= -k + 0.05, (output, judged)
        allowed = groups * 10**-k
        assert failed <= allowed + 5 * math.sqrt(allowed), (output, k)
        if output in "us" and units == 30:
            law = cells.plan.laws[cells.estimates[output].coordinates[0]]
            exact = groups * 2 * law.rounded_sf(law.rounded_tolerance(k)) if output == "u" else allowed
            assert failed >= exact - 5 * math.sqrt(exact) - 1


def tampered(question, factor: float, **options):
    """A release whose noise has `factor` times the scale that its plan says."""
    plan = question.plan(**({"epsilon": 1, "delta": 1e-6} | options))
    wrong = scaled(plan, Fraction(factor))
    with without_certificate():
        release = sf.Release(wrong, question.table._engine, unsafe_words=SeededWords(repr(options)))
    release.to_arrow()
    release.plan = plan
    return release


@LONG
@pytest.mark.parametrize(("noise", "groups"), [("laplace", 1000), ("gaussian", 500)])
def test_releases_with_wrong_noise_must_fail(noise, groups):
    question = asked(people(groups, 60), groups)
    truth = truth_of(question, noise=noise)
    assert_noisy(tampered(question, 1.0, noise=noise), truth, k=K)
    assert "too narrow" in text_of(assert_noisy, tampered(question, 0.7, noise=noise), truth, k=K)
    assert "too wide" in text_of(assert_noisy, tampered(question, 1.4, noise=noise), truth, k=K)
    assert "off" in text_of(assert_approx_equal, tampered(question, 100.0, noise=noise), truth, k=K)


@pytest.mark.parametrize("noise", ["laplace", "k_norm", pytest.param("gaussian", marks=LONG)])
def test_a_swapped_group_must_fail(noise):
    """Each output by itself tells two groups apart that were exchanged."""
    side = [i % 4 == 0 for i in range(4000)]
    table = pa.table({"id": range(4000), "g": [0 if s else 1 for s in side], "x": [9.0 - (i % 2) if s else i % 9 - 5.0 for i, s in enumerate(side)],
                      "n": [3 if s else 4 for s in side]})  # fmt: skip
    question, options = asked(sf.scan(table, privacy_unit="id"), 2), {"noise": noise, "epsilon": 20}
    release, (a, b) = released(question, **options), truth_of(question, **options).to_pylist()
    for o in "nucsrmvd":
        assert_approx_equal(release, {0: {o: a[o]}, 1: {o: b[o]}}, k=K, columns=[o])
        text = text_of(assert_approx_equal, release, {0: {o: b[o]}, 1: {o: a[o]}}, k=K, columns=[o])
        assert "2 of 2 values are off" in text and "tolerances" in text and "probability at most" in text


@pytest.mark.parametrize("selection", ["truncated_geometric", "laplace", "gaussian"])
def test_private_groups(selection):
    """A large group that is missing fails, a small one may be missing."""
    counts = {"large": 500, "medium": 40, "small": 4}
    table = pa.table({"id": range(544), "g": [g for g, n in counts.items() for _ in range(n)]})
    question = sf.scan(table, privacy_unit="id").group_by("g").bound(groups=1).agg(u=sf.count_units())
    options = dict(group_selection=selection, epsilon=0.5, delta="1e-6")
    release = released(question, **options)
    shown = release.to_arrow()["g"].to_pylist()
    assert "large" in shown and "small" not in shown
    assert_approx_equal(release, counts, k=K)
    assert "missing, in expected alone: 'other'" in text_of(
        assert_approx_equal, release, counts | {"other": 500}, k=K
    )
    assert "extra" in text_of(assert_approx_equal, release, {"small": 4}, k=K)
    cells = ReleasedCells(release)
    misses = np.mean([selected_away(release.plan, 30, seed) for seed in range(400)])
    assert abs(10 ** cells.log10_missing(("x",), {"u": 30.0}) - misses) < 5 * math.sqrt(0.25 / 400)


def selected_away(plan, units: int, seed: int) -> bool:
    return not plan.selection.select([units], words=SeededWords(seed)).keep[0]


def test_noise_that_decided_about_groups_is_not_judged_where_groups_are_missing():
    counts = {g: 20 if g % 2 else 3000 for g in range(20)}
    names = [g for g, n in counts.items() for _ in range(n)]
    people = sf.scan(pa.table({"id": range(len(names)), "g": names}), privacy_unit="id").group_by("g")
    release = released(people.bound(groups=1).agg(u=sf.count_units()), group_selection="laplace", epsilon=0.5)
    with pytest.raises(RefusalError, match="no output here shows its noise"):
        assert_noisy(release, counts, k=K)


def test_what_does_not_fit_a_release_is_named(tmp_path):
    table = sf.scan(pa.table({"id": range(900), "x": [float(i % 30) for i in range(900)]}), privacy_unit="id")
    question = table.bound(rows=1).agg(n=sf.count(), q=sf.quantiles("x", [0.5], lower=0, upper=30))
    release, truth = released(question, epsilon=20), {"n": 900, "q_50": 15.0}
    with pytest.raises(RefusalError, match="q_50 is a quantile"):
        assert_approx_equal(release, truth, k=K)
    assert_approx_equal(release, truth, k=K, tolerance={"q_50": 3})
    assert "q_50" in text_of(assert_approx_equal, release, truth | {"q_50": 25.0}, k=K, tolerance={"q_50": 3})
    assert "lacks q_50" in text_of(assert_approx_equal, release, {"n": 900}, k=K)
    for bad in (dict(law=Laplace(1), k=K), dict(keys=["g"], k=K), dict(tolerance=1, k=K), dict(k=0), dict()):
        with pytest.raises(ParameterError):
            assert_approx_equal(release, truth, **bad)
    for expected in (5, {"a": 5}, {(0, 1): {"n": 1}}, [1, 2], "x", {"n": math.nan}):
        with pytest.raises(ParameterError):
            assert_approx_equal(release, expected, k=K)
    grouped = asked(people(2, 9), 2)
    release, truth = released(grouped), truth_of(grouped).to_pylist()
    assert "extra, in actual alone: 1" in text_of(assert_approx_equal, release, truth[:1], k=K)
    assert "missing, in expected alone: 9" in text_of(
        assert_approx_equal, release, [*truth, truth[0] | {"g": 9}], k=K
    )
    assert "twice" in text_of(assert_approx_equal, release, [*truth, truth[0]], k=K)
    streamed = released(question)
    streamed.write(tmp_path / "out.parquet")
    with pytest.raises(RefusalError, match="streamed"):
        assert_approx_equal(streamed, truth, k=K)
