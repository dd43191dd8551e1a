"""Which of many cases are in the first tier."""

from collections.abc import Iterable
from typing import Any

import pytest


def some(cases: Iterable[Any], every: int) -> list[Any]:
    """Return parameters, of which the first and every so-many-th one after it are in the first tier."""
    return [pytest.param(c, marks=() if i % every == 0 else pytest.mark.long) for i, c in enumerate(cases)]
