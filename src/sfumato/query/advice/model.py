"""What is expected of one question, by limits, bounds and budget: of its plans, and of what looks showed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from fractions import Fraction
from math import inf, log
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.errors import BudgetError, ParameterError, QueryError
from sfumato.noise.values import Floats
from sfumato.query.advice.asked import Asked
from sfumato.query.advice.looks import ValuesSeen
from sfumato.query.aggregates import Automatic, StandardDeviation, Variance, Weighted
from sfumato.query.automatic.errors import Contributions, OutputError, mean_error, output_errors
from sfumato.query.automatic.limits import best_limits
from sfumato.query.automatic.resolve import admissible
from sfumato.query.diagnostics.contributions import LIMITS
from sfumato.query.plans.expected import Errors
from sfumato.query.plans.plan import Plan
from sfumato.query.plans.planning import make_plan
from sfumato.query.query import Query

# What a plan may refuse.
REFUSED = BudgetError, ParameterError, QueryError
Limits = tuple[int, int | None]
Bounds = Mapping[str, tuple[Fraction, Fraction]]
_FAR = 64.0  # a bound is tried up to so many times nearer
_WIDER = 8.0


@dataclass
class Model:
    """One question, with what was seen of its rows.

    Args:
        asked: the question.
        seen: what units contribute.
        values: what was seen of values whose bounds are open, by the name of what is asked.
        bounds: of these.
    """

    asked: Asked
    seen: Contributions
    values: dict[str, ValuesSeen] = field(default_factory=dict)
    bounds: dict[str, tuple[Fraction, Fraction]] = field(default_factory=dict)
    _plans: dict[Any, Plan | None] = field(default_factory=dict)

    @property
    def query(self) -> Query:
        """What is asked, with what stands in for limits and bounds that are open."""
        return self.asked.question.query

    @property
    def given(self) -> Limits:
        """The limits that are given, and 1 where they are open."""
        return self.query.max_groups or 1, self.query.max_rows

    @property
    def limited(self) -> tuple[bool, bool]:
        """Whether a limit of groups, and of rows, matters."""
        if self.query.total_rows is not None:
            return False, False
        rows = self.query.max_rows is not None and any(a.needs_rows for _, a in self.query.aggregates)
        return bool(self.query.keys), rows

    @property
    def open(self) -> tuple[bool, bool]:
        """Which of these are to be found."""
        auto, matter = self.asked.question.table.auto_limits, self.limited
        return "groups" in auto and matter[0], "rows" in auto and matter[1]

    @property
    def most(self) -> tuple[int, int]:
        """The largest limits that there may be."""
        groups, rows = self.asked.question.table.most_limits
        keys = self.query.public_keys
        if isinstance(keys, pa.Table):
            groups = min(groups, max(int(keys.num_rows), 1))
        return min(groups, LIMITS[-1]), min(rows, LIMITS[-1])

    def asked_with(self, limits: Limits, bounds: Bounds | None = None) -> Query:
        """Return what is asked with limits, and with bounds in the place of open ones."""
        query, known = self.query, self.bounds if bounds is None else bounds
        aggregates = tuple(
            (name, a.bounded(*known[name]) if isinstance(a, Automatic) and name in known else b)
            for (name, a), (_, b) in zip(self.asked.question.aggregates, query.aggregates, strict=True)
        )
        if query.total_rows is not None:
            return replace(query, aggregates=aggregates, series=None, totals=None)
        groups = limits[0] if query.keys else query.max_groups
        return replace(
            query, max_groups=groups, max_rows=limits[1], aggregates=aggregates, series=None, totals=None
        )

    def plan(self, epsilon: Fraction, limits: Limits, delta: Fraction | None = None) -> Plan:
        """Return the plan with limits, and the bounds that are known by now.

        Raises:
            BudgetError, ParameterError, QueryError: there is none.
        """
        given = self.asked.delta if delta is None else delta
        key = epsilon, limits, tuple(self.bounds.items()), given
        if key not in self._plans:
            self._plans[key] = None
            self._plans[key] = make_plan(self.asked_with(limits), epsilon=epsilon, delta=given)
        found = self._plans[key]
        if found is None:
            raise BudgetError("no noise is enough for these limits")
        return found

    def planned(self, epsilon: Fraction) -> Iterator[tuple[Limits, Plan]]:
        """Yield the limits that were tried with a budget and the bounds that are known by now."""
        now = tuple(self.bounds.items()), self.asked.delta
        for (one, limits, *rest), plan in self._plans.items():
            if plan is not None and one == epsilon and tuple(rest) == now:
                yield limits, plan

    def best(self, epsilon: Fraction, start: Limits, free: tuple[bool, bool]) -> Limits:
        """Return the limits with the least expected error."""
        return best_limits(self.seen, lambda *limits: self.plan(epsilon, limits), start, free, self.most)

    def errors(
        self, plan: Plan, limits: Limits, expected: Errors | None = None, bounds: Bounds | None = None
    ) -> dict[str, OutputError]:
        """Return about how far each output is off."""
        known = self.bounds if bounds is None else bounds
        clamped = {name: self.clamped(name, known[name]) for name in self.values if name in known}
        total = self.query.total_rows is not None
        groups, rows = (LIMITS[-1], None) if total else limits
        return output_errors(plan, self.seen, groups, rows, expected=expected, clamped=clamped)

    def clamped(self, name: str, bounds: tuple[Fraction, Fraction]) -> float:
        """Return about what bounds cut of a row's value on average, or of a unit's total by its rows."""
        one = self.values[name]
        if not one.seen:
            return 0.0
        return one.cut(*map(float, bounds)) / (self.seen.rows if one.values.totals else 1.0)

    def noise(self, name: str, plan: Plan) -> float:
        """Return the deviation of noise that bounds which are one apart have, as looks at values count it.

        Looks see the values of all units, and noise is on those of one group: it is compared with as much of
        what is cut as there is in one.
        """
        asked = dict(plan.query.aggregates)[name].each
        of: Any = asked.of if isinstance(asked, Weighted) else asked
        width = float(of.upper - of.lower)
        each = plan.expected[name] / (width**2 / 2 if squared(of) else width)
        size = self.seen.units * (1.0 if self.values[name].values.totals else self.seen.rows)
        return each * max(self.seen.people, 1.0) / size

    def found_bounds(self, name: str, ends: tuple[float, float]) -> tuple[Fraction, Fraction]:
        """Return bounds that may be asked: those that were found, in the place of open ones."""
        values = self.values[name].values
        lower, upper = (
            Fraction(end) if given is None else given
            for given, end in zip((values.lower, values.upper), ends, strict=True)
        )
        return admissible(lower, upper, (values.lower is not None, values.upper is not None))

    def costs(self, portion: Fraction, portions: int, equal: int, limits: Limits) -> Floats:
        """Return the weighted log of the expected error by the number of portions of a budget, from 1 on.

        With the best limits for each of those that were tried with an equal part. How noise falls with the
        budget is computed for some of the budgets, with one limit.
        """
        middle = portion * equal
        base = self.plan(middle, limits).expected
        tried = list(self.planned(middle)) if any(self.open) else []
        tried = tried or [(limits, self.plan(middle, limits))]
        some = sorted(
            {equal, portions, *(1 << i for i in range(portions.bit_length()) if 1 << i <= portions)}
        )
        known, costs = [], []
        for number in some:
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
        """Return bounds that might have been, and how large noise and the whole error are with them.

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
        near = edges[(edges - other >= width / _FAR) & (edges - other <= width * _WIDER)]
        found = []
        for at in sorted({*near.tolist(), here}):
            tried = (chosen[0], at) if end else (-at, chosen[1])
            both = Fraction(tried[0]), Fraction(tried[1])
            wider = (tried[1] - tried[0]) / width
            expected = dict(plan.expected)
            of: Any = dict(plan.query.aggregates)[name].each
            of = of.of if isinstance(of, Weighted) else of
            for output in dict(plan.query.aggregates)[name].outputs(name):
                expected[output] *= wider**2 if squared(of) else wider
            errors = self.errors(plan, limits, expected, {**self.bounds, name: both}).values()
            found.append((at if end else -at, mean_error(errors, noise=True), mean_error(errors)))
        return found if end else found[::-1]


def squared(asked: object) -> bool:
    """Whether noise grows with the square of the distance of bounds."""
    return isinstance(asked, (Variance, StandardDeviation))
