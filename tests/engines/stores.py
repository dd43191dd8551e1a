"""Servers of this machine that give files as S3, Google's storage and a web server do; no request leaves it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

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


class Google(_Handler):
    """Google's storage, as far as files are listed and read."""

    def answer(self, path, options):
        _, _, name = path.partition("/o/")
        if path.endswith("/o"):
            files, folders = self.under(options)
            items = [self.told(one) for one in files]
            return self.json({"kind": "storage#objects", "items": items, "prefixes": folders})
        if options.get("alt") == ["media"]:
            return self.file(name)
        if "/o/" in path:
            return self.json(self.told(name)) if name in self.files else self.json({}, 404)
        if path.startswith("storage/"):
            return self.json({"kind": "storage#bucket", "name": "bucket", "id": "bucket"})
        return self.file(path.partition("/")[2])

    def told(self, name: str) -> dict[str, str]:
        size = str(len(self.files[name]))
        times = {"updated": WRITTEN, "timeCreated": WRITTEN}
        return {
            "kind": "storage#object",
            "name": name,
            "bucket": "bucket",
            "size": size,
            "generation": "1",
        } | times

    def json(self, content: object, status: int = 200):
        return self.give(json.dumps(content).encode(), "application/json", status)


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
