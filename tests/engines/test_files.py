"""Files: what is written replaces no source and follows no link; what is spilled is seen by nobody else."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.audit import Report
from sfumato.engines.duckdb import resources
from sfumato.engines.duckdb.connection import connect
from sfumato.errors import EngineError, ParameterError, RefusalError
from sfumato.release.chart import bar_chart
from sfumato.release.release import Release

pytestmark = pytest.mark.noise_cannot_matter("files are compared with what was drawn, whatever it is")

ROWS = pa.table({"id": range(1000), "k": [i % 7 for i in range(1000)]})


def release_of(source):
    table = sf.scan(source, privacy_unit="id").group_by("k", keys=list(range(7))).bound(groups=1, rows=1)
    return table.agg(n=sf.count()).release(epsilon=1)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(ROWS, "rows.parquet")
    pa.csv.write_csv(ROWS, "rows.csv")
    with duckdb.connect("rows.db") as connection:
        connection.execute("CREATE TABLE rows AS FROM 'rows.parquet'")
    Path("more").mkdir()
    pq.write_table(ROWS, "more/a.parquet")
    pq.write_table(ROWS, "more/b.parquet")
    return tmp_path


def held(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# The source, what lies there beforehand, and the path that is asked for.
SOURCES = {
    "itself": ("rows.parquet", None, "rows.parquet"),
    "whole path": ("rows.csv", None, "{here}/rows.csv"),
    "dots": ("rows.csv", None, "more/../rows.csv"),
    "a link to it": ("rows.parquet", ("symlink", "rows.parquet", "out.parquet"), "out.parquet"),
    "a hard link": ("rows.parquet", ("link", "rows.parquet", "out.parquet"), "out.parquet"),
    "the link that is read": ("in.parquet", ("symlink", "rows.parquet", "in.parquet"), "in.parquet"),
    "behind the link that is read": ("in.parquet", ("symlink", "rows.parquet", "in.parquet"), "rows.parquet"),
    "through a linked folder": ("more/a.parquet", ("symlink", "more", "other"), "other/a.parquet"),
    "one of many": ("more/*.parquet", None, "more/b.parquet"),
    "one more of many": ("more/*.parquet", None, "more/c.parquet"),
    "one more, deeper": ("more/**/*.parquet", None, "more/c.parquet"),
    "one more, through a linked folder": ("more/*.parquet", ("symlink", "more", "other"), "other/c.parquet"),
    "one more behind a linked folder": ("*/*.parquet", ("symlink", "/outside", "other"), "/outside/c.parquet"),
    "one more in a hidden folder": ("**/*.parquet", None, ".hidden/c.parquet"),
    "a link to one of many": ("more/*.parquet", ("symlink", "more/a.parquet", "out.parquet"), "out.parquet"),
    "a link to a database": ("rows.db/rows", ("symlink", "rows.db", "out.csv"), "out.csv"),
    "a link to its journal": ("rows.db/rows", ("journal", "rows.db.wal", "out.csv"), "out.csv"),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("case", SOURCES)
def test_a_source_is_not_written_over(case, here, tmp_path_factory):
    source, made, asked = SOURCES[case]
    outside = tmp_path_factory.mktemp("outside")
    Path(".hidden").mkdir()
    match made:
        case ("symlink", old, new):
            Path(new).symlink_to(outside if old == "/outside" else old)
        case ("link", old, new):
            os.link(old, new)
        case ("journal", old, new):
            Path(new).symlink_to(old)
    release = release_of(source)
    if made is not None and made[0] == "journal":
        Path(made[1]).write_bytes(b"")
    before = held(here)
    path = asked.format(here=here).replace("/outside", str(outside))
    with pytest.raises(ParameterError, match="another file than those that the rows come from"):
        release.write(path)
    assert not release._started
    release.to_arrow()
    with pytest.raises(ParameterError, match="another file than those that the rows come from"):
        release.write(path)
    assert held(here) == before


def test_other_files_are_written(here):
    for source, path in (
        ("rows.parquet", "rows.csv"),
        ("more/*.parquet", "more/c.csv"),
        ("more/*.parquet", "c.parquet"),
        ("rows.db/rows", "rows.parquet"),
        (ROWS, "rows.csv"),
    ):
        release_of(source).write(path)
        assert Path(path).stat().st_size


def test_a_folder_is_no_file(here):
    Path("out.csv").mkdir()
    release = release_of(ROWS)
    with pytest.raises(ParameterError, match="not of a folder"):
        release.write("out.csv")
    assert not release._started


@pytest.mark.long
@pytest.mark.parametrize("folder", ["plain", "data[1]"])
@pytest.mark.parametrize("source", ["rows.csv", "rows.parquet", "*.csv", "rows.db/rows"])
def test_a_source_is_known_from_another_folder(source, folder, here, monkeypatch):
    """A relative path, also from a folder whose name reads as a pattern."""
    place = here / folder
    place.mkdir()
    for name in ("rows.csv", "rows.parquet", "rows.db"):
        Path(name).rename(place / name)
    monkeypatch.chdir(place)
    release = release_of(source)
    release.to_arrow()
    before = held(place)
    monkeypatch.chdir(here)
    (here / "link.csv").symlink_to(place / source.replace("*", "rows").removesuffix("/rows"))
    with pytest.raises(ParameterError, match="another file than those that the rows come from"):
        release.write("link.csv")
    if source.endswith("csv"):
        with pytest.raises(ParameterError, match="another file than those that the rows come from"):
            release.write(place / "rows.csv")
    assert held(place) == before


def polars_of(read):
    import polars

    return read(polars)


UPSTREAM = {
    "relation": lambda: duckdb.sql("FROM 'rows.csv' WHERE k < 9"),
    "relation by name": lambda: duckdb.sql('FROM "rows.csv"'),
    "relation of a pattern": lambda: duckdb.sql("FROM 'rows*.csv'"),
    "reader": lambda: duckdb.read_csv("rows.csv").filter("k < 9"),
    "readers": lambda: duckdb.read_csv(["rows.csv"]),
    "view of a connection": lambda: view().sql("FROM seen"),
    "view of a database": lambda: "views.db/seen",
    "lazy": lambda: polars_of(lambda polars: polars.scan_csv("rows.csv").filter(polars.col("k") < 9)),
    "lazy pattern": lambda: polars_of(lambda polars: polars.scan_csv("rows*.csv")),
}


def view():
    connection = duckdb.connect()
    connection.execute("CREATE VIEW seen AS FROM 'rows.csv'")
    return connection


@pytest.mark.long
@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize("case", UPSTREAM)
def test_files_behind_what_is_computed_upstream_are_not_written_over(case, link, here):
    with duckdb.connect("views.db") as database:
        database.execute("CREATE VIEW seen AS FROM 'rows.csv'")
    release = release_of(UPSTREAM[case]())
    if link:
        os.link("rows.csv", "out.csv")
    before = held(here)
    with pytest.raises(ParameterError, match="another file than those that the rows come from"):
        release.write("out.csv" if link else "rows.csv")
    assert not release._started
    assert held(here) == before
    release.write("other.csv")


def test_nothing_is_left_on_the_connection_of_a_relation(here):
    connection = view()
    before = connection.sql("SELECT view_name, sql FROM duckdb_views()").fetchall()
    release_of(connection.sql("FROM seen")).to_arrow()
    assert connection.sql("SELECT view_name, sql FROM duckdb_views()").fetchall() == before


def test_a_text_that_is_compared_with_is_no_file(here):
    release = release_of(
        duckdb.sql("FROM 'rows.parquet' WHERE k::VARCHAR NOT IN ('*', '.*', 'rows', 'out.csv')")
    )
    release.write("out.csv")
    release.write("more.csv")


def test_what_was_written_is_found_from_another_folder(here, monkeypatch):
    release = release_of(ROWS)
    release.write("out.csv")
    monkeypatch.chdir(here / "more")
    assert release.to_arrow().equals(pa.csv.read_csv(here / "out.csv"))


@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "out.json"])
def test_a_file_may_be_written_again(name, here):
    release = release_of(ROWS)
    release.write(name)
    first = Path(name).read_bytes()
    release.write(name)
    release.write(name)
    assert Path(name).read_bytes() == first
    assert release.to_arrow().num_rows == 7


REPORT = Report("name", "claim", False, 0.0, 0.0, 0.95, 1e-6, None, 1, 0.0, ())
WRITERS = {
    ".csv": lambda release, path: release.write(path),
    ".png": bar_chart,
    ".html": lambda _, path: REPORT.write(path),
}


def made_pipe(name):
    os.mkfifo(name)


def made_socket(name):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(name)


@pytest.mark.parametrize("make", [made_pipe, made_socket])
@pytest.mark.parametrize("ending", WRITERS)
def test_a_pipe_is_not_replaced(ending, make, here):
    make(f"out{ending}")
    release, before = release_of(ROWS), os.lstat(f"out{ending}")
    with pytest.raises(ParameterError, match="plain file"):
        WRITERS[ending](release, f"out{ending}")
    assert not release._started
    assert os.path.samestat(os.lstat(f"out{ending}"), before)


NO_PLACES = {
    "no path": (lambda _: 3, "must be a path"),
    "rows": (lambda _: ROWS, "is a Table, but must be a path"),
    "nul": (lambda ending: f"a\0b{ending}", "name that a file can have"),
    "half a pair": (lambda ending: f"\ud800{ending}", "name that a file can have"),
    "nul in a folder": (lambda ending: f"a\0/b{ending}", "folder that exists"),
    "no folder": (lambda ending: f"gone/b{ending}", "folder that exists"),
    "folder": (lambda _: "more", "a name that ends in"),
    "folder of an ending": (lambda ending: f"folder{ending}", "not of a folder"),
    "other ending": (lambda _: "out.txet", "a name that ends in"),
}


@pytest.mark.long
@pytest.mark.parametrize("case", NO_PLACES)
@pytest.mark.parametrize("ending", WRITERS)
def test_what_is_no_place_for_a_file_costs_nothing(ending, case, here):
    path, told = NO_PLACES[case]
    Path(f"folder{ending}").mkdir()
    release = release_of(ROWS)
    with pytest.raises(ParameterError, match=told):
        WRITERS[ending](release, path(ending))
    assert not release._started


def test_a_name_that_is_too_long_costs_nothing(here):
    release = release_of(ROWS)
    with pytest.raises(OSError, match="too long"):
        release.write("x" * 252 + ".csv")
    assert not release._started


@pytest.mark.parametrize("at", [1, 2])
def test_a_child_forked_while_a_file_is_made_writes_nothing(at, here, fork, monkeypatch):
    """The table is the first file, and its metadata the second."""
    release, made, parts = release_of(ROWS), os.open, []

    def forks(*arguments, **options):
        opened = made(*arguments, **options)
        if str(arguments[0]).endswith(".part"):
            parts.append(arguments[0])
            if len(parts) == at:
                fork.here()
        return opened

    monkeypatch.setattr(os, "open", forks)
    assert fork.told(lambda: release.write("out.csv"), RefusalError) == ("refused", "went on")
    assert release.to_arrow().equals(pa.csv.read_csv("out.csv"))
    assert Path("out.csv-metadata.json").exists() and not list(here.glob("*.part"))


MOVED = {
    "folder": lambda: (os.rename("out", "old"), os.symlink("more", "out")),
    "source": lambda: (os.rename("more/a.parquet", "out/a.parquet"), os.symlink("../out/a.parquet", "more/a.parquet")),
}  # fmt: skip


@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("moved", MOVED)
def test_what_becomes_a_source_after_the_first_look_is_not_written_over(moved, drawn, here, monkeypatch):
    """By whoever may write to the folder, while the noise is drawn."""
    Path("out").mkdir()
    release, before = release_of("more/a.parquet"), Path("more/a.parquet").read_bytes()
    if drawn:
        release.to_arrow()
    looked = Release._check_no_source

    def look(*arguments):
        looked(*arguments)
        monkeypatch.setattr(Release, "_check_no_source", looked)
        MOVED[moved]()

    monkeypatch.setattr(Release, "_check_no_source", look)
    with pytest.raises(ParameterError, match="another file than those that the rows come from"):
        release.write("out/a.parquet")
    assert Path("more/a.parquet").read_bytes() == before
    assert not list(here.rglob("*.part"))


def test_a_picture_replaces_no_source(here):
    Path("out.png").symlink_to("rows.parquet")
    release, before = release_of("rows.parquet"), held(here)
    with pytest.raises(ParameterError, match="plot path.*another file than those"):
        bar_chart(release, "out.png")
    assert not release._started
    assert held(here) == before


@pytest.mark.long
@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "out.json", "out.png", "out.svg"])
def test_no_link_is_followed(name, here):
    """Neither one of the old name of unfinished files nor one of the file's own name."""
    Path("kept").write_text("kept")
    Path(name).symlink_to("kept")
    Path(f"{name}.part").symlink_to("kept")
    release = release_of(ROWS)
    if name.endswith(("png", "svg")):
        bar_chart(release, name)
    else:
        release.write(name)
    assert Path("kept").read_text() == "kept"
    assert not Path(name).is_symlink()
    assert Path(f"{name}.part").is_symlink()
    assert len([p for p in here.iterdir() if p.suffix == ".part"]) == 1


