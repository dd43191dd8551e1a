"""The evidence in a report: an event that breaks a claim, counts, wealth, and what a pass excludes."""

from __future__ import annotations

import math
from typing import Any

from sfumato.dataclass import dataclass


@dataclass(frozen=True)
class Histogram:
    """Counts of both sides over the same cells, for pictures.

    Part of a `Witness`; `audit` makes it.

    Args:
        boundaries: cells + 1 increasing numbers.
        counts: draws on the witness's own dataset, one count for each cell.
        neighbour_counts: draws on the neighbour.
        samples: draws on each side, those outside the boundaries included.
        what: what is counted, such as "value" or "exponent of the lowest set bit of value".
    """

    boundaries: tuple[float, ...]
    counts: tuple[int, ...]
    neighbour_counts: tuple[int, ...]
    samples: int
    what: str = "value"


@dataclass(frozen=True)
class Witness:
    """A pair of neighbours and an event that tells them apart more than the claim allows.

    Part of a `Report`, which `audit` makes.

    Args:
        edge: how the pair came about, in words.
        dataset: the dataset on which the event is the more frequent one.
        neighbour: the other.
        event: the event in words, such as "value > 0.73".
        frequency: share of the draws on `dataset` that are in the event.
        neighbour_frequency: the same on `neighbour`.
        samples: draws on each side behind these shares.
        epsilon: of the pair of the claim that is broken.
        delta: of that pair.
        replay: a line of Python that audits this pair again.
        histogram: counts of both sides, where the outputs have numbers in them.
    """

    edge: str
    dataset: Any
    neighbour: Any
    event: str
    frequency: float
    neighbour_frequency: float
    samples: int
    epsilon: float
    delta: float
    replay: str
    histogram: Histogram | None = None

    @property
    def observed_epsilon(self) -> float:
        """ln((frequency - delta) / neighbour_frequency): what the shares say, without error bars."""
        above = self.frequency - self.delta
        if above <= 0:
            return 0.0
        return math.inf if self.neighbour_frequency == 0 else math.log(above / self.neighbour_frequency)


@dataclass(frozen=True)
class Excluded:
    """What an audit that found nothing says about the pairs that it looked at.

    Part of a `Report`, which `audit` makes.

    Args:
        epsilon_lower: true epsilon (at `delta`) is at least this, with the report's confidence.
        excess: with the report's confidence, P(A) <= e^epsilon Q(A) + delta + excess for all half-lines A of
            every recorded number, for all pairs of datasets that were drawn from, in both directions.
        visible_epsilon: the least epsilon (at the first delta of the claim) that could be expected to be
            found with so many samples on one pair of datasets, if its event were the most telling one
            possible. Less was out of sight.
    """

    epsilon_lower: float
    excess: float
    visible_epsilon: float


@dataclass(frozen=True)
class Point:
    """A moment of the audit.

    Part of a `Report`, which `audit` makes.

    Args:
        samples: draws a side up to now, over all pairs of datasets.
        log10_wealth: of the whole audit; at `-log10(alpha)` the claim is rejected.
        edge: number of the pair that was drawn from.
    """

    samples: int
    log10_wealth: float
    edge: int
