"""Bets on events of outputs: they lose on average if the claim is true."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.claims import Claim, Pair
from sfumato.audit.output_columns import Codes, Draws, Floats, Mask
from sfumato.audit.output_features import Cells, Extract, Feature
from sfumato.dataclass import dataclass
from sfumato.exact.root_finding import halve

# A bet never risks all: 2^-20 of the wealth survives the worst draw.
_CAUTION = 1.0 - 2.0**-20


def best_bet(p: Floats, q: Floats, claim: Pair) -> tuple[Floats, Floats]:
    """Return the bet (c, s) whose wealth grows fastest if the event has probabilities p and q.

    Args:
        p: probability of the event on the first side, in (0, 1).
        q: the same on the second side, in (0, 1).
        claim: what is bet against.
    Returns:
        c and s, 0 where p and q break no claim.

    The factor is then the likelihood ratio of (p, q) to the nearest (p0, q0) with p0 = e^epsilon q0 + delta.

    >>> c, s = best_bet(np.array([0.5, 0.5]), np.array([0.1, 0.4]), Pair(1.0))
    >>> s.round(3)
    array([0.178, 0.   ])

    Source:
        Turner, Ly and Grünwald 2024 (E-variables of 2x2 tables); docs/proofs/audit.md, 2.
    """
    factor = claim.factor
    c, s = np.zeros_like(p), np.zeros_like(p)
    broken = p > factor * q + claim.delta if np.isfinite(factor) else np.zeros(p.shape, np.bool_)
    if not broken.any():
        return c, s
    p, q = p[broken], q[broken]
    first = np.minimum(factor * _find_nearest_claim(p, q, factor, claim.delta) + claim.delta, 1 - 1e-12)
    outside = (1 - p) / (1 - first)
    # Whatever rounding did, the bet stays inside the region that the theorem is about.
    c[broken] = np.clip(1 - outside, 0.0, 1.0)
    s[broken] = np.clip(p / first - outside, 0.0, (1 + c[broken]) / (factor + claim.delta))
    return c * _CAUTION, s * _CAUTION


def log_factors(
    c: Floats, s: Floats, claim: Pair, inside: tuple[Floats, Floats], samples: Floats | int
) -> Floats:
    """Return the logarithm of what bets on events gain over a batch of draws.

    Args:
        c: of the bets.
        s: of the bets, same shape.
        claim: what is bet against.
        inside: number of draws in the event, on the first and on the second side.
        samples: draws on each side.
    """
    x, y = inside
    rest = 1 + c - s * claim.delta
    factor = claim.factor if np.isfinite(claim.factor) else 0.0
    return np.asarray(
        x * np.log(1 - c + s)
        + (samples - x) * np.log1p(-c)
        + y * np.log(rest - s * factor)
        + (samples - y) * np.log(rest)
    )


def growth(p: Floats, q: Floats, claim: Pair) -> Floats:
    """Return the expected logarithm of the best bet's gain, for many events at once.

    Args:
        p: probabilities of events on the first side, in (0, 1).
        q: the same on the second side.
        claim: what is bet against; its delta is put into q, which is exact at delta = 0 and near it else.
    """
    if not np.isfinite(claim.factor):
        return np.zeros_like(p)
    q = np.minimum(q + claim.delta / claim.factor, 1 - 1e-12)
    nearest = _find_nearest_claim(p, q, claim.factor, 0.0)
    first = np.minimum(claim.factor * nearest, 1 - 1e-12)
    found = (
        p * np.log(p / first)
        + (1 - p) * np.log((1 - p) / (1 - first))
        + q * np.log(q / nearest)
        + (1 - q) * np.log((1 - q) / (1 - nearest))
    )
    return np.where(p > claim.factor * q, found, 0.0)


def _find_nearest_claim(p: Floats, q: Floats, factor: float, delta: float) -> Floats:
    """Return the probability q0 within the claim that is nearest to a bet's p and q.

    It is the root of a decreasing function: quadratic at delta = 0, else found by bisection.
    """
    if delta == 0:
        m = 1 / factor
        # With c = 1 - (1 - p)/(1 - p0): (1 - m) c^2 - b c + (m p - q) = 0.
        b = (1 - q) + m * (1 - p)
        gap = np.maximum(m * p - q, 0.0)
        c = 2 * gap / np.maximum(b + np.sqrt(np.maximum(b * b - 4 * (1 - m) * gap, 0.0)), 1e-300)
        first = 1 - (1 - p) / np.maximum(1 - c, 1e-300)
        return np.clip(first * m, 1e-300, m * (1 - 1e-12))

    def falls(q0: Floats) -> NDArray[np.bool_]:
        first = factor * q0 + delta
        slope = factor * (p / first - (1 - p) / (1 - first)) + q / q0 - (1 - q) / (1 - q0)
        return np.asarray(slope <= 0)

    low, high = halve(falls, np.zeros_like(q), np.full_like(q, (1 - delta) / factor), 40)
    return np.asarray((low + high) / 2)


# How many standard errors an event's ratio must survive to count as the most telling one.
_ERRORS = 2.0


@dataclass(frozen=True)
class Candidates:
    """The events of one family, over the cells of a feature, that a bet can choose from.

    Args:
        x: past draws on the first side in each event.
        y: the same on the second side.
        mask: the cells of the event with a given number.
    """

    x: Codes
    y: Codes
    mask: Callable[[int], Mask]


def list_families(x: Codes, y: Codes, ordered: int) -> list[Candidates]:
    """Return the families of events that bets choose from: half-lines, intervals and sets of cells.

    Args:
        x: past draws on the first side in each cell.
        y: the same on the second side.
        ordered: number of leading cells that stand in order; 0 where none do.
    Returns:
        Half-lines and intervals of the ordered cells, if there are any, and sets of cells.
    """
    found = [_sets(x, y)]
    if ordered >= 2:
        found = [_half_lines(x, y, ordered), _intervals(x, y, ordered), *found]
    return found


def find_fastest_growth(events: Candidates, samples: int, claim: Pair) -> int:
    """Return the number of the event on which a bet would have grown fastest; it may break nothing."""
    p, q = estimate_probabilities(events.x, events.y, samples)
    return int(np.argmax(growth(p, q, claim)))


def choose_event(events: Candidates, samples: int, claim: Pair) -> int:
    """Return the number of the event to bet on with the largest ln((p - delta)/q), less its error."""
    p, q = estimate_probabilities(events.x, events.y, samples)
    above = np.maximum(p - claim.delta, 1e-12)
    error = np.sqrt(p * (1 - p) / above**2 + (1 - q) / q) / np.sqrt(samples)
    return int(np.argmax(np.log(above / q) - _ERRORS * error))


def estimate_probabilities(
    x: Codes | Floats, y: Codes | Floats, samples: int | Floats
) -> tuple[Floats, Floats]:
    """Return estimates, never 0 or 1, of an event's probabilities on both sides, for a bet."""
    total = np.asarray(samples, np.float64) + 1
    return (np.asarray(x, np.float64) + 0.5) / total, (np.asarray(y, np.float64) + 0.5) / total


