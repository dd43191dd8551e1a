"""Stratified proportions: the variance with noise, limits that hold their confidence, and the one call."""

from __future__ import annotations

import math
from fractions import Fraction as F
from functools import cache
from itertools import product

import mpmath
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import BudgetError, ColumnError, EngineError, ParameterError, QueryError
from sfumato.framework import GaussianDP, PureDP
from sfumato.measurements import NOISES, stratified_estimate
from sfumato.measurements.stratified_survey import (
    ProportionLimits,
    RoundedNoise,
    noisy_stratum_sums,
    sampling_exponent,
)
from sfumato.noise import Gaussian, Laplace, SeededWords
from sfumato.transformations.stratified_design import StratifiedDesign

NONE = RoundedNoise(None)


# The sample.


def hypergeometric(size, yes, n):
    ways = math.comb(size, n)
    return {k: F(math.comb(yes, k) * math.comb(size - yes, n - k), ways) for k in range(n + 1)}


def log_mgf(s, law):
    logs = [math.log(p) + s * k for k, p in law.items() if p]
    return max(logs) + math.log(sum(math.exp(x - max(logs)) for x in logs))


@pytest.mark.parametrize(("n", "size"), [(1, 1), (1, 5), (2, 40), (10, 40), (20, 40), (33, 40), (40, 40)])
def test_the_sampling_exponent_is_an_upper_bound(n, size):
    """Against the exact law, for every number of yes in the population."""
    for s, part in product((0.01, 0.3, 1.0, 4.0, 30.0), (0.2, 0.9, 1.0, 1.1, 3.0)):
        price = part * s * n
        given = float(sampling_exponent(np.array([s]), np.array([price]), n, size)[0])
        best = max(log_mgf(-s, hypergeometric(size, m, n)) + price * m / size for m in range(size + 1))
        assert given >= best - 1e-12
        if n in (1, size):  # with one asked, or all, it is exact but for the grid of m
            assert given <= best + price / size


# The estimate.


def test_goldens_of_the_estimate():
    mean, variance = stratified_estimate([5] * 10, [10] * 10, [100] * 10, 0)
    assert (mean, variance) == (F(1, 2), F(25, 10000))
    # The noise adds its variance: 200 on each count of ten, weighed with (c/n)^2 = 1/10000.
    assert stratified_estimate([5] * 10, [10] * 10, [100] * 10, 200)[1] == F(25, 10000) + F(2000, 10000)


NOISE = {-1: F(1, 4), 0: F(1, 2), 1: F(1, 4)}  # its variance is 1/2


def moments(noise_variance):
    """Return Var(mean) and E(variance), exactly, of two strata whose noisy shares stay clear of the clamps."""
    n, size, yes = [20, 20], [24, 30], [8, 8]
    laws = [
        [(k + z, p * q) for k, p in hypergeometric(s, m, k_n).items() if p for z, q in NOISE.items()]
        for s, m, k_n in zip(size, yes, n, strict=True)
    ]
    cases = [([a, b], p * q) for (a, p), (b, q) in product(*laws)]
    found = [(*stratified_estimate(v, n, size, noise_variance), p) for v, p in cases]
    truth = F(sum(yes), sum(size))
    assert sum(m * p for m, _, p in found) == truth
    return sum((m - truth) ** 2 * p for m, _, p in found), sum(v * p for _, v, p in found)


def test_the_variance_counts_the_noise_and_what_it_takes_from_the_plug_in():
    true, estimated = moments(F(1, 2))
    assert 0 <= estimated / true - 1 < F(1, 100), "clamping at 0 adds a little"


@pytest.mark.parametrize(
    "defect", [F(0), F(3, 20), F(7, 10)], ids=["left out", "30% of it", "a scale for a variance"]
)
def test_a_wrong_noise_variance_is_seen(defect):
    true, estimated = moments(defect)
    assert not 0 <= estimated / true - 1 < F(1, 100)


