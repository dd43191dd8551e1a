"""The tail of a noisy histogram, outwards from a centre: where values end, and how far out to put a bound.

Distances are counted outwards from a centre. A bound further out brings more noise, one nearer cuts off more:
the logarithm of the error is averaged over the tails that could have given these numbers.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FINE = 4  # bins for each octave
_SAME = 1e-9  # floats that were computed in two ways are still the same edge
# Runs of so many bins are looked at together.
_RUNS = (1, 2, 4, 8, 16)
# With which probability noise alone is taken for values: anywhere, and next to values, so much less probable
# with each octave further out, that a run of noise ten times as far out as values is seen about once in a
# hundred million histograms.
_ANYWHERE, _NEAR, _BY_OCTAVE = 1e-5, 3e-5, 5.0
_INSIDE, _NEXT = 1e-4, 1e-3  # beside the middle of values: anywhere, and next to it
# Where too few are seen: how much less values of other magnitudes than 1 are expected, by octave.
_UNUSUAL = 0.3
# A tail is described from where it still has so many times the scale of the noise, with these powers of the
# distance, and an end at one of the edges, or beyond them.
_WELL_KNOWN = 8.0
_POWERS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 9, 14, 30])
_BINS_BEYOND, _EDGES_BEYOND = 8, 4
# Outliers beside it, in scales of the noise: spread over octaves, or all in one bin.
_SPREAD, _TOGETHER = (0.5, 1.0, 2.0, 4.0, 8.0), (1.0, 2.0, 4.0, 8.0)
# How probable each kind of outliers is, where that there are none has 1.
_SPREAD_ODDS, _TOGETHER_ODDS = 0.5, 0.2
# A bound is no further out than so many times where values are: noise may fill the end of a long run.
_FURTHEST = 4.0


@dataclass(frozen=True)
class Side:
    """One side of a noisy histogram: bins outwards from a centre.

    Args:
        edges: distances from the centre, of the bins' ends; one more than bins, increasing.
        counts: noisy numbers of units.
        terms: how many Laplace noises each number has.
        scale: of each of these.
    """

    edges: Floats
    counts: Floats
    terms: Integers
    scale: float

    @property
    def scales(self) -> Floats:
        """The scale of one Laplace noise as wide as all noise in each bin of the histogram."""
        return self.scale * np.sqrt(self.terms)

    def coarse(self) -> Side:
        """Return the side of the histogram with bins merged to at least a quarter of an octave."""
        starts, size = [0], len(self.counts)
        while starts[-1] < size:
            reached = self.edges[starts[-1]] * 2 ** (1 / FINE) * (1 - 1e-9)
            starts.append(max(starts[-1] + 1, min(int(np.searchsorted(self.edges, reached)), size)))
        if not size:
            return Side(np.array([0.0]), self.counts, self.terms, self.scale)
        counts, terms = (np.add.reduceat(each, starts[:-1]) for each in (self.counts, self.terms))
        return Side(self.edges[starts], counts, terms, self.scale)

    def last_run(self, inside: bool = False) -> tuple[int, int] | None:
        """Return the outermost run of bins of the histogram with values; None if there is none.

        Args:
            inside: whether there are values on the other side of the centre, which is their middle.
        """
        found = (
            self.run_beyond_noise(_INSIDE) or self._first_run()
            if inside
            else self.run_beyond_noise(_ANYWHERE)
        )
        for _ in range(3):
            if found is None:
                break
            octaves = np.log2(np.maximum(self.edges[1:], 1e-300)) - np.log2(self.edges[found[0] + 1])
            octaves = np.clip(octaves, 0, 100)
            near = np.where(octaves > 0, _NEAR * 2.0 ** (-_BY_OCTAVE * octaves), 0)
            further = self._last_run(near)
            if further is None:
                break
            found = further
        return found

    def _first_run(self) -> tuple[int, int] | None:
        """Return a run of bins next to the centre that noise alone seldom fills; None if there is none."""
        logs = [(float(self._logs(run)[0]), run) for run in _RUNS if run <= len(self.counts)]
        least, run = min(logs, default=(0.0, 0))
        return (0, run) if least < math.log(_NEXT / len(_RUNS)) else None

    def run_beyond_noise(self, probability: float) -> tuple[int, int] | None:
        """Return the outermost run of histogram bins that noise alone fills with at most a probability."""
        size = len(self.counts)
        return self._last_run(np.full(size, probability / len(_RUNS) / max(size, 1)))

    def likeliest_run(self) -> tuple[float, int, int]:
        """Return the run of histogram bins that noise fills least often, behind its log probability."""
        best = (math.inf, 0, len(self.counts))
        for run in _RUNS:
            logs = self._logs(run)
            logs = logs + _UNUSUAL * np.abs(np.log2(self.edges[run:]))[: len(logs)]
            if len(logs) and logs.min() < best[0]:
                best = float(logs.min()), int(logs.argmin()), int(logs.argmin()) + run
        return best

    def _logs(self, run: int) -> Floats:
        """Return the log probability that noise alone gives each run of histogram bins its count."""
        if run > len(self.counts):
            return np.empty(0)
        counts, terms = (np.concatenate([[0], np.cumsum(each)]) for each in (self.counts, self.terms))
        return log_probability((counts[run:] - counts[:-run]) / self.scale, terms[run:] - terms[:-run])

    def _last_run(self, levels: Floats) -> tuple[int, int] | None:
        """Return the outermost run of histogram bins that is at most as probable under noise as its level."""
        best: tuple[int, int] | None = None
        for run in _RUNS:
            logs = self._logs(run)
            level = levels[: len(logs)]
            starts = np.nonzero((level > 0) & (logs < np.log(np.maximum(level, 1e-300))))[0]
            if len(starts) and (best is None or starts[-1] > best[0]):
                best = int(starts[-1]), int(starts[-1]) + run
        return best

    def bound(
        self, noise: float, other: float, unseen: float, before: Side | None = None, inside: bool = False
    ) -> float:
        """Return the distance at which to put a bound: the least mean log error over probable tails.

        Args:
            noise: deviation of a total's noise, for bounds that are one apart.
            other: the distance of the bound on the other side.
            unseen: what is returned where no bin has values.
            before: an earlier histogram, with wider bins.
            inside: whether there are values on the other side of the centre, which is their middle.
        Returns:
            One of the edges, or a distance beyond them.
        """
        if not len(self.counts):
            return unseen
        last = self.last_run(inside)
        if last is None:
            return unseen
        beyond = np.cumsum(self.counts[: last[1]][::-1])[::-1]
        known = np.nonzero(beyond >= _WELL_KNOWN * self.scales[: last[1]])[0]
        first = min(int(known[-1]), last[0]) if len(known) else last[0]
        end = min(len(self.counts), last[1] + _BINS_BEYOND)
        edges, counts, scales = self.edges[first : end + 1], self.counts[first:end], self.scales[first:end]
        tried = np.concatenate([edges, edges[-1] * 2 ** (np.arange(1, _EDGES_BEYOND + 1) / 2)])
        tails, prior = _tails(tried, max(beyond[first], 3 * scales[0]), scales[0])
        expected = tails[..., : len(counts)] - tails[..., 1 : len(counts) + 1]
        logs = prior + _log_likelihood(expected, counts, scales)
        if before is not None:
            logs = logs + before.log_likelihood(edges, expected)
        tails, likely = _likely(tails, logs)
        errors = np.hypot(noise * (tried + other), _cut_off(tails, tried))
        # Of the logarithm: the mean of errors would pay for a few bad releases with all others.
        # Beside a middle of values, distances that are near to zero say nothing of how far values go.
        furthest = max(_FURTHEST * self.edges[last[0] + 1], self.edges[last[1]] if inside else 0.0)
        errors = errors[:, tried <= furthest]
        return float(tried[(likely @ np.log(np.maximum(errors, 1e-300))).argmin()])

    def log_likelihood(self, edges: Floats, expected: Floats) -> Floats:
        """Return the log likelihood of an earlier histogram's bins, given expected counts of other bins.

        Args:
            edges: of the other bins.
            expected: in these, along the last axis.
        """
        at = np.minimum(np.searchsorted(self.edges, edges * (1 - _SAME)), len(self.edges) - 1)
        both = np.nonzero(np.abs(self.edges[at] - edges) <= _SAME * edges)[0]
        if len(both) < 2:
            return np.zeros(expected.shape[:-1])
        ours, theirs = at[both], both

        def between(sums: Floats, ends: NDArray[np.intp]) -> Floats:
            whole = np.concatenate([np.zeros((*sums.shape[:-1], 1)), np.cumsum(sums, axis=-1)], axis=-1)
            return np.asarray(np.diff(whole[..., ends], axis=-1))

        scales = np.sqrt(between(self.scales**2, ours))
        return _log_likelihood(between(expected, theirs), between(self.counts, ours), scales)


def _tails(tried: Floats, units: float, scale: float) -> tuple[Floats, Floats]:
    """Return candidate tails of a histogram with outliers, as units beyond each edge, and log priors.

    A tail falls with a power of the distance up to an end, at one of the edges. There may be a few outliers
    besides: spread evenly over octaves up to another edge, or all in the bin from there.
    """
    base = tried[0] if tried[0] > 0 else tried[1] / 2
    places = np.arange(len(tried))
    powers = np.maximum(tried / base, 1) ** -_POWERS[:, None]
    smooth = units * np.where(places < places[1:, None], powers[:, None], 0.0).reshape(-1, len(tried))
    last = places[2::2]
    left = 1 - np.log(np.maximum(tried / base, 1)) / np.log(tried[last] / base)[:, None]
    spread = np.array(_SPREAD)[:, None, None] * scale * np.maximum(left, 0.0)
    before = places <= places[1:-_EDGES_BEYOND, None]
    together = np.array(_TOGETHER)[:, None, None] * scale * before
    kinds = (np.zeros(len(tried)), 1.0), (spread, _SPREAD_ODDS), (together, _TOGETHER_ODDS)
    few = [kind.reshape(-1, len(tried)) for kind, _ in kinds]
    odds = [np.full(len(one), all_odds / len(one)) for one, (_, all_odds) in zip(few, kinds, strict=True)]
    return smooth[:, None] + np.concatenate(few), np.log(np.concatenate(odds))


def _log_likelihood(expected: Floats, counts: Floats, scales: Floats) -> Floats:
    """Return the log likelihood of noisy histogram counts, but for a constant, given expected ones."""
    around = np.sqrt(scales**2 + expected)
    return np.asarray(-(np.abs(counts - expected) / around + np.log(around)).sum(axis=-1), dtype=np.float64)


def _likely(tails: Floats, logs: Floats) -> tuple[Floats, Floats]:
    """Return the tails of the histogram that are probable enough to matter, and their probabilities."""
    likely = np.exp(logs - logs.max()).ravel()
    kept = likely > 1e-6
    return tails.reshape(-1, tails.shape[-1])[kept], likely[kept] / likely[kept].sum()


def _cut_off(tails: Floats, edges: Floats) -> Floats:
    """Return the total that a bound at each edge would cut off the tail."""
    middle = np.where(tails[..., 1:] == 0, tails[..., :-1], (tails[..., :-1] + tails[..., 1:]) / 2)
    beyond = np.cumsum((middle * np.diff(edges))[..., ::-1], axis=-1)[..., ::-1]
    return np.concatenate([beyond, np.zeros((*beyond.shape[:-1], 1))], axis=-1)


def log_probability(totals: Floats, terms: Integers) -> Floats:
    """Return the log probability that sums of Laplace noise in histogram bins exceed each total.

    Of a total that is not above 0 that of one half, as no more is needed of what is no sign of values.
    A sum of n is the difference of two sums of n exponential numbers: exp(-t) times the sum over i < n of
    t^i / i! P(N < n - i), where N has the negative binomial law of n successes at odds of one half.
    """
    logs = np.empty(len(totals))
    for n in np.unique(terms):
        chosen = terms == n
        t = np.maximum(totals[chosen], 1e-300)[:, None]
        each = np.log(t) * np.arange(n) + _log_weights(int(n))
        most = each.max(axis=1)
        logs[chosen] = most + np.log(np.exp(each - most[:, None]).sum(axis=1)) - t[:, 0]
    return logs


@lru_cache(maxsize=512)
def _log_weights(terms: int) -> Floats:
    """Return the log weights of the terms in the tail of a sum of Laplace noises."""
    log_factorials = np.array([math.lgamma(i + 1.0) for i in range(2 * terms)])
    i = np.arange(terms)
    chances = log_factorials[terms - 1 + i] - log_factorials[i] - log_factorials[terms - 1]
    below = np.logaddexp.accumulate(chances - (terms + i) * math.log(2))
    return np.asarray(below[::-1] - log_factorials[:terms], dtype=np.float64)