def _half_lines(x: Codes, y: Codes, ordered: int) -> Candidates:
    cells = len(x)
    below = np.cumsum(x[: ordered - 1]), np.cumsum(y[: ordered - 1])
    above = x[:ordered].sum() - below[0], y[:ordered].sum() - below[1]

    def mask(number: int) -> Mask:
        cut = number % (ordered - 1) + 1
        place = np.arange(cells)
        below_cut: Mask = place < cut
        return below_cut if number < ordered - 1 else ~below_cut & (place < ordered)

    return Candidates(np.concatenate([below[0], above[0]]), np.concatenate([below[1], above[1]]), mask)


def _intervals(x: Codes, y: Codes, ordered: int) -> Candidates:
    cells = len(x)
    first, last = np.triu_indices(ordered)
    sums = [np.concatenate([[0], np.cumsum(v[:ordered])]) for v in (x, y)]

    def mask(number: int) -> Mask:
        place = np.arange(cells)
        inside: Mask = (place >= first[number]) & (place <= last[number])
        return inside

    inside_x, inside_y = (s[last + 1] - s[first] for s in sums)
    return Candidates(inside_x, inside_y, mask)


def _sets(x: Codes, y: Codes) -> Candidates:
    """Return sets of cells to bet on, ordered by likelihood ratio: the best set is a prefix."""
    order = np.argsort(-(x + 0.5) / (y + 0.5), kind="stable")

    def mask(number: int) -> Mask:
        found = np.zeros(len(x), np.bool_)
        found[order[: number + 1]] = True
        return found

    return Candidates(np.cumsum(x[order]), np.cumsum(y[order]), mask)


