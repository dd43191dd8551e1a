"""Secrets of releases on Beam that workers look up, so that what is staged does not hold them."""

from __future__ import annotations

import base64
import bz2
import hashlib
import os
import re
import stat
import zlib
from dataclasses import replace
from functools import partial
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.beam import (
    CallableSecret,
    EnvironmentSecret,
    FileSecret,
    Release,
)
from sfumato.engines import worker_secret as secret_module
from sfumato.errors import EngineError, QueryError

SCHEMA = pa.schema([("id", pa.int64()), ("place", pa.string())])
KEYS = [f"p{i}" for i in range(8)]
# Fixed, so that what is found in a description does not depend on chance.
SECRET = hashlib.sha256(b"a secret of tests").digest()
OTHER = hashlib.sha256(b"another secret of tests").digest()
NAME = "SFUMATO_TEST_SECRET"


def question():
    table = sf.scan(SCHEMA, privacy_unit="id").group_by("place", keys=KEYS).bound(groups=1, rows=1)
    return table.agg(n=sf.count())


def rows() -> list[dict]:
    return [{"id": i, "place": f"p{i % 8}"} for i in range(400)]


@pytest.fixture(autouse=True)
def nothing_found(monkeypatch):
    """As in a process that looked for no secret yet."""
    monkeypatch.setattr(secret_module, "_found", {})


@pytest.fixture(params=["environment", "file", "function"])
def kept(request, monkeypatch, tmp_path):
    """A secret of each kind, and a function that puts another in its place."""
    path = tmp_path / "secret"

    def put(secret: bytes) -> None:
        monkeypatch.setenv(NAME, secret.hex())
        path.touch(mode=0o600)
        path.write_text(secret.hex() + "\n")

    put(SECRET)
    found = {
        "environment": EnvironmentSecret(NAME),
        "file": FileSecret(path),
        "function": CallableSecret(lambda: bytes.fromhex(os.environ[NAME])),
    }
    return found[request.param], put


def noise(work) -> list:
    return [
        row
        for shard in range(work.stages.group_shards)
        for b in work.released(shard, ())
        for row in b.to_pylist()
    ]


def test_each_release_has_a_key_of_its_own_and_repeats_its_noise(kept):
    secret, _ = kept
    one, other = (Release(question(), epsilon="1e-9", shards=2, secret=secret)._work for _ in range(2))
    assert noise(one) == noise(one)
    # Noise of scale 10^9: all 8 draws are equal with a chance below 10^-70.
    assert noise(one) != noise(other)
    assert one.secret == other.secret and one.release != other.release


def test_who_may_not_read_the_secret_gives_its_fingerprint(kept, monkeypatch):
    secret, put = kept
    mark = secret.taken()
    with monkeypatch.context() as context:
        context.delenv(NAME)
        if isinstance(secret, FileSecret):
            Path(secret.path).unlink()
        with pytest.raises(QueryError, match=r"pass fingerprint=..., from"):
            Release(question(), epsilon=1, secret=secret)
        work = Release(question(), epsilon=1, shards=2, secret=replace(secret, fingerprint=mark))._work
        assert work.schema.names == ["place", "n"]
    put(SECRET)
    assert len(noise(work)) == 8
    with pytest.raises(QueryError, match="does not match fingerprint"):
        Release(question(), epsilon=1, secret=replace(secret, fingerprint="fingerprint:" + "00" * 32))
    secret_module._found.clear()
    put(OTHER)
    with pytest.raises(EngineError, match="this worker's secret differs") as caught:
        noise(work)
    for text in (SECRET.hex(), OTHER.hex()):
        assert text not in str(caught.value) and text not in repr(work) and text not in repr(work.secret)


NONE = [
    (None, "it is not set"),
    (SECRET.hex()[:62], "does not hold 32 or more secret random bytes"),
    (b"the quick brown fox jumps over the lazy dog".hex(), "A text or a counter could be guessed"),
    (bytes(range(128, 192)).hex(), "A text or a counter could be guessed"),
]


def test_what_is_no_secret_is_refused_when_the_release_is_made(monkeypatch):
    budget = sf.Budget(1)
    for text, words in NONE:
        monkeypatch.delenv(NAME, raising=False)
        if text is not None:
            monkeypatch.setenv(NAME, text)
        with pytest.raises(QueryError, match=words) as caught:
            Release(question(), epsilon=1, secret=EnvironmentSecret(NAME), budget=budget)
        assert not text or text not in str(caught.value)
    for given in (SECRET, SECRET.hex(), lambda: SECRET):
        with pytest.raises(QueryError, match="must be an EnvironmentSecret") as caught:
            Release(question(), epsilon=1, secret=given, budget=budget)
        assert SECRET.hex() not in str(caught.value)
    assert budget.remaining == (1.0, 0.0, 1.0)


def test_a_file_that_others_may_read_or_change_is_refused(tmp_path, monkeypatch):
    """Who owns it may read and change it, whatever its rights are."""
    path = tmp_path / "secret"
    path.write_text(SECRET.hex())
    for rights, fits in ((0o600, True), (0o640, True), (0o644, False), (0o660, False)):
        path.chmod(rights)
        if fits:
            assert FileSecret(path)._seal().fingerprint
            continue
        with pytest.raises(QueryError, match="chmod 600"):
            Release(question(), epsilon=1, secret=FileSecret(path))
    path.chmod(0o600)
    found = os.fstat
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for owner, fits in ((0, True), (1000, True), (1001, False)):
        owned = lambda file, owner=owner: os.stat_result(  # noqa: E731
            [owner if i == stat.ST_UID else field for i, field in enumerate(found(file))]
        )
        monkeypatch.setattr(os, "fstat", owned)
        if fits:
            assert FileSecret(path)._seal().fingerprint
            continue
        with pytest.raises(QueryError, match="belongs to a user other than"):
            Release(question(), epsilon=1, secret=FileSecret(path))


