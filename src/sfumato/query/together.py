"""Plans with K-norm noise, which is drawn for all numbers of a release together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from sfumato.budget import Loss, split_delta
from sfumato.budget.measure import PrivacyLoss
from sfumato.errors import BudgetError, ParameterError
from sfumato.exact import round_up
from sfumato.framework import (
    ConeBody,
    ContributionDistance,
    KNormDistance,
    Measurement,
    Product,
)
from sfumato.measurements.conversions import convert
from sfumato.measurements.k_norm import K_NORM, KNormNoise, k_norm, noise_of
from sfumato.measurements.selection import KNormThreshold
from sfumato.noise.k_norm import CentredNoise, Cone, LimitedNoise, SeparateNoise
from sfumato.noise.k_norm.centred_laws import best_total
from sfumato.noise.k_norm.limited_laws import rough_deviations
from sfumato.noise.k_norm.limited_radii import Sizes
from sfumato.noise.k_norm.marginals import marginals
from sfumato.query.choosing import (
    Choice,
    choices_of,
    chosen_then_noisy,
    counted,
    share_of,
)
from sfumato.query.exact import ExactQuery
from sfumato.query.expected import Errors, expected_errors, ratio
from sfumato.query.explanation import joint_numbers_content
from sfumato.query.noising import Noising
from sfumato.query.plan import Plan
from sfumato.query.question import Query
from sfumato.query.requirements import requirements
from sfumato.transformations import Statistic, body_of, bound_groups, cone_of, per_group

# In one place, which holds all their exact numbers: some hundred MB.
MOST_TOGETHER = 1 << 22
# With limits: beyond, draws and laws take their time, and gain for large limits alone.
MOST_LIMITED = 1 << 10
# What groups share of the norm, where a unit is in some of them only.
SHARES = (Fraction(1, 8), Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))


@dataclass(frozen=True)
class TogetherPlan(Plan):
    """A plan whose noise has the shape of what one unit can add to all numbers.

    Args:
        drawn: the noise, for all groups together or for each by itself.
        choices: places near quantiles, which are chosen before numbers are counted beside them.
        chosen_with: the part of epsilon that this takes; the noise takes the rest.
    """

    drawn: KNormNoise
    choices: tuple[Choice, ...] = ()
    chosen_with: Fraction = Fraction(0)

    @property
    def exact(self) -> ExactQuery:
        """What the engine computes."""
        found = super().exact
        return replace(found, statistics=counted(found.statistics, self.choices))

    @property
    def body(self) -> ConeBody:
        """What one unit may add to a group."""
        return _body(self.requirements.statistics, self.shared)

    @property
    def deviations(self) -> dict[str, float]:
        """The standard deviation of the noise of each number, and of each place that is chosen, in rows."""
        return super().deviations | {c.leaves.names[0]: c.deviation for c in self.choices}

    @property
    def shared(self) -> Fraction:
        """What groups share of the norm, where a unit is in some of them only."""
        return self.drawn.shared if isinstance(self.drawn, LimitedNoise) else Fraction(0)

    @property
    def apart(self) -> bool:
        """Whether the noise counts on the limit of groups."""
        return isinstance(self.drawn, SeparateNoise | LimitedNoise)

    @property
    def metric(self) -> KNormDistance:
        """The norm of the noise, in which no unit's contribution is larger than 1."""
        most = self.query.groups if self.apart else None
        return KNormDistance(self.body, most, self.apart, self.shared)

    @property
    def chain(self) -> Measurement:
        """Rows to noisy statistics of all groups, as they are released; its map at 1 is the loss."""
        groups, keys = self.query.groups, self.query.public_groups
        most = groups if self.apart else None
        total = self.drawn.total if isinstance(self.drawn, CentredNoise) else 0
        epsilon = self.epsilon - self.chosen_with
        noise = k_norm(epsilon, self.body, keys, groups=most, shared=self.shared, total=total)
        if not self.choices:
            return self.exact_chain >> convert(noise, PrivacyLoss())
        rows: Any = self.exact_chain.input_domain
        statistics = counted(self.requirements.statistics, self.choices)
        exact = bound_groups(groups, domain=rows) >> per_group(statistics, groups=groups)
        metric = ContributionDistance(Product(tuple(s.body for s in statistics)), groups)
        return exact >> chosen_then_noisy(self.choices, noise, metric, keys)

    @property
    def noising(self) -> Noising:
        """What the release does with exact statistics."""
        return replace(super().noising, together=self.drawn, choices=self.choices)

    def _numbers_content(self) -> list[dict[str, Any]]:
        part = self.chosen_with / self.epsilon
        numbers = joint_numbers_content(
            self.requirements.statistics, self.body.linf_sensitivities, dict(self.laws), 1 - part
        )
        return [*(_choice_content(c, part / len(self.choices)) for c in self.choices), *numbers]


