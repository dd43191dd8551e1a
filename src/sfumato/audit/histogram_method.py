"""The histogram method of auditing: its options, and its run over the search graphs of datasets."""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from sfumato.audit.audit_task import Task
from sfumato.audit.datasets import halton, without
from sfumato.audit.histogram_buckets import Buckets, Codes, Column, Comparison
from sfumato.audit.mechanisms import BatchRaised
from sfumato.audit.output_columns import Draws, Reader
from sfumato.audit.python_code import replay, shown
from sfumato.audit.report import Histogram, Report, Witness
from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact import positive_int

if TYPE_CHECKING:
    from sfumato.audit.claims import Pair


Node = tuple[int, ...]


S = TypeVar("S")


class SearchGraph(Generic[S]):
    """The search graph of the histogram method: subsets of a dataset's records, one record apart.

    Args:
        dataset: a sequence of records: list, tuple, array, or a table with `take` or `iloc`.
        sample: draws from a mechanism on a dataset, and remembers them: `DrawCache`. It is given the dataset
            and a place that tells it from the other subsets of this graph.

    A dataset of n records has 2^n subsets and n 2^(n - 1) edges.

    >>> from sfumato.audit.histogram_method import DrawCache
    >>> graph = SearchGraph(["a", "b"], DrawCache(len))
    >>> [(graph.records(node), graph.records(next_)) for node, next_ in graph.edges()]
    [(['a', 'b'], ['b']), (['a', 'b'], ['a']), (['a'], []), (['b'], [])]

    Source:
        Desfontaines 2020, figure 4.15 and the algorithm after it; Wilson et al. 2020, section 5.3.
    """

    def __init__(self, dataset: Any, sample: Callable[[Any, Hashable], S]) -> None:
        self.dataset = dataset
        self.root: Node = tuple(range(len(dataset)))
        self._sample = sample

    @property
    def edge_count(self) -> int:
        """The number of edges of a search graph."""
        return len(self.root) << max(len(self.root) - 1, 0)

    def edges(self) -> Iterator[tuple[Node, Node]]:
        """Yield each edge of a search graph once, depth first."""
        stack, seen = [self.root], {self.root}
        while stack:
            node = stack.pop()
            for successor in (node[:i] + node[i + 1 :] for i in range(len(node))):
                yield node, successor
                if successor not in seen:
                    seen.add(successor)
                    stack.append(successor)

    def samples(self, node: Node) -> S:
        """Return the draws on a search graph's node, drawn once for equal records."""
        return self._sample(self.records(node), (id(self), node))

    def records(self, node: Node) -> Any:
        """Return the records of a search graph's node as a dataset of the same kind."""
        kept, found = set(node), self.dataset
        for i in reversed(self.root):
            if i not in kept:
                found = without(found, i)
        return found


# So many numbers are kept in all, of 24 bytes each with what belongs to them.
MAX_KEPT = 20_000_000
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class DrawCache(Generic[S]):
    """The histogram method's draws on datasets; those of equal datasets are the same.

    Args:
        sample: draws from a mechanism on a dataset.
        size: how much room a sample takes.
        most: room for all. Where they take more, those that were asked for least recently are given up, and
            drawn anew if they are asked for again.

    >>> kept = DrawCache(lambda dataset: sum(dataset))
    >>> kept([1, 2]), kept([1, 2]), kept.drawn
    (3, 3, 1)
    """

    def __init__(
        self, sample: Callable[[Any], S], size: Callable[[S], int] = lambda sample: 1, most: int = MAX_KEPT
    ) -> None:
        self._sample, self._size, self._room = sample, size, most
        self._samples: dict[Hashable, S] = {}
        self.drawn: int = 0

    def __call__(self, dataset: Any, place: Hashable = None) -> S:
        """Return the histogram method's draws on a dataset; `place` identifies one without a content."""
        key = content(dataset)
        key = place if key is None else key
        if key in self._samples:
            found = self._samples.pop(key)
        else:
            found = self._sample(dataset)
            self.drawn += 1
            self._room -= self._size(found)
        if key is None:
            self._room += self._size(found)
            return found
        self._samples[key] = found
        while self._room < 0 and len(self._samples) > 1:
            self._room += self._size(self._samples.pop(next(iter(self._samples))))
        return found


