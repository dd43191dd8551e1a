"""Two samples of one law pass, whatever it is; of two laws they fail at stated sizes.

Samples of one law fail with probability at most 1e-9: each seed here is fixed, and was not chosen.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.audit import closeness
from sfumato.audit.closeness.two_samples import as_uneven, log_choices, log_factorial
from sfumato.noise import Gaussian, Laplace, SeededWords

FINE = 2**30
N = 50_000
CHECKS = ["distance", "cells", "tails", "shift", "scale", "repeats", "low bits"]


def names(result):
    return {check.name for check in result.failed}


def clean(law, size, scale=FINE):
    """Noise of a clean-room implementation: another generator, another way to draw."""
    generator = np.random.default_rng(7)
    drawn = generator.laplace(0, 1, size) if law is Laplace else generator.normal(0, 1, size)
    return np.rint(drawn * scale).astype(np.int64)


# One law.


@pytest.mark.parametrize("law", [Laplace, Gaussian])
@pytest.mark.parametrize("scale", [1, 1000, FINE])
@pytest.mark.parametrize("sizes", [(1, 1), (1, N), (1000, 700), (N, N)])
def test_noise_and_a_clean_room_noise_pass(law, scale, sizes):
    noise = law(scale).rounded(sizes[0], SeededWords("two samples"))
    result = closeness(noise, clean(law, sizes[1], scale))
    assert result.passed, str(result)
    assert [check.name for check in result.checks] == CHECKS
    assert (result.samples, result.others) == sizes


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


def test_lists_and_arrays_of_several_types_are_compared_as_numbers():
    whole = list(range(-50, 50))
    assert str(closeness(whole, np.array(whole, np.int8))) == str(closeness(np.array(whole), whole))
    assert closeness(whole, np.array(whole, np.float32)).passed
    assert not closeness(whole, np.array(whole) + 0.5).passed


def test_the_samples_may_be_exchanged():
    x, y = clean(Laplace, 3000), clean(Gaussian, 2000)
    one, other = closeness(x, y), closeness(y, x)
    for a, b in zip(one.checks, other.checks, strict=True):
        assert a.probability == pytest.approx(b.probability, rel=1e-6)


# The bounds are bounds: all ways to label the pooled draws are equally likely, and can be counted.

POOLS = {
    "all different": [0.5, 1.25, -3.0, 8.0, 0.75, 2.0, -0.125, 100.0],
    "ties": [1, 1, 1, 2, 2, 5, 9, 9],
    "two values and NaN": [0.0, 0.0, 0.0, 1.0, 1.0, math.nan, math.nan, math.inf],
}


@pytest.mark.long
@pytest.mark.parametrize("first", [4, 2])
@pytest.mark.parametrize("pool", POOLS)
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


@pytest.mark.parametrize(("first", "second"), [(1, 1), (5, 8), (30, 20), (100, 3), (400, 500)])
def test_counts_are_never_below_the_truth(first, second):
    """Against exact rationals: at most as small as the hypergeometric tail, and two for two sides."""
    total = first + second
    for size in {1, 2, total // 3 + 1, total - 1, total}:
        law = [Fraction(math.comb(size, k) * math.comb(total - size, first - k), math.comb(total, first))
               for k in range(min(first, size) + 1) if first - k <= total - size]  # fmt: skip
        least = max(0, first - (total - size))
        support = range(least, least + len(law))
        assert sum(law) == 1
        bounds = as_uneven(np.array(support), np.full(len(law), size), first, second)
        for i in range(len(law)):
            tails = sum(law[i:]), sum(law[: i + 1])
            assert bounds[i] >= min(1, 2 * min(tails))
            # And not much above: a factor of 3 where it matters.
            assert bounds[i] <= max(6 * min(tails), 1e-300) or bounds[i] > 1e-3


def test_logarithms_of_factorials_are_enclosed():
    n = np.array([0, 1, 2, 10, 63, 64, 65, 100, 1000, 10_000, 10**6])
    low, high = log_factorial(n)
    for i, a in enumerate(n.tolist()):
        if a <= 10_000:
            # ln a! as a sum of logarithms, exact to far below what is compared.
            assert low[i] <= math.fsum(math.log(k) for k in range(2, a + 1)) <= high[i]
    assert (high - low <= 2e-8 + 1e-6 * (n > 9999)).all()
    assert log_choices(6, 4)[0] <= math.log(210) <= log_choices(6, 4)[1]


# Two laws, at sizes not below those that docs/audit.md states.


@pytest.mark.parametrize(("law", "size"), [(Laplace, 90_000), (Gaussian, 50_000)])
@pytest.mark.parametrize("factor", ["0.95", "1.05"])
def test_a_scale_that_is_off_by_5_percent_fails(law, size, factor):
    noise = law(Fraction(factor) * FINE).rounded(size, SeededWords(f"off {factor}"))
    assert "scale" in names(closeness(noise, clean(law, size)))


@pytest.mark.parametrize("law", [Laplace, Gaussian])
def test_a_twentieth_of_a_scale_aside_fails(law):
    noise = law(FINE).rounded(2 * N, SeededWords("aside")) + FINE // 20
    assert "shift" in names(closeness(noise, clean(law, 2 * N)))


@pytest.mark.parametrize(
    ("law", "cut", "size"), [(Laplace, 4, 10_000), (Laplace, 6, 60_000), (Gaussian, 3, 60_000)]
)
def test_a_tail_that_is_cut_fails(law, cut, size):
    noise = law(FINE).rounded(2 * size, SeededWords(f"cut at {cut}"))
    redrawn = noise[np.abs(noise) <= cut * FINE][:size]
    assert "tails" in names(closeness(redrawn, clean(law, size)))
    clipped = np.clip(noise[:size], -cut * FINE, cut * FINE)
    assert {"repeats", "cells"} & names(closeness(clipped, clean(law, size)))


def test_bits_of_a_16_bit_generator_fail():
    uniform = (np.random.default_rng(16).integers(0, 2**16, 4000) + 0.5) / 2**16 - 0.5
    noise = -np.sign(uniform) * np.log1p(-2 * np.abs(uniform))
    assert names(closeness(noise, np.random.default_rng(1).laplace(size=4000))) == {"repeats"}
    on_grid = np.rint(noise * 2**16) / 2**16
    assert "low bits" in names(closeness(on_grid, np.random.default_rng(1).laplace(size=4000)))


def test_low_bits_that_are_stuck_fail():
    noise = Laplace(FINE).rounded(4000, SeededWords("stuck"))
    assert names(closeness(noise & ~1, clean(Laplace, 4000))) == {"low bits"}
    assert names(closeness(noise & ~(1 << 12), clean(Laplace, 4000))) == {"low bits"}


@pytest.mark.parametrize(
    ("defect", "check"),
    [
        (lambda z: z * 0, "cells"),
        (np.abs, "distance"),
        (lambda z: np.where(np.arange(len(z)) % 20, z, 0), "cells"),
        (lambda z: np.where(np.arange(len(z)) % 500, z, 40 * FINE), "tails"),
        (lambda z: np.where(np.arange(len(z)) % 500, z, np.nan), "tails"),
    ],
)
def test_other_defects_fail(defect, check):
    noise = Laplace(FINE).rounded(N, SeededWords("other"))
    assert check in names(closeness(defect(noise), clean(Laplace, N)))


def test_the_text_says_what_was_seen():
    result = closeness(clean(Laplace, 5000, 300), clean(Laplace, 4000, 200))
    assert "these are not of one law: 5000 and 4000 draws" in str(result)
    assert "that the first sample lies further out is 10^" in str(result)
    assert "further in" in str(closeness(clean(Laplace, 4000, 200), clean(Laplace, 5000, 300)))
    assert "lies larger" in str(closeness(clean(Laplace, 5000) + FINE // 4, clean(Laplace, 5000)))
