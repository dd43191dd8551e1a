"""The snapping mechanism: Laplace noise on a lattice, safe from the least significant bits."""

from typing import TYPE_CHECKING

from sfumato.names import face
from sfumato.snapping.rounding_lattice import power_of_two_at_least, to_lattice
from sfumato.snapping.snapped_statistics import (
    BoundedStatistic,
    Histogram,
    Mean,
    SampleCovariance,
    SampleVariance,
)
from sfumato.snapping.snapping_law import LaplaceComparison, SnappedLaw, epsilon_for_accuracy
from sfumato.snapping.snapping_mechanism import SecretAccuracy, SnappingMechanism

__all__ = [
    "BoundedStatistic",
    "Histogram",
    "LaplaceComparison",
    "Mean",
    "SampleCovariance",
    "SampleVariance",
    "SecretAccuracy",
    "SnappedLaw",
    "SnappingMechanism",
    "epsilon_for_accuracy",
    "power_of_two_at_least",
    "to_lattice",
]

if not TYPE_CHECKING:  # a checker of types says which names are none
    __getattr__, __dir__ = face("snapping", __all__)
