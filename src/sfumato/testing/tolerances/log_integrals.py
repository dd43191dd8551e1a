"""Integrals and sums of positive functions that are given by their logarithms, many at once.

An integral is cut into panels; each has a Gauss rule of 16 nodes. A sum over whole numbers is treated
alike: the nodes are then Gauss's for the uniform weight on the whole numbers of the panel, so that a panel
of 16 or fewer is summed exactly, a long one costs no more than an integral, and nothing but the smoothness
of the function is asked in between. A panel is halved until it and its halves agree; what they disagree
by, summed, is the stated error (that of the coarser of the two, so that it is far on the safe side).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass

Floats = NDArray[np.float64]
Groups = NDArray[np.int64]
# (group, places of shape (panels, nodes)) -> logarithms of the values and of their errors.
Function = Callable[[Groups, Floats], tuple[Floats, Floats]]

_order = 16
_rounds = 40
_negligible = 60.0  # e^-60 of the total is not looked at closer


@dataclass(frozen=True)
class Panels:
    """The panels of an integral or sum: pieces of the line, each with the number of its integral.

    Args:
        group: shape (panels,).
        low: shape (panels,), left ends.
        high: shape (panels,), right ends; for whole numbers the last one, included.
        whole: a sum over whole numbers instead of an integral.
    """

    group: Groups
    low: Floats
    high: Floats
    whole: bool = False

    def __len__(self) -> int:
        return len(self.group)

    def select(self, chosen: NDArray[np.bool_]) -> Panels:
        """Return some of the panels of integrals."""
        return Panels(self.group[chosen], self.low[chosen], self.high[chosen], self.whole)

    def halves(self) -> Panels:
        """Return the left halves of an integral's panels, then the right ones."""
        middle = np.floor((self.low + self.high) / 2) if self.whole else (self.low + self.high) / 2
        following = middle + 1 if self.whole else middle
        low, high = np.concatenate([self.low, following]), np.concatenate([middle, self.high])
        return Panels(np.concatenate([self.group, self.group]), low, high, self.whole)

    def rule(self) -> tuple[Floats, Floats]:
        """Return the nodes of Gauss's rule in each panel, and the logarithms of their weights."""
        if not self.whole:
            nodes, log_weights = _legendre()
            half = ((self.high - self.low) / 2)[:, None]
            with np.errstate(divide="ignore"):
                return (self.low[:, None] + half) + half * nodes, log_weights + np.log(half)
        counts = np.maximum(self.high - self.low + 1, 0)
        distinct, place = np.unique(counts, return_inverse=True)
        rules = [integer_rule(int(n)) for n in distinct.tolist()]
        nodes = np.stack([r[0] for r in rules])[place]
        return self.low[:, None] + nodes, np.stack([r[1] for r in rules])[place]


def log_integrals(
    function: Function, panels: Panels, groups: int, relative: float = 1e-13
) -> tuple[Floats, Floats]:
    """Integrate (or sum) a positive function over panels, by groups, in logarithms.

    Args:
        function: group and places of shape (panels, nodes) -> logarithms of values, and of their errors.
        panels: where; within a panel the function is smooth.
        groups: how many integrals there are.
        relative: the error, as a part of the integral, that is worth no further halving.
    Returns:
        Logarithms of the integrals and of the bounds of their errors, of shape (groups,).
    """
    panels = panels.select(panels.high >= panels.low if panels.whole else panels.high > panels.low)
    done = np.full(groups, -np.inf)
    error = np.full(groups, -np.inf)
    coarse, coarse_error = _evaluate(function, panels)
    for _ in range(_rounds):
        total = np.logaddexp(done, _gather(coarse, panels.group, groups))
        exact = panels.high - panels.low < _order if panels.whole else np.zeros(len(panels), bool)
        with np.errstate(invalid="ignore"):
            small = ~(coarse >= total[panels.group] - _negligible)
        finished = exact | small
        done = np.logaddexp(done, _gather(coarse[finished], panels.group[finished], groups))
        kept = np.where(exact, coarse_error, np.logaddexp(coarse, coarse_error))
        error = np.logaddexp(error, _gather(kept[finished], panels.group[finished], groups))
        panels, coarse = panels.select(~finished), coarse[~finished]
        if not len(panels):
            break
        halves = panels.halves()
        fine, fine_error = _evaluate(function, halves)
        count = len(panels)
        both = np.logaddexp(fine[:count], fine[count:])
        gap = log_difference(both, coarse)
        good = gap <= total[panels.group] + np.log(relative / 8)
        done = np.logaddexp(done, _gather(both[good], panels.group[good], groups))
        below = np.logaddexp(fine_error[:count], fine_error[count:])
        kept = np.logaddexp(gap, below)
        error = np.logaddexp(error, _gather(kept[good], panels.group[good], groups))
        again = np.concatenate([~good, ~good])
        panels, coarse, coarse_error = halves.select(again), fine[again], fine_error[again]
    else:
        done = np.logaddexp(done, _gather(coarse, panels.group, groups))
        error = np.logaddexp(error, _gather(coarse, panels.group, groups))
    return done, np.logaddexp(error, roundoff(done))