def test_an_estimate_far_out_of_range_is_clamped():
    mean, variance = stratified_estimate([-50, 80], [10, 10], [100, 100], [F(1), F(2)])
    assert mean == F(3, 2) and variance == F(3, 400)
    assert stratified_estimate([-50, 80], [10, 10], [100, 100], 0)[1] == 0
    sunk = stratified_estimate([5, 5], [10, 10], [100, 100], 10**8)[1]
    assert sunk == F(2 * 10**8, 400) + 2 * F(1, 4) * F(90, 900) * F(1, 4)


@pytest.mark.parametrize("bad", [-1, math.nan, "x", [1, 2, 3]])
def test_bad_noise_variances(bad):
    with pytest.raises(ParameterError, match="^stratified_estimate: "):
        stratified_estimate([5, 5], [10, 10], [100, 100], bad)


# The limits: exact coverage of one and two strata.


@cache
def noise_masses(law):
    """Return how far the noise reaches, but for 1e-12, and its masses from -reach to reach."""
    if law is None:
        return 0, np.ones(1)
    reach = law.rounded_tolerance(12)
    return reach, law.rounded_pmf(np.arange(-reach, reach + 1))


@cache
def sample_masses(size, yes, n):
    return np.array([float(p) for p in hypergeometric(size, yes, n).values()])


def exact_coverages(n, size, cases, law, confidence, believed=None):
    """Return, for each case of yes in the strata, the probability of the intervals that hold the truth.

    All outcomes are enumerated: no draw is made.
    """
    design = StratifiedDesign(n, size, least=1)
    reach, masses = noise_masses(law)
    t = np.zeros(1)
    for step, k_n in zip(design.steps, n, strict=True):
        t = np.add.outer(t, float(step) * np.arange(-reach, k_n + reach + 1)).ravel()
    low, high = ProportionLimits(design, believed or RoundedNoise(law)).limits(t, confidence)
    for case in cases:
        p = np.ones(1)
        for k_n, s, m in zip(n, size, case, strict=True):
            p = np.multiply.outer(p, np.convolve(sample_masses(s, m, k_n), masses)).ravel()
        truth = sum(case) / sum(size)
        yield float(p[(low - 1e-9 <= truth) & (truth <= high + 1e-9)].sum())


@pytest.mark.parametrize("confidence", [F(95, 100), F(99, 100)], ids=str)
@pytest.mark.parametrize(
    "law", [None, Laplace("0.2"), Laplace(1), Laplace(12), Gaussian("0.3"), Gaussian(3)], ids=str
)
def test_exact_coverage_of_one_stratum(law, confidence):
    for n, size in ((2, 60), (7, 60), (30, 60), (50, 60), (60, 60), (25, 3000)):
        shares = (0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.95, 1)
        cases = [[round(size * share)] for share in shares]
        assert min(exact_coverages([n], [size], cases, law, confidence)) >= confidence - F(1, 10**9)


@pytest.mark.parametrize("law", [None, Laplace(1)], ids=str)
def test_exact_coverage_of_two_strata(law):
    shares = ((0, 0), (0.02, 0), (0.04, 0.1), (0.3, 0), (0.5, 0.5), (1, 0.6), (0, 1))
    for n, size in (([5, 20], [500, 100]), ([2, 9], [30, 300]), ([12, 12], [100, 100])):
        cases = [[round(p * s) for p, s in zip(pair, size, strict=True)] for pair in shares]
        assert min(exact_coverages(n, size, cases, law, "0.95")) >= 0.95 - 1e-9


def test_exact_coverage_sees_noise_that_is_left_out():
    assert next(exact_coverages([25], [3000], [[1000]], Laplace(12), "0.95", NONE)) < 0.7


# The limits: coverage by draws.

