"""K-norm noise: noise in the shape of what one privacy unit can add to all numbers of all groups."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fraction, positive, positive_int
from sfumato.framework import (
    ConeBody,
    CubeBody,
    GroupedIntegers,
    KNormDistance,
    Linear,
    Measurement,
    Norm,
    ParabolaBody,
    PureDP,
)
from sfumato.names.helpful import helpful
from sfumato.noise.k_norm import (
    CentredNoise,
    Cone,
    JointNoise,
    LimitedNoise,
    Parabola,
    SeparateNoise,
    SeparateParabolas,
    StretchedNoise,
)

KNormNoise = CentredNoise | JointNoise | LimitedNoise | SeparateNoise  # which a StretchedNoise is, too


@helpful
def k_norm(
    epsilon: Number,
    body: ConeBody,
    keys: Iterable[Hashable],
    *,
    groups: int | None = None,
    shared: Number = 0,
    total: Number = 0,
    favoured: Iterable[str] = (),
    part: Number = 0,
) -> Measurement:
    """Add exactly rounded K-norm noise: one unit's contribution, as a whole, is hidden by epsilon.

    Args:
        epsilon: greater than 0, taken exactly.
        body: what one unit may add to one group, in grid steps, after all rounding. Of a count, a sum and a
            sum of squares a `ParabolaBody`, for less noise.
        keys: the groups that are shown, each of them, empty or not; public, or chosen privately beforehand.
        groups: the most groups that a unit is in; None for any number. With None, or with as many as
            there are keys, one draw serves all groups together; with fewer, each group has noise of its own.
        shared: from 0 to less than 1: with fewer groups than keys, the part of the norm that all groups
            share, as they do without a limit; the rest is each group's own. Above 0 for public keys alone,
            and not for a `ParabolaBody`.
        total: from 0 to 1/2: above 0, the part of epsilon for all units, half of which each group is counted
            from. For a count alone, and one draw for all groups; less noise from 12 groups on.
        favoured: with `groups`, names of some numbers, but for units, that have less noise, and others more.
        part: from 0 to less than 1, with `favoured` above 0: how much less.
    Returns:
        A Measurement of integers by group to pure DP. Its metric is the `KNormDistance` of the body, in
        which one unit moves by at most 1; its map is epsilon times the distance.
    Raises:
        ParameterError: epsilon or groups is not greater than 0, shared or total is not in range, body is no
            ConeBody, there are no keys for noise of all together, or the noise could leave 64-bit integers.

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
    share, favour = as_fraction(shared, "shared"), as_fraction(part, "part")
    if not 0 <= share < 1 or (share and (not shown or most is None)):
        raise ParameterError("shared", shared, "from 0 to less than 1, and 0 without keys or a limit")
    names = tuple(favoured)
    if isinstance(body, ParabolaBody):
        for name, given in (("shared", share), ("favoured", names)):
            if given:
                raise ParameterError(name, given, "left out for a ParabolaBody; a ConeBody admits it")
    if isinstance(body, CubeBody) and (most is None or share):
        raise ParameterError("groups", groups, "the most groups of a unit, for signed numbers alone")
    if most is not None and 0 < len(shown) <= most and not (names or isinstance(body, CubeBody)):
        most, share = None, Fraction(0)
    middle = as_fraction(total, "total")
    if not 0 <= middle <= Fraction(1, 2) or (middle and (most is not None or len(body.names) > 1)):
        raise ParameterError("total", total, "from 0 to 1/2, and 0 but for a count alone and all groups")
    metric = KNormDistance(body, most, most is not None, share, names, favour)
    noise = noise_of(body, exact, len(shown), most, share, middle, names, favour)

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
    shared: Fraction = Fraction(0),
    total: Fraction = Fraction(0),
    favoured: Sequence[str] = (),
    part: Fraction = Fraction(0),
) -> KNormNoise:
    """Return the noise that hides one unit by epsilon.

    Args:
        body: what one unit may add to one group.
        epsilon: greater than 0.
        count: groups that are shown.
        groups: the most groups of a unit, for noise of each group by itself; None for one draw for all.
        shared: with `groups`, the part of the norm that groups share.
        total: without `groups`, for a count alone, the part of epsilon for all units.
        favoured, part: with `groups`, as of `KNormDistance`.
    """
    squares = isinstance(body, ParabolaBody)
    cone = Parabola(units=body.units) if squares else Cone(body.signed, body.units)
    scales = tuple(bound / epsilon for bound in body.bounds)
    if groups is None and total:
        return CentredNoise(scales, count, total)
    if groups is None:
        return JointNoise(cone, scales, count)
    if shared:
        return LimitedNoise(cone, scales, count, groups, shared)
    wide = tuple(scale * groups for scale in scales)
    if isinstance(cone, Parabola):
        return SeparateParabolas(cone, wide)
    if favoured:
        return StretchedNoise(cone, wide, tuple(body.names.index(n) - body.units for n in favoured), part)
    return SeparateNoise(cone, wide)
