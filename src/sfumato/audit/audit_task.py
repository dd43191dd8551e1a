"""The task of one audit: its checked options, given to a method of auditing, and its progress."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sfumato.audit.claims import Claim
from sfumato.audit.datasets import Edge, checked_neighbors, notes_on_pairs
from sfumato.audit.mechanisms import Mechanism
from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact import positive_int

# Rounding of float64 sums of logarithms is far below this.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Progress:
    """The progress of an audit: draws, seconds and evidence up to now.

    What `audit` calls its argument `progress` with.

    Args:
        samples: draws a side up to now.
        max_samples: limit on that.
        seconds: elapsed.
        max_seconds: limit on that.
        log10_wealth: evidence up to now.
        log10_needed: evidence at which the claim is rejected.
        edge: the pair of datasets that was drawn from, in words.
    """

    samples: int
    max_samples: int
    seconds: float
    max_seconds: float
    log10_wealth: float
    log10_needed: float
    edge: str


@dataclass(frozen=True)
class Task:
    """The task of an audit: the mechanism, the claim, the pairs of datasets and the limits, all checked.

    Made by `audit` for a method such as `HistogramMethod`.

    Args:
        mechanism: to be audited.
        claim: its pairs hold in both directions.
        datasets: the roots of the search, in order; empty if the caller gave pairs.
        neighbors: "add-remove" or "change-one".
        pairs: the pairs of neighbours that the betting method looks at, derived from the roots or given.
        alpha: bound on the false-alarm probability.
        confidence: of `epsilon_lower`.
        max_samples: draws a side, over all pairs.
        seconds: limit on time.
        progress: called after each batch, or None.
    Raises:
        ParameterError: a parameter is not admissible.
    """

    mechanism: Mechanism
    claim: Claim
    datasets: tuple[Any, ...]
    neighbors: str
    pairs: tuple[Edge, ...]
    alpha: float
    confidence: float
    max_samples: int
    seconds: float
    progress: Callable[[Progress], None] | None

    def __post_init__(self) -> None:
        for name in ("alpha", "confidence"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not 0 < value < 1:
                raise ParameterError(name, value, "between 0 and 1")
        if not isinstance(self.seconds, (int, float)) or not self.seconds > 0:
            raise ParameterError("seconds", self.seconds, "greater than 0")
        checked_neighbors(self.neighbors)
        object.__setattr__(self, "max_samples", positive_int(self.max_samples, "max_samples"))

    @property
    def log_needed(self) -> float:
        """The logarithm of the wealth at which an audit task's claim is rejected."""
        return -math.log(self.alpha) + _ROUNDING

    def _show_progress(self, samples: int, seconds: float, edge: str, log10_wealth: float = 0.0) -> None:
        """Call the audit task's `progress` after a batch."""
        if self.progress is not None:
            limits = self.max_samples, seconds, self.seconds
            self.progress(Progress(samples, *limits, log10_wealth, self.log_needed / math.log(10), edge))

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the report on the pairs of an audit task."""
        return notes_on_pairs(self.pairs)

    @property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """The options of an audit task as a report shows them."""
        given = not self.datasets
        return (
            ("neighbors", "pairs given by the caller" if given else self.neighbors),
            ("datasets", "the default pairs" if given else f"{len(self.datasets):,}"),
            ("max_samples", f"{self.max_samples:,}"),
            ("seconds", f"{self.seconds:g}"),
        )
