"""The documented stochastic tester: histograms over the search graphs of Halton datasets."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.audit.buckets import Buckets, Codes, Column, Comparison
from sfumato.audit.datasets import halton
from sfumato.audit.mechanisms import BatchRaised, MechanismError, shown
from sfumato.audit.outputs import RAISES, Draws, Reader
from sfumato.audit.report import Histogram, Report, Witness
from sfumato.audit.search_graph import SearchGraph
from sfumato.errors import ParameterError
from sfumato.exact import positive_int

if TYPE_CHECKING:
    from sfumato.audit.auditor import Task
    from sfumato.audit.claims import Pair

NO_EXACT_RATE = (
    "the verdict of the histogram method has no exact false-alarm rate: its intervals are approximate, and "
    "hold for one pair of datasets at a time"
)


@dataclass(frozen=True)
class HistogramMethod:
    """Compare histograms of a mechanism's outputs on all neighbours in the search graphs of datasets.

    Give it as `audit(..., method=HistogramMethod(...))`; `method="histogram"` is the one with defaults.
    Where the audit is given no data and no pairs, the datasets are points of the Halton sequence in the
    unit cube.

    Args:
        datasets: number of Halton datasets.
        size: records of each Halton dataset.
        samples: draws on each node of a search graph.
        buckets: of equal width between the smallest and the largest number; None chooses the width by the
            rule of Freedman and Diaconis.
        confidence: of the intervals of one histogram, all buckets together.
        tolerated: share of a histogram's buckets that may fail; from 0 to less than 1. It hides defects
            that show on few buckets.
    Raises:
        ParameterError: a parameter is outside its range.

    >>> HistogramMethod(tolerated=0.05).buckets is None
    True

    Source:
        Desfontaines 2020, section 4.2.6; Wilson et al. 2020, section 5.3; the defaults are
        those of the published tester of google/differential-privacy.
    """

    datasets: int = 50
    size: int = 3
    samples: int = 10_000
    buckets: int | None = None
    confidence: float = 0.95
    tolerated: float = 0.0

    def __post_init__(self) -> None:
        for name in ("datasets", "size", "samples"):
            positive_int(getattr(self, name), name)
        if self.buckets is not None:
            positive_int(self.buckets, "buckets")
        if not 0 < self.confidence < 1:
            raise ParameterError("confidence", self.confidence, "between 0 and 1")
        if not 0 <= self.tolerated < 1:
            raise ParameterError("tolerated", self.tolerated, "from 0 to less than 1")

    def data(self) -> list[Any]:
        """Return the datasets that an audit without data or pairs begins with."""
        return halton(self.datasets, self.size)

    def run(self, task: Task) -> Report:
        """Compare until a pair of datasets fails, or all are compared, or the limits are met."""
        return _Run(self, task).report()


@dataclass(frozen=True)
class _Side:
    """What was drawn on one dataset."""

    dataset: Any
    draws: Draws

    def column(self, number: int) -> Column:
        draws = self.draws.wide(number + 1)
        return draws.numbers[:, number], draws.tokens[:, number]


_Drawn = Callable[[], _Side]


class _Run:
    """One audit under way."""

    def __init__(self, method: HistogramMethod, task: Task) -> None:
        self.method, self.task = method, task
        self.reader = Reader()
        self.drawn = 0
        self.compared: list[tuple[str, int]] = []
        self.kinds: set[int] = set()  # tokens of the first column
        self.epsilon_lower = 0.0
        self.samples = min(method.samples, task.max_samples)
        self.delta = min(pair.delta for pair in task.claim.pairs)
        self.notes = [NO_EXACT_RATE]
        self.started = time.monotonic()

    def report(self) -> Report:
        """Compare, and say what was found."""
        witness = None
        for name, x, y in self._sides():
            self.compared.append((name, len(x.draws)))
            witness = self._witness(name, x, y)
            self._tell(name)
            if witness is not None:
                break
        self._check_outputs()
        return Report(
            mechanism=self.task.mechanism.name,
            claim=self.task.claim.text,
            violated=witness is not None,
            epsilon_lower=self.epsilon_lower,
            delta=self.delta,
            confidence=self.method.confidence,
            alpha=math.nan,
            witness=witness,
            samples=self.drawn // 2,
            seconds=time.monotonic() - self.started,
            edges=tuple(self.compared),
            method="histogram",
            notes=tuple(self.notes),
        )

    def _tell(self, name: str) -> None:
        from sfumato.audit.auditor import Progress  # which knows of this method

        task, seconds = self.task, time.monotonic() - self.started
        if task.progress is not None:
            needed = -math.log10(task.alpha)
            task.progress(
                Progress(self.drawn // 2, task.max_samples, seconds, task.seconds, 0.0, needed, name)
            )

    def _check_outputs(self) -> None:
        """A mechanism that never gives an output has no verdict."""
        words = [self.reader.vocabulary.words[t] for t in sorted(self.kinds)]
        if words and all(w.startswith(RAISES) for w in words):
            kinds = ", ".join(w.removeprefix(RAISES) for w in words)
            text = f"{self.task.mechanism.name} raises always: {kinds}, on all datasets"
            raise MechanismError(f"{text}. Give data= that it takes, such as data=[[...], ...]")

    def _sides(self) -> Iterator[tuple[str, _Side, _Side]]:
        """Give pairs of neighbours with draws on both, one by one, until a limit is met."""
        for name, x, y in self._neighbours():
            if self._spent():
                self.notes.append(f"the limits were met before {name} and what follows")
                return
            yield name, x(), y()

    def _neighbours(self) -> Iterator[tuple[str, _Drawn, _Drawn]]:
        if not self.task.datasets or self.task.neighbors != "add-remove":
            for edge in self.task.pairs:
                yield edge.name, partial(self._sample, edge.dataset), partial(self._sample, edge.neighbour)
            return
        for dataset in self.task.datasets:
            graph = SearchGraph(dataset, self._sample)
            for node, successor in graph.edges():
                (gone,) = set(node) - set(successor)
                name = f"{shown(graph.records(node), 80)} without {shown(graph.records((gone,)), 40)}"
                yield name, partial(graph.samples, node), partial(graph.samples, successor)

    def _spent(self) -> bool:
        late = time.monotonic() - self.started > self.task.seconds
        return late or self.drawn // 2 + self.samples > self.task.max_samples

    def _sample(self, dataset: Any) -> _Side:
        mechanism, size = self.task.mechanism, self.samples
        try:
            outputs = mechanism.draw(dataset, size)
        except BatchRaised:
            outputs = mechanism.draw(dataset, size, singly=True)
        self.drawn += size
        draws = self.reader.read(outputs)
        self.kinds |= set(np.unique(draws.tokens[:, 0]).tolist())
        return _Side(dataset, draws)

    def _witness(self, name: str, x: _Side, y: _Side) -> Witness | None:
        for column in range(len(self.reader.paths)):
            first, second = x.column(column), y.column(column)
            buckets = Buckets.over(first, second, self.method.buckets)
            a, b = buckets.counts(first), buckets.counts(second)
            for pair in self.task.claim.pairs:
                for sides, counts in (((x, y), (a, b)), ((y, x), (b, a))):
                    worst = self._worst(counts, pair)
                    if worst is not None:
                        return self._told(name, sides, pair, column, buckets, counts, worst)
        return None

    def _worst(self, counts: tuple[Codes, Codes], pair: Pair) -> int | None:
        """Return the bucket that breaks the predicate most, if more fail than are tolerated."""
        confidence = self.method.confidence
        compared = Comparison.of(counts[0], counts[1], pair, samples=self.samples, confidence=confidence)
        if pair.delta == self.delta:
            self.epsilon_lower = max(self.epsilon_lower, compared.epsilon_lower)
        failing = compared.failing
        if failing.sum() <= self.method.tolerated * len(failing):
            return None
        excess = compared.lower - pair.factor * compared.upper - pair.delta
        return int(np.argmax(np.where(failing, excess, -np.inf)))

    def _told(
        self,
        name: str,
        sides: tuple[_Side, _Side],
        pair: Pair,
        column: int,
        buckets: Buckets,
        counts: tuple[Codes, Codes],
        bucket: int,
    ) -> Witness:
        what, samples = self.reader.paths[column], self.samples
        picture = None
        if len(buckets.boundaries) > 1:
            seen, on_neighbour = (tuple(c[: len(buckets.boundaries) - 1].tolist()) for c in counts)
            picture = Histogram(tuple(buckets.boundaries.tolist()), seen, on_neighbour, samples, what)
        dataset, neighbour = (side.dataset for side in sides)
        frequency, neighbour_frequency = (float(c[bucket]) / samples for c in counts)
        given = f"{self.task.mechanism.name}, {self.task.claim.code}, pairs=[({dataset!r}, {neighbour!r})]"
        return Witness(
            edge=name,
            dataset=dataset,
            neighbour=neighbour,
            event=buckets.describe(bucket, what, self.reader.vocabulary.words),
            frequency=frequency,
            neighbour_frequency=neighbour_frequency,
            samples=samples,
            epsilon=pair.epsilon,
            delta=pair.delta,
            replay=f'audit({given}, method="histogram")',
            histogram=picture,
        )
