"""Plans with K-norm noise, which is drawn for all numbers of a release together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sfumato.budget import Loss, split_delta
from sfumato.budget.measure import PrivacyLoss
from sfumato.dataclass import dataclass
from sfumato.errors import BudgetError, ParameterError, QueryError
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
from sfumato.noise.k_norm import SeparateNoise
from sfumato.noise.k_norm.marginals import marginals
from sfumato.query.aggregates import Quantiles
from sfumato.query.explanation import joint_numbers_content
from sfumato.query.noisy.choosing import (
    Choice,
    choices_of,
    chosen_then_noisy,
    counted,
    share_of,
)
from sfumato.query.noisy.noising import Noising
from sfumato.query.plans.expected import ratio
from sfumato.query.plans.plan import Plan
from sfumato.query.query import Query
from sfumato.query.requirements import requirements
from sfumato.transformations import Statistic, cone_of

# In one place, which holds all their exact numbers, and their noise: beyond a gigabyte.
MOST_TOGETHER = 1 << 22
# Signed numbers of a group: error bars take time with their square, and beyond about a thousand leave floats.
MOST_NUMBERS = 400


@dataclass(frozen=True, repr=False)
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
    def statistics(self) -> tuple[Statistic, ...]:
        """What is counted: the values that places are chosen from, too."""
        return counted(self.requirements.statistics, self.choices)

    @property
    def body(self) -> ConeBody:
        """What one unit may add to a group."""
        return cone_of(self.requirements.statistics)

    @property
    def deviations(self) -> dict[str, float]:
        """The standard deviation of the noise of each number, and of each place that is chosen, in rows."""
        return super().deviations | {c.leaves.names[0]: c.deviation for c in self.choices}

    @property
    def apart(self) -> bool:
        """Whether the noise counts on the limit of groups."""
        return isinstance(self.drawn, SeparateNoise)

    @property
    def metric(self) -> KNormDistance:
        """The norm of the noise, in which no unit's contribution is larger than 1."""
        return KNormDistance(self.body, self.query.times if self.apart else None, self.apart)

    @property
    def chain(self) -> Measurement:
        """Rows to noisy statistics of all groups, as they are released; its map at 1 is the loss."""
        groups, keys = self.query.times, self.query.public_groups
        most = groups if self.apart else None
        noise = k_norm(self.epsilon - self.chosen_with, self.body, keys, groups=most)
        if not self.choices:
            return self.exact_chain >> convert(noise, PrivacyLoss())
        metric = ContributionDistance(
            Product(tuple(s.body for s in self.statistics)), groups, self.query.scaled
        )
        return self.exact_chain >> chosen_then_noisy(self.choices, noise, metric, keys)

    @property
    def noising(self) -> Noising:
        """What the release does with exact statistics."""
        return replace(super().noising, together=self.drawn, choices=self.choices)

    @property
    def notes(self) -> tuple[str, ...]:
        """What whoever asks should know before the release."""
        if not self.query.weighed:
            return super().notes
        return (
            *super().notes,
            "Weights decide only which noise is drawn here: K-norm noise does not divide the budget among "
            "outputs. noise='laplace' divides it by weight.",
        )

    def _numbers_content(self) -> list[dict[str, Any]]:
        part = self.chosen_with / self.epsilon
        numbers = joint_numbers_content(
            self.requirements.statistics, self.body.linf_sensitivities, dict(self.laws), 1 - part
        )
        return [*(_choice_content(c, part / len(self.choices)) for c in self.choices), *numbers]


