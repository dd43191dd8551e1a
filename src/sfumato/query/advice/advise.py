"""`sf.advise`: looks at a table once, and says how to ask several questions of it for one budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.budget import Budget
from sfumato.display.progress import NotebookBar
from sfumato.errors import BudgetError
from sfumato.exact import Number, round_down
from sfumato.names import helpful
from sfumato.query.advice.asked import SHARE, Asked, Budgeted, checked
from sfumato.query.advice.division import divided
from sfumato.query.advice.looks import Looks, planned_looks
from sfumato.query.advice.model import REFUSED, Limits, Model
from sfumato.query.advice.picture import Curve
from sfumato.query.advice.result import Advice, Advised, Better
from sfumato.query.aggregates import Automatic
from sfumato.query.automatic.errors import Contributions, mean_error
from sfumato.query.automatic.limits import NAMES
from sfumato.query.choices import Amount
from sfumato.query.diagnostics.contributions import LIMITS
from sfumato.query.found import Found
from sfumato.query.payment import paying, telling
from sfumato.query.plans.plan import Plan
from sfumato.query.question import Question

if TYPE_CHECKING:
    from sfumato.noise import Words
    from sfumato.query.table import Table

# Other limits are told where they make the error less than so many times as large.
_BETTER = 0.9
_NEAR = 3  # limits on each side of an advised one that a curve has, at least


@helpful
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
    """Spend a small part of a budget on looking, and say how to ask several questions with the rest.

    Args:
        table: the private table, as `sf.scan` gives it.
        questions: what is to be asked of it, by name or in a list; with filters and groups of their own.
            Limits and bounds that are "auto" are found; those that are given stay.
        epsilon: of everything: the looks, which are drawn now, and all releases later. It is divided exactly.
        delta: of all releases, each of which may have an equal part.
        share: the part of epsilon, from 0.001 to 0.9, that is spent on looking.
        weights: how much questions matter, by name or in their order, from 1/1000 to 1000; 1 where left out.
        budget: that of all questions, which pays for the looks now; releases pay for themselves.
        unsafe_words: on DuckDB, a source of random words for tests; the result is not private.
    Returns:
        An `Advice`: complete questions with an epsilon for each, whose expected errors have the smallest
        geometric mean, by weights; `print` tells it, `plot` draws it, and `release` asks them.
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
    budgeted = checked(table, questions, epsilon, delta, share, weights)
    with NotebookBar("Looking at rows"):
        return advised(budgeted, budget, unsafe_words)


def advised(budgeted: Budgeted, budget: Budget | None, words: Words | None) -> Advice:
    """Return advice for questions that were checked, as `advise`."""
    budgeted.check(words)
    looks = planned_looks(budgeted.asked, budgeted.look, words)
    if not looks.parts:
        budgeted = replace(budgeted, look=Fraction(0))
    what = f"advice for {len(budgeted.asked)} questions"
    made_up = all(one.question.table.engine.made_up for one in budgeted.asked)
    pay = paying(budget, budgeted.look, 0, what, made_up=made_up)
    if budget is not None:
        _check_enough(budgeted, budget)
    with telling(pay() if looks.parts else ()):
        models, found = _seen(budgeted, looks)
        start = {m.asked.name: m.best(budgeted.portion * budgeted.equal, m.given, m.open) for m in models}
        found += _look_at_values(models, looks, budgeted.portion * budgeted.equal, start)
    costs = [
        m.costs(budgeted.portion, budgeted.portions, budgeted.equal, start[m.asked.name]) for m in models
    ]
    numbers = divided(costs, budgeted.least, budgeted.portions)
    told = {
        m.asked.name: _advised(m, budgeted, number, start[m.asked.name])
        for m, number in zip(models, numbers, strict=True)
    }
    return Advice(told, budgeted.epsilon, budgeted.delta, budgeted.look, tuple(found), _notes(budgeted))


def _check_enough(budgeted: Budgeted, budget: Budget) -> None:
    """Refuse to advise for more than a budget has."""
    left = budget.remaining
    if round_down(budgeted.epsilon) > left.epsilon or round_down(budgeted.delta) > left.delta:
        raise BudgetError(
            f"advise: epsilon={float(budgeted.epsilon):g} with delta={float(budgeted.delta):g} for the looks "
            f"and all releases is more than is left of the budget: {left.epsilon:g} with {left.delta:g}"
        )


def _seen(budgeted: Budgeted, looks: Looks) -> tuple[list[Model], list[Found]]:
    """Return what is known of each question, and what was found."""
    seen = looks.contributions()
    found = [
        _told(members, seen[members[0].name], looks.of_contributions)
        for kind, members in looks.kinds
        if kind.needed
    ]
    return [Model(one, seen[one.name]) for one in budgeted.asked], found


def _told(members: list[Asked], seen: Contributions, epsilon: Fraction) -> Found:
    value = {"units": round(seen.people)}
    if seen.groups is not None:
        value |= {"groups": round(seen.number), "units in a group": round(seen.units)}
    return Found(f"size of {', '.join(one.name for one in members)}, about", value, epsilon)


def _look_at_values(
    models: list[Model], looks: Looks, epsilon: Fraction, limits: Mapping[str, Limits]
) -> list[Found]:
    """Look at values whose bounds are open, once for all questions that share them."""
    rows = {m.asked.name: limits[m.asked.name][1] for m in models}
    seen = looks.values(rows)
    plans = {m.asked.name: m.plan(epsilon, limits[m.asked.name]) for m in models}
    for m in models:
        m.values = {name: one for (of, name), one in seen.items() if of == m.asked.name}
    found = []
    for one in dict.fromkeys(map(id, seen.values())):
        values = next(v for v in seen.values() if id(v) == one)
        if values.looking.known is None:
            # The largest noise of those that share it: what is seen is fine where bounds are wide.
            values.draw(
                max(
                    m.noise(name, plans[m.asked.name])
                    for m in models
                    for name, other in m.values.items()
                    if other is values
                )
            )
            found.append(Found(f"bounds of the {values.values.told}", values.told, values.epsilon))
    for m in models:
        m.bounds = _bounds(m, plans[m.asked.name])
    return found


