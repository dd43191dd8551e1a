"""Whether a journal is whole: its chain, and what the ledger says beside it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, func, select

from sfumato.budget.ledger import journal_lines, ledger_accounts
from sfumato.budget.ledger.ledger_entries import loss_text
from sfumato.budget.ledger.ledger_tables import ANSWERS, ENTRIES, JOURNAL, LEDGER, digest
from sfumato.budget.loss import Loss
from sfumato.dataclass import dataclass
from sfumato.display.cards import TextCard
from sfumato.errors import ParameterError, shown

_HEAD = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")


@dataclass(frozen=True, repr=False)
class Verified(TextCard):
    """The result of verifying a journal; true if nothing is wrong.

    Args:
        where: the ledger.
        head: the number of the last line and the digest of all lines, to keep elsewhere.
        lines: the number of lines.
        wrong: a sentence for each error; empty if there are none.
        notes: what is unusual without being an error: queries without an outcome, a clock that went back.
        since: the earlier head that it was compared with.

    Made by `Journal.verify`, which has an example.
    """

    where: str
    head: str
    lines: int
    wrong: tuple[str, ...]
    notes: tuple[str, ...]
    since: str | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong in the journal."""
        return not self.wrong

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        if self.wrong:
            said = [f"The journal of {self.where} is broken:", *(f"- {one}" for one in self.wrong)]
        else:
            lines = "1 line" if self.lines == 1 else f"{self.lines:,} lines"
            said = [
                f"The journal of {self.where} is whole: {lines} with correct digests. The ledger's entries, "
                "caps, sums and answers agree with it."
            ]
        said += self.notes
        if self.since is None:
            said.append(
                "Not compared with an earlier head: anybody who can write to the ledger can rewrite "
                "all of it. Keep this head elsewhere, and pass it to --head:"
            )
        return "\n".join([*said, f"head {self.head}"])


def read_head(connection: Connection, where: str) -> str:
    """Return the head of a journal to verify later: its last line's number and digest."""
    number = connection.execute(select(func.max(JOURNAL.c.id))).scalar() or 0
    return f"{number}:{connection.execute(select(LEDGER.c.journal)).scalar_one()}"


def differences(connection: Connection, where: str, since: str | None, broken: str) -> Verified:
    """Verify a journal's chain, replay its lines, and compare them with the ledger.

    Args:
        where: the ledger, for messages.
        since: the head of an earlier time.
        broken: what is wrong with how the database keeps the ledger, if anything is.
    Raises:
        ParameterError: since is no head.
        EngineError: a line of the chain is none.
    """
    begins, kept, day = connection.execute(select(LEDGER.c.begins, LEDGER.c.journal, LEDGER.c.day)).one()
    wrong = [*_since(connection, since, begins), *journal_lines.breaks(connection, begins, kept)]
    wrong += [broken] if broken else []
    notes: list[str] = []
    lines: list[journal_lines.Line] = []
    if not wrong:  # else what lines say is not what was written
        lines = journal_lines.lines(connection, where)
        wrong = [*_name(connection, begins), *_entries(connection, lines)]
        wrong += [*_days(lines, begins, day), *_answers(connection, lines)]
        # Entries are those of the journal now, so that what they come to is what the journal says.
        wrong += ledger_accounts.differences(connection, where) if not wrong else ()
        notes = list(_odd(lines))
    count = connection.execute(select(func.count()).select_from(JOURNAL)).scalar_one()
    return Verified(where, read_head(connection, where), count, tuple(wrong), tuple(notes), since)


def _since(connection: Connection, since: str | None, begins: str) -> Iterator[str]:
    """Yield differences between a journal and the head that was kept at an earlier time."""
    if since is None:
        return
    found = _HEAD.fullmatch(since) if isinstance(since, str) else None
    if found is None:
        raise ParameterError("head", since, "the output of sfumato journal verify, NUMBER:DIGITS")
    number, then = int(found[1]), found[2]
    last = connection.execute(select(func.max(JOURNAL.c.id))).scalar() or 0
    now = connection.execute(select(JOURNAL.c.sha256).where(JOURNAL.c.id == number)).scalar()
    if last < number:
        yield (
            f"there were {number} lines when the head was kept, and there are now {last}: the end was cut off"
        )
    elif then != (now if number else digest(begins)):
        yield f"lines up to {number} differ from those when the head was kept: they were rewritten"