WRITTEN = (
    SECRET, SECRET.hex(), SECRET.hex() + "\n", base64.b64encode(SECRET).decode(),
    base64.urlsafe_b64encode(2 * SECRET).decode(),
)  # fmt: skip


class Raising(os.PathLike):
    def __fspath__(self):
        raise ValueError(SECRET.hex())


@pytest.mark.parametrize("kind", [EnvironmentSecret, FileSecret, CallableSecret])
def test_a_secret_in_the_place_of_its_place_is_not_quoted(kind):
    """`EnvironmentSecret(os.environ["NAME"])`: it was quoted, and staged where a fingerprint was given."""
    for given in (*WRITTEN, Path(SECRET.hex()), "\ud800", None, 5, Raising()):
        with pytest.raises(QueryError, match="must be the") as caught:
            kind(given, fingerprint="fingerprint:" + "ab" * 32)
        said = "".join(str(error) for error in behind(caught.value))
        assert repr(SECRET) not in said and not any(str(text) in said for text in WRITTEN)


def test_a_fingerprint_that_is_none_is_refused_where_nothing_else_tells():
    """The secret itself for one: it has as many digits, and would be staged for everybody to see."""
    marks = ("ab" * 31, "AB" * 32, "no digits")
    for mark in ("", SECRET.hex(), *(f"fingerprint:{digits}" for digits in marks)):
        with pytest.raises(
            QueryError, match=r"fingerprint=... is not what EnvironmentSecret......taken.. returns"
        ):
            Release(question(), epsilon=1, secret=EnvironmentSecret("NOWHERE", fingerprint=mark))


def behind(error) -> list:
    """Return an error and all that is kept behind it."""
    return [error, *behind(error.__cause__), *behind(error.__context__)] if error else []


def test_nothing_of_a_secret_stays_behind_an_error(monkeypatch):
    """What a key service said was kept as `__context__`, where reporters of errors find it. Clients of such services leave
    by `sys.exit`, or by a panic."""

    class Service:
        def __call__(self):
            raise ValueError(SECRET.hex())

        def __repr__(self):
            return SECRET.hex()

    def fail(error=None):
        try:
            Service()()
        except ValueError as said:
            raise (error or EngineError)(SECRET.hex()) from said

    monkeypatch.setenv(NAME, SECRET.hex() + "no digits")
    leaving = [partial(fail, error) for error in (SystemExit, type("Panic", (BaseException,), {}))]
    for secret in (*map(CallableSecret, (Service(), fail, SECRET.hex, *leaving)), EnvironmentSecret(NAME)):
        for attempt in (
            secret.taken,
            secret._seal,
            lambda s=secret: replace(s, fingerprint="00")._key(b""),
        ):
            with pytest.raises((EngineError, QueryError), match="it raised|does not hold") as caught:
                attempt()
            assert not any(SECRET.hex() in str(error) for error in behind(caught.value))


def test_a_function_that_carries_the_secret_is_refused():
    carried, digits = bytes(SECRET), SECRET.hex()
    for function in (
        lambda: bytes.fromhex(carried.hex()),
        lambda text=digits: bytes.fromhex(text),
        lambda reversed=carried[::-1]: reversed[::-1],
    ):
        with pytest.raises(QueryError, match="the function holds the secret"):
            Release(question(), epsilon=1, secret=CallableSecret(function))


# What is staged


def spellings(secret: bytes) -> list[bytes]:
    return [
        secret, secret.hex().encode(), secret.hex().upper().encode(), base64.b64encode(secret).rstrip(b"="),
        base64.urlsafe_b64encode(secret).rstrip(b"="), repr(secret)[2:-1].encode(),
    ]  # fmt: skip


def layers(data: bytes, depth: int = 4) -> list[bytes]:
    """Return data, and what is in it in base64 and compressed, as Beam writes functions."""
    found = [data]
    for text in re.findall(rb"[A-Za-z0-9+/]{40,}={0,2}", data) if depth else ():
        for skip in range(4):
            part = text[skip:]
            try:
                inner = base64.b64decode(part + b"=" * (-len(part.rstrip(b"=")) % 4))
            except ValueError:
                continue
            for open_one in (bz2.decompress, zlib.decompress):
                try:
                    found += layers(open_one(inner), depth - 1)
                except (OSError, ValueError, zlib.error):
                    continue
    return found


def staged(transform, element=None) -> bytes:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    pipeline | beam.Create(rows() if element is None else element) | transform
    return pipeline.to_runner_api().SerializeToString()


def is_in(secret: bytes, data: bytes) -> bool:
    return any(spelling in layer for layer in layers(data) for spelling in spellings(secret))


@pytest.mark.long
def test_what_is_staged_does_not_hold_the_secret(kept):
    secret, _ = kept
    transform = Release(question(), epsilon=1, secret=secret)
    key = transform._work.secret._key(transform._work.release)
    data = staged(transform)
    assert is_in(transform._work.release, data)  # so that it would be found
    assert not is_in(SECRET, data) and not is_in(key, data)
