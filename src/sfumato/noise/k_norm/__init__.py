"""Noise in the shape of what one unit can add: K-norm noise, exactly rounded."""

from sfumato.noise.k_norm.centred import CentredNoise
from sfumato.noise.k_norm.cone import Cone
from sfumato.noise.k_norm.joint import JointNoise
from sfumato.noise.k_norm.limited import LimitedNoise
from sfumato.noise.k_norm.parabola import Parabola
from sfumato.noise.k_norm.separate import SeparateNoise
from sfumato.noise.k_norm.separate_parabola import SeparateParabolas
from sfumato.noise.k_norm.stretched import StretchedNoise

__all__ = [
    "CentredNoise",
    "Cone",
    "JointNoise",
    "LimitedNoise",
    "Parabola",
    "SeparateNoise",
    "SeparateParabolas",
    "StretchedNoise",
]
