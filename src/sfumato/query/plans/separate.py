"""Plans with Laplace or Gaussian noise of each number by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache

from sfumato.budget import Loss, calibrate, gaussian_mu
from sfumato.budget.calibration import ROOM_OF_COMPOSITIONS, threshold_delta
from sfumato.dataclass import dataclass
from sfumato.errors import BudgetError, ParameterError, RefusalError
from sfumato.exact import root_up
from sfumato.framework import Norm
from sfumato.measurements.noise import NOISES, IndependentNoise, Law, NoiseKind
from sfumato.measurements.selection import (
    GaussianThreshold,
    GroupSelection,
    LaplaceThreshold,
    TruncatedGeometric,
)
from sfumato.noise import Laplace
from sfumato.query.choices import SELECTIONS
from sfumato.query.noisy.measurement import GroupMeasurement
from sfumato.query.plans.centred import centred_plan
from sfumato.query.plans.expected import Errors
from sfumato.query.plans.plan import Plan
from sfumato.query.plans.weighing import split
from sfumato.query.query import Query
from sfumato.query.requirements import Requirements, requirements

# Noise of this scale leaves 64-bit integers with probability below e^-8000.
MOST_SCALE_BITS = 50


class SeparatePlans:
    """Plans of one question within one budget; what depends on the question alone is computed once.

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
        """Return about the expected errors of the outputs, by noise: by basic composition."""
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
        """Return the plans that may be the best with any of these noises.

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

    def _selections(self, noise: str, asked: str) -> list[str | None]:
        """Skip what cannot be, a threshold on the other noise, and what costs time and was never seen to
        win: truncated geometric selection beside Gaussian noise where a unit is in many groups."""
        if not self.query.private_groups:
            return [None]
        if asked != "auto":
            return [asked]
        geometric = noise == "laplace" or self.query.groups <= 3
        return [s for s in SELECTIONS if s == noise or (s == "truncated_geometric" and geometric)]

    def _candidate(self, noise: NoiseKind, selection: str | None) -> Plan:
        rule = self._rule(selection, noise.name)
        # Grids depend on the size of the noise and the noise, in the last digits, on grids: a rough size
        # first, then the noise for good.
        rough = self._rough_multiplier(self._unit_loss(noise, self.guess, rule.uses_noise) + rule.loss)
        needed = self._requirements(noise, rough, rule.uses_noise)
        unit_loss = self._unit_loss(noise, rough, rule.uses_noise)
        room = 0 if unit_loss.gaussian else ROOM_OF_COMPOSITIONS * (self.delta - rule.loss.least_delta)
        multiplier = calibrate(
            lambda k: unit_loss.noisier(k) + rule.loss, self.epsilon, self.delta - room, start=rough
        )
        plan = self._plan(noise, rule, needed, multiplier)
        most = max(plan.scales.values())
        if most > 2**MOST_SCALE_BITS:
            raise BudgetError(
                f"epsilon = {float(self.epsilon):g} asks for noise of {float(most):.3g} steps, "
                f"beyond what 64-bit integers hold; {self.query.remedies}"
            )
        return plan

    def _plan(self, noise: NoiseKind, rule: _Rule, needed: Requirements, multiplier: Fraction) -> Plan:
        drawn = IndependentNoise(noise, tuple(_scales(needed, noise, multiplier)))
        laws = dict(zip(needed.body.names, drawn.laws, strict=True))
        measurement = GroupMeasurement.of(self.query, needed, drawn, rule.selection(laws))
        plan = Plan(self.query, self.epsilon, self.delta, measurement, multiplier)
        # Groups may be counted from a part of all units, where it is known how many there are.
        query = self.query
        known = not (query.private_groups or query.brought_groups)
        return centred_plan(plan) if noise.norm is Norm.L2 and known and not query.in_all else plan

    def _required(self, noise: NoiseKind, multiplier: Fraction, units: bool) -> Requirements:
        return requirements(self.query, noise.norm, multiplier, units=units)

    def _lost(self, noise: NoiseKind, multiplier: Fraction, units: bool) -> Loss:
        """Return the loss at a noise multiplier of one, on the grids of another, of any groups."""
        needed = self._requirements(noise, multiplier, units)
        return noise.loss(needed.body, _scales(needed, noise, Fraction(1)), needed.times)

    def _rough_multiplier(self, unit_loss: Loss) -> Fraction:
        """Return about how much noise is needed, from the loss at a multiplier of one."""
        if unit_loss.gaussian:
            room = max(self.delta - unit_loss.least_delta, self.delta / 2**20)
            return root_up(unit_loss.gaussian) / gaussian_mu(self.epsilon, room)
        return unit_loss.basic_epsilon / self.epsilon

    def _rule(self, name: str | None, noise: str) -> _Rule:
        """Return how groups are selected, by its name."""
        groups = self.query.groups
        if name is None:
            return _Rule(False, Loss(), Fraction(0), self.pre_threshold)
        # Pure epsilon needs no delta of its own, so selection gets all of it.
        share = self.delta if noise == "laplace" else self.delta / 2
        each = threshold_delta(share, groups)
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
        return _Rule(True, Loss(additive_delta=share), each, self.pre_threshold)


def _scales(needed: Requirements, noise: NoiseKind, multiplier: Fraction) -> list[Fraction]:
    return [multiplier * share for share in split(needed, noise.norm)]


@dataclass(frozen=True)
class _Rule:
    """One way to select groups, before the noise is known: what it costs and what it shares."""

    uses_noise: bool
    loss: Loss
    delta_per_group: Fraction
    pre_threshold: int
    geometric: TruncatedGeometric | None = None

    def selection(self, laws: Mapping[str, Law]) -> GroupSelection | None:
        """Return the rule for groups whose units have noise of these laws."""
        if self.geometric is not None:
            return self.geometric
        if not self.uses_noise:
            return None
        law = laws["units"]
        if isinstance(law, Laplace):
            return LaplaceThreshold(law, self.delta_per_group, self.pre_threshold)
        return GaussianThreshold(law, self.delta_per_group, self.pre_threshold)
