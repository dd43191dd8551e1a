"""Noisy yes-counts of strata, and what they say of the mean and its variance."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sfumato.errors import ParameterError
from sfumato.exact import as_fraction
from sfumato.framework import AtomDomain, L1Distance, L2Distance, Measurement, VectorDomain
from sfumato.measurements.noise import NoiseKind
from sfumato.names.helpful import helpful
from sfumato.transformations import Norm
from sfumato.transformations.stratified import StratifiedDesign, stratum_sums


def noisy_stratum_sums(sample_sizes: Sequence[int], noise: NoiseKind, scale: Any) -> Measurement:
    """Count the yes-answers of each stratum and add exactly rounded noise of one scale to each count.

    >>> from sfumato.measurements import NOISES
    >>> noisy_stratum_sums([10, 20], NOISES["laplace"], 2).map(1)
    Fraction(1, 2)
    """
    metric = L1Distance() if noise.norm is Norm.L1 else L2Distance()
    return stratum_sums(sample_sizes, metric) >> noise.measurement(scale, VectorDomain(AtomDomain(int)))


@helpful
def stratified_estimate(
    sums: Sequence[Any], sample_sizes: Sequence[int], strat_sizes: Sequence[int], noise_variance: Any
) -> tuple[Fraction, Fraction]:
    """Turn noisy yes-counts of strata into a mean and its variance, the noise's own included.

    The mean is sum(c_i S_i / n_i) and has no bias. Its variance has two parts:

    - of the noise: sum((c_i / n_i)^2) * noise_variance: a variance, never a scale;
    - of the sample: sum(c_i^2 (N_i - n_i) / (N_i (n_i - 1)) * u_i), where u_i estimates p_i (1 - p_i). With
      noise, S_i/n_i (1 - S_i/n_i) is too small by noise_variance / n_i^2 on average, which u_i gets back;
      then u_i is clamped to [0, 1/4], where p_i (1 - p_i) lies.

    Args:
        sums: noisy counts S_i, one for each stratum; they may lie outside [0, n_i].
        sample_sizes, strat_sizes: n_i of at least 2, and N_i of at least n_i.
        noise_variance: variance of the noise on each count, at least 0, or one for each stratum.
    Returns:
        (mean, variance), exact; the mean may lie outside [0, 1].
    Raises:
        ParameterError: a size or variance out of range; lists of different length.

    >>> mean, variance = stratified_estimate([5] * 10, [10] * 10, [100] * 10, noise_variance=2)
    >>> mean, variance == Fraction(25, 10000) + Fraction(2, 1000)
    (Fraction(1, 2), True)

    Source:
        Cochran 1977, sections 5.10 and 5.11; docs/surveys.md for the correction.
    """
    design = StratifiedDesign(sample_sizes, strat_sizes, "stratified_estimate")
    noises = _variances(noise_variance, len(design.sample_sizes))
    values = design.checked(sums)
    mean = sum((step * v for step, v in zip(design.steps, values, strict=True)), Fraction(0))
    variance = sum((a * a * noise for a, noise in zip(design.steps, noises, strict=True)), Fraction(0))
    parts = zip(design.variance_weights, design.sample_sizes, values, noises, strict=True)
    for weight, n, v, noise in parts:
        unbiased = v / n * (1 - v / n) + noise / n**2
        variance += weight * min(max(unbiased, Fraction(0)), Fraction(1, 4))
    return mean, variance


def _variances(given: Any, count: int) -> list[Fraction]:
    listed = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given] * count
    if len(listed) != count:
        expected = f"one number, or {count}, one for each stratum"
        raise ParameterError("stratified_estimate: number of noise variances", len(listed), expected)
    found = [as_fraction(v, "stratified_estimate: noise_variance") for v in listed]
    if min(found) < 0:
        raise ParameterError("stratified_estimate: noise_variance", given, "at least 0")
    return found
