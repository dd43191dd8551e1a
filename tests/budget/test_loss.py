"""Composed losses against independent truths: closed formulas and quadrature in mpmath."""

from fractions import Fraction as F

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.budget import Loss
from sfumato.budget.closed_forms import falling_average, gaussian_delta, joined_delta, mixture
from sfumato.errors import BudgetError

D = F(1, 10**6)


def real(x):
    return mp.mpf(x.numerator) / x.denominator


def gauss(epsilon, mu):
    root = mp.sqrt(2)
    first, second = (epsilon / mu - mu / 2) / root, (epsilon / mu + mu / 2) / root
    return mp.erfc(first) / 2 - mp.exp(epsilon) * mp.erfc(second) / 2


def k_coins(epsilon, rate, k):
    """Exact delta of k biased coins, the most that k mechanisms of a pure epsilon lose."""
    right = 1 / (1 + mp.exp(-rate))
    return sum(
        mp.binomial(k, j)
        * right**j
        * (1 - right) ** (k - j)
        * max(0, 1 - mp.exp(epsilon - (2 * j - k) * rate))
        for j in range(k + 1)
    )


def laplace_beside(profile, epsilon, rate, pieces=8):
    """Delta of one Laplace noise beside a mechanism with this profile, by quadrature over the loss."""
    density = lambda loss: mp.exp((loss - rate) / 2) / 4 * profile(epsilon - loss)  # noqa: E731
    middle = mp.quad(density, mp.linspace(-rate, rate, pieces + 1), maxdegree=6 if pieces > 1 else 4)
    return profile(epsilon - rate) / 2 + mp.exp(-rate) / 2 * profile(epsilon + rate) + middle


@pytest.mark.parametrize(
    "epsilon, rate, k", [("0.1", "0.3", 2), ("1", "0.4", 5), ("5", "1.5", 6), ("0.5", "0.55", 1)]
)
def test_equal_laplace_noises(epsilon, rate, k):
    ours = Loss(laplace=((F(rate), k),)).delta(epsilon)
    with mp.workdps(80):
        exact = k_coins(real(F(epsilon)), real(F(rate)), k)
        assert exact <= real(ours) <= exact * (1 + mp.mpf(10) ** -30)


@pytest.mark.parametrize(
    "epsilon, rate, mu", [("1", "0.3", "0.2"), pytest.param("1", "1.2", "0.1", marks=pytest.mark.long)]
)
def test_laplace_beside_gaussian(epsilon, rate, mu):
    ours = Loss(laplace=((F(rate), 1),), gaussian=F(mu) ** 2).delta(epsilon)
    with mp.workdps(40):
        exact = laplace_beside(lambda x: gauss(x, real(F(mu))), real(F(epsilon)), real(F(rate)))
        assert exact <= real(ours) <= exact * 2  # a coin of its epsilon loses a little more


@pytest.mark.parametrize("count", [1, 3])
def test_approximate_beside_gaussian(count):
    """The hockey stick of the product itself, over the Gaussian's outcomes: no use of any profile."""
    e, d, mu, epsilon = F(1, 4), F(1, 10**7), F(1, 5), F(1)
    ours = Loss(approximate=((e, d, count),), gaussian=mu**2).delta(epsilon)
    with mp.workdps(40):
        p = mp.exp(real(e)) / (1 + mp.exp(real(e)))
        m = real(mu)
        noise = mp.mpf(0)
        for right in range(count + 1):
            upper = mp.binomial(count, right) * p**right * (1 - p) ** (count - right)
            lower = mp.binomial(count, right) * (1 - p) ** right * p ** (count - right)
            crossing = m / 2 - (1 - mp.log(upper / lower)) / m
            stick = lambda x, u=upper, w=lower: u * mp.npdf(x) - mp.e * w * mp.npdf(x, m)  # noqa: E731
            noise += mp.quad(stick, [crossing - 14, crossing - 4, crossing])
        leak = 1 - (1 - real(d)) ** count
        exact = leak + (1 - leak) * noise
        assert exact <= real(ours) * (1 + mp.mpf(10) ** -15)
        assert real(ours) <= exact * (1 + mp.mpf(10) ** -9)


def test_basic_composition_is_exact():
    loss = Loss(laplace=((F(1, 3), 3),), approximate=((F(1, 2), D, 1),), additive_delta=D)
    assert loss.basic_epsilon == F(3, 2)
    assert loss.least_delta == loss.delta("1.5") == 2 * D
    assert loss.delta("1.4999") > 2 * D
    assert loss.epsilon(2 * D) == F(3, 2)


def test_a_joint_bound_of_laplace_noises_counts():
    apart = Loss(laplace=((F(1, 2), 4),))
    joint = Loss(laplace=((F(1, 2), 4),), pure=F(1))
    assert joint.delta(1) == 0 < apart.delta(1)
    assert joint.epsilon(0) == 1
    assert joint.delta("0.5") <= apart.delta("0.5")
    beside = Loss(gaussian=F(1, 100))
    assert (joint + beside).delta(1) <= (apart + beside).delta(1)
    assert (joint + apart).basic_epsilon == 3
    assert Loss(laplace=((F(1, 2), 2),), pure=F(5)) == Loss(laplace=((F(1, 2), 2),))


