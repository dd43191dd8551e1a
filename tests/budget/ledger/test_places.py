"""Where a ledger is: what is wrong there is said in words, nothing is lost, and what is old is read for ever."""

import os
import resource
import shutil
import signal
import sqlite3
from contextlib import closing
from fractions import Fraction as F
from pathlib import Path

import pytest
import sqlalchemy

import sfumato as sf
from sfumato.budget import Loss
from sfumato.budget.ledger import Ledger, ledger_databases, ledger_tables
from sfumato.errors import EngineError, ParameterError, SfumatoError

VERSIONS = Path(__file__).parent / "versions"
HEAD_OF_VERSION_2 = "11:75595efc64431ce2a2a4404a61d20cb0f1c676df331affdbdba0c967f87fdab4"


def made(place: str) -> Ledger:
    ledger = sf.Ledger(place)
    ledger.create("hospital", epsilon=3, delta="1e-6")
    ledger.grant("hospital", "ann", epsilon=2)
    ledger.budget("hospital", "ann").spend(1)
    return ledger


def changed(path: str, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_a_ledger_that_is_not_there_is_not_made_by_asking(tmp_path):
    path = tmp_path / "budget.db"
    ledger = sf.Ledger(path)
    for ask in (
        lambda: ledger.budget("hospital"),
        ledger.accounts,
        ledger.history,
        ledger.check,
        lambda: ledger.grant("hospital", "ann", 1),
    ):
        with pytest.raises(EngineError, match="there is no ledger .*budget.db' yet"):
            ask()
    assert not path.exists()
    made(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert ledger.budget("hospital").spent[0] == 1  # it is looked for again


@pytest.mark.parametrize(
    ("place", "error", "says"),
    [
        ("none/budget.db", EngineError, "the ledger 'none/budget.db': there is no folder"),
        ("", ParameterError, "the path of a file on disk"),
        (":memory:", ParameterError, "the path of a file on disk"),
        ("mysql://ann:hunter2@h/d", ParameterError, "the path of a file on disk"),
        (None, ParameterError, "the path of a file"),
        ("postgresql://ann:hunter2@h", EngineError, "names no database"),
        ("postgresql://ann:hunter2@127.0.0.1:1/d", EngineError, "postgresql://127.0.0.1/d: no server answers there"),
        ("postgresql://ann:hunter2@nowhere.invalid/d", EngineError, "there is no such host"),
        ("postgresql://ann:hunter2@127.0.0.1:1/d?hunter2=3", EngineError, "its address|psql|no server"),
    ],
)  # fmt: skip
def test_a_place_that_is_none_is_refused(tmp_path, monkeypatch, place, error, says):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=says) as refused:
        sf.Ledger(place)
    assert "hunter2" not in str(refused.value) + repr(refused.value.__dict__)
    assert refused.value.__context__ is None and refused.value.__cause__ is None


BY_HAND = [
    "UPDATE sfumato_accounts SET epsilon = 'much'",
    "UPDATE sfumato_accounts SET totals = '{}'",
    "UPDATE sfumato_accounts SET totals = replace(totals, '\"1\"', '\"-1\"')",
    "UPDATE sfumato_accounts SET period = 'day'",
    'UPDATE sfumato_accounts SET lifetime = \'{"epsilon": ["1/0", "0"]}\'',
    "UPDATE sfumato_accounts SET totals = x'ff'",
    "UPDATE sfumato_ledger SET day = 'x'",
    "DROP TABLE sfumato_entries",
    "UPDATE sfumato_ledger SET version = 99",
]


def test_what_was_changed_by_hand_is_told(file):
    made(file)
    whole = Path(file).read_bytes()
    for statement in BY_HAND:
        Path(file).write_bytes(whole)
        changed(file, statement)
        assert Path(file).read_bytes() != whole
        with pytest.raises(EngineError):
            sf.Ledger(file).budget("hospital", "ann").spend("0.1")


@pytest.mark.parametrize("older", [True, False], ids=["older copy", "another ledger"])
def test_what_takes_the_place_of_a_ledger_is_not_spent_from(file, older):
    """Where a backup is put back, or the file is made anew, what was spent since would be forgotten."""
    ledger = sf.Ledger(file)
    ledger.create("hospital", epsilon=3)
    budget = ledger.budget("hospital")
    other = f"{file}.other"
    if older:
        shutil.copy(file, other)
    else:
        sf.Ledger(other).create("hospital", epsilon=3)
        for _ in range(3):
            sf.Ledger(other).budget("hospital").spend("1e-9")
    budget.spend(2)
    os.replace(other, file)
    for ask in (
        lambda: budget.spend(1),
        lambda: budget.remaining,
        lambda: ledger.grant("hospital", "ann", 1),
    ):
        with pytest.raises(EngineError, match=r"Enter what was spent since, and"):
            ask()
    sf.Ledger(file).budget("hospital").spend(2, what="what was spent since")  # its owner knows
    os.remove(file)
    with pytest.raises(EngineError, match="cannot be opened"):
        budget.spend(1)


def test_a_file_with_two_names_is_refused(tmp_path):
    ledger = made(tmp_path / "budget.db")
    os.link(tmp_path / "budget.db", tmp_path / "other.db")
    for ask in (lambda: ledger.budget("hospital").spend(1), lambda: sf.Ledger(tmp_path / "other.db")):
        with pytest.raises(EngineError, match="the file has a second name, a hard link"):
            ask()
    os.unlink(tmp_path / "other.db")
    os.symlink(tmp_path / "budget.db", tmp_path / "other.db")
    sf.Ledger(tmp_path / "other.db").budget("hospital").spend(1)
    assert ledger.budget("hospital").spent[0] == 2


def as_nobody(function: object) -> object:
    """Run it as somebody who is not root, to whom modes of files matter."""
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    return function()


def refusal(function: object) -> tuple[str, str]:
    try:
        function()
    except SfumatoError as error:
        return type(error).__name__, str(error)
    return "", "went on"


def test_a_file_that_may_not_be_written_is_read_and_not_spent_from(in_child):
    # Of a folder that others may enter, whatever pytest's own is.
    folder = Path(os.path.realpath("/tmp")) / f"sfumato-ledger-{os.getpid()}"
    folder.mkdir(mode=0o755)
    path = str(folder / "budget.db")

    def spend():
        return refusal(lambda: sf.Ledger(path).budget("hospital").spend(1))

    try:
        made(path)
        for of_file, of_folder, says in (
            (0o444, 0o555, "cannot be written; nothing was entered"),
            (0o666, 0o555, "nothing was entered"),  # as SQLite needs the folder, too
            (0o000, 0o555, "cannot be opened"),
        ):
            os.chmod(path, of_file)
            os.chmod(folder, of_folder)
            kind, text = in_child(lambda: as_nobody(spend))
            assert kind == "EngineError" and says in text
        kind, text = in_child(lambda: as_nobody(lambda: refusal(lambda: made(f"{folder}/new.db"))))
        assert kind == "EngineError" and "cannot be made: Permission denied" in text
        os.chmod(path, 0o600)
        assert sf.Ledger(path).budget("hospital").spent[0] == 1
    finally:
        shutil.rmtree(folder)


@pytest.mark.long
def test_a_full_disk_enters_nothing_and_loses_nothing(file, in_child):
    ledger = made(file)
    for _ in range(5):
        ledger.budget("hospital", "ann").spend("0.001", what="x" * 2000)
    before, told = len(ledger.history()), []
    for size in (0, 100, 512, 1024, 4096, os.path.getsize(file) - 4096, os.path.getsize(file)):

        def ask(size=size):
            opened = sf.Ledger(file).budget("hospital", "ann")
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            return refusal(lambda: opened.spend("0.001", what="y" * 2000))

        told.append(in_child(ask))
        again = sf.Ledger(file)
        again.check()
        now = len(again.history())
        assert now == before if told[-1][0] else now == before + 1
        before = now
    assert told[0][0] == told[3][0] == "EngineError"
    assert {text.partition(": ")[2] for kind, text in told if kind} == {
        "the disk is full, or cannot be read or written; nothing was entered"
    }


@pytest.mark.long
def test_one_who_keeps_the_file_is_waited_for_and_then_told(file, monkeypatch):
    ledger = made(file)
    monkeypatch.setattr(ledger_databases, "WAIT", 0.2)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(EngineError, match="another process held the file for .*; nothing was entered"):
            ledger.budget("hospital", "ann").spend("0.1")
        assert ledger.budget("hospital", "ann").spent[0] == 1  # who reads does not wait
        other.execute("ROLLBACK")
    ledger.budget("hospital", "ann").spend("0.1")


def test_every_setting_that_makes_a_spend_durable_is_on(file, monkeypatch):
    ledger, seen = made(file), []
    begin = ledger_databases.SqliteStore.begin_change

    def looking(self, connection):
        begin(self, connection)
        names = ("synchronous", "journal_mode")
        seen.append([connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in names])

    monkeypatch.setattr(ledger_databases.SqliteStore, "begin_change", looking)
    ledger.budget("hospital").spend(1)
    assert seen == [[3, "delete"]]  # EXTRA


# Versions.


def test_a_file_of_version_2_opens_for_ever(tmp_path):
    """Whatever else changes, this file, and what it says, does not."""
    path = tmp_path / "budget.db"
    shutil.copy(VERSIONS / "version_2.db", path)
    os.chmod(path, 0o600)
    ledger = sf.Ledger(path)
    ledger.check()
    assert ledger.journal.verify(HEAD_OF_VERSION_2).ok
    entries, lines = ledger.history(), ledger.journal.lines()
    kinds = "create create grant grant spend spend spend spend"
    assert [entry.kind for entry in entries] == kinds.split()
    kinds = "cap cap cap cap asked asked asked data asked answered published"
    assert [line.kind for line in lines] == kinds.split()
    assert (entries[6].dataset, entries[6].analyst, entries[5].what) == ("school", "Zoë", "patients by year")
    assert [entry.epsilon for entry in entries[4:7]] == [F(1, 3), F(1, 10), F(0.1)]
    assert entries[4].loss == Loss(gaussian=F(1, 7), additive_delta=F("1e-9"))
    assert entries[5].loss == Loss(laplace=((F(1, 20), 2),), pure=F(1, 15))
    hospital, ann, school, zoe = ledger.accounts()
    assert hospital.lifetime.totals[0] == (F(13, 30) + F(1, 8), F("1e-8"))
    assert hospital.lifetime.totals[1] == (F(1, 14) + F(1, 450) + F(1, 128), F("1e-9"))
    assert (ann.period, school.period, zoe.period, hospital.period) == ("year", "month", None, None)
    assert hospital.account.cap.epsilon == F(7, 3) and zoe.lifetime.spent[0] == pytest.approx(0.1)
    assert lines[8].detail["plan"]["where"] == ["(id = 3)"] and lines[8].detail["data"] == "2026-11"
    assert ledger.journal._repeat_answer("hospital", None, {"asks": 1}).body == b"an answer"
    ledger.budget("hospital").spend("0.1")
    assert len(ledger.history()) == 9 and ledger.journal.verify(HEAD_OF_VERSION_2).ok


def test_a_ledger_of_another_version_is_refused(file, monkeypatch):
    made(file)
    before = Path(file).read_bytes()
    for step in (-1, 1):
        monkeypatch.setattr(ledger_tables, "VERSION", ledger_tables.VERSION + step)
        with pytest.raises(EngineError, match="Use the version of sfumato that wrote it"):
            sf.Ledger(file).budget("hospital")
        monkeypatch.undo()
    assert Path(file).read_bytes() == before


# PostgreSQL.


def psql(database: str, *statements: str) -> None:
    import psycopg

    with psycopg.connect(database, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.long
def test_a_server_that_refuses_is_told_without_the_password(database, monkeypatch):
    made(database)
    name = database.partition("/ledger")[2].partition("?")[0]
    psql(database, f"DROP ROLE IF EXISTS reader{name}", f"CREATE ROLE reader{name} LOGIN")
    reader = database.replace("ann:hunter2%25", f"reader{name}")
    for place, says in {
        database.replace("/ledger", "/nosuch"): "no such database",
        database.replace("ann:", "nobody:"): "no such database or user",
        reader: "may not do that there",
    }.items():
        with pytest.raises(EngineError, match=says) as refused:
            sf.Ledger(place).budget("hospital")
        assert "hunter2" not in str(refused.value) and refused.value.__context__ is None
    psql(
        database,
        f"GRANT SELECT ON sfumato_ledger, sfumato_accounts, sfumato_entries, sfumato_journal TO reader{name}",
    )
    budget = sf.Ledger(reader).budget("hospital")
    assert budget.spent[0] == 1
    with pytest.raises(EngineError, match="may not do that there.*nothing was entered"):
        budget.spend(1)
    psql(database, f"DROP OWNED BY reader{name}", f"DROP ROLE reader{name}")


@pytest.mark.long
def test_a_server_whose_settings_are_careless(database):
    """A ledger asks for its own: a commit that is on disk, and one snapshot for each reader."""
    import psycopg

    name = database.partition("/ledger")[2].partition("?")[0]
    for setting in (
        "synchronous_commit = off", "default_transaction_isolation = 'serializable'", "default_transaction_read_only = off",
        "standard_conforming_strings = off", "TimeZone = 'Asia/Kathmandu'", "DateStyle = 'German'",
    ):  # fmt: skip
        psql(database, f"ALTER DATABASE ledger{name} SET {setting}")
    ledger = made(database)
    ledger.check()
    seen = []
    begin = ledger._store.begin_change

    def looking(connection):
        begin(connection)
        seen.append(connection.exec_driver_sql("SHOW synchronous_commit").scalar_one())

    ledger._store.begin_change = looking
    ledger.budget("hospital").spend(1)
    assert seen == ["on"]
    psql(database, f"ALTER DATABASE ledger{name} SET default_transaction_read_only = on")
    with pytest.raises(EngineError, match="transactions, are read-only; nothing was entered"):
        ledger.budget("hospital").spend("0.1")
    assert ledger.budget("hospital").spent[0] == 2
    with psycopg.connect(database) as connection:
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("off",)


@pytest.mark.long
@pytest.mark.parametrize(
    ("at", "says"),
    [("begin", "nothing was entered"), ("commit", "may or may not have been entered: see sfumato budget")],
)
def test_a_connection_that_breaks_at_the_end_is_not_known_to_have_ended(database, monkeypatch, at, says):
    ledger = made(database)
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"

    def severed(connection):
        connection.exec_driver_sql("SELECT 1")
        psql(database, others)

    if at == "commit":
        sqlalchemy.event.listen(ledger._store._engine, "commit", severed)
    else:
        begin = ledger._store.begin_change
        monkeypatch.setattr(
            ledger._store, "begin_change", lambda connection: (begin(connection), severed(connection))
        )
    with pytest.raises(EngineError, match=says):
        ledger.budget("hospital").spend(1)
    assert sf.Ledger(database).budget("hospital").spent[0] == 1
