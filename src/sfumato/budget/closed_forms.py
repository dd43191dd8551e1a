"""Closed forms, rounded outward: the privacy of Gaussian noise, of zCDP, and of pure mechanisms together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Any

from sfumato.budget.epsilon_delta import admissible_delta, admissible_epsilon
from sfumato.errors import BudgetError
from sfumato.exact import positive, root_up, round_up
from sfumato.exact.library_settings import isolated
from sfumato.exact.outward_rounding import convert, directed, exactly, expm1_down, log2, round_bits, tail
from sfumato.exact.root_finding import crossing, halve, log_ratio

SMALLEST = Fraction(1, 2**2048)  # a delta that is smaller is reported as this one
BITS_OF_CHANCES = 128
OUT_OF_RANGE = 54  # Phi(-54) < e^(-54^2/2) < 2^-2100 < SMALLEST

Chances = dict[Fraction, Any]  # a privacy loss -> its probability, an upper bound in MPFR


@isolated
def gaussian_delta(epsilon: Fraction, mu_squared: Fraction) -> Fraction:
    """Return the delta of Gaussian noise in closed form, an upper bound tight to about 2^-50 of it.

    The two terms are rounded apart (the first up, the second down), at numbers epsilon' <= epsilon
    and mu' >= mu that MPFR holds exactly; both replacements only raise delta. Where the two cancel,
    the precision is doubled until what remains is accurate.

    Args:
        epsilon: any rational; negative too, as mixtures need it.
        mu_squared: (L2 sensitivity / sigma)^2, at least 0.
    Returns:
        A rational in [0, 1]; where delta is below 2^-2048, that number.
    Source:
        Balle and Wang 2018, theorem 8.

    >>> float(gaussian_delta(Fraction(1), Fraction(1)))
    0.126936737506...
    """
    if mu_squared == 0:
        return -expm1_down(epsilon, 128) if epsilon < 0 else Fraction(0)
    bits = 128
    while True:
        down, up = directed(bits)
        mu = up.sqrt(convert(mu_squared, up))
        eps = convert(epsilon, down)
        half = up.div(mu, 2)
        # Every operation, a change of sign included, goes through a context: bare operators round to 53 bits.
        minus_first = down.sub(down.div(eps, mu), half)
        if minus_first > OUT_OF_RANGE:
            return SMALLEST
        minus_second = up.add(up.div(eps, mu), half)
        raised = up.div(tail(minus_first, bits, up=True), 2)
        lowered = down.div(tail(minus_second, bits, up=False), 2)
        delta = up.sub(raised, down.mul(down.exp(eps), lowered))
        lost = up.mul(raised, up.add(1, up.square(minus_first)))  # about 2^bits times the error
        if up.mul_2exp(delta, bits - 60) >= lost or bits >= 8192:
            return min(Fraction(1), max(SMALLEST, exactly(delta)))
        bits *= 2


@isolated
def gaussian_mu(epsilon: object, delta: object) -> Fraction:
    """Return the largest mu = L2 sensitivity / sigma that (epsilon, delta) allows, rounded down.

    The result is rounded down to 56 bits from a mu that `gaussian_delta` confirms to be within delta. Several
    Gaussian noises together are within (epsilon, delta) exactly when the sum of their mu^2 is at most the
    square of this.

    Args:
        epsilon: finite number greater than 0.
        delta: number in (0, 1), not below 2^-1900.
    Returns:
        mu, a Fraction greater than 0, too small by at most about 2^-50 of it.
    Raises:
        BudgetError: epsilon or delta is out of range.
    Source:
        Balle and Wang 2018, algorithm 1, with regula falsi in place of bisection.

    >>> float(gaussian_mu(1, "1e-6"))
    0.236704380...
    """
    eps = admissible_epsilon(epsilon)
    target = admissible_delta(delta, zero=False)
    if target < Fraction(1, 2**1900):
        raise BudgetError("delta is below 2^-1900, but Gaussian noise needs a larger one")
    return _largest_mu(eps, target)


@lru_cache(maxsize=256)  # a plan asks several times for the same budget
def _largest_mu(eps: Fraction, target: Fraction) -> Fraction:
    def height(mu: Fraction) -> float:
        return log_ratio(gaussian_delta(eps, mu * mu), target)

    guess = _first_guess(log2(target), eps)
    # A float holds the logarithm of mu well enough to come near, and then mu's distance from there.
    near = crossing(lambda x: height(guess * Fraction(2.0**-x)), 0.0, 2.0**-30, stride=2.0**-6, reach=500.0)
    assert near is not None
    begin = guess * Fraction(2.0**-near)
    rest = crossing(lambda x: height(begin * (1 - Fraction(x))), 0.0, 2.0**-54, stride=2.0**-31, reach=0.5)
    assert rest is not None
    return round_bits(begin * (1 - Fraction(rest)), 56, up=False)


def _first_guess(log2_delta: float, epsilon: Fraction) -> Fraction:
    # delta < Phi(-z) at z = epsilon/mu - mu/2, and Phi(-z) is about e^(-z^2/2) / 2. Solved for mu, each
    # form of the root without cancellation.
    z = math.sqrt(-2 * math.log(2) * (log2_delta + 1)) if log2_delta < -1 else -3.0
    root = math.sqrt(z * z + 2 * float(epsilon))
    return Fraction(2 * float(epsilon) / (z + root) if z > 0 else root - z)


@lru_cache(maxsize=1024)
def pure_mu(epsilon: Fraction) -> Fraction:
    """Return, in closed form, a mu at which every epsilon-DP mechanism is mu-Gaussian-DP, rounded up.

    No test of an epsilon-DP mechanism is better than randomized response, whose errors are both
    1/(1 + e^epsilon) at best. A Gaussian shift of mu that gets both as low is more revealing everywhere: its
    trade-off is convex, below that point, and shares the ends.

    Args:
        epsilon: greater than 0.
    Source:
        Dong, Roth and Su 2022, "Gaussian differential privacy", section 2.2; Wasserman and Zhou 2010.

    >>> float(pure_mu(Fraction(1)))
    1.23203...
    """
    far = root_up(2 * epsilon)  # P(N > x) <= e^(-x^2/2) / 2, and (1 + e^epsilon) / 2 <= e^epsilon
    if epsilon > 1000:
        return 2 * far
    bits = 192
    down, up = directed(bits)
    goal = down.div(1, up.add(1, up.exp(convert(epsilon, up))))  # P(N > mu/2) must be no more

    def enough(half: Fraction) -> bool:
        return bool(up.div(tail(half, bits, up=True), 2) <= goal)

    near = min(far, epsilon) / 4
    for _ in range(64):
        middle = (near + far) / 2
        near, far = (near, middle) if enough(middle) else (middle, far)
    return 2 * round_bits(far, 64, up=True)


def pure_epsilon(mu: Fraction) -> Fraction:
    """Return nearly the largest epsilon whose `pure_mu` is at most mu, in closed form.

    Args:
        mu: at least 0; below 2^-20 nothing is left.

    >>> float(pure_epsilon(Fraction(1)))
    0.80696...
    """
    if mu < Fraction(1, 2**20):
        return Fraction(0)
    most = mu * mu / 8  # P(N > mu/2) is less than e^(-mu^2/8) / 2
    if most < 900:
        bits = 192
        down, up = directed(bits)
        beyond = up.div(tail(mu / 2, bits, up=True), 2)
        most = exactly(down.log(down.div(down.sub(1, beyond), beyond)))
    return most * (1 - Fraction(1, 2**30))  # pure_mu is rounded up


@isolated
def gaussian_sigma(l2_sensitivity: object, epsilon: object, delta: object) -> float:
    """Return the smallest sigma of Gaussian noise that gives (epsilon, delta), rounded up.

    Args:
        l2_sensitivity: number greater than 0, in the unit of the statistic.
        epsilon: finite number greater than 0.
        delta: number in (0, 1).
    Returns:
        sigma, in the unit of the statistic.
    Raises:
        BudgetError: epsilon or delta is out of range.
        ParameterError: the sensitivity is not greater than 0.
    Source:
        Balle and Wang 2018, algorithm 1.

    >>> round(gaussian_sigma(1, 1, "1e-6"), 6)
    4.224679
    """
    return round_up(positive(l2_sensitivity, "l2_sensitivity") / gaussian_mu(epsilon, delta))


BITS = 128


@isolated
def zcdp_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """Return an epsilon at which rho-zCDP is (epsilon, delta)-DP, rounded up.

    Args:
        rho: greater than 0.
        delta: in (0, 1).

    >>> float(zcdp_epsilon(Fraction(1, 2), Fraction(1, 10**6)))
    5.22153...
    """
    log_delta = math.log(delta.numerator) - math.log(delta.denominator)
    rate = _moderate(rho)
    excess = _least_excess(lambda x: rate * x * x + log_delta + math.log1p(x))
    down, up = directed(BITS)
    order = 1 + excess
    # ln(1 - 1/a) = -ln(1 + 1/excess); ln(1 / (a delta)) may have either sign.
    gained = exactly(down.log1p(convert(1 / excess, down)))
    leak = exactly(up.log(convert(1 / (order * delta), up)))
    return max(Fraction(0), round_bits(order * rho - gained + leak / excess, 64, up=True))


@isolated
def zcdp_delta(rho: Fraction, epsilon: Fraction) -> Fraction:
    """Return a delta at which rho-zCDP is (epsilon, delta)-DP, rounded up; at most 1.

    Args:
        rho: greater than 0.
        epsilon: at least 0.

    >>> float(zcdp_delta(Fraction(1, 2), Fraction(2)))
    0.05429...
    """
    rate, gap = _moderate(rho), epsilon - rho
    wide = float(min(gap, Fraction(2**1000)))
    excess = _least_excess(lambda x: 2 * rate * x - wide - math.log1p(1 / x))
    down, up = directed(BITS)
    gained = down.mul(convert(excess, down), down.log1p(convert(1 / excess, down)))
    gained = down.add(gained, down.log1p(convert(excess, down)))
    return min(Fraction(1), exactly(up.exp(up.sub(convert(excess * (excess * rho - gap), up), gained))))


@isolated
def zcdp_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return a rho, near the largest, at which zCDP is (epsilon, delta)-DP by `zcdp_delta`.

    Args:
        epsilon: greater than 0.
        delta: in (0, 1).
    Returns:
        A rho within about 2^-40 epsilon of the largest; 0 where none is found.

    >>> float(zcdp_rho(Fraction(3), Fraction(1, 10**6)))
    0.18506...
    """
    low, high = Fraction(0), epsilon
    for _ in range(40):
        middle = (low + high) / 2
        if zcdp_delta(middle, epsilon) <= delta:
            low = middle
        else:
            high = middle
    return low