REPETITIONS = 2000
CELLS = [
    # sample sizes, population sizes, shares of yes, law
    ([100, 50, 50], [4421, 755, 1018], [0.3, 0.5, 0.6], Laplace(1)),
    ([100, 50, 50], [4421, 755, 1018], [0.0, 0.02, 0.0], Laplace(1)),
    ([100, 50, 50], [4421, 755, 1018], [0.95, 1.0, 1.0], Gaussian("4.2")),
    ([10] * 10, [100] * 10, [0.5] * 10, Laplace(2)),
    ([2] * 50, [10**6] * 50, [0.05] * 50, Laplace("0.1")),
    ([2] * 50, [10**6] * 50, [0.01] * 25 + [0.9] * 25, Gaussian(1)),
    ([1000] * 10, [10**6] * 10, [0.2] * 10, Laplace(1)),
    ([1000] * 3, [1000] * 3, [0.2, 0.5, 0.8], Laplace(5)),
    ([2, 1000], [1000, 10**6], [0.5, 0.05], Laplace(20)),
    ([10] * 3, [10**4] * 3, [0.5] * 3, Laplace(100)),
    ([300] * 10, [10**6] * 10, [0.5] * 10, Gaussian(40)),
]
DEFECTS = {
    "the noise's variance is left out": lambda law: None,
    "the scale is not squared": lambda law: type(law)(math.sqrt(law.unit)),
    "noise is 30% more than is said": lambda law: type(law)(law.unit / F(13, 10)),
}


@cache
@mpmath.workdps(30)
def least_hits(confidence):
    """The number of intervals that hold the truth, below which coverage is short: a false alarm has 1e-11."""
    total, k, p = mpmath.mpf(0), -1, mpmath.mpf(confidence.numerator) / confidence.denominator
    while total <= mpmath.mpf(10) ** -11:
        k += 1
        total += mpmath.binomial(REPETITIONS, k) * p**k * (1 - p) ** (REPETITIONS - k)
    return k


def short(cell, confidence, believed=lambda law: law):
    """Say whether the interval holds the truth in too few repetitions; limits take the law to be `believed`."""
    n, size, shares, law = cell
    rng, design = np.random.default_rng(11), StratifiedDesign(n, size)
    yes = np.rint(np.array(size) * shares).astype(int)
    counts = rng.hypergeometric(yes, np.array(size) - yes, n, size=(REPETITIONS, len(n)))
    noise = law.rounded(counts.size, SeededWords(f"{n} {law}")).reshape(counts.shape)
    t = (counts + noise) @ np.array([float(a) for a in design.steps])
    low, high = ProportionLimits(design, RoundedNoise(believed(law))).limits(t, confidence)
    assert (low >= 0).all() and (high <= 1).all() and (low < high).all()
    truth = yes.sum() / sum(size)
    return int(((low <= truth + 1e-9) & (truth <= high + 1e-9)).sum()) < least_hits(confidence)


@pytest.mark.parametrize("confidence", [F(95, 100), F(99, 100)], ids=str)
@pytest.mark.parametrize("cell", CELLS, ids=lambda c: f"{len(c[0])} strata of {c[0][0]}, {c[3]}")
def test_the_interval_holds_its_confidence(cell, confidence):
    assert not short(cell, confidence)


@pytest.mark.parametrize("defect", DEFECTS)
def test_coverage_sees_a_planted_defect(defect):
    assert short(CELLS[-1], F(95, 100), DEFECTS[defect])


# The limits: shape.


@pytest.mark.parametrize("n", [2, 10, 300])
def test_nobody_said_yes(n):
    """Without noise, in a large population, it is the exact limit 1 - miss^(1/n), to 1%."""
    limits = ProportionLimits(StratifiedDesign([n], [10**9]), NONE)
    low, high = limits.limits([0.0, 1.0], "0.95")
    exact = 1 - 0.025 ** (1 / n)
    assert low[0] == 0 and high[1] == 1
    assert exact <= high[0] <= 1.01 * exact and math.isclose(1 - low[1], high[0])


