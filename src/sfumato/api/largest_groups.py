"""The largest groups by number of privacy units, or by a sum: question, plan and explanation."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from sfumato.budget import Budget
from sfumato.budget.calibration import ROOM, threshold_delta
from sfumato.budget.closed_forms import zcdp_rho
from sfumato.budget.epsilon_delta import admissible_epsilon, released_delta
from sfumato.dataclass import dataclass
from sfumato.display.cards import Card, Displayed, Sentences, Steps, TextCard
from sfumato.display.formatting import price, visible
from sfumato.errors import BudgetError, ParameterError, QueryError
from sfumato.exact import Number, as_written, positive_int, root_down, root_up, truth_value
from sfumato.exact.outward_rounding import exp_bounds
from sfumato.measurements.candidate_selection import MAX_PEELS, check_k, margin_for
from sfumato.names import SuggestingArguments, foreign_names
from sfumato.noise import DiscreteLaplace, Gaussian, Words
from sfumato.plan.explanation import cautions
from sfumato.plan.plan import Plan
from sfumato.plan.serialization import DetachedEngine
from sfumato.plan.top_measurement import RANK, SUM, UNITS, TopMeasurement
from sfumato.query.aggregates.sum_mean_variance import Sum
from sfumato.query.engine_protocol import ALL_GROUPS, BroughtKeys, Engine, ExactQuery
from sfumato.query.error_bars import Bias
from sfumato.query.schema import Kind, Schema, Step
from sfumato.query.table_display import top_card
from sfumato.release.canonical_form import canonical_top
from sfumato.release.payment import log_planned, payment, question_key
from sfumato.release.top_release import TopRelease
from sfumato.transformations import CountUnits, Grid, Statistic, UnitSum, ValueGrid


@dataclass(frozen=True, repr=False)
class TopExplanation(TextCard):
    """The explanation of a release of the largest groups: text with `str()`, or data.

    `Top.explain` and `TopRelease.explain` return it.

    >>> import pyarrow as pa, sfumato as sf
    >>> rows = pa.table({"person": [1, 2], "product": ["tea", "ink"]})
    >>> told = sf.scan(rows, privacy_unit="person").top("product", k=1).explain(epsilon=1, delta="1e-6")
    >>> told.to_dict()["groups_are"], len(told.to_json()) > 500, len(told.steps)
    ('private', True, 5)
    """

    plan: Plan[Top, TopMeasurement]

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain data; exact numbers are text."""
        question, plan, drawn = self.plan.query, self.plan, self.plan.measurement
        return {
            "privacy_unit": question.unit,
            "group_by": list(question.keys),
            "groups_are": "private" if drawn.candidates is not None else "public",
            "k": drawn.k,
            "candidates": drawn.candidates,
            "margin": drawn.margin,
            "by": self._by,
            "spread": drawn.spread,
            "epsilon_of_each_peel": str(drawn.each),
            "composed_by": self._composed_by,
            "counts_share": str(drawn.share),
            "counts_noise": None if drawn.law is None else repr(drawn.law),
            "counts_standard_deviation": None if drawn.law is None else float(drawn.law.standard_deviation),
            "budget": {"epsilon": str(plan.epsilon), "delta": str(plan.delta)},
            "told": self.steps,
            "notes": list(self.notes),
        }

    def to_json(self, indent: int | None = 2) -> str:
        """Return the explanation as JSON text.

        Args:
            indent: spaces for each level; None for one line.
        Returns:
            JSON text of the same data as `to_dict`.
        """
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes on the query for the largest groups."""
        question, plan = self.plan.query, self.plan
        return (
            *question.notes,
            *cautions(question.schema, question.keys, plan.epsilon, plan.delta),
            *([question.bias.describe()] if question.bias else []),
        )

    @property
    def _by(self) -> str:
        by = self.plan.query.by
        return "units" if by is None else by.meaning({})

    @property
    def _composed_by(self) -> str:
        return "pure DP" if self.plan.measurement.zcdp is None else "zCDP"

    @property
    def steps(self) -> list[str]:
        """The sentences of the explanation: each step of the release and its cost."""
        question, plan, drawn = self.plan.query, self.plan, self.plan.measurement
        name, step = drawn.measured, float(drawn.step)
        rate = float(drawn.rate) / step
        first = f"Count the privacy units ({question.unit}) in each group of "
        if question.by is not None:
            first = f"For each privacy unit ({question.unit}), take the {self._by}, in each group of "
        lines = [
            f"{first}{', '.join(question.keys)}. A unit may be in any number of groups.",
            (
                f"Draw {drawn.k} groups, one after another, each with probability proportional to "
                f"e^({rate:.4g} x {name}) among those that are left."
            )
            if drawn.k > 1
            else f"Draw a group, with probability proportional to e^({rate:.4g} x {name}).",
        ]
        if drawn.margin is not None:
            lines.append(
                f"Only the {drawn.candidates} largest groups may be drawn. An end marker competes with them, "
                f"{(drawn.margin + 1) * step:.6g} above the largest other group; "
                "drawing stops at the marker."
            )
        if drawn.law is not None:
            lines.append(
                f"Then show the {name} of these groups, with {drawn.law.title} noise of standard "
                f"deviation {float(drawn.law.standard_deviation) * step:.4g}, for "
                f"{float(drawn.share):.0%} of the budget."
            )
        lines.append(
            f"Together this costs at most epsilon {float(plan.epsilon):g} and delta {float(plan.delta):g}, "
            f"composed by {self._composed_by}."
        )
        return lines

    def _card(self) -> Card:
        title = f"How the answer is made, for {price(self.plan.epsilon, self.plan.delta)}"
        return Card(title, [Steps(self.steps), Sentences([f"Note: {note}" for note in self.notes])])

    def __str__(self) -> str:
        return "\n".join([*self.steps, *self.notes])


MAX_CANDIDATES = 10**9
# Half of delta is for what concentrates, where groups are private too.
_HALF = Fraction(1, 2)
LARGEST_SCALE, LARGEST_MARGIN = 2**56, 2**63
LARGEST_EPSILON = 1000


@dataclass(frozen=True, repr=False)
class Top(SuggestingArguments, Displayed):
    """A query for the k largest groups, as `Table.top` returns it.

    Args:
        schema: the columns, with derived ones.
        unit: the privacy unit's column.
        keys: the columns to group by.
        k: the number of groups to release.
        candidates: the number of largest private groups from which the release chooses.
        notes: what an analyst should know about the source.
        by: a sum, with bounds on what each unit adds to a group, that ranks the groups; None to rank them by
            units.
    Raises:
        ParameterError: `k` or `candidates` is out of range.
        QueryError: `by` is not a bounded sum, or a key has a name that the output needs.

    >>> import pyarrow as pa, sfumato as sf
    >>> rows = pa.table({"person": [1, 2], "product": ["tea", "ink"]})
    >>> sf.scan(rows, privacy_unit="person").top("product", k=2)
    <Top: the 2 largest groups by product>
    """

    _foreign = foreign_names.QUESTION

    _engine: Engine[Any]
    schema: Schema
    unit: str
    _steps: tuple[Step, ...]
    keys: tuple[str, ...]
    _public_keys: pa.Table | BroughtKeys | None
    k: int
    candidates: int | None = None
    notes: tuple[str, ...] = ()
    by: Sum | None = None

    def _card(self) -> Card:
        return top_card(self)

    def __repr__(self) -> str:
        return visible(f"<Top: the {self.k:,} largest groups by {', '.join(self.keys)}>")

    def __post_init__(self) -> None:
        taken = {key.casefold() for key in self.keys} & {RANK, self.measured}
        if taken:
            name = min(taken)
            raise QueryError(
                f"top: the output has a column {name!r} already. Give the key another name with with_columns"
            )
        public = self._public_keys
        if self.by is not None:
            self._check_by(self.by)
        if public is None:
            default = max(100, 10 * positive_int(self.k, "k"))
            given = default if self.candidates is None else positive_int(self.candidates, "candidates")
            if given > MAX_CANDIDATES:
                raise ParameterError("candidates", given, f"at most {MAX_CANDIDATES:,}")
            object.__setattr__(self, "candidates", given)
            check_k(self.k, given)
            return
        if self.candidates is not None:
            raise QueryError(
                "top: candidates is for private groups, and all public groups may be shown. Leave it out"
            )
        check_k(self.k, public.num_rows if isinstance(public, pa.Table) else MAX_PEELS)

    def _check_by(self, by: object) -> None:
        if type(by) is not Sum or by.per == "row":
            raise QueryError(
                "top: by must be a sum with bounds on what a unit adds to a group, without weights, "
                'such as sf.sum("price", lower=0, upper=50). Leave it out to count units'
            )
        by.check("by", self.schema)
        if self._public_keys is None and by.lower < 0:
            raise QueryError(
                "top: where groups are private, lower of the sum must be at least 0. Otherwise give "
                "the groups with keys=[...]"
            )

    @property
    def bias(self) -> Bias:
        """The bias that the bounds of `by` can cause in the largest groups' numbers."""
        return Bias(bounds=self.by is not None, remedy="")

    @property
    def measured(self) -> str:
        """The name of the column with the largest groups' numbers."""
        return UNITS if self.by is None else SUM

    @cached_property
    def statistic(self) -> CountUnits | UnitSum:
        """The statistic that ranks the groups."""
        by = self.by
        if by is None:
            return CountUnits()
        whole = self.whole and max(abs(by.lower), abs(by.upper)) < 2**40
        if whole:
            grid = Grid(0)
        else:
            made = ValueGrid.around(by.lower, by.upper, Grid.for_noise(by.upper - by.lower))
            grid = Grid(made.exponent)
        low, high = grid.steps_at_most(by.lower), grid.steps_at_least(by.upper)
        missing = self.schema[by.column].missing
        return UnitSum("by", by.column, grid.exponent, low, high, whole, missing=missing)

    @property
    def whole(self) -> bool:
        """Whether the largest groups' numbers are whole numbers."""
        return self.by is None or self.schema[self.by.column].kind in (Kind.INTEGER, Kind.BOOLEAN)

    def _exact(self, statistics: tuple[Statistic, ...]) -> ExactQuery:
        """Return the exact half of the query for the largest groups, without a limit of groups per unit.

        Beside the candidates it has the largest group that is none, by which the end is placed.

        Args:
            statistics: what the engine computes.
        """
        public = self._public_keys
        groups = public.num_rows if isinstance(public, pa.Table) else ALL_GROUPS
        largest = None if self.candidates is None else self.candidates + 1
        return ExactQuery(self._steps, self.unit, self.keys, public, groups, statistics, largest=largest)

    @property
    def title(self) -> str:
        """A short summary of the query for the largest groups."""
        return f"the {self.k} largest by {', '.join(self.keys)}"

    def _detach(self) -> Top:
        """Return the question for the largest groups for another process, without its engine."""
        engine: Any = DetachedEngine.from_engine(self._engine, self._steps)
        return replace(self, _engine=engine)

    def _explanation(self, plan: Plan[Top, TopMeasurement]) -> TopExplanation:
        """Return the explanation of a plan for the largest groups."""
        return TopExplanation(plan)

    def plan(
        self,
        *,
        epsilon: Number,
        delta: Number = 0,
        counts: bool = True,
        counts_share: Number = Fraction(1, 2),
    ) -> Plan[Top, TopMeasurement]:
        """Return the plan for the largest groups with these options, without reading or spending anything.

        Args:
            epsilon, delta, counts, counts_share: as for `release`.
        Returns:
            A `Plan`; its `explain()` describes it in words.
        Raises:
            ParameterError, BudgetError: an option is not valid for a release.

        >>> import pyarrow as pa, sfumato as sf
        >>> rows = pa.table({"person": [1, 2], "product": ["tea", "ink"]})
        >>> sales = sf.scan(rows, privacy_unit="person")
        >>> sales.top("product", k=2).plan(epsilon=1, delta="1e-6").spent
        ExactCost(epsilon=1, delta=1e-06)
        """
        share = as_written(counts_share, "counts_share")
        if not 0 < share < 1:
            raise ParameterError(
                "counts_share", counts_share, "between 0 and 1. For ranks only, pass counts=False"
            )
        if not truth_value(counts, "counts"):
            share = Fraction(0)
        return make_top_plan(self, admissible_epsilon(epsilon), released_delta(delta), share)

    def explain(
        self,
        *,
        epsilon: Number,
        delta: Number = 0,
        counts: bool = True,
        counts_share: Number = Fraction(1, 2),
    ) -> TopExplanation:
        """Explain a release of the largest groups with these options, without reading or spending anything.

        Args:
            epsilon, delta, counts, counts_share: as for `release`.
        Returns:
            The same explanation as `TopRelease.explain`: each step with its noise and cost.
        Raises:
            ParameterError, BudgetError: as for `plan`.

        >>> import pyarrow as pa, sfumato as sf
        >>> rows = pa.table({"person": [1, 2], "product": ["tea", "ink"]})
        >>> sales = sf.scan(rows, privacy_unit="person")
        >>> print(sales.top("product", k=1, keys=["tea", "ink"]).explain(epsilon=1, counts=False))
        Count the privacy units (person) in each group of product. A unit may be in any number of groups.
        Draw a group, with probability proportional to e^(1 x units).
        Together this costs at most epsilon 1 and delta 0, composed by pure DP.
        """
        return self.plan(epsilon=epsilon, delta=delta, counts=counts, counts_share=counts_share).explain()

    def release(
        self,
        *,
        epsilon: Number,
        delta: Number = 0,
        counts: bool = True,
        counts_share: Number = Fraction(1, 2),
        budget: Budget | None = None,
        unsafe_words: Words | None = None,
    ) -> TopRelease:
        """Release the keys of the largest groups, in the order in which they are chosen.

        Args:
            epsilon: the privacy budget, greater than 0. A float means the number as written: 0.1 is exactly
                one tenth.
            delta: in [0, 1). Private groups need more than 0; public groups may have less noise with it.
            counts: whether to release a noisy number of units for each of these groups too.
            counts_share: the share of the budget for these numbers.
            budget: the `sfumato.Budget` to charge.
            unsafe_words: a source of random words for tests; the result is not private.
        Returns:
            A `TopRelease`; its noise is drawn once, on first access. For a table of an Arrow schema, a Beam
            transform, as in `sfumato.beam.Release`.
        Raises:
            ParameterError, BudgetError: an option is not valid, or the budget is too small. Nothing has been
                read or drawn then.

        >>> import pyarrow as pa, sfumato as sf
        >>> words = ["tea"] * 5_000 + ["ink"] * 3_000 + ["wax"] * 1_000
        >>> sales = sf.scan(pa.table({"person": range(9_000), "product": words}), privacy_unit="person")
        >>> sales.top("product", k=2).release(epsilon=2, delta="1e-6")["product"]
        ['tea', 'ink']
        """
        if unsafe_words is not None and not isinstance(unsafe_words, Words):
            raise ParameterError("unsafe_words", unsafe_words, "a Words of sfumato.noise, in tests alone")
        plan = self.plan(epsilon=epsilon, delta=delta, counts=counts, counts_share=counts_share)
        form = partial(canonical_top, plan)
        same = None if unsafe_words is not None else question_key(form, [self._engine])
        pay = payment(budget, [plan], self.title, form=form, same=same, made_up=self._engine.made_up)
        log_planned(self._engine.name, 1, epsilon=plan.epsilon, delta=plan.delta)
        released: TopRelease = self._engine.top(plan, unsafe_words=unsafe_words, pay=pay)
        return released


