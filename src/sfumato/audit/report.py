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
from sfumato.files import checked_place, replacing


@dataclass(frozen=True)
class Histogram:
    """The histogram in an audit report: counts of both sides over the same cells.

    Part of a `Witness`; `audit` makes it.

    Args:
        boundaries: cells + 1 increasing numbers.
        counts: draws on the witness's own dataset, one count for each cell.
        neighbour_counts: draws on the neighbour.
        samples: draws on each side, those outside the boundaries included.
        what: what is counted, such as "value" or "exponent of the lowest set bit of value".
    """

    boundaries: tuple[float, ...]
    counts: tuple[int, ...]
    neighbour_counts: tuple[int, ...]
    samples: int
    what: str = "value"


@dataclass(frozen=True)
class Witness:
    """The witness in an audit report: neighbours, and an event that differs more than the claim allows.

    Part of a `Report`, which `audit` makes.

    Args:
        edge: how the pair came about, in words.
        dataset: the dataset on which the event is the more frequent one.
        neighbour: the other.
        event: the event in words, such as "value > 0.73".
        frequency: share of the draws on `dataset` that are in the event.
        neighbour_frequency: the same on `neighbour`.
        samples: draws on each side behind these shares.
        epsilon: of the pair of the claim that is broken.
        delta: of that pair.
        replay: a line of Python that audits this pair again.
        histogram: counts of both sides, where the outputs have numbers in them.
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
        """The epsilon that a witness's shares say: ln((frequency - delta) / neighbour_frequency)."""
        above = self.frequency - self.delta
        if above <= 0:
            return 0.0
        return math.inf if self.neighbour_frequency == 0 else math.log(above / self.neighbour_frequency)


@dataclass(frozen=True)
class Excluded:
    """What the report of an audit that found nothing says about the pairs that were tested.

    Part of a `Report`, which `audit` makes.

    Args:
        epsilon_lower: true epsilon (at `delta`) is at least this, with the report's confidence.
        excess: with the report's confidence, P(A) <= e^epsilon Q(A) + delta + excess for all half-lines A of
            every recorded number, for all pairs of datasets that were drawn from, in both directions.
        visible_epsilon: the least epsilon (at the first delta of the claim) that could be expected to be
            found with so many samples on one pair of datasets, if its event were the most telling one
            possible. Less was out of sight.
    """

    epsilon_lower: float
    excess: float
    visible_epsilon: float


@dataclass(frozen=True)
class Point:
    """A point of an audit report's trace: the wealth after so many draws.

    Part of a `Report`, which `audit` makes.

    Args:
        samples: draws a side up to now, over all pairs of datasets.
        log10_wealth: of the whole audit; at `-log10(alpha)` the claim is rejected.
        edge: number of the pair that was drawn from.
    """

    samples: int
    log10_wealth: float
    edge: int


@dataclass(frozen=True, repr=False)
class Report(TextCard):
    """The report of an audit: its verdict with the evidence.

    Made by `audit`.

    Args:
        mechanism: its name.
        claim: in words.
        violated: True: the claim is rejected; on a correct mechanism that happens with probability at most
            `alpha`, whatever the data and whenever the audit stopped. False: nothing was found.
        epsilon_lower: a lower bound on the true epsilon at `delta`, with probability at least `confidence`.
        delta: the delta that `epsilon_lower` is about.
        confidence: of `epsilon_lower` and `excluded`; NaN where the method has none.
        alpha: bound on the false-alarm probability; NaN where the method has none.
        witness: what broke the claim; None if nothing did.
        samples: draws a side, over all pairs of datasets.
        seconds: time that it took.
        edges: the pairs of datasets in words, with the draws a side spent on each.
        excluded: what a pass excludes; None if violated.
        trace: wealth over samples.
        method: "betting" or "histogram".
        notes: what a reader should know, such as pairs on which both sides always raise.
        closest: where nothing was found, the pair that was looked at most and the event with the most
            evidence there; None if violated, or if there was nothing to bet on.
        settings: options of the audit and their values, in words.

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
        """Return the audit report as numbers, texts, lists and mappings; datasets as Python code."""
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
        """Return the audit report as JSON; infinities are the texts "inf" and "-inf"."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def to_html(self) -> str:
        """Return the audit report as an HTML page with pictures, without scripts or other files."""
        return page(self)

    def write(self, path: str | Path) -> None:
        """Write the audit report to a file.

        Args:
            path: ends in .html (a page with pictures), .json or .txt; a file of that name is replaced.
        Raises:
            ParameterError: the path ends otherwise, is in no folder, or is something else than a file.
            OSError: the file cannot be written.
        """
        target = checked_path(path)
        writers = {".html": self.to_html, ".json": self.to_json, ".txt": self.__str__}
        written = writers[target.suffix.lower()]()
        whole = written if written.endswith("\n") else f"{written}\n"
        with replacing(target) as file:
            file.write(whole.encode("utf-8", errors="replace"))


def checked_path(path: str | Path, name: str = "path") -> Path:
    """Return the whole path of a report file, if it can be written; `name` is the parameter's name."""
    return checked_place(path, name, (".html", ".json", ".txt"))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
