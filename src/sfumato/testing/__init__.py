"""Tests of differentially private code: tolerances that are right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.audit import assert_private
    from sfumato.testing.assertions import assert_approx_equal, assert_noisy
    from sfumato.testing.flakiness import Account
    from sfumato.testing.means import complementary_mean_tolerance, mean_failure_probability, mean_tolerance
    from sfumato.testing.mechanism import release_mechanism
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

# Loaded when they are first used: the pytest plugin is imported wherever sfumato is installed.
_HOMES = {
    "Account": "flakiness",
    "Interval": "ratios",
    "Probability": "ratios",
    "RatioTolerance": "ratios",
    "Recorder": "recorder",
    "assert_approx_equal": "assertions",
    "assert_noisy": "assertions",
    "assert_private": "sfumato.audit",
    "complementary_gaussian_tolerance": "tolerances",
    "complementary_laplace_tolerance": "tolerances",
    "complementary_mean_tolerance": "means",
    "complementary_variance_tolerance": "variances",
    "gaussian_tolerance": "tolerances",
    "integer_tolerance": "tolerances",
    "laplace_tolerance": "tolerances",
    "mean_failure_probability": "means",
    "mean_tolerance": "means",
    "noise_free": "recorder",
    "per_partition_k": "tolerances",
    "recording": "recorder",
    "release_mechanism": "mechanism",
    "seeded_words": "recorder",
    "variance_failure_probability": "variances",
    "variance_tolerance": "variances",
}

__all__ = [
    "Account",
    "Interval",
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


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        home = _HOMES[name]
        value = getattr(import_module(home if "." in home else f"sfumato.testing.{home}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'sfumato.testing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
