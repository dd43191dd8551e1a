"""A question and a budget to a plan: which statistics, which noise, which group selection.

A plan depends on the question alone. It holds everything that a release does, and its loss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sfumato.budget import Loss, calibrate, gaussian_mu, split_delta
from sfumato.budget.parameters import admissible_delta, admissible_epsilon
from sfumato.errors import BudgetError, ParameterError, RefusalError, shown
from sfumato.exact import one_of, positive_int, root_up
from sfumato.framework import GroupedIntegers, RowsDomain, Transformation
from sfumato.measurements.noise import NOISES, Law, NoiseKind
from sfumato.measurements.selection import (
    GaussianThreshold,
    GroupSelection,
    LaplaceThreshold,
    TruncatedGeometric,
)
from sfumato.noise import Laplace
from sfumato.query.engine import ExactQuery
from sfumato.query.noising import Noising
from sfumato.query.statistics import Requirements, requirements
from sfumato.query.table import Question
from sfumato.transformations import CountUnits, QuantileTree, bound_groups, per_group

SMALLEST_EPSILON, LARGEST_EPSILON = Fraction(1, 10**12), Fraction(10**6)
# Noise of this scale leaves 64-bit integers with probability below e^-8000.
MOST_SCALE_BITS = 50
SMALLEST_DELTA = Fraction(1, 10**300)
SELECTIONS = ("truncated_geometric", "laplace", "gaussian")


@dataclass(frozen=True)
class Plan:
    """What a release does, decided before a row is read.

    Args:
        question: what is asked.
        epsilon, delta: the budget, exactly.
        noise: the kind of noise.
        requirements: statistics and how the outputs are made of them.
        multiplier: the noise multiplier that the budget buys.
        scales: noise scale of each coordinate, in grid steps.
        laws: the laws of the noise, by coordinate, in grid steps.
        selection: how private groups are chosen, or None.
        loss: what the whole release costs; within the budget.
    """

    question: Question
    epsilon: Fraction
    delta: Fraction
    noise: NoiseKind
    requirements: Requirements
    multiplier: Fraction
    scales: Mapping[str, Fraction]
    laws: Mapping[str, Law]
    selection: GroupSelection | None
    loss: Loss

    @property
    def steps(self) -> dict[str, Fraction]:
        """The grid step of each coordinate, in its own unit."""
        return {
            name: step
            for s in self.requirements.statistics
            for name, step in zip(s.coordinates, s.steps, strict=True)
        }

    @property
    def exact(self) -> ExactQuery:
        """What the engine computes. Selection needs the count of units, noisy or not."""
        statistics = self.requirements.statistics
        if self.selection is not None and not any(isinstance(s, CountUnits) for s in statistics):
            statistics = (CountUnits(), *statistics)
        return replace(self.question.exact(), statistics=statistics)

    @property
    def chain(self) -> Transformation:
        """Rows to exact statistics, whose map at 1 is what the release's noise must hide of one unit."""
        return _chain(self.question, self.noise, self.requirements, self.scales)

    @property
    def noising(self) -> Noising:
        """What the release does with exact statistics, without the source that they come from."""
        keys, statistics = tuple(self.question.table.keys), self.exact.statistics
        return Noising(keys, self.requirements, statistics, self.steps, self.laws, self.selection)

    @property
    def score(self) -> float:
        """Mean log of the relative noise of all that the outputs are made of: smaller is better."""
        shown = {name for e in self.requirements.estimates for name in e.coordinates}
        errors = [
            math.log(float(self.laws[name].standard_deviation) / float(largest))
            for s in self.requirements.statistics
            for name, largest in zip(s.coordinates, s.largest, strict=True)
            if name in shown
        ]
        if self.selection is not None:
            errors.append(math.log(self.selection.expected_threshold))
        return sum(errors) / len(errors)

    @property
    def notes(self) -> tuple[str, ...]:
        """What whoever asks should know before the release."""
        wide = (s for s in self.requirements.statistics if isinstance(s, QuantileTree) and s.leaf_width > 1)
        return (
            *self.question.table.notes,
            *(
                f"Quantiles of {s.column}: between {s.lower:g} and {s.upper:g}, values closer than "
                f"{s.leaf_width:.4g} are not told apart, and error bars are at least about as wide. "
                "Narrower bounds, from public knowledge, make that smaller."
                for s in wide
            ),
        )

    def explain(self) -> Any:
        """Return each step with its bounds, noise scale and share of the budget."""
        from sfumato.query.explanation import Explanation

        return Explanation(self)


