"""Plans with Gaussian noise on public groups that are counted from a part of all units."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from sfumato.budget import gaussian_mu
from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError, QueryError
from sfumato.exact import root_up
from sfumato.framework import CentredDistance, Norm
from sfumato.measurements.centred_gaussian import noise_of
from sfumato.noise.values import Floats
from sfumato.query.noisy.measurement import GroupMeasurement
from sfumato.query.plans.expected import expected_errors, ratio
from sfumato.query.plans.plan import Plan
from sfumato.query.plans.weighing import split
from sfumato.query.query import Query
from sfumato.query.requirements import Requirements
from sfumato.transformations import cone_of

# Where errors are not at least so much smaller, each number keeps noise of its own.
WORTH = 0.9
MOST_GROUPS = 1 << 16  # one batch
CENTRES = [Fraction(i, 32) for i in range(1, 32)]
PARTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)  # of the squared loss, for numbers that are no counts


def centred_plan(plan: Plan) -> Plan:
    """Return the plan with noise that has a part in common where errors are smaller by a tenth, else itself.

    Args:
        plan: with Gaussian noise of each number.
    """
    metric = best_metric(plan.requirements, plan.query)
    if metric is None:
        return plan
    mu = gaussian_mu(plan.epsilon, plan.delta)
    try:
        drawn = noise_of(metric, 1 / mu)
    except ParameterError:  # beyond what is drawn on the fine grid
        return plan
    common = (
        f"Groups are counted from {metric.centre} of all units: their noise has a part in common, "
        "so that what groups differ by has less noise, and what they add up to has more."
    )
    measurement = GroupMeasurement.of(plan.query, plan.requirements, drawn)
    return replace(plan, measurement=measurement, multiplier=1 / mu, noise_notes=(common,))


def best_metric(needed: Requirements, query: Query) -> CentredDistance | None:
    """Return the shape of noise with the smallest errors, in which a unit moves by at most 1.

    Returns:
        None where noise of each number by itself is about as good, or the only one that there is.
    """
    groups, shown = query.groups, len(query.public_groups)
    if not 1 < groups <= shown <= MOST_GROUPS:
        return None
    try:
        cone = cone_of(needed.statistics)
    except QueryError:
        return None
    counts = 1 + cone.units
    share = split(needed, Norm.L2)
    plain = math.sqrt(groups * needed.body.size(Norm.L2, share))
    sizes = {c.name: plain * float(s * c.step) for c, s in zip(needed.coordinates, share, strict=True)}
    before = expected_errors(needed.estimates, sizes)
    share = (*cone.bounds[:counts], *share[counts:])
    rest = float(needed.body.size(Norm.L2, share)) - counts
    # The errors where counts alone have noise, and where they have none: squares add up.
    each = [(c.name, float(s * c.step)) for c, s in zip(needed.coordinates, share, strict=True)]
    silent = dict.fromkeys(cone.names, 0.0)
    of_counts = expected_errors(needed.estimates, silent | dict(each[:counts]))
    of_rest = expected_errors(needed.estimates, silent | dict(each[counts:]))
    shapes = _shapes(counts, rest, groups, shown)
    moved = np.sqrt(shapes.moved(counts, rest, groups, shown))
    errors = {n: moved * np.hypot(shapes.count * e, shapes.beside * of_rest[n]) for n, e in of_counts.items()}
    logs = sum(float(needed.weights[n or ""]) * np.log(e) for n, e in errors.items())
    best = np.unravel_index(int(np.argmin(logs)), moved.shape)
    if ratio({n: float(e[best]) for n, e in errors.items()}, before, needed.weights) > WORTH:
        return None
    own = [*[shapes.own[best]] * counts, *[shapes.beside[best]] * cone.signed]
    scales = tuple(s * _rational(d) for s, d in zip(share, own, strict=True))
    # How many groups there are is all that counts; which ones is the metric's of the plan.
    found = CentredDistance(cone, scales, _rational(shapes.total[best]), CENTRES[best[0]], range(shown))
    size = root_up(found.moved(needed.body, groups))
    return replace(found, scales=tuple(size * s for s in found.scales), total=size * found.total)


@dataclass(frozen=True)
class _Shapes:
    """Deviations of noise, each number over its share: of counts, of all units, and of what counts limit.

    Each of shape (centres, parts).
    """

    own: Floats
    total: Floats
    beside: Floats

    @property
    def count(self) -> Floats:
        """The deviation of a count, of its own noise and of that of all units."""
        return np.hypot(self.own, _CENTRES * self.total)

    def moved(self, counts: int, rest: float, groups: int, shown: int) -> Floats:
        """Return about what `CentredDistance.moved` does."""
        near, far = (_CENTRES / self.own) ** 2, ((1 - _CENTRES) / self.own) ** 2
        inside = counts * far + rest / self.beside**2
        if counts > 1:
            inside = np.maximum(inside, far + near)
        more: Floats = groups * np.maximum(inside - counts * near, 0.0)
        return 1 / self.total**2 + shown * counts * near + more


_CENTRES = np.array([[float(centre)] for centre in CENTRES])


def _shapes(counts: int, rest: float, groups: int, shown: int) -> _Shapes:
    """Return shapes of noise, one of which is nearly the best."""
    # Of own noise of variance a (a + c) and common noise of c (a + c), the sum is the least one.
    a = np.sqrt(counts * (shown * _CENTRES**2 + groups * (1 - 2 * _CENTRES)))
    own, total = np.sqrt(a * (a + _CENTRES)), np.sqrt((a + _CENTRES) / _CENTRES)
    if not rest:
        return _Shapes(own, total, np.ones_like(own))
    # At the edge a group that a unit is in costs as much as one that it is not in.
    edge = np.maximum(groups * (2 * _CENTRES - 1) * counts / own**2, 0.0)
    parts = np.hstack([np.tile(PARTS, (len(CENTRES), 1)), np.where(edge > 0, edge / (1 + edge), PARTS[0])])
    wider = 1 / np.sqrt(1 - parts)
    return _Shapes(wider * own, wider * total, np.sqrt(groups * rest / parts))


def _rational(number: float) -> Fraction:
    """Return about this number, of few digits."""
    return Fraction(round(float(number) * 2**16), 2**16)
