"""Which event to bet on: half-lines, intervals and sets of cells, chosen from the counts of past draws."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.betting import Floats, growth
from sfumato.audit.claims import Pair
from sfumato.dataclass import dataclass

Counts = NDArray[np.int64]
Mask = NDArray[np.bool_]

# How many standard errors an event's ratio must survive to count as the most telling one.
_ERRORS = 2.0


@dataclass(frozen=True)
class Candidates:
    """Events of one family over the cells of a feature.

    Args:
        x: past draws on the first side in each event.
        y: the same on the second side.
        mask: the cells of the event with a given number.
    """

    x: Counts
    y: Counts
    mask: Callable[[int], Mask]


def families(x: Counts, y: Counts, ordered: int) -> list[Candidates]:
    """Return families of events, each ready to be searched.

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


def most_growth(events: Candidates, samples: int, claim: Pair) -> int:
    """Return the number of the event on which wealth would have grown fastest; it may break nothing."""
    p, q = estimates(events.x, events.y, samples)
    return int(np.argmax(growth(p, q, claim)))


def most_telling(events: Candidates, samples: int, claim: Pair) -> int:
    """Return the number of the event with the largest ln((p - delta)/q), standard errors deducted."""
    p, q = estimates(events.x, events.y, samples)
    above = np.maximum(p - claim.delta, 1e-12)
    error = np.sqrt(p * (1 - p) / above**2 + (1 - q) / q) / np.sqrt(samples)
    return int(np.argmax(np.log(above / q) - _ERRORS * error))


def estimates(x: Counts | Floats, y: Counts | Floats, samples: int | Floats) -> tuple[Floats, Floats]:
    """Return probabilities of an event on both sides from its counts; never 0 or 1."""
    total = np.asarray(samples, np.float64) + 1
    return (np.asarray(x, np.float64) + 0.5) / total, (np.asarray(y, np.float64) + 0.5) / total


def _half_lines(x: Counts, y: Counts, ordered: int) -> Candidates:
    cells = len(x)
    below = np.cumsum(x[: ordered - 1]), np.cumsum(y[: ordered - 1])
    above = x[:ordered].sum() - below[0], y[:ordered].sum() - below[1]

    def mask(number: int) -> Mask:
        cut = number % (ordered - 1) + 1
        place = np.arange(cells)
        below_cut: Mask = place < cut
        return below_cut if number < ordered - 1 else ~below_cut & (place < ordered)

    return Candidates(np.concatenate([below[0], above[0]]), np.concatenate([below[1], above[1]]), mask)


def _intervals(x: Counts, y: Counts, ordered: int) -> Candidates:
    cells = len(x)
    first, last = np.triu_indices(ordered)
    sums = [np.concatenate([[0], np.cumsum(v[:ordered])]) for v in (x, y)]

    def mask(number: int) -> Mask:
        place = np.arange(cells)
        inside: Mask = (place >= first[number]) & (place <= last[number])
        return inside

    inside_x, inside_y = (s[last + 1] - s[first] for s in sums)
    return Candidates(inside_x, inside_y, mask)


def _sets(x: Counts, y: Counts) -> Candidates:
    """Cells in the order of their ratios: the best set is a prefix (Neyman and Pearson)."""
    order = np.argsort(-(x + 0.5) / (y + 0.5), kind="stable")

    def mask(number: int) -> Mask:
        found = np.zeros(len(x), np.bool_)
        found[order[: number + 1]] = True
        return found

    return Candidates(np.cumsum(x[order]), np.cumsum(y[order]), mask)
