"""Memory, threads and the folder to spill in: what is taken, refused, and that no number follows from it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.duckdb import resources
from sfumato.engines.duckdb.connection import connect
from sfumato.engines.duckdb.resources import Resources, checked_resources, machine_memory
from sfumato.errors import EngineError, ParameterError, QueryError
from sfumato.query.engine_protocol import ExactQuery
from sfumato.transformations import CountUnits

ROWS = pa.table({"id": [1, 1, 2], "k": [0, 1, 0]})
SQL = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = id) COUNT(*) AS n FROM t"


def settings(table: sf.Table) -> dict[str, str]:
    names = "memory_limit", "threads", "temp_directory"
    with table._engine._source.session() as session:
        return {n: str(session.execute(f"SELECT current_setting('{n}')").fetchone()[0]) for n in names}


def sources(folder: Path) -> list:
    import duckdb
    import pandas
    import polars

    pq.write_table(ROWS, folder / "rows.parquet")
    (folder / "rows.csv").write_text("id,k\n1,0\n")
    (folder / "rows.json").write_text('{"id": 1, "k": 0}\n')
    with duckdb.connect(folder / "rows.duckdb") as database:
        database.execute("CREATE TABLE t AS SELECT 1 AS id, 0 AS k")
    paths = [str(folder / name) for name in ("rows.parquet", "rows.csv", "rows.json", "rows.duckdb/t")]
    relation = duckdb.sql("SELECT 1 AS id, 0 AS k")
    batch, frame = ROWS.to_batches()[0], polars.from_arrow(ROWS)
    return [*paths, relation, ROWS, batch, frame, frame.lazy(), pandas.DataFrame({"id": [1], "k": [0]})]


def test_every_source_takes_them(tmp_path):
    spilled = tmp_path / "spilled"
    spilled.mkdir()
    for source in sources(tmp_path):
        limits = {"memory_limit": "1GiB", "threads": 1, "temp_directory": spilled}
        found = settings(sf.scan(source, privacy_unit="id", **limits))
        assert found["memory_limit"] == "1.0 GiB"
        assert found["threads"] == "1"
        assert Path(found["temp_directory"]).parents[1] == spilled


def test_a_second_reading_of_parquet_keeps_them(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": [1, 2]}), path)
    limits = {"memory_limit": "1GiB", "threads": 1, "temp_directory": tmp_path}
    source = sf.scan(path, privacy_unit="id", **limits)._engine._source.again(["id"])
    with source.session() as session:
        found = session.execute(
            "SELECT current_setting('memory_limit'), current_setting('temp_directory')"
        ).fetchone()
    assert found[0] == "1.0 GiB"
    assert Path(found[1]).parents[1] == tmp_path


def test_the_default_is_a_share_of_the_machine():
    table = sf.scan(ROWS, privacy_unit="id")
    bytes_ = int(0.8 * machine_memory())
    limit = settings(table)["memory_limit"]
    assert abs(float(limit.split()[0]) - bytes_ / 1024**3) < 0.1 if limit.endswith("GiB") else True
    assert Resources().settings == {"memory_limit": f"{bytes_}B"}


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4GB", 4 * 10**9),
        ("512MiB", 512 << 20),
        (" 1.5 gib ", 3 << 29),
        ("100000KB", 10**8),
        ("2TB", 2 * 10**12),
    ],
)
def test_amounts(text, size):
    assert checked_resources(text, None, None).memory_bytes == size


def test_shares(monkeypatch):
    monkeypatch.setattr(resources, "machine_memory", lambda: 8 << 30)
    assert checked_resources("50%", None, None).memory_bytes == 4 << 30
    assert checked_resources("100%", None, None).memory_bytes == 8 << 30


BAD_AMOUNTS = [
    "",
    "4",
    "4 bytes",
    "-1GB",
    "1e9B",
    "GB",
    "99MB",
    "0%",
    "101%",
    "1GB; SET threads = 1",
    4_000_000_000,
    True,
    ["1GB"],
]


@pytest.mark.parametrize("value", BAD_AMOUNTS)
def test_amounts_that_are_none(value):
    with pytest.raises(ParameterError, match="memory_limit is .*, but must be at least 100MB, such as '4GB'"):
        sf.scan(ROWS, privacy_unit="id", memory_limit=value)


@pytest.mark.parametrize("value", [0, -1, 1.0, "2", True])
def test_threads_that_are_none(value):
    with pytest.raises(ParameterError, match="threads is .*, but must be a whole number of at least 1"):
        sf.scan(ROWS, privacy_unit="id", threads=value)


@pytest.mark.parametrize("value", ["nowhere", "file", "", "a\0b", b"bytes", 1, "closed"])
def test_folders_that_are_none(value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("closed").mkdir(mode=0o500)
    monkeypatch.setattr(os, "access", lambda path, how: Path(path).stat().st_mode & 0o200)
    with pytest.raises(
        ParameterError, match="temp_directory is .* must be a folder that is there and that you"
    ):
        sf.scan(ROWS, privacy_unit="id", temp_directory=value)


def test_they_are_checked_before_a_source_is_looked_at():
    with pytest.raises(ParameterError, match="memory_limit"):
        sf.scan("no such file.parquet", privacy_unit="id", memory_limit="much")


@pytest.mark.parametrize("given", [{"memory_limit": "1GB"}, {"threads": 1}, {"temp_directory": "."}])
def test_workers_have_limits_of_their_own(given):
    with pytest.raises(QueryError, match=f"{next(iter(given))} is for rows that are read in this process"):
        sf.scan(ROWS.schema, privacy_unit="id", **given)


def test_sql_takes_them():
    release = sf.sql(SQL, tables={"t": ROWS}, memory_limit="1GiB", threads=1)
    with release._engine._source.session() as session:
        assert session.execute("SELECT current_setting('threads')").fetchone() == (1,)
    with pytest.raises(ParameterError, match="threads is 0"):
        sf.sql(SQL, tables={"t": ROWS}, threads=0)


# A machine's memory.


def test_limits_of_control_groups(tmp_path, monkeypatch):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "memory.max").write_text("1073741824\n")
    (tmp_path / "a" / "b" / "memory.max").write_text("max\n")
    own = tmp_path / "cgroup"
    own.write_text("0::/a/b\n7:blkio:/\nodd\n")
    monkeypatch.setattr(resources, "_CGROUPS", tmp_path)
    monkeypatch.setattr(resources, "_OWN_GROUPS", own)
    assert machine_memory.__wrapped__() == 1 << 30
    (tmp_path / "memory" / "c").mkdir(parents=True)
    (tmp_path / "memory" / "c" / "memory.limit_in_bytes").write_text("536870912\n")
    own.write_text("4:cpu,memory:/c\n0::/a/b\n")
    assert machine_memory.__wrapped__() == 512 << 20
    own.write_text("4:memory:/../../c\n")
    assert machine_memory.__wrapped__() > 1 << 30
    own.unlink()
    assert machine_memory.__wrapped__() > 1 << 30


# Where rows are spilled.

SPILLS = """
import os, sys
import pyarrow as pa
import sfumato as sf
from sfumato.query.engine_protocol import ExactQuery
from sfumato.transformations import CountUnits
import duckdb
rows = "rows.parquet"
duckdb.execute("SET enable_progress_bar = false")
duckdb.execute(f"COPY (SELECT i % 1_500_000 AS id, 'a private row ' || i AS k FROM range(3_000_000) t(i)) TO '{rows}'")
table = sf.scan(rows, privacy_unit="id", memory_limit="100MB", threads=1, temp_directory="spilled")
query = ExactQuery((), "id", ("k",), None, 1, (CountUnits(),))
groups, most = 0, 0
for batch in table._engine.statistics(query, 1 << 16):
    files = [(path, name) for path, _, names in os.walk("spilled") for name in names]
    most = max(most, len(files))
    groups += batch.num_rows
