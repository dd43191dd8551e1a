"""Files that a release writes: they replace no source, follow no link, and are read back as they were."""

import os
import socket
import stat
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.audit import Report
from sfumato.errors import ParameterError, RefusalError
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
    "dots": ("rows.csv", None, "more/../rows.csv"),
    "a link to it": ("rows.parquet", ("symlink", "rows.parquet", "out.parquet"), "out.parquet"),
    "a hard link": ("rows.parquet", ("link", "rows.parquet", "out.parquet"), "out.parquet"),
    "the link that is read": ("in.parquet", ("symlink", "rows.parquet", "in.parquet"), "in.parquet"),
    "through a linked folder": ("more/a.parquet", ("symlink", "more", "other"), "other/a.parquet"),
    "a link to one of many": ("more/*.parquet", ("symlink", "more/a.parquet", "out.parquet"), "out.parquet"),
    "one more of many": ("more/*.parquet", None, "more/c.parquet"),
    "one more, through a linked folder": ("more/*.parquet", ("symlink", "more", "other"), "other/c.parquet"),
    "one more behind a linked folder": ("*/*.parquet", ("symlink", "/outside", "other"), "/outside/c.parquet"),
    "one more in a hidden folder": ("**/*.parquet", None, ".hidden/c.parquet"),
    "a link to a database": ("rows.db/rows", ("symlink", "rows.db", "out.csv"), "out.csv"),
    "a link to its journal": ("rows.db/rows", ("journal", "rows.db.wal", "out.csv"), "out.csv"),
}  # fmt: skip


QUICK = (
    "dots",
    "a link to it",
    "a hard link",
    "a link to one of many",
    "one more of many",
    "a link to a database",
)


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case in QUICK else pytest.mark.long) for case in SOURCES]
)
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
    for drawn in (False, True):
        with pytest.raises(ParameterError, match="a file other than the source of the rows"):
            release.write(path)
        assert release._started is drawn
        release.to_arrow()
    assert held(here) == before
    release.write("other.csv")


def test_nothing_is_written_into_a_folder_or_a_dataset_that_is_read(here):
    (here / "more" / "year=2001").mkdir()
    pq.write_table(ROWS, "more/year=2001/c.parquet")
    datasets = [pyarrow.dataset.dataset(place) for place in ("more", ["more/a.parquet"])]
    for source, refused in (
        ("more", ["d.parquet", "year=2001/d.parquet", "year=2001/c.parquet"]),
        (datasets[0], ["a.parquet", "d.parquet"]),
        (datasets[1], ["a.parquet"]),
    ):
        release = release_of(source)
        for name in refused:
            with pytest.raises(ParameterError, match="a file other than the source of the rows"):
                release.write(here / "more" / name)
        release.write(here / "other.parquet")


def polars_of(read):
    import polars

    return read(polars)


UPSTREAM = {
    "relation": lambda: duckdb.sql("FROM 'rows.csv' WHERE k < 9"),
    "relation of a pattern": lambda: duckdb.sql("FROM 'rows*.csv'"),
    "reader": lambda: duckdb.read_csv("rows.csv").filter("k < 9"),
    "view of a connection": lambda: view().sql("FROM seen"),
    "view of a database": lambda: "views.db/seen",
    "lazy": lambda: polars_of(lambda polars: polars.scan_csv("rows.csv").filter(polars.col("k") < 9)),
}


def view():
    connection = duckdb.connect()
    connection.execute("CREATE VIEW seen AS FROM 'rows.csv'")
    return connection


@pytest.mark.long
@pytest.mark.parametrize("case", UPSTREAM)
def test_files_behind_what_is_computed_upstream_are_not_written_over(case, here):
    with duckdb.connect("views.db") as database:
        database.execute("CREATE VIEW seen AS FROM 'rows.csv'")
    release = release_of(UPSTREAM[case]())
    os.link("rows.csv", "out.csv")
    for path in ("rows.csv", "out.csv"):
        with pytest.raises(ParameterError, match="a file other than the source of the rows"):
            release.write(path)
    assert not release._started
    release.write("other.csv")


