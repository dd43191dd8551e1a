"""Plans with Gaussian noise on public groups that are counted from a part of all units."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sfumato.budget import Loss, gaussian_mu
from sfumato.budget.measure import PrivacyLoss
from sfumato.errors import ParameterError, QueryError
from sfumato.exact import root_up
from sfumato.framework import CentredDistance, Measurement, Norm
from sfumato.measurements.centred_gaussian import centred_gaussian, noise_of
from sfumato.measurements.conversions import convert
from sfumato.noise.centred_gaussian import CentredGaussian
from sfumato.query.expected import expected_errors, ratio
from sfumato.query.noising import Noising
from sfumato.query.plan import Plan
from sfumato.query.question import Query
from sfumato.query.requirements import Requirements
from sfumato.transformations import cone_of

# Where errors are not at least so much smaller, each number keeps noise of its own.
WORTH = 0.9
MOST_GROUPS = 1 << 16  # one batch
CENTRES = [Fraction(i, 32) for i in range(1, 32)]
PARTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)  # of the squared loss, for numbers that are no counts


@dataclass(frozen=True)
class CentredPlan(Plan):
    """A plan whose noise has a part in common in all groups.

    Args:
        drawn: the noise.
        shape: its shape, in which one unit moves the numbers by at most 1, for as many groups.
    """

    drawn: CentredGaussian
    shape: CentredDistance

    @property
    def metric(self) -> CentredDistance:
        """Its shape on the groups that are shown."""
        return replace(self.shape, keys=self.query.public_groups)

    @property
    def chain(self) -> Measurement:
        """Rows to noisy statistics of all groups, as they are released; its map at 1 is the loss."""
        noise = centred_gaussian(self.multiplier, self.metric)
        return self.exact_chain >> convert(noise, PrivacyLoss())

    @property
    def noising(self) -> Noising:
        """What the release does with exact statistics."""
        return replace(super().noising, together=self.drawn)

    @property
    def notes(self) -> tuple[str, ...]:
        """What whoever asks should know before the release."""
        common = (
            f"Groups are counted from {self.shape.centre} of all units: their noise has a part in common, "
            "so that what groups differ by has less noise, and what they add up to has more."
        )
        return (*super().notes, common)

    def _numbers_content(self) -> list[dict[str, Any]]:
        numbers = super()._numbers_content()
        for content, own, weight in zip(numbers, self.drawn.scales, self.drawn.weights, strict=True):
            content["noise_scale"] = str(own)
            content["noise_scale_in_common"] = str(weight * self.drawn.shared)
        return numbers


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
    names = plan.requirements.body.names
    return CentredPlan(
        plan.query, plan.epsilon, plan.delta, plan.noise, plan.requirements, 1 / mu,
        dict(zip(names, drawn.scales, strict=True)), dict(zip(names, drawn.laws, strict=True)),
        None, Loss(gaussian=mu**2), drawn, metric,
    )  # fmt: skip


def deviations(metric: CentredDistance) -> dict[str, float]:
    """Return the deviation of the noise of each number, at a multiplier of 1."""
    parts = zip(metric.body.names, metric.scales, metric.common, strict=True)
    return {name: math.hypot(own, common) for name, own, common in parts}


def best_metric(needed: Requirements, query: Query) -> CentredDistance | None:
    """Return the shape of noise with the smallest errors, in which a unit moves by at most 1.

    Returns:
        None where noise of each number by itself is about as good, or the only one that there is.
    """
    groups, shown = query.groups, len(query.public_groups)
    # Where many workers draw noise each has some of the groups.
    if "k_norm" not in query.noises or not 1 < groups <= shown <= MOST_GROUPS:
        return None
    try:
        cone = cone_of(needed.statistics)
    except QueryError:
        return None
    counts = 1 + cone.units
    share = needed.body.split(Norm.L2)
    each = [float(s) for s in share]
    rest = float(needed.body.size(Norm.L2, share)) - counts
    plain = math.sqrt(groups * (counts + rest))
    before = expected_errors(needed, {n: plain * s for n, s in zip(cone.names, each, strict=True)})

    def compared(shape: _Shape) -> float:
        size = math.sqrt(shape.moved(counts, rest, groups, shown))
        own = [size * shape.count] * counts + [size * shape.beside] * cone.signed
        pairs = zip(cone.names, own, each, strict=True)
        return ratio(expected_errors(needed, {n: d * s for n, d, s in pairs}), before)

    best = min(_shapes(counts, rest, groups, shown), key=compared)
    if compared(best) > WORTH:
        return None
    own = [*[best.own] * counts, *[best.beside] * cone.signed]
    scales = tuple(s * _rational(d) for s, d in zip(share, own, strict=True))
    # How many groups there are is all that counts; which ones is the metric's of the plan.
    found = CentredDistance(cone, scales, _rational(best.total), best.centre, range(shown))
    size = root_up(found.moved(needed.body, groups))
    return replace(found, scales=tuple(size * s for s in found.scales), total=size * found.total)


@dataclass(frozen=True)
class _Shape:
    """Deviations of noise, each number over its share: of counts, of all units, and of what counts limit."""

    centre: Fraction
    own: float
    total: float
    beside: float

    @property
    def count(self) -> float:
        """The deviation of a count, of its own noise and of that of all units."""
        return math.hypot(self.own, float(self.centre) * self.total)

    def moved(self, counts: int, rest: float, groups: int, shown: int) -> float:
        """Return about what `CentredDistance.moved` does."""
        c = float(self.centre)
        near, far = c**2 / self.own**2, (1 - c) ** 2 / self.own**2
        inside = counts * far + (rest / self.beside**2 if rest else 0.0)
        if counts > 1:
            inside = max(inside, far + near)
        return 1 / self.total**2 + shown * counts * near + groups * max(inside - counts * near, 0.0)


def _shapes(counts: int, rest: float, groups: int, shown: int) -> Iterator[_Shape]:
    """Yield shapes of noise, one of which is nearly the best."""
    for centre in CENTRES:
        c = float(centre)
        # Of own noise of variance a (a + c) and common noise of c (a + c), the sum is the least one.
        a = math.sqrt(counts * (shown * c**2 + groups * (1 - 2 * c)))
        own, total = math.sqrt(a * (a + c)), (a + c) / c
        if not rest:
            yield _Shape(centre, own, math.sqrt(total), 1.0)
            continue
        # At the edge a group that a unit is in costs as much as one that it is not in.
        edge = groups * (2 * c - 1) * counts / own**2
        for part in (*PARTS, *([edge / (1 + edge)] if edge > 0 else [])):
            wider = 1 / math.sqrt(1 - part)
            yield _Shape(centre, wider * own, wider * math.sqrt(total), math.sqrt(groups * rest / part))


def _rational(number: float) -> Fraction:
    """Return about this number, of few digits."""
    return Fraction(round(number * 2**16), 2**16)
