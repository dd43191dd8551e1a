"""Accounts and entries of a ledger within one transaction: read, written, and replayed from entries alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Row, func, select

from sfumato.budget.budget import Account, Cap
from sfumato.budget.filters import Spent
from sfumato.budget.ledger.ledger_entries import (
    KINDS,
    PERIODS,
    Entry,
    damaged,
    format_period,
    in_totals,
    loss_text,
    read_loss,
    read_totals,
    totals_text,
    understood,
)
from sfumato.budget.ledger.ledger_tables import ACCOUNTS, ENTRIES
from sfumato.budget.loss import Loss
from sfumato.dataclass import dataclass
from sfumato.display.formatting import exact, visible
from sfumato.errors import shown


@dataclass(frozen=True, repr=False)
class LedgerAccount:
    """An account of a ledger: a dataset's cap, over all analysts or for one, and what was spent.

    Args:
        dataset, analyst: their names; analyst None for the cap over all analysts.
        period: how often it is renewed: "week", "month", "quarter", "year"; or None.
        since: the name of the current period, such as 2026-11.
        account: the cap, and what was spent in this period.
        lifetime: the same cap, and what was ever spent.

    >>> import tempfile
    >>> import sfumato as sf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = sf.Ledger(f"{folder}/budget.db")
    ...     ledger.create("hospital", epsilon=3)
    ...     _ = ledger.budget("hospital").spend("0.25", what="patients by year")
    ...     (kept,) = ledger.accounts()
    >>> kept.account.cap, kept.account.spent
    (Cap(epsilon=3, delta=0, composition='tight'), (0.25, 0.0))
    """

    dataset: str
    analyst: str | None
    period: str | None
    since: str
    account: Account
    lifetime: Account

    @classmethod
    def _empty(
        cls, dataset: str, analyst: str | None, cap: Cap, period: str | None, day: date
    ) -> LedgerAccount:
        """Return a ledger account from which nothing was spent."""
        since = format_period(day, period)
        account = Account._empty(cap, account_label(dataset, analyst, since))
        return cls(dataset, analyst, period, since, account, account)

    def _on(self, day: date) -> LedgerAccount:
        """Return the ledger account on a day: renewed if the day is in a later period."""
        since = format_period(day, self.period)
        if since <= self.since:
            return self
        empty = Account._empty(self.account.cap, account_label(self.dataset, self.analyst, since))
        return replace(self, since=since, account=empty)

    def _after(self, requested: Spent) -> LedgerAccount:
        """Return the ledger account after one more query, whether or not it fits."""
        return replace(
            self, account=_add_query(self.account, requested), lifetime=_add_query(self.lifetime, requested)
        )

    def _replay_entries(self, entries: Iterable[Entry]) -> LedgerAccount:
        """Return the ledger account that follows from replaying entries."""
        found = LedgerAccount._empty(self.dataset, self.analyst, self.account.cap, self.period, date.min)
        account, life = replace(found.account, called=self.account.called), found.lifetime
        for entry in entries:
            life = _add_query(life, entry)
            if format_period(entry.day, self.period) == self.since:
                account = _add_query(account, entry)
        return replace(self, account=account, lifetime=life)

    def __repr__(self) -> str:
        cap, whose = self.account.cap, "" if self.analyst is None else f" for {self.analyst}"
        since = f" in {self.since}" if self.since else ""
        return visible(
            f"<Budget of {self.dataset!r}{whose}{since}: epsilon={exact(cap.epsilon)}, "
            f"delta={exact(cap.delta)}, {float(self.account.left.share):.1%} left>"
        )


def _add_query(account: Account, requested: Spent) -> Account:
    """Return an account with one more query, its totals rounded up to what a ledger can write."""
    after = account._after(requested)
    return replace(after, totals=in_totals(after.totals))


def account_label(dataset: str, analyst: str | None, since: str = "") -> str:
    """Return the name of a ledger account in messages."""
    whose = (
        f"the budget of {dataset!r} over all analysts"
        if analyst is None
        else f"{analyst}'s budget of {dataset!r}"
    )
    return f"{whose} in {since}" if since else whose


@lru_cache(maxsize=1024)
def read_cap(epsilon: str, delta: str, composition: str) -> Cap:
    """Return the cap of a ledger account; cached, because its limits take milliseconds to find."""
    return Cap._check(epsilon, delta, composition)


def accounts(
    connection: Connection,
    where: str,
    dataset: str | None = None,
    analysts: Sequence[str] | None = None,
) -> list[LedgerAccount]:
    """Read the ledger's accounts of a dataset or of all; that over all analysts comes first."""
    asked = select(ACCOUNTS).order_by(ACCOUNTS.c.dataset, ACCOUNTS.c.analyst)
    if dataset is not None:
        asked = asked.where(ACCOUNTS.c.dataset == dataset)
    if analysts is not None:
        asked = asked.where(ACCOUNTS.c.analyst.in_(analysts))
    rows = connection.execute(asked).all()
    with understood(where):
        return [_account_from_row(row) for row in rows]


