"""Secrets of releases that workers look up where they run, so that what is staged does not hold them.

A secret serves many releases: the key of each is made from it and from the release's public random number.
Workers that find another secret would draw another noise for a release that is paid for once, so they are
held to a fingerprint that is taken when the release is made.
"""

from __future__ import annotations

import base64
import hmac
import os
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import field, replace
from itertools import pairwise
from typing import Any, Self

from sfumato.dataclass import dataclass
from sfumato.errors import EngineError, QueryError, with_article
from sfumato.files import check_private

BYTES = 32
# Of 32 random bytes, or of their 31 steps, fewer than 13 are different with a chance below 10^-20, and
# they are UTF-8 with one of about 10^-8.
_DIFFERENT = 13
# Its name stands before it: a secret is as many digits, and whoever gave one for the other would stage it.
_FINGERPRINT = re.compile("fingerprint:[0-9a-f]{64}")
# What base64 makes of 32 bytes, or of twice as many: no variable is called so, and no file.
_BASE64 = re.compile("[A-Za-z0-9+/_-]{42,}=+")
# By fingerprint: a key service is asked once by each process.
_found: dict[str, bytes] = {}


@dataclass(frozen=True)
class Secret(ABC):
    """Where workers find at least 32 secret random bytes, the same on all of them and from run to run.

    Args:
        fingerprint: of the secret, as `taken` tells it; needed where the program that makes a release cannot
            read the secret itself. It may be known to everybody.
    """

    fingerprint: str | None = field(default=None, kw_only=True)

    @abstractmethod
    def read(self) -> bytes:
        """Return the secret.

        Raises:
            EngineError: it is not there, or is none; its text does not quote what was found.
        """

    def taken(self) -> str:
        """Return the fingerprint of the secret found here.

        Returns:
            Text for `fingerprint`, which may be public.
        Raises:
            EngineError: there is no secret.

        >>> import secrets
        >>> secret = secrets.token_bytes(32)  # yours asks a key service
        >>> CallableSecret(lambda: secret).taken()
        'fingerprint:...'
        """
        return _mark(self._check())

    def _seal(self) -> Self:
        """Return the worker secret with its fingerprint, which every worker is held to.

        Raises:
            QueryError: there is no secret here and no fingerprint, or the one is not of the other.
        """
        try:
            mark = self.taken()
        except EngineError as error:
            if self.fingerprint is None:
                raise QueryError(
                    f"{error}. If this program may not read the secret, pass fingerprint=..., from "
                    f"{type(self).__name__}(...).taken() where it can be read"
                ) from None
            if not _FINGERPRINT.fullmatch(str(self.fingerprint)):
                raise QueryError(
                    f"{self.place}: fingerprint=... is not what {type(self).__name__}(...).taken() returns"
                ) from None
            return self
        if self.fingerprint not in (None, mark):
            raise QueryError(f"{self.place}: the secret does not match fingerprint=...")
        return replace(self, fingerprint=mark)

    def _key(self, release: bytes) -> bytes:
        """Return the key of one release from the worker secret.

        Args:
            release: the public random number of the release.
        Raises:
            EngineError: there is no secret here, or another one than the release was made with.
        """
        secret = _found.get(self.fingerprint or "")
        if secret is None:
            secret = self._check()
            if _mark(secret) != self.fingerprint:
                raise EngineError(
                    f"{self.place}: this worker's secret differs from the one the release was made "
                    "with, so it would draw other noise. Give all workers the same secret for as "
                    "long as the pipeline can run"
                )
            _found[self.fingerprint] = secret
        return hmac.digest(secret, b"sfumato release " + release, "sha256")

    def _is_in(self, data: bytes) -> bool:
        """Whether data that is sent along holds the worker secret itself."""
        try:
            secret = self._check()
        except EngineError:
            return False
        digits = secret.hex().encode()
        # A number has its bytes in the other order.
        numbers = (secret, secret[::-1])
        texts = (*numbers, digits, digits.upper(), base64.b64encode(secret), base64.urlsafe_b64encode(secret))
        return any(text.rstrip(b"=") in data for text in texts)

    @property
    @abstractmethod
    def place(self) -> str:
        """The place of the worker secret, for messages."""

    def _check(self) -> bytes:
        secret = self.read()
        if not isinstance(secret, bytes) or len(secret) < BYTES or _guessable(secret):
            raise EngineError(
                f"{self.place}: it does not hold {BYTES} or more secret random bytes, such as "
                "secrets.token_bytes(32). A text or a counter could be guessed from its fingerprint"
            )
        return secret


@dataclass(frozen=True)
class EnvironmentSecret(Secret):
    """A secret in an environment variable of the workers, as 64 or more hexadecimal digits.

    Pass it as `secret` to `Release`, which has an example. `python -c "import secrets;
    print(secrets.token_hex(32))"` makes one.

    Args:
        name: the name of the variable.
    Raises:
        QueryError: name is not text.

    >>> EnvironmentSecret("VISITS_SECRET").name
    'VISITS_SECRET'
    """

    name: str

    def __post_init__(self) -> None:
        _check_place("name", self.name, str)

    def read(self) -> bytes:
        """Return the secret in the variable.

        Raises:
            EngineError: the variable is not set, or has no hexadecimal digits.

        >>> import os
        >>> import secrets
        >>> os.environ["VISITS_SECRET"] = secrets.token_hex(32)  # in the environment of each worker
        >>> len(EnvironmentSecret("VISITS_SECRET").read())
        32
        >>> del os.environ["VISITS_SECRET"]
        """
        text = os.environ.get(self.name)
        if text is None:
            raise EngineError(f"{self.place}: it is not set")
        return _unhexed(text, self.place)

    @property
    def place(self) -> str:
        """Return the name of the variable."""
        return f"environment variable {self.name}"


