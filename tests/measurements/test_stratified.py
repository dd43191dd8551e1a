"""Stratified proportions: the variance with noise, limits that hold their confidence, and the one call."""

import math
from fractions import Fraction as F
from functools import cache
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import BudgetError, ColumnError, ParameterError, QueryError
from sfumato.framework import GaussianDP, PureDP
from sfumato.measurements import NOISES, stratified_estimate
from sfumato.measurements.stratified_survey import (
    ProportionLimits,
    RoundedNoise,
    noisy_stratum_sums,
    sampling_exponent,
)
from sfumato.noise import Gaussian, Laplace
from sfumato.transformations.stratified_design import StratifiedDesign

NONE = RoundedNoise(None)


def hypergeometric(size, yes, n):
    ways = math.comb(size, n)
    return {k: F(math.comb(yes, k) * math.comb(size - yes, n - k), ways) for k in range(n + 1)}


def log_mgf(s, law):
    logs = [math.log(p) + s * k for k, p in law.items() if p]
    return max(logs) + math.log(sum(math.exp(x - max(logs)) for x in logs))


@pytest.mark.parametrize(("n", "size"), [(1, 5), (10, 40), (33, 40), (40, 40)])
def test_the_sampling_exponent_is_an_upper_bound(n, size):
    """Against the exact law, for every number of yes in the population."""
    for s, part in product((0.01, 0.3, 1.0, 4.0, 30.0), (0.2, 0.9, 1.0, 1.1, 3.0)):
        price = part * s * n
        given = float(sampling_exponent(np.array([s]), np.array([price]), n, size)[0])
        best = max(log_mgf(-s, hypergeometric(size, m, n)) + price * m / size for m in range(size + 1))
        assert given >= best - 1e-12
        if n in (1, size):  # with one asked, or all, it is exact but for the grid of m
            assert given <= best + price / size


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


def exact_coverages(n, size, cases, law, confidence):
    """Return, for each case of yes in the strata, the probability of the intervals that hold the truth.

    All outcomes are enumerated: no draw is made.
    """
    design = StratifiedDesign(n, size, least=1)
    reach, masses = noise_masses(law)
    t = np.zeros(1)
    for step, k_n in zip(design.steps, n, strict=True):
        t = np.add.outer(t, float(step) * np.arange(-reach, k_n + reach + 1)).ravel()
    low, high = ProportionLimits(design, RoundedNoise(law)).limits(t, confidence)
    for case in cases:
        p = np.ones(1)
        for k_n, s, m in zip(n, size, case, strict=True):
            p = np.multiply.outer(p, np.convolve(sample_masses(s, m, k_n), masses)).ravel()
        truth = sum(case) / sum(size)
        yield float(p[(low - 1e-9 <= truth) & (truth <= high + 1e-9)].sum())


@pytest.mark.parametrize(
    "law",
    [
        Laplace("0.2"),
        *(
            pytest.param(law, marks=pytest.mark.long)
            for law in (None, Laplace(12), Gaussian("0.3"), Gaussian(3))
        ),
    ],
    ids=str,
)
def test_exact_coverage_of_one_stratum(law, confidence=F(95, 100)):
    for n, size in ((2, 60), (7, 60), (30, 60), (50, 60), (60, 60), (25, 3000)):
        shares = (0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.95, 1)
        cases = [[round(size * share)] for share in shares]
        assert min(exact_coverages([n], [size], cases, law, confidence)) >= confidence - F(1, 10**9)


@pytest.mark.long
@pytest.mark.parametrize("law", [Laplace(1)], ids=str)
def test_exact_coverage_of_two_strata(law):
    shares = ((0, 0), (0.02, 0), (0.04, 0.1), (0.3, 0), (0.5, 0.5), (1, 0.6), (0, 1))
    for n, size in (([5, 20], [500, 100]), ([2, 9], [30, 300]), ([12, 12], [100, 100])):
        cases = [[round(p * s) for p, s in zip(pair, size, strict=True)] for pair in shares]
        assert min(exact_coverages(n, size, cases, law, "0.95")) >= 0.95 - 1e-9


@pytest.mark.parametrize("n", [2, 300])
def test_nobody_said_yes(n):
    """Without noise, in a large population, it is the exact limit 1 - miss^(1/n), to 1%."""
    limits = ProportionLimits(StratifiedDesign([n], [10**9]), NONE)
    low, high = limits.limits([0.0, 1.0], "0.95")
    exact = 1 - 0.025 ** (1 / n)
    assert low[0] == 0 and high[1] == 1
    assert exact <= high[0] <= 1.01 * exact and math.isclose(1 - low[1], high[0])


SIZES = {"E": 4421, "M": 1018, "H": 755}

ROWS = {"stype": ["E"] * 100 + ["M"] * 50 + ["H"] * 50, "award": [i % 3 != 0 for i in range(200)]}


def ask(table=None, **changed):
    options = {"stratum": "stype", "answer": "award", "population": SIZES, "epsilon": 100, **changed}
    return sf.stratified_proportion(pa.table(ROWS) if table is None else table, **options)


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


REFUSED: list[tuple[dict[str, object], type[Exception]]] = [
    ({"population": {"E": 4421, "M": 1018}}, QueryError),
    ({"population": SIZES | {"X": 9}}, QueryError),
    ({"population": SIZES | {"H": 49}}, ParameterError),
    ({"stratum": "styp"}, ColumnError),
    ({"yes": "y"}, ParameterError),
    ({"epsilon": 0}, BudgetError),
    ({"noise": "gaussian"}, BudgetError),
    ({"delta": 0.1}, ParameterError),
]


def test_errors_come_from_the_question_and_the_design_alone():
    for changed, kind in REFUSED:
        texts = set()
        for award in (ROWS["award"], [True] * 200, [None] * 199 + [False], [None] * 200):
            with pytest.raises(kind) as caught:
                ask(pa.table(ROWS | {"award": pa.array(award, pa.bool_())}), **changed)
            texts.add(str(caught.value))
        assert len(texts) == 1