def _moderate(rho: Fraction) -> float:
    return float(min(max(rho, Fraction(1, 2**1000)), Fraction(2**1000)))


def _least_excess(slope: Callable[[float], float]) -> Fraction:
    """Return the best Renyi order less 1 for converting zCDP: where the slope of the bound is near 0."""
    place, _ = halve(lambda x: slope(2.0 ** float(x)) >= 0, -600.0, 600.0, 64)
    return round_bits(Fraction(2.0 ** float(place)), 53, up=True)


def joined_delta(delta: Fraction, count: int) -> Fraction:
    """Return 1 - (1 - delta)^count in closed form: the probability of at least one of `count` events.

    >>> joined_delta(Fraction(1, 4), 1)
    Fraction(1, 4)
    """
    if count == 1 or delta == 0:
        return delta
    down, up = directed(256)
    # -expm1(count * log1p(-delta)), each step rounded so that the result is above
    inner = down.mul(down.log1p(convert(-delta, down)), count)
    return exactly(up.minus(down.expm1(inner)))


def coins(epsilon: Fraction, count: int) -> list[Any]:
    """Return the chances of the losses (2j - count) * epsilon of biased coins, rounded up.

    A mechanism of a pure epsilon loses no more than a coin whose sides have the odds e^epsilon.

    Args:
        epsilon: of each coin.
        count: how many there are.
    """
    down, up = directed(BITS_OF_CHANCES)
    odds = up.exp(convert(-epsilon, up))  # of the smaller loss; those of the larger may be too large a number
    weight = up.pow(up.div(1, down.add(1, down.exp(convert(-epsilon, down)))), count)
    weights = []
    for left in range(count + 1):
        weights.append(weight)
        weight = up.div(up.mul(weight, up.mul(odds, count - left)), left + 1)
    return weights[::-1]


