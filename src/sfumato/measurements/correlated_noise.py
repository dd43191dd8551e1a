"""Correlated noise, drawn for all groups together: K-norm, centred, level, series and tree noise.

K-norm noise has that shape as a whole; Gaussian noise may have a part in common in all groups; and noise of
time steps, or of groups with their totals, is such that sums have little.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from fractions import Fraction
from typing import cast

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact import Number, positive, positive_int
from sfumato.framework import (
    Body,
    CentredDistance,
    ConeBody,
    CubeBody,
    GaussianDP,
    GroupedIntegers,
    KNormDistance,
    LevelsDistance,
    Linear,
    Measure,
    Measurement,
    Norm,
    PureDP,
    SeriesDistance,
    TimeStepsDistance,
    TreeDistance,
)
from sfumato.measurements.independent_noise import noise_adder
from sfumato.names.suggestions import suggest_arguments
from sfumato.noise.centred_noise import FINE as CENTRED_FINE
from sfumato.noise.centred_noise import CentredGaussian
from sfumato.noise.k_norm import Cone, JointNoise, SeparateNoise
from sfumato.noise.level_noise import LevelsGaussian
from sfumato.noise.series_noise import FINE, SeriesGaussian, TimeStepsNoise, TreeLaplace

KNormNoise = JointNoise | SeparateNoise


@suggest_arguments
def k_norm(
    epsilon: Number,
    body: ConeBody,
    keys: Iterable[Hashable],
    *,
    groups: int | None = None,
) -> Measurement:
    """Add exactly rounded K-norm noise, shaped to protect a unit's whole contribution with one epsilon.

    Args:
        epsilon: greater than 0, taken exactly.
        body: what one unit may add to one group, in grid steps, after all rounding.
        keys: the groups to show, even if they are empty; public, or chosen privately beforehand.
        groups: the most groups of a unit; None for any number. With None, or with as many as there are keys,
            one draw serves all groups together; with fewer, each group has its own noise.
    Returns:
        A Measurement of integers by group to pure DP. Its metric is the `KNormDistance` of the body, in which
        one unit moves by at most 1; its map is epsilon times the distance.
    Raises:
        ParameterError: epsilon or groups is not greater than 0, body is not a ConeBody, there are no keys for
            joint noise, or the noise could leave 64-bit integers.

    >>> from sfumato.framework import ConeBody
    >>> body = ConeBody(("rows", "visits"), (Fraction(1), Fraction(15)))
    >>> release = k_norm("1/2", body, keys=[2020, 2021])
    >>> one, other = {2020: {"rows": 7, "visits": -3}}, {2020: {"rows": 8, "visits": 12}}
    >>> release.map(release.input_metric.distance(one, other))
    Fraction(1, 2)

    Source:
        Hardt and Talwar 2010, "On the geometry of differential privacy"; Awan and Slavković 2021, "Structure
        and sensitivity in differential privacy". Proof: docs/proofs/k_norm.md.
    """
    exact = positive(epsilon, "epsilon")
    if not isinstance(body, ConeBody):
        raise ParameterError("body", body, "a ConeBody")
    shown = tuple(keys)
    most = None if groups is None else positive_int(groups, "groups")
    if not shown and most is None:
        raise ParameterError("keys", shown, "at least one group, for joint noise")
    if isinstance(body, CubeBody) and most is None:
        raise ParameterError("groups", groups, "the most groups of a unit, for signed numbers alone")
    if most is not None and 0 < len(shown) <= most and not isinstance(body, CubeBody):
        most = None
    metric = KNormDistance(body, most, most is not None)
    noise = k_norm_noise(body, exact, len(shown), most)

    def draw() -> list[list[int]]:
        drawn = noise.rounded(len(shown)) if isinstance(noise, SeparateNoise) else noise.rounded()
        return cast(list[list[int]], drawn.tolist())

    function = noise_adder(body.names, shown, draw)
    return Measurement("k_norm", GroupedIntegers(body.names), metric, PureDP(), function, Linear(exact))


def k_norm_loss(noise: KNormNoise, body: ConeBody, groups: int) -> Fraction:
    """Return the pure epsilon of K-norm noise, for what one unit may add.

    Args:
        noise: that is drawn.
        body: what one unit may add to one group; the corners of it, and 0, span that.
        groups: the most groups of a unit, which counts where each group has noise of its own.

    Source:
        docs/proofs/k_norm.md, "The loss of given scales".
    """
    full = body.bounds
    corners = [(*full[: i + 1], *[Fraction(0)] * (len(full) - i - 1)) for i in range(body.units + 1)]
    drawn = ConeBody(body.names, noise.scales, bool(noise.cone.units))
    sides = [drawn.sides(corner) for corner in (*corners, full)]
    if isinstance(noise, SeparateNoise):
        return groups * max(a + b for a, b in sides)
    return max(a for a, _ in sides) + max(b for _, b in sides)


@dataclass(frozen=True)
class KNormKind:
    """The kind "k_norm" of correlated noise, beside the kinds of `independent_noise`: what plans call it."""

    name: str = "k_norm"
    norm: Norm = Norm.L1


K_NORM = KNormKind()


def k_norm_noise(
    body: ConeBody,
    epsilon: Fraction,
    count: int,
    groups: int | None = None,
) -> KNormNoise:
    """Return the K-norm noise that hides one unit by epsilon.

    Args:
        body: what one unit may add to one group.
        epsilon: greater than 0.
        count: groups that are shown.
        groups: the most groups of a unit, for noise of each group by itself; None for one draw for all.
    """
    cone = Cone(body.signed, body.units)
    scales = tuple(bound / epsilon for bound in body.bounds)
    if groups is None:
        return JointNoise(cone, scales, count)
    return SeparateNoise(cone, tuple(scale * groups for scale in scales))


@suggest_arguments
def centred_gaussian(multiplier: Number, metric: CentredDistance) -> Measurement:
    """Add centred Gaussian noise, part of which is common to all groups.

    Args:
        multiplier: the factor, greater than 0, on the scales of the metric.
        metric: the scales of each number's own noise and of the common noise, and the public groups, all of
            which are shown, even if empty.
    Returns:
        A Measurement of integers by group to Gaussian DP: mu is the distance / multiplier.
    Raises:
        ParameterError: multiplier is not above 0; the common part is not on the fine grid of the noise; or
            the noise could leave 64-bit integers.

    >>> from sfumato.framework import CentredDistance
    >>> from sfumato.framework import ConeBody
    >>> body = ConeBody(("n",), (Fraction(1),))
    >>> metric = CentredDistance(body, (Fraction(2),), Fraction(2), Fraction(1, 2), keys=("a", "b"))
    >>> centred_gaussian(4, metric).map(1)
    Fraction(1, 4)

    Source:
        Lebeda 2024, "Better Gaussian mechanism using correlated noise".
        Proof: docs/proofs/centred_gaussian.md.
    """
    exact = positive(multiplier, "multiplier")
    noise = centred_noise(metric, exact)

    function = noise_adder(metric.body.names, metric.keys, lambda: noise.rounded().tolist())
    domain = GroupedIntegers(metric.body.names)
    return Measurement("centred_gaussian", domain, metric, GaussianDP(), function, Linear(1 / exact))


def centred_noise(metric: CentredDistance, multiplier: Fraction) -> CentredGaussian:
    """Return the centred noise of a metric's scales, multiplied.

    Raises:
        ParameterError: a part of all units is not on the fine grid, or the noise could leave 64-bit integers.
    """
    bounds = metric.body.bounds[: metric.counts]
    weights = [bound / bounds[0] for bound in bounds]
    if any((metric.centre * bound * 2**CENTRED_FINE).denominator > 1 for bound in bounds):
        raise ParameterError(
            "centre", metric.centre, f"a whole number of 2^-{CENTRED_FINE} of each count's bound"
        )
    if any(weight.denominator > 1 for weight in weights):
        raise ParameterError("metric", bounds, "one whose second count's bound is a multiple of the first's")
    return CentredGaussian(
        tuple(multiplier * scale for scale in metric.scales),
        multiplier * metric.common[0],
        (*(int(weight) for weight in weights), *[0] * metric.body.signed),
        len(metric.keys),
        metric.centre,
    )


def centred_moved(noise: CentredGaussian, cone: ConeBody, body: Body, groups: int) -> Fraction:
    """Return a bound of the squared distance by which one unit moves, in deviations of centred noise.

    Args:
        noise: that is drawn.
        cone: what one unit may add to a group, of which counts limit the other numbers.
        body: the same, part by part.
        groups: the most groups that a unit is in.
    """
    # A larger bound of a count than its weight allows for would have more noise in common: refuse it.
    weights = tuple(bound / cone.bounds[0] for bound in cone.bounds[: 1 + cone.units])
    if noise.weights[: len(weights)] != weights:
        raise ParameterError("weights", noise.weights, f"{weights} for the counts")
    total = noise.shared / (noise.centre * cone.bounds[0])
    metric = CentredDistance(cone, noise.scales, total, noise.centre, range(noise.groups))
    return metric.moved(body, groups)


@suggest_arguments
def levels_gaussian(multiplier: Number, metric: LevelsDistance) -> Measurement:
    """Add level noise: Gaussian noise on groups that adds little to their totals.

    Args:
        multiplier: the factor, greater than 0, on the scales of the metric.
        metric: the scales, the size of noise at each level, and the groups, all of which are shown, even if
            empty.
    Returns:
        A Measurement of integers by group to Gaussian DP, in steps of 2^-16, or larger ones for large noise:
        mu is the distance / multiplier.
    Raises:
        ParameterError: multiplier is not above 0, or the noise could leave 64-bit integers.

    >>> from sfumato.framework import LevelsDistance
    >>> from sfumato.exact.rollup import Rollup
    >>> rollup = Rollup(((0,), ()), (2,), ((0, 1), (0, 0)))
    >>> sizes = Fraction(1), Fraction(1)
    >>> levels_gaussian(4, LevelsDistance(("n",), (Fraction(2),), sizes, rollup, ("a", "b"))).map(1)
    Fraction(1, 4)

    Source:
        Hay, Rastogi, Miklau and Suciu 2010, "Boosting the accuracy of differentially private histograms
        through consistency". Proof: docs/proofs/levels_gaussian.md.
    """
    exact = positive(multiplier, "multiplier")
    noise = levels_noise(metric, exact)

    def draw() -> list[list[Fraction]]:
        rows = zip(noise.rounded().tolist(), noise.fine, strict=True)
        return [[Fraction(step, 1 << bits) for step in row] for row, bits in rows]

    function = noise_adder(metric.names, metric.keys, draw)
    domain = GroupedIntegers(metric.names)
    return Measurement("levels_gaussian", domain, metric, GaussianDP(), function, Linear(1 / exact))


def levels_noise(metric: LevelsDistance, multiplier: Fraction) -> LevelsGaussian:
    """Return the level noise of a metric's scales, multiplied.

    Raises:
        ParameterError: the noise could leave 64-bit integers.
    """
    return LevelsGaussian(tuple(multiplier * scale for scale in metric.scales), metric.sizes, metric.rollup)


def on_time_steps(
    name: str, metric: TimeStepsDistance, noise: TimeStepsNoise, measure: Measure, multiplier: Fraction
) -> Measurement:
    """Return the measurement that adds correlated noise to the time steps of each series, empty or not.

    Args:
        name: its name.
        metric: how the noise sees numbers.
        noise: what is drawn, in steps of 2^-16.
        measure: in which the loss is distance / multiplier.
        multiplier: how many times the scales of the metric the noise has.
    """

    def draw() -> list[list[Fraction]]:
        rows = noise.rounded().reshape(len(metric.names), -1).tolist()
        return [[Fraction(step, 1 << FINE) for step in row] for row in rows]

    function = noise_adder(metric.names, [key for keys in metric.series for key in keys], draw)
    return Measurement(name, GroupedIntegers(metric.names), metric, measure, function, Linear(1 / multiplier))


@suggest_arguments
def series_gaussian(multiplier: Number, metric: SeriesDistance) -> Measurement:
    """Add Gaussian series noise to time steps that adds little to cumulative totals.

    Args:
        multiplier: the factor, greater than 0, on the scales of the metric.
        metric: the scales, the weights of running sums, and the groups of each series in order of time, all
            of which are shown, even if empty.
    Returns:
        A Measurement of integers by group to Gaussian DP, in steps of 2^-16: mu is the distance / multiplier.
    Raises:
        ParameterError: multiplier is not above 0, or the noise could leave 64-bit integers.

    >>> from sfumato.framework import SeriesDistance
    >>> from sfumato.exact.time_trees import Toeplitz
    >>> factor = Toeplitz.from_power(Fraction(1, 2), 2)
    >>> series_gaussian(4, SeriesDistance(("n",), (Fraction(2),), factor, (("jan", "feb"),))).map(1)
    Fraction(1, 4)

    Source:
        Fichtenberger, Henzinger and Upadhyay 2023, "Constant matters: fine-grained error bound on
        differentially private continual observation". Proof: docs/proofs/series_gaussian.md.
    """
    exact = positive(multiplier, "multiplier")
    return on_time_steps("series_gaussian", metric, series_noise(metric, exact), GaussianDP(), exact)


def series_noise(metric: SeriesDistance, multiplier: Fraction) -> SeriesGaussian:
    """Return the Gaussian series noise of a metric's scales, multiplied.

    Raises:
        ParameterError: the noise could leave 64-bit integers.
    """
    scales = tuple(multiplier * scale for scale in metric.scales)
    return SeriesGaussian(scales, metric.factor, len(metric.series))


@suggest_arguments
def tree_laplace(multiplier: Number, metric: TreeDistance) -> Measurement:
    """Add Laplace noise to sums over a tree of blocks of time steps, and combine them by least squares.

    Args:
        multiplier: the factor, greater than 0, on the scales of the metric.
        metric: the scales, the blocks, and the groups of each series in order of time, all of which are
            shown, even if empty.
    Returns:
        A Measurement of integers by group to pure DP, in steps of 2^-16: epsilon is distance / multiplier.
    Raises:
        ParameterError: multiplier is not above 0, or the noise could leave 64-bit integers.

    >>> from sfumato.framework import TreeDistance
    >>> from sfumato.exact.time_trees import Tree
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
    """Return the Laplace tree noise of a metric's scales, multiplied.

    Raises:
        ParameterError: the noise could leave 64-bit integers.
    """
    scales = tuple(multiplier * scale for scale in metric.scales)
    return TreeLaplace(scales, metric.factor, len(metric.series))