# Cells are learned anew when the past has grown by this factor; until then new draws are only counted.
RELEARN = 1.5
# Evidence that the best set of cells shows by mere chance, for each cell.
_CHANCE = 0.3


@dataclass(frozen=True)
class Step:
    """What one batch did to the bets on one feature: enough to replay them against another claim.

    Arrays have the shape (directions, families, criteria, pairs of the claim).

    Args:
        wager: number of the feature on its pair.
        log_weight: of each of its bets.
        past: draws in the event before the batch, on the side where it should be frequent and on the other.
        past_samples: draws a side behind these.
        inside: the same in the batch.
        samples: draws a side of the batch.
    """

    wager: int
    log_weight: float
    past: tuple[Floats, Floats]
    past_samples: int
    inside: tuple[Floats, Floats]
    samples: int


Place = tuple[int, int, int, int]  # direction, family of events, criterion, pair of the claim


@dataclass(frozen=True)
class Look:
    """The feature, cells and columns of a feature's last bet.

    Args:
        cells: into which it sorted them.
        extract: what of them.
        columns: how many columns were known.
        fitted_on: draws that it was fitted on, and that should not be judged by it.
    """

    cells: Cells
    extract: Extract
    columns: int
    fitted_on: int

    def draws(self, draws: Draws) -> Draws:
        """Return the draws that a bet's feature was not fitted on, with the columns known at the bet."""
        return draws.part(self.fitted_on, len(draws)).narrow(self.columns)


