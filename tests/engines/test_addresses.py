"""Files at an address: fetched whole from servers of this machine, and told of without keys."""

import gzip
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import fsspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.duckdb import file_paths, resources
from sfumato.errors import EngineError


class Server(SimpleHTTPRequestHandler):
    """A web server that gives the files of a folder; no request leaves this machine."""

    asked: list[str]
    refused = cut = False

    def log_message(self, *said):
        pass

    def do_GET(self):
        self.asked.append(self.path)
        if self.refused:
            return self.send_error(403, "the key of zoe is wrong")
        return super().do_GET()

    def end_headers(self):
        file = Path(self.translate_path(self.path))
        if file.is_file():
            self.send_header("ETag", f'"{file.stat().st_size}"')
        super().end_headers()

    def copyfile(self, source, outputfile):
        content = source.read()
        outputfile.write(content[: len(content) // 2] if self.cut else content)


@contextmanager
def served(folder) -> Iterator[tuple[str, type[Server]]]:
    """Give the host and port of a server, and its handler, which notes what it was asked."""
    handler = type("Handler", (Server,), {"asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder))) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}", handler
        finally:
            server.shutdown()
            thread.join()


TABLE = pa.table({"id": [i // 2 for i in range(60)], "x": [float(i % 11) for i in range(60)]})


def as_bytes(write, table=TABLE) -> bytes:
    written = io.BytesIO()
    write(table, written)
    return written.getvalue()


@pytest.fixture
def folder(tmp_path):
    csv = as_bytes(pyarrow.csv.write_csv)
    files = {
        "visits.parquet": as_bytes(pq.write_table),
        "visits.csv": csv,
        "visits.csv.gz": gzip.compress(csv),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def rows_at(source):
    """The exact number of rows: an epsilon of 4,000 is noise below a half, but once in 10^400."""
    table = sf.scan(source, privacy_unit="id")
    told = table.bound(rows=2).agg(n=sf.count()).release(epsilon=4000).to_arrow()
    return told["n"].to_pylist(), list(table.schema)


@pytest.mark.noise_cannot_matter("noise of scale 2/4000 is rounded to nothing")
def test_files_of_servers(folder):
    with served(folder) as (host, _):
        for address in (f"http://{host}/visits.parquet", f"HTTP://{host}/visits.csv.gz"):
            assert rows_at(address) == ([60], ["id", "x"])
    memory = fsspec.filesystem("memory")
    for part in range(3):
        memory.pipe(
            f"/visits/year={2000 + part}/part.parquet", as_bytes(pq.write_table, TABLE.slice(20 * part, 20))
        )
    for pattern in ("visits/*/*.parquet", "visits/**/part.parquet"):
        assert rows_at(f"memory://{pattern}") == ([60], ["id", "x", "year"])
    both = [f"memory://visits/year={year}/part.parquet" for year in (2000, 2002)]
    assert rows_at(both) == ([40], ["id", "x", "year"])


def test_a_file_that_did_not_change_is_fetched_once_for_this_user_alone(folder):
    with served(folder) as (host, server):
        address = f"http://{host}/visits.csv"
        for _ in range(2):
            sf.scan(address, privacy_unit="id")
        (copy,) = file_paths.fetch_files(address, ".csv", file_paths.Resources())
        assert server.asked.count("/visits.csv") == 1
        assert "/sfumato-spill-" in copy and Path(copy).parent.stat().st_mode & 0o777 == 0o700
        (folder / "visits.csv").write_bytes(
            as_bytes(pyarrow.csv.write_csv, TABLE.append_column("y", TABLE["x"]))
        )
        assert list(sf.scan(address, privacy_unit="id").schema) == ["id", "x", "y"]


NO_FILES = {
    "http://{}/nothing.parquet?signature=3f9": "there is no such file, or no server that answers",
    "http://zoe:hers-alone@{}/visits.parquet": "has a password in it. Leave it out",
    "s3://bucket/visits.csv?endpoint={}&token=3f9": "an option in its address is unknown",
    "az://bucket/visits.parquet?signature=3f9": "the package for such servers is not installed",
    "memory://a=b:c/v.csv": "has a name that is not valid on this machine",
}


def test_a_server_that_refuses(folder):
    with served(folder) as (host, server):
        server.refused = True
        check_says(f"http://{host}/visits.parquet?signature=3f9", "refuses access")


def test_addresses_of_no_file(folder):
    fsspec.filesystem("memory").pipe("/a=b:c/v.csv", b"id\n1\n")
    with served(folder) as (host, _):
        for address, says in NO_FILES.items():
            check_says(address.format(host), says)


def check_says(address, says):
    with pytest.raises(EngineError, match=re.escape(says)) as refused:
        sf.scan(address, privacy_unit="id")
    assert not any(secret in str(refused.value) for secret in ("hers-alone", "3f9", "zoe"))
    assert refused.value.__cause__ is refused.value.__context__ is None


def test_a_file_that_breaks_off_is_not_taken_for_whole(folder):
    with served(folder) as (host, server):
        server.cut, before = True, set(Path(resources.spill_folder()).rglob("*"))
        check_says(f"http://{host}/visits.csv?signature=3f9", "cannot be downloaded")
    assert set(Path(resources.spill_folder()).rglob("*")) == before