def test_a_file_that_cannot_be_made_costs_nothing(here, monkeypatch):
    release = release_of(ROWS)
    monkeypatch.setattr(
        os, "open", lambda *_: (_ for _ in ()).throw(PermissionError(13, "Permission denied"))
    )
    with pytest.raises(PermissionError):
        release.write("out.csv")
    monkeypatch.undo()
    assert not release._started


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_the_mode_is_what_new_files_have(mask, here):
    before = os.umask(mask)
    try:
        release_of(ROWS).write("out.csv")
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat("out.csv").st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "out.json"])
def test_what_is_read_back_is_what_was_written(name, here):
    release = release_of(ROWS)
    release.write(name)
    Path("other.csv").write_bytes(Path(name).read_bytes())
    Path("other.csv").replace(name)
    for look in (release.to_arrow, lambda: release.write("again.csv")):
        with pytest.raises(RefusalError, match="no longer the file"):
            look()
    Path(name).unlink()
    with pytest.raises(RefusalError, match="no longer the file"):
        release.to_arrow()


# What is spilled.

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
def test_a_child_that_ends_leaves_its_parents_rows_alone(tmp_path):
    """Through every clean-up of Python and of DuckDB, and beside it one that ends at once."""
    code = """
def walked():
    return sorted((path, os.stat(path).st_mode, tuple(sorted(files))) for path, _, files in os.walk(os.environ["TMPDIR"]))
before = walked()
for end in (sys.exit, os._exit, sys.exit):
    child = os.fork()
    if child == 0:
        end(0)
    print(os.waitpid(child, 0)[1], walked() == before)
print(seen() == expected)
"""
    done = spilled(code, tmp_path)
    assert done.stdout.splitlines() == ["0 True"] * 3 + ["True"], done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_child_has_a_folder_of_its_own(tmp_path):
    code = """
from sfumato.engines.duckdb.resources import spill_folder
mine = spill_folder()
child = os.fork()
if child == 0:
    assert spill_folder() != mine and len(os.listdir(os.environ["TMPDIR"])) == 2
    sys.exit(0)
print(os.waitpid(child, 0)[1], os.listdir(os.environ["TMPDIR"]) == [os.path.basename(mine)], seen() == expected)
"""
    done = spilled(code, tmp_path)
    assert done.stdout == "0 True True\n", done.stderr


