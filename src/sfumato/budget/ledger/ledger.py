"""`sf.Ledger`: budgets that outlive a process, and that many processes and analysts draw on."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from sfumato.budget.account import Cap
from sfumato.budget.filters import Spent
from sfumato.budget.ledger.entry import Entry
from sfumato.budget.ledger.periods import PERIODS
from sfumato.budget.ledger.shared import LedgerBudget
from sfumato.budget.ledger.written import as_written, inward, named
from sfumato.errors import BudgetError, EngineError, ParameterError, nearest
from sfumato.exact import one_of, truth_value
from sfumato.ownership import Owned, Turn

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from sfumato.budget.ledger.book import Kept
    from sfumato.budget.ledger.journal.journal import Journal
    from sfumato.budget.ledger.store import Store

T = TypeVar("T")


class Ledger(Owned):
    """A file, or a database of PostgreSQL, that holds budgets and all that was ever spent of them.

    A dataset has a cap over all analysts, who may tell each other what they learn; each analyst has one
    beside it. A question is entered, and on disk, before its noise is drawn, by one process at a time; one
    that does not fit either cap is refused. What fails later stays spent, as its failure may be seen.

    Args:
        place: the path of a file, which need not be there yet, or postgresql://USER@HOST/DATABASE.
    Raises:
        EngineError: it is no ledger, cannot be opened, or is of a later version; or what it needs is not
            installed.
        ParameterError: place is no path.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger(f"{folder.name}/budget.db")
    >>> ledger.create("hospital", epsilon=3, delta="1e-6")
    >>> ledger.grant("hospital", "ann", epsilon=1)
    >>> budget = ledger.budget("hospital", analyst="ann")
    >>> entry = budget.spend("0.25", what="patients by year")
    >>> Ledger(f"{folder.name}/budget.db").budget("hospital", analyst="ann")
    <Budget of 'hospital' for ann: 75.0% left, a question may ask for epsilon=0.75 and delta=5e-07>
    >>> folder.cleanup()

    Source:
        docs/proofs/budget.md, for each cap.
    """

    _elsewhere = "open it there, by sf.Ledger(...) of the same place"
    _refusal = BudgetError

    def __init__(self, place: str | os.PathLike[str]) -> None:
        self._store = _store(place)
        self._turn = Turn()
        self._there = self._looked()
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
        """Give a dataset its cap over all analysts; make the file, or the tables, where there are none.

        Args:
            dataset: its name: whose rows are of the same people is one dataset.
            epsilon, delta, composition: as for `sf.Budget`.
            period: "week", "month", "quarter" or "year" (UTC), in each of which all of it may be spent anew.
                Nothing bounds what is then lost in a lifetime, which is shown beside. None for once and for
                all.
            replace: change the cap of a dataset that has one; what was spent stays spent.
        Raises:
            BudgetError: epsilon or delta is not admissible, or the dataset has a cap already.
            ParameterError: another argument is not.
            EngineError: the ledger cannot be written.
        """
        cap = _written(Cap.of(epsilon, delta, composition))
        named(dataset, "dataset")
        _period(period)
        replace = truth_value(replace, "replace")

        def work(connection: Connection, at: datetime, day: date) -> None:
            from sfumato.budget.ledger import book

            found = book.accounts(connection, self._store.shown, dataset)
            if found and not replace:
                raise BudgetError(
                    f"{self._store.shown} has a budget of {dataset!r} already; replace=True changes its cap, "
                    "and what was spent stays spent"
                )
            if not found and replace:
                raise self._unknown(dataset, book.accounts(connection, self._store.shown))
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
        """Let an analyst spend, up to a cap of their own beside that of the dataset; or change that cap.

        Args:
            dataset: that has a cap over all analysts.
            analyst: their name.
            epsilon: of their own cap.
            delta, composition: of it; those of the dataset where they are left out.
            period: as for `create`.
        Raises:
            BudgetError: there is no such dataset, or epsilon or delta is not admissible.
            ParameterError: another argument is not.
            EngineError: the ledger cannot be written.
        """
        named(dataset, "dataset")
        named(analyst, "analyst")
        _period(period)
        _written(
            Cap.of(epsilon, 0 if delta is None else delta, "tight" if composition is None else composition)
        )

        def work(connection: Connection, at: datetime, day: date) -> None:
            from sfumato.budget.ledger import book

            found = book.accounts(connection, self._store.shown, dataset)
            if not found:
                raise self._unknown(dataset, book.accounts(connection, self._store.shown))
            whole = found[0].account.cap
            cap = Cap.of(
                epsilon,
                whole.delta if delta is None else delta,
                whole.composition if composition is None else composition,
            )
            new = analyst not in [kept.analyst for kept in found]
            self._set(connection, "grant", dataset, analyst, _written(cap), period, at, day, new=new)

        with self._turn():
            self._change(work)

    def accounts(self, dataset: str | None = None) -> tuple[Kept, ...]:
        """Return all caps with what was paid of them, of one dataset or of all.

        Raises:
            EngineError: the ledger cannot be read.
        """

        def work(connection: Connection, day: date) -> tuple[Kept, ...]:
            from sfumato.budget.ledger import book

            return tuple(kept.on(day) for kept in book.accounts(connection, self._store.shown, dataset))

        return self._read(work)

    def history(self, dataset: str | None = None, analyst: str | None = None) -> tuple[Entry, ...]:
        """Return what was ever entered, in order: of all, of a dataset, of an analyst.

        Raises:
            EngineError: the ledger cannot be read.
        """

        def work(connection: Connection, day: date) -> tuple[Entry, ...]:
            from sfumato.budget.ledger import book

            return tuple(book.entries(connection, self._store.shown, dataset, analyst))

        return self._read(work)

    def check(self) -> None:
        """Add up all entries again, exactly, and compare.

        Raises:
            EngineError: an account has less than what was entered; or the ledger cannot be read.
        """

        def work(connection: Connection, day: date) -> None:
            from sfumato.budget.ledger import book

            for kept in book.accounts(connection, self._store.shown):
                paid = book.entries(connection, self._store.shown, kept.dataset, kept.analyst, "spend")
                again = kept.replayed(paid)
                both = ((kept.account, again.account), (kept.lifetime, again.lifetime))
                pairs = [pair for a, b in both for pair in zip(a.totals, b.totals, strict=True)]
                if any(held[i] < entered[i] for held, entered in pairs for i in (0, 1)):
                    raise EngineError(
                        f"{self._store.shown}: {kept.account.called} has less spent than its entries add up "
                        "to: it was changed by hand, or is damaged"
                    )

        self._read(work)

    @property
    def journal(self) -> Journal:
        """Every question, and what came of it, in a chain that shows what was changed (docs/journal.md)."""
        from sfumato.budget.ledger.journal.journal import Journal

        return Journal(self)

    # For analysts.

    def budget(self, dataset: str, analyst: str | None = None) -> LedgerBudget:
        """Return what pays for questions about a dataset, wherever `budget=` is taken.

        Args:
            dataset: that has a cap.
            analyst: who asks, and has a cap of their own; None for the owner, whose questions that of the
                dataset alone bounds.
        Raises:
            BudgetError: there is no such dataset, or nothing was granted to the analyst.
            EngineError: the ledger cannot be read.
        """
        self._check_home()
        named(dataset, "dataset")
        if analyst is not None:
            named(analyst, "analyst")
        self._kept(dataset, analyst)
        return LedgerBudget(self, dataset, analyst)

    # For the budgets that it gave.

    def _kept(self, dataset: str, analyst: str | None) -> tuple[Kept, ...]:
        """Return the accounts that a question must fit: over all analysts, then the analyst's own."""
        return self._read(lambda connection, day: self._of(connection, dataset, analyst, day))

    def _of(self, connection: Connection, dataset: str, analyst: str | None, day: date) -> tuple[Kept, ...]:
        from sfumato.budget.ledger import book

        rows = book.accounts(connection, self._store.shown, dataset, ("", analyst or ""))
        found = {kept.analyst: kept.on(day) for kept in rows}
        if None not in found:
            raise self._unknown(dataset, book.accounts(connection, self._store.shown))
        if analyst is None:
            return (found[None],)
        if analyst not in found:
            raise BudgetError(
                f"{self._store.shown} grants nothing of {dataset!r} to {analyst!r}; its owner does, by "
                f"ledger.grant({dataset!r}, {analyst!r}, epsilon=...)"
            )
        return found[None], found[analyst]

    def _spend(
        self,
        dataset: str,
        analyst: str | None,
        asked: Spent,
        epsilon: Any,
        delta: Any,
        plan: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Enter a question, or refuse it; return the entry when it, and its line of the journal, are on disk.

        Args:
            plan: the canonical form of what is asked, for the journal.
        """
        from sfumato.budget.ledger.journal.journal import short

        paid, journal, told = as_written(asked), self.journal, short(plan)

        def work(connection: Connection, at: datetime, day: date) -> Entry | BudgetError:
            from sfumato.budget.ledger import book

            before = self._of(connection, dataset, analyst, day)
            after = [kept.after(paid) for kept in before]
            full = [was for was, kept in zip(before, after, strict=True) if not kept.account.fits]
            if full:
                least = min((kept.account for kept in full), key=lambda account: account.left)
                cost = {"epsilon": str(paid.epsilon), "delta": str(paid.delta)}
                journal.refused(
                    connection, at, dataset, analyst, "BudgetError", what=paid.what, plan=told, **cost
                )
                return least.refusal(paid, epsilon, delta)
            for kept in after:
                book.save(connection, kept)
            entry = book.append(connection, "spend", dataset, analyst, paid, at, day)
            journal.asked(connection, at, entry, told)
            return entry

        entered = self._change(work)
        if isinstance(entered, BudgetError):
            raise entered
        return entered

    def _entries(self, dataset: str, analyst: str | None) -> tuple[Entry, ...]:
        """Return what was paid; by all where no analyst is named."""
        return tuple(entry for entry in self.history(dataset, analyst) if entry.kind == "spend")

    # Transactions.

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
        """Write a cap, and what its sums are of all that was spent."""
        from sfumato.budget.ledger import book

        kept = book.Kept.empty(dataset, analyst, cap, period, day)
        paid = book.entries(connection, self._store.shown, dataset, analyst, "spend")
        book.save(connection, kept.replayed(paid), new=new)
        entered = book.nothing(kind, cap)
        entry = book.append(
            connection, kind, dataset, analyst, entered, at, day, composition=cap.composition, period=period
        )
        self.journal.asked(connection, at, entry, None)

    def _change(self, work: Callable[[Connection, datetime, date], T]) -> T:
        """Do work in a transaction beside which no other runs, on a day never before an earlier one."""
        self._check_home()
        if not self._is_there():
            raise self._missing()
        known = self._known

        def all_of(connection: Connection) -> tuple[T, tuple[str, int]]:
            from sfumato.budget.ledger import book, tables

            head = tables.head(connection, self._store.shown, lock=True)
            self._check_same((head.name, book.newest(connection)), known)
            at = self._store.now(connection)
            # A clock that goes back gives nobody a period anew.
            day = max(at.date(), head.day)
            done = work(connection, at, day)
            if day > head.day:
                connection.execute(tables.LEDGER.update().values(day=day.isoformat()))
            return done, (head.name, book.newest(connection))

        done, self._known = self._store.change(all_of)
        self._check_home()  # one that was forked meanwhile has paid nothing
        return done

    def _read(self, work: Callable[[Connection, date], T]) -> T:
        """Read what is of one moment, and the day by which periods go."""
        if not self._is_there():
            raise self._missing()
        known = self._known

        def all_of(connection: Connection) -> tuple[T, tuple[str, int]]:
            from sfumato.budget.ledger import book, tables

            head = tables.head(connection, self._store.shown, lock=False)
            found = head.name, book.newest(connection)
            self._check_same(found, known)
            return work(connection, max(self._store.now(connection).date(), head.day)), found

        done, self._known = self._store.read(all_of)
        return done

    def _check_same(self, found: tuple[str, int], known: tuple[str, int] | None) -> None:
        """Refuse another ledger in the place of the one that was read before, or an older copy of it."""
        if known is not None and (found[0] != known[0] or found[1] < known[1]):
            raise EngineError(
                f"{self._store.shown} is not what it was: another ledger, or an older copy of this one, was "
                "put in its place; enter what was spent since, and open it anew, by sf.Ledger(...)"
            )

    def _is_there(self) -> bool:
        """Whether there is a ledger, perhaps by now."""
        self._there = self._there or self._looked()
        return self._there

    def _looked(self) -> bool:
        """Look whether there is a ledger, and make one of an earlier version one of today."""
        from sfumato.budget.ledger import tables

        if not self._store.exists():
            return False
        version = self._store.read(tables.version)
        if version is not None and version < tables.VERSION:
            self._store.change(lambda connection: tables.head(connection, self._store.shown, lock=True))
        return version is not None

    def _make(self) -> None:
        """Make an empty ledger where there is none."""
        self._check_home()
        if self._is_there():
            return

        def work(connection: Connection) -> None:
            from sfumato.budget.ledger import tables

            self._store.check_empty(connection)
            if tables.version(connection) is None:
                tables.make(connection, self._store.now(connection).date())

        self._store.prepare()
        self._store.change(work)

    def _missing(self) -> EngineError:
        return EngineError(
            f"there is no ledger {self._store.shown} yet; its owner makes one, with the first budget in it: "
            "ledger.create('NAME', epsilon=...), or sfumato budget create"
        )

    def _unknown(self, dataset: str, known: list[Kept]) -> BudgetError:
        near = nearest(dataset, [kept.dataset for kept in known])
        hint = f"did you mean {near!r}? Else its" if near else "its"
        return BudgetError(
            f"{self._store.shown} has no budget of {dataset!r}; {hint} owner makes one by "
            f"ledger.create({dataset!r}, epsilon=...)"
        )

    def __repr__(self) -> str:
        return f"<Ledger {self._store.shown}>"


def _store(place: str | os.PathLike[str]) -> Store:
    """Return the database of a place."""
    if not isinstance(place, str | os.PathLike):
        raise ParameterError("place", place, "the path of a file, or postgresql://USER@HOST/DATABASE")
    missing = False
    try:
        from sfumato.budget.ledger.postgresql import SCHEMES, PostgresqlStore
        from sfumato.budget.ledger.sqlite import SqliteStore
    except ImportError:
        missing = True
    if missing:
        raise EngineError("install what ledgers need: pip install 'sfumato[ledger]'")
    if isinstance(place, str) and place.lower().startswith(SCHEMES):
        return PostgresqlStore(place)
    return SqliteStore(place)


def _written(cap: Cap) -> Cap:
    """Return a cap that can be written, and is no larger.

    Raises:
        BudgetError: nothing is left of it.
    """
    epsilon = inward(cap.epsilon)
    if not epsilon:
        raise BudgetError("epsilon is less than 1e-1233, of which no ledger holds anything; give more")
    return Cap(epsilon, inward(cap.delta), cap.composition)


def _period(period: object) -> None:
    if period is not None:
        one_of(period, "period", PERIODS)
