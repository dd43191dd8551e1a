"""Every edit of a ledger by hand is found: each cell of each table, each row put in or taken out, each bit."""

import json
import random
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from sfumato.budget import Loss
from sfumato.budget.ledger import journal_lines as chain
from sfumato.errors import BudgetError, EngineError, SfumatoError
from sfumato.exact.parameters import canonical_bytes

DOCS = Path(__file__).parents[3] / "docs"
TABLES = ("sfumato_ledger", "sfumato_accounts", "sfumato_entries", "sfumato_journal", "sfumato_answers")
# Tables whose edits nobody finds, each with what the documentation says of them.
UNSEEN = {"sqlite_sequence": "SQLite's own counter, the table `sqlite_sequence`"}
# A spender's own caps, declarations and publications: lines with the kind in the column, in the content, or in
# both, written so that only one reader of JSON sees it, and entries.
_ENTRY = (
    "INSERT INTO sfumato_entries (at, day, kind, dataset, analyst, what, epsilon, delta, loss, composition) "
)
_ENTRY += "SELECT at, day, {kind}, dataset, analyst, what, '1000', delta, loss, 'adding' FROM sfumato_entries LIMIT 1"
_LINE = (
    "INSERT INTO sfumato_journal SELECT id + 100, {content}, sha256, {kind}, dataset, analyst, entry FROM "
)
_LINE += "sfumato_journal WHERE kind = 'asked' LIMIT 1"
_SAYS = "replace(content, '\"kind\":\"asked\"', '{}')"
OWNERS = ("cap", "data", "published")
FORGED = [
    *(_ENTRY.format(kind=repr(kind)) for kind in ("create", "grant", "Spend")),
    *(_LINE.format(kind=repr(kind), content=_SAYS.format(f'"kind":"{kind}"')) for kind in OWNERS),
    *(_LINE.format(kind=repr(kind), content="content") for kind in OWNERS),
    *(
        _LINE.format(kind="'asked'", content=_SAYS.format(said))
        for kind in OWNERS
        for said in (
            f'"kind":"{kind}"',
            f'"kind":"asked","kind":"{kind}"',
            f'"kind":"asked","\\u006bind":"{kind}"',
            f'"kind":"{kind}","k\\\\ind":"asked"',
            f'"kind":"{kind}","kind\\u0000":"asked"',
        )
    ),
    _LINE.format(kind="'asked'", content=_SAYS.format('"kinds":"asked"')),
]

ALLOWED = [
    _ENTRY.format(kind="'spend'"),
    _LINE.format(kind="'asked'", content=_SAYS.format('"kind":"cap","kind":"asked"')),
    *(
        _LINE.format(kind=repr(kind), content=_SAYS.format(f'"kind":"{kind}"'))
        for kind in chain.KINDS
        if kind not in OWNERS
    ),
]


def filled(place: str) -> tuple[sf.Ledger, str]:
    """Return a ledger with an entry and a line of every kind, and its head."""
    if not place.startswith("postgresql:"):
        Path(place).write_bytes(made_once())
        return sf.Ledger(place), sf.Ledger(place).journal.head
    return fill(sf.Ledger(place))


@cache
def made_once() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        fill(sf.Ledger(f"{folder}/budget.db"))
        return Path(f"{folder}/budget.db").read_bytes()


def fill(ledger: sf.Ledger) -> tuple[sf.Ledger, str]:
    ledger.create("shop", epsilon=10, delta="1e-6")
    ledger.create("school", epsilon=3, composition="adding", period="month")
    ledger.grant("shop", "ann", epsilon=5)
    ledger.grant("shop", "Jörg Müller", epsilon=4, delta="1e-7", period="year")
    ledger.journal.declare("shop", "1")
    budget = ledger.budget("shop", "ann")
    asked: dict[str, Any] = {"asks": "statistics"}
    known = budget._repeat_answer(asked)
    paid = budget.spend(1, "1e-8", loss=Loss(gaussian="1/7", additive_delta="1e-9"), plan=asked)  # type: ignore[arg-type]
    budget._record_outcome(paid, "answered", question=known.question, data=known.data, body=b"body", rows=1)
    budget._repeat_answer(asked)
    ledger.journal.publish(paid.number)
    budget._record_outcome(budget.spend("1/3"), "failed", error="EngineError")
    budget._record_outcome(ledger.budget("shop", "Jörg Müller").spend("1/2"), "handed")
    ledger.budget("school").spend("1/4")
    with pytest.raises(BudgetError):
        budget.spend(9)
    ledger.create("shop", epsilon=8, delta="1e-6", replace=True)
    budget.spend(1)
    return ledger, ledger.journal.head


