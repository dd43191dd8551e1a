"""A ledger as a card: whose budgets it holds, and what is left of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sfumato.display.card import Card, Rows, Sentences
from sfumato.display.numbers import exact

if TYPE_CHECKING:
    from sfumato.budget.ledger.book import Kept

_MOST = 40  # budgets that are shown


def ledger_card(place: str, kept: Sequence[Kept], trouble: str = "") -> Card:
    """Return the budgets of a ledger.

    Args:
        place: of the ledger, as messages call it.
        kept: its accounts.
        trouble: why it could not be read; then there are none.
    """
    title = f"Ledger {place}"
    if trouble:
        return Card(title, [Sentences([trouble])])
    if not kept:
        return Card(title, [Sentences(["It has no budgets; create(...) makes one."])])
    rows = [
        [
            one.dataset,
            one.analyst or "all together",
            exact(one.account.cap.epsilon),
            exact(one.account.cap.delta),
            f"{float(one.account.left.share):.1%}",
            one.since or "once and for all",
        ]
        for one in kept[:_MOST]
    ]
    more = f"The first {_MOST} of {len(kept):,} budgets." if len(kept) > _MOST else ""
    names = ["dataset", "analysts", "epsilon", "delta", "left", "period"]
    return Card(title, [Rows(names, rows, left=2, beyond=more)])
