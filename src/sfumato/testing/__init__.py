"""Tests of differentially private code: tolerances that are right."""

from sfumato.testing.assertions import assert_approx_equal, assert_noisy
from sfumato.testing.flakiness import Account
from sfumato.testing.means import complementary_mean_tolerance, mean_failure_probability, mean_tolerance
from sfumato.testing.ratios import Interval, Probability, RatioTolerance
from sfumato.testing.recorder import Recorder, noise_free, recording, seeded_words
from sfumato.testing.tolerances import (
    complementary_gaussian_tolerance,
    complementary_laplace_tolerance,
    gaussian_tolerance,
    integer_tolerance,
    laplace_tolerance,
    per_partition_k,
)
from sfumato.testing.variances import (
    complementary_variance_tolerance,
    variance_failure_probability,
    variance_tolerance,
)

__all__ = [
    "Account",
    "Interval",
    "Probability",
    "RatioTolerance",
    "Recorder",
    "assert_approx_equal",
    "assert_noisy",
    "complementary_gaussian_tolerance",
    "complementary_laplace_tolerance",
    "complementary_mean_tolerance",
    "complementary_variance_tolerance",
    "gaussian_tolerance",
    "integer_tolerance",
    "laplace_tolerance",
    "mean_failure_probability",
    "mean_tolerance",
    "noise_free",
    "per_partition_k",
    "recording",
    "seeded_words",
    "variance_failure_probability",
    "variance_tolerance",
]
