"""Delta of composed losses, against quadrature with many digits and against enumeration."""

import itertools
import math
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


def coin(loss, times=1, part=2):
    return loss, loss**2 / part, times


def exact(x):
    return mp.mpf(x.numerator) / x.denominator


def laplace_delta(shift, epsilon):
    """The delta of Laplace noise of scale 1 at any epsilon, by integrating densities."""
    if epsilon >= shift:
        return mp.mpf(0)
    if epsilon <= -shift:
        return 1 - mp.exp(epsilon)
    return 1 - mp.exp((epsilon - shift) / 2)


def composed(shifts, epsilon):
    """Delta of several Laplace noises: the mean over the loss of one of the delta of the others."""
    first, *rest = shifts
    if not rest:
        return laplace_delta(first, epsilon)
    own = mp.mpf(1) / 2 * composed(rest, epsilon - first)
    own += mp.exp(-first) / 2 * composed(rest, epsilon + first)
    reach = sum(rest)
    signed = [sum(s) for s in itertools.product(*[(-x, x) for x in rest])]
    kinks = {x for x in (epsilon - s for s in [*signed, reach, -reach]) if -first < x < first}
    places = sorted({-first, first, *kinks})

    def at(loss):  # between -first and first losses have the density e^((l - first)/2) / 4
        return mp.exp((loss - first) / 2) / 4 * composed(rest, epsilon - loss)

    return own + mp.quad(at, places)


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
        tail, high = mp.ncdf(-exact(abs(x))), exact(composition.tail_above("gaussian", abs(x)))
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


