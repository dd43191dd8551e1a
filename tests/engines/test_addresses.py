"""Files at an address: fetched whole from servers of this machine, and told of without keys."""

from __future__ import annotations

import gzip
import io
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.duckdb import file_paths, resources
from sfumato.errors import EngineError

pytestmark = pytest.mark.usefixtures("keys_of_nobody")

# Servers of this machine that give files as S3, Google's storage and a web server do; no request leaves it.

WRITTEN = "2026-01-02T03:04:05.000Z"
HTTP_WRITTEN = "Fri, 02 Jan 2026 03:04:05 GMT"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    files: Mapping[str, bytes]
    asked: list[str]
    refused = False
    cut = False

    def log_message(self, *said):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        self.asked.append(f"{self.command} {self.path}")
        parts = urlsplit(self.path)
        if self.refused:
            return self.give(b"the key of zoe is wrong", status=403)
        return self.answer(unquote(parts.path).lstrip("/"), parse_qs(parts.query))

    def answer(self, path: str, options: dict[str, list[str]]):
        raise NotImplementedError

    def under(self, options: dict[str, list[str]]) -> tuple[list[str], list[str]]:
        """Return the files and folders right under a prefix; all files where folders are not told apart."""
        prefix = options.get("prefix", [""])[0]
        names = [name for name in sorted(self.files) if name.startswith(prefix)]
        if "delimiter" not in options:
            return names, []
        folders = {
            prefix + n.removeprefix(prefix).split("/")[0] + "/"
            for n in names
            if "/" in n.removeprefix(prefix)
        }
        return [name for name in names if "/" not in name.removeprefix(prefix)], sorted(folders)

    def file(self, name: str):
        if name not in self.files:
            return self.give(b"", status=404)
        return self.give(self.files[name], "application/octet-stream")

    def give(self, content: bytes, kind: str = "text/plain", status: int = 200):
        size, ranged = len(content), self.headers.get("Range")
        if ranged and status == 200:
            first, _, last = ranged.removeprefix("bytes=").partition("-")
            end = int(last) + 1 if last else size
            content, status = content[int(first) : end], 206
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{hash(content)}-{size}"')
        self.send_header("Last-Modified", HTTP_WRITTEN)
        self.send_header("Accept-Ranges", "bytes")
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{int(first) + len(content) - 1}/{size}")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if self.cut else content)
            if self.cut:
                self.close_connection = True


class Web(_Handler):
    """A web server."""

    def answer(self, path, options):
        return self.file(path)


class S3(_Handler):
    """S3, as far as files are listed and read; who asks, and with which keys, is not looked at."""

    def answer(self, path, options):
        _, _, key = path.partition("/")
        if not key:
            return self.give(self.listed(options).encode(), "application/xml")
        return self.file(key)

    def listed(self, options: dict[str, list[str]]) -> str:
        files, folders = self.under(options)
        found = "".join(
            f"<Contents><Key>{escape(name)}</Key><Size>{len(self.files[name])}</Size>"
            f"<LastModified>{WRITTEN}</LastModified></Contents>"
            for name in files
        ) + "".join(f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in folders)
        return (
            '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>bucket</Name><KeyCount>{len(files) + len(folders)}</KeyCount>"
            f"<IsTruncated>false</IsTruncated>{found}</ListBucketResult>"
        )