def _account_from_row(row: Row[*tuple[object, ...]]) -> LedgerAccount:
    """Return the ledger account in a database row."""
    cap = read_cap(row.epsilon, row.delta, row.composition)
    name = account_label(row.dataset, row.analyst or None, row.since)
    if row.period not in (None, *PERIODS) or not isinstance(row.since, str):
        raise ValueError
    totals, life = (
        Account(cap, read_totals(cap._filters, text), name) for text in (row.totals, row.lifetime)
    )
    return LedgerAccount(row.dataset, row.analyst or None, row.period, row.since, totals, life)


def cap_cells(account: LedgerAccount) -> dict[str, str | None]:
    """Return the columns of a ledger account that only the owner can change."""
    cap = account.account.cap
    return {
        "epsilon": str(cap.epsilon),
        "delta": str(cap.delta),
        "composition": cap.composition,
        "period": account.period,
    }


def charged_columns(account: LedgerAccount) -> dict[str, str | None]:
    """Return the columns of a ledger account that every query changes."""
    filters = account.account.cap._filters
    return {
        "since": account.since,
        "totals": totals_text(filters, account.account.totals),
        "lifetime": totals_text(filters, account.lifetime.totals),
    }


def add(connection: Connection, account: LedgerAccount) -> None:
    """Insert a new account into the ledger."""
    key = {"dataset": account.dataset, "analyst": account.analyst or ""}
    connection.execute(ACCOUNTS.insert().values(**key, **cap_cells(account), **charged_columns(account)))


def save(connection: Connection, where: str, account: LedgerAccount, *, cap: bool = False) -> None:
    """Update an existing account of the ledger.

    Args:
        where: the ledger, for messages.
        cap: whether the owner changes the cap; a question writes no column of it.
    Raises:
        EngineError: there is no such account, where it was read.
    """
    one = (ACCOUNTS.c.dataset == account.dataset) & (ACCOUNTS.c.analyst == (account.analyst or ""))
    values = {**(cap_cells(account) if cap else {}), **charged_columns(account)}
    if connection.execute(ACCOUNTS.update().where(one).values(**values)).rowcount != 1:
        raise damaged(where, f"{account.account.called} has an index that does not match it")


def append(
    connection: Connection,
    kind: str,
    dataset: str,
    analyst: str | None,
    requested: Spent,
    at: datetime,
    day: date,
    *,
    composition: str | None = None,
    period: str | None = None,
) -> Entry:
    """Append an entry to the ledger's accounts, and return it."""
    made = connection.execute(
        ENTRIES.insert().values(
            at=at.isoformat(timespec="microseconds"),
            day=day.isoformat(),
            kind=kind,
            dataset=dataset,
            analyst=analyst or "",
            what=requested.what,
            epsilon=str(requested.epsilon),
            delta=str(requested.delta),
            loss=loss_text(requested.loss),
            composition=composition,
            period=period,
        )
    )
    (number,) = made.inserted_primary_key or (0,)
    said = (requested.what, requested.epsilon, requested.delta, requested.loss)
    return Entry(*said, int(number), at, day, kind, dataset, analyst, composition, period)


