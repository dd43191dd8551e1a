"""The task of one audit: its checked options, given to a method of auditing, and its progress."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sfumato.audit.claims import Claim
from sfumato.audit.datasets import Edge, check_neighbors, describe_pairs
from sfumato.audit.mechanisms import Mechanism
from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact import positive_int

# Rounding of float64 sums of logarithms is far below this.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Progress:
    """The progress of an audit: draws, seconds and evidence so far.

    `audit` calls its argument `progress` with it.

    Args:
        samples: draws per side so far.
        max_samples: the limit on draws per side.
        seconds: seconds elapsed.
        max_seconds: the limit on seconds.
        log10_wealth: the evidence so far, as log10 of the wealth.
        log10_needed: the evidence at which the claim is rejected.
        edge: a description of the pair of datasets that was drawn from.
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

    `audit` passes it to a method such as `HistogramMethod`.

    Args:
        mechanism: the mechanism to audit.
        claim: its pairs hold in both directions.
        datasets: the roots of the search, in order; empty if the caller gave pairs.
        neighbors: "add-remove" or "change-one".
        pairs: the pairs of neighbours that the betting method tests, derived from the roots or given.
        alpha: a bound on the false-alarm probability.
        confidence: the confidence of `epsilon_lower`.
        max_samples: the most draws per side, over all pairs.
        seconds: the time limit, in seconds.
        progress: a function called after each batch, or None.
    Raises:
        ParameterError: a parameter is not valid.
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
        check_neighbors(self.neighbors)
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
        return describe_pairs(self.pairs)

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
