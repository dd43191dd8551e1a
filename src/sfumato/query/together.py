"""Plans with K-norm noise, which is drawn for all numbers of a release together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sfumato.budget import Loss, split_delta
from sfumato.budget.measure import PrivacyLoss
from sfumato.errors import BudgetError, ParameterError, QueryError
from sfumato.framework import ConeBody, KNormDistance, Measurement, Transformation
from sfumato.measurements.conversions import convert
from sfumato.measurements.k_norm import K_NORM, k_norm, noise_of
from sfumato.measurements.selection import KNormThreshold
from sfumato.noise.k_norm import JointNoise, SeparateNoise
from sfumato.noise.k_norm.laws import marginals
from sfumato.query.explanation import joint_numbers_content
from sfumato.query.noising import Noising
from sfumato.query.plan import Plan
from sfumato.query.question import Query
from sfumato.query.requirements import requirements
from sfumato.transformations import QuantileTree, bound_groups, cone_of, per_group

# One batch of groups: beyond, noise of each group by itself is the smaller one, but for units in most groups.
MOST_TOGETHER = 1 << 16


@dataclass(frozen=True)
class TogetherPlan(Plan):
    """A plan whose noise has the shape of what one unit can add to all numbers.

    Args:
        drawn: the noise, for all groups together or for each by itself.
    """

    drawn: JointNoise | SeparateNoise

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
        most = self.query.groups if isinstance(self.drawn, SeparateNoise) else None
        noise = k_norm(self.epsilon, self.body, self.query.public_groups, groups=most)
        return self.exact_chain >> convert(noise, PrivacyLoss())

    @property
    def noising(self) -> Noising:
        """What the release does with exact statistics."""
        return replace(super().noising, together=self.drawn)

    def _numbers_content(self) -> list[dict[str, Any]]:
        return joint_numbers_content(
            self.requirements.statistics, self.body.linf_sensitivities, dict(self.laws)
        )


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
        QueryError: quantiles are asked for.
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
    return min((_plan(query, epsilon, most) for most in choices), key=lambda plan: plan.score)


def _plan(query: Query, epsilon: Fraction, most: int | None) -> Plan:
    """Return the plan with noise of each group, for at most so many of a unit; or for all groups together."""
    count = len(query.public_groups)
    multiplier = Fraction(most or 1) / epsilon
    # Of joint noise the grid is finer than its deviation, which is at most about as many scales as groups.
    spread = multiplier * (count if most is None else 1)
    needed = requirements(query, K_NORM.norm, spread, units=query.private_groups, together=True)
    if any(isinstance(s, QuantileTree) for s in needed.statistics):
        raise QueryError(
            "noise: K-norm noise is for counts, sums, means and variances; ask for quantiles in a release "
            "of their own, or write noise='laplace' or noise='gaussian'"
        )
    body = cone_of(needed.statistics)
    try:
        drawn = noise_of(body, epsilon, count, most)
    except ParameterError:
        raise BudgetError(
            f"epsilon = {float(epsilon):g} asks for noise beyond what 64-bit integers hold; ask for a "
            "larger epsilon or set smaller limits or bounds"
        ) from None
    scales = dict(zip(body.names, drawn.scales, strict=True))
    laws: Any = dict(zip(body.names, marginals(drawn), strict=True))
    loss = Loss(approximate=((epsilon, Fraction(0), 1),))
    kind: Any = K_NORM
    return TogetherPlan(
        query, epsilon, Fraction(0), kind, needed, multiplier, scales, laws, None, loss, drawn
    )
