"""Access tokens of a service: random texts, of which only hashes are kept."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from sfumato.budget.ledger.ledger_entries import check_name
from sfumato.dataclass import dataclass
from sfumato.errors import EngineError, QueryError
from sfumato.exact import one_of, positive_int
from sfumato.files import check_private

ROLES = ("analyst", "owner")
_FORM = re.compile(r"sfumato_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_DAY = 86_400
_MADE = """
CREATE TABLE IF NOT EXISTS tokens (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, hash BLOB NOT NULL,
    created INTEGER NOT NULL, expires INTEGER, revoked INTEGER
) STRICT;
CREATE TABLE IF NOT EXISTS keys (use TEXT PRIMARY KEY, key BLOB NOT NULL) STRICT;
"""


@dataclass(frozen=True)
class Caller:
    """The person who a valid access token belongs to.

    Args:
        name: who pays, and whose history it is.
        role: "analyst", or "owner", who also sees all histories and metrics; rows nobody sees.
    """

    name: str
    role: str

    @property
    def is_owner(self) -> bool:
        """Whether the token's role is owner, who can see every history and the metrics."""
        return self.role == "owner"


@dataclass(frozen=True)
class Token:
    """What the token file keeps about a token, without the token itself.

    Args:
        id: its first part, by which it is revoked.
        name, role: whose it is.
        created, expires, revoked: seconds since 1970; None for never.
    """

    id: str
    name: str
    role: str
    created: int
    expires: int | None
    revoked: int | None

    @property
    def state(self) -> str:
        """Whether the token is valid, expired or revoked."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= time.time() else "valid"


class Tokens:
    """The access tokens of a service, in a file that only its owner can read.

    A token is 256 random bits, so one SHA-256 of it is as good as a slow hash, and quick enough.

    Args:
        path: of the file.
        make: make the file where it is not there; else that is an error, as of a mistyped path.
    Raises:
        EngineError: it is not there, cannot be opened, is no file of tokens, or others can read or change it.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> tokens = Tokens(Path(folder.name) / "tokens.db")
    >>> token = tokens.create("ann")
    >>> tokens.caller(token)
    Caller(name='ann', role='analyst')
    >>> tokens.revoke(tokens.all()[0].id)
    >>> tokens.caller(token) is None
    True
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str], *, make: bool = True) -> None:
        self.path: Path = Path(path).absolute()
        try:
            # Before SQLite makes it with the rights that are usual here.
            opened = os.open(self.path, os.O_RDWR | (os.O_CREAT if make else 0), 0o600)
            try:
                check_private(os.fstat(opened), f"tokens: {path}")
            finally:
                os.close(opened)
        except FileNotFoundError as error:
            raise EngineError(
                f"tokens: {path} cannot be opened: {error.strerror}. Give the right path with "
                "--tokens, or make the file with sfumato token create NAME"
            ) from None
        except OSError as error:
            raise EngineError(f"tokens: {path} cannot be opened: {error.strerror}") from None
        with self._open() as database:
            database.executescript(_MADE)

    def create(self, name: str, *, role: str = "analyst", days: int | None = None) -> str:
        """Create a token and return it; it is never shown again.

        Args:
            name: whose questions it asks; several tokens may be of one.
            role: "analyst" or "owner".
            days: how long it is valid; for ever where left out.
        Raises:
            ParameterError: one of them is not admissible.
        """
        check_name(name, "name")
        one_of(role, "role", ROLES)
        now = int(time.time())
        expires = None if days is None else now + positive_int(days, "days") * _DAY
        known, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        with self._open() as opened:
            opened.execute(
                "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, NULL)",
                (known, name, role, _hash(secret), now, expires),
            )
        return f"sfumato_{known}_{secret}"

    def all(self) -> list[Token]:
        """Return what is kept about each token, in order of creation."""
        with self._open() as opened:
            rows = opened.execute(
                "SELECT id, name, role, created, expires, revoked FROM tokens ORDER BY created, rowid"
            ).fetchall()
        return [Token(*row) for row in rows]

    def revoke(self, known: str) -> None:
        """Revoke a token, from the next request on.

        Raises:
            QueryError: there is none with this first part.
        """
        with self._open() as opened:
            changed = opened.execute(
                "UPDATE tokens SET revoked = coalesce(revoked, ?) WHERE id = ?", (int(time.time()), known)
            ).rowcount
        if not changed:
            raise QueryError(f"token: there is no token with the id {known!r}. See sfumato token list")

    def caller(self, token: str) -> Caller | None:
        """Return the caller who a token belongs to; None if it is unknown, expired or revoked."""
        form = _FORM.fullmatch(token)
        if form is None:
            return None
        known, secret = form.groups()
        with self._open() as opened:
            row = opened.execute(
                "SELECT hash, name, role, expires, revoked FROM tokens WHERE id = ?", (known,)
            ).fetchone()
        kept, name, role, expires, revoked = row or (bytes(32), "", "", None, 0)
        # What is compared is a hash, in a time that tells nothing of how much of it is right.
        right = hmac.compare_digest(_hash(secret), kept)
        valid = right and revoked is None and (expires is None or time.time() < expires)
        return Caller(name, role) if valid else None

    def key(self, use: str) -> bytes:
        """Return a 32-byte secret of the token file for one use, created on first access."""
        with self._open() as opened:
            opened.execute("INSERT OR IGNORE INTO keys VALUES (?, ?)", (use, secrets.token_bytes(32)))
            return bytes(opened.execute("SELECT key FROM keys WHERE use = ?", (use,)).fetchone()[0])

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        # For each use: a connection belongs to its thread, and what is revoked elsewhere is seen here.
        """Open the token file for one use, and report SQLite's errors in our words."""
        try:
            # A file that is gone is an error, and not an empty one that knows nobody.
            place = f"file:{quote(os.fsencode(self.path))}?mode=rw"
            with closing(sqlite3.connect(place, uri=True, timeout=10)) as opened, opened:
                yield opened
        except sqlite3.Error as error:
            raise EngineError(
                f"tokens: {self.path} is not a file of tokens, or cannot be used: {error}"
            ) from None


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
