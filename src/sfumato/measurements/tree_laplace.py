"""Laplace noise on time steps whose cumulative totals are asked."""

from __future__ import annotations

from fractions import Fraction

from sfumato.exact import Number, positive
from sfumato.framework import Measurement, PureDP, TreeDistance
from sfumato.measurements.time_steps import on_time_steps
from sfumato.names.helpful import helpful
from sfumato.noise.tree_laplace import TreeLaplace


@helpful
def tree_laplace(multiplier: Number, metric: TreeDistance) -> Measurement:
    """Add Laplace noise to sums of blocks of time steps, and make steps of them by least squares.

    Args:
        multiplier: how many times the scales of the metric the noise has; greater than 0.
        metric: the scales, the blocks, and the groups of each series in order of time, each of them shown,
            empty or not.
    Returns:
        A Measurement of integers by group to pure DP, in steps of 2^-16: epsilon is distance / multiplier.
    Raises:
        ParameterError: multiplier is not above 0, or the noise could leave 64-bit integers.

    >>> from sfumato.framework import TreeDistance
    >>> from sfumato.exact.trees import Tree
    >>> metric = TreeDistance(("n",), (Fraction(2),), Tree(2, (1,)), (("jan", "feb"),))
    >>> tree_laplace(4, metric).map(1)
    Fraction(1, 4)

    Source:
        Hay, Rastogi, Miklau and Suciu 2010, "Boosting the accuracy of differentially private histograms
        through consistency". Proof: docs/proofs/tree_laplace.md.
    """
    exact = positive(multiplier, "multiplier")
    return on_time_steps("tree_laplace", metric, tree_noise(metric, exact), PureDP(), exact)


def tree_noise(metric: TreeDistance, multiplier: Fraction) -> TreeLaplace:
    """Return the noise of a metric's scales, so many times as large.

    Raises:
        ParameterError: the noise could leave 64-bit integers.
    """
    scales = tuple(multiplier * scale for scale in metric.scales)
    return TreeLaplace(scales, metric.factor, len(metric.series))