(folder,) = os.listdir("spilled")
print(groups, most > 0, oct(os.stat(f"spilled/{folder}").st_mode & 0o777), len(os.listdir(os.environ["TMPDIR"])))
sys.stdout.flush()
if len(sys.argv) > 1:
    os.kill(os.getpid(), 9)
"""


def spilled(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "spilled").mkdir(exist_ok=True)
    (folder / "temporary").mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-c", SPILLS, *arguments],
        cwd=folder,
        env=os.environ | {"TMPDIR": str(folder / "temporary")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
def test_rows_are_spilled_where_it_is_said_and_nobody_else_enters(tmp_path):
    done = spilled(tmp_path)
    assert done.stdout == "1500000 True 0o700 0\n", done.stderr
    assert list((tmp_path / "spilled").iterdir()) == []


@pytest.mark.long
def test_what_a_killed_process_left_there_is_swept_by_the_next(tmp_path):
    assert spilled(tmp_path, "killed").stdout.startswith("1500000 True")
    (left,) = (tmp_path / "spilled").iterdir()
    assert re.match(resources.LOCKED, left.name)
    code = """
import sfumato as sf, pyarrow as pa
rows = sf.scan(pa.table({"id": [1]}), privacy_unit="id", temp_directory="spilled")
rows.agg(n=sf.count_units()).release(epsilon=1).to_arrow()
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert list((tmp_path / "spilled").iterdir()) == []


