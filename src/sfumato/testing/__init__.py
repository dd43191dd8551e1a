"""Tests of differentially private code: tolerances that are right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.audit import assert_private
    from sfumato.testing.assertions.noisy import assert_approx_equal, assert_noisy
    from sfumato.testing.discrete import DiscreteGaussian, DiscreteLaplace, DiscreteLaw, Pmf
    from sfumato.testing.flakiness import Account
    from sfumato.testing.mechanism import release_mechanism
    from sfumato.testing.recorder import Recorder, noise_free, recording, seeded_words
    from sfumato.testing.tolerances.means import (
        complementary_mean_tolerance,
        mean_failure_probability,
        mean_tolerance,
    )
    from sfumato.testing.tolerances.numbers import (
        complementary_gaussian_tolerance,
        complementary_laplace_tolerance,
        gaussian_tolerance,
        integer_tolerance,
        laplace_tolerance,
        per_partition_k,
    )
    from sfumato.testing.tolerances.ratios import Interval, Probability, RatioTolerance
    from sfumato.testing.tolerances.variances import (
        complementary_variance_tolerance,
        variance_failure_probability,
        variance_tolerance,
    )

# Loaded when they are first used: the pytest plugin is imported wherever sfumato is installed.
_HOMES = {
    "Account": "sfumato.testing.flakiness",
    "DiscreteGaussian": "sfumato.testing.discrete",
    "DiscreteLaplace": "sfumato.testing.discrete",
    "DiscreteLaw": "sfumato.testing.discrete",
    "Interval": "sfumato.testing.tolerances.ratios",
    "Pmf": "sfumato.testing.discrete",
    "Probability": "sfumato.testing.tolerances.ratios",
    "RatioTolerance": "sfumato.testing.tolerances.ratios",
    "Recorder": "sfumato.testing.recorder",
    "assert_approx_equal": "sfumato.testing.assertions.noisy",
    "assert_noisy": "sfumato.testing.assertions.noisy",
    "assert_private": "sfumato.audit",
    "complementary_gaussian_tolerance": "sfumato.testing.tolerances.numbers",
    "complementary_laplace_tolerance": "sfumato.testing.tolerances.numbers",
    "complementary_mean_tolerance": "sfumato.testing.tolerances.means",
    "complementary_variance_tolerance": "sfumato.testing.tolerances.variances",
    "gaussian_tolerance": "sfumato.testing.tolerances.numbers",
    "integer_tolerance": "sfumato.testing.tolerances.numbers",
    "laplace_tolerance": "sfumato.testing.tolerances.numbers",
    "mean_failure_probability": "sfumato.testing.tolerances.means",
    "mean_tolerance": "sfumato.testing.tolerances.means",
    "noise_free": "sfumato.testing.recorder",
    "per_partition_k": "sfumato.testing.tolerances.numbers",
    "recording": "sfumato.testing.recorder",
    "release_mechanism": "sfumato.testing.mechanism",
    "seeded_words": "sfumato.testing.recorder",
    "variance_failure_probability": "sfumato.testing.tolerances.variances",
    "variance_tolerance": "sfumato.testing.tolerances.variances",
}

__all__ = [
    "Account",
    "DiscreteGaussian",
    "DiscreteLaplace",
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
    if name in _HOMES:
        from importlib import import_module

        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    from sfumato.names import advising

    return advising("testing", __all__)(name)


if not TYPE_CHECKING:  # a checker of types knows the names above, and says which are none
    __getattr__ = _looked_up


def __dir__() -> list[str]:
    return sorted(__all__)
