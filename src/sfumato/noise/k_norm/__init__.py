"""K-norm noise, in the shape of what one unit can add, exactly rounded."""

from typing import TYPE_CHECKING

from sfumato.names import face

if TYPE_CHECKING:
    from sfumato.noise.k_norm.cone_noise import JointNoise, SeparateNoise
    from sfumato.noise.k_norm.cones import Cone

__all__ = [
    "Cone",
    "JointNoise",
    "SeparateNoise",
]

# The names of each module, which is loaded when one of them is first used.
_HOMES = {
    "noise.k_norm.cones": "Cone",
    "noise.k_norm.cone_noise": "JointNoise SeparateNoise",
}

if not TYPE_CHECKING:  # a checker of types says which names are none
    __getattr__, __dir__ = face("noise.k_norm", __all__, _HOMES)
