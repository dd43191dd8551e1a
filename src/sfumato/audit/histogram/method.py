"""The options of the histogram method."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from sfumato.audit.datasets import halton
from sfumato.audit.histogram.run import Run
from sfumato.audit.report import Report
from sfumato.audit.task import Task
from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact import positive_int


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
        tolerated_buckets: share of a histogram's buckets that may fail before an edge does; from 0 to less
            than 1. It hides defects that show on few buckets.
        tolerated_edges: share of all edges that may fail; from 0 to less than 1. 0 stops at the first, but
            then the method calls most correct mechanisms wrong that reach their claim on every edge.
    Raises:
        ParameterError: a parameter is outside its range.

    >>> from sfumato.audit import audit
    >>> def exact_count(dataset, size):  # without noise
    ...     return [len(dataset)] * size
    >>> method = HistogramMethod(datasets=3, size=2, samples=1000, buckets=40)
    >>> method.data()
    [[0.5, 0.3333333333333333], [0.25, 0.6666666666666666], [0.75, 0.1111111111111111]]
    >>> audit(exact_count, epsilon=1, method=method).violated
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
        """The method as Python code."""
        changed = [
            f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if getattr(self, f.name) != f.default
        ]
        return f"HistogramMethod({', '.join(changed)})" if changed else '"histogram"'

    @property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """What a report says of the options, those of its own datasets left out."""
        told = [f.name for f in fields(self) if f.name not in ("datasets", "size")]
        return tuple((f"method.{name}", f"{getattr(self, name)}") for name in told)

    def data(self) -> list[Any]:
        """Return the datasets that an audit without data or pairs begins with."""
        return halton(self.datasets, self.size)

    def run(self, task: Task) -> Report:
        """Compare until too many edges have failed, all are compared, or the limits are met.

        Args:
            task: what is to be audited.
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
