"""The result of a closeness test: its checks, each with a bound on its probability."""

from __future__ import annotations

from decimal import ROUND_CEILING

from sfumato.dataclass import dataclass
from sfumato.display.cards import TextCard
from sfumato.display.formatting import rounded_bound


@dataclass(frozen=True)
class Check:
    """One check of a closeness test: its finding, and a bound on its probability.

    Part of the result of `closeness`.

    Args:
        name: "values", "distance", "cells", "tails", "scale", "repeats" or "low bits"; for two samples also
            "shift", and not "values". For vectors, the projection's name comes first.
        probability: a bound on the probability that correct noise looks at least as wrong to this check.
        finding: a description of the finding.
    """

    name: str
    probability: float
    finding: str


@dataclass(frozen=True, repr=False)
class Closeness(TextCard):
    """The result of a closeness test: its verdict, and all its checks.

    `closeness` returns it.

    Args:
        passed: whether no check failed. Correct noise fails with probability at most `alpha`.
        alpha: the false-alarm probability, shared evenly by the checks.
        samples: the size of the sample.
        checks: all checks.
        others: the size of the sample that it was compared with; None for a distribution.
    """

    passed: bool
    alpha: float
    samples: int
    checks: tuple[Check, ...]
    others: int | None = None

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks of a closeness test that failed."""
        return tuple(c for c in self.checks if c.probability <= self.alpha / len(self.checks))

    def __bool__(self) -> bool:
        raise TypeError("a Closeness has no truth value. Use result.passed")

    def __str__(self) -> str:
        wrong, draws = "the draws are not from this law", f"{self.samples} draws"
        if self.others is not None:
            wrong, draws = "the draws are not from one law", f"{self.samples} and {self.others} draws"
        verdict = "no check fails" if self.passed else wrong
        lines = [f"{verdict}: {draws}, false alarms with probability at most {self.alpha:g}"]
        for check in self.checks:
            mark = "FAILS" if check in self.failed else "passes"
            most = rounded_bound(check.probability, ROUND_CEILING, 2)
            lines.append(f"  {check.name:9} {mark:6}  {check.finding} (probability at most {most})")
        return "\n".join(lines)