def newest(connection: Connection) -> int:
    """Return the number of the ledger's last entry; 0 if there is none."""
    return connection.execute(select(func.max(ENTRIES.c.id))).scalar() or 0


def entries(
    connection: Connection,
    where: str,
    dataset: str | None = None,
    analyst: str | None = None,
    kind: str | None = None,
    number: int | None = None,
) -> list[Entry]:
    """Read the ledger's entries in order, filtered by dataset, analyst, kind or number."""
    asked = select(ENTRIES).order_by(ENTRIES.c.id)
    given = {"dataset": dataset, "analyst": analyst, "kind": kind, "id": number}
    for name, value in given.items():
        if value is not None:
            asked = asked.where(ENTRIES.c[name] == value)
    rows = connection.execute(asked).all()
    with understood(where):
        return [_entry(row) for row in rows]


def _entry(row: Row[*tuple[Any, ...]]) -> Entry:
    """Return the ledger entry in a database row."""
    texts = (row.what, row.epsilon, row.delta, row.loss, row.at, row.day, row.kind, row.dataset, row.analyst)
    if not all(isinstance(text, str) for text in texts) or row.kind not in KINDS:
        raise ValueError
    epsilon, delta = Fraction(row.epsilon), Fraction(row.delta)
    if epsilon < 0 or delta < 0:  # which would give back what was spent
        raise ValueError
    return Entry(
        what=row.what,
        epsilon=epsilon,
        delta=delta,
        loss=read_loss(row.loss),
        number=row.id,
        at=datetime.fromisoformat(row.at),
        day=date.fromisoformat(row.day),
        kind=row.kind,
        dataset=row.dataset,
        analyst=row.analyst or None,
        composition=row.composition,
        period=row.period,
    )


def nothing(what: str, cap: Cap) -> Spent:
    """Return the placeholder query of an entry that sets an account's cap: it loses nothing."""
    return Spent(what, cap.epsilon, cap.delta, Loss())


Accounts = dict[tuple[str, str], LedgerAccount]


def differences(connection: Connection, where: str) -> Iterator[str]:
    """Yield differences between the ledger's accounts and what follows from its entries.

    Args:
        where: the ledger, for messages.
    Raises:
        EngineError: an entry is none.
    """
    found: Accounts = {}
    with understood(where):
        wrong = list(_replay(entries(connection, where), found))
    yield from wrong
    for row in connection.execute(select(ACCOUNTS)):
        cells = dict(row._mapping)
        whose = cells.pop("dataset"), cells.pop("analyst")
        kept = found.pop(whose, None)
        if kept is None:
            yield f"there is a budget of {shown(whose[0])} for {shown(whose[1])}, which no entry made"
            continue
        said = {**cap_cells(kept), **charged_columns(kept)}
        for name, cell in cells.items():
            if cell != said[name]:
                yield (
                    f"the column {name} of {kept.account.called} has {shown(cell)}, but its "
                    f"entries give {shown(said[name])}"
                )
    for kept in found.values():
        yield f"{kept.account.called} is missing"


def _replay(entries: Iterable[Entry], accounts: Accounts) -> Iterator[str]:
    """Fill accounts by replaying entries; yield the entries that exceeded the caps of their time."""
    paid: dict[str, list[Entry]] = {}
    for entry in entries:
        who = entry.analyst or ""
        if entry.kind != "spend":
            cap = read_cap(str(entry.epsilon), str(entry.delta), str(entry.composition))
            kept = LedgerAccount._empty(entry.dataset, entry.analyst, cap, entry.period, entry.day)
            earlier = [one for one in paid.get(entry.dataset, ()) if not who or one.analyst == who]
            accounts[entry.dataset, who] = kept._replay_entries(earlier)
            continue
        paid.setdefault(entry.dataset, []).append(entry)
        for one in dict.fromkeys(("", who)):
            before = accounts.get((entry.dataset, one))
            if before is None:
                yield f"entry {entry.number} was charged to a budget that no earlier entry made"
                continue
            after = before._on(entry.day)._after(entry)
            if not after.account._fits:
                yield f"entry {entry.number} is more than what was left of {after.account.called}"
            accounts[entry.dataset, one] = after