def rows(connection: sqlite3.Connection, table: str) -> list[dict[str, Any]]:
    found = connection.execute(f"SELECT rowid AS rowid, * FROM {table}")
    return [dict(zip([c[0] for c in found.description], row, strict=True)) for row in found]


def others(value: Any) -> Iterator[Any]:
    """Yield values that differ from one."""
    yield None
    if isinstance(value, int):
        yield from (value + 1, value - 1, -value - 1, "x", 2**62)
    elif isinstance(value, bytes):
        yield from (value + b"x", b"", value.decode())
    elif isinstance(value, str):
        yield from (f"{value} ", value[:-1], "", "1000", "2099-01-01", "spend", value.encode(), b"\xff")
    else:
        yield from ("week", "", 0)


def edits(connection: sqlite3.Connection) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """Yield every edit that is tried: what it is, and a statement with its values."""
    for table in TABLES:
        for row in rows(connection, table):
            at = row["rowid"]
            names = [name for name in row if name != "rowid"]
            for name in names:
                for value in others(row[name]):
                    if value != row[name] or type(value) is not type(row[name]):
                        text = f"UPDATE {table} SET {name} = ? WHERE rowid = ?"
                        yield f"{table}.{name} of {at}: {row[name]!r} -> {value!r}", text, (value, at)
            yield f"{table}: {at} is taken out", f"DELETE FROM {table} WHERE rowid = ?", (at,)
            marks = ", ".join("?" * len(names))
            insert = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})"
            for key in (999, 0, -1) if "id" in row else ("eve",):
                changed = {**row, "id": key} if "id" in row else {**row, "analyst": key}
                yield f"{table}: {at} once more as {key}", insert, tuple(changed[name] for name in names)


def found_in(place: Path | str, head: str) -> bool:
    """Whether verification finds something wrong; nothing but an EngineError may come of it."""
    try:
        ledger = sf.Ledger(place)
        return not ledger.journal.verify(head).ok
    except EngineError as error:
        assert "Traceback" not in str(error)
        return True


def tried(tmp_path: Path, part: slice) -> tuple[int, list[str]]:
    """Return how many edits were made, and those that were not found."""
    place = tmp_path / "budget.db"
    ledger, head = filled(str(place))
    assert ledger.journal.verify(head).ok
    whole, made, unseen = place.read_bytes(), 0, []
    with closing(sqlite3.connect(place)) as connection:
        every = list(edits(connection))
        dump = list(connection.iterdump())
    for what, statement, values in every[part]:
        with closing(sqlite3.connect(place)) as connection:
            try:
                connection.execute(statement, values)
                connection.commit()
            except sqlite3.IntegrityError:
                continue  # a table that refuses it
            if list(connection.iterdump()) == dump:
                continue  # SQLite keeps a value of another type as the text that was there
        edited, made = place.read_bytes(), made + 1
        if not found_in(place, head):
            unseen.append(what)
        for ask in ASKS.values() if made % 20 == 1 else ():  # nothing but an error of ours comes of it
            place.write_bytes(edited)
            with suppress(SfumatoError):
                ask(sf.Ledger(place))
        place.write_bytes(whole)
    return made, unseen


@pytest.mark.parametrize(
    "step", [499, pytest.param(7, marks=pytest.mark.long), pytest.param(1, marks=pytest.mark.release)]
)
def test_edits_of_cells_and_rows_are_found(tmp_path, step):
    made, unseen = tried(tmp_path, slice(None, None, step))
    assert made > 500 // step and unseen == []


def test_every_table_is_edited_or_its_reason_is_in_the_documentation(tmp_path):
    filled(str(tmp_path / "budget.db"))
    with closing(sqlite3.connect(tmp_path / "budget.db")) as connection:
        names = {
            name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        }
    assert names == {*TABLES, *UNSEEN}
    for reason in UNSEEN.values():
        assert reason in (DOCS / "journal.md").read_text()


# What nobody finds in the end, if it is not looked for: a cap that was raised, spent, and put back.


