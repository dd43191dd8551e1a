"""The closeness test: checks of a sample against a law, and Chernoff bounds on their counts."""

from __future__ import annotations

import math
import numbers
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.audit.closeness.closeness_result import Check, Closeness
from sfumato.audit.closeness.reference_law import (
    FLOAT_ATOM,
    Cdf,
    Reference,
    VectorLaw,
    reference_from_cdf,
    reference_from_law,
)
from sfumato.audit.closeness.two_samples import RESIDUES, compare_samples
from sfumato.errors import ParameterError
from sfumato.exact import Number, positive
from sfumato.noise import Law

Floats = NDArray[np.float64]

_ROW = "a list of numbers"
_LAWS = "a law of sfumato.noise, a distribution function, or a mapping to probabilities"


def bound_upper_tail(counts: NDArray[Any], samples: int, p: ArrayLike) -> Floats:
    """Bound P(Binomial(samples, p) >= count) from above, for a check of counts against a law.

    Args:
        counts: whole numbers from 0 to `samples`.
        samples: number of draws.
        p: probability of each, from 0 to 1.
    Returns:
        Bounds, 1 where the count is at most its expectation.

    >>> bound_upper_tail(np.array([5, 20]), 100, 0.1)
    array([1.        , 0.0117...])

    Source:
        Chernoff 1952; Hoeffding 1963, theorem 1: exp(-n KL(count/n, p)).
    """
    k, p = np.broadcast_arrays(np.asarray(counts, np.float64), np.asarray(p, np.float64))
    rest = samples - k
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = np.where(k > 0, k * (np.log(k / samples) - np.log(p)), 0.0)
        outside = np.where(rest > 0, rest * (np.log(rest / samples) - np.log1p(-p)), 0.0)
    return np.asarray(np.where(k > samples * p, np.exp(-np.maximum(inside + outside, 0.0)), 1.0))


def bound_lower_tail(counts: NDArray[Any], samples: int, p: ArrayLike) -> Floats:
    """Bound P(Binomial(samples, p) <= count) from above, for a check of counts; see `bound_upper_tail`."""
    return bound_upper_tail(samples - np.asarray(counts), samples, 1 - np.asarray(p, np.float64))


def bound_two_sided_tail(counts: NDArray[Any], samples: int, p: ArrayLike) -> Floats:
    """Bound the probability under a law of a count as far off on either side."""
    least = np.minimum(bound_upper_tail(counts, samples, p), bound_lower_tail(counts, samples, p))
    return np.asarray(np.minimum(1.0, 2 * least))


# Of a real law, bits are looked at down to this power of two of its scale.
_FINEST = 2.0**-40


def repeats(values: NDArray[np.generic], maximum: float) -> tuple[int, float]:
    """Count the draws that repeat an earlier value, and bound the probability of so many under a law.

    Given the past, draw i repeats an earlier value with probability at most (i - 1) * most: so many
    repeats are at most as probable as for independent coins of these probabilities, which Chernoff
    bounds by (e mu / k)^k e^-mu, where mu is their sum.

    Args:
        values: the sample.
        maximum: bound on the probability of any single value.
    Returns:
        Number of repeats, and the bound.

    >>> repeats(np.array([1.0, 2.0, 1.0]), 2.0**-52)
    (1, 1.8...e-15)
    """
    n, k = len(values), len(values) - len(np.unique(values))
    mu = n * (n - 1) / 2 * maximum
    if k <= mu:
        return k, 1.0
    return k, math.exp(min(0.0, k - mu + k * math.log(mu / k)))


