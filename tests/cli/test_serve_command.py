"""`sfumato serve` and `sfumato token`: what they refuse before anything listens, and what they print."""

import re
import socket

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.errors import QueryError
from sfumato.service.access_tokens import Caller, Tokens
from sfumato.service.server import Settings


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


def test_a_port_in_use_is_said_before_anything_is_made(clinic, run):
    before = sorted(clinic.iterdir())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", "clinic.toml", "--port", str(port))
    assert done.exit_code == 1 and done.stdout == "" and sorted(clinic.iterdir()) == before
    said = " ".join(done.stderr.split())
    assert said.startswith(f"error: port {port} of 127.0.0.1 is in use by another program")
    assert "{" not in said


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"host": "0.0.0.0"}, "cross the network unencrypted"),
        ({"host": "::"}, "cross the network unencrypted"),
        ({"certfile": "c"}, "keyfile is missing. Give both"),
        ({"keyfile": "k"}, "certfile is missing. Give both"),
        ({"workers": 0}, "workers is 0"),
        ({"seconds": float("nan")}, "seconds is nan"),
        ({"constant_time": float("nan")}, "constant_time is nan"),
        ({"port": 65_536}, "port is 65536"),
    ],
)
def test_settings_that_are_refused(settings, says):
    with pytest.raises(QueryError, match=says):
        Settings("clinic.toml", **settings)
