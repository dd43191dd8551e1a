"""Tokens are shown once, kept as hashes, compared in constant time, and end when their owner says; who can read the files."""

import hmac
import os
import stat
import time

import pytest

import sfumato as sf
from sfumato.errors import EngineError, ParameterError, QueryError
from sfumato.service.access_tokens import Caller, Tokens
from sfumato.service.server import Settings, open_budgets, run


@pytest.fixture
def tokens(tmp_path):
    return Tokens(tmp_path / "tokens.db")


def test_the_file_holds_no_token(tokens):
    token = tokens.create("ann")
    _, known, secret = token.split("_", 2)
    held = tokens.path.read_bytes()
    assert known.encode() in held and secret.encode() not in held and secret[:20].encode() not in held
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600
    assert token not in repr(tokens.all())


def test_a_token_is_of_its_caller_and_every_character_matters(tokens):
    token, olga = tokens.create("ann"), tokens.create("olga", role="owner")
    assert tokens.caller(token) == Caller("ann", "analyst") and tokens.caller(olga) == Caller("olga", "owner")
    assert Tokens(tokens.path).caller(token) == Caller("ann", "analyst")
    assert len({tokens.create("ann") for _ in range(20)}) == 20
    for i in range(0, len(token), 3):
        for other in "aA_":
            if token[i] != other:
                assert tokens.caller(token[:i] + other + token[i + 1 :]) is None
    for other in ("", token + "\n", " " + token, token[:-1], token + "a", token.replace("_", "-", 1)):
        assert tokens.caller(other) is None
    # 43 characters hold 258 bits: were these decoded, four last characters would be one.
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    assert sum(tokens.caller(token[:-1] + last) is not None for last in alphabet) == 1


def test_hashes_are_compared_in_constant_time(tokens, monkeypatch):
    token, compared = tokens.create("ann"), []
    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append((a, b)) or real(a, b))
    unknown = f"sfumato_{'0' * 12}_{'A' * 43}"
    for given in (token, token[:-1] + ("A" if token[-1] != "A" else "B"), unknown):
        tokens.caller(given)
    assert len(compared) == 3 and all(len(a) == len(b) == 32 for a, b in compared)


def test_revoked_and_expired(tokens, monkeypatch):
    token, other, short = tokens.create("ann"), tokens.create("ann"), tokens.create("bob", days=1)
    tokens.revoke(tokens.all()[0].id)
    assert tokens.caller(token) is None and tokens.caller(other) is not None
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 86_401)
    assert tokens.caller(short) is None and tokens.caller(other) is not None
    assert [one.state for one in tokens.all()] == ["revoked", "valid", "expired"]
    with pytest.raises(QueryError, match="there is no token with the id 'nobody'"):
        tokens.revoke("nobody")


def test_what_cannot_be_created_or_opened(tokens, tmp_path):
    for name in ("", " ", "a ", "a\n", "x" * 101, None, 1):
        with pytest.raises(ParameterError, match="name is"):
            tokens.create(name)
    for wrong in ({"role": "root"}, {"days": 0}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            tokens.create("ann", **wrong)
    assert not tokens.all()
    with pytest.raises(EngineError, match="cannot be opened"):
        Tokens(tmp_path / "nowhere" / "tokens.db")
    (tmp_path / "text").write_text("not a database, and long enough to be read as one" * 50)
    (tmp_path / "text").chmod(0o600)
    with pytest.raises(EngineError, match="is not a file of tokens"):
        Tokens(tmp_path / "text")
    key = tokens.key("log")
    assert key == Tokens(tokens.path).key("log") != tokens.key("other") and len(key) == 32


def test_a_mistyped_path_of_tokens_is_refused_and_no_file_is_made(tmp_path):
    (tmp_path / "c.toml").write_text('[tables.v]\nsource = "v.csv"\npublic = true\n')
    (tmp_path / "v.csv").write_text("a\n1\n")
    for opened in (
        lambda place: Tokens(place, make=False),
        lambda place: run(Settings(str(tmp_path / "c.toml"), tokens=str(place), port=0)),
    ):
        with pytest.raises(EngineError, match="toknes.db cannot be opened: No such file"):
            opened(tmp_path / "toknes.db")
        assert not (tmp_path / "toknes.db").exists()


@pytest.mark.parametrize("rights", [0o604, 0o620, 0o601])
def test_files_that_others_can_read_or_change_are_refused(tmp_path, rights):
    Tokens(tmp_path / "tokens.db").create("ann")
    sf.Ledger(tmp_path / "budget.db").create("clinic", epsilon=1)
    for name, opened in (
        ("tokens.db", Tokens),
        ("budget.db", lambda place: open_budgets(str(place), "clinic")),
    ):
        path = tmp_path / name
        path.chmod(rights)
        with pytest.raises(EngineError, match=f"others may read or change it, with permissions {rights:o}"):
            opened(path)
        for allowed in (0o600, 0o640):
            path.chmod(allowed)
            opened(path)


def test_files_of_another_user_are_refused(tokens, monkeypatch):
    status = list(os.stat(tokens.path))
    status[4] = 12345
    monkeypatch.setattr(os, "fstat", lambda _: os.stat_result(status))
    with pytest.raises(EngineError, match="it belongs to a user other than"):
        Tokens(tokens.path)
