"""Lines of a journal within a transaction: each has the digest of all before it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Row, select, update

from sfumato.budget.ledger.ledger_accounts import LedgerAccount, account_label, cap_cells
from sfumato.budget.ledger.ledger_entries import damaged
from sfumato.budget.ledger.ledger_tables import JOURNAL, LEDGER
from sfumato.dataclass import dataclass
from sfumato.exact.parameters import canonical_bytes

# What a line tells of, in the order in which it may come for one question.
KINDS = ("cap", "asked", "refused", "answered", "failed", "handed", "repeated", "published", "data")


@dataclass(frozen=True)
class Line:
    """One line of a ledger's journal.

    Args:
        number: 1, 2, 3, ...
        at: the time in UTC, according to the clock.
        kind: "cap" when a cap was set; "asked" when a query was charged and "refused" when it was not;
            "answered" or "failed" for its outcome, or "handed" when a pipeline has it; "repeated" when an
            answer was repeated at no charge; "published" when the owner gives it to everybody; "data" when
            the owner declared a version of the data.
        dataset: the dataset whose budget it is about.
        analyst: the analyst who asked; None for the owner.
        entry: the ledger entry that the line is about, or None.
        detail: further content, as plain data.
        sha256: the digest of this line and all earlier ones.

    Made by `Journal.lines`, which has an example.
    """

    number: int
    at: datetime
    kind: str
    dataset: str
    analyst: str | None
    entry: int | None
    detail: Mapping[str, Any]
    sha256: str

    def row(self) -> dict[str, Any]:
        """Return the journal line as plain data, for JSON.

        >>> import tempfile
        >>> import sfumato as sf
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = sf.Ledger(f"{folder}/budget.db")
        ...     ledger.create("hospital", epsilon=3)
        ...     (line,) = ledger.journal.lines()
        >>> row = line.row()
        >>> row["number"], row["kind"], row["dataset"]
        (1, 'cap', 'hospital')
        """
        return {
            "number": self.number,
            "at": self.at.isoformat(timespec="microseconds"),
            "kind": self.kind,
            "dataset": self.dataset,
            "analyst": self.analyst,
            "entry": self.entry,
            **self.detail,
            "sha256": self.sha256,
        }


def after(before: str, content: str) -> str:
    """Return the digest of a journal line that follows the line with digest `before`.

    Args:
        before: theirs.
        content: of the line.
    """
    return hashlib.sha256(f"{before}\n{content}".encode()).hexdigest()


def append(
    connection: Connection,
    where: str,
    kind: str,
    at: datetime,
    dataset: str,
    analyst: str | None,
    *,
    entry: int | None = None,
    question: str | None = None,
    **detail: Any,
) -> int:
    """Append a line to the journal, and return its number; the ledger's row must be locked.

    Args:
        where: the ledger, for messages.
        question: the digest by which a question is known again.
        detail: plain data; no value of a row.
    Raises:
        EngineError: the end of the journal is missing.
    """
    number, before = _end(connection, where)
    content = canonical_bytes(
        {
            "number": number + 1,
            "at": at.isoformat(timespec="microseconds"),
            "kind": kind,
            "dataset": dataset,
            "analyst": analyst,
            "entry": entry,
            "question": question,
            **detail,
        }
    ).decode()
    digest = after(before, content)
    connection.execute(
        JOURNAL.insert().values(
            id=number + 1,
            content=content,
            sha256=digest,
            kind=kind,
            dataset=dataset,
            analyst=analyst or "",
            entry=entry,
            question=question,
        )
    )
    connection.execute(update(LEDGER).values(journal=digest))
    return number + 1


def _end(connection: Connection, where: str) -> tuple[int, str]:
    """Return the number and digest of the journal's last line, checked against the ledger's row."""
    last = connection.execute(
        select(JOURNAL.c.id, JOURNAL.c.sha256).order_by(JOURNAL.c.id.desc()).limit(1)
    ).first()
    begins, kept = connection.execute(select(LEDGER.c.begins, LEDGER.c.journal)).one()
    number, digest = (0, hashlib.sha256(begins.encode()).hexdigest()) if last is None else last
    if digest != kept:
        raise damaged(where, "the end of the journal is missing, or was changed")
    return int(number), str(digest)


def lines(
    connection: Connection, where: str, dataset: str | None = None, analyst: str | None = None
) -> list[Line]:
    """Return journal lines in order: all, or those of a dataset and an analyst."""
    asked = select(JOURNAL).order_by(JOURNAL.c.id)
    for name, value in {"dataset": dataset, "analyst": analyst}.items():
        if value is not None:
            asked = asked.where(JOURNAL.c[name] == value)
    return [read(row) for row in connection.execute(asked)]


def check_cap(connection: Connection, where: str, account: LedgerAccount) -> None:
    """Check that an account's cap is the last one in the journal's lines.

    Raises:
        EngineError: it was changed by hand.
    """
    said = _last_cap(connection, account.dataset, account.analyst)
    if any(said.get(name) != cell for name, cell in cap_cells(account).items()):
        raise damaged(where, f"the cap of {account.account.called} is not the one that its owner set")


def check_absent(connection: Connection, where: str, dataset: str, analyst: str | None) -> None:
    """Check that the journal's lines set no cap where the ledger has no account.

    Raises:
        EngineError: it was taken out by hand.
    """
    if _last_cap(connection, dataset, analyst):
        raise damaged(
            where, f"{account_label(dataset, analyst)} is missing, for which its owner has set a cap"
        )


def _last_cap(connection: Connection, dataset: str, analyst: str | None) -> Mapping[str, Any]:
    """Return the last cap in the journal's lines for a dataset and analyst; empty if there is none."""
    of_cap = (
        (JOURNAL.c.kind == "cap") & (JOURNAL.c.dataset == dataset) & (JOURNAL.c.analyst == (analyst or ""))
    )
    line = connection.execute(select(JOURNAL).where(of_cap).order_by(JOURNAL.c.id.desc()).limit(1)).first()
    entered: Mapping[str, Any] = {} if line is None else read(line).detail["entered"]
    return entered


