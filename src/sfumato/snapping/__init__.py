"""The snapping mechanism: Laplace noise on a lattice, safe from the least significant bits."""

from sfumato.snapping.accuracy import epsilon_for_accuracy
from sfumato.snapping.lattice import power_of_two_at_least, to_lattice
from sfumato.snapping.mechanism import SecretAccuracy, SnappingMechanism

__all__ = [
    "SecretAccuracy",
    "SnappingMechanism",
    "epsilon_for_accuracy",
    "power_of_two_at_least",
    "to_lattice",
]
