"""Privacy-loss distributions against exact rational compositions, closed forms and dp_accounting."""

import importlib.util
import math
import random
from fractions import Fraction as F
from pathlib import Path

import mpmath as mp
import pytest

from sfumato.budget import loss_distributions
from sfumato.budget.closed_forms import gaussian_delta
from sfumato.exact.outward_rounding import exactly, log_bounds

ONE = 1 << loss_distributions.BITS
BENCHMARK = Path(__file__).parents[2] / "benchmarks/budget.py"


def check_convolution(module):
    """Each mass is at least the exact one, and less than a unit above it."""
    chosen = random.Random(5)
    for sizes in [(1, 1), (3, 2), (7, 12)]:
        one, other = (
            module.Masses(
                chosen.randint(-5, 5), [chosen.randint(1 << 80, ONE // 12) for _ in range(n)], ONE // 9
            )
            for n in sizes
        )
        exact = [F(0)] * (sum(sizes) - 1)
        for i, a in enumerate(one.finite):
            for j, b in enumerate(other.finite):
                exact[i + j] += F(a * b, ONE)
        got = one.convolved(other)
        assert got.lowest == one.lowest + other.lowest
        assert [int(mass) for mass in got.finite] == [math.ceil(mass) for mass in exact]
        beyond = one.infinite * (sum(other.finite) + other.infinite) + sum(one.finite) * other.infinite
        assert got.infinite == math.ceil(F(beyond, ONE))


def check_randomized_response(module):
    """Chords are exact for it, so that its composition is the binomial one of Kairouz, Oh and Viswanath."""
    for step, width, count in [(0.1, 2, 1), (0.1, 3, 5), (0.01, 1, 12), (1.5, 1, 3)]:
        grid = module.Grid(step)
        q = F(grid.numerator, 1 << grid.shift)
        values = [max(F(0), (q**width - q**i) / (1 + q**width)) for i in range(width + 3)]
        single = grid.masses([math.ceil(value * 2**grid.bits) for value in values])
        profile = module.Profile(grid, single.power(count))
        right = q**width / (1 + q**width)
        for point in range(-width * count - 2, width * count + 2):
            exact = sum(
                math.comb(count, k) * right**k * (1 - right) ** (count - k)
                * max(F(0), 1 - q ** (point - width * (2 * k - count)))
                for k in range(count + 1)
            )  # fmt: skip
            epsilon = point * exactly(grid.low if point >= 0 else grid.high)
            assert exact <= profile.delta(epsilon) <= exact + F(1, 2**80)


def check_discrete_laplace(module):
    """On a grid of its own losses, Laplace noise is the geometric mechanism: compared by exact convolution."""
    root = F(101, 100)  # e^(step / 2)
    step = 2 * log_bounds(root)[1]
    for width, count in [(1, 3), (4, 4), (9, 2)]:
        grid = module.Grid(float(step), width * step, width)
        profile = module.Profile(grid, grid.masses(grid.laplace(width * step)).power(count))
        single = {i: root ** (i - width) * (root - 1) / (root + 1) for i in range(-width, width)}
        single |= {width: root / (root + 1), -width: root ** (-2 * width + 1) / (root + 1)}
        assert sum(single.values()) == 1
        losses = {0: F(1)}
        for _ in range(count):
            sums = {}
            for i, a in losses.items():
                for j, b in single.items():
                    sums[i + j] = sums.get(i + j, F(0)) + a * b
            losses = sums
        for point in range(-width * count - 1, width * count + 1):
            exact = sum(mass * max(F(0), 1 - root ** (2 * (point - i))) for i, mass in losses.items())
            below = point * 2 * log_bounds(root)[point < 0]
            assert exact <= profile.delta(below) <= exact + F(1, 2**80)


def check_profiles(module):
    """Delta at grid points is never below the truth, and near it."""
    with mp.workdps(60):
        for step, squares, rates in [
            (0.01, [F(1, 9), F(1, 10**5), F(4)], [F(1, 10), F(1, 3), F(1, 1000)]),
            (0.12, [F(1), F(20)], [F(30), F(1, 7)]),
            (1e-9, [F(1, 10**16)], [F(1, 10**8)]),
        ]:
            grid = module.Grid(step)
            h = mp.log(mp.mpf(grid.numerator) / mp.mpf(2) ** grid.shift)
            for square in squares:
                mu = mp.sqrt(mp.mpf(square.numerator) / square.denominator)
                values = grid.gaussian(square)
                for i in {*range(0, len(values), len(values) // 30 + 1), len(values) - 1}:
                    first, second = (i * h / mu - mu / 2) / mp.sqrt(2), (i * h / mu + mu / 2) / mp.sqrt(2)
                    exact = (mp.erfc(first) - mp.exp(i * h) * mp.erfc(second)) / 2
                    assert 0 <= values[i] - exact * 2**grid.bits <= 3
            for rate in rates:
                values = grid.laplace(rate)
                for i in {*range(0, len(values), len(values) // 30 + 1), len(values) - 1}:
                    exact = 1 - mp.exp((i * h - mp.mpf(rate.numerator) / rate.denominator) / 2)
                    assert 0 <= values[i] - max(0, exact) * 2**grid.bits <= 100


def check_gaussian_compositions(module):
    for square, count, epsilon in [(F(1, 100), 7, 1), (F(1, 4), 3, F(5, 2)), (F(2), 2, 8)]:
        grid = module.Grid(math.sqrt(square) / 20)
        losses = grid.masses(grid.gaussian(square)).power(count)
        assert sum(losses.finite) + losses.infinite >= ONE  # the profile at e^epsilon = 0
        exact = gaussian_delta(F(epsilon), square * count)
        assert exact <= module.Profile(grid, losses).delta(F(epsilon)) <= exact * F(1005, 1000)


CHECKS = [
    check_convolution, check_randomized_response, check_discrete_laplace, check_profiles, check_gaussian_compositions,
]  # fmt: skip


@pytest.mark.parametrize("check", CHECKS)
def test_no_composition_is_below_the_truth(check):
    check(loss_distributions)


@pytest.mark.long
def test_epsilons_are_those_of_dp_accounting():
    """Never below its optimistic epsilon, and near its pessimistic one; benchmarks/budget.py prints both."""
    spec = importlib.util.spec_from_file_location("compositions", BENCHMARK)
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    for loss, delta in benchmark.COMPOSITIONS:
        lower, upper = (
            benchmark.epsilon_of_the_library(loss, delta, step=1e-3, pessimistic=pessimistic)
            for pessimistic in (False, True)
        )
        ours = float(loss.epsilon(delta))
        assert lower <= ours <= upper * 1.001 and upper <= ours * 1.01


def test_parameters_at_the_edge():
    for laplace, gaussian in [
        (((F(1), 2),), F(1, 10**400)),
        (((F(1, 10**300), 5),), F(1)),
        (((F(1), 1), (F(1, 10**5), 10_000)), F(0)),
        (((F(1000), 2),), F(30)),
        (((F(1, 10**50), 40),), F(0)),
    ]:
        deltas = loss_distributions.pld_deltas(
            (F(-(10**9)), F(-1), F(0), F(1, 10**60), F(1), F(10**9)), laplace, gaussian
        )
        assert deltas[0] == 1 and list(deltas) == sorted(deltas, reverse=True)
        assert deltas[-1] < F(1, 2**70)
    assert loss_distributions.pld_deltas((F(1),), ((F(1, 10**80), 5),), F(0)) is None
    assert loss_distributions.pld_deltas((F(1),), ((F(10**400), 5),), F(0)) is None
