"""The laws of all numbers of K-norm noise, whichever it is."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.noise.k_norm.centred import CentredNoise
from sfumato.noise.k_norm.centred_laws import centred
from sfumato.noise.k_norm.joint import JointNoise
from sfumato.noise.k_norm.joint_laws import joint
from sfumato.noise.k_norm.laws import Marginal
from sfumato.noise.k_norm.limited import LimitedNoise
from sfumato.noise.k_norm.limited_laws import limited
from sfumato.noise.k_norm.separate import SeparateNoise
from sfumato.noise.k_norm.separate_laws import separate, separate_parabolas
from sfumato.noise.k_norm.separate_parabola import SeparateParabolas
from sfumato.noise.k_norm.stretched import StretchedNoise
from sfumato.noise.k_norm.stretched_laws import stretched


def marginals(noise: CentredNoise | JointNoise | LimitedNoise | SeparateNoise) -> Sequence[Marginal]:
    """Return the law of each coordinate.

    >>> from fractions import Fraction
    >>> from sfumato.noise.k_norm import Cone
    >>> [round(law.variance, 6) for law in marginals(SeparateNoise(Cone(1), (Fraction(1), Fraction(3))))]
    [4.0, 36.0]
    """
    if isinstance(noise, CentredNoise):
        return [centred(noise)]
    indices = range(noise.cone.dimensions)
    if isinstance(noise, StretchedNoise):
        return [stretched(noise, i) for i in indices]
    if isinstance(noise, SeparateParabolas):
        return separate_parabolas(noise)
    if isinstance(noise, SeparateNoise):
        return [separate(noise, i) for i in indices]
    if isinstance(noise, LimitedNoise):
        return [limited(noise, i) for i in indices]
    return [joint(noise, i) for i in indices]
