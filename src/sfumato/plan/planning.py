"""Planning: from a query and a budget to the noise, group selection and grids of its plan.

All of it depends on the question alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, fields, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import pyarrow as pa

from sfumato.budget.calibration import ROOM, threshold_delta
from sfumato.budget.epsilon_delta import admissible_epsilon, released_delta
from sfumato.dataclass import dataclass
from sfumato.errors import BudgetError, ParameterError, QueryError, shown
from sfumato.exact import one_of, positive_int
from sfumato.measurements.correlated_noise import K_NORM, k_norm_noise
from sfumato.measurements.group_selection import KNormThreshold
from sfumato.plan.group_measurement import GroupMeasurement, list_laws
from sfumato.plan.independent_plans import SeparatePlans
from sfumato.plan.noise_error import Errors, ratio
from sfumato.plan.plan import Plan
from sfumato.plan.quantile_candidates import list_choices, read_selection_share
from sfumato.plan.required_statistics import requirements
from sfumato.plan.totals_plans import series_plan, totals_plan, tree_plan
from sfumato.query.aggregates import Quantiles
from sfumato.query.option_names import (
    NOISE_CHOICES,
    SELECTION_CHOICES,
    SEPARATE_NOISES,
    Amount,
    NoiseChoice,
    SelectionChoice,
)
from sfumato.query.query import Query
from sfumato.transformations import cone_of

SMALLEST_EPSILON, LARGEST_EPSILON = Fraction(1, 10**12), Fraction(10**6)
# Errors that are larger than this part of those with other noise are no reason to draw it for all together.
CLEARLY = 0.98
# By composition Laplace noise gets down to about the size of Gaussian noise, and not below: at
# less than this part of the errors of both, by basic composition, no noise of each number comes near.
CLOSEST = 0.8
# Nor does Laplace noise get below Gaussian noise, of which its errors are more than so many times: the gain
# on a few Laplace noises is nothing, and on many of them its deviation is the larger one by the root of 2.
FAR_BEHIND = 1.25
# In one place, which holds all their exact numbers, and their noise: beyond a gigabyte.
MAX_TOGETHER = 1 << 22
# Signed numbers of a group: error bars take time with their square, and beyond about a thousand leave floats.
MAX_NUMBERS = 400
WEIGHTS_NOTE = (
    "Weights decide only which noise is drawn here: K-norm noise does not divide the budget among "
    "outputs. noise='laplace' divides it by weight."
)

SHARED_NOTE = (
    "Numbers of units are of units that are in no other group. A group needs sqrt(t) times as many units "
    "that are in t groups each."
)


def make_plan(
    query: Query,
    *,
    epsilon: Amount,
    delta: Amount = 0,
    noise: NoiseChoice = "auto",
    group_selection: SelectionChoice = "auto",
    pre_threshold: int = 1,
) -> Plan:
    """Return the plan of a query within a budget: choose noise, grids and group selection.

    Args:
        query: the query.
        epsilon, delta: the budget.
        noise: "auto", "laplace", "gaussian" or "k_norm".
        group_selection: "auto", "truncated_geometric", "laplace" or "gaussian".
        pre_threshold: private groups with fewer units are never shown.
    Returns:
        The plan with the smallest expected errors of the outputs among those that the options admit.
    Raises:
        BudgetError: epsilon or delta is not admissible, or cannot buy what is asked.
        ParameterError: an option is unknown.
    """
    eps, dlt = _budget(epsilon, delta)
    one_of(noise, "noise", NOISE_CHOICES)
    one_of(group_selection, "group_selection", SELECTION_CHOICES)
    positive_int(pre_threshold, "pre_threshold")
    _check_groups(query, dlt, group_selection, pre_threshold)
    if query.shared:
        one_of(noise, "noise", ("auto", "gaussian"))
        one_of(group_selection, "group_selection", ("auto", "gaussian"))
        if pre_threshold > 1:
            raise ParameterError("pre_threshold", pre_threshold, "left out with bound(groups='shared')")
    if noise == "k_norm":
        one_of(group_selection, "group_selection", ("auto",))
    plan = _choose_plan(
        _PlanningKey(query.kind), eps, dlt * (1 - ROOM), noise, group_selection, pre_threshold
    )
    claimed = dlt if plan.delta else plan.delta
    return replace(plan, query=query, delta=claimed, measurement=plan.measurement.for_query(query))


@dataclass(frozen=True)
class _PlanningKey:
    """The planning key: a query as far as its plan depends on it, equal for all queries with that plan."""

    query: Query = field(compare=False)
    key: tuple[Hashable, ...] = field(init=False)

    def __post_init__(self) -> None:
        query = self.query
        parts = {f.name: getattr(query, f.name) for f in fields(query)}
        keys = query.public_keys
        count = keys.num_rows if isinstance(keys, pa.Table) else keys
        parts |= {"schema": tuple(query.schema.items()), "public_keys": count}
        object.__setattr__(self, "key", tuple(parts.values()))


@lru_cache(maxsize=128)
def _choose_plan(
    planned: _PlanningKey,
    eps: Fraction,
    dlt: Fraction,
    noise: NoiseChoice,
    group_selection: SelectionChoice,
    pre_threshold: int,
) -> Plan:
    """Choose the plan for valid planning options; the cached part of `make_plan`."""
    query = planned.query
    if query.series is not None:
        return _plan_series(query, eps, dlt, noise)
    if query.totals is not None:
        return totals_plan(query, eps, dlt, noise)
    plans = SeparatePlans(query, eps, dlt, pre_threshold)
    if query.shared:
        plan = plans.candidates(("gaussian",), "gaussian")[0]
        return replace(plan, noise_notes=(SHARED_NOTE,))
    if noise == "k_norm":
        together = k_norm_plan(query, eps, dlt, pre_threshold)
        return _compare_noises(together, plans.rough(_separate_noises("auto", dlt)))
    # A threshold is on the release's own noise.
    noises = _separate_noises(group_selection if noise == "auto" else noise, dlt)
    if noise != "auto":
        return _rank_plans(plans.candidates(noises, group_selection))[0]
    rivals = plans.rough(noises)
    found = _plan_k_norm(query, eps, dlt, pre_threshold) if group_selection == "auto" else None
    weights = query.output_weights
    if found and all(ratio(found.expected, errors, weights) < CLOSEST for errors in rivals.values()):
        return _compare_noises(found, rivals)
    if len(rivals) > 1 and ratio(rivals["laplace"], rivals["gaussian"], weights) > FAR_BEHIND:
        noises = ("gaussian",)
    ranked = _rank_plans(plans.candidates(noises, group_selection))
    rivals |= {plan.noise.name: plan.expected for plan in reversed(ranked)}
    if found is None:
        return _compare_noises(ranked[0], rivals)
    better = ratio(found.expected, ranked[0].expected, weights) <= CLEARLY
    return _compare_noises(found if better else ranked[0], rivals | {found.noise.name: found.expected})


def _plan_series(query: Query, epsilon: Fraction, delta: Fraction, noise: str) -> Plan:
    """Choose the plan of cumulative totals: the noise with the smaller errors."""
    if noise == "k_norm":
        raise ParameterError("noise", noise, "'laplace', 'gaussian' or left out, for cumulative totals")
    if noise == "gaussian":
        return series_plan(query, epsilon, delta)
    if noise == "laplace" or not delta:
        return tree_plan(query, epsilon, delta)
    plans: list[Plan] = [series_plan(query, epsilon, delta)]
    with suppress(BudgetError, QueryError):  # what blocks cannot answer, running sums do
        plans.append(tree_plan(query, epsilon, delta))
    return _compare_noises(_rank_plans(plans)[0], {plan.noise.name: plan.expected for plan in plans})


def _rank_plans(plans: list[Plan]) -> list[Plan]:
    """Rank plans of one query by the expected errors of the outputs, smallest first."""
    least, weights = plans[0].expected, plans[0].requirements.weights
    return sorted(plans, key=lambda plan: ratio(plan.expected, least, weights))


def _compare_noises(plan: Plan, rivals: Mapping[str, Errors]) -> Plan:
    """Return the planned noise with the errors of every other noise in comparison."""
    weights = plan.requirements.weights
    found = {name: ratio(plan.expected, errors, weights) for name, errors in rivals.items()}
    found.pop(plan.noise.name, None)
    return replace(plan, others=tuple(found.items()))


def _separate_noises(requested: str, delta: Fraction) -> tuple[str, ...]:
    """Return the kinds of independent noise to plan with: the requested one, or all."""
    if requested == "gaussian" and not delta:
        raise BudgetError(
            "delta is 0, but Gaussian noise needs more. Give a delta such as 1e-6, or use Laplace noise"
        )
    if requested in SEPARATE_NOISES:
        return (requested,)
    return SEPARATE_NOISES if delta else ("laplace",)


def _plan_k_norm(query: Query, epsilon: Fraction, delta: Fraction, pre_threshold: int) -> Plan | None:
    """Return the plan with K-norm noise, if it can answer the query."""
    try:
        return k_norm_plan(query, epsilon, delta, pre_threshold)
    except (BudgetError, ParameterError, QueryError):  # what it cannot answer, the others do
        return None


def k_norm_plan(
    query: Query, epsilon: Fraction, delta: Fraction = Fraction(0), pre_threshold: int = 1
) -> Plan:
    """Return the plan with K-norm noise, joint for all groups or per group, whichever is smaller.

    Of each group, where groups are private, or where nobody knows how many public ones will come.

    Args:
        query: the query.
        epsilon: the budget.
        delta: for private groups, and only for them.
        pre_threshold: private groups with fewer units are never shown.
    Raises:
        QueryError: more ranks of a column are asked for than are chosen together; there are more than
            `MAX_NUMBERS` numbers beside counts; or a unit's rows are limited in all groups together, and
            something is asked of units.
        BudgetError: the noise would not fit into 64-bit integers.
    """
    if query.in_all:
        return _k_norm_by_rows(query, epsilon)
    if query.private_groups:
        plan = _k_norm(query, epsilon, query.times)
        drawn = plan.measurement
        law: Any = drawn.laws["units"]
        rule = KNormThreshold(law, threshold_delta(delta, query.groups), pre_threshold)
        drawn = GroupMeasurement.from_query(query, drawn.requirements, drawn.noise, rule, drawn.choices)
        return replace(plan, delta=delta, measurement=drawn)
    if query.brought_groups:  # one draw for all would be for a number of them
        return _k_norm(query, epsilon, query.times)
    count, groups = len(query.public_groups), query.groups
    if count == 1 and all(isinstance(a, Quantiles) for _, a in query.measured):
        return _k_norm(query, epsilon, 1)  # which need no count then
    plans = [_k_norm(query, epsilon, None)] if count <= MAX_TOGETHER else []
    if groups < count:
        plans.append(_k_norm(query, epsilon, query.times))
    if not plans:
        raise ParameterError(
            "noise", "k_norm", f"another one where a unit is in each of more than {MAX_TOGETHER:,} groups"
        )
    return _least_errors(plans)


def _k_norm_by_rows(query: Query, epsilon: Fraction) -> Plan:
    """Return the K-norm plan for a limit on a unit's rows in all groups together.

    N rows that are divided over groups have the norm 1 together, as N rows of one group have: what numbers of
    units, and sums by unit, add to each group has not.
    """
    plan = None
    if not query.private_groups and not any(isinstance(a, Quantiles) for _, a in query.aggregates):
        plan = _k_norm(query, epsilon, query.times)
    if plan is None or not all(s.by_rows for s in plan.requirements.statistics):
        raise QueryError(
            "noise: with total_rows (in SQL max_rows_contributed) K-norm noise is only for counts of "
            "rows, sums (per='row'), means and variances, of public groups. Use 'laplace', "
            "'gaussian' or 'auto'"
        )
    return plan


def _least_errors(plans: Sequence[Plan]) -> Plan:
    """Return the K-norm plan with the smallest errors; of equal ones, that with the least noise."""
    first = plans[0]

    def size(plan: Plan) -> tuple[float, float]:
        errors = ratio(plan.expected, first.expected, plan.requirements.weights)
        return errors, ratio(plan.deviations, first.deviations)

    return min(plans, key=size)


def _k_norm(
    query: Query,
    epsilon: Fraction,
    limit: int | None,
) -> Plan:
    """Return the plan with K-norm noise of each group, or joint noise for all groups."""
    count = len(query.public_groups)
    weighed = [(a, query.weight(name)) for name, a in query.measured]
    share = read_selection_share(weighed, limited=query.private_groups or query.groups < count)
    whole, epsilon = epsilon, epsilon * (1 - share)
    multiplier = Fraction(limit or 1) / epsilon
    # Of joint noise the grid is finer than its deviation, which is at most about as many scales as groups.
    spread = multiplier * (count if limit is None else 1)
    apart = limit is not None
    needed = requirements(query, K_NORM.norm, spread, units=query.private_groups, joint=True, per_group=apart)
    body = cone_of(needed.statistics)
    if body.signed > MAX_NUMBERS:
        raise QueryError(
            f"noise: K-norm noise is for at most {MAX_NUMBERS} sums, means and the like in one "
            f"release, but there are {body.signed}. Use 'laplace', 'gaussian' or 'auto'"
        )
    try:
        drawn = k_norm_noise(body, epsilon, count, limit)
    except ParameterError:
        raise query.too_much_noise(whole) from None
    choices = list_choices(needed.chosen, needed.statistics, whole * share, query.groups)
    laws: Any = dict(zip(body.names, list_laws(drawn), strict=True))
    choices = tuple(choice.with_margins(laws) for choice in choices)
    measurement = GroupMeasurement.from_query(query, needed, drawn, None, choices)
    notes = (WEIGHTS_NOTE,) if query.weighed else ()
    return Plan(query, whole, Fraction(0), measurement, multiplier, noise_notes=notes)


def _check_groups(query: Query, delta: Fraction, group_selection: str, pre_threshold: int) -> None:
    if query.private_groups:
        if delta == 0:
            raise BudgetError(
                "delta is 0, but private groups need more, since showing that a group exists costs "
                "privacy. Give a delta well below one over the number of units, such as 1e-6, or "
                "public groups with group_by(..., keys=[...]), in a Beam aggregation public_keys=..."
            )
        return
    for name, value, default in (
        ("group_selection", group_selection, "auto"),
        ("pre_threshold", pre_threshold, 1),
    ):
        if value != default:
            raise ParameterError(name, value, "left out: the groups are public, so none is selected")


def _budget(epsilon: object, delta: object) -> tuple[Fraction, Fraction]:
    eps, dlt = admissible_epsilon(epsilon), released_delta(delta)
    if not SMALLEST_EPSILON <= eps <= LARGEST_EPSILON:
        raise BudgetError(
            f"epsilon is {shown(epsilon)}, but must be between 1e-12 and 1,000,000: below, the "
            "noise hides everything, and above, nothing is protected"
        )
    return eps, dlt
