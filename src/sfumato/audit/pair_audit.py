"""The audit of one pair of neighbours: its draws, its bets and their wealth, and its witness."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.audit.bets import RELEARN, Place, Step, Wager
from sfumato.audit.claims import Claim
from sfumato.audit.datasets import Edge
from sfumato.audit.mechanisms import BatchRaised, Mechanism
from sfumato.audit.output_columns import MISSING, Draws, Floats, Reader, form, join_batches
from sfumato.audit.output_features import Quantiles, bank, rank_columns
from sfumato.audit.python_code import cut, replay
from sfumato.audit.report import Histogram, Witness

MIN_BATCH = 48
# Shares of the wealth: of features that the first batch suggests, and of draws that vectorised calls give.
_FIRST_BANK = 0.9
_VECTORISED = 0.9
# So many columns are looked at by themselves, and so many numbers of a side kept to learn from.
_MAX_COLUMNS = 12
_MAX_KEPT = 20_000_000


class PairTest:
    """The audit of one pair of neighbours: all bets on it, and the draws behind them.

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
        """Evidence in the past draws of this pair, whether it was bet on or not: a guess where to look."""
        return max((w.promise for w in self.wagers), default=0.0)

    @property
    def past(self) -> tuple[Draws, Draws]:
        """The draws on both datasets of this pair, up to the first 20 million numbers of each."""
        columns = len(self.reader.paths)
        if len(self._x) > 1:
            self._x, self._y = [join_batches(self._x, columns)], [join_batches(self._y, columns)]
        return self._x[0].wide(columns), self._y[0].wide(columns)

    @property
    def only_raised(self) -> str | None:
        """The exceptions of all draws on this pair; None if some draw gave an output."""
        x, y = self.past
        return self.reader.only_raised(np.unique(np.concatenate([x.tokens[:, 0], y.tokens[:, 0]])).tolist())

    def advance(self, size: int, time: int = 0) -> None:
        """Draw `size` outputs on each dataset of this pair, bet on them, then learn from them.

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
        told = self._shared_leaf(x, y)
        if told is not None:
            self._draw_singly(f"{told} differs in every call")
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
            self._full = self.samples * x.numbers.shape[1] > _MAX_KEPT
        self.silent = self.silent and len(np.unique(np.concatenate([x.whole, y.whole]))) == 1
        # Before anything is learned no bet is made: the wealth is what it was, times 1.
        totals = [w.total for w in self.wagers] or [0.0]
        reserved = [np.log(self._late_share())] if self.wagers else []
        self.log_wealth = self.log_share + float(np.logaddexp.reduce([*reserved, *totals]))
        self._learn()

    @property
    def wagered(self) -> bool:
        """Whether a bet on this pair was made."""
        return any(w.log_wealth is not None for w in self.wagers)

    def best(self) -> tuple[Wager, Place]:
        """Return this pair's bet with the most wealth: (direction, family, criterion, pair of the claim)."""
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
            self._draw_singly(f"a call raised {error.raised.kind}")
            return None
        if not self._singly:
            self._form = self._form or form(drawn[0])
            for found in (form(drawn[0]), form(drawn[1])):
                if found != self._form:
                    self._draw_singly(f"calls returned {cut(self._form)}, and {cut(found)}")
                    return None
        return drawn

    def _shared_leaf(self, x: Draws, y: Draws) -> str | None:
        """Return a leaf that all draws of one call share, such as a time, and other calls do not.

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

    def _draw_singly(self, why: str) -> None:
        """Forget this pair's vectorised calls, with their wealth, and draw one output a call."""
        self.log_share = 0.0 if not self.samples else np.log(1 - _VECTORISED)
        self._singly = True
        self.notes.append(f"{self.edge.name}: {why}, so from then on each call gives one draw")
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
                rank_columns(x, y) if first else range(self._columns_seen, len(self.reader.paths))
            )
            self._columns = list(dict.fromkeys(self._columns))[:_MAX_COLUMNS]
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
        """The weight kept for features of this pair that are found later."""
        return (1 - _FIRST_BANK) / (self._late + 1)


_BARS = 40


def witness(test: PairTest) -> Witness:
    """Return the event with the most wealth on a pair of neighbours, as the witness of the audit."""
    wager, place = test.best()
    assert wager.betted is not None
    look = wager.betted
    direction, pair = place[0], test.claim.pairs[place[3]]
    sides = [(test.edge.dataset, test.past[0]), (test.edge.neighbour, test.past[1])]
    (dataset, draws), (neighbour, others) = sides[::-1] if direction else sides
    draws, others = look.draws(draws), look.draws(others)
    values = look.extract(draws), look.extract(others)
    mask = wager.masks[place]

    def named(code: int) -> str:
        for seen, side in zip(values, (draws, others), strict=True):
            places = np.flatnonzero(seen == code)
            if len(places):
                return wager.feature.named(side.part(int(places[0]), int(places[0]) + 1), code)
        return "a value that did not occur again"

    first, second = (float(mask[look.cells.place(v)].mean()) for v in values)
    if isinstance(look.cells, Quantiles):
        what, numbers = wager.feature.name, (values[0], values[1])
    else:
        what, numbers = _first_numbers(test, draws, others)
    return Witness(
        edge=test.edge.name,
        dataset=dataset,
        neighbour=neighbour,
        event=look.cells.words(wager.feature.name, mask, named),
        frequency=first,
        neighbour_frequency=second,
        samples=len(values[0]),
        epsilon=pair.epsilon,
        delta=pair.delta,
        replay=replay(test.mechanism, test.claim, dataset, neighbour),
        histogram=histogram(numbers[0], numbers[1], what),
    )


def histogram(x: Floats, y: Floats, what: str) -> Histogram | None:
    """Count the outputs on both datasets of a pair in equal cells between the 1% and 99% quantiles."""
    both = np.concatenate([x, y])
    both = both[np.isfinite(both)]
    if not len(both):
        return None
    low, high = np.quantile(both, [0.01, 0.99])
    if not low < high:
        low, high = low - 0.5, high + 0.5
    boundaries = np.linspace(low, high, _BARS + 1)
    if not np.isfinite(boundaries).all() or (np.diff(boundaries) <= 0).any():
        return None
    counts = [np.histogram(v[np.isfinite(v)], boundaries)[0].tolist() for v in (x, y)]
    return Histogram(tuple(boundaries.tolist()), tuple(counts[0]), tuple(counts[1]), len(x), what)


def _first_numbers(test: PairTest, draws: Draws, others: Draws) -> tuple[str, tuple[Floats, Floats]]:
    """Return the first column of a pair's outputs that has numbers in it."""
    both = np.vstack([draws.numbers, others.numbers])
    column = int(np.argmax(np.isfinite(both).any(axis=0)))
    return test.reader.paths[column], (draws.numbers[:, column], others.numbers[:, column])