def test_limits_grow_and_shrink_as_they_should():
    design = StratifiedDesign([40, 60], [1000, 500])
    t = np.linspace(-0.5, 1.5, 101)
    low, high = ProportionLimits(design, NONE).limits(t, "0.95")
    wide = ProportionLimits(design, NONE).limits(t, "0.999")
    noisy = ProportionLimits(design, RoundedNoise(Laplace(5))).limits(t, "0.95")
    assert (np.diff(low) >= 0).all() and (np.diff(high) >= 0).all()
    assert (wide[0] <= low).all() and (wide[1] >= high).all()
    assert (noisy[0] <= low).all() and (noisy[1] >= high).all()
    inside = (t >= 0) & (t <= 1)
    assert (low[inside] <= t[inside]).all() and (t[inside] <= high[inside]).all()
    assert (low < high).all() and not np.isnan(low).any()
    assert np.allclose(low, 1 - high[::-1])


def test_width_beside_the_textbook():
    """With enough in each stratum, and alike strata, what the caution costs is small."""
    for law, shift in ((None, 0.0), (Gaussian(5), 25.083), (Laplace(1), 2.083)):
        design = StratifiedDesign([200] * 10, [10**5] * 10)
        low, high = ProportionLimits(design, RoundedNoise(law)).limits([0.5], "0.95")
        wald = 2 * 1.959964 * math.sqrt(0.25 / 2000 + shift * 10 / 2000**2)
        assert 1 < (high - low)[0] / wald < 1.05


def test_a_census_without_noise_leaves_no_doubt():
    low, high = ProportionLimits(StratifiedDesign([50, 70], [50, 70]), NONE).limits([0.4], "0.95")
    assert high[0] - low[0] < 0.01


@pytest.mark.parametrize("confidence", [0, 1, -1, 1.5, math.nan, "x", None])
def test_bad_confidences(confidence):
    with pytest.raises(ParameterError, match="^confidence is"):
        ProportionLimits(StratifiedDesign([5], [10]), NONE).limits([0.4], confidence)


# The one call.

SIZES = {"E": 4421, "M": 1018, "H": 755}
ROWS = {
    "stype": ["E"] * 100 + ["M"] * 50 + ["H"] * 50,
    "award": [i % 3 != 0 for i in range(200)],
}


def ask(table=None, **changed):
    options = {"stratum": "stype", "answer": "award", "population": SIZES, "epsilon": 100, **changed}
    return sf.stratified_proportion(pa.table(ROWS) if table is None else table, **options)


@pytest.fixture
def seeded(monkeypatch):
    words = SeededWords("survey")
    monkeypatch.setattr("sfumato.noise.random_words._words_of_thread", lambda: words)


@pytest.mark.flakiness(k=21, because="noise of scale 1/100 rounds to 0 in each stratum")
def test_with_a_huge_epsilon_it_is_the_textbook_estimate():
    share = ask()
    assert share.counts == (66, 34, 33) and share.strata == ("E", "M", "H")
    exact = (4421 * 0.66 + 1018 * 0.68 + 755 * 0.66) / 6194
    assert math.isclose(share.proportion, exact)
    low, high = share.interval(0.95)
    assert low < exact < high and high - low < 0.16
    parts = [(4421, 100, 0.66), (1018, 50, 0.68), (755, 50, 0.66)]
    variance = sum((N / 6194) ** 2 * (N - n) / N * p * (1 - p) / (n - 1) for N, n, p in parts)
    assert math.isclose(share.standard_error, math.sqrt(variance), rel_tol=1e-9)


