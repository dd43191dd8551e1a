"""The laws of all numbers of K-norm noise, whichever it is."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.noise.k_norm.joint import JointNoise
from sfumato.noise.k_norm.joint_laws import joint
from sfumato.noise.k_norm.laws import Marginal
from sfumato.noise.k_norm.separate import SeparateNoise
from sfumato.noise.k_norm.separate_laws import separate


def marginals(noise: JointNoise | SeparateNoise) -> Sequence[Marginal]:
    """Return the law of each coordinate.

    >>> from fractions import Fraction
    >>> from sfumato.noise.k_norm import Cone
    >>> [round(law.variance, 6) for law in marginals(SeparateNoise(Cone(1), (Fraction(1), Fraction(3))))]
    [4.0, 36.0]
    """
    indices = range(noise.cone.dimensions)
    if isinstance(noise, SeparateNoise):
        return [separate(noise, i) for i in indices]
    return [joint(noise, i) for i in indices]
