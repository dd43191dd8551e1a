"""What an audit found, as a verdict with its evidence; printed, and written to files."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any

from sfumato.audit.evidence import Excluded, Point, Witness
from sfumato.audit.page import page
from sfumato.audit.wording import literal, text
from sfumato.dataclass import dataclass
from sfumato.display.cards import Told
from sfumato.files import checked_place, replacing


@dataclass(frozen=True, repr=False)
class Report(Told):
    """What an audit found.

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
        raise TypeError("a Report is neither true nor false: ask report.violated")

    def __str__(self) -> str:
        return text(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as numbers, texts, lists and mappings; datasets as Python code."""
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
        """Return the report as a page with pictures, which needs no other file, no network and no script."""
        return page(self)

    def write(self, path: str | Path) -> None:
        """Write the report to a file.

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
    """Return the whole path, if a report can be written there; `name` is the parameter that it came by."""
    return checked_place(path, name, (".html", ".json", ".txt"))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