TEXTS = {True: "y", False: "n", None: None}
TABLES = [
    (pa.table(ROWS), {}),
    (ROWS, {"yes": True}),
    ({k: np.array(v) for k, v in ROWS.items()}, {}),
    ({k: pa.array(v) for k, v in ROWS.items()}, {}),
    (pd.DataFrame(ROWS).astype(object), {"yes": True}),
    (pd.DataFrame(ROWS).astype({"award": "category"}), {"yes": True}),
    (pa.table(ROWS | {"award": [TEXTS[a] for a in ROWS["award"]]}), {"yes": "y"}),
    (pd.DataFrame(ROWS | {"other": [1, "x"] * 100}), {}),
    (pd.DataFrame(ROWS).astype({"stype": "category"}), {}),
    (pl.DataFrame(ROWS), {}),
    (pl.DataFrame(ROWS).lazy(), {}),
    ([{"stype": s, "award": a} for s, a in zip(*ROWS.values(), strict=True)], {"yes": True}),
    (ROWS | {"award": [TEXTS[a] for a in ROWS["award"]]}, {"yes": "y"}),
    (ROWS | {"award": [int(a) for a in ROWS["award"]]}, {"yes": 1}),
    (ROWS | {"award": [float(a) for a in ROWS["award"]]}, {"yes": 1}),
]


@pytest.mark.flakiness(k=21, because="noise of scale 1/100 rounds to 0 in each stratum")
@pytest.mark.parametrize(("table", "options"), TABLES, ids=lambda v: type(v).__name__)
def test_all_tables_say_the_same(table, options):
    assert ask(table, **options).counts == (66, 34, 33)


@pytest.mark.flakiness(k=20, because="noise of scale 1/100 rounds to 0 in each stratum")
def test_what_is_not_yes_counts_as_no():
    odd = ROWS | {"award": [[1.0, None, math.nan, math.inf, -3.0][i % 5] for i in range(200)]}
    assert ask(odd, yes=1).counts == (20, 10, 10)
    assert ask(ROWS | {"award": [None] * 200}, yes=True).counts == (0, 0, 0)
    mixed = ROWS | {"award": [["secret", True, b"x", [1], {}][i % 5] for i in range(200)]}
    assert ask(mixed, yes=True).counts == (20, 10, 10)


@pytest.mark.noise_cannot_matter("it looks at laws and losses")
@pytest.mark.parametrize(("noise", "options"), [("laplace", {}), ("gaussian", {"delta": 1e-6})])
def test_the_budget_is_read_from_the_map(noise, options):
    share = ask(epsilon="0.5", noise=noise, **options)
    made = noisy_stratum_sums([100, 50, 50], NOISES[noise], share.law.unit)
    assert made.output_measure == (PureDP() if noise == "laplace" else GaussianDP())
    if noise == "laplace":
        assert made.map(1) == F(1, 2) and share.spent == (0.5, 0.0)
    else:
        from sfumato.budget.closed_forms import gaussian_delta

        assert (
            gaussian_delta(F(1, 2), made.map(1) ** 2)
            <= F(1, 10**6)
            < gaussian_delta(F(1, 2), (made.map(1) * F(101, 100)) ** 2)
        )
        assert share.spent == (0.5, 1e-6)
    assert made.map(3) == 3 * made.map(1), "three rows of one person"


