"""Delta of composed losses, against quadrature with many digits and against enumeration."""

import itertools
import random
from decimal import localcontext
from fractions import Fraction

import mpmath as mp
import pytest

from sfumato.certificate import composition
from sfumato.certificate.composition import Loss
from sfumato.certificate.description import _steps_left

ZERO = Fraction(1, 10**30)  # nothing is enough


@pytest.fixture(autouse=True)
def many_digits():
    _steps_left.set(1 << 62)
    with mp.workdps(60), localcontext(composition.DIGITS):
        yield


def pure(*coins):
    """The loss of coins, each of a pure epsilon and of how many."""
    whole, squares = (sum(loss**power * times for loss, times in coins) for power in (1, 2))
    return Loss(coins, whole, squares / 2)


def exact(x):
    return mp.mpf(x.numerator) / x.denominator


def gaussian_delta(mu, epsilon):
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def coins(pure):
    """Chances of losses of coins, by enumeration."""
    each = [[(1 / (1 + mp.exp(-p)), p), (1 / (1 + mp.exp(p)), -p)] for p, n in pure for _ in range(n)]
    for way in itertools.product(*each):
        yield mp.fprod(w for w, _ in way), mp.fsum(p for _, p in way)


@pytest.mark.parametrize("seed", range(6))
def test_directed_functions(seed):
    rng = random.Random(seed)
    for _ in range(300):
        x = Fraction(rng.choice([rng.uniform(-40, 40), rng.uniform(-1, 1), rng.uniform(-650, 650)]))
        x += Fraction(1, 3) * Fraction(rng.uniform(0, 1e-6))
        true = mp.exp(exact(x))
        near = mp.mpf(10) ** -44
        assert true < exact(composition.exp_above(x)) < true * (1 + near)
        tail, high = mp.ncdf(-exact(abs(x))), exact(composition.tail_above("gaussian", abs(x), ZERO))
        assert tail <= high and (abs(x) > 36 or high < tail * (1 + near))


@pytest.mark.parametrize("mu", ["0.0003", "0.02", "0.23", "1", "4", "30"])
def test_gaussian(mu):
    mu = Fraction(mu)
    for epsilon in (Fraction(x) for x in ("-3", "-1/7", "0", "1/1000", "1/3", "1", "6", "40")):
        true = gaussian_delta(exact(mu), exact(epsilon))
        found = exact(composition.gaussian_delta(mu**2, epsilon))
        assert true <= found
        if true > mp.mpf(10) ** -290:
            assert found <= true * (1 + mp.mpf(10) ** -15)


def test_numbers_beyond_all_digits_have_bounds():
    assert 0 < composition.exp_above(Fraction(-(10**30))) < Fraction(1, 10**300)
    assert composition.gaussian_delta(Fraction(10**20), Fraction(1)) == 1
    assert 0 < composition.gaussian_delta(Fraction(1, 10**20), Fraction(1)) < Fraction(1, 10**300)
    without_noise = exact(composition.gaussian_delta(Fraction(0), Fraction(-1, 3)))
    assert 0 < without_noise - (1 - mp.exp(-mp.mpf(1) / 3)) < mp.mpf(10) ** -44


@pytest.mark.parametrize("each", [[("1/2", 4)], [("1/3", 3), ("1", 2)], [("3", 1)], [("1/8", 9)]])
def test_pure_losses_by_enumeration(each):
    each = tuple((Fraction(p), n) for p, n in each)
    ways = list(coins([(exact(p), n) for p, n in each]))
    whole = sum(p * n for p, n in each)
    for epsilon in (whole * Fraction(i, 10) for i in range(11)):
        true = mp.fsum(w * max(1 - mp.exp(exact(epsilon) - loss), 0) for w, loss in ways)
        found = exact(pure(*each).delta(epsilon, ZERO))
        assert true - mp.mpf(10) ** -35 <= found <= true * (1 + mp.mpf(2) ** -34) + mp.mpf(10) ** -35


def test_pure_losses_beside_noise():
    """At least the truth also where the pure losses are those of Laplace noise, by quadrature over these."""
    each, epsilon, mu = ((Fraction(1, 2), 2), (Fraction(1, 5), 1)), Fraction(3, 2), Fraction(1, 4)
    ways = list(coins([(exact(p), n) for p, n in each]))
    true = mp.fsum(w * gaussian_delta(mp.mpf(1) / 2, exact(epsilon) - loss) for w, loss in ways)
    found = exact((pure(*each) + Loss(mu_squared=mu)).delta(epsilon, ZERO))
    assert true <= found <= true * (1 + mp.mpf(2) ** -34)
    shift, one, mu = mp.mpf(1) / 2, mp.mpf(1), mp.mpf(1) / 2
    density = lambda loss: mp.exp((loss - shift) / 2) / 4 * gaussian_delta(mu, one - loss)  # noqa: E731
    true = gaussian_delta(mu, one - shift) / 2 + mp.exp(-shift) / 2 * gaussian_delta(mu, one + shift)
    true += mp.quad(density, [-shift, 0, shift])
    found = exact((pure((Fraction(1, 2), 1)) + Loss(mu_squared=Fraction(1, 4))).delta(Fraction(1), ZERO))
    assert true < found < true * mp.mpf("1.2")


