"""`sfumato serve` and `sfumato token`: what they refuse before anything listens, and what they print."""

from __future__ import annotations

import os
import re
import socket

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import EngineError, QueryError
from sfumato.service.access_tokens import Caller, Tokens
from sfumato.service.server import Settings, listening


@pytest.fixture
def clinic(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"id": [1, 2], "year": [2020, 2021]}), tmp_path / "visits.parquet")
    (tmp_path / "clinic.toml").write_text('[tables.visits]\nsource = "visits.parquet"\nprivacy_unit = "id"\n')
    return tmp_path


@pytest.mark.long
def test_a_token_is_made_listed_and_revoked(clinic, run):
    made = run("token", "create", "ann", "--days", "30")
    token = made.stdout.strip()
    assert made.exit_code == 0 and re.fullmatch(r"sfumato_[0-9a-f]{12}_[\w-]{43}", token)
    assert Tokens("tokens.db").caller(token) == Caller("ann", "analyst")
    assert run("token", "create", "olga", "--role", "owner").exit_code == 0
    listed = run("token", "list").stdout
    assert re.search(r"ann  analyst  valid  made \S+ until \S+\n.* olga  owner  valid  made \S+\n", listed)
    assert token not in listed and token.split("_", 2)[2] not in listed
    assert run("token", "revoke", token.split("_")[1]).exit_code == 0
    assert Tokens("tokens.db").caller(token) is None and "revoked" in run("token", "list").stdout


@pytest.mark.long
def test_what_must_be_there(clinic, run):
    run("token", "create", "ann")
    for prepare, says in (
        (lambda: None, "budget.db"),
        (lambda: sf.Ledger("budget.db").create("another", epsilon=1), "has no budget of 'clinic'"),
        (
            lambda: sf.Ledger("budget.db").create("clinic", epsilon=1) or os.remove("visits.parquet"),
            "visits.parquet",
        ),
    ):
        prepare()
        done = run("serve", "clinic.toml", "--port", "0")
        assert done.exit_code in (1, 2) and "Traceback" not in done.output and says in done.stderr


@pytest.mark.long
def test_a_mistyped_path_of_tokens_is_an_error(clinic, run):
    sf.Ledger("budget.db").create("clinic", epsilon=1)
    for command in (("serve", "clinic.toml", "--port", "0"), ("token", "list"), ("token", "revoke", "0")):
        done = run(*command, "--tokens", "toknes.db")
        said = " ".join(done.stderr.split())
        assert done.exit_code == 1 and "toknes.db cannot be opened" in said and "sfumato token create" in said
        assert not (clinic / "toknes.db").exists()


def test_a_port_in_use_is_said_before_anything_is_made(clinic, run):
    before = sorted(clinic.iterdir())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", "clinic.toml", "--port", str(port))
    assert done.exit_code == 1 and done.stdout == "" and sorted(clinic.iterdir()) == before
    said = " ".join(done.stderr.split())
    assert said.startswith(f"error: port {port} of 127.0.0.1 is in use by another program")
    assert "{" not in said


def test_a_port_is_held_on_each_address_and_given_back():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for _ in range(2):
        with listening(Settings("clinic.toml", host="localhost", port=port)) as held:
            for one in held:
                socket.create_connection(one.getsockname()[:2], 5).close()
            with (
                pytest.raises(EngineError, match=f"port {port} of localhost is in use"),
                listening(Settings("clinic.toml", host="localhost", port=port)),
            ):
                pass
    with (
        pytest.raises(EngineError, match="cannot listen on port 0 of 203.0.113.1: "),
        listening(Settings("clinic.toml", host="203.0.113.1", behind_proxy=True, port=0)),
    ):
        pass


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"host": "0.0.0.0"}, "in the clear"),
        ({"host": "::"}, "in the clear"),
        ({"certfile": "c"}, "belong together"),
        ({"workers": 0}, "workers is 0"),
        ({"seconds": float("nan")}, "seconds is nan"),
        ({"constant_time": float("nan")}, "constant_time is nan"),
        ({"port": 65_536}, "port is 65536"),
    ],
)
def test_settings_that_are_refused(settings, says):
    with pytest.raises(QueryError, match=says):
        Settings("clinic.toml", **settings)


def test_settings_that_are_not():
    for host in ("127.0.0.1", "::1", "localhost", "127.9.9.9"):
        assert Settings("data/clinic.toml", host=host).called == "clinic"
    assert Settings("clinic.toml", host="0.0.0.0", behind_proxy=True, dataset="x").called == "x"
    assert Settings("clinic.toml", host="0.0.0.0", certfile="c", keyfile="k")
