"""Bets on the events of one feature, on one pair of neighbours."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sfumato.audit.betting import Floats, best_bet, growth, log_factors
from sfumato.audit.cells import Cells
from sfumato.audit.claims import Claim
from sfumato.audit.events import Counts, Mask, estimates, families, most_growth, most_telling
from sfumato.audit.features import Extract, Feature
from sfumato.audit.outputs import Draws
from sfumato.dataclass import dataclass

# Cells are learned anew when the past has grown by this factor; until then new draws are only counted.
RELEARN = 1.5
# Evidence that the best set of cells shows by mere chance, for each cell.
_CHANCE = 0.3


@dataclass(frozen=True)
class Step:
    """What one batch said of the events that one feature bet on: enough to replay it against another claim.

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
    """How a feature looked at outputs when it made its last bet.

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
        """Return the draws that it was not fitted on, as it saw them."""
        return draws.part(self.fitted_on, len(draws)).narrow(self.columns)


class Wager:
    """Bets on the events of one feature."""

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
        self._counts: tuple[Counts, Counts] = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._samples = 0
        self._learned_at = 0
        self._columns = 0

    def learn(self, x: Draws, y: Draws) -> None:
        """Learn from all past draws, where they have grown enough."""
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
        """Bet on a new batch, then count it."""
        if self.cells is None:
            return None
        fitted_on = self._learned_at if self.feature.fit is not None else 0
        self.betted = Look(self.cells, self.extract, self._columns, fitted_on)
        # A leaf that nobody has seen before this batch plays no part in it: which leaves have a column is
        # known from the past alone.
        x, y = x.narrow(self._columns), y.narrow(self._columns)
        batch = self._count(self.extract(x), self.extract(y))
        past, inside = self._chosen(batch)
        p, q = estimates(*past, self._samples)
        self.promise = self._promise(p, q)
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
        """How many bets share the weight."""
        return 1 if self.log_wealth is None else self.log_wealth.size

    @property
    def total(self) -> float:
        """The logarithm of the weighted wealth of all bets."""
        if self.log_wealth is None:
            return self.log_weight
        mean = float(np.logaddexp.reduce(self.log_wealth.ravel())) - math.log(self.log_wealth.size)
        return self.log_weight + mean

    def _count(self, x: Any, y: Any) -> tuple[Counts, Counts]:
        assert self.cells is not None
        count = self.cells.count
        return tuple(np.bincount(self.cells.place(v), minlength=count) for v in (x, y))  # type: ignore[return-value]

    def _chosen(self, batch: tuple[Counts, Counts]) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """Choose events by the past, and count past and batch in them."""
        assert self.cells is not None
        pairs = self.claim.pairs
        kinds = 3 if self.cells.ordered >= 2 else 1
        shape = (2, kinds, 2, len(pairs))
        found = [np.empty(shape) for _ in range(4)]
        self.masks = {}
        for direction in range(2):
            first, second = (self._counts, self._counts[::-1])[direction]
            new = (batch, batch[::-1])[direction]
            for kind, events in enumerate(families(first, second, self.cells.ordered)):
                for j, pair in enumerate(pairs):
                    for criterion, choose in enumerate((most_growth, most_telling)):
                        number = choose(events, self._samples, pair)
                        mask = events.mask(number)
                        place = (direction, kind, criterion, j)
                        self.masks[place] = mask
                        values = events.x[number], events.y[number], new[0][mask].sum(), new[1][mask].sum()
                        for array, value in zip(found, values, strict=True):
                            array[place] = value
        return (found[0], found[1]), (found[2], found[3])

    def _promise(self, p: Floats, q: Floats) -> float:
        """Return the evidence in past draws, less what searching so many cells makes of mere chance."""
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
