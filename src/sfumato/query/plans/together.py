"""Plans with K-norm noise, which is drawn for all numbers of a release together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
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
    ParabolaBody,
    Product,
)
from sfumato.measurements.conversions import convert
from sfumato.measurements.k_norm import K_NORM, KNormNoise, k_norm, noise_of
from sfumato.measurements.selection import KNormThreshold
from sfumato.noise.k_norm import (
    CentredNoise,
    Cone,
    LimitedNoise,
    Parabola,
    SeparateNoise,
    SeparateParabolas,
    StretchedNoise,
)
from sfumato.noise.k_norm.centred_laws import best_total
from sfumato.noise.k_norm.limited import MOST_SIGNED
from sfumato.noise.k_norm.limited_laws import rough_deviations
from sfumato.noise.k_norm.limited_radii import Sizes
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
from sfumato.query.plans.expected import Errors, expected_errors, ratio
from sfumato.query.plans.plan import Plan
from sfumato.query.plans.weighing import stretched
from sfumato.query.query import Query
from sfumato.query.requirements import requirements
from sfumato.transformations import Statistic, body_of, cone_of

# In one place, which holds all their exact numbers, and their noise: beyond a gigabyte.
MOST_TOGETHER = 1 << 22
# With limits: beyond, draws and laws take their time, and gain for large limits alone.
MOST_LIMITED = 1 << 10
# Signed numbers of a group: error bars take time with their square, and beyond about a thousand leave floats.
MOST_NUMBERS = 400
# What groups share of the norm, where a unit is in some of them only.
SHARES = (Fraction(1, 8), Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))


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
        statistics = self.requirements.statistics
        return body_of(statistics) if isinstance(self.drawn.cone, Parabola) else cone_of(statistics)

    @property
    def deviations(self) -> dict[str, float]:
        """The standard deviation of the noise of each number, and of each place that is chosen, in rows."""
        return super().deviations | {c.leaves.names[0]: c.deviation for c in self.choices}

    @property
    def shared(self) -> Fraction:
        """What groups share of the norm, where a unit is in some of them only."""
        return self.drawn.shared if isinstance(self.drawn, LimitedNoise) else Fraction(0)

    @property
    def favoured(self) -> tuple[str, ...]:
        """Names of numbers that matter more, and have less noise."""
        drawn = self.drawn
        limited = self.body.names[self.body.units :]
        return tuple(limited[i] for i in drawn.favoured) if isinstance(drawn, StretchedNoise) else ()

    @property
    def part(self) -> Fraction:
        """The part of the norm that is theirs alone."""
        return self.drawn.part if isinstance(self.drawn, StretchedNoise) else Fraction(0)

    @property
    def apart(self) -> bool:
        """Whether the noise counts on the limit of groups."""
        return isinstance(self.drawn, SeparateNoise | LimitedNoise)

    @property
    def metric(self) -> KNormDistance:
        """The norm of the noise, in which no unit's contribution is larger than 1."""
        most = self.query.times if self.apart else None
        return KNormDistance(self.body, most, self.apart, self.shared, self.favoured, self.part)

    @property
    def chain(self) -> Measurement:
        """Rows to noisy statistics of all groups, as they are released; its map at 1 is the loss."""
        groups, keys = self.query.times, self.query.public_groups
        most = groups if self.apart else None
        total = self.drawn.total if isinstance(self.drawn, CentredNoise) else 0
        epsilon = self.epsilon - self.chosen_with
        given: Any = {"groups": most, "shared": self.shared, "total": total}
        noise = k_norm(epsilon, self.body, keys, **given, favoured=self.favoured, part=self.part)
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
        if not self.favoured:
            return super().notes
        return (
            *super().notes,
            "The shape of the noise is stretched by weight: less noise of "
            f"{' and '.join(self.favoured)}, and more of all other numbers.",
        )

    def _numbers_content(self) -> list[dict[str, Any]]:
        part = self.chosen_with / self.epsilon
        numbers = joint_numbers_content(
            self.requirements.statistics, self.body.linf_sensitivities, dict(self.laws), 1 - part
        )
        for content in numbers:
            if content["name"] in self.favoured:
                content["part_of_norm"] = str(self.part)
        return [*(_choice_content(c, part / len(self.choices)) for c in self.choices), *numbers]