def read(row: Row[*tuple[Any, ...]]) -> Line:
    """Return the journal line in a database row.

    Raises:
        ValueError, KeyError, TypeError: it is none.
    """
    detail = json.loads(row.content)
    at, analyst, entry = detail.pop("at"), detail.pop("analyst"), detail.pop("entry")
    number, kind, dataset = detail.pop("number"), detail.pop("kind"), detail.pop("dataset")
    if kind not in KINDS or not all(isinstance(text, str) for text in (dataset, analyst or "")):
        raise ValueError
    if kind in ("cap", "asked"):
        entered = detail["entered"]
        if not {"kind", "what", "epsilon", "delta"} <= entered.keys() or not isinstance(entry, int):
            raise ValueError
    return Line(
        number,
        datetime.fromisoformat(at),
        kind,
        dataset,
        analyst,
        entry,
        MappingProxyType({name: value for name, value in detail.items() if value is not None}),
        row.sha256,
    )


def breaks(connection: Connection, begins: str, kept: str) -> Iterator[str]:
    """Yield a sentence for each place where the chain of journal lines is broken.

    Args:
        begins: what stands before the first line.
        kept: the digest of the last line, as the ledger's own row has it.
    """
    number, digest = 0, hashlib.sha256(begins.encode()).hexdigest()
    for row in connection.execute(select(JOURNAL).order_by(JOURNAL.c.id).execution_options(yield_per=1000)):
        if row.id != number + 1:
            missing = (
                f"line {number + 1} is" if row.id == number + 2 else f"lines {number + 1} to {row.id - 1} are"
            )
            yield f"{missing} missing"
        elif row.sha256 != after(digest, row.content):
            yield f"line {row.id}, or what comes before it, was changed"
        elif not has_matching_index(row):
            yield f"line {row.id} has an index that does not match it"
        number, digest = row.id, row.sha256
    if digest != kept:
        yield f"the end is missing, or was changed, after line {number}"


def has_matching_index(row: Row[*tuple[Any, ...]]) -> bool:
    """Whether the indexed columns of a journal line agree with its content."""
    try:
        content = json.loads(row.content)
        stated = [content[name] for name in ("number", "kind", "dataset", "entry", "question")]
        return (
            stated == [row.id, row.kind, row.dataset, row.entry, row.question]
            and (content["analyst"] or "") == row.analyst
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
