"""What a ledger remembers, and how it is written: texts that are read back as exactly the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from fractions import Fraction
from math import ceil, floor
from typing import Any

from sfumato.budget.budget import Totals
from sfumato.budget.filters import PrivacyFilter, Spent
from sfumato.budget.loss import Loss
from sfumato.dataclass import dataclass
from sfumato.display.formatting import exact, visible
from sfumato.errors import BudgetError, EngineError, ParameterError

PERIODS = ("week", "month", "quarter", "year")


def format_period(day: date, period: str | None) -> str:
    """Return the name of the budget period that an entry's day is in; later ones sort later.

    Args:
        day: in UTC.
        period: one of `PERIODS`; None for all time, which is one period without a name.

    >>> [format_period(date(2027, 1, 2), each) for each in PERIODS]
    ['2026-W53', '2027-01', '2027-Q1', '2027']
    """
    if period is None:
        return ""
    if period == "week":
        year, week, _ = day.isocalendar()
        return f"{year:04}-W{week:02}"
    if period == "month":
        return f"{day.year:04}-{day.month:02}"
    if period == "quarter":
        return f"{day.year:04}-Q{(day.month + 2) // 3}"
    return f"{day.year:04}"


_LONGEST_SHOWN = 200  # of what `repr` has of what was asked

KINDS = ("create", "grant", "spend")


@dataclass(frozen=True, repr=False)
class Entry(Spent):
    """One entry of a ledger: a charged query, or a cap that was set.

    Args:
        what: a short description.
        epsilon, delta: the amounts charged, or the cap.
        loss: the loss of all noise of the query, as the totals include it; none for a cap.
        number: the number of the entry; later entries have larger ones.
        at: the time in UTC, according to the clock.
        day: the day that determines its period; never before that of an earlier entry.
        kind: "create" for a dataset's cap over all analysts, "grant" for an analyst's cap, "spend" for a
            query.
        dataset: the dataset whose budget it is about.
        analyst: the analyst who asked or whose cap it is; None for the owner, or for all.
        composition, period: those of a cap.

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
        """Return the ledger entry as plain values, for CSV and JSON; numbers are exact text.

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
        what = self.what if len(self.what) <= _LONGEST_SHOWN else f"{self.what[:_LONGEST_SHOWN]}..."
        return visible(
            f"<Entry {self.number} of {self.dataset!r}{whose}: {what}, epsilon={exact(self.epsilon)}, "
            f"delta={exact(self.delta)}>"
        )


@dataclass(frozen=True)
class PriorAnswer:
    """What a ledger knows about an equal query before it is paid: its entry and its kept answer.

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


_FINEST = 4096  # bits after the point; Python reads texts of 4,300 digits
_LARGEST = 10**600  # of a number, and of how often a mechanism runs


def outward(number: Fraction) -> Fraction:
    """Return a number of a ledger entry with at most 4096 bits after the point, rounded up.

    >>> outward(Fraction(1, 3)), outward(Fraction(1, 3**10_000)) == Fraction(1, 2**4096)
    (Fraction(1, 3), True)
    """
    if number.denominator.bit_length() <= _FINEST:
        return number
    return Fraction(ceil(number * 2**_FINEST), 2**_FINEST)


def inward(limit: Fraction) -> Fraction:
    """Return a cap's number with at most 4096 bits after the point, as ledgers hold it, rounded down."""
    if limit.denominator.bit_length() <= _FINEST:
        return limit
    return Fraction(floor(limit * 2**_FINEST), 2**_FINEST)


def in_totals(totals: Totals) -> Totals:
    """Return totals that ledger texts can hold, rounded up: sums of fractions have ever more digits."""
    return tuple((outward(a), outward(b)) for a, b in totals)


def as_written(requested: Spent) -> Spent:
    """Return the cost of a query in numbers that a ledger entry can hold.

    Raises:
        BudgetError: a number is beyond all budgets.
    """
    loss = requested.loss
    sizes: list[Fraction | int] = [requested.epsilon, loss.gaussian, loss.pure or 0, loss.additive_delta]
    sizes += [number for part in (*loss.laplace, *loss.approximate) for number in part]
    if max(sizes) > _LARGEST:
        raise BudgetError("the query loses more than any budget has")
    return Spent(
        plain_text(requested.what),
        outward(requested.epsilon),
        outward(requested.delta),
        Loss(
            gaussian=outward(loss.gaussian),
            laplace=tuple((outward(rate), n) for rate, n in loss.laplace),
            pure=None if loss.pure is None else outward(loss.pure),
            approximate=tuple((outward(e), outward(d), n) for e, d, n in loss.approximate),
            additive_delta=outward(loss.additive_delta),
        ),
    )


