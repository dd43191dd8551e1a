"""Plans with K-norm noise, which is drawn for all numbers of a release together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sfumato.budget.calibration import threshold_delta
from sfumato.errors import BudgetError, ParameterError, QueryError
from sfumato.measurements.correlated_noise import K_NORM, k_norm_noise
from sfumato.measurements.group_selection import KNormThreshold
from sfumato.plan.group_measurement import GroupMeasurement, laws_of
from sfumato.plan.noise_error import ratio
from sfumato.plan.plan import Plan
from sfumato.plan.quantile_candidates import (
    choices_of,
    share_of,
)
from sfumato.plan.required_statistics import requirements
from sfumato.query.aggregates import Quantiles
from sfumato.query.query import Query
from sfumato.transformations import cone_of

# In one place, which holds all their exact numbers, and their noise: beyond a gigabyte.
MOST_TOGETHER = 1 << 22
# Signed numbers of a group: error bars take time with their square, and beyond about a thousand leave floats.
MOST_NUMBERS = 400
WEIGHTS_NOTE = (
    "Weights decide only which noise is drawn here: K-norm noise does not divide the budget among outputs. "
    "noise='laplace' divides it by weight."
)


def k_norm_plan(
    query: Query, epsilon: Fraction, delta: Fraction = Fraction(0), pre_threshold: int = 1
) -> Plan:
    """Return the plan with K-norm noise, joint for all groups or per group, whichever is smaller.

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
        drawn = plan.measurement
        law: Any = drawn.laws["units"]
        rule = KNormThreshold(law, threshold_delta(delta, query.groups), pre_threshold)
        drawn = GroupMeasurement.of(query, drawn.requirements, drawn.noise, rule, drawn.choices)
        return replace(plan, delta=delta, measurement=drawn)
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


def _plan_by_rows(query: Query, epsilon: Fraction) -> Plan:
    """Return the K-norm plan for a limit on a unit's rows in all groups together.

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


def _smallest(plans: Sequence[Plan]) -> Plan:
    """Return the K-norm plan with the smallest errors; of equal ones, that with the least noise."""
    first = plans[0]

    def size(plan: Plan) -> tuple[float, float]:
        errors = ratio(plan.expected, first.expected, plan.requirements.weights)
        return errors, ratio(plan.deviations, first.deviations)

    return min(plans, key=size)


def _plan(
    query: Query,
    epsilon: Fraction,
    most: int | None,
) -> Plan:
    """Return the plan with K-norm noise of each group, or joint noise for all groups."""
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
        drawn = k_norm_noise(body, epsilon, count, most)
    except ParameterError:
        raise BudgetError(
            f"epsilon = {float(whole):g} asks for noise beyond what 64-bit integers hold; {query.remedies}"
        ) from None
    choices = choices_of(needed.chosen, needed.statistics, whole * share, query.groups)
    laws: Any = dict(zip(body.names, laws_of(drawn), strict=True))
    choices = tuple(choice.beside(laws) for choice in choices)
    measurement = GroupMeasurement.of(query, needed, drawn, None, choices)
    notes = (WEIGHTS_NOTE,) if query.weighed else ()
    return Plan(query, whole, Fraction(0), measurement, multiplier, noise_notes=notes)