def k_norm_plan(
    query: Query, epsilon: Fraction, delta: Fraction = Fraction(0), pre_threshold: int = 1
) -> TogetherPlan:
    """Choose noise for all groups together, or of each, or shared in part, whichever is smaller.

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
        plan = _smallest(_separate_plans(query, epsilon))
        law: Any = plan.laws["units"]
        rule = KNormThreshold(law, split_delta(delta, query.groups), pre_threshold)
        loss = plan.loss + Loss(additive_delta=delta)
        return replace(plan, delta=delta, selection=rule, loss=loss)
    if query.brought_groups:  # one draw for all would be for a number of them
        return _smallest(_separate_plans(query, epsilon))
    count, groups = len(query.public_groups), query.groups
    plans = [_plan(query, epsilon, None)] if count <= MOST_TOGETHER else []
    if plans and len(plans[0].body.names) == 1:
        plans.append(_plan(query, epsilon, None, total=best_total(count)))
    if count == 1 and plans and all(isinstance(a, Quantiles) for _, a in query.measured):
        plans = [_plan(query, epsilon, 1)]  # which need no count then
    if count == 1 and query.weighed and (one := _plan(query, epsilon, 1, squares=False)).favoured:
        plans.append(one)
    if groups < count:
        plans += _separate_plans(query, epsilon)
        if groups > 1 and count <= MOST_LIMITED and plans[-1].body.signed <= MOST_SIGNED:
            plans += [_plan(query, epsilon, groups, shared) for shared in _best_shares(plans[-1])]
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
        plan = _smallest(_separate_plans(query, epsilon))
    if plan is None or not all(s.by_rows for s in plan.requirements.statistics):
        raise QueryError(
            "noise: with total_rows (in SQL max_rows_contributed) K-norm noise is for counts of rows, and "
            "sums (per='row'), means and variances, of public groups; take 'laplace', 'gaussian' or 'auto'"
        )
    return plan


def _separate_plans(query: Query, epsilon: Fraction) -> list[TogetherPlan]:
    """Return plans with noise of each group: in the smallest body, and in a cone, which weights stretch."""
    plans = [_plan(query, epsilon, query.times)]
    if query.weighed and isinstance(plans[0].body, ParabolaBody):
        plans.append(_plan(query, epsilon, query.times, squares=False))
    return plans


def _smallest(plans: Sequence[TogetherPlan]) -> TogetherPlan:
    return min(plans, key=lambda plan: _size(plans[0], plan.expected, plan.deviations))


def _size(plan: Plan, errors: Errors, deviations: Mapping[str, float]) -> tuple[float, float]:
    """Return how large errors are, of those of a plan; and noise, for bars, where no error depends on it."""
    return ratio(errors, plan.expected, plan.requirements.weights), ratio(deviations, plan.deviations)


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
    squares: bool = True,
) -> TogetherPlan:
    """Return the plan with noise of each group, for at most so many of a unit; or for all groups together.

    Where there are sums of squares it has the shape that these have, if asked.
    """
    count = len(query.public_groups)
    weighed = [(a, query.weight(name)) for name, a in query.measured]
    share = share_of(weighed, limited=query.private_groups or query.groups < count)
    whole, epsilon = epsilon, epsilon * (1 - share)
    multiplier = Fraction(most or 1) / epsilon
    # Of joint noise the grid is finer than its deviation, which is at most about as many scales as groups.
    spread = multiplier * (count if most is None else 1)
    apart = most is not None and not shared
    needed = requirements(query, K_NORM.norm, spread, units=query.private_groups, together=True, apart=apart)
    # Groups share a part of the norm of a cone; and what is cut of a part of a unit can leave a parabola.
    body = (
        body_of(needed.statistics) if squares and not (shared or query.scaled) else cone_of(needed.statistics)
    )
    if body.signed > MOST_NUMBERS:
        raise QueryError(
            f"noise: K-norm noise is for at most {MOST_NUMBERS} sums, means and the like in one release, and "
            f"here are {body.signed}, whose error bars would take long; take 'laplace', 'gaussian' or 'auto'"
        )
    try:
        drawn = noise_of(body, epsilon, count, most, shared, total)
    except ParameterError:
        raise BudgetError(
            f"epsilon = {float(whole):g} asks for noise beyond what 64-bit integers hold; {query.remedies}"
        ) from None
    choices = choices_of(needed.chosen, needed.statistics, whole * share, query.groups)
    if isinstance(drawn, SeparateNoise) and not isinstance(drawn, SeparateParabolas):
        drawn = stretched(drawn, needed, {c.leaves.names[0]: c.deviation for c in choices})
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