def make_plan(
    question: Question,
    *,
    epsilon: Any,
    delta: Any = 0,
    noise: str = "auto",
    group_selection: str = "auto",
    pre_threshold: int = 1,
) -> Plan:
    """Choose noise, grids and group selection for a question within a budget.

    Args:
        question: what is asked.
        epsilon, delta: the budget.
        noise: "auto", "laplace" or "gaussian".
        group_selection: "auto", "truncated_geometric", "laplace" or "gaussian".
        pre_threshold: private groups with fewer units are never shown.
    Returns:
        The plan with the smallest score among those that the options admit.
    Raises:
        BudgetError: epsilon or delta is not admissible, or cannot buy what is asked.
        ParameterError: an option is unknown.
    """
    eps, dlt = _budget(epsilon, delta)
    noises = _choices("noise", noise, tuple(NOISES))
    selections: tuple[str | None, ...] = _choices("group_selection", group_selection, SELECTIONS)
    positive_int(pre_threshold, "pre_threshold")
    if noise == "auto" and group_selection in NOISES:
        noises = (group_selection,)  # a threshold is on the release's own noise
    if not question.private_groups:
        if group_selection != "auto" or pre_threshold != 1:
            raise ParameterError(
                "group_selection" if group_selection != "auto" else "pre_threshold",
                group_selection if group_selection != "auto" else pre_threshold,
                "left out here: the groups are public, so none is selected",
            )
        selections = (None,)
    if dlt == 0:
        if None not in selections:
            raise BudgetError(
                "delta is 0, but private groups need more: showing that a group exists is never free. "
                "Give a delta well below one over the number of units, such as 1e-6; or the groups, where "
                "they are public knowledge: group_by(..., keys=[...]), in a Beam aggregation public_keys=..."
            )
        if noises == ("gaussian",):
            raise BudgetError(
                "delta is 0, but Gaussian noise needs more; give a delta such as 1e-6, or Laplace noise"
            )
        noises = ("laplace",)
    if noises == tuple(NOISES) and _gaussian_is_ahead(question, eps, dlt):
        noises = ("gaussian",)
    candidates, refusals = [], []
    for n in noises:
        for s in selections:
            if _worth_trying(question, group_selection, n, s):
                try:
                    candidates.append(_candidate(question, eps, dlt, NOISES[n], s, pre_threshold))
                except RefusalError as refusal:  # a rule that cannot work at this budget
                    refusals.append(refusal)
    if not candidates:
        raise refusals[0]
    return min(candidates, key=lambda plan: plan.score)


def _budget(epsilon: object, delta: object) -> tuple[Fraction, Fraction]:
    eps, dlt = admissible_epsilon(epsilon), admissible_delta(delta)
    if not SMALLEST_EPSILON <= eps <= LARGEST_EPSILON:
        raise BudgetError(
            f"epsilon is {shown(epsilon)}, but must be between 1e-12 and 1,000,000: below, nothing is left "
            "to see, and above, nothing is hidden"
        )
    if 0 < dlt < SMALLEST_DELTA:
        raise BudgetError(f"delta is {shown(delta)}, but must be 0 or at least 1e-300")
    return eps, dlt


def _choices(name: str, value: object, known: tuple[str, ...]) -> tuple[str, ...]:
    chosen = one_of(value, name, ("auto", *known))
    return known if chosen == "auto" else (chosen,)


def _gaussian_is_ahead(question: Question, epsilon: Fraction, delta: Fraction) -> bool:
    """Skip Laplace noise that is far behind by basic composition.

    Privacy-loss distributions gain nothing on a few Laplace noises, and bring many of them at best to
    the scale of the Gaussian, whose deviation is then still smaller by the root of 2.
    """
    deviations = {}
    for name, kind in NOISES.items():
        needed = requirements(question, kind.norm, Fraction(1), units=question.private_groups)
        loss = _noise_loss(question, kind, needed, _scales(needed, kind, Fraction(1)))
        multiplier = float(_rough_multiplier(loss, epsilon, delta))
        deviations[name] = multiplier * kind.law(Fraction(1)).standard_deviation
    return deviations["laplace"] > 1.25 * deviations["gaussian"]


def _worth_trying(question: Question, asked: str, kind: str, selection: str | None) -> bool:
    """Skip what cannot be, a threshold on the other noise, and what costs time and was never seen to
    win: truncated geometric selection beside Gaussian noise where a unit is in many groups."""
    if selection is None or asked != "auto":
        return True
    if selection == "truncated_geometric":
        return kind == "laplace" or question.groups <= 3
    return selection == kind


def _candidate(
    question: Question,
    epsilon: Fraction,
    delta: Fraction,
    noise: NoiseKind,
    selection: str | None,
    pre_threshold: int,
) -> Plan:
    rule = _Rule.of(selection, noise.name, epsilon, delta, question, pre_threshold)

    def needs(multiplier: Fraction) -> Requirements:
        return requirements(question, noise.norm, multiplier, units=rule.uses_noise)

    def loss_with(needed: Requirements, multiplier: Fraction) -> Loss:
        return _noise_loss(question, noise, needed, _scales(needed, noise, multiplier)) + rule.loss

    # Grids depend on the size of the noise and the noise, in the last digits, on grids: a rough size
    # first, then the noise for good.
    rough = _rough_multiplier(loss_with(needs(Fraction(1)), Fraction(1)), epsilon, delta)
    needed = needs(rough)
    multiplier = calibrate(lambda k: loss_with(needed, k), epsilon, delta, start=rough)
    scales = _scales(needed, noise, multiplier)
    if max(scales.values()) > 2**MOST_SCALE_BITS:
        raise BudgetError(
            f"epsilon = {float(epsilon):g} asks for noise of {float(max(scales.values())):.3g} steps, beyond "
            "what 64-bit integers hold; ask for a larger epsilon or set smaller limits or bounds"
        )
    laws = {name: noise.law(scale) for name, scale in scales.items()}
    return Plan(
        question,
        epsilon,
        delta,
        noise,
        needed,
        multiplier,
        scales,
        laws,
        rule.selection(laws),
        loss_with(needed, multiplier),
    )


