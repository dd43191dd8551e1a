"""Laws of linear forms of noise: deviations, and quantiles from characteristic functions, for error bars.

A form is a weighted sum of what was drawn for one group or for several. Groups are independent; under joint
K-norm noise they are so given its radius and its split θ. So the characteristic function of a form is a
product, or an average of products, and a probability is an integral over it. Noise is taken before rounding,
and rounding as independent and uniform, where noise is at least about a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.exact.root_finding import crossing
from sfumato.noise.centred_noise import CentredGaussian
from sfumato.noise.k_norm.cone_noise import JointNoise, SeparateNoise
from sfumato.noise.k_norm.cones import Cone
from sfumato.noise.k_norm.joint_marginals import (
    Slices,
    joint_covariances,
    marginals,
    rule,
    split_spread,
    splits,
)
from sfumato.noise.k_norm.sampling import density, lowest
from sfumato.noise.law_tails import Floats
from sfumato.noise.laws import Gaussian

# Of how many groups, and the weight of each coordinate there; of many forms at once, in the last axis.
Parts = list[tuple[int, Floats]]
_Weights = tuple[tuple[int, tuple[float, ...]], ...]

_FINE = math.sqrt(2)  # steps: of less deviation than this, rounding counts in full
_LATTICE = 1e-9  # by which weights may differ from whole multiples of the smallest
_FEW = 3  # of many forms, whose quantiles stand for all
_SAME = 1e-12  # of a variance is as good as nothing
_ANGLES = 10  # at which the law of a ratio's noise is computed; between them quantiles hardly change
_FAR = 2e-3  # failures below it take more of the characteristic function
_NOTHING = 1e-9  # of a characteristic function is as good as nothing
_LEAST = 1e-5  # failures below it are extrapolated, as logarithms of tails are concave


@dataclass(frozen=True)
class FormLaws:
    """The laws of linear forms of one noise, in grid steps.

    Args:
        noise: independent, centred or K-norm noise.

    >>> from fractions import Fraction
    >>> laws = FormLaws(JointNoise(Cone(1), (Fraction(1000), Fraction(30_000)), groups=5))
    >>> ratio = [(1, np.array([-12_000.0, 1000.0]))]
    >>> round(float(laws.deviation(ratio)) / 1e6, 2), round(laws.tolerance(ratio, 0.05) / 1e6, 2)
    (179.07, 351.92)
    """

    noise: Any

    @cached_property
    def _scales(self) -> Floats:
        return np.array([float(s) for s in self.noise.scales])

    @cached_property
    def _covariances(self) -> tuple[Floats, Floats]:
        """The covariances of the coordinates of one group, and those of two groups."""
        noise, none = self.noise, np.zeros((len(self._scales), len(self._scales)))
        if isinstance(noise, CentredGaussian):
            common = float(noise.shared) * np.array(noise.weights, float)
            return np.diag(self._scales**2) + np.outer(common, common), np.outer(common, common)
        if not isinstance(noise, JointNoise | SeparateNoise):
            return np.diag([float(law.variance) for law in noise.laws]), none
        if isinstance(noise, JointNoise):
            own, shared = joint_covariances(noise.cone, noise.groups)
        else:
            own, shared = _separate_covariances(noise.cone), none
        both = np.outer(self._scales, self._scales)
        return own * both, shared * both

    @cached_property
    def _coarse(self) -> Any:
        return np.diag(self._covariances[0]) < _FINE**2

    @cached_property
    def _off(self) -> Floats:
        """How far rounding moves each coordinate at most, where its noise is coarse; else 0."""
        shifts = np.array([0.5 + getattr(law, "shift", 0.0) for law in self.laws])
        return np.where(self._coarse, shifts, 0.0)

    @cached_property
    def _unrounded(self) -> Floats:
        """The variances of the noise that is rounded; of coarse discrete noise those of real noise."""
        discrete = np.array([getattr(law, "discrete", False) for law in self.laws])
        return np.where(self._coarse & discrete, 2 * self._scales**2, np.diag(self._covariances[0]))

    @cached_property
    def _group_covariances(self) -> Floats:
        """The covariances of one group, with the rounding of fine noise."""
        own = self._covariances[0].copy()
        np.fill_diagonal(own, self._unrounded + np.where(self._coarse, 0.0, 1 / 12))
        return own

    def covariance(self, one: Parts, other: Parts) -> Floats:
        """Return the covariance of two forms of the same groups; rounding of fine noise is part of it."""
        return _covariance(self._group_covariances, self._covariances[1], one, other)

    def deviation(self, parts: Parts) -> Floats:
        """Return the standard deviation of a form."""
        return np.sqrt(np.maximum(self.covariance(parts, parts), 0.0))

    def spread(self, parts: Parts) -> Floats:
        """Return the standard deviation of a form before rounding."""
        return np.sqrt(np.maximum(_covariance(*self._covariances, parts, parts), 0.0))

    def tolerance(self, parts: Parts, failure: float) -> float:
        """Return t with P(|form| > t) close to failure, by quadrature.

        The probability is up to 13% over `failure` for fine noise. For coarse noise, whose rounding counts in
        full, t is larger than necessary: 1.18 times the exact tolerance in the median of those measured.

        Args:
            parts: the form.
            failure: in (0, 1).
        """
        used = [(n, w) for n, w in parts if n and w.any()]
        if not used:
            return 0.0
        sizes = np.concatenate([np.abs(w[w != 0]) for _, w in used])
        if len(sizes) == 1 and used[0][0] == 1:
            law = self.laws[int(np.flatnonzero(used[0][1])[0])]
            return float(sizes[0]) * int(law.rounded_tolerance(-math.log10(failure)))
        found = float(self.deviation(used)) * self.quantile(used, failure)
        off, step = float(self._rounding(used)), float(sizes.min())
        most = min(found + off, self._sum_tolerances(used, failure)) if off else found
        if np.abs(sizes / step - np.rint(sizes / step)).max() > _LATTICE:
            return most
        # A whole number of steps is within a half of what is not rounded.
        whole = math.floor(most / step * (1 + _LATTICE)) if off else max(0, math.ceil(most / step - 0.5))
        return step * whole

    def _sum_tolerances(self, parts: Parts, failure: float) -> float:
        """Return the sum of the tolerances of all noises of a form, which share its chance to fail."""
        k = math.log10(sum(n * np.count_nonzero(w) for n, w in parts) / failure)
        each = [law.rounded_tolerance(k) for law in self.laws]
        return float(sum(n * np.abs(w) @ each for n, w in parts))

    def tolerances(self, weights: Floats, failure: float) -> Floats:
        """Return the tolerances of many forms of one group each, for weights of shape (forms, coordinates).

        Of more than a few, quantiles over deviations are the largest of a few, so others can make one wider.
        """
        distinct, place = np.unique(weights, axis=0, return_inverse=True)
        if len(distinct) <= _FEW:
            found = np.array([self.tolerance([(1, row)], failure) for row in distinct])
            return np.asarray(found[place.ravel()])
        parts = [(1, weights)]
        size = max(self.quantile([(1, row)], failure) for row in self._few(distinct, 1))
        return size * self.deviation(parts) + self._rounding(parts)

    def _few(self, rows: Floats, forms: int) -> Floats:
        """Return a few rows of the weights of so many forms each, among which quantiles are the largest.

        These are one in the middle and both ends in order of how unevenly the noises of a form are large, on
        which quantiles over deviations depend most.
        """
        sizes = np.abs(rows.reshape(-1, len(self._scales)) * self._scales).reshape(len(rows), forms, -1)
        largest = sizes.max(axis=-1, keepdims=True)
        squares = np.square(sizes / np.where(largest > 0, largest, 1.0))
        uneven = np.square(squares).sum(axis=-1) / np.maximum(squares.sum(axis=-1), 1.0) ** 2
        order = np.argsort(uneven.sum(axis=-1), kind="stable")
        return np.asarray(rows[order[np.unique(np.linspace(0, len(rows) - 1, _FEW).astype(int))]])

    def _rounding(self, parts: Parts) -> Floats:
        """Return how far the rounding of coarse noise moves a form at most."""
        return np.asarray(sum(n * np.abs(w) @ self._off for n, w in parts))

    @cached_property
    def laws(self) -> Sequence[Any]:
        """The law of each coordinate."""
        k_norm = isinstance(self.noise, JointNoise | SeparateNoise)
        return tuple(marginals(self.noise) if k_norm else self.noise.laws)

    def quantile(self, parts: Parts, failure: float) -> float:
        """Return t with P(|form| > t deviations) = failure."""
        noise, scales = self.noise, self._scales
        if not isinstance(noise, JointNoise | SeparateNoise):
            if isinstance(noise, CentredGaussian) or isinstance(noise.laws[0], Gaussian):
                return Gaussian(1).tolerance(-math.log10(failure))
            scales = np.sqrt(self._unrounded / 2)
        scaled = [(n, w * scales) for n, w in parts if w.any()]
        largest = max((float(np.abs(w).max()) for _, w in scaled), default=0.0)
        if not largest:
            return 0.0
        key = tuple((n, tuple((w / largest).round(9).tolist())) for n, w in scaled)
        cone = getattr(noise, "cone", None)
        return _quantile(cone, noise.groups if isinstance(noise, JointNoise) else 0, key, failure)

    def along(self, top: Parts, bottom: Parts, failure: float) -> Callable[[Floats], Floats]:
        """Return a function: of m, t with P(|top - m bottom| > t) close to failure, or less.

        Over deviations the tolerance depends on the direction alone in the plane of both forms.

        Args:
            top, bottom: two forms of the same groups.
            failure: in (0, 1).
        """
        pairs = ((top, top), (bottom, bottom), (top, bottom))
        above, below, both = (self.covariance(one, other) for one, other in pairs)
        slope, across = both / np.where(below > 0, below, 1.0), np.sqrt(below)
        rest = above - slope * both
        rest = np.sqrt(np.where(rest > _SAME * above, rest, 0.0))
        if not rest.size:  # a batch without groups
            return np.zeros_like
        flat = np.stack([_flat(top + bottom, i) for i in range(rest.size)])
        planes, place = np.unique(flat, axis=0, return_inverse=True)
        few = planes if len(planes) <= _FEW else self._few(planes, 2)
        angles = np.linspace(0, math.pi, _ANGLES + 1)
        sizes = np.array([self._rotated_quantiles(top, row, angles, failure) for row in few])
        # Of more than a few, the largest are taken for all.
        own = place.reshape(rest.shape) if len(planes) == len(few) else np.zeros(rest.shape, int)
        sizes = sizes if len(planes) == len(few) else sizes.max(axis=0, keepdims=True)

        def reach(m: Floats) -> Floats:
            far = (slope - m) * across
            angle = np.arctan2(rest, far) / math.pi * _ANGLES
            before = np.minimum(np.nan_to_num(angle).astype(int), _ANGLES - 1)
            part = angle - before
            size = (1 - part) * sizes[own, before] + part * sizes[own, before + 1]
            size = size * np.hypot(rest, far)
            at = np.asarray(m)[..., None]
            parts = [(n, a - at * b) for (n, a), (_, b) in zip(top, bottom, strict=True)]
            return np.asarray(size + (self._rounding(parts) if self._coarse.any() else 0.0))

        return reach

    def _rotated_quantiles(self, like: Parts, weights: Floats, angles: Floats, failure: float) -> Floats:
        """Return quantiles of the forms at angles in the plane of two forms, given all of their weights."""
        top, bottom = weights.reshape(2, len(like), -1)
        counts = [n for n, _ in like]
        one, other = ([(n, w) for n, w in zip(counts, both, strict=True)] for both in (top, bottom))
        across, both = float(self.deviation(other)), float(self.covariance(one, other))
        slope = both / across**2 if across else 0.0
        left = float(self.covariance(one, one)) - slope * both
        rest = math.sqrt(left) if left > _SAME * abs(both * slope) else 0.0
        found = []
        for angle in angles[:-1].tolist():
            # What the first has not in common with the second, and the second, each over its deviation.
            up = math.sin(angle) / rest if rest else 0.0
            aside = (math.cos(angle) / across if across else 0.0) - up * slope
            turned = [(n, up * a + aside * b) for n, a, b in zip(counts, top, bottom, strict=True)]
            found.append(self.quantile(turned, failure))
        return np.array([*found, found[0]])


def _flat(parts: Parts, row: int) -> Floats:
    return np.concatenate([w if w.ndim == 1 else w[row] for _, w in parts])


def _covariance(own: Floats, shared: Floats, one: Parts, other: Parts) -> Floats:
    """Return the covariance of two forms by those of the coordinates of a group, and of two groups."""
    product = "...i,ij,...j->..."
    pairs = [(n, a, b) for (n, a), (_, b) in zip(one, other, strict=True)]
    each = np.sum([n * np.einsum(product, a, own - shared, b) for n, a, b in pairs], axis=0)
    first, second = (np.sum([n * w for n, w in parts], axis=0) for parts in (one, other))
    return np.asarray(each + np.einsum(product, first, shared, second))


# Quantiles of standardised forms: of scales 1, and divided by their deviation.


@lru_cache(1 << 10)
def _quantile(cone: Cone | None, groups: int, weights: _Weights, failure: float) -> float:
    """Return t with P(|form| > t deviations) = failure, for scales 1.

    Args:
        cone: of K-norm noise; None for Laplace noise.
        groups: of joint noise; 0 for noise of each group by itself.
        weights: of the form.
    """
    law = _law(cone, groups, weights, failure < _FAR)
    goal = max(failure, _LEAST)

    def height(x: float) -> float:
        return math.log2(max(law.outside(x), 1e-300) / goal) if x > 0 else 1e3

    found = crossing(height, 1.0, 1e-4, stride=0.3, reach=1e3)
    assert found is not None
    return float(found * math.log(failure) / math.log(goal))


@dataclass(frozen=True, eq=False)
class _Law:
    """The law of R X: R is one of `radii`, and X has the characteristic function `values` at `places`.

    The places are odd multiples of half a step; |X| is at most `reach`, but for next to nothing.
    """

    places: Floats
    values: Floats
    radii: Floats
    chances: Floats
    reach: float

    def outside(self, x: float) -> float:
        """Return P(|R X| > x), by a midpoint sum of Gil-Pelaez's integral.

        Source:
            Gil-Pelaez 1951, "Note on the inversion theorem".
        """
        far = x / self.radii
        terms = self.values / (np.arange(len(self.places)) + 0.5)
        beyond = 1 - 2 / np.pi * np.sin(np.outer(far, self.places)) @ terms
        return float(self.chances @ np.where(far < self.reach, beyond, 0.0))


@lru_cache(1 << 9)
def _law(cone: Cone | None, groups: int, weights: _Weights, far: bool) -> _Law:
    """Return the law of a form over its deviation, for scales 1; see `_quantile`."""
    size = len(weights[0][1])
    own, shared = np.eye(size) * 2, np.zeros((size, size))
    if cone is not None:
        own, shared = joint_covariances(cone, groups) if groups else (_separate_covariances(cone), shared)
    parts: Parts = [(n, np.array(w)) for n, w in weights]
    deviation = math.sqrt(float(_covariance(own, shared, parts, parts)))
    parts = [(n, w / deviation) for n, w in parts]
    if cone is None or not groups:
        reach, places = 20.0, (np.arange(1000) + 0.5) * math.pi / 20
        values: Floats = np.ones(len(places))
        for n, w in parts:
            some = np.abs(values) > _NOTHING  # fewer with each factor
            values[some] *= (
                _laplace(places[some], w) if cone is None else _separate(cone, places[some], w)
            ) ** n
        one = np.ones(1)
        return _Law(places, values * np.exp(-((0.03 * places) ** 2) / 2), one, one, reach)
    shape = groups * cone.dimensions + 2
    deviation = 1 / math.sqrt(shape * (shape + 1))  # of X, as R has that mean square
    reach = min(sum(n * _largest(cone, w) for n, w in parts), 9 * deviation)
    count = int((60 if far else 25) / deviation * reach / math.pi) + 1
    at = np.asarray((np.arange(count) + 0.5) * (math.pi / reach), np.float64)
    found = _joint(cone, groups, at, parts)
    # A little Gaussian noise more, beside which what is left out is small.
    smooth = np.exp(-((at * deviation * (0.03 if far else 0.08)) ** 2) / 2)
    return _Law(at, found * smooth, *_radii(shape, 40), reach)


def _largest(cone: Cone, weights: Floats) -> float:
    """Return the largest value of a form of one group in joint noise of radius 1."""
    units = weights[0] if cone.units else 0.0
    rows = abs(units + weights[int(cone.units)]) + np.abs(weights[1 + cone.units :]).sum()
    return float(max(abs(units), rows))


def _radii(shape: int, nodes: int) -> tuple[Floats, Floats]:
    """Return nodes and weights of a Gamma law."""
    root = math.sqrt(shape)
    ends = np.array([lowest(shape), shape, shape + 6 * root, shape + 20 * root + 60])
    place, weight = rule(nodes)
    radii = (ends[:-1, None] + np.diff(ends)[:, None] * (place + 1) / 2).ravel()
    chances = (np.diff(ends)[:, None] * weight / 2).ravel() * density(shape, radii)
    return radii, chances / chances.sum()


def _sinc(x: Floats) -> Floats:
    return np.asarray(np.sinc(x / np.pi))


def _laplace(places: Floats, weights: Floats) -> Floats:
    return np.asarray(1 / np.prod(1 + np.square(places[:, None] * weights), axis=1))


def _separate(cone: Cone, places: Floats, weights: Floats) -> Floats:
    """Return the characteristic function of a form of one group of separate noise.

    The count and signed numbers are uniform in a cube of a Gamma radius; units are the count and a Laplace
    number.
    """
    units = weights[0] if cone.units else 0.0
    radii, chances = _radii(cone.signed + 2, 60)
    found = np.ones((len(places), len(radii)))
    for weight in (units + weights[int(cone.units)], *weights[1 + cone.units :]):
        if weight:
            found *= _sinc(np.outer(places * weight, radii))
    return np.asarray(found @ chances / (1 + np.square(places * units)))


def _separate_covariances(cone: Cone) -> Floats:
    found = np.eye(cone.dimensions) * (cone.signed + 2) * (cone.signed + 3) / 3
    if cone.units:
        found[0, 1] = found[1, 0] = found[1, 1]
        found[0, 0] += 2
    return found


def _joint(cone: Cone, groups: int, places: Floats, parts: Parts) -> Floats:
    """Return the characteristic function of a form of joint noise of radius 1."""
    turns = float(places[-1]) * sum(n * _largest(cone, w) for n, w in parts) * split_spread(cone, groups)
    theta, chances = splits(cone, groups, 8 + min(int(turns / 4), 200))
    known: dict[tuple[float, ...], Any] = {}
    found: Any = np.ones((len(theta), len(places)), np.complex128)
    for n, w in parts:
        some = np.abs(found).max(axis=0) > _NOTHING  # fewer with each factor
        key, other = tuple(w.tolist()), tuple((-w).tolist())
        if key not in known:
            known[key] = np.zeros_like(found)
            known[key][:, some] = _group_characteristic(cone, theta, places[some], w)
            known[other] = known[key].conj()
        found[:, some] *= known[key][:, some] ** n
    return np.asarray(chances @ found.real)  # θ and 1 - θ have conjugates


def _group_characteristic(cone: Cone, theta: Floats, places: Floats, weights: Floats) -> Any:
    """Return the characteristic function of a form of one group, given θ: of shape (θ, places)."""
    units = weights[0] if cone.units else 0.0
    rows, signed = units + weights[int(cone.units)], weights[1 + cone.units :]
    turns = float(places[-1]) * (abs(rows) + abs(units) + np.abs(signed).sum())
    slices = Slices.of(cone, theta, 8 + int(turns / 8))
    t, inner, at = slices.t[:, None], slices.inner[:, None], places[:, None]
    along = rows - units / 2
    found = np.exp(1j * along * at * slices.middle[:, None]) * _sinc(along * at * slices.half[:, None])
    if units:
        found = found * np.exp(1j * at * units * (theta[:, None, None] - 0.5))
        found = found * _sinc(at * units * (1 - t) / 2)
    flat, edge = np.ones(1), np.zeros(1)
    for weight in signed:
        one = _sinc(at * weight * t)
        flat, edge = flat * one, edge * one + flat * np.cos(at * weight * t)
    if len(signed):
        found = found * np.where(inner > 0, edge / len(signed), flat)
    return (found * slices.chance[:, None]).sum(axis=-1)