@pytest.mark.parametrize(
    ("shifts", "epsilon"),
    [
        (["1"], "1/2"), (["1", "1"], "1"), (["1", "1"], "19/10"), (["1/2", "3/10"], "2/5"),
        (["1/10", "2"], "3/2"), (["2", "1/3"], "-1/4"),
        pytest.param(["1/2", "1/2", "1/2"], "1", marks=pytest.mark.long),
        pytest.param(["1/2", "2/5", "7/10"], "6/5", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_laplace_by_quadrature(shifts, epsilon):
    with mp.workdps(15):
        true = composed([exact(Fraction(x)) for x in shifts], exact(Fraction(epsilon)))
    loss = Loss(laplace=tuple((Fraction(x), 1) for x in shifts))
    for enough, near in ((ZERO, 1e-4), (Fraction(float(true) * 1.05), 0.05)):
        found = exact(loss.delta(Fraction(epsilon), enough))
        assert true * (1 - mp.mpf(10) ** -12) <= found <= true * (1 + near) + mp.mpf(10) ** -12


def test_laplace_noises_that_are_alike_are_one_entry():
    many = Loss(laplace=((Fraction(1, 4), 5), (Fraction(0), 7)))
    one_by_one = Loss(laplace=((Fraction(1, 4), 1),) * 5)
    assert abs(many.delta(Fraction(1), ZERO) - one_by_one.delta(Fraction(1), ZERO)) < Fraction(1, 10**12)
    assert many.delta(Fraction(5, 4), ZERO) == 0 < many.delta(Fraction(124, 100), ZERO)


@pytest.mark.parametrize("pure", [[("1/2", 4)], [("1/3", 3), ("1", 2)], [("3", 1)], [("1/8", 9)]])
def test_pure_losses_by_enumeration(pure):
    pure = tuple((Fraction(p), n) for p, n in pure)
    ways = list(coins([(exact(p), n) for p, n in pure]))
    whole = sum(p * n for p, n in pure)
    for epsilon in (whole * Fraction(i, 10) for i in range(11)):
        true = mp.fsum(w * max(1 - mp.exp(exact(epsilon) - loss), 0) for w, loss in ways)
        found = exact(Loss(tuple(coin(*pair) for pair in pure)).delta(epsilon, ZERO))
        assert true - mp.mpf(10) ** -35 <= found <= true * (1 + mp.mpf(2) ** -34) + mp.mpf(10) ** -35


def test_pure_losses_beside_noise():
    pure = ((Fraction(1, 2), 2), (Fraction(1, 5), 1))
    own = tuple(coin(*pair) for pair in pure)
    ways = list(coins([(exact(p), n) for p, n in pure]))
    epsilon = Fraction(3, 2)
    true = mp.fsum(w * gaussian_delta(mp.mpf(1) / 2, exact(epsilon) - loss) for w, loss in ways)
    found = exact(Loss(own, mu_squared=Fraction(1, 4)).delta(epsilon, ZERO))
    assert true <= found <= true * (1 + mp.mpf(2) ** -34)
    true = mp.fsum(w * laplace_delta(mp.mpf(1), exact(epsilon) - loss) for w, loss in ways)
    found = exact(Loss(own, laplace=((Fraction(1), 1),)).delta(epsilon, ZERO))
    assert true <= found <= true * (1 + mp.mpf(10) ** -4)


def test_gaussian_noise_is_composed_with_laplace_noise():
    """At least the truth, by quadrature over the loss of Laplace noise; a coin of its loss is the bound."""
    shift, epsilon, mu = mp.mpf(1) / 2, mp.mpf(1), mp.mpf(1) / 2
    density = lambda loss: mp.exp((loss - shift) / 2) / 4 * gaussian_delta(mu, epsilon - loss)  # noqa: E731
    true = gaussian_delta(mu, epsilon - shift) / 2 + mp.exp(-shift) / 2 * gaussian_delta(mu, epsilon + shift)
    true += mp.quad(density, [-shift, 0, shift])
    found = exact(Loss(laplace=((Fraction(1, 2), 1),), mu_squared=Fraction(1, 4)).delta(Fraction(1), ZERO))
    coins_bound = mp.fsum(w * gaussian_delta(mu, epsilon - loss) for w, loss in coins([(shift, 1)]))
    assert true <= found <= coins_bound * (1 + mp.mpf(2) ** -34)


@pytest.mark.parametrize("times", [1024, pytest.param(4096, marks=pytest.mark.long)])
def test_many_pure_losses_beside_gaussian_noise(times):
    """As many as plans compose one by one, whose chances are beyond floats."""
    loss, mu_squared, epsilon = Fraction(1, 8 * times), Fraction(1, 20), Fraction(1)
    odds = mp.exp(-exact(loss))
    weight, mu, true = (1 / (1 + odds)) ** times, mp.sqrt(exact(mu_squared)), mp.mpf(0)
    for i in range(times + 1):
        true += weight * gaussian_delta(mu, exact(epsilon - (times - 2 * i) * loss))
        weight *= odds * (times - i) / (i + 1)
    found = exact(Loss((coin(loss, times),), mu_squared=mu_squared).delta(epsilon, Fraction(float(true))))
    assert true <= found <= true * (1 + mp.mpf(2) ** -30)


def test_many_pure_losses_are_added_up():
    loss = Loss((coin(Fraction(1, 1000), 5000), coin(Fraction(1), 3)))
    true = (mp.exp(8) - mp.exp(1)) / (mp.exp(8) + 1)
    mixed = composition.total(
        chance * composition.gaussian_delta(Fraction(0), 1 - own)
        for chance, own in composition._mixed(loss.pairs)
    )
    assert abs(exact(mixed) - true) < mp.mpf(10) ** -11
    assert loss.delta(Fraction(1), ZERO) < mixed  # as of zero-concentrated DP


@pytest.mark.parametrize(("chance", "times"), [("1/1000000", 7), ("1/3", 2), ("1", 3), ("1/1000", 10**6)])
def test_any_of_many(chance, times):
    chance = Fraction(chance)
    with mp.workdps(60):
        true = 1 - (1 - exact(chance)) ** times
        found = exact(composition.any_of_many(chance, times))
        assert true * (1 - mp.mpf(10) ** -50) <= found <= true * (1 + mp.mpf(10) ** -50)


def test_zero_concentrated():
    coins = coin(Fraction(1, 2), 3), coin(Fraction(1), 8, 8)
    loss = Loss(coins, ((Fraction(1, 4), 2),), Fraction(1, 5))
    assert loss.rho == Fraction(3, 8) + 1 + Fraction(1, 16) + Fraction(1, 10)
    assert loss.epsilon is None and math.isclose(Loss(loss.coins).epsilon, 9.5)


def test_many_pure_losses_beside_laplace_noise():
    """Statistics whose numbers do not move together have pure losses: in many groups, too many to mix."""
    coins = coin(Fraction(1, 70), 40), coin(Fraction(1, 45), 40)
    few = Loss(coins, laplace=((Fraction(1, 70), 80),)).delta(Fraction(1), ZERO)
    alike = Loss(laplace=((Fraction(1, 70), 120), (Fraction(1, 45), 40))).delta(Fraction(1), ZERO)
    assert alike < few < alike * Fraction(11, 10)


def test_coins_beside_laplace_noise_are_mixed_one_by_one():
    """As they are where each side of each coin moves the epsilon of the noise."""
    for loss, times, epsilon in (
        (Fraction(1, 3), 3, Fraction(2)),
        (Fraction(2), 2, Fraction(4)),
        (Fraction(1, 9), 4, Fraction(1, 2)),
    ):
        noise = Loss(laplace=((Fraction(3, 4), 2),))
        right, mixed = 1 / (1 + math.exp(-loss)), 0.0
        for i in range(times + 1):
            chance = math.comb(times, i) * right ** (times - i) * (1 - right) ** i
            mixed += chance * float(noise.delta(epsilon - (times - 2 * i) * loss, Fraction(1, 10**12)))
        found = float(Loss((coin(loss, times),), laplace=noise.laplace).delta(epsilon, Fraction(1, 10**12)))
        assert mixed * (1 - 1e-4) < found < mixed * (1 + 1e-3)


def test_the_largest_losses_of_laplace_noise():
    """Beyond 64 what is more is lost for sure; of one number that is exact but for the grid."""
    for loss in (Fraction(63), Fraction(100), Fraction(5000)):
        exact = 1 - math.exp(-1 / 2)
        found = float(Loss(laplace=((loss, 1),)).delta(loss - 1, Fraction(1, 10**6)))
        assert exact <= found < exact * 1.01


def test_no_chance_is_below_what_floats_hold():
    """Picks whose losses may be above the epsilon that is claimed have some delta, however small."""
    loss = Loss((coin(Fraction(100_001, 100_000), 100_000, 8),))
    assert loss.delta(Fraction(100_000), Fraction(0)) > 0


def test_rare_losses_count_as_larger_ones():
    first, chances = composition._added((-2, [1, 1, 10**18, 1, 1]), (-2, [1, 1, 10**18, 1, 1]), 18)
    assert (first, len(chances)) == (0, 5) or first + len(chances) <= 5
    assert sum(chances) * 10**18 >= (10**18 + 4) ** 2


def test_losses_below_epsilon_do_not_count():
    losses = -1, [7 * 10**20, 10**20, 10**20]
    found = exact(composition._hockey_stick(losses, Fraction(1), Fraction(1, 2)) / 10**20)
    true = 1 - mp.exp(-mp.mpf(1) / 2)
    assert true <= found < true * (1 + mp.mpf(10) ** -40)


@pytest.mark.parametrize("enough", [Fraction(1, 10), Fraction(1, 10**9), Fraction(1, 10**40)])
def test_no_bound_is_below_that_of_fewer_noises(enough):
    """Whichever of the bounds is the least, and wherever it stops to be sharpened."""
    rng = random.Random(str(enough))
    for _ in range(12):
        laplace = tuple((Fraction(rng.randint(1, 40), 20), 1) for _ in range(rng.randint(1, 2)))
        epsilon = sum(loss for loss, _ in laplace) * Fraction(rng.randint(1, 9), 10)
        with mp.workdps(15):
            true = composed([exact(loss) for loss, _ in laplace], exact(epsilon))
        found = exact(Loss(laplace=laplace).delta(epsilon, enough))
        assert found >= true * (1 - mp.mpf(10) ** -9)
        assert found <= max(true * (1 + mp.mpf(10) ** -3), exact(enough))


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
