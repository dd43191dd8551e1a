"""Plain data as bytes that are equal where it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def canonical_bytes(content: Mapping[str, Any]) -> bytes:
    """Return plain data as bytes, which are equal where it is: JSON with sorted keys, in ASCII.

    >>> canonical_bytes({"b": [1, None], "a": "é"})
    b'{"a":"\\\\u00e9","b":[1,null]}'
    """
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