@pytest.mark.long
def test_a_worker_of_multiprocessing_takes_its_folder_along(tmp_path):
    code = """
import multiprocessing
from sfumato.engines.duckdb.resources import spill_folder
process = multiprocessing.get_context("fork").Process(target=spill_folder)
process.start()
process.join()
print(process.exitcode, len(os.listdir(os.environ["TMPDIR"])))
"""
    done = spilled(code, tmp_path)
    assert done.stdout == "0 1\n", done.stderr


@pytest.mark.long
def test_what_a_killed_process_left_is_swept_by_the_next(tmp_path):
    done = spilled("os.kill(os.getpid(), 9)", tmp_path)
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert any(p.is_file() for p in left.rglob("*"))
    done = spilled("print(len(os.listdir(os.environ['TMPDIR'])))", tmp_path)
    assert done.stdout == "1\n", done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_what_a_killed_process_left_is_swept_while_its_child_lives(tmp_path):
    """A lock that a child inherits would keep the folder as long as the child lives."""
    code = """
if os.fork() == 0:
    os.close(1), os.close(2)
    sys.stdin.read()
    os._exit(0)
os.kill(os.getpid(), 9)
"""
    reader, writer = os.pipe()
    try:
        assert spilled(code, tmp_path, stdin=reader).returncode == -signal.SIGKILL
        assert len(list(tmp_path.iterdir())) == 1
        spilled("", tmp_path)
        assert list(tmp_path.iterdir()) == []
    finally:
        os.close(writer)
        os.close(reader)


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