def check_name(name: object, what: str) -> None:
    """Check the name of a dataset, analyst or data version, for ledger entries and tokens alike.

    Letters of any alphabet, and spaces within, are admissible; what nobody can see is not.

    Raises:
        ParameterError: it is none.
    """
    fits = isinstance(name, str) and 0 < len(name) <= 100 and name.isprintable() and name == name.strip()
    if not fits:
        raise ParameterError(what, name, _NAME)


_NAME = "a name of at most 100 printable characters, with no spaces at its ends"
_LONGEST = 2000


def plain_text(text: str) -> str:
    """Return a text as ledger entries hold it: valid UTF-8, without zeros, at most 2,000 characters."""
    whole = text.encode("utf-8", "backslashreplace").decode().replace("\0", r"\x00")
    return whole if len(whole) <= _LONGEST else f"{whole[: _LONGEST - 3]}..."


def loss_text(loss: Loss) -> str:
    """Return a privacy loss as the JSON text of a ledger entry.

    >>> loss_text(Loss(laplace=((Fraction(1, 2), 3),)))
    '{"laplace": [["1/2", 3]]}'
    """
    parts: dict[str, Any] = {
        "gaussian": str(loss.gaussian) if loss.gaussian else None,
        "laplace": [[str(rate), n] for rate, n in loss.laplace],
        "pure": None if loss.pure is None else str(loss.pure),
        "approximate": [[str(e), str(d), n] for e, d, n in loss.approximate],
        "additive_delta": str(loss.additive_delta) if loss.additive_delta else None,
    }
    return json.dumps({name: part for name, part in parts.items() if part})


def read_loss(text: str) -> Loss:
    """Return the privacy loss in the JSON text of a ledger entry.

    >>> read_loss(loss_text(Loss(gaussian=Fraction(1, 3)))).gaussian
    Fraction(1, 3)
    """
    parts = json.loads(text)
    pure = parts.get("pure")
    return Loss(
        gaussian=Fraction(parts.get("gaussian", "0")),
        laplace=tuple((Fraction(rate), n) for rate, n in parts.get("laplace", [])),
        pure=None if pure is None else Fraction(pure),
        approximate=tuple((Fraction(e), Fraction(d), n) for e, d, n in parts.get("approximate", [])),
        additive_delta=Fraction(parts.get("additive_delta", "0")),
    )


def totals_text(filters: tuple[PrivacyFilter, ...], totals: Totals) -> str:
    """Return an account's totals as the JSON text in a ledger, by the names of their filters."""
    pairs = zip(filters, totals, strict=True)
    return json.dumps({each.name: [str(a), str(b)] for each, (a, b) in pairs})


def read_totals(filters: tuple[PrivacyFilter, ...], text: str) -> Totals:
    """Return the totals in the JSON text of a ledger account.

    Raises:
        KeyError: a sum is not there.
    """
    found = json.loads(text)
    pairs = [tuple(map(Fraction, found[each.name])) for each in filters]
    if not all(0 <= number <= _LARGEST**2 for pair in pairs for number in pair):
        raise ValueError
    return tuple((a, b) for a, b in pairs)


# What reading a value raises that no ledger has written.
MISREAD = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)


def damage(what: str) -> str:
    """Return the message about a ledger value that sfumato did not write, with what to do."""
    return (
        f"the ledger is damaged, or was changed by hand: {what}. Restore the last good copy, and "
        "enter what was spent since with budget.spend(...)"
    )


def damaged(where: str, what: str = "it has a value that no ledger writes") -> EngineError:
    """Return the error of a damaged ledger.

    Args:
        where: the ledger.
        what: what is wrong with it.
    """
    return EngineError(f"{where}: {damage(what)}")


@contextmanager
def understood(where: str) -> Iterator[None]:
    """Report a ledger value that cannot be read, or is not an admissible cap, as damage."""
    wrong = False
    try:
        yield
    except (BudgetError, *MISREAD):
        wrong = True
    if wrong:
        raise damaged(where)
