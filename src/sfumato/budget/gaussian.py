"""The exact privacy of Gaussian noise: delta at an epsilon, and its inverse in the noise.

mu is the L2 sensitivity over sigma. Between N(0, 1) and N(mu, 1), whichever comes first,

    delta(epsilon; mu) = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2),

which grows with mu and falls with epsilon, and d delta / d mu = phi(epsilon/mu - mu/2).
Source: Balle and Wang 2018, "Improving the Gaussian mechanism for differential privacy:
analytical calibration and optimal denoising", theorem 8; its composition, Dong, Roth and Su
2019, "Gaussian differential privacy", corollary 2: mu^2 adds.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from sfumato.budget.parameters import admissible_delta, admissible_epsilon
from sfumato.errors import BudgetError
from sfumato.exact import positive, root_up, round_up
from sfumato.exact.directed import convert, directed, exactly, expm1_down, log2, round_bits
from sfumato.exact.isolation import isolated
from sfumato.exact.normal import tail
from sfumato.exact.roots import crossing, log_ratio

SMALLEST = Fraction(1, 2**2048)  # a delta that is smaller is reported as this one
BEYOND = 54  # Phi(-54) < e^(-54^2/2) < 2^-2100 < SMALLEST


@isolated
def gaussian_delta(epsilon: Fraction, mu_squared: Fraction) -> Fraction:
    """Return an upper bound on delta(epsilon; mu), tight to about 2^-50 of it.

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
        if minus_first > BEYOND:
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

    The result is rounded down to 56 bits from a mu of which `gaussian_delta` says that it is within delta.
    Several Gaussian noises together are within (epsilon, delta) exactly when their mu^2 sum to at most
    its square.

    Args:
        epsilon: finite number greater than 0.
        delta: number in (0, 1), not below 2^-1900.
    Returns:
        mu, a Fraction greater than 0; at most about 2^-50 of it is lost.
    Raises:
        BudgetError: epsilon or delta is out of range.
    Source:
        Balle and Wang 2018, algorithm 1, with regula falsi in place of a bisection.

    >>> float(gaussian_mu(1, "1e-6"))
    0.236704380...
    """
    eps = admissible_epsilon(epsilon)
    target = admissible_delta(delta, zero=False)
    if target < Fraction(1, 2**1900):
        raise BudgetError("delta is below 2^-1900; Gaussian noise needs a larger one")
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
    """Return a mu at which every epsilon-DP mechanism is mu-Gaussian-DP, rounded up.

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
    """Return an epsilon, nearly the largest, of which `pure_mu` is at most a mu.

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
