"""Tolerances of one noise, of many, and of noise rounded to whole numbers; Chernoff bounds on many noises."""

from __future__ import annotations

import math
from fractions import Fraction

from sfumato.errors import BudgetError, ParameterError
from sfumato.exact import Number, at_least_0, one_of, positive, positive_int, round_down, round_up
from sfumato.exact.library_settings import isolated
from sfumato.exact.outward_rounding import nearest, to_float
from sfumato.noise import Gaussian, Laplace, Law
from sfumato.noise.law_tails import power_of_ten, working_bits


@isolated
def laplace_tolerance(k: Number, l1_sensitivity: Number, epsilon: Number, *, rounded: bool = False) -> float:
    """Return t with P(|noise| > t) = 10^-k for Laplace noise: t = s k ln 10 / epsilon.

    Args:
        k: greater than 0; 10^-k is the flakiness, the probability that a correct mechanism fails the test.
        l1_sensitivity: greater than 0, in the unit of the statistic.
        epsilon: greater than 0.
        rounded: whether the noise is rounded to whole units; t is then the smallest whole number with
            P(|noise| > t) <= 10^-k.
    Returns:
        t in the unit of the statistic, correctly rounded.
    Raises:
        ParameterError: an argument is not a finite number greater than 0.
    Source:
        docs/tolerances.md, "Laplace noise".

    >>> laplace_tolerance(23, 1, 50)
    1.059189142777261
    >>> laplace_tolerance(23, 1, 50, rounded=True)
    1.0
    """
    return _tolerance(_laplace(l1_sensitivity, epsilon), k, rounded)


@isolated
def gaussian_tolerance(
    k: Number,
    l2_sensitivity: Number | None = None,
    epsilon: Number | None = None,
    delta: Number | None = None,
    *,
    sigma: Number | None = None,
    rounded: bool = False,
) -> float:
    """Return t with P(|noise| > t) = 10^-k for Gaussian noise: t = sigma sqrt 2 erfc^-1(10^-k).

    Sigma is that of the analytic Gaussian mechanism, or the one you pass.

    Args:
        k: greater than 0; 10^-k is the flakiness.
        l2_sensitivity: greater than 0, in the unit of the statistic.
        epsilon: greater than 0.
        delta: between 0 and 1.
        sigma: the standard deviation, in place of sensitivity, epsilon and delta.
        rounded: whether the noise is rounded to whole units; t is then the smallest whole number with
            P(|noise| > t) <= 10^-k.
    Returns:
        t in the unit of the statistic, correctly rounded from sigma, which is at most 2^-49 too large.
    Raises:
        ParameterError: an argument is out of range, or sigma is given in neither or in both ways.
    Source:
        docs/tolerances.md, "Gaussian noise"; Balle and Wang 2018 for sigma.

    >>> gaussian_tolerance(16, sigma=1)
    8.304785425194114
    >>> round(gaussian_tolerance(16, 1, 1, "1e-6"), 6)
    35.085052
    """
    return _tolerance(_gaussian(l2_sensitivity, epsilon, delta, sigma), k, rounded)


@isolated
def complementary_laplace_tolerance(
    k: Number, l1_sensitivity: Number, epsilon: Number, *, rounded: bool = False
) -> float:
    """Return t with P(|noise| < t) = 10^-k for Laplace noise: t = -(s / epsilon) ln(1 - 10^-k).

    Args:
        k: greater than 0; 10^-k is the probability that correct noise is called missing.
        l1_sensitivity: greater than 0, in the unit of the statistic.
        epsilon: greater than 0.
        rounded: whether the noise is rounded to whole units; t is then the largest whole number with
            P(|noise| < t) <= 10^-k, which is 0 if 0 itself is more likely than 10^-k.
    Returns:
        t in the unit of the statistic, correctly rounded.
    Raises:
        ParameterError: an argument is not a finite number greater than 0.
    Source:
        docs/tolerances.md, "The complementary tolerance"; the printed ln(1 - 10^k) is a slip.

    >>> complementary_laplace_tolerance(5, 1, 1)
    1.0000050000333335e-05
    """
    return _complementary(_laplace(l1_sensitivity, epsilon), k, rounded)


@isolated
def complementary_gaussian_tolerance(
    k: Number,
    l2_sensitivity: Number | None = None,
    epsilon: Number | None = None,
    delta: Number | None = None,
    *,
    sigma: Number | None = None,
    rounded: bool = False,
) -> float:
    """Return t with P(|noise| < t) = 10^-k for Gaussian noise: t = sigma sqrt 2 erf^-1(10^-k).

    Args:
        k: greater than 0; 10^-k is the probability that correct noise is called missing.
        l2_sensitivity: greater than 0, in the unit of the statistic.
        epsilon: greater than 0.
        delta: between 0 and 1.
        sigma: the standard deviation, in place of sensitivity, epsilon and delta.
        rounded: whether the noise is rounded to whole units; t is then the largest whole number with
            P(|noise| < t) <= 10^-k, which is 0 if 0 itself is more likely than 10^-k.
    Returns:
        t in the unit of the statistic.
    Raises:
        ParameterError: an argument is out of range, or sigma is given in neither or in both ways.
    Source:
        docs/tolerances.md, "The complementary tolerance".

    >>> complementary_gaussian_tolerance(5, sigma=1)
    1.2533141373...e-05
    """
    return _complementary(_gaussian(l2_sensitivity, epsilon, delta, sigma), k, rounded)