def content(value: Any) -> Hashable | None:
    """Return a key of a dataset's content, for the histogram method; None where there is none.

    Never their text: different records may have one text.

    >>> content([1.0, -0.0]) == content([1.0, -0.0]), content([1.0, -0.0]) == content([1.0, 0.0])
    (True, False)
    >>> content([lambda: 1]) is None
    True
    """
    try:
        return _content(value)
    except Exception:  # what cannot be pickled, or contains itself
        return None


def _content(value: Any) -> Hashable:
    if type(value) in _PLAIN:
        return type(value), repr(value)
    if type(value) in (list, tuple):
        return type(value), tuple(map(_content, value))
    if type(value) is np.ndarray and not value.dtype.hasobject:
        return value.shape, value.dtype.str, value.tobytes()
    return type(value), pickle.dumps(value)


NO_EXACT_RATE = (
    "the verdict and the lower bound of the histogram method have no exact error rate: its intervals "
    "are approximate, and cover one pair of datasets at a time"
)


@dataclass(frozen=True)
class Side:
    """The draws of the histogram method on one dataset."""

    dataset: Any
    draws: Draws

    def column(self, number: int) -> Column:
        """Return numbers and tokens of one column of one side's histogram."""
        draws = self.draws.wide(number + 1)
        return draws.numbers[:, number], draws.tokens[:, number]


Drawn = Callable[[], Side]