def residues(
    values: Floats | NDArray[np.int64], density: float, unit: float, *, is_integer: bool
) -> Iterator[tuple[str, float]]:
    """Bound the probability under a law of the counts of four bits at several depths.

    For a density that rises and then falls, and has no value above d, the part of it on every 16th
    interval of length g differs from 1/16 by at most d g; so does a sum of probabilities of whole numbers.

    Args:
        values: the sample, in grid steps if `is_integer`.
        density: bound on the density, or on the probability of a whole number.
        unit: the law's scale.
        is_integer: the values are whole numbers.
    Yields:
        What was counted, and a bound on its probability.
    """
    step = 2.0 ** math.floor(math.log2(unit * _FINEST))
    if is_integer:
        step = max(step, 1.0)
    while density * step < 0.01 / RESIDUES:
        # Exact: floats are divided by a power of two, whole numbers that floats cannot hold as such.
        steps = values // int(step) if values.dtype.kind in "iu" else np.floor(values / step)
        found = np.bincount((steps % RESIDUES).astype(np.int64), minlength=RESIDUES)
        least, most = 1 / RESIDUES - density * step, 1 / RESIDUES + density * step
        bounds = bound_lower_tail(found, len(steps), least), bound_upper_tail(found, len(steps), most)
        yield f"the four bits from {step:.3g} on", min(1.0, float(2 * RESIDUES * np.minimum(*bounds).min()))
        step *= RESIDUES


def closeness(
    sample: Sequence[Any] | NDArray[Any],
    law: Law | Cdf | VectorLaw | Mapping[Any, float] | Sequence[Any] | NDArray[Any],
    *,
    grid: Number | None = None,
    alpha: float = 1e-9,
) -> Closeness:
    """Test a sample of noise against the distribution that it should follow, or against another sample.

    Args:
        sample: independent draws: numbers, vectors, or, for a mapping, values that can be keys.
        law: a law from `sfumato.noise`; or the distribution function of a real variable, increasing from 0 to
            1; or a `VectorLaw`, whose projections are each checked this way; or a mapping from each possible
            value to its probability; or another sample of numbers, of any size, for example from a clean-room
            implementation of the noise.
        grid: the grid of the sample, if it is noise of the law rounded to multiples of this: 1 for
            `law.rounded(n)`, and by default for discrete noise. None for noise that should be real, as
            float64 with at least 52 random bits, and for two samples, which are compared with each other.
        alpha: a bound on the probability that a sample of the law fails, or that two samples of the same law
            do, whatever it is.
    Returns:
        A `Closeness`: the finding of each check, and the verdict in `passed`.
    Raises:
        ParameterError: a sample is empty or does not consist of numbers, or another parameter is not valid.

    >>> import numpy as np
    >>> from sfumato.noise import Laplace, SeededWords
    >>> noise = Laplace(1000).rounded(20_000, SeededWords(1))
    >>> closeness(noise, Laplace(1000), grid=1).passed
    True
    >>> result = closeness(noise, Laplace(1100), grid=1)
    >>> result.passed, [check.name for check in result.failed]
    (False, ['tails', 'scale'])
    >>> another = np.random.default_rng(1).laplace(0, 1000, 20_000)
    >>> closeness(noise, np.rint(another)).passed, closeness(noise, np.rint(another * 1.2)).passed
    (True, False)

    Source:
        Desfontaines 2020, section 4.2.6, on closeness tests; Massart 1990 for the constant of "distance";
        Wald 1945 for the likelihood ratios of "scale"; docs/audit.md for the power of each check, and
        docs/proofs/closeness.md for their bounds, including those for two samples.
    """
    if not isinstance(alpha, (int, float)) or not 0 < alpha < 1:
        raise ParameterError("alpha", alpha, "between 0 and 1")
    if grid is not None and not (isinstance(law, (Law, VectorLaw)) or callable(law)):
        raise ParameterError("grid", grid, "None where the law is a mapping or a sample")
    if grid is None and isinstance(law, Law) and law.discrete:
        grid = 1
    others = None
    if isinstance(law, Mapping):
        values: Any = _listed(sample)
        checks = list(_check_values(values, law))
    elif isinstance(law, VectorLaw):
        step, values, checks = None if grid is None else positive(grid, "grid"), sample, []
        for name, projected, of_it in law.projected(sample):
            own = _numbers(projected, f"projection {name!r}", _ROW)
            checks += [replace(c, name=f"{name}: {c.name}") for c in _check_numbers(own, of_it, step, alpha)]
    elif isinstance(law, Law) or callable(law):
        values = _numbers(sample, "sample", _ROW)
        checks = list(_check_numbers(values, law, None if grid is None else positive(grid, "grid"), alpha))
    else:
        values, other = _numbers(sample, "sample", _ROW), _numbers(law, "law", f"{_LAWS}, or {_ROW}")
        others = len(other)
        if values.dtype != other.dtype:  # of numbers of both kinds, float64 is what can be compared
            values, other = values.astype(np.float64), other.astype(np.float64)
        checks = list(compare_samples(values, other, alpha))
    passed = all(c.probability > alpha / len(checks) for c in checks)
    return Closeness(passed, alpha, len(values), tuple(checks), others)