def roundoff(value: Floats) -> Floats:
    """Return the logarithm of the rounding error of an integral that is given by its logarithm."""
    finite = np.where(np.isfinite(value), value, 0)
    return value + np.log(2.0**-49 * (8 + np.abs(finite)))


def graded(points: Sequence[Floats], is_integer: bool = False, levels: int = 10) -> Panels:
    """Cut the line of an integral between breakpoints into panels that grow finer towards each of them.

    Args:
        points: rising, each of shape (groups,); equal ones are allowed. For whole numbers, a panel ends
            before a breakpoint, and a breakpoint that is whole starts the next one.
        is_integer: cut into panels of whole numbers, the last breakpoint included.
        levels: how many times, by 4, the panels shrink towards a breakpoint.
    """
    inner = 0.25 ** np.arange(levels, 0, -1)
    shares = np.concatenate([[0], inner, [0.5], 1 - inner[::-1], [1]])
    ends = [np.asarray(points[0], float)]
    for a, b in pairwise(points):
        ends += [a + (b - a) * share for share in shares[1:-1].tolist()] + [np.asarray(b, float)]
    table = np.stack(ends)
    groups = table.shape[1]
    group = np.tile(np.arange(groups), len(table) - 1)
    if not is_integer:
        return Panels(group, table[:-1].ravel(), table[1:].ravel())
    starts = np.ceil(table)
    low, high = starts[:-1].copy(), starts[1:] - 1
    high[-1] = np.floor(table[-1])
    return Panels(group, low.ravel(), high.ravel(), True)


def log_difference(a: Floats, b: Floats) -> Floats:
    """Return log |e^a - e^b| of two integrals given by their logarithms."""
    high, low = np.maximum(a, b), np.minimum(a, b)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.log(-np.expm1(low - high))
        return np.where(np.isneginf(high), -np.inf, high + gap)


def _evaluate(function: Function, panels: Panels) -> tuple[Floats, Floats]:
    if not len(panels):
        return np.empty(0), np.empty(0)
    nodes, log_weights = panels.rule()
    values, errors = function(panels.group, nodes)
    return log_sum(values + log_weights), log_sum(errors + log_weights)


def log_sum(terms: Floats) -> Floats:
    """Return the logarithms of the sums of e^terms along the last axis, for integrals."""
    peak = terms.max(axis=-1, keepdims=True)
    safe = np.where(np.isfinite(peak), peak, 0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(terms - safe).sum(axis=-1)) + safe[..., 0])


def _gather(values: Floats, group: Groups, groups: int) -> Floats:
    """Add up the panels of each integral, in logarithms."""
    peak = np.full(groups, -np.inf)
    np.maximum.at(peak, group, values)
    safe = np.where(np.isfinite(peak), peak, 0)
    with np.errstate(divide="ignore"):
        return np.log(np.bincount(group, np.exp(values - safe[group]), groups)) + safe


@lru_cache(maxsize=1)
def _legendre() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(_order)
    return nodes, np.log(weights)


@lru_cache(maxsize=1 << 14)
def integer_rule(count: int) -> tuple[Floats, Floats]:
    """Return Gauss's nodes and log weights for the sum over 0, 1, ..., count - 1 in a panel.

    The eigenvalues of the Jacobi matrix of the discrete Chebyshev (Gram) polynomials; up to 16 terms the sum
    itself, filled up with weights of 0.

    >>> nodes, log_weights = integer_rule(1000)
    >>> round(float(np.exp(log_weights) @ nodes**31) / sum(i**31 for i in range(1000)), 12)
    1.0

    Source:
        Golub and Welsch 1969; Gautschi 2004, "Orthogonal polynomials", table 1.2.
    """
    if count <= _order:
        log_weights = np.full(_order, -np.inf)
        log_weights[:count] = 0
        return np.minimum(np.arange(_order), max(count - 1, 0)).astype(float), log_weights
    i = np.arange(1, _order)
    beta = i * i * (1 - (i / count) ** 2) / (4.0 * (4 * i * i - 1)) * 4
    off = np.sqrt(beta)
    values, vectors = np.linalg.eigh(np.diag(off, 1) + np.diag(off, -1))
    values = (values - values[::-1]) / 2
    return (count - 1) / 2 + values * (count / 2), np.log(count * vectors[0] ** 2)
