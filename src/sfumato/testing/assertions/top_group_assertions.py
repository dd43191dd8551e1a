"""Assertions about a release of the largest groups (top k): its ranks and its numbers.

Each draw is judged by the probability of a group as small as the one that was drawn, or smaller, among those
that are left. On correct code it is at most p with a chance of p at most, whatever was drawn before.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.errors import ParameterError, RefusalError
from sfumato.noise.noise_sums import NoiseSum
from sfumato.testing.assertions.compared_values import (
    Cells,
    Group,
    Off,
    is_table,
    is_whole,
    label,
    number,
    plain_key,
    read,
    report,
    rows,
)
from sfumato.testing.assertions.noise_spread import check_spread
from sfumato.testing.assertions.output_tolerances import Residue
from sfumato.testing.flakiness import charge, probability_text

if TYPE_CHECKING:
    from sfumato.release.top_release import TopRelease


def is_largest(value: object) -> bool:
    """Whether a value is a release of the top groups, without an import of it."""
    return type(value).__name__ == "TopRelease" and type(value).__module__ == "sfumato.release.top_release"


def approx_largest(release: TopRelease, expected: Any, k: object) -> None:
    """Assert that each of the top groups can be at its rank, and that its number is near the truth.

    Args:
        release: drawn here if it was not yet looked at.
        expected: the exact numbers of all groups, or of the largest, one more than may be shown.
        k: as for `assert_approx_equal`.
    """
    judged = _TopGroups(release, expected, "expected")
    k = charge(k)
    each = k + math.log10(release.question.k * (2 if release.measured else 1))
    unlikely, off = judged.unlikely(each), judged.off(each)
    stated, told = f" (flakiness 10^-{k:.4g} in all)", ""
    if unlikely:
        told = "\n  ".join([f"groups are shown that are very improbable{stated}", *unlikely])
        if not off:
            raise AssertionError(told)
    wanted = Cells("", {group: {release.question.measured: n} for group, n in judged.shown.items()})
    report(told, off, wanted, stated)


def noisy_largest(release: TopRelease, raw: Any, k: object) -> None:
    """Assert that the numbers of the top groups have their noise.

    Args:
        release, k: as for `approx_largest`.
        raw: as its `expected`.
    """
    law = release.plan.measurement.law
    if law is None:
        raise RefusalError("assert_noisy: ranks show no noise, and counts=False left the numbers out")
    judged = _TopGroups(release, raw, "raw")
    measured = release.question.measured
    check_spread(
        [Residue(group, measured, judged.gap(group), 0.0, law, 0.5) for group in judged.shown], charge(k)
    )


class _TopGroups:
    """The top groups of a release beside their exact numbers in steps."""

    def __init__(self, release: TopRelease, expected: Any, name: str) -> None:
        question, self.drawn = release.question, release.plan.measurement
        self.measured, self.step = self.drawn.measured, self.drawn.step
        self.truth = self._truth(expected, name, question.keys)
        table = release.to_arrow()
        if table["rank"].to_pylist() != [*range(1, table.num_rows + 1)]:
            raise AssertionError("ranks are not 1, 2, 3, ...")
        keys = [tuple(map(plain_key, key)) for key in zip(*self._columns(table, question.keys), strict=True)]
        if len(set(keys)) < len(keys):
            raise AssertionError("a group is shown twice")
        numbers = [0] * len(keys) if self.drawn.law is None else table[self.measured].to_pylist()
        self.shown: dict[Group, Any] = dict(zip(keys, numbers, strict=True))
        self.scores = self._competing(question._public_keys, name)

    def _truth(self, expected: Any, name: str, keys: Sequence[str]) -> dict[Group, Fraction]:
        """Read the exact numbers of groups, in steps."""
        cells = rows(expected.to_pylist(), name, keys) if isinstance(expected, pa.Table) else None
        if cells is None and is_table(expected):
            cells = read(expected, name, keys)
        if cells is None and isinstance(expected, Mapping):
            cells = read(expected, name)
        if cells is None:
            raise ParameterError(
                name, expected, "the exact number of each group: a mapping by key, or a table"
            )
        found = {}
        for group, row in cells.values.items():
            value = row.get(self.measured, next(iter(row.values()))) if len(row) else None
            shown = number(value)
            if shown is None or not math.isfinite(shown):
                raise ParameterError(f"{name} of {label(group)}", value, "a finite number")
            whole = is_whole(value) or isinstance(value, Fraction)
            found[group] = (Fraction(value) if whole else Fraction(shown)) / self.step  # type: ignore[call-overload]
        return found

    def _competing(self, public: Any, name: str) -> list[Fraction]:
        """Return the exact numbers of the groups in the first draw for the top, in order."""
        if self.drawn.candidates is None:
            keys = [
                tuple(map(plain_key, key))
                for key in zip(*self._columns(public, public.column_names), strict=True)
            ]
            if unknown := self.truth.keys() - set(keys):
                raise ParameterError(name, label(min(unknown, key=repr)), "of public groups alone")
            return sorted(self.truth.get(key, Fraction(0)) for key in keys)
        largest = sorted((n for n in self.truth.values() if n > 0), reverse=True)
        after = largest[self.drawn.candidates : self.drawn.candidates + 1] or [Fraction(0)]
        self.end = after[0] + 1 + (self.drawn.margin or 0)
        return sorted([*largest[: self.drawn.candidates], self.end])

    @staticmethod
    def _columns(table: pa.Table, names: Sequence[str]) -> list[list[Any]]:
        return [table[name].to_pylist() for name in names]

    def unlikely(self, each: float) -> list[str]:
        """Return messages about top groups that a correct draw chooses with a chance below 10^-each."""
        left, found, rate = list(self.scores), list[str](), self.drawn.rate
        weights = np.array([float(rate * (score - left[-1])) for score in left])
        for rank, group in enumerate(self.shown, 1):
            score = self.truth.get(group, Fraction(0))
            place, few = bisect_left(left, score), bisect_right(left, score)
            shown = f"rank {rank}: {label(group)}, of {self._text(score)}"
            if place == few or (self.drawn.candidates is not None and score <= 0):
                found.append(f"{shown}, cannot be shown")
                continue
            found += self._rarely(shown, weights, few, each, left[-1])
            del left[place]
            weights = np.delete(weights, place)
        if len(self.shown) < self.drawn.k:
            if self.drawn.candidates is None:
                return [*found, f"{len(self.shown)} groups are shown instead of {self.drawn.k}"]
            shown = f"nothing behind rank {len(self.shown)}"
            found += self._rarely(shown, weights, bisect_right(left, self.end), each, left[-1])
        return found

    def _rarely(
        self, shown: str, weights: NDArray[np.float64], few: int, each: float, best: Fraction
    ) -> list[str]:
        """Return a message about a top group that a correct draw rarely chooses.

        Args:
            shown: what was drawn.
            weights: logarithms, sorted.
            few: how many are at most as large as what was drawn.
            each: how rare, as k.
            best: the number of the last.
        """
        own = weights[few - 1] + np.log(np.exp(weights[:few] - weights[few - 1]).sum())
        chance = (own - weights[-1] - np.log(np.exp(weights - weights[-1]).sum())) / math.log(10)
        if chance >= -each:
            return []
        there = f"where there is one of {self._text(best)}"
        return [f"{shown}, {there}; probability {probability_text(float(chance))}"]

    def _text(self, score: Fraction) -> str:
        return f"{float(score * self.step):.10g}"

    def gap(self, group: Group) -> float:
        """Return how many steps the number of a top group is off."""
        return float(Fraction(self.shown[group]) / self.step - self.truth.get(group, Fraction(0)))

    def off(self, each: float) -> list[Off]:
        """Return the numbers of top groups that are off by more than noise explains."""
        law = self.drawn.law
        if law is None:
            return []
        limit, step = float(law.rounded_tolerance(each)), float(self.step)
        found = []
        for group, shown in self.shown.items():
            gap = self.gap(group)
            if abs(gap) > limit:
                truth = float(self.truth.get(group, Fraction(0)) * self.step)
                log10 = NoiseSum(((1.0, law),)).log10_tail(abs(gap))
                found.append(Off(group, self.measured, shown, truth, limit * step, gap * step, log10))
        return found