def test_addition():
    a = Loss(gaussian=F(1), laplace=((F(1), 2),), additive_delta=D)
    b = Loss(gaussian=F(2), laplace=((F(1), 1), (F(1, 2), 1)), approximate=((F(1), D, 3),))
    assert a + b == b + a == Loss(F(3), ((F(1, 2), 1), (F(1), 3)), None, ((F(1), D, 3),), D)
    assert a + Loss() == a
    assert a.scaled(2) == Loss(gaussian=F(1, 4), laplace=((F(1, 2), 2),), additive_delta=D)
    assert Loss() == Loss(0, [], None, [], 0) and Loss().delta(1) == 0 and Loss().epsilon(0) == 0
    with pytest.raises(TypeError):
        a + 1


def test_failure_is_added():
    loss = Loss(gaussian=F(1, 20))
    assert (loss + Loss(additive_delta=D)).delta(1) == loss.delta(1) + D
    assert Loss(additive_delta=F(2)).delta(1) == 1


@pytest.mark.parametrize(
    "loss",
    [
        Loss(gaussian=F(1, 7)),
        Loss(gaussian=F(1, 30), approximate=((F(1, 20), D / 10, 4),)),
        Loss(gaussian=F(1, 30), laplace=((F(1, 20), 4),), additive_delta=D / 3),
        Loss(laplace=((F(1, 10), 30),)),
        Loss(approximate=((F(1, 10), D / 1000, 60),)),
    ],
)
def test_epsilon_is_the_inverse_of_delta(loss):
    epsilon = loss.epsilon(D)
    assert loss.delta(epsilon) <= D < loss.delta(epsilon * (1 - F(1, 2**18)))


def test_very_small_deltas():
    loss = Loss(laplace=((F(1, 100), 20),), gaussian=F(1, 1000))
    assert 0 < loss.delta(2) < F(1, 10**60)
    assert loss.delta(loss.epsilon("1e-100")) <= F("1e-100")


@pytest.mark.long
def test_extremes_stay_upper_bounds_and_quick():
    assert Loss(laplace=((F(10**6), 100),)).delta("1e-3") > F(99, 100)
    assert Loss(laplace=((F(1, 10**9), 10_000),), gaussian=F(1, 10**14)).delta(1) < F(1, 10**20)
    many = Loss(laplace=((F(1, 1000), 100_000),)).delta(1)  # nearly Gaussian: mu^2 = count * rate^2
    limit = gauss(mp.mpf(1), mp.sqrt(mp.mpf("0.1")))
    assert limit * mp.mpf("0.99") < real(many) < limit * 8  # as of zero-concentrated DP
    assert Loss(laplace=((F(1), 5000),), gaussian=F(100)).delta("1e-9") > F(99, 100)
    assert Loss(gaussian=F(10**12)).delta(1) > F(99, 100)


def test_mixture_weights_are_a_distribution_rounded_up():
    losses = mixture([(F(1, 3), 4), (F(1, 7), 2)], 15)
    assert len(losses) == 15 and max(losses) == F(4, 3) + F(2, 7)
    total = sum(F(*map(int, w.as_integer_ratio())) for w in losses.values())
    assert 1 <= total <= 1 + F(1, 2**110)
    assert mixture([(F(1), 1024)], 1024) is None is mixture([(F(1), 31), (F(2), 32)], 1024)


@pytest.mark.parametrize("mu_squared", [F(1, 169), F(4)])
@pytest.mark.parametrize("parts", [[], [(F(1, 2000), 1000)], [(F(1, 8), 1), (F(1, 3), 5)]])
def test_averages_that_stop_early_are_no_smaller_and_hardly_larger(parts, mu_squared):
    losses, asked = mixture(parts, 1024), []

    def delta_at(loss):
        asked.append(loss)
        return gaussian_delta(1 - loss, mu_squared)

    whole = sum(F(*map(int, w.as_integer_ratio())) * delta_at(loss) for loss, w in losses.items())
    asked.clear()
    assert whole * (1 - F(1, 2**100)) <= falling_average(losses, delta_at) <= whole * (1 + F(1, 2**60))
    assert len(asked) <= len(losses) * (0.75 if len(losses) > 100 else 1)


def test_mixtures_of_losses_whose_odds_are_no_number():
    """A search for noise looks at any loss: e^loss is too large for MPFR above 2^30, and its sum is lost for sure."""
    for loss, count in ((F(2**31), 1), (F(2**200), 3), (F(2**31), 1023)):
        losses = mixture([(loss, count)], 1024)
        assert len(losses) == count + 1 and losses[loss * count] == sum(losses.values()) == 1
    assert Loss(laplace=((F(2**31), 40),)).delta(F(1, 10**9)) == 1


@settings(max_examples=20, deadline=None)
@given(st.fractions(F(1, 10**9), F(1, 2)), st.integers(1, 200))
def test_joined_delta(delta, count):
    exact = 1 - (1 - delta) ** count
    assert exact <= joined_delta(delta, count) <= exact * (1 + F(1, 2**200))


@pytest.mark.parametrize("bad", [float("nan"), -1])
@pytest.mark.parametrize("part", ["gaussian", "additive_delta", "pure"])
def test_bad_parts(part, bad):
    with pytest.raises(BudgetError, match=part):
        Loss(**{part: bad})
