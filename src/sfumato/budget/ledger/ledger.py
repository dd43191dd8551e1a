"""`sf.Ledger`: budgets that outlive a process, and that many processes and analysts draw on."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sfumato.budget.budget import Cap
from sfumato.budget.filters import Spent
from sfumato.budget.ledger.ledger_budget import LedgerBudget
from sfumato.budget.ledger.ledger_entries import PERIODS, Entry, as_written, check_name, inward
from sfumato.display.cards import Card, Displayed, Rows, Sentences
from sfumato.display.formatting import exact
from sfumato.errors import BudgetError, EngineError, ParameterError, nearest, shown
from sfumato.exact import one_of, truth_value
from sfumato.names import SuggestingArguments, suggest_arguments
from sfumato.ownership import Owned, Turn

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from sfumato.budget.ledger.journal import Journal
    from sfumato.budget.ledger.ledger_accounts import LedgerAccount
    from sfumato.budget.ledger.ledger_databases import Store


_MAX = 40  # budgets that are shown
T = TypeVar("T")


class Advice(NamedTuple):
    """What a ledger's messages tell its owner to write: in Python, or on the command line.

    Args:
        create, grant: what makes a budget, and what grants a part of it.
        replace: what changes a cap.
        use: how to go on with a budget that is there.
    """

    create: str
    grant: str
    replace: str
    use: str


IN_PYTHON = Advice(
    "ledger.create({0!r}, epsilon=...)",
    "ledger.grant({0!r}, {1!r}, epsilon=...)",
    "Pass replace=True",
    "ledger.budget({0!r})",
)
IN_COMMANDS = Advice(
    "sfumato budget create {2} --epsilon NUMBER --ledger PLACE",
    "sfumato budget grant {2} {3} --epsilon NUMBER --ledger PLACE",
    "Add --replace",
    "sfumato sql --dataset {2} --ledger PLACE",
)


def ledger_card(place: str, accounts: Sequence[LedgerAccount], trouble: str = "") -> Card:
    """Return the rich display of a ledger's budgets.

    Args:
        place: of the ledger, as messages call it.
        accounts: its accounts.
        trouble: why it could not be read; then there are none.
    """
    title = f"Ledger {place}"
    if trouble:
        return Card(title, [Sentences([trouble])])
    if not accounts:
        return Card(title, [Sentences(["It has no budgets. create(...) makes one."])])
    rows = [
        [
            one.dataset,
            one.analyst or "all together",
            exact(one.account.cap.epsilon),
            exact(one.account.cap.delta),
            f"{float(one.account.left.share):.1%}",
            one.since or "once",
        ]
        for one in accounts[:_MAX]
    ]
    more = f"The first {_MAX} of {len(accounts):,} budgets." if len(accounts) > _MAX else ""
    names = ["dataset", "analysts", "epsilon", "delta", "left", "period"]
    return Card(title, [Rows(names, rows, left=2, beyond=more)])


class Ledger(Displayed, SuggestingArguments, Owned):
    """A file or PostgreSQL database that keeps budgets and their whole history.

    A dataset has a cap over all analysts together, because they may share what they learn, and each analyst
    has a cap of their own. An entry is on disk before the noise of its query is drawn, and one process writes
    at a time. A query that does not fit both caps is refused. If a query fails later, it stays charged,
    because the failure may be visible.

    Args:
        place: the path of a file, which need not exist yet, or postgresql://USER@HOST/DATABASE.
    Raises:
        EngineError: it is not a ledger, cannot be opened, is of a later version, or needs a package that is
            not installed.
        ParameterError: place is not a path.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger(f"{folder.name}/budget.db")
    >>> ledger.create("hospital", epsilon=3, delta="1e-6")
    >>> ledger.grant("hospital", "ann", epsilon=1)
    >>> budget = ledger.budget("hospital", analyst="ann")
    >>> entry = budget.spend("0.25", what="patients by year")
    >>> Ledger(f"{folder.name}/budget.db").budget("hospital", analyst="ann")
    <Budget of 'hospital' for ann: 75.0% left, a query can spend epsilon=0.75 and delta=5e-07>
    >>> folder.cleanup()

    Source:
        docs/proofs/budget.md, for each cap.
    """

    _elsewhere = "open it there, with sf.Ledger(...) of the same place"
    _refusal = BudgetError

    @suggest_arguments
    def __init__(self, place: str | os.PathLike[str]) -> None:
        self._store = _store(place)
        self._terms = IN_PYTHON
        self._turn = Turn()
        self._there = False
        self._is_there()
        # By which a file that takes the place of this one is told: its name, and its last entry.
        self._known: tuple[str, int] | None = None

    # For the owner.

    def create(
        self,
        dataset: str,
        epsilon: Any,
        delta: Any = 0,
        *,
        composition: str = "tight",
        period: str | None = None,
        replace: bool = False,
    ) -> None:
        """Create a dataset's budget over all analysts; create the ledger's file or tables if needed.

        Args:
            dataset: its name; sources with rows about the same people are one dataset.
            epsilon, delta, composition: as for `sf.Budget`.
            period: "week", "month", "quarter" or "year" (UTC), after which all of the budget is available
                again. Nothing then bounds the loss over a lifetime, which accounts show too. None for a
                budget that is never renewed.
            replace: change the cap of an existing dataset; what was spent stays spent.
        Raises:
            BudgetError: epsilon or delta is out of range, or the dataset already has a cap.
            ParameterError: another argument is not valid.
            EngineError: the ledger cannot be written.
        """
        cap = _round_down_cap(Cap._check(epsilon, delta, composition))
        check_name(dataset, "dataset")
        _period(period)
        replace = truth_value(replace, "replace")

        def work(connection: Connection, at: datetime, day: date) -> None:
            from sfumato.budget.ledger import ledger_accounts

            found = ledger_accounts.accounts(connection, self._where, dataset)
            if found and not replace:
                raise BudgetError(
                    f"{self._where} already has a budget of {dataset!r}, and "
                    f"{self._suggest_cap('use', dataset)} spends from it. {self._terms.replace} to "
                    "change its cap: what was spent stays spent"
                )
            if not found and replace:
                raise self._unknown(dataset, ledger_accounts.accounts(connection, self._where))
            self._set(connection, "create", dataset, None, cap, period, at, day, new=not found)

        with self._turn():
            self._make()
            self._change(work)

    def grant(
        self,
        dataset: str,
        analyst: str,
        epsilon: Any,
        delta: Any = None,
        *,
        composition: str | None = None,
        period: str | None = None,
    ) -> None:
        """Grant an analyst a budget of their own within a dataset's budget, or change it.

        Args:
            dataset: a dataset with a cap over all analysts.
            analyst: the analyst's name.
            epsilon: the epsilon of the analyst's cap.
            delta, composition: of the analyst's cap; the default is the dataset's.
            period: as for `create`.
        Raises:
            BudgetError: the dataset does not exist, or epsilon or delta is out of range.
            ParameterError: another argument is not valid.
            EngineError: the ledger cannot be written.
        """
        check_name(dataset, "dataset")
        check_name(analyst, "analyst")
        _period(period)
        _round_down_cap(
            Cap._check(
                epsilon, 0 if delta is None else delta, "tight" if composition is None else composition
            )
        )

        def work(connection: Connection, at: datetime, day: date) -> None:
            from sfumato.budget.ledger import ledger_accounts

            found = ledger_accounts.accounts(connection, self._where, dataset)
            if not found:
                raise self._unknown(dataset, ledger_accounts.accounts(connection, self._where))
            whole = found[0].account.cap
            cap = Cap._check(
                epsilon,
                whole.delta if delta is None else delta,
                whole.composition if composition is None else composition,
            )
            new = analyst not in [kept.analyst for kept in found]
            self._set(connection, "grant", dataset, analyst, _round_down_cap(cap), period, at, day, new=new)

        with self._turn():
            self._change(work)

    def accounts(self, dataset: str | None = None) -> tuple[LedgerAccount, ...]:
        """Return all budgets of one dataset or of all, with what was spent.

        Args:
            dataset: its name; None for all.
        Returns:
            The accounts.
        Raises:
            BudgetError: the dataset does not exist.
            EngineError: the ledger cannot be read.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = Ledger(f"{folder}/budget.db")
        ...     ledger.create("hospital", epsilon=3)
        ...     ledger.grant("hospital", "ann", epsilon=1)
        ...     _ = ledger.budget("hospital", "ann").spend("0.25", what="patients by year")
        ...     for kept in ledger.accounts():
        ...         print(kept)
        <Budget of 'hospital': epsilon=3, delta=0, 91.7% left>
        <Budget of 'hospital' for ann: epsilon=1, delta=0, 75.0% left>
        """

        def work(connection: Connection, day: date) -> tuple[LedgerAccount, ...]:
            from sfumato.budget.ledger import ledger_accounts

            found = tuple(
                kept._on(day) for kept in ledger_accounts.accounts(connection, self._where, dataset)
            )
            if not found:
                self._check_known(connection, dataset, None)
            return found

        return self._read(work)

    def history(self, dataset: str | None = None, analyst: str | None = None) -> tuple[Entry, ...]:
        """Return the ledger's entries in order: all, or those of a dataset and an analyst.

        Args:
            dataset, analyst: their names; None for all.
        Returns:
            The entries.
        Raises:
            BudgetError: the dataset does not exist, or nothing was granted to the analyst.
            EngineError: the ledger cannot be read.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = Ledger(f"{folder}/budget.db")
        ...     ledger.create("hospital", epsilon=3)
        ...     ledger.grant("hospital", "ann", epsilon=1)
        ...     _ = ledger.budget("hospital", "ann").spend("0.25", what="patients by year")
        ...     print(ledger.history("hospital", "ann")[-1])  # after what was granted
        <Entry 3 of 'hospital' for ann: patients by year, epsilon=0.25, delta=0>
        """

        def work(connection: Connection, day: date) -> tuple[Entry, ...]:
            from sfumato.budget.ledger import ledger_accounts

            found = tuple(ledger_accounts.entries(connection, self._where, dataset, analyst))
            if not found:
                self._check_known(connection, dataset, analyst)
            return found

        return self._read(work)

    def check(self) -> None:
        """Replay all entries of the ledger, and compare every account with the result.

        `journal.verify` also compares entries with the journal.

        Raises:
            EngineError: an account does not follow from the entries, an entry was over its cap, or the ledger
                cannot be read.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = Ledger(f"{folder}/budget.db")
        ...     ledger.create("hospital", epsilon=3)
        ...     ledger.check()  # says nothing, as all of it adds up
        """

        def work(connection: Connection, day: date) -> None:
            from sfumato.budget.ledger import ledger_accounts
            from sfumato.budget.ledger.ledger_entries import damaged

            where = self._where
            wrong = self._store.broken(connection) or next(ledger_accounts.differences(connection, where), "")
            if wrong:
                raise damaged(where, wrong)

        self._read(work)

    @property
    def journal(self) -> Journal:
        """The ledger's journal: every query and its outcome, in a tamper-evident chain (docs/journal.md)."""
        from sfumato.budget.ledger.journal import Journal

        return Journal(self)

    # For analysts.

    def budget(self, dataset: str, analyst: str | None = None) -> LedgerBudget:
        """Return a budget of the ledger, to pass as `budget=`.

        Args:
            dataset: a dataset with a cap.
            analyst: an analyst with a cap of their own; None for the owner, whose queries only the dataset's
                cap limits.
        Returns:
            The budget.
        Raises:
            BudgetError: the dataset does not exist, or nothing was granted to the analyst.
            EngineError: the ledger cannot be read.
            ParameterError: dataset or analyst is not a name.
        """
        self._check_home()
        check_name(dataset, "dataset")
        if analyst is not None:
            check_name(analyst, "analyst")
        self._kept(dataset, analyst)
        return LedgerBudget(self, dataset, analyst)

    # For the budgets that it gave.

    def _kept(self, dataset: str, analyst: str | None) -> tuple[LedgerAccount, ...]:
        """Return the ledger's accounts that a query must fit: over all analysts, then the analyst's own."""
        return self._read(lambda connection, day: self._check_accounts(connection, dataset, analyst, day))

    def _check_accounts(
        self, connection: Connection, dataset: str, analyst: str | None, day: date
    ) -> tuple[LedgerAccount, ...]:
        """Return the ledger's accounts that a query must fit, read and checked in a transaction."""
        from sfumato.budget.ledger import journal_lines, ledger_accounts

        rows = ledger_accounts.accounts(connection, self._where, dataset, ("", analyst or ""))
        found = {kept.analyst: kept._on(day) for kept in rows}
        for whose in (None, analyst):
            if whose not in found:
                journal_lines.check_absent(connection, self._where, dataset, whose)
        if None not in found:
            raise self._unknown(dataset, ledger_accounts.accounts(connection, self._where))
        for kept in found.values():
            journal_lines.check_cap(connection, self._where, kept)
        if analyst is None:
            return (found[None],)
        if analyst not in found:
            raise self._nothing_granted(dataset, analyst)
        return found[None], found[analyst]

    def _spend(
        self,
        dataset: str,
        analyst: str | None,
        requested: Spent,
        epsilon: Any,
        delta: Any,
        plan: Mapping[str, Any] | None = None,
        key: str | None = None,
        first: bool = True,
    ) -> Entry:
        """Enter a query in the ledger and its journal, on disk, or refuse it.

        Args:
            plan: the canonical form of what is asked, for the journal.
            key: the digest of a request, which pays once.
            first: whether the request has paid nothing yet.
        """
        from sfumato.budget.ledger.journal import MAX_REFUSED, shorten_plan

        paid, journal, short = as_written(requested), self.journal, shorten_plan(plan)

        def work(connection: Connection, at: datetime, day: date) -> Entry | BudgetError:
            from sfumato.budget.ledger import ledger_accounts

            if first and key is not None and journal._is_charged(connection, dataset, analyst, key):
                return BudgetError(
                    "idempotency-key: the request with this key is already charged. Send it again "
                    "for its answer"
                )
            before = self._check_accounts(connection, dataset, analyst, day)
            after = [kept._after(paid) for kept in before]
            full = [was for was, kept in zip(before, after, strict=True) if not kept.account._fits]
            if full:
                least = min((kept.account for kept in full), key=lambda account: account.left)
                cost = {"epsilon": str(paid.epsilon), "delta": str(paid.delta)}
                brief = shorten_plan(short, MAX_REFUSED)
                journal._record_refusal(
                    connection, at, dataset, analyst, "BudgetError", what=paid.what, plan=brief, **cost
                )
                refusal = least._refusal(paid, epsilon, delta)
                refusal.journaled = True
                return refusal
            for kept in after:
                ledger_accounts.save(connection, self._where, kept)
            entry = ledger_accounts.append(connection, "spend", dataset, analyst, paid, at, day)
            journal._record_query(connection, at, entry, short, key)
            return entry

        entered = self._change(work)
        if isinstance(entered, BudgetError):
            raise entered
        return entered

    def _entries(self, dataset: str, analyst: str | None) -> tuple[Entry, ...]:
        """Return the ledger's paid queries of a dataset, and of an analyst if one is named."""
        return tuple(entry for entry in self.history(dataset, analyst) if entry.kind == "spend")

    def _entry(self, number: int) -> Entry:
        """Return one entry of the ledger by its number."""
        from sfumato.budget.ledger import ledger_accounts

        found = self._read(
            lambda connection, _: ledger_accounts.entries(connection, self._where, number=number)
        )
        if not found:
            raise EngineError(f"{self._where} has no entry {number}, which its journal reports")
        return found[0]

    @property
    def _where(self) -> str:
        """The name of the ledger in messages."""
        return self._store.shown

    # Transactions.

    def _change(self, work: Callable[[Connection, datetime, date], T]) -> T:
        """Run work in the ledger's one writing transaction, on a day that is never before an earlier one."""
        self._check_home()

        def all_of(connection: Connection, known: tuple[str, int] | None) -> tuple[T, tuple[str, int]]:
            from sfumato.budget.ledger import ledger_accounts, ledger_tables

            head = ledger_tables.head(connection, self._where, lock=True)
            self._check_same((head.name, ledger_accounts.newest(connection)), known)
            at = self._store.now(connection)
            # A clock that goes back gives nobody a period anew.
            day = max(at.date(), head.day)
            done = work(connection, at, day)
            if day > head.day:
                connection.execute(ledger_tables.LEDGER.update().values(day=day.isoformat()))
            return done, (head.name, ledger_accounts.newest(connection))

        done = self._within(self._store.change, all_of)
        self._check_home()  # one that was forked meanwhile has paid nothing
        return done

    def _read(self, work: Callable[[Connection, date], T]) -> T:
        """Run work in a reading transaction of the ledger, given the day that decides on periods."""

        def all_of(connection: Connection, known: tuple[str, int] | None) -> tuple[T, tuple[str, int]]:
            from sfumato.budget.ledger import ledger_accounts, ledger_tables

            head = ledger_tables.head(connection, self._where, lock=False)
            found = head.name, ledger_accounts.newest(connection)
            self._check_same(found, known)
            return work(connection, max(self._store.now(connection).date(), head.day)), found

        return self._within(self._store.read, all_of)

    def _within(self, transaction: Callable[[Any], Any], work: Callable[..., tuple[T, tuple[str, int]]]) -> T:
        """Run work in a transaction of the ledger; errors are marked as the ledger's, not a table's."""
        try:
            if not self._is_there():
                raise self._missing()
            known = self._known
            done: T
            done, self._known = transaction(lambda connection: work(connection, known))
        except EngineError as error:
            error.of_ledger = True
            raise
        return done

    def _check_same(self, found: tuple[str, int], known: tuple[str, int] | None) -> None:
        """Check that the ledger's file was not replaced by another ledger or an older copy."""
        if known is not None and (found[0] != known[0] or found[1] < known[1]):
            raise EngineError(
                f"{self._where} was replaced by another ledger, or by an older copy. Enter what was "
                "spent since, and open it again with sf.Ledger(...)"
            )

    def _is_there(self) -> bool:
        """Whether the database holds a ledger by now."""
        from sfumato.budget.ledger import ledger_tables

        self._there = self._there or (self._store.exists() and self._store.read(ledger_tables.has_ledger))
        return self._there

    def _make(self) -> None:
        """Create an empty ledger if there is none."""
        self._check_home()
        if self._is_there():
            return

        def work(connection: Connection) -> None:
            from sfumato.budget.ledger import ledger_tables

            self._store.check_empty(connection)
            if not ledger_tables.has_ledger(connection):
                ledger_tables.make(connection, self._store.now(connection).date())

        self._store.prepare()
        self._store.change(work)

    def _suggest_cap(self, what: str, dataset: str, analyst: str = "") -> str:
        """Return what a message tells the ledger's owner to write."""
        return str(getattr(self._terms, what)).format(
            dataset, analyst, shlex.quote(dataset), shlex.quote(analyst)
        )

    def _missing(self) -> EngineError:
        return EngineError(
            f"there is no ledger {self._where} yet. Its owner makes one, with a first budget, by "
            + self._suggest_cap("create", "NAME")
        )

    # For both.

    def _card(self) -> Card:
        try:
            return ledger_card(self._where, self.accounts())
        except EngineError as error:
            return ledger_card(self._where, (), str(error))

    def _set(
        self,
        connection: Connection,
        kind: str,
        dataset: str,
        analyst: str | None,
        cap: Cap,
        period: str | None,
        at: datetime,
        day: date,
        *,
        new: bool,
    ) -> None:
        """Write a cap in the ledger, with the totals of everything spent before."""
        from sfumato.budget.ledger import ledger_accounts

        kept = ledger_accounts.LedgerAccount._empty(dataset, analyst, cap, period, day)
        paid = ledger_accounts.entries(connection, self._where, dataset, analyst, "spend")
        if new:
            ledger_accounts.add(connection, kept._replay_entries(paid))
        else:
            ledger_accounts.save(connection, self._where, kept._replay_entries(paid), cap=True)
        entered = ledger_accounts.nothing(kind, cap)
        entry = ledger_accounts.append(
            connection, kind, dataset, analyst, entered, at, day, composition=cap.composition, period=period
        )
        self.journal._record_query(connection, at, entry, None)

    def _unknown(self, dataset: str, known: list[LedgerAccount]) -> BudgetError:
        near = nearest(dataset, [kept.dataset for kept in known])
        hint = f"; did you mean {near!r}? Else its" if near else ". Its"
        return BudgetError(
            f"{self._where} has no budget of {shown(dataset)}{hint} owner makes one by "
            + self._suggest_cap("create", dataset)
        )

    def _nothing_granted(self, dataset: str, analyst: str) -> BudgetError:
        return BudgetError(
            f"{self._where} grants nothing of {dataset!r} to {shown(analyst)}. Its owner does, by "
            + self._suggest_cap("grant", dataset, analyst)
        )

    def _check_known(self, connection: Connection, dataset: str | None, analyst: str | None) -> None:
        """Refuse the name of a dataset or analyst that the ledger does not have.

        Raises:
            BudgetError: there is no such dataset, or no such analyst.
        """
        from sfumato.budget.ledger import ledger_accounts

        known = ledger_accounts.accounts(connection, self._where)
        if dataset is not None and dataset not in [kept.dataset for kept in known]:
            raise self._unknown(dataset, known)
        analysts = {kept.analyst for kept in known if dataset in (None, kept.dataset)} - {None}
        if analyst is not None and analyst not in analysts:
            near = nearest(analyst, [str(one) for one in analysts])
            hint = f"; did you mean {near!r}?" if near else ""
            raise BudgetError(f"{self._where} grants nothing to {shown(analyst)}{hint}")

    def __repr__(self) -> str:
        return f"<Ledger {self._where}>"


def _round_down_cap(cap: Cap) -> Cap:
    """Return a cap that the ledger can write, rounded down.

    Raises:
        BudgetError: nothing is left of it.
    """
    epsilon = inward(cap.epsilon)
    if not epsilon:
        raise BudgetError("epsilon is less than 1e-1233, the smallest that a ledger holds. Give more")
    return Cap(epsilon, inward(cap.delta), cap.composition)


def _period(period: object) -> None:
    if period is not None:
        one_of(period, "period", PERIODS)


def _store(place: str | os.PathLike[str]) -> Store:
    """Return the database of a ledger's place: a SQLite file or PostgreSQL."""
    if not isinstance(place, str | os.PathLike):
        raise ParameterError("place", place, "the path of a file, or postgresql://USER@HOST/DATABASE")
    missing = False
    try:
        from sfumato.budget.ledger.ledger_databases import SCHEMES, PostgresqlStore, SqliteStore
    except ImportError:
        missing = True
    if missing:
        raise EngineError("install support for ledgers: pip install 'sfumato[ledger]'")
    if isinstance(place, str) and place.lower().startswith(SCHEMES):
        return PostgresqlStore(place)
    return SqliteStore(place)
