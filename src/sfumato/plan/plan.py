"""The plan of a release, decided before a row is read; its description, and the certificate of that.

Nothing is charged, read or drawn without a certificate: `payment` requires it, and so does each object that
draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Protocol, overload

from sfumato.budget import Loss
from sfumato.budget.epsilon_delta import ExactCost
from sfumato.budget.loss import certify_loss
from sfumato.certificate import Certificate
from sfumato.dataclass import dataclass
from sfumato.display.cards import Card, Displayed, Sentences
from sfumato.display.formatting import price, visible
from sfumato.framework import (
    CentredDistance,
    KNormDistance,
    LevelsDistance,
    Norm,
    RowsDomain,
    TimeStepsDistance,
    Transformation,
)
from sfumato.measurements.group_selection import GroupSelection
from sfumato.measurements.independent_noise import Law, NoiseKind
from sfumato.noise import Words
from sfumato.plan.explanation import Explanation, plan_content
from sfumato.plan.group_measurement import GroupMeasurement
from sfumato.plan.noise_error import Errors, expected_errors
from sfumato.plan.quantile_candidates import replace_margins
from sfumato.plan.required_statistics import Requirements
from sfumato.plan.serialization import DetachedDiagnostics
from sfumato.query.engine_protocol import ExactQuery
from sfumato.query.error_bars import Bias
from sfumato.query.inferred_parameters import Found
from sfumato.query.option_names import noise_title
from sfumato.query.query import Query
from sfumato.transformations import (
    Statistic,
    bound_groups,
    bound_total_rows,
    per_group,
    scale_groups,
    share_groups,
)

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from sfumato.api.largest_groups import Top, TopExplanation
    from sfumato.plan.top_measurement import TopMeasurement

    QueryLike = TypeVar("QueryLike", bound=Query | Top, default=Query)
    Measured = TypeVar("Measured", bound=GroupMeasurement | TopMeasurement, default=GroupMeasurement)
else:
    from typing import TypeVar

    QueryLike, Measured = TypeVar("QueryLike"), TypeVar("Measured")


VERSION = 1  # of descriptions
_CERTIFICATE = "_certificate"  # the attribute in which a plan keeps its certificate; pickles leave it out


class PlannedDiagnostics(Protocol):
    """The diagnostics that a plan includes: noisy queries on the same rows, with their own cost."""

    @property
    def epsilon(self) -> Fraction:
        """The epsilon that the planned diagnostics cost."""
        ...

    @property
    def delta(self) -> Fraction:
        """The delta that the planned diagnostics cost."""
        ...

    @property
    def loss(self) -> Loss:
        """The privacy loss of the planned diagnostics, for a budget."""
        ...

    @property
    def drawn_parts(self) -> tuple[dict[str, Any], ...]:
        """The descriptions of what the planned diagnostics draw."""
        ...

    def release(self, words: Words | None = None) -> Any:
        """Return the planned diagnostics, not yet drawn."""
        ...

    def content(self) -> dict[str, Any]:
        """Return the cost and subject of the planned diagnostics, as plain data."""
        ...


@dataclass(frozen=True, repr=False)
class Plan(Displayed, Generic[QueryLike, Measured]):
    """The plan of a release: query, budget and mechanism, decided before a row is read.

    `Question.plan` and `Top.plan` return it. A plan for the largest groups has no `requirements` and none of
    the properties that depend on them.

    Args:
        query: the query.
        epsilon, delta: the exact budget.
        measurement: the mechanism, with its privacy map.
        multiplier: the noise multiplier for the budget; 1 for the largest groups.
        errors: expected errors of the outputs that do not follow from a single standard deviation.
        noise_notes: notes on the noise.
        others: other kinds of noise, with approximate errors relative to this one.
        diagnostics: the diagnostics of limits and bounds, at an additional cost; or None.
        found: inferred limits and bounds; their preliminary queries have an additional cost.
        sampling: whether error bars cover the sampling error too.
    """

    query: QueryLike
    epsilon: Fraction
    delta: Fraction
    measurement: Measured
    multiplier: Fraction = Fraction(1)
    errors: Errors | None = field(default=None, kw_only=True)
    noise_notes: tuple[str, ...] = field(default=(), kw_only=True)
    others: tuple[tuple[str, float], ...] = field(default=(), kw_only=True)
    diagnostics: PlannedDiagnostics | None = field(default=None, kw_only=True)
    found: tuple[Found, ...] = field(default=(), kw_only=True)
    sampling: bool = field(default=False, kw_only=True)

    @property
    def loss(self) -> Loss:
        """The privacy loss of the plan, within the budget: the measurement's map at one unit."""
        return self.measurement.loss

    @property
    def requirements(self: Plan) -> Requirements:
        """The statistics that the plan computes, and the estimates made from them."""
        return self.measurement.requirements

    @property
    def noise(self) -> NoiseKind:
        """The kind of noise of the plan."""
        return self.measurement.kind

    @property
    def selection(self: Plan) -> GroupSelection | None:
        """The private group selection of the plan, or None."""
        return self.measurement.selection

    @property
    def laws(self) -> Mapping[str, Law]:
        """The distribution of the noise on each coordinate, in grid steps."""
        return self.measurement.laws

    @property
    def scales(self: Plan) -> Mapping[str, Fraction]:
        """The noise scale of each coordinate, in grid steps."""
        return self.measurement.scales

    @cached_property
    def spent(self) -> ExactCost:
        """The total (epsilon, delta) of the plan, including preliminary queries and diagnostics."""
        epsilon = self.epsilon + sum((found.epsilon for found in self.found), Fraction(0))
        if (beside := self.diagnostics) is None:
            return ExactCost(epsilon, self.delta)
        return ExactCost(epsilon + beside.epsilon, self.delta + beside.delta)

    @cached_property
    def charge(self) -> Loss:
        """The charge of the plan to a budget, including preliminary queries and diagnostics."""
        own = self.measurement.charge(self.epsilon, self.delta)
        if not self.found and self.diagnostics is None:
            return own
        looks = tuple((found.epsilon, Fraction(0), 1) for found in self.found if found.epsilon)
        beside = Loss() if self.diagnostics is None else self.diagnostics.loss
        return own + Loss(approximate=looks) + beside

    @property
    def unit(self) -> str:
        """The privacy unit of the plan."""
        return self.query.unit

    @property
    def drawn_parts(self) -> tuple[dict[str, Any], ...]:
        """The descriptions of everything the plan draws: preliminary queries, release, diagnostics."""
        before = [part for found in self.found for part in found.drawn_parts]
        beside = () if self.diagnostics is None else self.diagnostics.drawn_parts
        return (*before, self.description, *beside)

    @property
    def steps(self: Plan) -> Mapping[str, Fraction]:
        """The grid step of each coordinate, in the coordinate's own unit."""
        return self.measurement.steps

    @property
    def statistics(self: Plan) -> tuple[Statistic, ...]:
        """The statistics that the plan counts from rows, with the values of quantile candidates."""
        return replace_margins(self.requirements.statistics, self.measurement.choices)

    @cached_property
    def exact(self) -> ExactQuery:
        """The exact part of the plan, which the engine computes."""
        return self.query._exact(self.measurement.statistics)

    @property
    def metric(self: Plan) -> CentredDistance | KNormDistance | LevelsDistance | TimeStepsDistance | None:
        """The metric of the plan's joint noise, or None for independent noise."""
        return self.measurement.metric(self.multiplier, self.query)

    @property
    def exact_chain(self: Plan) -> Transformation:
        """The transformation from rows to exact statistics that engines must compute."""
        query, statistics = self.query, self.statistics
        columns = sorted({c for s in statistics for c in s.columns})
        rows = RowsDomain(tuple((name, query.schema[name].values) for name in columns))
        # The noise does not see what is counted where numbers are made of it first.
        together = self.metric if statistics == self.requirements.statistics else None
        limits: Any = {"groups": query.groups, "scaled": query.scaled, "total": query.total_rows}
        if query.shared:
            limits = {"norm": Norm.L2, "scales": self.measurement.noise.scales, "shared": True}
            return make_bounding(query, rows) >> per_group(statistics, groups=query.groups, **limits)
        return make_bounding(query, rows) >> per_group(statistics, together=together, **limits)

    @property
    def description(self) -> dict[str, Any]:
        """The description of the noise drawn, as the certificate reads it."""
        claim = {"epsilon": str(self.epsilon), "delta": str(self.delta)}
        return claim | self.measurement.description(self.exact)

    @property
    def _content(self: Plan) -> dict[str, Any]:
        """What the plan decides, as plain data that its explanation and its canonical form share."""
        query, rule = self.query, self.selection
        selection = None
        if rule is not None:
            kind = rule.description["kind"]
            name = f"{self.noise.name}_{kind}" if kind == "threshold" else kind
            selection = {"rule": name, "pre_threshold": rule.pre_threshold}
        return {
            "weights": {name: str(query.weight(name)) for name, _ in query.aggregates if query.weighed},
            "budget": {"epsilon": str(self.epsilon), "delta": str(self.delta)},
            "noise": self.noise.name,
            "selection": selection,
            "diagnostics": None if self.diagnostics is None else self.diagnostics.content(),
            "found": [one.content for one in self.found],
        }

    @property
    def deviations(self: Plan) -> dict[str, float]:
        """The standard deviation of the noise on each number; for chosen quantiles, in rows."""
        steps, laws = self.steps, self.measurement.laws
        found = {n: float(law.standard_deviation) * float(steps[n]) for n, law in laws.items()}
        return found | {c.leaves.names[0]: c.deviation for c in self.measurement.choices}

    @cached_property
    def expected(self: Plan) -> Errors:
        """The approximate expected error of each output (see `expected_errors`)."""
        if self.errors is not None:
            return self.errors
        return expected_errors(self.requirements.estimates, self.deviations, self.selection)

    @cached_property
    def bias(self) -> Bias:
        """The bias that limits and bounds can cause under this plan, which error bars do not include."""
        return replace(self.query.bias, estimated=self.diagnostics is not None)

    @property
    def notes(self: Plan[Any, Any]) -> tuple[str, ...]:
        """The notes of the plan: cautions, and expected errors with other kinds of noise."""
        return tuple(self.explain().to_dict()["notes"])

    def __getstate__(self) -> dict[str, Any]:
        """Return the plan for another process: without engines, and with the cost of diagnostics."""
        one, state = self.diagnostics, dict(self.__dict__)
        state.pop(_CERTIFICATE, None)
        if not isinstance(self.query, Query):
            state["query"] = self.query._detach()
        if one is not None:
            state["diagnostics"] = DetachedDiagnostics(
                one.epsilon, one.delta, one.loss, one.content(), one.drawn_parts
            )
        return state

    def _card(self: Plan[Any, Any]) -> Card:
        title = f"Plan: {self.query.title}; it would cost {price(*self.spent)}"
        return Card(
            title, [Sentences(["Nothing was read or charged for this."]), *self.explain()._card().parts]
        )

    def __repr__(self) -> str:
        noise = f", {noise_title(self.noise.name)} noise" if self.laws else ""
        return visible(f"<Plan: {self.query.title}; {price(*self.spent)}{noise}>")

    @overload
    def explain(self: Plan) -> Explanation: ...
    @overload
    def explain(self: Plan[Top, TopMeasurement]) -> TopExplanation: ...
    def explain(self: Plan[Any, Any]) -> Any:
        """Return the explanation of the plan: each step with its bounds, noise scale and budget share.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2]}), privacy_unit="id").bound(rows=2).agg(n=sf.count())
        >>> print(visits.plan(epsilon=1).explain())
        1. Read with DuckDB; drop rows without id, the privacy unit.
        2. Let each id count as at most 2 rows in all.
        3. Add discrete Laplace noise to these numbers. Together they cost at most epsilon 1 and ...
             rows; noise σ 2.799; 100.0% of the budget; for n
        4. Compute the outputs from the noisy numbers alone, at no further charge.
        ...
        """
        if isinstance(self.query, Query):
            return Explanation(plan_content(self))
        return self.query._explanation(self)