class Wager:
    """The bets on all events of one feature, and their wealth."""

    def __init__(self, feature: Feature, claim: Claim, log_weight: float) -> None:
        self.feature = feature
        self.claim = claim
        self.log_weight = log_weight
        self.extract: Extract = feature.extract
        self.cells: Cells | None = None
        self.log_wealth: Floats | None = None
        self.masks: dict[Place, Mask] = {}
        self.betted: Look | None = None
        self.promise: float = 0.0
        self._counts: tuple[Codes, Codes] = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._samples = 0
        self._learned_at = 0
        self._columns = 0

    def learn(self, x: Draws, y: Draws) -> None:
        """Learn the cells of a feature's bets from all past draws, where these have grown enough."""
        # A half of one draw is none.
        if len(x) < max(2, RELEARN * self._learned_at):
            return
        self._learned_at = len(x)
        self._columns = x.numbers.shape[1]
        if self.feature.fit is not None:
            half = len(x) // 2
            self.extract = self.feature.fit(x.part(0, half), y.part(0, half))
            x, y = x.part(half, len(x)), y.part(half, len(y))
        values = self.extract(x), self.extract(y)
        self.cells = self.feature.learn(*values)
        if self.cells is not None:
            self._counts = self._count(*values)
            self._samples = len(x)

    def bet(self, number: int, x: Draws, y: Draws) -> Step | None:
        """Bet on a new batch of draws, then count it among the past."""
        if self.cells is None:
            return None
        fitted_on = self._learned_at if self.feature.fit is not None else 0
        self.betted = Look(self.cells, self.extract, self._columns, fitted_on)
        # A leaf that nobody has seen before this batch plays no part in it: which leaves have a column is
        # known from the past alone.
        x, y = x.narrow(self._columns), y.narrow(self._columns)
        batch = self._count(self.extract(x), self.extract(y))
        past, inside = self._chosen(batch)
        p, q = estimate_probabilities(*past, self._samples)
        self.promise = self._measure_evidence(p, q)
        c, s = self._bets(p, q)
        gained = np.empty_like(c)
        for j, pair in enumerate(self.claim.pairs):
            place = (..., j)
            gained[place] = log_factors(
                c[place], s[place], pair, (inside[0][place], inside[1][place]), len(x)
            )
        if self.log_wealth is None:
            self.log_wealth = np.zeros_like(c)
        self.log_wealth = self.log_wealth + gained
        step = Step(number, self.log_weight - np.log(c.size), past, self._samples, inside, len(x))
        self._counts = self._counts[0] + batch[0], self._counts[1] + batch[1]
        self._samples += len(x)
        return step

    @property
    def bets(self) -> int:
        """The number of bets that share the weight of a feature."""
        return 1 if self.log_wealth is None else self.log_wealth.size

    @property
    def total(self) -> float:
        """The logarithm of the weighted wealth of all bets on one feature."""
        if self.log_wealth is None:
            return self.log_weight
        mean = float(np.logaddexp.reduce(self.log_wealth.ravel())) - math.log(self.log_wealth.size)
        return self.log_weight + mean

    def _count(self, x: Any, y: Any) -> tuple[Codes, Codes]:
        assert self.cells is not None
        count = self.cells.count
        return tuple(np.bincount(self.cells.place(v), minlength=count) for v in (x, y))  # type: ignore[return-value]

    def _chosen(self, batch: tuple[Codes, Codes]) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """Choose the events to bet on by past draws, and count past and batch in them."""
        assert self.cells is not None
        pairs = self.claim.pairs
        kinds = 3 if self.cells.ordered >= 2 else 1
        shape = (2, kinds, 2, len(pairs))
        found = [np.empty(shape) for _ in range(4)]
        self.masks = {}
        for direction in range(2):
            first, second = (self._counts, self._counts[::-1])[direction]
            new = (batch, batch[::-1])[direction]
            for kind, events in enumerate(list_families(first, second, self.cells.ordered)):
                for j, pair in enumerate(pairs):
                    for criterion, choose in enumerate((find_fastest_growth, choose_event)):
                        number = choose(events, self._samples, pair)
                        mask = events.mask(number)
                        place = (direction, kind, criterion, j)
                        self.masks[place] = mask
                        values = events.x[number], events.y[number], new[0][mask].sum(), new[1][mask].sum()
                        for array, value in zip(found, values, strict=True):
                            array[place] = value
        return (found[0], found[1]), (found[2], found[3])

    def _measure_evidence(self, p: Floats, q: Floats) -> float:
        """Return the evidence for a bet in past draws, less what chance makes of so many cells."""
        assert self.cells is not None
        family = 0  # half-lines where there are any
        found = [
            growth(p[:, family, :, j], q[:, family, :, j], pair) for j, pair in enumerate(self.claim.pairs)
        ]
        chance = 0.0 if self.cells.ordered >= 2 else _CHANCE * self.cells.count
        return float(np.max(found)) * self._samples - chance

    def _bets(self, p: Floats, q: Floats) -> tuple[Floats, Floats]:
        c, s = np.empty_like(p), np.empty_like(p)
        for j, pair in enumerate(self.claim.pairs):
            c[..., j], s[..., j] = best_bet(p[..., j], q[..., j], pair)
        return c, s
