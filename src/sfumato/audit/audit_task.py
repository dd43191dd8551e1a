"""The task of one audit: its checked options, given to a method of auditing, and its progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sfumato.audit.claims import Claim, approximate
from sfumato.audit.datasets import NEIGHBORS, Edge, edges, numbers, records_apart
from sfumato.audit.mechanisms import Mechanism
from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact import positive_int

_LISTED = 3  # pairs of a note


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
        notes: what a reader should know of the pairs.
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
    notes: tuple[str, ...] = ()

    @property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """The options of an audit task as a report shows them."""
        given = not self.datasets
        return (
            ("neighbors", "pairs given by the caller" if given else self.neighbors),
            ("datasets", "those of the pairs" if given else f"{len(self.datasets):,}"),
            ("max_samples", f"{self.max_samples:,}"),
            ("seconds", f"{self.seconds:g}"),
        )


def checked_task(
    mechanism: Any,
    epsilon: Any,
    delta: Any,
    claim: Claim | None,
    neighbors: str,
    data: Iterable[Any] | None,
    pairs: Iterable[Any] | None,
    alpha: float,
    confidence: float,
    max_samples: int,
    seconds: float,
    progress: Callable[[Progress], None] | None,
) -> Task:
    """Check the options of `audit` before a draw is made, and return the task."""
    if epsilon is None and claim is None:
        raise ParameterError("epsilon", None, "given, or claim= in its place")
    if claim is not None and not isinstance(claim, Claim):
        raise ParameterError("claim", claim, "zcdp(rho), gaussian(mu) or curve(pairs)")
    if claim is not None and epsilon is not None:
        raise ParameterError("epsilon", epsilon, "left out where claim is given: it takes its place")
    if claim is not None and delta != 0:
        raise ParameterError("delta", delta, "left out where claim is given: it belongs to epsilon")
    for name, value in (("alpha", alpha), ("confidence", confidence)):
        if not isinstance(value, (int, float)) or not 0 < value < 1:
            raise ParameterError(name, value, "between 0 and 1")
    if not isinstance(seconds, (int, float)) or not seconds > 0:
        raise ParameterError("seconds", seconds, "greater than 0")
    if not isinstance(neighbors, str) or neighbors not in NEIGHBORS:
        expected = f"one of {', '.join(map(repr, NEIGHBORS))}; for user level, give pairs=units(...)"
        raise ParameterError("neighbors", neighbors, expected)
    if data is not None and pairs is not None:
        raise ParameterError("pairs", "given", "left out where data is given")
    roots: list[Any] = []
    if pairs is None:
        roots = numbers() if data is None else list(data)
        found = edges(roots, neighbors)
    else:
        found = [_edge(i, p) for i, p in enumerate(pairs)]
        if not found:
            raise ParameterError("pairs", [], "at least one pair (dataset, neighbour)")
    return Task(
        mechanism=mechanism if isinstance(mechanism, Mechanism) else Mechanism(mechanism),
        claim=claim if claim is not None else approximate(epsilon, delta),
        datasets=tuple(roots),
        neighbors=neighbors,
        pairs=tuple(found),
        alpha=alpha,
        confidence=confidence,
        max_samples=positive_int(max_samples, "max_samples"),
        seconds=seconds,
        progress=progress,
        notes=() if pairs is None else _far(found),
    )


def _far(pairs: list[Edge]) -> tuple[str, ...]:
    """Return a note on the pairs given to an audit whose datasets differ by more than one record."""
    differ = {e.name: n for e in pairs if e.bare and (n := records_apart(e.dataset, e.neighbour)) > 1}
    if not differ:
        return ()
    which = ", ".join(f"{name} by {n}" for name, n in list(differ.items())[:_LISTED])
    more = f" and {len(differ) - _LISTED} pairs more" if len(differ) > _LISTED else ""
    return (
        f"datasets that differ by more than one record: {which}{more}. They are neighbours only where all "
        "of these records are of one privacy unit; else the claim says nothing of them, and nothing follows",
    )


def _edge(number: int, pair: Any) -> Edge:
    if isinstance(pair, Edge):
        return pair
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ParameterError(f"pairs[{number}]", pair, "a pair (dataset, neighbour) or an Edge")
    return Edge(f"given pair {number + 1}", pair[0], pair[1], bare=True)