@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "out.json"])
def test_a_file_may_be_written_again_and_is_read_back(name, here, monkeypatch):
    release = release_of(ROWS)
    release.write(name)
    first = Path(name).read_bytes()
    release.write(name)
    assert Path(name).read_bytes() == first and stat.S_IMODE(os.stat(name).st_mode) == 0o666 & ~umask()
    monkeypatch.chdir("more")
    assert release.to_arrow().num_rows == 7
    monkeypatch.chdir(here)
    release = release_of(ROWS)
    release.write(name)
    Path("other.csv").write_bytes(Path(name).read_bytes())
    Path("other.csv").replace(name)
    for look in (release.to_arrow, lambda: release.write("again.csv")):
        with pytest.raises(RefusalError, match="no longer the file"):
            look()


def umask() -> int:
    found = os.umask(0o077)
    os.umask(found)
    return found


REPORT = Report("name", "claim", False, 0.0, 0.0, 0.95, 1e-6, None, 1, 0.0, ())
WRITERS = {
    ".csv": lambda release, path: release.write(path),
    ".png": bar_chart,
    ".html": lambda _, path: REPORT.write(path),
}


NO_PLACES = {
    "a\0b.csv": "name that a file can have",
    "folder.csv": "not of a folder",
    "x" * 252 + ".csv": "too long",
    "pipe.csv": "regular file, as",
    "pipe.png": "regular file, as",
    "pipe.html": "regular file, as",
    "socket.csv": "regular file, as",
    "source.png": "plot path.*a file other than the source",
}


def test_what_is_no_place_for_a_file_costs_nothing(here):
    """Nor is a pipe replaced, or a socket, by anything that writes."""
    Path("folder.csv").mkdir()
    os.mkfifo("pipe.csv"), os.mkfifo("pipe.png"), os.mkfifo("pipe.html")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket.csv")
    Path("source.png").symlink_to("rows.parquet")
    release, before = release_of("rows.parquet"), held(here)
    for path, told in NO_PLACES.items():
        with pytest.raises((ParameterError, OSError), match=told):
            WRITERS.get(Path(path).suffix, WRITERS[".csv"])(release, path)
    with pytest.raises(ParameterError, match="must be a path"):
        release.write(3)
    assert not release._started and held(here) == before
    assert stat.S_ISFIFO(os.lstat("pipe.csv").st_mode) and stat.S_ISSOCK(os.lstat("socket.csv").st_mode)


@pytest.mark.parametrize("at", [1, pytest.param(2, marks=pytest.mark.long)])
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


def test_what_becomes_a_source_after_the_first_look_is_not_written_over(here, monkeypatch):
    """By whoever may write to the folder, while the noise is drawn."""
    Path("out").mkdir()
    release, before = release_of("more/a.parquet"), Path("more/a.parquet").read_bytes()
    looked = Release._check_no_source

    def look(*arguments):
        looked(*arguments)
        monkeypatch.setattr(Release, "_check_no_source", looked)
        os.rename("out", "old")
        os.symlink("more", "out")

    monkeypatch.setattr(Release, "_check_no_source", look)
    with pytest.raises(ParameterError, match="a file other than the source of the rows"):
        release.write("out/a.parquet")
    assert Path("more/a.parquet").read_bytes() == before
    assert not list(here.rglob("*.part"))


@pytest.mark.parametrize("name", ["out.csv", "out.png"])
def test_no_link_is_followed(name, here):
    """Neither one of the old name of unfinished files nor one of the file's own name."""
    Path("kept").write_text("kept")
    Path(name).symlink_to("kept")
    Path(f"{name}.part").symlink_to("kept")
    release = release_of(ROWS)
    if name.endswith("png"):
        bar_chart(release, name)
    else:
        release.write(name)
    assert Path("kept").read_text() == "kept"
    assert not Path(name).is_symlink()
    assert Path(f"{name}.part").is_symlink()
    assert len([p for p in here.iterdir() if p.suffix == ".part"]) == 1
