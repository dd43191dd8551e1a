"""The wealth of all bets on one pair of neighbours."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sfumato.audit.bets import (
    Counts,
    Floats,
    Mask,
    best_bet,
    estimates,
    families,
    growth,
    log_factors,
    most_growth,
    most_telling,
)
from sfumato.audit.claims import Claim
from sfumato.audit.datasets import Edge
from sfumato.audit.features import Cells, Extract, Feature, bank, most_different
from sfumato.audit.mechanisms import BatchRaised, Mechanism
from sfumato.audit.output_parts import RAISES
from sfumato.audit.outputs import MISSING, Draws, Reader, form, joined
from sfumato.audit.wording import cut
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


LEAST_BATCH = 48
# Shares of the wealth: of features that the first batch suggests, and of draws that vectorised calls give.
_FIRST_BANK = 0.9
_VECTORISED = 0.9
# So many columns are looked at by themselves, and so many numbers of a side kept to learn from.
_MOST_COLUMNS = 12
_MOST_KEPT = 20_000_000


class PairTest:
    """All bets on one pair of neighbours, and the draws behind them.

    Args:
        edge: the pair.
        mechanism: to be audited.
        claim: what is bet against.

    Its wealth starts at 1 and is a nonnegative supermartingale if the claim is true of the pair
    (docs/proofs/audit.md, 3), however the number of draws is chosen as it goes.
    """

    def __init__(self, edge: Edge, mechanism: Mechanism, claim: Claim) -> None:
        self.edge = edge
        self.mechanism = mechanism
        self.claim = claim
        self.notes: list[str] = []
        self._singly = not mechanism.vectorised
        self.log_share = 0.0 if self._singly else np.log(_VECTORISED)
        self._begin()

    def _begin(self) -> None:
        self.reader: Reader = Reader()
        self.samples: int = 0
        self.known: list[int] = []  # of each column: after how many draws a side its number was settled
        self._form = ""  # of what vectorised calls return
        # Of each side: columns that had one value in the first call.
        self._of_calls: list[dict[int, int]] = [{}, {}]
        self.wagers: list[Wager] = []
        self.log_wealth: float = 0.0  # its natural logarithm
        self._looked_at = 0
        self._columns: list[int] = []  # looked at by themselves
        self._columns_seen = 0
        self._full = False  # whether draws are only counted, no longer kept to learn from
        self.silent: bool = True  # whether all draws of both sides gave one and the same output
        self._late = 0
        self.history: list[tuple[int, list[Step]]] = []
        self._x: list[Draws] = []
        self._y: list[Draws] = []

    @property
    def promise(self) -> float:
        """Evidence that past draws seem to hold, whether it was bet on or not: a guess where to look."""
        return max((w.promise for w in self.wagers), default=0.0)

    @property
    def past(self) -> tuple[Draws, Draws]:
        """The draws of both sides, up to the first 20 million numbers and tokens of each."""
        columns = len(self.reader.paths)
        if len(self._x) > 1:
            self._x, self._y = [joined(self._x, columns)], [joined(self._y, columns)]
        return self._x[0].wide(columns), self._y[0].wide(columns)

    @property
    def only_raised(self) -> str | None:
        """What every draw of both sides raised; None if some draw gave an output."""
        x, y = self.past
        words = self.reader.vocabulary.words
        codes = np.unique(np.concatenate([x.tokens[:, 0], y.tokens[:, 0]])).tolist()
        if not all(words[code].startswith(RAISES) for code in codes):
            return None
        return ", ".join(words[code].removeprefix(RAISES) for code in codes)

    def advance(self, size: int, time: int = 0) -> None:
        """Draw `size` outputs of each side, bet on them, then learn from them.

        Args:
            size: draws a side.
            time: number of this batch in the whole audit.
        Raises:
            MechanismError: the mechanism cannot be judged.
        """
        drawn = self._draw(size)
        if drawn is None:
            return
        x, y = self.reader.read_all(list(drawn))
        told = self._tells_of_calls(x, y)
        if told is not None:
            self._go_singly(f"{told} is one for each call, and another for the next")
            return
        # What the very first draw holds was numbered by it alone, unless columns had to be chosen.
        if not self.samples and not self.reader.left_out:
            self.known += [1] * int((x.tokens[0] != MISSING).sum())
        self.known += [self.samples + size] * (len(self.reader.paths) - len(self.known))
        steps = [w.bet(i, x, y) for i, w in enumerate(self.wagers)]
        self.history.append((time, [s for s in steps if s is not None]))
        self.samples += size
        if not self._full:
            self._x.append(x)
            self._y.append(y)
            self._full = self.samples * x.numbers.shape[1] > _MOST_KEPT
        self.silent = self.silent and len(np.unique(np.concatenate([x.whole, y.whole]))) == 1
        # Before anything is learned no bet is made: the wealth is what it was, times 1.
        totals = [w.total for w in self.wagers] or [0.0]
        reserved = [np.log(self._late_share())] if self.wagers else []
        self.log_wealth = self.log_share + float(np.logaddexp.reduce([*reserved, *totals]))
        self._learn()

    @property
    def wagered(self) -> bool:
        """Whether a bet was made."""
        return any(w.log_wealth is not None for w in self.wagers)

    def best(self) -> tuple[Wager, Place]:
        """Return the bet with the most wealth: its feature, and (direction, family, criterion, pair)."""
        wager = max((w for w in self.wagers if w.log_wealth is not None), key=lambda w: w.total)
        assert wager.log_wealth is not None
        place = np.unravel_index(int(np.argmax(wager.log_wealth)), wager.log_wealth.shape)
        return wager, tuple(int(i) for i in place)  # type: ignore[return-value]

    def _draw(self, size: int) -> tuple[Any, Any] | None:
        sides = (self.edge.dataset, self.edge.neighbour)
        try:
            if not self.samples and not self._singly:
                # A call that is thrown away shows whether the mechanism takes such data at all.
                for side in sides:
                    self.mechanism.draw(side, 1)
            drawn = self.mechanism.draw_both(sides, size, singly=self._singly)
        except BatchRaised as error:
            self._go_singly(f"a call raised {error.raised.kind}")
            return None
        if not self._singly:
            self._form = self._form or form(drawn[0])
            for found in (form(drawn[0]), form(drawn[1])):
                if found != self._form:
                    self._go_singly(f"calls returned {cut(self._form)}, and {cut(found)}")
                    return None
        return drawn

    def _tells_of_calls(self, x: Draws, y: Draws) -> str | None:
        """Name a leaf that all draws of a call share, and those of another call do not: a time, say.

        Draws that share it are not independent, and a bet on it would be won once for each.
        """
        if self._singly:
            return None
        for side, known in zip((x, y), self._of_calls, strict=True):
            first, same = side.atoms[0], (side.atoms == side.atoms[0]).all(axis=0)
            if not self.samples:
                known.update((c, int(first[c])) for c in np.flatnonzero(same).tolist())
            for column, code in known.items():
                if same[column] and first[column] != code:
                    return self.reader.paths[column]
        return None

    def _go_singly(self, why: str) -> None:
        """Forget what vectorised calls gave, their wealth too, and call for single draws from now on."""
        self.log_share = 0.0 if not self.samples else np.log(1 - _VECTORISED)
        self._singly = True
        self.notes.append(f"{self.edge.name}: {why}; from then on one draw a call")
        self._begin()
        self.log_wealth = self.log_share

    def _learn(self) -> None:
        if self._full and self.wagers:
            return
        x, y = self.past
        known = {w.feature.name for w in self.wagers}
        if not self.wagers or self.samples >= RELEARN * self._looked_at:
            self._looked_at = self.samples
            first = not self.wagers
            self._columns += (
                most_different(x, y) if first else range(self._columns_seen, len(self.reader.paths))
            )
            self._columns = list(dict.fromkeys(self._columns))[:_MOST_COLUMNS]
            self._columns_seen = len(self.reader.paths)
            new = [f for f in bank(self.reader, self._columns, x, y) if f.name not in known]
            for feature in new:
                if first:
                    weight = _FIRST_BANK / len(new)
                else:
                    self._late += 1
                    weight = (1 - _FIRST_BANK) / (self._late * (self._late + 1))
                self.wagers.append(Wager(feature, self.claim, float(np.log(weight))))
        for wager in self.wagers:
            wager.learn(x, y)

    def _late_share(self) -> float:
        """The weight that is still kept for features to come."""
        return (1 - _FIRST_BANK) / (self._late + 1)