def make_top_plan(top: Top, epsilon: Fraction, delta: Fraction, share: Fraction) -> Plan[Top, TopMeasurement]:
    """Return the plan for the largest groups: by pure DP, or by zCDP if each pick gets more epsilon.

    Args:
        top: what is asked.
        epsilon, delta: the budget.
        share: the part of it that is for the numbers, from 0 to less than 1.
    Raises:
        BudgetError: groups are private and delta is 0 or too small for the candidates, or epsilon is above
            1,000; or the noise is too large to draw.
    """
    private = top.candidates is not None
    if private and delta == 0:
        raise BudgetError(
            "delta is 0, but private groups need one. Give a delta such as 1e-6, or the groups with "
            "keys=[...]"
        )
    if private and epsilon > LARGEST_EPSILON:
        raise BudgetError(
            f"epsilon is above {LARGEST_EPSILON:,}, which protects nobody where groups are private. "
            "Give a smaller one"
        )
    k, within = top.k, delta * (1 - ROOM)
    each, whole = (1 - share) * epsilon / k, delta
    rho = zcdp_rho(epsilon, within * _HALF if private else within) if delta else None
    if rho and (by_zcdp := root_down(8 * (1 - share) * rho / k)) > each:
        each, whole = by_zcdp, delta * _HALF
    else:
        rho = None
    zcdp = epsilon if rho else None
    made = TopMeasurement(top.keys, top.statistic, top.whole, k, top.candidates, share, each, zcdp)
    margin, scale = None, Fraction(0)
    if made.candidates is not None:
        # A bound of the chance that a group is shown that other people's tables do not show.
        chance = made.candidates * threshold_delta(whole, made.candidates, union=True)
        miss = chance / (1 + exp_bounds(epsilon, 128)[1])
        margin = margin_for(made.rate, made.candidates, miss, made.largest)
    if share:
        scale = made.largest * (root_up(k / (2 * share * rho)) if rho else k / (share * epsilon))
    if scale > LARGEST_SCALE or (margin or 0) >= LARGEST_MARGIN:
        raise BudgetError("the noise would exceed 64 bits. Give a larger epsilon or a smaller k")
    law = (Gaussian(sigma=scale) if rho else DiscreteLaplace(scale=scale)) if scale else None
    return Plan(top, epsilon, delta, replace(made, law=law, margin=margin))