def _rough_multiplier(unit_loss: Loss, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return about how much noise is needed, from the loss at a multiplier of one."""
    if unit_loss.gaussian:
        room = max(delta - unit_loss.floor, delta / 2**20)
        return root_up(unit_loss.gaussian) / gaussian_mu(epsilon, room)
    return unit_loss.basic_epsilon / epsilon


def _scales(needed: Requirements, noise: NoiseKind, multiplier: Fraction) -> dict[str, Fraction]:
    return {
        name: multiplier * share
        for s in needed.statistics
        for name, share in zip(s.coordinates, s.shares(noise.norm), strict=True)
    }


def _chain(
    question: Question, noise: NoiseKind, needed: Requirements, scales: Mapping[str, Fraction]
) -> Transformation:
    groups, schema = question.groups, question.table.schema
    columns = sorted({c for s in needed.statistics if (c := getattr(s, "column", None)) is not None})
    rows = RowsDomain(tuple((name, schema[name].values) for name in columns))
    bounded = bound_groups(groups, domain=rows)
    return bounded >> per_group(needed.statistics, noise.norm, list(scales.values()), groups)


def _noise_loss(
    question: Question, noise: NoiseKind, needed: Requirements, scales: Mapping[str, Fraction]
) -> Loss:
    """Return the loss of all noise together, from the map of the chain that the release draws."""
    groups = question.groups
    # The map is the same whichever groups are shown: public ones, or what the selection leaves.
    chain = _chain(question, noise, needed, scales) >> noise.measurement(
        list(scales.values()), GroupedIntegers(needed.coordinates), keys=()
    )
    reach: Fraction = chain.map(1)
    if noise.name == "gaussian":
        return Loss(gaussian=reach * reach)
    # A unit's rows may spread over many nodes of a tree, so that a tree is not one coordinate of a
    # known shift; its pure epsilon stands for it.
    trees = tuple(
        (s.sensitivity(noise.norm, [scales[s.coordinates[0]]]), Fraction(0), groups)
        for s in needed.statistics
        if isinstance(s, QuantileTree)
    )
    coordinates = tuple(
        (largest / scales[name], groups)
        for s in needed.statistics
        if not isinstance(s, QuantileTree)
        for name, largest in zip(s.coordinates, s.largest, strict=True)
    )
    pure = reach - sum((eps * count for eps, _, count in trees), Fraction(0))
    return Loss(laplace=coordinates, pure=pure, approximate=trees)


@dataclass(frozen=True)
class _Rule:
    """One way to select groups, before the noise is known: what it costs and what it shares."""

    uses_noise: bool
    loss: Loss
    delta_per_group: Fraction
    pre_threshold: int
    geometric: TruncatedGeometric | None = None

    @classmethod
    def of(
        cls,
        name: str | None,
        noise: str,
        epsilon: Fraction,
        delta: Fraction,
        question: Question,
        pre_threshold: int,
    ) -> _Rule:
        groups = question.groups
        if name is None:
            return cls(False, Loss(), Fraction(0), pre_threshold)
        # Pure epsilon needs no delta of its own, so selection gets all of it.
        share = delta if noise == "laplace" else delta / 2
        each = split_delta(share, groups)
        if name == "truncated_geometric":
            statistics = requirements(question, NOISES[noise].norm, Fraction(1), units=False).statistics
            parts = 1 + sum(len(s.coordinates) for s in statistics)
            rule = TruncatedGeometric(epsilon / (parts * groups), each, pre_threshold)
            return cls(False, rule.loss(groups), each, pre_threshold, rule)
        if name != noise:
            raise ParameterError(
                "group_selection", name, f"'truncated_geometric' or {noise!r}, the release's noise"
            )
        return cls(True, Loss(failure=share), each, pre_threshold)

    def selection(self, laws: Mapping[str, Law]) -> GroupSelection | None:
        if self.geometric is not None:
            return self.geometric
        if not self.uses_noise:
            return None
        law = laws["units"]
        if isinstance(law, Laplace):
            return LaplaceThreshold(law, self.delta_per_group, self.pre_threshold)
        return GaussianThreshold(law, self.delta_per_group, self.pre_threshold)
