"""K-norm noise: noise in the shape of what one privacy unit can add to all numbers of all groups."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact import Number, positive, positive_int
from sfumato.framework import (
    ConeBody,
    CubeBody,
    GroupedIntegers,
    KNormDistance,
    Linear,
    Measurement,
    Norm,
    PureDP,
)
from sfumato.names.helpful import helpful
from sfumato.noise.k_norm import Cone, JointNoise, SeparateNoise

KNormNoise = JointNoise | SeparateNoise


@helpful
def k_norm(
    epsilon: Number,
    body: ConeBody,
    keys: Iterable[Hashable],
    *,
    groups: int | None = None,
) -> Measurement:
    """Add exactly rounded K-norm noise: one unit's contribution, as a whole, is hidden by epsilon.

    Args:
        epsilon: greater than 0, taken exactly.
        body: what one unit may add to one group, in grid steps, after all rounding.
        keys: the groups that are shown, each of them, empty or not; public, or chosen privately beforehand.
        groups: the most groups that a unit is in; None for any number. With None, or with as many as
            there are keys, one draw serves all groups together; with fewer, each group has noise of its own.
    Returns:
        A Measurement of integers by group to pure DP. Its metric is the `KNormDistance` of the body, in
        which one unit moves by at most 1; its map is epsilon times the distance.
    Raises:
        ParameterError: epsilon or groups is not greater than 0, body is no ConeBody, there are no keys for
            noise of all together, or the noise could leave 64-bit integers.

    >>> from sfumato.framework import ConeBody
    >>> body = ConeBody(("rows", "visits"), (Fraction(1), Fraction(15)))
    >>> release = k_norm("1/2", body, keys=[2020, 2021])
    >>> one, other = {2020: {"rows": 7, "visits": -3}}, {2020: {"rows": 8, "visits": 12}}
    >>> release.map(release.input_metric.distance(one, other))
    Fraction(1, 2)

    Source:
        Hardt and Talwar 2010, "On the geometry of differential privacy"; Awan and Slavković 2021, "Structure
        and sensitivity in differential privacy". Proof: docs/proofs/k_norm.md.
    """
    exact = positive(epsilon, "epsilon")
    if not isinstance(body, ConeBody):
        raise ParameterError("body", body, "a ConeBody")
    shown = tuple(keys)
    most = None if groups is None else positive_int(groups, "groups")
    if not shown and most is None:
        raise ParameterError("keys", shown, "at least one group, for noise of all together")
    if isinstance(body, CubeBody) and most is None:
        raise ParameterError("groups", groups, "the most groups of a unit, for signed numbers alone")
    if most is not None and 0 < len(shown) <= most and not isinstance(body, CubeBody):
        most = None
    metric = KNormDistance(body, most, most is not None)
    noise = noise_of(body, exact, len(shown), most)

    def function(exact_groups: Mapping[Any, Mapping[Any, int]]) -> dict[Any, dict[str, int]]:
        rows = noise.rounded(len(shown)) if isinstance(noise, SeparateNoise) else noise.rounded()
        drawn, empty = rows.T.tolist(), dict[str, int]()
        return {
            key: {
                name: int(exact_groups.get(key, empty).get(name, 0)) + step
                for name, step in zip(body.names, own, strict=True)
            }
            for key, own in zip(shown, drawn, strict=True)
        }

    return Measurement("k_norm", GroupedIntegers(body.names), metric, PureDP(), function, Linear(exact))


def k_norm_loss(noise: KNormNoise, body: ConeBody, groups: int) -> Fraction:
    """Return the pure epsilon of noise, for what one unit may add.

    Args:
        noise: that is drawn.
        body: what one unit may add to one group; the corners of it, and 0, span that.
        groups: the most groups of a unit, which counts where each group has noise of its own.

    Source:
        docs/proofs/k_norm.md, "The loss of given scales".
    """
    full = body.bounds
    corners = [(*full[: i + 1], *[Fraction(0)] * (len(full) - i - 1)) for i in range(body.units + 1)]
    drawn = ConeBody(body.names, noise.scales, bool(noise.cone.units))
    sides = [drawn.sides(corner) for corner in (*corners, full)]
    if isinstance(noise, SeparateNoise):
        return groups * max(a + b for a, b in sides)
    return max(a for a, _ in sides) + max(b for _, b in sides)


@dataclass(frozen=True)
class KNormKind:
    """K-norm noise as a kind beside those of `measurements.noise`: what names it in plans."""

    name: str = "k_norm"
    norm: Norm = Norm.L1


K_NORM = KNormKind()


def noise_of(
    body: ConeBody,
    epsilon: Fraction,
    count: int,
    groups: int | None = None,
) -> KNormNoise:
    """Return the noise that hides one unit by epsilon.

    Args:
        body: what one unit may add to one group.
        epsilon: greater than 0.
        count: groups that are shown.
        groups: the most groups of a unit, for noise of each group by itself; None for one draw for all.
    """
    cone = Cone(body.signed, body.units)
    scales = tuple(bound / epsilon for bound in body.bounds)
    if groups is None:
        return JointNoise(cone, scales, count)
    return SeparateNoise(cone, tuple(scale * groups for scale in scales))