def test_a_pure_loss_of_all_counts_where_it_is_less():
    """Of numbers that do not all move at once."""
    each, epsilon = ((Fraction(1, 2), 8),), Fraction(1)
    apart, joint = pure(*each), Loss(each, Fraction(3, 2), Fraction(1, 8))
    assert joint.delta(Fraction(3, 2), ZERO) == 0 < apart.delta(Fraction(3, 2), ZERO)
    one = exact(pure((Fraction(3, 2), 1)).delta(epsilon, ZERO))
    concentrated = exact(composition._concentrated_delta(Fraction(1, 8), epsilon))
    assert exact(joint.delta(epsilon, ZERO)) == min(one, concentrated) < exact(apart.delta(epsilon, ZERO))


@pytest.mark.parametrize("times", [1024, pytest.param(4096, marks=pytest.mark.long)])
def test_many_pure_losses_beside_gaussian_noise(times):
    """As many as plans compose one by one, whose chances are beyond floats."""
    loss, mu_squared, epsilon = Fraction(1, 8 * times), Fraction(1, 20), Fraction(1)
    odds = mp.exp(-exact(loss))
    weight, mu, true = (1 / (1 + odds)) ** times, mp.sqrt(exact(mu_squared)), mp.mpf(0)
    for i in range(times + 1):
        true += weight * gaussian_delta(mu, exact(epsilon - (times - 2 * i) * loss))
        weight *= odds * (times - i) / (i + 1)
    found = exact((pure((loss, times)) + Loss(mu_squared=mu_squared)).delta(epsilon, Fraction(float(true))))
    assert true <= found <= true * (1 + mp.mpf(2) ** -30)


def test_many_pure_losses_are_those_of_zero_concentrated_dp():
    """Where there are more sums of them than are looked at."""
    many = pure((Fraction(1, 1000), 5000), (Fraction(1), 3))
    rho = Fraction(5000, 2 * 10**6) + Fraction(3, 2)
    assert many.rho == rho
    assert many.delta(Fraction(1), ZERO) == composition._concentrated_delta(rho, Fraction(1))


@pytest.mark.parametrize(("chance", "times"), [("1/1000000", 7), ("1/3", 2), ("1", 3), ("1/1000", 10**6)])
def test_any_of_many(chance, times):
    chance = Fraction(chance)
    with mp.workdps(60):
        true = 1 - (1 - exact(chance)) ** times
        found = exact(composition.any_of_many(chance, times))
        assert true * (1 - mp.mpf(10) ** -50) <= found <= true * (1 + mp.mpf(10) ** -50)


def test_addition():
    loss = (
        pure((Fraction(1, 2), 3))
        + Loss(((Fraction(1), 8),), Fraction(8), Fraction(1))
        + Loss(mu_squared=Fraction(1, 5))
    )
    assert loss.coins == ((Fraction(1, 2), 3), (Fraction(1), 8))
    assert (loss.pure, loss.rho) == (Fraction(19, 2), Fraction(3, 8) + 1)
    assert loss.all_rho == loss.rho + Fraction(1, 10)


def test_no_chance_is_below_what_floats_hold():
    """Picks whose losses may be above the epsilon that is claimed have some delta, however small."""
    loss = pure((Fraction(100_001, 100_000), 100_000))
    assert loss.delta(Fraction(100_000), Fraction(0)) > 0


@pytest.mark.parametrize("rho", ["1/1000000", "1/50", "1", "15", "40"])
@pytest.mark.parametrize("epsilon", ["1/1000", "1/3", "4", "60"])
def test_the_delta_of_zero_concentrated_dp(rho, epsilon):
    """The least that any order gives, also near 1, where floats of 1 - 1/order have few digits."""
    rho, epsilon = Fraction(rho), Fraction(epsilon)
    found = exact(composition._concentrated_delta(rho, epsilon))

    def power(log_more):
        more, r, e = mp.exp(log_more), exact(rho), exact(epsilon)
        return more * ((more + 1) * r - e) - mp.log(more) + (more + 1) * mp.log(more / (more + 1))

    low, high = mp.mpf(-60), mp.mpf(20)
    for _ in range(200):
        one, other = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, other) if power(one) < power(other) else (one, high)
    true = mp.exp(min(power(low), mp.mpf(0)))
    assert true <= found <= max(true * (1 + mp.mpf(10) ** -7), mp.mpf(10) ** -304)