class _SpentError(Exception):
    """A limit of the histogram method is reached."""


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
        self.cache: DrawCache[Side] = DrawCache(self._sample, lambda side: int(side.draws.numbers.size))
        # All roots at once: the draws that are kept know them apart.
        records = task.datasets if task.neighbors == "add-remove" else ()
        self.graphs: list[SearchGraph[Side]] = [SearchGraph(dataset, self.cache) for dataset in records]

    def report(self) -> Report:
        """Audit by histograms until too many edges have failed, all are compared, or limits are reached."""
        edges = sum(graph.edge_count for graph in self.graphs) or len(self.task.pairs)
        witness, failed = None, 0
        for name, x, y in self._draw_pairs():
            self.compared.append((name, len(x.draws)))
            found = self._witness(name, x, y)
            self.task._show_progress(self.drawn // 2, time.monotonic() - self.started, name)
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

    def _check_outputs(self) -> None:
        """Refuse a verdict of the histogram method on a mechanism that always raises."""
        kinds = self.reader.only_raised(sorted(self.kinds))
        if kinds:
            raise self.task.mechanism._raises_always(kinds, "datasets")

    def _draw_pairs(self) -> Iterator[tuple[str, Side, Side]]:
        """Yield pairs of neighbours with the histogram method's draws on both, until a limit is reached."""
        for name, x, y in self._edges():
            try:
                sides = x(), y()
            except _SpentError:
                self.notes.append(f"the limits were met before {name} and the pairs after it")
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
                yield edge.name, partial(self.cache, edge.dataset), partial(self.cache, edge.neighbour)

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
                        return self._make_witness(name, sides, pair, column, buckets, counts, worst)
        return None

    def _worst(self, counts: tuple[Codes, Codes], pair: Pair) -> int | None:
        """Return the histogram bucket that breaks the predicate most, if more fail than are tolerated."""
        confidence = self.method.confidence
        compared = Comparison.compare(counts[0], counts[1], pair, samples=self.samples, confidence=confidence)
        if pair.delta == self.delta:
            self.epsilon_lower = max(self.epsilon_lower, compared.epsilon_lower)
        failing = compared.failing
        if failing.sum() <= self.method.tolerated_buckets * len(failing):
            return None
        excess = compared.lower - pair.factor * compared.upper - pair.delta
        return int(np.argmax(np.where(failing, excess, -np.inf)))

    def _make_witness(
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


@dataclass(frozen=True)
class HistogramMethod:
    """The histogram method: compare histograms of outputs on all neighbours in the search graphs.

    Pass it as `audit(..., method=HistogramMethod(...))`; `method="histogram"` has the defaults. If the audit
    has no data and no pairs, the datasets are points of the Halton sequence in the unit cube.

    Args:
        datasets: the number of Halton datasets.
        size: the number of records of each Halton dataset.
        samples: the number of draws on each node of a search graph.
        buckets: the number of buckets of equal width between the smallest and the largest number; None
            chooses the width by the rule of Freedman and Diaconis.
        confidence: the confidence of the intervals of one histogram, over all buckets together.
        tolerated_buckets: the share of a histogram's buckets that may fail before an edge fails; from 0 to
            less than 1. It hides defects that show in few buckets.
        tolerated_edges: the share of all edges that may fail; from 0 to less than 1. 0 stops at the first
            failure, but then rejects most correct mechanisms that reach their claim on every edge.
    Raises:
        ParameterError: a parameter is out of range.

    >>> from sfumato.audit import audit
    >>> def exact_count(dataset, size):  # without noise
    ...     return [len(dataset)] * size
    >>> method = HistogramMethod(datasets=3, size=2, samples=1000, buckets=40)
    >>> method.data()
    [[0.5, 0.3333333333333333], [0.25, 0.6666666666666666], [0.75, 0.1111111111111111]]
    >>> audit(exact_count, epsilon=1, method=method).violated
    True

    Source:
        Desfontaines 2020, section 4.2.6; Wilson et al. 2020, section 5.3; the defaults are those of the
        published tester of google/differential-privacy.
    """

    datasets: int = 50
    size: int = 3
    samples: int = 10_000
    buckets: int | None = None
    confidence: float = 0.95
    tolerated_buckets: float = 0.0
    tolerated_edges: float = 0.05

    def __post_init__(self) -> None:
        for name in ("datasets", "size", "samples"):
            positive_int(getattr(self, name), name)
        if self.buckets is not None:
            positive_int(self.buckets, "buckets")
        if not 0 < self.confidence < 1:
            raise ParameterError("confidence", self.confidence, "between 0 and 1")
        for name in ("tolerated_buckets", "tolerated_edges"):
            if not 0 <= getattr(self, name) < 1:
                raise ParameterError(name, getattr(self, name), "from 0 to less than 1")

    @property
    def code(self) -> str:
        """The histogram method as Python code."""
        changed = [
            f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if getattr(self, f.name) != f.default
        ]
        return f"HistogramMethod({', '.join(changed)})" if changed else '"histogram"'

    @property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """The options of the method that a report shows."""
        told = [f.name for f in fields(self) if f.name not in ("datasets", "size")]
        return tuple((f"method.{name}", f"{getattr(self, name)}") for name in told)

    def data(self) -> list[Any]:
        """Return the datasets for audits that are given none."""
        return halton(self.datasets, self.size)

    def run(self, task: Task) -> Report:
        """Audit by the histogram method, and return the report.

        Args:
            task: the task of the audit.
        Returns:
            A `Report`.

        A method of one's own can go on to it, here after a quick look:

        >>> from sfumato.audit import audit
        >>> class QuickFirst:
        ...     def run(self, task):
        ...         quick = HistogramMethod(samples=500).run(task)
        ...         return quick if quick.violated else HistogramMethod().run(task)
        >>> def exact_count(dataset, size):  # without noise
        ...     return [len(dataset)] * size
        >>> report = audit(exact_count, epsilon=1, pairs=[([1.0], [])], method=QuickFirst())
        >>> report.violated, report.samples
        (True, 500)
        """
        return Run(self, task).report()