def make_bounding(query: Query, rows: RowsDomain) -> Transformation:
    """Return the contribution bounding of a query as a transformation of a plan."""
    if query.total_rows is not None:
        keys = None if query.private_groups else query.public_groups
        return bound_total_rows(query.total_rows, keys, domain=rows)
    if query.shared:
        return share_groups(query.groups, domain=rows)
    if query.scaled:
        return scale_groups(query.groups, query.public_groups, rows)
    return bound_groups(query.groups, domain=rows)


class Described(Protocol):
    """Something with a plan description: a plan, or its diagnostics."""

    @property
    def spent(self) -> ExactCost:
        """The (epsilon, delta) that the description claims, with preliminary queries and diagnostics."""
        ...

    @property
    def charge(self) -> Loss:
        """What a budget pays for what is described."""
        ...

    @property
    def unit(self) -> str:
        """The privacy unit of the description."""
        ...

    @property
    def drawn_parts(self) -> Sequence[dict[str, Any]]:
        """The description of each part, in the order in which they are drawn."""
        ...


class Claim:
    """A claimed (epsilon, delta) for described parts of which later ones depend on earlier results.

    Args:
        spent: the (epsilon, delta) of all parts together, fixed before the first one is drawn.
        planned: plans of the parts, with placeholders for what earlier parts will find.
    """

    def __init__(self, spent: ExactCost, planned: Sequence[Described]) -> None:
        self.spent = spent
        self.unit = _units(planned)
        self.drawn_parts = _parts(planned)
        self._drawn: list[dict[str, Any]] = []

    @property
    def charge(self) -> Loss:
        """What a budget pays for all described parts of the claim."""
        return Loss(approximate=((*self.spent, 1),))

    def take(self, plans: Sequence[Described]) -> None:
        """Certify that everything drawn so far, together with these plans, stays within the claim.

        Args:
            plans: of the next part.
        Raises:
            RefusalError: it does not.
        """
        parts = [*self._drawn, *_parts(plans)]
        certify_loss(_describe_plans(self.unit, self.spent, parts))
        self._drawn = parts


