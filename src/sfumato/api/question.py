"""The question of the API: aggregates of a table, to plan, preview, analyze and release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sfumato.budget import Budget
from sfumato.budget.epsilon_delta import admissible_delta, admissible_epsilon
from sfumato.dataclass import dataclass
from sfumato.display.cards import Card, Displayed
from sfumato.display.formatting import visible
from sfumato.display.progress import find_progress, notebook_bar
from sfumato.errors import BudgetError, ParameterError, QueryError
from sfumato.exact import Number, truth_value
from sfumato.guidance.diagnosis_plan import diagnosis, read_share
from sfumato.guidance.diagnostics import Diagnostics
from sfumato.guidance.preliminary_queries import (
    AUTO_SHARE,
    AUTO_SHARE_OF_LIMITS,
    AutomaticQuery,
    budget_from_epsilon,
    budget_from_share,
    check_complete,
)
from sfumato.names import SuggestingArguments, foreign_names
from sfumato.noise import Words
from sfumato.plan.budget_shares import Share
from sfumato.plan.plan import Claim, Plan
from sfumato.plan.planning import make_plan
from sfumato.query.aggregates import Aggregate, Automatic, Sum, Weighted
from sfumato.query.engine_protocol import Engine
from sfumato.query.option_names import Amount, NoiseChoice, SelectionChoice
from sfumato.query.query import Query
from sfumato.query.schema import FLOATS
from sfumato.query.table_display import question_card
from sfumato.release.canonical_form import canonical
from sfumato.release.payment import Charge, ChargeBudget, log_planned, payment, question_key, without_log

if TYPE_CHECKING:
    from sfumato.api.table import Table
    from sfumato.guidance.non_private_analysis import NonPrivateAnalysis
    from sfumato.guidance.preview import Preview

Released = TypeVar("Released")


_NO_EPSILON = "epsilon is missing. Pass a finite number greater than 0, or share= of a budget="


@dataclass(frozen=True, repr=False)
class Question(SuggestingArguments, Displayed, Generic[Released]):
    """A complete, validated query of a table, ready to plan and release.

    Attributes:
        table: the table, with its groups and limits.
        aggregates: the aggregates, by the names of their outputs.
    """

    _foreign = foreign_names.QUESTION

    table: Table[Released]
    aggregates: tuple[tuple[str, Aggregate], ...]
    _weights: tuple[tuple[str, Number], ...] = ()

    def __post_init__(self) -> None:
        self.query  # noqa: B018  checks what is asked

    @cached_property
    def query(self) -> Query:
        """The query as plain data, with placeholders for bounds that a release infers."""
        table, unit = self.table, self.table.schema[self.table.unit]
        # Rows without a unit are dropped.
        missing = unit.missing and unit.type_name in FLOATS
        return Query(
            table._engine.name,
            table.schema | {table.unit: replace(unit, missing=missing)},
            table.unit,
            table._steps,
            table.keys,
            table._public_keys,
            table.groups,
            table.rows,
            tuple((name, aggregate.placeholder) for name, aggregate in self.aggregates),
            table._all_notes,
            self._weights,
            table._beyond,
            table.total_rows,
            grouping=table._grouping,
            shared=table._shared,
        )

    @property
    def _engine(self) -> Engine[Released]:
        """The engine of the question's table."""
        return self.table._engine

    @property
    def title(self) -> str:
        """A short summary of the query."""
        return self.query.title

    @property
    def automatic(self) -> bool:
        """Whether the release infers bounds or limits of this query."""
        bounds = any(isinstance(asked, Automatic) for _, asked in self.aggregates)
        return bounds or bool(self.table._auto_limits)

    def weigh(self, /, **weights: Number) -> Question[Released]:
        """Return the question with weights for its aggregates; the planner reduces heavier errors more.

        Args:
            weights: by name of an aggregate in `agg`, from 1/1000 to 1000; the default is 1.
        Returns:
            The question with these weights. The planner minimizes the weighted mean of the logarithms of the
            expected errors (docs/accuracy.md). Privacy and cost stay the same.
        Raises:
            QueryError: no aggregate has this name.
            ParameterError: a weight is out of range.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2], "minutes": [30, 45, 200]}), privacy_unit="id")
        >>> minutes = sf.sum("minutes", lower=0, upper=120)
        >>> question = visits.bound(rows=1).agg(n=sf.count(), minutes=minutes)
        >>> for one in (question, question.weigh(n=4)):
        ...     print({name: round(of) for name, of in one.plan(epsilon=1, noise="laplace").expected.items()})
        {'n': 3, 'minutes': 239}
        {'n': 2, 'minutes': 437}
        """
        return replace(self, _weights=tuple((dict(self._weights) | weights).items()))

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of the output columns after the keys."""
        return self.query.output_names

    def plan(
        self,
        *,
        epsilon: Amount,
        delta: Amount = 0,
        noise: NoiseChoice = "auto",
        group_selection: SelectionChoice = "auto",
        pre_threshold: int = 1,
        diagnostics: Number | None = None,
        auto_share: Amount | None = None,
        sampling: bool = False,
        nonnegative: bool = False,
    ) -> Plan:
        """Return the plan of the question: what a release would do and cost. It reads no row.

        The options are those of `release`.

        Args:
            epsilon, delta, noise, group_selection, pre_threshold, diagnostics: as for `release`.
            auto_share, sampling, nonnegative: as for `release`.
        Returns:
            A `Plan`, with its cost (`spent`), its noise, and `explain()`.
        Raises:
            QueryError: bounds or limits are "auto", so only a release can infer them.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2]}), privacy_unit="id").bound(rows=2)
        >>> plan = visits.agg(n=sf.count()).plan(epsilon=1)
        >>> plan.noise.name, {name: round(of, 1) for name, of in plan.deviations.items()}
        ('laplace', {'rows': 2.8})
        """
        self._check_nothing_left("plan")
        return self._check_plan(
            epsilon=epsilon,
            diagnostics=diagnostics,
            sampling=sampling,
            nonnegative=nonnegative,
            delta=delta,
            noise=noise,
            group_selection=group_selection,
            pre_threshold=pre_threshold,
        )

    def _check_plan(
        self,
        *,
        epsilon: Amount,
        diagnostics: Number | None = None,
        auto_share: Amount | None = None,
        sampling: bool = False,
        nonnegative: bool = False,
        **options: Any,
    ) -> Plan:
        """Return the plan of the question, with placeholders for "auto", to check its options."""
        beside = Fraction(0)
        if diagnostics is not None:
            whole = admissible_epsilon(epsilon)
            beside = read_share(whole, diagnostics)
            epsilon = whole - beside
        plan = make_plan(self.query, epsilon=epsilon, **options)
        return self._plan_with_diagnostics(plan, beside, sampling, nonnegative)

    def diagnose(
        self, *, epsilon: Amount, budget: Budget | None = None, unsafe_words: Words | None = None
    ) -> Diagnostics:
        """Estimate how much limits and bounds change the answer, with noise, without releasing the answer.

        Args:
            epsilon: the cost, in addition to that of any release.
            budget: the `sfumato.Budget` to charge.
            unsafe_words: on DuckDB, a source of random words for tests; the result is not private.
        Returns:
            A `Diagnostics`, computed on first access: for each limit, the share of rows and of units over it,
            and a limit that is enough for nearly all; for each bound, the share of values beyond it.
        Raises:
            QueryError, BudgetError: before anything is read, spent or drawn.
        Source:
            docs/choosing.md.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2], "town": ["A", "B", "A"]}), privacy_unit="id")
        >>> question = visits.group_by("town").bound(groups=1, rows=1).agg(n=sf.count())
        >>> question.diagnose(epsilon=1).to_arrow()["limit"].to_pylist()
        ['groups=1', 'groups=1', 'rows=1', 'rows=1']
        """
        self._check_nothing_left("diagnose")
        # What is counted, and so what bounds clamp, is of the question; no group is chosen.
        delta = Fraction(1, 10**6) if self.query.private_groups else 0
        plan = make_plan(self.query, epsilon=epsilon, delta=delta)
        told = diagnosis(self.table, plan, admissible_epsilon(epsilon))
        self.table._engine.check_release(plan, unsafe_words)
        made = told.release(unsafe_words)
        what, engine = f"diagnostics of {self.query.title}", self.table._engine

        def form() -> dict[str, Any]:
            return canonical(plan, engine) | {"asks": "diagnostics"}

        made.paid = payment(budget, [told], what, form=form, made_up=engine.made_up)()
        return made

    def preview(
        self,
        *,
        epsilon: Amount | Sequence[Amount] | None = None,
        units: int | Sequence[int] = (100, 1_000, 10_000),
        rows: int = 1,
        confidence: float = 0.95,
        means: Mapping[str, Number] | None = None,
        share: Number | None = None,
        budget: Budget | None = None,
        **options: Any,
    ) -> Preview:
        """Return the expected error bars and the chance that groups are shown, without reading a row.

        Args:
            epsilon: one budget or several to compare; leave it out with `share`.
            units: the number of privacy units in a group, or several to compare; at most 1,000,000 rows each.
            rows: the number of rows of each unit in the group.
            confidence: the confidence of the error bars, in (0, 1).
            means: the approximate mean of a column's values, by column name. A mean near one of its bounds
                has more noise; the default is the middle.
            share, budget: what a release would spend, as for `release`; the preview spends nothing.
            options: `delta` and other options of `release`.
        Returns:
            A `Preview`. For each budget and group size it has the chance that such a group is shown. For each
            output it has the distance from the exact number that the part `confidence` of releases keep, and,
            as `<output>_error`, the error bar that a release shows. It simulates groups whose values spread
            evenly between the bounds.
        Raises:
            ParameterError, QueryError, BudgetError: as for `release`, or a size is out of range.
        Source:
            docs/choosing.md.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 2], "town": ["A", "B"]}), privacy_unit="id")
        >>> question = visits.group_by("town").bound(groups=1, rows=1).agg(n=sf.count())
        >>> question.preview(epsilon=1, delta="1e-6", units=[10, 100]).to_arrow().column_names
        ['epsilon', 'units', 'shown', 'n', 'n_error']
        >>> year = sf.Budget(epsilon=3, delta="1e-6")
        >>> len(question.preview(share="1/12", budget=year, units=100).to_arrow()), year.remaining.share
        (1, 1.0)
        """
        from sfumato.guidance.preview import list_plans, make_preview

        self._check_nothing_left("preview")
        if share is not None:
            if epsilon is not None or admissible_delta(options.pop("delta", 0)):
                raise ParameterError("share", share, "left out when epsilon and delta are given")
            plans = [Share.from_budget(budget, share).best(self.query, options)[0]]
        elif epsilon is None:
            raise BudgetError(_NO_EPSILON)
        else:
            plans = list_plans(self.query, epsilon, options)
        return make_preview(self.query, self.table._engine, plans, units, rows, confidence, means)

    def analyze(
        self,
        *,
        epsilon: Amount,
        delta: Amount = 0,
        groups: int | Sequence[int] | None = None,
        rows: int | Sequence[int] | None = None,
        total_rows: int | Sequence[int] | None = None,
        bounds: Mapping[str, Sequence[tuple[Number, Number]]] | None = None,
        **options: Any,
    ) -> NonPrivateAnalysis:
        """Return exact errors from limits, bounds and noise, for the owner of the rows. NOT PRIVATE.

        Args:
            epsilon, delta: the privacy budget of the release to analyze.
            groups, rows, total_rows: limits to compare, in all combinations; the default is the question's
                own.
            bounds: pairs of a lower and an upper bound to compare, by output name.
            options: other options of `release`.
        Returns:
            A `NonPrivateAnalysis`. For each group, output and combination it has the expected bias, the
            standard deviations from the random choice of groups and from noise, and the chance that the group
            is shown. Over all groups it has the root mean square error. It reads the rows once for all
            combinations.
        Raises:
            ParameterError, QueryError, BudgetError: as for `release`; or limits, bounds or an aggregate
                cannot be analyzed. No row has been read then.
            RefusalError: the table was opened for analysts.
        Source:
            docs/choosing.md, "Utility analysis for the owner".

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2], "town": ["A", "B", "A"]}), privacy_unit="id")
        >>> question = visits.group_by("town", keys=["A", "B"]).bound(groups=1, rows=1).agg(n=sf.count())
        >>> analysis = question.analyze(epsilon=1, groups=[1, 2])
        >>> analysis
        NonPrivateAnalysis(2 limits, 2 groups: exact numbers of rows, for their owner only)
        >>> analysis.to_arrow(by_group=True)["bias"].to_pylist()
        [-0.5, -0.5, 0.0, 0.0]
        """
        self._check_nothing_left("analyze")
        if self.query.shared:
            raise QueryError("analyze: bound(groups='shared') has no numbers to analyze; write preview")
        given = {"epsilon": epsilon, "delta": delta, **options}
        from sfumato.guidance.analysis import analysed

        with notebook_bar("Reading rows, comparing limits", find_progress(self.table._engine)):
            return analysed(self.query, self.table._engine, groups, rows, total_rows, bounds, given)

    def epsilon_for(
        self, *, units: int, rows: int = 1, confidence: float = 0.95, shown: float | None = None,
        means: Mapping[str, Number] | None = None, options: Mapping[str, Any] | None = None,
        **half_widths: Number,
    ) -> float:  # fmt: skip
        """Return approximately the smallest epsilon that makes the question's error bars narrow enough.

        Args:
            units, rows, confidence, means: as for `preview`.
            shown: also require at least this chance that such a group is shown, for privately chosen groups.
            options: options of `release`, such as {"delta": 1e-6}.
            half_widths: by output name, the largest acceptable half-width of its error bar.
        Returns:
            The epsilon.
        Raises:
            QueryError: an output does not exist, or no epsilon up to 100 is enough; the text says what 100
                gives.
        Source:
            docs/choosing.md.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 2]}), privacy_unit="id").bound(rows=1).agg(n=sf.count())
        >>> round(visits.epsilon_for(n=10, units=1_000), 1)
        0.3
        """
        self._check_nothing_left("epsilon_for")
        from sfumato.guidance.preview import smallest_epsilon

        return smallest_epsilon(
            self.query, self.table._engine, half_widths, units, rows, confidence, shown, options or {}, means
        )

    def release(
        self,
        *,
        epsilon: Amount | None = None,
        delta: Amount = 0,
        noise: NoiseChoice = "auto",
        group_selection: SelectionChoice = "auto",
        pre_threshold: int = 1,
        diagnostics: Number | None = None,
        auto_share: Amount | None = None,
        confidence: float | None = None,
        sampling: bool = False,
        nonnegative: bool = False,
        budget: Budget | None = None,
        share: Number | None = None,
        unsafe_words: Words | None = None,
    ) -> Released:
        """Release the answer to the question: noisy numbers that are safe to publish.

        Args:
            epsilon: the privacy budget, greater than 0. A float means the number as written: 0.1 is exactly
                one tenth. Leave it out with `share`.
            delta: in [0, 1); private groups need more than 0.
            noise: "laplace", "gaussian", "k_norm" (docs/query.md), or "auto" for the one with the smallest
                expected errors.
            group_selection: "auto" (keeps the most groups), "truncated_geometric", "laplace" or "gaussian".
            pre_threshold: never show private groups with fewer units than this.
            diagnostics: a share of the budget, such as 0.05, with which `release.diagnostics` estimates how
                much limits and bounds change the answer. The answer has the rest of the budget.
            auto_share: the largest share of epsilon, from 0.001 to 0.9, for inferring bounds and limits that
                are "auto". The answer has what remains. The default is 0.3, or 0.1 for limits alone.
            confidence: also add error bars of this confidence, in columns named `<output>_error`.
            sampling: by default let the release's error bars cover a large population of which the units are
                a random sample, as in `Release.errors`. It has no privacy cost.
            nonnegative: show counts below 0 as 0, and sums too if their lower bound is at least 0. Error bars
                keep their confidence, but averages and totals of such numbers are too large.
            budget: the `sfumato.Budget` to charge.
            share: the share of the budget to spend, such as 1/20, in place of epsilon and delta. The noise is
                the smallest at this cost, and `auto_share` is part of it.
            unsafe_words: on DuckDB, a source of random words for tests; the result is not private.
        Returns:
            A Release; its noise is drawn once, on first access. Bounds and limits that are "auto" are
            inferred here and reported in `found`. For a Spark data frame the release is computed here, once
            (docs/spark.md); for an Arrow schema it is a Beam transform.
        Raises:
            QueryError, BudgetError: before anything is read, spent or drawn.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": range(2_000), "town": ["A", "B"] * 1_000}), privacy_unit="id")
        >>> question = visits.group_by("town", keys=["A", "B"]).bound(groups=1, rows=1).agg(n=sf.count())
        >>> year = sf.Budget(epsilon=3)
        >>> release = question.release(epsilon=1, budget=year)
        >>> [round(n, -2) for n in release.to_arrow()["n"].to_pylist()], year.remaining.epsilon
        ([1000, 1000], 2.0)
        """
        options: dict[str, Any] = {"delta": delta, "noise": noise, "pre_threshold": pre_threshold}
        options["group_selection"] = group_selection
        drawing: dict[str, Any] = {"confidence": confidence, "unsafe_words": unsafe_words}
        table, looks = self.table, self._auto_share if auto_share is None else auto_share
        made_up = table._engine.made_up
        paid: list[Charge] = []  # by what pays before the first look
        form = partial(canonical, engine=table._engine)

        def pay(one: Plan) -> ChargeBudget:
            asked = partial(form, one)
            same = None if unsafe_words is not None else question_key(asked, [table._engine], [self.query])
            return payment(budget, [one], self.query.title, form=asked, same=same, made_up=made_up)

        if share is not None:
            if epsilon is not None or admissible_delta(delta) or diagnostics is not None:
                raise ParameterError("share", share, "left out when epsilon, delta and diagnostics are given")
            del options["delta"]
        elif epsilon is None:
            raise BudgetError(_NO_EPSILON)
        if not self.automatic:
            if share is not None:
                plan, _ = Share.from_budget(budget, share).best(self.query, options)
                plan = self._plan_with_diagnostics(plan, Fraction(0), sampling, nonnegative)
            else:
                assert epsilon is not None
                options |= {"sampling": sampling, "nonnegative": nonnegative}
                plan = self._check_plan(epsilon=epsilon, diagnostics=diagnostics, **options)
            log_planned(self._engine.name, len(self.aggregates), epsilon=plan.epsilon, delta=plan.delta)
            return table._engine.release(plan, **drawing, pay=pay(plan))

        beside, cost = Fraction(0), {"share": share}
        if share is not None:
            means = budget_from_share(self.query, budget, share, looks, options, paid, form, made_up=made_up)
        else:
            whole = admissible_epsilon(epsilon)
            beside = Fraction(0) if diagnostics is None else read_share(whole, diagnostics)
            cost = {"epsilon": whole, "delta": admissible_delta(delta)}

            def pay_all(claim: Claim) -> None:
                paid.extend(payment(budget, [claim], self.query.title, made_up=made_up)())

            means = budget_from_epsilon(whole, beside, looks, options, pay_all)
        check = partial(
            self._plan_with_diagnostics, beside=beside, sampling=sampling, nonnegative=nonnegative
        )
        log_planned(self._engine.name, len(self.aggregates), **cost)
        with without_log():
            plan = AutomaticQuery(table, self.query, self.aggregates).plan(means, check=check, **drawing)
        return table._engine.release(plan, **drawing, pay=lambda: tuple(paid))

    def _card(self) -> Card:
        return question_card(self)

    def __repr__(self) -> str:
        return visible(f"<Question: {self.title}>")

    def _check_nothing_left(self, what: str) -> None:
        check_complete(self.aggregates, self.table._auto_limits, what)

    @property
    def _auto_share(self) -> Fraction:
        bounds = any(isinstance(a, Automatic) for _, a in self.aggregates)
        return AUTO_SHARE if bounds else AUTO_SHARE_OF_LIMITS

    def _plan_with_diagnostics(self, plan: Plan, beside: Fraction, sampling: bool, nonnegative: bool) -> Plan:
        """Return the question's plan with diagnostics, if they cost anything, and options of its outputs."""
        if truth_value(nonnegative, "nonnegative"):
            plan = _clamp_at_zero(plan)
        if truth_value(sampling, "sampling"):
            from sfumato.release.sampling_error import Sampled  # SciPy's laws take long to import

            plan = Sampled(replace(plan, sampling=True)).plan  # which refuses where no output has such bars
        return replace(plan, diagnostics=diagnosis(self.table, plan, beside)) if beside else plan


def _clamp_at_zero(plan: Plan) -> Plan:
    """Return a plan whose counts, and sums of numbers that are not negative, are shown as 0 where below.

    Raises:
        QueryError: no output is one.
    """
    asked = {name: a.aggregate if isinstance(a, Weighted) else a for name, a in plan.query.aggregates}
    signed = {name for name, a in asked.items() if isinstance(a, Sum) and a.lower < 0}
    estimates = [
        replace(e, nonnegative=e.kind in ("count", "sum") and e.name not in signed)
        for e in plan.requirements.estimates
    ]
    names = [e.name for e in estimates if e.nonnegative]
    if not names:
        raise QueryError(
            "nonnegative: no output is a count, or a sum whose lower bound is at least 0. Leave it out"
        )
    note = (
        f"{', '.join(names)}: negative numbers are shown as 0, so averages and totals of these are too large."
    )
    requirements = replace(plan.requirements, estimates=tuple(estimates))
    drawn = replace(plan.measurement, requirements=requirements)
    return replace(plan, measurement=drawn, noise_notes=(*plan.noise_notes, note))
