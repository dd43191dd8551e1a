"""Memory, threads and the folder to spill in: what is taken and refused, and that nobody else sees what is spilled."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.duckdb import resources
from sfumato.engines.duckdb.connection import connect
from sfumato.errors import EngineError, ParameterError

ROWS = pa.table({"id": [1, 1, 2], "k": [0, 1, 0]})
SQL = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = id) COUNT(*) AS n FROM t"


def settings(table: sf.Table) -> dict[str, str]:
    names = "memory_limit", "threads", "temp_directory"
    with table._engine._source.session() as session:
        return {n: str(session.execute(f"SELECT current_setting('{n}')").fetchone()[0]) for n in names}


def sources(folder: Path) -> list:
    import duckdb
    import polars

    pq.write_table(ROWS, folder / "rows.parquet")
    (folder / "rows.csv").write_text("id,k\n1,0\n")
    with duckdb.connect(folder / "rows.duckdb") as database:
        database.execute("CREATE TABLE t AS SELECT 1 AS id, 0 AS k")
    paths = [str(folder / name) for name in ("rows.parquet", "rows.csv", "rows.duckdb/t")]
    relation = duckdb.sql("SELECT 1 AS id, 0 AS k")
    return [*paths, relation, ROWS, polars.from_arrow(ROWS).lazy()]


@pytest.mark.long
def test_every_source_takes_them(tmp_path):
    spilled = tmp_path / "spilled"
    spilled.mkdir()
    for source in sources(tmp_path):
        limits = {"memory_limit": "1GiB", "threads": 1, "temp_directory": spilled}
        found = settings(sf.scan(source, privacy_unit="id", **limits))
        assert found["memory_limit"] == "1.0 GiB"
        assert found["threads"] == "1"
        assert Path(found["temp_directory"]).parents[1] == spilled
    source = sf.scan(tmp_path / "rows.parquet", privacy_unit="id", **limits)._engine._source.again(["id"])
    with source.session() as session:  # a second reading of Parquet keeps them
        assert session.execute("SELECT current_setting('memory_limit')").fetchone() == ("1.0 GiB",)
    release = sf.sql(SQL, tables={"t": ROWS}, memory_limit="1GiB", threads=1)
    assert settings(release)["threads"] == "1"


def test_limits_that_are_none(tmp_path, monkeypatch):
    """They are refused before a source is looked at."""
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("closed").mkdir(mode=0o500)
    monkeypatch.setattr(os, "access", lambda path, how: Path(path).stat().st_mode & 0o200)
    amounts = "", "4", "-1GB", "1e9B", "99MB", "101%", "1GB; SET threads = 1", 4_000_000_000, True
    folders = "nowhere", "file", "", "a\0b", b"bytes", 1, "closed"
    for name, values, told in (
        ("memory_limit", amounts, "at least 100MB, such as '4GB'"),
        ("threads", (0, -1, 1.0, "2", True), "a whole number of at least 1"),
        ("temp_directory", folders, "an existing folder that"),
    ):
        for value in values:
            with pytest.raises(ParameterError, match=f"{name} is .* must be {told}"):
                sf.scan("no such file.parquet", privacy_unit="id", **{name: value})


# Folders that nobody else sees, and that end with their process.

SPILLING = """
import os, sys
from sfumato.engines.duckdb.connection import connect
database = connect()
database.execute("SET memory_limit = '60MB'")
database.execute("SET threads = 1")
database.execute("SET enable_progress_bar = false")
database.execute("CREATE TEMP TABLE t AS SELECT 'a private row ' || i AS k, hash(i) AS v FROM range(6_000_000) t(i)")
expected = [(6_000_000, 17_999_997_000_000)]
def seen():
    return database.execute("SELECT count(*), sum(CAST(k[15:] AS BIGINT)) FROM t").fetchall()
"""


def spilled(code: str, folder: Path, **options) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"TMPDIR": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", SPILLING + code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


@pytest.mark.long
def test_only_the_owner_enters_the_folder_of_spilled_rows(tmp_path):
    code = """
