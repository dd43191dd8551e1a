"""The journal of a ledger: what its owner reads and says there, and what is entered for questions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, select

from sfumato.budget.ledger import journal_lines
from sfumato.budget.ledger.journal_audit import Audit, audited
from sfumato.budget.ledger.journal_verify import Verified, differences, read_head
from sfumato.budget.ledger.ledger_entries import (
    Entry,
    PriorAnswer,
    check_name,
    damaged,
    plain_text,
    understood,
)
from sfumato.budget.ledger.ledger_tables import ANSWERS, ENTRIES, JOURNAL
from sfumato.errors import BudgetError, ParameterError
from sfumato.exact import one_of, positive_int
from sfumato.exact.parameters import canonical_bytes

if TYPE_CHECKING:
    from sfumato.budget.ledger.ledger import Ledger


MAX_KEPT = 4 * 2**20  # bytes of an answer that may be given again
MAX_REFUSALS = 1000  # of one analyst and day; of those behind them one line says that there were more
MAX_REFUSED = 16 * 1024  # bytes of the plan of a question that was refused, which costs nothing
_MAX_ASKED = 256 * 1024  # bytes of a plan; of a longer one there is a digest


class Journal:
    """The journal of a ledger: every query and its outcome, in a chain of digests.

    `Ledger.journal` returns it. Lines are only ever added. The line of a charged query is written with the
    charge, in one transaction, and the outcome follows. A query without an outcome failed, or its answer was
    never accessed; it stays charged.

    Source:
        docs/journal.md.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    # For the owner.

    def lines(self, dataset: str | None = None, analyst: str | None = None) -> tuple[journal_lines.Line, ...]:
        """Return the lines of the journal in order: all, or those of a dataset and an analyst.

        Args:
            dataset, analyst: their names; None for all.
        Returns:
            The lines.
        Raises:
            BudgetError: the dataset does not exist, or the journal has no lines about the analyst.
            EngineError: the journal cannot be read.

        >>> import tempfile
        >>> import sfumato as sf
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = sf.Ledger(f"{folder}/budget.db")
        ...     ledger.create("hospital", epsilon=3)
        ...     _ = ledger.budget("hospital").spend("0.25", what="patients by year")
        ...     [(line.number, line.kind) for line in ledger.journal.lines("hospital")]
        [(1, 'cap'), (2, 'asked')]
        """

        def work(connection: Connection, day: date) -> tuple[journal_lines.Line, ...]:
            found = tuple(journal_lines.lines(connection, self._where, dataset, analyst))
            if not found:
                self._ledger._check_known(connection, dataset, analyst)
            return found

        return self._ledger._read(work)

    @property
    def head(self) -> str:
        """Return the number and digest of the last line, to keep elsewhere for `verify`.

        Raises:
            EngineError: the journal cannot be read.
        """
        return self._ledger._read(lambda connection, _: read_head(connection, self._where))

    def verify(self, head: str | None = None) -> Verified:
        """Check the journal's chain of digests, and compare it with entries, accounts and answers.

        Args:
            head: an earlier result of `head`; all lines up to it must still be there.
        Returns:
            A `Verified`: true if nothing is wrong, otherwise with what is wrong.
        Raises:
            ParameterError: `head` is not the head of a journal.
            EngineError: the ledger cannot be read.

        >>> import tempfile
        >>> import sfumato as sf
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = sf.Ledger(f"{folder}/budget.db")
        ...     ledger.create("hospital", epsilon=3)
        ...     head = ledger.journal.head  # to be kept elsewhere
        ...     _ = ledger.budget("hospital").spend("0.25", what="patients by year")
        ...     verified = ledger.journal.verify(head)
        >>> bool(verified), verified.lines, verified.wrong
        (True, 2, ())
        """

        def work(connection: Connection, day: date) -> Verified:
            broken = self._ledger._store.broken(connection)
            return differences(connection, self._where, head, broken)

        return self._ledger._read(work)

    def audit(self, dataset: str | None = None) -> Audit:
        """List journaled queries that a person should review: about one unit, or close to other queries.

        Args:
            dataset: the name of a dataset; None for all.
        Returns:
            An `Audit`: what to review, and the total loss to each analyst; `print` shows it.
        Raises:
            BudgetError: the dataset does not exist.
            EngineError: the journal cannot be read.

        >>> import tempfile
        >>> import sfumato as sf
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = sf.Ledger(f"{folder}/budget.db")
        ...     ledger.create("hospital", epsilon=3)
        ...     _ = ledger.budget("hospital").spend("0.25", what="patients by year")
        ...     print(ledger.journal.audit())
        1 question was asked, with 0 findings for a person to judge:
        - nothing
        Privacy loss over all time:
        - hospital, all together: epsilon 0.25, delta 0
        """
        lines, accounts = self.lines(dataset), self._ledger.accounts(dataset)
        with understood(self._where):
            return audited(lines, accounts)

    def declare(self, dataset: str, version: str) -> None:
        """Declare the version of the data, within which the journal repeats the answer of the same query.

        Call it after new data has replaced the old. If an earlier version is declared again, its queries are
        answered from the journal again.

        Args:
            dataset: a dataset with a cap.
            version: the name of the version, such as "2026-11".
        Raises:
            ParameterError: the name is not valid.
            BudgetError: the dataset does not exist.
            EngineError: the journal cannot be written.

        >>> import tempfile
        >>> import sfumato as sf
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = sf.Ledger(f"{folder}/budget.db")
        ...     ledger.create("hospital", epsilon=3)
        ...     ledger.journal.declare("hospital", version="2026-11")
        ...     print(ledger.journal.lines()[-1].detail)
        {'version': '2026-11'}
        """
        check_name(dataset, "dataset")
        check_name(version, "version")

        def work(connection: Connection, at: datetime, day: date) -> None:
            self._ledger._check_accounts(connection, dataset, None, day)
            journal_lines.append(connection, self._where, "data", at, dataset, None, version=version)

        self._ledger._change(work)

    def publish(self, entry: int) -> None:
        """Give every analyst a journaled answer at no charge when they ask the same query.

        Args:
            entry: the number of the ledger entry of a query whose answer is kept.
        Raises:
            ParameterError: entry is not a number.
            BudgetError: no answer is kept for it.
            EngineError: the journal cannot be written.

        >>> import tempfile
        >>> from pathlib import Path
        >>> import sfumato as sf
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = sf.Ledger(f"{folder}/budget.db")
        ...     ledger.create("hospital", epsilon=3)
        ...     ledger.journal.declare("hospital", version="2026-11")
        ...     ledger.grant("hospital", "ann", epsilon=1)
        ...     _ = Path(f"{folder}/patients.csv").write_text("id\\n1\\n2\\n3\\n")
        ...     patients = sf.scan(f"{folder}/patients.csv", privacy_unit="id")
        ...     asked = patients.agg(people=sf.count_units())
        ...     _ = asked.release(epsilon="0.5", budget=ledger.budget("hospital")).to_arrow()
        ...     ledger.journal.publish(ledger.history("hospital")[-1].number)
        ...     _ = asked.release(epsilon="0.5", budget=ledger.budget("hospital", "ann")).to_arrow()
        ...     print(ledger.journal.lines()[-1].kind, ledger.budget("hospital", "ann").spent)
        repeated (0.0, 0.0)
        """
        positive_int(entry, "entry")

        def work(connection: Connection, at: datetime, day: date) -> None:
            kept = (
                (JOURNAL.c.entry == entry) & (JOURNAL.c.kind == "answered") & JOURNAL.c.question.is_not(None)
            )
            found = connection.execute(select(JOURNAL.c.dataset, JOURNAL.c.analyst).where(kept)).first()
            if found is None:
                raise BudgetError(
                    f"{self._where}: the answer to the query of entry {entry} is not kept. "
                    "Answers are kept for data whose version was declared before the query "
                    "(docs/journal.md)"
                )
            journal_lines.append(
                connection, self._where, "published", at, found[0], found[1] or None, entry=entry
            )

        self._ledger._change(work)

    # For questions.

    def _record_query(
        self,
        connection: Connection,
        at: datetime,
        entry: Entry,
        plan: Mapping[str, Any] | None,
        key: str | None = None,
    ) -> None:
        """Write the journal line of a new ledger entry, in the same transaction.

        Args:
            key: the digest of a request, by which its payer gets the answer again.
        """
        kind = "asked" if entry.kind == "spend" else "cap"
        asked: dict[str, Any] = {}
        if kind == "asked":
            asked = {"plan": plan, "data": read_data_version(connection, entry.dataset)}
        journal_lines.append(
            connection, self._where, kind, at, entry.dataset, entry.analyst,
            entry=entry.number, entered=entry.row(), question=key, **asked,
        )  # fmt: skip

    def _record_refusal(
        self,
        connection: Connection,
        at: datetime,
        dataset: str,
        analyst: str | None,
        why: str,
        **detail: Any,
    ) -> None:
        """Write the journal line of a refused query; after very many on one day, only that there were more.

        A refusal costs nothing: else whoever is refused could fill the disk, and nobody could pay.
        """
        mine = (JOURNAL.c.kind == "refused") & (JOURNAL.c.dataset == dataset) & (JOURNAL.c.analyst == analyst)
        latest = select(JOURNAL).where(mine).order_by(JOURNAL.c.id.desc()).offset(MAX_REFUSALS - 1).limit(2)
        rows = connection.execute(latest).all() if analyst is not None else []
        # A clock that went back brings no day anew.
        today = sum(journal_lines.read(row).at.date() >= at.date() for row in rows)
        if today == 0:
            journal_lines.append(connection, self._where, "refused", at, dataset, analyst, why=why, **detail)
        elif today == 1:
            journal_lines.append(connection, self._where, "refused", at, dataset, analyst, why=why, more=True)

    def _record_rejected_text(self, dataset: str, analyst: str | None, text: str, why: str) -> None:
        """Write in the journal that a query's text was refused before there was a plan.

        Args:
            text: of the question; of a long one the beginning.
            why: the kind of error.
        Raises:
            EngineError: it cannot be written.
        """

        def work(connection: Connection, at: datetime, day: date) -> None:
            self._record_refusal(connection, at, dataset, analyst, why, text=plain_text(text))

        self._ledger._change(work)

    def _record_outcome(
        self,
        entry: int,
        kind: str,
        *,
        question: str | None = None,
        data: str | None = None,
        body: bytes | None = None,
        **detail: Any,
    ) -> None:
        """Write in the journal how a paid query ended, and keep its answer.

        Args:
            entry: of the ledger.
            kind: "answered" or "failed"; "handed" where a pipeline has it, which runs elsewhere.
            question: the digest by which it is known again.
            data: the version of the data that was declared when the question was looked for. Where another
                was declared since, nobody knows of which the answer is, and no other question gets it.
            body: the answer, which is kept for its payer.
            detail: what else is said of it.
        Raises:
            ParameterError: kind is another.
            EngineError: it cannot be written.
        """
        one_of(kind, "kind", ("answered", "failed", "handed"))

        def work(connection: Connection, at: datetime, day: date) -> None:
            found = connection.execute(
                select(ENTRIES.c.dataset, ENTRIES.c.analyst).where(ENTRIES.c.id == entry)
            ).one()
            kept = body is not None and len(body) <= MAX_KEPT
            known = kept and question is not None and read_data_version(connection, found[0]) == data
            number = journal_lines.append(
                connection, self._where, kind, at, found[0], found[1] or None,
                entry=entry, question=question if known else None,
                body=hashlib.sha256(body).hexdigest() if kept and body is not None else None, **detail,
            )  # fmt: skip
            if kept:
                connection.execute(ANSWERS.insert().values(id=number, body=body))

        self._ledger._change(work)

    def _find_answer(self, dataset: str, analyst: str | None, request: Mapping[str, Any]) -> PriorAnswer:
        """Return the journaled answer to the same query, if there is one.

        It is one of the same analyst, or one that the owner has published, of the version of the data that is
        declared now.

        Args:
            request: all that an answer depends on but the data, as plain data.
        Raises:
            EngineError: the journal cannot be read, or was changed.
        """

        def look(connection: Connection, day: date) -> PriorAnswer:
            version = read_data_version(connection, dataset)
            if version is None:
                return PriorAnswer(None)
            content = {"asked": request, "dataset": dataset, "data": version}
            question = hashlib.sha256(canonical_bytes(content)).hexdigest()
            same = (JOURNAL.c.question == question) & (JOURNAL.c.kind == "answered")
            published = select(JOURNAL.c.entry).where(JOURNAL.c.kind == "published")
            mine = (JOURNAL.c.analyst == (analyst or "")) | JOURNAL.c.entry.in_(published)
            first = connection.execute(select(JOURNAL).where(same & mine).order_by(JOURNAL.c.id)).first()
            if first is None:
                return PriorAnswer(question, data=version)
            return PriorAnswer(question, first.entry, self._body(connection, first), version)

        return self._ledger._read(look)

    def _repeat_answer(self, dataset: str, analyst: str | None, request: Mapping[str, Any]) -> PriorAnswer:
        """Return the journaled answer as `_find_answer`, and record that it is repeated.

        Raises:
            EngineError: the journal cannot be read or written, or was changed.
        """
        found = self._find_answer(dataset, analyst, request)
        if found.body is not None:
            self._record_repeat(dataset, analyst, found.entry)
        return found

    def _paid_answer(
        self, dataset: str, analyst: str | None, *, key: str | None = None, entry: int | None = None
    ) -> PriorAnswer:
        """Return a journaled answer that an analyst has paid for, and record that it is repeated.

        Args:
            key: the digest of the request that paid for it.
            entry: of the ledger, in the place of a key.
        Returns:
            The entry and its answer; no entry where nothing was paid so, and no answer where none is kept.
        Raises:
            EngineError: the journal cannot be read or written, or was changed.
        """
        mine = (JOURNAL.c.dataset == dataset) & (JOURNAL.c.analyst == (analyst or ""))
        of = JOURNAL.c.question == key if entry is None else JOURNAL.c.entry == entry

        def look(connection: Connection, day: date) -> PriorAnswer:
            asked = select(JOURNAL.c.entry).where(mine & of & (JOURNAL.c.kind == "asked"))
            entries = connection.execute(asked.order_by(JOURNAL.c.id)).scalars().all()
            if not entries:
                return PriorAnswer(None)
            answered = mine & (JOURNAL.c.kind == "answered") & JOURNAL.c.entry.in_(entries)
            kept = select(JOURNAL).join(ANSWERS, ANSWERS.c.id == JOURNAL.c.id).where(answered)
            line = connection.execute(kept.order_by(JOURNAL.c.id)).first()
            if line is None:
                return PriorAnswer(None, entries[0])
            return PriorAnswer(None, line.entry, self._body(connection, line))

        found = self._ledger._read(look)
        if found.body is not None:
            self._record_repeat(dataset, analyst, found.entry)
        return found

    def _is_charged(self, connection: Connection, dataset: str, analyst: str | None, key: str) -> bool:
        """Whether the journal has a paid request with this key."""
        mine = (JOURNAL.c.dataset == dataset) & (JOURNAL.c.analyst == (analyst or ""))
        of = mine & (JOURNAL.c.question == key) & (JOURNAL.c.kind == "asked")
        return connection.execute(select(JOURNAL.c.id).where(of).limit(1)).first() is not None

    def _record_repeat(self, dataset: str, analyst: str | None, entry: int | None) -> None:
        """Write in the journal that an answer is repeated."""

        def work(connection: Connection, at: datetime, day: date) -> None:
            journal_lines.append(connection, self._where, "repeated", at, dataset, analyst, entry=entry)

        self._ledger._change(work)

    def _body(self, connection: Connection, line: Row[*tuple[Any, ...]]) -> bytes:
        """Return an answer that the journal keeps, after checking its digest."""
        before = select(JOURNAL.c.sha256).where(JOURNAL.c.id == line.id - 1)
        body = connection.execute(select(ANSWERS.c.body).where(ANSWERS.c.id == line.id)).scalar()
        said = journal_lines.read(line).detail.get("body")
        if (
            body is None
            or not journal_lines.has_matching_index(line)
            or hashlib.sha256(body).hexdigest() != said
            or journal_lines.after(connection.execute(before).scalar() or "", line.content) != line.sha256
        ):
            raise damaged(self._where, f"line {line.id} of the journal, or its answer, was changed")
        return bytes(body)

    @property
    def _where(self) -> str:
        return self._ledger._store.shown

    def __repr__(self) -> str:
        return f"<Journal of {self._where}>"


def read_data_version(connection: Connection, dataset: str) -> str | None:
    """Return the version of the data that the journal declares; None if there is none."""
    of = (JOURNAL.c.kind == "data") & (JOURNAL.c.dataset == dataset) & (JOURNAL.c.analyst == "")
    line = connection.execute(select(JOURNAL).where(of).order_by(JOURNAL.c.id.desc()).limit(1)).first()
    return None if line is None else str(journal_lines.read(line).detail["version"])


def shorten_plan(plan: Mapping[str, Any] | None, limit: int = _MAX_ASKED) -> Mapping[str, Any] | None:
    """Return a query's plan for the journal, or a digest of a very long one.

    Raises:
        ParameterError: it is no plain data.
    """
    if plan is None:
        return None
    written = b""
    with suppress(TypeError, ValueError, RecursionError):
        written = canonical_bytes(plan)
    if not written:
        raise ParameterError("plan", "...", "plain data, such as the canonical form of a plan")
    if len(written) <= limit:
        return plan
    return {"asks": plan.get("asks"), "sha256": hashlib.sha256(written).hexdigest()}