@dataclass(frozen=True)
class FileSecret(Secret):
    """A secret in a file that only the workers can read, as 64 or more hexadecimal digits.

    Pass it as `secret` to `Release`, which has an example.

    Args:
        path: a path on a disk or a share that each worker mounts. The permissions must be 0600, 0640 or
            stricter, and the owner the worker's user or root.
    Raises:
        QueryError: the argument is not a path.

    >>> FileSecret("/run/secrets/visits").path
    '/run/secrets/visits'
    """

    path: str | os.PathLike[str]

    def __post_init__(self) -> None:
        _check_place("path", self.path, (str, os.PathLike))

    def read(self) -> bytes:
        """Return the secret in the file.

        Raises:
            EngineError: the file cannot be read, other users may read or change it, or it has no hexadecimal
                digits.

        >>> import pathlib, secrets, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "visits"
        ...     path.touch(mode=0o600)
        ...     _ = path.write_text(secrets.token_hex(32))
        ...     len(FileSecret(path).read())
        32
        """
        try:
            with open(self.path, encoding="ascii", errors="replace", opener=_open) as file:
                status = os.fstat(file.fileno())  # of what was opened, whatever has the name now
                text = file.read(1 << 16) if stat.S_ISREG(status.st_mode) else None
        except (OSError, ValueError) as error:  # a NUL in its name is a ValueError
            why = getattr(error, "strerror", "no file can have this name")
            raise EngineError(f"{self.place}: it cannot be read ({why})") from None
        if text is None:
            raise EngineError(f"{self.place}: it is not a regular file")
        check_private(status, self.place)
        return _unhexed(text, self.place)

    @property
    def place(self) -> str:
        """Return the path of the file."""
        return f"file {os.fspath(self.path)!r}"


@dataclass(frozen=True)
class CallableSecret(Secret):
    """A secret that your function fetches, for example from a key service; each process calls it once.

    Pass it as `secret` to `Release`, which has an example.

    Args:
        function: a function without arguments that returns at least 32 bytes. It is part of the description
            of the pipeline, with everything that it refers to: let it fetch the secret, not hold it.
    Raises:
        QueryError: the argument is not a function.

    >>> CallableSecret(lambda: bytes(32)).read() == bytes(32)  # yours asks a key service
    True
    """

    function: Callable[[], bytes] = field(repr=False)

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise _no_place("function", self.function, "a function without arguments that returns the secret")

    def read(self) -> bytes:
        """Return the result of the function.

        Returns:
            The secret.
        Raises:
            EngineError: the function raised; its message is left out because it may be the secret.
        """
        try:
            return self.function()
        except KeyboardInterrupt:  # of whoever sits before it
            raise
        except BaseException as error:  # clients of key services leave by sys.exit, or by a panic
            raised = type(error).__name__
        # Out of its reach, as its text, which may be the secret, would stay behind ours.
        raise EngineError(f"{self.place}: it raised {raised}")

    @property
    def place(self) -> str:
        """Return the name of the function."""
        return f"function {getattr(self.function, '__name__', type(self.function).__name__)}"


def seal_secret(secret: Secret | None) -> Secret | None:
    """Return a worker secret with its fingerprint, or None for one that is drawn and sent along.

    Raises:
        QueryError: it is no `Secret`, or there is neither a secret here nor its fingerprint.
    """
    if secret is None:
        return None
    if not isinstance(secret, Secret):  # which is not quoted, as it may be one
        raise QueryError(
            f"secret is {with_article(type(secret).__name__)}, but must be an EnvironmentSecret, a "
            f"FileSecret or a "
            "CallableSecret, or left out"
        )
    return secret._seal()


def _open(path: str, flags: int) -> int:
    # A pipe without a writer would be waited for.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _check_place(argument: str, value: object, kinds: type | tuple[type, ...]) -> None:
    """Refuse a place that is no name or path, or that seems to be the secret itself."""
    asked = f"{argument} of the secret"
    text = _text(value) if isinstance(value, kinds) else None
    if text is None:
        raise _no_place(argument, value, asked)
    if len(_digits(text) or b"") >= BYTES or _BASE64.fullmatch(text):
        raise QueryError(f"{argument} seems to be a secret itself, but must be the {asked}")


def _text(value: Any) -> str | None:
    """Return the place of a secret as text; None where it is none."""
    try:
        text = os.fspath(value)
        os.fsencode(text)
    except Exception:
        return None
    return text if isinstance(text, str) else None


def _no_place(argument: str, value: object, requested: str) -> QueryError:
    return QueryError(f"{argument} is {with_article(type(value).__name__)}, but must be the {requested}")


def _mark(secret: bytes) -> str:
    return "fingerprint:" + hmac.digest(secret, b"sfumato fingerprint", "sha256").hex()


def _guessable(secret: bytes) -> bool:
    """Whether a secret is seen to be not random: a text, a pattern."""
    steps = {(b - a) % 256 for a, b in pairwise(secret)}
    return _is_text(secret) or min(len(set(secret)), len(steps)) < _DIFFERENT


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _unhexed(text: str, place: str) -> bytes:
    found = _digits(text)
    if found is None:
        raise EngineError(f"{place}: it does not hold hexadecimal digits")
    return found


def _digits(text: str) -> bytes | None:
    """Return the bytes of a secret's hexadecimal digits; None where they are none."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None