def spread_of_noise(epsilon, factor=1):
    """Count noises of 3,000 strata within one scale of 0."""
    table = {"s": [i // 2 for i in range(6000)], "a": [True, False] * 3000}
    share = sf.stratified_proportion(table, stratum="s", answer="a", yes=True, population=dict.fromkeys(range(3000), 5), epsilon=epsilon * factor)  # fmt: skip
    return sum(abs(c - 1) <= 10 for c in share.counts)


def test_the_noise_is_there_and_of_its_size(seeded):
    """7 standard deviations: a false alarm has 3e-12."""
    inside = 1 - 2 * Laplace(10).rounded_sf(10)
    bound = 7 * math.sqrt(3000 * inside * (1 - inside))
    assert abs(spread_of_noise(F(1, 10)) - 3000 * inside) < bound
    assert abs(spread_of_noise(F(1, 10), F(14, 10)) - 3000 * inside) > bound, "planted: 30% less noise"


def test_errors_come_from_the_question_and_the_design_alone():
    cases = [
        ({"population": {"E": 4421, "M": 1018}}, QueryError, r"nothing of strata that are in the table"),
        ({"population": SIZES | {"X": 9}}, QueryError, r"nobody was asked in the strata \['X'\]"),
        (
            {"population": SIZES | {"H": 49}},
            ParameterError,
            r"sample_sizes\['H'\] is 50, but must be at most .*49",
        ),
        ({"population": SIZES | {"H": 99.5}}, ParameterError, r"strat_sizes\['H'\] is 99.5"),
        ({"population": {}}, ParameterError, "population is"),
        ({"population": [1, 2]}, ParameterError, "population is"),
        ({"stratum": "styp"}, ColumnError, "did you mean 'stype'"),
        ({"answer": "x"}, ColumnError, "no column 'x'"),
        ({"yes": "y"}, ParameterError, "yes is 'y', but must be True or False"),
        ({"yes": 1}, ParameterError, "yes is 1, but must be True or False"),
        ({"answer": "stype"}, ParameterError, "yes is None, but must be a text"),
        ({"epsilon": 0}, BudgetError, "epsilon is 0"),
        ({"epsilon": math.inf}, BudgetError, "epsilon is inf"),
        (
            {"noise": "uniform"},
            ParameterError,
            "noise is 'uniform', but must be one of 'laplace', 'gaussian'",
        ),
        ({"delta": 0.1}, ParameterError, "delta is 0.1, but must be left out"),
        ({"noise": "gaussian"}, BudgetError, "delta is None"),
    ]
    for changed, kind, text in cases:
        for award in (ROWS["award"], [True] * 200, [None] * 199 + [False], [None] * 200):
            with pytest.raises(kind, match=text):
                ask(pa.table(ROWS | {"award": pa.array(award, pa.bool_())}), **changed)
    for award in (ROWS["award"], [None] * 200, ["a", 1] * 100):
        with pytest.raises(
            ParameterError, match=r"yes is None, but must be .* \(write yes=True for booleans\)"
        ):
            ask(ROWS | {"award": award})
    one = {"stype": ["E", "E", "M"], "award": [True] * 3}
    with pytest.raises(ParameterError, match=r"sample_sizes\['M'\] is 1, but must be at least 2"):
        ask(one, yes=True, population={"E": 10, "M": 10})
    with pytest.raises(QueryError, match=r"nothing of strata that are in the table"):
        ask({"stype": ["E", "E", None], "award": [True] * 3}, yes=True, population={"E": 10})
    with pytest.raises(EngineError, match="'stype' has 200 rows, but 'award' has 3"):
        ask(ROWS | {"award": [True] * 3}, yes=True)


@pytest.mark.parametrize("table", [3, "file.csv", [1, 2], (), np.zeros(3)])
def test_tables_of_an_unknown_kind(table):
    with pytest.raises(EngineError, match="^stratified_proportion: cannot read a"):
        ask(table)


def test_what_the_result_shows(seeded):
    share = ask(epsilon=1)
    low, high = share.interval(confidence="0.99")
    assert low < share.interval()[0] < share.proportion < share.interval()[1] < high
    table = share.to_arrow()
    assert table.column_names == ["stratum", "population", "asked", "yes", "proportion", "low", "high"]
    for row in table.to_pylist():
        assert 0 <= row["low"] <= row["proportion"] <= row["high"] <= 1
    assert list(share.to_pandas()["yes"]) == list(share.counts)
    said = share.explain()
    assert "epsilon 1, for the answer of each respondent" in said and "200 respondents" in said
    assert "standard deviation 1.414" in said and "missing answer counts as no" in said
    assert "95% interval" in repr(share) and "95% interval" in str(share)
    assert "delta 1e-06" in ask(epsilon=1, noise="gaussian", delta=1e-6).explain()


def test_drowned_in_noise_it_stays_a_proportion(seeded):
    share = ask(epsilon="1e-4")
    assert 0 <= share.proportion <= 1
    low, high = share.interval()
    assert 0 <= low < high <= 1 and high - low > 0.9