def _numbers(sample: Any, name: str, expected: str) -> NDArray[Any]:
    """Return a sample as int64, or else as float64, and refuse one that is no row of numbers."""
    try:
        values = np.asarray(sample)
    except ValueError:  # rows of several lengths
        raise ParameterError(name, sample, expected) from None
    if values.shape == (0,):
        raise ParameterError(name, sample, "at least one draw")
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise ParameterError(name, f"of {values.dtype} in {values.ndim} dimensions", expected)
    if values.dtype.kind == "f":
        return values.astype(np.float64)
    return values.astype(np.int64 if values.max() < 2**63 else np.float64)


def _listed(sample: Any) -> list[Any]:
    if isinstance(sample, (str, bytes)) or not isinstance(sample, Iterable):
        raise ParameterError("sample", sample, "a list of draws")
    values = list(sample)
    if not values:
        raise ParameterError("sample", sample, "at least one draw")
    return values


def _check_numbers(
    values: NDArray[Any], law: Law | Cdf, grid: Fraction | None, alpha: float
) -> Iterator[Check]:
    n = len(values)
    known = isinstance(law, Law)
    reference = (
        reference_from_law(law, grid, n, alpha)
        if isinstance(law, Law)
        else reference_from_cdf(law, grid, n, alpha)
    )
    wrong = ~np.isfinite(values)
    if grid is not None and not (grid == 1 and values.dtype.kind in "iu"):
        steps = values / float(grid)
        values = np.rint(steps)
        # A multiple of a grid such as 0.1 is a float near it, and so is the quotient.
        with np.errstate(invalid="ignore"):
            wrong |= np.abs(steps - values) > 2.0**-50 * np.abs(steps)
    bad = int(wrong.sum())
    where = "finite" if grid is None else "finite multiples of the grid"
    yield Check("values", 0.0 if bad else 1.0, f"{n - bad} of {n} are {where}")
    values = values[~wrong]
    if not len(values):
        return
    counts = np.bincount(
        np.searchsorted(reference.boundaries, values, side="left"), minlength=len(reference.cells)
    )
    yield _distance(counts, reference, n)
    yield _cells(counts, reference, n)
    yield _tails(values, reference, n)
    yield _scale(counts, reference)
    if known:
        yield from _bits(values, reference, is_integer=grid is not None)


def _distance(counts: NDArray[Any], reference: Reference, n: int) -> Check:
    """Check the largest distance of a sample's distribution function from that of its law."""
    distances = np.abs(np.cumsum(counts)[:-1] / n - reference.below)
    largest = float(distances.max(initial=0.0))
    probability = min(1.0, 2 * math.exp(-2 * n * largest**2))
    return Check("distance", probability, f"distribution functions are {largest:.3g} apart")


