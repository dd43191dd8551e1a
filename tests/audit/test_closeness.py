"""Samples of a law pass, and planted defects in the sampler fail at stated sample sizes.

A right sample fails with probability at most 1e-9: each seed here is fixed, and was not chosen.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import special, stats

from sfumato.audit import Check, Closeness, VectorLaw, closeness
from sfumato.audit.closeness.law_checks import as_far, at_least, at_most, repeats, residues
from sfumato.errors import ParameterError
from sfumato.noise import Gaussian, Laplace, SeededWords

LAWS = [Laplace, Gaussian]
FINE = 2**30  # a scale in grid steps, as a release has it
N = 50_000


def names(result):
    return {check.name for check in result.failed}


def sixteen_bits(size, seed=16):
    """Laplace noise by inversion of 65,536 uniform numbers."""
    uniform = (np.random.default_rng(seed).integers(0, 2**16, size) + 0.5) / 2**16 - 0.5
    return -np.sign(uniform) * np.log1p(-2 * np.abs(uniform))


# Right noise.


@pytest.mark.long
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", ["0.4", 1, "3.3", 1000, FINE, 2**40])
@pytest.mark.parametrize("size", [1, 1000, N])
def test_rounded_noise_passes(law, scale, size):
    result = closeness(law(scale).rounded(size, SeededWords(f"{size}")), law(scale), grid=1)
    assert result.passed, str(result)


def test_noise_on_a_grid_that_floats_cannot_hold_passes():
    noise = Laplace(70).rounded(N, SeededWords("tenths")) * 0.1
    assert closeness(noise, Laplace(7), grid="0.1").passed
    assert names(closeness(noise + 0.01, Laplace(7), grid="0.1")) >= {"values"}


def test_floats_pass():
    generator = np.random.default_rng(1)
    assert closeness(generator.laplace(0, 3, N), Laplace(3)).passed
    assert closeness(generator.normal(0, 3, N), Gaussian(3)).passed


@pytest.mark.parametrize("vectorised", [True, False])
def test_a_given_distribution_function(vectorised):
    def cdf(x):
        return special.ndtr(x / 5) if vectorised else 0.5 * math.erfc(-x / 5 / math.sqrt(2))

    noise = Gaussian(5).rounded(N, SeededWords("given"))
    assert closeness(noise, cdf, grid=1).passed
    assert closeness(np.random.default_rng(2).normal(0, 5, N), cdf).passed
    assert names(closeness(Gaussian("4.75").rounded(N, SeededWords("given")), cdf, grid=1)) >= {"scale"}


def test_checks_share_alpha_and_a_given_function_has_none_of_density():
    noise = Gaussian(2**20).rounded(N, SeededWords("shared"))
    found = [check.name for check in closeness(noise, Gaussian(2**20), grid=1).checks]
    assert found == ["values", "distance", "cells", "tails", "scale", "repeats", "low bits"]

    def wider(x):
        return special.ndtr(x / 2**20 / 1.04)

    given = closeness(noise, wider, grid=1)
    assert [check.name for check in given.checks] == found[:5]
    least = min(check.probability for check in given.checks)
    assert 1e-30 < least < 0.1
    assert closeness(noise, wider, grid=1, alpha=4.9 * least).passed
    assert not closeness(noise, wider, grid=1, alpha=5.1 * least).passed


def test_a_given_law_that_is_not_symmetric():
    generator = np.random.default_rng(3)
    assert closeness(generator.exponential(2, N), stats.expon(scale=2).cdf).passed
    assert not closeness(-generator.exponential(2, N), stats.expon(scale=2).cdf).passed


def test_a_given_distribution_function_with_steps():
    generator = np.random.default_rng(5)
    assert closeness(generator.poisson(3, N), stats.poisson(3).cdf).passed
    assert not closeness(generator.poisson(3.3, N), stats.poisson(3).cdf).passed


def test_values_that_a_given_law_never_takes():
    coin = stats.bernoulli(0.5).cdf
    assert closeness([0, 1] * 100, coin).passed
    result = closeness([0, 1, 2] * 100, coin)
    assert names(result) >= {"cells"} and "nan" not in str(result)


def repeated(sample, law, grid):
    (check,) = (c for c in closeness(sample, law, grid=grid).checks if c.name == "repeats")
    return check


def test_whole_numbers_that_floats_cannot_tell_apart_are_no_repeats():
    assert repeated(2**60 + np.arange(100), Laplace(2**57), 1).probability == 1


def test_floats_on_a_grid_that_is_finer_than_they_are_may_repeat():
    """Near 1, float64 rounds 32 grid steps to one number: so often does a right sample repeat a value."""
    assert repeated(np.array([1.0, 1.0]), Laplace(1), Fraction(1, 2**57)).probability >= 2.0**-54


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint64])
def test_whole_numbers_of_any_width(kind):
    """Of noise at 2^30 steps only small numbers fit into a byte: they are judged as all others are."""
    sample = np.array([7, 7, 100], kind)
    assert str(closeness(sample, Laplace(FINE), grid=1)) == str(
        closeness(sample.astype(np.int64), Laplace(FINE), grid=1)
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [1e30, -1e300, math.inf, math.nan])
def test_numbers_beyond_all_noise_are_told(value):
    assert names(closeness(np.array([value] * 20), Laplace(1000), grid=1)) >= {
        "tails" if math.isfinite(value) else "values"
    }


def test_given_probabilities():
    generator = np.random.default_rng(4)
    coin = {"heads": 0.5, "tails": 0.5}
    assert closeness(generator.choice(["heads", "tails"], N).tolist(), coin).passed
    assert names(closeness(generator.choice(["heads", "tails"], N, p=[0.47, 0.53]).tolist(), coin)) == {
        "cells"
    }
    assert names(closeness(["heads", "edge"], coin)) == {"values"}
    assert names(closeness(["heads", ["edge"]], coin)) == {"values"}


# Wrong noise, at sample sizes not below those that docs/audit.md states.


@pytest.mark.long
@pytest.mark.parametrize(("law", "size"), [(Laplace, 50_000), (Gaussian, 30_000)])
@pytest.mark.parametrize("factor", ["0.95", "1.05"])
@pytest.mark.parametrize("scale", [5, FINE])
def test_a_scale_that_is_off_by_5_percent_fails(law, size, factor, scale):
    noise = law(Fraction(factor) * scale).rounded(size, SeededWords(f"off {factor} {scale}"))
    assert "scale" in names(closeness(noise, law(scale), grid=1))


@pytest.mark.parametrize(
    ("law", "cut", "size"), [(Laplace, 4, 6_000), (Laplace, 6, 50_000), (Gaussian, 3, 50_000)]
)
def test_a_tail_that_is_cut_fails(law, cut, size):
    noise = law(FINE).rounded(2 * size, SeededWords(f"cut at {cut}"))
    redrawn = noise[np.abs(noise) <= cut * FINE][:size]
    assert "tails" in names(closeness(redrawn, law(FINE), grid=1))
    clipped = np.clip(noise[:size], -cut * FINE, cut * FINE)
    assert {"repeats", "tails"} & names(closeness(clipped, law(FINE), grid=1))


def test_bits_of_a_16_bit_generator_fail():
    assert names(closeness(sixteen_bits(2_000), Laplace(1))) == {"repeats"}
    assert names(closeness(np.rint(sixteen_bits(2_000) * FINE).astype(np.int64), Laplace(FINE), grid=1)) == {
        "repeats"
    }
    assert "low bits" in names(closeness(np.rint(sixteen_bits(2_000) * 2**16) / 2**16, Laplace(1)))


def test_low_bits_that_are_stuck_fail():
    noise = Laplace(FINE).rounded(2_000, SeededWords("stuck"))
    assert names(closeness(noise & ~1, Laplace(FINE), grid=1)) == {"low bits"}
    assert names(closeness(noise & ~(1 << 12), Laplace(FINE), grid=1)) == {"low bits"}


@pytest.mark.parametrize(
    ("defect", "check"),
    [
        (lambda z: z * 0, "scale"),
        (np.abs, "distance"),
        (lambda z: z + FINE // 10, "distance"),
        (lambda z: np.where(np.arange(len(z)) % 20, z, 0), "cells"),
        (lambda z: np.where(np.arange(len(z)) % 2000, z, 40 * FINE), "tails"),
        (lambda z: np.where(np.arange(len(z)) % 2000, z, np.nan), "values"),
    ],
)
def test_other_defects_fail(defect, check):
    noise = Laplace(FINE).rounded(N, SeededWords("other"))
    assert check in names(closeness(defect(noise), Laplace(FINE), grid=1))


def test_another_law_of_the_same_variance_fails():
    noise = Gaussian(Fraction(math.sqrt(2)) * FINE).rounded(N, SeededWords("law"))
    assert names(closeness(noise, Laplace(FINE), grid=1)) >= {"distance", "tails", "cells"}


# The bounds are bounds.


def test_counts_are_never_below_the_truth():
    for n, p in [(1, 0.5), (10, 0.1), (100, 0.01), (1000, 0.5), (1000, 1e-6), (200, 1.0), (200, 0.0)]:
        k = np.arange(n + 1)
        truth = stats.binom(n, p)
        assert (at_least(k, n, p) >= truth.sf(k - 1) * (1 - 1e-9)).all()
        assert (at_most(k, n, p) >= truth.cdf(k) * (1 - 1e-9)).all()
        # The law of the two-sided bound: it is below t with probability at most t.
        far = as_far(k, n, p)
        for t in (0.5, 0.1, 1e-3, 1e-9):
            assert truth.pmf(k[far <= t]).sum() <= t * (1 + 1e-9)


def test_repeats_are_bounded():
    """365 equal values: the exact law of the number of repeats, by the chain of distinct values."""
    days, n = 365, 40
    distinct = np.zeros(n + 1)
    distinct[0] = 1.0
    for _ in range(n):
        moved = distinct * (1 - np.arange(n + 1) / days)
        distinct = distinct * np.arange(n + 1) / days
        distinct[1:] += moved[:-1]
    for k in range(n):
        sample = np.arange(n)
        sample[n - k :] = 0
        assert repeats(sample, 1 / days)[1] >= distinct[: n - k + 1].sum() * (1 - 1e-9) or k == 0


@pytest.mark.parametrize("scale", [40, 1000])
def test_residues_of_rounded_laplace_are_within_their_bounds(scale):
    """The probabilities that the bounds speak of, added up exactly enough."""
    law = Laplace(scale)
    m = np.arange(-60 * scale, 60 * scale + 1)
    # pmf of the rounded law, from its cdf at half-integers.
    upper = np.where(m + 0.5 > 0, 1 - 0.5 * np.exp(-(m + 0.5) / scale), 0.5 * np.exp((m + 0.5) / scale))
    pmf = np.diff(upper, prepend=0.0)
    for step in (1, 2, 4):
        shares = np.bincount((m // step) % 16, weights=pmf, minlength=16)
        assert np.abs(shares - 1 / 16).max() <= law.rounded_pmf(0) * step


@pytest.mark.long
def test_probabilities_are_as_rare_as_they_say():
    """Over 400 right samples each check's bound is below t about t of the time, or less.

    400 coins of 1/10 give 74 or more ones with probability below 1e-6; there are 6 checks, whose bounds are loose.
    """
    words = SeededWords("rare")
    below = {}
    for _ in range(400):
        for check in closeness(Laplace(300).rounded(500, words), Laplace(300), grid=1).checks:
            below[check.name] = below.get(check.name, 0) + (check.probability <= 0.1)
    assert set(below) == {"values", "distance", "cells", "tails", "scale", "repeats"}
    assert max(below.values()) < 74


def test_residues_need_a_fine_scale():
    assert not list(residues(np.zeros(3), 0.5, 1.0, whole=True))


# The result, and bad input.


def test_the_text_names_what_fails():
    result = closeness(Laplace(300).rounded(5000, SeededWords("text")), Laplace(200), grid=1)
    assert "this is not the law: 5000 draws, false alarms with probability at most 1e-09" in str(result)
    assert "1.5 times the scale is 10^" in str(result)
    with pytest.raises(TypeError, match="ask result.passed"):
        bool(result)


def test_a_probability_is_written_on_the_safe_side():
    check = Check("cells", 0.001234, "something")
    assert "(probability at most 0.0013)" in str(Closeness(True, 1e-9, 1, (check,)))


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (([], Laplace(1), {}), "sample"),
        ((["a"], Laplace(1), {}), "sample"),
        (([[1.0]], Laplace(1), {}), "sample"),
        (([1.0], Laplace(1), {"alpha": 0}), "alpha"),
        (([1.0], Laplace(1), {"grid": 0}), "grid"),
        (([1.0], lambda x: 0.5, {}), "law"),
        (([1.0], {1.0: 0.5}, {}), "law"),
        (([1.0], {1.0: 1.0}, {"grid": 1}), "grid"),
        (([1.0], {1.0: math.nan, 2.0: 1.0}, {}), "law"),
        (([1.0], {1.0: 1.5, 2.0: -0.5}, {}), "law"),
        (([1.0], {}, {}), "law"),
        (([1.0], Laplace(1), {"grid": Fraction(1, 2**58)}), "grid"),
        (([1.0], Laplace(1), {"alpha": "x"}), "alpha"),
        ((5, Laplace(1), {}), "sample"),
        (("abc", {"a": 1.0}, {}), "sample"),
        (([[1], [1, 2]], Laplace(1), {}), "sample"),
        (([1.0], {1.0: "x"}, {}), "law"),
        (([1.0], [], {}), "law"),
        (([1.0], ["a"], {}), "law"),
        (([1.0], [[1.0]], {}), "law"),
        (([1.0], [[1.0], []], {}), "law"),
        (([1.0], None, {}), "law"),
        (([1.0], 5, {}), "law"),
        (([], [1.0], {}), "sample"),
        (([1.0], [1.0], {"grid": 1}), "grid"),
    ],
)
def test_bad_input(arguments, name):
    sample, law, options = arguments
    with pytest.raises(ParameterError) as caught:
        closeness(sample, law, **options)
    assert caught.value.name == name


# Vectors.


def _vectors(n, seed=1):
    """Two numbers, of one sign, each with the Laplace law."""
    sizes = np.random.default_rng(seed).exponential(size=(n, 2))
    return sizes * np.random.default_rng(seed + 1).choice([-1, 1], size=(n, 1))


BOTH = VectorLaw(
    {
        "first": (lambda x: x[:, 0], Laplace(1)),
        "largest": (lambda x: np.abs(x).max(axis=1), lambda t: np.maximum(-np.expm1(-np.asarray(t)), 0) ** 2),
        "product": (lambda x: np.sign(x[:, 0] * x[:, 1]), lambda t: np.where(np.asarray(t) >= 1, 1.0, 0.0)),
    }
)


def test_vectors_are_judged_by_their_projections():
    x = _vectors(20_000)
    result = closeness(x, BOTH)
    assert result.passed and result.samples == 20_000
    assert {c.name.split(":")[0] for c in result.checks} == set(BOTH.projections)
    # Each number by itself has its law; together they have not.
    both_equal = np.stack([x[:, 0], x[:, 0]], axis=1)
    wrong = closeness(both_equal, BOTH)
    assert not wrong.passed and {c.name.split(":")[0] for c in wrong.failed} == {"largest"}
    assert not closeness(x * 1.05, BOTH).passed


@pytest.mark.parametrize("sample", [[1.0, 2.0], [], [[1, 2], [3]], [["a", "b"]]])
def test_what_is_no_sample_of_vectors_is_refused(sample):
    with pytest.raises(ParameterError, match="sample"):
        closeness(sample, BOTH)


def test_a_projection_gives_one_number_for_each_draw():
    with pytest.raises(ParameterError, match="all"):
        closeness(_vectors(5), VectorLaw({"all": (lambda x: x, Laplace(1))}))
    with pytest.raises(ParameterError, match="projections"):
        closeness(_vectors(5), VectorLaw({}))
