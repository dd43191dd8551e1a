"""A question and a budget to a plan: which noise, which group selection, which grids.

All of it depends on the question alone.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import lru_cache

from sfumato.budget import Loss, calibrate, gaussian_mu, split_delta
from sfumato.budget.parameters import admissible_delta, admissible_epsilon
from sfumato.errors import BudgetError, ParameterError, QueryError, RefusalError, shown
from sfumato.exact import one_of, positive_int, root_up
from sfumato.framework import ContributionDistance, Norm
from sfumato.measurements.noise import NOISES, Law, NoiseKind
from sfumato.measurements.selection import (
    GaussianThreshold,
    GroupSelection,
    LaplaceThreshold,
    TruncatedGeometric,
)
from sfumato.noise import Laplace
from sfumato.query.centred import best_metric, centred_plan, deviations
from sfumato.query.choices import NOISE_CHOICES, SELECTIONS, Amount, NoiseChoice, SelectionChoice
from sfumato.query.choices import SEPARATE_NOISES as NOISE_NAMES
from sfumato.query.expected import expected_errors, ratio
from sfumato.query.plan import Plan
from sfumato.query.question import Query
from sfumato.query.requirements import Requirements, requirements
from sfumato.query.together import TogetherPlan, k_norm_plan
from sfumato.query.weighing import split

SMALLEST_EPSILON, LARGEST_EPSILON = Fraction(1, 10**12), Fraction(10**6)
# Noise of this scale leaves 64-bit integers with probability below e^-8000.
MOST_SCALE_BITS = 50
SMALLEST_DELTA = Fraction(1, 10**300)
# Errors that are larger than this part of those with other noise are no reason to draw it for all together.
CLEARLY = 0.98


def make_plan(
    query: Query,
    *,
    epsilon: Amount,
    delta: Amount = 0,
    noise: NoiseChoice = "auto",
    group_selection: SelectionChoice = "auto",
    pre_threshold: int = 1,
) -> Plan:
    """Choose noise, grids and group selection for a question within a budget.

    Args:
        query: what is asked.
        epsilon, delta: the budget.
        noise: "auto", "laplace", "gaussian" or "k_norm".
        group_selection: "auto", "truncated_geometric", "laplace" or "gaussian".
        pre_threshold: private groups with fewer units are never shown.
    Returns:
        The plan with the smallest score among those that the options admit.
    Raises:
        BudgetError: epsilon or delta is not admissible, or cannot buy what is asked.
        ParameterError: an option is unknown.
    """
    eps, dlt = _budget(epsilon, delta)
    one_of(noise, "noise", NOISE_CHOICES)
    _choices("group_selection", group_selection, SELECTIONS)
    positive_int(pre_threshold, "pre_threshold")
    _check_groups(query, dlt, group_selection, pre_threshold)
    if noise == "k_norm":
        one_of(group_selection, "group_selection", ("auto",))
    plan = _chosen(_Asked(query.kind), eps, dlt, noise, group_selection, pre_threshold)
    # Copies: whoever changes a plan changes no other.
    return replace(plan, query=query, scales=dict(plan.scales), laws=dict(plan.laws))


@dataclass(frozen=True)
class _Asked:
    """A question as far as plans follow from it, which equals all that have the same plan."""

    query: Query = field(compare=False)
    key: tuple[Hashable, ...] = field(init=False)

    def __post_init__(self) -> None:
        query = self.query
        parts = {f.name: getattr(query, f.name) for f in fields(query)}
        count = None if query.public_keys is None else query.public_keys.num_rows
        parts |= {"schema": tuple(query.schema.items()), "public_keys": count}
        object.__setattr__(self, "key", tuple(parts.values()))


@lru_cache(maxsize=128)
def _chosen(
    asked: _Asked,
    eps: Fraction,
    dlt: Fraction,
    noise: NoiseChoice,
    group_selection: SelectionChoice,
    pre_threshold: int,
) -> Plan:
    """Choose the plan of a question whose options are admissible; nothing in one is of a single release."""
    query = asked.query
    planner = _Planner(query, eps, dlt)
    if noise == "k_norm":
        plan = k_norm_plan(query, eps, dlt, pre_threshold)
        # With quantiles there is nothing to compare: their errors follow from the rows.
        return plan if plan.choices else replace(plan, others=planner.compared(plan.expected))
    together = planner.together(pre_threshold) if noise == group_selection == "auto" else None
    if together and together.surely_best:
        return together
    return _separate(planner, noise, group_selection, pre_threshold, together)


def _separate(
    planner: _Planner,
    noise: NoiseChoice,
    group_selection: SelectionChoice,
    pre_threshold: int,
    together: TogetherPlan | None,
) -> Plan:
    """Choose the best plan with noise of each number by itself, or the one with that of all together."""
    query, dlt = planner.query, planner.delta
    selections: tuple[str | None, ...] = (None,)
    if query.private_groups:
        selections = _choices("group_selection", group_selection, SELECTIONS)
    noises = _choices("noise", noise, NOISE_NAMES)
    if noise == "auto" and group_selection in NOISES:
        noises = (group_selection,)  # a threshold is on the release's own noise
    if dlt == 0:
        if noises == ("gaussian",):
            raise BudgetError(
                "delta is 0, but Gaussian noise needs more; give a delta such as 1e-6, or Laplace noise"
            )
        noises = ("laplace",)
    if noises == NOISE_NAMES and planner.gaussian_is_ahead():
        noises = ("gaussian",)
    candidates, refusals = [], []
    for n in noises:
        for s in selections:
            if planner.worth_trying(group_selection, n, s):
                try:
                    candidates.append(planner.candidate(NOISES[n], s, pre_threshold))
                except RefusalError as refusal:  # a rule that cannot work at this budget
                    refusals.append(refusal)
    if not candidates:
        raise refusals[0]
    best = min(candidates, key=lambda plan: plan.score)
    if noise == "auto":
        best = replace(best, others=_compared(best, candidates))
    return best if together is None else planner.better(together, best)


def _compared(best: Plan, candidates: Sequence[Plan]) -> tuple[tuple[str, float], ...]:
    """Return what the best of some plans is beside each other kind of noise."""
    least: dict[str, float] = {}
    for plan in candidates:
        least[plan.noise.name] = min(plan.score, least.get(plan.noise.name, math.inf))
    return tuple((n, math.exp(best.score - score)) for n, score in least.items() if n != best.noise.name)


def _check_groups(query: Query, delta: Fraction, group_selection: str, pre_threshold: int) -> None:
    if query.private_groups:
        if delta == 0:
            raise BudgetError(
                "delta is 0, but private groups need more: showing that a group exists is never free. "
                "Give a delta well below one over the number of units, such as 1e-6; or the groups, where "
                "they are public knowledge: group_by(..., keys=[...]), in a Beam aggregation public_keys=..."
            )
        return
    for name, value, default in (
        ("group_selection", group_selection, "auto"),
        ("pre_threshold", pre_threshold, 1),
    ):
        if value != default:
            raise ParameterError(name, value, "left out here: the groups are public, so none is selected")


def _budget(epsilon: object, delta: object) -> tuple[Fraction, Fraction]:
    eps, dlt = admissible_epsilon(epsilon), admissible_delta(delta)
    if not SMALLEST_EPSILON <= eps <= LARGEST_EPSILON:
        raise BudgetError(
            f"epsilon is {shown(epsilon)}, but must be between 1e-12 and 1,000,000: below, nothing is left "
            "to see, and above, nothing is hidden"
        )
    if 0 < dlt < SMALLEST_DELTA:
        raise BudgetError(f"delta is {shown(delta)}, but must be 0 or at least 1e-300")
    return eps, dlt


def _choices(name: str, value: object, known: tuple[str, ...]) -> tuple[str, ...]:
    chosen = one_of(value, name, ("auto", *known))
    return known if chosen == "auto" else (chosen,)


class _Planner:
    """Plans of one question within one budget; what depends on the question alone is computed once."""

    def __init__(self, query: Query, epsilon: Fraction, delta: Fraction) -> None:
        self.query, self.epsilon, self.delta = query, epsilon, delta
        self.requirements = lru_cache(maxsize=None)(self._requirements)
        self.unit_loss = lru_cache(maxsize=None)(self._unit_loss)

    def _requirements(self, noise: NoiseKind, multiplier: Fraction, units: bool) -> Requirements:
        return requirements(self.query, noise.norm, multiplier, units=units)

    def _unit_loss(self, noise: NoiseKind, multiplier: Fraction, units: bool) -> Loss:
        """Return the loss at a noise multiplier of one, on the grids of another."""
        return self.loss(self.requirements(noise, multiplier, units), noise, Fraction(1))

    def loss(self, needed: Requirements, noise: NoiseKind, multiplier: Fraction) -> Loss:
        """Return what the map of the noise says, whichever groups are shown."""
        metric = ContributionDistance(needed.body, self.query.groups)
        return noise.by_group(_scales(needed, noise, multiplier), metric, keys=()).map(1)  # type: ignore[no-any-return]

    def gaussian_is_ahead(self) -> bool:
        """Skip Laplace noise that is far behind by basic composition.

        Privacy-loss distributions gain nothing on a few Laplace noises, and bring many of them at best to
        the scale of the Gaussian, whose deviation is then still smaller by the root of 2.
        """
        if self.query.weighed:
            return False  # they split the budget in another way
        deviations = {}
        for name, kind in NOISES.items():
            multiplier = float(
                self.rough_multiplier(self.unit_loss(kind, Fraction(1), self.query.private_groups))
            )
            deviations[name] = multiplier * kind.law(Fraction(1)).standard_deviation
        return deviations["laplace"] > 1.25 * deviations["gaussian"]

    def compared(self, errors: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
        """Return how large these errors of the outputs are of those with each other noise, about."""
        found = []
        for name, kind in NOISES.items():
            if name == "gaussian" and not self.delta:
                continue
            needed = self.requirements(kind, Fraction(1), self.query.private_groups)
            multiplier = self.rough_multiplier(self.unit_loss(kind, Fraction(1), self.query.private_groups))
            scales = zip(needed.body.names, _scales(needed, kind, multiplier), strict=True)
            sizes = {n: float(kind.law(scale).standard_deviation) for n, scale in scales}
            metric = best_metric(needed, self.query) if self.is_centred(kind) else None
            if metric is not None:
                mu = float(gaussian_mu(self.epsilon, self.delta))
                sizes = {n: deviation / mu for n, deviation in deviations(metric).items()}
            found.append((name, ratio(errors, expected_errors(needed, sizes), needed.weights)))
        return tuple(found)

    def together(self, pre_threshold: int) -> TogetherPlan | None:
        """Return the plan with K-norm noise, if it can be drawn where the rows are, and answer the question.

        What a zCDP accountant would charge for it, half of epsilon squared, is for who has such a budget.
        """
        if "k_norm" not in self.query.noises:
            return None
        try:
            plan = k_norm_plan(self.query, self.epsilon, self.delta, pre_threshold)
        except (BudgetError, ParameterError, QueryError):  # what it cannot answer, the others do
            return None
        return plan if plan.choices else replace(plan, others=self.compared(plan.expected))

    def better(self, together: TogetherPlan, best: Plan) -> Plan:
        """Return the plan with K-norm noise where its outputs have smaller errors, else the other one."""
        errors = best.expected
        own = together.compared
        if together.selection is not None and best.selection is not None:
            # To be shown is one output more.
            own |= {"": together.selection.expected_threshold}
            errors |= {"": best.selection.expected_threshold}
        share = ratio(own, errors, best.requirements.weights)
        if share > CLEARLY:
            return replace(best, others=(*best.others, (together.noise.name, 1 / share)))
        return replace(together, others=together.others or ((best.noise.name, share),))

    def worth_trying(self, asked: str, kind: str, selection: str | None) -> bool:
        """Skip what cannot be, a threshold on the other noise, and what costs time and was never seen to
        win: truncated geometric selection beside Gaussian noise where a unit is in many groups."""
        if selection is None or asked != "auto":
            return True
        if selection == "truncated_geometric":
            return kind == "laplace" or self.query.groups <= 3
        return selection == kind

    def candidate(self, noise: NoiseKind, selection: str | None, pre_threshold: int) -> Plan:
        """Return the plan with this noise and this selection."""
        epsilon, delta = self.epsilon, self.delta
        rule = _Rule.of(selection, noise.name, epsilon, delta, self, pre_threshold)
        # Grids depend on the size of the noise and the noise, in the last digits, on grids: a rough size
        # first, then the noise for good.
        unit_loss = self.unit_loss(noise, Fraction(1), rule.uses_noise)
        rough = self.rough_multiplier(unit_loss + rule.loss)
        needed = self.requirements(noise, rough, rule.uses_noise)
        unit_loss = self.unit_loss(noise, rough, rule.uses_noise)
        multiplier = calibrate(lambda k: unit_loss.noisier(k) + rule.loss, epsilon, delta, start=rough)
        scales = dict(zip(needed.body.names, _scales(needed, noise, multiplier), strict=True))
        if max(scales.values()) > 2**MOST_SCALE_BITS:
            raise BudgetError(
                f"epsilon = {float(epsilon):g} asks for noise of {float(max(scales.values())):.3g} steps, "
                "beyond what 64-bit integers hold; ask for a larger epsilon or set smaller limits or bounds"
            )
        laws = {name: noise.law(scale) for name, scale in scales.items()}
        loss = self.loss(needed, noise, multiplier) + rule.loss
        plan = Plan(
            self.query,
            epsilon,
            delta,
            noise,
            needed,
            multiplier,
            scales,
            laws,
            rule.selection(laws),
            loss,
        )
        return centred_plan(plan) if self.is_centred(noise) else plan

    def is_centred(self, noise: NoiseKind) -> bool:
        """Whether groups may be counted from a part of all units."""
        return noise.norm is Norm.L2 and not self.query.private_groups

    def rough_multiplier(self, unit_loss: Loss) -> Fraction:
        """Return about how much noise is needed, from the loss at a multiplier of one."""
        if unit_loss.gaussian:
            room = max(self.delta - unit_loss.least_delta, self.delta / 2**20)
            return root_up(unit_loss.gaussian) / gaussian_mu(self.epsilon, room)
        return unit_loss.basic_epsilon / self.epsilon


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

    @classmethod
    def of(
        cls,
        name: str | None,
        noise: str,
        epsilon: Fraction,
        delta: Fraction,
        planner: _Planner,
        pre_threshold: int,
    ) -> _Rule:
        groups = planner.query.groups
        if name is None:
            return cls(False, Loss(), Fraction(0), pre_threshold)
        # Pure epsilon needs no delta of its own, so selection gets all of it.
        share = delta if noise == "laplace" else delta / 2
        each = split_delta(share, groups)
        if name == "truncated_geometric":
            parts = 1 + len(planner.requirements(NOISES[noise], Fraction(1), False).body.names)
            rule = TruncatedGeometric(epsilon / (parts * groups), each, pre_threshold)
            return cls(False, rule.loss(groups), each, pre_threshold, rule)
        if name != noise:
            raise ParameterError(
                "group_selection", name, f"'truncated_geometric' or {noise!r}, the release's noise"
            )
        return cls(True, Loss(additive_delta=share), each, pre_threshold)

    def selection(self, laws: Mapping[str, Law]) -> GroupSelection | None:
        if self.geometric is not None:
            return self.geometric
        if not self.uses_noise:
            return None
        law = laws["units"]
        if isinstance(law, Laplace):
            return LaplaceThreshold(law, self.delta_per_group, self.pre_threshold)
        return GaussianThreshold(law, self.delta_per_group, self.pre_threshold)