@contextmanager
def served(kind: type[_Handler], files: Mapping[str, bytes]) -> Iterator[tuple[str, type[_Handler]]]:
    """Give the host and port of a server, and its handler, which notes what it was asked."""
    handler = type(kind.__name__, (kind,), {"files": files, "asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}", handler
        finally:
            server.shutdown()
            thread.join()


TABLE = pa.table({"id": [i // 2 for i in range(60)], "x": [float(i % 11) for i in range(60)]})
ADDRESSES = {
    Web: "http://{}/{}",
    S3: "s3://bucket/{1}?endpoint_override={0}&scheme=http&region=eu-west-1",
}


@pytest.fixture
def keys_of_nobody(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "zoe")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hers-alone")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def parquet(table):
    written = io.BytesIO()
    pq.write_table(table, written)
    return written.getvalue()


def csv(table):
    written = io.BytesIO()
    pyarrow.csv.write_csv(table, written)
    return written.getvalue()


FILES = {
    f"visits/year={2000 + part}/part.parquet": parquet(TABLE.slice(20 * part, 20)) for part in range(3)
} | {
    "visits.parquet": parquet(TABLE),
    "visits.csv.gz": gzip.compress(csv(TABLE)),
    "visits.csv": csv(TABLE),
    "about.txt": b"nothing",
    "a=b:c/v.csv": b"id\n1\n",
}


def rows_at(source, **options):
    """The exact number of rows: an epsilon of 2,000 is noise below a half, but once in 10^400."""
    table = sf.scan(source, privacy_unit="id", **options)
    told = table.bound(rows=2).agg(n=sf.count()).release(epsilon=4000).to_arrow()
    return told["n"].to_pylist(), list(table.schema)


@pytest.mark.noise_cannot_matter("noise of scale 2/4000 is rounded to nothing")
@pytest.mark.parametrize("kind", [Web, S3])
def test_files_of_every_server(kind):
    with served(kind, FILES) as (host, _):
        for name in ("visits.parquet", "visits.csv.gz"):
            assert rows_at(ADDRESSES[kind].format(host, name)) == ([60], ["id", "x"])
        if kind is Web:
            assert rows_at(f"HTTP://{host}/visits.parquet") == ([60], ["id", "x"])
            return
        for pattern in ("visits/*/*.parquet", "visits/**/part.parquet"):
            assert rows_at(ADDRESSES[kind].format(host, pattern)) == ([60], ["id", "x", "year"])
        both = [ADDRESSES[kind].format(host, f"visits/year={year}/part.parquet") for year in (2000, 2002)]
        assert rows_at(both) == ([40], ["id", "x", "year"])


def test_a_file_that_did_not_change_is_fetched_once_for_this_user_alone():
    files = dict(FILES)
    with served(Web, files) as (host, server):
        address = ADDRESSES[Web].format(host, "visits.csv")
        for _ in range(2):
            sf.scan(address, privacy_unit="id")
        (copy,) = file_paths.fetched(address, ".csv", file_paths.Resources())
        assert server.asked.count("GET /visits.csv") == 1
        assert "/sfumato-spill-" in copy and Path(copy).parent.stat().st_mode & 0o777 == 0o700
        files["visits.csv"] = csv(TABLE.append_column("y", TABLE["x"]))
        assert list(sf.scan(address, privacy_unit="id").schema) == ["id", "x", "y"]


SECRETS = {"hers-alone", "3f9", "zoe"}


def test_a_server_that_refuses():
    for kind, address in (
        (Web, "http://{}/visits.parquet?signature=3f9"),
        (S3, "s3://bucket/visits.parquet?endpoint_override={}&scheme=http"),
    ):
        with served(kind, FILES) as (host, server):
            server.refused = True
            check_says(address.format(host), "refuses access")


NO_FILES = {
    "http://{}/nothing.parquet?signature=3f9": "there is no such file, or no server that answers",
    "http://zoe:hers-alone@{}/visits.parquet": "has a password in it; leave it out",
    "http://{}/about.txt?signature=3f9": "ends in '.txt', which is none of .parquet",
    "http://{}/": "ends in ''",
    "s3://bucket/visits.csv?endpoint={}&token=3f9": "an option in its address is none that is known",
    "gopher://{}/visits.parquet?signature=3f9": "no source begins with 'gopher://'",
    "az://bucket/visits.parquet?signature=3f9": "what speaks to such servers is not installed",
    "s3://bucket/n*.parquet?endpoint_override={}&scheme=http": "there is no file 's3://bucket/n*.parquet'",
    "s3://bucket/a=b:c/v.csv?endpoint_override={}&scheme=http": "has a name that is none on this machine",
}


def test_addresses_of_no_file():
    with served(S3, FILES) as (s3, _), served(Web, FILES) as (web, _):
        for address, says in NO_FILES.items():
            check_says(address.format(s3 if address.startswith("s3") else web), says)


def check_says(address, says):
    with pytest.raises(EngineError, match=re.escape(says)) as refused:
        sf.scan(address, privacy_unit="id")
    assert not any(secret in str(refused.value) for secret in SECRETS)
    assert refused.value.__cause__ is refused.value.__context__ is None


def test_a_file_that_breaks_off_is_not_taken_for_whole():
    with served(Web, FILES) as (host, server):
        server.cut, before = True, set(Path(resources.spill_folder()).rglob("*"))
        check_says(f"http://{host}/visits.csv?signature=3f9", "cannot be fetched")
    assert set(Path(resources.spill_folder()).rglob("*")) == before


def test_without_fsspec_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    check_says("https://example.org/visits.csv", "pip install 'sfumato[remote]'")