def describe(plans: Sequence[Described]) -> dict[str, Any]:
    """Return the description of plans that are paid together, in the form that the certificate reads.

    Args:
        plans: the plans; their preliminary queries and diagnostics are described too.

    >>> import pyarrow as pa, sfumato as sf
    >>> visits = sf.scan(pa.table({"id": [1, 1, 2]}), privacy_unit="id").bound(rows=2).agg(n=sf.count())
    >>> described = describe([visits.plan(epsilon="1/2")])
    >>> described["epsilon"], described["parts"][0]["noise"]
    ('1/2', {'shape': 'independent', 'law': 'discrete_laplace', 'scales': {'rows': '4'}})
    """
    return _describe_plans(_units(plans), sum_costs(plans), _parts(plans))


def sum_costs(plans: Sequence[Described]) -> ExactCost:
    """Return the (epsilon, delta) that the descriptions of plans claim together.

    Args:
        plans: see `describe`.
    """
    spent = [plan.spent for plan in plans]
    return ExactCost(sum((e for e, _ in spent), Fraction(0)), sum((d for _, d in spent), Fraction(0)))


def certify_plans(plans: Sequence[Described]) -> Certificate:
    """Return the certificate of the description of plans, within what they claim and are charged for.

    Args:
        plans: see `describe`.
    Raises:
        RefusalError: the plans may lose more, or something is unknown. The caller must not charge or draw.

    >>> import pyarrow as pa, sfumato as sf
    >>> visits = sf.scan(pa.table({"id": [1, 1, 2]}), privacy_unit="id").bound(rows=2).agg(n=sf.count())
    >>> certify_plans([visits.plan(epsilon="1/2")]).pure
    Fraction(1, 2)
    """
    if len(plans) > 1:
        for plan in plans:
            certify_plans([plan])
        return certify_loss(describe(plans))
    (plan,) = plans
    known = vars(plan)  # a plan does not change, and of its copies by `replace` none has this
    if _CERTIFICATE not in known:
        known[_CERTIFICATE] = certify_loss(describe(plans), plan.charge)
    found: Certificate = known[_CERTIFICATE]
    return found


def _describe_plans(unit: str, spent: ExactCost, parts: list[dict[str, Any]]) -> dict[str, Any]:
    epsilon, delta = map(str, spent)
    head = {"version": VERSION, "unit": unit, "neighbours": "one_unit"}
    return {**head, "epsilon": epsilon, "delta": delta, "parts": parts}


def _units(plans: Sequence[Described]) -> str:
    return ", ".join(dict.fromkeys(plan.unit for plan in plans))


def _parts(plans: Sequence[Described]) -> list[dict[str, Any]]:
    return [part for plan in plans for part in plan.drawn_parts]
