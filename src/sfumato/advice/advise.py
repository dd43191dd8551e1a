"""`sf.advise`: preliminary queries of a table, and how to divide one budget among several queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from fractions import Fraction
from math import inf, log
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.advice.advice import Advice, Advised, Better, Curve
from sfumato.advice.advice_request import SHARE, AdviceQuery, AdviceRequest, check_request
from sfumato.advice.shared_queries import PreliminaryQueries, SharedHistograms, plan_preliminary
from sfumato.api.question import Question
from sfumato.budget import Budget
from sfumato.dataclass import dataclass
from sfumato.display.progress import notebook_bar
from sfumato.errors import BudgetError, ParameterError, QueryError
from sfumato.exact import Number, round_down
from sfumato.guidance.contribution_distribution import LIMITS
from sfumato.guidance.expected_error import EstimatedUnits, OutputError, mean_error, per_width, with_bounds
from sfumato.guidance.inferred_bounds import apply_inferred_bounds
from sfumato.guidance.inferred_limits import NAMES, Limits, apply_limits, best_limits, max_limits
from sfumato.names import suggest_arguments
from sfumato.noise.law_tails import Floats
from sfumato.plan.noise_error import Errors
from sfumato.plan.plan import Plan
from sfumato.plan.planning import make_plan
from sfumato.query.aggregates import Automatic
from sfumato.query.inferred_parameters import Found
from sfumato.query.option_names import Amount
from sfumato.query.query import Query
from sfumato.release.payment import check_budget, journaled, no_charge, payment

if TYPE_CHECKING:
    from sfumato.api.table import Table
    from sfumato.noise import Words


# What a plan may refuse.
REFUSED = BudgetError, ParameterError, QueryError
Bounds = Mapping[str, tuple[Fraction, Fraction]]
_LARGE_CHANGE = 64.0  # a bound is tried up to so many times nearer
_WIDER = 8.0


@dataclass
class Model:
    """One query to advise on, with what preliminary queries showed of its rows.

    Args:
        asked: the question.
        seen: what units contribute.
        values: what was seen of values whose bounds are open, by the name of what is asked.
        bounds: of these.
    """

    asked: AdviceQuery
    seen: EstimatedUnits
    values: dict[str, SharedHistograms] = field(default_factory=dict)
    bounds: dict[str, tuple[Fraction, Fraction]] = field(default_factory=dict)
    _plans: dict[Any, Plan | None] = field(default_factory=dict)

    @property
    def query(self) -> Query:
        """The query, with placeholders for limits and bounds that are open."""
        return self.asked.question.query

    @property
    def given(self) -> Limits:
        """The limits that the query gives, and 1 for open ones."""
        return self.query.max_groups or 1, self.query.max_rows

    @property
    def limited(self) -> tuple[bool, bool]:
        """Whether a limit of groups, and one of rows, matters to this query."""
        if self.query.total_rows is not None:
            return False, False
        rows = self.query.max_rows is not None and any(a.needs_rows for _, a in self.query.aggregates)
        return bool(self.query.keys), rows

    @property
    def open(self) -> tuple[bool, bool]:
        """Which limits the advice has to find."""
        auto, matter = self.asked.question.table._auto_limits, self.limited
        return "groups" in auto and matter[0], "rows" in auto and matter[1]

    @property
    def most(self) -> tuple[int, int]:
        """The largest limits that may be advised."""
        return max_limits(self.asked.question.table, self.query)

    def query_with(self, limits: Limits) -> Query:
        """Return the query with limits, and with the bounds found so far in place of open ones."""
        aggregates = apply_inferred_bounds(self.asked.question.aggregates, self.bounds)
        asked = replace(self.query, aggregates=tuple((name, one.placeholder) for name, one in aggregates))
        return apply_limits(asked, limits)

    def plan(self, epsilon: Fraction, limits: Limits, delta: Fraction | None = None) -> Plan:
        """Return the query's plan with an epsilon and limits, and the bounds found so far.

        Raises:
            BudgetError, ParameterError, QueryError: there is none.
        """
        given = self.asked.delta if delta is None else delta
        key = epsilon, limits, tuple(self.bounds.items()), given
        if key not in self._plans:
            self._plans[key] = None
            self._plans[key] = make_plan(self.query_with(limits), epsilon=epsilon, delta=given)
        found = self._plans[key]
        if found is None:
            raise BudgetError("no amount of noise is enough for these limits")
        return found

    def iter_plans(self, epsilon: Fraction) -> Iterator[tuple[Limits, Plan]]:
        """Yield the limits that were planned with an epsilon, with their plans."""
        now = tuple(self.bounds.items()), self.asked.delta
        for (one, limits, *rest), plan in self._plans.items():
            if plan is not None and one == epsilon and tuple(rest) == now:
                yield limits, plan

    def best(self, epsilon: Fraction, start: Limits, open_limits: tuple[bool, bool]) -> Limits:
        """Return the limits to advise for an epsilon: those with the least expected error."""
        return best_limits(
            self.seen, lambda *limits: self.plan(epsilon, limits), start, open_limits, self.most
        )

    def errors(
        self, plan: Plan, limits: Limits, expected: Errors | None = None, bounds: Bounds | None = None
    ) -> dict[str, OutputError]:
        """Return the expected error of each output of this query."""
        known = self.bounds if bounds is None else bounds
        clamped = {name: self.clamped(name, known[name]) for name in self.values if name in known}
        total = self.query.total_rows is not None
        groups, rows = (LIMITS[-1], None) if total else limits
        return self.seen.errors(plan, groups, rows, expected=expected, clamped=clamped)

    def clamped(self, name: str, bounds: tuple[Fraction, Fraction]) -> float:
        """Return how much bounds clamp off a value on average, by the histograms that were drawn."""
        one = self.values[name]
        if not one.seen:
            return 0.0
        return one.cut(*map(float, bounds)) / (self.seen.rows if one.values.totals else 1.0)

    def noise(self, name: str, plan: Plan) -> float:
        """Return the noise of bounds that are one apart, in the unit in which histograms count.

        Histograms have the values of all units, and noise is on those of one group: it is compared with as
        much of what bounds cut as there is in one group.
        """
        size = self.seen.units * (1.0 if self.values[name].values.totals else self.seen.rows)
        return per_width(plan, name) * max(self.seen.people, 1.0) / size

    def costs(self, request: AdviceRequest, limits: Limits) -> Floats:
        """Return the weighted log error of this query by the number of budget portions it gets.

        With the best limits for each of those that were tried with an equal part. How noise falls with the
        budget is computed for some of the budgets, with one limit.
        """
        portion, portions = request.portion, request.portions
        middle = portion * request.equal
        base = self.plan(middle, limits).expected
        tried = list(self.iter_plans(middle)) if any(self.open) else []
        tried = tried or [(limits, self.plan(middle, limits))]
        known, costs = [], []
        for number in request.list_portions(request.equal):
            with suppress(*REFUSED):
                now = self.plan(portion * number, limits).expected
                falls = {name: now[name] / base[name] for name in base}
                scaled = (
                    self.errors(plan, at, {n: e * falls.get(n, 1.0) for n, e in plan.expected.items()})
                    for at, plan in tried
                )
                known.append(number)
                costs.append(min(log(mean_error(one.values())) for one in scaled))
        found = np.full(portions, inf)
        if known:
            inside = np.arange(known[0], portions + 1)
            found[known[0] - 1 :] = np.interp(np.log(inside), np.log(known), costs)
        return found * float(self.asked.weight)

    def bound_curve(
        self, plan: Plan, limits: Limits, name: str, end: int
    ) -> list[tuple[float, float, float]]:
        """Return the expected errors of this query by one of its bounds, for the picture.

        Args:
            plan: with the bounds that are advised.
            limits: of the plan.
            name: of what is asked.
            end: 0 for the lower bound, 1 for the upper one.
        """
        seen = self.values[name]
        if not seen.seen:
            return []
        chosen = tuple(map(float, self.bounds[name]))
        width = chosen[1] - chosen[0]
        edges = seen.edges if end else -seen.edges[::-1]
        here, other = (chosen[1], chosen[0]) if end else (-chosen[0], -chosen[1])
        near = edges[(edges - other >= width / _LARGE_CHANGE) & (edges - other <= width * _WIDER)]
        found = []
        for at in sorted({*near.tolist(), here}):
            tried = (chosen[0], at) if end else (-at, chosen[1])
            both = Fraction(tried[0]), Fraction(tried[1])
            expected = with_bounds(plan, name, (tried[1] - tried[0]) / width)
            errors = self.errors(plan, limits, expected, {**self.bounds, name: both}).values()
            found.append((at if end else -at, mean_error(errors, noise=True), mean_error(errors)))
        return found if end else found[::-1]


# Worse than all costs, and yet a number: where no division is possible there still is one that adds up.
_IMPOSSIBLE = 1e12


def divide_portions(costs: Sequence[Floats], least: Sequence[int], portions: int) -> list[int]:
    """Divide a budget's portions among queries, so that the sum of their costs is least.

    Args:
        costs: of each, by the number of its portions, from 1 on; infinite where so few are not enough.
        least: of each, how many it gets at least; 1 or more.
        portions: how many there are.
    Returns:
        The division with the smallest sum, by dynamic programming: with each question in turn, the least cost
        of those before with what is left for them.

    >>> equal = -np.log(np.arange(1, 9))
    >>> divide_portions([equal, equal], [1, 1], 8), divide_portions([3 * equal, equal], [1, 1], 8)
    ([4, 4], [6, 2])
    >>> divide_portions([3 * equal, equal], [1, 3], 8)
    [5, 3]
    """
    best: Floats = np.full(portions + 1, np.inf)
    best[0] = 0.0
    taken = []
    for cost, few in zip(costs, least, strict=True):
        own = np.concatenate([[np.inf], np.minimum(cost[:portions], _IMPOSSIBLE)])
        own[:few] = np.inf
        # By what is given in all, and of it to this one.
        all_of = np.array(
            [np.concatenate([best[total::-1] + own[: total + 1], np.full(portions - total, np.inf)])
             for total in range(portions + 1)]
        )  # fmt: skip
        taken.append(all_of.argmin(axis=1))
        best = all_of.min(axis=1)
    found, left = [], portions
    for choice in reversed(taken):
        found.append(int(choice[left]))
        left -= found[-1]
    return found[::-1]


# Other limits are advised where they make the error less than so many times as large.
_BETTER = 0.9
_NEAR = 3  # limits on each side of an advised one that a curve has, at least


@suggest_arguments
def advise(
    table: Table[Any],
    questions: Sequence[Question[Any]] | Mapping[str, Question[Any]],
    *,
    epsilon: Amount,
    delta: Amount = 0,
    share: Amount = SHARE,
    weights: Mapping[str, Number] | Sequence[Number] | None = None,
    budget: Budget | None = None,
    unsafe_words: Words | None = None,
) -> Advice:
    """Spend a small part of a budget on preliminary queries, and advise how to spend the rest.

    Args:
        table: the private table, from `sf.scan`.
        questions: the questions about it, by name or in a list, each with its own filters and groups. Limits
            and bounds that are "auto" are inferred; those you set stay.
        epsilon: the total of the preliminary queries, which are drawn now, and all releases. It is divided
            exactly.
        delta: the total delta of all releases, divided equally.
        share: the share of epsilon, from 0.001 to 0.9, for preliminary queries.
        weights: the importance of questions, by name or in order, from 1/1000 to 1000; the default is 1.
        budget: the `sfumato.Budget` to charge: for the preliminary queries now, and for each release when it
            is made.
        unsafe_words: on DuckDB, a source of random words for tests; the result is not private.
    Returns:
        An `Advice`: complete questions with an epsilon for each, chosen to minimize the weighted geometric
        mean of their expected errors. `print` shows it, `plot` draws it, and `release` releases the answers.
    Raises:
        QueryError, ParameterError, BudgetError, RefusalError: before anything is read, spent or drawn.
    Source:
        docs/choosing.md, "Advice for several questions"; docs/proofs/advice.md.

    >>> import pyarrow as pa, sfumato as sf
    >>> visits = sf.scan(pa.table({"id": [1, 1, 2], "town": ["A", "B", "A"]}), privacy_unit="id")
    >>> towns = visits.group_by("town", keys=["A", "B"]).bound(groups="auto", rows="auto").agg(n=sf.count())
    >>> advice = sf.advise(visits, {"all": visits.agg(people=sf.count_units()), "towns": towns}, epsilon=1)
    >>> advice.spent + sum(one.epsilon for one in advice.questions.values())
    Fraction(1, 1)
    """
    request = check_request(table, questions, epsilon, delta, share, weights)
    with notebook_bar("Looking at rows"):
        return advise_request(request, budget, unsafe_words)


def advise_request(request: AdviceRequest, budget: Budget | None, words: Words | None) -> Advice:
    """Return advice for a checked request, as `advise`."""
    request.check(words)
    queries = plan_preliminary(request.asked, request.preliminary, words)
    if not queries.parts:
        request = replace(request, preliminary=Fraction(0))
    what = f"advice for {len(request.asked)} questions"
    made_up = all(one.question.table._engine.made_up for one in request.asked)
    check_budget(budget)
    pay = no_charge if queries.claim is None else payment(budget, [queries.claim], what, made_up=made_up)
    if budget is not None:
        _check_enough(request, budget)
    with journaled(pay()):
        models, found = _build_models(request, queries)
        start = {m.asked.name: m.best(request.portion * request.equal, m.given, m.open) for m in models}
        found += _infer_bounds(models, queries, request.portion * request.equal, start)
    costs = [m.costs(request, start[m.asked.name]) for m in models]
    numbers = divide_portions(costs, request.least, request.portions)
    advised_queries = {
        m.asked.name: _advise_query(m, request, number, start[m.asked.name])
        for m, number in zip(models, numbers, strict=True)
    }
    return Advice(
        advised_queries, request.epsilon, request.delta, request.preliminary, tuple(found), _notes(request)
    )


def _check_enough(request: AdviceRequest, budget: Budget) -> None:
    """Refuse to advise on more epsilon or delta than a budget has left."""
    left = budget.remaining
    if round_down(request.epsilon) > left.epsilon or round_down(request.delta) > left.delta:
        raise BudgetError(
            f"advise: epsilon={float(request.epsilon):g} with delta={float(request.delta):g} for "
            "the preliminary queries and all releases exceeds what is left of the budget: "
            f"{left.epsilon:g} with {left.delta:g}"
        )


def _build_models(request: AdviceRequest, queries: PreliminaryQueries) -> tuple[list[Model], list[Found]]:
    """Draw the contributions of units, and return a model of each query to advise on."""
    seen = queries.contributions()
    found = [
        _table_size(members, seen[members[0].name], queries.of_contributions)
        for kind, members in queries.kinds
        if kind.needed
    ]
    return [Model(one, seen[one.name]) for one in request.asked], found


def _table_size(members: list[AdviceQuery], seen: EstimatedUnits, epsilon: Fraction) -> Found:
    value = {"units": round(seen.people)}
    if seen.groups is not None:
        value |= {"groups": round(seen.number), "units in a group": round(seen.units)}
    return Found(f"approximate size of {', '.join(one.name for one in members)}", value, epsilon)


def _infer_bounds(
    models: list[Model], queries: PreliminaryQueries, epsilon: Fraction, limits: Mapping[str, Limits]
) -> list[Found]:
    """Draw histograms of values with open bounds, each once for all queries that share it."""
    rows = {m.asked.name: limits[m.asked.name][1] for m in models}
    seen = queries.values(rows)
    plans = {m.asked.name: m.plan(epsilon, limits[m.asked.name]) for m in models}
    for m in models:
        m.values = {name: one for (of, name), one in seen.items() if of == m.asked.name}
    found = []
    for one in dict.fromkeys(map(id, seen.values())):
        values = next(v for v in seen.values() if id(v) == one)
        if values.histograms.known is None:
            # The largest noise of those that share it: what is seen is fine where bounds are wide.
            values.draw(
                max(
                    m.noise(name, plans[m.asked.name])
                    for m in models
                    for name, other in m.values.items()
                    if other is values
                )
            )
            found.append(
                Found(f"bounds of the {values.values.description}", values.first_bounds, values.epsilon)
            )
    for m in models:
        m.bounds = _bounds(m, plans[m.asked.name])
    return found


def _bounds(m: Model, plan: Plan) -> dict[str, tuple[Fraction, Fraction]]:
    """Return the bounds to advise for a query's open ones, under a plan's noise."""
    found = {}
    for name, values in m.values.items():
        if values.histograms.known is None:
            ends = values.bounds(m.noise(name, plan))
            found[name] = values.values.within(ends)
        else:
            found[name] = values.histograms.known
    return found


def _advise_query(m: Model, request: AdviceRequest, number: int, start: Limits) -> Advised:
    """Return the advice for one query with its part of the budget: best limits, then bounds."""
    epsilon, one = request.portion * number, m.asked
    # Whether totals or rows have bounds may depend on the limit of rows.
    free = (m.open[0], m.open[1] and not any(isinstance(a, Automatic) for _, a in one.question.aggregates))
    limits = m.best(epsilon, start, free)
    first, plan = dict(m.bounds), m.plan(epsilon, limits)
    if m.values:
        m.bounds = _bounds(m, plan)
        try:
            plan = m.plan(epsilon, limits)
        except REFUSED:
            m.bounds = first
    delta = one.delta
    if delta and not m.query.private_groups:
        with suppress(*REFUSED):  # where delta buys nothing, it is not spent
            without = m.plan(epsilon, limits, Fraction(0))
            if mean_error(m.errors(without, limits).values()) <= mean_error(m.errors(plan, limits).values()):
                plan, delta = without, Fraction(0)
    better = _better(m, epsilon, limits)
    curves = tuple(_curves(m, request, number, limits, plan))
    total = replace(one, delta=delta)
    question = _complete(m, limits)
    errors = {n: e.total for n, e in m.errors(plan, limits).items()}
    equal = request.epsilon / len(request.asked)
    default = {}
    with suppress(*REFUSED):
        default = {n: e.total for n, e in m.errors(m.plan(equal, m.given), m.given).items()}
    final = question.plan(epsilon=epsilon, delta=total.delta)
    return Advised(one.name, question, epsilon, delta, final, errors, default, dict(m.bounds), better, curves)


def _complete(m: Model, limits: Limits) -> Question[Any]:
    """Return the query with the advised limits and bounds in place of open ones."""
    question = m.asked.question
    known: dict[str, Any] = dict(zip(NAMES, (limits[0], limits[1] or 1), strict=True))
    table = question.table.bound(**{name: known[name] for name in question.table._auto_limits})
    return replace(question, table=table, aggregates=apply_inferred_bounds(question.aggregates, m.bounds))


def _better(m: Model, epsilon: Fraction, limits: Limits) -> Better | None:
    """Return limits that are better than given ones; None if the advice finds none."""
    if m.open == m.limited:
        return None
    found = m.best(epsilon, limits, m.limited)
    now, then = (mean_error(m.errors(m.plan(epsilon, one), one).values()) for one in (limits, found))
    if then > _BETTER * now:
        return None
    pairs = zip(NAMES, limits, found, strict=True)
    return Better({name: b for name, a, b in pairs if b is not None and a != b}, then / now)


def _curves(m: Model, request: AdviceRequest, number: int, limits: Limits, plan: Plan) -> list[Curve]:
    """Return the expected error of an advised query by each choice, relative to the advised one."""
    epsilon = request.portion * number
    base = mean_error(m.errors(plan, limits).values())
    found = [("epsilon", float(epsilon), _by_epsilon(m, request, number, limits))]
    for place, name in enumerate(NAMES):
        if m.limited[place]:
            chosen = limits[place]
            _try_neighboring_limits(m, epsilon, limits, place)
            points = [
                (float(at[place] or 1), *_combine_both(m, one, at))
                for at, one in m.iter_plans(epsilon)
                if at[1 - place] == limits[1 - place]
            ]
            found.append((name, float(chosen or 1), points))
    for name, values in m.values.items():
        for end, given, which in ((0, values.values.lower, "lower"), (1, values.values.upper, "upper")):
            if given is None:
                at = float(m.bounds[name][end])
                found.append((f"{which} of {name}", at, m.bound_curve(plan, limits, name, end)))
    return [
        Curve(choice, chosen, tuple((x, noise / base, error / base) for x, noise, error in sorted(points)))
        for choice, chosen, points in found
        if len(points) > 1
    ]


def _try_neighboring_limits(m: Model, epsilon: Fraction, limits: Limits, place: int) -> None:
    """Plan a query with limits near the advised one, so that the picture shows their errors."""
    most = m.most[place]
    at = next((i for i, limit in enumerate(LIMITS) if limit >= (limits[place] or 1)), len(LIMITS) - 1)
    for limit in LIMITS[max(at - _NEAR, 0) : at + _NEAR + 1]:
        if limit <= most:
            with suppress(*REFUSED):
                m.plan(epsilon, (limit, limits[1]) if place == 0 else (limits[0], limit))


def _by_epsilon(
    m: Model, request: AdviceRequest, number: int, limits: Limits
) -> list[tuple[float, float, float]]:
    found = []
    for some in request.list_portions(number):
        with suppress(*REFUSED):
            epsilon = request.portion * some
            found.append((float(epsilon), *_combine_both(m, m.plan(epsilon, limits), limits)))
    return found


def _combine_both(m: Model, plan: Plan, limits: Limits) -> tuple[float, float]:
    errors = m.errors(plan, limits).values()
    return mean_error(errors, noise=True), mean_error(errors)


def _notes(request: AdviceRequest) -> tuple[str, ...]:
    asked = request.asked
    grouped = any(one.question.table.keys for one in asked)
    of_groups = " in a group of average size" if grouped else ""
    found = [
        f"Expected errors are standard deviations{of_groups}; 95% error bars of a release are about "
        "twice as long. The default is an equal part of the budget for each question, and limits of "
        "1 where they were open."
    ]
    for i, one in enumerate(asked):
        same = next((other for other in asked[:i] if _is_same_query(other.question, one.question)), None)
        if same is not None:
            found.append(f"{one.name} is the same as {same.name}: release it once, and use it twice.")
        if one.question.query.total_rows is not None:
            found.append(f"{one.name}: the advice does not include bias from total_rows.")
    return tuple(found)


def _is_same_query(one: Question[Any], other: Question[Any]) -> bool:
    """Whether two queries of a request have the same answer."""
    limits = one.table._auto_limits == other.table._auto_limits
    return limits and one.aggregates == other.aggregates and one.query == other.query