def _cells(counts: NDArray[Any], reference: Reference, n: int) -> Check:
    found = bound_two_sided_tail(counts, n, reference.cells)
    worst = int(np.argmin(found))
    edges = [-math.inf, *reference.boundaries.tolist(), math.inf]
    text = (
        f"{counts[worst]} draws above {edges[worst]:.6g} and up to {edges[worst + 1]:.6g}, "
        f"where {n * reference.cells[worst]:.1f} are expected"
    )
    return Check("cells", min(1.0, float(found[worst]) * len(found)), text)


def _tails(values: NDArray[Any], reference: Reference, n: int) -> Check:
    beyond = np.array(
        [(values > t.bound).sum() if t.upper else (values <= t.bound).sum() for t in reference.tails]
    )
    found = bound_two_sided_tail(beyond, n, np.array([t.probability for t in reference.tails]))
    worst = int(np.argmin(found))
    tail = reference.tails[worst]
    text = (
        f"{beyond[worst]} draws {'above' if tail.upper else 'up to'} {tail.bound:.6g}, "
        f"where {n * tail.probability:.3g} are expected"
    )
    return Check("tails", min(1.0, float(found[worst]) * len(found)), text)


def _scale(counts: NDArray[Any], reference: Reference) -> Check:
    """Check by likelihood ratios whether a sample has another scale than its law."""
    ratios = {}
    # What has no probability at all tells nothing about the scale.
    counts = np.where(reference.cells > 0, counts, 0)
    for factor, cells in reference.scaled.items():
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(counts > 0, counts * (np.log(cells) - np.log(reference.cells)), 0.0)
        ratios[factor] = float(logs.sum())
    best = max(ratios, key=lambda factor: ratios[factor])
    mean = float(np.logaddexp.reduce(list(ratios.values()))) - math.log(len(ratios))
    likelier = ratios[best] / math.log(10)
    text = f"{best:g} times the scale is 10^{likelier:.1f} times as likely as the scale itself"
    return Check("scale", math.exp(-max(mean, 0.0)), text)


def _bits(values: NDArray[Any], reference: Reference, *, is_integer: bool) -> Iterator[Check]:
    assert reference.most is not None
    assert reference.density is not None
    assert reference.unit is not None
    # Floats on a fine grid are rounded once more: to so many bits, whatever the grid.
    most = reference.most if values.dtype.kind in "iu" else max(reference.most, FLOAT_ATOM)
    repeated, probability = repeats(values, most)
    yield Check("repeats", probability, f"{repeated} of {len(values)} draws repeat an earlier value")
    density = reference.most if is_integer else reference.density
    found = list(residues(values, density, reference.unit, is_integer=is_integer))
    if found:
        text, worst = min(found, key=lambda f: f[1])
        yield Check("low bits", min(1.0, worst * len(found)), text)


def _check_values(values: list[Any], law: Mapping[Any, float]) -> Iterator[Check]:
    """Check the counts of a sample's values against a law that lists their probabilities."""
    wrong = {v: p for v, p in law.items() if not isinstance(p, numbers.Real) or not 0 <= p <= 1}
    if wrong:
        raise ParameterError("law", wrong, "a mapping to probabilities from 0 to 1")
    total = math.fsum(law.values())
    if abs(total - 1) > 1e-9:
        raise ParameterError("law", f"a mapping whose probabilities sum to {total:g}", "one whose sum is 1")
    n = len(values)
    found = dict.fromkeys(law, 0)
    strange = []
    for v in values:
        if isinstance(v, Hashable) and v in found:
            found[v] += 1
        else:
            strange.append(v)
    text = f"{strange[0]!r} has no probability" if strange else "each has a probability"
    yield Check("values", 0.0 if strange else 1.0, text)
    chances = bound_two_sided_tail(
        np.array(list(found.values())), n, np.array(list(law.values()), np.float64)
    )
    worst = int(np.argmin(chances))
    value = list(law)[worst]
    text = f"{found[value]} draws of {value!r}, where {n * law[value]:.1f} are expected"
    yield Check("cells", min(1.0, float(chances[worst]) * len(chances)), text)
