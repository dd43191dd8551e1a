"""Delta of composed losses, against quadrature with many digits and against enumeration."""

import itertools
import math
import random
from fractions import Fraction

import mpmath as mp
import pytest

from sfumato.certificate import numbers
from sfumato.certificate.composition import Loss

ZERO = Fraction(1, 10**30)  # nothing is enough


@pytest.fixture(autouse=True)
def many_digits():
    with mp.workdps(60):
        yield


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
        assert true * (1 - 1e-11) < numbers.exp_below(x) < true < numbers.exp_above(x) < true * (1 + 1e-11)
        tail = mp.ncdf(-exact(x))
        assert numbers.tail_below(x) <= tail <= numbers.tail_above(x)
        if abs(x) < 30:
            near = mp.mpf(2) ** -38
            assert numbers.tail_above(x) < tail * (1 + near) and numbers.tail_below(x) > tail * (1 - near)
        root = numbers.root_above(abs(x))
        assert root**2 >= abs(x) and root**2 <= abs(x) * (1 + Fraction(1, 2**58))


@pytest.mark.parametrize("mu", ["0.0003", "0.02", "0.23", "1", "4", "30"])
def test_gaussian(mu):
    mu = Fraction(mu)
    for epsilon in (Fraction(x) for x in ("-3", "-1/7", "0", "1/1000", "1/3", "1", "6", "40")):
        true = gaussian_delta(exact(mu), exact(epsilon))
        sharp = numbers.gaussian_delta(mu**2, epsilon, Fraction(0))
        rough = numbers.gaussian_delta(mu**2, epsilon, Fraction(1))
        assert true <= exact(sharp) and true <= exact(rough)
        if true > mp.mpf(10) ** -290:
            assert exact(sharp) <= true * (1 + mp.mpf(10) ** -15)
            assert exact(rough) <= true + mp.mpf(2) ** -36 * mp.ncdf(exact(mu / 2 - epsilon / mu))


def test_gaussian_delta_is_the_integral_of_the_densities():
    mu, epsilon = mp.mpf("0.8"), mp.mpf("0.5")

    def positive(x):
        return max(mp.npdf(x, mu) - mp.exp(epsilon) * mp.npdf(x), 0)

    true = mp.quad(positive, [epsilon / mu + mu / 2, 3, 8, 20])
    assert abs(true - gaussian_delta(mu, epsilon)) < mp.mpf(10) ** -25


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
        found = exact(Loss(pure=pure).delta(epsilon, ZERO))
        assert true - mp.mpf(10) ** -35 <= found <= true * (1 + mp.mpf(2) ** -34) + mp.mpf(10) ** -35


def test_pure_losses_beside_noise():
    pure = ((Fraction(1, 2), 2), (Fraction(1, 5), 1))
    ways = list(coins([(exact(p), n) for p, n in pure]))
    epsilon = Fraction(3, 2)
    true = mp.fsum(w * gaussian_delta(mp.mpf(1) / 2, exact(epsilon) - loss) for w, loss in ways)
    found = exact(Loss(pure[:1], pure[1:], mu_squared=Fraction(1, 4)).delta(epsilon, ZERO))
    assert true <= found <= true * (1 + mp.mpf(2) ** -34)
    true = mp.fsum(w * laplace_delta(mp.mpf(1), exact(epsilon) - loss) for w, loss in ways)
    found = exact(Loss(pure, laplace=((Fraction(1), 1),)).delta(epsilon, ZERO))
    assert true <= found <= true * (1 + mp.mpf(10) ** -4)


def test_many_pure_losses_are_added_up():
    loss = Loss(pure=((Fraction(1, 1000), 2000), (Fraction(1), 3)))
    true = (mp.exp(5) - mp.exp(1)) / (mp.exp(5) + 1)
    assert abs(exact(loss.delta(Fraction(1), ZERO)) - true) < mp.mpf(10) ** -11


@pytest.mark.parametrize(("chance", "times"), [("1/1000000", 7), ("1/3", 2), ("1", 3), ("1/1000", 10**6)])
def test_any_of_many(chance, times):
    chance = Fraction(chance)
    with mp.workdps(60):
        true = 1 - (1 - exact(chance)) ** times
        found = exact(numbers.any_of_many(chance, times))
        assert true * (1 - mp.mpf(10) ** -50) <= found
        assert times > 1000 or found <= true * (1 + mp.mpf(10) ** -50)


def test_zero_concentrated():
    loss = Loss(((Fraction(1, 2), 3),), ((Fraction(1), 8),), ((Fraction(1, 4), 2),), Fraction(1, 5))
    assert loss.rho == Fraction(3, 8) + 1 + Fraction(1, 16) + Fraction(1, 10)
    assert loss.epsilon is None and math.isclose(Loss(loss.pure, loss.ranged).epsilon, 9.5)
