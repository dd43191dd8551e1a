"""Tokens are shown once, kept as hashes, compared in constant time, and end when their owner says."""

from __future__ import annotations

import hmac
import stat
import time
from pathlib import Path

import pytest

from sfumato.errors import EngineError, ParameterError, QueryError
from sfumato.service.access_tokens import Caller, Tokens


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / "tokens.db")


def test_the_file_holds_no_token(tokens: Tokens) -> None:
    token = tokens.create("ann")
    _, known, secret = token.split("_", 2)
    held = tokens.path.read_bytes()
    assert known.encode() in held and secret.encode() not in held and secret[:20].encode() not in held
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600
    assert token not in repr(tokens.all())


def test_who_it_is(tokens: Tokens) -> None:
    ann, olga = tokens.create("ann"), tokens.create("olga", role="owner")
    assert tokens.caller(ann) == Caller("ann", "analyst") and tokens.caller(olga) == Caller("olga", "owner")
    assert Tokens(tokens.path).caller(ann) == Caller("ann", "analyst")
    assert len({tokens.create("ann") for _ in range(20)}) == 20


def test_every_character_matters(tokens: Tokens) -> None:
    token = tokens.create("ann")
    for i in range(len(token)):
        for other in "aA0_":
            if token[i] != other:
                assert tokens.caller(token[:i] + other + token[i + 1 :]) is None
    for other in ("", token + "\n", " " + token, token[:-1], token + "a", token.replace("_", "-", 1)):
        assert tokens.caller(other) is None


def test_the_last_character_has_no_twin(tokens: Tokens) -> None:
    """43 characters hold 258 bits: were these decoded, four last characters would be one."""
    token = tokens.create("ann")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    assert sum(tokens.caller(token[:-1] + last) is not None for last in alphabet) == 1


def test_hashes_are_compared_in_constant_time(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    token, compared = tokens.create("ann"), []
    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append((a, b)) or real(a, b))
    unknown = f"sfumato_{'0' * 12}_{'A' * 43}"
    for given in (token, token[:-1] + ("A" if token[-1] != "A" else "B"), unknown):
        tokens.caller(given)
    assert len(compared) == 3 and all(len(a) == len(b) == 32 for a, b in compared)


def test_revoked_and_expired(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    token, other, short = tokens.create("ann"), tokens.create("ann"), tokens.create("bob", days=1)
    tokens.revoke(tokens.all()[0].id)
    assert tokens.caller(token) is None and tokens.caller(other) is not None
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 86_401)
    assert tokens.caller(short) is None and tokens.caller(other) is not None
    assert [one.state for one in tokens.all()] == ["revoked", "valid", "expired"]
    with pytest.raises(QueryError, match="there is none with the id 'nobody'"):
        tokens.revoke("nobody")


@pytest.mark.parametrize("name", ["", " ", "a ", "a\n", "x" * 101, None, 1])
def test_names(tokens: Tokens, name: object) -> None:
    with pytest.raises(ParameterError, match="name is"):
        tokens.create(name)


def test_other_arguments(tokens: Tokens, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="role"):
        tokens.create("ann", role="root")
    with pytest.raises(ParameterError, match="days"):
        tokens.create("ann", days=0)
    assert not tokens.all()
    with pytest.raises(EngineError, match="cannot be opened"):
        Tokens(tmp_path / "nowhere" / "tokens.db")
    (tmp_path / "text").write_text("not a database, and long enough to be read as one" * 50)
    (tmp_path / "text").chmod(0o600)
    with pytest.raises(EngineError, match="no file of tokens"):
        Tokens(tmp_path / "text")


def test_keys_stay(tokens: Tokens) -> None:
    assert (
        tokens.key("log") == Tokens(tokens.path).key("log") != tokens.key("other")
        and len(tokens.key("log")) == 32
    )
