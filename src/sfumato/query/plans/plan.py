"""What a release does, and its loss: decided from the question alone, before a row is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol

from sfumato.budget import Loss
from sfumato.budget.cost import ExactCost
from sfumato.dataclass import dataclass
from sfumato.display.card import Card
from sfumato.display.displayed import Displayed
from sfumato.display.text import visible
from sfumato.framework import (
    CentredDistance,
    ContributionDistance,
    KNormDistance,
    LevelsDistance,
    Measurement,
    RowsDomain,
    TimeStepsDistance,
    Transformation,
)
from sfumato.measurements.noise import Law, NoiseKind
from sfumato.measurements.selection import GroupSelection
from sfumato.noise import Words
from sfumato.query.bars import Bias
from sfumato.query.cards.planned import plan_card, price
from sfumato.query.cautions import cautions
from sfumato.query.choices import titled
from sfumato.query.exact import ExactQuery
from sfumato.query.explanation import (
    Explanation,
    found_content,
    numbers_content,
    question_content,
    selection_content,
)
from sfumato.query.found import Found
from sfumato.query.noisy.noising import Noising
from sfumato.query.passed_on import ToldBeside
from sfumato.query.plans.expected import Errors, expected_errors
from sfumato.query.query import Query
from sfumato.query.requirements import Requirements
from sfumato.transformations import (
    CountUnits,
    Statistic,
    bound_groups,
    bound_total_rows,
    per_group,
    scale_groups,
)


class Beside(Protocol):
    """What is asked of the same rows beside a release."""

    @property
    def epsilon(self) -> Fraction:
        """What it costs."""
        ...

    @property
    def delta(self) -> Fraction:
        """What it costs."""
        ...

    @property
    def loss(self) -> Loss:
        """What it loses, for a budget."""
        ...

    def release(self, words: Words | None = None) -> Any:
        """Return what it gives, not yet drawn."""
        ...

    def content(self) -> dict[str, Any]:
        """Return what it costs and is of, as plain data."""
        ...


@dataclass(frozen=True, repr=False)
class Plan(Displayed):
    """What a release does, decided before a row is read.

    Made by `Question.plan`.

    Args:
        query: what is asked.
        epsilon, delta: the budget, exactly.
        noise: the kind of noise.
        requirements: statistics and how the outputs are made of them.
        multiplier: the noise multiplier that the budget buys.
        scales: noise scale of each coordinate, in grid steps.
        laws: the laws of the noise, by coordinate, in grid steps.
        selection: how private groups are chosen, or None.
        loss: what the whole release costs; within the budget.
        others: names of other noises, and how large the errors are of those with them, about.
        diagnostics: what is asked about its limits and bounds, at a cost of its own; or None.
        found: what noisy looks found before, which cost beside epsilon.
        sampling: whether error bars are to hold the sampling error too.
    """

    query: Query
    epsilon: Fraction
    delta: Fraction
    noise: NoiseKind
    requirements: Requirements
    multiplier: Fraction
    scales: Mapping[str, Fraction]
    laws: Mapping[str, Law]
    selection: GroupSelection | None
    loss: Loss
    others: tuple[tuple[str, float], ...] = field(default=(), kw_only=True)
    diagnostics: Beside | None = field(default=None, kw_only=True)
    found: tuple[Found, ...] = field(default=(), kw_only=True)
    sampling: bool = field(default=False, kw_only=True)

    @property
    def spent(self) -> ExactCost:
        """The budget (epsilon, delta) of all: basic composition, with looks before and what goes beside."""
        epsilon = self.epsilon + sum((found.epsilon for found in self.found), Fraction(0))
        if (beside := self.diagnostics) is None:
            return ExactCost(epsilon, self.delta)
        return ExactCost(epsilon + beside.epsilon, self.delta + beside.delta)

    @property
    def steps(self) -> dict[str, Fraction]:
        """The grid step of each coordinate, in its own unit."""
        return {c.name: c.step for c in self.requirements.coordinates}

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """What is counted of rows."""
        return self.requirements.statistics

    @property
    def exact(self) -> ExactQuery:
        """What the engine computes. Selection needs the count of units, noisy or not."""
        statistics = self.statistics
        if self.selection is not None and not any(isinstance(s, CountUnits) for s in statistics):
            statistics = (CountUnits(), *statistics)
        return self.query.exact(statistics)

    @property
    def metric(
        self,
    ) -> KNormDistance | CentredDistance | LevelsDistance | TimeStepsDistance | None:
        """How the noise sees all numbers together; None where each has noise of its own."""
        return None

    @property
    def exact_chain(self) -> Transformation:
        """Rows to exact statistics, measured as the noise sees them: the definition that engines compute."""
        query, statistics = self.query, self.statistics
        columns = sorted({c for s in statistics for c in s.columns})
        rows = RowsDomain(tuple((name, query.schema[name].values) for name in columns))
        # The noise does not see what is counted where numbers are made of it first.
        together = self.metric if statistics == self.requirements.statistics else None
        limits: Any = {"groups": query.groups, "scaled": query.scaled, "total": query.total_rows}
        counted = per_group(statistics, together=together, **limits)
        return bounded(query, rows) >> counted

    @property
    def chain(self) -> Measurement:
        """Rows to noisy statistics of all groups that are shown, as they are released.

        Its map at 1 is what the noise loses of one unit, whichever groups are shown: public ones, or what
        the selection leaves.
        """
        body = self.requirements.body
        noise = self.noise.by_group(
            [self.scales[name] for name in body.names],
            ContributionDistance(body, self.query.times, self.query.scaled),
            self.query.public_groups,
        )
        return self.exact_chain >> noise

    @property
    def noising(self) -> Noising:
        """What the release does with exact statistics, without the source that they come from."""
        keys, statistics = self.query.keys, self.exact.statistics
        return Noising(keys, self.requirements, statistics, self.steps, self.laws, self.selection)

    @property
    def description(self) -> dict[str, Any]:
        """What a release draws, as the certificate reads it: from the objects that draw."""
        claim = {"epsilon": str(self.epsilon), "delta": str(self.delta)}
        limits = {"groups": self.exact.description}
        return {"kind": "groups", **claim, **limits, **self.noising.description}

    @property
    def deviations(self) -> dict[str, float]:
        """The standard deviation of the noise of each number, in its own unit."""
        steps = self.steps
        return {n: float(law.standard_deviation) * float(steps[n]) for n, law in self.laws.items()}

    @cached_property
    def expected(self) -> Errors:
        """About how large the error of each output will be (see `expected_errors`)."""
        return expected_errors(self.requirements.estimates, self.deviations, self.selection)

    @property
    def bias(self) -> Bias:
        """What contribution limits and bounds can change in the numbers, which no error bar includes."""
        return replace(self.query.bias, estimated=self.diagnostics is not None)

    @property
    def notes(self) -> tuple[str, ...]:
        """What whoever asks should know before the release, and what other noises would have given."""
        found = [
            *self.query.notes,
            *self.query.groups_notes,
            *cautions(self.query.schema, self.query.keys, self.epsilon, self.delta),
            *(s.note for s in self.requirements.statistics if s.note is not None),
            *(note for name, a in self.query.aggregates if (note := a.note(name)) is not None),
        ]
        if self.others:
            compared = " and ".join(
                f"{_times(share)} those with {titled(name)} noise" for name, share in self.others
            )
            found.append(
                f"With {titled(self.noise.name)} noise the errors of the outputs are about {compared}."
            )
        return tuple(found)

    def __getstate__(self) -> dict[str, Any]:
        """Return all of it but what is asked beside, which is of rows: what that costs goes along."""
        one, state = self.diagnostics, dict(self.__dict__)
        if one is not None:
            state["diagnostics"] = ToldBeside(one.epsilon, one.delta, one.loss, one.content())
        return state

    def _card(self) -> Card:
        return plan_card(self)

    def __repr__(self) -> str:
        return visible(f"<Plan: {self.query.told}; {price(*self.spent)}, {titled(self.noise.name)} noise>")

    def explain(self) -> Explanation:
        """Return each step with its bounds, noise scale and share of the budget.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2]}), privacy_unit="id").bound(rows=2).agg(n=sf.count())
        >>> print(visits.plan(epsilon=1).explain())
        1. Read with DuckDB; drop rows without id, the privacy unit.
        2. Let each id count as at most 2 rows in all.
        3. Add exactly rounded Laplace noise to these numbers. Together they cost at most epsilon 1 and ...
             rows; noise σ 2.828; 100.0% of the budget; for n
        4. Compute the outputs from the noisy numbers alone, which costs nothing more.
        ...
        """
        query, noise = self.query, self.noise
        estimates = self.requirements.estimates
        asked = {output: name for name, a in query.aggregates for output in a.outputs(name)}
        return Explanation(
            question_content(query, self.statistics)
            | {
                "selection": selection_content(self.selection, noise.name, query.groups, self.epsilon),
                "noise": noise.name,
                "statistics": self._numbers_content(),
                "outputs": {
                    e.name: {
                        "kind": e.kind,
                        "asked": asked[e.name],
                        "from": list(e.coordinates),
                        "type": "int64" if e.integer else "float64",
                    }
                    | ({"rank": e.rank} if e.kind == "quantile" else {})
                    | ({"entries": e.entries} if e.entries else {})
                    for e in estimates
                },
                "budget": {
                    "epsilon": str(self.epsilon),
                    "delta": str(self.delta),
                    "noise_multiplier": str(self.multiplier),
                },
                "notes": list(self.notes),
                "bias": self.bias.told(),
                "diagnostics": None if self.diagnostics is None else self.diagnostics.content(),
            }
            | found_content(self.found)
        )

    def _numbers_content(self) -> list[dict[str, Any]]:
        needed = self.requirements
        bodies = [needed.body_of(s) for s in needed.statistics]
        return numbers_content(needed.statistics, bodies, self.noise.norm, dict(self.laws))


def _times(share: float) -> str:
    told = f"{share:.2g}"
    return "as large as" if told == "1" else f"{told} times"


def bounded(query: Query, rows: RowsDomain) -> Transformation:
    """Return what limits the groups of a unit, or its rows in all groups."""
    if query.total_rows is not None:
        keys = None if query.private_groups else query.public_groups
        return bound_total_rows(query.total_rows, keys, domain=rows)
    if query.scaled:
        return scale_groups(query.groups, query.public_groups, rows)
    return bound_groups(query.groups, domain=rows)
