"""What a ledger remembers."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from sfumato.budget.filters import Spent
from sfumato.dataclass import dataclass
from sfumato.display.numbers import exact
from sfumato.display.text import visible

_LONGEST = 200  # of what `repr` has of what was asked

KINDS = ("create", "grant", "spend")


@dataclass(frozen=True, repr=False)
class Entry(Spent):
    """One entry of a ledger: a question that was paid, or a cap that was set.

    Args:
        what: in a few words.
        epsilon, delta: what the question asked for; or the cap.
        loss: all that its noises lose, as the sums saw it; of a cap nothing.
        number: of the entry; later ones have larger numbers.
        at: when, in UTC, as the clock said.
        day: by which its period goes: never before that of an earlier entry.
        kind: "create" for the cap of a dataset over all analysts, "grant" for that of one, "spend".
        dataset: whose budget it is.
        analyst: who asked, or whose cap it is; None for the owner, or all.
        composition, period: of a cap.

    >>> import tempfile
    >>> import sfumato as sf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = sf.Ledger(f"{folder}/budget.db")
    ...     ledger.create("hospital", epsilon=3)
    ...     entry = ledger.budget("hospital").spend("0.25", what="patients by year")
    ...     print(entry.number, entry.kind, entry.what, entry.epsilon)
    2 spend patients by year 1/4
    """

    number: int
    at: datetime
    day: date
    kind: str
    dataset: str
    analyst: str | None
    composition: str | None = None
    period: str | None = None

    def row(self) -> dict[str, Any]:
        """Return the entry as plain values, for CSV and JSON; numbers are exact, as texts.

        >>> import tempfile
        >>> import sfumato as sf
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = sf.Ledger(f"{folder}/budget.db")
        ...     ledger.create("hospital", epsilon=3)
        ...     (entry,) = ledger.history()
        ...     row = entry.row()
        >>> row["kind"], row["epsilon"], row["composition"]
        ('create', '3', 'tight')
        """
        from sfumato.budget.ledger.written import loss_text

        return {
            "entry": self.number,
            "at": self.at.isoformat(timespec="microseconds"),
            "day": self.day.isoformat(),
            "kind": self.kind,
            "dataset": self.dataset,
            "analyst": self.analyst,
            "what": self.what,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "loss": loss_text(self.loss) if self.kind == "spend" else None,
            "composition": self.composition,
            "period": self.period,
        }

    def __repr__(self) -> str:
        whose = "" if self.analyst is None else f" for {self.analyst}"
        what = self.what if len(self.what) <= _LONGEST else f"{self.what[:_LONGEST]}..."
        return visible(
            f"<Entry {self.number} of {self.dataset!r}{whose}: {what}, epsilon={exact(self.epsilon)}, "
            f"delta={exact(self.delta)}>"
        )


@dataclass(frozen=True)
class Again:
    """What a journal knows of a question before it is asked.

    Args:
        question: the digest by which it is known; None where no version of the data is declared.
        entry: of the ledger, of the same question before; None where there is none.
        body: the answer to that, as it was entered.
        data: the version of the data that is declared.
    """

    question: str | None
    entry: int | None = None
    body: bytes | None = None
    data: str | None = None