def k_norm_plan(
    query: Query, epsilon: Fraction, delta: Fraction = Fraction(0), pre_threshold: int = 1
) -> TogetherPlan:
    """Choose noise for all groups together, or of each, whichever is smaller.

    Of each group, where groups are private, or where nobody knows how many public ones will come.

    Args:
        query: what is asked.
        epsilon: the budget.
        delta: for private groups, and only for them.
        pre_threshold: private groups with fewer units are never shown.
    Raises:
        QueryError: more ranks of a column are asked for than are chosen together; there are more than
            `MOST_NUMBERS` numbers beside counts; or a unit's rows are limited in all groups together, and
            something is asked of units.
        BudgetError: the noise would not fit into 64-bit integers.
    """
    if query.in_all:
        return _plan_by_rows(query, epsilon)
    if query.private_groups:
        plan = _plan(query, epsilon, query.times)
        law: Any = plan.laws["units"]
        rule = KNormThreshold(law, split_delta(delta, query.groups), pre_threshold)
        loss = plan.loss + Loss(additive_delta=delta)
        return replace(plan, delta=delta, selection=rule, loss=loss)
    if query.brought_groups:  # one draw for all would be for a number of them
        return _plan(query, epsilon, query.times)
    count, groups = len(query.public_groups), query.groups
    if count == 1 and all(isinstance(a, Quantiles) for _, a in query.measured):
        return _plan(query, epsilon, 1)  # which need no count then
    plans = [_plan(query, epsilon, None)] if count <= MOST_TOGETHER else []
    if groups < count:
        plans.append(_plan(query, epsilon, query.times))
    if not plans:
        raise ParameterError(
            "noise", "k_norm", f"another one where a unit is in each of more than {MOST_TOGETHER:,} groups"
        )
    return _smallest(plans)


def _plan_by_rows(query: Query, epsilon: Fraction) -> TogetherPlan:
    """Return the plan where a unit's rows are limited in all groups together; each group has its own noise.

    N rows that are divided over groups have the norm 1 together, as N rows of one group have: what numbers of
    units, and sums by unit, add to each group has not.
    """
    plan = None
    if not query.private_groups and not any(isinstance(a, Quantiles) for _, a in query.aggregates):
        plan = _plan(query, epsilon, query.times)
    if plan is None or not all(s.by_rows for s in plan.requirements.statistics):
        raise QueryError(
            "noise: with total_rows (in SQL max_rows_contributed) K-norm noise is for counts of rows, and "
            "sums (per='row'), means and variances, of public groups; take 'laplace', 'gaussian' or 'auto'"
        )
    return plan


def _smallest(plans: Sequence[TogetherPlan]) -> TogetherPlan:
    """Return the plan with the smallest errors, and of equal ones that with the least noise, for bars."""
    first = plans[0]

    def size(plan: TogetherPlan) -> tuple[float, float]:
        errors = ratio(plan.expected, first.expected, plan.requirements.weights)
        return errors, ratio(plan.deviations, first.deviations)

    return min(plans, key=size)


def _plan(
    query: Query,
    epsilon: Fraction,
    most: int | None,
) -> TogetherPlan:
    """Return the plan with noise of each group, for at most so many of a unit; or for all groups together."""
    count = len(query.public_groups)
    weighed = [(a, query.weight(name)) for name, a in query.measured]
    share = share_of(weighed, limited=query.private_groups or query.groups < count)
    whole, epsilon = epsilon, epsilon * (1 - share)
    multiplier = Fraction(most or 1) / epsilon
    # Of joint noise the grid is finer than its deviation, which is at most about as many scales as groups.
    spread = multiplier * (count if most is None else 1)
    apart = most is not None
    needed = requirements(query, K_NORM.norm, spread, units=query.private_groups, together=True, apart=apart)
    body = cone_of(needed.statistics)
    if body.signed > MOST_NUMBERS:
        raise QueryError(
            f"noise: K-norm noise is for at most {MOST_NUMBERS} sums, means and the like in one release, and "
            f"here are {body.signed}, whose error bars would take long; take 'laplace', 'gaussian' or 'auto'"
        )
    try:
        drawn = noise_of(body, epsilon, count, most)
    except ParameterError:
        raise BudgetError(
            f"epsilon = {float(whole):g} asks for noise beyond what 64-bit integers hold; {query.remedies}"
        ) from None
    choices = choices_of(needed.chosen, needed.statistics, whole * share, query.groups)
    scales = dict(zip(body.names, drawn.scales, strict=True))
    laws: Any = dict(zip(body.names, marginals(drawn), strict=True))
    choices = tuple(choice.beside(laws) for choice in choices)
    loss = Loss(approximate=((whole, Fraction(0), 1),))
    kind: Any = K_NORM
    return TogetherPlan(
        query, whole, Fraction(0), kind, needed, multiplier, scales, laws, None, loss, drawn,
        choices, whole * share,
    )  # fmt: skip


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
