"""Plans with Laplace or Gaussian noise of each number, independent or with a part in common."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from sfumato.budget import Loss, calibrate, gaussian_mu
from sfumato.budget.calibration import threshold_delta
from sfumato.dataclass import dataclass
from sfumato.errors import BudgetError, ParameterError, QueryError, RefusalError
from sfumato.exact import root_up
from sfumato.framework import CentredDistance, Norm
from sfumato.measurements.correlated_noise import centred_noise
from sfumato.measurements.group_selection import (
    GaussianThreshold,
    GroupSelection,
    LaplaceThreshold,
    SharedThreshold,
    TruncatedGeometric,
)
from sfumato.measurements.independent_noise import NOISES, IndependentNoise, Law, NoiseKind
from sfumato.noise import Laplace
from sfumato.noise.law_tails import Floats
from sfumato.plan.group_measurement import GroupMeasurement
from sfumato.plan.noise_error import Errors, expected_errors, ratio, split
from sfumato.plan.plan import Plan
from sfumato.plan.required_statistics import Requirements, requirements
from sfumato.query.option_names import SELECTIONS
from sfumato.query.query import Query
from sfumato.transformations import cone_of

# Noise of this scale leaves 64-bit integers with probability below e^-8000.
MAX_SCALE_BITS = 50


class SeparatePlans:
    """Plans of one query with independent noise; what depends on the query alone is computed once.

    Args:
        query: what is asked.
        epsilon, delta: the budget.
        pre_threshold: private groups with fewer units are never shown.
    """

    def __init__(self, query: Query, epsilon: Fraction, delta: Fraction, pre_threshold: int) -> None:
        self.query = query
        self.epsilon = epsilon
        self.delta = delta
        self.pre_threshold = pre_threshold
        self.guess: Fraction = query.times / epsilon  # of the multiplier, for the first grids
        self._requirements = lru_cache(maxsize=None)(self._required)
        self._unit_loss = lru_cache(maxsize=None)(self._lost)

    def rough(self, noises: Iterable[str]) -> dict[str, Errors]:
        """Return rough expected errors of the outputs by kind of independent noise."""
        found: dict[str, Errors] = {}
        for name in noises:
            kind = NOISES[name]
            try:
                rule = self._rule(name if self.query.private_groups else None, name)
                unit_loss = self._unit_loss(kind, self.guess, rule.uses_noise) + rule.loss
                needed = self._requirements(kind, self.guess, rule.uses_noise)
                multiplier = self._rough_multiplier(unit_loss)
                found[name] = self._plan(kind, rule, needed, multiplier).expected
            except (BudgetError, RefusalError):  # a rule that cannot work at this budget
                continue
        return found

    def candidates(self, noises: Iterable[str], group_selection: str) -> list[Plan]:
        """Return the plans with independent noise that may be the best.

        Args:
            noises: names of kinds.
            group_selection: "auto", or the name of the only one that is admitted.
        Raises:
            RefusalError: there is none.
        """
        found, refusals = [], []
        for noise in noises:
            for selection in self._selections(noise, group_selection):
                try:
                    found.append(self._candidate(NOISES[noise], selection))
                except (BudgetError, RefusalError) as refusal:  # a rule that cannot work at this budget
                    refusals.append(refusal)
        if not found:
            raise refusals[0]
        return found

    def _selections(self, noise: str, requested: str) -> list[str | None]:
        """Skip what cannot be, a threshold on the other noise, and what costs time and was never seen to
        win: truncated geometric selection beside Gaussian noise where a unit is in many groups."""
        if not self.query.private_groups:
            return [None]
        if requested != "auto":
            return [requested]
        geometric = noise == "laplace" or self.query.groups <= 3
        return [s for s in SELECTIONS if s == noise or (s == "truncated_geometric" and geometric)]

    def _candidate(self, noise: NoiseKind, selection: str | None) -> Plan:
        rule = self._rule(selection, noise.name)
        # Grids depend on the size of the noise and the noise, in the last digits, on grids: a rough size
        # first, then the noise for good.
        rough = self._rough_multiplier(self._unit_loss(noise, self.guess, rule.uses_noise) + rule.loss)
        needed = self._requirements(noise, rough, rule.uses_noise)
        unit_loss = self._unit_loss(noise, rough, rule.uses_noise)
        multiplier = calibrate(
            lambda k: unit_loss.scaled(k) + rule.loss, self.epsilon, self.delta, start=rough
        )
        plan = self._plan(noise, rule, needed, multiplier)
        most = max(plan.scales.values())
        if most > 2**MAX_SCALE_BITS:
            raise BudgetError(
                f"epsilon = {float(self.epsilon):g} needs noise of {float(most):.3g} steps, which "
                f"exceeds 64-bit integers; {self.query.remedies}"
            )
        return plan

    def _plan(self, noise: NoiseKind, rule: _Rule, needed: Requirements, multiplier: Fraction) -> Plan:
        drawn = IndependentNoise(noise, tuple(_scales(needed, noise, multiplier)))
        laws = dict(zip(needed.body.names, drawn.laws, strict=True))
        measurement = GroupMeasurement.from_query(self.query, needed, drawn, rule.selection(laws))
        plan = Plan(self.query, self.epsilon, self.delta, measurement, multiplier)
        # Groups may be counted from a part of all units, where it is known how many there are.
        query = self.query
        known = not (query.private_groups or query.brought_groups)
        return centred_plan(plan) if noise.norm is Norm.L2 and known and not query.in_all else plan

    def _required(self, noise: NoiseKind, multiplier: Fraction, units: bool) -> Requirements:
        return requirements(self.query, noise.norm, multiplier, units=units)

    def _lost(self, noise: NoiseKind, multiplier: Fraction, units: bool) -> Loss:
        """Return the loss of independent noise at multiplier 1, on the grids of another, of any groups."""
        needed = self._requirements(noise, multiplier, units)
        return noise.loss(needed.body, _scales(needed, noise, Fraction(1)), needed.times)

    def _rough_multiplier(self, unit_loss: Loss) -> Fraction:
        """Return about what multiplier independent noise needs, from its loss at 1."""
        if unit_loss.gaussian:
            room = max(self.delta - unit_loss.least_delta, self.delta / 2**20)
            return root_up(unit_loss.gaussian) / gaussian_mu(self.epsilon, room)
        return unit_loss.basic_epsilon / self.epsilon

    def _rule(self, name: str | None, noise: str) -> _Rule:
        """Return the group selection rule of a plan with independent noise, by name."""
        groups = self.query.groups
        if name is None:
            return _Rule(False, Loss(), Fraction(0), self.pre_threshold)
        # Pure epsilon needs no delta of its own, so selection gets all of it.
        share = self.delta if noise == "laplace" else self.delta / 2
        each = share if self.query.shared else threshold_delta(share, groups)
        if name == "truncated_geometric":
            counted = self._requirements(NOISES[noise], self.guess, False).statistics
            # Bins share one limit, and so the budget of one number.
            parts = 1 + sum(1 if s.body.spread else len(s.names) for s in counted)
            rule = TruncatedGeometric(self.epsilon / (parts * groups), each, self.pre_threshold)
            return _Rule(False, rule.loss(groups), each, self.pre_threshold, rule)
        if name != noise:
            raise ParameterError(
                "group_selection", name, f"'truncated_geometric' or {noise!r}, the release's noise"
            )
        shared = groups if self.query.shared else None
        return _Rule(True, Loss(additive_delta=share), each, self.pre_threshold, shared=shared)


def _scales(needed: Requirements, noise: NoiseKind, multiplier: Fraction) -> list[Fraction]:
    return [multiplier * share for share in split(needed, noise.norm)]


@dataclass(frozen=True)
class _Rule:
    """A group selection rule of a plan with independent noise: its cost, and what it shares with noise."""

    uses_noise: bool
    loss: Loss
    delta_per_group: Fraction
    pre_threshold: int
    geometric: TruncatedGeometric | None = None
    shared: int | None = None  # the most groups of a unit that shares a weight among them

    def selection(self, laws: Mapping[str, Law]) -> GroupSelection | None:
        """Return the group selection beside independent noise of these laws."""
        if self.geometric is not None:
            return self.geometric
        if not self.uses_noise:
            return None
        law = laws["units"]
        if isinstance(law, Laplace):
            return LaplaceThreshold(law, self.delta_per_group, self.pre_threshold)
        if self.shared is not None:
            return SharedThreshold(law, self.delta_per_group, groups=self.shared)
        return GaussianThreshold(law, self.delta_per_group, self.pre_threshold)


# Where errors are not at least so much smaller, each number keeps noise of its own.
WORTH = 0.9
MAX_GROUPS = 1 << 16  # one batch
CENTRES = [Fraction(i, 32) for i in range(1, 32)]
PARTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)  # of the squared loss, for numbers that are no counts


def centred_plan(plan: Plan) -> Plan:
    """Return the plan with noise in common if its errors are smaller by a tenth; else the plan as it is.

    Args:
        plan: with Gaussian noise of each number.
    """
    metric = best_metric(plan.requirements, plan.query)
    if metric is None:
        return plan
    mu = gaussian_mu(plan.epsilon, plan.delta)
    try:
        drawn = centred_noise(metric, 1 / mu)
    except ParameterError:  # beyond what is drawn on the fine grid
        return plan
    common = (
        f"Groups are counted from {metric.centre} of all units, so their noise has a common part: "
        "differences of groups have less noise, and sums of groups more."
    )
    measurement = GroupMeasurement.from_query(plan.query, plan.requirements, drawn)
    return replace(plan, measurement=measurement, multiplier=1 / mu, noise_notes=(common,))


def best_metric(needed: Requirements, query: Query) -> CentredDistance | None:
    """Return the shape of noise in common with the smallest errors.

    Returns:
        None where noise of each number by itself is about as good, or the only one that there is.
    """
    groups, shown = query.groups, len(query.public_groups)
    if not 1 < groups <= shown <= MAX_GROUPS:
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
    errors = {n: moved * np.hypot(shapes.count * e, shapes.rest * of_rest[n]) for n, e in of_counts.items()}
    logs = sum(float(needed.weights[n or ""]) * np.log(e) for n, e in errors.items())
    best = np.unravel_index(int(np.argmin(logs)), moved.shape)
    if ratio({n: float(e[best]) for n, e in errors.items()}, before, needed.weights) > WORTH:
        return None
    own = [*[shapes.own[best]] * counts, *[shapes.rest[best]] * cone.signed]
    scales = tuple(s * _rational(d) for s, d in zip(share, own, strict=True))
    # How many groups there are is all that counts; which ones is the metric's of the plan.
    found = CentredDistance(cone, scales, _rational(shapes.total[best]), CENTRES[best[0]], range(shown))
    size = root_up(found.moved(needed.body, groups))
    return replace(found, scales=tuple(size * s for s in found.scales), total=size * found.total)


@dataclass(frozen=True)
class _Shapes:
    """Deviations of noise in common, for counts, for all units, and for what counts limit.

    Each of shape (centres, parts).
    """

    own: Floats
    total: Floats
    rest: Floats

    @property
    def count(self) -> Floats:
        """The deviation of a count under noise in common."""
        return np.hypot(self.own, _CENTRES * self.total)

    def moved(self, counts: int, rest: float, groups: int, shown: int) -> Floats:
        """Return about what `CentredDistance.moved` does, for a shape of noise in common."""
        near, far = (_CENTRES / self.own) ** 2, ((1 - _CENTRES) / self.own) ** 2
        inside = counts * far + rest / self.rest**2
        if counts > 1:
            inside = np.maximum(inside, far + near)
        more: Floats = groups * np.maximum(inside - counts * near, 0.0)
        return 1 / self.total**2 + shown * counts * near + more


_CENTRES = np.array([[float(centre)] for centre in CENTRES])


def _shapes(counts: int, rest: float, groups: int, shown: int) -> _Shapes:
    """Return shapes of noise in common, one of which is nearly the best."""
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
    """Return about this number as a fraction with few digits."""
    return Fraction(round(float(number) * 2**16), 2**16)
