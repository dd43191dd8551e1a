"""Plans with K-norm noise, which is drawn for all numbers of a release together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
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
    Transformation,
)
from sfumato.measurements.conversions import convert
from sfumato.measurements.k_norm import K_NORM, k_norm, noise_of
from sfumato.measurements.selection import KNormThreshold
from sfumato.noise.k_norm import JointNoise, SeparateNoise
from sfumato.noise.k_norm.laws import marginals
from sfumato.query.choosing import (
    Choice,
    choices_of,
    chosen_then_noisy,
    counted,
    share_of,
)
from sfumato.query.exact import ExactQuery
from sfumato.query.explanation import joint_numbers_content
from sfumato.query.noising import Noising
from sfumato.query.plan import Plan
from sfumato.query.question import Query
from sfumato.query.requirements import requirements
from sfumato.transformations import bound_groups, cone_of, per_group

# One batch of groups: beyond, noise of each group by itself is the smaller one, but for units in most groups.
MOST_TOGETHER = 1 << 16


@dataclass(frozen=True)
class TogetherPlan(Plan):
    """A plan whose noise has the shape of what one unit can add to all numbers.

    Args:
        drawn: the noise, for all groups together or for each by itself.
        choices: places near quantiles, which are chosen before numbers are counted beside them.
        chosen_with: the part of epsilon that this takes; the noise takes the rest.
    """

    drawn: JointNoise | SeparateNoise
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
        return cone_of(self.requirements.statistics)

    @property
    def exact_chain(self) -> Transformation:
        """Rows to exact statistics, measured by the norm of the noise."""
        rows: Any = super().exact_chain.input_domain
        groups = self.query.groups
        apart = isinstance(self.drawn, SeparateNoise)
        metric = KNormDistance(self.body, groups if apart else None, apart)
        counted = per_group(self.requirements.statistics, groups=groups, together=metric)
        return bound_groups(groups, domain=rows) >> counted

    @property
    def chain(self) -> Measurement:
        """Rows to noisy statistics of all groups, as they are released; its map at 1 is the loss."""
        groups, keys = self.query.groups, self.query.public_groups
        most = groups if isinstance(self.drawn, SeparateNoise) else None
        noise = k_norm(self.epsilon - self.chosen_with, self.body, keys, groups=most)
        if not self.choices:
            return self.exact_chain >> convert(noise, PrivacyLoss())
        rows: Any = super().exact_chain.input_domain
        statistics = counted(self.requirements.statistics, self.choices)
        exact = bound_groups(groups, domain=rows) >> per_group(statistics, groups=groups)
        metric = ContributionDistance(Product(tuple(s.body for s in statistics)), groups)
        return exact >> chosen_then_noisy(self.choices, noise, metric, keys)

    @property
    def noising(self) -> Noising:
        """What the release does with exact statistics."""
        return replace(super().noising, together=self.drawn, choices=self.choices)

    def _numbers_content(self) -> list[dict[str, Any]]:
        numbers = joint_numbers_content(
            self.requirements.statistics, self.body.linf_sensitivities, dict(self.laws)
        )
        part = self.chosen_with / self.epsilon
        for told in numbers:
            told["share"] *= float(1 - part)
        return [*(_told_choice(c, part / len(self.choices)) for c in self.choices), *numbers]


def k_norm_plan(
    query: Query, epsilon: Fraction, delta: Fraction = Fraction(0), pre_threshold: int = 1
) -> Plan:
    """Choose noise for all groups together, or of each, whichever is smaller.

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
    choices: list[int | None] = [None] if count <= MOST_TOGETHER else []
    if groups < count:
        choices.append(groups)
    if not choices:
        raise ParameterError(
            "noise", "k_norm", f"another one where a unit is in each of more than {MOST_TOGETHER:,} groups"
        )
    plans = [_plan(query, epsilon, most) for most in choices]
    return plans[0] if len(plans) == 1 else min(plans, key=lambda plan: plan.score)


def _plan(query: Query, epsilon: Fraction, most: int | None) -> Plan:
    """Return the plan with noise of each group, for at most so many of a unit; or for all groups together."""
    count = len(query.public_groups)
    share = share_of([a for _, a in query.aggregates])
    whole, epsilon = epsilon, epsilon * (1 - share)
    multiplier = Fraction(most or 1) / epsilon
    # Of joint noise the grid is finer than its deviation, which is at most about as many scales as groups.
    spread = multiplier * (count if most is None else 1)
    needed = requirements(query, K_NORM.norm, spread, units=query.private_groups, together=True)
    body = cone_of(needed.statistics)
    try:
        drawn = noise_of(body, epsilon, count, most)
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


def _told_choice(choice: Choice, share: Fraction) -> dict[str, Any]:
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
