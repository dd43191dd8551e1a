"""Accounts as they follow from entries alone, caps included; and where the accounts of a ledger differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlalchemy import Connection, select

from sfumato.budget.ledger import book
from sfumato.budget.ledger.book import Kept
from sfumato.budget.ledger.entry import Entry
from sfumato.budget.ledger.tables import ACCOUNTS
from sfumato.budget.ledger.written import understood
from sfumato.errors import shown

Accounts = dict[tuple[str, str], Kept]


def differences(connection: Connection, where: str) -> Iterator[str]:
    """Yield what is wrong with the accounts of a ledger, each cell of them.

    Args:
        where: the ledger, for messages.
    Raises:
        EngineError: an entry is none.
    """
    found: Accounts = {}
    with understood(where):
        wrong = list(_replayed(book.entries(connection, where), found))
    yield from wrong
    for row in connection.execute(select(ACCOUNTS)):
        cells = dict(row._mapping)
        whose = cells.pop("dataset"), cells.pop("analyst")
        kept = found.pop(whose, None)
        if kept is None:
            yield f"there is a budget of {shown(whose[0])} for {shown(whose[1])}, which no entry has made"
            continue
        said = {**book.cap_cells(kept), **book.paid_cells(kept)}
        for name, cell in cells.items():
            if cell != said[name]:
                yield (
                    f"the column {name} of {kept.account.called} holds {shown(cell)}, and its entries give "
                    f"{shown(said[name])}"
                )
    for kept in found.values():
        yield f"{kept.account.called} is missing"


def _replayed(entries: Iterable[Entry], found: Accounts) -> Iterator[str]:
    """Fill accounts with what follows from entries; yield those that the caps of their time did not allow."""
    paid: dict[str, list[Entry]] = {}
    for entry in entries:
        who = entry.analyst or ""
        if entry.kind != "spend":
            cap = book.read_cap(str(entry.epsilon), str(entry.delta), str(entry.composition))
            kept = Kept.empty(entry.dataset, entry.analyst, cap, entry.period, entry.day)
            earlier = [one for one in paid.get(entry.dataset, ()) if not who or one.analyst == who]
            found[entry.dataset, who] = kept.replayed(earlier)
            continue
        paid.setdefault(entry.dataset, []).append(entry)
        for one in dict.fromkeys(("", who)):
            before = found.get((entry.dataset, one))
            if before is None:
                yield f"entry {entry.number} was paid from a budget that no entry before it has made"
                continue
            after = before.on(entry.day).after(entry)
            if not after.account.fits:
                yield f"entry {entry.number} is more than what was left of {after.account.called}"
            found[entry.dataset, one] = after