def _bounds(m: Model, plan: Plan) -> dict[str, tuple[Fraction, Fraction]]:
    """Return bounds in the place of open ones, the best with a plan's noise."""
    found = {}
    for name, values in m.values.items():
        if values.looking.known is None:
            ends = values.bounds(m.noise(name, plan))
            found[name] = m.found_bounds(name, ends)
        else:
            found[name] = values.looking.known
    return found


def _advised(m: Model, budgeted: Budgeted, number: int, start: Limits) -> Advised:
    """Return a question with its part of the budget: the best limits for it, and then bounds."""
    epsilon, one = budgeted.portion * number, m.asked
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
    curves = tuple(_curves(m, budgeted, number, limits, plan))
    total = replace(one, delta=delta)
    question = _complete(m, limits)
    errors = {n: e.total for n, e in m.errors(plan, limits).items()}
    equal = budgeted.epsilon / len(budgeted.asked)
    default = {}
    with suppress(*REFUSED):
        default = {n: e.total for n, e in m.errors(m.plan(equal, m.given), m.given).items()}
    final = question.plan(epsilon=epsilon, delta=total.delta)
    return Advised(one.name, question, epsilon, delta, final, errors, default, dict(m.bounds), better, curves)


def _complete(m: Model, limits: Limits) -> Question[Any]:
    """Return the question with numbers in the place of all that was open."""
    question = m.asked.question
    known: dict[str, Any] = dict(zip(NAMES, (limits[0], limits[1] or 1), strict=True))
    table = question.table.bound(**{name: known[name] for name in question.table.auto_limits})
    aggregates = tuple(
        (name, a.bounded(*m.bounds[name]) if isinstance(a, Automatic) else a)
        for name, a in question.aggregates
    )
    return replace(question, table=table, aggregates=aggregates)


def _better(m: Model, epsilon: Fraction, limits: Limits) -> Better | None:
    """Return limits that are better than the given ones, if some are, and were not found anyway."""
    if m.open == m.limited:
        return None
    found = m.best(epsilon, limits, m.limited)
    now, then = (mean_error(m.errors(m.plan(epsilon, one), one).values()) for one in (limits, found))
    if then > _BETTER * now:
        return None
    pairs = zip(NAMES, limits, found, strict=True)
    return Better({name: b for name, a, b in pairs if b is not None and a != b}, then / now)


def _curves(m: Model, budgeted: Budgeted, number: int, limits: Limits, plan: Plan) -> list[Curve]:
    """Return the error by each choice, of the error with what is advised."""
    epsilon = budgeted.portion * number
    base = mean_error(m.errors(plan, limits).values())
    found = [("epsilon", float(epsilon), _by_epsilon(m, budgeted, number, limits))]
    for place, name in enumerate(NAMES):
        if m.limited[place]:
            chosen = limits[place]
            _try_near(m, epsilon, limits, place)
            points = [
                (float(at[place] or 1), *_both(m, one, at))
                for at, one in m.planned(epsilon)
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


def _try_near(m: Model, epsilon: Fraction, limits: Limits, place: int) -> None:
    """Plan with limits near an advised one, to show what they would do."""
    most = m.most[place]
    at = next((i for i, limit in enumerate(LIMITS) if limit >= (limits[place] or 1)), len(LIMITS) - 1)
    for limit in LIMITS[max(at - _NEAR, 0) : at + _NEAR + 1]:
        if limit <= most:
            with suppress(*REFUSED):
                m.plan(epsilon, (limit, limits[1]) if place == 0 else (limits[0], limit))


def _by_epsilon(
    m: Model, budgeted: Budgeted, number: int, limits: Limits
) -> list[tuple[float, float, float]]:
    portions = budgeted.portions
    found = []
    for some in sorted(
        {number, portions, *(1 << i for i in range(portions.bit_length()) if 1 << i <= portions)}
    ):
        with suppress(*REFUSED):
            epsilon = budgeted.portion * some
            found.append((float(epsilon), *_both(m, m.plan(epsilon, limits), limits)))
    return found


def _both(m: Model, plan: Plan, limits: Limits) -> tuple[float, float]:
    errors = m.errors(plan, limits).values()
    return mean_error(errors, noise=True), mean_error(errors)


def _notes(budgeted: Budgeted) -> tuple[str, ...]:
    asked = budgeted.asked
    grouped = any(one.question.table.keys for one in asked)
    of_groups = "about those of a group of average size, were all groups alike: " if grouped else ""
    found = [
        f"Expected errors are {of_groups}standard deviations, of which the 95% bars of a release are about "
        "twice; by default: an equal part of the whole budget, and limits of 1 where they were open."
    ]
    for i, one in enumerate(asked):
        same = next((other for other in asked[:i] if _same(other.question, one.question)), None)
        if same is not None:
            found.append(f"{one.name} is the same as {same.name}: release it once, and use it twice.")
        if one.question.query.total_rows is not None:
            found.append(f"{one.name}: what total_rows cuts is not looked at.")
    return tuple(found)


def _same(one: Question[Any], other: Question[Any]) -> bool:
    """Whether two questions have one answer."""
    limits = one.table.auto_limits == other.table.auto_limits
    return limits and one.aggregates == other.aggregates and one.query == other.query