@isolated
def integer_tolerance(t: Number) -> int:
    """Return the tolerance for noise rounded to whole numbers: t rounded to the nearest whole number.

    If |Z| <= t then |round(Z)| <= integer_tolerance(t). A half is rounded down, which is enough.

    Args:
        t: at least 0, the tolerance of the unrounded noise.
    Returns:
        The nearest whole number.
    Raises:
        ParameterError: t is not a finite number of at least 0.
    Source:
        docs/tolerances.md, "Whole numbers".

    >>> integer_tolerance(1.1), integer_tolerance(2.6)
    (1, 3)
    """
    exact = at_least_0(t, "t")
    return math.ceil(exact - Fraction(1, 2))


@isolated
def per_partition_k(k: Number, partitions: int, rule: str = "exact") -> float:
    """Return the k that each of several independent noises needs so that all hold except with 10^-k.

    Args:
        k: greater than 0; 10^-k is the flakiness of all together.
        partitions: the number of noises, at least 1.
        rule: "exact", l = -log10(1 - (1 - 10^-k)^(1/n)); or "decades", one more for n <= 10, two more for n
            <= 100 and so on, which is never below the exact one; or "2020", two more for n <= 10.
    Returns:
        l, the k of each, correctly rounded.
    Raises:
        ParameterError: k is not greater than 0, partitions is not a whole number of at least 1 (for "2020"
            from 1 to 10), or the rule is unknown.
    Source:
        docs/tolerances.md, "Many partitions".

    >>> per_partition_k(23, 10), per_partition_k(23, 7, rule="decades")
    (24.0, 24.0)
    >>> per_partition_k(1, 3)
    1.46204...
    """
    exact, count = positive(k, "k"), positive_int(partitions, "partitions")
    one_of(rule, "rule", ("exact", "decades", "2020"))
    if rule == "decades":
        decades = len(str(count - 1)) if count > 1 else 0
        return float(exact + decades)
    if rule == "2020":
        if count > 10:
            raise ParameterError("partitions", partitions, 'at most 10 for the rule "2020"')
        return float(exact + 2)
    outside, inside = power_of_ten(exact)
    context = nearest(working_bits + int(exact).bit_length() + count.bit_length())
    log = context.log1p(context.minus(outside)) if outside < 0.5 else context.log(inside)
    each = context.minus(context.expm1(context.div(log, count)))
    return to_float(context.minus(context.log10(each)))


def _laplace(l1_sensitivity: Number, epsilon: Number) -> Laplace:
    return Laplace(positive(l1_sensitivity, "l1_sensitivity") / positive(epsilon, "epsilon"))


def _gaussian(
    l2_sensitivity: Number | None, epsilon: Number | None, delta: Number | None, sigma: Number | None
) -> Gaussian:
    told = {"l2_sensitivity": l2_sensitivity, "epsilon": epsilon, "delta": delta}
    if sigma is not None:
        for name, value in told.items():
            if value is not None:
                raise ParameterError(name, value, "left out where sigma is given")
        return Gaussian(positive(sigma, "sigma"))
    for name, value in told.items():
        positive(value, name)
    from sfumato.budget import gaussian_sigma

    try:
        return Gaussian(gaussian_sigma(l2_sensitivity, epsilon, delta))
    except ParameterError:
        raise
    except BudgetError:
        raise ParameterError("delta", delta, "greater than 2^-1900 and less than 1") from None


def _tolerance(law: Law, k: Number, rounded: bool) -> float:
    return round_up(Fraction(law.rounded_tolerance(k))) if rounded else law.tolerance(k)


def _complementary(law: Law, k: Number, rounded: bool) -> float:
    t = law.complementary_tolerance(k)
    if not rounded:
        return t
    # P(|R| < m) = P(|Z| < m - 1/2) for a whole m > 0; t is taken down by its own rounding error.
    below = Fraction(math.nextafter(t, 0.0))
    return round_down(Fraction(math.floor(below + Fraction(1, 2))))


_LN10 = math.log(10)


def log10_gamma_deviation(shape: float, total: float) -> float:
    """Return log10 of Chernoff's bound that a Gamma(shape, 1) variable lies at `total` or beyond.

    Beyond is away from its mean, `shape`: below where `total` is below it, else above.

    >>> log10_gamma_deviation(10, 10), round(log10_gamma_deviation(1000, 700), 1)
    (0.0, -24.6)
    """
    if total <= 0:
        return -math.inf
    return min(0.0, (shape - total + shape * math.log(total / shape)) / _LN10)


def log10_many(successes: int, tries: int, p: float) -> float:
    """Return log10 of Chernoff's bound that so many of independent tries of probability p succeed.

    >>> round(log10_many(10, 10, 0.1), 6), log10_many(1, 10, 0.5)
    (-10.0, 0.0)
    """
    share = successes / tries
    if share <= p:
        return 0.0
    divergence = share * math.log(share / p) if p > 0 else math.inf
    if share < 1:
        divergence += (1 - share) * math.log((1 - share) / (1 - p))
    return -tries * divergence / _LN10