def mixture(parts: Iterable[tuple[Fraction, int]], max_sums: int) -> Chances | None:
    """Return the loss distribution of pure mechanisms together, exact for coins of their epsilons.

    Args:
        parts: (epsilon, count) of pure mechanisms.
        max_sums: how many sums of losses are added up one by one.
    Returns:
        Loss -> probability rounded up; None where there are more sums.
    Source:
        Kairouz, Oh and Viswanath 2015, "The composition theorem for differential privacy".
    """
    parts = [(epsilon, count) for epsilon, count in parts if epsilon]
    if math.prod(count + 1 for _, count in parts) > max_sums:
        return None
    up = directed(BITS_OF_CHANCES).up
    chances: Chances = {Fraction(0): convert(1, up)}
    for epsilon, count in parts:
        single = [((2 * right - count) * epsilon, w) for right, w in enumerate(coins(epsilon, count))]
        joined: Chances = {}
        for loss, weight in chances.items():
            for other, factor in single:
                place = loss + other
                joined[place] = up.add(joined.get(place, 0), up.mul(weight, factor))
        chances = joined
    return chances


def falling_average(chances: Chances, delta_at: Callable[[Fraction], Fraction]) -> Fraction:
    """Return the average of delta over a loss distribution, without its negligible tails.

    It goes from the middle to the ends, and stops where all that is left is negligible.

    Args:
        chances: of losses.
        delta_at: takes a loss and returns a delta of at most 1, which grows with it.
    """
    up = directed(BITS_OF_CHANCES).up
    losses, total = sorted(chances), convert(0, up)
    middle = len(losses) // 2
    for side, growing in ((losses[middle:], True), (losses[:middle][::-1], False)):
        left = convert(0, up)
        for loss in side:
            left = up.add(left, chances[loss])
        for loss in side:
            delta = convert(delta_at(loss), up)
            rest = left if growing else up.mul(left, delta)
            if rest <= up.div_2exp(total, 62):
                total = up.add(total, rest)
                break
            total = up.add(total, up.mul(chances[loss], delta))
            left = up.sub(left, chances[loss])
    return exactly(total)
