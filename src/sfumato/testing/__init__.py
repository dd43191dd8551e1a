"""Tests of differentially private code: tolerances, assertions, flakiness and recorded truths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.audit import assert_private
    from sfumato.testing.assertions.noise_assertions import assert_approx_equal, assert_noisy
    from sfumato.testing.discrete_laws import DiscreteGaussian, DiscreteLaw, Pmf
    from sfumato.testing.flakiness import Account
    from sfumato.testing.recorder import Recorder, noise_free, recording, seeded_words
    from sfumato.testing.repeated_release import release_mechanism
    from sfumato.testing.tolerances.mean_tolerances import (
        complementary_mean_tolerance,
        mean_failure_probability,
        mean_tolerance,
    )
    from sfumato.testing.tolerances.noise_tolerances import (
        complementary_gaussian_tolerance,
        complementary_laplace_tolerance,
        gaussian_tolerance,
        integer_tolerance,
        laplace_tolerance,
        per_partition_k,
    )
    from sfumato.testing.tolerances.ratio_tolerances import Interval, Probability, RatioTolerance
    from sfumato.testing.tolerances.variance_tolerances import (
        complementary_variance_tolerance,
        variance_failure_probability,
        variance_tolerance,
    )

# The names of each module, which is loaded when one of them is first used: the pytest plugin is imported
# wherever sfumato is installed.
_HOMES = {
    "audit": "assert_private",
    "testing.assertions.noise_assertions": "assert_approx_equal assert_noisy",
    "testing.discrete_laws": "DiscreteGaussian DiscreteLaw Pmf",
    "testing.flakiness": "Account",
    "testing.recorder": "Recorder noise_free recording seeded_words",
    "testing.repeated_release": "release_mechanism",
    "testing.tolerances.mean_tolerances": (
        "complementary_mean_tolerance mean_failure_probability mean_tolerance"
    ),
    "testing.tolerances.ratio_tolerances": "Interval Probability RatioTolerance",
    "testing.tolerances.noise_tolerances": (
        "complementary_gaussian_tolerance complementary_laplace_tolerance gaussian_tolerance "
        "integer_tolerance laplace_tolerance per_partition_k"
    ),
    "testing.tolerances.variance_tolerances": (
        "complementary_variance_tolerance variance_failure_probability variance_tolerance"
    ),
}

__all__ = [
    "Account",
    "DiscreteGaussian",
    "DiscreteLaw",
    "Interval",
    "Pmf",
    "Probability",
    "RatioTolerance",
    "Recorder",
    "assert_approx_equal",
    "assert_noisy",
    "assert_private",
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
    "release_mechanism",
    "seeded_words",
    "variance_failure_probability",
    "variance_tolerance",
]


def _looked_up(name: str) -> Any:
    from sfumato.names import face

    found, _ = face("testing", __all__, _HOMES)
    return found(name)


if not TYPE_CHECKING:  # a checker of types knows the names above, and says which are none
    __getattr__ = _looked_up


def __dir__() -> list[str]:
    return sorted(__all__)
