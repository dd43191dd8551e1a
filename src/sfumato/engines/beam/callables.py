"""Functions of users, which are given one private element at a time."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable
from typing import Any, TypeVar

from apache_beam.internal import pickler

from sfumato.engines.secret import CallableSecret, Secret, sealed
from sfumato.errors import QueryError

T = TypeVar("T")


def sealed_apart(secret: Secret | None) -> Secret | None:
    """Return a secret as `sealed` does, and refuse a function that carries it into the pipeline.

    Raises:
        QueryError: also where `sealed` does.
    """
    found = sealed(secret)
    if isinstance(found, CallableSecret):
        staged = attempted(None, lambda: pickler.dumps(found.function, use_zlib=True))
        if staged is None:
            raise QueryError(
                f"{found.place}: the function cannot be sent to workers; give one that stands in a module "
                "which they have"
            )
        if found._is_in(zlib.decompress(base64.b64decode(staged))):
            raise QueryError(
                f"{found.place}: the function carries the secret, which would be staged with it; fetch it "
                "inside the function, from where workers can"
            )
    return found


def attempted(otherwise: T, function: Callable[..., T], *arguments: Any) -> T:
    """Return what a function gives, or something else where it fails on a row, however it does."""
    try:
        return function(*arguments)
    except KeyboardInterrupt:  # of whoever sits before it
        raise
    except BaseException:  # parsers leave by sys.exit, Rust by a panic
        return otherwise
