"""The audit: bets against a claim until the wealth says that it is false, or the samples are spent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sfumato.audit.claims import Claim
from sfumato.audit.datasets import Edge
from sfumato.audit.mechanisms import Mechanism
from sfumato.audit.report import Report


@dataclass(frozen=True)
class Progress:
    """How far an audit is.

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
    """One audit to do, with everything checked: what each method of auditing is given.

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


def audit(
    mechanism: Callable[..., Any] | Mechanism,
    *,
    epsilon: Any = None,
    delta: Any = 0.0,
    claim: Claim | None = None,
    neighbors: str = "add-remove",
    data: Iterable[Any] | None = None,
    pairs: Iterable[Any] | None = None,
    alpha: float = 1e-6,
    confidence: float = 0.95,
    max_samples: int = 1_000_000,
    seconds: float = 60.0,
    method: Any = "betting",
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Look for neighbours and an event that break a mechanism's claim of privacy.

    Args:
        mechanism: `(dataset, size) -> outputs`, or `(dataset) -> output`; see `Mechanism`.
        epsilon: the claim, at least 0; or give `claim`.
        delta: the claim, from 0 to less than 1.
        claim: in place of epsilon and delta: `zcdp(rho)`, `gaussian(mu)` or `curve(pairs)`.
        neighbors: "add-remove" or "change-one".
        data: datasets from which pairs of neighbours are made; None for `numbers()`.
        pairs: in place of data: pairs (dataset, neighbour), or `Edge`s such as `units(...)` gives.
        alpha: bound on the probability to call a correct mechanism violated, over the whole audit.
        confidence: of `epsilon_lower` and of what a pass excludes.
        max_samples: draws a side, over all pairs of datasets.
        seconds: limit on time; the audit ends after the batch that passes it.
        method: "betting", "histogram", or an object with `run(task: Task) -> Report`.
        progress: called with a `Progress` after each batch.
    Returns:
        A Report.
    Raises:
        ParameterError: a parameter is not admissible.
        MechanismError: the mechanism cannot be judged.
    """
    raise NotImplementedError


def assert_private(mechanism: Callable[..., Any] | Mechanism, **options: Any) -> Report:
    """Audit, and fail if the claim is violated; options as for `audit`.

    Raises:
        AssertionError: the claim is violated; its text is the report.
    """
    report = audit(mechanism, **options)
    if report.violated:
        raise AssertionError(str(report))
    return report
