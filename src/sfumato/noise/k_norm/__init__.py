"""Noise in the shape of what one unit can add: K-norm noise, exactly rounded."""

from typing import TYPE_CHECKING

from sfumato.names import face

if TYPE_CHECKING:
    from sfumato.noise.k_norm.cone import Cone
    from sfumato.noise.k_norm.joint import JointNoise
    from sfumato.noise.k_norm.separate import SeparateNoise

__all__ = [
    "Cone",
    "JointNoise",
    "SeparateNoise",
]

# The names of each module, which is loaded when one of them is first used.
_HOMES = {
    "noise.k_norm.cone": "Cone",
    "noise.k_norm.joint": "JointNoise",
    "noise.k_norm.separate": "SeparateNoise",
}

if not TYPE_CHECKING:  # a checker of types says which names are none
    __getattr__, __dir__ = face("noise.k_norm", __all__, _HOMES)
