"""A run of the histogram method: edges, draws, comparisons, and what is reported of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.audit.evidence import Histogram, Witness
from sfumato.audit.histogram.buckets import Buckets, Codes, Column, Comparison
from sfumato.audit.histogram.kept import Kept
from sfumato.audit.histogram.search_graph import SearchGraph
from sfumato.audit.literals import shown
from sfumato.audit.mechanisms import BatchRaised
from sfumato.audit.outputs import Draws, Reader
from sfumato.audit.report import Report
from sfumato.audit.task import Progress, Task
from sfumato.audit.witness import replay
from sfumato.audit.words import RAISES
from sfumato.dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.audit.claims import Pair
    from sfumato.audit.histogram.method import HistogramMethod

NO_EXACT_RATE = (
    "the verdict and the lower bound of the histogram method have no exact error rate: its intervals are "
    "approximate, and hold for one pair of datasets at a time"
)


@dataclass(frozen=True)
class Side:
    """What was drawn on one dataset."""

    dataset: Any
    draws: Draws

    def column(self, number: int) -> Column:
        """Return numbers and tokens of one column of the outputs."""
        draws = self.draws.wide(number + 1)
        return draws.numbers[:, number], draws.tokens[:, number]


Drawn = Callable[[], Side]


class _SpentError(Exception):
    """A limit is met."""


class Run:
    """One audit by the histogram method, under way.

    Args:
        method: with its options.
        task: what to audit.
    """

    def __init__(self, method: HistogramMethod, task: Task) -> None:
        self.method = method
        self.task = task
        self.reader: Reader = Reader()
        self.drawn: int = 0
        self.compared: list[tuple[str, int]] = []
        self.kinds: set[int] = set()  # tokens of the first column
        self.epsilon_lower: float = 0.0
        self.samples: int = min(method.samples, task.max_samples)
        self.delta: float = min(pair.delta for pair in task.claim.pairs)
        self.notes: list[str] = [NO_EXACT_RATE]
        self.started: float = time.monotonic()
        self.kept: Kept[Side] = Kept(self._sample, lambda side: int(side.draws.numbers.size))
        # All roots at once: the draws that are kept know them apart.
        records = task.datasets if task.neighbors == "add-remove" else ()
        self.graphs: list[SearchGraph[Side]] = [SearchGraph(dataset, self.kept) for dataset in records]

    def report(self) -> Report:
        """Compare until too many edges have failed, all are compared, or the limits are met."""
        edges = sum(graph.edge_count for graph in self.graphs) or len(self.task.pairs)
        witness, failed = None, 0
        for name, x, y in self._sides():
            self.compared.append((name, len(x.draws)))
            found = self._witness(name, x, y)
            self._tell(name)
            if found is not None:
                witness, failed = witness or found, failed + 1
            if failed > self.method.tolerated_edges * edges:
                break
        self._check_outputs()
        if failed <= self.method.tolerated_edges * len(self.compared):
            witness = None
        self.notes.append(f"{failed} of {len(self.compared)} edges failed, of {edges} in all")
        self.notes += self.reader.notes
        return Report(
            mechanism=self.task.mechanism.name,
            claim=self.task.claim.text,
            violated=witness is not None,
            epsilon_lower=self.epsilon_lower,
            delta=self.delta,
            confidence=math.nan,
            alpha=math.nan,
            witness=witness,
            samples=self.drawn // 2,
            seconds=time.monotonic() - self.started,
            edges=tuple(self.compared),
            method="histogram",
            notes=tuple(self.notes),
            settings=(*self.task.settings, *self.method.settings),
        )

    def _tell(self, name: str) -> None:
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
            raise self.task.mechanism.raises_always(kinds, "datasets")

    def _sides(self) -> Iterator[tuple[str, Side, Side]]:
        """Give pairs of neighbours with draws on both, one by one, until a limit is met."""
        for name, x, y in self._edges():
            try:
                sides = x(), y()
            except _SpentError:
                self.notes.append(f"the limits were met before {name} and what follows")
                return
            yield name, *sides

    def _edges(self) -> Iterator[tuple[str, Drawn, Drawn]]:
        for graph in self.graphs:
            for node, successor in graph.edges():
                (gone,) = set(node) - set(successor)
                name = f"{shown(graph.records(node), 80)} without {shown(graph.records((gone,)), 40)}"
                yield name, partial(graph.samples, node), partial(graph.samples, successor)
        if not self.graphs:
            for edge in self.task.pairs:
                yield edge.name, partial(self.kept, edge.dataset), partial(self.kept, edge.neighbour)

    def _sample(self, dataset: Any) -> Side:
        mechanism, size = self.task.mechanism, self.samples
        late = time.monotonic() - self.started > self.task.seconds
        if late or self.drawn + size > 2 * self.task.max_samples:
            raise _SpentError
        try:
            outputs = mechanism.draw(dataset, size)
        except BatchRaised:
            outputs = mechanism.draw(dataset, size, singly=True)
        self.drawn += size
        draws = self.reader.read(outputs)
        self.kinds |= set(np.unique(draws.tokens[:, 0]).tolist())
        return Side(dataset, draws)

    def _witness(self, name: str, x: Side, y: Side) -> Witness | None:
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
        if failing.sum() <= self.method.tolerated_buckets * len(failing):
            return None
        excess = compared.lower - pair.factor * compared.upper - pair.delta
        return int(np.argmax(np.where(failing, excess, -np.inf)))

    def _told(
        self,
        name: str,
        sides: tuple[Side, Side],
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
            replay=replay(
                self.task.mechanism, self.task.claim, dataset, neighbour, f"method={self.method.code}"
            ),
            histogram=picture,
        )