def test_nothing_else_is_swept(folder):
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


def test_a_folder_of_temporary_files_that_is_gone_is_no_error_at_the_end(folder):
    resources.spill_folder()
    shutil.rmtree(folder)
    resources._remove()
    folder.mkdir()


def test_a_folder_of_temporary_files_that_shows_nothing_is_not_swept(folder, monkeypatch):
    def closed(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", closed)
    assert Path(resources.spill_folder()).is_dir()


@pytest.mark.parametrize("mask", [0o000, 0o777])
def test_the_folder_is_its_owners_whatever_new_files_are(mask, folder, monkeypatch):
    made = tempfile.mkdtemp
    seen = []

    def look(*arguments, **options):
        path = made(*arguments, **options)
        seen.append(path)
        return path

    monkeypatch.setattr(tempfile, "mkdtemp", look)
    opened = os.open

    def check(path, *rest, **options):
        if str(path) in seen:  # which root could open anyway
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
        return opened(path, *rest, **options)

    monkeypatch.setattr(os, "open", check)
    before = os.umask(mask)
    try:
        mine = resources.spill_folder()
    finally:
        os.umask(before)
    assert seen and stat.S_IMODE(os.stat(mine).st_mode) == 0o700


def test_a_handler_of_a_signal_may_need_the_folder_while_it_is_made(folder, monkeypatch):
    made, told = resources._made, []

    def interrupted(*arguments):
        monkeypatch.setattr(resources, "_made", made)
        told.append(resources.spill_folder())
        return made(*arguments)

    monkeypatch.setattr(resources, "_made", interrupted)
    thread = threading.Thread(target=lambda: told.append(resources.spill_folder()), daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert all(map(os.path.isdir, told))


def test_folders_of_others_are_not_swept(folder, monkeypatch):
    dead = folder / f"{resources.LOCKED}dead"
    dead.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: dead.stat().st_uid + 1)
    resources.sweep_spill_folders()
    assert dead.exists()


def test_a_folder_that_was_opened_to_others_is_closed_again(folder):
    mine = Path(resources.spill_folder())
    mine.chmod(0o755)
    assert resources.spill_folder() == str(mine)
    assert stat.S_IMODE(mine.stat().st_mode) == 0o700


def test_a_folder_that_was_cleared_away_is_made_again(folder, in_child):
    mine = Path(resources.spill_folder())
    mine.rmdir()
    assert resources.spill_folder() == str(mine)
    assert stat.S_IMODE(mine.stat().st_mode) == 0o700
    in_child(resources.sweep_spill_folders)
    assert mine.exists()


def test_a_folder_that_cannot_be_made_again_closes_no_other_file(folder):
    resources.spill_folder()
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir()
    folder.rmdir()
    with pytest.raises(EngineError, match="no folder for rows that do not fit in memory can be made"):
        resources.spill_folder()
    with (
        open(os.devnull) as other,
        pytest.raises(EngineError, match="no folder for rows"),
    ):  # which may have the lock's number
        resources.spill_folder()
    assert other.closed
    folder.mkdir()
    assert os.path.isdir(resources.spill_folder())


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
    with pytest.raises(EngineError, match="set TMPDIR"):
        connect()
    mine.unlink()
    mine.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: mine.stat().st_uid + 1)
    with pytest.raises(EngineError, match="set TMPDIR"):
        connect()


def test_duckdb_has_no_keys_fit_for_what_it_spills(tmp_path):
    """Rows are spilled in clear for this reason; where it no longer holds, `temp_file_encryption` is to be set."""
    settings = {
        "memory_limit": "60MB",
        "threads": 1,
        "temp_directory": str(tmp_path / "spill"),
        "temp_file_encryption": "true",
        "extension_directory": str(tmp_path),
        "autoinstall_known_extensions": False,
    }
    with duckdb.connect(config=settings) as database, pytest.raises(duckdb.Error, match="httpfs"):
        database.execute(
            "CREATE TEMP TABLE t AS SELECT 'row ' || i AS k, hash(i) AS v FROM range(6_000_000) t(i)"
        )