for path, folders, files in os.walk(os.environ["TMPDIR"]):
    print(oct(os.stat(path).st_mode & 0o777), len(files))
"""
    done = spilled(code, tmp_path)
    assert done.returncode == 0, done.stderr
    _, outer, inner = (line.split() for line in done.stdout.splitlines())
    assert outer == ["0o700", "0"]
    assert int(inner[1]) > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_what_a_killed_process_left_is_swept_by_the_next(tmp_path):
    done = spilled("os.kill(os.getpid(), 9)", tmp_path)
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert any(p.is_file() for p in left.rglob("*"))
    done = spilled("print(len(os.listdir(os.environ['TMPDIR'])))", tmp_path)
    assert done.stdout == "1\n", done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(resources, "_mine", {})
    yield tmp_path
    resources._remove()


def test_what_lives_is_not_swept(folder, in_child):
    mine = Path(resources.spill_folder())
    for _ in range(3):
        in_child(resources.sweep_spill_folders)
        resources.sweep_spill_folders()
    assert list(folder.iterdir()) == [mine]


def test_nothing_else_is_swept(folder, monkeypatch):
    (folder / f"{resources.NEW}x").mkdir()
    (folder / "sfumato-x").mkdir()
    (folder / "kept").mkdir()
    (folder / "kept" / "file").touch()
    (folder / f"{resources.LOCKED}link").symlink_to(folder / "kept")
    (folder / f"{resources.LOCKED}file").touch()
    dead = folder / f"{resources.LOCKED}dead"
    (dead / "0").mkdir(parents=True)
    (dead / "0" / "link").symlink_to(folder / "kept")
    before = {p.name for p in folder.iterdir()}
    resources.sweep_spill_folders()
    assert before - {p.name for p in folder.iterdir()} == {dead.name}
    assert (folder / "kept" / "file").exists()
    dead.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: dead.stat().st_uid + 1)
    resources.sweep_spill_folders()
    assert dead.exists()  # somebody else's


def test_a_folder_that_was_cleared_away_or_opened_is_made_again(folder, in_child):
    mine = Path(resources.spill_folder())
    mine.chmod(0o755)
    assert resources.spill_folder() == str(mine) and stat.S_IMODE(mine.stat().st_mode) == 0o700
    mine.rmdir()
    assert resources.spill_folder() == str(mine)
    assert stat.S_IMODE(mine.stat().st_mode) == 0o700
    in_child(resources.sweep_spill_folders)
    assert mine.exists()


def test_a_sweep_removes_what_it_has_locked_alone(folder, monkeypatch):
    """And not what was made again under that name since."""
    mine = Path(resources.spill_folder())
    locked = resources.fcntl.flock

    def late(opened, how):
        monkeypatch.setattr(resources.fcntl, "flock", locked)
        mine.rmdir()
        (Path(resources.spill_folder()) / "rows").touch()
        locked(opened, how)

    monkeypatch.setattr(resources.fcntl, "flock", late)
    resources.sweep_spill_folders()
    assert (mine / "rows").exists()


def test_a_folder_that_is_not_ours_is_refused(folder, monkeypatch):
    mine = Path(resources.spill_folder())
    mine.rmdir()
    mine.symlink_to("/")
    with pytest.raises(EngineError, match="Set TMPDIR, or"):
        connect()
    mine.unlink()
    mine.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: mine.stat().st_uid + 1)
    with pytest.raises(EngineError, match="Set TMPDIR, or"):
        connect()


def test_a_worker_of_spark_spills_where_spark_removes_it(folder, monkeypatch):
    pytest.importorskip("pyspark")
    from sfumato.engines.spark import spark_tasks

    blocks = folder / "blocks"
    blocks.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{folder}/gone,{blocks}")
    monkeypatch.setattr(resources, "_inside", None)
    monkeypatch.setattr(spark_tasks, "settle", lambda kind: None)
    (found,) = spark_tasks.make_task(lambda batches: iter([resources.spill_folder()]))(iter(()))
    assert Path(found).parent == blocks and [*folder.iterdir()] == [blocks]