def changed(place: str, *statements: str) -> None:
    with closing(sqlite3.connect(place)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def test_a_cap_that_is_raised_spent_and_put_back_is_found(file, monkeypatch):
    ledger, _ = filled(file)
    budget = ledger.budget("shop", "ann")
    changed(file, "UPDATE sfumato_accounts SET epsilon = '1000' WHERE dataset = 'shop' AND analyst = 'ann'")
    for refused in (lambda: budget.spend(1), lambda: budget.remaining):
        with pytest.raises(EngineError, match="'shop' is not the one that its owner set"):
            refused()
    assert not ledger.journal.verify().ok
    # Somebody with a sfumato of their own, which does not look.
    monkeypatch.setattr("sfumato.budget.ledger.journal_lines.check_cap", lambda *_: None)
    changed(file, "UPDATE sfumato_accounts SET epsilon = '1000' WHERE dataset = 'shop'")
    paid = budget.spend(500)
    for analyst, epsilon in (("ann", "5"), ("Jörg Müller", "4"), ("", "8")):
        where = f"WHERE dataset = 'shop' AND analyst = '{analyst}'"
        changed(file, f"UPDATE sfumato_accounts SET epsilon = '{epsilon}' {where}")
    wrong = sf.Ledger(file).journal.verify().wrong
    assert any(f"entry {paid.number} is more than what was left of" in one for one in wrong)
    with pytest.raises(EngineError, match="is damaged, or was changed by hand"):
        sf.Ledger(file).check()


def test_a_line_that_gives_back_what_was_spent_is_found(file):
    """Somebody who can add rows adds a question that costs less than nothing, with its digests, and the sums."""
    ledger = sf.Ledger(file)
    ledger.create("shop", epsilon=1, composition="adding")
    ledger.budget("shop").spend(1)
    head = ledger.journal.head
    with closing(sqlite3.connect(file)) as connection:
        cells = rows(connection, "sfumato_entries")[-1] | {"id": 3, "epsilon": "-1", "loss": "{}"}
        line = rows(connection, "sfumato_journal")[-1] | {"id": 3, "entry": 3}
        content = json.loads(line["content"]) | {"number": 3, "entry": 3}
        content["entered"] |= {"entry": 3, "epsilon": "-1", "loss": "{}"}
        line["content"] = canonical_bytes(content).decode()
        line["sha256"] = chain.after(line["sha256"], line["content"])
        for table, row in (("sfumato_entries", cells), ("sfumato_journal", line)):
            del row["rowid"]
            marks = ", ".join("?" * len(row))
            connection.execute(
                f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values())
            )
        connection.execute("UPDATE sfumato_ledger SET journal = ?", (line["sha256"],))
        nothing = '{"epsilon": ["0", "0"]}'
        connection.execute("UPDATE sfumato_accounts SET totals = ?, lifetime = ?", (nothing, nothing))
        connection.commit()
    assert found_in(file, head)
    with pytest.raises(EngineError, match="is damaged, or was changed by hand"):
        sf.Ledger(file).check()


def test_a_day_that_is_set_ahead_renews_nothing_unseen(file):
    ledger, _ = filled(file)
    ledger.budget("school").spend("2.5")
    changed(file, "UPDATE sfumato_ledger SET day = '2099-01-01'")
    ledger.budget("school").spend(3)
    assert any("that day was" in wrong for wrong in ledger.journal.verify().wrong)


@pytest.mark.long
def test_spenders_of_a_server_pay_and_change_nothing_else(database):
    """The rights that docs/ledger.md gives, on a real server."""
    psycopg = pytest.importorskip("psycopg", reason="needs the extra ledger")
    ledger, _ = filled(database)
    role = "spenders" + database.partition("/ledger")[2].partition("?")[0]
    block = (DOCS / "ledger.md").read_text().split("```sql\n")[1].split("```")[0]
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(block.replace("spenders", role))
        owner.execute(f"ALTER ROLE {role} LOGIN")
    spender = sf.Ledger(database.replace("ann:hunter2%25", role))
    budget = spender.budget("shop", "ann")
    asked: dict[str, Any] = {"asks": "more"}
    known = budget._repeat_answer(asked)
    budget._record_outcome(
        budget.spend("1/8", plan=asked), "answered", question=known.question, data=known.data, body=b"b"
    )
    assert budget._repeat_answer(asked).body == b"b"
    with pytest.raises(BudgetError):
        budget.spend(9)
    # A question may have what JSON of PostgreSQL does not hold, and backslashes.
    odd = {"asks": '\0 \\ \\u0000 \ud800 " \\" ü'}
    budget._record_outcome(budget.spend("1/8", plan=odd), "failed", error="EngineError")
    budget._record_outcome(budget.spend("1/8"), "handed")
    spender.journal._record_rejected_text("shop", "ann", "SELECT '\0\\u0000'", "QueryError")
    assert ledger.journal.verify().ok and ledger.check() is None
    for refused in (
        lambda: spender.journal.declare("shop", "2"),
        lambda: spender.journal.publish(budget.history[-3].number),
        lambda: spender.grant("shop", "ann", 7),
        lambda: spender.grant("shop", "eve", 1),
        lambda: spender.create("shop", 9, replace=True),
        lambda: spender.create("other", 9),
    ):
        with pytest.raises(EngineError, match="Only the ledger's owner can change caps and tables"):
            refused()
    may = {"sfumato_ledger": {"day", "journal"}, "sfumato_accounts": {"since", "totals", "lifetime"}}
    tried = 0
    with psycopg.connect(database.replace("ann:hunter2%25", role), autocommit=True) as connection:
        for table in TABLES:
            columns = connection.execute(f"SELECT * FROM {table} LIMIT 0").description
            statements = [
                f"UPDATE {table} SET {column.name} = {column.name}"
                for column in columns
                if column.name not in may.get(table, ())
            ]
            statements += [f"DELETE FROM {table}", f"TRUNCATE {table}", f"DROP TABLE {table}"]
            if table in may:
                statements.append(f"INSERT INTO {table} SELECT * FROM {table}")
            for statement in statements:
                tried += 1
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement)
        assert tried == 3 + 6 + 12 + 8 + 2 + 15 + 2
        before = ledger.journal.head
        for allowed in ALLOWED:  # the same statements, of kinds that a spender may write
            with connection.transaction(force_rollback=True):
                assert connection.execute(allowed).rowcount == 1
        for forged in FORGED:
            with (
                connection.transaction(force_rollback=True),
                pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"),
            ):
                connection.execute(forged)
        assert ledger.journal.head == before and ledger.journal.verify(before).ok
        # What is left to a spender is found.
        connection.execute(
            "UPDATE sfumato_accounts SET totals = lifetime, since = '2099' WHERE dataset = 'shop'"
        )
    assert not ledger.journal.verify().ok
    # Policies do not bind the owner.
    ledger.create("shop", 9, delta="1e-6", replace=True)
    ledger.grant("shop", "ann", 6)
    ledger.create("other", 9)
    ledger.journal.declare("shop", "2")
    assert budget.spend("1/8").number == ledger.history()[-1].number
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(f"DROP OWNED BY {role}")
        owner.execute(f"DROP ROLE {role}")