def test_each_place_has_a_folder(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    places = {resources.spill_folder(str(one)), resources.spill_folder(str(other)), resources.spill_folder()}
    assert len(places) == 3
    assert resources.spill_folder(str(one)) in places
    for within in (str(one), str(other)):
        mine = resources._mine.pop(within)
        os.rmdir(mine.path)
        resources._close(mine)


@pytest.mark.long
def test_how_far_a_release_is_is_known():
    rows = pa.table({"id": np.arange(3_000_000) % 1_000_003, "k": np.arange(3_000_000) % 5})
    engine = sf.scan(rows, privacy_unit="id")._engine
    query = ExactQuery((), "id", ("k",), None, 2, (CountUnits(),))
    thread = threading.Thread(target=lambda: list(engine.statistics(query, 100)))
    thread.start()
    seen = set()
    while thread.is_alive():
        seen.add(engine.progress())
        thread.join(0.01)
    assert any(part is not None and 0 < part < 1 for part in seen)


def test_few_threads_and_little_memory_change_no_number():
    count = ExactQuery((), "id", ("k",), None, 2, (CountUnits(),))
    found = [
        pa.Table.from_batches(
            sf.scan(ROWS, privacy_unit="id", **limits)._engine.statistics(count, 100)
        ).to_pylist()
        for limits in ({}, {"memory_limit": "100MB", "threads": 1})
    ]
    assert found[0] == found[1]


def test_a_connection_without_a_word_takes_the_default():
    found = connect().execute("SELECT current_setting('threads')").fetchone()
    assert found[0] >= 1


def test_where_there_is_no_place_for_rows_it_is_said(monkeypatch, tmp_path):
    """As in a container that can be read alone; not that the source cannot be read, which it can."""

    def nowhere(*_: object, **__: object) -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    with monkeypatch.context() as now:
        now.setattr(resources, "_mine", {})
        now.setattr(resources.tempfile, "mkdtemp", nowhere)
        with pytest.raises(
            EngineError, match="no folder for rows that do not fit in memory can be made in TMPDIR"
        ):
            resources.spill_folder()
        with pytest.raises(EngineError, match="can be made in " + re.escape(str(tmp_path))):
            sf.scan(str(tmp_path / "a.parquet"), privacy_unit="id", temp_directory=tmp_path)
