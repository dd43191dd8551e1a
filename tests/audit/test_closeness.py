"""Samples of a law pass, and two samples of one law, whatever it is; wrong ones fail at stated sizes.

A right sample fails with probability at most 1e-9: each seed here is fixed, and was not chosen.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import special, stats

from sfumato.audit import VectorLaw, closeness
from sfumato.audit.closeness.law_checks import (
    bound_lower_tail,
    bound_two_sided_tail,
    bound_upper_tail,
    repeats,
)
from sfumato.audit.closeness.reference_law import CELLS
from sfumato.audit.closeness.two_samples import bound_unevenness
from sfumato.noise import DiscreteLaplace, Gaussian, Laplace, SeededWords

FINE = 2**30  # a scale in grid steps, as a release has it
N = 50_000
LONG = pytest.mark.long
CHECKS = ["distance", "cells", "tails", "shift", "scale", "repeats", "low bits"]


def names(result):
    return {check.name for check in result.failed}


def clean(law, size, scale=FINE):
    """Noise of a clean-room implementation: another generator, another way to draw."""
    generator = np.random.default_rng(7)
    drawn = generator.laplace(0, 1, size) if law is Laplace else generator.normal(0, 1, size)
    return np.rint(drawn * scale).astype(np.int64)


# Right noise.


@pytest.mark.long
@pytest.mark.parametrize(
    ("law", "scale", "size"),
    [(Laplace, "0.4", 1000), (Gaussian, FINE, N)]
    + [
        pytest.param(*one, marks=LONG)
        for one in itertools.product([Laplace, Gaussian], ["3.3", 2**40], [1, N])
    ],
)
def test_noise_passes(law, scale, size):
    noise = law(scale).rounded(size, SeededWords(f"{size}"))
    result = closeness(noise, law(scale), grid=1)
    assert result.passed, str(result)
    result = closeness(noise, clean(law, size, float(scale)))
    assert result.passed, str(result)
    assert [check.name for check in result.checks] == CHECKS
    assert (result.samples, result.others) == (size, size)


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


def test_given_probabilities():
    generator = np.random.default_rng(4)
    coin = {"heads": 0.5, "tails": 0.5}
    assert closeness(generator.choice(["heads", "tails"], N).tolist(), coin).passed
    assert names(closeness(generator.choice(["heads", "tails"], N, p=[0.47, 0.53]).tolist(), coin)) == {
        "cells"
    }
    assert names(closeness(["heads", "edge"], coin)) == {"values"}
    assert names(closeness(["heads", ["edge"]], coin)) == {"values"}


ONE_LAW = {
    "floats": lambda rng, n: rng.normal(size=n),
    "no variance": lambda _, n: np.zeros(n),
    "heavy tails": lambda rng, n: rng.standard_cauchy(n) ** 9,
    "few values": lambda rng, n: rng.integers(0, 2, n),
    "one frequent value": lambda rng, n: np.where(rng.random(n) < 0.7, 0.25, rng.random(n)),
    "infinite and NaN": lambda rng, n: np.where(rng.random(n) < 0.1, math.nan, 1 / rng.integers(0, 3, n)),
    "beyond 2^63": lambda rng, n: rng.integers(0, 2**64 - 1, n, np.uint64),
    "subnormal": lambda rng, n: rng.integers(0, 9, n) * 5e-324,
    "bytes": lambda rng, n: rng.integers(-128, 127, n, np.int8),
    "huge": lambda rng, n: rng.choice([-1.7e308, 1.7e308, 1e300], n),
}


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("kind", ONE_LAW)
def test_samples_of_any_law_pass(kind):
    rng = np.random.default_rng(3)
    result = closeness(ONE_LAW[kind](rng, 3000), ONE_LAW[kind](rng, 5000))
    assert result.passed, str(result)
    assert "nan)" not in str(result)


# Wrong noise, at sample sizes not below those that docs/audit.md states.


DEFECTS = {
    "no noise": (lambda z: z * 0, "scale", "cells"),
    "one sign": (np.abs, "distance", "distance"),
    "aside": (lambda z: z + FINE // 10, "distance", "shift"),
    "a twentieth is 0": (lambda z: np.where(np.arange(len(z)) % 20, z, 0), "cells", "cells"),
    "some are far out": (lambda z: np.where(np.arange(len(z)) % 500, z, 40 * FINE), "tails", "tails"),
    "some are NaN": (lambda z: np.where(np.arange(len(z)) % 500, z, np.nan), "values", "tails"),
    "cut": (lambda z: z[np.abs(z) <= 4 * FINE], "tails", "tails"),
    "a bit is stuck": (lambda z: z & ~(1 << 12), "low bits", "low bits"),
    "5% too wide": (lambda z: np.rint(z * 1.05).astype(np.int64), "scale", "scale"),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_wrong_noise_fails(name):
    defect, by_law, by_sample = DEFECTS[name]
    noise = defect(Laplace(FINE).rounded(90_000 if "5%" in name else N, SeededWords("other")))
    assert by_law in names(closeness(noise, Laplace(FINE), grid=1))
    assert by_sample in names(closeness(noise, clean(Laplace, 90_000 if "5%" in name else N)))


def test_bits_of_a_16_bit_generator_fail():
    uniform = (np.random.default_rng(16).integers(0, 2**16, 4000) + 0.5) / 2**16 - 0.5
    noise, other = (
        -np.sign(uniform) * np.log1p(-2 * np.abs(uniform)),
        np.random.default_rng(1).laplace(size=4000),
    )
    for law in (Laplace(1), other):
        assert names(closeness(noise, law)) == {"repeats"}
        assert "low bits" in names(closeness(np.rint(noise * 2**16) / 2**16, law))


# The bounds are bounds.


def test_counts_are_never_below_the_truth():
    for n, p in [(1, 0.5), (10, 0.1), (100, 0.01), (1000, 1e-6), (200, 1.0), (200, 0.0)]:
        k = np.arange(n + 1)
        truth = stats.binom(n, p)
        assert (bound_upper_tail(k, n, p) >= truth.sf(k - 1) * (1 - 1e-9)).all()
        assert (bound_lower_tail(k, n, p) >= truth.cdf(k) * (1 - 1e-9)).all()
        # The law of the two-sided bound: it is below t with probability at most t.
        far = bound_two_sided_tail(k, n, p)
        for t in (0.5, 0.1, 1e-3, 1e-9):
            assert truth.pmf(k[far <= t]).sum() <= t * (1 + 1e-9)


def test_checks_are_no_rarer_than_they_say():
    """Of the distance of all draws the law is known, and that four draws fall into one cell of equal ones."""
    sample = np.random.default_rng(3).laplace(0.7, 1, 30)
    (check,) = (c for c in closeness(sample, Laplace(1)).checks if c.name == "distance")
    largest = stats.kstest(sample, stats.laplace.cdf).statistic
    assert 1e-3 < stats.kstwo.sf(largest, 30) <= check.probability < 0.5
    (check,) = (c for c in closeness(np.full(4, 0.1), Laplace(1)).checks if c.name == "cells")
    assert CELLS**-3 <= check.probability <= 20 * CELLS**-3


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


POOLS = {
    "all different": [0.5, 1.25, -3.0, 8.0, 0.75, 2.0, -0.125, 100.0],
    "ties": [1, 1, 1, 2, 2, 5, 9, 9],
    "two values and NaN": [0.0, 0.0, 0.0, 1.0, 1.0, math.nan, math.nan, math.inf],
}


@pytest.mark.parametrize("first", [2, pytest.param(4, marks=LONG)])
@pytest.mark.parametrize("pool", ["ties", *[pytest.param(p, marks=LONG) for p in POOLS if p != "ties"]])
def test_each_probability_is_as_rare_as_it_says_over_all_labels(pool, first):
    values = np.array(POOLS[pool])
    found = {name: [] for name in CHECKS}
    for mine in itertools.combinations(range(len(values)), first):
        chosen = np.isin(np.arange(len(values)), mine)
        for check in closeness(values[chosen], values[~chosen], alpha=0.3).checks:
            found[check.name].append(check.probability)
    for name, probabilities in found.items():
        seen = np.array(probabilities)
        for t in np.unique(seen):
            assert (seen <= t).mean() <= t * (1 + 1e-12), name


@pytest.mark.parametrize(("first", "second"), [(1, 1), (5, 8), (30, 20), (100, 3)])
def test_shares_of_counts_are_never_below_the_truth(first, second):
    """Against exact rationals: at most as small as the hypergeometric tail, and two for two sides."""
    total = first + second
    for size in {1, 2, total // 3 + 1, total - 1, total}:
        law = [Fraction(math.comb(size, k) * math.comb(total - size, first - k), math.comb(total, first))
               for k in range(min(first, size) + 1) if first - k <= total - size]  # fmt: skip
        least = max(0, first - (total - size))
        support = range(least, least + len(law))
        assert sum(law) == 1
        bounds = bound_unevenness(np.array(support), np.full(len(law), size), first, second)
        for i in range(len(law)):
            tails = sum(law[i:]), sum(law[: i + 1])
            assert bounds[i] >= min(1, 2 * min(tails))
            # And not much above: a factor of 3 where it matters.
            assert bounds[i] <= max(6 * min(tails), 1e-300) or bounds[i] > 1e-3


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


@pytest.mark.parametrize("scale", [Fraction(1, 3), 1, 1000])
def test_discrete_noise_is_whole_without_a_grid(scale):
    law, words = DiscreteLaplace(scale), SeededWords(1)
    assert closeness(law.rounded(5000, words), law).passed
    assert not closeness(law.rounded(5000, words) / 2, law).passed