def k_norm_plan(
    query: Query, epsilon: Fraction, delta: Fraction = Fraction(0), pre_threshold: int = 1
) -> TogetherPlan:
    """Choose noise for all groups together, or of each, or shared in part, whichever is smaller.

    Args:
        query: what is asked.
        epsilon: the budget.
        delta: for private groups, and only for them.
        pre_threshold: private groups with fewer units are never shown.
    Raises:
        QueryError: more ranks of a column are asked for than are chosen together.
        BudgetError: the noise would not fit into 64-bit integers.
    """
    if query.private_groups:
        plan = _plan(query, epsilon, query.groups)
        law: Any = plan.laws["units"]
        rule = KNormThreshold(law, split_delta(delta, query.groups), pre_threshold)
        loss = plan.loss + Loss(additive_delta=delta)
        return replace(plan, delta=delta, selection=rule, loss=loss)
    count, groups = len(query.public_groups), query.groups
    plans = [_plan(query, epsilon, None)] if count <= MOST_TOGETHER else []
    if plans and len(plans[0].body.names) == 1:
        plans.append(_plan(query, epsilon, None, total=best_total(count)))
    if groups < count:
        plans.append(_plan(query, epsilon, groups))
        if groups > 1 and count <= MOST_LIMITED:
            plans += [_plan(query, epsilon, groups, shared) for shared in _best_shares(plans[-1])]
    if not plans:
        raise ParameterError(
            "noise", "k_norm", f"another one where a unit is in each of more than {MOST_TOGETHER:,} groups"
        )
    return min(plans, key=lambda plan: _size(plans[0], plan.expected, plan.deviations))


def _size(plan: Plan, errors: Errors, deviations: Mapping[str, float]) -> tuple[float, float]:
    """Return how large errors are, of those of a plan; and noise, for bars, where no error depends on it."""
    return ratio(errors, plan.expected), ratio(deviations, plan.deviations)


def _best_shares(plan: TogetherPlan) -> list[Fraction]:
    """Return which two of `SHARES` make about the smallest errors, where a plan has noise of each group."""
    body, count, groups = plan.body, len(plan.query.public_groups), plan.query.groups
    scale = plan.epsilon - plan.chosen_with

    def size(shared: Fraction) -> tuple[float, float]:
        rough = _rough_deviations(Sizes(Cone(body.signed, body.units), count, groups, shared))
        own = zip(body.names, body.bounds, rough, strict=True)
        noise = {name: float(bound / scale * plan.steps[name]) * deviation for name, bound, deviation in own}
        deviations = plan.deviations | noise
        return _size(plan, expected_errors(plan.requirements.estimates, deviations), deviations)

    return sorted(SHARES, key=size)[:2]  # what is rough is off by some percent


_rough_deviations = lru_cache(1 << 10)(rough_deviations)


def _plan(
    query: Query,
    epsilon: Fraction,
    most: int | None,
    shared: Fraction = Fraction(0),
    total: Fraction = Fraction(0),
) -> TogetherPlan:
    """Return the plan with noise of each group, for at most so many of a unit; or for all groups together."""
    count = len(query.public_groups)
    share = share_of([a for _, a in query.aggregates])
    whole, epsilon = epsilon, epsilon * (1 - share)
    multiplier = Fraction(most or 1) / epsilon
    # Of joint noise the grid is finer than its deviation, which is at most about as many scales as groups.
    spread = multiplier * (count if most is None else 1)
    needed = requirements(query, K_NORM.norm, spread, units=query.private_groups, together=True)
    body = _body(needed.statistics, shared)
    try:
        drawn = noise_of(body, epsilon, count, most, shared, total)
    except ParameterError:
        raise BudgetError(
            f"epsilon = {float(whole):g} asks for noise beyond what 64-bit integers hold; ask for a "
            "larger epsilon or set smaller limits or bounds"
        ) from None
    scales = dict(zip(body.names, drawn.scales, strict=True))
    laws: Any = dict(zip(body.names, marginals(drawn), strict=True))
    loss = Loss(approximate=((whole, Fraction(0), 1),))
    kind: Any = K_NORM
    choices = choices_of(needed.chosen, needed.statistics, whole * share, query.groups)
    return TogetherPlan(
        query, whole, Fraction(0), kind, needed, multiplier, scales, laws, None, loss, drawn,
        choices, whole * share,
    )  # fmt: skip


def _body(statistics: Sequence[Statistic], shared: Fraction) -> ConeBody:
    """Return the smallest body that noise can have; where groups share a part of it, that is a cone."""
    return cone_of(statistics) if shared else body_of(statistics)


def _choice_content(choice: Choice, share: Fraction) -> dict[str, Any]:
    (counts,) = choice.leaves.coordinates
    return {
        "name": counts.name,
        "what": f"places near quantiles of {choice.leaves.column}, by the exponential mechanism",
        "step": str(counts.step),
        "largest_contribution": str(choice.leaves.body.linf_sensitivities[0]),
        "noise_scale": str(choice.scale),
        "noise_deviation": choice.deviation,
        "share": round_up(share),
        "lower": choice.leaves.lattice.lower,
        "upper": choice.leaves.lattice.upper,
    }
