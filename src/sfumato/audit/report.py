"""The report of an audit: its verdict and evidence, printed, and written to files."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any

from sfumato.audit.python_code import literal
from sfumato.audit.report_page import page
from sfumato.audit.report_text import text
from sfumato.dataclass import dataclass
from sfumato.display.cards import TextCard
from sfumato.files import check_output_path, replacing


@dataclass(frozen=True)
class Histogram:
    """A histogram in an audit report: counts of both sides over the same cells.

    Part of a `Witness`; `audit` makes it.

    Args:
        boundaries: the boundaries of the cells, increasing; one more than there are cells.
        counts: the number of draws in each cell on the witness's own dataset.
        neighbour_counts: the number of draws in each cell on the neighbour.
        samples: the number of draws on each side, including those outside the boundaries.
        what: the quantity, such as "value" or "exponent of the lowest set bit of value".
    """

    boundaries: tuple[float, ...]
    counts: tuple[int, ...]
    neighbour_counts: tuple[int, ...]
    samples: int
    what: str = "value"


@dataclass(frozen=True)
class Witness:
    """A witness in an audit report: neighbours, and an event that differs more than the claim allows.

    Part of a `Report`, which `audit` makes.

    Args:
        edge: a description of how the two datasets differ.
        dataset: the dataset on which the event is more frequent.
        neighbour: the other dataset.
        event: a description of the event, such as "value > 0.73".
        frequency: share of the draws on `dataset` that are in the event.
        neighbour_frequency: the share on `neighbour`.
        samples: the number of draws on each side behind these shares.
        epsilon: the epsilon of the violated pair of the claim.
        delta: the delta of that pair.
        replay: a line of Python that audits this pair again.
        histogram: counts of both sides, if the outputs contain numbers.
    """

    edge: str
    dataset: Any
    neighbour: Any
    event: str
    frequency: float
    neighbour_frequency: float
    samples: int
    epsilon: float
    delta: float
    replay: str
    histogram: Histogram | None = None

    @property
    def observed_epsilon(self) -> float:
        """The epsilon that the shares imply: ln((frequency - delta) / neighbour_frequency)."""
        above = self.frequency - self.delta
        if above <= 0:
            return 0.0
        return math.inf if self.neighbour_frequency == 0 else math.log(above / self.neighbour_frequency)


@dataclass(frozen=True)
class Excluded:
    """What an audit without a violation rules out for the pairs that it tested.

    Part of a `Report`, which `audit` makes.

    Args:
        epsilon_lower: the true epsilon (at `delta`) is at least this, with the report's confidence.
        excess: with the report's confidence, P(A) <= e^epsilon Q(A) + delta + excess for all half-lines A of
            every recorded number, for all pairs of datasets drawn from, in both directions.
        visible_epsilon: the smallest epsilon (at the first delta of the claim) that this number of samples on
            one pair of datasets can be expected to detect, for the most revealing event possible. Smaller
            ones were out of sight.
    """

    epsilon_lower: float
    excess: float
    visible_epsilon: float


@dataclass(frozen=True)
class Point:
    """A point of an audit report's trace: the wealth after a number of draws.

    Part of a `Report`, which `audit` makes.

    Args:
        samples: draws per side so far, over all pairs of datasets.
        log10_wealth: log10 of the wealth of the whole audit; at `-log10(alpha)` the claim is rejected.
        edge: the number of the pair drawn from.
    """

    samples: int
    log10_wealth: float
    edge: int


@dataclass(frozen=True, repr=False)
class Report(TextCard):
    """The report of an audit: its verdict with the evidence.

    `audit` returns it.

    Args:
        mechanism: the name of the mechanism.
        claim: the claim in words.
        violated: True if the claim is rejected. For a correct mechanism the probability is at most `alpha`,
            whatever the data and whenever the audit stopped. False if no violation was found.
        epsilon_lower: a lower bound on the true epsilon at `delta`, with probability at least `confidence`.
        delta: the delta to which `epsilon_lower` belongs.
        confidence: the confidence of `epsilon_lower` and `excluded`; NaN if the method has none.
        alpha: a bound on the false-alarm probability; NaN if the method has none.
        witness: the evidence against the claim, or None.
        samples: draws per side, over all pairs of datasets.
        seconds: the seconds that it took.
        edges: descriptions of the pairs of datasets, with the draws per side spent on each.
        excluded: what a pass rules out; None if violated.
        trace: the wealth by number of samples.
        method: "betting" or "histogram".
        notes: what a reader should know, such as pairs on which both sides always raise.
        closest: without a violation, the pair with the most draws and its event with the most evidence; None
            if violated, or if there was nothing to bet on.
        settings: options of the audit with their values, as text.

    >>> import json, pathlib, tempfile
    >>> from sfumato.audit import audit
    >>> def exact_count(dataset, size):  # without noise
    ...     return [len(dataset)] * size
    >>> report = audit(exact_count, epsilon=1, pairs=[([1.0], [])])
    >>> report.to_dict()["witness"]["event"], json.loads(report.to_json())["violated"]
    ('exact value is 1', True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "audit.html"
    ...     report.write(file)
    ...     file.read_text() == report.to_html()
    True
    """

    mechanism: str
    claim: str
    violated: bool
    epsilon_lower: float
    delta: float
    confidence: float
    alpha: float
    witness: Witness | None
    samples: int
    seconds: float
    edges: tuple[tuple[str, int], ...]
    excluded: Excluded | None = None
    trace: tuple[Point, ...] = field(default=(), repr=False)
    method: str = "betting"
    notes: tuple[str, ...] = ()
    closest: Witness | None = field(default=None, repr=False)
    settings: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        raise TypeError("a Report has no truth value. Use report.violated")

    def __str__(self) -> str:
        return text(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as numbers, text, lists and mappings; datasets are Python code."""
        # Datasets first: some, such as a connection's tables, cannot be copied.
        witnesses = {"witness": self.witness, "closest": self.closest}
        as_code = {
            name: replace(w, dataset=literal(w.dataset), neighbour=literal(w.neighbour))
            for name, w in witnesses.items()
            if w is not None
        }
        found = asdict(replace(self, **as_code))  # type: ignore[arg-type]
        for name, witness in as_code.items():
            found[name]["observed_epsilon"] = witness.observed_epsilon
        plain: dict[str, Any] = _finite(found)
        return plain

    def to_json(self) -> str:
        """Return the report as JSON; infinities are the texts "inf" and "-inf"."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def to_html(self) -> str:
        """Return the report as an HTML page with pictures, without scripts or other files."""
        return page(self)

    def write(self, path: str | Path) -> None:
        """Write the report to a file.

        Args:
            path: a path that ends in .html (a page with pictures), .json or .txt; a file of that name is
                replaced.
        Raises:
            ParameterError: the path has another ending, its folder does not exist, or it is not a file.
            OSError: the file cannot be written.
        """
        target = check_path(path)
        writers = {".html": self.to_html, ".json": self.to_json, ".txt": self.__str__}
        written = writers[target.suffix.lower()]()
        whole = written if written.endswith("\n") else f"{written}\n"
        with replacing(target) as file:
            file.write(whole.encode("utf-8", errors="replace"))


def check_path(path: str | Path, name: str = "path") -> Path:
    """Return the whole path of a report file, if it can be written; `name` is the parameter's name."""
    return check_output_path(path, name, (".html", ".json", ".txt"))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
