"""Plans of cumulative totals over time steps: Laplace noise on blocks of steps, at a delta of 0."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from sfumato.budget import Loss
from sfumato.budget.measure import PrivacyLoss
from sfumato.dataclass import dataclass
from sfumato.errors import BudgetError, ParameterError, QueryError
from sfumato.exact.trees import Tree
from sfumato.framework import Measurement, Norm, TreeDistance
from sfumato.measurements.conversions import convert
from sfumato.measurements.noise import NOISES
from sfumato.measurements.tree_laplace import tree_laplace, tree_noise
from sfumato.noise.tree_laplace import TreeLaplace
from sfumato.query.estimates.series import CumulativeEstimate
from sfumato.query.noisy.noising import Noising
from sfumato.query.plans.expected import Errors, expected_errors
from sfumato.query.plans.plan import Plan
from sfumato.query.plans.weighing import split
from sfumato.query.query import Query
from sfumato.query.requirements import requirements


@dataclass(frozen=True, repr=False)
class TreePlan(Plan):
    """A plan whose noise is that of blocks of time steps.

    Args:
        drawn: the noise.
        shape: its shape, in which one unit moves the numbers by at most 1.
    """

    drawn: TreeLaplace
    shape: TreeDistance

    @property
    def metric(self) -> TreeDistance:
        """Its shape on the groups that are shown."""
        assert self.query.series is not None
        table: Any = self.query.public_keys
        return replace(self.shape, series=self.query.series.groups(table, self.query.keys))

    @property
    def chain(self) -> Measurement:
        """Rows to noisy statistics of all groups; its map at 1 is the loss."""
        return self.exact_chain >> convert(tree_laplace(self.multiplier, self.metric), PrivacyLoss())

    @property
    def noising(self) -> Noising:
        """What the release does with exact statistics."""
        return replace(super().noising, together=self.drawn, series=self.query.series)

    @cached_property
    def expected(self) -> Errors:
        """About how large the error of each output will be: the root of the mean square over all steps."""
        return self._expected(self.shape.factor, self.drawn.scales)

    def _expected(self, tree: Tree, scales: tuple[Fraction, ...]) -> Errors:
        given = zip(self.requirements.coordinates, scales, strict=True)
        deviation = replace(self.drawn, factor=tree).deviation
        sizes = {c.name: float(scale * c.step) * deviation for c, scale in given}
        return expected_errors(self.requirements.estimates, sizes)

    @property
    def notes(self) -> tuple[str, ...]:
        """What whoever asks should know before the release."""
        tree = self.shape.factor
        alone = self._expected(
            Tree(tree.steps, (1,)), tuple(scale / tree.levels for scale in self.drawn.scales)
        )
        told = "; ".join(
            f"{name}: root mean squared error {self.expected[name]:.4g} over all steps, of steps with noise "
            f"of their own {alone[name]:.4g}"
            for name in self.query.output_names
            if name in alone
        )
        sizes = ", ".join(f"{size:,}" for size in tree.sizes)
        return (*super().notes, f"Noise is that of blocks of {sizes} time steps. {told}.")


def tree_plan(query: Query, epsilon: Fraction, delta: Fraction) -> TreePlan:
    """Return the plan with Laplace noise on the blocks of the best tree.

    Raises:
        BudgetError: the noise would be too large.
        QueryError: something else than totals is asked, or a statistic is no sum over units.
    """
    series = query.series
    assert series is not None
    tree = Tree.best(series.steps)
    size = query.groups * tree.levels / epsilon
    needed = requirements(query, Norm.L1, size, units=False)
    beside = [e.name for e in needed.estimates if not e.derived and not isinstance(e, CumulativeEstimate)]
    if beside:
        raise QueryError(
            f"agg: {beside[0]}: with Laplace noise, the one for a delta of 0, cumulative totals are asked "
            "alone; ask the rest in a question of its own, or give a delta such as 1e-6"
        )
    if any(not s.additive for s in needed.statistics) or any(part.spread for part in needed.body.parts):
        raise QueryError("agg: beside cumulative totals ask for counts, sums, means and variances alone")
    groups = tuple(tuple((i, t) for t in range(series.steps)) for i in range(series.count))
    metric = TreeDistance(needed.body.names, split(needed, Norm.L1), tree, groups)
    moved = metric.moved(needed.body, query.groups)
    metric = replace(metric, scales=tuple(moved * s for s in metric.scales))
    try:
        drawn = tree_noise(metric, 1 / epsilon)
    except ParameterError:
        raise BudgetError(
            f"epsilon = {float(epsilon):g} asks for noise beyond what 64-bit integers hold; {query.remedies}"
        ) from None
    names = needed.body.names
    laws: Any = dict(zip(names, drawn.laws, strict=True))
    return TreePlan(
        query, epsilon, delta, NOISES["laplace"], needed, 1 / epsilon,
        dict(zip(names, drawn.scales, strict=True)), laws,
        None, Loss(approximate=((epsilon, Fraction(0), 1),)), drawn=drawn, shape=metric,
    )  # fmt: skip