def _name(connection: Connection, begins: str) -> Iterator[str]:
    """Yield a difference if the verified journal belongs to another ledger."""
    if json.loads(begins)["ledger"] != connection.execute(select(LEDGER.c.name)).scalar_one():
        yield "it is the journal of another ledger"


def _entries(connection: Connection, lines: list[journal_lines.Line]) -> Iterator[str]:
    """Yield differences between verified journal lines and the ledger's entries, cell by cell."""
    entries = {row.id: _row(dict(row._mapping)) for row in connection.execute(select(ENTRIES))}
    seen: set[int | None] = set()
    last = 0
    for line in lines:
        if line.kind in ("cap", "asked"):
            entry = entries.get(line.entry or 0)
            if entry is None:
                yield f"line {line.number} reports entry {line.entry}, which the ledger does not have"
            elif dict(line.detail["entered"]) != entry:
                yield f"entry {line.entry} of the ledger differs from line {line.number}"
            if line.entry in seen:
                yield f"line {line.number} reports entry {line.entry} again"
            elif (line.entry or 0) <= last:
                yield (
                    f"line {line.number} reports entry {line.entry}, which is older than the one before it"
                )
            seen.add(line.entry)
            last = line.entry or 0
        elif line.entry is not None and line.entry not in seen:
            yield (
                f"line {line.number} reports the outcome of entry {line.entry}, which no line before it has"
            )
    for number in sorted(entries.keys() - seen):
        yield f"entry {number} of the ledger has no line"


def _row(cells: dict[str, Any]) -> dict[str, Any]:
    """Return the cells of a ledger entry in the form of a verified journal line."""
    cells["entry"] = cells.pop("id")
    cells["analyst"] = None if cells["analyst"] == "" else cells["analyst"]
    if cells["kind"] != "spend" and cells["loss"] == loss_text(Loss()):
        cells["loss"] = None  # of a cap
    return cells


def _days(lines: list[journal_lines.Line], begins: str, kept: str) -> Iterator[str]:
    """Yield verified lines whose day does not follow from the times of writing."""
    day = json.loads(begins).get("day", "")  # early journals do not state it
    for line in lines:
        day = max(day, line.at.date().isoformat())
        if "entered" in line.detail and line.detail["entered"]["day"] != day:
            yield (
                f"line {line.number} was entered on {line.detail['entered']['day']}, but that day was {day}"
            )
    if day and day != kept:
        yield f"the ledger's last day is {shown(kept)}, but {day} in its journal"


def _answers(connection: Connection, lines: list[journal_lines.Line]) -> Iterator[str]:
    """Yield differences between kept answers and the digests in verified journal lines."""
    said = {line.number: line.detail["body"] for line in lines if "body" in line.detail}
    asked = select(ANSWERS.c.id, ANSWERS.c.body).execution_options(yield_per=20)
    for number, body in connection.execute(asked):
        held = hashlib.sha256(body).hexdigest() if isinstance(body, bytes) else ""
        if held != said.pop(number, None):
            yield f"the answer that is kept for line {number} was changed"
    for number in said:
        yield f"the answer that was kept for line {number} is missing"


def _odd(lines: list[journal_lines.Line]) -> Iterator[str]:
    """Yield notes on a verified journal: queries without an outcome, and a clock that went back."""
    asked = [line.entry for line in lines if line.kind == "asked"]
    came = {line.entry for line in lines if line.kind in ("answered", "failed")}
    handed = {line.entry for line in lines if line.kind == "handed"} - came
    without = [entry for entry in asked if entry not in came | handed]
    if without:
        words = "Entries without an outcome, which failed or were not released, and stay spent"
        yield f"{words}: {listed(without)}."
    if handed:
        words = "Entries that were handed to a pipeline whose end was not reported, and stay spent"
        yield f"{words}: {listed([entry for entry in asked if entry in handed])}."
    back = [later.number for earlier, later in pairwise(lines) if later.at < earlier.at]
    if back:
        yield f"The clock went back before lines {listed(back)}; their order is that of their numbers."


def listed(numbers: list[int | None] | list[int], limit: int = 12) -> str:
    """Return the numbers of journal lines or entries as text; long lists are cut."""
    shown, more = numbers[:limit], len(numbers) - limit
    return ", ".join(map(str, shown)) + (f" and {more:,} more" if more > 0 else "")