# Bits.

ASKS: dict[str, Any] = {
    "verify": lambda ledger: ledger.journal.verify(),
    "check": lambda ledger: ledger.check(),
    "accounts": lambda ledger: repr(ledger.accounts()),
    "history": lambda ledger: [entry.row() for entry in ledger.history()],
    "lines": lambda ledger: [line.row() for line in ledger.journal.lines()],
    "audit": lambda ledger: str(ledger.journal.audit()),
    "budget": lambda ledger: repr(ledger.budget("shop", "ann")),
    "spend": lambda ledger: ledger.budget("shop", "ann").spend("1/100"),
    "again": lambda ledger: ledger.budget("shop", "ann")._repeat_answer({"asks": "statistics"}),
    "grant": lambda ledger: ledger.grant("shop", "ann", 6),
    "declare": lambda ledger: ledger.journal.declare("shop", "2"),
}


def contents(place: Path) -> list[Any] | None:
    """Return all rows of a ledger, or None where SQLite does not read them."""
    try:
        with closing(sqlite3.connect(place)) as connection:
            connection.text_factory = bytes
            return [connection.execute(f"SELECT * FROM {table} NOT INDEXED").fetchall() for table in TABLES]
    except sqlite3.Error:
        return None


def damaged(whole: bytes, rng: random.Random) -> bytes:
    """Return a file with some bits that flipped, a page of other bytes, or without its end."""
    at = rng.randrange(1, len(whole))
    match rng.randrange(5):
        case 0:
            return whole[:at]
        case 1:
            return whole[:at] + b"\x55" * 4096 + whole[at + 4096 :]
    flipped = bytearray(whole)
    for _ in range(rng.choice((1, 1, 2, 8))):
        bit = rng.randrange(8 * len(whole))
        flipped[bit // 8] ^= 1 << bit % 8
    return bytes(flipped)


def asked_of(place: Path, head: str, content: bytes, whole: list[Any] | None) -> int:
    """Ask a damaged ledger; return how many refused. What changed the rows may not be verified."""
    refused = 0
    for name, ask in ASKS.items():
        place.write_bytes(content)
        try:
            ask(sf.Ledger(place))
        except EngineError as error:
            refused += 1
            assert name == "again" or "estore the last good" in str(error), error
    place.write_bytes(content)
    assert contents(place) == whole or found_in(place, head)
    return refused


@pytest.mark.parametrize(
    "seeds", [range(1), pytest.param(range(1, 30), marks=pytest.mark.long)], ids=["few", "many"]
)
def test_a_file_that_is_damaged_is_told_in_words(tmp_path, seeds):
    place = tmp_path / "budget.db"
    _, head = filled(str(place))
    whole, rows_then = place.read_bytes(), contents(place)
    refused = sum(asked_of(place, head, damaged(whole, random.Random(seed)), rows_then) for seed in seeds)
    assert refused or len(seeds) < 20
